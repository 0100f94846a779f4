// `ptc show PLAN`: summary, config.
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/plan_life.h"
#include "frontend/driver/show.h"
#include "frontend/driver/units.h"
#include "frontend/driver/volume.h"

// Launches of each kernel in |steps|, repeats counted out.
static void count_launches(const ptc_plan_t *plan, const ptc_step_t *steps, int32_t num_steps,
                           int64_t times, int64_t *counts) {
  for (int32_t i = 0; i < num_steps; i++) {
    if (steps[i].kind == PTC_STEP_LAUNCH) counts[steps[i].kernel] += times;
    if (steps[i].kind == PTC_STEP_REPEAT)
      count_launches(plan, steps[i].body, steps[i].num_steps, times * steps[i].count, counts);
    if (steps[i].kind == PTC_STEP_CALL)
      count_launches(plan, plan->tasks[steps[i].task].steps, plan->tasks[steps[i].task].num_steps,
                     times, counts);
  }
}

int64_t *ptc_show_launches(const ptc_plan_t *plan, const ptc_task_t *task) {
  const size_t bytes = sizeof(int64_t) * (size_t)(plan->num_kernels + 1);
  int64_t *counts = ptc_xmalloc(bytes);
  memset(counts, 0, bytes);
  if (task) count_launches(plan, task->steps, task->num_steps, 1, counts);
  return counts;
}

// Elements of all globals of |kind|, whole ones.
static int64_t count_elements(const ptc_plan_t *plan, const char *kind) {
  int64_t sum = 0;
  for (int32_t g = 0; g < plan->num_globals; g++) {
    const ptc_plan_global_t *global = &plan->globals[g];
    const ptc_buffer_t *buffer = &plan->buffers[global->buffer];
    int64_t count = 1;
    for (int32_t c = 0; c < global->num_counts; c++) count *= global->counts[c];
    for (int32_t d = 0; d < buffer->num_dims; d++)
      count *= buffer->layout ? buffer->layout[d].extent : buffer->extents[d];
    if (strcmp(global->kind, kind) == 0) sum += count;
  }
  return sum;
}

// Bytes that rank 0 reads from its peers in one run of |task|.
static int64_t bytes_moved(const ptc_plan_t *plan, const ptc_task_t *task) {
  ptc_arena_t arena = {0};
  ptc_volume_row_t *rows;
  const int32_t count = ptc_volume_of(plan, task, 0, &arena, &rows);
  int64_t bytes = 0;
  for (int32_t i = 0; i < count; i++) bytes += rows[i].bytes;
  ptc_arena_deinit(&arena);
  return bytes;
}

static void print_task(const ptc_plan_t *plan, const ptc_task_t *task, FILE *out) {
  int64_t *counts = ptc_show_launches(plan, task), launches = 0;
  double flops = 0;
  for (int32_t k = 0; k < plan->num_kernels; k++) {
    launches += counts[k];
    flops += (double)counts[k] * plan->kernels[k].flops;
  }
  ptc_plan_life_t life;
  ptc_plan_life_init(plan, task, &life);
  char flop_text[PTC_UNIT_CHARS], live[PTC_UNIT_CHARS];
  fprintf(out, "  %-8s %6" PRId64 " launches  %8sFLOP  %10s live at most", task->name, launches,
          ptc_unit_count(flops, flop_text),
          ptc_unit_bytes(life.live_bytes[life.peak_moment], live));
  if (ptc_plan_world(plan) > 1)
    fprintf(out, "  %10s from peers", ptc_unit_bytes(bytes_moved(plan, task), live));
  for (int32_t r = 0; r < task->num_results; r++)
    if (strcmp(task->results[r].role, "grad") != 0)
      fprintf(out, "%s%s %s", r ? ", " : "   ", task->results[r].role, task->results[r].name);
  fputc('\n', out);
  ptc_plan_life_deinit(&life);
  free(counts);
}

static void summary_json(const ptc_plan_t *plan, FILE *out) {
  json_t *tasks = json_array();
  for (int32_t t = 0; t < plan->num_tasks; t++) {
    int64_t *counts = ptc_show_launches(plan, &plan->tasks[t]), launches = 0;
    for (int32_t k = 0; k < plan->num_kernels; k++) launches += counts[k];
    free(counts);
    json_array_append_new(tasks, json_pack("{s:s, s:I, s:I}", "name", plan->tasks[t].name,
                                           "launches", (json_int_t)launches, "bytes_from_peers",
                                           (json_int_t)bytes_moved(plan, &plan->tasks[t])));
  }
  json_t *mesh = json_object();
  for (int32_t a = 0; a < plan->mesh.num_axes; a++)
    json_object_set_new(mesh, plan->mesh.axes[a].name, json_integer(plan->mesh.axes[a].size));
  json_t *root = json_pack(
      "{s:s, s:o, s:I, s:i, s:i, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:i, s:o}", "model",
      plan->model, "mesh", mesh, "world", (json_int_t)ptc_plan_world(plan), "stage",
      (int)plan->stage, "stages", (int)plan->num_stages, "target", plan->target, "compiler_flags",
      plan->compiler_flags, "parameters", (json_int_t)count_elements(plan, "param"), "batch",
      (json_int_t)plan->batch, "seq", (json_int_t)plan->seq, "arena_bytes",
      (json_int_t)plan->arena_bytes, "bound_bytes", (json_int_t)plan->bound_bytes, "flops_per_step",
      plan->flops_per_step, "kernels", (int)plan->num_kernels, "tasks", tasks);
  json_dumpf(root, out, JSON_INDENT(1));
  fputc('\n', out);
  json_decref(root);
}

