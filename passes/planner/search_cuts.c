// The cuts of a pipeline that are better than those balanced by time, or the proof that there are none.
//
// Whatever the other stages have, a stage that has turns [from, to) is not done before some time: the first micro-batch
// passes all stages, it has its own work for all the others, and the last B passes the stages before it. Its memory depends
// on its own turns alone. Both only grow with more turns, but for traffic that hides beside computing, which is looked at
// once a stage is whole. So cuts are stages, one after another, each of which may be in less than the best value found; from
// which turn on the later stages cannot be is remembered. What is left is priced by the cost model.
//
// Chunks of an interleaved schedule add up to stages: what stages still may take says whether all turns find a place. That
// excludes too little to search many cuts.
//
// The least time goes with the fewest turns that compute again, the least memory with the most: where not even both
// together are of use, no number between them is.
//
// A search that would be too long ends without a claim: then the result's bound knows of it.
#include <math.h>
#include <string.h>

#include "passes/planner/predict_stage.h"
#include "passes/planner/search_impl.h"
#include "passes/schedule_order.h"

enum {
  PRICE = 16,  // of one simulation, in parts that are looked at
  FEW_TURNS = 12,
  FEW_CUTS = 500,         // such pipelines are searched without a limit
  MOST_LOOKS = 1 << 12,   // of one zero and number of turns that compute again
  MOST_STATES = 1 << 16,  // parts times turns
  MOST_HALVINGS = 12
};

// What a turn needs: computed again, and not.
typedef struct least_bytes_s {
  double again, each;
} least_bytes_t;

typedef struct known_late_s {
  int64_t zero;
  ptc_stage_pieces_t counts;
  ptc_stage_cost_t cost;
} known_late_t;
enum { KNOWN_LATE = 64 };

typedef struct seek_s {
  ptc_search_t *s;
  ptc_arena_t *scratch;
  const ptc_timed_layout_t *layout;
  ptc_work_pieces_t pieces;
  ptc_choice_t choice, frugal;  // |frugal|: computes as many turns again, or more
  ptc_predict_t p, memory;      // of |choice|, and of |frugal|
  int64_t turns, num_parts, num_stages;
  double m, hop;
  bool apart, by_bytes;
  double bytes;              // of a device
  double limit;              // seconds or, by_bytes, bytes: less is of use
  double f[PTC_MAX_PIECES];  // forward pass of a turn
  double b[PTC_MAX_PIECES];  // what passes back, at least
  double all_f, all_b, least_b, first_w;
  double *filled;  // of each part: F that a stage does before its first B
  double *dead;    // of a part and its first turn: the largest limit that the rest cannot meet
  least_bytes_t *least_bytes;  // of each stage
  int64_t *earliest;           // of each part: its first turn at least
  int64_t *cuts;
  int64_t looks, all_looks, leaves;
  bool few, first_only, found;
  bool sends;           // traffic of parameters and gradients counts before a stage is whole
  known_late_t *known;  // of them
} seek_t;

// --- bounds

static double sum_before(const seek_t *q, const double *of_turn, int64_t at) {
  if (at == 0) return 0;
  double sum = 0;
  int64_t begin = 0;
  for (int32_t i = 0; i < q->pieces.count; i++) {
    const ptc_piece_t *piece = &q->pieces.items[i];
    sum += of_turn[i] *
           (double)ptc_part_has(piece, begin, (ptc_part_range_t){0, at}, true, at == q->turns);
    if (ptc_piece_repeats(piece)) begin += piece->count;
  }
  return sum;
}

// What it depends on has been seen before, mostly.
static void add_least_late(const seek_t *q, int64_t stage, ptc_stage_cost_t *c) {
  const size_t bytes = sizeof(int32_t) * (size_t)q->pieces.count;
  const ptc_stage_pieces_t *counts = &q->s->stages[stage];
  uint32_t hash = 0;
  for (int32_t i = 0; i < q->pieces.count; i++)
    hash = (hash ^ (uint32_t)counts->times[i]) * UINT32_C(0x9e3779b1);
  known_late_t *known = &q->known[hash >> 26];
  if (known->zero != q->choice.zero || memcmp(known->counts.times, counts->times, bytes) != 0) {
    known->zero = q->choice.zero;
    memcpy(known->counts.times, counts->times, bytes);
    ptc_predict_stage_late(&q->p, stage, &known->cost);
  }
  c->b += known->cost.b;
  c->begin += known->cost.begin;
  c->after += known->cost.after;
}

