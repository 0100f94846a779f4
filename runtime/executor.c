#include "runtime/executor.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/cell.h"
#include "runtime/executor_impl.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
// Under AddressSanitizer a launch may touch nothing of the arena but its operands. Not for large arenas:
// every launch marks all of it.
enum { GUARDED_BYTES = 64 << 20 };
#endif

enum { COPY_TILE = 1 << 20 };

static int64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

// --- memory

static uint64_t device_address(const ptc_executor_t *executor, const char *memory) {
  return ptc_mirror_address(&executor->mirror, memory);
}

// |anew|: all of it will be written.
static void *show(const ptc_executor_t *executor, int32_t buffer, int64_t instance, bool anew) {
  ptc_executor_t *self = (ptc_executor_t *)(uintptr_t)executor;
  const ptc_buffer_t *b = &executor->plan->buffers[buffer];
  assert(instance >= 0 && instance < b->num_instances);
  char *memory = executor->arena + b->offsets[instance];
  if (executor->device) ptc_mirror_show(&self->mirror, memory, b->bytes, anew);
  return memory;
}

void *ptc_executor_buffer(const ptc_executor_t *executor, int32_t buffer, int64_t instance) {
  return show(executor, buffer, instance, false);
}

void *ptc_executor_input(const ptc_executor_t *executor, const ptc_plan_global_t *global) {
  return show(executor, global->buffer, global->first_instance, true);
}

void *ptc_executor_global(const ptc_executor_t *executor, const ptc_plan_global_t *global,
                          int64_t instance) {
  return ptc_executor_buffer(executor, global->buffer, global->first_instance + instance);
}

const void *ptc_executor_result(const ptc_executor_t *executor, const ptc_plan_result_t *result,
                                int64_t instance) {
  return ptc_executor_buffer(executor, result->buffer, result->first_instance + instance);
}

static ptc_dtype_t dtype_of(const ptc_executor_t *executor, int32_t buffer) {
  return executor->plan->buffers[buffer].dtype;
}

double ptc_executor_get_number(const ptc_executor_t *executor, const ptc_plan_global_t *global) {
  return ptc_cell_get(ptc_cell_of_dtype(dtype_of(executor, global->buffer)),
                      ptc_executor_global(executor, global, 0));
}

void ptc_executor_set_number(ptc_executor_t *executor, const ptc_plan_global_t *global,
                             double value) {
  ptc_cell_put(dtype_of(executor, global->buffer), value, ptc_executor_global(executor, global, 0));
}

double ptc_executor_result_number(const ptc_executor_t *executor, const ptc_plan_result_t *result) {
  return ptc_cell_get(ptc_cell_of_dtype(dtype_of(executor, result->buffer)),
                      ptc_executor_result(executor, result, 0));
}

static char *address_of(const ptc_executor_t *executor, const ptc_ref_t *ref) {
  const ptc_buffer_t *buffer = &executor->plan->buffers[ref->buffer];
  const int64_t instance = ptc_affine_at(&ref->instance, executor->turns),
                offset = ptc_affine_at(&ref->byte_offset, executor->turns);
  assert(instance >= 0 && instance < buffer->num_instances);
  assert(offset >= 0 && offset + ref->bytes <= buffer->bytes);
  return executor->arena + buffer->offsets[instance] + offset;
}

// --- what a launch may touch

#if defined(__SANITIZE_ADDRESS__)
static bool is_guarded(const ptc_executor_t *executor) {
  return !executor->queue && executor->plan->arena_bytes <= GUARDED_BYTES;
}

static void guard_begin(const ptc_executor_t *executor, const ptc_step_t *step) {
  if (!is_guarded(executor)) return;
  ASAN_POISON_MEMORY_REGION(executor->arena, (size_t)executor->plan->arena_bytes);
  for (int32_t i = 0; i < step->num_args; i++)
    ASAN_UNPOISON_MEMORY_REGION(executor->args[i], (size_t)step->args[i].bytes);
}

