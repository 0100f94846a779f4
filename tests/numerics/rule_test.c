// Proves: a world alone is split by a rule: of every mesh of so many ranks it takes the one that costs least, leaves
// alone what is given, fits into the memory that is given, lays each sample's plan so that it is proved, and counts the
// bytes that the plan's ranks read from each other; a batch that nothing divides is padded, a memory that nothing fits
// into is said.
#include "passes/planner/rule.h"

#include <math.h>
#include <string.h>

#include "frontend/driver/emit.h"
#include "frontend/driver/volume.h"
#include "passes/split_stages.h"
#include "tests/support/small_models.h"
#include "tests/support/unit.h"

typedef struct ruled_s {
  ptc_diag_t diag;
  ptc_arena_t arena;
  ptc_module_t *module;
  ptc_planner_t planner;
} ruled_t;

// What is fixed: "dp=2,zero=1".
typedef struct setting_s {
  const char *name;
  int64_t value;
} setting_t;

static ptc_module_t *lower(const char *model, int64_t batch, ptc_diag_t *diag) {
  char text[24];
  snprintf(text, sizeof(text), "%d", (int)batch);
  const ptc_override_t more[] = {{"train.batch", text}};
  ptc_module_t *module = small_model_lower(small_model_find(model), more, batch > 0, diag);
  CU_ASSERT_PTR_NOT_NULL_FATAL(module);
  static const char *const open[] = {"zero",      "micro_batch", "sequence_parallel",
                                     "cut",       "chunks",      "schedule",
                                     "recompute", "shard",       "tp_dims"};
  for (int a = 0; a < PTC_NUM_DEVICE_AXES; a++)
    ptc_attrs_remove(&module->config, ptc_module_intern(module, ptc_device_axis_names[a]));
  for (size_t i = 0; i < sizeof(open) / sizeof(*open); i++)
    ptc_attrs_remove(&module->config, ptc_module_intern(module, open[i]));
  return module;
}

// Chooses; |stop_after| NULL: and runs all passes.
static ptc_status_t choose(ruled_t *r, ptc_pass_ctx_t *ctx, const char *model, int64_t batch,
                           int64_t world, double memory, const setting_t *settings, int count,
                           const char *stop_after) {
  *r = (ruled_t){0};
  ptc_diag_init(&r->diag);
  r->module = lower(model, batch, &r->diag);
  ptc_attrs_set_int(r->module, &r->module->config, "world", world);
  for (int i = 0; i < count; i++)
    ptc_attrs_set_int(r->module, &r->module->config, settings[i].name, settings[i].value);
  r->planner = (ptc_planner_t){.cluster = ptc_rule_cluster(&r->arena, PTC_RULE_CPU, world, memory),
                               .arena = &r->arena};
  const ptc_pass_options_t options = {.no_verify = true,
                                      .stop_after = stop_after,
                                      .choose = ptc_rule_choose_hook,
                                      .planner = &r->planner};
  ptc_pass_ctx_init(ctx, &options);
  return ptc_pipeline_train(ctx, r->module);
}

static void end(ruled_t *r, ptc_pass_ctx_t *ctx) {
  ptc_pass_ctx_deinit(ctx);
  ptc_module_destroy(r->module);
  ptc_arena_deinit(&r->arena);
  ptc_diag_deinit(&r->diag);
}

// --- plans

static double read_bytes(const ptc_plan_t *plan) {
  ptc_arena_t arena = {0};
  ptc_volume_row_t *rows;
  const int32_t count = ptc_volume_of(plan, ptc_plan_find_task(plan, "train"), 0, &arena, &rows);
  double sum = 0;
  for (int32_t i = 0; i < count; i++) sum += (double)rows[i].bytes;
  ptc_arena_deinit(&arena);
  return sum;
}

