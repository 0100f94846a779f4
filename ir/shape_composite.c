// Shape functions of norms, cross entropy, attention and rope.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "ir/shape_impl.h"

static ptc_status_t check_over(ptc_module_t *module, const ptc_op_t *op, int number) {
  const ptc_attr_t *over = ptc_op_attr(op, "over");
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  for (int32_t i = 0; i < over->count; i++)
    PTC_SHAPE_CHECK(ptc_type_has_dim(x, over->u.dims[i]), module, op, number,
                    "operand 0 has no dim \"%s\"", over->u.dims[i]);
  return PTC_OK;
}

static ptc_dim_list_t without_over(const ptc_op_t *op) {
  const ptc_attr_t *over = ptc_op_attr(op, "over");
  ptc_dim_list_t dims = ptc_dim_list_of(ptc_shape_operand(op, 0));
  for (int32_t i = 0; i < over->count; i++) ptc_dim_list_remove(&dims, over->u.dims[i]);
  return dims;
}

static bool has_type(const ptc_type_t *type, ptc_dtype_t dtype, const ptc_dim_list_t *dims) {
  return type->dtype == dtype && ptc_dim_list_same_names(dims, type);
}

// --- norms

// Results: y of the operand's type; per row, without |over|, f32 (f64 for f64): layernorm's mean,
// and rstd.
//   c1  the operand is a float
//   c2  it has all dims of |over|, at least one
//   c3  eps is finite and not negative
ptc_status_t ptc_shape_norm(ptc_module_t *module, const ptc_op_t *op,
                            const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  double eps = ptc_op_float(op, "eps");
  PTC_SHAPE_CHECK(ptc_dtype_is_float(x->dtype), module, op, 1, "the operand cannot be %s",
                  ptc_dtype_name(x->dtype));
  PTC_SHAPE_CHECK(ptc_op_attr(op, "over")->count >= 1, module, op, 2, "no dims to work along");
  PTC_TRY(check_over(module, op, 2));
  PTC_SHAPE_CHECK(isfinite(eps) && eps >= 0, module, op, 3, "eps cannot be %g", eps);
  ptc_dim_list_t dims = ptc_dim_list_of(x), rows = without_over(op);
  PTC_TRY(ptc_shape_result(module, op, x->dtype, &dims, &out_types[0]));
  for (int32_t i = 1; i < op->num_results; i++)
    PTC_TRY(ptc_shape_result(module, op, ptc_shape_stat_dtype(x->dtype), &rows, &out_types[i]));
  return PTC_OK;
}

// Operands x, the row statistics, dy. Result: x's type.
//   c1  x is a float
//   c2  it has all dims of |over|, at least one
//   c3  the statistics have the type that the norm gives them
//   c4  dy has x's dtype and dims
ptc_status_t ptc_shape_norm_grad(ptc_module_t *module, const ptc_op_t *op,
                                 const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *x = ptc_shape_operand(op, 0);
  PTC_SHAPE_CHECK(ptc_dtype_is_float(x->dtype), module, op, 1, "operand 0 cannot be %s",
                  ptc_dtype_name(x->dtype));
  PTC_SHAPE_CHECK(ptc_op_attr(op, "over")->count >= 1, module, op, 2, "no dims to work along");
  PTC_TRY(check_over(module, op, 2));
  ptc_dim_list_t dims = ptc_dim_list_of(x), rows = without_over(op);
  int32_t last = op->num_operands - 1;
  for (int32_t i = 1; i < last; i++)
    PTC_SHAPE_CHECK(has_type(ptc_shape_operand(op, i), ptc_shape_stat_dtype(x->dtype), &rows),
                    module, op, 3, "operand %" PRId32 " is no row statistic of operand 0", i);
  PTC_SHAPE_CHECK(has_type(ptc_shape_operand(op, last), x->dtype, &dims), module, op, 4,
                  "operand %" PRId32 " has not the dtype and dims of operand 0", last);
  return ptc_shape_result(module, op, x->dtype, &dims, &out_types[0]);
}

