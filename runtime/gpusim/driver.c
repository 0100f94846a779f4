// The CUDA driver's entry points over simulated devices.
//
// The driver API has no handle of the process in its calls: the devices are static here, each behind its lock, and so
// is each thread's current one.
#include "runtime/cuda/driver.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/gpusim/graph.h"

#define EXPORT PTC_GPUSIM_EXPORT

typedef struct machine_s {
  pthread_mutex_t lock;  // of what follows; the devices have their own
  bool ready;
  int32_t num_devices;  // 0: the environment says
  sim_options_t options;
  sim_counts_t counts;
  PTC_VEC(sim_pinned_t) pinned;
  sim_device_t devices[SIM_MAX_DEVICES];
} machine_t;

static machine_t machine = {.lock = PTHREAD_MUTEX_INITIALIZER,
                            .counts.lock = PTHREAD_MUTEX_INITIALIZER};
static _Thread_local sim_device_t *current;

static bool is_on(const char *name) {
  const char *value = getenv(name);
  return value && *value && strcmp(value, "0") != 0;
}

// Evaluates with the lock of |device|, which may be NULL.
#define LOCKED(device, expr)                  \
  do {                                        \
    sim_device_t *device_ = (device);         \
    if (!device_) return SIM_INVALID_CONTEXT; \
    pthread_mutex_lock(&device_->lock);       \
    const int code_ = (expr);                 \
    pthread_mutex_unlock(&device_->lock);     \
    return code_;                             \
  } while (0)

static sim_stream_t *stream_of(void *handle) {
  return handle ? handle : current ? &current->default_stream : NULL;
}

static sim_device_t *device_of(void *handle) {
  const sim_stream_t *stream = stream_of(handle);
  return stream ? stream->device : NULL;
}

// --- options and counters

EXPORT void ptc_gpusim_configure(bool checks, bool counters, int32_t num_devices) {
  pthread_mutex_lock(&machine.lock);
  machine.options.checks = checks;
  machine.options.counters = counters;
  if (num_devices) machine.num_devices = num_devices;
  pthread_mutex_unlock(&machine.lock);
}

EXPORT bool ptc_gpusim_counters(int32_t index, const char **out_name,
                                sim_counters_t *out_counters) {
  pthread_mutex_lock(&machine.counts.lock);
  const bool there = index >= 0 && index < machine.counts.len;
  if (there) {
    *out_name = machine.counts.data[index].name;
    *out_counters = machine.counts.data[index].counters;
  }
  pthread_mutex_unlock(&machine.counts.lock);
  return there;
}

// --- entry points: prototypes from the table that the runtime loads them by

#define PTC_CU(field, symbol, params) EXPORT int symbol params;
#include "runtime/cuda/driver_symbols.def"
#undef PTC_CU
EXPORT int cuEventSynchronize(void *event);
EXPORT int cuCtxSynchronize(void);

