// From groups of ops to kernels (ir/kernel.h).
//
// The pass `fuse` decides, for each op of each function (in every region), how it is executed, and writes
// that into the IR, which keeps its meaning:
//   attr kernel:i     ops with equal numbers form one kernel; they are consecutive in one block (fuse
//                     reorders), and only what others use (results, yields) is stored
//   attr inline:b     never stored: every kernel that uses the value computes it again (constants, iota,
//                     masks made of them, broadcasts, casts of tiny values)
//   neither           repeat, yield, return, and views that move no data (ptc_view_is_alias)
//
// What the nests of these groups look like, beside what ir/kernel.h says:
//   - a stored value varies over all grid dims, and over all row dims or none; over all column dims, unless it
//     comes after a reduction over columns
//   - after a reduction over columns come elementwise values only (they may vary over grid and rows)
//   - reductions over rows may follow one another (mean, then variance)
// An op on a bundle is the kernel of one instance, to be run for each. unshard, too: its turn is the shard's
// number, one level inside the repeats around it.
#ifndef PTC_PASSES_BUILD_KERNELS_H_
#define PTC_PASSES_BUILD_KERNELS_H_

#include "ir/kernel.h"
#include "passes/uses.h"

// Whether the result of the view |op| is its operand's bytes read as another row-major tensor.
bool ptc_view_is_alias(const ptc_op_t *op);

typedef struct ptc_built_kernel_s {
  ptc_kernel_t *kernel;
  ptc_value_t *
      *values;  // per parameter: the value in memory (an operand, or a result that is stored). An
                // INOUT parameter: the result; |inputs| has the operand
  ptc_value_t *
      *inputs;  // per parameter: INOUT: the old value, whose bytes the new one takes; else NULL
} ptc_built_kernel_t;

// Builds the kernel of the group |ops| (in order of the block, all of one `kernel` number), named |name|.
// Everything lives in |arena|. Diagnostic "kernel-unsupported" (PTC_INVALID_INPUT) for what cannot be.
ptc_status_t ptc_build_kernel(ptc_diag_t *diag, ptc_arena_t *arena, const char *name,
                              ptc_op_t *const *ops, int32_t num_ops, ptc_built_kernel_t *out_built);

// The same where the |uses| of the function's values are at hand: quicker in long blocks.
ptc_status_t ptc_build_kernel_by_uses(ptc_diag_t *diag, ptc_arena_t *arena,
                                      const ptc_use_map_t *uses, const char *name,
                                      ptc_op_t *const *ops, int32_t num_ops,
                                      ptc_built_kernel_t *out_built);

#endif  // PTC_PASSES_BUILD_KERNELS_H_
