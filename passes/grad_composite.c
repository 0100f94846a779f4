// Gradients of reductions, contractions, scans, and of the composites that are kept whole.
#include "passes/grad.h"

// --- reductions, contraction, scans

ptc_status_t ptc_grad_reduce_sum(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_grad_give(g, op, 0, ptc_grad_of(g, op, 0));
  return PTC_OK;
}

// Equal maxima share dy evenly.
ptc_status_t ptc_grad_reduce_max(ptc_grad_t *g, const ptc_op_t *op) {
  const ptc_dtype_t dtype = op->results[0]->type->dtype;
  const ptc_attr_t *over = ptc_op_attr(op, "over");
  ptc_value_t *x = ptc_grad_operand(g, op, 0), *y = ptc_grad_result(g, op, 0);
  ptc_value_t *zero = ptc_build_constant(&g->b, dtype, 0);
  ptc_value_t *is_max = ptc_build_binary(&g->b, PTC_OP_EQ, x, y);
  ptc_value_t *one = ptc_build_where(&g->b, is_max, ptc_build_constant(&g->b, dtype, 1), zero);
  ptc_value_t *count = ptc_build_reduce(&g->b, PTC_OP_REDUCE_SUM, one, over->u.dims, over->count);
  ptc_value_t *share = ptc_build_binary(&g->b, PTC_OP_DIV, ptc_grad_of(g, op, 0), count);
  ptc_grad_give(g, op, 0, ptc_build_where(&g->b, is_max, share, zero));
  return PTC_OK;
}

// A contraction again; the result may be kept in a wider dtype than the operands.
ptc_status_t ptc_grad_einsum(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t *dy = ptc_build_cast(&g->b, ptc_grad_of(g, op, 0), op->operands[0]->type->dtype);
  for (int32_t i = 0; i < 2; i++) {
    if (!ptc_grad_wants(g, op, i)) continue;
    ptc_value_t *other = ptc_grad_operand(g, op, 1 - i);
    ptc_grad_give(g, op, i, ptc_build_einsum_fit(&g->b, dy, other, op->operands[i]->type));
  }
  return PTC_OK;
}

ptc_status_t ptc_grad_cumsum(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t *dy = ptc_grad_of(g, op, 0);
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dim(g->module, &attrs, "dim", ptc_op_string(op, "dim"));
  if (!ptc_op_bool(op, "reverse")) ptc_attrs_set_bool(g->module, &attrs, "reverse", true);
  ptc_grad_give(g, op, 0, ptc_grad_build(g, PTC_OP_CUMSUM, &dy, 1, attrs));
  return PTC_OK;
}

// --- rows

static ptc_attrs_t over_of(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_attrs_t attrs = {0};
  ptc_attrs_set(g->module, &attrs, *ptc_op_attr(op, "over"));
  return attrs;
}

ptc_status_t ptc_grad_softmax(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t *operands[] = {ptc_grad_result(g, op, 0), ptc_grad_of(g, op, 0)};
  ptc_grad_give(g, op, 0, ptc_grad_build(g, PTC_OP_SOFTMAX_GRAD, operands, 2, over_of(g, op)));
  return PTC_OK;
}

// The number of elements of a row, as a factor.
static double inverse_count(const ptc_op_t *op) {
  const ptc_attr_t *over = ptc_op_attr(op, "over");
  const ptc_type_t *x = op->operands[0]->type;
  double count = 1;
  for (int32_t i = 0; i < over->count; i++)
    count *= (double)x->dims[ptc_type_find_dim(x, over->u.dims[i])].extent;
  return 1 / count;
}

// x in the dtype of the row statistics, without the mean if |mean| is not NULL.
static ptc_value_t *centered(ptc_grad_t *g, const ptc_op_t *op, ptc_dtype_t dtype,
                             ptc_value_t *mean) {
  ptc_value_t *x = ptc_build_cast(&g->b, ptc_grad_operand(g, op, 0), dtype);
  return mean ? ptc_build_binary(&g->b, PTC_OP_SUB, x, mean) : x;
}

// rstd = (sum of c^2 / n + eps)^(-1/2) for the centered c: d rstd / dx = -rstd^3 c / n.
static void give_rstd(ptc_grad_t *g, const ptc_op_t *op, int32_t index, ptc_value_t *mean) {
  ptc_value_t *drstd = ptc_grad_of(g, op, index);
  if (!drstd) return;
  ptc_value_t *rstd = ptc_grad_result(g, op, index);
  ptc_value_t *cube = ptc_build_binary(&g->b, PTC_OP_MUL, rstd, rstd);
  cube = ptc_build_binary(&g->b, PTC_OP_MUL, cube, rstd);
  ptc_value_t *row = ptc_build_binary(&g->b, PTC_OP_MUL, drstd, cube);
  row = ptc_build_binary_const(&g->b, PTC_OP_MUL, row, -inverse_count(op));
  ptc_value_t *c = centered(g, op, drstd->type->dtype, mean);
  ptc_grad_give(g, op, 0, ptc_build_binary(&g->b, PTC_OP_MUL, c, row));
}

