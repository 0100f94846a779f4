// recompute: trades saved values for computing them again in the backward pass.
//
// Works on the pairs of regions that autodiff makes: a repeat, and the reversed repeat that takes
// what the first collects. Config recompute says what stays saved:
//
//   none       everything that the gradient uses
//   full       the carried values of each turn (Chen et al. 2016, arXiv:1604.06174)
//   every      the carried values of every recompute_every-th turn
//   selective  besides, the results of contractions and attention (Korthikanti et al. 2022,
//              arXiv:2205.05198); what is cheap is computed again, where that saves bytes
//              With recompute_level, which stands for a budget of bytes: see recompute_budget.c
//
// With recompute_turns this holds for some turns alone: see recompute_turns.c
//
// A clone has the random stream of its original (same path, same turn) and a mark that cse
// respects.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/vec.h"
#include "ir/op.h"
#include "passes/advice.h"
#include "passes/lr_schedule.h"
#include "passes/pass.h"
#include "passes/recompute_impl.h"
#include "passes/simplify.h"

typedef struct recompute_s {
  ptc_module_t *module;
  const char *mode;
  int64_t period;
} recompute_t;

static bool is_mode(const recompute_t *r, const char *mode) { return strcmp(r->mode, mode) == 0; }

ptc_op_t *ptc_recompute_find_forward(const ptc_op_t *backward) {
  if (!ptc_op_bool(backward, "reverse")) return NULL;
  for (int32_t i = backward->num_carry; i < backward->num_operands; i++) {
    ptc_op_t *def = backward->operands[i]->def;
    if (def && def->opcode == PTC_OP_REPEAT && def->parent == backward->parent &&
        !ptc_op_bool(def, "reverse") && backward->operands[i]->index >= def->num_carry)
      return def;
  }
  return NULL;
}

// --- selective

static bool is_costly(const ptc_op_t *op) {
  return op->opcode == PTC_OP_EINSUM || op->opcode == PTC_OP_ATTENTION || op->body != NULL;
}

typedef struct choice_s {
  const ptc_op_t *forward;
  ptc_map_t keep;  // value -> itself: saved
  ptc_map_t seen;  // op -> itself: in this trial
} choice_t;

// Bytes that must be saved besides if |value| is computed again.
static int64_t extra_bytes(choice_t *c, const ptc_value_t *value) {
  if (ptc_value_block(value) != c->forward->body || ptc_map_get(&c->keep, value)) return 0;
  if (!value->def) {
    const bool carried = value->index > 0 && value->index <= c->forward->num_carry;
    if (!carried || ptc_map_get(&c->seen, value)) return 0;
    ptc_map_set(&c->seen, value, c);
    return ptc_type_num_bytes(value->type);
  }
  if (ptc_map_get(&c->seen, value)) return 0;
  ptc_map_set(&c->seen, value, c);
  if (is_costly(value->def)) return ptc_type_num_bytes(value->type);
  int64_t bytes = 0;
  for (int32_t i = 0; i < value->def->num_operands; i++)
    bytes += extra_bytes(c, value->def->operands[i]);
  return bytes;
}

// Keeps what recomputing |value| takes from forward.
static void keep_sources(choice_t *c, ptc_value_t *value) {
  if (ptc_value_block(value) != c->forward->body || ptc_map_get(&c->keep, value)) return;
  if (!value->def || is_costly(value->def)) {
    ptc_map_set(&c->keep, value, value);
    return;
  }
  for (int32_t i = 0; i < value->def->num_operands; i++) keep_sources(c, value->def->operands[i]);
}

// Costly values first: they stay. The others in order of definition: one that is computed again is
// made of values that are already decided.
static void choose(const ptc_pair_t *pair, choice_t *c) {
  const ptc_op_t *forward = pair->forward, *yield = forward->body->last;
  for (int32_t i = forward->num_carry; i < forward->num_results; i++) {
    ptc_value_t *value = yield->operands[i];
    const bool stays = !value->def || is_costly(value->def);
    if (stays && ptc_pair_find_saved(pair, i) >= 0) ptc_map_set(&c->keep, value, value);
  }
  for (const ptc_op_t *op = forward->body->first; op != yield; op = op->next)
    for (int32_t i = forward->num_carry; i < forward->num_results; i++) {
      ptc_value_t *value = yield->operands[i];
      if (value->def != op || is_costly(op) || ptc_pair_find_saved(pair, i) < 0) continue;
      if (extra_bytes(c, value) < ptc_type_num_bytes(value->type))
        keep_sources(c, value);
      else
        ptc_map_set(&c->keep, value, value);
      ptc_map_deinit(&c->seen);
      c->seen = (ptc_map_t){0};
    }
}

// --- the pass

