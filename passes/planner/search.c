// Exact for the cost model up to the sets of names that it keeps (README.md), by enumeration with bounds.
//
// The time of a turn of each piece depends on tp, cp, ep, sequence parallelism, the micro-batch, recompute and what lies
// on tp; not on how the other devices are shared between dp and pp. A device's part of a step is then at least
//     batch * (time of all turns for a micro-batch) / micro_batch / (devices / (tp * cp)),
// whatever dp and pp are: no stage is faster than the average one. These layouts are sorted by that bound; under each the
// splits of the rest are tried, until the bound passes the best value found.
#include "passes/planner/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "passes/planner/predict_impl.h"
#include "passes/planner/predict_mixed.h"

const char *const ptc_objective_names[PTC_NUM_OBJECTIVES] = {"time", "cost", "memory", "devices"};

const ptc_fixed_t ptc_fixed_nothing = {
    .zero = -1, .sequence_parallel = -1, .schedule = -1, .recompute = -1};

// Up to so many names, and on so many devices, every set of them is tried.
enum {
  ALL_NAMES = 6,
  MOST_NAMES = 12,
  ALL_DEVICES = 16,
  MAX_SETS = 1 << ALL_NAMES,
  MOST_SETS = 16,
  MAX_DIVISORS = 512
};

// A layout before it is needed again.
typedef struct rough_s {
  ptc_choice_t choice;
  double work;
} rough_t;

// A layout: everything on which the times of pieces depend.
typedef struct layout_s {
  ptc_choice_t choice;       // dp, pp, zero, schedule open
  ptc_work_pieces_t pieces;  // until the form is asked for others
  ptc_piece_time_t times[PTC_MAX_PIECES];
  double work;   // seconds of a device per step at least
  double again;  // seconds to compute a turn again, at least
} layout_t;

// Forms that are needed again.
typedef struct kept_form_s {
  ptc_choice_t choice;
  ptc_form_t *form;  // NULL: there is none
  struct kept_form_s *next;
} kept_form_t;
enum { FORM_BUCKETS = 256, MOST_FORM_BYTES = 128 << 20 };

typedef struct search_s {
  const ptc_work_t *work;
  const ptc_cluster_t *cluster;
  const ptc_stack_t *stack;
  const ptc_fixed_t *fixed;
  ptc_objective_t objective;
  int64_t devices;
  double capacity, price;
  ptc_arena_t *arena;
  ptc_stage_pieces_t stages[PTC_MAX_STAGES];  // of the split at hand
  rough_t *layouts;
  int32_t num_layouts, capacity_layouts;
  bool keeps_all;  // what cannot fit, too
  ptc_arena_t form_arena;
  kept_form_t *forms[FORM_BUCKETS];
  ptc_search_result_t *out;
} search_t;

// --- numbers

static int32_t divisors(int64_t n, int64_t *out) {
  int32_t count = 0;
  for (int64_t d = 1; d * d <= n && count < MAX_DIVISORS; d++)
    if (n % d == 0) out[count++] = d;
  for (int32_t i = count - 1; i >= 0 && count < MAX_DIVISORS; i--)
    if (out[i] * out[i] != n) out[count++] = n / out[i];
  return count;
}

static bool open_or(int64_t fixed, int64_t value) { return fixed == 0 || fixed == value; }

// --- layouts

static void set_names(ptc_choice_t *choice, uint32_t set) {
  for (int32_t i = 0; i < PTC_MAX_PIECES; i++) choice->names[i] = set;
}

// NULL: the model does not allow it.
static ptc_form_t *make_form(search_t *s, const ptc_choice_t *choice, ptc_arena_t *arena) {
  ptc_form_t *form;
  s->out->layouts++;
  return ptc_layout_form(s->work, arena, choice, s->stack->saves, &form) == PTC_OK ? form : NULL;
}

