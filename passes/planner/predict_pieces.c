// What a turn of each piece takes: kernels and exposed communication.
#include <math.h>
#include <string.h>

#include "passes/planner/predict_impl.h"

// The same collective stands in a piece several times, and the same product.
enum { MAX_KNOWN = PTC_MAX_KNOWN_TIMES };
typedef ptc_known_times_t known_t;

// Half the bytes take half the time or more, but for changes of NCCL's algorithm.
static const double net_floor = .95;

typedef struct timer_s {
  const ptc_cluster_t *cluster;
  const ptc_device_model_t *device;
  const ptc_stack_t *stack;
  const int64_t *size;
  ptc_kernel_options_t options;
  known_t *known;
  bool graphs;           // launch all but the experts
  double experts_bytes;  // of the piece's largest exchange with experts on the way forward
  double copies;         // of each token in it
} timing_t;

// The device on which everything takes longest: a synchronous step waits for it.
const ptc_device_model_t *ptc_predict_device(const ptc_cluster_t *cluster,
                                             ptc_precision_t precision) {
  const ptc_device_model_t *worst = cluster->groups[0].node.device;
  for (int32_t g = 1; g < cluster->num_groups; g++) {
    const ptc_device_model_t *other = cluster->groups[g].node.device;
    if (other->peak[precision] * other->gemm_eff < worst->peak[precision] * worst->gemm_eff)
      worst = other;
  }
  return worst;
}

// Narrow products convert their operands: each is read in 16 bits and written in 8 or less, twice (rows and columns).
static double cast_bytes(const ptc_kernel_work_t *work) {
  const double operands = (double)work->m * (double)work->k;
  return operands * (work->batch > 0 ? (double)work->batch : 1) * (2 + 2);
}

// What a framework launches beside or instead of a fused kernel: that of a memory-bound one moves more, a product's
// prologue and epilogue are kernels of their own.
static double unfused_seconds(const timing_t *t, ptc_kernel_work_t *work, bool is_gemm) {
  if (t->stack->narrow && work->kind == PTC_KW_MEMORY) {
    if (work->folds) return work->bytes = 0;
    if (work->unfused_bytes > 0) work->bytes = fmin(work->bytes, work->unfused_bytes);
  }
  if (work->unfused_bytes <= work->bytes && work->ops <= 1) return 0;
  double more = work->unfused_bytes - work->bytes;
  if (is_gemm) {
    const double batch = work->batch > 0 ? (double)work->batch : 1;
    const double plain = 2 * batch *
                         ((double)work->m * (double)work->k + (double)work->k * (double)work->n +
                          (double)work->m * (double)work->n);
    more = work->unfused_bytes - plain;
  }
  const double launches = work->ops > 1 ? work->ops - 1 : 0;
  double seconds = t->stack->unfused * launches * t->device->launch_s;
  if (more <= 0) return seconds;
  if (work->kind == PTC_KW_MEMORY) {
    work->bytes += t->stack->unfused * more;
  } else if (t->stack->unfused > 0) {
    const ptc_kernel_work_t extra = {.kind = PTC_KW_MEMORY, .bytes = t->stack->unfused * more};
    const ptc_kernel_options_t options = {.launch_s = 0};
    seconds += ptc_kernel_seconds(t->device, &extra, &options);
  }
  return seconds;
}

// FlashAttention 2 on Hopper, and 2, 3 and 4 on Blackwell, beside the catalog's kernels of 2025 (hardware.md 4.3: 330 of 630
// TFLOP/s both ways; on B200 FA4 has 1605 of 1330, and 1.9 times FA3 on H200, whose peak is 2.3 times lower).
static double attention_share(const timing_t *t) {
  const int32_t generation = t->stack->attention;
  if (generation == 0) return 1;
  if (t->device->arch >= 100) return generation >= 4 ? 1.2 : generation == 3 ? 0.6 : 0.35;
  return t->device->arch >= 90 && generation < 3 ? 0.52 : 1;
}

