// What partition's rules need to know of one op, as numbers: factors, sums, dims that must be whole.
#include <string.h>

#include "passes/planner/work_build_impl.h"

typedef struct factor_s {
  const char *name;
  bool private;  // of operand 0 of a gather alone: a dim that is looked up
} factor_t;

enum { MAX_FACTORS = 64 };

typedef struct rule_s {
  const ptc_op_t *op;
  factor_t factors[MAX_FACTORS];
  int32_t count;
} rule_t;

static int8_t find_factor(const rule_t *r, const char *name, bool private) {
  for (int32_t i = 0; i < r->count; i++)
    if (r->factors[i].name == name && r->factors[i].private == private) return (int8_t)i;
  return PTC_WORK_NO_FACTOR;
}

static int8_t add_factor(rule_t *r, const char *name, bool private) {
  const int8_t found = find_factor(r, name, private);
  if (found >= 0 || r->count == MAX_FACTORS) return found;
  r->factors[r->count] = (factor_t){name, private};
  return (int8_t)r->count++;
}

static bool is_summed(const ptc_op_t *op, const char *name) {
  const ptc_attr_t *over = ptc_op_attr(op, "over");
  return over && over->kind == PTC_ATTR_DIMS && ptc_op_dims_contain(op, "over", name);
}

static bool widens(const ptc_op_t *op) {
  const ptc_dtype_t from = op->operands[0]->type->dtype, to = op->results[0]->type->dtype;
  return ptc_dtype_is_float(from) && ptc_dtype_is_float(to) &&
         (ptc_dtype_bytes(to) > ptc_dtype_bytes(from) || to == from);
}

static ptc_wpass_t passes_of(const ptc_wbuild_t *b, const ptc_op_t *op) {
  switch (op->opcode) {
    case PTC_OP_RENAME:
    case PTC_OP_SPLIT:
    case PTC_OP_MERGE:
    case PTC_OP_TRANSPOSE:
    case PTC_OP_ACCUMULATE:
    case PTC_OP_LIST_SLICE:
    case PTC_OP_LIST_CONCAT:
    case PTC_OP_LIST_GROUP:
    case PTC_OP_LIST_UNGROUP: return PTC_WPASS_ALL;
    case PTC_OP_NEG: return PTC_WPASS_SUMS;
    case PTC_OP_CAST: {
      const char *batch = ptc_attrs_string(&b->module->config, "batch_dim", "b");
      for (int32_t i = 0; i < op->operands[0]->type->num_dims; i++)
        if (strcmp(op->operands[0]->type->dims[i].name, batch) == 0) return PTC_WPASS_NONE;
      return widens(op) ? PTC_WPASS_SUMS : PTC_WPASS_NONE;
    }
    default: return PTC_WPASS_NONE;
  }
}

static ptc_wclass_t class_of(const ptc_op_t *op) {
  switch (op->opcode) {
    case PTC_OP_ADD:
    case PTC_OP_SUB: return PTC_WCLASS_ADD;
    case PTC_OP_SPLIT: return PTC_WCLASS_SPLIT;
    case PTC_OP_MERGE: return PTC_WCLASS_MERGE;
    case PTC_OP_ACCUMULATE: return PTC_WCLASS_ACCUMULATE;
    case PTC_OP_REPEAT: return PTC_WCLASS_REPEAT;
    case PTC_OP_SHARD: return PTC_WCLASS_SEED;
    default: return PTC_WCLASS_PLAIN;
  }
}

// Whether a cross entropy takes the maximum of the same rows: canonicalize leaves one of the two.
static bool shares_maximum(const ptc_op_t *argmax) {
  for (const ptc_op_t *op = argmax->parent->first; op; op = op->next)
    if (op->opcode == PTC_OP_CROSS_ENTROPY && op->operands[0] == argmax->operands[0] &&
        ptc_op_string(op, "dim") == ptc_op_string(argmax, "dim"))
      return true;
  return false;
}

// Of the rows that passes/split_forms.c exchanges.
static ptc_wsplit_t split_of(const ptc_op_t *op) {
  const ptc_attr_t *fill = ptc_op_attr(op, "fill");
  if (fill && ptc_op_float(op, "fill") != 0) return (ptc_wsplit_t){0};
  const ptc_dtype_t dtype = op->num_operands ? op->operands[0]->type->dtype : PTC_F32;
  const uint8_t stat = dtype == PTC_F64 ? 8 : 4, own = (uint8_t)ptc_dtype_bytes(dtype);
  switch (op->opcode) {
    case PTC_OP_SOFTMAX: return (ptc_wsplit_t){true, false, 2, {stat, stat}};
    case PTC_OP_SOFTMAX_GRAD: return (ptc_wsplit_t){true, false, 1, {stat}};
    case PTC_OP_LAYERNORM: return (ptc_wsplit_t){true, false, 2, {stat, stat}};
    case PTC_OP_LAYERNORM_GRAD: return (ptc_wsplit_t){true, false, 2, {stat, stat}};
    case PTC_OP_RMSNORM: return (ptc_wsplit_t){true, false, 1, {stat}};
    case PTC_OP_RMSNORM_GRAD: return (ptc_wsplit_t){true, false, 1, {stat}};
    case PTC_OP_CROSS_ENTROPY: return (ptc_wsplit_t){true, false, 3, {stat, stat, stat}};
    case PTC_OP_ARGMAX:
      if (shares_maximum(op)) return (ptc_wsplit_t){true, false, 1, {4}};
      return (ptc_wsplit_t){true, false, 2, {own, 4}};
    case PTC_OP_GATHER: return (ptc_wsplit_t){.exists = true, .gathers = true};
    default: return (ptc_wsplit_t){0};
  }
}

