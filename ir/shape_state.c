// Shape functions of optimizers, bundles, and the axes of the mesh.
#include <inttypes.h>
#include <string.h>

#include "ir/limbs.h"
#include "ir/shape_impl.h"

// --- optimizer

// One letter per operand: s state of the parameter's type, g gradient, f float scalar, n number
// scalar, b bool scalar. c1: states and gradients are floats. c2: the states have the parameter's
// type. c3: the gradient has its dims. c4: the scalars.
static ptc_status_t optimizer(ptc_module_t *module, const ptc_op_t *op, const char *roles,
                              const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *param = ptc_shape_operand(op, 0);
  ptc_dim_list_t dims = ptc_dim_list_of(param);
  for (int32_t i = 0; roles[i]; i++) {
    const ptc_type_t *type = ptc_shape_operand(op, i);
    bool is_float = ptc_dtype_is_float(type->dtype), scalar = type->num_dims == 0;
    bool tensor = roles[i] == 's' || roles[i] == 'g';
    PTC_SHAPE_CHECK(!tensor || is_float, module, op, 1, "operand %" PRId32 " cannot be %s", i,
                    ptc_dtype_name(type->dtype));
    PTC_SHAPE_CHECK(roles[i] != 's' || ptc_type_equal(type, param), module, op, 2,
                    "operand %" PRId32 " has not the type of the parameter", i);
    PTC_SHAPE_CHECK(roles[i] != 'g' || ptc_dim_list_same_names(&dims, type), module, op, 3,
                    "operand %" PRId32 " has not the dims of the parameter", i);
    bool fits = tensor || (scalar && (roles[i] == 'f'   ? is_float
                                      : roles[i] == 'b' ? type->dtype == PTC_BOOL
                                                        : type->dtype != PTC_BOOL));
    PTC_SHAPE_CHECK(fits, module, op, 4, "operand %" PRId32 " is no scalar of the due dtype", i);
  }
  for (int32_t i = 0; i < op->num_results; i++) out_types[i] = param;
  return PTC_OK;
}

// (param, grad, m, v, lr, beta1, beta2, eps, decay, t, gscale, skip). Results: param's type.
//   c1  param, grad, m and v are floats
//   c2  m and v have param's type
//   c3  grad has param's dims
//   c4  lr to decay and gscale are float scalars, t a scalar number, skip a scalar bool
ptc_status_t ptc_shape_adamw(ptc_module_t *module, const ptc_op_t *op,
                             const ptc_type_t **out_types) {
  return optimizer(module, op, "sgssfffffnfb", out_types);
}

// (param, grad, m, lr, momentum, decay, gscale, skip). Results: param's type.
//   c1  param, grad and m are floats
//   c2  m has param's type
//   c3  grad has param's dims
//   c4  lr to gscale are float scalars, skip a scalar bool
ptc_status_t ptc_shape_sgd(ptc_module_t *module, const ptc_op_t *op, const ptc_type_t **out_types) {
  return optimizer(module, op, "sgsffffb", out_types);
}

// Result: i64[square_limb=20].
//   c1  the operand is a float
//   c2  without a dim of that name
ptc_status_t ptc_shape_square_sum(ptc_module_t *module, const ptc_op_t *op,
                                  const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  const ptc_dim_t limb = {.name = ptc_module_intern(module, PTC_LIMBS_DIM), .extent = PTC_LIMBS};
  PTC_SHAPE_CHECK(ptc_dtype_is_float(x->dtype), module, op, 1, "the operand cannot be %s",
                  ptc_dtype_name(x->dtype));
  PTC_SHAPE_CHECK(!ptc_type_has_dim(x, limb.name), module, op, 2, "the operand has dim \"%s\"",
                  limb.name);
  ptc_dim_list_t dims = {0};
  ptc_dim_list_push(&dims, limb);
  return ptc_shape_result(module, op, PTC_I64, &dims, out_types);
}

