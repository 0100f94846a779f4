// Types and attributes of .ptir.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/parser_impl.h"

// --- types

static bool parse_axes(ptc_parser_t *p, const ptc_axis_ref_t **out, int32_t *out_count) {
  ptc_axis_ref_t refs[PTC_PARSE_MAX_AXES];
  int32_t count = 0;
  while (p->token.kind == PTC_TOKEN_STRING) {
    if (count == PTC_PARSE_MAX_AXES) return ptc_parse_too_many(p, "axes", PTC_PARSE_MAX_AXES);
    ptc_axis_ref_t ref = {.axis = ptc_parse_intern(p, p->token.text)};
    ptc_parse_advance(p);
    if (ptc_parse_accept_punct(p, ':')) {
      if (!ptc_parse_int(p, "the size before a sub-axis", 1, &ref.pre) ||
          !ptc_parse_need_punct(p, ':') ||
          !ptc_parse_int(p, "the size of a sub-axis", 1, &ref.size))
        return false;
    }
    refs[count++] = ref;
  }
  *out_count = count;
  *out = NULL;
  if (!count) return true;
  ptc_axis_ref_t *copy = PTC_ARENA_ARRAY(&p->module->arena, ptc_axis_ref_t, count);
  memcpy(copy, refs, (size_t)count * sizeof(*copy));
  *out = copy;
  return true;
}

static bool parse_dim(ptc_parser_t *p, ptc_dim_t *out) {
  *out = (ptc_dim_t){0};
  if (!ptc_parse_name(p, "a dim's name", &out->name)) return false;
  if (!ptc_parse_need_punct(p, '=') || !ptc_parse_int(p, "the extent", 0, &out->extent) ||
      !parse_axes(p, &out->axes, &out->num_axes))
    return false;
  if (ptc_parse_accept_word(p, "zigzag")) out->dist = PTC_DIST_ZIGZAG;
  return true;
}

const ptc_type_t *ptc_parse_type(ptc_parser_t *p) {
  ptc_loc_t loc = p->token.loc;
  int64_t counts[PTC_MAX_COUNTS];
  int32_t num_counts = 0;
  while (p->token.kind == PTC_TOKEN_INT) {
    if (num_counts == PTC_MAX_COUNTS) {
      ptc_parse_too_many(p, "counts", PTC_MAX_COUNTS);
      return NULL;
    }
    if (!ptc_parse_int(p, "the count of a bundle", 0, &counts[num_counts++])) return NULL;
    if (!ptc_parse_accept_word(p, "x")) {
      ptc_parse_expected(p, "'x'");
      return NULL;
    }
  }
  ptc_dtype_t dtype;
  if (p->token.kind != PTC_TOKEN_NAME || !ptc_dtype_parse(p->token.text, &dtype)) {
    ptc_parse_expected(p, "a type");
    return NULL;
  }
  ptc_parse_advance(p);
  if (!ptc_parse_need_punct(p, '[')) return NULL;
  ptc_dim_t dims[PTC_MAX_DIMS];
  int32_t num_dims = 0;
  while (!ptc_parse_is_punct(p, ']')) {
    if (num_dims == PTC_MAX_DIMS) {
      ptc_parse_too_many(p, "dims", PTC_MAX_DIMS);
      return NULL;
    }
    ptc_loc_t dim_loc = p->token.loc;
    if (!parse_dim(p, &dims[num_dims++])) return NULL;
    for (int32_t i = 0; i + 1 < num_dims; i++) {
      if (dims[i].name != dims[num_dims - 1].name) continue;
      (void)ptc_error(p->diag, dim_loc, PTC_INVALID_INPUT, "ir-type",
                      "the type has two dims \"%.60s\"", dims[i].name);
      return NULL;
    }
    if (!ptc_parse_accept_punct(p, ',')) break;
  }
  if (!ptc_parse_need_punct(p, ']')) return NULL;
  ptc_type_t *type = ptc_type_new(&p->module->arena, dtype, dims, num_dims);
  if (ptc_parse_accept_word(p, "partial")) {
    if (ptc_parse_accept_word(p, "max")) type->partial_kind = PTC_REDUCE_MAX;
    if (!parse_axes(p, &type->partial, &type->num_partial)) return NULL;
    if (!type->num_partial) {
      ptc_parse_expected(p, "an axis");
      return NULL;
    }
  }
  for (int32_t i = num_counts; i-- > 0;) type = ptc_type_bundle(&p->module->arena, type, counts[i]);
  if (ptc_type_num_bytes(type) < 0) {
    (void)ptc_error(p->diag, loc, PTC_INVALID_INPUT, "ir-range", "this type has too many elements");
    return NULL;
  }
  return type;
}

// --- attributes

