// The sets of names that a search lays on tp.
#include <math.h>

#include "passes/planner/search_impl.h"

// Up to so many names, and on so many devices, every set of them is tried.
enum { ALL_NAMES = 6, MOST_NAMES = 12, ALL_DEVICES = 16, MOST_SETS = 16 };

void ptc_search_set_names(ptc_choice_t *choice, uint32_t set) {
  for (int32_t i = 0; i < PTC_MAX_PIECES; i++) choice->names[i] = set;
}

// What a set of names costs, piece by piece, since pipelines part them: time at two sizes of micro-batches and once per
// step; memory of parameters, of what is saved and of what lives besides.
enum { RATES = 7 };

typedef struct rated_s {
  uint32_t set;
  int32_t count;
  double rates[PTC_MAX_PIECES][RATES];
  double seconds, bytes;  // of all pieces, at the small size
} rated_t;

static bool dominates(const rated_t *a, const rated_t *b) {
  for (int32_t p = 0; p < a->count; p++)
    for (int32_t r = 0; r < RATES; r++)
      if (a->rates[p][r] > b->rates[p][r]) return false;
  return true;
}

static bool rate(ptc_search_t *s, ptc_choice_t choice, uint32_t set, const int64_t *micro,
                 rated_t *out) {
  *out = (rated_t){.set = set};
  ptc_search_set_names(&choice, set);
  bool ok = true;
  for (int32_t i = 0; i < 2 && ok; i++) {
    ptc_timed_layout_t layout;
    choice.micro_batch = micro[i];
    bool any_dp;
    ptc_form_t *form = ptc_search_any_form(s, &choice, &any_dp);
    ok = ptc_search_lay_out(s, form, any_dp, &choice, &layout);
    if (ok && i == 0) out->seconds = layout.work;
    out->count = ok ? layout.pieces.count : 0;
    for (int32_t p = 0; p < out->count; p++) {
      const ptc_piece_t *piece = &layout.pieces.items[p];
      double *rates = out->rates[p];
      rates[i] = ptc_piece_seconds(&layout.times[p]);
      rates[2] = layout.times[p].step;
      rates[3] = piece->param_bytes + piece->state_bytes;
      rates[4] = piece->saved_bytes[PTC_RECOMPUTE_NONE];
      rates[5 + i] = fmax(piece->peak_forward_bytes, piece->peak_backward_bytes);
      if (i == 0) out->bytes += (double)piece->count * (rates[3] + rates[4]) + rates[5];
    }
  }
  return ok;
}

static double worth(const ptc_search_t *s, const rated_t *r) {
  return s->objective == PTC_OBJECTIVE_MEMORY ? r->bytes : r->seconds;
}

// Every set of names that lays some parameter in a way of its own; 1 << MOST_NAMES at most. |out_others|: there are more, or
// some that do not fit here.
static int32_t all_sets(const ptc_search_t *s, ptc_choice_t choice, uint32_t *sets,
                        bool *out_others) {
  const int32_t bits = s->work->num_names < MOST_NAMES ? s->work->num_names : MOST_NAMES;
  uint64_t hashes[1 << MOST_NAMES];
  int32_t count = 0;
  *out_others = bits < s->work->num_names;
  for (uint32_t set = s->fixed->no_copies; set < 1u << bits; set++) {  // 0: all ranks do the same
    ptc_search_set_names(&choice, set);
    const uint64_t hash = ptc_layout_params_hash(s->work, &choice);
    bool known = hash == 0;
    *out_others |= known;
    for (int32_t i = 0; i < count && !known; i++) known = hashes[i] == hash;
    if (known) continue;
    hashes[count] = hash;
    sets[count++] = set;
  }
  // Who asks for tp gets it, whether anything can lie on it or not.
  if (count == 0 && s->fixed->no_copies && s->fixed->size[PTC_AXIS_TP] > 0) sets[count++] = 0;
  return count;
}

bool ptc_search_takes_all_sets(const ptc_search_t *s) {
  return s->devices <= ALL_DEVICES && s->work->num_names <= ALL_NAMES && s->fixed->most_sets == 0;
}

// The sets of names that may be best for some micro-batch: none of them is beaten in time, at the smallest and at a
// large micro-batch, and in memory by another.
int32_t ptc_search_choose_sets(ptc_search_t *s, ptc_choice_t choice, uint32_t *sets) {
  if (choice.size[PTC_AXIS_TP] == 1) {
    sets[0] = 0;
    return 1;
  }
  if (s->fixed->has_names) {
    sets[0] = s->fixed->names;
    return 1;
  }
  bool others;
  if (ptc_search_takes_all_sets(s)) return all_sets(s, choice, sets, &others);
  choice.recompute = PTC_RECOMPUTE_NONE;
  int64_t micro[2] = {1, 1};
  for (int64_t m = 2; m <= 8; m++)
    if (s->work->batch % m == 0) micro[1] = m;
  uint32_t all[1 << MOST_NAMES];
  const int32_t num_all = all_sets(s, choice, all, &others);
  rated_t kept[64];
  int32_t count = 0;
  for (int32_t n = 0; n < num_all; n++) {
    rated_t own;
    if (!rate(s, choice, all[n], micro, &own)) continue;
    bool beaten = false;
    for (int32_t i = 0; i < count && !beaten; i++) beaten = dominates(&kept[i], &own);
    if (beaten) continue;
    int32_t left = 0;
    for (int32_t i = 0; i < count; i++)
      if (!dominates(&own, &kept[i])) kept[left++] = kept[i];
    count = left;
    if (count < 64) kept[count++] = own;
  }
  // The best by the objective first.
  int32_t num = 0;
  const int32_t most = s->fixed->most_sets > 0 ? s->fixed->most_sets
                       : s->devices > 64       ? 4
                                               : MOST_SETS;
  while (count > 0 && num < most) {
    int32_t best = 0;
    for (int32_t i = 1; i < count; i++)
      if (worth(s, &kept[i]) < worth(s, &kept[best])) best = i;
    sets[num++] = kept[best].set;
    kept[best] = kept[--count];
  }
  // Over ep, sets that agree here may differ.
  if (num < num_all || others || s->experts) s->out->complete = false;
  return num;
}
