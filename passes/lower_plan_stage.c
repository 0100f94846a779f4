// The tasks of a stage of a pipeline: a task per function for a micro-batch, and "train" and "eval", which call them in
// the order of the schedule between what comes before and after. Slots are buffers like others, so that memory_plan
// places their instances by when they live.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ir/op.h"
#include "passes/devices.h"
#include "passes/lower_plan_impl.h"

// --- slots

static int64_t count_instances(const ptc_global_t *global) {
  const int64_t slots = ptc_attrs_int(&global->attrs, "slots", 1);
  return slots * ptc_type_num_instances(global->type);
}

static int32_t buffer_of(ptc_lower_t *lower, const ptc_global_t *global) {
  const intptr_t known = (intptr_t)ptc_map_get(&lower->slots, global);
  if (known) return (int32_t)known - 1;
  const bool kept = ptc_attrs_find(&global->attrs, "slots") != NULL;
  const ptc_buffer_class_t cls = kept                                            ? PTC_BUFFER_SAVED
                                 : ptc_attrs_bool(&global->attrs, "grad", false) ? PTC_BUFFER_GRAD
                                                                                 : PTC_BUFFER_TEMP;
  const int32_t buffer = ptc_lower_new_buffer(lower, global->path, global->type, cls,
                                              count_instances(global), global->loc);
  ptc_map_set(&lower->slots, global, (void *)(intptr_t)(buffer + 1));
  return buffer;
}

ptc_place_t *ptc_lower_slot(ptc_lower_t *lower, const ptc_global_t *global) {
  const ptc_type_t *type = ptc_global_type_in(global, lower->func);
  const int64_t slots = ptc_attrs_int(&global->attrs, "slots", 0);
  ptc_place_t *place = PTC_ARENA_NEW(lower->scratch, ptc_place_t);
  place->buffer = buffer_of(lower, global);
  int64_t instances = 1;
  for (int32_t c = type->num_counts - 1; c >= 0; --c) {
    place->instance_stride[c] = instances;
    instances *= type->counts[c];
  }
  if (!lower->func->each_micro || slots < 2) return place;
  // As many slots as micro-batches: each has its own.
  const int32_t micro = ptc_devices_num_axes(&lower->module->mesh);
  place->instance.coef[slots == lower->levels[micro].count ? micro : micro + 1] = instances;
  return place;
}

// --- transfers

ptc_status_t ptc_lower_transfer(ptc_lower_t *lower, ptc_op_t *op, ptc_step_list_t *out) {
  const bool sends = op->opcode == PTC_OP_SEND;
  ptc_value_t *value = sends ? op->operands[0] : op->results[0];
  const ptc_place_t *place = sends ? ptc_lower_place(lower, value) : NULL;
  if (!sends) {
    place = ptc_map_get(&lower->wanted, value);
    if (!place) place = ptc_lower_new_place(lower, value, value->type, PTC_BUFFER_TEMP);
    ptc_map_set(&lower->places, value, (void *)place);
  }
  if (!place) return PTC_INTERNAL;
  const ptc_type_t *type = value->type;
  ptc_step_t step = {.kind = sends ? PTC_STEP_SEND : PTC_STEP_RECV,
                     .num_args = 1,
                     .peer = (int32_t)ptc_op_int(op, sends ? "to" : "from"),
                     .tag = (int32_t)ptc_op_int(op, "tag")};
  step.args = PTC_ARENA_ARRAY(lower->arena, ptc_ref_t, 1);
  step.args[0] = ptc_lower_ref(place, type, lower->depth, ptc_lower_bytes(lower, type));
  int64_t turns = ptc_lower_turns(op);
  for (int32_t c = 0; c < type->num_counts; ++c) turns *= type->counts[c];
  lower->num_transfers += turns;
  // Of a bundle, one instance after another.
  ptc_step_list_t steps[PTC_MAX_COUNTS + 1] = {0};
  for (int32_t c = 0; c < type->num_counts; ++c)
    PTC_TRY(ptc_lower_push(lower, NULL, type->counts[c], false, op->loc));
  PTC_VEC_PUSH(type->num_counts ? &steps[type->num_counts] : out, step);
  for (int32_t c = type->num_counts - 1; c >= 0; --c)
    ptc_lower_pop(lower, false, &steps[c + 1], c ? &steps[c] : out);
  return PTC_OK;
}

// --- tasks

typedef struct stage_tasks_s {
  ptc_lower_t *lower;
  bool train;
  const ptc_schedule_t *schedule;
  int32_t *numbers;  // of kind and chunk: the task + 1, or 0
} stage_tasks_t;

