// The kernels and collectives of each piece, from the layout of its values.
#include <string.h>

#include "passes/planner/layout_impl.h"

// --- kernels

static ptc_precision_t precision_of(ptc_dtype_t dtype) {
  switch (dtype) {
    case PTC_BF16: return PTC_PREC_BF16;
    case PTC_F16: return PTC_PREC_F16;
    default: return PTC_PREC_F32;
  }
}

static double max_bytes(double a, double b) { return a > b ? a : b; }

// Bytes of an element as a framework keeps it that computes in 16 bits.
static double narrow(const ptc_layout_t *l, const ptc_wvalue_t *v, double bytes) {
  const bool narrows = l->work->precision != PTC_PREC_F32 && v->dtype == PTC_F32 && v->num_dims > 1;
  return narrows && v->activation ? bytes / 2 : bytes;
}

static void count_unfused(const ptc_layout_t *l, const ptc_wgroup_t *group, ptc_kernel_work_t *k) {
  k->folds = group->num_ops > 0;
  for (int32_t i = 0; i < group->num_ops; i++) {
    const ptc_wop_t *op = group->ops[i];
    k->folds = k->folds && (op->opcode == PTC_OP_CAST || op->opcode == PTC_OP_BROADCAST) &&
               l->p->values[op->results].activation;
    if (op->folds) continue;
    k->ops++;
    for (int32_t o = 0; o < op->num_operands; o++)
      k->unfused_bytes +=
          narrow(l, &l->p->values[op->operands[o]], ptc_lay_used_bytes(l, op->operands[o]));
    for (int32_t r = 0; r < op->num_results; r++)
      k->unfused_bytes +=
          narrow(l, &l->p->values[op->results + r], ptc_lay_value_bytes(l, op->results + r));
  }
}

// Forward q key and P val; backward q key again, dP, dval, dq, dkey. What the mask hides is left out.
static void set_attention(const ptc_layout_t *l, const ptc_wop_t *op, ptc_kernel_work_t *k) {
  const int64_t *size = l->sizes[op->size];
  const bool grad = op->opcode == PTC_OP_ATTENTION_GRAD;
  k->kind = grad ? PTC_KW_ATTENTION_GRAD : PTC_KW_ATTENTION;
  k->batch = size[PTC_WROLE_BATCH];
  k->kv_heads = size[PTC_WROLE_KV_HEADS];
  k->heads = size[PTC_WROLE_KV_HEADS] * size[PTC_WROLE_HEADS];
  k->rows = size[PTC_WROLE_ROWS];
  k->cols = size[PTC_WROLE_COLS];
  k->qk_dim = size[PTC_WROLE_QK];
  k->v_dim = size[PTC_WROLE_V] > 1 ? size[PTC_WROLE_V] : k->qk_dim;
  k->causal = op->causal;
  k->window = op->window;
  const double scores = (double)k->batch * (double)k->heads * (double)k->rows * (double)k->cols;
  double seen = k->causal ? 0.5 : 1;
  if (k->window > 0 && k->window < k->cols) seen = (double)k->window / (double)k->cols;
  k->flops = seen * scores *
             ((grad ? 6.0 : 2.0) * (double)k->qk_dim + (grad ? 4.0 : 2.0) * (double)k->v_dim);
}

static void set_gemm(const ptc_layout_t *l, const ptc_wop_t *op, ptc_kernel_work_t *k) {
  const int64_t *size = l->sizes[op->size];
  k->kind = op->grouped ? PTC_KW_GROUPED_GEMM : PTC_KW_GEMM;
  k->batch = size[PTC_WROLE_BATCH];
  k->m = size[PTC_WROLE_M];
  k->n = size[PTC_WROLE_N];
  k->k = size[PTC_WROLE_K];
  k->flops = 2.0 * (double)k->batch * (double)k->m * (double)k->n * (double)k->k;
}

static double turns_of(const ptc_layout_t *l, const ptc_wop_t *op) {
  return op->block > 1 ? ptc_lay_turns(l, op->block) : 1;
}

