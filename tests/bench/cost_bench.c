// How well the cost model of collectives and kernels meets measurements: cost_bench net|kernel CSV, with the columns of
// nccl_busbw_measured.csv or gemm_attn_eff_measured.csv. Prints the error by group, and that of constants fitted on one
// half and scored on the other.
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/cluster.h"
#include "passes/planner/kernel_cost.h"
#include "passes/planner/net_cost_impl.h"

enum { MAX_ROWS = 4096, MAX_COLUMNS = 32, LINE = 4096 };

// Cuts a line of CSV in place.
static int split(char *line, char *cells[MAX_COLUMNS]) {
  int count = 0;
  for (char *at = line; at && count < MAX_COLUMNS;) {
    if (*at == '"') {
      cells[count++] = ++at;
      at = strchr(at, '"');
      if (!at) break;
      *at++ = '\0';
      at = *at == ',' ? at + 1 : NULL;
    } else {
      cells[count++] = at;
      at = strchr(at, ',');
      if (at) *at++ = '\0';
    }
  }
  for (int i = 0; i < count; i++) cells[i][strcspn(cells[i], "\r\n")] = '\0';
  return count;
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

typedef struct errors_s {
  double all[MAX_ROWS];
  int count;
} errors_t;

static void add_error(errors_t *errors, double error) {
  if (errors->count < MAX_ROWS) errors->all[errors->count++] = fabs(error);
}

static double median(errors_t *errors) {
  if (!errors->count) return 0;
  qsort(errors->all, (size_t)errors->count, sizeof(double), by_value);
  return errors->all[errors->count / 2];
}

static double mean(const errors_t *errors) {
  double sum = 0;
  for (int i = 0; i < errors->count; i++) sum += errors->all[i];
  return errors->count ? sum / errors->count : 0;
}

static void print_errors(const char *name, errors_t *errors) {
  const double middle = median(errors);
  printf("%-46s %4d rows  median %5.1f %%  mean %5.1f %%  90%% %5.1f %%\n", name, errors->count,
         100 * middle, 100 * mean(errors),
         100 * (errors->count ? errors->all[errors->count * 9 / 10] : 0));
}

// --- collectives

typedef struct net_row_s {
  char group[128];
  const double *coefficients;  // the row of constants that it uses
  double terms[PTC_NUM_TERMS], measured_us;
} net_row_t;

// Which cluster of the catalog a name of the file means.
static const char *cluster_of(const char *name) {
  static const char *const known[][2] = {
      {"A100x8 Azure", "azure_nd_a100_v4"}, {"A100", "dgx_a100"}, {"p5.48", "aws_p5"},
      {"P6-B200", "aws_p6_b200"},           {"H200", "dgx_h200"}, {"H100", "dgx_h100"}};
  for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
    if (strstr(name, known[i][0])) return known[i][1];
  return NULL;
}

// Non-negative coefficients of least relative error, with less weight on what is far off.
static void fit(const net_row_t *rows, int count, int half, const double *like,
                const double *coefficients_of, double out[PTC_NUM_TERMS]) {
  for (int k = 0; k < PTC_NUM_TERMS; k++) out[k] = like[k];
  for (int turn = 0; turn < 4000; turn++) {
    const int k = turn % PTC_NUM_TERMS;
    if (like[k] == 0) continue;
    double above = 0, below = 0;
    for (int i = 0; i < count; i++) {
      if (rows[i].coefficients != coefficients_of || i % 2 != half) continue;
      double rest = 1;
      for (int j = 0; j < PTC_NUM_TERMS; j++)
        if (j != k) rest -= out[j] * rows[i].terms[j] / rows[i].measured_us;
      const double x = rows[i].terms[k] / rows[i].measured_us;
      const double weight = 1 / fmax(fabs(rest - out[k] * x), .03);
      above += weight * x * rest;
      below += weight * x * x;
    }
    if (below > 0) out[k] = fmax(above / below, 0);
  }
}

static double relative_error(const net_row_t *row, const double *coefficients) {
  double us = 0;
  for (int k = 0; k < PTC_NUM_TERMS; k++) us += coefficients[k] * row->terms[k];
  return us / row->measured_us - 1;
}

static bool read_net_row(ptc_arena_t *arena, char **cells, net_row_t *row) {
  static const char *const kinds[PTC_NUM_NET_KINDS] = {"all_reduce", "reduce_scatter", "all_gather",
                                                       "alltoall", "send"};
  const int nodes = atoi(cells[2]), ranks = atoi(cells[3]);
  const double bytes = atof(cells[4]);
  row->measured_us = atof(cells[6]);
  const char *name = cluster_of(cells[0]);
  int kind = 0;
  while (kind < PTC_NUM_NET_KINDS && strcmp(kinds[kind], cells[1]) != 0) kind++;
  if (!name || kind == PTC_NUM_NET_KINDS || !(row->measured_us > 0)) return false;
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_cluster_t *cluster;
  char spec[64];
  snprintf(spec, sizeof(spec), "%s:%d", name, nodes);
  const bool found = ptc_cluster_find(&diag, arena, NULL, spec, &cluster) == PTC_OK;
  ptc_diag_deinit(&diag);
  if (!found) return false;
  const ptc_group_shape_t shape = {
      .ranks = ranks, .per_node = ranks / nodes, .nodes = nodes, .sharers = 1};
  row->coefficients = ptc_net_terms(cluster, (ptc_net_kind_t)kind, shape, bytes, row->terms, NULL);
  snprintf(row->group, sizeof(row->group), "%.24s %s %dx%d", cells[0], cells[1], nodes,
           ranks / nodes);
  return true;
}

static int run_net(FILE *file) {
  static net_row_t rows[MAX_ROWS];
  static errors_t errors, all, crossed;
  ptc_arena_t arena;
  ptc_arena_init(&arena);
  char line[LINE], *cells[MAX_COLUMNS];
  int count = 0, left_out = 0;
  if (!fgets(line, sizeof(line), file)) return 1;
  while (fgets(line, sizeof(line), file) && count < MAX_ROWS) {
    if (split(line, cells) >= 7 && read_net_row(&arena, cells, &rows[count]))
      count++;
    else
      left_out++;
  }
  for (int i = 0; i < count; i++) {
    bool seen = false;
    for (int k = 0; k < i; k++) seen |= strcmp(rows[k].group, rows[i].group) == 0;
    if (seen) continue;
    errors.count = 0;
    for (int k = i; k < count; k++)
      if (strcmp(rows[k].group, rows[i].group) == 0)
        add_error(&errors, relative_error(&rows[k], rows[k].coefficients));
    print_errors(rows[i].group, &errors);
  }
  // Rows alternate between the halves.
  for (int i = 0; i < count; i++) {
    add_error(&all, relative_error(&rows[i], rows[i].coefficients));
    bool seen = false;
    for (int k = 0; k < i; k++) seen |= rows[k].coefficients == rows[i].coefficients;
    for (int half = 0; half < 2 && !seen; half++) {
      double fitted[PTC_NUM_TERMS];
      fit(rows, count, half, rows[i].coefficients, rows[i].coefficients, fitted);
      for (int k = 0; k < count; k++)
        if (rows[k].coefficients == rows[i].coefficients && k % 2 != half)
          add_error(&crossed, relative_error(&rows[k], fitted));
    }
  }
  print_errors("all", &all);
  print_errors("all, fitted on one half, scored on the other", &crossed);
  printf("%d rows left out\n", left_out);
  ptc_arena_deinit(&arena);
  return 0;
}

int main(int argc, char **argv) {
  FILE *file = argc == 3 ? fopen(argv[2], "r") : NULL;
  if (!file || strcmp(argv[1], "net") != 0) {
    fprintf(stderr, "usage: cost_bench net CSV\n");
    return 2;
  }
  const int status = run_net(file);
  fclose(file);
  return status;
}
