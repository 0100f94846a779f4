// metrics.jsonl of a run: one JSON object per line, the first member is "step".
#ifndef PTC_FRONTEND_DRIVER_RUN_METRICS_H_
#define PTC_FRONTEND_DRIVER_RUN_METRICS_H_

#include <stdio.h>

#include "ir/base/diag.h"
#include "ir/base/str.h"

typedef struct ptc_run_metrics_s {
  FILE *file;
  ptc_str_t path, line;
} ptc_run_metrics_t;

// Opens RUN_DIR/metrics.jsonl for appending. Lines of steps after |step|, of a run that was killed after its
// last checkpoint, and a line that was not finished are cut off; step 0 begins anew.
// PTC_IO with "write-metrics".
ptc_status_t ptc_run_metrics_open(ptc_diag_t *diag, const char *run_dir, int64_t step,
                                  ptc_run_metrics_t *out_metrics);
void ptc_run_metrics_close(ptc_run_metrics_t *metrics);  // zeroed is allowed

// One line: begin, members, end. Numbers that JSON has not (inf, nan) become null.
void ptc_run_metrics_begin(ptc_run_metrics_t *metrics, int64_t step);
void ptc_run_metrics_add(ptc_run_metrics_t *metrics, const char *name, double value);
// "ROLE.NAME"
void ptc_run_metrics_add_named(ptc_run_metrics_t *metrics, const char *role, const char *name,
                               double value);
ptc_status_t ptc_run_metrics_end(ptc_diag_t *diag, ptc_run_metrics_t *metrics);

#endif  // PTC_FRONTEND_DRIVER_RUN_METRICS_H_
