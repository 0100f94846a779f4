// choose-mesh: fills what the config leaves open. With a cluster the planner does that (passes/planner); else a rule fills
// what --world leaves open: dp, tp, zero, sequence_parallel.
//
// Each way to make N ranks of dp and tp is tried on a copy of the module: it is split so, and what a step costs a device
// is taken from the split program. The cheapest way wins, the one with less tp at a tie; then ZeRO 1 and sequence
// parallelism, if nothing is said about them and they cost less. Axes that are given stay as they are. A batch is padded
// only where no way divides it.
#include <inttypes.h>
#include <math.h>

#include "ir/text.h"
#include "passes/parallel.h"
#include "passes/partition.h"
#include "passes/pass.h"

typedef struct choice_s {
  int64_t dp, tp, zero;
  bool sequence_parallel;
} choice_t;

static void apply(ptc_module_t *module, const choice_t *choice) {
  ptc_attrs_set_int(module, &module->config, "dp", choice->dp);
  ptc_attrs_set_int(module, &module->config, "tp", choice->tp);
  ptc_attrs_set_int(module, &module->config, "zero", choice->zero);
  ptc_attrs_set_bool(module, &module->config, "sequence_parallel", choice->sequence_parallel);
}

// Infinite if the copy cannot be split so.
static double cost_of(const ptc_str_t *text, const choice_t *choice) {
  static const char *const passes[] = {"microbatch", "choose-layout", "recompute", "canonicalize"};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *copy = NULL;
  ptc_status_t status = ptc_module_parse(&diag, "copy.ptir", text->data, text->len, &copy);
  const ptc_pass_options_t options = {.no_verify = true};
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, &options);
  if (status == PTC_OK) {
    apply(copy, choice);
    ptc_module_derive_properties(copy);
  }
  for (size_t i = 0; i < sizeof(passes) / sizeof(*passes) && status == PTC_OK; i++)
    status = ptc_pass_run(&ctx, copy, passes[i]);
  double cost = INFINITY;
  if (status == PTC_OK && ptc_partition_cost(copy, &ctx.scratch, &cost) != PTC_OK) cost = INFINITY;
  ptc_pass_ctx_deinit(&ctx);
  ptc_module_destroy(copy);
  ptc_diag_deinit(&diag);
  return cost;
}

// Takes |other| if it is cheaper.
static void consider(const ptc_str_t *text, const choice_t *other, choice_t *best, double *cost) {
  const double own = cost_of(text, other);
  if (own >= *cost) return;
  *best = *other;
  *cost = own;
}

static ptc_status_t choose(ptc_module_t *module, int64_t ranks) {
  const ptc_attrs_t *config = &module->config;
  const int64_t batch = ptc_attrs_int(config, "batch", 1), ep = ptc_attrs_int(config, "ep", 1);
  const int64_t samples = ptc_attrs_int(config, "micro_batch", 1) * ep;
  const bool has_zero = ptc_attrs_find(config, "zero") != NULL;
  const bool has_sequence = ptc_attrs_find(config, "sequence_parallel") != NULL;
  const int64_t tp_given = ptc_attrs_int(config, "tp", 0),
                dp_given = ptc_attrs_int(config, "dp", 0);
  ptc_str_t text = {0};
  ptc_module_print(module, false, &text);
  choice_t best = {0};
  double cost = INFINITY;
  for (int pads = 0; pads < 2 && isinf(cost); pads++) {
    for (int64_t tp = 1; tp <= ranks; tp++) {
      choice_t choice = {ranks / tp, tp, ptc_attrs_int(config, "zero", 0),
                         ptc_attrs_bool(config, "sequence_parallel", false)};
      const bool divides = batch % (choice.dp * samples) == 0;
      if (ranks % tp || (tp_given && tp != tp_given) || (dp_given && choice.dp != dp_given) ||
          divides == (pads > 0) || choice.dp > batch)
        continue;
      consider(&text, &choice, &best, &cost);
    }
  }
  if (isinf(cost)) {
    ptc_str_deinit(&text);
    return ptc_error(module->diag, (ptc_loc_t){0}, PTC_INFEASIBLE, "no-mesh",
                     "no dp and tp of together %" PRId64
                     " ranks split this model with a batch of "
                     "%" PRId64 "; give other sizes, or dp and tp themselves",
                     ranks, batch);
  }
  choice_t other = best;
  other.zero = 1;
  if (!has_zero && best.dp > 1) consider(&text, &other, &best, &cost);
  other = best;
  other.sequence_parallel = true;
  if (!has_sequence && best.tp > 1) consider(&text, &other, &best, &cost);
  ptc_str_deinit(&text);
  apply(module, &best);
  return PTC_OK;
}

ptc_status_t ptc_pass_choose_mesh(ptc_pass_ctx_t *ctx, ptc_module_t *module) {
  if (ctx->options.choose) return ctx->options.choose(ctx->options.planner, module);
  const ptc_attrs_t *config = &module->config;
  const int64_t world = ptc_attrs_int(config, "world", 0);
  int64_t others = 1;
  for (int i = 0; i < PTC_NUM_DEVICE_AXES; i++)
    if (i != PTC_AXIS_DP && i != PTC_AXIS_TP)
      others *= ptc_attrs_int(config, ptc_device_axis_names[i], 1);
  const bool open = !ptc_attrs_find(config, "dp") || !ptc_attrs_find(config, "tp");
  // What does not give the world is an error of the next who reads the config.
  if (world <= 1 || !open || world % others) return PTC_OK;
  return choose(module, world / others);
}
