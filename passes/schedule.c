// Pipeline schedules: the order of tasks per kind, their simulated times, and where transfers go.
#include "passes/schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/vec.h"
#include "passes/schedule_order.h"

const char *ptc_schedule_name(ptc_schedule_kind_t kind) {
  static const char *const names[] = {
#define PTC_SCHEDULE_TEXT(id, text) text,
      PTC_SCHEDULES(PTC_SCHEDULE_TEXT)
#undef PTC_SCHEDULE_TEXT
  };
  return names[kind];
}

bool ptc_schedule_parse(const char *name, ptc_schedule_kind_t *out_kind) {
  for (int32_t k = 0; k < PTC_NUM_SCHEDULES; k++)
    if (strcmp(name, ptc_schedule_name((ptc_schedule_kind_t)k)) == 0) {
      *out_kind = (ptc_schedule_kind_t)k;
      return true;
    }
  return false;
}

const char *ptc_work_name(ptc_work_kind_t kind) {
  static const char *const names[PTC_NUM_WORK_KINDS] = {"F",      "B",      "W",     "SEND_F",
                                                        "RECV_F", "SEND_B", "RECV_B"};
  return names[kind];
}

// --- the order of tasks

typedef PTC_VEC(ptc_schedule_work_t) work_list_t;

typedef struct maker_s {
  ptc_schedule_t *schedule;
  ptc_schedule_costs_t costs;
  work_list_t *lists;  // per stage
  double *done[3];     // end of F, B, W by [part * num_micro + micro]; negative: not yet
} maker_t;

static void order_stage(maker_t *m, int32_t stage, int32_t more) {
  const ptc_schedule_t *s = m->schedule;
  ptc_stage_walk_t walk =
      ptc_stage_walk(s->kind, s->forward, s->num_stages, s->num_chunks, s->num_micro, stage, more);
  m->lists[stage].len = 0;
  ptc_task_t task;
  while (ptc_stage_walk_next(&walk, &task))
    PTC_VEC_PUSH(
        &m->lists[stage],
        ((ptc_schedule_work_t){.kind = task.kind, .chunk = task.chunk, .micro = task.micro}));
}

// --- simulated times

static double *done_at(const maker_t *m, ptc_work_kind_t kind, int32_t part, int32_t micro) {
  return &m->done[kind][part * m->schedule->num_micro + micro];
}

static double cost_of(const maker_t *m, ptc_work_kind_t kind) {
  if (kind == PTC_WORK_F) return m->costs.f;
  if (kind == PTC_WORK_W) return m->costs.w;
  return m->schedule->split_w ? m->costs.b : m->costs.b + m->costs.w;
}

static void need(const maker_t *m, ptc_work_kind_t kind, int32_t part, int32_t micro, double more,
                 double *ready) {
  const double done = *done_at(m, kind, part, micro);
  if (done < 0)
    *ready = INFINITY;
  else
    *ready = fmax(*ready, done + more);
}

// When what |work| of |stage| takes is there; infinite: not yet known.
static double ready_at(const maker_t *m, int32_t stage, const ptc_schedule_work_t *work) {
  const int32_t num_parts = m->schedule->num_stages * m->schedule->num_chunks;
  const int32_t part = work->chunk * m->schedule->num_stages + stage;
  const double transfer = m->costs.transfer;
  double ready = 0;
  if (work->kind == PTC_WORK_F && part > 0)
    need(m, PTC_WORK_F, part - 1, work->micro, transfer, &ready);
  if (work->kind == PTC_WORK_B) need(m, PTC_WORK_F, part, work->micro, 0, &ready);
  if (work->kind == PTC_WORK_B && part + 1 < num_parts)
    need(m, PTC_WORK_B, part + 1, work->micro, transfer, &ready);
  if (work->kind == PTC_WORK_W) need(m, PTC_WORK_B, part, work->micro, 0, &ready);
  return ready;
}

