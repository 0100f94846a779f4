// Name maps: which tensor of another program's file is which of ours, and how its dims lie. One map serves both
// ways, --init and export. The format, line by line (runtime/README.md has more examples):
//
//   # GPT-2 as Hugging Face stores it
//   optional-prefix transformer.                                   names may begin so in a file
//   ignore h.{i}.attn.bias                                         theirs, of no use
//   h.{i}.attn.c_attn.weight[:, 0/3] = block.{i}.attn.wq : d, h k  part 0 of 3 of dim 1; its dims in our words
#ifndef PTC_RUNTIME_NAME_MAP_H_
#define PTC_RUNTIME_NAME_MAP_H_

#include "ir/base/diag.h"
#include "runtime/safetensors.h"

typedef struct ptc_name_map_s ptc_name_map_t;

// Reads a map; any content is allowed. Diagnostics, with their line: "map-syntax", "read-file" (PTC_IO).
ptc_status_t ptc_name_map_read(ptc_diag_t *diag, const char *path, ptc_name_map_t **out_map);
// The same of a text; |path| is for diagnostics.
ptc_status_t ptc_name_map_parse(ptc_diag_t *diag, const char *path, const char *text, size_t len,
                                ptc_name_map_t **out_map);
void ptc_name_map_destroy(ptc_name_map_t *map);  // NULL is allowed

// Fills all of |ours| from files (a model in several files is one). NULL for |map|: the names and shapes are
// ours. Numbers are converted to our dtypes. Diagnostics: "map-missing" (a tensor that a file lacks, or that no line
// gives), "map-dims" (a line's dims are not our tensor's), "map-shape" (the file's shape is another),
// "map-parts" (the lines do not give each element once), "bad-tensor-file"; warning "map-unused". After an error
// some tensors may have been filled.
ptc_status_t ptc_name_map_import(ptc_diag_t *diag, const ptc_name_map_t *map,
                                 const ptc_safetensors_t *files, int32_t num_files,
                                 const ptc_host_tensor_t *ours, int64_t count);
// Writes |ours| under their names to a safetensors file. |dtype|: of all floats in it; PTC_NUM_DTYPES keeps ours.
// Diagnostics as above, and "write-file". Holds one tensor of the file in memory at a time.
ptc_status_t ptc_name_map_export(ptc_diag_t *diag, const ptc_name_map_t *map,
                                 const ptc_host_tensor_t *ours, int64_t count, ptc_dtype_t dtype,
                                 const char *path);

#endif  // PTC_RUNTIME_NAME_MAP_H_
