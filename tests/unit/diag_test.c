// Proves: diagnostics are kept in order, repeats and the excess over the limit are dropped with
// their notes, both output formats are as documented, and ranks that share a pipe do not tear them.
#include "ir/base/diag.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/unit.h"

static char *printed(const ptc_diag_t *diag, ptc_diag_format_t format, bool color) {
  char *text = NULL;
  size_t len;
  FILE *out = open_memstream(&text, &len);
  ptc_diag_print(diag, out, format, color);
  fclose(out);
  return text;
}

static const ptc_loc_t at_3_5 = {"a.ptm", 3, 5}, at_1_1 = {"a.ptm", 1, 1}, nowhere = {0};

static void test_text(void) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  static const char source[] = "one\ntwo\n\t\xc3\xa4 x + 1\n";
  ptc_diag_add_source(&diag, "a.ptm", source, sizeof(source) - 1);
  CU_ASSERT_EQUAL(ptc_error(&diag, at_3_5, PTC_INVALID_INPUT, "unknown-name", "unknown name \"x\""),
                  PTC_INVALID_INPUT);
  ptc_note(&diag, at_1_1, "declared here");
  ptc_warning(&diag, nowhere, "unused", "parameter \"w\" is unused");
  ptc_error(&diag, (ptc_loc_t){"b.ptm", 0, 0}, PTC_IO, "read", "no such file");
  char *text = printed(&diag, PTC_DIAG_TEXT, false);
  CU_ASSERT_STRING_EQUAL(text,
                         "a.ptm:3:5: error: unknown name \"x\" [unknown-name]\n"
                         "    3 |  \xc3\xa4 x + 1\n"
                         "      |    ^\n"
                         "a.ptm:1:1: note: declared here\n"
                         "    1 | one\n"
                         "      | ^\n"
                         "ptc: warning: parameter \"w\" is unused [unused]\n"
                         "b.ptm: error: no such file [read]\n");
  free(text);
  text = printed(&diag, PTC_DIAG_JSON, false);
  CU_ASSERT_PTR_NOT_NULL(strstr(
      text,
      "{\"severity\":\"error\",\"id\":\"unknown-name\",\"file\":\"a.ptm\",\"line\":3,\"column\":5,"
      "\"message\":\"unknown name \\\"x\\\"\"}\n"));
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"severity\":\"warning\",\"id\":\"unused\",\"file\":null"));
  free(text);
  text = printed(&diag, PTC_DIAG_TEXT, true);
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "\033[1;31merror:\033[0m unknown name"));
  free(text);
  CU_ASSERT_EQUAL(diag.num_errors, 2);
  ptc_diag_deinit(&diag);
}

static void test_repeats(void) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  for (int i = 0; i < 3; i++) {
    ptc_error(&diag, at_3_5, PTC_INVALID_INPUT, "x", "message %d", i);
    ptc_note(&diag, at_1_1, "note %d", i);
    ptc_error(&diag, nowhere, PTC_INVALID_INPUT, "x", "elsewhere %d", i);
  }
  ptc_error(&diag, at_3_5, PTC_INVALID_INPUT, "y", "other id");
  CU_ASSERT_EQUAL(diag.num_errors, 5);
  char *text = printed(&diag, PTC_DIAG_TEXT, false);
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "message 0"));
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "note 0"));
  CU_ASSERT_PTR_NULL(strstr(text, "message 1"));
  CU_ASSERT_PTR_NULL(strstr(text, "note 1"));
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "elsewhere 2"));
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "other id"));
  free(text);
  ptc_diag_deinit(&diag);
}

static void test_limit(void) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  diag.max_errors = 2;
  for (int32_t i = 1; i <= 5; i++) {
    ptc_error(&diag, (ptc_loc_t){"a.ptm", i, 1}, PTC_INVALID_INPUT, "x", "message %d", (int)i);
    ptc_note(&diag, nowhere, "note %d", (int)i);
  }
  CU_ASSERT_EQUAL(diag.num_errors, 5);
  char *text = printed(&diag, PTC_DIAG_TEXT, false);
  CU_ASSERT_STRING_EQUAL(text,
                         "a.ptm:1:1: error: message 1 [x]\nptc: note: note 1\n"
                         "a.ptm:2:1: error: message 2 [x]\nptc: note: note 2\n"
                         "ptc: 3 more errors not shown\n");
  free(text);
  ptc_diag_deinit(&diag);
}

