// Proves: recompute changes no bit, in typed mode, whatever is saved; and saves less.
#include <stdlib.h>

#include "ir/op.h"
#include "passes/check_semantics.h"
#include "tests/support/pass_runner.h"
#include "tests/support/small_models.h"
#include "tests/support/unit.h"

typedef struct saving_s {
  const char *name, *recompute;
  int64_t every;
} saving_t;

static const saving_t modes[] = {{"full", "full", 0},      {"selective", "selective", 0},
                                 {"every(1)", "every", 1}, {"every(2)", "every", 2},
                                 {"every(3)", "every", 3}, {"every(4)", "every", 4},
                                 {"every(5)", "every", 5}};
enum { NUM_MODES = sizeof(modes) / sizeof(modes[0]) };

static void set_mode(ptc_module_t *module, const saving_t *mode) {
  ptc_attrs_set_string(module, &module->config, "recompute", mode->recompute);
  if (mode->every) ptc_attrs_set_int(module, &module->config, "recompute_every", mode->every);
}

// All results of train in typed mode, one after another.
typedef struct numbers_s {
  double *data;
  int64_t count;
} numbers_t;

static numbers_t run_typed(ptc_module_t *module, const char *name) {
  numbers_t numbers = {0};
  const ptc_func_t *train = ptc_module_find_func(module, "train");
  ptc_interp_t *interp = ptc_interp_create(module, PTC_INTERP_TYPED);
  ptc_semantics_fill(interp, module, 11);
  const ptc_status_t status = ptc_interp_run(interp, "train");
  UNIT_CHECK(status == PTC_OK, name);
  for (int32_t i = 0; status == PTC_OK && i < train->num_results; i++) {
    const ptc_tensor_t *tensor = ptc_interp_result(interp, i);
    const int64_t count = tensor->num_elements * tensor->num_instances;
    numbers.data = ptc_xrealloc(numbers.data, (size_t)(numbers.count + count + 1) * sizeof(double));
    memcpy(numbers.data + numbers.count, tensor->data, (size_t)count * sizeof(double));
    numbers.count += count;
  }
  ptc_interp_destroy(interp);
  return numbers;
}

static bool equal_bits(const numbers_t *a, const numbers_t *b) {
  return a->count > 0 && a->count == b->count &&
         memcmp(a->data, b->data, (size_t)a->count * sizeof(double)) == 0;
}

// Bytes of the bundles that reversed regions take from forward ones of the same block.
static void see_saved(ptc_op_t *op, void *arg) {
  if (op->opcode != PTC_OP_REPEAT || !ptc_op_bool(op, "reverse")) return;
  for (int32_t i = op->num_carry; i < op->num_operands; i++) {
    const ptc_op_t *def = op->operands[i]->def;
    if (def && def->opcode == PTC_OP_REPEAT && !def->remat && !op->parent->parent_op)
      *(int64_t *)arg += ptc_type_num_bytes(op->operands[i]->type);
  }
}

static int64_t saved_bytes(const ptc_module_t *module) {
  int64_t bytes = 0;
  ptc_block_walk(ptc_module_find_func(module, "train")->body, see_saved, &bytes);
  return bytes;
}

static void see_remat(ptc_op_t *op, void *arg) { *(int *)arg += op->remat; }

static void test_by_hand(void) {
  program_t plain;
  program_load(&plain, "recompute");
  CU_ASSERT_PTR_NOT_NULL_FATAL(plain.module);
  numbers_t expected = run_typed(plain.module, "none");
  const int64_t all = saved_bytes(plain.module);
  int64_t saved[NUM_MODES];
  for (int m = 0; m < NUM_MODES; m++) {
    const char *name = modes[m].name;
    program_t program;
    program_load(&program, "recompute");
    CU_ASSERT_PTR_NOT_NULL_FATAL(program.module);
    set_mode(program.module, &modes[m]);
    UNIT_CHECK(run_passes(program.module, "recompute canonicalize", false) == PTC_OK, name);
    numbers_t numbers = run_typed(program.module, name);
    UNIT_CHECK(equal_bits(&numbers, &expected), name);
    int num_remat = 0;
    ptc_block_walk(program.module->funcs->body, see_remat, &num_remat);
    const bool whole = modes[m].every == 5;  // one group of all turns is no region to split
    UNIT_CHECK((num_remat > 0) != whole, name);
    saved[m] = saved_bytes(program.module);
    UNIT_CHECK(whole ? saved[m] == all : saved[m] < all, name);
    free(numbers.data);
    program_deinit(&program);
  }
  // full: the carried value and what is a result anyway; every(2): two of five.
  CU_ASSERT(saved[0] < saved[1]);
  CU_ASSERT_EQUAL(saved[2], 5 * 2 * 3 * 4);
  CU_ASSERT_EQUAL(saved[3], 2 * 2 * 3 * 4);
  CU_ASSERT_EQUAL(saved[4], 1 * 2 * 3 * 4);
  free(expected.data);
  program_deinit(&plain);
}

