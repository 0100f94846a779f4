// Private to passes/build_*.c: the state of building one kernel.
#ifndef PTC_PASSES_BUILD_IMPL_H_
#define PTC_PASSES_BUILD_IMPL_H_

#include "ir/op.h"
#include "passes/build_kernels.h"
#include "passes/uses.h"

typedef struct ptc_kbuild_s {
  ptc_diag_t *diag;
  ptc_arena_t *arena;
  ptc_module_t *module;
  ptc_op_t *const *ops;
  int32_t num_ops;
  ptc_map_t members;          // op of the group -> itself
  const ptc_use_map_t *uses;  // NULL: not known
  ptc_kernel_builder_t kb;
  ptc_value_t *values[PTC_KERNEL_MAX_PARAMS], *inputs[PTC_KERNEL_MAX_PARAMS];
  ptc_map_t known;    // value -> expressions made so far, by index
  ptc_kx_t guard;     // every LOAD made now is under this condition; or NONE
  double fill;        // where it does not hold
  bool checked;       // and its index comes from data
  uint32_t row, col;  // loop dims of rows and columns, by which reductions are recognized
  const ptc_value_t *hole_value;  // GEMM: the einsum's result, which is hole 0
  ptc_status_t status;            // of the first fault
} ptc_kbuild_t;

// --- build_expr.c: values as expressions
// The expression of |value| at |index|, one integer expression per dim: rounded to the value's dtype. Ops of
// the group and inline ops are expanded, all other values are loaded.
ptc_kx_t ptc_kbuild_value(ptc_kbuild_t *b, ptc_value_t *value, const ptc_kx_t *index);
// Operand |operand| of |op| where the op's result of type |type| is at |index|: dims correspond by name; a
// dim that |type| lacks is at its loop's position.
ptc_kx_t ptc_kbuild_operand(ptc_kbuild_t *b, const ptc_op_t *op, int32_t operand,
                            const ptc_type_t *type, const ptc_kx_t *index);
// |value| at the positions of the loops named like its dims.
ptc_kx_t ptc_kbuild_here(ptc_kbuild_t *b, ptc_value_t *value);
// A scalar operand.
ptc_kx_t ptc_kbuild_scalar(ptc_kbuild_t *b, const ptc_op_t *op, int32_t operand);
// The index of |value| by loop names.
void ptc_kbuild_index_of(ptc_kbuild_t *b, const ptc_type_t *type, ptc_kx_t *out_index);
// The parameter that holds |value|, added with |mode| if there is none.
int32_t ptc_kbuild_param(ptc_kbuild_t *b, ptc_value_t *value, ptc_kparam_mode_t mode);
// Adds an INOUT parameter: |result| takes the bytes of |input|.
int32_t ptc_kbuild_inout(ptc_kbuild_t *b, ptc_value_t *result, ptc_value_t *input);
// Records the diagnostic "kernel-unsupported"; returns NONE.
ptc_kx_t ptc_kbuild_unsupported(ptc_kbuild_t *b, const ptc_op_t *op, const char *what);

int64_t ptc_kbuild_extent(const ptc_kbuild_t *b, const ptc_dim_t *dim);  // on this device
// The loop dim called |name|, or -1.
int32_t ptc_kbuild_loop(const ptc_kbuild_t *b, const char *name);
// The mask of the loop dims that the attribute |names| (DIMS or DIM) names.
uint32_t ptc_kbuild_loops(const ptc_kbuild_t *b, const ptc_attr_t *names);
// The number (i32) of this device's shard over |axes|: its coordinates, and turns of the time axis, in row-major
// order.
ptc_kx_t ptc_kbuild_shard_index(ptc_kbuild_t *b, const ptc_axis_ref_t *axes, int32_t num_axes);
// The position along |dim| of the whole value: the shard's start plus |local|.
ptc_kx_t ptc_kbuild_global_index(ptc_kbuild_t *b, const ptc_dim_t *dim, ptc_kx_t local);
// The row-major number (i64) of the element at |index| among all elements of |dims|.
ptc_kx_t ptc_kbuild_number(ptc_kbuild_t *b, const ptc_dim_t *dims, int32_t num_dims,
                           const ptc_kx_t *index);
// f32 for the 16-bit floats, else |dtype|: in what arithmetic is done.
ptc_dtype_t ptc_kbuild_wide(ptc_dtype_t dtype);

// Expands result |result| of |op| at |index|.
typedef ptc_kx_t (*ptc_kbuild_fn_t)(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                                    const ptc_kx_t *index);
// NULL for ops that no expression stands for (templates, control).
ptc_kbuild_fn_t ptc_kbuild_fn(ptc_opcode_t opcode);
// Elementwise ops (build_elementwise.c), structure (build_structure.c), reductions and composites
// (build_rows.c), optimizers (build_optimizer.c).
#define PTC_KBUILD_FNS(X)                                                                         \
  X(elementwise)                                                                                  \
  X(constant)                                                                                     \
  X(iota)                                                                                         \
  X(axis_index) X(random) X(dropout) X(where) X(broadcast) X(rename) X(split) X(concat) X(window) \
      X(gather) X(shard) X(reduce_sum) X(reduce_max) X(argmax) X(einsum) X(softmax)               \
          X(softmax_grad) X(layernorm) X(layernorm_grad) X(rmsnorm) X(rmsnorm_grad)               \
              X(cross_entropy) X(cross_entropy_grad) X(rope) X(adamw) X(sgd) X(all_finite)
