#include "runtime/cuda/device.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ir/base/clock.h"
#include "ir/base/vec.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/products.h"

// Of the driver's enumerations.
enum {
  STREAM_NON_BLOCKING = 1,
  EVENT_DISABLE_TIMING = 2,
  CAPTURE_THREAD_LOCAL = 1,
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

// Pages of the host.
typedef struct pinned_s {
  uintptr_t begin, end;
} pinned_t;

typedef struct cuda_device_s {
  ptc_device_t base;
  const ptc_plan_t *plan;
  ptc_cuda_driver_t *driver;
  int ordinal;
  bool retained;
  // Of the plan: stream 0 does all that is not part of a task, too.
  void **streams, **events;  // event e is events[e - 1]
  int32_t num_streams, num_events;
  bool *recorded;               // per event: since the device was last waited for, or a graph begun
  void *joint;                  // an event: at the begin and the end of a graph all streams meet
  void **modules, **functions;  // one per kernel
  ptc_products_t *products;     // those that a library does
  uint64_t faults;              // an int32_t per kernel
  ptc_cuda_memory_t memory;
  bool is_lent;  // the arena is |memory|'s
  int32_t *host_faults;
  PTC_VEC(uint64_t) allocations;
  PTC_VEC(void *) marks;
  PTC_VEC(void *) graphs;
  PTC_VEC(pinned_t) pinned;
  ptc_device_watch_fn_t watch;
  void *watch_arg;
  bool failed;  // a wait was ended by |watch|: work may still be under way
} cuda_device_t;

enum { TURNS_AWAKE = 500, TURNS_PER_LOOK = 32, DRAIN_MS = 2000 };

#define CU(device, diag, name, ...) \
  PTC_TRY(ptc_cuda_check((device)->driver, (diag), (device)->driver->name(__VA_ARGS__), "cu" #name))

static void rest(int64_t turn) {
  if (turn < TURNS_AWAKE)
    sched_yield();
  else
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

// Waits for all that |stream| has been given.
static ptc_status_t wait_for_stream(cuda_device_t *device, ptc_diag_t *diag, int32_t stream) {
  if (!device->watch) {
    CU(device, diag, StreamSynchronize, device->streams[stream]);
    return PTC_OK;
  }
  const double begin_s = ptc_now_s();
  for (int64_t turn = 0;; turn++) {
    const int code = device->driver->StreamQuery(device->streams[stream]);
    if (code != PTC_CUDA_NOT_READY)
      return ptc_cuda_check(device->driver, diag, code, "cuStreamQuery");
    if (turn % TURNS_PER_LOOK == TURNS_PER_LOOK - 1) {
      const ptc_status_t status = device->watch(device->watch_arg, diag, ptc_now_s() - begin_s);
      device->failed |= status != PTC_OK;
      PTC_TRY(status);
    }
    rest(turn);
  }
}

static ptc_status_t launch(ptc_device_t *base, ptc_diag_t *diag, int32_t stream, int32_t kernel,
                           const uint64_t *args, int32_t num_args, const int64_t *turns) {
  cuda_device_t *device = (cuda_device_t *)base;
  if (ptc_products_take(device->products, kernel, args))
    return ptc_products_launch(device->products, diag, kernel, args, device->streams[stream]);
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
  // What came before is done, and not part of a graph.
  if (!device->recorded[event - 1]) return PTC_OK;
  CU(device, diag, StreamWaitEvent, device->streams[stream], device->events[event - 1], 0);
  return PTC_OK;
}

static ptc_status_t record(ptc_device_t *base, ptc_diag_t *diag, int32_t stream, int32_t event) {
  cuda_device_t *device = (cuda_device_t *)base;
  CU(device, diag, EventRecord, device->events[event - 1], device->streams[stream]);
  device->recorded[event - 1] = true;
  return PTC_OK;
}

static void *stream_of(ptc_device_t *base, int32_t stream) {
  return ((cuda_device_t *)base)->streams[stream];
}

static ptc_status_t upload(ptc_device_t *base, ptc_diag_t *diag, uint64_t to, const void *from,
                           int64_t bytes) {
  cuda_device_t *device = (cuda_device_t *)base;
  CU(device, diag, MemcpyHtoDAsync, to, from, (size_t)bytes, device->streams[0]);
  return wait_for_stream(device, diag, 0);
}

static ptc_status_t download(ptc_device_t *base, ptc_diag_t *diag, void *to, uint64_t from,
                             int64_t bytes) {
  cuda_device_t *device = (cuda_device_t *)base;
  CU(device, diag, MemcpyDtoHAsync, to, from, (size_t)bytes, device->streams[0]);
  return wait_for_stream(device, diag, 0);
}

static ptc_status_t send(ptc_device_t *base, ptc_diag_t *diag, uint64_t to, const void *from,
                         int64_t bytes) {
  cuda_device_t *device = (cuda_device_t *)base;
  CU(device, diag, MemcpyHtoDAsync, to, from, (size_t)bytes, device->streams[0]);
  return PTC_OK;
}

static ptc_status_t join(cuda_device_t *device, ptc_diag_t *diag, int32_t from, int32_t to) {
  if (!device->joint) CU(device, diag, EventCreate, &device->joint, EVENT_DISABLE_TIMING);
  CU(device, diag, EventRecord, device->joint, device->streams[from]);
  CU(device, diag, StreamWaitEvent, device->streams[to], device->joint, 0);
  return PTC_OK;
}

static ptc_status_t spread(ptc_device_t *base, ptc_diag_t *diag) {
  cuda_device_t *device = (cuda_device_t *)base;
  for (int32_t i = 1; i < device->num_streams; i++) PTC_TRY(join(device, diag, 0, i));
  return PTC_OK;
}

// Ranges share no page: the driver takes none twice.
static void pin(ptc_device_t *base, void *memory, int64_t bytes) {
  cuda_device_t *device = (cuda_device_t *)base;
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)memory;
  pinned_t range = {at / page * page, (at + (uintptr_t)bytes + page - 1) / page * page};
  for (int64_t i = 0; i < device->pinned.len; i++) {
    const pinned_t *other = &device->pinned.data[i];
    if (other->begin <= range.begin && range.begin < other->end) range.begin = other->end;
    if (other->begin < range.end && range.end <= other->end) range.end = other->begin;
    if (range.begin < other->begin && other->end < range.end)
      return;  // in parts: left to the driver
  }
  if (range.begin >= range.end || !device->driver->MemHostRegister ||
      !device->driver->MemHostUnregister)
    return;
  // Pages that cannot be held (the user's limit) are copied by the driver.
  if (device->driver->MemHostRegister((void *)range.begin, range.end - range.begin, 0) == 0)
    PTC_VEC_PUSH(&device->pinned, range);
}

static void forget_events(cuda_device_t *device) {
  memset(device->recorded, 0, sizeof *device->recorded * (size_t)device->num_events);
}

static ptc_status_t finish(ptc_device_t *base, ptc_diag_t *diag, int32_t *out_fault) {
  cuda_device_t *device = (cuda_device_t *)base;
  const int64_t bytes = 4 * (int64_t)device->plan->num_kernels;
  *out_fault = -1;
  for (int32_t i = 1; i < device->num_streams; i++) PTC_TRY(wait_for_stream(device, diag, i));
  PTC_TRY(download(base, diag, device->host_faults, device->faults, bytes));
  forget_events(device);
  for (int32_t k = 0; k < device->plan->num_kernels; k++)
    if (device->host_faults[k] && *out_fault < 0) *out_fault = k;
  return PTC_OK;
}

// --- graphs

static const char *no_graph(const ptc_device_t *base) {
  const cuda_device_t *device = (const cuda_device_t *)base;
  return ptc_cuda_driver_has_graphs(device->driver) ? NULL
                                                    : "the CUDA driver is too old for graphs";
}

static ptc_status_t begin_graph(ptc_device_t *base, ptc_diag_t *diag) {
  cuda_device_t *device = (cuda_device_t *)base;
  forget_events(device);
  if (!device->joint) CU(device, diag, EventCreate, &device->joint, EVENT_DISABLE_TIMING);
  CU(device, diag, StreamBeginCapture, device->streams[0], CAPTURE_THREAD_LOCAL);
  const ptc_status_t status = spread(base, diag);
  void *none = NULL;
  if (status != PTC_OK) device->driver->StreamEndCapture(device->streams[0], &none);
  return status;
}

static ptc_status_t end_graph(ptc_device_t *base, ptc_diag_t *diag, void **out_graph) {
  cuda_device_t *device = (cuda_device_t *)base;
  const ptc_cuda_driver_t *driver = device->driver;
  void *graph = NULL, *executable = NULL;
  *out_graph = NULL;
  ptc_status_t status = PTC_OK;
  for (int32_t i = 1; i < device->num_streams && status == PTC_OK; i++)
    status = join(device, diag, i, 0);
  const int code = driver->StreamEndCapture(device->streams[0], &graph);
  forget_events(device);
  if (status == PTC_OK) status = ptc_cuda_check(driver, diag, code, "cuStreamEndCapture");
  if (status == PTC_OK)
    status = ptc_cuda_check(driver, diag, driver->GraphInstantiate(&executable, graph, 0),
                            "cuGraphInstantiateWithFlags");
  if (graph) driver->GraphDestroy(graph);
  PTC_TRY(status);
  PTC_VEC_PUSH(&device->graphs, executable);
  *out_graph = executable;
  return PTC_OK;
}

static ptc_status_t run_graph(ptc_device_t *base, ptc_diag_t *diag, void *graph) {
  cuda_device_t *device = (cuda_device_t *)base;
  CU(device, diag, GraphLaunch, graph, device->streams[0]);
  return PTC_OK;
}

// --- for communicators

static ptc_status_t copy_rows(ptc_device_t *base, ptc_diag_t *diag, int32_t stream, uint64_t to,
                              int64_t to_pitch, uint64_t from, int64_t from_pitch, int64_t width,
                              int64_t rows) {
  cuda_device_t *device = (cuda_device_t *)base;
  if (width <= 0 || rows <= 0) return PTC_OK;
  if (rows == 1) return copy(base, diag, stream, to, from, width);
  const ptc_cuda_copy_2d_t call = {.from_type = PTC_CUDA_MEMORY_DEVICE,
                                   .from = from,
                                   .from_pitch = (size_t)from_pitch,
                                   .to_type = PTC_CUDA_MEMORY_DEVICE,
                                   .to = to,
                                   .to_pitch = (size_t)to_pitch,
                                   .width = (size_t)width,
                                   .height = (size_t)rows};
  CU(device, diag, Memcpy2DAsync, &call, device->streams[stream]);
  return PTC_OK;
}

static ptc_status_t allocate_more(ptc_device_t *base, ptc_diag_t *diag, int32_t stream,
                                  int64_t bytes, uint64_t *out_address) {
  cuda_device_t *device = (cuda_device_t *)base;
  *out_address = 0;
  CU(device, diag, MemAlloc, out_address, (size_t)bytes);
  PTC_VEC_PUSH(&device->allocations, *out_address);
  CU(device, diag, MemsetD8Async, *out_address, 0, (size_t)bytes, device->streams[stream]);
  return PTC_OK;
}

static ptc_status_t set_mark(ptc_device_t *base, ptc_diag_t *diag, int32_t stream, void **mark) {
  cuda_device_t *device = (cuda_device_t *)base;
  if (!*mark) {
    CU(device, diag, EventCreate, mark, EVENT_DISABLE_TIMING);
    PTC_VEC_PUSH(&device->marks, *mark);
  }
  CU(device, diag, EventRecord, *mark, device->streams[stream]);
  return PTC_OK;
}

static bool has_passed(ptc_device_t *base, void *mark) {
  return ((cuda_device_t *)base)->driver->EventQuery(mark) == 0;
}

static void set_watch(ptc_device_t *base, ptc_device_watch_fn_t watch, void *arg) {
  cuda_device_t *device = (cuda_device_t *)base;
  device->watch = watch;
  device->watch_arg = arg;
}

// --- life

// After a failed wait the device may hang, and each call that frees something would wait for it, forever: what it has
// is then left to the end of the process.
static bool is_drained(const cuda_device_t *device) {
  const double begin_s = ptc_now_s();
  for (int32_t i = 0; i < device->num_streams && device->failed; i++)
    while (device->driver->StreamQuery(device->streams[i]) == PTC_CUDA_NOT_READY) {
      if (ptc_now_s() - begin_s > 1e-3 * DRAIN_MS) return false;
      rest(TURNS_AWAKE);
    }
  return true;
}

static void free_host(cuda_device_t *device) {
  if (device->memory.close) device->memory.close(device->memory.arg);
  PTC_VEC_FREE(&device->allocations);
  PTC_VEC_FREE(&device->marks);
  PTC_VEC_FREE(&device->graphs);
  PTC_VEC_FREE(&device->pinned);
  free(device->recorded);
  free(device->modules);
  free(device->functions);
  free(device->host_faults);
  free(device->streams);
  free(device->events);
  free(device);
}

static void destroy(ptc_device_t *base) {
  cuda_device_t *device = (cuda_device_t *)base;
  if (!device) return;
  const ptc_cuda_driver_t *driver = device->driver;
  if (!is_drained(device)) {
    free_host(device);
    return;
  }
  for (int64_t i = 0; i < device->pinned.len; i++)
    driver->MemHostUnregister((void *)device->pinned.data[i].begin);
  for (int64_t i = 0; i < device->graphs.len; i++) driver->GraphExecDestroy(device->graphs.data[i]);
  if (device->joint) driver->EventDestroy(device->joint);
  ptc_products_close(device->products);
  for (int64_t i = 0; i < device->marks.len; i++) driver->EventDestroy(device->marks.data[i]);
  for (int64_t i = 0; i < device->allocations.len; i++)
    driver->MemFree(device->allocations.data[i]);
  for (int32_t k = 0; device->modules && k < device->plan->num_kernels; k++)
    if (device->modules[k]) driver->ModuleUnload(device->modules[k]);
  if (device->faults) driver->MemFree(device->faults);
  if (base->arena && device->is_lent) device->memory.release(device->memory.arg, base->arena);
  if (base->arena && !device->is_lent) driver->MemFree(base->arena);
  for (int32_t i = 0; i < device->num_events; i++)
    if (device->events[i]) driver->EventDestroy(device->events[i]);
  for (int32_t i = 0; i < device->num_streams; i++)
    if (device->streams[i]) driver->StreamDestroy(device->streams[i]);
  if (device->retained) driver->DevicePrimaryCtxRelease(device->ordinal);
  ptc_cuda_driver_close(device->driver);
  free_host(device);
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
  device->is_lent =
      device->memory.close &&
      device->memory.allocate(device->memory.arg, (int64_t)arena_bytes, &device->base.arena);
  if (!device->is_lent) CU(device, diag, MemAlloc, &device->base.arena, arena_bytes);
  device->base.arena_bytes = (int64_t)arena_bytes;
  CU(device, diag, MemsetD8Async, device->base.arena, 0, arena_bytes, device->streams[0]);
  CU(device, diag, MemAlloc, &device->faults, fault_bytes);
  CU(device, diag, MemsetD8Async, device->faults, 0, fault_bytes, device->streams[0]);
  return wait_for_stream(device, diag, 0);
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
                     "there is no GPU number %d: the driver sees %d, and each rank needs one of "
                     "its own",
                     ordinal, count);
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
  device->products = ptc_products_open(diag, device->plan);
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
  return ptc_cuda_device_create_in(diag, plan, images, ordinal, &(ptc_cuda_memory_t){0},
                                   out_device);
}

ptc_status_t ptc_cuda_device_create_in(ptc_diag_t *diag, const ptc_plan_t *plan,
                                       const ptc_cuda_image_t *images, int32_t ordinal,
                                       const ptc_cuda_memory_t *memory, ptc_device_t **out_device) {
  *out_device = NULL;
  ptc_cuda_driver_t *driver = ptc_cuda_driver_open(diag);
  if (!driver && memory->close) memory->close(memory->arg);
  if (!driver) return PTC_DEVICE;
  const size_t num_kernels = (size_t)plan->num_kernels + 1;
  cuda_device_t *device = ptc_xmalloc(sizeof *device);
  *device = (cuda_device_t){.base = {.launch = launch,
                                     .copy = copy,
                                     .wait = wait_for,
                                     .record = record,
                                     .stream = stream_of,
                                     .upload = upload,
                                     .download = download,
                                     .send = send,
                                     .spread = spread,
                                     .pin = pin,
                                     .finish = finish,
                                     .destroy = destroy,
                                     .no_graph = no_graph,
                                     .begin_graph = begin_graph,
                                     .end_graph = end_graph,
                                     .run_graph = run_graph,
                                     .copy_rows = copy_rows,
                                     .allocate = allocate_more,
                                     .set_mark = set_mark,
                                     .has_passed = has_passed,
                                     .set_watch = set_watch},
                            .plan = plan,
                            .memory = *memory,
                            .driver = driver,
                            .num_streams = ptc_plan_num_streams(plan),
                            .num_events = ptc_plan_num_events(plan)};
  device->streams = new_handles(device->num_streams);
  device->events = new_handles(device->num_events);
  device->recorded = ptc_xmalloc(sizeof *device->recorded * (size_t)(device->num_events + 1));
  forget_events(device);
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
