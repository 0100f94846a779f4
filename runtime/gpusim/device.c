#include "runtime/gpusim/device.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/gpusim/graph.h"

enum { MAX_QUEUE = 4096 };

// --- faults

int sim_device_fail(sim_device_t *device, int code, const char *report) {
  device->error = code;
  ptc_str_deinit(&device->report);
  ptc_str_append(&device->report, report);
  pthread_cond_broadcast(&device->changed);
  return code;
}

void sim_device_injure(sim_device_t *device, const char *faults) {
  static const char *const names[SIM_NUM_INJURIES] = {"launch", "memory", "lost",
                                                      "hang",   "nccl",   "graph"};
  while (faults && *faults) {
    for (int i = 0; i < SIM_NUM_INJURIES; ++i) {
      const size_t len = strlen(names[i]);
      int ordinal;
      long long at;
      if (strncmp(faults, names[i], len) == 0 &&
          sscanf(faults + len, ":%d:%lld", &ordinal, &at) == 2 && ordinal == device->ordinal)
        device->injuries[i] = at;
    }
    faults = strchr(faults, ',');
    if (faults) ++faults;
  }
}

bool sim_device_is_injured(sim_device_t *device, sim_injury_t kind) {
  return ++device->num_events[kind] == device->injuries[kind];
}

// --- work

static sim_counters_t *counters_of(sim_counts_t *counts, const char *name) {
  for (int64_t i = 0; i < counts->len; ++i)
    if (strcmp(counts->data[i].name, name) == 0) return &counts->data[i].counters;
  if (counts->len == counts->cap) {
    counts->cap = counts->cap ? 2 * counts->cap : 8;
    counts->data = ptc_xrealloc(counts->data, sizeof *counts->data * (size_t)counts->cap);
  }
  char *copy = ptc_xmalloc(strlen(name) + 1);
  strcpy(copy, name);
  counts->data[counts->len].name = copy;
  counts->data[counts->len].counters = (sim_counters_t){0};
  return &counts->data[counts->len++].counters;
}

static void count(sim_device_t *device, const char *name, const sim_counters_t *counters) {
  pthread_mutex_lock(&device->counts->lock);
  sim_counters_add(counters_of(device->counts, name), counters);
  pthread_mutex_unlock(&device->counts->lock);
}

// The launches that PTC_GPUSIM_FAULT names.
static int suffer(sim_device_t *device, const char *kernel) {
  const bool fails = sim_device_is_injured(device, SIM_INJURY_LAUNCH),
             lost = sim_device_is_injured(device, SIM_INJURY_LOST);
  ptc_str_t report = {0};
  if (sim_device_is_injured(device, SIM_INJURY_HANG)) {
    while (!device->closing) pthread_cond_wait(&device->changed, &device->lock);
    return SIM_OK;
  }
  if (!fails && !lost) return SIM_OK;
  ptc_str_printf(&report,
                 lost ? "GPU %" PRId32 " is lost, in kernel \"%s\" (injected)"
                      : "GPU %" PRId32 ": kernel \"%s\" has failed (injected)",
                 device->ordinal, kernel);
  const int code = sim_device_fail(device, lost ? SIM_UNKNOWN : SIM_LAUNCH_FAILED, report.data);
  ptc_str_deinit(&report);
  return code;
}

static int run_launch(sim_device_t *device, const sim_work_t *work) {
  static const int codes[] = {
      [SIM_FAULT_BOUNDS] = SIM_ILLEGAL_ADDRESS, [SIM_FAULT_ALIGN] = SIM_MISALIGNED_ADDRESS,
      [SIM_FAULT_UNINIT] = SIM_LAUNCH_FAILED,   [SIM_FAULT_RACE] = SIM_LAUNCH_FAILED,
      [SIM_FAULT_BARRIER] = SIM_LAUNCH_FAILED,  [SIM_FAULT_TRAP] = SIM_LAUNCH_FAILED,
      [SIM_FAULT_LAUNCH] = SIM_INVALID_VALUE};
  if (suffer(device, work->program->name)) return device->error;
  sim_launch_t launch = {.program = work->program,
                         .memory = &device->memory,
                         .dynamic_bytes = work->dynamic_bytes,
                         .params = work->owned,
                         .options = device->options};
  memcpy(launch.grid, work->grid, sizeof launch.grid);
  memcpy(launch.block, work->block, sizeof launch.block);
  sim_result_t result;
  sim_launch(device->pool, &launch, &result);
  if (device->options.counters) count(device, work->program->name, &result.counters);
  const int code =
      result.fault ? sim_device_fail(device, codes[result.fault], result.report.data) : SIM_OK;
  ptc_str_deinit(&result.report);
  return code;
}

