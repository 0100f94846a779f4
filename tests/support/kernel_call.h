// Prints, compiles and runs one op of a small program as a kernel, on the data of the interpreter.
#ifndef PTC_TESTS_SUPPORT_KERNEL_CALL_H_
#define PTC_TESTS_SUPPORT_KERNEL_CALL_H_

#include "codegen/codegen.h"
#include "ir/interp.h"
#include "runtime/kernel_abi.h"

typedef struct kernel_call_s {
  ptc_arena_t arena;
  ptc_diag_t diag;
  const ptc_kernel_t *kernel;
  ptc_kernel_shape_t shape;
  char *source;
  void *library;
  ptc_kernel_fn_t run;
  void **buffers;  // per parameter, then the workspace
  void *scratch;
} kernel_call_t;

// Compiles |source| into a shared object under the build folder and opens it (dlopen); NULL, with the
// compiler's words printed, if that fails. |tag| keeps files of one process apart.
void *kernel_compile(const char *source, const char *tag);
// Prints and compiles |kernel| (in self->arena). False, with diagnostics printed, on errors.
bool kernel_call_open(kernel_call_t *self, const ptc_kernel_t *kernel, const char *tag);
void kernel_call_close(kernel_call_t *self);
int64_t kernel_param_elements(const ptc_kernel_t *kernel, int32_t param);
// Copies numbers into a parameter's buffer, rounded to its dtype; and out of it.
void kernel_call_set(kernel_call_t *self, int32_t param, const double *data);
void kernel_call_get(const kernel_call_t *self, int32_t param, double *out_data);
// Runs all tiles, those of a phase in random order if |random| is not NULL. Memory behind each buffer, the
// scratch and the workspace is checked; false if it was touched or the kernel reported a fault.
bool kernel_call_run(kernel_call_t *self, uint64_t *random);

#endif  // PTC_TESTS_SUPPORT_KERNEL_CALL_H_
