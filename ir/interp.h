// The meaning of the IR: executes a function of a module on one thread, slowly and simply.
//
// All devices of the mesh are executed side by side: each op on all of them before the next op. An axis of the
// mesh numbers devices unless it is time: "micro", or an axis that a repeat of the module runs through. Device 0
// is the only one of a module without such axes.
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
int32_t ptc_interp_num_devices(const ptc_interp_t *interp);

// The current value of |global| on a device; owned by |interp|; writable. Elements that are padding (NaN in floats)
// belong to no index.
ptc_tensor_t *ptc_interp_global_on(ptc_interp_t *interp, const ptc_global_t *global,
                                   int32_t device);
// On device 0.
ptc_tensor_t *ptc_interp_global(ptc_interp_t *interp, const ptc_global_t *global);
// Gives each device its part of |whole|: all instances, each row-major in global extents. No slot: those belong to
// one micro-batch each.
void ptc_interp_set(ptc_interp_t *interp, const ptc_global_t *global, const double *whole);
// Puts the parts of all devices together. "interp-replicas" (PTC_INTERNAL): devices that hold the same element
// differ in it, by one bit or more.
ptc_status_t ptc_interp_get(ptc_interp_t *interp, const ptc_global_t *global, double *out_whole);
// The same in a tensor that |interp| owns: with one device the global itself, else a copy, valid until the next call for
// |global|, which ptc_interp_spread gives back to the devices once it was written to.
ptc_status_t ptc_interp_whole(ptc_interp_t *interp, const ptc_global_t *global,
                              ptc_tensor_t **out_tensor);
void ptc_interp_spread(ptc_interp_t *interp, const ptc_global_t *global);

// Runs @name with the current globals; then new versions of state replace the old ones. Inputs with
// a range are checked. Diagnostics: "unknown-function", "interp-size" (PTC_UNSUPPORTED: a value of
// more than 2^28 elements on all devices), "interp-devices" (PTC_UNSUPPORTED: more than 1024 devices),
// "input-range", "gather-range", "target-range". |module| is verified.
ptc_status_t ptc_interp_run(ptc_interp_t *interp, const char *name);
// The same for micro-batch |micro| of a function that runs for each one.
ptc_status_t ptc_interp_run_micro(ptc_interp_t *interp, const char *name, int64_t micro);

// The values that stages have sent one another and not received yet.
typedef struct ptc_mail_s ptc_mail_t;
ptc_mail_t *ptc_mail_create(void);
void ptc_mail_destroy(ptc_mail_t *mail);  // NULL is allowed
int64_t ptc_mail_num_waiting(const ptc_mail_t *mail);
// |interp| runs the program of |stage|: its transfers go through |mail| (not owned; stages may run on threads of their
// own). A recv waits; one that finds nothing for long is an error: "interp-recv".
void ptc_interp_set_stage(ptc_interp_t *interp, ptc_mail_t *mail, int64_t stage);

// Result |index| of the last run (in the order of the return), on device 0 or another one; owned by
// |interp|, valid until the next run.
const ptc_tensor_t *ptc_interp_result(const ptc_interp_t *interp, int32_t index);
const ptc_tensor_t *ptc_interp_result_on(const ptc_interp_t *interp, int32_t index, int32_t device);
// The whole of it, as ptc_interp_get.
ptc_status_t ptc_interp_get_result(ptc_interp_t *interp, int32_t index, double *out_whole);
// In a tensor, as ptc_interp_whole; valid until the next run.
ptc_status_t ptc_interp_whole_result(ptc_interp_t *interp, int32_t index,
                                     const ptc_tensor_t **out_tensor);

#endif  // PTC_IR_INTERP_H_
