// From the syntax tree to the IR: names, dims, contraction, layers, regions (frontend/LANGUAGE.md).
#ifndef PTC_FRONTEND_LOWER_H_
#define PTC_FRONTEND_LOWER_H_

#include "frontend/ast.h"
#include "ir/module.h"

// `--set NAME=TEXT`: a model parameter ("layers") or a train setting ("train.lr").
typedef struct ptc_override_s {
  const char *name, *text;
} ptc_override_t;

typedef struct ptc_lower_options_s {
  const ptc_override_t *overrides;
  int32_t num_overrides;
  // `--parallel`: settings of a parallel block, separated by commas ("dp=2,tp=2"), after those of all files. May be
  // NULL.
  const char *parallel;
  int64_t world;  // `--world`: the number of ranks; 0: what the axes give
} ptc_lower_options_t;

// Checks the whole program and lowers its model to a module with the functions init, train (forward
// only; autodiff adds the rest) and eval. Every problem is a diagnostic, as many independent ones as
// can be found; then the status is PTC_INVALID_INPUT and |out_module| is NULL. A file without a
// model (a cluster, a parallel block) is checked; |out_module| is NULL and the status PTC_OK.
ptc_status_t ptc_lower_ast(ptc_diag_t *diag, ptc_ast_t *ast, const ptc_lower_options_t *options,
                           ptc_module_t **out_module);

#endif  // PTC_FRONTEND_LOWER_H_
