// Private to codegen/cuda_nest*.c: a loop nest in CUDA.
//
// A point of the grid and column dims has a row. A worker computes a row: a warp, or for long rows a block. Its threads
// (a team) have elements lane, lane + team, ... of the row, in registers where they fit.
#ifndef PTC_CODEGEN_CUDA_NEST_IMPL_H_
#define PTC_CODEGEN_CUDA_NEST_IMPL_H_

#include "codegen/c_nest.h"
#include "codegen/cuda_codegen.h"

enum {
  PTC_CUDA_WARP = 32,
  PTC_CUDA_MAX_ITEMS = 32,  // elements of the row that a thread has in registers
};

typedef struct ptc_cuda_nest_s {
  const ptc_kernel_t *kernel;
  ptc_arena_t *arena;
  ptc_str_t *out;
  ptc_c_scope_t scope;
  uint32_t grid, col, row;  // loop dims
  int64_t num_grid, num_col, num_row;
  int32_t team, workers;  // threads of a row: PTC_CUDA_WARP or PTC_CUDA_THREADS; teams of a block
  int64_t
      tile;  // elements of the row that a block has: all but for plain sums over columns, from `tile` on
  int32_t *level;    // per expression: number of reductions below and at it
  bool *late;        // per expression: depends on a column or full reduction
  bool *early;       // per expression: something that waits for no such reduction needs it
  bool *fixed;       // per LOAD: the row is the same for all points, and lies in `fixedN[item]`
  bool *kept;        // per LOAD: its elements of the row are in `keepN[item]`
  int32_t num_kept;  // values
  // A maximum over the row and the sum of exp(x - maximum) that one pass computes, or PTC_KX_NONE.
  ptc_kx_t online_max, online_sum;
  size_t loop_begin;  // where the text of the loop over the row begins
} ptc_cuda_nest_t;

// --- cuda_nest.c
const ptc_kexpr_t *ptc_cuda_nest_at(const ptc_cuda_nest_t *nest, ptc_kx_t expr);
bool ptc_cuda_nest_is_col_reduce(const ptc_cuda_nest_t *nest, const ptc_kexpr_t *e);
// Whether |expr| is a column reduction with one value per element of the row.
bool ptc_cuda_nest_is_wide(const ptc_cuda_nest_t *nest, ptc_kx_t expr);
bool ptc_cuda_nest_is_late(const ptc_cuda_nest_t *nest, const ptc_kstore_t *store);
// A store, by one point of those dims of |among| that it does not vary over.
void ptc_cuda_nest_store(ptc_cuda_nest_t *nest, const ptc_kstore_t *store, uint32_t among,
                         int32_t indent);
// How many blocks may read |bytes| each beside what the kernel must move, so that it moves at most 4 % more; >= 1.
int64_t ptc_cuda_nest_max_blocks(const ptc_cuda_nest_t *nest, double bytes);
// Bytes of the parameters that all points read alike.
double ptc_cuda_nest_fixed_bytes(const ptc_cuda_nest_t *nest);

// --- cuda_nest_sums.c
// The C type of an accumulator of REDUCE |e|; of sums of these; what both start with.
const char *ptc_cuda_nest_acc_type(const ptc_cuda_nest_t *nest, const ptc_kexpr_t *e);
const char *ptc_cuda_nest_sum_type(const ptc_cuda_nest_t *nest, const ptc_kexpr_t *e);
const char *ptc_cuda_nest_acc_start(const ptc_cuda_nest_t *nest, const ptc_kexpr_t *e);
// `ACC += VALUE;`, or what |e| is instead of a sum.
void ptc_cuda_nest_join(const ptc_cuda_nest_t *nest, const ptc_kexpr_t *e, const char *acc,
                        const char *value, int32_t indent);
// The addend of REDUCE |expr| at the current point joins the accumulator, which |is_sum| type or not; a product that is
// not rounded goes in by fma.
void ptc_cuda_nest_add(ptc_cuda_nest_t *nest, ptc_kx_t expr, const char *acc, bool is_sum,
                       int32_t indent);

// --- cuda_nest_online.c
// Finds `online_max` and `online_sum`. A row that fits the registers is read once anyhow, and has none.
void ptc_cuda_nest_find_online(ptc_cuda_nest_t *nest);
// The loop over the row that has both: `for (...) for (...) { e = ...`, with the coordinates of element e; then, with the
// texts of its elements known, what ends it. The accumulators are accN of the maximum, and of the sum, declared here.
void ptc_cuda_nest_open_online(ptc_cuda_nest_t *nest, int32_t indent);
void ptc_cuda_nest_close_online(ptc_cuda_nest_t *nest, const char **saved, int32_t indent);
// Element e joins (within the loop).
void ptc_cuda_nest_add_online(ptc_cuda_nest_t *nest, int32_t indent);
// The maximum and the sum of the block, from its threads' own.
void ptc_cuda_nest_join_online(ptc_cuda_nest_t *nest, int32_t indent);

// --- cuda_nest_rows.c
// How many elements of the row a thread has; whether they are in registers.
int64_t ptc_cuda_nest_items(const ptc_cuda_nest_t *nest);
bool ptc_cuda_nest_in_registers(const ptc_cuda_nest_t *nest);
// `for (...) { e = ...`, with the coordinates of element e of the row, and `}`; a scope of its own is the caller's.
void ptc_cuda_nest_open_row(ptc_cuda_nest_t *nest, int32_t indent);
// Chooses the rows that all points read alike and keeps them, where workers are blocks: the caches have no room then.
void ptc_cuda_nest_load_fixed(ptc_cuda_nest_t *nest, int32_t indent);
// What is computed for a point: the row reductions, then what it adds to the columns, to `colN` and `partN`, and
// the stores that wait for no column.
void ptc_cuda_nest_point(ptc_cuda_nest_t *nest, int32_t indent);
// Where element |item| of the column sum |expr| is added up.
const char *ptc_cuda_nest_column(const ptc_cuda_nest_t *nest, ptc_kx_t expr);
void ptc_cuda_nest_rows(ptc_cuda_nest_t *nest, ptc_kernel_shape_t *out_shape);

// --- cuda_nest_columns.c
ptc_status_t ptc_cuda_nest_columns(ptc_cuda_nest_t *nest, ptc_diag_t *diag,
                                   ptc_kernel_shape_t *out_shape);

#endif  // PTC_CODEGEN_CUDA_NEST_IMPL_H_
