// Proves: what reads along a dim that its shards do not divide does not see the padding, which is NaN: kernels of
// masked ops on all devices give what the interpreter, which knows the valid extents, gives. Nothing is masked
// twice, and nothing where nothing is padded.
#include "passes/pad_masks.h"

#include <math.h>

#include "ir/axes.h"
#include "ir/builder.h"
#include "ir/interp.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/support/kernel_eval.h"
#include "tests/support/pass_runner.h"
#include "tests/support/unit.h"

// V is the extent of v, S of s, over 4 devices each.
typedef struct row_s {
  const char *name, *inputs, *op;
  int num_masks;
  bool nest;  // its kernel runs over the storage, in floats: without masks it is wrong
} row_t;

static const row_t rows[] = {
    {"reduce_sum", "x : f32[b=3, v=V \"tp\"]", "reduce_sum %x {over = [v]}", 1, true},
    {"reduce_sum of a part", "x : f32[b=3, v=V \"tp\"]", "reduce_sum %x {over = [b]}", 0, false},
    {"reduce_max", "x : f32[v=V \"tp\", b=3]", "reduce_max %x {over = [v, b]}", 1, true},
    {"reduce_max of integers", "x : i32[v=V \"tp\", b=3] {range = 9}", "reduce_max %x {over = [v]}",
     1, false},
    {"einsum", "x : f32[b=3, v=V \"tp\"]; y : f32[v=V \"tp\", d=2]", "einsum %x, %y {over = [v]}",
     2, true},
    {"einsum, one operand", "x : f32[b=3, v=V \"tp\"]; y : f32[d=2]", "einsum %x, %y {over = [v]}",
     1, true},
    {"einsum of two padded dims",
     "x : f32[s=S \"cp\", v=V \"tp\"]; y : f32[v=V \"tp\", s=S \"cp\"]",
     "einsum %x, %y {over = [v, s]}", 2, true},
    {"einsum that keeps the dim", "x : f32[b=3, v=V \"tp\"]; y : f32[v=V \"tp\", d=2]",
     "einsum %x, %y {over = []}", 0, false},
    {"einsum of 16-bit floats", "x : bf16[b=3, v=V \"tp\"]; y : bf16[v=V \"tp\", d=2]",
     "einsum %x, %y {over = [v]}", 2, true},
    {"square_sum", "x : f32[s=S \"cp\", v=V \"tp\"]", "square_sum %x", 1, false},
    {"scatter_add", "x : f32[s=S \"cp\", d=2]; i : i32[s=S \"cp\"] {range = 5}",
     "scatter_add %x, %i {dims = [e], result = [e, d], extents = [5, 2]}", 1, false},
    {"gather", "x : f32[e=5, d=2]; i : i32[s=S \"cp\"] {range = 5}", "gather %x, %i {dims = [e]}",
     1, false},
    {"cross_entropy", "x : f32[s=S \"cp\", e=5]; i : i32[s=S \"cp\"] {range = 5}",
     "cross_entropy %x, %i {dim = e}", 1, false},
    {"attention_grad",
     "q : f32[s=S \"cp\", k=2]; key : f32[t=3, k=2]; val : f32[t=3, k=2]; out : f32[s=S \"cp\", "
     "k=2]; "
     "lse : f32[s=S \"cp\"]; dout : f32[s=S \"cp\", k=2]",
     "attention_grad %q, %key, %val, %out, %lse, %dout {attend = t, dot = k, scale = 1.0}", 4,
     false},
};
enum { NUM_ROWS = sizeof(rows) / sizeof(rows[0]) };

