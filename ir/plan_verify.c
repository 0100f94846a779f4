// Replays a plan on a map of the arena that knows, for every byte, which write it comes from.
//
// Each write of a kernel is a content of its own. A map says which content lies where: one for the arena, and
// one per instance for what it should hold. A copy carries contents over. A read is right if both agree.
//
// Coordinates move where parts of an instance lie: each axis on which some address depends is replayed at each
// of its coordinates, the others at 0.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ir/plan.h"

enum { MAX_REPLAYED = 1 << 24 };

// Byte x of [begin, end) is byte x + shift of |content|.
typedef struct piece_s {
  int64_t begin, end, content, shift;
} piece_t;

// Disjoint pieces, sorted. Of an instance: the micro-batch that wrote it last, and whether something outside of parts
// did: then it goes from one micro-batch to the next, as sums do.
typedef struct map_s {
  piece_t *pieces;
  int64_t len, cap, micro;
  bool goes_on;
} map_t;

typedef struct replay_s {
  ptc_diag_t *diag;
  const ptc_plan_t *plan;
  map_t memory;
  map_t *expected;      // per instance
  int64_t *first_node;  // per buffer
  int64_t next_content, num_steps;
  int64_t turns[PTC_PLAN_MAX_LEVELS];
  int64_t micro;  // of the part that runs, or -1
  const ptc_task_t *task;
} replay_t;

// --- maps

