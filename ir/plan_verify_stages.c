// Replays what the stages of a pipeline do with each other: a send waits for its receive, a collective for all of its
// members. It does so in the order of launching: streams and events leave each rank fewer constraints than that order, so
// that a circle of waits that they have is one of that order, too. One rank of each stage stands for all of its ranks, which run the same steps: coordinates change addresses
// and members, not steps, so that a collective within a stage is met by all.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ir/plan_order.h"

enum { MAX_EVENTS = 1 << 22 };

// A step that other stages take part in.
typedef struct event_s {
  const ptc_step_t *step;
  int64_t number;  // of the step in the order of execution
} event_t;

typedef struct actor_s {
  const ptc_plan_t *plan;
  event_t *events;
  int64_t len, cap, at;
  int64_t num_steps;
} actor_t;

typedef struct meeting_s {
  ptc_diag_t *diag;
  actor_t *actors;
  int32_t count;
  const char *task;
} meeting_t;

// --- events

static bool spans_stages(const ptc_plan_t *plan, const ptc_collective_t *collective) {
  for (int32_t i = 0; plan->num_stages > 1 && i < collective->num_axes; ++i)
    if (collective->axes[i].axis == plan->mesh.axes[0].name) return true;
  return false;
}

static ptc_status_t add_event(ptc_diag_t *diag, actor_t *actor, const ptc_step_t *step) {
  if (actor->len == MAX_EVENTS)
    return ptc_error(diag, (ptc_loc_t){actor->plan->steps_file, step->line, 1}, PTC_INVALID_INPUT,
                     "plan-limit", "a stage exchanges more than %d messages", MAX_EVENTS);
  if (actor->len == actor->cap) {
    actor->cap = actor->cap ? 2 * actor->cap : 64;
    actor->events = ptc_xrealloc(actor->events, (size_t)actor->cap * sizeof *actor->events);
  }
  actor->events[actor->len++] = (event_t){step, actor->num_steps};
  return PTC_OK;
}

// Whether anything in |steps| concerns other stages: what does not is counted, not walked.
static bool concerns_others(const ptc_plan_t *plan, const ptc_step_t *steps, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    const ptc_step_t *step = &steps[i];
    if (step->kind == PTC_STEP_SEND || step->kind == PTC_STEP_RECV) return true;
    if (step->kind == PTC_STEP_COLLECTIVE && spans_stages(plan, step->collective)) return true;
    if (step->kind == PTC_STEP_REPEAT && concerns_others(plan, step->body, step->num_steps))
      return true;
    if (step->kind == PTC_STEP_CALL &&
        concerns_others(plan, plan->tasks[step->task].steps, plan->tasks[step->task].num_steps))
      return true;
  }
  return false;
}

// |repeat|: whose trip |trip| they are, or NULL.
static ptc_status_t collect(ptc_diag_t *diag, actor_t *actor, const ptc_step_t *steps,
                            int32_t count, const ptc_step_t *repeat, int64_t trip) {
  const ptc_plan_t *plan = actor->plan;
  for (int32_t i = 0; i < count; ++i) {
    const ptc_step_t *step = &steps[i];
    int64_t turn;
    if (!ptc_repeat_turn(repeat, step, trip, &turn)) continue;
    actor->num_steps++;
    if (step->kind == PTC_STEP_SEND || step->kind == PTC_STEP_RECV)
      PTC_TRY(add_event(diag, actor, step));
    if (step->kind == PTC_STEP_COLLECTIVE && spans_stages(plan, step->collective))
      PTC_TRY(add_event(diag, actor, step));
    if (step->kind == PTC_STEP_CALL)
      PTC_TRY(collect(diag, actor, plan->tasks[step->task].steps, plan->tasks[step->task].num_steps,
                      NULL, 0));
    if (step->kind == PTC_STEP_REPEAT && concerns_others(plan, step->body, step->num_steps)) {
      int64_t next, end;
      for (ptc_repeat_trips(step, &next, &end); next < end; ++next)
        PTC_TRY(collect(diag, actor, step->body, step->num_steps, step, next));
    }
  }
  return PTC_OK;
}

// --- who waits for whom

static const event_t *head(const actor_t *actor) {
  return actor->at < actor->len ? &actor->events[actor->at] : NULL;
}

