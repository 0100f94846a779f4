// A layout of the space: what lies on tp, cp and ep, for one micro-batch and recompute mode, and the least time that a
// device needs for its part of a step.
#include <math.h>
#include <string.h>

#include "passes/planner/predict_mixed.h"
#include "passes/planner/search_impl.h"

int32_t ptc_search_divisors(int64_t n, int64_t *out) {
  int32_t count = 0;
  for (int64_t d = 1; d * d <= n && count < PTC_MAX_DIVISORS; d++)
    if (n % d == 0) out[count++] = d;
  for (int32_t i = count - 1; i >= 0 && count < PTC_MAX_DIVISORS; i--)
    if (out[i] * out[i] != n) out[count++] = n / out[i];
  return count;
}

// NULL: the model does not allow it.
static ptc_form_t *make_form(ptc_search_t *s, const ptc_choice_t *choice, ptc_arena_t *arena) {
  ptc_form_t *form;
  s->out->layouts++;
  // Several kinds of nodes read the kernels of a layout again.
  if (!s->patterns && s->cluster->num_groups == 1) s->patterns = ptc_patterns_new(arena);
  return ptc_layout_form(s->work, arena, s->patterns, choice, s->stack->saves, &form) == PTC_OK
             ? form
             : NULL;
}

ptc_form_t *ptc_search_form(ptc_search_t *s, const ptc_choice_t *choice) {
  const size_t names_size = sizeof(*choice->names) * (size_t)s->work->num_pieces;
  uint64_t hash = (uint64_t)choice->recompute ^ (uint64_t)choice->sequence_parallel << 2;
  for (int32_t p = 0; p < s->work->num_pieces; p++)
    hash = (hash ^ choice->names[p]) * UINT64_C(0x9e3779b97f4a7c15);
  for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++)
    hash = (hash ^ (uint64_t)choice->size[a]) * UINT64_C(0x9e3779b97f4a7c15);
  ptc_kept_form_t **bucket = &s->forms[hash >> 32 & (PTC_FORM_BUCKETS - 1)];
  for (ptc_kept_form_t *f = *bucket; f; f = f->next)
    if (memcmp(f->choice.size, choice->size, sizeof(choice->size)) == 0 &&
        memcmp(f->choice.names, choice->names, names_size) == 0 && f->choice.recompute == choice->recompute &&
        f->choice.sequence_parallel == choice->sequence_parallel)
      return f->form;
  ptc_kept_form_t *kept = PTC_ARENA_NEW(&s->form_arena, ptc_kept_form_t);
  *kept = (ptc_kept_form_t){*choice, make_form(s, choice, &s->form_arena), *bucket};
  *bucket = kept;
  return kept->form;
}

// Some dp above 1 that leaves samples for several micro-batches. 1: there is none.
static int64_t usual_dp(const ptc_search_t *s, const ptc_choice_t *choice) {
  const int64_t *size = choice->size;
  const int64_t rest = s->devices / (size[PTC_AXIS_TP] * size[PTC_AXIS_CP] * size[PTC_AXIS_EP]);
  const int64_t samples = s->work->batch / size[PTC_AXIS_EP];
  for (int64_t dp = 2; dp <= rest && dp < samples; dp++)
    if (rest % dp == 0 && s->work->batch % (dp * size[PTC_AXIS_EP]) == 0) return dp;
  return 1;
}

ptc_form_t *ptc_search_any_form(ptc_search_t *s, const ptc_choice_t *choice, bool *out_serves_all) {
  ptc_choice_t some = *choice;
  some.size[PTC_AXIS_PP] = 1;
  some.size[PTC_AXIS_DP] = usual_dp(s, choice);
  ptc_form_t *form = some.size[PTC_AXIS_DP] > 1 ? ptc_search_form(s, &some) : NULL;
  *out_serves_all = form && ptc_form_serves_all(form);
  if (*out_serves_all) return form;
  some.size[PTC_AXIS_DP] = 1;
  return ptc_search_form(s, &some);
}

