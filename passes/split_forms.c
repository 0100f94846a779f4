#include "passes/split_forms.h"

#include <math.h>
#include <string.h>

#include "ir/axes.h"
#include "passes/pad_masks.h"

// The op that is rewritten, and the dims that it works along.
typedef struct split_s {
  ptc_builder_t *b;
  const ptc_op_t *op;
  const char *const *over;
  int32_t num_over;
  ptc_dtype_t stat;  // in which rows are computed
} split_t;

// --- small steps; every builder hands on the NULL that follows an error

static ptc_value_t *one_op(split_t *s, ptc_opcode_t opcode, ptc_value_t *const *operands,
                           int32_t num_operands, ptc_attrs_t attrs) {
  ptc_op_t *op = ptc_build_op(s->b, opcode, operands, num_operands, 1, attrs);
  return op ? op->results[0] : NULL;
}

static ptc_value_t *binary(split_t *s, ptc_opcode_t opcode, ptc_value_t *x, ptc_value_t *y) {
  return ptc_build_binary(s->b, opcode, x, y);
}

static ptc_value_t *scaled(split_t *s, ptc_value_t *x, double factor) {
  return ptc_build_binary_const(s->b, PTC_OP_MUL, x, factor);
}

// Operand |index| in the dtype of the row statistics, its dims ordered as those of operand 0.
static ptc_value_t *operand(split_t *s, int32_t index) {
  ptc_value_t *x = ptc_build_cast(s->b, s->op->operands[index], s->stat);
  const ptc_type_t *first = s->op->operands[0]->type;
  return x && x->type->num_dims == first->num_dims ? ptc_build_fit(s->b, x, first) : x;
}

// What a partial result amounts to, on every member.
static ptc_value_t *resolve(split_t *s, ptc_value_t *x) {
  if (!x || !x->type->num_partial) return x;
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_string(s->b->module, &attrs, "axes",
                       ptc_axes_text(s->b->module, x->type->partial, x->type->num_partial));
  return one_op(s, PTC_OP_ALL_REDUCE, &x, 1, attrs);
}

// The sum or maximum of the whole rows; |x| has padding of |neutral| from here on.
static ptc_value_t *row_of(split_t *s, ptc_opcode_t opcode, ptc_value_t *x, double neutral) {
  x = ptc_mask_padding(s->b, x, s->over, s->num_over, neutral);
  return resolve(s, ptc_build_reduce(s->b, opcode, x, s->over, s->num_over));
}

static ptc_value_t *row_sum(split_t *s, ptc_value_t *x) {
  return row_of(s, PTC_OP_REDUCE_SUM, x, 0);
}

static ptc_value_t *row_max(split_t *s, ptc_value_t *x) {
  return x ? row_of(s, PTC_OP_REDUCE_MAX, x, ptc_dtype_round(x->type->dtype, -INFINITY)) : NULL;
}

static double inverse_count(const split_t *s) {
  const ptc_type_t *x = s->op->operands[0]->type;
  double count = 1;
  for (int32_t i = 0; i < s->num_over; i++)
    count *= (double)x->dims[ptc_type_find_dim(x, s->over[i])].extent;
  return 1 / count;
}

// Result |index| of the op: of its dtype, in its order of dims.
static ptc_value_t *finish(split_t *s, int32_t index, ptc_value_t *x) {
  const ptc_type_t *type = s->op->results[index]->type;
  return ptc_build_cast(s->b, ptc_build_fit(s->b, x, type), type->dtype);
}

// |index| counted from the start of this device's shard of |dim|.
static ptc_value_t *build_local_index(ptc_builder_t *b, ptc_value_t *index, const ptc_dim_t *dim) {
  if (!dim->num_axes) return index;
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_string(b->module, &attrs, "axes",
                       ptc_axes_text(b->module, dim->axes, dim->num_axes));
  ptc_op_t *shard = ptc_build_op(b, PTC_OP_AXIS_INDEX, NULL, 0, 1, attrs);
  if (!shard || !index) return NULL;
  const int64_t extent = ptc_dim_local_extent(&b->module->mesh, dim);
  ptc_value_t *start = ptc_build_cast(b, shard->results[0], index->type->dtype);
  start = ptc_build_binary_const(b, PTC_OP_MUL, start, (double)extent);
  return ptc_build_binary(b, PTC_OP_SUB, index, start);
}

