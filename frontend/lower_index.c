// Operands in brackets, and the contraction rule.
//
// x[b, s - w, (h, k), tokens[b, s]]: a place holds a dim (another name of the operand's dim), an
// affine form of dims (a window), a tuple (a split), an integer, or a tensor (a gather).
#include <inttypes.h>
#include <string.h>

#include "frontend/lower_impl.h"

// --- the dims that an expression holds, as written

typedef struct dim_set_s {
  const char *names[64];
  int32_t count;
} dim_set_t;

static bool set_has(const dim_set_t *set, const char *name) {
  for (int32_t i = 0; i < set->count; i++)
    if (set->names[i] == name) return true;
  return false;
}

static void set_add(dim_set_t *set, const char *name) {
  if (!set_has(set, name) && set->count < 64) set->names[set->count++] = name;
}

static void add_free(lower_t *L, const ptc_expr_t *expr, bool in_place, dim_set_t *set);

static bool is_index_call(const ptc_expr_t *expr) {
  return expr->lhs->kind == PTC_EXPR_NAME && strcmp(expr->lhs->text, "index") == 0;
}

// Name and bracket dims of a callee `op` or `op[dims]`.
static const ptc_expr_t *callee_name(const ptc_expr_t *callee) {
  if (callee->kind == PTC_EXPR_INDEX) callee = callee->lhs;
  return callee->kind == PTC_EXPR_NAME ? callee : NULL;
}

static void add_free_call(lower_t *L, const ptc_expr_t *expr, dim_set_t *set) {
  if (is_index_call(expr)) {
    for (int32_t i = 0; i < expr->num_items; i++) add_free(L, expr->items[i], true, set);
    return;
  }
  const ptc_expr_t *name = callee_name(expr->lhs);
  const symbol_t *symbol = name ? scope_find(L, name->text) : NULL;
  bool is_layer = symbol && (symbol->kinds & SYM_LAYER);
  int flow = name && !is_layer ? lower_builtin_flow(name->text) : 0;
  if (flow == 3 && expr->lhs->kind != PTC_EXPR_INDEX) flow = 1;  // max(a, b), not max[d](x)
  dim_set_t inner = {0};
  for (int32_t i = 0; i < expr->num_items && flow; i++) {
    if (flow == 2 && (i > 0 || expr->arg_names[i])) break;
    if (!expr->arg_names[i]) add_free(L, expr->items[i], false, &inner);
  }
  for (int32_t i = 0; i < inner.count; i++) {
    bool reduced = false;
    for (int32_t j = 0; flow == 3 && j < expr->lhs->num_items; j++)
      reduced |= expr->lhs->items[j]->kind == PTC_EXPR_NAME &&
                 lower_intern(L, expr->lhs->items[j]->text) == inner.names[i];
    if (!reduced) set_add(set, inner.names[i]);
  }
}

static void add_free(lower_t *L, const ptc_expr_t *expr, bool in_place, dim_set_t *set) {
  switch (expr->kind) {
    case PTC_EXPR_NAME: {
      fdim_t dim;
      if (in_place && scope_try_dim(L, expr->text, &dim)) set_add(set, dim.name);
      return;
    }
    case PTC_EXPR_UNARY:
    case PTC_EXPR_PAREN: add_free(L, expr->lhs, in_place, set); return;
    case PTC_EXPR_BINARY:
      add_free(L, expr->lhs, in_place, set);
      add_free(L, expr->rhs, in_place, set);
      return;
    case PTC_EXPR_INDEX:
      if (lower_is_static(L, expr)) return;
      for (int32_t i = 0; i < expr->num_items; i++) add_free(L, expr->items[i], true, set);
      return;
    case PTC_EXPR_TUPLE:
      for (int32_t i = 0; i < expr->num_items; i++) add_free(L, expr->items[i], in_place, set);
      return;
    case PTC_EXPR_CALL: add_free_call(L, expr, set); return;
    case PTC_EXPR_NUMBER:
    case PTC_EXPR_STRING:
    case PTC_EXPR_ON:
    case PTC_EXPR_LIST: return;
  }
}

