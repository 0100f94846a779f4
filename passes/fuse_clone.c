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
         !ptc_op_has_trait(op, PTC_TRAIT_TERMINATOR) &&
         !ptc_op_has_trait(op, PTC_TRAIT_COLLECTIVE) &&
         !ptc_op_has_trait(op, PTC_TRAIT_TRANSFER) && ptc_op_kernel_kind(op) == PTC_KERNEL_NEST;
}

// The ops of a block before anything was cloned: op -> its number.
typedef struct places_s {
  const ptc_use_map_t *uses;
  ptc_map_t of_op;
} places_t;

static intptr_t place_of(const places_t *places, const ptc_op_t *op) {
  return (intptr_t)ptc_map_get(&places->of_op, op);
}

// Whether |value| is not used after |user|, an op of the block.
static bool is_last_use(const places_t *places, const ptc_op_t *user, const ptc_value_t *value) {
  for (const ptc_use_t *use = ptc_uses_of(places->uses, value); use; use = use->next) {
    const ptc_op_t *holder = use->op;
    while (holder && holder->parent != user->parent) holder = holder->parent->parent_op;
    if (!holder || place_of(places, holder) > place_of(places, user)) return false;
  }
  return true;
}

// Whether the bytes of |value| exist whatever becomes of |op|, its user, and at least until |last|.
static bool is_in_memory(const places_t *places, const ptc_value_t *value, const ptc_op_t *op,
                         const ptc_op_t *last) {
  if (!is_last_use(places, last, value)) return true;
  if (ptc_dtype_bytes(value->type->dtype) > ptc_dtype_bytes(op->results[0]->type->dtype))
    return false;
  if (!value->def || value->def->parent != op->parent) return true;
  if (!is_nest(value->def) && ptc_op_kernel_kind(value->def) != PTC_KERNEL_GEMM) return true;
  for (const ptc_use_t *use = ptc_uses_of(places->uses, value); use; use = use->next)
    if (use->op->parent != op->parent || !is_nest(use->op)) return true;
  return false;
}

// The last user of |op| in its block; NULL if a user is no nest of this block, or there is only one.
static const ptc_op_t *last_user(const places_t *places, const ptc_op_t *op) {
  const ptc_op_t *last = NULL;
  int32_t count = 0;
  for (const ptc_use_t *use = ptc_uses_of(places->uses, op->results[0]); use;
       use = use->next, count++) {
    if (use->op->parent != op->parent || !is_nest(use->op)) return NULL;
    if (!last || place_of(places, use->op) > place_of(places, last)) last = use->op;
  }
  return count < 2 ? NULL : last;
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
  places_t places = {.uses = uses};
  intptr_t place = 0;
  for (ptc_op_t *op = block->first; op; op = op->next)
    ptc_map_set(&places.of_op, op, (void *)++place);
  for (ptc_op_t *op = block->first, *next; op; op = next) {
    next = op->next;
    if (!is_nest(op) || !ptc_op_is_cheap(op) || op->results[0]->type->num_counts ||
        op->results[0]->type->num_dims == 0)
      continue;
    const ptc_value_t *large = large_operand(op);
    const ptc_op_t *last = large ? last_user(&places, op) : NULL;
    if (!last || large->type->num_dims != op->results[0]->type->num_dims ||
        !is_in_memory(&places, large, op, last))
      continue;
    clone_for_users(op, module, uses);
    changed = true;
  }
  ptc_map_deinit(&places.of_op);
  return changed;
}
