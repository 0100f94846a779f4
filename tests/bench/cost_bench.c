// How well the cost model of collectives and kernels meets measurements: cost_bench net|kernel CSV, with the columns of
// nccl_busbw_measured.csv or gemm_attn_eff_measured.csv. Prints the error by group, and that of constants fitted on one
// half and scored on the other.
#include <inttypes.h>
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

// --- kernels

typedef struct kernel_row_s {
  char group[64], text[128];
  ptc_kernel_work_t work;
  ptc_device_model_t *device;
  double measured_s;
} kernel_row_t;

enum {
  COLUMN_GPU,
  COLUMN_OP,
  COLUMN_PEAK,
  COLUMN_B,
  COLUMN_M,
  COLUMN_N,
  COLUMN_K,
  COLUMN_LAYOUT,
  COLUMN_ACCUMULATE,
  COLUMN_OUT,
  COLUMN_NG,
  COLUMN_SEQ,
  COLUMN_HEADS,
  COLUMN_KV_HEADS,
  COLUMN_QK_DIM,
  COLUMN_V_DIM,
  COLUMN_CONTIGUOUS,
  COLUMN_EFF,
  COLUMN_EFF_TRUE
};

static int64_t whole(const char *cell) { return strtoll(cell, NULL, 10); }

// "f" forward, "x" data gradient, "w" weight gradient of a product of m rows by an n x k weight, for each of |batch|.
static void set_product(ptc_kernel_work_t *work, char pass, int64_t m, int64_t n, int64_t k) {
  work->m = pass == 'w' ? n : m;
  work->n = pass == 'f' ? n : k;
  work->k = pass == 'f' ? k : pass == 'x' ? n : m;
}

static bool read_kernel_row(char **cells, ptc_device_model_t *const *devices, int32_t num_devices,
                            kernel_row_t *row) {
  const char *name = strncmp(cells[COLUMN_GPU], "B200", 4) == 0 ? "b200" : "a100_pcie_80g";
  row->device = NULL;
  for (int32_t i = 0; i < num_devices; i++)
    if (strcmp(devices[i]->name, name) == 0) row->device = devices[i];
  if (!row->device) return false;
  ptc_kernel_work_t *work = &row->work;
  *work = (ptc_kernel_work_t){.prec = PTC_PREC_BF16, .batch = 1};
  const char *op = cells[COLUMN_OP];
  if (strcmp(op, "matmul") == 0) {
    work->kind = PTC_KW_GEMM;
    if (whole(cells[COLUMN_B]) > 1) work->batch = whole(cells[COLUMN_B]);
    work->m = whole(cells[COLUMN_M]), work->n = whole(cells[COLUMN_N]);
    work->k = whole(cells[COLUMN_K]);
    work->accumulates_f32 = strcmp(cells[COLUMN_OUT], "fp32") == 0;
  } else if (strcmp(op, "group_matmul") == 0) {
    const char *pass = cells[COLUMN_LAYOUT];
    work->kind = PTC_KW_GROUPED_GEMM;
    work->batch = whole(cells[COLUMN_NG]);
    set_product(work,
                strcmp(pass, "fwd") == 0          ? 'f'
                : strcmp(pass, "bwd_grad_w") == 0 ? 'w'
                                                  : 'x',
                whole(cells[COLUMN_M]), whole(cells[COLUMN_N]), whole(cells[COLUMN_K]));
    work->accumulates_f32 = strcmp(cells[COLUMN_ACCUMULATE], "True") == 0;
  } else {
    work->kind = strcmp(op, "sdp_fwd") == 0 ? PTC_KW_ATTENTION : PTC_KW_ATTENTION_GRAD;
    work->batch = whole(cells[COLUMN_B]);
    work->heads = whole(cells[COLUMN_HEADS]), work->kv_heads = whole(cells[COLUMN_KV_HEADS]);
    work->rows = work->cols = whole(cells[COLUMN_SEQ]);
    work->qk_dim = whole(cells[COLUMN_QK_DIM]), work->v_dim = whole(cells[COLUMN_V_DIM]);
    work->causal = true;
  }
  const double rate =
      strtod(cells[COLUMN_PEAK], NULL) * 1e12 * strtod(cells[COLUMN_EFF_TRUE], NULL);
  row->measured_s = ptc_kernel_flops(work) / rate;
  snprintf(row->group, sizeof(row->group), "%s %s %s", name, op,
           work->kind <= PTC_KW_GROUPED_GEMM ? cells[COLUMN_LAYOUT] : "");
  snprintf(row->text, sizeof(row->text),
           "b %" PRId64 " m %" PRId64 " n %" PRId64 " k %" PRId64 " rows %" PRId64 " heads %" PRId64
           " dims %" PRId64 " %" PRId64,
           work->batch, work->m, work->n, work->k, work->rows, work->heads, work->qk_dim,
           work->v_dim);
  return rate > 0;
}

static double kernel_error(const kernel_row_t *row) {
  return log(ptc_kernel_seconds(row->device, &row->work, &(ptc_kernel_options_t){.launch_s = 0}) /
             row->measured_s);
}

