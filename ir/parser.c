// Reads the text form of a module: recursive descent, one diagnostic per mistake.
//
// After an error the parser skips to the next line that can begin a statement; values whose
// definition failed are known as broken, so that their uses stay silent. Types that the text leaves
// out are inferred on the way: a module that was read is fully typed.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ir/parser_impl.h"
#include "ir/text.h"

// Stands for a value whose definition was wrong.
static ptc_value_t broken;

// Skips the rest of a body whose brace was read.
static void skip_body(ptc_parser_t *p) {
  for (int nested = 1; nested > 0 && p->token.kind != PTC_TOKEN_END;) {
    nested += ptc_parse_is_punct(p, '{') - ptc_parse_is_punct(p, '}');
    ptc_parse_advance(p);
  }
}

// Skips to a line that begins a statement of the enclosing block, or closes it.
static void skip_line(ptc_parser_t *p) {
  int nested = 0;
  while (p->token.kind != PTC_TOKEN_END) {
    if (p->token.starts_line && nested == 0 &&
        (p->token.kind == PTC_TOKEN_VALUE || ptc_parse_is_punct(p, '}') ||
         ptc_parse_is_word(p, "repeat") || ptc_parse_is_word(p, "yield") ||
         ptc_parse_is_word(p, "return") || ptc_parse_is_word(p, "func")))
      return;
    // A body that opens here is skipped whole.
    if (ptc_parse_is_punct(p, '{')) nested++;
    if (ptc_parse_is_punct(p, '}') && nested > 0) nested--;
    ptc_parse_advance(p);
  }
}

// --- globals

static bool parse_turns(ptc_parser_t *p, int64_t *first, int64_t *step, int32_t *out_count) {
  *out_count = 0;
  if (!ptc_parse_accept_punct(p, '(')) return true;
  do {
    if (*out_count == PTC_MAX_COUNTS) return ptc_parse_too_many(p, "turns", PTC_MAX_COUNTS);
    int32_t i = (*out_count)++;
    if (!ptc_parse_int(p, "the first turn", 0, &first[i]) || !ptc_parse_need_punct(p, ':') ||
        !ptc_parse_int(p, "the step of the turns", 1, &step[i]))
      return false;
  } while (ptc_parse_accept_punct(p, ','));
  return ptc_parse_need_punct(p, ')');
}

// The globals of one path, newest first.
typedef struct same_path_s {
  const ptc_global_t *global;
  struct same_path_s *next;
} same_path_t;

static const ptc_global_t *find_global(const ptc_parser_t *p, const char *path,
                                       const int64_t *first, const int64_t *step,
                                       int32_t num_turns) {
  for (const same_path_t *at = ptc_map_get(&p->globals, path); at; at = at->next) {
    const ptc_global_t *global = at->global;
    bool same = global->type->num_counts == num_turns;
    for (int32_t i = 0; same && i < num_turns; i++)
      same = global->turn_first[i] == first[i] && global->turn_step[i] == step[i];
    if (same) return global;
  }
  return NULL;
}

static void remember_global(ptc_parser_t *p, const ptc_global_t *global) {
  same_path_t *entry = PTC_ARENA_NEW(&p->arena, same_path_t);
  *entry = (same_path_t){global, ptc_map_get(&p->globals, global->path)};
  ptc_map_set(&p->globals, global->path, entry);
}

