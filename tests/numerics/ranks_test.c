// Proves: a plan of many ranks, run on as many threads, trains as the plan of one rank does: initial weights are the
// same in every bit, 10 losses agree within 1e-5, parameters within 1e-3 of the way that they have gone; with clipping
// and dropout. Replicas hold the same bits, and every rank reads from its peers the bytes that the plan states. ZeRO
// 0 and 1, and 2 and 3, give the same bits. A batch that the devices and micro-batches do not divide trains as on one
// rank, too, gradients of the first step within 1e-4 of their norm. PTC_CASES=all
// runs every model on every mesh, PTC_CASES=3-5 the models 3 to 5.
#include <math.h>
#include <stdlib.h>

#include "tests/support/rank_runs.h"
#include "tests/support/small_models.h"
#include "tests/support/unit.h"

static const struct {
  const char *name;
  int dp, ep, cp, tp, zero, micro_batch;
  bool sequence_parallel;
} meshes[] = {
    {"dp 2", .dp = 2},
    {"dp 4, zero 3", .dp = 4, .zero = 3},
    {"tp 2", .tp = 2},
    {"tp 4", .tp = 4},
    {"dp 2, tp 2, zero 1, micro", .dp = 2, .tp = 2, .zero = 1, .micro_batch = 1},
    {"tp 2, sp", .tp = 2, .sequence_parallel = true},
    {"cp 2", .cp = 2},
    {"dp 2, cp 2, zero 2", .dp = 2, .cp = 2, .zero = 2},
    {"ep 2", .ep = 2},
    {"dp 2, ep 2, zero 3", .dp = 2, .ep = 2, .zero = 3},
};
enum { NUM_MESHES = sizeof meshes / sizeof *meshes };

// Batches that do not divide: ranks and micro-batches that are not full, or empty.
static const struct {
  const char *name, *batch;
  int dp, tp, pp, zero, micro_batch;
} uneven[] = {
    {"batch 6 on dp 4", "6", .dp = 4, .zero = 3},
    {"batch 6 on dp 4, micro", "6", .dp = 4, .zero = 1, .micro_batch = 1},
    {"batch 5 on dp 2", "5", .dp = 2, .zero = 1},
    {"batch 5 on dp 2, tp 2, micro", "5", .dp = 2, .tp = 2, .zero = 2, .micro_batch = 2},
    {"batch 5 on pp 2, dp 2, micro", "5", .dp = 2, .pp = 2, .micro_batch = 1},
    {"batch 5, micro", "5", .micro_batch = 2},
};
enum { NUM_UNEVEN = sizeof uneven / sizeof *uneven };

static ptc_module_t *lower(const small_model_t *model, ptc_diag_t *diag) {
  const ptc_override_t more[] = {{"train.clip", "0.5"},
                                 {"train.precision", "f32"},
                                 {strcmp(model->name, "t5") == 0 ? "tgt" : "seq", "8"}};
  return small_model_lower(model, more, strcmp(model->name, "vit") == 0 ? 2 : 3, diag);
}

static void set(ptc_module_t *module, const char *name, int value) {
  ptc_attrs_set_int(module, &module->config, name, value > 0 ? value : 1);
}

static bool run_on(const small_model_t *model, int mesh, int zero, rank_run_t *out_run) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = lower(model, &diag);
  bool ok = module != NULL;
  if (ok && mesh >= 0) {
    set(module, "dp", meshes[mesh].dp);
    set(module, "ep", meshes[mesh].ep);
    set(module, "cp", meshes[mesh].cp);
    set(module, "tp", meshes[mesh].tp);
    ptc_attrs_set_int(module, &module->config, "zero", zero >= 0 ? zero : meshes[mesh].zero);
    ptc_attrs_set_bool(module, &module->config, "sequence_parallel",
                       meshes[mesh].sequence_parallel);
    if (meshes[mesh].micro_batch)
      ptc_attrs_set_int(module, &module->config, "micro_batch", meshes[mesh].micro_batch);
  }
  *out_run = (rank_run_t){0};
  if (ok) ok = rank_run(module, 11, out_run);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
  return ok;
}

static void check(const small_model_t *model, const rank_run_t *one, int mesh) {
  char name[128];
  snprintf(name, sizeof name, "%s on %s", model->name, meshes[mesh].name);
  rank_run_t many;
  const bool ok = run_on(model, mesh, -1, &many);
  UNIT_CHECK(ok, name);
  if (ok) {
    const rank_difference_t d = rank_run_compare(one, &many);
    const bool close = d.initial == 0 && d.loss <= 1e-5 && d.final <= 1e-3;
    if (!close)
      printf("\n%s: %lld initial weights differ, losses by %.2g, final weights by %.2g\n", name,
             (long long)d.initial, d.loss, d.final);
    UNIT_CHECK(close, name);
    UNIT_CHECK(many.replicas_agree, name);
    UNIT_CHECK(many.bytes_agree, name);
    UNIT_CHECK(many.bytes_read > 0, name);
  }
  rank_run_deinit(&many);
}

