// Whole tensors and the parts that devices hold of them.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/interp_impl.h"

// The elements of an instance on a device, row-major in local extents; each has its offset in the whole, -1 for
// padding.
typedef struct walk_s {
  int32_t num_dims;
  int64_t local[PTC_MAX_DIMS], index[PTC_MAX_DIMS];
  int64_t *offset[PTC_MAX_DIMS];  // per dim and local index: distance in the whole, or -1
} walk_t;

static void walk_init(walk_t *walk, ptc_interp_t *interp, const ptc_type_t *type, int32_t device) {
  const ptc_mesh_t *mesh = &ptc_interp_module(interp)->mesh;
  const int64_t *coords = ptc_interp_coords(interp, device);
  int64_t stride = 1;
  walk->num_dims = type->num_dims;
  for (int32_t d = type->num_dims - 1; d >= 0; d--) {
    const ptc_dim_t *dim = &type->dims[d];
    int64_t shard = dim->num_axes ? ptc_dim_shard_index(mesh, dim, coords) : 0;
    walk->local[d] = dim->num_axes ? ptc_dim_local_extent(mesh, dim) : dim->extent;
    walk->index[d] = 0;
    walk->offset[d] = ptc_xmalloc((size_t)(walk->local[d] + 1) * sizeof(int64_t));
    for (int64_t i = 0; i < walk->local[d]; i++) {
      int64_t at = dim->num_axes ? ptc_dim_global_index(mesh, dim, shard, i) : i;
      walk->offset[d][i] = at < dim->extent ? at * stride : -1;
    }
    stride *= dim->extent;
  }
}

static void walk_free(walk_t *walk) {
  for (int32_t d = 0; d < walk->num_dims; d++) free(walk->offset[d]);
}

// The offset of the current element; goes to the next one, and after the last to the first.
static int64_t walk_next(walk_t *walk) {
  int64_t offset = 0;
  for (int32_t d = 0; d < walk->num_dims && offset >= 0; d++) {
    int64_t part = walk->offset[d][walk->index[d]];
    offset = part < 0 ? -1 : offset + part;
  }
  for (int32_t d = walk->num_dims - 1; d >= 0; d--) {
    if (++walk->index[d] < walk->local[d]) break;
    walk->index[d] = 0;
  }
  return offset;
}

static double padding(const ptc_type_t *type) { return ptc_dtype_is_float(type->dtype) ? NAN : 0; }

void ptc_interp_mark_padding(ptc_interp_t *interp, const ptc_type_t *type, int32_t device,
                             ptc_tensor_t *tensor) {
  const ptc_mesh_t *mesh = &ptc_interp_module(interp)->mesh;
  bool padded = false;
  for (int32_t d = 0; d < type->num_dims; d++) {
    const ptc_dim_t *dim = &type->dims[d];
    if (!dim->num_axes) continue;
    padded |= ptc_dim_local_extent(mesh, dim) * ptc_dim_num_shards(mesh, dim) != dim->extent;
  }
  if (!padded) return;
  walk_t walk;
  walk_init(&walk, interp, type, device);
  for (int64_t i = 0; i < tensor->num_instances * tensor->num_elements; i++)
    if (walk_next(&walk) < 0) tensor->data[i] = padding(type);
  walk_free(&walk);
}

void ptc_interp_set(ptc_interp_t *interp, const ptc_global_t *global, const double *whole) {
  const int64_t size = ptc_type_num_elements(global->type);
  for (int32_t device = 0; device < ptc_interp_num_devices(interp); device++) {
    ptc_tensor_t *tensor = ptc_interp_global_on(interp, global, device);
    walk_t walk;
    walk_init(&walk, interp, global->type, device);
    for (int64_t r = 0; r < ptc_type_num_instances(global->type); r++) {
      for (int64_t i = 0; i < tensor->num_elements; i++) {
        int64_t at = walk_next(&walk);
        tensor->data[r * tensor->num_elements + i] =
            at < 0 ? padding(global->type) : whole[r * size + at];
      }
    }
    walk_free(&walk);
  }
}