static void guard_end(const ptc_executor_t *executor) {
  if (!is_guarded(executor)) return;
  ASAN_UNPOISON_MEMORY_REGION(executor->arena, (size_t)executor->plan->arena_bytes);
}
#else
static void guard_begin(const ptc_executor_t *executor, const ptc_step_t *step) {
  (void)executor;
  (void)step;
}
static void guard_end(const ptc_executor_t *executor) { (void)executor; }
#endif

// --- steps

typedef struct launch_s {
  ptc_executor_t *executor;
  ptc_kernel_fn_t entry;
} launch_t;

static void launch_tile(void *arg, int32_t thread, int64_t phase, int64_t tile) {
  const launch_t *launch = arg;
  launch->entry(&launch->executor->calls[thread].call, phase, tile);
}

static ptc_status_t report_fault(ptc_diag_t *diag, const ptc_plan_kernel_t *kernel, int32_t fault) {
  const ptc_loc_t loc = {.file = kernel->loc_file, .line = kernel->loc_line};
  if (fault == 1)
    return ptc_error(diag, loc, PTC_INVALID_INPUT, "kernel-fault",
                     "an index that data gave lies outside its dim (kernel \"%s\": %s)",
                     kernel->name, kernel->about);
  return ptc_error(diag, loc, PTC_INTERNAL, "kernel-fault",
                   "kernel \"%s\" (%s) reports fault %" PRId32, kernel->name, kernel->about, fault);
}

// Queues a launch; while profiling, waits for it.
static ptc_status_t launch_on_device(ptc_diag_t *diag, ptc_executor_t *executor,
                                     const ptc_step_t *step) {
  ptc_device_t *device = executor->device;
  uint64_t args[PTC_EXECUTOR_MAX_ARGS];
  for (int32_t i = 0; i < step->num_args; i++)
    args[i] = device_address(executor, address_of(executor, &step->args[i]));
  const int64_t begin = executor->profiling ? now_ns() : 0;
  PTC_TRY(device->launch(device, diag, step->stream, step->kernel, args, step->num_args,
                         executor->turns));
  if (!executor->profiling) return PTC_OK;
  int32_t fault;
  PTC_TRY(device->finish(device, diag, &fault));
  executor->times[step->kernel].num_calls++;
  executor->times[step->kernel].time_ns += now_ns() - begin;
  return PTC_OK;
}

static ptc_status_t launch_kernel(ptc_diag_t *diag, ptc_executor_t *executor,
                                  const ptc_step_t *step) {
  if (executor->device) return launch_on_device(diag, executor, step);
  const ptc_plan_kernel_t *kernel = &executor->plan->kernels[step->kernel];
  for (int32_t i = 0; i < step->num_args; i++)
    executor->args[i] = address_of(executor, &step->args[i]);
  launch_t launch = {executor, ptc_kernel_objects_entry(executor->objects, step->kernel)};
  const int64_t begin = executor->profiling ? now_ns() : 0;
  guard_begin(executor, step);
  ptc_thread_pool_run(executor->pool, kernel->runs, kernel->num_runs, launch_tile, &launch);
  guard_end(executor);
  if (executor->profiling) {
    executor->times[step->kernel].num_calls++;
    executor->times[step->kernel].time_ns += now_ns() - begin;
  }
  for (int32_t t = 0; t < ptc_thread_pool_size(executor->pool); t++)
    if (executor->calls[t].fault) return report_fault(diag, kernel, executor->calls[t].fault);
  return PTC_OK;
}

typedef struct copy_s {
  const char *from;
  char *to;
  int64_t bytes;
} copy_t;

static void copy_tile(void *arg, int32_t thread, int64_t phase, int64_t tile) {
  (void)thread;
  (void)phase;
  const copy_t *copy = arg;
  const int64_t begin = tile * COPY_TILE, left = copy->bytes - begin;
  memcpy(copy->to + begin, copy->from + begin, (size_t)(left < COPY_TILE ? left : COPY_TILE));
}

static ptc_status_t copy_on_device(ptc_diag_t *diag, ptc_executor_t *executor,
                                   const ptc_step_t *step) {
  return executor->device->copy(executor->device, diag, step->stream,
                                device_address(executor, address_of(executor, &step->args[1])),
                                device_address(executor, address_of(executor, &step->args[0])),
                                step->args[0].bytes);
}

