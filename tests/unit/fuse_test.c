// Proves: which ops form one kernel, what stays apart and why, what kernels look like as text, and that the
// module keeps its meaning and its text form.
#include "ir/op.h"
#include "ir/text.h"
#include "tests/support/kernel_groups.h"
#include "tests/support/pass_runner.h"
#include "tests/support/unit.h"

// The body of a function with these arguments.
static const char program_text[] =
    "module \"fuse\"\n"
    "mesh [\"micro\"=2]\n"
    "input @x : f32[b=16, s=8, d=16]\n"
    "input @y : f32[b=16, s=8, d=16]\n"
    "input @t : i32[b=16, s=8] {range = 16}\n"
    "param @g : f32[d=16]\n"
    "param @h : f32[d=16]\n"
    "param @w : f32[d=16, f=32]\n"
    "param @w2 : f32[f=32, d=16]\n"
    "param @c : f32[f=32]\n"
    "param @q : f32[b=16, s=8, n=2, k=8]\n"
    "moment @m.g : f32[d=16] {owner = \"g\", which = \"m\"}\n"
    "moment @v.g : f32[d=16] {owner = \"g\", which = \"v\"}\n"
    "setting @seed : i64[] {value = 1}\n"
    "setting @lr : f32[] {value = 0.1}\n"
    "counter @step : i64[] {value = 0}\n"
    "func @train(%%x = @x, %%y = @y, %%t = @t, %%g = @g, %%h = @h, %%w = @w, %%w2 = @w2, %%c = @c, "
    "%%q = @q, %%mg = @m.g, %%vg = @v.g, %%seed = @seed, %%lr = @lr, %%step = @step) {\n"
    "%s"
    "}\n";

static bool open_program(program_t *program, const char *body) {
  ptc_str_t text = {0};
  ptc_str_printf(&text, program_text, body);
  program_parse(program, text.data);
  ptc_str_deinit(&text);
  return program->module != NULL;
}

static const char *const kind_names[] = {
    [PTC_KERNEL_NEST] = "nest",
    [PTC_KERNEL_GEMM] = "gemm",
    [PTC_KERNEL_ATTENTION] = "attention",
    [PTC_KERNEL_ATTENTION_GRAD] = "attention_grad",
    [PTC_KERNEL_SCAN] = "scan",
    [PTC_KERNEL_TOPK] = "topk",
    [PTC_KERNEL_DISPATCH_SLOT] = "slot",
    [PTC_KERNEL_SCATTER_ADD] = "scatter",
    [PTC_KERNEL_WINDOW_ADD] = "window_add",
    [PTC_KERNEL_SQUARE_SUM] = "square_sum",
    [PTC_KERNEL_LIMBS_VALUE] = "limbs_value",
};

// "nest layernorm, mul; gemm einsum, add" for the kernels of |block| in order; regions in parentheses.
static void list_kernels(ptc_diag_t *diag, ptc_block_t *block, ptc_arena_t *arena, ptc_str_t *out) {
  for (ptc_op_t *op = block->first; op; op = op->next) {
    if (op->body) {
      ptc_str_append(out, out->len ? "; (" : "(");
      ptc_str_t inner = {0};
      list_kernels(diag, op->body, arena, &inner);
      ptc_str_printf(out, "%s)", inner.len ? inner.data : "");
      ptc_str_deinit(&inner);
    }
    if (!ptc_op_attr(op, "kernel")) continue;
    ptc_op_t *ops[KERNEL_GROUP_OPS];
    const int32_t count = kernel_group(op, ops);
    ptc_built_kernel_t built;
    if (ptc_build_kernel(diag, arena, "k", ops, count, &built) != PTC_OK) return;
    ptc_str_printf(out, "%s%s %s", out->len ? "; " : "", kind_names[built.kernel->kind],
                   built.kernel->about);
    op = ops[count - 1];
  }
}

typedef struct group_row_s {
  const char *name, *body, *kernels;
} group_row_t;

