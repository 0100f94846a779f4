// Checkpoints: RUN/ckpt/step-NNNNNNNN/ with model.safetensors, optimizer.safetensors (global tensors by their
// paths) and manifest.json, which has the run's place and a checksum of every byte. A checkpoint appears whole
// or not at all: a run that is killed at any instant, or runs out of disk, leaves the one before intact.
#ifndef PTC_RUNTIME_CHECKPOINT_H_
#define PTC_RUNTIME_CHECKPOINT_H_

#include "ir/base/diag.h"
#include "runtime/safetensors.h"
#include "runtime/shards.h"

enum { PTC_CHECKPOINT_VERSION = 1 };

typedef struct ptc_checkpoint_setting_s {
  const char *name, *value;
} ptc_checkpoint_setting_t;

// Where a run stands. Random numbers and the order of the data follow from seed and step.
typedef struct ptc_checkpoint_state_s {
  int64_t step;      // steps done
  int64_t position;  // samples read by then
  uint64_t seed;
  const char *model;                         // name
  const ptc_checkpoint_setting_t *settings;  // in force; names are distinct
  int32_t num_settings;
} ptc_checkpoint_state_t;

// --- writing

// Writes the checkpoint of |state->step| of the run folder |run|, which is made if it is missing; one of the
// same step is replaced, those of later steps are renamed to superseded-step-NNNNNNNN. Then removes all but the
// latest |keep| (0: keeps all), and what killed runs left.
// PTC_IO with "write-file"; then nothing has changed.
ptc_status_t ptc_checkpoint_write(ptc_diag_t *diag, const char *run,
                                  const ptc_checkpoint_state_t *state,
                                  const ptc_host_tensor_t *model, int64_t num_model,
                                  const ptc_host_tensor_t *optimizer, int64_t num_optimizer,
                                  int32_t keep);

// The same by all ranks of |comm|: each has its parts of the same tensors in the same order, and what rank 0 says of
// the run counts. All ranks return an error if one has failed.
ptc_status_t ptc_checkpoint_write_shards(ptc_diag_t *diag, ptc_comm_t *comm, const char *run,
                                         const ptc_checkpoint_state_t *state,
                                         const ptc_shard_t *model, int64_t num_model,
                                         const ptc_shard_t *optimizer, int64_t num_optimizer,
                                         int32_t keep);

// --- reading

// An open checkpoint, every byte of it checked.
typedef struct ptc_checkpoint_s {
  ptc_arena_t arena;
  const char *folder;
  ptc_checkpoint_state_t state;
  ptc_safetensors_t *files;
  int32_t num_files;
} ptc_checkpoint_t;

// Opens the checkpoint in |folder|. "bad-checkpoint", "bad-tensor-file" or "read-file" if anything in it is
// missing, damaged or of a later version; the diagnostic names the file. Then |out_checkpoint| is empty.
ptc_status_t ptc_checkpoint_open(ptc_diag_t *diag, const char *folder,
                                 ptc_checkpoint_t *out_checkpoint);
// Opens the latest one of the run folder |run|. If it is damaged: an error and a note that names the one before;
// or with |fall_back| a warning, and the one before is tried. "no-checkpoint" (PTC_IO) if the run has none.
ptc_status_t ptc_checkpoint_open_latest(ptc_diag_t *diag, const char *run, bool fall_back,
                                        ptc_checkpoint_t *out_checkpoint);
void ptc_checkpoint_close(ptc_checkpoint_t *checkpoint);
// Copies the tensors of the given names into their data. All are of the dtype and the shape that the checkpoint
// has, and all are there: else "checkpoint-tensor", and some may have been copied.
ptc_status_t ptc_checkpoint_load(ptc_diag_t *diag, const ptc_checkpoint_t *checkpoint,
                                 const ptc_host_tensor_t *tensors, int64_t count);
// Takes the parts out of the tensors of their names, which have the whole ones' shapes: else "checkpoint-tensor".
ptc_status_t ptc_checkpoint_load_shards(ptc_diag_t *diag, const ptc_checkpoint_t *checkpoint,
                                        const ptc_shard_t *shards, int64_t count);
// The folders of a run's checkpoints, the latest first, whether they are intact or not; the texts live in |arena|.
// A run without any has none.
int64_t ptc_checkpoint_list(ptc_arena_t *arena, const char *run, const char *const **out_folders);

#endif  // PTC_RUNTIME_CHECKPOINT_H_