static void run_copy(ptc_executor_t *executor, const ptc_step_t *step) {
  const int64_t begin = executor->profiling ? now_ns() : 0;
  copy_t copy = {address_of(executor, &step->args[0]), address_of(executor, &step->args[1]),
                 step->args[0].bytes};
  if (copy.from != copy.to) {
    const int64_t num_tiles = (copy.bytes + COPY_TILE - 1) / COPY_TILE;
    const ptc_phase_run_t run = {1, 1, &num_tiles};
    ptc_thread_pool_run(executor->pool, &run, 1, copy_tile, &copy);
  }
  if (!executor->profiling) return;
  executor->times[executor->plan->num_kernels].num_calls++;
  executor->times[executor->plan->num_kernels].time_ns += now_ns() - begin;
}

// Where an operand lies for the communicator: on the device if there is one.
static void *place_of(const ptc_executor_t *executor, const ptc_ref_t *ref) {
  char *memory = address_of(executor, ref);
  return executor->device ? (void *)(uintptr_t)device_address(executor, memory) : memory;
}

// What is exchanged is done, for those who measure it.
static ptc_status_t note_exchange(ptc_diag_t *diag, ptc_executor_t *executor, int64_t begin_ns) {
  if (!executor->profiling) return PTC_OK;
  int32_t fault;
  if (executor->device) PTC_TRY(executor->device->finish(executor->device, diag, &fault));
  executor->times[executor->plan->num_kernels + 1].num_calls++;
  executor->times[executor->plan->num_kernels + 1].time_ns += now_ns() - begin_ns;
  return PTC_OK;
}

// The ranks of a stage are one after another, the stages in order.
static ptc_status_t run_transfer(ptc_diag_t *diag, ptc_executor_t *executor, const ptc_step_t *step,
                                 void *const *args) {
  const ptc_plan_t *plan = executor->plan;
  ptc_comm_t *comm = ptc_exchange_comm(executor->exchange);
  const int32_t size = comm->world / plan->num_stages;
  const int32_t peer = step->peer * size + comm->rank % size;
  const ptc_buffer_t *buffer = &plan->buffers[step->args[0].buffer];
  const bool sends = step->kind == PTC_STEP_SEND;
  char what[120];
  snprintf(what, sizeof what, "%s of %s %s stage %" PRId32, sends ? "send" : "recv", buffer->name,
           sends ? "to" : "from", step->peer);
  ptc_comm_set_context(comm, what, (ptc_loc_t){.file = buffer->loc_file, .line = buffer->loc_line});
  return sends ? ptc_comm_send(comm, diag, peer, step->tag, args[0], step->args[0].bytes)
               : ptc_comm_recv(comm, diag, peer, step->tag, args[0], step->args[0].bytes);
}

ptc_status_t ptc_executor_exchange_step(void *arg, ptc_diag_t *diag, const ptc_step_t *step,
                                        void *const *args) {
  ptc_executor_t *executor = arg;
  const int64_t begin = executor->profiling ? now_ns() : 0;
  ptc_comm_set_stream(ptc_exchange_comm(executor->exchange), step->stream);
  PTC_TRY(step->kind == PTC_STEP_COLLECTIVE ? ptc_exchange_run(diag, executor->exchange, step, args)
                                            : run_transfer(diag, executor, step, args));
  return note_exchange(diag, executor, begin);
}

// Whether |next| waits for |step|: then nothing is won by handing it to another thread.
static bool is_awaited(const ptc_step_t *step, const ptc_step_t *next) {
  bool awaited = false;
  for (int32_t w = 0; next && w < next->num_waits; w++)
    awaited = awaited || next->waits[w] == step->record;
  return awaited && step->record;
}

