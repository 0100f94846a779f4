// Kernels that each break one rule of ptc_kernel_verify.
#ifndef PTC_TESTS_SUPPORT_BAD_KERNELS_H_
#define PTC_TESTS_SUPPORT_BAD_KERNELS_H_

#include "ir/kernel.h"

typedef struct bad_kernel_s {
  const char *id;                       // of the one diagnostic that ptc_kernel_verify must emit
  void (*spoil)(ptc_kernel_t *kernel);  // applied to the good kernel
} bad_kernel_t;

extern const bad_kernel_t bad_kernels[];
extern const int num_bad_kernels;

// A nest that verifies, with loops b (column) and d (row): y = exp(x - max over d of x), s = the sum of y over
// b, r = a random number where c.
ptc_kernel_t *good_kernel(ptc_arena_t *arena);

#endif  // PTC_TESTS_SUPPORT_BAD_KERNELS_H_
