#include "frontend/driver/evaluate.h"

#include <string.h>

static bool is_measured(const ptc_session_t *session, const ptc_plan_result_t *result) {
  return (strcmp(result->role, "loss") == 0 || strcmp(result->role, "metric") == 0) &&
         session->plan->buffers[result->buffer].num_dims == 0;
}

ptc_status_t ptc_evaluate(ptc_session_t *session, const ptc_data_t *data, int64_t max_batches,
                          ptc_evaluation_t *out_evaluation) {
  ptc_evaluation_t *e = out_evaluation;
  *e = (ptc_evaluation_t){0};
  for (int32_t i = 0; i < session->eval->num_results && e->num_values < PTC_MAX_EVALUATED; i++)
    if (is_measured(session, &session->eval->results[i]))
      e->results[e->num_values++] = &session->eval->results[i];
  int64_t num_batches = ptc_data_num_batches(data);
  if (num_batches == 0) num_batches = 1;  // no input has samples: every batch is the same
  if (max_batches > 0 && num_batches > max_batches) num_batches = max_batches;
  bool fillable;
  const int64_t batch = ptc_session_batch(session, &fillable);
  double loss = 0, weight = 0, weights[PTC_MAX_EVALUATED] = {0};
  for (int64_t i = 0; i < num_batches; i++) {
    int64_t samples;
    PTC_TRY(ptc_session_interrupted(session, &e->interrupted));
    if (e->interrupted) break;
    PTC_TRY(ptc_session_fill(session, data, i, &samples));
    if (samples < batch && !fillable && i > 0) break;
    PTC_TRY(ptc_executor_run(session->diag, session->executor, session->eval));
    const double share = batch > 0 ? (double)samples : 1;
    loss += share * ptc_session_loss(session, session->eval);
    weight += share;
    for (int32_t v = 0; v < e->num_values; v++) {
      // Losses leave out what a short batch is filled up with; metrics may not, so they leave out the batch.
      if (i > 0 && samples < batch && strcmp(e->results[v]->role, "loss") != 0) continue;
      e->values[v] += share * ptc_executor_result_number(session->executor, e->results[v]);
      weights[v] += share;
    }
    e->num_batches++;
    e->num_samples += samples;
  }
  e->loss = loss / weight;
  for (int32_t v = 0; v < e->num_values; v++) e->values[v] /= weights[v];
  return PTC_OK;
}