// |next|: the step that is launched after this one, if that is known.
static ptc_status_t exchange(ptc_diag_t *diag, ptc_executor_t *executor, const ptc_step_t *step,
                             const ptc_step_t *next) {
  if (!executor->exchange)
    return ptc_error(diag, (ptc_loc_t){.file = executor->plan->steps_file, .line = step->line},
                     PTC_UNSUPPORTED, "no-communicator",
                     "this step exchanges data with other ranks, and there are none");
  // What is not handed over comes after all that was.
  if (executor->queue && step->stream == 0) PTC_TRY(ptc_comm_queue_drain(executor->queue, diag));
  const bool here = !executor->queue || step->stream == 0 ||
                    (is_awaited(step, next) && ptc_comm_queue_is_idle(executor->queue));
  void **args = here ? executor->exchange_args : ptc_comm_queue_args(executor->queue);
  for (int32_t i = 0; i < step->num_args; i++) args[i] = place_of(executor, &step->args[i]);
  if (here) return ptc_executor_exchange_step(executor, diag, step, args);
  const int64_t number = ptc_comm_queue_push(executor->queue, step);
  if (step->record) executor->event_numbers[step->record] = number;
  return PTC_OK;
}

static ptc_status_t run_steps(ptc_diag_t *diag, ptc_executor_t *executor, const ptc_step_t *steps,
                              int32_t num_steps, int32_t level, const ptc_step_t *repeat,
                              int64_t trip);

// For one micro-batch.
static ptc_status_t run_call(ptc_diag_t *diag, ptc_executor_t *executor, const ptc_step_t *step,
                             int32_t level) {
  const ptc_task_t *task = &executor->plan->tasks[step->task];
  executor->turns[level] = step->micro;
  executor->turns[level + 1] = step->slot;
  PTC_TRY(run_steps(diag, executor, task->steps, task->num_steps, level + 2, NULL, 0));
  executor->turns[level] = executor->turns[level + 1] = 0;
  return PTC_OK;
}

static ptc_status_t run_repeat(ptc_diag_t *diag, ptc_executor_t *executor, const ptc_step_t *step,
                               int32_t level) {
  int64_t trip, end;
  for (ptc_repeat_trips(step, &trip, &end); trip < end; trip++)
    PTC_TRY(run_steps(diag, executor, step->body, step->num_steps, level + 1, step, trip));
  executor->turns[level] = 0;
  return PTC_OK;
}

// Makes the step's stream wait for its events.
static ptc_status_t wait_for_events(ptc_diag_t *diag, ptc_executor_t *executor,
                                    const ptc_step_t *step) {
  ptc_device_t *device = executor->device;
  for (int32_t w = 0; device && w < step->num_waits; w++)
    PTC_TRY(device->wait(device, diag, step->stream, step->waits[w]));
  // Steps of stream 0 are done when the next one is launched, and the queue keeps the order of launching.
  for (int32_t w = 0; executor->queue && step->stream == 0 && w < step->num_waits; w++)
    PTC_TRY(ptc_comm_queue_wait(executor->queue, diag, executor->event_numbers[step->waits[w]]));
  return PTC_OK;
}

static ptc_status_t record_event(ptc_diag_t *diag, ptc_executor_t *executor,
                                 const ptc_step_t *step) {
  ptc_device_t *device = executor->device;
  if (!device || !step->record) return PTC_OK;
  return device->record(device, diag, step->stream, step->record);
}

// |level|: number of axes and enclosing repeats; |repeat|: the innermost one, whose trip |trip| it is, or NULL.
static ptc_status_t run_steps(ptc_diag_t *diag, ptc_executor_t *executor, const ptc_step_t *steps,
                              int32_t num_steps, int32_t level, const ptc_step_t *repeat,
                              int64_t trip) {
  for (int32_t i = 0; i < num_steps; i++) {
    const ptc_step_t *step = &steps[i];
    if (!ptc_repeat_turn(repeat, step, trip, &executor->turns[repeat ? level - 1 : 0])) continue;
    PTC_TRY(wait_for_events(diag, executor, step));
    switch (step->kind) {
      case PTC_STEP_LAUNCH: PTC_TRY(launch_kernel(diag, executor, step)); break;
      case PTC_STEP_COPY:
        if (executor->device)
          PTC_TRY(copy_on_device(diag, executor, step));
        else
          run_copy(executor, step);
        break;
      case PTC_STEP_REPEAT: PTC_TRY(run_repeat(diag, executor, step, level)); break;
      case PTC_STEP_CALL: PTC_TRY(run_call(diag, executor, step, level)); break;
      case PTC_STEP_COLLECTIVE:
      case PTC_STEP_SEND:
      case PTC_STEP_RECV:
        PTC_TRY(exchange(diag, executor, step, i + 1 < num_steps ? step + 1 : NULL));
        break;
    }
    PTC_TRY(record_event(diag, executor, step));
  }
  return PTC_OK;
}

