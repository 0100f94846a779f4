// Replays a plan on a map of the arena that knows, for every byte, which write it comes from.
//
// Each write of a kernel is a content of its own. A map says which content lies where: one for the arena, and
// one per instance for what it should hold. A copy carries contents over. A read is right if both agree.
//
// Ranks that differ by a coordinate alone are proved once: all run the same steps on the same instances. What is read
// of an instance may depend on coordinates, and is looked at for each of them; an axis on which some address depends
// that is written is replayed at each of its coordinates, the others at 0.
//
// A content is a digest of how it was made: the kernel, the turn, and the contents that the kernel read. What a task
// leaves in its globals and results is so compared with what it was compiled to leave (plan_ledger.c).
//
// What a part does for the first micro-batch is recorded, and played for the others (plan_tape.h).
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/plan_order.h"
#include "ir/plan_tape.h"

enum { MIN_PLAYED = 4 };  // turns: of fewer no tape is recorded

typedef ptc_plan_map_t map_t;
typedef ptc_plan_piece_t piece_t;
typedef ptc_plan_replay_t replay_t;

// --- instances

typedef struct span_s {
  const ptc_buffer_t *buffer;
  int64_t instance, address, begin, end;  // bytes of the instance
  map_t *expected;
} span_t;

static int64_t node_of(const replay_t *r, const span_t *span) {
  return span->expected - r->expected;
}

static span_t whole_instance(const replay_t *r, int32_t number, int64_t instance) {
  const ptc_buffer_t *buffer = &r->plan->buffers[number];
  return (span_t){buffer, instance,      buffer->offsets[instance],
                  0,      buffer->bytes, &r->expected[r->first_node[number] + instance]};
}

// ptc_affine_at of the turns; they are looked at often, and most of them count.
static int64_t at_turns(const replay_t *r, const ptc_affine_t *affine) {
  int64_t value = affine->base;
  for (int32_t l = 0; l < PTC_PLAN_MAX_LEVELS; ++l) value += affine->coef[l] * r->turns[l];
  return value;
}

static span_t span_of(const replay_t *r, const ptc_ref_t *ref) {
  span_t span = whole_instance(r, ref->buffer, at_turns(r, &ref->instance));
  span.begin = at_turns(r, &ref->byte_offset);
  span.end = span.begin + ref->bytes;
  return span;
}

static ptc_status_t fault(replay_t *r, const span_t *span, int32_t line, const char *id,
                          const char *what) {
  char origin[256] = "";
  if (span->buffer->loc_file)
    snprintf(origin, sizeof origin, " of %s:%" PRId32, span->buffer->loc_file,
             span->buffer->loc_line);
  return ptc_error(r->diag, (ptc_loc_t){r->plan->steps_file, line, 1}, PTC_INVALID_INPUT, id,
                   "task \"%s\", step %" PRId64 ": \"%s\"%s, instance %" PRId64 ", %s",
                   r->task->name, r->num_steps, span->buffer->name, origin, span->instance, what);
}

static ptc_status_t check_read(replay_t *r, const span_t *span, int32_t line) {
  int64_t at = span->begin;
  // A slot serves one micro-batch after another.
  if (span->buffer->cls == PTC_BUFFER_SAVED && r->micro >= 0 && span->expected->len > 0 &&
      !span->expected->goes_on && span->expected->micro != r->micro)
    return fault(r, span, line, "plan-stale", "holds what another micro-batch has left there");
  for (int64_t p = ptc_plan_map_find(span->expected, at); at < span->end; ++p) {
    if (p == span->expected->len || ptc_plan_map_at(span->expected, p)->begin > at)
      return fault(r, span, line, "plan-uninitialized", "is read before it is written");
    const piece_t *want = ptc_plan_map_at(span->expected, p);
    const int64_t end = want->end < span->end ? want->end : span->end;
    int64_t place = r->plan->arena_bytes < 0 ? span->address + end : span->address + at;
    for (int64_t m = ptc_plan_map_find(&r->memory, place); place < span->address + end; ++m) {
      const piece_t *have = m < r->memory.len ? ptc_plan_map_at(&r->memory, m) : NULL;
      if (!have || have->begin > place || have->content != want->content ||
          have->shift != want->shift - span->address)
        return fault(r, span, line, "plan-overwritten", "was overwritten before it is read");
      place = have->end;
    }
    at = end;
  }
  return PTC_OK;
}

