// `ptc show RUN loss`: the curve of a run's metrics.jsonl.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/show.h"
#include "ir/base/vec.h"
#include "runtime/metrics.h"

enum { PLOT_COLUMNS = 72, PLOT_ROWS = 18 };

typedef struct point_s {
  int64_t step;
  double loss;
} point_t;

typedef struct curves_s {
  PTC_VEC(point_t) train, val;
} curves_t;

static void add_record(const ptc_metrics_record_t *record, curves_t *curves) {
  if (!isfinite(record->loss)) return;
  const point_t point = {record->step, record->loss};
  if (strcmp(record->kind, "train") == 0)
    PTC_VEC_PUSH(&curves->train, point);
  else
    PTC_VEC_PUSH(&curves->val, point);
}

typedef struct frame_s {
  double low, high;  // of the losses
  int64_t last;      // step
} frame_t;

static frame_t make_frame(const curves_t *curves) {
  frame_t frame = {.low = INFINITY, .high = -INFINITY, .last = 1};
  const int64_t total = curves->train.len + curves->val.len;
  for (int64_t i = 0; i < total; i++) {
    const point_t *p =
        i < curves->train.len ? &curves->train.data[i] : &curves->val.data[i - curves->train.len];
    frame.low = fmin(frame.low, p->loss);
    frame.high = fmax(frame.high, p->loss);
    if (p->step > frame.last) frame.last = p->step;
  }
  if (!(frame.high - frame.low > 1e-9)) frame.high = frame.low + 1e-9;
  return frame;
}

// --- text

static void plot_points(char grid[PLOT_ROWS][PLOT_COLUMNS], const frame_t *frame,
                        const point_t *points, int64_t count, char mark) {
  // The mean of the steps that share a column.
  for (int column = 0; column < PLOT_COLUMNS; column++) {
    double sum = 0;
    int64_t number = 0;
    for (int64_t i = 0; i < count; i++)
      if ((points[i].step - 1) * PLOT_COLUMNS / frame->last == column) {
        sum += points[i].loss;
        number++;
      }
    if (!number) continue;
    const double height = (sum / (double)number - frame->low) / (frame->high - frame->low);
    const int row = (int)((1 - height) * (PLOT_ROWS - 1) + 0.5);
    grid[row < 0 ? 0 : row >= PLOT_ROWS ? PLOT_ROWS - 1 : row][column] = mark;
  }
}

static void print_text(const curves_t *curves, FILE *out) {
  const frame_t frame = make_frame(curves);
  char grid[PLOT_ROWS][PLOT_COLUMNS];
  memset(grid, ' ', sizeof grid);
  plot_points(grid, &frame, curves->train.data, curves->train.len, '*');
  plot_points(grid, &frame, curves->val.data, curves->val.len, 'o');
  for (int row = 0; row < PLOT_ROWS; row++) {
    const double value = frame.high - (frame.high - frame.low) * row / (PLOT_ROWS - 1);
    if (row % 3 == 0 || row == PLOT_ROWS - 1)
      fprintf(out, "%9.4g |", value);
    else
      fprintf(out, "%9s |", "");
    int end = PLOT_COLUMNS;
    while (end > 0 && grid[row][end - 1] == ' ') end--;
    fprintf(out, "%.*s\n", end, grid[row]);
  }
  fprintf(out, "%9s +", "");
  for (int i = 0; i < PLOT_COLUMNS; i++) fputc('-', out);
  fprintf(out, "\n%9s  1%*" PRId64 "\n", "", PLOT_COLUMNS - 1, frame.last);
  if (curves->train.len) {
    const point_t *last = &curves->train.data[curves->train.len - 1];
    fprintf(out, "* loss %.4f at step %" PRId64, last->loss, last->step);
  }
  if (curves->val.len) {
    const point_t *last = &curves->val.data[curves->val.len - 1];
    fprintf(out, "   o held-out loss %.4f at step %" PRId64, last->loss, last->step);
  }
  fputc('\n', out);
}

