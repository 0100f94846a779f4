// From .ptm files to a module: what every sub-command begins with.
#ifndef PTC_FRONTEND_DRIVER_COMPILE_H_
#define PTC_FRONTEND_DRIVER_COMPILE_H_

#include "frontend/lower.h"
#include "ir/module.h"
#include "passes/pass.h"

// Parses and lowers |num_files| files; later ones override earlier ones key by key. |out_module| is
// NULL on error, and for files without a model.
ptc_status_t ptc_compile_files(ptc_diag_t *diag, const char *const *files, int32_t num_files,
                               const ptc_lower_options_t *options, ptc_module_t **out_module);
// The same, into a tree that the caller has initialized and may look at afterwards.
ptc_status_t ptc_compile_files_into(ptc_diag_t *diag, ptc_ast_t *ast, const char *const *files,
                                    int32_t num_files, const ptc_lower_options_t *options,
                                    ptc_module_t **out_module);
// The same for text in memory.
ptc_status_t ptc_compile_text(ptc_diag_t *diag, const char *file, const char *text, size_t len,
                              const ptc_lower_options_t *options, ptc_module_t **out_module);

#endif  // PTC_FRONTEND_DRIVER_COMPILE_H_
