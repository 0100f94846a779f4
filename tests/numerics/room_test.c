// Proves: the memory that the planner predicts is what the plan has: the values of a step take as many bytes at once as
// was said, within 3 %, and in most cases within a hundredth of a percent; in one stage the arena is as large, where no
// kernel has a workspace. Models, ZeRO, recomputation, micro-batches, precisions, schedules of pipelines, axes.
#include <math.h>
#include <stdlib.h>

#include "tests/support/room_case.h"
#include "tests/support/unit.h"

static const ptc_override_t gpt2[] = {{"d", "64"}, {"heads", "4"}, {"seq", "64"}, {"vocab", "256"}};
static const ptc_override_t llama3[] = {{"d", "64"},     {"heads", "4"}, {"kv_heads", "2"},
                                        {"ffn", "160"},  {"seq", "64"},  {"vocab", "256"}};
static const ptc_override_t mixtral[] = {{"d", "64"},   {"heads", "4"},   {"kv_heads", "2"},
                                         {"ffn", "96"}, {"experts", "4"}, {"seq", "64"},
                                         {"vocab", "256"}};
static const ptc_override_t mamba2[] = {
    {"d", "64"}, {"head_dim", "16"}, {"state", "16"}, {"seq", "64"}, {"vocab", "256"}};

static const struct {
  const char *name;
  const ptc_override_t *settings;
  int num_settings;
} models[] = {
    {"gpt2", gpt2, sizeof gpt2 / sizeof *gpt2},
    {"llama3", llama3, sizeof llama3 / sizeof *llama3},
    {"mixtral", mixtral, sizeof mixtral / sizeof *mixtral},
    {"mamba2", mamba2, sizeof mamba2 / sizeof *mamba2},
};

// |most|: percent that the prediction may be off.
static const struct {
  int model;
  const char *precision, *parallel;
  double most;
  bool arena;  // it is compared, too
} cases[] = {
    {0, "f32", "micro_batch=4", 0.01, true},
    {0, "bf16", "micro_batch=4", 1, true},
    {0, "f32", "micro_batch=16", 3, false},
    {0, "f32", "micro_batch=4,recompute=selective", 0.02, true},
    {0, "f32", "micro_batch=4,recompute=full", 2, true},
    {0, "f32", "micro_batch=4,recompute=every(2)", 2, true},
    {0, "f32", "micro_batch=4,recompute=every(8)", 0.01, true},
    {0, "f32", "dp=2,micro_batch=2", 0.01, true},
    {0, "f32", "dp=2,micro_batch=2,zero=1", 0.01, true},
    {0, "f32", "dp=2,micro_batch=8,zero=1", 2, true},
    {0, "f32", "dp=2,micro_batch=2,zero=2", 0.01, true},
    {0, "f32", "dp=2,micro_batch=2,zero=3", 0.01, true},
    {0, "f32", "tp=2,micro_batch=4", 2, true},
    {0, "f32", "cp=2,micro_batch=4", 1, true},
    {0, "f32", "pp=2,micro_batch=4", 2, false},
    {0, "f32", "pp=2,micro_batch=4,schedule=gpipe", 1, true},
    {0, "f32", "pp=4,micro_batch=2,schedule=zero_bubble", 3, false},
    {0, "f32", "pp=2,micro_batch=2,schedule=interleaved(chunks=2)", 2, false},
    {0, "f32", "pp=2,dp=2,micro_batch=2,zero=1", 1, true},
    {1, "f32", "micro_batch=4", 1, true},
    {1, "f32", "dp=2,micro_batch=2,zero=3", 1, true},
    {1, "f32", "pp=4,micro_batch=2", 2, false},
    {1, "f32", "pp=4,micro_batch=2,schedule=zero_bubble", 2, false},
    {1, "bf16", "dp=2,micro_batch=2,zero=1,recompute=full", 3, true},
    {2, "f32", "micro_batch=4", 2, true},
    {2, "f32", "ep=2,micro_batch=2", 3, true},
    {2, "f32", "pp=2,micro_batch=2,schedule=interleaved(chunks=2)", 3, false},
    {3, "f32", "micro_batch=4", 1, true},
    {3, "f32", "micro_batch=16,recompute=full", 1, true},
    {3, "f32", "pp=2,micro_batch=4", 3, false},
};

static void test_layouts(void) {
  int exact = 0;
  const int num_cases = sizeof cases / sizeof *cases;
  for (int i = 0; i < num_cases; i++) {
    const int m = cases[i].model;
    const room_case_t c = {.model = small_model_find(models[m].name),
                           .layers = "5",
                           .parallel = cases[i].parallel,
                           .precision = cases[i].precision,
                           .batch = "16"};
    room_result_t r;
    char row[256];
    snprintf(row, sizeof row, "%s %s %s", models[m].name, c.precision, c.parallel);
    const bool made = room_case_make(&c, models[m].settings, models[m].num_settings, &r);
    UNIT_CHECK(made, row);
    if (made) {
      const ptc_plan_t *plan = r.emitted[room_largest(&r)].plan;
      const double predicted = room_predicted(&r)->allocated_bytes;
      const double values = 100 * (predicted / (double)room_values(plan, NULL) - 1);
      const double arena = 100 * (predicted / (double)plan->arena_bytes - 1);
      snprintf(row, sizeof row, "%s %s %s: %+.3f %% off, of the arena %+.3f %%", models[m].name,
               c.precision, c.parallel, values, arena);
      UNIT_CHECK(fabs(values) <= cases[i].most, row);
      UNIT_CHECK(!cases[i].arena || fabs(arena) <= cases[i].most + 0.02, row);
      exact += fabs(values) < 0.01;
      if (getenv("PTC_DUMP")) printf("\n  %s", row);
    }
    room_result_end(&r);
  }
  printf("%d of %d within 0.01 %% ", exact, num_cases);
}

static const unit_test_t tests[] = {
    {"layouts", test_layouts},
};
UNIT_MAIN("room", tests)
