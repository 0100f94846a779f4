// Norms, dropout, rope, cross entropy, routing and attention.
#include <math.h>
#include <string.h>

#include "frontend/lower_call.h"

static ptc_op_t *build(call_t *c, ptc_opcode_t opcode, ptc_value_t *const *operands, int32_t count,
                       int32_t num_results, ptc_attrs_t attrs) {
  return ptc_build_op(&c->L->b, opcode, operands, count, num_results, attrs);
}

// y = norm(x) * (scale + offset) + bias; rmsnorm has no bias.
val_t lower_norm(call_t *c) {
  lower_t *L = c->L;
  bool layer = c->builtin->variant == PTC_OP_LAYERNORM, affine, with_bias = false;
  double eps, offset;
  if (!call_option_number(c, "eps", layer ? 1e-5 : 1e-6, &eps) ||
      !call_option_number(c, "offset", 0, &offset) || !call_option_flag(c, "affine", true, &affine))
    return val_error();
  if (layer && !call_option_flag(c, "bias", true, &with_bias)) return val_error();
  val_t x;
  if (!call_finish_options(c) || !call_need_dims(c, 1, PTC_MAX_DIMS) || !call_tensor(c, 0, &x) ||
      !call_check_has_dims(c, &x))
    return val_error();
  if (eps < 0) {
    LOWER_ERROR(L, c->expr->loc, "option-value", "option \"eps\" of %s() is %g; it must be >= 0",
                c->builtin->name, eps);
    return val_error();
  }
  x = val_to_float(L, x);
  if (x.kind != VAL_TENSOR) return x;
  const char *names[PTC_MAX_DIMS];
  call_dim_names(c, names);
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dims(L->module, &attrs, "over", names, c->num_dims);
  ptc_attrs_set_float(L->module, &attrs, "eps", eps);
  ptc_op_t *op = build(c, (ptc_opcode_t)c->builtin->variant, &x.ir, 1, layer ? 3 : 2, attrs);
  if (!op) return val_error();
  val_t y = val_tensor(op->results[0], x.dims, x.num_dims, x.bracketed);
  if (!affine) return y;
  const char *name = c->name->instance ? c->name->instance : c->builtin->name;
  instance_t *instance = instance_enter(L, name, c->name->instance != NULL, c->expr);
  param_init_t init = {.dist = "constant", .a = 1 - offset};
  val_t scale = lower_param(L, "scale", c->expr->loc, c->dims, c->num_dims, PTC_F32, &init);
  if (offset != 0)
    scale = val_binary(L, PTC_OPR_ADD, scale,
                       val_number(ptc_number_from_double(&L->numbers, offset)), c->expr->loc);
  y = val_binary(L, PTC_OPR_MUL, y, scale, c->expr->loc);
  if (layer && with_bias) {
    param_init_t zero = {.dist = "constant"};
    val_t bias = lower_param(L, "bias", c->expr->loc, c->dims, c->num_dims, PTC_F32, &zero);
    y = val_binary(L, PTC_OPR_ADD, y, bias, c->expr->loc);
  }
  instance_leave(L, instance);
  y.bracketed = x.bracketed;
  return y;
}

static bool check_probability(call_t *c, double p) {
  if (p >= 0 && p < 1) return true;
  LOWER_ERROR(c->L, c->expr->loc, "option-value",
              "dropout probability is %g; it must lie in [0, 1)", p);
  return false;
}

val_t lower_dropout(call_t *c) {
  lower_t *L = c->L;
  val_t x;
  ptc_number_t p;
  if (!call_finish_options(c) || !call_need_dims(c, 0, 0) || !call_tensor(c, 0, &x) ||
      !lower_static(L, c->args[1], &p) || !check_probability(c, p.value))
    return val_error();
  const char *name = c->name->instance ? c->name->instance : "dropout";
  instance_t *path = instance_random(L, name, c->expr);
  if (!L->training || p.value == 0) return x;
  x = val_to_float(L, x);
  ptc_value_t *operands[3 + PTC_MAX_COUNTS] = {x.ir};
  int32_t n = 1 + lower_random_operands(L, path, operands + 1);
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_float(L->module, &attrs, "p", p.value);
  ptc_attrs_set_string(L->module, &attrs, "path", path->path);
  ptc_op_t *op = build(c, PTC_OP_DROPOUT, operands, n, 1, attrs);
  return op ? val_tensor(op->results[0], x.dims, x.num_dims, x.bracketed) : val_error();
}

