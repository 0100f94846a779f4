// Proves: the stages of a plan hold what the planner predicted that they hold, parameter by parameter, whatever the
// schedule, the chunks and the cuts, where layers differ, with something between two repeats, with tied weights; given
// cuts are predicted and kept; parts that cannot be predicted are said. PTC_CASES asks for more.
#include <math.h>
#include <stdlib.h>

#include "frontend/cluster.h"
#include "frontend/driver/compile.h"
#include "passes/planner/cuts.h"
#include "passes/planner/planner.h"
#include "passes/split_stages.h"
#include "tests/support/small_models.h"
#include "tests/support/unit.h"

// Two stacks of layers of unequal size; what stands between them has parameters of its own.
static const char uneven[] =
    "model uneven(layers = 5, more = 4, d = 16, wide = 24, vocab = 40) {\n"
    "  dim d, b = batch, s = 8, v = vocab, e = 3 * d\n"
    "  param wte[v, d], in[d, e], out[e, d], head[d, v] ~ normal(0.02)\n"
    "  layer large(x[b, s, d]) {\n"
    "    dim f = 8 * wide\n    param w1[d, f], w2[f, d] ~ normal(0.02)\n"
    "    u[b, s, f] = x[b, s, d] * w1[d, f]\n"
    "    y[b, s, d] = gelu(u[b, s, f]) * w2[f, d]\n    return y\n  }\n"
    "  layer small(x[b, s, d]) {\n"
    "    dim g = wide\n    param w1[d, g], w2[g, d] ~ normal(0.02)\n"
    "    u[b, s, g] = x[b, s, d] * w1[d, g]\n"
    "    y[b, s, d] = gelu(u[b, s, g]) * w2[g, d]\n    return y\n  }\n"
    "  input tokens[b, s] : int from text\n  input targets[b, s] : int from text + 1\n"
    "  x[b, s, d] = wte[tokens[b, s], d]\n"
    "  repeat layers { x = x + large(rmsnorm@n[d](x)) }\n"
    "  z[b, s, e] = x[b, s, d] * in[d, e]\n"
    "  x[b, s, d] = gelu(z[b, s, e]) * out[e, d]\n"
    "  repeat more { x = x + small(rmsnorm@m[d](x)) }\n"
    "  logits[b, s, v] = rmsnorm@nf[d](x)[b, s, d] * head[d, v]\n"
    "  loss = cross_entropy[v](logits, targets)\n}\n"
    "train { batch = 8 optimizer = adamw(lr = 1e-4) precision = f32 }\n";

typedef struct case_s {
  const char *model, *layers;  // NULL: |uneven|
  int pp, chunks, micro_batch;
  const char *schedule, *cut;  // NULL: open
} case_t;

typedef struct planned_s {
  ptc_diag_t diag;
  ptc_arena_t arena;
  ptc_module_t *module;
  ptc_planner_t planner;
  ptc_stages_t *stages;
} planned_t;

static ptc_module_t *lower(const case_t *c, ptc_diag_t *diag) {
  const ptc_override_t more[] = {{"train.batch", "8"}, {"layers", c->layers}};
  ptc_module_t *module = NULL;
  if (c->model) return small_model_lower(small_model_find(c->model), more, c->layers ? 2 : 1, diag);
  if (ptc_compile_text(diag, "uneven.ptm", uneven, strlen(uneven), NULL, &module) != PTC_OK)
    ptc_diag_print(diag, stderr, PTC_DIAG_TEXT, false);
  return module;
}

static void set_config(ptc_module_t *module, const case_t *c) {
  ptc_attrs_t *config = &module->config;
  ptc_attrs_remove(config, ptc_module_intern(module, "cut"));
  ptc_attrs_remove(config, ptc_module_intern(module, "schedule"));
  ptc_attrs_remove(config, ptc_module_intern(module, "chunks"));
  ptc_attrs_remove(config, ptc_module_intern(module, "recompute"));
  for (int a = 0; a < PTC_NUM_DEVICE_AXES; a++)
    ptc_attrs_set_int(module, config, ptc_device_axis_names[a], a == PTC_AXIS_PP ? c->pp : 1);
  ptc_attrs_set_int(module, config, "world", c->pp);
  ptc_attrs_set_int(module, config, "micro_batch", c->micro_batch);
  ptc_attrs_set_string(module, config, "schedule", c->schedule);
  if (c->chunks > 1) ptc_attrs_set_int(module, config, "chunks", c->chunks);
  if (c->cut) ptc_attrs_set_string(module, config, "cut", c->cut);
}