// "stage 1 at step 17 (model.ptm:12, line 40) in recv of "x" (tag 3) from stage 0".
static const char *describe(const meeting_t *m, ptc_arena_t *arena, int32_t stage) {
  const actor_t *actor = &m->actors[stage];
  const event_t *event = head(actor);
  if (!event) return ptc_arena_printf(arena, "stage %" PRId32 ", which has ended", stage);
  const ptc_step_t *step = event->step;
  const char *what;
  if (step->kind == PTC_STEP_COLLECTIVE)
    what = ptc_arena_printf(arena, "%s over pp", ptc_collective_name(step->collective->kind));
  else
    what = ptc_arena_printf(arena, "%s of \"%s\" (tag %" PRId32 ") %s stage %" PRId32,
                            step->kind == PTC_STEP_SEND ? "send" : "recv",
                            actor->plan->buffers[step->args[0].buffer].name, step->tag,
                            step->kind == PTC_STEP_SEND ? "to" : "from", step->peer);
  return ptc_arena_printf(arena, "stage %" PRId32 " at step %" PRId64 " (%sline %" PRId32 ") in %s",
                          stage, event->number, ptc_plan_step_origin(actor->plan, arena, step),
                          step->line, what);
}

// The stage that |stage| waits for; of a collective, the first member that is elsewhere.
static int32_t waits_for(const meeting_t *m, int32_t stage) {
  const ptc_step_t *step = head(&m->actors[stage])->step;
  if (step->kind != PTC_STEP_COLLECTIVE) return step->peer;
  for (int32_t s = 0; s < m->count; ++s) {
    const event_t *other = head(&m->actors[s]);
    if (!other || other->step->kind != PTC_STEP_COLLECTIVE) return s;
  }
  return stage;
}

static ptc_status_t deadlock(meeting_t *m) {
  int32_t stage = 0;
  while (!head(&m->actors[stage])) ++stage;
  const event_t *first = head(&m->actors[stage]);
  ptc_arena_t arena = {0};
  ptc_str_t chain = {0};
  bool *seen = ptc_xmalloc((size_t)m->count);
  memset(seen, 0, (size_t)m->count);
  const ptc_loc_t loc = {m->actors[stage].plan->steps_file, first->step->line, 1};
  ptc_str_append(&chain, describe(m, &arena, stage));
  while (!seen[stage] && head(&m->actors[stage])) {
    seen[stage] = true;
    stage = waits_for(m, stage);
    ptc_str_printf(&chain, ", which waits for %s", describe(m, &arena, stage));
  }
  const ptc_status_t status = ptc_error(m->diag, loc, PTC_INVALID_INPUT, "plan-deadlock",
                                        "task \"%s\" does not end: %s", m->task, chain.data);
  free(seen);
  ptc_str_deinit(&chain);
  ptc_arena_deinit(&arena);
  return status;
}

static ptc_status_t differ(meeting_t *m, int32_t stage, int32_t other, const char *what) {
  ptc_arena_t arena = {0};
  const ptc_loc_t loc = {m->actors[stage].plan->steps_file, head(&m->actors[stage])->step->line, 1};
  const ptc_status_t status =
      ptc_error(m->diag, loc, PTC_INVALID_INPUT, "plan-transfer", "task \"%s\": %s and %s have %s",
                m->task, describe(m, &arena, stage), describe(m, &arena, other), what);
  ptc_arena_deinit(&arena);
  return status;
}

// --- meeting

static bool same_parts(const ptc_step_t *a, const ptc_step_t *b) {
  const ptc_collective_t *x = a->collective, *y = b->collective;
  bool same = x->kind == y->kind && x->dtype == y->dtype && x->num_parts == y->num_parts &&
              x->num_axes == y->num_axes && x->reduce == y->reduce;
  for (int32_t i = 0; same && i < x->num_axes; ++i)
    same = strcmp(x->axes[i].axis, y->axes[i].axis) == 0 && x->axes[i].pre == y->axes[i].pre &&
           x->axes[i].size == y->axes[i].size;
  for (int32_t p = 0; same && p < x->num_parts; ++p)
    same = a->args[2 * p].bytes == b->args[2 * p].bytes &&
           a->args[2 * p + 1].bytes == b->args[2 * p + 1].bytes;
  return same;
}

