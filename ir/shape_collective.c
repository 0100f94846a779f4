// Shape functions of ops that exchange data between the devices of a group, or take a device's part of a
// value. A dim gains and loses axes at its inner end. Where others stay outside of them, its extent is
// a multiple of all its shards: else the parts of a shard would not lie within it.
#include <inttypes.h>
#include <string.h>

#include "ir/axes.h"
#include "ir/shape_impl.h"

typedef struct axes_s {
  ptc_axis_ref_t items[PTC_MAX_AXES];
  int32_t count;
} axes_t;

// Constraint c1 of every op here.
static ptc_status_t read_axes(ptc_module_t *module, const ptc_op_t *op, const char *name,
                              axes_t *out) {
  const char *text = ptc_op_string(op, name);
  PTC_SHAPE_CHECK(ptc_axes_parse(module, text, out->items, &out->count), module, op, 1,
                  "\"%s\" lists no distinct axes of the mesh", text);
  return PTC_OK;
}

// Constraint |number|: |dims| has the dim, in blocks.
static ptc_status_t find_dim(ptc_module_t *module, const ptc_op_t *op, int number,
                             ptc_dim_list_t *dims, const char *name, ptc_dim_t **out_dim) {
  int32_t at = ptc_dim_list_find(dims, name);
  PTC_SHAPE_CHECK(at >= 0, module, op, number, "the operand has no dim \"%s\"", name);
  *out_dim = &dims->items[at];
  PTC_SHAPE_CHECK((*out_dim)->dist == PTC_DIST_BLOCK, module, op, number, "dim \"%s\" is a zigzag",
                  name);
  return PTC_OK;
}

static ptc_status_t check_divides(ptc_module_t *module, const ptc_op_t *op, int number,
                                  const ptc_dim_t *dim) {
  int64_t shards = ptc_axes_size(&module->mesh, dim->axes, dim->num_axes);
  PTC_SHAPE_CHECK(shards > 0 && dim->extent % shards == 0, module, op, number,
                  "dim \"%s\" of extent %" PRId64 " is not divisible by its %" PRId64 " shards",
                  dim->name, dim->extent, shards);
  return PTC_OK;
}

// Adds |axes| inside of those that the dim has. Constraint |number|: if it has some, the extent is a
// multiple of all shards.
static ptc_status_t add_axes(ptc_module_t *module, const ptc_op_t *op, int number, ptc_dim_t *dim,
                             const axes_t *axes) {
  int32_t had = dim->num_axes;
  ptc_axis_ref_t *items = PTC_ARENA_ARRAY(&module->arena, ptc_axis_ref_t, had + axes->count);
  for (int32_t i = 0; i < had; i++) items[i] = dim->axes[i];
  for (int32_t i = 0; i < axes->count; i++) items[had + i] = axes->items[i];
  dim->axes = items;
  dim->num_axes = had + axes->count;
  return had ? check_divides(module, op, number, dim) : PTC_OK;
}

// Takes the innermost axes away. Constraint |number|: they are |axes|; |number| + 1: if others stay,
// the extent is a multiple of all shards.
static ptc_status_t take_axes(ptc_module_t *module, const ptc_op_t *op, int number, ptc_dim_t *dim,
                              const axes_t *axes) {
  int32_t rest = dim->num_axes - axes->count;
  PTC_SHAPE_CHECK(
      rest >= 0 && ptc_axes_equal(dim->axes + rest, axes->count, axes->items, axes->count), module,
      op, number, "dim \"%s\" is not sharded over these axes, innermost", dim->name);
  if (rest) PTC_TRY(check_divides(module, op, number + 1, dim));
  dim->num_axes = rest;
  return PTC_OK;
}

// Constraint c2: the operand is partial over |axes|. The result with |dims| is so over the others.
static ptc_status_t reduced_result(ptc_module_t *module, const ptc_op_t *op, const axes_t *axes,
                                   const ptc_dim_list_t *dims, const ptc_type_t **out_type) {
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  ptc_axis_ref_t *rest = PTC_ARENA_ARRAY(&module->arena, ptc_axis_ref_t, x->num_partial + 1);
  int32_t num_rest = 0;
  for (int32_t i = 0; i < axes->count; i++)
    PTC_SHAPE_CHECK(ptc_axes_find(x->partial, x->num_partial, axes->items[i]) >= 0, module, op, 2,
                    "the operand is not partial over axis \"%s\"", axes->items[i].axis);
  for (int32_t i = 0; i < x->num_partial; i++)
    if (ptc_axes_find(axes->items, axes->count, x->partial[i]) < 0)
      rest[num_rest++] = x->partial[i];
  return ptc_shape_result_partial(module, op, x->dtype, dims, rest, num_rest, x->partial_kind,
                                  out_type);
}