// gather along |dims| of |x|, some of them sharded: a partial sum.
static ptc_value_t *local_gather(split_t *s, ptc_value_t *x, const char *const *dims,
                                 ptc_value_t *const *indices, int32_t num_dims) {
  ptc_value_t *operands[1 + PTC_MAX_DIMS] = {x};
  for (int32_t i = 0; i < num_dims; i++) {
    const int32_t at = ptc_type_find_dim(x->type, dims[i]);
    operands[1 + i] = build_local_index(s->b, indices[i], &x->type->dims[at]);
  }
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dims(s->b->module, &attrs, "dims", dims, num_dims);
  ptc_attrs_set_float(s->b->module, &attrs, "fill", 0);
  ptc_attrs_set_bool(s->b->module, &attrs, "local", true);
  return one_op(s, PTC_OP_GATHER, operands, 1 + num_dims, attrs);
}

// --- softmax

static void softmax(split_t *s, ptc_value_t **out) {
  ptc_value_t *x = operand(s, 0);
  ptc_value_t *e = ptc_build_unary(s->b, PTC_OP_EXP, binary(s, PTC_OP_SUB, x, row_max(s, x)));
  out[0] = finish(s, 0, binary(s, PTC_OP_DIV, e, row_sum(s, e)));
}

// (y, dy) -> y * (dy - sum(y * dy))
static void softmax_grad(split_t *s, ptc_value_t **out) {
  ptc_value_t *y = operand(s, 0), *dy = operand(s, 1);
  ptc_value_t *sum = row_sum(s, binary(s, PTC_OP_MUL, y, dy));
  out[0] = finish(s, 0, binary(s, PTC_OP_MUL, y, binary(s, PTC_OP_SUB, dy, sum)));
}

// --- norms

// 1 / sqrt(mean of squares of x + eps)
static ptc_value_t *inverse_deviation(split_t *s, ptc_value_t *x) {
  ptc_value_t *var = scaled(s, row_sum(s, binary(s, PTC_OP_MUL, x, x)), inverse_count(s));
  var = ptc_build_binary_const(s->b, PTC_OP_ADD, var, ptc_op_float(s->op, "eps"));
  ptc_value_t *root = ptc_build_unary(s->b, PTC_OP_SQRT, var);
  return binary(s, PTC_OP_DIV, ptc_build_constant(s->b, s->stat, 1), root);
}

static void layernorm(split_t *s, ptc_value_t **out) {
  ptc_value_t *x = operand(s, 0), *mean = scaled(s, row_sum(s, x), inverse_count(s));
  ptc_value_t *centred = binary(s, PTC_OP_SUB, x, mean), *rstd = inverse_deviation(s, centred);
  out[0] = finish(s, 0, binary(s, PTC_OP_MUL, centred, rstd));
  out[1] = finish(s, 1, mean);
  out[2] = finish(s, 2, rstd);
}

static void rmsnorm(split_t *s, ptc_value_t **out) {
  ptc_value_t *x = operand(s, 0), *rstd = inverse_deviation(s, x);
  out[0] = finish(s, 0, binary(s, PTC_OP_MUL, x, rstd));
  out[1] = finish(s, 1, rstd);
}

