#include "frontend/driver/plan_life.h"

#include <stdlib.h>
#include <string.h>

#include "ir/base/vec.h"

typedef struct walk_s {
  const ptc_plan_t *plan;
  ptc_plan_life_t *life;
  int64_t *first_of;  // per buffer: number of its first instance among all
  int64_t *current;   // per instance: its latest life, -1: none
  bool *outlives;     // per instance: a global
  PTC_VEC(ptc_life_t) lives;
  int64_t turns[PTC_PLAN_MAX_LEVELS];
  int64_t moment;
} walk_t;

static int64_t count_moments(const ptc_plan_t *plan, const ptc_step_t *steps, int32_t num_steps) {
  int64_t count = 0;
  for (int32_t i = 0; i < num_steps; i++)
    count += steps[i].kind == PTC_STEP_REPEAT
                 ? steps[i].count * count_moments(plan, steps[i].body, steps[i].num_steps)
             : steps[i].kind == PTC_STEP_CALL
                 ? count_moments(plan, plan->tasks[steps[i].task].steps,
                                 plan->tasks[steps[i].task].num_steps)
                 : 1;
  return count;
}

// Extends the life of an instance to now; |anew|: it gets other content, which is another life.
static void touch(walk_t *walk, int32_t buffer, int64_t instance, bool anew) {
  const int64_t at = walk->first_of[buffer] + instance;
  if (walk->current[at] < 0 || (anew && !walk->outlives[at])) {
    const ptc_buffer_t *b = &walk->plan->buffers[buffer];
    const int64_t padded = (b->bytes + PTC_PLAN_ALIGN - 1) / PTC_PLAN_ALIGN * PTC_PLAN_ALIGN;
    const ptc_life_t life = {buffer, instance,     b->offsets[instance],
                             padded, walk->moment, walk->moment};
    walk->current[at] = walk->lives.len;
    PTC_VEC_PUSH(&walk->lives, life);
  }
  walk->lives.data[walk->current[at]].last = walk->moment;
}

static bool is_whole(const ptc_plan_t *plan, const ptc_ref_t *ref) {
  return ref->bytes == plan->buffers[ref->buffer].bytes;
}

static bool is_made(const ptc_plan_t *plan, const ptc_step_t *step, int32_t arg) {
  if (step->kind == PTC_STEP_RECV) return true;
  if (step->kind != PTC_STEP_LAUNCH) return arg % 2 == 1;
  const ptc_plan_kernel_t *kernel = &plan->kernels[step->kernel];
  return arg >= kernel->num_params || kernel->modes[arg] == 1;
}

// What is read first, then what is made.
static void walk_step(walk_t *walk, const ptc_step_t *step) {
  for (int made = 0; made < 2; made++)
    for (int32_t a = 0; a < step->num_args; a++) {
      const ptc_ref_t *ref = &step->args[a];
      if (is_made(walk->plan, step, a) != (made == 1)) continue;
      touch(walk, ref->buffer, ptc_affine_at(&ref->instance, walk->turns),
            made == 1 && is_whole(walk->plan, ref));
    }
  walk->life->steps[walk->moment++] = step;
}

// |repeat|: whose trip |trip| they are, or NULL.
static void walk_steps(walk_t *walk, const ptc_step_t *steps, int32_t num_steps, int32_t level,
                       const ptc_step_t *repeat, int64_t trip) {
  for (int32_t i = 0; i < num_steps; i++) {
    const ptc_step_t *step = &steps[i];
    if (!ptc_repeat_turn(repeat, step, trip, &walk->turns[repeat ? level - 1 : 0])) continue;
    if (step->kind == PTC_STEP_REPEAT) {
      int64_t next, end;
      for (ptc_repeat_trips(step, &next, &end); next < end; next++)
        walk_steps(walk, step->body, step->num_steps, level + 1, step, next);
      walk->turns[level] = 0;
      continue;
    }
    if (step->kind == PTC_STEP_CALL) {
      const ptc_task_t *task = &walk->plan->tasks[step->task];
      walk->turns[level] = step->micro;
      walk->turns[level + 1] = step->slot;
      walk_steps(walk, task->steps, task->num_steps, level + 2, NULL, 0);
      walk->turns[level] = walk->turns[level + 1] = 0;
      continue;
    }
    walk_step(walk, step);
  }
}

