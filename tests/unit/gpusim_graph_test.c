// Proves: on the simulated driver, what a stream is given while it is captured is done when the graph is launched, each time
// anew, in the order that events gave; calls that a capture excludes fail with the driver's codes, and end it; and
// the runtime's device records steps of several streams.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/device.h"
#include "runtime/cuda/driver.h"
#include "runtime/replay.h"
#include "tests/support/unit.h"

enum { GLOBAL, THREAD_LOCAL, RELAXED, NON_BLOCKING = 1 };

static const char ptx[] =
    ".version 9.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry add(.param .u64 at, .param .u32 value)\n{\n.reg .b32 %w<4>;\n.reg .b64 "
    "%d<2>;\n"
    "ld.param.u64 %d1, [at];\nld.param.u32 %w1, [value];\nld.global.u32 %w2, [%d1];\nadd.s32 %w2, "
    "%w2, %w1;\n"
    "st.global.u32 [%d1], %w2;\nret;\n}\n";

typedef struct gpu_s {
  ptc_diag_t diag;
  ptc_cuda_driver_t *driver;
  void *context, *module, *add, *streams[2], *event;
  uint64_t memory;
} gpu_t;

static const ptc_cuda_driver_t *open_gpu(gpu_t *gpu) {
  *gpu = (gpu_t){0};
  setenv("PTC_LIBCUDA", PTC_BINARY_DIR "/libptc_gpusim_cuda.so", 1);
  ptc_diag_init(&gpu->diag);
  gpu->driver = ptc_cuda_driver_open(&gpu->diag);
  CU_ASSERT_PTR_NOT_NULL_FATAL(gpu->driver);
  const ptc_cuda_driver_t *cu = gpu->driver;
  CU_ASSERT_TRUE_FATAL(ptc_cuda_driver_has_graphs(cu));
  CU_ASSERT_EQUAL(cu->DevicePrimaryCtxRetain(&gpu->context, 0), 0);
  CU_ASSERT_EQUAL(cu->CtxSetCurrent(gpu->context), 0);
  CU_ASSERT_EQUAL(cu->MemAlloc(&gpu->memory, 64), 0);
  CU_ASSERT_EQUAL(cu->MemsetD8Async(gpu->memory, 0, 64, NULL), 0);
  CU_ASSERT_EQUAL(cu->StreamSynchronize(NULL), 0);
  CU_ASSERT_EQUAL(cu->ModuleLoadData(&gpu->module, ptx), 0);
  CU_ASSERT_EQUAL(cu->ModuleGetFunction(&gpu->add, gpu->module, "add"), 0);
  for (int i = 0; i < 2; i++) CU_ASSERT_EQUAL(cu->StreamCreate(&gpu->streams[i], NON_BLOCKING), 0);
  CU_ASSERT_EQUAL(cu->EventCreate(&gpu->event, 2), 0);
  return cu;
}

static void close_gpu(gpu_t *gpu) {
  const ptc_cuda_driver_t *cu = gpu->driver;
  for (int i = 0; i < 2; i++) CU_ASSERT_EQUAL(cu->StreamDestroy(gpu->streams[i]), 0);
  cu->EventDestroy(gpu->event);
  CU_ASSERT_EQUAL(cu->ModuleUnload(gpu->module), 0);
  CU_ASSERT_EQUAL(cu->MemFree(gpu->memory), 0);
  cu->DevicePrimaryCtxRelease(0);
  ptc_cuda_driver_close(gpu->driver);
  ptc_diag_deinit(&gpu->diag);
  unsetenv("PTC_LIBCUDA");
}