static int32_t *number_of(const stage_tasks_t *t, ptc_work_kind_t kind, int32_t chunk) {
  return &t->numbers[(int32_t)kind * t->schedule->num_chunks + chunk];
}

static ptc_task_t *add_task(ptc_lower_t *lower, const char *name) {
  ptc_task_t *task = &lower->plan->tasks[lower->plan->num_tasks++];
  task->name = ptc_arena_strdup(lower->arena, name);
  return task;
}

// A function for one micro-batch.
static ptc_status_t lower_part(const stage_tasks_t *t, ptc_work_kind_t kind, int32_t chunk) {
  ptc_lower_t *lower = t->lower;
  char name[40];
  ptc_stage_func_name(t->train, kind, chunk, name);
  const ptc_func_t *func = ptc_module_find_func(lower->module, name);
  if (!func) return PTC_OK;
  ptc_task_t *task = add_task(lower, name);
  task->num_micro = t->schedule->num_micro;
  task->num_slots = ptc_schedule_num_slots(t->schedule, lower->plan->stage, chunk);
  *number_of(t, kind, chunk) = lower->plan->num_tasks;
  PTC_TRY(ptc_lower_push(lower, NULL, task->num_micro, true, func->loc));
  PTC_TRY(ptc_lower_push(lower, NULL, task->num_slots, true, func->loc));
  ptc_step_list_t steps = {0};
  const ptc_status_t status = ptc_lower_func(lower, func, task, &steps);
  lower->depth -= 2;
  ptc_lower_end_task(lower, task, &steps);
  return status;
}

static ptc_status_t lower_whole(const stage_tasks_t *t, const char *name) {
  ptc_lower_t *lower = t->lower;
  char begin[40], end[40];
  snprintf(begin, sizeof begin, "%s.begin", name);
  snprintf(end, sizeof end, "%s.end", name);
  ptc_task_t *task = add_task(lower, name);
  ptc_step_list_t steps = {0};
  ptc_task_t none = {0};
  PTC_TRY(ptc_lower_func(lower, ptc_module_find_func(lower->module, begin), &none, &steps));
  const ptc_stage_order_t *order = &t->schedule->stages[lower->plan->stage];
  for (int32_t i = 0; i < order->count; ++i) {
    const ptc_schedule_work_t *work = &order->work[i];
    const int32_t number = *number_of(t, work->kind, work->chunk) - 1;
    if (number < 0 || lower->plan->tasks[number].num_steps == 0) continue;
    const ptc_step_t call = {.kind = PTC_STEP_CALL,
                             .task = number,
                             .micro = work->micro,
                             .slot = work->micro % lower->plan->tasks[number].num_slots};
    PTC_VEC_PUSH(&steps, call);
  }
  const ptc_status_t status =
      ptc_lower_func(lower, ptc_module_find_func(lower->module, end), task, &steps);
  ptc_lower_end_task(lower, task, &steps);
  return status;
}

static ptc_status_t lower_tasks(ptc_lower_t *lower, bool train) {
  const char *name = train ? "train" : "eval";
  stage_tasks_t t = {.lower = lower,
                     .train = train,
                     .schedule = train ? lower->stages->train : lower->stages->eval};
  char end[40];
  snprintf(end, sizeof end, "%s.end", name);
  if (!ptc_module_find_func(lower->module, end)) return PTC_OK;
  t.numbers = PTC_ARENA_ARRAY(lower->scratch, int32_t,
                              (int64_t)PTC_NUM_WORK_KINDS * t.schedule->num_chunks);
  for (int32_t chunk = 0; chunk < t.schedule->num_chunks; ++chunk)
    for (int32_t kind = 0; kind < PTC_NUM_WORK_KINDS; ++kind)
      PTC_TRY(lower_part(&t, (ptc_work_kind_t)kind, chunk));
  return lower_whole(&t, name);
}

ptc_status_t ptc_lower_stage_tasks(ptc_lower_t *lower) {
  const ptc_func_t *init = ptc_module_find_func(lower->module, "init");
  PTC_TRY(lower_tasks(lower, true));
  PTC_TRY(lower_tasks(lower, false));
  if (!init) return PTC_OK;
  ptc_step_list_t steps = {0};
  ptc_task_t *task = add_task(lower, "init");
  const ptc_status_t status = ptc_lower_func(lower, init, task, &steps);
  ptc_lower_end_task(lower, task, &steps);
  return status;
}