val_t lower_rope(call_t *c) {
  static const char *const styles[] = {"half", "interleaved", NULL};
  lower_t *L = c->L;
  double base, rotated, scale;
  const char *style = call_option_word(c, "style", styles);
  const ptc_expr_t *at_expr = call_option(c, "at");
  double whole = c->num_dims == 1 ? (double)c->dims[0].extent : 0;
  if (!style || !call_option_number(c, "base", 10000, &base) ||
      !call_option_number(c, "dims", whole, &rotated) || !call_option_number(c, "scale", 1, &scale))
    return val_error();
  val_t x;
  if (!call_finish_options(c) || !call_need_dims(c, 1, 1) || !call_tensor(c, 0, &x) ||
      !call_check_has_dims(c, &x))
    return val_error();
  if (!at_expr) {
    LOWER_ERROR(L, c->expr->loc, "missing-option",
                "rope() needs the positions: `at = s` for a dim, or a tensor");
    return val_error();
  }
  if (rotated != floor(rotated) || rotated < 2 || rotated > whole || fmod(rotated, 2) != 0) {
    LOWER_ERROR(L, c->expr->loc, "option-value",
                "rope() rotates %g of %g elements of \"%s\"; `dims` must be even and at most the "
                "extent",
                rotated, whole, c->dims[0].name);
    return val_error();
  }
  if (!(base > 0) || !(scale > 0)) {
    LOWER_ERROR(L, c->expr->loc, "option-value", "rope() needs base > 0 and scale > 0");
    return val_error();
  }
  L->index_mode = true;
  val_t at = lower_expr(L, at_expr);
  L->index_mode = false;
  if (at.kind == VAL_NUMBER) at = val_as_tensor(L, at, PTC_I32);
  if (at.kind != VAL_TENSOR) {
    if (at.kind != VAL_ERROR)
      LOWER_ERROR(L, at_expr->loc, "operand-kind", "the positions of rope() are a dim or a tensor");
    return val_error();
  }
  if (at.ir->type->dtype == PTC_BOOL) at = val_cast(L, at, PTC_I32);
  for (int32_t i = 0; i < at.num_dims; i++) {
    if (val_find_dim(&x, at.dims[i].name) >= 0) continue;
    LOWER_ERROR(L, at_expr->loc, "missing-dim",
                "rope(): the positions have dim \"%s\", which %s lacks", at.dims[i].name,
                val_describe(L, &x));
    return val_error();
  }
  x = val_to_float(L, x);
  if (x.kind != VAL_TENSOR) return x;
  ptc_value_t *operands[2] = {x.ir, at.ir};
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dim(L->module, &attrs, "dim", c->dims[0].name);
  ptc_attrs_set_float(L->module, &attrs, "base", base);
  ptc_attrs_set_int(L->module, &attrs, "dims", (int64_t)rotated);
  ptc_attrs_set_string(L->module, &attrs, "style", style);
  if (scale != 1) ptc_attrs_set_float(L->module, &attrs, "scale", scale);
  ptc_op_t *op = build(c, PTC_OP_ROPE, operands, 2, 1, attrs);
  return op ? val_tensor(op->results[0], x.dims, x.num_dims, x.bracketed) : val_error();
}

// Dims of |val| must be among |rows|.
static bool check_rows(call_t *c, const val_t *val, const val_t *rows, const char *what) {
  for (int32_t i = 0; i < val->num_dims; i++) {
    int32_t at = val_find_dim(rows, val->dims[i].name);
    if (at >= 0 && rows->dims[at].key == val->dims[i].key) continue;
    LOWER_ERROR(c->L, c->expr->loc, "missing-dim",
                "%s(): the %s have dim \"%s\", which the rows %s lack", c->builtin->name, what,
                val->dims[i].name, val_describe(c->L, rows));
    return false;
  }
  return true;
}

