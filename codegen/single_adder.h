// What scatter_add and window_add have in common, whatever the target: which loops there are, and which rows of
// the result an element of the operand goes to.
#ifndef PTC_CODEGEN_SINGLE_ADDER_H_
#define PTC_CODEGEN_SINGLE_ADDER_H_

#include "codegen/c_single.h"

enum { PTC_ADDER_MAX_LOOPS = 2 * PTC_MAX_DIMS };

// A loop is printed as the variable iN, N its number.
typedef struct ptc_adder_loop_s {
  const char *name;
  int64_t extent, from;  // stride in the operand
  int64_t to;            // stride in the result; 0 for a dim that is summed
} ptc_adder_loop_t;

typedef struct ptc_adder_s {
  const ptc_c_single_t *s;
  int32_t num_loops;
  ptc_adder_loop_t loops[PTC_ADDER_MAX_LOOPS];
  // Each loop is in one of three sets: it is summed; or the result has its dim, and the index moves along it
  // (batch) or not (free).
  bool summed[PTC_ADDER_MAX_LOOPS], batch[PTC_ADDER_MAX_LOOPS], free[PTC_ADDER_MAX_LOOPS];
  // Addressed dims of the result: extent, stride, and the index as C text over the loops' variables.
  int32_t num_rows;
  int64_t row_extent[PTC_MAX_DIMS], row_stride[PTC_MAX_DIMS];
  const char *index_text[PTC_MAX_DIMS];
} ptc_adder_t;

// Of the kernel's op, SCATTER_ADD or WINDOW_ADD.
void ptc_adder_init(const ptc_c_single_t *s, ptc_adder_t *out_adder);
// Points of the loops that |take| selects.
int64_t ptc_adder_points(const ptc_adder_t *adder, const bool *take);
// Appends `const int64_t iN = ...;` of these loops, from their common number |at|.
void ptc_adder_decompose(const ptc_adder_t *adder, const bool *take, const char *at, int32_t indent,
                         ptc_str_t *out);
// " + i0 * 4 + ...": by strides in the result or in the operand. In the arena.
const char *ptc_adder_offset(const ptc_adder_t *adder, const bool *take, bool in_result);

#endif  // PTC_CODEGEN_SINGLE_ADDER_H_
