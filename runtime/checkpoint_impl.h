// What the writer and the reader of checkpoints share.
#ifndef PTC_RUNTIME_CHECKPOINT_IMPL_H_
#define PTC_RUNTIME_CHECKPOINT_IMPL_H_

#include <jansson.h>

#include "runtime/checkpoint.h"

// One file of a checkpoint, as its manifest has it.
typedef struct ptc_manifest_file_s {
  const char *name;
  int64_t bytes;
  uint32_t crc;
  int64_t num_tensors;
  const char *const *tensors;  // names
  const uint32_t *tensor_crcs;
} ptc_manifest_file_t;

// The text of a manifest; the caller frees it. NULL if a text in it is no UTF-8.
char *ptc_manifest_print(const ptc_checkpoint_state_t *state, const ptc_manifest_file_t *files,
                         int32_t num_files);
// Reads a manifest; any content is allowed. What it gives lives in |arena|. "bad-checkpoint", naming |path|.
ptc_status_t ptc_manifest_parse(ptc_diag_t *diag, const char *path, const char *text, int64_t len,
                                ptc_arena_t *arena, ptc_checkpoint_state_t *out_state,
                                ptc_manifest_file_t **out_files, int32_t *out_num_files);

#endif  // PTC_RUNTIME_CHECKPOINT_IMPL_H_
