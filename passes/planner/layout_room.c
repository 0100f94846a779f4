// The parameters of each piece, and the bytes that live from the forward to the backward pass.
#include <string.h>

#include "passes/planner/layout_impl.h"

// --- parameters

static ptc_param_group_t *find_group(ptc_piece_t *piece, uint32_t axes, int32_t shared) {
  for (int32_t i = 0; i < piece->num_groups; i++)
    if (piece->groups[i].axes == axes && piece->groups[i].shared_with == shared)
      return &piece->groups[i];
  if (piece->num_groups == PTC_MAX_PARAM_GROUPS) return &piece->groups[PTC_MAX_PARAM_GROUPS - 1];
  ptc_param_group_t *group = &piece->groups[piece->num_groups++];
  *group = (ptc_param_group_t){.axes = axes, .shared_with = shared};
  return group;
}

static double param_elements(const ptc_layout_t *l, int32_t number) {
  const ptc_wparam_t *param = &l->w->params[number];
  double elements = param->instances;
  for (int32_t d = 0; d < param->num_dims; d++) {
    const int64_t extent = l->w->dims[param->dims[d]].extent;
    const int64_t shards = ptc_laid_size(l, l->params[number].axes[d]);
    elements *= (double)((extent + shards - 1) / shards);
  }
  return elements;
}

static uint32_t data_axes(const ptc_layout_t *l, uint16_t partial) {
  uint32_t axes = 0;
  for (int a = 0; a < PTC_NUM_DEVICE_AXES; a++) {
    const int32_t ref = PTC_REF_AXIS + a;
    if ((l->data & partial) >> ref & 1 && l->size[ref] > 1) axes |= UINT32_C(1) << a;
  }
  return axes;
}

// The sum over tp that the optimizer needs, once per step: of the gradient as it lies to the parameter's layout.
static void sum_gradient(ptc_layout_t *l, const ptc_wgrad_t *grad) {
  const ptc_wvalue_t *value = &l->p->values[grad->value];
  ptc_lay_t from, to = {0};
  ptc_lay_get(l, grad->value, &from);
  from.partial &= l->device & (uint16_t)~l->data;
  if (!from.partial) from.max = false;
  for (int32_t d = 0; d < value->num_dims; d++)
    if (grad->dims[d] >= 0) to.axes[d] = l->params[grad->param].axes[grad->dims[d]];
  if (ptc_lay_equal(&from, &to, value->num_dims)) return;
  const ptc_dtype_t dtype = grad->bytes == 8 ? PTC_F64 : grad->bytes == 4 ? PTC_F32 : PTC_BF16;
  ptc_lay_step_t steps[PTC_LAY_MAX_STEPS];
  const int32_t count = ptc_lay_plan(l, value, &from, &to, steps);
  for (int32_t i = 0; i < count; i++) {
    const double ranks = (double)ptc_laid_size(l, steps[i].axes);
    if (steps[i].kind == PTC_NUM_NET_KINDS || ranks == 1) continue;
    ptc_lay_net_t net = {.kind = steps[i].kind,
                         .axes = steps[i].axes,
                         .times = value->instances / (double)l->work->pieces[grad->piece].count,
                         .piece = grad->piece,
                         .phase = PTC_WORK_STEP,
                         .value = grad->value,
                         .each = (double)ptc_dtype_bytes(dtype)};
    memcpy(net.buffer, steps[i].buffer, sizeof(*net.buffer) * (size_t)value->num_dims);
    ptc_lay_add_net(l, &net);
  }
}

