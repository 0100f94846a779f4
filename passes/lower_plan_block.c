// Blocks and repeats: steps in the order of the ops; where carried and collected values lie.
//
// A carried value has one instance per turn and one more: turn t reads instance t and makes instance t + 1 (of
// a reversed repeat: reads t + 1, makes t), so that nothing is copied from turn to turn. In a shared repeat it
// has one, and what the turn yields is copied into it at the turn's end.
#include <string.h>

#include "ir/op.h"
#include "passes/lower_plan_impl.h"

enum { MAX_INSTANCES = 50000 };  // of the values of one repeat's body

typedef struct repeat_s {
  const ptc_op_t *op;
  int64_t count;
  bool reverse, shared;
  int32_t level;
  const ptc_op_t *yield;
  ptc_place_t **carry_next;  // per carried value: where it must be at the turn's end
  ptc_place_t **carry_last;  // after the last turn
  ptc_place_t **collected;   // per collected value: the bundle, as seen outside
} repeat_t;

static int64_t count_values(const ptc_block_t *block) {
  int64_t total = 0;
  for (const ptc_op_t *op = block->first; op; op = op->next) {
    int64_t count = ptc_op_attr(op, "kernel") ? op->num_results : 0;
    if (op->body && __builtin_mul_overflow(count_values(op->body), ptc_op_int(op, "count"), &count))
      count = INT32_MAX;
    total += count;
    if (total > INT32_MAX) total = INT32_MAX;
  }
  return total;
}

static bool is_shared(const ptc_lower_t *lower, const ptc_op_t *op) {
  if (ptc_op_int(op, "count") == 1) return false;
  if (ptc_op_string(op, "axis")) return true;
  int64_t turns = ptc_op_int(op, "count"), values;
  for (int32_t l = 0; l < lower->depth; ++l)
    if (!lower->levels[l].shared && __builtin_mul_overflow(turns, lower->levels[l].count, &turns))
      return true;
  return __builtin_mul_overflow(turns, count_values(op->body), &values) || values > MAX_INSTANCES;
}

// |place| with the turn of |level| replaced by |turn|.
static ptc_place_t *at_turn(ptc_lower_t *lower, const ptc_place_t *place, int32_t level,
                            int64_t turn) {
  ptc_place_t *fixed = PTC_ARENA_NEW(lower->scratch, ptc_place_t);
  *fixed = *place;
  fixed->instance.base += turn * place->instance.coef[level];
  fixed->instance.coef[level] = 0;
  return fixed;
}

static ptc_place_t *shifted(ptc_lower_t *lower, const ptc_place_t *place, int32_t level,
                            int64_t turns) {
  ptc_place_t *moved = PTC_ARENA_NEW(lower->scratch, ptc_place_t);
  *moved = *place;
  moved->instance.base += turns * place->instance.coef[level];
  return moved;
}

// --- before the body

static ptc_status_t begin_carry(ptc_lower_t *lower, repeat_t *r, int32_t i, ptc_step_list_t *out) {
  const ptc_value_t *arg = r->op->body->args[1 + i];
  const ptc_place_t *init = ptc_lower_place(lower, r->op->operands[i]);
  if (!init) return PTC_INTERNAL;
  PTC_TRY(ptc_lower_push(lower, r->op, r->count + 1, r->shared, r->op->loc));
  ptc_place_t *slots = ptc_lower_new_place(lower, arg, arg->type, PTC_BUFFER_TEMP);
  lower->depth--;
  const int64_t first = r->reverse ? r->count : 0, last = r->reverse ? 0 : r->count;
  PTC_TRY(ptc_lower_copy(lower, init, at_turn(lower, slots, r->level, first), arg->type, r->op->loc,
                         out));
  ptc_map_set(&lower->places, arg, shifted(lower, slots, r->level, r->reverse ? 1 : 0));
  r->carry_next[i] = shifted(lower, slots, r->level, r->reverse ? 0 : 1);
  r->carry_last[i] = at_turn(lower, slots, r->level, last);
  return PTC_OK;
}

