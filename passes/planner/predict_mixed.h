// Internal: clusters of several kinds of nodes. Devices are numbered group by group, and stages of a pipeline lie on
// consecutive ones, so that a stage mostly lies on one kind; where it lies on several, it waits for the slowest of them.
#ifndef PTC_PASSES_PLANNER_PREDICT_MIXED_H_
#define PTC_PASSES_PLANNER_PREDICT_MIXED_H_

#include "passes/planner/predict.h"

enum { PTC_MAX_SLICES = 2 * PTC_MAX_NODE_GROUPS };

// What the stages lie on: groups of nodes.
typedef struct ptc_slices_s {
  int32_t count;
  uint32_t groups[PTC_MAX_SLICES];  // a set
  ptc_cluster_t clusters[PTC_MAX_SLICES];
  const ptc_device_model_t *devices[PTC_MAX_SLICES];  // the slowest
  double memory_bytes[PTC_MAX_SLICES];                // the least
  ptc_piece_time_t times[PTC_MAX_SLICES][PTC_MAX_PIECES];
  int16_t of_stage[PTC_MAX_STAGES];
} ptc_slices_t;

// Whether stages may lie on different kinds of nodes.
bool ptc_slices_differ(const ptc_cluster_t *cluster, const ptc_choice_t *choice);
// False: more stages, or kinds of them, than there can be.
bool ptc_slices_find(const ptc_work_pieces_t *pieces, const ptc_cluster_t *cluster,
                     const ptc_stack_t *stack, const ptc_choice_t *choice, ptc_slices_t *out);

// What stage |stage| waits for: the slowest of its devices.
const ptc_device_model_t *ptc_slices_device(const ptc_cluster_t *cluster,
                                            const ptc_choice_t *choice, int64_t stage,
                                            ptc_precision_t precision);

// Of each piece what it takes on the kind of node where it is fastest: no stage is faster.
void ptc_predict_fastest(const ptc_work_pieces_t *pieces, const ptc_cluster_t *cluster,
                         const ptc_stack_t *stack, const ptc_choice_t *choice,
                         ptc_piece_time_t *times);

#endif  // PTC_PASSES_PLANNER_PREDICT_MIXED_H_
