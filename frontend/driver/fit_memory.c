#include "frontend/driver/fit_memory.h"

#include <inttypes.h>

#include "frontend/driver/emit.h"
#include "ir/text.h"
#include "passes/parallel.h"
#include "passes/split_stages.h"

typedef struct fit_s {
  ptc_diag_t *diag;
  ptc_str_t text;  // of the module
  const char *target;
  bool keep_grads;
  int64_t steps;  // of the order, once a trial has counted them
} fit_t;

static ptc_status_t stages_bytes(const fit_t *fit, ptc_pass_ctx_t *ctx, const ptc_module_t *module,
                                 int64_t *out_bytes) {
  ptc_stages_t *stages;
  PTC_TRY(ptc_split_stages(ctx, module, &stages));
  ptc_stages_add_axis(stages);
  ptc_status_t status = PTC_OK;
  for (int32_t s = 0; s < stages->num_stages && status == PTC_OK; s++) {
    ptc_emitted_t emitted;
    status = ptc_emit_stage(ctx, stages, s, fit->target, &emitted);
    if (status != PTC_OK) break;
    if (emitted.plan->arena_bytes > *out_bytes) *out_bytes = emitted.plan->arena_bytes;
    ptc_emitted_deinit(&emitted);
  }
  ptc_stages_destroy(stages);
  return status;
}

static ptc_status_t module_bytes(const fit_t *fit, ptc_pass_ctx_t *ctx, ptc_module_t *module,
                                 int64_t *out_bytes) {
  PTC_TRY(ptc_pipeline_train(ctx, module));
  ptc_parallel_t parallel;
  PTC_TRY(ptc_parallel_read(module, &parallel));
  if (parallel.size[PTC_AXIS_PP] > 1) return stages_bytes(fit, ctx, module, out_bytes);
  ptc_emitted_t emitted;
  PTC_TRY(ptc_emit(ctx, module, fit->target, &emitted));
  *out_bytes = emitted.plan->arena_bytes;
  ptc_emitted_deinit(&emitted);
  return PTC_OK;
}

// The largest arena of the plans that |level| steps give.
static ptc_status_t try_level(fit_t *fit, int64_t level, int64_t *out_bytes) {
  *out_bytes = 0;
  ptc_module_t *copy;
  PTC_TRY(ptc_module_parse(fit->diag, "copy.ptir", fit->text.data, fit->text.len, &copy));
  ptc_attrs_set_int(copy, &copy->config, "recompute_level", level);
  const ptc_pass_options_t options = {.no_verify = true, .keep_grads = fit->keep_grads};
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, &options);
  const ptc_status_t status = module_bytes(fit, &ctx, copy, out_bytes);
  fit->steps = ptc_attrs_int(&copy->config, "recompute_steps", 0);
  ptc_pass_ctx_deinit(&ctx);
  ptc_module_destroy(copy);
  return status;
}

static ptc_status_t too_large(const fit_t *fit, int64_t budget, int64_t bytes) {
  return ptc_error(fit->diag, (ptc_loc_t){0}, PTC_INFEASIBLE, "memory-budget",
                   "recompute = selective(bytes = %" PRId64 "): a device needs %" PRId64
                   " bytes even if everything is computed again, %" PRId64
                   " too many; allow more, or make micro_batch smaller",
                   budget, bytes, bytes - budget);
}

// Levels up to |low| do not fit, |high| does.
static ptc_status_t search(fit_t *fit, int64_t budget, int64_t *out_level) {
  int64_t bytes, low = 0;
  PTC_TRY(try_level(fit, 0, &bytes));
  *out_level = 0;
  if (bytes <= budget) return PTC_OK;
  int64_t high = fit->steps;
  PTC_TRY(try_level(fit, high, &bytes));
  if (bytes > budget) return too_large(fit, budget, bytes);
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    PTC_TRY(try_level(fit, middle, &bytes));
    if (bytes <= budget)
      high = middle;
    else
      low = middle;
  }
  *out_level = high;
  return PTC_OK;
}

ptc_status_t ptc_fit_memory(ptc_module_t *module, const char *target, bool keep_grads) {
  const int64_t budget = ptc_attrs_int(&module->config, "recompute_bytes", 0);
  if (budget == 0) return PTC_OK;
  fit_t fit = {.diag = module->diag, .target = target, .keep_grads = keep_grads};
  ptc_module_print(module, false, &fit.text);
  int64_t level = 0;
  const ptc_status_t status = search(&fit, budget, &level);
  ptc_str_deinit(&fit.text);
  if (status != PTC_OK) return status;
  ptc_attrs_set_int(module, &module->config, "recompute_level", level);
  ptc_module_set_origin(module, "train.recompute_level", NULL, "recompute_bytes");
  ptc_module_set_origin(module, "train.recompute_steps", NULL, "recompute_bytes");
  return PTC_OK;
}
