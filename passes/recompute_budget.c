// selective(bytes = N): which saved values are computed again, in order of what that costs.
//
// Starting with all saved, each step of the order drops the value that costs the least time per byte it frees, given
// what has been dropped before; last comes what frees bytes only together. The config's recompute_level says how many
// steps are taken: who makes the plan tries levels until its memory fits (frontend/driver/fit_memory.h).
#include <math.h>
#include <stdlib.h>

#include "ir/base/vec.h"
#include "ir/op.h"
#include "passes/cost.h"
#include "passes/recompute_impl.h"

// What a choice for one pair costs, per turn.
typedef struct price_s {
  double flops, bytes;  // computed again; saved
} price_t;

typedef struct trial_s {
  const ptc_pair_t *pair;
  const ptc_map_t *keep;
  ptc_map_t seen;  // ops that are cloned, values that are saved
  price_t price;
} trial_t;

static double flops_of(const ptc_op_t *op) {
  double flops = (double)ptc_op_cost(op).flops;
  for (const ptc_op_t *inner = op->body ? op->body->first : NULL; inner; inner = inner->next)
    flops += flops_of(inner);
  return op->body ? flops * (double)ptc_op_int(op, "count") : flops;
}

static void save(trial_t *t, const ptc_value_t *value) {
  if (ptc_map_get(&t->seen, value)) return;
  ptc_map_set(&t->seen, value, t);
  t->price.bytes += (double)ptc_type_num_bytes(value->type);
}

static void need(trial_t *t, const ptc_value_t *value);

static void need_operands(trial_t *t, const ptc_op_t *op) {
  for (int32_t i = 0; i < op->num_operands; i++) need(t, op->operands[i]);
  for (const ptc_op_t *inner = op->body ? op->body->first : NULL; inner; inner = inner->next)
    need_operands(t, inner);
}

// As ptc_recompute_pair makes |value| available.
static void need(trial_t *t, const ptc_value_t *value) {
  const ptc_op_t *forward = t->pair->forward;
  if (ptc_value_block(value) != forward->body) return;
  if (!value->def) {
    if (value->index > 0 && value->index <= forward->num_carry) save(t, value);
  } else if (ptc_map_get(t->keep, value)) {
    save(t, value);
  } else if (!ptc_map_get(&t->seen, value->def)) {
    ptc_map_set(&t->seen, value->def, t);
    t->price.flops += flops_of(value->def);
    need_operands(t, value->def);
  }
}

static price_t price_of(const ptc_pair_t *pair, const ptc_map_t *keep) {
  trial_t trial = {.pair = pair, .keep = keep};
  const ptc_op_t *forward = pair->forward;
  for (int32_t i = forward->num_carry; i < forward->num_results; i++)
    if (ptc_pair_find_saved(pair, i) >= 0) need(&trial, forward->body->last->operands[i]);
  ptc_map_deinit(&trial.seen);
  const double turns = (double)ptc_op_int(forward, "count");
  return (price_t){trial.price.flops * turns, trial.price.bytes * turns};
}

// --- the order

typedef struct state_s {
  const ptc_pair_t *pair;
  ptc_map_t keep;
  PTC_VEC(ptc_value_t *) values;  // that may be dropped; NULL: dropped
  price_t price;
  // The best next step: one value, or (-1) all that are left.
  int64_t best;
  price_t then;
  double ratio;  // flops per byte; infinite: no step is left
} state_t;

static ptc_map_t keep_without(const state_t *s, int64_t at) {
  ptc_map_t keep = {0};
  for (int64_t i = 0; i < s->values.len && at >= 0; i++)
    if (i != at && s->values.data[i]) ptc_map_set(&keep, s->values.data[i], s->values.data[i]);
  return keep;
}

static void try_step(state_t *s, int64_t at) {
  ptc_map_t keep = keep_without(s, at);
  const price_t then = price_of(s->pair, &keep);
  ptc_map_deinit(&keep);
  const double freed = s->price.bytes - then.bytes;
  if (freed <= 0) return;
  const double ratio = (then.flops - s->price.flops) / freed;
  if (ratio < s->ratio) s->best = at, s->then = then, s->ratio = ratio;
}

static void find_step(state_t *s) {
  s->ratio = INFINITY;
  for (int64_t i = 0; i < s->values.len; i++)
    if (s->values.data[i]) try_step(s, i);
  if (isinf(s->ratio)) try_step(s, -1);
}

static void take_step(state_t *s) {
  ptc_map_t keep = keep_without(s, s->best);
  ptc_map_deinit(&s->keep);
  s->keep = keep;
  for (int64_t i = 0; i < s->values.len; i++)
    if (s->best < 0 || i == s->best) s->values.data[i] = NULL;
  s->price = s->then;
}

static void open_state(state_t *s, const ptc_pair_t *pair) {
  *s = (state_t){.pair = pair};
  const ptc_op_t *forward = pair->forward;
  for (int32_t i = forward->num_carry; i < forward->num_results; i++) {
    ptc_value_t *value = forward->body->last->operands[i];
    if (!value->def || ptc_pair_find_saved(pair, i) < 0 || ptc_map_get(&s->keep, value)) continue;
    ptc_map_set(&s->keep, value, value);
    PTC_VEC_PUSH(&s->values, value);
  }
  s->price = price_of(pair, &s->keep);
  find_step(s);
}

int64_t ptc_recompute_order(const ptc_pair_t *pairs, int32_t num_pairs, int64_t level,
                            ptc_map_t *keeps) {
  state_t *states = ptc_xmalloc(sizeof *states * (size_t)(num_pairs + 1));
  for (int32_t p = 0; p < num_pairs; p++) open_state(&states[p], &pairs[p]);
  int64_t steps = 0;
  for (;; steps++) {
    for (int32_t p = 0; p < num_pairs && steps == level; p++) {
      keeps[p] = states[p].keep;
      states[p].keep = (ptc_map_t){0};
    }
    int32_t next = 0;
    for (int32_t p = 1; p < num_pairs; p++)
      if (states[p].ratio < states[next].ratio) next = p;
    if (num_pairs == 0 || isinf(states[next].ratio)) break;
    take_step(&states[next]);
    find_step(&states[next]);
  }
  for (int32_t p = 0; p < num_pairs; p++) {
    if (steps < level)
      keeps[p] = states[p].keep;
    else
      ptc_map_deinit(&states[p].keep);
    PTC_VEC_FREE(&states[p].values);
  }
  free(states);
  return steps;
}
