#include "tests/support/gpu_world.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "runtime/cuda/device.h"
#include "runtime/cuda/driver.h"
#include "runtime/gpusim/gpusim.h"
#include "runtime/nccl/nccl.h"
#include "tests/support/unit.h"

static const char cuda_file[] = PTC_BINARY_DIR "/libptc_gpusim_cuda.so",
                  nccl_file[] = PTC_BINARY_DIR "/libptc_gpusim_nccl.so";

bool gpu_world_prepare(int32_t num_devices) {
  setenv("PTC_LIBCUDA", cuda_file, 1);
  setenv("PTC_NCCL", nccl_file, 1);
  void *library = dlopen(cuda_file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  ptc_gpusim_configure_fn_t configure = NULL;
  if (library) *(void **)&configure = dlsym(library, PTC_GPUSIM_CONFIGURE);
  if (configure) configure(true, false, num_devices);
  return configure != NULL;
}

// --- memory

static void *device_alloc(void *arg, size_t bytes) {
  gpu_rank_t *rank = arg;
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  uint64_t address = 0;
  int32_t fault;
  CU_ASSERT_EQUAL(rank->device->allocate(rank->device, &diag, 0, (int64_t)bytes, &address), PTC_OK);
  // The zeros are there before the host writes; unless the run has ended.
  (void)rank->device->finish(rank->device, &diag, &fault);
  ptc_diag_deinit(&diag);
  return (void *)(uintptr_t)address;
}

static void device_free(void *arg, void *memory) {
  (void)arg;
  (void)memory;  // until the device is destroyed
}

static ptc_status_t device_finish(void *arg, ptc_diag_t *diag) {
  gpu_rank_t *rank = arg;
  int32_t fault;
  return rank->device->finish(rank->device, diag, &fault);
}

// --- ranks

typedef struct thread_s {
  gpu_rank_t rank;
  gpu_rank_fn_t fn;
  void *arg;
  int64_t num_wrong;
} thread_t;

static int64_t run_rank(thread_t *thread, const ptc_plan_t *plan, ptc_diag_t *diag) {
  gpu_rank_t *rank = &thread->rank;
  ptc_cuda_memory_t memory;
  ptc_nccl_memory(&memory);
  if (ptc_cuda_device_create_in(diag, plan, NULL, rank->host->rank, &memory, &rank->device) !=
      PTC_OK)
    return 1;
  rank->memory = (comm_memory_t){device_alloc, device_free, device_finish, rank};
  int64_t num_wrong = 1;
  if (ptc_comm_open_nccl(diag, rank->device, rank->host, &rank->comm) == PTC_OK) {
    num_wrong = thread->fn(rank, diag, thread->arg);
    if (num_wrong) ptc_comm_abort(rank->host, "the test has failed");
    ptc_comm_close(rank->comm);
  }
  rank->device->destroy(rank->device);
  return num_wrong;
}

static void *rank_main(void *arg) {
  thread_t *thread = arg;
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_plan_t *plan = ptc_plan_create();
  plan->arena_bytes = 64;
  thread->num_wrong = run_rank(thread, plan, &diag);
  if (thread->num_wrong) ptc_diag_print(&diag, stdout, PTC_DIAG_TEXT, false);
  ptc_plan_destroy(plan);
  ptc_comm_close(thread->rank.host);
  ptc_diag_deinit(&diag);
  return NULL;
}

int64_t gpu_world_run(int32_t world, gpu_rank_fn_t fn, void *arg) {
  ptc_comm_t *comms[GPU_WORLD_MAX];
  thread_t threads[GPU_WORLD_MAX] = {0};
  pthread_t ids[GPU_WORLD_MAX];
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  CU_ASSERT_EQUAL_FATAL(ptc_comm_open_threads(&diag, world, comms), PTC_OK);
  ptc_diag_deinit(&diag);
  for (int32_t r = 0; r < world; r++) {
    threads[r] = (thread_t){.rank = {.host = comms[r]}, .fn = fn, .arg = arg};
    CU_ASSERT_EQUAL_FATAL(pthread_create(&ids[r], NULL, rank_main, &threads[r]), 0);
  }
  int64_t sum = 0;
  for (int32_t r = 0; r < world; r++) {
    pthread_join(ids[r], NULL);
    sum += threads[r].num_wrong;
  }
  return sum;
}