// sum(w * nll) / sum(w) over all rows; a negative target has w = 0. The divisor is one number of the
// whole step.
val_t lower_cross_entropy(call_t *c) {
  lower_t *L = c->L;
  const ptc_expr_t *weight_expr = call_option(c, "weight");
  bool reduce;
  if (!call_option_flag(c, "reduce", true, &reduce)) return val_error();
  val_t logits, targets;
  if (!call_finish_options(c) || !call_need_dims(c, 1, 1) || !call_tensor(c, 0, &logits) ||
      !call_tensor(c, 1, &targets) || !call_check_has_dims(c, &logits))
    return val_error();
  if (ptc_dtype_is_float(targets.ir->type->dtype)) {
    LOWER_ERROR(L, c->args[1]->loc, "operand-kind", "the targets of cross_entropy() are integers");
    return val_error();
  }
  logits = val_to_float(L, logits);
  targets = val_cast(L, targets, PTC_I32);
  if (logits.kind != VAL_TENSOR || targets.kind != VAL_TENSOR) return val_error();
  const char *v = c->dims[0].name;
  val_t rows = logits;
  rows.num_dims = 0;
  for (int32_t i = 0; i < logits.num_dims; i++)
    if (logits.dims[i].name != v) rows.dims[rows.num_dims++] = logits.dims[i];
  if (!check_rows(c, &targets, &rows, "targets")) return val_error();
  lower_note_targets(L, &targets, &c->dims[0]);
  targets = val_fit(L, targets, rows.dims, rows.num_dims);
  val_t weight = val_binary(L, PTC_OPR_GE, targets, val_number(ptc_number_from_int(&L->numbers, 0)),
                            c->expr->loc);
  weight = val_cast(L, weight, PTC_F32);
  if (weight_expr) {
    val_t own = lower_expr(L, weight_expr);
    if (own.kind != VAL_ERROR && own.kind != VAL_TENSOR && own.kind != VAL_NUMBER) {
      LOWER_ERROR(L, weight_expr->loc, "operand-kind",
                  "the weight of cross_entropy() is a tensor or a number");
      return val_error();
    }
    own = val_cast(L, own, PTC_F32);
    if (own.kind != VAL_TENSOR || !check_rows(c, &own, &rows, "weights")) return val_error();
    own.bracketed = weight.bracketed = true;
    weight = val_binary(L, PTC_OPR_MUL, weight, own, c->expr->loc);
  }
  if (targets.kind != VAL_TENSOR || weight.kind != VAL_TENSOR) return val_error();
  ptc_value_t *operands[2] = {logits.ir, targets.ir};
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dim(L->module, &attrs, "dim", v);
  ptc_op_t *op = build(c, PTC_OP_CROSS_ENTROPY, operands, 2, 2, attrs);
  if (!op) return val_error();
  val_t nll = val_tensor(op->results[0], rows.dims, rows.num_dims, true);
  val_t weighted =
      val_binary(L, PTC_OPR_MUL, nll, val_fit(L, weight, rows.dims, rows.num_dims), c->expr->loc);
  if (!reduce || weighted.kind != VAL_TENSOR) return weighted;
  const char *names[PTC_MAX_DIMS];
  for (int32_t i = 0; i < rows.num_dims; i++) names[i] = rows.dims[i].name;
  val_t total = call_sum(c, weighted, names, rows.num_dims);
  weight = val_fit(L, weight, rows.dims, rows.num_dims);
  val_t count = call_sum(c, weight, names, rows.num_dims);
  if (count.kind != VAL_TENSOR) return val_error();
  // A step without any counted row has loss 0, not 0 / 0.
  val_t zero = val_binary(L, PTC_OPR_EQ, count, val_number(ptc_number_from_int(&L->numbers, 0)),
                          c->expr->loc);
  val_t one = val_as_tensor(L, val_number(ptc_number_from_int(&L->numbers, 1)), PTC_F32);
  if (zero.kind != VAL_TENSOR || one.kind != VAL_TENSOR) return val_error();
  count.ir = ptc_build_where(&L->b, zero.ir, one.ir, count.ir);
  if (!count.ir) return val_error();
  return val_binary(L, PTC_OPR_DIV, total, count, c->expr->loc);
}

