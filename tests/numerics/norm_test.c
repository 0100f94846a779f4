// Proves: the sum of squares of gradients is exact: it is that of an independent big integer, in the
// interpreter and in generated C; its bits do not depend on the order of elements, on shards, on bundles
// or on tiles; the norm is that number's root.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "ir/limbs.h"
#include "ir/text.h"
#include "passes/build_kernels.h"
#include "passes/pass.h"
#include "tests/support/interp_case.h"
#include "tests/support/kernel_run.h"
#include "tests/support/pass_runner.h"
#include "tests/support/small_models.h"
#include "tests/support/unit.h"

// --- the oracle: bits of 2^-298 and up, one per place

enum { NUM_BITS = 700 };

typedef struct big_s {
  uint8_t bit[NUM_BITS];
} big_t;

static void big_add(big_t *big, uint64_t units, int place) {
  int carry = 0;
  for (int i = 0; place + i < NUM_BITS && (i < 64 || carry); i++) {
    const int sum = big->bit[place + i] + (i < 64 ? (int)(units >> i & 1) : 0) + carry;
    big->bit[place + i] = sum & 1;
    carry = sum >> 1;
  }
}

// x is an f32: an integer of 24 bits times a power of two of at least 2^-149.
static void big_add_square(big_t *big, double x) {
  int exponent;
  const double fraction = frexp(fabs(x), &exponent);
  if (fraction == 0) return;
  const int shift = exponent - 24 < -149 ? -149 : exponent - 24;
  const uint64_t units = (uint64_t)ldexp(fraction, exponent - shift);
  big_add(big, units * units, 2 * shift + 298);
}

// To nearest, ties to even.
static double big_value(const big_t *big) {
  int top = NUM_BITS - 1;
  while (top >= 0 && !big->bit[top]) top--;
  if (top < 0) return 0;
  const int last = top - 52;
  uint64_t units = 0;
  for (int i = top; i >= last; i--) units = 2 * units + (i >= 0 ? big->bit[i] : 0);
  bool below = false;
  for (int i = 0; i < last - 1; i++) below |= big->bit[i];
  const bool half = last >= 1 && big->bit[last - 1];
  if (half && (below || (units & 1))) units++;
  return ldexp((double)units, last - 298);
}

// --- data

typedef enum spread_s { NORMAL, WIDE, ALL, TINY, NUM_SPREADS } spread_t;

static double uniform(uint64_t *random) { return (double)(unit_random(random) >> 11) * 0x1p-53; }

// A finite f32.
static double draw(spread_t spread, uint64_t *random) {
  if (spread == NORMAL) return (float)((uniform(random) + uniform(random) - 1) * 1e-3);
  if (spread == WIDE) return (float)((uniform(random) - 0.5) * exp2(40 * uniform(random) - 30));
  for (;;) {
    const uint64_t r = unit_random(random);
    uint32_t bits = (uint32_t)(r >> 32);
    if (spread == TINY) bits &= 0x80ffffff;
    float x;
    memcpy(&x, &bits, sizeof x);
    if (r % 7 == 0) return 0;
    if (isfinite(x)) return x;
  }
}

// --- limbs by the kernel of the op

typedef struct square_sum_s {
  ptc_diag_t diag;
  ptc_module_t *module;
  ptc_built_kernel_t built;
  kernel_set_t *set;
} square_sum_t;

static bool square_sum_open(square_sum_t *s, int64_t count) {
  char text[256];
  snprintf(text, sizeof text,
           "module \"m\"\ninput @x : f32[n=%" PRId64
           "]\nfunc @f(%%x = @x) {\n  %%0 = square_sum %%x\n  return output \"s\" = %%0\n}\n",
           count);
  *s = (square_sum_t){0};
  ptc_diag_init(&s->diag);
  if (ptc_module_parse(&s->diag, "m.ptir", text, strlen(text), &s->module) != PTC_OK) return false;
  ptc_op_t *op = s->module->funcs->body->first;
  if (ptc_build_kernel(&s->diag, &s->module->arena, "k", &op, 1, &s->built) != PTC_OK) return false;
  s->set = kernel_set_create(&s->diag);
  return kernel_set_add(s->set, s->built.kernel) == 0 && kernel_set_build(s->set, NULL);
}

