// Shape functions of ops that move elements: views, concat, windows, gathers.
#include <inttypes.h>

#include "ir/axes.h"
#include "ir/shape_impl.h"

// Result: |dims| with |extents|. New dims take their sharding from the given type if there is one.
//   c1  as many extents as dims, none negative
//   c2  every dim of the operand is among them, with its extent
ptc_status_t ptc_shape_broadcast(ptc_module_t *module, const ptc_op_t *op,
                                 const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *x = ptc_shape_operand(op, 0), *given = ptc_shape_given(op, 0);
  const ptc_attr_t *names = ptc_op_attr(op, "dims"), *extents = ptc_op_attr(op, "extents");
  PTC_SHAPE_CHECK(names->count == extents->count, module, op, 1,
                  "%" PRId32 " dims and %" PRId32 " extents", names->count, extents->count);
  ptc_dim_list_t dims = {0};
  int32_t found = 0;
  for (int32_t i = 0; i < names->count; i++) {
    ptc_dim_t dim = {.name = names->u.dims[i], .extent = extents->u.ints[i]};
    PTC_SHAPE_CHECK(dim.extent >= 0, module, op, 1, "dim \"%s\" has extent %" PRId64, dim.name,
                    dim.extent);
    int32_t at = ptc_type_find_dim(x, dim.name);
    int32_t in_given = given ? ptc_type_find_dim(given, dim.name) : -1;
    if (at >= 0) {
      PTC_SHAPE_CHECK(x->dims[at].extent == dim.extent, module, op, 2,
                      "dim \"%s\" has extents %" PRId64 " and %" PRId64, dim.name,
                      x->dims[at].extent, dim.extent);
      dim = x->dims[at];
      found++;
    } else if (in_given >= 0 && given->dims[in_given].extent == dim.extent) {
      dim = given->dims[in_given];
    }
    ptc_dim_list_push(&dims, dim);
  }
  PTC_SHAPE_CHECK(found == x->num_dims, module, op, 2, "the result lacks dims of the operand");
  return ptc_shape_result(module, op, x->dtype, &dims, out_types);
}

// Result: the operand's dims in the order of |dims|.
//   c1  |dims| lists exactly the operand's dims
ptc_status_t ptc_shape_transpose(ptc_module_t *module, const ptc_op_t *op,
                                 const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  const ptc_attr_t *order = ptc_op_attr(op, "dims");
  PTC_SHAPE_CHECK(order->count == x->num_dims, module, op, 1, "%" PRId32 " dims for %" PRId32,
                  order->count, x->num_dims);
  ptc_dim_list_t dims = {0};
  for (int32_t i = 0; i < order->count; i++) {
    int32_t at = ptc_type_find_dim(x, order->u.dims[i]);
    PTC_SHAPE_CHECK(at >= 0, module, op, 1, "the operand has no dim \"%s\"", order->u.dims[i]);
    ptc_dim_list_push(&dims, x->dims[at]);
  }
  return ptc_shape_result(module, op, x->dtype, &dims, out_types);
}

// Result: dim from[i] is called to[i].
//   c1  as many new names as old ones
//   c2  the operand has the old ones
//   c3  the result's names are unique
ptc_status_t ptc_shape_rename(ptc_module_t *module, const ptc_op_t *op,
                              const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  const ptc_attr_t *from = ptc_op_attr(op, "from"), *to = ptc_op_attr(op, "to");
  PTC_SHAPE_CHECK(from->count == to->count, module, op, 1, "%" PRId32 " names for %" PRId32 " dims",
                  to->count, from->count);
  ptc_dim_list_t dims = ptc_dim_list_of(x);
  for (int32_t i = 0; i < from->count; i++) {
    int32_t at = ptc_type_find_dim(x, from->u.dims[i]);
    PTC_SHAPE_CHECK(at >= 0, module, op, 2, "the operand has no dim \"%s\"", from->u.dims[i]);
    dims.items[at].name = to->u.dims[i];
  }
  for (int32_t i = 0; i < dims.count; i++)
    PTC_SHAPE_CHECK(ptc_dim_list_find(&dims, dims.items[i].name) == i, module, op, 3,
                    "the result has dim \"%s\" twice", dims.items[i].name);
  return ptc_shape_result(module, op, x->dtype, &dims, out_types);
}