// The dims of target |index| in order; false after an error.
static bool target_dims(call_t *c, int32_t index, val_t *out) {
  *out = (val_t){0};
  if (c->num_targets <= index || !c->targets[index].has_brackets) {
    LOWER_ERROR(c->L, c->expr->loc, "needs-targets",
                "%s() takes the new dims of its results from the left side: write `%s`",
                c->builtin->name,
                strcmp(c->builtin->name, "topk") == 0
                    ? "w[b, s, j], which[b, s, j] = topk[e](p)"
                    : "xe[b, e, c, d], slot[b, s, j] = dispatch(x, which)");
    return false;
  }
  const ptc_target_t *target = &c->targets[index];
  for (int32_t i = 0; i < target->num_indices; i++) {
    const ptc_expr_t *item = target->indices[i];
    if (out->num_dims == PTC_MAX_DIMS || item->kind != PTC_EXPR_NAME) {
      LOWER_ERROR(c->L, item->loc, "target-dim", "the left side of %s() holds names of dims",
                  c->builtin->name);
      return false;
    }
    if (!scope_dim(c->L, item->text, item->loc, &out->dims[out->num_dims])) return false;
    out->num_dims++;
  }
  return true;
}

val_t lower_topk(call_t *c) {
  lower_t *L = c->L;
  val_t x, target;
  if (!call_finish_options(c) || !call_need_dims(c, 1, 1) || !call_tensor(c, 0, &x) ||
      !call_check_has_dims(c, &x) || !target_dims(c, 0, &target))
    return val_error();
  fdim_t into = {0};
  for (int32_t i = 0; i < target.num_dims; i++)
    if (val_find_dim(&x, target.dims[i].name) < 0) into = target.dims[i];
  if (!into.name || into.extent > c->dims[0].extent) {
    LOWER_ERROR(L, c->expr->loc, "topk-dim",
                "topk[%s]() needs one new dim on the left, of at most the extent of \"%s\" (%lld)",
                c->dims[0].name, c->dims[0].name, (long long)c->dims[0].extent);
    return val_error();
  }
  x = val_to_float(L, x);
  if (x.kind != VAL_TENSOR) return x;
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dim(L->module, &attrs, "dim", c->dims[0].name);
  ptc_attrs_set_dim(L->module, &attrs, "into", into.name);
  ptc_attrs_set_int(L->module, &attrs, "extent", into.extent);
  ptc_op_t *op = build(c, PTC_OP_TOPK, &x.ir, 1, 2, attrs);
  if (!op) return val_error();
  val_t dims = x;
  for (int32_t i = 0; i < dims.num_dims; i++)
    if (dims.dims[i].name == c->dims[0].name) dims.dims[i] = into;
  c->num_results = 2;
  c->more[1] = val_tensor(op->results[1], dims.dims, dims.num_dims, true);
  return val_tensor(op->results[0], dims.dims, dims.num_dims, true);
}

