// Kernels as machine code: printed, compiled with the system's compiler (many in one call), loaded, run.
#ifndef PTC_TESTS_SUPPORT_KERNEL_RUN_H_
#define PTC_TESTS_SUPPORT_KERNEL_RUN_H_

#include "codegen/codegen.h"
#include "runtime/kernel_abi.h"

typedef struct kernel_set_s kernel_set_t;

kernel_set_t *kernel_set_create(ptc_diag_t *diag);
void kernel_set_free(kernel_set_t *set);
// Prints |kernel|, which must outlive the set; its number, or -1 with a diagnostic.
int32_t kernel_set_add(kernel_set_t *set, const ptc_kernel_t *kernel);
int32_t kernel_set_count(const kernel_set_t *set);
const char *kernel_set_source(const kernel_set_t *set, int32_t number);
const ptc_kernel_shape_t *kernel_set_shape(const kernel_set_t *set, int32_t number);
// Compiles all kernels, with the sanitizers of this program. |flags| NULL: those of a plan. False, with what
// the compiler says on stderr, on failure.
bool kernel_set_build(kernel_set_t *set, const char *flags);

// The entry point of a kernel that is built.
ptc_kernel_fn_t kernel_set_fn(const kernel_set_t *set, int32_t number);

// Runs all phases on |params|, one buffer per parameter, as stored. The tiles of a phase run in order if
// |shuffle| is 0, else in an order that it seeds. Workspace and scratch are filled with garbage first.
// Returns the fault.
int32_t kernel_set_run(const kernel_set_t *set, int32_t number, void *const *params,
                       const int64_t *turns, uint64_t shuffle);

// |count| numbers to and from storage of |dtype|; the numbers are values of that dtype.
void kernel_pack(ptc_dtype_t dtype, const double *values, int64_t count, void *out_storage);
void kernel_unpack(ptc_dtype_t dtype, const void *storage, int64_t count, double *out_values);

#endif  // PTC_TESTS_SUPPORT_KERNEL_RUN_H_
