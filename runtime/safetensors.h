// Safetensors files: named arrays of numbers, exchanged with other programs.
#ifndef PTC_RUNTIME_SAFETENSORS_H_
#define PTC_RUNTIME_SAFETENSORS_H_

#include "ir/base/diag.h"
#include "ir/type.h"

// One array, row-major. Values are doubles in memory, |dtype| in the file.
typedef struct ptc_named_tensor_s {
  const char *name;
  ptc_dtype_t dtype;
  int32_t num_dims;
  int64_t shape[PTC_MAX_DIMS];
  int64_t num_elements;
  const double *data;
} ptc_named_tensor_t;

// The content of a file.
typedef struct ptc_tensor_file_s {
  ptc_arena_t arena;  // owns everything below
  ptc_named_tensor_t *tensors;
  int64_t count;
} ptc_tensor_file_t;

// Writes |count| arrays; the file appears whole or not at all. Names must be distinct
// ("tensor-name"). PTC_IO, with a diagnostic ("write-file"), if it cannot be written.
ptc_status_t ptc_safetensors_write(ptc_diag_t *diag, const char *path,
                                   const ptc_named_tensor_t *tensors, int64_t count);

// Reads a file; any content is allowed. Errors: "read-file" (PTC_IO), "bad-tensor-file"
// (PTC_INVALID_INPUT). Arrays of types that ptc does not have are errors too; U8 reads as i32.
ptc_status_t ptc_safetensors_read(ptc_diag_t *diag, const char *path, ptc_tensor_file_t *out_file);
void ptc_tensor_file_deinit(ptc_tensor_file_t *file);
// NULL if there is none.
const ptc_named_tensor_t *ptc_tensor_file_find(const ptc_tensor_file_t *file, const char *name);

#endif  // PTC_RUNTIME_SAFETENSORS_H_
