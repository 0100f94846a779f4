// Proves: lines of metrics are JSON and come back as they were, NaN and infinities included; a resumed run drops
// the lines that it says again, and what a kill cut off; what is no line is told with its number.
#include "runtime/metrics.h"

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/unit.h"

static char path[] = "/tmp/ptc_metrics_XXXXXX";

static void test_set_up(void) {
  int fd = mkstemp(path);
  CU_ASSERT_FATAL(fd >= 0);
  close(fd);
}

static void test_clean_up(void) { CU_ASSERT_EQUAL(unlink(path), 0); }

static ptc_metrics_record_t record_of(int64_t step) {
  return (ptc_metrics_record_t){
      .kind = "train", .step = step, .loss = 1 / ((double)step + 3), .lr = 0.0006};
}

static bool same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

static void check_same(const ptc_metrics_record_t *a, const ptc_metrics_record_t *b) {
  CU_ASSERT(strcmp(a->kind, b->kind) == 0 && a->step == b->step);
  CU_ASSERT(same(a->loss, b->loss) && same(a->lr, b->lr) && same(a->seconds, b->seconds));
  CU_ASSERT(same(a->tokens_per_s, b->tokens_per_s) && a->peak_bytes == b->peak_bytes);
  CU_ASSERT_FATAL(a->num_losses == b->num_losses && a->num_metrics == b->num_metrics);
  for (int32_t i = 0; i < a->num_losses; i++)
    CU_ASSERT(strcmp(a->losses[i].name, b->losses[i].name) == 0 &&
              same(a->losses[i].value, b->losses[i].value));
  for (int32_t i = 0; i < a->num_metrics; i++)
    CU_ASSERT(strcmp(a->metrics[i].name, b->metrics[i].name) == 0 &&
              same(a->metrics[i].value, b->metrics[i].value));
}

static void test_round_trip(void) {
  static const ptc_metrics_number_t losses[] = {{"main", 0.1}, {"bal\"ance\\\n", -INFINITY}};
  static const ptc_metrics_number_t metrics[] = {
      {"accuracy", NAN}, {"step", INFINITY}, {"z", 5e-324}};
  ptc_metrics_record_t records[] = {record_of(0), record_of(1), record_of(2), record_of(INT64_MAX)};
  records[1].losses = losses;
  records[1].num_losses = 2;
  records[1].metrics = metrics;
  records[1].num_metrics = 3;
  records[1].tokens_per_s = 41000.5;
  records[1].seconds = 1e9;
  records[1].peak_bytes = INT64_MAX;
  records[2].loss = NAN;
  records[2].kind = "eval";
  records[2].lr = -1;
  records[2].metrics = metrics;
  records[2].num_metrics = 1;
  enum { COUNT = sizeof(records) / sizeof(records[0]) };
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_metrics_writer_t writer;
  CU_ASSERT_EQUAL_FATAL(ptc_metrics_open(&diag, path, 0, &writer), PTC_OK);
  for (int i = 0; i < COUNT; i++)
    CU_ASSERT_EQUAL(ptc_metrics_write(&diag, &writer, &records[i]), PTC_OK);
  CU_ASSERT_EQUAL(ptc_metrics_sync(&diag, &writer), PTC_OK);
  ptc_metrics_close(&writer);

  ptc_metrics_t read;
  CU_ASSERT_EQUAL_FATAL(ptc_metrics_read(&diag, path, &read), PTC_OK);
  CU_ASSERT_EQUAL_FATAL(read.count, COUNT);
  for (int i = 0; i < COUNT; i++) check_same(&read.records[i], &records[i]);
  ptc_metrics_deinit(&read);
  CU_ASSERT_EQUAL(diag.num_items, 0);
  ptc_diag_deinit(&diag);

  // Any reader of JSON sees the numbers where they are, null where they are not.
  char *text;
  size_t len;
  CU_ASSERT_EQUAL_FATAL(ptc_read_file(path, &text, &len), PTC_OK);
  char *second = strchr(text, '\n') + 1;
  json_t *root = json_loadb(second, (size_t)(strchr(second, '\n') - second), 0, NULL);
  CU_ASSERT_PTR_NOT_NULL_FATAL(root);
  CU_ASSERT_EQUAL(json_number_value(json_object_get(root, "loss")), 0.25);
  CU_ASSERT(json_is_null(json_object_get(json_object_get(root, "metrics"), "accuracy")));
  const json_t *marks = json_object_get(root, "nonfinite");
  CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(marks, "metrics.accuracy")), "nan");
  CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(marks, "metrics.step")), "inf");
  json_decref(root);
  free(text);
}

