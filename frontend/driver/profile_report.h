// What the kernels of a run have cost, as a table and as JSON.
#ifndef PTC_FRONTEND_DRIVER_PROFILE_REPORT_H_
#define PTC_FRONTEND_DRIVER_PROFILE_REPORT_H_

#include <stdio.h>

#include "runtime/executor.h"

// |wall_s|: seconds that the measured steps took in all, |num_steps| of them.
void ptc_profile_print(const ptc_plan_t *plan, const ptc_executor_t *executor, int64_t num_steps,
                       double wall_s, FILE *out);
// The same to a file. PTC_IO with "write-profile" if it cannot be written.
ptc_status_t ptc_profile_write(ptc_diag_t *diag, const ptc_plan_t *plan,
                               const ptc_executor_t *executor, int64_t num_steps, double wall_s,
                               const char *path);

#endif  // PTC_FRONTEND_DRIVER_PROFILE_REPORT_H_
