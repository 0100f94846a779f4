// Exact for the cost model up to the sets of names that it keeps (README.md), by enumeration with bounds.
//
// The time of a turn of each piece depends on tp, cp, ep, sequence parallelism, the micro-batch, recompute and what lies
// on tp; not on how the other devices are shared between dp and pp. A device's part of a step is then at least
//     batch * (time of all turns for a micro-batch) / micro_batch / (devices / (tp * cp)),
// whatever dp and pp are: no stage is faster than the average one. These layouts come in the order of that bound; under
// each the splits of the rest are tried, until the bound passes the best value found.
#include "passes/planner/search.h"

#include <math.h>
#include <string.h>

#include "passes/planner/search_impl.h"

const char *const ptc_objective_names[PTC_NUM_OBJECTIVES] = {"time", "cost", "memory", "devices"};

const ptc_fixed_t ptc_fixed_nothing = {
    .zero = -1, .sequence_parallel = -1, .schedule = -1, .recompute = -1};

// Forms that are kept take this at most.
enum { MOST_FORM_BYTES = 128 << 20 };

// Parts of cuts that are looked at, of pipelines that have too many cuts to try them all.
enum { ALL_LOOKS = 1 << 16 };

// --- splits of a layout

static double value_of(const ptc_search_t *s, const ptc_prediction_t *p) {
  switch (s->objective) {
    case PTC_OBJECTIVE_COST: return s->price / p->tokens_per_s;
    case PTC_OBJECTIVE_MEMORY: return p->memory_bytes;
    default: return p->step_s;
  }
}

static void consider(ptc_search_t *s, const ptc_choice_t *choice,
                     const ptc_prediction_t *predicted) {
  ptc_search_result_t *out = s->out;
  const ptc_candidate_t found = {*choice, *predicted, value_of(s, predicted)};
  if (predicted->fits && predicted->is_bound) return;  // it is not worth more
  if (!predicted->fits) {
    if (!out->feasible && predicted->memory_bytes < out->best.predicted.memory_bytes)
      out->best = found;
    return;
  }
  if (out->feasible &&
      (found.value > out->best.value ||
       (found.value == out->best.value && predicted->step_s >= out->best.predicted.step_s)))
    return;
  out->feasible = true;
  out->best = found;
}

static int64_t micro_batches(const ptc_search_t *s, const ptc_choice_t *choice) {
  return s->work->batch /
         (choice->size[PTC_AXIS_DP] * choice->size[PTC_AXIS_EP] * choice->micro_batch);
}

// What a split has to do better than.
static ptc_worth_t worth_of(const ptc_search_t *s) {
  const double value = s->out->feasible ? s->out->best.value : INFINITY;
  ptc_worth_t worth = {.seconds = INFINITY, .bytes = INFINITY};
  if (s->objective == PTC_OBJECTIVE_MEMORY)
    worth.bytes = value;
  else if (s->objective == PTC_OBJECTIVE_COST)
    worth.seconds = value * (double)(s->work->batch * s->work->tokens_per_sample) / s->price;
  else
    worth.seconds = value;
  return worth;
}

// |always|: a bound where memory does not suffice, too.
static void predict(ptc_search_t *s, const ptc_timed_layout_t *layout, const ptc_choice_t *choice,
                    bool always, ptc_prediction_t *out) {
  s->out->predictions++;
  ptc_work_pieces_t pieces = layout->pieces;
  pieces.micro_batches = micro_batches(s, choice);
  ptc_worth_t worth = worth_of(s);
  worth.always = always;
  worth.nets = s->nets;
  ptc_predict_timed(&pieces, layout->times, s->parts, s->stages, s->cluster, s->stack, choice,
                    &worth, out);
}

void ptc_search_try(ptc_search_t *s, const ptc_timed_layout_t *layout, const ptc_choice_t *choice) {
  ptc_prediction_t predicted;
  predict(s, layout, choice, false, &predicted);
  consider(s, choice, &predicted);
}

double ptc_search_seconds(const ptc_search_t *s) { return worth_of(s).seconds; }

