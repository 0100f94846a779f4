// Elementwise ops, leaves and random numbers as expressions.
#include <math.h>

#include "ir/axes.h"
#include "passes/build_impl.h"

ptc_kx_t ptc_kbuild_elementwise(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                                const ptc_kx_t *index) {
  const ptc_type_t *type = op->results[result]->type;
  ptc_kx_t args[3];
  for (int32_t i = 0; i < op->num_operands && i < 3; i++) {
    args[i] = ptc_kbuild_operand(b, op, i, type, index);
    if (op->opcode == PTC_OP_ACCUMULATE) args[i] = ptc_kbuild_cast(b, type->dtype, args[i]);
    if (args[i] < 0) return PTC_KX_NONE;
  }
  if (op->opcode == PTC_OP_CAST) return ptc_kbuild_cast(b, type->dtype, args[0]);
  const char *approx = ptc_op_string(op, "approx");
  return ptc_kb_expr(
      &b->kb, (ptc_kexpr_t){.kind = PTC_KX_OP,
                            .dtype = type->dtype,
                            .opcode = op->opcode == PTC_OP_ACCUMULATE ? PTC_OP_ADD : op->opcode,
                            .gelu_tanh = approx && approx[0] == 't',
                            .num_args = op->num_operands,
                            .args = args});
}

ptc_kx_t ptc_kbuild_where(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                          const ptc_kx_t *index) {
  const ptc_type_t *type = op->results[result]->type;
  const ptc_kx_t c = ptc_kbuild_operand(b, op, 0, type, index);
  const ptc_kx_t x = ptc_kbuild_operand(b, op, 1, type, index);
  return ptc_kbuild_select(b, c, x, ptc_kbuild_operand(b, op, 2, type, index));
}

ptc_kx_t ptc_kbuild_constant(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                             const ptc_kx_t *index) {
  (void)index;
  const ptc_dtype_t dtype = op->results[result]->type->dtype;
  return ptc_kb_const(&b->kb, dtype, ptc_dtype_round(dtype, ptc_op_float(op, "value")));
}

ptc_kx_t ptc_kbuild_iota(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                         const ptc_kx_t *index) {
  const ptc_type_t *type = op->results[result]->type;
  const int32_t at = ptc_type_find_dim(type, ptc_op_string(op, "dim"));
  if (at < 0) return ptc_kb_const(&b->kb, type->dtype, 0);
  return ptc_kbuild_cast(b, type->dtype, ptc_kbuild_global_index(b, &type->dims[at], index[at]));
}

ptc_kx_t ptc_kbuild_axis_index(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                               const ptc_kx_t *index) {
  (void)result;
  (void)index;
  ptc_axis_ref_t axes[PTC_MAX_AXES];
  int32_t count = 0;
  if (!ptc_axes_parse(b->module, ptc_op_string(op, "axes"), axes, &count))
    return ptc_kbuild_unsupported(b, op, "it names no axes of the mesh");
  return ptc_kbuild_shard_index(b, axes, count);
}

// Operands seed, step, turns from |first| on.
static ptc_kx_t random_number(ptc_kbuild_t *b, const ptc_op_t *op, int32_t first, ptc_kx_t element,
                              ptc_kexpr_t expr) {
  ptc_kx_t args[3 + PTC_MAX_COUNTS];
  int32_t num_args = 0;
  args[num_args++] = element;
  for (int32_t i = first; i < op->num_operands && num_args < 3 + PTC_MAX_COUNTS; i++)
    args[num_args++] =
        ptc_kbuild_cast(b, i < first + 2 ? PTC_I64 : PTC_I32, ptc_kbuild_scalar(b, op, i));
  for (int32_t i = 0; i < num_args; i++)
    if (args[i] < 0) return PTC_KX_NONE;
  expr.kind = PTC_KX_RANDOM;
  expr.path = ptc_op_string(op, "path");
  expr.num_args = num_args;
  expr.args = args;
  return ptc_kb_expr(&b->kb, expr);
}

ptc_kx_t ptc_kbuild_random(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                           const ptc_kx_t *index) {
  const ptc_type_t *type = op->results[result]->type;
  const ptc_kx_t element = ptc_kbuild_number(b, type->dims, type->num_dims, index);
  return random_number(b, op, 0, element,
                       (ptc_kexpr_t){.dtype = type->dtype,
                                     .dist = ptc_op_string(op, "dist"),
                                     .a = ptc_op_float(op, "a"),
                                     .b = ptc_op_float(op, "b")});
}

// keep = uniform >= p, where uniform is a multiple of 2^-24: so p may be the next one, which f32 holds.
ptc_kx_t ptc_kbuild_dropout(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                            const ptc_kx_t *index) {
  const ptc_type_t *type = op->results[result]->type;
  const double p = ptc_op_float(op, "p");
  const ptc_dtype_t wide = ptc_kbuild_wide(type->dtype);
  const ptc_kx_t element = ptc_kbuild_number(b, type->dims, type->num_dims, index);
  const ptc_kx_t u = random_number(
      b, op, 1, element,
      (ptc_kexpr_t){.dtype = PTC_F32, .dist = ptc_module_intern(b->module, "bits01")});
  const ptc_kx_t bound = ptc_kb_const(&b->kb, PTC_F32, ceil(p * 0x1p24) * 0x1p-24);
  const ptc_kx_t keep = ptc_kbuild_2(b, PTC_OP_LE, PTC_BOOL, bound, u);
  const ptc_kx_t x = ptc_kbuild_cast(b, wide, ptc_kbuild_operand(b, op, 0, type, index));
  const ptc_kx_t scale = ptc_kb_const(&b->kb, wide, ptc_dtype_round(wide, 1 / (1 - p)));
  return ptc_kbuild_select(b, keep, ptc_kbuild_2(b, PTC_OP_MUL, wide, x, scale),
                           ptc_kb_const(&b->kb, wide, 0));
}