// A collective over the stages happens when all of them are at one.
static ptc_status_t meet_all(meeting_t *m, bool *out_moved) {
  for (int32_t s = 0; s < m->count; ++s) {
    const event_t *event = head(&m->actors[s]);
    if (!event || event->step->kind != PTC_STEP_COLLECTIVE) return PTC_OK;
  }
  for (int32_t s = 1; s < m->count; ++s)
    if (!same_parts(head(&m->actors[0])->step, head(&m->actors[s])->step))
      return differ(m, 0, s, "other kinds, axes or sizes");
  for (int32_t s = 0; s < m->count; ++s) m->actors[s].at++;
  *out_moved = true;
  return PTC_OK;
}

static ptc_status_t meet_two(meeting_t *m, int32_t stage, bool *out_moved) {
  const event_t *event = head(&m->actors[stage]);
  if (!event || event->step->kind != PTC_STEP_SEND) return PTC_OK;
  const ptc_step_t *send = event->step;
  if (send->peer < 0 || send->peer >= m->count || send->peer == stage) return PTC_OK;
  const event_t *other = head(&m->actors[send->peer]);
  if (!other || other->step->kind != PTC_STEP_RECV || other->step->peer != stage ||
      other->step->tag != send->tag)
    return PTC_OK;
  if (other->step->args[0].bytes != send->args[0].bytes)
    return differ(m, stage, send->peer, "other numbers of bytes");
  m->actors[stage].at++;
  m->actors[send->peer].at++;
  *out_moved = true;
  return PTC_OK;
}

static ptc_status_t run_task(meeting_t *m, const char *name) {
  m->task = name;
  for (int32_t s = 0; s < m->count; ++s) {
    actor_t *actor = &m->actors[s];
    const ptc_task_t *task = ptc_plan_find_task(actor->plan, name);
    actor->at = actor->len = actor->num_steps = 0;
    if (!task)
      return ptc_error(m->diag, (ptc_loc_t){actor->plan->json_file, 1, 1}, PTC_INVALID_INPUT,
                       "plan-stages", "stage %" PRId32 " lacks the task \"%s\" of stage 0", s,
                       name);
    PTC_TRY(collect(m->diag, actor, task->steps, task->num_steps, NULL, 0));
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (int32_t s = 0; s < m->count; ++s) PTC_TRY(meet_two(m, s, &moved));
    PTC_TRY(meet_all(m, &moved));
  }
  for (int32_t s = 0; s < m->count; ++s)
    if (head(&m->actors[s])) return deadlock(m);
  return PTC_OK;
}

static bool same_mesh(const ptc_mesh_t *a, const ptc_mesh_t *b) {
  bool same = a->num_axes == b->num_axes;
  for (int32_t i = 0; same && i < a->num_axes; ++i)
    same = strcmp(a->axes[i].name, b->axes[i].name) == 0 && a->axes[i].size == b->axes[i].size;
  return same;
}

ptc_status_t ptc_plan_verify_stages(ptc_diag_t *diag, const ptc_plan_t *const *stages,
                                    int32_t num_stages) {
  for (int32_t s = 0; s < num_stages; ++s) {
    const int32_t counted = stages[s]->num_stages > 1 ? stages[s]->num_stages : 1;
    if (counted != num_stages || stages[s]->stage != s ||
        strcmp(stages[s]->model, stages[0]->model) != 0 ||
        !same_mesh(&stages[s]->mesh, &stages[0]->mesh))
      return ptc_error(diag, (ptc_loc_t){stages[s]->json_file, 1, 1}, PTC_INVALID_INPUT,
                       "plan-stages",
                       "this is no plan of stage %" PRId32 " of %" PRId32
                       " of the model and mesh of stage 0; compile the plan again",
                       s, num_stages);
  }
  meeting_t m = {.diag = diag, .count = num_stages};
  m.actors = ptc_xmalloc((size_t)num_stages * sizeof *m.actors);
  for (int32_t s = 0; s < num_stages; ++s) m.actors[s] = (actor_t){.plan = stages[s]};
  ptc_status_t status = PTC_OK;
  for (int32_t t = 0; t < stages[0]->num_tasks && status == PTC_OK; ++t)
    if (stages[0]->tasks[t].num_micro == 0) status = run_task(&m, stages[0]->tasks[t].name);
  for (int32_t s = 0; s < num_stages; ++s) free(m.actors[s].events);
  free(m.actors);
  return status;
}