static void square_sum_close(square_sum_t *s) {
  if (s->set) kernel_set_free(s->set);
  ptc_module_destroy(s->module);
  ptc_diag_deinit(&s->diag);
}

static void square_sum_run(square_sum_t *s, float *x, uint64_t shuffle, int64_t *out_limbs) {
  const int64_t turns[8] = {0};
  void *params[] = {x, out_limbs};
  CU_ASSERT_EQUAL(kernel_set_run(s->set, 0, params, turns, shuffle), 0);
}

static void test_exact(void) {
  static const int64_t counts[] = {1, 7, 512, 1500, 33000, 70001};
  uint64_t random = unit_seed();
  for (int c = 0; c < 6; c++) {
    square_sum_t sum;
    const bool open = square_sum_open(&sum, counts[c]);
    CU_ASSERT(open);
    for (int spread = 0; open && spread < NUM_SPREADS; spread++) {
      float *x = malloc((size_t)counts[c] * sizeof *x);
      big_t *big = calloc(1, sizeof *big);
      int64_t limbs[PTC_LIMBS] = {0}, printed[PTC_LIMBS], shuffled[PTC_LIMBS];
      for (int64_t i = 0; i < counts[c]; i++) {
        x[i] = (float)draw((spread_t)spread, &random);
        big_add_square(big, x[i]);
        ptc_limbs_add_square(limbs, x[i]);
      }
      ptc_limbs_normalize(limbs);
      CU_ASSERT_EQUAL(ptc_limbs_value(limbs), big_value(big));
      square_sum_run(&sum, x, 0, printed);
      CU_ASSERT_EQUAL(memcmp(printed, limbs, sizeof limbs), 0);
      // Another order of elements and of tiles.
      for (int64_t i = counts[c] - 1; i > 0; i--) {
        const int64_t j = (int64_t)(unit_random(&random) % (uint64_t)(i + 1));
        const float y = x[i];
        x[i] = x[j];
        x[j] = y;
      }
      square_sum_run(&sum, x, unit_random(&random) | 1, shuffled);
      CU_ASSERT_EQUAL(memcmp(shuffled, limbs, sizeof limbs), 0);
      free(x);
      free(big);
    }
    square_sum_close(&sum);
  }
}

// Rounding of values that lie halfway, and next to that.
static void test_rounding(void) {
  uint64_t random = unit_seed();
  for (int i = 0; i < 20000; i++) {
    big_t big = {{0}};
    int64_t limbs[PTC_LIMBS] = {0};
    const int top = 60 + (int)(unit_random(&random) % 500), cases = i % 4;
    const int places[] = {top, top - 52, top - 53,
                          (int)(unit_random(&random) % (uint64_t)(top - 53))};
    for (int k = 0; k < 4; k++) {
      if ((k == 1 && (cases & 1)) || (k == 3 && (cases & 2))) continue;
      big_add(&big, 1, places[k]);
      limbs[places[k] / 32] += INT64_C(1) << places[k] % 32;
    }
    // Not normalized: a digit more below, one less above.
    if (limbs[3] > 0) limbs[3]--, limbs[2] += INT64_C(1) << 32;
    CU_ASSERT_EQUAL(ptc_limbs_value(limbs), big_value(&big));
  }
  int64_t limbs[PTC_LIMBS] = {0};
  CU_ASSERT_EQUAL(ptc_limbs_value(limbs), 0);
  ptc_limbs_add_square(limbs, 0x1p128);
  CU_ASSERT_EQUAL(ptc_limbs_value(limbs), INFINITY);
  ptc_limbs_add_square(limbs, NAN);
  CU_ASSERT(isnan(ptc_limbs_value(limbs)));
}

// --- shards: each device of a mesh sums what it holds, the limbs are added in any order

