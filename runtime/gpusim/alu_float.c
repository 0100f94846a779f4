// Floating point. Rounding is the host's, which is IEEE's; f32 has one NaN; .ftz flushes operands and results;
// approximations are the correctly rounded values of the C library's functions, inside the documented bounds.
#include <fenv.h>

#include "runtime/gpusim/alu_impl.h"
#include "runtime/gpusim/numbers_impl.h"

#define KEEP(x) (x)
#define FLUSH(x) sim_flush(x)
#define END(x) sim_nan(x)
#define END_FTZ(x) sim_flush(sim_nan(x))
#define END_SAT(x) sim_saturate(x)
#define END_FTZ_SAT(x) sim_saturate(sim_flush(x))

// --- one, two and three operands under the host's rounding mode |mode|. Directed modes are rare: volatile
// keeps the arithmetic between the changes of the mode.

#define DIRECTED(name, T, mode, in, end, expr)                                 \
  static void name(void *d_, const void *a_, const void *b_, const void *c_) { \
    T *d = d_;                                                                 \
    const T *a = a_, *b = b_, *c = c_;                                         \
    const int before = fegetround();                                           \
    fesetround(mode);                                                          \
    for (int i = 0; i < SIM_LANES; ++i) {                                      \
      volatile T x = in(a[i]), y = in(b[i]), z = in(c[i]);                     \
      (void)y;                                                                 \
      (void)z;                                                                 \
      volatile T r = expr;                                                     \
      d[i] = end(r);                                                           \
    }                                                                          \
    fesetround(before);                                                        \
  }

