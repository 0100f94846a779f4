// Places: which instance of which buffer a value is, and the copies between them.
#include <inttypes.h>
#include <string.h>

#include "ir/op.h"
#include "passes/lower_plan_impl.h"

int64_t ptc_lower_bytes(const ptc_lower_t *lower, const ptc_type_t *type) {
  int64_t bytes = ptc_dtype_bytes(type->dtype);
  for (int32_t d = 0; d < type->num_dims; ++d)
    if (__builtin_mul_overflow(bytes, ptc_dim_local_extent(&lower->module->mesh, &type->dims[d]),
                               &bytes))
      return -1;
  return bytes;
}

ptc_axis_ref_t ptc_lower_axis(const ptc_lower_t *lower, ptc_axis_ref_t ref) {
  const int32_t level = ptc_devices_level(&lower->module->mesh, ref.axis);
  return (ptc_axis_ref_t){lower->plan->mesh.axes[level].name, ref.pre, ref.size};
}

// How |type| lies on the plan's mesh; NULL if it is whole on every rank. The time axis is none of it.
static const ptc_dim_t *layout_of(const ptc_lower_t *lower, const ptc_type_t *type) {
  bool sharded = false, timed = false;
  for (int32_t d = 0; d < type->num_dims; ++d)
    for (int32_t i = 0; i < type->dims[d].num_axes; ++i) {
      sharded = true;
      timed = timed || ptc_devices_level(&lower->module->mesh, type->dims[d].axes[i].axis) < 0;
    }
  if (!sharded || timed) return NULL;
  ptc_dim_t *dims = PTC_ARENA_ARRAY(lower->arena, ptc_dim_t, type->num_dims);
  for (int32_t d = 0; d < type->num_dims; ++d) {
    dims[d] = type->dims[d];
    dims[d].name = ptc_arena_strdup(lower->arena, type->dims[d].name);
    ptc_axis_ref_t *axes = PTC_ARENA_ARRAY(lower->arena, ptc_axis_ref_t, dims[d].num_axes);
    for (int32_t i = 0; i < dims[d].num_axes; ++i) axes[i] = ptc_lower_axis(lower, dims[d].axes[i]);
    dims[d].axes = axes;
  }
  return dims;
}

// Those of |refs| that are axes of devices, appended to |list|.
static void add_device_axes(const ptc_lower_t *lower, const ptc_axis_ref_t *refs, int32_t count,
                            ptc_axis_ref_t *list, int32_t *num) {
  for (int32_t i = 0; i < count; ++i)
    if (ptc_devices_level(&lower->module->mesh, refs[i].axis) >= 0)
      list[(*num)++] = ptc_lower_axis(lower, refs[i]);
}

static void set_axes(const ptc_lower_t *lower, const ptc_type_t *type, ptc_buffer_t *buffer) {
  int32_t count = 0;
  for (int32_t d = 0; d < type->num_dims; ++d) count += type->dims[d].num_axes;
  ptc_axis_ref_t *over = PTC_ARENA_ARRAY(lower->arena, ptc_axis_ref_t, count);
  ptc_axis_ref_t *partial = PTC_ARENA_ARRAY(lower->arena, ptc_axis_ref_t, type->num_partial);
  for (int32_t d = 0; d < type->num_dims; ++d)
    add_device_axes(lower, type->dims[d].axes, type->dims[d].num_axes, over, &buffer->num_over);
  add_device_axes(lower, type->partial, type->num_partial, partial, &buffer->num_partial);
  buffer->over = over;
  buffer->partial = partial;
  if (buffer->num_partial) buffer->partial_kind = type->partial_kind;
}