// Reads |ref|, at each coordinate that it depends on. |*out_span|: at the rank's own.
static ptc_status_t check_ref(replay_t *r, const ptc_ref_t *ref, int32_t line, span_t *out_span) {
  const ptc_mesh_t *mesh = &r->plan->mesh;
  *out_span = span_of(r, ref);
  for (span_t span = *out_span;; span = span_of(r, ref)) {
    PTC_TRY(check_read(r, &span, line));
    if (r->recorder) ptc_plan_tape_read(r, ref, node_of(r, &span), span.begin, span.end);
    int32_t a = mesh->num_axes - 1;
    for (; a >= 0; --a) {
      if (!ref->byte_offset.coef[a] || r->fixed[a]) continue;
      if (++r->turns[a] < mesh->axes[a].size) break;
      r->turns[a] = 0;
    }
    if (a < 0) return PTC_OK;
  }
}

// |hash| mixed with how |affine| depends on the coordinates.
static uint64_t mix_coords(const replay_t *r, uint64_t hash, const ptc_affine_t *affine) {
  for (int32_t a = 0; a < r->plan->mesh.num_axes; ++a)
    hash = ptc_plan_mix(hash, (uint64_t)affine->coef[a]);
  return hash;
}

// --- digests, which are recorded as they are made

static uint64_t begin_digest(replay_t *r, uint64_t value) {
  if (r->recorder) ptc_plan_tape_op(r, PTC_TAPE_BEGIN, value);
  return value;
}

// Of the operand |ref|, that at |span|, whose conditions begin with |first|.
static uint64_t mix_read(replay_t *r, uint64_t hash, const ptc_ref_t *ref, const span_t *span,
                         int64_t first) {
  const uint64_t coords = mix_coords(r, 0, &ref->byte_offset);
  piece_t piece, before;
  int64_t number = 0;
  for (int64_t p = ptc_plan_map_find(span->expected, span->begin);
       ptc_plan_map_next(span->expected, &p, span->begin, span->end, &piece); ++number) {
    const uint64_t shape = ptc_plan_mix(ptc_plan_mix(coords, (uint64_t)(piece.begin - span->begin)),
                                        (uint64_t)(piece.end - span->begin));
    if (r->recorder)
      ptc_plan_tape_take(r, ref, first, number, &piece,
                         number && before.shift == piece.shift ? &before : NULL, shape);
    hash = ptc_plan_mix(ptc_plan_mix(hash, piece.content), shape);
    hash = ptc_plan_mix(hash, (uint64_t)(piece.begin + piece.shift));
    before = piece;
  }
  return hash;
}

// Checks and mixes in the operand |ref|.
static ptc_status_t read_ref(replay_t *r, const ptc_ref_t *ref, int32_t line, uint64_t *hash) {
  const int64_t first = r->recorder ? ptc_plan_tape_next_read(r) : 0;
  span_t span;
  PTC_TRY(check_ref(r, ref, line, &span));
  *hash = mix_read(r, *hash, ref, &span, first);
  return PTC_OK;
}

static void put(replay_t *r, const span_t *span, int64_t begin, int64_t end, uint64_t content,
                int64_t shift) {
  if (r->recorder) ptc_plan_tape_write(r, node_of(r, span), span->address, begin, end);
  span->expected->micro = r->micro;
  span->expected->goes_on |= r->micro < 0;
  ptc_plan_map_set(span->expected, (piece_t){begin, end, content, shift});
  if (r->plan->arena_bytes < 0) return;
  ptc_plan_map_set(&r->memory, (piece_t){span->address + begin, span->address + end, content,
                                         shift - span->address});
}

// Result |number| of a step that is |hash|.
static void write_new(replay_t *r, const ptc_ref_t *ref, uint64_t hash, int32_t number) {
  const span_t span = span_of(r, ref);
  const uint64_t what = mix_coords(r, (uint64_t)number, &ref->byte_offset);
  hash = ptc_plan_mix(hash, what);
  if (r->recorder) ptc_plan_tape_make(r, PTC_TAPE_DEFINE, what, hash);
  put(r, &span, span.begin, span.end, hash, 0);
}

