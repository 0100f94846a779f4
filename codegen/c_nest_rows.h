// Private to codegen/c_nest_rows.c (phases and tiles) and c_nest_program.c (what is done for one row).
#ifndef PTC_CODEGEN_C_NEST_ROWS_H_
#define PTC_CODEGEN_C_NEST_ROWS_H_

#include "codegen/c_nest.h"

typedef struct ptc_rows_s {
  ptc_c_nest_t *nest;
  bool has_row[2], has_column, has_full, has_scalars[2];  // by stage
  int64_t num_chunks;
  bool inside, split;
  int64_t segment;  // elements of a row that a tile takes
  // Per expression: name of the array with partial results or values, NULL if none.
  const char **partial;
  const char **kept_name;
  bool *kept_ready;
} ptc_rows_t;

// A reduction that the nest needs; whether its addend varies over the row; the stage in which that is computed.
bool ptc_rows_is_used(const ptc_c_nest_t *nest, ptc_kx_t i);
bool ptc_rows_addend_varies(const ptc_c_nest_t *nest, ptc_kx_t reduce);
int32_t ptc_rows_stage_of_addend(const ptc_c_nest_t *nest, ptc_kx_t reduce);
bool ptc_rows_store_is_scalar(const ptc_c_nest_t *nest, const ptc_kstore_t *store);
// The last level of |stage| at which anything is done along the row; -1: nothing.
int32_t ptc_rows_last_level(const ptc_c_nest_t *nest, int32_t stage);
// Decides what passes over a row of |stage| keep for later ones, and declares the arrays for it.
void ptc_rows_plan_keeps(ptc_rows_t *p, int32_t stage);
// The accumulators and stores of pass |k| out of |last| + 1.
ptc_nest_pass_t ptc_rows_pass_of(ptc_rows_t *p, int32_t stage, int32_t k, int32_t last);
// Statements for what a pass needs that does not vary over |inner|; the variables of its accumulators; the
// value of a reduction; stores that do not vary over the row.
void ptc_rows_hoist(ptc_c_nest_t *nest, const ptc_nest_pass_t *pass, uint32_t inner,
                    int32_t indent);
void ptc_rows_declare(ptc_c_nest_t *nest, const ptc_nest_pass_t *pass, ptc_nest_over_t over,
                      int32_t indent);
void ptc_rows_define(ptc_c_nest_t *nest, ptc_kx_t reduce, const char *partial, int32_t indent);
void ptc_rows_print_scalars(ptc_rows_t *p, int32_t stage, int32_t indent);
// All passes of |stage| over positions [|begin|, |end|) of one row.
void ptc_rows_print_program(ptc_rows_t *p, int32_t stage, const char *begin, const char *end,
                            int32_t indent);

#endif  // PTC_CODEGEN_C_NEST_ROWS_H_