static ptc_module_t *parse(const row_t *row, int v, int s, ptc_diag_t *diag) {
  ptc_str_t text = {0}, args = {0};
  ptc_str_append(&text, "module \"m\"\nmesh [\"cp\"=4, \"tp\"=4]\ninput @");
  ptc_str_append(&args, "");
  for (const char *at = row->inputs; *at; at++) {
    if (at == row->inputs || at[-1] == ' ') {
      const size_t len = strcspn(at, " ");
      if (at == row->inputs || (at[-2] == ';'))
        ptc_str_printf(&args, "%s%%%.*s = @%.*s", args.len ? ", " : "", (int)len, at, (int)len, at);
    }
    if (*at == ';')
      ptc_str_append(&text, "\ninput @"), at++;
    else if (*at == 'V' || *at == 'S')
      ptc_str_printf(&text, "%d", *at == 'V' ? v : s);
    else
      ptc_str_append_n(&text, at, 1);
  }
  const bool three = strncmp(row->op, "attention_grad", 14) == 0;
  const bool two = strncmp(row->op, "cross_entropy", 13) == 0;
  ptc_str_printf(&text, "\nfunc @f(%s) {\n  %%0%s = %s\n  return output \"y\" = %%0\n}\n",
                 args.data,
                 three ? ", %1, %2"
                 : two ? ", %1"
                       : "",
                 row->op);
  ptc_module_t *module = NULL;
  if (ptc_module_parse(diag, "m", text.data, text.len, &module) != PTC_OK)
    fprintf(stderr, "%s\n", text.data);
  ptc_str_deinit(&text);
  ptc_str_deinit(&args);
  return module;
}

static int count(const ptc_module_t *module, ptc_opcode_t opcode) {
  int n = 0;
  for (const ptc_op_t *op = module->funcs->body->first; op; op = op->next)
    n += op->opcode == opcode;
  return n;
}

static ptc_op_t *op_of(ptc_module_t *module) { return ptc_func_return(module->funcs)->prev; }

// Every result is returned, summed up; limbs as the number they stand for.
static bool return_all(ptc_module_t *module, ptc_op_t *op) {
  ptc_op_t *ret = ptc_func_return(module->funcs);
  ptc_builder_t b = ptc_builder_before(module, ret);
  for (int32_t i = 0; i < op->num_results; i++) {
    ptc_value_t *value = op->results[i];
    if (value->type->num_partial) {
      ptc_attrs_t attrs = {0};
      ptc_attrs_set_string(module, &attrs, "axes",
                           ptc_axes_text(module, value->type->partial, value->type->num_partial));
      ptc_op_t *sum = ptc_build_op(&b, PTC_OP_ALL_REDUCE, &value, 1, 1, attrs);
      if (!sum) return false;
      value = sum->results[0];
    }
    if (op->opcode == PTC_OP_SQUARE_SUM) value = ptc_build_unary(&b, PTC_OP_LIMBS_VALUE, value);
    if (i == 0) {
      ret->operands[0] = value;
      continue;
    }
    char name[16];
    snprintf(name, sizeof name, "y%d", (int)i);
    ptc_func_add_result(module->funcs,
                        (ptc_result_t){.kind = PTC_RESULT_VALUE,
                                       .name = ptc_module_intern(module, name),
                                       .role = ptc_module_intern(module, "output")},
                        value);
  }
  return ptc_module_verify(module) == PTC_OK;
}

// How far the kernels are from the interpreter.
static double error_of(const row_t *row, int v, int s, bool masked, int *out_masks, uint64_t seed) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  double error = INFINITY;
  *out_masks = -1;
  ptc_module_t *module = parse(row, v, s, &diag);
  if (module) {
    ptc_op_t *op = op_of(module);
    bool ok = true;
    if (masked) ok = ptc_mask_operands(module, op) == PTC_OK;
    *out_masks = count(module, PTC_OP_WHERE);
    // A second time there is nothing left to do.
    if (masked) ok = ok && ptc_mask_operands(module, op) == PTC_OK;
    UNIT_CHECK(count(module, PTC_OP_WHERE) == *out_masks, row->name);
    ok = ok && return_all(module, op);
    ptc_module_derive_properties(module);
    ok = ok && run_passes_unchecked(module, "fuse", false) == PTC_OK;
    UNIT_CHECK(ok, row->name);
    char worst[256];
    if (ok) error = module_run_compare(module, "f", seed, true, worst);
    ptc_module_destroy(module);
  }
  if (isinf(error) && masked) ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
  ptc_diag_deinit(&diag);
  return error;
}