// An address on the device of |bytes| bytes, or a failure that says what was to be done.
static int check_range(sim_device_t *device, uint64_t address, uint64_t bytes, const char *what) {
  if (sim_memory_find(&device->memory, address, bytes)) return SIM_OK;
  ptc_str_t report = {0};
  ptc_str_printf(
      &report, "%s of %" PRIu64 " bytes at address 0x%" PRIx64 " lies outside of every allocation",
      what, bytes, address);
  const int code = sim_device_fail(device, SIM_INVALID_VALUE, report.data);
  ptc_str_deinit(&report);
  return code;
}

static int copy_row(sim_device_t *device, const sim_work_t *work, uint64_t to_address,
                    uint64_t from_address) {
  const sim_alloc_t *to = NULL, *from = NULL;
  if (work->to_device && check_range(device, to_address, work->bytes, "a copy"))
    return device->error;
  if (work->from_device && check_range(device, from_address, work->bytes, "a copy"))
    return device->error;
  if (work->to_device) to = sim_memory_find(&device->memory, to_address, work->bytes);
  if (work->from_device) from = sim_memory_find(&device->memory, from_address, work->bytes);
  memmove((void *)(uintptr_t)to_address,
          work->owned ? work->owned : (const void *)(uintptr_t)from_address, work->bytes);
  if (to && to->valid && from)
    memmove(to->valid + (to_address - to->address), from->valid + (from_address - from->address),
            work->bytes);
  else if (to)
    sim_memory_wrote(to, to_address, work->bytes);
  return SIM_OK;
}

static int run_copy(sim_device_t *device, const sim_work_t *work) {
  if (!work->rows) return copy_row(device, work, work->to, work->from);
  for (uint64_t r = 0; r < work->rows && !device->error; ++r)
    copy_row(device, work, work->to + r * work->to_pitch, work->from + r * work->from_pitch);
  return device->error;
}

static int run_fill(sim_device_t *device, const sim_work_t *work) {
  if (check_range(device, work->to, work->bytes, "a fill")) return device->error;
  memset((void *)(uintptr_t)work->to, work->value, work->bytes);
  sim_memory_wrote(sim_memory_find(&device->memory, work->to, work->bytes), work->to, work->bytes);
  return SIM_OK;
}

// The device's other calls go on meanwhile.
static int run_shared(sim_device_t *device, const sim_work_t *work) {
  char report[PTC_GPUSIM_REPORT] = "";
  pthread_mutex_unlock(&device->lock);
  const int code = work->run(work->owned, report);
  pthread_mutex_lock(&device->lock);
  return code ? sim_device_fail(device, code, report) : SIM_OK;
}

int sim_device_work(sim_device_t *device, const sim_work_t *work) {
  switch (work->kind) {
    case SIM_WORK_LAUNCH: return run_launch(device, work);
    case SIM_WORK_COPY: return run_copy(device, work);
    case SIM_WORK_FILL: return run_fill(device, work);
    case SIM_WORK_WAIT:
      return work->event.stream ? sim_stream_run(work->event.stream, work->event.position) : SIM_OK;
    case SIM_WORK_RECORD: return SIM_OK;
    case SIM_WORK_CALL:
    case SIM_WORK_SHARED: return run_shared(device, work);
    case SIM_WORK_GRAPH: return sim_graph_run(work->graph);
  }
  return SIM_OK;
}

// --- streams

int64_t sim_stream_end(const sim_stream_t *stream) {
  return stream->done + (stream->running ? 1 : 0) + stream->queue.len - stream->head;
}

// Forgets what has begun.
static void compact(sim_stream_t *stream) {
  if (stream->head < stream->queue.len && stream->head < MAX_QUEUE) return;
  stream->queue.len -= stream->head;
  if (stream->queue.len)
    memmove(stream->queue.data, stream->queue.data + stream->head,
            sizeof *stream->queue.data * (size_t)stream->queue.len);
  stream->head = 0;
}

