// The CUDA driver's entry points over the simulator. Work on a stream runs in order and as late as it may: when
// somebody waits for it. So a wait that is missing shows, every time.
//
// The driver API has no handle of the process in its calls: the one device is static here, behind a lock.
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/gpusim/gpusim.h"
#include "runtime/gpusim/module.h"

#define EXPORT __attribute__((visibility("default")))

// The driver's codes.
enum {
  OK = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NOT_INITIALIZED = 3,
  INVALID_DEVICE = 101,
  INVALID_PTX = 218,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  NOT_READY = 600,
  ILLEGAL_ADDRESS = 700,
  MISALIGNED_ADDRESS = 716,
  LAUNCH_FAILED = 719,
};

typedef enum work_kind_e { WORK_LAUNCH, WORK_COPY, WORK_FILL, WORK_RECORD, WORK_WAIT } work_kind_t;

typedef struct stream_s stream_t;

typedef struct event_s {
  stream_t *stream;
  int64_t position;  // of |stream|: the work up to there must be done; 0: never recorded
} event_t;

typedef struct work_s {
  work_kind_t kind;
  // launch
  const sim_program_t *program;
  uint32_t grid[3], block[3];
  int64_t dynamic_bytes;
  // copy, fill
  uint64_t to, from;
  uint64_t bytes;
  bool to_device, from_device;
  unsigned char value;
  event_t event;  // wait
  void *owned;    // parameters, or what is copied from the host
} work_t;

struct stream_s {
  PTC_VEC(work_t) queue;
  int64_t
      done;  // works that have been done since the stream was made; the queue's first one is |done| + 1
  bool running;
};

typedef struct kernel_count_s {
  char *name;
  sim_counters_t counters;
} kernel_count_t;

typedef struct device_s {
  pthread_mutex_t lock;
  bool ready;
  int32_t retained;  // of the primary context
  sim_options_t options;
  sim_memory_t memory;
  sim_pool_t *pool;
  PTC_VEC(stream_t *) streams;
  PTC_VEC(kernel_count_t) counts;
  int error;  // of a kernel: all calls fail from then on
  ptc_str_t report;
} device_t;

static device_t device = {.lock = PTHREAD_MUTEX_INITIALIZER};
static stream_t default_stream;

// --- work

static bool is_on(const char *name) {
  const char *value = getenv(name);
  return value && *value && strcmp(value, "0") != 0;
}

static int fail(int code, const char *report) {
  device.error = code;
  ptc_str_deinit(&device.report);
  ptc_str_append(&device.report, report);
  return code;
}

static sim_counters_t *counters_of(const char *name) {
  for (int64_t i = 0; i < device.counts.len; ++i)
    if (strcmp(device.counts.data[i].name, name) == 0) return &device.counts.data[i].counters;
  char *copy = ptc_xmalloc(strlen(name) + 1);
  strcpy(copy, name);
  PTC_VEC_PUSH(&device.counts, ((kernel_count_t){.name = copy}));
  return &device.counts.data[device.counts.len - 1].counters;
}

static int run_launch(const work_t *work) {
  static const int codes[] = {
      [SIM_FAULT_BOUNDS] = ILLEGAL_ADDRESS, [SIM_FAULT_ALIGN] = MISALIGNED_ADDRESS,
      [SIM_FAULT_UNINIT] = LAUNCH_FAILED,   [SIM_FAULT_RACE] = LAUNCH_FAILED,
      [SIM_FAULT_BARRIER] = LAUNCH_FAILED,  [SIM_FAULT_TRAP] = LAUNCH_FAILED,
      [SIM_FAULT_LAUNCH] = INVALID_VALUE};
  sim_launch_t launch = {.program = work->program,
                         .memory = &device.memory,
                         .dynamic_bytes = work->dynamic_bytes,
                         .params = work->owned,
                         .options = device.options};
  memcpy(launch.grid, work->grid, sizeof launch.grid);
  memcpy(launch.block, work->block, sizeof launch.block);
  sim_result_t result;
  sim_launch(device.pool, &launch, &result);
  if (device.options.counters) sim_counters_add(counters_of(work->program->name), &result.counters);
  const int code = result.fault ? fail(codes[result.fault], result.report.data) : OK;
  ptc_str_deinit(&result.report);
  return code;
}

// An address on the device of |bytes| bytes, or a failure that says what was to be done.
static int check_range(uint64_t address, uint64_t bytes, const char *what) {
  if (sim_memory_find(&device.memory, address, bytes)) return OK;
  ptc_str_t report = {0};
  ptc_str_printf(
      &report, "%s of %" PRIu64 " bytes at address 0x%" PRIx64 " lies outside of every allocation",
      what, bytes, address);
  const int code = fail(INVALID_VALUE, report.data);
  ptc_str_deinit(&report);
  return code;
}

