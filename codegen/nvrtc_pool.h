// NVRTC in processes of its own: it compiles on all cores, and when it crashes or hangs only a kernel is lost, not
// the caller.
#ifndef PTC_CODEGEN_NVRTC_POOL_H_
#define PTC_CODEGEN_NVRTC_POOL_H_

#include <signal.h>

#include "codegen/nvrtc.h"

typedef struct ptc_nvrtc_pool_s ptc_nvrtc_pool_t;

// One kernel: |name| is for messages, |source| a text.
typedef struct ptc_nvrtc_job_s {
  const char *name, *source;
  char
      *code;  // the result, malloc'ed and followed by a NUL that |len| excludes; NULL: not compiled
  size_t len;
  ptc_cuda_resources_t resources;
} ptc_nvrtc_job_t;

// At most |num_workers| processes of the program ptc-nvrtc, which start when there is work and find the same NVRTC as
// |nvrtc|, which outlives the pool. The program is the file $PTC_NVRTC_WORKER, or lies beside this process's, in the
// folder above, or in ../lib/ptc. Compiling stops soon after |cancel| (may be NULL) is set.
// Neither threads of the caller, nor its handlers of signals, nor other children matter. NULL with the diagnostic
// "nvrtc-worker" (PTC_DEVICE): the program was not found. The caller destroys it.
ptc_nvrtc_pool_t *ptc_nvrtc_pool_create(ptc_diag_t *diag, const ptc_nvrtc_t *nvrtc,
                                        int32_t num_workers, const volatile sig_atomic_t *cancel);
// Ends its processes. NULL is allowed.
void ptc_nvrtc_pool_destroy(ptc_nvrtc_pool_t *pool);

// Compiles |jobs| for |target|, the first ones first; their results are freed by the caller, also after an error, when
// some have none. One thread at a time.
// A kernel on which NVRTC crashes, or takes longer than $PTC_NVRTC_LIMIT seconds (600; 0: forever), is compiled again
// with fewer optimizations, then with a bound of registers in place of the launch bounds; what worked is told by the warning
// "nvrtc-retried". Errors: "nvrtc-failed" (PTC_INTERNAL) with NVRTC's log; "nvrtc-crashed" (PTC_DEVICE) if nothing
// worked; "nvrtc-worker" (PTC_DEVICE) if no process starts; "compile-cancelled" (PTC_IO).
ptc_status_t ptc_nvrtc_pool_compile(ptc_nvrtc_pool_t *pool, ptc_diag_t *diag, const char *target,
                                    ptc_nvrtc_job_t *jobs, int32_t num_jobs);

#endif  // PTC_CODEGEN_NVRTC_POOL_H_
