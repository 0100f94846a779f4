// Masks of spelled-out attention: written as a bias, and whether one leaves every row something.
#include <math.h>

#include "passes/raise_attention_impl.h"
#include "passes/rewrite.h"

bool ptc_raise_masks(double number, bool *out_finite) {
  *out_finite = number != -INFINITY;
  return number <= -1e9;
}

// A constant, perhaps cast and reordered.
static bool is_number(const ptc_value_t *value, double *out_number) {
  const ptc_op_t *op = value->def;
  while (op && (op->opcode == PTC_OP_CAST || op->opcode == PTC_OP_BROADCAST ||
                op->opcode == PTC_OP_TRANSPOSE)) {
    value = op->operands[0];
    op = value->def;
  }
  return ptc_value_is_constant(value, out_number);
}

bool ptc_raise_mask_of_bias(ptc_builder_t *b, ptc_value_t *value, ptc_raise_term_t *out_term) {
  ptc_op_t *renames[PTC_MAX_DIMS];
  int32_t num_renames = 0;
  ptc_op_t *op = value->def;
  for (; op && op->opcode != PTC_OP_WHERE; op = op->operands[0]->def) {
    if (op->opcode == PTC_OP_RENAME) {
      if (num_renames == PTC_MAX_DIMS) return false;
      renames[num_renames++] = op;
    } else if (op->opcode != PTC_OP_CAST && op->opcode != PTC_OP_TRANSPOSE &&
               op->opcode != PTC_OP_BROADCAST) {
      return false;
    }
  }
  double yes, no;
  if (!op || !is_number(op->operands[1], &yes) || !is_number(op->operands[2], &no)) return false;
  const bool negated = no == 0 && yes != 0;
  if ((negated ? no : yes) != 0 || !ptc_raise_masks(negated ? yes : no, &out_term->finite))
    return false;
  ptc_value_t *cond = op->operands[0];
  while (num_renames > 0) {
    const ptc_op_t *rename = renames[--num_renames];
    const ptc_attr_t *from = ptc_op_attr(rename, "from"), *to = ptc_op_attr(rename, "to");
    const char *old[PTC_MAX_DIMS], *fresh[PTC_MAX_DIMS];
    int32_t count = 0;
    for (int32_t i = 0; i < from->count; i++)
      if (ptc_type_has_dim(cond->type, from->u.dims[i])) {
        old[count] = from->u.dims[i];
        fresh[count++] = to->u.dims[i];
      }
    if (count) cond = ptc_build_rename(b, cond, old, fresh, count);
  }
  out_term->value = cond;
  out_term->negated = negated;
  return cond != NULL;
}

// --- a mask at one index of the attended dim

// Names of dims as seen from outside: |inner| of a value nested in renames is |outer| there; |attend| stands
// for |target| (NULL: index 0).
typedef struct place_s {
  const char *attend, *target;
  const ptc_op_t *rename;  // the innermost rename around the value
  const struct place_s *outside;
} place_t;

typedef enum sym_kind_e { SYM_UNKNOWN, SYM_NUMBER, SYM_INDEX, SYM_VALUE } sym_kind_t;

typedef struct sym_s {
  sym_kind_t kind;
  double number;
  const char *index;  // INDEX: the position along this dim
  // VALUE: the elements of |value| at these positions
  const ptc_value_t *value;
  const char *dims[PTC_MAX_DIMS];
} sym_t;

static const char zero_index[] = "0";

static const char *outer_name(const place_t *place, const char *dim) {
  for (; place; place = place->outside) {
    if (!place->rename) {
      if (dim == place->attend) return place->target ? place->target : zero_index;
      continue;
    }
    const ptc_attr_t *from = ptc_op_attr(place->rename, "from");
    const ptc_attr_t *to = ptc_op_attr(place->rename, "to");
    for (int32_t i = 0; i < from->count; i++)
      if (from->u.dims[i] == dim) {
        dim = to->u.dims[i];
        break;
      }
  }
  return dim;
}

static sym_t number(double value) { return (sym_t){.kind = SYM_NUMBER, .number = value}; }

static bool same(const sym_t *a, const sym_t *b) {
  if (a->kind != b->kind) return false;
  if (a->kind == SYM_NUMBER) return a->number == b->number;
  if (a->kind == SYM_INDEX) return a->index == b->index;
  if (a->kind != SYM_VALUE || a->value != b->value) return false;
  for (int32_t i = 0; i < a->value->type->num_dims; i++)
    if (a->dims[i] != b->dims[i]) return false;
  return ptc_dtype_is_int(a->value->type->dtype) || a->value->type->dtype == PTC_BOOL;
}

