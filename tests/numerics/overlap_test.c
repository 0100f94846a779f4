// Proves: plans whose ranks communicate while they compute make the bits of those that do not, and move as many bytes; they
// are proved, text and all; each of their waits is needed: without it two steps meet. PTC_CASES=all: all small models on
// all meshes of the table.
#include <stdlib.h>

#include "frontend/driver/emit.h"
#include "passes/split_stages.h"
#include "tests/support/rank_runs.h"
#include "tests/support/small_models.h"
#include "tests/support/unit.h"

typedef struct mesh_s {
  const char *name;
  int dp, cp, tp, pp, zero, micro_batch;
  bool sequence_parallel;
  const char *schedule, *recompute;
} mesh_t;

static const mesh_t meshes[] = {
    {"dp 2", .dp = 2},
    {"dp 2, zero 1", .dp = 2, .zero = 1},
    {"dp 2, zero 2, micro", .dp = 2, .zero = 2, .micro_batch = 2},
    {"dp 2, zero 3", .dp = 2, .zero = 3},
    {"dp 2, tp 2, zero 3, sp, micro", .dp = 2, .tp = 2, .zero = 3, .micro_batch = 2,
     .sequence_parallel = true},
    {"cp 2, tp 2, zero 3, full", .cp = 2, .tp = 2, .zero = 3, .recompute = "full"},
    {"pp 2, micro", .pp = 2, .micro_batch = 2},
    {"pp 2, dp 2, zero 3, micro", .pp = 2, .dp = 2, .zero = 3, .micro_batch = 2},
    {"pp 2, zero bubble, micro", .pp = 2, .micro_batch = 1, .schedule = "zero_bubble"},
};
enum { NUM_MESHES = sizeof meshes / sizeof *meshes, MAX_STAGES = 2 };

static ptc_module_t *lower(const small_model_t *model, const mesh_t *mesh, bool overlap,
                           ptc_diag_t *diag) {
  const ptc_override_t more[] = {{"train.clip", "0.5"},
                                 {"train.precision", "f32"},
                                 {"train.batch", "8"},
                                 {strcmp(model->name, "t5") == 0 ? "tgt" : "seq", "8"}};
  ptc_module_t *module =
      small_model_lower(model, more, strcmp(model->name, "vit") == 0 ? 3 : 4, diag);
  if (!module) return NULL;
  const struct {
    const char *name;
    int value;
  } sizes[] = {{"dp", mesh->dp}, {"cp", mesh->cp},     {"tp", mesh->tp},
               {"pp", mesh->pp}, {"zero", mesh->zero}, {"micro_batch", mesh->micro_batch}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (sizes[i].value)
      ptc_attrs_set_int(module, &module->config, ptc_module_intern(module, sizes[i].name),
                        sizes[i].value);
  ptc_attrs_remove(&module->config, ptc_module_intern(module, "cut"));
  ptc_attrs_set_bool(module, &module->config, "sequence_parallel", mesh->sequence_parallel);
  ptc_attrs_set_bool(module, &module->config, "overlap", overlap);
  if (mesh->schedule) ptc_attrs_set_string(module, &module->config, "schedule", mesh->schedule);
  if (mesh->recompute) ptc_attrs_set_string(module, &module->config, "recompute", mesh->recompute);
  return module;
}

// --- bits

static bool run_on(const small_model_t *model, const mesh_t *mesh, bool overlap,
                   rank_run_t *out_run) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  *out_run = (rank_run_t){0};
  ptc_module_t *module = lower(model, mesh, overlap, &diag);
  const bool ok = module && rank_run(module, 11, out_run);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
  return ok;
}

static void test_bits(void) {
  static const struct {
    const char *model;
    int mesh;
  } rows[] = {{"gpt2_dropout", 0}, {"gpt2_dropout", 3}, {"llama3", 1}, {"llama3", 4}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const small_model_t *model = small_model_find(rows[i].model);
    const mesh_t *mesh = &meshes[rows[i].mesh];
    rank_run_t off, on;
    const bool ran = run_on(model, mesh, false, &off) && run_on(model, mesh, true, &on);
    UNIT_CHECK(ran, mesh->name);
    if (!ran) return;
    const rank_difference_t d = rank_run_compare(&off, &on);
    UNIT_CHECK(d.initial == 0 && d.loss == 0 && d.final == 0, mesh->name);
    UNIT_CHECK(on.replicas_agree && on.bytes_agree && on.bytes_read == off.bytes_read, mesh->name);
    rank_run_deinit(&off);
    rank_run_deinit(&on);
  }
}

// --- proofs