// With h = (x - mean) * rstd: rstd * (dy - mean(dy) - h * mean(dy * h)); rmsnorm subtracts no mean.
static void norm_grad(split_t *s, bool centres, ptc_value_t **out) {
  ptc_value_t *x = operand(s, 0), *rstd = s->op->operands[centres ? 2 : 1];
  ptc_value_t *dy = operand(s, centres ? 3 : 2);
  if (centres) x = binary(s, PTC_OP_SUB, x, s->op->operands[1]);
  ptc_value_t *h = binary(s, PTC_OP_MUL, x, rstd);
  ptc_value_t *slope = row_sum(s, binary(s, PTC_OP_MUL, dy, h));
  slope = scaled(s, slope, inverse_count(s));
  ptc_value_t *rest = dy;
  if (centres) rest = binary(s, PTC_OP_SUB, rest, scaled(s, row_sum(s, dy), inverse_count(s)));
  rest = binary(s, PTC_OP_SUB, rest, binary(s, PTC_OP_MUL, h, slope));
  out[0] = finish(s, 0, binary(s, PTC_OP_MUL, rest, rstd));
}

// --- cross entropy. Three collectives of rows, as in Megatron-LM (Shoeybi et al. 2019, arXiv:1909.08053,
// section 3): the maximum, the sum of exponentials, the target's logit.

static void cross_entropy(split_t *s, ptc_value_t **out) {
  ptc_value_t *x = operand(s, 0), *target = s->op->operands[1];
  ptc_value_t *max = row_max(s, x);
  ptc_value_t *sum = row_sum(s, ptc_build_unary(s->b, PTC_OP_EXP, binary(s, PTC_OP_SUB, x, max)));
  ptc_value_t *lse = binary(s, PTC_OP_ADD, max, ptc_build_unary(s->b, PTC_OP_LOG, sum));
  ptc_value_t *logit = local_gather(s, s->op->operands[0], s->over, &target, 1);
  logit = resolve(s, ptc_build_cast(s->b, logit, s->stat));
  ptc_value_t *ignored = ptc_build_binary_const(s->b, PTC_OP_LT, target, 0);
  ptc_value_t *nll = binary(s, PTC_OP_SUB, lse, logit);
  nll = ptc_build_where(s->b, ignored, ptc_build_constant(s->b, s->stat, 0), nll);
  out[0] = finish(s, 0, nll);
  out[1] = finish(s, 1, lse);
}

// --- argmax, all_finite, gather

// The lowest index where x is the maximum, NaN being largest.
static void argmax(split_t *s, ptc_value_t **out) {
  ptc_value_t *x = s->op->operands[0];
  const ptc_dtype_t dtype = x->type->dtype;
  const double lowest = ptc_dtype_round(dtype, -INFINITY);
  x = ptc_mask_padding(s->b, x, s->over, s->num_over, lowest);
  ptc_value_t *hit = binary(s, PTC_OP_EQ, x, row_max(s, x));
  if (ptc_dtype_is_float(dtype)) hit = binary(s, PTC_OP_OR, hit, binary(s, PTC_OP_NE, x, x));
  const ptc_type_t *type = s->op->operands[0]->type;
  ptc_value_t *index = ptc_build_iota(s->b, &type->dims[ptc_type_find_dim(type, s->over[0])]);
  ptc_value_t *below = ptc_build_unary(s->b, PTC_OP_NEG, index);
  ptc_value_t *none = ptc_build_constant(s->b, PTC_I32, -INT32_MAX);
  ptc_value_t *first = row_max(s, ptc_build_where(s->b, hit, below, none));
  out[0] = finish(s, 0, ptc_build_unary(s->b, PTC_OP_NEG, first));
}

static void all_finite(split_t *s, ptc_value_t **out) {
  const ptc_type_t *type = s->op->operands[0]->type;
  const char *dims[PTC_MAX_DIMS];
  for (int32_t i = 0; i < type->num_dims; i++) dims[i] = type->dims[i].name;
  s->over = dims;
  s->num_over = type->num_dims;
  ptc_value_t *x = ptc_mask_padding(s->b, s->op->operands[0], dims, type->num_dims, 0);
  ptc_value_t *zero = ptc_build_constant(s->b, PTC_I32, 0);
  ptc_value_t *one = ptc_build_constant(s->b, PTC_I32, 1);
  ptc_value_t *finite = ptc_build_unary(s->b, PTC_OP_IS_FINITE, x);
  ptc_value_t *bad = row_max(s, ptc_build_where(s->b, finite, zero, one));
  out[0] = binary(s, PTC_OP_LE, bad, zero);
}

