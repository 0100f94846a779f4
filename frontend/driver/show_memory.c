// `ptc show PLAN memory`: what lies where in the arena, and when.
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/plan_life.h"
#include "frontend/driver/show.h"
#include "frontend/driver/units.h"

enum { MAP_COLUMNS = 96, MAP_ROWS = 24, NUM_LARGEST = 12 };

// One letter and color per class, in the order of PTC_BUFFER_CLASSES.
static const struct {
  char letter;
  const char *color;
} looks[PTC_NUM_BUFFER_CLASSES] = {{'I', "#4477aa"}, {'P', "#228833"}, {'M', "#66bb88"},
                                   {'C', "#888888"}, {'G', "#ee6677"}, {'S', "#ccbb44"},
                                   {'t', "#66ccee"}, {'R', "#aa3377"}, {'w', "#bbbbbb"}};

static ptc_buffer_class_t class_of(const ptc_plan_t *plan, const ptc_life_t *life) {
  return plan->buffers[life->buffer].cls;
}

static const char *step_name(const ptc_plan_t *plan, const ptc_step_t *step) {
  switch (step->kind) {
    case PTC_STEP_LAUNCH: return plan->kernels[step->kernel].name;
    case PTC_STEP_COLLECTIVE: return ptc_collective_name(step->collective->kind);
    case PTC_STEP_SEND: return "send";
    case PTC_STEP_RECV: return "recv";
    default: return "copy";
  }
}

static void print_step(const ptc_plan_t *plan, const ptc_step_t *step, FILE *out) {
  if (step->kind != PTC_STEP_LAUNCH) {
    fprintf(out, "a step of kind %s", step_name(plan, step));
    return;
  }
  const ptc_plan_kernel_t *kernel = &plan->kernels[step->kernel];
  fprintf(out, "%s (%s)", kernel->name, kernel->about);
  if (kernel->loc_file) fprintf(out, " of %s:%d", kernel->loc_file, (int)kernel->loc_line);
}

// --- text

static void print_classes(const ptc_plan_t *plan, const ptc_plan_life_t *life, FILE *out) {
  int64_t bytes[PTC_NUM_BUFFER_CLASSES];
  ptc_plan_life_classes(plan, life, life->peak_moment, bytes);
  for (int c = 0; c < PTC_NUM_BUFFER_CLASSES; c++) {
    char size[PTC_UNIT_CHARS];
    if (bytes[c])
      fprintf(out, "  %c %-9s %10s %5.1f%%\n", looks[c].letter,
              ptc_buffer_class_name((ptc_buffer_class_t)c), ptc_unit_bytes(bytes[c], size),
              100.0 * (double)bytes[c] / (double)plan->arena_bytes);
  }
}

