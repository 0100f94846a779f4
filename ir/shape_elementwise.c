// Shape functions of leaves and elementwise ops. Result dims: those of the operand of most dims (the first
// of several), then those of the others in the order of first appearance. The constraints cN of op "add" have the labels "add-cN"; those that hold for
// every op are in shape_impl.h.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "ir/shape_impl.h"

static bool is_numeric(ptc_dtype_t dtype) { return dtype != PTC_BOOL; }
static bool is_bool(ptc_dtype_t dtype) { return dtype == PTC_BOOL; }
static bool is_any(ptc_dtype_t dtype) {
  (void)dtype;
  return true;
}

// The operand of most dims leads: it is walked in its own order, and what is broadcast along it adapts.
static ptc_dim_list_t union_of_operands(const ptc_op_t *op) {
  int32_t first = 0;
  for (int32_t i = 1; i < op->num_operands; i++)
    if (ptc_shape_operand(op, i)->num_dims > ptc_shape_operand(op, first)->num_dims) first = i;
  ptc_dim_list_t dims = {0};
  ptc_dim_list_union(&dims, ptc_shape_operand(op, first));
  for (int32_t i = 0; i < op->num_operands; i++)
    ptc_dim_list_union(&dims, ptc_shape_operand(op, i));
  return dims;
}

// c1: operands from |first| on have a dtype that passes |allowed|. c2: and they have the same.
static ptc_status_t check_dtypes(ptc_module_t *module, const ptc_op_t *op, int32_t first,
                                 bool (*allowed)(ptc_dtype_t dtype)) {
  ptc_dtype_t dtype = ptc_shape_operand(op, first)->dtype;
  for (int32_t i = first; i < op->num_operands; i++) {
    ptc_dtype_t other = ptc_shape_operand(op, i)->dtype;
    PTC_SHAPE_CHECK(allowed(other), module, op, 1, "operand %" PRId32 " cannot be %s", i,
                    ptc_dtype_name(other));
    PTC_SHAPE_CHECK(other == dtype, module, op, 2, "operands have dtypes %s and %s",
                    ptc_dtype_name(dtype), ptc_dtype_name(other));
  }
  return PTC_OK;
}

static ptc_status_t elementwise(ptc_module_t *module, const ptc_op_t *op,
                                bool (*allowed)(ptc_dtype_t dtype), const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  PTC_TRY(check_dtypes(module, op, 0, allowed));
  ptc_dim_list_t dims = union_of_operands(op);
  return ptc_shape_result(module, op, ptc_shape_operand(op, 0)->dtype, &dims, out_types);
}

static ptc_status_t elementwise_bool(ptc_module_t *module, const ptc_op_t *op,
                                     bool (*allowed)(ptc_dtype_t dtype),
                                     const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  PTC_TRY(check_dtypes(module, op, 0, allowed));
  ptc_dim_list_t dims = union_of_operands(op);
  return ptc_shape_result(module, op, PTC_BOOL, &dims, out_types);
}

// --- leaves

// Result: a scalar of the given type's dtype.
//   type-c2  the type is given
//   c1  it is a plain scalar; partial only if it is zero
//   c2  the value of an integer or bool is one of that dtype
ptc_status_t ptc_shape_constant(ptc_module_t *module, const ptc_op_t *op,
                                const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *given = ptc_shape_given(op, 0);
  if (!given) return ptc_shape_error(module, op, "type-c2", "the result needs a type");
  double value = ptc_op_float(op, "value");
  PTC_SHAPE_CHECK(ptc_shape_is_scalar(given, given->dtype) && (!given->num_partial || value == 0),
                  module, op, 1, "the result must be a scalar");
  PTC_SHAPE_CHECK(ptc_dtype_is_float(given->dtype) || ptc_dtype_round(given->dtype, value) == value,
                  module, op, 2, "%g is no value of %s", value, ptc_dtype_name(given->dtype));
  const ptc_dim_list_t none = {0};
  return ptc_shape_result_partial(module, op, given->dtype, &none, given->partial,
                                  given->num_partial, given->partial_kind, &out_types[0]);
}

