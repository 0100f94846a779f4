// PTX at the level of the module: directives, variables, functions' heads.
#include <inttypes.h>
#include <string.h>

#include "runtime/gpusim/ptx_parser_impl.h"

void ptx_parser_fail(ptx_parser_t *parser, const char *format, ...) {
  if (parser->failed) return;
  parser->failed = true;
  va_list args;
  va_start(args, format);
  const char *text = ptc_arena_vprintf(&parser->module->arena, format, args);
  va_end(args);
  ptc_error(parser->diag, (ptc_loc_t){.file = parser->module->name, .line = parser->token.line},
            PTC_INVALID_INPUT, "ptx-syntax", "%s near \"%.*s\"", text,
            (int)(parser->token.len < 40 ? parser->token.len : 40), parser->token.text);
  parser->token = (ptx_token_t){.kind = PTX_TOKEN_END, .text = "", .line = parser->token.line};
}

void ptx_parser_next(ptx_parser_t *parser) {
  if (parser->failed) return;
  parser->token = ptx_lex(&parser->lexer);
  if (parser->token.kind == PTX_TOKEN_BAD) ptx_parser_fail(parser, "this is no number");
}

bool ptx_parser_is(const ptx_parser_t *parser, char punct) {
  return parser->token.kind == PTX_TOKEN_PUNCT && parser->token.punct == punct;
}

bool ptx_parser_is_word(const ptx_parser_t *parser, const char *word) {
  return parser->token.kind == PTX_TOKEN_WORD && strlen(word) == parser->token.len &&
         memcmp(word, parser->token.text, parser->token.len) == 0;
}

bool ptx_parser_accept(ptx_parser_t *parser, char punct) {
  if (!ptx_parser_is(parser, punct)) return false;
  ptx_parser_next(parser);
  return true;
}

bool ptx_parser_accept_word(ptx_parser_t *parser, const char *word) {
  if (!ptx_parser_is_word(parser, word)) return false;
  ptx_parser_next(parser);
  return true;
}

void ptx_parser_expect(ptx_parser_t *parser, char punct) {
  if (!ptx_parser_accept(parser, punct)) ptx_parser_fail(parser, "expected '%c'", punct);
}

const char *ptx_parser_word(ptx_parser_t *parser) {
  if (parser->token.kind != PTX_TOKEN_WORD) {
    ptx_parser_fail(parser, "expected a name");
    return "";
  }
  const char *word =
      ptc_arena_strndup(&parser->module->arena, parser->token.text, parser->token.len);
  ptx_parser_next(parser);
  return word;
}

int64_t ptx_parser_number(ptx_parser_t *parser) {
  const bool negative = ptx_parser_accept(parser, '-');
  if (parser->token.kind != PTX_TOKEN_NUMBER) ptx_parser_fail(parser, "expected a number");
  const uint64_t value = parser->token.number;
  ptx_parser_next(parser);
  return (int64_t)(negative ? 0 - value : value);
}

void ptx_parser_skip_line(ptx_parser_t *parser) {
  const int32_t line = parser->token.line;
  while (parser->token.kind != PTX_TOKEN_END && parser->token.line == line) ptx_parser_next(parser);
}

int32_t ptx_type_bytes(const char *type) {
  static const struct {
    const char *name;
    int32_t bytes;
  } types[] = {{"b8", 1},  {"u8", 1},  {"s8", 1},  {"b16", 2},  {"u16", 2},   {"s16", 2},
               {"f16", 2}, {"b32", 4}, {"u32", 4}, {"s32", 4},  {"f32", 4},   {"b64", 8},
               {"u64", 8}, {"s64", 8}, {"f64", 8}, {"bf16", 2}, {"f16x2", 4}, {"bf16x2", 4}};
  if (*type == '.') ++type;
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i)
    if (strcmp(types[i].name, type) == 0) return types[i].bytes;
  return 0;
}

ptx_space_t ptx_parser_space(const ptx_parser_t *parser) {
  static const char *const names[] = {"", ".param", ".local", ".shared", ".global", ".const"};
  for (int i = PTX_SPACE_PARAM; i <= PTX_SPACE_CONST; ++i)
    if (ptx_parser_is_word(parser, names[i])) return (ptx_space_t)i;
  return PTX_SPACE_NONE;
}

