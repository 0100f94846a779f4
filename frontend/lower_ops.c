// The functions of the language: one row each in |builtins|, one small lowering per family.
#include <math.h>
#include <string.h>

#include "frontend/lower_call.h"

static val_t lower_elementwise(call_t *c);
static val_t lower_minmax(call_t *c);
static val_t lower_where(call_t *c);
static val_t lower_cast(call_t *c);
static val_t lower_reduce(call_t *c);
static val_t lower_scan(call_t *c);
static val_t lower_index_call(call_t *c);
static val_t lower_padded(call_t *c);
static val_t lower_concat(call_t *c);
static val_t lower_softmax(call_t *c);
static val_t lower_logsumexp(call_t *c);

// Columns: name, how free dims flow (lower_builtin_flow), lowering, opcode or dtype or variant,
// fewest and most positional arguments.
static const builtin_t builtins[] = {
    {"exp", 1, lower_elementwise, PTC_OP_EXP, 1, 1},
    {"log", 1, lower_elementwise, PTC_OP_LOG, 1, 1},
    {"sin", 1, lower_elementwise, PTC_OP_SIN, 1, 1},
    {"cos", 1, lower_elementwise, PTC_OP_COS, 1, 1},
    {"tanh", 1, lower_elementwise, PTC_OP_TANH, 1, 1},
    {"sqrt", 1, lower_elementwise, PTC_OP_SQRT, 1, 1},
    {"rsqrt", 1, lower_elementwise, PTC_OP_RSQRT, 1, 1},
    {"erf", 1, lower_elementwise, PTC_OP_ERF, 1, 1},
    {"abs", 1, lower_elementwise, PTC_OP_ABS, 1, 1},
    {"sign", 1, lower_elementwise, PTC_OP_SIGN, 1, 1},
    {"floor", 1, lower_elementwise, PTC_OP_FLOOR, 1, 1},
    {"ceil", 1, lower_elementwise, PTC_OP_CEIL, 1, 1},
    {"relu", 1, lower_elementwise, PTC_OP_RELU, 1, 1},
    {"sigmoid", 1, lower_elementwise, PTC_OP_SIGMOID, 1, 1},
    {"silu", 1, lower_elementwise, PTC_OP_SILU, 1, 1},
    {"gelu", 1, lower_elementwise, PTC_OP_GELU, 1, 1},
    {"softplus", 1, lower_elementwise, PTC_OP_SOFTPLUS, 1, 1},
    {"is_finite", 1, lower_elementwise, PTC_OP_IS_FINITE, 1, 1},
    {"where", 1, lower_where, 0, 3, 3},
    {"int", 1, lower_cast, PTC_I32, 1, 1},
    {"f32", 1, lower_cast, PTC_F32, 1, 1},
    {"bf16", 1, lower_cast, PTC_BF16, 1, 1},
    {"f16", 1, lower_cast, PTC_F16, 1, 1},
    {"min", 3, lower_minmax, PTC_OP_MIN, 1, 16},
    {"max", 3, lower_minmax, PTC_OP_MAX, 1, 16},
    {"sum", 3, lower_reduce, REDUCE_SUM, 1, 1},
    {"mean", 3, lower_reduce, REDUCE_MEAN, 1, 1},
    {"argmax", 3, lower_reduce, REDUCE_ARGMAX, 1, 1},
    {"logsumexp", 3, lower_logsumexp, 0, 1, 1},
    {"cumsum", 2, lower_scan, PTC_OP_CUMSUM, 1, 1},
    {"cummax", 2, lower_scan, PTC_OP_CUMMAX, 1, 1},
    {"index", 0, lower_index_call, 0, 1, 1},
    {"padded", 2, lower_padded, 0, 2, 2},
    {"concat", 0, lower_concat, 0, 2, 8},
    {"softmax", 2, lower_softmax, 0, 1, 1},
    {"layernorm", 2, lower_norm, PTC_OP_LAYERNORM, 1, 1},
    {"rmsnorm", 2, lower_norm, PTC_OP_RMSNORM, 1, 1},
    {"dropout", 2, lower_dropout, 0, 2, 2},
    {"rope", 2, lower_rope, 0, 1, 1},
    {"cross_entropy", 0, lower_cross_entropy, 0, 2, 2},
    {"topk", 0, lower_topk, 0, 1, 1},
    {"dispatch", 0, lower_dispatch, 0, 2, 2},
    {"attention", 0, lower_attention, 0, 3, 4},
};
enum { NUM_BUILTINS = sizeof(builtins) / sizeof(*builtins) };