static bool is_proved(const ptc_plan_t *plan, ptc_diag_t *diag) {
  return ptc_plan_check(diag, plan) == PTC_OK && ptc_plan_verify(diag, plan) == PTC_OK &&
         ptc_plan_verify_order(diag, plan) == PTC_OK;
}

static bool is_ordered(const ptc_plan_t *plan) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  const bool ordered = ptc_plan_verify_order(&diag, plan) == PTC_OK;
  ptc_diag_deinit(&diag);
  return ordered;
}

static int64_t num_waits, num_ahead;

static void try_without_waits(const ptc_plan_t *plan, ptc_step_t *steps, int32_t count,
                              const char *what) {
  for (int32_t i = 0; i < count; i++) {
    ptc_step_t *step = &steps[i];
    num_ahead += step->ahead != 0;
    if (step->kind == PTC_STEP_REPEAT) try_without_waits(plan, step->body, step->num_steps, what);
    for (int32_t w = 0; w < step->num_waits; w++) {
      // The last one takes its place.
      int32_t *waits = (int32_t *)(uintptr_t)step->waits;
      const int32_t kept = waits[w];
      waits[w] = waits[step->num_waits - 1];
      step->num_waits--;
      UNIT_CHECK(!is_ordered(plan), what);
      step->num_waits++;
      waits[w] = kept;
      num_waits++;
    }
  }
}

static void check_text(const ptc_plan_t *plan, ptc_diag_t *diag, const char *what) {
  ptc_str_t json = {0}, steps = {0}, again_json = {0}, again_steps = {0};
  ptc_plan_t *again = NULL;
  ptc_plan_print(plan, &json, &steps);
  UNIT_CHECK(ptc_plan_parse(diag, "plan.json", json.data, json.len, "steps", steps.data, steps.len,
                            &again) == PTC_OK,
             what);
  if (again) ptc_plan_print(again, &again_json, &again_steps);
  UNIT_CHECK(again && strcmp(steps.data, again_steps.data) == 0, what);
  ptc_plan_destroy(again);
  ptc_str_deinit(&json);
  ptc_str_deinit(&steps);
  ptc_str_deinit(&again_json);
  ptc_str_deinit(&again_steps);
}

static void check_plan(ptc_plan_t *plan, ptc_diag_t *diag, const char *what) {
  UNIT_CHECK(is_proved(plan, diag), what);
  check_text(plan, diag, what);
  for (int32_t t = 0; t < plan->num_tasks; t++)
    try_without_waits(plan, plan->tasks[t].steps, plan->tasks[t].num_steps, what);
}

static void check_model(const small_model_t *model, const mesh_t *mesh) {
  char what[120];
  snprintf(what, sizeof what, "%s on %s", model->name, mesh->name);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = lower(model, mesh, true, &diag);
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, NULL);
  ptc_emitted_t emitted[MAX_STAGES] = {0};
  const ptc_plan_t *plans[MAX_STAGES];
  ptc_stages_t *stages = NULL;
  int count = mesh->pp ? mesh->pp : 1;
  bool ok = module && ptc_pipeline_train(&ctx, module) == PTC_OK;
  if (ok && mesh->pp) ok = ptc_split_stages(&ctx, module, &stages) == PTC_OK;
  if (ok && stages) ptc_stages_add_axis(stages);
  for (int s = 0; s < count && ok; s++) {
    ok = (stages ? ptc_emit_stage(&ctx, stages, s, "cpu", &emitted[s])
                 : ptc_emit(&ctx, module, "cpu", &emitted[s])) == PTC_OK;
    plans[s] = emitted[s].plan;
    if (ok) check_plan(emitted[s].plan, &diag, what);
  }
  UNIT_CHECK(ok && ptc_plan_verify_stages(&diag, plans, count) == PTC_OK, what);
  ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
  for (int s = 0; s < count; s++) ptc_emitted_deinit(&emitted[s]);
  ptc_stages_destroy(stages);
  ptc_pass_ctx_deinit(&ctx);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

static void test_plans(void) {
  const char *cases = getenv("PTC_CASES");
  const bool all = cases && strcmp(cases, "all") == 0;
  for (int i = 0; i < num_small_models; i++)
    for (int m = 0; m < NUM_MESHES; m++)
      if (all || strcmp(small_models[i].name, "gpt2_dropout") == 0 ||
          (strcmp(small_models[i].name, "llama3") == 0 && m >= 4))
        check_model(&small_models[i], &meshes[m]);
  printf("\n%lld waits, %lld steps a turn ahead\n", (long long)num_waits, (long long)num_ahead);
  UNIT_CHECK(num_waits > 0 && num_ahead > 0, "waits, and steps ahead");
}

static const unit_test_t tests[] = {
    {"bits", test_bits},
    {"proofs", test_plans},
};
UNIT_MAIN("overlap", tests)
