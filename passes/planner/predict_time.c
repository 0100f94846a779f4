// Time of a step: what stages do, and when.
#include <math.h>

#include "passes/planner/pipeline_time.h"
#include "passes/planner/predict_stage.h"

typedef struct stage_s {
  double f, b, w;  // per micro-batch, exposed communication and sends included
  double compute, again, exposed[PTC_NUM_DEVICE_AXES];
  // Before the first micro-batch, in each one, and after the last one: traffic that nothing hides.
  double gathers, per_micro, sums;
  double step, optimizer;
  double flops, peak;
} stage_t;

// --- traffic of gradients and parameters

typedef struct late_s {
  double seconds;  // of all of it
  double window;   // computing that it can hide behind
  double sms;      // part of the device that it takes meanwhile
} late_t;

static bool same_shape(const ptc_group_shape_t *a, const ptc_group_shape_t *b) {
  return a->ranks == b->ranks && a->per_node == b->per_node && a->nodes == b->nodes &&
         a->sharers == b->sharers && a->crossing == b->crossing;
}

// The same collective comes again with other numbers of turns that compute again.
static ptc_known_net_t find_net(const ptc_predict_t *p, ptc_net_kind_t kind,
                                ptc_group_shape_t shape, double bytes) {
  uint64_t hash;
  memcpy(&hash, &bytes, sizeof(hash));
  hash = (hash ^ (uint64_t)kind ^ (uint64_t)shape.ranks << 4) * UINT64_C(0x9e3779b97f4a7c15);
  ptc_known_net_t own = {0}, *net = p->nets ? &p->nets[hash >> 56] : &own;
  if (!net->known || net->bytes != bytes || net->kind != kind || !same_shape(&net->shape, &shape)) {
    ptc_net_info_t info = {0};
    const double seconds = ptc_net_seconds(p->cluster, kind, shape, bytes, &info);
    *net = (ptc_known_net_t){true, kind, shape, info.channels, bytes, seconds};
  }
  return *net;
}

static double net(const ptc_predict_t *p, ptc_net_kind_t kind, ptc_group_shape_t shape,
                  double bytes, double *sms) {
  const ptc_known_net_t found = find_net(p, kind, shape, bytes);
  const double slow = found.seconds / p->stack->late_rate;
  const double part = p->device->sms > 0 ? (double)found.channels / p->device->sms : 0;
  *sms = part > *sms ? part : *sms;
  return slow;
}

