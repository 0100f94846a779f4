// Proves: random models of every statement form compile, verify, keep their meaning through every
// pass, and have the gradient that finite differences give; together they reach every row of ops.def.
// PTC_CASES sets the number of random models, PTC_SEED their first seed.
#include "tests/support/random_model.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "frontend/driver/compile.h"
#include "ir/interp.h"
#include "ir/op.h"
#include "passes/check_semantics.h"
#include "tests/support/unit.h"

// The fixed seeds reach every form and op by themselves; the random ones look further.
enum { FIXED_CASES = 200, DEFAULT_CASES = 60 };

static int64_t op_counts[PTC_NUM_OPS], form_counts[RANDOM_MODEL_NUM_FORMS];

static void count_op(ptc_op_t *op, void *arg) {
  (void)arg;
  op_counts[op->opcode]++;
}

static void count_module(const ptc_module_t *module) {
  for (ptc_func_t *func = module->funcs; func; func = func->next)
    ptc_block_walk(func->body, count_op, NULL);
}

// Compiles |text| and runs the pipeline up to |stop_after| (NULL: all of it). NULL on error.
static ptc_module_t *compile(ptc_diag_t *diag, const ptc_str_t *text, const char *stop_after,
                             bool check) {
  ptc_module_t *module = NULL;
  if (ptc_compile_text(diag, "random.ptm", text->data, text->len, NULL, &module) != PTC_OK)
    return NULL;
  ptc_pass_options_t options = {.stop_after = stop_after, .check_semantics = check};
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, &options);
  ptc_status_t status = ptc_pipeline_train(&ctx, module);
  ptc_pass_ctx_deinit(&ctx);
  if (status == PTC_OK) return module;
  ptc_module_destroy(module);
  return NULL;
}

static double total_loss(const ptc_interp_t *interp, const ptc_func_t *func) {
  double total = 0;
  for (int32_t i = 0; i < func->num_results; i++)
    if (func->results[i].kind == PTC_RESULT_VALUE && strcmp(func->results[i].role, "loss") == 0)
      total += ptc_interp_result(interp, i)->data[0];
  return total;
}

// The direction of parameter |global|'s element |i|: any fixed numbers will do.
static double direction(const ptc_global_t *global, int64_t i) {
  return 2 * (ptc_philox(99, (uint64_t)i, 0, (uint32_t)global->index) * 0x1p-32) - 1;
}

static void move_params(ptc_interp_t *interp, const ptc_func_t *func, double step) {
  for (int32_t r = 0; r < func->num_results; r++) {
    if (func->results[r].kind != PTC_RESULT_GRAD) continue;
    const ptc_global_t *global = func->results[r].global;
    ptc_tensor_t *tensor = ptc_interp_global(interp, global);
    for (int64_t i = 0; i < tensor->num_elements * tensor->num_instances; i++)
      tensor->data[i] += step * direction(global, i);
  }
}

// Directional derivative by the gradients against central differences; the difference, relative.
static double derivative_error(ptc_module_t *module, uint64_t seed) {
  const ptc_func_t *func = ptc_module_find_func(module, ptc_module_intern(module, "train"));
  double best = INFINITY;
  // A step may cross a kink (a rounding, another expert): then another one decides.
  for (double step = 1e-5; step > 1e-8 && best > 1e-5; step /= 10) {
    ptc_interp_t *interp = ptc_interp_create(module, PTC_INTERP_EXACT);
    ptc_semantics_fill(interp, module, seed);
    if (ptc_interp_run(interp, "train") != PTC_OK) {
      ptc_interp_destroy(interp);
      return INFINITY;
    }
    double exact = 0, scale = 1;
    for (int32_t r = 0; r < func->num_results; r++) {
      if (func->results[r].kind != PTC_RESULT_GRAD) continue;
      const ptc_tensor_t *grad = ptc_interp_result(interp, r);
      for (int64_t i = 0; i < grad->num_elements * grad->num_instances; i++)
        exact += grad->data[i] * direction(func->results[r].global, i);
    }
    // f16 differentiates the scaled loss.
    const ptc_global_t *loss_scale =
        ptc_module_find_global(module, ptc_module_intern(module, "loss_scale"));
    if (loss_scale) scale = ptc_interp_global(interp, loss_scale)->data[0];
    double losses[2];
    bool ok = true;
    for (int side = 0; side < 2 && ok; side++) {
      ptc_semantics_fill(interp, module, seed);
      move_params(interp, func, side ? step : -step);
      ok = ptc_interp_run(interp, "train") == PTC_OK;
      losses[side] = ok ? total_loss(interp, func) : 0;
    }
    ptc_interp_destroy(interp);
    if (!ok) return INFINITY;
    double estimate = scale * (losses[1] - losses[0]) / (2 * step);
    double error = fabs(estimate - exact) / (fabs(exact) + scale * 0.1);
    if (error < best) best = error;
  }
  return best;
}

