// Proves: blocks keep their lists consistent, clones are deep, uses are replaced in nested blocks,
// attributes behave as a set.
#include "ir/module.h"

#include <math.h>

#include "ir/op.h"
#include "tests/support/op_maker.h"
#include "tests/support/unit.h"

static ptc_diag_t diag;

static ptc_module_t *begin(void) {
  ptc_diag_init(&diag);
  return maker_module(&diag);
}

static void end(ptc_module_t *module) {
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

static ptc_op_t *new_op(ptc_module_t *module, ptc_opcode_t opcode, ptc_value_t *a, ptc_value_t *b) {
  ptc_value_t *operands[] = {a, b};
  return ptc_op_new(module, opcode, (ptc_loc_t){0}, operands, a ? b ? 2 : 1 : 0, 1);
}

// The opcodes of |block| forwards and backwards agree with |expected|.
static bool block_is(const ptc_block_t *block, const ptc_opcode_t *expected, int num) {
  const ptc_op_t *op = block->first;
  for (int i = 0; i < num; i++, op = op->next)
    if (!op || op->opcode != expected[i] || op->parent != block) return false;
  if (op) return false;
  op = block->last;
  for (int i = num; i-- > 0; op = op->prev)
    if (!op || op->opcode != expected[i]) return false;
  return op == NULL;
}

static void test_insert_remove(void) {
  ptc_module_t *module = begin();
  ptc_func_t *func = ptc_module_add_func(module, "f", (ptc_loc_t){0});
  ptc_op_t *neg = new_op(module, PTC_OP_NEG, NULL, NULL);
  ptc_op_t *exp = new_op(module, PTC_OP_EXP, NULL, NULL);
  ptc_op_t *log = new_op(module, PTC_OP_LOG, NULL, NULL);
  ptc_op_insert(exp, func->body, NULL);
  ptc_op_insert(log, func->body, NULL);
  ptc_op_insert(neg, func->body, exp);
  CU_ASSERT(block_is(func->body, (ptc_opcode_t[]){PTC_OP_NEG, PTC_OP_EXP, PTC_OP_LOG}, 3));
  ptc_op_remove(exp);
  CU_ASSERT(block_is(func->body, (ptc_opcode_t[]){PTC_OP_NEG, PTC_OP_LOG}, 2));
  ptc_op_insert(exp, func->body, log);
  ptc_op_remove(neg);
  ptc_op_remove(log);
  CU_ASSERT(block_is(func->body, (ptc_opcode_t[]){PTC_OP_EXP}, 1));
  ptc_op_remove(exp);
  CU_ASSERT(block_is(func->body, NULL, 0));
  ptc_op_remove(exp);  // detached already
  CU_ASSERT_PTR_NULL(exp->parent);
  end(module);
}

static void test_operands(void) {
  ptc_module_t *module = begin();
  ptc_value_t *values[5];
  for (int i = 0; i < 5; i++) values[i] = new_op(module, PTC_OP_IOTA, NULL, NULL)->results[0];
  ptc_op_t *op = new_op(module, PTC_OP_CONCAT, values[1], NULL);
  ptc_op_add_operand(module, op, 1, values[3]);
  ptc_op_add_operand(module, op, 0, values[0]);
  ptc_op_add_operand(module, op, 2, values[2]);
  ptc_op_add_operand(module, op, 4, values[4]);
  CU_ASSERT_EQUAL(op->num_operands, 5);
  for (int i = 0; i < 5; i++) CU_ASSERT_PTR_EQUAL(op->operands[i], values[i]);
  ptc_op_erase_operand(op, 1);
  ptc_op_erase_operand(op, 3);
  CU_ASSERT_EQUAL(op->num_operands, 3);
  CU_ASSERT_PTR_EQUAL(op->operands[1], values[2]);
  CU_ASSERT_PTR_EQUAL(op->operands[2], values[3]);
  ptc_value_t *second = ptc_op_add_result(module, op, NULL);
  CU_ASSERT_EQUAL(op->num_results, 2);
  CU_ASSERT_EQUAL(second->index, 1);
  CU_ASSERT_PTR_EQUAL(second->def, op);
  CU_ASSERT(second->id > op->results[0]->id);
  end(module);
}

// f(x): y = neg x; repeat { exp x } yields; the inner block uses values of the outer.
static ptc_op_t *nested(ptc_module_t *module, ptc_func_t *func, ptc_value_t *x) {
  ptc_op_t *repeat = ptc_op_new(module, PTC_OP_REPEAT, (ptc_loc_t){0}, &x, 1, 1);
  repeat->num_carry = 1;
  repeat->remat = true;
  ptc_attrs_set_int(module, &repeat->attrs, "count", 3);
  repeat->body = ptc_block_new(module, func, repeat);
  ptc_block_add_arg(repeat->body, ptc_type_scalar(&module->arena, PTC_I32), "i");
  ptc_value_t *carry = ptc_block_add_arg(repeat->body, x->type, "c");
  ptc_op_t *add = new_op(module, PTC_OP_ADD, carry, x);
  add->results[0]->type = x->type;
  ptc_op_insert(add, repeat->body, NULL);
  ptc_op_t *yield = ptc_op_new(module, PTC_OP_YIELD, (ptc_loc_t){0}, add->results, 1, 0);
  ptc_op_insert(yield, repeat->body, NULL);
  ptc_op_insert(repeat, func->body, NULL);
  return repeat;
}

static void test_nesting(void) {
  ptc_module_t *module = begin();
  ptc_func_t *func = ptc_module_add_func(module, "f", (ptc_loc_t){0});
  ptc_value_t *x = ptc_block_add_arg(func->body, maker_type(module, "f32[a=2]"), "x");
  ptc_value_t *y = ptc_block_add_arg(func->body, x->type, "y");
  ptc_op_t *repeat = nested(module, func, x);
  ptc_op_t *add = repeat->body->first;
  CU_ASSERT_EQUAL(ptc_module_num_ops(module), 3);
  CU_ASSERT_PTR_EQUAL(ptc_value_block(x), func->body);
  CU_ASSERT_PTR_EQUAL(ptc_value_block(add->results[0]), repeat->body);
  CU_ASSERT(ptc_block_contains(func->body, repeat->body));
  CU_ASSERT(ptc_block_contains(repeat->body, repeat->body));
  CU_ASSERT(!ptc_block_contains(repeat->body, func->body));

  ptc_map_t map = {0};
  ptc_map_set(&map, x, y);
  ptc_op_t *clone = ptc_op_clone(module, repeat, &map);
  CU_ASSERT_PTR_NULL(clone->parent);
  CU_ASSERT_PTR_EQUAL(clone->operands[0], y);
  CU_ASSERT(clone->remat && clone->num_carry == 1 && ptc_op_int(clone, "count") == 3);
  CU_ASSERT_PTR_EQUAL(ptc_map_get(&map, repeat->results[0]), clone->results[0]);
  const ptc_op_t *add2 = clone->body->first;
  CU_ASSERT_PTR_NOT_EQUAL(add2, add);
  CU_ASSERT_PTR_EQUAL(add2->operands[0], clone->body->args[1]);
  CU_ASSERT_PTR_EQUAL(add2->operands[1], y);  // a captured value is mapped too
  CU_ASSERT_PTR_EQUAL(clone->body->last->operands[0], add2->results[0]);
  CU_ASSERT_PTR_EQUAL(add2->results[0]->type, x->type);
  CU_ASSERT_STRING_EQUAL(clone->body->args[1]->name, "c");
  CU_ASSERT_PTR_EQUAL(clone->body->parent_op, clone);
  ptc_attrs_set_int(module, &clone->attrs, "count", 5);
  CU_ASSERT_EQUAL(ptc_op_int(repeat, "count"), 3);
  ptc_map_deinit(&map);

  ptc_block_replace_uses(func->body, x, y);
  CU_ASSERT_PTR_EQUAL(repeat->operands[0], y);
  CU_ASSERT_PTR_EQUAL(add->operands[1], y);
  end(module);
}

static void remove_unary(ptc_op_t *op, void *arg) {
  ++*(int *)arg;
  if (op->opcode == PTC_OP_NEG || op->opcode == PTC_OP_REPEAT) ptc_op_remove(op);
}

static void test_walk_removes(void) {
  ptc_module_t *module = begin();
  ptc_func_t *func = ptc_module_add_func(module, "f", (ptc_loc_t){0});
  ptc_value_t *x = ptc_block_add_arg(func->body, maker_type(module, "f32[]"), "x");
  ptc_op_insert(new_op(module, PTC_OP_NEG, x, NULL), func->body, NULL);
  ptc_op_insert(new_op(module, PTC_OP_EXP, x, NULL), func->body, NULL);
  nested(module, func, x);
  ptc_op_insert(new_op(module, PTC_OP_NEG, x, NULL), func->body, NULL);
  int visited = 0;
  ptc_block_walk(func->body, remove_unary, &visited);
  CU_ASSERT_EQUAL(visited, 4);  // not the body of the removed repeat
  CU_ASSERT(block_is(func->body, (ptc_opcode_t[]){PTC_OP_EXP}, 1));
  end(module);
}

static void test_functions_and_globals(void) {
  ptc_module_t *module = begin();
  const ptc_type_t *type = maker_type(module, "3 x 2 x f32[a=2]");
  ptc_global_t *w = NULL;
  char path[32];
  for (int i = 0; i < 40; i++) {
    snprintf(path, sizeof(path), "p%d", i);
    ptc_module_add_global(module, PTC_GLOBAL_PARAM, path, type, (ptc_loc_t){0});
  }
  w = ptc_module_add_global(module, PTC_GLOBAL_PARAM, "block.*.exp.*.w", type, (ptc_loc_t){0});
  w->turn_first[0] = 1;
  w->turn_step[0] = 2;
  CU_ASSERT_EQUAL(w->index, 40);
  CU_ASSERT_PTR_EQUAL(ptc_module_find_global(module, "block.*.exp.*.w"), w);
  CU_ASSERT_PTR_EQUAL(ptc_module_find_global(module, "p7"), module->globals[7]);
  CU_ASSERT_PTR_NULL(ptc_module_find_global(module, "p40"));
  ptc_str_t text = {0};
  ptc_global_instance_path(w, (const int64_t[]){2, 1}, &text);
  CU_ASSERT_STRING_EQUAL(text.data, "block.5.exp.1.w");
  ptc_str_deinit(&text);
  CU_ASSERT_STRING_EQUAL(ptc_global_kind_name(PTC_GLOBAL_INPUT), "input");
  CU_ASSERT_STRING_EQUAL(ptc_global_kind_name(PTC_GLOBAL_SETTING), "setting");

  ptc_func_t *init = ptc_module_add_func(module, "init", (ptc_loc_t){0});
  ptc_func_t *train = ptc_module_add_func(module, "train", (ptc_loc_t){0});
  CU_ASSERT_PTR_EQUAL(module->funcs, init);
  CU_ASSERT_PTR_EQUAL(ptc_module_find_func(module, "train"), train);
  CU_ASSERT_PTR_NULL(ptc_module_find_func(module, "eval"));
  for (int i = 0; i < 20; i++) {
    ptc_value_t *arg = ptc_func_get_arg(train, module->globals[i]);
    CU_ASSERT_PTR_EQUAL(arg->type, type);
  }
  CU_ASSERT_PTR_EQUAL(ptc_func_get_arg(train, module->globals[3]), train->body->args[3]);
  CU_ASSERT_EQUAL(train->body->num_args, 20);
  CU_ASSERT_PTR_EQUAL(train->arg_globals[19], module->globals[19]);

  CU_ASSERT_PTR_NULL(ptc_func_return(train));
  for (int i = 0; i < 20; i++)
    ptc_func_add_result(train, (ptc_result_t){.kind = PTC_RESULT_GRAD, .global = w},
                        train->body->args[i]);
  CU_ASSERT_EQUAL(train->num_results, 20);
  CU_ASSERT_EQUAL(ptc_func_return(train)->num_operands, 20);
  CU_ASSERT_PTR_EQUAL(ptc_func_return(train)->operands[19], train->body->args[19]);
  CU_ASSERT_PTR_EQUAL(train->results[19].global, w);
  end(module);
}

static void test_attrs(void) {
  ptc_module_t *module = begin();
  ptc_attrs_t a = maker_attrs(module, "i=i:3 f=f:0.5 w=f:4 b=b:1 s=s:x d=d:y D=D:p,q I=I:1,2,3");
  CU_ASSERT_EQUAL(ptc_attrs_int(&a, "i", 9), 3);
  CU_ASSERT_EQUAL(ptc_attrs_int(&a, "w", 9), 4);
  CU_ASSERT_EQUAL(ptc_attrs_int(&a, "f", 9), 9);
  CU_ASSERT_EQUAL(ptc_attrs_int(&a, "none", 9), 9);
  CU_ASSERT_EQUAL(ptc_attrs_float(&a, "f", 9), 0.5);
  CU_ASSERT_EQUAL(ptc_attrs_float(&a, "i", 9), 3);
  CU_ASSERT_EQUAL(ptc_attrs_float(&a, "s", 9), 9);
  CU_ASSERT_EQUAL(ptc_attrs_bool(&a, "b", false), true);
  CU_ASSERT_EQUAL(ptc_attrs_bool(&a, "i", false), false);
  CU_ASSERT_STRING_EQUAL(ptc_attrs_string(&a, "s", "z"), "x");
  CU_ASSERT_PTR_EQUAL(ptc_attrs_string(&a, "d", "z"), ptc_module_intern(module, "y"));
  CU_ASSERT_STRING_EQUAL(ptc_attrs_string(&a, "i", "z"), "z");
  CU_ASSERT_PTR_EQUAL(ptc_attrs_find(&a, "D")->u.dims[1], ptc_module_intern(module, "q"));

  ptc_attrs_t b = maker_attrs(module, "I=I:1,2,3 D=D:p,q d=d:y s=s:x b=b:1 w=f:4 f=f:0.5 i=i:3");
  ptc_attrs_t c = ptc_attrs_clone(module, &a);
  CU_ASSERT(ptc_attrs_equal(&a, &b) && ptc_attrs_equal(&a, &c));
  static const char *const changes[] = {"i=i:4", "f=f:0.25",  "w=i:4",   "b=b:0",
                                        "s=s:y", "d=s:y",     "D=D:q,p", "D=D:p",
                                        "I=I:1", "I=I:1,2,4", "new=i:1"};
  for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
    ptc_attrs_t changed = ptc_attrs_clone(module, &a);
    ptc_attrs_t change = maker_attrs(module, changes[i]);
    ptc_attrs_set(module, &changed, change.items[0]);
    UNIT_CHECK(!ptc_attrs_equal(&a, &changed) && !ptc_attrs_equal(&changed, &a), changes[i]);
  }
  CU_ASSERT(ptc_attrs_equal(&a, &b));  // clones share nothing that changes
  ptc_attrs_remove(&c, "i");
  ptc_attrs_remove(&c, "none");
  CU_ASSERT(c.count == a.count - 1 && !ptc_attrs_find(&c, "i") && ptc_attrs_find(&c, "I"));
  ptc_attrs_t x = {0}, y = {0};
  ptc_attrs_set_float(module, &x, "v", NAN);
  ptc_attrs_set_float(module, &y, "v", NAN);
  CU_ASSERT(ptc_attrs_equal(&x, &y));
  ptc_attrs_set_float(module, &x, "v", 0.0);
  ptc_attrs_set_float(module, &y, "v", -0.0);
  CU_ASSERT(!ptc_attrs_equal(&x, &y));
  CU_ASSERT_EQUAL(x.count, 1);
  end(module);
}

