// Integers and bits.
#include "runtime/gpusim/alu_impl.h"

__extension__ typedef __int128 wide_t;
__extension__ typedef unsigned __int128 uwide_t;

// Shifts take any count: beyond the width, zeros, or copies of the sign.
static inline uint64_t shift_left(uint64_t x, uint32_t n, uint32_t bits) {
  return n >= bits ? 0 : x << n;
}
static inline uint64_t shift_right(uint64_t x, uint32_t n, uint32_t bits) {
  return n >= bits ? 0 : x >> n;
}
static inline int64_t shift_signed(int64_t x, uint32_t n, uint32_t bits) {
  return x >> (n >= bits ? bits - 1 : n);
}

// Division by zero has no defined result; this one is all ones, and the dividend as remainder.
static inline uint64_t div_unsigned(uint64_t x, uint64_t y) { return y ? x / y : UINT64_MAX; }
static inline uint64_t rem_unsigned(uint64_t x, uint64_t y) { return y ? x % y : x; }
static inline int64_t div_signed(int64_t x, int64_t y) {
  return !y ? -1 : y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
}
static inline int64_t rem_signed(int64_t x, int64_t y) { return !y ? x : y == -1 ? 0 : x % y; }

static inline int32_t add_sat(int32_t x, int32_t y) {
  const int64_t sum = (int64_t)x + y;
  return sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : (int32_t)sum;
}
static inline int32_t sub_sat(int32_t x, int32_t y) {
  const int64_t sum = (int64_t)x - y;
  return sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : (int32_t)sum;
}
static inline uint32_t distance(int64_t x, int64_t y) { return (uint32_t)(x > y ? x - y : y - x); }

static inline uint32_t reverse32(uint32_t x) {
  uint32_t out = 0;
  for (int i = 0; i < 32; ++i) out |= (x >> i & 1) << (31 - i);
  return out;
}
static inline uint64_t reverse64(uint64_t x) {
  return (uint64_t)reverse32((uint32_t)x) << 32 | reverse32((uint32_t)(x >> 32));
}

// bfe: |len| bits from |pos|; beyond the top the sign (of the field's highest bit inside the word) goes on.
static inline uint64_t extract(uint64_t x, uint32_t pos, uint32_t len, uint32_t bits,
                               bool is_signed) {
  pos &= 255;
  len &= 255;
  const uint32_t top = pos + len - 1 < bits - 1 ? pos + len - 1 : bits - 1;
  const uint64_t sign = is_signed && len ? x >> top & 1 : 0;
  uint64_t out = 0;
  for (uint32_t i = 0; i < bits; ++i)
    out |= (i < len && pos + i < bits ? x >> (pos + i) & 1 : sign) << i;
  return out;
}

// bfind: the highest bit that differs from the sign; all ones if there is none.
static inline uint32_t find_bit(uint64_t x, uint32_t bits, bool is_signed) {
  if (is_signed && x >> (bits - 1) & 1)
    x = ~x & (bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1);
  return x ? 63 - (uint32_t)__builtin_clzll(x) : UINT32_MAX;
}

static inline uint32_t permute(uint32_t x, uint32_t y, uint32_t selector) {
  const uint64_t bytes = (uint64_t)y << 32 | x;
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t s = selector >> (4 * i) & 15;
    uint32_t byte = (uint32_t)(bytes >> (8 * (s & 7))) & 0xff;
    if (s & 8) byte = byte & 0x80 ? 0xff : 0;
    out |= byte << (8 * i);
  }
  return out;
}

static inline uint32_t funnel_left(uint32_t low, uint32_t high, uint32_t n) {
  return n ? n >= 32 ? low : high << n | low >> (32 - n) : high;
}
static inline uint32_t funnel_right(uint32_t low, uint32_t high, uint32_t n) {
  return n ? n >= 32 ? high : high << (32 - n) | low >> n : low;
}

static inline uint32_t dot4(uint32_t x, uint32_t y, uint32_t z, bool x_signed, bool y_signed) {
  for (int i = 0; i < 4; ++i) {
    const int32_t p = x_signed ? (int8_t)(x >> (8 * i)) : (uint8_t)(x >> (8 * i)),
                  q = y_signed ? (int8_t)(y >> (8 * i)) : (uint8_t)(y >> (8 * i));
    z += (uint32_t)(p * q);
  }
  return z;
}