static bool plan(const case_t *c, planned_t *p) {
  *p = (planned_t){0};
  ptc_diag_init(&p->diag);
  ptc_cluster_t *cluster = NULL;
  CU_ASSERT_FATAL(ptc_cluster_find(&p->diag, &p->arena, NULL, "dgx_a100:1", &cluster) == PTC_OK);
  p->planner = (ptc_planner_t){.cluster = cluster, .arena = &p->arena};
  p->module = lower(c, &p->diag);
  if (!p->module) return false;
  set_config(p->module, c);
  const ptc_pass_options_t options = {
      .no_verify = true, .choose = ptc_planner_choose_hook, .planner = &p->planner};
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, &options);
  ptc_status_t status = ptc_pipeline_train(&ctx, p->module);
  if (status == PTC_OK) status = ptc_split_stages(&ctx, p->module, &p->stages);
  ptc_pass_ctx_deinit(&ctx);
  if (status != PTC_OK) ptc_diag_print(&p->diag, stderr, PTC_DIAG_TEXT, false);
  return status == PTC_OK;
}

static void plan_end(planned_t *p) {
  ptc_stages_destroy(p->stages);
  if (p->module) ptc_module_destroy(p->module);
  ptc_arena_deinit(&p->arena);
  ptc_diag_deinit(&p->diag);
}

// Elements of the parameters that stage |stage| was predicted to have.
static double predicted_params(const planned_t *p, const ptc_work_pieces_t *pieces,
                               const ptc_stage_pieces_t *stage) {
  double sum = 0;
  for (int32_t i = 0; i < pieces->count; i++)
    for (int32_t g = 0; g < pieces->items[i].num_groups; g++) {
      const ptc_param_group_t *group = &pieces->items[i].groups[g];
      if (group->shared_with >= 0 && stage->times[group->shared_with] > 0) continue;
      sum += stage->times[i] * group->params;
    }
  (void)p;
  return sum;
}

static double planned_params(const ptc_module_t *module) {
  double sum = 0;
  for (int64_t g = 0; g < module->num_globals; g++) {
    const ptc_global_t *global = module->globals[g];
    if (global->kind == PTC_GLOBAL_PARAM)
      sum += (double)(ptc_type_num_elements(global->type) * ptc_type_num_instances(global->type));
  }
  return sum;
}

static void check(const case_t *c, int *uneven_cuts) {
  char row[256];
  planned_t p;
  const bool ok = plan(c, &p);
  snprintf(row, sizeof(row), "%s %s pp=%d %s(%d) cut %s", c->model ? c->model : "uneven",
           c->layers ? c->layers : "", c->pp, c->schedule, c->chunks, c->cut ? c->cut : "open");
  UNIT_CHECK(ok, row);
  const ptc_choice_t *choice = &p.planner.found.best.choice;
  if (ok) {
    ptc_work_pieces_t pieces;
    ptc_piece_time_t times[PTC_MAX_PIECES];
    ptc_part_range_t parts[PTC_MAX_PARTS];
    ptc_stage_pieces_t stages[64];
    UNIT_CHECK(ptc_layout_pieces(p.planner.work, &p.arena, choice, p.planner.stack->saves,
                                 &pieces) == PTC_OK,
               row);
    ptc_predict_pieces(&pieces, p.planner.cluster, p.planner.stack, choice, times);
    UNIT_CHECK(choice->num_cuts == c->pp * c->chunks - 1, row);
    UNIT_CHECK(ptc_predict_stages(&pieces, times, p.planner.cluster, p.planner.stack, choice, parts,
                                  stages),
               row);
    // The prediction of the settled cuts is that of the search.
    ptc_prediction_t again;
    UNIT_CHECK(ptc_predict(&pieces, p.planner.cluster, p.planner.stack, choice, &again) &&
                   fabs(again.step_s / p.planner.found.best.predicted.step_s - 1) < 1e-9,
               row);
    for (int s = 0; s < p.stages->num_stages; s++) {
      const double own = planned_params(p.stages->modules[s]);
      const double there = predicted_params(&p, &pieces, &stages[s]);
      char what[512];
      snprintf(what, sizeof(what), "%s: stage %d has %g parameters, predicted %g", row, s, own,
               there);
      UNIT_CHECK(own == there, what);
    }
    for (int32_t i = 1; i < choice->num_cuts; i++)
      *uneven_cuts += choice->cuts[i] - choice->cuts[i - 1] != choice->cuts[0];
  }
  plan_end(&p);
}

static const case_t cases[] = {
    {NULL, NULL, 2, 1, 2, "1f1b", NULL},
    {NULL, NULL, 3, 1, 2, "gpipe", NULL},
    {NULL, NULL, 4, 1, 1, "zero_bubble", NULL},
    {NULL, NULL, 2, 2, 2, "interleaved", NULL},
    {NULL, NULL, 2, 4, 1, "interleaved", NULL},
    // At the end of a repeat, what stands between goes with what follows; the turns are those of the text.
    {NULL, NULL, 2, 1, 2, "1f1b", "large.4"},
    {NULL, NULL, 3, 1, 2, "zero_bubble", "large.1; small.2"},
    {"gpt2", "5", 3, 1, 2, "1f1b", NULL},
    {"gpt2", "7", 2, 3, 2, "interleaved", NULL},
    {"gpt2", "6", 3, 1, 2, "gpipe", "block.1; block.5"},
    {"llama3", "6", 4, 1, 1, "zero_bubble", NULL},
    {"gemma2", "8", 2, 1, 2, "1f1b", NULL},
    {"mixtral", NULL, 2, 1, 2, "1f1b", NULL},
};

