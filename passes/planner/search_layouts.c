// The layouts of the space: what lies on tp, cp and ep, for each micro-batch and recompute mode, and the least time that a
// device needs for its part of a step. The sets of names that lie on tp are chosen here.
#include <math.h>
#include <string.h>

#include "passes/planner/predict_mixed.h"
#include "passes/planner/search_impl.h"

// Up to so many names, and on so many devices, every set of them is tried.
enum {
  ALL_NAMES = 6,
  MOST_NAMES = 12,
  ALL_DEVICES = 16,
  MAX_SETS = 1 << ALL_NAMES,
  MOST_SETS = 16
};

int32_t ptc_search_divisors(int64_t n, int64_t *out) {
  int32_t count = 0;
  for (int64_t d = 1; d * d <= n && count < PTC_MAX_DIVISORS; d++)
    if (n % d == 0) out[count++] = d;
  for (int32_t i = count - 1; i >= 0 && count < PTC_MAX_DIVISORS; i--)
    if (out[i] * out[i] != n) out[count++] = n / out[i];
  return count;
}

static void set_names(ptc_choice_t *choice, uint32_t set) {
  for (int32_t i = 0; i < PTC_MAX_PIECES; i++) choice->names[i] = set;
}

// NULL: the model does not allow it.
static ptc_form_t *make_form(ptc_search_t *s, const ptc_choice_t *choice, ptc_arena_t *arena) {
  ptc_form_t *form;
  s->out->layouts++;
  return ptc_layout_form(s->work, arena, choice, s->stack->saves, &form) == PTC_OK ? form : NULL;
}

ptc_form_t *ptc_search_form(ptc_search_t *s, const ptc_choice_t *choice) {
  uint64_t hash = choice->names[0] ^ (uint64_t)choice->recompute << 20 ^
                  (uint64_t)choice->sequence_parallel << 22;
  for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++)
    hash = (hash ^ (uint64_t)choice->size[a]) * UINT64_C(0x9e3779b97f4a7c15);
  ptc_kept_form_t **bucket = &s->forms[hash >> 32 & (PTC_FORM_BUCKETS - 1)];
  for (ptc_kept_form_t *f = *bucket; f; f = f->next)
    if (memcmp(f->choice.size, choice->size, sizeof(choice->size)) == 0 &&
        f->choice.names[0] == choice->names[0] && f->choice.recompute == choice->recompute &&
        f->choice.sequence_parallel == choice->sequence_parallel)
      return f->form;
  ptc_kept_form_t *kept = PTC_ARENA_NEW(&s->form_arena, ptc_kept_form_t);
  *kept = (ptc_kept_form_t){*choice, make_form(s, choice, &s->form_arena), *bucket};
  *bucket = kept;
  return kept->form;
}

void ptc_search_end_forms(ptc_search_t *s) {
  for (int32_t i = 0; i < PTC_FORM_BUCKETS; i++)
    for (ptc_kept_form_t *f = s->forms[i]; f; f = f->next)
      if (f->form) ptc_form_end(f->form);
  memset(s->forms, 0, sizeof(s->forms));
  ptc_arena_deinit(&s->form_arena);
}

double ptc_search_share(const ptc_search_t *s, const ptc_choice_t *choice) {
  return (double)s->work->batch / (double)choice->micro_batch *
         (double)(choice->size[PTC_AXIS_CP] * choice->size[PTC_AXIS_TP]) / (double)s->devices;
}

// False: the model does not allow it. Times are open.
static bool find_pieces(ptc_form_t *form, const ptc_choice_t *choice, ptc_timed_layout_t *out) {
  const ptc_work_pieces_t *pieces = form ? ptc_form_at(form, choice->micro_batch) : NULL;
  if (!pieces) return false;
  out->choice = *choice;
  out->pieces = *pieces;
  return true;
}

static void find_times(ptc_search_t *s, ptc_known_times_t *known, ptc_timed_layout_t *out) {
  const ptc_choice_t *choice = &out->choice;
  // Where groups of tp, cp and ep lie depends on the product of dp and pp alone.
  ptc_choice_t placed = *choice;
  placed.size[PTC_AXIS_DP] = s->devices / (choice->size[PTC_AXIS_TP] * choice->size[PTC_AXIS_CP] *
                                           choice->size[PTC_AXIS_EP] * choice->size[PTC_AXIS_PP]);
  ptc_predict_pieces_known(&out->pieces, s->cluster, s->stack, &placed, known, out->times);
  // A bound is of the fastest devices.
  ptc_piece_time_t fastest[PTC_MAX_PIECES];
  const bool mixed = s->cluster->num_groups > 1;
  if (mixed) ptc_predict_fastest(&out->pieces, s->cluster, s->stack, &placed, fastest);
  double seconds = 0;
  out->again = INFINITY;
  for (int32_t i = 0; i < out->pieces.count; i++) {
    const ptc_piece_time_t *t = mixed ? &fastest[i] : &out->times[i];
    seconds += ptc_piece_seconds(t) * (double)out->pieces.items[i].count;
    if (out->pieces.items[i].count > 1)
      out->again = fmin(out->again, t->again + (mixed ? 0 : t->exposed_again));
  }
  if (isinf(out->again)) out->again = 0;
  out->work = seconds * ptc_search_share(s, choice);
}

