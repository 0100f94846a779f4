// A CUDA device: one arena, the streams and events of a plan, its kernels as loaded modules.
#ifndef PTC_RUNTIME_CUDA_DEVICE_H_
#define PTC_RUNTIME_CUDA_DEVICE_H_

#include "runtime/device.h"

// Machine code (a cubin) or PTX of one kernel.
typedef struct ptc_cuda_image_s {
  const char *data;
  size_t len;
} ptc_cuda_image_t;

// Opens GPU |ordinal|, allocates the plan's arena, zeroed, and loads |images|, one per kernel of |plan|, which
// must outlive the device. Diagnostics: those of driver.h; "cuda-memory" (PTC_INFEASIBLE) names the bytes that
// are wanted and free.
ptc_status_t ptc_cuda_device_create(ptc_diag_t *diag, const ptc_plan_t *plan,
                                    const ptc_cuda_image_t *images, int32_t ordinal,
                                    ptc_device_t **out_device);

// Where an arena comes from instead: memory that a communicator likes better. The GPU is current in the calls.
typedef struct ptc_cuda_memory_s {
  void *arg;
  // False: there is none, and the driver's is taken.
  bool (*allocate)(void *arg, int64_t bytes, uint64_t *out_address);
  void (*release)(void *arg, uint64_t address);
  void (*close)(void *arg);
} ptc_cuda_memory_t;

// The same with an arena of |memory|, which is closed with the device, or when there is none; |memory->close| NULL: as
// ptc_cuda_device_create.
ptc_status_t ptc_cuda_device_create_in(ptc_diag_t *diag, const ptc_plan_t *plan,
                                       const ptc_cuda_image_t *images, int32_t ordinal,
                                       const ptc_cuda_memory_t *memory, ptc_device_t **out_device);

#endif  // PTC_RUNTIME_CUDA_DEVICE_H_