int cuGetErrorString(int code, const char **text) {
  static const struct {
    int code;
    const char *text;
  } texts[] = {
      {SIM_OK, "no error"},
      {SIM_INVALID_VALUE, "invalid argument"},
      {SIM_OUT_OF_MEMORY, "out of memory"},
      {SIM_NOT_INITIALIZED, "initialization error"},
      {SIM_INVALID_DEVICE, "invalid device ordinal"},
      {SIM_INVALID_CONTEXT, "invalid device context"},
      {SIM_INVALID_PTX, "a PTX JIT compilation failed"},
      {SIM_INVALID_HANDLE, "invalid resource handle"},
      {SIM_NOT_FOUND, "named symbol not found"},
      {SIM_NOT_READY, "device not ready"},
      {SIM_ILLEGAL_ADDRESS, "an illegal memory access was encountered"},
      {SIM_ALREADY_REGISTERED, "part or all of the memory is already registered"},
      {SIM_NOT_REGISTERED, "the memory has not been registered"},
      {SIM_MISALIGNED_ADDRESS, "misaligned address"},
      {SIM_LAUNCH_FAILED, "unspecified launch failure"},
      {SIM_ILLEGAL_STATE, "the operation cannot be performed in the present state"},
      {SIM_NOT_SUPPORTED, "operation not supported"},
      {SIM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"},
      {SIM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"},
      {SIM_CAPTURE_MERGE, "operation would result in a merge of separate capture sequences"},
      {SIM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began"},
      {SIM_CAPTURE_UNJOINED, "capturing stream has unjoined work"},
      {SIM_CAPTURE_ISOLATION, "dependency created on uncaptured work in another stream"},
      {SIM_CAPTURE_IMPLICIT,
       "operation would make the legacy stream depend on a capturing blocking stream"},
      {SIM_CAPTURED_EVENT,
       "operation not permitted on an event last recorded in a capturing stream"},
      {SIM_CAPTURE_WRONG_THREAD,
       "attempt to terminate a thread-local capture sequence from another thread"},
      {SIM_UNKNOWN, "unknown error"}};
  *text = NULL;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i)
    if (texts[i].code == code) *text = texts[i].text;
  if (current) {
    pthread_mutex_lock(&current->lock);
    if (code && current->report.len && (code == current->error || code == SIM_INVALID_PTX))
      *text = current->report.data;
    pthread_mutex_unlock(&current->lock);
  }
  return *text ? SIM_OK : SIM_INVALID_VALUE;
}

// The counts that the environment gives, where nobody has configured them.
static void init(void) {
  const char *devices = getenv("PTC_GPUSIM_DEVICES");
  if (!machine.num_devices && devices) machine.num_devices = atoi(devices);
  if (machine.num_devices < 1) machine.num_devices = 1;
  if (machine.num_devices > SIM_MAX_DEVICES) machine.num_devices = SIM_MAX_DEVICES;
  machine.options.checks |= is_on("PTC_GPUSIM_CHECKS");
  machine.options.counters |= is_on("PTC_GPUSIM_COUNTERS");
  const char *memory = getenv("PTC_GPUSIM_MEMORY");
  for (int32_t d = 0; d < SIM_MAX_DEVICES; ++d) {
    sim_device_init(&machine.devices[d], d, &machine.counts);
    if (memory) machine.devices[d].memory.limit_bytes = strtoull(memory, NULL, 0);
  }
  machine.ready = true;
}

int cuInit(unsigned flags) {
  if (flags) return SIM_INVALID_VALUE;
  pthread_mutex_lock(&machine.lock);
  if (!machine.ready) init();
  pthread_mutex_unlock(&machine.lock);
  return SIM_OK;
}

int cuDeviceGetCount(int *count) {
  pthread_mutex_lock(&machine.lock);
  *count = machine.num_devices;
  pthread_mutex_unlock(&machine.lock);
  return SIM_OK;
}

static sim_device_t *device_at(int ordinal) {
  int count = 0;
  cuDeviceGetCount(&count);
  return ordinal >= 0 && ordinal < count ? &machine.devices[ordinal] : NULL;
}

int cuDeviceGet(int *out, int ordinal) {
  *out = ordinal;
  return device_at(ordinal) ? SIM_OK : SIM_INVALID_DEVICE;
}

// The options are those of the first one who wants the device. Devices share the cores.
static int retain(sim_device_t *device) {
  if (device->retained++) return SIM_OK;
  pthread_mutex_lock(&machine.lock);
  const int32_t num_devices = machine.num_devices;
  device->options = machine.options;
  pthread_mutex_unlock(&machine.lock);
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  const int32_t threads = (int32_t)(cores > num_devices ? cores / num_devices : 1);
  device->memory.follow = device->options.checks;
  device->pool = sim_pool_create(num_devices > 1 ? threads : 0);
  memset(device->injuries, 0, sizeof device->injuries);
  memset(device->num_events, 0, sizeof device->num_events);
  sim_device_injure(device, getenv("PTC_GPUSIM_FAULT"));
  return SIM_OK;
}

int cuDevicePrimaryCtxRetain(void **context, int ordinal) {
  sim_device_t *device = device_at(ordinal);
  *context = device;
  if (!device) return SIM_INVALID_DEVICE;
  LOCKED(device, retain(device));
}

int cuDevicePrimaryCtxRelease_v2(int ordinal) {
  sim_device_t *device = device_at(ordinal);
  if (!device) return SIM_INVALID_DEVICE;
  pthread_mutex_lock(&device->lock);
  const bool last = --device->retained == 0;
  if (last && !device->error) sim_device_run_all(device);
  pthread_mutex_unlock(&device->lock);
  if (last) sim_device_close(device);
  return SIM_OK;
}

int cuCtxSetCurrent(void *context) {
  const sim_device_t *device = context;
  if (device && (device < machine.devices || device >= machine.devices + SIM_MAX_DEVICES))
    return SIM_INVALID_HANDLE;
  current = context;
  return SIM_OK;
}

static int synchronize(sim_device_t *device) {
  const int forbidden = sim_capture_forbids(device, false);
  return forbidden ? forbidden : sim_device_run_all(device);
}

int cuCtxSynchronize(void) { LOCKED(current, synchronize(current)); }

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
  if (!current) return SIM_INVALID_CONTEXT;
  const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  pthread_mutex_lock(&current->lock);
  const size_t limit = current->memory.limit_bytes, used = current->memory.used_bytes;
  pthread_mutex_unlock(&current->lock);
  const size_t total = limit ? limit : (size_t)pages * (size_t)size;
  *total_bytes = total;
  *free_bytes = used < total ? total - used : 0;
  return SIM_OK;
}

static int allocate(uint64_t *address, size_t bytes) {
  if (current->error) return current->error;
  if (!bytes) return SIM_INVALID_VALUE;
  const int forbidden = sim_capture_forbids(current, true);
  if (forbidden) return forbidden;
  if (sim_device_is_injured(current, SIM_INJURY_MEMORY)) return SIM_OUT_OF_MEMORY;
  *address = sim_memory_alloc(&current->memory, bytes);
  return *address ? SIM_OK : SIM_OUT_OF_MEMORY;
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes) { LOCKED(current, allocate(address, bytes)); }

static int release_memory(uint64_t address) {
  const int forbidden = sim_capture_forbids(current, true);
  if (forbidden) return forbidden;
  sim_device_run_all(current);
  return sim_memory_free(&current->memory, address) ? SIM_OK : SIM_INVALID_VALUE;
}

int cuMemFree_v2(uint64_t address) { LOCKED(current, release_memory(address)); }

// --- the host's memory

static int64_t find_pinned(uint64_t begin, uint64_t end) {
  for (int64_t i = 0; i < machine.pinned.len; ++i)
    if (machine.pinned.data[i].begin < end && begin < machine.pinned.data[i].end) return i;
  return -1;
}

static bool is_pinned(uint64_t begin, uint64_t bytes) {
  pthread_mutex_lock(&machine.lock);
  const int64_t at = find_pinned(begin, begin + bytes);
  const bool all = at >= 0 && machine.pinned.data[at].begin <= begin &&
                   begin + bytes <= machine.pinned.data[at].end;
  pthread_mutex_unlock(&machine.lock);
  return all;
}

int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags) {
  const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = (uint64_t)(uintptr_t)memory;
  const sim_pinned_t range = {at / page * page, (at + bytes + page - 1) / page * page};
  if (!current) return SIM_INVALID_CONTEXT;
  if (!memory || !bytes || flags) return SIM_INVALID_VALUE;
  pthread_mutex_lock(&machine.lock);
  const bool taken = find_pinned(range.begin, range.end) >= 0;
  if (!taken) PTC_VEC_PUSH(&machine.pinned, range);
  pthread_mutex_unlock(&machine.lock);
  return taken ? SIM_ALREADY_REGISTERED : SIM_OK;
}