// Result: the operand's type, no longer partial over the axes.
//   c1  |axes| lists axes of the mesh, or parts of such, none twice
//   c2  the operand is partial over each of them
ptc_status_t ptc_shape_all_reduce(ptc_module_t *module, const ptc_op_t *op,
                                  const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  axes_t axes;
  PTC_TRY(read_axes(module, op, "axes", &axes));
  ptc_dim_list_t dims = ptc_dim_list_of(ptc_shape_operand(op, 0));
  return reduced_result(module, op, &axes, &dims, &out_types[0]);
}

// Result: the operand's type, no longer partial over the axes, the dim sharded over them, innermost.
//   c1  |axes| lists axes of the mesh, or parts of such, none twice
//   c2  the operand is partial over each of them
//   c3  the operand has the dim, distributed in blocks
//   c4  if it is sharded already, its extent is a multiple of all its shards
ptc_status_t ptc_shape_reduce_scatter(ptc_module_t *module, const ptc_op_t *op,
                                      const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  axes_t axes;
  PTC_TRY(read_axes(module, op, "axes", &axes));
  ptc_dim_list_t dims = ptc_dim_list_of(ptc_shape_operand(op, 0));
  ptc_dim_t *dim;
  PTC_TRY(find_dim(module, op, 3, &dims, ptc_op_string(op, "dim"), &dim));
  PTC_TRY(add_axes(module, op, 4, dim, &axes));
  return reduced_result(module, op, &axes, &dims, &out_types[0]);
}

// Result: the operand's type, the dim without the axes.
//   c1  |axes| lists axes of the mesh, or parts of such, none twice
//   c2  the operand has the dim, distributed in blocks over these axes, innermost
//   c3  if it is sharded over others, too, its extent is a multiple of all its shards
ptc_status_t ptc_shape_all_gather(ptc_module_t *module, const ptc_op_t *op,
                                  const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  axes_t axes;
  PTC_TRY(read_axes(module, op, "axes", &axes));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  ptc_dim_list_t dims = ptc_dim_list_of(x);
  ptc_dim_t *dim;
  PTC_TRY(find_dim(module, op, 2, &dims, ptc_op_string(op, "dim"), &dim));
  PTC_TRY(take_axes(module, op, 2, dim, &axes));
  return ptc_shape_result(module, op, x->dtype, &dims, &out_types[0]);
}

// Result: the operand's type, dim |from| without the axes, dim |to| with them, innermost.
//   c1  |axes| lists axes of the mesh, or parts of such, none twice
//   c2  the operand has dim |from|, distributed in blocks over these axes, innermost
//   c3  if it is sharded over others, too, its extent is a multiple of all its shards
//   c4  dim |to| is another one, distributed in blocks
//   c5  if it is sharded already, its extent is a multiple of all its shards
ptc_status_t ptc_shape_all_to_all(ptc_module_t *module, const ptc_op_t *op,
                                  const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  axes_t axes;
  PTC_TRY(read_axes(module, op, "axes", &axes));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  ptc_dim_list_t dims = ptc_dim_list_of(x);
  ptc_dim_t *from, *to;
  PTC_TRY(find_dim(module, op, 2, &dims, ptc_op_string(op, "from"), &from));
  PTC_TRY(take_axes(module, op, 2, from, &axes));
  PTC_TRY(find_dim(module, op, 4, &dims, ptc_op_string(op, "to"), &to));
  PTC_SHAPE_CHECK(from != to, module, op, 4, "both dims are \"%s\"", from->name);
  PTC_TRY(add_axes(module, op, 5, to, &axes));
  return ptc_shape_result(module, op, x->dtype, &dims, &out_types[0]);
}

