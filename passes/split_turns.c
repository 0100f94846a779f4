// Divides repeats at turns: a repeat of n turns becomes several one after another, a bundle of n several bundles,
// a global several globals of fewer turns. What has to be divided at the same turns is found first (classes of
// bundles that meet in a repeat, an elementwise op, a carried value or a global).
#include <inttypes.h>
#include <string.h>

#include "ir/builder.h"
#include "ir/op.h"
#include "passes/rewrite.h"
#include "passes/split_impl.h"

// Where a class is divided: piece i holds turns [starts[i], starts[i + 1]).
typedef struct bounds_s {
  int64_t count;
  bool *at;  // a piece begins at this turn
  int32_t num_pieces;
  int64_t *starts;
} bounds_t;

typedef struct turns_s {
  const ptc_split_t *split;
  ptc_module_t *module;
  ptc_arena_t *scratch;
  int64_t num_values, num_nodes;  // nodes: values by id, globals, repeats
  int64_t *parent;
  ptc_map_t repeat_node;  // repeat -> number + 1
  bounds_t **bounds;      // per root node, or NULL
  ptc_map_t pieces;       // divided value -> ptc_value_t *[num_pieces]
  ptc_map_t global_pieces;
  const ptc_op_t *opaque;  // an op on bundles that cannot be divided, and was to be
  ptc_status_t status;
} turns_t;

// --- classes

static int64_t find_root(turns_t *t, int64_t node) {
  while (t->parent[node] != node) node = t->parent[node] = t->parent[t->parent[node]];
  return node;
}

static void join(turns_t *t, int64_t a, int64_t b) { t->parent[find_root(t, a)] = find_root(t, b); }

static int64_t node_of_global(const turns_t *t, const ptc_global_t *global) {
  return t->num_values + global->index;
}

static int64_t node_of_repeat(const turns_t *t, const ptc_op_t *repeat) {
  return (int64_t)(intptr_t)ptc_map_get(&t->repeat_node, repeat) - 1;
}

static bool over_axis(const ptc_op_t *repeat) { return ptc_op_string(repeat, "axis") != NULL; }

static void number_repeat(ptc_op_t *op, void *arg) {
  turns_t *t = arg;
  if (op->opcode == PTC_OP_REPEAT)
    ptc_map_set(&t->repeat_node, op, (void *)(intptr_t)(++t->num_nodes));
}

static void join_repeat(turns_t *t, const ptc_op_t *op) {
  for (int32_t i = 0; i < op->num_carry; i++) {
    if (op->operands[i]->type->num_counts == 0) continue;
    join(t, op->operands[i]->id, op->results[i]->id);
    join(t, op->operands[i]->id, op->body->args[1 + i]->id);
    join(t, op->operands[i]->id, op->body->last->operands[i]->id);
  }
  if (over_axis(op)) return;
  for (int32_t i = op->num_carry; i < op->num_operands; i++)
    join(t, node_of_repeat(t, op), op->operands[i]->id);
  for (int32_t i = op->num_carry; i < op->num_results; i++)
    join(t, node_of_repeat(t, op), op->results[i]->id);
}

static void join_op(ptc_op_t *op, void *arg) {
  turns_t *t = arg;
  if (op->opcode == PTC_OP_REPEAT) {
    join_repeat(t, op);
  } else if (op->opcode == PTC_OP_RETURN) {
    const ptc_func_t *func = op->parent->func;
    for (int32_t i = 0; i < func->num_results; i++)
      if (func->results[i].kind != PTC_RESULT_VALUE && op->operands[i]->type->num_counts > 0)
        join(t, op->operands[i]->id, node_of_global(t, func->results[i].global));
  } else if (ptc_op_has_trait(op, PTC_TRAIT_EWISE) && op->results[0]->type->num_counts > 0) {
    for (int32_t i = 0; i < op->num_operands; i++)
      if (op->operands[i]->type->num_counts > 0) join(t, op->operands[i]->id, op->results[0]->id);
  }
}

static void note_bounds(ptc_op_t *op, void *arg) {
  turns_t *t = arg;
  const ptc_attr_t *part = ptc_attrs_find(&op->attrs, "turn_part");
  if (op->opcode != PTC_OP_REPEAT || !part) return;
  bounds_t **bounds = &t->bounds[find_root(t, node_of_repeat(t, op))];
  for (int32_t turn = 1; turn < part->count; turn++) {
    if (part->u.ints[turn] == part->u.ints[turn - 1]) continue;
    if (!*bounds) {
      *bounds = PTC_ARENA_NEW(t->scratch, bounds_t);
      (*bounds)->count = part->count;
      (*bounds)->at = PTC_ARENA_ARRAY(t->scratch, bool, part->count + 1);
      (*bounds)->at[0] = true;
    }
    (*bounds)->at[turn] = true;
  }
}

