// Activity analysis: a value gets a gradient if it depends on a trained parameter (found forwards)
// and the loss depends on it (found backwards), both through floats and differentiable ops.
#include "passes/grad.h"

static bool has(const ptc_map_t *set, const ptc_value_t *value) {
  return ptc_map_get(set, value) != NULL;
}

// Returns whether that is new.
static bool add(ptc_map_t *set, ptc_value_t *value) {
  if (!ptc_dtype_is_float(value->type->dtype) || has(set, value)) return false;
  ptc_map_set(set, value, value);
  return true;
}

// --- forwards

static void need_block(ptc_map_t *needs, const ptc_block_t *block);

// To a fixed point over the turns. Argument and result of a carried value are marked together.
static void need_repeat(ptc_map_t *needs, const ptc_op_t *repeat) {
  const ptc_block_t *body = repeat->body;
  for (int32_t i = repeat->num_carry; i < repeat->num_operands; i++)
    if (has(needs, repeat->operands[i])) add(needs, body->args[1 + i]);
  for (bool changed = true; changed;) {
    changed = false;
    for (int32_t i = 0; i < repeat->num_carry; i++) {
      if (!has(needs, repeat->operands[i]) && !has(needs, body->last->operands[i])) continue;
      add(needs, repeat->results[i]);
      changed |= add(needs, body->args[1 + i]);
    }
    need_block(needs, body);
    for (int32_t i = 0; i < repeat->num_carry; i++)
      changed |= has(needs, body->last->operands[i]) && !has(needs, body->args[1 + i]);
  }
  for (int32_t i = repeat->num_carry; i < repeat->num_results; i++)
    if (has(needs, body->last->operands[i])) add(needs, repeat->results[i]);
}

static void need_block(ptc_map_t *needs, const ptc_block_t *block) {
  for (const ptc_op_t *op = block->first; op; op = op->next) {
    if (op->body) {
      need_repeat(needs, op);
      continue;
    }
    bool any = false;
    for (int32_t i = 0; i < op->num_operands; i++) any |= has(needs, op->operands[i]);
    if (!any || ptc_grad_stops(op)) continue;
    for (int32_t i = 0; i < op->num_results; i++) add(needs, op->results[i]);
  }
}

// --- backwards

static void reach_block(ptc_map_t *reached, const ptc_block_t *block);

static void reach_repeat(ptc_map_t *reached, const ptc_op_t *repeat) {
  const ptc_block_t *body = repeat->body;
  const ptc_op_t *yield = body->last;
  for (int32_t i = 0; i < repeat->num_results; i++)
    if (has(reached, repeat->results[i])) add(reached, yield->operands[i]);
  for (bool changed = true; changed;) {
    changed = false;
    reach_block(reached, body);
    for (int32_t i = 0; i < repeat->num_carry; i++)
      if (has(reached, body->args[1 + i])) changed |= add(reached, yield->operands[i]);
  }
  for (int32_t i = 0; i < repeat->num_operands; i++)
    if (has(reached, body->args[1 + i])) add(reached, repeat->operands[i]);
}

static void reach_block(ptc_map_t *reached, const ptc_block_t *block) {
  for (const ptc_op_t *op = block->last; op; op = op->prev) {
    bool any = false;
    for (int32_t i = 0; i < op->num_results; i++) any |= has(reached, op->results[i]);
    if (!any || ptc_grad_stops(op)) continue;
    if (op->body) {
      reach_repeat(reached, op);
      continue;
    }
    for (int32_t i = 0; i < op->num_operands; i++) add(reached, op->operands[i]);
  }
}

// --- both

void ptc_activity_init(ptc_activity_t *activity, ptc_func_t *func, ptc_value_t *const *params,
                       int32_t num_params, ptc_value_t *const *losses, int32_t num_losses) {
  *activity = (ptc_activity_t){0};
  for (int32_t i = 0; i < num_params; i++) add(&activity->needs, params[i]);
  need_block(&activity->needs, func->body);
  for (int32_t i = 0; i < num_losses; i++) add(&activity->reached, losses[i]);
  reach_block(&activity->reached, func->body);
}

void ptc_activity_deinit(ptc_activity_t *activity) {
  ptc_map_deinit(&activity->needs);
  ptc_map_deinit(&activity->reached);
}

bool ptc_activity_has(const ptc_activity_t *activity, const ptc_value_t *value) {
  return has(&activity->needs, value) && has(&activity->reached, value);
}

bool ptc_activity_has_carry(const ptc_activity_t *activity, const ptc_op_t *repeat, int32_t index) {
  const ptc_value_t *arg = repeat->body->args[1 + index], *result = repeat->results[index];
  return has(&activity->needs, result) &&
         (has(&activity->reached, result) || has(&activity->reached, arg));
}
