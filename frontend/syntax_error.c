// The words of syntax errors: what was found, what was expected, and what was probably meant.
#include <stdarg.h>
#include <string.h>

#include "frontend/parse_impl.h"
#include "ir/base/str.h"
#include "ptm.tab.h"

enum { MAX_EXCERPT = 40 };

// One error to be worded.
typedef struct error_s {
  ptm_parse_t *p;
  const ptm_token_t *found;
  const bool *expected;      // by token kind
  const char *const *words;  // by token kind
} error_t;

#define REPORT(e, loc, ...) ptc_error((e)->p->diag, (loc), PTC_INVALID_INPUT, "syntax", __VA_ARGS__)

const char *ptm_excerpt(ptm_parse_t *p, const char *text, size_t len) {
  if (len <= MAX_EXCERPT) return ptc_arena_strndup(&p->ast->arena, text, len);
  return ptc_arena_printf(&p->ast->arena, "%.*s…", MAX_EXCERPT, text);
}

// ---- single tokens in words ----

static bool is_keyword(const ptm_token_t *token) {
  return token->kind > PTM_JUXTAPOSED && token->text && token->text[0] >= 'a' &&
         token->text[0] <= 'z';
}

// `name "w"`, `number 3`, `'return'`, `end of file`.
static const char *describe(ptm_parse_t *p, const ptm_token_t *token) {
  ptc_arena_t *arena = &p->ast->arena;
  if (token->kind == PTM_END) return "the end of the file";
  if (token->kind == PTM_SYNC || !token->text) return "the end of the line";
  const char *text = ptm_excerpt(p, token->text, strlen(token->text));
  switch (token->kind) {
    case PTM_IDENT:
    case PTM_JUXTAPOSED: return ptc_arena_printf(arena, "name \"%s\"", text);
    case PTM_NUMBER: return ptc_arena_printf(arena, "number %s", text);
    case PTM_STRING: return ptc_arena_printf(arena, "string \"%s\"", text);
    case PTM_PATH: return ptc_arena_printf(arena, "path \"%s\"", text);
    case PTM_UNIT: return ptc_arena_printf(arena, "unit %s", text);
    default: return ptc_arena_printf(arena, "'%s'", text);
  }
}

static bool is_operator(int kind) {
  return (kind < 128 && kind > 0 && strchr("+-*/%^<>", kind)) || kind == PTM_EQ || kind == PTM_NE ||
         kind == PTM_LE || kind == PTM_GE || kind == PTM_AND || kind == PTM_OR;
}

// Can an expression begin with this token?
static bool begins_value(int kind) {
  return kind == PTM_IDENT || kind == PTM_JUXTAPOSED || kind == PTM_NUMBER || kind == PTM_STRING ||
         kind == PTM_ON || kind == PTM_OFF || kind == PTM_NOT;
}

// The keyword among those expected that |name| misspells, or NULL.
static const char *meant_keyword(const error_t *e, const char *name) {
  const char *candidates[PTM_MAX_TOKEN];
  int64_t count = 0;
  for (int kind = PTM_JUXTAPOSED + 1; kind < PTM_MAX_TOKEN; kind++) {
    const char *word = e->words[kind];
    if (!e->expected[kind] || word[0] != '\'' || word[1] < 'a' || word[1] > 'z' || !word[2] ||
        word[2] == '\'')
      continue;
    candidates[count++] = ptc_arena_strndup(&e->p->ast->arena, word + 1, strlen(word) - 2);
  }
  return ptc_nearest_name(name, candidates, count);
}