static void test_stages(void) {
  int uneven_cuts = 0;
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) check(&cases[i], &uneven_cuts);
  CU_ASSERT(uneven_cuts > 0);
}

static void test_random(void) {
  static const char *const kinds[] = {"gpipe", "1f1b", "zero_bubble", "interleaved"};
  uint64_t seed = unit_seed();
  const char *text = getenv("PTC_CASES");
  int uneven_cuts = 0;
  for (int i = text ? atoi(text) : 6; i > 0; i--) {
    const int kind = (int)(unit_random(&seed) % 4);
    case_t c = {.pp = 2 + (int)(unit_random(&seed) % 3), .chunks = 1, .schedule = kinds[kind]};
    if (kind == 3) {
      c.pp = 2;
      c.chunks = 2 + (int)(unit_random(&seed) % 3);
    }
    c.micro_batch = 1 << unit_random(&seed) % (c.pp == 2 ? 3 : 2);
    if (kind == 3 && 8 / c.micro_batch % c.pp) c.micro_batch = 1;
    check(&c, &uneven_cuts);
  }
}

static void test_unpredicted(void) {
  const case_t c = {NULL, NULL, 2, 1, 2, "1f1b", "large.0"};
  planned_t p;
  CU_ASSERT_FATAL(plan(&c, &p));
  bool said = false;
  for (int64_t i = 0; i < p.diag.num_items; i++)
    said |= p.diag.items[i].id && strcmp(p.diag.items[i].id, "planner-cuts") == 0;
  CU_ASSERT(said);
  // It is kept all the same.
  CU_ASSERT_STRING_EQUAL(ptc_attrs_string(&p.module->config, "cut", ""), "large.0");
  plan_end(&p);
}

static void test_words(void) {
  const case_t c = {NULL, NULL, 3, 1, 2, "1f1b", "large.1; small.2"};
  planned_t p;
  CU_ASSERT_FATAL(plan(&c, &p));
  ptc_str_t text = {0};
  const ptc_choice_t *choice = &p.planner.found.best.choice;
  // A repeat is called by the first parameters that it takes: its norms.
  ptc_cuts_print(p.planner.work, p.planner.cluster, choice, &text);
  UNIT_CHECK(strcmp(text.data, "begin n.0 | n.1..4 between m.0..1 | m.2..3 end") == 0, text.data);
  ptc_str_deinit(&text);
  // Between the two repeats: behind the last turn of the first one.
  const int64_t cuts[] = {2, 5, 7};
  ptc_choice_t other = *choice;
  other.cuts = cuts;
  other.num_cuts = 3;
  ptc_cuts_write(p.planner.work, &other, &text);
  CU_ASSERT_STRING_EQUAL(text.data, "0:2; 0:5; 1:2");
  ptc_str_deinit(&text);
  plan_end(&p);
}

// The first turns of each repeat on each stage.
static void test_turns(void) {
  static const struct {
    int64_t turns;
    int32_t mode;
    const char *text;
  } rows[] = {{1, PTC_RECOMPUTE_FULL, "0:0-1; 0:2-3; 1:0-1; 1:2-3"},
              {2, PTC_RECOMPUTE_SELECTIVE, "0:0-4; 1:0-4"},
              {3, PTC_RECOMPUTE_FULL, ""},
              {-1, PTC_RECOMPUTE_FULL, ""},
              {1, PTC_RECOMPUTE_NONE, ""}};
  const case_t c = {NULL, NULL, 2, 2, 2, "interleaved", NULL};
  planned_t p;
  CU_ASSERT_FATAL(plan(&c, &p));
  const int64_t cuts[] = {2, 5, 7};
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
    ptc_choice_t choice = p.planner.found.best.choice;
    choice.cuts = cuts;
    choice.num_cuts = 3;
    choice.recompute = rows[i].mode;
    choice.recompute_turns = rows[i].turns;
    ptc_str_t text = {0};
    ptc_cuts_write_turns(p.planner.work, &choice, &text);
    UNIT_CHECK(strcmp(text.len ? text.data : "", rows[i].text) == 0, rows[i].text);
    ptc_str_deinit(&text);
  }
  plan_end(&p);
}

static const unit_test_t tests[] = {{"words", test_words},
                                    {"turns that compute again", test_turns},
                                    {"stages as predicted", test_stages},
                                    {"random pipelines", test_random},
                                    {"parts without turns", test_unpredicted}};
UNIT_MAIN("planner_cuts", tests)
