// partition: the order of sums of integers, which may be any: the gradient norm's, a chain of additions whose
// addends are partial over some axes, or whole. Those that are partial over the most axes come first, so that sums stay
// partial as long as they can, and each axis takes one collective.
#include "ir/op.h"
#include "passes/partition_impl.h"
#include "passes/uses.h"

static bool is_link(const ptc_op_t *op) {
  return op && op->opcode == PTC_OP_ADD && ptc_dtype_is_int(op->results[0]->type->dtype);
}

// The addition before |op| in its chain: what its first operand is and nothing else uses.
static ptc_op_t *previous(const ptc_use_map_t *uses, const ptc_op_t *op) {
  ptc_value_t *sum = op->operands[0];
  if (!is_link(sum->def) || sum->def->parent != op->parent || op->operands[1] == sum) return NULL;
  const ptc_use_t *use = ptc_uses_of(uses, sum);
  return use && !use->next ? sum->def : NULL;
}

static bool continues(const ptc_use_map_t *uses, const ptc_op_t *op) {
  const ptc_use_t *use = ptc_uses_of(uses, op->results[0]);
  return use && !use->next && is_link(use->op) && use->op->parent == op->parent &&
         previous(uses, use->op) == op;
}

// Stable, by falling number of axes.
static void sort_addends(ptc_value_t **addends, int32_t count) {
  for (int32_t i = 1; i < count; i++) {
    ptc_value_t *addend = addends[i];
    int32_t at = i;
    for (; at > 0 && addends[at - 1]->type->num_partial < addend->type->num_partial; at--)
      addends[at] = addends[at - 1];
    addends[at] = addend;
  }
}

// Orders the chain that ends in |last|. All of it moves there, where all addends are known.
static ptc_status_t order_chain(ptc_part_t *p, const ptc_use_map_t *uses, ptc_op_t *last) {
  int32_t length = 1;
  for (ptc_op_t *op = last; (op = previous(uses, op));) length++;
  ptc_op_t **chain = PTC_ARENA_ARRAY(p->scratch, ptc_op_t *, length);
  ptc_value_t **addends = PTC_ARENA_ARRAY(p->scratch, ptc_value_t *, length + 1);
  ptc_op_t *op = last;
  for (int32_t i = length - 1; i >= 0; i--) {
    chain[i] = op;
    addends[i + 1] = op->operands[1];
    if (i == 0) addends[0] = op->operands[0];
    op = i ? op->operands[0]->def : NULL;
  }
  sort_addends(addends, length + 1);
  for (int32_t i = 0; i < length; i++) {
    if (chain[i] != last) {
      ptc_op_remove(chain[i]);
      ptc_op_insert(chain[i], last->parent, last);
    }
    if (i == 0) chain[i]->operands[0] = addends[0];
    chain[i]->operands[1] = addends[i + 1];
    const ptc_type_t *operands[2], *result;
    if (!ptc_part_rule(p, chain[i], operands, &result)) return PTC_UNSUPPORTED;
    chain[i]->results[0]->type = result;
  }
  return PTC_OK;
}

ptc_status_t ptc_part_order_sums(ptc_part_t *p) {
  ptc_use_map_t uses;
  ptc_uses_init(&uses, p->scratch, p->func->body);
  ptc_status_t status = PTC_OK;
  for (ptc_op_t *op = p->func->body->first; op && status == PTC_OK; op = op->next)
    if (is_link(op) && previous(&uses, op) && !continues(&uses, op))
      status = order_chain(p, &uses, op);
  ptc_uses_deinit(&uses);
  return status;
}