// Puts |from| into |dims| in the place of the one at |at|.
static ptc_dim_list_t replace_at(const ptc_dim_list_t *dims, int32_t at, const ptc_dim_t *with,
                                 int32_t num_with) {
  ptc_dim_list_t result = {0};
  for (int32_t i = 0; i < dims->count; i++) {
    if (i != at) ptc_dim_list_push(&result, dims->items[i]);
    for (int32_t j = 0; i == at && j < num_with; j++) ptc_dim_list_push(&result, with[j]);
  }
  return result;
}

// Result: the dim gives way to the dims |into|, outermost first; its axes go to the first of them.
//   c1  at least one dim, as many extents
//   c2  the operand has the dim, and its extent is the product of the (positive) extents
//   c3  the result's names are unique
//   c4  a sharded dim is block-distributed, and the first new extent is a multiple of its shards
ptc_status_t ptc_shape_split(ptc_module_t *module, const ptc_op_t *op,
                             const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  const ptc_attr_t *into = ptc_op_attr(op, "into"), *extents = ptc_op_attr(op, "extents");
  const char *name = ptc_op_string(op, "dim");
  PTC_SHAPE_CHECK(into->count >= 1 && into->count <= PTC_MAX_DIMS && into->count == extents->count,
                  module, op, 1, "%" PRId32 " dims and %" PRId32 " extents", into->count,
                  extents->count);
  int32_t at = ptc_type_find_dim(x, name);
  PTC_SHAPE_CHECK(at >= 0, module, op, 2, "the operand has no dim \"%s\"", name);
  const ptc_dim_t *dim = &x->dims[at];
  ptc_dim_t parts[PTC_MAX_DIMS] = {{0}};
  int64_t product = 1;
  for (int32_t i = 0; i < into->count; i++) {
    parts[i] = (ptc_dim_t){.name = into->u.dims[i], .extent = extents->u.ints[i]};
    bool overflow = __builtin_mul_overflow(product, parts[i].extent, &product);
    PTC_SHAPE_CHECK(parts[i].extent >= 1 && !overflow, module, op, 2,
                    "dim \"%s\" has extent %" PRId64, parts[i].name, parts[i].extent);
  }
  PTC_SHAPE_CHECK(product == dim->extent, module, op, 2,
                  "the new extents give %" PRId64 ", dim \"%s\" has %" PRId64, product, name,
                  dim->extent);
  if (dim->num_axes) {
    int64_t shards = ptc_dim_num_shards(&module->mesh, dim);
    PTC_SHAPE_CHECK(dim->dist == PTC_DIST_BLOCK && parts[0].extent % shards == 0, module, op, 4,
                    "dim \"%s\" of extent %" PRId64 " cannot lie on %" PRId64 " shards",
                    parts[0].name, parts[0].extent, shards);
    parts[0].axes = dim->axes;
    parts[0].num_axes = dim->num_axes;
  }
  ptc_dim_list_t dims = ptc_dim_list_of(x);
  dims = replace_at(&dims, at, parts, into->count);
  for (int32_t i = 0; i < dims.count; i++)
    PTC_SHAPE_CHECK(ptc_dim_list_find(&dims, dims.items[i].name) == i, module, op, 3,
                    "the result has dim \"%s\" twice", dims.items[i].name);
  return ptc_shape_result(module, op, x->dtype, &dims, out_types);
}