int32_t ptc_lower_new_buffer(ptc_lower_t *lower, const char *name, const ptc_type_t *type,
                             ptc_buffer_class_t cls, int64_t num_instances, ptc_loc_t loc) {
  ptc_buffer_t buffer = {.name = ptc_arena_strdup(lower->arena, name ? name : ""),
                         .cls = cls,
                         .dtype = type->dtype,
                         .num_dims = type->num_dims,
                         .num_instances = num_instances,
                         .bytes = ptc_lower_bytes(lower, type),
                         .loc_line = loc.file ? loc.line : 0};
  if (loc.file) buffer.loc_file = ptc_arena_strdup(lower->arena, loc.file);
  const char **names = PTC_ARENA_ARRAY(lower->arena, const char *, type->num_dims);
  int64_t *extents = PTC_ARENA_ARRAY(lower->arena, int64_t, type->num_dims);
  for (int32_t d = 0; d < type->num_dims; ++d) {
    names[d] = ptc_arena_strdup(lower->arena, type->dims[d].name);
    extents[d] = ptc_dim_local_extent(&lower->module->mesh, &type->dims[d]);
  }
  buffer.dim_names = names;
  buffer.extents = extents;
  buffer.layout = layout_of(lower, type);
  set_axes(lower, type, &buffer);
  buffer.offsets = PTC_ARENA_ARRAY(lower->arena, int64_t, num_instances);
  for (int64_t i = 0; i < num_instances; ++i) buffer.offsets[i] = -1;
  PTC_VEC_PUSH(&lower->buffers, buffer);
  return (int32_t)lower->buffers.len - 1;
}

static ptc_loc_t value_loc(const ptc_value_t *value) {
  while (value->def && value->def->opcode == PTC_OP_REPEAT)
    value = value->def->body->last->operands[value->index];
  if (value->def) return value->def->loc;
  return value->block->parent_op ? value->block->parent_op->loc : value->block->func->loc;
}

// What a reader would call it: the gradient of a parameter, its name in the .ptm, or the op that makes it.
static const char *value_name(const ptc_lower_t *lower, const ptc_value_t *value) {
  const char *grad = ptc_map_get(&lower->grads, value);
  if (grad) return grad;
  while (!value->name && value->def && value->def->opcode == PTC_OP_REPEAT)
    value = value->def->body->last->operands[value->index];
  if (value->name) return value->name;
  return value->def ? ptc_op_info(value->def->opcode)->mnemonic : "carried";
}

ptc_place_t *ptc_lower_new_place(ptc_lower_t *lower, const ptc_value_t *value,
                                 const ptc_type_t *type, ptc_buffer_class_t cls) {
  ptc_place_t *place = PTC_ARENA_NEW(lower->scratch, ptc_place_t);
  int64_t instances = 1;
  for (int32_t c = type->num_counts - 1; c >= 0; --c) {
    place->instance_stride[c] = instances;
    instances *= type->counts[c];
  }
  for (int32_t l = lower->depth - 1; l >= 0; --l) {
    if (lower->levels[l].shared) continue;
    place->instance.coef[l] = instances;
    instances *= lower->levels[l].count;
  }
  if (cls == PTC_BUFFER_TEMP && ptc_map_get(&lower->grads, value)) cls = PTC_BUFFER_GRAD;
  place->buffer =
      ptc_lower_new_buffer(lower, value_name(lower, value), type, cls, instances, value_loc(value));
  return place;
}

const ptc_place_t *ptc_lower_place(ptc_lower_t *lower, const ptc_value_t *value) {
  const ptc_place_t *place = ptc_map_get(&lower->places, value);
  if (!place)
    (void)ptc_error(lower->diag, value_loc(value), PTC_INTERNAL, "plan-no-place",
                    "the value \"%s\" is read from memory, and no kernel stores it",
                    value->name ? value->name : "");
  return place;
}

// --- turns

ptc_place_t *ptc_lower_enter(ptc_lower_t *lower, const ptc_place_t *place, int32_t level) {
  ptc_place_t *inner = PTC_ARENA_NEW(lower->scratch, ptc_place_t);
  *inner = *place;
  inner->instance.coef[level] += place->instance_stride[0];
  inner->byte_offset.coef[level] += place->byte_stride[0];
  for (int32_t c = 0; c + 1 < PTC_MAX_COUNTS; ++c) {
    inner->instance_stride[c] = place->instance_stride[c + 1];
    inner->byte_stride[c] = place->byte_stride[c + 1];
  }
  inner->instance_stride[PTC_MAX_COUNTS - 1] = inner->byte_stride[PTC_MAX_COUNTS - 1] = 0;
  return inner;
}

ptc_place_t *ptc_lower_leave(ptc_lower_t *lower, const ptc_place_t *place, int32_t level) {
  ptc_place_t *outer = PTC_ARENA_NEW(lower->scratch, ptc_place_t);
  *outer = *place;
  for (int32_t c = PTC_MAX_COUNTS - 1; c > 0; --c) {
    outer->instance_stride[c] = place->instance_stride[c - 1];
    outer->byte_stride[c] = place->byte_stride[c - 1];
  }
  outer->instance_stride[0] = place->instance.coef[level];
  outer->byte_stride[0] = place->byte_offset.coef[level];
  outer->instance.coef[level] = outer->byte_offset.coef[level] = 0;
  return outer;
}