bool ptc_search_hopeless(ptc_search_t *s, double bound) {
  if (s->objective == PTC_OBJECTIVE_MEMORY || !s->out->feasible) return false;
  const double tokens = (double)(s->work->batch * s->work->tokens_per_sample);
  const double value = s->objective == PTC_OBJECTIVE_COST ? s->price * bound / tokens : bound;
  if (value < s->out->best.value) return false;
  s->out->pruned++;
  return true;
}

// Of a stage's turns as few are computed again as memory allows: each one less is faster and needs more.
static void try_turns(ptc_search_t *s, const ptc_timed_layout_t *layout, ptc_choice_t choice,
                      int64_t most) {
  ptc_prediction_t predicted;
  choice.recompute_turns = -1;
  predict(s, layout, &choice, !s->out->feasible, &predicted);
  consider(s, &choice, &predicted);
  if (!predicted.fits) return;
  // Who asks for a mode asks for it everywhere.
  const bool open = s->fixed->recompute < 0 && choice.recompute != PTC_RECOMPUTE_NONE;
  if (!open || s->objective == PTC_OBJECTIVE_MEMORY) return;
  // The fewest are the fastest, whether they fit or not.
  choice.recompute_turns = 1;
  predict(s, layout, &choice, true, &predicted);
  if (predicted.fits) consider(s, &choice, &predicted);
  if (predicted.fits || ptc_search_hopeless(s, predicted.step_s)) return;
  int64_t low = 1, high = most;  // |high| fits
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    choice.recompute_turns = middle;
    predict(s, layout, &choice, !s->out->feasible, &predicted);
    consider(s, &choice, &predicted);
    if (predicted.fits)
      high = middle;
    else
      low = middle;
  }
}

// Least seconds of a step, whatever the cuts are. Every stage has to do its tasks, and the slowest is no faster than the
// average one. Without chunks: a micro-batch passes all stages (where W is apart, without it), and a stage has all
// others to do, but for S - 1 F or W, which may lie where it waits anyway.
static double least_of_schedule(const ptc_search_t *s, const ptc_timed_layout_t *layout,
                                const ptc_choice_t *choice, double hop, double *out_busy) {
  const double m = (double)micro_batches(s, choice), pp = (double)choice->size[PTC_AXIS_PP];
  const double sends = hop * 2 * (pp * (double)choice->chunks - 1) / pp;
  const double busy = *out_busy = layout->work + m * sends;
  if (pp == 1 || choice->chunks > 1 || s->cluster->num_groups > 1) return busy;
  double all = 0, w = 0, most = 0;
  for (int32_t i = 0; i < layout->pieces.count; i++) {
    const ptc_piece_time_t *t = &layout->times[i];
    const double own = ptc_piece_seconds(t), count = (double)layout->pieces.items[i].count;
    all += own * count;
    w += t->weight_grad * count;
    if (own > 0) most = fmax(most, fmax(t->forward + t->exposed_forward, t->weight_grad) / own);
  }
  const double average = layout->work / m;
  const double pass =
      pp * average * (choice->schedule == PTC_SCHEDULE_ZB_H1 && all > 0 ? 1 - w / all : 1);
  return fmax(busy, pass + fmax(0, m - 1 - most * (pp - 1)) * average);
}

// What no cuts change, for each zero.
typedef struct outlook_s {
  bool open, measured, may_fit;
  ptc_room_t room;
  double late;     // ptc_predict_least_late; below 0: not asked for yet
  double seconds;  // of a step at least
} outlook_t;

static void open_outlooks(const ptc_search_t *s, const ptc_choice_t *choice,
                          outlook_t outlooks[4]) {
  const int64_t *size = choice->size;
  const bool replicas = size[PTC_AXIS_DP] * size[PTC_AXIS_EP] * size[PTC_AXIS_CP] > 1;
  for (int64_t zero = 0; zero < 4; zero++) {
    outlook_t *o = &outlooks[zero];
    o->measured = false;
    o->late = -1;
    // Without replicas they are one, but for a stack that keeps no copies then.
    o->open = s->fixed->zero >= 0 ? s->fixed->zero == zero
                                  : zero == 0 || replicas || (zero == 3 && s->stack->masters_alone);
  }
}

