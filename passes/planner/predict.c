#include "passes/planner/predict.h"

#include <math.h>
#include <string.h>

#include "passes/planner/predict_stage.h"

void ptc_predict_counts(const ptc_work_pieces_t *pieces, const ptc_part_range_t *parts,
                        int64_t num_parts, int64_t num_stages, ptc_stage_pieces_t *out) {
  memset(out, 0, sizeof(*out) * (size_t)num_stages);
  int64_t begin = 0;
  for (int32_t i = 0; i < pieces->count; i++) {
    const ptc_piece_t *piece = &pieces->items[i];
    for (int64_t part = 0; part < num_parts; part++)
      out[part % num_stages].times[i] +=
          (int32_t)ptc_part_has(piece, begin, parts[part], part == 0, part == num_parts - 1);
    if (ptc_piece_repeats(piece)) begin += piece->count;
  }
}

static void turn_costs(const ptc_work_pieces_t *pieces, const ptc_piece_time_t *times,
                       double *costs) {
  for (int32_t i = 0; i < pieces->count; i++) {
    costs[i] = times[i].forward + times[i].backward + times[i].weight_grad + times[i].again;
    for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++) costs[i] += times[i].exposed[a];
  }
}

bool ptc_predict_parts(const ptc_work_pieces_t *pieces, const ptc_piece_time_t *times,
                       const ptc_cluster_t *cluster, const ptc_stack_t *stack,
                       const ptc_choice_t *choice, ptc_part_range_t *parts) {
  const int64_t num_stages = choice->size[PTC_AXIS_PP], num_parts = num_stages * choice->chunks;
  if (!ptc_slices_differ(cluster, choice)) {
    double costs[PTC_MAX_PIECES];
    turn_costs(pieces, times, costs);
    return ptc_predict_cuts(pieces, choice, costs, num_parts, parts);
  }
  ptc_slices_t slices;
  double costs[PTC_MAX_SLICES][PTC_MAX_PIECES];
  const double *of_part[PTC_MAX_PARTS];
  if (num_parts > PTC_MAX_PARTS || !ptc_slices_find(pieces, cluster, stack, choice, &slices))
    return false;
  for (int32_t i = 0; i < slices.count; i++) turn_costs(pieces, slices.times[i], costs[i]);
  for (int64_t p = 0; p < num_parts; p++) of_part[p] = costs[slices.of_stage[p % num_stages]];
  return ptc_predict_mixed_cuts(pieces, choice, of_part, num_parts, parts);
}

bool ptc_predict_stages(const ptc_work_pieces_t *pieces, const ptc_piece_time_t *times,
                        const ptc_cluster_t *cluster, const ptc_stack_t *stack,
                        const ptc_choice_t *choice, ptc_part_range_t *parts,
                        ptc_stage_pieces_t *out) {
  const int64_t num_stages = choice->size[PTC_AXIS_PP], num_parts = num_stages * choice->chunks;
  if (num_stages > PTC_MAX_STAGES || num_parts > PTC_MAX_PARTS) return false;
  if (!ptc_predict_parts(pieces, times, cluster, stack, choice, parts)) return false;
  ptc_predict_counts(pieces, parts, num_parts, num_stages, out);
  return true;
}

static void add_all(const ptc_predict_t *p, const ptc_worth_t *worth, ptc_prediction_t *out) {
  ptc_add_memory(p, out);
  const bool whole = !worth || (out->fits && out->memory_bytes <= worth->bytes);
  if (!worth || out->fits || worth->always)
    ptc_add_time(p, !whole ? 0 : worth ? worth->seconds : INFINITY, out);
}

// Stages on several kinds of devices: each takes its own time.
static void predict_mixed(ptc_predict_t *p, const ptc_worth_t *worth, ptc_prediction_t *out) {
  ptc_slices_t slices;
  if (ptc_slices_find(p->pieces, p->cluster, p->stack, p->choice, &slices)) p->slices = &slices;
  add_all(p, worth, out);
  p->slices = NULL;
}

void ptc_predict_timed(const ptc_work_pieces_t *pieces, const ptc_piece_time_t *times,
                       const ptc_part_range_t *parts, const ptc_stage_pieces_t *stages,
                       const ptc_cluster_t *cluster, const ptc_stack_t *stack,
                       const ptc_choice_t *choice, const ptc_worth_t *worth,
                       ptc_prediction_t *out) {
  *out = (ptc_prediction_t){0};
  ptc_predict_t p = {.pieces = pieces,
                     .cluster = cluster,
                     .stack = stack,
                     .choice = choice,
                     .device = ptc_predict_device(cluster, pieces->work->precision),
                     .times = times,
                     .num_stages = choice->size[PTC_AXIS_PP],
                     .micro_batches = pieces->micro_batches,
                     .parts = parts,
                     .counts = stages};
  if (ptc_slices_differ(cluster, choice)) {
    predict_mixed(&p, worth, out);
    return;
  }
  p.nets = worth ? worth->nets : NULL;
  add_all(&p, worth, out);
}

bool ptc_predict(const ptc_work_pieces_t *pieces, const ptc_cluster_t *cluster,
                 const ptc_stack_t *stack, const ptc_choice_t *choice, ptc_prediction_t *out) {
  ptc_piece_time_t times[PTC_MAX_PIECES];
  ptc_predict_pieces(pieces, cluster, stack, choice, times);
  ptc_part_range_t parts[PTC_MAX_PARTS];
  ptc_stage_pieces_t stages[PTC_MAX_STAGES];
  if (!ptc_predict_stages(pieces, times, cluster, stack, choice, parts, stages)) return false;
  ptc_predict_timed(pieces, times, parts, stages, cluster, stack, choice, NULL, out);
  return true;
}