static const group_row_t group_rows[] = {
    {"a chain",
     "  %0 = mul %x, %y\n  %1 = add %0, %x\n  %2 = tanh %1\n  return output \"r\" = %2\n",
     "nest mul, add, tanh"},
    {"a value used twice is stored once",
     "  %0 = mul %x, %y\n  %1 = tanh %0\n  %2 = neg %0\n"
     "  return output \"r\" = %1, output \"s\" = %2, output \"t\" = %0\n",
     "nest mul, tanh, neg"},
    {"what shares a number alone is not walked across",
     "  %0 = sqrt %lr\n  %1 = mul %w, %0\n  %2 = mul %w2, %0\n"
     "  return output \"r\" = %1, output \"s\" = %2, output \"t\" = %0\n",
     "nest sqrt, mul; nest mul"},
    {"siblings that share a large operand",
     "  %0 = tanh %x\n  %1 = neg %x\n  return output \"r\" = %0, output \"s\" = %1\n",
     "nest tanh, neg"},
    {"siblings that share a small one stay apart",
     "  %0 = tanh %g\n  %1 = neg %g\n  return output \"r\" = %0, output \"s\" = %1\n",
     "nest tanh; nest neg"},
    {"residual, norm, scale, shift",
     "  %0 = add %x, %y\n"
     "  %1, %2, %3 = layernorm %0 {eps = 1e-05, over = [d]}\n"
     "  %4 = mul %1, %g\n  %5 = add %4, %h\n"
     "  return output \"r\" = %0, output \"s\" = %5\n",
     "nest add, layernorm, mul, add"},
    {"GEMM with bias and gelu, both stored",
     "  %0 = einsum %x, %w {over = [d]}\n  %1 = add %0, %c\n  %2 = gelu %1\n"
     "  return output \"u\" = %1, output \"a\" = %2\n",
     "gemm einsum, add, gelu"},
    {"GEMM with residual and dropout",
     "  %0 = einsum %x, %w {over = [d]}\n  %1 = einsum %0, %w2 {over = [f]}\n"
     "  %2 = dropout %1, %seed, %step {p = 0.5, path = \"a\"}\n  %3 = add %x, %2\n"
     "  return output \"r\" = %3\n",
     "gemm einsum; gemm einsum, dropout, add"},
    {"a cheap operand of a GEMM",
     "  %0 = constant {value = 2} : f32[]\n  %1 = mul %x, %0\n  %2 = einsum %1, %w {over = [d]}\n"
     "  return output \"r\" = %2\n",
     "gemm mul, einsum"},
    {"an expensive operand of a GEMM",
     "  %1 = tanh %x\n  %2 = einsum %1, %w {over = [d]}\n  return output \"r\" = %2\n",
     "nest tanh; gemm einsum"},
    {"an operand of a GEMM that others use",
     "  %1 = neg %x\n  %2 = einsum %1, %w {over = [d]}\n"
     "  return output \"r\" = %2, output \"s\" = %1\n",
     "nest neg; gemm einsum"},
    {"what a GEMM makes for a norm stays there",
     "  %0 = einsum %x, %w {over = [d]}\n  %1 = einsum %0, %w2 {over = [f]}\n"
     "  %2 = mul %1, %g\n  %3 = reduce_sum %1 {over = [b, s]}\n  %4 = softmax %2 {over = [d]}\n"
     "  return output \"r\" = %3, output \"s\" = %4\n",
     "gemm einsum; gemm einsum; nest mul, reduce_sum, softmax"},
    {"the gradient of a norm takes a later cast of its operand",
     "  %0 = cast %x {to = \"bf16\"}\n  %1 = cast %0 {to = \"f32\"}\n"
     "  %n, %rstd = rmsnorm %1 {eps = 1e-05, over = [d]}\n"
     "  %2 = einsum %y, %n {over = [b, s]}\n  %3 = cast %0 {to = \"f32\"} remat\n"
     "  %4 = rmsnorm_grad %3, %rstd, %y {over = [d]}\n"
     "  return output \"r\" = %2, output \"s\" = %4\n",
     "nest cast, cast, cast, rmsnorm, mul, einsum, cast, rmsnorm_grad"},
    {"the gradient of a norm and the sums over its columns",
     "  %n, %mean, %rstd = layernorm %x {eps = 1e-05, over = [d]}\n"
     "  %0 = sin %n\n"
     "  %1 = reduce_sum %y {over = [b, s]}\n"
     "  %2 = mul %y, %g\n"
     "  %3 = einsum %y, %n {over = [b, s]}\n"
     "  %4 = layernorm_grad %x, %mean, %rstd, %2 {over = [d]}\n"
     "  %5 = add %4, %y\n"
     "  return output \"o\" = %0, output \"p\" = %1, output \"q\" = %3, output \"r\" = %5\n",
     "nest layernorm, sin, reduce_sum, mul, sub, mul, einsum, layernorm_grad, add"},
    {"rows over different dims",
     "  %0 = softmax %x {over = [d]}\n  %1 = softmax %0 {over = [s]}\n"
     "  return output \"r\" = %1\n",
     "nest softmax; nest softmax"},
    {"what varies over columns after their sum",
     "  %0 = reduce_sum %x {over = [b, s]}\n  %1 = sub %x, %0\n  return output \"r\" = %1\n",
     "nest reduce_sum; nest sub"},
    {"a mean and its end",
     "  %0 = mul %x, %y\n  %1 = reduce_sum %0 {over = [b, s, d]}\n"
     "  %2 = constant {value = 2048} : f32[]\n  %3 = div %1, %2\n  return output \"r\" = %3\n",
     "nest mul, reduce_sum, div"},
    {"the loss of a step",
     "  %0, %1 = cross_entropy %x, %t {dim = d}\n  %2 = argmax %x {dim = d}\n  %3 = eq %2, %t\n"
     "  %4 = cast %3 {to = \"f32\"}\n  %5 = reduce_sum %4 {over = [b, s]}\n"
     "  %6 = reduce_sum %0 {over = [b, s]}\n"
     "  return output \"r\" = %5, output \"s\" = %6\n",
     "nest cross_entropy, argmax, eq, cast, reduce_sum, reduce_sum"},
    {"the gradient of logits takes their bytes: alone",
     "  %0, %1 = cross_entropy %x, %t {dim = d}\n"
     "  %2 = cross_entropy_grad %x, %t, %1, %0 {dim = d}\n  %3 = reduce_sum %2 {over = [b, s]}\n"
     "  return output \"r\" = %2, output \"s\" = %3\n",
     "nest cross_entropy; nest cross_entropy_grad; nest reduce_sum"},
    {"no waiting in a circle",
     "  %0 = tanh %x\n  %1 = cumsum %0 {dim = s}\n  %2 = mul %0, %1\n  return output \"r\" = %2\n",
     "nest tanh; scan cumsum; nest mul"},
    {"a mask is computed where it is used",
     "  %0 = rename %q {from = [s], to = [r]}\n  %1 = iota {dim = s} : i32[s=8]\n"
     "  %2 = iota {dim = r} : i32[r=8]\n  %3 = le %2, %1\n"
     "  %4, %5 = attention %q, %0, %0, %3 {attend = r, dot = k, mask = true, scale = 0.5}\n"
     "  return output \"r\" = %4\n",
     "attention attention"},
    {"scalars go together",
     "  %0 = cast %lr {to = \"f64\"}\n  %1 = cast %step {to = \"f64\"}\n  %2 = sqrt %0\n"
     "  %3 = sqrt %1\n  return output \"r\" = %2, output \"s\" = %3\n",
     "nest cast, cast, sqrt, sqrt"},
    {"the old state is read before",
     "  %f = constant {value = 0} : bool[]\n  %0 = sin %x\n"
     "  %1 = reduce_sum %0 {over = [b, s]}\n  %2 = mul %g, %h\n"
     "  %3, %4, %5 = adamw %g, %1, %mg, %vg, %lr, %lr, %lr, %lr, %lr, %step, %lr, %f\n"
     "  return output \"r\" = %2, state @g = %3, state @m.g = %4, state @v.g = %5\n",
     "nest mul; nest sin, reduce_sum, adamw"},
    {"cheap values of what is in memory are computed again",
     "  %0 = einsum %x, %w {over = [d]}\n  %1 = neg %x\n  %2 = cumsum %x {dim = s}\n"
     "  %3 = tanh %1\n  %4 = cumsum %3 {dim = s}\n  %5 = mul %1, %4\n  %6 = mul %5, %2\n"
     "  return output \"r\" = %0, output \"s\" = %6, output \"t\" = %x\n",
     "gemm einsum; scan cumsum; nest neg, tanh; scan cumsum; nest neg, mul, mul"},
    {"regions",
     "  %0 = repeat {count = 2} index %i carry(%a = %x) {\n    %1 = tanh %a\n    %2 = neg %1\n"
     "    yield carry(%2)\n  }\n  return output \"r\" = %0\n",
     "(nest tanh, neg)"},
};

