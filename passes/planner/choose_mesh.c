// choose-mesh: fills what the config leaves open of the split over ranks. With a cluster the planner does that
// (passes/planner/planner.h); with a world alone a rule that knows no hardware (passes/planner/rule.h).
#include "passes/advice.h"
#include "passes/parallel.h"
#include "passes/pass.h"
#include "passes/planner/rule.h"

// What the config then says of a pipeline; what is wrong with it is split_stages' to tell.
static ptc_status_t advise(ptc_module_t *module) {
  ptc_parallel_t parallel;
  PTC_TRY(ptc_parallel_read(module, &parallel));
  ptc_schedule_kind_t kind;
  const int64_t stages = parallel.size[PTC_AXIS_PP];
  const int64_t groups = parallel.size[PTC_AXIS_DP] * parallel.size[PTC_AXIS_EP];
  const int64_t batch = ptc_attrs_int(&module->config, "batch", 1);
  if (stages > 1 && parallel.micro_batch > 0 && ptc_schedule_parse(parallel.schedule, &kind))
    ptc_advise_pipeline(module, kind, stages, parallel.chunks,
                        batch / groups / parallel.micro_batch);
  return PTC_OK;
}

static ptc_status_t choose(ptc_pass_ctx_t *ctx, ptc_module_t *module) {
  if (ctx->options.choose) return ctx->options.choose(ctx->options.planner, module);
  const int64_t world = ptc_attrs_int(&module->config, "world", 1);
  if (world <= 1) return PTC_OK;
  ptc_planner_t planner = {.cluster = ptc_rule_cluster(&ctx->scratch, PTC_RULE_CPU, world, 0),
                           .arena = &ctx->scratch};
  return ptc_rule_choose(&planner, module);
}

ptc_status_t ptc_pass_choose_mesh(ptc_pass_ctx_t *ctx, ptc_module_t *module) {
  PTC_TRY(choose(ctx, module));
  return advise(module);
}