static int by_offset(const void *a, const void *b) {
  const ptc_life_t *x = a, *y = b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return x->first < y->first ? -1 : x->first > y->first;
}

// Lives at one address that meet (a copy of the other, or made in place of it) are counted once: the later one
// begins where the earlier one ends.
static void collect(walk_t *walk) {
  ptc_plan_life_t *life = walk->life;
  int64_t *change = PTC_ARENA_ARRAY(&life->arena, int64_t, life->num_moments + 2), live = 0;
  if (walk->lives.len)
    qsort(walk->lives.data, (size_t)walk->lives.len, sizeof *life->lives, by_offset);
  life->lives = PTC_ARENA_ARRAY(&life->arena, ptc_life_t, walk->lives.len);
  for (int64_t i = 0, offset = -1, covered = -1; i < walk->lives.len; i++) {
    ptc_life_t next = walk->lives.data[i];
    if (next.offset != offset) covered = -1;
    offset = next.offset;
    if (next.first <= covered) next.first = covered + 1;
    if (next.last > covered) covered = next.last;
    if (next.first > next.last || !next.bytes) continue;
    life->lives[life->num_lives++] = next;
    change[next.first] += next.bytes;
    change[next.last + 1] -= next.bytes;
  }
  for (int64_t m = 0; m < life->num_moments; m++) {
    life->live_bytes[m] = live += change[m];
    if (live > life->live_bytes[life->peak_moment]) life->peak_moment = m;
  }
}

static void begin_globals(walk_t *walk) {
  for (int32_t g = 0; g < walk->plan->num_globals; g++) {
    const ptc_plan_global_t *global = &walk->plan->globals[g];
    int64_t instances = 1;
    for (int32_t c = 0; c < global->num_counts; c++) instances *= global->counts[c];
    for (int64_t i = 0; i < instances; i++) {
      touch(walk, global->buffer, global->first_instance + i, true);
      walk->outlives[walk->first_of[global->buffer] + global->first_instance + i] = true;
    }
  }
}

static void end_task(walk_t *walk, const ptc_task_t *task, int64_t num_instances) {
  walk->moment = walk->life->num_moments > 0 ? walk->life->num_moments - 1 : 0;
  for (int32_t r = 0; r < task->num_results; r++)
    for (int64_t i = 0; i < task->results[r].num_instances; i++)
      touch(walk, task->results[r].buffer, task->results[r].first_instance + i, false);
  for (int64_t at = 0; at < num_instances; at++)
    if (walk->outlives[at]) walk->lives.data[walk->current[at]].last = walk->moment;
}

void ptc_plan_life_init(const ptc_plan_t *plan, const ptc_task_t *task, ptc_plan_life_t *out_life) {
  ptc_plan_life_t *life = out_life;
  *life = (ptc_plan_life_t){.num_moments = count_moments(plan, task->steps, task->num_steps)};
  ptc_arena_t *arena = &life->arena;
  walk_t walk = {.plan = plan, .life = life};
  walk.first_of = PTC_ARENA_ARRAY(arena, int64_t, plan->num_buffers + 1);
  for (int32_t b = 0; b < plan->num_buffers; b++)
    walk.first_of[b + 1] = walk.first_of[b] + plan->buffers[b].num_instances;
  const int64_t count = walk.first_of[plan->num_buffers];
  walk.current = PTC_ARENA_ARRAY(arena, int64_t, count + 1);
  walk.outlives = PTC_ARENA_ARRAY(arena, bool, count + 1);
  for (int64_t i = 0; i < count; i++) walk.current[i] = -1;
  life->steps = PTC_ARENA_ARRAY(arena, const ptc_step_t *, life->num_moments + 1);
  life->live_bytes = PTC_ARENA_ARRAY(arena, int64_t, life->num_moments + 1);
  begin_globals(&walk);
  walk_steps(&walk, task->steps, task->num_steps, plan->mesh.num_axes, NULL, 0);
  end_task(&walk, task, count);
  collect(&walk);
  PTC_VEC_FREE(&walk.lives);
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
