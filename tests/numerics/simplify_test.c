// Proves: canonicalize, cse and dce keep what a module computes, do what their rules say, and leave
// alone what they must not touch.
#include "ir/text.h"
#include "tests/support/pass_runner.h"
#include "tests/support/small_models.h"
#include "tests/support/unit.h"

// The body of a function with these arguments; its last value is %r.
static const char program_text[] =
    "module \"rules\"\n"
    "input @x : f32[b=2, d=3]\n"
    "input @y : f32[d=3]\n"
    "input @n : i32[b=2] {range = 5}\n"
    "input @c : bool[b=2]\n"
    "param @\"w.*\" turns (0:1) : 2 x f32[d=3]\n"
    "setting @seed : i64[] {value = 1}\n"
    "counter @step : i64[] {value = 0}\n"
    "func @train(%%x = @x, %%y = @y, %%n = @n, %%c = @c, %%w = @\"w.*\" (0:1), %%seed = @seed, "
    "%%step = @step) {\n"
    "%s"
    "  return output \"r\" = %%r\n"
    "}\n";

typedef struct rule_row_s {
  const char *name, *body;
  ptc_opcode_t opcode;  // is counted after canonicalize
  int count;
} rule_row_t;

#define ZERO "  %z = constant {value = 0} : f32[]\n"
#define ONE "  %z = constant {value = 1} : f32[]\n"
static const rule_row_t rule_rows[] = {
    {"x + 0", ZERO "  %r = add %x, %z\n", PTC_OP_ADD, 0},
    {"0 + x", ZERO "  %r = add %z, %x\n", PTC_OP_ADD, 0},
    {"y + 0 of more dims stays",
     ZERO "  %0 = broadcast %z {dims = [b], extents = [2]}\n"
          "  %r = add %y, %0\n",
     PTC_OP_ADD, 1},
    {"x - 0", ZERO "  %r = sub %x, %z\n", PTC_OP_SUB, 0},
    {"0 - x", ZERO "  %r = sub %z, %x\n", PTC_OP_NEG, 1},
    {"x * 1", ONE "  %r = mul %x, %z\n", PTC_OP_MUL, 0},
    {"x * 0 stays", ZERO "  %r = mul %x, %z\n", PTC_OP_MUL, 1},
    {"x * -1", "  %z = constant {value = -1} : f32[]\n  %r = mul %x, %z\n", PTC_OP_NEG, 1},
    {"x / 1", ONE "  %r = div %x, %z\n", PTC_OP_DIV, 0},
    {"x / x stays", "  %r = div %x, %x\n", PTC_OP_DIV, 1},
    {"x - x stays", "  %r = sub %x, %x\n", PTC_OP_SUB, 1},
    {"x ^ 1", ONE "  %r = pow %x, %z\n", PTC_OP_POW, 0},
    {"x ^ 2", "  %z = constant {value = 2} : f32[]\n  %r = pow %x, %z\n", PTC_OP_MUL, 1},
    {"- - x", "  %0 = neg %x\n  %1 = neg %0\n  %r = sin %1\n", PTC_OP_NEG, 0},
    {"not not c", "  %0 = not %c\n  %1 = not %0\n  %r = where %1, %x, %y\n", PTC_OP_NOT, 0},
    {"x - -y", "  %0 = neg %y\n  %r = sub %x, %0\n", PTC_OP_ADD, 1},
    {"x + -y", "  %0 = neg %y\n  %r = add %x, %0\n", PTC_OP_SUB, 1},
    {"-y + x", "  %0 = neg %y\n  %r = add %0, %x\n", PTC_OP_SUB, 1},
    {"where(c, x, x)", "  %r = where %c, %x, %x\n", PTC_OP_WHERE, 0},
    {"where(true, x, y) of x's dims",
     "  %z = constant {value = 1} : bool[]\n  %r = where %z, %x, %y\n", PTC_OP_WHERE, 0},
    {"where(false, x, y) of more dims stays",
     "  %z = constant {value = 0} : bool[]\n  %r = where %z, %x, %y\n", PTC_OP_WHERE, 1},
    {"transpose twice",
     "  %0 = transpose %x {dims = [d, b]}\n"
     "  %1 = transpose %0 {dims = [b, d]}\n  %r = sin %1\n",
     PTC_OP_TRANSPOSE, 0},
    {"rename there and back",
     "  %0 = rename %x {from = [b], to = [e]}\n  %1 = rename %0 {from = [e], to = [b]}\n"
     "  %r = sin %1\n",
     PTC_OP_RENAME, 0},
    {"rename twice",
     "  %0 = rename %x {from = [b], to = [e]}\n  %1 = rename %0 {from = [d, e], to = [e, d]}\n"
     "  %r = sin %1\n",
     PTC_OP_RENAME, 1},
    {"broadcast twice",
     "  %0 = broadcast %y {dims = [b, d], extents = [2, 3]}\n"
     "  %r = broadcast %0 {dims = [d, e, b], extents = [3, 4, 2]}\n",
     PTC_OP_BROADCAST, 1},
    {"transposed broadcast",
     "  %0 = broadcast %y {dims = [b, d], extents = [2, 3]}\n"
     "  %r = transpose %0 {dims = [d, b]}\n",
     PTC_OP_TRANSPOSE, 0},
    {"broadcast to itself",
     "  %0 = broadcast %x {dims = [b, d], extents = [2, 3]}\n"
     "  %r = sin %0\n",
     PTC_OP_BROADCAST, 0},
    {"operand broadcast",
     "  %0 = broadcast %y {dims = [b, d], extents = [2, 3]}\n"
     "  %r = mul %x, %0\n",
     PTC_OP_BROADCAST, 0},
    {"first operand broadcast",
     "  %0 = broadcast %y {dims = [b, d], extents = [2, 3]}\n  %r = mul %0, %x\n", PTC_OP_BROADCAST,
     0},
    {"f(broadcast)",
     "  %0 = broadcast %y {dims = [b, d], extents = [2, 3]}\n  %1 = exp %0\n"
     "  %r = sub %1, %x\n",
     PTC_OP_EXP, 1},
    {"einsum of a broadcast",
     "  %0 = broadcast %y {dims = [d, b], extents = [3, 2]}\n"
     "  %r = einsum %0, %x {over = [d]}\n",
     PTC_OP_BROADCAST, 0},
    {"einsum over a broadcast dim stays",
     "  %0 = broadcast %y {dims = [d, b], extents = [3, 2]}\n"
     "  %r = einsum %0, %x {over = [b]}\n",
     PTC_OP_BROADCAST, 1},
    {"einsum of a transpose",
     "  %0 = transpose %x {dims = [d, b]}\n"
     "  %r = einsum %0, %y {over = [d]}\n",
     PTC_OP_TRANSPOSE, 0},
    {"transposes move behind elementwise ops",
     "  %0 = transpose %x {dims = [d, b]}\n  %1 = exp %0\n  %2 = mul %1, %y\n"
     "  %3 = einsum %2, %y {over = [d]}\n  %r = sub %x, %3\n",
     PTC_OP_TRANSPOSE, 0},
    {"transposes alike move behind both",
     "  %0 = transpose %x {dims = [d, b]}\n  %1 = exp %0\n  %2 = add %1, %0\n"
     "  %3 = reduce_sum %2 {over = [d]}\n  %r = sub %x, %3\n",
     PTC_OP_TRANSPOSE, 0},
    {"a transpose of one operand of two stays",
     "  %0 = transpose %x {dims = [d, b]}\n  %1 = sin %x\n  %r = add %0, %1\n", PTC_OP_TRANSPOSE,
     1},
    {"split of merge",
     "  %0 = merge %x {dims = [b, d], into = e}\n"
     "  %1 = split %0 {dim = e, into = [b, d], extents = [2, 3]}\n"
     "  %r = sin %1\n",
     PTC_OP_SPLIT, 0},
    {"merge of split",
     "  %0 = split %y {dim = d, into = [g, h], extents = [3, 1]}\n"
     "  %1 = merge %0 {dims = [g, h], into = d}\n  %r = sin %1\n",
     PTC_OP_MERGE, 0},
    {"concat of one", "  %0 = concat %x {dim = b}\n  %r = sin %0\n", PTC_OP_CONCAT, 0},
    {"cast up and down",
     "  %0 = cast %x {to = \"f64\"}\n  %1 = cast %0 {to = \"f32\"}\n"
     "  %r = sin %1\n",
     PTC_OP_CAST, 0},
    {"cast down and up rounds",
     "  %0 = cast %x {to = \"bf16\"}\n  %1 = cast %0 {to = \"f32\"}\n"
     "  %r = sin %1\n",
     PTC_OP_CAST, 2},
    {"cast of an integer", "  %0 = cast %n {to = \"i64\"}\n  %r = cast %0 {to = \"f64\"}\n",
     PTC_OP_CAST, 1},
    {"f32(x) is kept for precision", "  %0 = cast %x {to = \"f32\"}\n  %r = sin %0\n", PTC_OP_CAST,
     1},
    {"constants fold",
     "  %0 = constant {value = 2} : f32[]\n"
     "  %1 = constant {value = 3} : f32[]\n  %2 = mul %0, %1\n"
     "  %3 = sqrt %2\n  %4 = div %0, %3\n  %r = add %x, %4\n",
     PTC_OP_MUL, 0},
    {"inexact constants do not fold",
     "  %0 = constant {value = 0.1} : f32[]\n"
     "  %1 = constant {value = 3} : f32[]\n"
     "  %2 = mul %0, %1\n  %r = add %x, %2\n",
     PTC_OP_MUL, 1},
    {"integers fold in range",
     "  %0 = constant {value = 2000000000} : i32[]\n"
     "  %1 = add %0, %0\n  %r = add %n, %1\n",
     PTC_OP_ADD, 2},
    {"unchanged carry",
     "  %0, %r = repeat {count = 3} index %i carry(%a = %y, %s = %x) {\n"
     "    %1 = add %s, %a\n    yield carry(%a, %1)\n  }\n",
     PTC_OP_REPEAT, 1},
    {"collected instance",
     "  %0, %1 = repeat {count = 2} index %i carry(%s = %x) each(%v = %w) {\n"
     "    %2 = add %s, %v\n    yield carry(%2) collect(%v)\n  }\n"
     "  %r = repeat {count = 2} index %j carry(%s = %0) each(%v = %1) {\n"
     "    %3 = add %s, %v\n    yield carry(%3)\n  }\n",
     PTC_OP_ADD, 2},
    {"list of lists",
     "  %0 = list_group %w {outer = 2}\n  %1 = list_ungroup %0\n"
     "  %2 = list_slice %1 {first = 0, count = 2}\n  %3 = list_concat %2\n"
     "  %r = repeat {count = 2} index %j carry(%s = %x) each(%v = %3) {\n"
     "    %4 = add %s, %v\n    yield carry(%4)\n  }\n",
     PTC_OP_LIST_UNGROUP, 0},
    {"equal ops", "  %0 = sin %x\n  %1 = sin %x\n  %r = add %0, %1\n", PTC_OP_SIN, 1},
    {"commuted ops",
     "  %0 = mul %x, %x\n  %1 = add %0, %x\n  %2 = add %x, %0\n"
     "  %r = sub %1, %2\n",
     PTC_OP_ADD, 1},
    {"zeros of two signs differ",
     "  %0 = constant {value = 0} : f32[]\n  %1 = constant {value = -0} : f32[]\n"
     "  %2 = div %x, %0\n  %3 = div %x, %1\n  %r = where %c, %2, %3\n",
     PTC_OP_DIV, 2},
    {"an op of the block around",
     "  %0 = exp %x\n  %1 = repeat {count = 2} index %i carry(%s = %0) {\n"
     "    %2 = exp %x\n    %3 = add %s, %2\n    yield carry(%3)\n  }\n  %r = sub %1, %0\n",
     PTC_OP_EXP, 1},
    {"an op of another block stays",
     "  %1 = repeat {count = 2} index %i carry(%s = %x) {\n"
     "    %2 = exp %x\n    %3 = add %s, %2\n    yield carry(%3)\n  }\n"
     "  %4 = exp %x\n  %r = sub %1, %4\n",
     PTC_OP_EXP, 2},
    {"equal random numbers",
     "  %0 = dropout %x, %seed, %step {p = 0.5, path = \"a\"}\n"
     "  %1 = dropout %x, %seed, %step {p = 0.5, path = \"a\"}\n  %r = add %0, %1\n",
     PTC_OP_DROPOUT, 1},
    {"other random numbers",
     "  %0 = dropout %x, %seed, %step {p = 0.5, path = \"a\"}\n"
     "  %1 = dropout %x, %seed, %step {p = 0.5, path = \"b\"}\n  %r = add %0, %1\n",
     PTC_OP_DROPOUT, 2},
    {"a bundle given twice, a value collected twice",
     "  %0, %1, %2 = repeat {count = 2} index %i carry(%s = %x) each(%u = %w, %v = %w) {\n"
     "    %3 = sin %u\n    %4 = sin %v\n    %5 = mul %3, %4\n    %6 = add %s, %5\n"
     "    yield carry(%6) collect(%3, %4)\n  }\n"
     "  %r = repeat {count = 2} index %j carry(%s = %0) each(%u = %1, %v = %2) {\n"
     "    %7 = mul %u, %v\n    %8 = add %s, %7\n    yield carry(%8)\n  }\n",
     PTC_OP_SIN, 1},
    {"dead values of a repeat",
     "  %0, %r, %1 = repeat {count = 2} index %i carry(%s = %x, %t = %x) each(%u = %w) {\n"
     "    %2 = sin %s\n    %3 = cos %t\n    %4 = exp %u\n"
     "    yield carry(%2, %3) collect(%4)\n  }\n",
     PTC_OP_SIN, 0},
};

