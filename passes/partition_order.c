// partition: the balanced order of a sequence on cp = c. Device r has chunks r and 2 c - 1 - r of 2 c, so that under a
// causal mask every device has as many pairs of positions. The dim's type says so (a zigzag): positions, masks and random
// numbers are those of the elements. Collectives know blocks alone; around them the bytes are taken as blocks (reorder), and
// a whole sequence has its chunks put in the order in which the devices have them.
#include <string.h>

#include "ir/builder.h"
#include "ir/op.h"
#include "passes/partition_impl.h"

bool ptc_part_is_zigzag(const ptc_part_t *p, const char *name, const ptc_axis_ref_t *axes,
                        int32_t num_axes) {
  if (!p->parallel.balanced || num_axes != 1 || !ptc_axis_ref_equal(axes[0], p->axis[PTC_AXIS_CP]))
    return false;
  return ptc_part_is_sequence(p, name);
}

ptc_value_t *ptc_part_reorder(ptc_part_t *p, ptc_builder_t *b, ptc_value_t *value, const char *dim,
                              bool zigzag) {
  if (!value) return NULL;
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dim(p->module, &attrs, "dim", dim);
  ptc_attrs_set_string(p->module, &attrs, "to", zigzag ? "zigzag" : "block");
  ptc_op_t *op = ptc_build_op(b, PTC_OP_REORDER, &value, 1, 1, attrs);
  return op ? op->results[0] : NULL;
}

// --- a whole sequence

// Dims for the chunks of |value|: names that it does not have.
typedef struct names_s {
  const char *chunk, *device, *half, *within;
} names_t;

static const char *fresh(ptc_part_t *p, const ptc_type_t *type, const char *base) {
  const char *name = ptc_module_intern(p->module, base);
  while (ptc_type_has_dim(type, name))
    name = ptc_module_intern(p->module, ptc_arena_printf(p->scratch, "%s_", name));
  return name;
}

static names_t names_of(ptc_part_t *p, const ptc_type_t *type) {
  return (names_t){fresh(p, type, "chunk"), fresh(p, type, "device"), fresh(p, type, "half"),
                   fresh(p, type, "within")};
}

static ptc_value_t *split(ptc_builder_t *b, ptc_value_t *x, const char *dim,
                          const char *const *into, const int64_t *extents, int32_t count) {
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dim(b->module, &attrs, "dim", dim);
  ptc_attrs_set_dims(b->module, &attrs, "into", into, count);
  ptc_attrs_set_ints(b->module, &attrs, "extents", extents, count);
  ptc_op_t *op = ptc_build_op(b, PTC_OP_SPLIT, &x, 1, 1, attrs);
  return op ? op->results[0] : NULL;
}

static ptc_value_t *merge(ptc_builder_t *b, ptc_value_t *x, const char *const *dims, int32_t count,
                          const char *into) {
  if (!x) return NULL;
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dims(b->module, &attrs, "dims", dims, count);
  ptc_attrs_set_dim(b->module, &attrs, "into", into);
  ptc_op_t *op = ptc_build_op(b, PTC_OP_MERGE, &x, 1, 1, attrs);
  return op ? op->results[0] : NULL;
}

static ptc_value_t *gather(ptc_builder_t *b, ptc_value_t *const *operands, const char *const *dims,
                           int32_t count) {
  for (int32_t i = 0; i <= count; i++)
    if (!operands[i]) return NULL;
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dims(b->module, &attrs, "dims", dims, count);
  ptc_op_t *op = ptc_build_op(b, PTC_OP_GATHER, operands, 1 + count, 1, attrs);
  return op ? op->results[0] : NULL;
}

// |last| - x
static ptc_value_t *from_end(ptc_builder_t *b, ptc_value_t *x, int64_t last) {
  x = x ? ptc_build_unary(b, PTC_OP_NEG, x) : NULL;
  return x ? ptc_build_binary_const(b, PTC_OP_ADD, x, (double)last) : NULL;
}

static ptc_value_t *iota(ptc_builder_t *b, const char *name, int64_t extent) {
  return ptc_build_iota(b, &(ptc_dim_t){.name = name, .extent = extent});
}

ptc_value_t *ptc_part_deal(ptc_part_t *p, ptc_builder_t *b, ptc_value_t *value, const char *dim) {
  const int64_t n = p->parallel.size[PTC_AXIS_CP];
  const int64_t extent = value->type->dims[ptc_type_find_dim(value->type, dim)].extent;
  const names_t name = names_of(p, value->type);
  const char *const into[] = {name.chunk, name.within};
  ptc_value_t *x = split(b, value, dim, into, (int64_t[]){2 * n, extent / (2 * n)}, 2);
  // Chunk of device r: half 0: r, half 1: 2 n - 1 - r.
  ptc_value_t *device = iota(b, name.device, n), *half = iota(b, name.half, 2);
  ptc_value_t *first = half ? ptc_build_binary_const(b, PTC_OP_LT, half, 1) : NULL;
  ptc_value_t *back = from_end(b, device, 2 * n - 1);
  ptc_value_t *chunk = first && back ? ptc_build_where(b, first, device, back) : NULL;
  if (!chunk) return NULL;
  chunk = ptc_build_transpose(b, chunk, (const char *[]){name.device, name.half}, 2);
  x = gather(b, (ptc_value_t *[]){x, chunk}, &name.chunk, 1);
  const char *const parts[] = {name.device, name.half, name.within};
  return merge(b, x, parts, 3, dim);
}

ptc_value_t *ptc_part_collect(ptc_part_t *p, ptc_builder_t *b, ptc_value_t *value,
                              const char *dim) {
  const int64_t n = p->parallel.size[PTC_AXIS_CP];
  const int64_t extent = value->type->dims[ptc_type_find_dim(value->type, dim)].extent;
  const names_t name = names_of(p, value->type);
  const char *const into[] = {name.device, name.half, name.within};
  ptc_value_t *x = split(b, value, dim, into, (int64_t[]){n, 2, extent / (2 * n)}, 3);
  ptc_value_t *chunk = iota(b, name.chunk, 2 * n);
  ptc_value_t *first = chunk ? ptc_build_binary_const(b, PTC_OP_LT, chunk, (double)n) : NULL;
  ptc_value_t *back = from_end(b, chunk, 2 * n - 1);
  if (!first || !back) return NULL;
  ptc_value_t *device = ptc_build_where(b, first, chunk, back);
  ptc_value_t *half = ptc_build_where(b, first, ptc_build_constant(b, PTC_I32, 0),
                                      ptc_build_constant(b, PTC_I32, 1));
  const char *const along[] = {name.device, name.half};
  x = gather(b, (ptc_value_t *[]){x, device, half}, along, 2);
  const char *const parts[] = {name.chunk, name.within};
  return merge(b, x, parts, 2, dim);
}
