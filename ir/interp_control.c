// repeat: turns, carried values, one instance of each bundle per turn, collected values.
#include <stdlib.h>
#include <string.h>

#include "ir/interp_impl.h"

static int64_t total(const ptc_tensor_t *tensor) {
  return tensor->num_elements * tensor->num_instances;
}

// The part of |bundle| that belongs to turn |turn| of |count|; |type| is an instance's.
static ptc_tensor_t instance(const ptc_tensor_t *bundle, const ptc_type_t *type, int64_t turn,
                             int64_t count) {
  ptc_tensor_t part = *bundle;
  part.type = type;
  part.num_instances = bundle->num_instances / count;
  part.data = bundle->data + turn * part.num_instances * part.num_elements;
  return part;
}

static void swap_data(ptc_tensor_t *a, ptc_tensor_t *b) {
  double *data = a->data;
  a->data = b->data;
  b->data = data;
}

// The mesh axis whose coordinate the turn sets, or -1.
static int32_t turn_axis(const ptc_call_t *call) {
  const char *axis = ptc_op_string(call->op, "axis");
  const ptc_mesh_t *mesh = &call->module->mesh;
  for (int32_t i = 0; axis && i < mesh->num_axes; i++)
    if (mesh->axes[i].name == axis) return i;
  return -1;
}

static void set_coord(const ptc_call_t *call, int32_t axis, int64_t coord) {
  for (int32_t d = 0; axis >= 0 && d < call->num_devices; d++)
    ptc_interp_coords(call->interp, d)[axis] = coord;
}

// Lists of arguments and yields: entry i * devices + d is that of device d.
ptc_status_t ptc_interp_repeat(const ptc_call_t *call) {
  const ptc_op_t *op = call->op;
  const ptc_block_t *body = op->body;
  const int64_t count = ptc_op_int(op, "count");
  const bool reverse = ptc_op_bool(op, "reverse");
  const int32_t devices = call->num_devices, carry = op->num_carry;
  const int32_t num_args = body->num_args, num_yields = op->num_results;
  const int32_t num_lists = (num_args + num_yields) * devices;
  double turn_value = 0;
  const int32_t axis = turn_axis(call);
  const int64_t outer_coord = axis >= 0 ? call->coords[axis] : 0;
  ptc_tensor_t *args = ptc_xmalloc((size_t)num_lists * sizeof(*args));
  ptc_tensor_t **list = ptc_xmalloc((size_t)num_lists * sizeof(*list));
  ptc_tensor_t *yields = args + num_args * devices;
  for (int32_t i = 0; i < num_lists; i++) list[i] = &args[i];

  for (int32_t d = 0; d < devices; d++)
    args[d] = (ptc_tensor_t){
        .type = body->args[0]->type, .num_elements = 1, .num_instances = 1, .data = &turn_value};
  // The current carried values are in the results, the next ones in yields; they change places.
  for (int32_t i = 0; i < carry; i++) {
    for (int32_t d = 0; d < devices; d++) {
      const ptc_tensor_t *init = call->all[d].in[i];
      size_t bytes = (size_t)total(init) * sizeof(double);
      memcpy(call->all[d].out[i]->data, init->data, bytes);
      yields[i * devices + d] = *init;
      yields[i * devices + d].data = ptc_xmalloc(bytes + 1);
    }
  }
  ptc_status_t status = PTC_OK;
  for (int64_t n = 0; n < count && status == PTC_OK; n++) {
    int64_t turn = reverse ? count - 1 - n : n;
    turn_value = (double)turn;
    set_coord(call, axis, turn);
    for (int32_t d = 0; d < devices; d++) {
      const ptc_call_t *own = &call->all[d];
      for (int32_t i = 0; i < carry; i++) args[(1 + i) * devices + d] = *own->out[i];
      for (int32_t i = carry; i < op->num_operands; i++) {
        const ptc_type_t *type = ptc_interp_local_type(call->interp, body->args[1 + i]->type);
        args[(1 + i) * devices + d] = instance(own->in[i], type, turn, count);
      }
      for (int32_t i = carry; i < num_yields; i++)
        yields[i * devices + d] = instance(own->out[i], own->out[i]->type, turn, count);
    }
    status = ptc_interp_body(call->interp, op, list, list + num_args * devices);
    for (int32_t i = 0; i < carry; i++)
      for (int32_t d = 0; d < devices; d++)
        swap_data(call->all[d].out[i], &yields[i * devices + d]);
  }
  for (int32_t i = 0; i < carry * devices; i++) free(yields[i].data);
  set_coord(call, axis, outer_coord);
  free(args);
  free(list);
  return status;
}
