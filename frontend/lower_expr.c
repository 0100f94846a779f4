// Expressions: numbers, whole-tensor arithmetic by name, dtypes.
#include <math.h>
#include <string.h>

#include "frontend/lower_impl.h"

val_t val_error(void) { return (val_t){.kind = VAL_ERROR}; }

val_t val_number(ptc_number_t number) { return (val_t){.kind = VAL_NUMBER, .number = number}; }

val_t val_tensor(ptc_value_t *ir, const fdim_t *dims, int32_t num_dims, bool bracketed) {
  if (!ir) return val_error();
  val_t val = {
      .kind = VAL_TENSOR, .ir = ir, .bracketed = bracketed, .num_dims = ir->type->num_dims};
  // The IR decides the order; |dims| gives each name its key.
  for (int32_t i = 0; i < ir->type->num_dims && i < PTC_MAX_DIMS; i++)
    for (int32_t j = 0; j < num_dims; j++)
      if (dims[j].name == ir->type->dims[i].name) val.dims[i] = dims[j];
  return val;
}

const ptc_type_t *val_type(lower_t *L, const val_t *val, ptc_dtype_t dtype) {
  ptc_dim_t dims[PTC_MAX_DIMS];
  for (int32_t i = 0; i < val->num_dims; i++)
    dims[i] = (ptc_dim_t){.name = val->dims[i].name, .extent = val->dims[i].extent};
  return ptc_type_new(&L->module->arena, dtype, dims, val->num_dims);
}

int32_t val_find_dim(const val_t *val, const char *name) {
  for (int32_t i = 0; i < val->num_dims; i++)
    if (val->dims[i].name == name) return i;
  return -1;
}

const char *val_describe(lower_t *L, const val_t *val) {
  ptc_str_t text = {0};
  ptc_str_append(&text, "[");
  for (int32_t i = 0; i < val->num_dims; i++)
    ptc_str_printf(&text, "%s%s", i ? ", " : "", val->dims[i].name);
  ptc_str_append(&text, "]");
  const char *copy = ptc_arena_strdup(&L->module->arena, text.data);
  ptc_str_deinit(&text);
  return copy;
}

val_t val_drop_dims(val_t val, const char *const *names, int32_t count, ptc_value_t *ir) {
  fdim_t dims[PTC_MAX_DIMS];
  int32_t n = 0;
  for (int32_t i = 0; i < val.num_dims; i++) {
    bool dropped = false;
    for (int32_t j = 0; j < count; j++) dropped |= val.dims[i].name == names[j];
    if (!dropped) dims[n++] = val.dims[i];
  }
  return val_tensor(ir, dims, n, val.bracketed);
}

val_t val_as_tensor(lower_t *L, val_t val, ptc_dtype_t dtype) {
  if (val.kind == VAL_TENSOR || val.kind == VAL_ERROR) return val;
  if (!L->func) {
    // A train, parallel or cluster block holds numbers alone.
    LOWER_ERROR(L, L->b.loc, "not-static",
                "a number known when compiling is needed here (parameters, dims, literals)");
    return val_error();
  }
  double value = val.kind == VAL_BOOL ? val.on : val.number.value;
  val_t out = {.kind = VAL_TENSOR, .bracketed = true};
  out.ir = ptc_build_constant(&L->b, dtype, value);
  return out.ir ? out : val_error();
}

val_t val_cast(lower_t *L, val_t val, ptc_dtype_t dtype) {
  if (val.kind == VAL_NUMBER || val.kind == VAL_BOOL) return val_as_tensor(L, val, dtype);
  if (val.kind != VAL_TENSOR) return val;
  val.ir = ptc_build_cast(&L->b, val.ir, dtype);
  return val.ir ? val : val_error();
}

val_t val_to_float(lower_t *L, val_t val) {
  if (val.kind == VAL_TENSOR && ptc_dtype_is_float(val.ir->type->dtype)) return val;
  return val_cast(L, val, PTC_F32);
}

