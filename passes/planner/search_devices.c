// The fewest devices that do: counts are tried from the least that memory and arithmetic leave possible.
#include <math.h>

#include "passes/planner/search.h"

int64_t ptc_devices_after(const ptc_cluster_t *cluster, int64_t devices) {
  int64_t end = 0;
  for (int32_t g = 0; g < cluster->num_groups; g++) {
    const int64_t own = cluster->groups[g].node.devices;
    for (int32_t node = 0; node < cluster->groups[g].nodes; node++) {
      if (end == 0 && devices < own) return devices + 1;  // a part of the first node
      end += own;
      if (end > devices) return end;
    }
  }
  return 0;
}

static double seconds_at_peak(const ptc_phase_work_t *phase, const ptc_device_model_t *device) {
  double sum = 0;
  for (int32_t i = 0; i < phase->num_kernels; i++) {
    const ptc_kernel_work_t *k = &phase->kernels[i];
    const double peak = device->peak[k->prec];
    if (k->kind != PTC_KW_MEMORY && peak > 0) sum += ptc_kernel_flops(k) * k->times / peak;
  }
  return sum;
}

// No fewer can do: so many hold parameters and states, and compute at their peak within |within_s|.
static int64_t least_devices(const ptc_work_t *work, const ptc_cluster_t *cluster,
                             const ptc_stack_t *stack, double within_s) {
  const ptc_choice_t whole = {
      .size = {1, 1, 1, 1, 1}, .micro_batch = 1, .chunks = 1, .recompute_turns = -1};
  ptc_arena_t arena = {0};
  ptc_work_pieces_t pieces;
  double bytes = 0, seconds = 0, room = 0, fastest = INFINITY;
  if (ptc_layout_pieces(work, &arena, &whole, stack->saves, &pieces) != PTC_OK) pieces.count = 0;
  for (int32_t g = 0; g < cluster->num_groups; g++) {
    const ptc_device_model_t *device = cluster->groups[g].node.device;
    double own = 0;
    for (int32_t i = 0; i < pieces.count; i++) {
      const ptc_piece_t *piece = &pieces.items[i];
      own += (double)(piece->count * work->batch) *
             (seconds_at_peak(&piece->forward, device) + seconds_at_peak(&piece->backward, device) +
              seconds_at_peak(&piece->weight_grad, device));
    }
    fastest = fmin(fastest, own);
    room = fmax(room, device->memory_bytes > 0 ? device->memory_bytes : INFINITY);
  }
  seconds = pieces.count > 0 ? fastest : 0;
  for (int32_t i = 0; i < pieces.count; i++)
    for (int32_t g = 0; g < pieces.items[i].num_groups; g++) {
      const ptc_param_group_t *group = &pieces.items[i].groups[g];
      if (group->shared_with < 0)
        bytes += (double)pieces.items[i].count * (group->param_bytes + group->state_bytes);
    }
  ptc_arena_deinit(&arena);
  const double by_memory = bytes / room, by_time = within_s > 0 ? seconds / within_s : 0;
  return (int64_t)fmin(ceil(fmax(by_memory, by_time) * (1 - 1e-9)), (double)INT32_MAX);
}

// Whether the sizes that are fixed divide |devices|.
static bool open_for(const ptc_fixed_t *fixed, int64_t devices) {
  int64_t given = 1;
  for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++)
    if (fixed->size[a] > 0) given *= fixed->size[a];
  return devices % given == 0;
}

// Of two that do not do: what fits before what does not; then the faster one, or the smaller one.
static bool nearer(const ptc_search_result_t *a, const ptc_search_result_t *b) {
  if (a->feasible != b->feasible) return a->feasible;
  const ptc_prediction_t *x = &a->best.predicted, *y = &b->best.predicted;
  return a->feasible ? x->step_s < y->step_s : x->memory_bytes < y->memory_bytes;
}

ptc_status_t ptc_search_fewest(const ptc_work_t *work, const ptc_cluster_t *cluster,
                               const ptc_stack_t *stack, const ptc_fixed_t *fixed, double within_s,
                               ptc_arena_t *arena, ptc_search_result_t *out, int64_t *out_devices) {
  const int64_t least = least_devices(work, cluster, stack, within_s);
  bool any = false, complete = true;
  *out_devices = 0;
  for (int64_t n = ptc_devices_after(cluster, 0); n > 0; n = ptc_devices_after(cluster, n)) {
    // Where nothing does, the whole cluster says what is missing.
    if ((n < least && n < cluster->num_devices) || !open_for(fixed, n)) continue;
    ptc_search_result_t *found = PTC_ARENA_NEW(arena, ptc_search_result_t);
    if (ptc_search(work, cluster, stack, fixed, n, PTC_OBJECTIVE_DEVICES, arena, found) != PTC_OK) {
      complete &= found->complete;
      continue;
    }
    complete &= found->complete;
    const bool does =
        found->feasible && (within_s <= 0 || found->best.predicted.step_s <= within_s);
    if (does || !any || nearer(found, out)) *out = *found;
    any = true;
    if (!does) continue;
    *out_devices = n;
    if (!complete) {  // fewer may do with what was left out
      out->bound = out->gap = NAN;
      out->uncertified = "of the fewest devices, where sets of names were left out";
    }
    return PTC_OK;
  }
  return any ? PTC_OK : PTC_INFEASIBLE;
}
