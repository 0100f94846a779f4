// Predictions of measured runs, and what they say of the cost model.
#ifndef PTC_FRONTEND_DRIVER_VALIDATE_H_
#define PTC_FRONTEND_DRIVER_VALIDATE_H_

#include <stdio.h>

#include "frontend/driver/measured_run.h"
#include "ir/base/vec.h"

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

// --- its parts, for calibrate

typedef struct ptc_alternative_s {
  ptc_choice_t choice;
  ptc_work_pieces_t pieces;
} ptc_alternative_t;

enum { PTC_MAX_ALTERNATIVES = 16 };

// A row, ready to be predicted with any constants of its stack.
typedef struct ptc_prepared_s {
  ptc_measured_run_t *run;
  const ptc_cluster_t *cluster;
  ptc_alternative_t items[PTC_MAX_ALTERNATIVES];  // where the row leaves something open
  int32_t count;
} ptc_prepared_t;

typedef struct ptc_validator_s {
  ptc_arena_t arena, scratch;  // scratch: of one row
  struct ptc_validate_model_s *models;
  ptc_measured_catalog_t catalog;
  PTC_VEC(ptc_prepared_t *) rows;
  PTC_VEC(const ptc_measured_run_t *) refused;
} ptc_validator_t;

// |*out| is to be closed also on error.
ptc_status_t ptc_validator_open(ptc_diag_t *diag, const char *const *paths, int32_t num_paths,
                                const ptc_validate_options_t *options, ptc_validator_t **out);
void ptc_validator_close(ptc_validator_t *v);

typedef struct ptc_validated_s {
  const ptc_measured_run_t *run;
  ptc_prediction_t predicted;
  double time_error;    // log(predicted / measured); NAN: no time was measured
  double memory_bytes;  // predicted, of the kind that was measured
  double memory_error;  // the same of memory
} ptc_validated_t;

// |base| with what the row says of precision.
ptc_stack_t ptc_validate_stack(const ptc_measured_run_t *run, const ptc_stack_t *base);
// False: the split does not fit the model.
bool ptc_validate_predict(const ptc_prepared_t *row, const ptc_stack_t *base, ptc_validated_t *out);

// Rows that could be predicted, rows that could not (run->reason says why).
void ptc_validate_report(const ptc_validated_t *rows, int32_t count,
                         const ptc_measured_run_t *const *refused, int32_t num_refused,
                         const ptc_validate_options_t *options, FILE *out);
void ptc_validate_draw(const ptc_validated_t *rows, int32_t count, FILE *out);

#endif  // PTC_FRONTEND_DRIVER_VALIDATE_H_
