// Stands in where this build has no c_single.c.
#include "codegen/codegen.h"

ptc_status_t ptc_c_single(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                          const ptc_c_target_t *target, ptc_str_t *out,
                          ptc_kernel_shape_t *out_shape) {
  (void)arena;
  (void)target;
  (void)out;
  *out_shape = (ptc_kernel_shape_t){0};
  return ptc_error(diag, kernel->loc, PTC_INVALID_INPUT, "codegen-unsupported",
                   "this build cannot print kernel \"%s\" (%s)", kernel->name, kernel->about);
}
