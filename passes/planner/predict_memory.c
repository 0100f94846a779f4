// Memory of a stage, and what it has to hold at least.
#include <math.h>

#include "passes/planner/predict_stage.h"

// Micro-batches whose saved values a stage holds at most, in parts of one stage's work (planners.md C8).
static inline double in_flight(const ptc_predict_t *p, int64_t stage) {
  const double m = (double)p->micro_batches, n = (double)p->num_stages;
  switch (p->choice->schedule) {
    case PTC_SCHEDULE_GPIPE: return m;
    case PTC_SCHEDULE_INTERLEAVED: {
      const double v = (double)p->choice->chunks;
      const double chunks = fmin(m * v, (v - 1) * n + 2 * (n - (double)stage - 1) + 1);
      return chunks / v;
    }
    default: return fmin(m, n - (double)stage);
  }
}

typedef struct memory_s {
  double params, grads, states, saved, temp;
} memory_t;

// A framework keeps gradients in the dtype in which it sums them; ours are what the program says.
static double grad_memory(const ptc_predict_t *p, const ptc_param_group_t *group) {
  return p->stack->saves == PTC_SAVE_PTC
             ? group->grad_bytes
             : group->params * (p->stack->grad_bytes + p->stack->sum_bytes);
}

// Of |turns| turns of the group's parameters.
static memory_t group_memory(const ptc_predict_t *p, const ptc_param_group_t *group, double turns) {
  const int64_t zero = p->choice->zero;
  const double n = ptc_replicas(p, group->axes);
  const bool masters = zero >= 3 && p->stack->masters_alone;
  return (memory_t){.params = masters ? 0 : turns * group->param_bytes / (zero >= 3 ? n : 1),
                    .grads = turns * grad_memory(p, group) / (zero >= 2 ? n : 1),
                    .states = turns * group->state_bytes / (zero >= 1 ? n : 1)};
}

// What a piece keeps of a micro-batch whose turns compute again in part.
static double kept_bytes(const ptc_predict_t *p, const ptc_piece_t *piece, double share) {
  const int32_t mode = p->choice->recompute;
  const double none = piece->saved_bytes[PTC_RECOMPUTE_NONE] +
                      (p->stack->unfused_attention ? piece->scores_bytes : 0);
  if (mode == PTC_RECOMPUTE_NONE) return none;
  if (mode == PTC_RECOMPUTE_FULL && p->stack->keeps_products && share < 1)
    return piece->products_bytes;
  const double every = fmax(1, (double)p->choice->recompute_every);
  return share * piece->saved_bytes[mode] / every + (1 - share) * none;
}

// Where turns compute again in groups: what the last, smaller group keeps, too, and what all but one turn of a group save.
static double group_kept_bytes(const ptc_predict_t *p, const ptc_piece_t *piece, int64_t turns,
                               double *out_saved) {
  const int64_t every = p->choice->recompute_every, group = every < turns ? every : turns;
  *out_saved = (double)(group - 1) * kept_bytes(p, piece, 0);
  return (double)((turns + every - 1) / every) * piece->saved_bytes[PTC_RECOMPUTE_FULL];
}

// Live for a while, besides what is kept: values of a turn, gathered parameters, the loss's copies of the logits.
static double passing_bytes(const ptc_predict_t *p, const ptc_piece_t *piece, double share) {
  double bytes = fmax(piece->peak_forward_bytes, piece->peak_backward_bytes);
  if (p->choice->recompute != PTC_RECOMPUTE_NONE && share > 0)
    bytes += piece->saved_bytes[PTC_RECOMPUTE_NONE] - piece->saved_bytes[p->choice->recompute] +
             (p->stack->unfused_attention ? piece->scores_bytes : 0);
  const bool gathers = p->choice->zero >= 3;
  if (piece->logits > 0)
    return piece->logits * (p->stack->logit_bytes - 4) + (gathers ? piece->param_bytes : 0);
  // This turn's and the next one's; gradients as they are made and as they are sent.
  if (gathers) bytes += 2 * piece->param_bytes + piece->params * (2 + p->stack->grad_bytes);
  return bytes;
}