// Whether |value| lies outside the body, or is one of its arguments, so that its place is known and stays.
static bool is_settled(const repeat_t *r, const ptc_value_t *value) {
  return !value->def || !ptc_block_contains(r->op->body, value->def->parent);
}

// Called within the repeat. A value that is carried, too, or comes from outside, is a bundle as it lies.
static void plan_collected(ptc_lower_t *lower, repeat_t *r, int32_t i) {
  ptc_value_t *value = r->yield->operands[i];
  const ptc_value_t *result = r->op->results[i];
  ptc_place_t *place = ptc_map_get(&lower->wanted, result);
  if (!place && !r->shared) {
    const ptc_place_t *inner = is_settled(r, value) ? ptc_map_get(&lower->places, value)
                                                    : ptc_map_get(&lower->wanted, value);
    if (inner) place = ptc_lower_leave(lower, inner, r->level);
  }
  if (!place) {
    lower->depth--;
    bool saved = !r->reverse && !ptc_map_get(&lower->grads, result);
    place = ptc_lower_new_place(lower, result, result->type,
                                saved ? PTC_BUFFER_SAVED : PTC_BUFFER_TEMP);
    lower->depth++;
  }
  r->collected[i - r->op->num_carry] = place;
  ptc_lower_want(lower, r->op->body, value, ptc_lower_enter(lower, place, r->level));
}

// --- at the end of a turn

// In a shared repeat the next carried values take the place of the present ones: those that are themselves
// present values are set aside first.
static ptc_status_t set_aside(ptc_lower_t *lower, const repeat_t *r, const ptc_place_t **from,
                              ptc_step_list_t *body) {
  for (int32_t i = 0; r->shared && i < r->op->num_carry; ++i) {
    bool hazard = false;
    for (int32_t j = 0; j < r->op->num_carry; ++j)
      hazard |= j != i && from[i]->buffer == r->carry_next[j]->buffer;
    if (!hazard) continue;
    ptc_value_t *value = r->yield->operands[i];
    ptc_place_t *aside = ptc_lower_new_place(lower, value, value->type, PTC_BUFFER_TEMP);
    PTC_TRY(ptc_lower_copy(lower, from[i], aside, value->type, r->op->loc, body));
    from[i] = aside;
  }
  return PTC_OK;
}

static ptc_status_t end_turn(ptc_lower_t *lower, const repeat_t *r, ptc_step_list_t *body) {
  const int32_t num_carry = r->op->num_carry, num = r->yield->num_operands;
  const ptc_place_t **from = PTC_ARENA_ARRAY(lower->scratch, const ptc_place_t *, num);
  for (int32_t i = 0; i < num; ++i)
    if (!(from[i] = ptc_lower_place(lower, r->yield->operands[i]))) return PTC_INTERNAL;
  for (int32_t i = num_carry; i < num; ++i)
    PTC_TRY(ptc_lower_copy(lower, from[i],
                           ptc_lower_enter(lower, r->collected[i - num_carry], r->level),
                           r->yield->operands[i]->type, r->op->loc, body));
  PTC_TRY(set_aside(lower, r, from, body));
  for (int32_t i = 0; i < num_carry; ++i)
    PTC_TRY(ptc_lower_copy(lower, from[i], r->carry_next[i], r->yield->operands[i]->type,
                           r->op->loc, body));
  return PTC_OK;
}

