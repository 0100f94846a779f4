// The sets of names that a search lays on tp.
//
// Dims that pieces share are laid alike in all of them; the others each piece lays for itself (work.h). So for one set of
// shared names pieces do not feel what lies on tp in another, and their own sets are weighed side by side.
#include <math.h>

#include "passes/planner/search_impl.h"

// On so many devices every set of up to so many names, counted in each piece that has them as its own, is tried.
enum { ALL_NAMES = 7, ALL_DEVICES = 32, MOST_SETS = 8 };
// Otherwise sets of so many names of a piece, and of shared ones; what a piece keeps of them, and all pieces together.
enum { FEW_OWN = 4, MOST_OWN = 10, MOST_SHARED = 8, MOST_KEPT = 16, MOST_WHOLE = 128 };

// --- names

typedef struct names_s {
  int32_t shared[PTC_WORK_MAX_NAMES], own[PTC_MAX_PIECES][PTC_WORK_MAX_NAMES];
  int32_t num_shared, num_own[PTC_MAX_PIECES];
  int32_t num_all, most_own;
  uint32_t in[PTC_MAX_PIECES];  // all of the piece's
  bool cut;                     // there are more
} names_t;

static void list_names(const ptc_work_t *work, names_t *out) {
  *out = (names_t){0};
  for (int32_t i = 0; i < work->num_names; i++) {
    const ptc_work_name_t *name = &work->names[i];
    if (name->shared) out->shared[out->num_shared++] = i;
    for (int32_t p = 0; p < work->num_pieces; p++) {
      if (!(name->pieces >> p & 1)) continue;
      out->in[p] |= UINT32_C(1) << i;
      if (!name->shared) out->own[p][out->num_own[p]++] = i;
    }
  }
  out->num_all = out->num_shared;
  for (int32_t p = 0; p < work->num_pieces; p++) {
    out->num_all += out->num_own[p];
    if (out->num_own[p] > out->most_own) out->most_own = out->num_own[p];
  }
}

static void limit_names(names_t *n) {
  n->cut = n->num_shared > MOST_SHARED || n->most_own > MOST_OWN;
  if (n->num_shared > MOST_SHARED) n->num_shared = MOST_SHARED;
  for (int32_t p = 0; p < PTC_MAX_PIECES; p++)
    if (n->num_own[p] > MOST_OWN) n->num_own[p] = MOST_OWN;
  if (n->most_own > MOST_OWN) n->most_own = MOST_OWN;
}

// Those of |names| whose bits are set.
static uint32_t pick(const int32_t *names, int32_t count, uint32_t bits) {
  uint32_t set = 0;
  for (int32_t i = 0; i < count; i++) set |= (bits >> i & 1) << names[i];
  return set;
}

// Each piece has another set of its own, so that something lies on tp though one of them has nothing there.
static void set_names(const ptc_work_t *work, const names_t *n, uint32_t shared, uint32_t own,
                      ptc_choice_t *choice) {
  const uint32_t all = pick(n->shared, n->num_shared, shared);
  for (int32_t p = 0; p < work->num_pieces; p++)
    choice->names[p] = (all & n->in[p]) | pick(n->own[p], n->num_own[p], own + (uint32_t)p);
}

static bool is_empty(const ptc_work_t *work, const uint32_t *names) {
  for (int32_t p = 0; p < work->num_pieces; p++)
    if (names[p]) return false;
  return true;
}

// --- every set

// Every set of names that lays some parameter in a way of its own.
static int32_t all_sets(const ptc_search_t *s, const names_t *n, ptc_choice_t choice,
                        ptc_names_t *sets) {
  const ptc_work_t *work = s->work;
  uint64_t known[1 << ALL_NAMES][PTC_MAX_PIECES];
  int32_t count = 0;
  for (uint32_t bits = 0; bits < 1u << n->num_all && count < PTC_MAX_SETS; bits++) {
    const uint32_t all = pick(n->shared, n->num_shared, bits);
    uint32_t left = bits >> n->num_shared;
    for (int32_t p = 0; p < work->num_pieces; left >>= n->num_own[p++])
      choice.names[p] = (all & n->in[p]) | pick(n->own[p], n->num_own[p], left);
    if (s->fixed->no_copies && is_empty(work, choice.names)) continue;
    if (!ptc_layout_params_hash(work, &choice, known[count])) {
      s->out->complete = false;
      continue;
    }
    bool is_known = false;
    for (int32_t i = 0; i < count && !is_known; i++)
      is_known = memcmp(known[i], known[count], sizeof(**known) * (size_t)work->num_pieces) == 0;
    if (!is_known) memcpy(sets[count++].of, choice.names, sizeof(choice.names));
  }
  return count;
}