// Of one turn of the group's parameters, or of |turns| at once.
static void add_group(const ptc_predict_t *p, const ptc_param_group_t *group, double turns,
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

// Beside how many of a micro-batch's passes sums and gathers go. Interleaved, a stage is done with a chunk while the others
// have their last round of micro-batches, one for each stage, before them.
static double micro_batches_beside(const ptc_predict_t *p) {
  const double chunks = (double)p->choice->chunks;
  if (chunks == 1 || !p->stack->sums_by_chunk) return 1;
  return (fmin((double)p->micro_batches, (double)p->num_stages) * (chunks - 1) + 1) / chunks;
}

// What |stage| sends for its parameters: once, and in all micro-batches.
static void find_late(const ptc_predict_t *p, int64_t stage, late_t *sums, late_t *gathers,
                      late_t *per_micro) {
  *sums = *gathers = *per_micro = (late_t){0};
  for (int32_t i = 0; i < p->pieces->count; i++) {
    const ptc_piece_t *piece = &p->pieces->items[i];
    const double turns = (double)ptc_count_on(p, i, stage);
    for (int32_t g = 0; turns > 0 && g < piece->num_groups; g++)
      add_group(p, &piece->groups[g], turns, sums, gathers, per_micro);
  }
}

// Sums go beside the last backward pass, gathers beside the first forward pass, or both beside all of them.
static void add_late(const ptc_predict_t *p, int64_t stage, stage_t *s) {
  const double m = (double)p->micro_batches;
  late_t sums, gathers, per_micro;
  find_late(p, stage, &sums, &gathers, &per_micro);
  const double own = micro_batches_beside(p);
  sums.window = own * (s->b + s->w);
  gathers.window = own * s->f;
  per_micro.window = m * (s->f + s->b + s->w);
  const double hidden = p->stack->hidden_late;
  s->sums = exposed(&sums, hidden);
  s->gathers = exposed(&gathers, hidden);
  s->per_micro = exposed(&per_micro, hidden) / m;
}

// --- time

// Reads gradients and states, writes states and parameters.
double ptc_predict_optimizer(const ptc_predict_t *p, int64_t stage) {
  double bytes = 0;
  for (int32_t i = 0; i < p->pieces->count; i++) {
    const double turns = (double)ptc_count_on(p, i, stage);
    const ptc_piece_t *piece = &p->pieces->items[i];
    for (int32_t g = 0; turns > 0 && g < piece->num_groups; g++) {
      const ptc_param_group_t *group = &piece->groups[g];
      const double own = p->choice->zero >= 1 ? 1 / ptc_replicas(p, group->axes) : 1;
      bytes += turns * own * (2 * group->grad_bytes + 2 * group->state_bytes + group->param_bytes);
    }
  }
  const ptc_kernel_work_t work = {.kind = PTC_KW_MEMORY, .bytes = bytes};
  return ptc_kernel_seconds(p->device, &work, NULL);
}

// A turn's forward and backward pass, the latter with the part |share| of what is computed again.
ptc_part_time_t ptc_predict_turn(const ptc_piece_time_t *t, double share) {
  double all = 0;
  for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++) all += t->exposed[a];
  return (ptc_part_time_t){.f = t->forward + t->exposed_forward,
                           .b = t->backward + all - t->exposed_forward - t->exposed_again +
                                share * (t->again + t->exposed_again),
                           .w = t->weight_grad};
}

static void add_turns(ptc_part_time_t *sum, ptc_part_time_t one, double turns) {
  sum->f += turns * one.f;
  sum->b += turns * one.b;
  sum->w += turns * one.w;
}

// The messages of a micro-batch: each part but the last sends forward, each but the first backward.
static double sends_of(const ptc_predict_t *p, int64_t stage) {
  if (p->num_stages == 1) return 0;
  const double chunks = (double)p->choice->chunks;
  return 2 * chunks - (stage == 0) - (stage == p->num_stages - 1);
}

static void add_stage(const ptc_predict_t *p, int64_t stage, double hop, stage_t *out) {
  *out = (stage_t){0};
  ptc_part_time_t sum = {0};
  for (int32_t i = 0; i < p->pieces->count; i++) {
    const ptc_piece_time_t *t = &p->times[i];
    const int64_t count = ptc_count_on(p, i, stage);
    if (count == 0) continue;
    const double turns = (double)count;
    const double share = ptc_piece_repeats(&p->pieces->items[i]) ? ptc_again_share(p, count) : 1;
    double all = 0;
    for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++) all += t->exposed[a];
    // What is not computed again needs no collectives for it.
    const double present = all > 0 ? 1 - (1 - share) * t->exposed_again / all : 1;
    for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++)
      out->exposed[a] += turns * present * t->exposed[a];
    add_turns(&sum, ptc_predict_turn(t, share), turns);
    out->compute += turns * (t->forward + t->backward + t->weight_grad);
    out->again += turns * share * t->again;
    out->step += turns * t->step;
    out->flops += turns * t->flops;
  }
  out->f = sum.f;
  out->b = sum.b;
  out->w = sum.w;
  out->exposed[PTC_AXIS_PP] += sends_of(p, stage) * hop;
}

