// Registers to slots: liveness over the blocks, then a linear scan. A lane follows one path through the
// kernel and writes its own part of a slot, so what holds for scalar code holds for each lane.
#include <string.h>

#include "runtime/gpusim/flat_impl.h"

typedef struct interval_s {
  int32_t reg, begin,
      end;  // in half instructions: reads at 2 i, writes at 2 i + 1; begin < 0: never alive
} interval_t;

typedef struct live_s {
  flat_t *flat;
  flat_blocks_t blocks;
  int32_t words;  // of a set of registers
  uint64_t *uses, *defs, *in, *out;
  interval_t *intervals;
} live_t;

typedef void (*visit_fn_t)(live_t *live, int32_t reg, int32_t inst, bool is_def, int32_t block);

static bool is_pinned(const flat_t *flat, int32_t reg) {
  return reg == FLAT_CARRY || flat->regs.data[reg].special;
}

static void visit_operand(live_t *live, const ptx_operand_t *operand, int32_t i, bool is_def,
                          int32_t block, visit_fn_t visit) {
  if (operand->kind == PTX_LIST)
    for (int32_t e = 0; e < operand->num_elements; ++e)
      visit_operand(live, &operand->elements[e], i, is_def, block, visit);
  else if (operand->reg >= 0 && !is_pinned(live->flat, operand->reg))
    visit(live, operand->reg, i, is_def && operand->kind == PTX_REG, block);
}

// Reads first, then writes. A write under a guard keeps what other lanes hold: it is a read, too.
static void visit_inst(live_t *live, int32_t i, int32_t block, visit_fn_t visit) {
  const ptx_inst_t *inst = &live->flat->insts.data[i];
  const bool has_destination = ptx_has_destination(inst);
  if (inst->guard >= 0) visit(live, inst->guard, i, false, block);
  for (int32_t o = has_destination && inst->guard < 0; o < inst->num_operands; ++o)
    visit_operand(live, &inst->operands[o], i, false, block, visit);
  if (has_destination) visit_operand(live, &inst->operands[0], i, true, block, visit);
}

static void note_block(live_t *live, int32_t reg, int32_t inst, bool is_def, int32_t block) {
  (void)inst;
  uint64_t *uses = live->uses + (int64_t)block * live->words,
           *defs = live->defs + (int64_t)block * live->words;
  const uint64_t bit = UINT64_C(1) << (reg & 63);
  if (is_def)
    defs[reg >> 6] |= bit;
  else if (!(defs[reg >> 6] & bit))
    uses[reg >> 6] |= bit;
}

static void extend(live_t *live, int32_t reg, int32_t at) {
  interval_t *interval = &live->intervals[reg];
  if (interval->begin < 0) interval->begin = interval->end = at;
  if (at < interval->begin) interval->begin = at;
  if (at > interval->end) interval->end = at;
}

static void note_interval(live_t *live, int32_t reg, int32_t inst, bool is_def, int32_t block) {
  (void)block;
  extend(live, reg, 2 * inst + is_def);
}

static void solve(live_t *live) {
  const int32_t n = live->blocks.num_blocks, words = live->words;
  for (bool changed = true; changed;) {
    changed = false;
    for (int32_t b = n - 1; b >= 0; --b) {
      uint64_t *in = live->in + (int64_t)b * words, *out = live->out + (int64_t)b * words;
      for (int s = 0; s < 2; ++s) {
        const int32_t next = live->blocks.blocks[b].next[s];
        if (next < 0) continue;
        for (int32_t w = 0; w < words; ++w) out[w] |= live->in[(int64_t)next * words + w];
      }
      for (int32_t w = 0; w < words; ++w) {
        const uint64_t value =
            live->uses[(int64_t)b * words + w] | (out[w] & ~live->defs[(int64_t)b * words + w]);
        if (value != in[w]) in[w] = value, changed = true;
      }
    }
  }
}

static void extend_set(live_t *live, const uint64_t *set, int32_t at) {
  for (int32_t w = 0; w < live->words; ++w)
    for (uint64_t rest = set[w]; rest; rest &= rest - 1)
      extend(live, 64 * w + __builtin_ctzll(rest), at);
}