// Of a stage whose last part so far is |part|, in the search's parts and stages: when it is done at least, and all that
// waits for it. |late|: with what is sent once; it is whole then.
static double stage_seconds(const seek_t *q, int64_t part, bool late) {
  const ptc_part_range_t *parts = q->s->parts;
  const int64_t stages = q->num_stages, stage = part % stages, chunks = q->num_parts / stages;
  const bool whole = part >= q->num_parts - stages;
  const double m = q->m, hop = q->hop, after_it = (double)(stages - 1 - stage);
  ptc_stage_cost_t c;
  ptc_predict_stage_cost(&q->p, stage, late, &c);
  if (!late && q->sends) add_least_late(q, stage, &c);
  const double f = c.f + hop * (double)(chunks - (stage == stages - 1));
  double b = c.b + hop * (double)(chunks - (stage == 0)), w = c.w;
  if (!q->apart) {
    b += w;
    w = 0;
  }
  const double before_f = sum_before(q, q->f, parts[stage].from) + hop * (double)stage;
  const double before_b =
      sum_before(q, q->b, parts[stage].from) + hop * (stage > 0 ? (double)(stage - 1) : 0);
  const double after_b = hop * after_it + (whole ? q->all_b - sum_before(q, q->b, parts[part].to)
                                                 : after_it * q->least_b);
  const double pass = q->all_f + hop * (double)(q->num_parts - 1);
  const double start = fmax(c.begin, before_f);
  const double through = c.begin - before_f;  // the first micro-batch is late by that
  double end, late_w = 0;
  if (q->choice.schedule == PTC_SCHEDULE_GPIPE) {
    const double later_f = q->all_f - sum_before(q, q->f, parts[part].to);
    end = fmax(pass + (m - 1) * f, start + m * f + later_f) + after_b + m * b;
  } else {
    double filled = 0;
    for (int64_t p = stage; p < q->num_parts; p += stages) {
      double own = p + 1 < q->num_parts ? hop : 0;
      if (p <= part) own += sum_before(q, q->f, parts[p].to) - sum_before(q, q->f, parts[p].from);
      filled += q->filled[p] * own;
    }
    late_w = q->apart ? fmin(m, 1 + (double)stage) : 0;
    end = fmax(pass + fmax(0, through) + after_b, start + filled) + m * (f + b + w) - filled -
          late_w * w;
  }
  const double first_w = stage > 0 && q->apart ? q->first_w : 0;
  return (fmax(end + late_w * w + c.after, end + before_b + first_w) + c.optimizer) * (1 - 1e-12);
}

// Our own plans keep what chunks need together: of some of a stage's chunks nothing is known.
static bool knows_bytes(const seek_t *q, bool whole) {
  return whole || q->num_parts == q->num_stages || q->s->stack->saves != PTC_SAVE_PTC;
}

static bool is_of_use(const seek_t *q, int64_t part, bool late) {
  const double bytes =
      knows_bytes(q, late) ? ptc_predict_stage_bytes(&q->memory, part % q->num_stages) : 0;
  if (bytes > q->bytes) return false;
  if (isinf(q->limit)) return true;
  return q->by_bytes ? bytes < q->limit : stage_seconds(q, part, late) < q->limit;
}

// --- parts at hand

static void count_part(seek_t *q, int64_t part, int64_t from, int64_t to,
                       const ptc_stage_pieces_t *base) {
  ptc_stage_pieces_t *stage = &q->s->stages[part % q->num_stages];
  q->s->parts[part] = (ptc_part_range_t){from, to};
  int64_t begin = 0;
  for (int32_t i = 0; i < q->pieces.count; i++) {
    const ptc_piece_t *piece = &q->pieces.items[i];
    stage->times[i] =
        (base ? base->times[i] : 0) +
        (int32_t)ptc_part_has(piece, begin, q->s->parts[part], part == 0, part == q->num_parts - 1);
    if (ptc_piece_repeats(piece)) begin += piece->count;
  }
}

