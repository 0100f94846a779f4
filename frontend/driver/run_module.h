// Runs a function of a module on the interpreter, with state from and to safetensors files.
#ifndef PTC_FRONTEND_DRIVER_RUN_MODULE_H_
#define PTC_FRONTEND_DRIVER_RUN_MODULE_H_

#include <stdio.h>

#include "ir/interp.h"

// Seed and streams of inputs that no file gives: stream "data." and the input's path, step 0,
// u = uniform in [0, 1): integers floor(u * range), bools u >= 0.5, floats 2 u - 1.
enum { PTC_RUN_DATA_SEED = 7 };

typedef struct ptc_run_options_s {
  ptc_interp_mode_t mode;
  bool init;         // run @init first, if the module has it
  bool draw_inputs;  // fill inputs that |load_path| does not give
  // NULL: no such file. A bundle's instances are arrays of their own, "block.3.attn.wq".
  const char *load_path, *dump_path;
  // "path=number": sets all elements of the globals of that path, after loading.
  const char *const *sets;
  int32_t num_sets;
  FILE *print_to;  // NULL, or where the scalar results are printed: `loss 4.1`
} ptc_run_options_t;

// Runs @name once and dumps
//   loss, loss.NAME, metric.NAME, output.NAME   the named values; NAME for other roles
//   grad.PATH                                   the gradient by a parameter
//   PATH                                        every global that the function reads or writes: a
//                                               new version where there is one
// in f64 for floats if the mode is exact, else in their own dtypes.
// Diagnostics: "load-shape", "load-missing" (a parameter or input that the function reads, where
// the file gives others of its kind only), "unknown-global", and those of the interpreter and of
// safetensors.h. Arrays of the file that are no globals are ignored with a warning
// ("load-unknown"), results of an earlier run silently.
ptc_status_t ptc_run_module(ptc_module_t *module, const char *name,
                            const ptc_run_options_t *options);

// The pieces, for callers that run several steps.
ptc_status_t ptc_run_load(ptc_interp_t *interp, const ptc_module_t *module, const ptc_func_t *func,
                          const ptc_run_options_t *options);
ptc_status_t ptc_run_dump(ptc_interp_t *interp, const ptc_func_t *func, ptc_interp_mode_t mode,
                          const char *path);
ptc_status_t ptc_run_draw(ptc_interp_t *interp, const ptc_global_t *input);
// The named scalars of the last run of |func|, one line each: `loss loss 4.1`.
void ptc_run_print_scalars(const ptc_interp_t *interp, const ptc_func_t *func, FILE *out);

#endif  // PTC_FRONTEND_DRIVER_RUN_MODULE_H_
