// Shape functions of reductions, contractions, scans and row ops.
#include <inttypes.h>

#include "ir/shape_impl.h"

static bool any_operand_has(const ptc_op_t *op, const char *dim) {
  for (int32_t i = 0; i < op->num_operands; i++)
    if (ptc_type_has_dim(ptc_shape_operand(op, i), dim)) return true;
  return false;
}

// Constraint |number|: every dim of attribute |name| is a dim of an operand.
static ptc_status_t check_present(ptc_module_t *module, const ptc_op_t *op, const char *name,
                                  int number) {
  const ptc_attr_t *attr = ptc_op_attr(op, name);
  for (int32_t i = 0; i < attr->count; i++)
    PTC_SHAPE_CHECK(any_operand_has(op, attr->u.dims[i]), module, op, number,
                    "no operand has dim \"%s\"", attr->u.dims[i]);
  return PTC_OK;
}

static void remove_all(ptc_dim_list_t *dims, const ptc_attr_t *attr) {
  for (int32_t i = 0; i < attr->count; i++) ptc_dim_list_remove(dims, attr->u.dims[i]);
}

// A sum of floats may be kept in another float dtype, that of the given type.
static ptc_dtype_t sum_dtype(const ptc_op_t *op, ptc_dtype_t dtype) {
  const ptc_type_t *given = ptc_shape_given(op, 0);
  bool free = given && ptc_dtype_is_float(dtype) && ptc_dtype_is_float(given->dtype);
  return free ? given->dtype : dtype;
}

// Result: the operand's dims without |over|; its dtype, or (reduce_sum) another float dtype given
// by the result's type.
//   c1  the operand is not bool
//   c2  it has all dims of |over|
ptc_status_t ptc_shape_reduce(ptc_module_t *module, const ptc_op_t *op,
                              const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  PTC_SHAPE_CHECK(x->dtype != PTC_BOOL, module, op, 1, "the operand cannot be bool");
  PTC_TRY(check_present(module, op, "over", 2));
  ptc_dim_list_t dims = ptc_dim_list_of(x);
  remove_all(&dims, ptc_op_attr(op, "over"));
  ptc_dtype_t dtype = op->opcode == PTC_OP_REDUCE_SUM ? sum_dtype(op, x->dtype) : x->dtype;
  return ptc_shape_result(module, op, dtype, &dims, out_types);
}

// Result: i32, without the dim.
//   c1  the operand is not bool
//   c2  it has the dim
//   c3  of an extent in [1, 2^31)
ptc_status_t ptc_shape_argmax(ptc_module_t *module, const ptc_op_t *op,
                              const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  const char *dim = ptc_op_string(op, "dim");
  int32_t at = ptc_type_find_dim(x, dim);
  PTC_SHAPE_CHECK(x->dtype != PTC_BOOL, module, op, 1, "the operand cannot be bool");
  PTC_SHAPE_CHECK(at >= 0, module, op, 2, "the operand has no dim \"%s\"", dim);
  PTC_SHAPE_CHECK(x->dims[at].extent >= 1 && x->dims[at].extent <= INT32_MAX, module, op, 3,
                  "no index of dim \"%s\" of extent %" PRId64, dim, x->dims[at].extent);
  ptc_dim_list_t dims = ptc_dim_list_of(x);
  ptc_dim_list_remove(&dims, dim);
  return ptc_shape_result(module, op, PTC_I32, &dims, out_types);
}

// Result: the operands' dims without |over|, in the order of first appearance or of |dims|; their
// dtype, or another float dtype given by the result's type.
//   c1  no operand is bool
//   c2  the operands have the same dtype
//   c3  each dim of |over| is in an operand
//   c4  |dims| lists exactly the other dims
ptc_status_t ptc_shape_einsum(ptc_module_t *module, const ptc_op_t *op,
                              const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *x = ptc_shape_operand(op, 0), *y = ptc_shape_operand(op, 1);
  PTC_SHAPE_CHECK(x->dtype != PTC_BOOL, module, op, 1, "an operand cannot be bool");
  PTC_SHAPE_CHECK(x->dtype == y->dtype, module, op, 2, "operands have dtypes %s and %s",
                  ptc_dtype_name(x->dtype), ptc_dtype_name(y->dtype));
  PTC_TRY(check_present(module, op, "over", 3));
  // The union may be longer than a value's dims before |over| is removed.
  ptc_dim_list_t dims = {0};
  for (int t = 0; t < 2; t++) {
    const ptc_type_t *type = ptc_shape_operand(op, t);
    for (int32_t i = 0; i < type->num_dims; i++) {
      const char *name = type->dims[i].name;
      if (!ptc_op_dims_contain(op, "over", name) && ptc_dim_list_find(&dims, name) < 0)
        ptc_dim_list_push(&dims, type->dims[i]);
    }
  }
  const ptc_attr_t *order = ptc_op_attr(op, "dims");
  if (order) {
    ptc_dim_list_t ordered = {0};
    PTC_SHAPE_CHECK(order->count == dims.count, module, op, 4,
                    "attribute \"dims\" does not list the %" PRId32 " dims of the result",
                    dims.count);
    for (int32_t i = 0; i < order->count; i++) {
      int32_t at = ptc_dim_list_find(&dims, order->u.dims[i]);
      PTC_SHAPE_CHECK(at >= 0, module, op, 4, "the result has no dim \"%s\"", order->u.dims[i]);
      ptc_dim_list_push(&ordered, dims.items[at]);
    }
    ordered.overlong = dims.overlong;
    dims = ordered;
  }
  return ptc_shape_result(module, op, sum_dtype(op, x->dtype), &dims, out_types);
}

