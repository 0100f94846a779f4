// What a run remembers: parameters, optimizer state and counters, in checkpoints and other tensor files.
#ifndef PTC_FRONTEND_DRIVER_RUN_STATE_H_
#define PTC_FRONTEND_DRIVER_RUN_STATE_H_

#include "frontend/driver/session.h"

// Whether the folder of a run holds a checkpoint.
bool ptc_run_state_exists(const char *run_dir);
// Removes the checkpoints of the run, nothing else.
ptc_status_t ptc_run_state_remove(ptc_diag_t *diag, const char *run_dir);
// Writes a checkpoint after |step| steps; it appears whole or not at all.
ptc_status_t ptc_run_state_save(ptc_session_t *session, const char *run_dir, int64_t step);
// Reads the latest checkpoint of the run, and takes its seed. |out_step|: steps done. Warns if other settings
// have changed since ("setting-changed"). A damaged one is an error, or with |fall_back| a warning, and the one
// before is read.
ptc_status_t ptc_run_state_load(ptc_session_t *session, const char *run_dir, bool fall_back,
                                int64_t *out_step);
// Reads parameters alone, for eval and sample: |path| is a run's folder (its latest checkpoint), a
// checkpoint, or a safetensors file with the parameters by their paths.
ptc_status_t ptc_run_state_load_params(ptc_session_t *session, const char *path);
// Sets parameters from the safetensors file |path| with the names that the map |map| gives (NULL: the paths).
ptc_status_t ptc_run_state_init(ptc_session_t *session, const char *path, const char *map);
// Writes the parameters of a run (its latest checkpoint) or a checkpoint to the safetensors file |output|, with
// the names that |map| gives (NULL: the paths). |out_count|: tensors of ours.
ptc_status_t ptc_run_state_export(ptc_diag_t *diag, const char *run, const char *output,
                                  const char *map, int64_t *out_count);
// Writes the gradients of the task train: "grad.PATH".
ptc_status_t ptc_run_state_dump_grads(ptc_session_t *session, const char *path);

#endif  // PTC_FRONTEND_DRIVER_RUN_STATE_H_