static int run_copy(const work_t *work) {
  const sim_alloc_t *to = NULL, *from = NULL;
  if (work->to_device && check_range(work->to, work->bytes, "a copy")) return device.error;
  if (work->from_device && check_range(work->from, work->bytes, "a copy")) return device.error;
  if (work->to_device) to = sim_memory_find(&device.memory, work->to, work->bytes);
  if (work->from_device) from = sim_memory_find(&device.memory, work->from, work->bytes);
  memmove((void *)(uintptr_t)work->to,
          work->owned ? work->owned : (const void *)(uintptr_t)work->from, work->bytes);
  if (to && to->valid && from)
    memmove(to->valid + (work->to - to->address), from->valid + (work->from - from->address),
            work->bytes);
  else if (to)
    sim_memory_wrote(to, work->to, work->bytes);
  return OK;
}

static int run_fill(const work_t *work) {
  if (check_range(work->to, work->bytes, "a fill")) return device.error;
  memset((void *)(uintptr_t)work->to, work->value, work->bytes);
  sim_memory_wrote(sim_memory_find(&device.memory, work->to, work->bytes), work->to, work->bytes);
  return OK;
}

static int run_until(stream_t *stream, int64_t position);

static int run_work(const work_t *work) {
  switch (work->kind) {
    case WORK_LAUNCH: return run_launch(work);
    case WORK_COPY: return run_copy(work);
    case WORK_FILL: return run_fill(work);
    case WORK_WAIT:
      return work->event.stream ? run_until(work->event.stream, work->event.position) : OK;
    case WORK_RECORD: return OK;
  }
  return OK;
}

// Does the stream's work up to |position|. A stream that waits for itself through another finds its own work
// before the wait done.
static int run_until(stream_t *stream, int64_t position) {
  int64_t next = 0;
  while (!device.error && !stream->running && stream->done < position && next < stream->queue.len) {
    const work_t work = stream->queue.data[next++];
    stream->running = true;
    run_work(&work);
    stream->running = false;
    ++stream->done;
    free(work.owned);
  }
  if (next) {
    stream->queue.len -= next;
    memmove(stream->queue.data, stream->queue.data + next,
            sizeof *stream->queue.data * (size_t)stream->queue.len);
  }
  return device.error;
}

static int run_all(void) {
  run_until(&default_stream, INT64_MAX);
  for (int64_t s = 0; s < device.streams.len; ++s) run_until(device.streams.data[s], INT64_MAX);
  return device.error;
}

static stream_t *stream_of(void *handle) { return handle ? handle : &default_stream; }

enum { MAX_QUEUE = 4096 };

static int push(void *handle, work_t work) {
  stream_t *stream = stream_of(handle);
  if (!device.ready || device.error) {
    free(work.owned);
    return device.ready ? device.error : NOT_INITIALIZED;
  }
  PTC_VEC_PUSH(&stream->queue, work);
  return stream->queue.len > MAX_QUEUE ? run_until(stream, INT64_MAX) : OK;
}

static int64_t end_of(const stream_t *stream) { return stream->done + stream->queue.len; }

#define LOCKED(expr)                    \
  do {                                  \
    pthread_mutex_lock(&device.lock);   \
    const int code_ = (expr);           \
    pthread_mutex_unlock(&device.lock); \
    return code_;                       \
  } while (0)

// --- options and counters

EXPORT void ptc_gpusim_configure(bool checks, bool counters) {
  pthread_mutex_lock(&device.lock);
  device.options.checks = checks;
  device.options.counters = counters;
  device.memory.follow = checks;
  pthread_mutex_unlock(&device.lock);
}

EXPORT bool ptc_gpusim_counters(int32_t index, const char **out_name,
                                sim_counters_t *out_counters) {
  pthread_mutex_lock(&device.lock);
  const bool there = index >= 0 && index < device.counts.len;
  if (there) {
    *out_name = device.counts.data[index].name;
    *out_counters = device.counts.data[index].counters;
  }
  pthread_mutex_unlock(&device.lock);
  return there;
}

// --- entry points: prototypes from the table that the runtime loads them by

#define PTC_CU(field, symbol, params) EXPORT int symbol params;
#include "runtime/cuda/driver_symbols.def"
#undef PTC_CU
EXPORT int cuEventCreate(void **event, unsigned flags);
EXPORT int cuEventDestroy_v2(void *event);
EXPORT int cuEventRecord(void *event, void *stream);
EXPORT int cuEventQuery(void *event);
EXPORT int cuEventSynchronize(void *event);
EXPORT int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
EXPORT int cuCtxSynchronize(void);