// Result: the operand's type.
//   c1  |axes| lists axes of the mesh, or parts of such, none twice
//   c2  the operand has the dim, distributed in blocks over these axes
//   c3  and over no others; it has one element per member
ptc_status_t ptc_shape_ring_shift(ptc_module_t *module, const ptc_op_t *op,
                                  const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  axes_t axes;
  PTC_TRY(read_axes(module, op, "axes", &axes));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  ptc_dim_list_t dims = ptc_dim_list_of(x);
  ptc_dim_t *dim;
  PTC_TRY(find_dim(module, op, 2, &dims, ptc_op_string(op, "dim"), &dim));
  const bool alone = ptc_axes_equal(dim->axes, dim->num_axes, axes.items, axes.count);
  PTC_SHAPE_CHECK(alone && dim->extent == ptc_axes_size(&module->mesh, axes.items, axes.count),
                  module, op, 3, "dim \"%s\" is not one element for each member", dim->name);
  return ptc_shape_result(module, op, x->dtype, &dims, &out_types[0]);
}

// Result: the operand's type, the dim in blocks where it was a zigzag, or the other way round.
//   c1  |to| is "block" or "zigzag", and the dim is the other of the two
//   c2  the operand has the dim, and it lies on axes
//   c3  its extent is a multiple of twice its shards
ptc_status_t ptc_shape_reorder(ptc_module_t *module, const ptc_op_t *op,
                               const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  const char *name = ptc_op_string(op, "dim"), *to = ptc_op_string(op, "to");
  ptc_dim_list_t dims = ptc_dim_list_of(x);
  const int32_t at = ptc_dim_list_find(&dims, name);
  PTC_SHAPE_CHECK(at >= 0 && dims.items[at].num_axes > 0, module, op, 2,
                  "the operand has no dim \"%s\" that lies on axes", name);
  ptc_dim_t *dim = &dims.items[at];
  const bool zigzag = strcmp(to, "zigzag") == 0;
  PTC_SHAPE_CHECK((zigzag || strcmp(to, "block") == 0) && (dim->dist == PTC_DIST_ZIGZAG) != zigzag,
                  module, op, 1, "dim \"%s\" does not become \"%s\"", name, to);
  const int64_t shards = ptc_axes_size(&module->mesh, dim->axes, dim->num_axes);
  PTC_SHAPE_CHECK(dim->extent % (2 * shards) == 0, module, op, 3,
                  "dim \"%s\" of extent %" PRId64 " does not divide into %" PRId64 " chunks", name,
                  dim->extent, 2 * shards);
  dim->dist = zigzag ? PTC_DIST_ZIGZAG : PTC_DIST_BLOCK;
  return ptc_shape_result(module, op, x->dtype, &dims, &out_types[0]);
}

// Result: i32[].
//   c1  |axes| lists axes of the mesh, or parts of such, none twice
ptc_status_t ptc_shape_axis_index(ptc_module_t *module, const ptc_op_t *op,
                                  const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  axes_t axes;
  PTC_TRY(read_axes(module, op, "axes", &axes));
  out_types[0] = ptc_type_scalar(&module->arena, PTC_I32);
  return PTC_OK;
}

// Result: the operand's type, the dim sharded over the axes too, innermost.
//   c1  |axis| lists axes of the mesh, or parts of such, none twice
//   c2  the operand has the dim
//   c3  the dim is distributed in blocks
//   c4  if it is sharded already, its extent is a multiple of all its shards
ptc_status_t ptc_shape_shard(ptc_module_t *module, const ptc_op_t *op,
                             const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  axes_t axes;
  PTC_TRY(read_axes(module, op, "axis", &axes));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  const char *name = ptc_op_string(op, "dim");
  ptc_dim_list_t dims = ptc_dim_list_of(x);
  int32_t at = ptc_dim_list_find(&dims, name);
  PTC_SHAPE_CHECK(at >= 0, module, op, 2, "the operand has no dim \"%s\"", name);
  PTC_SHAPE_CHECK(dims.items[at].dist == PTC_DIST_BLOCK, module, op, 3, "dim \"%s\" is a zigzag",
                  name);
  PTC_TRY(add_axes(module, op, 4, &dims.items[at], &axes));
  return ptc_shape_result(module, op, x->dtype, &dims, &out_types[0]);
}
