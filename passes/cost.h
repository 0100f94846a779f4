// What an op costs: the cost column of the op table.
#ifndef PTC_PASSES_COST_H_
#define PTC_PASSES_COST_H_

#include "ir/op.h"

// Of one execution, over global extents; what every operand and result takes is counted once.
// Saturates at INT64_MAX.
typedef struct ptc_cost_s {
  int64_t flops, bytes_read, bytes_written;
} ptc_cost_t;

// A repeat by itself costs nothing; its body's ops cost |count| times theirs.
ptc_cost_t ptc_op_cost(const ptc_op_t *op);

#endif  // PTC_PASSES_COST_H_
