// The tables, the lines per row and the drawing of a validation.
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/validate.h"

// --- statistics

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// Linear between neighbours; |values| are sorted in place. NAN of none.
static double quantile(double *values, int32_t count, double q) {
  if (count == 0) return NAN;
  qsort(values, (size_t)count, sizeof(*values), by_value);
  const double at = q * (count - 1);
  const int32_t low = (int32_t)at;
  return low + 1 < count ? values[low] + (at - low) * (values[low + 1] - values[low]) : values[low];
}

typedef double error_fn(const ptc_validated_t *row);
static double time_error(const ptc_validated_t *row) { return row->time_error; }
static double memory_error(const ptc_validated_t *row) { return row->memory_error; }

// "LF" of "LF-017".
static size_t source_len(const ptc_validated_t *row) {
  return strcspn(row->run->id, "-0123456789");
}

static bool same_source(const ptc_validated_t *a, const ptc_validated_t *b) {
  return source_len(a) == source_len(b) && strncmp(a->run->id, b->run->id, source_len(a)) == 0;
}
static bool same_group(const ptc_validated_t *a, const ptc_validated_t *b) {
  return strcmp(a->run->group, b->run->group) == 0;
}
static bool any_two(const ptc_validated_t *a, const ptc_validated_t *b) {
  (void)a;
  (void)b;
  return true;
}

typedef bool same_fn(const ptc_validated_t *a, const ptc_validated_t *b);

typedef struct summary_s {
  int32_t rows, groups;
  double bias, median, p90;  // of the groups' mean absolute errors; bias: mean of the groups' means
  double rank;               // mean of the groups' rank correlations, of groups of 3 and more; NAN
  double
      regret;  // mean of what the group's run that is predicted fastest loses, of groups of 4 and more; NAN
} summary_t;

// Spearman's, of predicted and measured speed.
static double rank_correlation(const ptc_validated_t *const *rows, int32_t count) {
  if (count < 3) return NAN;
  double sum[5] = {0};
  for (int32_t i = 0; i < count; i++) {
    double rank[2] = {0};
    for (int32_t k = 0; k < count; k++) {
      const double own[2] = {rows[i]->run->step_s, rows[i]->predicted.step_s};
      const double other[2] = {rows[k]->run->step_s, rows[k]->predicted.step_s};
      for (int side = 0; side < 2; side++)
        rank[side] += other[side] < own[side] ? 1 : other[side] == own[side] ? 0.5 : 0;
    }
    sum[0] += rank[0];
    sum[1] += rank[1];
    sum[2] += rank[0] * rank[0];
    sum[3] += rank[1] * rank[1];
    sum[4] += rank[0] * rank[1];
  }
  const double x = sum[2] - sum[0] * sum[0] / count, y = sum[3] - sum[1] * sum[1] / count;
  return x > 0 && y > 0 ? (sum[4] - sum[0] * sum[1] / count) / sqrt(x * y) : NAN;
}

// What the run that is predicted fastest takes more than the fastest. Runs of one batch on one number of devices compare;
// NAN: fewer than 4, or the group is of several problems.
static double regret_of(const ptc_validated_t *const *rows, int32_t count) {
  if (count < 4) return NAN;
  int32_t picked = 0, fastest = 0;
  for (int32_t i = 1; i < count; i++) {
    const ptc_measured_run_t *a = rows[0]->run, *b = rows[i]->run;
    if (a->devices != b->devices || a->shape.batch != b->shape.batch ||
        a->shape.seq != b->shape.seq)
      return NAN;
    if (rows[i]->predicted.step_s < rows[picked]->predicted.step_s) picked = i;
    if (rows[i]->run->step_s < rows[fastest]->run->step_s) fastest = i;
  }
  return rows[picked]->run->step_s / rows[fastest]->run->step_s - 1;
}

