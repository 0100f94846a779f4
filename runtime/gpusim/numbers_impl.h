// Formats of numbers: f16 and bf16 as bits, NaNs, subnormals.
#ifndef PTC_RUNTIME_GPUSIM_NUMBERS_IMPL_H_
#define PTC_RUNTIME_GPUSIM_NUMBERS_IMPL_H_

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t sim_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline float sim_float(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline uint64_t sim_bits64(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline double sim_double(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// Results of f32 instructions have one NaN.
static inline float sim_nan(float x) { return x != x ? sim_float(0x7fffffff) : x; }

// .ftz: a subnormal becomes a zero of its sign.
static inline float sim_flush(float x) {
  const uint32_t bits = sim_bits(x);
  return sim_float(bits & 0x7f800000 ? bits : bits & 0x80000000);
}

// .sat: [0, 1], NaN becomes +0.
static inline float sim_saturate(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }

// Exact.
float sim_from_half(uint16_t bits);
static inline float sim_from_bfloat(uint16_t bits) { return sim_float((uint32_t)bits << 16); }

// |x| to a format of |exponent_bits| and |mantissa_bits| (of 16 bits in all), rounded as |rounding| says:
// 'n' nearest even, 'z' toward zero, 'm' down, 'p' up. One NaN, 0x7fff.
uint16_t sim_to_small(double x, int exponent_bits, int mantissa_bits, char rounding);
static inline uint16_t sim_to_half(double x, char rounding) {
  return sim_to_small(x, 5, 10, rounding);
}
static inline uint16_t sim_to_bfloat(double x, char rounding) {
  return sim_to_small(x, 8, 7, rounding);
}
// f32 with 10 bits of mantissa, ties away from zero.
uint32_t sim_to_tf32(float x);

#endif  // PTC_RUNTIME_GPUSIM_NUMBERS_IMPL_H_
