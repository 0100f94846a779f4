// Gradients of ops: what the hooks of the op table's grad column (grad_*.c) are given, and the
// parts of autodiff that they stand on.
//
// Backward code is built block by block: for a function's body at its end, for the body of a repeat
// in the body of a second repeat. A ptc_grad_t is one such block under construction.
#ifndef PTC_PASSES_GRAD_H_
#define PTC_PASSES_GRAD_H_

#include "ir/builder.h"
#include "ir/module.h"
#include "ir/op.h"

// Which values of a function take part in differentiation (grad_activity.c).
typedef struct ptc_activity_s {
  ptc_map_t needs;    // value -> itself: depends on a trained parameter
  ptc_map_t reached;  // value -> itself: the loss depends on it
} ptc_activity_t;

// The gradient of the sum of |losses| by |params| (arguments of the body) is wanted.
void ptc_activity_init(ptc_activity_t *activity, ptc_func_t *func, ptc_value_t *const *params,
                       int32_t num_params, ptc_value_t *const *losses, int32_t num_losses);
void ptc_activity_deinit(ptc_activity_t *activity);
// Both: gets a gradient.
bool ptc_activity_has(const ptc_activity_t *activity, const ptc_value_t *value);
// Whether the carried value |index| of |repeat| gets one, at the turns' edges or within.
bool ptc_activity_has_carry(const ptc_activity_t *activity, const ptc_op_t *repeat, int32_t index);

typedef struct ptc_grad_s {
  ptc_module_t *module;
  const ptc_activity_t *activity;
  struct ptc_grad_s *outer;      // of the enclosing block; NULL for a function's body
  ptc_op_t *forward, *backward;  // the two repeats; NULL for a function's body
  ptc_builder_t b;               // where backward code goes
  ptc_map_t grads;               // forward value -> its gradient so far
  ptc_map_t values;              // forward value -> the same in the backward block
  ptc_map_t cheap;               // forward value -> answer of an earlier query, see grad.c
} ptc_grad_t;

void ptc_grad_deinit(ptc_grad_t *g);
// Differentiates |last| and the ops before it, last to first. Afterwards g->grads has the gradients
// of the block's arguments and of what it captures.
ptc_status_t ptc_grad_ops(ptc_grad_t *g, const ptc_op_t *last);

// --- for hooks. Builders accept the NULL that follows an error.

// |value| of the forward block, or of one around it, where the backward code can use it: in a
// region it is saved by the forward turns, or computed again where that is cheap. Ask only for what
// is used.
ptc_value_t *ptc_grad_value(ptc_grad_t *g, ptc_value_t *value);
ptc_value_t *ptc_grad_operand(ptc_grad_t *g, const ptc_op_t *op, int32_t index);
ptc_value_t *ptc_grad_result(ptc_grad_t *g, const ptc_op_t *op, int32_t index);
// The gradient of result |index|, of exactly its type; NULL if there is none.
ptc_value_t *ptc_grad_of(const ptc_grad_t *g, const ptc_op_t *op, int32_t index);
// Whether operand |index| gets a gradient.
bool ptc_grad_wants(const ptc_grad_t *g, const ptc_op_t *op, int32_t index);
// Adds to the gradient of operand |index|: |part| is summed over dims that the operand lacks,
// repeated along those that |part| lacks, and cast. Nothing if the operand gets no gradient.
void ptc_grad_give(ptc_grad_t *g, const ptc_op_t *op, int32_t index, ptc_value_t *part);
// The same for a value.
void ptc_grad_give_to(ptc_grad_t *g, ptc_value_t *value, ptc_value_t *part);
// The value whose gradient receives what is added to that of |value|: a cast parameter's is added
// up in the parameter's dtype.
ptc_value_t *ptc_grad_root(ptc_value_t *value);
// Id "no-gradient": names the op and says |what| cannot be differentiated.
ptc_status_t ptc_grad_refuse(const ptc_grad_t *g, const ptc_op_t *op, const char *what);

// Zeros of |type|, bundles included.
ptc_value_t *ptc_grad_zeros(ptc_builder_t *b, const ptc_type_t *type);
// The dtype in which the gradient of |value| adds up: its own; of parameters, and of their instances in
// a repeat, f32 at least.
ptc_dtype_t ptc_grad_dtype(const ptc_value_t *value);
// The sum of two values of equal type, bundles included.
ptc_value_t *ptc_grad_sum(ptc_builder_t *b, ptc_value_t *x, ptc_value_t *y);
// An op with one result.
ptc_value_t *ptc_grad_build(ptc_grad_t *g, ptc_opcode_t opcode, ptc_value_t *const *operands,
                            int32_t num_operands, ptc_attrs_t attrs);

// Adds to the gradients of |op|'s operands. Called if a result has a gradient.
typedef ptc_status_t (*ptc_grad_fn_t)(ptc_grad_t *g, const ptc_op_t *op);

#define PTC_OP(id, mnemonic, min_in, max_in, num_out, traits, linear, rule, attrs, shape, interp, \
               grad, cost)                                                                        \
  ptc_status_t ptc_grad_##grad(ptc_grad_t *g, const ptc_op_t *op);
#include "ir/ops.def"
#undef PTC_OP

// Whether the gradient ends at the op: it is zero, or a leaf.
bool ptc_grad_stops(const ptc_op_t *op);

#endif  // PTC_PASSES_GRAD_H_
