// Private to recompute*.c.
#ifndef PTC_PASSES_RECOMPUTE_IMPL_H_
#define PTC_PASSES_RECOMPUTE_IMPL_H_

#include "ir/base/map.h"
#include "ir/module.h"
#include "passes/pass.h"

// A region of the forward pass and its gradient, in one block. The gradient takes values that the
// forward region collects as bundles: the saved values.
typedef struct ptc_pair_s {
  ptc_module_t *module;
  ptc_op_t *forward, *backward;
} ptc_pair_t;

// The region before |backward|, in its block, whose collected values it takes; NULL if |backward| is no gradient of one.
ptc_op_t *ptc_recompute_find_forward(const ptc_op_t *backward);

// Which bundle of |backward| (of its num_each) is the collected value |index| of |forward|; -1 if
// none is. |index| counts results.
int32_t ptc_pair_find_saved(const ptc_pair_t *pair, int32_t index);

// Computes in |backward| what it takes from |forward|, but for the values that are keys of |keep|
// (values of forward's body): these are saved, and everything that recomputing needs of them. Of
// the region's inputs only the carried values are saved, where they are needed.
void ptc_recompute_pair(const ptc_pair_t *pair, const ptc_map_t *keep);

// Saves the carried values every |period| turns only: the pair becomes a pair of nested regions,
// and one more without outer loop for the remaining turns.
ptc_status_t ptc_recompute_every(const ptc_pair_t *pair, int64_t period);

// What stays saved of |pairs| after |level| steps of the order of cheapest recomputation: fills |keeps|, one map a pair
// for ptc_recompute_pair, to be freed by the caller. Returns the number of steps there are; a larger level takes all.
int64_t ptc_recompute_order(const ptc_pair_t *pairs, int32_t num_pairs, int64_t level,
                            ptc_map_t *keeps);

// Divides the repeats of the training step so that each part computes again or keeps what it saves, as config
// recompute_turns (|list|) says; numbers in config cut follow. Where that cannot be, all compute again ("partial-recompute", a
// warning).
ptc_status_t ptc_recompute_divide(ptc_pass_ctx_t *ctx, ptc_module_t *module, const char *list);
// Whether |repeat| is a part that keeps what it saves; and forgets that of all.
bool ptc_recompute_keeps(const ptc_op_t *repeat);
void ptc_recompute_forget(ptc_module_t *module);

#endif  // PTC_PASSES_RECOMPUTE_IMPL_H_
