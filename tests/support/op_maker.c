#include "tests/support/op_maker.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ITEMS = 64 };

_Noreturn static void malformed(const char *text) {
  fprintf(stderr, "malformed test text near: %s\n", text);
  abort();
}

static void skip_spaces(const char **c) {
  while (**c == ' ') ++*c;
}

static bool accept(const char **c, const char *token) {
  skip_spaces(c);
  if (strncmp(*c, token, strlen(token)) != 0) return false;
  *c += strlen(token);
  return true;
}

static void expect(const char **c, const char *token) {
  if (!accept(c, token)) malformed(*c);
}

static const char *word(ptc_module_t *module, const char **c) {
  skip_spaces(c);
  const char *start = *c;
  while (isalnum((unsigned char)**c) || **c == '_' || **c == '.' || **c == '*') ++*c;
  if (*c == start) malformed(start);
  return ptc_intern_n(&module->names, start, (size_t)(*c - start));
}

static const char *quoted(ptc_module_t *module, const char **c) {
  const char *start = ++*c;
  while (**c && **c != '\'') ++*c;
  if (!**c) malformed(start);
  return ptc_intern_n(&module->names, start, (size_t)((*c)++ - start));
}

static int64_t number(const char **c) {
  char *end;
  int64_t value = strtoll(*c, &end, 0);
  if (end == *c) malformed(*c);
  *c = end;
  return value;
}

static ptc_axis_ref_t *axes(ptc_module_t *module, const char **c, int32_t *out_count) {
  ptc_axis_ref_t *list = PTC_ARENA_ARRAY(&module->arena, ptc_axis_ref_t, MAX_ITEMS);
  for (*out_count = 0; accept(c, "'"); ++*out_count) {
    if (*out_count == MAX_ITEMS) malformed(*c);
    ptc_axis_ref_t *ref = &list[*out_count];
    ref->axis = word(module, c);
    expect(c, "'");
    if (!accept(c, ":")) continue;
    ref->pre = number(c);
    expect(c, ":");
    ref->size = number(c);
  }
  return list;
}

static const ptc_type_t *parse_type(ptc_module_t *module, const char **c) {
  int64_t counts[MAX_ITEMS];
  ptc_dim_t dims[MAX_ITEMS];
  int32_t num_counts = 0, num_dims = 0, num_partial = 0;
  if (accept(c, "?")) return NULL;
  for (skip_spaces(c); isdigit((unsigned char)**c); skip_spaces(c)) {
    counts[num_counts++] = number(c);
    expect(c, "x");
  }
  ptc_dtype_t dtype;
  if (!ptc_dtype_parse(word(module, c), &dtype)) malformed(*c);
  expect(c, "[");
  while (!accept(c, "]")) {
    if (num_dims == MAX_ITEMS) malformed(*c);
    ptc_dim_t *dim = &dims[num_dims++];
    *dim = (ptc_dim_t){.name = word(module, c)};
    expect(c, "=");
    dim->extent = number(c);
    dim->axes = axes(module, c, &dim->num_axes);
    if (accept(c, "zigzag")) dim->dist = PTC_DIST_ZIGZAG;
    accept(c, ",");
  }
  ptc_type_t *type = ptc_type_new(&module->arena, dtype, dims, num_dims);
  if (accept(c, "partial")) {
    type->partial_kind = accept(c, "max") ? PTC_REDUCE_MAX : PTC_REDUCE_SUM;
    type->partial = axes(module, c, &num_partial);
    type->num_partial = num_partial;
  }
  while (num_counts-- > 0) type = ptc_type_bundle(&module->arena, type, counts[num_counts]);
  return type;
}

const ptc_type_t *maker_type(ptc_module_t *module, const char *text) {
  const char *c = text;
  const ptc_type_t *type = parse_type(module, &c);
  skip_spaces(&c);
  if (*c) malformed(c);
  return type;
}

static void parse_list(ptc_module_t *module, const char **c, char kind, ptc_attr_t *attr) {
  const char **names = PTC_ARENA_ARRAY(&module->arena, const char *, MAX_ITEMS);
  int64_t *ints = PTC_ARENA_ARRAY(&module->arena, int64_t, MAX_ITEMS);
  while (**c && **c != ' ') {
    if (attr->count == MAX_ITEMS) malformed(*c);
    if (kind == 'D')
      names[attr->count++] = word(module, c);
    else
      ints[attr->count++] = number(c);
    if (**c == ',') ++*c;
  }
  attr->kind = kind == 'D' ? PTC_ATTR_DIMS : PTC_ATTR_INTS;
  if (kind == 'D')
    attr->u.dims = names;
  else
    attr->u.ints = ints;
}

ptc_attrs_t maker_attrs(ptc_module_t *module, const char *text) {
  ptc_attrs_t attrs = {0};
  const char *c = text ? text : "";
  for (skip_spaces(&c); *c; skip_spaces(&c)) {
    ptc_attr_t attr = {.name = word(module, &c)};
    expect(&c, "=");
    char kind = *c++;
    expect(&c, ":");
    char *end = NULL;
    switch (kind) {
      case 'i':
        attr.kind = PTC_ATTR_INT;
        attr.u.i = number(&c);
        break;
      case 'f':
        attr.kind = PTC_ATTR_FLOAT;
        attr.u.f = strtod(c, &end);
        c = end;
        break;
      case 'b':
        attr.kind = PTC_ATTR_BOOL;
        attr.u.b = number(&c) != 0;
        break;
      case 's':
      case 'd':
        attr.kind = kind == 's' ? PTC_ATTR_STRING : PTC_ATTR_DIM;
        attr.u.s = *c == '\'' ? quoted(module, &c) : word(module, &c);
        break;
      case 'D':
      case 'I': parse_list(module, &c, kind, &attr); break;
      default: malformed(c);
    }
    ptc_attrs_set(module, &attrs, attr);
  }
  return attrs;
}

ptc_op_t *maker_op(ptc_module_t *module, ptc_opcode_t opcode, const char *operands,
                   const char *attrs, const char *given, int32_t num_results) {
  ptc_value_t *values[MAX_ITEMS];
  int32_t num_values = 0;
  const char *c = operands;
  for (skip_spaces(&c); *c; skip_spaces(&c)) {
    if (num_values == MAX_ITEMS) malformed(c);
    ptc_value_t *value = PTC_ARENA_NEW(&module->arena, ptc_value_t);
    value->type = parse_type(module, &c);
    values[num_values++] = value;
    accept(&c, ";");
  }
  if (num_results < 0) num_results = ptc_op_info(opcode)->num_results;
  if (num_results < 0) num_results = 0;
  ptc_op_t *op = ptc_op_new(module, opcode, (ptc_loc_t){0}, values, num_values, num_results);
  op->attrs = maker_attrs(module, attrs);
  if (given && num_results) op->results[0]->type = maker_type(module, given);
  return op;
}

ptc_module_t *maker_module(ptc_diag_t *diag) {
  static const ptc_mesh_axis_t mesh[] = {{"micro", 4}, {"tp", 2}, {"cp", 2}};
  ptc_module_t *module = ptc_module_create(diag, "test");
  ptc_module_set_mesh(module, mesh, 3);
  return module;
}
