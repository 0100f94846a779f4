// Proves that the events of a plan order all that must be ordered. Walks each task in the order of launching with a clock
// per stream: for every stream, how many of its steps are certainly done when the next step begins. A stream's clock
// advances with its own steps and takes in those of the events that it waits for; an event keeps the clock of its latest
// record. Of two steps that touch the same bytes, one of which writes them, the later one's clock must know the earlier one.
//
// With what ptc_plan_verify proves, that the flow of data is right in the order of launching, every run is.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/vec.h"
#include "ir/plan_order.h"
#include "ir/plan_verify_impl.h"

typedef struct stream_s {
  int64_t clock[PTC_PLAN_MAX_STREAMS];
  ptc_touch_map_t writes, reads;
} stream_t;

typedef PTC_VEC(int64_t) numbers_t;

typedef struct proof_s {
  ptc_diag_t *diag;
  const ptc_plan_t *plan;
  const ptc_task_t *task;
  int32_t num_streams;
  ptc_shared_spans_t shared;
  stream_t streams[PTC_PLAN_MAX_STREAMS];
  int64_t *events;  // num_streams numbers each
  int32_t num_events;
  bool plain;  // all turns are walked
  // What later steps depend on, now and as it was when it was last described; the numbers of one stream.
  numbers_t state, last_state, numbers;
} proof_t;

// --- words

// "step 17 (model.ptm:12, line 40), all_gather on stream 1".
static const char *describe(const proof_t *p, ptc_arena_t *arena, const ptc_step_t *step,
                            int64_t number) {
  const char *what = step->kind == PTC_STEP_LAUNCH ? p->plan->kernels[step->kernel].name
                     : step->kind == PTC_STEP_COPY ? "copy"
                     : step->kind == PTC_STEP_SEND ? "send"
                     : step->kind == PTC_STEP_RECV ? "recv"
                                                   : ptc_collective_name(step->collective->kind);
  return ptc_arena_printf(arena, "step %" PRId64 " (%sline %" PRId32 "), %s on stream %" PRId32,
                          number, ptc_plan_step_origin(p->plan, arena, step), step->line, what,
                          step->stream);
}

static ptc_status_t report(const proof_t *p, const ptc_launched_t *launched,
                           const ptc_access_t *access, const ptc_toucher_t *other,
                           bool other_writes) {
  ptc_arena_t arena = {0};
  const ptc_ref_t *mine = &launched->step->args[access->arg], *its = &other->step->args[other->arg];
  const ptc_status_t status = ptc_error(
      p->diag, (ptc_loc_t){p->plan->steps_file, launched->step->line, 1}, PTC_INVALID_INPUT,
      "plan-race",
      "task \"%s\": %s, %s \"%s\" while %s may still %s \"%s\" there; no event orders them",
      p->task->name, describe(p, &arena, launched->step, launched->number),
      access->write ? "writes" : "reads", p->plan->buffers[mine->buffer].name,
      describe(p, &arena, other->step, other->number), other_writes ? "write" : "read",
      p->plan->buffers[its->buffer].name);
  ptc_arena_deinit(&arena);
  return status;
}

// --- the walk

static void join(const proof_t *p, int64_t *clock, const int64_t *other) {
  for (int32_t s = 0; s < p->num_streams; ++s)
    if (other[s] > clock[s]) clock[s] = other[s];
}

static ptc_status_t check_access(proof_t *p, const ptc_launched_t *launched,
                                 const ptc_access_t *access) {
  const int32_t me = launched->step->stream;
  for (int32_t s = 0; s < p->num_streams; ++s) {
    if (s == me) continue;
    const int64_t known = p->streams[me].clock[s];
    const ptc_toucher_t *writer =
        ptc_touch_map_latest(&p->streams[s].writes, access->begin, access->end);
    if (writer && writer->position > known) return report(p, launched, access, writer, true);
    if (!access->write) continue;
    const ptc_toucher_t *reader =
        ptc_touch_map_latest(&p->streams[s].reads, access->begin, access->end);
    if (reader && reader->position > known) return report(p, launched, access, reader, false);
  }
  return PTC_OK;
}

static void note_access(proof_t *p, const ptc_launched_t *launched, const ptc_access_t *access) {
  stream_t *stream = &p->streams[launched->step->stream];
  ptc_touch_map_set(
      access->write ? &stream->writes : &stream->reads,
      (ptc_toucher_t){access->begin, access->end, stream->clock[launched->step->stream],
                      launched->number, launched->step, access->arg});
}

