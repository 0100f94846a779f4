// The learning rate of a step, computed by IR ops from the number of the step.
#ifndef PTC_PASSES_LR_SCHEDULE_H_
#define PTC_PASSES_LR_SCHEDULE_H_

#include "ir/builder.h"

// A setting of the module as an argument of |func|; created with config |name| (default
// |otherwise|) as its value if there is none.
ptc_value_t *ptc_setting(ptc_func_t *func, const char *name, ptc_dtype_t dtype, double otherwise);
// A number of the config, whether it was written as an integer or not.
double ptc_config_number(const ptc_module_t *module, const char *name, double otherwise);

// With k = |t| - 1 (t: i64[], 1 in the first step) and p = (k - warmup) / (steps - warmup) in [0,
// 1]:
//   warm-up   all below times min(1, (k + 1) / warmup)
//   constant  lr
//   linear    min_lr + (lr - min_lr) (1 - p)
//   cosine    min_lr + (lr - min_lr) (1 + cos(pi p)) / 2
//   wsd       min_lr + (lr - min_lr) (1 - sqrt(q)), q = (k - steps + decay_steps) / decay_steps in
//             [0, 1] (warm-up, stable, decay: Haegele et al. 2024, arXiv:2405.18392, section 3)
// lr, min_lr, warmup, steps and decay_steps are settings. Result: f32[], computed in f64.
// An unknown schedule is an error (id "lr-schedule").
ptc_status_t ptc_build_lr(ptc_builder_t *b, ptc_func_t *func, ptc_value_t *t, ptc_value_t **out_lr);

#endif  // PTC_PASSES_LR_SCHEDULE_H_
