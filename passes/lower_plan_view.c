// Views: ops whose result is their operands' bytes. What must become a part of something larger (a bundle
// that is concatenated, a shard) is made there from the start where that is possible, and copied else.
#include <string.h>

#include "ir/op.h"
#include "passes/lower_plan_impl.h"

// Whether the shards of the operand, one after another, are the result.
static bool unshard_is_run(const ptc_op_t *op) {
  const ptc_mesh_t *mesh = &op->parent->func->module->mesh;
  const ptc_type_t *x = op->operands[0]->type, *y = op->results[0]->type;
  const int32_t at = ptc_type_find_dim(y, ptc_op_string(op, "dim"));
  for (int32_t d = 0; d < y->num_dims; ++d)
    if (x->dims[d].name != y->dims[d].name ||
        (d < at && ptc_dim_local_extent(mesh, &y->dims[d]) != 1))
      return false;
  return y->dims[at].dist == PTC_DIST_BLOCK &&
         ptc_dim_local_extent(mesh, &x->dims[at]) * x->counts[0] ==
             ptc_dim_local_extent(mesh, &y->dims[at]);
}

bool ptc_lower_is_view(const ptc_op_t *op) {
  return ptc_view_is_alias(op) || (op->opcode == PTC_OP_UNSHARD && unshard_is_run(op));
}

// --- places within places

static ptc_place_t *clone(ptc_lower_t *lower, const ptc_place_t *place) {
  ptc_place_t *copy = PTC_ARENA_NEW(lower->scratch, ptc_place_t);
  *copy = *place;
  return copy;
}

// The instances from |first| on.
static ptc_place_t *slice(ptc_lower_t *lower, const ptc_place_t *place, int64_t first) {
  ptc_place_t *part = clone(lower, place);
  part->instance.base += first * place->instance_stride[0];
  part->byte_offset.base += first * place->byte_stride[0];
  return part;
}

// Counts [n, ..] as [n / inner, inner, ..].
static ptc_place_t *group(ptc_lower_t *lower, const ptc_place_t *place, int64_t inner) {
  ptc_place_t *grouped = clone(lower, place);
  for (int32_t c = PTC_MAX_COUNTS - 1; c > 0; --c) {
    grouped->instance_stride[c] = place->instance_stride[c - 1];
    grouped->byte_stride[c] = place->byte_stride[c - 1];
  }
  grouped->instance_stride[0] = inner * place->instance_stride[0];
  grouped->byte_stride[0] = inner * place->byte_stride[0];
  return grouped;
}

// Counts [n, m, ..] as [n * m, ..], or NULL where the instances have no common distance.
static ptc_place_t *ungroup(ptc_lower_t *lower, const ptc_place_t *place, const ptc_type_t *type) {
  const int64_t n = type->counts[0], m = type->counts[1];
  if (n > 1 && m > 1 &&
      (place->instance_stride[0] != m * place->instance_stride[1] ||
       place->byte_stride[0] != m * place->byte_stride[1]))
    return NULL;
  ptc_place_t *flat = clone(lower, place);
  const int32_t from = m == 1 ? 0 : 1;  // whose distance is the common one
  flat->instance_stride[0] = place->instance_stride[from];
  flat->byte_stride[0] = place->byte_stride[from];
  for (int32_t c = 1; c + 1 < PTC_MAX_COUNTS; ++c) {
    flat->instance_stride[c] = place->instance_stride[c + 1];
    flat->byte_stride[c] = place->byte_stride[c + 1];
  }
  return flat;
}

// The shards of the whole at |place|, as a bundle.
static ptc_place_t *shards(ptc_lower_t *lower, const ptc_op_t *op, const ptc_place_t *place) {
  ptc_place_t *parts = clone(lower, place);
  parts->instance_stride[0] = 0;
  parts->byte_stride[0] = ptc_lower_bytes(lower, op->operands[0]->type);
  return parts;
}

// --- wishes

static bool keeps_bytes(const ptc_op_t *op) {
  return ptc_view_is_alias(op) && (op->opcode == PTC_OP_RENAME || op->opcode == PTC_OP_REORDER ||
                                   op->opcode == PTC_OP_SPLIT || op->opcode == PTC_OP_MERGE);
}

void ptc_lower_want(ptc_lower_t *lower, const ptc_block_t *block, ptc_value_t *value,
                    const ptc_place_t *place) {
  while (value->def && value->def->parent == block && keeps_bytes(value->def))
    value = value->def->operands[0];
  const ptc_op_t *def = value->def;
  if (!def || def->parent != block || ptc_map_get(&lower->wanted, value) ||
      ptc_map_get(&lower->places, value))
    return;
  const bool collected = def->opcode == PTC_OP_REPEAT && value->index >= def->num_carry;
  const bool joined = ptc_lower_is_view(def) &&
                      (def->opcode == PTC_OP_LIST_CONCAT || def->opcode == PTC_OP_UNSHARD ||
                       def->opcode == PTC_OP_LIST_UNGROUP);
  if (collected || joined || ptc_op_attr(def, "kernel") ||
      ptc_op_has_trait(def, PTC_TRAIT_COLLECTIVE) || def->opcode == PTC_OP_RECV)
    ptc_map_set(&lower->wanted, value, (void *)place);
}