// --- cross entropy

// c1 to c3 of both ops; |out_rows| are the dims of the targets in the order of the logits.
static ptc_status_t check_targets(ptc_module_t *module, const ptc_op_t *op,
                                  ptc_dim_list_t *out_rows) {
  const ptc_type_t *logits = ptc_shape_operand(op, 0), *targets = ptc_shape_operand(op, 1);
  const char *dim = ptc_op_string(op, "dim");
  PTC_SHAPE_CHECK(ptc_dtype_is_float(logits->dtype), module, op, 1, "operand 0 cannot be %s",
                  ptc_dtype_name(logits->dtype));
  PTC_SHAPE_CHECK(ptc_type_has_dim(logits, dim), module, op, 2, "operand 0 has no dim \"%s\"", dim);
  *out_rows = ptc_dim_list_of(logits);
  ptc_dim_list_remove(out_rows, dim);
  PTC_SHAPE_CHECK(ptc_dtype_is_int(targets->dtype) && ptc_dim_list_same_names(out_rows, targets),
                  module, op, 3,
                  "the targets must be integers with the dims of operand 0 without \"%s\"", dim);
  return PTC_OK;
}

// Results: nll and lse, f32 (f64 for f64), with the logits' dims without the dim.
//   c1  the logits are floats
//   c2  they have the dim
//   c3  the targets are integers, with the logits' other dims
ptc_status_t ptc_shape_cross_entropy(ptc_module_t *module, const ptc_op_t *op,
                                     const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  ptc_dim_list_t rows;
  PTC_TRY(check_targets(module, op, &rows));
  ptc_dtype_t dtype = ptc_shape_stat_dtype(ptc_shape_operand(op, 0)->dtype);
  PTC_TRY(ptc_shape_result(module, op, dtype, &rows, &out_types[0]));
  return ptc_shape_result(module, op, dtype, &rows, &out_types[1]);
}

// Result: the logits' type.
//   c1  the logits are floats
//   c2  they have the dim
//   c3  the targets are integers, with the logits' other dims
//   c4  lse and dnll have the type that cross_entropy gives them
ptc_status_t ptc_shape_cross_entropy_grad(ptc_module_t *module, const ptc_op_t *op,
                                          const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *logits = ptc_shape_operand(op, 0);
  ptc_dim_list_t rows, dims = ptc_dim_list_of(logits);
  PTC_TRY(check_targets(module, op, &rows));
  for (int32_t i = 2; i < 4; i++)
    PTC_SHAPE_CHECK(has_type(ptc_shape_operand(op, i), ptc_shape_stat_dtype(logits->dtype), &rows),
                    module, op, 4, "operand %" PRId32 " is no row statistic of operand 0", i);
  return ptc_shape_result(module, op, logits->dtype, &dims, &out_types[0]);
}

// --- attention

typedef struct attention_dims_s {
  ptc_dim_list_t scores, rows, out;
} attention_dims_t;