static void test_op_table(void) {
  for (int i = 0; i < PTC_NUM_OPS; i++) {
    const ptc_op_info_t *info = ptc_op_info((ptc_opcode_t)i);
    ptc_opcode_t opcode;
    UNIT_CHECK(ptc_opcode_parse(info->mnemonic, &opcode) && (int)opcode == i, info->mnemonic);
    UNIT_CHECK(info->max_operands < 0 || info->min_operands <= info->max_operands, info->mnemonic);
    static const char *const linear[] = {"", "0", "each", "all", "rest"};
    int known = 0;
    for (int k = 0; k < 5; k++) known += strcmp(info->linear, linear[k]) == 0;
    UNIT_CHECK(known == 1, info->mnemonic);
    // Each name of the rule column is an attribute of dims.
    for (const char *c = info->rule; *c; c++) {
      size_t len = strcspn(c + 1, " ");
      if (strchr("+^!", *c) && len) {
        bool found = false;
        int32_t cursor = 0;
        ptc_attr_spec_t spec;
        while (ptc_op_next_attr_spec((ptc_opcode_t)i, &cursor, &spec))
          found |= strlen(spec.name) == len && strncmp(spec.name, c + 1, len) == 0 &&
                   (spec.kind == PTC_ATTR_DIM || spec.kind == PTC_ATTR_DIMS);
        UNIT_CHECK(found, info->rule);
        c += len;
      }
    }
  }
  ptc_opcode_t opcode;
  CU_ASSERT(!ptc_opcode_parse("", &opcode));
  CU_ASSERT(!ptc_opcode_parse("ad", &opcode));

  int32_t cursor = 0;
  ptc_attr_spec_t spec;
  static const char *const names[] = {"dim", "base", "dims", "style", "scale", "inverse"};
  static const ptc_attr_kind_t kinds[] = {PTC_ATTR_DIM,    PTC_ATTR_FLOAT, PTC_ATTR_INT,
                                          PTC_ATTR_STRING, PTC_ATTR_FLOAT, PTC_ATTR_BOOL};
  for (int i = 0; i < 6; i++) {
    CU_ASSERT_FATAL(ptc_op_next_attr_spec(PTC_OP_ROPE, &cursor, &spec));
    UNIT_CHECK(
        strcmp(spec.name, names[i]) == 0 && spec.kind == kinds[i] && spec.optional == (i >= 4),
        names[i]);
  }
  CU_ASSERT(!ptc_op_next_attr_spec(PTC_OP_ROPE, &cursor, &spec));
}

