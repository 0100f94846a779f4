// Proves: generated code trains as PyTorch does: from the same weights on the same data every loss, the
// first gradients and the last parameters of each family (recorded by tests/torch at small size, where
// every dim is longer than a vector and most are no multiple of one). PTC_CASE=NAME runs one family.
#include <CUnit/Basic.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/generated.h"
#include "tests/support/golden.h"

enum { MIN_CASES = 12 };

static int64_t count_elements(const ptc_buffer_t *buffer) {
  int64_t count = 1;
  for (int32_t d = 0; d < buffer->num_dims; d++) count *= buffer->extents[d];
  return count;
}

static double read_cell(ptc_dtype_t dtype, const void *memory, int64_t e) {
  switch (dtype) {
    case PTC_F32: return (double)((const float *)memory)[e];
    case PTC_F64: return ((const double *)memory)[e];
    case PTC_I32: return ((const int32_t *)memory)[e];
    case PTC_I64: return (double)((const int64_t *)memory)[e];
    default: return NAN;
  }
}

static void write_cell(ptc_dtype_t dtype, void *memory, int64_t e, double value) {
  switch (dtype) {
    case PTC_F32: ((float *)memory)[e] = (float)value; break;
    case PTC_I32: ((int32_t *)memory)[e] = (int32_t)value; break;
    default: CU_FAIL("an input or parameter of another dtype");
  }
}

// Of |count| elements of |memory|; the caller frees it.
static double *read_cells(ptc_dtype_t dtype, const void *memory, int64_t count) {
  double *data = malloc((size_t)count * sizeof(*data));
  if (!data) abort();
  for (int64_t e = 0; e < count; e++) data[e] = read_cell(dtype, memory, e);
  return data;
}

static void fill_global(golden_t *golden, const generated_t *m, const ptc_plan_global_t *global) {
  const ptc_buffer_t *buffer = &m->emitted.plan->buffers[global->buffer];
  const bool is_param = strcmp(global->kind, "param") == 0;
  int64_t num_instances = 1;
  for (int32_t i = 0; i < global->num_counts; i++) num_instances *= global->counts[i];
  for (int64_t i = 0; i < num_instances; i++) {
    void *memory = ptc_executor_global(m->executor, global, i);
    int64_t count = count_elements(buffer);
    double *data = read_cells(buffer->dtype, memory, count);
    ptc_str_t path = {0};
    ptc_plan_instance_path(global, i, &path);
    if (is_param)
      golden_perturb_instance(golden, path.data, buffer->dtype, data, count);
    else
      golden_draw(golden, path.data, buffer->dtype, global->range, data, count);
    for (int64_t e = 0; e < count; e++) write_cell(buffer->dtype, memory, e, data[e]);
    ptc_str_deinit(&path);
    free(data);
  }
}

static void fill(golden_t *golden, const generated_t *m) {
  for (int32_t i = 0; i < m->emitted.plan->num_globals; i++) {
    const ptc_plan_global_t *global = &m->emitted.plan->globals[i];
    bool read_input = strcmp(global->kind, "input") == 0 && global->source;
    if (read_input || strcmp(global->kind, "param") == 0) fill_global(golden, m, global);
  }
}

// Every instance of a global with the memory |at| gives for it.
static size_t check_global(golden_t *golden, const generated_t *m, const ptc_plan_global_t *global,
                           const ptc_plan_result_t *grad) {
  const ptc_plan_t *plan = m->emitted.plan;
  const ptc_buffer_t *buffer = &plan->buffers[grad ? grad->buffer : global->buffer];
  int64_t num_instances = 1;
  for (int32_t i = 0; i < global->num_counts; i++) num_instances *= global->counts[i];
  for (int64_t i = 0; i < num_instances; i++) {
    const void *memory = grad ? ptc_executor_result(m->executor, grad, i)
                              : ptc_executor_global(m->executor, global, i);
    int64_t count = count_elements(buffer);
    double *data = read_cells(buffer->dtype, memory, count);
    ptc_str_t name = {0};
    ptc_str_append(&name, grad ? "grad." : "final.");
    ptc_plan_instance_path(global, i, &name);
    golden_check_instance(golden, name.data, data, count);
    ptc_str_deinit(&name);
    free(data);
  }
  return (size_t)num_instances;
}

static void check_grads(golden_t *golden, const generated_t *m, const ptc_task_t *train) {
  size_t found = 0;
  for (int32_t i = 0; i < train->num_results; i++) {
    const ptc_plan_global_t *global = ptc_plan_grad_of(m->emitted.plan, train, i);
    if (global) found += check_global(golden, m, global, &train->results[i]);
  }
  if (found < golden_count(golden, "grad."))
    golden_fail(golden, "train", "the gradient of a parameter is missing");
}