static bool may_be(seek_t *q, int64_t part, int64_t from, int64_t to,
                   const ptc_stage_pieces_t *base, bool late) {
  q->looks--;
  q->all_looks++;
  count_part(q, part, from, to, base);
  return is_of_use(q, part, late);
}

// Seconds of a step that one more turn on |stage| costs at least, and what it costs besides if it computes again.
static double least_turn(const seek_t *q, int64_t stage, double *out_again) {
  double least = INFINITY, again = INFINITY;
  for (int32_t i = 0; i < q->pieces.count; i++) {
    const ptc_piece_time_t *t = &q->layout->times[i];
    if (!ptc_piece_repeats(&q->pieces.items[i])) continue;
    const double w = q->apart ? t->weight_grad : 0;  // else a part of b
    least = fmin(least, fmax(0, q->m - q->filled[stage]) * q->f[i] + q->m * (q->b[i] + w));
    again = fmin(again, q->m * (t->again + t->exposed_again));
  }
  *out_again = again;
  return least;
}

// How many turns |left| is enough for, where the first |some| take |first| each, and all others |each|.
static double turns_within(double left, double some, double first, double each) {
  if (left < 0) return -1;
  const double turns = left < some * first ? left / first
                       : each > 0          ? some + (left - some * first) / each
                                           : INFINITY;
  return floor(turns * (1 + 1e-9));
}

// How many more turns |stage|, whose last part so far is |part|, can have; -1: it has too many.
static double room_of(const seek_t *q, int64_t stage, int64_t part) {
  const double bytes = q->by_bytes ? fmin(q->limit, q->bytes) : q->bytes;
  double surely = INFINITY, some = 0;  // turns that compute again, at least and at most
  for (int32_t i = 0; i < q->pieces.count; i++) {
    if (!ptc_piece_repeats(&q->pieces.items[i])) continue;
    const double has = q->s->stages[stage].times[i];
    surely = fmin(surely, fmax(0, (double)q->choice.recompute_turns - has));
    some += fmax(0, (double)q->frugal.recompute_turns - has);
  }
  double room = INFINITY;
  if (!isinf(bytes) && knows_bytes(q, false)) {
    const least_bytes_t *least = &q->least_bytes[stage];
    room = turns_within(bytes - ptc_predict_stage_bytes(&q->memory, stage), some, least->again,
                        q->frugal.recompute_turns < 0 ? least->again : least->each);
  }
  if (q->by_bytes || room < 0) return room;
  double again;
  const double each = least_turn(q, stage, &again);
  return fmin(room,
              turns_within(q->limit - stage_seconds(q, part, false), surely, each + again, each));
}

// Whether the turns from |at| on find a place on the parts from |next| on.
static bool have_room(seek_t *q, int64_t next, int64_t at) {
  const int64_t stages = q->num_stages;
  double room = 0;
  for (int64_t k = 0; k < stages && room < (double)(q->turns - at); k++) {
    int64_t last = next - 1 < k ? -1 : next - 1 - (next - 1 - k) % stages;  // its last part so far
    if (last >= q->num_parts - stages) continue;                            // whole
    q->looks--;
    q->all_looks++;
    if (last < 0) {
      count_part(q, k, at, at, NULL);
      last = k;
    }
    const double own = room_of(q, k, last);
    if (own < 0) return false;
    room += own;
  }
  return room >= (double)(q->turns - at);
}

// --- all cuts

