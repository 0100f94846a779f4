// Proves: what autodiff does beside the formulas: which parameters get gradients, the seed, dtypes
// of sums, what is saved for the backward pass, ties, and every diagnostic.
#include <string.h>

#include "ir/op.h"
#include "tests/support/pass_runner.h"
#include "tests/support/unit.h"

static ptc_func_t *train_of(const program_t *program) {
  return ptc_module_find_func(program->module, "train");
}

// The gradient by the parameter at |path|, or NULL.
static const ptc_value_t *grad_of(const program_t *program, const char *path) {
  const ptc_func_t *func = train_of(program);
  for (int32_t i = 0; i < func->num_results; i++)
    if (func->results[i].kind == PTC_RESULT_GRAD &&
        strcmp(func->results[i].global->path, path) == 0)
      return ptc_func_return(func)->operands[i];
  return NULL;
}

static void differentiate(program_t *program, const char *text) {
  program_parse(program, text);
  CU_ASSERT_PTR_NOT_NULL_FATAL(program->module);
  CU_ASSERT_EQUAL_FATAL(run_passes_unchecked(program->module, "infer-shapes autodiff", false),
                        PTC_OK);
}

// --- diagnostics

static const struct {
  const char *id, *text;
} error_rows[] = {
    {"no-loss",
     "module \"m\"\nparam @w : f32[]\nfunc @train(%w = @w) {\n  return metric \"a\" = %w\n}\n"},
    {"already-differentiated",
     "module \"m\"\nparam @w : f32[]\nfunc @train(%w = @w) {\n"
     "  return loss \"a\" = %w, grad @w = %w\n}\n"},
    // the result of an op that is itself part of a gradient
    {"no-gradient",
     "module \"m\"\nparam @w : f32[]\nfunc @train(%w = @w) {\n  %0 = tanh_grad %w, %w\n"
     "  return loss \"a\" = %0\n}\n"},
    // the same in a region
    {"no-gradient",
     "module \"m\"\nparam @w : f32[]\nfunc @train(%w = @w) {\n"
     "  %0 = repeat {count = 2} index %i carry(%c = %w) {\n    %1 = silu_grad %c, %c\n"
     "    yield carry(%1)\n  }\n  return loss \"a\" = %0\n}\n"},
    // positions of a rotation
    {"no-gradient",
     "module \"m\"\ninput @x : f32[s=2, k=4]\nparam @p : f32[s=2]\nfunc @train(%x = @x, %p = @p) "
     "{\n"
     "  %0 = rope %x, %p {base = 100.0, dim = k, dims = 4, style = \"half\"}\n"
     "  %1 = reduce_sum %0 {over = [s, k]}\n  return loss \"a\" = %1\n}\n"},
    // the log-sum-exp of attention
    {"no-gradient",
     "module \"m\"\ninput @x : f32[t=3, k=4]\nparam @q : f32[s=2, k=4]\n"
     "func @train(%x = @x, %q = @q) {\n"
     "  %o, %l = attention %q, %x, %x {attend = t, dot = k, scale = 1.0}\n"
     "  %1 = reduce_sum %l {over = [s]}\n  return loss \"a\" = %1\n}\n"},
    // a region over a mesh axis
    {"no-gradient",
     "module \"m\"\nmesh [\"micro\"=2]\nparam @w : f32[]\nfunc @train(%w = @w) {\n"
     "  %0 = repeat {axis = \"micro\", count = 2} index %i carry(%c = %w) {\n    %1 = sin %c\n"
     "    yield carry(%1)\n  }\n  return loss \"a\" = %0\n}\n"},
};