static int add(const gpu_t *gpu, int64_t word, uint32_t value, void *stream) {
  uint64_t address = gpu->memory + 4 * (uint64_t)word;
  void *params[] = {&address, &value};
  return gpu->driver->LaunchKernel(gpu->add, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

static uint32_t word_at(const gpu_t *gpu, int64_t word) {
  uint32_t value = 0;
  CU_ASSERT_EQUAL(
      gpu->driver->MemcpyDtoHAsync(&value, gpu->memory + 4 * (uint64_t)word, 4, gpu->streams[0]),
      0);
  CU_ASSERT_EQUAL(gpu->driver->StreamSynchronize(gpu->streams[0]), 0);
  return value;
}

// Parameters are taken at the capture, host memory that is copied at each launch.
static void test_replay(void) {
  gpu_t gpu;
  const ptc_cuda_driver_t *cu = open_gpu(&gpu);
  void *graph, *executable;
  uint32_t input = 100;
  CU_ASSERT_EQUAL(cu->StreamBeginCapture(gpu.streams[0], THREAD_LOCAL), 0);
  CU_ASSERT_EQUAL(cu->MemcpyHtoDAsync(gpu.memory, &input, 4, gpu.streams[0]), 0);
  CU_ASSERT_EQUAL(add(&gpu, 0, 7, gpu.streams[0]), 0);
  CU_ASSERT_EQUAL(add(&gpu, 1, 1, gpu.streams[0]), 0);
  CU_ASSERT_EQUAL(cu->StreamEndCapture(gpu.streams[0], &graph), 0);
  CU_ASSERT_EQUAL(word_at(&gpu, 1), 0);  // nothing has been done
  CU_ASSERT_EQUAL(cu->GraphInstantiate(&executable, graph, 0), 0);
  CU_ASSERT_EQUAL(cu->GraphDestroy(graph), 0);
  for (uint32_t i = 1; i <= 3; i++) {
    input = 100 * i;
    CU_ASSERT_EQUAL(cu->GraphLaunch(executable, gpu.streams[0]), 0);
    CU_ASSERT_EQUAL(word_at(&gpu, 0), 100 * i + 7);
    CU_ASSERT_EQUAL(word_at(&gpu, 1), i);
  }
  // Two that are queued one after another, and destroyed before anybody waits.
  CU_ASSERT_EQUAL(cu->GraphLaunch(executable, gpu.streams[0]), 0);
  CU_ASSERT_EQUAL(cu->GraphLaunch(executable, gpu.streams[1]), 0);
  CU_ASSERT_EQUAL(cu->GraphExecDestroy(executable), 0);
  CU_ASSERT_EQUAL(word_at(&gpu, 1), 5);
  close_gpu(&gpu);
}

// Stream 1 reads what stream 0 writes, and comes back; without the event of the middle the graph's order is another, and the
// copy sees the old value.
static void test_order(void) {
  for (int with_event = 0; with_event < 2; with_event++) {
    gpu_t gpu;
    const ptc_cuda_driver_t *cu = open_gpu(&gpu);
    void *s0 = gpu.streams[0], *s1 = gpu.streams[1], *graph, *executable;
    CU_ASSERT_EQUAL(cu->StreamBeginCapture(s0, THREAD_LOCAL), 0);
    CU_ASSERT_EQUAL(cu->EventRecord(gpu.event, s0) | cu->StreamWaitEvent(s1, gpu.event, 0), 0);
    CU_ASSERT_EQUAL(add(&gpu, 0, 3, s1), 0);
    CU_ASSERT_EQUAL(cu->EventRecord(gpu.event, s1), 0);
    if (with_event) CU_ASSERT_EQUAL(cu->StreamWaitEvent(s0, gpu.event, 0), 0);
    CU_ASSERT_EQUAL(cu->MemcpyDtoDAsync(gpu.memory + 4, gpu.memory, 4, s0), 0);
    CU_ASSERT_EQUAL(cu->StreamWaitEvent(s0, gpu.event, 0), 0);
    CU_ASSERT_EQUAL(cu->StreamEndCapture(s0, &graph), 0);
    CU_ASSERT_EQUAL(cu->GraphInstantiate(&executable, graph, 0), 0);
    CU_ASSERT_EQUAL(cu->GraphLaunch(executable, s0), 0);
    CU_ASSERT_EQUAL(word_at(&gpu, 0), 3);
    CU_ASSERT_EQUAL(word_at(&gpu, 1), with_event ? 3 : 0);
    CU_ASSERT_EQUAL(cu->GraphDestroy(graph) | cu->GraphExecDestroy(executable), 0);
    close_gpu(&gpu);
  }
}

// --- what is not allowed

typedef int (*wrong_fn_t)(gpu_t *gpu);

static int synchronize(gpu_t *gpu) { return gpu->driver->StreamSynchronize(gpu->streams[0]); }
static int ask(gpu_t *gpu) { return gpu->driver->StreamQuery(gpu->streams[0]); }
static int allocate(gpu_t *gpu) {
  uint64_t address;
  return gpu->driver->MemAlloc(&address, 16);
}
static int load(gpu_t *gpu) {
  void *module;
  return gpu->driver->ModuleLoadData(&module, ptx);
}
static int begin_again(gpu_t *gpu) {
  return gpu->driver->StreamBeginCapture(gpu->streams[0], THREAD_LOCAL);
}
static int ask_event(gpu_t *gpu) {
  CU_ASSERT_EQUAL(gpu->driver->EventRecord(gpu->event, gpu->streams[0]), 0);
  return gpu->driver->EventQuery(gpu->event);
}
static int wait_outside(gpu_t *gpu) {
  CU_ASSERT_EQUAL(gpu->driver->EventRecord(gpu->event, gpu->streams[1]), 0);
  return gpu->driver->StreamWaitEvent(gpu->streams[0], gpu->event, 0);
}
static int end_elsewhere(gpu_t *gpu) {
  const ptc_cuda_driver_t *cu = gpu->driver;
  void *graph;
  CU_ASSERT_EQUAL(cu->EventRecord(gpu->event, gpu->streams[0]), 0);
  CU_ASSERT_EQUAL(cu->StreamWaitEvent(gpu->streams[1], gpu->event, 0), 0);
  return cu->StreamEndCapture(gpu->streams[1], &graph);
}
static int wait_legacy(gpu_t *gpu) {
  CU_ASSERT_EQUAL(gpu->driver->EventRecord(gpu->event, gpu->streams[0]), 0);
  return gpu->driver->StreamWaitEvent(NULL, gpu->event, 0);
}
static int merge(gpu_t *gpu) {
  const ptc_cuda_driver_t *cu = gpu->driver;
  void *graph;
  CU_ASSERT_EQUAL(cu->StreamBeginCapture(gpu->streams[1], RELAXED), 0);
  CU_ASSERT_EQUAL(cu->EventRecord(gpu->event, gpu->streams[1]), 0);
  const int code = cu->StreamWaitEvent(gpu->streams[0], gpu->event, 0);
  CU_ASSERT_EQUAL(cu->StreamEndCapture(gpu->streams[1], &graph), 901);
  return code;
}
static int leave_open(gpu_t *gpu) {
  const ptc_cuda_driver_t *cu = gpu->driver;
  CU_ASSERT_EQUAL(cu->EventRecord(gpu->event, gpu->streams[0]), 0);
  CU_ASSERT_EQUAL(cu->StreamWaitEvent(gpu->streams[1], gpu->event, 0), 0);
  return add(gpu, 0, 1, gpu->streams[1]);
}
typedef struct ending_s {
  gpu_t *gpu;
  int code;
} ending_t;
static void *end_there(void *arg) {
  ending_t *ending = arg;
  void *graph;
  ending->code = ending->gpu->driver->StreamEndCapture(ending->gpu->streams[0], &graph);
  return NULL;
}
static int end_in_thread(gpu_t *gpu) {
  ending_t ending = {gpu, 0};
  pthread_t thread;
  CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, end_there, &ending), 0);
  pthread_join(thread, NULL);
  return ending.code;
}

