#include "passes/planner/predict_mixed.h"

#include <math.h>

#include "passes/planner/predict_impl.h"

bool ptc_slices_differ(const ptc_cluster_t *cluster, const ptc_choice_t *choice) {
  return cluster->num_groups > 1 && choice->size[PTC_AXIS_PP] > 1;
}

static int64_t group_devices(const ptc_cluster_t *cluster, int32_t group) {
  return (int64_t)cluster->groups[group].nodes * cluster->groups[group].node.devices;
}

// The groups that have some of the devices [from, to).
static uint32_t groups_of(const ptc_cluster_t *cluster, int64_t from, int64_t to) {
  uint32_t set = 0;
  int64_t begin = 0;
  for (int32_t g = 0; g < cluster->num_groups; g++) {
    const int64_t end = begin + group_devices(cluster, g);
    if (begin < to && end > from) set |= UINT32_C(1) << g;
    begin = end;
  }
  return set;
}

static void take_groups(const ptc_cluster_t *cluster, uint32_t set, ptc_cluster_t *out) {
  out->name = cluster->name;
  out->num_groups = 0;
  out->num_devices = 0;
  for (int32_t g = 0; g < cluster->num_groups; g++) {
    if (!(set >> g & 1)) continue;
    out->groups[out->num_groups++] = cluster->groups[g];
    out->num_devices += group_devices(cluster, g);
  }
}

static void add_slice(const ptc_work_pieces_t *pieces, const ptc_cluster_t *cluster,
                      const ptc_stack_t *stack, const ptc_choice_t *choice, uint32_t set,
                      ptc_slices_t *out) {
  const int32_t at = out->count++;
  ptc_cluster_t *own = &out->clusters[at];
  out->groups[at] = set;
  take_groups(cluster, set, own);
  out->devices[at] = ptc_predict_device(own, pieces->work->precision);
  out->memory_bytes[at] = INFINITY;
  for (int32_t g = 0; g < own->num_groups; g++) {
    const double bytes = own->groups[g].node.device->memory_bytes;
    if (bytes > 0) out->memory_bytes[at] = fmin(out->memory_bytes[at], bytes);
  }
  ptc_predict_pieces(pieces, own, stack, choice, out->times[at]);
}

static int64_t stage_devices(const ptc_choice_t *choice) {
  int64_t each = 1;
  for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++)
    if (a != PTC_AXIS_PP) each *= choice->size[a];
  return each;
}

const ptc_device_model_t *ptc_slices_device(const ptc_cluster_t *cluster,
                                            const ptc_choice_t *choice, int64_t stage,
                                            ptc_precision_t precision) {
  const int64_t each = stage_devices(choice);
  ptc_cluster_t own;
  take_groups(cluster, groups_of(cluster, stage * each, (stage + 1) * each), &own);
  return ptc_predict_device(&own, precision);
}

bool ptc_slices_find(const ptc_work_pieces_t *pieces, const ptc_cluster_t *cluster,
                     const ptc_stack_t *stack, const ptc_choice_t *choice, ptc_slices_t *out) {
  const int64_t stages = choice->size[PTC_AXIS_PP], each = stage_devices(choice);
  out->count = 0;
  if (stages > PTC_MAX_STAGES) return false;
  for (int64_t s = 0; s < stages; s++) {
    const uint32_t set = groups_of(cluster, s * each, (s + 1) * each);
    int32_t at = 0;
    while (at < out->count && out->groups[at] != set) at++;
    if (at == PTC_MAX_SLICES || set == 0) return false;
    if (at == out->count) add_slice(pieces, cluster, stack, choice, set, out);
    out->of_stage[s] = (int16_t)at;
  }
  return true;
}

void ptc_predict_fastest(const ptc_work_pieces_t *pieces, const ptc_cluster_t *cluster,
                         const ptc_stack_t *stack, const ptc_choice_t *choice,
                         ptc_piece_time_t *times) {
  for (int32_t g = 0; g < cluster->num_groups; g++) {
    ptc_cluster_t own;
    ptc_piece_time_t here[PTC_MAX_PIECES];
    take_groups(cluster, UINT32_C(1) << g, &own);
    ptc_predict_pieces(pieces, &own, stack, choice, here);
    for (int32_t i = 0; i < pieces->count; i++) {
      const double again = g > 0 ? fmin(times[i].again, here[i].again) : here[i].again;
      if (g == 0 || ptc_piece_seconds(&here[i]) < ptc_piece_seconds(&times[i])) times[i] = here[i];
      times[i].again = again;
    }
  }
}
