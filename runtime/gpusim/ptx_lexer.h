// Tokens of PTX.
#ifndef PTC_RUNTIME_GPUSIM_PTX_LEXER_H_
#define PTC_RUNTIME_GPUSIM_PTX_LEXER_H_

#include <stddef.h>
#include <stdint.h>

typedef enum ptx_token_kind_e {
  PTX_TOKEN_END,
  PTX_TOKEN_WORD,  // identifiers, opcodes and directives with their dots: "ld.global.u32", "%tid.x", ".reg"
  PTX_TOKEN_NUMBER,  // |number|, and |float_kind| for 0f and 0d
  PTX_TOKEN_STRING,
  PTX_TOKEN_PUNCT,  // |punct|
  PTX_TOKEN_BAD,
} ptx_token_kind_t;

typedef struct ptx_token_s {
  ptx_token_kind_t kind;
  const char *text;  // in the source, not terminated
  size_t len;
  uint64_t number;
  char float_kind, punct;
  int32_t line;
} ptx_token_t;

typedef struct ptx_lexer_s {
  const char *at;
  int32_t line;
} ptx_lexer_t;

// The next token. White space and comments are skipped.
ptx_token_t ptx_lex(ptx_lexer_t *lexer);

#endif  // PTC_RUNTIME_GPUSIM_PTX_LEXER_H_
