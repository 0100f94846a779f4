// Gradients of ops that move elements: each is the transpose of its op.
#include "passes/grad.h"

// Attributes |names| and |values| that list the dims of |type| and their extents.
static void set_dims(ptc_grad_t *g, ptc_attrs_t *attrs, const ptc_type_t *type, const char *names,
                     const char *extents) {
  const char *dims[PTC_MAX_DIMS];
  int64_t sizes[PTC_MAX_DIMS];
  for (int32_t i = 0; i < type->num_dims; i++) {
    dims[i] = type->dims[i].name;
    sizes[i] = type->dims[i].extent;
  }
  ptc_attrs_set_dims(g->module, attrs, names, dims, type->num_dims);
  ptc_attrs_set_ints(g->module, attrs, extents, sizes, type->num_dims);
}

static void copy_attr(ptc_grad_t *g, ptc_attrs_t *attrs, const ptc_op_t *op, const char *name) {
  ptc_attrs_set(g->module, attrs, *ptc_op_attr(op, name));
}

static int64_t extent_of(const ptc_type_t *type, const char *dim) {
  return type->dims[ptc_type_find_dim(type, dim)].extent;
}

// Adds the result of an op on dy alone.
static ptc_status_t give_unary(ptc_grad_t *g, const ptc_op_t *op, ptc_opcode_t opcode,
                               ptc_attrs_t attrs) {
  ptc_value_t *dy = ptc_grad_of(g, op, 0);
  ptc_grad_give(g, op, 0, ptc_grad_build(g, opcode, &dy, 1, attrs));
  return PTC_OK;
}

// --- dims

ptc_status_t ptc_grad_broadcast(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_grad_give(g, op, 0, ptc_grad_of(g, op, 0));
  return PTC_OK;
}

ptc_status_t ptc_grad_transpose(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_grad_give(g, op, 0, ptc_grad_of(g, op, 0));
  return PTC_OK;
}

ptc_status_t ptc_grad_rename(ptc_grad_t *g, const ptc_op_t *op) {
  const ptc_attr_t *from = ptc_op_attr(op, "from"), *to = ptc_op_attr(op, "to");
  ptc_value_t *dy = ptc_grad_of(g, op, 0);
  ptc_grad_give(g, op, 0, ptc_build_rename(&g->b, dy, to->u.dims, from->u.dims, to->count));
  return PTC_OK;
}

ptc_status_t ptc_grad_split(ptc_grad_t *g, const ptc_op_t *op) {
  const ptc_attr_t *into = ptc_op_attr(op, "into");
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dims(g->module, &attrs, "dims", into->u.dims, into->count);
  ptc_attrs_set_dim(g->module, &attrs, "into", ptc_op_string(op, "dim"));
  return give_unary(g, op, PTC_OP_MERGE, attrs);
}

ptc_status_t ptc_grad_merge(ptc_grad_t *g, const ptc_op_t *op) {
  const ptc_attr_t *merged = ptc_op_attr(op, "dims");
  int64_t extents[PTC_MAX_DIMS];
  for (int32_t i = 0; i < merged->count; i++)
    extents[i] = extent_of(op->operands[0]->type, merged->u.dims[i]);
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dim(g->module, &attrs, "dim", ptc_op_string(op, "into"));
  ptc_attrs_set_dims(g->module, &attrs, "into", merged->u.dims, merged->count);
  ptc_attrs_set_ints(g->module, &attrs, "extents", extents, merged->count);
  return give_unary(g, op, PTC_OP_SPLIT, attrs);
}

// --- ranges

