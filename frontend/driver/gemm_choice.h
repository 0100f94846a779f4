// Which products of a CUDA plan go to cuBLASLt where it is there: by the config's `gemm`, and by what both ways would
// cost.
#ifndef PTC_FRONTEND_DRIVER_GEMM_CHOICE_H_
#define PTC_FRONTEND_DRIVER_GEMM_CHOICE_H_

#include "codegen/cuda_codegen.h"
#include "ir/cluster.h"
#include "passes/pass.h"

typedef struct ptc_gemm_choice_s {
  ptc_cuda_options_t options;
  const char *how;  // "auto", "generated", "cublaslt"
  int32_t arch;     // 80, 90, ...
  ptc_arena_t arena;
  bool looked_up;
  const ptc_device_model_t *device;  // whose costs decide; NULL: not known
} ptc_gemm_choice_t;

// For plans of |module| for |target|. With a planner in |ctx| its cluster's device decides, else the first of the catalog
// of the target's kind.
void ptc_gemm_choice_init(ptc_gemm_choice_t *choice, const ptc_pass_ctx_t *ctx,
                          const ptc_module_t *module, const char *target);
void ptc_gemm_choice_deinit(ptc_gemm_choice_t *choice);

// The product that |kernel| is, if the library is to do it; in |arena|. Raises |shape|'s workspace to what the library
// may use. NULL: the generated kernel, of |shape|, stays alone.
const ptc_plan_gemm_t *ptc_gemm_choose(ptc_gemm_choice_t *choice, ptc_arena_t *arena,
                                       const ptc_kernel_t *kernel, ptc_kernel_shape_t *shape);

#endif  // PTC_FRONTEND_DRIVER_GEMM_CHOICE_H_
