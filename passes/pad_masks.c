#include "passes/pad_masks.h"

#include <math.h>

#include "passes/rewrite.h"

bool ptc_dim_is_padded(const ptc_mesh_t *mesh, const ptc_dim_t *dim) {
  if (!dim->num_axes) return false;
  const int64_t shards = ptc_dim_num_shards(mesh, dim);
  return shards > 0 && dim->extent % shards != 0;
}

// --- what is known to be masked

// Whether |cond| is `global index of dim < extent`, perhaps with further conditions.
static bool is_mask_of(const ptc_value_t *cond, const ptc_dim_t *dim) {
  const ptc_op_t *op = cond->def;
  if (!op) return false;
  if (op->opcode == PTC_OP_BROADCAST || op->opcode == PTC_OP_TRANSPOSE)
    return is_mask_of(op->operands[0], dim);
  if (op->opcode == PTC_OP_AND)
    return is_mask_of(op->operands[0], dim) || is_mask_of(op->operands[1], dim);
  const ptc_op_t *iota = op->opcode == PTC_OP_LT ? op->operands[0]->def : NULL;
  double bound;
  return iota && iota->opcode == PTC_OP_IOTA && ptc_op_string(iota, "dim") == dim->name &&
         ptc_value_is_constant(op->operands[1], &bound) && bound <= (double)dim->extent;
}

// Whether |x| has |neutral| in the padding of |dim|. Ops that keep a zero, or any number, are looked through.
static bool is_masked(const ptc_value_t *x, const ptc_dim_t *dim, double neutral) {
  const ptc_op_t *op = x->def;
  if (!op || !ptc_type_has_dim(x->type, dim->name)) return false;
  double value;
  switch (op->opcode) {
    case PTC_OP_WHERE:
      return ptc_value_is_constant(op->operands[2], &value) && value == neutral &&
             (is_mask_of(op->operands[0], dim) || is_masked(op->operands[1], dim, neutral));
    case PTC_OP_BROADCAST:
    case PTC_OP_CONSTANT:
      if (ptc_value_is_constant(x, &value)) return value == neutral;
      return is_masked(op->operands[0], dim, neutral);
    case PTC_OP_TRANSPOSE: return is_masked(op->operands[0], dim, neutral);
    case PTC_OP_CAST:
    case PTC_OP_NEG:
    case PTC_OP_ABS: return neutral == 0 && is_masked(op->operands[0], dim, neutral);
    default: return false;
  }
}

// --- masks

// Global index of |dim| < extent.
static ptc_value_t *build_inside(ptc_builder_t *b, const ptc_dim_t *dim) {
  return ptc_build_binary_const(b, PTC_OP_LT, ptc_build_iota(b, dim), (double)dim->extent);
}

// Of the summands of a partial sum every one is 0, which is a partial sum, too.
static ptc_value_t *build_neutral(ptc_builder_t *b, const ptc_type_t *like, double neutral) {
  if (!like->num_partial || neutral != 0) return ptc_build_constant(b, like->dtype, neutral);
  ptc_type_t *type = ptc_type_scalar(&b->module->arena, like->dtype);
  type->partial = like->partial;
  type->num_partial = like->num_partial;
  type->partial_kind = like->partial_kind;
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_float(b->module, &attrs, "value", 0);
  const ptc_op_t *op = ptc_build_op_as(b, PTC_OP_CONSTANT, NULL, 0, 1, attrs, type);
  return op ? op->results[0] : NULL;
}

ptc_value_t *ptc_mask_padding(ptc_builder_t *b, ptc_value_t *x, const char *const *dims,
                              int32_t num_dims, double neutral) {
  if (!x || !x->type) return NULL;
  ptc_value_t *inside = NULL;
  bool due = false;
  for (int32_t i = 0; i < num_dims; i++) {
    const int32_t at = ptc_type_find_dim(x->type, dims[i]);
    if (at < 0 || !ptc_dim_is_padded(&b->module->mesh, &x->type->dims[at]) ||
        is_masked(x, &x->type->dims[at], neutral))
      continue;
    ptc_value_t *one = build_inside(b, &x->type->dims[at]);
    inside = due ? ptc_build_binary(b, PTC_OP_AND, inside, one) : one;
    due = true;
  }
  if (!due) return x;
  // In the order of x's dims, which is to be the result's.
  inside = ptc_build_fit(b, inside, x->type);
  return ptc_build_where(b, inside, x, build_neutral(b, x->type, neutral));
}

// --- what each op reads

typedef struct mask_s {
  ptc_builder_t b;
  ptc_op_t *op;
  bool failed;
} mask_t;

