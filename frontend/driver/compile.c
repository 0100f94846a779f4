#include "frontend/driver/compile.h"

#include <string.h>

#include "frontend/parse.h"

// `--parallel dp=2,schedule=interleaved(chunks=2)` is a parallel block that comes last: the commas between settings
// become spaces.
static ptc_status_t parse_parallel(ptc_diag_t *diag, ptc_ast_t *ast,
                                   const ptc_lower_options_t *options) {
  if (!options || !options->parallel) return PTC_OK;
  ptc_str_t text = {0};
  ptc_str_append(&text, "parallel { ");
  int depth = 0;
  for (const char *c = options->parallel; *c; c++) {
    depth += (*c == '(') - (*c == ')');
    ptc_str_append_n(&text, *c == ',' && depth == 0 ? " " : c, 1);
  }
  ptc_str_append(&text, " }");
  const ptc_status_t status = ptc_parse_text(diag, ast, "--parallel", text.data, text.len);
  ptc_str_deinit(&text);
  return status;
}

ptc_status_t ptc_compile_files_into(ptc_diag_t *diag, ptc_ast_t *ast, const char *const *files,
                                    int32_t num_files, const ptc_lower_options_t *options,
                                    ptc_module_t **out_module) {
  *out_module = NULL;
  ptc_status_t status = PTC_OK;
  for (int32_t i = 0; i < num_files; i++) {
    ptc_status_t parsed = ptc_parse_file(diag, ast, files[i]);
    if (parsed != PTC_OK) status = parsed;
  }
  if (status == PTC_OK) status = parse_parallel(diag, ast, options);
  // After a syntax error the tree has holes: complaints about names would be follow-ups.
  return status == PTC_OK ? ptc_lower_ast(diag, ast, options, out_module) : status;
}

ptc_status_t ptc_compile_files(ptc_diag_t *diag, const char *const *files, int32_t num_files,
                               const ptc_lower_options_t *options, ptc_module_t **out_module) {
  ptc_ast_t ast;
  ptc_ast_init(&ast);
  const ptc_status_t status =
      ptc_compile_files_into(diag, &ast, files, num_files, options, out_module);
  ptc_ast_deinit(&ast);
  return status;
}

ptc_status_t ptc_compile_text(ptc_diag_t *diag, const char *file, const char *text, size_t len,
                              const ptc_lower_options_t *options, ptc_module_t **out_module) {
  *out_module = NULL;
  ptc_ast_t ast;
  ptc_ast_init(&ast);
  ptc_status_t status = ptc_parse_text(diag, &ast, file, text, len);
  if (status == PTC_OK) status = parse_parallel(diag, &ast, options);
  if (status == PTC_OK) status = ptc_lower_ast(diag, &ast, options, out_module);
  ptc_ast_deinit(&ast);
  return status;
}