// Result: i32[dim], with the extent and sharding of the given type.
//   type-c2  the type is given
//   c1  it is i32, with the one dim, not a bundle, not partial
//   c2  its extent is at most 2^31
ptc_status_t ptc_shape_iota(ptc_module_t *module, const ptc_op_t *op,
                            const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *given = ptc_shape_given(op, 0);
  if (!given) return ptc_shape_error(module, op, "type-c2", "the result needs a type");
  const char *dim = ptc_op_string(op, "dim");
  PTC_SHAPE_CHECK(given->dtype == PTC_I32 && given->num_dims == 1 && given->dims[0].name == dim &&
                      !given->num_counts && !given->num_partial,
                  module, op, 1, "the result must be i32 with the one dim \"%s\"", dim);
  PTC_SHAPE_CHECK(given->dims[0].extent <= INT64_C(1) << 31, module, op, 2,
                  "extent %" PRId64 " does not fit i32", given->dims[0].extent);
  ptc_dim_list_t dims = ptc_dim_list_of(given);
  return ptc_shape_result(module, op, PTC_I32, &dims, out_types);
}

// Result: the given type.
//   type-c2  the type is given
//   c1  it is a plain value, not bool, not partial; a float one for the normal distributions
//   c2  dist is uniform, normal or truncated_normal
//   c3  a and b are finite; a uniform's a <= b, a normal's a >= 0
//   c4  operands are seed i64[], step i64[], one i32[] per * of the path
ptc_status_t ptc_shape_random(ptc_module_t *module, const ptc_op_t *op,
                              const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *given = ptc_shape_given(op, 0);
  if (!given) return ptc_shape_error(module, op, "type-c2", "the result needs a type");
  const char *dist = ptc_op_string(op, "dist");
  bool uniform = strcmp(dist, "uniform") == 0;
  bool normal = strcmp(dist, "normal") == 0 || strcmp(dist, "truncated_normal") == 0;
  PTC_SHAPE_CHECK(uniform || normal, module, op, 2, "unknown distribution \"%s\"", dist);
  PTC_SHAPE_CHECK(!given->num_counts && !given->num_partial && given->dtype != PTC_BOOL &&
                      (uniform || ptc_dtype_is_float(given->dtype)),
                  module, op, 1, "the result cannot have this type");
  double a = ptc_op_float(op, "a"), b = ptc_op_float(op, "b");
  PTC_SHAPE_CHECK(isfinite(a) && isfinite(b) && (uniform ? a <= b : a >= 0), module, op, 3,
                  "%s cannot have parameters %g, %g", dist, a, b);
  PTC_SHAPE_CHECK(ptc_shape_random_operands(op, 0), module, op, 4,
                  "operands must be seed, step and the turns of the path");
  if (given->num_dims > PTC_MAX_DIMS)
    return ptc_shape_error(module, op, "size-c1", "the result has more than %d dims", PTC_MAX_DIMS);
  ptc_dim_list_t dims = ptc_dim_list_of(given);
  return ptc_shape_result(module, op, given->dtype, &dims, out_types);
}

// --- one operand

// Result: the operand's type.
//   c1  the operand is not bool
ptc_status_t ptc_shape_unary(ptc_module_t *module, const ptc_op_t *op,
                             const ptc_type_t **out_types) {
  return elementwise(module, op, is_numeric, out_types);
}

// "approx" is that of gelu and gelu_grad; the other ops have no such attribute.
static ptc_status_t check_approx(ptc_module_t *module, const ptc_op_t *op, int number) {
  bool gelu = op->opcode == PTC_OP_GELU || op->opcode == PTC_OP_GELU_GRAD;
  const char *approx = gelu ? ptc_op_string(op, "approx") : NULL;
  bool known = !approx || strcmp(approx, "tanh") == 0 || strcmp(approx, "none") == 0 ||
               strcmp(approx, "erf") == 0;
  PTC_SHAPE_CHECK(known, module, op, number, "unknown approximation \"%s\"", approx);
  return PTC_OK;
}

// Result: the operand's type.
//   c1  the operand is a float
//   c2  (gelu) approx is tanh, erf or none
ptc_status_t ptc_shape_unary_f(ptc_module_t *module, const ptc_op_t *op,
                               const ptc_type_t **out_types) {
  PTC_TRY(elementwise(module, op, ptc_dtype_is_float, out_types));
  return check_approx(module, op, 2);
}

// Result: the operand's type.
//   c1  the operand is bool
ptc_status_t ptc_shape_unary_b(ptc_module_t *module, const ptc_op_t *op,
                               const ptc_type_t **out_types) {
  return elementwise(module, op, is_bool, out_types);
}

// Result: bool.
//   c1  the operand is a float
ptc_status_t ptc_shape_test_f(ptc_module_t *module, const ptc_op_t *op,
                              const ptc_type_t **out_types) {
  return elementwise_bool(module, op, ptc_dtype_is_float, out_types);
}

