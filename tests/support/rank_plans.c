#include "tests/support/rank_plans.h"

#include <stdlib.h>
#include <string.h>

#include "passes/parallel.h"

// --- kernels

// |text| with the entry point |name| called |as|; malloc'ed.
static char *rename_entry(const char *text, const char *name, const char *as) {
  ptc_str_t out = {0};
  ptc_str_append(&out, "");
  for (const char *at = text, *found; *at; at = found + strlen(name)) {
    found = strstr(at, name);
    if (!found) {
      ptc_str_append(&out, at);
      break;
    }
    ptc_str_printf(&out, "%.*s%s", (int)(found - at), at, as);
  }
  return out.data;
}

// "s1k12_gelu" is "k_gelu": the same kernel has one name in all plans.
static ptc_status_t make_objects(ptc_diag_t *diag, const ptc_emitted_t *emitted,
                                 ptc_kernel_objects_t **out_objects) {
  const int32_t count = emitted->plan->num_kernels;
  ptc_arena_t arena = {0};
  ptc_kernel_source_t *sources = PTC_ARENA_ARRAY(&arena, ptc_kernel_source_t, count + 1);
  for (int32_t k = 0; k < count; k++) {
    const ptc_kernel_source_t *source = &emitted->sources[k];
    const char *about = strchr(source->name, '_');
    const char *name = ptc_arena_printf(&arena, "k%s", about ? about : "");
    char *text = rename_entry(source->text, source->name, name);
    sources[k] = (ptc_kernel_source_t){name, text, strlen(text)};
  }
  const ptc_kernel_objects_options_t options = {
      .cache_folder = getenv("PTC_CACHE") ? NULL : PTC_BINARY_DIR "/kernel-cache"};
  const ptc_status_t status =
      ptc_kernel_objects_create(diag, sources, count, &options, out_objects);
  for (int32_t k = 0; k < count; k++) free((void *)(uintptr_t)sources[k].text);
  ptc_arena_deinit(&arena);
  return status;
}

// --- plans

static void open_plans(rank_plans_t *plans, int32_t count) {
  plans->num_stages = count;
  plans->emitted = ptc_xmalloc(sizeof *plans->emitted * (size_t)count);
  plans->objects = ptc_xmalloc(sizeof *plans->objects * (size_t)count);
  memset(plans->emitted, 0, sizeof *plans->emitted * (size_t)count);
  memset(plans->objects, 0, sizeof *plans->objects * (size_t)count);
}

static ptc_status_t emit_plans(ptc_pass_ctx_t *ctx, ptc_module_t *module, rank_plans_t *plans) {
  ptc_parallel_t parallel;
  PTC_TRY(ptc_parallel_read(module, &parallel));
  if (parallel.size[PTC_AXIS_PP] == 1) {
    open_plans(plans, 1);
    return ptc_emit(ctx, module, "cpu", &plans->emitted[0]);
  }
  ptc_stages_t *stages;
  PTC_TRY(ptc_split_stages(ctx, module, &stages));
  ptc_stages_add_axis(stages);
  open_plans(plans, stages->num_stages);
  ptc_status_t status = PTC_OK;
  for (int32_t s = 0; s < plans->num_stages && status == PTC_OK; s++)
    status = ptc_emit_stage(ctx, stages, s, "cpu", &plans->emitted[s]);
  ptc_stages_destroy(stages);
  return status;
}

static ptc_status_t prove_plans(ptc_diag_t *diag, const rank_plans_t *plans) {
  const ptc_plan_t **list = ptc_xmalloc(sizeof *list * (size_t)plans->num_stages);
  ptc_status_t status = PTC_OK;
  for (int32_t s = 0; s < plans->num_stages && status == PTC_OK; s++) {
    list[s] = plans->emitted[s].plan;
    status = ptc_plan_check(diag, list[s]);
    if (status == PTC_OK) status = ptc_plan_verify(diag, list[s]);
    if (status == PTC_OK) status = ptc_plan_verify_order(diag, list[s]);
  }
  if (status == PTC_OK) status = ptc_plan_verify_stages(diag, list, plans->num_stages);
  free(list);
  return status;
}

bool rank_plans_make(ptc_module_t *module, bool keep_grads, rank_plans_t *out_plans) {
  *out_plans = (rank_plans_t){0};
  ptc_diag_t *diag = module->diag;
  const ptc_pass_options_t options = {.keep_grads = keep_grads};
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, &options);
  ptc_status_t status = ptc_pipeline_train(&ctx, module);
  if (status == PTC_OK) status = emit_plans(&ctx, module, out_plans);
  ptc_pass_ctx_deinit(&ctx);
  if (status == PTC_OK) status = prove_plans(diag, out_plans);
  for (int32_t s = 0; s < out_plans->num_stages && status == PTC_OK; s++)
    status = make_objects(diag, &out_plans->emitted[s], &out_plans->objects[s]);
  if (status == PTC_OK) out_plans->world = (int32_t)ptc_plan_world(out_plans->emitted[0].plan);
  return status == PTC_OK;
}

void rank_plans_deinit(rank_plans_t *plans) {
  for (int32_t s = 0; s < plans->num_stages; s++) {
    ptc_kernel_objects_destroy(plans->objects[s]);
    ptc_emitted_deinit(&plans->emitted[s]);
  }
  free(plans->emitted);
  free(plans->objects);
  *plans = (rank_plans_t){0};
}

const ptc_plan_t *rank_plans_of_stage(const rank_plans_t *plans, int32_t stage) {
  return plans->emitted[stage].plan;
}

int32_t rank_plans_stage(const rank_plans_t *plans, int32_t rank) {
  return rank / (plans->world / plans->num_stages);
}
