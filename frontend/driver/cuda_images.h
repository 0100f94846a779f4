// The kernels of a plan for GPUs as machine code: compiled by NVRTC, in parallel, and kept in the same cache as
// the objects of CPU plans.
#ifndef PTC_FRONTEND_DRIVER_CUDA_IMAGES_H_
#define PTC_FRONTEND_DRIVER_CUDA_IMAGES_H_

#include "codegen/nvrtc.h"
#include "runtime/cpu/kernel_objects.h"
#include "runtime/cuda/device.h"

typedef struct ptc_cuda_images_s {
  ptc_cuda_image_t *images;         // one per source
  ptc_cuda_resources_t *resources;  // of each
  int32_t count, num_compiled;
} ptc_cuda_images_t;

// Compiles what the cache lacks of |sources| for |target| ("sm_90a"). Diagnostics: those of codegen/nvrtc.h
// and runtime/cpu/object_cache.h; "compile-cancelled" (PTC_IO).
ptc_status_t ptc_cuda_images_create(ptc_diag_t *diag, const ptc_kernel_source_t *sources,
                                    int32_t num_sources,
                                    const ptc_kernel_objects_options_t *options,
                                    ptc_cuda_images_t *out_images);
void ptc_cuda_images_deinit(ptc_cuda_images_t *images);

#endif  // PTC_FRONTEND_DRIVER_CUDA_IMAGES_H_
