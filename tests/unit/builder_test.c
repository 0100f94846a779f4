// Proves: builder calls give ops with the right types and dims, and pass NULL on without a word.
#include "ir/builder.h"

#include "tests/support/op_maker.h"
#include "tests/support/unit.h"

typedef struct fixture_s {
  ptc_diag_t diag;
  ptc_module_t *module;
  ptc_func_t *func;
  ptc_builder_t b;
} fixture_t;

static void begin(fixture_t *f) {
  ptc_diag_init(&f->diag);
  f->module = maker_module(&f->diag);
  f->func = ptc_module_add_func(f->module, "f", (ptc_loc_t){0});
  f->b = ptc_builder_at_end(f->module, f->func->body);
}

static void end(fixture_t *f) {
  ptc_module_destroy(f->module);
  ptc_diag_deinit(&f->diag);
}

static ptc_value_t *arg(fixture_t *f, const char *type) {
  return ptc_block_add_arg(f->func->body, maker_type(f->module, type), NULL);
}

static bool has_type(fixture_t *f, const ptc_value_t *value, const char *type) {
  return value && value->type && ptc_type_equal(value->type, maker_type(f->module, type));
}

static const char *name(fixture_t *f, const char *text) {
  return ptc_module_intern(f->module, text);
}

static int num_ops(const fixture_t *f) {
  int count = 0;
  for (const ptc_op_t *op = f->func->body->first; op; op = op->next) count++;
  return count;
}

static void test_simple(void) {
  fixture_t f;
  begin(&f);
  ptc_value_t *x = arg(&f, "bf16[a=2, b=3]");
  ptc_value_t *c = ptc_build_constant(&f.b, PTC_F32, 0.5);
  CU_ASSERT(has_type(&f, c, "f32[]"));
  CU_ASSERT_EQUAL(ptc_op_float(c->def, "value"), 0.5);
  ptc_dim_t dim = {.name = name(&f, "s"), .extent = 7};
  CU_ASSERT(has_type(&f, ptc_build_iota(&f.b, &dim), "i32[s=7]"));
  CU_ASSERT(has_type(&f, ptc_build_unary(&f.b, PTC_OP_EXP, x), "bf16[a=2, b=3]"));
  ptc_value_t *y = ptc_build_cast(&f.b, x, PTC_F32);
  CU_ASSERT(has_type(&f, y, "f32[a=2, b=3]"));
  CU_ASSERT_PTR_EQUAL(ptc_build_cast(&f.b, y, PTC_F32), y);
  CU_ASSERT(has_type(&f, ptc_build_binary(&f.b, PTC_OP_MUL, c, y), "f32[a=2, b=3]"));
  ptc_value_t *less = ptc_build_binary_const(&f.b, PTC_OP_LT, y, 1);
  CU_ASSERT(has_type(&f, less, "bool[a=2, b=3]"));
  CU_ASSERT_EQUAL(less->def->operands[1]->type->dtype, PTC_F32);
  CU_ASSERT(has_type(&f, ptc_build_where(&f.b, less, y, c), "f32[a=2, b=3]"));
  CU_ASSERT_EQUAL(f.diag.num_errors, 0);
  end(&f);
}

static void test_dims(void) {
  fixture_t f;
  begin(&f);
  ptc_value_t *x = arg(&f, "f32[a=2, b=3]");
  const char *a[] = {name(&f, "a")}, *c[] = {name(&f, "c")};
  const char *ba[] = {name(&f, "b"), name(&f, "a")};
  CU_ASSERT(has_type(&f, ptc_build_reduce(&f.b, PTC_OP_REDUCE_MAX, x, a, 1), "f32[b=3]"));
  CU_ASSERT_PTR_EQUAL(ptc_build_reduce(&f.b, PTC_OP_REDUCE_SUM, x, NULL, 0), x);
  CU_ASSERT(has_type(&f, ptc_build_rename(&f.b, x, a, c, 1), "f32[c=2, b=3]"));
  CU_ASSERT(has_type(&f, ptc_build_transpose(&f.b, x, ba, 2), "f32[b=3, a=2]"));
  ptc_value_t *w = arg(&f, "f32[c=5, b=3]");
  const char *b[] = {name(&f, "b")};
  CU_ASSERT(has_type(&f, ptc_build_einsum(&f.b, x, w, b, 1), "f32[a=2, c=5]"));
  end(&f);
}