static const builtin_t *find_builtin(const char *name) {
  for (int i = 0; i < NUM_BUILTINS; i++)
    if (strcmp(builtins[i].name, name) == 0) return &builtins[i];
  return NULL;
}

int lower_builtin_flow(const char *name) {
  const builtin_t *builtin = find_builtin(name);
  return builtin ? builtin->flow : 0;
}

const char *lower_nearest_builtin(const char *name) {
  const char *names[NUM_BUILTINS];
  for (int i = 0; i < NUM_BUILTINS; i++) names[i] = builtins[i].name;
  return ptc_nearest_name(name, names, NUM_BUILTINS);
}

// --- arguments

const ptc_expr_t *call_option(call_t *c, const char *name) {
  for (int32_t i = 0; i < c->expr->num_items; i++) {
    if (!c->expr->arg_names[i] || strcmp(c->expr->arg_names[i], name) != 0) continue;
    c->used[i] = true;
    return c->expr->items[i];
  }
  if (c->num_known < 16) c->known[c->num_known++] = name;
  return NULL;
}

bool call_option_number(call_t *c, const char *name, double otherwise, double *out) {
  const ptc_expr_t *expr = call_option(c, name);
  *out = otherwise;
  if (!expr) return true;
  ptc_number_t number;
  if (!lower_static(c->L, expr, &number)) return false;
  *out = number.value;
  return true;
}

bool call_option_flag(call_t *c, const char *name, bool otherwise, bool *out) {
  *out = otherwise;
  for (int32_t i = 0; i < c->num_args; i++) {
    const ptc_expr_t *arg = c->args[i];
    if (arg->kind != PTC_EXPR_NAME || strcmp(arg->text, name) != 0 || scope_find(c->L, name))
      continue;
    for (int32_t k = i; k + 1 < c->num_args; k++) c->args[k] = c->args[k + 1];
    c->num_args--;
    *out = true;
    return true;
  }
  double value;
  if (!call_option_number(c, name, otherwise, &value)) return false;
  *out = value != 0;
  return true;
}

const char *call_option_word(call_t *c, const char *name, const char *const *words) {
  const ptc_expr_t *expr = call_option(c, name);
  if (!expr) return words[0];
  int64_t n = 0;
  for (; words[n]; n++)
    if ((expr->kind == PTC_EXPR_NAME || expr->kind == PTC_EXPR_STRING) &&
        strcmp(expr->text, words[n]) == 0)
      return words[n];
  ptc_str_t list = {0};
  for (int64_t i = 0; i < n; i++) ptc_str_printf(&list, "%s%s", i ? " | " : "", words[i]);
  LOWER_ERROR(c->L, expr->loc, "option-value", "option \"%s\" of %s() is one of %s", name,
              c->builtin->name, list.data);
  ptc_str_deinit(&list);
  return NULL;
}

bool call_finish_options(call_t *c) {
  bool ok = true;
  for (int32_t i = 0; i < c->expr->num_items; i++) {
    const char *name = c->expr->arg_names[i];
    if (!name || c->used[i]) continue;
    const char *near = ptc_nearest_name(name, c->known, c->num_known);
    LOWER_ERROR(c->L, c->expr->items[i]->loc, "unknown-option", "%s() has no option \"%s\"%s%s%s",
                c->builtin->name, name, near ? "; did you mean \"" : "", near ? near : "",
                near ? "\"?" : "");
    ok = false;
  }
  if (c->num_args >= c->builtin->min_args && c->num_args <= c->builtin->max_args) return ok;
  LOWER_ERROR(c->L, c->expr->loc, "argument-count", "%s() takes %d%s%s argument%s, not %d",
              c->builtin->name, c->builtin->min_args,
              c->builtin->max_args > c->builtin->min_args ? " or more" : "", "",
              c->builtin->max_args == 1 ? "" : "s", (int)c->num_args);
  return false;
}

