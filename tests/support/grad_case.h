// Small random programs with parameters, and their gradients by finite differences.
#ifndef PTC_TESTS_SUPPORT_GRAD_CASE_H_
#define PTC_TESTS_SUPPORT_GRAD_CASE_H_

#include "ir/builder.h"
#include "ir/interp.h"
#include "ir/module.h"

enum { CASE_MAX_GLOBALS = 256 };

// How a global is filled.
typedef struct case_fill_s {
  double low, high;
  bool whole;  // random integers in [low, high)
} case_fill_t;

// A module under construction: function "train" and its losses. Dims are letters a to z.
typedef struct grad_case_s {
  ptc_diag_t diag;
  ptc_module_t *module;
  ptc_func_t *func;
  ptc_builder_t b;
  uint64_t *random;
  int64_t extent[26];  // of dims a to z: 1 to 4, random
  case_fill_t fills[CASE_MAX_GLOBALS];
  ptc_value_t *loss;
} grad_case_t;

void case_init(grad_case_t *c, uint64_t *random);
void case_deinit(grad_case_t *c);

// A type with the dims of |dims| ("ab"), one instance per turn of each count (0-terminated or
// NULL).
const ptc_type_t *case_type(grad_case_t *c, ptc_dtype_t dtype, const char *dims,
                            const int64_t *counts);
// Interned names of "ab".
const char *const *case_names(grad_case_t *c, const char *dims);
// A new parameter, input or scalar setting, and its argument. Elements of parameters are all
// different, in [low, high], and no integers, by at least 1e-3.
ptc_value_t *case_param(grad_case_t *c, const char *dims, double low, double high);
ptc_value_t *case_bundle(grad_case_t *c, const char *dims, const int64_t *counts);  // in [-1, 1]
ptc_value_t *case_input(grad_case_t *c, ptc_dtype_t dtype, const char *dims, double low,
                        double high);
// The general form: |path| names the global.
ptc_value_t *case_global(grad_case_t *c, ptc_global_kind_t kind, const char *path,
                         const ptc_type_t *type, case_fill_t fill);
// Adds to the loss a random linear functional of |value|, a float; bundles too.
void case_use(grad_case_t *c, ptc_value_t *value);
// The same with weights of one's own.
void case_use_weighted(grad_case_t *c, ptc_value_t *weights, ptc_value_t *value);
// Appends an op; attributes as in op_maker.h. NULL if its constraints are violated.
ptc_op_t *case_op(grad_case_t *c, ptc_opcode_t opcode, ptc_value_t *const *operands,
                  int32_t num_operands, int32_t num_results, const char *attrs);

// Ends the function, verifies nothing, differentiates. False, with diagnostics printed, on errors.
bool case_differentiate(grad_case_t *c);
// An interpreter (exact) with all globals filled; settings "seed" 7 and "step" 3 if there.
ptc_interp_t *case_interpret(grad_case_t *c);
// The largest difference of a gradient and its central difference, relative to the gradient's
// largest element (at least 1). Infinite if the program cannot be run.
double case_error(grad_case_t *c);

#endif  // PTC_TESTS_SUPPORT_GRAD_CASE_H_
