// Proves: the simulator's driver library does work late and in order, waits only where it is told to, refuses
// what is no PTX, reports faults through the driver's error text, and knows its memory.
#include <dlfcn.h>
#include <stdlib.h>

#include "runtime/cuda/driver.h"
#include "tests/support/unit.h"

static const char ptx[] =
    ".version 9.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry add(.param .u64 at, .param .u32 value)\n{\n.reg .b32 %w<4>;\n.reg .b64 "
    "%d<2>;\n"
    "ld.param.u64 %d1, [at];\nld.param.u32 %w1, [value];\nld.global.u32 %w2, [%d1];\nadd.s32 %w2, "
    "%w2, %w1;\n"
    "st.global.u32 [%d1], %w2;\nret;\n}\n";

typedef struct device_s {
  ptc_diag_t diag;
  ptc_cuda_driver_t *driver;
  void *context, *module, *add;
  uint64_t memory;
} device_t;

static bool open_device(device_t *device) {
  *device = (device_t){0};
  setenv("PTC_LIBCUDA", PTC_BINARY_DIR "/libptc_gpusim_cuda.so", 1);
  ptc_diag_init(&device->diag);
  device->driver = ptc_cuda_driver_open(&device->diag);
  CU_ASSERT_PTR_NOT_NULL(device->driver);
  if (!device->driver) return false;
  const ptc_cuda_driver_t *cu = device->driver;
  CU_ASSERT_EQUAL(cu->DevicePrimaryCtxRetain(&device->context, 0), 0);
  CU_ASSERT_EQUAL(cu->CtxSetCurrent(device->context), 0);
  CU_ASSERT_EQUAL(cu->MemAlloc(&device->memory, 64), 0);
  CU_ASSERT_EQUAL(cu->MemsetD8Async(device->memory, 0, 64, NULL), 0);
  CU_ASSERT_EQUAL(cu->StreamSynchronize(NULL), 0);
  CU_ASSERT_EQUAL(cu->ModuleLoadData(&device->module, ptx), 0);
  CU_ASSERT_EQUAL(cu->ModuleGetFunction(&device->add, device->module, "add"), 0);
  return device->add != NULL;
}

static void close_device(device_t *device) {
  const ptc_cuda_driver_t *cu = device->driver;
  if (cu) {
    if (device->module) cu->ModuleUnload(device->module);
    cu->MemFree(device->memory);
    cu->DevicePrimaryCtxRelease(0);
    ptc_cuda_driver_close(device->driver);
  }
  ptc_diag_deinit(&device->diag);
  unsetenv("PTC_LIBCUDA");
}