// `= {1, 2}` or `= 1` for elements of |size| bytes.
static const unsigned char *read_init(ptx_parser_t *parser, int64_t bytes, int32_t size) {
  unsigned char *init = ptc_arena_alloc(&parser->module->arena, (size_t)bytes + 8);
  const bool list = ptx_parser_accept(parser, '{');
  int64_t at = 0;
  do {
    if (parser->token.kind == PTX_TOKEN_NUMBER || ptx_parser_is(parser, '-')) {
      const int64_t value = ptx_parser_number(parser);
      if (at + size > bytes) ptx_parser_fail(parser, "more values than elements");
      if (!parser->failed) memcpy(init + at, &value, (size_t)size);
      at += size;
    } else {
      ptx_parser_fail(parser, "only numbers are supported as initial values");
    }
  } while (list && ptx_parser_accept(parser, ',') && !parser->failed);
  if (list) ptx_parser_expect(parser, '}');
  return init;
}

const ptx_variable_t *ptx_parser_variable(ptx_parser_t *parser, ptx_space_t space, bool is_extern) {
  ptx_variable_t *variable = PTC_ARENA_NEW(&parser->module->arena, ptx_variable_t);
  variable->space = space;
  variable->is_extern = is_extern;
  int32_t size = 0, lanes = 1;
  while (!parser->failed && parser->token.kind == PTX_TOKEN_WORD && parser->token.text[0] == '.') {
    const char *word = ptx_parser_word(parser);
    if (strcmp(word, ".align") == 0)
      variable->align = ptx_parser_number(parser);
    else if (strcmp(word, ".v2") == 0 || strcmp(word, ".v4") == 0)
      lanes = word[2] - '0';
    else if (strcmp(word, ".ptr") == 0 || strcmp(word, ".global") == 0)
      continue;  // attributes of a parameter
    else if (ptx_type_bytes(word))
      size = ptx_type_bytes(word);
    else
      ptx_parser_fail(parser, "unknown type \"%s\"", word);
  }
  if (!size) ptx_parser_fail(parser, "expected a type");
  variable->name = ptx_parser_word(parser);
  variable->bytes = (int64_t)size * lanes;
  if (!variable->align) variable->align = variable->bytes ? variable->bytes : 1;
  while (ptx_parser_accept(parser, '[')) {
    variable->bytes *= ptx_parser_is(parser, ']') ? 0 : ptx_parser_number(parser);
    ptx_parser_expect(parser, ']');
  }
  if (variable->bytes < 0 || variable->bytes > (int64_t)1 << 40)
    ptx_parser_fail(parser, "a variable of %" PRId64 " bytes", variable->bytes);
  if (ptx_parser_accept(parser, '=')) variable->init = read_init(parser, variable->bytes, size);
  return variable;
}

static const ptx_variable_t **read_params(ptx_parser_t *parser, int32_t *out_count) {
  PTC_VEC(const ptx_variable_t *) list = {0};
  ptx_parser_expect(parser, '(');
  while (!parser->failed && !ptx_parser_is(parser, ')')) {
    if (ptx_parser_space(parser) != PTX_SPACE_PARAM)
      ptx_parser_fail(parser, "only parameters in .param are supported");
    ptx_parser_next(parser);
    const ptx_variable_t *variable = ptx_parser_variable(parser, PTX_SPACE_PARAM, false);
    PTC_VEC_PUSH(&list, variable);
    if (!ptx_parser_accept(parser, ',')) break;
  }
  ptx_parser_expect(parser, ')');
  const ptx_variable_t **params =
      PTC_ARENA_ARRAY(&parser->module->arena, const ptx_variable_t *, list.len + 1);
  if (list.len) memcpy(params, list.data, sizeof *params * (size_t)list.len);
  *out_count = (int32_t)list.len;
  PTC_VEC_FREE(&list);
  return params;
}

static void read_function(ptx_parser_t *parser, bool is_entry) {
  ptx_func_t *func = PTC_ARENA_NEW(&parser->module->arena, ptx_func_t);
  func->is_entry = is_entry;
  if (!is_entry && ptx_parser_is(parser, '('))
    func->results = read_params(parser, &func->num_results);
  func->name = ptx_parser_word(parser);
  if (ptx_parser_is(parser, '(')) func->params = read_params(parser, &func->num_params);
  PTC_VEC_PUSH(&parser->module->funcs, func);
  while (parser->token.kind == PTX_TOKEN_WORD && parser->token.text[0] == '.') {
    if (ptx_parser_accept_word(parser, ".maxntid")) {
      func->max_threads = 1;
      do func->max_threads *= (int32_t)ptx_parser_number(parser);
      while (ptx_parser_accept(parser, ','));
    } else if (ptx_parser_is_word(parser, ".minnctapersm") ||
               ptx_parser_is_word(parser, ".noreturn") || ptx_parser_is_word(parser, ".maxnreg") ||
               ptx_parser_is_word(parser, ".pragma")) {
      ptx_parser_skip_line(parser);
    } else {
      ptx_parser_fail(parser, "this directive is not supported");
    }
  }
  if (ptx_parser_accept(parser, ';')) return;
  ptx_parser_expect(parser, '{');
  func->has_body = true;
  parser->func = func;
  ptx_parser_body(parser);
  parser->func = NULL;
}