// Of each chunk of a stage: the first turns of its repeats compute again.
static void add_chunks(const ptc_predict_t *p, int64_t stage, ptc_part_time_t *parts) {
  const int64_t num_parts = p->num_stages * p->choice->chunks, some = p->choice->recompute_turns;
  int64_t seen[PTC_MAX_PIECES] = {0};
  for (int64_t part = stage; part < num_parts; part += p->num_stages) {
    parts[part] = (ptc_part_time_t){0};
    int64_t begin = 0;
    for (int32_t i = 0; i < p->pieces->count; i++) {
      const ptc_piece_t *piece = &p->pieces->items[i];
      const int64_t turns =
          ptc_part_has(piece, begin, p->parts[part], part == 0, part == num_parts - 1);
      if (ptc_piece_repeats(piece)) begin += piece->count;
      if (turns == 0) continue;
      double share = ptc_piece_repeats(piece) ? ptc_again_share(p, ptc_count_on(p, i, stage)) : 1;
      if (some >= 0 && ptc_piece_repeats(piece))
        share = fmax(0, fmin(1, (double)(some - seen[i]) / (double)turns));
      seen[i] += turns;
      add_turns(&parts[part], ptc_predict_turn(&p->times[i], share), (double)turns);
    }
  }
}

// What its stage does for each part, sends and what ZeRO 2 and 3 send included.
static void find_parts(const ptc_predict_t *p, int64_t stage, const stage_t *s, double hop,
                       ptc_part_time_t *parts) {
  const int64_t num_parts = p->num_stages * p->choice->chunks;
  if (p->choice->chunks == 1)
    parts[stage] = (ptc_part_time_t){s->f, s->b, s->w};
  else
    add_chunks(p, stage, parts);
  for (int64_t part = stage; part < num_parts; part += p->num_stages) {
    parts[part].b += s->per_micro / (double)p->choice->chunks;
    if (p->num_stages == 1) continue;
    if (part + 1 < num_parts) parts[part].f += hop;
    if (part > 0) parts[part].b += hop;
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
  seconds *= 1 - stack->hidden_inner;
  // Between chunks a stage has others to compute: some frameworks send meanwhile.
  return stack->hides_chunk_sends && choice->chunks > 1 ? 0 : seconds;
}

// Of all stages and parts. |worst|: the slowest stage.
typedef struct timeline_s {
  ptc_part_time_t parts[PTC_MAX_PARTS];
  double begin[PTC_MAX_STAGES], after[PTC_MAX_STAGES], ends[PTC_MAX_STAGES];
  ptc_pipeline_t pipeline;
  stage_t worst;
  int32_t slowest;
  double optimizer, flops, peak;
} timeline_t;

// |late|: with what is sent once, and the optimizer.
static void find_times(const ptc_predict_t *p, bool late, timeline_t *out) {
  const double hop = ptc_predict_hop(p->pieces, p->cluster, p->stack, p->choice);
  double slowest = -1;
  stage_t stage = {0};
  out->optimizer = out->flops = out->peak = 0;
  for (int64_t s = 0; s < p->num_stages; s++) {
    const ptc_predict_t own = ptc_on_stage(p, s);
    // The first and the last stage have fewer sends.
    if (!ptc_like_before(p, s) || s == 1 || s + 1 == p->num_stages) {
      add_stage(&own, s, hop, &stage);
      if (late) add_late(&own, s, &stage);
      if (late) stage.optimizer = ptc_predict_optimizer(&own, s);
      stage.peak = own.device->peak[p->pieces->work->precision];
    }
    find_parts(&own, s, &stage, hop, out->parts);
    out->begin[s] = stage.gathers;
    out->after[s] = stage.sums + stage.step;
    out->peak += stage.peak;
    out->flops += stage.flops;
    // Gradients are clipped by the norm of all of them: then all stages update at once.
    out->optimizer = fmax(out->optimizer, stage.optimizer);
    const double work = stage.f + stage.b + stage.w + stage.per_micro + stage.exposed[PTC_AXIS_PP];
    if (work > slowest) {
      slowest = work;
      out->worst = stage;
      out->slowest = (int32_t)s;
    }
  }
  out->pipeline = (ptc_pipeline_t){.kind = p->choice->schedule,
                                   .num_stages = (int32_t)p->num_stages,
                                   .num_chunks = (int32_t)p->choice->chunks,
                                   .num_micro = (int32_t)p->micro_batches,
                                   .parts = out->parts,
                                   .begin = out->begin};
}

// When the last stage is done with its micro-batches and with what comes after them.
static double latest(const ptc_predict_t *p, const timeline_t *t) {
  double last = 0, end = 0, after = 0;
  for (int32_t s = 0; s < t->pipeline.num_stages; s++) {
    last = fmax(last, t->ends[s] + t->after[s]);
    end = fmax(end, t->ends[s]);
    after = fmax(after, t->after[s]);
  }
  return (p->stack->sums_together ? end + after : last) + t->optimizer;
}

// What the slowest stage waits for.
static void add_waits(const timeline_t *t, ptc_prediction_t *out) {
  const int32_t at = t->slowest;
  double first = t->begin[0], work = 0;
  for (int32_t s = 1; s <= at; s++) first = fmax(t->begin[s], first + t->parts[s - 1].f);
  for (int32_t c = 0; c < t->pipeline.num_chunks; c++) {
    const ptc_part_time_t *part = &t->parts[c * t->pipeline.num_stages + at];
    work += (part->f + part->b + part->w) * t->pipeline.num_micro;
  }
  out->slowest_stage = at;
  out->fill_s = first - t->begin[at];
  out->wait_s = fmax(0, t->ends[at] - first - work);
  out->drain_s = fmax(0, out->bubble_s - out->fill_s - out->wait_s);
}

static void add_parts(const ptc_predict_t *p, const timeline_t *t, ptc_prediction_t *out) {
  const double m = (double)p->micro_batches;
  const stage_t *worst = &t->worst;
  out->compute_s = m * worst->compute;
  out->recompute_s = m * worst->again;
  out->optimizer_s = t->optimizer;
  double all = out->compute_s + out->recompute_s + out->optimizer_s;
  for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++) out->exposed_s[a] = m * worst->exposed[a];
  out->exposed_s[PTC_AXIS_DP] += worst->gathers + m * worst->per_micro + worst->sums + worst->step;
  for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++) all += out->exposed_s[a];
  out->bubble_s = p->num_stages == 1 ? 0 : fmax(0, out->step_s - all);
}