val_t val_fit(lower_t *L, val_t val, const fdim_t *dims, int32_t num_dims) {
  if (val.kind != VAL_TENSOR) return val;
  val_t like = {.num_dims = num_dims};
  for (int32_t i = 0; i < num_dims; i++) like.dims[i] = dims[i];
  ptc_value_t *ir = ptc_build_fit(&L->b, val.ir, val_type(L, &like, val.ir->type->dtype));
  return val_tensor(ir, dims, num_dims, true);
}

bool val_merge_dims(lower_t *L, val_t *out, const val_t *a, const val_t *b, ptc_loc_t loc) {
  *out = *a;
  for (int32_t i = 0; i < b->num_dims; i++) {
    int32_t at = val_find_dim(out, b->dims[i].name);
    if (at >= 0) {
      if (out->dims[at].key == b->dims[i].key) continue;
      LOWER_ERROR(L, loc, "dim-mismatch",
                  "dim \"%s\" is %s on one side and %s on the other; they are not the same dim",
                  b->dims[i].name, out->dims[at].key, b->dims[i].key);
      return false;
    }
    if (out->num_dims == PTC_MAX_DIMS) {
      LOWER_ERROR(L, loc, "too-many-dims", "a value would have more than %d dims", PTC_MAX_DIMS);
      return false;
    }
    out->dims[out->num_dims++] = b->dims[i];
  }
  return true;
}

// Whole-tensor arithmetic broadcasts only if one operand's dims contain the other's.
static bool check_containment(lower_t *L, const val_t *a, const val_t *b, ptc_loc_t loc) {
  if (a->bracketed && b->bracketed) return true;
  int32_t a_only = 0, b_only = 0;
  for (int32_t i = 0; i < a->num_dims; i++) a_only += val_find_dim(b, a->dims[i].name) < 0;
  for (int32_t i = 0; i < b->num_dims; i++) b_only += val_find_dim(a, b->dims[i].name) < 0;
  if (!a_only || !b_only) return true;
  LOWER_ERROR(L, loc, "broadcast",
              "whole tensors of dims %s and %s do not broadcast: neither holds all dims of the "
              "other; write the dims in brackets",
              val_describe(L, a), val_describe(L, b));
  return false;
}

val_t val_unary(lower_t *L, ptc_opcode_t opcode, val_t a) {
  if (a.kind != VAL_TENSOR) return a;
  a.ir = ptc_build_unary(&L->b, opcode, a.ir);
  a.global = NULL;
  return a.ir ? a : val_error();
}

static bool is_integral(const val_t *val) {
  if (val->kind == VAL_BOOL) return true;
  if (val->kind == VAL_NUMBER)
    return ptc_number_is_int(val->number) && fabs(val->number.value) < 2147483648.0;
  return !ptc_dtype_is_float(val->ir->type->dtype);
}

static ptc_dtype_t float_dtype(const val_t *a, const val_t *b) {
  const val_t *sides[2] = {a, b};
  ptc_dtype_t dtype = PTC_F32;
  bool found = false;
  for (int i = 0; i < 2; i++) {
    if (sides[i]->kind != VAL_TENSOR || !ptc_dtype_is_float(sides[i]->ir->type->dtype)) continue;
    ptc_dtype_t own = sides[i]->ir->type->dtype;
    dtype = found && own != dtype ? PTC_F32 : own;
    found = true;
  }
  return dtype;
}

static val_t build_binary(lower_t *L, ptc_opcode_t opcode, val_t a, val_t b, ptc_loc_t loc) {
  val_t merged;
  if (a.kind == VAL_ERROR || b.kind == VAL_ERROR || !val_merge_dims(L, &merged, &a, &b, loc))
    return val_error();
  return val_tensor(ptc_build_binary(&L->b, opcode, a.ir, b.ir), merged.dims, merged.num_dims,
                    a.bracketed && b.bracketed);
}

static val_t power(lower_t *L, val_t a, val_t b, ptc_loc_t loc) {
  if (b.kind == VAL_NUMBER && b.number.value == 2) {
    a = val_to_float(L, a);
    return build_binary(L, PTC_OP_MUL, a, a, loc);
  }
  ptc_dtype_t dtype = float_dtype(&a, &b);
  return build_binary(L, PTC_OP_POW, val_cast(L, a, dtype), val_cast(L, b, dtype), loc);
}

