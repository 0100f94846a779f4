// What a stage runs after its micro-batches: totals, clipping, the optimizer; and init.
//
// An op runs where its largest operand is made, one on scalars on every stage that needs its result, the update of a
// parameter on every stage where the parameter lives. What a stage needs and does not make is sent to it, in the order
// of the text: that order is one for all stages, so that none waits for another in a ring. Nothing is added in another
// order than in the unsplit program.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ir/op.h"
#include "passes/rewrite.h"
#include "passes/split_impl.h"
#include "passes/uses.h"

typedef struct ends_s {
  ptc_pieces_t *p;
  ptc_func_t *func;  // under construction
  ptc_map_t hard;    // values that depend on parameters or on the loop
  ptc_map_t home;    // value -> stage + 1
  ptc_map_t need;    // value -> the stages that need it
  ptc_map_t map;     // value -> value in |func|
  int32_t num_transfers;
} ends_t;

static uint64_t bit(int64_t stage) { return (uint64_t)1 << stage; }

static uint64_t get_bits(const ptc_map_t *map, const void *key) {
  return (uint64_t)(uintptr_t)ptc_map_get(map, key);
}
static void add_bits(ptc_map_t *map, const void *key, uint64_t bits) {
  ptc_map_set(map, key, (void *)(uintptr_t)(get_bits(map, key) | bits));
}

static int32_t lowest(uint64_t stages) {
  int32_t stage = 0;
  while (!(stages & bit(stage))) stage++;
  return stage;
}

static int32_t home_of(const ends_t *e, const ptc_value_t *value) {
  return (int32_t)(intptr_t)ptc_map_get(&e->home, value) - 1;
}

static void set_home(ends_t *e, const ptc_value_t *value, int32_t stage) {
  if (stage >= 0) ptc_map_set(&e->home, value, (void *)(intptr_t)(stage + 1));
}

// --- homes

typedef struct look_s {
  ends_t *e;
  bool hard;
  int32_t home;
  int64_t bytes;
  uint64_t params;  // the stages on which all parameters live that the op takes
  bool any_param;
} look_t;

static void look(ptc_value_t *value, void *arg) {
  look_t *l = arg;
  const ends_t *e = l->e;
  if (ptc_map_get(&e->hard, value)) l->hard = true;
  const int32_t home = home_of(e, value);
  const int64_t bytes = ptc_type_num_bytes(value->type);
  if (home >= 0 && bytes > l->bytes) {
    l->home = home;
    l->bytes = bytes;
  }
  if (value->def || value->block != e->p->func->body) return;
  const ptc_global_t *global = e->p->func->arg_globals[value->index];
  if (global->kind != PTC_GLOBAL_PARAM && global->kind != PTC_GLOBAL_MOMENT) return;
  l->params &= ptc_split_stages_of(e->p->home, global);
  l->any_param = true;
}

static look_t look_at(ends_t *e, const ptc_op_t *op) {
  look_t l = {.e = e, .home = -1, .bytes = -1, .params = ~(uint64_t)0};
  ptc_visit_uses(op, look, &l);
  if (!l.any_param) l.params = 0;
  return l;
}

static void find_homes(ends_t *e) {
  ptc_pieces_t *p = e->p;
  for (int32_t i = 0; i < p->func->body->num_args; i++) {
    const ptc_global_t *global = p->func->arg_globals[i];
    if (global->kind != PTC_GLOBAL_PARAM && global->kind != PTC_GLOBAL_MOMENT) continue;
    ptc_map_set(&e->hard, p->func->body->args[i], p);
    set_home(e, p->func->body->args[i], lowest(ptc_split_stages_of(p->home, global)));
  }
  for (ptc_op_t *op = p->func->body->first; op; op = op->next) {
    const look_t l = look_at(e, op);
    for (int32_t i = 0; i < op->num_results; i++) {
      if (l.hard || op == p->loop) ptc_map_set(&e->hard, op->results[i], op);
      set_home(e, op->results[i],
               op == p->loop ? ptc_split_part_of_carry(p, i) % p->split->num_stages : l.home);
    }
  }
}

// --- who needs what

static bool is_scalar(const ptc_value_t *value) {
  return value->type->num_dims == 0 && value->type->num_counts == 0;
}

