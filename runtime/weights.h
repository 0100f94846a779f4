// The weights of a model in one safetensors file or in several.
#ifndef PTC_RUNTIME_WEIGHTS_H_
#define PTC_RUNTIME_WEIGHTS_H_

#include "ir/base/diag.h"
#include "runtime/safetensors.h"

// Open files.
typedef struct ptc_weights_s {
  ptc_arena_t arena;  // owns the array
  ptc_safetensors_t *files;
  int32_t num_files;
} ptc_weights_t;

// Opens |path|: a safetensors file; an index of several (model.safetensors.index.json, as Hugging Face writes it:
// "weight_map" names the file of each tensor); or a folder with one of the two. Diagnostics: "read-file",
// "bad-tensor-file", "bad-index"; then |out_weights| is empty.
ptc_status_t ptc_weights_open(ptc_diag_t *diag, const char *path, ptc_weights_t *out_weights);
void ptc_weights_close(ptc_weights_t *weights);

#endif  // PTC_RUNTIME_WEIGHTS_H_
