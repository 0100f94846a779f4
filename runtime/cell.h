// Formats of numbers in files, and what turns them into values of ptc's dtypes. The host is
// little-endian, as everywhere in ptc.
#ifndef PTC_RUNTIME_CELL_H_
#define PTC_RUNTIME_CELL_H_

#include <stdbool.h>
#include <stdint.h>

#include "ir/type.h"

//        id    bytes  safetensors
#define PTC_CELLS(X) \
  X(F64, 8, "F64")   \
  X(F32, 4, "F32")   \
  X(F16, 2, "F16")   \
  X(BF16, 2, "BF16") \
  X(I64, 8, "I64")   \
  X(I32, 4, "I32")   \
  X(I16, 2, "I16")   \
  X(I8, 1, "I8")     \
  X(U32, 4, "U32")   \
  X(U16, 2, "U16")   \
  X(U8, 1, "U8")     \
  X(BOOL, 1, "BOOL")

typedef enum ptc_cell_e {
#define PTC_CELL_ENUM(id, bytes, name) PTC_CELL_##id,
  PTC_CELLS(PTC_CELL_ENUM)
#undef PTC_CELL_ENUM
      PTC_NUM_CELLS  // also: no format that can be read
} ptc_cell_t;

int64_t ptc_cell_bytes(ptc_cell_t cell);      // of one number; 0 for PTC_NUM_CELLS
const char *ptc_cell_name(ptc_cell_t cell);   // as in safetensors
ptc_cell_t ptc_cell_parse(const char *name);  // as in safetensors, or PTC_NUM_CELLS
ptc_cell_t ptc_cell_of_dtype(ptc_dtype_t dtype);
bool ptc_cell_is_float(ptc_cell_t cell);
bool ptc_cell_is_signed(ptc_cell_t cell);  // can be negative

// One number at |from|, of any alignment.
double ptc_cell_get(ptc_cell_t cell, const void *from);
// The same of a format that is no float: exact.
int64_t ptc_cell_get_int(ptc_cell_t cell, const void *from);
// Writes |value|, rounded as ptc_dtype_round does.
void ptc_cell_put(ptc_dtype_t dtype, double value, void *to);
// |count| numbers to |dtype|; integers among themselves are exact where they fit and saturate where
// not. The two must not overlap.
void ptc_cell_convert(ptc_cell_t cell, const void *from, ptc_dtype_t dtype, void *to,
                      int64_t count);

#endif  // PTC_RUNTIME_CELL_H_
