// Launch shapes: known once codegen has printed the kernels.
#include "passes/lower_plan_impl.h"

static const char *const byte_dim[] = {"byte"};

// A buffer for the workspace of one step; it is written before it is read, so that all turns share it.
static ptc_buffer_t workspace_buffer(ptc_plan_t *plan, const ptc_plan_kernel_t *kernel) {
  int64_t *extents = PTC_ARENA_ARRAY(&plan->arena, int64_t, 1);
  int64_t *offsets = PTC_ARENA_ARRAY(&plan->arena, int64_t, 1);
  extents[0] = kernel->workspace_bytes;
  offsets[0] = -1;
  return (ptc_buffer_t){.name = kernel->name,
                        .cls = PTC_BUFFER_WORKSPACE,
                        .dtype = PTC_BOOL,
                        .num_dims = 1,
                        .dim_names = byte_dim,
                        .extents = extents,
                        .num_instances = 1,
                        .bytes = kernel->workspace_bytes,
                        .offsets = offsets,
                        .loc_file = kernel->loc_file,
                        .loc_line = kernel->loc_line};
}

static int32_t count_launches(const ptc_step_t *steps, int32_t count, int32_t kernel) {
  int32_t total = 0;
  for (int32_t i = 0; i < count; ++i) {
    if (steps[i].kind == PTC_STEP_REPEAT)
      total += count_launches(steps[i].body, steps[i].num_steps, kernel);
    total += steps[i].kind == PTC_STEP_LAUNCH && steps[i].kernel == kernel;
  }
  return total;
}

// |plan->buffers| has room.
static void add_workspaces(ptc_plan_t *plan, ptc_step_t *steps, int32_t count, int32_t kernel) {
  for (int32_t i = 0; i < count; ++i) {
    ptc_step_t *step = &steps[i];
    if (step->kind == PTC_STEP_REPEAT) add_workspaces(plan, step->body, step->num_steps, kernel);
    if (step->kind != PTC_STEP_LAUNCH || step->kernel != kernel) continue;
    ptc_ref_t *args = PTC_ARENA_ARRAY(&plan->arena, ptc_ref_t, step->num_args + 1);
    for (int32_t a = 0; a < step->num_args; ++a) args[a] = step->args[a];
    args[step->num_args++] =
        (ptc_ref_t){.buffer = plan->num_buffers, .bytes = plan->kernels[kernel].workspace_bytes};
    step->args = args;
    plan->buffers[plan->num_buffers++] = workspace_buffer(plan, &plan->kernels[kernel]);
  }
}

void ptc_plan_set_shape(ptc_plan_t *plan, int32_t kernel, int32_t num_runs,
                        const ptc_phase_run_t *runs, int64_t workspace_bytes,
                        int64_t scratch_bytes) {
  ptc_plan_kernel_t *entry = &plan->kernels[kernel];
  ptc_phase_run_t *kept = PTC_ARENA_ARRAY(&plan->arena, ptc_phase_run_t, num_runs);
  for (int32_t r = 0; r < num_runs; ++r) {
    int64_t *tiles = PTC_ARENA_ARRAY(&plan->arena, int64_t, runs[r].num_phases);
    for (int32_t p = 0; p < runs[r].num_phases; ++p) tiles[p] = runs[r].tiles[p];
    kept[r] = (ptc_phase_run_t){runs[r].count, runs[r].num_phases, tiles};
  }
  entry->num_runs = num_runs;
  entry->runs = kept;
  entry->workspace_bytes = workspace_bytes;
  entry->scratch_bytes = scratch_bytes;
  if (workspace_bytes <= 0) return;
  int32_t launches = 0;
  for (int32_t i = 0; i < plan->num_tasks; ++i)
    launches += count_launches(plan->tasks[i].steps, plan->tasks[i].num_steps, kernel);
  ptc_buffer_t *buffers = PTC_ARENA_ARRAY(&plan->arena, ptc_buffer_t, plan->num_buffers + launches);
  for (int32_t i = 0; i < plan->num_buffers; ++i) buffers[i] = plan->buffers[i];
  plan->buffers = buffers;
  for (int32_t i = 0; i < plan->num_tasks; ++i)
    add_workspaces(plan, plan->tasks[i].steps, plan->tasks[i].num_steps, kernel);
}