val_t val_binary(lower_t *L, ptc_operator_t op, val_t a, val_t b, ptc_loc_t loc) {
  if (a.kind == VAL_ERROR || b.kind == VAL_ERROR) return val_error();
  if (a.kind == VAL_NUMBER && b.kind == VAL_NUMBER)
    return val_number(ptc_number_binary(&L->numbers, op, a.number, b.number));
  const val_t *sides[2] = {&a, &b};
  for (int i = 0; i < 2; i++) {
    if (sides[i]->kind != VAL_LIST && sides[i]->kind != VAL_WORD) continue;
    LOWER_ERROR(L, loc, "operand-kind", "operator \"%s\" takes tensors and numbers, not a %s",
                ptc_operator_text(op), sides[i]->kind == VAL_LIST ? "list" : "word");
    return val_error();
  }
  if (a.kind != VAL_TENSOR && b.kind != VAL_TENSOR) {
    // on/off with numbers: as 1 and 0.
    ptc_number_t x = a.kind == VAL_BOOL ? ptc_number_from_int(&L->numbers, a.on) : a.number;
    ptc_number_t y = b.kind == VAL_BOOL ? ptc_number_from_int(&L->numbers, b.on) : b.number;
    return val_number(ptc_number_binary(&L->numbers, op, x, y));
  }
  if (a.kind == VAL_TENSOR && b.kind == VAL_TENSOR && !check_containment(L, &a, &b, loc))
    return val_error();
  if (op == PTC_OPR_AND || op == PTC_OPR_OR)
    return build_binary(L, op == PTC_OPR_AND ? PTC_OP_AND : PTC_OP_OR, val_cast(L, a, PTC_BOOL),
                        val_cast(L, b, PTC_BOOL), loc);
  if (op == PTC_OPR_POW) return power(L, a, b, loc);
  bool ints = is_integral(&a) && is_integral(&b) && op != PTC_OPR_DIV;
  ptc_dtype_t dtype = ints ? PTC_I32 : float_dtype(&a, &b);
  a = val_cast(L, a, dtype);
  b = val_cast(L, b, dtype);
  switch (op) {
    case PTC_OPR_ADD: return build_binary(L, PTC_OP_ADD, a, b, loc);
    case PTC_OPR_SUB: return build_binary(L, PTC_OP_SUB, a, b, loc);
    case PTC_OPR_MUL: return build_binary(L, PTC_OP_MUL, a, b, loc);
    case PTC_OPR_DIV: return build_binary(L, PTC_OP_DIV, a, b, loc);
    case PTC_OPR_MOD: return build_binary(L, PTC_OP_MOD, a, b, loc);
    case PTC_OPR_EQ: return build_binary(L, PTC_OP_EQ, a, b, loc);
    case PTC_OPR_NE: return build_binary(L, PTC_OP_NE, a, b, loc);
    case PTC_OPR_LT: return build_binary(L, PTC_OP_LT, a, b, loc);
    case PTC_OPR_LE: return build_binary(L, PTC_OP_LE, a, b, loc);
    case PTC_OPR_GT: return build_binary(L, PTC_OP_LT, b, a, loc);
    case PTC_OPR_GE: return build_binary(L, PTC_OP_LE, b, a, loc);
    case PTC_OPR_AND:
    case PTC_OPR_OR:
    case PTC_OPR_POW:
    case PTC_OPR_NOT:
    case PTC_OPR_NEG: break;
  }
  return val_error();
}

