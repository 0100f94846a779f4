// The algebraic rules of canonicalize, one small function each.
//
// A rule may change a finite result by no more than rounding in exact mode and, in typed mode, not
// at all: values that are not representable are never folded, and no cast is dropped that rounds.
// Infinities and NaN stay what they are: x * 0, x - x and x / x are left alone. The sign of a zero
// is the one thing that may change (-0 + 0, 0 - x).
#include <math.h>
#include <string.h>

#include "ir/op.h"
#include "passes/pass.h"
#include "passes/rewrite.h"
#include "passes/simplify.h"

// Returns what stands for the (only) result of |op|, of the same type, or NULL if the rule does not
// apply. New ops go before |op|.
typedef ptc_value_t *(*rule_fn_t)(ptc_builder_t *b, const ptc_op_t *op);

static const ptc_type_t *type_of(const ptc_op_t *op) { return op->results[0]->type; }

static ptc_value_t *if_same_type(ptc_value_t *value, const ptc_op_t *op) {
  return ptc_type_equal(value->type, type_of(op)) ? value : NULL;
}

// The operand of the op that defines |value| if it has that opcode.
static ptc_value_t *operand_of(const ptc_value_t *value, ptc_opcode_t opcode) {
  return value->def && value->def->opcode == opcode ? value->def->operands[0] : NULL;
}

static bool is_constant(const ptc_value_t *value, double wanted) {
  double c;
  return ptc_value_is_constant(value, &c) && c == wanted;
}

// Builds an op like |op| on other operands; NULL if its type comes out otherwise.
static ptc_value_t *rebuild(ptc_builder_t *b, const ptc_op_t *op, ptc_value_t *const *operands,
                            ptc_attrs_t attrs) {
  ptc_op_t *made = ptc_build_op(b, op->opcode, operands, op->num_operands, 1, attrs);
  if (!made) return NULL;
  made->remat = op->remat;
  if (ptc_type_equal(made->results[0]->type, type_of(op))) return made->results[0];
  ptc_op_remove(made);
  return NULL;
}

// --- identities: the operand |at| is neutral
static ptc_value_t *drop_neutral(const ptc_op_t *op, int at, double neutral) {
  return is_constant(op->operands[at], neutral) ? if_same_type(op->operands[1 - at], op) : NULL;
}

static ptc_value_t *add_zero(ptc_builder_t *b, const ptc_op_t *op) {
  (void)b;
  ptc_value_t *x = drop_neutral(op, 1, 0);
  return x ? x : drop_neutral(op, 0, 0);
}

static ptc_value_t *mul_one(ptc_builder_t *b, const ptc_op_t *op) {
  (void)b;
  ptc_value_t *x = drop_neutral(op, 1, 1);
  return x ? x : drop_neutral(op, 0, 1);
}

static ptc_value_t *right_zero(ptc_builder_t *b, const ptc_op_t *op) {
  (void)b;
  return drop_neutral(op, 1, 0);
}

static ptc_value_t *right_one(ptc_builder_t *b, const ptc_op_t *op) {
  (void)b;
  return drop_neutral(op, 1, 1);
}

static ptc_value_t *mul_minus_one(ptc_builder_t *b, const ptc_op_t *op) {
  ptc_value_t *x = drop_neutral(op, 1, -1);
  if (!x) x = drop_neutral(op, 0, -1);
  return x ? ptc_build_unary(b, PTC_OP_NEG, x) : NULL;
}

static ptc_value_t *pow_two(ptc_builder_t *b, const ptc_op_t *op) {
  ptc_value_t *x = drop_neutral(op, 1, 2);
  return x ? ptc_build_binary(b, PTC_OP_MUL, x, x) : NULL;
}

// --- signs
static ptc_value_t *neg_neg(ptc_builder_t *b, const ptc_op_t *op) {
  (void)b;
  return operand_of(op->operands[0], PTC_OP_NEG);
}

static ptc_value_t *not_not(ptc_builder_t *b, const ptc_op_t *op) {
  (void)b;
  return operand_of(op->operands[0], PTC_OP_NOT);
}

static ptc_value_t *zero_minus(ptc_builder_t *b, const ptc_op_t *op) {
  ptc_value_t *x = drop_neutral(op, 0, 0);
  return x ? ptc_build_unary(b, PTC_OP_NEG, x) : NULL;
}

