// Where all values of a program lie, in program order: passes/partition_infer.c on numbers; and the collectives that
// the uses need.
//
// Carried values of a repeat have one layout. It begins as that of the initial value; what the body makes of it may be
// finer or, where it begins at zero, anything: then the body is laid out again.
#include <string.h>

#include "passes/planner/layout_impl.h"

enum { MAX_ROUNDS = 6, MAX_OPERANDS = 64, MAX_RESULTS = 8 };

static bool infer_block(ptc_layout_t *l, int32_t block);

// --- state that another round takes back

typedef struct mark_s {
  int32_t cache, targets, nets;
} mark_t;

static mark_t mark_of(const ptc_layout_t *l) {
  return (mark_t){l->num_cache, l->num_targets, l->num_nets};
}

static void go_back(ptc_layout_t *l, mark_t m) {
  while (l->num_cache > m.cache) {
    const ptc_lay_built_t *last = &l->cache[--l->num_cache];
    *(last->of_view ? &l->viewed[last->value] : &l->built[last->value]) = last->next;
  }
  l->num_nets = m.nets;
}

// --- repeats

void ptc_lay_collected(const ptc_layout_t *l, const ptc_wcollect_t *c, ptc_lay_t *out) {
  const ptc_wvalue_t *value = &l->p->values[c->value];
  // The backward pass needs whole what the forward pass gathered: it is not sent twice.
  if (l->gathered[c->value] >= 0) {
    *out = l->targets[l->gathered[c->value]];
    return;
  }
  ptc_lay_get(l, c->value, out);
  if (value->activation) ptc_lay_resolve(l, value, out);
}

static uint16_t all_axes(const ptc_layout_t *l, const ptc_wvalue_t *value, const ptc_lay_t *lay,
                         int32_t but) {
  uint16_t set = lay->partial;
  for (int32_t d = 0; d < value->num_dims; d++)
    if (d != but) set |= ptc_laid_set(lay->axes[d]);
  return ptc_lay_overlap(l, set);
}

// The layout that a carried value goes on with, after a body that makes |next| of it. False: it stays.
static bool join(const ptc_layout_t *l, const ptc_wcarry_t *c, ptc_lay_t *lay) {
  const ptc_wvalue_t *arg = &l->p->values[c->arg], *value = &l->p->values[c->next];
  ptc_lay_t next, old = *lay;
  ptc_lay_get(l, c->next, &next);
  if (arg->starts_zero && !value->activation) {
    *lay = next;
    return !ptc_lay_equal(&old, lay, arg->num_dims);
  }
  ptc_lay_resolve(l, value, &next);
  if (arg->starts_zero) {
    *lay = next;
    return !ptc_lay_equal(&old, lay, arg->num_dims);
  }
  for (int32_t d = 0; d < arg->num_dims; d++) {
    const ptc_laid_t was = lay->axes[d], is = next.axes[d];
    const int32_t len = ptc_laid_len(was);
    if (ptc_laid_len(is) <= len || !ptc_laid_begins(is, was)) continue;
    if (ptc_laid_set(is >> (4 * len)) & all_axes(l, arg, lay, d)) continue;
    lay->axes[d] = is;
  }
  return !ptc_lay_equal(&old, lay, arg->num_dims);
}

static void begin_carry(ptc_layout_t *l, const ptc_wcarry_t *c) {
  ptc_lay_t lay = {0};
  if (c->init >= 0) {
    ptc_lay_get(l, c->init, &lay);
    ptc_lay_resolve(l, &l->p->values[c->init], &lay);
  }
  ptc_lay_set(l, c->arg, &lay);
}

static void begin_each(ptc_layout_t *l, const ptc_weach_t *e) {
  const ptc_wvalue_t *arg = &l->p->values[e->arg];
  ptc_lay_t lay;
  ptc_lay_get(l, e->bundle, &lay);
  if ((lay.partial & l->device) && !arg->only_adds) ptc_lay_resolve(l, arg, &lay);
  ptc_lay_set(l, e->arg, &lay);
}