// Of the rows that are the |same| as |like|.
static summary_t summarize(const ptc_validated_t *rows, int32_t count, const ptc_validated_t *like,
                           same_fn *same, error_fn *error) {
  summary_t s = {.rank = NAN, .regret = NAN};
  double *means = malloc(sizeof(*means) * (size_t)(count + 1));
  const ptc_validated_t **members = malloc(sizeof(*members) * (size_t)(count + 1));
  bool *done = calloc((size_t)count + 1, sizeof(*done));
  double ranks = 0, regrets = 0;
  int32_t num_ranks = 0, num_regrets = 0;
  for (int32_t i = 0; i < count && means && members && done; i++) {
    if (done[i] || isnan(error(&rows[i])) || !same(&rows[i], like)) continue;
    double absolute = 0, mean = 0;
    int32_t num = 0;
    for (int32_t k = i; k < count; k++) {
      if (done[k] || isnan(error(&rows[k])) || !same(&rows[k], like) ||
          !same_group(&rows[i], &rows[k]))
        continue;
      done[k] = true;
      absolute += fabs(expm1(error(&rows[k])));
      mean += expm1(error(&rows[k]));
      members[num++] = &rows[k];
    }
    s.rows += num;
    s.bias += mean / num;
    means[s.groups++] = absolute / num;
    const double rank = error == time_error ? rank_correlation(members, num) : NAN;
    if (!isnan(rank)) {
      ranks += rank;
      num_ranks++;
    }
    const double regret = error == time_error ? regret_of(members, num) : NAN;
    if (!isnan(regret)) {
      regrets += regret;
      num_regrets++;
    }
  }
  if (s.groups > 0) s.bias /= s.groups;
  if (num_ranks > 0) s.rank = ranks / num_ranks;
  if (num_regrets > 0) s.regret = regrets / num_regrets;
  s.median = quantile(means, s.groups, 0.5);
  s.p90 = quantile(means, s.groups, 0.9);
  free(means);
  free(members);
  free(done);
  return s;
}

// --- text

static void print_summary(const char *name, int len, const summary_t *s, FILE *out) {
  if (s->groups == 0) return;
  fprintf(out, "  %-14.*s %5d %6d  %+7.1f %% %7.1f %% %7.1f %%", len, name, s->rows, s->groups,
          100 * s->bias, 100 * s->median, 100 * s->p90);
  if (!isnan(s->rank)) fprintf(out, "   %5.2f", s->rank);
  if (!isnan(s->regret)) fprintf(out, " %8.1f %%", 100 * s->regret);
  fprintf(out, "\n");
}

static void print_table(const ptc_validated_t *rows, int32_t count, const char *title,
                        error_fn *error, FILE *out) {
  const summary_t all = summarize(rows, count, rows, any_two, error);
  if (count == 0 || all.groups == 0) return;
  fprintf(out,
          "%s\n  source          rows groups      bias    median      90 %%    rank   regret\n",
          title);
  for (int32_t i = 0; i < count; i++) {
    bool known = false;
    for (int32_t k = 0; k < i && !known; k++) known = same_source(&rows[i], &rows[k]);
    if (known) continue;
    const summary_t own = summarize(rows, count, &rows[i], same_source, error);
    print_summary(rows[i].run->id, (int)source_len(&rows[i]), &own, out);
  }
  print_summary("all", 3, &all, out);
  fprintf(out, "\n");
}

static const ptc_validated_t **by_error(const ptc_validated_t *rows, int32_t count) {
  const ptc_validated_t **sorted = malloc(sizeof(*sorted) * (size_t)(count + 1));
  if (!sorted) return NULL;
  for (int32_t i = 0; i < count; i++) {
    int32_t at = i;
    const double own = isnan(rows[i].time_error) ? -1 : fabs(rows[i].time_error);
    while (at > 0 &&
           (isnan(sorted[at - 1]->time_error) ? -1 : fabs(sorted[at - 1]->time_error)) < own) {
      sorted[at] = sorted[at - 1];
      at--;
    }
    sorted[at] = &rows[i];
  }
  return sorted;
}

static void print_worst(const ptc_validated_t *rows, int32_t count, int32_t worst, FILE *out) {
  const ptc_validated_t **sorted = by_error(rows, count);
  if (!sorted || worst == 0 || count == 0) {
    free(sorted);
    return;
  }
  fprintf(out,
          "farthest off: measured and predicted seconds, and what the prediction consists of\n");
  for (int32_t i = 0; i < count && i < worst && !isnan(sorted[i]->time_error); i++) {
    const ptc_validated_t *row = sorted[i];
    const ptc_prediction_t *p = &row->predicted;
    fprintf(out,
            "  %-14s %+6.1f %%  %9.4g %9.4g  compute %.3g recompute %.3g tp %.3g cp %.3g ep %.3g "
            "dp %.3g send %.3g "
            "bubble %.3g update %.3g  %s\n",
            row->run->id, 100 * expm1(row->time_error), row->run->step_s, p->step_s, p->compute_s,
            p->recompute_s, p->exposed_s[PTC_AXIS_TP], p->exposed_s[PTC_AXIS_CP],
            p->exposed_s[PTC_AXIS_EP], p->exposed_s[PTC_AXIS_DP], p->exposed_s[PTC_AXIS_PP],
            p->bubble_s, p->optimizer_s, row->run->group);
  }
  fprintf(out, "\n");
  free(sorted);
}

