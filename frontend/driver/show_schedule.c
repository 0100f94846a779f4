// `ptc show PLAN schedule`: the steps of a task in the order in which every rank makes them, and what they move.
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/show.h"
#include "frontend/driver/units.h"
#include "frontend/driver/volume.h"

// Of an event, the lines of the steps that record it and that is the first to wait for it; 0: none in this task.
typedef struct event_s {
  int64_t recorded, awaited;
} event_t;

typedef struct lines_s {
  const ptc_plan_t *plan;
  int64_t rank;
  ptc_show_format_t format;
  FILE *out;
  json_t *list;
  ptc_arena_t arena;
  int64_t number;   // of the latest line
  event_t *events;  // event e is events[e]
} lines_t;

// One line.
typedef struct line_s {
  int32_t depth;
  int64_t times;  // in all turns
  const char *stream, *op, *about, *group, *file;
  int64_t bytes;
  int32_t line;
  const ptc_step_t *step;  // that has streams and events, or NULL
} line_t;

// "12 15": the lines of the steps that |step| waits for.
static const char *list_waits(lines_t *l, const ptc_step_t *step) {
  const char *text = "";
  for (int32_t w = 0; step && w < step->num_waits; w++) {
    const int64_t line = l->events[step->waits[w]].recorded;
    if (line)
      text = ptc_arena_printf(&l->arena, "%s%s%" PRId64, text, w ? " " : "", line);
    else
      text = ptc_arena_printf(&l->arena, "%s%sevent %" PRId32, text, w ? " " : "", step->waits[w]);
  }
  return text;
}

// "  [a turn ahead; after 12 15; awaited by 16]"
static void put_order(lines_t *l, const line_t *line) {
  const ptc_step_t *step = line->step;
  if (!step) return;
  const bool handed = step->stream && step->record && l->events[step->record].awaited;
  if (!step->ahead && !step->num_waits && !handed) return;
  const char *between = "";
  fputs("  [", l->out);
  if (step->ahead) {
    const int32_t turns = step->ahead < 0 ? -step->ahead : step->ahead;
    fprintf(l->out, "%" PRId32 " turn%s %s", turns, turns == 1 ? "" : "s",
            step->ahead < 0 ? "late" : "ahead");
    between = "; ";
  }
  if (step->num_waits) {
    fprintf(l->out, "%safter %s", between, list_waits(l, step));
    between = "; ";
  }
  if (handed) fprintf(l->out, "%sawaited by %" PRId64, between, l->events[step->record].awaited);
  fputc(']', l->out);
}

static void put(lines_t *l, const line_t *line) {
  l->number++;
  char bytes[PTC_UNIT_CHARS];
  switch (l->format) {
    case PTC_SHOW_CSV:
      fprintf(l->out, "%" PRId64 ",%d,%" PRId64 ",%s,%s,\"%s\",%" PRId64 ",%s,%s,%d,%d,%s\n",
              l->number, (int)line->depth, line->times, line->stream, line->op, line->about,
              line->bytes, line->group, line->file ? line->file : "", (int)line->line,
              line->step ? (int)line->step->ahead : 0, list_waits(l, line->step));
      return;
    case PTC_SHOW_JSON:
      json_array_append_new(
          l->list,
          json_pack("{s:I, s:i, s:I, s:s, s:s, s:s, s:I, s:s, s:s, s:i, s:i, s:s}", "step",
                    (json_int_t)l->number, "depth", (int)line->depth, "times",
                    (json_int_t)line->times, "stream", line->stream, "op", line->op, "about",
                    line->about, "bytes", (json_int_t)line->bytes, "group", line->group, "file",
                    line->file ? line->file : "", "line", (int)line->line, "ahead",
                    line->step ? (int)line->step->ahead : 0, "after", list_waits(l, line->step)));
      return;
    default: break;
  }
  fprintf(l->out, "%5" PRId64 "  %-8s %10s  %-9s %*s%s", l->number, line->stream,
          line->bytes >= 0 ? ptc_unit_bytes(line->bytes, bytes) : "", line->group,
          2 * (int)line->depth, "", line->op);
  if (line->about[0]) fprintf(l->out, " (%s)", line->about);
  if (line->file) fprintf(l->out, "  %s:%d", line->file, (int)line->line);
  put_order(l, line);
  fputc('\n', l->out);
}

// "comm": it runs where it stands; "comm 2": on a stream of its own.
static const char *stream_name(lines_t *l, const ptc_step_t *step) {
  return step->stream ? ptc_arena_printf(&l->arena, "comm %" PRId32, step->stream) : "comm";
}

