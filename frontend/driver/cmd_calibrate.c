// `ptc calibrate`: the free constants of a software stack, fitted to measured runs.
#include <getopt.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/commands.h"
#include "frontend/driver/options.h"
#include "frontend/driver/validate.h"

static const char usage[] =
    "usage: ptc calibrate RUNS.csv... [options]\n"
    "Fits the constants of each software stack in the rows (`ptc validate --help` tells the "
    "columns) and\n"
    "prints them, with the error before and after, and the error of runs that the fit did not see: "
    "the\n"
    "groups are cut in two halves, and each half is predicted with the constants of the other.\n"
    "\n"
    "options\n"
    "  --stack=NAME           the stack of all rows (default: told from source and year)\n"
    "  --quality=LETTERS      rows of these qualities alone (default: AB)\n"
    "  --only=TEXT            rows whose id begins so\n"
    "  --format=FORMAT        text (default) or json\n"
    "  --diagnostics=FORMAT   text or json\n"
    "  --color=WHEN           auto, always, never\n"
    "  -q, --quiet            no progress\n"
    "  -h, --help             this text\n";

enum { OPT_STACK = 1, OPT_QUALITY, OPT_ONLY, OPT_FORMAT };

static const struct option long_options[] = {
    {"stack", required_argument, NULL, OPT_STACK},
    {"quality", required_argument, NULL, OPT_QUALITY},
    {"only", required_argument, NULL, OPT_ONLY},
    {"format", required_argument, NULL, OPT_FORMAT},
    PTC_COMMON_LONG_OPTIONS,
    {NULL, 0, NULL, 0},
};

// --- the constants that time depends on

typedef struct constant_s {
  const char *name;
  size_t offset;
  double low, high, step;
} constant_t;

static const constant_t constants[] = {
    {"unfused", offsetof(ptc_stack_t, unfused), 0, 2, 0.2},
    {"launch_s", offsetof(ptc_stack_t, launch_s), 0, 200e-6, 10e-6},
    {"attention_rate", offsetof(ptc_stack_t, attention_rate), 0.2, 2, 0.1},
    {"hidden_late", offsetof(ptc_stack_t, hidden_late), 0, 1, 0.2},
    {"late_rate", offsetof(ptc_stack_t, late_rate), 0.05, 1, 0.2},
};
enum { NUM_CONSTANTS = sizeof(constants) / sizeof(*constants) };

static double *at(ptc_stack_t *stack, int c) {
  return (double *)((char *)stack + constants[c].offset);
}

// --- the error

// Rows of |stack|; a half of the groups (0, 1), or all (-1).
typedef struct sample_s {
  const ptc_validator_t *v;
  const ptc_stack_t *stack;
  int half;
} sample_t;

static unsigned hash_of(const char *text) {
  unsigned h = 5381;
  for (; *text; text++) h = h * 33 + (unsigned char)*text;
  return h >> 3;
}

static bool in_sample(const sample_t *s, const ptc_prepared_t *row) {
  return row->run->stack == s->stack && row->run->step_s > 0 &&
         (s->half < 0 || (int)(hash_of(row->run->group) & 1) == s->half);
}

static int32_t group_rows(const sample_t *s, const char *group) {
  int32_t count = 0;
  for (int64_t i = 0; i < s->v->rows.len; i++)
    count += in_sample(s, s->v->rows.data[i]) && strcmp(s->v->rows.data[i]->run->group, group) == 0;
  return count;
}

// Mean absolute error, each group once; with |smooth| what is minimized. NAN: no rows.
static double error_of(const sample_t *s, const ptc_stack_t *with, const double *weights,
                       bool smooth) {
  double sum = 0, weight = 0;
  for (int64_t i = 0; i < s->v->rows.len; i++) {
    const ptc_prepared_t *row = s->v->rows.data[i];
    ptc_validated_t out;
    if (!in_sample(s, row) || !ptc_validate_predict(row, with, &out)) continue;
    const double e =
        smooth ? sqrt(out.time_error * out.time_error + 4e-4) : fabs(expm1(out.time_error));
    sum += weights[i] * e;
    weight += weights[i];
  }
  return weight > 0 ? sum / weight : NAN;
}

// Coordinates in turn, with steps that shrink.
static ptc_stack_t fit(const sample_t *s, const double *weights) {
  ptc_stack_t best = *s->stack;
  double least = error_of(s, &best, weights, true);
  double scale = 2;
  for (int round = 0; round < 14; round++) {
    bool better = false;
    for (int c = 0; c < NUM_CONSTANTS; c++)
      for (int sign = -1; sign <= 1; sign += 2) {
        ptc_stack_t next = best;
        double *value = at(&next, c);
        *value = fmin(constants[c].high,
                      fmax(constants[c].low, *value + sign * scale * constants[c].step));
        if (*value == *at(&best, c)) continue;
        const double error = error_of(s, &next, weights, true);
        if (error >= least) continue;
        least = error;
        best = next;
        better = true;
      }
    if (!better) scale /= 2;
  }
  return best;
}

