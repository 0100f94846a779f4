// Which dims of a contraction or of attention are what: rows, columns, depth, heads. From the einsum's names alone.
#include <string.h>

#include "passes/planner/work_build_impl.h"

enum { MIN_SIDE = 2, MAX_FACTORS = 64 };

static bool has(const ptc_value_t *value, const char *name) {
  return ptc_type_has_dim(value->type, name);
}

// The factors of |op|, named by the dims of the operands |in|.
static void name_factors(const ptc_wop_t *out, const int32_t *in, const char **names,
                         int64_t *extents) {
  const int8_t *place = out->places;
  for (int32_t i = 0; i < out->num_operands; i++) {
    const ptc_type_t *type = out->source->operands[in[i]]->type;
    for (int32_t d = 0; d < type->num_dims; d++, place++) {
      if (*place < 0) continue;
      names[*place] = type->dims[d].name;
      extents[*place] = type->dims[d].extent;
    }
  }
}

// --- contractions

static ptc_wrole_t contraction_role(const ptc_op_t *op, const char *name) {
  const bool a = has(op->operands[0], name), b = has(op->operands[1], name);
  if (ptc_op_dims_contain(op, "over", name)) return a && b ? PTC_WROLE_K : PTC_WROLE_NONE;
  return a && b ? PTC_WROLE_BATCH : a ? PTC_WROLE_M : PTC_WROLE_N;
}

static void contraction(ptc_wbuild_t *b, ptc_wop_t *out, const char *const *names,
                        const int64_t *extents) {
  uint8_t *roles = PTC_ARENA_ARRAY(b->arena, uint8_t, out->num_factors + 1);
  int64_t size[PTC_NUM_WROLES];
  for (int i = 0; i < PTC_NUM_WROLES; i++) size[i] = 1;
  bool lone = false, batched = false;
  for (int32_t i = 0; i < out->num_factors; i++) {
    roles[i] = (uint8_t)contraction_role(out->source, names[i]);
    size[roles[i]] *= extents[i];
    lone |= roles[i] == PTC_WROLE_NONE;
    batched |= roles[i] == PTC_WROLE_BATCH;
  }
  if (lone || size[PTC_WROLE_M] < MIN_SIDE || size[PTC_WROLE_N] < MIN_SIDE ||
      size[PTC_WROLE_K] < MIN_SIDE)
    return;
  out->roles = roles;
  for (int32_t i = 0; i < out->num_operands; i++)
    out->grouped |= batched && b->values.data[out->operands[i]].weight;
}

// --- attention

typedef struct mask_s {
  const char *attend;
  bool causal;
  int64_t window;
} mask_t;

static bool is_iota(const ptc_value_t *value, const char *dim, bool same) {
  const ptc_op_t *def = value->def;
  return def && def->opcode == PTC_OP_IOTA && (ptc_op_string(def, "dim") == dim) == same;
}

static bool constant_of(const ptc_value_t *value, double *out) {
  while (value->def && value->def->opcode == PTC_OP_BROADCAST) value = value->def->operands[0];
  if (!value->def || value->def->opcode != PTC_OP_CONSTANT) return false;
  *out = ptc_op_float(value->def, "value");
  return true;
}

// What |value|, a mask, says: t <= s; s - t < window; s - window < t.
static void read_mask(mask_t *m, const ptc_value_t *value) {
  const ptc_op_t *def = value->def;
  double bound;
  if (!def) return;
  if (def->opcode == PTC_OP_AND || def->opcode == PTC_OP_BROADCAST ||
      def->opcode == PTC_OP_TRANSPOSE) {
    for (int32_t i = 0; i < def->num_operands; i++) read_mask(m, def->operands[i]);
  } else if (def->opcode == PTC_OP_LE && is_iota(def->operands[0], m->attend, true) &&
             is_iota(def->operands[1], m->attend, false)) {
    m->causal = true;
  } else if ((def->opcode == PTC_OP_LT || def->opcode == PTC_OP_LE) &&
             constant_of(def->operands[1], &bound)) {
    const ptc_op_t *sub = def->operands[0]->def;
    if (sub && sub->opcode == PTC_OP_SUB && is_iota(sub->operands[0], m->attend, false) &&
        is_iota(sub->operands[1], m->attend, true))
      m->window = (int64_t)bound + (def->opcode == PTC_OP_LE);
  } else if ((def->opcode == PTC_OP_LT || def->opcode == PTC_OP_LE) &&
             is_iota(def->operands[1], m->attend, true)) {
    const ptc_op_t *sub = def->operands[0]->def;
    if (sub && sub->opcode == PTC_OP_SUB && is_iota(sub->operands[0], m->attend, false) &&
        constant_of(sub->operands[1], &bound))
      m->window = (int64_t)bound + (def->opcode == PTC_OP_LE);
  }
}

