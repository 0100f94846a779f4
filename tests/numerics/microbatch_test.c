// Proves: a step in micro-batches computes what the whole batch computes, with one divisor; where
// it cannot, the op that mixes samples is named.
#include <math.h>

#include "ir/op.h"
#include "passes/check_semantics.h"
#include "tests/support/pass_runner.h"
#include "tests/support/small_models.h"
#include "tests/support/unit.h"

static void set_micro_batch(ptc_module_t *module, int64_t size) {
  ptc_attrs_set_int(module, &module->config, "micro_batch", size);
}

// Turns of the loop over the axis "micro" in |func|; 1 if there is none.
static int64_t num_micro(const ptc_func_t *func) {
  for (const ptc_op_t *op = func->body->first; op; op = op->next)
    if (op->opcode == PTC_OP_REPEAT && ptc_op_string(op, "axis")) return ptc_op_int(op, "count");
  return 1;
}

// No op outside of the loop has the batch among its dims, but for inputs' sums.
static bool varies(const ptc_value_t *value) {
  for (int32_t i = 0; i < value->type->num_dims; i++)
    if (value->type->dims[i].num_axes > 0) return true;
  return false;
}

static void see_sharded(ptc_op_t *op, void *arg) {
  if (op->opcode == PTC_OP_EINSUM && varies(op->operands[0])) ++*(int *)arg;
}

// Losses, metrics, outputs and every gradient.
static void test_samples(void) {
  static const struct {
    int64_t size;
    const char *precision;
  } splits[] = {{4, "f32"}, {3, "f32"}, {2, "f32"}, {1, "f32"}, {2, "bf16"}};
  for (int i = 0; i < num_small_models; i++)
    for (int k = 0; k < 5; k++) {
      const char *name = small_models[i].name;
      const ptc_override_t precision = {"train.precision", splits[k].precision};
      ptc_diag_t diag;
      ptc_diag_init(&diag);
      ptc_module_t *module = small_model_lower(&small_models[i], &precision, 1, &diag);
      UNIT_CHECK(module != NULL, name);
      if (!module) continue;
      ptc_module_derive_properties(module);
      set_micro_batch(module, splits[k].size);
      UNIT_CHECK(run_passes_unchecked(module, "precision autodiff canonicalize", false) == PTC_OK,
                 name);
      UNIT_CHECK(run_passes(module, "microbatch canonicalize", false) == PTC_OK, name);
      const ptc_func_t *train = ptc_module_find_func(module, "train");
      UNIT_CHECK(num_micro(train) == (3 + splits[k].size) / splits[k].size, name);
      int num_sharded = 0;
      ptc_block_walk(train->body, see_sharded, &num_sharded);
      UNIT_CHECK((num_sharded > 0) == (splits[k].size < 4), name);
      ptc_module_destroy(module);
      ptc_diag_deinit(&diag);
    }
}

// A model with its gradient written by hand.
static const char program_text[] =
    "module \"m\"\n"
    "config {micro_batch = 2}\n"
    "input @x : f32[b=4, d=3]\n"
    "input @y : f32[b=4, d=3]\n"
    "input @weight : f32[b=4]\n"
    "param @w : f32[d=3, e=5]\n"
    "param @v : f32[d=3]\n"
    "setting @seed : i64[] {value = 3}\n"
    "counter @step : i64[] {value = 0}\n"
    "func @train(%%x = @x, %%y = @y, %%weight = @weight, %%w = @w, %%v = @v, %%seed = @seed, "
    "%%step = @step) {\n"
    "%s"
    "}\n";

typedef struct row_s {
  const char *name, *body;
  bool fails;
  int num_whole;  // sums over b before the loop; -1: any
} row_t;

