// Which ops a step runs for a micro-batch, and where they belong: their phase, and the piece of the model.
//
// The text is in order: forward ops, among them the forward repeats, then backward ops, among them the reversed
// repeats. What stands between two repeats is a piece of its own; its gradient stands between the reversed repeats.
#include <inttypes.h>
#include <string.h>

#include "ir/op.h"
#include "passes/planner/work_build_impl.h"
#include "passes/uses.h"

// --- ops of the program

static void need_op(ptc_op_t *op, void *arg) {
  ptc_map_set(&((ptc_wbuild_t *)arg)->needed, op, op);
}

// |value| and all that it is computed from.
static void need(ptc_value_t *value, void *arg) {
  ptc_wbuild_t *b = arg;
  if (!value->def || ptc_map_get(&b->needed, value->def)) return;
  need_op(value->def, b);
  if (value->def->body) ptc_block_walk(value->def->body, need_op, b);
  ptc_visit_uses(value->def, need, b);
}

static bool is_turns(const ptc_op_t *op) {
  return op->opcode == PTC_OP_REPEAT && !ptc_op_string(op, "axis");
}

static void need_gradient(ptc_op_t *op, void *arg) {
  if (op->opcode == PTC_OP_ADAMW || op->opcode == PTC_OP_SGD)
    need(ptc_work_source(op->operands[1]), arg);
}

// Without a loop: what losses, metrics and gradients need.
static void need_results(ptc_wbuild_t *b) {
  const ptc_op_t *ret = ptc_func_return(b->func);
  for (int32_t i = 0; i < b->func->num_results; i++)
    if (b->func->results[i].kind != PTC_RESULT_STATE) need(ret->operands[i], b);
  ptc_block_walk(b->func->body, need_gradient, b);
}

// The loop, and what comes before it for its sake.
static void need_loop(ptc_wbuild_t *b) {
  ptc_block_walk(b->loop->body, need_op, b);
  for (int32_t i = b->loop->num_carry; i < b->loop->num_operands; i++)
    need(b->loop->operands[i], b);
  const ptc_block_t *body = b->loop->body;
  for (const ptc_op_t *op = body->first; op; op = op->next) ptc_visit_uses(op, need, b);
}

ptc_status_t ptc_work_find_ops(ptc_wbuild_t *b) {
  for (ptc_op_t *op = b->func->body->first; op && !b->loop; op = op->next) {
    const char *axis = op->opcode == PTC_OP_REPEAT ? ptc_op_string(op, "axis") : NULL;
    if (axis && strcmp(axis, "micro") == 0) b->loop = op;
  }
  b->body = b->loop ? b->loop->body : b->func->body;
  if (b->loop)
    need_loop(b);
  else
    need_results(b);
  int32_t number = -1;
  for (ptc_op_t *op = b->body->first; op; op = op->next) {
    number += is_turns(op);
    if (!is_turns(op) || !ptc_map_get(&b->needed, op)) continue;
    if (ptc_op_bool(op, "reverse")) break;
    // A loop that only makes zeros is none of the model's.
    if (op->num_operands == 0 && op->body->first->opcode == PTC_OP_CONSTANT) continue;
    if (b->num_forward == PTC_WORK_MAX_REPEATS)
      return ptc_error(b->module->diag, op->loc, PTC_UNSUPPORTED, "planner-pieces",
                       "the model has more than %d repeats one after another",
                       PTC_WORK_MAX_REPEATS);
    b->forward_at[b->num_forward] = number;
    b->forward[b->num_forward++] = op;
  }
  return PTC_OK;
}

// --- phases

static void mark(ptc_value_t *value, void *arg) { ptc_map_set(arg, value, value); }

static bool makes_one_of(const ptc_op_t *op, const ptc_map_t *values) {
  for (int32_t i = 0; i < op->num_results; i++)
    if (ptc_map_get(values, op->results[i])) return true;
  return false;
}

