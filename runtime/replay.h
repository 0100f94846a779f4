// Tasks that a device records once, as one graph, and then launches as one. What a task queues does not depend on the step:
// what changes from step to step (inputs, counters, settings) lies in the arena, at addresses that stay.
#ifndef PTC_RUNTIME_REPLAY_H_
#define PTC_RUNTIME_REPLAY_H_

#include "runtime/device.h"

typedef enum ptc_replay_mode_e {
  PTC_REPLAY_AUTO,  // where it is possible and seems to pay
  PTC_REPLAY_OFF,
  PTC_REPLAY_ON,  // where it is possible
} ptc_replay_mode_t;

// More of a task than this is queued step by step with PTC_REPLAY_AUTO: the driver keeps some hundred bytes for each.
enum { PTC_REPLAY_MOST = 100000 };

// Of one task.
typedef struct ptc_replay_s {
  void *graph;  // the device's
  int64_t num_runs;
  bool failed;  // it could not be recorded
} ptc_replay_t;

// Queues all of the task.
typedef ptc_status_t (*ptc_replay_queue_fn_t)(void *arg, ptc_diag_t *diag);

// Why |task| of |plan| is not replayed on |device| (NULL: the plan runs on CPUs); NULL: it is. |*out_count|: launches and
// copies of one run.
const char *ptc_replay_refusal(const ptc_plan_t *plan, const ptc_task_t *task,
                               const ptc_device_t *device, ptc_replay_mode_t mode,
                               int64_t *out_count);

// Runs a task that is replayed: the first time as it is, then recorded. Where that fails, a warning says so
// ("replay-failed"), and the task is queued as before.
ptc_status_t ptc_replay_run(ptc_replay_t *replay, ptc_diag_t *diag, ptc_device_t *device,
                            ptc_replay_queue_fn_t queue, void *arg);

#endif  // PTC_RUNTIME_REPLAY_H_
