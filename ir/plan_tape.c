// Records the tape of a block.
#include "ir/plan_tape.h"

#include <string.h>

enum { MAX_TRIES = 4, MAX_BLOCKS = 1 << 12, MAX_OPS = 1 << 20 };
enum { WRITTEN = 1, READ = 2 };  // contents of the maps of what is known

struct ptc_plan_blocks_s {
  PTC_VEC(ptc_plan_block_t *) items;
  ptc_plan_recorder_t *recorder;
};

struct ptc_plan_recorder_s {
  ptc_plan_block_t *block;
  bool failed;
  int64_t steps_before;
  ptc_map_t registers;    // of contents: number + 1
  ptc_plan_map_t *known;  // per instance: what the block has written, or has a condition
  bool *written;          // per instance
  PTC_VEC(int64_t) touched;
  ptc_plan_map_t memory;  // written
};

// --- blocks

// Whether something that |steps| write, or copy, moves with the level, or they call: then what remains differs in more
// than contents.
static bool moves(const ptc_plan_t *plan, const ptc_step_t *steps, int32_t count) {
  const int32_t level = plan->mesh.num_axes;
  for (int32_t i = 0; i < count; ++i) {
    const ptc_step_t *step = &steps[i];
    if (step->kind == PTC_STEP_CALL) return true;
    if (step->kind == PTC_STEP_REPEAT && moves(plan, step->body, step->num_steps)) return true;
    for (int32_t a = 0; a < step->num_args; ++a)
      if ((step->kind == PTC_STEP_COPY || ptc_step_writes(plan, step, a)) &&
          (step->args[a].instance.coef[level] || step->args[a].byte_offset.coef[level]))
        return true;
  }
  return false;
}

ptc_plan_block_t *ptc_plan_block_find(ptc_plan_replay_t *r, const void *key, int64_t slot,
                                      const ptc_step_t *steps, int32_t count) {
  if (r->plain || r->recorder || r->plan->mesh.num_axes >= PTC_PLAN_MAX_LEVELS) return NULL;
  if (!r->blocks) {
    r->blocks = ptc_xmalloc(sizeof *r->blocks);
    *r->blocks = (ptc_plan_blocks_t){0};
  }
  for (int64_t i = 0; i < r->blocks->items.len; ++i) {
    ptc_plan_block_t *block = r->blocks->items.data[i];
    if (block->key == key && block->slot == slot) return block->unfit ? NULL : block;
  }
  if (r->blocks->items.len == MAX_BLOCKS) return NULL;
  ptc_plan_block_t *block = ptc_xmalloc(sizeof *block);
  *block = (ptc_plan_block_t){.key = key, .slot = slot, .unfit = moves(r->plan, steps, count)};
  PTC_VEC_PUSH(&r->blocks->items, block);
  return block->unfit ? NULL : block;
}

static void clear_block(ptc_plan_block_t *block) {
  PTC_VEC_FREE(&block->ops);
  PTC_VEC_FREE(&block->reads);
  PTC_VEC_FREE(&block->effects);
  PTC_VEC_FREE(&block->nodes);
  PTC_VEC_FREE(&block->spans);
}

void ptc_plan_blocks_clear(ptc_plan_replay_t *r) {
  if (!r->blocks) return;
  for (int64_t i = 0; i < r->blocks->items.len; ++i) {
    clear_block(r->blocks->items.data[i]);
    free(r->blocks->items.data[i]);
  }
  PTC_VEC_FREE(&r->blocks->items);
  ptc_plan_recorder_t *recorder = r->blocks->recorder;
  if (recorder) {
    for (int64_t n = 0; n < r->num_nodes; ++n) free(recorder->known[n].pieces);
    free(recorder->known);
    free(recorder->written);
    free(recorder->memory.pieces);
    PTC_VEC_FREE(&recorder->touched);
    free(recorder);
  }
  free(r->blocks);
  r->blocks = NULL;
  r->recorder = NULL;
}

static ptc_plan_recorder_t *make_recorder(int64_t num_nodes) {
  ptc_plan_recorder_t *recorder = ptc_xmalloc(sizeof *recorder);
  *recorder = (ptc_plan_recorder_t){0};
  recorder->known = ptc_xmalloc((size_t)(num_nodes + 1) * sizeof *recorder->known);
  memset(recorder->known, 0, (size_t)(num_nodes + 1) * sizeof *recorder->known);
  recorder->written = ptc_xmalloc((size_t)num_nodes + 1);
  memset(recorder->written, 0, (size_t)num_nodes + 1);
  return recorder;
}