#define PTC_KBUILD_FN(name)                                                       \
  ptc_kx_t ptc_kbuild_##name(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result, \
                             const ptc_kx_t *index);
PTC_KBUILD_FNS(PTC_KBUILD_FN)
#undef PTC_KBUILD_FN

// --- small expressions
static inline ptc_kx_t ptc_kbuild_int(ptc_kbuild_t *b, int64_t value) {
  return ptc_kb_const(&b->kb, PTC_I32, (double)value);
}
static inline ptc_kx_t ptc_kbuild_2(ptc_kbuild_t *b, ptc_opcode_t opcode, ptc_dtype_t dtype,
                                    ptc_kx_t x, ptc_kx_t y) {
  return x < 0 || y < 0 ? PTC_KX_NONE : ptc_kb_op2(&b->kb, opcode, dtype, x, y);
}
static inline ptc_kx_t ptc_kbuild_1(ptc_kbuild_t *b, ptc_opcode_t opcode, ptc_dtype_t dtype,
                                    ptc_kx_t x) {
  return x < 0 ? PTC_KX_NONE : ptc_kb_op1(&b->kb, opcode, dtype, x);
}
static inline ptc_kx_t ptc_kbuild_cast(ptc_kbuild_t *b, ptc_dtype_t dtype, ptc_kx_t x) {
  return x < 0 ? PTC_KX_NONE : ptc_kb_cast(&b->kb, dtype, x);
}
// c ? x : y; folded where c is known.
ptc_kx_t ptc_kbuild_select(ptc_kbuild_t *b, ptc_kx_t c, ptc_kx_t x, ptc_kx_t y);
// Both; NONE stands for true.
ptc_kx_t ptc_kbuild_both(ptc_kbuild_t *b, ptc_kx_t x, ptc_kx_t y);
// x + |shift|, x * |factor| of integers, folded where nothing changes.
ptc_kx_t ptc_kbuild_shift(ptc_kbuild_t *b, ptc_kx_t x, int64_t shift);
ptc_kx_t ptc_kbuild_scale(ptc_kbuild_t *b, ptc_kx_t x, int64_t factor);
ptc_kx_t ptc_kbuild_reduce(ptc_kbuild_t *b, const ptc_op_t *op, ptc_kx_reduce_t reduce,
                           ptc_dtype_t dtype, ptc_kx_t x, uint32_t over, bool fma);

// --- nests (build_nest.c)
// The loops of a group: dims by name, in order; bits of |row| and |col| say which are rows and columns.
typedef struct ptc_nest_plan_s {
  int32_t num_dims;
  const char *name[PTC_KERNEL_MAX_DIMS];
  int64_t extent[PTC_KERNEL_MAX_DIMS];
  uint32_t row, col;
  int32_t num_repeated;  // ops that are computed at more points than they have
  const char *why;       // why there is none
} ptc_nest_plan_t;
// False if |ops| (in order of the block) cannot be one nest. Without |uses| (may be NULL) it is not checked
// that the nest is a good one: no reduction is repeated, values are stored once, only cheap ones are computed
// again.
bool ptc_nest_plan(ptc_op_t *const *ops, int32_t num_ops, const ptc_use_map_t *uses,
                   ptc_nest_plan_t *out_plan);
bool ptc_op_reduces(const ptc_op_t *op);
// Whether computing |op| again costs less than loading its result: no transcendental function, no random
// numbers.
bool ptc_op_is_cheap(const ptc_op_t *op);

// --- kinds of kernels
// Chooses the loop dims of a nest for the group (build_nest.c).
ptc_status_t ptc_kbuild_nest_dims(ptc_kbuild_t *b);
// The einsum of the group that is a GEMM, or NULL (build_gemm.c).
const ptc_op_t *ptc_kbuild_find_gemm(ptc_op_t *const *ops, int32_t num_ops);
ptc_status_t ptc_kbuild_gemm(ptc_kbuild_t *b, const ptc_op_t *einsum);
ptc_status_t ptc_kbuild_attention(ptc_kbuild_t *b, const ptc_op_t *op);
// Stores the results that others use (build_kernels.c).
void ptc_kbuild_stores(ptc_kbuild_t *b);
// |kernel|, or an equal one with fewer loops (build_flatten.c).
ptc_kernel_t *ptc_kernel_flatten(ptc_arena_t *arena, ptc_kernel_t *kernel);
// Finds results that may take the bytes of operands (build_in_place.c).
void ptc_kbuild_in_place(ptc_kbuild_t *b);
// Whether an op outside of |ops| uses |value|.
bool ptc_kbuild_is_stored(const ptc_kbuild_t *b, const ptc_value_t *value);

// --- shared with fuse
// The kind of kernel that executes |op| alone; NEST for what expressions stand for.
ptc_kernel_kind_t ptc_op_kernel_kind(const ptc_op_t *op);
// Whether |op| is an einsum that a GEMM computes well.
bool ptc_einsum_is_gemm(const ptc_op_t *op);
// The operand whose bytes result |result| of |op| takes, or NULL.
ptc_value_t *ptc_op_taken_operand(const ptc_op_t *op, int32_t result);
bool ptc_rope_turns_all(const ptc_op_t *op);

#endif  // PTC_PASSES_BUILD_IMPL_H_
