// Between scanner and grammar: follows brackets, sees a name that stands where an operator is
// missing, and after an error chooses the place where the parser goes on.
//
// The language has no separators, so recovery goes by lines and indentation. After an error the rest
// of the statement is skipped: to the end of its line, or further while a bracket is open and lines
// are indented deeper than the statement. There the parser gets SYNC. The '{' of a broken head
// (`layer f(x[b s]) {`) is given to the parser as it is, so that the errors of its block are found
// too. Where the found token itself begins a new statement (the one before it was cut short), its
// line is replayed after the SYNC.
#include <string.h>

#include "frontend/parse_impl.h"
#include "ptm.tab.h"

static bool is_item_keyword(int kind) {
  return kind == PTM_MODEL || kind == PTM_TRAIN || kind == PTM_PARALLEL || kind == PTM_CLUSTER ||
         kind == PTM_DEVICE || kind == PTM_INCLUDE;
}

static bool has_block(int kind) {
  return kind == PTM_MODEL || kind == PTM_LAYER || kind == PTM_REPEAT || kind == PTM_IF;
}

bool ptm_begins_statement(int kind) {
  switch (kind) {
    case PTM_IDENT:
    case PTM_JUXTAPOSED:
    case PTM_LAYER:
    case PTM_DIM:
    case PTM_PARAM:
    case PTM_INPUT:
    case PTM_LOSS:
    case PTM_METRIC:
    case PTM_OUTPUT:
    case PTM_RETURN:
    case PTM_REPEAT:
    case PTM_IF:
    case PTM_SHARD:
    case PTM_CUT:
    case PTM_NODE:
    case PTM_LINK:
    case PTM_NETWORK:
    case PTM_HOST: return true;
    default: return is_item_keyword(kind);
  }
}

bool ptm_ends_expression(int kind) {
  switch (kind) {
    case PTM_IDENT:
    case PTM_JUXTAPOSED:
    case PTM_NUMBER:
    case PTM_STRING:
    case PTM_PATH:
    case PTM_UNIT:
    case PTM_ON:
    case PTM_OFF:
    case ')':
    case ']': return true;
    default: return false;
  }
}

int ptm_set_token(ptm_parse_t *p, ptm_token_t *token, int kind, const char *text, size_t len) {
  ptc_loc_t loc = token->loc;
  *token = (ptm_token_t){.kind = kind, .loc = loc};
  if (kind != PTM_END && kind != PTM_BROKEN) token->text = ptc_intern_n(&p->ast->names, text, len);
  return kind;
}

// ---- brackets ----

// Number of brackets up to and including the innermost open '{'.
static int32_t brace_base(const ptm_parse_t *p) {
  return p->num_brackets ? p->brackets[p->num_brackets - 1].base : 0;
}

ptm_block_kind_t ptm_block_kind(const ptm_parse_t *p) {
  int32_t base = brace_base(p);
  return base ? p->brackets[base - 1].block : PTM_BLOCK_NONE;
}

const ptm_bracket_t *ptm_open_bracket(const ptm_parse_t *p) {
  return p->num_brackets ? &p->brackets[p->num_brackets - 1] : NULL;
}

const ptm_bracket_t *ptm_open_paren(const ptm_parse_t *p) {
  const ptm_bracket_t *top = ptm_open_bracket(p);
  return top && top->kind != '{' ? top : NULL;
}

const ptm_bracket_t *ptm_open_block(const ptm_parse_t *p) {
  int32_t base = brace_base(p);
  return base ? &p->brackets[base - 1] : NULL;
}

int32_t ptm_num_blocks(const ptm_parse_t *p) {
  int32_t count = 0;
  for (int32_t i = 0; i < p->num_brackets; i++) count += p->brackets[i].kind == '{';
  return count;
}