static void finish_bounds(turns_t *t, bounds_t *bounds) {
  bounds->starts = PTC_ARENA_ARRAY(t->scratch, int64_t, bounds->count + 1);
  for (int64_t turn = 0; turn < bounds->count; turn++)
    if (bounds->at[turn]) bounds->starts[bounds->num_pieces++] = turn;
  bounds->starts[bounds->num_pieces] = bounds->count;
}

static const bounds_t *bounds_of(turns_t *t, const ptc_value_t *value) {
  return value->id < t->num_values ? t->bounds[find_root(t, value->id)] : NULL;
}

static int64_t piece_count(const bounds_t *bounds, int32_t piece) {
  return bounds->starts[piece + 1] - bounds->starts[piece];
}

// --- pieces

static const ptc_type_t *with_count(const turns_t *t, const ptc_type_t *type, int64_t count) {
  ptc_type_t *copy = PTC_ARENA_NEW(&t->module->arena, ptc_type_t);
  *copy = *type;
  int64_t *counts = PTC_ARENA_ARRAY(&t->module->arena, int64_t, type->num_counts);
  memcpy(counts, type->counts, (size_t)type->num_counts * sizeof(*counts));
  counts[0] = count;
  copy->counts = counts;
  return copy;
}

static ptc_value_t **new_pieces(turns_t *t, const ptc_value_t *value, const bounds_t *bounds) {
  ptc_value_t **pieces = PTC_ARENA_ARRAY(t->scratch, ptc_value_t *, bounds->num_pieces);
  ptc_map_set(&t->pieces, value, pieces);
  return pieces;
}

static ptc_global_t **pieces_of_global(turns_t *t, const ptc_global_t *global,
                                       const bounds_t *bounds) {
  ptc_global_t **pieces = ptc_map_get(&t->global_pieces, global);
  if (pieces) return pieces;
  pieces = PTC_ARENA_ARRAY(t->scratch, ptc_global_t *, bounds->num_pieces);
  for (int32_t i = 0; i < bounds->num_pieces; i++) {
    pieces[i] =
        ptc_module_add_global(t->module, global->kind, global->path,
                              with_count(t, global->type, piece_count(bounds, i)), global->loc);
    memcpy(pieces[i]->turn_first, global->turn_first, sizeof(global->turn_first));
    memcpy(pieces[i]->turn_step, global->turn_step, sizeof(global->turn_step));
    pieces[i]->turn_first[0] += bounds->starts[i] * global->turn_step[0];
    pieces[i]->attrs = ptc_attrs_clone(t->module, &global->attrs);
  }
  ptc_map_set(&t->global_pieces, global, pieces);
  return pieces;
}

static void refuse(turns_t *t, const ptc_op_t *op, const char *why) {
  if (t->status == PTC_OK) t->status = ptc_split_unsupported(t->split, op, why);
}

// --- ops

static void divide_elementwise(turns_t *t, ptc_op_t *op, const bounds_t *bounds) {
  ptc_value_t **pieces = new_pieces(t, op->results[0], bounds);
  for (int32_t i = 0; i < bounds->num_pieces; i++) {
    ptc_map_t map = {0};
    ptc_op_t *copy = ptc_op_clone(t->module, op, &map);
    for (int32_t k = 0; k < op->num_operands; k++) {
      ptc_value_t **from = ptc_map_get(&t->pieces, op->operands[k]);
      if (from) copy->operands[k] = from[i];
    }
    pieces[i] = copy->results[0];
    pieces[i]->type = with_count(t, op->results[0]->type, piece_count(bounds, i));
    ptc_op_insert(copy, op->parent, op);
    ptc_map_deinit(&map);
  }
  ptc_op_remove(op);
}

// The turn stays the whole repeat's: random streams are of it.
static void shift_turns(turns_t *t, ptc_op_t *repeat, int64_t first) {
  if (first == 0) return;
  ptc_builder_t b = ptc_builder_before(t->module, repeat->body->first);
  b.loc = repeat->loc;
  ptc_value_t *index = repeat->body->args[0];
  ptc_value_t *shifted = ptc_build_binary_const(&b, PTC_OP_ADD, index, (double)first);
  ptc_block_replace_uses(repeat->body, index, shifted);
  for (int32_t i = 0; i < 2; i++)
    if (shifted->def->operands[i] == shifted) shifted->def->operands[i] = index;
}