// Nothing of a file's bytes, or of a name, can act on the terminal, and JSON stays UTF-8.
static void test_hostile_bytes(void) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  static const char source[] = "a\033[2J\xc2\x9b\xff\xed\xa0\x80 \xe2\x82\xac b";
  ptc_diag_add_source(&diag, "a.ptm", source, sizeof(source) - 1);
  ptc_error(&diag, (ptc_loc_t){"a.ptm", 1, 16}, PTC_INVALID_INPUT, "x", "name \"\xfe\033]0;x\"");
  char *text = printed(&diag, PTC_DIAG_TEXT, false);
  CU_ASSERT_STRING_EQUAL(text,
                         "a.ptm:1:16: error: name \"??]0;x\" [x]\n"
                         "    1 | a?[2J?????? \xe2\x82\xac b\n"
                         "      |              ^\n");
  free(text);
  text = printed(&diag, PTC_DIAG_JSON, false);
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"message\":\"name \\\"\\ufffd\\u001b]0;x\\\"\"}\n"));
  free(text);
  ptc_diag_deinit(&diag);
}

// A packet pipe keeps the bounds of writes, as a log shared by many ranks feels them.
static void test_one_write(void) {
  int ends[2];
  CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_DIRECT | O_NONBLOCK), 0);
  FILE *out = fdopen(ends[1], "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(out);
  setvbuf(out, NULL, _IONBF, 0);
  for (int i = 0; i < 2; i++) {
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_error(&diag, at_3_5, PTC_INVALID_INPUT, "unknown-name", "unknown name \"x\"");
    ptc_note(&diag, at_1_1, "declared here");
    ptc_diag_format_t format = i == 0 ? PTC_DIAG_TEXT : PTC_DIAG_JSON;
    ptc_diag_print(&diag, out, format, false);
    char *text = printed(&diag, format, false), packet[4096];
    ssize_t num_bytes = read(ends[0], packet, sizeof(packet));
    CU_ASSERT_EQUAL_FATAL(num_bytes, (ssize_t)strlen(text));
    CU_ASSERT_EQUAL(memcmp(packet, text, (size_t)num_bytes), 0);
    CU_ASSERT_EQUAL(read(ends[0], packet, sizeof(packet)), -1);  // nothing else was written
    free(text);
    ptc_diag_deinit(&diag);
  }
  fclose(out);
  close(ends[0]);
}

static void test_passed_on(void) {
  ptc_diag_t from, to;
  ptc_diag_init(&from);
  ptc_diag_init(&to);
  from.max_errors = 1;
  ptc_warning(&from, at_1_1, "slow", "slow at 100 %%");
  ptc_note(&from, at_1_1, "because");
  ptc_error(&from, at_3_5, PTC_IO, "no-file", "no file %s", "\"%s\"");
  ptc_error(&from, at_1_1, PTC_IO, "no-file", "beyond the limit");
  ptc_diag_pass_on(&to, &from, PTC_IO);
  CU_ASSERT_EQUAL_FATAL(to.num_items, 3);
  CU_ASSERT_EQUAL(to.num_errors, 1);
  char *before = printed(&from, PTC_DIAG_JSON, false), *after = printed(&to, PTC_DIAG_JSON, false);
  CU_ASSERT_NOT_EQUAL(strstr(before, after), NULL);
  free(before);
  free(after);
  ptc_diag_deinit(&from);
  ptc_diag_deinit(&to);
}

static void test_exit_codes(void) {
  CU_ASSERT_EQUAL(ptc_status_exit_code(PTC_OK), 0);
  CU_ASSERT_EQUAL(ptc_status_exit_code(PTC_INVALID_INPUT), 1);
  CU_ASSERT_EQUAL(ptc_status_exit_code(PTC_UNSUPPORTED), 1);
  CU_ASSERT_EQUAL(ptc_status_exit_code(PTC_INFEASIBLE), 1);
  CU_ASSERT_EQUAL(ptc_status_exit_code(PTC_IO), 1);
  CU_ASSERT_EQUAL(ptc_status_exit_code(PTC_INTERNAL), 3);
  CU_ASSERT_EQUAL(ptc_status_exit_code(PTC_DEVICE), 4);
}

static const unit_test_t tests[] = {
    {"formats", test_text},         {"repeats", test_repeats},
    {"limit", test_limit},          {"hostile bytes", test_hostile_bytes},
    {"one write", test_one_write},  {"passed on", test_passed_on},
    {"exit codes", test_exit_codes}};
UNIT_MAIN("diag", tests)
