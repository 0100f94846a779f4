// Private to the text form of the IR: tokens of .ptir.
#ifndef PTC_IR_LEXER_H_
#define PTC_IR_LEXER_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ir/base/diag.h"

typedef enum ptc_token_kind_e {
  PTC_TOKEN_END,
  PTC_TOKEN_NAME,    // func, einsum, true: text
  PTC_TOKEN_QUOTED,  // 'a b', a name that is never a keyword: text without quotes
  PTC_TOKEN_VALUE,   // %x, %x.1, %"a b".1, %12: text without %; hint: x, a b, NULL
  PTC_TOKEN_GLOBAL,  // @x or @"x": text without @
  PTC_TOKEN_INT,     // text
  PTC_TOKEN_FLOAT,   // text; also inf, -inf, nan, nan:0x7ff8000000000001 (all its bits)
  PTC_TOKEN_STRING,  // text without quotes, escapes resolved
  PTC_TOKEN_PUNCT,   // one of { } ( ) [ ] = , :
  PTC_TOKEN_BAD,     // reported
} ptc_token_kind_t;

typedef struct ptc_token_s {
  ptc_token_kind_t kind;
  char punct;
  const char *text;  // in the lexer's arena; NULL for PUNCT and END
  const char *hint;  // VALUE only
  ptc_loc_t loc;
  bool starts_line;
} ptc_token_t;

typedef struct ptc_lexer_s {
  ptc_diag_t *diag;
  ptc_arena_t *arena;
  const char *file, *cursor, *end, *line_start;
  int32_t line;
  bool at_line_start;
} ptc_lexer_t;

void ptc_lexer_init(ptc_lexer_t *lexer, ptc_diag_t *diag, ptc_arena_t *arena, const char *file,
                    const char *text, size_t len);
// The next token; a bad byte or string is reported once and gives PTC_TOKEN_BAD.
ptc_token_t ptc_lexer_next(ptc_lexer_t *lexer);

static inline bool ptc_lex_is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

#endif  // PTC_IR_LEXER_H_