static void push_bracket(ptm_parse_t *p, const ptm_token_t *token) {
  if (p->num_brackets == p->brackets_capacity) {
    p->brackets_capacity = p->brackets_capacity ? 2 * p->brackets_capacity : 32;
    p->brackets = ptc_xrealloc(p->brackets, (size_t)p->brackets_capacity * sizeof(*p->brackets));
  }
  ptm_bracket_t bracket = {.kind = token->kind, .loc = token->loc, .indent = p->indent};
  if (token->kind == '{') {
    ptm_block_kind_t outer = ptm_block_kind(p);
    bracket.block = p->pending ? p->pending : outer ? outer : PTM_BLOCK_BODY;
    p->pending = PTM_BLOCK_NONE;
  }
  bracket.head = p->statement.kind;
  bracket.is_synthetic = token->is_synthetic;
  bracket.base = token->kind == '{' ? p->num_brackets + 1 : brace_base(p);
  bracket.is_options = token->kind == '(' && p->token.kind == PTM_PARAM;
  p->brackets[p->num_brackets++] = bracket;
}

static void close_block(ptm_parse_t *p, const ptm_token_t *token) {
  p->num_brackets = brace_base(p);
  if (!p->num_brackets) return;
  const ptm_bracket_t *open = &p->brackets[--p->num_brackets];
  if (token->starts_line && !token->is_synthetic && !p->has_suspect &&
      token->loc.column < open->indent) {
    p->has_suspect = true;
    p->suspect = *open;
  }
  if (!p->num_brackets) p->last_close = token->loc;
}

// Notes what |token| opens and closes.
static void track(ptm_parse_t *p, const ptm_token_t *token) {
  p->token_brackets = p->num_brackets;
  p->closed_options = false;
  p->dropped_paren.kind = 0;
  if ((token->kind == '{' || token->kind == '}') && ptm_open_paren(p))
    p->dropped_paren = *ptm_open_paren(p);
  switch (token->kind) {
    case PTM_MODEL:
    case PTM_LAYER: p->pending = PTM_BLOCK_BODY; break;
    case PTM_TRAIN:
    case PTM_PARALLEL: p->pending = PTM_BLOCK_SETTINGS; break;
    case PTM_CLUSTER: p->pending = PTM_BLOCK_CLUSTER; break;
    case PTM_DEVICE: p->pending = PTM_BLOCK_DEVICE; break;
    case '{':
      p->num_brackets = brace_base(p);
      push_bracket(p, token);
      break;
    case '(':
    case '[': push_bracket(p, token); break;
    case ')':
    case ']':
      if (ptm_open_paren(p)) p->closed_options = p->brackets[--p->num_brackets].is_options;
      break;
    case '}': close_block(p, token); break;
    default: break;
  }
}

// ---- the stream of tokens, with replay ----

static ptm_token_t fetch(ptm_parse_t *p) {
  ptm_token_t token = {0};
  if (p->next_replay < p->num_replay) {
    token = p->replay[p->next_replay++];
  } else if (p->at_end) {
    token = p->end_of_text;
  } else {
    ptm_scan(&token, p->scanner);
    token.starts_line = token.loc.line != p->last_line || token.kind == PTM_END;
    p->last_line = token.loc.line;
    if (token.kind == PTM_END) {
      p->at_end = true;
      p->end_of_text = token;
    }
  }
  if (token.is_synthetic || token.kind == PTM_SYNC) return token;
  if (token.starts_line) {
    p->indent = token.loc.column;
    p->num_line_tokens = 0;
    p->line_brackets = p->num_brackets;
    p->before_line = p->token;
  }
  if (p->num_line_tokens < PTM_MAX_LINE_TOKENS) p->line_tokens[p->num_line_tokens] = token;
  p->num_line_tokens++;
  return token;
}

// Puts |count| tokens before those still to come. False if there are too many.
static bool prepend(ptm_parse_t *p, const ptm_token_t *tokens, int32_t count) {
  int32_t rest = p->num_replay - p->next_replay;
  int32_t capacity = (int32_t)(sizeof(p->replay) / sizeof(p->replay[0]));
  if (count + rest > capacity) return false;
  memmove(&p->replay[count], &p->replay[p->next_replay], (size_t)rest * sizeof(*p->replay));
  memcpy(p->replay, tokens, (size_t)count * sizeof(*tokens));
  p->next_replay = 0;
  p->num_replay = count + rest;
  return true;
}

