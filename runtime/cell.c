#include "runtime/cell.h"

#include <math.h>
#include <string.h>

static const struct {
  const char *name;
  int64_t bytes;
} cells[] = {
#define ROW(id, bytes, name) {name, bytes},
    PTC_CELLS(ROW)
#undef ROW
};

int64_t ptc_cell_bytes(ptc_cell_t cell) { return cell < PTC_NUM_CELLS ? cells[cell].bytes : 0; }

const char *ptc_cell_name(ptc_cell_t cell) { return cells[cell].name; }

ptc_cell_t ptc_cell_parse(const char *name) {
  int i = 0;
  while (i < PTC_NUM_CELLS && strcmp(cells[i].name, name) != 0) i++;
  return (ptc_cell_t)i;
}

ptc_cell_t ptc_cell_of_dtype(ptc_dtype_t dtype) {
  switch (dtype) {
    case PTC_F64: return PTC_CELL_F64;
    case PTC_F32: return PTC_CELL_F32;
    case PTC_F16: return PTC_CELL_F16;
    case PTC_BF16: return PTC_CELL_BF16;
    case PTC_I64: return PTC_CELL_I64;
    case PTC_I32: return PTC_CELL_I32;
    default: return PTC_CELL_BOOL;
  }
}

bool ptc_cell_is_float(ptc_cell_t cell) { return cell <= PTC_CELL_BF16; }

bool ptc_cell_is_signed(ptc_cell_t cell) { return cell <= PTC_CELL_I8; }

// --- one number

static double f16_value(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = exponent == 31  ? (fraction ? (double)NAN : (double)INFINITY)
                 : exponent == 0 ? ldexp(fraction, -24)
                                 : ldexp(fraction + 1024, exponent - 25);
  return bits >> 15 ? -value : value;
}

// |value| is already rounded to f16.
static uint16_t f16_bits(double value) {
  uint16_t sign = signbit(value) ? 0x8000 : 0;
  double magnitude = fabs(value);
  if (isnan(value)) return 0x7e00;
  if (isinf(value)) return (uint16_t)(sign | 0x7c00);
  if (magnitude < 0x1p-14) return (uint16_t)(sign | (uint16_t)ldexp(magnitude, 24));
  int exponent;
  double fraction = frexp(magnitude, &exponent);  // in [0.5, 1)
  return (uint16_t)(sign | (uint16_t)((exponent + 14) << 10) |
                    ((uint16_t)ldexp(fraction, 11) & 1023));
}

typedef union bits_u {
  double f64;
  float f32;
  int64_t i64;
  int32_t i32;
  uint32_t u32;
  int16_t i16;
  uint16_t u16;
  int8_t i8;
  uint8_t u8;
} bits_t;

static bits_t load(ptc_cell_t cell, const void *from) {
  bits_t bits = {0};
  memcpy(&bits, from, (size_t)cells[cell].bytes);
  return bits;
}

double ptc_cell_get(ptc_cell_t cell, const void *from) {
  bits_t bits = load(cell, from);
  switch (cell) {
    case PTC_CELL_F64: return bits.f64;
    case PTC_CELL_F32: return bits.f32;
    case PTC_CELL_F16: return f16_value(bits.u16);
    case PTC_CELL_BF16: bits.u32 = (uint32_t)bits.u16 << 16; return bits.f32;
    default: return (double)ptc_cell_get_int(cell, from);
  }
}

int64_t ptc_cell_get_int(ptc_cell_t cell, const void *from) {
  bits_t bits = load(cell, from);
  switch (cell) {
    case PTC_CELL_I64: return bits.i64;
    case PTC_CELL_I32: return bits.i32;
    case PTC_CELL_I16: return bits.i16;
    case PTC_CELL_I8: return bits.i8;
    case PTC_CELL_U32: return bits.u32;
    case PTC_CELL_U16: return bits.u16;
    case PTC_CELL_U8: return bits.u8;
    default: return bits.u8 != 0;
  }
}

void ptc_cell_put(ptc_dtype_t dtype, double value, void *to) {
  bits_t bits = {0};
  value = ptc_dtype_round(dtype, value);
  switch (dtype) {
    case PTC_F64: bits.f64 = value; break;
    case PTC_F32: bits.f32 = (float)value; break;
    case PTC_F16: bits.u16 = f16_bits(value); break;
    case PTC_BF16:
      bits.f32 = (float)value;
      bits.u16 = (uint16_t)(bits.u32 >> 16);
      break;
    // The largest double that rounding gives is 2^63, one too many.
    case PTC_I64: bits.i64 = value >= 0x1p63 ? INT64_MAX : (int64_t)value; break;
    case PTC_I32: bits.i32 = (int32_t)value; break;
    default: bits.u8 = value != 0; break;
  }
  memcpy(to, &bits, (size_t)ptc_dtype_bytes(dtype));
}

// --- many

static void put_int(ptc_dtype_t dtype, int64_t value, void *to) {
  if (dtype == PTC_I64) {
    memcpy(to, &value, sizeof(value));
  } else {
    int32_t narrow = value < INT32_MIN ? INT32_MIN : value > INT32_MAX ? INT32_MAX : (int32_t)value;
    memcpy(to, &narrow, sizeof(narrow));
  }
}

void ptc_cell_convert(ptc_cell_t cell, const void *from, ptc_dtype_t dtype, void *to,
                      int64_t count) {
  const int64_t step = cells[cell].bytes, out_step = ptc_dtype_bytes(dtype);
  const unsigned char *in = from;
  unsigned char *out = to;
  // A bool's byte may be any in a file.
  if (ptc_cell_of_dtype(dtype) == cell && dtype != PTC_BOOL) {
    if (count) memcpy(to, from, (size_t)(count * step));
    return;
  }
  if (cell == PTC_CELL_BF16 && dtype == PTC_F32) {  // large models come so
    for (int64_t i = 0; i < count; i++) {
      unsigned char wide[4] = {0, 0, in[2 * i], in[2 * i + 1]};
      memcpy(out + 4 * i, wide, sizeof(wide));
    }
    return;
  }
  if (ptc_dtype_is_int(dtype) && !ptc_cell_is_float(cell)) {
    for (int64_t i = 0; i < count; i++)
      put_int(dtype, ptc_cell_get_int(cell, in + i * step), out + i * out_step);
    return;
  }
  for (int64_t i = 0; i < count; i++)
    ptc_cell_put(dtype, ptc_cell_get(cell, in + i * step), out + i * out_step);
}