static ptc_status_t emit(ptc_pass_ctx_t *ctx, ptc_module_t *module, ptc_emitted_t *emitted,
                         int32_t *out_count) {
  ptc_parallel_t parallel;
  *out_count = 1;
  PTC_TRY(ptc_parallel_read(module, &parallel));
  if (parallel.size[PTC_AXIS_PP] == 1) return ptc_emit(ctx, module, "cpu", emitted);
  ptc_stages_t *stages;
  PTC_TRY(ptc_split_stages(ctx, module, &stages));
  ptc_stages_add_axis(stages);
  ptc_status_t status = PTC_OK;
  *out_count = stages->num_stages;
  for (int32_t s = 0; s < stages->num_stages && status == PTC_OK; s++)
    status = ptc_emit_stage(ctx, stages, s, "cpu", &emitted[s]);
  ptc_stages_destroy(stages);
  return status;
}

// Of a step's scalars.
enum { SCALARS = 256 };
static const double MOST_ERROR = 0.1;

// |close| of |compared| plans read what the rule says, but for scalars and the padding of ZeRO's parts.
static void check_plan(const char *model, int64_t world, const setting_t *settings, int count,
                       int *compared, int *close) {
  ruled_t r;
  ptc_pass_ctx_t ctx;
  ptc_emitted_t emitted[16] = {0};
  int32_t stages = 0;
  char row[256];
  ptc_status_t status = choose(&r, &ctx, model, 8, world, 0, settings, count, NULL);
  ptc_str_t words = {0};
  if (r.planner.found.feasible)
    ptc_choice_print(r.planner.work, &r.planner.found.best.choice, &words);
  snprintf(row, sizeof(row), "%s on %d: %s", model, (int)world, words.data ? words.data : "");
  ptc_str_deinit(&words);
  if (status == PTC_OK) status = emit(&ctx, r.module, emitted, &stages);
  if (status == PTC_OK) status = ptc_emit_prove(&r.diag, emitted, stages);
  if (status != PTC_OK) ptc_diag_print(&r.diag, stdout, PTC_DIAG_TEXT, false);
  UNIT_CHECK(status == PTC_OK, row);
  UNIT_CHECK(status != PTC_OK || ptc_plan_world(emitted[0].plan) == world, row);
  // Between stages: tied weights and the sums of a step's scalars are not in it.
  if (status == PTC_OK && r.planner.found.feasible && stages == 1) {
    double sent[PTC_NUM_DEVICE_AXES], all = 0;
    const double read = read_bytes(emitted[0].plan);
    ptc_rule_sent(&r.planner, &r.planner.found.best, sent);
    for (int a = 1; a < PTC_NUM_DEVICE_AXES; a++) all += sent[a];
    char what[384];
    snprintf(what, sizeof(what), "%s: reads %g bytes, %g by the rule", row, read, all);
    UNIT_CHECK(sent[PTC_AXIS_PP] == 0 && fabs(all - read) <= MOST_ERROR * read + SCALARS, what);
    (*compared)++;
    *close += fabs(all - read) <= 0.02 * read + SCALARS;
  }
  for (int32_t s = 0; s < stages; s++) ptc_emitted_deinit(&emitted[s]);
  end(&r, &ctx);
}

static void test_plans(void) {
  static const setting_t given[][3] = {{{"pp", 1}, {"tp", 2}, {"zero", 0}},
                                       {{"pp", 1}, {"tp", 1}, {"zero", 3}},
                                       {{"pp", 1}, {"cp", 2}, {"zero", 2}}};
  int compared = 0, close = 0;
  for (int m = 0; m < num_small_models; m++) {
    check_plan(small_models[m].name, 2, NULL, 0, &compared, &close);
    check_plan(small_models[m].name, 4, given[m % 3], 3, &compared, &close);
    check_plan(small_models[m].name, 8, NULL, 0, &compared, &close);
  }
  printf("%d of %d plans within 2 %%: ", close, compared);
  CU_ASSERT(compared >= 12 && 4 * close >= 3 * compared);
}

// --- of every mesh the cheapest