// Element |at| of |whole| is what |owner|[at] - 1 has, 0 if nobody yet.
static ptc_status_t take_part(ptc_interp_t *interp, const ptc_type_t *type, const char *name,
                              int32_t device, const ptc_tensor_t *tensor, double *whole,
                              int32_t *owner) {
  const int64_t size = ptc_type_num_elements(type), instances = ptc_type_num_instances(type);
  ptc_module_t *module = ptc_interp_module(interp);
  ptc_status_t status = PTC_OK;
  walk_t walk;
  walk_init(&walk, interp, type, device);
  for (int64_t i = 0; i < instances * tensor->num_elements && status == PTC_OK; i++) {
    int64_t offset = walk_next(&walk), at = i / tensor->num_elements * size + offset;
    if (offset < 0) continue;
    if (owner[at] && memcmp(&whole[at], &tensor->data[i], sizeof(double)) != 0)
      status = ptc_error(module->diag, (ptc_loc_t){0}, PTC_INTERNAL, "interp-replicas",
                         "\"%s\" differs between devices %" PRId32 " and %" PRId32
                         " at element %" PRId64 ": %.17g and %.17g",
                         name, owner[at] - 1, device, at, whole[at], tensor->data[i]);
    if (!owner[at]) owner[at] = device + 1;
    whole[at] = tensor->data[i];
  }
  walk_free(&walk);
  return status;
}

static int32_t *new_owners(const ptc_type_t *type) {
  size_t count = (size_t)(ptc_type_num_elements(type) * ptc_type_num_instances(type)) + 1;
  int32_t *owner = calloc(count, sizeof(*owner));
  if (!owner) ptc_oom(count * sizeof(*owner));
  return owner;
}

ptc_status_t ptc_interp_get(ptc_interp_t *interp, const ptc_global_t *global, double *out_whole) {
  int32_t *owner = new_owners(global->type);
  ptc_status_t status = PTC_OK;
  for (int32_t d = 0; d < ptc_interp_num_devices(interp) && status == PTC_OK; d++)
    status = take_part(interp, global->type, global->path, d,
                       ptc_interp_global_on(interp, global, d), out_whole, owner);
  free(owner);
  return status;
}

ptc_status_t ptc_interp_get_result(ptc_interp_t *interp, int32_t index, double *out_whole) {
  const ptc_func_t *func = ptc_interp_last_func(interp);
  const ptc_result_t *result = &func->results[index];
  const ptc_type_t *type = ptc_func_return(func)->operands[index]->type;
  const char *name = result->kind == PTC_RESULT_VALUE ? result->name : result->global->path;
  int32_t *owner = new_owners(type);
  ptc_status_t status = PTC_OK;
  for (int32_t d = 0; d < ptc_interp_num_devices(interp) && status == PTC_OK; d++)
    status =
        take_part(interp, type, name, d, ptc_interp_result_on(interp, index, d), out_whole, owner);
  free(owner);
  return status;
}

// --- in tensors of the interpreter

// The copy that belongs to |key|, for a value of |type|.
static ptc_tensor_t *make_copy(ptc_interp_t *interp, const void *key, const ptc_type_t *type) {
  ptc_tensor_t *copy = ptc_interp_copy_of(interp, key);
  free(copy->data);
  *copy = (ptc_tensor_t){.type = type,
                         .num_elements = ptc_type_num_elements(type),
                         .num_instances = ptc_type_num_instances(type)};
  copy->data = ptc_xmalloc((size_t)(copy->num_elements * copy->num_instances + 1) * sizeof(double));
  return copy;
}

ptc_status_t ptc_interp_whole(ptc_interp_t *interp, const ptc_global_t *global,
                              ptc_tensor_t **out_tensor) {
  if (ptc_interp_num_devices(interp) == 1) {
    *out_tensor = ptc_interp_global(interp, global);
    return PTC_OK;
  }
  *out_tensor = make_copy(interp, global, global->type);
  return ptc_interp_get(interp, global, (*out_tensor)->data);
}

void ptc_interp_spread(ptc_interp_t *interp, const ptc_global_t *global) {
  if (ptc_interp_num_devices(interp) == 1) return;
  ptc_interp_set(interp, global, ptc_interp_copy_of(interp, global)->data);
}

ptc_status_t ptc_interp_whole_result(ptc_interp_t *interp, int32_t index,
                                     const ptc_tensor_t **out_tensor) {
  *out_tensor = ptc_interp_result(interp, index);
  if (ptc_interp_num_devices(interp) == 1) return PTC_OK;
  const ptc_op_t *ret = ptc_func_return(ptc_interp_last_func(interp));
  // Results are the keys 1, 2, ..., which are no addresses.
  ptc_tensor_t *copy =
      make_copy(interp, (const void *)(intptr_t)(index + 1), ret->operands[index]->type);
  *out_tensor = copy;
  return ptc_interp_get_result(interp, index, copy->data);
}
