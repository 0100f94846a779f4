// A device with memory of its own, as the executor sees it.
#ifndef PTC_RUNTIME_DEVICE_H_
#define PTC_RUNTIME_DEVICE_H_

#include "ir/base/diag.h"
#include "ir/plan.h"

typedef struct ptc_device_s ptc_device_t;

// Work of one stream is done in the order in which it is queued; |finish| waits for all. Streams and events are the
// plan's (ir/plan.h). Addresses are the device's.
struct ptc_device_s {
  uint64_t arena;  // plan->arena_bytes bytes
  // Launches all phases of kernel |kernel| of the plan. |turns|: PTC_PLAN_MAX_LEVELS numbers.
  ptc_status_t (*launch)(ptc_device_t *device, ptc_diag_t *diag, int32_t stream, int32_t kernel,
                         const uint64_t *args, int32_t num_args, const int64_t *turns);
  ptc_status_t (*copy)(ptc_device_t *device, ptc_diag_t *diag, int32_t stream, uint64_t to,
                       uint64_t from, int64_t bytes);
  // What |stream| is given from now on begins when what the latest |record| of |event| saw is done; at once if there is none.
  ptc_status_t (*wait)(ptc_device_t *device, ptc_diag_t *diag, int32_t stream, int32_t event);
  // |event| is that all that |stream| has been given so far is done.
  ptc_status_t (*record)(ptc_device_t *device, ptc_diag_t *diag, int32_t stream, int32_t event);
  // The stream as the device's library knows it (a CUstream), for communicators that queue their work there.
  void *(*stream)(ptc_device_t *device, int32_t stream);
  // Between the host and the device; both wait until it is done.
  ptc_status_t (*upload)(ptc_device_t *device, ptc_diag_t *diag, uint64_t to, const void *from,
                         int64_t bytes);
  ptc_status_t (*download)(ptc_device_t *device, ptc_diag_t *diag, void *to, uint64_t from,
                           int64_t bytes);
  // Waits for everything. A kernel that met an index out of range: |*out_fault| is its number, else -1.
  ptc_status_t (*finish)(ptc_device_t *device, ptc_diag_t *diag, int32_t *out_fault);
  void (*destroy)(ptc_device_t *device);
};

#endif  // PTC_RUNTIME_DEVICE_H_
