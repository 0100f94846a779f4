// Reads the ops around a softmax as attention: back to the product of q and key, on to that with the values.
#include <math.h>

#include "passes/raise_attention_impl.h"
#include "passes/rewrite.h"

static intptr_t uses_of(const ptc_raise_uses_t *uses, const ptc_value_t *value) {
  return (intptr_t)ptc_map_get(&uses->count, value);
}

static bool is_view(const ptc_op_t *op) {
  return op->opcode == PTC_OP_RENAME || op->opcode == PTC_OP_SPLIT || op->opcode == PTC_OP_MERGE;
}

// --- finding the chain

typedef struct search_s {
  const ptc_raise_uses_t *uses;
  ptc_raise_match_t *match;
  int64_t elements;  // of the scores
  // Steps from the softmax back to the product.
  ptc_raise_step_t back[PTC_RAISE_MAX_STEPS];
  int32_t num_back;
  const char *blocked;  // a product was seen behind this obstacle
} search_t;

// Which operands of |op| may hold the scores: a bit each. 0: none, the chain ends.
static uint32_t scores_operands(const ptc_op_t *op) {
  switch (op->opcode) {
    case PTC_OP_TRANSPOSE:
    case PTC_OP_RENAME:
    case PTC_OP_SPLIT:
    case PTC_OP_MERGE:
    case PTC_OP_CAST:
    case PTC_OP_NEG:
    case PTC_OP_TANH:
    case PTC_OP_DIV: return 1;
    case PTC_OP_MUL:
    case PTC_OP_ADD:
    case PTC_OP_SUB: return 3;
    case PTC_OP_WHERE: return 6;
    // Attention has no such op, but the reader wants to know.
    default: return ptc_op_has_trait(op, PTC_TRAIT_EWISE) ? 7 : 0;
  }
}

static bool search_back(search_t *s, ptc_value_t *value) {
  ptc_op_t *op = value->def;
  if (!op || op->parent != s->match->softmax->parent || s->num_back == PTC_RAISE_MAX_STEPS - 1)
    return false;
  if (ptc_type_num_elements(value->type) != s->elements) return false;
  if (op->opcode == PTC_OP_EINSUM) {
    if (uses_of(s->uses, value) != 1) {
      s->blocked = "the scores are used elsewhere, too";
      return false;
    }
    s->back[s->num_back++] = (ptc_raise_step_t){op, 0};
    return true;
  }
  const uint32_t operands = scores_operands(op);
  for (int32_t i = 0; i < op->num_operands; i++) {
    if (!(operands >> i & 1)) continue;
    const int32_t old = s->num_back;
    s->back[s->num_back++] = (ptc_raise_step_t){op, i};
    if (search_back(s, op->operands[i])) {
      if (uses_of(s->uses, value) == 1) return true;
      s->blocked = "a value on the way from the scores to the softmax is used elsewhere, too";
      return false;
    }
    s->num_back = old;
  }
  return false;
}

static bool push(ptc_raise_match_t *m, ptc_op_t *op, int32_t from) {
  if (m->num_steps == PTC_RAISE_MAX_STEPS) return false;
  m->steps[m->num_steps++] = (ptc_raise_step_t){op, from};
  return true;
}

static int32_t operand_index(const ptc_op_t *op, const ptc_value_t *value) {
  for (int32_t i = 0; i < op->num_operands; i++)
    if (op->operands[i] == value) return i;
  return -1;
}

