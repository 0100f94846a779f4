// Runs functions of .ptir texts on the interpreter, with data from arrays.
#ifndef PTC_TESTS_SUPPORT_INTERP_CASE_H_
#define PTC_TESTS_SUPPORT_INTERP_CASE_H_

#include "ir/interp.h"

typedef struct interp_case_s {
  ptc_diag_t diag;
  ptc_module_t *module;
  ptc_interp_t *interp;
} interp_case_t;

// Parses and verifies |text|; NULL, with its diagnostics printed, if it is wrong.
interp_case_t *interp_case_open(const char *text, ptc_interp_mode_t mode);
void interp_case_close(interp_case_t *self);
// Fills the first |count| numbers of the global |path|.
void interp_case_set(interp_case_t *self, const char *path, const double *data, int64_t count);
// The data of a global (NULL if there is none) and of a result.
double *interp_case_global(interp_case_t *self, const char *path);
const double *interp_case_result(interp_case_t *self, int32_t index);
int64_t interp_case_result_count(interp_case_t *self, int32_t index);
// The id of the first diagnostic, "" if there is none.
const char *interp_case_id(const interp_case_t *self);

// |a| and |b| equal, both NaN, or within |tolerance| of max(1, |b|).
bool interp_near(double a, double b, double tolerance);

// A text with @f that applies one op: operand types and result types separated by "; ".
//   module "t"  mesh  input @x0 : ..  func @f(%x0 = @x0, ..) { %y0, .. = OP %x0, .. ATTRS : ..
//   return output "y0" = %y0, .. }
void interp_case_one_op(ptc_str_t *out, const char *mesh, const char *op, const char *attrs,
                        const char *operands, const char *results);

#endif  // PTC_TESTS_SUPPORT_INTERP_CASE_H_
