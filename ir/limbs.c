#include "ir/limbs.h"

#include <math.h>
#include <string.h>

// |units| * 2^|position|
static void add_units(int64_t *limbs, int64_t units, int position) {
  const int at = position - PTC_LIMBS_LOWEST, shift = at & 31;
  int64_t *limb = limbs + (at >> 5);
  limb[0] += (int64_t)((uint64_t)units << shift & 0xffffffff);
  limb[1] += units >> (32 - shift) & 0xffffffff;
  limb[2] += units >> 32 >> (32 - shift);
}

void ptc_limbs_add_square(int64_t *limbs, double x) {
  const double square = x * x;
  if (!(square < 0x1p256)) {
    limbs[square >= 0x1p256 ? PTC_LIMBS_INF : PTC_LIMBS_NAN]++;
    return;
  }
  int exponent;
  frexp(square, &exponent);  // square < 2^exponent: 53 bits from there on
  int position = exponent - 53;
  if (position < PTC_LIMBS_LOWEST) position = PTC_LIMBS_LOWEST;
  add_units(limbs, (int64_t)nearbyint(ldexp(square, -position)), position);
}

void ptc_limbs_normalize(int64_t *limbs) {
  int64_t carry = 0;
  for (int k = 0; k + 1 < PTC_LIMBS_DIGITS; k++) {
    const int64_t digit = limbs[k] + carry;
    limbs[k] = digit & 0xffffffff;
    carry = digit >> 32;
  }
  limbs[PTC_LIMBS_DIGITS - 1] += carry;
}

double ptc_limbs_value(const int64_t *limbs) {
  if (limbs[PTC_LIMBS_NAN]) return NAN;
  if (limbs[PTC_LIMBS_INF]) return INFINITY;
  // The highest digit in two, and two zeros below the lowest.
  uint64_t digits[PTC_LIMBS_DIGITS + 3] = {0};
  int64_t own[PTC_LIMBS];
  memcpy(own, limbs, sizeof(own));
  ptc_limbs_normalize(own);
  for (int k = 0; k < PTC_LIMBS_DIGITS; k++) digits[k + 2] = (uint64_t)own[k] & 0xffffffff;
  digits[PTC_LIMBS_DIGITS + 2] = (uint64_t)own[PTC_LIMBS_DIGITS - 1] >> 32;
  int top = PTC_LIMBS_DIGITS + 2;
  while (top > 2 && !digits[top]) top--;
  if (!digits[top]) return 0;
  // 64 bits from the highest on; what lies below counts as one bit more, which decides no tie wrongly.
  const int shift = __builtin_clzll(digits[top]) - 32;
  uint64_t bits = digits[top] << (32 + shift) | digits[top - 1] << shift;
  bits |= shift ? digits[top - 2] >> (32 - shift) : 0;
  uint64_t below = shift ? digits[top - 2] << (32 + shift) : digits[top - 2];
  for (int k = 0; k < top - 2; k++) below |= digits[k];
  if (below) bits |= 1;
  return ldexp((double)bits, 32 * (top - 3) - shift + PTC_LIMBS_LOWEST);
}
