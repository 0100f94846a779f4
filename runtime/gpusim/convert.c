// cvt between any two types, lane by lane.
#include <fenv.h>

#include "runtime/gpusim/handlers_impl.h"
#include "runtime/gpusim/numbers_impl.h"

// Narrows what a wider register holds to the source type.
static uint64_t narrow(uint64_t value, const sim_number_t *type) {
  if (type->bytes == 8) return value;
  const int shift = 64 - 8 * type->bytes;
  return type->kind == 's' ? (uint64_t)((int64_t)(value << shift) >> shift)
                           : value << shift >> shift;
}

static double read_float(uint64_t bits, const sim_number_t *type) {
  if (type->kind == 'b') return sim_from_bfloat((uint16_t)bits);
  if (type->bytes == 2) return sim_from_half((uint16_t)bits);
  if (type->bytes == 4) return sim_float((uint32_t)bits);
  return sim_double(bits);
}

static double round_to_integer(double x, char rounding) {
  switch (rounding) {
    case 'z': return trunc(x);
    case 'm': return floor(x);
    case 'p': return ceil(x);
    default: {
      const double down = floor(x), rest = x - down;
      const double near = rest > 0.5 || (rest == 0.5 && fmod(down, 2) != 0) ? down + 1 : down;
      return copysign(near, x);
    }
  }
}

static int host_rounding(char rounding) {
  return rounding == 'z'   ? FE_TOWARDZERO
         : rounding == 'm' ? FE_DOWNWARD
         : rounding == 'p' ? FE_UPWARD
                           : FE_TONEAREST;
}

// The conversions that round on the host; volatile keeps them between the changes of the mode.
static float to_float(double x, char rounding) {
  const int before = fegetround();
  fesetround(host_rounding(rounding));
  volatile double in = x;
  volatile float out = (float)in;
  fesetround(before);
  return out;
}

static double integer_to_double(uint64_t bits, bool is_signed, char rounding) {
  const int before = fegetround();
  fesetround(host_rounding(rounding));
  volatile uint64_t in = bits;
  volatile double out;
  if (is_signed) {
    out = (double)(int64_t)in;
  } else {
    // In two halves, both exact: their sum is rounded once.
    volatile double high = (double)(uint32_t)(in >> 32) * 4294967296.0, low = (double)(uint32_t)in;
    out = high + low;
  }
  fesetround(before);
  return out;
}

// Of 64-bit integers a double loses the bits that decide ties, so that it is made odd where inexact: rounding
// it again to 24 bits is then right.
static float integer_to_float(uint64_t bits, bool is_signed, char rounding) {
  double x = integer_to_double(bits, is_signed, 'z');
  const bool exact = is_signed ? (x < 0x1p63 && (uint64_t)(int64_t)x == bits)
                               : (x < 0x1p64 && (uint64_t)x == bits);
  if (!exact) x = sim_double(sim_bits64(x) | 1);
  return to_float(x, rounding);
}

static uint64_t to_integer(double x, const sim_number_t *type, char rounding) {
  if (x != x) return 0;
  const double whole = round_to_integer(x, rounding);
  const int bits = 8 * type->bytes;
  const bool is_signed = type->kind == 's';
  const double least = is_signed ? -ldexp(1, bits - 1) : 0,
               end = ldexp(1, is_signed ? bits - 1 : bits);
  if (whole <= least) return is_signed ? (uint64_t)1 << (bits - 1) : 0;
  if (whole >= end) return is_signed ? ((uint64_t)1 << (bits - 1)) - 1 : UINT64_MAX >> (64 - bits);
  return is_signed ? (uint64_t)(int64_t)whole : (uint64_t)whole;
}

static uint64_t clamp(uint64_t value, const sim_number_t *from, const sim_number_t *to) {
  const int bits = 8 * to->bytes;
  const bool negative = from->kind == 's' && (int64_t)value < 0;
  if (to->kind == 's') {
    const int64_t most = (int64_t)(UINT64_MAX >> 1 >> (64 - bits));
    if (negative) return (int64_t)value < -most - 1 ? (uint64_t)(-most - 1) : value;
    return value > (uint64_t)most ? (uint64_t)most : value;
  }
  const uint64_t most = UINT64_MAX >> (64 - bits);
  return negative ? 0 : value > most ? most : value;
}

static uint64_t write_float(double x, const sim_convert_t *convert) {
  if (convert->to_integer) x = round_to_integer(x, convert->rounding);
  if (convert->saturates) x = x > 0 ? (x < 1 ? x : 1) : 0;
  if (convert->relu && x < 0) x = 0;
  const char rounding = convert->to_integer || !convert->rounding ? 'n' : convert->rounding;
  if (convert->to.kind == 'b') return sim_to_bfloat(x, rounding);
  if (convert->to.kind == 't') return sim_to_tf32((float)x);
  if (convert->to.bytes == 2) return sim_to_half(x, rounding);
  if (convert->to.bytes == 8) return sim_bits64(x);
  float result = sim_nan(to_float(x, rounding));
  if (convert->ftz) result = sim_flush(result);
  return sim_bits(result);
}

static bool is_float(const sim_number_t *type) { return type->kind != 'u' && type->kind != 's'; }

static uint64_t convert_one(uint64_t bits, const sim_convert_t *convert) {
  const sim_number_t *from = &convert->from, *to = &convert->to;
  bits = narrow(bits, from);
  if (is_float(from)) {
    double x = read_float(bits, from);
    if (convert->ftz && from->bytes == 4) x = sim_flush((float)x);
    return is_float(to) ? write_float(x, convert) : to_integer(x, to, convert->rounding);
  }
  if (!is_float(to)) return convert->saturates ? clamp(bits, from, to) : narrow(bits, to);
  const bool is_signed = from->kind == 's';
  double x;
  if (to->bytes == 4)
    x = integer_to_float(bits, is_signed, convert->rounding);
  else
    x = integer_to_double(bits, is_signed, convert->rounding);
  return write_float(x, convert);
}

void sim_convert(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  const sim_convert_t *convert = op->extra;
  SIM_FOR_LANES(lane, mask)
  sim_put(
      warp, op->dst, op->width, lane,
      narrow(convert_one(sim_get(warp, op->a, convert->from_width, lane), convert), &convert->to));
}

void sim_convert_pair(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  const sim_convert_t *convert = op->extra;
  SIM_FOR_LANES(lane, mask) {
    const uint64_t high = write_float(sim_float((uint32_t)sim_get(warp, op->a, PTX_WIDTH_32, lane)),
                                      convert),
                   low = write_float(sim_float((uint32_t)sim_get(warp, op->b, PTX_WIDTH_32, lane)),
                                     convert);
    sim_put(warp, op->dst, PTX_WIDTH_32, lane, high << 16 | low);
  }
}
