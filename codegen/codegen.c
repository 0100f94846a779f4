// From a kernel to its printer.
#include "codegen/codegen.h"

typedef ptc_status_t (*printer_t)(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                                  const ptc_c_target_t *target, ptc_str_t *out,
                                  ptc_kernel_shape_t *out_shape);

static printer_t printer_of(ptc_kernel_kind_t kind) {
  switch (kind) {
    case PTC_KERNEL_NEST: return ptc_c_nest;
    case PTC_KERNEL_GEMM: return ptc_c_gemm;
    case PTC_KERNEL_ATTENTION: return ptc_c_attention;
    case PTC_KERNEL_ATTENTION_GRAD: return ptc_c_attention_grad;
    default: return ptc_c_single;
  }
}

ptc_status_t ptc_codegen_c(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                           const ptc_c_target_t *target, ptc_str_t *out,
                           ptc_kernel_shape_t *out_shape) {
  *out_shape = (ptc_kernel_shape_t){0};
  return printer_of(kernel->kind)(diag, arena, kernel, target, out, out_shape);
}