static void find_intervals(live_t *live) {
  const int32_t num_regs = (int32_t)live->flat->regs.len;
  for (int32_t r = 0; r < num_regs; ++r) live->intervals[r] = (interval_t){r, -1, -1};
  for (int32_t b = 0; b < live->blocks.num_blocks; ++b) {
    const flat_block_t *block = &live->blocks.blocks[b];
    for (int32_t i = block->first; i <= block->last; ++i) visit_inst(live, i, b, note_interval);
    extend_set(live, live->in + (int64_t)b * live->words, 2 * block->first);
    extend_set(live, live->out + (int64_t)b * live->words, 2 * block->last + 1);
  }
}

static int by_begin(const void *a, const void *b) {
  const interval_t *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return x->reg < y->reg ? -1 : x->reg > y->reg;
}

// The slots of one width: when each becomes free.
typedef struct pool_s {
  PTC_VEC(int32_t) ends;
} pool_t;

static int32_t take(pool_t *pool, const interval_t *interval) {
  for (int64_t s = 0; s < pool->ends.len; ++s)
    if (pool->ends.data[s] < interval->begin) {
      pool->ends.data[s] = interval->end;
      return (int32_t)s;
    }
  PTC_VEC_PUSH(&pool->ends, interval->end);
  return (int32_t)pool->ends.len - 1;
}

static const int32_t slot_bytes[] = {4, 64, 128, 256};

// Slots of narrow registers come first; each width begins at a multiple of its slots.
static void lay_out(flat_t *flat, pool_t *pools, const int32_t *slots) {
  int64_t base[4], at = 0;
  for (int w = 0; w < 4; ++w) {
    at = (at + 255) / 256 * 256;
    base[w] = at;
    at += pools[w].ends.len * slot_bytes[w];
  }
  flat->program->reg_bytes = (at + 255) / 256 * 256;
  for (int64_t r = 0; r < flat->regs.len; ++r) {
    const ptx_width_t w = flat->regs.data[r].width;
    flat->offsets[r] = slots[r] < 0 ? 0 : (int32_t)(base[w] + (int64_t)slots[r] * slot_bytes[w]);
  }
}

static void list_specials(flat_t *flat) {
  sim_program_t *program = flat->program;
  program->specials = PTC_ARENA_ARRAY(&program->arena, sim_special_t, flat->regs.len + 1);
  for (int64_t r = 0; r < flat->regs.len; ++r)
    if (flat->regs.data[r].special)
      program->specials[program->num_specials++] =
          (sim_special_t){flat->regs.data[r].special, flat->offsets[r]};
}

void flat_place_regs(flat_t *flat) {
  ptc_arena_t arena = {0};
  const int32_t num_regs = (int32_t)flat->regs.len;
  live_t live = {
      .flat = flat, .blocks = flat_find_blocks(flat, &arena), .words = (num_regs + 63) / 64};
  const int64_t size = (int64_t)live.blocks.num_blocks * live.words;
  live.uses = PTC_ARENA_ARRAY(&arena, uint64_t, size);
  live.defs = PTC_ARENA_ARRAY(&arena, uint64_t, size);
  live.in = PTC_ARENA_ARRAY(&arena, uint64_t, size);
  live.out = PTC_ARENA_ARRAY(&arena, uint64_t, size);
  live.intervals = PTC_ARENA_ARRAY(&arena, interval_t, num_regs);
  int32_t *slots = PTC_ARENA_ARRAY(&arena, int32_t, num_regs);
  for (int32_t b = 0; b < live.blocks.num_blocks; ++b)
    for (int32_t i = live.blocks.blocks[b].first; i <= live.blocks.blocks[b].last; ++i)
      visit_inst(&live, i, b, note_block);
  solve(&live);
  find_intervals(&live);
  pool_t pools[4] = {0};
  const interval_t always = {0, 0, 2 * (int32_t)flat->insts.len + 2};
  for (int32_t r = 0; r < num_regs; ++r)
    slots[r] = is_pinned(flat, r) ? take(&pools[flat->regs.data[r].width], &always) : -1;
  qsort(live.intervals, (size_t)num_regs, sizeof *live.intervals, by_begin);
  for (int32_t i = 0; i < num_regs; ++i) {
    const interval_t *interval = &live.intervals[i];
    if (interval->begin >= 0)
      slots[interval->reg] = take(&pools[flat->regs.data[interval->reg].width], interval);
  }
  flat->offsets = ptc_xmalloc(sizeof *flat->offsets * (size_t)(num_regs + 1));
  lay_out(flat, pools, slots);
  list_specials(flat);
  for (int w = 0; w < 4; ++w) PTC_VEC_FREE(&pools[w].ends);
  ptc_arena_deinit(&arena);
}