// A computed value is masked where it is made, for all its uses: then it is stored once.
static ptc_value_t *mask_at_source(mask_t *m, ptc_value_t *x, const char *const *dims,
                                   int32_t num_dims) {
  ptc_builder_t b = ptc_builder_before(m->b.module, x->def->next);
  b.loc = x->def->loc;
  ptc_value_t *masked = ptc_mask_padding(&b, x, dims, num_dims, 0);
  if (!masked || masked == x) return masked;
  ptc_block_replace_uses(x->def->parent, x, masked);
  masked->def->operands[1] = x;  // of the selection itself
  return masked;
}

static void mask_dims(mask_t *m, int32_t operand, const char *const *dims, int32_t num_dims,
                      double neutral) {
  ptc_value_t *x = m->op->operands[operand];
  ptc_value_t *masked = neutral == 0 && x->def && x->def->next
                            ? mask_at_source(m, x, dims, num_dims)
                            : ptc_mask_padding(&m->b, x, dims, num_dims, neutral);
  if (masked)
    m->op->operands[operand] = masked;
  else
    m->failed = true;
}

// Along the dims of the attribute |name|.
static void mask_listed(mask_t *m, int32_t operand, const char *name, double neutral) {
  const ptc_attr_t *attr = ptc_op_attr(m->op, name);
  mask_dims(m, operand, attr->u.dims, attr->count, neutral);
}

// Along those dims of operand |operand| for which |keeps| (may be NULL) has no dim.
static void mask_missing(mask_t *m, int32_t operand, const ptc_type_t *keeps, double neutral) {
  const ptc_type_t *type = m->op->operands[operand]->type;
  const char *dims[PTC_MAX_DIMS];
  int32_t num_dims = 0;
  for (int32_t i = 0; i < type->num_dims && num_dims < PTC_MAX_DIMS; i++)
    if (!keeps || !ptc_type_has_dim(keeps, type->dims[i].name))
      dims[num_dims++] = type->dims[i].name;
  mask_dims(m, operand, dims, num_dims, neutral);
}

// The values that scatter_add sums over: dims that its result lacks.
static void mask_scattered(mask_t *m) {
  const ptc_type_t *y = m->op->operands[0]->type;
  const char *dims[PTC_MAX_DIMS];
  int32_t num_dims = 0;
  for (int32_t i = 0; i < y->num_dims && num_dims < PTC_MAX_DIMS; i++) {
    const char *name = y->dims[i].name;
    if (!ptc_op_dims_contain(m->op, "result", name) || ptc_op_dims_contain(m->op, "dims", name))
      dims[num_dims++] = name;
  }
  mask_dims(m, 0, dims, num_dims, 0);
}

// Rows of queries that are padding add to the gradients of key, val and bias: with q, bias, out, lse and dout
// of 0 they add 0 * 1.
static void mask_attention_grad(mask_t *m) {
  const ptc_attention_operands_t at = ptc_attention_operands(m->op);
  const int32_t rows[] = {at.q, at.bias, at.out, at.lse, at.dout},
                sums[] = {at.key, at.val, at.bias};
  for (int32_t s = 0; s < 3; s++) {
    if (sums[s] < 0) continue;
    const ptc_type_t *keeps = m->op->operands[sums[s]]->type;
    for (int32_t r = 0; r < 5; r++)
      if (rows[r] >= 0) mask_missing(m, rows[r], keeps, 0);
  }
}

ptc_status_t ptc_mask_operands(ptc_module_t *module, ptc_op_t *op) {
  mask_t m = {.b = ptc_builder_before(module, op), .op = op};
  switch (op->opcode) {
    case PTC_OP_EINSUM:
      mask_listed(&m, 0, "over", 0);
      if (op->operands[1] != op->operands[0]) mask_listed(&m, 1, "over", 0);
      break;
    case PTC_OP_REDUCE_SUM: mask_listed(&m, 0, "over", 0); break;
    case PTC_OP_REDUCE_MAX: {
      const ptc_dtype_t dtype = op->operands[0]->type->dtype;
      mask_listed(&m, 0, "over", ptc_dtype_round(dtype, -INFINITY));
      break;
    }
    case PTC_OP_SQUARE_SUM:
    case PTC_OP_ALL_FINITE: mask_missing(&m, 0, NULL, 0); break;
    case PTC_OP_SCATTER_ADD: mask_scattered(&m); break;
    case PTC_OP_GATHER:
      for (int32_t i = 1; i < op->num_operands; i++) mask_missing(&m, i, NULL, 0);
      break;
    case PTC_OP_CROSS_ENTROPY:
    case PTC_OP_CROSS_ENTROPY_GRAD: mask_missing(&m, 1, NULL, -1); break;
    case PTC_OP_ATTENTION_GRAD: mask_attention_grad(&m); break;
    default: break;
  }
  return m.failed ? PTC_INVALID_INPUT : PTC_OK;
}
