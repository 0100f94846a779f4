// Elementwise ops: one function of one, two or three numbers, over dims that broadcast by name.
// Special values follow IEEE 754; min, max and relu hand a NaN on.
#include <math.h>

#include "ir/interp_impl.h"

typedef double (*fn1_t)(double x);
typedef double (*fn2_t)(double x, double y);

double ptc_sigmoid(double x) {
  if (x >= 0) return 1 / (1 + exp(-x));
  double e = exp(x);
  return e / (1 + e);
}

static const double INV_SQRT2 = 0.70710678118654752440;     // 1 / sqrt(2)
static const double SQRT_2_PI = 0.79788456080286535588;     // sqrt(2 / pi)
static const double INV_SQRT_2PI = 0.39894228040143267794;  // 1 / sqrt(2 pi)
static const double GELU_CUBIC = 0.044715;  // Hendrycks and Gimpel 2016 (arXiv:1606.08415)

static double f_neg(double x) { return -x; }
static double f_rsqrt(double x) { return 1 / sqrt(x); }
static double f_sign(double x) { return isnan(x) ? x : (double)((x > 0) - (x < 0)); }
static double f_relu(double x) { return x > 0 || isnan(x) ? x : 0; }
static double f_silu(double x) { return x * ptc_sigmoid(x); }
static double f_softplus(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }
static double f_not(double x) { return x == 0; }
static double f_is_finite(double x) { return isfinite(x) != 0; }
static double f_same(double x) { return x; }
static double f_gelu_erf(double x) { return 0.5 * x * (1 + erf(x * INV_SQRT2)); }
static double f_gelu_tanh(double x) {
  return 0.5 * x * (1 + tanh(SQRT_2_PI * (x + GELU_CUBIC * x * x * x)));
}

static double f_add(double x, double y) { return x + y; }
static double f_sub(double x, double y) { return x - y; }
static double f_mul(double x, double y) { return x * y; }
static double f_div(double x, double y) { return x / y; }
static double f_mod(double x, double y) { return x - floor(x / y) * y; }
static double f_min(double x, double y) { return x < y || isnan(x) ? x : y; }
static double f_max(double x, double y) { return x > y || isnan(x) ? x : y; }
static double f_eq(double x, double y) { return x == y; }
static double f_ne(double x, double y) { return x != y; }
static double f_lt(double x, double y) { return x < y; }
static double f_le(double x, double y) { return x <= y; }
static double f_and(double x, double y) { return x != 0 && y != 0; }
static double f_or(double x, double y) { return x != 0 || y != 0; }

static double f_tanh_grad(double y, double dy) { return dy * (1 - y * y); }
static double f_sigmoid_grad(double y, double dy) { return dy * (y * (1 - y)); }
static double f_silu_grad(double x, double dy) {
  double s = ptc_sigmoid(x);
  return dy * (s * (1 + x * (1 - s)));
}
// d/dx of x Phi(x) = Phi(x) + x phi(x)
static double f_gelu_erf_grad(double x, double dy) {
  double cdf = 0.5 * (1 + erf(x * INV_SQRT2));
  return dy * (cdf + x * INV_SQRT_2PI * exp(-0.5 * x * x));
}
static double f_gelu_tanh_grad(double x, double dy) {
  double t = tanh(SQRT_2_PI * (x + GELU_CUBIC * x * x * x));
  double inner = SQRT_2_PI * (1 + 3 * GELU_CUBIC * x * x);
  return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner);
}

// A nest over the result (tensor 0) and all operands (1, 2, ...), its innermost loop taken out.
typedef struct rows_s {
  ptc_nest_t nest;
  int64_t length, step[4];
} rows_t;

static void rows_init(rows_t *rows, const ptc_call_t *call) {
  ptc_nest_t *nest = &rows->nest;
  ptc_nest_init(nest, call);
  ptc_nest_add_dims(nest, ptc_call_out(call, 0));
  ptc_nest_add_tensor(nest, ptc_call_out(call, 0), NULL);
  for (int32_t i = 0; i < call->op->num_operands && i < 3; i++)
    ptc_nest_add_tensor(nest, ptc_call_in(call, i), NULL);
  ptc_nest_collapse(nest);
  rows->length = 1;
  for (int32_t t = 0; t < 4; t++) rows->step[t] = 0;
  if (!nest->num_dims) return;
  int32_t last = --nest->num_dims;
  rows->length = nest->extent[last];
  for (int32_t t = 0; t < nest->num_tensors; t++) rows->step[t] = nest->stride[t][last];
}

