// Draws tokens from a trained model: one full forward per token, the logits of the last place.
#ifndef PTC_FRONTEND_DRIVER_SAMPLER_H_
#define PTC_FRONTEND_DRIVER_SAMPLER_H_

#include "frontend/driver/session.h"

typedef struct ptc_sampler_s {
  ptc_session_t *session;
  const ptc_plan_global_t *tokens;  // the input of smallest offset; its first row is the window
  int64_t window;                   // its length
  const ptc_plan_result_t *logits;
  int64_t stride_s, stride_v, vocab;  // of the logits, in elements
  double *row, *sorted;               // of |vocab| logits
} ptc_sampler_t;

typedef struct ptc_sample_options_s {
  double temperature;  // 0: the likeliest token
  int64_t top_k;       // only the likeliest so many; 0: all
  uint64_t seed;
} ptc_sample_options_t;

// "cannot-sample" if the model has no `output logits` over its input's two dims and a vocabulary, or the plan
// no task eval. Close it in any case.
ptc_status_t ptc_sampler_open(ptc_session_t *session, ptc_sampler_t *out_sampler);
void ptc_sampler_close(ptc_sampler_t *sampler);
// Whether the tokens are bytes.
bool ptc_sampler_is_bytes(const ptc_sampler_t *sampler);
// Draws the token that follows |context|, of which the last |window| count. num_context >= 1. |index|: which
// random number is used.
ptc_status_t ptc_sampler_next(ptc_sampler_t *sampler, const int64_t *context, int64_t num_context,
                              const ptc_sample_options_t *options, int64_t index,
                              int64_t *out_token);

#endif  // PTC_FRONTEND_DRIVER_SAMPLER_H_