static bool few_names(const ptc_search_t *s, names_t *out) {
  list_names(s->work, out);
  return s->devices <= ALL_DEVICES && out->num_all <= ALL_NAMES && s->fixed->most_sets == 0;
}

bool ptc_search_takes_all_sets(const ptc_search_t *s) {
  names_t names;
  return few_names(s, &names);
}

// --- piece by piece

// What a set of names costs a piece: time at two sizes of micro-batches and once per step; memory of parameters, of what is
// saved and of what lives besides.
enum { RATES = 7 };

typedef struct rated_s {
  uint32_t set, own;  // |own|: the number with which it came
  double rates[RATES];
} rated_t;

typedef struct front_s {
  rated_t kept[MOST_KEPT];
  int32_t count;
} front_t;

static bool is_worse(const double *a, const double *b) {
  for (int32_t r = 0; r < RATES; r++)
    if (a[r] < b[r]) return false;
  return true;
}

// By the objective, of a turn.
static double worth(const ptc_search_t *s, const double *rates) {
  return s->objective == PTC_OBJECTIVE_MEMORY ? rates[3] + rates[4] + rates[5] : rates[0];
}

// The best first. What is full loses the last.
static void keep(ptc_search_t *s, front_t *front, const rated_t *own) {
  for (int32_t i = 0; i < front->count; i++)
    if (is_worse(own->rates, front->kept[i].rates)) return;
  int32_t left = 0;
  for (int32_t i = 0; i < front->count; i++)
    if (!is_worse(front->kept[i].rates, own->rates)) front->kept[left++] = front->kept[i];
  front->count = left;
  int32_t at = left;
  while (at > 0 && worth(s, own->rates) < worth(s, front->kept[at - 1].rates)) at--;
  if (at == MOST_KEPT) return;
  if (front->count < MOST_KEPT) front->count++;
  for (int32_t i = front->count - 1; i > at; i--) front->kept[i] = front->kept[i - 1];
  front->kept[at] = *own;
}

// At a micro-batch of one sample and of |most|.
static bool rate(ptc_search_t *s, ptc_choice_t choice, int64_t most, rated_t out[PTC_MAX_PIECES]) {
  for (int32_t i = 0; i < 1 + (most > 1); i++) {
    ptc_timed_layout_t layout;
    choice.micro_batch = i ? most : 1;
    bool any_dp;
    ptc_form_t *form = ptc_search_any_form(s, &choice, &any_dp);
    if (!ptc_search_lay_out(s, form, any_dp, &choice, &layout)) return false;
    for (int32_t p = 0; p < layout.pieces.count; p++) {
      const ptc_piece_t *piece = &layout.pieces.items[p];
      double *rates = out[p].rates;
      out[p].set = choice.names[p];
      rates[i] = rates[1] = ptc_piece_seconds(&layout.times[p]);
      rates[2] = layout.times[p].step;
      rates[3] = piece->param_bytes + piece->state_bytes;
      rates[4] = piece->saved_bytes[PTC_RECOMPUTE_NONE];
      rates[5 + i] = rates[6] =
          fmax(piece->peak_bytes[PTC_PEAK_FORWARD], piece->peak_bytes[PTC_PEAK_BACKWARD]);
    }
  }
  return true;
}

// The front of each piece, with one set of shared names. |few|: of many own sets, those that are kept without shared names. False: none fits.
static bool weigh_own(ptc_search_t *s, const names_t *n, uint32_t shared, ptc_choice_t choice,
                      int64_t most_micro, const uint64_t *few, front_t *fronts) {
  const int32_t pieces = s->work->num_pieces;
  uint64_t(*known)[PTC_MAX_PIECES] =
      ptc_arena_alloc_raw(s->arena, sizeof(*known) * ((size_t)1 << n->most_own));
  for (int32_t p = 0; p < pieces; p++) fronts[p].count = 0;
  int32_t count = 0;
  for (uint32_t own = 0; own < 1u << n->most_own; own++) {
    if (few && !(few[own / 64] >> own % 64 & 1)) continue;
    set_names(s->work, n, shared, own, &choice);
    if (!ptc_layout_params_hash(s->work, &choice, known[count])) continue;
    bool fresh[PTC_MAX_PIECES], any = false;
    for (int32_t p = 0; p < pieces; p++) {
      fresh[p] = true;
      for (int32_t i = 0; i < count && fresh[p]; i++) fresh[p] = known[i][p] != known[count][p];
      any |= fresh[p];
    }
    rated_t rated[PTC_MAX_PIECES];
    if (!any || !rate(s, choice, most_micro, rated)) continue;
    count++;
    for (int32_t p = 0; p < pieces; p++) {
      rated[p].own = own;
      if (fresh[p]) keep(s, &fronts[p], &rated[p]);
    }
  }
  for (int32_t p = 0; p < pieces; p++)
    if (fronts[p].count == 0) return false;
  return true;
}