static void test_wrong_calls(void) {
  static const struct {
    const char *name;
    wrong_fn_t call;
    int mode, code, end;
  } rows[] = {{"synchronize", synchronize, RELAXED, 900, 901},
              {"query", ask, RELAXED, 900, 901},
              {"allocate", allocate, THREAD_LOCAL, 900, 901},
              {"load", load, GLOBAL, 900, 901},
              {"begin twice", begin_again, THREAD_LOCAL, 401, 0},
              {"query an event", ask_event, THREAD_LOCAL, 907, 0},
              {"wait for what is outside", wait_outside, THREAD_LOCAL, 905, 901},
              {"end on another stream", end_elsewhere, THREAD_LOCAL, 903, 901},
              {"the legacy stream waits", wait_legacy, THREAD_LOCAL, 906, 901},
              {"merge", merge, RELAXED, 902, 901},
              {"work that is not joined", leave_open, THREAD_LOCAL, 0, 904},
              {"end in another thread", end_in_thread, THREAD_LOCAL, 908, 901}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    gpu_t gpu;
    const ptc_cuda_driver_t *cu = open_gpu(&gpu);
    void *graph = NULL;
    CU_ASSERT_EQUAL(cu->StreamBeginCapture(gpu.streams[0], rows[i].mode), 0);
    CU_ASSERT_EQUAL(add(&gpu, 0, 5, gpu.streams[0]), 0);
    UNIT_CHECK(rows[i].call(&gpu) == rows[i].code, rows[i].name);
    UNIT_CHECK(cu->StreamEndCapture(gpu.streams[0], &graph) == rows[i].end, rows[i].name);
    UNIT_CHECK((graph != NULL) == (rows[i].end == 0), rows[i].name);
    if (graph) CU_ASSERT_EQUAL(cu->GraphDestroy(graph), 0);
    // The stream is as before.
    CU_ASSERT_EQUAL(add(&gpu, 1, 2, gpu.streams[0]), 0);
    UNIT_CHECK(word_at(&gpu, 0) == 0 && word_at(&gpu, 1) == 2, rows[i].name);
    close_gpu(&gpu);
  }
}

