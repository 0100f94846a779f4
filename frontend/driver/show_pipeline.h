// The pipeline schedule of a plan with several stages, for `ptc show PLAN schedule`.
#ifndef PTC_FRONTEND_DRIVER_SHOW_PIPELINE_H_
#define PTC_FRONTEND_DRIVER_SHOW_PIPELINE_H_

#include <stdio.h>

#include "ir/plan.h"

// What the stages call in task "train", in the unit of one F, B twice as long (where W is apart: all three alike).
// |csv|: as PyTorch's schedules are written, a row per rank of the pipeline; else a lane per stage. Diagnostics: those
// of ptc_plan_read_stage; "plan-task" if the stages' orders do not fit together.
ptc_status_t ptc_show_pipeline(ptc_diag_t *diag, const char *folder, int32_t num_stages, bool csv,
                               FILE *out);

#endif  // PTC_FRONTEND_DRIVER_SHOW_PIPELINE_H_