bool call_need_dims(call_t *c, int32_t min, int32_t max) {
  if (c->num_dims >= min && c->num_dims <= max) return true;
  if (max == 0)
    LOWER_ERROR(c->L, c->expr->loc, "builtin-dims", "%s() takes no dims in brackets",
                c->builtin->name);
  else
    LOWER_ERROR(c->L, c->expr->loc, "builtin-dims",
                "%s works along %s: write %s[d](...), with the dim%s in brackets", c->builtin->name,
                max == 1 ? "one dim" : "dims", c->builtin->name, max == 1 ? "" : "s");
  return false;
}

bool call_tensor(call_t *c, int32_t i, val_t *out) {
  *out = lower_expr(c->L, c->args[i]);
  if (out->kind == VAL_NUMBER) *out = val_as_tensor(c->L, *out, PTC_F32);
  if (out->kind == VAL_TENSOR) return true;
  if (out->kind != VAL_ERROR)
    LOWER_ERROR(c->L, c->args[i]->loc, "operand-kind", "%s() takes a tensor here",
                c->builtin->name);
  return false;
}

bool call_check_has_dims(call_t *c, const val_t *val) {
  for (int32_t i = 0; i < c->num_dims; i++) {
    if (val_find_dim(val, c->dims[i].name) >= 0) continue;
    LOWER_ERROR(c->L, c->expr->loc, "missing-dim",
                "%s[%s]: the operand has no dim \"%s\"; its dims are %s", c->builtin->name,
                c->dims[i].name, c->dims[i].name, val_describe(c->L, val));
    return false;
  }
  return true;
}

void call_dim_names(const call_t *c, const char **out_names) {
  for (int32_t i = 0; i < c->num_dims; i++) out_names[i] = c->dims[i].name;
}

// --- elementwise

static val_t lower_elementwise(call_t *c) {
  static const char *const approximations[] = {"none", "tanh", NULL};
  const char *approx = NULL;
  if (c->builtin->variant == PTC_OP_GELU) {
    approx = call_option_word(c, "approx", approximations);
    if (!approx) return val_error();
  }
  if (!call_finish_options(c) || !call_need_dims(c, 0, 0)) return val_error();
  lower_t *L = c->L;
  val_t x = lower_expr(L, c->args[0]);
  ptc_number_t folded;
  if (x.kind == VAL_NUMBER && ptc_number_call(&L->numbers, c->builtin->name, x.number, &folded))
    return val_number(folded);
  if (x.kind == VAL_NUMBER) x = val_as_tensor(L, x, PTC_F32);
  if (x.kind != VAL_TENSOR) {
    if (x.kind != VAL_ERROR)
      LOWER_ERROR(L, c->args[0]->loc, "operand-kind", "%s() takes a tensor or a number",
                  c->builtin->name);
    return val_error();
  }
  bool keeps_int = c->builtin->variant == PTC_OP_ABS || c->builtin->variant == PTC_OP_SIGN;
  if (x.ir->type->dtype == PTC_BOOL) x = val_cast(L, x, keeps_int ? PTC_I32 : PTC_F32);
  if (!keeps_int) x = val_to_float(L, x);
  if (x.kind == VAL_ERROR) return x;
  ptc_attrs_t attrs = {0};
  if (approx == approximations[1]) ptc_attrs_set_string(L->module, &attrs, "approx", "tanh");
  ptc_op_t *op = ptc_build_op(&L->b, (ptc_opcode_t)c->builtin->variant, &x.ir, 1, 1, attrs);
  if (!op) return val_error();
  x.ir = op->results[0];
  x.global = NULL;
  return x;
}

