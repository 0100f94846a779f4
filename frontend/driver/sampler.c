#include "frontend/driver/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/philox.h"
#include "runtime/cell.h"

static ptc_status_t cannot(ptc_session_t *session, const char *what) {
  return ptc_error(session->diag, (ptc_loc_t){.file = session->path}, PTC_INVALID_INPUT,
                   "cannot-sample", "%s", what);
}

ptc_status_t ptc_sampler_open(ptc_session_t *session, ptc_sampler_t *out_sampler) {
  ptc_sampler_t *s = out_sampler;
  *s = (ptc_sampler_t){.session = session};
  s->logits = ptc_session_result(session->eval, "output", "logits");
  if (!s->logits) return cannot(session, "to sample, the model needs `output logits`");
  for (int32_t i = 0; i < session->num_inputs; i++)
    if (!s->tokens || session->input_globals[i]->offset < s->tokens->offset)
      s->tokens = session->input_globals[i];
  const ptc_buffer_t *out = &session->plan->buffers[s->logits->buffer],
                     *in = s->tokens ? &session->plan->buffers[s->tokens->buffer] : NULL;
  int32_t batch_at = -1, seq_at = -1, vocab_at = -1;
  for (int32_t d = 0; in && in->num_dims == 2 && out->num_dims == 3 && d < 3; d++) {
    if (strcmp(out->dim_names[d], in->dim_names[0]) == 0)
      batch_at = d;
    else if (strcmp(out->dim_names[d], in->dim_names[1]) == 0)
      seq_at = d;
    else
      vocab_at = d;
  }
  if (batch_at < 0 || seq_at < 0 || vocab_at < 0)
    return cannot(session,
                  "to sample, the logits must have the input's two dims and the vocabulary's");
  const int64_t strides[3] = {out->extents[1] * out->extents[2], out->extents[2], 1};
  s->window = in->extents[1];
  s->stride_s = strides[seq_at];
  s->stride_v = strides[vocab_at];
  s->vocab = out->extents[vocab_at];
  s->row = ptc_xmalloc(sizeof(double) * 2 * (size_t)s->vocab);
  s->sorted = s->row + s->vocab;
  return PTC_OK;
}

void ptc_sampler_close(ptc_sampler_t *sampler) {
  free(sampler->row);
  *sampler = (ptc_sampler_t){0};
}

bool ptc_sampler_is_bytes(const ptc_sampler_t *sampler) { return sampler->vocab <= 256; }

// --- drawing

static int descending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? 1 : x > y ? -1 : 0;
}

// The smallest logit that may still be drawn.
static double least_logit(const ptc_sampler_t *s, int64_t top_k) {
  if (top_k <= 0 || top_k >= s->vocab) return -INFINITY;
  memcpy(s->sorted, s->row, sizeof(double) * (size_t)s->vocab);
  qsort(s->sorted, (size_t)s->vocab, sizeof(double), descending);
  return s->sorted[top_k - 1];
}

// An index by softmax(logits / temperature), |u| in [0, 1).
static int64_t draw(const ptc_sampler_t *s, const ptc_sample_options_t *options, double u) {
  int64_t best = 0;
  for (int64_t i = 1; i < s->vocab; i++)
    if (s->row[i] > s->row[best]) best = i;
  if (options->temperature <= 0) return best;
  const double top = s->row[best], least = least_logit(s, options->top_k);
  double sum = 0;
  for (int64_t i = 0; i < s->vocab; i++)
    if (s->row[i] >= least) sum += exp((s->row[i] - top) / options->temperature);
  double left = u * sum;
  for (int64_t i = 0; i < s->vocab; i++) {
    if (s->row[i] >= least) left -= exp((s->row[i] - top) / options->temperature);
    if (left < 0) return i;
  }
  return best;
}

// The first row of the input: the end of |context|, then zeros, which a causal model does not see.
static int64_t fill_window(ptc_sampler_t *s, const int64_t *context, int64_t num_context) {
  const int64_t used = num_context < s->window ? num_context : s->window;
  const ptc_dtype_t dtype = s->session->plan->buffers[s->tokens->buffer].dtype;
  const int64_t cell = ptc_dtype_bytes(dtype);
  char *out = ptc_executor_global(s->session->executor, s->tokens, 0);
  for (int64_t i = 0; i < s->window; i++)
    ptc_cell_put(dtype, i < used ? (double)context[num_context - used + i] : 0, out + i * cell);
  return used;
}

static void read_row(ptc_sampler_t *s, int64_t place) {
  const ptc_dtype_t dtype = s->session->plan->buffers[s->logits->buffer].dtype;
  const ptc_cell_t cell = ptc_cell_of_dtype(dtype);
  const char *data = ptc_executor_result(s->session->executor, s->logits, 0);
  for (int64_t i = 0; i < s->vocab; i++)
    s->row[i] =
        ptc_cell_get(cell, data + (place * s->stride_s + i * s->stride_v) * ptc_dtype_bytes(dtype));
}

ptc_status_t ptc_sampler_next(ptc_sampler_t *sampler, const int64_t *context, int64_t num_context,
                              const ptc_sample_options_t *options, int64_t index,
                              int64_t *out_token) {
  ptc_session_t *session = sampler->session;
  const int64_t used = fill_window(sampler, context, num_context);
  PTC_TRY(ptc_executor_run(session->diag, session->executor, session->eval));
  read_row(sampler, used - 1);
  const uint32_t word =
      ptc_philox(options->seed, (uint64_t)index, 0, ptc_path_hash("sample", NULL, 0));
  *out_token = draw(sampler, options, (word >> 8) * 0x1p-24);
  return PTC_OK;
}
