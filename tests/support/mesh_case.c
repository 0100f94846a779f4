#include "tests/support/mesh_case.h"

#include <stdlib.h>

#include "passes/check_semantics.h"
#include "passes/pass.h"
#include "tests/support/unit.h"

static void set_axis(ptc_module_t *module, const char *name, int size) {
  ptc_attrs_set_int(module, &module->config, name, size > 0 ? size : 1);
}

void mesh_setup_apply(ptc_module_t *module, const mesh_setup_t *s) {
  set_axis(module, "dp", s->dp);
  set_axis(module, "ep", s->ep);
  set_axis(module, "cp", s->cp);
  set_axis(module, "tp", s->tp);
  ptc_attrs_set_int(module, &module->config, "zero", s->zero);
  ptc_attrs_set_bool(module, &module->config, "sequence_parallel", s->sequence_parallel);
  if (s->cp_attention)
    ptc_attrs_set_string(module, &module->config, "cp_attention", s->cp_attention);
  if (s->cp_order) ptc_attrs_set_string(module, &module->config, "cp_order", s->cp_order);
  if (s->micro_batch) ptc_attrs_set_int(module, &module->config, "micro_batch", s->micro_batch);
  if (s->recompute) ptc_attrs_set_string(module, &module->config, "recompute", s->recompute);
}

void mesh_setup_describe(const char *model, const mesh_setup_t *s, char out[160]) {
  snprintf(out, 160, "%s dp=%d,ep=%d,cp=%d,tp=%d,zero=%d,micro_batch=%d%s%s%s%s%s%s%s", model,
           s->dp, s->ep, s->cp, s->tp, s->zero, s->micro_batch,
           s->sequence_parallel ? ",sequence_parallel=on" : "", s->recompute ? ",recompute=" : "",
           s->recompute ? s->recompute : "", s->cp_attention ? ",cp_attention=" : "",
           s->cp_attention ? s->cp_attention : "", s->cp_order ? ",cp_order=" : "",
           s->cp_order ? s->cp_order : "");
}

bool mesh_case_compare(const small_model_t *model, const mesh_setup_t *s) {
  // Most sizes of the models are odd: dims are padded.
  const ptc_override_t more[] = {
      {"train.clip", "0.5"}, {"train.precision", "f32"}, {"seq", s->seq}};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = small_model_lower(model, more, s->seq ? 3 : 2, &diag);
  CU_ASSERT_PTR_NOT_NULL_FATAL(module);
  mesh_setup_apply(module, s);
  const ptc_pass_options_t options = {.stop_after = "recompute", .keep_grads = true};
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, &options);
  ptc_status_t status = ptc_pipeline_train(&ctx, module);
  ptc_semantics_t *before = NULL;
  if (status == PTC_OK) status = ptc_semantics_take(module, 7, &before);
  ctx.stopped = false;
  ctx.options.stop_after = NULL;
  if (status == PTC_OK) status = ptc_pass_run(&ctx, module, "canonicalize");
  if (status == PTC_OK) status = ptc_pass_run(&ctx, module, "partition");
  if (status == PTC_OK) status = ptc_pass_run(&ctx, module, "canonicalize");
  if (status == PTC_OK) status = ptc_semantics_compare(before, module, "partition");
  char name[160];
  mesh_setup_describe(model->name, s, name);
  UNIT_CHECK(status == PTC_OK, name);
  if (status != PTC_OK) {
    printf("\n%s\n", name);
    ptc_diag_print(&diag, stdout, PTC_DIAG_TEXT, false);
  }
  ptc_semantics_destroy(before);
  ptc_pass_ctx_deinit(&ctx);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
  return status == PTC_OK;
}