static ptc_value_t *binary_if_same(ptc_builder_t *b, const ptc_op_t *op, ptc_opcode_t opcode,
                                   ptc_value_t *x, ptc_value_t *y) {
  ptc_value_t *made = ptc_build_binary(b, opcode, x, y);
  if (!made || ptc_type_equal(made->type, type_of(op))) return made;
  ptc_op_remove(made->def);
  return NULL;
}

static ptc_value_t *sub_neg(ptc_builder_t *b, const ptc_op_t *op) {
  ptc_value_t *y = operand_of(op->operands[1], PTC_OP_NEG);
  return y ? binary_if_same(b, op, PTC_OP_ADD, op->operands[0], y) : NULL;
}

static ptc_value_t *add_neg(ptc_builder_t *b, const ptc_op_t *op) {
  ptc_value_t *y = operand_of(op->operands[1], PTC_OP_NEG);
  if (y) return binary_if_same(b, op, PTC_OP_SUB, op->operands[0], y);
  ptc_value_t *x = operand_of(op->operands[0], PTC_OP_NEG);
  return x ? binary_if_same(b, op, PTC_OP_SUB, op->operands[1], x) : NULL;
}

// --- views, broadcasts, casts
static ptc_value_t *same_as_operand(ptc_builder_t *b, const ptc_op_t *op) {
  (void)b;
  return if_same_type(op->operands[0], op);
}

// Before the precision pass, a cast from f32 to f32 says where the model wants f32.
static ptc_value_t *same_cast(ptc_builder_t *b, const ptc_op_t *op) {
  return b->module->properties & PTC_PROPERTY_PRECISION ? same_as_operand(b, op) : NULL;
}

static ptc_value_t *transpose_chain(ptc_builder_t *b, const ptc_op_t *op) {
  ptc_value_t *x = operand_of(op->operands[0], PTC_OP_TRANSPOSE);
  return x ? rebuild(b, op, &x, ptc_attrs_clone(b->module, &op->attrs)) : NULL;
}

// |x| broadcast to the dims (and their sharding) of op's result.
static ptc_value_t *broadcast_like(ptc_builder_t *b, const ptc_op_t *op, ptc_value_t *x) {
  ptc_value_t *made = ptc_build_broadcast(b, x, type_of(op)->dims, type_of(op)->num_dims);
  if (!made || ptc_type_equal(made->type, type_of(op))) return made;
  ptc_op_remove(made->def);
  return NULL;
}

// broadcast reorders dims itself.
static ptc_value_t *broadcast_chain(ptc_builder_t *b, const ptc_op_t *op) {
  ptc_value_t *x = operand_of(op->operands[0], PTC_OP_BROADCAST);
  if (!x) x = operand_of(op->operands[0], PTC_OP_TRANSPOSE);
  return x ? broadcast_like(b, op, x) : NULL;
}

static ptc_value_t *transpose_broadcast(ptc_builder_t *b, const ptc_op_t *op) {
  ptc_value_t *x = operand_of(op->operands[0], PTC_OP_BROADCAST);
  return x ? broadcast_like(b, op, x) : NULL;
}

// rename(rename(x)): the first's new names are the second's old ones, where they meet.
static ptc_value_t *rename_chain(ptc_builder_t *b, const ptc_op_t *op) {
  ptc_value_t *x = operand_of(op->operands[0], PTC_OP_RENAME);
  if (!x || x->type->num_dims != type_of(op)->num_dims) return NULL;
  const char *from[PTC_MAX_DIMS], *to[PTC_MAX_DIMS];
  int32_t count = 0;
  for (int32_t i = 0; i < x->type->num_dims; i++) {  // a rename keeps positions
    if (x->type->dims[i].name == type_of(op)->dims[i].name) continue;
    from[count] = x->type->dims[i].name;
    to[count++] = type_of(op)->dims[i].name;
  }
  return count == 0 ? if_same_type(x, op) : ptc_build_rename(b, x, from, to, count);
}

static ptc_value_t *inverse_view(const ptc_op_t *op, ptc_opcode_t inverse) {
  ptc_value_t *x = operand_of(op->operands[0], inverse);
  return x ? if_same_type(x, op) : NULL;
}

static ptc_value_t *split_merge(ptc_builder_t *b, const ptc_op_t *op) {
  (void)b;
  return inverse_view(op, PTC_OP_MERGE);
}

static ptc_value_t *merge_split(ptc_builder_t *b, const ptc_op_t *op) {
  (void)b;
  return inverse_view(op, PTC_OP_SPLIT);
}

