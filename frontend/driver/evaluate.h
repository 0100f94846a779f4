// The task eval over held-out data.
#ifndef PTC_FRONTEND_DRIVER_EVALUATE_H_
#define PTC_FRONTEND_DRIVER_EVALUATE_H_

#include "frontend/driver/session.h"

enum { PTC_MAX_EVALUATED = 64 };

typedef struct ptc_evaluation_s {
  double loss;  // mean of the sum of all losses; NaN if there was no batch
  int64_t num_batches, num_samples;
  bool interrupted;  // before it was done
  // Mean of each loss and metric, the first of them; names "loss.NAME" and "metric.NAME" are for the reader.
  int32_t num_values;
  const ptc_plan_result_t *results[PTC_MAX_EVALUATED];
  double values[PTC_MAX_EVALUATED];
} ptc_evaluation_t;

// Runs @eval on the batches of |data| (opened in order), at most |max_batches| of them (0: all), and takes
// means weighted by samples. A short last batch counts if the model ignores what fills it up, or if it is
// the only one. Overwrites the inputs. Ends early, without an error, when interrupted (interrupt.h).
ptc_status_t ptc_evaluate(ptc_session_t *session, const ptc_data_t *data, int64_t max_batches,
                          ptc_evaluation_t *out_evaluation);

#endif  // PTC_FRONTEND_DRIVER_EVALUATE_H_