// Of the rows of |device| in the half (2: all).
static double kernel_loss(const kernel_row_t *rows, int count, const ptc_device_model_t *device,
                          int half) {
  double sum = 0;
  for (int i = 0; i < count; i++)
    if (rows[i].device == device && (half == 2 || i / 3 % 2 == half))
      sum += fabs(kernel_error(&rows[i]));
  return sum;
}

// Constants of the device by which the loss is least: each is moved while that helps.
static void fit_device(const kernel_row_t *rows, int count, ptc_device_model_t *device, int half) {
  double *const constants[] = {&device->gemm_eff,
                               &device->gemm_burst_eff,
                               &device->gemm_settle_s,
                               &device->gemm_tile_s,
                               &device->attention_eff[1],
                               &device->attention_eff[2],
                               &device->attention_grad_eff[1],
                               &device->attention_grad_eff[2],
                               &device->attention_half};
  double best = kernel_loss(rows, count, device, half);
  for (double step = 1.2; step > 1.002; step = sqrt(step))
    for (size_t turn = 0; turn < 3 * sizeof(constants) / sizeof(*constants); turn++) {
      double *constant = constants[turn % (sizeof(constants) / sizeof(*constants))];
      for (int up = 0; up < 2; up++)
        for (bool better = true; better;) {
          const double before = *constant;
          *constant *= up ? step : 1 / step;
          const double loss = kernel_loss(rows, count, device, half);
          better = loss < best - 1e-9;
          if (better)
            best = loss;
          else
            *constant = before;
        }
    }
}

static void print_device(const ptc_device_model_t *d) {
  printf(
      "  %s: gemm %.3f burst %.3f settle %.3g tile %.3g attention %.3f %.3f %.3f grad %.3f %.3f "
      "%.3f half %.0f\n",
      d->name, d->gemm_eff, d->gemm_burst_eff, d->gemm_settle_s, d->gemm_tile_s,
      d->attention_eff[0], d->attention_eff[1], d->attention_eff[2], d->attention_grad_eff[0],
      d->attention_grad_eff[1], d->attention_grad_eff[2], d->attention_half);
}

static void print_kernel_groups(const kernel_row_t *rows, int count) {
  static errors_t errors;
  for (int i = 0; i < count; i++) {
    bool seen = false;
    for (int k = 0; k < i; k++) seen |= strcmp(rows[k].group, rows[i].group) == 0;
    if (seen) continue;
    errors.count = 0;
    for (int k = i; k < count; k++)
      if (strcmp(rows[k].group, rows[i].group) == 0) add_error(&errors, kernel_error(&rows[k]));
    print_errors(rows[i].group, &errors);
  }
}

static int run_kernels(FILE *file) {
  static kernel_row_t rows[MAX_ROWS];
  static errors_t all, crossed;
  ptc_arena_t arena;
  ptc_diag_t diag;
  ptc_arena_init(&arena);
  ptc_diag_init(&diag);
  ptc_device_model_t **devices;
  int32_t num_devices;
  if (ptc_device_catalog(&diag, &arena, &devices, &num_devices) != PTC_OK) return 1;
  char line[LINE], *cells[MAX_COLUMNS];
  int count = 0, left_out = 0;
  if (!fgets(line, sizeof(line), file)) return 1;
  while (fgets(line, sizeof(line), file) && count < MAX_ROWS) {
    if (split(line, cells) > COLUMN_EFF_TRUE &&
        read_kernel_row(cells, devices, num_devices, &rows[count]))
      count++;
    else
      left_out++;
  }
  print_kernel_groups(rows, count);
  for (int i = 0; i < count; i++) add_error(&all, kernel_error(&rows[i]));
  if (getenv("PTC_ROWS"))
    for (int i = 0; i < count; i++)
      printf("%s %s: %+.3f (%.1f us)\n", rows[i].group, rows[i].text, kernel_error(&rows[i]),
             rows[i].measured_s * 1e6);
  for (int32_t d = 0; d < num_devices; d++) {
    const ptc_device_model_t before = *devices[d];
    if (kernel_loss(rows, count, devices[d], 2) == 0) continue;
    // One layer's three products stand together and stay in one half.
    for (int half = 0; half < 2; half++) {
      fit_device(rows, count, devices[d], half);
      for (int i = 0; i < count; i++)
        if (rows[i].device == devices[d] && i / 3 % 2 != half)
          add_error(&crossed, kernel_error(&rows[i]));
      *devices[d] = before;
    }
    if (getenv("PTC_FIT")) {
      fit_device(rows, count, devices[d], 2);
      print_device(devices[d]);
    }
  }
  if (getenv("PTC_FIT")) print_kernel_groups(rows, count);
  print_errors("all", &all);
  print_errors("all, fitted on one half, scored on the other", &crossed);
  printf("%d rows left out\n", left_out);
  ptc_diag_deinit(&diag);
  ptc_arena_deinit(&arena);
  return 0;
}

int main(int argc, char **argv) {
  FILE *file = argc == 3 ? fopen(argv[2], "r") : NULL;
  if (!file || (strcmp(argv[1], "net") != 0 && strcmp(argv[1], "kernel") != 0)) {
    fprintf(stderr, "usage: cost_bench net|kernel CSV\n");
    return 2;
  }
  const int status = argv[1][0] == 'n' ? run_net(file) : run_kernels(file);
  fclose(file);
  return status;
}