static void check_params(golden_t *golden, const generated_t *m) {
  size_t found = 0;
  for (int32_t i = 0; i < m->emitted.plan->num_globals; i++) {
    const ptc_plan_global_t *global = &m->emitted.plan->globals[i];
    if (strcmp(global->kind, "param") == 0) found += check_global(golden, m, global, NULL);
  }
  if (found < golden_count(golden, "final."))
    golden_fail(golden, "train", "a parameter is missing");
}

// The sum of all losses of the last step.
static double total_loss(const generated_t *m, const ptc_task_t *train) {
  double sum = 0;
  for (int32_t i = 0; i < train->num_results; i++) {
    if (strcmp(train->results[i].role, "loss") == 0)
      sum += ptc_executor_result_number(m->executor, &train->results[i]);
  }
  return sum;
}

static void train_plan(golden_t *golden, ptc_diag_t *diag, const generated_t *m) {
  const ptc_plan_t *plan = m->emitted.plan;
  const ptc_task_t *train = ptc_plan_find_task(plan, "train");
  if (!train) {
    golden_fail(golden, "train", "is missing");
    return;
  }
  fill(golden, m);
  json_t *losses = json_object_get(json_object_get(golden->json, "steps"), "loss"), *want;
  const bool exact = !golden->way->precision;  // in f32, gradients and parameters count, too
  size_t step;
  json_array_foreach(losses, step, want) {
    if (ptc_executor_run(diag, m->executor, train) != PTC_OK) {
      golden_fail(golden, "train", "does not run");
      return;
    }
    char name[64];
    snprintf(name, sizeof(name), "loss of step %zu", step);
    double value = json_number_value(want);
    golden_check_number(golden, name, total_loss(m, train), value,
                        golden->tolerance.value * fabs(value));
    if (step == 0 && exact) check_grads(golden, m, train);
  }
  // Adam divides noise by noise where there is no gradient but rounding (a key's bias).
  golden->tolerance.tensor = 2e-3;
  if (exact) check_params(golden, m);
}

// Only train is compiled: the C compiler takes nearly all of the time. The interpreter draws the first weights.
static void test_module(golden_t *golden, ptc_pass_ctx_t *ctx, ptc_module_t *module) {
  generated_t m;
  (void)ctx;
  ptc_interp_t *interp = ptc_interp_create(module, PTC_INTERP_TYPED);
  const bool drawn = ptc_interp_run(interp, "init") == PTC_OK;
  ptc_func_t *train = ptc_module_find_func(module, "train");
  train->next = NULL;
  module->funcs = train;
  if (!drawn) golden_fail(golden, "init", "does not run");
  if (generated_open(&m, module, 0)) {
    generated_load(&m, interp);
    train_plan(golden, module->diag, &m);
  } else {
    golden_fail(golden, "plan", "cannot be made");
  }
  generated_close(&m);
  ptc_interp_destroy(interp);
}

// PyTorch's own f32 is within 1e-6 of its f64 in the losses, 2e-6 in the gradients and 6e-4 in the
// parameters.
static void test_f32(void) {
  const golden_way_t way = {.mode = PTC_INTERP_TYPED, .tolerance = {1e-5, 1e-4, 1e-3}};
  const char *one = getenv("PTC_CASE");
  char pattern[128];
  snprintf(pattern, sizeof(pattern), "golden/small/%s.json", one ? one : "*");
  golden_each_module(pattern, one ? 1 : MIN_CASES, &way, test_module);
}

static void test_bf16(void) {
  const golden_way_t way = {
      .mode = PTC_INTERP_TYPED, .tolerance = {2e-2, 1, 1}, .precision = "bf16"};
  golden_each_module("golden/small/llama3.json", 1, &way, test_module);
}

int main(void) {
  // What the C compiler optimizes is tested elsewhere; here it would take most of the time.
  setenv("CC", PTC_SOURCE_DIR "/tests/support/quick_cc.sh", 1);
  if (CU_initialize_registry() != CUE_SUCCESS) return 3;
  CU_pSuite suite = CU_add_suite("torch_small", NULL, NULL);
  CU_add_test(suite, "in f32, losses, gradients and parameters are PyTorch's", test_f32);
  CU_add_test(suite, "in bf16, losses are near PyTorch's", test_bf16);
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  unsigned int failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures == 0 ? 0 : 1;
}
