// The function @init: every parameter's first value.
#include <string.h>

#include "frontend/lower_impl.h"

// Random numbers of init have a step of their own: 2^32 - 1 (DESIGN.md section 10).
static const double init_step = 4294967295.0;

static ptc_value_t *initial_instance(lower_t *L, const param_init_t *init, const ptc_type_t *type,
                                     ptc_value_t *const *turns, int32_t num_turns) {
  if (strcmp(init->dist, "constant") == 0) {
    ptc_value_t *value = ptc_build_constant(&L->b, type->dtype, init->a);
    return type->num_dims ? ptc_build_broadcast(&L->b, value, type->dims, type->num_dims) : value;
  }
  ptc_value_t *operands[2 + PTC_MAX_COUNTS] = {lower_state(L, "seed")};
  operands[1] = ptc_build_constant(&L->b, PTC_I64, init_step);
  for (int32_t i = 0; i < num_turns; i++) operands[2 + i] = turns[i];
  ptc_op_t *op =
      ptc_op_new(L->module, PTC_OP_RANDOM, init->global->loc, operands, 2 + num_turns, 1);
  ptc_attrs_set_string(L->module, &op->attrs, "dist", init->dist);
  ptc_attrs_set_float(L->module, &op->attrs, "a", init->a);
  ptc_attrs_set_float(L->module, &op->attrs, "b", init->b);
  ptc_attrs_set_string(L->module, &op->attrs, "path", init->global->path);
  op->results[0]->type = type;
  ptc_op_insert(op, L->b.block, L->b.before);
  return op->results[0];
}

// One repeat per count; the innermost body draws the instance.
static ptc_value_t *initial_value(lower_t *L, const param_init_t *init, const ptc_type_t *type,
                                  ptc_value_t **turns, int32_t depth) {
  if (!type->num_counts) return initial_instance(L, init, type, turns, depth);
  ptc_builder_t outside = L->b;
  ptc_op_t *op = ptc_build_repeat_begin(&L->b, type->counts[0], false, NULL, 0, NULL, 0);
  L->b = ptc_builder_at_end(L->module, op->body);
  L->b.loc = outside.loc;
  turns[depth] = lower_turn_value(&L->b, op->body->args[0], init->global->turn_first[depth],
                                  init->global->turn_step[depth]);
  ptc_value_t *value =
      initial_value(L, init, ptc_type_instance(&L->module->arena, type), turns, depth + 1);
  ptc_build_repeat_end(L->module, op, &value, 1);
  L->b = outside;
  return op->results[0];
}

void lower_init_func(lower_t *L) {
  L->func = ptc_module_add_func(L->module, "init", (ptc_loc_t){0});
  L->b = ptc_builder_at_end(L->module, L->func->body);
  int32_t count = 0;
  for (const param_init_t *init = L->inits; init; init = init->next) count++;
  ptc_value_t **values = PTC_ARENA_ARRAY(&L->module->arena, ptc_value_t *, count);
  ptc_result_t *results = PTC_ARENA_ARRAY(&L->module->arena, ptc_result_t, count);
  int32_t i = 0;
  for (const param_init_t *init = L->inits; init; init = init->next, i++) {
    ptc_value_t *turns[PTC_MAX_COUNTS];
    L->b.loc = init->global->loc;
    values[i] = initial_value(L, init, init->global->type, turns, 0);
    results[i] = (ptc_result_t){.kind = PTC_RESULT_STATE, .global = init->global};
  }
  ptc_build_return(&L->b, L->func, values, results, count);
}