static void report(const ptc_validator_t *v, const ptc_stack_t *stack, bool json, bool *first) {
  double *weights = ptc_xmalloc(sizeof(*weights) * (size_t)(v->rows.len + 1));
  const sample_t all = {v, stack, -1};
  for (int64_t i = 0; i < v->rows.len; i++) {
    const int32_t rows =
        in_sample(&all, v->rows.data[i]) ? group_rows(&all, v->rows.data[i]->run->group) : 0;
    weights[i] = rows > 0 ? 1.0 / rows : 0;
  }
  const double before = error_of(&all, stack, weights, false);
  if (!isnan(before)) {
    const ptc_stack_t fitted = fit(&all, weights);
    const double after = error_of(&all, &fitted, weights, false);
    double held_out = 0;
    int halves = 0;
    for (int half = 0; half < 2; half++) {
      const sample_t seen = {v, stack, half}, unseen = {v, stack, 1 - half};
      const ptc_stack_t own = fit(&seen, weights);
      const double error = error_of(&unseen, &own, weights, false);
      if (isnan(error) || isnan(error_of(&seen, &own, weights, false))) continue;
      held_out += error;
      halves++;
    }
    held_out = halves > 0 ? held_out / halves : NAN;
    if (json) {
      printf("%s\n {\"stack\": \"%s\", \"before\": %.5f, \"after\": %.5f, \"held_out\": ",
             *first ? "[" : ",", stack->name, before, after);
      if (isnan(held_out))
        printf("null");
      else
        printf("%.5f", held_out);
      for (int c = 0; c < NUM_CONSTANTS; c++)
        printf(", \"%s\": %.6g", constants[c].name, *at((ptc_stack_t *)&fitted, c));
      printf("}");
    } else {
      printf("%-24s error %.1f %% before, %.1f %% fitted, ", stack->name, 100 * before,
             100 * after);
      if (isnan(held_out))
        printf("all rows are one group\n ");
      else
        printf("%.1f %% on groups that the fit did not see\n ", 100 * held_out);
      for (int c = 0; c < NUM_CONSTANTS; c++)
        printf(" %s %.4g", constants[c].name, *at((ptc_stack_t *)&fitted, c));
      printf("\n");
    }
    *first = false;
  }
  free(weights);
}

static ptc_status_t calibrate(ptc_diag_t *diag, const char *const *paths, int32_t num_paths,
                              const ptc_validate_options_t *options, bool json) {
  ptc_validator_t *v;
  bool first = true;
  ptc_status_t status = ptc_validator_open(diag, paths, num_paths, options, &v);
  if (status == PTC_OK && v->rows.len == 0)
    status = ptc_error(diag, (ptc_loc_t){paths[0], 0, 0}, PTC_INVALID_INPUT, "no-rows",
                       "no row can be predicted; `ptc validate` lists the reasons");
  for (int32_t i = 0; i < ptc_num_stacks && status == PTC_OK; i++)
    report(v, &ptc_stacks[i], json, &first);
  if (json && status == PTC_OK) printf(first ? "[]\n" : "\n]\n");
  ptc_validator_close(v);
  return status;
}

int ptc_calibrate_main(int argc, char **argv) {
  static ptc_common_options_t common;
  ptc_validate_options_t options = {.quality = "AB"};
  bool json = false;
  opterr = 0;
  for (int option; (option = getopt_long(argc, argv, ":qh", long_options, NULL)) != -1;) {
    switch (option) {
      case OPT_STACK:
        options.stack = ptc_stack_find(optarg);
        if (!options.stack)
          return ptc_options_usage_error(
              "ptc calibrate", "unknown stack (`ptc validate --stack=list` names them)", optarg);
        break;
      case OPT_QUALITY: options.quality = optarg; break;
      case OPT_ONLY: options.only = optarg; break;
      case OPT_FORMAT:
        json = strcmp(optarg, "json") == 0;
        if (!json && strcmp(optarg, "text") != 0)
          return ptc_options_usage_error("ptc calibrate", "--format is text or json", optarg);
        break;
      default: {
        const int exit_status =
            ptc_options_read_common(&common, option, "ptc calibrate", usage, argv, long_options);
        if (exit_status >= 0) return exit_status;
      }
    }
  }
  if (optind == argc)
    return ptc_options_usage_error("ptc calibrate", "no file of measured runs", NULL);
  options.quiet = common.quiet;
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  const ptc_status_t status =
      calibrate(&diag, (const char *const *)argv + optind, argc - optind, &options, json);
  ptc_options_print_diagnostics(&common, &diag);
  ptc_diag_deinit(&diag);
  return ptc_status_exit_code(status);
}