// The dtype in which values meet: floats as arithmetic does, integers i32, bools bool.
static ptc_dtype_t common_dtype(const val_t *a, const val_t *b) {
  ptc_dtype_t dtypes[2];
  const val_t *sides[2] = {a, b};
  for (int i = 0; i < 2; i++)
    dtypes[i] = sides[i]->kind == VAL_TENSOR ? sides[i]->ir->type->dtype
                : sides[i]->kind == VAL_BOOL ? PTC_BOOL
                : ptc_number_is_int(sides[i]->number) && fabs(sides[i]->number.value) < 2147483648.0
                    ? PTC_I32
                    : PTC_F32;
  // A number adapts to a tensor.
  for (int i = 0; i < 2; i++)
    if (sides[i]->kind != VAL_TENSOR && sides[1 - i]->kind == VAL_TENSOR &&
        (ptc_dtype_is_float(dtypes[1 - i]) || !ptc_dtype_is_float(dtypes[i])))
      return dtypes[1 - i] == PTC_BOOL && dtypes[i] != PTC_BOOL ? dtypes[i] : dtypes[1 - i];
  if (dtypes[0] == dtypes[1]) return dtypes[0];
  if (ptc_dtype_is_float(dtypes[0]) && ptc_dtype_is_float(dtypes[1])) return PTC_F32;
  return dtypes[0] > dtypes[1] ? dtypes[0] : dtypes[1];
}

static bool is_operand(call_t *c, int32_t i, const val_t *val) {
  if (val->kind == VAL_TENSOR || val->kind == VAL_NUMBER || val->kind == VAL_BOOL) return true;
  if (val->kind != VAL_ERROR)
    LOWER_ERROR(c->L, c->args[i]->loc, "operand-kind", "%s() takes tensors and numbers",
                c->builtin->name);
  return false;
}

static val_t lower_where(call_t *c) {
  if (!call_finish_options(c) || !call_need_dims(c, 0, 0)) return val_error();
  lower_t *L = c->L;
  val_t v[3];
  for (int32_t i = 0; i < 3; i++) {
    v[i] = lower_expr(L, c->args[i]);
    if (!is_operand(c, i, &v[i])) return val_error();
  }
  if (v[0].kind == VAL_NUMBER) return v[0].number.value != 0 ? v[1] : v[2];
  ptc_dtype_t dtype = common_dtype(&v[1], &v[2]);
  if (dtype == PTC_BOOL && v[0].kind == VAL_TENSOR) dtype = PTC_BOOL;
  v[0] = val_cast(L, v[0], PTC_BOOL);
  v[1] = val_cast(L, v[1], dtype);
  v[2] = val_cast(L, v[2], dtype);
  val_t some, all;
  if (v[0].kind != VAL_TENSOR || v[1].kind != VAL_TENSOR || v[2].kind != VAL_TENSOR ||
      !val_merge_dims(L, &some, &v[0], &v[1], c->expr->loc) ||
      !val_merge_dims(L, &all, &some, &v[2], c->expr->loc))
    return val_error();
  return val_tensor(ptc_build_where(&L->b, v[0].ir, v[1].ir, v[2].ir), all.dims, all.num_dims,
                    v[0].bracketed && v[1].bracketed && v[2].bracketed);
}

static val_t lower_cast(call_t *c) {
  val_t x;
  if (!call_finish_options(c) || !call_need_dims(c, 0, 0) || !call_tensor(c, 0, &x))
    return val_error();
  lower_t *L = c->L;
  ptc_dtype_t dtype = (ptc_dtype_t)c->builtin->variant;
  if (dtype != PTC_F32 || x.ir->type->dtype != PTC_F32) return val_cast(L, x, dtype);
  // Also of an f32 value: it says that the value stays f32 when the model computes in bf16.
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_string(L->module, &attrs, "to", ptc_dtype_name(dtype));
  ptc_op_t *op = ptc_build_op(&L->b, PTC_OP_CAST, &x.ir, 1, 1, attrs);
  if (!op) return val_error();
  x.ir = op->results[0];
  return x;
}

static val_t reduce_max(call_t *c, val_t x) {
  const char *names[PTC_MAX_DIMS];
  call_dim_names(c, names);
  lower_t *L = c->L;
  if (x.ir->type->dtype == PTC_BOOL) x = val_cast(L, x, PTC_I32);
  bool is_min = c->builtin->variant == PTC_OP_MIN;
  if (is_min) x = val_unary(L, PTC_OP_NEG, x);
  if (x.kind != VAL_TENSOR) return x;
  val_t y = val_drop_dims(x, names, c->num_dims,
                          ptc_build_reduce(&L->b, PTC_OP_REDUCE_MAX, x.ir, names, c->num_dims));
  return is_min ? val_unary(L, PTC_OP_NEG, y) : y;
}

