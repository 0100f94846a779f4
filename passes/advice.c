#include "passes/advice.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

// --- pipelines

static const double most_idle = 0.15;

// By the planner, or by rule.
static bool was_open(const ptc_module_t *module, const char *name) {
  const ptc_origin_t *origin = ptc_module_find_origin(module, name);
  return origin && (strcmp(origin->place, "planner") == 0 || strcmp(origin->place, "rule") == 0);
}

// Idle share of equal stages, F = B = W.
static double idle_share(ptc_schedule_kind_t kind, int64_t stages, int64_t chunks, int64_t micro) {
  ptc_arena_t arena;
  ptc_arena_init(&arena);
  const double idle = ptc_schedule_bubble(
      ptc_schedule_new(&arena, kind, (int32_t)stages, (int32_t)chunks, (int32_t)micro, NULL));
  ptc_arena_deinit(&arena);
  return idle;
}

void ptc_advise_pipeline(const ptc_module_t *module, ptc_schedule_kind_t kind, int64_t num_stages,
                         int64_t num_chunks, int64_t num_micro) {
  if (num_stages < 2 || num_micro < 4 * num_stages) return;
  if (was_open(module, "train.schedule") && was_open(module, "train.micro_batch")) return;
  const double idle = idle_share(kind, num_stages, num_chunks, num_micro);
  if (idle < most_idle) return;
  ptc_warning(module->diag, (ptc_loc_t){0}, "pipeline-bubble",
              "%" PRId64 " micro-batches on %" PRId64
              " stages leave %.1f %% of the time idle with schedule=%s, even if all stages are "
              "equal: four for each stage are not enough for %.0f %%",
              num_micro, num_stages, 100 * idle, ptc_schedule_name(kind), 100 * most_idle);
  ptc_str_t words = {0};
  const double apart = idle_share(PTC_SCHEDULE_ZB_H1, num_stages, 1, num_micro);
  if (apart < most_idle) ptc_str_printf(&words, "schedule=zero_bubble (%.1f %%), ", 100 * apart);
  if (num_micro % num_stages == 0) {
    const double chunked = idle_share(PTC_SCHEDULE_INTERLEAVED, num_stages, 2, num_micro);
    if (chunked < most_idle)
      ptc_str_printf(&words, "schedule=interleaved(chunks=2) (%.1f %%), ", 100 * chunked);
  }
  // The share is c / (m + c).
  const double c = idle * (double)num_micro / (1 - idle);
  ptc_note(module->diag, (ptc_loc_t){0}, "less is idle with %sor at least %.0f micro-batches",
           words.data ? words.data : "", floor(c * (1 - most_idle) / most_idle + 1e-9) + 1);
  ptc_str_deinit(&words);
}

// --- recomputation

double ptc_recompute_peak(int64_t turns, int64_t period, double carried, double saved) {
  return (double)((turns + period - 1) / period) * carried +
         (double)(period < turns ? period : turns) * saved;
}

void ptc_advise_interval(const ptc_module_t *module, ptc_loc_t loc, int64_t turns, int64_t period,
                         double carried, double saved) {
  int64_t best = 1;
  for (int64_t k = 2; k < turns; k++)
    if (ptc_recompute_peak(turns, k, carried, saved) <
        ptc_recompute_peak(turns, best, carried, saved))
      best = k;
  const double ratio = ptc_recompute_peak(turns, period, carried, saved) /
                       ptc_recompute_peak(turns, best, carried, saved);
  if (!(ratio > 1.25)) return;
  ptc_warning(module->diag, loc, "recompute-interval",
              "recompute=every(%" PRId64 ") of these %" PRId64
              " turns holds %.1f times what every(%" PRId64
              ") does, which computes as much again: every turn's start is %.2g of what it saves",
              period, turns, ratio, best, carried / saved);
}
