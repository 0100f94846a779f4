// partition: what an op needs its operands to be.
//
// A dim name is a factor of the op. All operands that have it get one sharding of it: the one that costs least to reach.
// An axis can lie on one factor only; where two want it, parameters win over data, then what stays in the result
// over what is summed, then the larger value. Sums that are not taken yet pass through linear ops; every other op gets
// the sum.
#include <string.h>

#include "ir/op.h"
#include "passes/partition_impl.h"
#include "passes/split_forms.h"

enum { MAX_FACTORS = 64 };

typedef struct factor_s {
  const char *name;
  ptc_axis_ref_t axes[PTC_MAX_AXES];
  int32_t num_axes;
  int64_t bytes;  // of the values that have the factor on these axes
  bool whole;     // the op needs it so
  bool weight;    // a parameter has it on these axes
  bool summed;    // it is not in the result
  bool private;   // of operand 0 alone: a dim that is walked along
  bool cedes;     // private, and its axes may go to a dim that the operand has beside it
  bool beside;    // such a dim
} factor_t;

typedef struct factors_s {
  factor_t items[MAX_FACTORS];
  int32_t count;
} factors_t;

bool ptc_part_keeps_home(const ptc_op_t *op) {
  switch (op->opcode) {
    case PTC_OP_CAST:
    case PTC_OP_RENAME:
    case PTC_OP_TRANSPOSE:
    case PTC_OP_LIST_SLICE:
    case PTC_OP_LIST_CONCAT:
    case PTC_OP_LIST_GROUP:
    case PTC_OP_LIST_UNGROUP:
    case PTC_OP_ADAMW:
    case PTC_OP_SGD: return true;
    default: return false;
  }
}

// --- partial sums

static bool widens(const ptc_op_t *op) {
  const ptc_type_t *x = op->operands[0]->type;
  ptc_dtype_t to;
  return ptc_dtype_parse(ptc_op_string(op, "to"), &to) && ptc_dtype_is_float(x->dtype) &&
         ptc_dtype_is_float(to) &&
         (ptc_dtype_bytes(to) > ptc_dtype_bytes(x->dtype) || to == x->dtype);
}

// From stage 2 on, a turn's gradient is summed before it is accumulated. Not that of one of several uses in the only
// turn: there the uses are added first, as in a step without turns.
static bool is_summed_early(const ptc_part_t *p, const ptc_op_t *accumulate) {
  const ptc_part_mark_t *mark = ptc_map_get(&p->grads, accumulate->operands[1]);
  const ptc_axis_ref_t micro = {.axis = p->micro};
  if (p->parallel.zero < 2 || !mark) return false;
  return !mark->tied || ptc_axis_ref_size(&p->module->mesh, micro) > 1;
}

// Sums over devices that this op hands on. Activations travel in their own dtype: a cast takes the sum.
static bool passes_sums(const ptc_part_t *p, const ptc_op_t *op, int32_t index) {
  const ptc_type_t *type = op->operands[index]->type;
  switch (op->opcode) {
    case PTC_OP_RENAME:
    case PTC_OP_SPLIT:
    case PTC_OP_MERGE:
    case PTC_OP_TRANSPOSE:
    case PTC_OP_LIST_SLICE:
    case PTC_OP_LIST_CONCAT:
    case PTC_OP_LIST_GROUP:
    case PTC_OP_LIST_UNGROUP: return true;
    case PTC_OP_NEG: return type->partial_kind == PTC_REDUCE_SUM;
    case PTC_OP_CAST:
      return type->partial_kind == PTC_REDUCE_SUM && widens(op) && !ptc_part_is_activation(p, type);
    case PTC_OP_ACCUMULATE: return index == 0 || !is_summed_early(p, op);
    default: return false;
  }
}

static bool is_flexible(const ptc_part_t *p, const ptc_value_t *value) {
  return ptc_map_get(&p->zeros, value) || ptc_part_is_zero(value);
}

static bool is_sum(const ptc_type_t *type) {
  return type->num_partial == 0 || type->partial_kind == PTC_REDUCE_SUM;
}