// Words of other languages, and what is written here.
static const char *foreign_word(const char *word) {
  static const struct {
    const char *word, *remedy;
  } words[] = {
      {"for", "a loop is written 'repeat N as i { … }'"},
      {"while", "a loop is written 'repeat N as i { … }'"},
      {"def", "a function of tensors is a 'layer'"},
      {"fn", "a function of tensors is a 'layer'"},
      {"func", "a function of tensors is a 'layer'"},
      {"function", "a function of tensors is a 'layer'"},
      {"class", "a function of tensors is a 'layer'"},
      {"let", "an assignment is written 'name = value'"},
      {"var", "an assignment is written 'name = value'"},
      {"const", "a compile-time number is a 'dim', or a parameter of the model"},
      {"elif", "write 'else if'"},
      {"elseif", "write 'else if'"},
      {"import", "write 'include \"FILE\"'"},
  };
  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
    if (strcmp(words[i].word, word) == 0) return words[i].remedy;
  return NULL;
}

// ---- what was expected ----

typedef struct phrase_list_s {
  const char *items[8];
  int count;
  bool overflow;
} phrase_list_t;

static void add_phrase(phrase_list_t *list, const char *phrase) {
  if (list->count < 8)
    list->items[list->count++] = phrase;
  else
    list->overflow = true;
}

// "',', ')' or an operator"
static const char *expected_phrase(const error_t *e) {
  const bool *expected = e->expected;
  bool operators = expected['+'] && expected['*'];
  bool value = expected[PTM_NUMBER] && expected['('] && expected['-'];
  bool statement = expected[PTM_DIM] || expected[PTM_SHARD] || expected[PTM_NODE];
  phrase_list_t list = {0};
  if (value)
    add_phrase(&list, "a value");
  else if (expected[PTM_IDENT] && !statement && !expected[PTM_MODEL])
    add_phrase(&list, "a name");
  static const int marks[] = {'=', ':', '[', '(', ']', ')', ',', '{', '~', '@'};
  for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
    int mark = marks[i];
    // A call or an index may follow any value: no news. Nor is '[' or '(' where a value may stand.
    if ((mark == '[' || mark == '(') && (operators || value)) continue;
    if ((mark == '@' || mark == '=') && operators) continue;
    if (expected[mark]) add_phrase(&list, e->words[mark]);
  }
  if (operators) add_phrase(&list, "an operator");
  for (int kind = PTM_IDENT + 1; kind < PTM_MAX_TOKEN; kind++) {
    if (!expected[kind] || is_operator(kind)) continue;
    if (value && begins_value(kind)) continue;
    if (statement && (ptm_begins_statement(kind) || kind == PTM_ELSE)) continue;
    if (kind == PTM_SYNC || kind == PTM_JUXTAPOSED) continue;
    add_phrase(&list, e->words[kind]);
  }
  if (statement) add_phrase(&list, "a new statement");
  if (expected['}'] && list.count < 3) add_phrase(&list, e->words['}']);
  if (expected[PTM_END] && !list.count) add_phrase(&list, "the end of the file");
  ptc_str_t text = {0};
  for (int i = 0; i < list.count; i++) {
    bool last = i == list.count - 1 && !list.overflow;
    ptc_str_append(&text, i == 0 ? "" : last ? " or " : ", ");
    ptc_str_append(&text, list.items[i]);
  }
  if (list.overflow) ptc_str_append(&text, ", …");
  const char *phrase = ptc_arena_strdup(&e->p->ast->arena, text.data ? text.data : "nothing");
  ptc_str_deinit(&text);
  return phrase;
}

// ---- particular mistakes; each returns true if it reported ----