#define DIRECTED4(name, mode, expr)                       \
  DIRECTED(name, float, mode, KEEP, END, expr)            \
  DIRECTED(name##_ftz, float, mode, FLUSH, END_FTZ, expr) \
  DIRECTED(name##_sat, float, mode, KEEP, END_SAT, expr)  \
  DIRECTED(name##_ftz_sat, float, mode, FLUSH, END_FTZ_SAT, expr)
#define DIRECTED12(name, expr)             \
  DIRECTED4(name##_z, FE_TOWARDZERO, expr) \
  DIRECTED4(name##_m, FE_DOWNWARD, expr)   \
  DIRECTED4(name##_p, FE_UPWARD, expr)

#define F32_2(name, op)                                                             \
  ALU_FN2(name##_n, float, float, float, END(x op y))                               \
  ALU_FN2(name##_n_ftz, float, float, float, END_FTZ(FLUSH(x) op FLUSH(y)))         \
  ALU_FN2(name##_n_sat, float, float, float, END_SAT(x op y))                       \
  ALU_FN2(name##_n_ftz_sat, float, float, float, END_FTZ_SAT(FLUSH(x) op FLUSH(y))) \
  DIRECTED12(name, x op y)
F32_2(add, +)
F32_2(sub, -)
F32_2(mul, *)
ALU_FN3(fma_n, float, float, float, float, END(fmaf(x, y, z)))
ALU_FN3(fma_n_ftz, float, float, float, float, END_FTZ(fmaf(FLUSH(x), FLUSH(y), FLUSH(z))))
ALU_FN3(fma_n_sat, float, float, float, float, END_SAT(fmaf(x, y, z)))
ALU_FN3(fma_n_ftz_sat, float, float, float, float, END_FTZ_SAT(fmaf(FLUSH(x), FLUSH(y), FLUSH(z))))
DIRECTED12(fma, fmaf(x, y, z))

ALU_FN2(div_n, float, float, float, END(x / y))
ALU_FN2(div_n_ftz, float, float, float, END_FTZ(FLUSH(x) / FLUSH(y)))
ALU_FN1(rcp_n, float, float, END(1 / x))
ALU_FN1(rcp_n_ftz, float, float, END_FTZ(1 / FLUSH(x)))
ALU_FN1(sqrt_n, float, float, END(sqrtf(x)))
ALU_FN1(sqrt_n_ftz, float, float, END_FTZ(sqrtf(FLUSH(x))))
#define DIRECTED6(name, expr)                                        \
  DIRECTED(name##_z, float, FE_TOWARDZERO, KEEP, END, expr)          \
  DIRECTED(name##_z_ftz, float, FE_TOWARDZERO, FLUSH, END_FTZ, expr) \
  DIRECTED(name##_m, float, FE_DOWNWARD, KEEP, END, expr)            \
  DIRECTED(name##_m_ftz, float, FE_DOWNWARD, FLUSH, END_FTZ, expr)   \
  DIRECTED(name##_p, float, FE_UPWARD, KEEP, END, expr)              \
  DIRECTED(name##_p_ftz, float, FE_UPWARD, FLUSH, END_FTZ, expr)
DIRECTED6(div, x / y)
DIRECTED6(rcp, 1 / x)
DIRECTED6(sqrt, sqrtf(x))

// --- f64

ALU_FN2(dadd_n, double, double, double, x + y)
ALU_FN2(dsub_n, double, double, double, x - y)
ALU_FN2(dmul_n, double, double, double, x *y)
ALU_FN3(dfma_n, double, double, double, double, fma(x, y, z))
ALU_FN2(ddiv_n, double, double, double, x / y)
ALU_FN1(drcp_n, double, double, 1 / x)
ALU_FN1(dsqrt_n, double, double, sqrt(x))
#define F64_DIRECTED(name, expr)                              \
  DIRECTED(name##_z, double, FE_TOWARDZERO, KEEP, KEEP, expr) \
  DIRECTED(name##_m, double, FE_DOWNWARD, KEEP, KEEP, expr)   \
  DIRECTED(name##_p, double, FE_UPWARD, KEEP, KEEP, expr)
F64_DIRECTED(dadd, x + y)
F64_DIRECTED(dsub, x - y)
F64_DIRECTED(dmul, x *y)
F64_DIRECTED(dfma, fma(x, y, z))
F64_DIRECTED(ddiv, x / y)
F64_DIRECTED(drcp, 1 / x)
F64_DIRECTED(dsqrt, sqrt(x))
ALU_FN1(dneg, uint64_t, uint64_t, x ^ UINT64_C(1) << 63)
ALU_FN1(dabs, uint64_t, uint64_t, x & ~(UINT64_C(1) << 63))
ALU_FN2(dcopysign, uint64_t, uint64_t, uint64_t,
        (x & UINT64_C(1) << 63) | (y & ~(UINT64_C(1) << 63)))

// The smaller; of zeros the negative one; a NaN only if both are.
static inline float least(float x, float y) {
  if (x != x) return sim_nan(y);
  if (y != y) return x;
  if (x == y) return sim_float(sim_bits(x) | sim_bits(y));
  return x < y ? x : y;
}
static inline float most(float x, float y) {
  if (x != x) return sim_nan(y);
  if (y != y) return x;
  if (x == y) return sim_float(sim_bits(x) & sim_bits(y));
  return x > y ? x : y;
}
static inline double dleast(double x, double y) {
  if (x != x) return y;
  if (y != y) return x;
  if (x == y) return sim_double(sim_bits64(x) | sim_bits64(y));
  return x < y ? x : y;
}
static inline double dmost(double x, double y) {
  if (x != x) return y;
  if (y != y) return x;
  if (x == y) return sim_double(sim_bits64(x) & sim_bits64(y));
  return x > y ? x : y;
}
// .NaN: a NaN if one is.
static inline float strict(float x, float y, float result) {
  return x != x || y != y ? sim_float(0x7fffffff) : result;
}
ALU_FN2(min, float, float, float, least(x, y))
ALU_FN2(max, float, float, float, most(x, y))
ALU_FN2(min_ftz, float, float, float, least(FLUSH(x), FLUSH(y)))
ALU_FN2(max_ftz, float, float, float, most(FLUSH(x), FLUSH(y)))
ALU_FN2(min_nan, float, float, float, strict(x, y, least(x, y)))
ALU_FN2(max_nan, float, float, float, strict(x, y, most(x, y)))
ALU_FN2(min_ftz_nan, float, float, float, strict(x, y, least(FLUSH(x), FLUSH(y))))
ALU_FN2(max_ftz_nan, float, float, float, strict(x, y, most(FLUSH(x), FLUSH(y))))
ALU_FN2(dmin, double, double, double, dleast(x, y))
ALU_FN2(dmax, double, double, double, dmost(x, y))

ALU_FN1(neg, uint32_t, uint32_t, x ^ 0x80000000)
ALU_FN1(fabs32, uint32_t, uint32_t, x & 0x7fffffff)
ALU_FN1(neg_ftz, float, float, sim_float(sim_bits(FLUSH(x)) ^ 0x80000000))
ALU_FN1(fabs32_ftz, float, float, sim_float(sim_bits(FLUSH(x)) & 0x7fffffff))
ALU_FN2(copysign32, uint32_t, uint32_t, uint32_t, (x & 0x80000000) | (y & 0x7fffffff))

// --- approximations

// Divisors beyond 2^126 give zero, as documented: their reciprocal is subnormal.
static inline float div_approx(float x, float y) {
  const float size = fabsf(y);
  if (size > 0x1p126f && !isinf(size))
    return isinf(x) || x != x ? sim_float(0x7fffffff)
                              : sim_float((sim_bits(x) ^ sim_bits(y)) & 0x80000000);
  return sim_nan(x / y);
}
ALU_FN2(div_approx32, float, float, float, div_approx(x, y))
ALU_FN2(div_approx32_ftz, float, float, float, sim_flush(div_approx(FLUSH(x), FLUSH(y))))

static inline float rsqrt_approx(float x) { return sim_nan((float)(1 / sqrt((double)x))); }
static inline float sin_approx(float x) { return sim_nan((float)sin((double)x)); }
static inline float cos_approx(float x) { return sim_nan((float)cos((double)x)); }
static inline float lg2_approx(float x) { return sim_nan((float)log2((double)x)); }
static inline float ex2_approx(float x) { return sim_nan((float)exp2((double)x)); }
static inline float tanh_approx(float x) { return sim_nan((float)tanh((double)x)); }
#define APPROX(name)                       \
  ALU_FN1(name##32, float, float, name(x)) \
  ALU_FN1(name##32_ftz, float, float, sim_flush(name(FLUSH(x))))
APPROX(rsqrt_approx)
APPROX(sin_approx)
APPROX(cos_approx)
APPROX(lg2_approx)
APPROX(ex2_approx)
ALU_FN1(tanh_approx32, float, float, tanh_approx(x))

// Of f64 only the upper words are read and written; subnormals are flushed.
static inline double upper(double x) {
  const uint64_t bits = sim_bits64(x) & UINT64_C(0xffffffff00000000);
  return sim_double(bits & UINT64_C(0x7ff0000000000000) ? bits : bits & UINT64_C(1) << 63);
}
ALU_FN1(drcp_approx, double, double, upper(1 / upper(x)))
ALU_FN1(drsqrt_approx, double, double, upper(1 / sqrt(upper(x))))

// --- f16 and bf16: the exact result, made odd where a double does not hold it, rounded once

static inline double exact_fma(double x, double y, double z) {
  const double p = x * y, s = p + z;  // p is exact
  if (!isfinite(s)) return s;
  const double q = s - p, error = (p - (s - q)) + (z - q);
  uint64_t bits = sim_bits64(s);
  if (error != 0 && !(bits & 1)) bits += (error > 0) == (s > 0) ? 1 : UINT64_MAX;
  return sim_double(bits);
}
static inline uint16_t half(double x) { return sim_to_half(x, 'n'); }
static inline uint16_t bfloat(double x) { return sim_to_bfloat(x, 'n'); }
static inline uint16_t small_min(uint16_t x, uint16_t y, float fx, float fy) {
  if (fx != fx) return fy != fy ? 0x7fff : y;
  if (fy != fy) return x;
  if (fx == fy) return x | y;
  return fx < fy ? x : y;
}
static inline uint16_t small_max(uint16_t x, uint16_t y, float fx, float fy) {
  if (fx != fx) return fy != fy ? 0x7fff : y;
  if (fy != fy) return x;
  if (fx == fy) return x & y;
  return fx > fy ? x : y;
}

#define HALF(x) sim_from_half(x)
#define BFLOAT(x) sim_from_bfloat(x)
#define HADD(x, y) half((double)HALF(x) + HALF(y))
#define HSUB(x, y) half((double)HALF(x) - HALF(y))
#define HMUL(x, y) half((double)HALF(x) * HALF(y))
#define HFMA(x, y, z) half(exact_fma(HALF(x), HALF(y), HALF(z)))
#define BFMA(x, y, z) bfloat(exact_fma(BFLOAT(x), BFLOAT(y), BFLOAT(z)))
#define HMIN(x, y) small_min(x, y, HALF(x), HALF(y))
#define HMAX(x, y) small_max(x, y, HALF(x), HALF(y))
#define BMIN(x, y) small_min(x, y, BFLOAT(x), BFLOAT(y))
#define BMAX(x, y) small_max(x, y, BFLOAT(x), BFLOAT(y))
#define LOW(x) ((uint16_t)(x))
#define HIGH(x) ((uint16_t)((x) >> 16))
#define SMALL2(name, F)                                \
  ALU_FN2(name, uint16_t, uint16_t, uint16_t, F(x, y)) \
  ALU_FN2(name##_x2, uint32_t, uint32_t, uint32_t,     \
          F(LOW(x), LOW(y)) | (uint32_t)F(HIGH(x), HIGH(y)) << 16)
#define SMALL3(name, F)                                             \
  ALU_FN3(name, uint16_t, uint16_t, uint16_t, uint16_t, F(x, y, z)) \
  ALU_FN3(name##_x2, uint32_t, uint32_t, uint32_t, uint32_t,        \
          F(LOW(x), LOW(y), LOW(z)) | (uint32_t)F(HIGH(x), HIGH(y), HIGH(z)) << 16)
SMALL2(hadd, HADD)
SMALL2(hsub, HSUB)
SMALL2(hmul, HMUL)
SMALL3(hfma, HFMA)
SMALL3(bfma, BFMA)
SMALL2(hmin, HMIN)
SMALL2(hmax, HMAX)
SMALL2(bmin, BMIN)
SMALL2(bmax, BMAX)
ALU_FN1(small_neg, uint16_t, uint16_t, x ^ 0x8000)
ALU_FN1(small_neg_x2, uint32_t, uint32_t, x ^ 0x80008000)
ALU_FN1(small_abs, uint16_t, uint16_t, x & 0x7fff)
ALU_FN1(small_abs_x2, uint32_t, uint32_t, x & 0x7fff7fff)

// --- rows

#define F2(op, fn, flops) ROW2(op ".f32", fn, W32, W32, W32, FLOAT, flops)
#define F2_FOUR(op, fn) \
  F2(op, fn, 1)         \
  F2(op ".ftz", fn##_ftz, 1) F2(op ".sat", fn##_sat, 1) F2(op ".ftz.sat", fn##_ftz_sat, 1)
#define F2_ALL(op, fn)      \
  F2_FOUR(op, fn##_n)       \
  F2_FOUR(op ".rn", fn##_n) \
  F2_FOUR(op ".rz", fn##_z) F2_FOUR(op ".rm", fn##_m) F2_FOUR(op ".rp", fn##_p)
#define F3(op, fn) ROW3(op ".f32", fn, W32, W32, W32, W32, FLOAT, 2)
#define F3_FOUR(op, fn) \
  F3(op, fn) F3(op ".ftz", fn##_ftz) F3(op ".sat", fn##_sat) F3(op ".ftz.sat", fn##_ftz_sat)
#define F3_ALL(op)         \
  F3_FOUR(op ".rn", fma_n) \
  F3_FOUR(op ".rz", fma_z) F3_FOUR(op ".rm", fma_m) F3_FOUR(op ".rp", fma_p)
#define F1(op, fn) ROW1(op ".f32", fn, W32, W32, FLOAT, 1)
#define F1_TWO(op, fn) F1(op, fn) F1(op ".ftz", fn##_ftz)
#define F1_ALL(op, fn)     \
  F1_TWO(op ".rn", fn##_n) \
  F1_TWO(op ".rz", fn##_z) F1_TWO(op ".rm", fn##_m) F1_TWO(op ".rp", fn##_p)
#define F2_TWO(op, fn) F2(op, fn, 1) F2(op ".ftz", fn##_ftz, 1)
#define D1(op, fn) ROW1(op ".f64", fn, W64, W64, DOUBLE, 1)
#define D2(op, fn) ROW2(op ".f64", fn, W64, W64, W64, DOUBLE, 1)
#define D3(op, fn) ROW3(op ".f64", fn, W64, W64, W64, W64, DOUBLE, 2)
#define D1_ALL(op, fn) \
  D1(op ".rn", fn##_n) D1(op ".rz", fn##_z) D1(op ".rm", fn##_m) D1(op ".rp", fn##_p)
#define D2_ALL(op, fn) \
  D2(op ".rn", fn##_n) D2(op ".rz", fn##_z) D2(op ".rm", fn##_m) D2(op ".rp", fn##_p)
#define D3_ALL(op, fn) \
  D3(op ".rn", fn##_n) D3(op ".rz", fn##_z) D3(op ".rm", fn##_m) D3(op ".rp", fn##_p)
#define S2(op, T, fn) \
  ROW2(op "." T, fn, W16, W16, W16, FLOAT, 1) ROW2(op "." T "x2", fn##_x2, W32, W32, W32, FLOAT, 2)
#define S1(op, T, fn) \
  ROW1(op "." T, fn, W16, W16, FLOAT, 1) ROW1(op "." T "x2", fn##_x2, W32, W32, FLOAT, 2)
#define S3(op, T, fn)                              \
  ROW3(op "." T, fn, W16, W16, W16, W16, FLOAT, 2) \
  ROW3(op "." T "x2", fn##_x2, W32, W32, W32, W32, FLOAT, 4)

const sim_alu_row_t sim_alu_float_rows[] = {
    F2_ALL("add", add) F2_ALL("sub", sub) F2_ALL("mul", mul) F3_ALL("fma") F3_ALL("mad") F2_TWO(
        "div.rn", div_n) F2_TWO("div.rz", div_z) F2_TWO("div.rm", div_m) F2_TWO("div.rp", div_p)
        F2_TWO("div.approx", div_approx32) F2_TWO("div.full", div_n) F1_ALL("rcp", rcp)
            F1_ALL("sqrt", sqrt) F1_TWO("rcp.approx", rcp_n) F1_TWO("sqrt.approx", sqrt_n) F1_TWO(
                "rsqrt.approx", rsqrt_approx32) F1_TWO("sin.approx", sin_approx32)
                F1_TWO("cos.approx", cos_approx32) F1_TWO("lg2.approx", lg2_approx32) F1_TWO(
                    "ex2.approx", ex2_approx32) F1("tanh.approx", tanh_approx32) F2_TWO("min", min)
                    F2_TWO("max", max) F2("min.NaN", min_nan, 1) F2("max.NaN", max_nan, 1)
                        F2("min.ftz.NaN", min_ftz_nan, 1) F2("max.ftz.NaN", max_ftz_nan, 1)
                            F1_TWO("neg", neg) F1_TWO("abs", fabs32) F2("copysign", copysign32, 0)
                                D2("add", dadd_n) D2("sub", dsub_n) D2("mul", dmul_n)
                                    D2_ALL("add", dadd) D2_ALL("sub", dsub) D2_ALL("mul", dmul)
                                        D3_ALL("fma", dfma) D3_ALL("mad", dfma) D2_ALL("div", ddiv)
                                            D1_ALL("rcp", drcp) D1_ALL("sqrt", dsqrt) D1(
                                                "rcp.approx.ftz", drcp_approx)
                                                D1("rsqrt.approx.ftz", drsqrt_approx) D1(
                                                    "rsqrt.approx", drsqrt_approx) D2("min", dmin)
                                                    D2("max", dmax) D1("neg", dneg) D1(
                                                        "abs", dabs) D2("copysign", dcopysign)
                                                        S2("add", "f16", hadd) S2(
                                                            "sub", "f16",
                                                            hsub) S2("mul", "f16",
                                                                     hmul) S2("add.rn", "f16", hadd)
                                                            S2("sub.rn", "f16", hsub) S2(
                                                                "mul.rn", "f16",
                                                                hmul) S3("fma.rn", "f16", hfma)
                                                                S3("fma.rn", "bf16", bfma) S2(
                                                                    "min", "f16",
                                                                    hmin) S2("max", "f16", hmax)
                                                                    S2("min", "bf16", bmin) S2(
                                                                        "max", "bf16",
                                                                        bmax) S1("neg", "f16",
                                                                                 small_neg)
                                                                        S1("abs", "f16", small_abs)
                                                                            S1("neg", "bf16",
                                                                               small_neg)
                                                                                S1("abs", "bf16",
                                                                                   small_abs)};
const int32_t sim_num_alu_float_rows = sizeof sim_alu_float_rows / sizeof *sim_alu_float_rows;
