// Reductions, and the composites over rows spelled out: softmax, norms, cross entropy, rope. Inside, values
// are f32 (f64 for f64 operands).
#include <math.h>

#include "passes/build_impl.h"

ptc_kx_t ptc_kbuild_reduce(ptc_kbuild_t *b, const ptc_op_t *op, ptc_kx_reduce_t reduce,
                           ptc_dtype_t dtype, ptc_kx_t x, uint32_t over, bool fma) {
  if (x < 0) return PTC_KX_NONE;
  if (over != b->row && over != b->col && over != (b->row | b->col))
    return ptc_kbuild_unsupported(b, op, "its reduction is over other dims than the rows");
  return ptc_kb_expr(&b->kb, (ptc_kexpr_t){.kind = PTC_KX_REDUCE,
                                           .dtype = dtype,
                                           .reduce = reduce,
                                           .fma = fma,
                                           .over = over,
                                           .num_args = 1,
                                           .args = &x});
}

// --- reductions. The operand is at the result's index, and at the loops' positions along the others.

static ptc_kx_t reduced_operand(ptc_kbuild_t *b, const ptc_op_t *op, int32_t operand,
                                int32_t result, const ptc_kx_t *index) {
  const ptc_kx_t guard = b->guard;
  b->guard = PTC_KX_NONE;
  const ptc_kx_t x = ptc_kbuild_operand(b, op, operand, op->results[result]->type, index);
  b->guard = guard;
  return x;
}

ptc_kx_t ptc_kbuild_reduce_sum(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                               const ptc_kx_t *index) {
  const ptc_dtype_t dtype = op->results[result]->type->dtype;
  ptc_kx_t x = reduced_operand(b, op, 0, result, index);
  if (dtype == PTC_F64 || ptc_dtype_is_int(dtype)) x = ptc_kbuild_cast(b, dtype, x);
  // A product that is a value of its own was rounded: no fma.
  return ptc_kbuild_reduce(b, op, PTC_KX_SUM, dtype, x,
                           ptc_kbuild_loops(b, ptc_op_attr(op, "over")), false);
}

ptc_kx_t ptc_kbuild_reduce_max(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                               const ptc_kx_t *index) {
  return ptc_kbuild_reduce(b, op, PTC_KX_MAX, op->results[result]->type->dtype,
                           reduced_operand(b, op, 0, result, index),
                           ptc_kbuild_loops(b, ptc_op_attr(op, "over")), false);
}

ptc_kx_t ptc_kbuild_argmax(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                           const ptc_kx_t *index) {
  return ptc_kbuild_reduce(b, op, PTC_KX_ARGMAX, PTC_I32, reduced_operand(b, op, 0, result, index),
                           ptc_kbuild_loops(b, ptc_op_attr(op, "dim")), false);
}

// As a nest: products are not rounded.
ptc_kx_t ptc_kbuild_einsum(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                           const ptc_kx_t *index) {
  const ptc_dtype_t dtype = op->results[result]->type->dtype;
  const bool wider = dtype == PTC_F64 || ptc_dtype_is_int(dtype);
  const ptc_dtype_t wide = wider ? dtype : ptc_kbuild_wide(op->operands[0]->type->dtype);
  const ptc_kx_t x = ptc_kbuild_cast(b, wide, reduced_operand(b, op, 0, result, index));
  const ptc_kx_t y = ptc_kbuild_cast(b, wide, reduced_operand(b, op, 1, result, index));
  const ptc_kx_t product = ptc_kbuild_2(b, PTC_OP_MUL, wide, x, y);
  const uint32_t over = ptc_kbuild_loops(b, ptc_op_attr(op, "over"));
  if (!over) return product;
  return ptc_kbuild_reduce(b, op, PTC_KX_SUM, dtype, product, over, true);
}

static uint32_t loops_of_type(const ptc_kbuild_t *b, const ptc_type_t *type) {
  uint32_t mask = 0;
  for (int32_t i = 0; i < type->num_dims; i++) {
    const int32_t loop = ptc_kbuild_loop(b, type->dims[i].name);
    if (loop >= 0) mask |= UINT32_C(1) << loop;
  }
  return mask;
}

