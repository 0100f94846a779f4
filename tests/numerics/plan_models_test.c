// Proves: every sample, small, in f32 and bf16, becomes a plan whose replay finds every byte where it belongs, whose arena is within
// 3 % of the largest sum of live bytes, and whose text reads back the same.
#include "passes/lower_plan.h"
#include "tests/support/small_models.h"
#include "tests/support/unit.h"

typedef struct variant_s {
  const char *name;
  ptc_override_t settings[3];
} variant_t;

static const variant_t variants[] = {
    {"f32", {{"train.precision", "f32"}}},
    {"bf16", {{"train.precision", "bf16"}}},
};

static double worst_ratio;  // of arena to bound

static ptc_status_t make_plan(ptc_module_t *module, ptc_plan_t **out_plan) {
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, NULL);
  const ptc_kernel_t *const *kernels;
  ptc_status_t status = ptc_pipeline_train(&ctx, module);
  if (status == PTC_OK) status = ptc_pass_run(&ctx, module, "fuse");
  if (status == PTC_OK) status = ptc_lower_plan(&ctx, module, out_plan, &kernels);
  ptc_pass_ctx_deinit(&ctx);
  if (status != PTC_OK) return status;
  static const int64_t tiles[] = {4};
  static const ptc_phase_run_t run = {1, 1, tiles};
  for (int32_t k = 0; k < (*out_plan)->num_kernels; ++k) {
    ptc_plan_set_shape(*out_plan, k, 1, &run, k % 7 == 0 ? 4096 : 0, 0);
    (*out_plan)->kernels[k].hash = "00";
  }
  return ptc_plan_memory(module->diag, *out_plan);
}

static void check_plan(ptc_diag_t *diag, ptc_plan_t *plan, const char *name) {
  ptc_str_t json = {0}, steps = {0}, json_again = {0}, steps_again = {0};
  UNIT_CHECK(ptc_plan_check(diag, plan) == PTC_OK, name);
  UNIT_CHECK(ptc_plan_verify(diag, plan) == PTC_OK, name);
  ptc_plan_simplify(plan);
  UNIT_CHECK(ptc_plan_check(diag, plan) == PTC_OK, name);
  UNIT_CHECK(ptc_plan_verify(diag, plan) == PTC_OK, name);
  const double ratio = (double)plan->arena_bytes / (double)plan->bound_bytes;
  if (ratio > worst_ratio) worst_ratio = ratio;
  UNIT_CHECK(ratio <= 1.03, name);
  ptc_plan_print(plan, &json, &steps);
  ptc_plan_t *again;
  UNIT_CHECK(ptc_plan_parse(diag, "plan.json", json.data, json.len, "stage0.steps", steps.data,
                            steps.len, &again) == PTC_OK,
             name);
  if (again) {
    ptc_plan_print(again, &json_again, &steps_again);
    UNIT_CHECK(strcmp(json.data, json_again.data) == 0, name);
    UNIT_CHECK(strcmp(steps.data, steps_again.data) == 0, name);
  }
  ptc_plan_destroy(again);
  ptc_str_deinit(&json);
  ptc_str_deinit(&steps);
  ptc_str_deinit(&json_again);
  ptc_str_deinit(&steps_again);
}

static void check_model(const small_model_t *model, const variant_t *variant) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  char name[64];
  snprintf(name, sizeof name, "%s %s", model->name, variant->name);
  ptc_plan_t *plan = NULL;
  ptc_module_t *module = small_model_lower(model, variant->settings, 1, &diag);
  const bool ok = module && make_plan(module, &plan) == PTC_OK;
  UNIT_CHECK(ok, name);
  if (ok) check_plan(&diag, plan, name);
  ptc_diag_print(&diag, stdout, PTC_DIAG_TEXT, false);
  ptc_plan_destroy(plan);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

static void test_models(void) {
  worst_ratio = 0;
  for (int m = 0; m < num_small_models; ++m)
    for (size_t v = 0; v < sizeof variants / sizeof *variants; ++v)
      check_model(&small_models[m], &variants[v]);
  printf("arena to bound: at most %.4f ", worst_ratio);
}

static const unit_test_t tests[] = {{"samples", test_models}};
UNIT_MAIN("plan models", tests)
