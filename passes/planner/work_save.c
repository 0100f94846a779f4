// What frameworks keep of the forward pass for the backward pass: which operands, results or masks each kind of op
// saves. A value is kept once, in the dtype that it has in memory: a cast to f32 within a kernel keeps nothing.
//
//   Megatron-LM  Korthikanti et al. 2022 (arXiv:2205.05198), section 4: inputs of products, of norms and of
//                nonlinear functions; masks of dropout, a byte each; q, k and v
//   PyTorch      eager autograd saves the same, and the statistics of norms and of attention
//
// PyTorch's selective recompute by ops (torchtitan) keeps a turn's input and the results of attention and of every second
// product.
//
// Scores that attention keeps where it is not fused are apart (ptc_piece_t.scores_bytes).
#include "ir/base/vec.h"
#include "passes/planner/work_build_impl.h"

typedef PTC_VEC(ptc_wsave_t) saves_t;

typedef struct save_s {
  const ptc_wprogram_t *p;
  saves_t *to;
  int32_t *products;  // of the piece, so far
} save_t;

static bool is_view(ptc_opcode_t opcode) {
  return opcode == PTC_OP_RENAME || opcode == PTC_OP_SPLIT || opcode == PTC_OP_MERGE;
}

static int64_t bytes_of(const ptc_wvalue_t *v) { return ptc_dtype_bytes((ptc_dtype_t)v->dtype); }

// What is in memory of |number|: through views, and casts to wider types.
static int32_t root_of(const ptc_wprogram_t *p, int32_t number) {
  for (;;) {
    const ptc_wvalue_t *v = &p->values[number];
    if (!v->def || v->def->num_operands == 0) return number;
    const int32_t from = v->def->operands[0];
    const bool widens = v->def->opcode == PTC_OP_CAST && bytes_of(&p->values[from]) < bytes_of(v);
    if (!widens && !is_view(v->def->opcode)) return number;
    number = from;
  }
}

static void add(save_t *s, int32_t number, ptc_wsave_kind_t kind) {
  if (kind == PTC_WSAVE_VALUE) number = root_of(s->p, number);
  const ptc_wvalue_t *v = &s->p->values[number];
  if (v->weight || v->is_input || (v->num_dims == 0 && kind != PTC_WSAVE_SCORES)) return;
  if (v->def && v->def->opcode == PTC_OP_SHARD) return;
  for (int64_t i = 0; i < s->to->len; i++)
    if (s->to->data[i].value == number && s->to->data[i].kind == kind) return;
  PTC_VEC_PUSH(s->to, ((ptc_wsave_t){number, kind}));
}

// Whether |number| is a normalized value: its kernel goes on to scale and bias it, and keeps none of that.
static bool is_normalized(const ptc_wprogram_t *p, int32_t number) {
  const ptc_wop_t *def = p->values[number].def;
  return def && (def->opcode == PTC_OP_LAYERNORM || def->opcode == PTC_OP_RMSNORM);
}

static void operands(save_t *s, const ptc_wop_t *op) {
  for (int32_t i = 0; i < op->num_operands; i++) add(s, op->operands[i], PTC_WSAVE_VALUE);
}

static void product(save_t *s, const ptc_wop_t *op) {
  for (int32_t i = 0; i < op->num_operands; i++)
    if (is_normalized(s->p, op->operands[i])) return;
  const bool scaled = op->opcode == PTC_OP_MUL && op->num_operands < 2;
  if (!scaled) operands(s, op);
}

static void attention(save_t *s, const ptc_wop_t *op) {
  for (int32_t i = 0; i < op->num_operands && i < 3; i++) add(s, op->operands[i], PTC_WSAVE_VALUE);
  add(s, op->results, PTC_WSAVE_SCORES);
  add(s, op->results, PTC_WSAVE_VALUE);
  add(s, op->results, PTC_WSAVE_PRODUCT);
  add(s, op->results + 1, PTC_WSAVE_STATISTIC);
}

static void visit(save_t *s, const ptc_wop_t *op) {
  switch (op->opcode) {
    case PTC_OP_EINSUM:
      if ((*s->products)++ % 2 == 0) add(s, op->results, PTC_WSAVE_PRODUCT);
      product(s, op);
      break;
    case PTC_OP_MUL:
    case PTC_OP_DIV:
    case PTC_OP_POW: product(s, op); break;
    case PTC_OP_LAYERNORM:
    case PTC_OP_RMSNORM:
      add(s, op->operands[0], PTC_WSAVE_VALUE);
      for (int32_t i = 1; i < op->num_results; i++) add(s, op->results + i, PTC_WSAVE_STATISTIC);
      break;
    case PTC_OP_GELU:
    case PTC_OP_SILU:
    case PTC_OP_RELU:
    case PTC_OP_SOFTPLUS:
    case PTC_OP_ERF:
    case PTC_OP_LOG:
    case PTC_OP_SIN:
    case PTC_OP_COS:
    case PTC_OP_ABS:
    case PTC_OP_MIN:
    case PTC_OP_MAX: operands(s, op); break;
    case PTC_OP_EXP:
    case PTC_OP_TANH:
    case PTC_OP_SIGMOID:
    case PTC_OP_SQRT:
    case PTC_OP_RSQRT:
    case PTC_OP_SOFTMAX: add(s, op->results, PTC_WSAVE_VALUE); break;
    case PTC_OP_DROPOUT: add(s, op->results, PTC_WSAVE_MASK); break;
    case PTC_OP_WHERE:
      if (op->num_operands > 0) add(s, op->operands[0], PTC_WSAVE_MASK);
      break;
    case PTC_OP_CROSS_ENTROPY: add(s, op->operands[0], PTC_WSAVE_WIDE); break;
    case PTC_OP_ATTENTION: attention(s, op); break;
    default: break;
  }
}

void ptc_work_find_saves(ptc_work_t *work, ptc_wprogram_t *p, ptc_arena_t *arena) {
  saves_t saves[PTC_MAX_PIECES] = {{0}};
  int32_t products[PTC_MAX_PIECES] = {0};
  for (int32_t b = 1; b < p->num_blocks; b++)
    for (int32_t n = 0; n < p->blocks[b].num_ops; n++) {
      const ptc_wop_t *op = &p->blocks[b].ops[n];
      save_t s = {p, &saves[op->piece], &products[op->piece]};
      if (op->phase == PTC_WORK_FORWARD && !op->repeat) visit(&s, op);
    }
  for (int32_t i = 0; i < work->num_pieces; i++) {
    ptc_wroom_t *room = &p->rooms[i];
    ptc_wsave_t *copy = PTC_ARENA_ARRAY(arena, ptc_wsave_t, saves[i].len + 1);
    for (int64_t k = 0; k < saves[i].len; k++) copy[k] = saves[i].data[k];
    room->saves = copy;
    room->num_saves = (int32_t)saves[i].len;
    PTC_VEC_FREE(&saves[i]);
  }
}
