// What a kernel computes, independent of the target: a loop nest over named dims, or a template (GEMM,
// attention, ...) whose operands and results are loop-nest expressions (DESIGN.md section 7).
//
// Passes build kernels (passes/build_kernels.h), codegen prints them as C or CUDA. All memory lives in one
// arena; a kernel is immutable once built.
#ifndef PTC_IR_KERNEL_H_
#define PTC_IR_KERNEL_H_

#include "ir/module.h"

// --- expressions: a DAG in ptc_kernel_t.exprs; an operand's number is smaller than its user's.
typedef int32_t ptc_kx_t;
enum { PTC_KX_NONE = -1, PTC_KERNEL_MAX_DIMS = 24, PTC_KERNEL_MAX_PARAMS = 64 };

typedef enum ptc_kx_kind_e {
  PTC_KX_CONST,  // value
  PTC_KX_INDEX,  // the position along loop dim |dim| (i32)
  PTC_KX_TURN,   // the turn (i32) of the enclosing repeat |level|, 0 the outermost
  PTC_KX_LOAD,   // an element of parameter |param|; args: one integer expression per dim of it
  PTC_KX_OP,     // the elementwise op |opcode| of args
  PTC_KX_RANDOM,  // Philox number of element args[0] (i64, row-major in the global shape); args[1] seed,
  // args[2] step (i64), then one turn (i32) per `*` of |path|; |dist| as of op random, or
  // "bits01": (x >> 8) * 2^-24 as f32
  PTC_KX_REDUCE,  // args[0] reduced over the loop dims |over|
  PTC_KX_HOLE,    // a value that the template provides, number |hole|
} ptc_kx_kind_t;

typedef enum ptc_kx_reduce_e {
  PTC_KX_SUM,
  PTC_KX_MAX,     // NaN is handed on
  PTC_KX_ARGMAX,  // i32: row-major position within |over| of the first maximum; NaN is largest
  PTC_KX_ALL,     // bool
} ptc_kx_reduce_t;

typedef struct ptc_kexpr_s {
  ptc_kx_kind_t kind;
  // The value is rounded to this dtype. Arithmetic is f32 where operands are f32, f16 or bf16 (of a
  // 16-bit value: computed in f32, rounded once), f64 for f64, integer for integers.
  ptc_dtype_t dtype;
  uint32_t varies;  // bit i: depends on loop dim i
  int32_t dim, level, param, hole;
  double value;
  ptc_opcode_t opcode;
  bool gelu_tanh;  // GELU, GELU_GRAD: the tanh form
  // LOAD: where |guard| (bool, or NONE) is false nothing is read and the value is |value|.
  ptc_kx_t guard;
  // LOAD of an index that data give: an index outside the dim is a fault of the run, not undefined.
  bool checked;
  // SUM: products of the addend (a MUL at its root) are not rounded: an einsum as a nest.
  bool fma;
  ptc_kx_reduce_t reduce;
  uint32_t over;
  const char *dist, *path;
  double a, b;  // RANDOM
  int32_t num_args;
  const ptc_kx_t *args;
} ptc_kexpr_t;

// --- parameters: the buffers a kernel reads and writes, row-major and dense
typedef enum ptc_kparam_mode_e {
  PTC_KPARAM_IN,
  PTC_KPARAM_OUT,
  PTC_KPARAM_INOUT
} ptc_kparam_mode_t;

typedef struct ptc_kparam_s {
  const char *name;  // for the reader of the source
  ptc_dtype_t dtype;
  ptc_kparam_mode_t mode;
  int32_t num_dims;
  int64_t extents[PTC_MAX_DIMS];
  // OUT: may take the bytes of IN parameter |in_place| (element i is read before it is written and by the
  // same tile), or -1. INOUT is that by force.
  int32_t in_place;
} ptc_kparam_t;

static inline int64_t ptc_kparam_elements(const ptc_kparam_t *param) {
  int64_t count = 1;
  for (int32_t d = 0; d < param->num_dims; d++) count *= param->extents[d];
  return count;
}
static inline int64_t ptc_kparam_bytes(const ptc_kparam_t *param) {
  return ptc_dtype_bytes(param->dtype) * ptc_kparam_elements(param);
}

// args: one integer expression per dim of the parameter. The store happens for each point of the dims that
// value and indices vary over.
typedef struct ptc_kstore_s {
  int32_t param;
  const ptc_kx_t *index;
  ptc_kx_t value;
} ptc_kstore_t;

typedef struct ptc_kdim_s {
  const char *name;
  int64_t extent;
} ptc_kdim_t;

typedef enum ptc_kernel_kind_e {
  // Loop dims in order: |num_grid| grid dims, |num_col| column dims, the rest are row dims. For each point
  // of the grid and column dims a row is computed. A REDUCE is over all row dims (row reduction), over all
  // column dims (column reduction; its addend varies over row dims, or not), or over both; what depends on a
  // column or full reduction does not vary over column dims. Stores of any rank.
  PTC_KERNEL_NEST,
  // out = sum over k dims of A * B; roles below. Holes: 0 the sum (f32).
  PTC_KERNEL_GEMM,
  // Forward; holes: 0 the scaled, capped score in f32 (of |mask|, |bias| expressions none is a hole user).
  PTC_KERNEL_ATTENTION,
  PTC_KERNEL_ATTENTION_GRAD,
  // One op of the IR, |op|, operands and results are parameters in order: cumsum, cummax, cumargmax, topk,
  // dispatch_slot, scatter_add, window_add, square_sum, limbs_value: what no other kind can do. No
  // expressions.
  PTC_KERNEL_SCAN,
  PTC_KERNEL_TOPK,
  PTC_KERNEL_DISPATCH_SLOT,
  PTC_KERNEL_SCATTER_ADD,
  PTC_KERNEL_WINDOW_ADD,
  PTC_KERNEL_SQUARE_SUM,
  PTC_KERNEL_LIMBS_VALUE,
} ptc_kernel_kind_t;