// Where the result of |op| is made: where others want it, or in a buffer of its own.
static const ptc_place_t *made_at(ptc_lower_t *lower, const ptc_op_t *op) {
  const ptc_value_t *result = op->results[0];
  const ptc_place_t *place = ptc_map_get(&lower->wanted, result);
  if (!place) place = ptc_lower_new_place(lower, result, result->type, PTC_BUFFER_TEMP);
  ptc_map_set(&lower->places, result, (void *)place);
  return place;
}

void ptc_lower_plan_views(ptc_lower_t *lower, const ptc_block_t *block) {
  for (const ptc_op_t *op = block->last; op; op = op->prev) {
    if (!ptc_lower_is_view(op)) continue;
    if (op->opcode == PTC_OP_LIST_CONCAT) {
      const ptc_place_t *whole = made_at(lower, op);
      int64_t first = 0;
      for (int32_t i = 0; i < op->num_operands; ++i) {
        ptc_lower_want(lower, block, op->operands[i], slice(lower, whole, first));
        first += op->operands[i]->type->counts[0];
      }
    } else if (op->opcode == PTC_OP_UNSHARD) {
      ptc_lower_want(lower, block, op->operands[0], shards(lower, op, made_at(lower, op)));
    } else if (op->opcode == PTC_OP_LIST_UNGROUP) {
      const ptc_place_t *flat = ptc_map_get(&lower->wanted, op->results[0]);
      if (flat)
        ptc_lower_want(lower, block, op->operands[0],
                       group(lower, flat, op->operands[0]->type->counts[1]));
    }
  }
}

// --- the ops

static ptc_status_t lower_concat(ptc_lower_t *lower, const ptc_op_t *op, ptc_step_list_t *out) {
  const ptc_place_t *whole = ptc_map_get(&lower->places, op->results[0]);
  int64_t first = 0;
  for (int32_t i = 0; i < op->num_operands; ++i) {
    const ptc_place_t *part = ptc_lower_place(lower, op->operands[i]);
    if (!part) return PTC_INTERNAL;
    PTC_TRY(ptc_lower_copy(lower, part, slice(lower, whole, first), op->operands[i]->type, op->loc,
                           out));
    first += op->operands[i]->type->counts[0];
  }
  return PTC_OK;
}

static ptc_status_t lower_ungroup(ptc_lower_t *lower, const ptc_op_t *op, const ptc_place_t *place,
                                  ptc_step_list_t *out) {
  const ptc_type_t *type = op->operands[0]->type;
  ptc_place_t *flat = ungroup(lower, place, type);
  if (flat) {
    ptc_map_set(&lower->places, op->results[0], flat);
    return PTC_OK;
  }
  return ptc_lower_copy(lower, place, group(lower, made_at(lower, op), type->counts[1]), type,
                        op->loc, out);
}

// The level whose turn is the coordinate on |axis|: of devices, or of a repeat around; -1.
static int32_t level_of(const ptc_lower_t *lower, const char *axis) {
  for (int32_t l = lower->depth - 1; l >= 0; --l)
    if (lower->levels[l].op && ptc_op_string(lower->levels[l].op, "axis") == axis) return l;
  return ptc_func_axis_level(lower->func, axis);
}

// Where the axes that |op| adds to its dim put this device's part.
static ptc_status_t lower_shard(ptc_lower_t *lower, const ptc_op_t *op, const ptc_place_t *place) {
  const ptc_type_t *x = op->operands[0]->type, *y = op->results[0]->type;
  const int32_t at = ptc_type_find_dim(y, ptc_op_string(op, "dim"));
  const ptc_dim_t *whole = &x->dims[at], *part = &y->dims[at];
  ptc_place_t *shard = clone(lower, place);
  int64_t stride = ptc_lower_bytes(lower, y);
  for (int32_t i = part->num_axes - 1; i >= whole->num_axes; --i) {
    const int32_t level = level_of(lower, part->axes[i].axis);
    if (level < 0)
      return ptc_error(lower->diag, op->loc, PTC_UNSUPPORTED, "plan-axis",
                       "a shard over axis \"%s\" outside of a repeat over it", part->axes[i].axis);
    shard->byte_offset.coef[level] += stride;
    stride *= ptc_axis_ref_size(&lower->module->mesh, part->axes[i]);
  }
  ptc_map_set(&lower->places, op->results[0], shard);
  return PTC_OK;
}

ptc_status_t ptc_lower_view(ptc_lower_t *lower, const ptc_op_t *op, ptc_step_list_t *out) {
  if (op->opcode == PTC_OP_LIST_CONCAT) return lower_concat(lower, op, out);
  const ptc_place_t *place = ptc_lower_place(lower, op->operands[0]);
  if (!place) return PTC_INTERNAL;
  switch (op->opcode) {
    case PTC_OP_UNSHARD:
      return ptc_lower_copy(lower, place,
                            shards(lower, op, ptc_map_get(&lower->places, op->results[0])),
                            op->operands[0]->type, op->loc, out);
    case PTC_OP_LIST_UNGROUP: return lower_ungroup(lower, op, place, out);
    case PTC_OP_SHARD: return lower_shard(lower, op, place);
    case PTC_OP_LIST_SLICE: place = slice(lower, place, ptc_op_int(op, "first")); break;
    case PTC_OP_LIST_GROUP: place = group(lower, place, op->results[0]->type->counts[1]); break;
    default: break;  // the same bytes
  }
  ptc_map_set(&lower->places, op->results[0], (void *)place);
  return PTC_OK;
}
