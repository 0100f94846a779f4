#include "runtime/gpusim/numbers_impl.h"

float sim_from_half(uint16_t bits) {
  const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31,
                 mantissa = bits & 0x3ff;
  if (exponent == 31) return sim_float(sign | 0x7f800000 | mantissa << 13);
  if (exponent) return sim_float(sign | (exponent + 112) << 23 | mantissa << 13);
  const float tiny = (float)mantissa * 0x1p-24f;
  return sign ? -tiny : tiny;
}

// Rounds the positive |x|, in units of the last place, to an integer.
static double round_units(double x, char rounding, bool negative) {
  const double down = floor(x), rest = x - down;
  if (rest == 0) return down;
  switch (rounding) {
    case 'z': return down;
    case 'm': return negative ? down + 1 : down;
    case 'p': return negative ? down : down + 1;
    default: return rest > 0.5 || (rest == 0.5 && fmod(down, 2) != 0) ? down + 1 : down;
  }
}

uint16_t sim_to_small(double x, int exponent_bits, int mantissa_bits, char rounding) {
  if (x != x) return 0x7fff;
  const bool negative = signbit(x);
  const uint16_t sign = negative ? 0x8000 : 0;
  const int bias = (1 << (exponent_bits - 1)) - 1, least = 1 - bias;
  const uint16_t infinity = (uint16_t)(((1 << exponent_bits) - 1) << mantissa_bits);
  x = fabs(x);
  if (isinf(x)) return sign | infinity;
  if (x == 0) return sign;
  int exponent;
  frexp(x, &exponent);
  --exponent;  // x = 1.f * 2^exponent
  if (exponent < least) exponent = least;
  const double units = round_units(ldexp(x, mantissa_bits - exponent), rounding, negative);
  // Rounding up to the next power of two carries into the exponent by itself.
  const int64_t code = (int64_t)units + ((int64_t)(exponent - least) << mantissa_bits);
  if (code < infinity) return sign | (uint16_t)code;
  const bool stays =
      rounding == 'z' || (rounding == 'm' && !negative) || (rounding == 'p' && negative);
  return sign | (stays ? infinity - 1 : infinity);
}

uint32_t sim_to_tf32(float x) {
  const uint32_t bits = sim_bits(x);
  if (x != x) return 0x7fffffff;
  if (isinf(x)) return bits;
  return (bits + 0x1000) & 0xffffe000;
}
