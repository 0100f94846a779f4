// Composites over rows: softmax, norms, cross entropy, rope, with their gradients.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "ir/interp_impl.h"

enum { ROW_TENSORS = 8 };

// A row of each operand and result: the nest runs over the other dims; element k of a row lies at
// offset[tensor][k], or at 0 in a tensor that has one number per row. Operands come first.
typedef struct rows_s {
  ptc_nest_t nest;
  int64_t length;
  int64_t *offset[ROW_TENSORS];
  double *base[ROW_TENSORS];
  int32_t num_tensors;
} rows_t;

static void rows_init(rows_t *rows, const ptc_call_t *call) {
  const ptc_attr_t *over = ptc_op_attr(call->op, "over");
  const ptc_type_t *x = ptc_call_in(call, 0);
  ptc_nest_init(&rows->nest, call);
  ptc_nest_add_dims(&rows->nest, x);
  ptc_nest_drop(&rows->nest, over);
  rows->num_tensors = call->op->num_operands + call->op->num_results;
  for (int32_t t = 0; t < rows->num_tensors; t++) {
    bool result = t >= call->op->num_operands;
    int32_t index = result ? t - call->op->num_operands : t;
    const ptc_type_t *type = result ? ptc_call_out(call, index) : ptc_call_in(call, index);
    ptc_nest_add_tensor(&rows->nest, type, NULL);
    rows->offset[t] = ptc_row_offsets(call, x, over, type, &rows->length);
    rows->base[t] = result ? call->out[index]->data : call->in[index]->data;
  }
}

static void rows_free(rows_t *rows) {
  for (int32_t t = 0; t < rows->num_tensors; t++) free(rows->offset[t]);
}

static double *at(const rows_t *rows, int32_t tensor, int64_t k) {
  return &rows->base[tensor][rows->nest.offset[tensor] + rows->offset[tensor][k]];
}

// --- softmax

ptc_status_t ptc_interp_softmax(const ptc_call_t *call) {
  rows_t rows;
  rows_init(&rows, call);
  for (bool more = ptc_nest_begin(&rows.nest); more; more = ptc_nest_next(&rows.nest)) {
    double max = -INFINITY, sum = 0;
    for (int64_t k = 0; k < rows.length; k++)
      max = ptc_exceeds(*at(&rows, 0, k), max) ? *at(&rows, 0, k) : max;
    for (int64_t k = 0; k < rows.length; k++) sum += *at(&rows, 1, k) = exp(*at(&rows, 0, k) - max);
    for (int64_t k = 0; k < rows.length; k++) *at(&rows, 1, k) /= sum;
  }
  rows_free(&rows);
  return PTC_OK;
}

// (y, dy) -> y * (dy - sum(y * dy))
ptc_status_t ptc_interp_softmax_grad(const ptc_call_t *call) {
  rows_t rows;
  rows_init(&rows, call);
  for (bool more = ptc_nest_begin(&rows.nest); more; more = ptc_nest_next(&rows.nest)) {
    double sum = 0;
    for (int64_t k = 0; k < rows.length; k++) sum += *at(&rows, 0, k) * *at(&rows, 1, k);
    for (int64_t k = 0; k < rows.length; k++)
      *at(&rows, 2, k) = *at(&rows, 0, k) * (*at(&rows, 1, k) - sum);
  }
  rows_free(&rows);
  return PTC_OK;
}

// --- norms

ptc_status_t ptc_interp_layernorm(const ptc_call_t *call) {
  double eps = ptc_op_float(call->op, "eps");
  rows_t rows;
  rows_init(&rows, call);
  for (bool more = ptc_nest_begin(&rows.nest); more; more = ptc_nest_next(&rows.nest)) {
    double mean = 0, var = 0;
    for (int64_t k = 0; k < rows.length; k++) mean += *at(&rows, 0, k);
    mean /= (double)rows.length;
    for (int64_t k = 0; k < rows.length; k++) {
      double centred = *at(&rows, 0, k) - mean;
      var += centred * centred;
    }
    double rstd = 1 / sqrt(var / (double)rows.length + eps);
    for (int64_t k = 0; k < rows.length; k++) *at(&rows, 1, k) = (*at(&rows, 0, k) - mean) * rstd;
    call->out[1]->data[rows.nest.offset[2]] = mean;
    call->out[2]->data[rows.nest.offset[3]] = rstd;
  }
  rows_free(&rows);
  return PTC_OK;
}