static ptc_value_t *ungroup_group(ptc_builder_t *b, const ptc_op_t *op) {
  (void)b;
  return inverse_view(op, PTC_OP_LIST_GROUP);
}

static ptc_value_t *group_ungroup(ptc_builder_t *b, const ptc_op_t *op) {
  (void)b;
  return inverse_view(op, PTC_OP_LIST_UNGROUP);
}

static ptc_value_t *concat_one(ptc_builder_t *b, const ptc_op_t *op) {
  (void)b;
  return op->num_operands == 1 ? if_same_type(op->operands[0], op) : NULL;
}

// Whether every value of |a| is one of |b|.
static bool dtype_holds(ptc_dtype_t b, ptc_dtype_t a) {
  static const int significand[PTC_NUM_DTYPES] = {
      [PTC_BOOL] = 1, [PTC_I32] = 31, [PTC_I64] = 63, [PTC_F16] = 11,
      [PTC_BF16] = 8, [PTC_F32] = 24, [PTC_F64] = 53};
  if (a == b) return true;
  if (b == PTC_BOOL) return false;
  if (ptc_dtype_is_float(a) && ptc_dtype_is_int(b)) return false;
  if (a == PTC_BF16 && b == PTC_F16) return false;  // the exponent
  return significand[b] >= significand[a];
}

// A cast that loses nothing, then another: the second alone.
static ptc_value_t *cast_cast(ptc_builder_t *b, const ptc_op_t *op) {
  ptc_value_t *x = operand_of(op->operands[0], PTC_OP_CAST);
  if (!x || !dtype_holds(op->operands[0]->type->dtype, x->type->dtype)) return NULL;
  if (op->operands[0]->type->dtype == type_of(op)->dtype) return NULL;  // same_cast decides
  return ptc_build_cast(b, x, type_of(op)->dtype);
}

// An elementwise op does itself what a broadcast of an operand does, if another operand brings the
// dims. Not dropout: its numbers belong to places of its result, which stays the same, but x alone
// brings dims.
static ptc_value_t *ewise_broadcast(ptc_builder_t *b, const ptc_op_t *op) {
  if (op->num_operands < 2 || ptc_op_has_trait(op, PTC_TRAIT_RANDOM)) return NULL;
  for (int32_t i = 0; i < op->num_operands; i++) {
    ptc_value_t *x = operand_of(op->operands[i], PTC_OP_BROADCAST);
    if (!x) x = operand_of(op->operands[i], PTC_OP_TRANSPOSE);
    if (!x) continue;
    ptc_value_t *operands[3] = {op->operands[0], op->operands[1],
                                op->num_operands > 2 ? op->operands[2] : NULL};
    operands[i] = x;
    ptc_value_t *made = rebuild(b, op, operands, ptc_attrs_clone(b->module, &op->attrs));
    if (made) return made;
  }
  return NULL;
}

// f(broadcast(x)) = broadcast(f(x)): less to compute.
static ptc_value_t *unary_broadcast(ptc_builder_t *b, const ptc_op_t *op) {
  if (op->num_operands != 1) return NULL;
  ptc_value_t *x = operand_of(op->operands[0], PTC_OP_BROADCAST);
  if (!x || x->type->num_counts > 0) return NULL;
  ptc_op_t *inner = ptc_build_op(b, op->opcode, &x, 1, 1, ptc_attrs_clone(b->module, &op->attrs));
  if (!inner) return NULL;
  inner->remat = op->remat;
  ptc_value_t *made = broadcast_like(b, op, inner->results[0]);
  if (made)
    made->def->remat = op->remat;
  else
    ptc_op_remove(inner);
  return made;
}

static void names_of(const ptc_type_t *type, const char **out) {
  for (int32_t i = 0; i < type->num_dims; i++) out[i] = type->dims[i].name;
}

// --- transposes move towards their users: what goes by names drops them
// |op| on |operands| and then in the order of dims that op's result has.
static ptc_value_t *transpose_after(ptc_builder_t *b, const ptc_op_t *op, ptc_value_t **operands) {
  ptc_op_t *inner = ptc_build_op(b, op->opcode, operands, op->num_operands, 1,
                                 ptc_attrs_clone(b->module, &op->attrs));
  if (!inner) return NULL;
  inner->remat = op->remat;
  const char *names[PTC_MAX_DIMS];
  names_of(type_of(op), names);
  ptc_value_t *made = ptc_build_transpose(b, inner->results[0], names, type_of(op)->num_dims);
  if (made && ptc_type_equal(made->type, type_of(op))) {
    made->def->remat = op->remat;
    return made;
  }
  if (made) ptc_op_remove(made->def);
  ptc_op_remove(inner);
  return NULL;
}

