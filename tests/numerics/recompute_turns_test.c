// Proves: a step that computes some turns of its repeats again and keeps what the others need is the step that keeps
// everything, bit by bit, on one device, in the stages of pipelines and sharded; it saves what it is to save; where a
// repeat cannot be divided, all turns compute again, and that is said.
#include <stdlib.h>

#include "ir/op.h"
#include "passes/check_semantics.h"
#include "tests/support/small_models.h"
#include "tests/support/stage_run.h"
#include "tests/support/unit.h"

typedef struct turns_case_s {
  const char *model, *layers, *recompute, *turns, *precision, *schedule, *cut;
  int pp, chunks, micro, dp, tp, zero;
} turns_case_t;

static ptc_module_t *lower(const turns_case_t *c, bool plain, ptc_diag_t *diag) {
  const ptc_override_t more[] = {{"train.batch", "8"},
                                 {"train.precision", c->precision},
                                 {"train.clip", "0.05"},
                                 {"layers", c->layers}};
  ptc_module_t *module = small_model_lower(small_model_find(c->model), more, 4, diag);
  if (!module) return NULL;
  ptc_attrs_t *config = &module->config;
  ptc_attrs_remove(config, ptc_module_intern(module, "cut"));
  ptc_attrs_set_int(module, config, "pp", c->pp);
  ptc_attrs_set_string(module, config, "schedule", c->schedule);
  ptc_attrs_set_int(module, config, "chunks", c->chunks);
  ptc_attrs_set_int(module, config, "dp", c->dp);
  ptc_attrs_set_int(module, config, "tp", c->tp);
  ptc_attrs_set_int(module, config, "zero", c->zero);
  ptc_attrs_set_int(module, config, "micro_batch", 8 / c->micro / c->dp);
  ptc_attrs_set_string(module, config, "recompute", plain ? "none" : c->recompute);
  if (strcmp(c->recompute, "every") == 0) ptc_attrs_set_int(module, config, "recompute_every", 2);
  if (!plain && c->turns) ptc_attrs_set_string(module, config, "recompute_turns", c->turns);
  if (!plain && c->cut) ptc_attrs_set_string(module, config, "cut", c->cut);
  const ptc_pass_options_t options = {.keep_grads = true};
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, &options);
  const ptc_status_t status = ptc_pipeline_train(&ctx, module);
  ptc_pass_ctx_deinit(&ctx);
  if (status == PTC_OK) return module;
  ptc_diag_print(diag, stderr, PTC_DIAG_TEXT, false);
  ptc_module_destroy(module);
  return NULL;
}

static bool has_warning(const ptc_diag_t *diag) {
  for (int64_t i = 0; i < diag->num_items; i++)
    if (diag->items[i].id && strcmp(diag->items[i].id, "partial-recompute") == 0) return true;
  return false;
}

static void compare(ptc_module_t *plain, const ptc_stages_t *stages, const char *row) {
  ptc_interp_t *whole = ptc_interp_create(plain, PTC_INTERP_TYPED);
  stage_run_t run;
  stage_run_open(&run, stages, PTC_INTERP_TYPED);
  for (int32_t s = 0; s < stages->num_stages; s++)
    UNIT_CHECK(ptc_interp_run(run.interps[s], "init") == PTC_OK, row);
  UNIT_CHECK(ptc_interp_run(whole, "init") == PTC_OK, row);
  ptc_semantics_fill(whole, plain, 11);
  stage_run_load(&run, whole, plain);
  for (int step = 0; step < 2; step++) {
    ptc_str_t report = {0};
    bool ok = ptc_interp_run(whole, "train") == PTC_OK;
    ok = stage_run_step(&run, true) && ok;
    ok = ok && stage_run_compare(&run, whole, plain, true, 0, &report);
    UNIT_CHECK(ok, row);
    if (!ok) printf("%s, step %d: %s\n", row, step, report.data ? report.data : "it fails");
    ptc_str_deinit(&report);
    if (!ok) break;
  }
  stage_run_close(&run);
  ptc_interp_destroy(whole);
}

