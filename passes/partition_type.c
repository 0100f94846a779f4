// partition: types of values with other shardings.

#include "passes/partition_impl.h"
#include "passes/rewrite.h"

const ptc_type_t *ptc_part_with_axes(ptc_part_t *p, const ptc_type_t *type, int32_t at,
                                     const ptc_axis_ref_t *axes, int32_t num_axes) {
  if (ptc_axes_equal(type->dims[at].axes, type->dims[at].num_axes, axes, num_axes)) return type;
  ptc_arena_t *arena = &p->module->arena;
  ptc_type_t *copy = ptc_type_with_dtype(arena, type, type->dtype);
  ptc_dim_t *dims = PTC_ARENA_ARRAY(arena, ptc_dim_t, type->num_dims);
  for (int32_t i = 0; i < type->num_dims; i++) dims[i] = type->dims[i];
  ptc_axis_ref_t *own = PTC_ARENA_ARRAY(arena, ptc_axis_ref_t, num_axes + 1);
  for (int32_t i = 0; i < num_axes; i++) own[i] = axes[i];
  dims[at].axes = num_axes ? own : NULL;
  dims[at].num_axes = num_axes;
  const bool zigzag = ptc_part_is_zigzag(p, dims[at].name, axes, num_axes);
  dims[at].dist = zigzag ? PTC_DIST_ZIGZAG : PTC_DIST_BLOCK;
  copy->dims = dims;
  return copy;
}

const ptc_type_t *ptc_part_with_partial(ptc_part_t *p, const ptc_type_t *type,
                                        const ptc_axis_ref_t *axes, int32_t num_axes) {
  if (ptc_axes_equal(type->partial, type->num_partial, axes, num_axes)) return type;
  ptc_arena_t *arena = &p->module->arena;
  ptc_type_t *copy = ptc_type_with_dtype(arena, type, type->dtype);
  ptc_axis_ref_t *own = PTC_ARENA_ARRAY(arena, ptc_axis_ref_t, num_axes + 1);
  for (int32_t i = 0; i < num_axes; i++) own[i] = axes[i];
  copy->partial = num_axes ? own : NULL;
  copy->num_partial = num_axes;
  if (!num_axes) copy->partial_kind = PTC_REDUCE_SUM;
  return copy;
}

const ptc_type_t *ptc_part_whole(ptc_part_t *p, const ptc_type_t *type, const char *keep) {
  for (int32_t i = 0; i < type->num_dims; i++) {
    const ptc_dim_t *dim = &type->dims[i];
    if (dim->name == keep) continue;
    // Time axes come first: what follows the first device axis goes with it.
    int32_t stay = 0;
    while (stay < dim->num_axes && !ptc_axis_is_device(dim->axes[stay].axis)) stay++;
    type = ptc_part_with_axes(p, type, i, dim->axes, stay);
  }
  return type;
}

int32_t ptc_part_partial(const ptc_type_t *type, ptc_axis_ref_t *out) {
  int32_t count = 0;
  for (int32_t i = 0; i < type->num_partial && count < PTC_MAX_AXES; i++)
    if (ptc_axis_is_device(type->partial[i].axis)) out[count++] = type->partial[i];
  return count;
}

bool ptc_part_is_partial(const ptc_type_t *type) {
  ptc_axis_ref_t axes[PTC_MAX_AXES];
  return ptc_part_partial(type, axes) > 0;
}

bool ptc_part_is_free(const ptc_type_t *type, const ptc_axis_ref_t *axes, int32_t num_axes) {
  for (int32_t k = 0; k < num_axes; k++) {
    for (int32_t i = 0; i < type->num_partial; i++)
      if (ptc_axis_refs_overlap(type->partial[i], axes[k])) return false;
    for (int32_t i = 0; i < type->num_dims; i++)
      for (int32_t a = 0; a < type->dims[i].num_axes; a++)
        if (ptc_axis_refs_overlap(type->dims[i].axes[a], axes[k])) return false;
  }
  return true;
}

bool ptc_part_is_activation(const ptc_part_t *p, const ptc_type_t *type) {
  return ptc_type_has_dim(type, p->batch);
}

bool ptc_part_is_sequence(const ptc_part_t *p, const char *name) {
  for (int32_t i = 0; i < p->num_sequence; i++)
    if (p->sequence[i] == name) return true;
  return false;
}

