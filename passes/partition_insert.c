// partition: puts reshards between values and the uses that need another type.
#include "ir/op.h"
#include "passes/partition_impl.h"

static ptc_status_t insert_block(ptc_part_t *p, ptc_block_t *block);

static ptc_status_t use_as(ptc_part_t *p, ptc_op_t *op, int32_t index, const ptc_type_t *target) {
  ptc_value_t *value = ptc_part_reshard(p, op->operands[index], target, op);
  if (!value) return PTC_UNSUPPORTED;
  op->operands[index] = value;
  return PTC_OK;
}

static ptc_status_t insert_repeat(ptc_part_t *p, ptc_op_t *op) {
  const int64_t count = ptc_op_int(op, "count");
  for (int32_t i = 0; i < op->num_operands; i++) {
    const ptc_type_t *type = op->body->args[1 + i]->type;
    if (i >= op->num_carry) type = ptc_type_bundle(&p->module->arena, type, count);
    PTC_TRY(use_as(p, op, i, type));
  }
  PTC_TRY(insert_block(p, op->body));
  ptc_op_t *yield = op->body->last;
  const ptc_type_t **targets =
      PTC_ARENA_ARRAY(p->scratch, const ptc_type_t *, yield->num_operands + 1);
  for (int32_t i = 0; i < yield->num_operands; i++) targets[i] = ptc_part_yield_target(p, op, i);
  for (int32_t i = 0; i < yield->num_operands; i++) PTC_TRY(use_as(p, yield, i, targets[i]));
  return PTC_OK;
}

static ptc_status_t insert_return(ptc_part_t *p, ptc_op_t *op) {
  for (int32_t i = 0; i < op->num_operands; i++)
    PTC_TRY(use_as(p, op, i, ptc_part_return_target(p, op, i)));
  return PTC_OK;
}

static ptc_status_t insert_op(ptc_part_t *p, ptc_op_t *op) {
  if (op->opcode == PTC_OP_REPEAT) return insert_repeat(p, op);
  if (op->opcode == PTC_OP_RETURN) return insert_return(p, op);
  if (op->opcode == PTC_OP_YIELD) return PTC_OK;
  const ptc_type_t **operands =
      PTC_ARENA_ARRAY(p->scratch, const ptc_type_t *, op->num_operands + 1);
  const ptc_type_t **results = PTC_ARENA_ARRAY(p->scratch, const ptc_type_t *, op->num_results + 1);
  if (!ptc_part_rule(p, op, operands, results)) return PTC_UNSUPPORTED;
  for (int32_t i = 0; i < op->num_operands; i++) PTC_TRY(use_as(p, op, i, operands[i]));
  return PTC_OK;
}

static ptc_status_t insert_block(ptc_part_t *p, ptc_block_t *block) {
  ptc_map_set(&p->firsts, block, block->first);
  // Reshards stand before the op, so that they are not visited.
  for (ptc_op_t *op = block->first; op; op = op->next) PTC_TRY(insert_op(p, op));
  return PTC_OK;
}

ptc_status_t ptc_part_insert(ptc_part_t *p) { return insert_block(p, p->func->body); }
