// Proves: the optimizer pass computes AdamW, SGD, the schedules, clipping and dynamic loss scaling
// as an independent reference does.
#include <math.h>
#include <stdlib.h>

#include "passes/check_semantics.h"
#include "tests/support/pass_runner.h"
#include "tests/support/unit.h"

enum { NUM_W = 3, NUM_U = 4, NUM_STEPS = 12 };

// One step's gradients are inputs: the optimizer alone is tested. u is a bundle.
static const char program_text[] =
    "module \"opt\"\n"
    "config {%s}\n"
    "input @g : f32[d=3]\n"
    "input @\"h.*\" turns (0:1) : 2 x f32[e=2]\n"
    "input @z : f32[d=3]\n"
    "param @w : f32[d=3] {decay = true}\n"
    "param @\"block.*.u\" turns (0:1) : 2 x f32[e=2] {decay = false, lr = 0.5}\n"
    "param @frozen : f32[d=3] {frozen = true}\n"
    "%s"
    "func @train(%%g = @g, %%h = @\"h.*\" (0:1), %%z = @z) {\n"
    "  %%0 = constant {value = 0} : f32[]\n"
    "  return loss \"loss\" = %%0, grad @w = %%g, grad @\"block.*.u\" (0:1) = %%h, "
    "grad @frozen = %%z\n"
    "}\n";

typedef struct setup_s {
  const char *name, *config;
  bool sgd, nesterov;
  double lr, beta1, beta2, eps, decay, momentum, clip;
  const char *schedule;
  double warmup, steps, min_lr, decay_steps;
} setup_t;

static const setup_t setups[] = {
    {.name = "defaults",
     .config = "optimizer = \"adamw\"",
     .lr = 1e-3,
     .beta1 = 0.9,
     .beta2 = 0.999,
     .eps = 1e-8,
     .decay = 0.01,
     .schedule = "constant"},
    {.name = "adamw cosine",
     .sgd = false,
     .config = "optimizer = \"adamw\", lr = 0.02, beta1 = 0.8, beta2 = 0.9, eps = 1e-6, "
               "weight_decay = 0.1, clip = 0.5, lr_schedule = \"cosine\", warmup = 3, steps = 9, "
               "min_lr = 0.002",
     .lr = 0.02,
     .beta1 = 0.8,
     .beta2 = 0.9,
     .eps = 1e-6,
     .decay = 0.1,
     .clip = 0.5,
     .schedule = "cosine",
     .warmup = 3,
     .steps = 9,
     .min_lr = 0.002},
    {.name = "sgd linear",
     .sgd = true,
     .config = "optimizer = \"sgd\", lr = 0.1, momentum = 0.9, weight_decay = 0.02, clip = 100, "
               "lr_schedule = \"linear\", warmup = 2, steps = 10, min_lr = 0.01",
     .lr = 0.1,
     .momentum = 0.9,
     .decay = 0.02,
     .clip = 100,
     .schedule = "linear",
     .warmup = 2,
     .steps = 10,
     .min_lr = 0.01},
    {.name = "sgd nesterov wsd",
     .sgd = true,
     .nesterov = true,
     .config = "optimizer = \"sgd\", lr = 0.1, momentum = 0.7, nesterov = true, "
               "lr_schedule = \"wsd\", warmup = 2, steps = 11, decay_steps = 5, min_lr = 0.01",
     .lr = 0.1,
     .momentum = 0.7,
     .schedule = "wsd",
     .warmup = 2,
     .steps = 11,
     .min_lr = 0.01,
     .decay_steps = 5},
    {.name = "no momentum",
     .sgd = true,
     .config = "optimizer = \"sgd\", lr = 0.25",
     .lr = 0.25,
     .schedule = "constant"},
};

static void load(program_t *program, const char *config, const char *globals) {
  char text[4096];
  snprintf(text, sizeof(text), program_text, config, globals);
  program_parse(program, text);
}

static double clamp01(double x) { return fmin(1, fmax(0, x)); }

static double reference_lr(const setup_t *s, int k) {
  const double pi = acos(-1);
  const double p = clamp01((k - s->warmup) / fmax(1, s->steps - s->warmup));
  double lr = s->lr;
  if (strcmp(s->schedule, "linear") == 0) lr = s->lr + (s->min_lr - s->lr) * p;
  if (strcmp(s->schedule, "cosine") == 0)
    lr = s->min_lr + 0.5 * (s->lr - s->min_lr) * (1 + cos(pi * p));
  if (strcmp(s->schedule, "wsd") == 0 && k > s->steps - s->decay_steps) {
    const double q = clamp01((k - (s->steps - s->decay_steps)) / s->decay_steps);
    lr = s->min_lr + (s->lr - s->min_lr) * (1 - sqrt(q));
  }
  return k + 1 < s->warmup ? lr * (k + 1) / s->warmup : lr;
}