// Every task as early as the order of its stage allows. False if some never can.
static bool simulate(maker_t *m) {
  ptc_schedule_t *s = m->schedule;
  const int64_t count = (int64_t)s->num_stages * s->num_chunks * s->num_micro;
  for (int32_t k = 0; k < 3; k++)
    for (int64_t i = 0; i < count; i++) m->done[k][i] = -1;
  int64_t *next = ptc_xmalloc((size_t)s->num_stages * sizeof(*next));
  memset(next, 0, (size_t)s->num_stages * sizeof(*next));
  s->makespan = 0;
  int64_t left = 0;
  for (int32_t stage = 0; stage < s->num_stages; stage++) left += m->lists[stage].len;
  for (bool moved = true; moved && left > 0;) {
    moved = false;
    for (int32_t stage = 0; stage < s->num_stages; stage++)
      for (; next[stage] < m->lists[stage].len; next[stage]++, left--, moved = true) {
        ptc_schedule_work_t *work = &m->lists[stage].data[next[stage]];
        double start = ready_at(m, stage, work);
        if (isinf(start)) break;
        if (next[stage] > 0) start = fmax(start, work[-1].end);
        work->start = start;
        work->end = start + cost_of(m, work->kind);
        *done_at(m, work->kind, work->chunk * s->num_stages + stage, work->micro) = work->end;
        s->makespan = fmax(s->makespan, work->end);
      }
  }
  free(next);
  return left == 0;
}

// --- transfers

typedef struct event_s {
  double time;
  int32_t rank;       // at equal times: transfers first, then by their place in the order of parts
  int32_t stage, to;  // to: the receiver's stage, -1: a task
  ptc_schedule_work_t work, received;
} event_t;

static int compare_events(const void *a, const void *b) {
  const event_t *x = a, *y = b;
  if (x->time != y->time) return x->time < y->time ? -1 : 1;
  if ((x->to < 0) != (y->to < 0)) return x->to < 0 ? 1 : -1;
  if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
  if (x->work.kind != y->work.kind) return x->work.kind < y->work.kind ? -1 : 1;
  return (x->work.micro > y->work.micro) - (x->work.micro < y->work.micro);
}

static event_t transfer_event(const maker_t *m, int32_t part, const ptc_schedule_work_t *work) {
  const int32_t num_stages = m->schedule->num_stages;
  const bool forward = work->kind == PTC_WORK_F;
  const int32_t other = forward ? part + 1 : part - 1;
  const int32_t stage = part % num_stages, to = other % num_stages;
  event_t event = {.time = work->end, .rank = part, .stage = stage, .to = to};
  event.work = (ptc_schedule_work_t){.kind = forward ? PTC_WORK_SEND_F : PTC_WORK_SEND_B,
                                     .chunk = work->chunk,
                                     .micro = work->micro,
                                     .peer = to,
                                     .start = work->end,
                                     .end = work->end + m->costs.transfer};
  event.received = event.work;
  event.received.kind = forward ? PTC_WORK_RECV_F : PTC_WORK_RECV_B;
  event.received.chunk = other / num_stages;
  event.received.peer = stage;
  return event;
}

static void finish(maker_t *m, ptc_arena_t *arena) {
  ptc_schedule_t *s = m->schedule;
  const int32_t num_parts = s->num_stages * s->num_chunks;
  PTC_VEC(event_t) events = {0};
  for (int32_t stage = 0; stage < s->num_stages; stage++)
    for (int64_t i = 0; i < m->lists[stage].len; i++) {
      const ptc_schedule_work_t *work = &m->lists[stage].data[i];
      const int32_t part = work->chunk * s->num_stages + stage;
      const event_t task = {
          .time = work->start, .rank = part, .stage = stage, .to = -1, .work = *work};
      PTC_VEC_PUSH(&events, task);
      const bool sends = work->kind == PTC_WORK_F   ? part + 1 < num_parts
                         : work->kind == PTC_WORK_B ? part > 0
                                                    : false;
      if (sends && s->num_stages > 1) PTC_VEC_PUSH(&events, transfer_event(m, part, work));
    }
  qsort(events.data, (size_t)events.len, sizeof(*events.data), compare_events);
  s->stages = PTC_ARENA_ARRAY(arena, ptc_stage_order_t, s->num_stages);
  for (int32_t stage = 0; stage < s->num_stages; stage++) {
    // A task has at most a receive and a send.
    s->stages[stage].work =
        PTC_ARENA_ARRAY(arena, ptc_schedule_work_t, 3 * m->lists[stage].len + 1);
    s->stages[stage].count = 0;
  }
  for (int64_t i = 0; i < events.len; i++) {
    const event_t *event = &events.data[i];
    ptc_stage_order_t *at = &s->stages[event->stage];
    at->work[at->count++] = event->work;
    if (event->to < 0) continue;
    ptc_stage_order_t *to = &s->stages[event->to];
    to->work[to->count++] = event->received;
  }
  PTC_VEC_FREE(&events);
}

