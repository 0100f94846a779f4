// Ops that move elements: views, concat, window, gather, their transposes, bundles, shards.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/interp_impl.h"

static void copy_elements(double *to, const double *from, int64_t count) {
  if (count > 0) memcpy(to, from, (size_t)count * sizeof(*to));
}

static int64_t total(const ptc_tensor_t *tensor) {
  return tensor->num_elements * tensor->num_instances;
}

ptc_status_t ptc_interp_constant(const ptc_call_t *call) {
  double value = ptc_op_float(call->op, "value");
  for (int64_t i = 0; i < total(call->out[0]); i++) call->out[0]->data[i] = value;
  return PTC_OK;
}

// Counts global indices.
ptc_status_t ptc_interp_iota(const ptc_call_t *call) {
  const ptc_type_t *type = ptc_call_out(call, 0);
  ptc_nest_t nest;
  ptc_nest_init(&nest, call);
  ptc_nest_add_dims(&nest, type);
  ptc_nest_add_tensor(&nest, type, NULL);
  int32_t at = ptc_nest_find(&nest, ptc_op_string(call->op, "dim"));
  for (bool more = ptc_nest_begin(&nest); more; more = ptc_nest_next(&nest))
    call->out[0]->data[nest.offset[0]] =
        at < 0 ? 0 : (double)ptc_call_global_index(call, &nest.dims[at], nest.index[at]);
  return PTC_OK;
}

// --- views

// The stride in the result of the operand's dim |name|. A dim that is split lies in its parts,
// neighbours in the result, as a whole; a merged dim counts the dims of |dims| row-major.
static int64_t view_stride(const ptc_call_t *call, const char *name) {
  const ptc_op_t *op = call->op;
  const ptc_type_t *x = ptc_call_in(call, 0), *y = ptc_call_out(call, 0);
  const ptc_attr_t *from = ptc_op_attr(op, "from"), *to = ptc_op_attr(op, "to");
  for (int32_t i = 0; from && i < from->count; i++)
    if (from->u.dims[i] == name) return ptc_call_stride(call, y, to->u.dims[i]);
  const ptc_attr_t *into = ptc_op_attr(op, "into"), *merged = ptc_op_attr(op, "dims");
  if (into && into->kind == PTC_ATTR_DIMS && ptc_op_string(op, "dim") == name)
    return ptc_call_stride(call, y, into->u.dims[into->count - 1]);
  if (!merged || !ptc_op_dims_contain(op, "dims", name)) return ptc_call_stride(call, y, name);
  int64_t stride = ptc_call_stride(call, y, into->u.s);
  for (int32_t i = merged->count - 1; merged->u.dims[i] != name; i--)
    stride *= ptc_call_local_extent(call, &x->dims[ptc_type_find_dim(x, merged->u.dims[i])]);
  return stride;
}

ptc_status_t ptc_interp_view(const ptc_call_t *call) {
  const ptc_type_t *x = ptc_call_in(call, 0);
  ptc_nest_t nest;
  ptc_nest_init(&nest, call);
  ptc_nest_add_dims(&nest, x);
  ptc_nest_add_tensor(&nest, x, NULL);
  nest.num_tensors = 2;
  for (int32_t i = 0; i < nest.num_dims; i++)
    nest.stride[1][i] = view_stride(call, nest.dims[i].name);
  for (bool more = ptc_nest_begin(&nest); more; more = ptc_nest_next(&nest))
    call->out[0]->data[nest.offset[1]] = call->in[0]->data[nest.offset[0]];
  return PTC_OK;
}

// Other counts of the same instances.
ptc_status_t ptc_interp_list_view(const ptc_call_t *call) {
  copy_elements(call->out[0]->data, call->in[0]->data, total(call->in[0]));
  return PTC_OK;
}

// Instances per turn of the leading count.
static int64_t turn_size(const ptc_tensor_t *tensor, const ptc_type_t *type) {
  return type->counts[0] ? total(tensor) / type->counts[0] : 0;
}

