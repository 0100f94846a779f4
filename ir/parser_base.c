// Tokens of .ptir: what the parser expects, accepts and reports.
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ir/parser_impl.h"

void ptc_parse_advance(ptc_parser_t *p) {
  // Past so many errors the rest of the text is not looked at.
  if (p->diag->num_errors >= p->max_errors) p->lexer.cursor = p->lexer.end;
  p->token = ptc_lexer_next(&p->lexer);
}

static const char *describe(ptc_parser_t *p) {
  const ptc_token_t *t = &p->token;
  switch (t->kind) {
    case PTC_TOKEN_END: return "the end of the file";
    case PTC_TOKEN_PUNCT: return ptc_arena_printf(&p->arena, "'%c'", t->punct);
    case PTC_TOKEN_STRING: return "a string";
    case PTC_TOKEN_QUOTED: return ptc_arena_printf(&p->arena, "'%.60s'", t->text);
    case PTC_TOKEN_VALUE: return ptc_arena_printf(&p->arena, "%%%.60s", t->text);
    case PTC_TOKEN_GLOBAL: return ptc_arena_printf(&p->arena, "@%.60s", t->text);
    case PTC_TOKEN_NAME:
    case PTC_TOKEN_INT:
    case PTC_TOKEN_FLOAT: return ptc_arena_printf(&p->arena, "\"%.60s\"", t->text);
    case PTC_TOKEN_BAD: break;
  }
  return "that";
}

bool ptc_parse_expected(ptc_parser_t *p, const char *what) {
  if (p->token.kind != PTC_TOKEN_BAD)
    (void)ptc_error(p->diag, p->token.loc, PTC_INVALID_INPUT, "ir-syntax", "expected %s, found %s",
                    what, describe(p));
  return false;
}

bool ptc_parse_too_many(ptc_parser_t *p, const char *what, int64_t limit) {
  (void)ptc_error(p->diag, p->token.loc, PTC_INVALID_INPUT, "ir-limit", "more than %" PRId64 " %s",
                  limit, what);
  return false;
}

bool ptc_parse_is_punct(const ptc_parser_t *p, char c) {
  return p->token.kind == PTC_TOKEN_PUNCT && p->token.punct == c;
}

bool ptc_parse_is_word(const ptc_parser_t *p, const char *word) {
  return p->token.kind == PTC_TOKEN_NAME && strcmp(p->token.text, word) == 0;
}

bool ptc_parse_accept_punct(ptc_parser_t *p, char c) {
  if (!ptc_parse_is_punct(p, c)) return false;
  ptc_parse_advance(p);
  return true;
}

bool ptc_parse_accept_word(ptc_parser_t *p, const char *word) {
  if (!ptc_parse_is_word(p, word)) return false;
  ptc_parse_advance(p);
  return true;
}

bool ptc_parse_need_punct(ptc_parser_t *p, char c) {
  if (ptc_parse_accept_punct(p, c)) return true;
  char text[4] = {'\'', c, '\'', '\0'};
  return ptc_parse_expected(p, text);
}

const char *ptc_parse_intern(ptc_parser_t *p, const char *text) {
  return ptc_module_intern(p->module, text);
}

bool ptc_parse_name(ptc_parser_t *p, const char *what, const char **out) {
  bool literal = ptc_parse_is_word(p, "true") || ptc_parse_is_word(p, "false");
  if (literal || (p->token.kind != PTC_TOKEN_NAME && p->token.kind != PTC_TOKEN_QUOTED))
    return ptc_parse_expected(p, what);
  *out = ptc_parse_intern(p, p->token.text);
  ptc_parse_advance(p);
  return true;
}

bool ptc_parse_int(ptc_parser_t *p, const char *what, int64_t min, int64_t *out) {
  if (p->token.kind != PTC_TOKEN_INT) return ptc_parse_expected(p, what);
  errno = 0;
  int64_t value = strtoll(p->token.text, NULL, 10);
  bool ok = !errno && value >= min;
  if (!ok)
    (void)ptc_error(p->diag, p->token.loc, PTC_INVALID_INPUT, "ir-range",
                    "%s is %.60s; it must lie between %" PRId64 " and 2^63 - 1", what,
                    p->token.text, min);
  else
    *out = value;
  ptc_parse_advance(p);
  return ok;
}

static bool parse_place(ptc_parser_t *p, const char *what, int32_t *out) {
  ptc_loc_t at = p->token.loc;
  int64_t value;
  if (!ptc_parse_int(p, what, 0, &value)) return false;
  *out = (int32_t)value;
  if (value <= INT32_MAX) return true;
  (void)ptc_error(p->diag, at, PTC_INVALID_INPUT, "ir-range", "%s is %" PRId64 "; it is too large",
                  what, value);
  return false;
}

bool ptc_parse_loc(ptc_parser_t *p, ptc_loc_t *out, bool *out_given) {
  *out_given = ptc_parse_accept_word(p, "loc");
  if (!*out_given) return true;
  *out = (ptc_loc_t){0};
  if (!ptc_parse_need_punct(p, '(')) return false;
  if (ptc_parse_accept_word(p, "none")) return ptc_parse_need_punct(p, ')');
  if (p->token.kind != PTC_TOKEN_STRING) return ptc_parse_expected(p, "a file's name or none");
  out->file = ptc_parse_intern(p, p->token.text);
  ptc_parse_advance(p);
  return ptc_parse_need_punct(p, ':') && parse_place(p, "the line", &out->line) &&
         ptc_parse_need_punct(p, ':') && parse_place(p, "the column", &out->column) &&
         ptc_parse_need_punct(p, ')');
}