static void check_group(const group_row_t *row, bool alone, ptc_str_t *out_kernels) {
  program_t program;
  ptc_arena_t arena;
  ptc_arena_init(&arena);
  UNIT_CHECK(open_program(&program, row->body), row->name);
  if (program.module) {
    ptc_pass_options_t options = {.check_semantics = true, .no_fusion = alone};
    ptc_pass_ctx_t ctx;
    ptc_pass_ctx_init(&ctx, &options);
    UNIT_CHECK(ptc_pass_run(&ctx, program.module, "fuse") == PTC_OK, row->name);
    UNIT_CHECK(kernel_groups_build(program.module, &arena, NULL) > 0, row->name);
    list_kernels(&program.diag, program.module->funcs->body, &arena, out_kernels);
    ptc_diag_print(&program.diag, stderr, PTC_DIAG_TEXT, false);
    ptc_pass_ctx_deinit(&ctx);
  }
  ptc_arena_deinit(&arena);
  program_deinit(&program);
}

static void test_groups(void) {
  for (size_t i = 0; i < sizeof(group_rows) / sizeof(*group_rows); i++) {
    const group_row_t *row = &group_rows[i];
    ptc_str_t kernels = {0};
    check_group(row, false, &kernels);
    const bool same = kernels.data && strcmp(kernels.data, row->kernels) == 0;
    UNIT_CHECK(same, row->name);
    if (!same) printf("\n%s:\n  is  %s\n  due %s\n", row->name, kernels.data, row->kernels);
    ptc_str_deinit(&kernels);
  }
}

