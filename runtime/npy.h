// NumPy's .npy files: one array of numbers.
#ifndef PTC_RUNTIME_NPY_H_
#define PTC_RUNTIME_NPY_H_

#include "ir/base/diag.h"
#include "runtime/cell.h"

// Where an array lies in the bytes of a file; row-major.
typedef struct ptc_npy_s {
  ptc_cell_t cell;
  int32_t num_dims;
  int64_t shape[PTC_MAX_DIMS];
  int64_t num_elements;
  const unsigned char *data;  // in the bytes that were given, of any alignment
} ptc_npy_t;

// Whether |bytes| begin like such a file.
bool ptc_npy_is(const unsigned char *bytes, int64_t num_bytes);
// Reads the header of format version 1, 2 or 3; any content is allowed. "bad-npy" if it is none, or if
// the array is of numbers that ptc cannot read (big-endian, complex, structured, objects), in Fortran order,
// or not exactly as long as the file. |path| is for the diagnostic.
ptc_status_t ptc_npy_parse(ptc_diag_t *diag, const char *path, const unsigned char *bytes,
                           int64_t num_bytes, ptc_npy_t *out_npy);

#endif  // PTC_RUNTIME_NPY_H_