static ptc_status_t visit(void *arg, const ptc_launched_t *launched) {
  proof_t *p = arg;
  const ptc_step_t *step = launched->step;
  int64_t *clock = p->streams[step->stream].clock;
  for (int32_t w = 0; w < step->num_waits; ++w)
    join(p, clock, p->events + (int64_t)(step->waits[w] - 1) * p->num_streams);
  for (int32_t a = 0; a < launched->num_accesses; ++a) {
    const ptc_access_t *access = &launched->accesses[a];
    if (ptc_shared_spans_meet(&p->shared, access->begin, access->end))
      PTC_TRY(check_access(p, launched, access));
  }
  clock[step->stream]++;
  for (int32_t a = 0; a < launched->num_accesses; ++a) {
    const ptc_access_t *access = &launched->accesses[a];
    if (ptc_shared_spans_meet(&p->shared, access->begin, access->end))
      note_access(p, launched, access);
  }
  if (step->record)
    memcpy(p->events + (int64_t)(step->record - 1) * p->num_streams, clock,
           (size_t)p->num_streams * sizeof *clock);
  return PTC_OK;
}

// --- turns that only repeat

// Of numbers of one stream only the order counts: clocks and events take the larger of two, a new step is larger than
// all, and what is older than every clock meets nothing any more.
static void add_number(proof_t *p, int64_t number) {
  PTC_VEC_PUSH(&p->state, ptc_numbers_find(p->numbers.data, p->numbers.len, number));
}

static void add_touchers(proof_t *p, const ptc_touch_map_t *map, int64_t known) {
  for (int64_t i = 0; i < map->len; ++i) {
    if (map->items[i].position <= known) continue;
    PTC_VEC_PUSH(&p->state, map->items[i].begin);
    PTC_VEC_PUSH(&p->state, map->items[i].end);
    add_number(p, map->items[i].position);
  }
  PTC_VEC_PUSH(&p->state, -1);
}

// The numbers of stream |t| above |known|, sorted, each once.
static void find_numbers(proof_t *p, int32_t t, int64_t known) {
  const ptc_touch_map_t *maps[] = {&p->streams[t].writes, &p->streams[t].reads};
  p->numbers.len = 0;
  for (int32_t s = 0; s < p->num_streams; ++s) PTC_VEC_PUSH(&p->numbers, p->streams[s].clock[t]);
  for (int32_t e = 0; e < p->num_events; ++e)
    if (p->events[(int64_t)e * p->num_streams + t] > known)
      PTC_VEC_PUSH(&p->numbers, p->events[(int64_t)e * p->num_streams + t]);
  for (int m = 0; m < 2; ++m)
    for (int64_t i = 0; i < maps[m]->len; ++i)
      if (maps[m]->items[i].position > known) PTC_VEC_PUSH(&p->numbers, maps[m]->items[i].position);
  ptc_numbers_sort(p->numbers.data, p->numbers.len);
  int64_t n = 0;
  for (int64_t i = 0; i < p->numbers.len; ++i)
    if (n == 0 || p->numbers.data[i] != p->numbers.data[n - 1])
      p->numbers.data[n++] = p->numbers.data[i];
  p->numbers.len = n;
}

static void describe_state(proof_t *p) {
  p->state.len = 0;
  for (int32_t t = 0; t < p->num_streams; ++t) {
    int64_t known = p->streams[t].clock[t];
    for (int32_t s = 0; s < p->num_streams; ++s)
      if (p->streams[s].clock[t] < known) known = p->streams[s].clock[t];
    find_numbers(p, t, known);
    for (int32_t s = 0; s < p->num_streams; ++s) add_number(p, p->streams[s].clock[t]);
    for (int32_t e = 0; e < p->num_events; ++e)
      add_number(p, p->events[(int64_t)e * p->num_streams + t]);
    add_touchers(p, &p->streams[t].writes, known);
    add_touchers(p, &p->streams[t].reads, known);
  }
}

static bool recurs(void *arg, bool first) {
  proof_t *p = arg;
  describe_state(p);
  const bool same =
      !first && p->state.len == p->last_state.len &&
      memcmp(p->state.data, p->last_state.data, (size_t)p->state.len * sizeof *p->state.data) == 0;
  const numbers_t last = p->last_state;
  p->last_state = p->state;
  p->state = last;
  return same;
}

// Whether some instance of the buffer can be met.
static bool can_meet(const void *arg, const ptc_step_t *step, const ptc_ref_t *ref) {
  (void)step;
  const proof_t *p = arg;
  const ptc_buffer_t *buffer = &p->plan->buffers[ref->buffer];
  bool meets = false;
  for (int64_t i = 0; i < buffer->num_instances && !meets; ++i)
    meets =
        ptc_shared_spans_meet(&p->shared, buffer->offsets[i], buffer->offsets[i] + buffer->bytes);
  return meets;
}

