// A block of threads: its warps run in turns until all wait or are done; then barriers open.
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "runtime/gpusim/block_impl.h"

// --- faults

static void describe_place(ptc_str_t *out, const sim_op_t *op) {
  const char *slash = op->cuda_file ? strrchr(op->cuda_file, '/') : NULL;
  if (op->cuda_line)
    ptc_str_printf(out, "%s:%" PRId32 ", PTX line %" PRId32,
                   slash           ? slash + 1
                   : op->cuda_file ? op->cuda_file
                                   : "source",
                   op->cuda_line, op->line);
  else
    ptc_str_printf(out, "PTX line %" PRId32, op->line);
}

void sim_fault(sim_warp_t *warp, const sim_op_t *op, int32_t lane, sim_fault_kind_t kind,
               const char *format, ...) {
  sim_block_t *block = warp->block;
  if (block->fault) return;
  block->fault = kind;
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  ptc_str_printf(&block->report, "kernel \"%s\" (", block->program->name);
  describe_place(&block->report, op);
  const int32_t thread = SIM_LANES * warp->index + lane;
  ptc_str_printf(&block->report, "), block %" PRIu32, block->id[0]);
  if (block->id[1] || block->id[2])
    ptc_str_printf(&block->report, ",%" PRIu32 ",%" PRIu32, block->id[1], block->id[2]);
  ptc_str_printf(&block->report, ", thread %" PRId32 ": %s", thread, text);
}

// --- life

sim_block_t *sim_block_create(const sim_launch_t *launch) {
  const sim_program_t *program = launch->program;
  sim_block_t *block = ptc_xmalloc(sizeof *block);
  *block = (sim_block_t){.launch = launch, .program = program};
  block->num_threads = (int32_t)(launch->block[0] * launch->block[1] * launch->block[2]);
  block->num_warps = (block->num_threads + SIM_LANES - 1) / SIM_LANES;
  block->shared_bytes = program->shared_bytes + launch->dynamic_bytes;
  block->shared = ptc_xmalloc((size_t)block->shared_bytes + 16);
  block->local_stride = (program->local_bytes + 15) / 16 * 16;
  const size_t local_bytes = (size_t)(block->local_stride * block->num_threads) + 16;
  block->local = ptc_xmalloc(local_bytes);
  block->warps = ptc_xmalloc(sizeof *block->warps * (size_t)block->num_warps);
  const size_t reg_bytes = (size_t)program->reg_bytes;
  for (int32_t w = 0; w < block->num_warps; ++w) {
    sim_warp_t *warp = &block->warps[w];
    *warp = (sim_warp_t){.constants = program->constants, .block = block, .index = w};
    warp->regs = aligned_alloc(256, reg_bytes + 256);
    if (!warp->regs) ptc_oom(reg_bytes);
  }
  if (launch->options.counters) {
    const size_t bytes = sizeof *block->counts * (size_t)program->num_ops;
    block->counts = ptc_xmalloc(bytes);
    block->warp_counts = ptc_xmalloc(bytes);
    memset(block->counts, 0, bytes);
    memset(block->warp_counts, 0, bytes);
    block->recent = ptc_xmalloc(sizeof *block->recent);
  }
  if (launch->options.checks) {
    block->shadow = sim_shadow_create(block->shared_bytes);
    block->local_valid = ptc_xmalloc(local_bytes);
  }
  return block;
}

void sim_block_destroy(sim_block_t *block) {
  for (int32_t w = 0; w < block->num_warps; ++w) {
    free(block->warps[w].regs);
    PTC_VEC_FREE(&block->warps[w].paths);
    PTC_VEC_FREE(&block->warps[w].copies);
  }
  sim_shadow_destroy(block->shadow);
  free(block->local_valid);
  free(block->counts);
  free(block->warp_counts);
  free(block->recent);
  free(block->warps);
  free(block->local);
  free(block->shared);
  ptc_str_deinit(&block->report);
  free(block);
}

// --- special registers

