// lower_plan: every function becomes a task. Arguments lie where their globals do; results are copied to
// buffers of their own, new states to their globals, at the task's end (memory_plan undoes what it can).
#include "passes/lower_plan.h"

#include <inttypes.h>
#include <string.h>

#include "ir/op.h"
#include "passes/lower_plan_impl.h"

static ptc_place_t *global_place(ptc_lower_t *lower, const ptc_global_t *global) {
  if (global->kind == PTC_GLOBAL_SLOT) return ptc_lower_slot(lower, global);
  const ptc_plan_global_t *entry = &lower->plan->globals[global->index];
  ptc_place_t *place = PTC_ARENA_NEW(lower->scratch, ptc_place_t);
  place->buffer = entry->buffer;
  int64_t instances = 1;
  for (int32_t c = global->type->num_counts - 1; c >= 0; --c) {
    place->instance_stride[c] = instances;
    instances *= global->type->counts[c];
  }
  return place;
}

// --- results

static bool is_global_buffer(const ptc_lower_t *lower, int32_t buffer) {
  return lower->buffers.data[buffer].cls <= PTC_BUFFER_SCALAR;
}

static const char *result_role(const ptc_result_t *result) {
  return result->kind == PTC_RESULT_GRAD ? "grad" : result->role;
}

// Buffers for the values that the function hands out; what is made at the end is made in them.
static void plan_results(ptc_lower_t *lower, const ptc_func_t *func, ptc_place_t **places) {
  const ptc_op_t *end = ptc_func_return(func);
  for (int32_t i = 0; i < func->num_results; ++i) {
    if (func->results[i].kind == PTC_RESULT_STATE) continue;
    ptc_value_t *value = end->operands[i];
    places[i] = ptc_lower_new_place(lower, value, value->type, PTC_BUFFER_RESULT);
    const ptc_result_t *result = &func->results[i];
    lower->buffers.data[places[i]->buffer].name = ptc_arena_strdup(
        lower->arena, result->kind == PTC_RESULT_GRAD ? result->global->path : result->name);
    ptc_lower_want(lower, func->body, value, places[i]);
  }
}

static ptc_status_t lower_results(ptc_lower_t *lower, const ptc_func_t *func,
                                  ptc_place_t *const *places, ptc_task_t *task,
                                  ptc_step_list_t *out) {
  const ptc_op_t *end = ptc_func_return(func);
  task->results = PTC_ARENA_ARRAY(lower->arena, ptc_plan_result_t, func->num_results);
  for (int32_t i = 0; i < func->num_results; ++i) {
    const ptc_result_t *result = &func->results[i];
    if (result->kind == PTC_RESULT_STATE) continue;
    const ptc_place_t *from = ptc_lower_place(lower, end->operands[i]);
    if (!from) return PTC_INTERNAL;
    PTC_TRY(ptc_lower_copy(lower, from, places[i], end->operands[i]->type, end->loc, out));
    const int32_t buffer = places[i]->buffer;
    task->results[task->num_results++] =
        (ptc_plan_result_t){.name = lower->buffers.data[buffer].name,
                            .role = ptc_arena_strdup(lower->arena, result_role(result)),
                            .buffer = buffer,
                            .num_instances = lower->buffers.data[buffer].num_instances};
  }
  return PTC_OK;
}

// New states. One that lies in a global itself is set aside first: that global may get a new version, too.
static ptc_status_t lower_states(ptc_lower_t *lower, const ptc_func_t *func, ptc_step_list_t *out) {
  const ptc_op_t *end = ptc_func_return(func);
  const ptc_place_t **from =
      PTC_ARENA_ARRAY(lower->scratch, const ptc_place_t *, func->num_results);
  for (int32_t i = 0; i < func->num_results; ++i) {
    if (func->results[i].kind != PTC_RESULT_STATE) continue;
    const ptc_value_t *value = end->operands[i];
    from[i] = ptc_lower_place(lower, value);
    if (!from[i]) return PTC_INTERNAL;
    const ptc_place_t *to = global_place(lower, func->results[i].global);
    if (!is_global_buffer(lower, from[i]->buffer) || ptc_lower_same_place(from[i], to, value->type))
      continue;
    ptc_place_t *aside = ptc_lower_new_place(lower, value, value->type, PTC_BUFFER_TEMP);
    PTC_TRY(ptc_lower_copy(lower, from[i], aside, value->type, end->loc, out));
    from[i] = aside;
  }
  for (int32_t i = 0; i < func->num_results; ++i)
    if (from[i])
      PTC_TRY(ptc_lower_copy(lower, from[i], global_place(lower, func->results[i].global),
                             end->operands[i]->type, end->loc, out));
  return PTC_OK;
}

// --- functions