static void fail(const ptc_str_t *text, const ptc_diag_t *diag, uint64_t seed, const char *what) {
  fprintf(stderr, "seed %" PRIu64 ": %s\n%s", seed, what, text->data);
  ptc_diag_print(diag, stderr, PTC_DIAG_TEXT, false);
}

static void run_case(uint64_t seed) {
  uint64_t random = seed;
  ptc_str_t text = {0};
  random_model_write(&random, &text, form_counts);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  const char *what = NULL;
  ptc_module_t *lowered = compile(&diag, &text, "infer-shapes", false);
  ptc_module_t *differentiated = lowered ? compile(&diag, &text, "autodiff", false) : NULL;
  ptc_module_t *whole = differentiated ? compile(&diag, &text, NULL, true) : NULL;
  if (!lowered)
    what = "does not compile";
  else if (!differentiated)
    what = "is not differentiated";
  else if (!whole)
    what = "does not pass the pipeline";
  if (!what) {
    count_module(lowered);
    count_module(differentiated);
    count_module(whole);
    double error = derivative_error(differentiated, seed);
    if (!(error < 1e-4)) {
      what = "gradient differs from finite differences";
      fprintf(stderr, "error %g\n", error);
    }
  }
  if (what) fail(&text, &diag, seed, what);
  UNIT_CHECK(!what, what ? what : "");
  ptc_module_destroy(lowered);
  ptc_module_destroy(differentiated);
  ptc_module_destroy(whole);
  ptc_diag_deinit(&diag);
  ptc_str_deinit(&text);
}

static void test_models(void) {
  uint64_t seed = unit_seed();
  const char *cases = getenv("PTC_CASES");
  int64_t count = cases ? atoll(cases) : DEFAULT_CASES;
  for (uint64_t i = 1; i <= FIXED_CASES; i++) run_case(i);
  for (int64_t i = 0; i < count; i++) run_case(seed + (uint64_t)i);
}

// Only a module that was partitioned over devices has these ops.
static bool is_of_devices(ptc_opcode_t opcode) {
  return (ptc_op_info(opcode)->traits & PTC_TRAIT_COLLECTIVE) || opcode == PTC_OP_AXIS_INDEX ||
         opcode == PTC_OP_SEND || opcode == PTC_OP_RECV || opcode == PTC_OP_REORDER;
}

// After test_models: nothing may be left out.
static void test_histogram(void) {
  printf("\n");
  for (int i = 0; i < RANDOM_MODEL_NUM_FORMS; i++) {
    const char *name = random_model_form_name((random_model_form_t)i);
    printf("  form %-32s %6" PRId64 "\n", name, form_counts[i]);
    UNIT_CHECK(form_counts[i] > 0, name);
  }
  for (int i = 0; i < PTC_NUM_OPS; i++) {
    const char *name = ptc_op_info((ptc_opcode_t)i)->mnemonic;
    printf("  op   %-32s %6" PRId64 "\n", name, op_counts[i]);
    UNIT_CHECK(op_counts[i] > 0 || is_of_devices((ptc_opcode_t)i), name);
  }
}

static const unit_test_t tests[] = {{"models", test_models}, {"histogram", test_histogram}};

UNIT_MAIN("random_model", tests)
