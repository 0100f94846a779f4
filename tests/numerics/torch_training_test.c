// Proves: several steps with dropout, clipping, a schedule and an optimizer lead where PyTorch's
// own optimizers lead from the same weights (recorded by tests/torch).
#include <CUnit/Basic.h>
#include <math.h>
#include <string.h>

#include "tests/support/golden.h"

enum { MIN_CASES = 2 };

// The step's loss, norm of the gradient and learning rate; false if one is missing.
static bool check_trace(golden_t *golden, const ptc_module_t *module, const ptc_interp_t *interp,
                        size_t step) {
  const ptc_func_t *train = ptc_module_find_func(module, "train");
  json_t *steps = json_object_get(golden->json, "steps");
  size_t found = 0;
  for (int32_t i = 0; i < train->num_results; i++) {
    const ptc_result_t *result = &train->results[i];
    if (result->kind != PTC_RESULT_VALUE) continue;
    json_t *want = json_array_get(json_object_get(steps, result->name), step);
    if (!want) continue;
    found++;
    char name[64];
    snprintf(name, sizeof(name), "%s of step %zu", result->name, step);
    double value = json_number_value(want);
    golden_check_number(golden, name, ptc_interp_result(interp, i)->data[0], value,
                        golden->tolerance.value * fabs(value));
  }
  return found == json_object_size(steps);
}

static void test_steps(golden_t *golden, ptc_module_t *module, ptc_interp_t *interp) {
  json_t *losses = json_object_get(json_object_get(golden->json, "steps"), "loss");
  golden_fill(golden, module, interp);
  for (size_t step = 0; step < json_array_size(losses); step++) {
    if (ptc_interp_run(interp, "train") != PTC_OK) {
      golden_fail(golden, "train", "does not run");
      return;
    }
    if (!check_trace(golden, module, interp, step)) golden_fail(golden, "train", "lacks a value");
  }
  size_t num_params = 0;
  for (int64_t i = 0; i < module->num_globals; i++) {
    const ptc_global_t *global = module->globals[i];
    if (global->kind == PTC_GLOBAL_PARAM)
      num_params += golden_check_tensor(golden, "final", global, ptc_interp_global(interp, global));
  }
  if (num_params < golden_count(golden, "final."))
    golden_fail(golden, "train", "a parameter is missing");
}

static void test_exact(void) {
  const golden_way_t way = {.mode = PTC_INTERP_EXACT, .tolerance = {1e-9, 1e-9, 0}};
  golden_each("golden/training/*.json", MIN_CASES, &way, test_steps);
}

// The same, as a sum over micro-batches with recomputation.
static void test_pipeline(void) {
  const golden_way_t way = {.mode = PTC_INTERP_EXACT,
                            .tolerance = {1e-9, 1e-9, 0},
                            .micro_batch = 1,
                            .recompute = "full"};
  golden_each("golden/training/*.json", MIN_CASES, &way, test_steps);
}

static void test_f32(void) {
  const golden_way_t way = {
      .mode = PTC_INTERP_TYPED, .tolerance = {1e-3, 1e-3, 0}, .precision = "f32"};
  golden_each("golden/training/*.json", MIN_CASES, &way, test_steps);
}

int main(void) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 3;
  CU_pSuite suite = CU_add_suite("torch_training", NULL, NULL);
  CU_add_test(suite, "in double, every step is PyTorch's", test_exact);
  CU_add_test(suite, "so it is in micro-batches", test_pipeline);
  CU_add_test(suite, "in f32, every step is near PyTorch's", test_f32);
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  unsigned int failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures == 0 ? 0 : 1;
}
