#include "ir/lexer.h"

#include <string.h>

void ptc_lexer_init(ptc_lexer_t *lexer, ptc_diag_t *diag, ptc_arena_t *arena, const char *file,
                    const char *text, size_t len) {
  *lexer = (ptc_lexer_t){.diag = diag, .arena = arena, .file = file, .cursor = text,
                         .end = text + len, .line_start = text, .line = 1, .at_line_start = true};
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_name_char(char c) { return ptc_lex_is_name_start(c) || is_digit(c); }
static bool is_path_char(char c) { return is_name_char(c) || c == '.'; }

static void skip_blank(ptc_lexer_t *lexer) {
  while (lexer->cursor < lexer->end) {
    char c = *lexer->cursor;
    if (c == '\n') {
      lexer->cursor++;
      lexer->line++;
      lexer->line_start = lexer->cursor;
      lexer->at_line_start = true;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      lexer->cursor++;
    } else if (c == '#') {
      while (lexer->cursor < lexer->end && *lexer->cursor != '\n') lexer->cursor++;
    } else {
      return;
    }
  }
}

static int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// Reads from the opening quote on; NULL after an error.
static const char *lex_string(ptc_lexer_t *lexer, ptc_loc_t loc) {
  const char *p = lexer->cursor + 1;
  size_t capacity = 0;
  for (const char *q = p; q < lexer->end && *q != '\n'; q++) capacity++;
  char *text = ptc_arena_alloc(lexer->arena, capacity + 1);
  size_t len = 0;
  while (p < lexer->end && *p != '"' && *p != '\n') {
    char c = *p++;
    if (c == '\0') break;
    if (c == '\\' && p < lexer->end) {
      c = *p++;
      if (c == 'n') c = '\n';
      else if (c == 't') c = '\t';
      else if (c == 'x' && lexer->end - p >= 2 && hex_digit(p[0]) >= 0 && hex_digit(p[1]) >= 0) {
        c = (char)(hex_digit(p[0]) * 16 + hex_digit(p[1]));
        p += 2;
      } else if (c != '"' && c != '\\') {
        c = '\0';
      }
      if (c == '\0') break;
    }
    text[len++] = c;
  }
  bool closed = p < lexer->end && *p == '"';
  if (closed) {
    lexer->cursor = p + 1;
    return text;
  }
  (void)ptc_error(lexer->diag, loc, PTC_INVALID_INPUT, "ir-string",
                  "this string has no closing quote on its line, or a bad escape");
  while (lexer->cursor < lexer->end && *lexer->cursor != '\n') lexer->cursor++;
  return NULL;
}

static void lex_number(ptc_lexer_t *lexer, ptc_token_t *token) {
  const char *start = lexer->cursor;
  if (*lexer->cursor == '-') lexer->cursor++;
  token->kind = PTC_TOKEN_INT;
  if (lexer->end - lexer->cursor >= 3 && strncmp(lexer->cursor, "inf", 3) == 0) {
    lexer->cursor += 3;
    token->kind = PTC_TOKEN_FLOAT;
  }
  while (lexer->cursor < lexer->end && is_digit(*lexer->cursor)) lexer->cursor++;
  if (lexer->cursor < lexer->end && *lexer->cursor == '.') {
    token->kind = PTC_TOKEN_FLOAT;
    lexer->cursor++;
    while (lexer->cursor < lexer->end && is_digit(*lexer->cursor)) lexer->cursor++;
  }
  if (lexer->cursor < lexer->end && (*lexer->cursor == 'e' || *lexer->cursor == 'E')) {
    const char *p = lexer->cursor + 1;
    if (p < lexer->end && (*p == '+' || *p == '-')) p++;
    if (p < lexer->end && is_digit(*p)) {
      token->kind = PTC_TOKEN_FLOAT;
      while (p < lexer->end && is_digit(*p)) p++;
      lexer->cursor = p;
    }
  }
  token->text = ptc_arena_strndup(lexer->arena, start, (size_t)(lexer->cursor - start));
}

static void lex_name(ptc_lexer_t *lexer, ptc_token_t *token, bool (*allowed)(char)) {
  const char *start = lexer->cursor;
  while (lexer->cursor < lexer->end && allowed(*lexer->cursor)) lexer->cursor++;
  token->text = ptc_arena_strndup(lexer->arena, start, (size_t)(lexer->cursor - start));
}

ptc_token_t ptc_lexer_next(ptc_lexer_t *lexer) {
  skip_blank(lexer);
  ptc_token_t token = {.starts_line = lexer->at_line_start};
  token.loc = (ptc_loc_t){lexer->file, lexer->line,
                          (int32_t)(lexer->cursor - lexer->line_start) + 1};
  lexer->at_line_start = false;
  if (lexer->cursor == lexer->end) return token;
  char c = *lexer->cursor;
  char next = lexer->cursor + 1 < lexer->end ? lexer->cursor[1] : '\0';
  if (ptc_lex_is_name_start(c)) {
    token.kind = PTC_TOKEN_NAME;
    lex_name(lexer, &token, is_name_char);
  } else if (is_digit(c) || (c == '-' && (is_digit(next) || next == 'i'))) {
    lex_number(lexer, &token);
  } else if ((c == '%' || c == '@') && is_path_char(next)) {
    token.kind = c == '%' ? PTC_TOKEN_VALUE : PTC_TOKEN_GLOBAL;
    lexer->cursor++;
    lex_name(lexer, &token, is_path_char);
  } else if (c == '@' && next == '"') {
    lexer->cursor++;
    token.text = lex_string(lexer, token.loc);
    token.kind = token.text ? PTC_TOKEN_GLOBAL : PTC_TOKEN_BAD;
  } else if (c == '"') {
    token.text = lex_string(lexer, token.loc);
    token.kind = token.text ? PTC_TOKEN_STRING : PTC_TOKEN_BAD;
  } else if (c != '\0' && strchr("{}()[]=,:", c)) {
    token.kind = PTC_TOKEN_PUNCT;
    token.punct = c;
    lexer->cursor++;
  } else {
    token.kind = PTC_TOKEN_BAD;
    unsigned char byte = (unsigned char)c;
    if (byte > 0x20 && byte < 0x7f)
      (void)ptc_error(lexer->diag, token.loc, PTC_INVALID_INPUT, "ir-byte",
                      "unexpected character '%c'", c);
    else
      (void)ptc_error(lexer->diag, token.loc, PTC_INVALID_INPUT, "ir-byte",
                      "unexpected byte 0x%02x", byte);
    lexer->cursor++;
  }
  return token;
}