ptc_status_t ptc_interp_rmsnorm(const ptc_call_t *call) {
  double eps = ptc_op_float(call->op, "eps");
  rows_t rows;
  rows_init(&rows, call);
  for (bool more = ptc_nest_begin(&rows.nest); more; more = ptc_nest_next(&rows.nest)) {
    double sum = 0;
    for (int64_t k = 0; k < rows.length; k++) sum += *at(&rows, 0, k) * *at(&rows, 0, k);
    double rstd = 1 / sqrt(sum / (double)rows.length + eps);
    for (int64_t k = 0; k < rows.length; k++) *at(&rows, 1, k) = *at(&rows, 0, k) * rstd;
    call->out[1]->data[rows.nest.offset[2]] = rstd;
  }
  rows_free(&rows);
  return PTC_OK;
}

// With h = (x - mean) * rstd: dx = rstd * (dy - mean(dy) - h * mean(dy * h)). Ba et al. 2016
// (arXiv:1607.06450), section 3, differentiated. |mean| of -1: the norm does not subtract one.
static ptc_status_t norm_grad(const ptc_call_t *call, int32_t mean, int32_t rstd, int32_t dy) {
  int32_t dx = call->op->num_operands;
  rows_t rows;
  rows_init(&rows, call);
  for (bool more = ptc_nest_begin(&rows.nest); more; more = ptc_nest_next(&rows.nest)) {
    double shift = mean < 0 ? 0 : *at(&rows, mean, 0), scale = *at(&rows, rstd, 0);
    double mean_dy = 0, mean_dyh = 0;
    for (int64_t k = 0; k < rows.length; k++) {
      mean_dy += *at(&rows, dy, k);
      mean_dyh += *at(&rows, dy, k) * ((*at(&rows, 0, k) - shift) * scale);
    }
    mean_dy = mean < 0 ? 0 : mean_dy / (double)rows.length;
    mean_dyh /= (double)rows.length;
    for (int64_t k = 0; k < rows.length; k++) {
      double h = (*at(&rows, 0, k) - shift) * scale;
      *at(&rows, dx, k) = scale * (*at(&rows, dy, k) - mean_dy - h * mean_dyh);
    }
  }
  rows_free(&rows);
  return PTC_OK;
}

// (x, mean, rstd, dy)
ptc_status_t ptc_interp_layernorm_grad(const ptc_call_t *call) { return norm_grad(call, 1, 2, 3); }
// (x, rstd, dy)
ptc_status_t ptc_interp_rmsnorm_grad(const ptc_call_t *call) { return norm_grad(call, -1, 1, 2); }

// --- cross entropy

// The nest over rows of logits and targets; all operands, then all results.
static void entropy_nest(ptc_nest_t *nest, const ptc_call_t *call) {
  ptc_nest_init(nest, call);
  ptc_nest_add_dims(nest, ptc_call_in(call, 0));
  ptc_nest_add_dims(nest, ptc_call_in(call, 1));
  ptc_nest_drop_name(nest, ptc_op_string(call->op, "dim"));
  for (int32_t i = 0; i < call->op->num_operands; i++)
    ptc_nest_add_tensor(nest, ptc_call_in(call, i), NULL);
  for (int32_t i = 0; i < call->op->num_results; i++)
    ptc_nest_add_tensor(nest, ptc_call_out(call, i), NULL);
}

static ptc_status_t check_target(const ptc_call_t *call, double target, int64_t classes) {
  if (target < (double)classes) return PTC_OK;
  return ptc_error(call->module->diag, call->op->loc, PTC_INVALID_INPUT, "target-range",
                   "target %.0f lies outside dim \"%s\" of extent %" PRId64, target,
                   ptc_op_string(call->op, "dim"), classes);
}