// Copies from there that are still queued are done first.
int cuMemHostUnregister(void *memory) {
  const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  const uint64_t begin = (uint64_t)(uintptr_t)memory / page * page;
  if (!current) return SIM_INVALID_CONTEXT;
  pthread_mutex_lock(&current->lock);
  sim_device_run_all(current);
  pthread_mutex_unlock(&current->lock);
  pthread_mutex_lock(&machine.lock);
  const int64_t at = find_pinned(begin, begin + 1);
  const bool found = at >= 0 && machine.pinned.data[at].begin == begin;
  if (found) machine.pinned.data[at] = machine.pinned.data[--machine.pinned.len];
  if (!machine.pinned.len) PTC_VEC_FREE(&machine.pinned);
  pthread_mutex_unlock(&machine.lock);
  return found ? SIM_OK : SIM_NOT_REGISTERED;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
  if (!device_of(stream)) return SIM_INVALID_CONTEXT;
  sim_stream_t *at = stream_of(stream);
  // Memory that is held in place is read when the copy is done, as is any in a graph.
  if (at->capture || is_pinned((uint64_t)(uintptr_t)from, bytes)) {
    const sim_work_t work = {.kind = SIM_WORK_COPY,
                             .to = to,
                             .from = (uint64_t)(uintptr_t)from,
                             .bytes = bytes,
                             .to_device = true};
    LOCKED(at->device, sim_stream_push(at, work));
  }
  // The host's memory may change as soon as the call is back.
  void *copy = ptc_xmalloc(bytes + 1);
  memcpy(copy, from, bytes);
  const sim_work_t work = {
      .kind = SIM_WORK_COPY, .to = to, .bytes = bytes, .to_device = true, .owned = copy};
  LOCKED(device_of(stream), sim_stream_push(stream_of(stream), work));
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
  const sim_work_t work = {.kind = SIM_WORK_COPY,
                           .to = (uint64_t)(uintptr_t)to,
                           .from = from,
                           .bytes = bytes,
                           .from_device = true};
  LOCKED(device_of(stream), sim_stream_push(stream_of(stream), work));
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
  const sim_work_t work = {.kind = SIM_WORK_COPY,
                           .to = to,
                           .from = from,
                           .bytes = bytes,
                           .to_device = true,
                           .from_device = true};
  LOCKED(device_of(stream), sim_stream_push(stream_of(stream), work));
}

