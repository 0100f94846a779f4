// Which part of the pipeline, and which phase, each op of the loop over micro-batches belongs to.
//
// The text is in order: forward ops, among them the forward repeats, then backward ops, among them the reversed
// repeats. What stands between two forward repeats runs with the turns before the cut that is between them; its
// gradient stands between the reversed repeats, on the same side. F is what losses, metrics, outputs and forward
// repeats need; everything else is B.
#include <inttypes.h>
#include <string.h>

#include "ir/op.h"
#include "passes/split_impl.h"
#include "passes/uses.h"

ptc_op_t *ptc_split_find_loop(const ptc_func_t *func) {
  for (ptc_op_t *op = func->body->first; op; op = op->next) {
    const char *axis = op->opcode == PTC_OP_REPEAT ? ptc_op_string(op, "axis") : NULL;
    if (axis && strcmp(axis, "micro") == 0) return op;
  }
  return NULL;
}

int32_t ptc_split_part_at(const ptc_split_t *split, int32_t repeat, int64_t turn) {
  int32_t part = 0;
  while (part < split->num_cuts &&
         (split->cuts[part].repeat < repeat ||
          (split->cuts[part].repeat == repeat && split->cuts[part].turn <= turn)))
    part++;
  return part;
}

static bool is_turns(const ptc_op_t *op) {
  return op->opcode == PTC_OP_REPEAT && !ptc_op_string(op, "axis");
}

int32_t ptc_split_forward_repeats(const ptc_func_t *func, ptc_op_t **out_repeats, int32_t max) {
  const ptc_op_t *loop = ptc_split_find_loop(func);
  const ptc_block_t *body = loop ? loop->body : func->body;
  int32_t count = 0;
  for (ptc_op_t *op = body->first; op && count < max; op = op->next) {
    if (!is_turns(op)) continue;
    if (ptc_op_bool(op, "reverse")) break;
    out_repeats[count++] = op;
  }
  return count;
}

// --- phases

static void mark(ptc_value_t *value, void *arg) { ptc_map_set(arg, value, value); }

// The results of |loop| that new states or gradients need: sums of gradients.
static void find_grads(const ptc_func_t *func, const ptc_op_t *loop, ptc_map_t *out_needed) {
  const ptc_op_t *ret = ptc_func_return(func);
  for (int32_t i = 0; i < func->num_results; i++)
    if (func->results[i].kind != PTC_RESULT_VALUE)
      ptc_map_set(out_needed, ret->operands[i], ret->operands[i]);
  for (const ptc_op_t *op = ret->prev; op && op != loop; op = op->prev)
    for (int32_t i = 0; i < op->num_results; i++)
      if (ptc_map_get(out_needed, op->results[i])) {
        ptc_visit_uses(op, mark, out_needed);
        break;
      }
}

static void set_phases(const ptc_split_t *split, const ptc_func_t *func, ptc_op_t *loop,
                       ptc_op_t *const *forward, int32_t num_forward) {
  ptc_map_t grads = {0}, needed = {0};
  find_grads(func, loop, &grads);
  const ptc_op_t *yield = loop->body->last;
  for (int32_t i = 0; i < yield->num_operands; i++)
    if (!ptc_map_get(&grads, loop->results[i]))
      ptc_map_set(&needed, yield->operands[i], yield->operands[i]);
  for (ptc_op_t *op = yield->prev; op; op = op->prev) {
    bool is_needed = false;
    for (int32_t i = 0; i < op->num_results; i++)
      is_needed |= ptc_map_get(&needed, op->results[i]) != NULL;
    for (int32_t i = 0; i < num_forward; i++) is_needed |= forward[i] == op;
    ptc_attrs_set_int(split->module, &op->attrs, "phase", is_needed ? PTC_PHASE_F : PTC_PHASE_B);
    if (is_needed) ptc_visit_uses(op, mark, &needed);
  }
  ptc_map_deinit(&grads);
  ptc_map_deinit(&needed);
}

// --- parts