// Both operands of a sum are partial over the same axes: those that both have.
static void add_partials(ptc_part_t *p, const ptc_op_t *op, const ptc_type_t **types) {
  ptc_axis_ref_t axes[2][PTC_MAX_AXES];
  int32_t count[2];
  for (int t = 0; t < 2; t++) count[t] = ptc_part_partial(types[t], axes[t]);
  if (count[0] == 0 && count[1] == 0) return;
  for (int t = 0; t < 2; t++) {
    // A zero is partial over anything.
    const ptc_value_t *value = op->operands[t];
    if (!is_flexible(p, value) || ptc_part_is_activation(p, types[1 - t])) continue;
    if (!is_sum(types[1 - t])) continue;
    types[t] = ptc_part_with_partial(p, types[t], types[1 - t]->partial, types[1 - t]->num_partial);
    return;
  }
  const bool sums = is_sum(types[0]) && is_sum(types[1]);
  for (int t = 0; t < 2; t++) {
    ptc_axis_ref_t gone[PTC_MAX_AXES];
    int32_t num_gone = 0;
    for (int32_t i = 0; i < count[t]; i++)
      if (!sums || ptc_axes_find(axes[1 - t], count[1 - t], axes[t][i]) < 0)
        gone[num_gone++] = axes[t][i];
    if (num_gone) types[t] = ptc_part_reduced(p, op->operands[t], types[t], gone, num_gone);
  }
}

// The accumulator is partial as the turn's contribution is, but for the time axis.
static void accumulate_partials(ptc_part_t *p, const ptc_op_t *op, const ptc_type_t **types) {
  ptc_axis_ref_t rest[PTC_MAX_AXES];
  int32_t count = 0;
  const char *axis = ptc_op_string(op, "axis");
  for (int32_t i = 0; i < types[1]->num_partial; i++)
    if (types[1]->partial[i].axis != axis) rest[count++] = types[1]->partial[i];
  types[0] = ptc_part_with_partial(p, types[0], rest, count);
  for (int32_t i = 0; i < types[0]->num_dims; i++) {
    const int32_t at = ptc_type_find_dim(types[1], types[0]->dims[i].name);
    if (at >= 0)
      types[0] =
          ptc_part_with_axes(p, types[0], i, types[1]->dims[at].axes, types[1]->dims[at].num_axes);
  }
}

static void base_types(ptc_part_t *p, const ptc_op_t *op, const ptc_type_t **types) {
  for (int32_t i = 0; i < op->num_operands; i++) {
    const ptc_value_t *value = op->operands[i];
    const ptc_type_t *home = ptc_map_get(&p->home, value);
    types[i] = home && !ptc_part_keeps_home(op) ? home : value->type;
    const bool sum = op->opcode == PTC_OP_ADD || op->opcode == PTC_OP_SUB;
    if (!sum && !passes_sums(p, op, i)) types[i] = ptc_part_resolved(p, value, types[i]);
  }
  if (op->opcode == PTC_OP_ADD || op->opcode == PTC_OP_SUB) add_partials(p, op, types);
  if (op->opcode == PTC_OP_ACCUMULATE) accumulate_partials(p, op, types);
}

// --- factors

static factor_t *find_factor(factors_t *f, const char *name, bool private) {
  for (int32_t i = 0; i < f->count; i++)
    if (f->items[i].name == name && f->items[i].private == private) return &f->items[i];
  if (f->count == MAX_FACTORS) return NULL;
  f->items[f->count] = (factor_t){.name = name, .private = private};
  return &f->items[f->count++];
}

static bool is_private(const ptc_op_t *op, int32_t operand, const char *dim) {
  return op->opcode == PTC_OP_GATHER && operand == 0 && ptc_op_dims_contain(op, "dims", dim);
}

static bool is_prefix(const ptc_axis_ref_t *a, int32_t num_a, const ptc_axis_ref_t *b,
                      int32_t num_b) {
  return num_a <= num_b && ptc_axes_equal(a, num_a, b, num_a);
}