static bool same_affine(const ptc_affine_t *a, const ptc_affine_t *b) {
  return memcmp(a, b, sizeof *a) == 0;
}

bool ptc_lower_same_place(const ptc_place_t *a, const ptc_place_t *b, const ptc_type_t *type) {
  bool same = a->buffer == b->buffer && same_affine(&a->instance, &b->instance) &&
              same_affine(&a->byte_offset, &b->byte_offset);
  for (int32_t c = 0; c < type->num_counts; ++c)
    same = same && (type->counts[c] == 1 || (a->instance_stride[c] == b->instance_stride[c] &&
                                             a->byte_stride[c] == b->byte_stride[c]));
  return same;
}

// --- steps

ptc_ref_t ptc_lower_ref(const ptc_place_t *place, const ptc_type_t *type, int32_t first_level,
                        int64_t bytes) {
  ptc_ref_t ref = {.buffer = place->buffer,
                   .instance = place->instance,
                   .byte_offset = place->byte_offset,
                   .bytes = bytes};
  for (int32_t c = 0; c < type->num_counts; ++c) {
    ref.instance.coef[first_level + c] += place->instance_stride[c];
    ref.byte_offset.coef[first_level + c] += place->byte_stride[c];
  }
  return ref;
}

static ptc_status_t too_deep(const ptc_lower_t *lower, ptc_loc_t loc) {
  return ptc_error(lower->diag, loc, PTC_UNSUPPORTED, "plan-levels",
                   "this runs in more than %d nested repeats", PTC_PLAN_MAX_LEVELS);
}

ptc_status_t ptc_lower_push(ptc_lower_t *lower, const ptc_op_t *op, int64_t count, bool shared,
                            ptc_loc_t loc) {
  if (lower->depth == PTC_PLAN_MAX_LEVELS) return too_deep(lower, loc);
  lower->levels[lower->depth++] = (ptc_level_t){op, count, shared};
  return PTC_OK;
}

void ptc_lower_pop(ptc_lower_t *lower, bool reverse, ptc_step_list_t *body, ptc_step_list_t *out) {
  const int64_t count = lower->levels[--lower->depth].count;
  ptc_step_t step = {
      .kind = PTC_STEP_REPEAT, .count = count, .reverse = reverse, .num_steps = (int32_t)body->len};
  step.body = PTC_ARENA_ARRAY(lower->arena, ptc_step_t, body->len);
  if (body->len) memcpy(step.body, body->data, (size_t)body->len * sizeof *body->data);
  if (body->len) PTC_VEC_PUSH(out, step);
  PTC_VEC_FREE(body);
}

ptc_status_t ptc_lower_copy(ptc_lower_t *lower, const ptc_place_t *from, const ptc_place_t *to,
                            const ptc_type_t *type, ptc_loc_t loc, ptc_step_list_t *out) {
  if (ptc_lower_same_place(from, to, type)) return PTC_OK;
  const int32_t first_level = lower->depth, num_counts = type->num_counts;
  const int64_t bytes = ptc_lower_bytes(lower, type);
  if (first_level + num_counts > PTC_PLAN_MAX_LEVELS) return too_deep(lower, loc);
  ptc_step_t step = {.kind = PTC_STEP_COPY, .num_args = 2};
  step.args = PTC_ARENA_ARRAY(lower->arena, ptc_ref_t, 2);
  step.args[0] = ptc_lower_ref(from, type, first_level, bytes);
  step.args[1] = ptc_lower_ref(to, type, first_level, bytes);
  ptc_step_list_t steps[PTC_MAX_COUNTS + 1] = {0};
  for (int32_t c = 0; c < num_counts; ++c)
    PTC_TRY(ptc_lower_push(lower, NULL, type->counts[c], false, loc));
  PTC_VEC_PUSH(num_counts ? &steps[num_counts] : out, step);
  for (int32_t c = num_counts - 1; c >= 0; --c)
    ptc_lower_pop(lower, false, &steps[c + 1], c ? &steps[c] : out);
  return PTC_OK;
}