static ptc_schedule_t *make(ptc_arena_t *arena, ptc_schedule_t schedule,
                            const ptc_schedule_costs_t *costs) {
  ptc_schedule_t *s = PTC_ARENA_NEW(arena, ptc_schedule_t);
  *s = schedule;
  maker_t m = {.schedule = s, .costs = {1, 1, 1, 0}};
  // Tasks that take no time would have no order.
  if (costs && costs->f > 0 && costs->b > 0 && costs->w > 0) m.costs = *costs;
  const size_t cells = (size_t)s->num_stages * (size_t)s->num_chunks * (size_t)s->num_micro;
  for (int32_t k = 0; k < 3; k++) m.done[k] = ptc_xmalloc(cells * sizeof(double));
  m.lists = ptc_xmalloc((size_t)s->num_stages * sizeof(*m.lists));
  memset(m.lists, 0, (size_t)s->num_stages * sizeof(*m.lists));
  // Interleaved waits forever where groups are not full; with more F before the first B it does not.
  for (int32_t more = 0;; more++) {
    for (int32_t stage = 0; stage < s->num_stages; stage++) order_stage(&m, stage, more);
    if (simulate(&m)) break;
  }
  finish(&m, arena);
  for (int32_t stage = 0; stage < s->num_stages; stage++) PTC_VEC_FREE(&m.lists[stage]);
  free(m.lists);
  for (int32_t k = 0; k < 3; k++) free(m.done[k]);
  return s;
}

ptc_schedule_t *ptc_schedule_new(ptc_arena_t *arena, ptc_schedule_kind_t kind, int32_t num_stages,
                                 int32_t num_chunks, int32_t num_micro,
                                 const ptc_schedule_costs_t *costs) {
  return make(arena,
              (ptc_schedule_t){.kind = kind,
                               .num_stages = num_stages,
                               .num_chunks = num_chunks,
                               .num_micro = num_micro,
                               .split_w = kind == PTC_SCHEDULE_ZB_H1},
              costs);
}

ptc_schedule_t *ptc_schedule_new_forward(ptc_arena_t *arena, int32_t num_stages, int32_t num_chunks,
                                         int32_t num_micro) {
  return make(arena,
              (ptc_schedule_t){.kind = PTC_SCHEDULE_GPIPE,
                               .num_stages = num_stages,
                               .num_chunks = num_chunks,
                               .num_micro = num_micro,
                               .forward = true},
              NULL);
}

bool ptc_schedule_set_times(ptc_schedule_t *schedule, const ptc_schedule_costs_t *costs) {
  maker_t m = {.schedule = schedule, .costs = *costs};
  const size_t cells =
      (size_t)schedule->num_stages * (size_t)schedule->num_chunks * (size_t)schedule->num_micro;
  for (int32_t k = 0; k < 3; k++) m.done[k] = ptc_xmalloc(cells * sizeof(double) + 1);
  const size_t num_stages = (size_t)schedule->num_stages;
  m.lists = ptc_xmalloc(num_stages * sizeof(*m.lists));
  memset(m.lists, 0, num_stages * sizeof(*m.lists));
  for (int32_t s = 0; s < schedule->num_stages; s++)
    for (int32_t i = 0; i < schedule->stages[s].count; i++)
      if (schedule->stages[s].work[i].kind <= PTC_WORK_W)
        PTC_VEC_PUSH(&m.lists[s], schedule->stages[s].work[i]);
  const bool ok = simulate(&m);
  for (int32_t s = 0; s < schedule->num_stages; s++) {
    for (int32_t i = 0, at = 0; i < schedule->stages[s].count; i++)
      if (schedule->stages[s].work[i].kind <= PTC_WORK_W)
        schedule->stages[s].work[i] = m.lists[s].data[at++];
    PTC_VEC_FREE(&m.lists[s]);
  }
  free(m.lists);
  for (int32_t k = 0; k < 3; k++) free(m.done[k]);
  return ok;
}

