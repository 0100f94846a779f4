// When the stages of a pipeline are done, task by task in the order of the schedule's lists (passes/schedule_order.h).
#ifndef PTC_PASSES_PLANNER_PIPELINE_TIME_H_
#define PTC_PASSES_PLANNER_PIPELINE_TIME_H_

#include "passes/schedule.h"

// Seconds for which a part keeps its stage busy for a micro-batch: sends included that the stage waits for.
typedef struct ptc_part_time_s {
  double f, b, w;  // where W is not apart, B takes b + w
} ptc_part_time_t;

typedef struct ptc_pipeline_s {
  ptc_schedule_kind_t kind;
  int32_t num_stages, num_chunks, num_micro;
  const ptc_part_time_t *parts;  // part p is chunk p / S of stage p mod S
  double latency;                // from the end of F or B to where its result is at hand
  const double *begin;           // of each stage: when it can begin
} ptc_pipeline_t;

// |ends|: when each stage has done its last task. Once all times grow evenly from one turn of the schedule to the next,
// whole turns are left out, so that the cost does not grow with the micro-batches.
void ptc_pipeline_simulate(const ptc_pipeline_t *pipeline, double *ends);

// No more than that, in a few operations for each part; the same where all parts are equal, there is no latency
// and W fits into what it fills.
void ptc_pipeline_least(const ptc_pipeline_t *pipeline, double *ends);

#endif  // PTC_PASSES_PLANNER_PIPELINE_TIME_H_
