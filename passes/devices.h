// The mesh as a program of many ranks sees it: all axes but `micro`, which is time, number devices, outermost first.
#ifndef PTC_PASSES_DEVICES_H_
#define PTC_PASSES_DEVICES_H_

#include "ir/module.h"

// How many axes of |mesh| number devices. In affine references and kernels their coordinates are the outermost
// levels; the turns of repeats follow.
int32_t ptc_devices_num_axes(const ptc_mesh_t *mesh);
// The level of the coordinate on |axis| (interned); -1: it is no axis of devices.
int32_t ptc_devices_level(const ptc_mesh_t *mesh, const char *axis);
// The same in |func|: of a function that runs for each micro-batch, the micro-batch is the first level after the axes
// of devices, its slot the next one.
int32_t ptc_func_axis_level(const ptc_func_t *func, const char *axis);
// The level of the outermost repeat in |func|.
int32_t ptc_func_first_level(const ptc_func_t *func);

#endif  // PTC_PASSES_DEVICES_H_
