// Running a grid: blocks in parallel on the host's cores, the warps of a block in turns.
#ifndef PTC_RUNTIME_GPUSIM_LAUNCH_H_
#define PTC_RUNTIME_GPUSIM_LAUNCH_H_

#include "ir/base/str.h"
#include "runtime/gpusim/memory.h"
#include "runtime/gpusim/program.h"

// What a run of a kernel did, over all its threads.
typedef struct sim_counters_s {
  int64_t launches, blocks;
  int64_t warp_insts;                     // instructions of warps
  int64_t thread_insts[SIM_NUM_CLASSES];  // of threads
  int64_t flops;                          // outside of mma; a fused multiply-add is two
  int64_t mma_flops;
  int64_t global_sectors, least_sectors;  // 32 bytes each: touched, and what the bytes would fill
  // Of the touched: what the block has not read, or written, among its last 1024 (32 KiB, its part of an L1 cache).
  int64_t moved_sectors;
  int64_t global_read_bytes, global_write_bytes;  // asked for
  int64_t shared_passes,
      shared_conflicts;  // passes over the banks, and those beyond the least number
  int64_t barriers;      // per block
} sim_counters_t;

void sim_counters_add(sim_counters_t *to, const sim_counters_t *from);

typedef struct sim_options_s {
  bool checks;          // uninitialized reads, races in shared memory, threads missing at barriers
  bool counters;        // fill sim_counters_t
  int32_t num_threads;  // of the host; 0: all cores
} sim_options_t;

typedef enum sim_fault_kind_e {
  SIM_FAULT_NONE,
  SIM_FAULT_BOUNDS,
  SIM_FAULT_ALIGN,
  SIM_FAULT_UNINIT,
  SIM_FAULT_RACE,
  SIM_FAULT_BARRIER,
  SIM_FAULT_TRAP,
  SIM_FAULT_LAUNCH,  // the launch itself is not possible
} sim_fault_kind_t;

typedef struct sim_launch_s {
  const sim_program_t *program;
  const sim_memory_t *memory;
  uint32_t grid[3], block[3];
  int64_t dynamic_bytes;  // of shared memory
  const void *params;     // program->param_bytes
  sim_options_t options;
} sim_launch_t;

typedef struct sim_result_s {
  sim_fault_kind_t fault;
  ptc_str_t report;  // one line about the first fault
  sim_counters_t counters;
} sim_result_t;

// The host's threads, kept between launches.
typedef struct sim_pool_s sim_pool_t;
sim_pool_t *sim_pool_create(int32_t num_threads);
void sim_pool_destroy(sim_pool_t *pool);

// Runs the grid to its end or to the first fault. Release |out_result->report|.
void sim_launch(sim_pool_t *pool, const sim_launch_t *launch, sim_result_t *out_result);

#endif  // PTC_RUNTIME_GPUSIM_LAUNCH_H_
