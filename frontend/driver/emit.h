// From a module to a plan: the last passes, code generation, the plan folder.
#ifndef PTC_FRONTEND_DRIVER_EMIT_H_
#define PTC_FRONTEND_DRIVER_EMIT_H_

#include "ir/plan.h"
#include "passes/pass.h"
#include "passes/split_stages.h"
#include "runtime/cpu/kernel_objects.h"

// A plan in memory, with the source of each of its kernels.
typedef struct ptc_emitted_s {
  ptc_plan_t *plan;
  ptc_kernel_source_t *sources;
} ptc_emitted_t;

// Lowers |module|, which went through ptc_pipeline_train, to a plan for |target| ("cpu"): fuse, buffers and
// steps, C for every kernel, addresses. Diagnostics go to module->diag: those of fuse, lower_plan.h and
// codegen.h, "unknown-target". If ctx->stopped, afterwards, there is no plan and |out_emitted| is empty; so it
// is on error.
ptc_status_t ptc_emit(ptc_pass_ctx_t *ctx, ptc_module_t *module, const char *target,
                      ptc_emitted_t *out_emitted);
// The same for one stage of a pipeline, after ptc_stages_add_axis.
ptc_status_t ptc_emit_stage(ptc_pass_ctx_t *ctx, const ptc_stages_t *stages, int32_t stage,
                            const char *target, ptc_emitted_t *out_emitted);
void ptc_emitted_deinit(ptc_emitted_t *emitted);

// Proves the plans of all |count| stages (ptc_plan_check, ptc_plan_prove). What speaks against
// them is a fault of the compiler: PTC_INTERNAL with "plan-unproved" and the counterexample.
ptc_status_t ptc_emit_prove(ptc_diag_t *diag, const ptc_emitted_t *emitted, int32_t count);

// Writes the plan folder |path|, if it can be proved (ptc_emit_prove), whole or not at all: into a folder beside it, which then takes its place. A
// plan folder that is there is replaced; anything else is refused ("output-exists"). PTC_IO with
// "write-plan" if it cannot be written.
ptc_status_t ptc_emit_write(ptc_module_t *module, const ptc_emitted_t *emitted, const char *path);
// The same of the stages of a pipeline. |why|: the text of why.json in it; NULL: there is none.
ptc_status_t ptc_emit_write_stages(ptc_module_t *const *modules, const ptc_emitted_t *emitted,
                                   int32_t count, const char *why, const char *path);
// Whether ptc_emit_write would refuse |path|: asked before the work.
ptc_status_t ptc_emit_check_output(ptc_diag_t *diag, const char *path);

#endif  // PTC_FRONTEND_DRIVER_EMIT_H_