// What is made for a slot is made there: nothing that the function reads lies in it.
static void want_slots(ptc_lower_t *lower, const ptc_func_t *func) {
  const ptc_op_t *end = ptc_func_return(func);
  for (int32_t i = 0; i < func->num_results; ++i) {
    const ptc_global_t *global = func->results[i].global;
    if (func->results[i].kind == PTC_RESULT_STATE && global->kind == PTC_GLOBAL_SLOT &&
        ptc_attrs_int(&global->attrs, "slots", 0) > 0)
      ptc_lower_want(lower, func->body, end->operands[i], global_place(lower, global));
  }
}

ptc_status_t ptc_lower_func(ptc_lower_t *lower, const ptc_func_t *func, ptc_task_t *task,
                            ptc_step_list_t *out) {
  lower->func = func;
  ptc_lower_find_grads(lower, func);
  for (int32_t i = 0; i < func->body->num_args; ++i)
    ptc_map_set(&lower->places, func->body->args[i], global_place(lower, func->arg_globals[i]));
  ptc_place_t **places = PTC_ARENA_ARRAY(lower->scratch, ptc_place_t *, func->num_results);
  plan_results(lower, func, places);
  want_slots(lower, func);
  ptc_uses_init(&lower->uses, lower->scratch, func->body);
  ptc_status_t status = ptc_lower_block(lower, func->body, out);
  ptc_uses_deinit(&lower->uses);
  if (status == PTC_OK) status = lower_results(lower, func, places, task, out);
  if (status == PTC_OK) status = lower_states(lower, func, out);
  return status;
}

int64_t ptc_lower_turns(const ptc_op_t *op) {
  int64_t turns = 1;
  for (; op; op = op->parent->parent_op)
    if (op->opcode == PTC_OP_REPEAT) turns *= ptc_op_int(op, "count");
  return turns;
}

static ptc_ledger_t *take_ledger(ptc_lower_t *lower) {
  ptc_ledger_t *ledger = PTC_ARENA_NEW(lower->arena, ptc_ledger_t);
  ledger->num_launches = (int32_t)lower->launches.len;
  ledger->launches = PTC_ARENA_ARRAY(lower->arena, ptc_launches_t, ledger->num_launches);
  for (int32_t i = 0; i < ledger->num_launches; ++i) ledger->launches[i] = lower->launches.data[i];
  ledger->num_exchanged = lower->num_exchanged;
  ledger->num_transfers = lower->num_transfers;
  lower->launches.len = 0;
  lower->num_exchanged = lower->num_transfers = 0;
  return ledger;
}

void ptc_lower_end_task(ptc_lower_t *lower, ptc_task_t *task, ptc_step_list_t *steps) {
  task->ledger = take_ledger(lower);
  task->num_steps = (int32_t)steps->len;
  task->steps = PTC_ARENA_ARRAY(lower->arena, ptc_step_t, steps->len);
  if (steps->len) memcpy(task->steps, steps->data, (size_t)steps->len * sizeof *steps->data);
  PTC_VEC_FREE(steps);
}

static ptc_status_t lower_task(ptc_lower_t *lower, const ptc_func_t *func, ptc_task_t *task) {
  ptc_step_list_t steps = {0};
  task->name = ptc_arena_strdup(lower->arena, func->name);
  const ptc_status_t status = ptc_lower_func(lower, func, task, &steps);
  ptc_lower_end_task(lower, task, &steps);
  return status;
}

static double count_flops(const ptc_plan_t *plan, const ptc_step_t *steps, int32_t count) {
  double flops = 0;
  for (int32_t i = 0; i < count; ++i) {
    if (steps[i].kind == PTC_STEP_REPEAT)
      flops += (double)steps[i].count * count_flops(plan, steps[i].body, steps[i].num_steps);
    else if (steps[i].kind == PTC_STEP_CALL)
      flops +=
          count_flops(plan, plan->tasks[steps[i].task].steps, plan->tasks[steps[i].task].num_steps);
    else if (steps[i].kind == PTC_STEP_LAUNCH)
      flops += plan->kernels[steps[i].kernel].flops;
  }
  return flops;
}

// Moves what grew into the plan's arena.
static void finish(ptc_lower_t *lower, const ptc_kernel_t *const **out_kernels) {
  ptc_plan_t *plan = lower->plan;
  plan->num_buffers = (int32_t)lower->buffers.len;
  plan->num_kernels = (int32_t)lower->kernels.len;
  plan->buffers = PTC_ARENA_ARRAY(lower->arena, ptc_buffer_t, plan->num_buffers);
  plan->kernels = PTC_ARENA_ARRAY(lower->arena, ptc_plan_kernel_t, plan->num_kernels);
  const ptc_kernel_t **bodies =
      PTC_ARENA_ARRAY(lower->arena, const ptc_kernel_t *, plan->num_kernels);
  for (int32_t i = 0; i < plan->num_buffers; ++i) plan->buffers[i] = lower->buffers.data[i];
  for (int32_t i = 0; i < plan->num_kernels; ++i) {
    plan->kernels[i] = lower->kernels.data[i];
    bodies[i] = lower->bodies.data[i];
  }
  for (int32_t t = 0; t < plan->num_tasks; ++t)
    plan->tasks[t].num_steps =
        ptc_lower_join_repeats(lower->arena, plan->tasks[t].steps, plan->tasks[t].num_steps);
  const ptc_task_t *train = ptc_plan_find_task(plan, "train");
  if (train) plan->flops_per_step = count_flops(plan, train->steps, train->num_steps);
  *out_kernels = bodies;
}

