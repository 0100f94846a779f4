// From .ptm text to the syntax tree.
#ifndef PTC_FRONTEND_PARSE_H_
#define PTC_FRONTEND_PARSE_H_

#include "frontend/ast.h"

// Parses |text| (|len| bytes, any content, NULs included) as |file| and appends its items to |ast|.
// Registers the source with |diag|. Includes are resolved relative to the including file; a file
// that includes itself, or is missing, is an error. Reports every independent syntax error; returns
// PTC_INVALID_INPUT if there was one.
ptc_status_t ptc_parse_text(ptc_diag_t *diag, ptc_ast_t *ast, const char *file, const char *text,
                            size_t len);
// Reads and parses |path| ("-": standard input). PTC_IO with a diagnostic if it cannot be read.
ptc_status_t ptc_parse_file(ptc_diag_t *diag, ptc_ast_t *ast, const char *path);

#endif  // PTC_FRONTEND_PARSE_H_
