// Ops that move elements, as index arithmetic.
#include <math.h>
#include <string.h>

#include "passes/build_impl.h"

// The same element by the names of its dims.
ptc_kx_t ptc_kbuild_broadcast(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                              const ptc_kx_t *index) {
  return ptc_kbuild_operand(b, op, 0, op->results[result]->type, index);
}

// The dims keep their places.
ptc_kx_t ptc_kbuild_rename(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                           const ptc_kx_t *index) {
  (void)result;
  return ptc_kbuild_value(b, op->operands[0], index);
}

ptc_kx_t ptc_kbuild_split(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                          const ptc_kx_t *index) {
  const ptc_type_t *x = op->operands[0]->type, *y = op->results[result]->type;
  const int32_t at = ptc_type_find_dim(x, ptc_op_string(op, "dim"));
  const int32_t parts = ptc_op_attr(op, "into")->count;
  ptc_kx_t own[PTC_MAX_DIMS];
  for (int32_t i = 0, from = 0; i < x->num_dims; i++) {
    own[i] = index[from];
    from++;
    for (int32_t p = 1; i == at && p < parts; p++, from++)
      own[i] = ptc_kbuild_2(b, PTC_OP_ADD, PTC_I32,
                            ptc_kbuild_scale(b, own[i], ptc_kbuild_extent(b, &y->dims[from])),
                            index[from]);
  }
  return ptc_kbuild_value(b, op->operands[0], own);
}

// lo <= x < hi, as far as the bounds |min| and |max| of x leave it open; NONE: always.
static ptc_kx_t within(ptc_kbuild_t *b, ptc_kx_t x, int64_t lo, int64_t hi, int64_t min,
                       int64_t max) {
  if (x < 0) return PTC_KX_NONE;
  const ptc_dtype_t dtype = b->kb.kernel->exprs[x].dtype;
  ptc_kx_t above = PTC_KX_NONE, below = PTC_KX_NONE;
  if (min < lo)
    above = ptc_kbuild_2(b, PTC_OP_LE, PTC_BOOL, ptc_kb_const(&b->kb, dtype, (double)lo), x);
  if (max >= hi)
    below = ptc_kbuild_2(b, PTC_OP_LT, PTC_BOOL, x, ptc_kb_const(&b->kb, dtype, (double)hi));
  return ptc_kbuild_both(b, above, below);
}

// |value| at |index| where |guard| holds (NONE: everywhere), else |fill|.
static ptc_kx_t guarded(ptc_kbuild_t *b, ptc_value_t *value, const ptc_kx_t *index, ptc_kx_t guard,
                        double fill) {
  const ptc_kx_t outer = b->guard;
  const double outer_fill = b->fill;
  const ptc_dtype_t dtype = value->type->dtype;
  b->guard = ptc_kbuild_both(b, outer, guard);
  if (guard >= 0) b->fill = ptc_dtype_round(dtype, fill);
  const ptc_kx_t x = ptc_kbuild_value(b, value, index);
  b->guard = outer;
  b->fill = outer_fill;
  if (x < 0 || guard < 0) return x;
  // A load has the fill at hand.
  if (outer < 0 && b->kb.kernel->exprs[x].kind == PTC_KX_LOAD) return x;
  return ptc_kbuild_select(b, guard, x, ptc_kb_const(&b->kb, dtype, ptc_dtype_round(dtype, fill)));
}

ptc_kx_t ptc_kbuild_concat(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                           const ptc_kx_t *index) {
  const char *dim = ptc_op_string(op, "dim");
  const ptc_type_t *y = op->results[result]->type;
  const int32_t at = ptc_type_find_dim(y, dim);
  const int64_t last = ptc_kbuild_extent(b, &y->dims[at]) - 1;
  int64_t start = 0;
  ptc_kx_t picked = PTC_KX_NONE;
  for (int32_t i = 0; i < op->num_operands; i++) {
    const ptc_type_t *x = op->operands[i]->type;
    const int64_t end = start + ptc_kbuild_extent(b, &x->dims[ptc_type_find_dim(x, dim)]);
    ptc_kx_t own[PTC_MAX_DIMS];
    for (int32_t d = 0; d < x->num_dims; d++) {
      own[d] = index[ptc_type_find_dim(y, x->dims[d].name)];
      if (x->dims[d].name == dim) own[d] = ptc_kbuild_shift(b, own[d], -start);
    }
    const ptc_kx_t guard = within(b, index[at], start, end, 0, last);
    const ptc_kx_t part = guarded(b, op->operands[i], own, guard, 0);
    const ptc_kx_t before = within(b, index[at], 0, start, 0, last);
    picked = picked < 0 ? part : ptc_kbuild_select(b, before, picked, part);
    start = end;
  }
  return picked;
}

