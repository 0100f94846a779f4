// The kernels of fused modules.
#ifndef PTC_TESTS_SUPPORT_KERNEL_GROUPS_H_
#define PTC_TESTS_SUPPORT_KERNEL_GROUPS_H_

#include "passes/build_kernels.h"

enum { KERNEL_GROUP_OPS = 4096 };

// The ops from |first| on that have its `kernel` number. Returns how many.
int32_t kernel_group(ptc_op_t *first, ptc_op_t **out_ops);
// Builds and verifies every kernel of |module|, which `fuse` has marked; appends their text to |out| (may be
// NULL). Returns the number of kernels, or -1 with diagnostics.
int32_t kernel_groups_build(ptc_module_t *module, ptc_arena_t *arena, ptc_str_t *out);

#endif  // PTC_TESTS_SUPPORT_KERNEL_GROUPS_H_