// max(a, b, ...) of several, max[d](x) along dims.
static val_t lower_minmax(call_t *c) {
  if (!call_finish_options(c)) return val_error();
  lower_t *L = c->L;
  if (c->num_dims) {
    val_t x;
    if (c->num_args != 1) {
      LOWER_ERROR(L, c->expr->loc, "argument-count", "%s[...]() takes one argument",
                  c->builtin->name);
      return val_error();
    }
    if (!call_tensor(c, 0, &x) || !call_check_has_dims(c, &x)) return val_error();
    return reduce_max(c, x);
  }
  if (c->num_args < 2) {
    LOWER_ERROR(L, c->expr->loc, "builtin-dims",
                "%s of one tensor works along dims: write %s[d](...)", c->builtin->name,
                c->builtin->name);
    return val_error();
  }
  val_t acc = lower_expr(L, c->args[0]);
  if (!is_operand(c, 0, &acc)) return val_error();
  for (int32_t i = 1; i < c->num_args; i++) {
    val_t x = lower_expr(L, c->args[i]), merged;
    if (!is_operand(c, i, &x)) return val_error();
    if (acc.kind == VAL_NUMBER && x.kind == VAL_NUMBER) {
      bool first = (acc.number.value < x.number.value) == (c->builtin->variant == PTC_OP_MIN);
      if (!first) acc = x;
      continue;
    }
    ptc_dtype_t dtype = common_dtype(&acc, &x);
    if (dtype == PTC_BOOL) dtype = PTC_I32;
    acc = val_cast(L, acc, dtype);
    x = val_cast(L, x, dtype);
    if (acc.kind != VAL_TENSOR || x.kind != VAL_TENSOR ||
        !val_merge_dims(L, &merged, &acc, &x, c->expr->loc))
      return val_error();
    acc = val_tensor(ptc_build_binary(&L->b, (ptc_opcode_t)c->builtin->variant, acc.ir, x.ir),
                     merged.dims, merged.num_dims, acc.bracketed && x.bracketed);
    if (acc.kind == VAL_ERROR) return acc;
  }
  return acc;
}

// --- reductions and scans

val_t call_sum(call_t *c, val_t x, const char *const *names, int32_t count) {
  if (x.kind != VAL_TENSOR) return x;
  if (x.ir->type->dtype == PTC_BOOL) x = val_cast(c->L, x, PTC_I32);
  if (x.kind != VAL_TENSOR || !count) return x;
  return val_drop_dims(x, names, count,
                       ptc_build_reduce(&c->L->b, PTC_OP_REDUCE_SUM, x.ir, names, count));
}

static val_t lower_argmax(call_t *c, val_t x) {
  if (!call_need_dims(c, 1, 1)) return val_error();
  if (x.ir->type->dtype == PTC_BOOL) x = val_cast(c->L, x, PTC_I32);
  const char *names[1];
  call_dim_names(c, names);
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dim(c->L->module, &attrs, "dim", names[0]);
  ptc_op_t *op = ptc_build_op(&c->L->b, PTC_OP_ARGMAX, &x.ir, 1, 1, attrs);
  return op ? val_drop_dims(x, names, 1, op->results[0]) : val_error();
}

static val_t lower_reduce(call_t *c) {
  val_t x;
  if (!call_finish_options(c) || !call_need_dims(c, 1, PTC_MAX_DIMS) || !call_tensor(c, 0, &x) ||
      !call_check_has_dims(c, &x))
    return val_error();
  if (c->builtin->variant == REDUCE_ARGMAX) return lower_argmax(c, x);
  const char *names[PTC_MAX_DIMS];
  call_dim_names(c, names);
  if (c->builtin->variant == REDUCE_SUM) return call_sum(c, x, names, c->num_dims);
  // A mean over the batch is a sum over one count: of the whole step, whatever the split.
  double count = 1;
  for (int32_t i = 0; i < c->num_dims; i++) count *= (double)c->dims[i].extent;
  val_t sum = call_sum(c, val_to_float(c->L, x), names, c->num_dims);
  return val_binary(c->L, PTC_OPR_DIV, sum,
                    val_number(ptc_number_from_double(&c->L->numbers, count)), c->expr->loc);
}

