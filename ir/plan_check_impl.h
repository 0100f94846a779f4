// Private to ir/plan_check*.c.
#ifndef PTC_IR_PLAN_CHECK_IMPL_H_
#define PTC_IR_PLAN_CHECK_IMPL_H_

#include "ir/plan.h"

typedef struct ptc_plan_checker_s {
  ptc_diag_t *diag;
  const ptc_plan_t *plan;
  int64_t counts[PTC_PLAN_MAX_LEVELS];  // of the coordinates and turns that are in sight
  int32_t depth;
  int32_t task;  // that is looked at
  int64_t work;
} ptc_plan_checker_t;

// The axes of a collective or a dim: of the mesh, real parts of them, none used twice.
bool ptc_plan_axes_are_valid(const ptc_mesh_t *mesh, const ptc_axis_ref_t *axes, int32_t count);
// Axes, layout and extents of |buffer| agree: "plan-layout".
ptc_status_t ptc_plan_check_layout(const ptc_plan_checker_t *c, const ptc_buffer_t *buffer);
// Axes, dtype and sizes of the step's parts: "plan-collective".
ptc_status_t ptc_plan_check_collective(const ptc_plan_checker_t *c, const ptc_step_t *step);
// Whether the matrices of |kernel->gemm| lie inside the kernel's parameters, and what it may use besides in its workspace.
bool ptc_plan_gemm_fits(const ptc_plan_kernel_t *kernel);

#endif  // PTC_IR_PLAN_CHECK_IMPL_H_