// GEMM roles of the loop dims (bit masks): each dim is in exactly one. batch: in A, B and out; m: A and
// out; n: B and out; k: A and B.
typedef struct ptc_gemm_s {
  uint32_t batch, m, n, k;
  ptc_kx_t a, b;  // operands as expressions: plain LOADs, or with a fused prologue
} ptc_gemm_t;

// Attention: loop dims are those of the scores (without dot), then dot, then the dims of val that are
// nowhere else. q, key, val are LOADs; mask and bias expressions over the score's dims, or NONE.
typedef struct ptc_kattention_s {
  const ptc_op_t *op;   // attributes: scale, softcap, p, path, ...
  int32_t attend, dot;  // loop dims
  ptc_kx_t q, key, val, mask, bias;
  ptc_kx_t seed, step;    // NONE without dropout
  const ptc_kx_t *turns;  // of the path
  int32_t num_turns;
  // Number of the element of the scores that RANDOM uses (i64), NONE without dropout.
  ptc_kx_t element;
  // Parameters. Forward: out, lse are written. Grad: out, lse, dout are read; dq, dkey, dval (dbias: -1 if
  // none) written. Their dims are loop dims in the order of |*_dims|.
  int32_t out, lse, dout, dq, dkey, dval, dbias;
  const int32_t *out_dims, *lse_dims, *dq_dims, *dkey_dims, *dval_dims, *dbias_dims;
} ptc_kattention_t;

typedef struct ptc_kernel_s {
  const char *name;  // identifier, unique in the program: "k12_gelu_add"
  ptc_kernel_kind_t kind;
  ptc_loc_t loc;      // of its first op in the .ptm
  const char *about;  // one line: the ops of the group
  int32_t num_params, num_dims, num_exprs, num_stores;
  ptc_kparam_t *params;
  ptc_kdim_t dims[PTC_KERNEL_MAX_DIMS];
  int32_t num_grid, num_col;  // NEST
  ptc_kexpr_t *exprs;
  ptc_kstore_t *stores;
  int32_t num_levels;  // enclosing repeats
  ptc_gemm_t gemm;
  ptc_kattention_t attention;
  const ptc_op_t *op;  // SCAN and those that follow
  // What it must do at least: floating-point operations counted as in passes/cost.h, and bytes of its
  // parameters read and written once.
  double flops;
  int64_t min_bytes;
} ptc_kernel_t;

// --- building; defined in ir/kernel.c
typedef struct ptc_kernel_builder_s {
  ptc_arena_t *arena;
  ptc_kernel_t *kernel;
  int32_t cap_params, cap_exprs, cap_stores;
} ptc_kernel_builder_t;

// A new kernel of |kind| in |arena|. The strings are kept.
void ptc_kb_begin(ptc_kernel_builder_t *kb, ptc_arena_t *arena, const char *name,
                  ptc_kernel_kind_t kind, ptc_loc_t loc);
int32_t ptc_kb_dim(ptc_kernel_builder_t *kb, const char *name, int64_t extent);
int32_t ptc_kb_param(ptc_kernel_builder_t *kb, const char *name, ptc_kparam_mode_t mode,
                     ptc_dtype_t dtype, const int64_t *extents, int32_t num_dims);
// Equal expressions get one number (value numbering). Fills |varies|. args are copied.
ptc_kx_t ptc_kb_expr(ptc_kernel_builder_t *kb, ptc_kexpr_t expr);
ptc_kx_t ptc_kb_const(ptc_kernel_builder_t *kb, ptc_dtype_t dtype, double value);
ptc_kx_t ptc_kb_index(ptc_kernel_builder_t *kb, int32_t dim);
ptc_kx_t ptc_kb_turn(ptc_kernel_builder_t *kb, int32_t level);
ptc_kx_t ptc_kb_load(ptc_kernel_builder_t *kb, int32_t param, const ptc_kx_t *index);
ptc_kx_t ptc_kb_op(ptc_kernel_builder_t *kb, ptc_opcode_t opcode, ptc_dtype_t dtype,
                   const ptc_kx_t *args, int32_t num_args);
ptc_kx_t ptc_kb_op1(ptc_kernel_builder_t *kb, ptc_opcode_t opcode, ptc_dtype_t dtype, ptc_kx_t a);
ptc_kx_t ptc_kb_op2(ptc_kernel_builder_t *kb, ptc_opcode_t opcode, ptc_dtype_t dtype, ptc_kx_t a,
                    ptc_kx_t b);
ptc_kx_t ptc_kb_cast(ptc_kernel_builder_t *kb, ptc_dtype_t dtype, ptc_kx_t a);
ptc_kx_t ptc_kb_reduce(ptc_kernel_builder_t *kb, ptc_kx_reduce_t reduce, ptc_dtype_t dtype,
                       ptc_kx_t a, uint32_t over);
ptc_kx_t ptc_kb_hole(ptc_kernel_builder_t *kb, int32_t hole, ptc_dtype_t dtype, uint32_t varies);
void ptc_kb_store(ptc_kernel_builder_t *kb, int32_t param, const ptc_kx_t *index, ptc_kx_t value);

// A readable text form, for --print-after, tests and `ptc show kernels`.
void ptc_kernel_print(const ptc_kernel_t *kernel, ptc_str_t *out);
// What the types above promise; PTC_INTERNAL with a diagnostic ("kernel-...") if something is broken.
ptc_status_t ptc_kernel_verify(ptc_diag_t *diag, const ptc_kernel_t *kernel);

#endif  // PTC_IR_KERNEL_H_