// Whether models are asked for, and which: [first, end).
static bool wants_models(int *out_first, int *out_end) {
  const char *cases = getenv("PTC_CASES");
  *out_first = 0;
  *out_end = num_small_models;
  if (cases && strcmp(cases, "all") == 0) return true;
  if (!cases || sscanf(cases, "%d-%d", out_first, out_end) != 2) return false;
  if (++*out_end > num_small_models) *out_end = num_small_models;
  return true;
}

static void test_meshes(void) {
  static const struct {
    const char *model;
    unsigned meshes;  // bits
  } few[] = {{"gpt2_dropout", 0x17}, {"llama3", 0x28}, {"mixtral", 0x300}};
  int first, end;
  const bool asked = wants_models(&first, &end);
  for (size_t i = 0; i < sizeof few / sizeof *few && !asked; i++) {
    const small_model_t *model = small_model_find(few[i].model);
    rank_run_t one;
    CU_ASSERT_FATAL(run_on(model, -1, -1, &one));
    CU_ASSERT_EQUAL(one.bytes_read, 0);
    for (int m = 0; m < NUM_MESHES; m++)
      if (few[i].meshes >> m & 1) check(model, &one, m);
    rank_run_deinit(&one);
  }
  for (int i = first; i < end && asked; i++) {
    rank_run_t one;
    printf("%s ", small_models[i].name);
    fflush(stdout);
    CU_ASSERT_FATAL(run_on(&small_models[i], -1, -1, &one));
    for (int m = 0; m < NUM_MESHES; m++) check(&small_models[i], &one, m);
    rank_run_deinit(&one);
  }
}

// Gradients summed and then cut, or cut and then summed; parameters gathered once, or in every turn.
static void test_zero(void) {
  const small_model_t *model = small_model_find("gpt2_dropout");
  rank_run_t runs[4];
  for (int z = 0; z < 4; z++) CU_ASSERT_FATAL(run_on(model, 0, z, &runs[z]));
  for (int z = 1; z < 4; z++) {
    const rank_difference_t d = rank_run_compare(&runs[0], &runs[z]);
    UNIT_CHECK(d.initial == 0 && d.loss == 0 && d.final == 0, z == 1 ? "1" : z == 2 ? "2" : "3");
    UNIT_CHECK(runs[z].bytes_agree && runs[z].replicas_agree, "bytes");
  }
  for (int z = 0; z < 4; z++) rank_run_deinit(&runs[z]);
}

// |row| of uneven on its mesh, or on one rank.
static bool run_uneven(int row, bool one, rank_run_t *out_run) {
  const ptc_override_t more[] = {
      {"train.clip", "0.5"}, {"train.precision", "f32"}, {"train.batch", uneven[row].batch}};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = small_model_lower(small_model_find("gpt2_dropout"), more, 3, &diag);
  *out_run = (rank_run_t){0};
  if (module && !one) {
    set(module, "dp", uneven[row].dp);
    set(module, "tp", uneven[row].tp);
    set(module, "pp", uneven[row].pp);
    ptc_attrs_set_int(module, &module->config, "zero", uneven[row].zero);
    if (uneven[row].micro_batch)
      ptc_attrs_set_int(module, &module->config, "micro_batch", uneven[row].micro_batch);
  }
  const bool ok = module && rank_run_with_grads(module, 11, out_run);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
  return ok;
}

static void test_uneven(void) {
  for (int i = 0; i < NUM_UNEVEN; i++) {
    rank_run_t one, many;
    CU_ASSERT_FATAL(run_uneven(i, true, &one));
    const bool ok = run_uneven(i, false, &many);
    UNIT_CHECK(ok, uneven[i].name);
    if (ok) {
      const rank_difference_t d = rank_run_compare(&one, &many);
      const bool close = d.initial == 0 && d.loss <= 1e-5 && d.grad <= 1e-4 && d.final <= 1e-3;
      if (!close)
        printf("\n%s: losses differ by %.2g, gradients by %.2g, final weights by %.2g\n",
               uneven[i].name, d.loss, d.grad, d.final);
      UNIT_CHECK(close, uneven[i].name);
      UNIT_CHECK(many.replicas_agree && many.bytes_agree, uneven[i].name);
    }
    rank_run_deinit(&one);
    rank_run_deinit(&many);
  }
}

static const unit_test_t tests[] = {
    {"meshes", test_meshes},
    {"uneven batches", test_uneven},
    {"zero", test_zero},
};
UNIT_MAIN("ranks", tests)