static void write_text(const char *text) {
  FILE *file = fopen(path, "wb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(file);
  fputs(text, file);
  fclose(file);
}

#define LINE(step) "{\"kind\":\"train\",\"step\":" step ",\"loss\":1}\n"

static void test_resume(void) {
  static const struct {
    const char *before;
    int64_t step;
    const char *after;
    int64_t warnings;
  } rows[] = {
      {LINE("1") LINE("2") LINE("3"), 2, LINE("1") LINE("2"), 0},
      {LINE("1") LINE("2") LINE("3"), 9, LINE("1") LINE("2") LINE("3"), 0},
      {LINE("1") LINE("2"), 0, "", 0},
      {LINE("3") LINE("1") LINE("4") LINE("2"), 2, LINE("1") LINE("2"), 0},
      {LINE("1") "{\"kind\":\"train\",\"st", 5, LINE("1"), 0},
      {LINE("1") "nonsense\n" LINE("2"), 5, LINE("1") LINE("2"), 1},
      {"", 5, "", 0},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    write_text(rows[i].before);
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_metrics_writer_t writer;
    UNIT_CHECK(ptc_metrics_open(&diag, path, rows[i].step, &writer) == PTC_OK, rows[i].before);
    ptc_metrics_close(&writer);
    char *text;
    size_t len;
    CU_ASSERT_EQUAL_FATAL(ptc_read_file(path, &text, &len), PTC_OK);
    UNIT_CHECK(strcmp(text, rows[i].after) == 0, rows[i].before);
    UNIT_CHECK(diag.num_items == rows[i].warnings && diag.num_errors == 0, rows[i].before);
    free(text);
    ptc_diag_deinit(&diag);
  }
}

static void test_malformed(void) {
  static const char *const lines[] = {
      "",
      "[]",
      "3",
      "{",
      "{}",
      "{\"step\":1,\"loss\":1}",
      "{\"kind\":\"a\",\"loss\":1}",
      "{\"kind\":\"a\",\"step\":1.5,\"loss\":1}",
      "{\"kind\":\"a\",\"step\":-1,\"loss\":1}",
      "{\"kind\":\"a\",\"step\":1}",
      "{\"kind\":\"a\",\"step\":1,\"loss\":\"x\"}",
      "{\"kind\":\"a\",\"step\":1,\"loss\":1,\"losses\":[1]}",
      "{\"kind\":\"a\",\"step\":1,\"loss\":1,\"metrics\":{\"x\":\"y\"}}",
      "{\"kind\":\"a\",\"step\":1,\"loss\":1,\"lr\":\"y\"}",
      "{\"kind\":\"a\",\"step\":1,\"loss\":1,\"peak_bytes\":1.5}",
      "{\"kind\":\"a\",\"step\":1,\"step\":2,\"loss\":1}",
      "{\"kind\":\"a\",\"step\":1,\"loss\":NaN}",
  };
  for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
    ptc_str_t text = {0};
    ptc_str_printf(&text, "%s%s\n%s", LINE("1"), lines[i], LINE("2"));
    write_text(text.data);
    ptc_str_deinit(&text);
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_metrics_t metrics;
    UNIT_CHECK(ptc_metrics_read(&diag, path, &metrics) == PTC_INVALID_INPUT, lines[i]);
    UNIT_CHECK(diag.num_errors == 1 && !strcmp(diag.items[0].id, "metrics-line"), lines[i]);
    UNIT_CHECK(diag.num_items && diag.items[0].loc.line == 2, lines[i]);
    ptc_diag_deinit(&diag);
  }
  write_text(LINE("1") "{\"kind\":\"tr");
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_metrics_t metrics;
  CU_ASSERT_EQUAL(ptc_metrics_read(&diag, path, &metrics), PTC_OK);
  CU_ASSERT_EQUAL(metrics.count, 1);
  ptc_metrics_deinit(&metrics);
  CU_ASSERT_EQUAL(ptc_metrics_read(&diag, "/nonexistent/file", &metrics), PTC_IO);
  ptc_metrics_writer_t writer;
  CU_ASSERT_EQUAL(ptc_metrics_open(&diag, "/nonexistent/file", 0, &writer), PTC_IO);
  CU_ASSERT_EQUAL(diag.num_errors, 2);
  CU_ASSERT_STRING_EQUAL(diag.items[1].id, "write-file");
  ptc_metrics_close(&writer);
  ptc_diag_deinit(&diag);
}

// No half of a line stays when the disk is full.
static void test_full_disk(void) {
  write_text("");
  pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){1000, 1000});
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_metrics_writer_t writer;
    ptc_status_t status = ptc_metrics_open(&diag, path, 0, &writer);
    int64_t step = 0;
    for (; status == PTC_OK && step < 100; step++) {
      ptc_metrics_record_t record = record_of(step);
      status = ptc_metrics_write(&diag, &writer, &record);
    }
    _exit(status == PTC_IO && step > 5 && strcmp(diag.items[0].id, "write-file") == 0 ? 0 : 1);
  }
  int status;
  waitpid(child, &status, 0);
  CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  char *text;
  size_t len;
  CU_ASSERT_EQUAL_FATAL(ptc_read_file(path, &text, &len), PTC_OK);
  CU_ASSERT(len > 900 && text[len - 1] == '\n');
  free(text);
  ptc_metrics_t metrics;
  CU_ASSERT_EQUAL(ptc_metrics_read(&diag, path, &metrics), PTC_OK);
  CU_ASSERT(metrics.count > 5);
  ptc_metrics_deinit(&metrics);
  ptc_diag_deinit(&diag);
}

static const unit_test_t tests[] = {
    {"set up", test_set_up},       {"round trip", test_round_trip}, {"resume", test_resume},
    {"malformed", test_malformed}, {"full disk", test_full_disk},   {"clean up", test_clean_up},
};
UNIT_MAIN("metrics", tests)