// --- steps

static ptc_status_t run_copy(replay_t *r, const ptc_step_t *step) {
  span_t from;
  PTC_TRY(check_ref(r, &step->args[0], step->line, &from));
  const span_t to = span_of(r, &step->args[1]);
  // The pieces are taken out first: both may be parts of one instance.
  map_t pieces = {0};
  const int64_t shift = from.begin - to.begin;
  for (int64_t p = ptc_plan_map_find(from.expected, from.begin);
       p < from.expected->len && ptc_plan_map_at(from.expected, p)->begin < from.end; ++p) {
    piece_t piece = *ptc_plan_map_at(from.expected, p);
    if (piece.begin < from.begin) piece.begin = from.begin;
    if (piece.end > from.end) piece.end = from.end;
    ptc_plan_map_set(&pieces, piece);
  }
  // Where another part is copied on every rank, another content results.
  const uint64_t out = mix_coords(r, 0, &step->args[1].byte_offset);
  const uint64_t in = mix_coords(r, 0, &step->args[0].byte_offset);
  for (int64_t p = 0; p < pieces.len; ++p) {
    const piece_t *piece = ptc_plan_map_at(&pieces, p);
    const uint64_t content =
        in == out ? piece->content : ptc_plan_mix(ptc_plan_mix(piece->content, in), out);
    if (r->recorder && in != out) {
      ptc_plan_tape_load(r, piece->content);
      ptc_plan_tape_op(r, PTC_TAPE_MIX, in);
      ptc_plan_tape_make(r, PTC_TAPE_DEFINE, out, content);
    }
    put(r, &to, piece->begin - shift, piece->end - shift, content, piece->shift + shift);
  }
  free(pieces.pieces);
  return PTC_OK;
}

// Who runs what: its name, how its parameters are used, and its tiles.
static uint64_t mix_kernel(uint64_t hash, const ptc_plan_kernel_t *kernel) {
  hash = ptc_plan_mix_text(hash, kernel->name);
  for (int32_t p = 0; p < kernel->num_params; ++p) hash = ptc_plan_mix(hash, kernel->modes[p]);
  for (int32_t n = 0; n < kernel->num_runs; ++n) {
    hash = ptc_plan_mix(hash, (uint64_t)kernel->runs[n].count);
    for (int32_t p = 0; p < kernel->runs[n].num_phases; ++p)
      hash = ptc_plan_mix(hash, (uint64_t)kernel->runs[n].tiles[p]);
  }
  return hash;
}

static ptc_status_t run_launch(replay_t *r, const ptc_step_t *step) {
  const ptc_plan_kernel_t *kernel = &r->plan->kernels[step->kernel];
  const int32_t level = r->plan->mesh.num_axes;
  uint64_t hash = r->kernel_hashes[step->kernel];
  for (int32_t l = level + 1; l < PTC_PLAN_MAX_LEVELS; ++l)
    hash = ptc_plan_mix(hash, (uint64_t)r->turns[l]);
  hash = begin_digest(r, hash);
  if (level < PTC_PLAN_MAX_LEVELS) {
    const uint64_t turn = (uint64_t)r->turns[level];
    if (r->recorder) ptc_plan_tape_op(r, PTC_TAPE_LEVEL, turn);
    hash = ptc_plan_mix(hash, turn);
  }
  for (int32_t a = 0; a < kernel->num_params; ++a)
    if (kernel->modes[a] != 1) PTC_TRY(read_ref(r, &step->args[a], step->line, &hash));
  for (int32_t a = 0; a < step->num_args; ++a)
    if (a >= kernel->num_params || kernel->modes[a] != 0) write_new(r, &step->args[a], hash, a);
  return PTC_OK;
}

static uint64_t mix_pieces(uint64_t hash, const ptc_pieces_t *pieces) {
  hash = ptc_plan_mix(hash, (uint64_t)pieces->outer);
  hash = ptc_plan_mix(hash, (uint64_t)pieces->chunk);
  return ptc_plan_mix(hash, (uint64_t)pieces->row);
}

