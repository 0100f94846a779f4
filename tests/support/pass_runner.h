// Loads .ptir programs and runs passes over them.
#ifndef PTC_TESTS_SUPPORT_PASS_RUNNER_H_
#define PTC_TESTS_SUPPORT_PASS_RUNNER_H_

#include "ir/interp.h"
#include "passes/pass.h"

// A module with a sink of its own. |module| is NULL if the text is wrong (diagnostics are printed).
typedef struct program_s {
  ptc_diag_t diag;
  ptc_module_t *module;
} program_t;

// tests/ir/NAME.ptir with types inferred, or the text itself.
void program_load(program_t *program, const char *name);
void program_parse(program_t *program, const char *text);
void program_deinit(program_t *program);
// Whether a diagnostic has that id.
bool program_has_error(const program_t *program, const char *id);

// Runs the passes "a b c" with the semantics of each checked; diagnostics are printed unless
// |quiet|.
ptc_status_t run_passes(ptc_module_t *module, const char *passes, bool quiet);
// The same without that check: for passes that add to what a module computes, and for errors.
ptc_status_t run_passes_unchecked(ptc_module_t *module, const char *passes, bool quiet);
int count_ops(const ptc_module_t *module, ptc_opcode_t opcode);

// Result NAME (a value), or the gradient or new state of the global with that path, of the last run
// of |func|. NULL if there is none.
const ptc_tensor_t *result_value(const ptc_interp_t *interp, const ptc_func_t *func,
                                 const char *name);
const ptc_tensor_t *result_of(const ptc_interp_t *interp, const ptc_func_t *func,
                              ptc_result_kind_t kind, const char *path);
// The first number of a global's state.
double *global_data(ptc_interp_t *interp, const ptc_module_t *module, const char *path);

#endif  // PTC_TESTS_SUPPORT_PASS_RUNNER_H_