ptc_kx_t ptc_kbuild_window(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                           const ptc_kx_t *index) {
  const char *dim = ptc_op_string(op, "dim");
  const ptc_type_t *x = op->operands[0]->type, *y = op->results[result]->type;
  const ptc_attr_t *terms = ptc_op_attr(op, "terms"), *coeffs = ptc_op_attr(op, "coeffs");
  const int64_t offset = ptc_op_int(op, "offset");
  const int64_t extent = ptc_kbuild_extent(b, &x->dims[ptc_type_find_dim(x, dim)]);
  int64_t min = offset, max = offset;
  ptc_kx_t at = ptc_kbuild_int(b, offset);
  for (int32_t i = 0; i < terms->count; i++) {
    const int32_t d = ptc_type_find_dim(y, terms->u.dims[i]);
    const int64_t coeff = coeffs->u.ints[i];
    if (d < 0 || coeff == 0) continue;
    const int64_t far = coeff * (ptc_kbuild_extent(b, &y->dims[d]) - 1);
    *(far < 0 ? &min : &max) += far;
    const ptc_kx_t term = ptc_kbuild_scale(b, index[d], coeff);
    const ptc_kexpr_t *sum = &b->kb.kernel->exprs[at];
    at = sum->kind == PTC_KX_CONST ? ptc_kbuild_shift(b, term, (int64_t)sum->value)
                                   : ptc_kbuild_2(b, PTC_OP_ADD, PTC_I32, at, term);
  }
  ptc_kx_t own[PTC_MAX_DIMS];
  for (int32_t d = 0; d < x->num_dims; d++)
    own[d] = x->dims[d].name == dim ? at : index[ptc_type_find_dim(y, x->dims[d].name)];
  const ptc_kx_t guard = within(b, at, 0, extent, min, max);
  return guarded(b, op->operands[0], own, guard, ptc_op_float(op, "fill"));
}

ptc_kx_t ptc_kbuild_gather(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                           const ptc_kx_t *index) {
  const ptc_type_t *x = op->operands[0]->type, *y = op->results[result]->type;
  const ptc_attr_t *dims = ptc_op_attr(op, "dims"), *fill = ptc_op_attr(op, "fill");
  ptc_kx_t own[PTC_MAX_DIMS], guard = PTC_KX_NONE;
  for (int32_t d = 0; d < x->num_dims; d++) {
    const int32_t at = ptc_type_find_dim(y, x->dims[d].name);
    own[d] = at >= 0 ? index[at] : PTC_KX_NONE;
  }
  for (int32_t i = 0; i < dims->count; i++) {
    const int32_t d = ptc_type_find_dim(x, dims->u.dims[i]);
    own[d] = ptc_kbuild_operand(b, op, i + 1, y, index);
    if (own[d] < 0) return PTC_KX_NONE;
    if (!fill) continue;
    const int64_t extent = ptc_kbuild_extent(b, &x->dims[d]);
    guard = ptc_kbuild_both(b, guard, within(b, own[d], 0, extent, -1, extent));
  }
  const bool outer = b->checked;
  b->checked |= !fill;
  const ptc_kx_t picked =
      guarded(b, op->operands[0], own, guard, fill ? ptc_op_float(op, "fill") : 0);
  b->checked = outer;
  return picked;
}

ptc_kx_t ptc_kbuild_shard(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                          const ptc_kx_t *index) {
  const char *dim = ptc_op_string(op, "dim");
  const ptc_type_t *x = op->operands[0]->type, *y = op->results[result]->type;
  const int32_t at = ptc_type_find_dim(y, dim);
  const int32_t had = x->dims[at].num_axes, added = y->dims[at].num_axes - had;
  if (had && (x->dims[at].dist != PTC_DIST_BLOCK || y->dims[at].dist != PTC_DIST_BLOCK))
    return ptc_kbuild_unsupported(b, op, "the dim is sharded already, in a zigzag");
  ptc_kx_t own[PTC_MAX_DIMS];
  for (int32_t d = 0; d < x->num_dims; d++) own[d] = index[d];
  // The new axes are the innermost: within what the others leave, their parts follow each other.
  ptc_dim_t inner = y->dims[at];
  inner.extent = ptc_kbuild_extent(b, &x->dims[at]);
  inner.axes += had;
  inner.num_axes = added;
  own[at] = ptc_kbuild_global_index(b, &inner, index[at]);
  const int64_t extent = inner.extent;
  const int64_t shards = ptc_dim_num_shards(&b->module->mesh, &inner);
  const int64_t stored = shards * ptc_kbuild_extent(b, &inner);
  return guarded(b, op->operands[0], own, within(b, own[at], 0, extent, 0, stored - 1), 0);
}
