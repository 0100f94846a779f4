// What scanner, token filter, grammar and tree building share. Private to the parser.
#ifndef PTC_FRONTEND_PARSE_IMPL_H_
#define PTC_FRONTEND_PARSE_IMPL_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "frontend/ast.h"

typedef struct ptm_parse_s ptm_parse_t;

// ---- lists that the grammar gathers; NULL is the empty list ----

typedef struct ptm_list_s {
  void **items;
  int32_t count, capacity;
} ptm_list_t;

typedef struct ptm_name_s {
  const char *text;
  ptc_loc_t loc;
} ptm_name_t;

typedef struct ptm_source_s {  // `from text + 1`
  const char *name;
  ptc_loc_t loc;
  const char *offset;
} ptm_source_t;

typedef struct ptm_arg_s {
  const char *name;
  ptc_expr_t *value;
} ptm_arg_t;

typedef struct ptm_else_s {
  bool has_else;
  ptm_list_t *body;
} ptm_else_t;

// A line of a train or parallel block: exactly one of the three.
typedef struct ptm_par_stmt_s {
  ptc_setting_t *setting;
  ptc_shard_stmt_t *shard;
  ptm_list_t *cuts;
} ptm_par_stmt_t;

// ---- tokens ----

enum { PTM_MAX_TOKEN = 384, PTM_MAX_LINE_TOKENS = 64, PTM_MAX_INCLUDES = 32 };

typedef struct ptm_token_s {
  int kind;
  const char *text;  // interned; of a string without quotes
  ptc_loc_t loc;
  bool starts_line;   // first token of its line
  bool is_synthetic;  // a '}' supplied at the end of the text, or the '{' of a broken head
  bool was_replayed;
} ptm_token_t;

typedef enum ptm_block_kind_e {
  PTM_BLOCK_NONE,      // outside any block
  PTM_BLOCK_BODY,      // of a model, layer, repeat or if
  PTM_BLOCK_SETTINGS,  // train, parallel
  PTM_BLOCK_CLUSTER,   // cluster, node
  PTM_BLOCK_DEVICE,
} ptm_block_kind_t;

typedef struct ptm_bracket_s {
  int kind;  // '{', '(' or '['
  ptc_loc_t loc;
  int32_t indent;  // column of the first token on its line
  ptm_block_kind_t block;
  int32_t base;       // number of brackets up to and including the innermost '{' here
  int head;           // of a '{': first token of the statement that it belongs to
  bool is_options;    // the parenthesis right after `param`
  bool is_synthetic;  // supplied for a head without '{'
} ptm_bracket_t;

typedef struct ptm_include_s {  // the files being read, innermost first
  const char *identity;         // absolute path where the file exists
  struct ptm_include_s *parent;
  int32_t depth;
} ptm_include_t;

struct ptm_parse_s {
  ptc_diag_t *diag;
  ptc_ast_t *ast;
  ptm_include_t *include;
  const char *file;
  bool include_failed;

  // scanner
  void *scanner;
  int32_t line, column;

  // token filter
  ptm_bracket_t *brackets;
  int32_t num_brackets, brackets_capacity;
  ptm_block_kind_t pending;  // kind of the next '{', by the keyword before it
  ptm_token_t token;         // delivered last
  ptm_token_t previous;      // delivered before that one; kind 0 at the start
  ptm_token_t before_previous;
  ptm_token_t before_line;     // delivered last before the current line
  ptm_token_t statement;       // first token of the statement or item
  int32_t statement_indent;    // of the line that it stands on
  ptm_token_t last_statement;  // the one before, in case |token| turns out not to begin one
  int32_t last_statement_indent;
  int32_t indent;                                // of the current line: column of its first token
  int32_t last_line;                             // line of the token scanned last
  bool closed_options;                           // |token| is the ')' of param(...)
  ptm_token_t line_tokens[PTM_MAX_LINE_TOKENS];  // of the current line, as scanned
  int32_t num_line_tokens;  // more than the array holds: the line cannot be replayed
  int32_t line_brackets;    // num_brackets before the current line
  int32_t token_brackets;   // num_brackets before |token|
  ptm_token_t replay[2 * PTM_MAX_LINE_TOKENS + 2];  // to be delivered before scanning on
  int32_t num_replay, next_replay;
  ptm_token_t end_of_text;  // kind 0 until it was scanned
  bool at_end;
  ptc_loc_t last_close;         // the '}' that last closed an item
  ptm_bracket_t dropped_paren;  // what |token|, a brace, left open; kind 0 if nothing
  ptm_bracket_t suspect;        // a '{' whose '}' stands further left than its line
  bool has_suspect;
  bool reported_unclosed, reported_stray, reported_depth;