static void gather(split_t *s, ptc_value_t **out) {
  out[0] = local_gather(s, s->op->operands[0], s->over, s->op->operands + 1, s->num_over);
}

static void layernorm_grad(split_t *s, ptc_value_t **out) { norm_grad(s, true, out); }
static void rmsnorm_grad(split_t *s, ptc_value_t **out) { norm_grad(s, false, out); }

// --- the table

static const struct {
  ptc_opcode_t opcode;
  const char *over;  // the attribute that names the dims; NULL: all
  void (*build)(split_t *s, ptc_value_t **out);
} forms[] = {
    {PTC_OP_SOFTMAX, "over", softmax},
    {PTC_OP_SOFTMAX_GRAD, "over", softmax_grad},
    {PTC_OP_LAYERNORM, "over", layernorm},
    {PTC_OP_LAYERNORM_GRAD, "over", layernorm_grad},
    {PTC_OP_RMSNORM, "over", rmsnorm},
    {PTC_OP_RMSNORM_GRAD, "over", rmsnorm_grad},
    {PTC_OP_CROSS_ENTROPY, "dim", cross_entropy},
    {PTC_OP_ARGMAX, "dim", argmax},
    {PTC_OP_ALL_FINITE, NULL, all_finite},
    {PTC_OP_GATHER, "dims", gather},
};

static int32_t find_form(const ptc_op_t *op) {
  for (int32_t i = 0; i < (int32_t)(sizeof(forms) / sizeof(forms[0])); i++)
    if (forms[i].opcode == op->opcode) return i;
  return -1;
}

// The dims that |op| works along; a DIM attribute is a list of one.
static void dims_along(const ptc_op_t *op, const char *name, const char *const **out_dims,
                       int32_t *out_num) {
  const ptc_attr_t *attr = ptc_op_attr(op, name);
  const bool one = attr->kind == PTC_ATTR_DIM;
  *out_dims = one ? &attr->u.s : attr->u.dims;
  *out_num = one ? 1 : attr->count;
}

static bool works_along(const ptc_op_t *op, int32_t form, const char *dim) {
  if (!forms[form].over) return true;
  const char *const *dims;
  int32_t num_dims;
  dims_along(op, forms[form].over, &dims, &num_dims);
  for (int32_t i = 0; i < num_dims; i++)
    if (dims[i] == dim) return true;
  return false;
}

bool ptc_has_split_form(const ptc_op_t *op, const ptc_type_t *const *types) {
  const int32_t form = find_form(op);
  if (form < 0) return false;
  const ptc_attr_t *fill = ptc_op_attr(op, "fill");
  if ((fill && ptc_op_float(op, "fill") != 0) || ptc_op_bool(op, "local")) return false;
  bool sharded = false;
  for (int32_t d = 0; d < types[0]->num_dims; d++) {
    const ptc_dim_t *dim = &types[0]->dims[d];
    if (!dim->num_axes || !works_along(op, form, dim->name)) continue;
    if (dim->dist != PTC_DIST_BLOCK) return false;
    sharded = true;
  }
  return sharded;
}

// Dim |dim| of a result, laid out as in the operands.
static ptc_dim_t laid_out(const ptc_op_t *op, int32_t form, const ptc_type_t *const *types,
                          ptc_dim_t dim) {
  for (int32_t i = 0; i < op->num_operands; i++) {
    // The dims that gather looks up are not those of the same name in its result.
    if (i == 0 && op->opcode == PTC_OP_GATHER && works_along(op, form, dim.name)) continue;
    const int32_t at = ptc_type_find_dim(types[i], dim.name);
    if (at >= 0) return types[i]->dims[at];
  }
  return dim;
}