static bool same_order(const ptc_type_t *a, const ptc_type_t *b) {
  for (int32_t i = 0; i < a->num_dims; i++)
    if (a->dims[i].name != b->dims[i].name) return false;
  return true;
}

// An elementwise op whose operands with all dims are transposed alike; what is broadcast may lie in any order.
static ptc_value_t *ewise_transpose(ptc_builder_t *b, const ptc_op_t *op) {
  if (ptc_op_has_trait(op, PTC_TRAIT_RANDOM)) return NULL;  // its numbers belong to places
  ptc_value_t *operands[3] = {0}, *lead = NULL;
  for (int32_t i = 0; i < op->num_operands; i++) {
    operands[i] = op->operands[i];
    if (operands[i]->type->num_dims < type_of(op)->num_dims) continue;
    operands[i] = operand_of(operands[i], PTC_OP_TRANSPOSE);
    if (!operands[i] || (lead && !same_order(lead->type, operands[i]->type))) return NULL;
    lead = operands[i];
  }
  return lead ? transpose_after(b, op, operands) : NULL;
}

static bool has_name(const ptc_attr_t *attr, const char *name) {
  for (int32_t i = 0; i < attr->count; i++)
    if (attr->u.dims[i] == name) return true;
  return false;
}

// The dims that are reduced must follow one another as before: a sum keeps its bits.
static ptc_value_t *reduce_transpose(ptc_builder_t *b, const ptc_op_t *op) {
  ptc_value_t *x = operand_of(op->operands[0], PTC_OP_TRANSPOSE);
  if (!x) return NULL;
  const ptc_attr_t *over = ptc_op_attr(op, "over");
  const ptc_type_t *wide = op->operands[0]->type;
  for (int32_t i = 0, k = 0; i < wide->num_dims; i++) {
    if (!has_name(over, wide->dims[i].name)) continue;
    while (!has_name(over, x->type->dims[k].name)) k++;
    if (x->type->dims[k++].name != wide->dims[i].name) return NULL;
  }
  return transpose_after(b, op, &x);
}

// einsum(broadcast(x), y): x itself, if y has every dim that the broadcast adds and none of them is
// contracted. Also a transposed operand: einsum goes by names.
static ptc_value_t *einsum_broadcast(ptc_builder_t *b, const ptc_op_t *op) {
  const ptc_attr_t *over = ptc_op_attr(op, "over");
  for (int32_t i = 0; i < 2; i++) {
    const ptc_value_t *wide = op->operands[i], *other = op->operands[1 - i];
    ptc_value_t *x = operand_of(wide, PTC_OP_BROADCAST);
    if (!x) x = operand_of(wide, PTC_OP_TRANSPOSE);
    if (!x) continue;
    bool fits = true;
    for (int32_t d = 0; d < wide->type->num_dims; d++) {
      const char *name = wide->type->dims[d].name;
      if (ptc_type_has_dim(x->type, name)) continue;
      fits &= ptc_type_has_dim(other->type, name) && !(over && has_name(over, name));
    }
    if (!fits) continue;
    ptc_value_t *operands[2] = {op->operands[0], op->operands[1]};
    operands[i] = x;
    const char *names[PTC_MAX_DIMS];
    names_of(type_of(op), names);
    ptc_attrs_t attrs = ptc_attrs_clone(b->module, &op->attrs);
    ptc_attrs_set_dims(b->module, &attrs, "dims", names, type_of(op)->num_dims);
    ptc_value_t *made = rebuild(b, op, operands, attrs);
    if (made) return made;
  }
  return NULL;
}

static ptc_value_t *where_same(ptc_builder_t *b, const ptc_op_t *op) {
  (void)b;
  double c;
  if (op->operands[1] == op->operands[2]) return if_same_type(op->operands[1], op);
  if (!ptc_value_is_constant(op->operands[0], &c)) return NULL;
  return if_same_type(op->operands[c != 0 ? 1 : 2], op);
}