// The part of dy that came from operand i is a window.
ptc_status_t ptc_grad_concat(ptc_grad_t *g, const ptc_op_t *op) {
  const char *dim = ptc_op_string(op, "dim");
  ptc_value_t *dy = ptc_grad_of(g, op, 0);
  const int64_t one = 1;
  int64_t start = 0;
  for (int32_t i = 0; i < op->num_operands; i++) {
    const int64_t extent = extent_of(op->operands[i]->type, dim);
    if (ptc_grad_wants(g, op, i)) {
      ptc_attrs_t attrs = {0};
      ptc_attrs_set_dim(g->module, &attrs, "dim", dim);
      ptc_attrs_set_dims(g->module, &attrs, "terms", &dim, 1);
      ptc_attrs_set_ints(g->module, &attrs, "coeffs", &one, 1);
      ptc_attrs_set_ints(g->module, &attrs, "extents", &extent, 1);
      ptc_attrs_set_int(g->module, &attrs, "offset", start);
      ptc_grad_give(g, op, i, ptc_grad_build(g, PTC_OP_WINDOW, &dy, 1, attrs));
    }
    start += extent;
  }
  return PTC_OK;
}

// Terms that are dims of the operand beside the window's stay; the others are summed into the dim.
ptc_status_t ptc_grad_window(ptc_grad_t *g, const ptc_op_t *op) {
  const ptc_type_t *x = op->operands[0]->type;
  const char *dim = ptc_op_string(op, "dim"), *keep[PTC_MAX_DIMS];
  const ptc_attr_t *terms = ptc_op_attr(op, "terms");
  int32_t num_keep = 0;
  for (int32_t i = 0; i < terms->count; i++)
    if (terms->u.dims[i] != dim && ptc_type_has_dim(x, terms->u.dims[i]))
      keep[num_keep++] = terms->u.dims[i];
  ptc_attrs_t attrs = {0};
  copy_attr(g, &attrs, op, "dim");
  copy_attr(g, &attrs, op, "terms");
  copy_attr(g, &attrs, op, "coeffs");
  ptc_attrs_set_int(g->module, &attrs, "extent", extent_of(x, dim));
  copy_attr(g, &attrs, op, "offset");
  ptc_attrs_set_dims(g->module, &attrs, "keep", keep, num_keep);
  return give_unary(g, op, PTC_OP_WINDOW_ADD, attrs);
}

ptc_status_t ptc_grad_window_add(ptc_grad_t *g, const ptc_op_t *op) {
  const ptc_attr_t *terms = ptc_op_attr(op, "terms");
  int64_t extents[PTC_MAX_DIMS];
  for (int32_t i = 0; i < terms->count; i++)
    extents[i] = extent_of(op->operands[0]->type, terms->u.dims[i]);
  ptc_attrs_t attrs = {0};
  copy_attr(g, &attrs, op, "dim");
  copy_attr(g, &attrs, op, "terms");
  copy_attr(g, &attrs, op, "coeffs");
  ptc_attrs_set_ints(g->module, &attrs, "extents", extents, terms->count);
  copy_attr(g, &attrs, op, "offset");
  return give_unary(g, op, PTC_OP_WINDOW, attrs);
}

// --- indices

// The indices of |op| behind |first|; |operands| has room for as many operands as |op| has.
static void with_indices(ptc_grad_t *g, const ptc_op_t *op, ptc_value_t *first,
                         ptc_value_t **operands) {
  operands[0] = first;
  for (int32_t i = 1; i < op->num_operands; i++) operands[i] = ptc_grad_operand(g, op, i);
}

// What was filled in for an index out of range is dropped.
ptc_status_t ptc_grad_gather(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t **operands = PTC_ARENA_ARRAY(&g->module->arena, ptc_value_t *, op->num_operands);
  with_indices(g, op, ptc_grad_of(g, op, 0), operands);
  ptc_attrs_t attrs = {0};
  copy_attr(g, &attrs, op, "dims");
  set_dims(g, &attrs, op->operands[0]->type, "result", "extents");
  ptc_grad_give(g, op, 0, ptc_grad_build(g, PTC_OP_SCATTER_ADD, operands, op->num_operands, attrs));
  return PTC_OK;
}

ptc_status_t ptc_grad_scatter_add(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t **operands = PTC_ARENA_ARRAY(&g->module->arena, ptc_value_t *, op->num_operands);
  with_indices(g, op, ptc_grad_of(g, op, 0), operands);
  ptc_attrs_t attrs = {0};
  copy_attr(g, &attrs, op, "dims");
  ptc_attrs_set_float(g->module, &attrs, "fill", 0);
  ptc_grad_give(g, op, 0, ptc_grad_build(g, PTC_OP_GATHER, operands, op->num_operands, attrs));
  return PTC_OK;
}

