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

static bool is_defined_before(const ptc_value_t *value, const ptc_op_t *at) {
  if (!value->def || value->def->parent != at->parent) return true;
  for (const ptc_op_t *op = at; op; op = op->next)
    if (op == value->def) return false;
  return true;
}

// The normalized value from |grad|'s operands, before |at|. |grad| may take a later cast of the norm's operand.
static ptc_value_t *build_normalized(ptc_module_t *module, const ptc_op_t *grad,
                                     const ptc_op_t *norm, ptc_op_t *at) {
  const bool layer = grad->opcode == PTC_OP_LAYERNORM_GRAD;
  ptc_builder_t b = ptc_builder_before(module, at);
  b.loc = norm->loc;
  ptc_value_t *rstd = grad->operands[layer ? 2 : 1];
  ptc_value_t *x = grad->operands[0];
  if (!is_defined_before(x, at)) x = norm->operands[0];
  x = ptc_build_cast(&b, x, rstd->type->dtype);
  if (layer) x = ptc_build_binary(&b, PTC_OP_SUB, x, grad->operands[1]);
  x = ptc_build_binary(&b, PTC_OP_MUL, x, rstd);
  return ptc_build_cast(&b, x, norm->results[0]->type->dtype);
}

// Ops that take the normalized value of a norm, by norm.
typedef struct users_s {
  ptc_arena_t *arena;
  ptc_map_t of_norm;  // norm -> ptc_use_t list
} users_t;

static void note_user(ptc_op_t *op, void *arg) {
  users_t *users = arg;
  for (int32_t i = 0; i < op->num_operands; i++) {
    const ptc_value_t *origin = origin_of(op->operands[i]);
    const ptc_op_t *norm = origin->def;
    if (!norm || origin->index != 0 ||
        (norm->opcode != PTC_OP_LAYERNORM && norm->opcode != PTC_OP_RMSNORM))
      continue;
    ptc_use_t *use = PTC_ARENA_NEW(users->arena, ptc_use_t);
    *use = (ptc_use_t){.op = op, .next = ptc_map_get(&users->of_norm, norm)};
    ptc_map_set(&users->of_norm, norm, use);
  }
}

// Whether |user|, beside |grad|, need not have the normalized value in memory: in the backward region any that
// takes expressions, in the norm's own block the contraction that makes the scale's gradient.
static bool is_replaced(const ptc_op_t *user, const ptc_op_t *grad, const ptc_op_t *norm) {
  return user != grad && user->parent == grad->parent && takes_expressions(user) &&
         (grad->parent != norm->parent || user->opcode == PTC_OP_EINSUM);
}

static bool replace_uses(ptc_module_t *module, const users_t *users, ptc_op_t *grad) {
  const ptc_op_t *norm = norm_of(grad);
  bool changed = false;
  for (const ptc_use_t *use = norm ? ptc_map_get(&users->of_norm, norm) : NULL; use;
       use = use->next) {
    if (!is_replaced(use->op, grad, norm)) continue;
    if (grad->parent != norm->parent && !is_defined_before(grad->operands[0], use->op)) continue;
    ptc_value_t *value = build_normalized(module, grad, norm, use->op);
    if (!value || !ptc_type_equal(value->type, norm->results[0]->type)) return changed;
    for (int32_t i = 0; i < use->op->num_operands; i++)
      if (origin_of(use->op->operands[i]) == norm->results[0]) use->op->operands[i] = value;
    changed = true;
  }
  return changed;
}

static bool replace_in(ptc_module_t *module, const users_t *users, ptc_block_t *block) {
  bool changed = false;
  for (ptc_op_t *op = block->first; op; op = op->next) {
    if (op->body) changed |= replace_in(module, users, op->body);
    if (op->opcode == PTC_OP_LAYERNORM_GRAD || op->opcode == PTC_OP_RMSNORM_GRAD)
      changed |= replace_uses(module, users, op);
  }
  return changed;
}

void ptc_fuse_norms(ptc_module_t *module, ptc_arena_t *scratch) {
  bool changed = false;
  for (ptc_func_t *func = module->funcs; func; func = func->next) {
    users_t users = {.arena = scratch};
    ptc_block_walk(func->body, note_user, &users);
    changed |= replace_in(module, &users, func->body);
    ptc_map_deinit(&users.of_norm);
  }
  if (changed) ptc_simplify_dce(module);
}
