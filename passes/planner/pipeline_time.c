#include "passes/planner/pipeline_time.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "passes/schedule_order.h"

// --- task by task

typedef struct lane_s {
  ptc_stage_walk_t walk;
  ptc_task_t task;  // the next one
  bool open;        // there is one
  double time;      // when the stage is free
  double growth;    // of that, from one turn to the next
} lane_t;

// A turn of the schedule is |turn| micro-batches, after which its lists repeat. By the kind (F, B) and part: of the last
// |ring| micro-batches when each was done, of the last |turn| by how much that grows from turn to turn.
typedef struct simulation_s {
  const ptc_pipeline_t *p;
  int32_t num_parts, turn, ring;
  lane_t *lanes;
  double *done[2], *growth[2];
  int32_t *count[2];  // micro-batches that are done
  bool settled;       // each stage has F, B and W in turns
  int64_t steady;     // tasks since a growth changed
  double limit;       // the turn in which another operand may become the later one
} simulation_t;

// Of a sum of many: what rounding leaves.
static double tolerance(double time) { return 1e-14 * fabs(time); }

static void see_growth(simulation_t *s, double *growth, double now, double end) {
  if (fabs(now - *growth) > tolerance(end)) {
    s->steady = 0;
    s->limit = INFINITY;
  } else {
    s->steady++;
  }
  *growth = now;
}

// The next task of a stage, unless what it takes is not there.
static bool run_task(simulation_t *s, int32_t stage) {
  lane_t *lane = &s->lanes[stage];
  const ptc_task_t task = lane->task;
  const int32_t part = task.chunk * s->p->num_stages + stage;
  const ptc_part_time_t *time = &s->p->parts[part];
  if (task.kind == PTC_WORK_W) {
    lane->time += time->w;
    lane->open = ptc_stage_walk_next(&lane->walk, &lane->task);
    return true;
  }
  const bool back = task.kind == PTC_WORK_B;
  const int32_t source = back ? part + 1 : part - 1;
  const int32_t slot = task.micro % s->ring, phase = task.micro % s->turn;
  if (source >= 0 && source < s->num_parts) {
    if (s->count[back][source] <= task.micro) return false;
    const double ready = s->done[back][source * s->ring + slot] + s->p->latency;
    if (s->settled) {
      const double growth = s->growth[back][source * s->turn + phase] - lane->growth;
      const double closing = ready > lane->time ? -growth : growth;
      if (closing > tolerance(ready))
        s->limit = fmin(s->limit, task.micro / s->turn + floor(fabs(ready - lane->time) / closing));
    }
    if (ready > lane->time) lane->time = ready;
  }
  const double w = s->p->kind == PTC_SCHEDULE_ZB_H1 ? 0 : time->w;
  lane->time += back ? time->b + w : time->f;
  double *done = &s->done[back][part * s->ring];
  if (s->settled) {
    lane->growth = lane->time - done[(task.micro - s->turn) % s->ring];
    see_growth(s, &s->growth[back][part * s->turn + phase], lane->growth, lane->time);
  }
  done[slot] = lane->time;
  s->count[back][part]++;
  lane->open = ptc_stage_walk_next(&lane->walk, &lane->task);
  return true;
}

static bool run_stage(simulation_t *s, int32_t stage) {
  bool any = false;
  while (s->lanes[stage].open && run_task(s, stage)) any = true;
  return any;
}

// Each stage is past its first F and W, and a turn more, so that growths have something to compare with.
static bool is_settled(const simulation_t *s) {
  for (int32_t stage = 0; stage < s->p->num_stages; stage++) {
    const ptc_stage_walk_t *walk = &s->lanes[stage].walk;
    if (walk->b < (int64_t)s->turn * s->p->num_chunks ||
        (s->p->kind == PTC_SCHEDULE_ZB_H1 && walk->w < 1))
      return false;
  }
  return true;
}