// --- whole sets

typedef struct whole_s {
  ptc_names_t names;
  double worth, bytes;         // bytes: of parameters and states
  int32_t at[PTC_MAX_PIECES];  // number in each front
  const front_t *fronts;
} whole_t;

typedef struct wholes_s {
  whole_t items[MOST_WHOLE];  // the best first
  int32_t count;
} wholes_t;

static bool beats(const ptc_search_t *s, const whole_t *a, const whole_t *b) {
  for (int32_t p = 0; p < s->work->num_pieces; p++)
    if (!is_worse(b->fronts[p].kept[b->at[p]].rates, a->fronts[p].kept[a->at[p]].rates))
      return false;
  return true;
}

static void insert(wholes_t *all, const whole_t *own) {
  int32_t at = all->count;
  while (at > 0 && own->worth < all->items[at - 1].worth) at--;
  if (at == MOST_WHOLE) return;
  if (all->count < MOST_WHOLE) all->count++;
  for (int32_t i = all->count - 1; i > at; i--) all->items[i] = all->items[i - 1];
  all->items[at] = *own;
}

static void keep_whole(const ptc_search_t *s, wholes_t *all, whole_t *own) {
  own->worth = own->bytes = 0;
  for (int32_t p = 0; p < s->work->num_pieces; p++) {
    const rated_t *rated = &own->fronts[p].kept[own->at[p]];
    own->names.of[p] = rated->set;
    own->worth += (double)s->work->pieces[p].count * worth(s, rated->rates);
    own->bytes += (double)s->work->pieces[p].count * rated->rates[3];
  }
  if (is_empty(s->work, own->names.of)) return;
  for (int32_t i = 0; i < all->count; i++)
    if (beats(s, &all->items[i], own)) return;
  int32_t left = 0;
  for (int32_t i = 0; i < all->count; i++)
    if (!beats(s, own, &all->items[i])) all->items[left++] = all->items[i];
  all->count = left;
  insert(all, own);
}

static int32_t smallest(const front_t *front) {
  int32_t best = 0;
  for (int32_t i = 1; i < front->count; i++)
    if (front->kept[i].rates[3] < front->kept[best].rates[3]) best = i;
  return best;
}

// What stands outside of repeats is small beside them: it takes what is fastest there, or what is smallest.
static void combine(const ptc_search_t *s, const front_t *fronts, wholes_t *all) {
  const int32_t pieces = s->work->num_pieces;
  int32_t limit[PTC_MAX_PIECES], digit[PTC_MAX_PIECES] = {0};
  double product = 1;
  for (int32_t p = 0; p < pieces; p++) {
    const bool once = s->work->pieces[p].count == 1;
    limit[p] = once ? 1 + (smallest(&fronts[p]) != 0) : fronts[p].count;
    product *= limit[p];
  }
  while (product > MOST_WHOLE) {
    int32_t most = 0;
    for (int32_t p = 1; p < pieces; p++)
      if (limit[p] > limit[most]) most = p;
    product *= (double)(limit[most] - 1) / limit[most];
    limit[most]--;
  }
  for (bool more = true; more;) {
    whole_t own = {.fronts = fronts};
    for (int32_t p = 0; p < pieces; p++)
      own.at[p] = s->work->pieces[p].count == 1 && digit[p] > 0 ? smallest(&fronts[p]) : digit[p];
    keep_whole(s, all, &own);
    more = false;
    for (int32_t p = 0; p < pieces && !more; p++) {
      more = ++digit[p] < limit[p];
      if (!more) digit[p] = 0;
    }
  }
}

// What a set is worth as a whole: pieces do feel each other where a sequence is split. False: it does not fit.
static bool weigh_one(ptc_search_t *s, ptc_choice_t choice, whole_t *own) {
  rated_t rated[PTC_MAX_PIECES];
  memcpy(choice.names, own->names.of, sizeof(choice.names));
  if (!rate(s, choice, 1, rated)) return false;
  own->worth = own->bytes = 0;
  for (int32_t p = 0; p < s->work->num_pieces; p++) {
    own->worth += (double)s->work->pieces[p].count * worth(s, rated[p].rates);
    own->bytes += (double)s->work->pieces[p].count * rated[p].rates[3];
  }
  return true;
}

static void weigh_whole(ptc_search_t *s, ptc_choice_t choice, int32_t most, wholes_t *all) {
  wholes_t *first = PTC_ARENA_NEW(s->arena, wholes_t);
  first->count = 0;
  for (int32_t i = 0; i < all->count && i < most; i++)
    if (weigh_one(s, choice, &all->items[i])) insert(first, &all->items[i]);
  *all = *first;
}

