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

bool ptc_predict_cuts(const ptc_work_pieces_t *pieces, const ptc_choice_t *choice,
                      const double *costs, int64_t num_parts, ptc_part_range_t *parts) {
  int64_t turns = 0;
  for (int32_t i = 0; i < pieces->count; i++)
    if (ptc_piece_repeats(&pieces->items[i])) turns += pieces->items[i].count;
  if (num_parts > 1 && turns < num_parts) return false;
  if (choice->cuts && choice->num_cuts == num_parts - 1) {
    for (int64_t p = 0; p < num_parts; p++) {
      parts[p].from = p == 0 ? 0 : choice->cuts[p - 1];
      parts[p].to = p == num_parts - 1 ? turns : choice->cuts[p];
    }
    return true;
  }
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
