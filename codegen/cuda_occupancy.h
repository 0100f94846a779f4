// How many blocks of a kernel a multiprocessor holds at once, from what the kernel takes and what the target has.
#ifndef PTC_CODEGEN_CUDA_OCCUPANCY_H_
#define PTC_CODEGEN_CUDA_OCCUPANCY_H_

#include "codegen/nvrtc.h"

typedef struct ptc_cuda_occupancy_s {
  int64_t blocks;            // per multiprocessor
  int64_t warps, max_warps;  // resident, and what there is room for
  const char *limit;         // what bounds it: "warps", "blocks", "registers", "shared memory"
} ptc_cuda_occupancy_t;

// Of blocks of |num_threads| threads on |target| ("sm_90a"). False if the resources or the limits of the target are
// not known here; |out_occupancy| is then zero.
bool ptc_cuda_occupancy(const char *target, const ptc_cuda_resources_t *resources,
                        int64_t num_threads, ptc_cuda_occupancy_t *out_occupancy);

#endif  // PTC_CODEGEN_CUDA_OCCUPANCY_H_
