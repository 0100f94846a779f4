// Gradients of elementwise ops. dy has the result's dims; ptc_grad_give sums it over the dims along
// which an operand was repeated.
#include "passes/grad.h"
#include "passes/rewrite.h"

static const double TWO_OVER_SQRT_PI = 1.12837916709551257390;

static ptc_value_t *binary(ptc_grad_t *g, ptc_opcode_t opcode, ptc_value_t *x, ptc_value_t *y) {
  return ptc_build_binary(&g->b, opcode, x, y);
}

static ptc_value_t *unary(ptc_grad_t *g, ptc_opcode_t opcode, ptc_value_t *x) {
  return ptc_build_unary(&g->b, opcode, x);
}

static ptc_value_t *scaled(ptc_grad_t *g, ptc_value_t *x, double factor) {
  return ptc_build_binary_const(&g->b, PTC_OP_MUL, x, factor);
}

// A scalar of the dtype of result 0.
static ptc_value_t *scalar(ptc_grad_t *g, const ptc_op_t *op, double value) {
  return ptc_build_constant(&g->b, op->results[0]->type->dtype, value);
}

// Adds the product of x and y to operand |index|, summed as it is formed.
static void add_product(ptc_grad_t *g, const ptc_op_t *op, int32_t index, ptc_value_t *x,
                        ptc_value_t *y) {
  ptc_grad_give(g, op, index, ptc_build_einsum_fit(&g->b, x, y, op->operands[index]->type));
}

// --- one operand

ptc_status_t ptc_grad_neg(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_grad_give(g, op, 0, unary(g, PTC_OP_NEG, ptc_grad_of(g, op, 0)));
  return PTC_OK;
}

ptc_status_t ptc_grad_exp(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_grad_give(g, op, 0, binary(g, PTC_OP_MUL, ptc_grad_of(g, op, 0), ptc_grad_result(g, op, 0)));
  return PTC_OK;
}

ptc_status_t ptc_grad_log(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_grad_give(g, op, 0, binary(g, PTC_OP_DIV, ptc_grad_of(g, op, 0), ptc_grad_operand(g, op, 0)));
  return PTC_OK;
}

ptc_status_t ptc_grad_sin(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t *cos = unary(g, PTC_OP_COS, ptc_grad_operand(g, op, 0));
  ptc_grad_give(g, op, 0, binary(g, PTC_OP_MUL, ptc_grad_of(g, op, 0), cos));
  return PTC_OK;
}

ptc_status_t ptc_grad_cos(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t *sin = unary(g, PTC_OP_SIN, ptc_grad_operand(g, op, 0));
  ptc_value_t *dx = binary(g, PTC_OP_MUL, ptc_grad_of(g, op, 0), sin);
  ptc_grad_give(g, op, 0, unary(g, PTC_OP_NEG, dx));
  return PTC_OK;
}

ptc_status_t ptc_grad_tanh(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t *y = ptc_grad_result(g, op, 0);
  ptc_grad_give(g, op, 0, binary(g, PTC_OP_TANH_GRAD, y, ptc_grad_of(g, op, 0)));
  return PTC_OK;
}

ptc_status_t ptc_grad_sigmoid(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t *y = ptc_grad_result(g, op, 0);
  ptc_grad_give(g, op, 0, binary(g, PTC_OP_SIGMOID_GRAD, y, ptc_grad_of(g, op, 0)));
  return PTC_OK;
}

ptc_status_t ptc_grad_silu(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t *x = ptc_grad_operand(g, op, 0);
  ptc_grad_give(g, op, 0, binary(g, PTC_OP_SILU_GRAD, x, ptc_grad_of(g, op, 0)));
  return PTC_OK;
}

ptc_status_t ptc_grad_gelu(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t *operands[] = {ptc_grad_operand(g, op, 0), ptc_grad_of(g, op, 0)};
  ptc_attrs_t attrs = ptc_attrs_clone(g->module, &op->attrs);
  ptc_grad_give(g, op, 0, ptc_grad_build(g, PTC_OP_GELU_GRAD, operands, 2, attrs));
  return PTC_OK;
}

// 1 / (2 y)
ptc_status_t ptc_grad_sqrt(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t *half = scaled(g, ptc_grad_of(g, op, 0), 0.5);
  ptc_grad_give(g, op, 0, binary(g, PTC_OP_DIV, half, ptc_grad_result(g, op, 0)));
  return PTC_OK;
}

// -y^3 / 2
ptc_status_t ptc_grad_rsqrt(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t *y = ptc_grad_result(g, op, 0);
  ptc_value_t *cube = binary(g, PTC_OP_MUL, binary(g, PTC_OP_MUL, y, y), y);
  ptc_value_t *dx = binary(g, PTC_OP_MUL, ptc_grad_of(g, op, 0), cube);
  ptc_grad_give(g, op, 0, scaled(g, dx, -0.5));
  return PTC_OK;
}