static double gemm_seconds(const timing_t *t, const ptc_kernel_work_t *w, double *floor) {
  known_t *known = t->known;
  for (int32_t i = 0; i < known->num_gemms; i++)
    if (known->gemms[i].m == w->m && known->gemms[i].n == w->n && known->gemms[i].k == w->k &&
        known->gemms[i].bytes == w->bytes && known->gemms[i].batch == w->batch &&
        known->gemms[i].kind == w->kind && known->gemms[i].prec == w->prec &&
        known->gemms[i].accumulates_f32 == w->accumulates_f32 &&
        known->gemms[i].costly == w->costly) {
      *floor += known->gemms[i].floor * w->times;
      return known->gemms[i].seconds;
    }
  const double seconds = ptc_kernel_seconds(t->device, w, &t->options);
  const double least = ptc_kernel_floor(t->device, w, &t->options);
  *floor += least * w->times;
  if (known->num_gemms == MAX_KNOWN) return seconds;
  const int32_t at = known->num_gemms++;
  known->gemms[at].kind = w->kind;
  known->gemms[at].prec = w->prec;
  known->gemms[at].accumulates_f32 = w->accumulates_f32;
  known->gemms[at].batch = w->batch;
  known->gemms[at].m = w->m;
  known->gemms[at].n = w->n;
  known->gemms[at].k = w->k;
  known->gemms[at].bytes = w->bytes;
  known->gemms[at].costly = w->costly;
  known->gemms[at].floor = least;
  return known->gemms[at].seconds = seconds;
}

// |floor|: what the kernel adds to it.
static double kernel_seconds(const timing_t *t, const ptc_kernel_work_t *work, bool repeats,
                             bool casts, double *floor) {
  ptc_kernel_work_t own = *work;
  double seconds = 0;
  const bool is_gemm = own.kind == PTC_KW_GEMM || own.kind == PTC_KW_GROUPED_GEMM;
  if (is_gemm && repeats && t->stack->gemm_precision >= 0 && own.prec != PTC_PREC_F32) {
    own.prec = (ptc_precision_t)t->stack->gemm_precision;
    // Both orders are made at once: the weight gradient finds what the other two products left.
    const bool fused = t->stack->fuses_expert_casts && own.kind == PTC_KW_GROUPED_GEMM;
    if ((own.prec == PTC_PREC_FP8 || own.prec == PTC_PREC_FP4) && casts && !fused) {
      ptc_kernel_work_t cast = {.kind = PTC_KW_MEMORY, .bytes = cast_bytes(&own)};
      seconds += ptc_kernel_seconds(t->device, &cast, &t->options);
    }
  }
  if (is_gemm) own.accumulates_f32 = own.accumulates_f32 && t->stack->wgrad_f32;
  seconds += unfused_seconds(t, &own, is_gemm);
  *floor += seconds * work->times;
  if (is_gemm) return (seconds + gemm_seconds(t, &own, floor)) * work->times;
  const bool attention = own.kind == PTC_KW_ATTENTION || own.kind == PTC_KW_ATTENTION_GRAD;
  if (attention && t->stack->fp8_attention && t->stack->gemm_precision >= 0)
    own.prec = PTC_PREC_FP8;
  double one = ptc_kernel_seconds(t->device, &own, &t->options);
  double least =
      attention || t->device->arch <= 0 ? ptc_kernel_floor(t->device, &own, &t->options) : one;
  if (attention) {
    const double rate = t->stack->attention_rate * attention_share(t);
    one /= rate;
    least /= rate;
  }
  *floor += least * work->times;
  return (seconds + one) * work->times;
}

// Megatron's fused softmax takes four rows of heads at once; else PyTorch's kernels do its work one by one.
enum { SOFTMAX_ROWS = 4, SOFTMAX_KERNELS = 10 };

static double launches_of(const timing_t *t, const ptc_kernel_work_t *work) {
  double launches = 1;
  if (work->folds && t->stack->narrow) return 0;
  const bool experts = work->kind == PTC_KW_GROUPED_GEMM && t->stack->launches_experts;
  if (experts) launches = (double)work->batch;
  if (t->graphs) return experts ? launches * work->times : 0;
  if (work->ops > 1) launches += t->stack->unfused * (work->ops - 1);
  const bool attention = work->kind == PTC_KW_ATTENTION || work->kind == PTC_KW_ATTENTION_GRAD;
  if (attention && t->stack->unfused_attention && work->batch * work->heads % SOFTMAX_ROWS)
    launches += SOFTMAX_KERNELS;
  return launches * work->times;
}

static double phase_flops(const ptc_phase_work_t *phase) {
  double sum = 0;
  for (int32_t i = 0; i < phase->num_kernels; i++)
    if (phase->kernels[i].kind != PTC_KW_MEMORY)
      sum += ptc_kernel_flops(&phase->kernels[i]) * phase->kernels[i].times;
  return sum;
}

// The innermost axis of the set names it in reports.
static int32_t axis_of(uint32_t axes) {
  for (int32_t a = PTC_NUM_DEVICE_AXES - 1; a > 0; a--)
    if (axes & 1u << a) return a;
  return PTC_AXIS_DP;
}

static bool is_experts(const ptc_net_item_t *item) {
  return item->kind == PTC_NET_ALL_TO_ALL && item->axes == 1u << PTC_AXIS_EP;
}

