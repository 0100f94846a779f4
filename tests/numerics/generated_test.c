// Proves: every op, in every float dtype, and whole models (samples and random ones) compute in generated C
// what the typed interpreter computes. By default a few ops and one model, chosen by the seed; PTC_CASES=N
// takes N of each, PTC_SEED chooses others.
#include "tests/support/generated.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "frontend/driver/compile.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/check_semantics.h"
#include "tests/support/interp_case.h"
#include "tests/support/random_model.h"
#include "tests/support/small_models.h"
#include "tests/support/unit.h"

#define NANV ((double)NAN)
#define INF ((double)INFINITY)
#define DATA(...) \
  (const double[]){__VA_ARGS__}, (int32_t)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double))
#define NONE NULL, 0

typedef struct op_row_s {
  const char *op, *attrs, *operands;
  const double *in;
  int32_t num_in;
  const char *results;
  const double *out;
  int32_t num_out;
} op_row_t;

static const op_row_t op_rows[] = {
#include "tests/numerics/interp_rows.def"
};
enum { NUM_OP_ROWS = sizeof(op_rows) / sizeof(op_rows[0]) };

static const struct {
  const char *name;
  double eps;  // distance of 1 to the next number
} dtypes[] = {{"f64", 0x1p-52}, {"f32", 0x1p-23}, {"bf16", 0x1p-7}, {"f16", 0x1p-10}};

static int64_t num_cases(int64_t otherwise) {
  const char *cases = getenv("PTC_CASES");
  return cases ? atoll(cases) : otherwise;
}

static void complain(const char *what, const char *report, const ptc_diag_t *diag,
                     const char *text) {
  fprintf(stderr, "\n%s\n%s", what, report ? report : "");
  ptc_diag_print(diag, stderr, PTC_DIAG_TEXT, false);
  if (text) fprintf(stderr, "%s\n", text);
}

// --- single ops

// |text| with every "f64" replaced.
static void append_as(ptc_str_t *out, const char *text, const char *dtype) {
  for (const char *at; (at = strstr(text, "f64")); text = at + 3) {
    ptc_str_append_n(out, text, (size_t)(at - text));
    ptc_str_append(out, dtype);
  }
  ptc_str_append(out, text);
}

static void check_text(const char *text, const double *data, int32_t count, double eps,
                       const char *what) {
  interp_case_t *c = interp_case_open(text, PTC_INTERP_TYPED);
  UNIT_CHECK(c != NULL, what);
  if (!c) return;
  int32_t used = 0;
  for (int64_t g = 0; g < c->module->num_globals; g++) {
    ptc_tensor_t *tensor = ptc_interp_global(c->interp, c->module->globals[g]);
    for (int64_t i = 0; i < tensor->num_elements * tensor->num_instances && used < count; i++)
      tensor->data[i] = data[used++];
  }
  ptc_module_derive_properties(c->module);
  generated_t generated;
  ptc_str_t report = {0};
  const bool ok =
      generated_open(&generated, c->module, 2) &&
      generated_compare(&generated, c->interp, "f",
                        (generated_bound_t){.relative = 4 * eps, .absolute = 4 * eps}, &report);
  if (!ok) complain(what, report.data, &c->diag, text);
  UNIT_CHECK(ok, what);
  generated_close(&generated);
  ptc_str_deinit(&report);
  interp_case_close(c);
}

// Whether |text| is typed right: some results have a dtype of their own, whatever the operands'.
static bool is_typed(const char *text) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = NULL;
  const bool ok = ptc_module_parse(&diag, "case", text, strlen(text), &module) == PTC_OK &&
                  ptc_module_verify(module) == PTC_OK;
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
  return ok;
}