// The initial values and bundles, as the body takes them.
static bool use_operands(ptc_layout_t *l, const ptc_wop_t *op) {
  const ptc_wrepeat_t *r = op->repeat;
  ptc_lay_t lay;
  for (int32_t i = 0; i < r->num_carries; i++) {
    if (r->carries[i].init < 0) continue;
    ptc_lay_get(l, r->carries[i].arg, &lay);
    if (!ptc_lay_use(l, r->carries[i].init, &lay, op)) return false;
  }
  for (int32_t i = 0; i < r->num_eaches; i++) {
    ptc_lay_get(l, r->eaches[i].arg, &lay);
    if (!ptc_lay_use(l, r->eaches[i].bundle, &lay, op)) return false;
  }
  return true;
}

// What the body hands out.
static bool use_results(ptc_layout_t *l, const ptc_wop_t *op) {
  const ptc_wrepeat_t *r = op->repeat;
  const ptc_wblock_t *body = &l->p->blocks[r->body];
  const ptc_wop_t *last = body->num_ops ? &body->ops[body->num_ops - 1] : op;
  ptc_lay_t lay;
  for (int32_t i = 0; i < r->num_carries; i++) {
    ptc_lay_get(l, r->carries[i].arg, &lay);
    ptc_lay_set(l, r->carries[i].result, &lay);
    const ptc_wop_t *maker = l->p->values[r->carries[i].next].def;
    if (!ptc_lay_use(l, r->carries[i].next, &lay, maker ? maker : last)) return false;
  }
  for (int32_t i = 0; i < r->num_collects; i++) {
    const ptc_wcollect_t *c = &r->collects[i];
    ptc_lay_collected(l, c, &lay);
    ptc_lay_set(l, c->result, &lay);
    const ptc_wop_t *maker = l->p->values[c->value].def;
    if (!ptc_lay_use(l, c->value, &lay, maker ? maker : last)) return false;
  }
  return true;
}

static bool infer_repeat(ptc_layout_t *l, const ptc_wop_t *op) {
  const ptc_wrepeat_t *r = op->repeat;
  for (int32_t i = 0; i < r->num_carries; i++) begin_carry(l, &r->carries[i]);
  for (int32_t i = 0; i < r->num_eaches; i++) begin_each(l, &r->eaches[i]);
  const mark_t m = mark_of(l);
  bool again = true;
  for (int round = 0; again; round++) {
    go_back(l, m);
    if (!infer_block(l, r->body)) return false;
    again = false;
    for (int32_t i = 0; i < r->num_carries && round < MAX_ROUNDS; i++) {
      ptc_lay_t lay;
      ptc_lay_get(l, r->carries[i].arg, &lay);
      if (!join(l, &r->carries[i], &lay)) continue;
      ptc_lay_set(l, r->carries[i].arg, &lay);
      again = true;
    }
  }
  return use_operands(l, op) && use_results(l, op);
}

// --- other ops

static bool only_moves(const ptc_layout_t *l, const ptc_wvalue_t *value, const ptc_lay_t *from,
                       const ptc_lay_t *to) {
  if (from->partial != to->partial) return false;
  ptc_lay_step_t steps[PTC_LAY_MAX_STEPS];
  const int32_t count = ptc_lay_plan(l, value, from, to, steps);
  for (int32_t i = 0; i < count; i++)
    if (steps[i].kind != PTC_NET_ALL_TO_ALL) return false;
  return count > 0;
}

// Whether nothing but tp's parts are put together.
static bool gathers_tp(const ptc_layout_t *l, const ptc_wvalue_t *value, const ptc_lay_t *from,
                       const ptc_lay_t *to) {
  const uint16_t tp = l->overlap[PTC_REF_AXIS + PTC_AXIS_TP];
  uint16_t used = 0, left = to->partial;
  for (int32_t d = 0; d < value->num_dims; d++) {
    used |= ptc_laid_set(from->axes[d]);
    left |= ptc_laid_set(to->axes[d]);
  }
  if (!(used & tp) || (left & tp)) return false;
  for (int32_t d = 0; d < value->num_dims; d++) {
    const int32_t own = ptc_laid_len(from->axes[d]) - (from->axes[d] != to->axes[d]);
    if (own != ptc_laid_len(to->axes[d]) || ptc_laid_first(from->axes[d], own) != to->axes[d])
      return false;
  }
  return true;
}

