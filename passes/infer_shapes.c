// infer-shapes: types flow from globals and constants through every op.
#include "ir/verify.h"
#include "passes/pass.h"

ptc_status_t ptc_pass_infer_shapes(ptc_pass_ctx_t *ctx, ptc_module_t *module) {
  (void)ctx;
  return ptc_module_infer_shapes(module);
}