// Rows of x go to slots of experts: xe[.., expert, slot, ..] = x[.., s, ..] for each choice j.
val_t lower_dispatch(call_t *c) {
  lower_t *L = c->L;
  val_t x, which, target;
  if (!call_finish_options(c) || !call_need_dims(c, 0, 0) || !call_tensor(c, 0, &x) ||
      !call_tensor(c, 1, &which) || !target_dims(c, 0, &target))
    return val_error();
  if (ptc_dtype_is_float(which.ir->type->dtype)) {
    LOWER_ERROR(L, c->args[1]->loc, "operand-kind", "dispatch() takes the integers of topk()");
    return val_error();
  }
  which = val_cast(L, which, PTC_I32);
  x = val_to_float(L, x);
  // New dims on the left: the expert, then its slots. Routed dims: those of |which| that the left
  // side lacks.
  fdim_t fresh[2];
  int32_t num_fresh = 0, num_routed = 0;
  for (int32_t i = 0; i < target.num_dims; i++) {
    if (val_find_dim(&x, target.dims[i].name) >= 0) continue;
    if (num_fresh < 2) fresh[num_fresh] = target.dims[i];
    num_fresh++;
  }
  const char *routed[PTC_MAX_DIMS];
  for (int32_t i = 0; i < which.num_dims; i++)
    if (val_find_dim(&target, which.dims[i].name) < 0) routed[num_routed++] = which.dims[i].name;
  if (num_fresh != 2 || !num_routed) {
    LOWER_ERROR(
        L, c->expr->loc, "dispatch-dims",
        "dispatch() needs two new dims on the left, the expert and its slots, in place of the "
        "routed ones: `xe[b, e, c, d], slot[b, s, j] = dispatch(x, which)`");
    return val_error();
  }
  ptc_attrs_t slot_attrs = {0};
  ptc_attrs_set_dims(L->module, &slot_attrs, "over", routed, num_routed);
  ptc_op_t *slot_op = build(c, PTC_OP_DISPATCH_SLOT, &which.ir, 1, 1, slot_attrs);
  if (!slot_op) return val_error();
  val_t slot = val_tensor(slot_op->results[0], which.dims, which.num_dims, true), spread;
  // Every choice carries its row.
  if (!val_merge_dims(L, &spread, &which, &x, c->expr->loc)) return val_error();
  val_t rows = val_fit(L, x, spread.dims, spread.num_dims);
  if (rows.kind != VAL_TENSOR) return val_error();
  ptc_value_t *operands[3] = {rows.ir, which.ir, slot.ir};
  const char *dims[2] = {fresh[0].name, fresh[1].name}, *result[PTC_MAX_DIMS];
  int64_t extents[PTC_MAX_DIMS];
  for (int32_t i = 0; i < target.num_dims; i++) {
    result[i] = target.dims[i].name;
    extents[i] = target.dims[i].extent;
  }
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dims(L->module, &attrs, "dims", dims, 2);
  ptc_attrs_set_dims(L->module, &attrs, "result", result, target.num_dims);
  ptc_attrs_set_ints(L->module, &attrs, "extents", extents, target.num_dims);
  ptc_op_t *op = build(c, PTC_OP_SCATTER_ADD, operands, 3, 1, attrs);
  if (!op) return val_error();
  c->num_results = 2;
  c->more[1] = slot;
  return val_tensor(op->results[0], target.dims, target.num_dims, true);
}

// --- attention

typedef struct attention_s {
  val_t q, key, val;
  fdim_t attend, dot, query;  // query: the dim of the queries' positions, if one is needed
  bool renamed;               // key's and val's own name of the query dim was replaced
} attention_t;

// attention[s](q, key, val): all three have s; key and val get another name for it.
static bool separate_self(call_t *c, attention_t *a) {
  lower_t *L = c->L;
  if (val_find_dim(&a->q, a->attend.name) < 0) return true;
  ptc_str_t text = {0};
  ptc_str_append(&text, a->attend.name);
  do ptc_str_append(&text, "_key");
  while (val_find_dim(&a->q, lower_intern(L, text.data)) >= 0 ||
         val_find_dim(&a->val, lower_intern(L, text.data)) >= 0 ||
         val_find_dim(&a->key, lower_intern(L, text.data)) >= 0);
  const char *name = lower_intern(L, text.data), *old = a->attend.name;
  ptc_str_deinit(&text);
  val_t *both[2] = {&a->key, &a->val};
  for (int i = 0; i < 2; i++) {
    both[i]->ir = ptc_build_rename(&L->b, both[i]->ir, &old, &name, 1);
    if (!both[i]->ir) return false;
    both[i]->dims[val_find_dim(both[i], old)].name = name;
  }
  a->query = a->attend;
  a->attend.name = name;
  a->renamed = true;
  return true;
}

// The dim of q that counts positions like the attended one: not shared with key, of the same
// expression.
static bool find_query(call_t *c, attention_t *a, const char *why) {
  if (a->query.name) return true;
  int32_t found = 0;
  for (int32_t i = 0; i < a->q.num_dims; i++) {
    if (val_find_dim(&a->key, a->q.dims[i].name) >= 0 || a->q.dims[i].key != a->attend.key)
      continue;
    a->query = a->q.dims[i];
    found++;
  }
  if (found == 1) return true;
  LOWER_ERROR(
      c->L, c->expr->loc, "attention-dims",
      "attention(): `%s` needs one dim of the queries %s that counts positions like \"%s\"; "
      "write the rule as a mask",
      why, val_describe(c->L, &a->q), a->attend.name);
  a->query = (fdim_t){0};
  return false;
}