// --- places

typedef struct affine_s {
  fdim_t dims[8];
  int64_t coeffs[8];
  int32_t count;
  int64_t offset;
} affine_t;

static bool affine_add(affine_t *into, const affine_t *from, int64_t factor) {
  for (int32_t i = 0; i < from->count; i++) {
    int32_t at = 0;
    while (at < into->count && into->dims[at].name != from->dims[i].name) at++;
    if (at == 8) return false;
    if (at == into->count) {
      into->dims[at] = from->dims[i];
      into->coeffs[at] = 0;
      into->count++;
    }
    int64_t term;
    if (__builtin_mul_overflow(from->coeffs[i], factor, &term) ||
        __builtin_add_overflow(into->coeffs[at], term, &into->coeffs[at]))
      return false;
  }
  int64_t term;
  return !__builtin_mul_overflow(from->offset, factor, &term) &&
         !__builtin_add_overflow(into->offset, term, &into->offset);
}

// Reads |expr| as a sum of dims with integer coefficients; false if it is something else.
static bool read_affine(lower_t *L, const ptc_expr_t *expr, affine_t *out) {
  *out = (affine_t){0};
  switch (expr->kind) {
    case PTC_EXPR_PAREN: return read_affine(L, expr->lhs, out);
    case PTC_EXPR_NAME:
      if (scope_try_dim(L, expr->text, &out->dims[0])) {
        out->coeffs[0] = 1;
        out->count = 1;
        return true;
      }
      break;
    case PTC_EXPR_UNARY: {
      affine_t inner;
      return expr->op == PTC_OPR_NEG && read_affine(L, expr->lhs, &inner) &&
             affine_add(out, &inner, -1);
    }
    case PTC_EXPR_BINARY: {
      affine_t a, b;
      if (!read_affine(L, expr->lhs, &a) || !read_affine(L, expr->rhs, &b)) return false;
      if (expr->op == PTC_OPR_ADD || expr->op == PTC_OPR_SUB)
        return affine_add(out, &a, 1) && affine_add(out, &b, expr->op == PTC_OPR_ADD ? 1 : -1);
      if (expr->op == PTC_OPR_MUL && (!a.count || !b.count))
        return affine_add(out, a.count ? &a : &b, a.count ? b.offset : a.offset);
      if (a.count || b.count) return false;
      break;
    }
    default: break;
  }
  if (!lower_is_static(L, expr)) return false;
  ptc_number_t number;
  if (!lower_static(L, expr, &number) || !ptc_number_is_int(number)) return false;
  out->offset = number.num;
  return true;
}

typedef enum place_kind_e { PLACE_DIM, PLACE_SPLIT, PLACE_AFFINE, PLACE_GATHER } place_kind_t;

typedef struct place_s {
  place_kind_t kind;
  const ptc_expr_t *expr;
  const char *temp;  // the operand's dim while the place is worked on
  fdim_t dims[4];    // DIM: one; SPLIT: several
  int32_t num_dims;
  affine_t affine;
  val_t index;  // GATHER
} place_t;

static bool read_split(lower_t *L, const ptc_expr_t *expr, const fdim_t *own, place_t *place) {
  ptc_number_t product = ptc_number_from_int(&L->numbers, 1);
  if (expr->num_items > 4) {
    LOWER_ERROR(L, expr->loc, "tuple-place", "a tuple holds at most 4 dims");
    return false;
  }
  for (int32_t i = 0; i < expr->num_items; i++) {
    const ptc_expr_t *item = expr->items[i];
    if (item->kind != PTC_EXPR_NAME) {
      LOWER_ERROR(L, item->loc, "tuple-place", "a tuple holds dims only");
      return false;
    }
    if (!scope_dim(L, item->text, item->loc, &place->dims[i])) return false;
    product = ptc_number_binary(&L->numbers, PTC_OPR_MUL, product, *place->dims[i].number);
  }
  place->kind = PLACE_SPLIT;
  place->num_dims = expr->num_items;
  if (ptc_number_key(&L->numbers, product) == own->key) return true;
  LOWER_ERROR(L, expr->loc, "dim-mismatch",
              "the tuple's dims have the product %s, but the place holds dim \"%s\" = %s",
              ptc_number_key(&L->numbers, product), own->name, own->key);
  return false;
}