static void set_axes(factor_t *f, const ptc_dim_t *dim, int64_t bytes, bool weight) {
  f->num_axes = dim->num_axes;
  memcpy(f->axes, dim->axes, (size_t)dim->num_axes * sizeof(*f->axes));
  f->bytes = bytes;
  f->weight = weight;
}

static void add_dim(factor_t *f, const ptc_dim_t *dim, int64_t bytes, bool weight) {
  if (dim->num_axes == 0 || dim->num_axes > PTC_MAX_AXES) return;
  if (ptc_axes_equal(f->axes, f->num_axes, dim->axes, dim->num_axes)) {
    f->bytes += bytes;
    f->weight |= weight;
  } else if (f->num_axes == 0 || is_prefix(f->axes, f->num_axes, dim->axes, dim->num_axes)) {
    // Going on to finer parts costs nothing.
    set_axes(f, dim, bytes, weight);
  } else if (!is_prefix(dim->axes, dim->num_axes, f->axes, f->num_axes)) {
    const bool wins = weight != f->weight ? weight : bytes > f->bytes;
    if (wins) set_axes(f, dim, bytes, weight);
  }
}

static bool is_summed(const ptc_op_t *op, const char *name) {
  const ptc_attr_t *over = ptc_op_attr(op, "over");
  return over && over->kind == PTC_ATTR_DIMS && ptc_op_dims_contain(op, "over", name);
}

// Whether |a| keeps an axis that |b| wants too.
static bool keeps(const factor_t *a, const factor_t *b) {
  if (a->cedes && b->beside) return false;
  if (b->cedes && a->beside) return true;
  if (a->weight != b->weight) return a->weight;
  if (a->summed != b->summed) return b->summed;
  return a->bytes >= b->bytes;
}

static void resolve_conflicts(factors_t *f) {
  for (int32_t i = 0; i < f->count; i++) {
    for (int32_t j = i + 1; j < f->count; j++) {
      factor_t *a = &f->items[i], *b = &f->items[j];
      for (int32_t x = 0; x < a->num_axes; x++) {
        for (int32_t y = 0; y < b->num_axes; y++) {
          if (!ptc_axis_refs_overlap(a->axes[x], b->axes[y])) continue;
          // A dim loses axes from the inside.
          if (keeps(a, b))
            b->num_axes = y;
          else
            a->num_axes = x;
        }
      }
    }
  }
}

// What gather looks up in data, not in a parameter: the axes of a dim that is walked along may go to a dim beside it, by
// an all_to_all of the parts, or stay, and then every device has sums of the whole result. What moves less is
// done: experts' results go back to the devices of the samples.
static void find_ceding(const ptc_part_t *p, const ptc_op_t *op, const ptc_type_t *const *types,
                        factors_t *f) {
  if (op->opcode != PTC_OP_GATHER || ptc_map_get(&p->weights, op->operands[0])) return;
  int64_t shards = 1, staying = ptc_type_num_bytes(op->results[0]->type);
  for (int32_t d = 0; d < types[0]->num_dims; d++)
    if (is_private(op, 0, types[0]->dims[d].name))
      shards *= ptc_dim_num_shards(&p->module->mesh, &types[0]->dims[d]);
  for (int32_t i = 1; i < op->num_operands; i++) staying += ptc_type_num_bytes(types[i]);
  if (ptc_type_num_bytes(types[0]) / shards > staying) return;
  for (int32_t i = 0; i < f->count; i++) {
    f->items[i].cedes = f->items[i].private;
    f->items[i].beside = !f->items[i].private && ptc_type_has_dim(types[0], f->items[i].name);
  }
}

