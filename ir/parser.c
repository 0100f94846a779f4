// Reads the text form of a module: recursive descent, one diagnostic per mistake.
//
// After an error the parser skips to the next line that can begin a statement; values whose
// definition failed are known as broken, so that their uses stay silent.
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/vec.h"
#include "ir/lexer.h"
#include "ir/op.h"
#include "ir/text.h"

enum { MAX_BLOCK_DEPTH = 64, MAX_LIST = 1 << 16 };

typedef struct parser_s {
  ptc_diag_t *diag;
  ptc_module_t *module;
  ptc_arena_t arena;  // token texts
  ptc_lexer_t lexer;
  ptc_token_t token;
  ptc_func_t *func;
  ptc_map_t values;  // interned name -> value, or &broken
  // Names in order of definition, so that a block's own ones go out of scope with it.
  PTC_VEC(const char *) scope;
  int depth;
} parser_t;

// Stands for a value whose definition was wrong.
static ptc_value_t broken;

static void advance(parser_t *p) { p->token = ptc_lexer_next(&p->lexer); }

static const char *describe(parser_t *p) {
  const ptc_token_t *t = &p->token;
  switch (t->kind) {
    case PTC_TOKEN_END: return "the end of the file";
    case PTC_TOKEN_PUNCT: return ptc_arena_printf(&p->arena, "'%c'", t->punct);
    case PTC_TOKEN_STRING: return "a string";
    case PTC_TOKEN_VALUE: return ptc_arena_printf(&p->arena, "%%%s", t->text);
    case PTC_TOKEN_GLOBAL: return ptc_arena_printf(&p->arena, "@%s", t->text);
    case PTC_TOKEN_NAME:
    case PTC_TOKEN_INT:
    case PTC_TOKEN_FLOAT: return ptc_arena_printf(&p->arena, "\"%s\"", t->text);
    case PTC_TOKEN_BAD: break;
  }
  return "that";
}

static bool expected(parser_t *p, const char *what) {
  if (p->token.kind != PTC_TOKEN_BAD)
    (void)ptc_error(p->diag, p->token.loc, PTC_INVALID_INPUT, "ir-syntax",
                    "expected %s, found %s", what, describe(p));
  return false;
}

static bool is_punct(const parser_t *p, char c) {
  return p->token.kind == PTC_TOKEN_PUNCT && p->token.punct == c;
}

static bool is_word(const parser_t *p, const char *word) {
  return p->token.kind == PTC_TOKEN_NAME && strcmp(p->token.text, word) == 0;
}

static bool accept_punct(parser_t *p, char c) {
  if (!is_punct(p, c)) return false;
  advance(p);
  return true;
}

static bool accept_word(parser_t *p, const char *word) {
  if (!is_word(p, word)) return false;
  advance(p);
  return true;
}

static bool need_punct(parser_t *p, char c) {
  if (accept_punct(p, c)) return true;
  char text[4] = {'\'', c, '\'', '\0'};
  return expected(p, text);
}

// Skips to a line that begins a statement of the enclosing block, or closes it.
static void skip_line(parser_t *p) {
  int nested = 0;
  while (p->token.kind != PTC_TOKEN_END) {
    if (p->token.starts_line && nested == 0 &&
        (p->token.kind == PTC_TOKEN_VALUE || is_punct(p, '}') || is_word(p, "yield") ||
         is_word(p, "return") || is_word(p, "func")))
      return;
    // A body that opens here is skipped whole.
    if (is_punct(p, '{')) nested++;
    if (is_punct(p, '}') && nested > 0) nested--;
    advance(p);
  }
}

static const char *intern(parser_t *p, const char *text) {
  return ptc_module_intern(p->module, text);
}

static bool parse_int(parser_t *p, const char *what, int64_t min, int64_t *out) {
  if (p->token.kind != PTC_TOKEN_INT) return expected(p, what);
  errno = 0;
  int64_t value = strtoll(p->token.text, NULL, 10);
  if (errno || value < min) {
    (void)ptc_error(p->diag, p->token.loc, PTC_INVALID_INPUT, "ir-range",
                    "%s is %s; it must lie between %" PRId64 " and 2^63 - 1", what, p->token.text,
                    min);
    advance(p);
    return false;
  }
  *out = value;
  advance(p);
  return true;
}

// --- types