void ptc_add_time(const ptc_predict_t *p, double worth, ptc_prediction_t *out) {
  timeline_t t;
  find_times(p, true, &t);
  ptc_pipeline_least(&t.pipeline, t.ends);
  out->step_s = latest(p, &t);
  // Rounding must not tell a bound from what it bounds.
  out->is_bound = out->step_s * (1 - 1e-12) >= worth;
  if (out->is_bound) return;
  ptc_pipeline_simulate(&t.pipeline, t.ends);
  out->step_s = latest(p, &t);
  add_parts(p, &t, out);
  add_waits(&t, out);
  const double devices = (double)(p->choice->size[PTC_AXIS_DP] * p->choice->size[PTC_AXIS_EP] *
                                  p->choice->size[PTC_AXIS_CP] * p->choice->size[PTC_AXIS_TP]);
  out->model_flops = t.flops * (double)p->micro_batches * devices;
  if (t.peak > 0) out->mfu = t.flops * (double)p->micro_batches / (t.peak * out->step_s);
  out->tokens_per_s =
      (double)(p->pieces->work->batch * p->pieces->work->tokens_per_sample) / out->step_s;
}

double ptc_predict_least_seconds(const ptc_work_pieces_t *pieces, const ptc_piece_time_t *times,
                                 const ptc_part_range_t *parts, const ptc_stage_pieces_t *stages,
                                 const ptc_cluster_t *cluster, const ptc_stack_t *stack,
                                 const ptc_choice_t *choice) {
  if (ptc_slices_differ(cluster, choice)) return 0;
  ptc_choice_t once = *choice;
  once.recompute_turns = 0;
  const ptc_predict_t p = {.pieces = pieces,
                           .cluster = cluster,
                           .stack = stack,
                           .choice = &once,
                           .device = ptc_predict_device(cluster, pieces->work->precision),
                           .times = times,
                           .num_stages = choice->size[PTC_AXIS_PP],
                           .micro_batches = pieces->micro_batches,
                           .parts = parts,
                           .counts = stages};
  timeline_t t;
  find_times(&p, false, &t);
  ptc_pipeline_least(&t.pipeline, t.ends);
  return latest(&p, &t) * (1 - 1e-12);
}

