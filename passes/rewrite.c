#include "passes/rewrite.h"

#include "ir/op.h"

ptc_value_t *ptc_subst(const ptc_map_t *map, ptc_value_t *value) {
  for (ptc_value_t *next; value && (next = ptc_map_get(map, value));) value = next;
  return value;
}

void ptc_subst_operands(const ptc_map_t *map, ptc_op_t *op) {
  for (int32_t i = 0; i < op->num_operands; i++) op->operands[i] = ptc_subst(map, op->operands[i]);
}

static void erase_value(ptc_value_t **values, int32_t *count, int32_t index) {
  for (int32_t i = index + 1; i < *count; i++) {
    values[i - 1] = values[i];
    values[i - 1]->index = i - 1;
  }
  (*count)--;
}

void ptc_op_erase_result(ptc_op_t *op, int32_t index) {
  erase_value(op->results, &op->num_results, index);
}

void ptc_block_erase_arg(ptc_block_t *block, int32_t index) {
  erase_value(block->args, &block->num_args, index);
}

void ptc_func_erase_arg(ptc_func_t *func, int32_t index) {
  for (int32_t i = index + 1; i < func->body->num_args; i++)
    func->arg_globals[i - 1] = func->arg_globals[i];
  ptc_block_erase_arg(func->body, index);
}

void ptc_func_erase_result(ptc_func_t *func, int32_t index) {
  ptc_op_erase_operand(ptc_func_return(func), index);
  for (int32_t i = index + 1; i < func->num_results; i++) func->results[i - 1] = func->results[i];
  func->num_results--;
}

void ptc_repeat_erase_carry(ptc_op_t *repeat, int32_t index) {
  ptc_op_erase_operand(repeat, index);
  ptc_block_erase_arg(repeat->body, 1 + index);
  ptc_op_erase_operand(repeat->body->last, index);
  ptc_op_erase_result(repeat, index);
  repeat->num_carry--;
}

void ptc_repeat_erase_each(ptc_op_t *repeat, int32_t index) {
  ptc_op_erase_operand(repeat, repeat->num_carry + index);
  ptc_block_erase_arg(repeat->body, 1 + repeat->num_carry + index);
  repeat->num_each--;
}

void ptc_repeat_erase_collect(ptc_op_t *repeat, int32_t index) {
  ptc_op_erase_operand(repeat->body->last, repeat->num_carry + index);
  ptc_op_erase_result(repeat, repeat->num_carry + index);
}

ptc_value_t *ptc_repeat_add_each(ptc_module_t *module, ptc_op_t *repeat, ptc_value_t *bundle) {
  ptc_op_add_operand(module, repeat, repeat->num_operands, bundle);
  repeat->num_each++;
  const ptc_type_t *instance = ptc_type_instance(&module->arena, bundle->type);
  return ptc_block_add_arg(repeat->body, instance, bundle->name);
}

ptc_value_t *ptc_repeat_add_collect(ptc_module_t *module, ptc_op_t *repeat, ptc_value_t *value) {
  ptc_op_t *yield = repeat->body->last;
  ptc_op_add_operand(module, yield, yield->num_operands, value);
  const int64_t count = ptc_op_int(repeat, "count");
  ptc_value_t *bundle =
      ptc_op_add_result(module, repeat, ptc_type_bundle(&module->arena, value->type, count));
  bundle->name = value->name;
  return bundle;
}

bool ptc_value_is_constant(const ptc_value_t *value, double *out_value) {
  *out_value = 0;
  const ptc_op_t *op = value ? value->def : NULL;
  while (op && op->opcode == PTC_OP_BROADCAST) op = op->operands[0]->def;
  if (!op || op->opcode != PTC_OP_CONSTANT) return false;
  *out_value = ptc_op_float(op, "value");
  return true;
}
