// Relations of setp and set.
#include "runtime/gpusim/alu.h"
#include "runtime/gpusim/numbers_impl.h"

#define COMPARE(name, T, expr)                           \
  static uint32_t name(const void *a_, const void *b_) { \
    const T *a = a_, *b = b_;                            \
    uint32_t out = 0;                                    \
    for (int i = 0; i < SIM_LANES; ++i) {                \
      const T x = a[i], y = b[i];                        \
      out |= (uint32_t)(expr) << i;                      \
    }                                                    \
    return out;                                          \
  }

#define INTEGERS(U, S, N)     \
  COMPARE(eq_##N, U, x == y)  \
  COMPARE(ne_##N, U, x != y)  \
  COMPARE(lt_u##N, U, x < y)  \
  COMPARE(le_u##N, U, x <= y) \
  COMPARE(gt_u##N, U, x > y)  \
  COMPARE(ge_u##N, U, x >= y) \
  COMPARE(lt_s##N, S, x < y)  \
  COMPARE(le_s##N, S, x <= y) \
  COMPARE(gt_s##N, S, x > y)  \
  COMPARE(ge_s##N, S, x >= y)
INTEGERS(uint16_t, int16_t, 16)
INTEGERS(uint32_t, int32_t, 32)
INTEGERS(uint64_t, int64_t, 64)

#define NO_FLUSH(x) (x)
#define FLOATS(T, N, F)                              \
  COMPARE(eq_##N, T, F(x) == F(y))                   \
  COMPARE(ne_##N, T, F(x) < F(y) || F(x) > F(y))     \
  COMPARE(lt_##N, T, F(x) < F(y))                    \
  COMPARE(le_##N, T, F(x) <= F(y))                   \
  COMPARE(gt_##N, T, F(x) > F(y))                    \
  COMPARE(ge_##N, T, F(x) >= F(y))                   \
  COMPARE(equ_##N, T, !(F(x) < F(y) || F(x) > F(y))) \
  COMPARE(neu_##N, T, F(x) != F(y))                  \
  COMPARE(ltu_##N, T, !(F(x) >= F(y)))               \
  COMPARE(leu_##N, T, !(F(x) > F(y)))                \
  COMPARE(gtu_##N, T, !(F(x) <= F(y)))               \
  COMPARE(geu_##N, T, !(F(x) < F(y)))                \
  COMPARE(num_##N, T, x == x && y == y)              \
  COMPARE(nan_##N, T, x != x || y != y)
// testp: the second operand is the first again.
#define TESTS(T, N)                                  \
  COMPARE(finite_##N, T, isfinite(x) && isfinite(y)) \
  COMPARE(infinite_##N, T, isinf(x) && isinf(y))     \
  COMPARE(normal_##N, T, isnormal(x) && isnormal(y)) \
  COMPARE(subnormal_##N, T, fpclassify(x) == FP_SUBNORMAL && fpclassify(y) == FP_SUBNORMAL)
TESTS(float, f32)
TESTS(double, f64)
FLOATS(float, f32, NO_FLUSH)
FLOATS(float, ftz_f32, sim_flush)
FLOATS(double, f64, NO_FLUSH)

#define SIGNLESS(N, W)                                                                            \
  {"eq.b" #N, eq_##N, W}, {"eq.u" #N, eq_##N, W}, {"eq.s" #N, eq_##N, W}, {"ne.b" #N, ne_##N, W}, \
      {"ne.u" #N, ne_##N, W}, {"ne.s" #N, ne_##N, W},
#define ORDERED(N, W)                                                            \
  {"lt.u" #N, lt_u##N, W}, {"le.u" #N, le_u##N, W}, {"gt.u" #N, gt_u##N, W},     \
      {"ge.u" #N, ge_u##N, W}, {"lo.u" #N, lt_u##N, W}, {"ls.u" #N, le_u##N, W}, \
      {"hi.u" #N, gt_u##N, W}, {"hs.u" #N, ge_u##N, W}, {"lt.s" #N, lt_s##N, W}, \
      {"le.s" #N, le_s##N, W}, {"gt.s" #N, gt_s##N, W}, {"ge.s" #N, ge_s##N, W},
#define REALS(suffix, N, W)                                                                  \
  {"eq." suffix, eq_##N, W}, {"ne." suffix, ne_##N, W}, {"lt." suffix, lt_##N, W},           \
      {"le." suffix, le_##N, W}, {"gt." suffix, gt_##N, W}, {"ge." suffix, ge_##N, W},       \
      {"equ." suffix, equ_##N, W}, {"neu." suffix, neu_##N, W}, {"ltu." suffix, ltu_##N, W}, \
      {"leu." suffix, leu_##N, W}, {"gtu." suffix, gtu_##N, W}, {"geu." suffix, geu_##N, W}, \
      {"num." suffix, num_##N, W}, {"nan." suffix, nan_##N, W},

#define KINDS(suffix, N, W)                                                             \
  {"testp.finite." suffix, finite_##N, W}, {"testp.infinite." suffix, infinite_##N, W}, \
      {"testp.number." suffix, num_##N, W}, {"testp.notanumber." suffix, nan_##N, W},   \
      {"testp.normal." suffix, normal_##N, W}, {"testp.subnormal." suffix, subnormal_##N, W},

const sim_compare_row_t sim_compare_rows[] = {
    SIGNLESS(16, PTX_WIDTH_16) SIGNLESS(32, PTX_WIDTH_32) SIGNLESS(64, PTX_WIDTH_64)
        ORDERED(16, PTX_WIDTH_16) ORDERED(32, PTX_WIDTH_32) ORDERED(64, PTX_WIDTH_64)
            REALS("f32", f32, PTX_WIDTH_32) REALS("ftz.f32", ftz_f32, PTX_WIDTH_32)
                REALS("f64", f64, PTX_WIDTH_64) KINDS("f32", f32, PTX_WIDTH_32)
                    KINDS("f64", f64, PTX_WIDTH_64)};
const int32_t sim_num_compare_rows = sizeof sim_compare_rows / sizeof *sim_compare_rows;

const sim_compare_row_t *sim_compare_find(const char *name) {
  for (int32_t i = 0; i < sim_num_compare_rows; ++i)
    if (strcmp(sim_compare_rows[i].name, name) == 0) return &sim_compare_rows[i];
  return NULL;
}
