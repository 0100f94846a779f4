// Proves: batches are windows of the source, shifted by the offset, the same for the same seed and
// step; unfit data is refused; training on the interpreter carries its state, lowers the loss, and
// repeats to the last digit.
#include "frontend/driver/train.h"

#include <stdlib.h>
#include <unistd.h>

#include "frontend/driver/compile.h"
#include "frontend/driver/token_data.h"
#include "tests/support/unit.h"

static const char model_text[] =
    "model m(d = 8, seq = 6, vocab = 128) {\n"
    "  dim d, b = batch, s = seq, v = vocab\n"
    "  param w[v, d], u[d, v] ~ normal(0.1)\n"
    "  input tokens[b, s] : int from text\n"
    "  input targets[b, s] : int from text + 1\n"
    "  x[b, s, d] = w[tokens[b, s], d]\n"
    "  logits[b, s, v] = x[b, s, d] * u[d, v]\n"
    "  loss = cross_entropy[v](logits, targets)\n"
    "  output logits\n"
    "}\n"
    "train { batch = 4  optimizer = adamw(lr = 0.02)  precision = f32  seed = 5 }\n";

typedef struct fixture_s {
  ptc_diag_t diag;
  ptc_module_t *module;
  char spec[64];  // "text=FILE"
} fixture_t;

static void set_up(fixture_t *f, const char *source, const char *bytes, size_t len) {
  ptc_diag_init(&f->diag);
  ptc_lower_options_t options = {0};
  CU_ASSERT_EQUAL_FATAL(
      ptc_compile_text(&f->diag, "m.ptm", model_text, sizeof(model_text) - 1, &options, &f->module),
      PTC_OK);
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, NULL);
  CU_ASSERT_EQUAL_FATAL(ptc_pipeline_train(&ctx, f->module), PTC_OK);
  ptc_pass_ctx_deinit(&ctx);
  char path[] = "/tmp/ptc_train_test_XXXXXX";
  int file = mkstemp(path);
  CU_ASSERT_FATAL(file >= 0);
  CU_ASSERT_EQUAL(write(file, bytes, len), (ssize_t)len);
  close(file);
  snprintf(f->spec, sizeof(f->spec), "%s=%s", source, path);
}

static void tear_down(fixture_t *f) {
  unlink(strchr(f->spec, '=') + 1);
  ptc_module_destroy(f->module);
  ptc_diag_deinit(&f->diag);
}

// Byte i of the text is i, so that a value tells its position.
static void test_batches(void) {
  char bytes[100];
  for (int i = 0; i < 100; i++) bytes[i] = (char)i;
  fixture_t f;
  set_up(&f, "text", bytes, sizeof(bytes));
  const char *specs[] = {f.spec};
  ptc_token_data_t data, val;
  CU_ASSERT_EQUAL_FATAL(ptc_token_data_open(f.module, "--data", specs, 1, PTC_DATA_SHUFFLED, &data),
                        PTC_OK);
  CU_ASSERT_EQUAL_FATAL(ptc_token_data_open(f.module, "--val", specs, 1, PTC_DATA_IN_ORDER, &val),
                        PTC_OK);
  ptc_interp_t *interp = ptc_interp_create(f.module, PTC_INTERP_EXACT);
  const double *tokens =
      ptc_interp_global(interp, ptc_module_find_global(f.module, "tokens"))->data;
  const double *targets =
      ptc_interp_global(interp, ptc_module_find_global(f.module, "targets"))->data;
  double first[24], least = 1000, most = -1;
  int64_t samples;
  for (int64_t step = 0; step < 200; step++) {
    CU_ASSERT_EQUAL(ptc_token_data_fill(&data, interp, f.module, 9, step, &samples), PTC_OK);
    CU_ASSERT_EQUAL(samples, 4);
    for (int i = 0; i < 24; i++) {
      CU_ASSERT_EQUAL(tokens[i], tokens[i / 6 * 6] + i % 6);
      CU_ASSERT_EQUAL(targets[i], tokens[i] + 1);
      if (tokens[i] < least) least = tokens[i];
      if (targets[i] > most) most = targets[i];
    }
    if (step == 0) memcpy(first, tokens, sizeof(first));
  }
  CU_ASSERT_EQUAL(least, 0);  // every place of the text can be drawn, the last byte as a target
  CU_ASSERT_EQUAL(most, 99);
  CU_ASSERT(memcmp(first, tokens, sizeof(first)) != 0);
  ptc_token_data_fill(&data, interp, f.module, 9, 0, &samples);
  CU_ASSERT(memcmp(first, tokens, sizeof(first)) == 0);
  ptc_token_data_fill(&data, interp, f.module, 10, 0, &samples);
  CU_ASSERT(memcmp(first, tokens, sizeof(first)) != 0);
  // 94 places to begin, 16 windows of 6 without overlap, 4 batches of 4.
  CU_ASSERT_EQUAL(ptc_data_num_batches(val.data), 4);
  ptc_token_data_fill(&val, interp, f.module, 9, 1, &samples);
  for (int i = 0; i < 24; i++) CU_ASSERT_EQUAL(tokens[i], 24 + i);
  // What a short batch is filled up with: the loss is that of the rest.
  ptc_token_data_fill(&val, interp, f.module, 9, 4, &samples);
  CU_ASSERT_EQUAL(samples, 0);
  for (int i = 0; i < 24; i++) CU_ASSERT(tokens[i] == 0 && targets[i] == -1);
  CU_ASSERT_EQUAL(ptc_interp_run(interp, "eval"), PTC_OK);
  CU_ASSERT_EQUAL(ptc_interp_result(interp, 0)->data[0], 0);
  ptc_token_data_close(&val);
  ptc_interp_destroy(interp);
  ptc_token_data_close(&data);
  tear_down(&f);
}

