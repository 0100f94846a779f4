// Collectives: a device reads the operands of all members of its group. Where an element goes follows from its
// global indices alone.
#include <stdlib.h>
#include <string.h>

#include "ir/axes.h"
#include "ir/interp_impl.h"

typedef struct group_s {
  ptc_axis_ref_t axes[PTC_MAX_AXES];
  int32_t num_axes;
  int64_t size;
} group_t;

static group_t group_of(const ptc_call_t *call) {
  group_t group;
  ptc_axes_parse(call->module, ptc_op_string(call->op, "axes"), group.axes, &group.num_axes);
  group.size = ptc_axes_size(&call->module->mesh, group.axes, group.num_axes);
  return group;
}

// Gives the part |ref| of coordinate |coord| of an axis of |whole| positions the value |digit|.
static int64_t with_digit(ptc_axis_ref_t ref, int64_t whole, int64_t coord, int64_t digit) {
  if (!ref.size) return digit;
  int64_t post = whole / (ref.pre * ref.size);
  return (coord / (post * ref.size) * ref.size + digit) * post + coord % post;
}

// The call on member |number| of this device's group.
static const ptc_call_t *member(const ptc_call_t *call, const group_t *group, int64_t number) {
  const ptc_mesh_t *mesh = &call->module->mesh;
  int64_t *coords = ptc_xmalloc((size_t)(mesh->num_axes + 1) * sizeof(*coords));
  for (int32_t i = 0; i < mesh->num_axes; i++) coords[i] = call->coords[i];
  for (int32_t a = group->num_axes - 1; a >= 0; a--) {
    int64_t size = ptc_axis_ref_size(mesh, group->axes[a]);
    for (int32_t i = 0; i < mesh->num_axes; i++)
      if (mesh->axes[i].name == group->axes[a].axis)
        coords[i] = with_digit(group->axes[a], mesh->axes[i].size, coords[i], number % size);
    number /= size;
  }
  int32_t device = ptc_interp_device_at(call->interp, coords);
  free(coords);
  return &call->all[device];
}

// Per local index of a dim of the operand, on |peer|: the distance in the result on this device; -1 if it does not
// hold the element.
static int64_t *placing(const ptc_call_t *call, const ptc_call_t *peer, const ptc_dim_t *from) {
  const ptc_type_t *y = ptc_call_out(call, 0);
  const ptc_dim_t *to = &y->dims[ptc_type_find_dim(y, from->name)];
  int64_t extent = ptc_call_valid_extent(peer, from), stride = ptc_call_stride(call, y, to->name);
  int64_t *places = ptc_xmalloc((size_t)(extent + 1) * sizeof(*places));
  for (int64_t i = 0; i < extent; i++) {
    int64_t local = ptc_call_local_index(call, to, ptc_call_global_index(peer, from, i));
    places[i] = local < 0 ? -1 : local * stride;
  }
  return places;
}

// 16-bit values are added in f32; the caller rounds them to their dtype.
static double add(const ptc_call_t *call, double a, double b) {
  ptc_dtype_t dtype = ptc_call_in(call, 0)->dtype;
  bool exact = ptc_interp_mode(call->interp) == PTC_INTERP_EXACT;
  if (ptc_dtype_is_float(dtype)) dtype = dtype == PTC_F64 || exact ? PTC_F64 : PTC_F32;
  return ptc_dtype_round(dtype, a + b);
}

typedef enum combine_e { COMBINE_COPY, COMBINE_SUM, COMBINE_MAX } combine_t;

static void take_from(const ptc_call_t *call, const ptc_call_t *peer, combine_t combine,
                      bool first) {
  const ptc_type_t *x = ptc_call_in(call, 0);
  int64_t *places[PTC_MAX_DIMS];
  ptc_nest_t nest;
  ptc_nest_init(&nest, peer);
  ptc_nest_add_dims(&nest, x);
  ptc_nest_add_tensor(&nest, x, NULL);
  for (int32_t d = 0; d < x->num_dims; d++) places[d] = placing(call, peer, &x->dims[d]);
  for (bool more = ptc_nest_begin(&nest); more; more = ptc_nest_next(&nest)) {
    int64_t to = 0;
    for (int32_t d = 0; d < x->num_dims && to >= 0; d++) {
      int64_t step = places[d][nest.index[d]];
      to = step < 0 ? -1 : to + step;
    }
    if (to < 0) continue;
    double *y = &call->out[0]->data[to], value = peer->in[0]->data[nest.offset[0]];
    if (first || combine == COMBINE_COPY)
      *y = value;
    else if (combine == COMBINE_SUM)
      *y = add(call, *y, value);
    else if (ptc_exceeds(value, *y))
      *y = value;
  }
  for (int32_t d = 0; d < x->num_dims; d++) free(places[d]);
}

static ptc_status_t exchange(const ptc_call_t *call, combine_t combine) {
  group_t group = group_of(call);
  for (int32_t i = 0; i < group.num_axes; i++)
    if (ptc_interp_is_time(call->interp, group.axes[i].axis))
      return ptc_error(call->module->diag, call->op->loc, PTC_UNSUPPORTED, "interp-devices",
                       "%s: axis \"%s\" is time; nothing is exchanged between turns",
                       ptc_op_info(call->op->opcode)->mnemonic, group.axes[i].axis);
  for (int64_t g = 0; g < group.size; g++)
    take_from(call, member(call, &group, g), combine, g == 0);
  return PTC_OK;
}

static combine_t reduction(const ptc_call_t *call) {
  return ptc_call_in(call, 0)->partial_kind == PTC_REDUCE_MAX ? COMBINE_MAX : COMBINE_SUM;
}

ptc_status_t ptc_interp_all_reduce(const ptc_call_t *call) {
  return exchange(call, reduction(call));
}

ptc_status_t ptc_interp_reduce_scatter(const ptc_call_t *call) {
  return exchange(call, reduction(call));
}

ptc_status_t ptc_interp_all_gather(const ptc_call_t *call) { return exchange(call, COMBINE_COPY); }
ptc_status_t ptc_interp_all_to_all(const ptc_call_t *call) { return exchange(call, COMBINE_COPY); }

ptc_status_t ptc_interp_ring_shift(const ptc_call_t *call) {
  group_t group = group_of(call);
  const int64_t me = ptc_axes_index(&call->module->mesh, group.axes, group.num_axes, call->coords);
  const ptc_tensor_t *x = member(call, &group, (me + group.size - 1) % group.size)->in[0];
  memcpy(call->out[0]->data, x->data, (size_t)x->num_elements * sizeof(double));
  return PTC_OK;
}

ptc_status_t ptc_interp_axis_index(const ptc_call_t *call) {
  group_t group = group_of(call);
  call->out[0]->data[0] =
      (double)ptc_axes_index(&call->module->mesh, group.axes, group.num_axes, call->coords);
  return PTC_OK;
}
