// How a GEMM kernel is cut into blocks, and what its printer's files share. Private to codegen/c_gemm*.c.
#ifndef PTC_CODEGEN_C_GEMM_IMPL_H_
#define PTC_CODEGEN_C_GEMM_IMPL_H_

#include "codegen/codegen.h"

// A role: the product of its loop dims, outermost first, as one index. Dims of extent 1 are left out.
typedef struct gemm_role_s {
  const char *name;  // of the flat index in the printed code: "b", "i" (m), "j" (n), "k"
  int32_t num_dims;
  int32_t dims[PTC_KERNEL_MAX_DIMS];
  int64_t extent;
} gemm_role_t;

// An operand, seen as a matrix of rows (m or n) by k.
typedef struct gemm_operand_s {
  ptc_kx_t expr;
  const char *name;         // "a", "b"
  const gemm_role_t *rows;  // m or n
  bool plain;               // an f32 LOAD at an affine address, without guard: |address| is valid
  int32_t param;
  ptc_c_affine_t address;
  bool along_k;  // elements are neighbours in memory along k, else along the rows (or nowhere)
  bool unit;     // plain, and that neighbourhood is contiguous over the whole role
} gemm_operand_t;

typedef enum gemm_a_mode_e {
  GEMM_A_DIRECT,  // read in place
  GEMM_A_SHARED,  // packed once into the workspace, in a phase of its own
  GEMM_A_OWN,     // packed by each tile, a few rows at a time
} gemm_a_mode_t;

typedef enum gemm_b_mode_e {
  GEMM_B_DIRECT,  // read in place
  GEMM_B_SHARED,  // packed once into the workspace, in the phase that packs A
  GEMM_B_OWN,     // packed by each tile
} gemm_b_mode_t;

// Where partial sums live between blocks of k.
typedef enum gemm_c_mode_e {
  GEMM_C_DIRECT,   // in the output, which is the plain sum
  GEMM_C_ROWS,     // one block of k: a few rows in scratch, then the epilogue
  GEMM_C_SCRATCH,  // a tile in scratch
  GEMM_C_WORK,     // in the workspace, over phases
} gemm_c_mode_t;

// All sizes in elements. A chunk is what one pair of phases (pack A, compute) works on; a tile of the
// compute phase is |bt| batches x |mt| x |nt| of the output.
typedef struct gemm_s {
  const ptc_kernel_t *kernel;
  ptc_arena_t *arena;
  gemm_role_t batch, m, n, k;
  gemm_operand_t a, b;
  gemm_a_mode_t a_mode;
  gemm_c_mode_t c_mode;
  gemm_b_mode_t b_mode;
  int64_t kc;  // depth of a block of k
  int64_t bt, mt, nt;
  int64_t batch_chunk, m_chunk, k_chunk;
  int64_t num_chunks;
  int64_t pack_rows, pack_depth;  // of A, per tile of the pack phase
  int64_t pack_a_tiles, pack_b_tiles, compute_tiles;
  int64_t a_row;                                   // floats between packed rows of A (along_k)
  int64_t apack_floats;                            // workspace
  int64_t bwork_floats, cwork_floats;              // workspace, after apack
  int64_t bpack_floats, cbuf_floats, aown_floats;  // scratch, in this order
} gemm_t;

// The printed micro-kernels take 6 or 12 rows by 8, 16 or 32 columns: blocks are multiples of these.
enum { GEMM_ROWS = 12, GEMM_COLS = 32, GEMM_OWN_ROWS = 24 };
// The epilogue runs on so many rows at a time.
enum { GEMM_EPILOGUE_ROWS = 48 };

// Decides all of the above; "codegen-unsupported" where the printer cannot do it.
ptc_status_t gemm_plan(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                       const ptc_c_target_t *target, gemm_t *out_gemm);

// c_gemm_pack.c: functions pack_a, pack_b of the printed source.
void gemm_print_pack_a(const gemm_t *gemm, ptc_str_t *out);
void gemm_print_pack_b(const gemm_t *gemm, ptc_str_t *out);
// c_gemm_epilogue.c: function epilogue.
void gemm_print_epilogue(const gemm_t *gemm, ptc_str_t *out);
// c_gemm_micro.c: vectors and transposes; the micro-kernel, after A_ROW and A_STEP are defined.
void gemm_print_vectors(ptc_str_t *out);
void gemm_print_micro(ptc_str_t *out);

// Text of the offset that the flat index |index| of |role| adds to |address|; in the arena.
const char *gemm_offset_text(const gemm_t *gemm, const gemm_role_t *role,
                             const ptc_c_affine_t *address, const char *index);
// Floats per row of panels that are |depth| deep.
int64_t gemm_panel_pitch(int64_t depth);
// Step of |address| per step of |role|'s flat index; false if it is not one number.
bool gemm_role_stride(const ptc_kernel_t *kernel, const gemm_role_t *role,
                      const ptc_c_affine_t *address, int64_t *out_stride);
// Appends `const int64_t i_x = ...;` for the dims of |role| at flat index |index|, but for its innermost if
// |outer_only|.
void gemm_print_indices(const gemm_t *gemm, const gemm_role_t *role, const char *index,
                        bool outer_only, int32_t indent, ptc_str_t *out);
// What an evaluating function begins with: the parameters, a fault flag, the indices that never vary.
void gemm_print_entry(const gemm_t *gemm, ptc_str_t *out);
void gemm_print_exit(const gemm_t *gemm, ptc_str_t *out);
// Appends what of |roots| does not vary over the loop dims |inner|.
void gemm_hoist(ptc_c_scope_t *scope, const ptc_kx_t *roots, int32_t num_roots, uint32_t inner,
                int32_t indent, ptc_str_t *out);
uint32_t gemm_role_mask(const gemm_role_t *role);
// Opens, at |indent|, a loop over the flat indices first <= x < last of |role| whose innermost part can be
// vectorised, and closes it; in between the body of the inner loop is printed, indented by 4 more. |roots| are
// what the body evaluates; parts that do not vary are hoisted. The element of d is `to[x]`. last - first is at
// most |max_run|.
void gemm_open_loop(const gemm_t *gemm, ptc_c_scope_t *scope, const gemm_role_t *role,
                    const ptc_kx_t *roots, int32_t num_roots, int64_t max_run, int32_t indent,
                    ptc_str_t *out);
void gemm_close_loop(int32_t indent, ptc_str_t *out);

#endif  // PTC_CODEGEN_C_GEMM_IMPL_H_
