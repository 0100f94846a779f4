// Optimizer updates: new parameters and moments in place of the old ones.
#include "passes/build_impl.h"

static ptc_kx_t scalar_as(ptc_kbuild_t *b, const ptc_op_t *op, int32_t operand, ptc_dtype_t dtype) {
  return ptc_kbuild_cast(b, dtype, ptc_kbuild_scalar(b, op, operand));
}

static ptc_kx_t tensor_as(ptc_kbuild_t *b, const ptc_op_t *op, int32_t operand, ptc_dtype_t dtype,
                          const ptc_kx_t *index) {
  return ptc_kbuild_cast(b, dtype, ptc_kbuild_operand(b, op, operand, op->results[0]->type, index));
}

// 1 / (1 - beta^t) in f64, since 1 - beta^t cancels; then rounded.
static ptc_kx_t bias_correction(ptc_kbuild_t *b, const ptc_op_t *op, int32_t beta,
                                ptc_dtype_t wide) {
  const ptc_kx_t power = ptc_kbuild_2(b, PTC_OP_POW, PTC_F64, scalar_as(b, op, beta, PTC_F64),
                                      scalar_as(b, op, 9, PTC_F64));
  const ptc_kx_t one = ptc_kb_const(&b->kb, PTC_F64, 1);
  const ptc_kx_t rest = ptc_kbuild_2(b, PTC_OP_SUB, PTC_F64, one, power);
  return ptc_kbuild_cast(b, wide, ptc_kbuild_2(b, PTC_OP_DIV, PTC_F64, one, rest));
}

// (param, grad, m, v, lr, beta1, beta2, eps, decay, t, gscale, skip)
ptc_kx_t ptc_kbuild_adamw(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                          const ptc_kx_t *index) {
  const ptc_dtype_t w = ptc_kbuild_wide(op->results[0]->type->dtype);
  const ptc_kx_t skip = ptc_kbuild_scalar(b, op, 11), one = ptc_kb_const(&b->kb, w, 1);
  const ptc_kx_t beta1 = scalar_as(b, op, 5, w), beta2 = scalar_as(b, op, 6, w);
  const ptc_kx_t param = tensor_as(b, op, 0, w, index), m = tensor_as(b, op, 2, w, index);
  const ptc_kx_t v = tensor_as(b, op, 3, w, index);
  const ptc_kx_t g =
      ptc_kbuild_2(b, PTC_OP_MUL, w, tensor_as(b, op, 1, w, index), scalar_as(b, op, 10, w));
  const ptc_kx_t rest1 = ptc_kbuild_2(b, PTC_OP_SUB, w, one, beta1);
  const ptc_kx_t rest2 = ptc_kbuild_2(b, PTC_OP_SUB, w, one, beta2);
  const ptc_kx_t next_m = ptc_kbuild_2(b, PTC_OP_ADD, w, ptc_kbuild_2(b, PTC_OP_MUL, w, beta1, m),
                                       ptc_kbuild_2(b, PTC_OP_MUL, w, rest1, g));
  if (result == 1) return ptc_kbuild_select(b, skip, m, next_m);
  const ptc_kx_t square =
      ptc_kbuild_2(b, PTC_OP_MUL, w, ptc_kbuild_2(b, PTC_OP_MUL, w, rest2, g), g);
  const ptc_kx_t next_v =
      ptc_kbuild_2(b, PTC_OP_ADD, w, ptc_kbuild_2(b, PTC_OP_MUL, w, beta2, v), square);
  if (result == 2) return ptc_kbuild_select(b, skip, v, next_v);
  const ptc_kx_t mean = ptc_kbuild_2(b, PTC_OP_MUL, w, next_m, bias_correction(b, op, 5, w));
  const ptc_kx_t var = ptc_kbuild_2(b, PTC_OP_MUL, w, next_v, bias_correction(b, op, 6, w));
  const ptc_kx_t root =
      ptc_kbuild_2(b, PTC_OP_ADD, w, ptc_kbuild_1(b, PTC_OP_SQRT, w, var), scalar_as(b, op, 7, w));
  const ptc_kx_t decay = ptc_kbuild_2(b, PTC_OP_MUL, w, scalar_as(b, op, 8, w), param);
  const ptc_kx_t step =
      ptc_kbuild_2(b, PTC_OP_ADD, w, ptc_kbuild_2(b, PTC_OP_DIV, w, mean, root), decay);
  const ptc_kx_t next = ptc_kbuild_2(b, PTC_OP_SUB, w, param,
                                     ptc_kbuild_2(b, PTC_OP_MUL, w, scalar_as(b, op, 4, w), step));
  return ptc_kbuild_select(b, skip, param, next);
}

// (param, grad, m, lr, momentum, decay, gscale, skip)
ptc_kx_t ptc_kbuild_sgd(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                        const ptc_kx_t *index) {
  const ptc_dtype_t w = ptc_kbuild_wide(op->results[0]->type->dtype);
  const ptc_kx_t skip = ptc_kbuild_scalar(b, op, 7), momentum = scalar_as(b, op, 4, w);
  const ptc_kx_t param = tensor_as(b, op, 0, w, index), m = tensor_as(b, op, 2, w, index);
  const ptc_kx_t scaled =
      ptc_kbuild_2(b, PTC_OP_MUL, w, tensor_as(b, op, 1, w, index), scalar_as(b, op, 6, w));
  const ptc_kx_t decay = ptc_kbuild_2(b, PTC_OP_MUL, w, scalar_as(b, op, 5, w), param);
  const ptc_kx_t g = ptc_kbuild_2(b, PTC_OP_ADD, w, scaled, decay);
  const ptc_kx_t next_m =
      ptc_kbuild_2(b, PTC_OP_ADD, w, ptc_kbuild_2(b, PTC_OP_MUL, w, momentum, m), g);
  if (result == 1) return ptc_kbuild_select(b, skip, m, next_m);
  ptc_kx_t step = next_m;
  if (ptc_op_bool(op, "nesterov"))
    step = ptc_kbuild_2(b, PTC_OP_ADD, w, g, ptc_kbuild_2(b, PTC_OP_MUL, w, momentum, next_m));
  const ptc_kx_t next = ptc_kbuild_2(b, PTC_OP_SUB, w, param,
                                     ptc_kbuild_2(b, PTC_OP_MUL, w, scalar_as(b, op, 3, w), step));
  return ptc_kbuild_select(b, skip, param, next);
}