// Between device memory alone.
int cuMemcpy2DAsync_v2(const ptc_cuda_copy_2d_t *copy, void *stream) {
  if (copy->from_type != PTC_CUDA_MEMORY_DEVICE || copy->to_type != PTC_CUDA_MEMORY_DEVICE ||
      copy->width > copy->from_pitch || copy->width > copy->to_pitch)
    return SIM_INVALID_VALUE;
  if (!copy->width || !copy->height) return SIM_OK;
  const sim_work_t work = {.kind = SIM_WORK_COPY,
                           .to = copy->to + copy->to_y * copy->to_pitch + copy->to_x,
                           .from = copy->from + copy->from_y * copy->from_pitch + copy->from_x,
                           .bytes = copy->width,
                           .rows = copy->height,
                           .to_pitch = copy->to_pitch,
                           .from_pitch = copy->from_pitch,
                           .to_device = true,
                           .from_device = true};
  LOCKED(device_of(stream), sim_stream_push(stream_of(stream), work));
}

int cuMemsetD8Async(uint64_t to, unsigned char value, size_t count, void *stream) {
  const sim_work_t work = {.kind = SIM_WORK_FILL, .to = to, .bytes = count, .value = value};
  LOCKED(device_of(stream), sim_stream_push(stream_of(stream), work));
}

// --- streams

static int create_stream(void **out, unsigned flags) {
  sim_stream_t *stream = ptc_xmalloc(sizeof *stream);
  *stream = (sim_stream_t){.device = current, .non_blocking = (flags & 1) != 0};
  PTC_VEC_PUSH(&current->streams, stream);
  *out = stream;
  return SIM_OK;
}

int cuStreamCreate(void **stream, unsigned flags) { LOCKED(current, create_stream(stream, flags)); }

static int synchronize_stream(sim_stream_t *stream) {
  const int forbidden = sim_capture_forbids_wait(stream);
  return forbidden ? forbidden : sim_stream_run(stream, INT64_MAX);
}

int cuStreamSynchronize(void *stream) {
  LOCKED(device_of(stream), synchronize_stream(stream_of(stream)));
}