// Without fusion there is a comma in no list of ops.
static void test_alone(void) {
  for (size_t i = 0; i < sizeof(group_rows) / sizeof(*group_rows); i++) {
    ptc_str_t kernels = {0};
    check_group(&group_rows[i], true, &kernels);
    UNIT_CHECK(kernels.data && !strchr(kernels.data, ','), group_rows[i].name);
    ptc_str_deinit(&kernels);
  }
}

static void test_text_form(void) {
  program_t program;
  CU_ASSERT_FATAL(open_program(&program, group_rows[4].body));
  CU_ASSERT_EQUAL(run_passes(program.module, "fuse", false), PTC_OK);
  ptc_str_t text = {0}, again_text = {0};
  ptc_module_print(program.module, true, &text);
  ptc_module_t *again;
  CU_ASSERT_EQUAL(ptc_module_parse(&program.diag, "again", text.data, text.len, &again), PTC_OK);
  if (again) ptc_module_print(again, true, &again_text);
  CU_ASSERT(again && strcmp(text.data, again_text.data) == 0);
  CU_ASSERT(strstr(text.data, "kernel = 0") != NULL);
  ptc_module_destroy(again);
  ptc_str_deinit(&text);
  ptc_str_deinit(&again_text);
  program_deinit(&program);
}

// --- kernels as text

typedef struct text_row_s {
  const char *name, *body, *text;
} text_row_t;

static const text_row_t text_rows[] = {
#include "tests/unit/fuse_text_rows.def"
};

static void test_kernel_text(void) {
  for (size_t i = 0; i < sizeof(text_rows) / sizeof(*text_rows); i++) {
    const text_row_t *row = &text_rows[i];
    program_t program;
    ptc_arena_t arena;
    ptc_arena_init(&arena);
    UNIT_CHECK(open_program(&program, row->body), row->name);
    ptc_str_t text = {0};
    UNIT_CHECK(run_passes(program.module, "fuse", false) == PTC_OK, row->name);
    UNIT_CHECK(kernel_groups_build(program.module, &arena, &text) > 0, row->name);
    const bool same = text.data && strcmp(text.data, row->text) == 0;
    UNIT_CHECK(same, row->name);
    if (!same) printf("\n%s:\n%s", row->name, text.data ? text.data : "");
    ptc_str_deinit(&text);
    ptc_arena_deinit(&arena);
    program_deinit(&program);
  }
}

// --- groups that nobody should make

static const group_row_t bad_rows[] = {
    {"rows over different dims",
     "  %0 = softmax %x {over = [d], kernel = 0}\n  %1 = softmax %0 {over = [s], kernel = 0}\n"
     "  return output \"r\" = %1\n",
     "rows over different dims"},
    {"dims of one name that differ",
     "  %0 = window %x {dim = s, terms = [s], coeffs = [1], extents = [4], offset = 0, kernel = "
     "0}\n"
     "  %1 = neg %x {kernel = 0}\n  return output \"r\" = %0, output \"s\" = %1\n",
     "two dims of one name differ"},
    {"a scan in the middle",
     "  %0 = tanh %x {kernel = 0}\n  %1 = cumsum %0 {dim = s, kernel = 0}\n"
     "  %2 = neg %1 {kernel = 0}\n  return output \"r\" = %2\n",
     "it cannot be part of another kernel"},
};

static void test_unsupported(void) {
  for (size_t i = 0; i < sizeof(bad_rows) / sizeof(*bad_rows); i++) {
    program_t program;
    ptc_arena_t arena;
    ptc_arena_init(&arena);
    UNIT_CHECK(open_program(&program, bad_rows[i].body), bad_rows[i].name);
    UNIT_CHECK(kernel_groups_build(program.module, &arena, NULL) == -1, bad_rows[i].name);
    UNIT_CHECK(program_has_error(&program, "kernel-unsupported"), bad_rows[i].name);
    UNIT_CHECK(program.diag.num_items == 1 &&
                   strstr(program.diag.items[0].message, bad_rows[i].kernels) != NULL,
               bad_rows[i].name);
    ptc_arena_deinit(&arena);
    program_deinit(&program);
  }
}

static const unit_test_t tests[] = {{"groups", test_groups},
                                    {"one kernel per op", test_alone},
                                    {"text form", test_text_form},
                                    {"kernels as text", test_kernel_text},
                                    {"unsupported groups", test_unsupported}};
UNIT_MAIN("fuse", tests)