// Result: |dims|, outermost first, become |into|, in the place of the first of them; its axes are
// those of the first.
//   c1  at least one dim
//   c2  the operand has them
//   c3  |into| is no other dim of the operand
//   c4  only the first may be sharded, block-distributed, its extent a multiple of its shards
//   c5  the product of the extents is below 2^63
ptc_status_t ptc_shape_merge(ptc_module_t *module, const ptc_op_t *op,
                             const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  const ptc_attr_t *names = ptc_op_attr(op, "dims");
  PTC_SHAPE_CHECK(names->count >= 1, module, op, 1, "no dims to merge");
  ptc_dim_t merged = {.name = ptc_op_string(op, "into"), .extent = 1};
  for (int32_t i = 0; i < names->count; i++) {
    int32_t at = ptc_type_find_dim(x, names->u.dims[i]);
    PTC_SHAPE_CHECK(at >= 0, module, op, 2, "the operand has no dim \"%s\"", names->u.dims[i]);
    const ptc_dim_t *dim = &x->dims[at];
    int64_t shards = ptc_dim_num_shards(&module->mesh, dim);
    bool local =
        !dim->num_axes || (i == 0 && dim->dist == PTC_DIST_BLOCK && dim->extent % shards == 0);
    PTC_SHAPE_CHECK(local, module, op, 4, "the sharding of dim \"%s\" does not survive the merge",
                    dim->name);
    PTC_SHAPE_CHECK(!__builtin_mul_overflow(merged.extent, dim->extent, &merged.extent), module, op,
                    5, "the merged extent is too large");
    if (i == 0) {
      merged.axes = dim->axes;
      merged.num_axes = dim->num_axes;
    }
  }
  PTC_SHAPE_CHECK(!ptc_type_has_dim(x, merged.name) || ptc_op_dims_contain(op, "dims", merged.name),
                  module, op, 3, "the operand has dim \"%s\" already", merged.name);
  ptc_dim_list_t dims = {0};
  for (int32_t i = 0; i < x->num_dims; i++) {
    if (x->dims[i].name == names->u.dims[0])
      ptc_dim_list_push(&dims, merged);
    else if (!ptc_op_dims_contain(op, "dims", x->dims[i].name))
      ptc_dim_list_push(&dims, x->dims[i]);
  }
  return ptc_shape_result(module, op, x->dtype, &dims, out_types);
}

// Result: the first operand's dims, the dim with the sum of the extents.
//   c1  the operands have the same dtype
//   c2  every operand has the dim
//   c3  and otherwise the same dims, with the same extents and sharding
//   c4  the sum of the extents is below 2^63
ptc_status_t ptc_shape_concat(ptc_module_t *module, const ptc_op_t *op,
                              const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, PTC_SHAPE_FREE_DIMS));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  const char *name = ptc_op_string(op, "dim");
  ptc_dim_list_t dims = ptc_dim_list_of(x);
  int64_t extent = 0;
  for (int32_t i = 0; i < op->num_operands; i++) {
    const ptc_type_t *type = ptc_shape_operand(op, i);
    int32_t at = ptc_type_find_dim(type, name);
    PTC_SHAPE_CHECK(type->dtype == x->dtype, module, op, 1, "operands have dtypes %s and %s",
                    ptc_dtype_name(x->dtype), ptc_dtype_name(type->dtype));
    PTC_SHAPE_CHECK(at >= 0, module, op, 2, "operand %" PRId32 " has no dim \"%s\"", i, name);
    PTC_SHAPE_CHECK(ptc_dim_list_same_names(&dims, type), module, op, 3,
                    "operand %" PRId32 " has other dims than operand 0", i);
    for (int32_t d = 0; d < type->num_dims; d++) {
      if (d == at) continue;
      ptc_dim_t dim = type->dims[d];
      const ptc_dim_t *first = &dims.items[ptc_dim_list_find(&dims, dim.name)];
      bool same =
          dim.extent == first->extent && dim.dist == first->dist && dim.num_axes == first->num_axes;
      for (int32_t a = 0; same && a < dim.num_axes; a++)
        same = ptc_axis_ref_equal(dim.axes[a], first->axes[a]);
      PTC_SHAPE_CHECK(same, module, op, 3, "dim \"%s\" of operand %" PRId32 " differs", dim.name,
                      i);
    }
    PTC_SHAPE_CHECK(!__builtin_add_overflow(extent, type->dims[at].extent, &extent), module, op, 4,
                    "the extents add up to too much");
  }
  dims.items[ptc_dim_list_find(&dims, name)].extent = extent;
  return ptc_shape_result(module, op, x->dtype, &dims, out_types);
}