// PyTorch's order of operations: decay first, then the step.
static void reference_update(const setup_t *s, double lr, double decay, int t, double g, double *p,
                             double *m, double *v) {
  if (s->sgd) {
    g += decay * *p;
    *m = s->momentum * *m + g;
    *p -= lr * (s->nesterov ? g + s->momentum * *m : *m);
    return;
  }
  *p *= 1 - lr * decay;
  *m += (1 - s->beta1) * (g - *m);
  *v = s->beta2 * *v + (1 - s->beta2) * g * g;
  const double denominator = sqrt(*v) / sqrt(1 - pow(s->beta2, t)) + s->eps;
  *p -= lr / (1 - pow(s->beta1, t)) * *m / denominator;
}

static bool near(double a, double b) { return fabs(a - b) <= 1e-12 + 1e-9 * fabs(b); }

static void test_updates(void) {
  uint64_t seed = unit_seed();
  for (size_t c = 0; c < sizeof(setups) / sizeof(setups[0]); c++) {
    const setup_t *s = &setups[c];
    program_t program;
    load(&program, s->config, "");
    CU_ASSERT_PTR_NOT_NULL_FATAL(program.module);
    UNIT_CHECK(run_passes_unchecked(program.module, "optimizer", false) == PTC_OK, s->name);
    const ptc_func_t *train = ptc_module_find_func(program.module, "train");
    ptc_interp_t *interp = ptc_interp_create(program.module, PTC_INTERP_EXACT);
    ptc_semantics_fill(interp, program.module, 3);

    double w[NUM_W], u[NUM_U], m[NUM_W + NUM_U] = {0}, v[NUM_W + NUM_U] = {0}, frozen[3];
    double *now_w = global_data(interp, program.module, "w");
    double *now_u = global_data(interp, program.module, "block.*.u");
    memcpy(w, now_w, sizeof(w));
    memcpy(u, now_u, sizeof(u));
    memcpy(frozen, global_data(interp, program.module, "frozen"), sizeof(frozen));
    for (int k = 0; k < NUM_STEPS; k++) {
      double g[NUM_W + NUM_U], norm = 0;
      for (int i = 0; i < NUM_W + NUM_U; i++) {
        g[i] = (double)(unit_random(&seed) >> 11) * 0x1p-53 - 0.5;
        norm += g[i] * g[i];
        if (i < NUM_W) global_data(interp, program.module, "g")[i] = g[i];
        if (i >= NUM_W) global_data(interp, program.module, "h.*")[i - NUM_W] = g[i];
      }
      norm = sqrt(norm);
      UNIT_CHECK(ptc_interp_run(interp, "train") == PTC_OK, s->name);
      const double scale = s->clip > 0 ? fmin(1, s->clip / (norm + 1e-6)) : 1;
      const double lr = reference_lr(s, k);
      for (int i = 0; i < NUM_W + NUM_U; i++) {
        const bool is_w = i < NUM_W;
        reference_update(s, is_w ? lr : 0.5 * lr, is_w ? s->decay : 0, k + 1, g[i] * scale,
                         is_w ? &w[i] : &u[i - NUM_W], &m[i], &v[i]);
      }
      UNIT_CHECK(near(result_value(interp, train, "lr")->data[0], lr), s->name);
      UNIT_CHECK(near(result_value(interp, train, "grad_norm")->data[0], norm), s->name);
      now_w = global_data(interp, program.module, "w");
      now_u = global_data(interp, program.module, "block.*.u");
      for (int i = 0; i < NUM_W; i++) UNIT_CHECK(near(now_w[i], w[i]), s->name);
      for (int i = 0; i < NUM_U; i++) UNIT_CHECK(near(now_u[i], u[i]), s->name);
    }
    UNIT_CHECK(global_data(interp, program.module, "step")[0] == NUM_STEPS, s->name);
    UNIT_CHECK(global_data(interp, program.module, "applied")[0] == NUM_STEPS, s->name);
    UNIT_CHECK(memcmp(global_data(interp, program.module, "frozen"), frozen, sizeof(frozen)) == 0,
               s->name);
    ptc_interp_destroy(interp);
    program_deinit(&program);
  }
}