static const struct {
  const char *source, *bytes, *id;
} bad_rows[] = {{"text", "abcdef", "data-short"},
                {"text", "abcdefg\xc3\xa4xyz", "data-range"},
                {"texd", "abcdefghijkl", "data-missing"},
                {"texd", "abcdefghijkl", "data-unknown"},
                {"", "abcdefghijkl", "data-option"}};

static void test_unfit_data(void) {
  for (size_t i = 0; i < sizeof(bad_rows) / sizeof(*bad_rows); i++) {
    fixture_t f;
    set_up(&f, bad_rows[i].source, bad_rows[i].bytes, strlen(bad_rows[i].bytes));
    const char *specs[] = {f.spec};
    ptc_run_options_t run = {.init = true};
    ptc_train_options_t options = {.data = specs, .num_data = 1, .steps = 1, .quiet = true};
    UNIT_CHECK(ptc_train_module(f.module, &run, &options) == PTC_INVALID_INPUT, bad_rows[i].id);
    bool found = false;
    for (int64_t n = 0; n < f.diag.num_items; n++)
      found |= strcmp(f.diag.items[n].id, bad_rows[i].id) == 0;
    UNIT_CHECK(found, bad_rows[i].id);
    tear_down(&f);
  }
}

// What training printed, and its first number.
static char *train(int64_t steps, int64_t sample, double lr, double *out_loss,
                   const char **out_id) {
  char bytes[1201] = "";
  for (int i = 0; i < 100; i++) memcpy(bytes + 12 * i, "hello world\n", 12);
  fixture_t f;
  set_up(&f, "text", bytes, 1200);
  char *text = NULL, sets[32];
  size_t len;
  FILE *out = open_memstream(&text, &len);
  const char *specs[] = {f.spec}, *set[] = {sets};
  snprintf(sets, sizeof(sets), "lr=%g", lr);
  ptc_run_options_t run = {.init = true, .print_to = out, .sets = set, .num_sets = 1};
  ptc_train_options_t options = {.data = specs,
                                 .val = specs,
                                 .num_data = 1,
                                 .num_val = 1,
                                 .steps = steps,
                                 .sample = sample,
                                 .prompt = "h",
                                 .quiet = true};
  ptc_status_t status = ptc_train_module(f.module, &run, &options);
  *out_id = f.diag.num_items ? f.diag.items[0].id : "";
  fclose(out);
  CU_ASSERT_EQUAL(status == PTC_OK, f.diag.num_errors == 0);
  *out_loss = status == PTC_OK ? strtod(text + strlen("loss loss "), NULL) : -1;
  if (status != PTC_OK)
    *out_id = strcmp(*out_id, "non-finite-loss") ? "other" : "non-finite-loss";
  else
    *out_id = "";
  tear_down(&f);
  return text;
}

static void test_training(void) {
  double early, late, again;
  const char *id;
  char *text = train(1, 0, 0.02, &early, &id);
  CU_ASSERT(early > 4.7 && early < 5.0);  // near log(128)
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "held-out loss 4."));
  free(text);
  text = train(150, 11, 0.02, &late, &id);
  // A bigram model: what follows "l" and "o" stays open.
  CU_ASSERT(late < 1.0);
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "\nsample\nhel"));
  char *second = train(150, 11, 0.02, &again, &id);
  CU_ASSERT_STRING_EQUAL(text, second);
  free(text);
  free(second);
}

static void test_non_finite(void) {
  double loss;
  const char *id;
  free(train(50, 0, 1e300, &loss, &id));
  CU_ASSERT_STRING_EQUAL(id, "non-finite-loss");
}

static const unit_test_t tests[] = {{"batches", test_batches},
                                    {"unfit data", test_unfit_data},
                                    {"training", test_training},
                                    {"non-finite loss", test_non_finite}};
UNIT_MAIN("train", tests)