static void unfetch(ptm_parse_t *p, const ptm_token_t *token) {
  if (token->kind == PTM_END) return;  // is fetched again from end_of_text
  if (!token->is_synthetic && token->kind != PTM_SYNC) p->num_line_tokens--;
  prepend(p, token, 1);  // one token was just taken, so there is room
}

static ptm_token_t sync_token(ptc_loc_t loc) {
  return (ptm_token_t){.kind = PTM_SYNC, .loc = loc, .text = ""};
}

// Remembers where statements begin; errors speak of it and recovery measures by its indentation.
static void note_statement(ptm_parse_t *p, const ptm_token_t *token) {
  int before = p->token.kind;
  bool after_edge = before == 0 || before == PTM_SYNC || before == '{' || before == '}';
  if (!ptm_begins_statement(token->kind) || ptm_open_paren(p)) return;
  bool is_name = token->kind == PTM_IDENT || token->kind == PTM_JUXTAPOSED;
  if (after_edge || (ptm_ends_expression(before) && (!is_name || token->starts_line))) {
    p->last_statement = p->statement;
    p->last_statement_indent = p->statement_indent;
    p->statement = *token;
    p->statement_indent = p->indent;
  }
}

// A name right after an expression on the same line of a body: two assignments never share a line,
// so an operator or a line end is missing here.
static bool is_juxtaposed(const ptm_parse_t *p, const ptm_token_t *token) {
  if (token->kind != PTM_IDENT || token->starts_line || !ptm_ends_expression(p->token.kind) ||
      p->closed_options || token->loc.line != p->token.loc.line)
    return false;
  const ptm_bracket_t *top = ptm_open_bracket(p);
  return top && top->kind == '{' && top->block == PTM_BLOCK_BODY;
}

// Where a line that begins with |token| still belongs to the statement being skipped, whose last
// token was |last|.
static bool continues(const ptm_parse_t *p, const ptm_token_t *token, int last) {
  if (token->kind == PTM_BROKEN || token->kind == '}') return false;
  bool is_deeper = token->loc.column > p->sync_indent;
  bool unfinished = ptm_open_paren(p) || !(ptm_ends_expression(last) || last == '{' || last == '}');
  if (ptm_begins_statement(token->kind)) return token->kind == PTM_IDENT && unfinished && is_deeper;
  if (token->kind == ')' || token->kind == ']') return ptm_open_paren(p) != NULL;
  return is_deeper;
}

// The '}' of a block whose '{' is missing: it stands exactly below the broken head.
static bool closes_broken_head(const ptm_parse_t *p, const ptm_token_t *token) {
  const ptm_bracket_t *outer = ptm_open_block(p);
  return token->kind == '}' && token->starts_line && has_block(p->statement.kind) &&
         token->loc.column == p->sync_indent && (!outer || outer->indent < p->sync_indent);
}

// Skips the rest of a broken statement; returns SYNC, or the '{' that the grammar takes.
static ptm_token_t skip_to_sync(ptm_parse_t *p) {
  int last = p->token.kind;
  for (;;) {
    ptm_token_t token = fetch(p);
    bool at_base = brace_base(p) <= p->sync_base;
    if (at_base && closes_broken_head(p, &token)) {
      p->is_syncing = false;
      p->num_brackets = brace_base(p);
      return sync_token(token.loc);
    }
    bool stops = token.kind == PTM_END || token.kind == PTM_SYNC;
    stops |= token.kind == '}' && at_base;
    stops |= token.starts_line && at_base && !continues(p, &token, last);
    if (stops) {
      p->is_syncing = false;
      p->num_brackets = brace_base(p);
      if (token.kind == PTM_SYNC) return token;
      unfetch(p, &token);
      // A broken head without '{' and deeper lines below it: they are its block.
      if (p->sync_takes_brace && has_block(p->statement.kind) && token.starts_line &&
          ptm_begins_statement(token.kind) && token.loc.column > p->sync_indent &&
          p->error_loc.line == p->statement.loc.line && last != '}') {
        token = (ptm_token_t){.kind = '{', .loc = token.loc, .is_synthetic = true};
        track(p, &token);
        return token;
      }
      return sync_token(token.loc);
    }
    track(p, &token);
    if (token.kind == '{' && at_base && p->sync_takes_brace) {
      p->is_syncing = false;
      return token;
    }
    last = token.kind;
  }
}

