// Private to ir/shape*.c and op.c: one function per name in the op table's shape column.
#ifndef PTC_IR_SHAPE_IMPL_H_
#define PTC_IR_SHAPE_IMPL_H_

#include "ir/module.h"
#include "ir/op.h"

#define PTC_OP(id, mnemonic, min_in, max_in, num_out, traits, linear, rule, attrs, shape, ...) \
  ptc_status_t ptc_shape_##shape(ptc_module_t *module, const ptc_op_t *op,                     \
                                 const ptc_type_t **out_types);
#include "ir/ops.def"
#undef PTC_OP

// A list of dims under construction. An overlong list is remembered and refused by
// ptc_shape_result.
typedef struct ptc_dim_list_s {
  ptc_dim_t items[PTC_MAX_DIMS];
  int32_t count;
  bool overlong;
} ptc_dim_list_t;

ptc_dim_list_t ptc_dim_list_of(const ptc_type_t *type);
int32_t ptc_dim_list_find(const ptc_dim_list_t *list, const char *name);  // -1 if absent
void ptc_dim_list_push(ptc_dim_list_t *list, ptc_dim_t dim);
// Appends the dims of |type| whose names the list lacks.
void ptc_dim_list_union(ptc_dim_list_t *list, const ptc_type_t *type);
void ptc_dim_list_remove(ptc_dim_list_t *list, const char *name);
// Whether |type| has exactly the dims of the list, in any order.
bool ptc_dim_list_same_names(const ptc_dim_list_t *list, const ptc_type_t *type);
// Whether every dim of |type| is in the list.
bool ptc_dim_list_covers(const ptc_dim_list_t *list, const ptc_type_t *type);

typedef enum ptc_shape_flag_e {
  PTC_SHAPE_BUNDLES = 1 << 0,    // operands may be bundles
  PTC_SHAPE_PARTIALS = 1 << 1,   // any operand may be partial
  PTC_SHAPE_FREE_DIMS = 1 << 2,  // operands need not agree on dims of equal names
} ptc_shape_flag_t;

// Checks what holds for every op:
//   arity-c1    the numbers of operands and results are those of the op table
//   attr-c1     each attribute of the op table is there, unless optional, and has its kind
//   attr-c2     no list of dims names one twice
//   type-c1     the operands' types are known
//   size-c1     a type has at most PTC_MAX_DIMS dims, PTC_MAX_COUNTS counts, and fewer than 2^63
//               bytes
//   bundle-c1   operands are plain values
//   dims-c1     operands have equal extents of dims of the same name
//   dims-c2     and equal sharding of them
//   sharded-c1  dims which the rule column marks with ! are whole on a device
//   partial-c1  only operands in which the op is linear are partial sums
ptc_status_t ptc_shape_begin(ptc_module_t *module, const ptc_op_t *op, uint32_t flags);

// The type of a result with these dims. Its partial axes follow from the op table: those of the
// operands in which the op is linear, and those of the dims that the op reduces; in the order of the
// mesh.
//   size-c1     as above
//   axes-c1     an axis is used once: by one dim, or by the partial sum
ptc_status_t ptc_shape_result(ptc_module_t *module, const ptc_op_t *op, ptc_dtype_t dtype,
                              const ptc_dim_list_t *dims, const ptc_type_t **out_type);
// The same with the partial axes given.
ptc_status_t ptc_shape_result_partial(ptc_module_t *module, const ptc_op_t *op, ptc_dtype_t dtype,
                                      const ptc_dim_list_t *dims, const ptc_axis_ref_t *partial,
                                      int32_t num_partial, ptc_reduce_kind_t kind,
                                      const ptc_type_t **out_type);
// The same for a gradient of an operand with these dims: a sum over all other dims of the op, so
// partial over the axes of all of them.
ptc_status_t ptc_shape_result_of_grad(ptc_module_t *module, const ptc_op_t *op, ptc_dtype_t dtype,
                                      const ptc_dim_list_t *dims, const ptc_type_t **out_type);

// Reports constraint |number| of the op ("einsum-c2"), or one with a label of its own.
ptc_status_t ptc_shape_fail(ptc_module_t *module, const ptc_op_t *op, int number,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));
ptc_status_t ptc_shape_error(ptc_module_t *module, const ptc_op_t *op, const char *label,
                             const char *format, ...) __attribute__((format(printf, 4, 5)));
#define PTC_SHAPE_CHECK(condition, module, op, number, ...)                         \
  do {                                                                              \
    if (!(condition)) return ptc_shape_fail((module), (op), (number), __VA_ARGS__); \
  } while (0)

const ptc_type_t *ptc_shape_operand(const ptc_op_t *op, int32_t index);
// The type that result |index| was given in the text, or NULL.
const ptc_type_t *ptc_shape_given(const ptc_op_t *op, int32_t index);
// i32[], i64[] or such: no dims, not a bundle.
bool ptc_shape_is_scalar(const ptc_type_t *type, ptc_dtype_t dtype);
// Of row statistics: f64 for f64, else f32.
ptc_dtype_t ptc_shape_stat_dtype(ptc_dtype_t dtype);
// Whether operands [at, at + 2 + turns) are seed i64[], step i64[] and one i32[] per star of the
// attribute "path", and the last operands of the op.
bool ptc_shape_random_operands(const ptc_op_t *op, int32_t at);
// Whether the mesh has |axis|; its size.
bool ptc_shape_mesh_axis(const ptc_module_t *module, const char *axis, int64_t *out_size);

#endif  // PTC_IR_SHAPE_IMPL_H_