// max + log(sum(exp(x - max))), which does not overflow.
static val_t lower_logsumexp(call_t *c) {
  val_t x;
  if (!call_finish_options(c) || !call_need_dims(c, 1, PTC_MAX_DIMS) || !call_tensor(c, 0, &x) ||
      !call_check_has_dims(c, &x))
    return val_error();
  lower_t *L = c->L;
  const char *names[PTC_MAX_DIMS];
  call_dim_names(c, names);
  x = val_to_float(L, x);
  if (x.kind != VAL_TENSOR) return x;
  x.bracketed = true;
  val_t top = val_drop_dims(x, names, c->num_dims,
                            ptc_build_reduce(&L->b, PTC_OP_REDUCE_MAX, x.ir, names, c->num_dims));
  val_t shifted = val_binary(L, PTC_OPR_SUB, x, top, c->expr->loc);
  val_t sum = call_sum(c, val_unary(L, PTC_OP_EXP, shifted), names, c->num_dims);
  return val_binary(L, PTC_OPR_ADD, val_unary(L, PTC_OP_LOG, sum), top, c->expr->loc);
}

static val_t lower_scan(call_t *c) {
  val_t x;
  bool reverse = false;
  if (c->builtin->variant == PTC_OP_CUMSUM && !call_option_flag(c, "reverse", false, &reverse))
    return val_error();
  if (!call_finish_options(c) || !call_need_dims(c, 1, 1) || !call_tensor(c, 0, &x) ||
      !call_check_has_dims(c, &x))
    return val_error();
  lower_t *L = c->L;
  if (x.ir->type->dtype == PTC_BOOL) x = val_cast(L, x, PTC_I32);
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dim(L->module, &attrs, "dim", c->dims[0].name);
  if (reverse) ptc_attrs_set_bool(L->module, &attrs, "reverse", true);
  ptc_op_t *op = ptc_build_op(&L->b, (ptc_opcode_t)c->builtin->variant, &x.ir, 1, 1, attrs);
  return op ? val_tensor(op->results[0], x.dims, x.num_dims, x.bracketed) : val_error();
}

static val_t lower_softmax(call_t *c) {
  val_t x;
  if (!call_finish_options(c) || !call_need_dims(c, 1, PTC_MAX_DIMS) || !call_tensor(c, 0, &x) ||
      !call_check_has_dims(c, &x))
    return val_error();
  lower_t *L = c->L;
  x = val_to_float(L, x);
  if (x.kind != VAL_TENSOR) return x;
  const char *names[PTC_MAX_DIMS];
  call_dim_names(c, names);
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dims(L->module, &attrs, "over", names, c->num_dims);
  ptc_op_t *op = ptc_build_op(&L->b, PTC_OP_SOFTMAX, &x.ir, 1, 1, attrs);
  return op ? val_tensor(op->results[0], x.dims, x.num_dims, x.bracketed) : val_error();
}

// --- structure

static val_t lower_index_call(call_t *c) {
  if (!call_finish_options(c) || !call_need_dims(c, 0, 0)) return val_error();
  fdim_t dim;
  const ptc_expr_t *arg = c->args[0];
  if (arg->kind != PTC_EXPR_NAME) {
    LOWER_ERROR(c->L, arg->loc, "index-argument", "index() takes the name of a dim");
    return val_error();
  }
  if (!scope_dim(c->L, arg->text, arg->loc, &dim)) return val_error();
  ptc_dim_t ir_dim = {.name = dim.name, .extent = dim.extent};
  return val_tensor(ptc_build_iota(&c->L->b, &ir_dim), &dim, 1, true);
}

static val_t lower_padded(call_t *c) {
  if (!call_finish_options(c) || !call_need_dims(c, 0, 0)) return val_error();
  ptc_number_t fill;
  if (c->args[0]->kind != PTC_EXPR_INDEX) {
    LOWER_ERROR(c->L, c->args[0]->loc, "padded-operand",
                "padded() takes an operand with brackets: padded(x[b, s - 1], 0)");
    return val_error();
  }
  if (!lower_static(c->L, c->args[1], &fill)) return val_error();
  val_t base = lower_expr(c->L, c->args[0]->lhs);
  if (base.kind == VAL_ERROR) return base;
  if (base.kind != VAL_TENSOR) {
    LOWER_ERROR(c->L, c->args[0]->loc, "padded-operand", "padded() takes a tensor with brackets");
    return val_error();
  }
  bool index_mode = c->L->index_mode;
  c->L->index_mode = false;
  val_t val = lower_index(c->L, base, c->args[0], &fill.value);
  c->L->index_mode = index_mode;
  return val;
}

