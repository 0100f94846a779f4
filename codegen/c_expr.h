// Private to codegen/c_expr.c and c_ops.c.
#ifndef PTC_CODEGEN_C_EXPR_H_
#define PTC_CODEGEN_C_EXPR_H_

#include "ir/kernel.h"

// The C expression of OP |expr| with its operands' texts (names or literals), rounded to its dtype; in
// |arena|. NULL: the op has no elementwise C form for these dtypes.
const char *ptc_c_op_text(ptc_arena_t *arena, const ptc_kernel_t *kernel, ptc_kx_t expr,
                          const char *const *args);

#endif  // PTC_CODEGEN_C_EXPR_H_
