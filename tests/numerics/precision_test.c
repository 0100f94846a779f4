// Proves: precision changes no result in exact mode, casts each parameter once, and leaves in f32
// what must be: statistics, losses, routers, what the model itself puts there.
#include <math.h>

#include "ir/op.h"
#include "passes/check_semantics.h"
#include "tests/support/pass_runner.h"
#include "tests/support/small_models.h"
#include "tests/support/unit.h"

typedef struct facts_s {
  const char *model;
  ptc_dtype_t compute;
  int num_low, num_contractions;
} facts_t;

static void see_op(ptc_op_t *op, void *arg) {
  facts_t *facts = arg;
  switch (op->opcode) {
    case PTC_OP_EINSUM:
    case PTC_OP_ATTENTION:
      facts->num_contractions++;
      facts->num_low += op->operands[0]->type->dtype == facts->compute;
      UNIT_CHECK(op->results[0]->type->dtype == op->operands[0]->type->dtype, facts->model);
      break;
    case PTC_OP_LAYERNORM:
    case PTC_OP_RMSNORM:
    case PTC_OP_SOFTMAX:
    case PTC_OP_CROSS_ENTROPY:
    case PTC_OP_EXP:
    case PTC_OP_LOG:
    case PTC_OP_TOPK:
      for (int32_t i = 0; i < op->num_results; i++)
        UNIT_CHECK(op->results[i]->type->dtype != facts->compute, facts->model);
      break;
    default: break;
  }
}

typedef struct casts_s {
  const ptc_value_t *of;
  int count;
} casts_t;

static void see_cast(ptc_op_t *op, void *arg) {
  casts_t *casts = arg;
  if (op->opcode != PTC_OP_CAST) return;
  const ptc_value_t *x = op->operands[0];
  for (;;) {
    if (x->def && ptc_op_has_trait(x->def, PTC_TRAIT_VIEW))
      x = x->def->operands[0];
    else if (!x->def && x->block->parent_op && x->index > 0)
      x = x->block->parent_op->operands[x->index - 1];
    else
      break;
  }
  casts->count += x == casts->of;
}

// The einsum of a router is the last one before topk.
static void see_router(ptc_op_t *op, void *arg) {
  if (op->opcode != PTC_OP_TOPK) return;
  const ptc_op_t *def = op->operands[0]->def;
  while (def && def->opcode != PTC_OP_EINSUM && def->num_operands > 0) def = def->operands[0]->def;
  if (!def || def->opcode != PTC_OP_EINSUM) return;
  ++*(int *)arg;
  CU_ASSERT_EQUAL(def->operands[0]->type->dtype, PTC_F32);
  CU_ASSERT_EQUAL(def->operands[1]->type->dtype, PTC_F32);
}

static void test_samples(void) {
  static const char *const precisions[] = {"f32", "bf16", "f16"};
  int num_routers = 0;
  for (int i = 0; i < num_small_models; i++)
    for (int k = 0; k < 3; k++) {
      const char *name = small_models[i].name;
      const ptc_override_t precision = {"train.precision", precisions[k]};
      ptc_diag_t diag;
      ptc_diag_init(&diag);
      ptc_module_t *module = small_model_lower(&small_models[i], &precision, 1, &diag);
      UNIT_CHECK(module != NULL, name);
      if (!module) continue;
      ptc_module_derive_properties(module);
      UNIT_CHECK(run_passes(module, "canonicalize precision canonicalize", false) == PTC_OK, name);
      UNIT_CHECK((ptc_module_find_global(module, "loss_scale") != NULL) == (k == 2), name);
      const ptc_func_t *train = ptc_module_find_func(module, "train");
      facts_t facts = {.model = name};
      (void)ptc_dtype_parse(precisions[k], &facts.compute);
      if (k > 0) ptc_block_walk(train->body, see_op, &facts);
      UNIT_CHECK(k == 0 || facts.num_low > facts.num_contractions / 2, name);
      for (int32_t a = 0; a < train->body->num_args; a++) {
        casts_t casts = {train->body->args[a], 0};
        if (train->arg_globals[a]->kind != PTC_GLOBAL_PARAM) continue;
        ptc_block_walk(train->body, see_cast, &casts);
        UNIT_CHECK(casts.count <= 1, name);
        UNIT_CHECK(k > 0 || casts.count == 0, name);
      }
      const ptc_op_t *ret = ptc_func_return(train);
      for (int32_t r = 0; r < train->num_results; r++)
        UNIT_CHECK(ret->operands[r]->type->dtype == PTC_F32, name);
      if (k > 0) ptc_block_walk(train->body, see_router, &num_routers);
      ptc_module_destroy(module);
      ptc_diag_deinit(&diag);
    }
  CU_ASSERT(num_routers >= 4);  // of Mixtral and DeepSeek-V2
}

