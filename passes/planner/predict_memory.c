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

static bool is_own(const ptc_predict_t *p) { return p->stack->saves == PTC_SAVE_PTC; }

// A framework keeps gradients in the dtype in which it sums them; ours are what the program says.
static double grad_memory(const ptc_predict_t *p, const ptc_param_group_t *group) {
  return is_own(p) ? group->grad_bytes
                   : group->params * (p->stack->grad_bytes + p->stack->sum_bytes);
}

// Of |turns| turns of the group's parameters.
static memory_t group_memory(const ptc_predict_t *p, const ptc_param_group_t *group, double turns) {
  const int64_t zero = p->choice->zero;
  const double n = ptc_replicas(p, group->axes);
  const bool masters = zero >= 3 && p->stack->masters_alone;
  // Our plans update the parameters' shards, and gather what is read.
  const bool shards = is_own(p) && (zero == 1 || zero == 2) && n > 1;
  return (memory_t){.params = masters ? 0 : turns * group->param_bytes / (zero >= 3 ? n : 1),
                    .grads = turns * grad_memory(p, group) / (zero >= 2 ? n : 1),
                    .states = turns * (group->state_bytes + (shards ? group->plain_bytes : 0)) /
                              (zero >= 1 ? n : 1)};
}

// Between the tasks of a pipeline all lies in slots that one of them makes for another.
static double slot_bytes(const ptc_predict_t *p, const ptc_piece_t *piece, int32_t mode) {
  return is_own(p) && p->choice->size[PTC_AXIS_PP] > 1 ? piece->slot_bytes[mode] : 0;
}