// |split|: dims that must be whole may be sharded, for the split form.
static void find_factors(ptc_part_t *p, const ptc_op_t *op, const ptc_type_t *const *types,
                         bool split, factors_t *f) {
  f->count = 0;
  for (int32_t i = 0; i < op->num_operands; i++) {
    const bool weight = ptc_map_get(&p->weights, op->operands[i]) != NULL;
    const int64_t bytes = ptc_type_num_bytes(types[i]);
    for (int32_t d = 0; d < types[i]->num_dims; d++) {
      const ptc_dim_t *dim = &types[i]->dims[d];
      const bool private = is_private(op, i, dim->name);
      factor_t *factor = find_factor(f, dim->name, private);
      if (!factor) continue;
      const bool walked = op->opcode == PTC_OP_GATHER ? private : ptc_op_needs_whole(op, dim->name);
      factor->whole |= walked && !split;
      factor->summed |= is_summed(op, dim->name);
      add_dim(factor, dim, bytes, weight);
    }
  }
  for (int32_t i = 0; i < f->count; i++)
    if (f->items[i].whole) f->items[i].num_axes = 0;
  find_ceding(p, op, types, f);
  resolve_conflicts(f);
}

static void apply_factors(ptc_part_t *p, const ptc_op_t *op, factors_t *f,
                          const ptc_type_t **types) {
  for (int32_t i = 0; i < op->num_operands; i++) {
    for (int32_t d = 0; d < types[i]->num_dims; d++) {
      const char *name = types[i]->dims[d].name;
      const factor_t *factor = find_factor(f, name, is_private(op, i, name));
      if (factor) types[i] = ptc_part_with_axes(p, types[i], d, factor->axes, factor->num_axes);
    }
  }
}

// --- results

// The shape function's types for operands of |types|; complaints go to |diag|.
static bool with_types(ptc_part_t *p, ptc_op_t *op, const ptc_type_t *const *types,
                       const ptc_type_t **results, ptc_diag_t *diag) {
  ptc_value_t *values = PTC_ARENA_ARRAY(p->scratch, ptc_value_t, op->num_operands + 1);
  ptc_value_t **operands = PTC_ARENA_ARRAY(p->scratch, ptc_value_t *, op->num_operands + 1);
  for (int32_t i = 0; i < op->num_operands; i++) {
    values[i] = *op->operands[i];
    values[i].type = types[i];
    operands[i] = &values[i];
  }
  ptc_value_t **old = op->operands;
  ptc_diag_t *module_diag = p->module->diag;
  op->operands = operands;
  p->module->diag = diag;
  const bool fine = ptc_op_info(op->opcode)->shape(p->module, op, results) == PTC_OK;
  op->operands = old;
  p->module->diag = module_diag;
  return fine;
}

// A table's gradient lands where the parameter lies: the dim of the result that is addressed and lies on axes there.
const char *ptc_part_scattered_dim(ptc_part_t *p, const ptc_op_t *op, const ptc_axis_ref_t **axes,
                                   int32_t *num_axes) {
  const ptc_part_mark_t *mark =
      op->opcode == PTC_OP_SCATTER_ADD ? ptc_map_get(&p->grads, op->results[0]) : NULL;
  if (!mark || !mark->home) return NULL;
  for (int32_t d = 0; d < mark->home->num_dims; d++) {
    const ptc_dim_t *dim = &mark->home->dims[d];
    if (dim->num_axes == 0 || !ptc_op_dims_contain(op, "dims", dim->name)) continue;
    *axes = dim->axes;
    *num_axes = dim->num_axes;
    return dim->name;
  }
  return NULL;
}

static void scatter_result(ptc_part_t *p, const ptc_op_t *op, const ptc_type_t **result) {
  const ptc_axis_ref_t *axes;
  int32_t num_axes;
  const char *dim = ptc_part_scattered_dim(p, op, &axes, &num_axes);
  const int32_t at = dim ? ptc_type_find_dim(*result, dim) : -1;
  if (at < 0 || !ptc_part_is_free(*result, axes, num_axes)) return;
  *result = ptc_part_with_axes(p, *result, at, axes, num_axes);
}