// The trace of torch.amp.GradScaler (interval 4, start 2^8): log2 of the scale after each step, for
// finite (.) and overflowing (x) gradients.
static void test_loss_scale(void) {
  static const char pattern[] = "....x..x.x........xx...........";
  static const int log2_scale[] = {8, 8, 8, 9, 8, 8, 8, 7, 7, 6, 6, 6, 6, 7, 7, 7,
                                   7, 8, 7, 6, 6, 6, 6, 7, 7, 7, 7, 8, 8, 8, 8};
  program_t program;
  load(&program,
       "optimizer = \"adamw\", lr = 0.01, loss_scale_interval = 4, lr_schedule = \"linear\", "
       "steps = 100, precision = \"f16\"",
       "counter @loss_scale : f32[] {value = 256}\n");
  CU_ASSERT_PTR_NOT_NULL_FATAL(program.module);
  CU_ASSERT_EQUAL_FATAL(run_passes_unchecked(program.module, "optimizer", false), PTC_OK);
  const ptc_func_t *train = ptc_module_find_func(program.module, "train");
  ptc_interp_t *interp = ptc_interp_create(program.module, PTC_INTERP_TYPED);
  ptc_semantics_fill(interp, program.module, 3);
  global_data(interp, program.module, "loss_scale")[0] = 256;
  int applied = 0;
  for (int k = 0; pattern[k]; k++) {
    const double scale = global_data(interp, program.module, "loss_scale")[0];
    double *g = global_data(interp, program.module, "g");
    for (int i = 0; i < NUM_W; i++) g[i] = 0.125 * scale;
    for (int i = 0; i < NUM_U; i++) global_data(interp, program.module, "h.*")[i] = 0;
    if (pattern[k] == 'x') {
      if (k % 2)
        g[1] = INFINITY;
      else
        global_data(interp, program.module, "h.*")[3] = NAN;
    }
    double before[NUM_W];
    memcpy(before, global_data(interp, program.module, "w"), sizeof(before));
    CU_ASSERT_EQUAL(ptc_interp_run(interp, "train"), PTC_OK);
    const double *w = global_data(interp, program.module, "w");
    const bool changed = memcmp(before, w, sizeof(before)) != 0;
    CU_ASSERT_EQUAL(changed, pattern[k] == '.');
    // The schedule goes by applied steps.
    CU_ASSERT_DOUBLE_EQUAL(result_value(interp, train, "lr")->data[0], 0.01 * (1 - applied / 100.0),
                           1e-8);
    applied += pattern[k] == '.';
    if (pattern[k] == '.') {  // a power of two leaves the gradient's bits alone
      CU_ASSERT_DOUBLE_EQUAL(result_value(interp, train, "grad_norm")->data[0], 0.125 * sqrt(3),
                             1e-7);
    }
    CU_ASSERT_EQUAL(global_data(interp, program.module, "applied")[0], applied);
    CU_ASSERT_EQUAL(global_data(interp, program.module, "step")[0], k + 1);
    CU_ASSERT_EQUAL(global_data(interp, program.module, "loss_scale")[0], ldexp(1, log2_scale[k]));
  }
  ptc_interp_destroy(interp);
  program_deinit(&program);
}

static void test_keep_grads(void) {
  program_t program;
  load(&program, "optimizer = \"sgd\", lr = 1", "counter @loss_scale : f32[] {value = 8}\n");
  CU_ASSERT_PTR_NOT_NULL_FATAL(program.module);
  const ptc_pass_options_t options = {.keep_grads = true};
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, &options);
  CU_ASSERT_EQUAL(ptc_pass_run(&ctx, program.module, "optimizer"), PTC_OK);
  ptc_pass_ctx_deinit(&ctx);
  const ptc_func_t *train = ptc_module_find_func(program.module, "train");
  ptc_interp_t *interp = ptc_interp_create(program.module, PTC_INTERP_EXACT);
  ptc_semantics_fill(interp, program.module, 3);
  global_data(interp, program.module, "loss_scale")[0] = 8;
  CU_ASSERT_EQUAL(ptc_interp_run(interp, "train"), PTC_OK);
  const ptc_tensor_t *dw = result_of(interp, train, PTC_RESULT_GRAD, "w");
  const ptc_tensor_t *du = result_of(interp, train, PTC_RESULT_GRAD, "block.*.u");
  CU_ASSERT_PTR_NOT_NULL_FATAL(dw);
  CU_ASSERT_PTR_NOT_NULL_FATAL(du);
  for (int i = 0; i < NUM_W; i++)
    CU_ASSERT_EQUAL(dw->data[i], global_data(interp, program.module, "g")[i] / 8);
  for (int i = 0; i < NUM_U; i++)
    CU_ASSERT_EQUAL(du->data[i], global_data(interp, program.module, "h.*")[i] / 8);
  ptc_interp_destroy(interp);
  program_deinit(&program);
}

static void test_errors(void) {
  static const struct {
    const char *config, *id;
  } rows[] = {{"optimizer = \"lamb\"", "optimizer-kind"},
              {"lr_schedule = \"exponential\"", "lr-schedule"}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    program_t program;
    load(&program, rows[i].config, "");
    CU_ASSERT_PTR_NOT_NULL_FATAL(program.module);
    UNIT_CHECK(run_passes_unchecked(program.module, "optimizer", true) == PTC_INVALID_INPUT,
               rows[i].id);
    UNIT_CHECK(program_has_error(&program, rows[i].id), rows[i].id);
    program_deinit(&program);
  }
  program_t program;
  program_parse(&program,
                "module \"m\"\nparam @w : f32[d=3] {frozen = true}\ninput @g : f32[d=3]\n"
                "func @train(%g = @g) {\n  return grad @w = %g\n}\n");
  CU_ASSERT_PTR_NOT_NULL_FATAL(program.module);
  CU_ASSERT_EQUAL(run_passes_unchecked(program.module, "optimizer", true), PTC_INVALID_INPUT);
  CU_ASSERT(program_has_error(&program, "optimizer-nothing"));
  program_deinit(&program);
}

static const unit_test_t tests[] = {
    {"updates equal the reference", test_updates},
    {"loss scale follows torch.amp", test_loss_scale},
    {"kept gradients are unscaled", test_keep_grads},
    {"errors", test_errors},
};
UNIT_MAIN("optimizer", tests)
