// partition: attention whose keys and values go round the devices of cp, block by block.
//
// The sequences of q and of the keys are split into one block per device. In turn t a device has the block of keys of
// the device t before it; it computes attention within it, and joins the rows' results by their log-sum-exp. In the
// gradient, the gradients of a block travel with it and come home last. Every block moves c - 1 times, so do its
// gradients.
//
// Source: Liu et al. 2023, Ring Attention (arXiv:2310.01889).
#include <math.h>

#include "ir/builder.h"
#include "ir/op.h"
#include "passes/partition_impl.h"

enum { MAX_OPERANDS = 8 };  // q, keys, values, mask, bias, out, lse, dout

typedef struct ring_s {
  ptc_part_t *p;
  const ptc_part_attention_t *a;
  ptc_op_t *op;
  ptc_builder_t b;
  ptc_attention_operands_t at;
  int64_t size;
  const char *ring, *row, *turn,
      *key;  // dims: devices; of a block of rows; of keys: which block, and in it
  ptc_value_t *operands[MAX_OPERANDS];  // split
} ring_t;

// --- small steps; every builder hands on the NULL that follows an error

static ptc_value_t *one_op(ring_t *s, ptc_opcode_t opcode, ptc_value_t *const *operands,
                           int32_t num_operands, ptc_attrs_t attrs) {
  for (int32_t i = 0; i < num_operands; i++)
    if (!operands[i]) return NULL;
  ptc_op_t *op = ptc_build_op(&s->b, opcode, operands, num_operands, 1, attrs);
  return op ? op->results[0] : NULL;
}

static ptc_value_t *binary(ring_t *s, ptc_opcode_t opcode, ptc_value_t *x, ptc_value_t *y) {
  return x && y ? ptc_build_binary(&s->b, opcode, x, y) : NULL;
}

static ptc_value_t *unary(ring_t *s, ptc_opcode_t opcode, ptc_value_t *x) {
  return x ? ptc_build_unary(&s->b, opcode, x) : NULL;
}

static ptc_value_t *cast(ring_t *s, ptc_value_t *x, ptc_dtype_t dtype) {
  return x ? ptc_build_cast(&s->b, x, dtype) : NULL;
}

// |x| with |dim|, if it has it, as |outer| blocks of |inner|.
static ptc_value_t *split(ring_t *s, ptc_value_t *x, const char *dim, const char *outer,
                          const char *inner) {
  const int32_t at = x ? ptc_type_find_dim(x->type, dim) : -1;
  if (at < 0) return x;
  // In the order in which the devices have it, whole or not.
  if (x->type->dims[at].dist == PTC_DIST_ZIGZAG)
    x = ptc_part_reorder(s->p, &s->b, x, dim, false);
  else if (s->p->parallel.balanced)
    x = ptc_part_deal(s->p, &s->b, x, dim);
  if (!x) return NULL;
  ptc_attrs_t attrs = {0};
  const int64_t extents[2] = {s->size, x->type->dims[at].extent / s->size};
  ptc_attrs_set_dim(s->p->module, &attrs, "dim", dim);
  ptc_attrs_set_dims(s->p->module, &attrs, "into", (const char *[]){outer, inner}, 2);
  ptc_attrs_set_ints(s->p->module, &attrs, "extents", extents, 2);
  return one_op(s, PTC_OP_SPLIT, &x, 1, attrs);
}

// |x|, summed over devices.
static ptc_value_t *summed(ring_t *s, ptc_value_t *x) {
  ptc_axis_ref_t axes[PTC_MAX_AXES];
  const int32_t count = x ? ptc_part_partial(x->type, axes) : 0;
  if (count == 0) return x;
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_string(s->p->module, &attrs, "axes", ptc_axes_text(s->p->module, axes, count));
  return one_op(s, PTC_OP_ALL_REDUCE, &x, 1, attrs);
}

// Result |index| of the op, from |x|, whose blocks of |inner| become |dim| again.
static ptc_value_t *finish(ring_t *s, int32_t index, ptc_value_t *x, const char *inner,
                           const char *dim) {
  const ptc_type_t *type = s->op->results[index]->type;
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dims(s->p->module, &attrs, "dims", (const char *[]){s->ring, inner}, 2);
  ptc_attrs_set_dim(s->p->module, &attrs, "into", dim);
  x = one_op(s, PTC_OP_MERGE, &x, 1, attrs);
  if (!ptc_part_is_partial(type)) x = summed(s, x);
  if (s->p->parallel.balanced) x = ptc_part_reorder(s->p, &s->b, x, dim, true);
  return x ? cast(s, ptc_build_fit(&s->b, x, type), type->dtype) : NULL;
}

static ptc_value_t *shift(ring_t *s, ptc_value_t *x) {
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_string(s->p->module, &attrs, "axes",
                       ptc_axes_text(s->p->module, &s->p->axis[PTC_AXIS_CP], 1));
  ptc_attrs_set_dim(s->p->module, &attrs, "dim", s->ring);
  return one_op(s, PTC_OP_RING_SHIFT, &x, 1, attrs);
}