ptc_status_t ptc_interp_list_slice(const ptc_call_t *call) {
  int64_t size = turn_size(call->in[0], ptc_call_in(call, 0));
  const double *from = call->in[0]->data + ptc_op_int(call->op, "first") * size;
  copy_elements(call->out[0]->data, from, total(call->out[0]));
  return PTC_OK;
}

ptc_status_t ptc_interp_list_concat(const ptc_call_t *call) {
  double *to = call->out[0]->data;
  for (int32_t i = 0; i < call->op->num_operands; i++) {
    copy_elements(to, call->in[i]->data, total(call->in[i]));
    to += total(call->in[i]);
  }
  return PTC_OK;
}

// --- concat and windows

ptc_status_t ptc_interp_concat(const ptc_call_t *call) {
  const char *dim = ptc_op_string(call->op, "dim");
  const ptc_type_t *result = ptc_call_out(call, 0);
  int64_t step = ptc_call_stride(call, result, dim), start = 0;
  for (int32_t i = 0; i < call->op->num_operands; i++) {
    const ptc_type_t *type = ptc_call_in(call, i);
    ptc_nest_t nest;
    ptc_nest_init(&nest, call);
    ptc_nest_add_dims(&nest, type);
    ptc_nest_add_dims(&nest, result);  // dims that this operand is repeated along
    ptc_nest_add_tensor(&nest, result, NULL);
    ptc_nest_add_tensor(&nest, type, NULL);
    for (bool more = ptc_nest_begin(&nest); more; more = ptc_nest_next(&nest))
      call->out[0]->data[start * step + nest.offset[0]] = call->in[i]->data[nest.offset[1]];
    start += type->dims[ptc_type_find_dim(type, dim)].extent;
  }
  return PTC_OK;
}

// offset + sum of coeffs[i] * index of terms[i]
typedef struct affine_s {
  int64_t offset, coeff[PTC_NEST_DIMS];  // one per loop of the nest
} affine_t;

static affine_t affine_init(const ptc_op_t *op, const ptc_nest_t *nest) {
  affine_t form = {.offset = ptc_op_int(op, "offset")};
  const ptc_attr_t *terms = ptc_op_attr(op, "terms"), *coeffs = ptc_op_attr(op, "coeffs");
  for (int32_t i = 0; i < terms->count; i++) {
    int32_t loop = ptc_nest_find(nest, terms->u.dims[i]);
    if (loop >= 0) form.coeff[loop] += coeffs->u.ints[i];
  }
  return form;
}

static int64_t affine_at(const affine_t *form, const ptc_nest_t *nest) {
  int64_t value = form->offset;
  for (int32_t i = 0; i < nest->num_dims; i++) value += form->coeff[i] * nest->index[i];
  return value;
}

ptc_status_t ptc_interp_window(const ptc_call_t *call) {
  const char *dim = ptc_op_string(call->op, "dim");
  const ptc_type_t *x = ptc_call_in(call, 0), *y = ptc_call_out(call, 0);
  int64_t extent = x->dims[ptc_type_find_dim(x, dim)].extent, step = ptc_call_stride(call, x, dim);
  double fill = ptc_op_float(call->op, "fill");
  ptc_nest_t nest;
  ptc_nest_init(&nest, call);
  ptc_nest_add_dims(&nest, y);
  ptc_nest_add_tensor(&nest, y, NULL);
  ptc_nest_add_tensor_but(&nest, x, dim);
  affine_t form = affine_init(call->op, &nest);
  for (bool more = ptc_nest_begin(&nest); more; more = ptc_nest_next(&nest)) {
    int64_t at = affine_at(&form, &nest);
    bool inside = at >= 0 && at < extent;
    call->out[0]->data[nest.offset[0]] =
        inside ? call->in[0]->data[nest.offset[1] + at * step] : fill;
  }
  return PTC_OK;
}