static bool read_place(lower_t *L, const ptc_expr_t *expr, const fdim_t *own, place_t *place) {
  *place = (place_t){.expr = expr};
  if (expr->kind == PTC_EXPR_TUPLE) return read_split(L, expr, own, place);
  if (expr->kind == PTC_EXPR_NAME && !lower_is_static(L, expr)) {
    symbol_t *symbol = scope_find(L, expr->text);
    if (!symbol) {
      scope_unknown(L, expr->text, expr->loc, "dim");
      return false;
    }
    if (symbol->kinds & SYM_ERROR) return false;
  }
  if (expr->kind == PTC_EXPR_NAME && scope_try_dim(L, expr->text, &place->dims[0])) {
    place->kind = PLACE_DIM;
    place->num_dims = 1;
    if (place->dims[0].key == own->key) return true;
    LOWER_ERROR(L, expr->loc, "dim-mismatch", "this place holds dim \"%s\" = %s, not \"%s\" = %s",
                own->name, own->key, place->dims[0].name, place->dims[0].key);
    return false;
  }
  if (read_affine(L, expr, &place->affine)) {
    place->kind = PLACE_AFFINE;
    return true;
  }
  bool index_mode = L->index_mode;
  L->index_mode = true;
  place->index = lower_expr(L, expr);
  L->index_mode = index_mode;
  place->kind = PLACE_GATHER;
  if (place->index.kind == VAL_ERROR) return false;
  if (place->index.kind != VAL_TENSOR || ptc_dtype_is_float(place->index.ir->type->dtype)) {
    LOWER_ERROR(L, expr->loc, "index-kind",
                "an index is a dim, an integer expression of dims, or an integer tensor");
    return false;
  }
  lower_note_index(L, &place->index, own);
  place->index = val_cast(L, place->index, PTC_I32);
  return place->index.kind == VAL_TENSOR;
}

static bool check_range(lower_t *L, const place_t *place, const fdim_t *own) {
  int64_t lo = place->affine.offset, hi = lo;
  for (int32_t i = 0; i < place->affine.count; i++) {
    int64_t span, c = place->affine.coeffs[i];
    if (__builtin_mul_overflow(c, place->affine.dims[i].extent - 1, &span) ||
        __builtin_add_overflow(c < 0 ? lo : hi, span, c < 0 ? &lo : &hi)) {
      LOWER_ERROR(L, place->expr->loc, "index-range", "this index overflows");
      return false;
    }
  }
  if (lo >= 0 && hi < own->extent) return true;
  LOWER_ERROR(L, place->expr->loc, "index-range",
              "this index runs from %" PRId64 " to %" PRId64 ", but dim \"%s\" from 0 to %" PRId64
              "; wrap the operand: padded(x[...], 0)",
              lo, hi, own->name, own->extent - 1);
  return false;
}

// --- applying the places

// A name that no place uses, like |name|.
static const char *fresh_name(lower_t *L, const char *name, const dim_set_t *taken) {
  ptc_str_t text = {0};
  ptc_str_append(&text, name);
  do ptc_str_append(&text, "_");
  while (set_has(taken, lower_intern(L, text.data)));
  const char *fresh = lower_intern(L, text.data);
  ptc_str_deinit(&text);
  return fresh;
}

static ptc_value_t *apply_split(lower_t *L, ptc_value_t *x, const place_t *place) {
  const char *names[4];
  int64_t extents[4];
  for (int32_t i = 0; i < place->num_dims; i++) {
    names[i] = place->dims[i].name;
    extents[i] = place->dims[i].extent;
  }
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dim(L->module, &attrs, "dim", place->temp);
  ptc_attrs_set_dims(L->module, &attrs, "into", names, place->num_dims);
  ptc_attrs_set_ints(L->module, &attrs, "extents", extents, place->num_dims);
  ptc_op_t *op = ptc_build_op(&L->b, PTC_OP_SPLIT, &x, 1, 1, attrs);
  return op ? op->results[0] : NULL;
}