// |type| with |axes| inside of those that the dim has, if it divides or may be padded.
static const ptc_type_t *scattered(ptc_part_t *p, const ptc_type_t *type, int32_t at,
                                   const ptc_axis_ref_t *axes, int32_t num_axes, bool pads) {
  const ptc_dim_t *dim = &type->dims[at];
  const ptc_mesh_t *mesh = &p->module->mesh;
  const int64_t shards = ptc_dim_num_shards(mesh, dim) * ptc_axes_size(mesh, axes, num_axes);
  if ((dim->extent % shards != 0 && !(pads && dim->num_axes == 0)) ||
      dim->num_axes + num_axes > PTC_MAX_AXES)
    return NULL;
  ptc_axis_ref_t all[PTC_MAX_AXES];
  for (int32_t i = 0; i < dim->num_axes; i++) all[i] = dim->axes[i];
  for (int32_t i = 0; i < num_axes; i++) all[dim->num_axes + i] = axes[i];
  return ptc_part_with_axes(p, type, at, all, dim->num_axes + num_axes);
}

// On the first sequence that divides; on cp, where inputs lie so, it may be padded. NULL if there is none.
static const ptc_type_t *scattered_sequence(ptc_part_t *p, const ptc_type_t *type,
                                            const ptc_axis_ref_t *axis, bool pads) {
  const ptc_type_t *part = NULL;
  for (int32_t i = 0; i < type->num_dims && !part; i++)
    if (ptc_part_is_sequence(p, type->dims[i].name)) part = scattered(p, type, i, axis, 1, pads);
  return part;
}

const ptc_type_t *ptc_part_reduced(ptc_part_t *p, const ptc_value_t *value, const ptc_type_t *type,
                                   const ptc_axis_ref_t *axes, int32_t num_axes) {
  ptc_axis_ref_t rest[PTC_MAX_AXES];
  int32_t num_rest = 0;
  for (int32_t i = 0; i < type->num_partial; i++)
    if (ptc_axes_find(axes, num_axes, type->partial[i]) < 0) rest[num_rest++] = type->partial[i];
  if (num_rest == type->num_partial) return type;
  const bool sum = type->partial_kind == PTC_REDUCE_SUM;
  const ptc_type_t *whole = ptc_part_with_partial(p, type, rest, num_rest), *part = NULL;
  const ptc_part_mark_t *mark = ptc_map_get(&p->grads, value);
  if (mark && mark->dim && sum && p->parallel.zero >= 1) {
    bool all = true;
    for (int32_t i = 0; i < mark->num_axes; i++)
      all &= ptc_axes_find(axes, num_axes, mark->axes[i]) >= 0;
    const int32_t at = ptc_type_find_dim(type, mark->dim);
    if (at >= 0 && all) part = scattered(p, whole, at, mark->axes, mark->num_axes, true);
  } else if (sum && ptc_part_is_activation(p, type)) {
    // Each device of cp keeps its part of the sequence, with sequence parallelism each of tp.
    static const int split[] = {PTC_AXIS_CP, PTC_AXIS_TP};
    for (int k = 0; k < 2; k++) {
      const ptc_axis_ref_t *axis = &p->axis[split[k]];
      if (ptc_axes_find(axes, num_axes, *axis) < 0 ||
          (split[k] == PTC_AXIS_TP && !p->parallel.sequence_parallel))
        continue;
      const ptc_type_t *finer = scattered_sequence(p, part ? part : whole, axis, k == 0);
      if (finer) part = finer;
    }
  }
  return part ? part : whole;
}

const ptc_type_t *ptc_part_resolved(ptc_part_t *p, const ptc_value_t *value,
                                    const ptc_type_t *type) {
  ptc_axis_ref_t axes[PTC_MAX_AXES];
  const int32_t count = ptc_part_partial(type, axes);
  return count ? ptc_part_reduced(p, value, type, axes, count) : type;
}

bool ptc_part_is_zero(const ptc_value_t *value) {
  double constant;
  if (ptc_value_is_constant(value, &constant)) return constant == 0;
  const ptc_op_t *def = value->def;
  if (!def || def->opcode != PTC_OP_REPEAT || value->index < def->num_carry) return false;
  return ptc_part_is_zero(def->body->last->operands[value->index]);
}