static void test_rules(void) {
  for (size_t i = 0; i < sizeof(rule_rows) / sizeof(rule_rows[0]); i++) {
    const rule_row_t *row = &rule_rows[i];
    char text[4096];
    snprintf(text, sizeof(text), program_text, row->body);
    program_t program;
    program_parse(&program, text);
    UNIT_CHECK(program.module != NULL, row->name);
    if (!program.module) continue;
    UNIT_CHECK(run_passes(program.module, "canonicalize", false) == PTC_OK, row->name);
    UNIT_CHECK(count_ops(program.module, row->opcode) == row->count, row->name);
    UNIT_CHECK((program.module->properties & PTC_PROPERTY_CANONICAL) != 0, row->name);
    program_deinit(&program);
  }
}

// Clones that recompute made are merged with each other, not with their originals.
static void test_remat(void) {
  char text[4096];
  snprintf(text, sizeof(text), program_text,
           "  %0 = sin %x\n  %1 = sin %x\n  %2 = sin %x\n  %3 = add %0, %1\n  %r = add %3, %2\n");
  program_t program;
  program_parse(&program, text);
  CU_ASSERT_PTR_NOT_NULL_FATAL(program.module);
  ptc_op_t *op = program.module->funcs->body->first;
  op->next->remat = op->next->next->remat = true;
  CU_ASSERT_EQUAL(run_passes(program.module, "cse dce", false), PTC_OK);
  CU_ASSERT_EQUAL(count_ops(program.module, PTC_OP_SIN), 2);
  program_deinit(&program);
}

// Each pass alone, and twice in a row: the second time nothing changes.
static void test_samples(void) {
  for (int i = 0; i < num_small_models; i++) {
    const small_model_t *model = &small_models[i];
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_module_t *module = small_model_lower(model, NULL, 0, &diag);
    UNIT_CHECK(module != NULL, model->name);
    if (!module) continue;
    ptc_module_derive_properties(module);
    UNIT_CHECK(run_passes(module, "cse dce canonicalize", false) == PTC_OK, model->name);
    ptc_str_t once = {0}, twice = {0};
    ptc_module_print(module, false, &once);
    UNIT_CHECK(run_passes_unchecked(module, "canonicalize", false) == PTC_OK, model->name);
    ptc_module_print(module, false, &twice);
    UNIT_CHECK(strcmp(once.data, twice.data) == 0, model->name);
    ptc_str_deinit(&once);
    ptc_str_deinit(&twice);
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
}

static const unit_test_t tests[] = {
    {"rules", test_rules},
    {"recomputed values stay apart", test_remat},
    {"samples", test_samples},
};
UNIT_MAIN("simplify", tests)