static ptc_status_t map1(const ptc_call_t *call, fn1_t fn) {
  rows_t rows;
  rows_init(&rows, call);
  for (bool more = ptc_nest_begin(&rows.nest); more; more = ptc_nest_next(&rows.nest)) {
    double *y = call->out[0]->data + rows.nest.offset[0];
    const double *x = call->in[0]->data + rows.nest.offset[1];
    for (int64_t i = 0; i < rows.length; i++) y[i * rows.step[0]] = fn(x[i * rows.step[1]]);
  }
  return PTC_OK;
}

static ptc_status_t map2(const ptc_call_t *call, fn2_t fn) {
  rows_t rows;
  rows_init(&rows, call);
  for (bool more = ptc_nest_begin(&rows.nest); more; more = ptc_nest_next(&rows.nest)) {
    double *z = call->out[0]->data + rows.nest.offset[0];
    const double *x = call->in[0]->data + rows.nest.offset[1];
    const double *y = call->in[1]->data + rows.nest.offset[2];
    for (int64_t i = 0; i < rows.length; i++)
      z[i * rows.step[0]] = fn(x[i * rows.step[1]], y[i * rows.step[2]]);
  }
  return PTC_OK;
}

ptc_status_t ptc_interp_where(const ptc_call_t *call) {
  rows_t rows;
  rows_init(&rows, call);
  for (bool more = ptc_nest_begin(&rows.nest); more; more = ptc_nest_next(&rows.nest)) {
    double *z = call->out[0]->data + rows.nest.offset[0];
    const double *c = call->in[0]->data + rows.nest.offset[1];
    const double *x = call->in[1]->data + rows.nest.offset[2];
    const double *y = call->in[2]->data + rows.nest.offset[3];
    for (int64_t i = 0; i < rows.length; i++)
      z[i * rows.step[0]] = c[i * rows.step[1]] != 0 ? x[i * rows.step[2]] : y[i * rows.step[3]];
  }
  return PTC_OK;
}

#define MAP1(name, fn) \
  ptc_status_t ptc_interp_##name(const ptc_call_t *call) { return map1(call, fn); }
#define MAP2(name, fn) \
  ptc_status_t ptc_interp_##name(const ptc_call_t *call) { return map2(call, fn); }

MAP1(neg, f_neg)
MAP1(exp, exp)
MAP1(log, log)
MAP1(sin, sin)
MAP1(cos, cos)
MAP1(tanh, tanh)
MAP1(sqrt, sqrt)
MAP1(rsqrt, f_rsqrt)
MAP1(erf, erf)
MAP1(abs, fabs)
MAP1(sign, f_sign)
MAP1(floor, floor)
MAP1(ceil, ceil)
MAP1(relu, f_relu)
MAP1(sigmoid, ptc_sigmoid)
MAP1(silu, f_silu)
MAP1(softplus, f_softplus)
MAP1(not, f_not)
MAP1(is_finite, f_is_finite)
// The rounding of the result to its dtype is the cast.
MAP1(cast, f_same)
// Of the same elements in another order of dims, or repeated along new dims.
MAP1(broadcast, f_same)

MAP2(add, f_add)
MAP2(sub, f_sub)
MAP2(mul, f_mul)
MAP2(div, f_div)
MAP2(mod, f_mod)
MAP2(pow, pow)
MAP2(min, f_min)
MAP2(max, f_max)
MAP2(eq, f_eq)
MAP2(ne, f_ne)
MAP2(lt, f_lt)
MAP2(le, f_le)
MAP2(and, f_and)
MAP2(or, f_or)
MAP2(tanh_grad, f_tanh_grad)
MAP2(sigmoid_grad, f_sigmoid_grad)
MAP2(silu_grad, f_silu_grad)
MAP2(accumulate, f_add)

static bool gelu_uses_tanh(const ptc_call_t *call) {
  const char *approx = ptc_op_string(call->op, "approx");
  return approx && approx[0] == 't';
}

ptc_status_t ptc_interp_gelu(const ptc_call_t *call) {
  return map1(call, gelu_uses_tanh(call) ? f_gelu_tanh : f_gelu_erf);
}

ptc_status_t ptc_interp_gelu_grad(const ptc_call_t *call) {
  return map2(call, gelu_uses_tanh(call) ? f_gelu_tanh_grad : f_gelu_erf_grad);
}
