// Proves: the programs of the stages of a pipeline, run side by side by their schedules, make the losses, gradients
// and new states of the unsplit program, bit by bit, whatever the schedule, the cuts and recomputation.
#include <stdlib.h>

#include "passes/check_semantics.h"
#include "tests/support/pass_runner.h"
#include "tests/support/small_models.h"
#include "tests/support/stage_run.h"
#include "tests/support/unit.h"

typedef struct split_case_s {
  const char *model, *layers, *recompute, *precision, *schedule;
  int pp, chunks, micro;  // micro: number of micro-batches
  int dp, tp, zero;       // devices of a stage; 0: one
} split_case_t;

static ptc_module_t *lower_case(const split_case_t *c, ptc_diag_t *diag) {
  const ptc_override_t more[] = {{"train.batch", "8"},
                                 {"train.precision", c->precision},
                                 {"train.clip", "0.05"},
                                 {"layers", c->layers}};
  ptc_module_t *module =
      small_model_lower(small_model_find(c->model), more, c->layers ? 4 : 3, diag);
  if (!module) return NULL;
  ptc_attrs_remove(&module->config, ptc_module_intern(module, "cut"));
  ptc_attrs_set_int(module, &module->config, "pp", c->pp);
  ptc_attrs_set_string(module, &module->config, "schedule", c->schedule);
  ptc_attrs_set_int(module, &module->config, "chunks", c->chunks);
  const int dp = c->dp ? c->dp : 1;
  ptc_attrs_set_int(module, &module->config, "dp", dp);
  ptc_attrs_set_int(module, &module->config, "tp", c->tp ? c->tp : 1);
  ptc_attrs_set_int(module, &module->config, "zero", c->zero);
  ptc_attrs_set_int(module, &module->config, "micro_batch", 8 / c->micro / dp);
  ptc_attrs_set_string(module, &module->config, "recompute", c->recompute);
  ptc_attrs_set_int(module, &module->config, "recompute_every", 2);
  const ptc_pass_options_t options = {.keep_grads = true, .no_verify = true};
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, &options);
  ptc_status_t status = ptc_pipeline_train(&ctx, module);
  ptc_pass_ctx_deinit(&ctx);
  if (status == PTC_OK) return module;
  ptc_diag_print(diag, stderr, PTC_DIAG_TEXT, false);
  ptc_module_destroy(module);
  return NULL;
}

static void compare_runs(ptc_module_t *module, const ptc_stages_t *stages, ptc_interp_mode_t mode,
                         const char *row) {
  ptc_interp_t *whole = ptc_interp_create(module, mode);
  stage_run_t run;
  stage_run_open(&run, stages, mode);
  // init makes the same state, and says so by itself.
  for (int32_t s = 0; s < stages->num_stages; s++)
    UNIT_CHECK(ptc_interp_run(run.interps[s], "init") == PTC_OK, row);
  UNIT_CHECK(ptc_interp_run(whole, "init") == PTC_OK, row);
  ptc_str_t start = {0};
  UNIT_CHECK(stage_run_compare_states(&run, whole, module, 0, &start), row);
  ptc_str_deinit(&start);
  ptc_semantics_fill(whole, module, 11);
  stage_run_load(&run, whole, module);
  for (int step = 0; step < 3; step++) {
    const bool train = step < 2;
    ptc_str_t report = {0};
    bool ok = ptc_interp_run(whole, train ? "train" : "eval") == PTC_OK;
    ok = stage_run_step(&run, train) && ok;
    if (ok) ok = stage_run_compare(&run, whole, module, train, 0, &report);
    UNIT_CHECK(ok, row);
    if (!ok) printf("%s, step %d: %s\n", row, step, report.data ? report.data : "it fails");
    ptc_str_deinit(&report);
    if (!ok) break;
  }
  stage_run_close(&run);
  ptc_interp_destroy(whole);
}