static void see_divided(ptc_value_t *value, void *arg) {
  turns_t *t = arg;
  if (ptc_map_get(&t->pieces, value) && t->status == PTC_OK)
    t->status = ptc_split_unsupported(t->split, t->opaque,
                                      "it uses all turns of what is divided among stages");
}

// Uses inside of |op|'s body of divided values, which are not handled.
static void check_captured(turns_t *t, const ptc_op_t *op) {
  t->opaque = op;
  for (const ptc_op_t *inner = op->body->first; inner; inner = inner->next) {
    for (int32_t i = 0; i < inner->num_operands; i++) see_divided(inner->operands[i], t);
    if (inner->body) check_captured(t, inner);
  }
  t->opaque = op;
}

static void divide_repeat(turns_t *t, ptc_op_t *op, const bounds_t *bounds) {
  check_captured(t, op);
  if (t->status != PTC_OK) return;
  const bool reverse = ptc_op_bool(op, "reverse");
  const ptc_attr_t *part = ptc_attrs_find(&op->attrs, "turn_part");
  ptc_value_t **carry = PTC_ARENA_ARRAY(t->scratch, ptc_value_t *, op->num_carry + 1);
  for (int32_t i = 0; i < op->num_carry; i++) {
    carry[i] = op->operands[i];
    if (ptc_map_get(&t->pieces, carry[i]))
      refuse(t, op, "it carries all turns of what is divided among stages");
  }
  for (int32_t i = op->num_carry; i < op->num_results; i++) new_pieces(t, op->results[i], bounds);
  for (int32_t k = 0; k < bounds->num_pieces; k++) {
    const int32_t piece = reverse ? bounds->num_pieces - 1 - k : k;
    ptc_map_t map = {0};
    ptc_op_t *copy = ptc_op_clone(t->module, op, &map);
    ptc_map_deinit(&map);
    ptc_attrs_set_int(t->module, &copy->attrs, "count", piece_count(bounds, piece));
    if (part)
      ptc_attrs_set_int(t->module, &copy->attrs, "part", part->u.ints[bounds->starts[piece]]);
    ptc_attrs_remove(&copy->attrs, ptc_module_intern(t->module, "turn_part"));
    for (int32_t i = 0; i < op->num_carry; i++) {
      copy->operands[i] = carry[i];
      carry[i] = copy->results[i];
    }
    for (int32_t i = op->num_carry; i < op->num_operands; i++) {
      ptc_value_t **from = ptc_map_get(&t->pieces, op->operands[i]);
      if (!from) {
        refuse(t, op, "it takes a bundle that is not divided");
        return;
      }
      copy->operands[i] = from[piece];
    }
    for (int32_t i = op->num_carry; i < op->num_results; i++) {
      ptc_value_t **to = ptc_map_get(&t->pieces, op->results[i]);
      copy->results[i]->type = with_count(t, op->results[i]->type, piece_count(bounds, piece));
      to[piece] = copy->results[i];
    }
    shift_turns(t, copy, bounds->starts[piece]);
    ptc_op_insert(copy, op->parent, op);
  }
  for (int32_t i = 0; i < op->num_carry; i++)
    ptc_block_replace_uses(op->parent, op->results[i], carry[i]);
  ptc_op_remove(op);
}

static void divide_block(turns_t *t, ptc_block_t *block);

// Appends |value|, or its pieces, to |list|.
static int32_t expand(turns_t *t, ptc_value_t *value, ptc_value_t **list, int32_t count) {
  const bounds_t *bounds = bounds_of(t, value);
  ptc_value_t **pieces = ptc_map_get(&t->pieces, value);
  if (!bounds || !pieces) {
    list[count] = value;
    return count + 1;
  }
  memcpy(list + count, pieces, (size_t)bounds->num_pieces * sizeof(*list));
  return count + bounds->num_pieces;
}

// The list of a terminator or of a loop's carried values with pieces in place of what is divided.
static ptc_value_t **expand_all(turns_t *t, ptc_value_t *const *values, int32_t count,
                                int32_t *out_count) {
  int64_t most = 0;
  for (int32_t i = 0; i < count; i++) {
    const bounds_t *bounds = bounds_of(t, values[i]);
    most += bounds ? bounds->num_pieces : 1;
  }
  ptc_value_t **list = PTC_ARENA_ARRAY(&t->module->arena, ptc_value_t *, most + 1);
  *out_count = 0;
  for (int32_t i = 0; i < count; i++) *out_count = expand(t, values[i], list, *out_count);
  return list;
}

