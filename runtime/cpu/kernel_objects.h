// The kernels of a plan as machine code: compiled by the system's C compiler, in parallel, and kept in a
// cache under the hash of source, compiler, flags and CPU.
#ifndef PTC_RUNTIME_CPU_KERNEL_OBJECTS_H_
#define PTC_RUNTIME_CPU_KERNEL_OBJECTS_H_

#include <signal.h>
#include <stdbool.h>

#include "ir/base/diag.h"
#include "runtime/kernel_abi.h"

typedef struct ptc_kernel_source_s {
  const char *name;  // of its one entry point: an identifier
  const char *text;
  size_t len;
} ptc_kernel_source_t;

// Sorts |numbers| of sources: the longest first, which takes longest to compile, so that no job is left with it at the end.
void ptc_kernel_sources_sort(const ptc_kernel_source_t *sources, int32_t *numbers, int32_t count);

// All zero: this CPU, the user's cache, all cores, silent.
typedef struct ptc_kernel_objects_options_s {
  const char *target;  // of the plan; NULL: "cpu"
  const char *cache_folder;
  int32_t num_jobs;
  bool progress;                        // on stderr
  const volatile sig_atomic_t *cancel;  // compiling stops soon after it is set
} ptc_kernel_objects_options_t;

typedef struct ptc_kernel_objects_s ptc_kernel_objects_t;

// Compiles what the cache lacks of |sources| and loads everything. Diagnostics: those of compiler.h and
// object_cache.h; "compile-failed" with the compiler's words; "compile-cancelled" (PTC_IO); "object-load".
ptc_status_t ptc_kernel_objects_create(ptc_diag_t *diag, const ptc_kernel_source_t *sources,
                                       int32_t num_sources,
                                       const ptc_kernel_objects_options_t *options,
                                       ptc_kernel_objects_t **out_objects);
void ptc_kernel_objects_destroy(ptc_kernel_objects_t *objects);  // NULL is allowed
// The entry point of source |index|.
ptc_kernel_fn_t ptc_kernel_objects_entry(const ptc_kernel_objects_t *objects, int32_t index);
// How many were not in the cache.
int32_t ptc_kernel_objects_num_compiled(const ptc_kernel_objects_t *objects);

#endif  // PTC_RUNTIME_CPU_KERNEL_OBJECTS_H_