static memory_t memory_of(const ptc_predict_t *p, int64_t stage) {
  memory_t sum = {0};
  for (int32_t i = 0; i < p->pieces->count; i++) {
    const ptc_piece_t *piece = &p->pieces->items[i];
    const int64_t turns = ptc_count_on(p, i, stage);
    if (turns == 0) continue;
    for (int32_t g = 0; g < piece->num_groups; g++) {
      const ptc_param_group_t *group = &piece->groups[g];
      if (group->shared_with >= 0 && ptc_count_on(p, group->shared_with, stage) > 0) continue;
      const memory_t own = group_memory(p, group, (double)turns);
      sum.params += own.params;
      sum.grads += own.grads;
      sum.states += own.states;
    }
    const double share = ptc_piece_repeats(piece) ? ptc_again_share(p, turns) : 1;
    double kept = (double)turns * kept_bytes(p, piece, share), group = 0;
    if (p->choice->recompute_every > 1 && ptc_piece_repeats(piece) && share > 0)
      kept = group_kept_bytes(p, piece, turns, &group);
    // A micro-batch turns round at the loss: what that keeps is gone when the turns before it go back.
    const bool at_once = piece->logits > 0 && p->choice->schedule != PTC_SCHEDULE_GPIPE;
    if (!at_once) sum.saved += kept * in_flight(p, stage);
    sum.temp = fmax(sum.temp, passing_bytes(p, piece, share) + group + (at_once ? kept : 0));
  }
  return sum;
}

static double fixed_bytes(const ptc_predict_t *p) {
  if (p->device->arch == PTC_ARCH_ANY) return 0;
  const double context = p->device->arch > 1 ? 0.9e9 : 64e6;  // CUDA context and libraries' code
  const double buffers =
      p->device->arch > 1 ? 0.25e9 : 0;  // of one communicator (hardware.md section 5)
  int32_t communicators = 0;
  for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++) communicators += p->choice->size[a] > 1;
  return context + buffers * communicators + p->stack->bucket_bytes;
}

double ptc_predict_stage_bytes(const ptc_predict_t *p, int64_t stage) {
  const memory_t own = memory_of(p, stage);
  const double live = own.params + own.grads + own.states + own.saved + own.temp;
  return live * p->stack->allocator + fixed_bytes(p);
}

// Of the devices on which a stage lies, at least; 0: not known.
static double capacity_of(const ptc_predict_t *p, int64_t stage) {
  if (p->slices) {
    const double bytes = p->slices->memory_bytes[p->slices->of_stage[stage]];
    return isinf(bytes) ? 0 : bytes;
  }
  double bytes = p->device->memory_bytes;
  for (int32_t g = 0; g < p->cluster->num_groups; g++)
    bytes = fmin(bytes, p->cluster->groups[g].node.device->memory_bytes);
  return bytes;
}

// The stage that needs most, or lacks most where capacities differ.
void ptc_add_memory(const ptc_predict_t *all, ptc_prediction_t *out) {
  double worst = -INFINITY;
  for (int64_t s = 0; s < all->num_stages; s++) {
    if (ptc_like_before(all, s) && s + 1 < all->num_stages) continue;
    const ptc_predict_t p = ptc_on_stage(all, s);
    const memory_t own = memory_of(&p, s);
    const double live = own.params + own.grads + own.states + own.saved + own.temp;
    const double fixed = fixed_bytes(&p);
    const double sum = live * p.stack->allocator + fixed;
    const double capacity = capacity_of(all, s);
    out->last_allocated_bytes = live;
    if (sum - capacity <= worst) continue;
    worst = sum - capacity;
    out->fixed_bytes = fixed;
    out->capacity_bytes = capacity;
    out->memory_bytes = sum;
    out->allocated_bytes = live;
    out->params_bytes = own.params;
    out->grads_bytes = own.grads;
    out->states_bytes = own.states;
    out->saved_bytes = own.saved;
    out->temp_bytes = own.temp;
    out->worst_stage = (int32_t)s;
  }
  out->fits = out->capacity_bytes <= 0 || out->memory_bytes <= out->capacity_bytes;
}

// --- what memory allows, whatever the cuts are

// Parameters, gradients and states of a turn; shared ones may lie there anyway.
static double least_states(const ptc_predict_t *p, const ptc_piece_t *piece) {
  double sum = 0;
  for (int32_t g = 0; g < piece->num_groups; g++) {
    if (piece->groups[g].shared_with >= 0) continue;
    const memory_t own = group_memory(p, &piece->groups[g], 1);
    sum += own.params + own.grads + own.states;
  }
  return sum;
}

static void measure_room(const ptc_predict_t *p, ptc_room_t *out) {
  *out = (ptc_room_t){.states = INFINITY, .none = INFINITY, .least = INFINITY, .temp = INFINITY};
  const int64_t all = ptc_pieces_turns(p->pieces);
  for (int32_t i = 0; i < p->pieces->count; i++) {
    const ptc_piece_t *piece = &p->pieces->items[i];
    const double kept = kept_bytes(p, piece, 1), states = least_states(p, piece);
    if (ptc_piece_repeats(piece)) {
      out->turns += piece->count;
      const double none = piece->logits > 0 ? 0 : kept_bytes(p, piece, 0);
      out->states = fmin(out->states, states);
      out->none = fmin(out->none, none);
      out->least = fmin(out->least, fmin(kept, none));
      out->temp = fmin(out->temp, passing_bytes(p, piece, 1));
    } else if (out->turns == 0 || out->turns == all) {
      const int end = out->turns > 0;
      const bool at_once = piece->logits > 0;
      out->end_states[end] += states;
      if (!at_once) out->end_kept[end] += kept;
      out->end_temp[end] = fmax(out->end_temp[end], passing_bytes(p, piece, 1));
    }
  }
}

