// The interpreter's loop. Lanes that part at a branch wait for each other at its immediate postdominator.
#include <inttypes.h>

#include "runtime/gpusim/exec_impl.h"

// Keeps the lanes of |d| outside |mask|.
static void blend(void *d, const void *result, ptx_width_t width, uint32_t mask) {
  if (width == PTX_WIDTH_32) {
    uint32_t *to = d;
    const uint32_t *from = result;
    for (uint32_t i = 0; i < SIM_LANES; ++i) to[i] = mask >> i & 1 ? from[i] : to[i];
  } else if (width == PTX_WIDTH_64) {
    uint64_t *to = d;
    const uint64_t *from = result;
    for (uint32_t i = 0; i < SIM_LANES; ++i) to[i] = mask >> i & 1 ? from[i] : to[i];
  } else {
    uint16_t *to = d;
    const uint16_t *from = result;
    for (uint32_t i = 0; i < SIM_LANES; ++i) to[i] = mask >> i & 1 ? from[i] : to[i];
  }
}

static void run_alu(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  const void *a = sim_operand(warp, op->a), *b = sim_operand(warp, op->b),
             *c = sim_operand(warp, op->c);
  if (mask == UINT32_MAX) {
    op->fn.alu(warp->regs + op->dst, a, b, c);
    return;
  }
  uint64_t result[SIM_LANES];
  op->fn.alu(result, a, b, c);
  blend(warp->regs + op->dst, result, op->width, mask);
}

static void run_select(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  const uint32_t yes = sim_pred(warp, op->c);
  const void *a = sim_operand(warp, op->a), *b = sim_operand(warp, op->b);
  unsigned char *d = warp->regs + op->dst;
  uint64_t result[SIM_LANES];
  const size_t bytes = (op->width == PTX_WIDTH_64   ? 8
                        : op->width == PTX_WIDTH_32 ? 4
                                                    : 2) *
                       SIM_LANES;
  memcpy(result, b, bytes);
  blend(result, a, op->width, yes);
  if (mask == UINT32_MAX)
    memcpy(d, result, bytes);
  else
    blend(d, result, op->width, mask);
}

static sim_path_t *top(sim_warp_t *warp) { return &warp->paths.data[warp->paths.len - 1]; }

// |taken| of the running lanes branch. Those that already are where all meet wait there.
static void branch(sim_warp_t *warp, const sim_op_t *op, uint32_t taken) {
  sim_path_t *path = top(warp);
  const uint32_t others = path->lanes & ~taken;
  if (!others) {
    path->at = op->target;
    return;
  }
  if (!taken) {
    ++path->at;
    return;
  }
  const int32_t behind = path->at + 1;
  if (op->meet != path->meet) {
    path->at = op->meet;  // with all its lanes, once the two paths below are gone
  } else {
    --warp->paths.len;
  }
  if (behind != op->meet) PTC_VEC_PUSH(&warp->paths, ((sim_path_t){behind, op->meet, others}));
  if (op->target != op->meet)
    PTC_VEC_PUSH(&warp->paths, ((sim_path_t){op->target, op->meet, taken}));
}

// Drops paths that have arrived or have no lanes left. False if none is left.
static bool settle(sim_warp_t *warp) {
  while (warp->paths.len) {
    sim_path_t *path = top(warp);
    path->lanes &= warp->live;
    if (path->lanes && path->at != path->meet) return true;
    --warp->paths.len;
  }
  return false;
}

bool sim_together(sim_warp_t *warp, const sim_op_t *op, uint32_t members, uint32_t mask) {
  const uint32_t missing = members & warp->live & ~mask;
  if (!missing) return true;
  sim_fault(warp, op, (int32_t)__builtin_ctz(missing), SIM_FAULT_BARRIER,
            "\"%s\" names the lanes %08" PRIx32 " of warp %" PRId32 ", of which %08" PRIx32
            " are elsewhere in the code",
            op->opcode, members, warp->index, missing);
  return false;
}

// Arrives at a barrier, and waits there unless it is bar.arrive.
static void arrive(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  if (!sim_together(warp, op, UINT32_MAX, mask)) return;
  const sim_bar_t *bar = op->extra;
  sim_barrier_t *b = &warp->block->barriers[bar->id];
  ++top(warp)->at;
  if (b->warps && b->expected != bar->count) {
    sim_fault(warp, op, 0, SIM_FAULT_BARRIER,
              "barrier %" PRId32 " is used for %" PRId32 " and for %" PRId32 " threads at once",
              bar->id, b->expected, bar->count);
    return;
  }
  b->expected = bar->count;
  b->warps |= UINT32_C(1) << warp->index;
  b->threads += bar->count ? SIM_LANES : __builtin_popcount(mask);
  if (bar->reduce != SIM_BAR_SYNC) {
    const uint32_t holds = sim_pred(warp, bar->pred) ^ (bar->negated ? UINT32_MAX : 0);
    b->yes += __builtin_popcount(holds & mask);
    b->no += __builtin_popcount(~holds & mask);
  }
  if (bar->arrives) return;
  warp->barrier = bar->id;
  warp->waits_at = op;
  warp->state = SIM_WAITS;
}

void sim_warp_run(sim_warp_t *warp) {
  sim_block_t *block = warp->block;
  const sim_op_t *ops = block->program->ops;
  while (settle(warp)) {
    sim_path_t *path = top(warp);
    // Until the path changes: its lanes and its meeting place are fixed.
    const uint32_t lanes = path->lanes;
    const int32_t meet = path->meet;
    int32_t at = path->at;
    bool same = true;
    while (same && at != meet) {
      const sim_op_t *op = &ops[at];
      uint32_t mask = lanes;
      if (op->guard >= 0) mask &= sim_pred(warp, op->guard) ^ (op->guard_negated ? UINT32_MAX : 0);
      if (block->counts) {
        block->counts[at] += __builtin_popcount(mask);
        block->warp_counts[at] += mask != 0;
      }
      if (op->kind == SIM_BRANCH) {
        path->at = at;
        branch(warp, op, mask);
        same = false;
        if (mask == lanes || !mask) {  // nobody parted
          at = top(warp)->at;
          same = true;
        }
        continue;
      }
      ++at;
      if (!mask) continue;
      switch (op->kind) {
        case SIM_ALU: run_alu(warp, op, mask); break;
        case SIM_COMPARE:
          sim_set_pred(warp, op->dst, mask,
                       op->fn.compare(sim_operand(warp, op->a), sim_operand(warp, op->b)));
          break;
        case SIM_SELECT: run_select(warp, op, mask); break;
        case SIM_HANDLER:
          op->fn.handler(warp, op, mask);
          if (block->fault) return;
          break;
        case SIM_BARRIER:
          path->at = at - 1;
          arrive(warp, op, mask);
          if (warp->state != SIM_RUNS || block->fault) return;
          break;
        case SIM_EXIT:
          path->at = at;
          warp->live &= ~mask;
          same = false;
          break;
        case SIM_BRANCH: break;
      }
    }
    if (same) path->at = at;
  }
  warp->state = SIM_DONE;
}