// Of |copies| of a token that go to one of |places| each, how many places are distinct on the average.
static double distinct_share(double copies, double places) {
  return places * (1 - pow(1 - 1 / places, copies)) / copies;
}

// What the stack sends of what the program exchanges with experts.
static double experts_bytes(const timing_t *t, double bytes, ptc_group_shape_t shape) {
  const ptc_stack_t *stack = t->stack;
  if (bytes > t->experts_bytes) bytes = t->experts_bytes;
  if (t->copies <= 1) return bytes;
  if (shape.nodes > 1)
    return stack->dedups_between ? bytes * distinct_share(t->copies, shape.nodes) : bytes;
  return stack->dedups_inside ? bytes * distinct_share(t->copies, shape.ranks) : bytes;
}

static void find_experts(timing_t *t, const ptc_piece_t *piece) {
  t->experts_bytes = t->copies = 0;
  for (int32_t i = 0; i < piece->forward.num_nets; i++)
    if (is_experts(&piece->forward.nets[i]))
      t->experts_bytes = fmax(t->experts_bytes, piece->forward.nets[i].bytes);
  if (piece->boundary_bytes > 0) t->copies = t->experts_bytes / piece->boundary_bytes;
}

static double net_seconds(const timing_t *t, const ptc_net_item_t *item) {
  known_t *known = t->known;
  // What is sent depends on the piece.
  const bool own = t->stack->narrow && is_experts(item);
  for (int32_t i = 0; i < known->num_nets && !own; i++)
    if (known->nets[i].bytes == item->bytes && known->nets[i].kind == item->kind &&
        known->nets[i].axes == item->axes && known->nets[i].ranks == item->ranks)
      return known->nets[i].seconds;
  ptc_group_shape_t shape = ptc_group_shape(t->cluster, t->size, item->axes);
  if (t->stack->experts_close && item->axes == 1u << PTC_AXIS_EP) {
    int64_t size[PTC_NUM_DEVICE_AXES];
    memcpy(size, t->size, sizeof(size));
    size[PTC_AXIS_DP] *= size[PTC_AXIS_CP] * size[PTC_AXIS_TP];
    size[PTC_AXIS_CP] = size[PTC_AXIS_TP] = 1;
    shape = ptc_group_shape(t->cluster, size, item->axes);
  }
  if (item->ranks > 0 && item->ranks < shape.ranks) {
    shape.ranks = item->ranks;
    if (shape.per_node > item->ranks) shape.per_node = item->ranks;
    shape.nodes = (shape.ranks + shape.per_node - 1) / shape.per_node;
  }
  const double bytes = own ? experts_bytes(t, item->bytes, shape) : item->bytes;
  const double seconds = ptc_net_seconds(t->cluster, item->kind, shape, bytes, NULL);
  if (own || known->num_nets == MAX_KNOWN) return seconds;
  known->nets[known->num_nets].kind = item->kind;
  known->nets[known->num_nets].axes = item->axes;
  known->nets[known->num_nets].ranks = item->ranks;
  known->nets[known->num_nets].bytes = item->bytes;
  known->nets[known->num_nets++].seconds = seconds;
  return seconds;
}

// What a phase of a turn keeps busy: the device, its links and the host, each by itself.
typedef struct busy_s {
  double kernels, nets, host;
  double floor;                         // of the kernels, at least
  double of_axis[PTC_NUM_DEVICE_AXES];  // of nets
} busy_t;

static busy_t busy_of(const timing_t *t, const ptc_phase_work_t *phase, bool repeats, bool casts) {
  // Weight gradients find what the other two products left: their casts, and, in some stacks, gathers.
  const bool regathers = !casts && t->stack->hides_regathers;
  busy_t busy = {0};
  double launches = 0;
  for (int32_t i = 0; i < phase->num_kernels; i++) {
    busy.kernels += kernel_seconds(t, &phase->kernels[i], repeats, casts, &busy.floor);
    launches += launches_of(t, &phase->kernels[i]);
  }
  for (int32_t i = 0; i < phase->num_nets; i++) {
    const ptc_net_item_t *item = &phase->nets[i];
    if (item->late) continue;  // counted with the gradients
    if (regathers && item->kind == PTC_NET_ALL_GATHER && item->axes == 1u << PTC_AXIS_TP) continue;
    // What goes to experts and back is on the way of everything.
    const double hidden = item->axes == 1u << PTC_AXIS_EP ? 0 : t->stack->hidden_inner;
    const double seconds = net_seconds(t, item) * item->times * (1 - hidden);
    busy.of_axis[axis_of(item->axes)] += seconds;
    busy.nets += seconds;
    if (!t->graphs) launches += item->times;
  }
  busy.host = launches * t->stack->launch_s;
  return busy;
}

