// Divides the backward pass for zero-bubble schedules: what only gradients of parameters need is apart (W), and may
// run later than what the stage before waits for (B). A reversed repeat becomes two: the first carries the gradient
// from turn to turn and hands out what the second takes, which makes the gradients of the parameters.
#include <string.h>

#include "ir/builder.h"
#include "ir/op.h"
#include "passes/rewrite.h"
#include "passes/split_impl.h"
#include "passes/uses.h"

typedef struct grads_s {
  const ptc_split_t *split;
  ptc_module_t *module;
  ptc_map_t needed;  // values of the loop that B makes for others
  bool whole;        // repeats compute groups of turns again: they are not divided
} grads_t;

static void mark(ptc_value_t *value, void *arg) { ptc_map_set(arg, value, value); }

static bool makes_one_of(const ptc_op_t *op, const ptc_map_t *values) {
  for (int32_t i = 0; i < op->num_results; i++)
    if (ptc_map_get(values, op->results[i])) return true;
  return false;
}

static bool is_reversed(const ptc_op_t *op) {
  return op->opcode == PTC_OP_REPEAT && ptc_op_bool(op, "reverse") && op->num_carry > 0;
}

static bool is_list(const ptc_op_t *op) {
  return op->opcode == PTC_OP_LIST_SLICE || op->opcode == PTC_OP_LIST_CONCAT ||
         op->opcode == PTC_OP_LIST_GROUP || op->opcode == PTC_OP_LIST_UNGROUP;
}

static bool is_phase(const ptc_op_t *op, ptc_phase_t phase) {
  return ptc_attrs_int(&op->attrs, "phase", -1) == (int64_t)phase;
}

// --- one reversed repeat

typedef struct fission_s {
  ptc_module_t *module;
  ptc_op_t *repeat, *late;
  ptc_map_t chain;  // values of the body that the carried ones need
  ptc_map_t there;  // value of repeat's body -> value of late's body
} fission_t;

static void move_use(ptc_value_t *value, void *arg) {
  fission_t *f = arg;
  if (ptc_value_block(value) != f->repeat->body || ptc_map_get(&f->there, value)) return;
  ptc_value_t *there = NULL;
  const int32_t each = value->index - 1 - f->repeat->num_carry;
  if (value->def && value->def->num_operands == 0 && !value->def->body) {
    // A constant or an index: once more.
    ptc_op_t *copy = ptc_op_clone(f->module, value->def, &f->there);
    ptc_op_insert(copy, f->late->body, f->late->body->last);
    return;
  }
  if (!value->def && value->index == 0)
    there = f->late->body->args[0];
  else if (!value->def && each >= 0)
    there =
        ptc_repeat_add_each(f->module, f->late, f->repeat->operands[f->repeat->num_carry + each]);
  else
    there = ptc_repeat_add_each(f->module, f->late,
                                ptc_repeat_add_collect(f->module, f->repeat, value));
  ptc_map_set(&f->there, value, there);
}

typedef struct seek_s {
  const ptc_value_t *value;
  bool found;
} seek_t;

static void seek(ptc_op_t *op, void *arg) {
  seek_t *s = arg;
  for (int32_t i = 0; i < op->num_operands; i++) s->found |= op->operands[i] == s->value;
}

// What only ops that moved took.
static void erase_unused(ptc_op_t *repeat) {
  for (int32_t i = repeat->num_each; i-- > 0;) {
    seek_t s = {.value = repeat->body->args[1 + repeat->num_carry + i]};
    ptc_block_walk(repeat->body, seek, &s);
    if (!s.found) ptc_repeat_erase_each(repeat, i);
  }
}

// The gradients of parameters of |repeat| move to a repeat after it, which is returned; NULL if there are none.
static ptc_op_t *divide(const grads_t *g, ptc_op_t *repeat) {
  fission_t f = {.module = g->module, .repeat = repeat};
  ptc_op_t *yield = repeat->body->last;
  for (int32_t i = 0; i < repeat->num_carry; i++) mark(yield->operands[i], &f.chain);
  for (int32_t i = repeat->num_carry; i < yield->num_operands; i++)
    if (ptc_map_get(&g->needed, repeat->results[i]) || !yield->operands[i]->def)
      mark(yield->operands[i], &f.chain);
  for (ptc_op_t *op = yield->prev; op; op = op->prev)
    if (makes_one_of(op, &f.chain)) ptc_visit_uses(op, mark, &f.chain);
  f.late = ptc_op_new(g->module, PTC_OP_REPEAT, repeat->loc, NULL, 0, 0);
  f.late->attrs = ptc_attrs_clone(g->module, &repeat->attrs);
  f.late->body = ptc_block_new(g->module, repeat->parent->func, f.late);
  ptc_block_add_arg(f.late->body, repeat->body->args[0]->type, repeat->body->args[0]->name);
  ptc_op_insert(ptc_op_new(g->module, PTC_OP_YIELD, repeat->loc, NULL, 0, 0), f.late->body, NULL);
  ptc_op_insert(f.late, repeat->parent, repeat->next);
  int32_t moved = 0;
  for (ptc_op_t *op = repeat->body->first, *next; op != yield; op = next) {
    next = op->next;
    if (makes_one_of(op, &f.chain)) continue;
    ptc_visit_uses(op, move_use, &f);
    ptc_op_t *copy = ptc_op_clone(g->module, op, &f.there);
    ptc_op_insert(copy, f.late->body, f.late->body->last);
    moved++;
  }
  // Collected values that moved are collected there.
  for (int32_t i = yield->num_operands; i-- > repeat->num_carry;) {
    const ptc_value_t *value = yield->operands[i];
    if (!value->def || makes_one_of(value->def, &f.chain)) continue;
    ptc_value_t *bundle = ptc_repeat_add_collect(g->module, f.late, ptc_map_get(&f.there, value));
    bundle->name = repeat->results[i]->name;
    ptc_block_replace_uses(repeat->parent, repeat->results[i], bundle);
    ptc_repeat_erase_collect(repeat, i - repeat->num_carry);
  }
  for (ptc_op_t *op = yield->prev, *prev; op; op = prev) {
    prev = op->prev;
    if (!makes_one_of(op, &f.chain)) ptc_op_remove(op);
  }
  erase_unused(repeat);
  if (moved == 0) ptc_op_remove(f.late);
  ptc_map_deinit(&f.chain);
  ptc_map_deinit(&f.there);
  return moved > 0 ? f.late : NULL;
}

void ptc_split_grads(const ptc_split_t *split, ptc_func_t *func) {
  ptc_op_t *loop = ptc_split_find_loop(func);
  if (!loop || !split->split_w) return;
  grads_t g = {.split = split, .module = split->module};
  g.whole = strcmp(ptc_attrs_string(&split->module->config, "recompute", "none"), "every") == 0;
  for (ptc_op_t *op = loop->body->last->prev, *prev; op; op = prev) {
    prev = op->prev;
    if (!is_phase(op, PTC_PHASE_B)) continue;
    if (g.whole && (op->body || is_list(op))) {
      ptc_visit_uses(op, mark, &g.needed);
    } else if (is_reversed(op)) {
      ptc_op_t *late = divide(&g, op);
      if (late) ptc_attrs_set_int(g.module, &late->attrs, "phase", PTC_PHASE_W);
      ptc_visit_uses(op, mark, &g.needed);
    } else if (makes_one_of(op, &g.needed)) {
      ptc_visit_uses(op, mark, &g.needed);
    } else {
      ptc_attrs_set_int(g.module, &op->attrs, "phase", PTC_PHASE_W);
    }
  }
  ptc_map_deinit(&g.needed);
}