static void test_masks(void) {
  uint64_t random = unit_seed();
  for (int r = 0; r < NUM_ROWS; r++) {
    const row_t *row = &rows[r];
    for (int round = 0; round < 4; round++) {
      // With 1 to 3 of 4 shards padded, some empty.
      const int v = 1 + 4 * (int)(unit_random(&random) % 5) + (int)(unit_random(&random) % 3);
      const int s = 1 + 4 * (int)(unit_random(&random) % 3) + (int)(unit_random(&random) % 3);
      const uint64_t seed = unit_random(&random);
      int masks;
      const double error = error_of(row, v, s, true, &masks, seed);
      if (!(error <= 1e-5)) fprintf(stderr, "%s v=%d s=%d: off by %g\n", row->name, v, s, error);
      UNIT_CHECK(error <= 1e-5, row->name);
      UNIT_CHECK(masks == row->num_masks, row->name);
      if (row->nest) UNIT_CHECK(!(error_of(row, v, s, false, &masks, seed) <= 1e-5), row->name);
      UNIT_CHECK(error_of(row, 4 * v, 4 * s, true, &masks, seed) <= 1e-5, row->name);
      UNIT_CHECK(masks == 0, row->name);
    }
  }
}

// all_finite takes whole values; its operand is masked before it is taken apart. What is zero in the padding
// already, or a constant, is left alone.
static void test_known(void) {
  static const char text[] =
      "module \"m\"\nmesh [\"tp\"=4]\ninput @x : f32[b=3, v=6 \"tp\"]\n"
      "func @f(%x = @x) {\n"
      "  %i = iota {dim = v} : i32[v=6 \"tp\"]\n  %n = constant {value = 6} : i32[]\n"
      "  %c = lt %i, %n\n  %z = constant {value = 0} : f32[]\n  %m = where %c, %x, %z\n"
      "  %h = cast %m {to = \"bf16\"}\n  %t = transpose %h {dims = [b, v]}\n  %g = neg %t\n"
      "  %zero = broadcast %z {dims = [v], extents = [6]} : f32[v=6 \"tp\"]\n"
      "  %e = exp %m\n"
      "  return output \"a\" = %g, output \"b\" = %zero, output \"c\" = %e, output \"d\" = %m\n}\n";
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = NULL;
  CU_ASSERT_EQUAL_FATAL(ptc_module_parse(&diag, "m", text, strlen(text), &module), PTC_OK);
  ptc_op_t *ret = ptc_func_return(module->funcs);
  ptc_builder_t b = ptc_builder_before(module, ret);
  const char *v = ptc_module_intern(module, "v");
  for (int i = 0; i < 4; i++) {
    ptc_value_t *x = ret->operands[i];
    CU_ASSERT_EQUAL(ptc_mask_padding(&b, x, &v, 1, 0) == x, i != 2);
    CU_ASSERT(ptc_mask_padding(&b, x, &v, 1, -INFINITY) != x);
  }
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

// Two sums of one computed value: it is masked once, where it is made.
static void test_shared(void) {
  static const char text[] =
      "module \"m\"\nmesh [\"tp\"=4]\ninput @x : f32[b=3, v=6 \"tp\"]\n"
      "func @f(%x = @x) {\n  %e = exp %x\n  %n = neg %e\n  %a = reduce_sum %e {over = [v]}\n"
      "  %b = reduce_sum %e {over = [b, v]}\n"
      "  %s = all_reduce %a {axes = \"tp\"}\n  %t = all_reduce %b {axes = \"tp\"}\n"
      "  return output \"s\" = %s, output \"t\" = %t, output \"n\" = %n\n}\n";
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = NULL;
  CU_ASSERT_EQUAL_FATAL(ptc_module_parse(&diag, "m", text, strlen(text), &module), PTC_OK);
  ptc_op_t *exp = module->funcs->body->first, *neg = exp->next;
  for (ptc_op_t *op = exp, *next; op->next; op = next) {
    next = op->next;
    CU_ASSERT_EQUAL(ptc_mask_operands(module, op), PTC_OK);
  }
  CU_ASSERT_EQUAL(count(module, PTC_OP_WHERE), 1);
  CU_ASSERT(neg->operands[0] != exp->results[0]);
  CU_ASSERT_EQUAL(ptc_module_verify(module), PTC_OK);
  ptc_module_derive_properties(module);
  CU_ASSERT_EQUAL(run_passes_unchecked(module, "fuse", false), PTC_OK);
  char worst[256];
  CU_ASSERT(module_run_compare(module, "f", unit_seed(), true, worst) <= 1e-5);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

static const unit_test_t tests[] = {
    {"masks", test_masks}, {"shared", test_shared}, {"known", test_known}};
UNIT_MAIN("pad masks", tests)
