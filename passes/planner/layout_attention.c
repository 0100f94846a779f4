// Attention where the sequence lies on cp: the rules of passes/partition_attention.c on numbers, for cp_attention =
// auto: heads move by all_to_all where that is less than to gather keys and values.
#include <string.h>

#include "passes/planner/layout_impl.h"

enum { Q, KEY, VAL };  // the first operands

static const ptc_wvalue_t *operand(const ptc_layout_t *l, const ptc_wop_t *op, int32_t i) {
  return &l->p->values[op->operands[i]];
}

static const int8_t *places_of(const ptc_layout_t *l, const ptc_wop_t *op, int32_t index) {
  const int8_t *place = op->places;
  for (int32_t i = 0; i < index; i++) place += operand(l, op, i)->num_dims;
  return place;
}

static int32_t find_dim(const ptc_layout_t *l, const ptc_wop_t *op, int32_t index, int8_t factor) {
  const int8_t *places = places_of(l, op, index);
  for (int32_t d = 0; d < operand(l, op, index)->num_dims; d++)
    if (places[d] == factor) return d;
  return -1;
}

static bool lies_on_cp(ptc_laid_t axes) {
  return ptc_laid_set(axes) >> (PTC_REF_AXIS + PTC_AXIS_CP) & 1;
}

static ptc_laid_t without_cp(ptc_laid_t axes) {
  ptc_laid_t rest = 0;
  for (; axes; axes >>= 4)
    if ((axes & 15) != PTC_REF_AXIS + PTC_AXIS_CP) rest = ptc_laid_append(rest, axes & 15);
  return rest;
}

static bool is_sequence(const ptc_layout_t *l, const ptc_wvalue_t *v, int32_t d) {
  return l->w->is_sequence[l->w->dims[l->p->dims[v->dims + d]].name];
}

static double global_bytes(const ptc_layout_t *l, const ptc_wvalue_t *v) {
  double bytes = (double)ptc_dtype_bytes((ptc_dtype_t)v->dtype);
  for (int32_t d = 0; d < v->num_dims; d++)
    bytes *= (double)l->w->dims[l->p->dims[v->dims + d]].extent;
  return bytes;
}

static bool moves_less(const ptc_layout_t *l, const ptc_wop_t *op) {
  const double q = global_bytes(l, operand(l, op, Q)), key = global_bytes(l, operand(l, op, KEY));
  const double val = global_bytes(l, operand(l, op, VAL));
  const ptc_laid_t cp = PTC_REF_AXIS + PTC_AXIS_CP;
  return ptc_lay_compare(l, q + key + val + q / key * val, &cp, 1, key + val) < 0;
}

bool ptc_lay_attention_way(const ptc_layout_t *l, const ptc_wop_t *op, ptc_lay_attention_t *out) {
  const int64_t cp = l->size[PTC_REF_AXIS + PTC_AXIS_CP];
  if ((op->opcode != PTC_OP_ATTENTION && op->opcode != PTC_OP_ATTENTION_GRAD) || cp == 1)
    return false;
  *out = (ptc_lay_attention_t){-1, -1, -1};
  const ptc_wvalue_t *q = operand(l, op, Q), *key = operand(l, op, KEY);
  const int8_t *q_places = places_of(l, op, Q), *key_places = places_of(l, op, KEY);
  bool on_cp = false, sequence = false;
  for (int32_t d = 0; d < key->num_dims; d++) {
    if (op->roles[key_places[d]] != PTC_WROLE_COLS) continue;
    out->attend = key_places[d];
    on_cp |= lies_on_cp(l->axes[key->dims + d]);
    sequence = is_sequence(l, key, d);
  }
  for (int32_t d = 0; d < q->num_dims; d++) {
    const int8_t f = q_places[d];
    const ptc_laid_t axes = l->axes[q->dims + d];
    on_cp |= lies_on_cp(axes);
    if (is_sequence(l, q, d) && find_dim(l, op, KEY, f) < 0) out->rows = f;
    if (out->heads >= 0 || op->roles[f] != PTC_WROLE_KV_HEADS || find_dim(l, op, VAL, f) < 0)
      continue;
    if (ptc_lay_divides(l, l->w->dims[l->p->dims[q->dims + d]].extent, without_cp(axes),
                        PTC_REF_AXIS + PTC_AXIS_CP))
      out->heads = f;
  }
  return out->rows >= 0 && sequence && on_cp && out->heads >= 0 && moves_less(l, op);
}

