// Bodies of PTX functions: scopes, registers, labels, instructions.
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/gpusim/ptx_parser_impl.h"

// --- registers

static int32_t add_reg(ptx_parser_t *parser, ptx_width_t width, const char *special) {
  PTC_VEC_PUSH(&parser->func->regs, ((ptx_reg_t){width, special}));
  return (int32_t)parser->func->regs.len - 1;
}

static void read_regs(ptx_parser_t *parser) {
  const char *type = ptx_parser_word(parser);
  const int32_t bytes = ptx_type_bytes(type);
  ptx_width_t width = PTX_WIDTH_PRED;
  if (bytes == 1 || bytes == 2)
    width = PTX_WIDTH_16;
  else if (bytes == 4)
    width = PTX_WIDTH_32;
  else if (bytes == 8)
    width = PTX_WIDTH_64;
  else if (strcmp(type, ".pred") != 0)
    ptx_parser_fail(parser, "registers of type \"%s\" are not supported", type);
  do {
    ptx_reg_decl_t decl = {.name = ptx_parser_word(parser)};
    decl.len = strlen(decl.name);
    decl.first = (int32_t)parser->func->regs.len;
    if (ptx_parser_accept(parser, '<')) {
      decl.count = (int32_t)ptx_parser_number(parser);
      if (decl.count < 1 || decl.count > 1 << 20) ptx_parser_fail(parser, "so many registers");
      ptx_parser_expect(parser, '>');
    }
    for (int32_t i = 0; i < (decl.count ? decl.count : 1) && !parser->failed; ++i)
      add_reg(parser, width, NULL);
    PTC_VEC_PUSH(&parser->regs, decl);
  } while (ptx_parser_accept(parser, ','));
  ptx_parser_expect(parser, ';');
}

// The number after a decl's name in |text|; -1 if it is none below |count|.
static int32_t suffix(const char *text, size_t len, int32_t count) {
  int64_t number = 0;
  if (!len || len > 7) return -1;
  for (size_t i = 0; i < len; ++i) {
    if (!isdigit((unsigned char)text[i])) return -1;
    number = number * 10 + (text[i] - '0');
  }
  return number < count ? (int32_t)number : -1;
}

static int32_t find_reg(ptx_parser_t *parser, const char *text, size_t len) {
  for (int64_t i = parser->regs.len - 1; i >= 0; --i) {
    const ptx_reg_decl_t *decl = &parser->regs.data[i];
    if (decl->len > len || memcmp(decl->name, text, decl->len) != 0) continue;
    if (!decl->count && decl->len == len) return decl->first;
    const int32_t at = decl->count ? suffix(text + decl->len, len - decl->len, decl->count) : -1;
    if (at >= 0) return decl->first + at;
  }
  return -1;
}

// Special registers are ordinary ones that hold their value from the start.
static const struct {
  const char *name;
  ptx_width_t width;
} special_names[] = {
    {"%tid.x", PTX_WIDTH_32},       {"%tid.y", PTX_WIDTH_32},       {"%tid.z", PTX_WIDTH_32},
    {"%ntid.x", PTX_WIDTH_32},      {"%ntid.y", PTX_WIDTH_32},      {"%ntid.z", PTX_WIDTH_32},
    {"%ctaid.x", PTX_WIDTH_32},     {"%ctaid.y", PTX_WIDTH_32},     {"%ctaid.z", PTX_WIDTH_32},
    {"%nctaid.x", PTX_WIDTH_32},    {"%nctaid.y", PTX_WIDTH_32},    {"%nctaid.z", PTX_WIDTH_32},
    {"%laneid", PTX_WIDTH_32},      {"%warpid", PTX_WIDTH_32},      {"%nwarpid", PTX_WIDTH_32},
    {"%lanemask_eq", PTX_WIDTH_32}, {"%lanemask_lt", PTX_WIDTH_32}, {"%lanemask_le", PTX_WIDTH_32},
    {"%lanemask_gt", PTX_WIDTH_32}, {"%lanemask_ge", PTX_WIDTH_32}};

static int32_t find_special(ptx_parser_t *parser, const char *text, size_t len) {
  for (size_t i = 0; i < sizeof special_names / sizeof *special_names; ++i) {
    const char *name = special_names[i].name;
    if (strlen(name) != len || memcmp(name, text, len) != 0) continue;
    for (int64_t r = 0; r < parser->func->regs.len; ++r)
      if (parser->func->regs.data[r].special == name) return (int32_t)r;
    return add_reg(parser, special_names[i].width, name);
  }
  return -1;
}

// --- operands

static const ptx_variable_t *find_variable(const ptx_parser_t *parser, const char *name) {
  for (int64_t i = parser->variables.len - 1; i >= 0; --i)
    if (strcmp(parser->variables.data[i]->name, name) == 0) return parser->variables.data[i];
  return NULL;
}