static ptc_status_t lower_repeat(ptc_lower_t *lower, const ptc_op_t *op, ptc_step_list_t *out) {
  const int32_t num_collected = op->num_results - op->num_carry;
  repeat_t repeat = {.op = op,
                     .count = ptc_op_int(op, "count"),
                     .reverse = ptc_op_bool(op, "reverse"),
                     .shared = is_shared(lower, op),
                     .level = lower->depth,
                     .yield = op->body->last,
                     .carry_next = PTC_ARENA_ARRAY(lower->scratch, ptc_place_t *, op->num_carry),
                     .carry_last = PTC_ARENA_ARRAY(lower->scratch, ptc_place_t *, op->num_carry),
                     .collected = PTC_ARENA_ARRAY(lower->scratch, ptc_place_t *, num_collected)};
  repeat_t *r = &repeat;
  for (int32_t i = 0; i < op->num_carry; ++i) PTC_TRY(begin_carry(lower, r, i, out));
  PTC_TRY(ptc_lower_push(lower, op, r->count, r->shared, op->loc));
  for (int32_t i = op->num_carry; i < op->num_operands; ++i) {
    const ptc_place_t *bundle = ptc_lower_place(lower, op->operands[i]);
    if (!bundle) return PTC_INTERNAL;
    ptc_map_set(&lower->places, op->body->args[1 + i], ptc_lower_enter(lower, bundle, r->level));
  }
  for (int32_t i = 0; !r->shared && i < op->num_carry; ++i)
    ptc_lower_want(lower, op->body, r->yield->operands[i], r->carry_next[i]);
  for (int32_t i = op->num_carry; i < op->num_results; ++i) plan_collected(lower, r, i);
  ptc_step_list_t body = {0};
  ptc_status_t status = ptc_lower_block(lower, op->body, &body);
  if (status == PTC_OK) status = end_turn(lower, r, &body);
  ptc_lower_pop(lower, r->reverse, &body, out);
  for (int32_t i = 0; i < op->num_results; ++i)
    ptc_map_set(&lower->places, op->results[i],
                i < op->num_carry ? r->carry_last[i] : r->collected[i - op->num_carry]);
  return status;
}

// --- blocks

static ptc_op_t *lower_group(ptc_lower_t *lower, ptc_op_t *first, ptc_status_t *out_status,
                             ptc_step_list_t *out) {
  const int64_t number = ptc_op_int(first, "kernel");
  PTC_VEC(ptc_op_t *) ops = {0};
  ptc_op_t *op = first;
  for (; op && ptc_op_attr(op, "kernel") && ptc_op_int(op, "kernel") == number; op = op->next)
    PTC_VEC_PUSH(&ops, op);
  *out_status = ptc_lower_kernel(lower, ops.data, (int32_t)ops.len, out);
  PTC_VEC_FREE(&ops);
  return op;
}

// Whether |op| is a view of a value that is never stored; then it is none itself.
static bool views_inline(const ptc_lower_t *lower, const ptc_op_t *op) {
  const ptc_value_t *value = op->operands[0];
  while (value->def && ptc_lower_is_view(value->def) && !ptc_map_get(&lower->places, value))
    value = value->def->operands[0];
  return !ptc_map_get(&lower->places, value) && value->def && ptc_op_bool(value->def, "inline");
}

ptc_status_t ptc_lower_block(ptc_lower_t *lower, const ptc_block_t *block, ptc_step_list_t *out) {
  ptc_lower_plan_views(lower, block);
  for (ptc_op_t *op = block->first; op;) {
    ptc_status_t status = PTC_OK;
    if (op->opcode == PTC_OP_YIELD || op->opcode == PTC_OP_RETURN) return PTC_OK;
    if (op->opcode == PTC_OP_REPEAT) {
      status = lower_repeat(lower, op, out);
    } else if (ptc_lower_is_view(op)) {
      if (!views_inline(lower, op)) status = ptc_lower_view(lower, op, out);
    } else if (ptc_op_attr(op, "kernel")) {
      op = lower_group(lower, op, &status, out);
      PTC_TRY(status);
      continue;
    } else if (ptc_op_has_trait(op, PTC_TRAIT_COLLECTIVE)) {
      PTC_TRY(ptc_lower_collective(lower, op, &op, out));
      continue;
    } else if (ptc_op_has_trait(op, PTC_TRAIT_TRANSFER)) {
      status = ptc_lower_transfer(lower, op, out);
    } else if (!ptc_op_bool(op, "inline")) {
      status = ptc_error(lower->diag, op->loc, PTC_INTERNAL, "plan-unfused",
                         "the op \"%s\" belongs to no kernel: the pass fuse comes first",
                         ptc_op_info(op->opcode)->mnemonic);
    }
    PTC_TRY(status);
    op = op->next;
  }
  return PTC_OK;
}