// A name that no operand has.
static const char *fresh(const ring_t *s, const char *base) {
  for (;; base = ptc_arena_printf(s->p->scratch, "%s_", base)) {
    const char *name = ptc_module_intern(s->p->module, base);
    bool used = false;
    for (int32_t i = 0; i < s->op->num_operands; i++)
      used |= ptc_type_has_dim(s->op->operands[i]->type, name);
    if (!used) return name;
  }
}

static ptc_status_t begin(ring_t *s, ptc_part_t *p, const ptc_part_attention_t *a, ptc_op_t *op) {
  *s = (ring_t){.p = p, .a = a, .op = op, .b = ptc_builder_before(p->module, op)};
  s->b.loc = op->loc;
  s->at = ptc_attention_operands(op);
  s->size = p->parallel.size[PTC_AXIS_CP];
  s->ring = fresh(s, "ring");
  s->row = fresh(s, ptc_arena_printf(p->scratch, "%s_block", a->rows));
  s->turn = fresh(s, "turn");
  s->key = fresh(s, ptc_arena_printf(p->scratch, "%s_block", a->attend));
  for (int32_t i = 0; i < op->num_operands; i++) {
    const bool scores = i == s->at.mask || i == s->at.bias;
    ptc_value_t *x = split(s, op->operands[i], a->rows, s->ring, s->row);
    s->operands[i] = split(s, x, a->attend, scores ? s->turn : s->ring, s->key);
    if (!s->operands[i]) return PTC_UNSUPPORTED;
  }
  return PTC_OK;
}

// The part of a mask or bias for the block of keys of turn |t|: that of device r - t.
static ptc_value_t *scores_of(ring_t *s, int32_t index, int64_t t) {
  ptc_value_t *x = s->operands[index];
  if (!ptc_type_has_dim(x->type, s->turn)) return x;
  const ptc_type_t *q = s->operands[s->at.q]->type;
  ptc_value_t *block = ptc_build_iota(&s->b, &q->dims[ptc_type_find_dim(q, s->ring)]);
  if (!block) return NULL;
  block = ptc_build_binary_const(&s->b, PTC_OP_ADD, block, (double)(s->size - t));
  if (block) block = ptc_build_binary_const(&s->b, PTC_OP_MOD, block, (double)s->size);
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dims(s->p->module, &attrs, "dims", &s->turn, 1);
  return one_op(s, PTC_OP_GATHER, (ptc_value_t *[]){x, block}, 2, attrs);
}

// The op within the block of keys of turn |t|.
static ptc_op_t *build_turn(ring_t *s, int64_t t, ptc_value_t *key, ptc_value_t *val) {
  ptc_value_t *operands[MAX_OPERANDS];
  for (int32_t i = 0; i < s->op->num_operands; i++) {
    operands[i] = s->operands[i];
    if (i == s->at.key) operands[i] = key;
    if (i == s->at.val) operands[i] = val;
    if (i == s->at.mask || i == s->at.bias) operands[i] = scores_of(s, i, t);
    if (!operands[i]) return NULL;
  }
  ptc_attrs_t attrs = ptc_attrs_clone(s->p->module, &s->op->attrs);
  ptc_attrs_set_dim(s->p->module, &attrs, "attend", s->key);
  return ptc_build_op(&s->b, s->op->opcode, operands, s->op->num_operands, s->op->num_results,
                      attrs);
}

// --- forward

typedef struct rows_s {
  ptc_value_t *out, *lse;
} rows_t;

// Of rows over other keys: with m = max(lse), w = exp(lse - m), out = sum w out / sum w, lse = m + log(sum w). Rows
// without keys have lse = -inf and weigh nothing.
static rows_t join(ring_t *s, rows_t x, rows_t y) {
  ptc_value_t *max = binary(s, PTC_OP_MAX, x.lse, y.lse), *zero, *one;
  if (!max) return (rows_t){0};
  zero = ptc_build_constant(&s->b, max->type->dtype, 0);
  one = ptc_build_constant(&s->b, max->type->dtype, 1);
  ptc_value_t *finite = unary(s, PTC_OP_IS_FINITE, max);
  ptc_value_t *from = finite && zero ? ptc_build_where(&s->b, finite, max, zero) : NULL;
  ptc_value_t *wx = unary(s, PTC_OP_EXP, binary(s, PTC_OP_SUB, x.lse, from));
  ptc_value_t *wy = unary(s, PTC_OP_EXP, binary(s, PTC_OP_SUB, y.lse, from));
  ptc_value_t *sum = binary(s, PTC_OP_ADD, wx, wy);
  ptc_value_t *over = finite && sum && one ? ptc_build_where(&s->b, finite, sum, one) : NULL;
  ptc_value_t *from_x = binary(s, PTC_OP_MUL, x.out, binary(s, PTC_OP_DIV, wx, over));
  ptc_value_t *from_y = binary(s, PTC_OP_MUL, y.out, binary(s, PTC_OP_DIV, wy, over));
  ptc_value_t *out = binary(s, PTC_OP_ADD, from_x, from_y);
  return (rows_t){out, binary(s, PTC_OP_ADD, max, unary(s, PTC_OP_LOG, over))};
}