static bool is_number(const ptc_parser_t *p) {
  return p->token.kind == PTC_TOKEN_INT || p->token.kind == PTC_TOKEN_FLOAT;
}

static bool parse_float(ptc_parser_t *p, double *out) {
  if (!is_number(p)) return ptc_parse_expected(p, "a number");
  const char *text = p->token.text;
  if (strncmp(text, "nan:0x", 6) == 0) {
    uint64_t bits = strtoull(text + 6, NULL, 16);
    memcpy(out, &bits, sizeof(bits));
    if (!isnan(*out)) return ptc_parse_expected(p, "the bits of a NaN");
  } else {
    *out = strcmp(text, "nan") == 0 ? (double)NAN : strtod(text, NULL);
  }
  ptc_parse_advance(p);
  return true;
}

// A whole number keeps its kind where a float is due: text and module agree exactly.
static bool parse_number(ptc_parser_t *p, ptc_attr_t *attr) {
  if (p->token.kind == PTC_TOKEN_INT) {
    errno = 0;
    int64_t value = strtoll(p->token.text, NULL, 10);
    bool negative_zero = value == 0 && p->token.text[0] == '-';
    if (!errno && !negative_zero) {
      attr->kind = PTC_ATTR_INT;
      attr->u.i = value;
      ptc_parse_advance(p);
      return true;
    }
  }
  attr->kind = PTC_ATTR_FLOAT;
  return parse_float(p, &attr->u.f);
}

typedef struct list_s {
  PTC_VEC(const char *) dims;
  PTC_VEC(int64_t) ints;
  PTC_VEC(double) floats;
} list_t;

// The entries between brackets; |kind| is that of the list.
static bool parse_entries(ptc_parser_t *p, ptc_attr_kind_t kind, list_t *list) {
  for (int64_t count = 0; !ptc_parse_is_punct(p, ']'); count++) {
    if (count == PTC_PARSE_MAX_LIST)
      return ptc_parse_too_many(p, "entries in a list", PTC_PARSE_MAX_LIST);
    const char *dim;
    int64_t i;
    double f;
    if (kind == PTC_ATTR_DIMS) {
      if (!ptc_parse_name(p, "a dim's name", &dim)) return false;
      PTC_VEC_PUSH(&list->dims, dim);
    } else if (kind == PTC_ATTR_INTS) {
      if (!ptc_parse_int(p, "an integer", INT64_MIN, &i)) return false;
      PTC_VEC_PUSH(&list->ints, i);
    } else {
      if (!parse_float(p, &f)) return false;
      PTC_VEC_PUSH(&list->floats, f);
    }
    if (!ptc_parse_accept_punct(p, ',')) break;
  }
  return ptc_parse_need_punct(p, ']');
}

// Sets the attribute to a list: `[a, b]`; an empty one of numbers is `ints[]` or `floats[]`. Where
// |free| the first entry tells the kind.
static bool parse_list(ptc_parser_t *p, ptc_attrs_t *attrs, ptc_attr_t attr, bool free_kind) {
  bool ints = ptc_parse_accept_word(p, "ints"),
       floats = !ints && ptc_parse_accept_word(p, "floats");
  if (!ptc_parse_need_punct(p, '[')) return false;
  if (ints || floats) {
    attr.kind = ints ? PTC_ATTR_INTS : PTC_ATTR_FLOATS;
  } else if (free_kind) {
    attr.kind = p->token.kind == PTC_TOKEN_INT     ? PTC_ATTR_INTS
                : p->token.kind == PTC_TOKEN_FLOAT ? PTC_ATTR_FLOATS
                                                   : PTC_ATTR_DIMS;
  } else if (ptc_parse_is_punct(p, ']')) {
    attr.kind = PTC_ATTR_DIMS;
  }
  list_t list = {0};
  bool ok = parse_entries(p, attr.kind, &list);
  attr.count = (int32_t)(list.dims.len + list.ints.len + list.floats.len);
  if (attr.kind == PTC_ATTR_DIMS)
    attr.u.dims = list.dims.data;
  else if (attr.kind == PTC_ATTR_INTS)
    attr.u.ints = list.ints.data;
  else
    attr.u.floats = list.floats.data;
  if (ok) ptc_attrs_set(p->module, attrs, attr);
  PTC_VEC_FREE(&list.dims);
  PTC_VEC_FREE(&list.ints);
  PTC_VEC_FREE(&list.floats);
  return ok;
}

