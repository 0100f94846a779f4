// Masks of attention: computed inside its kernels, which then see what they leave out, and never stored. A
// mask has as many elements as a head's scores.
#include "ir/op.h"
#include "passes/fuse_impl.h"

static bool is_mask_of(const ptc_op_t *user, const ptc_value_t *value) {
  if (user->opcode != PTC_OP_ATTENTION && user->opcode != PTC_OP_ATTENTION_GRAD) return false;
  const int32_t mask = ptc_attention_operands(user).mask;
  for (int32_t i = 0; i < user->num_operands; i++)
    if (user->operands[i] == value && i != mask) return false;
  return true;
}

// Whether nothing overwrites |value|, an operand of a mask, before the kernels that will read it.
static bool is_constant_in_step(const ptc_value_t *value) {
  while (value->def && ptc_view_is_alias(value->def)) value = value->def->operands[0];
  if (value->def) return !ptc_dtype_is_float(value->type->dtype) && value->type->num_counts == 0;
  if (value->block->parent_op) return value->index == 0;  // the turn
  return value->block->func->arg_globals[value->index]->kind == PTC_GLOBAL_INPUT;
}

static bool is_part(const ptc_op_t *op, const ptc_use_map_t *uses, const ptc_map_t *parts) {
  if (op->num_results != 1 || !ptc_op_has_trait(op, PTC_TRAIT_EWISE) ||
      ptc_op_has_trait(op, PTC_TRAIT_RANDOM))
    return false;
  const ptc_type_t *type = op->results[0]->type;
  if (ptc_dtype_is_float(type->dtype) || type->num_counts) return false;
  const ptc_use_t *use = ptc_uses_of(uses, op->results[0]);
  if (!use) return false;
  for (; use; use = use->next)
    if (!is_mask_of(use->op, op->results[0]) && !ptc_map_get(parts, use->op)) return false;
  for (int32_t i = 0; i < op->num_operands; i++)
    if (!is_constant_in_step(op->operands[i])) return false;
  return true;
}

void ptc_fuse_masks(ptc_block_t *block, const ptc_use_map_t *uses, ptc_map_t *out_parts) {
  for (ptc_op_t *op = block->last; op; op = op->prev) {
    if (op->body) ptc_fuse_masks(op->body, uses, out_parts);
    if (is_part(op, uses, out_parts)) ptc_map_set(out_parts, op, op);
  }
}