// Which dim of each operand is laid end to end: those that are not shared by all, with extents
// that add up to the result's. Counts the solutions; |choice| keeps the last.
static int32_t choose_parts(const val_t *vals, int32_t count, int32_t at, int64_t rest,
                            const char *target, int32_t *current, int32_t *choice) {
  if (at == count) {
    if (rest != 0) return 0;
    memcpy(choice, current, (size_t)count * sizeof(*choice));
    return 1;
  }
  int32_t solutions = 0;
  for (int32_t d = 0; d < vals[at].num_dims; d++) {
    bool shared = true;
    for (int32_t k = 0; k < count; k++)
      shared &= val_find_dim(&vals[k], vals[at].dims[d].name) >= 0;
    if ((shared && vals[at].dims[d].name != target) || vals[at].dims[d].extent > rest) continue;
    current[at] = d;
    solutions +=
        choose_parts(vals, count, at + 1, rest - vals[at].dims[d].extent, target, current, choice);
  }
  return solutions;
}

static val_t lower_concat(call_t *c) {
  if (!call_finish_options(c) || !call_need_dims(c, 1, 1)) return val_error();
  lower_t *L = c->L;
  val_t vals[8], all = {.kind = VAL_TENSOR};
  ptc_dtype_t dtype = PTC_BOOL;
  for (int32_t i = 0; i < c->num_args; i++) {
    if (!call_tensor(c, i, &vals[i])) return val_error();
    dtype =
        i == 0 ? vals[i].ir->type->dtype
        : dtype == vals[i].ir->type->dtype
            ? dtype
            : (ptc_dtype_is_float(dtype) || ptc_dtype_is_float(vals[i].ir->type->dtype) ? PTC_F32
                                                                                        : PTC_I32);
  }
  int32_t current[8], choice[8];
  int32_t solutions =
      choose_parts(vals, c->num_args, 0, c->dims[0].extent, c->dims[0].name, current, choice);
  if (solutions != 1) {
    LOWER_ERROR(L, c->expr->loc, "concat-dims",
                "concat[%s]: %s choice of one dim per operand adds up to %s = %lld; the parts are "
                "dims that the operands do not share",
                c->dims[0].name, solutions ? "more than one" : "no", c->dims[0].name,
                (long long)c->dims[0].extent);
    return val_error();
  }
  for (int32_t i = 0; i < c->num_args; i++) {
    val_t others = vals[i];
    const char *part = vals[i].dims[choice[i]].name;
    others.num_dims = 0;
    for (int32_t d = 0; d < vals[i].num_dims; d++)
      if (vals[i].dims[d].name != part) others.dims[others.num_dims++] = vals[i].dims[d];
    if (!val_merge_dims(L, &all, &all, &others, c->expr->loc)) return val_error();
  }
  ptc_value_t *operands[8];
  for (int32_t i = 0; i < c->num_args; i++) {
    const char *part = vals[i].dims[choice[i]].name;
    fdim_t dims[PTC_MAX_DIMS + 1];
    memcpy(dims, all.dims, sizeof(all.dims));
    dims[all.num_dims] = c->dims[0];
    dims[all.num_dims].extent = vals[i].dims[choice[i]].extent;
    ptc_value_t *x = val_cast(L, vals[i], dtype).ir;
    if (x && part != c->dims[0].name) x = ptc_build_rename(&L->b, x, &part, &c->dims[0].name, 1);
    val_t renamed = vals[i];
    renamed.ir = x;
    renamed.dims[choice[i]].name = c->dims[0].name;
    operands[i] = x ? val_fit(L, renamed, dims, all.num_dims + 1).ir : NULL;
    if (!operands[i]) return val_error();
  }
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dim(L->module, &attrs, "dim", c->dims[0].name);
  ptc_op_t *op = ptc_build_op(&L->b, PTC_OP_CONCAT, operands, c->num_args, 1, attrs);
  if (!op || all.num_dims == PTC_MAX_DIMS) return val_error();
  all.dims[all.num_dims] = c->dims[0];
  return val_tensor(op->results[0], all.dims, all.num_dims + 1, true);
}