  // recovery
  bool is_syncing;
  bool sync_takes_brace;  // a '{' ends the recovery: the grammar takes it as a block
  int32_t sync_base;      // num_brackets up to and including the enclosing '{'
  int32_t sync_indent;    // of the broken statement
  ptc_loc_t error_loc;    // where the latest error was found
  ptc_loc_t lexical_loc;  // of the latest error in the characters of a token
  int32_t num_stuck;      // errors at that same place
  bool gave_up;
};

// ---- ptm.l ----

// The next raw token; returns its kind.
int ptm_scan(ptm_token_t *token, void *scanner);

// ---- tokens.c ----

int ptm_set_token(ptm_parse_t *p, ptm_token_t *token, int kind, const char *text, size_t len);
// Kind of the block that the scanner is in.
ptm_block_kind_t ptm_block_kind(const ptm_parse_t *p);
// The innermost bracket that is open, or NULL.
const ptm_bracket_t *ptm_open_bracket(const ptm_parse_t *p);
// The innermost open '(' or '[' of the current statement, or NULL.
const ptm_bracket_t *ptm_open_paren(const ptm_parse_t *p);
// Called after an error was reported at |p->token|: chooses where the parser goes on.
// |at_boundary|: a statement could have ended before the token; |wants_brace|: '{' was expected.
void ptm_recover(ptm_parse_t *p, bool at_boundary, bool wants_brace);
// Like ptm_recover at a token that cannot stand in |num_blocks| of the open blocks: closes them
// first.
void ptm_recover_closing(ptm_parse_t *p, int32_t num_blocks);
// Number of open blocks.
int32_t ptm_num_blocks(const ptm_parse_t *p);
// The innermost open '{', or NULL.
const ptm_bracket_t *ptm_open_block(const ptm_parse_t *p);
// May this kind of token begin a statement, an item, or end a block?
bool ptm_begins_statement(int kind);
// Can an expression end with this kind of token?
bool ptm_ends_expression(int kind);
void ptm_tokens_deinit(ptm_parse_t *p);

// ---- syntax_error.c ----

