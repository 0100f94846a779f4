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

// --- shared by the printers (codegen/c_prelude.c)
// The text every source begins with: the call struct, dtype conversions, math functions that |kernel| uses
// (or, with NULL, all of them), Philox.
void ptc_c_prelude(ptc_str_t *out, const ptc_kernel_t *kernel);
// Its part that CUDA shares: conversions, math functions, Philox.
void ptc_c_helpers(ptc_str_t *out, const ptc_kernel_t *kernel, bool cuda);
// A whole source up to the body of the entry point: a comment that says what |kernel| computes, the prelude
// and |helpers| (functions of the printer, "" if none), the head of the function, the parameters as
// pointers. The caller appends the body, indented by 2, and the closing brace.
void ptc_c_open(ptc_str_t *out, const ptc_kernel_t *kernel, const char *helpers);
// As above in parts: the comment; the parameters as `const float *restrict const p_x = ...;` by |indent|.
void ptc_c_comment(ptc_str_t *out, const ptc_kernel_t *kernel);
void ptc_c_params(ptc_str_t *out, const ptc_kernel_t *kernel, int32_t indent);
// The C name of the pointer to parameter |param|: "p_x"; in |arena|. Of the workspace (as double *): "workspace".
const char *ptc_c_param_name(ptc_arena_t *arena, const ptc_kernel_t *kernel, int32_t param);
// The C name of the index along loop dim |dim|, unique in the kernel: "i_b"; in |arena|.
const char *ptc_c_index_name(ptc_arena_t *arena, const ptc_kernel_t *kernel, int32_t dim);
// |count| spaces.
void ptc_c_indent(ptc_str_t *out, int32_t count);

// --- expressions (codegen/c_expr.c)
// How expressions of a kernel are written. The caller sets |index_text| of the loop dims that are in scope
// (a C expression of int64_t type) and |hole_text|; values already computed have |value_text|.
typedef struct ptc_c_scope_s {
  const ptc_kernel_t *kernel;
  const char *index_text[PTC_KERNEL_MAX_DIMS];  // NULL: 0 (the dim is walked together with another)
  const char *hole_text[4];
  const char **value_text;  // per expression: NULL, or the C variable that holds it in this scope
  // Per RANDOM: the C variable with the hash of its path, once computed.
  const char **hash_text;
  // Per RANDOM: an array of Philox words, and the C expression of the current element's place in it; the
  // array begins at an element that is a multiple of 4. NULL: the words are computed one by one.
  const char **word_array, **word_place;
  // Per RANDOM of dist "normal" that has a word_array: an array of standard normal numbers, or NULL.
  const char **normal_array;
  // A C variable that is or-ed with 1 where a checked index is out of range; NULL: *call->fault is set.
  const char *fault_text;
  ptc_arena_t *arena;
} ptc_c_scope_t;
// An empty scope: nothing computed, index_text as by ptc_c_index_name.
void ptc_c_scope_init(ptc_c_scope_t *scope, ptc_arena_t *arena, const ptc_kernel_t *kernel);
// What is computed so far, to be restored where a C block ends.
const char **ptc_c_scope_save(const ptc_c_scope_t *scope);
void ptc_c_scope_restore(ptc_c_scope_t *scope, const char *const *saved);
// The C type in which a value of |dtype| is computed: float for f32, f16 and bf16; bool for bool.
const char *ptc_c_type(ptc_dtype_t dtype);
// The C type in which it is stored: float, uint16_t (f16, bf16), int32_t, int64_t, double, uint8_t (bool).
const char *ptc_c_storage_type(ptc_dtype_t dtype);
// |text|, a stored element, as a value; |text|, a value, as a stored element; a value rounded to |dtype|
// (of the C type above). In |arena|.
const char *ptc_c_from_storage(ptc_arena_t *arena, ptc_dtype_t dtype, const char *text);
const char *ptc_c_to_storage(ptc_arena_t *arena, ptc_dtype_t dtype, const char *text);
const char *ptc_c_round(ptc_arena_t *arena, ptc_dtype_t dtype, const char *text);
// Appends statements that compute |root| and what it needs and |scope| lacks, each as `const T vN = ...;`
// indented by |indent|, and records their names in the scope (constants and indices get no variable). Loop-invariant
// parts that are already in scope are reused. A REDUCE must be in scope.
void ptc_c_eval(ptc_c_scope_t *scope, ptc_kx_t root, int32_t indent, ptc_str_t *out);
// The C text of the hash of RANDOM |expr|'s path; appends what computes it if the scope lacks it.
const char *ptc_c_hash(ptc_c_scope_t *scope, ptc_kx_t expr, int32_t indent, ptc_str_t *out);
// As ptc_c_eval, of the largest parts of |root| that do not vary over the loop dims |inner|: what can stand
// before these loops. Paths of random streams are hashed here, too. Parts that hold a REDUCE or HOLE which
// is not in scope are left out.
void ptc_c_hoist(ptc_c_scope_t *scope, ptc_kx_t root, uint32_t inner, int32_t indent,
                 ptc_str_t *out);
// Appends the store of |store| at the current point.
void ptc_c_store(ptc_c_scope_t *scope, const ptc_kstore_t *store, int32_t indent, ptc_str_t *out);

// --- addresses (codegen/c_affine.c)
// An integer expression as base + sum of coef[d] * index of loop dim d + sum of term_coef[i] * terms[i],
// where terms are expressions that are not affine in the indices.
enum { PTC_C_MAX_TERMS = PTC_MAX_DIMS };
typedef struct ptc_c_affine_s {
  int64_t base, coef[PTC_KERNEL_MAX_DIMS];
  int32_t num_terms;
  ptc_kx_t terms[PTC_C_MAX_TERMS];
  int64_t term_coef[PTC_C_MAX_TERMS];
} ptc_c_affine_t;
ptc_c_affine_t ptc_c_affine_of(const ptc_kernel_t *kernel, ptc_kx_t expr);
// The row-major position in parameter |param| of the element at |index| (one expression per dim).
ptc_c_affine_t ptc_c_address(const ptc_kernel_t *kernel, int32_t param, const ptc_kx_t *index);
// The C text of the form, an int64_t; its terms must be in scope.
const char *ptc_c_affine_text(ptc_c_scope_t *scope, const ptc_c_affine_t *form);

#endif  // PTC_CODEGEN_CODEGEN_H_