// --- places of dims

// Result dim |d|, called |name|: the factor whose axes it has.
static int8_t place_of_result(const rule_t *r, const ptc_type_t *type, int32_t d) {
  const ptc_op_t *op = r->op;
  const ptc_dim_t *dim = &type->dims[d];
  if (op->opcode == PTC_OP_RENAME)
    return find_factor(r, op->operands[0]->type->dims[d].name, false);
  if (op->opcode == PTC_OP_SPLIT) {
    const ptc_attr_t *into = ptc_op_attr(op, "into");
    for (int32_t i = 0; i < into->count; i++)
      if (into->u.dims[i] == dim->name)
        return i == 0 ? find_factor(r, ptc_op_string(op, "dim"), false) : PTC_WORK_NO_FACTOR;
  }
  if (op->opcode == PTC_OP_MERGE && ptc_op_string(op, "into") == dim->name)
    return find_factor(r, ptc_op_attr(op, "dims")->u.dims[0], false);
  if (op->opcode == PTC_OP_SCATTER_ADD && ptc_op_dims_contain(op, "dims", dim->name))
    return PTC_WORK_NO_FACTOR;
  const int8_t found = find_factor(r, dim->name, false);
  if (found >= 0) return found;
  return dim->num_axes > 0 ? PTC_WORK_MICRO_FACTOR : PTC_WORK_NO_FACTOR;
}

static uint64_t missing_in(const rule_t *r, const ptc_type_t *type) {
  uint64_t missing = 0;
  for (int32_t i = 0; i < r->count; i++)
    if (!r->factors[i].private && !ptc_type_has_dim(type, r->factors[i].name))
      missing |= UINT64_C(1) << i;
  return missing;
}

// A table's gradient lands where the parameter lies: which of its dims each addressed dim of the result is.
static void scatter_rule(ptc_wbuild_t *b, ptc_wop_t *out, const ptc_op_t *op) {
  out->scatter_param = -1;
  const ptc_wmark_t *mark =
      op->opcode == PTC_OP_SCATTER_ADD ? ptc_map_get(&b->marks, op->results[0]) : NULL;
  if (!mark) return;
  const ptc_type_t *type = op->results[0]->type;
  int8_t *dims = PTC_ARENA_ARRAY(b->arena, int8_t, type->num_dims + 1);
  for (int32_t d = 0; d < type->num_dims; d++) {
    dims[d] = -1;
    for (int32_t i = 0; i < mark->num_dims && ptc_op_dims_contain(op, "dims", type->dims[d].name);
         i++)
      if (mark->names[i] == type->dims[d].name) dims[d] = (int8_t)i;
  }
  out->scatter_param = mark->param;
  out->scatter_dims = dims;
}

static void merge_rule(ptc_wop_t *out, const rule_t *r) {
  const ptc_attr_t *dims = ptc_op_attr(r->op, "dims");
  out->merge_outer = find_factor(r, dims->u.dims[0], false);
  for (int32_t i = 1; i < dims->count; i++)
    out->merge_inner |= UINT64_C(1) << find_factor(r, dims->u.dims[i], false);
}

void ptc_work_rule(ptc_wbuild_t *b, ptc_wop_t *out, const ptc_op_t *op, const int32_t *in) {
  rule_t r = {.op = op};
  int32_t num_places = 0;
  for (int32_t i = 0; i < out->num_operands; i++) num_places += op->operands[in[i]]->type->num_dims;
  for (int32_t i = 0; i < out->num_results; i++) num_places += op->results[i]->type->num_dims;
  int8_t *places = PTC_ARENA_ARRAY(b->arena, int8_t, num_places + 1), *at = places;
  const bool gather = op->opcode == PTC_OP_GATHER;
  for (int32_t i = 0; i < out->num_operands; i++) {
    const ptc_type_t *type = op->operands[in[i]]->type;
    for (int32_t d = 0; d < type->num_dims; d++) {
      const char *name = type->dims[d].name;
      const bool private = gather && in[i] == 0 && ptc_op_dims_contain(op, "dims", name);
      const int8_t f = *at++ = add_factor(&r, name, private);
      if (f < 0) continue;
      if (gather ? private : ptc_op_needs_whole(op, name)) out->whole |= UINT64_C(1) << f;
      if (is_summed(op, name)) out->summed |= UINT64_C(1) << f;
    }
  }
  const char *rule = ptc_op_info(op->opcode)->rule;
  const bool reduces =
      strchr(rule, '+') || strchr(rule, '^') || op->opcode == PTC_OP_ATTENTION_GRAD;
  uint64_t *missing = PTC_ARENA_ARRAY(b->arena, uint64_t, out->num_results + 1);
  for (int32_t i = 0; i < out->num_results; i++) {
    const ptc_type_t *type = op->results[i]->type;
    for (int32_t d = 0; d < type->num_dims; d++) *at++ = place_of_result(&r, type, d);
    if (reduces) missing[i] = missing_in(&r, type);
  }
  out->num_factors = r.count;
  out->places = places;
  out->missing = missing;
  out->reduces = strchr(rule, '^') ? PTC_REDUCE_MAX : PTC_REDUCE_SUM;
  out->wclass = class_of(op);
  out->passes = passes_of(b, op);
  out->split = split_of(op);
  if (op->opcode == PTC_OP_SPLIT) out->split_outer = ptc_op_attr(op, "extents")->u.ints[0];
  if (op->opcode == PTC_OP_MERGE) merge_rule(out, &r);
  scatter_rule(b, out, op);
}
