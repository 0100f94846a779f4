// Which turns lie on which part of a pipeline.
#include <math.h>

#include "passes/planner/predict_impl.h"

int64_t ptc_part_count(const ptc_work_pieces_t *pieces, int32_t index, ptc_part_range_t part,
                       bool first, bool last) {
  int64_t begin = 0;  // global turn at which the piece begins
  for (int32_t i = 0; i < index; i++)
    if (ptc_piece_repeats(&pieces->items[i])) begin += pieces->items[i].count;
  return ptc_part_has(&pieces->items[index], begin, part, first, last);
}

// The turn up to which a part that begins at |from| can go within |limit| seconds; -1: not even one turn.
static int64_t reach(const ptc_work_pieces_t *pieces, const double *costs, int64_t turns,
                     int64_t from, double limit) {
  int64_t begin = 0, to = from;
  double left = limit;
  for (int32_t i = 0; i < pieces->count; i++) {
    const ptc_piece_t *piece = &pieces->items[i];
    if (!ptc_piece_repeats(piece)) {
      if (begin < from) continue;  // with an earlier part
      left -= costs[i];
      if (left >= 0) continue;
      if (begin == turns && to == turns) to--;  // what stands after the last turn goes with it
      return to > from ? to : -1;
    }
    const int64_t end = begin + piece->count;
    if (end > from) {
      const int64_t room = end - (begin > from ? begin : from);
      const double fit = costs[i] > 0 ? floor(left / costs[i] * (1 + 1e-12)) : (double)room;
      if (fit < (double)room) {
        to += (int64_t)fit;
        return to > from ? to : -1;
      }
      to += room;
      left -= (double)room * costs[i];
    }
    begin = end;
  }
  return to;
}

// Whole parts inside one repeat, all but the last of them, which may reach beyond it.
static int64_t equal_parts(const ptc_work_pieces_t *pieces, const double *costs, int64_t at,
                           double limit, int64_t *out_turns) {
  int64_t begin = 0;
  for (int32_t i = 0; i < pieces->count; i++) {
    const ptc_piece_t *piece = &pieces->items[i];
    if (!ptc_piece_repeats(piece)) continue;
    const int64_t end = begin + piece->count;
    if (at > begin && at < end && costs[i] > 0) {
      *out_turns = (int64_t)floor(fmin(limit / costs[i] * (1 + 1e-12), (double)(end - at)));
      return *out_turns > 0 ? (end - at) / *out_turns - 1 : 0;
    }
    begin = end;
  }
  return 0;
}

static int64_t parts_within(const ptc_work_pieces_t *pieces, const double *costs, int64_t turns,
                            int64_t most, double limit) {
  int64_t at = 0, parts = 0;
  while (at >= 0 && at < turns && parts <= most) {
    int64_t each = 0;
    const int64_t equal = equal_parts(pieces, costs, at, limit, &each);
    if (equal > 0) {
      at += equal * each;
      parts += equal;
    }
    at = reach(pieces, costs, turns, at, limit);
    parts++;
  }
  return at < turns ? most + 1 : parts;
}

static double cost_of_part(const ptc_work_pieces_t *pieces, const double *costs,
                           ptc_part_range_t part, bool first, bool last) {
  double sum = 0;
  for (int32_t i = 0; i < pieces->count; i++)
    sum += costs[i] * (double)ptc_part_count(pieces, i, part, first, last);
  return sum;
}

// The cuts of the choice; false: it leaves them open.
static bool given_parts(const ptc_choice_t *choice, int64_t turns, int64_t num_parts,
                        ptc_part_range_t *parts) {
  if (!choice->cuts || choice->num_cuts != num_parts - 1) return false;
  for (int64_t p = 0; p < num_parts; p++) {
    parts[p].from = p == 0 ? 0 : choice->cuts[p - 1];
    parts[p].to = p == num_parts - 1 ? turns : choice->cuts[p];
  }
  return true;
}

bool ptc_predict_cuts(const ptc_work_pieces_t *pieces, const ptc_choice_t *choice,
                      const double *costs, int64_t num_parts, ptc_part_range_t *parts) {
  const int64_t turns = ptc_pieces_turns(pieces);
  if (num_parts > 1 && turns < num_parts) return false;
  if (given_parts(choice, turns, num_parts, parts)) return true;
  const ptc_part_range_t whole = {0, turns};
  const double total = cost_of_part(pieces, costs, whole, true, true);
  // The least limit that num_parts parts meet, found by halving; it is one of finitely many sums, so that 60 steps
  // leave the same parts as the exact one.
  double low = total / (double)num_parts * (1 - 1e-9), high = total;
  double one_each = 0;
  for (int32_t i = 0; i < pieces->count; i++) one_each += costs[i];
  // A part that is full to within one of each piece.
  high = fmin(high, total / (double)num_parts + one_each);
  for (int32_t step = 0; step < 60 && high - low > 1e-9 * high; step++) {
    const double middle = (low + high) / 2;
    if (parts_within(pieces, costs, turns, num_parts, middle) <= num_parts)
      high = middle;
    else
      low = middle;
  }
  int64_t at = 0;
  for (int64_t p = 0; p < num_parts; p++) {
    int64_t to = p == num_parts - 1 ? turns : reach(pieces, costs, turns, at, high);
    const int64_t most = turns - (num_parts - 1 - p);  // every later part has a turn
    if (to > most || to < 0) to = most;
    parts[p] = (ptc_part_range_t){at, to};
    at = to;
  }
  return true;
}