static void set_turn_parts(const ptc_split_t *split, ptc_op_t *op, int32_t repeat) {
  const int64_t count = ptc_op_int(op, "count");
  int64_t *parts = PTC_ARENA_ARRAY(&split->ctx->scratch, int64_t, count + 1);
  for (int64_t turn = 0; turn < count; turn++) parts[turn] = ptc_split_part_at(split, repeat, turn);
  ptc_attrs_set_ints(split->module, &op->attrs, "turn_part", parts, (int32_t)count);
  ptc_attrs_set_int(split->module, &op->attrs, "part", count > 0 ? parts[0] : 0);
}

int32_t ptc_split_forward_of(const ptc_op_t *reversed, ptc_op_t *const *forward,
                             int32_t num_forward) {
  for (int pass = 0; pass < 2; pass++)
    for (int32_t i = reversed->num_carry; i < reversed->num_operands; i++)
      for (int32_t f = num_forward; f-- > 0;) {
        if (pass == 0 && reversed->operands[i]->def == forward[f]) return f;
        for (int32_t k = forward[f]->num_carry; pass == 1 && k < forward[f]->num_operands; k++)
          if (forward[f]->operands[k] == reversed->operands[i]) return f;
      }
  return -1;
}

// Where the value is made that |op|, which adds up or converts a gradient of a parameter, works on; |otherwise| if
// that is not known.
static int64_t part_of_source(const ptc_op_t *op, int64_t otherwise) {
  const bool follows = op->opcode == PTC_OP_ACCUMULATE || op->opcode == PTC_OP_CAST ||
                       op->opcode == PTC_OP_RENAME || op->opcode == PTC_OP_TRANSPOSE ||
                       ptc_op_has_trait(op, PTC_TRAIT_COLLECTIVE);
  const ptc_value_t *source = op->operands[op->opcode == PTC_OP_ACCUMULATE ? 1 : 0];
  if (!follows || !source->def || source->def->parent != op->parent) return otherwise;
  const ptc_op_t *def = source->def;
  if (ptc_attrs_int(&def->attrs, "phase", -1) != ptc_attrs_int(&op->attrs, "phase", -1))
    return otherwise;
  const ptc_attr_t *turns = ptc_attrs_find(&def->attrs, "turn_part");
  if (turns && turns->count > 0 && op->opcode != PTC_OP_ACCUMULATE) return otherwise;
  if (turns && turns->count > 0)
    return turns->u.ints[ptc_op_bool(def, "reverse") ? 0 : turns->count - 1];
  return ptc_attrs_int(&def->attrs, "part", otherwise);
}

ptc_status_t ptc_split_place(const ptc_split_t *split, ptc_func_t *func) {
  ptc_op_t *loop = ptc_split_find_loop(func);
  if (!loop) return ptc_split_unsupported(split, func->body->last, "it has no micro-batches");
  enum { MAX_REPEATS = 256 };
  ptc_op_t *forward[MAX_REPEATS];
  const int32_t num_forward = ptc_split_forward_repeats(func, forward, MAX_REPEATS);
  if (num_forward == MAX_REPEATS)
    return ptc_split_unsupported(split, loop, "it has more than 255 repeats");
  set_phases(split, func, loop, forward, num_forward);
  int32_t passed = 0, back = num_forward;
  for (ptc_op_t *op = loop->body->first; op != loop->body->last; op = op->next) {
    const bool is_forward = ptc_attrs_int(&op->attrs, "phase", 0) == PTC_PHASE_F;
    if (passed < num_forward && op == forward[passed]) {
      set_turn_parts(split, op, passed++);
      continue;
    }
    if (is_turns(op) && !is_forward && ptc_op_bool(op, "reverse")) {
      const int32_t at = ptc_split_forward_of(op, forward, num_forward);
      if (at < 0)
        return ptc_split_unsupported(split, op, "it is no repeat's gradient that could be told");
      set_turn_parts(split, op, back = at);
      continue;
    }
    const int32_t part = ptc_split_part_at(split, is_forward ? passed : back, -1);
    ptc_attrs_set_int(split->module, &op->attrs, "part",
                      op->num_operands > 0 ? part_of_source(op, part) : part);
  }
  return PTC_OK;
}
