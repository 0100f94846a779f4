// Builds ops at an insertion point, with inferred result types.
//
// Errors cannot be reported here: a builder call with operands that violate the op's constraints
// emits the diagnostic of the shape function and yields a NULL value; every call accepts NULL
// operands and then returns NULL, so that one error does not breed others.
#ifndef PTC_IR_BUILDER_H_
#define PTC_IR_BUILDER_H_

#include "ir/module.h"
#include "ir/op.h"

typedef struct ptc_builder_s {
  ptc_module_t *module;
  ptc_block_t *block;
  ptc_op_t *before;  // NULL: at the end of the block
  ptc_loc_t loc;     // given to the ops that are built
} ptc_builder_t;

ptc_builder_t ptc_builder_at_end(ptc_module_t *module, ptc_block_t *block);
ptc_builder_t ptc_builder_before(ptc_module_t *module, ptc_op_t *op);

// The general form: creates the op, takes |attrs| over, infers the types, inserts it. NULL on error.
ptc_op_t *ptc_build_op(ptc_builder_t *b, ptc_opcode_t opcode, ptc_value_t *const *operands,
                       int32_t num_operands, int32_t num_results, ptc_attrs_t attrs);
// The same with the type of the first result given (NULL: inferred), for the ops that take a part of
// it from there: constant, iota, random; the dtype of einsum and reduce_sum.
ptc_op_t *ptc_build_op_as(ptc_builder_t *b, ptc_opcode_t opcode, ptc_value_t *const *operands,
                          int32_t num_operands, int32_t num_results, ptc_attrs_t attrs,
                          const ptc_type_t *given);

ptc_value_t *ptc_build_constant(ptc_builder_t *b, ptc_dtype_t dtype, double value);  // scalar
ptc_value_t *ptc_build_iota(ptc_builder_t *b, const ptc_dim_t *dim);                 // i32[dim]
ptc_value_t *ptc_build_unary(ptc_builder_t *b, ptc_opcode_t opcode, ptc_value_t *x);
ptc_value_t *ptc_build_binary(ptc_builder_t *b, ptc_opcode_t opcode, ptc_value_t *x,
                              ptc_value_t *y);
ptc_value_t *ptc_build_where(ptc_builder_t *b, ptc_value_t *cond, ptc_value_t *x, ptc_value_t *y);
// x itself if it has that dtype.
ptc_value_t *ptc_build_cast(ptc_builder_t *b, ptc_value_t *x, ptc_dtype_t dtype);
// x op constant of x's dtype.
ptc_value_t *ptc_build_binary_const(ptc_builder_t *b, ptc_opcode_t opcode, ptc_value_t *x,
                                    double value);

// Brings x to exactly the dims of |like| (order included; extents and sharding of |like|): sums over
// dims that |like| lacks, transposes, broadcasts over dims that x lacks. The dtype stays x's.
ptc_value_t *ptc_build_fit(ptc_builder_t *b, ptc_value_t *x, const ptc_type_t *like);
// Product of x and y summed to the dims of |like|; a plain mul where nothing is summed.
ptc_value_t *ptc_build_einsum_fit(ptc_builder_t *b, ptc_value_t *x, ptc_value_t *y,
                                  const ptc_type_t *like);
ptc_value_t *ptc_build_einsum(ptc_builder_t *b, ptc_value_t *x, ptc_value_t *y,
                              const char *const *over, int32_t num_over);
// opcode: REDUCE_SUM or REDUCE_MAX. x itself if num_over is 0.
ptc_value_t *ptc_build_reduce(ptc_builder_t *b, ptc_opcode_t opcode, ptc_value_t *x,
                              const char *const *over, int32_t num_over);
ptc_value_t *ptc_build_rename(ptc_builder_t *b, ptc_value_t *x, const char *const *from,
                              const char *const *to, int32_t count);
ptc_value_t *ptc_build_broadcast(ptc_builder_t *b, ptc_value_t *x, const ptc_dim_t *dims,
                                 int32_t num_dims);
ptc_value_t *ptc_build_transpose(ptc_builder_t *b, ptc_value_t *x, const char *const *dims,
                                 int32_t num_dims);

// A repeat with a fresh body: args are the turn, the carried values, one instance of each bundle.
// The body has no terminator yet; ptc_build_repeat_end adds the yield and the results.
ptc_op_t *ptc_build_repeat_begin(ptc_builder_t *b, int64_t count, bool reverse,
                                 ptc_value_t *const *carry, int32_t num_carry,
                                 ptc_value_t *const *each, int32_t num_each);
// |yields|: num_carry next values, then the values to collect.
void ptc_build_repeat_end(ptc_module_t *module, ptc_op_t *repeat, ptc_value_t *const *yields,
                          int32_t num_yields);
// Ends a function: |values| and |results| have |count| entries.
void ptc_build_return(ptc_builder_t *b, ptc_func_t *func, ptc_value_t *const *values,
                      const ptc_result_t *results, int32_t count);

#endif  // PTC_IR_BUILDER_H_