static void measure_room(const ptc_search_t *s, const ptc_timed_layout_t *layout,
                         ptc_choice_t choice, int64_t zero, outlook_t *o) {
  if (o->measured) return;
  choice.zero = zero;
  ptc_predict_room(&layout->pieces, s->cluster, s->stack, &choice, &o->room);
  o->measured = true;
}

static double late_of(ptc_search_t *s, const ptc_timed_layout_t *layout, ptc_choice_t choice,
                      int64_t zero, outlook_t *o) {
  choice.zero = zero;
  if (o->late < 0)
    o->late = ptc_predict_least_late(&layout->pieces, layout->times, s->cluster, s->stack, &choice,
                                     micro_batches(s, &choice), s->nets);
  return o->late;
}

// The most bytes with which something is still of use.
static double worth_bytes(const ptc_search_t *s) {
  const ptc_search_result_t *out = s->out;
  if (s->capacity <= 0) return INFINITY;
  if (!out->feasible) return fmax(s->capacity, out->best.predicted.memory_bytes);
  return s->objective == PTC_OBJECTIVE_MEMORY ? fmin(s->capacity, out->best.value) : s->capacity;
}

// False: nothing comes of it. |busy|: what a stage takes for its passes on the average; |seconds|: with what it waits.
static bool look_out(ptc_search_t *s, const ptc_timed_layout_t *layout, const ptc_choice_t *choice,
                     double busy, double seconds, outlook_t outlooks[4]) {
  const double bytes = worth_bytes(s);
  const int64_t m = micro_batches(s, choice);
  const double all_again = layout->again * ptc_search_share(s, choice);
  bool any = false;
  for (int64_t zero = 3; zero >= 0; zero--) {
    outlook_t *o = &outlooks[zero];
    if (!o->open) continue;
    double again = 0;
    measure_room(s, layout, *choice, zero, o);
    o->may_fit = ptc_room_may_fit(&o->room, s->stack, choice, m, bytes, &again);
    o->seconds = seconds + again * all_again;
    if (!o->may_fit || ptc_search_hopeless(s, o->seconds)) continue;
    if (s->out->feasible && s->objective != PTC_OBJECTIVE_MEMORY)
      o->seconds =
          fmax(o->seconds, busy + late_of(s, layout, *choice, zero, o) + again * all_again);
    any |= !ptc_search_hopeless(s, o->seconds);
  }
  return any;
}

// Zero from the most to the least. Of few turns, one that shards more may need more: whole gradients, gathered parameters.
static void try_zeros(ptc_search_t *s, const ptc_timed_layout_t *layout, ptc_choice_t choice,
                      int64_t turns, const outlook_t outlooks[4]) {
  for (int64_t zero = 3; zero >= 0; zero--) {
    const outlook_t *o = &outlooks[zero];
    if (!o->open) continue;
    choice.zero = zero;
    if (o->may_fit && ptc_search_hopeless(s, o->seconds)) continue;
    if (o->may_fit) try_turns(s, layout, choice, turns);
  }
}

// Of a repeat, on a stage, with the cuts at hand.
static int64_t most_turns(const ptc_search_t *s, const ptc_timed_layout_t *layout, int64_t stages) {
  int32_t most = 1;
  for (int32_t i = 0; i < layout->pieces.count; i++)
    for (int64_t stage = 0; layout->pieces.items[i].count > 1 && stage < stages; stage++)
      if (s->stages[stage].times[i] > most) most = s->stages[stage].times[i];
  return most;
}

// With the cuts at hand.
static void try_parts(ptc_search_t *s, const ptc_timed_layout_t *layout, ptc_choice_t choice,
                      const outlook_t outlooks[4]) {
  ptc_work_pieces_t pieces = layout->pieces;
  pieces.micro_batches = micro_batches(s, &choice);
  if (choice.size[PTC_AXIS_PP] > 1 &&
      ptc_search_hopeless(s, ptc_predict_least_seconds(&pieces, layout->times, s->parts, s->stages,
                                                       s->cluster, s->stack, &choice)))
    return;
  try_zeros(s, layout, choice, most_turns(s, layout, choice.size[PTC_AXIS_PP]), outlooks);
}

