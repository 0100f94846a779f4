// Cheap ops of what lies in memory anyway are cloned for each of their users: to compute a cast or a scaled
// value again costs less than to store it.
#include "passes/fuse_impl.h"

// The one operand of |op| that is no scalar and not inline; NULL if there are several.
static ptc_value_t *large_operand(const ptc_op_t *op) {
  ptc_value_t *large = NULL;
  for (int32_t i = 0; i < op->num_operands; i++) {
    ptc_value_t *value = op->operands[i];
    if (value == large || value->type->num_dims == 0 ||
        (value->def && ptc_op_bool(value->def, "inline")))
      continue;
    if (large) return NULL;
    large = value;
  }
  return large;
}

static bool is_nest(const ptc_op_t *op) {
  return op->num_results > 0 && !op->body && !ptc_view_is_alias(op) && !ptc_op_bool(op, "inline") &&
         !ptc_op_has_trait(op, PTC_TRAIT_TERMINATOR) && ptc_op_kernel_kind(op) == PTC_KERNEL_NEST;
}

static bool is_last_use(const ptc_op_t *user, const ptc_value_t *value, const ptc_use_map_t *uses) {
  // Positions in one block, by walking on from |user|.
  for (const ptc_op_t *op = user->next; op; op = op->next)
    for (const ptc_use_t *use = ptc_uses_of(uses, value); use; use = use->next) {
      const ptc_op_t *holder = use->op;
      while (holder && holder->parent != user->parent) holder = holder->parent->parent_op;
      if (!holder || holder == op) return false;
    }
  return true;
}

// Whether the bytes of |value| exist whatever becomes of |op|, its user, and at least until |last|.
static bool is_in_memory(const ptc_value_t *value, const ptc_op_t *op, const ptc_op_t *last,
                         const ptc_use_map_t *uses) {
  if (!is_last_use(last, value, uses)) return true;
  if (ptc_dtype_bytes(value->type->dtype) > ptc_dtype_bytes(op->results[0]->type->dtype))
    return false;
  if (!value->def || value->def->parent != op->parent) return true;
  if (!is_nest(value->def) && ptc_op_kernel_kind(value->def) != PTC_KERNEL_GEMM) return true;
  for (const ptc_use_t *use = ptc_uses_of(uses, value); use; use = use->next)
    if (use->op->parent != op->parent || !is_nest(use->op)) return true;
  return false;
}

// The last user of |op| in its block; NULL if a user is no nest of this block, or there is only one.
static ptc_op_t *last_user(const ptc_op_t *op, const ptc_use_map_t *uses) {
  int32_t count = 0;
  for (const ptc_use_t *use = ptc_uses_of(uses, op->results[0]); use; use = use->next, count++)
    if (use->op->parent != op->parent || !is_nest(use->op)) return NULL;
  if (count < 2) return NULL;
  ptc_op_t *last = NULL;
  for (ptc_op_t *other = op->next; other; other = other->next)
    for (const ptc_use_t *use = ptc_uses_of(uses, op->results[0]); use; use = use->next)
      if (use->op == other) last = other;
  return last;
}

static void clone_for_users(ptc_op_t *op, ptc_module_t *module, const ptc_use_map_t *uses) {
  bool first = true;
  for (const ptc_use_t *use = ptc_uses_of(uses, op->results[0]); use; use = use->next) {
    if (first) {
      first = false;  // the original serves one of them
      continue;
    }
    ptc_map_t map = {0};
    ptc_op_t *clone = ptc_op_clone(module, op, &map);
    ptc_map_deinit(&map);
    ptc_op_insert(clone, op->parent, use->op);
    for (int32_t i = 0; i < use->op->num_operands; i++)
      if (use->op->operands[i] == op->results[0]) use->op->operands[i] = clone->results[0];
  }
}

bool ptc_fuse_clone_cheap(ptc_module_t *module, ptc_block_t *block, const ptc_use_map_t *uses) {
  bool changed = false;
  for (ptc_op_t *op = block->first, *next; op; op = next) {
    next = op->next;
    if (!is_nest(op) || !ptc_op_is_cheap(op) || op->results[0]->type->num_counts ||
        op->results[0]->type->num_dims == 0)
      continue;
    ptc_value_t *large = large_operand(op);
    const ptc_op_t *last = large ? last_user(op, uses) : NULL;
    if (!last || large->type->num_dims != op->results[0]->type->num_dims ||
        !is_in_memory(large, op, last, uses))
      continue;
    clone_for_users(op, module, uses);
    changed = true;
  }
  return changed;
}
