// The parser's state, shared by its two files: declarations (ptx_parser.c) and bodies (ptx_body.c).
#ifndef PTC_RUNTIME_GPUSIM_PTX_PARSER_IMPL_H_
#define PTC_RUNTIME_GPUSIM_PTX_PARSER_IMPL_H_

#include "runtime/gpusim/ptx.h"
#include "runtime/gpusim/ptx_lexer.h"

typedef struct ptx_reg_decl_s {
  const char *name;
  size_t len;
  int32_t first, count;  // count > 0: %r<count>, the names %r0..; 0: one register of that name
} ptx_reg_decl_t;

typedef struct ptx_parser_s {
  ptc_diag_t *diag;
  ptx_module_t *module;
  ptx_lexer_t lexer;
  ptx_token_t token;  // the one to be read next
  bool failed;
  ptx_func_t *func;
  PTC_VEC(ptx_reg_decl_t) regs;               // of the open scopes
  PTC_VEC(const ptx_variable_t *) variables;  // of the open scopes; those of the module are below
  PTC_VEC(const char *) parts;
  int32_t cuda_file, cuda_line;
} ptx_parser_t;

// Reports at the next token, once; the parser then sees only the end.
void ptx_parser_fail(ptx_parser_t *parser, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void ptx_parser_next(ptx_parser_t *parser);
bool ptx_parser_is(const ptx_parser_t *parser, char punct);
bool ptx_parser_is_word(const ptx_parser_t *parser, const char *word);
bool ptx_parser_accept(ptx_parser_t *parser, char punct);
bool ptx_parser_accept_word(ptx_parser_t *parser, const char *word);
void ptx_parser_expect(ptx_parser_t *parser, char punct);
// The next token, a word, as a string of the arena.
const char *ptx_parser_word(ptx_parser_t *parser);
int64_t ptx_parser_number(ptx_parser_t *parser);
void ptx_parser_skip_line(ptx_parser_t *parser);

// The rest of a variable after its space: `.align 8 .b8 name[16] = {..}`, without what ends it.
const ptx_variable_t *ptx_parser_variable(ptx_parser_t *parser, ptx_space_t space, bool is_extern);
// The space that a directive names; NONE for other words.
ptx_space_t ptx_parser_space(const ptx_parser_t *parser);
// Bytes of ".u32"; 0 for no type.
int32_t ptx_type_bytes(const char *type);
// From after `{` to `}` of the function |parser->func|.
void ptx_parser_body(ptx_parser_t *parser);

#endif  // PTC_RUNTIME_GPUSIM_PTX_PARSER_IMPL_H_