static void errors(void) {
  for (size_t i = 0; i < sizeof(error_rows) / sizeof(error_rows[0]); i++) {
    program_t program;
    program_parse(&program, error_rows[i].text);
    UNIT_CHECK(program.module != NULL, error_rows[i].text);
    if (program.module) {
      const ptc_status_t status =
          run_passes_unchecked(program.module, "infer-shapes autodiff", true);
      UNIT_CHECK(status == PTC_INVALID_INPUT, error_rows[i].text);
      UNIT_CHECK(program_has_error(&program, error_rows[i].id), error_rows[i].text);
      UNIT_CHECK(program.diag.num_errors == 1, error_rows[i].text);
    }
    program_deinit(&program);
  }
}

// --- parameters

static void unused_and_frozen(void) {
  program_t program;
  differentiate(&program,
                "module \"m\"\nparam @w : f32[a=2]\nparam @idle : f32[a=3]\n"
                "param @\"idle.*\" turns (0:1) : 2 x f32[a=3]\nparam @cut : f32[a=2]\n"
                "param @ice : f32[a=2] {frozen = true}\n"
                "func @train(%w = @w, %cut = @cut, %ice = @ice) {\n  %0 = floor %cut\n"
                "  %1 = mul %w, %ice\n  %2 = add %0, %1\n  %3 = reduce_sum %2 {over = [a]}\n"
                "  return loss \"a\" = %3\n}\n");
  CU_ASSERT_PTR_NOT_NULL(grad_of(&program, "w"));
  CU_ASSERT_PTR_NULL(grad_of(&program, "ice"));
  static const char *const unused[] = {"idle", "idle.*", "cut"};
  CU_ASSERT_EQUAL(program.diag.num_items, 3);
  for (int i = 0; i < 3 && i < program.diag.num_items; i++) {
    UNIT_CHECK(grad_of(&program, unused[i]) != NULL, unused[i]);
    UNIT_CHECK(program.diag.items[i].severity == PTC_WARNING, unused[i]);
    UNIT_CHECK(strcmp(program.diag.items[i].id, "unused-parameter") == 0, unused[i]);
    UNIT_CHECK(strstr(program.diag.items[i].message, unused[i]) != NULL, unused[i]);
  }
  ptc_interp_t *interp = ptc_interp_create(program.module, PTC_INTERP_EXACT);
  CU_ASSERT_EQUAL(ptc_interp_run(interp, "train"), PTC_OK);
  const ptc_tensor_t *zeros = result_of(interp, train_of(&program), PTC_RESULT_GRAD, "idle.*");
  CU_ASSERT_PTR_NOT_NULL_FATAL(zeros);
  CU_ASSERT_EQUAL(zeros->num_instances * zeros->num_elements, 6);
  for (int i = 0; i < 6; i++) CU_ASSERT_EQUAL(zeros->data[i], 0);
  ptc_interp_destroy(interp);
  program_deinit(&program);
}