static const row_t rows[] = {
    {"weighted loss and its gradient",
     "  %h = einsum %x, %w {over = [d]}\n  %q = mul %h, %h\n  %l = mul %q, %weight\n"
     "  %s = reduce_sum %l {over = [b, e]}\n  %n = reduce_sum %weight {over = [b]}\n"
     "  %loss = div %s, %n\n  %two = constant {value = 2} : f32[]\n  %k = div %two, %n\n"
     "  %dh0 = mul %h, %weight\n  %dh = mul %dh0, %k\n"
     "  %dw = einsum %x, %dh {over = [b]}\n"
     "  return loss \"loss\" = %loss, metric \"n\" = %n, grad @w = %dw\n",
     false, 1},
    {"what follows a total",
     "  %h = einsum %x, %w {over = [d]}\n  %s = reduce_sum %h {over = [b, e]}\n"
     "  %p = exp %s\n  %t = mul %w, %p\n  return loss \"loss\" = %s, metric \"p\" = %p, "
     "output \"t\" = %t\n",
     false, 0},
    {"outputs, of inputs too",
     "  %h = einsum %x, %w {over = [d]}\n  %n = mul %x, %weight\n"
     "  return output \"h\" = %h, output \"n\" = %n, output \"x\" = %x\n",
     false, 0},
    {"random numbers of global elements",
     "  %h = einsum %x, %w {over = [d]}\n"
     "  %u = random %seed, %step {dist = \"uniform\", a = 0, b = 1, path = \"u\"} : f32[e=5, b=4]\n"
     "  %g = add %h, %u\n  %o = dropout %g, %seed, %step {p = 0.5, path = \"o\"}\n"
     "  return output \"o\" = %o\n",
     false, 0},
    {"the position in the batch",
     "  %i = iota {dim = b} : i32[b=4]\n  %f = cast %i {to = \"f32\"}\n  %h = mul %x, %f\n"
     "  %g = einsum %h, %w {over = [b, d]}\n  return output \"g\" = %g\n",
     false, 0},
    {"a broadcast over the batch",
     "  %c = broadcast %v {dims = [b, d], extents = [4, 3]}\n  %h = concat %x, %c {dim = d}\n"
     "  %s = reduce_sum %h {over = [b]}\n  return output \"s\" = %s\n",
     false, 0},
    {"data that needs the whole batch",
     "  %c = cumsum %x {dim = b}\n  %h = einsum %c, %w {over = [d]}\n"
     "  return output \"h\" = %h\n",
     false, 0},
    {"a statistic of the data",
     "  %m = reduce_max %x {over = [b]}\n  %c = sub %x, %m\n  %h = einsum %c, %w {over = [d]}\n"
     "  return output \"h\" = %h\n",
     false, 0},
    {"a sum over turns of sums over samples",
     "  %z = constant {value = 0.5} : f32[]\n"
     "  %h, %a = repeat {count = 3} index %i carry(%c = %x, %acc = %z) {\n"
     "    %0 = einsum %c, %w {over = [d]}\n    %1 = einsum %0, %w {over = [e]}\n"
     "    %2 = tanh %1\n    %3 = reduce_sum %2 {over = [b, d]}\n    %4 = add %acc, %3\n"
     "    yield carry(%2, %4)\n  }\n"
     "  %s = exp %a\n  return output \"h\" = %h, metric \"a\" = %a, metric \"s\" = %s\n",
     false, 0},
    {"a sum per turn",
     "  %h, %a = repeat {count = 3} index %i carry(%c = %x) {\n"
     "    %0 = tanh %c\n    %1 = einsum %0, %x {over = [b]}\n    yield carry(%0) collect(%1)\n"
     "  }\n"
     "  %z = broadcast %v {dims = [d], extents = [3]}\n"
     "  %r = repeat {count = 3} index %i carry(%c = %z) each(%t = %a) {\n"
     "    %2 = mul %t, %t\n    %3 = add %c, %2\n    yield carry(%3)\n  }\n"
     "  %g = mul %r, %v\n  return output \"r\" = %g, output \"h\" = %h\n",
     false, -1},
    {"a tensor that adds up over turns",
     "  %z = mul %w, %w\n"
     "  %h, %a = repeat {count = 2} index %i carry(%c = %x, %acc = %z) {\n"
     "    %0 = mul %c, %v\n    %1 = einsum %0, %y {over = [b, d]}\n"
     "    %2 = mul %w, %1\n    %3 = sub %acc, %2\n    yield carry(%0, %3)\n  }\n"
     "  return output \"a\" = %a, output \"h\" = %h\n",
     false, 0},
    {"softmax over samples",
     "  %h = einsum %x, %v {over = [d]}\n  %r = softmax %h {over = [b]}\n"
     "  return output \"r\" = %r\n",
     true, 0},
    {"maximum over samples",
     "  %h = einsum %x, %v {over = [d]}\n  %r = reduce_max %h {over = [b]}\n"
     "  return metric \"r\" = %r\n",
     true, 0},
    {"a mean in the loop",
     "  %h = einsum %x, %w {over = [d]}\n  %m = reduce_sum %h {over = [b]}\n  %r = sub %h, %m\n"
     "  return output \"r\" = %r\n",
     true, 0},
    {"a total in the loop, after a nonlinear op",
     "  %h = einsum %x, %w {over = [d]}\n  %m = reduce_sum %h {over = [b]}\n  %p = exp %m\n"
     "  %r = mul %x, %v\n  %q = einsum %r, %w {over = [d]}\n  %t = mul %q, %p\n"
     "  return output \"t\" = %t\n",
     true, 0},
    {"a nonlinear use within a region",
     "  %h = repeat {count = 3} index %i carry(%c = %v) {\n"
     "    %0 = einsum %x, %c {over = [d]}\n    %1 = einsum %0, %y {over = [b]}\n"
     "    %2 = tanh %1\n    yield carry(%2)\n  }\n  return output \"h\" = %h\n",
     true, 0},
    {"samples against samples",
     "  %h = mul %x, %v\n  %k = rename %h {from = [b], to = [c]}\n"
     "  %r = einsum %h, %k {over = [d]}\n  return output \"r\" = %r\n",
     true, 0},
};

