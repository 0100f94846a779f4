// The meaning of the IR: executes a function of a module on one thread, slowly and simply.
#ifndef PTC_IR_INTERP_H_
#define PTC_IR_INTERP_H_

#include "ir/base/philox.h"
#include "ir/module.h"

// EXACT computes in double and ignores float dtypes (integers and bools are still rounded);
// TYPED rounds every value to its dtype.
typedef enum ptc_interp_mode_e { PTC_INTERP_EXACT, PTC_INTERP_TYPED } ptc_interp_mode_t;

// A value at run time: every instance of a bundle, each row-major. |type| is the local storage
// type on a mesh (extents of shards).
typedef struct ptc_tensor_s {
  const ptc_type_t *type;
  int64_t num_elements;  // of one instance, local
  int64_t num_instances;
  double *data;  // num_instances * num_elements
} ptc_tensor_t;

typedef struct ptc_interp_s ptc_interp_t;

// State of all globals, zero until set or until init was run. Keeps |module| (not owned).
ptc_interp_t *ptc_interp_create(ptc_module_t *module, ptc_interp_mode_t mode);
void ptc_interp_destroy(ptc_interp_t *interp);
// The current value of |global|; owned by |interp|; writable.
ptc_tensor_t *ptc_interp_global(ptc_interp_t *interp, const ptc_global_t *global);
// Runs @name with the current globals; then new versions of state replace the old ones. Inputs with
// a range are checked. Diagnostics: "unknown-function", "interp-size" (PTC_UNSUPPORTED: a value of
// more than 2^28 elements), "input-range", "gather-range", "target-range". |module| is verified.
ptc_status_t ptc_interp_run(ptc_interp_t *interp, const char *name);
// Result |index| of the last run (in the order of the return); owned by |interp|, valid until the
// next run.
const ptc_tensor_t *ptc_interp_result(const ptc_interp_t *interp, int32_t index);

#endif  // PTC_IR_INTERP_H_
