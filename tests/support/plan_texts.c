#include "tests/support/plan_texts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "frontend/driver/compile.h"
#include "frontend/driver/emit.h"
#include "passes/parallel.h"
#include "passes/split_stages.h"
#include "tests/support/random_model.h"

static bool keep(const ptc_pass_ctx_t *ctx, ptc_status_t status, ptc_emitted_t *emitted,
                 plan_texts_t *out) {
  const bool ok = status == PTC_OK && !ctx->stopped;
  if (ok) {
    ptc_plan_print(emitted->plan, &out->json[out->count], &out->steps[out->count]);
    out->count++;
  }
  ptc_emitted_deinit(emitted);
  return ok;
}

static bool make_stages(ptc_pass_ctx_t *ctx, ptc_module_t *module, plan_texts_t *out) {
  ptc_stages_t *stages = NULL;
  bool ok = ptc_split_stages(ctx, module, &stages) == PTC_OK;
  if (ok) ptc_stages_add_axis(stages);
  for (int32_t s = 0; ok && s < stages->num_stages; s++) {
    ptc_emitted_t emitted;
    ok = s < PLAN_TEXTS_STAGES &&
         keep(ctx, ptc_emit_stage(ctx, stages, s, "cpu", &emitted), &emitted, out);
  }
  ptc_stages_destroy(stages);
  return ok;
}

bool plan_texts_make(ptc_module_t *module, plan_texts_t *out) {
  *out = (plan_texts_t){0};
  ptc_pass_ctx_t ctx;
  ptc_parallel_t parallel;
  ptc_pass_ctx_init(&ctx, NULL);
  bool ok =
      ptc_pipeline_train(&ctx, module) == PTC_OK && ptc_parallel_read(module, &parallel) == PTC_OK;
  if (ok && parallel.size[PTC_AXIS_PP] > 1) {
    ok = make_stages(&ctx, module, out);
  } else if (ok) {
    ptc_emitted_t emitted;
    ok = keep(&ctx, ptc_emit(&ctx, module, "cpu", &emitted), &emitted, out);
  }
  ptc_pass_ctx_deinit(&ctx);
  if (!ok) plan_texts_deinit(out);
  return ok;
}

static bool is_refused(const ptc_diag_t *diag) {
  for (int64_t i = 0; i < diag->num_items; i++)
    if (strcmp(diag->items[i].id, "partition-divides") == 0 ||
        strncmp(diag->items[i].id, "split-", 6) == 0)
      return true;
  return false;
}

bool plan_texts_random(uint64_t seed, plan_texts_t *out, bool *out_broken) {
  uint64_t random = seed;
  int64_t forms[RANDOM_MODEL_NUM_FORMS] = {0};
  ptc_str_t text = {0};
  random_model_write(&random, &text, forms);
  random_model_add_mesh(&random, &text);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = NULL;
  *out = (plan_texts_t){0};
  bool ok = ptc_compile_text(&diag, "random.ptm", text.data, text.len, NULL, &module) == PTC_OK;
  ok = ok && plan_texts_make(module, out);
  *out_broken = !ok && !is_refused(&diag);
  if (*out_broken) {
    fprintf(stderr, "seed %" PRIu64 ":\n%s", seed, text.data);
    ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
  }
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
  ptc_str_deinit(&text);
  return ok;
}

void plan_texts_deinit(plan_texts_t *texts) {
  for (int32_t s = 0; s < texts->count; s++) {
    ptc_str_deinit(&texts->json[s]);
    ptc_str_deinit(&texts->steps[s]);
  }
  *texts = (plan_texts_t){0};
}

ptc_plan_t *plan_texts_read(const plan_texts_t *texts, int32_t stage) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_plan_t *plan = NULL;
  ptc_plan_parse(&diag, "plan.json", texts->json[stage].data, texts->json[stage].len, "stage.steps",
                 texts->steps[stage].data, texts->steps[stage].len, &plan);
  if (!plan) ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
  ptc_diag_deinit(&diag);
  return plan;
}
