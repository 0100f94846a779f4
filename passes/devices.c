#include "passes/devices.h"

#include <string.h>

static bool is_time(const ptc_mesh_axis_t *axis) { return strcmp(axis->name, "micro") == 0; }

int32_t ptc_devices_num_axes(const ptc_mesh_t *mesh) {
  int32_t count = 0;
  for (int32_t a = 0; a < mesh->num_axes; a++) count += !is_time(&mesh->axes[a]);
  return count;
}

int32_t ptc_devices_level(const ptc_mesh_t *mesh, const char *axis) {
  int32_t level = 0;
  for (int32_t a = 0; a < mesh->num_axes; a++) {
    if (is_time(&mesh->axes[a])) continue;
    if (mesh->axes[a].name == axis) return level;
    level++;
  }
  return -1;
}

int32_t ptc_func_axis_level(const ptc_func_t *func, const char *axis) {
  if (func->each_micro && strcmp(axis, "micro") == 0)
    return ptc_devices_num_axes(&func->module->mesh);
  return ptc_devices_level(&func->module->mesh, axis);
}

int32_t ptc_func_first_level(const ptc_func_t *func) {
  return ptc_devices_num_axes(&func->module->mesh) + (func->each_micro ? 2 : 0);
}