static ptc_value_t *apply_window(lower_t *L, ptc_value_t *x, const place_t *place,
                                 const double *fill) {
  const affine_t *affine = &place->affine;
  const char *names[8];
  int64_t extents[8];
  for (int32_t i = 0; i < affine->count; i++) {
    names[i] = affine->dims[i].name;
    extents[i] = affine->dims[i].extent;
  }
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dim(L->module, &attrs, "dim", place->temp);
  ptc_attrs_set_dims(L->module, &attrs, "terms", names, affine->count);
  ptc_attrs_set_ints(L->module, &attrs, "coeffs", affine->coeffs, affine->count);
  ptc_attrs_set_ints(L->module, &attrs, "extents", extents, affine->count);
  ptc_attrs_set_int(L->module, &attrs, "offset", affine->offset);
  if (fill) ptc_attrs_set_float(L->module, &attrs, "fill", *fill);
  ptc_op_t *op = ptc_build_op(&L->b, PTC_OP_WINDOW, &x, 1, 1, attrs);
  return op ? op->results[0] : NULL;
}

static ptc_value_t *apply_gather(lower_t *L, ptc_value_t *x, const place_t *places, int32_t count,
                                 const double *fill) {
  ptc_value_t *operands[PTC_MAX_DIMS + 1] = {x};
  const char *names[PTC_MAX_DIMS];
  int32_t n = 0;
  for (int32_t i = 0; i < count; i++) {
    if (places[i].kind != PLACE_GATHER) continue;
    names[n++] = places[i].temp;
    operands[n] = places[i].index.ir;
  }
  if (!n) return x;
  ptc_attrs_t attrs = {0};
  ptc_attrs_set_dims(L->module, &attrs, "dims", names, n);
  if (fill) ptc_attrs_set_float(L->module, &attrs, "fill", *fill);
  ptc_op_t *op = ptc_build_op(&L->b, PTC_OP_GATHER, operands, n + 1, 1, attrs);
  return op ? op->results[0] : NULL;
}

// Collects what the result's dims are called and which keys they have.
static bool add_result_dims(lower_t *L, val_t *out, const place_t *place) {
  val_t part = {.num_dims = place->num_dims};
  if (place->kind == PLACE_AFFINE) {
    part.num_dims = place->affine.count;
    memcpy(part.dims, place->affine.dims, sizeof(place->affine.dims));
  } else if (place->kind == PLACE_GATHER) {
    part = place->index;
  } else {
    memcpy(part.dims, place->dims, sizeof(place->dims));
  }
  return val_merge_dims(L, out, out, &part, place->expr->loc);
}

