// Private to codegen/*_nest*.c: what is known of a loop nest before it is printed.
//
// A reduction is of one of three kinds: ROW (over the row dims), COLUMN (over the column dims; its addend may vary
// over row dims or not) and FULL (over both). Two stages: 0 computes what needs no column or full reduction,
// 1 the rest, which does not vary over column dims. Within a stage, the level of an expression is the number of row
// reductions that it waits for; pass k over a row computes what is of level k.
#ifndef PTC_CODEGEN_C_NEST_H_
#define PTC_CODEGEN_C_NEST_H_

#include "codegen/codegen.h"

enum {
  PTC_NEST_BLOCK = 512,    // elements summed in f32
  PTC_NEST_GROUP = 65536,  // elements whose block sums are added first
  PTC_NEST_CHUNK = 32,     // points of a column summed in f32
  PTC_NEST_MAX_TABLES = 8,
  PTC_NEST_MAX_SUMS = 64,
};

typedef enum ptc_nest_over_e { PTC_NEST_ROW, PTC_NEST_COLUMN, PTC_NEST_FULL } ptc_nest_over_t;

// Loop dims that are walked as one: |dim| stands for them all, the others' indices are 0.
typedef struct ptc_nest_loops_s {
  int32_t count;
  int32_t dim[PTC_KERNEL_MAX_DIMS];
  int64_t extent[PTC_KERNEL_MAX_DIMS];
  uint32_t mask[PTC_KERNEL_MAX_DIMS];  // the dims of the kernel in it
} ptc_nest_loops_t;

typedef struct ptc_c_nest_s {
  ptc_diag_t *diag;
  ptc_arena_t *arena;
  const ptc_kernel_t *kernel;
  ptc_str_t *out;
  ptc_c_scope_t scope;
  int32_t workspace_param;  // its place among the arguments
  uint32_t grid, col, row;  // masks of dims
  int32_t num_grid_dims, num_col_dims, num_row_dims;
  int32_t dims[PTC_KERNEL_MAX_DIMS];   // those of the grid, of columns, of rows, outermost first
  int64_t num_grid, num_col, num_row;  // points
  ptc_nest_loops_t grid_loops, col_loops, row_loops;
  bool has_reductions;
  uint32_t used_dims;
  // Per expression.
  bool *used, *as_value;
  bool *expensive;  // takes so long that it is better kept than computed again
  bool *visited;    // scratch of searches
  int8_t *stage, *level;
  // Addresses of all loads and stores, elements of random streams.
  int32_t num_forms;
  ptc_c_affine_t *forms;
  int64_t workspace_bytes, scratch_bytes;
  double element_ns;  // estimated time of one point of all loop dims
} ptc_c_nest_t;

// --- c_nest.c
// Bytes in the workspace or in a thread's scratch, aligned to 64; the offset.
int64_t ptc_nest_workspace(ptc_c_nest_t *nest, int64_t bytes);
int64_t ptc_nest_scratch(ptc_c_nest_t *nest, int64_t bytes);
// Joins neighbours of |loops| where every address allows, and tells the scope. Dims of extent 1 are dropped.
ptc_nest_loops_t ptc_nest_merge(ptc_c_nest_t *nest, const int32_t *dims, int32_t count);
// `const int64_t i_b = AT / 12 % 4;` for every loop of |loops|; AT counts their points row-major.
void ptc_nest_decompose(ptc_c_nest_t *nest, const ptc_nest_loops_t *loops, const char *at,
                        int32_t indent);
// The C text NUMBER / |div| % |mod| * |times|, without what changes nothing (|mod| 0: no remainder); and
// min(|from| + |step|, |end|).
const char *ptc_nest_part(ptc_arena_t *arena, const char *number, int64_t div, int64_t mod,
                          int64_t times);
const char *ptc_nest_limit(ptc_arena_t *arena, const char *from, int64_t step, int64_t end);
int64_t ptc_nest_points(const ptc_nest_loops_t *loops);
// The dims over which a store repeats.
uint32_t ptc_nest_store_varies(const ptc_kernel_t *kernel, const ptc_kstore_t *store);
// Stage and level at which all parts of a store are known.
int32_t ptc_nest_store_stage(const ptc_c_nest_t *nest, const ptc_kstore_t *store);
int32_t ptc_nest_store_level(const ptc_c_nest_t *nest, const ptc_kstore_t *store);
ptc_nest_over_t ptc_nest_over(const ptc_c_nest_t *nest, ptc_kx_t reduce);
// `#pragma omp simd`, and the Philox words of what is random in |roots|, for the innermost loop over |inner|
// of |count| (a C expression, <= PTC_NEST_BLOCK if anything is random) elements from index text |start| on;
// the loop's variable is j.
bool ptc_nest_has_random(const ptc_c_nest_t *nest, const ptc_kx_t *roots, int32_t num_roots);
void ptc_nest_random_words(ptc_c_nest_t *nest, const ptc_kx_t *roots, int32_t num_roots,
                           int32_t inner, const char *start, const char *count, int32_t indent);