void ptc_layout_params(ptc_layout_t *l, ptc_piece_t *items) {
  uint32_t *axes = PTC_ARENA_ARRAY(l->arena, uint32_t, l->w->num_params + 1);
  for (int32_t i = 0; i < l->p->num_grads; i++) {
    const ptc_wgrad_t *grad = &l->p->grads[i];
    axes[grad->param] |= data_axes(l, l->partial[grad->value]);
    sum_gradient(l, grad);
  }
  for (int32_t i = 0; i < l->w->num_params; i++) {
    const ptc_wparam_t *param = &l->w->params[i];
    const double elements = param_elements(l, i);
    for (uint32_t set = param->pieces; set; set &= set - 1) {
      const int32_t piece = __builtin_ctz(set);
      ptc_param_group_t *group =
          find_group(&items[piece], axes[i], piece == param->piece ? -1 : param->piece);
      const double share = elements / (double)items[piece].count;
      const bool copied = param->copy_bytes > 0;
      group->tensors++;
      group->params += share;
      group->param_bytes += share * (copied ? param->copy_bytes : param->bytes);
      group->plain_bytes += copied ? 0 : share * param->bytes;
      group->state_bytes += share * (param->state_bytes + (copied ? param->bytes : 0));
    }
  }
  for (int32_t i = 0; i < l->p->num_grads; i++) {
    const ptc_wgrad_t *grad = &l->p->grads[i];
    const ptc_wparam_t *param = &l->w->params[grad->param];
    const ptc_wvalue_t *value = &l->p->values[grad->value];
    ptc_piece_t *piece = &items[grad->piece];
    const double elements = ptc_lay_elements(l, value, l->axes + value->dims);
    find_group(piece, axes[grad->param], grad->piece == param->piece ? -1 : param->piece)
        ->grad_bytes += elements * grad->bytes * l->p->blocks[value->block].turns *
                        value->instances / (double)piece->count;
  }
  for (int32_t i = 0; i < l->work->num_pieces; i++)
    for (int32_t g = 0; g < items[i].num_groups; g++) {
      const ptc_param_group_t *group = &items[i].groups[g];
      items[i].params += group->params;
      items[i].param_bytes += group->param_bytes;
      items[i].grad_bytes += group->grad_bytes;
      items[i].state_bytes += group->state_bytes;
    }
}

// --- from the forward pass to the backward pass

// Whether a normalized value is kept: fuse computes it again only where norm and gradient take their operands as they
// lie. |own|: the gradient is of the program at hand.
static bool keeps_norm(const ptc_layout_t *l, const ptc_wcollect_t *c, bool own) {
  const ptc_wop_t *norm = l->p->values[c->value].def;
  if (!c->norm_grad || !norm || norm->size < 0) return false;
  return !l->sizes[norm->size][0] || (own && !l->sizes[c->norm_grad->size][0]);
}

// Collected per turn under recompute |mode|; what is not saved after all to |out_more|. The bodies of the programs differ in what they hand out only.
static double collected_bytes(const ptc_layout_t *l, int32_t piece, int mode, double *out_more) {
  const ptc_wroom_t *here = &l->p->rooms[piece], *there = &l->w->programs[mode].rooms[piece];
  double bytes = 0;
  *out_more = 0;
  if (!here->repeat || !there->repeat) return 0;
  const ptc_wrepeat_t *repeat = there->repeat->repeat;
  for (int32_t i = 0; i < repeat->num_collects; i++) {
    ptc_wcollect_t c = repeat->collects[i];
    c.value += here->base - there->base;
    if (c.value < 0 || c.value >= l->p->num_values) continue;
    const ptc_wvalue_t *value = &l->p->values[c.value];
    ptc_lay_t lay;
    ptc_lay_collected(l, &c, &lay);
    const bool saved = c.is_saved || keeps_norm(l, &c, here == there);
    *(saved ? &bytes : out_more) += ptc_lay_elements(l, value, lay.axes) *
                                    (double)ptc_dtype_bytes((ptc_dtype_t)value->dtype) *
                                    value->instances;
  }
  return bytes;
}

static double sum_bytes(const ptc_layout_t *l, const int32_t *values, int32_t count) {
  double bytes = 0;
  for (int32_t i = 0; i < count; i++)
    bytes += ptc_lay_value_bytes(l, values[i]) * l->p->values[values[i]].instances;
  return bytes;
}

static bool is_kept(const ptc_layout_t *l, const ptc_wlife_t *life) {
  return !life->collect || life->collect->is_saved || keeps_norm(l, life->collect, true);
}

static double life_bytes(const ptc_layout_t *l, const ptc_wlife_t *life) {
  const ptc_wvalue_t *value = &l->p->values[life->value];
  if (life->kind == PTC_WLIFE_GRAD || life->kind == PTC_WLIFE_WHOLE)
    return ptc_lay_elements(l, value, l->axes + value->dims) * life->each_bytes * value->instances;
  if (!life->collect) return ptc_lay_value_bytes(l, life->value) * value->instances;
  ptc_lay_t lay;
  ptc_lay_collected(l, life->collect, &lay);
  return ptc_lay_elements(l, value, lay.axes) * (double)ptc_dtype_bytes((ptc_dtype_t)value->dtype) *
         value->instances;
}