// What a piece keeps of a micro-batch whose turns compute again in part.
static double kept_bytes(const ptc_predict_t *p, const ptc_piece_t *piece, double share) {
  const int32_t mode = p->choice->recompute;
  const double none = piece->saved_bytes[PTC_RECOMPUTE_NONE] +
                      slot_bytes(p, piece, PTC_RECOMPUTE_NONE) +
                      (p->stack->unfused_attention ? piece->scores_bytes : 0);
  if (mode == PTC_RECOMPUTE_NONE) return none;
  if (mode == PTC_RECOMPUTE_FULL && p->stack->keeps_products && share < 1)
    return piece->products_bytes;
  const double every = fmax(1, (double)p->choice->recompute_every);
  return share * (piece->saved_bytes[mode] + slot_bytes(p, piece, mode)) / every +
         (1 - share) * none;
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
  double bytes = fmax(piece->peak_bytes[PTC_PEAK_FORWARD], piece->peak_bytes[PTC_PEAK_BACKWARD]);
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

// --- our own plans: the largest sum over a micro-batch's passes, piece by piece
//
// Sums grow, or shrink, evenly over the turns of a repeat: the first and the last turn are enough.

static double peak_bytes(const ptc_predict_t *p, const ptc_piece_t *piece, bool back, bool alone) {
  // Without replicas nothing is gathered.
  const int64_t *size = p->choice->size;
  const bool replicas = size[PTC_AXIS_DP] * size[PTC_AXIS_EP] * size[PTC_AXIS_CP] > 1;
  const int64_t zero = replicas ? p->choice->zero : 0;
  int peak = alone ? PTC_NUM_PEAKS_OF_MANY : 0;
  if (back)
    peak += zero >= 3   ? PTC_PEAK_BACKWARD_GATHERED
            : zero == 2 ? PTC_PEAK_BACKWARD_SCATTERED
                        : PTC_PEAK_BACKWARD;
  else
    peak += zero >= 3 ? PTC_PEAK_FORWARD_GATHERED : PTC_PEAK_FORWARD;
  return piece->peak_bytes[peak];
}

// Of a turn's parameters: what is not the parameters themselves, but made of them.
static double copied_bytes(const ptc_predict_t *p, const ptc_param_group_t *group) {
  const int64_t zero = p->choice->zero;
  const double n = ptc_replicas(p, group->axes);
  const double plain = zero == 0 || zero >= 3 || n == 1 ? group->plain_bytes : 0;
  return (group->param_bytes - plain) / (zero >= 3 ? n : 1);
}

// Of one turn of a piece, whatever stage it lies on.
typedef struct own_turn_s {
  memory_t fixed;   // parameters, gradients and states
  double copies;    // of parameters, which nothing needs after the turn's backward pass
  double kept[2];   // if it is computed again [1] or not
  double saved[2];  // of it what the peaks count, too
  double held;      // until gradients of parameters are made; 0: that is at once
  double forward, backward;
  bool is_shared;  // some parameters are another piece's, too
} own_turn_t;

static own_turn_t own_turn_of(const ptc_predict_t *p, const ptc_piece_t *piece) {
  const bool alone = p->micro_batches == 1;
  own_turn_t turn = {
      .kept = {kept_bytes(p, piece, 0), kept_bytes(p, piece, 1)},
      .saved = {piece->saved_bytes[PTC_RECOMPUTE_NONE], piece->saved_bytes[p->choice->recompute]},
      .forward = peak_bytes(p, piece, false, alone),
      .backward = peak_bytes(p, piece, true, alone)};
  if (p->choice->schedule == PTC_SCHEDULE_ZB_H1 && p->num_stages > 1) turn.held = piece->held_bytes;
  for (int32_t g = 0; g < piece->num_groups; g++) {
    const memory_t own = group_memory(p, &piece->groups[g], 1);
    turn.is_shared |= piece->groups[g].shared_with >= 0;
    turn.copies += copied_bytes(p, &piece->groups[g]);
    turn.fixed.params += own.params;
    turn.fixed.grads += own.grads;
    turn.fixed.states += own.states;
  }
  return turn;
}

// What a part of a stage has of a piece.
typedef struct own_piece_s {
  double turns, kept;          // of all turns
  double last;                 // of the last one, as the peaks count it
  double held, grads, copies;  // of one
  double forward, backward;
} own_piece_t;

typedef struct own_part_s {
  own_piece_t pieces[PTC_MAX_PIECES];
  int32_t count;
  double kept, held;  // of a micro-batch
} own_part_t;

static double sum_of(const memory_t *m) {
  return m->params + m->grads + m->states + m->saved + m->temp;
}

static void take_larger(memory_t *most, const memory_t *other) {
  if (sum_of(other) > sum_of(most)) *most = *other;
}

// |others|: what other micro-batches and parts keep meanwhile.
static void add_peaks(const own_part_t *part, const memory_t *fixed, double others, bool alone,
                      memory_t *most) {
  double before = others, after = alone ? fixed->grads : 0, gone = 0, held = part->held;
  for (int32_t i = 0; i < part->count && alone; i++)
    gone += part->pieces[i].turns * part->pieces[i].copies;
  for (int32_t i = 0; i < part->count; i++) {
    const own_piece_t *own = &part->pieces[i];
    // What comes after it has been back; at its first turn, so have its others.
    const double copies = alone ? own->copies : 0, grads = alone ? 0 : fixed->grads;
    take_larger(most, &(memory_t){.params = fixed->params,
                                  .saved = before + own->kept - own->last,
                                  .temp = own->forward,
                                  .grads = grads});
    take_larger(most,
                &(memory_t){.params = fixed->params - gone + own->turns * copies,
                            .saved = before + own->kept - own->last + held - own->turns * own->held,
                            .temp = own->backward,
                            .grads = alone ? after - own->turns * own->grads : grads});
    take_larger(most, &(memory_t){.params = fixed->params - gone + copies,
                                  .saved = before + held - own->held,
                                  .temp = own->backward,
                                  .grads = alone ? after - own->grads : grads});
    before += own->kept;
    after -= own->turns * own->grads;
    gone -= own->turns * copies;
    held -= own->turns * own->held;
  }
}

static memory_t fixed_of(const ptc_predict_t *p, int64_t stage, const own_turn_t *turns) {
  memory_t sum = {.temp = p->pieces->work->input_bytes};
  for (int32_t i = 0; i < p->pieces->count; i++) {
    const ptc_piece_t *piece = &p->pieces->items[i];
    const double count = (double)ptc_count_on(p, i, stage);
    sum.params += count * turns[i].fixed.params;
    sum.states += count * turns[i].fixed.states;
    // Each use of a parameter has an accumulator.
    sum.grads += count * turns[i].fixed.grads;
    for (int32_t g = 0; g < piece->num_groups && count > 0 && turns[i].is_shared; g++) {
      const ptc_param_group_t *group = &piece->groups[g];
      if (group->shared_with < 0 || ptc_count_on(p, group->shared_with, stage) == 0) continue;
      const memory_t own = group_memory(p, group, count);
      sum.params -= own.params;
      sum.states -= own.states;
    }
  }
  return sum;
}

static void add_own_piece(const ptc_predict_t *p, const ptc_piece_t *piece, int64_t turns,
                          int64_t again, const own_turn_t *turn, own_part_t *part) {
  double all = (double)again * turn->kept[1] + (double)(turns - again) * turn->kept[0], group = 0;
  if (p->choice->recompute_every > 1 && ptc_piece_repeats(piece) && again > 0)
    all = group_kept_bytes(p, piece, turns, &group);
  // The first turns compute again: the last one does where all do.
  const double last = turn->saved[again == turns];
  part->pieces[part->count++] = (own_piece_t){.turns = (double)turns,
                                              .kept = all,
                                              .last = last < all ? last : all,
                                              .held = turn->held,
                                              .grads = turn->fixed.grads,
                                              .copies = turn->copies,
                                              .forward = turn->forward,
                                              .backward = turn->backward + group};
  part->kept += all;
  part->held += (double)turns * turn->held;
}

// Of each piece so many turns compute again as a stage has left of them (|again|).
static void own_part_of(const ptc_predict_t *p, int64_t stage, int64_t chunk,
                        const own_turn_t *turns, int64_t *again, own_part_t *out) {
  const int64_t n = p->num_stages, at = stage + chunk * n;
  const bool whole = p->choice->chunks <= 1;
  int64_t begin = 0;
  out->count = 0;
  out->kept = out->held = 0;
  for (int32_t i = 0; i < p->pieces->count; i++) {
    const ptc_piece_t *piece = &p->pieces->items[i];
    const int64_t count =
        whole ? ptc_count_on(p, i, stage)
              : ptc_part_has(piece, begin, p->parts[at], at == 0, at == n * p->choice->chunks - 1);
    if (ptc_piece_repeats(piece)) begin += piece->count;
    if (count == 0) continue;
    const int64_t own = again[i] < count ? again[i] : count;
    again[i] -= own;
    add_own_piece(p, piece, count, own, &turns[i], out);
  }
}

static void count_again(const ptc_predict_t *p, int64_t stage, int64_t *again) {
  for (int32_t i = 0; i < p->pieces->count; i++) {
    const int64_t turns = ptc_count_on(p, i, stage), some = p->choice->recompute_turns;
    again[i] = turns;
    if (!ptc_piece_repeats(&p->pieces->items[i])) continue;
    if (some >= 0 && some < turns) again[i] = some;
    if (ptc_again_share(p, turns) == 0) again[i] = 0;
  }
}

// Micro-batches go through the chunks in groups of as many as there are stages. |before|: what those before each chunk
// keep of one micro-batch; the last: what all keep. Bytes of the first |tasks| tasks.
static double kept_by(const ptc_predict_t *p, const double *before, int64_t tasks) {
  const int64_t n = p->num_stages, chunks = p->choice->chunks;
  const int64_t rounds = tasks / (n * chunks), rest = tasks % (n * chunks);
  const int64_t chunk = rest / n;
  return (double)(rounds * n) * before[chunks] + (double)n * before[chunk] +
         (double)(rest % n) * (before[chunk + 1] - before[chunk]);
}

// What an interleaved stage keeps at most, of all micro-batches under way. With each task of a steady state one chunk
// gains a micro-batch and one loses one: it is most where one of the two is about to change. No less is said than if all
// chunks were alike, so that bounds need not know them (a last chunk that keeps more is overrated). |forward|,
// |backward|: as above, for F and for B, whose chunks come in the opposite order.
static double interleaved_kept(const ptc_predict_t *p, int64_t stage, const double *forward,
                               const double *backward) {
  const int64_t n = p->num_stages, v = p->choice->chunks, all = p->micro_batches * v;
  int64_t warm = 2 * (n - stage - 1) + (v - 1) * n + 1;
  if (warm > all) warm = all;
  double most = fmax(kept_by(p, forward, warm), forward[v] * (double)warm / (double)v);
  for (int64_t at = 0; at < n * v; at += n) {
    // The next such turn of F, and of B.
    const int64_t begun[] = {at < warm ? at + (warm - at + n * v - 1) / (n * v) * n * v : at,
                             at + warm};
    for (int k = 0; k < 2; k++)
      if (begun[k] <= all)
        most = fmax(most, kept_by(p, forward, begun[k]) - kept_by(p, backward, begun[k] - warm));
  }
  return most;
}

static void add_chunks(const ptc_predict_t *p, int64_t stage, const own_turn_t *turns,
                       const memory_t *fixed, memory_t *most) {
  const int64_t chunks = p->choice->chunks;
  double forward[PTC_MAX_PARTS + 1], backward[PTC_MAX_PARTS + 1];
  int64_t again[PTC_MAX_PIECES];
  own_part_t part;
  count_again(p, stage, again);
  forward[0] = backward[0] = 0;
  for (int64_t c = 0; c < chunks; c++) {
    own_part_of(p, stage, c, turns, again, &part);
    forward[c + 1] = forward[c] + part.kept;
  }
  for (int64_t c = 0; c < chunks; c++) backward[c + 1] = forward[chunks] - forward[chunks - 1 - c];
  const double all = interleaved_kept(p, stage, forward, backward);
  count_again(p, stage, again);
  for (int64_t c = 0; c < chunks; c++) {
    own_part_of(p, stage, c, turns, again, &part);
    add_peaks(&part, fixed, fmax(0, all - part.kept), p->micro_batches == 1, most);
  }
}

static memory_t own_memory_of(const ptc_predict_t *p, int64_t stage, const own_turn_t *turns) {
  const memory_t fixed = fixed_of(p, stage, turns);
  memory_t most = {.params = fixed.params, .grads = fixed.grads};
  if (p->choice->chunks > 1) {
    add_chunks(p, stage, turns, &fixed, &most);
  } else {
    own_part_t part;
    int64_t again[PTC_MAX_PIECES];
    count_again(p, stage, again);
    own_part_of(p, stage, 0, turns, again, &part);
    const double flying = in_flight(p, stage);
    // Gradients of parameters come so many micro-batches later.
    const double late = fmin((double)stage, (double)p->micro_batches - flying);
    add_peaks(&part, &fixed, (flying - 1) * part.kept + late * part.held, p->micro_batches == 1,
              &most);
  }
  most.temp += fixed.temp;
  most.states = fixed.states;
  return most;
}

// --- other frameworks

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

static memory_t stage_memory(const ptc_predict_t *p, int64_t stage, const own_turn_t *turns) {
  return is_own(p) ? own_memory_of(p, stage, turns) : memory_of(p, stage);
}

static void find_own_turns(const ptc_predict_t *p, own_turn_t *turns) {
  for (int32_t i = 0; i < p->pieces->count && is_own(p); i++)
    turns[i] = own_turn_of(p, &p->pieces->items[i]);
}

double ptc_predict_stage_bytes(const ptc_predict_t *p, int64_t stage) {
  own_turn_t turns[PTC_MAX_PIECES];
  find_own_turns(p, turns);
  const memory_t own = stage_memory(p, stage, turns);
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
  own_turn_t turns[PTC_MAX_PIECES];
  find_own_turns(all, turns);
  for (int64_t s = 0; s < all->num_stages; s++) {
    // With late gradients it is the first or the last of alike stages that needs most.
    const bool late = all->choice->schedule == PTC_SCHEDULE_ZB_H1;
    if (ptc_like_before(all, s) && s + 1 < all->num_stages &&
        !(late && !ptc_like_before(all, s + 1)))
      continue;
    const ptc_predict_t p = ptc_on_stage(all, s);
    const memory_t own = stage_memory(&p, s, turns);
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

// Parameters, gradients and states of a turn; shared ones may lie there anyway. Of our own plans without the gradients,
// |out_grads|, which a micro-batch alone does not have while it keeps most.
static double least_states(const ptc_predict_t *p, const ptc_piece_t *piece, double *out_grads) {
  double sum = 0;
  *out_grads = 0;
  for (int32_t g = 0; g < piece->num_groups; g++) {
    if (piece->groups[g].shared_with >= 0) continue;
    const memory_t own = group_memory(p, &piece->groups[g], 1);
    sum += own.params + own.states + (is_own(p) ? 0 : own.grads);
    *out_grads += is_own(p) ? own.grads : 0;
  }
  return sum;
}

// A turn alone, at least.
static double least_peak(const ptc_predict_t *p, const ptc_piece_t *piece) {
  double least = INFINITY;
  for (int alone = 0; alone < 2; alone++)
    least =
        fmin(least, fmax(peak_bytes(p, piece, false, alone), peak_bytes(p, piece, true, alone)));
  return least;
}

// Besides what all turns of a part keep, where |piece| is its last.
static double least_temp(const ptc_predict_t *p, const ptc_piece_t *piece) {
  if (!is_own(p)) {
    const bool again = p->choice->size[PTC_AXIS_PP] > 1 || !ptc_piece_repeats(piece) ||
                       ptc_again_share(p, piece->count) > 0;
    return passing_bytes(p, piece, again ? 1 : 0);
  }
  const double least = fmin(kept_bytes(p, piece, 1), kept_bytes(p, piece, 0));
  return fmax(0, least_peak(p, piece) - fmax(least, piece->saved_bytes[p->choice->recompute]));
}

static void measure_end(const ptc_predict_t *p, const ptc_piece_t *piece, int end,
                        ptc_room_t *out) {
  double grads;
  out->end_states[end] += least_states(p, piece, &grads);
  out->end_grads[end] += grads;
  if (piece->logits <= 0) out->end_kept[end] += kept_bytes(p, piece, 1);
  const double temp = least_temp(p, piece);
  if (!is_own(p))
    out->end_temp[end] = fmax(out->end_temp[end], temp);
  else if (end == 1)
    out->end_temp[end] = temp;
}

static void measure_room(const ptc_predict_t *p, ptc_room_t *out) {
  *out = (ptc_room_t){
      .states = INFINITY, .grads = INFINITY, .none = INFINITY, .least = INFINITY, .temp = INFINITY};
  const int64_t all = ptc_pieces_turns(p->pieces);
  for (int32_t i = 0; i < p->pieces->count; i++) {
    const ptc_piece_t *piece = &p->pieces->items[i];
    if (ptc_piece_repeats(piece)) {
      double grads;
      out->turns += piece->count;
      const double none = piece->logits > 0 ? 0 : kept_bytes(p, piece, 0);
      out->states = fmin(out->states, least_states(p, piece, &grads));
      out->grads = fmin(out->grads, grads);
      out->none = fmin(out->none, none);
      out->least = fmin(out->least, fmin(kept_bytes(p, piece, 1), none));
      out->temp = fmin(out->temp, least_temp(p, piece));
    } else if (out->turns == 0 || out->turns == all) {
      measure_end(p, piece, out->turns > 0, out);
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
  out->fixed = fixed_bytes(&p) + (is_own(&p) ? pieces->work->input_bytes : 0);
}

bool ptc_room_may_fit(const ptc_room_t *room, const ptc_stack_t *stack, const ptc_choice_t *choice,
                      int64_t micro_batches, double bytes, double *out_again) {
  const ptc_predict_t p = {.stack = stack,
                           .choice = choice,
                           .num_stages = choice->size[PTC_AXIS_PP],
                           .micro_batches = micro_batches};
  *out_again = 0;
  if (isinf(bytes) || room->turns == 0) return true;
  const double all = (bytes - room->fixed) / stack->allocator * (1 + 1e-9);
  const double of_all = (double)room->turns, each = (double)choice->chunks;
  const double states = room->states + (micro_batches > 1 ? room->grads : 0);
  // If every stage had as few micro-batches in flight as the last one, and no more to hold.
  const double lightest = states + room->least * in_flight(&p, p.num_stages - 1);
  if (((all - room->temp) / lightest + 1e-6) * (double)p.num_stages * (1 + 1e-9) < of_all)
    return false;
  double most = 0, untouched = 0, gain = 0;
  for (int64_t s = 0; s < p.num_stages; s++) {
    const double flying = in_flight(&p, s);
    double left = all, temp = room->temp;
    for (int end = 0; end < 2; end++) {
      if (s != (end ? p.num_stages - 1 : 0)) continue;
      left -= room->end_states[end] + (micro_batches > 1 ? room->end_grads[end] : 0) +
              room->end_kept[end] * flying;
      // Before the end, what it keeps itself is not there yet.
      if (is_own(&p) && end == 1) temp -= room->end_kept[end];
      temp = fmax(temp, room->end_temp[end]);
    }
    left -= fmax(0, temp);
    if (left < 0) return false;
    const double turns = left / (states + room->least * flying) + 1e-6;
    if (turns < each) return false;
    most += turns < of_all ? (double)(int64_t)turns : of_all;
    if (room->none == room->least) continue;  // nothing is gained
    const double whole = states + room->none * flying;
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
  // Sharding leaves the least states, and no sharding the least beside them.
  ptc_choice_t most_split = *choice, least_split = *choice;
  most_split.zero = 3;
  const int64_t *size = choice->size;
  const int64_t rest = devices / (size[PTC_AXIS_TP] * size[PTC_AXIS_CP] * size[PTC_AXIS_EP]);
  ptc_predict_t p = {.pieces = pieces,
                     .cluster = cluster,
                     .stack = stack,
                     .choice = &most_split,
                     .device = ptc_predict_device(cluster, pieces->work->precision)};
  // Of all replicas and stages together.
  const double micro_batches =
      (double)pieces->work->batch / ((double)size[PTC_AXIS_EP] * (double)choice->micro_batch);
  const bool alone = is_own(&p) && micro_batches <= (double)rest;
  double states = 0, saved = 0, any_temp = 0, turn_temp = INFINITY;
  for (int32_t i = 0; i < pieces->count; i++) {
    double grads;
    const double own = least_states(&p, &pieces->items[i], &grads);
    states += (double)pieces->items[i].count * (own + (alone ? 0 : grads));
  }
  if (is_own(&p)) {
    least_split.zero = 0;
    least_split.size[PTC_AXIS_PP] = 1;
  }
  p.choice = &least_split;
  for (int32_t i = 0; i < pieces->count; i++) {
    const ptc_piece_t *piece = &pieces->items[i];
    const double temp = is_own(&p) ? least_peak(&p, piece) : passing_bytes(&p, piece, 1);
    any_temp = fmax(any_temp, temp);
    if (ptc_piece_repeats(piece) || (is_own(&p) && i == pieces->count - 1))
      turn_temp = fmin(turn_temp, is_own(&p) ? least_temp(&p, piece) : temp);
    if (piece->logits <= 0)
      saved += (double)piece->count * fmin(kept_bytes(&p, piece, 1), kept_bytes(&p, piece, 0));
  }
  // With as many micro-batches as stages, these hold the half of them on the average.
  const double average = states / (double)rest +
                         0.5 * saved * fmin(1, micro_batches / (double)rest) +
                         (isinf(turn_temp) ? any_temp : turn_temp);
  return fmax(average, any_temp) * stack->allocator;
}
