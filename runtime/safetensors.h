// Safetensors files: named arrays of numbers, exchanged with other programs. Reading maps the file
// and copies nothing; writing takes the bytes as they lie in memory.
#ifndef PTC_RUNTIME_SAFETENSORS_H_
#define PTC_RUNTIME_SAFETENSORS_H_

#include "ir/base/diag.h"
#include "ir/type.h"
#include "runtime/cell.h"
#include "runtime/mapping.h"

// One array in memory: row-major, dense, of its dtype.
typedef struct ptc_host_tensor_s {
  const char *name;
  ptc_dtype_t dtype;
  int32_t num_dims;
  int64_t shape[PTC_MAX_DIMS];
  void *data;
  const char *const *dim_names;  // NULL: unknown. Written as metadata; name maps look at them
} ptc_host_tensor_t;

// Products that would overflow return -1.
int64_t ptc_host_tensor_num_elements(const ptc_host_tensor_t *tensor);
int64_t ptc_host_tensor_bytes(const ptc_host_tensor_t *tensor);

// --- reading

// One array of a file.
typedef struct ptc_tensor_entry_s {
  const char *name;
  const char *format;  // the file's word for its numbers: "F32", "F8_E4M3"
  ptc_cell_t cell;     // PTC_NUM_CELLS: of no format that can be read
  int32_t num_dims;
  int64_t shape[PTC_MAX_DIMS];
  int64_t num_elements;
  const unsigned char *data;  // in the mapping, of any alignment
  int64_t bytes;
  const char *const *dim_names;  // NULL: the file has none
} ptc_tensor_entry_t;

// An open file.
typedef struct ptc_safetensors_s {
  ptc_arena_t arena;  // owns the entries
  ptc_mapping_t mapping;
  const char *path;
  int64_t header_bytes;          // where the data begin, counted from the file's start
  ptc_tensor_entry_t *entries;   // in the order of the header
  ptc_tensor_entry_t **by_name;  // sorted
  int64_t count;
} ptc_safetensors_t;

// Opens a file; any content is allowed, every entry is checked. Entries of formats that cannot be
// read are listed all the same. The file must not shrink while it is open. Errors: "read-file" (PTC_IO),
// "bad-tensor-file" (PTC_INVALID_INPUT); then |out_file| is zero.
ptc_status_t ptc_safetensors_open(ptc_diag_t *diag, const char *path, ptc_safetensors_t *out_file);
void ptc_safetensors_close(ptc_safetensors_t *file);
// NULL if there is none.
const ptc_tensor_entry_t *ptc_safetensors_find(const ptc_safetensors_t *file, const char *name);
// Elements [first, first + count) of |entry| as |dtype| into |out|. "bad-tensor-file" if the entry's format
// cannot be read.
ptc_status_t ptc_safetensors_get(ptc_diag_t *diag, const ptc_safetensors_t *file,
                                 const ptc_tensor_entry_t *entry, int64_t first, int64_t count,
                                 ptc_dtype_t dtype, void *out);

// --- writing

// A file that is being written: the tensors in the order announced, each in any number of pieces.
typedef struct ptc_safetensors_writer_s {
  ptc_diag_t *diag;
  ptc_str_t path, temporary;
  int fd;  // -1: failed, a diagnostic was emitted
  int64_t count;
  int64_t *bytes;         // of each tensor
  int64_t current, done;  // tensor, and its bytes written so far
  int64_t file_bytes;     // so far
  uint32_t file_crc;      // CRC-32 of the finished file
  uint32_t *tensor_crcs;  // of each tensor's bytes
} ptc_safetensors_writer_t;

// Announces |count| tensors; their data are not read. Names are distinct and UTF-8, or "tensor-name". After an error,
// close it all the same.
ptc_status_t ptc_safetensors_create(ptc_diag_t *diag, const char *path,
                                    const ptc_host_tensor_t *tensors, int64_t count,
                                    ptc_safetensors_writer_t *out_writer);
// The next |num_bytes| of the tensors' bytes; never more than were announced.
ptc_status_t ptc_safetensors_put(ptc_safetensors_writer_t *writer, const void *data,
                                 int64_t num_bytes);
// Syncs the file and gives it its name; if anything failed, or bytes are missing, removes it. The
// checksums stay until ptc_safetensors_writer_deinit. PTC_IO, with "write-file", if it could not be written.
ptc_status_t ptc_safetensors_finish(ptc_safetensors_writer_t *writer);
void ptc_safetensors_writer_deinit(ptc_safetensors_writer_t *writer);

// All of that at once: the file appears whole or not at all.
ptc_status_t ptc_safetensors_save(ptc_diag_t *diag, const char *path,
                                  const ptc_host_tensor_t *tensors, int64_t count);

// Writes the header of such a file, and room for the data, which hold zeros or anything. The file is not synced.
ptc_status_t ptc_safetensors_reserve(ptc_diag_t *diag, const char *path,
                                     const ptc_host_tensor_t *tensors, int64_t count);

// --- values as doubles, for small files

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

// As ptc_safetensors_save.
ptc_status_t ptc_safetensors_write(ptc_diag_t *diag, const char *path,
                                   const ptc_named_tensor_t *tensors, int64_t count);
// Reads a file whole; errors as of ptc_safetensors_open. Arrays of formats that cannot be read are errors,
// too; short integers read as i32.
ptc_status_t ptc_safetensors_read(ptc_diag_t *diag, const char *path, ptc_tensor_file_t *out_file);
void ptc_tensor_file_deinit(ptc_tensor_file_t *file);
// NULL if there is none.
const ptc_named_tensor_t *ptc_tensor_file_find(const ptc_tensor_file_t *file, const char *name);

#endif  // PTC_RUNTIME_SAFETENSORS_H_