// A register or a symbol.
static ptx_operand_t read_name(ptx_parser_t *parser) {
  ptx_operand_t operand = {.kind = PTX_REG, .reg = -1};
  const char *text = parser->token.text;
  const size_t len = parser->token.len;
  if (ptx_parser_accept_word(parser, "_")) return operand;
  operand.reg = find_reg(parser, text, len);
  if (operand.reg < 0 && text[0] == '%') operand.reg = find_special(parser, text, len);
  if (operand.reg >= 0) {
    ptx_parser_next(parser);
    return operand;
  }
  if (text[0] == '%') {
    ptx_parser_fail(parser, "the register is neither declared nor a special one that is supported");
    return operand;
  }
  operand.kind = PTX_SYMBOL;
  operand.symbol = ptx_parser_word(parser);
  operand.variable = find_variable(parser, operand.symbol);
  return operand;
}

static ptx_operand_t read_address(ptx_parser_t *parser) {
  ptx_operand_t operand = {.kind = PTX_ADDRESS, .reg = -1};
  if (parser->token.kind == PTX_TOKEN_WORD) {
    const ptx_operand_t base = read_name(parser);
    operand.reg = base.reg;
    operand.symbol = base.symbol;
    operand.variable = base.variable;
    if (base.kind == PTX_SYMBOL) {
      operand.reg = -1;
      if (!base.variable) ptx_parser_fail(parser, "there is no variable \"%s\"", base.symbol);
    }
    if (ptx_parser_accept(parser, '+'))
      operand.imm = (uint64_t)ptx_parser_number(parser);
    else if (ptx_parser_is(parser, '-'))
      operand.imm = (uint64_t)ptx_parser_number(parser);
  } else {
    operand.imm = (uint64_t)ptx_parser_number(parser);
  }
  ptx_parser_expect(parser, ']');
  return operand;
}

static ptx_operand_t read_operand(ptx_parser_t *parser);

static ptx_operand_t make_list(ptx_parser_t *parser, const ptx_operand_t *elements, int32_t count) {
  ptx_operand_t *copy = PTC_ARENA_ARRAY(&parser->module->arena, ptx_operand_t, count + 1);
  if (count) memcpy(copy, elements, sizeof *copy * (size_t)count);
  return (ptx_operand_t){.kind = PTX_LIST, .reg = -1, .elements = copy, .num_elements = count};
}

static ptx_operand_t read_list(ptx_parser_t *parser, char close) {
  ptx_operand_t elements[PTX_MAX_ELEMENTS];
  int32_t count = 0;
  while (!parser->failed && !ptx_parser_is(parser, close)) {
    if (count == PTX_MAX_ELEMENTS) {
      ptx_parser_fail(parser, "a list this long is not supported");
      break;
    }
    elements[count++] = read_operand(parser);
    if (!ptx_parser_accept(parser, ',')) break;
  }
  ptx_parser_expect(parser, close);
  return make_list(parser, elements, count);
}

static ptx_operand_t read_operand(ptx_parser_t *parser) {
  if (ptx_parser_accept(parser, '{')) return read_list(parser, '}');
  if (ptx_parser_accept(parser, '(')) return read_list(parser, ')');
  if (ptx_parser_accept(parser, '[')) return read_address(parser);
  if (ptx_parser_accept(parser, '!')) {
    ptx_operand_t operand = read_name(parser);
    operand.negated = true;
    return operand;
  }
  if (parser->token.kind == PTX_TOKEN_WORD) {
    ptx_operand_t first = read_name(parser);
    if (!ptx_parser_accept(parser, '|')) return first;
    const ptx_operand_t both[2] = {first, read_name(parser)};
    return make_list(parser, both, 2);
  }
  ptx_operand_t operand = {.kind = PTX_IMM, .reg = -1};
  operand.float_kind = parser->token.float_kind;
  operand.imm = (uint64_t)ptx_parser_number(parser);
  return operand;
}

// --- instructions

static void split_opcode(ptx_parser_t *parser, ptx_inst_t *inst) {
  char *copy = ptc_arena_strdup(&parser->module->arena, inst->opcode);
  for (char *at = copy; at;) {
    if (inst->num_parts == PTX_MAX_PARTS) {
      ptx_parser_fail(parser, "an opcode of so many parts");
      return;
    }
    inst->parts[inst->num_parts++] = at;
    at = strchr(at, '.');
    if (at) *at++ = '\0';
  }
}

