#include "ir/lexer.h"

#include <string.h>

#include "ir/text_impl.h"

void ptc_lexer_init(ptc_lexer_t *lexer, ptc_diag_t *diag, ptc_arena_t *arena, const char *file,
                    const char *text, size_t len) {
  *lexer = (ptc_lexer_t){.diag = diag,
                         .arena = arena,
                         .file = file,
                         .cursor = text,
                         .end = text + len,
                         .line_start = text,
                         .line = 1,
                         .at_line_start = true};
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_name_char(char c) { return ptc_lex_is_name_start(c) || is_digit(c); }

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

// One character of a string, escapes resolved; '\0' for what is not allowed.
static char lex_char(ptc_lexer_t *lexer) {
  char c = *lexer->cursor++;
  if (c != '\\') return c == '\n' ? '\0' : c;
  if (lexer->cursor == lexer->end) return '\0';
  c = *lexer->cursor++;
  switch (c) {
    case 'n': return '\n';
    case 't': return '\t';
    case '"':
    case '\'':
    case '\\': return c;
    case 'x': break;
    default: return '\0';
  }
  if (lexer->end - lexer->cursor < 2) return '\0';
  int high = hex_digit(lexer->cursor[0]), low = hex_digit(lexer->cursor[1]);
  lexer->cursor += 2;
  return high < 0 || low < 0 ? '\0' : (char)(high * 16 + low);
}

// Reads from the opening quote on; NULL after an error.
static const char *lex_string(ptc_lexer_t *lexer, ptc_loc_t loc) {
  char quote = *lexer->cursor++;
  const char *start = lexer->cursor;
  // The length first: the arena never gets more than the text has.
  size_t len = 0;
  bool ok = true;
  while (ok && lexer->cursor < lexer->end && *lexer->cursor != quote) {
    ok = lex_char(lexer) != '\0';
    len++;
  }
  ok = ok && lexer->cursor < lexer->end;
  if (!ok) {
    (void)ptc_error(lexer->diag, loc, PTC_INVALID_INPUT, "ir-string",
                    "this string has no closing quote on its line, or a bad escape");
    lexer->cursor = start;
    while (lexer->cursor < lexer->end && *lexer->cursor != '\n') lexer->cursor++;
    return NULL;
  }
  char *text = ptc_arena_alloc(lexer->arena, len + 1);
  lexer->cursor = start;
  for (size_t i = 0; i < len; i++) text[i] = lex_char(lexer);
  lexer->cursor++;
  return text;
}

static bool lex_digits(ptc_lexer_t *lexer) {
  const char *start = lexer->cursor;
  while (lexer->cursor < lexer->end && is_digit(*lexer->cursor)) lexer->cursor++;
  return lexer->cursor > start;
}

static const char *text_since(const ptc_lexer_t *lexer, const char *start) {
  return ptc_arena_strndup(lexer->arena, start, (size_t)(lexer->cursor - start));
}

static bool follows(const ptc_lexer_t *lexer, const char *text) {
  size_t len = strlen(text);
  return (size_t)(lexer->end - lexer->cursor) >= len && memcmp(lexer->cursor, text, len) == 0;
}

static void lex_number(ptc_lexer_t *lexer, ptc_token_t *token) {
  const char *start = lexer->cursor;
  if (*lexer->cursor == '-') lexer->cursor++;
  token->kind = PTC_TOKEN_INT;
  if (follows(lexer, "inf")) {
    lexer->cursor += 3;
    token->kind = PTC_TOKEN_FLOAT;
  } else {
    lex_digits(lexer);
    if (lexer->cursor < lexer->end && *lexer->cursor == '.') {
      token->kind = PTC_TOKEN_FLOAT;
      lexer->cursor++;
      lex_digits(lexer);
    }
    const char *before = lexer->cursor;
    if (follows(lexer, "e") || follows(lexer, "E")) {
      lexer->cursor++;
      if (follows(lexer, "+") || follows(lexer, "-")) lexer->cursor++;
      if (lex_digits(lexer))
        token->kind = PTC_TOKEN_FLOAT;
      else
        lexer->cursor = before;
    }
  }
  token->text = text_since(lexer, start);
}

static void lex_name(ptc_lexer_t *lexer, ptc_token_t *token) {
  const char *start = lexer->cursor;
  while (lexer->cursor < lexer->end && is_name_char(*lexer->cursor)) lexer->cursor++;
  token->text = text_since(lexer, start);
  bool nan = strcmp(token->text, "nan") == 0;
  if (!nan && strcmp(token->text, "inf") != 0) return;
  token->kind = PTC_TOKEN_FLOAT;
  if (!nan || !follows(lexer, ":0x")) return;
  lexer->cursor += 3;
  while (lexer->cursor < lexer->end && hex_digit(*lexer->cursor) >= 0) lexer->cursor++;
  token->text = text_since(lexer, start);
}

// After the sigil of a value or a global.
static void lex_path(ptc_lexer_t *lexer, ptc_token_t *token) {
  bool value = token->kind == PTC_TOKEN_VALUE;
  const char *start = lexer->cursor;
  if (*lexer->cursor == '"') {
    const char *text = lex_string(lexer, token->loc);
    if (!text) {
      token->kind = PTC_TOKEN_BAD;
    } else if (!value) {
      token->text = text;
    } else {
      token->hint = text;
      const char *dot = lexer->cursor;
      if (follows(lexer, ".")) lexer->cursor++;
      if (lexer->cursor > dot && !lex_digits(lexer)) lexer->cursor = dot;
      token->text = text_since(lexer, start);
    }
    return;
  }
  while (lexer->cursor < lexer->end && ptc_is_path_char(*lexer->cursor)) lexer->cursor++;
  token->text = text_since(lexer, start);
  if (value && !is_digit(*start))
    token->hint = ptc_arena_strndup(lexer->arena, token->text,
                                    ptc_name_suffix(token->text, strlen(token->text)));
}

static void report_byte(ptc_lexer_t *lexer, ptc_loc_t loc) {
  unsigned char byte = (unsigned char)*lexer->cursor++;
  if (byte > 0x20 && byte < 0x7f)
    (void)ptc_error(lexer->diag, loc, PTC_INVALID_INPUT, "ir-byte", "unexpected character '%c'",
                    byte);
  else
    (void)ptc_error(lexer->diag, loc, PTC_INVALID_INPUT, "ir-byte", "unexpected byte 0x%02x", byte);
}

ptc_token_t ptc_lexer_next(ptc_lexer_t *lexer) {
  skip_blank(lexer);
  ptc_token_t token = {.starts_line = lexer->at_line_start};
  token.loc =
      (ptc_loc_t){lexer->file, lexer->line, (int32_t)(lexer->cursor - lexer->line_start) + 1};
  lexer->at_line_start = false;
  if (lexer->cursor == lexer->end) return token;
  char c = *lexer->cursor;
  char next = lexer->cursor + 1 < lexer->end ? lexer->cursor[1] : '\0';
  if (ptc_lex_is_name_start(c)) {
    token.kind = PTC_TOKEN_NAME;
    lex_name(lexer, &token);
  } else if (is_digit(c) || follows(lexer, "-inf") || (c == '-' && is_digit(next))) {
    lex_number(lexer, &token);
  } else if ((c == '%' || c == '@') && (ptc_is_path_char(next) || next == '"')) {
    token.kind = c == '%' ? PTC_TOKEN_VALUE : PTC_TOKEN_GLOBAL;
    lexer->cursor++;
    lex_path(lexer, &token);
  } else if (c == '"' || c == '\'') {
    token.text = lex_string(lexer, token.loc);
    token.kind = !token.text ? PTC_TOKEN_BAD : c == '"' ? PTC_TOKEN_STRING : PTC_TOKEN_QUOTED;
  } else if (c != '\0' && strchr("{}()[]=,:", c)) {
    token.kind = PTC_TOKEN_PUNCT;
    token.punct = c;
    lexer->cursor++;
  } else {
    token.kind = PTC_TOKEN_BAD;
    report_byte(lexer, token.loc);
  }
  return token;
}