// As many turns on each part.
static const int64_t *even_cuts(ptc_search_t *s, int64_t turns, int64_t num_parts) {
  if (s->even[num_parts]) return s->even[num_parts];
  int64_t *cuts = PTC_ARENA_ARRAY(s->arena, int64_t, num_parts);
  for (int64_t p = 1; p < num_parts; p++) cuts[p - 1] = p * (turns / num_parts);
  return s->even[num_parts] = cuts;
}

// Whether the cuts at hand part the turns evenly.
static bool are_even(const ptc_search_t *s, int64_t turns, int64_t num_parts) {
  for (int64_t p = 0; p < num_parts; p++)
    if (s->parts[p].from != p * (turns / num_parts)) return false;
  return true;
}

// Parts the turns by their times.
static bool find_cuts(ptc_search_t *s, const ptc_timed_layout_t *layout,
                      const ptc_choice_t *choice) {
  const int64_t pp = choice->size[PTC_AXIS_PP], num_parts = pp * choice->chunks;
  ptc_kept_cuts_t *kept = NULL;
  if (!choice->cuts && s->cluster->num_groups == 1 && num_parts <= PTC_MOST_KEPT_PARTS)
    kept = &s->kept_cuts[num_parts];
  const size_t bytes = sizeof(*s->parts) * (size_t)num_parts;
  if (kept && kept->layout == layout->number) {
    memcpy(s->parts, kept->parts, bytes);
    ptc_predict_counts(&layout->pieces, s->parts, num_parts, pp, s->stages);
    return true;
  }
  if (!ptc_predict_stages(&layout->pieces, layout->times, s->cluster, s->stack, choice, s->parts,
                          s->stages))
    return false;
  if (!kept) return true;
  if (!kept->parts) kept->parts = ptc_arena_alloc_raw(s->arena, bytes);
  memcpy(kept->parts, s->parts, bytes);
  kept->layout = layout->number;
  return true;
}

static void try_even(ptc_search_t *s, const ptc_timed_layout_t *layout, ptc_choice_t choice,
                     const outlook_t outlooks[4]) {
  const int64_t num_parts = choice.size[PTC_AXIS_PP] * choice.chunks;
  const int64_t turns = ptc_pieces_turns(&layout->pieces);
  if (turns % num_parts || are_even(s, turns, num_parts)) return;
  choice.cuts = even_cuts(s, turns, num_parts);
  choice.num_cuts = (int32_t)num_parts - 1;
  s->parts_of = 0;
  if (ptc_predict_stages(&layout->pieces, layout->times, s->cluster, s->stack, &choice, s->parts,
                         s->stages))
    try_parts(s, layout, choice, outlooks);
}

static void try_chunks(ptc_search_t *s, const ptc_timed_layout_t *layout, ptc_choice_t choice,
                       double hop, outlook_t outlooks[4]) {
  const int64_t pp = choice.size[PTC_AXIS_PP], num_parts = pp * choice.chunks;
  double busy;
  const double seconds = least_of_schedule(s, layout, &choice, hop, &busy);
  if (ptc_search_hopeless(s, seconds)) return;
  if (!look_out(s, layout, &choice, busy, seconds, outlooks)) return;
  if (s->cuts_alone) {
    if (!ptc_search_puts_off(s, layout, &choice, seconds)) return;
    uint32_t zeros = 0;
    for (int64_t zero = 0; zero < 4; zero++) {
      const outlook_t *o = &outlooks[zero];
      if (o->open && (s->keeps_all || o->may_fit) && !ptc_search_hopeless(s, o->seconds))
        zeros |= 1u << zero;
    }
    ptc_search_cuts(s, layout, &choice, zeros, seconds);
    return;
  }
  if (s->parts_of != num_parts && !find_cuts(s, layout, &choice)) return;
  s->parts_of = num_parts;
  try_parts(s, layout, choice, outlooks);
  if (choice.cuts || num_parts == 1) return;
  try_even(s, layout, choice, outlooks);
  // The slowest part is not all: ends count more where micro-batches are few, and memory binds on the first stages.
  if (ptc_search_puts_off(s, layout, &choice, seconds))
    s->cuts_bound = fmin(s->cuts_bound, seconds);
}