static void add_life(ptc_live_t *live, ptc_live_kind_t kind, int32_t from, int32_t to,
                     double bytes) {
  if (to >= live->places) to = live->places - 1;
  if (to < from) return;
  live->bytes[kind][from] += bytes;
  live->bytes[kind][to + 1] -= bytes;
}

static const ptc_live_kind_t live_kinds[] = {
    [PTC_WLIFE_TEMP] = PTC_LIVE_ALWAYS,     [PTC_WLIFE_SUM] = PTC_LIVE_SUMS,
    [PTC_WLIFE_SPAN] = PTC_LIVE_ALWAYS,     [PTC_WLIFE_SAVED] = PTC_LIVE_ALWAYS,
    [PTC_WLIFE_WEIGHT] = PTC_LIVE_GATHERED, [PTC_WLIFE_GRAD] = PTC_LIVE_STAYING,
    [PTC_WLIFE_WHOLE] = PTC_LIVE_WHOLE,
};

void ptc_layout_live(const ptc_layout_t *l, ptc_save_profile_t profile, int32_t piece, int back,
                     ptc_live_t *out) {
  const ptc_wroom_t *room = &l->p->rooms[piece];
  const bool own = profile == PTC_SAVE_PTC;
  const size_t row = (size_t)room->num_places[back] + 2;
  out->places = room->num_places[back];
  double *bytes = PTC_ARENA_ARRAY(l->arena, double, row *PTC_NUM_LIVE_KINDS);
  for (int k = 0; k < PTC_NUM_LIVE_KINDS; k++) out->bytes[k] = bytes + (size_t)k * row;
  for (int32_t i = 0; i < room->num_lives[back]; i++) {
    const ptc_wlife_t *life = &room->lives[back][i];
    if (!own && life->kind != PTC_WLIFE_TEMP && life->kind != PTC_WLIFE_SUM) continue;
    const double size = life_bytes(l, life);
    const bool kept = is_kept(l, life);
    const int32_t to = kept ? life->to : life->to_unsaved;
    add_life(out, live_kinds[life->kind], life->from, to, size);
    if (own && kept && life->taken_by >= 0 && size == ptc_lay_value_bytes(l, life->taken_by))
      add_life(out, PTC_LIVE_TAKEN, to, to, size);
  }
  for (int k = 0; k < PTC_NUM_LIVE_KINDS; k++)
    for (int32_t i = 1; i < out->places; i++) out->bytes[k][i] += out->bytes[k][i - 1];
}

double ptc_live_at(const ptc_live_t *live, ptc_peak_t peak, int32_t place) {
  const bool alone = peak >= PTC_NUM_PEAKS_OF_MANY;
  const int kind = peak % PTC_NUM_PEAKS_OF_MANY;
  double bytes = live->bytes[PTC_LIVE_ALWAYS][place];
  if (kind == PTC_PEAK_FORWARD_GATHERED || kind == PTC_PEAK_BACKWARD_GATHERED)
    bytes += live->bytes[PTC_LIVE_GATHERED][place];
  if (alone) bytes -= live->bytes[PTC_LIVE_TAKEN][place];
  if (kind < PTC_PEAK_BACKWARD) return bytes;
  if (alone && kind == PTC_PEAK_BACKWARD) return bytes + live->bytes[PTC_LIVE_STAYING][place];
  bytes += live->bytes[PTC_LIVE_SUMS][place];
  return kind == PTC_PEAK_BACKWARD ? bytes : bytes + live->bytes[PTC_LIVE_WHOLE][place];
}

void ptc_layout_peaks(const ptc_layout_t *l, ptc_save_profile_t profile, int32_t number,
                       ptc_piece_t *piece) {
  ptc_live_t live[2];
  for (int back = 0; back < 2; back++) ptc_layout_live(l, profile, number, back, &live[back]);
  for (int peak = 0; peak < PTC_NUM_PEAKS; peak++) {
    const ptc_live_t *here = &live[ptc_peak_is_backward((ptc_peak_t)peak)];
    double most = 0;
    for (int32_t i = 0; i < here->places; i++) {
      const double bytes = ptc_live_at(here, (ptc_peak_t)peak, i);
      if (bytes > most) most = bytes;
    }
    piece->peak_bytes[peak] = most;
  }
}