// Result: f64[].
//   c1  the operand is i64[square_limb=20], whole on a device
ptc_status_t ptc_shape_limbs_value(ptc_module_t *module, const ptc_op_t *op,
                                   const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  bool fits = x->dtype == PTC_I64 && x->num_dims == 1 && x->dims[0].extent == PTC_LIMBS &&
              x->dims[0].name == ptc_module_intern(module, PTC_LIMBS_DIM) && !x->dims[0].num_axes;
  PTC_SHAPE_CHECK(fits, module, op, 1, "the operand is no sum of squares");
  const ptc_dim_list_t none = {0};
  return ptc_shape_result(module, op, PTC_F64, &none, out_types);
}

// Result: bool[].
//   c1  the operand is a float
//   c2  it is whole: a conjunction is no kind of partial result
ptc_status_t ptc_shape_all_finite(ptc_module_t *module, const ptc_op_t *op,
                                  const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  PTC_SHAPE_CHECK(ptc_dtype_is_float(x->dtype), module, op, 1, "the operand cannot be %s",
                  ptc_dtype_name(x->dtype));
  for (int32_t i = 0; i < x->num_dims; i++)
    PTC_SHAPE_CHECK(x->dims[i].num_axes == 0, module, op, 2, "dim \"%s\" is sharded",
                    x->dims[i].name);
  out_types[0] = ptc_type_scalar(&module->arena, PTC_BOOL);
  return PTC_OK;
}

// --- bundles

// |type| with other counts.
static ptc_status_t with_counts(ptc_module_t *module, const ptc_op_t *op, const ptc_type_t *type,
                                const int64_t *counts, int32_t num_counts,
                                const ptc_type_t **out_type) {
  ptc_type_t *copy = PTC_ARENA_NEW(&module->arena, ptc_type_t);
  int64_t *own = PTC_ARENA_ARRAY(&module->arena, int64_t, num_counts);
  for (int32_t i = 0; i < num_counts; i++) own[i] = counts[i];
  *copy = *type;
  copy->counts = own;
  copy->num_counts = num_counts;
  if (num_counts > PTC_MAX_COUNTS || ptc_type_num_bytes(copy) < 0)
    return ptc_shape_error(module, op, "size-c1", "the result is too large");
  *out_type = copy;
  return PTC_OK;
}

static ptc_status_t begin_list(ptc_module_t *module, const ptc_op_t *op) {
  PTC_TRY(ptc_shape_begin(module, op, PTC_SHAPE_BUNDLES));
  for (int32_t i = 0; i < op->num_operands; i++)
    PTC_SHAPE_CHECK(ptc_shape_operand(op, i)->num_counts >= 1, module, op, 1,
                    "operand %" PRId32 " is no bundle", i);
  return PTC_OK;
}

// Result: |count| instances from |first| on.
//   c1  the operand is a bundle
//   c2  it has those instances
ptc_status_t ptc_shape_list_slice(ptc_module_t *module, const ptc_op_t *op,
                                  const ptc_type_t **out_types) {
  PTC_TRY(begin_list(module, op));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  int64_t counts[PTC_MAX_COUNTS], first = ptc_op_int(op, "first"), count = ptc_op_int(op, "count");
  PTC_SHAPE_CHECK(
      first >= 0 && count >= 0 && first <= x->counts[0] && count <= x->counts[0] - first, module,
      op, 2, "no %" PRId64 " instances from %" PRId64 " on among %" PRId64, count, first,
      x->counts[0]);
  memcpy(counts, x->counts, (size_t)x->num_counts * sizeof(counts[0]));
  counts[0] = count;
  return with_counts(module, op, x, counts, x->num_counts, &out_types[0]);
}

