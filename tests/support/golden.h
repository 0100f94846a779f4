// Values recorded by tests/torch (format: tests/torch/README.md), and models run against them.
#ifndef PTC_TESTS_SUPPORT_GOLDEN_H_
#define PTC_TESTS_SUPPORT_GOLDEN_H_

#include <jansson.h>

#include "frontend/driver/compile.h"
#include "ir/interp.h"
#include "passes/pass.h"

// Errors that are allowed: of a loss or metric; of a tensor, relative to its norm; tensors smaller
// than |floor| times the largest gradient are measured against that, since mathematically they may
// be zero (the gradient of a key's bias), and what is left is rounding.
typedef struct golden_tolerance_s {
  double value, tensor, floor;
} golden_tolerance_t;

// A way to compute the recorded numbers.
typedef struct golden_way_s {
  ptc_interp_mode_t mode;
  golden_tolerance_t tolerance;
  const char *stop_after;  // the last pass; NULL: the whole pipeline
  const char *precision;   // instead of the model's; NULL: as it is
  int64_t micro_batch;     // 0: as it is
  const char *recompute;   // NULL: as it is
} golden_way_t;

typedef struct golden_s {
  json_t *json;      // the file
  const char *name;  // of the case
  const golden_way_t *way;
  golden_tolerance_t tolerance;
  double largest_grad;
  int64_t num_checked, num_failed;
  double worst;  // error in units of what is allowed
  char worst_name[256];
} golden_t;

// What a test does with a compiled model after init has run; |module| is past way->stop_after.
typedef void (*golden_test_fn_t)(golden_t *golden, ptc_module_t *module, ptc_interp_t *interp);

// Runs |test| on every file that |pattern| (relative to tests/torch) finds, at least |min_files|;
// prints a line per case. Failures are CUnit's, named after the case.
void golden_each(const char *pattern, size_t min_files, const golden_way_t *way,
                 golden_test_fn_t test);
// The same without an interpreter: |test| gets the module, and the context that it was compiled in.
typedef void (*golden_module_fn_t)(golden_t *golden, ptc_pass_ctx_t *ctx, ptc_module_t *module);
void golden_each_module(const char *pattern, size_t min_files, const golden_way_t *way,
                        golden_module_fn_t test);

// Prints the reason, and lets the case fail.
void golden_fail(golden_t *golden, const char *what, const char *why);
void golden_check_number(golden_t *golden, const char *name, double got, double want,
                         double allowed);
// Compares every instance with the recorded tensor PREFIX.PATH (PATH alone if |prefix| is "").
// Returns the number of instances.
size_t golden_check_tensor(golden_t *golden, const char *prefix, const ptc_global_t *global,
                           const ptc_tensor_t *tensor);
// The same of one instance, |name| with its prefix; row-major.
void golden_check_instance(golden_t *golden, const char *name, const double *data, int64_t count);
// How many recorded tensors start with |prefix| and are not all zero.
size_t golden_count(const golden_t *golden, const char *prefix);
// Moves the parameters away from their initial values, and draws the inputs.
void golden_fill(golden_t *golden, const ptc_module_t *module, ptc_interp_t *interp);
// The pieces, for a parameter's instance and for an input; values are rounded to |dtype|.
void golden_perturb_instance(const golden_t *golden, const char *path, ptc_dtype_t dtype,
                             double *data, int64_t count);
void golden_draw(golden_t *golden, const char *path, ptc_dtype_t dtype, int64_t range, double *data,
                 int64_t count);

#endif  // PTC_TESTS_SUPPORT_GOLDEN_H_