static void price(seek_t *q) {
  ptc_search_t *s = q->s;
  q->found = true;
  q->leaves++;
  q->looks -= PRICE;
  q->all_looks += PRICE;
  for (int64_t p = 1; p < q->num_parts; p++) q->cuts[p - 1] = s->parts[p].from;
  q->choice.cuts = q->cuts;
  q->choice.num_cuts = (int32_t)q->num_parts - 1;
  ptc_search_try(s, q->layout, &q->choice);
  ptc_candidate_t *best = &s->out->best;
  if (best->choice.cuts == q->cuts) {
    int64_t *kept = PTC_ARENA_ARRAY(s->arena, int64_t, q->num_parts);
    memcpy(kept, q->cuts, sizeof(*kept) * (size_t)(q->num_parts - 1));
    best->choice.cuts = kept;
  }
  q->choice.cuts = NULL;
  const double value = q->by_bytes ? best->predicted.memory_bytes : ptc_search_seconds(s);
  q->limit = fmin(q->limit, value * (1 - 1e-12));
}

static bool is_over(const seek_t *q) { return q->looks < 0 || (q->first_only && q->found); }

// The last end of a part from |from| on, up to |most|, that may be; |least| - 1: there is none. Later ends take and
// need more, so that it is found near |guess| by steps that double, and halving.
static int64_t latest_end(seek_t *q, int64_t part, int64_t from, int64_t least, int64_t most,
                          int64_t guess, const ptc_stage_pieces_t *base) {
  int64_t low = least - 1, high = most + 1, step = 1;
  if (low >= most) return low;
  int64_t at = guess < least ? least : guess > most ? most : guess;
  const bool up = may_be(q, part, from, at, base, false);
  *(up ? &low : &high) = at;
  for (; up ? low + step < high : high - step > low; step *= 2) {
    at = up ? low + step : high - step;
    const bool may = may_be(q, part, from, at, base, false);
    *(may ? &low : &high) = at;
    if (may != up) break;
  }
  while (high - low > 1) {
    at = low + (high - low) / 2;
    *(may_be(q, part, from, at, base, false) ? &low : &high) = at;
  }
  return low;
}

// From which turn on each part and those after it may be, one as full as the other.
static bool find_earliest(seek_t *q) {
  int64_t to = q->turns, length = q->turns / q->num_parts;
  for (int64_t part = q->num_parts - 1; part >= 0; part--) {
    int64_t low = part - 1, high = to;  // |high| may be, or is no part
    for (int64_t step = 1, at = to - length; high - low > 1; step *= 2) {
      if (at <= low || at >= high) at = low + (high - low) / 2;
      const bool may = may_be(q, part, at, to, NULL, false);
      *(may ? &high : &low) = at;
      at += may ? -step : step;
    }
    if (high == to) return false;
    q->earliest[part] = high;
    length = to - high;
    to = high;
  }
  return to == 0;
}

static void seek(seek_t *q, int64_t part, int64_t from) {
  if (part == q->num_parts) {
    price(q);
    return;
  }
  const bool one_chunk = q->num_parts == q->num_stages, last = part + 1 == q->num_parts;
  const bool whole = part >= q->num_parts - q->num_stages;
  double *dead = &q->dead[part * (q->turns + 1) + from];
  if (one_chunk && *dead >= q->limit) return;
  ptc_stage_pieces_t *stage = &q->s->stages[part % q->num_stages], base = {0};
  if (part >= q->num_stages) base = *stage;
  const int64_t most = q->turns - (q->num_parts - 1 - part), leaves = q->leaves;
  int64_t least = last ? q->turns : from + 1, to = most;
  if (!q->few) {
    if (!last && q->earliest[part + 1] > least) least = q->earliest[part + 1];
    to = latest_end(q, part, from, least, most, from + q->turns / q->num_parts, &base);
  }
  for (; to >= least && !is_over(q); to--) {
    if (one_chunk && !last && q->dead[(part + 1) * (q->turns + 1) + to] >= q->limit) continue;
    if (!may_be(q, part, from, to, &base, whole)) continue;
    if (!one_chunk && !last && !have_room(q, part + 1, to)) continue;
    count_part(q, part, from, to, &base);
    seek(q, part + 1, to);
  }
  *stage = base;
  if (q->leaves == leaves && q->looks >= 0) *dead = fmax(*dead, q->limit);
}

