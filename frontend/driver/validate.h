// Predictions of measured runs, and what they say of the cost model.
#ifndef PTC_FRONTEND_DRIVER_VALIDATE_H_
#define PTC_FRONTEND_DRIVER_VALIDATE_H_

#include <stdio.h>

#include "frontend/driver/measured_run.h"

typedef struct ptc_validate_options_s {
  const ptc_stack_t *stack;  // of all rows; NULL: told from each row
  const char *quality;       // letters
  const char *format;        // "json", "csv"; NULL, "text": tables
  const char *svg;           // a file, or NULL
  const char *only;          // prefix of ids, or NULL
  int32_t worst;
  bool quiet;
} ptc_validate_options_t;

ptc_status_t ptc_validate(ptc_diag_t *diag, const char *const *paths, int32_t num_paths,
                          const ptc_validate_options_t *options, FILE *out);

typedef struct ptc_validated_s {
  const ptc_measured_run_t *run;
  ptc_prediction_t predicted;
  double time_error;    // log(predicted / measured); NAN: no time was measured
  double memory_error;  // the same of memory
} ptc_validated_t;

// Rows that could be predicted, rows that could not (run->reason says why).
void ptc_validate_report(const ptc_validated_t *rows, int32_t count,
                         const ptc_measured_run_t *const *refused, int32_t num_refused,
                         const ptc_validate_options_t *options, FILE *out);
void ptc_validate_draw(const ptc_validated_t *rows, int32_t count, FILE *out);

#endif  // PTC_FRONTEND_DRIVER_VALIDATE_H_