static void check_case(const split_case_t *c) {
  char row[200];
  snprintf(row, sizeof(row), "%s layers=%s recompute=%s %s %s pp=%d v=%d m=%d dp=%d tp=%d zero=%d",
           c->model, c->layers ? c->layers : "-", c->recompute, c->precision, c->schedule, c->pp,
           c->chunks, c->micro, c->dp, c->tp, c->zero);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = lower_case(c, &diag);
  UNIT_CHECK(module != NULL, row);
  if (!module) return;
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, NULL);
  ptc_stages_t *stages = NULL;
  const ptc_status_t status = ptc_split_stages(&ctx, module, &stages);
  UNIT_CHECK(status == PTC_OK, row);
  if (status != PTC_OK) ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
  if (stages) {
    compare_runs(module, stages, PTC_INTERP_TYPED, row);
    if (c->micro <= 2 && strcmp(c->recompute, "none") == 0)
      compare_runs(module, stages, PTC_INTERP_EXACT, row);
  }
  ptc_stages_destroy(stages);
  ptc_pass_ctx_deinit(&ctx);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

static const split_case_t cases[] = {
    {"gpt2", "2", "none", "f32", "1f1b", 2, 1, 2, 0, 0, 0},
    {"gpt2_dropout", "5", "none", "f32", "1f1b", 3, 1, 4, 0, 0, 0},
    {"gpt2_dropout", "5", "selective", "bf16", "gpipe", 4, 1, 2, 0, 0, 0},
    {"gpt2_dropout", "5", "full", "f32", "zero_bubble", 3, 1, 4, 0, 0, 0},
    {"gpt2_dropout", "5", "none", "f16", "interleaved", 2, 2, 4, 0, 0, 0},
    {"gpt2", "3", "full", "f32", "1f1b", 2, 1, 1, 0, 0, 0},
    {"llama3", "5", "selective", "bf16", "zero_bubble", 2, 1, 8, 0, 0, 0},
    {"llama3", "6", "none", "f32", "interleaved", 3, 2, 4, 0, 0, 0},
    {"gemma2", "7", "full", "bf16", "1f1b", 3, 1, 4, 0, 0, 0},
    {"gemma2", "6", "none", "f32", "zero_bubble", 4, 1, 4, 0, 0, 0},
    {"mixtral", "3", "none", "f32", "1f1b", 2, 1, 2, 0, 0, 0},
    {"mixtral", "4", "full", "bf16", "zero_bubble", 3, 1, 4, 0, 0, 0},
    {"two_branch", NULL, "none", "f32", "zero_bubble", 4, 1, 4, 0, 0, 0},
    {"two_branch", NULL, "full", "f32", "interleaved", 2, 3, 2, 0, 0, 0},
    {"t5", "3", "none", "f32", "1f1b", 3, 1, 2, 0, 0, 0},
    {"t5", "3", "full", "bf16", "zero_bubble", 4, 1, 4, 0, 0, 0},
    {"mamba2", "4", "selective", "f32", "1f1b", 3, 1, 2, 0, 0, 0},
    {"mamba2", "3", "none", "bf16", "gpipe", 2, 1, 4, 0, 0, 0},
    {"deepseek_v2", "4", "none", "f32", "1f1b", 3, 1, 2, 0, 0, 0},
    {"bert_dropout", "3", "selective", "f32", "zero_bubble", 2, 1, 2, 0, 0, 0},
    {"vit", "3", "none", "f32", "1f1b", 2, 1, 2, 0, 0, 0},
    {"gpt2_dropout", "7", "every", "f32", "1f1b", 2, 1, 4, 0, 0, 0},
    {"gpt2_dropout", "5", "every", "bf16", "zero_bubble", 3, 1, 4, 0, 0, 0},
    {"llama3", "9", "every", "f32", "interleaved", 2, 2, 4, 0, 0, 0},
    {"t5", "3", "every", "f32", "1f1b", 3, 1, 2, 0, 0, 0},
};

// Sharded stages: data and tensor parallelism, ZeRO.
static const split_case_t sharded[] = {
    {"gpt2_dropout", "3", "none", "f32", "1f1b", 2, 1, 2, 2, 0, 0},
    {"gpt2_dropout", "3", "full", "f32", "zero_bubble", 2, 1, 2, 2, 0, 1},
    {"llama3", "3", "none", "bf16", "1f1b", 2, 1, 2, 2, 0, 2},
    {"gpt2", "3", "selective", "f32", "zero_bubble", 2, 1, 2, 2, 0, 3},
    {"llama3", "3", "none", "f32", "gpipe", 2, 1, 2, 0, 2, 0},
    {"gpt2_dropout", "5", "every", "f32", "1f1b", 2, 1, 2, 2, 0, 3},
};

static void test_sharded(void) {
  const char *only = getenv("PTC_CASE");
  for (size_t i = 0; i < sizeof(sharded) / sizeof(sharded[0]); i++)
    if (!only || (size_t)atoi(only) == 100 + i) check_case(&sharded[i]);
}