// Result: the operand's type, a bundle's too, with dtype |to|.
//   c1  |to| names a dtype
//   c2  a partial sum is cast to a wider float only
ptc_status_t ptc_shape_cast(ptc_module_t *module, const ptc_op_t *op,
                            const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, PTC_SHAPE_BUNDLES));
  ptc_dtype_t dtype;
  const char *name = ptc_op_string(op, "to");
  PTC_SHAPE_CHECK(ptc_dtype_parse(name, &dtype), module, op, 1, "unknown dtype \"%s\"", name);
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  bool widens = ptc_dtype_is_float(x->dtype) && ptc_dtype_is_float(dtype) &&
                ptc_dtype_bytes(dtype) > ptc_dtype_bytes(x->dtype);
  PTC_SHAPE_CHECK(!x->num_partial || widens || dtype == x->dtype, module, op, 2,
                  "a partial %s cannot become %s before it is reduced", ptc_dtype_name(x->dtype),
                  name);
  ptc_type_t *type = ptc_type_with_dtype(&module->arena, x, dtype);
  if (ptc_type_num_bytes(type) < 0)
    return ptc_shape_error(module, op, "size-c1", "the result is too large");
  out_types[0] = type;
  return PTC_OK;
}

// Result: the first operand's type.
//   c1  the first operand is a float
//   c2  0 <= p < 1
//   c3  the others are seed i64[], step i64[], one i32[] per * of the path
ptc_status_t ptc_shape_dropout(ptc_module_t *module, const ptc_op_t *op,
                               const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  double p = ptc_op_float(op, "p");
  PTC_SHAPE_CHECK(ptc_dtype_is_float(x->dtype), module, op, 1, "operand 0 cannot be %s",
                  ptc_dtype_name(x->dtype));
  PTC_SHAPE_CHECK(p >= 0 && p < 1, module, op, 2, "probability %g is not in [0, 1)", p);
  PTC_SHAPE_CHECK(ptc_shape_random_operands(op, 1), module, op, 3,
                  "operands must be x, seed, step and the turns of the path");
  ptc_dim_list_t dims = ptc_dim_list_of(x);
  return ptc_shape_result(module, op, x->dtype, &dims, out_types);
}

// --- two and three operands

// Result: the operands' dtype.
//   c1  no operand is bool
//   c2  the operands have the same dtype
ptc_status_t ptc_shape_binary(ptc_module_t *module, const ptc_op_t *op,
                              const ptc_type_t **out_types) {
  return elementwise(module, op, is_numeric, out_types);
}

// Result: the operands' dtype.
//   c1  the operands are floats
//   c2  they have the same dtype
//   c3  (gelu_grad) approx is tanh, erf or none
ptc_status_t ptc_shape_binary_f(ptc_module_t *module, const ptc_op_t *op,
                                const ptc_type_t **out_types) {
  PTC_TRY(elementwise(module, op, ptc_dtype_is_float, out_types));
  return check_approx(module, op, 3);
}

// Result: bool.
//   c1  the operands are bool
ptc_status_t ptc_shape_binary_b(ptc_module_t *module, const ptc_op_t *op,
                                const ptc_type_t **out_types) {
  return elementwise(module, op, is_bool, out_types);
}

// Result: bool.
//   c1  (lt, le) no operand is bool
//   c2  the operands have the same dtype
ptc_status_t ptc_shape_compare(ptc_module_t *module, const ptc_op_t *op,
                               const ptc_type_t **out_types) {
  bool ordered = op->opcode == PTC_OP_LT || op->opcode == PTC_OP_LE;
  return elementwise_bool(module, op, ordered ? is_numeric : is_any, out_types);
}

// Result: the dtype of the last two operands.
//   c1  the first operand is bool
//   c2  the others have the same dtype
ptc_status_t ptc_shape_where(ptc_module_t *module, const ptc_op_t *op,
                             const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  ptc_dtype_t cond = ptc_shape_operand(op, 0)->dtype;
  PTC_SHAPE_CHECK(cond == PTC_BOOL, module, op, 1, "operand 0 cannot be %s", ptc_dtype_name(cond));
  PTC_TRY(check_dtypes(module, op, 1, is_any));
  ptc_dim_list_t dims = union_of_operands(op);
  return ptc_shape_result(module, op, ptc_shape_operand(op, 1)->dtype, &dims, out_types);
}
