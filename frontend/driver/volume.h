// What a task moves between ranks, by group and kind.
#ifndef PTC_FRONTEND_DRIVER_VOLUME_H_
#define PTC_FRONTEND_DRIVER_VOLUME_H_

#include "ir/plan.h"

typedef struct ptc_volume_row_s {
  const ptc_collective_t
      *first;        // of this group and kind, in order of the steps; NULL: received from a stage
  const char *axes;  // "dp tp:1:2"; "stage 1"
  const char *op;    // "all_reduce", "recv"
  int32_t peer;      // the stage
  int64_t calls;     // in a run of the task, all turns counted
  int64_t bytes;     // that the rank reads from its peers in them
} ptc_volume_row_t;

// One row per list of axes and kind, and per stage that sends; they live in |arena|. Returns how many.
int32_t ptc_volume_of(const ptc_plan_t *plan, const ptc_task_t *task, int64_t rank,
                      ptc_arena_t *arena, ptc_volume_row_t **out_rows);
// "dp tp:1:2".
const char *ptc_volume_axes(const ptc_collective_t *collective, ptc_arena_t *arena);

#endif  // PTC_FRONTEND_DRIVER_VOLUME_H_