// ---- recovery ----

// Is a '{' that follows now something the grammar takes after an error?
static bool takes_brace(const ptm_parse_t *p, ptm_block_kind_t outer, ptm_block_kind_t pending) {
  switch (outer) {
    case PTM_BLOCK_NONE:
      return pending || p->statement.kind == PTM_REPEAT || p->statement.kind == PTM_IF;
    case PTM_BLOCK_BODY: return pending != PTM_BLOCK_CLUSTER && pending != PTM_BLOCK_DEVICE;
    case PTM_BLOCK_CLUSTER: return true;
    default: return false;
  }
}

static void begin_sync(ptm_parse_t *p) {
  p->is_syncing = true;
  if (p->token.kind == '{') {
    // The block of this '{' is skipped whole.
    p->sync_base = p->num_brackets - 1;
  } else {
    p->sync_base = brace_base(p);
  }
  p->sync_indent = p->statement_indent;
  p->sync_takes_brace = takes_brace(p, ptm_block_kind(p), p->pending);
}

// Does the line of the found token begin a new statement, so that nothing of it must be lost?
static bool line_begins_statement(const ptm_parse_t *p) {
  const ptm_token_t *first = &p->line_tokens[0];
  int32_t count = p->num_line_tokens;
  if (count < 1 || count > PTM_MAX_LINE_TOKENS || !first->starts_line || first->was_replayed ||
      !ptm_begins_statement(first->kind))
    return false;
  if (first->kind != PTM_IDENT) return count == 1;
  bool is_outdented = first->loc.column <= p->statement_indent;
  if (count == 1) return is_outdented || !ptm_open_paren(p);
  // `y = x *` and then `z[b] = …`: the error shows at the second '='.
  if (p->token.kind != '=' && p->token.kind != '[') return false;
  for (int32_t i = 0; i < count; i++)
    if (p->line_tokens[i].kind == '{' || p->line_tokens[i].kind == '}') return false;
  return is_outdented && p->statement.loc.line < first->loc.line;
}

// Queues |head| and then the tokens of the current line again.
static bool replay_line(ptm_parse_t *p, const ptm_token_t *head, int32_t num_head) {
  ptm_token_t tokens[2 * PTM_MAX_LINE_TOKENS];
  int32_t count = p->num_line_tokens;
  if (num_head + count > 2 * PTM_MAX_LINE_TOKENS || count > PTM_MAX_LINE_TOKENS) return false;
  memcpy(tokens, head, (size_t)num_head * sizeof(*head));
  memcpy(&tokens[num_head], p->line_tokens, (size_t)count * sizeof(*tokens));
  tokens[num_head].was_replayed = true;
  if (!prepend(p, tokens, num_head + count)) return false;
  // What the line opened is opened again; brackets left open before it are given up.
  p->num_brackets = p->line_brackets;
  p->num_brackets = brace_base(p);
  p->num_line_tokens = 0;
  return true;
}

// Errors without progress would loop for ever: after a few at one place the rest is given up.
static bool is_stuck(ptm_parse_t *p) {
  const ptc_loc_t *loc = &p->token.loc;
  if (p->error_loc.line == loc->line && p->error_loc.column == loc->column)
    p->num_stuck++;
  else
    p->num_stuck = 0;
  p->error_loc = *loc;
  return p->num_stuck > 3;
}

