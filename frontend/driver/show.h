// Private to `ptc show`: its parts.
#ifndef PTC_FRONTEND_DRIVER_SHOW_H_
#define PTC_FRONTEND_DRIVER_SHOW_H_

#include <stdio.h>

#include "codegen/nvrtc.h"
#include "ir/plan.h"

typedef enum ptc_show_format_e {
  PTC_SHOW_TEXT,
  PTC_SHOW_JSON,
  PTC_SHOW_CSV,
  PTC_SHOW_SVG
} ptc_show_format_t;

// Each prints to |out|. |path| is the plan's folder, |task| one of its tasks.
void ptc_show_summary(const ptc_plan_t *plan, const char *path, ptc_show_format_t format,
                      FILE *out);
void ptc_show_memory(const ptc_plan_t *plan, const ptc_task_t *task, ptc_show_format_t format,
                     FILE *out);
// |rank|: whose bytes are told; all ranks make the same steps.
void ptc_show_schedule(const ptc_plan_t *plan, const ptc_task_t *task, int64_t rank,
                       ptc_show_format_t format, FILE *out);
// |resources|: of a plan for GPUs, per kernel what its machine code takes; NULL: not known.
void ptc_show_kernels(const ptc_plan_t *plan, const ptc_cuda_resources_t *resources,
                      ptc_show_format_t format, FILE *out);
void ptc_show_config(const ptc_plan_t *plan, ptc_show_format_t format, FILE *out);
// The losses that the run in |run_dir| has recorded. "no-metrics", and those of runtime/metrics.h.
ptc_status_t ptc_show_loss(ptc_diag_t *diag, const char *run_dir, ptc_show_format_t format,
                           FILE *out);

// Launches of each kernel in one run of |task| (NULL: none), repeats counted out; the caller frees it.
int64_t *ptc_show_launches(const ptc_plan_t *plan, const ptc_task_t *task);

#endif  // PTC_FRONTEND_DRIVER_SHOW_H_
