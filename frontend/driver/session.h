// A plan that is ready to run: read, compiled, in memory. What run, eval and sample begin with.
#ifndef PTC_FRONTEND_DRIVER_SESSION_H_
#define PTC_FRONTEND_DRIVER_SESSION_H_

#include "frontend/driver/cuda_images.h"
#include "runtime/data.h"
#include "runtime/executor.h"
#include "runtime/plan_folder.h"

// A plan that was read, with its kernels compiled: what all ranks of a process share.
typedef struct ptc_program_s {
  const char *path;
  ptc_plan_folder_t folder;
  const ptc_plan_t *plan;          // in |folder|
  ptc_kernel_objects_t **objects;  // of a plan for CPUs: per stage
  ptc_cuda_images_t *images;       // of one for GPUs: per stage
} ptc_program_t;

// One rank of a program.
typedef struct ptc_session_s {
  ptc_diag_t *diag;
  const char *path;
  const ptc_program_t *program;
  const ptc_plan_t *plan;  // the program's: that of the rank's stage
  ptc_comm_t *comm;        // NULL: there is one rank
  int32_t rank;
  ptc_executor_t *executor;
  ptc_comm_t *device_comm;                // of ranks with GPUs: between these; NULL: |comm| does it
  const ptc_task_t *init, *train, *eval;  // NULL: the plan has no such task
  ptc_data_input_t *inputs;               // those that are read from a source
  const ptc_plan_global_t **input_globals;
  int32_t num_inputs;
  double *settings;  // per setting of the plan that no global holds: what --set gave, or NaN
} ptc_session_t;

typedef struct ptc_session_options_s {
  int32_t num_threads;  // of all ranks together; 0: all cores
  bool as_processes;    // ranks, where this program starts them
  bool quiet;
  bool cuda;                 // the plan must be one for GPUs
  bool gpusim;               // a plan for GPUs on the simulator of GPUs
  bool gpusim_checks;        // with all its checks
  bool gpusim_counts;        // and counters
  ptc_replay_mode_t replay;  // of GPUs: steps as graphs
  bool has_gpu;              // a launcher has started this process, as the rank that
  int32_t gpu;               // has this GPU; else rank r has GPU r
} ptc_session_options_t;

// The word of --graph: "on", "off" or "auto"; false if it is another.
bool ptc_session_read_graph(const char *text, ptc_session_options_t *options);
// The word of --device: "cuda" or "gpusim"; false if it is another.
bool ptc_session_read_device(const char *text, ptc_session_options_t *options);

// Opens the plan folder |path|. Interrupting it (interrupt.h) stops the compiler. Diagnostics: "no-plan", and
// those of plan_folder.h, kernel_objects.h and gpusim.h. Close it in any case.
ptc_status_t ptc_program_open(ptc_diag_t *diag, const char *path,
                              const ptc_session_options_t *options, ptc_program_t *out_program);
void ptc_program_close(ptc_program_t *program);

// Seconds of the watchdog: PTC_COMM_LIMIT, else |*out_seconds| as it is. "bad-limit".
ptc_status_t ptc_session_read_limit(ptc_diag_t *diag, double *out_seconds);

// Opens a rank of |program| (not owned): that of |comm| (not owned), or the one rank of a plan for one. All ranks
// call it, and see that they have the same plan. Diagnostics: those of executor.h, communicator.h, nccl/nccl.h;
// "gpusim-ranks" (ranks of the simulator that are processes). Close it in
// any case.
ptc_status_t ptc_session_open(ptc_diag_t *diag, const ptc_program_t *program, ptc_comm_t *comm,
                              const ptc_session_options_t *options, ptc_session_t *out_session);
void ptc_session_close(ptc_session_t *session);
// Whether this rank speaks for all: progress, metrics, results.
bool ptc_session_is_root(const ptc_session_t *session);
// Whether some rank has been interrupted, by then; all of them ask at the same place, and get one answer.
ptc_status_t ptc_session_interrupted(ptc_session_t *session, bool *out_interrupted);

// Opens the files that the option |flag| named for the plan's inputs, each `SOURCE=FILE` or, if the plan has
// one source, `FILE`. Diagnostics: those of runtime/data.h.
ptc_status_t ptc_session_open_data(ptc_session_t *session, const char *flag,
                                   const char *const *specs, int32_t num_specs,
                                   ptc_data_order_t order, ptc_data_t **out_data);
// Fills all inputs for |step|. |out_samples|: real samples of the batch (see ptc_data_fill).
ptc_status_t ptc_session_fill(ptc_session_t *session, const ptc_data_t *data, int64_t step,
                              int64_t *out_samples);
// Samples of a batch; 0 if no input has any. |out_fillable|: a short batch does not falsify the loss, since
// the model ignores what fills it up.
int64_t ptc_session_batch(const ptc_session_t *session, bool *out_fillable);

// The sum of all losses that |task| left.
double ptc_session_loss(const ptc_session_t *session, const ptc_task_t *task);
// The result of |task| with that role, and name unless NULL; NULL if there is none.
const ptc_plan_result_t *ptc_session_result(const ptc_task_t *task, const char *role,
                                            const char *name);
// Elements of the largest input of a step.
int64_t ptc_session_tokens(const ptc_session_t *session);
// The setting "train.NAME" as it is now; |otherwise| if the plan has none, or it is no number.
double ptc_session_setting(const ptc_session_t *session, const char *name, double otherwise);
// `NAME=VALUE` or `train.NAME=VALUE` for an open setting. Diagnostics: "run-setting".
ptc_status_t ptc_session_set(ptc_session_t *session, const char *name, const char *value);

#endif  // PTC_FRONTEND_DRIVER_SESSION_H_
