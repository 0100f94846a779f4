// Proves: init, loss and every gradient of the sample models are those of independent PyTorch
// references, whose values tests/torch recorded.
#include <CUnit/Basic.h>
#include <math.h>
#include <string.h>

#include "ir/base/str.h"
#include "tests/support/golden.h"

enum { MIN_CASES = 15 };

// Whether the reference has the value.
static bool check_value(golden_t *golden, const ptc_result_t *result, double got) {
  ptc_str_t name = {0};
  if (strcmp(result->name, "loss") == 0)
    ptc_str_append(&name, "loss");
  else
    ptc_str_printf(&name, "%s.%s", result->role, result->name);
  json_t *json = json_object_get(json_object_get(golden->json, "values"), name.data);
  double want = json_number_value(json);
  if (json)
    golden_check_number(golden, name.data, got, want,
                        golden->tolerance.value * fmax(1, fabs(want)));
  ptc_str_deinit(&name);
  return json != NULL;
}

// Checks all that the step returned, and that nothing is missing. A parameter that no loss depends
// on needs no gradient; passes may add metrics.
static void check_results(golden_t *golden, const ptc_module_t *module,
                          const ptc_interp_t *interp) {
  const ptc_func_t *train = ptc_module_find_func(module, "train");
  size_t num_values = 0, num_grads = 0;
  for (int32_t i = 0; i < train->num_results; i++) {
    const ptc_result_t *result = &train->results[i];
    const ptc_tensor_t *tensor = ptc_interp_result(interp, i);
    if (result->kind == PTC_RESULT_VALUE && tensor->num_elements == 1)
      num_values += check_value(golden, result, tensor->data[0]);
    else if (result->kind == PTC_RESULT_GRAD)
      num_grads += golden_check_tensor(golden, "grad", result->global, tensor);
  }
  if (num_values != json_object_size(json_object_get(golden->json, "values")))
    golden_fail(golden, "train", "a value is missing");
  if (num_grads < golden_count(golden, "grad."))
    golden_fail(golden, "train", "a gradient is missing");
}

static void test_step(golden_t *golden, ptc_module_t *module, ptc_interp_t *interp) {
  size_t num_params = 0;
  for (int64_t i = 0; i < module->num_globals; i++) {
    const ptc_global_t *global = module->globals[i];
    if (global->kind == PTC_GLOBAL_PARAM)
      num_params += golden_check_tensor(golden, "init", global, ptc_interp_global(interp, global));
  }
  if (num_params < golden_count(golden, "init."))
    golden_fail(golden, "init", "a parameter is missing");
  golden_fill(golden, module, interp);
  for (int64_t i = 0; i < module->num_globals; i++) {
    const ptc_global_t *global = module->globals[i];
    if (global->kind == PTC_GLOBAL_INPUT)
      golden_check_tensor(golden, "", global, ptc_interp_global(interp, global));
  }
  if (ptc_interp_run(interp, "train") == PTC_OK)
    check_results(golden, module, interp);
  else
    golden_fail(golden, "train", "does not run");
}

static void test_exact(void) {
  const golden_way_t way = {
      .mode = PTC_INTERP_EXACT, .tolerance = {1e-10, 1e-9, 1e-6}, .stop_after = "autodiff"};
  golden_each("golden/*.json", MIN_CASES, &way, test_step);
}

static void test_f32(void) {
  const golden_way_t way = {.mode = PTC_INTERP_TYPED,
                            .tolerance = {1e-5, 2e-4, 1e-2},
                            .stop_after = "autodiff",
                            .precision = "f32"};
  golden_each("golden/*.json", MIN_CASES, &way, test_step);
}

// A sum over micro-batches, with every saved value computed again, is the same sum.
static void test_pipeline(void) {
  const golden_way_t way = {.mode = PTC_INTERP_EXACT,
                            .tolerance = {1e-10, 1e-9, 1e-6},
                            .micro_batch = 1,
                            .recompute = "full"};
  golden_each("golden/*.json", MIN_CASES, &way, test_step);
}

int main(void) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 3;
  CU_pSuite suite = CU_add_suite("torch_golden", NULL, NULL);
  CU_add_test(suite, "in double, every value is the reference's", test_exact);
  CU_add_test(suite, "in f32, every value is near the reference's", test_f32);
  CU_add_test(suite, "micro-batches and recomputation change nothing", test_pipeline);
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  unsigned int failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures == 0 ? 0 : 1;
}
