// Internal: between the files of executor.
#ifndef PTC_RUNTIME_EXECUTOR_IMPL_H_
#define PTC_RUNTIME_EXECUTOR_IMPL_H_

#include "runtime/comm_queue.h"
#include "runtime/cpu/thread_pool.h"
#include "runtime/executor.h"
#include "runtime/mirror.h"

enum { PTC_EXECUTOR_MAX_ARGS = 128 };

// What a thread's calls are given; the operands and turns are shared.
typedef struct ptc_thread_call_s {
  _Alignas(64) ptc_kernel_call_t call;
  int32_t fault;
} ptc_thread_call_t;

struct ptc_executor_s {
  const ptc_plan_t *plan;
  ptc_device_t *device;  // NULL: this machine's cores
  ptc_mirror_t mirror;   // of |device|
  ptc_replay_mode_t replay_mode;
  ptc_replay_t *replays;  // per task
  const ptc_kernel_objects_t *objects;
  ptc_exchange_t *exchange;  // with other ranks; NULL: there are none
  // Steps of streams but 0 run in a thread of their own, in the order of launching. NULL: they run when they are launched.
  ptc_comm_queue_t *queue;
  int64_t *event_numbers;  // per event: the number in the queue of the step that recorded it last
  void **exchange_args;    // room for those of the largest collective
  ptc_thread_pool_t *pool;
  char *arena, *scratch;
  int64_t scratch_bytes;     // of one thread
  ptc_thread_call_t *calls;  // one per thread
  void *args[PTC_EXECUTOR_MAX_ARGS];
  int64_t turns[PTC_PLAN_MAX_LEVELS];
  bool profiling;
  ptc_kernel_time_t *times;  // per kernel; then copies; last, collectives
};

// Runs a step that other ranks take part in; |arg| is the executor. Also called by the queue's thread, which then is the
// only one that exchanges.
ptc_status_t ptc_executor_exchange_step(void *arg, ptc_diag_t *diag, const ptc_step_t *step,
                                        void *const *args);

#endif  // PTC_RUNTIME_EXECUTOR_IMPL_H_
