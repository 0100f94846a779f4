// dce: removes what no result of a function depends on: ops, the carried, per-turn and collected
// values of repeats, and arguments of functions. All ops but
// transfers are free of effects: a value is live exactly if a return or a transfer reaches it.
#include "ir/base/vec.h"
#include "ir/op.h"
#include "passes/pass.h"
#include "passes/rewrite.h"
#include "passes/simplify.h"

typedef struct live_s {
  ptc_map_t values;  // value -> itself
  PTC_VEC(ptc_value_t *) work;
} live_t;

static bool is_live(const live_t *live, const ptc_value_t *value) {
  return ptc_map_get(&live->values, value) != NULL;
}

static void mark(live_t *live, ptc_value_t *value) {
  if (is_live(live, value)) return;
  ptc_map_set(&live->values, value, value);
  PTC_VEC_PUSH(&live->work, value);
}

// Marks what |value| needs.
static void follow(live_t *live, const ptc_value_t *value) {
  if (value->def && value->def->opcode == PTC_OP_REPEAT) {
    const ptc_op_t *repeat = value->def;
    mark(live, repeat->body->last->operands[value->index]);
    if (value->index < repeat->num_carry) mark(live, repeat->operands[value->index]);
  } else if (value->def) {
    for (int32_t i = 0; i < value->def->num_operands; i++) mark(live, value->def->operands[i]);
  } else if (value->block->parent_op && value->index > 0) {
    const ptc_op_t *repeat = value->block->parent_op;
    const int32_t operand = value->index - 1;
    mark(live, repeat->operands[operand]);
    if (operand < repeat->num_carry) mark(live, repeat->body->last->operands[operand]);
  }
}

// A transfer stays, for the stage at its other end.
static void mark_effect(ptc_op_t *op, void *arg) {
  if (!ptc_op_has_trait(op, PTC_TRAIT_TRANSFER)) return;
  for (int32_t i = 0; i < op->num_operands; i++) mark(arg, op->operands[i]);
  for (int32_t i = 0; i < op->num_results; i++) mark(arg, op->results[i]);
}

static bool op_is_live(const live_t *live, const ptc_op_t *op) {
  if (op->num_results == 0) return true;
  for (int32_t i = 0; i < op->num_results; i++)
    if (is_live(live, op->results[i])) return true;
  return false;
}

static bool shrink_repeat(const live_t *live, ptc_op_t *repeat) {
  bool changed = false;
  for (int32_t i = repeat->num_results; i-- > repeat->num_carry;)
    if (!is_live(live, repeat->results[i])) {
      ptc_repeat_erase_collect(repeat, i - repeat->num_carry);
      changed = true;
    }
  for (int32_t i = repeat->num_each; i-- > 0;)
    if (!is_live(live, repeat->body->args[1 + repeat->num_carry + i])) {
      ptc_repeat_erase_each(repeat, i);
      changed = true;
    }
  for (int32_t i = repeat->num_carry; i-- > 0;)
    if (!is_live(live, repeat->results[i]) && !is_live(live, repeat->body->args[1 + i])) {
      ptc_repeat_erase_carry(repeat, i);
      changed = true;
    }
  return changed;
}

static bool sweep(const live_t *live, ptc_block_t *block) {
  bool changed = false;
  for (ptc_op_t *op = block->last, *prev; op; op = prev) {
    prev = op->prev;
    if (!op_is_live(live, op)) {
      ptc_op_remove(op);
      changed = true;
    } else if (op->body) {
      changed |= sweep(live, op->body);
      changed |= shrink_repeat(live, op);
    }
  }
  return changed;
}

static bool clean_func(ptc_func_t *func) {
  live_t live = {0};
  const ptc_op_t *ret = ptc_func_return(func);
  for (int32_t i = 0; ret && i < ret->num_operands; i++) mark(&live, ret->operands[i]);
  ptc_block_walk(func->body, mark_effect, &live);
  while (live.work.len > 0) follow(&live, live.work.data[--live.work.len]);
  bool changed = sweep(&live, func->body);
  for (int32_t i = func->body->num_args; i-- > 0;)
    if (!is_live(&live, func->body->args[i])) {
      ptc_func_erase_arg(func, i);
      changed = true;
    }
  ptc_map_deinit(&live.values);
  PTC_VEC_FREE(&live.work);
  return changed;
}

bool ptc_simplify_dce(ptc_module_t *module) {
  bool changed = false;
  for (ptc_func_t *func = module->funcs; func; func = func->next) changed |= clean_func(func);
  return changed;
}

ptc_status_t ptc_pass_dce(ptc_pass_ctx_t *ctx, ptc_module_t *module) {
  (void)ctx;
  ptc_simplify_dce(module);
  return PTC_OK;
}