static ptc_status_t scan(ptc_module_t *module, const ptc_op_t *op, bool index,
                         const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  const char *dim = ptc_op_string(op, "dim");
  int32_t at = ptc_type_find_dim(x, dim);
  PTC_SHAPE_CHECK(x->dtype != PTC_BOOL, module, op, 1, "the operand cannot be bool");
  PTC_SHAPE_CHECK(at >= 0, module, op, 2, "the operand has no dim \"%s\"", dim);
  PTC_SHAPE_CHECK(!index || x->dims[at].extent <= INT32_MAX, module, op, 3,
                  "no i32 index of dim \"%s\" of extent %" PRId64, dim, x->dims[at].extent);
  ptc_dim_list_t dims = ptc_dim_list_of(x);
  return ptc_shape_result(module, op, index ? PTC_I32 : x->dtype, &dims, out_types);
}

// Result: the operand's type.
//   c1  the operand is not bool
//   c2  it has the dim
ptc_status_t ptc_shape_scan(ptc_module_t *module, const ptc_op_t *op,
                            const ptc_type_t **out_types) {
  return scan(module, op, false, out_types);
}

// Result: i32, the operand's dims.
//   c1  the operand is not bool
//   c2  it has the dim
//   c3  of an extent below 2^31
ptc_status_t ptc_shape_scan_i(ptc_module_t *module, const ptc_op_t *op,
                              const ptc_type_t **out_types) {
  return scan(module, op, true, out_types);
}

// softmax(x), softmax_grad(y, dy). Result: the first operand's type.
//   c1  the first operand is a float
//   c2  it has all dims of |over|
//   c3  (softmax_grad) both operands have the same dtype and dims
ptc_status_t ptc_shape_rows(ptc_module_t *module, const ptc_op_t *op,
                            const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  PTC_SHAPE_CHECK(ptc_dtype_is_float(x->dtype), module, op, 1, "the operand cannot be %s",
                  ptc_dtype_name(x->dtype));
  ptc_dim_list_t dims = ptc_dim_list_of(x);
  PTC_TRY(check_present(module, op, "over", 2));
  for (int32_t i = 1; i < op->num_operands; i++) {
    const ptc_type_t *other = ptc_shape_operand(op, i);
    PTC_SHAPE_CHECK(other->dtype == x->dtype && ptc_dim_list_same_names(&dims, other), module, op,
                    3, "the operands differ in dtype or dims");
  }
  return ptc_shape_result(module, op, x->dtype, &dims, out_types);
}

// Result: i32, the operand's dims.
//   c1  the operand is an integer
//   c2  it has all dims of |over|
ptc_status_t ptc_shape_dispatch_slot(ptc_module_t *module, const ptc_op_t *op,
                                     const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  PTC_SHAPE_CHECK(ptc_dtype_is_int(x->dtype), module, op, 1, "the operand cannot be %s",
                  ptc_dtype_name(x->dtype));
  PTC_TRY(check_present(module, op, "over", 2));
  ptc_dim_list_t dims = ptc_dim_list_of(x);
  return ptc_shape_result(module, op, PTC_I32, &dims, out_types);
}

// Results: values of the operand's dtype, indices i32; the dim gives way to |into|.
//   c1  the operand is not bool
//   c2  it has the dim, of an extent below 2^31
//   c3  |into| is no other dim of the operand
//   c4  |extent| is in [0, extent of the dim]
ptc_status_t ptc_shape_topk(ptc_module_t *module, const ptc_op_t *op,
                            const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  const char *dim = ptc_op_string(op, "dim"), *into = ptc_op_string(op, "into");
  int64_t extent = ptc_op_int(op, "extent");
  int32_t at = ptc_type_find_dim(x, dim);
  PTC_SHAPE_CHECK(x->dtype != PTC_BOOL, module, op, 1, "the operand cannot be bool");
  PTC_SHAPE_CHECK(at >= 0 && x->dims[at].extent <= INT32_MAX, module, op, 2,
                  "the operand has no dim \"%s\" with an i32 index", dim);
  PTC_SHAPE_CHECK(into == dim || !ptc_type_has_dim(x, into), module, op, 3,
                  "the operand has dim \"%s\" already", into);
  PTC_SHAPE_CHECK(extent >= 0 && extent <= x->dims[at].extent, module, op, 4,
                  "%" PRId64 " of dim \"%s\" of extent %" PRId64, extent, dim, x->dims[at].extent);
  ptc_dim_list_t dims = ptc_dim_list_of(x);
  dims.items[at] = (ptc_dim_t){.name = into, .extent = extent};
  PTC_TRY(ptc_shape_result(module, op, x->dtype, &dims, &out_types[0]));
  return ptc_shape_result(module, op, PTC_I32, &dims, &out_types[1]);
}
