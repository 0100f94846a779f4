// Private to ir/parser*.c: the parser's state, and what one file needs of the other. Functions that
// return bool are true on success; on failure one diagnostic was emitted.
#ifndef PTC_IR_PARSER_IMPL_H_
#define PTC_IR_PARSER_IMPL_H_

#include "ir/base/vec.h"
#include "ir/lexer.h"
#include "ir/op.h"

// Bounds on what hostile text can ask for; far above what the compiler itself writes.
enum {
  PTC_PARSE_MAX_DEPTH = 64,       // nested regions
  PTC_PARSE_MAX_OPERANDS = 4096,  // of an op without a body
  PTC_PARSE_MAX_LIST = 65536,     // results, carried values, entries of return, attribute lists
  PTC_PARSE_MAX_ATTRS = 256,      // of one op, global or config
  PTC_PARSE_MAX_FUNCS = 1024,
  PTC_PARSE_MAX_AXES = 16,
};

typedef struct ptc_parser_s {
  ptc_diag_t *diag;
  ptc_module_t *module;
  ptc_arena_t arena;  // token texts
  ptc_lexer_t lexer;
  ptc_token_t token;
  ptc_func_t *func;
  ptc_map_t globals;  // interned path -> list of those called so
  ptc_map_t values;   // interned name -> value, or the mark of a broken one
  // Names in order of definition, so that a block's own ones go out of scope with it.
  PTC_VEC(const char *) scope;
  int depth;
  int32_t num_funcs;
  int64_t max_errors;  // reading stops at so many
} ptc_parser_t;

// --- tokens (parser_base.c)
void ptc_parse_advance(ptc_parser_t *p);
// Reports that |what| was expected; returns false.
bool ptc_parse_expected(ptc_parser_t *p, const char *what);
// Reports that there are more than |limit| of |what|; returns false.
bool ptc_parse_too_many(ptc_parser_t *p, const char *what, int64_t limit);
bool ptc_parse_is_punct(const ptc_parser_t *p, char c);
bool ptc_parse_is_word(const ptc_parser_t *p, const char *word);
bool ptc_parse_accept_punct(ptc_parser_t *p, char c);
bool ptc_parse_accept_word(ptc_parser_t *p, const char *word);
bool ptc_parse_need_punct(ptc_parser_t *p, char c);
const char *ptc_parse_intern(ptc_parser_t *p, const char *text);
// The name of a dim or an attribute, bare or quoted; interned.
bool ptc_parse_name(ptc_parser_t *p, const char *what, const char **out);
bool ptc_parse_int(ptc_parser_t *p, const char *what, int64_t min, int64_t *out);
// `loc("file":1:2)` or `loc(none)`, if there is one; else |out_given| is false.
bool ptc_parse_loc(ptc_parser_t *p, ptc_loc_t *out, bool *out_given);

// --- types and attributes (parser_items.c)
const ptc_type_t *ptc_parse_type(ptc_parser_t *p);  // NULL after an error
// |opcode| PTC_NUM_OPS: free attributes, whose kinds are read off the values.
bool ptc_parse_attrs(ptc_parser_t *p, ptc_opcode_t opcode, ptc_attrs_t *out);

#endif  // PTC_IR_PARSER_IMPL_H_
