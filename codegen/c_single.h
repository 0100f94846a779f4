// Private to codegen/c_single*.c: printers of the kernels that execute one op.
#ifndef PTC_CODEGEN_C_SINGLE_H_
#define PTC_CODEGEN_C_SINGLE_H_

#include "codegen/codegen.h"
#include "ir/op.h"

typedef struct ptc_c_single_s {
  ptc_arena_t *arena;
  const ptc_kernel_t *kernel;
  const ptc_op_t *op;
  ptc_str_t body;
  int64_t tiles, scratch_bytes, workspace_bytes;
  int64_t last_tiles;  // of a second phase; 0: there is none
} ptc_c_single_t;

// A line of C, indented.
void ptc_single_line(ptc_c_single_t *s, int32_t indent, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
const ptc_type_t *ptc_single_in(const ptc_c_single_t *s, int32_t operand);
const ptc_type_t *ptc_single_out(const ptc_c_single_t *s, int32_t result);
// The parameter of an operand or a result.
const ptc_kparam_t *ptc_single_param(const ptc_c_single_t *s, bool result, int32_t index);
const char *ptc_single_name(const ptc_c_single_t *s, bool result, int32_t index);
// The extent of dim |dim| of a parameter, and the distance of neighbours along it.
int64_t ptc_single_extent(const ptc_kparam_t *param, int32_t dim);
int64_t ptc_single_stride(const ptc_kparam_t *param, int32_t dim);
// The C type in which numbers of |dtype| are added up: double or int64_t; the text of such a number as
// stored in |dtype|.
const char *ptc_single_sum_type(ptc_dtype_t dtype);
const char *ptc_single_from_sum(const ptc_c_single_t *s, ptc_dtype_t dtype, const char *text);
// `for` over [first, last) of |total| units, |per_tile| of them in a tile; sets the number of tiles.
void ptc_single_units(ptc_c_single_t *s, int64_t total, int64_t per_tile);

void ptc_single_scan(ptc_c_single_t *s);
void ptc_single_topk(ptc_c_single_t *s);
void ptc_single_dispatch_slot(ptc_c_single_t *s);
void ptc_single_scatter_add(ptc_c_single_t *s);
void ptc_single_window_add(ptc_c_single_t *s);
void ptc_single_square_sum(ptc_c_single_t *s);
void ptc_single_limbs_value(ptc_c_single_t *s);

#endif  // PTC_CODEGEN_C_SINGLE_H_