// At the top level, where only models, layers and blocks stand.
static bool report_top_level(const error_t *e) {
  ptm_parse_t *p = e->p;
  const ptm_token_t *found = e->found;
  if (!e->expected[PTM_MODEL]) return false;
  if (found->kind == PTM_IDENT) {
    const char *remedy = foreign_word(found->text);
    if (remedy) {
      REPORT(e, found->loc, "unknown word \"%s\"; %s", found->text, remedy);
      p->reported_stray = true;  // its lines stand outside a model, too
      return true;
    }
    const char *meant = meant_keyword(e, found->text);
    if (meant) {
      REPORT(e, found->loc, "unknown word \"%s\"; did you mean '%s'?", found->text, meant);
      static const struct {
        const char *word;
        ptm_block_kind_t kind;
      } kinds[] = {{"model", PTM_BLOCK_BODY}, {"layer", PTM_BLOCK_BODY}};
      for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].word, meant) == 0) p->pending = kinds[i].kind;
      return true;
    }
  }
  // Statements after a '}' too many would each be an error: one is enough.
  if (p->reported_stray) return true;
  p->reported_stray = true;
  if (found->kind == '}') {
    REPORT(e, found->loc, "'}' closes nothing");
  } else if (ptm_begins_statement(found->kind)) {
    REPORT(e, found->loc, "%s stands outside a model or layer", describe(p, found));
  } else {
    REPORT(e, found->loc, "expected %s, found %s", expected_phrase(e), describe(p, found));
  }
  if (p->last_close.file && p->last_close.line < found->loc.line)
    ptc_note(p->diag, p->last_close, "the block before it was closed here");
  return true;
}

static bool opens_item(int kind) {
  return kind == PTM_MODEL || kind == PTM_TRAIN || kind == PTM_PARALLEL || kind == PTM_CLUSTER ||
         kind == PTM_DEVICE || kind == PTM_INCLUDE;
}

// `train {` where a model is still open: the number of blocks to close, or 0.
static int32_t report_unclosed_before_item(const error_t *e) {
  ptm_parse_t *p = e->p;
  const ptm_bracket_t *open = ptm_open_block(p);
  if (!opens_item(e->found->kind) || !e->found->starts_line || !open || !e->expected['}']) return 0;
  if (e->found->loc.column > p->brackets[0].indent) return 0;
  if (p->has_suspect) open = &p->suspect;
  REPORT(e, e->found->loc, "expected '}' before %s", describe(p, e->found));
  ptc_note(p->diag, open->loc, "this '{' is not closed");
  return ptm_num_blocks(p);
}

// `if a {` and then `else` with no '}' between.
static int32_t report_unclosed_before_else(const error_t *e) {
  ptm_parse_t *p = e->p;
  const ptm_bracket_t *open = ptm_open_block(p);
  if (e->found->kind != PTM_ELSE) return 0;
  if (!open || open->head != PTM_IF || !e->expected['}'] || e->found->loc.column != open->indent)
    return 0;
  REPORT(e, e->found->loc, "expected '}' before 'else'");
  ptc_note(p->diag, open->loc, "this '{' is not closed");
  return 1;
}

// A block inside a model, an `else` without `if`, a path in an expression.
static bool report_misplaced(const error_t *e) {
  ptm_parse_t *p = e->p;
  const ptm_token_t *found = e->found;
  if (opens_item(found->kind) && ptm_open_block(p) && e->expected['}'])
    REPORT(e, found->loc, "'%s' stands inside a block; it belongs to the top level", found->text);
  else if (found->kind == PTM_ELSE)
    REPORT(e, found->loc, "'else' without an 'if' block before it");
  else if (found->kind == PTM_PATH && ptm_block_kind(p) != PTM_BLOCK_SETTINGS)
    REPORT(e, found->loc, "a name has no '.': \"%s\" is a path, for parallel blocks only",
           ptm_excerpt(p, found->text, strlen(found->text)));
  else if ((found->kind == ')' || found->kind == ']') &&
           (!p->token_brackets || p->brackets[p->token_brackets - 1].kind == '{'))
    REPORT(e, found->loc, "'%c' closes nothing", found->kind);
  else
    return false;
  return true;
}