bool ptc_search_lay_out(ptc_search_t *s, ptc_form_t *form, const ptc_choice_t *choice,
                        ptc_timed_layout_t *out) {
  if (!find_pieces(form, choice, out)) return false;
  ptc_known_times_t known;
  known.num_nets = known.num_gemms = 0;
  find_times(s, &known, out);
  return true;
}

static void keep_layout(ptc_search_t *s, const ptc_timed_layout_t *layout) {
  if (s->num_layouts == s->capacity_layouts) {
    s->capacity_layouts = s->capacity_layouts ? 2 * s->capacity_layouts : 256;
    ptc_rough_t *grown = PTC_ARENA_ARRAY(s->arena, ptc_rough_t, s->capacity_layouts);
    if (s->num_layouts) memcpy(grown, s->layouts, sizeof(*grown) * (size_t)s->num_layouts);
    s->layouts = grown;
  }
  s->layouts[s->num_layouts++] = (ptc_rough_t){layout->choice, layout->work};
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
  set_names(&choice, set);
  ptc_arena_t scratch = {0};
  ptc_form_t *form = make_form(s, &choice, &scratch);
  bool ok = form != NULL;
  for (int32_t i = 0; i < 2 && ok; i++) {
    ptc_timed_layout_t layout;
    choice.micro_batch = micro[i];
    ok = ptc_search_lay_out(s, form, &choice, &layout);
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
  if (form) ptc_form_end(form);
  ptc_arena_deinit(&scratch);
  return ok;
}

static double worth(const ptc_search_t *s, const rated_t *r) {
  return s->objective == PTC_OBJECTIVE_MEMORY ? r->bytes : r->seconds;
}

// Every set of names that lays some parameter in a way of its own; 1 << MOST_NAMES at most.
static int32_t all_sets(const ptc_search_t *s, ptc_choice_t choice, uint32_t *sets) {
  const int32_t bits = s->work->num_names < MOST_NAMES ? s->work->num_names : MOST_NAMES;
  uint64_t hashes[1 << MOST_NAMES];
  int32_t count = 0;
  for (uint32_t set = 0; set < 1u << bits; set++) {  // 0: all ranks of tp do the same
    set_names(&choice, set);
    const uint64_t hash = ptc_layout_params_hash(s->work, &choice);
    bool known = hash == 0;
    for (int32_t i = 0; i < count && !known; i++) known = hashes[i] == hash;
    if (known) continue;
    hashes[count] = hash;
    sets[count++] = set;
  }
  return count;
}

static bool takes_all_sets(const ptc_search_t *s) {
  return s->devices <= ALL_DEVICES && s->work->num_names <= ALL_NAMES;
}

// The sets of names that may be best for some micro-batch: none of them is beaten in time, at the smallest and at a
// large micro-batch, and in memory by another.
static int32_t choose_sets(ptc_search_t *s, ptc_choice_t choice, uint32_t *sets) {
  if (choice.size[PTC_AXIS_TP] == 1) {
    sets[0] = 0;
    return 1;
  }
  if (s->fixed->has_names) {
    sets[0] = s->fixed->names;
    return 1;
  }
  if (takes_all_sets(s)) return all_sets(s, choice, sets);
  choice.recompute = PTC_RECOMPUTE_NONE;
  int64_t micro[2] = {1, 1};
  for (int64_t m = 2; m <= 8; m++)
    if (s->work->batch % m == 0) micro[1] = m;
  uint32_t all[1 << MOST_NAMES];
  const int32_t num_all = all_sets(s, choice, all);
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
  const int32_t most = s->devices > 64 ? 4 : MOST_SETS;
  while (count > 0 && num < most) {
    int32_t best = 0;
    for (int32_t i = 1; i < count; i++)
      if (worth(s, &kept[i]) < worth(s, &kept[best])) best = i;
    sets[num++] = kept[best].set;
    kept[best] = kept[--count];
  }
  return num;
}

static bool too_large(const ptc_search_t *s, const ptc_timed_layout_t *layout) {
  return s->capacity > 0 && ptc_predict_least_bytes(&layout->pieces, s->cluster, s->stack,
                                                    &layout->choice, s->devices) > s->capacity;
}

static void add_set(ptc_search_t *s, ptc_choice_t choice, ptc_form_t *const *forms) {
  int64_t micros[PTC_MAX_DIVISORS];
  const int32_t num_micros = ptc_search_divisors(s->work->batch, micros);
  bool full[PTC_NUM_RECOMPUTE_MODES] = {false};
  for (int32_t i = 0; i < num_micros; i++) {
    if (!ptc_search_open_or(s->fixed->micro_batch, micros[i])) continue;
    choice.micro_batch = micros[i];
    ptc_known_times_t known;
    known.num_nets = known.num_gemms = 0;
    for (int32_t mode = 0; mode < PTC_NUM_RECOMPUTE_MODES; mode++) {
      ptc_timed_layout_t layout;
      choice.recompute = mode;
      if (full[mode] || !find_pieces(forms[mode], &choice, &layout)) continue;
      if (!s->keeps_all && too_large(s, &layout)) {
        s->out->pruned++;
        full[mode] = true;  // a larger micro-batch needs more
        continue;
      }
      find_times(s, &known, &layout);
      keep_layout(s, &layout);
    }
  }
}

static void add_layouts(ptc_search_t *s, const ptc_choice_t *base, const uint32_t *sets,
                        int32_t num_sets) {
  for (int32_t n = 0; n < num_sets; n++) {
    ptc_arena_t scratch = {0};
    ptc_form_t *forms[PTC_NUM_RECOMPUTE_MODES] = {0};
    ptc_choice_t choice = *base;
    set_names(&choice, sets[n]);
    for (int32_t mode = 0; mode < PTC_NUM_RECOMPUTE_MODES; mode++) {
      choice.recompute = mode;
      if (s->fixed->recompute < 0 || s->fixed->recompute == mode)
        forms[mode] = make_form(s, &choice, &scratch);
    }
    add_set(s, choice, forms);
    for (int32_t mode = 0; mode < PTC_NUM_RECOMPUTE_MODES; mode++)
      if (forms[mode]) ptc_form_end(forms[mode]);
    ptc_arena_deinit(&scratch);
  }
}

// Whether ep splits anything that dp does not: some traffic of its own, or parameters that its ranks do not share.
static bool has_experts(ptc_search_t *s) {
  ptc_choice_t choice = {
      .size = {1, 1, 2, 1, 1}, .micro_batch = 1, .chunks = 1, .recompute_turns = -1};
  ptc_arena_t scratch = {0};
  ptc_work_pieces_t pieces;
  bool any = false;
  if (s->work->batch % 2 == 0 &&
      ptc_layout_pieces(s->work, &scratch, &choice, s->stack->saves, &pieces) == PTC_OK)
    for (int32_t i = 0; i < pieces.count && !any; i++)
      for (int32_t g = 0; g < pieces.items[i].num_groups; g++)
        any |= !(pieces.items[i].groups[g].axes >> PTC_AXIS_EP & 1);
  ptc_arena_deinit(&scratch);
  return any;
}

void ptc_search_layouts(ptc_search_t *s) {
  const bool experts = s->fixed->size[PTC_AXIS_EP] > 0 || has_experts(s);
  int64_t sizes[PTC_MAX_DIVISORS];
  const int32_t count = ptc_search_divisors(s->devices, sizes);
  const int64_t *fixed = s->fixed->size;
  for (int32_t t = 0; t < count; t++)
    for (int sp = 0; sp < (sizes[t] > 1 ? 2 : 1); sp++) {
      if (!ptc_search_open_or(fixed[PTC_AXIS_TP], sizes[t])) continue;
      if (s->fixed->sequence_parallel >= 0 && sizes[t] > 1 && s->fixed->sequence_parallel != sp)
        continue;
      ptc_choice_t choice = {.size = {1, 1, 1, 1, 1},
                             .micro_batch = 1,
                             .chunks = 1,
                             .recompute_turns = -1,
                             .schedule = PTC_SCHEDULE_1F1B,
                             .sequence_parallel = sp};
      choice.size[PTC_AXIS_TP] = sizes[t];
      uint32_t sets[MAX_SETS];
      int32_t num_sets = choose_sets(s, choice, sets);
      for (int32_t c = 0; c < count && num_sets > 0; c++)
        for (int32_t e = 0; e < count; e++) {
          if (!ptc_search_open_or(fixed[PTC_AXIS_CP], sizes[c]) ||
              !ptc_search_open_or(fixed[PTC_AXIS_EP], sizes[e]))
            continue;
          if (s->devices % (sizes[t] * sizes[c] * sizes[e]) || (sizes[e] > 1 && !experts)) continue;
          choice.size[PTC_AXIS_CP] = sizes[c];
          choice.size[PTC_AXIS_EP] = sizes[e];
          // What one name leaves to another may depend on what lies on the other axes.
          if (takes_all_sets(s) && !s->fixed->has_names) num_sets = choose_sets(s, choice, sets);
          add_layouts(s, &choice, sets, num_sets);
        }
    }
}