static void run_next(sim_stream_t *stream) {
  sim_device_t *device = stream->device;
  const sim_work_t work = stream->queue.data[stream->head++];
  compact(stream);
  stream->running = true;
  stream->runner = pthread_self();
  sim_device_work(device, &work);
  stream->running = false;
  ++stream->done;
  free(work.owned);
  pthread_cond_broadcast(&device->changed);
}

int sim_stream_run(sim_stream_t *stream, int64_t position) {
  sim_device_t *device = stream->device;
  while (!device->error && stream->done < position) {
    if (!stream->running && stream->head == stream->queue.len) break;
    if (!stream->running)
      run_next(stream);
    else if (pthread_equal(stream->runner, pthread_self()))
      break;
    else
      pthread_cond_wait(&device->changed, &device->lock);
  }
  return device->error;
}

int sim_device_run_all(sim_device_t *device) {
  sim_stream_run(&device->default_stream, INT64_MAX);
  for (int64_t s = 0; s < device->streams.len; ++s)
    sim_stream_run(device->streams.data[s], INT64_MAX);
  return device->error;
}

int sim_stream_push(sim_stream_t *stream, sim_work_t work) {
  sim_device_t *device = stream->device;
  if (device->error) {
    free(work.owned);
    return device->error;
  }
  if (stream->capture) return sim_capture_push(stream, work);
  const int forbidden = sim_capture_forbids_legacy(stream);
  if (forbidden) {
    free(work.owned);
    return forbidden;
  }
  PTC_VEC_PUSH(&stream->queue, work);
  if (work.kind == SIM_WORK_SHARED) sim_stream_start(stream);
  const bool full = stream->queue.len - stream->head > MAX_QUEUE;
  return full && !device->has_worker ? sim_stream_run(stream, INT64_MAX) : SIM_OK;
}

void sim_stream_deinit(sim_stream_t *stream) {
  for (int64_t i = stream->head; i < stream->queue.len; ++i) free(stream->queue.data[i].owned);
  PTC_VEC_FREE(&stream->queue);
  stream->head = 0;
}

// --- the device's thread

static sim_stream_t *find_due(sim_device_t *device) {
  for (int64_t s = -1; s < device->streams.len; ++s) {
    sim_stream_t *stream = s < 0 ? &device->default_stream : device->streams.data[s];
    if (!stream->running && stream->done < stream->until && stream->head < stream->queue.len)
      return stream;
  }
  return NULL;
}

static void *work_on(void *arg) {
  sim_device_t *device = arg;
  pthread_mutex_lock(&device->lock);
  while (!device->closing) {
    sim_stream_t *stream = device->error ? NULL : find_due(device);
    if (stream)
      run_next(stream);
    else
      pthread_cond_wait(&device->changed, &device->lock);
  }
  pthread_mutex_unlock(&device->lock);
  return NULL;
}

void sim_stream_start(sim_stream_t *stream) {
  sim_device_t *device = stream->device;
  stream->until = sim_stream_end(stream);
  if (!device->has_worker && !device->closing)
    device->has_worker = pthread_create(&device->worker, NULL, work_on, device) == 0;
  pthread_cond_broadcast(&device->changed);
}

// --- life

void sim_device_init(sim_device_t *device, int32_t ordinal, sim_counts_t *counts) {
  *device = (sim_device_t){.ordinal = ordinal, .counts = counts};
  device->default_stream.device = device;
  pthread_mutex_init(&device->lock, NULL);
  pthread_cond_init(&device->changed, NULL);
}

void sim_device_close(sim_device_t *device) {
  pthread_mutex_lock(&device->lock);
  device->closing = true;
  pthread_cond_broadcast(&device->changed);
  pthread_mutex_unlock(&device->lock);
  if (device->has_worker) pthread_join(device->worker, NULL);
  sim_stream_deinit(&device->default_stream);
  sim_memory_deinit(&device->memory);
  sim_pool_destroy(device->pool);
  ptc_str_deinit(&device->report);
  device->pool = NULL;
  device->error = SIM_OK;
  device->has_worker = device->closing = false;
  device->default_stream.done = device->default_stream.until = 0;
}