// From the softmax to the product with the values. False: there is none.
static bool search_forth(search_t *s) {
  ptc_raise_match_t *m = s->match;
  ptc_value_t *value = m->softmax->results[0];
  for (;;) {
    ptc_op_t *user = ptc_map_get(&s->uses->user, value);
    if (!user || user->parent != m->softmax->parent) return false;
    if (uses_of(s->uses, value) != 1) s->blocked = "the weights are used elsewhere, too";
    const int32_t at = operand_index(user, value);
    switch (user->opcode) {
      case PTC_OP_EINSUM:
        m->values = user;
        m->values_from = at;
        return ptc_type_num_elements(value->type) == s->elements;
      case PTC_OP_DROPOUT:
        if (m->dropout || at != 0) return false;
        m->dropout = user;
        break;
      case PTC_OP_TRANSPOSE:
      case PTC_OP_RENAME:
      case PTC_OP_SPLIT:
      case PTC_OP_MERGE:
      case PTC_OP_CAST: break;
      case PTC_OP_MUL:
      case PTC_OP_DIV:
      case PTC_OP_WHERE:
        s->blocked = "the weights are changed between the softmax and the product with the values";
        if (ptc_type_num_elements(user->results[0]->type) != s->elements) return false;
        break;
      default: return false;
    }
    if (!push(m, user, at)) return false;
    value = user->results[0];
  }
}

// Whether the values differ from row to row, as those of a mixture of experts do.
static bool shares_values(const ptc_raise_match_t *m) {
  const ptc_type_t *weights = m->values->operands[m->values_from]->type;
  const ptc_type_t *val = m->values->operands[1 - m->values_from]->type;
  for (int32_t i = 0; i < weights->num_dims; i++)
    if (weights->dims[i].extent > 1 && !ptc_type_has_dim(val, weights->dims[i].name)) return true;
  return false;
}

// False: there is no chain. The reason is set where two products were seen with something between.
static bool find_chain(search_t *s) {
  ptc_raise_match_t *m = s->match;
  s->elements = ptc_type_num_elements(m->softmax->operands[0]->type);
  const bool back = search_back(s, m->softmax->operands[0]);
  for (int32_t i = back ? s->num_back - 1 : -1; i >= 0; i--)
    push(m, s->back[i].op, s->back[i].from);
  m->softmax_at = m->num_steps;
  if (!push(m, m->softmax, 0) || !search_forth(s) || !shares_values(m)) return false;
  m->reason = s->blocked;
  if (!back) return false;
  m->scores = m->steps[0].op;
  return s->blocked == NULL;
}

// --- reading it

// How far the formula has been read.
typedef enum stage_e { STAGE_SCALE, STAGE_TANH, STAGE_BIAS, STAGE_MASK } stage_t;

static bool refuse(ptc_raise_match_t *m, const char *reason) {
  m->reason = reason;
  return false;
}

static bool has_finite_mask(const ptc_raise_match_t *m) {
  for (int32_t i = 0; i < m->num_masks; i++)
    if (m->masks[i].finite) return true;
  return false;
}

static bool read_factor(ptc_raise_match_t *m, stage_t stage, double factor) {
  if (!isfinite(factor) || factor == 0)
    return refuse(m, "the scores are multiplied by no finite number");
  if (stage == STAGE_SCALE) {
    m->scale *= factor;
    return true;
  }
  if (stage == STAGE_TANH) {
    m->cap *= factor;
    return true;
  }
  if (stage == STAGE_MASK && factor > 0 && m->cap == 0 && !m->num_biases && !has_finite_mask(m)) {
    m->scale *= factor;  // minus infinity stays what it is
    return true;
  }
  return refuse(m, "the scores are multiplied after bias or mask");
}

static bool read_bias(ptc_raise_match_t *m, ptc_value_t *value, bool negated, stage_t *stage) {
  ptc_builder_t b = ptc_builder_before(m->module, m->values);
  ptc_raise_term_t term = {.num_views = m->num_views};
  if (!negated && ptc_raise_mask_of_bias(&b, value, &term)) {
    m->masks[m->num_masks++] = term;
    if (*stage < STAGE_BIAS) *stage = STAGE_BIAS;
    return true;
  }
  m->biases[m->num_biases++] =
      (ptc_raise_term_t){.value = value, .negated = negated, .num_views = m->num_views};
  if (*stage < STAGE_BIAS) *stage = STAGE_BIAS;
  return true;
}

static bool read_where(ptc_raise_match_t *m, const ptc_raise_step_t *step, stage_t *stage) {
  double number;
  ptc_raise_term_t term = {
      .value = step->op->operands[0], .negated = step->from == 2, .num_views = m->num_views};
  if (!ptc_value_is_constant(step->op->operands[3 - step->from], &number) ||
      !ptc_raise_masks(number, &term.finite))
    return refuse(m, "masked scores become neither -inf nor a number below -1e9");
  m->masks[m->num_masks++] = term;
  *stage = STAGE_MASK;
  return true;
}

