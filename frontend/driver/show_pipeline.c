#include "frontend/driver/show_pipeline.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "passes/split_stages.h"

// The kind and chunk of a part by its task's name; false: it is none of "train".
static bool read_name(const char *name, ptc_work_kind_t *out_kind, int32_t *out_chunk) {
  const char *dot = strchr(name, '.');
  if (!dot || strncmp(name, "train.", 6) != 0) return false;
  const char *chunk = strchr(dot + 1, '.');
  *out_chunk = chunk ? (int32_t)strtol(chunk + 1, NULL, 10) : 0;
  for (int32_t kind = 0; kind < PTC_NUM_WORK_KINDS; kind++) {
    char expected[40];
    ptc_stage_func_name(true, (ptc_work_kind_t)kind, *out_chunk, expected);
    *out_kind = (ptc_work_kind_t)kind;
    if (strcmp(expected, name) == 0) return true;
  }
  return false;
}

static void read_stage(ptc_schedule_t *schedule, const ptc_plan_t *plan, ptc_arena_t *arena) {
  const ptc_task_t *train = ptc_plan_find_task(plan, "train");
  ptc_stage_order_t *order = &schedule->stages[plan->stage];
  order->work = PTC_ARENA_ARRAY(arena, ptc_schedule_work_t, (train ? train->num_steps : 0) + 1);
  for (int32_t i = 0; train && i < train->num_steps; i++) {
    if (train->steps[i].kind != PTC_STEP_CALL) continue;
    const ptc_task_t *task = &plan->tasks[train->steps[i].task];
    ptc_schedule_work_t work = {.micro = (int32_t)train->steps[i].micro};
    if (!read_name(task->name, &work.kind, &work.chunk) || work.kind > PTC_WORK_W) continue;
    schedule->split_w |= work.kind == PTC_WORK_W;
    if (work.chunk >= schedule->num_chunks) schedule->num_chunks = work.chunk + 1;
    if (task->num_micro > schedule->num_micro) schedule->num_micro = (int32_t)task->num_micro;
    order->work[order->count++] = work;
  }
}

static const char *letter_of(const ptc_schedule_t *schedule, const ptc_schedule_work_t *work) {
  return work->kind == PTC_WORK_B && schedule->split_w ? "I" : ptc_work_name(work->kind);
}

// A lane per stage, a cell per unit of time; a task that takes two has dots in the second.
static void print_lanes(const ptc_schedule_t *schedule, FILE *out) {
  fprintf(out,
          "pipeline of %" PRId32 " stages, %" PRId32
          " micro-batches; stages are idle for %.1f%% of the time\n",
          schedule->num_stages, schedule->num_micro, 100 * ptc_schedule_bubble(schedule));
  for (int32_t s = 0; s < schedule->num_stages; s++) {
    fprintf(out, "stage %-3" PRId32, s);
    int32_t at = 0;
    for (int32_t i = 0; i < schedule->stages[s].count; i++) {
      const ptc_schedule_work_t *work = &schedule->stages[s].work[i];
      for (; at < (int32_t)(work->start + 0.5); at++) fputs("  .  ", out);
      char cell[32];
      if (schedule->num_chunks > 1)
        snprintf(cell, sizeof cell, "%" PRId32 "%s%" PRId32, work->chunk * schedule->num_stages + s,
                 letter_of(schedule, work), work->micro);
      else
        snprintf(cell, sizeof cell, "%s%" PRId32, letter_of(schedule, work), work->micro);
      fprintf(out, " %-4s", cell);
      for (at++; at < (int32_t)(work->end + 0.5); at++) fputs(" ..  ", out);
    }
    fputc('\n', out);
  }
}

ptc_status_t ptc_show_pipeline(ptc_diag_t *diag, const char *folder, int32_t num_stages, bool csv,
                               FILE *out) {
  ptc_arena_t arena = {0};
  ptc_schedule_t schedule = {.num_stages = num_stages, .num_chunks = 1, .num_micro = 1};
  schedule.stages = PTC_ARENA_ARRAY(&arena, ptc_stage_order_t, num_stages);
  ptc_status_t status = PTC_OK;
  for (int32_t s = 0; s < num_stages && status == PTC_OK; s++) {
    ptc_plan_t *plan;
    status = ptc_plan_read_stage(diag, folder, s, &plan);
    if (status == PTC_OK) read_stage(&schedule, plan, &arena);
    if (status == PTC_OK) ptc_plan_destroy(plan);
  }
  const ptc_schedule_costs_t costs = {1, 1, 1, 0};
  if (status == PTC_OK && !ptc_schedule_set_times(&schedule, &costs))
    status = ptc_error(diag, (ptc_loc_t){.file = folder}, PTC_INVALID_INPUT, "plan-task",
                       "the stages wait for each other: their orders do not fit together");
  if (status == PTC_OK && csv) {
    ptc_str_t text = {0};
    ptc_schedule_print_csv(&schedule, 1, &text);
    fputs(text.data ? text.data : "", out);
    ptc_str_deinit(&text);
  } else if (status == PTC_OK) {
    print_lanes(&schedule, out);
  }
  ptc_arena_deinit(&arena);
  return status;
}