// Whoever asks waits for it: so it is to be done.
static int query_stream(sim_stream_t *stream) {
  const int forbidden = sim_capture_forbids_wait(stream);
  if (forbidden) return forbidden;
  if (stream->device->error) return stream->device->error;
  if (stream->head == stream->queue.len && !stream->running) return SIM_OK;
  sim_stream_start(stream);
  return SIM_NOT_READY;
}

int cuStreamQuery(void *stream) { LOCKED(device_of(stream), query_stream(stream_of(stream))); }

static int destroy_stream(sim_stream_t *stream) {
  sim_device_t *device = stream->device;
  const int forbidden = sim_capture_forbids_wait(stream);
  if (forbidden) return forbidden;
  sim_stream_run(stream, INT64_MAX);
  for (int64_t s = 0; s < device->streams.len; ++s) {
    if (device->streams.data[s] != stream) continue;
    device->streams.data[s] = device->streams.data[--device->streams.len];
    if (!device->streams.len) PTC_VEC_FREE(&device->streams);
    // After an error its thread may still be in it.
    while (stream->running) pthread_cond_wait(&device->changed, &device->lock);
    sim_stream_deinit(stream);
    free(stream);
    return SIM_OK;
  }
  return SIM_INVALID_HANDLE;
}

int cuStreamDestroy_v2(void *stream) {
  LOCKED(stream ? device_of(stream) : NULL, destroy_stream(stream));
}

// --- events

int cuEventCreate(void **event, unsigned flags) {
  (void)flags;
  sim_event_t *made = ptc_xmalloc(sizeof *made);
  *made = (sim_event_t){0};
  *event = made;
  return SIM_OK;
}

int cuEventDestroy_v2(void *event) {
  free(event);
  return SIM_OK;
}

static int record(sim_event_t *event, sim_stream_t *stream) {
  if (stream->capture) return sim_capture_record(stream, event);
  const int code = sim_stream_push(stream, (sim_work_t){.kind = SIM_WORK_RECORD});
  *event = (sim_event_t){.stream = stream, .position = sim_stream_end(stream)};
  return code;
}

int cuEventRecord(void *event, void *stream) {
  LOCKED(device_of(stream), record(event, stream_of(stream)));
}

static int wait_for(sim_stream_t *stream, const sim_event_t *event) {
  if (stream->capture || event->capture) return sim_capture_wait(stream, event);
  return sim_stream_push(stream, (sim_work_t){.kind = SIM_WORK_WAIT, .event = *event});
}

int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
  (void)flags;
  LOCKED(device_of(stream), wait_for(stream_of(stream), event));
}

static int query(const sim_event_t *event) {
  const sim_stream_t *stream = event->stream;
  if (stream->device->error) return stream->device->error;
  if (event->capture) return SIM_CAPTURED_EVENT;
  return stream->done >= event->position ? SIM_OK : SIM_NOT_READY;
}

int cuEventQuery(void *event) {
  const sim_event_t *e = event;
  if (!e->stream) return SIM_OK;
  LOCKED(e->stream->device, query(e));
}

int cuEventSynchronize(void *event) {
  const sim_event_t *e = event;
  if (!e->stream) return SIM_OK;
  LOCKED(e->stream->device,
         e->capture ? SIM_CAPTURED_EVENT : sim_stream_run(e->stream, e->position));
}

// --- for the simulated NCCL

int ptc_gpusim_enqueue(void *stream, ptc_gpusim_shared_fn_t run, void *arg) {
  const sim_work_t work = {.kind = SIM_WORK_SHARED, .run = run, .owned = arg};
  if (!device_of(stream)) free(arg);
  LOCKED(device_of(stream), sim_stream_push(stream_of(stream), work));
}

int ptc_gpusim_enqueue_call(void *stream, ptc_gpusim_shared_fn_t run, void *arg) {
  const sim_work_t work = {.kind = SIM_WORK_CALL, .run = run, .owned = arg};
  if (!device_of(stream)) free(arg);
  LOCKED(device_of(stream), sim_stream_push(stream_of(stream), work));
}