// Each row: x, the wanted dims, the number of ops that it takes.
static void test_fit(void) {
  static const struct {
    const char *x, *like, *result;
    int ops;
  } rows[] = {
      {"f32[a=2, b=3]", "f32[a=2, b=3]", "f32[a=2, b=3]", 0},
      {"f32[a=2, b=3]", "f32[b=3, a=2]", "f32[b=3, a=2]", 1},
      {"f32[a=2, b=3]", "bf16[b=3]", "f32[b=3]", 1},
      {"f32[a=2, b=3]", "f32[]", "f32[]", 1},
      {"f32[]", "f32[b=3, a=2]", "f32[b=3, a=2]", 1},
      {"f32[a=2, b=3]", "f32[c=4, b=3]", "f32[c=4, b=3]", 2},
      {"f32[a=2, b=3, d=5]", "f32[d=5, b=3]", "f32[d=5, b=3]", 2},
      {"f32[a=2]", "f32[c=4 'tp', a=2]", "f32[c=4 'tp', a=2]", 1},
      {"f32[a=2 'tp', b=3]", "f32[b=3]", "f32[b=3] partial 'tp'", 1},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    fixture_t f;
    begin(&f);
    ptc_value_t *fit = ptc_build_fit(&f.b, arg(&f, rows[i].x), maker_type(f.module, rows[i].like));
    UNIT_CHECK(has_type(&f, fit, rows[i].result), rows[i].like);
    UNIT_CHECK(num_ops(&f) == rows[i].ops, rows[i].like);
    end(&f);
  }
}

static void test_einsum_fit(void) {
  static const struct {
    const char *x, *y, *like;
    ptc_opcode_t first;
    int ops;
  } rows[] = {
      {"f32[s=2, d=3]", "f32[d=3, f=4]", "f32[s=2, f=4]", PTC_OP_EINSUM, 1},
      {"f32[s=2, d=3]", "f32[d=3, f=4]", "f32[f=4, s=2]", PTC_OP_EINSUM, 1},
      {"f32[s=2, d=3]", "f32[d=3]", "f32[s=2, d=3]", PTC_OP_MUL, 1},
      {"f32[s=2]", "f32[d=3]", "f32[d=3, s=2]", PTC_OP_MUL, 2},
      {"f32[s=2, d=3]", "f32[d=3]", "f32[x=5, s=2]", PTC_OP_EINSUM, 2},
      {"f32[s=2, d=3]", "f32[d=3]", "f32[]", PTC_OP_EINSUM, 1},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    fixture_t f;
    begin(&f);
    ptc_value_t *fit = ptc_build_einsum_fit(&f.b, arg(&f, rows[i].x), arg(&f, rows[i].y),
                                            maker_type(f.module, rows[i].like));
    UNIT_CHECK(has_type(&f, fit, rows[i].like), rows[i].like);
    UNIT_CHECK(f.func->body->first->opcode == rows[i].first && num_ops(&f) == rows[i].ops,
               rows[i].like);
    end(&f);
  }
}

static void test_insertion_point(void) {
  fixture_t f;
  begin(&f);
  ptc_value_t *x = arg(&f, "f32[]");
  ptc_value_t *y = ptc_build_unary(&f.b, PTC_OP_EXP, x);
  y->def->loc = (ptc_loc_t){"a.ptm", 3, 4};
  ptc_builder_t before = ptc_builder_before(f.module, y->def);
  ptc_value_t *z = ptc_build_unary(&before, PTC_OP_NEG, x);
  ptc_value_t *last = ptc_build_unary(&f.b, PTC_OP_LOG, x);
  CU_ASSERT_PTR_EQUAL(f.func->body->first, z->def);
  CU_ASSERT_PTR_EQUAL(z->def->next, y->def);
  CU_ASSERT_PTR_EQUAL(f.func->body->last, last->def);
  CU_ASSERT_EQUAL(z->def->loc.line, 3);
  end(&f);
}