static void print_refused(const ptc_measured_run_t *const *refused, int32_t count, FILE *out) {
  if (count == 0) return;
  fprintf(out, "not expressed: %d rows\n", count);
  for (int32_t i = 0; i < count; i++)
    fprintf(out, "  %-14s %s\n", refused[i]->id, refused[i]->reason);
}

// --- lines

static void print_csv(const ptc_validated_t *rows, int32_t count,
                      const ptc_measured_run_t *const *refused, int32_t num_refused, FILE *out) {
  fprintf(out,
          "id,group,stack,measured_s,predicted_s,error,compute_s,recompute_s,tp_s,cp_s,ep_s,dp_s,"
          "pp_s,bubble_s,"
          "optimizer_s,measured_bytes,predicted_bytes,params_bytes,grads_bytes,states_bytes,saved_"
          "bytes,"
          "temp_bytes,fixed_bytes,reason\n");
  for (int32_t i = 0; i < count; i++) {
    const ptc_prediction_t *p = &rows[i].predicted;
    const ptc_measured_run_t *run = rows[i].run;
    fprintf(out,
            "%s,%s,%s,%.9g,%.9g,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%.0f,%.0f,%.0f,%."
            "0f,%.0f,"
            "%.0f,%.0f,%.0f,\n",
            run->id, run->group, run->stack->name, run->step_s, p->step_s,
            expm1(rows[i].time_error), p->compute_s, p->recompute_s, p->exposed_s[PTC_AXIS_TP],
            p->exposed_s[PTC_AXIS_CP], p->exposed_s[PTC_AXIS_EP], p->exposed_s[PTC_AXIS_DP],
            p->exposed_s[PTC_AXIS_PP], p->bubble_s, p->optimizer_s, run->memory_bytes,
            rows[i].memory_bytes, p->params_bytes, p->grads_bytes, p->states_bytes, p->saved_bytes,
            p->temp_bytes, p->fixed_bytes);
  }
  for (int32_t i = 0; i < num_refused; i++)
    fprintf(out, "%s,%s,,,,,,,,,,,,,,,,,,,,,,\"%s\"\n", refused[i]->id, refused[i]->group,
            refused[i]->reason);
}

static json_t *json_or_null(double value) { return isnan(value) ? json_null() : json_real(value); }

static json_t *json_row(const ptc_validated_t *row) {
  const ptc_prediction_t *p = &row->predicted;
  return json_pack("{s:s, s:s, s:s, s:f, s:f, s:o, s:f, s:f, s:o, s:b}", "id", row->run->id,
                   "group", row->run->group, "stack", row->run->stack->name, "measured_s",
                   row->run->step_s, "predicted_s", p->step_s, "time_error",
                   json_or_null(expm1(row->time_error)), "measured_bytes", row->run->memory_bytes,
                   "predicted_bytes", row->memory_bytes, "memory_error",
                   json_or_null(expm1(row->memory_error)), "fits", (int)p->fits);
}

static json_t *json_summary(const summary_t *s) {
  return json_pack("{s:i, s:i, s:o, s:o, s:o, s:o, s:o}", "rows", (int)s->rows, "groups",
                   (int)s->groups, "bias", json_or_null(s->bias), "median", json_or_null(s->median),
                   "p90", json_or_null(s->p90), "rank", json_or_null(s->rank), "regret",
                   json_or_null(s->regret));
}

static void print_json(const ptc_validated_t *rows, int32_t count,
                       const ptc_measured_run_t *const *refused, int32_t num_refused, FILE *out) {
  const summary_t time = summarize(rows, count, rows, any_two, time_error);
  const summary_t memory = summarize(rows, count, rows, any_two, memory_error);
  json_t *list = json_array(), *left = json_array();
  for (int32_t i = 0; i < count; i++) json_array_append_new(list, json_row(&rows[i]));
  for (int32_t i = 0; i < num_refused; i++)
    json_array_append_new(
        left, json_pack("{s:s, s:s}", "id", refused[i]->id, "reason", refused[i]->reason));
  json_t *all = json_pack("{s:o, s:o, s:o, s:o}", "time", json_summary(&time), "memory",
                          json_summary(&memory), "rows", list, "refused", left);
  json_dumpf(all, out, JSON_INDENT(1));
  fprintf(out, "\n");
  json_decref(all);
}