static bool parse_global(ptc_parser_t *p, ptc_global_kind_t kind) {
  int64_t first[PTC_MAX_COUNTS], step[PTC_MAX_COUNTS];
  int32_t num_turns;
  ptc_loc_t loc = p->token.loc;
  if (p->token.kind != PTC_TOKEN_GLOBAL) return ptc_parse_expected(p, "a path: @name or @\"name\"");
  const char *path = ptc_parse_intern(p, p->token.text);
  ptc_parse_advance(p);
  if (ptc_parse_accept_word(p, "turns") && !ptc_parse_is_punct(p, '('))
    return ptc_parse_expected(p, "'('");
  if (!parse_turns(p, first, step, &num_turns) || !ptc_parse_need_punct(p, ':')) return false;
  const ptc_type_t *type = ptc_parse_type(p);
  if (!type) return false;
  ptc_attrs_t attrs = {0};
  ptc_loc_t own_loc = {0};
  bool located;
  if (!ptc_parse_attrs(p, PTC_NUM_OPS, &attrs) || !ptc_parse_loc(p, &own_loc, &located))
    return false;
  if (num_turns != type->num_counts) {
    (void)ptc_error(p->diag, loc, PTC_INVALID_INPUT, "ir-global",
                    "@%.60s has %" PRId32 " turns, but its type %" PRId32 " counts", path,
                    num_turns, type->num_counts);
    return false;
  }
  for (int32_t i = 0; i < num_turns; i++) {
    int64_t last;
    if (!__builtin_mul_overflow(type->counts[i], step[i], &last) &&
        !__builtin_add_overflow(last, first[i], &last))
      continue;
    (void)ptc_error(p->diag, loc, PTC_INVALID_INPUT, "ir-range", "the turns of @%.60s overflow",
                    path);
    return false;
  }
  if (find_global(p, path, first, step, num_turns)) {
    (void)ptc_error(p->diag, loc, PTC_INVALID_INPUT, "ir-global", "@%.60s is declared twice", path);
    return false;
  }
  ptc_global_t *global =
      ptc_module_add_global(p->module, kind, path, type, located ? own_loc : loc);
  for (int32_t i = 0; i < num_turns; i++) {
    global->turn_first[i] = first[i];
    global->turn_step[i] = step[i];
  }
  global->attrs = attrs;
  remember_global(p, global);
  return true;
}

static const ptc_global_t *parse_global_ref(ptc_parser_t *p) {
  int64_t first[PTC_MAX_COUNTS], step[PTC_MAX_COUNTS];
  int32_t num_turns;
  ptc_loc_t loc = p->token.loc;
  if (p->token.kind != PTC_TOKEN_GLOBAL) {
    ptc_parse_expected(p, "a global: @name");
    return NULL;
  }
  const char *path = ptc_parse_intern(p, p->token.text);
  ptc_parse_advance(p);
  if (!parse_turns(p, first, step, &num_turns)) return NULL;
  const ptc_global_t *global = find_global(p, path, first, step, num_turns);
  if (global) return global;
  const char **names = PTC_ARENA_ARRAY(&p->arena, const char *, p->module->num_globals);
  for (int64_t i = 0; i < p->module->num_globals; i++) names[i] = p->module->globals[i]->path;
  const char *near = ptc_nearest_name(path, names, p->module->num_globals);
  (void)ptc_error(p->diag, loc, PTC_INVALID_INPUT, "ir-global", "unknown global @%.60s%s%s%s%s",
                  path, num_turns ? " with these turns" : "", near ? "; did you mean @" : "",
                  near ? near : "", near ? "?" : "");
  return NULL;
}

// --- values

static void define(ptc_parser_t *p, const ptc_token_t *token, ptc_value_t *value) {
  const char *name = ptc_parse_intern(p, token->text);
  if (ptc_map_get(&p->values, name))
    (void)ptc_error(p->diag, token->loc, PTC_INVALID_INPUT, "ir-value", "%%%.60s is defined twice",
                    name);
  ptc_map_set(&p->values, name, value);
  PTC_VEC_PUSH(&p->scope, name);
  if (value != &broken) value->name = token->hint ? ptc_parse_intern(p, token->hint) : NULL;
}

// Forgets the values defined since |mark|: they end with their block.
static void leave_scope(ptc_parser_t *p, int64_t mark) {
  while (p->scope.len > mark) ptc_map_set(&p->values, p->scope.data[--p->scope.len], NULL);
}