// --- what a schedule takes

int32_t ptc_schedule_num_slots(const ptc_schedule_t *schedule, int32_t stage, int32_t chunk) {
  const ptc_stage_order_t *order = &schedule->stages[stage];
  const int32_t num_micro = schedule->num_micro;
  int32_t *last = ptc_xmalloc((size_t)num_micro * sizeof(*last));
  for (int32_t i = 0; i < order->count; i++)
    if (order->work[i].chunk == chunk) last[order->work[i].micro] = i;
  bool *begun = ptc_xmalloc((size_t)num_micro * sizeof(*begun));
  memset(begun, 0, (size_t)num_micro * sizeof(*begun));
  int32_t slots = 1;
  for (int32_t i = 0; i < order->count; i++) {
    const ptc_schedule_work_t *work = &order->work[i];
    if (work->chunk != chunk || begun[work->micro]) continue;
    begun[work->micro] = true;
    for (int32_t other = 0; other < num_micro; other++) {
      const int32_t apart = abs(work->micro - other);
      if (begun[other] && last[other] >= i && apart + 1 > slots) slots = apart + 1;
    }
  }
  free(last);
  free(begun);
  return slots;
}

int32_t ptc_schedule_in_flight(const ptc_schedule_t *schedule, int32_t stage) {
  const ptc_stage_order_t *order = &schedule->stages[stage];
  const ptc_work_kind_t ends = schedule->split_w ? PTC_WORK_W : PTC_WORK_B;
  int32_t now = 0, most = 0;
  for (int32_t i = 0; i < order->count; i++) {
    now += order->work[i].kind == PTC_WORK_F;
    if (now > most) most = now;
    now -= order->work[i].kind == ends;
  }
  return most;
}

double ptc_schedule_bubble(const ptc_schedule_t *schedule) {
  double busy = 0;
  for (int32_t stage = 0; stage < schedule->num_stages; stage++)
    for (int32_t i = 0; i < schedule->stages[stage].count; i++) {
      const ptc_schedule_work_t *work = &schedule->stages[stage].work[i];
      if (work->kind <= PTC_WORK_W) busy += work->end - work->start;
    }
  return 1 - busy / (schedule->makespan * schedule->num_stages);
}

void ptc_schedule_print_csv(const ptc_schedule_t *schedule, double unit, ptc_str_t *out) {
  for (int32_t stage = 0; stage < schedule->num_stages; stage++) {
    const ptc_stage_order_t *order = &schedule->stages[stage];
    double at = 0;
    bool first = true;
    for (int32_t i = 0; i < order->count; i++) {
      const ptc_schedule_work_t *work = &order->work[i];
      if (work->kind > PTC_WORK_W) continue;
      for (; at + unit / 2 < work->start; at += unit, first = false)
        if (!first) ptc_str_printf(out, ",");
      const char *letter =
          work->kind == PTC_WORK_B && schedule->split_w ? "I" : ptc_work_name(work->kind);
      ptc_str_printf(out, "%s%d%s%d", first ? "" : ",", work->chunk * schedule->num_stages + stage,
                     letter, work->micro);
      first = false;
      at += unit;
      for (; at + unit / 2 < work->end; at += unit) ptc_str_printf(out, ",");
    }
    ptc_str_printf(out, "\n");
  }
}