void ptc_validate_report(const ptc_validated_t *rows, int32_t count,
                         const ptc_measured_run_t *const *refused, int32_t num_refused,
                         const ptc_validate_options_t *options, FILE *out) {
  if (options->format && strcmp(options->format, "csv") == 0) {
    print_csv(rows, count, refused, num_refused, out);
  } else if (options->format && strcmp(options->format, "json") == 0) {
    print_json(rows, count, refused, num_refused, out);
  } else {
    print_table(rows, count, "time: mean absolute error of a group, over groups", time_error, out);
    print_table(rows, count, "memory", memory_error, out);
    print_worst(rows, count, options->worst, out);
    print_refused(refused, num_refused, out);
  }
}

// --- drawing

enum { WIDTH = 760, HEIGHT = 560, LEFT = 70, TOP = 40, RIGHT = 180, BOTTOM = 60, MAX_SOURCES = 24 };

static double across(double seconds, double low, double high) {
  return LEFT + (log10(seconds) - low) / (high - low) * (WIDTH - LEFT - RIGHT);
}
static double down(double ratio) {  // 0.5 to 2, logarithmic
  const double at = log2(ratio) < -1 ? -1 : log2(ratio) > 1 ? 1 : log2(ratio);
  return TOP + (1 - (at + 1) / 2) * (HEIGHT - TOP - BOTTOM);
}

static void draw_axes(double low, double high, FILE *out) {
  static const double ratios[] = {0.5, 0.67, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2};
  for (size_t i = 0; i < sizeof(ratios) / sizeof(*ratios); i++)
    fprintf(out,
            "<line x1='%d' x2='%d' y1='%.1f' y2='%.1f' stroke='%s'/><text x='%d' y='%.1f' "
            "text-anchor='end'>%g</text>\n",
            LEFT, WIDTH - RIGHT, down(ratios[i]), down(ratios[i]), ratios[i] == 1 ? "#000" : "#ddd",
            LEFT - 6, down(ratios[i]) + 4, ratios[i]);
  for (int e = (int)ceil(low); e <= (int)floor(high); e++)
    fprintf(out, "<text x='%.1f' y='%d' text-anchor='middle'>%g s</text>\n",
            across(pow(10, e), low, high), HEIGHT - BOTTOM + 20, pow(10, e));
  fprintf(out, "<text x='%d' y='%d'>predicted / measured, over measured step time</text>\n", LEFT,
          TOP - 16);
}

void ptc_validate_draw(const ptc_validated_t *rows, int32_t count, FILE *out) {
  static const char *const colors[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e",
                                       "#17becf", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22"};
  const ptc_validated_t *sources[MAX_SOURCES];
  int32_t num_sources = 0;
  double low = 300, high = -300;
  for (int32_t i = 0; i < count; i++) {
    if (isnan(rows[i].time_error)) continue;
    low = fmin(low, floor(log10(rows[i].run->step_s)));
    high = fmax(high, ceil(log10(rows[i].run->step_s)));
  }
  if (high <= low) high = low + 1;
  fprintf(out,
          "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' font-family='sans-serif' "
          "font-size='12'>\n"
          "<rect width='100%%' height='100%%' fill='#fff'/>\n",
          WIDTH, HEIGHT);
  draw_axes(low, high, out);
  for (int32_t i = 0; i < count; i++) {
    if (isnan(rows[i].time_error)) continue;
    int32_t source = 0;
    while (source < num_sources && !same_source(sources[source], &rows[i])) source++;
    if (source == num_sources && num_sources < MAX_SOURCES) sources[num_sources++] = &rows[i];
    fprintf(out,
            "<circle cx='%.1f' cy='%.1f' r='3' fill='%s' fill-opacity='0.6'><title>%s: %.4g s, "
            "predicted "
            "%.4g s</title></circle>\n",
            across(rows[i].run->step_s, low, high), down(exp(rows[i].time_error)),
            colors[source % 10], rows[i].run->id, rows[i].run->step_s, rows[i].predicted.step_s);
  }
  for (int32_t i = 0; i < num_sources; i++)
    fprintf(out, "<circle cx='%d' cy='%d' r='4' fill='%s'/><text x='%d' y='%d'>%.*s</text>\n",
            WIDTH - RIGHT + 20, TOP + 18 * i, colors[i % 10], WIDTH - RIGHT + 30, TOP + 18 * i + 4,
            (int)source_len(sources[i]), sources[i]->run->id);
  fprintf(out, "</svg>\n");
}
