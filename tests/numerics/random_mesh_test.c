// Proves: random models, split over random meshes of 2 to 8 devices with random settings of the parallel block, compute
// on all devices what they compute on one: `partition` and what follows keep the meaning of every function, devices
// that hold the same value agree in every bit, and so do the kernels that are made of the ops. PTC_CASES sets the number of random cases, PTC_SEED their first seed.
#include <inttypes.h>
#include <stdlib.h>

#include "frontend/driver/compile.h"
#include "ir/op.h"
#include "passes/check_semantics.h"
#include "passes/pass.h"
#include "tests/support/kernel_eval.h"
#include "tests/support/random_model.h"
#include "tests/support/stage_run.h"
#include "tests/support/unit.h"

// The fixed seeds reach every collective by themselves; the random ones look further.
enum { FIXED_CASES = 16, DEFAULT_CASES = 8 };

// 41488: a parameter that is masked where it is made stays a parameter for the rules.
static const uint64_t failed_once[] = {41488};
enum { NUM_FAILED_ONCE = sizeof failed_once / sizeof *failed_once };

// What is left in exact mode are constants that a kernel rounds to f32. Those of 16 bits change what is largest, and
// moments: there only what is not a number anymore, as padding that is read, shows.
static const double EXACT_BOUND = 5e-5, HALF_BOUND = 1;

static int64_t op_counts[PTC_NUM_OPS], num_done, num_split;

static void count_op(ptc_op_t *op, void *arg) {
  (void)arg;
  op_counts[op->opcode]++;
}

static ptc_status_t run(ptc_module_t *module, const char *stop_after, const char *const *passes,
                        int num_passes) {
  const ptc_pass_options_t options = {
      .stop_after = stop_after, .check_semantics = passes != NULL, .check_seed = 7};
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, &options);
  ptc_status_t status = PTC_OK;
  if (stop_after) status = ptc_pipeline_train(&ctx, module);
  for (int i = 0; i < num_passes && status == PTC_OK; i++)
    status = ptc_pass_run(&ctx, module, passes[i]);
  ptc_pass_ctx_deinit(&ctx);
  return status;
}

// Whether a size of the model does not divide by the mesh: another mesh is tried.
static bool is_refused(const ptc_diag_t *diag) {
  for (int64_t i = 0; i < diag->num_items; i++)
    if (strcmp(diag->items[i].id, "partition-divides") == 0) return true;
  return false;
}

// Runs the functions by their kernels; NULL if they compute what the interpreter does.
static const char *check_kernels(ptc_module_t *module) {
  static const char *const passes[] = {"fuse"};
  if (run(module, NULL, passes, 1) != PTC_OK) return "is not fused";
  const char *precision = ptc_attrs_string(&module->config, "precision", "f32");
  const bool half = strcmp(precision, "f32") != 0;
  for (const ptc_func_t *func = module->funcs; func; func = func->next) {
    char worst[256];
    const double error = module_run_compare(module, func->name, 5, true, worst);
    if (error <= (half ? HALF_BOUND : EXACT_BOUND)) continue;
    fprintf(stderr, "%s: off by %g\n", worst, error);
    return "has kernels that compute something else";
  }
  return NULL;
}

// Whether a model's form cannot be split over stages.
static bool is_split_refused(const ptc_diag_t *diag) {
  for (int64_t i = 0; i < diag->num_items; i++)
    if (strncmp(diag->items[i].id, "split-", 6) == 0) return true;
  return false;
}