// --- constant folding of scalars
typedef double (*fold_fn_t)(double x, double y);
static double fold_add(double x, double y) { return x + y; }
static double fold_sub(double x, double y) { return x - y; }
static double fold_mul(double x, double y) { return x * y; }
static double fold_div(double x, double y) { return x / y; }
static double fold_min(double x, double y) { return x < y ? x : y; }
static double fold_max(double x, double y) { return x > y ? x : y; }
static double fold_neg(double x, double y) { return (void)y, -x; }
static double fold_sqrt(double x, double y) { return (void)y, sqrt(x); }
static double fold_rsqrt(double x, double y) { return (void)y, 1 / sqrt(x); }
static double fold_not(double x, double y) { return (void)y, x == 0; }
static double fold_cast(double x, double y) { return (void)y, x; }
static double fold_eq(double x, double y) { return x == y; }
static double fold_ne(double x, double y) { return x != y; }
static double fold_lt(double x, double y) { return x < y; }
static double fold_le(double x, double y) { return x <= y; }
static double fold_and(double x, double y) { return x != 0 && y != 0; }
static double fold_or(double x, double y) { return x != 0 || y != 0; }

static const struct {
  ptc_opcode_t opcode;
  fold_fn_t fold;
} folds[] = {
    {PTC_OP_ADD, fold_add}, {PTC_OP_SUB, fold_sub},   {PTC_OP_MUL, fold_mul},
    {PTC_OP_DIV, fold_div}, {PTC_OP_MIN, fold_min},   {PTC_OP_MAX, fold_max},
    {PTC_OP_NEG, fold_neg}, {PTC_OP_SQRT, fold_sqrt}, {PTC_OP_RSQRT, fold_rsqrt},
    {PTC_OP_NOT, fold_not}, {PTC_OP_CAST, fold_cast}, {PTC_OP_EQ, fold_eq},
    {PTC_OP_NE, fold_ne},   {PTC_OP_LT, fold_lt},     {PTC_OP_LE, fold_le},
    {PTC_OP_AND, fold_and}, {PTC_OP_OR, fold_or},
};

// Operands must be exact in their dtype, and NaN is left alone. An integer result must be in range;
// a float result is rounded by the constant itself, as the op would.
static ptc_value_t *fold(ptc_builder_t *b, const ptc_op_t *op) {
  fold_fn_t fn = NULL;
  for (size_t i = 0; i < sizeof(folds) / sizeof(folds[0]); i++)
    if (folds[i].opcode == op->opcode) fn = folds[i].fold;
  if (!fn || op->num_operands > 2 || type_of(op)->num_dims + type_of(op)->num_counts > 0)
    return NULL;
  double c[2] = {0, 0};
  for (int32_t i = 0; i < op->num_operands; i++) {
    const ptc_value_t *x = op->operands[i];
    if (!x->def || x->def->opcode != PTC_OP_CONSTANT) return NULL;
    c[i] = ptc_op_float(x->def, "value");
    if (isnan(c[i]) || ptc_dtype_round(x->type->dtype, c[i]) != c[i]) return NULL;
  }
  const double value = fn(c[0], c[1]);
  const ptc_dtype_t dtype = type_of(op)->dtype;
  const bool exact = ptc_dtype_round(dtype, value) == value;
  if (isnan(value) || (!ptc_dtype_is_float(dtype) && (!exact || fabs(value) > 0x1p53))) return NULL;
  return ptc_build_constant(b, dtype, value);
}

static const struct {
  ptc_opcode_t opcode;
  rule_fn_t apply;
} rules[] = {
    {PTC_OP_ADD, add_zero},
    {PTC_OP_ADD, add_neg},
    {PTC_OP_SUB, right_zero},
    {PTC_OP_SUB, zero_minus},
    {PTC_OP_SUB, sub_neg},
    {PTC_OP_MUL, mul_one},
    {PTC_OP_MUL, mul_minus_one},
    {PTC_OP_DIV, right_one},
    {PTC_OP_POW, right_one},
    {PTC_OP_POW, pow_two},
    {PTC_OP_NEG, neg_neg},
    {PTC_OP_NOT, not_not},
    {PTC_OP_WHERE, where_same},
    {PTC_OP_CAST, same_cast},
    {PTC_OP_CAST, cast_cast},
    {PTC_OP_BROADCAST, same_as_operand},
    {PTC_OP_BROADCAST, broadcast_chain},
    {PTC_OP_TRANSPOSE, same_as_operand},
    {PTC_OP_TRANSPOSE, transpose_chain},
    {PTC_OP_TRANSPOSE, transpose_broadcast},
    {PTC_OP_RENAME, same_as_operand},
    {PTC_OP_RENAME, rename_chain},
    {PTC_OP_SPLIT, split_merge},
    {PTC_OP_MERGE, merge_split},
    {PTC_OP_CONCAT, concat_one},
    {PTC_OP_EINSUM, einsum_broadcast},
    {PTC_OP_REDUCE_SUM, reduce_transpose},
    {PTC_OP_REDUCE_MAX, reduce_transpose},
    {PTC_OP_LIST_SLICE, same_as_operand},
    {PTC_OP_LIST_CONCAT, concat_one},
    {PTC_OP_LIST_UNGROUP, ungroup_group},
    {PTC_OP_LIST_GROUP, group_ungroup},
};

