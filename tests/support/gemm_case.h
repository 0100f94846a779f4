// GEMM kernels of any form with their data, and the sums in double to compare with.
#ifndef PTC_TESTS_SUPPORT_GEMM_CASE_H_
#define PTC_TESTS_SUPPORT_GEMM_CASE_H_

#include "ir/kernel.h"

typedef enum gemm_prologue_e {
  GEMM_PLAIN,
  GEMM_SCALED,  // times a vector over k and plus a vector over the rows, as a norm's scale is
  GEMM_GELU,    // gelu of the element (f32 operands alone)
  GEMM_NUM_PROLOGUES
} gemm_prologue_t;

typedef enum gemm_epilogue_e {
  GEMM_SUM,       // the sum, in the output's dtype
  GEMM_BIAS,      // plus a vector over n
  GEMM_GELU_TWO,  // two results: u = sum + bias over n, and gelu(u)
  GEMM_RESIDUAL,  // plus what the output held
  GEMM_NUM_EPILOGUES
} gemm_epilogue_t;

enum { GEMM_BATCH, GEMM_M, GEMM_N, GEMM_K, GEMM_NUM_ROLES, GEMM_CASE_DIMS = 10 };

// Zero-initialize; roles[d] and extents[d] describe loop dim d. |order_*| list the dims of an operand or the
// output, outermost first; in a and b those of other roles are skipped.
typedef struct gemm_case_s {
  const char *name;  // of the kernel
  int32_t num_dims;
  int32_t roles[GEMM_CASE_DIMS];
  int64_t extents[GEMM_CASE_DIMS];
  int32_t order_a[GEMM_CASE_DIMS], order_b[GEMM_CASE_DIMS], order_out[GEMM_CASE_DIMS];
  ptc_dtype_t dtype_a, dtype_b, dtype_out;
  gemm_prologue_t prologue_a, prologue_b;
  gemm_epilogue_t epilogue;
} gemm_case_t;

// |num_dims| dims with the roles and extents given, each operand in their order.
void gemm_case_in_order(gemm_case_t *c);
// Builds the kernel in |arena|.
const ptc_kernel_t *gemm_case_build(ptc_arena_t *arena, const gemm_case_t *c);
int64_t gemm_case_elements(const ptc_kernel_t *kernel, int32_t param);
// Fills parameters of |kernel| with values in (-1, 1); OUT ones with NaN bytes. malloc'ed.
void **gemm_case_data(const ptc_kernel_t *kernel, uint64_t *seed);
void gemm_case_free(const ptc_kernel_t *kernel, void **data);
// Element |at| of a parameter as a number.
double gemm_case_element(const ptc_kernel_t *kernel, int32_t param, const void *data, int64_t at);

typedef struct gemm_point_s {
  double value;  // stored by the store
  double terms;  // sum of |terms|
} gemm_point_t;
// What |store| should store at |index| (of the loop dims; those of k are used up), in double with each
// operation rounded to its dtype, and where.
gemm_point_t gemm_case_expect(const ptc_kernel_t *kernel, void *const *data, int32_t store,
                              int64_t *index, int64_t *out_at);

#endif  // PTC_TESTS_SUPPORT_GEMM_CASE_H_
