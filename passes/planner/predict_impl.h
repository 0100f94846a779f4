// Internal: between the files of predict.
#ifndef PTC_PASSES_PLANNER_PREDICT_IMPL_H_
#define PTC_PASSES_PLANNER_PREDICT_IMPL_H_

#include "passes/planner/predict.h"

// Whether piece |p| is one turn among several.
static inline bool ptc_piece_repeats(const ptc_piece_t *p) { return p->count > 1; }

// Turns of all pieces that are one among several.
static inline int64_t ptc_pieces_turns(const ptc_work_pieces_t *pieces) {
  int64_t turns = 0;
  for (int32_t i = 0; i < pieces->count; i++)
    if (ptc_piece_repeats(&pieces->items[i])) turns += pieces->items[i].count;
  return turns;
}

// A turn for a micro-batch, with all that nothing hides, but not computed again.
static inline double ptc_piece_seconds(const ptc_piece_time_t *t) {
  double sum = t->forward + t->backward + t->weight_grad;
  for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++) sum += t->exposed[a];
  return sum - t->exposed_again;
}

// Whether attention moves heads over cp. On more ranks it may gather keys instead: then floors do not hold.
bool ptc_pieces_move_heads(const ptc_work_pieces_t *pieces);

// The device on which everything takes longest: a synchronous step waits for it.
const ptc_device_model_t *ptc_predict_device(const ptc_cluster_t *cluster,
                                             ptc_precision_t precision);

// How often a piece whose first turn is the global one |begin| lies in |part|: 0 to its count. What is no turn stands with the
// turn after it, or with the last one.
static inline int64_t ptc_part_has(const ptc_piece_t *piece, int64_t begin, ptc_part_range_t part,
                                   bool first, bool last) {
  if (!ptc_piece_repeats(piece)) return (begin >= part.from || first) && (begin < part.to || last);
  const int64_t end = begin + piece->count;
  const int64_t from = part.from > begin ? part.from : begin, to = part.to < end ? part.to : end;
  return to > from ? to - from : 0;
}

// How often piece |index| lies in |part|: 0 to its count.
int64_t ptc_part_count(const ptc_work_pieces_t *pieces, int32_t index, ptc_part_range_t part,
                       bool first, bool last);

// The parts of the choice's cuts, or those whose slowest is fastest. |costs|: of a turn of each piece.
// False: fewer turns than parts.
bool ptc_predict_cuts(const ptc_work_pieces_t *pieces, const ptc_choice_t *choice,
                      const double *costs, int64_t num_parts, ptc_part_range_t *parts);

// The same where parts lie on different devices: costs[part][piece].
bool ptc_predict_mixed_cuts(const ptc_work_pieces_t *pieces, const ptc_choice_t *choice,
                            const double *const *costs, int64_t num_parts, ptc_part_range_t *parts);

// The same with the cost of a turn that ptc_predict_stages takes: its whole time.
bool ptc_predict_parts(const ptc_work_pieces_t *pieces, const ptc_piece_time_t *times,
                       const ptc_cluster_t *cluster, const ptc_stack_t *stack,
                       const ptc_choice_t *choice, ptc_part_range_t *parts);

#endif  // PTC_PASSES_PLANNER_PREDICT_IMPL_H_
