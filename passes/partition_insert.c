// partition: puts reshards between values and the uses that need another type.
#include "ir/builder.h"
#include "ir/op.h"
#include "passes/pad_masks.h"
#include "passes/partition_impl.h"
#include "passes/split_forms.h"

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

// |now| stands for |old|: the rules must see in it what inference saw.
static void copy_facts(ptc_part_t *p, const ptc_value_t *old, ptc_value_t *now) {
  ptc_map_t *const facts[] = {&p->grads, &p->gathered, &p->weights};
  for (int i = 0; i < 3; i++)
    if (ptc_map_get(facts[i], old)) ptc_map_set(facts[i], now, ptc_map_get(facts[i], old));
}

static void replace_result(ptc_part_t *p, ptc_value_t *old, ptc_value_t *now) {
  ptc_block_replace_uses(p->func->body, old, now);
  now->name = old->name;
  copy_facts(p, old, now);
}

// Later ops, too, take what is masked where it is made.
static ptc_status_t mask_operands(ptc_part_t *p, ptc_op_t *op) {
  ptc_value_t **before = PTC_ARENA_ARRAY(p->scratch, ptc_value_t *, op->num_operands + 1);
  for (int32_t i = 0; i < op->num_operands; i++) before[i] = op->operands[i];
  PTC_TRY(ptc_mask_operands(p->module, op));
  for (int32_t i = 0; i < op->num_operands; i++)
    if (op->operands[i] != before[i]) copy_facts(p, before[i], op->operands[i]);
  return PTC_OK;
}

static void remove_op(ptc_part_t *p, ptc_op_t *op) {
  if (ptc_map_get(&p->firsts, op->parent) == op)
    ptc_map_set(&p->firsts, op->parent, op->parent->first != op ? op->parent->first : op->next);
  ptc_op_remove(op);
}

// The split form in place of |op|, whose operands are as it needs them.
static ptc_status_t build_split(ptc_part_t *p, ptc_op_t *op) {
  ptc_builder_t b = ptc_builder_before(p->module, op);
  b.loc = op->loc;
  ptc_value_t **values = PTC_ARENA_ARRAY(p->scratch, ptc_value_t *, op->num_results + 1);
  PTC_TRY(ptc_split_form(&b, op, values));
  for (int32_t i = 0; i < op->num_results; i++) replace_result(p, op->results[i], values[i]);
  remove_op(p, op);
  return PTC_OK;
}

static ptc_status_t build_attention(ptc_part_t *p, const ptc_part_attention_t *attention,
                                    ptc_op_t *op) {
  ptc_value_t **values = PTC_ARENA_ARRAY(p->scratch, ptc_value_t *, op->num_results + 1);
  ptc_op_t *next = op->next;
  PTC_TRY(ptc_part_attention_build(p, attention, op, values));
  for (int32_t i = 0; i < op->num_results; i++) {
    if (values[i] == op->results[i]) continue;
    replace_result(p, op->results[i], values[i]);
    // What leads from the result to its value stands between.
    for (ptc_op_t *after = op->next; after != next; after = after->next)
      if (after->num_operands && after->operands[0] == values[i])
        after->operands[0] = op->results[i];
  }
  if (attention->way == PTC_CP_RING) remove_op(p, op);
  return PTC_OK;
}

// A scatter_add whose result is sharded on the dim that is addressed.
static ptc_status_t build_scatter(ptc_part_t *p, ptc_op_t *op) {
  const ptc_axis_ref_t *axes;
  int32_t num_axes;
  const char *dim = ptc_part_scattered_dim(p, op, &axes, &num_axes);
  const int32_t at = dim ? ptc_type_find_dim(op->results[0]->type, dim) : -1;
  if (at < 0 || op->results[0]->type->dims[at].num_axes == 0) return PTC_OK;
  ptc_builder_t b = ptc_builder_before(p->module, op);
  b.loc = op->loc;
  ptc_value_t *value = ptc_split_scatter_add(&b, op, dim, axes, num_axes);
  if (!value) return PTC_UNSUPPORTED;
  replace_result(p, op->results[0], value);
  remove_op(p, op);
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
  ptc_part_attention_t attention;
  const bool splits = ptc_part_attention_way(p, op, &attention);
  for (int32_t i = 0; i < op->num_operands; i++) PTC_TRY(use_as(p, op, i, operands[i]));
  if (splits) return build_attention(p, &attention, op);
  if (ptc_has_split_form(op, operands)) return build_split(p, op);
  PTC_TRY(mask_operands(p, op));
  return op->opcode == PTC_OP_SCATTER_ADD ? build_scatter(p, op) : PTC_OK;
}

static ptc_status_t insert_block(ptc_part_t *p, ptc_block_t *block) {
  ptc_map_set(&p->firsts, block, block->first);
  // What is built stands before the op, so that it is not visited.
  for (ptc_op_t *op = block->first, *next; op; op = next) {
    next = op->next;
    PTC_TRY(insert_op(p, op));
  }
  return PTC_OK;
}

ptc_status_t ptc_part_insert(ptc_part_t *p) { return insert_block(p, p->func->body); }