static void test_repeat(void) {
  fixture_t f;
  begin(&f);
  ptc_value_t *x = arg(&f, "f32[d=4]"), *w = arg(&f, "3 x f32[d=4]");
  ptc_op_t *repeat = ptc_build_repeat_begin(&f.b, 3, true, &x, 1, &w, 1);
  CU_ASSERT_PTR_NOT_NULL_FATAL(repeat);
  CU_ASSERT_EQUAL(repeat->body->num_args, 3);
  ptc_builder_t in = ptc_builder_at_end(f.module, repeat->body);
  ptc_value_t *y = ptc_build_binary(&in, PTC_OP_MUL, repeat->body->args[1], repeat->body->args[2]);
  ptc_build_repeat_end(f.module, repeat, (ptc_value_t *[]){y, y}, 2);
  CU_ASSERT_EQUAL(f.diag.num_errors, 0);
  CU_ASSERT_EQUAL(repeat->num_results, 2);
  CU_ASSERT(has_type(&f, repeat->results[0], "f32[d=4]"));
  CU_ASSERT(has_type(&f, repeat->results[1], "3 x f32[d=4]"));
  CU_ASSERT(ptc_op_bool(repeat, "reverse"));
  ptc_result_t results[] = {{.kind = PTC_RESULT_VALUE, .name = "loss", .role = "loss"},
                            {.kind = PTC_RESULT_VALUE, .name = "gone", .role = "metric"}};
  ptc_build_return(&f.b, f.func, (ptc_value_t *[]){repeat->results[0], NULL}, results, 2);
  CU_ASSERT_EQUAL(f.func->num_results, 1);
  CU_ASSERT_EQUAL(ptc_func_return(f.func)->num_operands, 1);
  CU_ASSERT_PTR_EQUAL(f.func->results[0].name, name(&f, "loss"));

  // A value that an error left NULL: the block stays well-formed, and nothing more is said.
  repeat = ptc_build_repeat_begin(&f.b, 3, false, &x, 1, &w, 1);
  ptc_build_repeat_end(f.module, repeat, (ptc_value_t *[]){NULL, NULL}, 2);
  CU_ASSERT_EQUAL(repeat->body->last->opcode, PTC_OP_YIELD);
  CU_ASSERT_PTR_NOT_NULL(repeat->body->last->operands[1]);
  CU_ASSERT_PTR_NULL(repeat->results[1]->type);
  CU_ASSERT_PTR_NULL(ptc_build_unary(&f.b, PTC_OP_NEG, repeat->results[1]));
  CU_ASSERT_EQUAL(f.diag.num_errors, 0);

  // A carried value that changes its type is an error.
  repeat = ptc_build_repeat_begin(&f.b, 3, false, &x, 1, NULL, 0);
  ptc_build_repeat_end(f.module, repeat, &repeat->body->args[0], 1);
  CU_ASSERT_EQUAL(f.diag.num_errors, 1);
  CU_ASSERT_STRING_EQUAL(f.diag.items[0].id, "repeat-c7");
  CU_ASSERT_PTR_NULL(ptc_build_repeat_begin(&f.b, 3, false, NULL, 0, &x, 1));
  CU_ASSERT_PTR_NULL(ptc_build_repeat_begin(&f.b, 3, false, (ptc_value_t *[]){NULL}, 1, NULL, 0));
  ptc_build_repeat_end(f.module, NULL, NULL, 0);
  end(&f);
}

static void test_errors(void) {
  fixture_t f;
  begin(&f);
  ptc_value_t *x = arg(&f, "f32[a=2]"), *i = arg(&f, "i32[a=2]");
  CU_ASSERT_PTR_NULL(ptc_build_binary(&f.b, PTC_OP_ADD, x, i));
  CU_ASSERT_EQUAL(f.diag.num_errors, 1);
  CU_ASSERT_STRING_EQUAL(f.diag.items[0].id, "add-c2");
  CU_ASSERT_EQUAL(num_ops(&f), 0);  // the wrong op is not in the block
  const ptc_type_t *like = x->type;
  const char *a[] = {name(&f, "a")};
  CU_ASSERT_PTR_NULL(ptc_build_unary(&f.b, PTC_OP_NEG, NULL));
  CU_ASSERT_PTR_NULL(ptc_build_binary(&f.b, PTC_OP_ADD, x, NULL));
  CU_ASSERT_PTR_NULL(ptc_build_binary_const(&f.b, PTC_OP_ADD, NULL, 1));
  CU_ASSERT_PTR_NULL(ptc_build_where(&f.b, NULL, x, x));
  CU_ASSERT_PTR_NULL(ptc_build_cast(&f.b, NULL, PTC_F16));
  CU_ASSERT_PTR_NULL(ptc_build_fit(&f.b, NULL, like));
  CU_ASSERT_PTR_NULL(ptc_build_einsum_fit(&f.b, x, NULL, like));
  CU_ASSERT_PTR_NULL(ptc_build_einsum(&f.b, NULL, x, a, 1));
  CU_ASSERT_PTR_NULL(ptc_build_reduce(&f.b, PTC_OP_REDUCE_SUM, NULL, a, 1));
  CU_ASSERT_PTR_NULL(ptc_build_rename(&f.b, NULL, a, a, 1));
  CU_ASSERT_PTR_NULL(ptc_build_broadcast(&f.b, NULL, like->dims, 1));
  CU_ASSERT_PTR_NULL(ptc_build_transpose(&f.b, NULL, a, 1));
  CU_ASSERT_EQUAL(f.diag.num_errors, 1);
  end(&f);
}

static const unit_test_t tests[] = {{"simple ops", test_simple},
                                    {"dims", test_dims},
                                    {"fit", test_fit},
                                    {"einsum_fit", test_einsum_fit},
                                    {"insertion point", test_insertion_point},
                                    {"repeat", test_repeat},
                                    {"errors", test_errors}};
UNIT_MAIN("builder", tests)