static void check_meshes(const char *model, int64_t world, double memory) {
  ruled_t r;
  ptc_pass_ctx_t ctx;
  char row[128];
  snprintf(row, sizeof(row), "%s on %d", model, (int)world);
  UNIT_CHECK(choose(&r, &ctx, model, 8, world, memory, NULL, 0, "choose-mesh") == PTC_OK, row);
  const ptc_candidate_t best = r.planner.found.best;
  ptc_candidate_t next;
  const bool has_next = ptc_rule_next(&r.planner, &next);
  end(&r, &ctx);
  double least = INFINITY, second = INFINITY;
  for (int64_t pp = 1; pp <= world; pp++)
    for (int64_t ep = 1; ep <= world / pp; ep++)
      for (int64_t cp = 1; cp <= world / (pp * ep); cp++)
        for (int64_t tp = 1; tp <= world / (pp * ep * cp); tp++) {
          if (world % (pp * ep * cp * tp)) continue;
          const int64_t dp = world / (pp * ep * cp * tp);
          const setting_t mesh[] = {{"pp", pp}, {"dp", dp}, {"ep", ep}, {"cp", cp}, {"tp", tp}};
          const ptc_status_t status =
              choose(&r, &ctx, model, 8, world, memory, mesh, 5, "choose-mesh");
          const ptc_candidate_t *own = &r.planner.found.best;
          uint32_t names = 0;
          for (int p = 0; p < PTC_MAX_PIECES; p++) names |= own->choice.names[p];
          if (status == PTC_OK && (tp == 1 || names)) {
            least = fmin(least, own->value);
            if (memcmp(own->choice.size, best.choice.size, sizeof(best.choice.size)) != 0)
              second = fmin(second, own->value);
            UNIT_CHECK(memory <= 0 || own->predicted.memory_bytes <= memory, row);
          }
          end(&r, &ctx);
        }
  UNIT_CHECK(fabs(least / best.value - 1) < 1e-9, row);
  UNIT_CHECK(has_next == !isinf(second), row);
  // ep that splits nothing of its own is not searched.
  UNIT_CHECK(!has_next || next.value >= second * (1 - 1e-9), row);
  UNIT_CHECK(memory <= 0 || best.predicted.memory_bytes <= memory, row);
}

static void test_meshes(void) {
  check_meshes("gpt2", 4, 0);
  check_meshes("mixtral", 4, 0);
  check_meshes("bert", 6, 0);
  check_meshes("llama3", 8, 0);
}

// --- memory

static bool has_id(const ptc_diag_t *diag, const char *id) {
  for (int64_t i = 0; i < diag->num_items; i++)
    if (diag->items[i].id && strcmp(diag->items[i].id, id) == 0) return true;
  return false;
}

static void test_memory(void) {
  // All that can give way is what is saved.
  static const setting_t given[] = {{"dp", 4}, {"micro_batch", 2}, {"zero", 3}};
  ruled_t r;
  ptc_pass_ctx_t ctx;
  CU_ASSERT(choose(&r, &ctx, "gpt2", 8, 4, 0, given, 3, "choose-mesh") == PTC_OK);
  const ptc_candidate_t free = r.planner.found.best;
  CU_ASSERT(free.choice.recompute == PTC_RECOMPUTE_NONE);
  end(&r, &ctx);
  bool refused = false, computes_again = false;
  for (double part = 0.99; !refused && part > 0.1; part -= 0.02) {
    const double memory = part * free.predicted.memory_bytes;
    const ptc_status_t status = choose(&r, &ctx, "gpt2", 8, 4, memory, given, 3, "choose-mesh");
    const ptc_candidate_t *best = &r.planner.found.best;
    if (status == PTC_OK) {
      CU_ASSERT(best->predicted.memory_bytes <= memory);
      CU_ASSERT(best->choice.recompute != PTC_RECOMPUTE_NONE);
      computes_again = true;
    } else {
      CU_ASSERT(has_id(&r.diag, "out-of-memory"));
      refused = true;
    }
    end(&r, &ctx);
  }
  CU_ASSERT(refused && computes_again);
  // Left alone, it is not computed again as long as another split fits.
  CU_ASSERT(choose(&r, &ctx, "gpt2", 8, 4, 0.98 * free.predicted.memory_bytes, NULL, 0,
                   "choose-mesh") == PTC_OK);
  CU_ASSERT(r.planner.found.best.choice.recompute == PTC_RECOMPUTE_NONE);
  end(&r, &ctx);
}