void ptc_search_end_forms(ptc_search_t *s) {
  for (int32_t i = 0; i < PTC_FORM_BUCKETS; i++)
    for (ptc_kept_form_t *f = s->forms[i]; f; f = f->next)
      if (f->form) ptc_form_end(f->form);
  memset(s->forms, 0, sizeof(s->forms));
  if (s->patterns) ptc_patterns_end(s->patterns);
  s->patterns = NULL;
  ptc_arena_deinit(&s->form_arena);
}

double ptc_search_share(const ptc_search_t *s, const ptc_choice_t *choice) {
  return (double)s->work->batch / (double)choice->micro_batch *
         (double)(choice->size[PTC_AXIS_CP] * choice->size[PTC_AXIS_TP]) / (double)s->devices;
}

static bool find_pieces(ptc_search_t *s, ptc_form_t *form, bool any_dp, const ptc_choice_t *choice,
                        ptc_timed_layout_t *out) {
  const ptc_work_pieces_t *pieces = !form    ? NULL
                                    : any_dp ? ptc_form_at_any_dp(form, choice->micro_batch)
                                             : ptc_form_at(form, choice->micro_batch);
  if (!pieces) return false;
  out->number = ++s->num_layouts;
  out->choice = *choice;
  out->pieces = *pieces;
  return true;
}

static void find_times(ptc_search_t *s, ptc_timed_layout_t *out) {
  ptc_known_times_t known;
  known.num_nets = known.num_gemms = 0;
  const ptc_choice_t *choice = &out->choice;
  // Where groups of tp, cp and ep lie depends on the product of dp and pp alone.
  ptc_choice_t placed = *choice;
  placed.size[PTC_AXIS_DP] = s->devices / (choice->size[PTC_AXIS_TP] * choice->size[PTC_AXIS_CP] *
                                           choice->size[PTC_AXIS_EP] * choice->size[PTC_AXIS_PP]);
  ptc_predict_pieces_known(&out->pieces, s->cluster, s->stack, &placed, &known, out->times);
  // A bound is of the fastest devices.
  ptc_piece_time_t fastest[PTC_MAX_PIECES];
  const bool mixed = s->cluster->num_groups > 1;
  if (mixed) ptc_predict_fastest(&out->pieces, s->cluster, s->stack, &placed, fastest);
  double seconds = 0, floor = 0;
  out->again = INFINITY;
  for (int32_t i = 0; i < out->pieces.count; i++) {
    const ptc_piece_time_t *t = mixed ? &fastest[i] : &out->times[i];
    seconds += ptc_piece_seconds(t) * (double)out->pieces.items[i].count;
    floor += t->floor * (double)out->pieces.items[i].count;
    if (out->pieces.items[i].count > 1)
      out->again = fmin(out->again, t->again + (mixed ? 0 : t->exposed_again));
  }
  if (isinf(out->again)) out->again = 0;
  out->work = seconds * ptc_search_share(s, choice);
  // The fastest kind of node is another one for another split.
  out->floor = mixed ? 0 : fmin(out->work, floor * ptc_search_share(s, choice));
  out->split_floor = ptc_pieces_move_heads(&out->pieces) ? 0 : out->floor;
}

bool ptc_search_lay_out(ptc_search_t *s, ptc_form_t *form, bool any_dp, const ptc_choice_t *choice,
                        ptc_timed_layout_t *out) {
  if (!find_pieces(s, form, any_dp, choice, out)) return false;
  find_times(s, out);
  return true;
}

bool ptc_search_recall(ptc_search_t *s, ptc_form_t *form, bool any_dp, const ptc_rough_t *rough,
                       ptc_timed_layout_t *out) {
  const ptc_choice_t *choice = &rough->choice;
  // Several kinds of nodes take times of their own.
  if (s->cluster->num_groups > 1) return ptc_search_lay_out(s, form, any_dp, choice, out);
  const ptc_work_pieces_t *pieces = ptc_form_memory_at(form, any_dp, choice->micro_batch);
  if (!pieces) return false;
  out->number = ++s->num_layouts;
  out->choice = *choice;
  out->pieces = *pieces;
  memcpy(out->times, rough->times, sizeof(*out->times) * (size_t)pieces->count);
  out->work = rough->work;
  out->again = rough->again;
  out->floor = out->split_floor = 0;
  return true;
}
