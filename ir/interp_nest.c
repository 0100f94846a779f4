// Loops over named dims: the part of the interpreter that every op uses.
#include <stdlib.h>
#include <string.h>

#include "ir/interp_impl.h"

// --- one dim on this device

int64_t ptc_call_local_extent(const ptc_call_t *call, const ptc_dim_t *dim) {
  return dim->num_axes ? ptc_dim_local_extent(&call->module->mesh, dim) : dim->extent;
}

int64_t ptc_call_shard(const ptc_call_t *call, const ptc_dim_t *dim) {
  return dim->num_axes ? ptc_dim_shard_index(&call->module->mesh, dim, call->coords) : 0;
}

int64_t ptc_call_global_index(const ptc_call_t *call, const ptc_dim_t *dim, int64_t local) {
  if (!dim->num_axes) return local;
  return ptc_dim_global_index(&call->module->mesh, dim, ptc_call_shard(call, dim), local);
}

// Also of a zigzag dim the valid indices come first: if the earlier chunk of a shard is not full,
// its later chunk lies wholly beyond the extent.
int64_t ptc_call_valid_extent(const ptc_call_t *call, const ptc_dim_t *dim) {
  if (!dim->num_axes) return dim->extent;
  int64_t local = ptc_call_local_extent(call, dim), valid = 0;
  if (dim->dist == PTC_DIST_BLOCK) {
    int64_t left = dim->extent - ptc_call_shard(call, dim) * local;
    return left < 0 ? 0 : left < local ? left : local;
  }
  while (valid < local && ptc_call_global_index(call, dim, valid) < dim->extent) valid++;
  return valid;
}

int64_t ptc_call_local_index(const ptc_call_t *call, const ptc_dim_t *dim, int64_t global) {
  if (!dim->num_axes) return global;
  int64_t valid = ptc_call_valid_extent(call, dim);
  if (dim->dist == PTC_DIST_BLOCK) {
    int64_t at = global - ptc_call_shard(call, dim) * ptc_call_local_extent(call, dim);
    return at >= 0 && at < valid ? at : -1;
  }
  for (int64_t i = 0; i < valid; i++)
    if (ptc_call_global_index(call, dim, i) == global) return i;
  return -1;
}

int64_t ptc_call_stride(const ptc_call_t *call, const ptc_type_t *type, const char *name) {
  int64_t stride = 1;
  for (int32_t i = type->num_dims - 1; i >= 0; i--) {
    if (type->dims[i].name == name) return stride;
    stride *= ptc_call_local_extent(call, &type->dims[i]);
  }
  return 0;
}

// --- nests

void ptc_nest_init(ptc_nest_t *nest, const ptc_call_t *call) {
  nest->call = call;
  nest->num_dims = nest->num_tensors = 0;
}

int32_t ptc_nest_find(const ptc_nest_t *nest, const char *name) {
  for (int32_t i = 0; i < nest->num_dims; i++)
    if (nest->dims[i].name == name) return i;
  return -1;
}

void ptc_nest_add_dim(ptc_nest_t *nest, const ptc_dim_t *dim) {
  if (nest->num_dims == PTC_NEST_DIMS || ptc_nest_find(nest, dim->name) >= 0) return;
  nest->dims[nest->num_dims] = *dim;
  nest->extent[nest->num_dims++] = ptc_call_valid_extent(nest->call, dim);
}

void ptc_nest_add_dims(ptc_nest_t *nest, const ptc_type_t *type) {
  for (int32_t i = 0; i < type->num_dims; i++) ptc_nest_add_dim(nest, &type->dims[i]);
}

void ptc_nest_drop_name(ptc_nest_t *nest, const char *name) {
  int32_t at = ptc_nest_find(nest, name);
  if (at < 0) return;
  nest->num_dims--;
  for (int32_t i = at; i < nest->num_dims; i++) {
    nest->dims[i] = nest->dims[i + 1];
    nest->extent[i] = nest->extent[i + 1];
  }
}

void ptc_nest_drop(ptc_nest_t *nest, const ptc_attr_t *names) {
  for (int32_t i = 0; names && i < names->count; i++) ptc_nest_drop_name(nest, names->u.dims[i]);
}

static bool lists_dim(const ptc_attr_t *names, const char *name) {
  for (int32_t i = 0; names && i < names->count; i++)
    if (names->u.dims[i] == name) return true;
  return false;
}

int32_t ptc_nest_add_tensor(ptc_nest_t *nest, const ptc_type_t *type, const ptc_attr_t *skip) {
  int32_t number = nest->num_tensors++;
  for (int32_t i = 0; i < nest->num_dims; i++) {
    const char *name = nest->dims[i].name;
    nest->stride[number][i] = lists_dim(skip, name) ? 0 : ptc_call_stride(nest->call, type, name);
  }
  return number;
}