void ptm_recover(ptm_parse_t *p, bool at_boundary, bool wants_brace) {
  const ptm_token_t token = p->token;
  if (is_stuck(p)) {
    p->gave_up = true;
    return;
  }
  if (token.kind == PTM_END) return;
  if (token.kind == '}' && p->token_brackets > 0) {
    // The block ends all the same.
    p->num_brackets = p->token_brackets;
    p->num_brackets = brace_base(p);
    ptm_token_t again[2] = {sync_token(token.loc), token};
    if (!token.is_synthetic) p->num_line_tokens--;
    prepend(p, again, token.is_synthetic && p->at_end ? 1 : 2);
    return;
  }
  if (token.kind == '{') {
    int32_t outer = p->num_brackets - 1;  // a '{' stands right after the one around it
    ptm_block_kind_t outer_kind = outer ? p->brackets[outer - 1].block : PTM_BLOCK_NONE;
    ptm_block_kind_t own_kind = p->brackets[p->num_brackets - 1].block;
    bool had_keyword = p->statement.kind != PTM_IDENT;
    // `y = {`: no block, but a value of some other language.
    bool is_value = p->statement.kind == PTM_IDENT && p->previous.kind != ')' &&
                    !ptm_ends_expression(p->previous.kind);
    if (!is_value && takes_brace(p, outer_kind, outer || had_keyword ? own_kind : PTM_BLOCK_NONE))
      return;
  } else if ((!at_boundary || p->num_line_tokens > 1) && line_begins_statement(p)) {
    bool opens_block = (wants_brace || has_block(p->statement.kind)) && !at_boundary &&
                       p->line_tokens[0].loc.column > p->statement_indent;
    ptm_token_t head = sync_token(token.loc);
    if (opens_block) head = (ptm_token_t){.kind = '{', .loc = token.loc, .is_synthetic = true};
    if (replay_line(p, &head, 1)) return;
  }
  begin_sync(p);
}

void ptm_recover_closing(ptm_parse_t *p, int32_t num_blocks) {
  ptm_token_t head[PTM_MAX_LINE_TOKENS];
  int32_t count = 0;
  if (num_blocks + 1 > PTM_MAX_LINE_TOKENS || is_stuck(p)) {
    ptm_recover(p, true, false);
    return;
  }
  head[count++] = sync_token(p->token.loc);
  for (int32_t i = 0; i < num_blocks; i++)
    head[count++] = (ptm_token_t){.kind = '}', .loc = p->token.loc, .is_synthetic = true};
  if (!replay_line(p, head, count)) ptm_recover(p, true, false);
}

// ---- what bison calls ----

static ptm_token_t next_token(ptm_parse_t *p) {
  if (p->is_syncing) return skip_to_sync(p);
  ptm_token_t token = fetch(p);
  int32_t base = brace_base(p);
  if (token.kind == PTM_END && base > 0) {
    // A block without '{' has been reported already.
    bool is_known = p->reported_unclosed || p->brackets[base - 1].is_synthetic;
    if (!is_known) ptm_unclosed_block(p, token.loc);
    p->reported_unclosed = true;
    token = (ptm_token_t){.kind = '}', .loc = token.loc, .is_synthetic = true, .text = "}"};
  }
  if (is_juxtaposed(p, &token)) token.kind = PTM_JUXTAPOSED;
  note_statement(p, &token);
  track(p, &token);
  return token;
}

int ptm_lex(PTM_STYPE *value, ptc_loc_t *loc, ptm_parse_t *p) {
  if (p->gave_up) return PTM_END;
  ptm_token_t token = next_token(p);
  p->before_previous = p->previous;
  p->previous = p->token;
  p->token = token;
  *loc = token.loc;
  switch (token.kind) {
    case PTM_IDENT: value->PTM_IDENT = token.text; break;
    case PTM_NUMBER: value->PTM_NUMBER = token.text; break;
    case PTM_STRING: value->PTM_STRING = token.text; break;
    case PTM_PATH: value->PTM_PATH = token.text; break;
    case PTM_UNIT: value->PTM_UNIT = token.text; break;
    case PTM_BROKEN:
      // The scanner has reported it; bison recovers without another word.
      p->error_loc = token.loc;
      begin_sync(p);
      break;
    default: break;
  }
  return token.kind;
}

void ptm_tokens_deinit(ptm_parse_t *p) {
  free(p->brackets);
  p->brackets = NULL;
  p->num_brackets = p->brackets_capacity = 0;
}
