#include "tests/support/kernel_eval.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/interp_impl.h"

typedef struct eval_s {
  const ptc_kernel_t *kernel;
  double *const *params;
  const int64_t *turns;
  bool exact, failed;
  double **data;   // per expression: its values, row-major over the loops that it varies over
  int64_t *count;  // how many
} eval_t;

static double rounded(const eval_t *v, ptc_dtype_t dtype, double x) {
  if (v->exact && ptc_dtype_is_float(dtype)) return x;
  return ptc_dtype_round(dtype, x);
}

// --- points of the loops in a mask

typedef struct walk_s {
  const ptc_kernel_t *kernel;
  uint32_t mask;
  int64_t at[PTC_KERNEL_MAX_DIMS];
} walk_t;

static bool walk_begin(walk_t *w, const ptc_kernel_t *kernel, uint32_t mask) {
  *w = (walk_t){.kernel = kernel, .mask = mask};
  for (int32_t i = 0; i < kernel->num_dims; i++)
    if ((mask >> i & 1) && kernel->dims[i].extent == 0) return false;
  return true;
}

static bool walk_next(walk_t *w) {
  for (int32_t i = w->kernel->num_dims - 1; i >= 0; i--) {
    if (!(w->mask >> i & 1)) continue;
    if (++w->at[i] < w->kernel->dims[i].extent) return true;
    w->at[i] = 0;
  }
  return false;
}

// The number of the current point among those of |mask|.
static int64_t number_of(const walk_t *w, uint32_t mask) {
  int64_t n = 0;
  for (int32_t i = 0; i < w->kernel->num_dims; i++)
    if (mask >> i & 1) n = n * w->kernel->dims[i].extent + w->at[i];
  return n;
}

static double value_at(const eval_t *v, const walk_t *w, ptc_kx_t x) {
  return v->data[x][number_of(w, v->kernel->exprs[x].varies)];
}

// --- scalars

static double sigmoid(double x) { return ptc_sigmoid(x); }

static double gelu(double x, bool tanh_form) {
  const double c = 0.79788456080286535588;
  if (tanh_form) return 0.5 * x * (1 + tanh(c * (x + 0.044715 * x * x * x)));
  return x * ptc_normal_cdf(x);
}

