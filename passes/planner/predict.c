#include "passes/planner/predict.h"

#include <math.h>
#include <string.h>

#include "passes/planner/predict_impl.h"
#include "passes/planner/predict_mixed.h"

typedef struct stage_s {
  double f, b, w;  // per micro-batch, exposed communication included
  double compute, again, exposed[PTC_NUM_DEVICE_AXES];
  double step, late, optimizer;
  double flops, peak;
} stage_t;

typedef struct predict_s {
  const ptc_work_pieces_t *pieces;
  const ptc_cluster_t *cluster;
  const ptc_stack_t *stack;
  const ptc_choice_t *choice;
  const ptc_device_model_t *device;
  const ptc_piece_time_t *times;
  int64_t num_stages, micro_batches;
  const ptc_stage_pieces_t *counts;  // of each stage
  const ptc_slices_t *slices;        // NULL: all stages lie on alike devices
} predict_t;

// As stage |stage| sees it: its own devices, and their times.
static predict_t on_stage(const predict_t *p, int64_t stage) {
  predict_t own = *p;
  if (!p->slices) return own;
  const int32_t slice = p->slices->of_stage[stage];
  own.cluster = &p->slices->clusters[slice];
  own.device = p->slices->devices[slice];
  own.times = p->slices->times[slice];
  return own;
}

// How much of its turns a piece computes again, if the choice says "of so many turns on a stage".
static double again_share(const predict_t *p, int64_t turns) {
  // One group of turns on one stage is its own gradient's: nothing is computed again.
  if (turns <= p->choice->recompute_every && p->choice->size[PTC_AXIS_PP] == 1) return 0;
  const int64_t some = p->choice->recompute_turns;
  return some < 0 || some >= turns || turns == 0 ? 1 : (double)some / (double)turns;
}

static int64_t count_on(const predict_t *p, int32_t piece, int64_t stage) {
  return p->counts[stage].times[piece];
}

