// The built-in pipelines, one line per pass.
#include "passes/pass.h"

ptc_status_t ptc_pipeline_step(ptc_pass_ctx_t *ctx, ptc_module_t *module) {
  PTC_TRY(ptc_pass_run(ctx, module, "infer-shapes"));
  PTC_TRY(ptc_pass_run(ctx, module, "canonicalize"));
  PTC_TRY(ptc_pass_run(ctx, module, "raise-attention"));
  PTC_TRY(ptc_pass_run(ctx, module, "canonicalize"));
  PTC_TRY(ptc_pass_run(ctx, module, "precision"));
  PTC_TRY(ptc_pass_run(ctx, module, "autodiff"));
  PTC_TRY(ptc_pass_run(ctx, module, "optimizer"));
  return ptc_pass_run(ctx, module, "canonicalize");
}

ptc_status_t ptc_pipeline_train(ptc_pass_ctx_t *ctx, ptc_module_t *module) {
  PTC_TRY(ptc_pipeline_step(ctx, module));
  PTC_TRY(ptc_pass_run(ctx, module, "choose-mesh"));
  PTC_TRY(ptc_pass_run(ctx, module, "microbatch"));
  PTC_TRY(ptc_pass_run(ctx, module, "choose-layout"));
  PTC_TRY(ptc_pass_run(ctx, module, "recompute"));
  PTC_TRY(ptc_pass_run(ctx, module, "canonicalize"));
  PTC_TRY(ptc_pass_run(ctx, module, "partition"));
  return ptc_pass_run(ctx, module, "canonicalize");
}
