// Rematerialization of one pair of regions.
#include "ir/base/vec.h"
#include "ir/op.h"
#include "passes/recompute_impl.h"
#include "passes/rewrite.h"

typedef struct remat_s {
  const ptc_pair_t *pair;
  const ptc_map_t *keep;
  ptc_map_t needed;  // op of forward's body -> itself: is cloned
  ptc_map_t map;     // value of forward's body -> value of backward's body
} remat_t;

int32_t ptc_pair_find_saved(const ptc_pair_t *pair, int32_t index) {
  const ptc_op_t *backward = pair->backward;
  for (int32_t i = 0; i < backward->num_each; i++)
    if (backward->operands[backward->num_carry + i] == pair->forward->results[index]) return i;
  return -1;
}

static ptc_value_t *each_arg(const ptc_op_t *repeat, int32_t index) {
  return repeat->body->args[1 + repeat->num_carry + index];
}

// The instance of |bundle| in backward's body.
static ptc_value_t *take_bundle(const ptc_pair_t *pair, ptc_value_t *bundle) {
  ptc_op_t *backward = pair->backward;
  for (int32_t i = 0; i < backward->num_each; i++)
    if (backward->operands[backward->num_carry + i] == bundle) return each_arg(backward, i);
  return ptc_repeat_add_each(pair->module, backward, bundle);
}

// |value| of forward's body as saved per turn.
static ptc_value_t *take_saved(const ptc_pair_t *pair, ptc_value_t *value) {
  ptc_op_t *forward = pair->forward;
  for (int32_t i = forward->num_carry; i < forward->num_results; i++)
    if (forward->body->last->operands[i] == value) return take_bundle(pair, forward->results[i]);
  return take_bundle(pair, ptc_repeat_add_collect(pair->module, forward, value));
}

static void need(remat_t *r, ptc_value_t *value);

static void need_operands(remat_t *r, const ptc_op_t *op) {
  for (int32_t i = 0; i < op->num_operands; i++) need(r, op->operands[i]);
  for (const ptc_op_t *inner = op->body ? op->body->first : NULL; inner; inner = inner->next)
    need_operands(r, inner);
}

// Makes |value| available in backward's body, or marks the op that computes it.
static void need(remat_t *r, ptc_value_t *value) {
  const ptc_op_t *forward = r->pair->forward;
  if (ptc_value_block(value) != forward->body || ptc_map_get(&r->map, value)) return;
  if (value->def && !ptc_map_get(r->keep, value)) {
    if (ptc_map_get(&r->needed, value->def)) return;
    ptc_map_set(&r->needed, value->def, value->def);
    need_operands(r, value->def);
    return;
  }
  ptc_value_t *there;
  if (value->def || (value->index > 0 && value->index <= forward->num_carry))
    there = take_saved(r->pair, value);
  else if (value->index == 0)
    there = r->pair->backward->body->args[0];
  else
    there = take_bundle(r->pair, forward->operands[value->index - 1]);
  ptc_map_set(&r->map, value, there);
}

static void mark_remat(ptc_op_t *op, void *arg) {
  (void)arg;
  op->remat = true;
}

static void clone_needed(remat_t *r) {
  ptc_block_t *body = r->pair->backward->body;
  ptc_op_t *before = body->first;
  for (ptc_op_t *op = r->pair->forward->body->first; op; op = op->next) {
    if (!ptc_map_get(&r->needed, op)) continue;
    ptc_op_t *clone = ptc_op_clone(r->pair->module, op, &r->map);
    clone->remat = true;
    if (clone->body) ptc_block_walk(clone->body, mark_remat, NULL);
    ptc_op_insert(clone, body, before);
  }
}

void ptc_recompute_pair(const ptc_pair_t *pair, const ptc_map_t *keep) {
  const ptc_op_t *forward = pair->forward;
  ptc_op_t *backward = pair->backward;
  remat_t r = {.pair = pair, .keep = keep};
  const int32_t num_saved = forward->num_results;  // further ones are added below
  for (int32_t i = forward->num_carry; i < num_saved; i++)
    if (ptc_pair_find_saved(pair, i) >= 0) need(&r, forward->body->last->operands[i]);
  clone_needed(&r);
  for (int32_t i = forward->num_carry; i < num_saved; i++) {
    ptc_value_t *value = forward->body->last->operands[i];
    const int32_t at = ptc_pair_find_saved(pair, i);
    if (at < 0 || !value->def || !ptc_map_get(&r.needed, value->def)) continue;
    ptc_block_replace_uses(backward->body, each_arg(backward, at), ptc_map_get(&r.map, value));
    ptc_repeat_erase_each(backward, at);
  }
  ptc_map_deinit(&r.needed);
  ptc_map_deinit(&r.map);
}
