// Collectives over a group of one device; shards of a mesh axis are in interp_structure.c.
#include <inttypes.h>
#include <string.h>

#include "ir/axes.h"
#include "ir/interp_impl.h"

// The values of several devices side by side are not kept yet.
static ptc_status_t alone(const ptc_call_t *call) {
  ptc_axis_ref_t axes[PTC_MAX_AXES];
  int32_t num_axes;
  ptc_axes_parse(call->module, ptc_op_string(call->op, "axes"), axes, &num_axes);
  int64_t size = ptc_axes_size(&call->module->mesh, axes, num_axes);
  if (size != 1)
    return ptc_error(call->module->diag, call->op->loc, PTC_UNSUPPORTED, "interp-devices",
                     "%s: the interpreter runs one device, the group has %" PRId64,
                     ptc_op_info(call->op->opcode)->mnemonic, size);
  memcpy(call->out[0]->data, call->in[0]->data,
         (size_t)call->out[0]->num_elements * sizeof(double));
  return PTC_OK;
}

ptc_status_t ptc_interp_all_reduce(const ptc_call_t *call) { return alone(call); }
ptc_status_t ptc_interp_reduce_scatter(const ptc_call_t *call) { return alone(call); }
ptc_status_t ptc_interp_all_gather(const ptc_call_t *call) { return alone(call); }
ptc_status_t ptc_interp_all_to_all(const ptc_call_t *call) { return alone(call); }

ptc_status_t ptc_interp_axis_index(const ptc_call_t *call) {
  ptc_axis_ref_t axes[PTC_MAX_AXES];
  int32_t num_axes;
  ptc_axes_parse(call->module, ptc_op_string(call->op, "axes"), axes, &num_axes);
  call->out[0]->data[0] = (double)ptc_axes_index(&call->module->mesh, axes, num_axes, call->coords);
  return PTC_OK;
}