// A part of the bytes takes at least this of its part of the seconds, where NCCL takes another algorithm for it.
static const double part_floor = .9;

// What is left uncovered at least. It grows with the seconds.
static double least_exposed(const late_t *late, double hidden) {
  return late->seconds - fmin(hidden * late->seconds, late->window);
}

// The sum over all stages is that of one stage that has all turns, but that traffic in one piece may be faster.
double ptc_predict_least_late(const ptc_work_pieces_t *pieces, const ptc_piece_time_t *times,
                              const ptc_cluster_t *cluster, const ptc_stack_t *stack,
                              const ptc_choice_t *choice, int64_t micro_batches,
                              ptc_known_net_t *nets) {
  if (ptc_slices_differ(cluster, choice)) return 0;
  const ptc_predict_t p = {.pieces = pieces,
                           .cluster = cluster,
                           .stack = stack,
                           .choice = choice,
                           .device = ptc_predict_device(cluster, pieces->work->precision),
                           .num_stages = choice->size[PTC_AXIS_PP],
                           .micro_batches = micro_batches,
                           .nets = nets};
  late_t sums = {0}, gathers = {0}, per_micro = {0};
  ptc_part_time_t all = {0};
  double step = 0;
  for (int32_t i = 0; i < pieces->count; i++) {
    const ptc_piece_t *piece = &pieces->items[i];
    const double turns = (double)piece->count;
    add_turns(&all, ptc_predict_turn(&times[i], 1), turns);
    step += turns * times[i].step;
    for (int32_t g = 0; g < piece->num_groups; g++)
      add_group(&p, &piece->groups[g], turns, &sums, &gathers, &per_micro);
  }
  const double stages = (double)choice->size[PTC_AXIS_PP], hidden = stack->hidden_late;
  if (stages > 1) {
    sums.seconds *= part_floor;
    gathers.seconds *= part_floor;
  }
  const double beside = micro_batches_beside(&p);
  sums.window = beside * (all.b + all.w);
  gathers.window = beside * all.f;
  per_micro.window = (double)micro_batches * (all.f + all.b + all.w);
  const double late = least_exposed(&sums, hidden) + least_exposed(&gathers, hidden) +
                      least_exposed(&per_micro, hidden);
  return (late + step) / stages * (1 - 1e-9);
}

void ptc_predict_stage_cost(const ptc_predict_t *p, int64_t stage, bool late,
                            ptc_stage_cost_t *out) {
  stage_t own;
  add_stage(p, stage, 0, &own);
  if (late) add_late(p, stage, &own);
  *out = (ptc_stage_cost_t){.f = own.f,
                            .b = own.b + own.per_micro,
                            .w = own.w,
                            .begin = own.gathers,
                            .after = own.sums + own.step,
                            .optimizer = ptc_predict_optimizer(p, stage)};
}

void ptc_predict_stage_late(const ptc_predict_t *p, int64_t stage, ptc_stage_cost_t *out) {
  late_t sums, gathers, per_micro;
  find_late(p, stage, &sums, &gathers, &per_micro);
  sums.window = gathers.window = per_micro.window = INFINITY;
  const double hidden = p->stack->hidden_late;
  *out = (ptc_stage_cost_t){.b = exposed(&per_micro, hidden) / (double)p->micro_batches,
                            .begin = exposed(&gathers, hidden),
                            .after = exposed(&sums, hidden)};
}