static void count_all(const ptc_work_pieces_t *pieces, const ptc_part_range_t *parts,
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

// Whether a stage has what the one before it has: then it takes the same time, and no more memory.
static bool like_before(const predict_t *p, int64_t stage) {
  if (stage > 0 && p->slices && p->slices->of_stage[stage] != p->slices->of_stage[stage - 1])
    return false;
  return stage > 0 && memcmp(p->counts[stage].times, p->counts[stage - 1].times,
                             sizeof(*p->counts->times) * (size_t)p->pieces->count) == 0;
}

// --- traffic of gradients and parameters

typedef struct late_s {
  double seconds;  // of all of it
  double window;   // computing that it can hide behind
  double sms;      // part of the device that it takes meanwhile
} late_t;

static double net(const predict_t *p, ptc_net_kind_t kind, ptc_group_shape_t shape, double bytes,
                  double *sms) {
  ptc_net_info_t info = {0};
  const double seconds = ptc_net_seconds(p->cluster, kind, shape, bytes, &info);
  const double slow = seconds / p->stack->late_rate;
  const double part = p->device->sms > 0 ? (double)info.channels / p->device->sms : 0;
  *sms = part > *sms ? part : *sms;
  return slow;
}

// Of one turn of the group's parameters, or of |turns| at once.
static void add_group(const predict_t *p, const ptc_param_group_t *group, double turns,
                      late_t *sums, late_t *gathers, late_t *per_micro) {
  const ptc_group_shape_t shape = ptc_group_shape(p->cluster, p->choice->size, group->axes);
  if (shape.ranks <= 1 || group->params <= 0) return;
  const double grads = group->params * p->stack->grad_bytes, params = group->param_bytes;
  const double m = (double)p->micro_batches;
  switch (p->choice->zero) {
    case 0: sums->seconds += net(p, PTC_NET_ALL_REDUCE, shape, grads * turns, &sums->sms); break;
    case 1:
      sums->seconds += net(p, PTC_NET_REDUCE_SCATTER, shape, grads * turns, &sums->sms);
      gathers->seconds += net(p, PTC_NET_ALL_GATHER, shape, params * turns, &gathers->sms);
      if (p->stack->gathers_in_turn)  // one broadcast after another, each a message over all nodes
        gathers->seconds += shape.ranks * net(p, PTC_NET_ALL_REDUCE, shape, 8, &gathers->sms) / 2;
      break;
    case 2:
      per_micro->seconds +=
          m * turns * net(p, PTC_NET_REDUCE_SCATTER, shape, grads, &per_micro->sms);
      gathers->seconds += net(p, PTC_NET_ALL_GATHER, shape, params * turns, &gathers->sms);
      break;
    default:
      per_micro->seconds +=
          m * turns * net(p, PTC_NET_REDUCE_SCATTER, shape, grads, &per_micro->sms);
      per_micro->seconds += m * turns * (p->stack->keeps_gathered ? 1 : 2) *
                            net(p, PTC_NET_ALL_GATHER, shape, params, &per_micro->sms);
  }
}

// What is left uncovered, and what the covered part slows down.
static double exposed(const late_t *late, double hidden) {
  const double covered = fmin(hidden * late->seconds, late->window);
  return late->seconds - covered + covered * late->sms;
}

static double late_seconds(const predict_t *p, int64_t stage, const stage_t *s) {
  late_t sums = {.window = s->b + s->w}, gathers = {.window = s->f};
  late_t per_micro = {.window = (double)p->micro_batches * (s->f + s->b + s->w)};
  for (int32_t i = 0; i < p->pieces->count; i++) {
    const ptc_piece_t *piece = &p->pieces->items[i];
    const double turns = (double)count_on(p, i, stage);
    for (int32_t g = 0; turns > 0 && g < piece->num_groups; g++)
      add_group(p, &piece->groups[g], turns, &sums, &gathers, &per_micro);
  }
  const double hidden = p->stack->hidden_late;
  return exposed(&sums, hidden) + exposed(&gathers, hidden) + exposed(&per_micro, hidden);
}

// --- memory

// Micro-batches whose saved values a stage holds at most, in parts of one stage's work (planners.md C8).
static double in_flight(const predict_t *p, int64_t stage) {
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

static double replicas(const predict_t *p, uint32_t axes) {
  double n = 1;
  for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++)
    if (axes & 1u << a) n *= (double)p->choice->size[a];
  return n;
}

// A framework keeps gradients in the dtype in which it sums them; ours are what the program says.
static double grad_memory(const predict_t *p, const ptc_param_group_t *group) {
  return p->stack->saves == PTC_SAVE_PTC
             ? group->grad_bytes
             : group->params * (p->stack->grad_bytes + p->stack->sum_bytes);
}

// Of |turns| turns of the group's parameters.
static memory_t group_memory(const predict_t *p, const ptc_param_group_t *group, double turns) {
  const int64_t zero = p->choice->zero;
  const double n = replicas(p, group->axes);
  const bool masters = zero >= 3 && p->stack->masters_alone;
  return (memory_t){.params = masters ? 0 : turns * group->param_bytes / (zero >= 3 ? n : 1),
                    .grads = turns * grad_memory(p, group) / (zero >= 2 ? n : 1),
                    .states = turns * group->state_bytes / (zero >= 1 ? n : 1)};
}

// What a piece keeps of a micro-batch whose turns compute again in part.
static double kept_bytes(const predict_t *p, const ptc_piece_t *piece, double share) {
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
static double group_kept_bytes(const predict_t *p, const ptc_piece_t *piece, int64_t turns,
                               double *out_saved) {
  const int64_t every = p->choice->recompute_every, group = every < turns ? every : turns;
  *out_saved = (double)(group - 1) * kept_bytes(p, piece, 0);
  return (double)((turns + every - 1) / every) * piece->saved_bytes[PTC_RECOMPUTE_FULL];
}

// Live for a while, besides what is kept: values of a turn, gathered parameters, the loss's copies of the logits.
static double passing_bytes(const predict_t *p, const ptc_piece_t *piece, double share) {
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

static memory_t memory_of(const predict_t *p, int64_t stage) {
  memory_t sum = {0};
  for (int32_t i = 0; i < p->pieces->count; i++) {
    const ptc_piece_t *piece = &p->pieces->items[i];
    const int64_t turns = count_on(p, i, stage);
    if (turns == 0) continue;
    for (int32_t g = 0; g < piece->num_groups; g++) {
      const ptc_param_group_t *group = &piece->groups[g];
      if (group->shared_with >= 0 && count_on(p, group->shared_with, stage) > 0) continue;
      const memory_t own = group_memory(p, group, (double)turns);
      sum.params += own.params;
      sum.grads += own.grads;
      sum.states += own.states;
    }
    const double share = ptc_piece_repeats(piece) ? again_share(p, turns) : 1;
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

static double fixed_bytes(const predict_t *p) {
  const double context = p->device->arch > 1 ? 0.9e9 : 64e6;  // CUDA context and libraries' code
  const double buffers =
      p->device->arch > 1 ? 0.25e9 : 0;  // of one communicator (hardware.md section 5)
  int32_t communicators = 0;
  for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++) communicators += p->choice->size[a] > 1;
  return context + buffers * communicators + p->stack->bucket_bytes;
}

// Of the devices on which a stage lies, at least; 0: not known.
static double capacity_of(const predict_t *p, int64_t stage) {
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
static void add_memory(const predict_t *all, ptc_prediction_t *out) {
  double worst = -INFINITY;
  for (int64_t s = 0; s < all->num_stages; s++) {
    if (like_before(all, s) && s + 1 < all->num_stages) continue;
    const predict_t p = on_stage(all, s);
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
static double least_states(const predict_t *p, const ptc_piece_t *piece) {
  double sum = 0;
  for (int32_t g = 0; g < piece->num_groups; g++) {
    if (piece->groups[g].shared_with >= 0) continue;
    const memory_t own = group_memory(p, &piece->groups[g], 1);
    sum += own.params + own.grads + own.states;
  }
  return sum;
}

static void measure_room(const predict_t *p, ptc_room_t *out) {
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
  const predict_t p = {.pieces = pieces,
                       .cluster = cluster,
                       .stack = stack,
                       .choice = choice,
                       .device = ptc_predict_device(cluster, pieces->work->precision)};
  measure_room(&p, out);
  out->fixed = fixed_bytes(&p);
}

bool ptc_room_may_fit(const ptc_room_t *room, const ptc_stack_t *stack, const ptc_choice_t *choice,
                      int64_t micro_batches, double bytes, double *out_again) {
  const predict_t p = {
      .choice = choice, .num_stages = choice->size[PTC_AXIS_PP], .micro_batches = micro_batches};
  *out_again = 0;
  if (isinf(bytes) || room->turns == 0) return true;
  const double all = (bytes - room->fixed) / stack->allocator * (1 + 1e-9);
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
    const double turns = floor(left / (room->states + room->least * flying) + 1e-6);
    if (left < 0 || turns < (double)choice->chunks) return false;
    most += fmin(turns, (double)room->turns);
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
  predict_t p = {.pieces = pieces,
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

// --- time

// Reads gradients and states, writes states and parameters.
static double optimizer_seconds(const predict_t *p, int64_t stage) {
  double bytes = 0;
  for (int32_t i = 0; i < p->pieces->count; i++) {
    const double turns = (double)count_on(p, i, stage);
    const ptc_piece_t *piece = &p->pieces->items[i];
    for (int32_t g = 0; turns > 0 && g < piece->num_groups; g++) {
      const ptc_param_group_t *group = &piece->groups[g];
      const double own = p->choice->zero >= 1 ? 1 / replicas(p, group->axes) : 1;
      bytes += turns * own * (2 * group->grad_bytes + 2 * group->state_bytes + group->param_bytes);
    }
  }
  const ptc_kernel_work_t work = {.kind = PTC_KW_MEMORY, .bytes = bytes};
  return ptc_kernel_seconds(p->device, &work, NULL);
}

static void add_stage(const predict_t *p, int64_t stage, double hop, stage_t *out) {
  *out = (stage_t){0};
  for (int32_t i = 0; i < p->pieces->count; i++) {
    const ptc_piece_time_t *t = &p->times[i];
    const int64_t count = count_on(p, i, stage);
    if (count == 0) continue;
    const double turns = (double)count;
    const double share = ptc_piece_repeats(&p->pieces->items[i]) ? again_share(p, count) : 1;
    double all = 0;
    for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++) {
      out->exposed[a] += turns * t->exposed[a];
      all += t->exposed[a];
    }
    const double again = share * (t->again + t->exposed_again);
    out->f += turns * (t->forward + t->exposed_forward);
    out->b += turns * (t->backward + all - t->exposed_forward - t->exposed_again + again);
    out->w += turns * t->weight_grad;
    out->compute += turns * (t->forward + t->backward + t->weight_grad);
    out->again += turns * share * t->again;
    out->step += turns * t->step;
    out->flops += turns * t->flops;
  }
  if (p->num_stages > 1) {  // one message each way and chunk
    // Between chunks a stage has others to compute: some frameworks send meanwhile.
    const bool hidden = p->stack->hides_chunk_sends && p->choice->chunks > 1;
    const double sends = hidden ? 0 : hop * (double)p->choice->chunks;
    out->f += sends;
    out->b += sends;
    out->exposed[PTC_AXIS_PP] += 2 * sends;
  }
}

double ptc_predict_hop(const ptc_work_pieces_t *pieces, const ptc_cluster_t *cluster,
                       const ptc_stack_t *stack, const ptc_choice_t *choice) {
  if (choice->size[PTC_AXIS_PP] == 1) return 0;
  double bytes = 0;
  for (int32_t i = 0; i < pieces->count; i++) bytes = fmax(bytes, pieces->items[i].boundary_bytes);
  const double tp = (double)choice->size[PTC_AXIS_TP];
  const bool split = stack->splits_sends && !choice->sequence_parallel && tp > 1;
  const ptc_group_shape_t shape = ptc_send_shape(cluster, choice->size, 1u << PTC_AXIS_PP);
  double seconds = ptc_net_seconds(cluster, PTC_NET_SEND, shape, split ? bytes / tp : bytes, NULL);
  if (split)
    seconds +=
        ptc_net_seconds(cluster, PTC_NET_ALL_GATHER,
                        ptc_group_shape(cluster, choice->size, 1u << PTC_AXIS_TP), bytes, NULL);
  return seconds * (1 - stack->hidden_inner);
}

static void add_time(const predict_t *p, ptc_prediction_t *out) {
  double f[PTC_MAX_STAGES], b[PTC_MAX_STAGES], w[PTC_MAX_STAGES];
  const double hop = ptc_predict_hop(p->pieces, p->cluster, p->stack, p->choice);
  const double m = (double)p->micro_batches;
  double slowest = -1, end = 0, flops = 0, peak = 0;
  stage_t worst = {0}, stage = {0};
  for (int64_t s = 0; s < p->num_stages; s++) {
    if (!like_before(p, s)) {
      const predict_t own = on_stage(p, s);
      add_stage(&own, s, hop, &stage);
      stage.late = late_seconds(&own, s, &stage);
      stage.optimizer = optimizer_seconds(&own, s);
      stage.peak = own.device->peak[p->pieces->work->precision];
    }
    peak += stage.peak;
    f[s] = stage.f;
    b[s] = stage.b;
    w[s] = stage.w;
    flops += stage.flops;
    end = fmax(end, stage.late + stage.optimizer + stage.step);
    const double work = stage.f + stage.b + stage.w;
    if (work > slowest) {
      slowest = work;
      worst = stage;
    }
  }
  const double pipeline = ptc_pipeline_seconds(p->choice->schedule, p->num_stages,
                                               p->choice->chunks, p->micro_batches, f, b, w, hop);
  out->step_s = pipeline + end;
  out->compute_s = m * worst.compute;
  out->recompute_s = m * worst.again;
  for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++) out->exposed_s[a] = m * worst.exposed[a];
  out->optimizer_s = worst.optimizer;
  out->exposed_s[PTC_AXIS_DP] += end - worst.optimizer;
  out->bubble_s = pipeline - m * slowest;
  const double devices = (double)(p->choice->size[PTC_AXIS_DP] * p->choice->size[PTC_AXIS_EP] *
                                  p->choice->size[PTC_AXIS_CP] * p->choice->size[PTC_AXIS_TP]);
  out->model_flops = flops * m * devices;
  if (peak > 0) out->mfu = flops * m / (peak * out->step_s);
  out->tokens_per_s =
      (double)(p->pieces->work->batch * p->pieces->work->tokens_per_sample) / out->step_s;
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
                        const ptc_choice_t *choice, ptc_stage_pieces_t *out) {
  const int64_t num_stages = choice->size[PTC_AXIS_PP], num_parts = num_stages * choice->chunks;
  if (num_stages > PTC_MAX_STAGES || num_parts > PTC_MAX_PARTS) return false;
  ptc_part_range_t parts[PTC_MAX_PARTS];
  if (!ptc_predict_parts(pieces, times, cluster, stack, choice, parts)) return false;
  count_all(pieces, parts, num_parts, num_stages, out);
  return true;
}

static void add_all(const predict_t *p, bool only_if_fits, ptc_prediction_t *out) {
  add_memory(p, out);
  if (out->fits || !only_if_fits) add_time(p, out);
}

// Stages on several kinds of devices: each takes its own time.
static void predict_mixed(predict_t *p, bool only_if_fits, ptc_prediction_t *out) {
  ptc_slices_t slices;
  if (ptc_slices_find(p->pieces, p->cluster, p->stack, p->choice, &slices)) p->slices = &slices;
  add_all(p, only_if_fits, out);
  p->slices = NULL;
}

void ptc_predict_timed(const ptc_work_pieces_t *pieces, const ptc_piece_time_t *times,
                       const ptc_stage_pieces_t *stages, const ptc_cluster_t *cluster,
                       const ptc_stack_t *stack, const ptc_choice_t *choice, bool only_if_fits,
                       ptc_prediction_t *out) {
  *out = (ptc_prediction_t){0};
  predict_t p = {.pieces = pieces,
                 .cluster = cluster,
                 .stack = stack,
                 .choice = choice,
                 .device = ptc_predict_device(cluster, pieces->work->precision),
                 .times = times,
                 .num_stages = choice->size[PTC_AXIS_PP],
                 .micro_batches = pieces->micro_batches,
                 .counts = stages};
  if (ptc_slices_differ(cluster, choice))
    predict_mixed(&p, only_if_fits, out);
  else
    add_all(&p, only_if_fits, out);
}

bool ptc_predict(const ptc_work_pieces_t *pieces, const ptc_cluster_t *cluster,
                 const ptc_stack_t *stack, const ptc_choice_t *choice, ptc_prediction_t *out) {
  ptc_piece_time_t times[PTC_MAX_PIECES];
  ptc_predict_pieces(pieces, cluster, stack, choice, times);
  ptc_stage_pieces_t stages[PTC_MAX_STAGES];
  if (!ptc_predict_stages(pieces, times, cluster, stack, choice, stages)) return false;
  ptc_predict_timed(pieces, times, stages, cluster, stack, choice, false, out);
  return true;
}
