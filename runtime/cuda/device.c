#include "runtime/cuda/device.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/driver.h"

// Of the driver's enumerations.
enum {
  STREAM_NON_BLOCKING = 1,
  EVENT_DISABLE_TIMING = 2,
  THREADS = 256,    // of a block: as codegen prints kernels
  MAX_PARAMS = 65,  // of the call struct that codegen prints
};

// What a kernel is given, by value: the struct of codegen's CUDA prelude.
typedef struct call_s {
  uint64_t params[MAX_PARAMS];
  int64_t turns[PTC_PLAN_MAX_LEVELS];
  uint64_t fault;
  int64_t phase;
} call_t;

typedef struct cuda_device_s {
  ptc_device_t base;
  const ptc_plan_t *plan;
  ptc_cuda_driver_t *driver;
  int ordinal;
  bool retained;
  // Of the plan: stream 0 does all that is not part of a task, too.
  void **streams, **events;  // event e is events[e - 1]
  int32_t num_streams, num_events;
  void **modules, **functions;  // one per kernel
  uint64_t faults;              // an int32_t per kernel
  int32_t *host_faults;
} cuda_device_t;

#define CU(device, diag, name, ...) \
  PTC_TRY(ptc_cuda_check((device)->driver, (diag), (device)->driver->name(__VA_ARGS__), "cu" #name))

static ptc_status_t launch(ptc_device_t *base, ptc_diag_t *diag, int32_t stream, int32_t kernel,
                           const uint64_t *args, int32_t num_args, const int64_t *turns) {
  cuda_device_t *device = (cuda_device_t *)base;
  const ptc_plan_kernel_t *k = &device->plan->kernels[kernel];
  call_t call = {.fault = device->faults + 4 * (uint64_t)kernel};
  memcpy(call.params, args, sizeof *args * (size_t)(num_args < MAX_PARAMS ? num_args : MAX_PARAMS));
  memcpy(call.turns, turns, sizeof call.turns);
  void *params[] = {&call};
  for (int32_t r = 0; r < k->num_runs; r++)
    for (int64_t c = 0; c < k->runs[r].count; c++)
      for (int32_t p = 0; p < k->runs[r].num_phases; p++, call.phase++) {
        const int64_t tiles = k->runs[r].tiles[p];
        if (tiles > 0)
          CU(device, diag, LaunchKernel, device->functions[kernel], (unsigned)tiles, 1, 1, THREADS,
             1, 1, 0, device->streams[stream], params, NULL);
      }
  return PTC_OK;
}

static ptc_status_t copy(ptc_device_t *base, ptc_diag_t *diag, int32_t stream, uint64_t to,
                         uint64_t from, int64_t bytes) {
  cuda_device_t *device = (cuda_device_t *)base;
  CU(device, diag, MemcpyDtoDAsync, to, from, (size_t)bytes, device->streams[stream]);
  return PTC_OK;
}

static ptc_status_t wait_for(ptc_device_t *base, ptc_diag_t *diag, int32_t stream, int32_t event) {
  cuda_device_t *device = (cuda_device_t *)base;
  CU(device, diag, StreamWaitEvent, device->streams[stream], device->events[event - 1], 0);
  return PTC_OK;
}

static ptc_status_t record(ptc_device_t *base, ptc_diag_t *diag, int32_t stream, int32_t event) {
  cuda_device_t *device = (cuda_device_t *)base;
  CU(device, diag, EventRecord, device->events[event - 1], device->streams[stream]);
  return PTC_OK;
}

static void *stream_of(ptc_device_t *base, int32_t stream) {
  return ((cuda_device_t *)base)->streams[stream];
}

static ptc_status_t upload(ptc_device_t *base, ptc_diag_t *diag, uint64_t to, const void *from,
                           int64_t bytes) {
  cuda_device_t *device = (cuda_device_t *)base;
  CU(device, diag, MemcpyHtoDAsync, to, from, (size_t)bytes, device->streams[0]);
  CU(device, diag, StreamSynchronize, device->streams[0]);
  return PTC_OK;
}

static ptc_status_t download(ptc_device_t *base, ptc_diag_t *diag, void *to, uint64_t from,
                             int64_t bytes) {
  cuda_device_t *device = (cuda_device_t *)base;
  CU(device, diag, MemcpyDtoHAsync, to, from, (size_t)bytes, device->streams[0]);
  CU(device, diag, StreamSynchronize, device->streams[0]);
  return PTC_OK;
}

static ptc_status_t finish(ptc_device_t *base, ptc_diag_t *diag, int32_t *out_fault) {
  cuda_device_t *device = (cuda_device_t *)base;
  const int64_t bytes = 4 * (int64_t)device->plan->num_kernels;
  *out_fault = -1;
  for (int32_t i = 1; i < device->num_streams; i++)
    CU(device, diag, StreamSynchronize, device->streams[i]);
  PTC_TRY(download(base, diag, device->host_faults, device->faults, bytes));
  for (int32_t k = 0; k < device->plan->num_kernels; k++)
    if (device->host_faults[k] && *out_fault < 0) *out_fault = k;
  return PTC_OK;
}

static void destroy(ptc_device_t *base) {
  cuda_device_t *device = (cuda_device_t *)base;
  if (!device) return;
  const ptc_cuda_driver_t *driver = device->driver;
  for (int32_t k = 0; device->modules && k < device->plan->num_kernels; k++)
    if (device->modules[k]) driver->ModuleUnload(device->modules[k]);
  if (device->faults) driver->MemFree(device->faults);
  if (base->arena) driver->MemFree(base->arena);
  for (int32_t i = 0; i < device->num_events; i++)
    if (device->events[i]) driver->EventDestroy(device->events[i]);
  for (int32_t i = 0; i < device->num_streams; i++)
    if (device->streams[i]) driver->StreamDestroy(device->streams[i]);
  if (device->retained) driver->DevicePrimaryCtxRelease(device->ordinal);
  ptc_cuda_driver_close(device->driver);
  free(device->modules);
  free(device->functions);
  free(device->host_faults);
  free(device->streams);
  free(device->events);
  free(device);
}

static ptc_status_t allocate(cuda_device_t *device, ptc_diag_t *diag) {
  const ptc_plan_t *plan = device->plan;
  size_t free_bytes = 0, total_bytes = 0;
  CU(device, diag, MemGetInfo, &free_bytes, &total_bytes);
  if ((uint64_t)plan->arena_bytes > free_bytes)
    return ptc_error(diag, (ptc_loc_t){.file = plan->json_file}, PTC_INFEASIBLE, "cuda-memory",
                     "the arena takes %" PRId64
                     " bytes, and the GPU has %zu of %zu free: compile with a smaller "
                     "micro_batch, or with recompute",
                     plan->arena_bytes, free_bytes, total_bytes);
  const size_t arena_bytes = plan->arena_bytes > 0 ? (size_t)plan->arena_bytes : 1;
  const size_t fault_bytes = 4 * (size_t)(plan->num_kernels + 1);
  CU(device, diag, MemAlloc, &device->base.arena, arena_bytes);
  CU(device, diag, MemsetD8Async, device->base.arena, 0, arena_bytes, device->streams[0]);
  CU(device, diag, MemAlloc, &device->faults, fault_bytes);
  CU(device, diag, MemsetD8Async, device->faults, 0, fault_bytes, device->streams[0]);
  CU(device, diag, StreamSynchronize, device->streams[0]);
  return PTC_OK;
}

static ptc_status_t load(cuda_device_t *device, ptc_diag_t *diag, const ptc_cuda_image_t *images) {
  const ptc_plan_t *plan = device->plan;
  for (int32_t k = 0; k < plan->num_kernels; k++) {
    CU(device, diag, ModuleLoadData, &device->modules[k], images[k].data);
    CU(device, diag, ModuleGetFunction, &device->functions[k], device->modules[k],
       plan->kernels[k].name);
  }
  return PTC_OK;
}

static ptc_status_t open_gpu(cuda_device_t *device, ptc_diag_t *diag, int32_t ordinal) {
  int count = 0;
  CU(device, diag, DeviceGetCount, &count);
  if (ordinal >= count)
    return ptc_error(diag, (ptc_loc_t){0}, PTC_DEVICE, "cuda-failed",
                     "there is no GPU number %d: the driver sees %d", ordinal, count);
  CU(device, diag, DeviceGet, &device->ordinal, ordinal);
  return PTC_OK;
}

static ptc_status_t make_streams(cuda_device_t *device, ptc_diag_t *diag) {
  for (int32_t i = 0; i < device->num_streams; i++)
    CU(device, diag, StreamCreate, &device->streams[i], STREAM_NON_BLOCKING);
  for (int32_t i = 0; i < device->num_events; i++)
    CU(device, diag, EventCreate, &device->events[i], EVENT_DISABLE_TIMING);
  return PTC_OK;
}

static ptc_status_t start(cuda_device_t *device, ptc_diag_t *diag, const ptc_cuda_image_t *images,
                          int32_t ordinal) {
  PTC_TRY(open_gpu(device, diag, ordinal));
  void *context = NULL;
  CU(device, diag, DevicePrimaryCtxRetain, &context, device->ordinal);
  device->retained = true;
  CU(device, diag, CtxSetCurrent, context);
  PTC_TRY(make_streams(device, diag));
  PTC_TRY(allocate(device, diag));
  return load(device, diag, images);
}

static void **new_handles(int32_t count) {
  void **handles = ptc_xmalloc(sizeof *handles * (size_t)(count + 1));
  memset(handles, 0, sizeof *handles * (size_t)(count + 1));
  return handles;
}

ptc_status_t ptc_cuda_device_create(ptc_diag_t *diag, const ptc_plan_t *plan,
                                    const ptc_cuda_image_t *images, int32_t ordinal,
                                    ptc_device_t **out_device) {
  *out_device = NULL;
  ptc_cuda_driver_t *driver = ptc_cuda_driver_open(diag);
  if (!driver) return PTC_DEVICE;
  const size_t num_kernels = (size_t)plan->num_kernels + 1;
  cuda_device_t *device = ptc_xmalloc(sizeof *device);
  *device = (cuda_device_t){
      .base = {0, launch, copy, wait_for, record, stream_of, upload, download, finish, destroy},
      .plan = plan,
      .driver = driver,
      .num_streams = ptc_plan_num_streams(plan),
      .num_events = ptc_plan_num_events(plan)};
  device->streams = new_handles(device->num_streams);
  device->events = new_handles(device->num_events);
  device->modules = ptc_xmalloc(sizeof(void *) * num_kernels);
  device->functions = ptc_xmalloc(sizeof(void *) * num_kernels);
  device->host_faults = ptc_xmalloc(sizeof(int32_t) * num_kernels);
  memset(device->modules, 0, sizeof(void *) * num_kernels);
  const ptc_status_t status = start(device, diag, images, ordinal);
  if (status == PTC_OK)
    *out_device = &device->base;
  else
    destroy(&device->base);
  return status;
}
