// Plans as data: creation, look-ups, affine numbers.
#include "ir/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *ptc_buffer_class_name(ptc_buffer_class_t cls) {
  static const char *const names[] = {
#define CLASS_NAME(id, text) text,
      PTC_BUFFER_CLASSES(CLASS_NAME)
#undef CLASS_NAME
  };
  return names[cls];
}

const char *ptc_collective_name(ptc_collective_kind_t kind) {
  static const char *const names[] = {
#define COLLECTIVE_NAME(id, text) text,
      PTC_COLLECTIVES(COLLECTIVE_NAME)
#undef COLLECTIVE_NAME
  };
  return names[kind];
}

bool ptc_plan_target_is_cuda(const char *target) {
  const char *digits = NULL;
  if (target && strncmp(target, "sm_", 3) == 0) digits = target + 3;
  if (target && strncmp(target, "compute_", 8) == 0) digits = target + 8;
  if (!digits) return false;
  const size_t len = strspn(digits, "0123456789");
  return len >= 2 && len <= 3 && (!digits[len] || strcmp(digits + len, "a") == 0);
}

ptc_plan_t *ptc_plan_create(void) {
  ptc_plan_t *plan = ptc_xmalloc(sizeof *plan);
  memset(plan, 0, sizeof *plan);
  ptc_arena_init(&plan->arena);
  plan->arena_bytes = -1;
  plan->num_stages = 1;
  plan->model = plan->target = plan->compiler_flags = "";
  return plan;
}

void ptc_plan_destroy(ptc_plan_t *plan) {
  if (!plan) return;
  ptc_arena_deinit(&plan->arena);
  free(plan);
}

const ptc_task_t *ptc_plan_find_task(const ptc_plan_t *plan, const char *name) {
  for (int32_t i = 0; i < plan->num_tasks; ++i)
    if (strcmp(plan->tasks[i].name, name) == 0) return &plan->tasks[i];
  return NULL;
}

const ptc_plan_global_t *ptc_plan_find_global(const ptc_plan_t *plan, const char *path) {
  for (int32_t i = 0; i < plan->num_globals; ++i)
    if (strcmp(plan->globals[i].path, path) == 0) return &plan->globals[i];
  return NULL;
}

static bool is_grad_of(const ptc_plan_result_t *result, const char *path) {
  return strcmp(result->role, "grad") == 0 && strcmp(result->name, path) == 0;
}

const ptc_plan_global_t *ptc_plan_grad_of(const ptc_plan_t *plan, const ptc_task_t *task,
                                          int32_t result) {
  const char *path = task->results[result].name;
  if (!is_grad_of(&task->results[result], path)) return NULL;
  int32_t earlier = 0;
  for (int32_t r = 0; r < result; ++r) earlier += is_grad_of(&task->results[r], path);
  for (int32_t i = 0; i < plan->num_globals; ++i) {
    const ptc_plan_global_t *global = &plan->globals[i];
    if (strcmp(global->kind, "param") == 0 && strcmp(global->path, path) == 0 && earlier-- == 0)
      return global;
  }
  return NULL;
}

int64_t ptc_affine_at(const ptc_affine_t *affine, const int64_t *turns) {
  int64_t value = affine->base;
  for (int32_t l = 0; l < PTC_PLAN_MAX_LEVELS; ++l)
    if (affine->coef[l]) value += affine->coef[l] * turns[l];
  return value;
}

void ptc_plan_instance_path(const ptc_plan_global_t *global, int64_t i, ptc_str_t *out) {
  int64_t turns[PTC_MAX_COUNTS];
  for (int32_t c = global->num_counts - 1; c >= 0; --c) {
    turns[c] = global->first[c] + i % global->counts[c] * global->step[c];
    i /= global->counts[c];
  }
  int32_t star = 0;
  for (const char *c = global->path; *c; ++c) {
    if (*c == '*' && star < global->num_counts)
      ptc_str_printf(out, "%" PRId64, turns[star++]);
    else
      ptc_str_append_n(out, c, 1);
  }
}

// --- the order of launching

void ptc_repeat_trips(const ptc_step_t *repeat, int64_t *out_first, int64_t *out_end) {
  *out_first = 0;
  *out_end = repeat->count;
  for (int32_t i = 0; i < repeat->num_steps; ++i) {
    const int64_t ahead = repeat->body[i].ahead;
    if (-ahead < *out_first) *out_first = -ahead;
    if (repeat->count - ahead > *out_end) *out_end = repeat->count - ahead;
  }
}

bool ptc_repeat_turn(const ptc_step_t *repeat, const ptc_step_t *step, int64_t trip,
                     int64_t *out_turn) {
  if (!repeat) return true;
  const int64_t at = trip + step->ahead;
  if (at < 0 || at >= repeat->count) return false;
  *out_turn = repeat->reverse ? repeat->count - 1 - at : at;
  return true;
}

// The largest numbers of a stream and an event.
static void find_largest(const ptc_step_t *steps, int32_t count, int32_t *stream, int32_t *event) {
  for (int32_t i = 0; i < count; ++i) {
    const ptc_step_t *step = &steps[i];
    if (step->kind == PTC_STEP_REPEAT) find_largest(step->body, step->num_steps, stream, event);
    if (step->stream > *stream) *stream = step->stream;
    if (step->record > *event) *event = step->record;
    for (int32_t w = 0; w < step->num_waits; ++w)
      if (step->waits[w] > *event) *event = step->waits[w];
  }
}

int32_t ptc_plan_num_streams(const ptc_plan_t *plan) {
  int32_t stream = 0, event = 0;
  for (int32_t t = 0; t < plan->num_tasks; ++t)
    find_largest(plan->tasks[t].steps, plan->tasks[t].num_steps, &stream, &event);
  return stream + 1;
}

int32_t ptc_plan_num_events(const ptc_plan_t *plan) {
  int32_t stream = 0, event = 0;
  for (int32_t t = 0; t < plan->num_tasks; ++t)
    find_largest(plan->tasks[t].steps, plan->tasks[t].num_steps, &stream, &event);
  return event;
}
