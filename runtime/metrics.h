// What a run says of itself: RUN/metrics.jsonl, one JSON object per line, in order of steps.
//
//   {"kind":"train","step":12,"loss":3.25,"losses":{"main":3.2},"metrics":{"accuracy":0.1},"lr":0.0006,
//    "tokens_per_s":41000,"seconds":9.1,"peak_bytes":3200000000}
//
// JSON has no NaN and no infinity: such a number is null, and "nonfinite":{"loss":"nan"} says what it was
// ("nan", "inf", "-inf"; names in groups as "losses.main").
#ifndef PTC_RUNTIME_METRICS_H_
#define PTC_RUNTIME_METRICS_H_

#include "ir/base/diag.h"
#include "ir/base/str.h"

typedef struct ptc_metrics_number_s {
  const char *name;
  double value;
} ptc_metrics_number_t;

typedef struct ptc_metrics_record_s {
  const char *kind;  // "train", "eval"
  int64_t step;      // steps done
  double loss;       // sum of all losses
  const ptc_metrics_number_t *losses, *metrics;
  int32_t num_losses, num_metrics;
  double lr;            // below 0: none
  double tokens_per_s;  // 0: none
  double seconds;       // since the run began; 0: none
  int64_t peak_bytes;   // of the process; 0: none
} ptc_metrics_record_t;

// --- writing

typedef struct ptc_metrics_writer_s {
  ptc_str_t path, line;
  int fd;  // -1: not open
} ptc_metrics_writer_t;

// Opens |path| to append to it, after dropping what a run that goes on from |step| will say again: lines of later
// steps, and a last line that was cut off. Lines that are no records are dropped with a warning ("metrics-line").
// PTC_IO with "read-file" or "write-file".
ptc_status_t ptc_metrics_open(ptc_diag_t *diag, const char *path, int64_t step,
                              ptc_metrics_writer_t *out_writer);
// Appends one line, in one write: a kill cuts off at most the last line. "write-file".
ptc_status_t ptc_metrics_write(ptc_diag_t *diag, ptc_metrics_writer_t *writer,
                               const ptc_metrics_record_t *record);
// Waits until all lines are on disk. "write-file".
ptc_status_t ptc_metrics_sync(ptc_diag_t *diag, ptc_metrics_writer_t *writer);
void ptc_metrics_close(ptc_metrics_writer_t *writer);

// --- reading

typedef struct ptc_metrics_s {
  ptc_arena_t arena;  // owns everything below
  ptc_metrics_record_t *records;
  int64_t count;
} ptc_metrics_t;

// Reads all lines; any content is allowed. A last line without its end is left out; another line that is no
// record is an error, "metrics-line" (PTC_INVALID_INPUT), with its number. "read-file" (PTC_IO).
ptc_status_t ptc_metrics_read(ptc_diag_t *diag, const char *path, ptc_metrics_t *out_metrics);
// The same of a text; |path| is for diagnostics.
ptc_status_t ptc_metrics_parse(ptc_diag_t *diag, const char *path, const char *text, int64_t len,
                               ptc_metrics_t *out_metrics);
void ptc_metrics_deinit(ptc_metrics_t *metrics);

#endif  // PTC_RUNTIME_METRICS_H_