val_t lower_index(lower_t *L, val_t base, const ptc_expr_t *expr, const double *fill) {
  if (base.kind != VAL_TENSOR) return val_error();
  if (expr->num_items != base.num_dims) {
    LOWER_ERROR(L, expr->loc, "index-count", "%d places in brackets, but the tensor has %d dims %s",
                (int)expr->num_items, (int)base.num_dims, val_describe(L, &base));
    return val_error();
  }
  place_t places[PTC_MAX_DIMS];
  val_t result = {.kind = VAL_TENSOR};
  dim_set_t taken = {0};
  bool ok = true;
  for (int32_t i = 0; i < expr->num_items; i++) {
    if (!read_place(L, expr->items[i], &base.dims[i], &places[i])) {
      ok = false;
      continue;
    }
    if (places[i].kind == PLACE_AFFINE && !fill && !check_range(L, &places[i], &base.dims[i]))
      ok = false;
    if (ok) ok = add_result_dims(L, &result, &places[i]);
  }
  if (!ok) return val_error();
  for (int32_t i = 0; i < base.num_dims; i++) set_add(&taken, base.dims[i].name);
  for (int32_t i = 0; i < result.num_dims; i++) set_add(&taken, result.dims[i].name);
  // Dims get the names of their places; a consumed dim gets one that nothing else has. A name that
  // stands in two places is the diagonal: the second is read like an affine form.
  const char *from[PTC_MAX_DIMS], *to[PTC_MAX_DIMS];
  int32_t num_renames = 0;
  dim_set_t placed = {0};
  for (int32_t i = 0; i < base.num_dims; i++) {
    place_t *place = &places[i];
    if (place->kind == PLACE_DIM && set_has(&placed, place->dims[0].name)) {
      place->kind = PLACE_AFFINE;
      place->affine = (affine_t){.dims = {place->dims[0]}, .coeffs = {1}, .count = 1};
    }
    if (place->kind == PLACE_DIM) {
      place->temp = place->dims[0].name;
      set_add(&placed, place->temp);
    } else {
      place->temp = fresh_name(L, base.dims[i].name, &taken);
      set_add(&taken, place->temp);
    }
    if (place->temp == base.dims[i].name) continue;
    from[num_renames] = base.dims[i].name;
    to[num_renames++] = place->temp;
  }
  ptc_value_t *x = base.ir;
  if (num_renames) x = ptc_build_rename(&L->b, x, from, to, num_renames);
  for (int32_t i = 0; x && i < base.num_dims; i++)
    if (places[i].kind == PLACE_SPLIT) x = apply_split(L, x, &places[i]);
  for (int32_t i = 0; x && i < base.num_dims; i++)
    if (places[i].kind == PLACE_AFFINE) x = apply_window(L, x, &places[i], fill);
  if (x) x = apply_gather(L, x, places, base.num_dims, fill);
  bool gathers = false;
  for (int32_t i = 0; i < base.num_dims; i++) gathers |= places[i].kind == PLACE_GATHER;
  if (gathers) lower_note_weight(L, &base);
  val_t val = val_tensor(x, result.dims, result.num_dims, true);
  if (!gathers) val.global = base.global;
  return val;
}

// --- contraction

static const ptc_expr_t *skip_parens(const ptc_expr_t *expr) {
  while (expr->kind == PTC_EXPR_PAREN) expr = expr->lhs;
  return expr;
}

enum { MAX_FACTORS = 64 };

typedef struct product_s {
  const ptc_expr_t *factors[MAX_FACTORS + 1];
  int sign[MAX_FACTORS + 1];  // -1: a divisor
  int32_t count;              // MAX_FACTORS + 1: too many
} product_t;

static void flatten_product(const ptc_expr_t *expr, int sign, product_t *out) {
  if (expr->kind == PTC_EXPR_BINARY && (expr->op == PTC_OPR_MUL || expr->op == PTC_OPR_DIV)) {
    flatten_product(expr->lhs, sign, out);
    flatten_product(expr->rhs, expr->op == PTC_OPR_DIV ? -sign : sign, out);
  } else if (out->count <= MAX_FACTORS) {
    out->factors[out->count] = expr;
    out->sign[out->count++] = sign;
  }
}

static bool holds(lower_t *L, const ptc_expr_t *expr, const char *dim) {
  dim_set_t set = {0};
  add_free(L, expr, false, &set);
  return set_has(&set, dim);
}

// Whether |expr| holds a product with |dim| in two of its factors.
static bool has_nested_product(lower_t *L, const ptc_expr_t *expr, const char *dim) {
  if (!holds(L, expr, dim)) return false;
  switch (expr->kind) {
    case PTC_EXPR_PAREN:
    case PTC_EXPR_UNARY: return has_nested_product(L, expr->lhs, dim);
    case PTC_EXPR_BINARY: {
      if (expr->op != PTC_OPR_MUL && expr->op != PTC_OPR_DIV)
        return has_nested_product(L, expr->lhs, dim) || has_nested_product(L, expr->rhs, dim);
      product_t product = {0};
      flatten_product(expr, 1, &product);
      int32_t with_dim = 0;
      for (int32_t i = 0; i < product.count; i++) {
        if (has_nested_product(L, product.factors[i], dim)) return true;
        with_dim += holds(L, product.factors[i], dim);
      }
      return with_dim >= 2;
    }
    case PTC_EXPR_CALL:
      for (int32_t i = 0; i < expr->num_items; i++)
        if (has_nested_product(L, expr->items[i], dim)) return true;
      return false;
    default: return false;
  }
}

