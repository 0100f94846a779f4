// Sums in blocks that stay in the cache: an accumulator takes one operand after the other, then goes out to every
// result; large results pass the caches by.
#include "runtime/combine.h"

#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

enum {
  BLOCK = 2048,           // elements: with f32 accumulators, half of a small L1 cache
  STREAM_BYTES = 1 << 20  // results of this size are not kept in the cache
};

// --- 16-bit formats

static inline float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint32_t bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float bf16_get(uint16_t x) { return float_of_bits((uint32_t)x << 16); }

static inline uint16_t bf16_put(float value) {
  const uint32_t u = bits_of_float(value);
  const uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
  const uint32_t nan = u >> 16 | 0x40;
  return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

// The exponent moves by a multiplication, which is right for subnormal numbers, too.
static inline float f16_get(uint16_t x) {
  const uint32_t magnitude = x & 0x7fff;
  const uint32_t scaled = bits_of_float(float_of_bits(magnitude << 13) * 0x1p112f);
  const uint32_t special = magnitude >= 0x7c00 ? 0x7f800000 : 0;
  return float_of_bits(scaled | special | (uint32_t)(x & 0x8000) << 16);
}

static inline uint16_t f16_put(float value) {
  const uint32_t u = bits_of_float(value), a = u & 0x7fffffff;
  const uint32_t special = a > 0x7f800000 ? 0x7e00 : 0x7c00;
  // Adding 0.5 rounds at the last place of a subnormal number.
  const uint32_t tiny = bits_of_float(float_of_bits(a) + 0.5f) - 0x3f000000;
  const uint32_t normal = (a - (112u << 23) + 0xfff + (a >> 13 & 1)) >> 13;
  const uint32_t magnitude = a >= 0x47800000 ? special : a < 0x38800000 ? tiny : normal;
  return (uint16_t)(magnitude | (u >> 16 & 0x8000));
}

// --- one block

#define SAME(x) (x)
// As generated code has it: integers wrap.
#define ADD(a, b) ((a) + (b))
#define OR(a, b) ((a) | (b))
// NaN is neither greater nor equal to itself.
#define MAX(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))

// NAME: element type, accumulator type, how to get and put one, the operation.
#define COMBINE(NAME, ELEM, ACC, GET, PUT, OP)                                            \
  static void NAME(const void *const *ins, int32_t num_ins, int64_t first, int64_t count, \
                   void *out) {                                                           \
    ACC acc[BLOCK];                                                                       \
    ELEM *to = out;                                                                       \
    const ELEM *x = (const ELEM *)ins[0] + first;                                         \
    for (int64_t i = 0; i < count; i++) acc[i] = GET(x[i]);                               \
    for (int32_t g = 1; g < num_ins; g++) {                                               \
      const ELEM *y = (const ELEM *)ins[g] + first;                                       \
      for (int64_t i = 0; i < count; i++) acc[i] = OP(acc[i], (ACC)GET(y[i]));            \
    }                                                                                     \
    for (int64_t i = 0; i < count; i++) to[i] = (ELEM)PUT(acc[i]);                        \
  }
COMBINE(add_bool, uint8_t, uint8_t, SAME, SAME, OR)
COMBINE(add_i32, uint32_t, uint32_t, SAME, SAME, ADD)
COMBINE(add_i64, uint64_t, uint64_t, SAME, SAME, ADD)
COMBINE(add_f16, uint16_t, float, f16_get, f16_put, ADD)
COMBINE(add_bf16, uint16_t, float, bf16_get, bf16_put, ADD)
COMBINE(add_f32, float, float, SAME, SAME, ADD)
COMBINE(add_f64, double, double, SAME, SAME, ADD)
COMBINE(max_i32, int32_t, int32_t, SAME, SAME, MAX)
COMBINE(max_i64, int64_t, int64_t, SAME, SAME, MAX)
COMBINE(max_f16, uint16_t, float, f16_get, f16_put, MAX)
COMBINE(max_bf16, uint16_t, float, bf16_get, bf16_put, MAX)
COMBINE(max_f32, float, float, SAME, SAME, MAX)
COMBINE(max_f64, double, double, SAME, SAME, MAX)

// Elements [first, first + count) into |out|, a block.
typedef void (*combine_fn_t)(const void *const *ins, int32_t num_ins, int64_t first, int64_t count,
                             void *out);

static const combine_fn_t combine_fns[2][PTC_NUM_DTYPES] = {
    [PTC_REDUCE_SUM] = {[PTC_BOOL] = add_bool,
                        [PTC_I32] = add_i32,
                        [PTC_I64] = add_i64,
                        [PTC_F16] = add_f16,
                        [PTC_BF16] = add_bf16,
                        [PTC_F32] = add_f32,
                        [PTC_F64] = add_f64},
    [PTC_REDUCE_MAX] = {[PTC_BOOL] = add_bool,
                        [PTC_I32] = max_i32,
                        [PTC_I64] = max_i64,
                        [PTC_F16] = max_f16,
                        [PTC_BF16] = max_bf16,
                        [PTC_F32] = max_f32,
                        [PTC_F64] = max_f64},
};

// --- results

static void stream(char *to, const char *from, int64_t bytes) {
  int64_t i = 0;
#if defined(__SSE2__)
  for (; i < bytes && (uintptr_t)(to + i) % 16 != 0; i++) to[i] = from[i];
  for (; i + 64 <= bytes; i += 64)
    for (int k = 0; k < 64; k += 16)
      _mm_stream_si128((__m128i *)(void *)(to + i + k),
                       _mm_loadu_si128((const __m128i *)(const void *)(from + i + k)));
#endif
  memcpy(to + i, from + i, (size_t)(bytes - i));
}

void ptc_combine(ptc_reduce_kind_t reduce, ptc_dtype_t dtype, const void *const *ins,
                 int32_t num_ins, void *const *outs, int32_t num_outs, int64_t bytes) {
  const int64_t elem = ptc_dtype_bytes(dtype), count = bytes / elem;
  const combine_fn_t fn = combine_fns[reduce][dtype];
  const bool is_large = bytes >= STREAM_BYTES;
  _Alignas(64) char block[BLOCK * sizeof(double)];
  for (int64_t first = 0; first < count; first += BLOCK) {
    const int64_t part = count - first < BLOCK ? count - first : BLOCK;
    fn(ins, num_ins, first, part, block);
    for (int32_t i = 0; i < num_outs; i++) {
      char *to = (char *)outs[i] + first * elem;
      if (is_large)
        stream(to, block, part * elem);
      else
        memcpy(to, block, (size_t)(part * elem));
    }
  }
#if defined(__SSE2__)
  if (is_large) _mm_sfence();
#endif
}
