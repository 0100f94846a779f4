// Proves: the pass manager checks contracts, prints and stops where it is told, and notices a pass
// that changes what a module computes.
#include <stdlib.h>

#include "passes/check_semantics.h"
#include "tests/support/pass_runner.h"
#include "tests/support/unit.h"

static const char program_text[] =
    "module \"m\"\nparam @w : f32[d=3]\ninput @x : f32[d=3]\n"
    "func @train(%w = @w, %x = @x) {\n"
    "  %0 = constant {value = 1} : f32[]\n  %1 = mul %w, %0\n  %2 = mul %1, %x\n"
    "  %l = reduce_sum %2 {over = [d]}\n  return loss \"loss\" = %l\n}\n";

static void test_table(void) {
  int num = 0;
  for (const ptc_pass_info_t *pass; (pass = ptc_pass_at(num)); num++) {
    UNIT_CHECK(ptc_pass_find(pass->name) == pass, pass->name);
    UNIT_CHECK(strlen(pass->summary) > 10, pass->name);
    UNIT_CHECK((pass->establishes & pass->destroys) == 0, pass->name);
  }
  CU_ASSERT(num >= 8);
  CU_ASSERT_PTR_NULL(ptc_pass_at(-1));
  CU_ASSERT_PTR_NULL(ptc_pass_find("no-such"));
}

static void test_contracts(void) {
  program_t program;
  program_parse(&program, program_text);
  CU_ASSERT_PTR_NOT_NULL_FATAL(program.module);
  CU_ASSERT_EQUAL(run_passes(program.module, "optimizer", true), PTC_INVALID_INPUT);
  CU_ASSERT(program_has_error(&program, "pass-order"));
  CU_ASSERT_EQUAL(run_passes(program.module, "canonicalise", true), PTC_INVALID_INPUT);
  CU_ASSERT(program_has_error(&program, "unknown-pass"));
  CU_ASSERT_STRING_EQUAL(program.diag.items[program.diag.num_items - 1].message,
                         "did you mean \"canonicalize\"");
  program.module->properties = 0;
  CU_ASSERT_EQUAL(run_passes(program.module, "infer-shapes canonicalize", false), PTC_OK);
  CU_ASSERT_EQUAL(program.module->properties, PTC_PROPERTY_SHAPED | PTC_PROPERTY_CANONICAL);
  CU_ASSERT_EQUAL(run_passes(program.module, "precision", false), PTC_OK);
  CU_ASSERT_EQUAL(program.module->properties, PTC_PROPERTY_SHAPED | PTC_PROPERTY_PRECISION);
  program_deinit(&program);
}

static void test_printing(void) {
  program_t program;
  program_parse(&program, program_text);
  CU_ASSERT_PTR_NOT_NULL_FATAL(program.module);
  char *text = NULL;
  size_t len = 0;
  FILE *out = open_memstream(&text, &len);
  const ptc_pass_options_t options = {.print_after = "dce",
                                      .print_to = out,
                                      .stop_after = "canonicalize",
                                      .print_pipeline = true,
                                      .print_locations = true};
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, &options);
  CU_ASSERT_EQUAL(ptc_pass_run(&ctx, program.module, "cse"), PTC_OK);
  CU_ASSERT_EQUAL(ptc_pass_run(&ctx, program.module, "dce"), PTC_OK);
  CU_ASSERT_EQUAL(ptc_pass_run(&ctx, program.module, "canonicalize"), PTC_OK);
  CU_ASSERT(ctx.stopped);
  CU_ASSERT_EQUAL(ptc_pass_run(&ctx, program.module, "precision"), PTC_OK);
  CU_ASSERT((program.module->properties & PTC_PROPERTY_PRECISION) == 0);
  ptc_pass_ctx_deinit(&ctx);
  fclose(out);
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "cse\ndce\n# after dce\nmodule \"m\"\n"));
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "loc(\"test.ptir\":5:"));
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "}\n\ncanonicalize\n"));
  CU_ASSERT_PTR_NULL(strstr(text, "# after cse"));
  CU_ASSERT_PTR_NULL(strstr(text, "precision"));
  free(text);
  program_deinit(&program);
}

static void test_semantics(void) {
  program_t program;
  program_parse(&program, program_text);
  CU_ASSERT_PTR_NOT_NULL_FATAL(program.module);
  ptc_semantics_t *before = NULL;
  CU_ASSERT_EQUAL_FATAL(ptc_semantics_take(program.module, 3, &before), PTC_OK);
  CU_ASSERT_EQUAL(ptc_semantics_compare(before, program.module, "nothing"), PTC_OK);
  ptc_op_t *one = program.module->funcs->body->first;
  ptc_attrs_set_float(program.module, &one->attrs, "value", 1 + 1e-12);
  CU_ASSERT_EQUAL(ptc_semantics_compare(before, program.module, "rounding"), PTC_OK);
  ptc_attrs_set_float(program.module, &one->attrs, "value", 1 + 1e-6);
  CU_ASSERT_EQUAL(ptc_semantics_compare(before, program.module, "wrong"), PTC_INTERNAL);
  CU_ASSERT(program_has_error(&program, "pass-semantics"));
  ptc_semantics_destroy(before);
  ptc_semantics_destroy(NULL);
  program_deinit(&program);
}

static const unit_test_t tests[] = {
    {"table", test_table},
    {"contracts", test_contracts},
    {"printing and stopping", test_printing},
    {"changed semantics are noticed", test_semantics},
};
UNIT_MAIN("pass", tests)