// State and its new version have the state's layout; so has the gradient.
static void optimizer_types(ptc_part_t *p, const ptc_op_t *op, const ptc_type_t **types) {
  const ptc_type_t *param = op->operands[0]->type;
  for (int32_t i = 0; i < op->num_operands; i++) {
    types[i] = op->operands[i]->type;
    if (types[i]->num_dims == 0) {
      types[i] = ptc_part_resolved(p, op->operands[i], types[i]);
      continue;
    }
    types[i] = ptc_part_with_partial(p, types[i], NULL, 0);
    for (int32_t d = 0; d < types[i]->num_dims; d++) {
      const int32_t at = ptc_type_find_dim(param, types[i]->dims[d].name);
      if (at >= 0)
        types[i] =
            ptc_part_with_axes(p, types[i], d, param->dims[at].axes, param->dims[at].num_axes);
    }
  }
}

typedef enum attempt_e { TRY_SPLIT, TRY_NATURAL, TRY_SAMPLES, TRY_WHOLE, NUM_ATTEMPTS } attempt_t;

static bool try_rule(ptc_part_t *p, ptc_op_t *op, attempt_t attempt, const ptc_type_t **operands,
                     const ptc_type_t **results, ptc_diag_t *diag) {
  if (op->opcode == PTC_OP_ADAMW || op->opcode == PTC_OP_SGD) {
    optimizer_types(p, op, operands);
    return with_types(p, op, operands, results, diag);
  }
  factors_t factors;
  base_types(p, op, operands);
  ptc_part_attention_t attention;
  if (attempt == TRY_SPLIT && ptc_part_attention_way(p, op, &attention)) {
    for (int32_t i = 0; i < op->num_operands; i++)
      operands[i] = ptc_part_attention_bare(p, &attention, operands[i]);
    find_factors(p, op, operands, false, &factors);
    apply_factors(p, op, &factors, operands);
    const ptc_type_t **inferred =
        PTC_ARENA_ARRAY(p->scratch, const ptc_type_t *, op->num_results + 1);
    // Where a dim that is summed lies on other axes, results are partial. Blocks of keys that go round are no shards:
    // what a turn sums over does not lie on cp.
    const bool ring = attention.way == PTC_CP_RING;
    bool known = ring && with_types(p, op, operands, inferred, diag);
    for (int32_t i = 0; i < op->num_operands; i++)
      operands[i] = ptc_part_attention_laid(p, &attention, op, i, operands[i]);
    known |= !ring && with_types(p, op, operands, inferred, diag);
    ptc_part_attention_results(p, &attention, op, operands, known ? inferred : NULL, results);
    return true;
  }
  for (int32_t i = 0; attempt >= TRY_SAMPLES && i < op->num_operands; i++)
    operands[i] = ptc_part_whole(p, operands[i], attempt == TRY_SAMPLES ? p->batch : NULL);
  find_factors(p, op, operands, attempt == TRY_SPLIT, &factors);
  apply_factors(p, op, &factors, operands);
  if (attempt == TRY_SPLIT) {
    if (!ptc_has_split_form(op, operands)) return false;
    ptc_split_form_types(p->module, op, operands, results);
    return true;
  }
  if (!with_types(p, op, operands, results, diag)) return false;
  if (op->opcode == PTC_OP_SCATTER_ADD) scatter_result(p, op, results);
  return true;
}

bool ptc_part_rule(ptc_part_t *p, ptc_op_t *op, const ptc_type_t **operands,
                   const ptc_type_t **results) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  bool fine = false;
  // Where the natural sharding does not fit, the next try has less of it.
  for (int attempt = TRY_SPLIT; attempt < NUM_ATTEMPTS && !fine; attempt++)
    fine = try_rule(p, op, (attempt_t)attempt, operands, results, &diag);
  if (!fine) {
    const char *reason = diag.num_items ? diag.items[0].message : "";
    ptc_error(p->module->diag, op->loc, PTC_UNSUPPORTED, "partition-op",
              "\"%s\" cannot be split over the mesh: %s", ptc_op_info(op->opcode)->mnemonic,
              reason);
  }
  ptc_diag_deinit(&diag);
  return fine;
}