static void check_row(const op_row_t *row, int dtype) {
  ptc_str_t attrs = {0}, operands = {0}, results = {0}, text = {0};
  append_as(&attrs, row->attrs, dtypes[dtype].name);
  append_as(&operands, row->operands, dtypes[dtype].name);
  append_as(&results, row->results, dtypes[dtype].name);
  interp_case_one_op(&text, "", row->op, attrs.data, operands.data, results.data);
  char what[300];
  snprintf(what, sizeof what, "%s {%s} %s", row->op, attrs.data, operands.data);
  if (dtype == 0 || is_typed(text.data))
    check_text(text.data, row->in, row->num_in, dtypes[dtype].eps, what);
  ptc_str_deinit(&attrs);
  ptc_str_deinit(&operands);
  ptc_str_deinit(&results);
  ptc_str_deinit(&text);
}

static void test_rows(void) {
  uint64_t state = unit_seed();
  const int64_t all = (int64_t)NUM_OP_ROWS * 4, count = num_cases(8);
  for (int64_t i = 0; i < count && i < all; i++) {
    const int64_t at = count >= all ? i : (int64_t)(unit_random(&state) % (uint64_t)all);
    check_row(&op_rows[at / 4], (int)(at % 4));
  }
}

// --- whole models

static void check_model(ptc_module_t *module, ptc_diag_t *diag, uint64_t seed, const char *what,
                        const char *text) {
  ptc_pass_options_t options = {.keep_grads = true};
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, &options);
  ptc_status_t status = ptc_pipeline_train(&ctx, module);
  ptc_pass_ctx_deinit(&ctx);
  const char *precision =
      ptc_attrs_string(&module->config, ptc_module_intern(module, "precision"), "f32");
  const bool wide = strcmp(precision, "f32") == 0;
  const double lr = ptc_attrs_float(&module->config, ptc_module_intern(module, "lr"), 1);
  generated_t generated = {0};
  ptc_interp_t *interp = ptc_interp_create(module, PTC_INTERP_TYPED);
  ptc_str_t report = {0};
  bool ok = status == PTC_OK && generated_open(&generated, module, 2);
  const generated_bound_t bound = {
      .relative = wide ? 1e-4 : 0.1, .absolute = wide ? 1e-6 : 1e-3, .state = 2.1 * lr};
  for (const ptc_func_t *func = module->funcs; ok && func; func = func->next) {
    ptc_semantics_fill(interp, module, seed);
    ok = generated_compare(&generated, interp, func->name, bound, &report);
  }
  if (!ok) complain(what, report.data, diag, text);
  UNIT_CHECK(ok, what);
  ptc_interp_destroy(interp);
  generated_close(&generated);
  ptc_str_deinit(&report);
}

static void check_samples(uint64_t seed, int64_t count) {
  uint64_t state = seed;
  for (int64_t i = 0; i < count && i < num_small_models; i++) {
    const int64_t at =
        count >= num_small_models ? i : (int64_t)(unit_random(&state) % (uint64_t)num_small_models);
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_module_t *module = small_model_lower(&small_models[at], NULL, 0, &diag);
    UNIT_CHECK(module != NULL, small_models[at].name);
    if (module) check_model(module, &diag, 5, small_models[at].name, NULL);
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
}

static void check_random_models(uint64_t seed, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    uint64_t random = seed + (uint64_t)i;
    int64_t forms[RANDOM_MODEL_NUM_FORMS] = {0};
    ptc_str_t text = {0};
    random_model_write(&random, &text, forms);
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_module_t *module = NULL;
    char what[64];
    snprintf(what, sizeof what, "random model %" PRIu64, seed + (uint64_t)i);
    const bool ok =
        ptc_compile_text(&diag, "random.ptm", text.data, text.len, NULL, &module) == PTC_OK;
    UNIT_CHECK(ok, what);
    if (ok) check_model(module, &diag, seed + (uint64_t)i, what, text.data);
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
    ptc_str_deinit(&text);
  }
}

// By default a sample or a random model, as the seed says: a whole model takes seconds to compile.
static void test_models(void) {
  const uint64_t seed = unit_seed();
  check_samples(seed, num_cases(seed % 2 == 0));
  check_random_models(seed, num_cases(seed % 2));
}

static const unit_test_t tests[] = {{"ops", test_rows}, {"models", test_models}};
UNIT_MAIN("generated", tests)