static uint32_t special_value(const sim_warp_t *warp, const char *name, uint32_t lane) {
  const sim_block_t *block = warp->block;
  const uint32_t *size = block->launch->block, *grid = block->launch->grid;
  const uint32_t thread = (uint32_t)warp->index * SIM_LANES + lane, bit = UINT32_C(1) << lane;
  const size_t len = strlen(name);
  const int axis = len > 2 && name[len - 2] == '.' ? name[len - 1] - 'x' : 0;
  const uint32_t tid[3] = {thread % size[0], thread / size[0] % size[1],
                           thread / size[0] / size[1]};
  if (strncmp(name, "%tid", 4) == 0) return tid[axis];
  if (strncmp(name, "%ntid", 5) == 0) return size[axis];
  if (strncmp(name, "%ctaid", 6) == 0) return block->id[axis];
  if (strncmp(name, "%nctaid", 7) == 0) return grid[axis];
  if (strcmp(name, "%laneid") == 0) return lane;
  if (strcmp(name, "%warpid") == 0) return (uint32_t)warp->index;
  if (strcmp(name, "%nwarpid") == 0) return (uint32_t)block->num_warps;
  if (strcmp(name, "%lanemask_eq") == 0) return bit;
  if (strcmp(name, "%lanemask_lt") == 0) return bit - 1;
  if (strcmp(name, "%lanemask_le") == 0) return (bit - 1) | bit;
  if (strcmp(name, "%lanemask_gt") == 0) return ~((bit - 1) | bit);
  return ~(bit - 1);  // %lanemask_ge
}

static void start_warp(sim_warp_t *warp) {
  const sim_block_t *block = warp->block;
  const sim_program_t *program = block->program;
  const int32_t lanes = block->num_threads - SIM_LANES * warp->index;
  memset(warp->regs, 0xff, (size_t)program->reg_bytes);
  for (int32_t s = 0; s < program->num_specials; ++s)
    for (uint32_t lane = 0; lane < SIM_LANES; ++lane)
      sim_put(warp, program->specials[s].offset, PTX_WIDTH_32, lane,
              special_value(warp, program->specials[s].name, lane));
  warp->live = lanes >= SIM_LANES ? UINT32_MAX : (UINT32_C(1) << lanes) - 1;
  warp->state = SIM_RUNS;
  warp->paths.len = 0;
  PTC_VEC_PUSH(&warp->paths, ((sim_path_t){0, program->num_ops, warp->live}));
  warp->alloc = NULL;
  warp->copies.len = 0;
  memset(warp->group, 0, sizeof warp->group);
  memset(warp->seen, 0, sizeof warp->seen);
  warp->seen[warp->index] = 1;
  warp->epoch = 1;
}

// --- barriers

static int32_t live_threads(const sim_block_t *block) {
  int32_t count = 0;
  for (int32_t w = 0; w < block->num_warps; ++w)
    if (block->warps[w].state != SIM_DONE) count += __builtin_popcount(block->warps[w].live);
  return count;
}

static void give_result(sim_warp_t *warp, const sim_barrier_t *barrier) {
  const sim_op_t *op = warp->waits_at;
  const sim_bar_t *bar = op->extra;
  if (bar->reduce == SIM_BAR_AND)
    sim_set_pred(warp, op->dst, warp->live, barrier->no ? 0 : UINT32_MAX);
  else if (bar->reduce == SIM_BAR_OR)
    sim_set_pred(warp, op->dst, warp->live, barrier->yes ? UINT32_MAX : 0);
  else if (bar->reduce == SIM_BAR_POPC)
    SIM_FOR_LANES(lane, warp->live)
  sim_put(warp, op->dst, op->width, lane, (uint64_t)barrier->yes);
}

// What each warp of |warps| did is before what all of them do from now on.
static void join_clocks(sim_block_t *block, uint32_t warps) {
  uint32_t all[SIM_MAX_WARPS] = {0};
  SIM_FOR_LANES(w, warps)
  for (int32_t v = 0; v < block->num_warps; ++v)
    if (block->warps[w].seen[v] > all[v]) all[v] = block->warps[w].seen[v];
  SIM_FOR_LANES(w, warps) {
    memcpy(block->warps[w].seen, all, sizeof all);
    ++block->warps[w].seen[w];
    ++block->warps[w].epoch;
  }
}

