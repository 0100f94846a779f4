// What a run of many ranks relies on: the mesh, layouts, and sizes of what collectives exchange.
#include <inttypes.h>
#include <string.h>

#include "ir/plan_check_impl.h"

enum { MAX_WORLD = 1 << 20 };

#define FAULT(loc, id, ...) ptc_error(c->diag, (loc), PTC_INVALID_INPUT, (id), __VA_ARGS__)

// --- the mesh

// Letters first; "t0" would be the turn of a repeat.
static bool is_axis_name(const char *name) {
  const size_t len = strlen(name);
  const bool word =
      len > 0 && len <= 64 && !(name[0] >= '0' && name[0] <= '9') &&
      strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == len;
  const bool turn = name[0] == 't' && name[1] && strspn(name + 1, "0123456789") == len - 1;
  return word && !turn && strcmp(name, "at") != 0;
}

ptc_status_t ptc_plan_check_mesh(ptc_diag_t *diag, const ptc_plan_t *plan) {
  const ptc_mesh_t *mesh = &plan->mesh;
  const ptc_loc_t loc = {plan->json_file, 1, 1};
  int64_t world = 1;
  if (mesh->num_axes >= PTC_PLAN_MAX_LEVELS)
    return ptc_error(diag, loc, PTC_INVALID_INPUT, "plan-limit", "the mesh has %d axes or more",
                     PTC_PLAN_MAX_LEVELS);
  for (int32_t a = 0; a < mesh->num_axes; ++a) {
    const ptc_mesh_axis_t *axis = &mesh->axes[a];
    bool ok = is_axis_name(axis->name) && axis->size >= 1;
    for (int32_t b = 0; ok && b < a; ++b) ok = strcmp(mesh->axes[b].name, axis->name) != 0;
    if (!ok)
      return ptc_error(diag, loc, PTC_INVALID_INPUT, "plan-mesh",
                       "the mesh has an axis of no size or with a name that is none, or taken");
    if (__builtin_mul_overflow(world, axis->size, &world) || world > MAX_WORLD)
      return ptc_error(diag, loc, PTC_INVALID_INPUT, "plan-limit", "more than %d ranks", MAX_WORLD);
  }
  return PTC_OK;
}

// --- axes

static int64_t size_of(const ptc_mesh_t *mesh, const char *axis) {
  return ptc_axis_ref_size(mesh, (ptc_axis_ref_t){.axis = axis});
}

static bool is_axis(const ptc_mesh_t *mesh, ptc_axis_ref_t ref) {
  const int64_t whole = size_of(mesh, ref.axis);
  if (!whole || (!ref.size && !ref.pre)) return whole > 0;
  int64_t up_to;
  return ref.pre >= 1 && ref.size >= 1 && !__builtin_mul_overflow(ref.pre, ref.size, &up_to) &&
         whole % up_to == 0;
}

// Two parts of one axis that share none of its factors.
static bool are_apart(ptc_axis_ref_t a, ptc_axis_ref_t b) {
  if (a.axis != b.axis) return true;
  if (!a.size || !b.size) return false;
  return b.pre % (a.pre * a.size) == 0 || a.pre % (b.pre * b.size) == 0;
}

bool ptc_plan_axes_are_valid(const ptc_mesh_t *mesh, const ptc_axis_ref_t *axes, int32_t count) {
  bool ok = true;
  for (int32_t i = 0; i < count && ok; ++i) {
    ok = is_axis(mesh, axes[i]);
    for (int32_t j = 0; j < i && ok; ++j) ok = are_apart(axes[i], axes[j]);
  }
  return ok;
}

// --- layouts

ptc_status_t ptc_plan_check_layout(const ptc_plan_checker_t *c, const ptc_buffer_t *buffer) {
  enum { MAX_AXES = 64 };
  ptc_axis_ref_t axes[MAX_AXES];
  int32_t count = 0;
  bool ok = true;
  for (int32_t d = 0; buffer->layout && d < buffer->num_dims && ok; ++d) {
    const ptc_dim_t *dim = &buffer->layout[d];
    ok = dim->extent >= 0 && dim->extent <= INT64_MAX / 4 && dim->num_axes <= MAX_AXES - count;
    for (int32_t i = 0; ok && i < dim->num_axes; ++i) axes[count++] = dim->axes[i];
  }
  ok = ok && ptc_plan_axes_are_valid(&c->plan->mesh, axes, count) &&
       ptc_plan_axes_are_valid(&c->plan->mesh, buffer->over, buffer->num_over) &&
       ptc_plan_axes_are_valid(&c->plan->mesh, buffer->partial, buffer->num_partial);
  for (int32_t d = 0; buffer->layout && d < buffer->num_dims && ok; ++d)
    ok = ptc_dim_local_extent(&c->plan->mesh, &buffer->layout[d]) == buffer->extents[d];
  if (ok) return PTC_OK;
  return FAULT(((ptc_loc_t){c->plan->steps_file, buffer->line, 1}), "plan-layout",
               "the layout names no axes of the mesh, or one twice, or leaves each rank other "
               "extents than the buffer has");
}