static ptc_form_t *find_form(search_t *s, const ptc_choice_t *choice) {
  uint64_t hash = choice->names[0] ^ (uint64_t)choice->recompute << 20 ^
                  (uint64_t)choice->sequence_parallel << 22;
  for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++)
    hash = (hash ^ (uint64_t)choice->size[a]) * UINT64_C(0x9e3779b97f4a7c15);
  kept_form_t **bucket = &s->forms[hash >> 32 & (FORM_BUCKETS - 1)];
  for (kept_form_t *f = *bucket; f; f = f->next)
    if (memcmp(f->choice.size, choice->size, sizeof(choice->size)) == 0 &&
        f->choice.names[0] == choice->names[0] && f->choice.recompute == choice->recompute &&
        f->choice.sequence_parallel == choice->sequence_parallel)
      return f->form;
  kept_form_t *kept = PTC_ARENA_NEW(&s->form_arena, kept_form_t);
  *kept = (kept_form_t){*choice, make_form(s, choice, &s->form_arena), *bucket};
  *bucket = kept;
  return kept->form;
}

static void end_forms(search_t *s) {
  for (int32_t i = 0; i < FORM_BUCKETS; i++)
    for (kept_form_t *f = s->forms[i]; f; f = f->next)
      if (f->form) ptc_form_end(f->form);
  memset(s->forms, 0, sizeof(s->forms));
  ptc_arena_deinit(&s->form_arena);
}

// Micro-batches of the whole step times devices of one, over devices.
static double step_share(const search_t *s, const ptc_choice_t *choice) {
  return (double)s->work->batch / (double)choice->micro_batch *
         (double)(choice->size[PTC_AXIS_CP] * choice->size[PTC_AXIS_TP]) / (double)s->devices;
}

// False: the model does not allow it. Times are open.
static bool find_pieces(ptc_form_t *form, const ptc_choice_t *choice, layout_t *out) {
  const ptc_work_pieces_t *pieces = form ? ptc_form_at(form, choice->micro_batch) : NULL;
  if (!pieces) return false;
  out->choice = *choice;
  out->pieces = *pieces;
  return true;
}

static void find_times(search_t *s, ptc_known_times_t *known, layout_t *out) {
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
  out->work = seconds * step_share(s, choice);
}

static bool lay_out(search_t *s, ptc_form_t *form, const ptc_choice_t *choice, layout_t *out) {
  if (!find_pieces(form, choice, out)) return false;
  ptc_known_times_t known;
  known.num_nets = known.num_gemms = 0;
  find_times(s, &known, out);
  return true;
}