// Adds the limbs of the elements [begin, end) along dim |dim| of |x|.
static void add_shard(const double *x, const int64_t *extent, int dim, int64_t begin, int64_t end,
                      int64_t *sum) {
  ptc_str_t text = {0};
  ptc_str_append(&text, "module \"m\"\ninput @x : f32[");
  for (int d = 0; d < 3; d++)
    ptc_str_printf(&text, "%s%c=%" PRId64, d ? ", " : "", 'a' + d,
                   d == dim ? end - begin : extent[d]);
  ptc_str_append(&text,
                 "]\nfunc @f(%x = @x) {\n  %0 = square_sum %x\n  return output \"s\" = %0\n}\n");
  interp_case_t *c = interp_case_open(text.data, PTC_INTERP_TYPED);
  CU_ASSERT_FATAL(c != NULL);
  double *to = interp_case_global(c, "x");
  int64_t before = 1, after = 1;
  for (int d = 0; d < 3; d++) *(d < dim ? &before : &after) *= d == dim ? 1 : extent[d];
  for (int64_t o = 0; o < before; o++) {
    const int64_t size = (end - begin) * after;
    memcpy(to + o * size, x + (o * extent[dim] + begin) * after, (size_t)size * sizeof *x);
  }
  CU_ASSERT_EQUAL(ptc_interp_run(c->interp, "f"), PTC_OK);
  for (int k = 0; k < PTC_LIMBS; k++) sum[k] += (int64_t)interp_case_result(c, 0)[k];
  interp_case_close(c);
  ptc_str_deinit(&text);
}

static void test_shards(void) {
  uint64_t random = unit_seed();
  for (int round = 0; round < 12; round++) {
    int64_t extent[3], total = 1;
    for (int d = 0; d < 3; d++) total *= extent[d] = 1 + (int64_t)(unit_random(&random) % 17);
    double *x = malloc((size_t)total * sizeof *x);
    int64_t whole[PTC_LIMBS] = {0};
    for (int64_t i = 0; i < total; i++) {
      x[i] = draw(round % 2 ? WIDE : NORMAL, &random);
      ptc_limbs_add_square(whole, x[i]);
    }
    for (int dim = 0; dim < 3; dim++) {
      const int64_t shards = 2 + (int64_t)(unit_random(&random) % 4);
      const int64_t local = (extent[dim] + shards - 1) / shards;
      int64_t sum[PTC_LIMBS] = {0};
      for (int64_t shard = shards - 1; shard >= 0; shard--) {
        const int64_t begin = shard * local, end = begin + local;
        if (begin < extent[dim])
          add_shard(x, extent, dim, begin, end < extent[dim] ? end : extent[dim], sum);
      }
      CU_ASSERT_EQUAL(ptc_limbs_value(sum), ptc_limbs_value(whole));
      ptc_limbs_normalize(sum);
      ptc_limbs_normalize(whole);
      CU_ASSERT_EQUAL(memcmp(sum, whole, sizeof sum), 0);
    }
    free(x);
  }
}

// --- the optimizer's metric

// The norm that the optimizer pass makes of the gradients declared by |inputs|, |params| and |grads|.
static double norm_of(const char *inputs, const char *params, const char *args, const char *grads,
                      const double *data, int64_t count) {
  char text[1024];
  snprintf(text, sizeof text,
           "module \"m\"\nconfig {optimizer = \"sgd\"}\n%s%sfunc @train(%s) {\n"
           "  %%0 = constant {value = 0} : f32[]\n  return loss \"loss\" = %%0, %s\n}\n",
           inputs, params, args, grads);
  interp_case_t *c = interp_case_open(text, PTC_INTERP_TYPED);
  CU_ASSERT_FATAL(c != NULL);
  ptc_interp_destroy(c->interp);
  ptc_module_derive_properties(c->module);
  CU_ASSERT_EQUAL(run_passes_unchecked(c->module, "optimizer canonicalize", false), PTC_OK);
  c->interp = ptc_interp_create(c->module, PTC_INTERP_TYPED);
  int64_t taken = 0;
  for (const char *path = "ghk"; *path; path++) {  // the inputs, by the first letter
    char name[] = {*path, '\0'};
    double *to = interp_case_global(c, name);
    if (!to && *path == 'h') to = interp_case_global(c, "h.*");
    const ptc_global_t *global = NULL;
    for (int64_t i = 0; i < c->module->num_globals; i++)
      if (c->module->globals[i]->path[0] == *path) global = c->module->globals[i];
    if (!global) continue;
    const int64_t size = ptc_type_num_elements(global->type) * ptc_type_num_instances(global->type);
    memcpy(to, data + taken, (size_t)size * sizeof *to);
    taken += size;
  }
  CU_ASSERT_EQUAL(taken, count);
  CU_ASSERT_EQUAL(ptc_interp_run(c->interp, "train"), PTC_OK);
  double norm = NAN;
  const ptc_func_t *train = ptc_module_find_func(c->module, "train");
  for (int32_t i = 0; i < train->num_results; i++)
    if (train->results[i].name && strcmp(train->results[i].name, "grad_norm") == 0)
      norm = interp_case_result(c, i)[0];
  interp_case_close(c);
  return norm;
}