static val_t lower_name(lower_t *L, const ptc_expr_t *expr) {
  if (expr->instance) {
    LOWER_ERROR(L, expr->loc, "instance-name",
                "\"@%s\" names the instance of a layer or norm that is called: %s@%s(...)",
                expr->instance, expr->text, expr->instance);
    return val_error();
  }
  if (strcmp(expr->text, "inf") == 0)
    return val_number(ptc_number_from_double(&L->numbers, INFINITY));
  if (strcmp(expr->text, "pi") == 0)
    return val_number(ptc_number_from_double(&L->numbers, 3.14159265358979323846));
  symbol_t *symbol = scope_find(L, expr->text);
  if (!symbol) {
    scope_unknown(L, expr->text, expr->loc, "name");
    return val_error();
  }
  if (symbol->kinds & SYM_ERROR) return val_error();
  if (symbol->kinds & SYM_VALUE) return *symbol->value;
  if (symbol->kinds & SYM_DIM) {
    fdim_t dim;
    if (!scope_dim(L, expr->text, expr->loc, &dim)) return val_error();
    if (L->index_mode) {
      ptc_dim_t ir_dim = {.name = dim.name, .extent = dim.extent};
      return val_tensor(ptc_build_iota(&L->b, &ir_dim), &dim, 1, true);
    }
    return val_number(symbol->number);
  }
  if (symbol->kinds & SYM_NUMBER) return val_number(symbol->number);
  if (symbol->kinds & SYM_LIST)
    return (val_t){.kind = VAL_LIST, .list = symbol->list, .list_len = symbol->list_len};
  LOWER_ERROR(L, expr->loc, "layer-as-value", "\"%s\" is a layer; call it: %s(...)", expr->text,
              expr->text);
  return val_error();
}

static val_t lower_list(lower_t *L, const ptc_expr_t *expr) {
  ptc_number_t *items = PTC_ARENA_ARRAY(&L->module->arena, ptc_number_t, expr->num_items);
  for (int32_t i = 0; i < expr->num_items; i++)
    if (!lower_static(L, expr->items[i], &items[i])) return val_error();
  return (val_t){.kind = VAL_LIST, .list = items, .list_len = expr->num_items};
}

static val_t lower_unary(lower_t *L, const ptc_expr_t *expr) {
  val_t a = lower_expr(L, expr->lhs);
  if (a.kind == VAL_ERROR) return a;
  if (a.kind == VAL_LIST || a.kind == VAL_WORD) {
    LOWER_ERROR(L, expr->loc, "operand-kind", "operator \"%s\" takes a tensor or a number",
                ptc_operator_text(expr->op));
    return val_error();
  }
  if (expr->op == PTC_OPR_NOT) {
    if (a.kind == VAL_NUMBER)
      return val_number(ptc_number_from_int(&L->numbers, a.number.value == 0));
    if (a.kind == VAL_BOOL) return val_number(ptc_number_from_int(&L->numbers, !a.on));
    return val_unary(L, PTC_OP_NOT, val_cast(L, a, PTC_BOOL));
  }
  if (a.kind == VAL_NUMBER) return val_number(ptc_number_neg(&L->numbers, a.number));
  if (a.kind == VAL_BOOL) return val_number(ptc_number_from_int(&L->numbers, -(int64_t)a.on));
  if (a.ir->type->dtype == PTC_BOOL) a = val_cast(L, a, PTC_I32);
  return val_unary(L, PTC_OP_NEG, a);
}

static val_t lower_bracketed(lower_t *L, const ptc_expr_t *expr) {
  val_t base = lower_expr(L, expr->lhs);
  if (base.kind == VAL_ERROR) {
    // The names in brackets are wrong or right whatever the base is.
    for (int32_t i = 0; i < expr->num_items; i++)
      if (expr->items[i]->kind == PTC_EXPR_NAME && !scope_find(L, expr->items[i]->text))
        scope_unknown(L, expr->items[i]->text, expr->items[i]->loc, "dim");
    return base;
  }
  if (base.kind == VAL_LIST) {
    ptc_number_t index;
    if (expr->num_items != 1) {
      LOWER_ERROR(L, expr->loc, "list-index", "a list takes one index");
      return val_error();
    }
    if (!lower_static(L, expr->items[0], &index)) return val_error();
    if (!ptc_number_is_int(index) || index.num < 0 || index.num >= base.list_len) {
      LOWER_ERROR(L, expr->items[0]->loc, "list-index",
                  "index %g lies outside of the list, which has %d entries", index.value,
                  (int)base.list_len);
      return val_error();
    }
    return val_number(base.list[index.num]);
  }
  if (base.kind != VAL_TENSOR) {
    LOWER_ERROR(L, expr->loc, "index-of-number", "a number has no dims to put in brackets");
    return val_error();
  }
  bool index_mode = L->index_mode;
  L->index_mode = false;
  val_t val = lower_index(L, base, expr, NULL);
  L->index_mode = index_mode;
  return val;
}