// A loop over the time axis: a carried bundle becomes several.
static void divide_loop(turns_t *t, ptc_op_t *op) {
  int32_t num_carry;
  ptc_value_t **inits = expand_all(t, op->operands, op->num_carry, &num_carry);
  const int32_t num_collect = op->num_results - op->num_carry;
  ptc_op_t *loop =
      ptc_op_new(t->module, PTC_OP_REPEAT, op->loc, inits, num_carry, num_carry + num_collect);
  for (int32_t i = op->num_carry; i < op->num_operands; i++)
    ptc_op_add_operand(t->module, loop, loop->num_operands, op->operands[i]);
  loop->attrs = ptc_attrs_clone(t->module, &op->attrs);
  loop->num_carry = num_carry;
  loop->num_each = op->num_each;
  loop->body = ptc_block_new(t->module, op->parent->func, loop);
  ptc_value_t *index = op->body->args[0];
  ptc_block_replace_uses(op->body, index, ptc_block_add_arg(loop->body, index->type, index->name));
  for (int32_t i = 0, at = 0; i < op->num_carry; i++) {
    ptc_value_t *arg = op->body->args[1 + i], *result = op->results[i];
    ptc_value_t **init_pieces = ptc_map_get(&t->pieces, op->operands[i]);
    const bounds_t *bounds = init_pieces ? bounds_of(t, op->operands[i]) : NULL;
    if (!bounds) {
      loop->results[at]->type = result->type;
      loop->results[at]->name = result->name;
      ptc_block_replace_uses(op->parent, result, loop->results[at]);
      ptc_block_replace_uses(op->body, arg, ptc_block_add_arg(loop->body, arg->type, arg->name));
      at++;
      continue;
    }
    ptc_value_t **args = new_pieces(t, arg, bounds), **results = new_pieces(t, result, bounds);
    for (int32_t k = 0; k < bounds->num_pieces; k++, at++) {
      args[k] = ptc_block_add_arg(loop->body, inits[at]->type, arg->name);
      results[k] = loop->results[at];
      results[k]->type = inits[at]->type;
      results[k]->name = result->name;
    }
  }
  for (int32_t i = 0; i < op->num_each; i++) {
    ptc_value_t *arg = op->body->args[1 + op->num_carry + i];
    ptc_block_replace_uses(op->body, arg, ptc_block_add_arg(loop->body, arg->type, arg->name));
  }
  for (int32_t i = 0; i < num_collect; i++) {
    ptc_value_t *from = op->results[op->num_carry + i], *to = loop->results[num_carry + i];
    to->type = from->type;
    to->name = from->name;
    ptc_block_replace_uses(op->parent, from, to);
  }
  for (ptc_op_t *inner = op->body->first, *next; inner; inner = next) {
    next = inner->next;
    ptc_op_remove(inner);
    ptc_op_insert(inner, loop->body, NULL);
  }
  ptc_op_insert(loop, op->parent, op);
  ptc_op_remove(op);
  divide_block(t, loop->body);
}

static void divide_yield(turns_t *t, ptc_op_t *op) {
  op->operands = expand_all(t, op->operands, op->num_operands, &op->num_operands);
  op->cap_operands = op->num_operands;
}

static void divide_return(turns_t *t, ptc_op_t *op) {
  ptc_func_t *func = op->parent->func;
  for (int32_t i = op->num_operands; i-- > 0;) {
    const bounds_t *bounds = bounds_of(t, op->operands[i]);
    ptc_value_t **pieces = ptc_map_get(&t->pieces, op->operands[i]);
    if (!bounds || !pieces) continue;
    const ptc_result_t result = func->results[i];
    if (result.kind == PTC_RESULT_VALUE) {
      refuse(t, op, "a named result has a part on each of several stages");
      return;
    }
    ptc_global_t **globals = pieces_of_global(t, result.global, bounds);
    for (int32_t k = 0; k < bounds->num_pieces; k++)
      ptc_func_add_result(func, (ptc_result_t){.kind = result.kind, .global = globals[k]},
                          pieces[k]);
    ptc_func_erase_result(func, i);
  }
}