static bool check_attention(call_t *c, attention_t *a) {
  lower_t *L = c->L;
  const val_t *key_val[2] = {&a->key, &a->val};
  for (int i = 0; i < 2; i++) {
    int32_t at = val_find_dim(key_val[i], a->attend.name);
    if (at >= 0) continue;
    LOWER_ERROR(L, c->expr->loc, "attention-dims", "attention[%s](): the %s %s lack dim \"%s\"",
                a->attend.name, i ? "values" : "keys", val_describe(L, key_val[i]), a->attend.name);
    return false;
  }
  const val_t *q_key[2] = {&a->q, &a->key};
  for (int i = 0; i < 2; i++) {
    if (val_find_dim(q_key[i], a->dot.name) >= 0) continue;
    LOWER_ERROR(L, c->expr->loc, "attention-dims", "attention(): the %s %s lack the dot dim \"%s\"",
                i ? "keys" : "queries", val_describe(L, q_key[i]), a->dot.name);
    return false;
  }
  val_t merged;
  return val_merge_dims(L, &merged, &a->q, &a->key, c->expr->loc) &&
         val_merge_dims(L, &merged, &merged, &a->val, c->expr->loc);
}

static val_t positions(call_t *c, const fdim_t *dim) {
  ptc_dim_t ir_dim = {.name = dim->name, .extent = dim->extent};
  return val_tensor(ptc_build_iota(&c->L->b, &ir_dim), dim, 1, true);
}

static val_t both_true(call_t *c, val_t a, val_t b) {
  if (a.kind != VAL_TENSOR) return b;
  a.bracketed = b.bracketed = true;
  return val_binary(c->L, PTC_OPR_AND, a, b, c->expr->loc);
}

// The mask that `causal`, `window` and `mask` say together. kind VAL_NUMBER: none.
static val_t attention_mask(call_t *c, attention_t *a, bool causal, double window,
                            const ptc_expr_t *mask_expr) {
  lower_t *L = c->L;
  val_t mask = {.kind = VAL_NUMBER};
  if (causal) {
    if (!find_query(c, a, "causal")) return val_error();
    mask =
        val_binary(L, PTC_OPR_LE, positions(c, &a->attend), positions(c, &a->query), c->expr->loc);
  }
  if (window > 0) {
    if (!find_query(c, a, "window")) return val_error();
    val_t first = val_binary(L, PTC_OPR_SUB, positions(c, &a->query),
                             val_number(ptc_number_from_double(&L->numbers, window)), c->expr->loc);
    mask = both_true(c, mask,
                     val_binary(L, PTC_OPR_GT, positions(c, &a->attend), first, c->expr->loc));
  }
  if (!mask_expr || mask.kind == VAL_ERROR) return mask;
  val_t own = lower_expr(L, mask_expr);
  if (own.kind != VAL_TENSOR) {
    if (own.kind != VAL_ERROR)
      LOWER_ERROR(L, mask_expr->loc, "operand-kind", "the mask of attention() is a tensor");
    return val_error();
  }
  return both_true(c, mask, val_cast(L, own, PTC_BOOL));
}

static bool check_score_dims(call_t *c, const attention_t *a, const val_t *val, const char *what,
                             const ptc_expr_t *expr) {
  for (int32_t i = 0; i < val->num_dims; i++) {
    const char *name = val->dims[i].name;
    bool in_score =
        (val_find_dim(&a->q, name) >= 0 || val_find_dim(&a->key, name) >= 0) && name != a->dot.name;
    if (in_score) continue;
    LOWER_ERROR(c->L, expr ? expr->loc : c->expr->loc, "attention-dims",
                "attention(): the %s has dim \"%s\", which the scores lack", what, name);
    return false;
  }
  return true;
}