// Result: the dim gives way to the dims of |terms| that the operand does not have otherwise.
//   c1  as many coeffs and extents as terms, no extent negative
//   c2  the operand has the dim
//   c3  a term that is another dim of the operand has its extent
ptc_status_t ptc_shape_window(ptc_module_t *module, const ptc_op_t *op,
                              const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  const char *name = ptc_op_string(op, "dim");
  const ptc_attr_t *terms = ptc_op_attr(op, "terms"), *extents = ptc_op_attr(op, "extents");
  const ptc_attr_t *coeffs = ptc_op_attr(op, "coeffs");
  PTC_SHAPE_CHECK(terms->count <= PTC_MAX_DIMS && terms->count == coeffs->count &&
                      terms->count == extents->count,
                  module, op, 1, "%" PRId32 " terms, %" PRId32 " coeffs, %" PRId32 " extents",
                  terms->count, coeffs->count, extents->count);
  int32_t at = ptc_type_find_dim(x, name), num_fresh = 0;
  PTC_SHAPE_CHECK(at >= 0, module, op, 2, "the operand has no dim \"%s\"", name);
  ptc_dim_t fresh[PTC_MAX_DIMS] = {{0}};
  for (int32_t i = 0; i < terms->count; i++) {
    ptc_dim_t dim = {.name = terms->u.dims[i], .extent = extents->u.ints[i]};
    PTC_SHAPE_CHECK(dim.extent >= 0, module, op, 1, "dim \"%s\" has extent %" PRId64, dim.name,
                    dim.extent);
    int32_t other = ptc_type_find_dim(x, dim.name);
    if (other < 0 || other == at) {
      fresh[num_fresh++] = dim;
      continue;
    }
    PTC_SHAPE_CHECK(x->dims[other].extent == dim.extent, module, op, 3,
                    "dim \"%s\" has extents %" PRId64 " and %" PRId64, dim.name,
                    x->dims[other].extent, dim.extent);
  }
  ptc_dim_list_t dims = ptc_dim_list_of(x);
  dims = replace_at(&dims, at, fresh, num_fresh);
  return ptc_shape_result(module, op, x->dtype, &dims, out_types);
}

// Result: the operand's dims without the terms, except those of |keep|; the dim, with |extent|, in
// the place of the first term that goes, or last.
//   c1  as many coeffs as terms; the extent is not negative
//   c2  the operand has the terms
//   c3  |keep| is a part of the terms, without the dim
//   c4  the dim is no other dim of the result
//   c5  the operand is not bool
ptc_status_t ptc_shape_window_add(ptc_module_t *module, const ptc_op_t *op,
                                  const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *y = ptc_shape_operand(op, 0);
  const ptc_attr_t *terms = ptc_op_attr(op, "terms"), *keep = ptc_op_attr(op, "keep");
  const ptc_attr_t *coeffs = ptc_op_attr(op, "coeffs");
  ptc_dim_t dim = {.name = ptc_op_string(op, "dim"), .extent = ptc_op_int(op, "extent")};
  PTC_SHAPE_CHECK(y->dtype != PTC_BOOL, module, op, 5, "the operand cannot be bool");
  PTC_SHAPE_CHECK(terms->count == coeffs->count && dim.extent >= 0, module, op, 1,
                  "%" PRId32 " terms, %" PRId32 " coeffs, extent %" PRId64, terms->count,
                  coeffs->count, dim.extent);
  for (int32_t i = 0; i < terms->count; i++)
    PTC_SHAPE_CHECK(ptc_type_has_dim(y, terms->u.dims[i]), module, op, 2,
                    "the operand has no dim \"%s\"", terms->u.dims[i]);
  for (int32_t i = 0; i < keep->count; i++)
    PTC_SHAPE_CHECK(
        keep->u.dims[i] != dim.name && ptc_op_dims_contain(op, "terms", keep->u.dims[i]), module,
        op, 3, "cannot keep dim \"%s\"", keep->u.dims[i]);
  ptc_dim_list_t dims = {0};
  bool placed = false;
  for (int32_t i = 0; i < y->num_dims; i++) {
    const char *name = y->dims[i].name;
    bool goes = ptc_op_dims_contain(op, "terms", name) && !ptc_op_dims_contain(op, "keep", name);
    PTC_SHAPE_CHECK(goes || name != dim.name, module, op, 4, "the result has dim \"%s\" already",
                    name);
    if (!goes) {
      ptc_dim_list_push(&dims, y->dims[i]);
    } else if (!placed) {
      ptc_dim_list_push(&dims, dim);
      placed = true;
    }
  }
  if (!placed) ptc_dim_list_push(&dims, dim);
  return ptc_shape_result(module, op, y->dtype, &dims, out_types);
}