static void test_outside(void) {
  gpu_t gpu;
  const ptc_cuda_driver_t *cu = open_gpu(&gpu);
  void *graph, *blocking;
  uint64_t address = 0;
  CU_ASSERT_EQUAL(cu->StreamBeginCapture(NULL, RELAXED), 900);
  CU_ASSERT_EQUAL(cu->StreamEndCapture(gpu.streams[0], &graph), 401);
  // A relaxed capture lets its thread allocate.
  CU_ASSERT_EQUAL(cu->StreamBeginCapture(gpu.streams[0], RELAXED), 0);
  CU_ASSERT_EQUAL(cu->MemAlloc(&address, 16), 0);
  CU_ASSERT_EQUAL(cu->EventRecord(gpu.event, gpu.streams[0]), 0);
  CU_ASSERT_EQUAL(cu->StreamEndCapture(gpu.streams[0], &graph), 0);
  CU_ASSERT_EQUAL(cu->MemFree(address) | cu->GraphDestroy(graph), 0);
  // Its events stay of no use outside, until they are recorded again.
  CU_ASSERT_EQUAL(cu->StreamWaitEvent(gpu.streams[1], gpu.event, 0), 907);
  CU_ASSERT_EQUAL(cu->EventRecord(gpu.event, gpu.streams[1]), 0);
  CU_ASSERT_EQUAL(cu->StreamWaitEvent(gpu.streams[0], gpu.event, 0), 0);
  // The legacy stream waits for blocking streams.
  CU_ASSERT_EQUAL(cu->StreamCreate(&blocking, 0), 0);
  CU_ASSERT_EQUAL(cu->StreamBeginCapture(blocking, RELAXED), 0);
  CU_ASSERT_EQUAL(add(&gpu, 0, 1, NULL), 906);
  CU_ASSERT_EQUAL(cu->StreamEndCapture(blocking, &graph), 901);
  CU_ASSERT_EQUAL(cu->StreamDestroy(blocking), 0);
  close_gpu(&gpu);
}

// --- the runtime's device

// Copies word 0 to 1 on stream 1 and 1 to 2 on stream 0, between events.
static ptc_status_t queue_copies(ptc_device_t *device, ptc_diag_t *diag) {
  PTC_TRY(device->wait(device, diag, 0, 2));  // of an event that is recorded later
  PTC_TRY(device->record(device, diag, 0, 1));
  PTC_TRY(device->wait(device, diag, 1, 1));
  PTC_TRY(device->copy(device, diag, 1, device->arena + 4, device->arena, 4));
  PTC_TRY(device->record(device, diag, 1, 2));
  PTC_TRY(device->wait(device, diag, 0, 2));
  return device->copy(device, diag, 0, device->arena + 8, device->arena + 4, 4);
}

static void test_device(void) {
  setenv("PTC_LIBCUDA", PTC_BINARY_DIR "/libptc_gpusim_cuda.so", 1);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_plan_t *plan = ptc_plan_create();
  ptc_step_t steps[2] = {{.kind = PTC_STEP_COPY, .record = 1},
                         {.kind = PTC_STEP_COPY, .stream = 1, .record = 2}};
  ptc_task_t task = {.name = "train", .steps = steps, .num_steps = 2};
  plan->arena_bytes = 64;
  plan->tasks = &task;
  plan->num_tasks = 1;
  ptc_device_t *device = NULL;
  CU_ASSERT_EQUAL_FATAL(ptc_cuda_device_create(&diag, plan, NULL, 0, &device), PTC_OK);
  CU_ASSERT_PTR_NULL(device->no_graph(device));
  void *graph = NULL;
  int32_t fault;
  // Before, so that the events have a past.
  CU_ASSERT_EQUAL(queue_copies(device, &diag), PTC_OK);
  CU_ASSERT_EQUAL(device->finish(device, &diag, &fault), PTC_OK);
  CU_ASSERT_EQUAL(device->begin_graph(device, &diag), PTC_OK);
  CU_ASSERT_EQUAL(queue_copies(device, &diag), PTC_OK);
  CU_ASSERT_EQUAL(device->end_graph(device, &diag, &graph), PTC_OK);
  for (uint32_t value = 5; value < 8; value++) {
    uint32_t seen = 0;
    CU_ASSERT_EQUAL(device->upload(device, &diag, device->arena, &value, 4), PTC_OK);
    CU_ASSERT_EQUAL(device->run_graph(device, &diag, graph), PTC_OK);
    CU_ASSERT_EQUAL(device->finish(device, &diag, &fault), PTC_OK);
    CU_ASSERT_EQUAL(device->download(device, &diag, &seen, device->arena + 8, 4), PTC_OK);
    CU_ASSERT_EQUAL(seen, value);
  }
  // What is sent from memory that is held in place, and read on another stream.
  uint32_t *memory = aligned_alloc(4096, 4096), result = 0;
  memory[7] = 40;
  device->pin(device, memory, 16);
  device->pin(device, memory + 4, 16);  // the same page
  CU_ASSERT_EQUAL(device->send(device, &diag, device->arena, &memory[7], 4), PTC_OK);
  CU_ASSERT_EQUAL(device->spread(device, &diag), PTC_OK);
  memory[7] = 41;  // against the rule, to see when it is read
  CU_ASSERT_EQUAL(device->copy(device, &diag, 1, device->arena + 12, device->arena, 4), PTC_OK);
  CU_ASSERT_EQUAL(device->finish(device, &diag, &fault), PTC_OK);
  CU_ASSERT_EQUAL(device->download(device, &diag, &result, device->arena + 12, 4), PTC_OK);
  CU_ASSERT_EQUAL(result, 41);
  // And without a graph again.
  CU_ASSERT_EQUAL(queue_copies(device, &diag), PTC_OK);
  CU_ASSERT_EQUAL(device->finish(device, &diag, &fault), PTC_OK);
  CU_ASSERT_EQUAL(diag.num_items, 0);
  device->destroy(device);
  free(memory);
  plan->tasks = NULL;
  plan->num_tasks = 0;
  ptc_plan_destroy(plan);
  ptc_diag_deinit(&diag);
  unsetenv("PTC_LIBCUDA");
}

