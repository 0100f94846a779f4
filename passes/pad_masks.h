// Padding of dims that their shards do not divide: it is stored, moved, and never read. The last shards of
// such a dim hold fewer elements than they have room for; what stands in the rest is arbitrary, NaN too.
//
// A kernel runs over the room. So where an op adds up, compares or looks up along a padded dim, its operands
// are masked before: where(global index < extent, x, neutral). Elementwise ops need nothing.
#ifndef PTC_PASSES_PAD_MASKS_H_
#define PTC_PASSES_PAD_MASKS_H_

#include "ir/builder.h"

// Whether some shard of |dim| has room for more than it holds.
bool ptc_dim_is_padded(const ptc_mesh_t *mesh, const ptc_dim_t *dim);

// |x| with |neutral| in the padding of those of |dims| that are padded; |x| itself if none is or if it is
// known to be so. NULL if |x| is.
ptc_value_t *ptc_mask_padding(ptc_builder_t *b, ptc_value_t *x, const char *const *dims,
                              int32_t num_dims, double neutral);

// Masks the operands of |op| where it reads along padded dims. The masks are built right before it; zeros of a value
// that an op makes right after that op, and all its uses take them. Operands have their final types. Nothing is built where nothing is padded.
//   einsum, reduce_sum, square_sum, scatter_add's values: 0 (all operands: 0 * NaN is NaN)
//   reduce_max: minus infinity, the lowest integer; all_finite: 0
//   indices of gather: 0; targets of cross_entropy and its gradient: -1, a row that does not count
//   attention_grad: 0 in queries' rows that key, val or bias sum over
// Returns PTC_INVALID_INPUT, with a diagnostic, if an op cannot be built.
ptc_status_t ptc_mask_operands(ptc_module_t *module, ptc_op_t *op);

#endif  // PTC_PASSES_PAD_MASKS_H_