int ptc_gpusim_current(void) { return current ? current->ordinal : -1; }

int ptc_gpusim_device_of(void *stream) {
  const sim_device_t *device = device_of(stream);
  return device ? device->ordinal : -1;
}

bool ptc_gpusim_touch(int ordinal, uint64_t address, uint64_t bytes, bool writes) {
  sim_device_t *device = &machine.devices[ordinal];
  pthread_mutex_lock(&device->lock);
  const sim_alloc_t *alloc = sim_memory_find(&device->memory, address, bytes);
  if (alloc && writes) sim_memory_wrote(alloc, address, bytes);
  pthread_mutex_unlock(&device->lock);
  return alloc != NULL;
}

bool ptc_gpusim_nccl_fails(int ordinal) {
  sim_device_t *device = &machine.devices[ordinal];
  pthread_mutex_lock(&device->lock);
  const bool fails = sim_device_is_injured(device, SIM_INJURY_NCCL);
  pthread_mutex_unlock(&device->lock);
  return fails;
}

bool ptc_gpusim_is_closing(int ordinal) {
  sim_device_t *device = &machine.devices[ordinal];
  pthread_mutex_lock(&device->lock);
  const bool closing = device->closing;
  pthread_mutex_unlock(&device->lock);
  return closing;
}

// --- modules

static int load(sim_device_t *device, void **out, const char *text) {
  if (strncmp(text,
              "\x7f"
              "ELF",
              4) == 0) {
    ptc_str_deinit(&device->report);
    ptc_str_append(&device->report,
                   "the GPU simulator runs PTX, not machine code: compile for compute_80");
    return SIM_INVALID_PTX;
  }
  const int forbidden = sim_capture_forbids(device, true);
  if (forbidden) return forbidden;
  sim_module_t *module = ptc_xmalloc(sizeof *module);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  const ptc_status_t status = sim_module_load(&diag, &device->memory, "kernel.ptx", text, module);
  if (status == PTC_OK) {
    *out = module;
  } else {
    ptc_str_deinit(&device->report);
    for (int64_t i = 0; i < diag.num_items; ++i)
      ptc_str_printf(&device->report, "%sPTX line %" PRId32 ": %s", i ? "; " : "",
                     diag.items[i].loc.line, diag.items[i].message);
    sim_module_unload(&device->memory, module);
    free(module);
  }
  ptc_diag_deinit(&diag);
  return status == PTC_OK ? SIM_OK : SIM_INVALID_PTX;
}

int cuModuleLoadData(void **module, const void *image) {
  LOCKED(current, load(current, module, image));
}

static int unload(sim_device_t *device, sim_module_t *module) {
  sim_device_run_all(device);
  sim_module_unload(&device->memory, module);
  free(module);
  return SIM_OK;
}

int cuModuleUnload(void *module) { LOCKED(current, unload(current, module)); }

int cuModuleGetFunction(void **function, void *module, const char *name) {
  const sim_program_t *program = sim_module_find(module, name);
  *function = (void *)(uintptr_t)program;
  return program ? SIM_OK : SIM_NOT_FOUND;
}

// The parameters are copied: one host address for each parameter of the entry.
static int launch(const sim_program_t *program, sim_work_t work, sim_stream_t *stream,
                  void **params) {
  unsigned char *copy = ptc_xmalloc((size_t)program->param_bytes + 1);
  for (int32_t p = 0; p < program->num_params; ++p)
    memcpy(copy + program->params[p].offset, params[p], (size_t)program->params[p].bytes);
  work.program = program;
  work.owned = copy;
  return sim_stream_push(stream, work);
}

int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   void *stream, void **params, void **extra) {
  if (extra || !function) return SIM_INVALID_VALUE;
  const sim_work_t work = {.kind = SIM_WORK_LAUNCH,
                           .grid = {grid_x, grid_y, grid_z},
                           .block = {block_x, block_y, block_z},
                           .dynamic_bytes = shared_bytes};
  LOCKED(device_of(stream), launch(function, work, stream_of(stream), params));
}