static ptc_status_t build_forward(ring_t *s, ptc_value_t **out) {
  ptc_value_t *key = s->operands[s->at.key], *val = s->operands[s->at.val];
  rows_t all = {0};
  for (int64_t t = 0; t < s->size; t++) {
    if (t > 0) {
      key = shift(s, key);
      val = shift(s, val);
    }
    ptc_op_t *turn = key && val ? build_turn(s, t, key, val) : NULL;
    if (!turn) return PTC_UNSUPPORTED;
    rows_t rows = {turn->results[0], turn->results[1]};
    rows.out = cast(s, rows.out, rows.lse->type->dtype);
    all = t ? join(s, all, rows) : rows;
    if (!all.out || !all.lse) return PTC_UNSUPPORTED;
  }
  out[0] = finish(s, 0, all.out, s->row, s->a->rows);
  out[1] = finish(s, 1, all.lse, s->row, s->a->rows);
  return out[0] && out[1] ? PTC_OK : PTC_UNSUPPORTED;
}

// --- backward

// What is no sum over devices yet stays wide: only the sum is rounded.
static ptc_value_t *add_wide(ring_t *s, ptc_value_t *x, ptc_value_t *y) {
  if (!x || !y) return NULL;
  const ptc_dtype_t dtype = y->type->dtype;
  const ptc_dtype_t wide = dtype == PTC_F64 ? PTC_F64 : PTC_F32;
  const ptc_dtype_t to = ptc_part_is_partial(y->type) ? wide : dtype;
  return cast(s, binary(s, PTC_OP_ADD, cast(s, x, wide), cast(s, y, wide)), to);
}

// The gradients of other devices' blocks first, which arrive here for the next device; the own block's last, when its
// gradients have come home.
static ptc_status_t build_backward(ring_t *s, ptc_value_t **out) {
  ptc_value_t *key = s->operands[s->at.key], *val = s->operands[s->at.val];
  ptc_value_t *own_key = key, *own_val = val, *grads[3] = {0};
  for (int64_t t = 1; t <= s->size; t++) {
    const bool home = t == s->size;
    key = home ? own_key : shift(s, key);
    val = home ? own_val : shift(s, val);
    ptc_op_t *turn = key && val ? build_turn(s, t % s->size, key, val) : NULL;
    if (!turn) return PTC_UNSUPPORTED;
    const ptc_dtype_t dtype = turn->results[0]->type->dtype;
    ptc_value_t *dq = cast(s, turn->results[0], dtype == PTC_F64 ? PTC_F64 : PTC_F32);
    grads[0] = t == 1 ? dq : binary(s, PTC_OP_ADD, grads[0], dq);
    for (int32_t g = 1; g < 3; g++) {
      grads[g] = t == 1 ? turn->results[g] : add_wide(s, shift(s, grads[g]), turn->results[g]);
      if (!grads[g]) return PTC_UNSUPPORTED;
    }
  }
  out[0] = finish(s, 0, grads[0], s->row, s->a->rows);
  for (int32_t g = 1; g < 3; g++) out[g] = finish(s, g, grads[g], s->key, s->a->attend);
  return out[0] && out[1] && out[2] ? PTC_OK : PTC_UNSUPPORTED;
}

bool ptc_part_ring_fits(const ptc_part_t *p, const ptc_part_attention_t *a, const ptc_op_t *op) {
  const ptc_attention_operands_t at = ptc_attention_operands(op);
  const ptc_type_t *q = op->operands[at.q]->type, *key = op->operands[at.key]->type;
  const int64_t cp = p->parallel.size[PTC_AXIS_CP];
  // Random numbers are those of places in the whole scores; the gradient of a bias is one of the whole scores.
  if (at.seed >= 0 || op->num_results > 3 || op->num_operands > MAX_OPERANDS) return false;
  return q->dims[ptc_type_find_dim(q, a->rows)].extent % cp == 0 &&
         key->dims[ptc_type_find_dim(key, a->attend)].extent % cp == 0;
}

ptc_status_t ptc_part_ring_build(ptc_part_t *p, const ptc_part_attention_t *a, ptc_op_t *op,
                                 ptc_value_t **out_results) {
  ring_t s;
  PTC_TRY(begin(&s, p, a, op));
  return op->opcode == PTC_OP_ATTENTION ? build_forward(&s, out_results)
                                        : build_backward(&s, out_results);
}