void ptc_plan_block_begin(ptc_plan_replay_t *r, ptc_plan_block_t *block, int64_t level) {
  if (block->tries++ == MAX_TRIES) {
    block->unfit = true;
    clear_block(block);
    return;
  }
  block->recorded = false;
  block->num_regs = 0;
  block->level = level;
  block->ops.len = block->reads.len = block->effects.len = block->nodes.len = block->spans.len = 0;
  if (!r->blocks->recorder) r->blocks->recorder = make_recorder(r->num_nodes);
  r->recorder = r->blocks->recorder;
  r->recorder->block = block;
  r->recorder->failed = false;
  r->recorder->steps_before = r->num_steps;
}

// --- registers

static void push_op(ptc_plan_recorder_t *recorder, ptc_tape_op_t op) {
  if (recorder->block->ops.len == MAX_OPS) recorder->failed = true;
  if (!recorder->failed) PTC_VEC_PUSH(&recorder->block->ops, op);
}

static const void *key_of(uint64_t content) { return (const void *)(uintptr_t)content; }

// -1, and the recording fails, if |content| is unknown.
static int32_t register_of(ptc_plan_recorder_t *recorder, uint64_t content) {
  const intptr_t number =
      content ? (intptr_t)ptc_map_get(&recorder->registers, key_of(content)) : 0;
  if (!number) recorder->failed = true;
  return (int32_t)number - 1;
}

// |reg| holds |content|. If another register does too, they must be equal whenever the tape is played: which of the two
// is meant is not known.
static void name_register(ptc_plan_recorder_t *recorder, int32_t reg, uint64_t content) {
  if (!content) {
    recorder->failed = true;
    return;
  }
  const intptr_t number = (intptr_t)ptc_map_get(&recorder->registers, key_of(content));
  if (number)
    push_op(recorder, (ptc_tape_op_t){PTC_TAPE_SAME, reg, (int32_t)number - 1, 0, 0});
  else
    ptc_map_set(&recorder->registers, key_of(content), (void *)((intptr_t)reg + 1));
}

// --- what steps do

static void touch(ptc_plan_recorder_t *recorder, int64_t node, int64_t begin, int64_t end,
                  uint64_t how) {
  if (!recorder->known[node].len && !recorder->written[node])
    PTC_VEC_PUSH(&recorder->touched, node);
  ptc_plan_map_set(&recorder->known[node], (ptc_plan_piece_t){begin, end, how, 0});
}

static void add_condition(ptc_plan_replay_t *r, const ptc_ref_t *ref, int64_t node, int64_t begin,
                          int64_t end) {
  ptc_plan_recorder_t *recorder = r->recorder;
  ptc_plan_block_t *block = recorder->block;
  const int32_t level = r->plan->mesh.num_axes;
  const ptc_plan_map_t *expected = &r->expected[node];
  ptc_plan_piece_t piece;
  for (int64_t p = ptc_plan_map_find(expected, begin);
       ptc_plan_map_next(expected, &p, begin, end, &piece);) {
    ptc_tape_read_t read = {.node = node,
                            .buffer = ref->buffer,
                            .node_step = ref->instance.coef[level],
                            .byte_step = ref->byte_offset.coef[level],
                            .begin = piece.begin,
                            .end = piece.end,
                            .shift = piece.shift,
                            .reg = block->num_regs++};
    read.fresh = r->plan->buffers[ref->buffer].cls == PTC_BUFFER_SAVED && !recorder->written[node];
    PTC_VEC_PUSH(&block->reads, read);
    name_register(recorder, read.reg, piece.content);
  }
}

void ptc_plan_tape_read(ptc_plan_replay_t *r, const ptc_ref_t *ref, int64_t node, int64_t begin,
                        int64_t end) {
  ptc_plan_recorder_t *recorder = r->recorder;
  const int32_t level = r->plan->mesh.num_axes;
  const ptc_plan_map_t *known = &recorder->known[node];
  if (ref->instance.coef[level] || ref->byte_offset.coef[level]) {
    recorder->failed |= recorder->written[node];
    add_condition(r, ref, node, begin, end);
    return;
  }
  while (begin < end) {
    const int64_t p = ptc_plan_map_find(known, begin);
    const ptc_plan_piece_t *next = p < known->len ? ptc_plan_map_at(known, p) : NULL;
    if (next && next->begin <= begin) {
      begin = next->end;
      continue;
    }
    const int64_t to = next && next->begin < end ? next->begin : end;
    add_condition(r, ref, node, begin, to);
    touch(recorder, node, begin, to, READ);
    begin = to;
  }
}

void ptc_plan_tape_write(ptc_plan_replay_t *r, int64_t node, int64_t address, int64_t begin,
                         int64_t end) {
  ptc_plan_recorder_t *recorder = r->recorder;
  touch(recorder, node, begin, end, WRITTEN);
  recorder->written[node] = true;
  ptc_plan_map_set(&recorder->memory,
                   (ptc_plan_piece_t){address + begin, address + end, WRITTEN, 0});
}

