// Events: which steps wait for which, of a plan that has its addresses.
//
// The steps are walked in the order of launching. For every step, the latest step of each other stream that touches the
// same bytes in a way that counts must be done before; where the stream's clock (ir/plan_verify_order.c) does not know
// that yet, the step waits for an event of that one. A step is one for all turns, so a wait that one turn needs happens in
// all. In a second walk, waits that never teach a clock anything are found, and dropped: those that others imply. Of the
// rest each is left out once, to see whether all is ordered without it; for plans that are not too long for that.
#include <stdlib.h>
#include <string.h>

#include "ir/base/map.h"
#include "ir/base/vec.h"
#include "ir/plan_order.h"
#include "passes/overlap.h"

enum { MAX_VISITS = 1 << 25 };  // of steps, while waits are left out one after another

// What belongs to one step of the text.
typedef struct node_s {
  ptc_step_t *step;
  int64_t clock[PTC_PLAN_MAX_STREAMS];  // when it was done last
  PTC_VEC(struct node_s *) waits;
  PTC_VEC(bool) useful;
  bool recorded;
} node_t;

typedef struct stream_s {
  int64_t clock[PTC_PLAN_MAX_STREAMS];
  ptc_touch_map_t writes, reads;
} stream_t;

typedef struct events_s {
  ptc_plan_t *plan;
  ptc_arena_t arena;
  ptc_map_t nodes;  // ptc_step_t * -> node_t *
  PTC_VEC(node_t *) all;
  int32_t num_streams;
  int64_t num_launched;  // in all tasks
  ptc_shared_spans_t shared;
  stream_t streams[PTC_PLAN_MAX_STREAMS];
} events_t;

static void add_nodes(events_t *e, ptc_step_t *steps, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    if (steps[i].kind == PTC_STEP_REPEAT) add_nodes(e, steps[i].body, steps[i].num_steps);
    if (steps[i].kind == PTC_STEP_REPEAT || steps[i].kind == PTC_STEP_CALL) continue;
    node_t *node = PTC_ARENA_NEW(&e->arena, node_t);
    node->step = &steps[i];
    ptc_map_set(&e->nodes, &steps[i], node);
    PTC_VEC_PUSH(&e->all, node);
  }
}

static void join(const events_t *e, int64_t *clock, const int64_t *other) {
  for (int32_t s = 0; s < e->num_streams; ++s)
    if (other[s] > clock[s]) clock[s] = other[s];
}

// --- what must be done before

// Per stream, the latest step that must be, or NULL.
static void find_needed(const events_t *e, const ptc_launched_t *launched,
                        const ptc_toucher_t **needed) {
  for (int32_t a = 0; a < launched->num_accesses; ++a) {
    const ptc_access_t *access = &launched->accesses[a];
    if (!ptc_shared_spans_meet(&e->shared, access->begin, access->end)) continue;
    for (int32_t s = 0; s < e->num_streams; ++s) {
      if (s == launched->step->stream) continue;
      const ptc_toucher_t *found[2] = {
          ptc_touch_map_latest(&e->streams[s].writes, access->begin, access->end),
          access->write ? ptc_touch_map_latest(&e->streams[s].reads, access->begin, access->end)
                        : NULL};
      for (int i = 0; i < 2; ++i)
        if (found[i] && (!needed[s] || found[i]->position > needed[s]->position))
          needed[s] = found[i];
    }
  }
}

static void add_wait(node_t *node, node_t *other) {
  for (int64_t w = 0; w < node->waits.len; ++w)
    if (node->waits.data[w] == other) return;
  PTC_VEC_PUSH(&node->waits, other);
}

// Waits for those that |clock| does not know, the latest ones first: they may know the others.
static void wait_for_needed(events_t *e, node_t *node, int64_t *clock,
                            const ptc_toucher_t *const *needed) {
  for (;;) {
    const ptc_toucher_t *latest = NULL;
    for (int32_t s = 0; s < e->num_streams; ++s)
      if (needed[s] && needed[s]->position > clock[s] &&
          (!latest || needed[s]->number > latest->number))
        latest = needed[s];
    if (!latest) return;
    node_t *from = ptc_map_get(&e->nodes, latest->step);
    add_wait(node, from);
    join(e, clock, from->clock);
  }
}