static bool parse_scalar(ptc_parser_t *p, ptc_attr_t *attr) {
  switch (attr->kind) {
    case PTC_ATTR_INT: return ptc_parse_int(p, "an integer", INT64_MIN, &attr->u.i);
    case PTC_ATTR_BOOL:
      if (!ptc_parse_is_word(p, "true") && !ptc_parse_is_word(p, "false"))
        return ptc_parse_expected(p, "true or false");
      attr->u.b = ptc_parse_is_word(p, "true");
      break;
    case PTC_ATTR_STRING:
      if (p->token.kind != PTC_TOKEN_STRING) return ptc_parse_expected(p, "a string");
      attr->u.s = ptc_parse_intern(p, p->token.text);
      break;
    case PTC_ATTR_DIM: return ptc_parse_name(p, "a dim's name", &attr->u.s);
    default: return parse_number(p, attr);
  }
  ptc_parse_advance(p);
  return true;
}

static bool is_list(ptc_attr_kind_t kind) {
  return kind == PTC_ATTR_DIMS || kind == PTC_ATTR_INTS || kind == PTC_ATTR_FLOATS;
}

// The value of an attribute of the op table, whose kind is known.
static bool parse_known(ptc_parser_t *p, ptc_attrs_t *attrs, ptc_attr_t attr) {
  if (is_list(attr.kind)) return parse_list(p, attrs, attr, false);
  if (!parse_scalar(p, &attr)) return false;
  ptc_attrs_set(p->module, attrs, attr);
  return true;
}

// Attributes of globals and config: the kind is read off the value.
static bool parse_free(ptc_parser_t *p, ptc_attrs_t *attrs, ptc_attr_t attr) {
  bool name = p->token.kind == PTC_TOKEN_NAME || p->token.kind == PTC_TOKEN_QUOTED;
  if (ptc_parse_is_punct(p, '[') || ptc_parse_is_word(p, "ints") || ptc_parse_is_word(p, "floats"))
    return parse_list(p, attrs, attr, true);
  if (ptc_parse_is_word(p, "true") || ptc_parse_is_word(p, "false"))
    attr.kind = PTC_ATTR_BOOL;
  else if (p->token.kind == PTC_TOKEN_STRING)
    attr.kind = PTC_ATTR_STRING;
  else if (name)
    attr.kind = PTC_ATTR_DIM;
  else if (is_number(p))
    attr.kind = PTC_ATTR_FLOAT;
  else
    return ptc_parse_expected(p, "an attribute's value");
  if (!parse_scalar(p, &attr)) return false;
  ptc_attrs_set(p->module, attrs, attr);
  return true;
}

// Looks |attr| up among the attributes of the op and takes its kind.
static bool find_spec(ptc_parser_t *p, ptc_opcode_t opcode, ptc_loc_t loc, ptc_attr_t *attr) {
  if (ptc_op_execution_attr(attr->name, &attr->kind)) return true;
  enum { MAX_NAMES = 16 };
  ptc_attr_spec_t specs[MAX_NAMES];
  const char *names[MAX_NAMES];
  int32_t count = 0, cursor = 0;
  while (count < MAX_NAMES && ptc_op_next_attr_spec(opcode, &cursor, &specs[count])) {
    names[count] = specs[count].name;
    attr->kind = specs[count].kind;
    if (strcmp(names[count++], attr->name) == 0) return true;
  }
  const char *near = ptc_nearest_name(attr->name, names, count);
  (void)ptc_error(p->diag, loc, PTC_INVALID_INPUT, "ir-attr", "%s has no attribute \"%.60s\"%s%s%s",
                  ptc_op_info(opcode)->mnemonic, attr->name, near ? "; did you mean \"" : "",
                  near ? near : "", near ? "\"?" : "");
  return false;
}

bool ptc_parse_attrs(ptc_parser_t *p, ptc_opcode_t opcode, ptc_attrs_t *out) {
  if (!ptc_parse_accept_punct(p, '{')) return true;
  while (!ptc_parse_is_punct(p, '}')) {
    if (out->count == PTC_PARSE_MAX_ATTRS)
      return ptc_parse_too_many(p, "attributes", PTC_PARSE_MAX_ATTRS);
    ptc_attr_t attr = {0};
    ptc_loc_t loc = p->token.loc;
    if (!ptc_parse_name(p, "an attribute's name", &attr.name)) return false;
    if (ptc_attrs_find(out, attr.name)) {
      (void)ptc_error(p->diag, loc, PTC_INVALID_INPUT, "ir-attr",
                      "attribute \"%.60s\" is given twice", attr.name);
      return false;
    }
    bool free_kind = opcode == PTC_NUM_OPS;
    if (!free_kind && !find_spec(p, opcode, loc, &attr)) return false;
    if (!ptc_parse_need_punct(p, '=')) return false;
    if (!(free_kind ? parse_free(p, out, attr) : parse_known(p, out, attr))) return false;
    if (!ptc_parse_accept_punct(p, ',')) break;
  }
  return ptc_parse_need_punct(p, '}');
}