static bool parse_axes(parser_t *p, const ptc_axis_ref_t **out, int32_t *out_count) {
  ptc_axis_ref_t refs[32];
  int32_t count = 0;
  while (p->token.kind == PTC_TOKEN_STRING) {
    if (count == 32) return expected(p, "at most 32 axes");
    ptc_axis_ref_t ref = {.axis = intern(p, p->token.text)};
    advance(p);
    if (accept_punct(p, ':')) {
      if (!parse_int(p, "the size before a sub-axis", 1, &ref.pre) || !need_punct(p, ':') ||
          !parse_int(p, "the size of a sub-axis", 1, &ref.size))
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

static bool parse_dim(parser_t *p, ptc_dim_t *out) {
  *out = (ptc_dim_t){0};
  if (p->token.kind != PTC_TOKEN_NAME) return expected(p, "a dim's name");
  out->name = intern(p, p->token.text);
  advance(p);
  if (!need_punct(p, '=') || !parse_int(p, "the extent", 0, &out->extent) ||
      !parse_axes(p, &out->axes, &out->num_axes))
    return false;
  if (accept_word(p, "zigzag")) out->dist = PTC_DIST_ZIGZAG;
  return true;
}

static const ptc_type_t *parse_type(parser_t *p) {
  ptc_loc_t loc = p->token.loc;
  int64_t counts[PTC_MAX_COUNTS];
  int32_t num_counts = 0;
  while (p->token.kind == PTC_TOKEN_INT) {
    if (num_counts == PTC_MAX_COUNTS) {
      expected(p, "fewer counts");
      return NULL;
    }
    if (!parse_int(p, "the count of a bundle", 1, &counts[num_counts++])) return NULL;
    if (!accept_word(p, "x")) {
      expected(p, "'x'");
      return NULL;
    }
  }
  ptc_dtype_t dtype;
  if (p->token.kind != PTC_TOKEN_NAME || !ptc_dtype_parse(p->token.text, &dtype)) {
    expected(p, "a type");
    return NULL;
  }
  advance(p);
  if (!need_punct(p, '[')) return NULL;
  ptc_dim_t dims[PTC_MAX_DIMS];
  int32_t num_dims = 0;
  while (!is_punct(p, ']')) {
    if (num_dims == PTC_MAX_DIMS) {
      expected(p, "at most 16 dims");
      return NULL;
    }
    if (!parse_dim(p, &dims[num_dims++])) return NULL;
    if (!accept_punct(p, ',')) break;
  }
  if (!need_punct(p, ']')) return NULL;
  ptc_type_t *type = ptc_type_new(&p->module->arena, dtype, dims, num_dims);
  if (accept_word(p, "partial")) {
    if (accept_word(p, "max")) type->partial_kind = PTC_REDUCE_MAX;
    if (!parse_axes(p, &type->partial, &type->num_partial)) return NULL;
    if (!type->num_partial) {
      expected(p, "an axis");
      return NULL;
    }
  }
  for (int32_t i = num_counts; i-- > 0;)
    type = ptc_type_bundle(&p->module->arena, type, counts[i]);
  if (ptc_type_num_bytes(type) < 0) {
    (void)ptc_error(p->diag, loc, PTC_INVALID_INPUT, "ir-range", "this type has too many elements");
    return NULL;
  }
  return type;
}

// --- attributes

static bool parse_float_text(parser_t *p, double *out) {
  if (p->token.kind != PTC_TOKEN_INT && p->token.kind != PTC_TOKEN_FLOAT &&
      !is_word(p, "inf") && !is_word(p, "nan"))
    return expected(p, "a number");
  *out = strtod(p->token.text, NULL);
  advance(p);
  return true;
}

static bool parse_list(parser_t *p, ptc_attr_t *attr) {
  PTC_VEC(const char *) dims = {0};
  PTC_VEC(int64_t) ints = {0};
  PTC_VEC(double) floats = {0};
  bool ok = need_punct(p, '[');
  while (ok && !is_punct(p, ']')) {
    if (attr->kind == PTC_ATTR_DIMS) {
      ok = p->token.kind == PTC_TOKEN_NAME || expected(p, "a dim's name");
      if (ok) {
        PTC_VEC_PUSH(&dims, intern(p, p->token.text));
        advance(p);
      }
    } else if (attr->kind == PTC_ATTR_INTS) {
      int64_t value = 0;
      ok = parse_int(p, "an integer", INT64_MIN, &value);
      PTC_VEC_PUSH(&ints, value);
    } else {
      double value = 0;
      ok = parse_float_text(p, &value);
      PTC_VEC_PUSH(&floats, value);
    }
    if (!accept_punct(p, ',')) break;
  }
  ok = ok && need_punct(p, ']');
  int64_t count = dims.len + ints.len + floats.len;
  attr->count = (int32_t)(count > MAX_LIST ? MAX_LIST : count);
  if (attr->kind == PTC_ATTR_DIMS) attr->u.dims = dims.data;
  else if (attr->kind == PTC_ATTR_INTS) attr->u.ints = ints.data;
  else attr->u.floats = floats.data;
  // ptc_attrs_set copies; keep a copy here too, since the lists die with this function.
  size_t bytes = (size_t)attr->count * sizeof(int64_t);
  void *copy = ptc_arena_alloc(&p->module->arena, bytes);
  const void *data = attr->kind == PTC_ATTR_DIMS   ? (const void *)dims.data
                     : attr->kind == PTC_ATTR_INTS ? (const void *)ints.data
                                                   : (const void *)floats.data;
  if (bytes) memcpy(copy, data, bytes);
  if (attr->kind == PTC_ATTR_DIMS) attr->u.dims = copy;
  else if (attr->kind == PTC_ATTR_INTS) attr->u.ints = copy;
  else attr->u.floats = copy;
  PTC_VEC_FREE(&dims);
  PTC_VEC_FREE(&ints);
  PTC_VEC_FREE(&floats);
  return ok;
}

// The value of |attr|, whose kind is known from the op table.
static bool parse_known(parser_t *p, ptc_attr_t *attr) {
  switch (attr->kind) {
    case PTC_ATTR_INT: return parse_int(p, "an integer", INT64_MIN, &attr->u.i);
    case PTC_ATTR_FLOAT: return parse_float_text(p, &attr->u.f);
    case PTC_ATTR_BOOL:
      if (!is_word(p, "true") && !is_word(p, "false")) return expected(p, "true or false");
      attr->u.b = is_word(p, "true");
      advance(p);
      return true;
    case PTC_ATTR_STRING:
      if (p->token.kind != PTC_TOKEN_STRING) return expected(p, "a string");
      attr->u.s = intern(p, p->token.text);
      advance(p);
      return true;
    case PTC_ATTR_DIM:
      if (p->token.kind != PTC_TOKEN_NAME) return expected(p, "a dim's name");
      attr->u.s = intern(p, p->token.text);
      advance(p);
      return true;
    case PTC_ATTR_DIMS:
    case PTC_ATTR_INTS:
    case PTC_ATTR_FLOATS: return parse_list(p, attr);
  }
  return false;
}

// Attributes of globals and config: the kind is read off the value.
static bool parse_free(parser_t *p, ptc_attr_t *attr) {
  attr->kind = p->token.kind == PTC_TOKEN_STRING ? PTC_ATTR_STRING
               : p->token.kind == PTC_TOKEN_INT  ? PTC_ATTR_INT
               : is_word(p, "true") || is_word(p, "false") ? PTC_ATTR_BOOL
                                                           : PTC_ATTR_FLOAT;
  return parse_known(p, attr);
}

// |opcode| PTC_NUM_OPS: free attributes.
static bool parse_attrs(parser_t *p, ptc_opcode_t opcode, ptc_attrs_t *out) {
  if (!accept_punct(p, '{')) return true;
  while (!is_punct(p, '}')) {
    if (p->token.kind != PTC_TOKEN_NAME) return expected(p, "an attribute's name");
    ptc_attr_t attr = {.name = intern(p, p->token.text)};
    ptc_loc_t loc = p->token.loc;
    if (ptc_attrs_find(out, attr.name)) {
      (void)ptc_error(p->diag, loc, PTC_INVALID_INPUT, "ir-attr", "attribute \"%s\" is given twice",
                      attr.name);
      return false;
    }
    advance(p);
    bool known = opcode == PTC_NUM_OPS;
    const char *names[16];
    char buffers[16][32];
    int32_t count = 0, cursor = 0;
    ptc_attr_spec_t spec;
    while (!known && ptc_op_next_attr_spec(opcode, &cursor, &spec)) {
      if (strcmp(spec.name, attr.name) == 0) {
        known = true;
        attr.kind = spec.kind;
      } else if (count < 16) {
        memcpy(buffers[count], spec.name, sizeof(buffers[count]));
        names[count] = buffers[count];
        count++;
      }
    }
    if (!known) {
      const char *near = ptc_nearest_name(attr.name, names, count);
      (void)ptc_error(p->diag, loc, PTC_INVALID_INPUT, "ir-attr",
                      "%s has no attribute \"%s\"%s%s%s", ptc_op_info(opcode)->mnemonic, attr.name,
                      near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
      return false;
    }
    if (!need_punct(p, '=')) return false;
    if (!(opcode == PTC_NUM_OPS ? parse_free(p, &attr) : parse_known(p, &attr))) return false;
    ptc_attrs_set(p->module, out, attr);
    if (!accept_punct(p, ',')) break;
  }
  return need_punct(p, '}');
}

static bool parse_loc(parser_t *p, ptc_loc_t *out) {
  if (!accept_word(p, "loc")) return true;
  int64_t line, column;
  if (!need_punct(p, '(')) return false;
  if (p->token.kind != PTC_TOKEN_STRING) return expected(p, "a file's name");
  out->file = intern(p, p->token.text);
  advance(p);
  if (!need_punct(p, ':') || !parse_int(p, "a line", 0, &line) || !need_punct(p, ':') ||
      !parse_int(p, "a column", 0, &column) || !need_punct(p, ')'))
    return false;
  out->line = (int32_t)(line > INT32_MAX ? INT32_MAX : line);
  out->column = (int32_t)(column > INT32_MAX ? INT32_MAX : column);
  return true;
}

// --- globals

static bool parse_turns(parser_t *p, int64_t *first, int64_t *step, int32_t *out_count) {
  *out_count = 0;
  if (!accept_punct(p, '(')) return true;
  do {
    if (*out_count == PTC_MAX_COUNTS) return expected(p, "fewer turns");
    int32_t i = (*out_count)++;
    if (!parse_int(p, "the first turn", 0, &first[i]) || !need_punct(p, ':') ||
        !parse_int(p, "the step of the turns", 1, &step[i]))
      return false;
  } while (accept_punct(p, ','));
  return need_punct(p, ')');
}

static ptc_global_t *find_global(parser_t *p, const char *path, const int64_t *first,
                                 const int64_t *step, int32_t num_turns) {
  for (int64_t i = 0; i < p->module->num_globals; i++) {
    ptc_global_t *global = p->module->globals[i];
    if (global->path != path || global->type->num_counts != num_turns) continue;
    bool same = true;
    for (int32_t k = 0; k < num_turns; k++)
      same &= global->turn_first[k] == first[k] && global->turn_step[k] == step[k];
    if (same) return global;
  }
  return NULL;
}

static bool parse_global(parser_t *p, ptc_global_kind_t kind) {
  int64_t first[PTC_MAX_COUNTS], step[PTC_MAX_COUNTS];
  int32_t num_turns;
  ptc_loc_t loc = p->token.loc;
  if (p->token.kind != PTC_TOKEN_GLOBAL) return expected(p, "a path: @name or @\"name\"");
  const char *path = intern(p, p->token.text);
  advance(p);
  if (accept_word(p, "turns") && !is_punct(p, '(')) return expected(p, "'('");
  if (!parse_turns(p, first, step, &num_turns) || !need_punct(p, ':')) return false;
  const ptc_type_t *type = parse_type(p);
  if (!type) return false;
  ptc_attrs_t attrs = {0};
  ptc_loc_t own_loc = {0};
  if (!parse_attrs(p, PTC_NUM_OPS, &attrs) || !parse_loc(p, &own_loc)) return false;
  if (num_turns != type->num_counts) {
    (void)ptc_error(p->diag, loc, PTC_INVALID_INPUT, "ir-global",
                    "@%s has %" PRId32 " turns, but its type %" PRId32 " counts", path, num_turns,
                    type->num_counts);
    return false;
  }
  for (int32_t i = 0; i < num_turns; i++) {
    int64_t last;
    if (!__builtin_mul_overflow(type->counts[i], step[i], &last) &&
        !__builtin_add_overflow(last, first[i], &last))
      continue;
    (void)ptc_error(p->diag, loc, PTC_INVALID_INPUT, "ir-range", "the turns of @%s overflow", path);
    return false;
  }
  if (find_global(p, path, first, step, num_turns)) {
    (void)ptc_error(p->diag, loc, PTC_INVALID_INPUT, "ir-global", "@%s is declared twice", path);
    return false;
  }
  ptc_global_t *global =
      ptc_module_add_global(p->module, kind, path, type, own_loc.file ? own_loc : loc);
  for (int32_t i = 0; i < num_turns; i++) {
    global->turn_first[i] = first[i];
    global->turn_step[i] = step[i];
  }
  global->attrs = attrs;
  return true;
}

static const ptc_global_t *parse_global_ref(parser_t *p) {
  int64_t first[PTC_MAX_COUNTS], step[PTC_MAX_COUNTS];
  int32_t num_turns;
  ptc_loc_t loc = p->token.loc;
  if (p->token.kind != PTC_TOKEN_GLOBAL) {
    expected(p, "a global: @name");
    return NULL;
  }
  const char *path = intern(p, p->token.text);
  advance(p);
  if (!parse_turns(p, first, step, &num_turns)) return NULL;
  const ptc_global_t *global = find_global(p, path, first, step, num_turns);
  if (global) return global;
  const char **names = PTC_ARENA_ARRAY(&p->arena, const char *, p->module->num_globals);
  for (int64_t i = 0; i < p->module->num_globals; i++) names[i] = p->module->globals[i]->path;
  const char *near = ptc_nearest_name(path, names, p->module->num_globals);
  (void)ptc_error(p->diag, loc, PTC_INVALID_INPUT, "ir-global", "unknown global @%s%s%s%s%s", path,
                  num_turns ? " with these turns" : "", near ? "; did you mean @" : "",
                  near ? near : "", near ? "?" : "");
  return NULL;
}

// --- values

static void define(parser_t *p, const char *name, ptc_value_t *value, ptc_loc_t loc) {
  if (ptc_map_get(&p->values, name))
    (void)ptc_error(p->diag, loc, PTC_INVALID_INPUT, "ir-value", "%%%s is defined twice", name);
  ptc_map_set(&p->values, name, value);
  PTC_VEC_PUSH(&p->scope, name);
  if (value != &broken) value->name = name[0] >= '0' && name[0] <= '9' ? NULL : name;
}

// Forgets the values defined since |mark|: they end with their block.
static void leave_scope(parser_t *p, int64_t mark) {
  while (p->scope.len > mark) ptc_map_set(&p->values, p->scope.data[--p->scope.len], NULL);
}

// NULL after an error; a broken value counts as one, silently.
static ptc_value_t *parse_use(parser_t *p) {
  if (p->token.kind != PTC_TOKEN_VALUE) {
    expected(p, "a value: %name");
    return NULL;
  }
  const char *name = intern(p, p->token.text);
  ptc_value_t *value = ptc_map_get(&p->values, name);
  if (!value) {
    const char *near = ptc_nearest_name(name, p->scope.data, p->scope.len);
    (void)ptc_error(p->diag, p->token.loc, PTC_INVALID_INPUT, "ir-value",
                    "unknown value %%%s%s%s%s", name, near ? "; did you mean %" : "",
                    near ? near : "", near ? "?" : "");
  }
  advance(p);
  return value == &broken ? NULL : value;
}

typedef PTC_VEC(ptc_value_t *) values_t;

static bool parse_uses(parser_t *p, values_t *out) {
  do {
    ptc_value_t *value = parse_use(p);
    if (!value) return false;
    PTC_VEC_PUSH(out, value);
  } while (accept_punct(p, ','));
  return true;
}

// --- ops

static bool parse_block(parser_t *p, ptc_block_t *block);

// carry(%a = %b, ...): arguments of the body and operands of the op.
static bool parse_bindings(parser_t *p, ptc_op_t *op, bool each, int32_t *out_count) {
  if (!need_punct(p, '(')) return false;
  do {
    if (p->token.kind != PTC_TOKEN_VALUE) return expected(p, "a value: %name");
    const char *name = intern(p, p->token.text);
    ptc_loc_t loc = p->token.loc;
    advance(p);
    if (!need_punct(p, '=')) return false;
    ptc_loc_t use_loc = p->token.loc;
    ptc_value_t *value = parse_use(p);
    if (!value) return false;
    const ptc_type_t *type = value->type;
    if (each && type && !type->num_counts) {
      (void)ptc_error(p->diag, use_loc, PTC_INVALID_INPUT, "ir-repeat",
                      "each takes a bundle; this value is one instance");
      return false;
    }
    if (!type) return false;
    if (each) type = ptc_type_instance(&p->module->arena, type);
    ptc_op_add_operand(p->module, op, op->num_operands, value);
    define(p, name, ptc_block_add_arg(op->body, type, NULL), loc);
    (*out_count)++;
  } while (accept_punct(p, ','));
  return need_punct(p, ')');
}

static bool parse_repeat(parser_t *p, ptc_op_t *op, ptc_func_t *func) {
  if (!is_punct(p, '{')) return expected(p, "the attributes of repeat");
  if (!parse_attrs(p, PTC_OP_REPEAT, &op->attrs)) return false;
  op->body = ptc_block_new(p->module, func, op);
  if (!accept_word(p, "index")) return expected(p, "\"index\"");
  if (p->token.kind != PTC_TOKEN_VALUE) return expected(p, "a value: %name");
  int64_t mark = p->scope.len;
  define(p, intern(p, p->token.text),
         ptc_block_add_arg(op->body, ptc_type_scalar(&p->module->arena, PTC_I32), NULL),
         p->token.loc);
  advance(p);
  bool ok = (!accept_word(p, "carry") || parse_bindings(p, op, false, &op->num_carry)) &&
            (!accept_word(p, "each") || parse_bindings(p, op, true, &op->num_each)) &&
            need_punct(p, '{');
  if (ok && ++p->depth > MAX_BLOCK_DEPTH) {
    (void)ptc_error(p->diag, p->token.loc, PTC_INVALID_INPUT, "ir-depth",
                    "regions are nested deeper than %d levels", MAX_BLOCK_DEPTH);
    ok = false;
  } else if (ok) {
    ok = parse_block(p, op->body);
  }
  if (ok) p->depth--;
  leave_scope(p, mark);
  return ok;
}

static bool parse_yield(parser_t *p, ptc_op_t *op, int32_t num_carry) {
  values_t values = {0};
  bool ok = true;
  ptc_loc_t loc = p->token.loc;
  if (accept_word(p, "carry"))
    ok = need_punct(p, '(') && parse_uses(p, &values) && need_punct(p, ')');
  if (ok && values.len != num_carry) {
    (void)ptc_error(p->diag, loc, PTC_INVALID_INPUT, "ir-repeat",
                    "yield carries %" PRId64 " values, but the repeat %" PRId32, values.len,
                    num_carry);
    ok = false;
  }
  if (ok && accept_word(p, "collect"))
    ok = need_punct(p, '(') && parse_uses(p, &values) && need_punct(p, ')');
  for (int64_t i = 0; ok && i < values.len; i++)
    ptc_op_add_operand(p->module, op, op->num_operands, values.data[i]);
  PTC_VEC_FREE(&values);
  return ok;
}

static bool parse_result(parser_t *p, ptc_op_t *op) {
  ptc_result_t result = {0};
  if (is_word(p, "state") || is_word(p, "grad")) {
    result.kind = is_word(p, "state") ? PTC_RESULT_STATE : PTC_RESULT_GRAD;
    advance(p);
    result.global = parse_global_ref(p);
    if (!result.global) return false;
  } else {
    if (!is_word(p, "loss") && !is_word(p, "metric") && !is_word(p, "output") &&
        !is_word(p, "value"))
      return expected(p, "loss, metric, output, value, state or grad");
    result.kind = PTC_RESULT_VALUE;
    result.role = intern(p, p->token.text);
    advance(p);
    if (p->token.kind != PTC_TOKEN_STRING) return expected(p, "the result's name");
    result.name = intern(p, p->token.text);
    advance(p);
  }
  if (!need_punct(p, '=')) return false;
  ptc_value_t *value = parse_use(p);
  if (!value) return false;
  (void)op;
  ptc_func_add_result(p->func, result, value);
  return true;
}

static bool parse_return(parser_t *p, ptc_op_t *op) {
  if (p->token.starts_line ? !(p->token.kind == PTC_TOKEN_NAME && !is_word(p, "func"))
                           : p->token.kind != PTC_TOKEN_NAME)
    return true;
  do {
    if (!parse_result(p, op)) return false;
  } while (accept_punct(p, ','));
  return true;
}

static bool parse_types(parser_t *p, ptc_op_t *op) {
  ptc_loc_t loc = p->token.loc;
  int32_t count = 0;
  do {
    const ptc_type_t *type = parse_type(p);
    if (!type) return false;
    if (count < op->num_results) op->results[count]->type = type;
    count++;
  } while (accept_punct(p, ','));
  if (count == op->num_results) return true;
  (void)ptc_error(p->diag, loc, PTC_INVALID_INPUT, "ir-op",
                  "%" PRId32 " types for %" PRId32 " results", count, op->num_results);
  return false;
}

// Types that the text leaves out follow from the operands.
static bool infer_missing(parser_t *p, ptc_op_t *op) {
  bool missing = false;
  for (int32_t i = 0; i < op->num_results; i++) missing |= !op->results[i]->type;
  if (!missing) return true;
  const ptc_type_t **types = PTC_ARENA_ARRAY(&p->arena, const ptc_type_t *, op->num_results);
  if (ptc_op_info(op->opcode)->shape(p->module, op, types) != PTC_OK) return false;
  for (int32_t i = 0; i < op->num_results; i++)
    if (!op->results[i]->type) op->results[i]->type = types[i];
  return true;
}

typedef struct result_name_s {
  const char *name;
  ptc_loc_t loc;
} result_name_t;
typedef PTC_VEC(result_name_t) result_names_t;

static bool parse_result_names(parser_t *p, result_names_t *out) {
  if (p->token.kind != PTC_TOKEN_VALUE) return true;
  do {
    if (p->token.kind != PTC_TOKEN_VALUE) return expected(p, "a value: %name");
    result_name_t entry = {intern(p, p->token.text), p->token.loc};
    PTC_VEC_PUSH(out, entry);
    advance(p);
  } while (accept_punct(p, ','));
  return need_punct(p, '=');
}

static bool parse_opcode(parser_t *p, ptc_opcode_t *out) {
  if (p->token.kind != PTC_TOKEN_NAME) return expected(p, "an op");
  if (ptc_opcode_parse(p->token.text, out)) {
    advance(p);
    return true;
  }
  const char *names[PTC_NUM_OPS];
  for (int i = 0; i < PTC_NUM_OPS; i++) names[i] = ptc_op_info((ptc_opcode_t)i)->mnemonic;
  const char *near = ptc_nearest_name(p->token.text, names, PTC_NUM_OPS);
  (void)ptc_error(p->diag, p->token.loc, PTC_INVALID_INPUT, "ir-op", "unknown op \"%s\"%s%s%s",
                  p->token.text, near ? "; did you mean \"" : "", near ? near : "",
                  near ? "\"?" : "");
  return false;
}

static bool parse_op_rest(parser_t *p, ptc_op_t *op, ptc_block_t *block) {
  switch (op->opcode) {
    case PTC_OP_REPEAT:
      if (!parse_repeat(p, op, block->func)) return false;
      break;
    case PTC_OP_YIELD:
      if (!parse_yield(p, op, block->parent_op ? block->parent_op->num_carry : 0)) return false;
      break;
    case PTC_OP_RETURN:
      if (block->parent_op) return expected(p, "yield at the end of a repeat, not return");
      if (!parse_return(p, op)) return false;
      break;
    default:
      if (p->token.kind == PTC_TOKEN_VALUE) {
        values_t values = {0};
        bool ok = parse_uses(p, &values);
        for (int64_t i = 0; ok && i < values.len; i++)
          ptc_op_add_operand(p->module, op, op->num_operands, values.data[i]);
        PTC_VEC_FREE(&values);
        if (!ok) return false;
      }
      if (!parse_attrs(p, op->opcode, &op->attrs)) return false;
  }
  if (accept_punct(p, ':') && !parse_types(p, op)) return false;
  op->remat = accept_word(p, "remat");
  return parse_loc(p, &op->loc);
}

static bool parse_op(parser_t *p, ptc_block_t *block) {
  result_names_t names = {0};
  ptc_opcode_t opcode;
  ptc_loc_t loc = p->token.loc;
  bool named = parse_result_names(p, &names);
  bool ok = named && parse_opcode(p, &opcode);
  ptc_op_t *op = NULL;
  if (ok) {
    op = ptc_op_new(p->module, opcode, loc, NULL, 0, (int32_t)names.len);
    // The return is in place first: its results are added to the function one by one.
    if (opcode == PTC_OP_RETURN && !block->parent_op) ptc_op_insert(op, block, NULL);
    ptc_loc_t own = op->loc;
    op->loc = (ptc_loc_t){0};
    ok = parse_op_rest(p, op, block);
    // Without a loc of its own, an op's place is this text.
    if (!op->loc.file) op->loc = own;
    ok = ok && infer_missing(p, op);
    if (ok && !op->parent) ptc_op_insert(op, block, NULL);
  }
  for (int64_t i = 0; i < names.len; i++)
    define(p, names.data[i].name, ok ? op->results[i] : &broken, names.data[i].loc);
  PTC_VEC_FREE(&names);
  return ok;
}

static bool parse_block(parser_t *p, ptc_block_t *block) {
  bool ok = true;
  while (!is_punct(p, '}')) {
    if (p->token.kind == PTC_TOKEN_END || (is_word(p, "func") && p->token.starts_line)) {
      expected(p, "'}'");
      return false;
    }
    if (!parse_op(p, block)) {
      ok = false;
      if (!p->token.starts_line || is_punct(p, '{')) advance(p);
      skip_line(p);
    }
  }
  advance(p);
  return ok;
}

static bool parse_func(parser_t *p) {
  ptc_loc_t loc = p->token.loc;
  if (p->token.kind != PTC_TOKEN_GLOBAL) return expected(p, "the function's name: @name");
  const char *name = intern(p, p->token.text);
  if (ptc_module_find_func(p->module, name)) {
    (void)ptc_error(p->diag, loc, PTC_INVALID_INPUT, "ir-func", "function @%s is defined twice",
                    name);
    return false;
  }
  advance(p);
  p->func = ptc_module_add_func(p->module, name, loc);
  p->values = (ptc_map_t){0};
  p->scope.len = 0;
  p->depth = 0;
  bool ok = need_punct(p, '(');
  while (ok && !is_punct(p, ')')) {
    ok = p->token.kind == PTC_TOKEN_VALUE || expected(p, "an argument: %name = @global");
    if (!ok) break;
    const char *arg = intern(p, p->token.text);
    ptc_loc_t arg_loc = p->token.loc;
    advance(p);
    const ptc_global_t *global = need_punct(p, '=') ? parse_global_ref(p) : NULL;
    ok = global != NULL;
    if (ok) define(p, arg, ptc_func_add_arg(p->func, global), arg_loc);
    if (!accept_punct(p, ',')) break;
  }
  ok = ok && need_punct(p, ')') && parse_loc(p, &p->func->loc) && need_punct(p, '{');
  ok = ok && parse_block(p, p->func->body);
  ptc_map_deinit(&p->values);
  return ok;
}

// --- modules

static bool parse_mesh(parser_t *p) {
  ptc_mesh_axis_t axes[16];
  int32_t count = 0;
  int64_t product = 1;
  if (!need_punct(p, '[')) return false;
  do {
    if (count == 16) return expected(p, "at most 16 axes");
    if (p->token.kind != PTC_TOKEN_STRING) return expected(p, "an axis: \"tp\"=4");
    axes[count].name = intern(p, p->token.text);
    ptc_loc_t loc = p->token.loc;
    advance(p);
    if (!need_punct(p, '=') || !parse_int(p, "the size of an axis", 1, &axes[count].size))
      return false;
    bool overflow = __builtin_mul_overflow(product, axes[count].size, &product);
    for (int32_t i = 0; i < count; i++) overflow |= axes[i].name == axes[count].name;
    if (overflow) {
      (void)ptc_error(p->diag, loc, PTC_INVALID_INPUT, "ir-mesh",
                      "axis \"%s\" is named twice, or the mesh is too large", axes[count].name);
      return false;
    }
    count++;
  } while (accept_punct(p, ','));
  if (!need_punct(p, ']')) return false;
  ptc_module_set_mesh(p->module, axes, count);
  return true;
}

static bool parse_item(parser_t *p) {
  static const ptc_global_kind_t kinds[] = {PTC_GLOBAL_INPUT, PTC_GLOBAL_PARAM, PTC_GLOBAL_MOMENT,
                                            PTC_GLOBAL_COUNTER, PTC_GLOBAL_SETTING};
  if (accept_word(p, "mesh")) return parse_mesh(p);
  if (accept_word(p, "config")) return parse_attrs(p, PTC_NUM_OPS, &p->module->config);
  if (accept_word(p, "func")) return parse_func(p);
  for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
    if (accept_word(p, ptc_global_kind_name(kinds[i]))) return parse_global(p, kinds[i]);
  return expected(p, "mesh, config, input, param, moment, counter, setting or func");
}

static bool starts_item(const parser_t *p) {
  static const char *const words[] = {"mesh",    "config",  "func",   "input", "param",
                                      "moment",  "counter", "setting"};
  for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
    if (is_word(p, words[i])) return true;
  return false;
}

static bool parse_module(parser_t *p) {
  if (!accept_word(p, "module")) return expected(p, "module \"NAME\"");
  if (p->token.kind != PTC_TOKEN_STRING) return expected(p, "the module's name");
  p->module->name = intern(p, p->token.text);
  advance(p);
  bool ok = true;
  while (p->token.kind != PTC_TOKEN_END) {
    if (parse_item(p)) continue;
    ok = false;
    while (p->token.kind != PTC_TOKEN_END && !(p->token.starts_line && starts_item(p))) advance(p);
  }
  return ok;
}

ptc_status_t ptc_module_parse(ptc_diag_t *diag, const char *file, const char *text, size_t len,
                              ptc_module_t **out_module) {
  *out_module = NULL;
  ptc_diag_add_source(diag, file, text, len);
  parser_t p = {.diag = diag, .module = ptc_module_create(diag, "module")};
  int64_t errors = diag->num_errors;
  ptc_lexer_init(&p.lexer, diag, &p.arena, intern(&p, file), text, len);
  advance(&p);
  bool ok = parse_module(&p) && diag->num_errors == errors;
  PTC_VEC_FREE(&p.scope);
  ptc_map_deinit(&p.values);
  ptc_arena_deinit(&p.arena);
  if (!ok) {
    ptc_module_destroy(p.module);
    return PTC_INVALID_INPUT;
  }
  *out_module = p.module;
  return PTC_OK;
}