// Whole steps of models, in bf16 and in micro-batches, too.
static void test_samples(void) {
  for (int i = 0; i < num_small_models; i++) {
    const small_model_t *model = &small_models[i];
    numbers_t expected = {0};
    int64_t all = 0;
    for (int m = -1; m < 4; m++) {
      const ptc_override_t precision = {"train.precision", "bf16"};
      ptc_diag_t diag;
      ptc_diag_init(&diag);
      ptc_module_t *module = small_model_lower(model, &precision, 1, &diag);
      UNIT_CHECK(module != NULL, model->name);
      if (!module) continue;
      if (m >= 0) set_mode(module, &modes[m]);
      if (i % 2) ptc_attrs_set_int(module, &module->config, "micro_batch", 2);
      ptc_pass_ctx_t ctx;
      ptc_pass_ctx_init(&ctx, NULL);
      UNIT_CHECK(ptc_pipeline_train(&ctx, module) == PTC_OK, model->name);
      ptc_pass_ctx_deinit(&ctx);
      numbers_t numbers = run_typed(module, model->name);
      if (m < 0) {
        expected = numbers;
        all = saved_bytes(module);
      } else {
        UNIT_CHECK(equal_bits(&numbers, &expected), model->name);
        UNIT_CHECK(saved_bytes(module) <= all, model->name);
        free(numbers.data);
      }
      ptc_module_destroy(module);
      ptc_diag_deinit(&diag);
    }
    free(expected.data);
  }
}

// selective(bytes = N): every level saves no more than the one before, the first everything.
static void test_levels(void) {
  for (int i = 0; i < num_small_models; i += 3) {
    const small_model_t *model = &small_models[i];
    numbers_t expected = {0};
    int64_t before = INT64_MAX, steps = 0;
    for (int l = 0; l < 4; l++) {
      const int64_t level = l == 0 ? 0 : l == 1 ? 1 : steps * (l - 1) / 2;
      ptc_diag_t diag;
      ptc_diag_init(&diag);
      ptc_module_t *module = small_model_lower(model, NULL, 0, &diag);
      UNIT_CHECK(module != NULL, model->name);
      if (!module) continue;
      ptc_attrs_set_string(module, &module->config, "recompute", "selective");
      ptc_attrs_set_int(module, &module->config, "recompute_level", level);
      ptc_pass_ctx_t ctx;
      ptc_pass_ctx_init(&ctx, NULL);
      UNIT_CHECK(ptc_pipeline_train(&ctx, module) == PTC_OK, model->name);
      ptc_pass_ctx_deinit(&ctx);
      steps = ptc_attrs_int(&module->config, "recompute_steps", -1);
      UNIT_CHECK(steps > 1, model->name);
      int num_remat = 0;
      ptc_block_walk(ptc_module_find_func(module, "train")->body, see_remat, &num_remat);
      UNIT_CHECK((num_remat > 0) == (level > 0), model->name);
      const int64_t bytes = saved_bytes(module);
      UNIT_CHECK(bytes < before || level <= 1, model->name);
      before = bytes;
      numbers_t numbers = run_typed(module, model->name);
      UNIT_CHECK(l == 0 || equal_bits(&numbers, &expected), model->name);
      if (l == 0)
        expected = numbers;
      else
        free(numbers.data);
      ptc_module_destroy(module);
      ptc_diag_deinit(&diag);
    }
    free(expected.data);
  }
}

static void test_errors(void) {
  static const saving_t rows[] = {{"kind", "some", 0}, {"every(0)", "every", -1}};
  for (int i = 0; i < 2; i++) {
    program_t program;
    program_load(&program, "recompute");
    CU_ASSERT_PTR_NOT_NULL_FATAL(program.module);
    set_mode(program.module, &rows[i]);
    UNIT_CHECK(run_passes_unchecked(program.module, "recompute", true) == PTC_INVALID_INPUT,
               rows[i].name);
    UNIT_CHECK(program_has_error(&program, "recompute-kind"), rows[i].name);
    program_deinit(&program);
  }
}

static const unit_test_t tests[] = {
    {"by hand", test_by_hand},
    {"samples", test_samples},
    {"levels", test_levels},
    {"errors", test_errors},
};
UNIT_MAIN("recompute", tests)