// As many turns as each part can do within |limit|, one after another: whether that is all of them.
static bool fill_parts(const ptc_work_pieces_t *pieces, const double *const *costs, int64_t turns,
                       int64_t num_parts, double limit, ptc_part_range_t *parts) {
  int64_t at = 0;
  for (int64_t p = 0; p < num_parts; p++) {
    int64_t to = reach(pieces, costs[p], turns, at, limit);
    const int64_t most = turns - (num_parts - 1 - p);  // every later part has a turn
    if (to < 0 || (p == num_parts - 1 && to < turns)) return false;
    if (to > most) to = most;
    parts[p] = (ptc_part_range_t){at, to};
    at = to;
  }
  return true;
}

enum { EXACT_TURNS = 256, EXACT_PARTS = 64 };

// What the turns before each one cost, with what stands before them; the last one has what stands after all.
static void add_up(const ptc_work_pieces_t *pieces, const double *costs, int64_t turns,
                   double *sums) {
  double own[EXACT_TURNS + 1] = {0};
  int64_t begin = 0;
  for (int32_t i = 0; i < pieces->count; i++) {
    const ptc_piece_t *piece = &pieces->items[i];
    const int64_t count = ptc_piece_repeats(piece) ? piece->count : 1;
    const int64_t at = begin < turns ? begin : turns > 0 ? turns - 1 : 0;
    for (int64_t t = 0; t < count; t++) own[at + t] += costs[i];
    if (ptc_piece_repeats(piece)) begin += count;
  }
  sums[0] = 0;
  for (int64_t t = 0; t < turns; t++) sums[t + 1] = sums[t] + own[t];
}

// best[i]: the least slowest part when the first i turns make the parts so far. A part may be slow on some turns and fast
// on others, and has one at least: filling one after another is not always best.
static void best_parts(const ptc_work_pieces_t *pieces, const double *const *costs, int64_t turns,
                       int64_t num_parts, ptc_part_range_t *parts) {
  double best[EXACT_TURNS + 1], next[EXACT_TURNS + 1], sums[EXACT_TURNS + 1];
  int16_t from[EXACT_PARTS][EXACT_TURNS + 1];
  for (int64_t i = 0; i <= turns; i++) best[i] = i == 0 ? 0 : INFINITY;
  for (int64_t p = 0; p < num_parts; p++) {
    add_up(pieces, costs[p], turns, sums);
    for (int64_t i = 0; i <= turns; i++) {
      next[i] = INFINITY;
      from[p][i] = (int16_t)(i > 0 ? i - 1 : 0);
      for (int64_t k = i - 1; k >= p && sums[i] - sums[k] < next[i]; k--) {
        const double slowest = fmax(best[k], sums[i] - sums[k]);
        if (slowest >= next[i]) continue;
        next[i] = slowest;
        from[p][i] = (int16_t)k;
      }
    }
    for (int64_t i = 0; i <= turns; i++) best[i] = next[i];
  }
  int64_t to = turns;
  for (int64_t p = num_parts - 1; p >= 0; p--) {
    parts[p] = (ptc_part_range_t){from[p][to], to};
    to = from[p][to];
  }
}

bool ptc_predict_mixed_cuts(const ptc_work_pieces_t *pieces, const ptc_choice_t *choice,
                            const double *const *costs, int64_t num_parts,
                            ptc_part_range_t *parts) {
  const int64_t turns = ptc_pieces_turns(pieces);
  if (num_parts > 1 && turns < num_parts) return false;
  if (given_parts(choice, turns, num_parts, parts)) return true;
  if (turns >= num_parts && turns <= EXACT_TURNS && num_parts <= EXACT_PARTS) {
    best_parts(pieces, costs, turns, num_parts, parts);
    return true;
  }
  double low = 0, high = 0;
  for (int64_t p = 0; p < num_parts; p++)
    high = fmax(high, cost_of_part(pieces, costs[p], (ptc_part_range_t){0, turns}, true, true));
  high *= 1 + 1e-9;
  for (int32_t step = 0; step < 60 && high - low > 1e-9 * high; step++) {
    const double middle = (low + high) / 2;
    if (fill_parts(pieces, costs, turns, num_parts, middle, parts))
      high = middle;
    else
      low = middle;
  }
  return fill_parts(pieces, costs, turns, num_parts, high, parts);
}
