#include "passes/uses.h"

typedef struct scan_s {
  ptc_use_map_t *uses;
  ptc_arena_t *arena;
} scan_t;

static void add_uses(ptc_op_t *op, void *arg) {
  scan_t *scan = arg;
  for (int32_t i = 0; i < op->num_operands; i++) {
    const ptc_use_t *known = ptc_map_get(&scan->uses->first, op->operands[i]);
    if (known && known->op == op) continue;
    ptc_use_t *use = PTC_ARENA_NEW(scan->arena, ptc_use_t);
    *use = (ptc_use_t){.op = op, .next = known};
    ptc_map_set(&scan->uses->first, op->operands[i], use);
  }
}

void ptc_uses_init(ptc_use_map_t *uses, ptc_arena_t *arena, const ptc_block_t *block) {
  *uses = (ptc_use_map_t){0};
  scan_t scan = {uses, arena};
  ptc_block_walk((ptc_block_t *)block, add_uses, &scan);
}

void ptc_uses_deinit(ptc_use_map_t *uses) { ptc_map_deinit(&uses->first); }

const ptc_use_t *ptc_uses_of(const ptc_use_map_t *uses, const ptc_value_t *value) {
  return ptc_map_get(&uses->first, value);
}

static void visit_uses(const ptc_op_t *op, const ptc_block_t *inside,
                       void (*visit)(ptc_value_t *value, void *arg), void *arg) {
  for (int32_t i = 0; i < op->num_operands; i++)
    if (!inside || !ptc_block_contains(inside, ptc_value_block(op->operands[i])))
      visit(op->operands[i], arg);
  for (const ptc_op_t *inner = op->body ? op->body->first : NULL; inner; inner = inner->next)
    visit_uses(inner, inside ? inside : op->body, visit, arg);
}

void ptc_visit_uses(const ptc_op_t *op, void (*visit)(ptc_value_t *value, void *arg), void *arg) {
  visit_uses(op, NULL, visit, arg);
}