static bool is_forward_repeat(const ptc_wbuild_t *b, const ptc_op_t *op) {
  for (int32_t i = 0; i < b->num_forward; i++)
    if (b->forward[i] == op) return true;
  return false;
}

// Results of the loop that new states need: sums of gradients.
static void find_sums(const ptc_wbuild_t *b, ptc_map_t *out_needed) {
  const ptc_op_t *ret = ptc_func_return(b->func);
  for (int32_t i = 0; i < b->func->num_results; i++)
    if (b->func->results[i].kind != PTC_RESULT_VALUE) mark(ret->operands[i], out_needed);
  for (const ptc_op_t *op = ret->prev; op && op != b->loop; op = op->prev)
    if (makes_one_of(op, out_needed)) ptc_visit_uses(op, mark, out_needed);
}

// What a micro-batch computes for losses, metrics and outputs.
static void find_outputs(const ptc_wbuild_t *b, ptc_map_t *out_needed) {
  if (!b->loop) {
    const ptc_op_t *ret = ptc_func_return(b->func);
    for (int32_t i = 0; i < b->func->num_results; i++)
      if (b->func->results[i].kind == PTC_RESULT_VALUE) mark(ret->operands[i], out_needed);
    return;
  }
  ptc_map_t sums = {0};
  find_sums(b, &sums);
  const ptc_op_t *yield = b->loop->body->last;
  for (int32_t i = 0; i < yield->num_operands; i++)
    if (!ptc_map_get(&sums, b->loop->results[i])) mark(yield->operands[i], out_needed);
  ptc_map_deinit(&sums);
}

static ptc_wplace_t *place(ptc_wbuild_t *b, const ptc_op_t *op) {
  ptc_wplace_t *p = ptc_map_get(&b->places, op);
  if (p) return p;
  p = PTC_ARENA_NEW(b->scratch, ptc_wplace_t);
  *p = (ptc_wplace_t){PTC_WORK_BACKWARD, 0};
  ptc_map_set(&b->places, op, p);
  return p;
}

const ptc_wplace_t *ptc_work_place_of(const ptc_wbuild_t *b, const ptc_op_t *op) {
  return ptc_map_get(&b->places, op);
}

static void place_forward(ptc_wbuild_t *b) {
  ptc_map_t needed = {0};
  find_outputs(b, &needed);
  for (ptc_op_t *op = b->body->last; op; op = op->prev) {
    if (!ptc_map_get(&b->needed, op)) continue;
    if (!makes_one_of(op, &needed) && !is_forward_repeat(b, op)) continue;
    place(b, op)->phase = PTC_WORK_FORWARD;
    ptc_visit_uses(op, mark, &needed);
  }
  ptc_map_deinit(&needed);
}

// Of a reversed repeat: what the gradient that it hands on needs stays in B.
static void place_reversed(ptc_wbuild_t *b, const ptc_op_t *repeat, const ptc_map_t *needed) {
  const ptc_op_t *yield = repeat->body->last;
  ptc_map_t chain = {0};
  for (int32_t i = 0; i < yield->num_operands; i++)
    if (i < repeat->num_carry || ptc_map_get(needed, repeat->results[i]))
      mark(yield->operands[i], &chain);
  for (const ptc_op_t *op = yield->prev; op; op = op->prev) {
    const bool in_chain = makes_one_of(op, &chain);
    if (in_chain) ptc_visit_uses(op, mark, &chain);
    place(b, op)->phase = op->remat  ? PTC_WORK_AGAIN
                          : in_chain ? PTC_WORK_BACKWARD
                                     : PTC_WORK_WEIGHT;
  }
  ptc_map_deinit(&chain);
}

