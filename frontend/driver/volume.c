#include "frontend/driver/volume.h"

#include <inttypes.h>

#include "ir/base/vec.h"

typedef struct count_s {
  const ptc_plan_t *plan;
  int64_t rank;
  ptc_arena_t *arena;
  PTC_VEC(ptc_volume_row_t) rows;
} count_t;

static bool same_group(const ptc_collective_t *a, const ptc_collective_t *b) {
  bool same = a->kind == b->kind && a->num_axes == b->num_axes;
  for (int32_t i = 0; same && i < a->num_axes; i++)
    same = ptc_axis_ref_equal(a->axes[i], b->axes[i]);
  return same;
}

const char *ptc_volume_axes(const ptc_collective_t *collective, ptc_arena_t *arena) {
  ptc_str_t text = {0};
  ptc_str_append(&text, "");
  for (int32_t i = 0; i < collective->num_axes; i++) {
    const ptc_axis_ref_t *ref = &collective->axes[i];
    ptc_str_printf(&text, "%s%s", i ? " " : "", ref->axis);
    if (ref->size) ptc_str_printf(&text, ":%" PRId64 ":%" PRId64, ref->pre, ref->size);
  }
  const char *kept = ptc_arena_strdup(arena, text.data);
  ptc_str_deinit(&text);
  return kept;
}

static void add(count_t *c, const ptc_collective_t *collective, int64_t times) {
  int64_t at = 0;
  while (at < c->rows.len &&
         !(c->rows.data[at].first && same_group(c->rows.data[at].first, collective)))
    at++;
  if (at == c->rows.len) {
    const ptc_volume_row_t row = {.first = collective,
                                  .axes = ptc_volume_axes(collective, c->arena),
                                  .op = ptc_collective_name(collective->kind)};
    PTC_VEC_PUSH(&c->rows, row);
  }
  c->rows.data[at].calls += times;
  c->rows.data[at].bytes += times * ptc_collective_bytes(&c->plan->mesh, collective, c->rank);
}

static void add_recv(count_t *c, const ptc_step_t *step, int64_t times) {
  int64_t at = 0;
  while (at < c->rows.len && (c->rows.data[at].first || c->rows.data[at].peer != step->peer)) at++;
  if (at == c->rows.len) {
    const ptc_volume_row_t row = {.axes = ptc_arena_printf(c->arena, "stage %" PRId32, step->peer),
                                  .op = "recv",
                                  .peer = step->peer};
    PTC_VEC_PUSH(&c->rows, row);
  }
  c->rows.data[at].calls += times;
  c->rows.data[at].bytes += times * step->args[0].bytes;
}

static void add_steps(count_t *c, const ptc_step_t *steps, int32_t count, int64_t times) {
  for (int32_t i = 0; i < count; i++) {
    if (steps[i].kind == PTC_STEP_REPEAT)
      add_steps(c, steps[i].body, steps[i].num_steps, times * steps[i].count);
    if (steps[i].kind == PTC_STEP_CALL)
      add_steps(c, c->plan->tasks[steps[i].task].steps, c->plan->tasks[steps[i].task].num_steps,
                times);
    if (steps[i].kind == PTC_STEP_RECV) add_recv(c, &steps[i], times);
    if (steps[i].kind == PTC_STEP_COLLECTIVE) add(c, steps[i].collective, times);
  }
}

int32_t ptc_volume_of(const ptc_plan_t *plan, const ptc_task_t *task, int64_t rank,
                      ptc_arena_t *arena, ptc_volume_row_t **out_rows) {
  count_t c = {.plan = plan, .rank = rank, .arena = arena};
  add_steps(&c, task->steps, task->num_steps, 1);
  *out_rows = PTC_ARENA_ARRAY(arena, ptc_volume_row_t, c.rows.len + 1);
  for (int64_t i = 0; i < c.rows.len; i++) (*out_rows)[i] = c.rows.data[i];
  const int32_t count = (int32_t)c.rows.len;
  PTC_VEC_FREE(&c.rows);
  return count;
}
