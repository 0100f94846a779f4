// Private to ir/printer.c, ir/lexer.c and ir/parser*.c: spelling of names in .ptir.
#ifndef PTC_IR_TEXT_IMPL_H_
#define PTC_IR_TEXT_IMPL_H_

#include <stdbool.h>
#include <stddef.h>

// Letters, digits, `_` and `.`: what a value or a path may hold without quotes.
static inline bool ptc_is_path_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.';
}

// Where the suffix `.12` that makes a value's name unique begins in |text|; |len| if it has none.
static inline size_t ptc_name_suffix(const char *text, size_t len) {
  size_t at = len;
  while (at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9') at--;
  return at < len && at > 0 && text[at - 1] == '.' ? at - 1 : len;
}

#endif  // PTC_IR_TEXT_IMPL_H_