static double bytes_of(const ptc_layout_t *l, const ptc_wgroup_t *group) {
  double bytes = 0;
  // Bundles of a step are counted by the turn.
  const double share = 1 / (double)l->work->pieces[group->piece].count;
  for (int32_t i = 0; i < group->num_reads; i++) {
    const double instances = l->p->values[group->reads[i]].instances;
    bytes += ptc_lay_used_bytes(l, group->reads[i]) * (instances > 1 ? instances * share : 1);
  }
  for (int32_t i = 0; i < group->num_writes; i++) {
    const double instances = l->p->values[group->writes[i]].instances;
    bytes += ptc_lay_value_bytes(l, group->writes[i]) * (instances > 1 ? instances * share : 1);
  }
  return bytes;
}

static double elements_of(const ptc_layout_t *l, int32_t value) {
  return ptc_lay_value_bytes(l, value) /
         (double)ptc_dtype_bytes((ptc_dtype_t)l->p->values[value].dtype);
}

static double costly_of(const ptc_layout_t *l, const ptc_wgroup_t *group) {
  double sum = 0;
  for (int32_t i = 0; i < group->num_ops; i++) {
    const ptc_wop_t *op = group->ops[i];
    if (op->costly > 0) sum += op->costly * elements_of(l, op->operands[op->costly_of]);
  }
  return sum;
}

// Adds to gradients of earlier micro-batches, in f32.
static bool accumulates(const ptc_layout_t *l, const ptc_wgroup_t *group) {
  for (int32_t i = 0; i < group->num_ops; i++)
    if (group->ops[i]->wclass == PTC_WCLASS_ACCUMULATE) return true;
  (void)l;
  return false;
}

// Small contractions that fuse takes as loops: their operations count.
static int32_t add_others(const ptc_layout_t *l, const ptc_wgroup_t *group,
                          ptc_kernel_work_t *out) {
  int32_t count = 0;
  for (int32_t i = 0; i < group->num_ops; i++) {
    const ptc_wop_t *op = group->ops[i];
    if (!op->roles || op == group->main) continue;
    ptc_kernel_work_t *k = &out[1 + count++];
    *k = (ptc_kernel_work_t){
        .prec = out->prec, .label = op->label, .loc = op->loc, .times = out->times, .ops = 1};
    set_gemm(l, op, k);
    k->bytes = k->unfused_bytes = ptc_lay_value_bytes(l, op->results);
  }
  return count;
}

static int32_t add_kernels(const ptc_layout_t *l, const ptc_wgroup_t *group,
                           ptc_kernel_work_t *out) {
  const ptc_wop_t *op = group->main;
  *out = (ptc_kernel_work_t){.kind = PTC_KW_MEMORY, .label = op->label, .loc = op->loc};
  const ptc_wvalue_t *x = op->num_operands ? &l->p->values[op->operands[0]] : NULL;
  out->prec = precision_of(x ? (ptc_dtype_t)x->dtype : PTC_F32);
  if (out->prec == PTC_PREC_BF16 && l->work->precision == PTC_PREC_FP8 &&
      op->opcode == PTC_OP_EINSUM)
    out->prec = PTC_PREC_FP8;
  if (out->prec == PTC_PREC_F32 && l->work->tf32 && op->opcode == PTC_OP_EINSUM)
    out->prec = PTC_PREC_TF32;
  if (op->roles && op->opcode == PTC_OP_EINSUM) set_gemm(l, op, out);
  if (op->roles && op->opcode != PTC_OP_EINSUM) set_attention(l, op, out);
  out->times = (int32_t)turns_of(l, op);
  out->bytes = bytes_of(l, group);
  out->costly = costly_of(l, group);
  out->accumulates_f32 = op->roles && accumulates(l, group);
  count_unfused(l, group, out);
  if (out->ops == 0) out->ops = 1;
  if (group->num_mains > 1) return 1 + add_others(l, group, out);
  if (!l->waits[op->group] || out->kind == PTC_KW_MEMORY) return 1;
  // What follows the collective is a kernel of its own: it reads what the first one wrote.
  double operands = 0;
  for (int32_t i = 0; i < op->num_operands; i++) operands += ptc_lay_used_bytes(l, op->operands[i]);
  double results = 0;
  for (int32_t i = 0; i < op->num_results; i++) results += ptc_lay_value_bytes(l, op->results + i);
  out[1] = (ptc_kernel_work_t){.kind = PTC_KW_MEMORY,
                               .prec = out->prec,
                               .label = op->label,
                               .loc = op->loc,
                               .times = out->times};
  out[1].bytes = max_bytes(out->bytes - operands, 0) + ptc_lay_used_bytes(l, op->results);
  out->bytes = operands + results;
  out[1].ops = out->ops > 1 ? out->ops - 1 : 1;
  out[1].unfused_bytes = max_bytes(out->unfused_bytes - out->bytes, out[1].bytes);
  out->ops = 1;
  out->unfused_bytes = out->bytes;
  return 2;
}