ptc_status_t ptc_interp_cross_entropy(const ptc_call_t *call) {
  const ptc_type_t *logits = ptc_call_in(call, 0);
  const char *dim = ptc_op_string(call->op, "dim");
  int64_t classes = logits->dims[ptc_type_find_dim(logits, dim)].extent;
  int64_t step = ptc_call_stride(call, logits, dim);
  ptc_nest_t nest;
  entropy_nest(&nest, call);
  for (bool more = ptc_nest_begin(&nest); more; more = ptc_nest_next(&nest)) {
    const double *x = call->in[0]->data + nest.offset[0];
    double target = call->in[1]->data[nest.offset[1]];
    PTC_TRY(check_target(call, target, classes));
    double max = -INFINITY, sum = 0;
    for (int64_t k = 0; k < classes; k++) max = ptc_exceeds(x[k * step], max) ? x[k * step] : max;
    for (int64_t k = 0; k < classes; k++) sum += exp(x[k * step] - max);
    double lse = max + log(sum);
    call->out[0]->data[nest.offset[2]] = target < 0 ? 0 : lse - x[(int64_t)target * step];
    call->out[1]->data[nest.offset[3]] = lse;
  }
  return PTC_OK;
}

// A row with a negative target has the constant nll 0, hence no gradient.
ptc_status_t ptc_interp_cross_entropy_grad(const ptc_call_t *call) {
  const ptc_type_t *logits = ptc_call_in(call, 0), *result = ptc_call_out(call, 0);
  const char *dim = ptc_op_string(call->op, "dim");
  const ptc_dim_t *whole = &logits->dims[ptc_type_find_dim(logits, dim)];
  int64_t classes = ptc_call_valid_extent(call, whole);
  int64_t step = ptc_call_stride(call, logits, dim), step_out = ptc_call_stride(call, result, dim);
  ptc_nest_t nest;
  entropy_nest(&nest, call);
  for (bool more = ptc_nest_begin(&nest); more; more = ptc_nest_next(&nest)) {
    const double *x = call->in[0]->data + nest.offset[0];
    double target = call->in[1]->data[nest.offset[1]], lse = call->in[2]->data[nest.offset[2]];
    double dnll = call->in[3]->data[nest.offset[3]], *dx = call->out[0]->data + nest.offset[4];
    PTC_TRY(check_target(call, target, whole->extent));
    if (target < 0) continue;
    int64_t hit = ptc_call_local_index(call, whole, (int64_t)target);
    for (int64_t k = 0; k < classes; k++)
      dx[k * step_out] += (exp(x[k * step] - lse) - (k == hit)) * dnll;
  }
  return PTC_OK;
}

// --- rope. Su et al. 2021 (arXiv:2104.09864), equation 34.

ptc_status_t ptc_interp_rope(const ptc_call_t *call) {
  const char *dim = ptc_op_string(call->op, "dim"), *style = ptc_op_string(call->op, "style");
  const ptc_type_t *x = ptc_call_in(call, 0), *y = ptc_call_out(call, 0);
  int64_t width = x->dims[ptc_type_find_dim(x, dim)].extent, turned = ptc_op_int(call->op, "dims");
  double base = ptc_op_float(call->op, "base");
  double scale = ptc_attrs_float(&call->op->attrs, "scale", 1);
  double sense = ptc_op_bool(call->op, "inverse") ? -1 : 1;
  bool half = style[0] == 'h';
  int64_t step_x = ptc_call_stride(call, x, dim), step_y = ptc_call_stride(call, y, dim);
  ptc_nest_t nest;
  ptc_nest_init(&nest, call);
  ptc_nest_add_dims(&nest, y);
  ptc_nest_drop_name(&nest, dim);
  ptc_nest_add_tensor(&nest, x, NULL);
  ptc_nest_add_tensor(&nest, ptc_call_in(call, 1), NULL);
  ptc_nest_add_tensor(&nest, y, NULL);
  for (bool more = ptc_nest_begin(&nest); more; more = ptc_nest_next(&nest)) {
    const double *from = call->in[0]->data + nest.offset[0];
    double *to = call->out[0]->data + nest.offset[2];
    double position = call->in[1]->data[nest.offset[1]];
    for (int64_t i = 0; i < turned / 2; i++) {
      double angle = position * pow(base, -2.0 * (double)i / (double)turned) / scale;
      double c = cos(angle), s = sense * sin(angle);
      int64_t k0 = half ? i : 2 * i, k1 = half ? i + turned / 2 : 2 * i + 1;
      double x0 = from[k0 * step_x], x1 = from[k1 * step_x];
      to[k0 * step_y] = x0 * c - x1 * s;
      to[k1 * step_y] = x1 * c + x0 * s;
    }
    for (int64_t k = turned; k < width; k++) to[k * step_y] = from[k * step_x];
  }
  return PTC_OK;
}