static bool is_scalar_op(const ptc_op_t *op) {
  if (op->body || ptc_op_has_trait(op, PTC_TRAIT_COLLECTIVE)) return false;
  for (int32_t i = 0; i < op->num_operands; i++)
    if (!is_scalar(op->operands[i])) return false;
  for (int32_t i = 0; i < op->num_results; i++)
    if (!is_scalar(op->results[i])) return false;
  return true;
}

static uint64_t need_of(const ends_t *e, const ptc_op_t *op) {
  uint64_t need = 0;
  for (int32_t i = 0; i < op->num_results; i++) need |= get_bits(&e->need, op->results[i]);
  return need;
}

// The stages that execute |op|.
static uint64_t runs_on(ends_t *e, const ptc_op_t *op) {
  const uint64_t need = need_of(e, op);
  const look_t l = look_at(e, op);
  if (!need || !l.hard || is_scalar_op(op)) return need;
  const uint64_t own = need & l.params;
  if (own == need) return own;
  return own | bit(l.home < 0 ? 0 : l.home);
}

typedef struct need_s {
  ends_t *e;
  uint64_t stages;
} need_t;

static void add_need(ptc_value_t *value, void *arg) {
  const need_t *need = arg;
  add_bits(&need->e->need, value, need->stages);
}

// Numbers, which the first rank shows, are everywhere; outputs where they are made, mostly: on the last stage.
static uint64_t result_stages(const ends_t *e, const ptc_result_t *result,
                              const ptc_value_t *value) {
  const ptc_split_t *split = e->p->split;
  if (result->kind == PTC_RESULT_VALUE)
    return is_scalar(value) ? bit(split->num_stages) - 1 : bit(split->num_stages - 1);
  const uint64_t stages = ptc_split_stages_of(e->p->home, result->global);
  return result->kind == PTC_RESULT_GRAD ? bit(lowest(stages)) : stages;
}

static void find_needs(ends_t *e) {
  const ptc_func_t *func = e->p->func;
  const ptc_op_t *ret = ptc_func_return(func);
  for (int32_t i = 0; i < func->num_results; i++)
    add_bits(&e->need, ret->operands[i], result_stages(e, &func->results[i], ret->operands[i]));
  for (const ptc_op_t *op = ret->prev; op; op = op->prev) {
    if (op == e->p->loop) continue;
    need_t need = {e, runs_on(e, op)};
    if (need.stages) ptc_visit_uses(op, add_need, &need);
  }
}

// --- the function

static ptc_op_t *transfer(ends_t *e, const ptc_value_t *value, bool sends, int32_t stage) {
  ptc_module_t *module = e->p->split->module;
  ptc_value_t *x = sends ? ptc_map_get(&e->map, value) : NULL;
  ptc_op_t *op =
      ptc_op_new(module, sends ? PTC_OP_SEND : PTC_OP_RECV,
                 value->def ? value->def->loc : e->func->loc, &x, sends ? 1 : 0, sends ? 0 : 1);
  ptc_attrs_set_int(module, &op->attrs, sends ? "to" : "from", stage);
  ptc_attrs_set_int(module, &op->attrs, "tag",
                    (e->num_transfers * 2 + (e->p->schedule == e->p->split->eval)) * 2 + 1);
  ptc_op_insert(op, e->func->body, NULL);
  if (!sends) {
    op->results[0]->type = value->type;
    op->results[0]->name = value->name;
  }
  return op;
}

// |value| is made on |stages|: the others that need it get it from one of them.
static void hand_out(ends_t *e, const ptc_value_t *value, uint64_t stages) {
  const ptc_split_t *split = e->p->split;
  const uint64_t need = get_bits(&e->need, value);
  if (!stages || !(need & ~stages)) return;
  const int32_t home = home_of(e, value);
  const int32_t from = home >= 0 && (stages & bit(home)) ? home : lowest(stages);
  for (int32_t to = 0; to < split->num_stages; to++) {
    if (!(need & ~stages & bit(to))) continue;
    e->num_transfers++;
    if (split->stage == from) transfer(e, value, true, to);
    if (split->stage == to)
      ptc_map_set(&e->map, value, transfer(e, value, false, from)->results[0]);
  }
}

