// How a compiled kernel is called. Generated C declares the same struct in its own text.
#ifndef PTC_RUNTIME_KERNEL_ABI_H_
#define PTC_RUNTIME_KERNEL_ABI_H_

#include <stdint.h>

enum { PTC_KERNEL_ABI = 1 };

typedef struct ptc_kernel_call_s {
  void *const
      *params;  // in the order of the kernel's parameters; last its workspace, if it has one
  const int64_t *turns;  // of the enclosing repeats, outermost first
  void *scratch;         // this thread's, 64-byte aligned
  int32_t *fault;        // set to a non-zero code: 1 an index out of range
} ptc_kernel_call_t;

// Runs tile |tile| of phase |phase|; tiles of a phase run in any order, on any thread.
typedef void (*ptc_kernel_fn_t)(const ptc_kernel_call_t *call, int64_t phase, int64_t tile);

#endif  // PTC_RUNTIME_KERNEL_ABI_H_