static bool read_step(ptc_raise_match_t *m, const ptc_raise_step_t *step, stage_t *stage) {
  ptc_op_t *op = step->op;
  const ptc_type_t *type = op->results[0]->type;
  if (ptc_type_num_elements(type) != ptc_type_num_elements(op->operands[step->from]->type))
    return refuse(m, "a mask or bias has dims that the scores lack");
  double c = 0;
  switch (op->opcode) {
    case PTC_OP_TRANSPOSE: return true;
    case PTC_OP_RENAME:
    case PTC_OP_SPLIT:
    case PTC_OP_MERGE: m->views[m->num_views++] = op; return true;
    case PTC_OP_CAST:
      return type->dtype == PTC_F32 || refuse(m, "the scores are rounded to another dtype");
    case PTC_OP_NEG: return read_factor(m, *stage, -1);
    case PTC_OP_MUL:
      if (!ptc_value_is_constant(op->operands[1 - step->from], &c))
        return refuse(m, "the scores are multiplied by a tensor");
      return read_factor(m, *stage, c);
    case PTC_OP_DIV:
      if (!ptc_value_is_constant(op->operands[1], &c))
        return refuse(m, "the scores are divided by a tensor");
      return read_factor(m, *stage, 1 / c);
    case PTC_OP_TANH:
      if (*stage != STAGE_SCALE)
        return refuse(m, "tanh is taken twice, or of masked or biased scores");
      *stage = STAGE_TANH;
      m->cap = 1;
      return true;
    case PTC_OP_ADD: return read_bias(m, op->operands[1 - step->from], false, stage);
    case PTC_OP_SUB:
      if (step->from == 0) return read_bias(m, op->operands[1], true, stage);
      return read_factor(m, *stage, -1) && read_bias(m, op->operands[0], false, stage);
    case PTC_OP_WHERE: return read_where(m, step, stage);
    default: return refuse(m, "the scores go through more than scale, tanh, bias and mask");
  }
}

static bool read_chain(ptc_raise_match_t *m) {
  stage_t stage = STAGE_SCALE;
  m->scale = 1;
  m->cap = 0;
  for (int32_t i = 1; i < m->num_steps; i++) {
    const ptc_op_t *op = m->steps[i].op;
    if (op == m->softmax) continue;
    if (op == m->dropout) {
      m->dropout_views = m->num_views;
      continue;
    }
    if (i > m->softmax_at && !is_view(op) && op->opcode != PTC_OP_TRANSPOSE &&
        op->opcode != PTC_OP_CAST)
      return refuse(m, "the weights are changed before the product with the values");
    if (!read_step(m, &m->steps[i], &stage)) return false;
  }
  if (stage >= STAGE_TANH && m->cap < 0) {
    // cap tanh(u) = -cap tanh(-u)
    m->cap = -m->cap;
    m->scale = -m->scale;
  }
  if (m->cap > 0) m->scale *= m->cap;
  return true;
}

bool ptc_raise_match(ptc_module_t *module, const ptc_raise_uses_t *uses, ptc_op_t *softmax,
                     ptc_raise_match_t *out_match) {
  *out_match = (ptc_raise_match_t){.module = module, .softmax = softmax};
  if (ptc_op_attr(softmax, "over")->count != 1) return false;
  search_t search = {.uses = uses, .match = out_match};
  if (!find_chain(&search)) return false;
  if (ptc_op_attr(out_match->scores, "over")->count != 1)
    return refuse(out_match, "q and key are multiplied along several dims");
  const ptc_attr_t *over = ptc_op_attr(out_match->values, "over");
  if (over->count != 1)
    return refuse(out_match, "the product with the values sums over several dims");
  if (softmax->results[0]->type->dtype != PTC_F32 ||
      out_match->values->results[0]->type->dtype != PTC_F32)
    return refuse(out_match, "it is not in f32");
  return read_chain(out_match);
}