// NULL after an error; a broken value counts as one, silently.
static ptc_value_t *parse_use(ptc_parser_t *p) {
  if (p->token.kind != PTC_TOKEN_VALUE) {
    ptc_parse_expected(p, "a value: %name");
    return NULL;
  }
  const char *name = ptc_parse_intern(p, p->token.text);
  ptc_value_t *value = ptc_map_get(&p->values, name);
  if (!value) {
    const char *near = ptc_nearest_name(name, p->scope.data, p->scope.len);
    (void)ptc_error(p->diag, p->token.loc, PTC_INVALID_INPUT, "ir-value",
                    "unknown value %%%.60s%s%s%s", name, near ? "; did you mean %" : "",
                    near ? near : "", near ? "?" : "");
  }
  ptc_parse_advance(p);
  return value == &broken ? NULL : value;
}

typedef PTC_VEC(ptc_value_t *) values_t;

static bool parse_uses(ptc_parser_t *p, int64_t limit, values_t *out) {
  do {
    // Operands do not run on to the next line: what stands there is a statement of its own.
    if (out->len && p->token.starts_line) return ptc_parse_expected(p, "a value: %name");
    if (out->len == limit) return ptc_parse_too_many(p, "operands", limit);
    ptc_value_t *value = parse_use(p);
    if (!value) return false;
    PTC_VEC_PUSH(out, value);
  } while (ptc_parse_accept_punct(p, ','));
  return true;
}

// --- ops

static bool parse_block(ptc_parser_t *p, ptc_block_t *block);

// carry(%a = %b, ...): arguments of the body and operands of the op.
static bool parse_bindings(ptc_parser_t *p, ptc_op_t *op, bool each, int32_t *out_count) {
  if (!ptc_parse_need_punct(p, '(')) return false;
  do {
    if (p->token.kind != PTC_TOKEN_VALUE) return ptc_parse_expected(p, "a value: %name");
    if (op->num_operands == PTC_PARSE_MAX_LIST)
      return ptc_parse_too_many(p, "operands", PTC_PARSE_MAX_LIST);
    ptc_token_t name = p->token;
    ptc_parse_advance(p);
    const ptc_type_t *given = NULL;
    if (ptc_parse_accept_punct(p, ':') && !(given = ptc_parse_type(p))) return false;
    if (!ptc_parse_need_punct(p, '=')) return false;
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
    if (given) type = given;
    ptc_op_add_operand(p->module, op, op->num_operands, value);
    define(p, &name, ptc_block_add_arg(op->body, type, NULL));
    (*out_count)++;
  } while (ptc_parse_accept_punct(p, ','));
  return ptc_parse_need_punct(p, ')');
}

static bool parse_repeat(ptc_parser_t *p, ptc_op_t *op, ptc_func_t *func) {
  if (!ptc_parse_is_punct(p, '{')) return ptc_parse_expected(p, "the attributes of repeat");
  if (!ptc_parse_attrs(p, PTC_OP_REPEAT, &op->attrs)) return false;
  op->body = ptc_block_new(p->module, func, op);
  if (!ptc_parse_accept_word(p, "index")) return ptc_parse_expected(p, "\"index\"");
  if (p->token.kind != PTC_TOKEN_VALUE) return ptc_parse_expected(p, "a value: %name");
  int64_t mark = p->scope.len;
  ptc_token_t turn = p->token;
  const ptc_type_t *type = ptc_type_scalar(&p->module->arena, PTC_I32);
  ptc_parse_advance(p);
  if (ptc_parse_accept_punct(p, ':') && !(type = ptc_parse_type(p))) return false;
  define(p, &turn, ptc_block_add_arg(op->body, type, NULL));
  bool ok = (!ptc_parse_accept_word(p, "carry") || parse_bindings(p, op, false, &op->num_carry)) &&
            (!ptc_parse_accept_word(p, "each") || parse_bindings(p, op, true, &op->num_each)) &&
            ptc_parse_need_punct(p, '{');
  if (ok && p->depth == PTC_PARSE_MAX_DEPTH) {
    ok = ptc_parse_too_many(p, "nested regions", PTC_PARSE_MAX_DEPTH);
    skip_body(p);
  } else if (ok) {
    p->depth++;
    ok = parse_block(p, op->body);
    p->depth--;
  }
  leave_scope(p, mark);
  return ok;
}