static int by_bytes(const void *a, const void *b, void *arg) {
  const ptc_life_t *lives = arg, *x = &lives[*(const int64_t *)a], *y = &lives[*(const int64_t *)b];
  return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

// The largest instances that live at the peak, those that outlive the step aside.
static void print_largest(const ptc_plan_t *plan, const ptc_plan_life_t *life, FILE *out) {
  int64_t *order = ptc_xmalloc(sizeof *order * (size_t)(life->num_lives + 1)), count = 0;
  for (int64_t i = 0; i < life->num_lives; i++) {
    const ptc_life_t *l = &life->lives[i];
    const bool outlives = l->first == 0 && l->last == life->num_moments - 1;
    if (l->first <= life->peak_moment && l->last >= life->peak_moment && !outlives)
      order[count++] = i;
  }
  if (count) qsort_r(order, (size_t)count, sizeof *order, by_bytes, life->lives);
  if (count) fputs("largest at the peak\n", out);
  for (int64_t i = 0; i < count && i < NUM_LARGEST; i++) {
    const ptc_life_t *l = &life->lives[order[i]];
    const ptc_buffer_t *buffer = &plan->buffers[l->buffer];
    char size[PTC_UNIT_CHARS];
    fprintf(out, "  %10s  %-6s %s", ptc_unit_bytes(l->bytes, size),
            ptc_buffer_class_name(buffer->cls), buffer->name);
    if (buffer->num_instances > 1) fprintf(out, "[%" PRId64 "]", l->instance);
    if (buffer->loc_file) fprintf(out, "  %s:%d", buffer->loc_file, (int)buffer->loc_line);
    fputc('\n', out);
  }
  free(order);
}

// Row r, column c of the map: the class that holds most of that part of the arena at that time.
static void draw_cell(const ptc_plan_t *plan, const ptc_plan_life_t *life, int row, int column,
                      int columns, FILE *out) {
  const int64_t begin = plan->arena_bytes * row / MAP_ROWS,
                end = plan->arena_bytes * (row + 1) / MAP_ROWS,
                moment = life->num_moments * (2 * column + 1) / (2 * columns);
  int64_t bytes[PTC_NUM_BUFFER_CLASSES] = {0}, used = 0;
  for (int64_t i = 0; i < life->num_lives && life->lives[i].offset < end; i++) {
    const ptc_life_t *l = &life->lives[i];
    if (moment < l->first || moment > l->last || l->offset + l->bytes <= begin) continue;
    const int64_t from = l->offset > begin ? l->offset : begin,
                  to = l->offset + l->bytes < end ? l->offset + l->bytes : end;
    bytes[class_of(plan, l)] += to - from;
    used += to - from;
  }
  int most = 0;
  for (int c = 1; c < PTC_NUM_BUFFER_CLASSES; c++)
    if (bytes[c] > bytes[most]) most = c;
  fputc(used * 2 < end - begin ? '.' : looks[most].letter, out);
}

static void print_map(const ptc_plan_t *plan, const ptc_plan_life_t *life, FILE *out) {
  const int columns = life->num_moments < MAP_COLUMNS ? (int)life->num_moments : (int)MAP_COLUMNS;
  fputs("address (down) over time (right); . is free\n", out);
  for (int row = 0; row < MAP_ROWS; row++) {
    char size[PTC_UNIT_CHARS];
    fprintf(out, "%11s |", ptc_unit_bytes(plan->arena_bytes * row / MAP_ROWS, size));
    for (int column = 0; column < columns; column++)
      draw_cell(plan, life, row, column, columns, out);
    fputs("|\n", out);
  }
  const int peak = (int)(life->peak_moment * columns / (life->num_moments ? life->num_moments : 1));
  fprintf(out, "%11s  %*s^ peak\n", "", peak, "");
}

static void print_text(const ptc_plan_t *plan, const ptc_task_t *task, const ptc_plan_life_t *life,
                       FILE *out) {
  char arena[PTC_UNIT_CHARS], peak[PTC_UNIT_CHARS];
  fprintf(out, "arena %s (%" PRId64 " bytes); most live at once in @%s: %s, %.2f%% of it\n",
          ptc_unit_bytes(plan->arena_bytes, arena), plan->arena_bytes, task->name,
          ptc_unit_bytes(life->live_bytes[life->peak_moment], peak),
          plan->arena_bytes
              ? 100.0 * (double)life->live_bytes[life->peak_moment] / (double)plan->arena_bytes
              : 0.0);
  if (life->num_moments == 0) return;
  fprintf(out, "the peak is launch %" PRId64 " of %" PRId64 ": ", life->peak_moment + 1,
          life->num_moments);
  print_step(plan, life->steps[life->peak_moment], out);
  fputs("\nat the peak\n", out);
  print_classes(plan, life, out);
  print_largest(plan, life, out);
  print_map(plan, life, out);
}

// --- json, svg

static void print_json(const ptc_plan_t *plan, const ptc_task_t *task, const ptc_plan_life_t *life,
                       FILE *out) {
  json_t *lives = json_array(), *live = json_array(), *steps = json_array();
  for (int64_t i = 0; i < life->num_lives; i++) {
    const ptc_life_t *l = &life->lives[i];
    const ptc_buffer_t *buffer = &plan->buffers[l->buffer];
    json_array_append_new(
        lives, json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "name", buffer->name, "class",
                         ptc_buffer_class_name(buffer->cls), "instance", (json_int_t)l->instance,
                         "offset", (json_int_t)l->offset, "bytes", (json_int_t)l->bytes, "first",
                         (json_int_t)l->first, "last", (json_int_t)l->last));
  }
  for (int64_t m = 0; m < life->num_moments; m++) {
    json_array_append_new(live, json_integer(life->live_bytes[m]));
    json_array_append_new(steps, json_string(step_name(plan, life->steps[m])));
  }
  json_t *root = json_pack(
      "{s:s, s:I, s:I, s:I, s:o, s:o, s:o}", "task", task->name, "arena_bytes",
      (json_int_t)plan->arena_bytes, "bound_bytes", (json_int_t)plan->bound_bytes, "peak_launch",
      (json_int_t)life->peak_moment, "launches", steps, "live_bytes", live, "buffers", lives);
  json_dumpf(root, out, JSON_INDENT(1));
  fputc('\n', out);
  json_decref(root);
}

