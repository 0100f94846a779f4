// A point of the planner's search space: how a model is split over devices and time.
#ifndef PTC_PASSES_PLANNER_CHOICE_H_
#define PTC_PASSES_PLANNER_CHOICE_H_

#include <stdbool.h>
#include <stdint.h>

#include "passes/parallel.h"
#include "passes/schedule.h"

enum { PTC_MAX_PIECES = 32 };

typedef enum ptc_recompute_mode_e {
  PTC_RECOMPUTE_NONE,
  PTC_RECOMPUTE_SELECTIVE,
  PTC_RECOMPUTE_FULL,
  PTC_NUM_RECOMPUTE_MODES
} ptc_recompute_mode_t;

extern const char
    *const ptc_recompute_names[PTC_NUM_RECOMPUTE_MODES];  // "none", "selective", "full"

typedef struct ptc_choice_s {
  int64_t size[PTC_NUM_DEVICE_AXES];  // >= 1
  int64_t zero;                       // 0 to 3
  int64_t micro_batch;                // samples of a micro-batch on one device, >= 1
  bool sequence_parallel;
  ptc_schedule_kind_t schedule;
  int64_t chunks;                  // of an interleaved schedule; else 1
  int32_t recompute;               // ptc_recompute_mode_t
  int64_t recompute_turns;         // of each region's turns on a stage, how many recompute; -1: all
  int64_t recompute_every;         // full: starts are kept of every so many turns; 0: of each
  uint32_t names[PTC_MAX_PIECES];  // per piece: which candidates of work->names lie on tp
  int32_t num_cuts;
  const int64_t *cuts;  // global turn at which each further part begins; NULL: balanced by time
} ptc_choice_t;

#endif  // PTC_PASSES_PLANNER_CHOICE_H_
