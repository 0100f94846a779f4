// Plays the tape of a block for another level.
#include <stdlib.h>

#include "ir/plan_tape.h"

typedef struct player_s {
  const ptc_plan_replay_t *replay;
  ptc_plan_block_t *block;
  int64_t by;  // levels from the one that was recorded
  uint64_t *regs;
  int64_t *moved;  // per condition: by how much the place in the content has
  uint64_t sent;
  int64_t num_received;
} player_t;

// --- conditions

static bool has_node(const ptc_plan_block_t *block, int64_t node) {
  const int64_t at = ptc_numbers_find(block->nodes.data, block->nodes.len, node);
  return at < block->nodes.len && block->nodes.data[at] == node;
}

// Whether |piece| of an instance at |address| lies in memory.
static bool lies(const ptc_plan_map_t *memory, const ptc_plan_piece_t *piece, int64_t address,
                 int64_t *guess) {
  int64_t place = address + piece->begin;
  for (int64_t m = ptc_plan_map_near(memory, place, guess); place < address + piece->end; ++m) {
    const ptc_plan_piece_t *have = m < memory->len ? ptc_plan_map_at(memory, m) : NULL;
    if (!have || have->begin > place || have->content != piece->content ||
        have->shift != piece->shift - address)
      return false;
    place = have->end;
  }
  return true;
}

static bool check_condition(player_t *p, int64_t number) {
  const ptc_plan_replay_t *r = p->replay;
  ptc_tape_read_t *read = &p->block->reads.data[number];
  const bool moves = read->node_step || read->byte_step;
  const int64_t node = read->node + p->by * read->node_step;
  const int64_t begin = read->begin + p->by * read->byte_step;
  const int64_t end = read->end + p->by * read->byte_step;
  const ptc_plan_map_t *map = &r->expected[node];
  if (read->fresh && r->micro >= 0 && !map->goes_on && map->micro != r->micro) return false;
  ptc_plan_piece_t piece;
  int64_t at = ptc_plan_map_near(map, begin, &read->piece);
  if (!ptc_plan_map_next(map, &at, begin, end, &piece) || piece.begin != begin || piece.end != end)
    return false;
  p->regs[read->reg] = piece.content;
  p->moved[number] = begin + piece.shift - (read->begin + read->shift);
  if (!moves && p->moved[number]) return false;
  if (moves && has_node(p->block, node)) return false;
  if (r->plan->arena_bytes < 0) return true;
  const int64_t address =
      r->plan->buffers[read->buffer].offsets[node - r->first_node[read->buffer]];
  return lies(&r->memory, &piece, address, &read->place) &&
         !(moves && ptc_spans_meet(p->block->spans.data, p->block->spans.len, address + begin,
                                   address + end));
}

// --- ops

static bool run_ops(player_t *p) {
  uint64_t digest = 0;
  for (int64_t i = 0; i < p->block->ops.len; ++i) {
    const ptc_tape_op_t *op = &p->block->ops.data[i];
    switch (op->kind) {
      case PTC_TAPE_BEGIN: digest = op->value; break;
      case PTC_TAPE_LOAD: digest = p->regs[op->reg]; break;
      case PTC_TAPE_MIX: digest = ptc_plan_mix(digest, op->value); break;
      case PTC_TAPE_LEVEL: digest = ptc_plan_mix(digest, op->value + (uint64_t)p->by); break;
      case PTC_TAPE_RECEIVED: digest = ptc_plan_mix(digest, (uint64_t)p->num_received++); break;
      case PTC_TAPE_READ:
        digest = ptc_plan_mix(ptc_plan_mix(digest, p->regs[op->reg]), op->value);
        digest =
            ptc_plan_mix(digest, op->place + (op->other < 0 ? 0 : (uint64_t)p->moved[op->other]));
        break;
      case PTC_TAPE_SAVE: p->regs[op->reg] = digest; break;
      case PTC_TAPE_DEFINE: p->regs[op->reg] = ptc_plan_mix(digest, op->value); break;
      case PTC_TAPE_SENT: p->sent = ptc_plan_mix(p->sent, digest); break;
      case PTC_TAPE_SAME:
        if (p->regs[op->reg] != p->regs[op->other]) return false;
        break;
      case PTC_TAPE_APART:
        if (p->regs[op->reg] == p->regs[op->other]) return false;
        break;
    }
  }
  return true;
}

// --- effects

static void apply(ptc_plan_replay_t *r, const player_t *p) {
  ptc_plan_block_t *block = p->block;
  for (int64_t i = 0; i < block->nodes.len; ++i) {
    r->expected[block->nodes.data[i]].micro = r->micro;
    r->expected[block->nodes.data[i]].goes_on |= r->micro < 0;
  }
  for (int64_t i = 0; i < block->effects.len; ++i) {
    const ptc_tape_effect_t *effect = &block->effects.data[i];
    ptc_plan_map_set(
        effect->node < 0 ? &r->memory : &r->expected[effect->node],
        (ptc_plan_piece_t){effect->begin, effect->end, p->regs[effect->reg], effect->shift});
  }
  r->sent = p->sent;
  r->num_received = p->num_received;
  r->num_steps += block->num_steps;
}

bool ptc_plan_block_play(ptc_plan_replay_t *r, ptc_plan_block_t *block, int64_t level) {
  if (!block->recorded || r->num_steps + block->num_steps > PTC_PLAN_MAX_REPLAYED) return false;
  uint64_t *regs = ptc_xmalloc((size_t)(block->num_regs + 1) * sizeof *regs);
  int64_t *moved = ptc_xmalloc((size_t)(block->reads.len + 1) * sizeof *moved);
  player_t player = {r, block, level - block->level, regs, moved, r->sent, r->num_received};
  bool fits = true;
  for (int64_t c = 0; c < block->reads.len && fits; ++c) fits = check_condition(&player, c);
  fits = fits && run_ops(&player);
  if (fits) apply(r, &player);
  free(regs);
  free(moved);
  return fits;
}