// Of part |number|, whatever parts are exchanged with it.
static uint64_t hash_part(const ptc_step_t *step, int32_t number) {
  const ptc_collective_t *c = step->collective;
  uint64_t hash = ptc_plan_mix(PTC_STEP_COLLECTIVE, (uint64_t)c->kind);
  hash = ptc_plan_mix(hash, (uint64_t)c->reduce);
  hash = ptc_plan_mix(hash, (uint64_t)c->dtype);
  for (int32_t i = 0; i < c->num_axes; ++i) {
    hash = ptc_plan_mix_text(hash, c->axes[i].axis);
    hash = ptc_plan_mix(hash, (uint64_t)c->axes[i].pre);
    hash = ptc_plan_mix(hash, (uint64_t)c->axes[i].size);
  }
  return mix_pieces(mix_pieces(hash, &c->parts[number].in), &c->parts[number].out);
}

// Results are made of what all members gave; what is cut off of a piece holds nothing that counts.
static ptc_status_t run_collective(replay_t *r, const ptc_step_t *step) {
  const int32_t count = step->collective->num_parts;
  uint64_t *hashes = ptc_xmalloc((size_t)(count + 1) * sizeof *hashes);
  ptc_status_t status = PTC_OK;
  for (int32_t p = 0; p < count && status == PTC_OK; ++p) {
    hashes[p] = begin_digest(r, hash_part(step, p));
    status = read_ref(r, &step->args[2 * p], step->line, &hashes[p]);
    if (r->recorder && status == PTC_OK) ptc_plan_tape_make(r, PTC_TAPE_SAVE, 0, hashes[p]);
  }
  for (int32_t p = 0; p < count && status == PTC_OK; ++p) {
    if (r->recorder) ptc_plan_tape_load(r, hashes[p]);
    write_new(r, &step->args[2 * p + 1], hashes[p], 0);
  }
  free(hashes);
  return status;
}

static ptc_status_t count_step(replay_t *r, const ptc_step_t *step) {
  if (++r->num_steps <= PTC_PLAN_MAX_REPLAYED) return PTC_OK;
  return ptc_error(r->diag, (ptc_loc_t){r->plan->steps_file, step->line, 1}, PTC_INVALID_INPUT,
                   "plan-limit", "the plan has more than %d steps, all turns counted",
                   PTC_PLAN_MAX_REPLAYED);
}

static ptc_status_t run_steps(replay_t *r, const ptc_step_t *steps, int32_t count, int32_t depth,
                              const ptc_step_t *repeat, int64_t trip);

// For one micro-batch.
static ptc_status_t run_call(replay_t *r, const ptc_step_t *step, int32_t depth) {
  const ptc_task_t *task = &r->plan->tasks[step->task];
  ptc_status_t status = PTC_OK;
  r->micro = step->micro;
  ptc_plan_block_t *block = NULL;
  if (task->num_micro >= MIN_PLAYED * task->num_slots)
    block = ptc_plan_block_find(r, task, step->slot, task->steps, task->num_steps);
  if (!block || !ptc_plan_block_play(r, block, step->micro)) {
    r->turns[depth] = step->micro;
    r->turns[depth + 1] = step->slot;
    if (block) ptc_plan_block_begin(r, block, step->micro);
    status = run_steps(r, task->steps, task->num_steps, depth + 2, NULL, 0);
    if (block) ptc_plan_block_end(r, status == PTC_OK);
    r->turns[depth] = r->turns[depth + 1] = 0;
  }
  r->micro = -1;
  return status;
}

static ptc_status_t run_transfer(replay_t *r, const ptc_step_t *step) {
  uint64_t hash = begin_digest(
      r,
      ptc_plan_mix(ptc_plan_mix((uint64_t)step->kind, (uint64_t)step->peer), (uint64_t)step->tag));
  if (step->kind == PTC_STEP_SEND) {
    PTC_TRY(read_ref(r, &step->args[0], step->line, &hash));
    if (r->recorder) ptc_plan_tape_op(r, PTC_TAPE_SENT, 0);
    r->sent = ptc_plan_mix(r->sent, hash);
  } else {
    if (r->recorder) ptc_plan_tape_op(r, PTC_TAPE_RECEIVED, 0);
    write_new(r, &step->args[0], ptc_plan_mix(hash, (uint64_t)r->num_received++), 0);
  }
  return PTC_OK;
}

