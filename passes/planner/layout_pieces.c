// The pieces of a model under a choice.
#include <string.h>

#include "passes/planner/layout_impl.h"

// Groups of turns run forward again, keeping all, and then back: as a program does that computes nothing again.
static void add_group_peaks(const ptc_layout_t *l, ptc_work_pieces_t *out) {
  ptc_layout_t none = {.work = l->work,
                       .w = l->w,
                       .choice = l->choice,
                       .arena = l->arena,
                       .depends = l->depends,
                       .p = &l->w->programs[PTC_RECOMPUTE_NONE]};
  const char *reason;
  if (!ptc_layout_begin(&none, &reason)) return;
  ptc_layout_make_room(&none);
  if (!ptc_layout_infer(&none)) return;
  ptc_layout_make_numbers(&none);
  for (int32_t i = 0; i < out->count; i++) {
    ptc_piece_t own = {0};
    double *peaks = out->items[i].peak_bytes;
    if (out->items[i].count == 1) continue;
    ptc_layout_peaks(&none, PTC_SAVE_PTC, i, &own);
    for (int peak = 0; peak < PTC_NUM_PEAKS; peak++) {
      if (!ptc_peak_is_backward((ptc_peak_t)peak)) continue;
      const bool gathered = peak % PTC_NUM_PEAKS_OF_MANY == PTC_PEAK_BACKWARD_GATHERED;
      const int forward = (peak >= PTC_NUM_PEAKS_OF_MANY ? PTC_NUM_PEAKS_OF_MANY : 0) +
                          (gathered ? PTC_PEAK_FORWARD_GATHERED : PTC_PEAK_FORWARD);
      peaks[peak] = own.peak_bytes[peak] > own.peak_bytes[forward] ? own.peak_bytes[peak]
                                                                    : own.peak_bytes[forward];
    }
  }
}

static void begin_pieces(ptc_layout_t *l, ptc_work_pieces_t *out) {
  const ptc_work_t *work = l->work;
  out->work = work;
  out->items = PTC_ARENA_ARRAY(l->arena, ptc_piece_t, work->num_pieces + 1);
  out->count = work->num_pieces;
  out->micro_batches = l->size[PTC_REF_MICRO];
  for (int32_t i = 0; i < work->num_pieces; i++) {
    out->items[i].name = work->pieces[i].name;
    out->items[i].count = work->pieces[i].count;
  }
}

void ptc_layout_measure(ptc_layout_t *l, ptc_save_profile_t profile, ptc_work_pieces_t *out) {
  begin_pieces(l, out);
  ptc_layout_kernels(l, out->items);
  ptc_layout_params(l, out->items);
  ptc_layout_nets(l, out->items);
  ptc_layout_room(l, profile, out->items);
  if (l->choice->recompute_every > 1 && profile == PTC_SAVE_PTC) add_group_peaks(l, out);
}

void ptc_layout_measure_again(ptc_layout_t *l, ptc_save_profile_t profile, ptc_work_pieces_t *out) {
  begin_pieces(l, out);
  ptc_layout_kernels(l, out->items);
  ptc_layout_nets(l, out->items);
  ptc_layout_room(l, profile, out->items);
}

ptc_status_t ptc_layout_pieces(const ptc_work_t *work, ptc_arena_t *arena,
                               const ptc_choice_t *choice, ptc_save_profile_t profile,
                               ptc_work_pieces_t *out) {
  *out = (ptc_work_pieces_t){.work = work};
  bool depends = false;
  ptc_layout_t l = {
      .work = work, .w = work->impl, .choice = choice, .arena = arena, .depends = &depends};
  l.p = &work->impl->programs[choice->recompute];
  if (!ptc_layout_begin(&l, &out->reason)) return PTC_INFEASIBLE;
  ptc_layout_make_room(&l);
  if (!ptc_layout_infer(&l)) {
    out->reason = "an op cannot be split so";
    return PTC_INFEASIBLE;
  }
  ptc_layout_make_numbers(&l);
  ptc_layout_measure(&l, profile, out);
  return l.overflow ? PTC_INFEASIBLE : PTC_OK;
}