static ptc_status_t prove_task(proof_t *p, const ptc_task_t *task, int32_t num_events) {
  p->task = task;
  p->num_events = num_events;
  memset(p->events, 0, (size_t)num_events * (size_t)p->num_streams * sizeof *p->events);
  for (int32_t s = 0; s < p->num_streams; ++s) {
    memset(p->streams[s].clock, 0, sizeof p->streams[s].clock);
    p->streams[s].writes.len = p->streams[s].reads.len = 0;
  }
  static const ptc_fold_t fold = {can_meet, recurs};
  return p->plain ? ptc_plan_walk(p->plan, task, visit, p)
                  : ptc_plan_walk_folded(p->plan, task, visit, &fold, p);
}

// --- events that nothing records

static void mark_recorded(const ptc_step_t *steps, int32_t count, bool *recorded) {
  for (int32_t i = 0; i < count; ++i) {
    if (steps[i].kind == PTC_STEP_REPEAT)
      mark_recorded(steps[i].body, steps[i].num_steps, recorded);
    if (steps[i].record) recorded[steps[i].record - 1] = true;
  }
}

static ptc_status_t check_waits(const proof_t *p, const ptc_step_t *steps, int32_t count,
                                const bool *recorded) {
  for (int32_t i = 0; i < count; ++i) {
    if (steps[i].kind == PTC_STEP_REPEAT)
      PTC_TRY(check_waits(p, steps[i].body, steps[i].num_steps, recorded));
    for (int32_t w = 0; w < steps[i].num_waits; ++w)
      if (!recorded[steps[i].waits[w] - 1])
        return ptc_error(p->diag, (ptc_loc_t){p->plan->steps_file, steps[i].line, 1},
                         PTC_INVALID_INPUT, "plan-event",
                         "the step waits for event %" PRId32 ", which no step records",
                         steps[i].waits[w]);
  }
  return PTC_OK;
}

static ptc_status_t check_events(const proof_t *p, int32_t num_events) {
  bool *recorded = ptc_xmalloc((size_t)num_events + 1);
  memset(recorded, 0, (size_t)num_events + 1);
  ptc_status_t status = PTC_OK;
  for (int32_t t = 0; t < p->plan->num_tasks; ++t)
    mark_recorded(p->plan->tasks[t].steps, p->plan->tasks[t].num_steps, recorded);
  for (int32_t t = 0; t < p->plan->num_tasks && status == PTC_OK; ++t)
    status = check_waits(p, p->plan->tasks[t].steps, p->plan->tasks[t].num_steps, recorded);
  free(recorded);
  return status;
}

static ptc_status_t prove(proof_t *p, int32_t num_events) {
  PTC_TRY(check_events(p, num_events));
  if (p->num_streams == 1) return PTC_OK;
  PTC_TRY(ptc_shared_spans_find(p->plan, &p->shared));
  for (int32_t t = 0; t < p->plan->num_tasks; ++t)
    if (p->plan->tasks[t].num_micro == 0) PTC_TRY(prove_task(p, &p->plan->tasks[t], num_events));
  return PTC_OK;
}

ptc_status_t ptc_plan_verify_order(ptc_diag_t *diag, const ptc_plan_t *plan) {
  return ptc_plan_verify_walked(diag, plan, false);
}

ptc_status_t ptc_plan_verify_walked(ptc_diag_t *diag, const ptc_plan_t *plan, bool plain) {
  proof_t *proof = ptc_xmalloc(sizeof *proof);
  *proof = (proof_t){
      .diag = diag, .plan = plan, .plain = plain, .num_streams = ptc_plan_num_streams(plan)};
  const int32_t num_events = ptc_plan_num_events(plan);
  proof->events =
      ptc_xmalloc((size_t)(num_events + 1) * (size_t)proof->num_streams * sizeof *proof->events);
  ptc_status_t status = prove(proof, num_events);
  if (status == PTC_UNSUPPORTED)
    status = ptc_error(diag, (ptc_loc_t){plan->steps_file, 1, 1}, PTC_INVALID_INPUT, "plan-limit",
                       "a task has more steps, all turns counted, than can be proved");
  for (int32_t s = 0; s < proof->num_streams; ++s) {
    ptc_touch_map_deinit(&proof->streams[s].writes);
    ptc_touch_map_deinit(&proof->streams[s].reads);
  }
  ptc_shared_spans_deinit(&proof->shared);
  free(proof->events);
  PTC_VEC_FREE(&proof->state);
  PTC_VEC_FREE(&proof->last_state);
  PTC_VEC_FREE(&proof->numbers);
  free(proof);
  return status;
}