static val_t lower_any(lower_t *L, const ptc_expr_t *expr) {
  switch (expr->kind) {
    case PTC_EXPR_NUMBER: return val_number(ptc_number_parse(&L->numbers, expr->text));
    case PTC_EXPR_STRING: return (val_t){.kind = VAL_WORD, .word = expr->text};
    case PTC_EXPR_NAME: return lower_name(L, expr);
    case PTC_EXPR_ON: return (val_t){.kind = VAL_BOOL, .on = expr->is_on};
    case PTC_EXPR_UNARY: return lower_unary(L, expr);
    case PTC_EXPR_BINARY: {
      val_t a = lower_expr(L, expr->lhs);
      val_t b = lower_expr(L, expr->rhs);
      L->b.loc = expr->loc;
      return val_binary(L, expr->op, a, b, expr->loc);
    }
    case PTC_EXPR_INDEX: return lower_bracketed(L, expr);
    case PTC_EXPR_CALL: {
      val_t more[PTC_MAX_DIMS];
      int32_t count = 0;
      val_t val = lower_call(L, expr, NULL, 0, more, &count);
      if (count == 1 || val.kind == VAL_ERROR) return val;
      LOWER_ERROR(L, expr->loc, "result-count",
                  "this call has %d results; assign them first: `a, b = ...`", (int)count);
      return val_error();
    }
    case PTC_EXPR_PAREN: return lower_expr(L, expr->lhs);
    case PTC_EXPR_LIST: return lower_list(L, expr);
    case PTC_EXPR_TUPLE:
      LOWER_ERROR(L, expr->loc, "tuple-place",
                  "a tuple stands only in a place of an index: x[(h, k)]");
      return val_error();
  }
  return val_error();
}

val_t lower_expr(lower_t *L, const ptc_expr_t *expr) {
  if (L->expr_depth >= MAX_EXPR_DEPTH) {
    LOWER_ERROR(L, expr->loc, "too-deep", "expression is nested deeper than %d levels; split it",
                MAX_EXPR_DEPTH);
    return val_error();
  }
  ptc_loc_t loc = L->b.loc;
  L->b.loc = expr->loc;
  L->expr_depth++;
  val_t val = lower_any(L, expr);
  L->expr_depth--;
  L->b.loc = loc;
  return val;
}

bool lower_static(lower_t *L, const ptc_expr_t *expr, ptc_number_t *out) {
  val_t val = lower_expr(L, expr);
  if (val.kind == VAL_NUMBER) {
    *out = val.number;
    return true;
  }
  if (val.kind == VAL_BOOL) {
    *out = ptc_number_from_int(&L->numbers, val.on);
    return true;
  }
  if (val.kind != VAL_ERROR)
    LOWER_ERROR(L, expr->loc, "not-static",
                "a number known when compiling is needed here (parameters, dims, literals)");
  return false;
}

bool lower_is_static(lower_t *L, const ptc_expr_t *expr) {
  switch (expr->kind) {
    case PTC_EXPR_NUMBER:
    case PTC_EXPR_ON: return true;
    case PTC_EXPR_STRING:
    case PTC_EXPR_TUPLE: return false;
    case PTC_EXPR_NAME: {
      symbol_t *symbol = scope_find(L, expr->text);
      return symbol && !(symbol->kinds & (SYM_VALUE | SYM_LAYER | SYM_ERROR));
    }
    case PTC_EXPR_UNARY:
    case PTC_EXPR_PAREN: return lower_is_static(L, expr->lhs);
    case PTC_EXPR_BINARY: return lower_is_static(L, expr->lhs) && lower_is_static(L, expr->rhs);
    case PTC_EXPR_CALL:
      if (expr->lhs->kind != PTC_EXPR_NAME ||
          !(ptc_number_is_function(expr->lhs->text) || strcmp(expr->lhs->text, "min") == 0 ||
            strcmp(expr->lhs->text, "max") == 0))
        return false;
      break;
    case PTC_EXPR_INDEX:
      if (!lower_is_static(L, expr->lhs)) return false;
      break;
    case PTC_EXPR_LIST: break;
  }
  for (int32_t i = 0; i < expr->num_items; i++)
    if (!lower_is_static(L, expr->items[i])) return false;
  return true;
}
