// One block at a time on one thread of the host.
#ifndef PTC_RUNTIME_GPUSIM_BLOCK_IMPL_H_
#define PTC_RUNTIME_GPUSIM_BLOCK_IMPL_H_

#include "runtime/gpusim/exec_impl.h"

// Memory for the blocks of |launch|, which outlives it.
sim_block_t *sim_block_create(const sim_launch_t *launch);
void sim_block_destroy(sim_block_t *block);
// Runs block |id| to its end or to a fault.
void sim_block_run(sim_block_t *block, const uint32_t id[3]);
// Adds what the blocks that it ran have counted.
void sim_block_collect(const sim_block_t *block, sim_counters_t *counters);

#endif  // PTC_RUNTIME_GPUSIM_BLOCK_IMPL_H_