static val_t contract(lower_t *L, const ptc_expr_t *expr, const dim_set_t *over);

// What a dim that cannot be contracted here is told.
static void refuse(lower_t *L, const ptc_expr_t *expr, const char *dim) {
  const ptc_expr_t *inner = skip_parens(expr);
  const ptc_expr_t *name = inner->kind == PTC_EXPR_CALL ? callee_name(inner->lhs) : NULL;
  if (name)
    LOWER_ERROR(L, inner->loc, "contraction",
                "dim \"%s\" is missing on the left and stands inside %s(): no sum hides in a "
                "function; write sum[%s](...) or a statement of its own",
                dim, name->text, dim);
  else if (inner->kind == PTC_EXPR_BINARY)
    LOWER_ERROR(
        L, inner->loc, "contraction",
        "dim \"%s\" is missing on the left and stands under \"%s\"; write sum[%s](...) or a "
        "statement of its own",
        dim, ptc_operator_text(inner->op), dim);
  else
    LOWER_ERROR(L, inner->loc, "contraction",
                "dim \"%s\" is missing on the left and stands in one factor only; write "
                "sum[%s](...) or a statement of its own",
                dim, dim);
}

typedef struct group_s {
  val_t items[64];
  int32_t count;
} group_t;

// FLOPs (multiplications) of joining two factors.
static double join_cost(const val_t *a, const val_t *b) {
  double cost = 1;
  for (int32_t i = 0; i < a->num_dims; i++) cost *= (double)a->dims[i].extent;
  for (int32_t i = 0; i < b->num_dims; i++)
    if (val_find_dim(a, b->dims[i].name) < 0) cost *= (double)b->dims[i].extent;
  return cost;
}

// Joins factors |i| < |j| of the group: the dims of |over| that no other factor holds are summed.
static bool join(lower_t *L, group_t *group, int32_t i, int32_t j, const dim_set_t *over,
                 ptc_loc_t loc) {
  val_t merged, *a = &group->items[i], *b = &group->items[j];
  if (!val_merge_dims(L, &merged, a, b, loc)) return false;
  const char *summed[PTC_MAX_DIMS];
  int32_t num_summed = 0;
  for (int32_t d = 0; d < merged.num_dims; d++) {
    const char *name = merged.dims[d].name;
    bool elsewhere = !set_has(over, name);
    for (int32_t k = 0; k < group->count && !elsewhere; k++)
      elsewhere = k != i && k != j && val_find_dim(&group->items[k], name) >= 0;
    if (!elsewhere) summed[num_summed++] = name;
  }
  ptc_value_t *ir = num_summed ? ptc_build_einsum(&L->b, a->ir, b->ir, summed, num_summed)
                               : ptc_build_binary(&L->b, PTC_OP_MUL, a->ir, b->ir);
  if (!ir) return false;
  merged.kind = VAL_TENSOR;
  merged.bracketed = true;
  *a = val_drop_dims(merged, summed, num_summed, ir);
  for (int32_t k = j; k + 1 < group->count; k++) group->items[k] = group->items[k + 1];
  group->count--;
  return true;
}