static void advise(const recompute_t *r, const ptc_pair_t *pair) {
  const ptc_op_t *forward = pair->forward;
  double carried = 0, saved = 0;
  for (int32_t i = 0; i < forward->num_carry; i++)
    carried += (double)ptc_type_num_bytes(forward->operands[i]->type);
  for (int32_t i = forward->num_carry; i < forward->num_results; i++)
    if (ptc_pair_find_saved(pair, i) >= 0)
      saved += (double)ptc_type_num_bytes(forward->body->last->operands[i]->type);
  ptc_advise_interval(r->module, forward->loc, ptc_op_int(forward, "count"), r->period, carried,
                      saved);
}

static ptc_status_t visit_pair(const recompute_t *r, const ptc_pair_t *pair) {
  if (is_mode(r, "every")) {
    advise(r, pair);
    return ptc_recompute_every(pair, r->period);
  }
  choice_t choice = {.forward = pair->forward};
  if (is_mode(r, "selective")) choose(pair, &choice);
  ptc_recompute_pair(pair, &choice.keep);
  ptc_map_deinit(&choice.keep);
  return PTC_OK;
}

// Pairs of nested regions, too: once the outer pair computes the inner forward region again, that
// and the inner backward region are a pair in the outer one's body.
static ptc_status_t visit_block(const recompute_t *r, ptc_block_t *block) {
  for (ptc_op_t *op = block->first, *next; op; op = next) {
    next = op->next;
    if (op->opcode != PTC_OP_REPEAT) continue;
    ptc_op_t *forward = ptc_recompute_find_forward(op);
    if (forward && ptc_recompute_keeps(op)) continue;
    if (forward && (!is_mode(r, "every") || ptc_op_int(op, "count") > r->period)) {
      const ptc_pair_t pair = {r->module, forward, op};
      PTC_TRY(visit_pair(r, &pair));
    }
    if (op->parent && !is_mode(r, "every")) PTC_TRY(visit_block(r, op->body));
    if (op->parent && is_mode(r, "every") && !forward) PTC_TRY(visit_block(r, op->body));
  }
  return PTC_OK;
}

// --- selective(bytes = N)

typedef PTC_VEC(ptc_pair_t) pairs_t;

static void collect_pairs(const recompute_t *r, ptc_block_t *block, pairs_t *pairs) {
  for (ptc_op_t *op = block->first; op; op = op->next) {
    if (op->opcode != PTC_OP_REPEAT) continue;
    ptc_op_t *forward = ptc_recompute_find_forward(op);
    if (forward) PTC_VEC_PUSH(pairs, ((ptc_pair_t){r->module, forward, op}));
    collect_pairs(r, op->body, pairs);
  }
}

// Regions nested in others become pairs once these are computed again: they save what is costly.
static ptc_status_t take_level(const recompute_t *r, ptc_block_t *block, int64_t level) {
  pairs_t pairs = {0};
  collect_pairs(r, block, &pairs);
  ptc_map_t *keeps = ptc_xmalloc(sizeof *keeps * (size_t)(pairs.len + 1));
  const int64_t steps = ptc_recompute_order(pairs.data, (int32_t)pairs.len, level, keeps);
  ptc_attrs_set_int(r->module, &r->module->config, "recompute_steps", steps);
  ptc_status_t status = PTC_OK;
  for (int64_t p = 0; p < pairs.len; p++) {
    if (level > 0) ptc_recompute_pair(&pairs.data[p], &keeps[p]);
    ptc_map_deinit(&keeps[p]);
    if (level > 0 && status == PTC_OK) status = visit_block(r, pairs.data[p].backward->body);
  }
  free(keeps);
  PTC_VEC_FREE(&pairs);
  return status;
}

ptc_status_t ptc_pass_recompute(ptc_pass_ctx_t *ctx, ptc_module_t *module) {
  recompute_t r = {.module = module};
  r.mode = ptc_attrs_string(&module->config, "recompute", "none");
  r.period = (int64_t)ptc_config_number(module, "recompute_every", 1);
  if (is_mode(&r, "none")) return PTC_OK;
  if (!is_mode(&r, "full") && !is_mode(&r, "every") && !is_mode(&r, "selective"))
    return ptc_error(module->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "recompute-kind",
                     "unknown recompute \"%s\" (none, full, every, selective)", r.mode);
  if (r.period < 1)
    return ptc_error(module->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "recompute-kind",
                     "recompute_every must be at least 1, not %" PRId64, r.period);
  // The stages of a pipeline make groups of their own turns: split_recompute.c.
  if (is_mode(&r, "every") && ptc_attrs_int(&module->config, "pp", 1) > 1) return PTC_OK;
  ptc_func_t *train = ptc_module_find_func(module, "train");
  const int64_t level = ptc_attrs_int(&module->config, "recompute_level", -1);
  const char *turns = ptc_attrs_string(&module->config, "recompute_turns", NULL);
  if (train && turns && level < 0) PTC_TRY(ptc_recompute_divide(ctx, module, turns));
  if (train && is_mode(&r, "selective") && level >= 0)
    PTC_TRY(take_level(&r, train->body, level));
  else if (train)
    PTC_TRY(visit_block(&r, train->body));
  if (train && turns) ptc_recompute_forget(module);
  ptc_simplify_dce(module);
  return PTC_OK;
}