static void describe(const turns_case_t *c, char row[200]) {
  snprintf(row, 200, "%s layers=%s %s %s %s %s pp=%d v=%d dp=%d tp=%d zero=%d", c->model, c->layers,
           c->recompute, c->turns ? c->turns : "all", c->precision, c->schedule, c->pp, c->chunks,
           c->dp, c->tp, c->zero);
}

static void check(const turns_case_t *c) {
  char row[200];
  describe(c, row);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *plain = lower(c, true, &diag), *divided = lower(c, false, &diag);
  UNIT_CHECK(plain && divided && !has_warning(&diag), row);
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, NULL);
  ptc_stages_t *stages = NULL;
  UNIT_CHECK(divided && ptc_split_stages(&ctx, divided, &stages) == PTC_OK, row);
  if (diag.num_items) ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
  if (plain && stages) compare(plain, stages, row);
  ptc_stages_destroy(stages);
  ptc_pass_ctx_deinit(&ctx);
  if (plain) ptc_module_destroy(plain);
  if (divided) ptc_module_destroy(divided);
  ptc_diag_deinit(&diag);
}

static const turns_case_t cases[] = {
    {"gpt2_dropout", "5", "full", "0:0-3", "f32", "1f1b", NULL, 1, 1, 2, 1, 1, 0},
    {"gpt2", "4", "selective", "0:1-2; 0:3-4", "bf16", "1f1b", NULL, 1, 1, 2, 1, 1, 0},
    {"gpt2_dropout", "6", "full", "0:0-1; 0:3-5", "f32", "1f1b", "0:3", 2, 1, 2, 1, 1, 0},
    {"gpt2", "6", "selective", "0:0-2; 0:4-5", "f32", "zero_bubble", "0:4", 2, 1, 4, 1, 1, 0},
    {"llama3", "7", "full", "0:0-1; 0:2-3; 0:5-6", "bf16", "interleaved", "0:2; 0:3; 0:5", 2, 2, 4,
     1, 1, 0},
    {"gemma2", "8", "full", "0:1-3", "bf16", "gpipe", NULL, 2, 1, 2, 1, 1, 0},
    {"mixtral", "4", "selective", "0:0-2", "f32", "1f1b", "0:2", 2, 1, 2, 1, 1, 0},
    {"t5", "3", "full", "0:0-2; 1:1-3", "f32", "1f1b", NULL, 1, 1, 2, 1, 1, 0},
    {"t5", "3", "full", "0:2-3; 1:0-1", "f32", "1f1b", "0:2; 1:1", 3, 1, 2, 1, 1, 0},
    {"mamba2", "4", "selective", "0:0-1", "f32", "1f1b", NULL, 1, 1, 2, 1, 1, 0},
    {"gpt2_dropout", "3", "full", "0:0-2", "f32", "1f1b", NULL, 1, 1, 2, 2, 1, 1},
    {"llama3", "3", "selective", "0:1-2", "bf16", "1f1b", NULL, 1, 1, 2, 2, 1, 3},
    {"llama3", "3", "full", "0:0-1", "f32", "gpipe", NULL, 2, 1, 2, 1, 1, 0},
};

static void test_bits(void) {
  const char *only = getenv("PTC_CASE");
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
    if (!only || (size_t)atoi(only) == i) check(&cases[i]);
}

// Over tp the sums are others than those of one device: against keeping everything on the same mesh.
static void test_tensor_parallel(void) {
  turns_case_t c = {"llama3", "3", "full", "0:0-2", "f32", "1f1b", NULL, 1, 1, 2, 1, 2, 0};
  char row[200];
  describe(&c, row);
  check(&c);
}

// Bytes of the bundles that gradients of repeats take from the repeats.
static void see_saved(ptc_op_t *op, void *arg) {
  if (op->opcode != PTC_OP_REPEAT || !ptc_op_bool(op, "reverse")) return;
  for (int32_t i = op->num_carry; i < op->num_operands; i++) {
    const ptc_op_t *def = op->operands[i]->def;
    if (def && def->opcode == PTC_OP_REPEAT && !def->remat && !def->parent->parent_op) continue;
    if (def && def->opcode == PTC_OP_REPEAT && !def->remat && def->parent == op->parent)
      *(int64_t *)arg += ptc_type_num_bytes(op->operands[i]->type);
  }
}

