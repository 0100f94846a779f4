// Optimizer updates. Everything in one step of double arithmetic; each result is rounded once.
#include <math.h>

#include "ir/interp_impl.h"

// A nest over the parameter's dims; tensors: operands 0 .. num_in - 1, then all results.
static void update_nest(ptc_nest_t *nest, const ptc_call_t *call, int32_t num_in) {
  ptc_nest_init(nest, call);
  ptc_nest_add_dims(nest, ptc_call_in(call, 0));
  for (int32_t i = 0; i < num_in; i++) ptc_nest_add_tensor(nest, ptc_call_in(call, i), NULL);
  for (int32_t i = 0; i < call->op->num_results; i++)
    ptc_nest_add_tensor(nest, ptc_call_out(call, i), NULL);
}

static double get(const ptc_call_t *call, const ptc_nest_t *nest, int32_t index) {
  return call->in[index]->data[nest->offset[index]];
}

// Sets result |index| at this place.
static void put(const ptc_call_t *call, const ptc_nest_t *nest, int32_t num_in, int32_t index,
                double value) {
  call->out[index]->data[nest->offset[num_in + index]] = value;
}

// Loshchilov and Hutter 2019 (arXiv:1711.05101), algorithm 2, with the decay scaled by lr:
// param' = param - lr * (mhat / (sqrt(vhat) + eps) + decay * param); t counts from 1.
ptc_status_t ptc_interp_adamw(const ptc_call_t *call) {
  double lr = ptc_call_scalar(call, 4), beta1 = ptc_call_scalar(call, 5);
  double beta2 = ptc_call_scalar(call, 6), eps = ptc_call_scalar(call, 7);
  double decay = ptc_call_scalar(call, 8), t = ptc_call_scalar(call, 9);
  double gscale = ptc_call_scalar(call, 10);
  bool skip = ptc_call_scalar(call, 11) != 0;
  double correct1 = 1 - pow(beta1, t), correct2 = 1 - pow(beta2, t);
  ptc_nest_t nest;
  update_nest(&nest, call, 4);
  for (bool more = ptc_nest_begin(&nest); more; more = ptc_nest_next(&nest)) {
    double param = get(call, &nest, 0), m = get(call, &nest, 2), v = get(call, &nest, 3);
    if (!skip) {
      double g = get(call, &nest, 1) * gscale;
      m = beta1 * m + (1 - beta1) * g;
      v = beta2 * v + (1 - beta2) * g * g;
      param -= lr * (m / correct1 / (sqrt(v / correct2) + eps) + decay * param);
    }
    put(call, &nest, 4, 0, param);
    put(call, &nest, 4, 1, m);
    put(call, &nest, 4, 2, v);
  }
  return PTC_OK;
}

// Sutskever et al. 2013, "On the importance of initialization and momentum", in the form
// m' = momentum * m + g, g = gscale * grad + decay * param; Nesterov steps by g + momentum * m'.
ptc_status_t ptc_interp_sgd(const ptc_call_t *call) {
  double lr = ptc_call_scalar(call, 3), momentum = ptc_call_scalar(call, 4);
  double decay = ptc_call_scalar(call, 5), gscale = ptc_call_scalar(call, 6);
  bool skip = ptc_call_scalar(call, 7) != 0, nesterov = ptc_op_bool(call->op, "nesterov");
  ptc_nest_t nest;
  update_nest(&nest, call, 3);
  for (bool more = ptc_nest_begin(&nest); more; more = ptc_nest_next(&nest)) {
    double param = get(call, &nest, 0), m = get(call, &nest, 2);
    if (!skip) {
      double g = get(call, &nest, 1) * gscale + decay * param;
      m = momentum * m + g;
      param -= lr * (nesterov ? g + momentum * m : m);
    }
    put(call, &nest, 3, 0, param);
    put(call, &nest, 3, 1, m);
  }
  return PTC_OK;
}