static void note(events_t *e, const ptc_launched_t *launched) {
  const int32_t me = launched->step->stream;
  stream_t *stream = &e->streams[me];
  for (int32_t a = 0; a < launched->num_accesses; ++a) {
    const ptc_access_t *access = &launched->accesses[a];
    if (ptc_shared_spans_meet(&e->shared, access->begin, access->end))
      ptc_touch_map_set(access->write ? &stream->writes : &stream->reads,
                        (ptc_toucher_t){access->begin, access->end, stream->clock[me],
                                        launched->number, launched->step, access->arg});
  }
}

static ptc_status_t find_waits(void *arg, const ptc_launched_t *launched) {
  events_t *e = arg;
  node_t *node = ptc_map_get(&e->nodes, launched->step);
  int64_t *clock = e->streams[launched->step->stream].clock;
  const ptc_toucher_t *needed[PTC_PLAN_MAX_STREAMS] = {0};
  for (int64_t w = 0; w < node->waits.len; ++w) join(e, clock, node->waits.data[w]->clock);
  find_needed(e, launched, needed);
  wait_for_needed(e, node, clock, needed);
  clock[launched->step->stream]++;
  memcpy(node->clock, clock, sizeof node->clock);
  note(e, launched);
  e->num_launched++;
  return PTC_OK;
}

// --- those that others imply

static bool knows(const events_t *e, const int64_t *clock, const int64_t *other) {
  bool all = true;
  for (int32_t s = 0; s < e->num_streams; ++s) all = all && clock[s] >= other[s];
  return all;
}

// As the plan will run: waits in their order, those that change nothing change nothing if they are left out.
static ptc_status_t find_useful(void *arg, const ptc_launched_t *launched) {
  events_t *e = arg;
  node_t *node = ptc_map_get(&e->nodes, launched->step);
  int64_t *clock = e->streams[launched->step->stream].clock;
  for (int64_t w = 0; w < node->waits.len; ++w) {
    const int64_t *other = node->waits.data[w]->clock;
    if (knows(e, clock, other)) continue;
    node->useful.data[w] = true;
    join(e, clock, other);
  }
  clock[launched->step->stream]++;
  memcpy(node->clock, clock, sizeof node->clock);
  return PTC_OK;
}

static void drop_useless(events_t *e) {
  for (int64_t i = 0; i < e->all.len; ++i) {
    node_t *node = e->all.data[i];
    int64_t left = 0;
    for (int64_t w = 0; w < node->waits.len; ++w)
      if (node->useful.data[w]) node->waits.data[left++] = node->waits.data[w];
    node->waits.len = left;
  }
}

// PTC_INFEASIBLE where something is not ordered.
static ptc_status_t check_order(void *arg, const ptc_launched_t *launched) {
  events_t *e = arg;
  node_t *node = ptc_map_get(&e->nodes, launched->step);
  int64_t *clock = e->streams[launched->step->stream].clock;
  const ptc_toucher_t *needed[PTC_PLAN_MAX_STREAMS] = {0};
  for (int64_t w = 0; w < node->waits.len; ++w) join(e, clock, node->waits.data[w]->clock);
  find_needed(e, launched, needed);
  for (int32_t s = 0; s < e->num_streams; ++s)
    if (needed[s] && needed[s]->position > clock[s]) return PTC_INFEASIBLE;
  clock[launched->step->stream]++;
  memcpy(node->clock, clock, sizeof node->clock);
  note(e, launched);
  return PTC_OK;
}

// --- the whole

static ptc_status_t walk_tasks(events_t *e, ptc_launched_fn_t fn) {
  for (int32_t t = 0; t < e->plan->num_tasks; ++t) {
    if (e->plan->tasks[t].num_micro > 0) continue;
    for (int64_t i = 0; i < e->all.len; ++i)
      memset(e->all.data[i]->clock, 0, sizeof e->all.data[i]->clock);
    for (int32_t s = 0; s < e->num_streams; ++s) {
      memset(e->streams[s].clock, 0, sizeof e->streams[s].clock);
      e->streams[s].writes.len = e->streams[s].reads.len = 0;
    }
    PTC_TRY(ptc_plan_walk(e->plan, &e->plan->tasks[t], fn, e));
  }
  return PTC_OK;
}