ptc_attr_t ptc_dims_of_dim(const char *const *dim) {
  return (ptc_attr_t){.kind = PTC_ATTR_DIMS, .count = 1, .u.dims = dim};
}

int32_t ptc_nest_add_tensor_but(ptc_nest_t *nest, const ptc_type_t *type, const char *skip) {
  ptc_attr_t names = ptc_dims_of_dim(&skip);
  return ptc_nest_add_tensor(nest, type, &names);
}

static bool even(const ptc_nest_t *nest, int32_t outer, int32_t inner) {
  for (int32_t t = 0; t < nest->num_tensors; t++)
    if (nest->stride[t][outer] != nest->stride[t][inner] * nest->extent[inner]) return false;
  return true;
}

void ptc_nest_collapse(ptc_nest_t *nest) {
  int32_t kept = 0;
  for (int32_t i = 0; i < nest->num_dims; i++) {
    if (nest->extent[i] == 1) continue;
    bool joined = kept > 0 && even(nest, kept - 1, i);
    int32_t at = joined ? kept - 1 : kept++;
    nest->extent[at] = joined ? nest->extent[at] * nest->extent[i] : nest->extent[i];
    for (int32_t t = 0; t < nest->num_tensors; t++) nest->stride[t][at] = nest->stride[t][i];
  }
  nest->num_dims = kept;
}

bool ptc_nest_begin(ptc_nest_t *nest) {
  for (int32_t t = 0; t < nest->num_tensors; t++) nest->offset[t] = 0;
  for (int32_t i = 0; i < nest->num_dims; i++) {
    if (nest->extent[i] == 0) return false;
    nest->index[i] = 0;
  }
  return true;
}

bool ptc_nest_next(ptc_nest_t *nest) {
  for (int32_t i = nest->num_dims - 1; i >= 0; i--) {
    bool carry = ++nest->index[i] == nest->extent[i];
    int64_t steps = carry ? 1 - nest->extent[i] : 1;
    for (int32_t t = 0; t < nest->num_tensors; t++) nest->offset[t] += steps * nest->stride[t][i];
    if (!carry) return true;
    nest->index[i] = 0;
  }
  return false;
}

// --- rows

int64_t *ptc_row_offsets(const ptc_call_t *call, const ptc_type_t *dims_of, const ptc_attr_t *over,
                         const ptc_type_t *type, int64_t *out_count) {
  ptc_nest_t nest;
  ptc_nest_init(&nest, call);
  for (int32_t i = 0; i < over->count; i++) {
    int32_t at = ptc_type_find_dim(dims_of, over->u.dims[i]);
    if (at >= 0) ptc_nest_add_dim(&nest, &dims_of->dims[at]);
  }
  ptc_nest_add_tensor(&nest, type, NULL);
  int64_t count = 1;
  for (int32_t i = 0; i < nest.num_dims; i++) count *= nest.extent[i];
  int64_t *offsets = ptc_xmalloc((size_t)(count ? count : 1) * sizeof(*offsets));
  int64_t at = 0;
  for (bool more = ptc_nest_begin(&nest); more; more = ptc_nest_next(&nest))
    offsets[at++] = nest.offset[0];
  *out_count = count;
  return offsets;
}

// --- numbering

ptc_numbering_t ptc_numbering_init(const ptc_nest_t *nest, const ptc_dim_t *dims,
                                   int32_t num_dims) {
  ptc_numbering_t numbering = {0};
  uint64_t stride = 1;
  for (int32_t i = num_dims - 1; i >= 0; i--) {
    int32_t loop = ptc_nest_find(nest, dims[i].name);
    if (loop >= 0) {
      int32_t at = numbering.count++;
      numbering.loop[at] = loop;
      numbering.shard[at] = ptc_call_shard(nest->call, &nest->dims[loop]);
      numbering.stride[at] = stride;
    }
    stride *= (uint64_t)dims[i].extent;
  }
  return numbering;
}

uint64_t ptc_numbering_get(const ptc_numbering_t *numbering, const ptc_nest_t *nest) {
  uint64_t number = 0;
  for (int32_t i = 0; i < numbering->count; i++) {
    const ptc_dim_t *dim = &nest->dims[numbering->loop[i]];
    int64_t index = nest->index[numbering->loop[i]];
    if (dim->num_axes)
      index = ptc_dim_global_index(&nest->call->module->mesh, dim, numbering->shard[i], index);
    number += (uint64_t)index * numbering->stride[i];
  }
  return number;
}