static void attention(ptc_wbuild_t *b, ptc_wop_t *out, const char *const *names) {
  const ptc_op_t *op = out->source;
  const ptc_attention_operands_t at = ptc_attention_operands(op);
  const ptc_value_t *q = op->operands[at.q], *key = op->operands[at.key],
                    *val = op->operands[at.val];
  const char *attend = ptc_op_string(op, "attend"), *dot = ptc_op_string(op, "dot");
  const char *batch = ptc_attrs_string(&b->module->config, "batch_dim", "b");
  uint8_t *roles = PTC_ARENA_ARRAY(b->arena, uint8_t, out->num_factors + 1);
  int32_t rows = -1;
  for (int32_t i = 0; i < out->num_factors; i++) {
    const char *name = names[i];
    ptc_wrole_t role = PTC_WROLE_NONE;
    if (strcmp(name, batch) == 0)
      role = PTC_WROLE_BATCH;
    else if (name == dot)
      role = PTC_WROLE_QK;
    else if (name == attend)
      role = PTC_WROLE_COLS;
    else if (has(q, name))
      role = has(key, name) ? PTC_WROLE_KV_HEADS : PTC_WROLE_HEADS;
    else if (has(val, name) && !has(key, name))
      role = PTC_WROLE_V;
    // The first dim of q alone is the rows', the others are heads.
    if (role == PTC_WROLE_HEADS && rows < 0) {
      rows = i;
      role = PTC_WROLE_ROWS;
    }
    roles[i] = (uint8_t)role;
  }
  mask_t mask = {.attend = attend};
  if (at.mask >= 0) read_mask(&mask, op->operands[at.mask]);
  out->roles = roles;
  out->causal = mask.causal;
  out->drops = ptc_op_float(op, "p") > 0;
  out->window = mask.window;
}

// Views, casts, and what frameworks do within the kernel of a norm or a linear layer: scale and bias of a parameter.
static bool folds(const ptc_wbuild_t *b, const ptc_wop_t *out) {
  switch (out->opcode) {
    case PTC_OP_CAST:
    case PTC_OP_RENAME:
    case PTC_OP_SPLIT:
    case PTC_OP_MERGE:
    case PTC_OP_BROADCAST:
    case PTC_OP_ACCUMULATE:
    case PTC_OP_IOTA: return true;
    case PTC_OP_ADD:
    case PTC_OP_MUL:
      for (int32_t i = 0; i < out->num_operands; i++)
        if (b->values.data[out->operands[i]].weight) return true;
      return false;
    default: return false;
  }
}

// What an element takes beside an exp in a loop (passes/planner/README.md).
static double weight_of(const ptc_op_t *op) {
  const char *approx = ptc_op_string(op, "approx");
  const bool exact = !approx || strcmp(approx, "tanh") != 0;
  switch (op->opcode) {
    case PTC_OP_SOFTMAX:
    case PTC_OP_CROSS_ENTROPY:
    case PTC_OP_CROSS_ENTROPY_GRAD: return 1;
    case PTC_OP_GELU: return exact ? 3.8 : 2.3;
    case PTC_OP_GELU_GRAD: return exact ? 5 : 3.2;
    case PTC_OP_SILU: return 1.5;
    case PTC_OP_SILU_GRAD: return 2;
    default: return ptc_op_info(op->opcode)->traits & PTC_TRAIT_COSTLY ? 1 : 0;
  }
}

// A rope's angle has an exp, a sine and a cosine in f64, and is computed once for all samples and heads.
static const double angle_weight = 24;

static void costly(ptc_wop_t *out) {
  if (out->roles || out->num_operands == 0) return;
  out->costly = weight_of(out->source);
  if (out->opcode != PTC_OP_ROPE) return;
  const ptc_type_t *x = out->source->operands[0]->type;
  const int32_t dim = ptc_type_find_dim(x, ptc_op_string(out->source, "dim"));
  out->costly = angle_weight * (double)x->dims[dim].extent;
  out->costly_of = 1;
}

void ptc_work_cost(ptc_wbuild_t *b, ptc_wop_t *out, const int32_t *in) {
  const char *names[MAX_FACTORS] = {0};
  int64_t extents[MAX_FACTORS] = {0};
  out->folds = folds(b, out);
  name_factors(out, in, names, extents);
  if (out->opcode == PTC_OP_EINSUM && out->num_operands == 2) contraction(b, out, names, extents);
  if (out->opcode == PTC_OP_ATTENTION || out->opcode == PTC_OP_ATTENTION_GRAD)
    attention(b, out, names);
  costly(out);
  const bool norm = out->opcode == PTC_OP_LAYERNORM || out->opcode == PTC_OP_RMSNORM ||
                    out->opcode == PTC_OP_LAYERNORM_GRAD || out->opcode == PTC_OP_RMSNORM_GRAD;
  if (out->roles || norm) out->size = b->program->num_sizes++;
}