// Cuts that may have less than |limit|: |all| of them, or those that come first. False: there are none.
static bool seek_within(seek_t *q, double limit, bool all) {
  q->limit = limit;
  q->first_only = !all;
  q->found = false;
  if (q->few || find_earliest(q)) seek(q, 0, 0);
  return q->found;
}

static double number_of_cuts(int64_t turns, int64_t num_parts) {
  double n = 1;
  for (int64_t i = 1; i < num_parts; i++) n *= (double)(turns - i) / (double)i;
  return n;
}

// False: too much to remember.
static bool begin_seek(seek_t *q) {
  const int64_t states = q->num_parts * (q->turns + 1);
  if (states > MOST_STATES) return false;
  if (!q->dead) {
    q->dead = PTC_ARENA_ARRAY(q->scratch, double, states);
    q->cuts = PTC_ARENA_ARRAY(q->scratch, int64_t, q->num_parts);
    q->earliest = PTC_ARENA_ARRAY(q->scratch, int64_t, q->num_parts);
  }
  for (int64_t i = 0; i < states; i++) q->dead[i] = 0;
  q->looks = q->few ? INT64_MAX / 2 : MOST_LOOKS;
  return true;
}

static double best_value(const seek_t *q) {
  const ptc_candidate_t *best = &q->s->out->best;
  return (q->by_bytes ? best->predicted.memory_bytes : ptc_search_seconds(q->s)) * (1 - 1e-12);
}

static void seek_rest(seek_t *q, double low) {
  if (!seek_within(q, best_value(q), false)) {
    if (q->looks < 0) ptc_search_leave(q->s, low);
    return;
  }
  for (int32_t step = 0; step < MOST_HALVINGS && q->looks >= 0; step++) {
    const double high = best_value(q), middle = (low + high) / 2;
    if (isinf(high) || high - low < 1e-4 * high) break;
    if (!seek_within(q, middle, false) && q->looks >= 0) low = middle;
    if (q->found && best_value(q) > middle) break;  // bounds are too low here
  }
  if (q->looks >= 0 && low < best_value(q)) seek_within(q, best_value(q), true);
  if (q->looks < 0) ptc_search_leave(q->s, low);
}

// With the choice's zero and number of turns that compute again. |low|: what is known to be a bound. False: too many.
static bool seek_all(seek_t *q, double low) {
  if (!begin_seek(q)) {
    ptc_search_leave(q->s, low);
    return false;
  }
  seek_rest(q, low);
  return true;
}

// --- what does not depend on the cuts

static void set_times(seek_t *q) {
  const bool again = q->choice.recompute_turns < 0;
  q->all_f = q->all_b = q->first_w = 0;
  q->least_b = INFINITY;
  int64_t begin = 0;
  for (int32_t i = 0; i < q->pieces.count; i++) {
    const ptc_piece_t *piece = &q->pieces.items[i];
    const ptc_part_time_t t =
        ptc_predict_turn(&q->layout->times[i], again || !ptc_piece_repeats(piece) ? 1 : 0);
    q->f[i] = t.f;
    q->b[i] = t.b + (q->apart ? 0 : t.w);
    q->all_f += q->f[i] * (double)piece->count;
    q->all_b += q->b[i] * (double)piece->count;
    if (ptc_piece_repeats(piece)) q->least_b = fmin(q->least_b, q->b[i]);
    if (begin == 0) q->first_w += t.w;  // one turn, and what stands before it
    if (ptc_piece_repeats(piece)) begin += piece->count;
  }
}

// Of each part: F that its stage does before its first B, in groups of micro-batches.
static void set_filled(seek_t *q) {
  const int64_t stages = q->num_stages, chunks = q->num_parts / stages, m = (int64_t)q->m;
  const int64_t group = m < stages ? m : stages;
  for (int64_t k = 0; k < stages; k++) {
    const ptc_stage_walk_t walk = ptc_stage_walk(q->choice.schedule, false, (int32_t)stages,
                                                 (int32_t)chunks, (int32_t)m, (int32_t)k, 0);
    const int64_t before = walk.warm < walk.total ? walk.warm + 1 : walk.total;
    const int64_t rounds = before / (group * chunks);
    int64_t rest = before - rounds * group * chunks;
    for (int64_t c = 0; c < chunks; c++) {
      const int64_t own = rest < group ? rest : group;
      q->filled[c * stages + k] = (double)(rounds * group + own);
      rest -= own;
    }
  }
}