// The checks that gather and scatter_add share: c1 one index operand per dim of |dims|, at least
// one; c2 indices are integers.
static ptc_status_t check_indices(ptc_module_t *module, const ptc_op_t *op) {
  const ptc_attr_t *names = ptc_op_attr(op, "dims");
  PTC_SHAPE_CHECK(names->count == op->num_operands - 1, module, op, 1,
                  "%" PRId32 " dims and %" PRId32 " indices", names->count, op->num_operands - 1);
  for (int32_t i = 1; i < op->num_operands; i++) {
    ptc_dtype_t dtype = ptc_shape_operand(op, i)->dtype;
    PTC_SHAPE_CHECK(ptc_dtype_is_int(dtype), module, op, 2, "operand %" PRId32 " cannot be %s", i,
                    ptc_dtype_name(dtype));
  }
  return PTC_OK;
}

static ptc_status_t add_refs(ptc_module_t *module, const ptc_op_t *op, const ptc_axis_ref_t *refs,
                             int32_t num_refs, ptc_axis_ref_t *out_refs, int32_t *num_out) {
  for (int32_t i = 0; i < num_refs; i++) {
    PTC_SHAPE_CHECK(*num_out < PTC_MAX_AXES, module, op, 5, "it has more than %d axes",
                    PTC_MAX_AXES);
    out_refs[(*num_out)++] = refs[i];
  }
  return PTC_OK;
}

static bool same_dim(const ptc_dim_t *a, const ptc_dim_t *b) {
  if (a->extent != b->extent || a->dist != b->dist || a->num_axes != b->num_axes) return false;
  for (int32_t i = 0; i < a->num_axes; i++)
    if (!ptc_axis_ref_equal(a->axes[i], b->axes[i])) return false;
  return true;
}

// Result: in the place of the first indexed dim the dims of the indices that are new, in the order
// of first appearance; the other indexed dims go.
//   c1  one index operand per dim of |dims|, at least one
//   c2  the indices are integers
//   c3  the first operand has the dims
//   c4  the indices and the dims of the first operand that stay agree on dims of the same name
//   c5  local: the fill is given, 0, and dims are distributed in blocks
ptc_status_t ptc_shape_gather(ptc_module_t *module, const ptc_op_t *op,
                              const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, PTC_SHAPE_FREE_DIMS));
  PTC_TRY(check_indices(module, op));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  const ptc_attr_t *names = ptc_op_attr(op, "dims");
  for (int32_t i = 0; i < names->count; i++)
    PTC_SHAPE_CHECK(ptc_type_has_dim(x, names->u.dims[i]), module, op, 3,
                    "operand 0 has no dim \"%s\"", names->u.dims[i]);
  ptc_dim_list_t stay = {0}, fresh = {0}, dims = {0};
  for (int32_t i = 0; i < x->num_dims; i++)
    if (!ptc_op_dims_contain(op, "dims", x->dims[i].name)) ptc_dim_list_push(&stay, x->dims[i]);
  for (int32_t i = 1; i < op->num_operands; i++) {
    const ptc_type_t *index = ptc_shape_operand(op, i);
    for (int32_t d = 0; d < index->num_dims; d++) {
      const ptc_dim_t *dim = &index->dims[d];
      int32_t in_stay = ptc_dim_list_find(&stay, dim->name);
      int32_t in_fresh = ptc_dim_list_find(&fresh, dim->name);
      const ptc_dim_t *known = in_stay >= 0    ? &stay.items[in_stay]
                               : in_fresh >= 0 ? &fresh.items[in_fresh]
                                               : NULL;
      PTC_SHAPE_CHECK(!known || same_dim(known, dim), module, op, 4,
                      "dim \"%s\" of index %" PRId32 " differs in extent or sharding", dim->name,
                      i - 1);
      if (!known) ptc_dim_list_push(&fresh, *dim);
    }
  }
  bool placed = false;
  for (int32_t i = 0; i < x->num_dims; i++) {
    if (!ptc_op_dims_contain(op, "dims", x->dims[i].name)) {
      ptc_dim_list_push(&dims, x->dims[i]);
      continue;
    }
    for (int32_t j = 0; !placed && j < fresh.count; j++) ptc_dim_list_push(&dims, fresh.items[j]);
    placed = true;
  }
  dims.overlong |= fresh.overlong;
  if (!ptc_op_bool(op, "local")) return ptc_shape_result(module, op, x->dtype, &dims, out_types);
  const ptc_attr_t *fill = ptc_op_attr(op, "fill");
  PTC_SHAPE_CHECK(fill && ptc_op_float(op, "fill") == 0, module, op, 5,
                  "what other devices hold must read as 0");
  ptc_axis_ref_t partial[PTC_MAX_AXES];
  int32_t num_partial = 0;
  PTC_TRY(add_refs(module, op, x->partial, x->num_partial, partial, &num_partial));
  for (int32_t i = 0; i < names->count; i++) {
    const ptc_dim_t *dim = &x->dims[ptc_type_find_dim(x, names->u.dims[i])];
    PTC_SHAPE_CHECK(dim->dist == PTC_DIST_BLOCK, module, op, 5, "dim \"%s\" is a zigzag",
                    dim->name);
    PTC_TRY(add_refs(module, op, dim->axes, dim->num_axes, partial, &num_partial));
  }
  return ptc_shape_result_partial(module, op, x->dtype, &dims, partial, num_partial, PTC_REDUCE_SUM,
                                  out_types);
}

