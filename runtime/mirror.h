// The host's copy of a device's arena: what is handed out of it is brought from the device, and sent back before the next
// task. Only pages that somebody looks at take memory.
#ifndef PTC_RUNTIME_MIRROR_H_
#define PTC_RUNTIME_MIRROR_H_

#include "ir/base/vec.h"
#include "runtime/device.h"

// A part that has been handed out since the last task.
typedef struct ptc_mirror_view_s {
  char *memory;
  int64_t bytes;
} ptc_mirror_view_t;

typedef struct ptc_mirror_s {
  ptc_device_t *device;
  ptc_diag_t *diag;     // of failing copies from the device
  char *memory;         // as many bytes as the device's arena
  ptc_status_t status;  // of these copies
  PTC_VEC(ptc_mirror_view_t) views;
} ptc_mirror_t;

// Pins the memory of the plan's inputs, which are sent in each step: the device then reads it directly.
void ptc_mirror_pin_inputs(const ptc_mirror_t *mirror, const ptc_plan_t *plan);
// The device's address of |memory|, a place in the mirror.
uint64_t ptc_mirror_address(const ptc_mirror_t *mirror, const char *memory);
// Hands out |bytes| at |memory|, to be written as well. |anew|: all of it will be, so it is not brought from the device.
void ptc_mirror_show(ptc_mirror_t *mirror, char *memory, int64_t bytes, bool anew);
// Begins to send what has been handed out to the device, ahead of what any of its streams is given from now on. The mirror
// is not to be written until the device has been waited for.
ptc_status_t ptc_mirror_send(ptc_mirror_t *mirror, ptc_diag_t *diag);
void ptc_mirror_deinit(ptc_mirror_t *mirror);

#endif  // PTC_RUNTIME_MIRROR_H_
