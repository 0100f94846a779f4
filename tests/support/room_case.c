#include "tests/support/room_case.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/cluster.h"
#include "frontend/driver/plan_life.h"
#include "passes/parallel.h"

static ptc_module_t *lower(const room_case_t *c, const ptc_override_t *more, int num_more,
                           ptc_diag_t *diag) {
  ptc_override_t overrides[2 * SMALL_MODEL_SETTINGS + 4];
  int num = 0;
  for (int i = 0; i < SMALL_MODEL_SETTINGS && c->model->settings[i].name; i++)
    overrides[num++] = c->model->settings[i];
  for (int i = 0; i < num_more && num < 2 * SMALL_MODEL_SETTINGS; i++) overrides[num++] = more[i];
  if (c->layers) overrides[num++] = (ptc_override_t){"layers", c->layers};
  if (c->precision) overrides[num++] = (ptc_override_t){"train.precision", c->precision};
  if (c->batch) overrides[num++] = (ptc_override_t){"train.batch", c->batch};
  const ptc_lower_options_t options = {
      .overrides = overrides, .num_overrides = num, .parallel = c->parallel};
  char path[1024];
  snprintf(path, sizeof(path), "%s/%s", PTC_SOURCE_DIR, c->model->file);
  const char *files[] = {path};
  ptc_module_t *module = NULL;
  return ptc_compile_files(diag, files, 1, &options, &module) == PTC_OK ? module : NULL;
}

static ptc_status_t emit(ptc_pass_ctx_t *ctx, room_result_t *out) {
  ptc_parallel_t parallel;
  PTC_TRY(ptc_parallel_read(out->module, &parallel));
  out->num_stages = 1;
  if (parallel.size[PTC_AXIS_PP] == 1) return ptc_emit(ctx, out->module, "cpu", &out->emitted[0]);
  PTC_TRY(ptc_split_stages(ctx, out->module, &out->stages));
  ptc_stages_add_axis(out->stages);
  out->num_stages = out->stages->num_stages;
  for (int32_t s = 0; s < out->num_stages; s++)
    PTC_TRY(ptc_emit_stage(ctx, out->stages, s, "cpu", &out->emitted[s]));
  return PTC_OK;
}

// The devices that the layout names, and no more.
static int64_t world_of(const ptc_module_t *module) {
  int64_t world = 1;
  for (int a = 0; a < PTC_NUM_DEVICE_AXES; a++)
    world *= ptc_attrs_int(&module->config, ptc_device_axis_names[a], 1);
  return world;
}

// What the layout leaves open is what a compilation without a planner takes; heads, hidden dims and words lie on tp.
static void settle(ptc_module_t *module) {
  ptc_attrs_t *config = &module->config;
  for (int a = 0; a < PTC_NUM_DEVICE_AXES; a++)
    if (!ptc_attrs_find(config, ptc_device_axis_names[a]))
      ptc_attrs_set_int(module, config, ptc_device_axis_names[a], 1);
  ptc_attrs_set_int(module, config, "world", world_of(module));
  if (!ptc_attrs_find(config, "zero")) ptc_attrs_set_int(module, config, "zero", 0);
  if (!ptc_attrs_find(config, "recompute"))
    ptc_attrs_set_string(module, config, "recompute", "none");
  if (!ptc_attrs_find(config, "schedule")) ptc_attrs_set_string(module, config, "schedule", "1f1b");
  if (!ptc_attrs_find(config, "sequence_parallel"))
    ptc_attrs_set_bool(module, config, "sequence_parallel", false);
  if (ptc_attrs_int(config, "tp", 1) > 1) ptc_attrs_set_string(module, config, "tp_dims", "h f v");
}

bool room_case_make(const room_case_t *c, const ptc_override_t *more, int num_more,
                    room_result_t *out) {
  *out = (room_result_t){0};
  ptc_diag_init(&out->diag);
  ptc_arena_init(&out->arena);
  ptc_cluster_t *cluster = NULL;
  if (ptc_cluster_find(&out->diag, &out->arena, NULL, "dgx_a100:8", &cluster) != PTC_OK)
    return false;
  out->module = lower(c, more, num_more, &out->diag);
  if (!out->module) return false;
  settle(out->module);
  out->planner = (ptc_planner_t){.cluster = cluster, .arena = &out->arena};
  const ptc_pass_options_t options = {
      .no_verify = true, .choose = ptc_planner_choose_hook, .planner = &out->planner};
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, &options);
  ptc_status_t status = ptc_pipeline_train(&ctx, out->module);
  if (status == PTC_OK) status = emit(&ctx, out);
  ptc_pass_ctx_deinit(&ctx);
  return status == PTC_OK;
}

void room_result_end(room_result_t *result) {
  for (int32_t s = 0; s < result->num_stages; s++)
    if (result->emitted[s].plan) ptc_emitted_deinit(&result->emitted[s]);
  if (result->stages) ptc_stages_destroy(result->stages);
  if (result->module) ptc_module_destroy(result->module);
  ptc_arena_deinit(&result->arena);
  ptc_diag_deinit(&result->diag);
}

const ptc_prediction_t *room_predicted(const room_result_t *result) {
  return &result->planner.found.best.predicted;
}

int32_t room_largest(const room_result_t *result) {
  int32_t largest = 0;
  for (int32_t s = 1; s < result->num_stages; s++)
    if (result->emitted[s].plan->arena_bytes > result->emitted[largest].plan->arena_bytes)
      largest = s;
  return largest;
}

int64_t room_values(const ptc_plan_t *plan, int64_t *out_moment) {
  ptc_plan_life_t life;
  ptc_plan_life_init(plan, ptc_plan_find_task(plan, "train"), &life);
  int64_t *change = ptc_xmalloc(sizeof *change * (size_t)(life.num_moments + 2));
  memset(change, 0, sizeof *change * (size_t)(life.num_moments + 2));
  for (int64_t i = 0; i < life.num_lives; i++) {
    const ptc_life_t *l = &life.lives[i];
    if (plan->buffers[l->buffer].cls == PTC_BUFFER_WORKSPACE) continue;
    change[l->first] += l->bytes;
    change[l->last + 1] -= l->bytes;
  }
  int64_t most = 0, now = 0;
  for (int64_t m = 0; m < life.num_moments; m++) {
    now += change[m];
    if (now > most && out_moment) *out_moment = m;
    if (now > most) most = now;
  }
  free(change);
  ptc_plan_life_deinit(&life);
  return most;
}