// Cost of the cheapest order to join the group's factors, and its first pair. Exhaustive for up to
// five factors, greedy beyond; ties go to the text's order.
static double best_pair(const group_t *group, const dim_set_t *over, int32_t *out_i,
                        int32_t *out_j) {
  double best = -1;
  for (int32_t i = 0; i < group->count; i++) {
    for (int32_t j = i + 1; j < group->count; j++) {
      double cost = join_cost(&group->items[i], &group->items[j]);
      if (group->count > 2 && group->count <= 5) {
        group_t rest = *group;
        val_t *a = &rest.items[i];
        const val_t *b = &group->items[j];
        for (int32_t d = 0; d < b->num_dims; d++)
          if (val_find_dim(a, b->dims[d].name) < 0 && a->num_dims < PTC_MAX_DIMS)
            a->dims[a->num_dims++] = b->dims[d];
        int32_t n = 0;
        for (int32_t d = 0; d < a->num_dims; d++) {
          bool kept = !set_has(over, a->dims[d].name);
          for (int32_t k = 0; k < group->count && !kept; k++)
            kept = k != i && k != j && val_find_dim(&group->items[k], a->dims[d].name) >= 0;
          if (kept) a->dims[n++] = a->dims[d];
        }
        a->num_dims = n;
        for (int32_t k = j; k + 1 < rest.count; k++) rest.items[k] = rest.items[k + 1];
        rest.count--;
        int32_t ignored_i, ignored_j;
        cost += best_pair(&rest, over, &ignored_i, &ignored_j);
      }
      if (best >= 0 && cost >= best) continue;
      best = cost;
      *out_i = i;
      *out_j = j;
    }
  }
  return best < 0 ? 0 : best;
}

// The sum over |site| of the product of the group's factors.
static val_t contract_group(lower_t *L, group_t *group, const dim_set_t *site, ptc_loc_t loc) {
  while (group->count > 1) {
    int32_t i = 0, j = 1;
    best_pair(group, site, &i, &j);
    if (!join(L, group, i, j, site, loc)) return val_error();
  }
  return group->items[0];
}

static val_t contract_product(lower_t *L, const ptc_expr_t *expr, const dim_set_t *over) {
  product_t product = {0};
  flatten_product(expr, 1, &product);
  if (product.count > MAX_FACTORS) {
    LOWER_ERROR(L, expr->loc, "too-many-factors", "a product has more than %d factors; split it",
                MAX_FACTORS);
    return val_error();
  }
  // Off the stack: products nest deeply.
  dim_set_t site = {0}, *descend = PTC_ARENA_ARRAY(&L->module->arena, dim_set_t, product.count);
  bool ok = true;
  for (int32_t d = 0; d < over->count; d++) {
    const char *dim = over->names[d];
    int32_t above = 0, below = 0, only = 0;
    bool nested = false;
    for (int32_t i = 0; i < product.count; i++) {
      if (!holds(L, product.factors[i], dim)) continue;
      if (product.sign[i] > 0)
        above++, only = i;
      else
        below++;
      nested |= has_nested_product(L, product.factors[i], dim);
    }
    if (above >= 2 && nested) {
      LOWER_ERROR(L, expr->loc, "contraction-ambiguous",
                  "dim \"%s\" could be summed inside or outside: a factor of this product holds "
                  "another product over it; write sum[%s](...) or a statement of its own",
                  dim, dim);
      ok = false;
    } else if (above >= 2) {
      set_add(&site, dim);
    } else if (above == 1 && !below) {
      set_add(&descend[only], dim);
    } else {
      LOWER_ERROR(L, expr->loc, "contraction",
                  "dim \"%s\" is missing on the left and stands in %s; write sum[%s](...) or a "
                  "statement of its own",
                  dim, above ? "one factor and a divisor" : "a divisor", dim);
      ok = false;
    }
  }
  if (!ok) return val_error();
  val_t *values = PTC_ARENA_ARRAY(&L->module->arena, val_t, product.count);
  for (int32_t i = 0; i < product.count; i++) {
    values[i] = descend[i].count ? contract(L, product.factors[i], &descend[i])
                                 : lower_expr(L, product.factors[i]);
    ok &= values[i].kind != VAL_ERROR;
  }
  if (!ok) return val_error();
  L->b.loc = expr->loc;
  val_t result = {.kind = VAL_ERROR};
  bool in_group[64] = {false};
  if (site.count) {
    group_t *group = PTC_ARENA_NEW(&L->module->arena, group_t);
    for (int32_t i = 0; i < product.count; i++) {
      if (values[i].kind != VAL_TENSOR) continue;
      for (int32_t d = 0; d < values[i].num_dims; d++)
        in_group[i] |= set_has(&site, values[i].dims[d].name);
      if (!in_group[i]) continue;
      lower_note_weight(L, &values[i]);
      val_t factor = val_to_float(L, values[i]);
      if (product.sign[i] < 0)
        factor = val_binary(L, PTC_OPR_DIV, val_number(ptc_number_from_int(&L->numbers, 1)), factor,
                            expr->loc);
      if (factor.kind == VAL_ERROR) return factor;
      group->items[group->count++] = factor;
    }
    // Mixed precisions meet in f32.
    for (int32_t i = 1; i < group->count; i++)
      if (group->items[i].ir->type->dtype != group->items[0].ir->type->dtype)
        for (int32_t k = 0; k < group->count; k++)
          group->items[k] = val_cast(L, group->items[k], PTC_F32);
    result = contract_group(L, group, &site, expr->loc);
    if (result.kind == VAL_ERROR) return result;
  }
  // Factors without a summed dim: prologue or epilogue.
  bool started = site.count > 0;
  for (int32_t i = 0; i < product.count; i++) {
    if (in_group[i]) continue;
    if (!started) {
      result = values[i];
      if (product.sign[i] < 0)
        result = val_binary(L, PTC_OPR_DIV, val_number(ptc_number_from_int(&L->numbers, 1)), result,
                            expr->loc);
      started = true;
    } else {
      result = val_binary(L, product.sign[i] > 0 ? PTC_OPR_MUL : PTC_OPR_DIV, result, values[i],
                          product.factors[i]->loc);
    }
  }
  return result;
}