static void read_instruction(ptx_parser_t *parser) {
  ptx_inst_t inst = {.guard = -1,
                     .target = -1,
                     .line = parser->token.line,
                     .cuda_file = parser->cuda_file,
                     .cuda_line = parser->cuda_line};
  if (ptx_parser_accept(parser, '@')) {
    inst.guard_negated = ptx_parser_accept(parser, '!');
    const ptx_operand_t guard = read_name(parser);
    if (guard.kind != PTX_REG || guard.reg < 0 ||
        parser->func->regs.data[guard.reg].width != PTX_WIDTH_PRED)
      ptx_parser_fail(parser, "the guard is no predicate");
    inst.guard = guard.reg;
  }
  inst.line = parser->token.line;
  inst.opcode = ptx_parser_word(parser);
  split_opcode(parser, &inst);
  while (!parser->failed && !ptx_parser_is(parser, ';')) {
    if (inst.num_operands == PTX_MAX_OPERANDS) {
      ptx_parser_fail(parser, "an instruction of so many operands");
      break;
    }
    inst.operands[inst.num_operands++] = read_operand(parser);
    if (!ptx_parser_accept(parser, ',')) break;
  }
  ptx_parser_expect(parser, ';');
  if (!parser->failed) PTC_VEC_PUSH(&parser->func->insts, inst);
}

// `.loc file line column [, function_name label, inlined_at file line column]`: the innermost place counts.
static void read_loc(ptx_parser_t *parser) {
  parser->cuda_file = (int32_t)ptx_parser_number(parser);
  parser->cuda_line = (int32_t)ptx_parser_number(parser);
  ptx_parser_skip_line(parser);
}

static void read_label(ptx_parser_t *parser, const char *name) {
  for (int64_t i = 0; i < parser->func->labels.len; ++i)
    if (strcmp(parser->func->labels.data[i].name, name) == 0)
      ptx_parser_fail(parser, "the label \"%s\" is there twice", name);
  PTC_VEC_PUSH(&parser->func->labels, ((ptx_label_t){name, (int32_t)parser->func->insts.len}));
}

static bool at_label(const ptx_parser_t *parser) {
  return parser->token.kind == PTX_TOKEN_WORD && parser->lexer.at[0] == ':' &&
         parser->lexer.at[1] != ':';
}

static void read_statement(ptx_parser_t *parser) {
  const ptx_space_t space = ptx_parser_space(parser);
  if (ptx_parser_accept_word(parser, ".reg")) {
    read_regs(parser);
  } else if (space == PTX_SPACE_LOCAL || space == PTX_SPACE_SHARED || space == PTX_SPACE_PARAM) {
    ptx_parser_next(parser);
    const ptx_variable_t *variable = ptx_parser_variable(parser, space, false);
    PTC_VEC_PUSH(&parser->variables, variable);
    ptx_parser_expect(parser, ';');
  } else if (ptx_parser_accept_word(parser, ".loc")) {
    read_loc(parser);
  } else if (ptx_parser_accept_word(parser, ".pragma")) {
    ptx_parser_next(parser);
    ptx_parser_expect(parser, ';');
  } else if (at_label(parser)) {
    const char *name = ptx_parser_word(parser);
    ptx_parser_expect(parser, ':');
    read_label(parser, name);
  } else if (!ptx_parser_accept(parser, ';')) {
    read_instruction(parser);
  }
}

static void find_targets(ptx_parser_t *parser) {
  ptx_func_t *func = parser->func;
  for (int64_t i = 0; i < func->insts.len && !parser->failed; ++i) {
    ptx_inst_t *inst = &func->insts.data[i];
    if (strcmp(inst->parts[0], "bra") != 0) continue;
    const char *name = inst->num_operands == 1 ? inst->operands[0].symbol : NULL;
    for (int64_t l = 0; name && l < func->labels.len && inst->target < 0; ++l)
      if (strcmp(func->labels.data[l].name, name) == 0) inst->target = func->labels.data[l].at;
    if (inst->target < 0)
      ptx_parser_fail(parser, "line %" PRId32 " branches to no label", inst->line);
  }
}

void ptx_parser_body(ptx_parser_t *parser) {
  typedef struct scope_s {
    int64_t regs, variables;
  } scope_t;
  PTC_VEC(scope_t) scopes = {0};
  const scope_t outer = {parser->regs.len, parser->variables.len};
  PTC_VEC_PUSH(&scopes, outer);
  for (int32_t i = 0; i < parser->func->num_params; ++i)
    PTC_VEC_PUSH(&parser->variables, parser->func->params[i]);
  for (int32_t i = 0; i < parser->func->num_results; ++i)
    PTC_VEC_PUSH(&parser->variables, parser->func->results[i]);
  while (scopes.len && !parser->failed) {
    if (parser->token.kind == PTX_TOKEN_END) {
      ptx_parser_fail(parser, "the body of \"%s\" does not end", parser->func->name);
    } else if (ptx_parser_accept(parser, '{')) {
      const scope_t scope = {parser->regs.len, parser->variables.len};
      PTC_VEC_PUSH(&scopes, scope);
    } else if (ptx_parser_accept(parser, '}')) {
      const scope_t scope = scopes.data[--scopes.len];
      parser->regs.len = scope.regs;
      parser->variables.len = scope.variables;
    } else {
      read_statement(parser);
    }
  }
  PTC_VEC_FREE(&scopes);
  parser->regs.len = outer.regs;
  parser->variables.len = outer.variables;
  find_targets(parser);
}