static void put_collective(lines_t *l, const ptc_step_t *step, line_t *line) {
  const ptc_collective_t *c = step->collective;
  const bool reduces =
      c->kind == PTC_COLLECTIVE_ALL_REDUCE || c->kind == PTC_COLLECTIVE_REDUCE_SCATTER;
  const char *reduce = !reduces ? "" : c->reduce == PTC_REDUCE_MAX ? "max " : "sum ";
  const char *name = l->plan->buffers[step->args[0].buffer].name;
  line->stream = stream_name(l, step);
  line->op = ptc_collective_name(c->kind);
  line->group = ptc_volume_axes(c, &l->arena);
  line->bytes = ptc_collective_bytes(&l->plan->mesh, c, l->rank);
  line->file = c->loc_file;
  line->line = c->loc_line;
  line->about =
      c->num_parts == 1
          ? ptc_arena_printf(&l->arena, "%s%s of %s", reduce, ptc_dtype_name(c->dtype), name)
          : ptc_arena_printf(&l->arena, "%s%s of %s and %" PRId32 " more", reduce,
                             ptc_dtype_name(c->dtype), name, c->num_parts - 1);
  put(l, line);
}

static void put_steps(lines_t *l, const ptc_step_t *steps, int32_t count, int32_t depth,
                      int64_t times) {
  for (int32_t i = 0; i < count; i++) {
    const ptc_step_t *step = &steps[i];
    line_t line = {.depth = depth,
                   .times = times,
                   .stream = "compute",
                   .about = "",
                   .group = "",
                   .step = step};
    if (step->kind == PTC_STEP_REPEAT) {
      line.step = NULL;
      line.stream = "";
      line.op = ptc_arena_printf(&l->arena, "repeat %" PRId64 "%s", step->count,
                                 step->reverse ? " reverse" : "");
      line.bytes = -1;
      put(l, &line);
      put_steps(l, step->body, step->num_steps, depth + 1, times * step->count);
    } else if (step->kind == PTC_STEP_COLLECTIVE) {
      put_collective(l, step, &line);
    } else if (step->kind == PTC_STEP_CALL) {
      const ptc_task_t *task = &l->plan->tasks[step->task];
      line.step = NULL;
      line.stream = "";
      line.op = ptc_arena_printf(&l->arena, "call %s", task->name);
      line.about = ptc_arena_printf(&l->arena, "micro-batch %" PRId64 " in slot %" PRId64,
                                    step->micro, step->slot);
      line.bytes = -1;
      put(l, &line);
    } else if (step->kind == PTC_STEP_SEND || step->kind == PTC_STEP_RECV) {
      line.stream = stream_name(l, step);
      line.op = step->kind == PTC_STEP_SEND ? "send" : "recv";
      line.group = ptc_arena_printf(&l->arena, "stage %" PRId32, step->peer);
      line.about = l->plan->buffers[step->args[0].buffer].name;
      line.bytes = step->kind == PTC_STEP_RECV ? step->args[0].bytes : 0;
      put(l, &line);
    } else if (step->kind == PTC_STEP_COPY) {
      line.op = "copy";
      line.about = l->plan->buffers[step->args[1].buffer].name;
      line.bytes = step->args[0].bytes;
      put(l, &line);
    } else {
      const ptc_plan_kernel_t *kernel = &l->plan->kernels[step->kernel];
      line.op = kernel->name;
      line.about = kernel->about;
      line.bytes = kernel->min_bytes;
      line.file = kernel->loc_file;
      line.line = kernel->loc_line;
      put(l, &line);
    }
  }
}

// The lines that record events and wait for them, numbered as put_steps does.
static void find_events(lines_t *l, const ptc_step_t *steps, int32_t count, int64_t *number) {
  for (int32_t i = 0; i < count; i++) {
    const ptc_step_t *step = &steps[i];
    ++*number;
    if (step->record) l->events[step->record].recorded = *number;
    for (int32_t w = 0; w < step->num_waits; w++)
      if (!l->events[step->waits[w]].awaited) l->events[step->waits[w]].awaited = *number;
    if (step->kind == PTC_STEP_REPEAT) find_events(l, step->body, step->num_steps, number);
  }
}

// --- what is moved