// The first piece that ends after |at|.
static int64_t find_piece(const map_t *map, int64_t at) {
  int64_t low = 0, high = map->len;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (map->pieces[middle].end > at)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

// Makes |count| places at |at| out of |old|.
static void resize(map_t *map, int64_t at, int64_t old, int64_t count) {
  if (map->len + count - old > map->cap) {
    map->cap = 2 * (map->len + count - old);
    map->pieces = ptc_xrealloc(map->pieces, (size_t)map->cap * sizeof *map->pieces);
  }
  memmove(map->pieces + at + count, map->pieces + at + old,
          (size_t)(map->len - at - old) * sizeof *map->pieces);
  map->len += count - old;
}

static void set_piece(map_t *map, piece_t piece) {
  if (piece.begin >= piece.end) return;
  const int64_t first = find_piece(map, piece.begin);
  int64_t last = first;
  while (last < map->len && map->pieces[last].begin < piece.end) last++;
  piece_t kept[3];
  int64_t count = 0;
  if (first < last && map->pieces[first].begin < piece.begin) {
    kept[count] = map->pieces[first];
    kept[count++].end = piece.begin;
  }
  kept[count++] = piece;
  if (first < last && map->pieces[last - 1].end > piece.end) {
    kept[count] = map->pieces[last - 1];
    kept[count++].begin = piece.end;
  }
  resize(map, first, last - first, count);
  for (int64_t i = 0; i < count; ++i) map->pieces[first + i] = kept[i];
}

// --- instances

typedef struct span_s {
  const ptc_buffer_t *buffer;
  int64_t instance, address, begin, end;  // bytes of the instance
  map_t *expected;
} span_t;

static span_t whole_instance(const replay_t *r, int32_t number, int64_t instance) {
  const ptc_buffer_t *buffer = &r->plan->buffers[number];
  return (span_t){buffer, instance,      buffer->offsets[instance],
                  0,      buffer->bytes, &r->expected[r->first_node[number] + instance]};
}

static span_t span_of(const replay_t *r, const ptc_ref_t *ref) {
  span_t span = whole_instance(r, ref->buffer, ptc_affine_at(&ref->instance, r->turns));
  span.begin = ptc_affine_at(&ref->byte_offset, r->turns);
  span.end = span.begin + ref->bytes;
  return span;
}

static ptc_status_t fault(replay_t *r, const span_t *span, int32_t line, const char *id,
                          const char *what) {
  return ptc_error(r->diag, (ptc_loc_t){r->plan->steps_file, line, 1}, PTC_INVALID_INPUT, id,
                   "task \"%s\", step %" PRId64 ": \"%s\", instance %" PRId64 ", %s", r->task->name,
                   r->num_steps, span->buffer->name, span->instance, what);
}

static ptc_status_t check_read(replay_t *r, const span_t *span, int32_t line) {
  int64_t at = span->begin;
  // A slot serves one micro-batch after another.
  if (span->buffer->cls == PTC_BUFFER_SAVED && r->micro >= 0 && span->expected->len > 0 &&
      !span->expected->goes_on && span->expected->micro != r->micro)
    return fault(r, span, line, "plan-stale", "holds what another micro-batch has left there");
  for (int64_t p = find_piece(span->expected, at); at < span->end; ++p) {
    if (p == span->expected->len || span->expected->pieces[p].begin > at)
      return fault(r, span, line, "plan-uninitialized", "is read before it is written");
    const piece_t *want = &span->expected->pieces[p];
    const int64_t end = want->end < span->end ? want->end : span->end;
    int64_t place = span->address + at;
    for (int64_t m = find_piece(&r->memory, place); place < span->address + end; ++m) {
      const piece_t *have = m < r->memory.len ? &r->memory.pieces[m] : NULL;
      if (!have || have->begin > place || have->content != want->content ||
          have->shift != want->shift - span->address)
        return fault(r, span, line, "plan-overwritten", "was overwritten before it is read");
      place = have->end;
    }
    at = end;
  }
  return PTC_OK;
}

static void put(replay_t *r, const span_t *span, int64_t begin, int64_t end, int64_t content,
                int64_t shift) {
  span->expected->micro = r->micro;
  span->expected->goes_on |= r->micro < 0;
  set_piece(span->expected, (piece_t){begin, end, content, shift});
  set_piece(&r->memory,
            (piece_t){span->address + begin, span->address + end, content, shift - span->address});
}

static void write_new(replay_t *r, const span_t *span) {
  put(r, span, span->begin, span->end, ++r->next_content, 0);
}

// --- steps

static ptc_status_t run_copy(replay_t *r, const ptc_step_t *step) {
  const span_t from = span_of(r, &step->args[0]), to = span_of(r, &step->args[1]);
  PTC_TRY(check_read(r, &from, step->line));
  // The pieces are taken out first: both may be parts of one instance.
  map_t pieces = {0};
  const int64_t shift = from.begin - to.begin;
  for (int64_t p = find_piece(from.expected, from.begin);
       p < from.expected->len && from.expected->pieces[p].begin < from.end; ++p) {
    piece_t piece = from.expected->pieces[p];
    if (piece.begin < from.begin) piece.begin = from.begin;
    if (piece.end > from.end) piece.end = from.end;
    set_piece(&pieces, piece);
  }
  for (int64_t p = 0; p < pieces.len; ++p) {
    const piece_t *piece = &pieces.pieces[p];
    put(r, &to, piece->begin - shift, piece->end - shift, piece->content, piece->shift + shift);
  }
  free(pieces.pieces);
  return PTC_OK;
}

static ptc_status_t run_launch(replay_t *r, const ptc_step_t *step) {
  const ptc_plan_kernel_t *kernel = &r->plan->kernels[step->kernel];
  for (int32_t a = 0; a < kernel->num_params; ++a) {
    if (kernel->modes[a] == 1) continue;
    const span_t span = span_of(r, &step->args[a]);
    PTC_TRY(check_read(r, &span, step->line));
  }
  for (int32_t a = 0; a < step->num_args; ++a) {
    if (a < kernel->num_params && kernel->modes[a] == 0) continue;
    const span_t span = span_of(r, &step->args[a]);
    write_new(r, &span);
  }
  return PTC_OK;
}

// Results are made of what all members gave; what is cut off of a piece holds nothing that counts.
static ptc_status_t run_collective(replay_t *r, const ptc_step_t *step) {
  for (int32_t a = 0; a < step->num_args; a += 2) {
    const span_t span = span_of(r, &step->args[a]);
    PTC_TRY(check_read(r, &span, step->line));
  }
  for (int32_t a = 1; a < step->num_args; a += 2) {
    const span_t span = span_of(r, &step->args[a]);
    write_new(r, &span);
  }
  return PTC_OK;
}

static ptc_status_t count_step(replay_t *r, const ptc_step_t *step) {
  if (++r->num_steps <= MAX_REPLAYED) return PTC_OK;
  return ptc_error(r->diag, (ptc_loc_t){r->plan->steps_file, step->line, 1}, PTC_INVALID_INPUT,
                   "plan-limit", "the plan has more than %d steps, all turns counted",
                   MAX_REPLAYED);
}

static ptc_status_t run_steps(replay_t *r, const ptc_step_t *steps, int32_t count, int32_t depth,
                              const ptc_step_t *repeat, int64_t trip);

// For one micro-batch.
static ptc_status_t run_call(replay_t *r, const ptc_step_t *step, int32_t depth) {
  const ptc_task_t *task = &r->plan->tasks[step->task];
  r->turns[depth] = step->micro;
  r->turns[depth + 1] = step->slot;
  r->micro = step->micro;
  PTC_TRY(run_steps(r, task->steps, task->num_steps, depth + 2, NULL, 0));
  r->turns[depth] = r->turns[depth + 1] = 0;
  r->micro = -1;
  return PTC_OK;
}

static ptc_status_t run_transfer(replay_t *r, const ptc_step_t *step) {
  const span_t span = span_of(r, &step->args[0]);
  if (step->kind == PTC_STEP_SEND) return check_read(r, &span, step->line);
  write_new(r, &span);
  return PTC_OK;
}

static ptc_status_t run_repeat(replay_t *r, const ptc_step_t *step, int32_t depth) {
  int64_t trip, end;
  for (ptc_repeat_trips(step, &trip, &end); trip < end; ++trip) {
    PTC_TRY(run_steps(r, step->body, step->num_steps, depth + 1, step, trip));
    PTC_TRY(count_step(r, step));  // an empty body has turns, too
  }
  r->turns[depth] = 0;
  return PTC_OK;
}

// |repeat|: whose trip |trip| they are, or NULL.
static ptc_status_t run_steps(replay_t *r, const ptc_step_t *steps, int32_t count, int32_t depth,
                              const ptc_step_t *repeat, int64_t trip) {
  for (int32_t i = 0; i < count; ++i) {
    const ptc_step_t *step = &steps[i];
    if (!ptc_repeat_turn(repeat, step, trip, &r->turns[repeat ? depth - 1 : 0])) continue;
    PTC_TRY(count_step(r, step));
    if (step->kind == PTC_STEP_COPY) PTC_TRY(run_copy(r, step));
    if (step->kind == PTC_STEP_LAUNCH) PTC_TRY(run_launch(r, step));
    if (step->kind == PTC_STEP_COLLECTIVE) PTC_TRY(run_collective(r, step));
    if (step->kind == PTC_STEP_CALL) PTC_TRY(run_call(r, step, depth));
    if (step->kind == PTC_STEP_SEND || step->kind == PTC_STEP_RECV) PTC_TRY(run_transfer(r, step));
    if (step->kind == PTC_STEP_REPEAT) PTC_TRY(run_repeat(r, step, depth));
  }
  return PTC_OK;
}

// --- tasks

static int64_t global_instances(const ptc_plan_global_t *global) {
  int64_t count = 1;
  for (int32_t c = 0; c < global->num_counts; ++c) count *= global->counts[c];
  return count;
}

static ptc_status_t check_end(replay_t *r) {
  for (int32_t g = 0; g < r->plan->num_globals; ++g) {
    const ptc_plan_global_t *global = &r->plan->globals[g];
    for (int64_t i = 0; i < global_instances(global); ++i) {
      const span_t span = whole_instance(r, global->buffer, global->first_instance + i);
      PTC_TRY(check_read(r, &span, 0));
    }
  }
  for (int32_t n = 0; n < r->task->num_results; ++n) {
    const ptc_plan_result_t *result = &r->task->results[n];
    for (int64_t i = 0; i < result->num_instances; ++i) {
      const span_t span = whole_instance(r, result->buffer, result->first_instance + i);
      PTC_TRY(check_read(r, &span, result->line));
    }
  }
  return PTC_OK;
}

static ptc_status_t run_task(replay_t *r, int64_t num_nodes) {
  r->memory.len = 0;
  for (int64_t n = 0; n < num_nodes; ++n) {
    r->expected[n].len = 0;
    r->expected[n].goes_on = false;
  }
  for (int32_t g = 0; g < r->plan->num_globals; ++g) {
    const ptc_plan_global_t *global = &r->plan->globals[g];
    for (int64_t i = 0; i < global_instances(global); ++i) {
      const span_t span = whole_instance(r, global->buffer, global->first_instance + i);
      write_new(r, &span);
    }
  }
  PTC_TRY(run_steps(r, r->task->steps, r->task->num_steps, r->plan->mesh.num_axes, NULL, 0));
  return check_end(r);
}

// Whether some address in |steps| depends on level |level|.
static bool depends_on(const ptc_plan_t *plan, const ptc_step_t *steps, int32_t count,
                       int32_t level) {
  for (int32_t i = 0; i < count; ++i) {
    if (steps[i].kind == PTC_STEP_REPEAT &&
        depends_on(plan, steps[i].body, steps[i].num_steps, level))
      return true;
    for (int32_t a = 0; a < steps[i].num_args; ++a)
      if (steps[i].args[a].byte_offset.coef[level]) return true;
  }
  return false;
}

// The same of |task| and those that it calls.
static bool task_depends_on(const ptc_plan_t *plan, const ptc_task_t *task, int32_t level) {
  if (depends_on(plan, task->steps, task->num_steps, level)) return true;
  bool calls = false;
  for (int32_t i = 0; i < task->num_steps; ++i) calls |= task->steps[i].kind == PTC_STEP_CALL;
  for (int32_t i = 0; calls && i < plan->num_tasks; ++i)
    if (plan->tasks[i].num_micro > 0 &&
        depends_on(plan, plan->tasks[i].steps, plan->tasks[i].num_steps, level))
      return true;
  return false;
}

static ptc_status_t run_coords(replay_t *r, int64_t num_nodes) {
  memset(r->turns, 0, sizeof r->turns);
  PTC_TRY(run_task(r, num_nodes));
  for (int32_t a = 0; a < r->plan->mesh.num_axes; ++a) {
    if (!task_depends_on(r->plan, r->task, a)) continue;
    for (int64_t at = 1; at < r->plan->mesh.axes[a].size; ++at) {
      r->turns[a] = at;
      PTC_TRY(run_task(r, num_nodes));
    }
    r->turns[a] = 0;
  }
  return PTC_OK;
}

// A part that a task calls at all is called for each micro-batch once, in order: sums over micro-batches are whole, and
// their order does not depend on the schedule.
static ptc_status_t check_calls(ptc_diag_t *diag, const ptc_plan_t *plan, const ptc_task_t *task) {
  int64_t *next = ptc_xmalloc((size_t)(plan->num_tasks + 1) * sizeof *next);
  memset(next, 0, (size_t)(plan->num_tasks + 1) * sizeof *next);
  ptc_status_t status = PTC_OK;
  for (int32_t i = 0; i < task->num_steps && status == PTC_OK; ++i) {
    const ptc_step_t *step = &task->steps[i];
    if (step->kind == PTC_STEP_CALL && step->micro != next[step->task]++)
      status = ptc_error(
          diag, (ptc_loc_t){plan->steps_file, step->line, 1}, PTC_INVALID_INPUT, "plan-calls",
          "task \"%s\" calls \"%s\" for micro-batch %" PRId64 " where %" PRId64 " is due",
          task->name, plan->tasks[step->task].name, step->micro, next[step->task] - 1);
  }
  for (int32_t t = 0; t < plan->num_tasks && status == PTC_OK; ++t)
    if (next[t] && next[t] != plan->tasks[t].num_micro)
      status = ptc_error(diag, (ptc_loc_t){plan->steps_file, 1, 1}, PTC_INVALID_INPUT, "plan-calls",
                         "task \"%s\" calls \"%s\" for %" PRId64 " of %" PRId64 " micro-batches",
                         task->name, plan->tasks[t].name, next[t], plan->tasks[t].num_micro);
  free(next);
  return status;
}

ptc_status_t ptc_plan_verify(ptc_diag_t *diag, const ptc_plan_t *plan) {
  replay_t replay = {.diag = diag, .plan = plan};
  int64_t num_nodes = 0;
  replay.first_node = ptc_xmalloc((size_t)(plan->num_buffers + 1) * sizeof *replay.first_node);
  for (int32_t b = 0; b < plan->num_buffers; ++b) {
    replay.first_node[b] = num_nodes;
    num_nodes += plan->buffers[b].num_instances;
  }
  replay.expected = ptc_xmalloc((size_t)(num_nodes + 1) * sizeof *replay.expected);
  memset(replay.expected, 0, (size_t)(num_nodes + 1) * sizeof *replay.expected);
  ptc_status_t status = PTC_OK;
  for (int32_t i = 0; i < plan->num_tasks && status == PTC_OK; ++i) {
    replay.task = &plan->tasks[i];
    replay.micro = -1;
    if (replay.task->num_micro > 0) continue;  // where it is called
    status = check_calls(diag, plan, replay.task);
    if (status == PTC_OK) status = run_coords(&replay, num_nodes);
  }
  for (int64_t n = 0; n < num_nodes; ++n) free(replay.expected[n].pieces);
  free(replay.expected);
  free(replay.first_node);
  free(replay.memory.pieces);
  return status;
}