static double least_bytes(seek_t *q, int64_t stage, int64_t again) {
  ptc_stage_pieces_t *counts = &q->s->stages[stage];
  double least = INFINITY;
  memset(counts, 0, sizeof(*counts));
  q->frugal.recompute_turns = again;
  for (int32_t i = 0; i < q->pieces.count; i++) {
    if (!ptc_piece_repeats(&q->pieces.items[i])) continue;
    counts->times[i] = 1;
    const double one = ptc_predict_stage_bytes(&q->memory, stage);
    counts->times[i] = 2;
    least = fmin(least, ptc_predict_stage_bytes(&q->memory, stage) - one);
    counts->times[i] = 0;
  }
  return q->choice.recompute_every > 1 ? 0 : fmax(0, least);
}

static void set_least_bytes(seek_t *q) {
  for (int64_t k = 0; k < q->num_stages; k++) {
    const double each = least_bytes(q, k, 0);
    q->least_bytes[k] = (least_bytes_t){fmin(each, least_bytes(q, k, -1)), each};
  }
}

// Whether there are cuts whose parts may each be below the best value.
static bool may_be_better(seek_t *q) {
  q->limit = best_value(q);
  if (q->num_parts > q->num_stages) return have_room(q, 0, 0);
  // As many turns as a part can have, one part after another.
  int64_t from = 0, length = q->turns / q->num_parts;
  for (int64_t part = 0; part < q->num_parts; part++) {
    const int64_t most = q->turns - (q->num_parts - 1 - part);
    const int64_t least = part + 1 == q->num_parts ? most : from + 1;
    const int64_t to = latest_end(q, part, from, least, most, from + length, NULL);
    if (to < least) return false;
    length = to - from;
    from = to;
  }
  return true;
}

// Turns that a stage can have at most.
static int64_t most_turns(const seek_t *q) {
  double least = INFINITY;
  for (int32_t i = 0; i < q->pieces.count; i++) {
    const ptc_part_time_t t = ptc_predict_turn(&q->layout->times[i], 0);
    if (ptc_piece_repeats(&q->pieces.items[i])) least = fmin(least, t.f + t.b + t.w);
  }
  const double most = best_value(q) / (q->m * least) + 1e-6;
  return most < (double)q->turns ? (int64_t)most : q->turns;
}

// With |fewest| to |most| turns of each repeat on a stage computed again, of |count|: that many are all. The fewest take
// least, the most need least. False: the cuts are too many.
static bool seek_turns(seek_t *q, int64_t fewest, int64_t most, int64_t count, double low) {
  q->choice.recompute_turns = fewest < count ? fewest : -1;
  q->frugal.recompute_turns = most < count ? most : -1;
  set_times(q);
  // A turn that is computed again may need more than it leaves free.
  if (q->few && fewest < most) {
    for (int64_t again = fewest; again <= most; again++)
      if (!seek_turns(q, again, again, count, low)) return false;
    return true;
  }
  if (!may_be_better(q)) return true;
  if (fewest == most) return seek_all(q, low);
  const int64_t middle = fewest + (most - fewest) / 2;
  return seek_turns(q, fewest, middle, count, low) && seek_turns(q, middle + 1, most, count, low);
}

static void seek_zero(seek_t *q, int64_t zero, double low) {
  q->choice.zero = q->frugal.zero = zero;
  if (q->num_parts > q->num_stages && knows_bytes(q, false)) set_least_bytes(q);
  // Who asks for a mode asks for it everywhere.
  const bool open = q->s->fixed->recompute < 0 && q->choice.recompute != PTC_RECOMPUTE_NONE;
  int64_t count = 1;
  for (int32_t i = 0; i < q->pieces.count && open && !q->by_bytes; i++)
    if (q->pieces.items[i].count > count) count = q->pieces.items[i].count;
  const int64_t most = count > 1 ? most_turns(q) : 1;
  if (most < count) count = most > 1 ? most : 1;
  seek_turns(q, 1, count, count, low);
}