// `retrun y`, `parm w[d]`: the error shows at the second token of the statement.
static const char *meant_first_word(const error_t *e) {
  static const char *const body[] = {"layer",  "dim",    "param",  "input", "loss", "metric",
                                     "output", "return", "repeat", "if",    "else"};
  static const char *const settings[] = {"shard", "cut"};
  ptm_parse_t *p = e->p;
  const ptm_token_t *word = &p->previous;
  if (word->kind != PTM_IDENT || word->loc.line != p->statement.loc.line ||
      word->loc.column != p->statement.loc.column)
    return NULL;
  ptm_block_kind_t kind = ptm_block_kind(p);
  if (e->found->kind == '{' && p->token_brackets > 0) kind = PTM_BLOCK_BODY;
  if (kind == PTM_BLOCK_BODY) return ptc_nearest_name(word->text, body, 11);
  if (kind == PTM_BLOCK_SETTINGS) return ptc_nearest_name(word->text, settings, 2);
  return NULL;
}

// Where `target =` should stand: misspelt keywords, `==`, and expressions that are nobody's value.
static bool report_no_assignment(const error_t *e) {
  ptm_parse_t *p = e->p;
  const ptm_token_t *found = e->found;
  const ptm_token_t *first = &p->previous;
  bool is_first = first->kind == PTM_IDENT && first->loc.line == p->statement.loc.line &&
                  first->loc.column == p->statement.loc.column;
  bool is_name = found->kind == PTM_IDENT || found->kind == PTM_JUXTAPOSED;
  const char *remedy = is_first && is_name ? foreign_word(first->text) : NULL;
  if (remedy) {
    REPORT(e, first->loc, "unknown word \"%s\"; %s", first->text, remedy);
    return true;
  }
  const char *meant = meant_first_word(e);
  if (meant) {
    REPORT(e, p->previous.loc, "unknown word \"%s\"; did you mean '%s'?", p->previous.text, meant);
    return true;
  }
  bool after_target = e->expected['='] && !e->expected['+'] && p->statement.kind == PTM_IDENT;
  if (!after_target) return false;
  if (found->kind == PTM_EQ) {
    REPORT(e, found->loc, "an assignment is written '=', not '=='");
    return true;
  }
  bool ends = found->kind == '}' || (found->starts_line && ptm_begins_statement(found->kind));
  if (ptm_block_kind(p) == PTM_BLOCK_BODY &&
      (found->kind == '(' || found->kind == '@' || is_operator(found->kind) || ends)) {
    REPORT(e, p->statement.loc, "an expression alone is no statement: write 'name = …'");
    return true;
  }
  return false;
}

// `input = 3`, `f(layer)`: a keyword where a name must stand.
static bool report_keyword_as_name(const error_t *e) {
  ptm_parse_t *p = e->p;
  const ptm_token_t *found = e->found, *before = &p->previous;
  const ptm_token_t *keyword = NULL;
  if (is_keyword(found) && e->expected[PTM_IDENT] && !e->expected['}'] && !found->starts_line)
    keyword = found;
  else if ((found->kind == '=' || found->kind == '[') && is_keyword(before) &&
           ptm_begins_statement(before->kind) && !e->expected[found->kind])
    keyword = before;
  if (!keyword) return false;
  REPORT(e, keyword->loc, "'%s' is a keyword and cannot be a name", keyword->text);
  return true;
}

// Does |found| begin a line, so that the mistake is at the end of the line before?
static bool is_late(const error_t *e) {
  const ptm_token_t *found = e->found, *before = &e->p->previous;
  return before->text && before->kind != PTM_SYNC &&
         (found->kind == PTM_END ||
          (found->starts_line && (found->kind == '}' || ptm_begins_statement(found->kind))));
}