// Typed mode really rounds: the loss in bf16 is near that in f32, and not the same.
static void test_typed_loss(void) {
  double loss[2] = {0, 0};
  for (int k = 0; k < 2; k++) {
    const ptc_override_t precision = {"train.precision", k ? "bf16" : "f32"};
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_module_t *module = small_model_lower(&small_models[0], &precision, 1, &diag);
    CU_ASSERT_PTR_NOT_NULL_FATAL(module);
    ptc_module_derive_properties(module);
    CU_ASSERT_EQUAL(run_passes(module, "precision canonicalize", false), PTC_OK);
    ptc_interp_t *interp = ptc_interp_create(module, PTC_INTERP_TYPED);
    ptc_semantics_fill(interp, module, 3);
    CU_ASSERT_EQUAL(ptc_interp_run(interp, "train"), PTC_OK);
    loss[k] = result_value(interp, ptc_module_find_func(module, "train"), "loss")->data[0];
    ptc_interp_destroy(interp);
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
  CU_ASSERT_DOUBLE_EQUAL(loss[0], loss[1], 0.02 * fabs(loss[0]));
  CU_ASSERT_NOT_EQUAL(loss[0], loss[1]);
}

// dtype of the (one) op with that opcode.
static ptc_dtype_t dtype_of(const ptc_module_t *module, ptc_opcode_t opcode) {
  for (const ptc_op_t *op = module->funcs->body->first; op; op = op->next)
    if (op->opcode == opcode) return op->results[0]->type->dtype;
  return PTC_BOOL;
}

static void test_by_hand(void) {
  static const struct {
    const char *name, *body, *param_attrs;
    ptc_opcode_t opcode;
    ptc_dtype_t dtype;
  } rows[] = {
      {"contraction", "  %y = einsum %x, %w {over = [d]}\n  %r = tanh %y\n", "", PTC_OP_TANH,
       PTC_BF16},
      {"f32(x) holds for what follows",
       "  %0 = cast %x {to = \"f32\"}\n  %1 = tanh %0\n"
       "  %r = einsum %1, %w {over = [d]}\n",
       "", PTC_OP_TANH, PTC_F32},
      {"and for a contraction",
       "  %0 = cast %x {to = \"f32\"}\n"
       "  %r = einsum %0, %w {over = [d]}\n",
       "", PTC_OP_EINSUM, PTC_F32},
      {"a parameter in f32", "  %r = einsum %x, %w {over = [d]}\n", " {precision = \"f32\"}",
       PTC_OP_EINSUM, PTC_F32},
      {"a norm's scale",
       "  %0, %1 = rmsnorm %x {over = [d], eps = 0.001}\n  %2 = reduce_max %w {over = [e]}\n"
       "  %3 = sub %0, %2\n  %r = einsum %3, %w {over = [d]}\n",
       "", PTC_OP_SUB, PTC_F32},
      {"a sum of both kinds",
       "  %0, %1 = rmsnorm %x {over = [d], eps = 0.001}\n  %2 = einsum %x, %w {over = [d]}\n"
       "  %3 = rename %0 {from = [d], to = [e]}\n  %4 = sub %2, %3\n"
       "  %r = einsum %4, %w {over = [e]}\n",
       "", PTC_OP_SUB, PTC_BF16},
      {"a loss",
       "  %0 = einsum %x, %w {over = [d]}\n  %1 = sub %0, %0\n  %2 = mul %1, %1\n"
       "  %l = reduce_sum %2 {over = [b, e]}\n  %r = sin %0\n",
       "", PTC_OP_MUL, PTC_F32},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    char text[2048];
    const bool loss = strstr(rows[i].body, "%l") != NULL;
    snprintf(text, sizeof(text),
             "module \"m\"\nconfig {precision = \"bf16\"}\ninput @x : f32[b=2, d=3]\n"
             "param @w : f32[d=3, e=3]%s\nfunc @train(%%x = @x, %%w = @w) {\n%s"
             "  return %soutput \"r\" = %%r\n}\n",
             rows[i].param_attrs, rows[i].body, loss ? "loss \"l\" = %l, " : "");
    program_t program;
    program_parse(&program, text);
    UNIT_CHECK(program.module != NULL, rows[i].name);
    if (!program.module) continue;
    UNIT_CHECK(run_passes(program.module, "canonicalize precision canonicalize", false) == PTC_OK,
               rows[i].name);
    UNIT_CHECK(dtype_of(program.module, rows[i].opcode) == rows[i].dtype, rows[i].name);
    program_deinit(&program);
  }
}

static void test_errors(void) {
  program_t program;
  program_parse(&program, "module \"m\"\nconfig {precision = \"f8\"}\n");
  CU_ASSERT_PTR_NOT_NULL_FATAL(program.module);
  CU_ASSERT_EQUAL(run_passes_unchecked(program.module, "precision", true), PTC_INVALID_INPUT);
  CU_ASSERT(program_has_error(&program, "precision-kind"));
  program_deinit(&program);
  program_parse(&program,
                "module \"m\"\nconfig {precision = \"bf16\"}\nparam @w : f32[d=3]\n"
                "func @train(%w = @w) {\n  return grad @w = %w\n}\n");
  CU_ASSERT_PTR_NOT_NULL_FATAL(program.module);
  CU_ASSERT_EQUAL(run_passes_unchecked(program.module, "precision", true), PTC_INVALID_INPUT);
  CU_ASSERT(program_has_error(&program, "pass-order"));
  program_deinit(&program);
}

static const unit_test_t tests[] = {
    {"samples", test_samples},
    {"typed loss", test_typed_loss},
    {"by hand", test_by_hand},
    {"errors", test_errors},
};
UNIT_MAIN("precision", tests)