static bool has_whole_batch(const ptc_op_t *op) {
  for (int32_t i = 0; i < op->num_operands; i++)
    for (int32_t d = 0; d < op->operands[i]->type->num_dims; d++) {
      const ptc_dim_t *dim = &op->operands[i]->type->dims[d];
      if (strcmp(dim->name, "b") == 0 && dim->num_axes == 0) return true;
    }
  return false;
}

static void see_whole_sum(ptc_op_t *op, void *arg) {
  if (op->opcode == PTC_OP_REDUCE_SUM && has_whole_batch(op)) ++*(int *)arg;
}

static void test_by_hand(void) {
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    const row_t *row = &rows[i];
    for (int64_t size = 1; size <= 2; size++) {
      char text[4096];
      snprintf(text, sizeof(text), program_text, row->body);
      program_t program;
      program_parse(&program, text);
      UNIT_CHECK(program.module != NULL, row->name);
      if (!program.module) continue;
      set_micro_batch(program.module, size);
      const ptc_status_t status = run_passes(program.module, "microbatch canonicalize", row->fails);
      UNIT_CHECK(status == (row->fails ? PTC_INVALID_INPUT : PTC_OK), row->name);
      UNIT_CHECK(program_has_error(&program, "microbatch-mixes-samples") == row->fails, row->name);
      if (!row->fails) {
        int num_whole = 0;
        ptc_block_walk(program.module->funcs->body, see_whole_sum, &num_whole);
        UNIT_CHECK(row->num_whole < 0 || num_whole == row->num_whole, row->name);
        UNIT_CHECK(num_micro(program.module->funcs) == 4 / size, row->name);
      }
      program_deinit(&program);
    }
  }
}

// Gradients in bf16 add up in f32: the sum of four is exact where bf16 would lose the small ones.
static void test_accumulators(void) {
  program_t program;
  program_parse(&program,
                "module \"m\"\nconfig {micro_batch = 1}\ninput @x : bf16[b=4, d=1]\n"
                "param @w : bf16[d=1]\nfunc @train(%x = @x, %w = @w) {\n"
                "  %0 = mul %x, %w\n  %1 = reduce_sum %0 {over = [b]} : bf16[d=1]\n"
                "  %2 = cast %1 {to = \"f32\"}\n  return output \"r\" = %2\n}\n");
  CU_ASSERT_PTR_NOT_NULL_FATAL(program.module);
  CU_ASSERT_EQUAL(run_passes(program.module, "microbatch canonicalize", false), PTC_OK);
  ptc_interp_t *interp = ptc_interp_create(program.module, PTC_INTERP_TYPED);
  static const double x[] = {256, 1, 1, 1};
  memcpy(global_data(interp, program.module, "x"), x, sizeof(x));
  global_data(interp, program.module, "w")[0] = 1;
  CU_ASSERT_EQUAL(ptc_interp_run(interp, "train"), PTC_OK);
  CU_ASSERT_EQUAL(ptc_interp_result(interp, 0)->data[0], 259);
  ptc_interp_destroy(interp);
  program_deinit(&program);
}

static void test_errors(void) {
  static const int64_t sizes[] = {0, -1};
  for (int i = 0; i < 2; i++) {
    char text[4096];
    snprintf(text, sizeof(text), program_text, rows[0].body);
    program_t program;
    program_parse(&program, text);
    CU_ASSERT_PTR_NOT_NULL_FATAL(program.module);
    set_micro_batch(program.module, sizes[i]);
    CU_ASSERT_EQUAL(run_passes_unchecked(program.module, "microbatch", true), PTC_INVALID_INPUT);
    CU_ASSERT(program_has_error(&program, "microbatch-divides"));
    program_deinit(&program);
  }
}

static const unit_test_t tests[] = {
    {"samples", test_samples},
    {"by hand", test_by_hand},
    {"accumulators are wide", test_accumulators},
    {"errors", test_errors},
};
UNIT_MAIN("microbatch", tests)