// Those that are mostly faster first.
static const ptc_schedule_kind_t schedules[PTC_NUM_SCHEDULES] = {
    PTC_SCHEDULE_ZB_H1, PTC_SCHEDULE_1F1B, PTC_SCHEDULE_GPIPE, PTC_SCHEDULE_INTERLEAVED};

static void try_schedules(ptc_search_t *s, const ptc_timed_layout_t *layout, ptc_choice_t choice) {
  const int64_t pp = choice.size[PTC_AXIS_PP];
  const int64_t m = micro_batches(s, &choice), turns = ptc_pieces_turns(&layout->pieces);
  double hops[2] = {-1, -1};  // with one chunk and several; below 0: not asked for yet
  outlook_t outlooks[4];
  open_outlooks(s, &choice, outlooks);
  s->parts_of = 0;
  for (int32_t k = 0; k < PTC_NUM_SCHEDULES; k++) {
    const ptc_schedule_kind_t kind = schedules[k];
    if (s->fixed->schedule >= 0 && s->fixed->schedule != (int32_t)kind) continue;
    if (pp == 1 && kind != PTC_SCHEDULE_1F1B && s->fixed->schedule < 0) continue;
    choice.schedule = kind;
    const bool in_chunks = kind == PTC_SCHEDULE_INTERLEAVED;
    if (in_chunks && m % pp) continue;
    // Many chunks wait less and need less.
    const int64_t least = in_chunks && s->fixed->chunks != 1 ? 2 : 1;
    for (int64_t v = in_chunks ? turns / pp : 1; v >= least; v--) {
      if (!ptc_search_open_or(s->fixed->chunks, v) || pp * v > turns + (pp == 1)) continue;
      if (s->fixed->cuts && pp * v != s->fixed->num_cuts + 1) continue;
      if (s->fixed->most_parts > 0 && pp * v > s->fixed->most_parts) continue;
      choice.chunks = v;
      double *hop = &hops[v > 1];
      if (*hop < 0) *hop = ptc_predict_hop(&layout->pieces, s->cluster, s->stack, &choice);
      try_chunks(s, layout, choice, *hop, outlooks);
    }
  }
}

// Some dp above 1 with which |choice| can be laid out. 1: there is none.
static int64_t some_replicas(const ptc_search_t *s, const ptc_choice_t *choice, int64_t rest) {
  const int64_t together = choice->size[PTC_AXIS_EP] * choice->micro_batch;
  for (int64_t dp = 2; dp <= rest; dp++)
    if (rest % dp == 0 && s->work->batch % (dp * together) == 0) return dp;
  return 1;
}

// The form for dp above 1 as in |choice|.
static ptc_form_t *replicated_form(ptc_search_t *s, const ptc_choice_t *choice, int64_t rest) {
  ptc_choice_t some = *choice;
  some.size[PTC_AXIS_PP] = 1;
  some.size[PTC_AXIS_DP] = some_replicas(s, &some, rest);
  ptc_form_t *form = ptc_search_form(s, &some);
  if (!form || ptc_form_any_dp(form)) return form;
  some.size[PTC_AXIS_DP] = choice->size[PTC_AXIS_DP];
  return ptc_search_form(s, &some);
}