// Leaves out as many turns as go on like the last two.
static void skip_turns(simulation_t *s) {
  const ptc_pipeline_t *p = s->p;
  int32_t furthest = 0;
  for (int32_t stage = 0; stage < p->num_stages; stage++) {
    const ptc_round_t *next = &s->lanes[stage].walk.next_f;
    if (next->first + next->at > furthest) furthest = next->first + next->at;
  }
  const double until = fmin(s->limit, (double)(p->num_micro / s->turn));
  int64_t turns = (int64_t)until - furthest / s->turn - 3;
  const int32_t whole = s->ring / s->turn;  // places in the ring stay as they are
  turns = turns / whole * whole;
  if (turns <= 0) return;
  const int32_t micros = (int32_t)turns * s->turn;
  for (int32_t stage = 0; stage < p->num_stages; stage++) {
    lane_t *lane = &s->lanes[stage];
    lane->time += (double)turns * lane->growth;
    lane->task.micro += micros;
    lane->walk.next_f.first += micros;
    lane->walk.next_b.first += micros;
    lane->walk.f += (int64_t)micros * p->num_chunks;
    lane->walk.b += (int64_t)micros * p->num_chunks;
    if (p->kind == PTC_SCHEDULE_ZB_H1) lane->walk.w += micros;
  }
  for (int back = 0; back < 2; back++)
    for (int32_t part = 0; part < s->num_parts; part++) {
      s->count[back][part] += micros;
      for (int32_t i = 0; i < s->ring; i++)
        s->done[back][part * s->ring + i] +=
            (double)turns * s->growth[back][part * s->turn + i % s->turn];
    }
  s->steady = 0;
  s->limit = INFINITY;
}

// False: some tasks wait forever.
static bool run_all(simulation_t *s, int32_t more) {
  const ptc_pipeline_t *p = s->p;
  for (int32_t stage = 0; stage < p->num_stages; stage++) {
    lane_t *lane = &s->lanes[stage];
    *lane = (lane_t){.time = p->begin[stage]};
    lane->walk =
        ptc_stage_walk(p->kind, false, p->num_stages, p->num_chunks, p->num_micro, stage, more);
    lane->open = ptc_stage_walk_next(&lane->walk, &lane->task);
  }
  for (int back = 0; back < 2; back++)
    memset(s->count[back], 0, sizeof(*s->count[back]) * (size_t)s->num_parts);
  s->settled = false;
  const int64_t two_turns = 2 * 2 * (int64_t)s->num_parts * s->turn;
  for (bool moved = true; moved;) {
    moved = false;
    for (int32_t stage = 0; stage < p->num_stages; stage++) moved |= run_stage(s, stage);
    for (int32_t stage = p->num_stages - 1; stage >= 0; stage--) moved |= run_stage(s, stage);
    if (!s->settled && is_settled(s)) {
      s->settled = true;
      s->steady = 0;
      s->limit = INFINITY;
      for (int back = 0; back < 2; back++)
        memset(s->growth[back], 0, sizeof(double) * (size_t)s->num_parts * (size_t)s->turn);
    }
    if (s->settled && s->steady >= two_turns) skip_turns(s);
  }
  for (int32_t stage = 0; stage < p->num_stages; stage++)
    if (s->lanes[stage].open) return false;
  return true;
}

// --- where a few numbers say the same

// One stage: its tasks fill it.
static void one_stage(const ptc_pipeline_t *p, double *ends) {
  double sum = 0;
  for (int32_t part = 0; part < p->num_chunks; part++)
    sum += p->parts[part].f + p->parts[part].b + p->parts[part].w;
  ends[0] = p->begin[0] + p->num_micro * sum;
}

// Equal tasks that pass one stage after another: a stage is done when the last of them came from the one before it, or
// the first one and then all at once.
static void pass_stage(const ptc_pipeline_t *p, double own, double *first, double *last,
                       double begin) {
  const double enters = fmax(*first, begin), leaves = *last;
  *first = enters + own;
  *last = fmax(enters + own * p->num_micro, leaves + own);
}

static void all_forward_first(const ptc_pipeline_t *p, double *ends) {
  double first = -INFINITY, last = -INFINITY;
  for (int32_t stage = 0; stage < p->num_stages; stage++) {
    pass_stage(p, p->parts[stage].f, &first, &last, p->begin[stage]);
    ends[stage] = last;
    first += p->latency;
    last += p->latency;
  }
  first = last = -INFINITY;
  for (int32_t stage = p->num_stages - 1; stage >= 0; stage--) {
    pass_stage(p, p->parts[stage].b + p->parts[stage].w, &first, &last, ends[stage]);
    ends[stage] = last;
    first += p->latency;
    last += p->latency;
  }
}