void ptc_lay_attention_bare(const ptc_layout_t *l, const ptc_wop_t *op,
                            const ptc_lay_attention_t *a, ptc_lay_t *operands) {
  const int8_t *place = op->places;
  for (int32_t i = 0; i < op->num_operands; i++)
    for (int32_t d = 0; d < operand(l, op, i)->num_dims; d++, place++) {
      const bool sequence = *place == a->rows || *place == a->attend;
      operands[i].axes[d] = sequence ? 0 : without_cp(operands[i].axes[d]);
    }
}

void ptc_lay_attention_laid(const ptc_layout_t *l, const ptc_wop_t *op,
                            const ptc_lay_attention_t *a, ptc_lay_t *operands) {
  for (int32_t i = 0; i < op->num_operands; i++) {
    const int32_t d = find_dim(l, op, i, a->heads);
    if (d >= 0)
      operands[i].axes[d] = ptc_laid_append(operands[i].axes[d], PTC_REF_AXIS + PTC_AXIS_CP);
  }
}

// The sequence on which result |r| lies in the end; -1: it stays on heads.
static int32_t home_of(const ptc_wop_t *op, const ptc_lay_attention_t *a, int32_t r) {
  if (op->opcode == PTC_OP_ATTENTION) return r == 0 ? a->rows : -1;
  return r == 0 ? a->rows : r < 3 ? a->attend : -1;
}

static const int8_t *result_places(const ptc_layout_t *l, const ptc_wop_t *op) {
  return places_of(l, op, op->num_operands);
}

static ptc_laid_t axes_of(const ptc_layout_t *l, const ptc_wop_t *op, const ptc_lay_t *operands,
                          int8_t factor) {
  for (int32_t i = 0; i < op->num_operands; i++) {
    const int32_t d = find_dim(l, op, i, factor);
    if (d >= 0) return operands[i].axes[d];
  }
  return 0;
}

void ptc_lay_attention_results(const ptc_layout_t *l, const ptc_wop_t *op,
                               const ptc_lay_attention_t *a, const ptc_lay_t *operands,
                               ptc_lay_t *results) {
  const int8_t *place = result_places(l, op);
  for (int32_t r = 0; r < op->num_results; r++) {
    const ptc_wvalue_t *y = &l->p->values[op->results + r];
    const int32_t home = home_of(op, a, r);
    results[r].partial = 0;
    results[r].max = 0;
    for (int32_t d = 0; d < y->num_dims; d++, place++) {
      ptc_laid_t axes = *place >= 0 ? axes_of(l, op, operands, *place) : 0;
      if (home >= 0) axes = *place == a->rows || *place == a->attend ? 0 : without_cp(axes);
      if (home >= 0 && *place == home) axes = ptc_laid_append(axes, PTC_REF_AXIS + PTC_AXIS_CP);
      results[r].axes[d] = axes;
    }
  }
}

void ptc_lay_attention_nets(ptc_layout_t *l, const ptc_wop_t *op, const ptc_lay_attention_t *a,
                            const ptc_lay_t *operands) {
  const int8_t *place = result_places(l, op);
  for (int32_t r = 0; r < op->num_results; r++) {
    const ptc_wvalue_t *y = &l->p->values[op->results + r];
    ptc_laid_t axes[PTC_MAX_DIMS];
    for (int32_t d = 0; d < y->num_dims; d++, place++)
      axes[d] = *place >= 0 ? axes_of(l, op, operands, *place) : 0;
    if (home_of(op, a, r) < 0) continue;
    uint16_t set = 0;
    for (int32_t d = 0; d < y->num_dims; d++) set |= ptc_laid_set(axes[d]);
    ptc_lay_net_t net = {.kind = PTC_NET_ALL_TO_ALL,
                         .axes = PTC_REF_AXIS + PTC_AXIS_CP,
                         .by_micro = set >> PTC_REF_MICRO & 1,
                         .times = op->block > 1 ? ptc_lay_turns(l, op->block) : 1,
                         .piece = op->piece,
                         .phase = op->phase,
                         .op = op,
                         .value = op->results + r,
                         .each = (double)ptc_dtype_bytes((ptc_dtype_t)y->dtype)};
    memcpy(net.buffer, axes, sizeof(*axes) * (size_t)y->num_dims);
    ptc_lay_add_net(l, &net);
  }
}