static void print_mesh(const ptc_plan_t *plan, FILE *out) {
  if (ptc_plan_world(plan) == 1) return;
  fprintf(out, "  %" PRId64 " ranks:", ptc_plan_world(plan));
  for (int32_t a = 0; a < plan->mesh.num_axes; a++)
    fprintf(out, " %s=%" PRId64, plan->mesh.axes[a].name, plan->mesh.axes[a].size);
  if (plan->num_stages > 1)
    fprintf(out,
            "; of each rank of stage %" PRId32 " of %" PRId32
            " (--stage=N: another one's), parameters those of the stage:\n",
            plan->stage, plan->num_stages);
  else
    fputs("; of each of them, but for the parameters:\n", out);
}

void ptc_show_summary(const ptc_plan_t *plan, const char *path, ptc_show_format_t format,
                      FILE *out) {
  if (format == PTC_SHOW_JSON) {
    summary_json(plan, out);
    return;
  }
  char a[PTC_UNIT_CHARS], b[PTC_UNIT_CHARS];
  fprintf(out, "%s: model %s for %s\n", path, plan->model, plan->target);
  print_mesh(plan, out);
  fprintf(out, "  parameters: %s; optimizer state: %s\n",
          ptc_unit_count((double)count_elements(plan, "param"), a),
          ptc_unit_count((double)count_elements(plan, "moment"), b));
  if (plan->batch)
    fprintf(out, "  a step: %" PRId64 " samples of %" PRId64 " positions, %sFLOP\n", plan->batch,
            plan->seq, ptc_unit_count(plan->flops_per_step, a));
  fprintf(out, "  arena %s (%" PRId64 " bytes), %.2f%% over what must live at once\n",
          ptc_unit_bytes(plan->arena_bytes, a), plan->arena_bytes,
          plan->bound_bytes
              ? 100.0 * (double)(plan->arena_bytes - plan->bound_bytes) / (double)plan->bound_bytes
              : 0.0);
  fprintf(out, "  %d kernels (%s)\ntasks\n", (int)plan->num_kernels, plan->compiler_flags);
  for (int32_t t = 0; t < plan->num_tasks; t++) print_task(plan, &plan->tasks[t], out);
  fprintf(out, "inputs\n");
  for (int32_t g = 0; g < plan->num_globals; g++) {
    const ptc_plan_global_t *global = &plan->globals[g];
    const ptc_buffer_t *buffer = &plan->buffers[global->buffer];
    if (strcmp(global->kind, "input") != 0) continue;
    fprintf(out, "  %s: %s[", global->path, ptc_dtype_name(buffer->dtype));
    for (int32_t d = 0; d < buffer->num_dims; d++)
      fprintf(out, "%s%s=%" PRId64, d ? ", " : "", buffer->dim_names[d], buffer->extents[d]);
    fprintf(out, "] from %s", global->source ? global->source : "a random stream");
    if (global->offset) fprintf(out, " + %" PRId64, global->offset);
    fputc('\n', out);
  }
  fputs("parts: summary memory schedule kernels ir config why\n", out);
}

void ptc_show_config(const ptc_plan_t *plan, ptc_show_format_t format, FILE *out) {
  json_t *list = json_array();
  if (format == PTC_SHOW_CSV) fputs("name,value,origin,open\n", out);
  for (int32_t i = 0; i < plan->num_settings; i++) {
    const ptc_plan_setting_t *setting = &plan->settings[i];
    if (format == PTC_SHOW_CSV)
      fprintf(out, "%s,\"%s\",\"%s\",%d\n", setting->name, setting->value, setting->origin,
              setting->open);
    else if (format == PTC_SHOW_JSON)
      json_array_append_new(
          list, json_pack("{s:s, s:s, s:s, s:b}", "name", setting->name, "value", setting->value,
                          "origin", setting->origin, "open", (int)setting->open));
    else
      fprintf(out, "%-24s %-16s %s%s\n", setting->name, setting->value, setting->origin,
              setting->open ? "  (ptc run --set)" : "");
  }
  if (format == PTC_SHOW_JSON) {
    json_dumpf(list, out, JSON_INDENT(1));
    fputc('\n', out);
  }
  json_decref(list);
}