static val_t contract(lower_t *L, const ptc_expr_t *expr, const dim_set_t *wanted) {
  dim_set_t held = {0}, over = {0};
  add_free(L, expr, false, &held);
  for (int32_t i = 0; i < wanted->count; i++)
    if (set_has(&held, wanted->names[i])) set_add(&over, wanted->names[i]);
  if (!over.count) return lower_expr(L, expr);
  if (L->expr_depth >= MAX_EXPR_DEPTH) return lower_expr(L, expr);
  ptc_loc_t loc = L->b.loc;
  val_t result = val_error();
  L->expr_depth++;
  if (expr->kind == PTC_EXPR_PAREN) {
    result = contract(L, expr->lhs, &over);
  } else if (expr->kind == PTC_EXPR_UNARY && expr->op == PTC_OPR_NEG) {
    result = val_unary(L, PTC_OP_NEG, contract(L, expr->lhs, &over));
  } else if (expr->kind == PTC_EXPR_BINARY &&
             (expr->op == PTC_OPR_ADD || expr->op == PTC_OPR_SUB)) {
    val_t a = contract(L, expr->lhs, &over);
    val_t b = contract(L, expr->rhs, &over);
    L->b.loc = expr->loc;
    result = val_binary(L, expr->op, a, b, expr->loc);
  } else if (expr->kind == PTC_EXPR_BINARY &&
             (expr->op == PTC_OPR_MUL || expr->op == PTC_OPR_DIV)) {
    result = contract_product(L, expr, &over);
  } else {
    for (int32_t i = 0; i < over.count; i++) refuse(L, expr, over.names[i]);
  }
  L->expr_depth--;
  L->b.loc = loc;
  return result;
}

val_t lower_contraction(lower_t *L, const ptc_expr_t *expr, const fdim_t *keep, int32_t num_keep) {
  dim_set_t held = {0}, over = {0};
  add_free(L, expr, false, &held);
  for (int32_t i = 0; i < held.count; i++) {
    bool kept = false;
    for (int32_t j = 0; j < num_keep; j++) kept |= keep[j].name == held.names[i];
    if (!kept) set_add(&over, held.names[i]);
  }
  return contract(L, expr, &over);
}