static void put_volume(lines_t *l, const ptc_task_t *task) {
  ptc_volume_row_t *rows;
  const int32_t count = ptc_volume_of(l->plan, task, l->rank, &l->arena, &rows);
  int64_t total = 0;
  if (!count) return;
  char bytes[PTC_UNIT_CHARS];
  fprintf(l->out,
          "communication of rank %" PRId64 " in one run of the task: bytes read from peers\n",
          l->rank);
  fprintf(l->out, "%-12s %-15s %8s %10s\n", "group", "op", "calls", "bytes");
  for (int32_t i = 0; i < count; i++) {
    total += rows[i].bytes;
    fprintf(l->out, "%-12s %-15s %8" PRId64 " %10s  (%" PRId64 ")\n", rows[i].axes, rows[i].op,
            rows[i].calls, ptc_unit_bytes(rows[i].bytes, bytes), rows[i].bytes);
  }
  fprintf(l->out, "%-12s %-15s %8s %10s  (%" PRId64 ")\n", "all", "", "",
          ptc_unit_bytes(total, bytes), total);
}

static json_t *volume_json(lines_t *l, const ptc_task_t *task) {
  ptc_volume_row_t *rows;
  const int32_t count = ptc_volume_of(l->plan, task, l->rank, &l->arena, &rows);
  json_t *list = json_array();
  for (int32_t i = 0; i < count; i++)
    json_array_append_new(
        list, json_pack("{s:s, s:s, s:I, s:I}", "group", rows[i].axes, "op", rows[i].op, "calls",
                        (json_int_t)rows[i].calls, "bytes", (json_int_t)rows[i].bytes));
  return list;
}

static void put_title(const lines_t *l, const ptc_task_t *task) {
  const int64_t world = ptc_plan_world(l->plan);
  if (world == 1) {
    fprintf(l->out, "%s on one rank\n", task->name);
  } else {
    const int32_t stages = l->plan->num_stages > 1 ? l->plan->num_stages : 1;
    const int64_t each = world / stages, first = l->plan->stage * each;
    fprintf(l->out, "%s on rank", task->name);
    if (each > 1)
      fprintf(l->out, "s %" PRId64 "-%" PRId64, first, first + each - 1);
    else
      fprintf(l->out, " %" PRId64, first);
    if (stages > 1) fprintf(l->out, ", stage %" PRId32 " of %" PRId32, l->plan->stage, stages);
    fputs(" (", l->out);
    for (int32_t a = 0; a < l->plan->mesh.num_axes; a++)
      fprintf(l->out, "%s%s=%" PRId64, a ? " " : "", l->plan->mesh.axes[a].name,
              l->plan->mesh.axes[a].size);
    fprintf(l->out, ")%s; bytes are those of rank %" PRId64 "\n",
            each > 1 ? ", which make the same steps" : "", l->rank);
    if (stages > 1)
      fprintf(l->out, "other stages: --stage=N, %" PRId64 " rank%s each\n", each,
              each > 1 ? "s" : "");
  }
  fprintf(l->out, "%5s  %-8s %10s  %-9s op\n", "step", "stream", "bytes", "group");
}

void ptc_show_schedule(const ptc_plan_t *plan, const ptc_task_t *task, int64_t rank,
                       ptc_show_format_t format, FILE *out) {
  lines_t lines = {.plan = plan, .rank = rank, .format = format, .out = out};
  if (format == PTC_SHOW_JSON) lines.list = json_array();
  if (format == PTC_SHOW_TEXT) put_title(&lines, task);
  if (format == PTC_SHOW_CSV)
    fputs("step,depth,times,stream,op,about,bytes,group,file,line,ahead,after\n", out);
  int64_t number = 0;
  lines.events = PTC_ARENA_ARRAY(&lines.arena, event_t, ptc_plan_num_events(plan) + 1);
  find_events(&lines, task->steps, task->num_steps, &number);
  put_steps(&lines, task->steps, task->num_steps, 0, 1);
  if (format == PTC_SHOW_TEXT) put_volume(&lines, task);
  if (format == PTC_SHOW_JSON) {
    json_t *root = json_pack("{s:s, s:I, s:I, s:i, s:o, s:o}", "task", task->name, "world",
                             (json_int_t)ptc_plan_world(plan), "rank", (json_int_t)rank, "stage",
                             (int)plan->stage, "steps", lines.list, "communication",
                             volume_json(&lines, task));
    json_dumpf(root, out, JSON_INDENT(1));
    fputc('\n', out);
    json_decref(root);
  }
  ptc_arena_deinit(&lines.arena);
}