void ptc_nest_forget_words(ptc_c_nest_t *nest);  // after the loop
// Whether a load in |roots| that varies over |inner| is checked and not computed yet.
bool ptc_nest_has_checked(const ptc_c_nest_t *nest, const ptc_kx_t *roots, int32_t num_roots);

// Estimated time of one evaluation, without its operands.
double ptc_nest_expr_ns(const ptc_kernel_t *kernel, const ptc_kexpr_t *e);

// --- c_nest_tables.c
// Splits |kernel| into one that fills tables and one that reads them: parameters after those of |kernel|. Returns
// the number of tables; 0: |out_rest| is |kernel|.
int32_t ptc_nest_make_tables(ptc_arena_t *arena, const ptc_kernel_t *kernel,
                             ptc_kernel_t *out_tables, ptc_kernel_t *out_rest);
// The same with reductions to scalars, if there are several: |out_sums| stores them and whatever does not wait for
// them.
int32_t ptc_nest_cut_sums(ptc_arena_t *arena, const ptc_kernel_t *kernel, ptc_kernel_t *out_sums,
                          ptc_kernel_t *out_rest);
// --- c_nest_parts.c
// Splits the stores of |kernel| into groups that share no parameter below |num_own| (but scalars that are only read);
// |out_parts| has room for one per store. Returns their number.
int32_t ptc_nest_split(ptc_arena_t *arena, const ptc_kernel_t *kernel, int32_t num_own,
                       ptc_kernel_t *out_parts);

// --- c_nest_map.c: kernels without reductions
// The dims of |mask|, those that move |form| the most first, those that do not move it before all; how many.
int32_t ptc_nest_order_dims(const ptc_kernel_t *kernel, uint32_t mask, const ptc_c_affine_t *form,
                            int32_t *out_dims);
void ptc_nest_print_map(ptc_c_nest_t *nest, ptc_kernel_shape_t *out_shape);
// --- c_nest_rows.c: kernels with reductions
void ptc_nest_print_rows(ptc_c_nest_t *nest, ptc_kernel_shape_t *out_shape);

// --- c_nest_pass.c: one loop over a row
typedef struct ptc_nest_accum_s {
  ptc_kx_t reduce;
  ptc_nest_over_t over;
  const char
      *name;  // ROW, FULL: the C variable; COLUMN: the array, one element per element of the row
} ptc_nest_accum_t;

typedef struct ptc_nest_pass_s {
  int32_t num_accums, num_stores, num_keeps, num_sums;
  ptc_nest_accum_t *accums;
  const ptc_kstore_t **stores;
  ptc_kx_t *keeps;         // computed here and kept
  const char **kept_name;  // per expression: the array it is kept in, or NULL
  bool *kept_ready;        // per expression: in an earlier pass
  // Column sums that stage 1 reads: per reduction the array of partial sums and how many there are.
  ptc_nest_accum_t *sums;
  const char *sum_stride, *sum_base;
  int64_t num_chunks;
} ptc_nest_pass_t;

// The loop over positions [|begin|, |end|) of the row (C expressions; |begin| a multiple of PTC_NEST_BLOCK).
void ptc_nest_print_pass(ptc_c_nest_t *nest, const ptc_nest_pass_t *pass, const char *begin,
                         const char *end, int32_t indent);
// Reduces |count| values at the C pointer |values| (of block type) into |accum|.
void ptc_nest_print_values(ptc_c_nest_t *nest, const ptc_nest_accum_t *accum, const char *values,
                           int64_t count, int32_t indent);
// The C type in which addends are kept.
const char *ptc_nest_block_type(const ptc_c_nest_t *nest, ptc_kx_t reduce);
// The C type of partial results; the declaration of an accumulator with its start value.
const char *ptc_nest_partial_type(const ptc_c_nest_t *nest, ptc_kx_t reduce);
const char *ptc_nest_partial_start(const ptc_c_nest_t *nest, ptc_kx_t reduce);
// `A = A + B;` for partial results; positions of ARGMAX are in A_at, B_at.
void ptc_nest_print_combine(ptc_c_nest_t *nest, ptc_kx_t reduce, const char *into, const char *from,
                            int32_t indent);
// The reduction's value of its partial result |text|.
const char *ptc_nest_final(ptc_c_nest_t *nest, ptc_kx_t reduce, const char *text);

#endif  // PTC_CODEGEN_C_NEST_H_