static void hand_out_args(ends_t *e) {
  const ptc_func_t *func = e->p->func;
  for (int32_t i = 0; i < func->body->num_args; i++) {
    const uint64_t stages = ptc_split_stages_of(e->p->home, func->arg_globals[i]);
    const ptc_value_t *arg = func->body->args[i];
    if (get_bits(&e->need, arg) & stages & bit(e->p->split->stage) ||
        (get_bits(&e->need, arg) & ~stages && home_of(e, arg) == e->p->split->stage))
      ptc_map_set(&e->map, arg, ptc_func_get_arg(e->func, func->arg_globals[i]));
    hand_out(e, arg, stages);
  }
}

static void hand_out_sums(ends_t *e) {
  const ptc_pieces_t *p = e->p;
  for (int32_t i = 0; i < p->loop->num_results; i++) {
    const ptc_value_t *value = p->loop->results[i];
    if (!get_bits(&e->need, value)) continue;
    const ptc_global_t *global =
        i < p->loop->num_carry ? p->accs[i] : p->outputs[i - p->loop->num_carry];
    if (global) ptc_map_set(&e->map, value, ptc_func_get_arg(e->func, global));
    hand_out(e, value, bit(home_of(e, value)));
  }
}

static void build_ops(ends_t *e) {
  const ptc_pieces_t *p = e->p;
  hand_out_args(e);
  for (const ptc_op_t *op = p->func->body->first; op; op = op->next) {
    if (op == p->loop) hand_out_sums(e);
    if (op == p->loop || op->opcode == PTC_OP_RETURN) continue;
    const uint64_t stages = runs_on(e, op);
    if (stages & bit(p->split->stage))
      ptc_op_insert(ptc_op_clone(p->split->module, op, &e->map), e->func->body, NULL);
    for (int32_t i = 0; i < op->num_results; i++) hand_out(e, op->results[i], stages);
  }
}

// The gradients of one path come in the order of its globals: a plan knows them by that (ptc_plan_grad_of).
static void order_results(const ptc_func_t *func, int32_t *order) {
  for (int32_t i = 0; i < func->num_results; i++) order[i] = i;
  for (int32_t i = 0; i < func->num_results; i++) {
    for (int32_t k = i + 1; k < func->num_results; k++) {
      const ptc_result_t *a = &func->results[order[i]], *b = &func->results[order[k]];
      if (a->kind != PTC_RESULT_GRAD || b->kind != PTC_RESULT_GRAD ||
          strcmp(a->global->path, b->global->path) != 0 || a->global->index < b->global->index)
        continue;
      const int32_t first = order[i];
      order[i] = order[k];
      order[k] = first;
    }
  }
}

ptc_status_t ptc_split_build_end(ptc_pieces_t *p) {
  ends_t e = {.p = p};
  find_homes(&e);
  find_needs(&e);
  char name[40];
  snprintf(name, sizeof(name), "%s.end", p->prefix);
  e.func = ptc_module_add_func(p->split->module, name, p->func->loc);
  build_ops(&e);
  const ptc_op_t *ret = ptc_func_return(p->func);
  int32_t *order = PTC_ARENA_ARRAY(&p->split->module->arena, int32_t, p->func->num_results + 1);
  order_results(p->func, order);
  for (int32_t k = 0; k < p->func->num_results; k++) {
    const int32_t i = order[k];
    if (result_stages(&e, &p->func->results[i], ret->operands[i]) & bit(p->split->stage))
      ptc_func_add_result(e.func, p->func->results[i], ptc_map_get(&e.map, ret->operands[i]));
  }
  if (!ptc_func_return(e.func))
    ptc_op_insert(ptc_op_new(p->split->module, PTC_OP_RETURN, e.func->loc, NULL, 0, 0),
                  e.func->body, NULL);
  ptc_map_deinit(&e.hard);
  ptc_map_deinit(&e.home);
  ptc_map_deinit(&e.need);
  ptc_map_deinit(&e.map);
  return PTC_OK;
}

void ptc_split_build_init(const ptc_home_t *home, ptc_func_t *init) {
  for (int32_t i = init->num_results; i-- > 0;)
    if (init->results[i].kind == PTC_RESULT_STATE &&
        !(ptc_split_stages_of(home, init->results[i].global) & bit(home->split->stage)))
      ptc_func_erase_result(init, i);
}