static void open_barrier(sim_block_t *block, int32_t id) {
  sim_barrier_t *barrier = &block->barriers[id];
  for (int32_t w = 0; w < block->num_warps; ++w) {
    sim_warp_t *warp = &block->warps[w];
    if (!(barrier->warps >> w & 1) || warp->state != SIM_WAITS || warp->barrier != id) continue;
    give_result(warp, barrier);
    warp->state = SIM_RUNS;
  }
  join_clocks(block, barrier->warps);
  *barrier = (sim_barrier_t){0};
  ++block->counters.barriers;
}

// Opens the barriers that are complete. False if there is none.
static bool open_barriers(sim_block_t *block) {
  bool any = false;
  for (int32_t id = 0; id < SIM_MAX_BARRIERS && !block->fault; ++id) {
    sim_barrier_t *barrier = &block->barriers[id];
    if (!barrier->warps) continue;
    const int32_t expected = barrier->expected ? barrier->expected : live_threads(block);
    if (barrier->threads < expected) continue;
    if (block->shadow && !barrier->expected && expected < block->num_threads) {
      sim_warp_t *warp = &block->warps[__builtin_ctz(barrier->warps)];
      sim_fault(warp, warp->waits_at ? warp->waits_at : block->program->ops, 0, SIM_FAULT_BARRIER,
                "%" PRId32 " of the block's %" PRId32
                " threads have exited and never come to this barrier",
                block->num_threads - expected, block->num_threads);
      return false;
    }
    open_barrier(block, id);
    any = true;
  }
  return any;
}

static void report_deadlock(sim_block_t *block) {
  sim_warp_t *warp = NULL, *other = NULL;
  for (int32_t w = 0; w < block->num_warps; ++w) {
    if (block->warps[w].state != SIM_WAITS) continue;
    if (!warp)
      warp = &block->warps[w];
    else if (block->warps[w].waits_at != warp->waits_at && !other)
      other = &block->warps[w];
  }
  const sim_barrier_t *barrier = &block->barriers[warp->barrier];
  if (other)
    sim_fault(warp, warp->waits_at, 0, SIM_FAULT_BARRIER,
              "barrier %" PRId32 " never opens: %" PRId32 " threads wait here, warp %" PRId32
              " at PTX line %" PRId32,
              warp->barrier, barrier->threads, other->index, other->waits_at->line);
  else
    sim_fault(warp, warp->waits_at, 0, SIM_FAULT_BARRIER,
              "barrier %" PRId32 " never opens: %" PRId32 " threads wait here, %" PRId32
              " are needed",
              warp->barrier, barrier->threads, barrier->expected);
}

// --- run

static bool run_warps(sim_block_t *block) {
  bool waits = false;
  for (int32_t w = 0; w < block->num_warps && !block->fault; ++w) {
    if (block->warps[w].state == SIM_RUNS) sim_warp_run(&block->warps[w]);
    waits |= block->warps[w].state == SIM_WAITS;
  }
  return waits;
}

void sim_block_run(sim_block_t *block, const uint32_t id[3]) {
  memcpy(block->id, id, sizeof block->id);
  memset(block->barriers, 0, sizeof block->barriers);
  memset(block->shared, 0xff, (size_t)block->shared_bytes);
  if (block->local_stride)
    memset(block->local, 0xff, (size_t)(block->local_stride * block->num_threads));
  if (block->shadow) {
    sim_shadow_clear(block->shadow, block->shared_bytes);
    memset(block->local_valid, 0, (size_t)(block->local_stride * block->num_threads));
  }
  if (block->recent) memset(block->recent, 0, sizeof *block->recent);
  for (int32_t w = 0; w < block->num_warps; ++w) start_warp(&block->warps[w]);
  ++block->counters.blocks;
  while (run_warps(block) && !block->fault) {
    if (open_barriers(block) || block->fault) continue;
    report_deadlock(block);
  }
}

void sim_block_collect(const sim_block_t *block, sim_counters_t *counters) {
  sim_counters_add(counters, &block->counters);
  for (int32_t i = 0; block->counts && i < block->program->num_ops; ++i) {
    const sim_op_t *op = &block->program->ops[i];
    counters->thread_insts[op->class] += block->counts[i];
    counters->warp_insts += block->warp_counts[i];
    if (op->class == SIM_CLASS_MMA)
      counters->mma_flops += block->warp_counts[i] * op->flops * SIM_LANES;
    else
      counters->flops += block->counts[i] * op->flops;
  }
}