static void place_backward(ptc_wbuild_t *b) {
  ptc_map_t needed = {0};
  for (ptc_op_t *op = b->body->last; op; op = op->prev) {
    if (!ptc_map_get(&b->needed, op) || place(b, op)->phase == PTC_WORK_FORWARD) continue;
    const bool reversed = is_turns(op) && ptc_op_bool(op, "reverse") && op->num_carry > 0;
    if (reversed) place_reversed(b, op, &needed);
    if (reversed || makes_one_of(op, &needed))
      ptc_visit_uses(op, mark, &needed);
    else if (!ptc_op_has_trait(op, PTC_TRAIT_TERMINATOR))
      place(b, op)->phase = PTC_WORK_WEIGHT;
    if (op->remat) place(b, op)->phase = PTC_WORK_AGAIN;
  }
  ptc_map_deinit(&needed);
}

// --- pieces

int32_t ptc_work_forward_of(const ptc_wbuild_t *b, const ptc_op_t *reversed) {
  for (int pass = 0; pass < 2; pass++)
    for (int32_t i = reversed->num_carry; i < reversed->num_operands; i++)
      for (int32_t f = b->num_forward; f-- > 0;) {
        if (pass == 0 && reversed->operands[i]->def == b->forward[f]) return f;
        for (int32_t k = b->forward[f]->num_carry; pass == 1 && k < b->forward[f]->num_operands;
             k++)
          if (b->forward[f]->operands[k] == reversed->operands[i]) return f;
      }
  return -1;
}

// Where the value is made that |op|, which adds up or converts a gradient, works on.
static int32_t piece_of_source(const ptc_wbuild_t *b, const ptc_op_t *op, int32_t otherwise) {
  const bool follows = op->opcode == PTC_OP_ACCUMULATE || op->opcode == PTC_OP_CAST ||
                       op->opcode == PTC_OP_RENAME || op->opcode == PTC_OP_TRANSPOSE;
  if (!follows) return otherwise;
  const ptc_op_t *def = op->operands[op->opcode == PTC_OP_ACCUMULATE ? 1 : 0]->def;
  const ptc_wplace_t *there = def && def->parent == op->parent ? ptc_work_place_of(b, def) : NULL;
  return there && there->phase != PTC_WORK_FORWARD ? there->piece : otherwise;
}

static void inherit(ptc_wbuild_t *b, const ptc_op_t *op, ptc_work_phase_t phase, int32_t piece) {
  for (const ptc_op_t *inner = op->body->first; inner; inner = inner->next) {
    ptc_wplace_t *p = ptc_map_get(&b->places, inner);
    if (!p) {
      p = place(b, inner);
      p->phase = inner->remat ? PTC_WORK_AGAIN : phase;
    }
    p->piece = piece;
    if (inner->body) inherit(b, inner, p->phase, piece);
  }
}

static void place_pieces(ptc_wbuild_t *b) {
  int32_t passed = 0, back = b->num_forward;
  for (ptc_op_t *op = b->body->first; op; op = op->next) {
    if (!ptc_map_get(&b->needed, op)) continue;
    ptc_wplace_t *p = place(b, op);
    const bool forward = p->phase == PTC_WORK_FORWARD;
    if (passed < b->num_forward && op == b->forward[passed]) {
      p->piece = 2 * passed++ + 1;
    } else if (is_turns(op) && !forward && ptc_op_bool(op, "reverse") &&
               ptc_work_forward_of(b, op) >= 0) {
      back = ptc_work_forward_of(b, op);
      p->piece = 2 * back + 1;
    } else {
      p->piece = 2 * (forward ? passed : back);
      if (!forward && op->num_operands > 0) p->piece = piece_of_source(b, op, p->piece);
    }
    if (op->body) inherit(b, op, p->phase, p->piece);
  }
}

// Before the loop: once per step.
static void place_step(ptc_wbuild_t *b) {
  if (!b->loop) return;
  for (ptc_op_t *op = b->func->body->first; op != b->loop; op = op->next) {
    if (!ptc_map_get(&b->needed, op)) continue;
    *place(b, op) = (ptc_wplace_t){PTC_WORK_STEP, 0};
    if (op->body) inherit(b, op, PTC_WORK_STEP, 0);
  }
}

void ptc_work_place(ptc_wbuild_t *b) {
  place_forward(b);
  place_backward(b);
  place_pieces(b);
  place_step(b);
}
