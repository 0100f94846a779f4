// The gradient of a repeat is a repeat the other way round. Forward, with c carried, w per turn, k
// captured, and y collected:
//
//   c', y = repeat carry(c) each(w) { ... k ... yield carry(c') collect(y) }
//   dc, dk, dw = repeat reverse carry(dc', dk so far) each(dy, saved values) { yield carry(dc, dk)
//                                                                         collect(dw) }
//
// The forward region gets further collected results for the values that the gradient uses. Where it
// is itself in the body of a region, these bundles are saved in turn: bundles of bundles.
#include "ir/base/vec.h"
#include "passes/grad.h"
#include "passes/rewrite.h"

typedef PTC_VEC(ptc_value_t *) values_t;

static bool contains(const values_t *list, const ptc_value_t *value) {
  for (int64_t i = 0; i < list->len; i++)
    if (list->data[i] == value) return true;
  return false;
}

// Values from outside of |body| that get a gradient in |block|, in order of first use.
static void find_captures(const ptc_grad_t *g, const ptc_block_t *body, const ptc_block_t *block,
                          values_t *out) {
  for (const ptc_op_t *op = block->first; op; op = op->next) {
    for (int32_t i = 0; i < op->num_operands; i++) {
      if (!ptc_activity_has(g->activity, op->operands[i])) continue;
      ptc_value_t *root = ptc_grad_root(op->operands[i]);
      if (!ptc_block_contains(body, ptc_value_block(root)) && !contains(out, root))
        PTC_VEC_PUSH(out, root);
    }
    if (op->body) find_captures(g, body, op->body, out);
  }
}

// What is known of |value|'s gradient so far, or zeros.
static ptc_value_t *grad_or_zeros(ptc_grad_t *g, const ptc_value_t *value) {
  ptc_value_t *grad = ptc_map_get(&g->grads, value);
  if (grad) return grad;
  return ptc_grad_zeros(&g->b,
                        ptc_type_with_dtype(&g->module->arena, value->type, ptc_grad_dtype(value)));
}

typedef struct region_s {
  const ptc_op_t *forward;
  values_t captures;
  PTC_VEC(int32_t) carried;    // which carried values get a gradient
  PTC_VEC(int32_t) collected;  // which collected results have one
  PTC_VEC(int32_t) each;       // which bundles get one
} region_t;

static void region_init(region_t *r, const ptc_grad_t *g, const ptc_op_t *forward) {
  *r = (region_t){.forward = forward};
  for (int32_t i = 0; i < forward->num_carry; i++)
    if (ptc_activity_has_carry(g->activity, forward, i)) PTC_VEC_PUSH(&r->carried, i);
  for (int32_t i = forward->num_carry; i < forward->num_results; i++)
    if (ptc_grad_of(g, forward, i)) PTC_VEC_PUSH(&r->collected, i);
  for (int32_t i = forward->num_carry; i < forward->num_operands; i++)
    if (ptc_activity_has(g->activity, forward->body->args[1 + i]) && ptc_grad_wants(g, forward, i))
      PTC_VEC_PUSH(&r->each, i);
  find_captures(g, forward->body, forward->body, &r->captures);
}

static void region_deinit(region_t *r) {
  PTC_VEC_FREE(&r->captures);
  PTC_VEC_FREE(&r->carried);
  PTC_VEC_FREE(&r->collected);
  PTC_VEC_FREE(&r->each);
}

// The backward repeat with an empty body, not yet in its block: what its body asks for of the
// blocks around is built in front of it.
static ptc_op_t *begin_backward(ptc_grad_t *g, const region_t *r) {
  values_t operands = {0};
  for (int64_t i = 0; i < r->carried.len; i++)
    PTC_VEC_PUSH(&operands, grad_or_zeros(g, r->forward->results[r->carried.data[i]]));
  for (int64_t i = 0; i < r->captures.len; i++)
    PTC_VEC_PUSH(&operands, grad_or_zeros(g, r->captures.data[i]));
  const int32_t num_carry = (int32_t)operands.len;
  for (int64_t i = 0; i < r->collected.len; i++)
    PTC_VEC_PUSH(&operands, ptc_grad_of(g, r->forward, r->collected.data[i]));
  ptc_op_t *backward = ptc_build_repeat_begin(
      &g->b, ptc_op_int(r->forward, "count"), !ptc_op_bool(r->forward, "reverse"), operands.data,
      num_carry, operands.data ? operands.data + num_carry : NULL,
      (int32_t)operands.len - num_carry);
  if (backward) ptc_op_remove(backward);
  PTC_VEC_FREE(&operands);
  return backward;
}