// `f(x` and then a new statement, a brace, or another kind of bracket.
static bool report_unclosed_paren(const error_t *e) {
  ptm_parse_t *p = e->p;
  const ptm_token_t *found = e->found;
  const ptm_bracket_t *open = NULL;
  if (found->kind == '{' || found->kind == '}') {
    if (p->dropped_paren.kind) open = &p->dropped_paren;
  } else if (found->kind == ')' || found->kind == ']') {
    // It has taken away the bracket that it does not fit.
    if (p->num_brackets < p->token_brackets) open = &p->brackets[p->num_brackets];
  } else {
    open = ptm_open_paren(p);
    bool new_statement = found->starts_line && ptm_begins_statement(found->kind) &&
                         (found->kind != PTM_IDENT || found->loc.column <= p->statement_indent);
    if (!new_statement && found->kind != PTM_END) return false;
  }
  if (!open) return false;
  int close = open->kind == '(' ? ')' : ']';
  if (found->kind == close || !e->expected[close]) return false;
  if (is_late(e) && p->previous.kind == close)
    REPORT(e, p->previous.loc, "expected one more '%c'", close);
  else if (is_late(e))
    REPORT(e, p->previous.loc, "expected '%c' after %s", close, describe(p, &p->previous));
  else
    REPORT(e, found->loc, "expected '%c' before %s", close, describe(p, found));
  ptc_note(p->diag, open->loc, "'%c' is opened here", open->kind);
  return true;
}

// `y = x *` and then `z = 3`: the error shows only at the second '='.
static bool report_cut_short(const error_t *e) {
  ptm_parse_t *p = e->p;
  const ptm_token_t *found = e->found, *first = &p->line_tokens[0], *before = &p->before_line;
  if ((found->kind != '=' && found->kind != '[') || e->expected[found->kind] ||
      found->loc.line == p->statement.loc.line || found->starts_line || ptm_open_paren(p) ||
      p->num_line_tokens > PTM_MAX_LINE_TOKENS || first->kind != PTM_IDENT ||
      first->loc.column > p->statement_indent || !before->text || ptm_ends_expression(before->kind))
    return false;
  bool wants_value = is_operator(before->kind) || before->kind == '=' || before->kind == PTM_NOT;
  const char *what = wants_value ? "a value" : "a name or value";
  REPORT(e, before->loc, "%s is missing after %s", what, describe(p, before));
  return true;
}

// `x + * y`, `y =`: no value where one must stand.
static bool report_missing_value(const error_t *e) {
  ptm_parse_t *p = e->p;
  const ptm_token_t *found = e->found, *before = &p->previous;
  bool value_expected = e->expected[PTM_NUMBER] && e->expected[PTM_IDENT] && !e->expected['}'];
  if (!value_expected || begins_value(found->kind) || found->kind == PTM_PATH) return false;
  if (!is_operator(before->kind) && before->kind != '=' && before->kind != PTM_NOT) return false;
  if (is_keyword(found) && !is_operator(found->kind) && !is_late(e)) return false;
  REPORT(e, is_late(e) ? before->loc : found->loc, "a value is missing after %s",
         describe(p, before));
  return true;
}

// `x[b, d] w[d]`, `2 x`.
static bool report_missing_operator(const error_t *e) {
  ptm_parse_t *p = e->p;
  const ptm_token_t *found = e->found;
  if (!e->expected['+'] || !e->expected['*'] || !begins_value(found->kind)) return false;
  if (found->starts_line && !ptm_open_paren(p)) return false;
  const char *what = describe(p, found);
  const char *meant = found->kind == PTM_IDENT || found->kind == PTM_JUXTAPOSED
                          ? meant_keyword(e, found->text)
                          : NULL;
  if (meant)
    REPORT(e, found->loc, "unknown word \"%s\"; did you mean '%s'?", found->text, meant);
  else if (ptm_open_paren(p) && e->expected[','])
    REPORT(e, found->loc, "missing operator or ',' before %s", what);
  else
    REPORT(e, found->loc, "missing operator before %s", what);
  return true;
}

static bool is_comparison(int kind) {
  return is_operator(kind) && kind != PTM_AND && kind != PTM_OR &&
         (kind > 127 || kind == '<' || kind == '>');
}

// `a < b < c`.
static bool report_chained_comparison(const error_t *e) {
  if (!e->expected['+'] || !is_comparison(e->found->kind)) return false;
  REPORT(e, e->found->loc, "comparisons do not chain: write 'a < b and b < c'");
  return true;
}

static bool report_equals(const error_t *e) {
  if (e->found->kind != '=' || !e->expected[PTM_EQ]) return false;
  REPORT(e, e->found->loc, "unexpected '='; a comparison is written '=='");
  return true;
}

