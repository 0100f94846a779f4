// Split forms: what an op computes along a dim that its rule wants whole ("!" in ir/ops.def), where the dim is
// sharded: a local part, small collectives of rows, a finish. Row statistics are those of the whole rows, on
// every member, in the dtype that the op gives them; they are computed in f32 (f64 for f64) as by the op.
#ifndef PTC_PASSES_SPLIT_FORMS_H_
#define PTC_PASSES_SPLIT_FORMS_H_

#include "ir/builder.h"

// Whether |op|, with operands of |types|, needs a split form (a "!" dim of an operand is sharded) and has one:
// softmax, softmax_grad, layernorm, rmsnorm and their gradients, cross_entropy, argmax, all_finite, and gather where the
// result may be a partial sum (no fill but 0). What has none, the caller gathers. cross_entropy_grad needs
// none: it is elementwise.
bool ptc_has_split_form(const ptc_op_t *op, const ptc_type_t *const *types);

// The types of the results that the split form gives for operands of |types|. They have the dtypes and dims of
// op->results and the operands' shardings, and are complete, but gather's is a partial sum over the axes of the dims
// that it looks up (and of the first operand, which may be one).
void ptc_split_form_types(ptc_module_t *module, const ptc_op_t *op, const ptc_type_t *const *types,
                          const ptc_type_t **out_types);

// Builds at |b| what computes the results of |op|, which ptc_has_split_form accepts with its operands' types;
// out_results[i] stands for op->results[i] and has the type above. Operands are no partial results (gather's first may be
// one). Padding is masked. A target or index outside of the dim is no error here; it reads 0. |op| stays; the caller
// replaces its results and erases it. Returns PTC_INVALID_INPUT, with a diagnostic, if an op cannot be built.
ptc_status_t ptc_split_form(ptc_builder_t *b, const ptc_op_t *op, ptc_value_t **out_results);

// scatter_add into a result whose dim |dim|, one of those that are addressed, lies on |axes| in blocks: every
// device keeps the rows of its shard. NULL, with a diagnostic, if an op cannot be built.
ptc_value_t *ptc_split_scatter_add(ptc_builder_t *b, const ptc_op_t *op, const char *dim,
                                   const ptc_axis_ref_t *axes, int32_t num_axes);

#endif  // PTC_PASSES_SPLIT_FORMS_H_