static bool has_few(const ptc_search_t *s, int64_t turns, int64_t num_parts) {
  const int32_t most = s->fixed->most_cuts > 0 ? s->fixed->most_cuts : FEW_CUTS;
  return turns <= FEW_TURNS && number_of_cuts(turns, num_parts) <= most;
}

static void leave_all(ptc_search_t *s, double seconds) {
  ptc_search_leave(s, s->objective == PTC_OBJECTIVE_MEMORY ? 0 : seconds);
}

bool ptc_search_puts_off(ptc_search_t *s, const ptc_timed_layout_t *layout,
                         const ptc_choice_t *choice, double seconds) {
  const int64_t num_parts = choice->size[PTC_AXIS_PP] * choice->chunks;
  const int64_t turns = ptc_pieces_turns(&layout->pieces);
  if (num_parts == 1 || turns <= num_parts) return false;
  // Where stages lie on devices that differ, and chunks on few stages, bounds say little.
  const bool tries =
      s->cluster->num_groups == 1 && (choice->chunks == 1 || has_few(s, turns, num_parts));
  if (!tries) leave_all(s, seconds);
  return tries;
}

void ptc_search_cuts(ptc_search_t *s, const ptc_timed_layout_t *layout, const ptc_choice_t *choice,
                     uint32_t zeros, double seconds) {
  const int64_t stages = choice->size[PTC_AXIS_PP], num_parts = stages * choice->chunks;
  const int64_t turns = ptc_pieces_turns(&layout->pieces);
  const bool few = has_few(s, turns, num_parts);
  if (s->looks < 0 && !few) {
    leave_all(s, seconds);
    return;
  }
  ptc_arena_t scratch = {0};
  seek_t *q = PTC_ARENA_NEW(&scratch, seek_t);
  *q = (seek_t){.s = s,
                .scratch = &scratch,
                .layout = layout,
                .pieces = layout->pieces,
                .choice = *choice,
                .frugal = *choice,
                .turns = turns,
                .num_parts = num_parts,
                .num_stages = stages,
                .few = few,
                .apart = choice->schedule == PTC_SCHEDULE_ZB_H1,
                .by_bytes = s->objective == PTC_OBJECTIVE_MEMORY || s->keeps_all,
                .bytes = s->keeps_all || s->capacity <= 0 ? INFINITY : s->capacity};
  q->m = (double)(s->work->batch /
                  (choice->size[PTC_AXIS_DP] * choice->size[PTC_AXIS_EP] * choice->micro_batch));
  q->pieces.micro_batches = (int64_t)q->m;
  q->hop = ptc_predict_hop(&q->pieces, s->cluster, s->stack, choice);
  q->p = (ptc_predict_t){.pieces = &q->pieces,
                         .cluster = s->cluster,
                         .stack = s->stack,
                         .choice = &q->choice,
                         .device = ptc_predict_device(s->cluster, s->work->precision),
                         .times = layout->times,
                         .num_stages = stages,
                         .micro_batches = q->pieces.micro_batches,
                         .parts = s->parts,
                         .counts = s->stages};
  q->memory = q->p;
  q->memory.choice = &q->frugal;
  q->filled = PTC_ARENA_ARRAY(&scratch, double, num_parts);
  q->least_bytes = PTC_ARENA_ARRAY(&scratch, least_bytes_t, stages);
  set_filled(q);
  s->parts_of = 0;
  q->sends = !few && !q->by_bytes;
  if (q->sends) {
    q->known = PTC_ARENA_ARRAY(&scratch, known_late_t, KNOWN_LATE);
    for (int32_t i = 0; i < KNOWN_LATE; i++) q->known[i].zero = -1;
  }
  for (int64_t zero = 3; zero >= 0; zero--)
    if (zeros >> zero & 1) seek_zero(q, zero, q->by_bytes ? 0 : seconds);
  if (!few) s->looks -= q->all_looks;
  ptc_arena_deinit(&scratch);
}
