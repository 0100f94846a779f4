// Proves: the loop nests of the samples, printed as C, compute what their expressions mean, whatever the order
// of the tiles. PTC_CASES sets how many samples, PTC_SEED which is first; PTC_TEST_CFLAGS the compiler's flags.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "ir/op.h"
#include "passes/pass.h"
#include "tests/support/kernel_eval.h"
#include "tests/support/kernel_groups.h"
#include "tests/support/kernel_run.h"
#include "tests/support/small_models.h"
#include "tests/support/unit.h"

enum { MAX_CASES = 4096, SAMPLE_CASES = 2, MAX_MODULES = 256 };

// Many kernels: without the optimizer's best, which c_ops_test has.
static const char QUICK_FLAGS[] =
    "-O1 -std=c17 -ffp-contract=off -fno-math-errno -fno-trapping-math -fopenmp-simd";

typedef struct suite_s {
  kernel_set_t *set;
  ptc_arena_t arena;
  ptc_diag_t diag;
  int32_t count, num_modules;
  const ptc_kernel_t *kernels[MAX_CASES];
  const char *rows[MAX_CASES];
  ptc_str_t texts[MAX_CASES];
  ptc_module_t *modules[MAX_MODULES];
} suite_t;

// A text that is equal for kernels that differ in their names alone.
static void describe(const ptc_kernel_t *kernel, ptc_str_t *out) {
  ptc_kernel_t copy = *kernel;
  copy.name = "k";
  copy.about = "";
  copy.loc = (ptc_loc_t){0};
  ptc_kernel_print(&copy, out);
}

static void add_kernel(suite_t *suite, const ptc_kernel_t *kernel, const char *row) {
  if (kernel->kind != PTC_KERNEL_NEST || suite->count == MAX_CASES) return;
  ptc_str_t text = {0};
  describe(kernel, &text);
  for (int32_t i = 0; i < suite->count; ++i)
    if (strcmp(suite->texts[i].data, text.data) == 0) {
      ptc_str_deinit(&text);
      return;
    }
  const int32_t number = kernel_set_add(suite->set, kernel);
  UNIT_CHECK(number >= 0, row);
  if (number < 0) {
    ptc_diag_print(&suite->diag, stderr, PTC_DIAG_TEXT, false);
    ptc_str_deinit(&text);
    return;
  }
  suite->kernels[suite->count] = kernel;
  suite->rows[suite->count] = row;
  suite->texts[suite->count++] = text;
}

static void add_block(suite_t *suite, ptc_block_t *block, const char *row) {
  for (ptc_op_t *op = block->first; op;) {
    if (op->body) add_block(suite, op->body, row);
    if (!ptc_op_attr(op, "kernel")) {
      op = op->next;
      continue;
    }
    ptc_op_t *ops[KERNEL_GROUP_OPS];
    const int32_t count = kernel_group(op, ops);
    ptc_built_kernel_t built;
    const char *name = ptc_arena_printf(&suite->arena, "k%" PRId64, ptc_op_int(op, "kernel"));
    if (ptc_build_kernel(&suite->diag, &suite->arena, name, ops, count, &built) == PTC_OK)
      add_kernel(suite, built.kernel, row);
    op = ops[count - 1]->next;
  }
}

static void add_module(suite_t *suite, ptc_module_t *module, const char *row) {
  ptc_pass_options_t options = {.check_semantics = false};
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, &options);
  bool ok = ptc_pipeline_train(&ctx, module) == PTC_OK;
  ok = ok && ptc_pass_run(&ctx, module, "fuse") == PTC_OK;
  UNIT_CHECK(ok, row);
  for (ptc_func_t *func = ok ? module->funcs : NULL; func; func = func->next)
    add_block(suite, func->body, row);
  ptc_pass_ctx_deinit(&ctx);
  suite->modules[suite->num_modules++] = module;
}

// --- running one kernel

static int64_t param_size(const ptc_kparam_t *param) {
  int64_t size = 1;
  for (int32_t i = 0; i < param->num_dims; ++i) size *= param->extents[i];
  return size;
}

// Whether a small difference of large numbers may decide what comes out.
static bool wants_positive(const ptc_kernel_t *kernel) {
  for (ptc_kx_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    if (e->kind == PTC_KX_OP && (e->opcode == PTC_OP_SQRT || e->opcode == PTC_OP_LOG)) return true;
  }
  return false;
}

// Numbers that suit the dtype; integers are valid indices, mostly.
static double random_value(ptc_dtype_t dtype, bool positive, uint64_t *random) {
  const uint64_t r = unit_random(random);
  if (dtype == PTC_BOOL) return (double)(r & 1);
  if (!ptc_dtype_is_float(dtype)) return (double)(r % 2);
  return ptc_dtype_round(dtype, ((double)(r >> 40) * 0x1p-24 - (positive ? -0.01 : 0.4)) * 3);
}

typedef struct buffers_s {
  int32_t count;
  double *values[PTC_KERNEL_MAX_PARAMS];  // for kernel_eval
  void *first[PTC_KERNEL_MAX_PARAMS], *second[PTC_KERNEL_MAX_PARAMS];
} buffers_t;

static void buffers_init(buffers_t *b, const ptc_kernel_t *kernel, uint64_t *random) {
  const bool positive = wants_positive(kernel);
  b->count = kernel->num_params;
  for (int32_t i = 0; i < b->count; ++i) {
    const ptc_kparam_t *param = &kernel->params[i];
    const int64_t size = param_size(param);
    const size_t bytes = (size_t)(size * ptc_dtype_bytes(param->dtype));
    b->values[i] = malloc(((size_t)size + 1) * sizeof(double));
    for (int64_t k = 0; k < size; ++k)
      b->values[i][k] = random_value(param->dtype, positive, random);
    b->first[i] = malloc(bytes ? bytes : 1);
    b->second[i] = malloc(bytes ? bytes : 1);
    kernel_pack(param->dtype, b->values[i], size, b->first[i]);
    if (bytes) memcpy(b->second[i], b->first[i], bytes);
  }
}