// `w[d f]`, `output a b`.
static bool report_missing_comma(const error_t *e) {
  const ptm_token_t *found = e->found;
  bool is_item = begins_value(found->kind) || found->kind == PTM_PATH;
  if (!is_item || !e->expected[','] || e->expected['~'] || e->expected['='] || found->starts_line ||
      !ptm_ends_expression(e->p->previous.kind))
    return false;
  REPORT(e, found->loc, "missing ',' before %s", describe(e->p, found));
  return true;
}

// `bandwidth = 3 parsec`: in a cluster a name after a number is meant as its unit.
static bool report_unknown_unit(const error_t *e) {
  ptm_parse_t *p = e->p;
  ptm_block_kind_t kind = ptm_block_kind(p);
  if ((kind != PTM_BLOCK_CLUSTER && kind != PTM_BLOCK_DEVICE) || !e->expected['='] ||
      p->previous.kind != PTM_IDENT || p->before_previous.kind != PTM_NUMBER ||
      p->before_previous.loc.line != p->previous.loc.line)
    return false;
  REPORT(e, p->previous.loc, "unknown unit \"%s\"", p->previous.text);
  return true;
}

static bool report_misspelt_keyword(const error_t *e) {
  if (e->found->kind != PTM_IDENT && e->found->kind != PTM_JUXTAPOSED) return false;
  const char *meant = meant_keyword(e, e->found->text);
  if (!meant) return false;
  REPORT(e, e->found->loc, "unknown word \"%s\"; did you mean '%s'?", e->found->text, meant);
  return true;
}

void ptm_syntax_error(ptm_parse_t *p, const bool *expected, const char *const *words) {
  const error_t e = {p, &p->token, expected, words};
  bool at_boundary = expected['}'] || expected[PTM_MODEL];
  if (!at_boundary && p->statement.loc.line == p->token.loc.line &&
      p->statement.loc.column == p->token.loc.column) {
    // The token seemed to begin a statement, but the one before it is not complete.
    p->statement = p->last_statement;
    p->statement_indent = p->last_statement_indent;
  }
  static bool (*const reports[])(const error_t *) = {
      report_top_level,      report_misplaced,          report_cut_short,
      report_unclosed_paren, report_unknown_unit,       report_no_assignment,
      report_missing_value,  report_keyword_as_name,    report_missing_operator,
      report_equals,         report_chained_comparison, report_misspelt_keyword,
      report_missing_comma,
  };
  bool is_said =
      p->token.is_synthetic ||  // the missing '}' has been reported, or supplied
      (p->lexical_loc.line == p->token.loc.line && p->lexical_loc.column == p->token.loc.column);
  if (!is_said) {
    int32_t num_blocks = report_unclosed_before_item(&e);
    if (!num_blocks) num_blocks = report_unclosed_before_else(&e);
    if (num_blocks) {
      ptm_recover_closing(p, num_blocks);
      return;
    }
  }
  for (size_t i = 0; i < sizeof(reports) / sizeof(reports[0]) && !is_said; i++)
    is_said = reports[i](&e);
  if (!is_said && is_late(&e))
    REPORT(&e, p->previous.loc, "expected %s after %s", expected_phrase(&e),
           describe(p, &p->previous));
  else if (!is_said)
    REPORT(&e, p->token.loc, "expected %s, found %s", expected_phrase(&e), describe(p, &p->token));
  ptm_recover(p, at_boundary, expected['{']);
}

// ---- characters, depth, the end ----

// Is |loc| on a line that has been reported already and is being skipped?
static bool is_skipped(const ptm_parse_t *p, ptc_loc_t loc) {
  return p->is_syncing && loc.line == p->error_loc.line;
}

