// The order of a stage's tasks, one after another: what schedule.c writes down as lists, and the planner walks.
#ifndef PTC_PASSES_SCHEDULE_ORDER_H_
#define PTC_PASSES_SCHEDULE_ORDER_H_

#include "passes/schedule.h"

// The k-th F of a stage: groups of S micro-batches go through all chunks (the k-th B: the same, chunks reversed).
typedef struct ptc_round_s {
  int32_t chunk;
  int32_t first, at;  // micro-batch |first| + |at|
} ptc_round_t;

typedef struct ptc_stage_walk_s {
  ptc_schedule_kind_t kind;
  bool forward;  // F alone
  int32_t num_stages, num_chunks, num_micro;
  int32_t lag;             // W of a micro-batch comes so many turns after its B
  int64_t warm;            // F before the first turn of F and B
  int64_t total, f, b, w;  // of each kind, and how many are done
  ptc_round_t next_f, next_b;
} ptc_stage_walk_t;

typedef struct ptc_task_s {
  ptc_work_kind_t kind;  // F, B or W
  int32_t chunk, micro;
} ptc_task_t;

// |more|: F before the first B beyond what the schedule is known for; interleaved waits forever without where groups of
// micro-batches are not full.
static inline ptc_stage_walk_t ptc_stage_walk(ptc_schedule_kind_t kind, bool forward,
                                              int32_t num_stages, int32_t num_chunks,
                                              int32_t num_micro, int32_t stage, int32_t more) {
  ptc_stage_walk_t walk = {.kind = kind,
                           .forward = forward,
                           .num_stages = num_stages,
                           .num_chunks = num_chunks,
                           .num_micro = num_micro,
                           .lag = stage,
                           .total = (int64_t)num_micro * num_chunks};
  const int64_t left = num_stages - stage - 1;
  switch (kind) {
    case PTC_SCHEDULE_GPIPE: walk.warm = walk.total; break;
    case PTC_SCHEDULE_INTERLEAVED:
      walk.warm = 2 * left + (int64_t)(num_chunks - 1) * num_stages + more;
      break;
    default: walk.warm = left;
  }
  if (walk.warm > walk.total) walk.warm = walk.total;
  return walk;
}

static inline void ptc_round_step(const ptc_stage_walk_t *walk, ptc_round_t *round) {
  const int32_t left = walk->num_micro - round->first;
  if (++round->at < (left < walk->num_stages ? left : walk->num_stages)) return;
  round->at = 0;
  if (++round->chunk < walk->num_chunks) return;
  round->chunk = 0;
  round->first += walk->num_stages;
}

// |warm| times F, then F and B in turns, then the rest of B; of zero_bubble W of a micro-batch |lag| turns after its B:
// the last stages fill the end with them. False: that was all.
static inline bool ptc_stage_walk_next(ptc_stage_walk_t *walk, ptc_task_t *out) {
  if (walk->kind == PTC_SCHEDULE_ZB_H1 && !walk->forward && walk->w < walk->total &&
      (walk->w + walk->lag < walk->b || walk->b == walk->total)) {
    *out = (ptc_task_t){PTC_WORK_W, 0, (int32_t)walk->w++};
    return true;
  }
  if (walk->f < walk->total && (walk->forward || walk->f <= walk->b + walk->warm)) {
    *out = (ptc_task_t){PTC_WORK_F, walk->next_f.chunk, walk->next_f.first + walk->next_f.at};
    walk->f++;
    ptc_round_step(walk, &walk->next_f);
    return true;
  }
  if (walk->forward || walk->b == walk->total) return false;
  *out = (ptc_task_t){PTC_WORK_B, walk->num_chunks - 1 - walk->next_b.chunk,
                      walk->next_b.first + walk->next_b.at};
  walk->b++;
  ptc_round_step(walk, &walk->next_b);
  return true;
}

#endif  // PTC_PASSES_SCHEDULE_ORDER_H_
