// From a fused module to a plan: buffers, steps, addresses.
//
// Order of calls (frontend/driver/emit.c): ptc_lower_plan, then codegen prints every kernel and
// ptc_plan_set_shape records its launch shape (workspace included), then ptc_plan_memory, ptc_plan_simplify.
#ifndef PTC_PASSES_LOWER_PLAN_H_
#define PTC_PASSES_LOWER_PLAN_H_

#include "ir/kernel.h"
#include "ir/plan.h"
#include "passes/pass.h"
#include "passes/split_stages.h"

// Lowers all functions of |module|, which `fuse` has marked. Equal kernels are shared. |out_kernels| has one
// entry per kernel of the plan, in the plan's arena. No addresses yet.
ptc_status_t ptc_lower_plan(ptc_pass_ctx_t *ctx, ptc_module_t *module, ptc_plan_t **out_plan,
                            const ptc_kernel_t *const **out_kernels);

// The same for stage |stage| of a pipeline, whose module `fuse` has marked: the functions for micro-batches become
// tasks of their own, which "train" and "eval" call in the order of the schedule.
ptc_status_t ptc_lower_stage(ptc_pass_ctx_t *ctx, const ptc_stages_t *stages, int32_t stage,
                             ptc_plan_t **out_plan, const ptc_kernel_t *const **out_kernels);

// Records the launch shape of kernel |kernel|; every step that launches it gets its workspace.
void ptc_plan_set_shape(ptc_plan_t *plan, int32_t kernel, int32_t num_runs,
                        const ptc_phase_run_t *runs, int64_t workspace_bytes,
                        int64_t scratch_bytes);

// --- memory_plan

// Gives every instance its address, over the unrolled order of the steps. Globals live through
// all tasks; the rest of one task may lie where that of another does.
// Fills offsets, arena_bytes and bound_bytes, and before it the digests of what each task makes
// (ptc_plan_state_values). PTC_UNSUPPORTED ("plan-too-long").
ptc_status_t ptc_plan_memory(ptc_diag_t *diag, ptc_plan_t *plan);

// After ptc_plan_memory: buffers that are copies of one another at one address become one, copies onto
// themselves and buffers that nothing names are dropped.
void ptc_plan_simplify(ptc_plan_t *plan);

#endif  // PTC_PASSES_LOWER_PLAN_H_