// Runs the stages of a pipeline, each on its devices, beside the unsplit program; NULL if they agree in every bit.
static const char *check_stages(ptc_module_t *module) {
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, NULL);
  ptc_stages_t *stages = NULL;
  const char *what = NULL;
  ptc_str_t report = {0};
  if (ptc_split_stages(&ctx, module, &stages) == PTC_OK) {
    ptc_interp_t *whole = ptc_interp_create(module, PTC_INTERP_TYPED);
    stage_run_t stage_run;
    stage_run_open(&stage_run, stages, PTC_INTERP_TYPED);
    ptc_semantics_fill(whole, module, 11);
    stage_run_load(&stage_run, whole, module);
    if (ptc_interp_run(whole, "train") != PTC_OK || !stage_run_step(&stage_run, true))
      what = "does not run in stages";
    else if (!stage_run_compare(&stage_run, whole, module, true, 0, &report))
      what = "is something else in stages";
    stage_run_close(&stage_run);
    ptc_interp_destroy(whole);
    num_split++;
  } else if (!is_split_refused(module->diag)) {
    what = "is not split";
  }
  if (report.len) fprintf(stderr, "%s\n", report.data);
  ptc_str_deinit(&report);
  ptc_stages_destroy(stages);
  ptc_pass_ctx_deinit(&ctx);
  return what;
}

// False if the mesh is refused.
static bool run_text(const ptc_str_t *text, uint64_t seed) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = NULL;
  static const char *const passes[] = {"canonicalize", "partition", "canonicalize"};
  const char *what = NULL;
  if (ptc_compile_text(&diag, "random.ptm", text->data, text->len, NULL, &module) != PTC_OK)
    what = "does not compile";
  else if (run(module, "recompute", NULL, 0) != PTC_OK)
    what = "does not pass the pipeline";
  else if (run(module, NULL, passes, 3) != PTC_OK)
    what = "is not what it was";
  bool refused = is_refused(&diag);
  if (!what && ptc_attrs_int(&module->config, "pp", 1) > 1) what = check_stages(module);
  if (!what) what = check_kernels(module);
  if (!what) {
    for (ptc_func_t *func = module->funcs; func; func = func->next)
      ptc_block_walk(func->body, count_op, NULL);
  } else if (!refused) {
    fprintf(stderr, "seed %" PRIu64 ": %s\n%s", seed, what, text->data);
    ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
  }
  UNIT_CHECK(!what || refused, what ? what : "");
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
  return !refused;
}

static void run_case(uint64_t seed) {
  bool done = false;
  for (uint64_t trial = 0; trial < 8 && !done; trial++) {
    uint64_t random = seed;
    int64_t forms[RANDOM_MODEL_NUM_FORMS] = {0};
    ptc_str_t text = {0};
    random_model_write(&random, &text, forms);
    random += trial;
    random_model_add_mesh(&random, &text);
    if (seed % 3 == 0) random_model_make_uneven(&text);
    done = run_text(&text, seed);
    ptc_str_deinit(&text);
  }
  num_done += done;
}

static void test_models(void) {
  uint64_t seed = unit_seed();
  const char *cases = getenv("PTC_CASES");
  int64_t count = cases ? atoll(cases) : DEFAULT_CASES;
  for (uint64_t i = 1; i <= FIXED_CASES; i++) run_case(i);
  for (int i = 0; i < NUM_FAILED_ONCE; i++) run_case(failed_once[i]);
  for (int64_t i = 0; i < count; i++) run_case(seed + (uint64_t)i);
  // A mesh is found for nearly every model.
  CU_ASSERT(num_done * 10 >= (FIXED_CASES + NUM_FAILED_ONCE + count) * 9);
  printf(" %" PRId64 " cases, %" PRId64 " in stages ", num_done, num_split);
}

// After test_models: the collectives were used. Few programs need an all_to_all or a ring.
static void test_collectives(void) {
  for (int i = 0; i < PTC_NUM_OPS; i++) {
    const ptc_op_info_t *info = ptc_op_info((ptc_opcode_t)i);
    if (!(info->traits & PTC_TRAIT_COLLECTIVE)) continue;
    printf(" %s %" PRId64, info->mnemonic, op_counts[i]);
    UNIT_CHECK(op_counts[i] > 0 || i == PTC_OP_ALL_TO_ALL || i == PTC_OP_RING_SHIFT,
               info->mnemonic);
  }
}

static const unit_test_t tests[] = {{"models", test_models}, {"collectives", test_collectives}};
UNIT_MAIN("random_mesh", tests)