// Softmax's result; with dropout its mask and result, too (Korthikanti et al. 2022, section 4.1).
static double scores_bytes(const ptc_layout_t *l, const ptc_wop_t *op, double width) {
  const int64_t *size = l->sizes[op->size];
  const double scores = (double)size[PTC_WROLE_BATCH] * (double)size[PTC_WROLE_KV_HEADS] *
                        (double)size[PTC_WROLE_HEADS] * (double)size[PTC_WROLE_ROWS] *
                        (double)size[PTC_WROLE_COLS];
  return scores * (op->drops ? 2 * width + 1 : width);
}

// As a framework keeps it: products save their operands as they lie, parts of a sequence included.
static void save_as(const ptc_layout_t *l, const ptc_wroom_t *room, ptc_save_profile_t profile,
                    ptc_piece_t *piece) {
  double bytes = 0, products = 0;
  piece->scores_bytes = piece->logits = 0;
  for (int32_t i = 0; i < room->num_saves; i++) {
    const ptc_wsave_t *save = &room->saves[i];
    const ptc_wvalue_t *v = &l->p->values[save->value];
    const double own = (double)ptc_dtype_bytes((ptc_dtype_t)v->dtype);
    const double turns = v->block > 1 ? ptc_lay_turns(l, v->block) : 1;
    const double elements = turns * ptc_lay_elements(l, v, l->axes + v->dims);
    switch (save->kind) {
      case PTC_WSAVE_VALUE: bytes += elements * own; break;
      case PTC_WSAVE_WIDE:
        bytes += elements * 4;
        piece->logits += elements;
        break;
      case PTC_WSAVE_MASK: bytes += elements; break;
      case PTC_WSAVE_STATISTIC: bytes += profile == PTC_SAVE_TORCH ? elements * own : 0; break;
      case PTC_WSAVE_PRODUCT: products += elements * own; break;
      case PTC_WSAVE_SCORES: piece->scores_bytes += turns * scores_bytes(l, v->def, own); break;
    }
  }
  piece->saved_bytes[PTC_RECOMPUTE_NONE] = piece->saved_bytes[PTC_RECOMPUTE_SELECTIVE] = bytes;
  // The input of a turn; what stands outside of repeats is not recomputed.
  const ptc_wrepeat_t *repeat = room->repeat ? room->repeat->repeat : NULL;
  if (repeat) bytes = 0;
  for (int32_t i = 0; repeat && i < repeat->num_carries; i++)
    if (l->p->values[repeat->carries[i].arg].activation)
      bytes += ptc_lay_value_bytes(l, repeat->carries[i].arg);
  piece->saved_bytes[PTC_RECOMPUTE_FULL] = bytes;
  piece->products_bytes = repeat ? bytes + products : bytes;
}

static double sum_scores(const ptc_layout_t *l, const ptc_wroom_t *room) {
  double bytes = 0;
  for (int32_t i = 0; i < room->num_saves; i++) {
    const ptc_wvalue_t *v = &l->p->values[room->saves[i].value];
    if (room->saves[i].kind == PTC_WSAVE_SCORES)
      bytes += scores_bytes(l, v->def, (double)ptc_dtype_bytes((ptc_dtype_t)v->dtype));
  }
  return bytes;
}

void ptc_layout_room(ptc_layout_t *l, ptc_save_profile_t profile, ptc_piece_t *items) {
  for (int32_t i = 0; i < l->work->num_pieces; i++) {
    const ptc_wroom_t *room = &l->p->rooms[i];
    ptc_piece_t *piece = &items[i];
    const double kept = sum_bytes(l, room->kept, room->num_kept);
    for (int mode = 0; mode < PTC_NUM_RECOMPUTE_MODES; mode++)
      piece->saved_bytes[mode] = kept + collected_bytes(l, i, mode, &piece->slot_bytes[mode]);
    piece->scores_bytes = sum_scores(l, room);
    if (profile != PTC_SAVE_PTC) save_as(l, room, profile, piece);
    piece->boundary_bytes = sum_bytes(l, room->passed, room->num_passed);
    ptc_layout_peaks(l, profile, i, piece);
    for (int32_t k = 0; k < room->num_held; k++) piece->held_bytes += life_bytes(l, &room->held[k]);
  }
}
