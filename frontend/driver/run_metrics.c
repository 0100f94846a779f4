#include "frontend/driver/run_metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ptc_status_t cannot_write(ptc_diag_t *diag, const ptc_run_metrics_t *metrics) {
  return ptc_error(diag, (ptc_loc_t){.file = metrics->path.data}, PTC_IO, "write-metrics",
                   "cannot write the metrics: %s", strerror(errno));
}

// How many bytes at the file's start hold finished lines of steps up to |step|.
static int64_t bytes_to_keep(const char *path, int64_t step) {
  FILE *file = step > 0 ? fopen(path, "re") : NULL;
  if (!file) return 0;
  char *line = NULL;
  size_t room = 0;
  int64_t keep = 0;
  for (ssize_t len; (len = getline(&line, &room, file)) > 0 && line[len - 1] == '\n';) {
    int64_t at;
    if (sscanf(line, "{\"step\": %" SCNd64, &at) != 1 || at > step) break;
    keep += len;
  }
  free(line);
  fclose(file);
  return keep;
}

ptc_status_t ptc_run_metrics_open(ptc_diag_t *diag, const char *run_dir, int64_t step,
                                  ptc_run_metrics_t *out_metrics) {
  ptc_run_metrics_t *m = out_metrics;
  *m = (ptc_run_metrics_t){0};
  ptc_str_printf(&m->path, "%s/metrics.jsonl", run_dir);
  const int64_t keep = bytes_to_keep(m->path.data, step);
  m->file = fopen(m->path.data, "ae");
  if (!m->file || ftruncate(fileno(m->file), keep) != 0) return cannot_write(diag, m);
  return PTC_OK;
}

void ptc_run_metrics_close(ptc_run_metrics_t *metrics) {
  if (metrics->file) fclose(metrics->file);
  ptc_str_deinit(&metrics->path);
  ptc_str_deinit(&metrics->line);
  metrics->file = NULL;
}

void ptc_run_metrics_begin(ptc_run_metrics_t *metrics, int64_t step) {
  metrics->line.len = 0;
  ptc_str_printf(&metrics->line, "{\"step\": %" PRId64, step);
}

static void append_number(ptc_str_t *line, double value) {
  if (isfinite(value))
    ptc_str_printf(line, "%.9g", value);
  else
    ptc_str_append(line, "null");
}

void ptc_run_metrics_add(ptc_run_metrics_t *metrics, const char *name, double value) {
  ptc_str_printf(&metrics->line, ", \"%s\": ", name);
  append_number(&metrics->line, value);
}

void ptc_run_metrics_add_named(ptc_run_metrics_t *metrics, const char *role, const char *name,
                               double value) {
  // Names are identifiers of the language, perhaps with dots: nothing to escape.
  ptc_str_printf(&metrics->line, ", \"%s.%s\": ", role, name);
  append_number(&metrics->line, value);
}

ptc_status_t ptc_run_metrics_end(ptc_diag_t *diag, ptc_run_metrics_t *metrics) {
  ptc_str_append(&metrics->line, "}\n");
  // One write: a reader sees whole lines.
  const bool ok =
      fwrite(metrics->line.data, 1, metrics->line.len, metrics->file) == metrics->line.len &&
      fflush(metrics->file) == 0;
  return ok ? PTC_OK : cannot_write(diag, metrics);
}
