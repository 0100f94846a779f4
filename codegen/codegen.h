// From kernels to source text and its launch shape. One file per kernel kind prints it (c_nest.c, c_gemm.c,
// c_attention.c, ...).
#ifndef PTC_CODEGEN_CODEGEN_H_
#define PTC_CODEGEN_CODEGEN_H_

#include "ir/kernel.h"
#include "ir/plan.h"

typedef struct ptc_c_target_s {
  const char *march;           // "native", "x86-64-v3", ...
  int64_t l1_bytes, l2_bytes;  // 0: 32 KiB, 512 KiB
} ptc_c_target_t;

// What printing a kernel yields beside its text; the runs live in the arena that is given.
typedef struct ptc_kernel_shape_s {
  int32_t num_runs;
  const ptc_phase_run_t *runs;
  int64_t workspace_bytes, scratch_bytes;
} ptc_kernel_shape_t;

// Appends the C source of |kernel| to |out|: a self-contained translation unit with one entry point
//   void NAME(const ptc_kernel_call_t *call, int64_t phase, int64_t tile)
// The tiles of a phase follow from shapes alone. Diagnostic "codegen-unsupported" (PTC_INVALID_INPUT) names
// what is not there yet.
ptc_status_t ptc_codegen_c(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                           const ptc_c_target_t *target, ptc_str_t *out,
                           ptc_kernel_shape_t *out_shape);

// Printers of the kinds, called by the above.
ptc_status_t ptc_c_nest(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                        const ptc_c_target_t *target, ptc_str_t *out,
                        ptc_kernel_shape_t *out_shape);
ptc_status_t ptc_c_gemm(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                        const ptc_c_target_t *target, ptc_str_t *out,
                        ptc_kernel_shape_t *out_shape);
ptc_status_t ptc_c_attention(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                             const ptc_c_target_t *target, ptc_str_t *out,
                             ptc_kernel_shape_t *out_shape);
ptc_status_t ptc_c_attention_grad(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                                  const ptc_c_target_t *target, ptc_str_t *out,
                                  ptc_kernel_shape_t *out_shape);
ptc_status_t ptc_c_single(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                          const ptc_c_target_t *target, ptc_str_t *out,
                          ptc_kernel_shape_t *out_shape);

// --- shared by the printers (codegen/c_expr.c)
// The text every source begins with: the call struct, dtype conversions, math functions that |kernel| uses
// (or, with NULL, all of them), Philox.
void ptc_c_prelude(ptc_str_t *out, const ptc_kernel_t *kernel);
// How expressions of a kernel are written. The caller sets |index_text| of the loop dims that are in scope
// (a C expression of int64_t type) and |hole_text|; values already computed have |value_text|.
typedef struct ptc_c_scope_s {
  const ptc_kernel_t *kernel;
  const char *index_text[PTC_KERNEL_MAX_DIMS];
  const char *hole_text[4];
  const char **value_text;  // per expression: NULL, or the C variable that holds it in this scope
  ptc_arena_t *arena;
} ptc_c_scope_t;
// The C type in which a value of |dtype| is computed: float for f32, f16 and bf16.
const char *ptc_c_type(ptc_dtype_t dtype);
// The C type in which it is stored: float, uint16_t (f16, bf16), int32_t, int64_t, double, uint8_t (bool).
const char *ptc_c_storage_type(ptc_dtype_t dtype);
// Appends statements that compute |root| and what it needs and |scope| lacks, each as `const T vN = ...;`
// indented by |indent|, and records their names in the scope. Loop-invariant parts (not varying over any dim
// of |hoist_mask|) that are already in scope are reused.
void ptc_c_eval(ptc_c_scope_t *scope, ptc_kx_t root, int32_t indent, ptc_str_t *out);
// Appends the store of |store| at the current point.
void ptc_c_store(ptc_c_scope_t *scope, const ptc_kstore_t *store, int32_t indent, ptc_str_t *out);

#endif  // PTC_CODEGEN_CODEGEN_H_