// Two losses: their gradients add up; each is multiplied by the loss scale.
static void losses_and_scale(void) {
  program_t program;
  differentiate(&program,
                "module \"m\"\nparam @w : f32[]\ncounter @loss_scale : f32[] {value = 8}\n"
                "func @train(%w = @w) {\n  %0 = mul %w, %w\n  %1 = cast %w {to = \"f16\"}\n"
                "  return loss \"a\" = %0, metric \"m\" = %w, loss \"b\" = %1\n}\n");
  ptc_interp_t *interp = ptc_interp_create(program.module, PTC_INTERP_TYPED);
  *global_data(interp, program.module, "w") = 3;
  *global_data(interp, program.module, "loss_scale") = 8;
  CU_ASSERT_EQUAL(ptc_interp_run(interp, "train"), PTC_OK);
  const ptc_tensor_t *grad = result_of(interp, train_of(&program), PTC_RESULT_GRAD, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(grad);
  CU_ASSERT_EQUAL(grad->data[0], 8 * (2 * 3 + 1));
  ptc_interp_destroy(interp);
  program_deinit(&program);
}

// Uses of a parameter through one cast are added up in f32: 1 + 2^-9 is no bf16.
static void sums_in_parameter_dtype(void) {
  program_t program;
  differentiate(&program,
                "module \"m\"\nparam @w : f32[]\nfunc @train(%w = @w) {\n"
                "  %0 = cast %w {to = \"bf16\"}\n  %1 = constant {value = 0.001953125} : bf16[]\n"
                "  %2 = mul %0, %1\n  %3 = add %2, %0\n  return loss \"a\" = %3\n}\n");
  ptc_interp_t *interp = ptc_interp_create(program.module, PTC_INTERP_TYPED);
  CU_ASSERT_EQUAL(ptc_interp_run(interp, "train"), PTC_OK);
  const ptc_tensor_t *grad = result_of(interp, train_of(&program), PTC_RESULT_GRAD, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(grad);
  CU_ASSERT_EQUAL(grad->type->dtype, PTC_F32);
  CU_ASSERT_EQUAL(grad->data[0], 1.001953125);
  ptc_interp_destroy(interp);
  program_deinit(&program);
}

// --- ties

static const struct {
  const char *name, *body;
  double grad[3];
} tie_rows[] = {
    {"maximum", "%y = max %w, %x", {0.5, 0, 1}},
    {"minimum", "%y = min %w, %x", {0.5, 1, 0}},
    {"reduce_max", "%z = min %w, %x\n  %y = reduce_max %z {over = [a]}", {0.25, 0, 0}},
    {"abs", "%y = abs %v", {0, 0, 0}},
    {"relu", "%y = relu %v", {0, 0, 0}},
    {"cummax", "%y = cummax %v {dim = a}", {3, 0, 0}},
    {"topk", "%y, %i = topk %v {dim = a, extent = 1, into = k}", {1, 0, 0}},
};

// w = (1, 0, 2), x = (1, 1, 1); where a row uses v = w * x, w is 0.
static void ties(void) {
  for (size_t i = 0; i < sizeof(tie_rows) / sizeof(tie_rows[0]); i++) {
    char text[1024];
    const bool vector = strstr(tie_rows[i].body, "%v") != NULL;
    snprintf(text, sizeof(text),
             "module \"m\"\nparam @w : f32[a=3]\ninput @x : f32[a=3]\n"
             "func @train(%%w = @w, %%x = @x) {\n  %%v = mul %%w, %%x\n  %s\n"
             "  %%s = reduce_sum %%y {over = [%s]}\n  return loss \"a\" = %%s\n}\n",
             tie_rows[i].body,
             strstr(tie_rows[i].body, "reduce_max") ? ""
             : strstr(tie_rows[i].body, "topk")     ? "k"
                                                    : "a");
    program_t program;
    differentiate(&program, text);
    ptc_interp_t *interp = ptc_interp_create(program.module, PTC_INTERP_EXACT);
    static const double w[] = {1, 0, 2};
    for (int k = 0; k < 3; k++) {
      global_data(interp, program.module, "w")[k] = vector ? 0 : w[k];
      global_data(interp, program.module, "x")[k] = 1;
    }
    UNIT_CHECK(ptc_interp_run(interp, "train") == PTC_OK, tie_rows[i].name);
    const ptc_tensor_t *grad = result_of(interp, train_of(&program), PTC_RESULT_GRAD, "w");
    for (int k = 0; grad && k < 3; k++)
      UNIT_CHECK(grad->data[k] == tie_rows[i].grad[k], tie_rows[i].name);
    UNIT_CHECK(grad != NULL, tie_rows[i].name);
    ptc_interp_destroy(interp);
    program_deinit(&program);
  }
}

// A base of zero or below, with a whole exponent, gives no NaN.
static void powers(void) {
  static const struct {
    const char *name;
    double exponent, base, grad;
  } rows[] = {{"x^0", 0, 0, 0},      {"x^1", 1, 0, 1},   {"x^2", 2, -3, -6},
              {"x^2 at 0", 2, 0, 0}, {"x^3", 3, -2, 12}, {"x^-1", -1, -2, -0.25}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    char text[512];
    snprintf(text, sizeof(text),
             "module \"m\"\nparam @w : f32[]\nfunc @train(%%w = @w) {\n"
             "  %%c = constant {value = %.1f} : f32[]\n  %%y = pow %%w, %%c\n"
             "  return loss \"a\" = %%y\n}\n",
             rows[i].exponent);
    program_t program;
    differentiate(&program, text);
    ptc_interp_t *interp = ptc_interp_create(program.module, PTC_INTERP_EXACT);
    *global_data(interp, program.module, "w") = rows[i].base;
    UNIT_CHECK(ptc_interp_run(interp, "train") == PTC_OK, rows[i].name);
    const ptc_tensor_t *grad = result_of(interp, train_of(&program), PTC_RESULT_GRAD, "w");
    UNIT_CHECK(grad && grad->data[0] == rows[i].grad, rows[i].name);
    ptc_interp_destroy(interp);
    program_deinit(&program);
  }
}

// --- regions

static const char *const region_text =
    "module \"m\"\nparam @x : bf16[a=4, b=3]\nparam @\"w.*\" turns (0:1) : %d x bf16[b=3]\n"
    "func @train(%%x = @x, %%w = @\"w.*\" (0:1)) {\n"
    "  %%y = repeat {count = %d} index %%i carry(%%c = %%x) each(%%wi = %%w) {\n"
    "    %%0 = iota {dim = a} : i32[a=4]\n    %%mask = lt %%0, %%i\n"
    "    %%wide = cast %%c {to = \"f32\"}\n    %%sin = sin %%wide\n"
    "    %%narrow = cast %%sin {to = \"bf16\"}\n    %%s = mul %%narrow, %%wi\n"
    "    %%t = rename %%s {from = [a], to = [z]}\n    %%u = rename %%t {from = [z], to = [a]}\n"
    "    %%n = where %%mask, %%u, %%c\n    yield carry(%%n)\n  }\n"
    "  %%z = reduce_sum %%y {over = [a, b]}\n  return loss \"a\" = %%z\n}\n";

// Of the region the carried value and the sine are saved, each in its own dtype; masks, turns,
// parameters, views and widening casts are not. The code does not grow with the number of turns.
static void saved_values(void) {
  static const int turns[] = {3, 96};
  int64_t num_ops[2];
  for (int i = 0; i < 2; i++) {
    char text[2048];
    snprintf(text, sizeof(text), region_text, turns[i], turns[i]);
    program_t program;
    differentiate(&program, text);
    num_ops[i] = ptc_module_num_ops(program.module);
    const ptc_op_t *forward = train_of(&program)->body->first;
    while (forward->opcode != PTC_OP_REPEAT) forward = forward->next;
    CU_ASSERT_EQUAL_FATAL(forward->num_results, 3);
    CU_ASSERT_EQUAL(forward->results[1]->type->dtype, PTC_BF16);
    CU_ASSERT_EQUAL(forward->results[2]->type->dtype, PTC_BF16);
    const ptc_op_t *backward = forward->next;
    while (backward->opcode != PTC_OP_REPEAT) backward = backward->next;
    CU_ASSERT(ptc_op_bool(backward, "reverse"));
    CU_ASSERT_EQUAL(backward->num_carry, 1);
    CU_ASSERT_EQUAL(backward->num_each, 3);
    CU_ASSERT_EQUAL(backward->num_results, 2);
    program_deinit(&program);
  }
  CU_ASSERT_EQUAL(num_ops[0], num_ops[1]);
}

static const unit_test_t tests[] = {
    {"errors", errors},
    {"unused and frozen parameters", unused_and_frozen},
    {"losses and loss scale", losses_and_scale},
    {"sums in the parameter's dtype", sums_in_parameter_dtype},
    {"ties", ties},
    {"powers", powers},
    {"saved values", saved_values},
};
UNIT_MAIN("autodiff", tests)
