// Proves: the inline functions of printed C are within 2 ulp of the true value (2.5 where two are combined) over all floats (sampled evenly over
// the bit patterns, hence over all exponents), and right at infinities, NaN and zeros; conversions to 16 bits
// round to nearest even, for every value of 16 bits and its neighbours.
#include <math.h>
#include <stdlib.h>

#include "ir/op.h"
#include "tests/support/kernel_run.h"
#include "tests/support/unit.h"

enum { COUNT = 1 << 16, BATCHES = 40 };

static double sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
static double softplus(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }

static const struct {
  ptc_opcode_t opcode;
  const char *name;
  double (*exact)(double);
  double bound;  // ulp
} functions[] = {
    {PTC_OP_EXP, "exp", exp, 2},
    {PTC_OP_LOG, "log", log, 2},
    {PTC_OP_SIN, "sin", sin, 2},
    {PTC_OP_COS, "cos", cos, 2},
    {PTC_OP_TANH, "tanh", tanh, 2},
    {PTC_OP_ERF, "erf", erf, 2},
    {PTC_OP_SIGMOID, "sigmoid", sigmoid, 2.5},
    {PTC_OP_SOFTPLUS, "softplus", softplus, 2.5},
};
enum { NUM_FUNCTIONS = sizeof functions / sizeof *functions };

// y = opcode x of |from|, cast to |to|.
static const ptc_kernel_t *map_kernel(ptc_arena_t *arena, const char *name, ptc_opcode_t opcode,
                                      ptc_dtype_t from, ptc_dtype_t to) {
  const int64_t extents[] = {COUNT};
  ptc_kernel_builder_t kb;
  ptc_kb_begin(&kb, arena, name, PTC_KERNEL_NEST, (ptc_loc_t){0});
  const ptc_kx_t index = ptc_kb_index(&kb, ptc_kb_dim(&kb, "n", COUNT));
  const int32_t x = ptc_kb_param(&kb, "x", PTC_KPARAM_IN, from, extents, 1);
  const int32_t y = ptc_kb_param(&kb, "y", PTC_KPARAM_OUT, to, extents, 1);
  const ptc_kx_t value = ptc_kb_load(&kb, x, &index);
  ptc_kb_store(&kb, y, &index, ptc_kb_op1(&kb, opcode, to, value));
  return kb.kernel;
}

static double ulp_of(double y) {
  int exponent;
  frexp(fabs(y), &exponent);
  return y == 0 || exponent < -125 ? 0x1p-149 : ldexp(1, exponent - 24);
}

// How far |got| is from |want|, in ulp; inf where one alone is NaN.
static double error_in_ulp(float got, double want) {
  if (isnan(want)) return isnan(got) ? 0 : INFINITY;
  if (isnan(got)) return INFINITY;
  if (isinf(got) || isinf((float)want)) {
    const bool same = got == (float)want;
    return same || (double)fabsf(isinf(got) ? (float)want : got) > 3.4028e38 ? 0 : INFINITY;
  }
  return fabs((double)got - want) / ulp_of(want);
}

static float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static void test_functions(void) {
  ptc_arena_t arena = {0};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  kernel_set_t *set = kernel_set_create(&diag);
  for (int i = 0; i < NUM_FUNCTIONS; ++i)
    kernel_set_add(set,
                   map_kernel(&arena, functions[i].name, functions[i].opcode, PTC_F32, PTC_F32));
  CU_ASSERT_FATAL(kernel_set_build(set, NULL));
  static const float special[] = {0.0f,   -0.0f,   INFINITY, -INFINITY, NAN,
                                  1e-45f, -1e-45f, 1.0f,     -1.0f};
  uint64_t random = unit_seed();
  float *x = malloc(COUNT * sizeof *x), *y = malloc(COUNT * sizeof *y);
  for (int i = 0; i < NUM_FUNCTIONS; ++i) {
    double worst = 0;
    float where = 0;
    for (int batch = 0; batch < BATCHES; ++batch) {
      const uint32_t start = (uint32_t)unit_random(&random);
      for (uint32_t k = 0; k < COUNT; ++k) x[k] = float_of(start + k * 65521u);
      if (batch == 0) memcpy(x, special, sizeof special);
      void *const params[] = {x, y};
      kernel_set_run(set, i, params, NULL, 0);
      for (int k = 0; k < COUNT; ++k) {
        const double error = error_in_ulp(y[k], functions[i].exact((double)x[k]));
        if (error <= worst) continue;
        worst = error;
        where = x[k];
      }
    }
    if (!(worst <= functions[i].bound))
      fprintf(stderr, "%s(%a) is %g ulp off\n", functions[i].name, (double)where, worst);
    UNIT_CHECK(worst <= functions[i].bound, functions[i].name);
  }
  free(x);
  free(y);
  kernel_set_free(set);
  ptc_arena_deinit(&arena);
  ptc_diag_deinit(&diag);
}

