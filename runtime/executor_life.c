// An executor's life: memory, threads, other ranks.
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/memory_map.h"
#include "runtime/executor_impl.h"

enum { POPULATE_TILE = 16 << 20 };

// --- other ranks

static int32_t most_args(const ptc_step_t *steps, int32_t count) {
  int32_t most = 0;
  for (int32_t i = 0; i < count; i++) {
    const int32_t args = steps[i].kind == PTC_STEP_REPEAT
                             ? most_args(steps[i].body, steps[i].num_steps)
                         : steps[i].kind == PTC_STEP_LAUNCH ? 0
                                                            : steps[i].num_args;
    if (args > most) most = args;
  }
  return most;
}

ptc_status_t ptc_executor_join(ptc_diag_t *diag, ptc_executor_t *executor, ptc_comm_t *comm) {
  const ptc_plan_t *plan = executor->plan;
  int32_t most = 0;
  for (int32_t t = 0; t < plan->num_tasks; t++) {
    const int32_t args = most_args(plan->tasks[t].steps, plan->tasks[t].num_steps);
    if (args > most) most = args;
  }
  executor->exchange_args = ptc_xmalloc(sizeof *executor->exchange_args * (size_t)(most + 1));
  PTC_TRY(ptc_exchange_create(diag, plan, comm, &executor->exchange));
  if (ptc_plan_num_streams(plan) == 1 || !comm->vtable->any_thread) return PTC_OK;
  executor->event_numbers =
      ptc_xmalloc(sizeof *executor->event_numbers * (size_t)(ptc_plan_num_events(plan) + 1));
  return ptc_comm_queue_create(diag, ptc_executor_exchange_step, executor, most, &executor->queue);
}

const ptc_exchange_t *ptc_executor_exchange(const ptc_executor_t *executor) {
  return executor->exchange;
}

// --- life

static void init_numbers(ptc_executor_t *executor) {
  const ptc_plan_t *plan = executor->plan;
  for (int32_t g = 0; g < plan->num_globals; g++) {
    const ptc_plan_global_t *global = &plan->globals[g];
    if (strcmp(global->kind, "counter") == 0 || strcmp(global->kind, "setting") == 0)
      ptc_executor_set_number(executor, global, global->value);
  }
}

static void init_calls(ptc_executor_t *executor) {
  const size_t num_threads = (size_t)ptc_thread_pool_size(executor->pool);
  executor->calls =
      aligned_alloc(_Alignof(ptc_thread_call_t), sizeof(ptc_thread_call_t) * num_threads);
  if (!executor->calls) ptc_oom(sizeof(ptc_thread_call_t) * num_threads);
  for (size_t t = 0; t < num_threads; t++) {
    ptc_thread_call_t *call = &executor->calls[t];
    call->fault = 0;
    call->call =
        (ptc_kernel_call_t){executor->args, executor->turns,
                            executor->scratch + (int64_t)t * executor->scratch_bytes, &call->fault};
  }
}

// The largest scratch memory of a kernel, in whole pages so that threads do not share any.
static int64_t scratch_of_plan(const ptc_plan_t *plan) {
  int64_t most = 0;
  for (int32_t k = 0; k < plan->num_kernels; k++)
    if (plan->kernels[k].scratch_bytes > most) most = plan->kernels[k].scratch_bytes;
  return (most + 4095) / 4096 * 4096;
}

static void init_times(ptc_executor_t *executor) {
  const size_t bytes = sizeof *executor->times * (size_t)(executor->plan->num_kernels + 2);
  executor->times = ptc_xmalloc(bytes);
  memset(executor->times, 0, bytes);
}

static ptc_status_t start(ptc_diag_t *diag, ptc_executor_t *executor, int32_t num_threads) {
  const ptc_plan_t *plan = executor->plan;
  init_times(executor);
  void *memory;
  PTC_TRY(ptc_memory_map(diag, plan->arena_bytes, &memory));
  executor->arena = memory;
  if (executor->device) {
    const size_t bytes = sizeof *executor->replays * (size_t)(plan->num_tasks + 1);
    executor->replays = ptc_xmalloc(bytes);
    memset(executor->replays, 0, bytes);
    executor->mirror.memory = executor->arena;
    ptc_mirror_pin_inputs(&executor->mirror, plan);
    init_numbers(executor);
    return executor->mirror.status;
  }
  PTC_TRY(ptc_thread_pool_create(diag, num_threads, &executor->pool));
  executor->scratch_bytes = scratch_of_plan(plan);
  PTC_TRY(ptc_memory_map(diag, executor->scratch_bytes * ptc_thread_pool_size(executor->pool),
                         &memory));
  executor->scratch = memory;
  init_calls(executor);
  init_numbers(executor);
  return PTC_OK;
}

