// What executes a block: warps, paths of diverged lanes, barriers, pending copies, faults, shadow memory.
#ifndef PTC_RUNTIME_GPUSIM_EXEC_IMPL_H_
#define PTC_RUNTIME_GPUSIM_EXEC_IMPL_H_

#include <stdatomic.h>
#include <string.h>

#include "runtime/gpusim/address.h"
#include "runtime/gpusim/launch.h"

enum { SIM_MAX_BARRIERS = 16, SIM_ALL_LANES = -1 };

// Lanes that go the same way, up to where others wait for them.
typedef struct sim_path_s {
  int32_t at, meet;
  uint32_t lanes;
} sim_path_t;

typedef struct sim_copy_s {
  uint32_t to;    // in shared memory
  uint64_t from;  // global, checked
  uint8_t bytes, read_bytes, lane;
  int32_t group;
} sim_copy_t;

typedef enum sim_reduce_e { SIM_BAR_SYNC, SIM_BAR_AND, SIM_BAR_OR, SIM_BAR_POPC } sim_reduce_t;

// The extra of a barrier's op.
typedef struct sim_bar_s {
  int32_t id, count;  // count 0: all threads of the block
  bool arrives;       // without waiting
  sim_reduce_t reduce;
  int32_t pred;
  bool negated;
} sim_bar_t;

typedef enum sim_state_e { SIM_RUNS, SIM_WAITS, SIM_DONE } sim_state_t;

typedef struct sim_block_s sim_block_t;

struct sim_warp_s {
  unsigned char *regs;
  const unsigned char *constants;
  sim_block_t *block;
  int32_t index;
  uint32_t live;  // lanes that have not exited
  sim_state_t state;
  PTC_VEC(sim_path_t) paths;  // the last one runs
  const sim_op_t *waits_at;
  int32_t barrier;
  const sim_alloc_t *alloc;    // the last that was used
  PTC_VEC(sim_copy_t) copies;  // cp.async that no wait has ended
  int32_t group[SIM_LANES];    // of cp.async, not yet committed
  uint32_t epoch;              // counts this warp's bar.warp.sync, for races inside of it
  uint32_t seen
      [SIM_MAX_WARPS];  // vector clock: what happened before, of each warp; advanced at barriers
};

typedef struct sim_barrier_s {
  uint32_t warps;             // that have arrived
  int32_t threads, expected;  // expected 0: all that have not exited
  int32_t yes;                // bar.red: predicates that hold, and those that do not
  int32_t no;
} sim_barrier_t;

struct sim_shadow_s;

// The sectors of global memory that a block has lately read and written; the first of a set is the latest.
enum { SIM_RECENT_SETS = 256, SIM_RECENT_WAYS = 4 };
typedef struct sim_recent_s {
  uint64_t sectors[2][SIM_RECENT_SETS][SIM_RECENT_WAYS];  // read, written; 0: none
} sim_recent_t;

struct sim_block_s {
  const sim_launch_t *launch;
  const sim_program_t *program;
  uint32_t id[3];
  int32_t num_threads, num_warps;
  unsigned char *shared, *local;
  int64_t shared_bytes, local_stride;
  sim_warp_t *warps;
  sim_barrier_t barriers[SIM_MAX_BARRIERS];
  int64_t *counts;       // per op, executed lanes; NULL: not counted
  int64_t *warp_counts;  // per op
  sim_recent_t *recent;  // if counted
  sim_counters_t counters;
  struct sim_shadow_s *shadow;  // NULL: no checks
  unsigned char *local_valid;
  atomic_int *stop;  // of the launch: some block has failed
  sim_fault_kind_t fault;
  ptc_str_t report;
};

// Records the first fault of the block, with kernel, lines, thread and block; execution then stops.
void sim_fault(sim_warp_t *warp, const sim_op_t *op, int32_t lane, sim_fault_kind_t kind,
               const char *format, ...) __attribute__((format(printf, 5, 6)));

// Runs |warp| until it waits, is done or has a fault.
void sim_warp_run(sim_warp_t *warp);

