// Small edits of the IR that several passes share.
#ifndef PTC_PASSES_REWRITE_H_
#define PTC_PASSES_REWRITE_H_

#include "ir/builder.h"
#include "ir/module.h"

// A substitution of values, built up during a walk in dominance order: |map| takes a value to what
// stands for it. Chains are followed.
ptc_value_t *ptc_subst(const ptc_map_t *map, ptc_value_t *value);
void ptc_subst_operands(const ptc_map_t *map, ptc_op_t *op);

// Erasers; what they erase must be unused. Later indices move down.
void ptc_op_erase_result(ptc_op_t *op, int32_t index);
void ptc_block_erase_arg(ptc_block_t *block, int32_t index);
void ptc_func_erase_arg(ptc_func_t *func, int32_t index);
void ptc_func_erase_result(ptc_func_t *func, int32_t index);
// Of a repeat: the carried value |index| with its result; the bundle |index|; the collected
// value |index| with its result.
void ptc_repeat_erase_carry(ptc_op_t *repeat, int32_t index);
void ptc_repeat_erase_each(ptc_op_t *repeat, int32_t index);
void ptc_repeat_erase_collect(ptc_op_t *repeat, int32_t index);

// Adds one bundle to a repeat and returns its instance in the body.
ptc_value_t *ptc_repeat_add_each(ptc_module_t *module, ptc_op_t *repeat, ptc_value_t *bundle);
// Collects |value| of the body and returns the bundle.
ptc_value_t *ptc_repeat_add_collect(ptc_module_t *module, ptc_op_t *repeat, ptc_value_t *value);

// Whether |value| is a scalar constant, or one broadcast; |out_value| is then its value.
bool ptc_value_is_constant(const ptc_value_t *value, double *out_value);

#endif  // PTC_PASSES_REWRITE_H_