// The host runs ahead while the device computes and sends, from one phase into the next; where all of them are short the
// device waits for it. |out|: what kernels take, and links besides, to what they would without a host.
typedef struct stretch_s {
  double kernels, nets;
} stretch_t;

static stretch_t stretch_of(const busy_t *phases, int32_t count) {
  busy_t sum = {0};
  for (int32_t i = 0; i < count; i++) {
    sum.kernels += phases[i].kernels;
    sum.nets += phases[i].nets;
    sum.host += phases[i].host;
  }
  const double busy = fmax(sum.kernels, sum.host);
  return (stretch_t){
      .kernels = sum.kernels > 0 ? busy / sum.kernels : 1,
      .nets = sum.nets > 0 ? (fmax(sum.kernels + sum.nets, sum.host) - busy) / sum.nets : 1};
}

static bool moves_heads(const ptc_phase_work_t *phase) {
  for (int32_t i = 0; i < phase->num_nets; i++)
    if (phase->nets[i].kind == PTC_NET_ALL_TO_ALL && phase->nets[i].axes == 1u << PTC_AXIS_CP)
      return true;
  return false;
}

bool ptc_pieces_move_heads(const ptc_work_pieces_t *pieces) {
  for (int32_t i = 0; i < pieces->count; i++)
    if (moves_heads(&pieces->items[i].forward) || moves_heads(&pieces->items[i].backward))
      return true;
  return false;
}

// Links are no faster for a part of the bytes. A host for which the device waits hides collectives: of these as many
// belong to what is computed again as of the kernels.
static double floor_of(const busy_t phases[4]) {
  double kernels = 0, nets = 0, all = 0, host = 0;
  for (int i = 0; i < 4; i++) {
    all += phases[i].kernels;
    host += phases[i].host;
    if (i == 1) continue;
    kernels += phases[i].kernels;
    // How attention shares its sequence over cp depends on how many ranks there are.
    nets += phases[i].nets - phases[i].of_axis[PTC_AXIS_CP];
  }
  const double share = host > 0 && all > 0 ? kernels / all : 1;
  return phases[0].floor + phases[2].floor + phases[3].floor + net_floor * share * nets;
}

void ptc_predict_pieces(const ptc_work_pieces_t *pieces, const ptc_cluster_t *cluster,
                        const ptc_stack_t *stack, const ptc_choice_t *choice,
                        ptc_piece_time_t *times) {
  ptc_known_times_t known;
  known.num_nets = known.num_gemms = 0;
  ptc_predict_pieces_known(pieces, cluster, stack, choice, &known, times);
}

void ptc_predict_pieces_known(const ptc_work_pieces_t *pieces, const ptc_cluster_t *cluster,
                              const ptc_stack_t *stack, const ptc_choice_t *choice,
                              ptc_known_times_t *known, ptc_piece_time_t *times) {
  const ptc_node_model_t *node = &cluster->groups[0].node;
  timing_t t = {.known = known,
                .cluster = cluster,
                .device = ptc_predict_device(cluster, pieces->work->precision),
                .stack = stack,
                .size = choice->size,
                .graphs = stack->graphs_on_racks && node->link_domain > node->devices,
                .options = {.launch_s = -1, .unfused_attention = stack->unfused_attention}};
  for (int32_t i = 0; i < pieces->count; i++) {
    const ptc_piece_t *piece = &pieces->items[i];
    const bool repeats = ptc_piece_repeats(piece);
    if (stack->narrow) find_experts(&t, piece);
    ptc_piece_time_t *out = &times[i];
    *out = (ptc_piece_time_t){0};
    const busy_t of[] = {busy_of(&t, &piece->forward, repeats, true),
                         busy_of(&t, &piece->again, repeats, true),
                         busy_of(&t, &piece->backward, repeats, true),
                         busy_of(&t, &piece->weight_grad, repeats, false)},
                 step = busy_of(&t, &piece->step, repeats, true);
    const stretch_t stretch = stretch_of(of, 4);
    out->forward = stretch.kernels * of[0].kernels;
    out->again = stretch.kernels * of[1].kernels;
    out->backward = stretch.kernels * of[2].kernels;
    out->weight_grad = stretch.kernels * of[3].kernels;
    out->exposed_forward = stretch.nets * of[0].nets;
    out->exposed_again = stretch.nets * of[1].nets;
    for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++)
      for (int k = 0; k < 4; k++) out->exposed[a] += stretch.nets * of[k].of_axis[a];
    out->floor = floor_of(of);
    out->step = fmax(step.kernels + step.nets, step.host);
    out->flops = phase_flops(&piece->forward) + phase_flops(&piece->backward) +
                 phase_flops(&piece->weight_grad);
  }
}