static sym_t leaf(const ptc_value_t *value, const place_t *place) {
  sym_t sym = {.kind = SYM_VALUE, .value = value};
  for (int32_t i = 0; i < value->type->num_dims; i++)
    sym.dims[i] = outer_name(place, value->type->dims[i].name);
  return sym;
}

static sym_t compare(const ptc_op_t *op, const sym_t *a, const sym_t *b) {
  const bool numbers = a->kind == SYM_NUMBER && b->kind == SYM_NUMBER;
  switch (op->opcode) {
    case PTC_OP_EQ:
      if (same(a, b)) return number(1);
      return numbers ? number(0) : (sym_t){0};
    case PTC_OP_LE:
      if (same(a, b)) return number(1);
      if (numbers) return number(a->number <= b->number);
      if (a->kind == SYM_NUMBER && b->kind == SYM_INDEX && a->number <= 0) return number(1);
      return (sym_t){0};
    default:
      if (same(a, b)) return number(0);
      if (numbers) return number(a->number < b->number);
      if (a->kind == SYM_NUMBER && b->kind == SYM_INDEX && a->number < 0) return number(1);
      return (sym_t){0};
  }
}

static bool is_value(const sym_t *sym, double wanted) {
  return sym->kind == SYM_NUMBER && sym->number == wanted;
}

static sym_t evaluate(const ptc_value_t *value, const place_t *place, int depth) {
  const ptc_op_t *op = value->def;
  enum { DEEPEST = 40 };
  if (!op || depth > DEEPEST) return leaf(value, place);
  switch (op->opcode) {
    case PTC_OP_CONSTANT: return number(ptc_op_float(op, "value"));
    case PTC_OP_IOTA: {
      const char *dim = outer_name(place, ptc_op_string(op, "dim"));
      return dim == zero_index ? number(0) : (sym_t){.kind = SYM_INDEX, .index = dim};
    }
    case PTC_OP_BROADCAST:
    case PTC_OP_TRANSPOSE: return evaluate(op->operands[0], place, depth + 1);
    case PTC_OP_RENAME: {
      const place_t inside = {.rename = op, .outside = place};
      return evaluate(op->operands[0], &inside, depth + 1);
    }
    case PTC_OP_NOT: {
      const sym_t a = evaluate(op->operands[0], place, depth + 1);
      return a.kind == SYM_NUMBER ? number(a.number == 0) : (sym_t){0};
    }
    case PTC_OP_SUB:
    case PTC_OP_EQ:
    case PTC_OP_LE:
    case PTC_OP_LT:
    case PTC_OP_AND:
    case PTC_OP_OR: break;
    default: return leaf(value, place);
  }
  const sym_t a = evaluate(op->operands[0], place, depth + 1);
  const sym_t b = evaluate(op->operands[1], place, depth + 1);
  switch (op->opcode) {
    case PTC_OP_SUB:
      if (a.kind == SYM_NUMBER && b.kind == SYM_NUMBER) return number(a.number - b.number);
      return same(&a, &b) ? number(0) : (sym_t){0};
    case PTC_OP_AND:
      if (is_value(&a, 0) || is_value(&b, 0)) return number(0);
      return is_value(&a, 1) && is_value(&b, 1) ? number(1) : (sym_t){0};
    case PTC_OP_OR:
      if (is_value(&a, 1) || is_value(&b, 1)) return number(1);
      return is_value(&a, 0) && is_value(&b, 0) ? number(0) : (sym_t){0};
    default: return compare(op, &a, &b);
  }
}

static bool holds_at(const ptc_value_t *mask, const char *attend, const char *target) {
  const place_t place = {.attend = attend, .target = target};
  const sym_t sym = evaluate(mask, &place, 0);
  return is_value(&sym, 1);
}

bool ptc_raise_mask_leaves_some(const ptc_value_t *mask, const ptc_dim_t *attend,
                                const ptc_dim_t *rows, int32_t num_rows) {
  if (holds_at(mask, attend->name, NULL)) return true;
  for (int32_t i = 0; i < num_rows; i++)
    if (rows[i].extent <= attend->extent && holds_at(mask, attend->name, rows[i].name)) return true;
  return false;
}