static bool parse_yield(ptc_parser_t *p, ptc_op_t *op, int32_t num_carry) {
  values_t values = {0};
  bool ok = true;
  if (ptc_parse_accept_word(p, "carry"))
    ok = ptc_parse_need_punct(p, '(') && parse_uses(p, PTC_PARSE_MAX_LIST, &values) &&
         ptc_parse_need_punct(p, ')');
  if (ok && values.len != num_carry) {
    (void)ptc_error(p->diag, op->loc, PTC_INVALID_INPUT, "ir-repeat",
                    "yield carries %" PRId64 " values, but the repeat %" PRId32, values.len,
                    num_carry);
    ok = false;
  }
  if (ok && ptc_parse_accept_word(p, "collect"))
    ok = ptc_parse_need_punct(p, '(') && parse_uses(p, PTC_PARSE_MAX_LIST, &values) &&
         ptc_parse_need_punct(p, ')');
  for (int64_t i = 0; ok && i < values.len; i++)
    ptc_op_add_operand(p->module, op, op->num_operands, values.data[i]);
  PTC_VEC_FREE(&values);
  return ok;
}

static bool parse_result(ptc_parser_t *p) {
  ptc_result_t result = {0};
  if (ptc_parse_is_word(p, "state") || ptc_parse_is_word(p, "grad")) {
    result.kind = ptc_parse_is_word(p, "state") ? PTC_RESULT_STATE : PTC_RESULT_GRAD;
    ptc_parse_advance(p);
    result.global = parse_global_ref(p);
    if (!result.global) return false;
  } else {
    if (!ptc_parse_is_word(p, "loss") && !ptc_parse_is_word(p, "metric") &&
        !ptc_parse_is_word(p, "output") && !ptc_parse_is_word(p, "value"))
      return ptc_parse_expected(p, "loss, metric, output, value, state or grad");
    result.kind = PTC_RESULT_VALUE;
    result.role = ptc_parse_intern(p, p->token.text);
    ptc_parse_advance(p);
    if (p->token.kind != PTC_TOKEN_STRING) return ptc_parse_expected(p, "the result's name");
    result.name = ptc_parse_intern(p, p->token.text);
    ptc_parse_advance(p);
  }
  if (!ptc_parse_need_punct(p, '=')) return false;
  ptc_value_t *value = parse_use(p);
  if (!value) return false;
  if (p->func->num_results == PTC_PARSE_MAX_LIST)
    return ptc_parse_too_many(p, "results", PTC_PARSE_MAX_LIST);
  ptc_func_add_result(p->func, result, value);
  return true;
}

static bool parse_return(ptc_parser_t *p) {
  if (ptc_parse_is_word(p, "remat") || ptc_parse_is_word(p, "loc")) return true;
  if (p->token.starts_line ? !(p->token.kind == PTC_TOKEN_NAME && !ptc_parse_is_word(p, "func"))
                           : p->token.kind != PTC_TOKEN_NAME)
    return true;
  do {
    if (!parse_result(p)) return false;
  } while (ptc_parse_accept_punct(p, ','));
  return true;
}

static bool parse_types(ptc_parser_t *p, ptc_op_t *op) {
  ptc_loc_t loc = p->token.loc;
  int32_t count = 0;
  do {
    const ptc_type_t *type = NULL;
    if (!ptc_parse_accept_word(p, "_") && !(type = ptc_parse_type(p))) return false;
    if (count < op->num_results) op->results[count]->type = type;
    count++;
  } while (ptc_parse_accept_punct(p, ','));
  if (count == op->num_results) return true;
  (void)ptc_error(p->diag, loc, PTC_INVALID_INPUT, "ir-op",
                  "%" PRId32 " types for %" PRId32 " results", count, op->num_results);
  return false;
}