// The 2^16 patterns of a 16-bit dtype as floats, and what lies between them.
static void test_conversions(void) {
  ptc_arena_t arena = {0};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  kernel_set_t *set = kernel_set_create(&diag);
  static const ptc_dtype_t dtypes[] = {PTC_BF16, PTC_F16};
  for (int i = 0; i < 2; ++i) {
    kernel_set_add(set,
                   map_kernel(&arena, i ? "f16_up" : "bf16_up", PTC_OP_CAST, dtypes[i], PTC_F32));
    kernel_set_add(
        set, map_kernel(&arena, i ? "f16_down" : "bf16_down", PTC_OP_CAST, PTC_F32, dtypes[i]));
  }
  CU_ASSERT_FATAL(kernel_set_build(set, NULL));
  uint16_t *half = malloc(COUNT * sizeof *half), *back = malloc(COUNT * sizeof *back);
  float *wide = malloc(COUNT * sizeof *wide);
  double *value = malloc(COUNT * sizeof *value), *again = malloc(COUNT * sizeof *again);
  for (int i = 0; i < 2; ++i) {
    for (int k = 0; k < COUNT; ++k) half[k] = (uint16_t)k;
    kernel_unpack(dtypes[i], half, COUNT, value);
    kernel_set_run(set, 2 * i, (void *const[]){half, wide}, NULL, 0);
    int64_t wrong = 0;
    for (int k = 0; k < COUNT; ++k)
      wrong += isnan(value[k]) ? !isnan(wide[k]) : (double)wide[k] != value[k];
    UNIT_CHECK(wrong == 0, "widened");
    for (int step = -2; step <= 2; ++step) {  // half way to the next, and a little off it
      for (int k = 0; k < COUNT; ++k) {
        const uint32_t bits = (i ? (uint32_t)(k & 0xffff) << 13 : (uint32_t)k << 16);
        const float x = i ? wide[k] : float_of(bits);
        uint32_t u;
        memcpy(&u, &x, sizeof u);
        value[k] = (double)float_of(u + (i ? 0x1000u : 0x8000u) * (step != 2) + (uint32_t)step);
      }
      float *from = malloc(COUNT * sizeof *from);
      for (int k = 0; k < COUNT; ++k) from[k] = (float)value[k];
      kernel_set_run(set, 2 * i + 1, (void *const[]){from, back}, NULL, 0);
      kernel_unpack(dtypes[i], back, COUNT, again);
      wrong = 0;
      for (int k = 0; k < COUNT; ++k) {
        const double want = ptc_dtype_round(dtypes[i], (double)from[k]);
        wrong += isnan(from[k]) ? !isnan(again[k]) : again[k] != want;
      }
      UNIT_CHECK(wrong == 0, i ? "f16" : "bf16");
      free(from);
    }
  }
  free(half);
  free(back);
  free(wide);
  free(value);
  free(again);
  kernel_set_free(set);
  ptc_arena_deinit(&arena);
  ptc_diag_deinit(&diag);
}

static const unit_test_t tests[] = {{"functions", test_functions},
                                    {"conversions", test_conversions}};

UNIT_MAIN("c_math", tests)