// A memory that is only supposed: the choice is that of any amount, and a warning says so.
static void test_supposed(void) {
  for (int tight = 0; tight < 2; tight++) {
    ruled_t r = {0};
    ptc_diag_init(&r.diag);
    r.module = lower("gpt2", 8, &r.diag);
    ptc_attrs_set_int(r.module, &r.module->config, "world", 4);
    r.planner =
        (ptc_planner_t){.cluster = ptc_rule_cluster(&r.arena, PTC_RULE_CPU, 4, tight ? 1e3 : 1e12),
                        .arena = &r.arena,
                        .supposes_memory = true};
    const ptc_pass_options_t options = {
        .stop_after = "choose-mesh", .choose = ptc_rule_choose_hook, .planner = &r.planner};
    ptc_pass_ctx_t ctx;
    ptc_pass_ctx_init(&ctx, &options);
    CU_ASSERT(ptc_pipeline_train(&ctx, r.module) == PTC_OK && r.planner.found.feasible);
    CU_ASSERT(has_id(&r.diag, "rule-memory") == (tight == 1));
    end(&r, &ctx);
  }
}

// --- what is given

static void test_given(void) {
  static const setting_t rows[][2] = {{{"pp", 2}, {"micro_batch", 1}},
                                      {{"tp", 2}, {"zero", 3}},
                                      {{"cp", 2}, {"zero", 0}},
                                      {{"dp", 4}, {"zero", 2}},
                                      {{"ep", 2}, {"dp", 2}}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
    ruled_t r;
    ptc_pass_ctx_t ctx;
    UNIT_CHECK(choose(&r, &ctx, "mixtral", 8, 4, 0, rows[i], 2, "choose-mesh") == PTC_OK,
               rows[i][0].name);
    for (int k = 0; k < 2; k++)
      UNIT_CHECK(ptc_attrs_int(&r.module->config, rows[i][k].name, -1) == rows[i][k].value,
                 rows[i][k].name);
    end(&r, &ctx);
  }
  // every(N) has no mode of its own in the planner.
  ruled_t r = {0};
  ptc_diag_init(&r.diag);
  r.module = lower("gpt2", 8, &r.diag);
  ptc_attrs_set_int(r.module, &r.module->config, "world", 2);
  ptc_attrs_set_string(r.module, &r.module->config, "recompute", "every");
  ptc_attrs_set_int(r.module, &r.module->config, "recompute_every", 2);
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, NULL);
  CU_ASSERT(ptc_pipeline_train(&ctx, r.module) == PTC_OK);
  CU_ASSERT_STRING_EQUAL(ptc_attrs_string(&r.module->config, "recompute", ""), "every");
  end(&r, &ctx);
}

// Three samples on two ranks: with tp, and where that is not to be, on dp, one of them padded.
static void test_padded(void) {
  static const setting_t others[] = {{"tp", 1}, {"pp", 1}, {"cp", 1}, {"ep", 1}};
  ruled_t r;
  ptc_pass_ctx_t ctx;
  CU_ASSERT(choose(&r, &ctx, "gpt2", 3, 2, 0, NULL, 0, "choose-mesh") == PTC_OK);
  CU_ASSERT(r.planner.found.feasible && ptc_attrs_int(&r.module->config, "dp", 0) == 1);
  end(&r, &ctx);
  CU_ASSERT(choose(&r, &ctx, "gpt2", 3, 2, 0, others, 4, NULL) == PTC_OK);
  CU_ASSERT(!r.planner.found.feasible && ptc_attrs_int(&r.module->config, "dp", 0) == 2);
  end(&r, &ctx);
}

static const unit_test_t tests[] = {{"plans", test_plans},
                                    {"of every mesh the cheapest", test_meshes},
                                    {"memory", test_memory},
                                    {"supposed memory", test_supposed},
                                    {"what is given stays", test_given},
                                    {"padded batches", test_padded}};
UNIT_MAIN("rule", tests)