// Types that the text leaves out follow from the operands.
static bool infer_missing(ptc_parser_t *p, ptc_op_t *op) {
  bool missing = false;
  for (int32_t i = 0; i < op->num_results; i++) missing |= !op->results[i]->type;
  if (!missing) return true;
  const ptc_type_t **types = PTC_ARENA_ARRAY(&p->arena, const ptc_type_t *, op->num_results);
  if (ptc_op_info(op->opcode)->shape(p->module, op, types) != PTC_OK) return false;
  for (int32_t i = 0; i < op->num_results; i++)
    if (!op->results[i]->type) op->results[i]->type = types[i];
  return true;
}

typedef PTC_VEC(ptc_token_t) result_names_t;

static bool parse_result_names(ptc_parser_t *p, result_names_t *out) {
  if (p->token.kind != PTC_TOKEN_VALUE) return true;
  do {
    if (p->token.kind != PTC_TOKEN_VALUE) return ptc_parse_expected(p, "a value: %name");
    if (out->len == PTC_PARSE_MAX_LIST) return ptc_parse_too_many(p, "results", PTC_PARSE_MAX_LIST);
    PTC_VEC_PUSH(out, p->token);
    ptc_parse_advance(p);
  } while (ptc_parse_accept_punct(p, ','));
  return ptc_parse_need_punct(p, '=');
}

static bool parse_opcode(ptc_parser_t *p, ptc_opcode_t *out) {
  if (p->token.kind != PTC_TOKEN_NAME) return ptc_parse_expected(p, "an op");
  if (ptc_opcode_parse(p->token.text, out)) {
    ptc_parse_advance(p);
    return true;
  }
  const char *names[PTC_NUM_OPS];
  for (int i = 0; i < PTC_NUM_OPS; i++) names[i] = ptc_op_info((ptc_opcode_t)i)->mnemonic;
  const char *near = ptc_nearest_name(p->token.text, names, PTC_NUM_OPS);
  (void)ptc_error(p->diag, p->token.loc, PTC_INVALID_INPUT, "ir-op", "unknown op \"%.60s\"%s%s%s",
                  p->token.text, near ? "; did you mean \"" : "", near ? near : "",
                  near ? "\"?" : "");
  return false;
}

static bool parse_op_rest(ptc_parser_t *p, ptc_op_t *op, ptc_block_t *block) {
  switch (op->opcode) {
    case PTC_OP_REPEAT:
      if (!parse_repeat(p, op, block->func)) return false;
      break;
    case PTC_OP_YIELD:
      if (!parse_yield(p, op, block->parent_op ? block->parent_op->num_carry : 0)) return false;
      break;
    case PTC_OP_RETURN:
      if (block->parent_op)
        return ptc_parse_expected(p, "yield at the end of a repeat, not return");
      if (!parse_return(p)) return false;
      break;
    default:
      if (p->token.kind == PTC_TOKEN_VALUE) {
        values_t values = {0};
        bool ok = parse_uses(p, PTC_PARSE_MAX_OPERANDS, &values);
        for (int64_t i = 0; ok && i < values.len; i++)
          ptc_op_add_operand(p->module, op, op->num_operands, values.data[i]);
        PTC_VEC_FREE(&values);
        if (!ok) return false;
      }
      if (!ptc_parse_attrs(p, op->opcode, &op->attrs)) return false;
  }
  if (ptc_parse_accept_punct(p, ':') && !parse_types(p, op)) return false;
  op->remat = ptc_parse_accept_word(p, "remat");
  bool located;
  ptc_loc_t loc = op->loc;
  if (!ptc_parse_loc(p, &loc, &located)) return false;
  if (located) op->loc = loc;
  return true;
}