// The dims of scores, lse and out; constraints c1 to c7.
static ptc_status_t check_attention(ptc_module_t *module, const ptc_op_t *op,
                                    attention_dims_t *out) {
  const ptc_attention_operands_t at = ptc_attention_operands(op);
  bool grad = op->opcode == PTC_OP_ATTENTION_GRAD;
  int32_t needed = 3 + (at.mask >= 0) + (at.bias >= 0) + (grad ? 3 : 0);
  bool fits = at.seed < 0 ? op->num_operands == needed
                          : op->num_operands > needed && ptc_shape_random_operands(op, at.seed);
  PTC_SHAPE_CHECK(fits, module, op, 1, "the operands do not match the attributes");
  const ptc_type_t *q = ptc_shape_operand(op, at.q), *key = ptc_shape_operand(op, at.key);
  const ptc_type_t *val = ptc_shape_operand(op, at.val);
  PTC_SHAPE_CHECK(ptc_dtype_is_float(q->dtype) && key->dtype == q->dtype && val->dtype == q->dtype,
                  module, op, 2, "q, key and val cannot be %s, %s and %s", ptc_dtype_name(q->dtype),
                  ptc_dtype_name(key->dtype), ptc_dtype_name(val->dtype));
  const char *attend = ptc_op_string(op, "attend"), *dot = ptc_op_string(op, "dot");
  PTC_SHAPE_CHECK(attend != dot && ptc_type_has_dim(q, dot) && ptc_type_has_dim(key, dot), module,
                  op, 3, "q and key have no dim \"%s\" to multiply along", dot);
  PTC_SHAPE_CHECK(!ptc_type_has_dim(q, attend) && ptc_type_has_dim(key, attend) &&
                      ptc_type_has_dim(val, attend),
                  module, op, 4, "dim \"%s\" must be in key and val, not in q", attend);
  double scale = ptc_op_float(op, "scale"), softcap = ptc_op_float(op, "softcap");
  double p = ptc_op_float(op, "p");
  PTC_SHAPE_CHECK(isfinite(scale) && isfinite(softcap) && softcap >= 0 && p >= 0 && p < 1, module,
                  op, 5, "cannot have scale %g, softcap %g, p %g", scale, softcap, p);
  out->scores = ptc_dim_list_of(q);
  ptc_dim_list_union(&out->scores, key);
  ptc_dim_list_remove(&out->scores, dot);
  out->rows = out->scores;
  ptc_dim_list_remove(&out->rows, attend);
  out->out = out->rows;
  ptc_dim_list_union(&out->out, val);
  ptc_dim_list_remove(&out->out, attend);
  if (at.mask >= 0) {
    const ptc_type_t *mask = ptc_shape_operand(op, at.mask);
    PTC_SHAPE_CHECK(mask->dtype == PTC_BOOL && ptc_dim_list_covers(&out->scores, mask), module, op,
                    6, "the mask must be bool, over dims of the scores");
  }
  if (at.bias >= 0) {
    const ptc_type_t *bias = ptc_shape_operand(op, at.bias);
    PTC_SHAPE_CHECK(ptc_dtype_is_float(bias->dtype) && ptc_dim_list_covers(&out->scores, bias),
                    module, op, 7, "the bias must be a float, over dims of the scores");
  }
  return PTC_OK;
}

// Results: out of q's dtype, with the scores' dims without |attend| and val's further dims; lse,
// f32 (f64 for f64), with the scores' dims without |attend|.
//   c1  the operands are q, key, val, [mask], [bias], and if p > 0 seed i64[], step i64[], one
//   i32[]
//       per * of the path
//   c2  q, key and val are of one float dtype
//   c3  dot is in q and key, and is not attend
//   c4  attend is in key and val, not in q
//   c5  scale is finite; softcap is finite, not negative; 0 <= p < 1
//   c6  the mask is bool, over dims of the scores
//   c7  the bias is a float, over dims of the scores
ptc_status_t ptc_shape_attention(ptc_module_t *module, const ptc_op_t *op,
                                 const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  attention_dims_t dims;
  PTC_TRY(check_attention(module, op, &dims));
  ptc_dtype_t dtype = ptc_shape_operand(op, 0)->dtype;
  PTC_TRY(ptc_shape_result(module, op, dtype, &dims.out, &out_types[0]));
  return ptc_shape_result(module, op, ptc_shape_stat_dtype(dtype), &dims.rows, &out_types[1]);
}