// Whether all is ordered without the wait |at|, which then stays away.
static bool leave_out(events_t *e, node_t *node, int64_t at) {
  node_t *kept = node->waits.data[at];
  memmove(&node->waits.data[at], &node->waits.data[at + 1],
          (size_t)(node->waits.len - at - 1) * sizeof kept);
  node->waits.len--;
  if (walk_tasks(e, check_order) == PTC_OK) return true;
  memmove(&node->waits.data[at + 1], &node->waits.data[at],
          (size_t)(node->waits.len - at) * sizeof kept);
  node->waits.data[at] = kept;
  node->waits.len++;
  return false;
}

static void drop_implied(events_t *e) {
  int64_t visits = 0;
  for (int64_t i = e->all.len - 1; i >= 0; --i) {
    node_t *node = e->all.data[i];
    for (int64_t w = node->waits.len - 1; w >= 0; --w) {
      visits += e->num_launched;
      if (visits > MAX_VISITS) return;
      (void)leave_out(e, node, w);
    }
  }
}

// Numbers the events in the order of the text.
static void write_events(events_t *e) {
  int32_t next = 0;
  for (int64_t i = 0; i < e->all.len; ++i) e->all.data[i]->recorded = false;
  for (int64_t i = 0; i < e->all.len; ++i)
    for (int64_t w = 0; w < e->all.data[i]->waits.len; ++w)
      e->all.data[i]->waits.data[w]->recorded = true;
  for (int64_t i = 0; i < e->all.len; ++i)
    e->all.data[i]->step->record = e->all.data[i]->recorded ? ++next : 0;
  for (int64_t i = 0; i < e->all.len; ++i) {
    node_t *node = e->all.data[i];
    int32_t *waits = PTC_ARENA_ARRAY(&e->plan->arena, int32_t, node->waits.len);
    for (int64_t w = 0; w < node->waits.len; ++w) waits[w] = node->waits.data[w]->step->record;
    node->step->waits = waits;
    node->step->num_waits = (int32_t)node->waits.len;
  }
}

static ptc_status_t place(events_t *e) {
  PTC_TRY(ptc_shared_spans_find(e->plan, &e->shared));
  PTC_TRY(walk_tasks(e, find_waits));
  for (int64_t i = 0; i < e->all.len; ++i) {
    node_t *node = e->all.data[i];
    for (int64_t w = 0; w < node->waits.len; ++w) PTC_VEC_PUSH(&node->useful, false);
  }
  PTC_TRY(walk_tasks(e, find_useful));
  drop_useless(e);
  drop_implied(e);
  write_events(e);
  return PTC_OK;
}

ptc_status_t ptc_plan_place_events(ptc_diag_t *diag, ptc_plan_t *plan) {
  const int32_t num_streams = ptc_plan_num_streams(plan);
  if (num_streams == 1) return PTC_OK;
  events_t *events = ptc_xmalloc(sizeof *events);
  *events = (events_t){.plan = plan, .num_streams = num_streams};
  ptc_arena_init(&events->arena);
  for (int32_t t = 0; t < plan->num_tasks; ++t)
    add_nodes(events, plan->tasks[t].steps, plan->tasks[t].num_steps);
  ptc_status_t status = place(events);
  if (status == PTC_UNSUPPORTED)
    status = ptc_error(diag, (ptc_loc_t){0}, PTC_UNSUPPORTED, "plan-too-long",
                       "the program has more steps, all turns counted, than can be ordered by "
                       "events; compile with overlap=off");
  for (int64_t i = 0; i < events->all.len; ++i) {
    PTC_VEC_FREE(&events->all.data[i]->waits);
    PTC_VEC_FREE(&events->all.data[i]->useful);
  }
  for (int32_t s = 0; s < num_streams; ++s) {
    ptc_touch_map_deinit(&events->streams[s].writes);
    ptc_touch_map_deinit(&events->streams[s].reads);
  }
  ptc_shared_spans_deinit(&events->shared);
  PTC_VEC_FREE(&events->all);
  ptc_map_deinit(&events->nodes);
  ptc_arena_deinit(&events->arena);
  free(events);
  return status;
}