static int64_t saved_bytes(const turns_case_t *c, bool plain) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = lower(c, plain, &diag);
  int64_t bytes = 0;
  CU_ASSERT_PTR_NOT_NULL_FATAL(module);
  ptc_block_walk(ptc_module_find_func(module, "train")->body, see_saved, &bytes);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
  return bytes;
}

static void test_saved(void) {
  static const char *const modes[] = {"full", "selective"};
  for (int m = 0; m < 2; m++) {
    turns_case_t c = {"gpt2", "6", modes[m], NULL, "f32", "1f1b", NULL, 1, 1, 2, 1, 1, 0};
    const int64_t none = saved_bytes(&c, true), all = saved_bytes(&c, false);
    c.turns = "0:1-3; 0:4-6";
    const int64_t some = saved_bytes(&c, false);
    char row[128];
    snprintf(row, sizeof(row), "%s: %lld saved of %lld, %lld by all turns", modes[m],
             (long long)some, (long long)none, (long long)all);
    UNIT_CHECK(all < none && 6 * some == 4 * all + 2 * none, row);
  }
}

// Cuts by number are of the repeats before they are divided: each stage has the turns that it would have.
static void test_cuts(void) {
  static const struct {
    const char *turns, *cut;
    int pp, chunks;
    int64_t counts[3];
  } rows[] = {{"0:0-1; 0:3-5", "0:3", 2, 1, {3, 3}},
              {"0:0-2; 0:4-5", "0:4", 2, 1, {4, 2}},
              {"0:0-4", "0:1; 0:2", 3, 1, {1, 1, 4}},
              {"0:1-2; 0:3-6", "0:1; 0:3; 0:4", 2, 2, {2, 4}}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
    const turns_case_t c = {"gpt2", "6",         "full",     rows[i].turns,  "f32",
                            "1f1b", rows[i].cut, rows[i].pp, rows[i].chunks, 4,
                            1,      1,           0};
    turns_case_t own = c;
    if (rows[i].chunks > 1) own.schedule = "interleaved";
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_module_t *module = lower(&own, false, &diag);
    CU_ASSERT_PTR_NOT_NULL_FATAL(module);
    ptc_pass_ctx_t ctx;
    ptc_pass_ctx_init(&ctx, NULL);
    ptc_stages_t *stages = NULL;
    UNIT_CHECK(ptc_split_stages(&ctx, module, &stages) == PTC_OK, rows[i].cut);
    for (int32_t s = 0; stages && s < stages->num_stages; s++) {
      int64_t turns = 0;
      for (int64_t g = 0; g < stages->modules[s]->num_globals; g++) {
        const ptc_global_t *global = stages->modules[s]->globals[g];
        if (global->kind == PTC_GLOBAL_PARAM && strcmp(global->path, "block.*.attn.wq") == 0)
          turns += global->type->counts[0];
      }
      UNIT_CHECK(turns == rows[i].counts[s], rows[i].cut);
    }
    ptc_stages_destroy(stages);
    ptc_pass_ctx_deinit(&ctx);
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
}

// Where bundles are cut already (every 2 turns), they cannot be divided otherwise.
static void test_refused(void) {
  turns_case_t c = {"gpt2", "5", "every", NULL, "f32", "1f1b", NULL, 1, 1, 2, 1, 1, 0};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = lower(&c, false, &diag);
  CU_ASSERT_PTR_NOT_NULL_FATAL(module);
  CU_ASSERT(!has_warning(&diag));
  ptc_attrs_set_string(module, &module->config, "recompute", "full");
  ptc_attrs_set_string(module, &module->config, "recompute_turns", "0:0-1");
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, NULL);
  CU_ASSERT_EQUAL(ptc_pass_run(&ctx, module, "recompute"), PTC_OK);
  CU_ASSERT(has_warning(&diag));
  ptc_pass_ctx_deinit(&ctx);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

static const unit_test_t tests[] = {{"bits", test_bits},
                                    {"over tp", test_tensor_parallel},
                                    {"saved bytes", test_saved},
                                    {"cuts", test_cuts},
                                    {"not divided", test_refused}};
UNIT_MAIN("recompute_turns", tests)