// --- collectives

// |pieces| of |size| members cover an array of |bytes| bytes, whole elements each.
static bool covers(const ptc_pieces_t *pieces, int64_t size, int64_t elem_bytes, int64_t bytes) {
  int64_t all, total;
  return pieces->outer >= 0 && pieces->chunk >= 0 && pieces->row >= pieces->chunk &&
         pieces->chunk % elem_bytes == 0 && pieces->row % elem_bytes == 0 &&
         !__builtin_mul_overflow(pieces->chunk, size, &all) && pieces->row <= all &&
         !__builtin_mul_overflow(pieces->outer, pieces->row, &total) && total == bytes;
}

// The stream of a piece, as if nothing were cut off.
static bool stream_bytes(const ptc_pieces_t *pieces, int64_t *out_bytes) {
  return !__builtin_mul_overflow(pieces->outer, pieces->chunk, out_bytes);
}

// The chunks of one array lie evenly in those of the other.
static bool nests(const ptc_pieces_t *a, const ptc_pieces_t *b) {
  return a->chunk == 0 || b->chunk == 0 || a->chunk % b->chunk == 0 || b->chunk % a->chunk == 0;
}

static bool is_one_row(const ptc_pieces_t *pieces, int64_t bytes) {
  return pieces->outer == 1 && pieces->chunk == bytes && pieces->row == bytes;
}

static bool part_is_valid(const ptc_collective_t *collective, const ptc_collective_part_t *part,
                          int64_t size, int64_t in_bytes, int64_t out_bytes) {
  const int64_t elem = ptc_dtype_bytes(collective->dtype);
  const bool in_row = is_one_row(&part->in, in_bytes), out_row = is_one_row(&part->out, out_bytes);
  int64_t sent, kept;
  if (in_bytes % elem || out_bytes % elem) return false;
  switch (collective->kind) {
    case PTC_COLLECTIVE_RING_SHIFT:
    case PTC_COLLECTIVE_ALL_REDUCE: return in_row && out_row && in_bytes == out_bytes;
    case PTC_COLLECTIVE_REDUCE_SCATTER:
      return out_row && covers(&part->in, size, elem, in_bytes) && stream_bytes(&part->in, &sent) &&
             sent == out_bytes;
    case PTC_COLLECTIVE_ALL_GATHER:
      return in_row && covers(&part->out, size, elem, out_bytes) &&
             stream_bytes(&part->out, &kept) && kept == in_bytes;
    default:
      return covers(&part->in, size, elem, in_bytes) && covers(&part->out, size, elem, out_bytes) &&
             stream_bytes(&part->in, &sent) && stream_bytes(&part->out, &kept) && sent == kept &&
             nests(&part->in, &part->out);
  }
}

// --- what collectives do to layouts

// A set of factors of axes: those of |refs|, each whole axis or part as it stands.
static bool contains(const ptc_axis_ref_t *refs, int32_t count, ptc_axis_ref_t ref) {
  for (int32_t i = 0; i < count; ++i)
    if (ptc_axis_ref_equal(refs[i], ref)) return true;
  return false;
}

// Whether |b| is |a| without |axes|, all of which |a| has.
static bool is_without(const ptc_axis_ref_t *a, int32_t num_a, const ptc_axis_ref_t *axes,
                       int32_t num_axes, const ptc_axis_ref_t *b, int32_t num_b) {
  bool same = num_a == num_axes + num_b;
  for (int32_t i = 0; same && i < num_axes; ++i)
    same = contains(a, num_a, axes[i]) && !contains(b, num_b, axes[i]);
  for (int32_t i = 0; same && i < num_b; ++i) same = contains(a, num_a, b[i]);
  return same;
}