// --- dispatch of calls

static bool init_call(lower_t *L, call_t *c, const ptc_expr_t *expr) {
  *c = (call_t){.L = L, .expr = expr};
  const ptc_expr_t *callee = expr->lhs;
  if (callee->kind == PTC_EXPR_INDEX) {
    c->has_brackets = true;
    for (int32_t i = 0; i < callee->num_items; i++) {
      const ptc_expr_t *item = callee->items[i];
      if (item->kind != PTC_EXPR_NAME) {
        LOWER_ERROR(L, item->loc, "builtin-dims", "the brackets of a function hold names of dims");
        return false;
      }
      if (c->num_dims == PTC_MAX_DIMS ||
          !scope_dim(L, item->text, item->loc, &c->dims[c->num_dims]))
        return false;
      for (int32_t k = 0; k < c->num_dims; k++) {
        if (c->dims[k].name != c->dims[c->num_dims].name) continue;
        LOWER_ERROR(L, item->loc, "builtin-dims", "dim \"%s\" is named twice", item->text);
        return false;
      }
      c->num_dims++;
    }
    callee = callee->lhs;
  }
  if (callee->kind != PTC_EXPR_NAME) {
    LOWER_ERROR(L, callee->loc, "not-a-function", "this cannot be called; a function has a name");
    return false;
  }
  c->name = callee;
  if (expr->num_items > MAX_CALL_ARGS) {
    LOWER_ERROR(L, expr->loc, "argument-count", "a call has at most %d arguments", MAX_CALL_ARGS);
    return false;
  }
  for (int32_t i = 0; i < expr->num_items; i++) {
    if (!expr->arg_names[i]) {
      c->args[c->num_args++] = expr->items[i];
      continue;
    }
    for (int32_t k = 0; k < i; k++) {
      if (!expr->arg_names[k] || strcmp(expr->arg_names[k], expr->arg_names[i]) != 0) continue;
      LOWER_ERROR(L, expr->items[i]->loc, "duplicate-option", "option \"%s\" is given twice",
                  expr->arg_names[i]);
      return false;
    }
  }
  return true;
}

val_t lower_call(lower_t *L, const ptc_expr_t *expr, const ptc_target_t *targets,
                 int32_t num_targets, val_t *out_more, int32_t *out_count) {
  *out_count = 0;
  call_t c;
  if (!init_call(L, &c, expr)) return val_error();
  c.targets = targets;
  c.num_targets = num_targets;
  c.more = out_more;
  symbol_t *symbol = scope_find(L, c.name->text);
  if (symbol && (symbol->kinds & SYM_LAYER)) {
    if (c.has_brackets) {
      LOWER_ERROR(L, expr->lhs->loc, "layer-brackets",
                  "a layer takes no dims in brackets: its arguments bring their own");
      return val_error();
    }
    lower_layer_call(L, symbol, expr, out_more, out_count);
    return *out_count ? out_more[0] : val_error();
  }
  if (symbol && (symbol->kinds & SYM_ERROR)) return val_error();
  c.builtin = find_builtin(c.name->text);
  if (!c.builtin) {
    if (symbol)
      LOWER_ERROR(L, c.name->loc, "not-a-function", "\"%s\" is no function and no layer",
                  c.name->text);
    else
      scope_unknown(L, c.name->text, c.name->loc, "name");
    return val_error();
  }
  if (c.name->instance && c.builtin->lower != lower_norm && c.builtin->lower != lower_dropout &&
      c.builtin->lower != lower_attention) {
    LOWER_ERROR(L, c.name->loc, "instance-name", "%s() owns nothing that a name could tell apart",
                c.builtin->name);
    return val_error();
  }
  L->b.loc = expr->loc;
  c.num_results = 1;
  bool index_mode = L->index_mode;
  L->index_mode = false;
  val_t val = c.builtin->lower(&c);
  L->index_mode = index_mode;
  if (val.kind == VAL_ERROR) return val;
  *out_count = c.num_results;
  out_more[0] = val;
  return val;
}
