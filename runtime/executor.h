// Executes the tasks of a plan on this machine's cores.
#ifndef PTC_RUNTIME_EXECUTOR_H_
#define PTC_RUNTIME_EXECUTOR_H_

#include "ir/plan.h"
#include "runtime/cpu/kernel_objects.h"
#include "runtime/device.h"
#include "runtime/exchange.h"
#include "runtime/replay.h"

typedef struct ptc_executor_s ptc_executor_t;

// What a kernel has cost since profiling was switched on.
typedef struct ptc_kernel_time_s {
  int64_t num_calls, time_ns;
} ptc_kernel_time_t;

// Checks the plan (ptc_plan_check), maps its arena and starts |num_threads| threads (0: all cores). Counters
// and settings get their initial values, all else is zero. |objects| has the plan's kernels in order. Keeps
// |plan| and |objects| (not owned). After this nothing is allocated.
// Diagnostics: those of ptc_plan_check, memory_map.h and thread_pool.h; "plan-not-placed".
ptc_status_t ptc_executor_create(ptc_diag_t *diag, const ptc_plan_t *plan,
                                 const ptc_kernel_objects_t *objects, int32_t num_threads,
                                 ptc_executor_t **out_executor);
// The same on a device with memory of its own; takes |device| over, also on an error. What the functions below
// hand out is then a copy in the host's memory: its content is the buffer's when it is handed out, and what is
// written to it is taken when the next task runs.
ptc_status_t ptc_executor_create_on(ptc_diag_t *diag, const ptc_plan_t *plan, ptc_device_t *device,
                                    ptc_executor_t **out_executor);
void ptc_executor_destroy(ptc_executor_t *executor);  // NULL is allowed

// Takes all memory from the system at once, on all threads: else the first steps do, page by page. Changes no
// content.
void ptc_executor_populate(ptc_executor_t *executor);

int32_t ptc_executor_num_threads(const ptc_executor_t *executor);
// The memory of an instance of a buffer, a global, a result. Globals keep their content; a result is valid
// until the next task runs. Writable.
void *ptc_executor_buffer(const ptc_executor_t *executor, int32_t buffer, int64_t instance);
void *ptc_executor_global(const ptc_executor_t *executor, const ptc_plan_global_t *global,
                          int64_t instance);
// The memory of an input whose content is of no use any more: all of it will be written.
void *ptc_executor_input(const ptc_executor_t *executor, const ptc_plan_global_t *global);
const void *ptc_executor_result(const ptc_executor_t *executor, const ptc_plan_result_t *result,
                                int64_t instance);
// The same of scalars, as numbers.
double ptc_executor_get_number(const ptc_executor_t *executor, const ptc_plan_global_t *global);
void ptc_executor_set_number(ptc_executor_t *executor, const ptc_plan_global_t *global,
                             double value);
double ptc_executor_result_number(const ptc_executor_t *executor, const ptc_plan_result_t *result);

// Runs all steps of |task|. A kernel that meets an index out of range ends the run: PTC_INVALID_INPUT,
// "kernel-fault", with its name and its place in the .ptm.
ptc_status_t ptc_executor_run(ptc_diag_t *diag, ptc_executor_t *executor, const ptc_task_t *task);

// Whether tasks that a device can record are launched as one graph from their second run on; without a call,
// PTC_REPLAY_AUTO. While kernels are measured, they are not. The bits are the same.
void ptc_executor_set_replay(ptc_executor_t *executor, ptc_replay_mode_t mode);
// ptc_replay_refusal of |task| as things stand.
const char *ptc_executor_replay_refusal(const ptc_executor_t *executor, const ptc_task_t *task,
                                        int64_t *out_count);

// Makes this the executor of one of several ranks, that of |comm| (not owned): its tasks use the coordinates of the rank
// and exchange data with the others. Once, before the first task; all ranks do. On a device, |comm| takes the device's
// addresses (nccl/nccl.h). Diagnostics: those of exchange.h.
ptc_status_t ptc_executor_join(ptc_diag_t *diag, ptc_executor_t *executor, ptc_comm_t *comm);
// NULL: it has not joined.
const ptc_exchange_t *ptc_executor_exchange(const ptc_executor_t *executor);

// Switches the measuring of kernels on or off; on: forgets what was measured.
void ptc_executor_set_profile(ptc_executor_t *executor, bool on);
// One entry per kernel of the plan, then one for all copies, then one for all collectives.
const ptc_kernel_time_t *ptc_executor_profile(const ptc_executor_t *executor);

#endif  // PTC_RUNTIME_EXECUTOR_H_