static void note_target(ptc_layout_t *l, int32_t number, const ptc_lay_t *to) {
  if (l->num_targets == l->cap_targets) {
    l->overflow = true;
    return;
  }
  l->targets[l->num_targets] = *to;
  l->gathered[number] = l->num_targets++;
}

static void note_gathered(ptc_layout_t *l, int32_t number, const ptc_lay_t *to) {
  const ptc_wvalue_t *value = &l->p->values[number];
  if (!value->activation) return;
  ptc_lay_t from;
  ptc_lay_get(l, number, &from);
  if (ptc_lay_equal(&from, to, value->num_dims)) return;
  if (only_moves(l, value, &from, to)) {
    note_target(l, number, to);
    // So is what it is another view of; a view keeps the places of its dims.
    while (value->def && value->def->opcode == PTC_OP_RENAME) {
      number = value->def->operands[0];
      value = &l->p->values[number];
      note_target(l, number, to);
    }
    return;
  }
  if (l->choice->sequence_parallel && !(from.partial & l->device) &&
      gathers_tp(l, value, &from, to))
    note_target(l, number, to);
}

// The rows that a split form exchanges.
static void add_rows(ptc_layout_t *l, const ptc_wop_t *op, const ptc_lay_t *operands) {
  const ptc_wvalue_t *x = &l->p->values[op->operands[0]];
  ptc_lay_net_t net = {.kind = PTC_NET_ALL_REDUCE,
                       .times = op->block > 1 ? ptc_lay_turns(l, op->block) : 1,
                       .piece = op->piece,
                       .phase = op->phase,
                       .op = op,
                       .value = op->operands[0]};
  for (int32_t d = 0; d < x->num_dims; d++) {
    net.buffer[d] = operands[0].axes[d];
    if (op->whole >> op->places[d] & 1) {
      net.axes = ptc_laid_append(net.axes, operands[0].axes[d]);
      net.without |= UINT32_C(1) << d;
    } else {
      net.by_micro |= ptc_laid_by_micro(operands[0].axes[d]);
    }
  }
  for (int32_t i = 0; i < op->split.num_rows; i++) {
    net.each = (double)op->split.row_bytes[i];
    ptc_lay_add_net(l, &net);
  }
}

// The op's sizes on a device, by role of its dims.
static void note_sizes(ptc_layout_t *l, const ptc_wop_t *op, const ptc_lay_t *operands) {
  int64_t *size = l->sizes[op->size];
  for (int i = 0; i < PTC_NUM_WROLES; i++) size[i] = 1;
  ptc_lay_log_dim(l, op->size, PTC_NUM_WROLES, 1, 0);
  uint64_t seen = 0;
  l->by_micro[op->size] = 0;
  const int8_t *place = op->places;
  for (int32_t i = 0; i < op->num_operands; i++) {
    const ptc_wvalue_t *v = &l->p->values[op->operands[i]];
    for (int32_t d = 0; d < v->num_dims; d++, place++) {
      if (*place < 0 || (seen >> *place & 1)) continue;
      seen |= UINT64_C(1) << *place;
      const int64_t extent = l->w->dims[l->p->dims[v->dims + d]].extent;
      const int64_t shards = ptc_laid_size(l, operands[i].axes[d]);
      size[op->roles[*place]] *= (extent + shards - 1) / shards;
      ptc_lay_log_dim(l, op->size, op->roles[*place], extent, operands[i].axes[d]);
      if (ptc_laid_by_micro(operands[i].axes[d]))
        l->by_micro[op->size] |= (uint16_t)(1u << op->roles[*place]);
    }
  }
}