void ptc_split_form_types(ptc_module_t *module, const ptc_op_t *op, const ptc_type_t *const *types,
                          const ptc_type_t **out_types) {
  const int32_t form = find_form(op);
  for (int32_t r = 0; r < op->num_results; r++) {
    const ptc_type_t *like = op->results[r]->type;
    ptc_dim_t dims[PTC_MAX_DIMS];
    for (int32_t d = 0; d < like->num_dims; d++) dims[d] = laid_out(op, form, types, like->dims[d]);
    ptc_type_t *type = ptc_type_new(&module->arena, like->dtype, dims, like->num_dims);
    out_types[r] = type;
    if (op->opcode != PTC_OP_GATHER) continue;
    ptc_axis_ref_t *partial = PTC_ARENA_ARRAY(&module->arena, ptc_axis_ref_t, 2 * PTC_MAX_AXES);
    int32_t count = 0;
    for (int32_t i = 0; i < types[0]->num_partial && count < PTC_MAX_AXES; i++)
      partial[count++] = types[0]->partial[i];
    for (int32_t d = 0; d < types[0]->num_dims; d++)
      for (int32_t a = 0; works_along(op, form, types[0]->dims[d].name) &&
                          a < types[0]->dims[d].num_axes && count < 2 * PTC_MAX_AXES;
           a++)
        partial[count++] = types[0]->dims[d].axes[a];
    ptc_axes_sort(&module->mesh, partial, count);
    type->partial = partial;
    type->num_partial = count;
  }
}

ptc_status_t ptc_split_form(ptc_builder_t *b, const ptc_op_t *op, ptc_value_t **out_results) {
  const int32_t form = find_form(op);
  const ptc_dtype_t dtype = op->operands[0]->type->dtype;
  split_t s = {.b = b, .op = op, .stat = dtype == PTC_F64 ? PTC_F64 : PTC_F32};
  if (forms[form].over) dims_along(op, forms[form].over, &s.over, &s.num_over);
  for (int32_t i = 0; i < op->num_results; i++) out_results[i] = NULL;
  forms[form].build(&s, out_results);
  for (int32_t i = 0; i < op->num_results; i++) {
    if (!out_results[i]) return PTC_INVALID_INPUT;
    if (!out_results[i]->name) out_results[i]->name = op->results[i]->name;
  }
  return PTC_OK;
}

ptc_value_t *ptc_split_scatter_add(ptc_builder_t *b, const ptc_op_t *op, const char *dim,
                                   const ptc_axis_ref_t *axes, int32_t num_axes) {
  ptc_arena_t *arena = &b->module->arena;
  const ptc_type_t *result = op->results[0]->type;
  ptc_axis_ref_t *refs = PTC_ARENA_ARRAY(arena, ptc_axis_ref_t, num_axes + 1);
  for (int32_t i = 0; i < num_axes; i++) refs[i] = axes[i];
  ptc_type_t *given = ptc_type_new(arena, result->dtype, result->dims, result->num_dims);
  ptc_dim_t *dims = PTC_ARENA_ARRAY(arena, ptc_dim_t, result->num_dims + 1);
  for (int32_t i = 0; i < result->num_dims; i++) {
    dims[i] = result->dims[i];
    if (dims[i].name != dim) continue;
    dims[i].axes = refs;
    dims[i].num_axes = num_axes;
    dims[i].dist = PTC_DIST_BLOCK;
  }
  given->dims = dims;
  const ptc_attr_t *names = ptc_op_attr(op, "dims");
  ptc_value_t *operands[1 + PTC_MAX_DIMS] = {op->operands[0]};
  for (int32_t i = 0; i < names->count; i++) {
    const ptc_dim_t *along = &dims[ptc_type_find_dim(given, names->u.dims[i])];
    operands[1 + i] = build_local_index(b, op->operands[1 + i], along);
  }
  ptc_attrs_t attrs = ptc_attrs_clone(b->module, &op->attrs);
  ptc_attrs_set_bool(b->module, &attrs, "local", true);
  ptc_op_t *scatter =
      ptc_build_op_as(b, PTC_OP_SCATTER_ADD, operands, op->num_operands, 1, attrs, given);
  return scatter ? scatter->results[0] : NULL;
}