void ptc_pipeline_simulate(const ptc_pipeline_t *p, double *ends) {
  if (p->num_stages == 1) {
    one_stage(p, ends);
    return;
  }
  if (p->kind == PTC_SCHEDULE_GPIPE) {
    all_forward_first(p, ends);
    return;
  }
  const int32_t num_parts = p->num_stages * p->num_chunks;
  const int32_t turn = p->kind == PTC_SCHEDULE_INTERLEAVED ? p->num_stages : 1;
  // Micro-batches in flight, and a turn to compare with.
  const int32_t ring = turn > 1 ? 5 * turn : p->num_stages + 2;
  simulation_t s = {.p = p, .num_parts = num_parts, .turn = turn, .ring = ring};
  const size_t places = (size_t)num_parts * (size_t)(ring + turn);
  double *numbers = ptc_xmalloc(2 * places * sizeof(*numbers));
  int32_t *counts = ptc_xmalloc(2 * (size_t)num_parts * sizeof(*counts));
  s.lanes = ptc_xmalloc((size_t)p->num_stages * sizeof(*s.lanes));
  for (int back = 0; back < 2; back++) {
    s.done[back] = numbers + (size_t)back * places;
    s.growth[back] = s.done[back] + (size_t)num_parts * (size_t)ring;
    s.count[back] = counts + (size_t)back * (size_t)num_parts;
  }
  for (int32_t more = 0; !run_all(&s, more);) more++;
  for (int32_t stage = 0; stage < p->num_stages; stage++) ends[stage] = s.lanes[stage].time;
  free(s.lanes);
  free(counts);
  free(numbers);
}

// --- at least

// Of the first |count| F of a stage, which go through its chunks in groups of micro-batches.
static double first_forwards(const ptc_pipeline_t *p, int32_t stage, int64_t count) {
  const int64_t group = p->num_micro < p->num_stages ? p->num_micro : p->num_stages;
  const int64_t rounds = count / (group * p->num_chunks);
  int64_t rest = count - rounds * group * p->num_chunks;
  double sum = 0;
  for (int32_t c = 0; c < p->num_chunks; c++) {
    const int64_t own = rest < group ? rest : group;
    sum += (double)(rounds * group + own) * p->parts[c * p->num_stages + stage].f;
    rest -= own;
  }
  return sum;
}

// A stage waits for its first F and its first B; from there on it has the rest of its tasks to do, and all
// stages before it the last B.
void ptc_pipeline_least(const ptc_pipeline_t *p, double *ends) {
  if (p->num_stages == 1 || p->kind == PTC_SCHEDULE_GPIPE) {
    ptc_pipeline_simulate(p, ends);
    return;
  }
  const int32_t num_stages = p->num_stages, num_parts = num_stages * p->num_chunks;
  const double m = p->num_micro;
  const bool apart = p->kind == PTC_SCHEDULE_ZB_H1;
  double at = -INFINITY;  // the first micro-batch
  for (int32_t part = 0; part < num_parts; part++) {
    at = fmax(at, p->begin[part % num_stages]);
    if (part < num_stages) ends[part] = at;  // where its stage begins
    at += p->parts[part].f + p->latency;
  }
  at -= p->latency;
  for (int32_t part = num_parts - 1, last = num_parts - num_stages; part >= last; part--) {
    const int32_t stage = part - last;
    const ptc_stage_walk_t walk =
        ptc_stage_walk(p->kind, false, num_stages, p->num_chunks, p->num_micro, stage, 0);
    const int64_t before = walk.warm < walk.total ? walk.warm + 1 : walk.total;
    const double filled = first_forwards(p, stage, before);
    double f = 0, b = 0, w = 0;
    for (int32_t c = 0; c < p->num_chunks; c++) {
      f += p->parts[c * num_stages + stage].f;
      b += p->parts[c * num_stages + stage].b;
      w += p->parts[c * num_stages + stage].w;
    }
    // Groups that are not full begin later with B, but it is not known by how much.
    const bool whole = p->num_chunks == 1 || p->num_micro % num_stages == 0;
    const double first_b = whole ? fmax(at, ends[stage] + filled) : ends[stage] + filled;
    // Up to the last B; what is left of W then is added below.
    const double late = apart ? fmin(m, 1 + stage) : 0;
    ends[stage] = first_b + m * (f + b + w) - filled - late * w;
    at += p->parts[part].b + (apart ? 0 : p->parts[part].w) + p->latency;
  }
  for (int32_t stage = num_stages - 2; stage >= 0; stage--) {
    const ptc_part_time_t *t = &p->parts[stage];
    ends[stage] = fmax(ends[stage], ends[stage + 1] + p->latency + t->b + (apart ? 0 : t->w));
  }
  if (apart)
    for (int32_t stage = 0; stage < num_stages; stage++)
      ends[stage] += fmin(m, 1 + stage) * p->parts[stage].w;
}
