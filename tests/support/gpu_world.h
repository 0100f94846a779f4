// Runs the same function on every rank of a world, ranks being threads with a simulated GPU each.
#ifndef PTC_TESTS_SUPPORT_GPU_WORLD_H_
#define PTC_TESTS_SUPPORT_GPU_WORLD_H_

#include "runtime/communicator.h"
#include "runtime/device.h"
#include "tests/support/comm_case.h"

enum { GPU_WORLD_MAX = 8 };

typedef struct gpu_rank_s {
  ptc_comm_t *host, *comm;  // |comm| is NCCL's
  ptc_device_t *device;
  comm_memory_t memory;  // the device's
  void *context;         // of the driver
} gpu_rank_t;

// How many things were wrong on this rank.
typedef int64_t (*gpu_rank_fn_t)(gpu_rank_t *rank, ptc_diag_t *diag, void *arg);

// Sets PTC_LIBCUDA and PTC_NCCL to the simulator, which then has |num_devices|. False if it is not there.
bool gpu_world_prepare(int32_t num_devices);
// The sum over ranks; 1 for one that could not be opened. Rank r has GPU r.
int64_t gpu_world_run(int32_t world, gpu_rank_fn_t fn, void *arg);

#endif  // PTC_TESTS_SUPPORT_GPU_WORLD_H_