// --- csv, json, svg

static void print_rows(const curves_t *curves, ptc_show_format_t format, FILE *out) {
  const bool json = format == PTC_SHOW_JSON;
  fputs(json ? "[" : "step,kind,loss\n", out);
  const int64_t total = curves->train.len + curves->val.len;
  for (int64_t i = 0; i < total; i++) {
    const bool train = i < curves->train.len;
    const point_t *p = train ? &curves->train.data[i] : &curves->val.data[i - curves->train.len];
    fprintf(out,
            json ? "%s\n {\"step\": %" PRId64 ", \"kind\": \"%s\", \"loss\": %.9g}"
                 : "%s%" PRId64 ",%s,%.9g\n",
            json && i ? "," : "", p->step, train ? "train" : "val", p->loss);
  }
  if (json) fputs("\n]\n", out);
}

static void svg_curve(const frame_t *frame, const point_t *points, int64_t count, const char *color,
                      FILE *out) {
  fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" points=\"", color);
  for (int64_t i = 0; i < count; i++)
    fprintf(
        out, "%.1f,%.1f ",
        60 + 720.0 * (double)(points[i].step - 1) / (double)(frame->last > 1 ? frame->last - 1 : 1),
        20 + 360 * (frame->high - points[i].loss) / (frame->high - frame->low));
  fputs("\"/>\n", out);
}

static void print_svg(const curves_t *curves, FILE *out) {
  const frame_t frame = make_frame(curves);
  fputs(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 420\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"800\" height=\"420\" fill=\"white\"/>\n",
      out);
  for (int i = 0; i <= 4; i++)
    fprintf(out,
            "<line x1=\"60\" x2=\"780\" y1=\"%d\" y2=\"%d\" stroke=\"#ddd\"/>"
            "<text x=\"52\" y=\"%d\" text-anchor=\"end\">%.4g</text>\n",
            20 + 90 * i, 20 + 90 * i, 24 + 90 * i, frame.high - (frame.high - frame.low) * i / 4);
  fprintf(out,
          "<text x=\"60\" y=\"400\">1</text><text x=\"780\" y=\"400\" text-anchor=\"end\">step "
          "%" PRId64 "</text>\n",
          frame.last);
  svg_curve(&frame, curves->train.data, curves->train.len, "#4477aa", out);
  svg_curve(&frame, curves->val.data, curves->val.len, "#ee6677", out);
  fputs("</svg>\n", out);
}

ptc_status_t ptc_show_loss(ptc_diag_t *diag, const char *run_dir, ptc_show_format_t format,
                           FILE *out) {
  ptc_str_t path = {0};
  curves_t curves = {0};
  ptc_str_printf(&path, "%s/metrics.jsonl", run_dir);
  ptc_metrics_t metrics;
  ptc_status_t status = ptc_metrics_read(diag, path.data, &metrics);
  if (status == PTC_OK) {
    for (int64_t i = 0; i < metrics.count; i++) add_record(&metrics.records[i], &curves);
    ptc_metrics_deinit(&metrics);
  }
  if (status == PTC_OK && curves.train.len + curves.val.len == 0)
    status = ptc_error(diag, (ptc_loc_t){.file = path.data}, PTC_INVALID_INPUT, "no-metrics",
                       "the run has recorded no loss yet");
  if (status == PTC_OK && format == PTC_SHOW_TEXT) print_text(&curves, out);
  if (status == PTC_OK && format == PTC_SHOW_SVG) print_svg(&curves, out);
  if (status == PTC_OK && (format == PTC_SHOW_CSV || format == PTC_SHOW_JSON))
    print_rows(&curves, format, out);
  PTC_VEC_FREE(&curves.train);
  PTC_VEC_FREE(&curves.val);
  ptc_str_deinit(&path);
  return status;
}