static void test_attention_operands(void) {
  ptc_module_t *module = begin();
  ptc_op_t *op = maker_op(module, PTC_OP_ATTENTION, "f32[]", "bias=b:1 p=f:0.1", NULL, 2);
  ptc_attention_operands_t at = ptc_attention_operands(op);
  CU_ASSERT(at.q == 0 && at.key == 1 && at.val == 2 && at.mask == -1 && at.bias == 3);
  CU_ASSERT(at.out == -1 && at.lse == -1 && at.dout == -1 && at.seed == 4);
  op = maker_op(module, PTC_OP_ATTENTION_GRAD, "f32[]", "mask=b:1 p=f:0", NULL, 3);
  at = ptc_attention_operands(op);
  CU_ASSERT(at.mask == 3 && at.bias == -1 && at.out == 4 && at.lse == 5 && at.dout == 6);
  CU_ASSERT(at.seed == -1);
  end(module);
}

static const unit_test_t tests[] = {{"insert and remove", test_insert_remove},
                                    {"operands", test_operands},
                                    {"nesting and clones", test_nesting},
                                    {"walk removes", test_walk_removes},
                                    {"functions and globals", test_functions_and_globals},
                                    {"attributes", test_attrs},
                                    {"op table", test_op_table},
                                    {"attention operands", test_attention_operands}};
UNIT_MAIN("module", tests)