ptc_phase_work_t *ptc_piece_phase(ptc_piece_t *piece, int phase) {
  switch (phase) {
    case PTC_WORK_FORWARD: return &piece->forward;
    case PTC_WORK_BACKWARD: return &piece->backward;
    case PTC_WORK_WEIGHT: return &piece->weight_grad;
    case PTC_WORK_AGAIN: return &piece->again;
    default: return &piece->step;
  }
}

void ptc_layout_kernels(ptc_layout_t *l, ptc_piece_t *items) {
  const int32_t count = l->p->num_groups;
  ptc_kernel_work_t *kernels =
      ptc_arena_alloc_raw(l->arena, (size_t)(2 * count + l->p->num_sizes + 2) * sizeof(*kernels));
  // Groups are in order of pieces and phases.
  int32_t at = 0;
  for (int32_t g = 0; g < count; g++) {
    const ptc_wgroup_t *group = &l->p->groups[g];
    ptc_phase_work_t *work = ptc_piece_phase(&items[group->piece], group->phase);
    if (!work->kernels) work->kernels = &kernels[at];
    const int32_t added = add_kernels(l, group, &kernels[at]);
    work->num_kernels += added;
    at += added;
  }
}

// --- collectives

static uint32_t device_axes(ptc_laid_t axes) {
  uint32_t mask = 0;
  for (; axes; axes >>= 4) {
    const int32_t ref = (int32_t)(axes & 15);
    mask |= UINT32_C(1) << (ref >= PTC_REF_PART ? (int)PTC_AXIS_TP : ref - PTC_REF_AXIS);
  }
  return mask;
}

void ptc_layout_nets(ptc_layout_t *l, ptc_piece_t *items) {
  ptc_net_item_t *nets = ptc_arena_alloc_raw(l->arena, (size_t)(l->num_nets + 1) * sizeof(*nets));
  for (int32_t i = 0; i < l->num_nets; i++)
    ptc_piece_phase(&items[l->nets[i].piece], l->nets[i].phase)->num_nets++;
  int32_t at = 0;
  for (int32_t i = 0; i < l->work->num_pieces; i++)
    for (int phase = 0; phase < PTC_WORK_NUM_PHASES; phase++) {
      ptc_phase_work_t *work = ptc_piece_phase(&items[i], phase);
      work->nets = &nets[at];
      at += work->num_nets;
      work->num_nets = 0;
    }
  for (int32_t i = 0; i < l->num_nets; i++) {
    const ptc_lay_net_t *net = &l->nets[i];
    ptc_phase_work_t *work = ptc_piece_phase(&items[net->piece], net->phase);
    ptc_net_item_t *item = &nets[(work->nets - nets) + work->num_nets++];
    *item = (ptc_net_item_t){.kind = net->kind,
                             .axes = device_axes(net->axes),
                             .ranks = (int32_t)ptc_laid_size(l, net->axes),
                             .bytes = net->bytes,
                             .times = net->times < 1 ? 1 : (int32_t)(net->times + 0.5),
                             .late = net->phase == PTC_WORK_STEP,
                             .label = net->op ? net->op->label : "gradients"};
    if (net->times < 1) item->bytes *= net->times;
    if (net->op) item->loc = net->op->loc;
  }
}