ptc_kx_t ptc_kbuild_all_finite(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                               const ptc_kx_t *index) {
  (void)result;
  (void)index;
  const ptc_kx_t x = ptc_kbuild_here(b, op->operands[0]);
  const ptc_kx_t finite = ptc_kbuild_1(b, PTC_OP_IS_FINITE, PTC_BOOL, x);
  const uint32_t over = loops_of_type(b, op->operands[0]->type);
  return over ? ptc_kbuild_reduce(b, op, PTC_KX_ALL, PTC_BOOL, finite, over, false) : finite;
}

// --- rows

// A row of a composite: along the loops |over|, |count| elements, computed in |wide|.
typedef struct row_s {
  ptc_kbuild_t *b;
  const ptc_op_t *op;
  const ptc_type_t *type;  // of the result that is at |index|
  const ptc_kx_t *index;
  ptc_dtype_t wide;
  uint32_t over;
  double count;
} row_t;

static row_t row_of(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result, const ptc_kx_t *index) {
  const ptc_attr_t *over = ptc_op_attr(op, "over");
  if (!over) over = ptc_op_attr(op, "dim");
  row_t row = {.b = b,
               .op = op,
               .type = op->results[result]->type,
               .index = index,
               .wide = ptc_kbuild_wide(op->operands[0]->type->dtype),
               .over = ptc_kbuild_loops(b, over),
               .count = 1};
  for (int32_t i = 0; i < b->kb.kernel->num_dims; i++)
    if (row.over >> i & 1) row.count *= (double)b->kb.kernel->dims[i].extent;
  return row;
}

// Operand |operand| at the result's index.
static ptc_kx_t at(const row_t *row, int32_t operand) {
  return ptc_kbuild_cast(row->b, row->wide,
                         ptc_kbuild_operand(row->b, row->op, operand, row->type, row->index));
}

// Operand |operand| at the loops' positions along the row.
static ptc_kx_t along(const row_t *row, int32_t operand) {
  ptc_kbuild_t *b = row->b;
  ptc_kx_t index[PTC_MAX_DIMS];
  for (int32_t i = 0; i < row->type->num_dims; i++) {
    const int32_t loop = ptc_kbuild_loop(b, row->type->dims[i].name);
    const bool in_row = loop >= 0 && (row->over >> loop & 1);
    index[i] = in_row ? ptc_kb_index(&b->kb, loop) : row->index[i];
  }
  const ptc_kx_t guard = b->guard;
  b->guard = PTC_KX_NONE;
  const ptc_kx_t x = ptc_kbuild_operand(b, row->op, operand, row->type, index);
  b->guard = guard;
  return ptc_kbuild_cast(b, row->wide, x);
}

static ptc_kx_t op2(const row_t *row, ptc_opcode_t opcode, ptc_kx_t x, ptc_kx_t y) {
  return ptc_kbuild_2(row->b, opcode, row->wide, x, y);
}
static ptc_kx_t op1(const row_t *row, ptc_opcode_t opcode, ptc_kx_t x) {
  return ptc_kbuild_1(row->b, opcode, row->wide, x);
}
static ptc_kx_t constant(const row_t *row, double value) {
  return ptc_kb_const(&row->b->kb, row->wide, ptc_dtype_round(row->wide, value));
}
static ptc_kx_t total(const row_t *row, ptc_kx_reduce_t reduce, ptc_kx_t x) {
  return ptc_kbuild_reduce(row->b, row->op, reduce, row->wide, x, row->over, false);
}
// The sum of x * y.
static ptc_kx_t dot(const row_t *row, ptc_kx_t x, ptc_kx_t y) {
  return ptc_kbuild_reduce(row->b, row->op, PTC_KX_SUM, row->wide, op2(row, PTC_OP_MUL, x, y),
                           row->over, true);
}
static ptc_kx_t mean_of(const row_t *row, ptc_kx_t sum) {
  return op2(row, PTC_OP_DIV, sum, constant(row, row->count));
}