static bool parse_op(ptc_parser_t *p, ptc_block_t *block) {
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
    // Without a loc of its own, an op's place is this text.
    ok = parse_op_rest(p, op, block);
    if (ok && !p->token.starts_line && !ptc_parse_is_punct(p, '}') &&
        p->token.kind != PTC_TOKEN_END)
      ok = ptc_parse_expected(p, "the end of the line");
    ok = ok && infer_missing(p, op);
    if (ok && !op->parent) ptc_op_insert(op, block, NULL);
  }
  for (int64_t i = 0; i < names.len; i++) define(p, &names.data[i], ok ? op->results[i] : &broken);
  PTC_VEC_FREE(&names);
  return ok;
}

static bool parse_block(ptc_parser_t *p, ptc_block_t *block) {
  bool ok = true;
  while (!ptc_parse_is_punct(p, '}')) {
    if (p->token.kind == PTC_TOKEN_END || (ptc_parse_is_word(p, "func") && p->token.starts_line)) {
      ptc_parse_expected(p, "'}'");
      return false;
    }
    if (!parse_op(p, block)) {
      ok = false;
      if (!p->token.starts_line || ptc_parse_is_punct(p, '{')) ptc_parse_advance(p);
      skip_line(p);
    }
  }
  ptc_parse_advance(p);
  return ok;
}

static bool parse_func(ptc_parser_t *p) {
  ptc_loc_t loc = p->token.loc;
  if (p->token.kind != PTC_TOKEN_GLOBAL) return ptc_parse_expected(p, "the function's name: @name");
  const char *name = ptc_parse_intern(p, p->token.text);
  if (ptc_module_find_func(p->module, name)) {
    (void)ptc_error(p->diag, loc, PTC_INVALID_INPUT, "ir-func", "function @%.60s is defined twice",
                    name);
    return false;
  }
  if (p->num_funcs++ == PTC_PARSE_MAX_FUNCS)
    return ptc_parse_too_many(p, "functions", PTC_PARSE_MAX_FUNCS);
  ptc_parse_advance(p);
  p->func = ptc_module_add_func(p->module, name, loc);
  ptc_map_deinit(&p->values);
  p->scope.len = 0;
  p->depth = 0;
  p->func->each_micro = ptc_parse_accept_word(p, "micro");
  bool ok = ptc_parse_need_punct(p, '(');
  while (ok && !ptc_parse_is_punct(p, ')')) {
    ok = p->token.kind == PTC_TOKEN_VALUE || ptc_parse_expected(p, "an argument: %name = @global");
    if (!ok) break;
    if (p->func->body->num_args == PTC_PARSE_MAX_LIST)
      return ptc_parse_too_many(p, "arguments", PTC_PARSE_MAX_LIST);
    ptc_token_t arg = p->token;
    ptc_parse_advance(p);
    const ptc_global_t *global = ptc_parse_need_punct(p, '=') ? parse_global_ref(p) : NULL;
    ok = global != NULL;
    const ptc_type_t *type = NULL;
    if (ok && ptc_parse_accept_punct(p, ':')) ok = (type = ptc_parse_type(p)) != NULL;
    if (!ok) break;
    ptc_value_t *value = ptc_func_add_arg(p->func, global);
    if (type) value->type = type;
    define(p, &arg, value);
    if (!ptc_parse_accept_punct(p, ',')) break;
  }
  bool located;
  ok = ok && ptc_parse_need_punct(p, ')') && ptc_parse_loc(p, &p->func->loc, &located) &&
       ptc_parse_need_punct(p, '{');
  ok = ok && parse_block(p, p->func->body);
  ptc_map_deinit(&p->values);
  return ok;
}

// --- modules