static int add(const device_t *device, uint64_t address, uint32_t value, void *stream) {
  void *params[] = {&address, &value};
  return device->driver->LaunchKernel(device->add, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

static void test_order(void) {
  device_t device;
  if (!open_device(&device)) return;
  const ptc_cuda_driver_t *cu = device.driver;
  void *stream;
  uint32_t value = 5, before = 0, after = 0;
  CU_ASSERT_EQUAL(cu->StreamCreate(&stream, 1), 0);
  CU_ASSERT_EQUAL(cu->MemcpyHtoDAsync(device.memory, &value, 4, stream), 0);
  value = 99;  // the copy has taken it already
  CU_ASSERT_EQUAL(cu->MemcpyDtoHAsync(&before, device.memory, 4, stream), 0);
  CU_ASSERT_EQUAL(add(&device, device.memory, 7, stream), 0);
  CU_ASSERT_EQUAL(cu->MemcpyDtoDAsync(device.memory + 8, device.memory, 4, stream), 0);
  CU_ASSERT_EQUAL(cu->MemcpyDtoHAsync(&after, device.memory + 8, 4, stream), 0);
  CU_ASSERT_EQUAL(after, 0);  // nobody has waited
  CU_ASSERT_EQUAL(cu->StreamSynchronize(stream), 0);
  CU_ASSERT_EQUAL(before, 5);
  CU_ASSERT_EQUAL(after, 12);
  CU_ASSERT_EQUAL(cu->StreamDestroy(stream), 0);
  close_device(&device);
}

// A copy from memory that is held in place reads it when it is done, other copies at once.
static void test_pinned(void) {
  device_t device;
  if (!open_device(&device)) return;
  const ptc_cuda_driver_t *cu = device.driver;
  CU_ASSERT_FATAL(cu->MemHostRegister && cu->MemHostUnregister);
  uint32_t *memory = aligned_alloc(4096, 8192), seen = 0;
  CU_ASSERT_EQUAL(cu->MemHostRegister(memory + 3, 4096, 0), 0);  // both pages
  CU_ASSERT_EQUAL(cu->MemHostRegister(memory, 16, 0), 712);
  CU_ASSERT_EQUAL(cu->MemHostRegister(memory, 0, 0), 1);
  for (int pinned = 1; pinned >= 0; --pinned) {
    memory[1] = 5;
    CU_ASSERT_EQUAL(cu->MemcpyHtoDAsync(device.memory, &memory[1], 4, NULL), 0);
    memory[1] = 6;
    CU_ASSERT_EQUAL(cu->MemcpyDtoHAsync(&seen, device.memory, 4, NULL), 0);
    CU_ASSERT_EQUAL(cu->StreamSynchronize(NULL), 0);
    CU_ASSERT_EQUAL(seen, pinned ? 6 : 5);
    CU_ASSERT_EQUAL(cu->MemHostUnregister(memory + 3), pinned ? 0 : 713);
  }
  free(memory);
  close_device(&device);
}

// One stream reads what another writes: right with an event, and wrong, each time, without.
static void test_events(void) {
  for (int with_event = 0; with_event < 2; ++with_event) {
    device_t device;
    if (!open_device(&device)) return;
    const ptc_cuda_driver_t *cu = device.driver;
    int (*create)(void **, unsigned), (*record)(void *, void *), (*destroy)(void *),
        (*query)(void *);
    int (*wait)(void *, void *, unsigned);
    *(void **)&create = dlsym(cu->library, "cuEventCreate");
    *(void **)&record = dlsym(cu->library, "cuEventRecord");
    *(void **)&destroy = dlsym(cu->library, "cuEventDestroy_v2");
    *(void **)&query = dlsym(cu->library, "cuEventQuery");
    *(void **)&wait = dlsym(cu->library, "cuStreamWaitEvent");
    void *writer, *reader, *event;
    uint32_t seen = 0;
    CU_ASSERT_EQUAL(cu->StreamCreate(&writer, 1) | cu->StreamCreate(&reader, 1) | create(&event, 0),
                    0);
    CU_ASSERT_EQUAL(add(&device, device.memory, 3, writer), 0);
    CU_ASSERT_EQUAL(record(event, writer), 0);
    CU_ASSERT_EQUAL(query(event), 600);  // not ready
    if (with_event) CU_ASSERT_EQUAL(wait(reader, event, 0), 0);
    CU_ASSERT_EQUAL(cu->MemcpyDtoHAsync(&seen, device.memory, 4, reader), 0);
    CU_ASSERT_EQUAL(cu->StreamSynchronize(reader), 0);
    CU_ASSERT_EQUAL(seen, with_event ? 3 : 0);
    CU_ASSERT_EQUAL(cu->StreamDestroy(writer) | cu->StreamDestroy(reader) | destroy(event), 0);
    close_device(&device);
  }
}

static void check_text(const device_t *device, int code, const char *part) {
  const char *text = NULL;
  CU_ASSERT_EQUAL(device->driver->GetErrorString(code, &text), 0);
  UNIT_CHECK(text && strstr(text, part), part);
  if (text && !strstr(text, part)) printf("%s\n", text);
}

static void test_errors(void) {
  device_t device;
  if (!open_device(&device)) return;
  const ptc_cuda_driver_t *cu = device.driver;
  void *module = NULL;
  int ordinal;
  uint64_t address;
  CU_ASSERT_EQUAL(cu->DeviceGet(&ordinal, 1), 101);
  CU_ASSERT_EQUAL(cu->ModuleLoadData(&module,
                                     "\x7f"
                                     "ELF and so on"),
                  218);
  check_text(&device, 218, "compile for compute_80");
  CU_ASSERT_EQUAL(cu->ModuleLoadData(&module, ".visible .entry f()\n{\nfrobnicate;\n}\n"), 218);
  check_text(&device, 218,
             "PTX line 3: the GPU simulator does not run the instruction \"frobnicate\"");
  CU_ASSERT_EQUAL(cu->ModuleGetFunction(&module, device.module, "sub"), 500);
  CU_ASSERT_EQUAL(cu->MemAlloc(&address, (size_t)1 << 60), 2);
  // A fault is told at the wait, and by every call after it.
  CU_ASSERT_EQUAL(add(&device, device.memory + 64, 1, NULL), 0);
  CU_ASSERT_EQUAL(cu->StreamSynchronize(NULL), 700);
  check_text(&device, 700,
             "kernel \"add\" (PTX line 10), block 0, thread 0: 4 bytes at address 0x");
  CU_ASSERT_EQUAL(add(&device, device.memory, 1, NULL), 700);
  CU_ASSERT_EQUAL(cu->MemAlloc(&address, 16), 700);
  close_device(&device);
  // A new context begins anew.
  if (!open_device(&device)) return;
  CU_ASSERT_EQUAL(add(&device, device.memory, 1, NULL), 0);
  CU_ASSERT_EQUAL(device.driver->StreamSynchronize(NULL), 0);
  CU_ASSERT_EQUAL(device.driver->MemcpyHtoDAsync(device.memory + 62, &ordinal, 4, NULL), 0);
  CU_ASSERT_EQUAL(device.driver->StreamSynchronize(NULL), 1);
  check_text(&device, 1, "a copy of 4 bytes at address 0x");
  close_device(&device);
}

static void test_memory(void) {
  device_t device;
  if (!open_device(&device)) return;
  size_t free_bytes = 0, total_bytes = 0, less = 0;
  CU_ASSERT_EQUAL(device.driver->MemGetInfo(&free_bytes, &total_bytes), 0);
  CU_ASSERT(free_bytes > 0 && free_bytes < total_bytes);
  uint64_t address;
  CU_ASSERT_EQUAL(device.driver->MemAlloc(&address, 4096), 0);
  CU_ASSERT_EQUAL(address % 256, 0);
  CU_ASSERT_EQUAL(device.driver->MemGetInfo(&less, &total_bytes), 0);
  CU_ASSERT_EQUAL(free_bytes - less, 4096);
  CU_ASSERT_EQUAL(device.driver->MemFree(address + 1), 1);
  CU_ASSERT_EQUAL(device.driver->MemFree(address), 0);
  close_device(&device);
}

static const unit_test_t tests[] = {{"order", test_order},
                                    {"pinned", test_pinned},
                                    {"events", test_events},
                                    {"errors", test_errors},
                                    {"memory", test_memory}};
UNIT_MAIN("gpusim driver", tests)