static bool has_parts(const ptc_axis_ref_t *refs, int32_t count) {
  for (int32_t i = 0; i < count; ++i)
    if (refs[i].size) return true;
  return false;
}

// Parts of axes can be listed in several ways; they are not compared.
static bool is_comparable(const ptc_buffer_t *b) {
  return !has_parts(b->over, b->num_over) && !has_parts(b->partial, b->num_partial);
}

// The axes that the bytes of |ref| lie on: those of the buffer, and those whose coordinate says where in it they begin,
// as those of a rank's part of what it has whole do. The buffer is comparable; -1: these are no layout.
static int32_t axes_of(const ptc_mesh_t *mesh, const ptc_ref_t *ref, const ptc_buffer_t *buffer,
                       ptc_axis_ref_t *out) {
  int32_t count = 0;
  for (; count < buffer->num_over; ++count) {
    if (count == PTC_PLAN_MAX_LEVELS) return -1;
    out[count] = buffer->over[count];
  }
  for (int32_t a = 0; a < mesh->num_axes; ++a) {
    if (ref->byte_offset.coef[a] == 0) continue;
    const ptc_axis_ref_t axis = {.axis = mesh->axes[a].name};
    if (count == PTC_PLAN_MAX_LEVELS || contains(out, count, axis)) return -1;
    out[count++] = axis;
  }
  return count;
}

static const char *layout_fault(const ptc_mesh_t *mesh, const ptc_collective_t *c,
                                const ptc_ref_t *from, const ptc_buffer_t *in,
                                const ptc_buffer_t *out) {
  if (!is_comparable(in) || !is_comparable(out) || has_parts(c->axes, c->num_axes)) return NULL;
  const bool reduces =
      c->kind == PTC_COLLECTIVE_ALL_REDUCE || c->kind == PTC_COLLECTIVE_REDUCE_SCATTER;
  const int32_t reduced = reduces ? c->num_axes : 0;
  if (!is_without(in->partial, in->num_partial, c->axes, reduced, out->partial, out->num_partial))
    return "the operand is not partial over these axes beyond what the result is";
  if (reduces && c->reduce != in->partial_kind) return "the operand is completed in another way";
  const bool gathers = c->kind == PTC_COLLECTIVE_ALL_GATHER;
  const bool scatters = c->kind == PTC_COLLECTIVE_REDUCE_SCATTER;
  ptc_axis_ref_t over[PTC_PLAN_MAX_LEVELS];
  const int32_t count = axes_of(mesh, from, in, over);
  const int32_t moved = gathers || scatters ? c->num_axes : 0;
  if (count < 0 || !(scatters ? is_without(out->over, out->num_over, c->axes, moved, over, count)
                              : is_without(over, count, c->axes, moved, out->over, out->num_over)))
    return "operand and result do not lie on the mesh as this collective needs it";
  return NULL;
}

ptc_status_t ptc_plan_check_collective(const ptc_plan_checker_t *c, const ptc_step_t *step) {
  const ptc_collective_t *collective = step->collective;
  const ptc_loc_t loc = {c->plan->steps_file, step->line, 1};
  if (!ptc_plan_axes_are_valid(&c->plan->mesh, collective->axes, collective->num_axes))
    return FAULT(loc, "plan-collective",
                 "its axes are not of the mesh, are no real parts, or overlap");
  const int64_t size = ptc_group_size(&c->plan->mesh, collective->axes, collective->num_axes);
  for (int32_t p = 0; p < collective->num_parts; ++p) {
    const ptc_ref_t *in = &step->args[2 * p], *out = &step->args[2 * p + 1];
    if (c->plan->buffers[in->buffer].dtype != collective->dtype ||
        c->plan->buffers[out->buffer].dtype != collective->dtype ||
        !part_is_valid(collective, &collective->parts[p], size, in->bytes, out->bytes))
      return FAULT(loc, "plan-collective",
                   "part %" PRId32
                   ": dtype, bytes and pieces of operand and result do not fit a "
                   "group of %" PRId64,
                   p, size);
    const char *fault = layout_fault(&c->plan->mesh, collective, in, &c->plan->buffers[in->buffer],
                                     &c->plan->buffers[out->buffer]);
    if (fault)
      return FAULT(loc, "plan-collective", "part %" PRId32 " (\"%s\" to \"%s\"): %s", p,
                   c->plan->buffers[in->buffer].name, c->plan->buffers[out->buffer].name, fault);
  }
  return PTC_OK;
}
