// Internal: what memory and time of a prediction have in common.
#ifndef PTC_PASSES_PLANNER_PREDICT_STAGE_H_
#define PTC_PASSES_PLANNER_PREDICT_STAGE_H_

#include <string.h>

#include "passes/planner/pipeline_time.h"
#include "passes/planner/predict_impl.h"
#include "passes/planner/predict_mixed.h"

typedef struct ptc_predict_s {
  const ptc_work_pieces_t *pieces;
  const ptc_cluster_t *cluster;
  const ptc_stack_t *stack;
  const ptc_choice_t *choice;
  const ptc_device_model_t *device;
  const ptc_piece_time_t *times;
  int64_t num_stages, micro_batches;
  const ptc_part_range_t *parts;     // of each part
  const ptc_stage_pieces_t *counts;  // of each stage
  const ptc_slices_t *slices;        // NULL: all stages lie on alike devices
  ptc_known_net_t *nets;             // NULL: none are remembered
} ptc_predict_t;

// As stage |stage| sees it: its own devices, and their times.
static inline ptc_predict_t ptc_on_stage(const ptc_predict_t *p, int64_t stage) {
  ptc_predict_t own = *p;
  if (!p->slices) return own;
  const int32_t slice = p->slices->of_stage[stage];
  own.cluster = &p->slices->clusters[slice];
  own.device = p->slices->devices[slice];
  own.times = p->slices->times[slice];
  return own;
}

// How much of its turns a piece computes again, if the choice says "of so many turns on a stage".
static inline double ptc_again_share(const ptc_predict_t *p, int64_t turns) {
  // One group of turns on one stage is its own gradient's: nothing is computed again.
  if (turns <= p->choice->recompute_every && p->choice->size[PTC_AXIS_PP] == 1) return 0;
  const int64_t some = p->choice->recompute_turns;
  return some < 0 || some >= turns || turns == 0 ? 1 : (double)some / (double)turns;
}

static inline int64_t ptc_count_on(const ptc_predict_t *p, int32_t piece, int64_t stage) {
  return p->counts[stage].times[piece];
}

// Whether a stage has what the one before it has: then it takes the same time, and no more memory.
static inline bool ptc_like_before(const ptc_predict_t *p, int64_t stage) {
  if (stage > 0 && p->slices && p->slices->of_stage[stage] != p->slices->of_stage[stage - 1])
    return false;
  return stage > 0 && memcmp(p->counts[stage].times, p->counts[stage - 1].times,
                             sizeof(*p->counts->times) * (size_t)p->pieces->count) == 0;
}
static inline double ptc_replicas(const ptc_predict_t *p, uint32_t axes) {
  double n = 1;
  for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++)
    if (axes & 1u << a) n *= (double)p->choice->size[a];
  return n;
}

// The stage that needs most, or lacks most where capacities differ.
void ptc_add_memory(const ptc_predict_t *p, ptc_prediction_t *out);
// |worth|: a step of so many seconds is not simulated.
void ptc_add_time(const ptc_predict_t *p, double worth, ptc_prediction_t *out);

// A turn's forward and backward pass, the latter with the part |share| of what is computed again.
ptc_part_time_t ptc_predict_turn(const ptc_piece_time_t *t, double share);

// What |stage| of p->counts takes: of a micro-batch, without messages between stages, and once a step.
typedef struct ptc_stage_cost_s {
  double f, b, w;
  double begin, after, optimizer;
} ptc_stage_cost_t;
// |late|: with traffic of gradients and parameters.
void ptc_predict_stage_cost(const ptc_predict_t *p, int64_t stage, bool late,
                            ptc_stage_cost_t *out);
// What of that traffic hides behind nothing, whatever the stage computes.
void ptc_predict_stage_late(const ptc_predict_t *p, int64_t stage, ptc_stage_cost_t *out);
double ptc_predict_optimizer(const ptc_predict_t *p, int64_t stage);
// What it needs of a device.
double ptc_predict_stage_bytes(const ptc_predict_t *p, int64_t stage);

#endif  // PTC_PASSES_PLANNER_PREDICT_STAGE_H_