// Whether all steps of |repeat| run in its trip |trip|.
static bool is_full(const ptc_step_t *repeat, int64_t trip) {
  bool full = true;
  int64_t turn;
  for (int32_t i = 0; i < repeat->num_steps; ++i)
    full &= ptc_repeat_turn(repeat, &repeat->body[i], trip, &turn);
  return full;
}

static ptc_status_t run_trip(replay_t *r, const ptc_step_t *step, int32_t depth, int64_t trip) {
  ptc_plan_block_t *block = NULL;
  if (depth == r->plan->mesh.num_axes && step->count >= MIN_PLAYED && is_full(step, trip))
    block = ptc_plan_block_find(r, step, 0, step->body, step->num_steps);
  const int64_t turn = step->reverse ? -trip : trip;
  if (block && ptc_plan_block_play(r, block, turn)) return PTC_OK;
  if (block) ptc_plan_block_begin(r, block, turn);
  const ptc_status_t status = run_steps(r, step->body, step->num_steps, depth + 1, step, trip);
  if (block) ptc_plan_block_end(r, status == PTC_OK);
  return status;
}

static ptc_status_t run_repeat(replay_t *r, const ptc_step_t *step, int32_t depth) {
  int64_t trip, end;
  for (ptc_repeat_trips(step, &trip, &end); trip < end; ++trip) {
    PTC_TRY(run_trip(r, step, depth, trip));
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

int64_t ptc_plan_num_instances(const ptc_plan_global_t *global) {
  int64_t count = 1;
  for (int32_t c = 0; c < global->num_counts; ++c) count *= global->counts[c];
  return count;
}

uint64_t ptc_plan_untouched(int32_t global, int64_t instance) {
  return ptc_plan_mix(ptc_plan_mix(0, (uint64_t)global), (uint64_t)instance);
}

static ptc_status_t check_end(replay_t *r) {
  for (int32_t g = 0; g < r->plan->num_globals; ++g) {
    const ptc_plan_global_t *global = &r->plan->globals[g];
    for (int64_t i = 0; i < ptc_plan_num_instances(global); ++i) {
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

ptc_status_t ptc_plan_replay_task(replay_t *r) {
  ptc_plan_blocks_clear(r);
  ptc_plan_map_clear(&r->memory);
  r->sent = 0;
  r->num_received = 0;
  r->micro = -1;
  for (int64_t n = 0; n < r->num_nodes; ++n) {
    ptc_plan_map_clear(&r->expected[n]);
    r->expected[n].goes_on = false;
  }
  for (int32_t g = 0; g < r->plan->num_globals; ++g) {
    const ptc_plan_global_t *global = &r->plan->globals[g];
    for (int64_t i = 0; i < ptc_plan_num_instances(global); ++i) {
      const span_t span = whole_instance(r, global->buffer, global->first_instance + i);
      put(r, &span, span.begin, span.end, ptc_plan_untouched(g, i), 0);
    }
  }
  PTC_TRY(run_steps(r, r->task->steps, r->task->num_steps, r->plan->mesh.num_axes, NULL, 0));
  return check_end(r);
}

void ptc_plan_replay_init(replay_t *r, ptc_diag_t *diag, const ptc_plan_t *plan) {
  *r = (replay_t){.diag = diag, .plan = plan, .micro = -1};
  r->first_node = ptc_xmalloc((size_t)(plan->num_buffers + 1) * sizeof *r->first_node);
  for (int32_t b = 0; b < plan->num_buffers; ++b) {
    r->first_node[b] = r->num_nodes;
    r->num_nodes += plan->buffers[b].num_instances;
  }
  r->expected = ptc_xmalloc((size_t)(r->num_nodes + 1) * sizeof *r->expected);
  memset(r->expected, 0, (size_t)(r->num_nodes + 1) * sizeof *r->expected);
  r->kernel_hashes = ptc_xmalloc((size_t)(plan->num_kernels + 1) * sizeof *r->kernel_hashes);
  for (int32_t k = 0; k < plan->num_kernels; ++k)
    r->kernel_hashes[k] = mix_kernel(ptc_plan_mix(0, PTC_STEP_LAUNCH), &plan->kernels[k]);
}

void ptc_plan_replay_deinit(replay_t *r) {
  ptc_plan_blocks_clear(r);
  for (int64_t n = 0; n < r->num_nodes; ++n) free(r->expected[n].pieces);
  free(r->expected);
  free(r->first_node);
  free(r->kernel_hashes);
  free(r->memory.pieces);
}

// --- coordinates

// Whether some address that |steps| write to depends on level |level|.
static bool writes_depend_on(const ptc_plan_t *plan, const ptc_step_t *steps, int32_t count,
                             int32_t level) {
  for (int32_t i = 0; i < count; ++i) {
    const ptc_step_t *step = &steps[i];
    if (step->kind == PTC_STEP_REPEAT && writes_depend_on(plan, step->body, step->num_steps, level))
      return true;
    for (int32_t a = 0; a < step->num_args; ++a)
      if (step->args[a].byte_offset.coef[level] && ptc_step_writes(plan, step, a)) return true;
  }
  return false;
}

// The same of |task| and those that it calls.
static bool task_depends_on(const ptc_plan_t *plan, const ptc_task_t *task, int32_t level) {
  if (writes_depend_on(plan, task->steps, task->num_steps, level)) return true;
  bool calls = false;
  for (int32_t i = 0; i < task->num_steps; ++i) calls |= task->steps[i].kind == PTC_STEP_CALL;
  for (int32_t i = 0; calls && i < plan->num_tasks; ++i)
    if (plan->tasks[i].num_micro > 0 &&
        writes_depend_on(plan, plan->tasks[i].steps, plan->tasks[i].num_steps, level))
      return true;
  return false;
}

static ptc_status_t run_coords(replay_t *r) {
  memset(r->turns, 0, sizeof r->turns);
  for (int32_t a = 0; a < r->plan->mesh.num_axes; ++a)
    r->fixed[a] = task_depends_on(r->plan, r->task, a);
  PTC_TRY(ptc_plan_replay_task(r));
  PTC_TRY(ptc_plan_check_counts(r->diag, r->plan, r->task));
  PTC_TRY(ptc_plan_check_values(r));
  for (int32_t a = 0; a < r->plan->mesh.num_axes; ++a) {
    for (int64_t at = 1; r->fixed[a] && at < r->plan->mesh.axes[a].size; ++at) {
      r->turns[a] = at;
      PTC_TRY(ptc_plan_replay_task(r));
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

ptc_status_t ptc_plan_verify_replayed(ptc_diag_t *diag, const ptc_plan_t *plan, bool plain) {
  replay_t replay;
  ptc_plan_replay_init(&replay, diag, plan);
  replay.plain = plain;
  ptc_status_t status = PTC_OK;
  for (int32_t i = 0; i < plan->num_tasks && status == PTC_OK; ++i) {
    replay.task = &plan->tasks[i];
    if (replay.task->num_micro > 0) continue;  // where it is called
    status = check_calls(diag, plan, replay.task);
    if (status == PTC_OK) status = run_coords(&replay);
  }
  ptc_plan_replay_deinit(&replay);
  return status;
}

ptc_status_t ptc_plan_verify(ptc_diag_t *diag, const ptc_plan_t *plan) {
  return ptc_plan_verify_replayed(diag, plan, false);
}

ptc_status_t ptc_plan_prove(ptc_diag_t *diag, const ptc_plan_t *const *stages, int32_t num_stages) {
  PTC_TRY(ptc_plan_verify_stages(diag, stages, num_stages));
  for (int32_t s = 0; s < num_stages; ++s) {
    PTC_TRY(ptc_plan_verify(diag, stages[s]));
    PTC_TRY(ptc_plan_verify_order(diag, stages[s]));
  }
  return PTC_OK;
}