static void seed(ptc_layout_t *l, int32_t from, int32_t to) {
  const ptc_wvalue_t *value = &l->p->values[to];
  const bool split = from != to;
  ptc_lay_t lay;
  ptc_lay_get(l, from, &lay);
  bool sequence = l->size[PTC_REF_AXIS + PTC_AXIS_CP] == 1;
  for (int32_t d = 0; d < value->num_dims; d++) {
    const ptc_wdim_t *dim = &l->w->dims[l->p->dims[value->dims + d]];
    if (dim->name == l->w->batch_name) {
      if (split) lay.axes[d] = ptc_laid_append(lay.axes[d], PTC_REF_MICRO);
      for (int a = PTC_AXIS_DP; a <= PTC_AXIS_EP; a++)
        if (l->size[PTC_REF_AXIS + a] > 1)
          lay.axes[d] = ptc_laid_append(lay.axes[d], (ptc_laid_t)(PTC_REF_AXIS + a));
    } else if (!sequence && l->w->is_sequence[dim->name]) {
      lay.axes[d] = ptc_laid_append(lay.axes[d], PTC_REF_AXIS + PTC_AXIS_CP);
      sequence = true;
    }
  }
  ptc_lay_set(l, to, &lay);
}

// Whether an op that takes |value|, which lies as |from|, as |to| takes what a repeat hands out of it: sums are taken.
static bool takes_collected(const ptc_layout_t *l, int32_t number, ptc_lay_t from,
                            const ptc_lay_t *to) {
  const ptc_wvalue_t *value = &l->p->values[number];
  if (value->activation) ptc_lay_resolve(l, value, &from);
  return ptc_lay_equal(&from, to, value->num_dims);
}

static bool infer_op(ptc_layout_t *l, const ptc_wop_t *op) {
  if (op->repeat) return infer_repeat(l, op);
  if (op->wclass == PTC_WCLASS_SEED) {
    seed(l, op->operands[0], op->results);
    return true;
  }
  // A total is taken as it is, but for the device axes that ZeRO takes: these are counted with the parameters.
  if (op->wclass == PTC_WCLASS_ACCUMULATE) return true;
  if (op->num_operands > MAX_OPERANDS || op->num_results > MAX_RESULTS) return false;
  ptc_lay_t operands[MAX_OPERANDS], results[MAX_RESULTS];
  bool split;
  // The way depends on how operands lie before the op.
  ptc_lay_attention_t attention;
  const bool moves = ptc_lay_attention_way(l, op, &attention);
  if (!ptc_lay_rule(l, op, operands, results, &split)) return false;
  for (int32_t i = 0; i < op->num_results; i++) {
    ptc_lay_set(l, op->results + i, &results[i]);
    l->gathered[op->results + i] = -1;
  }
  bool natural = !split;
  for (int32_t i = 0; i < op->num_operands; i++) {
    ptc_lay_t from;
    ptc_lay_get(l, op->operands[i], &from);
    natural &= takes_collected(l, op->operands[i], from, &operands[i]);
    note_gathered(l, op->operands[i], &operands[i]);
    if (!ptc_lay_use(l, op->operands[i], &operands[i], op)) return false;
  }
  if (moves) ptc_lay_attention_nets(l, op, &attention, operands);
  if (op->roles) note_sizes(l, op, operands);
  if (op->size >= 0 && !op->roles) l->sizes[op->size][0] = natural;
  if (split && !op->split.gathers) add_rows(l, op, operands);
  return true;
}

static bool infer_block(ptc_layout_t *l, int32_t block) {
  const ptc_wblock_t *b = &l->p->blocks[block];
  for (int32_t i = 0; i < b->num_ops; i++)
    if (!infer_op(l, &b->ops[i])) return false;
  return !l->overflow;
}

bool ptc_layout_infer(ptc_layout_t *l) {
  for (int32_t v = 0; v < l->p->num_values; v++) {
    const ptc_wvalue_t *value = &l->p->values[v];
    if (value->is_input && value->activation && !l->p->has_micro) seed(l, v, v);
  }
  for (int32_t block = 0; block < 2 && block < l->p->num_blocks; block++)
    if (!infer_block(l, block)) return false;
  return true;
}