// From the best one on, name by name and piece by piece, while that makes it better.
static void climb(ptc_search_t *s, const names_t *n, ptc_choice_t choice, wholes_t *all) {
  if (all->count == 0) return;
  whole_t best = all->items[0];
  bool any = false;
  int32_t since = 0;  // flips that were none better
  for (bool more = true; more;) {
    more = false;
    for (int32_t p = 0; p < s->work->num_pieces && since < n->num_all; p++)
      for (int32_t k = 0; k < n->num_own[p] && since < n->num_all; k++) {
        whole_t other = best;
        other.names.of[p] ^= UINT32_C(1) << n->own[p][k];
        since++;
        if (is_empty(s->work, other.names.of) || !weigh_one(s, choice, &other) ||
            other.worth >= best.worth)
          continue;
        best = other;
        any = more = true;
        since = 0;
      }
  }
  if (any) insert(all, &best);
}

// Whether the same lies in all repeats.
static bool same_repeats(const ptc_work_t *work, const whole_t *a, const whole_t *b) {
  for (int32_t p = 0; p < work->num_pieces; p++)
    if (work->pieces[p].count > 1 && a->names.of[p] != b->names.of[p]) return false;
  return true;
}

// --- all

static int32_t best_sets(ptc_search_t *s, names_t *n, ptc_choice_t choice, ptc_names_t *sets) {
  choice.recompute = PTC_RECOMPUTE_NONE;
  int64_t micro = 1;
  for (int64_t m = 2; m <= 8; m++)
    if (s->work->batch % m == 0) micro = m;
  limit_names(n);
  const int32_t most = s->fixed->most_sets > 0 ? s->fixed->most_sets
                       : s->devices > 64       ? 4
                                               : MOST_SETS;
  wholes_t *all = PTC_ARENA_NEW(s->arena, wholes_t);
  all->count = 0;
  uint64_t kept[(1 << MOST_OWN) / 64] = {0};
  for (uint32_t shared = 0; shared < 1u << n->num_shared; shared++) {
    front_t *fronts = PTC_ARENA_ARRAY(s->arena, front_t, s->work->num_pieces);
    const bool few = shared > 0 && n->most_own > FEW_OWN;
    if (!weigh_own(s, n, shared, choice, micro, few ? kept : NULL, fronts)) continue;
    combine(s, fronts, all);
    for (int32_t p = 0; p < s->work->num_pieces; p++)
      for (int32_t i = 0; i < fronts[p].count; i++)
        kept[fronts[p].kept[i].own / 64] |= UINT64_C(1) << fronts[p].kept[i].own % 64;
  }
  weigh_whole(s, choice, 3 * most, all);
  climb(s, n, choice, all);
  // With what lies in repeats comes what is fastest besides, and something smaller.
  int32_t num = 0, kinds = 0, taken[PTC_MAX_SETS];
  for (int32_t i = 0; i < all->count && num < PTC_MAX_SETS; i++) {
    int32_t alike = 0;
    bool smaller = true;
    for (int32_t k = 0; k < num; k++) {
      const whole_t *other = &all->items[taken[k]];
      if (!same_repeats(s->work, other, &all->items[i])) continue;
      alike++;
      smaller &= all->items[i].bytes < other->bytes;
    }
    if (alike ? alike == 2 || !smaller : kinds == most) continue;
    kinds += !alike;
    taken[num] = i;
    sets[num++] = all->items[i].names;
  }
  s->out->complete = false;
  return num;
}

int32_t ptc_search_choose_sets(ptc_search_t *s, ptc_choice_t choice, ptc_names_t *sets) {
  memset(choice.names, 0, sizeof(choice.names));
  if (choice.size[PTC_AXIS_TP] == 1) {
    memcpy(sets[0].of, choice.names, sizeof(choice.names));
    return 1;
  }
  if (s->fixed->has_names) {
    memcpy(sets[0].of, s->fixed->names, sizeof(choice.names));
    return 1;
  }
  names_t names;
  const bool few = few_names(s, &names);
  int32_t count = few ? all_sets(s, &names, choice, sets) : best_sets(s, &names, choice, sets);
  if (few && count == PTC_MAX_SETS) s->out->complete = false;
  // Who asks for tp gets it, whether anything can lie on it or not.
  if (count == 0 && s->fixed->no_copies && s->fixed->size[PTC_AXIS_TP] > 0) {
    memcpy(sets[0].of, choice.names, sizeof(choice.names));
    count = 1;
  }
  return count;
}
