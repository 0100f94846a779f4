// What a split of the step over devices would cost.
#ifndef PTC_PASSES_PARTITION_H_
#define PTC_PASSES_PARTITION_H_

#include "ir/module.h"

// Operations, bytes and messages of a step, weighed, on one device of the mesh that the config asks for; |module| is at
// the point where `partition` would run, and is used up. Infinite where it cannot be split so.
ptc_status_t ptc_partition_cost(ptc_module_t *module, ptc_arena_t *scratch, double *out_cost);

#endif  // PTC_PASSES_PARTITION_H_