void ptm_lexical_error(ptm_parse_t *p, ptc_loc_t loc, const char *id, const char *format, ...) {
  p->lexical_loc = loc;
  if (is_skipped(p, loc)) return;
  va_list args;
  va_start(args, format);
  ptc_arena_t *arena = &p->ast->arena;
  ptc_error(p->diag, loc, PTC_INVALID_INPUT, id, "%s", ptc_arena_vprintf(arena, format, args));
  va_end(args);
}

// Length of the well-formed character at |text|, 0 if there is none.
static size_t character_length(const unsigned char *text, size_t len) {
  if (text[0] < 0x80) return text[0] >= 0x20 && text[0] != 0x7f ? 1 : 0;
  size_t need = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
  if (text[0] < 0xc2 || text[0] > 0xf4 || need > len) return 0;
  for (size_t i = 1; i < need; i++)
    if ((text[i] & 0xc0) != 0x80) return 0;
  return need;
}

void ptm_check_string(ptm_parse_t *p, ptc_loc_t loc, const char *text, size_t len) {
  for (size_t i = 0; i < len;) {
    size_t step = character_length((const unsigned char *)text + i, len - i);
    if (!step) {
      loc.column += (int32_t)i;
      ptm_lexical_error(p, loc, "bad-character", "byte 0x%02x in a string", (unsigned char)text[i]);
      return;
    }
    i += step;
  }
}

static uint32_t decode_utf8(const char *bytes, size_t len) {
  const unsigned char *b = (const unsigned char *)bytes;
  uint32_t code = len == 2 ? b[0] & 0x1f : len == 3 ? b[0] & 0x0f : b[0] & 0x07;
  for (size_t i = 1; i < len; i++) code = code << 6 | (b[i] & 0x3f);
  return code;
}

void ptm_bad_character(ptm_parse_t *p, ptc_loc_t loc, const char *bytes, size_t len) {
  // What editors and web pages put in place of ASCII.
  static const struct {
    uint32_t code;
    const char *meant;
  } lookalikes[] = {{0x2212, "-"},  {0x2013, "-"},   {0x2014, "-"},  {0xd7, "*"},
                    {0xb7, "*"},    {0x22c5, "*"},   {0xf7, "/"},    {0x2264, "<="},
                    {0x2265, ">="}, {0x2260, "!="},  {0x201c, "\""}, {0x201d, "\""},
                    {0x2190, "="},  {0x221e, "inf"}, {0xa0, " "},    {0x200b, ""}};
  uint32_t code = decode_utf8(bytes, len);
  const char *meant = NULL;
  for (size_t i = 0; i < sizeof(lookalikes) / sizeof(lookalikes[0]); i++)
    if (lookalikes[i].code == code) meant = lookalikes[i].meant;
  bool is_visible = code > 0xa0 && (code < 0x2000 || code > 0x206f);
  const char *shown =
      is_visible ? ptc_arena_printf(&p->ast->arena, "'%.*s' (U+%04X)", (int)len, bytes, code)
                 : ptc_arena_printf(&p->ast->arena, "U+%04X", code);
  if (meant)
    ptm_lexical_error(p, loc, "bad-character", "unexpected character %s; did you mean '%s'?", shown,
                      meant);
  else
    ptm_lexical_error(p, loc, "bad-character",
                      "unexpected character %s: names are ASCII letters, "
                      "digits and '_'",
                      shown);
}

void ptm_too_deep(ptm_parse_t *p, ptc_loc_t loc) {
  if (p->reported_depth) return;
  p->reported_depth = true;
  ptc_error(p->diag, loc, PTC_INVALID_INPUT, "too-deep",
            "nesting too deep: split the expression or the blocks up here");
}

void ptm_unclosed_block(ptm_parse_t *p, ptc_loc_t loc) {
  const ptm_bracket_t *open = p->has_suspect ? &p->suspect : ptm_open_block(p);
  ptc_error(p->diag, loc, PTC_INVALID_INPUT, "unclosed-block",
            "the file ends, but a '}' is missing");
  if (open) ptc_note(p->diag, open->loc, "this '{' is not closed");
}
