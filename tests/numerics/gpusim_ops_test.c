// Proves: every op, in every float dtype, and whole models compute in generated CUDA, on the simulator of GPUs
// with all its checks on, what the typed interpreter computes. By default a few ops, chosen by the seed, and
// one model; PTC_CASES=N takes N of each, PTC_SEED chooses others, PTC_OP=NAME
// and PTC_SAMPLE=NAME take all of one. Without NVRTC it says so and passes.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "ir/text.h"
#include "ir/verify.h"
#include "passes/check_semantics.h"
#include "passes/pass.h"
#include "tests/support/generated.h"
#include "tests/support/interp_case.h"
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

// |text| with every "f64" replaced.
static void append_as(ptc_str_t *out, const char *text, const char *dtype) {
  for (const char *at; (at = strstr(text, "f64")); text = at + 3) {
    ptc_str_append_n(out, text, (size_t)(at - text));
    ptc_str_append(out, dtype);
  }
  ptc_str_append(out, text);
}

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

// What has no CUDA form yet is said so, and is no failure of the simulator.
static bool is_unsupported(const ptc_diag_t *diag) {
  return diag->num_items > 0 && strcmp(diag->items[0].id, "codegen-unsupported") == 0;
}

static void check_text(const char *text, const op_row_t *row, double eps, const char *what) {
  interp_case_t *c = interp_case_open(text, PTC_INTERP_TYPED);
  UNIT_CHECK(c != NULL, what);
  if (!c) return;
  int32_t used = 0;
  for (int64_t g = 0; g < c->module->num_globals; g++) {
    ptc_tensor_t *tensor = ptc_interp_global(c->interp, c->module->globals[g]);
    for (int64_t i = 0; i < tensor->num_elements * tensor->num_instances && used < row->num_in; i++)
      tensor->data[i] = row->in[used++];
  }
  ptc_module_derive_properties(c->module);
  generated_t generated;
  ptc_str_t report = {0};
  const bool opened = generated_open_gpusim(&generated, c->module);
  if (opened || !is_unsupported(&c->diag)) {
    const bool ok =
        opened &&
        generated_compare(&generated, c->interp, "f",
                          (generated_bound_t){.relative = 4 * eps, .absolute = 4 * eps}, &report);
    UNIT_CHECK(ok, what);
    if (!ok) {
      fprintf(stderr, "\n%s\n%s", what, report.data ? report.data : "");
      ptc_diag_print(&c->diag, stderr, PTC_DIAG_TEXT, false);
    }
  }
  generated_close(&generated);
  ptc_str_deinit(&report);
  interp_case_close(c);
}

static void check_row(const op_row_t *row, int dtype) {
  ptc_str_t attrs = {0}, operands = {0}, results = {0}, text = {0};
  append_as(&attrs, row->attrs, dtypes[dtype].name);
  append_as(&operands, row->operands, dtypes[dtype].name);
  append_as(&results, row->results, dtypes[dtype].name);
  interp_case_one_op(&text, "", row->op, attrs.data, operands.data, results.data);
  char what[300];
  snprintf(what, sizeof what, "%s {%s} %s", row->op, attrs.data, operands.data);
  if (dtype == 0 || is_typed(text.data)) check_text(text.data, row, dtypes[dtype].eps, what);
  ptc_str_deinit(&attrs);
  ptc_str_deinit(&operands);
  ptc_str_deinit(&results);
  ptc_str_deinit(&text);
}

static void test_rows(void) {
  if (!generated_has_nvrtc()) return;
  const int64_t all = (int64_t)NUM_OP_ROWS * 4, count = num_cases(8);
  const char *only = getenv("PTC_OP");
  for (int64_t i = 0; only && i < all; i++)
    if (strcmp(op_rows[i / 4].op, only) == 0) check_row(&op_rows[i / 4], (int)(i % 4));
  uint64_t state = unit_seed();
  for (int64_t i = 0; !only && i < count && i < all; i++) {
    const int64_t at = count >= all ? i : (int64_t)(unit_random(&state) % (uint64_t)all);
    check_row(&op_rows[at / 4], (int)(at % 4));
  }
}

// --- whole models

static void check_model(const small_model_t *model, const char *precision) {
  char what[64];
  snprintf(what, sizeof what, "%s %s", model->name, precision);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  const ptc_override_t settings = {"train.precision", precision};
  ptc_module_t *module = small_model_lower(model, &settings, 1, &diag);
  UNIT_CHECK(module != NULL, what);
  if (!module) return;
  ptc_pass_options_t options = {.keep_grads = true};
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, &options);
  ptc_status_t status = ptc_pipeline_train(&ctx, module);
  ptc_pass_ctx_deinit(&ctx);
  const bool wide = strcmp(precision, "f32") == 0;
  const double lr = ptc_attrs_float(&module->config, ptc_module_intern(module, "lr"), 1);
  generated_t generated = {0};
  ptc_interp_t *interp = ptc_interp_create(module, PTC_INTERP_TYPED);
  ptc_str_t report = {0};
  bool ok = status == PTC_OK && generated_open_gpusim(&generated, module);
  const generated_bound_t bound = {
      .relative = wide ? 1e-4 : 0.1, .absolute = wide ? 1e-6 : 1e-3, .state = 2.1 * lr};
  for (const ptc_func_t *func = module->funcs; ok && func; func = func->next) {
    ptc_semantics_fill(interp, module, 5);
    ok = generated_compare(&generated, interp, func->name, bound, &report);
  }
  UNIT_CHECK(ok, what);
  if (!ok) {
    fprintf(stderr, "\n%s\n%s", what, report.data ? report.data : "");
    ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
  }
  ptc_interp_destroy(interp);
  generated_close(&generated);
  ptc_str_deinit(&report);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

static void test_models(void) {
  if (!generated_has_nvrtc()) return;
  static const char *const precisions[] = {"f32", "bf16"};
  uint64_t state = unit_seed();
  const char *only = getenv("PTC_SAMPLE");
  const int64_t count = only ? 1 : num_cases(1), all = 2 * (int64_t)num_small_models;
  for (int64_t i = 0; i < all; i++) {
    const small_model_t *model = &small_models[i / 2];
    if (only ? strcmp(only, model->name) != 0
             : count < all && (int64_t)(unit_random(&state) % (uint64_t)all) >= count)
      continue;
    check_model(model, precisions[i % 2]);
  }
}

static const unit_test_t tests[] = {{"ops", test_rows}, {"models", test_models}};

int main(void) {
  setenv("PTC_GPUSIM_CHECKS", "1", 1);
  return unit_main("gpusim ops", tests, sizeof tests / sizeof *tests);
}