// Reports a syntax error at |p->token| and starts the recovery. |expected|, |words|: by token kind.
void ptm_syntax_error(ptm_parse_t *p, const bool *expected, const char *const *words);
// An error in the characters of a token; silent where an error is being recovered from.
void ptm_lexical_error(ptm_parse_t *p, ptc_loc_t loc, const char *id, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// A character outside ASCII, well-formed as UTF-8.
void ptm_bad_character(ptm_parse_t *p, ptc_loc_t loc, const char *bytes, size_t len);
// Complains of bytes in a string that are no text.
void ptm_check_string(ptm_parse_t *p, ptc_loc_t loc, const char *text, size_t len);
// |text| cut to a length fit for a message.
const char *ptm_excerpt(ptm_parse_t *p, const char *text, size_t len);
void ptm_too_deep(ptm_parse_t *p, ptc_loc_t loc);
void ptm_unclosed_block(ptm_parse_t *p, ptc_loc_t loc);

// ---- parse.c ----

void ptm_add_include(ptm_parse_t *p, ptc_loc_t loc, const char *file);

// ---- ast_build.c: one function per form of the grammar ----

ptm_list_t *ptm_list(ptm_parse_t *p, ptm_list_t *list, void *item);
ptm_name_t *ptm_name(ptm_parse_t *p, ptc_loc_t loc, const char *text);

ptc_expr_t *ptm_leaf(ptm_parse_t *p, ptc_expr_kind_t kind, ptc_loc_t loc, const char *text);
ptc_expr_t *ptm_unary(ptm_parse_t *p, ptc_operator_t op, ptc_loc_t loc, ptc_expr_t *operand);
ptc_expr_t *ptm_binary(ptm_parse_t *p, ptc_operator_t op, ptc_loc_t loc, ptc_expr_t *lhs,
                       ptc_expr_t *rhs);
ptc_expr_t *ptm_paren(ptm_parse_t *p, ptc_loc_t loc, ptc_expr_t *inner);
ptc_expr_t *ptm_items(ptm_parse_t *p, ptc_expr_kind_t kind, ptc_loc_t loc, ptm_list_t *items);
ptc_expr_t *ptm_index(ptm_parse_t *p, ptc_expr_t *base, ptm_list_t *indices);
ptc_expr_t *ptm_call_expr(ptm_parse_t *p, ptc_expr_t *callee, ptm_list_t *args);
ptm_arg_t *ptm_arg(ptm_parse_t *p, const char *name, ptc_expr_t *value);

ptc_formal_t *ptm_formal(ptm_parse_t *p, ptc_loc_t loc, const char *name, bool is_tensor,
                         ptm_list_t *dims, ptc_expr_t *value);
ptc_call_t ptm_call(ptm_parse_t *p, ptc_loc_t loc, const char *name, bool has_args,
                    ptm_list_t *args);
ptc_target_t *ptm_target(ptm_parse_t *p, ptc_loc_t loc, const char *name, bool has_brackets,
                         ptm_list_t *indices);

ptc_stmt_t *ptm_stmt(ptm_parse_t *p, ptc_stmt_kind_t kind, ptc_loc_t loc);
ptc_stmt_t *ptm_named_stmt(ptm_parse_t *p, ptc_stmt_kind_t kind, ptc_loc_t loc, ptm_name_t name,
                           ptc_expr_t *value);
ptc_stmt_t *ptm_assign(ptm_parse_t *p, ptm_list_t *targets, ptc_expr_t *value);
ptc_stmt_t *ptm_output(ptm_parse_t *p, ptc_loc_t loc, ptm_list_t *names);
ptc_stmt_t *ptm_return(ptm_parse_t *p, ptc_loc_t loc, ptm_list_t *values);
ptc_stmt_t *ptm_if(ptm_parse_t *p, ptc_loc_t loc, ptc_expr_t *condition, ptm_list_t *body,
                   ptm_else_t other);
void ptm_decls(ptm_parse_t *p, ptc_stmt_t *stmt, ptm_list_t *decls);
ptc_stmts_t ptm_stmts(ptm_parse_t *p, ptm_list_t *list);
ptc_layer_t *ptm_layer(ptm_parse_t *p, ptm_name_t name, const char *alias_of, ptm_list_t *formals,
                       ptm_list_t *body);

ptc_setting_t *ptm_setting(ptm_parse_t *p, ptc_loc_t loc, const char *name, ptc_expr_t *value);
ptm_par_stmt_t *ptm_par_setting(ptm_parse_t *p, ptc_setting_t *setting);
ptm_par_stmt_t *ptm_par_shard(ptm_parse_t *p, ptc_cut_t *path, ptm_list_t *dims, ptm_name_t axis,
                              ptm_name_t over);
ptm_par_stmt_t *ptm_par_cuts(ptm_parse_t *p, ptm_list_t *paths);
ptc_cut_t *ptm_path(ptm_parse_t *p, ptc_loc_t loc, const char *text);
ptc_cluster_item_t *ptm_cluster_item(ptm_parse_t *p, ptc_cluster_item_kind_t kind, ptc_loc_t loc,
                                     const char *name, ptm_list_t *props);
void ptm_set_cluster_items(ptm_parse_t *p, ptc_cluster_item_t *node, ptm_list_t *items);
ptc_prop_t *ptm_prop(ptm_parse_t *p, ptc_loc_t loc, const char *name, ptc_quantity_t value);

void ptm_add_model(ptm_parse_t *p, ptm_name_t name, ptm_list_t *formals, ptm_list_t *body);
void ptm_add_layer(ptm_parse_t *p, ptc_layer_t *layer);
void ptm_add_settings(ptm_parse_t *p, ptc_item_kind_t kind, ptc_loc_t loc, ptm_list_t *stmts);
void ptm_add_cluster(ptm_parse_t *p, ptm_name_t name, ptm_list_t *formals, ptm_list_t *items);
void ptm_add_device(ptm_parse_t *p, ptm_name_t name, ptm_list_t *props);

#endif  // PTC_FRONTEND_PARSE_IMPL_H_
