#include "runtime/gpusim/ptx_lexer.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void skip_blank(ptx_lexer_t *lexer) {
  for (;;) {
    const char c = *lexer->at;
    if (c == '\n') {
      ++lexer->line;
      ++lexer->at;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++lexer->at;
    } else if (c == '/' && lexer->at[1] == '/') {
      while (*lexer->at && *lexer->at != '\n') ++lexer->at;
    } else if (c == '/' && lexer->at[1] == '*') {
      lexer->at += 2;
      for (; *lexer->at && !(lexer->at[0] == '*' && lexer->at[1] == '/'); ++lexer->at)
        lexer->line += *lexer->at == '\n';
      if (*lexer->at) lexer->at += 2;
    } else {
      return;
    }
  }
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$'; }

// A word goes on over dots, and over the double colon of "shared::cta"; never over a label's colon.
static void lex_word(ptx_lexer_t *lexer, ptx_token_t *token) {
  token->kind = PTX_TOKEN_WORD;
  ++lexer->at;
  for (;;) {
    if (is_word(*lexer->at))
      ++lexer->at;
    else if (*lexer->at == '.' && is_word(lexer->at[1]))
      lexer->at += 2;
    else if (lexer->at[0] == ':' && lexer->at[1] == ':' && is_word(lexer->at[2]))
      lexer->at += 3;
    else
      break;
  }
}

static void lex_number(ptx_lexer_t *lexer, ptx_token_t *token) {
  token->kind = PTX_TOKEN_NUMBER;
  const char *at = lexer->at;
  char *end;
  if (at[0] == '0' && (at[1] == 'f' || at[1] == 'F' || at[1] == 'd' || at[1] == 'D')) {
    token->float_kind = (char)tolower((unsigned char)at[1]);
    token->number = strtoull(at + 2, &end, 16);
    if (end - at != (token->float_kind == 'f' ? 10 : 18)) token->kind = PTX_TOKEN_BAD;
  } else if (at[0] == '0' && (at[1] == 'b' || at[1] == 'B')) {
    token->number = strtoull(at + 2, &end, 2);
  } else {
    token->number = strtoull(at, &end, 0);
    if (*end == '.' || *end == 'e') {  // a decimal constant: a double
      const double value = strtod(at, &end);
      memcpy(&token->number, &value, sizeof value);
      token->float_kind = 'd';
    }
  }
  if (*end == 'U') ++end;
  lexer->at = end > at ? end : at + 1;
}

ptx_token_t ptx_lex(ptx_lexer_t *lexer) {
  skip_blank(lexer);
  ptx_token_t token = {.kind = PTX_TOKEN_PUNCT, .text = lexer->at, .line = lexer->line};
  const char c = *lexer->at;
  if (!c) {
    token.kind = PTX_TOKEN_END;
  } else if (c == '"') {
    token.kind = PTX_TOKEN_STRING;
    token.text = ++lexer->at;
    while (*lexer->at && *lexer->at != '"' && *lexer->at != '\n') ++lexer->at;
    token.len = (size_t)(lexer->at - token.text);
    if (*lexer->at == '"') ++lexer->at;
    return token;
  } else if (isdigit((unsigned char)c)) {
    lex_number(lexer, &token);
  } else if (isalpha((unsigned char)c) || c == '_' || c == '$' || c == '%' ||
             (c == '.' && is_word(lexer->at[1]))) {
    lex_word(lexer, &token);
  } else {
    token.punct = c;
    ++lexer->at;
  }
  token.len = (size_t)(lexer->at - token.text);
  return token;
}