void ptc_predict_room(const ptc_work_pieces_t *pieces, const ptc_cluster_t *cluster,
                      const ptc_stack_t *stack, const ptc_choice_t *choice, ptc_room_t *out) {
  const ptc_predict_t p = {.pieces = pieces,
                           .cluster = cluster,
                           .stack = stack,
                           .choice = choice,
                           .device = ptc_predict_device(cluster, pieces->work->precision)};
  measure_room(&p, out);
  out->fixed = fixed_bytes(&p);
}

bool ptc_room_may_fit(const ptc_room_t *room, const ptc_stack_t *stack, const ptc_choice_t *choice,
                      int64_t micro_batches, double bytes, double *out_again) {
  const ptc_predict_t p = {
      .choice = choice, .num_stages = choice->size[PTC_AXIS_PP], .micro_batches = micro_batches};
  *out_again = 0;
  if (isinf(bytes) || room->turns == 0) return true;
  const double all = (bytes - room->fixed) / stack->allocator * (1 + 1e-9);
  const double of_all = (double)room->turns, each = (double)choice->chunks;
  // If every stage had as few micro-batches in flight as the last one, and no more to hold.
  const double lightest = room->states + room->least * in_flight(&p, p.num_stages - 1);
  if (((all - room->temp) / lightest + 1e-6) * (double)p.num_stages * (1 + 1e-9) < of_all)
    return false;
  double most = 0, untouched = 0, gain = 0;
  for (int64_t s = 0; s < p.num_stages; s++) {
    const double flying = in_flight(&p, s);
    double left = all, temp = room->temp;
    for (int end = 0; end < 2; end++) {
      if (s != (end ? p.num_stages - 1 : 0)) continue;
      left -= room->end_states[end] + room->end_kept[end] * flying;
      temp = fmax(temp, room->end_temp[end]);
    }
    left -= temp;
    if (left < 0) return false;
    const double turns = left / (room->states + room->least * flying) + 1e-6;
    if (turns < each) return false;
    most += turns < of_all ? (double)(int64_t)turns : of_all;
    if (room->none == room->least) continue;  // nothing is gained
    const double whole = room->states + room->none * flying;
    untouched += left / whole;
    gain = fmax(gain, (room->none - room->least) * flying / whole);
  }
  if (most < (double)room->turns) return false;
  // Each turn that is computed again makes room for |gain| others at most.
  if (untouched < (double)room->turns && gain > 0)
    *out_again = ((double)room->turns - untouched) / gain * (1 - 1e-9);
  return true;
}

double ptc_predict_least_bytes(const ptc_work_pieces_t *pieces, const ptc_cluster_t *cluster,
                               const ptc_stack_t *stack, const ptc_choice_t *choice,
                               int64_t devices) {
  ptc_choice_t most_split = *choice;
  most_split.zero = 3;
  const int64_t *size = choice->size;
  const int64_t rest = devices / (size[PTC_AXIS_TP] * size[PTC_AXIS_CP] * size[PTC_AXIS_EP]);
  ptc_predict_t p = {.pieces = pieces,
                     .cluster = cluster,
                     .stack = stack,
                     .choice = &most_split,
                     .device = ptc_predict_device(cluster, pieces->work->precision)};
  double states = 0, saved = 0, any_temp = 0, turn_temp = INFINITY;
  for (int32_t i = 0; i < pieces->count; i++)
    states += (double)pieces->items[i].count * least_states(&p, &pieces->items[i]);
  p.choice = choice;
  for (int32_t i = 0; i < pieces->count; i++) {
    const ptc_piece_t *piece = &pieces->items[i];
    const double temp = passing_bytes(&p, piece, 1);
    any_temp = fmax(any_temp, temp);
    if (ptc_piece_repeats(piece)) turn_temp = fmin(turn_temp, temp);
    if (piece->logits <= 0)
      saved += (double)piece->count * fmin(kept_bytes(&p, piece, 1), kept_bytes(&p, piece, 0));
  }
  // With as many micro-batches as stages, these hold the half of them on the average.
  const double in_flight_share = (double)pieces->work->batch /
                                 ((double)size[PTC_AXIS_EP] * (double)choice->micro_batch) /
                                 (double)rest;
  const double average = states / (double)rest + 0.5 * saved * fmin(1, in_flight_share) +
                         (isinf(turn_temp) ? any_temp : turn_temp);
  return fmax(average, any_temp) * stack->allocator;
}