// 2 / sqrt(pi) exp(-x^2)
ptc_status_t ptc_grad_erf(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t *x = ptc_grad_operand(g, op, 0);
  ptc_value_t *square = unary(g, PTC_OP_NEG, binary(g, PTC_OP_MUL, x, x));
  ptc_value_t *slope = scaled(g, unary(g, PTC_OP_EXP, square), TWO_OVER_SQRT_PI);
  ptc_grad_give(g, op, 0, binary(g, PTC_OP_MUL, ptc_grad_of(g, op, 0), slope));
  return PTC_OK;
}

ptc_status_t ptc_grad_abs(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t *sign = unary(g, PTC_OP_SIGN, ptc_grad_operand(g, op, 0));
  ptc_grad_give(g, op, 0, binary(g, PTC_OP_MUL, ptc_grad_of(g, op, 0), sign));
  return PTC_OK;
}

// From the result, which is positive exactly where the operand is: one value less to keep.
ptc_status_t ptc_grad_relu(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t *zero = scalar(g, op, 0);
  ptc_value_t *on = binary(g, PTC_OP_LT, zero, ptc_grad_result(g, op, 0));
  ptc_grad_give(g, op, 0, ptc_build_where(&g->b, on, ptc_grad_of(g, op, 0), zero));
  return PTC_OK;
}

ptc_status_t ptc_grad_softplus(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t *slope = unary(g, PTC_OP_SIGMOID, ptc_grad_operand(g, op, 0));
  ptc_grad_give(g, op, 0, binary(g, PTC_OP_MUL, ptc_grad_of(g, op, 0), slope));
  return PTC_OK;
}

// The gradient is cast back where it is added up; of a bundle, too.
ptc_status_t ptc_grad_cast(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_grad_give(g, op, 0, ptc_grad_of(g, op, 0));
  return PTC_OK;
}

// The same elements are kept: dy has the result's order of dims.
ptc_status_t ptc_grad_dropout(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t **operands = PTC_ARENA_ARRAY(&g->module->arena, ptc_value_t *, op->num_operands);
  operands[0] = ptc_grad_of(g, op, 0);
  for (int32_t i = 1; i < op->num_operands; i++) operands[i] = ptc_grad_operand(g, op, i);
  ptc_attrs_t attrs = ptc_attrs_clone(g->module, &op->attrs);
  ptc_grad_give(g, op, 0, ptc_grad_build(g, PTC_OP_DROPOUT, operands, op->num_operands, attrs));
  return PTC_OK;
}

// --- two operands

ptc_status_t ptc_grad_add(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_grad_give(g, op, 0, ptc_grad_of(g, op, 0));
  ptc_grad_give(g, op, 1, ptc_grad_of(g, op, 0));
  return PTC_OK;
}

ptc_status_t ptc_grad_sub(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t *dy = ptc_grad_of(g, op, 0);
  ptc_grad_give(g, op, 0, dy);
  if (!ptc_grad_wants(g, op, 1)) return PTC_OK;
  ptc_value_t *part = ptc_build_fit(&g->b, dy, op->operands[1]->type);
  ptc_grad_give(g, op, 1, unary(g, PTC_OP_NEG, part));
  return PTC_OK;
}

ptc_status_t ptc_grad_mul(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t *dy = ptc_grad_of(g, op, 0);
  for (int32_t i = 0; i < 2; i++)
    if (ptc_grad_wants(g, op, i)) add_product(g, op, i, dy, ptc_grad_operand(g, op, 1 - i));
  return PTC_OK;
}

// da = dy / b; db = -dy / b * y
ptc_status_t ptc_grad_div(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t *da = binary(g, PTC_OP_DIV, ptc_grad_of(g, op, 0), ptc_grad_operand(g, op, 1));
  ptc_grad_give(g, op, 0, da);
  if (!ptc_grad_wants(g, op, 1)) return PTC_OK;
  ptc_value_t *y = ptc_grad_result(g, op, 0);
  ptc_value_t *minus = ptc_build_einsum_fit(&g->b, da, y, op->operands[1]->type);
  ptc_grad_give(g, op, 1, unary(g, PTC_OP_NEG, minus));
  return PTC_OK;
}