static void test_cases(void) {
  const char *only = getenv("PTC_CASE");
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
    if (!only || (size_t)atoi(only) == i) check_case(&cases[i]);
}

static bool has_error(const ptc_diag_t *diag, const char *id) {
  for (int64_t i = 0; i < diag->num_items; i++)
    if (diag->items[i].id && strcmp(diag->items[i].id, id) == 0) return true;
  return false;
}

// What cannot be split is refused, and said.
static void test_errors(void) {
  static const struct {
    split_case_t split;
    const char *cut, *id;
  } rows[] = {
      {{"gpt2", "2", "none", "f32", "1f1b", 5, 1, 2, 0, 0, 0}, NULL, "split-turns"},
      {{"gpt2", "2", "none", "f32", "dualpipe", 2, 1, 2, 0, 0, 0}, NULL, "split-schedule"},
      {{"gpt2", "4", "none", "f32", "1f1b", 3, 1, 2, 0, 0, 0}, "block.1", "split-cut"},
      {{"gpt2", "4", "none", "f32", "1f1b", 3, 1, 2, 0, 0, 0}, "block.2; block.1", "split-cut"},
      {{"gpt2", "4", "none", "f32", "1f1b", 2, 1, 2, 0, 0, 0}, "block.9", "split-cut"},
      {{"gemma2", "6", "none", "f32", "1f1b", 2, 1, 2, 0, 0, 0}, "block.3", "split-cut"},
      // Groups of turns that were made before there were stages.
      {{"gpt2", "4", "every", "f32", "1f1b", 1, 1, 2, 0, 0, 0}, NULL, "split-region"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_module_t *module = lower_case(&rows[i].split, &diag);
    UNIT_CHECK(module != NULL, rows[i].id);
    if (!module) continue;
    if (rows[i].split.pp == 1) ptc_attrs_set_int(module, &module->config, "pp", 2);
    if (rows[i].cut) ptc_attrs_set_string(module, &module->config, "cut", rows[i].cut);
    ptc_pass_ctx_t ctx;
    ptc_pass_ctx_init(&ctx, NULL);
    ptc_stages_t *stages = NULL;
    UNIT_CHECK(ptc_split_stages(&ctx, module, &stages) != PTC_OK && !stages, rows[i].id);
    UNIT_CHECK(has_error(&diag, rows[i].id), rows[i].id);
    if (!has_error(&diag, rows[i].id)) ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
    ptc_pass_ctx_deinit(&ctx);
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
}

// How many turns of `block` each stage has.
static void check_cuts(const char *cut, int pp, const int64_t *counts) {
  const split_case_t c = {"gpt2", "5", "none", "f32", "1f1b", pp, 1, 2, 0, 0, 0};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = lower_case(&c, &diag);
  CU_ASSERT_PTR_NOT_NULL_FATAL(module);
  if (cut) ptc_attrs_set_string(module, &module->config, "cut", cut);
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, NULL);
  ptc_stages_t *stages = NULL;
  CU_ASSERT_EQUAL(ptc_split_stages(&ctx, module, &stages), PTC_OK);
  for (int s = 0; stages && s < pp; s++) {
    const ptc_global_t *w = ptc_module_find_global(stages->modules[s], "block.*.attn.wq");
    CU_ASSERT_EQUAL(w ? w->type->counts[0] : 0, counts[s]);
    const ptc_global_t *tied = ptc_module_find_global(stages->modules[s], "wte");
    CU_ASSERT_EQUAL(tied != NULL, s == 0 || s == pp - 1);
  }
  if (stages) compare_runs(module, stages, PTC_INTERP_TYPED, cut ? cut : "chosen cuts");
  ptc_stages_destroy(stages);
  ptc_pass_ctx_deinit(&ctx);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

static void test_cuts(void) {
  check_cuts("block.1; block.4", 3, (const int64_t[]){1, 3, 1});
  check_cuts("block.0", 2, (const int64_t[]){0, 5});
  // Embedding and logits of a small model cost less than a turn.
  check_cuts(NULL, 2, (const int64_t[]){3, 2});
}

static const unit_test_t tests[] = {
    {"cuts", test_cuts},
    {"errors", test_errors},
    {"stages against the whole", test_cases},
    {"sharded stages against the whole", test_sharded},
};
UNIT_MAIN("stages", tests)