static const char *no_graph(const ptc_device_t *device) {
  return device->arena ? NULL : "a reason of its own";
}

// Which tasks are no graphs, and what they count to: three phases, twice, and a copy, in four turns.
static void test_refusals(void) {
  static const int64_t tiles[3] = {1, 1, 1};
  static const ptc_phase_run_t runs[1] = {{2, 3, tiles}};
  ptc_plan_kernel_t kernel = {
      .name = "k", .runs = (ptc_phase_run_t *)(uintptr_t)runs, .num_runs = 1};
  ptc_step_t body[2] = {{.kind = PTC_STEP_LAUNCH}, {.kind = PTC_STEP_COPY}};
  ptc_step_t steps[2] = {{.kind = PTC_STEP_REPEAT, .count = 4, .body = body, .num_steps = 2},
                         {.kind = PTC_STEP_COLLECTIVE}};
  ptc_task_t task = {.name = "train", .steps = steps, .num_steps = 1};
  const ptc_plan_t plan = {.kernels = &kernel, .num_kernels = 1, .tasks = &task, .num_tasks = 1};
  ptc_device_t device = {.arena = 1, .no_graph = no_graph}, old = {.no_graph = no_graph};
  int64_t count = 0;
  CU_ASSERT_PTR_NULL(ptc_replay_refusal(&plan, &task, &device, PTC_REPLAY_AUTO, &count));
  CU_ASSERT_EQUAL(count, 28);
  const struct {
    const ptc_device_t *device;
    ptc_replay_mode_t mode;
    int32_t num_steps;
    int64_t turns;
    const char *words;
  } rows[] = {{&device, PTC_REPLAY_OFF, 1, 4, "switched off"},
              {NULL, PTC_REPLAY_ON, 1, 4, "on CPUs"},
              {&old, PTC_REPLAY_ON, 1, 4, "of its own"},
              {&device, PTC_REPLAY_ON, 2, 4, "exchanges data"},
              {&device, PTC_REPLAY_AUTO, 1, PTC_REPLAY_MOST / 7 + 1, "too many launches"},
              {&device, PTC_REPLAY_ON, 1, PTC_REPLAY_MOST / 7 + 1, NULL}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    task.num_steps = rows[i].num_steps;
    steps[0].count = rows[i].turns;
    const char *refusal = ptc_replay_refusal(&plan, &task, rows[i].device, rows[i].mode, &count);
    UNIT_CHECK((refusal != NULL) == (rows[i].words != NULL), rows[i].words ? rows[i].words : "on");
    if (refusal && rows[i].words) UNIT_CHECK(strstr(refusal, rows[i].words), rows[i].words);
  }
}

static const unit_test_t tests[] = {{"replay", test_replay},           {"order", test_order},
                                    {"wrong calls", test_wrong_calls}, {"outside", test_outside},
                                    {"device", test_device},           {"refusals", test_refusals}};
UNIT_MAIN("gpusim graphs", tests)