// Results: gradients of q, key, val, [bias], of their types.
//   c1  the operands are q, key, val, [mask], [bias], out, lse, dout, and if p > 0 the random ones
//   c2  q, key and val are of one float dtype
//   c3  dot is in q and key, and is not attend
//   c4  attend is in key and val, not in q
//   c5  scale is finite; softcap is finite, not negative; 0 <= p < 1
//   c6  the mask is bool, over dims of the scores
//   c7  the bias is a float, over dims of the scores
//   c8  out, lse and dout have the types that attention gives out, lse and out
//   c9  there are three results, four with a bias
ptc_status_t ptc_shape_attention_grad(ptc_module_t *module, const ptc_op_t *op,
                                      const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  attention_dims_t dims;
  PTC_TRY(check_attention(module, op, &dims));
  const ptc_attention_operands_t at = ptc_attention_operands(op);
  ptc_dtype_t dtype = ptc_shape_operand(op, at.q)->dtype;
  PTC_SHAPE_CHECK(
      has_type(ptc_shape_operand(op, at.out), dtype, &dims.out) &&
          has_type(ptc_shape_operand(op, at.dout), dtype, &dims.out) &&
          has_type(ptc_shape_operand(op, at.lse), ptc_shape_stat_dtype(dtype), &dims.rows),
      module, op, 8, "out, lse and dout do not match q, key and val");
  const int32_t of[] = {at.q, at.key, at.val, at.bias};
  int32_t num = at.bias >= 0 ? 4 : 3;
  PTC_SHAPE_CHECK(op->num_results == num, module, op, 9,
                  "%" PRId32 " results where %" PRId32 " are due", op->num_results, num);
  for (int32_t i = 0; i < num; i++) {
    const ptc_type_t *type = ptc_shape_operand(op, of[i]);
    ptc_dim_list_t own = ptc_dim_list_of(type);
    PTC_TRY(ptc_shape_result_of_grad(module, op, type->dtype, &own, &out_types[i]));
  }
  return PTC_OK;
}

// --- rope

// Result: the first operand's type.
//   c1  the first operand is a float, the second an integer or a float
//   c2  the first has the dim
//   c3  the second's dims are others of the first
//   c4  |dims| is even, in [0, extent of the dim]
//   c5  style is half or interleaved
//   c6  base and scale are finite and positive
ptc_status_t ptc_shape_rope(ptc_module_t *module, const ptc_op_t *op,
                            const ptc_type_t **out_types) {
  PTC_TRY(ptc_shape_begin(module, op, 0));
  const ptc_type_t *x = ptc_shape_operand(op, 0), *at = ptc_shape_operand(op, 1);
  PTC_SHAPE_CHECK(ptc_dtype_is_float(x->dtype) && at->dtype != PTC_BOOL, module, op, 1,
                  "operands cannot be %s and %s", ptc_dtype_name(x->dtype),
                  ptc_dtype_name(at->dtype));
  const char *name = ptc_op_string(op, "dim"), *style = ptc_op_string(op, "style");
  int32_t dim = ptc_type_find_dim(x, name);
  PTC_SHAPE_CHECK(dim >= 0, module, op, 2, "operand 0 has no dim \"%s\"", name);
  ptc_dim_list_t dims = ptc_dim_list_of(x), rows = dims;
  ptc_dim_list_remove(&rows, name);
  PTC_SHAPE_CHECK(ptc_dim_list_covers(&rows, at), module, op, 3,
                  "the positions have dims that operand 0 lacks");
  int64_t turning = ptc_op_int(op, "dims");
  PTC_SHAPE_CHECK(turning >= 0 && turning <= x->dims[dim].extent && turning % 2 == 0, module, op, 4,
                  "cannot turn %" PRId64 " of %" PRId64 " elements", turning, x->dims[dim].extent);
  PTC_SHAPE_CHECK(strcmp(style, "half") == 0 || strcmp(style, "interleaved") == 0, module, op, 5,
                  "unknown style \"%s\"", style);
  double base = ptc_op_float(op, "base"), scale = ptc_attrs_float(&op->attrs, "scale", 1);
  PTC_SHAPE_CHECK(isfinite(base) && base > 0 && isfinite(scale) && scale > 0, module, op, 6,
                  "cannot have base %g, scale %g", base, scale);
  return ptc_shape_result(module, op, x->dtype, &dims, &out_types[0]);
}