// Adds dy, whose elements along |dim| came from |index| of the operand.
static void give_picked(ptc_grad_t *g, const ptc_op_t *op, ptc_value_t *index) {
  ptc_value_t *operands[] = {ptc_grad_of(g, op, 0), index};
  const char *dim = ptc_op_string(op, "dim");
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dims(g->module, &attrs, "dims", &dim, 1);
  set_dims(g, &attrs, op->operands[0]->type, "result", "extents");
  ptc_grad_give(g, op, 0, ptc_grad_build(g, PTC_OP_SCATTER_ADD, operands, 2, attrs));
}

ptc_status_t ptc_grad_topk(ptc_grad_t *g, const ptc_op_t *op) {
  give_picked(g, op, ptc_grad_result(g, op, 1));
  return PTC_OK;
}

// To the first of equal maxima.
ptc_status_t ptc_grad_cummax(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t *x = ptc_grad_operand(g, op, 0);
  ptc_attrs_t attrs = ptc_attrs_clone(g->module, &op->attrs);
  give_picked(g, op, ptc_grad_build(g, PTC_OP_CUMARGMAX, &x, 1, attrs));
  return PTC_OK;
}

// --- bundles

static ptc_value_t *slice(ptc_grad_t *g, ptc_value_t *bundle, int64_t first, int64_t count) {
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_int(g->module, &attrs, "first", first);
  ptc_attrs_set_int(g->module, &attrs, "count", count);
  return ptc_grad_build(g, PTC_OP_LIST_SLICE, &bundle, 1, attrs);
}

// |count| turns of zeros like those of |type|.
static ptc_value_t *zero_turns(ptc_grad_t *g, const ptc_type_t *type, int64_t count) {
  ptc_arena_t *arena = &g->module->arena;
  return ptc_grad_zeros(&g->b, ptc_type_bundle(arena, ptc_type_instance(arena, type), count));
}

ptc_status_t ptc_grad_list_slice(ptc_grad_t *g, const ptc_op_t *op) {
  const ptc_type_t *x = op->operands[0]->type;
  const int64_t first = ptc_op_int(op, "first"), count = ptc_op_int(op, "count");
  const int64_t rest = x->counts[0] - first - count;
  ptc_value_t *parts[3];
  int32_t num_parts = 0;
  if (first > 0) parts[num_parts++] = zero_turns(g, x, first);
  if (count > 0) parts[num_parts++] = ptc_grad_of(g, op, 0);
  if (rest > 0) parts[num_parts++] = zero_turns(g, x, rest);
  ptc_value_t *dx = parts[0];
  if (num_parts > 1) dx = ptc_grad_build(g, PTC_OP_LIST_CONCAT, parts, num_parts, (ptc_attrs_t){0});
  if (num_parts > 0) ptc_grad_give(g, op, 0, dx);
  return PTC_OK;
}

ptc_status_t ptc_grad_list_concat(ptc_grad_t *g, const ptc_op_t *op) {
  int64_t first = 0;
  for (int32_t i = 0; i < op->num_operands; i++) {
    const int64_t count = op->operands[i]->type->counts[0];
    if (ptc_grad_wants(g, op, i))
      ptc_grad_give(g, op, i, slice(g, ptc_grad_of(g, op, 0), first, count));
    first += count;
  }
  return PTC_OK;
}

ptc_status_t ptc_grad_list_group(ptc_grad_t *g, const ptc_op_t *op) {
  return give_unary(g, op, PTC_OP_LIST_UNGROUP, (ptc_attrs_t){0});
}

ptc_status_t ptc_grad_list_ungroup(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_int(g->module, &attrs, "outer", op->operands[0]->type->counts[0]);
  return give_unary(g, op, PTC_OP_LIST_GROUP, attrs);
}