int cuGetErrorString(int code, const char **text) {
  static const struct {
    int code;
    const char *text;
  } texts[] = {{OK, "no error"},
               {INVALID_VALUE, "invalid argument"},
               {OUT_OF_MEMORY, "out of memory"},
               {NOT_INITIALIZED, "initialization error"},
               {INVALID_DEVICE, "invalid device ordinal"},
               {INVALID_PTX, "a PTX JIT compilation failed"},
               {INVALID_HANDLE, "invalid resource handle"},
               {NOT_FOUND, "named symbol not found"},
               {NOT_READY, "device not ready"},
               {ILLEGAL_ADDRESS, "an illegal memory access was encountered"},
               {MISALIGNED_ADDRESS, "misaligned address"},
               {LAUNCH_FAILED, "unspecified launch failure"}};
  *text = NULL;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i)
    if (texts[i].code == code) *text = texts[i].text;
  pthread_mutex_lock(&device.lock);
  if (code && device.report.len && (code == device.error || code == INVALID_PTX))
    *text = device.report.data;
  pthread_mutex_unlock(&device.lock);
  return *text ? OK : INVALID_VALUE;
}

static int init(void) {
  if (!device.ready) {
    device.ready = true;
    device.options.checks |= is_on("PTC_GPUSIM_CHECKS");
    device.options.counters |= is_on("PTC_GPUSIM_COUNTERS");
    device.memory.follow = device.options.checks;
    const char *memory = getenv("PTC_GPUSIM_MEMORY");
    if (memory) device.memory.limit_bytes = strtoull(memory, NULL, 0);
  }
  return OK;
}

int cuInit(unsigned flags) {
  if (flags) return INVALID_VALUE;
  LOCKED(init());
}

int cuDeviceGetCount(int *count) {
  *count = 1;
  return OK;
}

int cuDeviceGet(int *out, int ordinal) {
  *out = ordinal;
  return ordinal == 0 ? OK : INVALID_DEVICE;
}

static int retain(void) {
  ++device.retained;
  return OK;
}

int cuDevicePrimaryCtxRetain(void **context, int ordinal) {
  *context = &device;
  if (ordinal != 0) return INVALID_DEVICE;
  LOCKED(retain());
}

// The context's state ends with it: errors, memory, streams.
static int release(void) {
  if (--device.retained > 0) return OK;
  if (!device.error) run_all();
  for (int64_t i = 0; i < default_stream.queue.len; ++i) free(default_stream.queue.data[i].owned);
  PTC_VEC_FREE(&default_stream.queue);
  sim_memory_deinit(&device.memory);
  sim_pool_destroy(device.pool);
  device.pool = NULL;
  device.error = OK;
  ptc_str_deinit(&device.report);
  return OK;
}

int cuDevicePrimaryCtxRelease_v2(int ordinal) {
  if (ordinal != 0) return INVALID_DEVICE;
  LOCKED(release());
}

int cuCtxSetCurrent(void *context) {
  return context == NULL || context == &device ? OK : INVALID_HANDLE;
}

int cuCtxSynchronize(void) { LOCKED(run_all()); }

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
  const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  pthread_mutex_lock(&device.lock);
  const size_t total =
      device.memory.limit_bytes ? device.memory.limit_bytes : (size_t)pages * (size_t)size;
  const size_t used = device.memory.used_bytes;
  pthread_mutex_unlock(&device.lock);
  *total_bytes = total;
  *free_bytes = used < total ? total - used : 0;
  return OK;
}

static int allocate(uint64_t *address, size_t bytes) {
  if (device.error) return device.error;
  if (!bytes) return INVALID_VALUE;
  *address = sim_memory_alloc(&device.memory, bytes);
  return *address ? OK : OUT_OF_MEMORY;
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes) { LOCKED(allocate(address, bytes)); }

static int release_memory(uint64_t address) {
  run_all();
  return sim_memory_free(&device.memory, address) ? OK : INVALID_VALUE;
}

int cuMemFree_v2(uint64_t address) { LOCKED(release_memory(address)); }

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
  // The host's memory may change as soon as the call is back.
  void *copy = ptc_xmalloc(bytes + 1);
  memcpy(copy, from, bytes);
  LOCKED(push(
      stream,
      (work_t){.kind = WORK_COPY, .to = to, .bytes = bytes, .to_device = true, .owned = copy}));
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
  LOCKED(push(stream, (work_t){.kind = WORK_COPY,
                               .to = (uint64_t)(uintptr_t)to,
                               .from = from,
                               .bytes = bytes,
                               .from_device = true}));
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
  LOCKED(push(stream, (work_t){.kind = WORK_COPY,
                               .to = to,
                               .from = from,
                               .bytes = bytes,
                               .to_device = true,
                               .from_device = true}));
}

int cuMemsetD8Async(uint64_t to, unsigned char value, size_t count, void *stream) {
  LOCKED(push(stream, (work_t){.kind = WORK_FILL, .to = to, .bytes = count, .value = value}));
}