static void buffers_free(buffers_t *b) {
  for (int32_t i = 0; i < b->count; ++i) {
    free(b->values[i]);
    free(b->first[i]);
    free(b->second[i]);
  }
}

static double eps_of(ptc_dtype_t dtype) {
  return dtype == PTC_BF16 ? 0x1p-7 : dtype == PTC_F16 ? 0x1p-10 : dtype == PTC_F64 ? 1e-6 : 1.2e-7;
}

// The largest error of parameter |i|, in units of eps times the largest value of it.
static double error_of(const ptc_kernel_t *kernel, const buffers_t *b, int32_t i, double scale) {
  const ptc_kparam_t *param = &kernel->params[i];
  const int64_t size = param_size(param);
  double *got = malloc(((size_t)size + 1) * sizeof *got), worst = 0, most = scale;
  kernel_unpack(param->dtype, b->first[i], size, got);
  for (int64_t k = 0; k < size; ++k)
    if (fabs(b->values[i][k]) > most && isfinite(b->values[i][k])) most = fabs(b->values[i][k]);
  for (int64_t k = 0; k < size; ++k) {
    const double want = b->values[i][k];
    if (isnan(want) && isnan(got[k])) continue;
    if (want == got[k]) continue;
    const double error = fabs(got[k] - want) / (eps_of(param->dtype) * most);
    if (!(error <= worst)) worst = isnan(error) ? INFINITY : error;
  }
  free(got);
  return worst;
}

static void check_kernel(suite_t *suite, int32_t number, uint64_t *random) {
  const ptc_kernel_t *kernel = suite->kernels[number];
  const int64_t turns[8] = {1, 0, 1, 0, 0, 0, 0, 0};
  buffers_t b;
  buffers_init(&b, kernel, random);
  const int32_t fault = kernel_set_run(suite->set, number, b.first, turns, 0);
  kernel_set_run(suite->set, number, b.second, turns, unit_random(random) | 1);
  bool ok = kernel_eval(kernel, b.values, turns, false) && !fault;
  UNIT_CHECK(ok, suite->rows[number]);
  // Rounding inside: of the operands' precision.
  double scale = 1;
  for (int32_t i = 0; i < b.count; ++i)
    if (kernel->params[i].dtype == PTC_BF16) scale = 8;
  for (int32_t i = 0; i < b.count && ok; ++i) {
    const ptc_kparam_t *param = &kernel->params[i];
    const double error = error_of(kernel, &b, i, scale);
    if (!(error <= 60)) {
      ok = false;
      fprintf(stderr, "%s: parameter %s is off by %g eps\n", suite->rows[number], param->name,
              error);
    }
    if (memcmp(b.first[i], b.second[i],
               (size_t)(param_size(param) * ptc_dtype_bytes(param->dtype))) != 0) {
      ok = false;
      fprintf(stderr, "%s: parameter %s depends on the order of tiles\n", suite->rows[number],
              param->name);
    }
  }
  UNIT_CHECK(ok, suite->rows[number]);
  if (!ok) {
    fprintf(stderr, "%s", suite->texts[number].data);
    const char *body = strstr(kernel_set_source(suite->set, number), "// --- end of the prelude");
    fprintf(stderr, "%s\n", body ? body : "");
  }
  buffers_free(&b);
}

static void run_suite(suite_t *suite, uint64_t seed) {
  const char *flags = getenv("PTC_TEST_CFLAGS");
  const bool built = kernel_set_build(suite->set, flags ? flags : QUICK_FLAGS);
  UNIT_CHECK(built, "compile");
  for (int32_t i = 0; built && i < suite->count; ++i) check_kernel(suite, i, &seed);
  fprintf(stderr, "  (%d kernels)", suite->count);
}

static suite_t *suite_create(void) {
  suite_t *suite = calloc(1, sizeof *suite);
  ptc_diag_init(&suite->diag);
  suite->set = kernel_set_create(&suite->diag);
  return suite;
}

static void suite_free(suite_t *suite) {
  kernel_set_free(suite->set);
  for (int32_t i = 0; i < suite->count; ++i) ptc_str_deinit(&suite->texts[i]);
  for (int32_t i = 0; i < suite->num_modules; ++i) ptc_module_destroy(suite->modules[i]);
  ptc_arena_deinit(&suite->arena);
  ptc_diag_deinit(&suite->diag);
  free(suite);
}

static void test_samples(void) {
  const uint64_t seed = unit_seed();
  const char *cases = getenv("PTC_CASES");
  int count = cases ? atoi(cases) : SAMPLE_CASES;
  if (count > num_small_models) count = num_small_models;
  suite_t *suite = suite_create();
  for (int i = 0; i < count; ++i) {
    const int number = (int)((seed + (uint64_t)i) % (uint64_t)num_small_models);
    const small_model_t *model = &small_models[number];
    ptc_module_t *module = small_model_lower(model, NULL, 0, &suite->diag);
    UNIT_CHECK(module != NULL, model->name);
    if (module) add_module(suite, module, model->name);
  }
  run_suite(suite, seed);
  suite_free(suite);
}

static const unit_test_t tests[] = {{"samples", test_samples}};

UNIT_MAIN("c_nest", tests)
