// Proves: every op of the samples' training programs becomes a kernel that the verifier accepts.
#include "tests/support/kernel_groups.h"
#include "tests/support/pass_runner.h"
#include "tests/support/small_models.h"
#include "tests/support/unit.h"

static void build_model(const small_model_t *model, int64_t micro) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = small_model_lower(model, NULL, 0, &diag);
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, NULL);
  ptc_arena_t arena;
  ptc_arena_init(&arena);
  ptc_str_t text = {0};
  if (module) ptc_attrs_set_int(module, &module->config, "micro_batch", micro);
  bool ok = module && ptc_pipeline_train(&ctx, module) == PTC_OK &&
            ptc_pass_run(&ctx, module, "fuse") == PTC_OK;
  ok = ok && kernel_groups_build(module, &arena, &text) > 10;
  UNIT_CHECK(ok, model->name);
  if (!ok) {
    fprintf(stderr, "%s: %s\n", model->name,
            text.data ? text.data + (text.len > 3000 ? text.len - 3000 : 0) : "");
    ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
  }
  ptc_str_deinit(&text);
  ptc_arena_deinit(&arena);
  ptc_pass_ctx_deinit(&ctx);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

static void test_models(void) {
  for (int i = 0; i < num_small_models; i++) {
    build_model(&small_models[i], 4);
    build_model(&small_models[i], 2);
  }
}

static const unit_test_t tests[] = {{"models", test_models}};
UNIT_MAIN("kernel_models", tests)
