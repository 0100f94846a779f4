// The tree as text again: canonical .ptm, and expressions in prefix form for tests.
#ifndef PTC_FRONTEND_AST_PRINT_H_
#define PTC_FRONTEND_AST_PRINT_H_

#include "frontend/ast.h"
#include "ir/base/str.h"

// Appends all items as .ptm text: one statement a line, comments dropped, included files in place.
// Parsing the text and printing again gives the same text.
void ptc_ast_print(const ptc_ast_t *ast, ptc_str_t *out);

// Appends |expr| with its structure made visible: `(+ a (* b c))`, `(index x b s)`,
// `(call f x eps=1e-5)`, `(paren e)`, `(tuple h k)`, `(list 1 2)`, `f@i`.
void ptc_expr_print_prefix(const ptc_expr_t *expr, ptc_str_t *out);

#endif  // PTC_FRONTEND_AST_PRINT_H_
