// Proves: every op of the samples and of random models becomes a kernel, alone or in a group, that the
// verifier accepts and that computes what the interpreter does. PTC_CASES sets the number of random models,
// PTC_SEED their first seed.
#include <inttypes.h>
#include <stdlib.h>

#include "ir/op.h"
#include "passes/pass.h"
#include "tests/support/kernel_eval.h"
#include "tests/support/kernel_groups.h"
#include "tests/support/random_model.h"
#include "tests/support/small_models.h"
#include "tests/support/unit.h"

enum { FIXED_CASES = 36, RANDOM_CASES = 8 };

// In exact mode what is left are constants that a kernel rounds to f32.
static const double EXACT_BOUND = 5e-5, TYPED_BOUND = 2e-4;
// And those of a 16-bit dtype, which the interpreter's exact mode does not round.
static const double HALF_BOUND = 3e-2;

static double bound_of(const ptc_module_t *module, bool exact) {
  const char *precision = ptc_attrs_string(&module->config, "precision", "f32");
  return strcmp(precision, "f32") != 0 ? HALF_BOUND : exact ? EXACT_BOUND : TYPED_BOUND;
}

static void show(ptc_module_t *module, const ptc_str_t *text, const char *what, double error) {
  fprintf(stderr, "%s: off by %g\n", what, error);
  if (text->len) fprintf(stderr, "%s", text->data);
  ptc_diag_print(module->diag, stderr, PTC_DIAG_TEXT, false);
}

// --- sums: the same in a group as alone

enum { MAX_SUMS = 256 };

typedef struct sums_s {
  int32_t count;
  int64_t rows[MAX_SUMS], columns[MAX_SUMS];  // points that a sum is over
} sums_t;

static void note_sums(const ptc_kernel_t *kernel, sums_t *sums) {
  for (ptc_kx_t i = 0; i < kernel->num_exprs; i++) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    if (e->kind != PTC_KX_REDUCE || e->reduce != PTC_KX_SUM || sums->count == MAX_SUMS) continue;
    int64_t rows = 1, columns = 1;
    for (int32_t d = 0; d < kernel->num_dims; d++) {
      const bool is_row = d >= kernel->num_grid + kernel->num_col;
      if (e->over >> d & 1) *(is_row ? &rows : &columns) *= kernel->dims[d].extent;
    }
    sums->rows[sums->count] = rows;
    sums->columns[sums->count++] = columns;
  }
}

static bool has_sum(const sums_t *sums, int64_t rows, int64_t columns) {
  for (int32_t i = 0; i < sums->count; i++)
    if (sums->rows[i] == rows && sums->columns[i] == columns) return true;
  return false;
}

// Every sum of a group is over as many rows and columns as in the kernel of one of its ops alone: results do not
// depend on fusion.
static void check_sums(ptc_module_t *module, ptc_block_t *block, ptc_arena_t *arena,
                       const char *row) {
  for (ptc_op_t *op = block->first; op; op = op->next) {
    if (op->body) check_sums(module, op->body, arena, row);
    if (!ptc_op_attr(op, "kernel")) continue;
    ptc_op_t *ops[KERNEL_GROUP_OPS];
    const int32_t count = kernel_group(op, ops);
    sums_t group = {0}, alone = {0};
    ptc_built_kernel_t built;
    if (ptc_build_kernel(module->diag, arena, "k", ops, count, &built) != PTC_OK) return;
    note_sums(built.kernel, &group);
    for (int32_t i = 0; i < count && group.count; i++)
      if (ptc_build_kernel(module->diag, arena, "k", &ops[i], 1, &built) == PTC_OK)
        note_sums(built.kernel, &alone);
    for (int32_t i = 0; i < group.count; i++) {
      const bool same = has_sum(&alone, group.rows[i], group.columns[i]);
      UNIT_CHECK(same, row);
      if (!same) ptc_error(module->diag, op->loc, PTC_INTERNAL, "sum-order", "another order");
    }
    op = ops[count - 1];
  }
}

// Runs the pipeline and fuse, builds all kernels, compares every function.
static void check_module(ptc_module_t *module, const char *row, bool typed, bool alone,
                         const ptc_str_t *text) {
  ptc_pass_options_t options = {.no_fusion = alone};
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, &options);
  ptc_arena_t arena;
  ptc_arena_init(&arena);
  bool ok = ptc_pipeline_train(&ctx, module) == PTC_OK;
  ctx.options.check_semantics = true;
  ok = ok && ptc_pass_run(&ctx, module, "fuse") == PTC_OK;
  ok = ok && kernel_groups_build(module, &arena, NULL) > 0;
  UNIT_CHECK(ok, row);
  if (!ok) show(module, text, row, 0);
  for (ptc_func_t *func = ok ? module->funcs : NULL; func; func = func->next)
    check_sums(module, func->body, &arena, row);
  for (ptc_func_t *func = ok ? module->funcs : NULL; func; func = func->next)
    for (int exact = typed ? 0 : 1; exact < 2; exact++) {
      char worst[256];
      const double error = module_run_compare(module, func->name, 5, exact, worst);
      UNIT_CHECK(error <= bound_of(module, exact), row);
      if (!(error <= bound_of(module, exact))) show(module, text, worst, error);
    }
  ptc_arena_deinit(&arena);
  ptc_pass_ctx_deinit(&ctx);
}

static void test_samples(void) {
  for (int i = 0; i < num_small_models; i++) {
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_module_t *module = small_model_lower(&small_models[i], NULL, 0, &diag);
    UNIT_CHECK(module != NULL, small_models[i].name);
    if (module) {
      ptc_attrs_set_int(module, &module->config, "micro_batch", i % 2 ? 2 : 4);
      check_module(module, small_models[i].name, true, false, &(ptc_str_t){0});
    }
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
}

// |half|: leave the precision that the model asks for.
static void check_random(uint64_t seed, bool half) {
  int64_t forms[RANDOM_MODEL_NUM_FORMS] = {0};
  uint64_t random = seed;
  ptc_str_t text = {0};
  random_model_write(&random, &text, forms);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = NULL;
  char row[32];
  snprintf(row, sizeof(row), "seed %" PRIu64, seed);
  if (ptc_compile_text(&diag, "random.ptm", text.data, text.len, NULL, &module) == PTC_OK) {
    if (!half)
      ptc_attrs_set_string(module, &module->config, "precision", ptc_module_intern(module, "f32"));
    check_module(module, row, false, seed % 3 == 0, &text);
  } else {
    UNIT_CHECK(false, row);
  }
  ptc_module_destroy(module);
  ptc_str_deinit(&text);
  ptc_diag_deinit(&diag);
}

static void test_fixed(void) {
  for (uint64_t seed = 1; seed <= FIXED_CASES; seed++) check_random(seed, seed % 4 == 0);
}

static void test_random(void) {
  const char *cases = getenv("PTC_CASES");
  uint64_t state = unit_seed();
  const long count = cases ? strtol(cases, NULL, 10) : RANDOM_CASES;
  for (long i = 0; i < count; i++) check_random(unit_random(&state), false);
}

static const unit_test_t tests[] = {
    {"samples", test_samples}, {"fixed models", test_fixed}, {"random models", test_random}};
UNIT_MAIN("kernel models", tests)
