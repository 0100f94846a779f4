// Runs kernels by walking their expressions in double: the meaning of ir/kernel.h, slowly and simply.
#ifndef PTC_TESTS_SUPPORT_KERNEL_EVAL_H_
#define PTC_TESTS_SUPPORT_KERNEL_EVAL_H_

#include "ir/interp.h"
#include "ir/kernel.h"

// Executes a nest or a GEMM. |params|: one array per parameter. |turns|: of the enclosing repeats. |exact|:
// float dtypes round nothing. False, with a line on stderr, if it reads or writes outside of a parameter.
bool kernel_eval(const ptc_kernel_t *kernel, double *const *params, const int64_t *turns,
                 bool exact);

typedef struct module_run_s module_run_t;

// Runs function |name| of a module that `fuse` has marked by its kernels, on the globals of |interp| (which
// stay as they are). NULL, with diagnostics of the module printed, on failure.
module_run_t *module_run(ptc_interp_t *interp, ptc_module_t *module, const char *name, bool exact);
void module_run_free(module_run_t *run);
// The value that result |index| of the return has.
const ptc_tensor_t *module_run_result(const module_run_t *run, int32_t index);
int32_t module_run_num_kernels(const module_run_t *run);

// Runs |name| by its kernels and by the interpreter on the same random globals, and compares all results.
// The largest difference of an element relative to the largest element of its result (inf: failed).
double module_run_compare(ptc_module_t *module, const char *name, uint64_t seed, bool exact,
                          char out_worst[256]);

#endif  // PTC_TESTS_SUPPORT_KERNEL_EVAL_H_