// Waits for the thread that exchanges. After an error of this one it may wait for ranks that wait in turn: the run ends on
// all of them.
static ptc_status_t end_exchange(ptc_diag_t *diag, ptc_executor_t *executor, ptc_status_t status) {
  if (!executor->queue) return status;
  if (status == PTC_OK) return ptc_comm_queue_drain(executor->queue, diag);
  const bool idle = ptc_comm_queue_is_idle(executor->queue);
  const char *reason = diag->num_items ? diag->items[diag->num_items - 1].message : "an error";
  if (!idle) ptc_comm_abort(ptc_exchange_comm(executor->exchange), reason);
  ptc_diag_t unused;
  ptc_diag_init(&unused);
  (void)ptc_comm_queue_drain(executor->queue, &unused);
  ptc_diag_deinit(&unused);
  return status;
}

typedef struct queued_s {
  ptc_executor_t *executor;
  const ptc_task_t *task;
} queued_t;

static ptc_status_t queue_task(void *arg, ptc_diag_t *diag) {
  const queued_t *queued = arg;
  return run_steps(diag, queued->executor, queued->task->steps, queued->task->num_steps,
                   queued->executor->plan->mesh.num_axes, NULL, 0);
}

const char *ptc_executor_replay_refusal(const ptc_executor_t *executor, const ptc_task_t *task,
                                        int64_t *out_count) {
  const char *refusal =
      ptc_replay_refusal(executor->plan, task, executor->device, executor->replay_mode, out_count);
  return !refusal && executor->profiling ? "each kernel is measured by itself" : refusal;
}

void ptc_executor_set_replay(ptc_executor_t *executor, ptc_replay_mode_t mode) {
  executor->replay_mode = mode;
}

static ptc_status_t run_on_device(ptc_diag_t *diag, ptc_executor_t *executor,
                                  const ptc_task_t *task) {
  queued_t queued = {executor, task};
  int64_t count;
  int32_t fault = -1;
  PTC_TRY(ptc_mirror_send(&executor->mirror, diag));
  if (ptc_executor_replay_refusal(executor, task, &count))
    PTC_TRY(queue_task(&queued, diag));
  else
    PTC_TRY(ptc_replay_run(&executor->replays[task - executor->plan->tasks], diag, executor->device,
                           queue_task, &queued));
  PTC_TRY(executor->device->finish(executor->device, diag, &fault));
  return fault < 0 ? PTC_OK : report_fault(diag, &executor->plan->kernels[fault], 1);
}

ptc_status_t ptc_executor_run(ptc_diag_t *diag, ptc_executor_t *executor, const ptc_task_t *task) {
  const int32_t level = executor->plan->mesh.num_axes;
  memset(executor->turns, 0, sizeof executor->turns);
  if (executor->exchange)
    ptc_mesh_coords(&executor->plan->mesh, ptc_exchange_comm(executor->exchange)->rank,
                    executor->turns);
  if (executor->device) return run_on_device(diag, executor, task);
  for (int32_t t = 0; t < ptc_thread_pool_size(executor->pool); t++) executor->calls[t].fault = 0;
  if (executor->queue)
    memset(executor->event_numbers, 0,
           sizeof *executor->event_numbers * (size_t)(ptc_plan_num_events(executor->plan) + 1));
  const ptc_status_t status =
      run_steps(diag, executor, task->steps, task->num_steps, level, NULL, 0);
  return end_exchange(diag, executor, status);
}

// --- profile

void ptc_executor_set_profile(ptc_executor_t *executor, bool on) {
  executor->profiling = on;
  if (on && executor->exchange) ptc_exchange_forget(executor->exchange);
  if (on)
    memset(executor->times, 0, sizeof *executor->times * (size_t)(executor->plan->num_kernels + 2));
}

const ptc_kernel_time_t *ptc_executor_profile(const ptc_executor_t *executor) {
  return executor->times;
}