// a - floor(a / b) * b, where floor is constant
ptc_status_t ptc_grad_mod(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t *dy = ptc_grad_of(g, op, 0);
  ptc_grad_give(g, op, 0, dy);
  if (!ptc_grad_wants(g, op, 1)) return PTC_OK;
  ptc_value_t *a = ptc_grad_operand(g, op, 0), *b = ptc_grad_operand(g, op, 1);
  ptc_value_t *times = unary(g, PTC_OP_FLOOR, binary(g, PTC_OP_DIV, a, b));
  ptc_value_t *minus = ptc_build_einsum_fit(&g->b, dy, times, op->operands[1]->type);
  ptc_grad_give(g, op, 1, unary(g, PTC_OP_NEG, minus));
  return PTC_OK;
}

// d/da of a^b = b a^(b - 1); 0 where b is 0, also at a = 0.
static void pow_base(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t *dy = ptc_grad_of(g, op, 0), *a = ptc_grad_operand(g, op, 0);
  double exponent;
  if (ptc_value_is_constant(op->operands[1], &exponent)) {
    if (exponent == 0) return;
    if (exponent != 1) {
      ptc_value_t *power = a;
      if (exponent != 2) power = ptc_build_binary_const(&g->b, PTC_OP_POW, a, exponent - 1);
      dy = binary(g, PTC_OP_MUL, dy, scaled(g, power, exponent));
    }
    ptc_grad_give(g, op, 0, dy);
    return;
  }
  ptc_value_t *b = ptc_grad_operand(g, op, 1), *zero = scalar(g, op, 0);
  ptc_value_t *less = ptc_build_binary_const(&g->b, PTC_OP_SUB, b, 1);
  ptc_value_t *slope = binary(g, PTC_OP_MUL, b, binary(g, PTC_OP_POW, a, less));
  ptc_value_t *flat = binary(g, PTC_OP_EQ, b, zero);
  ptc_value_t *da = binary(g, PTC_OP_MUL, dy, slope);
  ptc_grad_give(g, op, 0, ptc_build_where(&g->b, flat, zero, da));
}

// d/db = a^b log a; 0 at a = 0, the limit for b > 0.
static void pow_exponent(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t *a = ptc_grad_operand(g, op, 0), *zero = scalar(g, op, 0);
  ptc_value_t *flat = binary(g, PTC_OP_EQ, a, zero);
  ptc_value_t *slope = binary(g, PTC_OP_MUL, ptc_grad_result(g, op, 0), unary(g, PTC_OP_LOG, a));
  ptc_value_t *db = binary(g, PTC_OP_MUL, ptc_grad_of(g, op, 0), slope);
  ptc_grad_give(g, op, 1, ptc_build_where(&g->b, flat, zero, db));
}

ptc_status_t ptc_grad_pow(ptc_grad_t *g, const ptc_op_t *op) {
  if (ptc_grad_wants(g, op, 0)) pow_base(g, op);
  if (ptc_grad_wants(g, op, 1)) pow_exponent(g, op);
  return PTC_OK;
}

// All of dy to the operand that wins, half to each on a tie.
static ptc_status_t extremum(ptc_grad_t *g, const ptc_op_t *op, bool max) {
  ptc_value_t *dy = ptc_grad_of(g, op, 0), *zero = scalar(g, op, 0);
  ptc_value_t *a = ptc_grad_operand(g, op, 0), *b = ptc_grad_operand(g, op, 1);
  ptc_value_t *tie = ptc_build_where(&g->b, binary(g, PTC_OP_EQ, a, b), scaled(g, dy, 0.5), zero);
  for (int32_t i = 0; i < 2; i++) {
    if (!ptc_grad_wants(g, op, i)) continue;
    const bool less = (i == 0) != max;  // wins where a < b
    ptc_value_t *wins = less ? binary(g, PTC_OP_LT, a, b) : binary(g, PTC_OP_LT, b, a);
    ptc_grad_give(g, op, i, ptc_build_where(&g->b, wins, dy, tie));
  }
  return PTC_OK;
}

ptc_status_t ptc_grad_min(ptc_grad_t *g, const ptc_op_t *op) { return extremum(g, op, false); }
ptc_status_t ptc_grad_max(ptc_grad_t *g, const ptc_op_t *op) { return extremum(g, op, true); }

// By selection: what was not chosen gets exactly zero, whatever dy is.
ptc_status_t ptc_grad_where(ptc_grad_t *g, const ptc_op_t *op) {
  ptc_value_t *dy = ptc_grad_of(g, op, 0), *cond = ptc_grad_operand(g, op, 0);
  ptc_value_t *zero = scalar(g, op, 0);
  if (ptc_grad_wants(g, op, 1)) ptc_grad_give(g, op, 1, ptc_build_where(&g->b, cond, dy, zero));
  if (ptc_grad_wants(g, op, 2)) ptc_grad_give(g, op, 2, ptc_build_where(&g->b, cond, zero, dy));
  return PTC_OK;
}