ptc_status_t ptc_interp_window_add(const ptc_call_t *call) {
  const char *dim = ptc_op_string(call->op, "dim");
  const ptc_type_t *y = ptc_call_in(call, 0), *x = ptc_call_out(call, 0);
  int64_t extent = ptc_op_int(call->op, "extent"), step = ptc_call_stride(call, x, dim);
  ptc_nest_t nest;
  ptc_nest_init(&nest, call);
  ptc_nest_add_dims(&nest, y);
  ptc_nest_add_tensor(&nest, y, NULL);
  ptc_nest_add_tensor_but(&nest, x, dim);
  affine_t form = affine_init(call->op, &nest);
  for (bool more = ptc_nest_begin(&nest); more; more = ptc_nest_next(&nest)) {
    int64_t at = affine_at(&form, &nest);
    if (at >= 0 && at < extent)
      call->out[0]->data[nest.offset[1] + at * step] += call->in[0]->data[nest.offset[0]];
  }
  return PTC_OK;
}

// --- gather and scatter_add share the address: |whole| is the tensor that has the indexed dims;
// tensor 0 of the nest is the other one, 1 is |whole| without these dims, 2... the indices.

typedef struct address_s {
  const ptc_attr_t *dims;
  int64_t extent[PTC_MAX_DIMS], step[PTC_MAX_DIMS];
} address_t;

static address_t address_init(const ptc_call_t *call, ptc_nest_t *nest, const ptc_type_t *part,
                              const ptc_type_t *whole) {
  address_t address = {.dims = ptc_op_attr(call->op, "dims")};
  ptc_nest_add_tensor(nest, part, NULL);
  ptc_nest_add_tensor(nest, whole, address.dims);
  for (int32_t i = 0; i < address.dims->count; i++) {
    const char *name = address.dims->u.dims[i];
    // Of a shard (attribute local), what it holds.
    address.extent[i] = ptc_call_valid_extent(call, &whole->dims[ptc_type_find_dim(whole, name)]);
    address.step[i] = ptc_call_stride(call, whole, name);
    ptc_nest_add_tensor(nest, ptc_call_in(call, i + 1), NULL);
  }
  return address;
}

// The offset in |whole|; -1, with the index at fault in |out_bad|, if out of range.
static int64_t address_at(const ptc_call_t *call, const address_t *address, const ptc_nest_t *nest,
                          int32_t *out_bad) {
  int64_t offset = nest->offset[1];
  for (int32_t i = 0; i < address->dims->count; i++) {
    double index = call->in[i + 1]->data[nest->offset[i + 2]];
    *out_bad = i;
    if (!(index >= 0 && index < (double)address->extent[i])) return -1;
    offset += (int64_t)index * address->step[i];
  }
  return offset;
}

ptc_status_t ptc_interp_gather(const ptc_call_t *call) {
  const ptc_attr_t *fill = ptc_op_attr(call->op, "fill");
  ptc_nest_t nest;
  ptc_nest_init(&nest, call);
  ptc_nest_add_dims(&nest, ptc_call_out(call, 0));
  address_t address = address_init(call, &nest, ptc_call_out(call, 0), ptc_call_in(call, 0));
  for (bool more = ptc_nest_begin(&nest); more; more = ptc_nest_next(&nest)) {
    int32_t bad;
    int64_t from = address_at(call, &address, &nest, &bad);
    if (from < 0 && !fill)
      return ptc_error(call->module->diag, call->op->loc, PTC_INVALID_INPUT, "gather-range",
                       "index %.0f lies outside dim \"%s\" of extent %" PRId64,
                       call->in[bad + 1]->data[nest.offset[bad + 2]], address.dims->u.dims[bad],
                       address.extent[bad]);
    call->out[0]->data[nest.offset[0]] =
        from < 0 ? ptc_op_float(call->op, "fill") : call->in[0]->data[from];
  }
  return PTC_OK;
}