// Result: the dims |result| with |extents|.
//   c1  one index operand per dim of |dims|, at least one
//   c2  the indices are integers
//   c3  as many extents as result dims, none negative
//   c4  the result has the dims of |dims|; its others are dims of the first operand, as they are
//   c5  every dim of an index is one of the first operand
//   c6  the first operand is not bool
//   c7  local: the given type has the dims, of those extents, distributed in blocks
ptc_status_t ptc_shape_scatter_add(ptc_module_t *module, const ptc_op_t *op,
                                   const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  PTC_TRY(check_indices(module, op));
  const ptc_type_t *y = ptc_shape_operand(op, 0);
  const ptc_attr_t *names = ptc_op_attr(op, "dims"), *result = ptc_op_attr(op, "result");
  const ptc_attr_t *extents = ptc_op_attr(op, "extents");
  PTC_SHAPE_CHECK(y->dtype != PTC_BOOL, module, op, 6, "operand 0 cannot be bool");
  PTC_SHAPE_CHECK(result->count == extents->count, module, op, 3,
                  "%" PRId32 " dims and %" PRId32 " extents", result->count, extents->count);
  for (int32_t i = 0; i < names->count; i++)
    PTC_SHAPE_CHECK(ptc_op_dims_contain(op, "result", names->u.dims[i]), module, op, 4,
                    "the result has no dim \"%s\"", names->u.dims[i]);
  ptc_dim_list_t of_y = ptc_dim_list_of(y), dims = {0};
  for (int32_t i = 1; i < op->num_operands; i++)
    PTC_SHAPE_CHECK(ptc_dim_list_covers(&of_y, ptc_shape_operand(op, i)), module, op, 5,
                    "operand 0 lacks a dim of index %" PRId32, i - 1);
  for (int32_t i = 0; i < result->count; i++) {
    ptc_dim_t dim = {.name = result->u.dims[i], .extent = extents->u.ints[i]};
    PTC_SHAPE_CHECK(dim.extent >= 0, module, op, 3, "dim \"%s\" has extent %" PRId64, dim.name,
                    dim.extent);
    if (!ptc_op_dims_contain(op, "dims", dim.name)) {
      int32_t at = ptc_type_find_dim(y, dim.name);
      PTC_SHAPE_CHECK(at >= 0 && y->dims[at].extent == dim.extent, module, op, 4,
                      "operand 0 has no dim \"%s\" of extent %" PRId64, dim.name, dim.extent);
      dim = y->dims[at];
    } else if (ptc_op_bool(op, "local")) {
      const ptc_type_t *given = ptc_shape_given(op, 0);
      int32_t at = given ? ptc_type_find_dim(given, dim.name) : -1;
      PTC_SHAPE_CHECK(
          at >= 0 && given->dims[at].extent == dim.extent && given->dims[at].dist == PTC_DIST_BLOCK,
          module, op, 7, "the type of the result does not say where dim \"%s\" lies", dim.name);
      dim = given->dims[at];
    }
    ptc_dim_list_push(&dims, dim);
  }
  return ptc_shape_result(module, op, y->dtype, &dims, out_types);
}
