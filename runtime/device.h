// A device with memory of its own, as the executor sees it.
#ifndef PTC_RUNTIME_DEVICE_H_
#define PTC_RUNTIME_DEVICE_H_

#include "ir/base/diag.h"
#include "ir/plan.h"

typedef struct ptc_device_s ptc_device_t;

// What a device that is waited for is asked every now and then; |waited_s|: for how long. Another status than PTC_OK
// ends the wait.
typedef ptc_status_t (*ptc_device_watch_fn_t)(void *arg, ptc_diag_t *diag, double waited_s);

// Work of one stream is done in the order in which it is queued; |finish| waits for all. Streams and events are the
// plan's (ir/plan.h). Addresses are the device's.
struct ptc_device_s {
  uint64_t arena;
  int64_t arena_bytes;  // the plan's
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
  // Begins to copy to the device, on stream 0: |from| stays as it is until |finish|.
  ptc_status_t (*send)(ptc_device_t *device, ptc_diag_t *diag, uint64_t to, const void *from,
                       int64_t bytes);
  // What the other streams are given from now on comes after what stream 0 has been given so far.
  ptc_status_t (*spread)(ptc_device_t *device, ptc_diag_t *diag);
  // |memory| is the host's, and will be sent often: holds its pages in place, as far as the system allows it. Not to be
  // unmapped before the device is destroyed.
  void (*pin)(ptc_device_t *device, void *memory, int64_t bytes);
  // Waits for everything. A kernel that met an index out of range: |*out_fault| is its number, else -1.
  ptc_status_t (*finish)(ptc_device_t *device, ptc_diag_t *diag, int32_t *out_fault);
  void (*destroy)(ptc_device_t *device);

  // --- graphs: what is queued is recorded, and launched as one

  // Why the device has none; NULL: it has.
  const char *(*no_graph)(const ptc_device_t *device);
  // From now on |launch|, |copy|, |copy_rows|, |wait| and |record| are recorded, and nothing is done. Nothing may be under
  // way, and nothing else be called until |end_graph|.
  ptc_status_t (*begin_graph)(ptc_device_t *device, ptc_diag_t *diag);
  // In any case after a successful |begin_graph|. |*out_graph|: the device's, until it is destroyed; NULL after an error.
  ptc_status_t (*end_graph)(ptc_device_t *device, ptc_diag_t *diag, void **out_graph);
  ptc_status_t (*run_graph)(ptc_device_t *device, ptc_diag_t *diag, void *graph);

  // --- for communicators

  // |rows| rows of |width| bytes, |to_pitch| and |from_pitch| apart.
  ptc_status_t (*copy_rows)(ptc_device_t *device, ptc_diag_t *diag, int32_t stream, uint64_t to,
                            int64_t to_pitch, uint64_t from, int64_t from_pitch, int64_t width,
                            int64_t rows);
  // More memory, zeroed on |stream|; the device's, until it is destroyed.
  ptc_status_t (*allocate)(ptc_device_t *device, ptc_diag_t *diag, int32_t stream, int64_t bytes,
                           uint64_t *out_address);
  // A mark in a stream; |*mark| is NULL at first, then may be set again. The device's, until it is destroyed.
  ptc_status_t (*set_mark)(ptc_device_t *device, ptc_diag_t *diag, int32_t stream, void **mark);
  bool (*has_passed)(ptc_device_t *device, void *mark);
  // From now on waits ask |watch| (NULL: nobody).
  void (*set_watch)(ptc_device_t *device, ptc_device_watch_fn_t watch, void *arg);
};

#endif  // PTC_RUNTIME_DEVICE_H_
