// What a search proves of its result, though it leaves out sets of names.
//
// Whatever lies on tp, on any split: all devices together take at least what one rank of tp and cp takes (ptc_kernel_floor),
// in the largest micro-batches and the recompute mode that takes least. That costs a layout for each mode and ep, most of
// which the search has made.
#include <math.h>

#include "passes/planner/search_impl.h"

// 0: there is none.
static double serial_floor(ptc_search_t *s, ptc_choice_t choice) {
  double floor = INFINITY;
  for (int32_t mode = 0; mode < PTC_NUM_RECOMPUTE_MODES; mode++) {
    if (s->fixed->recompute >= 0 && s->fixed->recompute != mode) continue;
    ptc_timed_layout_t layout;
    bool any_dp;
    choice.recompute = mode;
    choice.micro_batch = 1;
    ptc_form_t *form = ptc_search_any_form(s, &choice, &any_dp);
    const int64_t fixed = s->fixed->micro_batch,
                  samples = s->work->batch / choice.size[PTC_AXIS_EP];
    choice.micro_batch = fixed > 0 && samples % fixed == 0 ? fixed : samples;
    if (!ptc_search_lay_out(s, form, any_dp, &choice, &layout)) return 0;
    floor = fmin(floor, layout.split_floor);
  }
  return floor;
}

// Of every choice, in seconds of a step; 0: none is known.
static double least_seconds(ptc_search_t *s) {
  int64_t sizes[PTC_MAX_DIVISORS];
  const int32_t count = ptc_search_divisors(s->devices, sizes);
  double floor = INFINITY;
  for (int32_t i = 0; i < count; i++) {
    // Where ep splits nothing of its own it is not tried.
    if (!ptc_search_open_or(s->fixed->size[PTC_AXIS_EP], sizes[i]) ||
        (sizes[i] > 1 && !s->experts) || s->work->batch % sizes[i] != 0)
      continue;
    const ptc_choice_t choice = {.size = {1, 1, sizes[i], 1, 1},
                                 .micro_batch = 1,
                                 .chunks = 1,
                                 .recompute_turns = -1,
                                 .schedule = PTC_SCHEDULE_1F1B};
    floor = fmin(floor, serial_floor(s, choice));
  }
  return isinf(floor) ? 0 : floor;
}

void ptc_search_leave(ptc_search_t *s, double low) {
  if (s->objective == PTC_OBJECTIVE_COST)
    low *= s->price / (double)(s->work->batch * s->work->tokens_per_sample);
  s->left_out = fmin(s->left_out, low);
}

void ptc_search_certify(ptc_search_t *s) {
  ptc_search_result_t *out = s->out;
  out->bound = out->gap = NAN;
  if (!out->feasible) {
    out->uncertified = "of what does not fit";
    return;
  }
  if (out->complete) {
    out->bound = fmin(out->best.value, s->left_out);
    out->gap = 1 - out->bound / out->best.value;
    return;
  }
  if (s->objective == PTC_OBJECTIVE_MEMORY) {
    out->uncertified = "of memory where sets of names were left out";
    return;
  }
  if (s->cluster->num_groups > 1) {
    out->uncertified = "of several kinds of nodes where sets of names were left out";
    return;
  }
  double least = least_seconds(s);
  if (s->objective == PTC_OBJECTIVE_COST)
    least *= s->price / (double)(s->work->batch * s->work->tokens_per_sample);
  if (least <= 0) {
    out->uncertified = "where sets of names were left out and the model has no floor";
    return;
  }
  out->bound = fmin(out->best.value, least);
  out->gap = 1 - out->bound / out->best.value;
}
