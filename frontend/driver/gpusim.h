// The simulator of GPUs as the device of a run.
#ifndef PTC_FRONTEND_DRIVER_GPUSIM_H_
#define PTC_FRONTEND_DRIVER_GPUSIM_H_

#include <stdio.h>

#include "ir/plan.h"

// What its kernels are compiled for, whatever the plan's target is.
#define PTC_GPUSIM_TARGET "compute_80"

// Makes the CUDA runtime of this process load the simulator instead of the driver and NCCL, with a GPU for each rank of
// |plan|: before the first device is opened. Diagnostics: "gpusim-target" (the plan is for CPUs), "gpusim-missing" (its library is not installed;
// names where it was looked for: $PTC_GPUSIM, beside the program, ../lib).
ptc_status_t ptc_gpusim_prepare(ptc_diag_t *diag, const ptc_plan_t *plan, bool checks,
                                bool counters);
// What the kernels have done, as a table; nothing without counters.
void ptc_gpusim_print(FILE *out);

#endif  // PTC_FRONTEND_DRIVER_GPUSIM_H_