static void try_splits(ptc_search_t *s, const ptc_rough_t *rough) {
  const int64_t *fixed = s->fixed->size, *size = rough->choice.size;
  const int64_t rest = s->devices / (size[PTC_AXIS_TP] * size[PTC_AXIS_CP] * size[PTC_AXIS_EP]);
  int64_t depths[PTC_MAX_DIVISORS];
  const int32_t count = ptc_search_divisors(rest, depths);
  ptc_timed_layout_t alone, own;
  const ptc_form_t *of_own = NULL;
  bool possible = false, serves_all;
  ptc_form_t *any = ptc_search_any_form(s, &rough->choice, &serves_all);
  if (serves_all && !ptc_search_recall(s, any, true, rough, &own)) return;
  for (int32_t i = 0; i < count; i++) {
    ptc_choice_t choice = rough->choice;
    choice.size[PTC_AXIS_PP] = depths[i];
    choice.size[PTC_AXIS_DP] = rest / depths[i];
    if (!ptc_search_open_or(fixed[PTC_AXIS_PP], depths[i]) ||
        !ptc_search_open_or(fixed[PTC_AXIS_DP], rest / depths[i]))
      continue;
    if (s->fixed->banned && memcmp(choice.size, s->fixed->banned, sizeof(choice.size)) == 0)
      continue;
    const int64_t replicas = choice.size[PTC_AXIS_DP] * size[PTC_AXIS_EP];
    if (s->work->batch % (replicas * choice.micro_batch)) continue;
    if (s->fixed->cuts) {
      choice.cuts = s->fixed->cuts;
      choice.num_cuts = s->fixed->num_cuts;
    }
    if (ptc_search_hopeless(s, rough->work)) continue;
    if (serves_all) {
      try_schedules(s, &own, choice);
      continue;
    }
    if (choice.size[PTC_AXIS_DP] == 1) {
      if (ptc_search_recall(s, any, false, rough, &alone)) try_schedules(s, &alone, choice);
      continue;
    }
    // Over dp there are sums of gradients, and more; what is left out makes |rough| a bound.
    ptc_form_t *form = replicated_form(s, &choice, rest);
    if (form && form != of_own) possible = ptc_search_lay_out(s, form, false, &choice, &own);
    of_own = form;
    if (form && possible) try_schedules(s, &own, choice);
  }
}

// Cuts of the layout's pipelines are looked for once the best value is known, nearly.
static void put_off(ptc_search_t *s, const ptc_rough_t *layout) {
  ptc_put_off_t *one = PTC_ARENA_NEW(s->arena, ptc_put_off_t);
  *one = (ptc_put_off_t){*layout, s->cuts_bound, NULL};
  *(s->last_off ? &s->last_off->next : &s->put_off) = one;
  s->last_off = one;
}

static void try_cuts(ptc_search_t *s) {
  s->cuts_alone = true;
  for (const ptc_put_off_t *one = s->put_off; one; one = one->next) {
    if (ptc_search_hopeless(s, one->bound)) continue;
    try_splits(s, &one->layout);
    if (s->form_arena.used_bytes > MOST_FORM_BYTES) ptc_search_end_forms(s);
  }
  s->cuts_alone = false;
  s->put_off = s->last_off = NULL;
}

static void search_all(ptc_search_t *s) {
  ptc_rough_t layout;
  ptc_search_begin(s);
  while (ptc_search_next(s, &layout)) {
    s->cuts_bound = INFINITY;
    try_splits(s, &layout);
    if (!isinf(s->cuts_bound)) put_off(s, &layout);
    if (s->form_arena.used_bytes > MOST_FORM_BYTES) ptc_search_end_forms(s);
  }
  try_cuts(s);
}

ptc_status_t ptc_search(const ptc_work_t *work, const ptc_cluster_t *cluster,
                        const ptc_stack_t *stack, const ptc_fixed_t *fixed, int64_t devices,
                        ptc_objective_t objective, ptc_arena_t *arena, ptc_search_result_t *out) {
  *out = (ptc_search_result_t){.best = {.value = INFINITY, .predicted = {.memory_bytes = INFINITY}},
                               .complete = true};
  ptc_search_t s = {.work = work,
                    .cluster = cluster,
                    .stack = stack,
                    .fixed = fixed,
                    .objective = objective,
                    .devices = devices,
                    .arena = arena,
                    .out = out,
                    .looks = ALL_LOOKS,
                    .left_out = INFINITY};
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
  if (!out->feasible && !fixed->needs_fit) {  // then what needs least counts, too
    s.keeps_all = true;
    search_all(&s);
  }
  ptc_search_certify(&s);
  ptc_search_end_forms(&s);
  const bool none = isinf(out->best.predicted.memory_bytes) || (fixed->needs_fit && !out->feasible);
  return none ? PTC_INFEASIBLE : PTC_OK;
}