static void test_optimizer(void) {
  uint64_t random = unit_seed();
  double data[60];
  big_t big = {{0}};
  for (int i = 0; i < 60; i++) {
    data[i] = draw(WIDE, &random);
    big_add_square(&big, data[i]);
  }
  const double want = (float)sqrt(big_value(&big));
  const double one = norm_of("input @g : f32[a=5, b=12]\n", "param @p : f32[a=5, b=12]\n",
                             "%g = @g", "grad @p = %g", data, 60);
  const double several = norm_of(
      "input @k : f32[c=24]\ninput @\"h.*\" turns (0:1) : 3 x f32[b=7]\ninput @g : f32[a=15]\n",
      "param @p : f32[a=15]\nparam @\"q.*\" turns (0:1) : 3 x f32[b=7]\nparam @r : f32[c=24]\n",
      "%k = @k, %h = @\"h.*\" (0:1), %g = @g",
      "grad @r = %k, grad @\"q.*\" (0:1) = %h, grad @p = %g", data, 60);
  CU_ASSERT_EQUAL(one, want);
  CU_ASSERT_EQUAL(several, want);
}

// --- on several devices: whatever is sharded, whole or padded, one sum over each axis

static void see_sum(ptc_op_t *op, void *arg) {
  const bool limbs = op->results && op->num_results == 1 && op->results[0]->type->num_dims == 1 &&
                     strcmp(op->results[0]->type->dims[0].name, PTC_LIMBS_DIM) == 0;
  if (op->opcode == PTC_OP_ALL_REDUCE && limbs) ++*(int *)arg;
}

static void test_collectives(void) {
  static const struct {
    int dp, tp, zero, want;
  } rows_of[] = {{2, 1, 0, 0}, {2, 1, 1, 1}, {1, 2, 0, 1}, {2, 2, 1, 2}};
  for (int r = 0; r < 4; r++) {
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_module_t *module = small_model_lower(&small_models[0], NULL, 0, &diag);
    CU_ASSERT_FATAL(module != NULL);
    ptc_attrs_set_int(module, &module->config, "dp", rows_of[r].dp);
    ptc_attrs_set_int(module, &module->config, "tp", rows_of[r].tp);
    ptc_attrs_set_int(module, &module->config, "zero", rows_of[r].zero);
    ptc_pass_ctx_t ctx;
    ptc_pass_ctx_init(&ctx, &(ptc_pass_options_t){.stop_after = "partition"});
    CU_ASSERT_EQUAL(ptc_pipeline_train(&ctx, module), PTC_OK);
    int count = 0;
    ptc_block_walk(ptc_module_find_func(module, "train")->body, see_sum, &count);
    CU_ASSERT_EQUAL(count, rows_of[r].want);
    ptc_pass_ctx_deinit(&ctx);
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
}

static const unit_test_t tests[] = {{"exact", test_exact},
                                    {"rounding", test_rounding},
                                    {"shards", test_shards},
                                    {"optimizer", test_optimizer},
                                    {"collectives", test_collectives}};
UNIT_MAIN("norm", tests)