static double gelu_slope(double x, bool tanh_form) {
  const double c = 0.79788456080286535588;
  if (!tanh_form) return ptc_normal_cdf(x) + x * exp(-0.5 * x * x) * 0.39894228040143267794;
  const double t = tanh(c * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

static double apply(const ptc_kexpr_t *e, ptc_dtype_t operand, const double *a) {
  switch (e->opcode) {
    case PTC_OP_NEG: return -a[0];
    case PTC_OP_EXP: return exp(a[0]);
    case PTC_OP_LOG: return log(a[0]);
    case PTC_OP_SIN: return sin(a[0]);
    case PTC_OP_COS: return cos(a[0]);
    case PTC_OP_TANH: return tanh(a[0]);
    case PTC_OP_SQRT: return sqrt(a[0]);
    case PTC_OP_RSQRT: return 1 / sqrt(a[0]);
    case PTC_OP_ERF: return erf(a[0]);
    case PTC_OP_ABS: return fabs(a[0]);
    case PTC_OP_SIGN: return isnan(a[0]) ? a[0] : (a[0] > 0) - (a[0] < 0);
    case PTC_OP_FLOOR: return floor(a[0]);
    case PTC_OP_CEIL: return ceil(a[0]);
    case PTC_OP_RELU: return a[0] > 0 || isnan(a[0]) ? a[0] : 0;
    case PTC_OP_SIGMOID: return sigmoid(a[0]);
    case PTC_OP_SILU: return a[0] * sigmoid(a[0]);
    case PTC_OP_GELU: return gelu(a[0], e->gelu_tanh);
    case PTC_OP_SOFTPLUS: return fmax(a[0], 0) + log1p(exp(-fabs(a[0])));
    case PTC_OP_NOT: return a[0] == 0;
    case PTC_OP_IS_FINITE: return isfinite(a[0]) != 0;
    case PTC_OP_CAST: return a[0];
    case PTC_OP_ADD: return a[0] + a[1];
    case PTC_OP_SUB: return a[0] - a[1];
    case PTC_OP_MUL: return a[0] * a[1];
    case PTC_OP_DIV: return ptc_dtype_is_int(operand) ? trunc(a[0] / a[1]) : a[0] / a[1];
    case PTC_OP_MOD: return a[0] - floor(a[0] / a[1]) * a[1];
    case PTC_OP_POW: return pow(a[0], a[1]);
    case PTC_OP_MIN: return a[0] < a[1] || isnan(a[0]) ? a[0] : a[1];
    case PTC_OP_MAX: return a[0] > a[1] || isnan(a[0]) ? a[0] : a[1];
    case PTC_OP_EQ: return a[0] == a[1];
    case PTC_OP_NE: return a[0] != a[1];
    case PTC_OP_LT: return a[0] < a[1];
    case PTC_OP_LE: return a[0] <= a[1];
    case PTC_OP_AND: return a[0] != 0 && a[1] != 0;
    case PTC_OP_OR: return a[0] != 0 || a[1] != 0;
    case PTC_OP_WHERE: return a[0] != 0 ? a[1] : a[2];
    case PTC_OP_TANH_GRAD: return a[1] * (1 - a[0] * a[0]);
    case PTC_OP_SIGMOID_GRAD: return a[1] * a[0] * (1 - a[0]);
    case PTC_OP_SILU_GRAD: {
      const double s = sigmoid(a[0]);
      return a[1] * (s * (1 + a[0] * (1 - s)));
    }
    case PTC_OP_GELU_GRAD: return a[1] * gelu_slope(a[0], e->gelu_tanh);
    default: return NAN;
  }
}

static double normal(uint64_t seed, uint64_t element, uint32_t step, uint32_t hash) {
  const uint64_t even = element & ~(uint64_t)1;
  const double u = (ptc_philox(seed, even, step, hash) + 1.0) * 0x1p-32;
  const double angle = 6.28318530717958647693 * ptc_philox(seed, even + 1, step, hash) * 0x1p-32;
  return sqrt(-2 * log(u)) * (element & 1 ? sin(angle) : cos(angle));
}

static double draw(const ptc_kexpr_t *e, const double *a) {
  int64_t turns[PTC_MAX_COUNTS];
  for (int32_t i = 3; i < e->num_args; i++) turns[i - 3] = (int64_t)a[i];
  const uint32_t hash = ptc_path_hash(e->path, turns, e->num_args - 3);
  const uint64_t seed = (uint64_t)(int64_t)a[1], element = (uint64_t)(int64_t)a[0];
  const uint32_t step = (uint32_t)(int64_t)a[2], word = ptc_philox(seed, element, step, hash);
  const double unit = (word >> 8) * 0x1p-24;
  if (strcmp(e->dist, "bits01") == 0) return unit;
  if (strcmp(e->dist, "uniform") == 0) {
    const double x = e->a + unit * (e->b - e->a);
    return ptc_dtype_is_float(e->dtype) ? x : floor(x);
  }
  if (strcmp(e->dist, "normal") == 0) return e->b + e->a * normal(seed, element, step, hash);
  const double low = ptc_normal_cdf(-2), u = (word + 0.5) * 0x1p-32;
  return e->b + e->a * ptc_normal_quantile(low + u * (ptc_normal_cdf(2) - low));
}

// --- memory

// The offset of an element of parameter |param|, or -1.
static int64_t element_of(eval_t *v, const walk_t *w, int32_t param, const ptc_kx_t *index) {
  const ptc_kparam_t *p = &v->kernel->params[param];
  int64_t offset = 0;
  for (int32_t d = 0; d < p->num_dims; d++) {
    const double at = value_at(v, w, index[d]);
    if (!(at >= 0 && at < (double)p->extents[d])) {
      fprintf(stderr, "%s: index %g outside of dim %" PRId32 " of %s\n", v->kernel->name, at, d,
              p->name);
      v->failed = true;
      return -1;
    }
    offset = offset * p->extents[d] + (int64_t)at;
  }
  return offset;
}

static double load(eval_t *v, const walk_t *w, const ptc_kexpr_t *e) {
  if (e->guard >= 0 && value_at(v, w, e->guard) == 0) return e->value;
  const int64_t at = element_of(v, w, e->param, e->args);
  return at < 0 ? NAN : v->params[e->param][at];
}

// --- expressions

static double reduce(const eval_t *v, const walk_t *outer, const ptc_kexpr_t *e) {
  walk_t w;
  const ptc_kexpr_t *addend = &v->kernel->exprs[e->args[0]];
  double sum = e->reduce == PTC_KX_MAX ? -INFINITY : e->reduce == PTC_KX_ALL, best = -INFINITY;
  int64_t n = 0;
  for (bool more = walk_begin(&w, v->kernel, e->over); more; more = walk_next(&w), n++) {
    for (int32_t i = 0; i < v->kernel->num_dims; i++)
      if (!(e->over >> i & 1)) w.at[i] = outer->at[i];
    double x = value_at(v, &w, e->args[0]);
    if (e->fma) x = value_at(v, &w, addend->args[0]) * value_at(v, &w, addend->args[1]);
    switch (e->reduce) {
      case PTC_KX_SUM: sum += x; break;
      case PTC_KX_MAX: sum = ptc_exceeds(x, sum) ? x : sum; break;
      case PTC_KX_ALL: sum = sum != 0 && x != 0; break;
      case PTC_KX_ARGMAX:
        if (n > 0 && !ptc_exceeds(x, best)) break;
        best = x;
        sum = (double)n;
        break;
    }
  }
  return sum;
}

// Hole 0 of a GEMM.
static double product(const eval_t *v, const walk_t *outer) {
  const ptc_gemm_t *g = &v->kernel->gemm;
  walk_t w;
  double sum = 0;
  for (bool more = walk_begin(&w, v->kernel, g->k); more; more = walk_next(&w)) {
    for (int32_t i = 0; i < v->kernel->num_dims; i++)
      if (!(g->k >> i & 1)) w.at[i] = outer->at[i];
    sum += value_at(v, &w, g->a) * value_at(v, &w, g->b);
  }
  return sum;
}

static double eval_point(eval_t *v, const walk_t *w, const ptc_kexpr_t *e) {
  double args[3 + PTC_MAX_COUNTS];
  switch (e->kind) {
    case PTC_KX_CONST: return e->value;
    case PTC_KX_INDEX: return (double)w->at[e->dim];
    case PTC_KX_TURN: return (double)v->turns[e->level];
    case PTC_KX_LOAD: return load(v, w, e);
    case PTC_KX_REDUCE: return reduce(v, w, e);
    case PTC_KX_HOLE: return product(v, w);
    case PTC_KX_OP:
    case PTC_KX_RANDOM: break;
  }
  for (int32_t i = 0; i < e->num_args; i++) args[i] = value_at(v, w, e->args[i]);
  return e->kind == PTC_KX_RANDOM ? draw(e, args)
                                  : apply(e, v->kernel->exprs[e->args[0]].dtype, args);
}

static void eval_expr(eval_t *v, ptc_kx_t x) {
  const ptc_kexpr_t *e = &v->kernel->exprs[x];
  int64_t size = 1;
  for (int32_t i = 0; i < v->kernel->num_dims; i++)
    if (e->varies >> i & 1) size *= v->kernel->dims[i].extent;
  v->data[x] = ptc_xmalloc((size_t)(size + 1) * sizeof(double));
  walk_t w;
  int64_t n = 0;
  for (bool more = walk_begin(&w, v->kernel, e->varies); more; more = walk_next(&w))
    v->data[x][n++] = rounded(v, e->dtype, eval_point(v, &w, e));
}

static void eval_store(eval_t *v, const ptc_kstore_t *store) {
  uint32_t mask = v->kernel->exprs[store->value].varies;
  for (int32_t d = 0; d < v->kernel->params[store->param].num_dims; d++)
    mask |= v->kernel->exprs[store->index[d]].varies;
  walk_t w;
  for (bool more = walk_begin(&w, v->kernel, mask); more; more = walk_next(&w)) {
    const int64_t at = element_of(v, &w, store->param, store->index);
    if (at >= 0) v->params[store->param][at] = value_at(v, &w, store->value);
  }
}

bool kernel_eval(const ptc_kernel_t *kernel, double *const *params, const int64_t *turns,
                 bool exact) {
  eval_t v = {.kernel = kernel, .params = params, .turns = turns, .exact = exact};
  v.data = ptc_xmalloc((size_t)(kernel->num_exprs + 1) * sizeof(*v.data));
  for (ptc_kx_t i = 0; i < kernel->num_exprs; i++) eval_expr(&v, i);
  for (int32_t i = 0; i < kernel->num_stores; i++) eval_store(&v, &kernel->stores[i]);
  for (ptc_kx_t i = 0; i < kernel->num_exprs; i++) free(v.data[i]);
  free(v.data);
  return !v.failed;
}