static void divide_block(turns_t *t, ptc_block_t *block) {
  for (ptc_op_t *op = block->first, *next; op && t->status == PTC_OK; op = next) {
    next = op->next;
    const bounds_t *bounds = NULL;
    if (op->opcode == PTC_OP_REPEAT && !over_axis(op)) {
      bounds = t->bounds[find_root(t, node_of_repeat(t, op))];
      if (bounds)
        divide_repeat(t, op, bounds);
      else
        check_captured(t, op);
    } else if (op->opcode == PTC_OP_REPEAT) {
      divide_loop(t, op);
    } else if (op->opcode == PTC_OP_YIELD) {
      divide_yield(t, op);
    } else if (op->opcode == PTC_OP_RETURN) {
      divide_return(t, op);
    } else if (ptc_op_has_trait(op, PTC_TRAIT_EWISE) &&
               (bounds = bounds_of(t, op->results[0])) != NULL) {
      divide_elementwise(t, op, bounds);
    } else {
      t->opaque = op;
      for (int32_t i = 0; i < op->num_operands; i++) see_divided(op->operands[i], t);
    }
  }
}

static void divide_func(turns_t *t, ptc_func_t *func) {
  const int32_t num_args = func->body->num_args;
  for (int32_t a = 0; a < num_args; a++) {
    const ptc_value_t *arg = func->body->args[a];
    const bounds_t *bounds = bounds_of(t, arg);
    if (!bounds) continue;
    ptc_global_t **globals = pieces_of_global(t, func->arg_globals[a], bounds);
    ptc_value_t **pieces = new_pieces(t, arg, bounds);
    for (int32_t i = 0; i < bounds->num_pieces; i++) pieces[i] = ptc_func_add_arg(func, globals[i]);
  }
  divide_block(t, func->body);
  for (int32_t a = num_args; a-- > 0;)
    if (ptc_map_get(&t->pieces, func->body->args[a])) ptc_func_erase_arg(func, a);
}

// Pieces stand where the whole stood.
static void order_globals(turns_t *t, int64_t num_before) {
  ptc_module_t *module = t->module;
  ptc_global_t **list = PTC_ARENA_ARRAY(&module->arena, ptc_global_t *, module->num_globals + 1);
  int64_t count = 0;
  for (int64_t g = 0; g < num_before; g++) {
    ptc_global_t *global = module->globals[g];
    ptc_global_t **pieces = ptc_map_get(&t->global_pieces, global);
    if (!pieces) {
      list[count++] = global;
      continue;
    }
    const bounds_t *bounds = t->bounds[find_root(t, node_of_global(t, global))];
    for (int32_t i = 0; i < bounds->num_pieces; i++) list[count++] = pieces[i];
  }
  for (int64_t g = 0; g < count; g++) list[g]->index = g;
  module->globals = list;
  module->num_globals = count;
  module->cap_globals = count;
}

ptc_status_t ptc_split_turns(const ptc_split_t *split) {
  ptc_module_t *module = split->module;
  turns_t t = {.split = split, .module = module, .scratch = &split->ctx->scratch};
  t.num_values = module->next_value_id;
  t.num_nodes = t.num_values + module->num_globals;
  for (ptc_func_t *func = module->funcs; func; func = func->next)
    ptc_block_walk(func->body, number_repeat, &t);
  t.parent = PTC_ARENA_ARRAY(t.scratch, int64_t, t.num_nodes + 1);
  t.bounds = PTC_ARENA_ARRAY(t.scratch, bounds_t *, t.num_nodes + 1);
  for (int64_t i = 0; i < t.num_nodes; i++) t.parent[i] = i;
  for (ptc_func_t *func = module->funcs; func; func = func->next) {
    for (int32_t a = 0; a < func->body->num_args; a++)
      if (func->body->args[a]->type->num_counts > 0)
        join(&t, func->body->args[a]->id, node_of_global(&t, func->arg_globals[a]));
    ptc_block_walk(func->body, join_op, &t);
  }
  for (ptc_func_t *func = module->funcs; func; func = func->next)
    ptc_block_walk(func->body, note_bounds, &t);
  for (int64_t i = 0; i < t.num_nodes; i++)
    if (t.bounds[i]) finish_bounds(&t, t.bounds[i]);
  const int64_t num_before = module->num_globals;
  for (ptc_func_t *func = module->funcs; func && t.status == PTC_OK; func = func->next)
    divide_func(&t, func);
  if (t.status == PTC_OK) order_globals(&t, num_before);
  ptc_map_deinit(&t.repeat_node);
  ptc_map_deinit(&t.pieces);
  ptc_map_deinit(&t.global_pieces);
  return t.status;
}