ptc_kx_t ptc_kbuild_softmax(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                            const ptc_kx_t *index) {
  const row_t row = row_of(b, op, result, index);
  const ptc_kx_t x = along(&row, 0), max = total(&row, PTC_KX_MAX, x);
  const ptc_kx_t e = op1(&row, PTC_OP_EXP, op2(&row, PTC_OP_SUB, x, max));
  const ptc_kx_t sum = total(&row, PTC_KX_SUM, e);
  const ptc_kx_t here = op1(&row, PTC_OP_EXP, op2(&row, PTC_OP_SUB, at(&row, 0), max));
  return op2(&row, PTC_OP_DIV, here, sum);
}

ptc_kx_t ptc_kbuild_softmax_grad(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                                 const ptc_kx_t *index) {
  const row_t row = row_of(b, op, result, index);
  const ptc_kx_t sum = dot(&row, along(&row, 0), along(&row, 1));
  return op2(&row, PTC_OP_MUL, at(&row, 0), op2(&row, PTC_OP_SUB, at(&row, 1), sum));
}

// 1 / sqrt(mean of squares of x + eps)
static ptc_kx_t inverse_deviation(const row_t *row, ptc_kx_t x) {
  const ptc_kx_t var = mean_of(row, dot(row, x, x));
  const ptc_kx_t shifted = op2(row, PTC_OP_ADD, var, constant(row, ptc_op_float(row->op, "eps")));
  return op2(row, PTC_OP_DIV, constant(row, 1), op1(row, PTC_OP_SQRT, shifted));
}

ptc_kx_t ptc_kbuild_layernorm(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                              const ptc_kx_t *index) {
  const row_t row = row_of(b, op, result, index);
  const ptc_kx_t centre = mean_of(&row, total(&row, PTC_KX_SUM, along(&row, 0)));
  if (result == 1) return centre;
  const ptc_kx_t rstd = inverse_deviation(&row, op2(&row, PTC_OP_SUB, along(&row, 0), centre));
  if (result == 2) return rstd;
  return op2(&row, PTC_OP_MUL, op2(&row, PTC_OP_SUB, at(&row, 0), centre), rstd);
}

ptc_kx_t ptc_kbuild_rmsnorm(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                            const ptc_kx_t *index) {
  const row_t row = row_of(b, op, result, index);
  const ptc_kx_t rstd = inverse_deviation(&row, along(&row, 0));
  return result == 1 ? rstd : op2(&row, PTC_OP_MUL, at(&row, 0), rstd);
}

// With h = (x - mean) * rstd: rstd * (dy - mean(dy) - h * mean(dy * h)); rmsnorm subtracts no mean.
static ptc_kx_t norm_grad(const row_t *row, int32_t mean_at, int32_t rstd_at, int32_t dy_at) {
  const ptc_kx_t rstd = at(row, rstd_at), centre = mean_at < 0 ? PTC_KX_NONE : at(row, mean_at);
  ptc_kx_t x = along(row, 0), x_here = at(row, 0);
  if (mean_at >= 0) {
    x = op2(row, PTC_OP_SUB, x, centre);
    x_here = op2(row, PTC_OP_SUB, x_here, centre);
  }
  const ptc_kx_t h = op2(row, PTC_OP_MUL, x, rstd), dy = along(row, dy_at);
  const ptc_kx_t slope = mean_of(row, dot(row, dy, h));
  const ptc_kx_t h_here = op2(row, PTC_OP_MUL, x_here, rstd);
  ptc_kx_t rest = at(row, dy_at);
  if (mean_at >= 0) rest = op2(row, PTC_OP_SUB, rest, mean_of(row, total(row, PTC_KX_SUM, dy)));
  rest = op2(row, PTC_OP_SUB, rest, op2(row, PTC_OP_MUL, h_here, slope));
  return op2(row, PTC_OP_MUL, rstd, rest);
}

ptc_kx_t ptc_kbuild_layernorm_grad(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                                   const ptc_kx_t *index) {
  const row_t row = row_of(b, op, result, index);
  return norm_grad(&row, 1, 2, 3);
}

ptc_kx_t ptc_kbuild_rmsnorm_grad(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                                 const ptc_kx_t *index) {
  const row_t row = row_of(b, op, result, index);
  return norm_grad(&row, -1, 1, 2);
}

// --- cross entropy