// Result: the instances of all operands.
//   c1  the operands are bundles
//   c2  of the same type but for the first count
//   c3  the sum of the counts is below 2^63
ptc_status_t ptc_shape_list_concat(ptc_module_t *module, const ptc_op_t *op,
                                   const ptc_type_t **out_types) {
  PTC_TRY(begin_list(module, op));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  const ptc_type_t *instance = ptc_type_instance(&module->arena, x);
  int64_t counts[PTC_MAX_COUNTS], sum = 0;
  for (int32_t i = 0; i < op->num_operands; i++) {
    const ptc_type_t *type = ptc_shape_operand(op, i);
    bool same = ptc_type_equal(ptc_type_instance(&module->arena, type), instance);
    PTC_SHAPE_CHECK(same, module, op, 2, "operand %" PRId32 " has not the type of operand 0", i);
    PTC_SHAPE_CHECK(!__builtin_add_overflow(sum, type->counts[0], &sum), module, op, 3,
                    "the counts add up to too much");
  }
  memcpy(counts, x->counts, (size_t)x->num_counts * sizeof(counts[0]));
  counts[0] = sum;
  return with_counts(module, op, x, counts, x->num_counts, &out_types[0]);
}

// Result: counts n0, rest -> outer, n0 / outer, rest.
//   c1  the operand is a bundle
//   c2  outer is positive and divides its first count
ptc_status_t ptc_shape_list_group(ptc_module_t *module, const ptc_op_t *op,
                                  const ptc_type_t **out_types) {
  PTC_TRY(begin_list(module, op));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  int64_t counts[PTC_MAX_COUNTS + 1], outer = ptc_op_int(op, "outer");
  PTC_SHAPE_CHECK(outer >= 1 && x->counts[0] % outer == 0, module, op, 2,
                  "cannot make %" PRId64 " groups of %" PRId64 " instances", outer, x->counts[0]);
  memcpy(counts + 1, x->counts, (size_t)x->num_counts * sizeof(counts[0]));
  counts[0] = outer;
  counts[1] = x->counts[0] / outer;
  return with_counts(module, op, x, counts, x->num_counts + 1, &out_types[0]);
}

// Result: counts n0, n1, rest -> n0 * n1, rest.
//   c1  the operand is a bundle
//   c2  of at least two counts
ptc_status_t ptc_shape_list_ungroup(ptc_module_t *module, const ptc_op_t *op,
                                    const ptc_type_t **out_types) {
  PTC_TRY(begin_list(module, op));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  PTC_SHAPE_CHECK(x->num_counts >= 2, module, op, 2, "the operand has one count");
  int64_t counts[PTC_MAX_COUNTS];
  memcpy(counts, x->counts + 1, (size_t)(x->num_counts - 1) * sizeof(counts[0]));
  // begin_list has checked that the product of all counts does not overflow, unless one is zero.
  if (__builtin_mul_overflow(x->counts[0], x->counts[1], &counts[0]))
    return ptc_shape_error(module, op, "size-c1", "the result is too large");
  return with_counts(module, op, x, counts, x->num_counts - 1, &out_types[0]);
}

// --- axes

// Result: an instance's type, the dim without the axis.
//   c1  the mesh has the axis
//   c2  the operand is a bundle of one count, the axis's size
//   c3  it has the dim, and the dim is sharded over the whole axis, innermost
ptc_status_t ptc_shape_unshard(ptc_module_t *module, const ptc_op_t *op,
                               const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, PTC_SHAPE_BUNDLES));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  const char *name = ptc_op_string(op, "dim"), *axis = ptc_op_string(op, "axis");
  int64_t size = 0;
  PTC_SHAPE_CHECK(ptc_shape_mesh_axis(module, axis, &size), module, op, 1,
                  "the mesh has no axis \"%s\"", axis);
  PTC_SHAPE_CHECK(x->num_counts == 1 && x->counts[0] == size, module, op, 2,
                  "the operand is no bundle of %" PRId64 " shards", size);
  int32_t at = ptc_type_find_dim(x, name);
  ptc_dim_list_t dims = ptc_dim_list_of(x);
  bool sharded = at >= 0 && dims.items[at].num_axes > 0;
  ptc_axis_ref_t whole = {.axis = axis};
  PTC_SHAPE_CHECK(
      sharded && ptc_axis_ref_equal(dims.items[at].axes[dims.items[at].num_axes - 1], whole),
      module, op, 3, "dim \"%s\" is not sharded over axis \"%s\"", name, axis);
  dims.items[at].num_axes--;
  return ptc_shape_result(module, op, x->dtype, &dims, &out_types[0]);
}