val_t lower_attention(call_t *c) {
  lower_t *L = c->L;
  attention_t a = {0};
  bool causal;
  double window, softcap, scale, p;
  const ptc_expr_t *dot_expr = call_option(c, "dot"), *mask_expr = call_option(c, "mask"),
                   *bias_expr = call_option(c, "bias");
  if (!call_option_flag(c, "causal", false, &causal) ||
      !call_option_number(c, "window", 0, &window) ||
      !call_option_number(c, "softcap", 0, &softcap) ||
      !call_option_number(c, "scale", NAN, &scale) || !call_option_number(c, "dropout", 0, &p))
    return val_error();
  if (!call_finish_options(c) || !call_need_dims(c, 1, 1)) return val_error();
  if (!dot_expr || dot_expr->kind != PTC_EXPR_NAME) {
    LOWER_ERROR(L, c->expr->loc, "missing-option",
                "attention() needs the dim of the dot product: `dot = k`");
    return val_error();
  }
  if (c->num_args != 3) {
    LOWER_ERROR(L, c->expr->loc, "argument-count",
                "attention() takes queries, keys and values, not %d tensors", (int)c->num_args);
    return val_error();
  }
  if (!scope_dim(L, dot_expr->text, dot_expr->loc, &a.dot) || !call_tensor(c, 0, &a.q) ||
      !call_tensor(c, 1, &a.key) || !call_tensor(c, 2, &a.val) || !check_probability(c, p))
    return val_error();
  if (window < 0 || window != floor(window) || softcap < 0) {
    LOWER_ERROR(L, c->expr->loc, "option-value",
                "attention(): window is a whole number >= 0, softcap a number >= 0 (0: none)");
    return val_error();
  }
  a.attend = c->dims[0];
  // The result keeps the names of the text.
  a.q = val_to_float(L, a.q);
  a.key = val_to_float(L, a.key);
  a.val = val_to_float(L, a.val);
  if (!check_attention(c, &a) || !separate_self(c, &a)) return val_error();
  if (a.renamed && mask_expr) {
    LOWER_ERROR(L, mask_expr->loc, "attention-dims",
                "attention[%s](): with a mask, give the keys a name of their own for \"%s\": "
                "`dim t = ...`, attention[t](q, key[.., t, ..], val[.., t, ..])",
                c->dims[0].name, c->dims[0].name);
    return val_error();
  }
  val_t mask = attention_mask(c, &a, causal, window, mask_expr);
  if (mask.kind == VAL_ERROR ||
      (mask.kind == VAL_TENSOR && !check_score_dims(c, &a, &mask, "mask", mask_expr)))
    return val_error();
  ptc_value_t *operands[7 + PTC_MAX_COUNTS] = {a.q.ir, a.key.ir, a.val.ir};
  int32_t n = 3;
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dim(L->module, &attrs, "attend", a.attend.name);
  ptc_attrs_set_dim(L->module, &attrs, "dot", a.dot.name);
  ptc_attrs_set_float(L->module, &attrs, "scale",
                      isnan(scale) ? 1 / sqrt((double)a.dot.extent) : scale);
  if (softcap > 0) ptc_attrs_set_float(L->module, &attrs, "softcap", softcap);
  if (mask.kind == VAL_TENSOR) {
    ptc_attrs_set_bool(L->module, &attrs, "mask", true);
    operands[n++] = mask.ir;
  }
  if (bias_expr) {
    val_t bias = val_to_float(L, lower_expr(L, bias_expr));
    if (bias.kind != VAL_TENSOR || !check_score_dims(c, &a, &bias, "bias", bias_expr))
      return val_error();
    ptc_attrs_set_bool(L->module, &attrs, "bias", true);
    operands[n++] = bias.ir;
  }
  const char *name = c->name->instance ? c->name->instance : "attention";
  instance_t *path = instance_random(L, name, c->expr);
  if (L->training && p > 0) {
    ptc_attrs_set_float(L->module, &attrs, "p", p);
    ptc_attrs_set_string(L->module, &attrs, "path", path->path);
    n += lower_random_operands(L, path, operands + n);
  }
  ptc_op_t *op = build(c, PTC_OP_ATTENTION, operands, n, 2, attrs);
  val_t dims;
  if (!op || !val_merge_dims(L, &dims, &a.q, &a.val, c->expr->loc)) return val_error();
  return val_tensor(op->results[0], dims.dims, dims.num_dims, true);
}
