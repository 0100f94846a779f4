#include "frontend/driver/profile_report.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/units.h"
#include "frontend/driver/volume.h"

typedef struct row_s {
  const ptc_plan_kernel_t *kernel;  // NULL: what |what| says
  const char *what;
  ptc_kernel_time_t time;
} row_t;

static int by_time(const void *a, const void *b) {
  const int64_t x = ((const row_t *)a)->time.time_ns, y = ((const row_t *)b)->time.time_ns;
  return x < y ? 1 : x > y ? -1 : 0;
}

// Those that ran, costliest first. The caller frees it.
static row_t *make_rows(const ptc_plan_t *plan, const ptc_executor_t *executor,
                        int32_t *out_count) {
  const ptc_kernel_time_t *times = ptc_executor_profile(executor);
  row_t *rows = ptc_xmalloc(sizeof *rows * (size_t)(plan->num_kernels + 2));
  *out_count = 0;
  for (int32_t k = 0; k < plan->num_kernels + 2; k++)
    if (times[k].num_calls > 0)
      rows[(*out_count)++] = (row_t){k < plan->num_kernels ? &plan->kernels[k] : NULL,
                                     k == plan->num_kernels ? "copies" : "collectives", times[k]};
  if (*out_count) qsort(rows, (size_t)*out_count, sizeof *rows, by_time);
  return rows;
}

static double rate(double amount, const row_t *row) {
  return row->time.time_ns > 0 ? amount * (double)row->time.num_calls / (double)row->time.time_ns
                               : 0;
}

// What rank 0 has read from its peers, as counted, and what the plan says of it.
static void print_volume(const ptc_plan_t *plan, const ptc_executor_t *executor, int64_t num_steps,
                         FILE *out) {
  const ptc_exchange_t *exchange = ptc_executor_exchange(executor);
  const ptc_task_t *train = ptc_plan_find_task(plan, "train");
  if (!exchange || !train || num_steps <= 0) return;
  ptc_arena_t arena = {0};
  ptc_volume_row_t *volume;
  const int32_t count =
      ptc_volume_of(plan, train, ptc_exchange_comm(exchange)->rank, &arena, &volume);
  fprintf(out, "%12s %12s  bytes from peers a step, counted and planned\n", "counted", "planned");
  for (int32_t i = 0; i < count; i++) {
    const ptc_volume_row_t *row = &volume[i];
    if (row->first)
      fprintf(out, "%12" PRId64, ptc_exchange_bytes(exchange, row->first) / num_steps);
    else
      fprintf(out, "%12s", "");  // messages are not counted by step
    fprintf(out, " %12" PRId64 "  %s %s %s\n", row->bytes, row->op, row->first ? "over" : "from",
            row->axes);
  }
  ptc_arena_deinit(&arena);
}

void ptc_profile_print(const ptc_plan_t *plan, const ptc_executor_t *executor, int64_t num_steps,
                       double wall_s, FILE *out) {
  int32_t count;
  row_t *rows = make_rows(plan, executor, &count);
  const double steps = num_steps > 0 ? (double)num_steps : 1;
  double sum_ns = 0;
  fprintf(out, "%8s %6s %8s %9s %8s  kernel\n", "ms/step", "share", "calls", "GFLOP/s", "GB/s");
  for (int32_t i = 0; i < count; i++) {
    const row_t *row = &rows[i];
    const double ns = (double)row->time.time_ns;
    sum_ns += ns;
    fprintf(out, "%8.2f %5.1f%% %8.0f", ns * 1e-6 / steps, wall_s > 0 ? ns * 1e-7 / wall_s : 0,
            (double)row->time.num_calls / steps);
    if (!row->kernel) {
      fprintf(out, " %9s %8s  %s\n", "", "", row->what);
      continue;
    }
    fprintf(out, " %9.1f %8.2f  %s (%s", rate(row->kernel->flops, row),
            rate((double)row->kernel->min_bytes, row), row->kernel->name, row->kernel->about);
    if (row->kernel->loc_file)
      fprintf(out, ", %s:%d", row->kernel->loc_file, (int)row->kernel->loc_line);
    fputs(")\n", out);
  }
  fprintf(out, "%8.2f %5.1f%%  all kernels, of %.2f ms a step: %.1f GFLOP/s over the whole step\n",
          sum_ns * 1e-6 / steps, wall_s > 0 ? sum_ns * 1e-7 / wall_s : 0, wall_s * 1e3 / steps,
          wall_s > 0 ? plan->flops_per_step * steps / wall_s * 1e-9 : 0);
  free(rows);
  print_volume(plan, executor, num_steps, out);
}

ptc_status_t ptc_profile_write(ptc_diag_t *diag, const ptc_plan_t *plan,
                               const ptc_executor_t *executor, int64_t num_steps, double wall_s,
                               const char *path) {
  int32_t count;
  row_t *rows = make_rows(plan, executor, &count);
  json_t *list = json_array();
  for (int32_t i = 0; i < count; i++) {
    const ptc_plan_kernel_t *kernel = rows[i].kernel;
    json_array_append_new(
        list,
        json_pack("{s:s, s:s, s:I, s:f, s:f, s:I}", "kernel", kernel ? kernel->name : rows[i].what,
                  "about", kernel ? kernel->about : "", "calls", (json_int_t)rows[i].time.num_calls,
                  "seconds", (double)rows[i].time.time_ns * 1e-9, "flops_per_call",
                  kernel ? kernel->flops : 0.0, "min_bytes_per_call",
                  (json_int_t)(kernel ? kernel->min_bytes : 0)));
  }
  json_t *root = json_pack("{s:I, s:f, s:f, s:o}", "steps", (json_int_t)num_steps, "seconds",
                           wall_s, "flops_per_step", plan->flops_per_step, "kernels", list);
  errno = 0;
  const bool ok = root && json_dump_file(root, path, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0;
  json_decref(root);
  free(rows);
  if (ok) return PTC_OK;
  return ptc_error(diag, (ptc_loc_t){.file = path}, PTC_IO, "write-profile",
                   "cannot write the profile: %s", strerror(errno));
}