// The target in its own dtype, and whether it counts: 0 <= target.
static ptc_kx_t target_of(const row_t *row, ptc_kx_t *out_counts) {
  ptc_kbuild_t *b = row->b;
  const ptc_dtype_t dtype = row->op->operands[1]->type->dtype;
  const ptc_kx_t target = ptc_kbuild_operand(b, row->op, 1, row->type, row->index);
  *out_counts = ptc_kbuild_2(b, PTC_OP_LE, PTC_BOOL, ptc_kb_const(&b->kb, dtype, 0), target);
  return target;
}

ptc_kx_t ptc_kbuild_cross_entropy(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                                  const ptc_kx_t *index) {
  const row_t row = row_of(b, op, result, index);
  const ptc_kx_t x = along(&row, 0), max = total(&row, PTC_KX_MAX, x);
  const ptc_kx_t e = op1(&row, PTC_OP_EXP, op2(&row, PTC_OP_SUB, x, max));
  const ptc_kx_t lse =
      op2(&row, PTC_OP_ADD, max, op1(&row, PTC_OP_LOG, total(&row, PTC_KX_SUM, e)));
  if (result == 1) return lse;
  ptc_kx_t counts;
  const ptc_kx_t target = target_of(&row, &counts);
  if (target < 0) return PTC_KX_NONE;
  // The target's logit, by a load of its own.
  const ptc_type_t *logits = op->operands[0]->type;
  ptc_kx_t picked[PTC_MAX_DIMS];
  for (int32_t i = 0; i < logits->num_dims; i++) {
    const int32_t d = ptc_type_find_dim(row.type, logits->dims[i].name);
    picked[i] = d >= 0 ? index[d] : target;
  }
  const ptc_kx_t guard = b->guard;
  const bool checked = b->checked;
  b->guard = ptc_kbuild_both(b, guard, counts);
  b->checked = true;
  const ptc_kx_t logit = ptc_kbuild_cast(b, row.wide, ptc_kbuild_value(b, op->operands[0], picked));
  b->guard = guard;
  b->checked = checked;
  return ptc_kbuild_select(b, counts, op2(&row, PTC_OP_SUB, lse, logit), constant(&row, 0));
}

// (exp(logits - lse) - onehot) * dnll; a row with a negative target has no gradient.
ptc_kx_t ptc_kbuild_cross_entropy_grad(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                                       const ptc_kx_t *index) {
  const row_t row = row_of(b, op, result, index);
  ptc_kx_t counts;
  const ptc_kx_t target = target_of(&row, &counts);
  const int32_t d = ptc_type_find_dim(row.type, ptc_op_string(op, "dim"));
  const ptc_kx_t k = ptc_kbuild_cast(b, op->operands[1]->type->dtype,
                                     ptc_kbuild_global_index(b, &row.type->dims[d], index[d]));
  const ptc_kx_t hit = ptc_kbuild_2(b, PTC_OP_EQ, PTC_BOOL, k, target);
  const ptc_kx_t onehot = ptc_kbuild_select(b, hit, constant(&row, 1), constant(&row, 0));
  const ptc_kx_t p = op1(&row, PTC_OP_EXP, op2(&row, PTC_OP_SUB, at(&row, 0), at(&row, 2)));
  const ptc_kx_t slope = op2(&row, PTC_OP_SUB, p, onehot);
  return ptc_kbuild_select(b, counts, op2(&row, PTC_OP_MUL, slope, at(&row, 3)), constant(&row, 0));
}

// --- rope

bool ptc_rope_turns_all(const ptc_op_t *op) {
  const ptc_type_t *x = op->operands[0]->type;
  const int64_t turned = ptc_op_int(op, "dims");
  return turned > 0 && turned % 2 == 0 &&
         x->dims[ptc_type_find_dim(x, ptc_op_string(op, "dim"))].extent == turned;
}