static ptc_value_t *apply_rules(ptc_builder_t *b, const ptc_op_t *op) {
  ptc_value_t *made = fold(b, op);
  for (size_t i = 0; !made && i < sizeof(rules) / sizeof(rules[0]); i++)
    if (rules[i].opcode == op->opcode) made = rules[i].apply(b, op);
  if (!made && ptc_op_has_trait(op, PTC_TRAIT_EWISE)) made = ewise_transpose(b, op);
  if (!made && ptc_op_has_trait(op, PTC_TRAIT_EWISE)) made = ewise_broadcast(b, op);
  if (!made && ptc_op_has_trait(op, PTC_TRAIT_EWISE)) made = unary_broadcast(b, op);
  return made;
}

// A carried value that no turn changes is its initial value; a collected instance of a bundle is
// the bundle.
static bool simplify_repeat(ptc_map_t *replaced, const ptc_op_t *repeat) {
  bool changed = false;
  ptc_value_t *const *args = repeat->body->args;
  const ptc_op_t *yield = repeat->body->last;
  for (int32_t i = 0; i < repeat->num_results; i++) {
    ptc_value_t *next = ptc_subst(replaced, yield->operands[i]), *result = repeat->results[i];
    ptc_value_t *same = NULL;
    if (i < repeat->num_carry) {
      if (next == args[1 + i]) same = repeat->operands[i];
    } else {
      for (int32_t j = 0; j < repeat->num_each; j++)
        if (next == args[1 + repeat->num_carry + j]) same = repeat->operands[repeat->num_carry + j];
    }
    if (!same || ptc_map_get(replaced, result) || !ptc_type_equal(same->type, result->type))
      continue;
    ptc_map_set(replaced, result, same);
    if (i < repeat->num_carry) ptc_block_replace_uses(repeat->body, args[1 + i], same);
    changed = true;
  }
  return changed;
}

static bool has_use(const ptc_op_t *op, const ptc_map_t *replaced) {
  for (int32_t i = 0; i < op->num_results; i++)
    if (!ptc_map_get(replaced, op->results[i])) return true;
  return op->num_results == 0;
}

static bool visit_block(ptc_module_t *module, ptc_map_t *replaced, ptc_block_t *block) {
  bool changed = false;
  for (ptc_op_t *op = block->first, *next; op; op = next) {
    next = op->next;
    ptc_subst_operands(replaced, op);
    if (op->body) {
      changed |= visit_block(module, replaced, op->body);
      changed |= simplify_repeat(replaced, op);
      if (!has_use(op, replaced)) ptc_op_remove(op);
      continue;
    }
    if (op->num_results != 1 || !type_of(op)) continue;
    ptc_builder_t b = ptc_builder_before(module, op);
    b.loc = op->loc;
    ptc_value_t *made = apply_rules(&b, op);
    if (!made) continue;
    if (!made->name) made->name = op->results[0]->name;
    ptc_map_set(replaced, op->results[0], made);
    ptc_op_remove(op);
    changed = true;
  }
  return changed;
}

bool ptc_simplify_rules(ptc_module_t *module) {
  bool changed = false;
  ptc_map_t replaced = {0};
  for (ptc_func_t *func = module->funcs; func; func = func->next)
    changed |= visit_block(module, &replaced, func->body);
  ptc_map_deinit(&replaced);
  return changed;
}

ptc_status_t ptc_pass_canonicalize(ptc_pass_ctx_t *ctx, ptc_module_t *module) {
  (void)ctx;
  for (bool changed = true; changed;) {
    changed = ptc_simplify_rules(module);
    changed |= ptc_simplify_cse(module);
    changed |= ptc_simplify_dce(module);
  }
  return PTC_OK;
}