int64_t ptc_plan_tape_next_read(const ptc_plan_replay_t *r) {
  return r->recorder->block->reads.len;
}

void ptc_plan_tape_op(ptc_plan_replay_t *r, ptc_tape_op_kind_t kind, uint64_t value) {
  push_op(r->recorder, (ptc_tape_op_t){kind, -1, -1, value, 0});
}

void ptc_plan_tape_load(ptc_plan_replay_t *r, uint64_t content) {
  const int32_t reg = register_of(r->recorder, content);
  push_op(r->recorder, (ptc_tape_op_t){PTC_TAPE_LOAD, reg, -1, 0, 0});
}

void ptc_plan_tape_take(ptc_plan_replay_t *r, const ptc_ref_t *ref, int64_t first, int64_t number,
                        const ptc_plan_piece_t *piece, const ptc_plan_piece_t *before,
                        uint64_t shape) {
  const int32_t level = r->plan->mesh.num_axes;
  const bool moved = ref->instance.coef[level] || ref->byte_offset.coef[level];
  const int32_t reg = register_of(r->recorder, piece->content);
  if (moved && number > 0) r->recorder->failed = true;
  if (before) {
    const int32_t other = register_of(r->recorder, before->content);
    push_op(r->recorder, (ptc_tape_op_t){PTC_TAPE_APART, reg, other, 0, 0});
  }
  push_op(r->recorder, (ptc_tape_op_t){PTC_TAPE_READ, reg, moved ? (int32_t)(first + number) : -1,
                                       shape, (uint64_t)(piece->begin + piece->shift)});
}

void ptc_plan_tape_make(ptc_plan_replay_t *r, ptc_tape_op_kind_t kind, uint64_t value,
                        uint64_t content) {
  const int32_t reg = r->recorder->block->num_regs++;
  push_op(r->recorder, (ptc_tape_op_t){kind, reg, -1, value, 0});
  name_register(r->recorder, reg, content);
}

// --- the end

static void add_effects(ptc_plan_recorder_t *recorder, int64_t node, const ptc_plan_map_t *where,
                        const ptc_plan_map_t *map) {
  ptc_plan_piece_t span;
  for (int64_t s = 0; ptc_plan_map_next(where, &s, INT64_MIN, INT64_MAX, &span);) {
    if (span.content != WRITTEN) continue;
    ptc_plan_piece_t piece;
    for (int64_t p = ptc_plan_map_find(map, span.begin);
         ptc_plan_map_next(map, &p, span.begin, span.end, &piece);) {
      const ptc_tape_effect_t effect = {
          node, piece.begin, piece.end, piece.shift, 0, register_of(recorder, piece.content)};
      PTC_VEC_PUSH(&recorder->block->effects, effect);
    }
  }
}

static void finish(ptc_plan_replay_t *r) {
  ptc_plan_recorder_t *recorder = r->recorder;
  ptc_plan_block_t *block = recorder->block;
  for (int64_t i = 0; i < recorder->touched.len; ++i)
    if (recorder->written[recorder->touched.data[i]])
      PTC_VEC_PUSH(&block->nodes, recorder->touched.data[i]);
  ptc_numbers_sort(block->nodes.data, block->nodes.len);
  for (int64_t i = 0; i < block->nodes.len; ++i) {
    const int64_t node = block->nodes.data[i];
    add_effects(recorder, node, &recorder->known[node], &r->expected[node]);
  }
  if (r->plan->arena_bytes < 0) return;
  add_effects(recorder, -1, &recorder->memory, &r->memory);
  ptc_plan_piece_t span;
  for (int64_t s = 0; ptc_plan_map_next(&recorder->memory, &s, INT64_MIN, INT64_MAX, &span);) {
    const ptc_access_t access = {span.begin, span.end, true, 0};
    PTC_VEC_PUSH(&block->spans, access);
  }
}

void ptc_plan_block_end(ptc_plan_replay_t *r, bool ok) {
  ptc_plan_recorder_t *recorder = r->recorder;
  if (!recorder) return;
  ptc_plan_block_t *block = recorder->block;
  if (ok && !recorder->failed) finish(r);
  block->recorded = ok && !recorder->failed;
  block->unfit = !block->recorded;
  block->num_steps = r->num_steps - recorder->steps_before;
  for (int64_t i = 0; i < recorder->touched.len; ++i) {
    ptc_plan_map_clear(&recorder->known[recorder->touched.data[i]]);
    recorder->written[recorder->touched.data[i]] = false;
  }
  recorder->touched.len = 0;
  ptc_plan_map_clear(&recorder->memory);
  ptc_map_deinit(&recorder->registers);
  r->recorder = NULL;
}
