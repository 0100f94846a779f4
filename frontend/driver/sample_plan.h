// The plan that `ptc sample` runs: the forward pass of one sample on one rank, in a folder of the plan it belongs to.
#ifndef PTC_FRONTEND_DRIVER_SAMPLE_PLAN_H_
#define PTC_FRONTEND_DRIVER_SAMPLE_PLAN_H_

#include "frontend/lower.h"

#define PTC_SAMPLE_PLAN "sample"

// Compiles |files| again for a batch of 1 with nothing but the output "logits", and writes that as |plan|/sample. A
// model without such an output, or one that cannot have a batch of 1, gets none: then the plan itself samples.
void ptc_sample_plan_write(const char *const *files, int32_t num_files,
                           const ptc_lower_options_t *options, const char *target,
                           const char *plan);

// The folder |plan|/sample if there is one, else a copy of |plan|. malloc'ed.
char *ptc_sample_plan_find(const char *plan);

#endif  // PTC_FRONTEND_DRIVER_SAMPLE_PLAN_H_
