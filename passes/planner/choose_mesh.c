// choose-mesh: fills what the config leaves open of the split over ranks. With a cluster the planner does that
// (passes/planner/planner.h); with a world alone a rule that knows no hardware (passes/planner/rule.h).
#include "passes/pass.h"
#include "passes/planner/rule.h"

ptc_status_t ptc_pass_choose_mesh(ptc_pass_ctx_t *ctx, ptc_module_t *module) {
  if (ctx->options.choose) return ctx->options.choose(ctx->options.planner, module);
  const int64_t world = ptc_attrs_int(&module->config, "world", 1);
  if (world <= 1) return PTC_OK;
  ptc_planner_t planner = {.cluster = ptc_rule_cluster(&ctx->scratch, PTC_RULE_CPU, world, 0),
                           .arena = &ctx->scratch};
  return ptc_rule_choose(&planner, module);
}
