// What libptc_gpusim_cuda.so exports besides the CUDA driver's entry points: options and counters. A program
// finds them with dlsym in the library that it has loaded as its driver.
#ifndef PTC_RUNTIME_GPUSIM_GPUSIM_H_
#define PTC_RUNTIME_GPUSIM_GPUSIM_H_

#include "runtime/gpusim/launch.h"

// Before memory is allocated: whether kernels are checked and counted. Without a call the environment says
// so: PTC_GPUSIM_CHECKS=1, PTC_GPUSIM_COUNTERS=1.
typedef void (*ptc_gpusim_configure_fn_t)(bool checks, bool counters);
// The counters of the |index|-th kernel, by the order of first launch; false if there are no more. |*out_name|
// lives as long as the library.
typedef bool (*ptc_gpusim_counters_fn_t)(int32_t index, const char **out_name,
                                         sim_counters_t *out_counters);
#define PTC_GPUSIM_CONFIGURE "ptc_gpusim_configure"
#define PTC_GPUSIM_COUNTERS "ptc_gpusim_counters"

__attribute__((visibility("default"))) void ptc_gpusim_configure(bool checks, bool counters);
__attribute__((visibility("default"))) bool ptc_gpusim_counters(int32_t index,
                                                                const char **out_name,
                                                                sim_counters_t *out_counters);

#endif  // PTC_RUNTIME_GPUSIM_GPUSIM_H_