// Two 16-bit parts of |x| with two bytes of |y|, from |first| on.
static inline uint32_t dot2(uint32_t x, uint32_t y, uint32_t z, bool x_signed, bool y_signed,
                            int first) {
  for (int i = 0; i < 2; ++i) {
    const int32_t p = x_signed ? (int16_t)(x >> (16 * i)) : (uint16_t)(x >> (16 * i)),
                  q = y_signed ? (int8_t)(y >> (8 * (first + i)))
                               : (uint8_t)(y >> (8 * (first + i)));
    z += (uint32_t)(p * q);
  }
  return z;
}

// For every width: FOR_WIDTHS(M) expands M(bits, unsigned type, signed type, width).
#define FOR_WIDTHS(M)           \
  M(16, uint16_t, int16_t, W16) \
  M(32, uint32_t, int32_t, W32) \
  M(64, uint64_t, int64_t, W64)

#define FUNCTIONS(N, U, S, W)                                                \
  ALU_FN2(add##N, U, U, U, (uint64_t)x + y)                                  \
  ALU_FN2(sub##N, U, U, U, (uint64_t)x - y)                                  \
  ALU_FN2(mul_lo##N, U, U, U, (uint64_t)x *y)                                \
  ALU_FN2(mul_hi_u##N, U, U, U, ((uwide_t)x * y) >> N)                       \
  ALU_FN2(mul_hi_s##N, U, S, S, ((wide_t)x * y) >> N)                        \
  ALU_FN3(mad_lo##N, U, U, U, U, (uint64_t)x *y + z)                         \
  ALU_FN3(mad_hi_u##N, U, U, U, U, (U)(((uwide_t)x * y) >> N) + (uint64_t)z) \
  ALU_FN3(mad_hi_s##N, U, S, S, U, (U)(((wide_t)x * y) >> N) + (uint64_t)z)  \
  ALU_FN2(div_u##N, U, U, U, div_unsigned(x, y))                             \
  ALU_FN2(div_s##N, S, S, S, div_signed(x, y))                               \
  ALU_FN2(rem_u##N, U, U, U, rem_unsigned(x, y))                             \
  ALU_FN2(rem_s##N, S, S, S, rem_signed(x, y))                               \
  ALU_FN2(min_u##N, U, U, U, x < y ? x : y)                                  \
  ALU_FN2(min_s##N, S, S, S, x < y ? x : y)                                  \
  ALU_FN2(max_u##N, U, U, U, x > y ? x : y)                                  \
  ALU_FN2(max_s##N, S, S, S, x > y ? x : y)                                  \
  ALU_FN1(abs##N, U, S, x < 0 ? 0 - (uint64_t)x : (uint64_t)x)               \
  ALU_FN1(neg##N, U, U, 0 - (uint64_t)x)                                     \
  ALU_FN2(and##N, U, U, U, x &y)                                             \
  ALU_FN2(or ##N, U, U, U, x | y)                                            \
  ALU_FN2(xor##N, U, U, U, x ^ y)                                            \
  ALU_FN1(not ##N, U, U, ~(uint64_t)x)                                       \
  ALU_FN1(cnot##N, U, U, x == 0)                                             \
  ALU_FN2(shl##N, U, U, uint32_t, shift_left(x, y, N))                       \
  ALU_FN2(shr_u##N, U, U, uint32_t, shift_right(x, y, N))                    \
  ALU_FN2(shr_s##N, S, S, uint32_t, shift_signed(x, y, N))
FOR_WIDTHS(FUNCTIONS)

ALU_FN2(mul_wide_u16, uint32_t, uint16_t, uint16_t, (uint32_t)x *y)
ALU_FN2(mul_wide_s16, int32_t, int16_t, int16_t, x *y)
ALU_FN2(mul_wide_u32, uint64_t, uint32_t, uint32_t, (uint64_t)x *y)
ALU_FN2(mul_wide_s32, int64_t, int32_t, int32_t, (int64_t)x *y)
ALU_FN3(mad_wide_u16, uint32_t, uint16_t, uint16_t, uint32_t, (uint32_t)x *y + z)
ALU_FN3(mad_wide_s16, uint32_t, int16_t, int16_t, uint32_t, (uint32_t)(x *y) + z)
ALU_FN3(mad_wide_u32, uint64_t, uint32_t, uint32_t, uint64_t, (uint64_t)x *y + z)
ALU_FN3(mad_wide_s32, uint64_t, int32_t, int32_t, uint64_t, (uint64_t)((int64_t)x *y) + z)
ALU_FN2(mul24_lo_u, uint32_t, uint32_t, uint32_t, (uint64_t)(x & 0xffffff) * (y & 0xffffff))
ALU_FN2(mul24_lo_s, uint32_t, int32_t, int32_t,
        (int64_t)((int32_t)((uint32_t)x << 8) >> 8) * ((int32_t)((uint32_t)y << 8) >> 8))
ALU_FN2(add_sat_s32, int32_t, int32_t, int32_t, add_sat(x, y))
ALU_FN2(sub_sat_s32, int32_t, int32_t, int32_t, sub_sat(x, y))
ALU_FN3(sad_u32, uint32_t, uint32_t, uint32_t, uint32_t, distance(x, y) + z)
ALU_FN3(sad_s32, uint32_t, int32_t, int32_t, uint32_t, distance(x, y) + z)
ALU_FN1(popc32, uint32_t, uint32_t, __builtin_popcount(x))
ALU_FN1(popc64, uint32_t, uint64_t, __builtin_popcountll(x))
ALU_FN1(clz32, uint32_t, uint32_t, x ? __builtin_clz(x) : 32)
ALU_FN1(clz64, uint32_t, uint64_t, x ? __builtin_clzll(x) : 64)
ALU_FN1(brev32, uint32_t, uint32_t, reverse32(x))
ALU_FN1(brev64, uint64_t, uint64_t, reverse64(x))
ALU_FN1(bfind_u32, uint32_t, uint32_t, find_bit(x, 32, false))
ALU_FN1(bfind_s32, uint32_t, uint32_t, find_bit(x, 32, true))
ALU_FN1(bfind_u64, uint32_t, uint64_t, find_bit(x, 64, false))
ALU_FN1(bfind_s64, uint32_t, uint64_t, find_bit(x, 64, true))
ALU_FN3(bfe_u32, uint32_t, uint32_t, uint32_t, uint32_t, extract(x, y, z, 32, false))
ALU_FN3(bfe_s32, uint32_t, uint32_t, uint32_t, uint32_t, extract(x, y, z, 32, true))
ALU_FN3(bfe_u64, uint64_t, uint64_t, uint32_t, uint32_t, extract(x, y, z, 64, false))
ALU_FN3(bfe_s64, uint64_t, uint64_t, uint32_t, uint32_t, extract(x, y, z, 64, true))
ALU_FN3(prmt, uint32_t, uint32_t, uint32_t, uint32_t, permute(x, y, z))
ALU_FN3(shf_l_wrap, uint32_t, uint32_t, uint32_t, uint32_t, funnel_left(x, y, z & 31))
ALU_FN3(shf_r_wrap, uint32_t, uint32_t, uint32_t, uint32_t, funnel_right(x, y, z & 31))
ALU_FN3(shf_l_clamp, uint32_t, uint32_t, uint32_t, uint32_t, funnel_left(x, y, z < 32 ? z : 32))
ALU_FN3(shf_r_clamp, uint32_t, uint32_t, uint32_t, uint32_t, funnel_right(x, y, z < 32 ? z : 32))
ALU_FN3(dp4a_uu, uint32_t, uint32_t, uint32_t, uint32_t, dot4(x, y, z, false, false))
ALU_FN3(dp4a_ss, uint32_t, uint32_t, uint32_t, uint32_t, dot4(x, y, z, true, true))
ALU_FN3(dp4a_us, uint32_t, uint32_t, uint32_t, uint32_t, dot4(x, y, z, false, true))
ALU_FN3(dp4a_su, uint32_t, uint32_t, uint32_t, uint32_t, dot4(x, y, z, true, false))
ALU_FN3(dp2a_lo_uu, uint32_t, uint32_t, uint32_t, uint32_t, dot2(x, y, z, false, false, 0))
ALU_FN3(dp2a_hi_uu, uint32_t, uint32_t, uint32_t, uint32_t, dot2(x, y, z, false, false, 2))
ALU_FN3(dp2a_lo_ss, uint32_t, uint32_t, uint32_t, uint32_t, dot2(x, y, z, true, true, 0))
ALU_FN3(dp2a_hi_ss, uint32_t, uint32_t, uint32_t, uint32_t, dot2(x, y, z, true, true, 2))

#define EITHER(op, fn, N, W)                \
  ROW2(op ".u" #N, fn, W, W, W, INTEGER, 0) \
  ROW2(op ".s" #N, fn, W, W, W, INTEGER, 0)
#define EACH(op, fn, N, W)                         \
  ROW2(op ".u" #N, fn##_u##N, W, W, W, INTEGER, 0) \
  ROW2(op ".s" #N, fn##_s##N, W, W, W, INTEGER, 0)
#define ROWS(N, U, S, W)                                   \
  EITHER("add", add##N, N, W)                              \
  EITHER("sub", sub##N, N, W)                              \
  EITHER("mul.lo", mul_lo##N, N, W)                        \
  EACH("mul.hi", mul_hi, N, W)                             \
  ROW3("mad.lo.u" #N, mad_lo##N, W, W, W, W, INTEGER, 0)   \
  ROW3("mad.lo.s" #N, mad_lo##N, W, W, W, W, INTEGER, 0)   \
  ROW3("mad.hi.u" #N, mad_hi_u##N, W, W, W, W, INTEGER, 0) \
  ROW3("mad.hi.s" #N, mad_hi_s##N, W, W, W, W, INTEGER, 0) \
  EACH("div", div, N, W)                                   \
  EACH("rem", rem, N, W)                                   \
  EACH("min", min, N, W)                                   \
  EACH("max", max, N, W)                                   \
  ROW1("abs.s" #N, abs##N, W, W, INTEGER, 0)               \
  ROW1("neg.s" #N, neg##N, W, W, INTEGER, 0)               \
  ROW2("and.b" #N, and##N, W, W, W, INTEGER, 0)            \
  ROW2("or.b" #N, or ##N, W, W, W, INTEGER, 0)             \
  ROW2("xor.b" #N, xor##N, W, W, W, INTEGER, 0)            \
  ROW1("not.b" #N, not ##N, W, W, INTEGER, 0)              \
  ROW1("cnot.b" #N, cnot##N, W, W, INTEGER, 0)             \
  ROW2("shl.b" #N, shl##N, W, W, W32, INTEGER, 0)          \
  ROW2("shr.u" #N, shr_u##N, W, W, W32, INTEGER, 0)        \
  ROW2("shr.b" #N, shr_u##N, W, W, W32, INTEGER, 0)        \
  ROW2("shr.s" #N, shr_s##N, W, W, W32, INTEGER, 0)

const sim_alu_row_t sim_alu_int_rows[] = {
    FOR_WIDTHS(ROWS) ROW2("mul.wide.u16", mul_wide_u16, W32, W16, W16, INTEGER, 0) ROW2(
        "mul.wide.s16", mul_wide_s16, W32, W16, W16, INTEGER,
        0) ROW2("mul.wide.u32", mul_wide_u32, W64, W32, W32, INTEGER,
                0) ROW2("mul.wide.s32", mul_wide_s32, W64, W32, W32, INTEGER,
                        0) ROW3("mad.wide.u16", mad_wide_u16, W32, W16, W16, W32, INTEGER, 0)
        ROW3("mad.wide.s16", mad_wide_s16, W32, W16, W16, W32, INTEGER, 0) ROW3(
            "mad.wide.u32",
            mad_wide_u32, W64, W32,
            W32,
            W64,
            INTEGER,
            0) ROW3("mad.wide.s32", mad_wide_s32, W64, W32, W32, W64, INTEGER, 0)
            ROW2("mul24.lo.u32", mul24_lo_u, W32, W32, W32, INTEGER,
                 0) ROW2("mul24.lo.s32", mul24_lo_s, W32, W32, W32, INTEGER, 0)
                ROW2("add.sat.s32", add_sat_s32, W32, W32, W32, INTEGER, 0) ROW2(
                    "sub.sat.s32", sub_sat_s32,
                    W32,
                    W32,
                    W32,
                    INTEGER,
                    0) ROW3("sad.u32", sad_u32, W32, W32, W32, W32, INTEGER, 0)
                    ROW3("sad.s32", sad_s32, W32, W32, W32, W32, INTEGER, 0) ROW1(
                        "popc.b32",
                        popc32,
                        W32,
                        W32,
                        INTEGER,
                        0) ROW1("popc.b64", popc64, W32, W64, INTEGER, 0)
                        ROW1("clz.b32", clz32, W32, W32, INTEGER, 0) ROW1(
                            "clz.b64", clz64,
                            W32,
                            W64,
                            INTEGER,
                            0) ROW1("brev.b32", brev32, W32, W32, INTEGER, 0)
                            ROW1("brev.b64", brev64, W64, W64, INTEGER, 0) ROW1(
                                "bfind.u32",
                                bfind_u32, W32,
                                W32,
                                INTEGER,
                                0) ROW1("bfind.s32", bfind_s32, W32, W32, INTEGER, 0)
                                ROW1("bfind.u64", bfind_u64, W32, W64, INTEGER, 0) ROW1(
                                    "bfind.s64",
                                    bfind_s64, W32,
                                    W64,
                                    INTEGER,
                                    0) ROW3("bfe.u32", bfe_u32, W32, W32, W32, W32, INTEGER, 0)
                                    ROW3("bfe.s32", bfe_s32, W32, W32, W32, W32, INTEGER, 0) ROW3(
                                        "bfe.u64", bfe_u64,
                                        W64,
                                        W64,
                                        W32,
                                        W32,
                                        INTEGER,
                                        0) ROW3("bfe.s64", bfe_s64, W64, W64, W32, W32, INTEGER, 0)
                                        ROW3("prmt.b32", prmt, W32, W32, W32, W32, INTEGER, 0) ROW3(
                                            "shf.l.wrap.b32", shf_l_wrap,
                                            W32,
                                            W32,
                                            W32,
                                            W32,
                                            INTEGER,
                                            0) ROW3("shf.r.wrap.b32", shf_r_wrap, W32, W32, W32,
                                                    W32,
                                                    INTEGER,
                                                    0)
                                            ROW3("shf.l.clamp.b32", shf_l_clamp, W32, W32, W32, W32,
                                                 INTEGER, 0)
                                                ROW3("shf.r.clamp.b32", shf_r_clamp, W32, W32, W32,
                                                     W32, INTEGER, 0)
                                                    ROW3("dp4a.u32.u32", dp4a_uu, W32, W32, W32,
                                                         W32, INTEGER, 0)
                                                        ROW3("dp4a.s32.s32", dp4a_ss, W32, W32, W32,
                                                             W32, INTEGER, 0)
                                                            ROW3("dp4a.u32.s32", dp4a_us, W32, W32,
                                                                 W32, W32, INTEGER,
                                                                 0) ROW3("dp4a.s32.u32", dp4a_su,
                                                                         W32, W32, W32,
                                                                         W32, INTEGER, 0)
                                                                ROW3("dp2a.lo.u32.u32", dp2a_lo_uu,
                                                                     W32, W32, W32,
                                                                     W32, INTEGER,
                                                                     0) ROW3("dp2a.hi.u32.u32",
                                                                             dp2a_hi_uu,
                                                                             W32, W32, W32, W32,
                                                                             INTEGER, 0)
                                                                    ROW3("dp2a.lo.s32.s32",
                                                                         dp2a_lo_ss, W32, W32, W32,
                                                                         W32, INTEGER, 0)
                                                                        ROW3("dp2a.hi.s32.s32",
                                                                             dp2a_hi_ss, W32, W32,
                                                                             W32, W32, INTEGER, 0)};
const int32_t sim_num_alu_int_rows = sizeof sim_alu_int_rows / sizeof *sim_alu_int_rows;