static void print_escaped(const char *text, FILE *out) {
  for (; *text; text++) switch (*text) {
      case '<': fputs("&lt;", out); break;
      case '>': fputs("&gt;", out); break;
      case '&': fputs("&amp;", out); break;
      case '"': fputs("&quot;", out); break;
      default: fputc(*text, out);
    }
}

static void print_svg(const ptc_plan_t *plan, const ptc_task_t *task, const ptc_plan_life_t *life,
                      FILE *out) {
  enum { WIDTH = 1200, HEIGHT = 700, LEFT = 10, TOP = 50 };
  const double x_scale = (double)WIDTH / (double)(life->num_moments ? life->num_moments : 1),
               y_scale = (double)HEIGHT / (double)(plan->arena_bytes ? plan->arena_bytes : 1);
  char arena[PTC_UNIT_CHARS];
  fprintf(out,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
          "font-family=\"sans-serif\" font-size=\"13\">\n"
          "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
          "<text x=\"%d\" y=\"18\">@%s: arena %s over %" PRId64 " launches</text>\n",
          WIDTH + 2 * LEFT, HEIGHT + TOP + 20, LEFT, task->name,
          ptc_unit_bytes(plan->arena_bytes, arena), life->num_moments);
  for (int c = 0; c < PTC_NUM_BUFFER_CLASSES; c++)
    fprintf(out,
            "<rect x=\"%d\" y=\"26\" width=\"12\" height=\"12\" fill=\"%s\"/>"
            "<text x=\"%d\" y=\"37\">%s</text>\n",
            LEFT + 110 * c, looks[c].color, LEFT + 110 * c + 16,
            ptc_buffer_class_name((ptc_buffer_class_t)c));
  fprintf(out, "<g stroke=\"white\" stroke-width=\"0.2\">\n");
  for (int64_t i = 0; i < life->num_lives; i++) {
    const ptc_life_t *l = &life->lives[i];
    char size[PTC_UNIT_CHARS];
    fprintf(out, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"><title>",
            LEFT + x_scale * (double)l->first, TOP + y_scale * (double)l->offset,
            x_scale * (double)(l->last - l->first + 1), y_scale * (double)l->bytes,
            looks[class_of(plan, l)].color);
    print_escaped(plan->buffers[l->buffer].name, out);
    fprintf(out, " [%" PRId64 "] %s</title></rect>\n", l->instance, ptc_unit_bytes(l->bytes, size));
  }
  fprintf(out,
          "</g>\n<line x1=\"%.2f\" x2=\"%.2f\" y1=\"%d\" y2=\"%d\" stroke=\"black\"/>\n</svg>\n",
          LEFT + x_scale * ((double)life->peak_moment + 0.5),
          LEFT + x_scale * ((double)life->peak_moment + 0.5), TOP, TOP + HEIGHT);
}

void ptc_show_memory(const ptc_plan_t *plan, const ptc_task_t *task, ptc_show_format_t format,
                     FILE *out) {
  ptc_plan_life_t life;
  ptc_plan_life_init(plan, task, &life);
  if (format == PTC_SHOW_JSON)
    print_json(plan, task, &life, out);
  else if (format == PTC_SHOW_SVG)
    print_svg(plan, task, &life, out);
  else
    print_text(plan, task, &life, out);
  ptc_plan_life_deinit(&life);
}