static int create_stream(void **out) {
  stream_t *stream = ptc_xmalloc(sizeof *stream);
  *stream = (stream_t){0};
  PTC_VEC_PUSH(&device.streams, stream);
  *out = stream;
  return OK;
}

int cuStreamCreate(void **stream, unsigned flags) {
  (void)flags;
  LOCKED(create_stream(stream));
}

int cuStreamSynchronize(void *stream) { LOCKED(run_until(stream_of(stream), INT64_MAX)); }

static int destroy_stream(stream_t *stream) {
  run_until(stream, INT64_MAX);
  for (int64_t i = 0; i < stream->queue.len; ++i) free(stream->queue.data[i].owned);
  PTC_VEC_FREE(&stream->queue);
  for (int64_t s = 0; s < device.streams.len; ++s)
    if (device.streams.data[s] == stream) {
      device.streams.data[s] = device.streams.data[--device.streams.len];
      free(stream);
      return OK;
    }
  return INVALID_HANDLE;
}

static int destroy_stream_and_list(stream_t *stream) {
  const int code = destroy_stream(stream);
  if (!device.streams.len) PTC_VEC_FREE(&device.streams);
  return code;
}

int cuStreamDestroy_v2(void *stream) { LOCKED(destroy_stream_and_list(stream)); }

// --- events

int cuEventCreate(void **event, unsigned flags) {
  (void)flags;
  event_t *made = ptc_xmalloc(sizeof *made);
  *made = (event_t){0};
  *event = made;
  return OK;
}

int cuEventDestroy_v2(void *event) {
  free(event);
  return OK;
}

static int record(event_t *event, void *handle) {
  const int code = push(handle, (work_t){.kind = WORK_RECORD});
  event->stream = stream_of(handle);
  event->position = end_of(event->stream);
  return code;
}

int cuEventRecord(void *event, void *stream) { LOCKED(record(event, stream)); }

int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
  (void)flags;
  LOCKED(push(stream, (work_t){.kind = WORK_WAIT, .event = *(event_t *)event}));
}

static int query(const event_t *event) {
  if (device.error) return device.error;
  return !event->stream || event->stream->done >= event->position ? OK : NOT_READY;
}

int cuEventQuery(void *event) { LOCKED(query(event)); }

static int synchronize(const event_t *event) {
  return event->stream ? run_until(event->stream, event->position) : OK;
}

int cuEventSynchronize(void *event) { LOCKED(synchronize(event)); }

// --- modules

static int load(void **out, const char *text) {
  if (strncmp(text,
              "\x7f"
              "ELF",
              4) == 0) {
    ptc_str_deinit(&device.report);
    ptc_str_append(&device.report,
                   "the GPU simulator runs PTX, not machine code: compile for compute_80");
    return INVALID_PTX;
  }
  sim_module_t *module = ptc_xmalloc(sizeof *module);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  const ptc_status_t status = sim_module_load(&diag, &device.memory, "kernel.ptx", text, module);
  if (status == PTC_OK) {
    *out = module;
  } else {
    ptc_str_deinit(&device.report);
    for (int64_t i = 0; i < diag.num_items; ++i)
      ptc_str_printf(&device.report, "%sPTX line %" PRId32 ": %s", i ? "; " : "",
                     diag.items[i].loc.line, diag.items[i].message);
    sim_module_unload(&device.memory, module);
    free(module);
  }
  ptc_diag_deinit(&diag);
  return status == PTC_OK ? OK : INVALID_PTX;
}

int cuModuleLoadData(void **module, const void *image) { LOCKED(load(module, image)); }

static int unload(sim_module_t *module) {
  run_all();
  sim_module_unload(&device.memory, module);
  free(module);
  return OK;
}

int cuModuleUnload(void *module) { LOCKED(unload(module)); }

int cuModuleGetFunction(void **function, void *module, const char *name) {
  const sim_program_t *program = sim_module_find(module, name);
  *function = (void *)(uintptr_t)program;
  return program ? OK : NOT_FOUND;
}

// The parameters are copied: one host address for each parameter of the entry.
static int launch(const sim_program_t *program, work_t work, void *stream, void **params) {
  if (!device.pool) device.pool = sim_pool_create(0);
  unsigned char *copy = ptc_xmalloc((size_t)program->param_bytes + 1);
  for (int32_t p = 0; p < program->num_params; ++p)
    memcpy(copy + program->params[p].offset, params[p], (size_t)program->params[p].bytes);
  work.program = program;
  work.owned = copy;
  return push(stream, work);
}

int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   void *stream, void **params, void **extra) {
  if (extra || !function) return INVALID_VALUE;
  const work_t work = {.kind = WORK_LAUNCH,
                       .grid = {grid_x, grid_y, grid_z},
                       .block = {block_x, block_y, block_z},
                       .dynamic_bytes = shared_bytes};
  LOCKED(launch(function, work, stream, params));
}
