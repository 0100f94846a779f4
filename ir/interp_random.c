// Random numbers of ops: streams from their operands, and what is made of Philox's words. Each number
// is a function of (seed, step, path, global element index) alone, so that no layout changes it.
#include <math.h>
#include <string.h>

#include "ir/interp_impl.h"

ptc_stream_t ptc_call_stream(const ptc_call_t *call, int32_t first) {
  int64_t turns[PTC_MAX_COUNTS] = {0};
  int32_t num_turns = 0;
  for (int32_t i = first + 2; i < call->op->num_operands && num_turns < PTC_MAX_COUNTS; i++)
    turns[num_turns++] = (int64_t)ptc_call_scalar(call, i);
  return (ptc_stream_t){
      .seed = (uint64_t)(int64_t)ptc_call_scalar(call, first),
      .step = (uint32_t)(int64_t)ptc_call_scalar(call, first + 1),
      .path_hash = ptc_path_hash(ptc_op_string(call->op, "path"), turns, num_turns),
  };
}

static uint32_t draw(const ptc_stream_t *stream, uint64_t element) {
  return ptc_philox(stream->seed, element, stream->step, stream->path_hash);
}

double ptc_stream_uniform(const ptc_stream_t *stream, uint64_t element) {
  return (draw(stream, element) >> 8) * 0x1p-24;
}

// --- the normal distribution

double ptc_normal_cdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }

// A start by Abramowitz and Stegun 26.2.23 (error below 4.5e-4), then Halley steps on
// Phi(z) - p, each of which cubes the error. Near the middle both sides count from 1/2, so that a
// small z keeps its digits.
double ptc_normal_quantile(double p) {
  double tail = p < 0.5 ? p : 1 - p;
  double t = sqrt(-2 * log(tail));
  double z = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                     (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  z = -z;  // of the lower tail
  for (int i = 0; i < 3; i++) {
    double density = 0.39894228040143267794 * exp(-0.5 * z * z);
    double excess = tail > 0.25 ? 0.5 * erf(z * 0.70710678118654752440) - (tail - 0.5)
                                : ptc_normal_cdf(z) - tail;
    double e = excess / density;
    z -= e / (1 + 0.5 * z * e);
  }
  return p < 0.5 ? z : -z;
}

// Box and Muller: lanes (0, 1) and (2, 3) make a pair each.
static double normal(const ptc_stream_t *stream, uint64_t element) {
  const double two_pi = 6.28318530717958647693;
  uint64_t even = element & ~(uint64_t)1;
  double u1 = (draw(stream, even) + 1.0) * 0x1p-32, u2 = draw(stream, even + 1) * 0x1p-32;
  double radius = sqrt(-2 * log(u1));
  return radius * (element & 1 ? sin(two_pi * u2) : cos(two_pi * u2));
}

// Within two standard deviations.
static double truncated_normal(const ptc_stream_t *stream, uint64_t element) {
  double u = (draw(stream, element) + 0.5) * 0x1p-32, low = ptc_normal_cdf(-2);
  return ptc_normal_quantile(low + u * (ptc_normal_cdf(2) - low));
}

ptc_status_t ptc_interp_random(const ptc_call_t *call) {
  const ptc_type_t *type = ptc_call_out(call, 0);
  const char *dist = ptc_op_string(call->op, "dist");
  double a = ptc_op_float(call->op, "a"), b = ptc_op_float(call->op, "b");
  bool uniform = strcmp(dist, "uniform") == 0, truncated = strcmp(dist, "truncated_normal") == 0;
  ptc_stream_t stream = ptc_call_stream(call, 0);
  ptc_nest_t nest;
  ptc_nest_init(&nest, call);
  ptc_nest_add_dims(&nest, type);
  ptc_nest_add_tensor(&nest, type, NULL);
  ptc_numbering_t numbering = ptc_numbering_init(&nest, type->dims, type->num_dims);
  for (bool more = ptc_nest_begin(&nest); more; more = ptc_nest_next(&nest)) {
    uint64_t element = ptc_numbering_get(&numbering, &nest);
    double value;
    if (uniform) {
      value = a + ptc_stream_uniform(&stream, element) * (b - a);
      if (!ptc_dtype_is_float(type->dtype)) value = floor(value);
    } else {
      value = b + a * (truncated ? truncated_normal : normal)(&stream, element);
    }
    call->out[0]->data[nest.offset[0]] = value;
  }
  return PTC_OK;
}

ptc_status_t ptc_interp_dropout(const ptc_call_t *call) {
  const ptc_type_t *type = ptc_call_out(call, 0);
  double p = ptc_op_float(call->op, "p");
  ptc_stream_t stream = ptc_call_stream(call, 1);
  ptc_nest_t nest;
  ptc_nest_init(&nest, call);
  ptc_nest_add_dims(&nest, type);
  ptc_nest_add_tensor(&nest, type, NULL);
  ptc_nest_add_tensor(&nest, ptc_call_in(call, 0), NULL);
  ptc_numbering_t numbering = ptc_numbering_init(&nest, type->dims, type->num_dims);
  for (bool more = ptc_nest_begin(&nest); more; more = ptc_nest_next(&nest)) {
    bool keep = ptc_stream_uniform(&stream, ptc_numbering_get(&numbering, &nest)) >= p;
    double x = call->in[0]->data[nest.offset[1]];
    call->out[0]->data[nest.offset[0]] = keep ? x / (1 - p) : 0;
  }
  return PTC_OK;
}
