// The time of a pipeline in closed form (planners.md C8: Huang 2019, Narayanan 2021, Qi et al. 2023).
#include "passes/planner/predict.h"

double ptc_pipeline_seconds(ptc_schedule_kind_t kind, int64_t stages, int64_t chunks,
                            int64_t micro_batches, const double *f, const double *b,
                            const double *w, double hop) {
  double slowest = 0, fill = 0, slowest_fill = 0;
  for (int64_t s = 0; s < stages; s++) {
    const double work = f[s] + b[s] + w[s];
    const double own = kind == PTC_SCHEDULE_ZB_H1 ? f[s] + b[s] - w[s] : work;
    fill += own > 0 ? own : 0;
    if (work > slowest) {
      slowest = work;
      slowest_fill = own > 0 ? own : 0;
    }
  }
  double bubble = fill - slowest_fill;
  double hops = 2 * hop * (double)(stages - 1);
  if (kind == PTC_SCHEDULE_INTERLEAVED) bubble /= (double)chunks;
  return (double)micro_batches * slowest + bubble + hops;
}
