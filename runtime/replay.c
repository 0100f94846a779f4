#include "runtime/replay.h"

typedef struct census_s {
  int64_t count;  // launches and copies
  bool exchanges;
} census_t;

static int64_t phases_of(const ptc_plan_kernel_t *kernel) {
  int64_t count = 0;
  for (int32_t r = 0; r < kernel->num_runs; r++)
    count += kernel->runs[r].count * kernel->runs[r].num_phases;
  return count;
}

static census_t census_of(const ptc_plan_t *plan, const ptc_step_t *steps, int32_t num_steps) {
  census_t all = {0};
  for (int32_t i = 0; i < num_steps; i++) {
    const ptc_step_t *step = &steps[i];
    census_t inner = {0};
    switch (step->kind) {
      case PTC_STEP_LAUNCH: all.count += phases_of(&plan->kernels[step->kernel]); break;
      case PTC_STEP_COPY: all.count++; break;
      case PTC_STEP_REPEAT:
        inner = census_of(plan, step->body, step->num_steps);
        inner.count *= step->count;
        break;
      case PTC_STEP_CALL:
        inner = census_of(plan, plan->tasks[step->task].steps, plan->tasks[step->task].num_steps);
        break;
      case PTC_STEP_COLLECTIVE:
      case PTC_STEP_SEND:
      case PTC_STEP_RECV: all.exchanges = true; break;
    }
    all.count += inner.count;
    all.exchanges |= inner.exchanges;
  }
  return all;
}

const char *ptc_replay_refusal(const ptc_plan_t *plan, const ptc_task_t *task,
                               const ptc_device_t *device, ptc_replay_mode_t mode,
                               int64_t *out_count) {
  const census_t census = census_of(plan, task->steps, task->num_steps);
  *out_count = census.count;
  if (mode == PTC_REPLAY_OFF) return "it is switched off";
  if (!device) return "the plan runs on CPUs";
  // Nor could the watchdog say in which exchange a rank waits, since marks in a graph cannot be asked for.
  if (census.exchanges)
    return "the step exchanges data with other GPUs, and who waits for whom is followed from "
           "launch to launch";
  if (mode == PTC_REPLAY_AUTO && census.count > PTC_REPLAY_MOST)
    return "the step has too many launches for one graph";
  return device->no_graph(device);
}

ptc_status_t ptc_replay_run(ptc_replay_t *replay, ptc_diag_t *diag, ptc_device_t *device,
                            ptc_replay_queue_fn_t queue, void *arg) {
  if (replay->graph) return device->run_graph(device, diag, replay->graph);
  // A task that runs once is not worth it, and the first run may still allocate.
  if (replay->failed || replay->num_runs++ == 0) return queue(arg, diag);
  ptc_diag_t own;
  ptc_diag_init(&own);
  ptc_status_t status = device->begin_graph(device, &own);
  if (status == PTC_OK) {
    status = queue(arg, &own);
    const ptc_status_t ended = device->end_graph(device, &own, &replay->graph);
    if (status == PTC_OK) status = ended;
  }
  if (status != PTC_OK) {
    replay->failed = true;
    replay->graph = NULL;
    ptc_warning(diag, (ptc_loc_t){0}, "replay-failed",
                "the step could not be recorded as a graph, and is launched kernel by kernel: %s",
                own.num_items ? own.items[0].message : "no reason was given");
  }
  ptc_diag_deinit(&own);
  return status == PTC_OK ? device->run_graph(device, diag, replay->graph) : queue(arg, diag);
}