static inline const void *sim_operand(const sim_warp_t *warp, int32_t offset) {
  return offset >= 0 ? (const void *)(warp->regs + offset)
                     : (const void *)(warp->constants + ~offset);
}

static inline uint32_t sim_pred(const sim_warp_t *warp, int32_t offset) {
  uint32_t value;
  memcpy(&value, sim_operand(warp, offset), sizeof value);
  return value;
}

static inline void sim_set_pred(sim_warp_t *warp, int32_t offset, uint32_t mask, uint32_t value) {
  uint32_t old;
  memcpy(&old, warp->regs + offset, sizeof old);
  old = (old & ~mask) | (value & mask);
  memcpy(warp->regs + offset, &old, sizeof old);
}

#define SIM_FOR_LANES(lane, mask)                                              \
  for (uint32_t lane##_rest = (mask),                                          \
                lane = lane##_rest ? (uint32_t)__builtin_ctz(lane##_rest) : 0; \
       lane##_rest; lane##_rest &= lane##_rest - 1,                            \
                lane = lane##_rest ? (uint32_t)__builtin_ctz(lane##_rest) : 0)

// Of a register of |width|: one lane, zero-extended; and the low bits of |value| into one lane.
static inline uint64_t sim_get(const sim_warp_t *warp, int32_t offset, ptx_width_t width,
                               uint32_t lane) {
  const unsigned char *at = sim_operand(warp, offset);
  if (width == PTX_WIDTH_64) return ((const uint64_t *)(const void *)at)[lane];
  if (width == PTX_WIDTH_32) return ((const uint32_t *)(const void *)at)[lane];
  return ((const uint16_t *)(const void *)at)[lane];
}

static inline void sim_put(sim_warp_t *warp, int32_t offset, ptx_width_t width, uint32_t lane,
                           uint64_t value) {
  unsigned char *at = warp->regs + offset;
  if (width == PTX_WIDTH_64)
    ((uint64_t *)(void *)at)[lane] = value;
  else if (width == PTX_WIDTH_32)
    ((uint32_t *)(void *)at)[lane] = (uint32_t)value;
  else
    ((uint16_t *)(void *)at)[lane] = (uint16_t)value;
}

// Whether the lanes of |members| that are alive all execute |op| now; else a fault.
bool sim_together(sim_warp_t *warp, const sim_op_t *op, uint32_t members, uint32_t mask);

// --- shadow of shared memory (shadow.c)

struct sim_shadow_s *sim_shadow_create(int64_t shared_bytes);
void sim_shadow_destroy(struct sim_shadow_s *shadow);
void sim_shadow_clear(struct sim_shadow_s *shadow, int64_t shared_bytes);

typedef enum sim_access_kind_e {
  SIM_READ,
  SIM_WRITE,
  SIM_ATOMIC,
  SIM_COPY_BEGIN,  // cp.async was issued: the bytes may change from now on
  SIM_COPY_END,
} sim_access_kind_t;

// Checks one lane's access against those before it and records it. False with a fault.
bool sim_shadow_access(sim_warp_t *warp, const sim_op_t *op, int32_t lane, sim_access_kind_t kind,
                       int64_t offset, int64_t bytes);

// --- memory (access.c)

// The host's address of |bytes| at |address| of |space|, checked; NULL with a fault.
void *sim_resolve(sim_warp_t *warp, const sim_op_t *op, int32_t lane, ptx_space_t space,
                  uint64_t address, int64_t bytes, sim_access_kind_t kind);
// Addresses of the lanes of |mask|: the register at op->a, if any, plus |offset|.
void sim_addresses(const sim_warp_t *warp, const sim_op_t *op, ptx_width_t width, int64_t offset,
                   uint64_t out[SIM_LANES]);

// --- counters (counters.c): one access of a warp

void sim_count_global(sim_block_t *block, const uint64_t address[SIM_LANES], uint32_t mask,
                      int64_t bytes, bool is_write);
void sim_count_shared(sim_counters_t *counters, const uint64_t address[SIM_LANES], uint32_t mask,
                      int64_t bytes);

#endif  // PTC_RUNTIME_GPUSIM_EXEC_IMPL_H_