static ptc_status_t create(ptc_diag_t *diag, const ptc_plan_t *plan, ptc_executor_t executor_of,
                           int32_t num_threads, ptc_executor_t **out_executor) {
  PTC_TRY(ptc_plan_check(diag, plan));
  if (plan->arena_bytes < 0)
    return ptc_error(diag, (ptc_loc_t){.file = plan->json_file}, PTC_INVALID_INPUT,
                     "plan-not-placed", "the plan's buffers have no addresses");
  ptc_executor_t *executor = ptc_xmalloc(sizeof *executor);
  *executor = executor_of;
  ptc_status_t status = start(diag, executor, num_threads);
  if (status == PTC_OK) {
    *out_executor = executor;
  } else {
    executor->device = NULL;  // the caller's again
    ptc_executor_destroy(executor);
  }
  return status;
}

ptc_status_t ptc_executor_create(ptc_diag_t *diag, const ptc_plan_t *plan,
                                 const ptc_kernel_objects_t *objects, int32_t num_threads,
                                 ptc_executor_t **out_executor) {
  *out_executor = NULL;
  return create(diag, plan, (ptc_executor_t){.plan = plan, .objects = objects}, num_threads,
                out_executor);
}

ptc_status_t ptc_executor_create_on(ptc_diag_t *diag, const ptc_plan_t *plan, ptc_device_t *device,
                                    ptc_executor_t **out_executor) {
  *out_executor = NULL;
  const ptc_status_t status = create(
      diag, plan,
      (ptc_executor_t){.plan = plan, .device = device, .mirror = {.device = device, .diag = diag}},
      0, out_executor);
  if (status != PTC_OK) device->destroy(device);
  return status;
}

typedef struct span_s {
  char *memory;
  int64_t bytes;
} span_t;

static void populate_tile(void *arg, int32_t thread, int64_t phase, int64_t tile) {
  (void)thread;
  (void)phase;
  const span_t *span = arg;
  const int64_t begin = tile * POPULATE_TILE, left = span->bytes - begin;
  ptc_memory_populate(span->memory + begin, left < POPULATE_TILE ? left : POPULATE_TILE);
}

static void populate(ptc_executor_t *executor, char *memory, int64_t bytes) {
  span_t span = {memory, bytes};
  const int64_t num_tiles = (bytes + POPULATE_TILE - 1) / POPULATE_TILE;
  const ptc_phase_run_t run = {1, 1, &num_tiles};
  ptc_thread_pool_run(executor->pool, &run, 1, populate_tile, &span);
}

void ptc_executor_populate(ptc_executor_t *executor) {
  if (executor->device) return;
  populate(executor, executor->arena, executor->plan->arena_bytes);
  populate(executor, executor->scratch,
           executor->scratch_bytes * ptc_thread_pool_size(executor->pool));
}

void ptc_executor_destroy(ptc_executor_t *executor) {
  if (!executor) return;
  const int32_t num_threads = executor->pool ? ptc_thread_pool_size(executor->pool) : 0;
  ptc_comm_queue_destroy(executor->queue);
  ptc_thread_pool_destroy(executor->pool);
  if (executor->device) executor->device->destroy(executor->device);
  ptc_memory_unmap(executor->arena, executor->plan->arena_bytes);
  ptc_memory_unmap(executor->scratch, executor->scratch_bytes * num_threads);
  ptc_exchange_destroy(executor->exchange);
  free(executor->exchange_args);
  free(executor->event_numbers);
  ptc_mirror_deinit(&executor->mirror);
  free(executor->replays);
  free(executor->calls);
  free(executor->times);
  free(executor);
}

int32_t ptc_executor_num_threads(const ptc_executor_t *executor) {
  return executor->pool ? ptc_thread_pool_size(executor->pool) : 0;
}