// The gradients that enter a turn: of the captured values so far, of what the turn yields.
static void enter_turn(ptc_grad_t *turn, const region_t *r) {
  ptc_value_t *const *args = turn->backward->body->args;
  const ptc_op_t *yield = r->forward->body->last;
  int32_t next = 1 + (int32_t)r->carried.len;
  for (int64_t i = 0; i < r->captures.len; i++)
    ptc_map_set(&turn->grads, r->captures.data[i], args[next++]);
  for (int64_t i = 0; i < r->carried.len; i++)
    ptc_grad_give_to(turn, yield->operands[r->carried.data[i]], args[1 + i]);
  for (int64_t i = 0; i < r->collected.len; i++)
    ptc_grad_give_to(turn, yield->operands[r->collected.data[i]], args[next++]);
}

// Ends the body: gradients of the carried values, the captured ones, the per-turn inputs.
static void leave_turn(ptc_grad_t *turn, const region_t *r) {
  ptc_value_t *const *args = r->forward->body->args;
  values_t yields = {0};
  for (int64_t i = 0; i < r->carried.len; i++)
    PTC_VEC_PUSH(&yields, grad_or_zeros(turn, args[1 + r->carried.data[i]]));
  for (int64_t i = 0; i < r->captures.len; i++)
    PTC_VEC_PUSH(&yields, ptc_map_get(&turn->grads, r->captures.data[i]));
  for (int64_t i = 0; i < r->each.len; i++)
    PTC_VEC_PUSH(&yields, grad_or_zeros(turn, args[1 + r->each.data[i]]));
  ptc_build_repeat_end(turn->module, turn->backward, yields.data, (int32_t)yields.len);
  PTC_VEC_FREE(&yields);
}

// Hands the region's gradients to the block around it. Captured values first: theirs replace what
// was known, and one may be an operand, too.
static void leave_region(ptc_grad_t *g, const region_t *r, const ptc_op_t *backward) {
  ptc_value_t *const *results = backward->results;
  int64_t next = r->carried.len;
  for (int64_t i = 0; i < r->captures.len; i++)
    ptc_map_set(&g->grads, r->captures.data[i], results[next++]);
  for (int64_t i = 0; i < r->each.len; i++)
    ptc_grad_give(g, r->forward, r->each.data[i], results[next++]);
  for (int64_t i = 0; i < r->carried.len; i++)
    ptc_grad_give(g, r->forward, r->carried.data[i], results[i]);
}

ptc_status_t ptc_grad_repeat(ptc_grad_t *g, const ptc_op_t *op) {
  if (ptc_op_string(op, "axis")) return ptc_grad_refuse(g, op, "a mesh axis");
  // The op is looked up again to become writable: it gets results for the saved values.
  ptc_op_t *forward = op->body->parent_op;
  region_t r;
  region_init(&r, g, forward);
  ptc_op_t *backward = begin_backward(g, &r);
  ptc_status_t status = backward ? PTC_OK : PTC_INTERNAL;
  if (backward) {
    ptc_grad_t turn = {.module = g->module,
                       .activity = g->activity,
                       .outer = g,
                       .forward = forward,
                       .backward = backward,
                       .b = ptc_builder_at_end(g->module, backward->body)};
    turn.b.loc = op->loc;
    enter_turn(&turn, &r);
    status = ptc_grad_ops(&turn, forward->body->last);
    turn.b.loc = op->loc;
    leave_turn(&turn, &r);
    ptc_grad_deinit(&turn);
    ptc_op_insert(backward, g->b.block, g->b.before);
    leave_region(g, &r, backward);
  }
  region_deinit(&r);
  return status;
}
