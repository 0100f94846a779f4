// Exact sums of squares: fixed-point numbers as limbs, the values of the op square_sum.
//
// The number is the sum over k < PTC_LIMBS_DIGITS of limbs[k] * 2^(32 k + PTC_LIMBS_LOWEST). Integers add up
// to the same bits in any order, so a sum of limbs does not depend on how a value was cut into pieces. A
// square of an f32 lies between 2^-298 and 2^256 and has 48 bits: none is lost, and 2^53 of them fit.
#ifndef PTC_IR_LIMBS_H_
#define PTC_IR_LIMBS_H_

#include <stdint.h>

#define PTC_LIMBS_DIM "square_limb"  // the name of the dim of the limbs

enum {
  PTC_LIMBS_DIGITS = 18,
  PTC_LIMBS_INF = 18,  // how many squares were 2^256 or more
  PTC_LIMBS_NAN = 19,  // how many were NaN
  PTC_LIMBS = 20,
  PTC_LIMBS_LOWEST = -298,
};

// Adds x * x, rounded to f64 and then to a multiple of 2^-298.
void ptc_limbs_add_square(int64_t *limbs, double x);
// Brings all digits but the highest into [0, 2^32).
void ptc_limbs_normalize(int64_t *limbs);
// The number, rounded once, to nearest; NaN if a square was NaN, else infinite if one was. The sum must not
// be negative. Need not be normalized.
double ptc_limbs_value(const int64_t *limbs);

#endif  // PTC_IR_LIMBS_H_
