#include "tests/support/ir_equal.h"

#include <string.h>

typedef struct compare_s {
  ptc_map_t values;  // value of a -> value of b
  bool with_locations;
} compare_t;

#define SAME(condition, what)      \
  do {                             \
    if (!(condition)) return what; \
  } while (0)
#define TRY(expression)                     \
  do {                                      \
    const char *difference_ = (expression); \
    if (difference_) return difference_;    \
  } while (0)

static bool same_text(const char *a, const char *b) {
  return a == b || (a && b && strcmp(a, b) == 0);
}

// Modules intern names apart, so types are compared by their text, which says all.
static bool same_type(const ptc_type_t *a, const ptc_type_t *b) {
  if (!a || !b) return a == b;
  ptc_str_t x = {0}, y = {0};
  ptc_type_print(&x, a);
  ptc_type_print(&y, b);
  bool same = strcmp(x.data, y.data) == 0;
  ptc_str_deinit(&x);
  ptc_str_deinit(&y);
  return same;
}

static bool same_loc(const compare_t *c, ptc_loc_t a, ptc_loc_t b) {
  if (!c->with_locations) return true;
  return same_text(a.file, b.file) && (!a.file || (a.line == b.line && a.column == b.column));
}

static const char *compare_global(const compare_t *c, const ptc_global_t *a,
                                  const ptc_global_t *b) {
  SAME(same_text(a->path, b->path), "a path");
  SAME(a->kind == b->kind, "a global's kind");
  SAME(same_type(a->type, b->type), "a global's type");
  SAME(same_loc(c, a->loc, b->loc), "a global's location");
  SAME(ptc_attrs_equal(&a->attrs, &b->attrs), "a global's attributes");
  for (int32_t i = 0; i < a->type->num_counts; i++)
    SAME(a->turn_first[i] == b->turn_first[i] && a->turn_step[i] == b->turn_step[i], "turns");
  return NULL;
}

static const char *compare_value(compare_t *c, const ptc_value_t *a, ptc_value_t *b) {
  SAME(same_text(a->name, b->name), "a value's name");
  SAME(same_type(a->type, b->type), "a value's type");
  ptc_map_set(&c->values, a, b);
  return NULL;
}

static const char *compare_block(compare_t *c, const ptc_block_t *a, const ptc_block_t *b);

static const char *compare_op(compare_t *c, const ptc_op_t *a, const ptc_op_t *b) {
  SAME(a->opcode == b->opcode, "an opcode");
  SAME(a->num_operands == b->num_operands && a->num_results == b->num_results, "an arity");
  SAME(a->num_carry == b->num_carry && a->num_each == b->num_each, "the operands of a repeat");
  SAME(a->remat == b->remat, "a remat mark");
  SAME(same_loc(c, a->loc, b->loc), "an op's location");
  SAME(ptc_attrs_equal(&a->attrs, &b->attrs), "an op's attributes");
  for (int32_t i = 0; i < a->num_operands; i++)
    SAME(ptc_map_get(&c->values, a->operands[i]) == b->operands[i], "an operand");
  SAME(!a->body == !b->body, "a body");
  if (a->body) TRY(compare_block(c, a->body, b->body));
  for (int32_t i = 0; i < a->num_results; i++) TRY(compare_value(c, a->results[i], b->results[i]));
  return NULL;
}

static const char *compare_block(compare_t *c, const ptc_block_t *a, const ptc_block_t *b) {
  SAME(a->num_args == b->num_args, "the arguments of a block");
  for (int32_t i = 0; i < a->num_args; i++) TRY(compare_value(c, a->args[i], b->args[i]));
  const ptc_op_t *x = a->first, *y = b->first;
  for (; x && y; x = x->next, y = y->next) TRY(compare_op(c, x, y));
  SAME(!x && !y, "the number of ops");
  return NULL;
}

static int64_t index_of(const ptc_global_t *global) { return global ? global->index : -1; }

static const char *compare_func(compare_t *c, const ptc_func_t *a, const ptc_func_t *b) {
  SAME(same_text(a->name, b->name), "a function's name");
  SAME(same_loc(c, a->loc, b->loc), "a function's location");
  SAME(a->num_results == b->num_results, "the results of a function");
  TRY(compare_block(c, a->body, b->body));
  for (int32_t i = 0; i < a->body->num_args; i++)
    SAME(index_of(a->arg_globals[i]) == index_of(b->arg_globals[i]), "an argument's global");
  for (int32_t i = 0; i < a->num_results; i++) {
    const ptc_result_t *x = &a->results[i], *y = &b->results[i];
    SAME(x->kind == y->kind && same_text(x->name, y->name) && same_text(x->role, y->role) &&
             index_of(x->global) == index_of(y->global),
         "a result's description");
  }
  return NULL;
}

static const char *compare_modules(compare_t *c, const ptc_module_t *a, const ptc_module_t *b) {
  SAME(same_text(a->name, b->name), "the module's name");
  SAME(a->mesh.num_axes == b->mesh.num_axes, "the mesh");
  for (int32_t i = 0; i < a->mesh.num_axes; i++)
    SAME(same_text(a->mesh.axes[i].name, b->mesh.axes[i].name) &&
             a->mesh.axes[i].size == b->mesh.axes[i].size,
         "an axis");
  SAME(ptc_attrs_equal(&a->config, &b->config), "the config");
  SAME(a->num_globals == b->num_globals, "the number of globals");
  for (int64_t i = 0; i < a->num_globals; i++) TRY(compare_global(c, a->globals[i], b->globals[i]));
  const ptc_func_t *x = a->funcs, *y = b->funcs;
  for (; x && y; x = x->next, y = y->next) TRY(compare_func(c, x, y));
  SAME(!x && !y, "the number of functions");
  return NULL;
}

const char *ir_difference(const ptc_module_t *a, const ptc_module_t *b, bool with_locations) {
  compare_t compare = {.with_locations = with_locations};
  const char *difference = compare_modules(&compare, a, b);
  ptc_map_deinit(&compare.values);
  return difference;
}