// Element k of a turned pair (x0, x1): x0 cos - x1 sin or x1 cos + x0 sin. The angle is f64: positions are
// large, and what counts is the angle modulo a turn.
ptc_kx_t ptc_kbuild_rope(ptc_kbuild_t *b, const ptc_op_t *op, int32_t result,
                         const ptc_kx_t *index) {
  const row_t row = row_of(b, op, result, index);
  const int32_t d = ptc_type_find_dim(row.type, ptc_op_string(op, "dim"));
  const int64_t turned = ptc_op_int(op, "dims"), half = turned / 2;
  const bool halves = ptc_op_string(op, "style")[0] == 'h';
  const int64_t width = ptc_kbuild_extent(b, &row.type->dims[d]);
  if (half == 0) return at(&row, 0);
  const ptc_kx_t k = index[d];
  // Whether k is the first of its pair; the pair's number; the partner.
  ptc_kx_t first, pair, partner;
  if (halves) {
    first = ptc_kbuild_2(b, PTC_OP_LT, PTC_BOOL, k, ptc_kbuild_int(b, half));
    pair = ptc_kbuild_select(b, first, k, ptc_kbuild_shift(b, k, -half));
    partner = ptc_kbuild_select(b, first, ptc_kbuild_shift(b, k, half), pair);
  } else {
    const ptc_kx_t odd = ptc_kbuild_2(b, PTC_OP_MOD, PTC_I32, k, ptc_kbuild_int(b, 2));
    first = ptc_kbuild_2(b, PTC_OP_EQ, PTC_BOOL, odd, ptc_kbuild_int(b, 0));
    pair = ptc_kbuild_2(b, PTC_OP_SUB, PTC_I32, k, odd);  // twice the number
    partner = ptc_kbuild_select(b, first, ptc_kbuild_shift(b, k, 1), pair);
  }
  ptc_kx_t guard = PTC_KX_NONE;
  if (turned < width) guard = ptc_kbuild_2(b, PTC_OP_LT, PTC_BOOL, k, ptc_kbuild_int(b, turned));
  ptc_kx_t own[PTC_MAX_DIMS];
  const ptc_type_t *x_type = op->operands[0]->type;
  for (int32_t i = 0; i < x_type->num_dims; i++)
    own[i] = x_type->dims[i].name == row.type->dims[d].name
                 ? partner
                 : index[ptc_type_find_dim(row.type, x_type->dims[i].name)];
  const ptc_kx_t outer = b->guard;
  b->guard = ptc_kbuild_both(b, outer, guard);
  const ptc_kx_t other = ptc_kbuild_cast(b, row.wide, ptc_kbuild_value(b, op->operands[0], own));
  b->guard = outer;
  // base^(-2 i / turned) / scale
  const double rate = log(ptc_op_float(op, "base")) * (halves ? -2.0 : -1.0) / (double)turned;
  const double scale = ptc_attrs_float(&op->attrs, "scale", 1);
  ptc_kx_t frequency = ptc_kbuild_2(b, PTC_OP_MUL, PTC_F64, ptc_kbuild_cast(b, PTC_F64, pair),
                                    ptc_kb_const(&b->kb, PTC_F64, rate));
  frequency = ptc_kbuild_1(b, PTC_OP_EXP, PTC_F64, frequency);
  const ptc_kx_t position =
      ptc_kbuild_cast(b, PTC_F64, ptc_kbuild_operand(b, op, 1, row.type, index));
  ptc_kx_t angle = ptc_kbuild_2(b, PTC_OP_MUL, PTC_F64, position, frequency);
  if (scale != 1)
    angle = ptc_kbuild_2(b, PTC_OP_DIV, PTC_F64, angle, ptc_kb_const(&b->kb, PTC_F64, scale));
  const ptc_kx_t c = ptc_kbuild_cast(b, row.wide, ptc_kbuild_1(b, PTC_OP_COS, PTC_F64, angle));
  const ptc_kx_t s = ptc_kbuild_cast(b, row.wide, ptc_kbuild_1(b, PTC_OP_SIN, PTC_F64, angle));
  const ptc_kx_t x = at(&row, 0);
  const ptc_kx_t straight = op2(&row, PTC_OP_MUL, x, c), cross = op2(&row, PTC_OP_MUL, other, s);
  const bool inverse = ptc_op_bool(op, "inverse");
  const ptc_kx_t less = op2(&row, PTC_OP_SUB, straight, cross);
  const ptc_kx_t more = op2(&row, PTC_OP_ADD, straight, cross);
  const ptc_kx_t turn = ptc_kbuild_select(b, first, inverse ? more : less, inverse ? less : more);
  return guard < 0 ? turn : ptc_kbuild_select(b, guard, turn, x);
}