ptc_status_t ptc_grad_layernorm(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t *dy = ptc_grad_of(g, op, 0), *dmean = ptc_grad_of(g, op, 1);
  if (dy) {
    ptc_value_t *operands[] = {ptc_grad_operand(g, op, 0), ptc_grad_result(g, op, 1),
                               ptc_grad_result(g, op, 2), dy};
    ptc_grad_give(g, op, 0, ptc_grad_build(g, PTC_OP_LAYERNORM_GRAD, operands, 4, over_of(g, op)));
  }
  if (dmean)
    ptc_grad_give(g, op, 0, ptc_build_binary_const(&g->b, PTC_OP_MUL, dmean, inverse_count(op)));
  if (ptc_grad_of(g, op, 2)) give_rstd(g, op, 2, ptc_grad_result(g, op, 1));
  return PTC_OK;
}

ptc_status_t ptc_grad_rmsnorm(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t *dy = ptc_grad_of(g, op, 0);
  if (dy) {
    ptc_value_t *operands[] = {ptc_grad_operand(g, op, 0), ptc_grad_result(g, op, 1), dy};
    ptc_grad_give(g, op, 0, ptc_grad_build(g, PTC_OP_RMSNORM_GRAD, operands, 3, over_of(g, op)));
  }
  give_rstd(g, op, 1, NULL);
  return PTC_OK;
}

// lse is differentiated by softmax = exp(logits - lse).
ptc_status_t ptc_grad_cross_entropy(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t *dnll = ptc_grad_of(g, op, 0), *dlse = ptc_grad_of(g, op, 1);
  ptc_value_t *logits = ptc_grad_operand(g, op, 0), *lse = ptc_grad_result(g, op, 1);
  if (dnll) {
    ptc_value_t *operands[] = {logits, ptc_grad_operand(g, op, 1), lse, dnll};
    ptc_attrs_t attrs = ptc_attrs_clone(g->module, &op->attrs);
    ptc_grad_give(g, op, 0, ptc_grad_build(g, PTC_OP_CROSS_ENTROPY_GRAD, operands, 4, attrs));
  }
  if (dlse) {
    ptc_value_t *wide = ptc_build_cast(&g->b, logits, dlse->type->dtype);
    ptc_value_t *log_prob = ptc_build_binary(&g->b, PTC_OP_SUB, wide, lse);
    ptc_value_t *prob = ptc_build_unary(&g->b, PTC_OP_EXP, log_prob);
    ptc_grad_give(g, op, 0, ptc_build_binary(&g->b, PTC_OP_MUL, prob, dlse));
  }
  return PTC_OK;
}

// --- attention, rope

ptc_status_t ptc_grad_attention(ptc_grad_t *g, const ptc_op_t *op) {
  if (ptc_grad_of(g, op, 1)) return ptc_grad_refuse(g, op, "the log-sum-exp");
  const ptc_attention_operands_t at = ptc_attention_operands(op);
  const int32_t first_random = at.seed < 0 ? op->num_operands : at.seed;
  ptc_value_t **operands = PTC_ARENA_ARRAY(&g->module->arena, ptc_value_t *, op->num_operands + 3);
  int32_t num = 0;
  for (int32_t i = 0; i < first_random; i++) operands[num++] = ptc_grad_operand(g, op, i);
  operands[num++] = ptc_grad_result(g, op, 0);
  operands[num++] = ptc_grad_result(g, op, 1);
  operands[num++] = ptc_grad_of(g, op, 0);
  for (int32_t i = first_random; i < op->num_operands; i++)
    operands[num++] = ptc_grad_operand(g, op, i);
  const ptc_op_t *grad = ptc_build_op(&g->b, PTC_OP_ATTENTION_GRAD, operands, num,
                                      at.bias >= 0 ? 4 : 3, ptc_attrs_clone(g->module, &op->attrs));
  if (!grad) return PTC_OK;
  ptc_grad_give(g, op, at.q, grad->results[0]);
  ptc_grad_give(g, op, at.key, grad->results[1]);
  ptc_grad_give(g, op, at.val, grad->results[2]);
  if (at.bias >= 0) ptc_grad_give(g, op, at.bias, grad->results[3]);
  return PTC_OK;
}

// The transpose of a rotation is the rotation back.
ptc_status_t ptc_grad_rope(ptc_grad_t *g, const ptc_op_t *op) {
  if (ptc_grad_wants(g, op, 1)) return ptc_grad_refuse(g, op, "the positions");
  ptc_value_t *operands[] = {ptc_grad_of(g, op, 0), ptc_grad_operand(g, op, 1)};
  ptc_attrs_t attrs = ptc_attrs_clone(g->module, &op->attrs);
  if (ptc_op_bool(op, "inverse"))
    ptc_attrs_remove(&attrs, "inverse");
  else
    ptc_attrs_set_bool(g->module, &attrs, "inverse", true);
  ptc_grad_give(g, op, 0, ptc_grad_build(g, PTC_OP_ROPE, operands, 2, attrs));
  return PTC_OK;
}
