#include "passes/parallel.h"

#include <inttypes.h>
#include <string.h>

const char *const ptc_device_axis_names[PTC_NUM_DEVICE_AXES] = {"pp", "dp", "ep", "cp", "tp"};

bool ptc_axis_is_device(const char *name) {
  for (int i = 0; i < PTC_NUM_DEVICE_AXES; i++)
    if (strcmp(ptc_device_axis_names[i], name) == 0) return true;
  return false;
}

ptc_status_t ptc_parallel_read(ptc_module_t *module, ptc_parallel_t *out) {
  const ptc_attrs_t *config = &module->config;
  *out = (ptc_parallel_t){.world = 1};
  for (int i = 0; i < PTC_NUM_DEVICE_AXES; i++) {
    out->size[i] = ptc_attrs_int(config, ptc_device_axis_names[i], 1);
    if (out->size[i] < 1 || __builtin_mul_overflow(out->world, out->size[i], &out->world))
      return ptc_error(module->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "world-product",
                       "the mesh cannot have an axis \"%s\" of size %" PRId64,
                       ptc_device_axis_names[i], out->size[i]);
  }
  const int64_t world = ptc_attrs_int(config, "world", 0);
  if (world > 0 && world % out->world == 0 && !ptc_attrs_find(config, "dp")) {
    out->size[PTC_AXIS_DP] = world / out->world;
    out->world = world;
  }
  if (world > 0 && world != out->world)
    return ptc_error(module->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "world-product",
                     "pp=%" PRId64 ", dp=%" PRId64 ", ep=%" PRId64 ", cp=%" PRId64 ", tp=%" PRId64
                     " are %" PRId64 " ranks, but --world is %" PRId64,
                     out->size[PTC_AXIS_PP], out->size[PTC_AXIS_DP], out->size[PTC_AXIS_EP],
                     out->size[PTC_AXIS_CP], out->size[PTC_AXIS_TP], out->world, world);
  out->zero = ptc_attrs_int(config, "zero", 0);
  out->micro_batch = ptc_attrs_int(config, "micro_batch", 0);
  out->schedule = ptc_attrs_string(config, "schedule", "1f1b");
  out->chunks = strcmp(out->schedule, "interleaved") == 0 ? ptc_attrs_int(config, "chunks", 2) : 1;
  const char *way = ptc_attrs_string(config, "cp_attention", "auto");
  out->cp_attention = strcmp(way, "gather") == 0       ? PTC_CP_GATHER
                      : strcmp(way, "ring") == 0       ? PTC_CP_RING
                      : strcmp(way, "all_to_all") == 0 ? PTC_CP_ALL_TO_ALL
                                                       : PTC_CP_AUTO;
  out->balanced = strcmp(ptc_attrs_string(config, "cp_order", "contiguous"), "balanced") == 0;
  out->sequence_parallel = ptc_attrs_bool(config, "sequence_parallel", false);
  return PTC_OK;
}