static void skip_section(ptx_parser_t *parser) {
  while (parser->token.kind != PTX_TOKEN_END && !ptx_parser_is(parser, '{'))
    ptx_parser_next(parser);
  while (parser->token.kind != PTX_TOKEN_END && !ptx_parser_is(parser, '}'))
    ptx_parser_next(parser);
  ptx_parser_expect(parser, '}');
}

static void read_file(ptx_parser_t *parser) {
  const int64_t number = ptx_parser_number(parser);
  if (number < 0 || number > 10000 || parser->token.kind != PTX_TOKEN_STRING) {
    ptx_parser_fail(parser, "expected the number and the name of a file");
    return;
  }
  const char *name =
      ptc_arena_strndup(&parser->module->arena, parser->token.text, parser->token.len);
  while (parser->module->files.len <= number) PTC_VEC_PUSH(&parser->module->files, NULL);
  parser->module->files.data[number] = name;
  ptx_parser_skip_line(parser);
}

static void read_item(ptx_parser_t *parser) {
  bool is_extern = false;
  for (;; ptx_parser_next(parser)) {
    if (ptx_parser_is_word(parser, ".extern"))
      is_extern = true;
    else if (!ptx_parser_is_word(parser, ".visible") && !ptx_parser_is_word(parser, ".weak") &&
             !ptx_parser_is_word(parser, ".common"))
      break;
  }
  const ptx_space_t space = ptx_parser_space(parser);
  if (ptx_parser_is_word(parser, ".version") || ptx_parser_is_word(parser, ".target") ||
      ptx_parser_is_word(parser, ".address_size")) {
    ptx_parser_skip_line(parser);
  } else if (ptx_parser_accept_word(parser, ".entry")) {
    read_function(parser, true);
  } else if (ptx_parser_accept_word(parser, ".func")) {
    read_function(parser, false);
  } else if (ptx_parser_accept_word(parser, ".file")) {
    read_file(parser);
  } else if (ptx_parser_accept_word(parser, ".section")) {
    skip_section(parser);
  } else if (ptx_parser_is_word(parser, ".pragma")) {
    ptx_parser_skip_line(parser);
  } else if (space >= PTX_SPACE_SHARED) {
    ptx_parser_next(parser);
    const ptx_variable_t *variable = ptx_parser_variable(parser, space, is_extern);
    PTC_VEC_PUSH(&parser->module->globals, variable);
    PTC_VEC_PUSH(&parser->variables, variable);
    ptx_parser_expect(parser, ';');
  } else {
    ptx_parser_fail(parser, "this is no PTX that is supported");
  }
}

ptc_status_t ptx_parse(ptc_diag_t *diag, const char *name, const char *text,
                       ptx_module_t *out_module) {
  *out_module = (ptx_module_t){0};
  ptc_arena_init(&out_module->arena);
  out_module->name = ptc_arena_strdup(&out_module->arena, name);
  ptx_parser_t parser = {.diag = diag, .module = out_module, .lexer = {text, 1}};
  ptx_parser_next(&parser);
  while (parser.token.kind != PTX_TOKEN_END) read_item(&parser);
  PTC_VEC_FREE(&parser.regs);
  PTC_VEC_FREE(&parser.variables);
  PTC_VEC_FREE(&parser.parts);
  return parser.failed ? PTC_INVALID_INPUT : PTC_OK;
}

void ptx_module_deinit(ptx_module_t *module) {
  for (int64_t i = 0; i < module->funcs.len; ++i) {
    PTC_VEC_FREE(&module->funcs.data[i]->regs);
    PTC_VEC_FREE(&module->funcs.data[i]->insts);
    PTC_VEC_FREE(&module->funcs.data[i]->labels);
  }
  PTC_VEC_FREE(&module->funcs);
  PTC_VEC_FREE(&module->globals);
  PTC_VEC_FREE(&module->files);
  ptc_arena_deinit(&module->arena);
}

ptx_func_t *ptx_module_find(const ptx_module_t *module, const char *name) {
  for (int64_t i = 0; i < module->funcs.len; ++i)
    if (module->funcs.data[i]->has_body && strcmp(module->funcs.data[i]->name, name) == 0)
      return module->funcs.data[i];
  return NULL;
}
