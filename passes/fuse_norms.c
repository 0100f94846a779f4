// The normalized value of a norm is not kept for the backward pass: next to the norm's gradient, which has the
// operand and the statistics, it is (x - mean) * rstd, the same bits.
#include "ir/builder.h"
#include "passes/fuse_impl.h"
#include "passes/simplify.h"

// What |value| is an instance of, in the turn that collected it: of an argument that a repeat takes from a
// bundle, the value that another repeat yielded for that bundle. Else |value|.
static const ptc_value_t *origin_of(const ptc_value_t *value) {
  if (value->def || !value->block->parent_op) return value;
  const ptc_op_t *repeat = value->block->parent_op;
  if (value->index <= repeat->num_carry) return value;
  const ptc_value_t *bundle = repeat->operands[value->index - 1];
  const ptc_op_t *maker = bundle->def;
  if (!maker || maker->opcode != PTC_OP_REPEAT || bundle->index < maker->num_carry ||
      ptc_op_int(maker, "count") != ptc_op_int(repeat, "count"))
    return value;
  return maker->body->last->operands[bundle->index];
}

// Whether |later| holds what |value| held in the turn that made it.
static bool is_same(const ptc_value_t *later, const ptc_value_t *value) {
  if (origin_of(later) == value) return true;
  const ptc_op_t *a = later->def, *b = value->def;
  return a && b && a->opcode == PTC_OP_CAST && b->opcode == PTC_OP_CAST &&
         later->type->dtype == value->type->dtype && is_same(a->operands[0], b->operands[0]);
}

// The norm whose gradient |grad| is; NULL if it is not known.
static const ptc_op_t *norm_of(const ptc_op_t *grad) {
  const bool layer = grad->opcode == PTC_OP_LAYERNORM_GRAD;
  const ptc_value_t *rstd = origin_of(grad->operands[layer ? 2 : 1]);
  const ptc_op_t *norm = rstd->def;
  if (!norm || norm->opcode != (layer ? PTC_OP_LAYERNORM : PTC_OP_RMSNORM) ||
      rstd->index != (layer ? 2 : 1))
    return NULL;
  if (layer && origin_of(grad->operands[1]) != norm->results[1]) return NULL;
  return is_same(grad->operands[0], norm->operands[0]) ? norm : NULL;
}

// Whether |user| can take an operand that is computed in its kernel.
static bool takes_expressions(const ptc_op_t *user) {
  return ptc_kbuild_fn(user->opcode) && !ptc_view_is_alias(user) && !ptc_einsum_is_gemm(user);
}

// The normalized value from |grad|'s operands, before |at|.
static ptc_value_t *build_normalized(ptc_module_t *module, const ptc_op_t *grad,
                                     const ptc_op_t *norm, ptc_op_t *at) {
  const bool layer = grad->opcode == PTC_OP_LAYERNORM_GRAD;
  ptc_builder_t b = ptc_builder_before(module, at);
  b.loc = norm->loc;
  ptc_value_t *rstd = grad->operands[layer ? 2 : 1];
  ptc_value_t *x = ptc_build_cast(&b, grad->operands[0], rstd->type->dtype);
  if (layer) x = ptc_build_binary(&b, PTC_OP_SUB, x, grad->operands[1]);
  x = ptc_build_binary(&b, PTC_OP_MUL, x, rstd);
  return ptc_build_cast(&b, x, norm->results[0]->type->dtype);
}

// The next op beside |grad| that takes the normalized value and need not have it in memory: in the backward
// region any, in the norm's own block the contraction that makes the scale's gradient.
static ptc_op_t *next_user(const ptc_op_t *grad, const ptc_op_t *norm) {
  const bool same_block = grad->parent == norm->parent;
  for (ptc_op_t *user = same_block ? norm->next : grad->parent->first; user; user = user->next) {
    if (user == grad || !takes_expressions(user) || (same_block && user->opcode != PTC_OP_EINSUM))
      continue;
    for (int32_t i = 0; i < user->num_operands; i++)
      if (origin_of(user->operands[i]) == norm->results[0]) return user;
  }
  return NULL;
}

static bool replace_uses(ptc_module_t *module, ptc_op_t *grad) {
  const ptc_op_t *norm = norm_of(grad);
  bool changed = false;
  for (ptc_op_t *user; norm && (user = next_user(grad, norm)) != NULL; changed = true) {
    ptc_value_t *value = build_normalized(module, grad, norm, user);
    if (!value || !ptc_type_equal(value->type, norm->results[0]->type)) return changed;
    for (int32_t i = 0; i < user->num_operands; i++)
      if (origin_of(user->operands[i]) == norm->results[0]) user->operands[i] = value;
  }
  return changed;
}

static bool replace_in(ptc_module_t *module, ptc_block_t *block) {
  bool changed = false;
  for (ptc_op_t *op = block->first; op; op = op->next) {
    if (op->body) changed |= replace_in(module, op->body);
    if (op->opcode == PTC_OP_LAYERNORM_GRAD || op->opcode == PTC_OP_RMSNORM_GRAD)
      changed |= replace_uses(module, op);
  }
  return changed;
}

void ptc_fuse_norms(ptc_module_t *module) {
  bool changed = false;
  for (ptc_func_t *func = module->funcs; func; func = func->next)
    changed |= replace_in(module, func->body);
  if (changed) ptc_simplify_dce(module);
}