// The axes of devices become the plan's mesh and the outermost levels. All ranks have one place for a value, so that
// the levels are shared.
static ptc_status_t lower_mesh(ptc_lower_t *lower) {
  const ptc_mesh_t *mesh = &lower->module->mesh;
  const int32_t count = ptc_devices_num_axes(mesh);
  ptc_mesh_axis_t *axes = PTC_ARENA_ARRAY(lower->arena, ptc_mesh_axis_t, count);
  for (int32_t a = 0; a < mesh->num_axes; ++a) {
    const int32_t level = ptc_devices_level(mesh, mesh->axes[a].name);
    if (level < 0) continue;
    axes[level] =
        (ptc_mesh_axis_t){ptc_arena_strdup(lower->arena, mesh->axes[a].name), mesh->axes[a].size};
    PTC_TRY(ptc_lower_push(lower, NULL, axes[level].size, true, (ptc_loc_t){0}));
  }
  lower->plan->mesh = (ptc_mesh_t){axes, count};
  return ptc_plan_check_mesh(lower->diag, lower->plan);
}

static ptc_status_t lower_module(ptc_lower_t *lower) {
  int32_t num_funcs = 0;
  PTC_TRY(lower_mesh(lower));
  for (const ptc_func_t *func = lower->module->funcs; func; func = func->next) num_funcs++;
  lower->plan->model = ptc_arena_strdup(lower->arena, lower->module->name);
  lower->plan->tasks = PTC_ARENA_ARRAY(lower->arena, ptc_task_t, num_funcs);
  PTC_TRY(ptc_lower_globals(lower));
  PTC_TRY(ptc_lower_settings(lower));
  if (lower->stages) return ptc_lower_stage_tasks(lower);
  for (const ptc_func_t *func = lower->module->funcs; func; func = func->next)
    PTC_TRY(lower_task(lower, func, &lower->plan->tasks[lower->plan->num_tasks++]));
  return PTC_OK;
}

static ptc_status_t lower_all(ptc_pass_ctx_t *ctx, ptc_module_t *module, const ptc_stages_t *stages,
                              int32_t stage, ptc_plan_t **out_plan,
                              const ptc_kernel_t *const **out_kernels) {
  *out_plan = NULL;
  *out_kernels = NULL;
  ptc_plan_t *plan = ptc_plan_create();
  ptc_arena_t scratch;
  ptc_arena_init(&scratch);
  ptc_lower_t lower = {.ctx = ctx,
                       .module = module,
                       .diag = module->diag,
                       .stages = stages,
                       .plan = plan,
                       .arena = &plan->arena,
                       .scratch = &scratch};
  plan->stage = stage;
  plan->num_stages = stages ? stages->num_stages : 1;
  ptc_interner_init(&lower.keys, &scratch);
  ptc_status_t status = lower_module(&lower);
  if (status == PTC_OK) {
    finish(&lower, out_kernels);
    *out_plan = plan;
  } else {
    ptc_plan_destroy(plan);
  }
  PTC_VEC_FREE(&lower.buffers);
  PTC_VEC_FREE(&lower.kernels);
  PTC_VEC_FREE(&lower.bodies);
  PTC_VEC_FREE(&lower.launches);
  ptc_map_deinit(&lower.slots);
  ptc_map_deinit(&lower.places);
  ptc_map_deinit(&lower.wanted);
  ptc_map_deinit(&lower.grads);
  ptc_map_deinit(&lower.by_key);
  ptc_interner_deinit(&lower.keys);
  ptc_arena_deinit(&scratch);
  return status;
}

ptc_status_t ptc_lower_plan(ptc_pass_ctx_t *ctx, ptc_module_t *module, ptc_plan_t **out_plan,
                            const ptc_kernel_t *const **out_kernels) {
  return lower_all(ctx, module, NULL, 0, out_plan, out_kernels);
}

ptc_status_t ptc_lower_stage(ptc_pass_ctx_t *ctx, const ptc_stages_t *stages, int32_t stage,
                             ptc_plan_t **out_plan, const ptc_kernel_t *const **out_kernels) {
  return lower_all(ctx, stages->modules[stage], stages, stage, out_plan, out_kernels);
}
