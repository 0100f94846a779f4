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

// The coordinate that the turn sets, or NULL.
static int64_t *turn_coord(const ptc_call_t *call) {
  const char *axis = ptc_op_string(call->op, "axis");
  const ptc_mesh_t *mesh = &call->module->mesh;
  for (int32_t i = 0; axis && i < mesh->num_axes; i++)
    if (mesh->axes[i].name == axis) return &ptc_interp_coords(call->interp)[i];
  return NULL;
}

ptc_status_t ptc_interp_repeat(const ptc_call_t *call) {
  const ptc_op_t *op = call->op;
  const ptc_block_t *body = op->body;
  const int64_t count = ptc_op_int(op, "count");
  const bool reverse = ptc_op_bool(op, "reverse");
  const int32_t carry = op->num_carry, num_args = body->num_args, num_yields = op->num_results;
  double turn_value = 0;
  int64_t *coord = turn_coord(call), outer_coord = coord ? *coord : 0;
  ptc_tensor_t *args = ptc_xmalloc((size_t)(num_args + num_yields) * sizeof(*args));
  ptc_tensor_t **list = ptc_xmalloc((size_t)(num_args + num_yields) * sizeof(*list));
  ptc_tensor_t *yields = args + num_args;
  for (int32_t i = 0; i < num_args + num_yields; i++) list[i] = &args[i];

  args[0] = (ptc_tensor_t){
      .type = body->args[0]->type, .num_elements = 1, .num_instances = 1, .data = &turn_value};
  // The current carried values are in the results, the next ones in yields; they change places.
  for (int32_t i = 0; i < carry; i++) {
    size_t bytes = (size_t)total(call->in[i]) * sizeof(double);
    memcpy(call->out[i]->data, call->in[i]->data, bytes);
    yields[i] = *call->in[i];
    yields[i].data = ptc_xmalloc(bytes + 1);
  }
  ptc_status_t status = PTC_OK;
  for (int64_t n = 0; n < count && status == PTC_OK; n++) {
    int64_t turn = reverse ? count - 1 - n : n;
    turn_value = (double)turn;
    if (coord) *coord = turn;
    for (int32_t i = 0; i < carry; i++) args[1 + i] = *call->out[i];
    for (int32_t i = carry; i < op->num_operands; i++) {
      const ptc_type_t *type = ptc_interp_local_type(call->interp, body->args[1 + i]->type);
      args[1 + i] = instance(call->in[i], type, turn, count);
    }
    for (int32_t i = carry; i < num_yields; i++)
      yields[i] = instance(call->out[i], call->out[i]->type, turn, count);
    status = ptc_interp_body(call->interp, op, list, list + num_args);
    for (int32_t i = 0; i < carry; i++) swap_data(call->out[i], &yields[i]);
  }
  for (int32_t i = 0; i < carry; i++) free(yields[i].data);
  if (coord) *coord = outer_coord;
  free(args);
  free(list);
  return status;
}
