// When the buffers of a plan are alive, over the unrolled launches and copies of one task.
#ifndef PTC_FRONTEND_DRIVER_PLAN_LIFE_H_
#define PTC_FRONTEND_DRIVER_PLAN_LIFE_H_

#include "ir/plan.h"

// One content of an instance of a buffer in one task: moments [first, last]. Several at one address, one made
// in place of the other, follow each other. Bytes are padded to PTC_PLAN_ALIGN.
typedef struct ptc_life_s {
  int32_t buffer;
  int64_t instance, offset, bytes, first, last;
} ptc_life_t;

typedef struct ptc_plan_life_s {
  ptc_arena_t arena;  // owns what follows
  int64_t num_moments;
  const ptc_step_t **steps;  // per moment
  ptc_life_t *lives;         // of instances that the task uses or that outlive it; by offset
  int64_t num_lives;
  int64_t *live_bytes;  // per moment
  int64_t peak_moment;  // the first of most bytes
} ptc_plan_life_t;

// Values that outlive a step (globals) live through the whole task; a task's results until its end.
void ptc_plan_life_init(const ptc_plan_t *plan, const ptc_task_t *task, ptc_plan_life_t *out_life);
void ptc_plan_life_deinit(ptc_plan_life_t *life);
// Bytes per class that are alive at |moment|.
void ptc_plan_life_classes(const ptc_plan_t *plan, const ptc_plan_life_t *life, int64_t moment,
                           int64_t out_bytes[PTC_NUM_BUFFER_CLASSES]);

#endif  // PTC_FRONTEND_DRIVER_PLAN_LIFE_H_
