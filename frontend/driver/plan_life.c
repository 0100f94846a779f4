#include "frontend/driver/plan_life.h"

#include <stdlib.h>
#include <string.h>

typedef struct walk_s {
  const ptc_plan_t *plan;
  ptc_plan_life_t *life;
  int64_t *first_of;     // per buffer: number of its first instance among all
  int64_t *begin, *end;  // per instance; begin -1: not used
  int64_t turns[PTC_PLAN_MAX_LEVELS];
  int64_t moment;
} walk_t;

static int64_t count_moments(const ptc_step_t *steps, int32_t num_steps) {
  int64_t count = 0;
  for (int32_t i = 0; i < num_steps; i++)
    count += steps[i].kind == PTC_STEP_REPEAT
                 ? steps[i].count * count_moments(steps[i].body, steps[i].num_steps)
                 : 1;
  return count;
}

static void use(walk_t *walk, int32_t buffer, int64_t instance, int64_t first, int64_t last) {
  const int64_t at = walk->first_of[buffer] + instance;
  if (walk->begin[at] < 0 || first < walk->begin[at]) walk->begin[at] = first;
  if (last > walk->end[at]) walk->end[at] = last;
}

static void walk_steps(walk_t *walk, const ptc_step_t *steps, int32_t num_steps, int32_t level) {
  for (int32_t i = 0; i < num_steps; i++) {
    const ptc_step_t *step = &steps[i];
    if (step->kind == PTC_STEP_REPEAT) {
      for (int64_t t = 0; t < step->count; t++) {
        walk->turns[level] = step->reverse ? step->count - 1 - t : t;
        walk_steps(walk, step->body, step->num_steps, level + 1);
      }
      walk->turns[level] = 0;
      continue;
    }
    for (int32_t a = 0; a < step->num_args; a++)
      use(walk, step->args[a].buffer, ptc_affine_at(&step->args[a].instance, walk->turns),
          walk->moment, walk->moment);
    walk->life->steps[walk->moment++] = step;
  }
}

static int by_offset(const void *a, const void *b) {
  const ptc_life_t *x = a, *y = b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return x->first < y->first ? -1 : x->first > y->first;
}

static void collect(walk_t *walk) {
  const ptc_plan_t *plan = walk->plan;
  ptc_plan_life_t *life = walk->life;
  for (int32_t b = 0; b < plan->num_buffers; b++)
    for (int64_t i = 0; i < plan->buffers[b].num_instances; i++) {
      const int64_t at = walk->first_of[b] + i;
      if (walk->begin[at] < 0) continue;
      life->lives[life->num_lives++] = (ptc_life_t){b,
                                                    i,
                                                    plan->buffers[b].offsets[i],
                                                    plan->buffers[b].bytes,
                                                    walk->begin[at],
                                                    walk->end[at]};
      for (int64_t m = walk->begin[at]; m <= walk->end[at]; m++)
        life->live_bytes[m] += plan->buffers[b].bytes;
    }
  if (life->num_lives > 0)
    qsort(life->lives, (size_t)life->num_lives, sizeof *life->lives, by_offset);
  for (int64_t m = 0; m < life->num_moments; m++)
    if (life->live_bytes[m] > life->live_bytes[life->peak_moment]) life->peak_moment = m;
}

void ptc_plan_life_init(const ptc_plan_t *plan, const ptc_task_t *task, ptc_plan_life_t *out_life) {
  ptc_plan_life_t *life = out_life;
  *life = (ptc_plan_life_t){.num_moments = count_moments(task->steps, task->num_steps)};
  ptc_arena_t *arena = &life->arena;
  walk_t walk = {.plan = plan, .life = life};
  walk.first_of = PTC_ARENA_ARRAY(arena, int64_t, plan->num_buffers + 1);
  for (int32_t b = 0; b < plan->num_buffers; b++)
    walk.first_of[b + 1] = walk.first_of[b] + plan->buffers[b].num_instances;
  const int64_t count = walk.first_of[plan->num_buffers];
  walk.begin = PTC_ARENA_ARRAY(arena, int64_t, count + 1);
  walk.end = PTC_ARENA_ARRAY(arena, int64_t, count + 1);
  for (int64_t i = 0; i < count; i++) walk.begin[i] = walk.end[i] = -1;
  life->steps = PTC_ARENA_ARRAY(arena, const ptc_step_t *, life->num_moments + 1);
  life->lives = PTC_ARENA_ARRAY(arena, ptc_life_t, count + 1);
  life->live_bytes = PTC_ARENA_ARRAY(arena, int64_t, life->num_moments + 1);
  walk_steps(&walk, task->steps, task->num_steps, 0);
  const int64_t last = life->num_moments > 0 ? life->num_moments - 1 : 0;
  for (int32_t r = 0; r < task->num_results; r++)
    for (int64_t i = 0; i < task->results[r].num_instances; i++) {
      const int64_t at =
          walk.first_of[task->results[r].buffer] + task->results[r].first_instance + i;
      if (walk.begin[at] >= 0) walk.end[at] = last;
    }
  for (int32_t g = 0; g < plan->num_globals; g++) {
    const ptc_plan_global_t *global = &plan->globals[g];
    int64_t instances = 1;
    for (int32_t c = 0; c < global->num_counts; c++) instances *= global->counts[c];
    for (int64_t i = 0; i < instances; i++)
      use(&walk, global->buffer, global->first_instance + i, 0, last);
  }
  collect(&walk);
}

void ptc_plan_life_deinit(ptc_plan_life_t *life) {
  ptc_arena_deinit(&life->arena);
  *life = (ptc_plan_life_t){0};
}

void ptc_plan_life_classes(const ptc_plan_t *plan, const ptc_plan_life_t *life, int64_t moment,
                           int64_t out_bytes[PTC_NUM_BUFFER_CLASSES]) {
  memset(out_bytes, 0, sizeof *out_bytes * PTC_NUM_BUFFER_CLASSES);
  for (int64_t i = 0; i < life->num_lives; i++)
    if (life->lives[i].first <= moment && moment <= life->lives[i].last)
      out_bytes[plan->buffers[life->lives[i].buffer].cls] += life->lives[i].bytes;
}