static bool parse_mesh(ptc_parser_t *p) {
  ptc_mesh_axis_t axes[PTC_PARSE_MAX_AXES];
  int32_t count = 0;
  int64_t product = 1;
  if (!ptc_parse_need_punct(p, '[')) return false;
  do {
    if (count == PTC_PARSE_MAX_AXES) return ptc_parse_too_many(p, "axes", PTC_PARSE_MAX_AXES);
    if (p->token.kind != PTC_TOKEN_STRING) return ptc_parse_expected(p, "an axis: \"tp\"=4");
    axes[count].name = ptc_parse_intern(p, p->token.text);
    ptc_loc_t loc = p->token.loc;
    ptc_parse_advance(p);
    if (!ptc_parse_need_punct(p, '=') ||
        !ptc_parse_int(p, "the size of an axis", 1, &axes[count].size))
      return false;
    bool overflow = __builtin_mul_overflow(product, axes[count].size, &product);
    for (int32_t i = 0; i < count; i++) overflow |= axes[i].name == axes[count].name;
    if (overflow) {
      (void)ptc_error(p->diag, loc, PTC_INVALID_INPUT, "ir-mesh",
                      "axis \"%s\" is named twice, or the mesh is too large", axes[count].name);
      return false;
    }
    count++;
  } while (ptc_parse_accept_punct(p, ','));
  if (!ptc_parse_need_punct(p, ']')) return false;
  ptc_module_set_mesh(p->module, axes, count);
  return true;
}

static bool parse_item(ptc_parser_t *p) {
  static const ptc_global_kind_t kinds[] = {PTC_GLOBAL_INPUT, PTC_GLOBAL_PARAM, PTC_GLOBAL_MOMENT,
                                            PTC_GLOBAL_COUNTER, PTC_GLOBAL_SETTING, PTC_GLOBAL_SLOT};
  if (ptc_parse_accept_word(p, "mesh")) return parse_mesh(p);
  if (ptc_parse_accept_word(p, "config"))
    return ptc_parse_attrs(p, PTC_NUM_OPS, &p->module->config);
  if (ptc_parse_accept_word(p, "func")) return parse_func(p);
  for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
    if (ptc_parse_accept_word(p, ptc_global_kind_name(kinds[i]))) return parse_global(p, kinds[i]);
  return ptc_parse_expected(p, "mesh, config, input, param, moment, counter, setting, slot or func");
}

static bool starts_item(const ptc_parser_t *p) {
  static const char *const words[] = {"mesh",  "config", "func",    "input",
                                      "param", "moment", "counter", "setting", "slot"};
  for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
    if (ptc_parse_is_word(p, words[i])) return true;
  return false;
}

static bool parse_module(ptc_parser_t *p) {
  if (!ptc_parse_accept_word(p, "module")) return ptc_parse_expected(p, "module \"NAME\"");
  if (p->token.kind != PTC_TOKEN_STRING) return ptc_parse_expected(p, "the module's name");
  p->module->name = ptc_parse_intern(p, p->token.text);
  ptc_parse_advance(p);
  bool ok = true;
  while (p->token.kind != PTC_TOKEN_END) {
    if (parse_item(p)) continue;
    ok = false;
    while (p->token.kind != PTC_TOKEN_END && !(p->token.starts_line && starts_item(p)))
      ptc_parse_advance(p);
  }
  return ok;
}

ptc_status_t ptc_module_parse(ptc_diag_t *diag, const char *file, const char *text, size_t len,
                              ptc_module_t **out_module) {
  *out_module = NULL;
  ptc_diag_add_source(diag, file, text, len);
  ptc_parser_t p = {.diag = diag, .module = ptc_module_create(diag, "module")};
  int64_t errors = diag->num_errors;
  p.max_errors = errors + (diag->max_errors ? diag->max_errors : 100);
  ptc_lexer_init(&p.lexer, diag, &p.arena, ptc_parse_intern(&p, file), text, len);
  ptc_parse_advance(&p);
  bool ok = parse_module(&p) && diag->num_errors == errors;
  PTC_VEC_FREE(&p.scope);
  ptc_map_deinit(&p.values);
  ptc_map_deinit(&p.globals);
  ptc_arena_deinit(&p.arena);
  if (!ok) {
    ptc_module_destroy(p.module);
    return PTC_INVALID_INPUT;
  }
  *out_module = p.module;
  return PTC_OK;
}