ptc_status_t ptc_interp_scatter_add(const ptc_call_t *call) {
  const ptc_type_t *result = ptc_call_out(call, 0);
  ptc_nest_t nest;
  ptc_nest_init(&nest, call);
  ptc_nest_add_dims(&nest, result);
  ptc_nest_drop(&nest, ptc_op_attr(call->op, "dims"));
  for (int32_t i = 0; i < call->op->num_operands; i++)
    ptc_nest_add_dims(&nest, ptc_call_in(call, i));
  address_t address = address_init(call, &nest, ptc_call_in(call, 0), result);
  for (bool more = ptc_nest_begin(&nest); more; more = ptc_nest_next(&nest)) {
    int32_t bad;
    int64_t to = address_at(call, &address, &nest, &bad);
    if (to >= 0) call->out[0]->data[to] += call->in[0]->data[nest.offset[0]];
  }
  return PTC_OK;
}

// --- shards of a mesh axis

ptc_status_t ptc_interp_shard(const ptc_call_t *call) {
  const char *dim = ptc_op_string(call->op, "dim");
  const ptc_type_t *x = ptc_call_in(call, 0), *y = ptc_call_out(call, 0);
  const ptc_dim_t *whole = &x->dims[ptc_type_find_dim(x, dim)];
  const ptc_dim_t *part = &y->dims[ptc_type_find_dim(y, dim)];
  int64_t step = ptc_call_stride(call, x, dim);
  ptc_nest_t nest;
  ptc_nest_init(&nest, call);
  ptc_nest_add_dims(&nest, y);
  ptc_nest_add_tensor(&nest, y, NULL);
  ptc_nest_add_tensor_but(&nest, x, dim);
  int32_t loop = ptc_nest_find(&nest, dim);
  for (bool more = ptc_nest_begin(&nest); more; more = ptc_nest_next(&nest)) {
    int64_t global = ptc_call_global_index(call, part, nest.index[loop]);
    int64_t from = ptc_call_local_index(call, whole, global);
    if (from >= 0)
      call->out[0]->data[nest.offset[0]] = call->in[0]->data[nest.offset[1] + from * step];
  }
  return PTC_OK;
}

ptc_status_t ptc_interp_reorder(const ptc_call_t *call) {
  copy_elements(call->out[0]->data, call->in[0]->data, total(call->in[0]));
  return PTC_OK;
}

// One pass per coordinate of the axis, as if this device stood there.
ptc_status_t ptc_interp_unshard(const ptc_call_t *call) {
  enum { MAX_AXES = 64 };
  const char *dim = ptc_op_string(call->op, "dim"), *axis = ptc_op_string(call->op, "axis");
  const ptc_type_t *x = ptc_call_in(call, 0), *y = ptc_call_out(call, 0);
  const ptc_dim_t *part = &x->dims[ptc_type_find_dim(x, dim)];
  const ptc_dim_t *whole = &y->dims[ptc_type_find_dim(y, dim)];
  const ptc_mesh_t *mesh = &call->module->mesh;
  int64_t coords[MAX_AXES] = {0}, step = ptc_call_stride(call, y, dim);
  int32_t at = 0;
  for (int32_t i = 0; i < mesh->num_axes && i < MAX_AXES; i++) {
    coords[i] = call->coords[i];
    if (mesh->axes[i].name == axis) at = i;
  }
  ptc_call_t there = *call;
  there.coords = coords;
  for (int64_t turn = 0; turn < x->counts[0]; turn++) {
    coords[at] = turn;
    const double *from = call->in[0]->data + turn * call->in[0]->num_elements;
    ptc_nest_t nest;
    ptc_nest_init(&nest, &there);
    ptc_nest_add_dims(&nest, x);
    ptc_nest_add_tensor_but(&nest, y, dim);
    ptc_nest_add_tensor(&nest, x, NULL);
    int32_t loop = ptc_nest_find(&nest, dim);
    for (bool more = ptc_nest_begin(&nest); more; more = ptc_nest_next(&nest)) {
      int64_t global = ptc_call_global_index(&there, part, nest.index[loop]);
      int64_t local = ptc_call_local_index(&there, whole, global);
      if (local >= 0) call->out[0]->data[nest.offset[0] + local * step] = from[nest.offset[1]];
    }
  }
  return PTC_OK;
}