// No result; any operand.
//   c1  to is at least 0
ptc_status_t ptc_shape_send(ptc_module_t *module, const ptc_op_t *op, const ptc_type_t **out_types) {
  (void)out_types;
  PTC_TRY(ptc_shape_begin(module, op, PTC_SHAPE_BUNDLES | PTC_SHAPE_PARTIALS));
  PTC_SHAPE_CHECK(ptc_op_int(op, "to") >= 0, module, op, 1, "there is no stage %" PRId64,
                  ptc_op_int(op, "to"));
  return PTC_OK;
}

// Result: the given type.
//   type-c2  the type is given
//   c1  from is at least 0
ptc_status_t ptc_shape_recv(ptc_module_t *module, const ptc_op_t *op, const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *given = ptc_shape_given(op, 0);
  if (!given) return ptc_shape_error(module, op, "type-c2", "the result needs a type");
  PTC_SHAPE_CHECK(ptc_op_int(op, "from") >= 0, module, op, 1, "there is no stage %" PRId64,
                  ptc_op_int(op, "from"));
  out_types[0] = given;
  return PTC_OK;
}

// (acc, x). Result: acc's type.
//   c1  the mesh has the axis
//   c2  x is a partial sum over the axis and, besides, over the same axes as acc
//   c3  both are integers of one dtype, or floats
//   c4  both have the same dims in the same order
ptc_status_t ptc_shape_accumulate(ptc_module_t *module, const ptc_op_t *op,
                                  const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, PTC_SHAPE_PARTIALS));
  const ptc_type_t *acc = ptc_shape_operand(op, 0), *x = ptc_shape_operand(op, 1);
  const char *axis = ptc_op_string(op, "axis");
  int64_t size;
  PTC_SHAPE_CHECK(ptc_shape_mesh_axis(module, axis, &size), module, op, 1,
                  "the mesh has no axis \"%s\"", axis);
  // x's partial axes without the axis must be acc's.
  ptc_axis_ref_t whole = {.axis = axis};
  int32_t found = 0, rest = 0;
  bool same = true;
  for (int32_t i = 0; i < x->num_partial; i++) {
    if (ptc_axis_ref_equal(x->partial[i], whole)) {
      found++;
    } else {
      same =
          same && rest < acc->num_partial && ptc_axis_ref_equal(x->partial[i], acc->partial[rest]);
      rest++;
    }
  }
  same = same && rest == acc->num_partial && x->partial_kind == PTC_REDUCE_SUM &&
         (rest == 0 || acc->partial_kind == PTC_REDUCE_SUM);
  PTC_SHAPE_CHECK(found == 1 && same, module, op, 2,
                  "operand 1 is no partial sum over axis \"%s\" beyond operand 0", axis);
  bool floats = ptc_dtype_is_float(acc->dtype) && ptc_dtype_is_float(x->dtype);
  PTC_SHAPE_CHECK(floats || (ptc_dtype_is_int(acc->dtype) && x->dtype == acc->dtype), module, op, 3,
                  "cannot add %s to %s", ptc_dtype_name(x->dtype), ptc_dtype_name(acc->dtype));
  bool same_dims = acc->num_dims == x->num_dims;
  for (int32_t i = 0; same_dims && i < acc->num_dims; i++)
    same_dims = acc->dims[i].name == x->dims[i].name;
  PTC_SHAPE_CHECK(same_dims, module, op, 4, "the operands have different dims");
  out_types[0] = acc;
  return PTC_OK;
}