static void keep_layout(search_t *s, const layout_t *layout) {
  if (s->num_layouts == s->capacity_layouts) {
    s->capacity_layouts = s->capacity_layouts ? 2 * s->capacity_layouts : 256;
    rough_t *grown = PTC_ARENA_ARRAY(s->arena, rough_t, s->capacity_layouts);
    if (s->num_layouts) memcpy(grown, s->layouts, sizeof(*grown) * (size_t)s->num_layouts);
    s->layouts = grown;
  }
  s->layouts[s->num_layouts++] = (rough_t){layout->choice, layout->work};
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

static bool rate(search_t *s, ptc_choice_t choice, uint32_t set, const int64_t *micro,
                 rated_t *out) {
  *out = (rated_t){.set = set};
  set_names(&choice, set);
  ptc_arena_t scratch = {0};
  ptc_form_t *form = make_form(s, &choice, &scratch);
  bool ok = form != NULL;
  for (int32_t i = 0; i < 2 && ok; i++) {
    layout_t layout;
    choice.micro_batch = micro[i];
    ok = lay_out(s, form, &choice, &layout);
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

static double worth(const search_t *s, const rated_t *r) {
  return s->objective == PTC_OBJECTIVE_MEMORY ? r->bytes : r->seconds;
}

// Every set of names that lays some parameter in a way of its own; 1 << MOST_NAMES at most.
static int32_t all_sets(const search_t *s, ptc_choice_t choice, uint32_t *sets) {
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

static bool takes_all_sets(const search_t *s) {
  return s->devices <= ALL_DEVICES && s->work->num_names <= ALL_NAMES;
}

// The sets of names that may be best for some micro-batch: none of them is beaten in time, at the smallest and at a
// large micro-batch, and in memory by another.
static int32_t choose_sets(search_t *s, ptc_choice_t choice, uint32_t *sets) {
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

static bool too_large(const search_t *s, const layout_t *layout) {
  return s->capacity > 0 && ptc_predict_least_bytes(&layout->pieces, s->cluster, s->stack,
                                                    &layout->choice, s->devices) > s->capacity;
}

static void add_set(search_t *s, ptc_choice_t choice, ptc_form_t *const *forms) {
  int64_t micros[MAX_DIVISORS];
  const int32_t num_micros = divisors(s->work->batch, micros);
  bool full[PTC_NUM_RECOMPUTE_MODES] = {false};
  for (int32_t i = 0; i < num_micros; i++) {
    if (!open_or(s->fixed->micro_batch, micros[i])) continue;
    choice.micro_batch = micros[i];
    ptc_known_times_t known;
    known.num_nets = known.num_gemms = 0;
    for (int32_t mode = 0; mode < PTC_NUM_RECOMPUTE_MODES; mode++) {
      layout_t layout;
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

static void add_layouts(search_t *s, const ptc_choice_t *base, const uint32_t *sets,
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
static bool has_experts(search_t *s) {
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

static void find_layouts(search_t *s) {
  const bool experts = s->fixed->size[PTC_AXIS_EP] > 0 || has_experts(s);
  int64_t sizes[MAX_DIVISORS];
  const int32_t count = divisors(s->devices, sizes);
  const int64_t *fixed = s->fixed->size;
  for (int32_t t = 0; t < count; t++)
    for (int sp = 0; sp < (sizes[t] > 1 ? 2 : 1); sp++) {
      if (!open_or(fixed[PTC_AXIS_TP], sizes[t])) continue;
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
          if (!open_or(fixed[PTC_AXIS_CP], sizes[c]) || !open_or(fixed[PTC_AXIS_EP], sizes[e]))
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

// --- splits of a layout

static double value_of(const search_t *s, const ptc_prediction_t *p) {
  switch (s->objective) {
    case PTC_OBJECTIVE_COST: return s->price / p->tokens_per_s;
    case PTC_OBJECTIVE_MEMORY: return p->memory_bytes;
    default: return p->step_s;
  }
}

static bool same_mesh(const ptc_choice_t *a, const ptc_choice_t *b) {
  return memcmp(a->size, b->size, sizeof(a->size)) == 0;
}

// Keeps the best of each mesh.
static void remember(search_t *s, const ptc_candidate_t *found) {
  ptc_search_result_t *out = s->out;
  int32_t at = 0;
  while (at < out->num_top && !same_mesh(&out->top[at].choice, &found->choice)) at++;
  if (at < out->num_top) {
    if (out->top[at].value <= found->value) return;
  } else if (out->num_top < PTC_SEARCH_TOP) {
    out->num_top++;
  } else if (out->top[--at].value <= found->value) {
    return;
  }
  for (; at > 0 && out->top[at - 1].value > found->value; at--) out->top[at] = out->top[at - 1];
  out->top[at] = *found;
}

static void consider(search_t *s, const ptc_choice_t *choice, const ptc_prediction_t *predicted) {
  ptc_search_result_t *out = s->out;
  const ptc_candidate_t found = {*choice, *predicted, value_of(s, predicted)};
  if (!predicted->fits) {
    if (!out->feasible && predicted->memory_bytes < out->best.predicted.memory_bytes)
      out->best = found;
    return;
  }
  remember(s, &found);
  if (out->feasible &&
      (found.value > out->best.value ||
       (found.value == out->best.value && predicted->step_s >= out->best.predicted.step_s)))
    return;
  out->feasible = true;
  out->best = found;
}

static int64_t micro_batches(const search_t *s, const ptc_choice_t *choice) {
  return s->work->batch /
         (choice->size[PTC_AXIS_DP] * choice->size[PTC_AXIS_EP] * choice->micro_batch);
}

static void predict(search_t *s, const layout_t *layout, const ptc_choice_t *choice,
                    bool only_if_fits, ptc_prediction_t *out) {
  s->out->predictions++;
  ptc_work_pieces_t pieces = layout->pieces;
  pieces.micro_batches = micro_batches(s, choice);
  ptc_predict_timed(&pieces, layout->times, s->stages, s->cluster, s->stack, choice, only_if_fits,
                    out);
}

static bool hopeless(search_t *s, double bound) {
  if (s->objective == PTC_OBJECTIVE_MEMORY || !s->out->feasible) return false;
  const double tokens = (double)(s->work->batch * s->work->tokens_per_sample);
  const double value = s->objective == PTC_OBJECTIVE_COST ? s->price * bound / tokens : bound;
  if (value < s->out->best.value) return false;
  s->out->pruned++;
  return true;
}

// Of a stage's turns as few are computed again as memory allows: each one less is faster and needs more.
static bool try_turns(search_t *s, const layout_t *layout, ptc_choice_t choice, int64_t most) {
  ptc_prediction_t predicted;
  choice.recompute_turns = -1;
  predict(s, layout, &choice, s->out->feasible, &predicted);
  consider(s, &choice, &predicted);
  if (!predicted.fits) return false;
  // Who asks for a mode asks for it everywhere.
  const bool open = s->fixed->recompute < 0 && choice.recompute != PTC_RECOMPUTE_NONE;
  if (!open || s->objective == PTC_OBJECTIVE_MEMORY) return true;
  // The fewest are the fastest, whether they fit or not.
  choice.recompute_turns = 1;
  predict(s, layout, &choice, false, &predicted);
  if (predicted.fits) consider(s, &choice, &predicted);
  if (predicted.fits || hopeless(s, predicted.step_s)) return true;
  int64_t low = 1, high = most;  // |high| fits
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    choice.recompute_turns = middle;
    predict(s, layout, &choice, s->out->feasible, &predicted);
    consider(s, &choice, &predicted);
    if (predicted.fits)
      high = middle;
    else
      low = middle;
  }
  return true;
}

static double idle_share(const search_t *s, const layout_t *layout, ptc_schedule_kind_t kind) {
  if (kind != PTC_SCHEDULE_ZB_H1) return 1;
  if (s->cluster->num_groups > 1) return 0;  // each kind of device has a share of its own
  double all = 0, w = 0;
  for (int32_t i = 0; i < layout->pieces.count; i++) {
    all += ptc_piece_seconds(&layout->times[i]) * (double)layout->pieces.items[i].count;
    w += layout->times[i].weight_grad * (double)layout->pieces.items[i].count;
  }
  return all > 2 * w ? (all - 2 * w) / all : 0;
}

// What no cuts change, for each zero.
typedef struct outlook_s {
  bool open, may_fit;
  ptc_room_t room;
  double seconds;  // of a step at least
} outlook_t;

static void measure_rooms(const search_t *s, const layout_t *layout, ptc_choice_t choice,
                          outlook_t outlooks[4]) {
  const int64_t *size = choice.size;
  const bool replicas = size[PTC_AXIS_DP] * size[PTC_AXIS_EP] * size[PTC_AXIS_CP] > 1;
  for (int64_t zero = 0; zero < 4; zero++) {
    outlook_t *o = &outlooks[zero];
    choice.zero = zero;
    // Without replicas they are one, but for a stack that keeps no copies then.
    o->open = s->fixed->zero >= 0 ? s->fixed->zero == zero
                                  : zero == 0 || replicas || (zero == 3 && s->stack->masters_alone);
    if (o->open) ptc_predict_room(&layout->pieces, s->cluster, s->stack, &choice, &o->room);
  }
}

// The most bytes with which something is still of use.
static double worth_bytes(const search_t *s) {
  const ptc_search_result_t *out = s->out;
  if (s->capacity <= 0) return INFINITY;
  if (!out->feasible) return fmax(s->capacity, out->best.predicted.memory_bytes);
  return s->objective == PTC_OBJECTIVE_MEMORY ? fmin(s->capacity, out->best.value) : s->capacity;
}

// False: nothing comes of it.
static bool look_out(search_t *s, const layout_t *layout, const ptc_choice_t *choice,
                     double seconds, outlook_t outlooks[4]) {
  const double bytes = worth_bytes(s);
  bool any = false;
  for (int64_t zero = 0; zero < 4; zero++) {
    outlook_t *o = &outlooks[zero];
    if (!o->open) continue;
    double again;
    o->may_fit =
        ptc_room_may_fit(&o->room, s->stack, choice, micro_batches(s, choice), bytes, &again);
    o->seconds = seconds + again * layout->again * step_share(s, choice);
    any |= o->may_fit && !hopeless(s, o->seconds);
  }
  return any;
}

// Zero from the most to the least: 1 needs no less memory than 2, and 0 no less than 1.
static void try_zeros(search_t *s, const layout_t *layout, ptc_choice_t choice, int64_t turns,
                      const outlook_t outlooks[4]) {
  for (int64_t zero = 3; zero >= 0; zero--) {
    const outlook_t *o = &outlooks[zero];
    if (!o->open) continue;
    choice.zero = zero;
    if (o->may_fit && hopeless(s, o->seconds)) continue;
    if (!(o->may_fit && try_turns(s, layout, choice, turns)) && zero < 3) return;
  }
}

// Of a repeat, on a stage, with the cuts at hand.
static int64_t most_turns(const search_t *s, const layout_t *layout, int64_t stages) {
  int32_t most = 1;
  for (int32_t i = 0; i < layout->pieces.count; i++)
    for (int64_t stage = 0; layout->pieces.items[i].count > 1 && stage < stages; stage++)
      if (s->stages[stage].times[i] > most) most = s->stages[stage].times[i];
  return most;
}

static void try_schedules(search_t *s, const layout_t *layout, ptc_choice_t choice) {
  const int64_t pp = choice.size[PTC_AXIS_PP];
  const int64_t m = micro_batches(s, &choice), turns = ptc_pieces_turns(&layout->pieces);
  const double hop = ptc_predict_hop(&layout->pieces, s->cluster, s->stack, &choice);
  outlook_t outlooks[4];
  measure_rooms(s, layout, choice, outlooks);
  for (int kind = 0; kind < PTC_NUM_SCHEDULES; kind++) {
    if (s->fixed->schedule >= 0 && s->fixed->schedule != kind) continue;
    if (pp == 1 && kind != PTC_SCHEDULE_1F1B && s->fixed->schedule < 0) continue;
    // 1f1b takes as long as gpipe and needs less; zero_bubble as long as 1f1b or less, and as much.
    if ((kind == PTC_SCHEDULE_GPIPE || (kind == PTC_SCHEDULE_1F1B && pp > 1)) &&
        s->fixed->schedule < 0)
      continue;
    choice.schedule = (ptc_schedule_kind_t)kind;
    const bool in_chunks = kind == PTC_SCHEDULE_INTERLEAVED;
    if (in_chunks && m % pp) continue;
    const int64_t most_chunks = in_chunks ? turns / pp : 1;
    for (int64_t v = in_chunks && s->fixed->chunks != 1 ? 2 : 1; v <= most_chunks; v++) {
      if (!open_or(s->fixed->chunks, v) || pp * v > turns + (pp == 1)) continue;
      if (s->fixed->cuts && pp * v != s->fixed->num_cuts + 1) continue;
      if (s->fixed->most_parts > 0 && pp * v > s->fixed->most_parts) continue;
      const double idle =
          (double)(pp - 1) / ((double)m * (double)v) * idle_share(s, layout, choice.schedule);
      const double seconds = layout->work * (1 + idle) + 2 * hop * (double)(m * v);
      if (hopeless(s, seconds)) continue;
      choice.chunks = v;
      if (!look_out(s, layout, &choice, seconds, outlooks)) continue;
      if (!ptc_predict_stages(&layout->pieces, layout->times, s->cluster, s->stack, &choice,
                              s->stages))
        continue;
      try_zeros(s, layout, choice, most_turns(s, layout, pp), outlooks);
    }
  }
}

// Some dp above 1 with which |choice| can be laid out. 1: there is none.
static int64_t some_replicas(const search_t *s, const ptc_choice_t *choice, int64_t rest) {
  const int64_t together = choice->size[PTC_AXIS_EP] * choice->micro_batch;
  for (int64_t dp = 2; dp <= rest; dp++)
    if (rest % dp == 0 && s->work->batch % (dp * together) == 0) return dp;
  return 1;
}

// The form for dp above 1 as in |choice|.
static ptc_form_t *replicated_form(search_t *s, const ptc_choice_t *choice, int64_t rest) {
  ptc_choice_t some = *choice;
  some.size[PTC_AXIS_PP] = 1;
  some.size[PTC_AXIS_DP] = some_replicas(s, &some, rest);
  ptc_form_t *form = find_form(s, &some);
  if (!form || ptc_form_any_dp(form)) return form;
  some.size[PTC_AXIS_DP] = choice->size[PTC_AXIS_DP];
  return find_form(s, &some);
}

static void try_splits(search_t *s, const rough_t *rough) {
  const int64_t *fixed = s->fixed->size, *size = rough->choice.size;
  const int64_t rest = s->devices / (size[PTC_AXIS_TP] * size[PTC_AXIS_CP] * size[PTC_AXIS_EP]);
  int64_t depths[MAX_DIVISORS];
  const int32_t count = divisors(rest, depths);
  layout_t alone, own;
  const ptc_form_t *of_own = NULL;
  bool possible = false;
  for (int32_t i = 0; i < count; i++) {
    ptc_choice_t choice = rough->choice;
    choice.size[PTC_AXIS_PP] = depths[i];
    choice.size[PTC_AXIS_DP] = rest / depths[i];
    if (!open_or(fixed[PTC_AXIS_PP], depths[i]) || !open_or(fixed[PTC_AXIS_DP], rest / depths[i]))
      continue;
    const int64_t replicas = choice.size[PTC_AXIS_DP] * size[PTC_AXIS_EP];
    if (s->work->batch % (replicas * choice.micro_batch)) continue;
    if (s->fixed->cuts) {
      choice.cuts = s->fixed->cuts;
      choice.num_cuts = s->fixed->num_cuts;
    }
    if (hopeless(s, rough->work)) continue;
    if (choice.size[PTC_AXIS_DP] == 1) {
      if (lay_out(s, find_form(s, &rough->choice), &rough->choice, &alone))
        try_schedules(s, &alone, choice);
      continue;
    }
    // Over dp there are sums of gradients, and more; what is left out makes |rough| a bound.
    ptc_form_t *form = replicated_form(s, &choice, rest);
    if (form && form != of_own) possible = lay_out(s, form, &choice, &own);
    of_own = form;
    if (form && possible) try_schedules(s, &own, choice);
  }
}

static int by_work(const void *a, const void *b) {
  const rough_t *x = a, *y = b;
  return (x->work > y->work) - (x->work < y->work);
}

static void search_all(search_t *s) {
  find_layouts(s);
  if (s->num_layouts > 0) qsort(s->layouts, (size_t)s->num_layouts, sizeof(*s->layouts), by_work);
  for (int32_t i = 0; i < s->num_layouts; i++) {
    if (hopeless(s, s->layouts[i].work)) continue;
    if (s->form_arena.used_bytes > MOST_FORM_BYTES) end_forms(s);
    try_splits(s, &s->layouts[i]);
  }
}

ptc_status_t ptc_search(const ptc_work_t *work, const ptc_cluster_t *cluster,
                        const ptc_stack_t *stack, const ptc_fixed_t *fixed, int64_t devices,
                        ptc_objective_t objective, ptc_arena_t *arena, ptc_search_result_t *out) {
  *out =
      (ptc_search_result_t){.best = {.value = INFINITY, .predicted = {.memory_bytes = INFINITY}}};
  search_t s = {.work = work,
                .cluster = cluster,
                .stack = stack,
                .fixed = fixed,
                .objective = objective,
                .devices = devices,
                .arena = arena,
                .out = out};
  // Devices are taken in order; what is too much for the largest is too much for all.
  int64_t left = devices;
  for (int32_t g = 0; g < cluster->num_groups; g++) {
    const ptc_cluster_group_t *group = &cluster->groups[g];
    const int64_t own = (int64_t)group->nodes * group->node.devices,
                  taken = own < left ? own : left;
    s.price += group->node.device->price_per_hour * (double)taken / 3600;
    const double bytes = group->node.device->memory_bytes;
    s.capacity = fmax(s.capacity, bytes > 0 ? bytes : INFINITY);
    left -= taken;
  }
  search_all(&s);
  if (!out->feasible) {  // then what needs least counts, too
    s.keeps_all = true;
    s.num_layouts = 0;
    search_all(&s);
  }
  end_forms(&s);
  out->bound = out->best.value;
  return isinf(out->best.predicted.memory_bytes) ? PTC_INFEASIBLE : PTC_OK;
}
