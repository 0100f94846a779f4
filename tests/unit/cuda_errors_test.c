// Proves: a GPU, driver or NVRTC that is missing or fails is named in a diagnostic; targets are told apart.
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/cuda_occupancy.h"
#include "codegen/nvrtc.h"
#include "ir/plan.h"
#include "runtime/cuda/driver.h"
#include "tests/support/unit.h"

// Whether the first diagnostic is |id| and holds |text|.
static bool reports(const ptc_diag_t *diag, const char *id, const char *text) {
  return diag->num_items > 0 && strcmp(diag->items[0].id, id) == 0 &&
         strstr(diag->items[0].message, text);
}

static void test_missing(void) {
  ptc_diag_t diag;
  setenv("PTC_NVRTC", "/nowhere/libnvrtc.so", 1);
  ptc_diag_init(&diag);
  UNIT_CHECK(ptc_nvrtc_open(&diag) == NULL, "nvrtc");
  UNIT_CHECK(reports(&diag, "nvrtc-missing", "/nowhere/libnvrtc.so"), "nvrtc-missing");
  ptc_diag_deinit(&diag);
  unsetenv("PTC_NVRTC");
  setenv("PTC_LIBCUDA", "/nowhere/libcuda.so.1", 1);
  ptc_diag_init(&diag);
  UNIT_CHECK(ptc_cuda_driver_open(&diag) == NULL, "driver");
  UNIT_CHECK(reports(&diag, "cuda-missing", "/nowhere/libcuda.so.1"), "cuda-missing");
  ptc_diag_deinit(&diag);
  // A library that is no driver.
  setenv("PTC_LIBCUDA", "libm.so.6", 1);
  ptc_diag_init(&diag);
  UNIT_CHECK(ptc_cuda_driver_open(&diag) == NULL, "no driver");
  UNIT_CHECK(reports(&diag, "cuda-missing", "lacks"), "cuda-missing");
  ptc_diag_deinit(&diag);
  unsetenv("PTC_LIBCUDA");
}

// The toolkit's stub library answers every call with an error.
static void test_failing_driver(void) {
  static const char stub[] = "/usr/local/cuda/lib64/stubs/libcuda.so";
  if (access(stub, R_OK) != 0) {
    printf("skipped: no stub library here\n");
    return;
  }
  setenv("PTC_LIBCUDA", stub, 1);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  UNIT_CHECK(ptc_cuda_driver_open(&diag) == NULL, "stub");
  UNIT_CHECK(reports(&diag, "cuda-failed", "cuInit"), "cuda-failed");
  ptc_diag_deinit(&diag);
  unsetenv("PTC_LIBCUDA");
}

static void test_nvrtc_log(void) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_nvrtc_t *nvrtc = ptc_nvrtc_open(&diag);
  if (!nvrtc) {
    printf("skipped: no NVRTC here\n");
    ptc_diag_deinit(&diag);
    return;
  }
  UNIT_CHECK(ptc_nvrtc_version(nvrtc) >= 12000, "version");
  ptc_str_t code = {0};
  UNIT_CHECK(
      ptc_nvrtc_compile(nvrtc, &diag, "good",
                        "extern \"C\" __global__ void f(float *x) { x[threadIdx.x] = 1; }",
                        &(ptc_nvrtc_options_t){.target = "compute_80"}, &code, NULL) == PTC_OK,
      "good");
  UNIT_CHECK(code.len > 0 && strstr(code.data, ".visible .entry f"), "PTX");
  UNIT_CHECK(
      ptc_nvrtc_compile(nvrtc, &diag, "bad", "__global__ void f() { y = 1; }",
                        &(ptc_nvrtc_options_t){.target = "sm_80"}, &code, NULL) == PTC_INTERNAL,
      "bad");
  UNIT_CHECK(reports(&diag, "nvrtc-failed", "identifier \"y\" is undefined"), "nvrtc-failed");
  ptc_str_deinit(&code);
  ptc_nvrtc_close(nvrtc);
  ptc_diag_deinit(&diag);
}

// --- what machine code takes

// The registers of the kernel as the cubin itself says: attribute EIATTR_REGCOUNT (0x2f) of section .nv.info, a pair
// of symbol and count. -1: not found.
static int64_t registers_of(const ptc_str_t *cubin) {
  Elf64_Ehdr head;
  memcpy(&head, cubin->data, sizeof head);
  for (int s = 0; s < head.e_shnum; s++) {
    Elf64_Shdr section, names;
    memcpy(&section, cubin->data + head.e_shoff + (size_t)s * sizeof section, sizeof section);
    memcpy(&names, cubin->data + head.e_shoff + head.e_shstrndx * sizeof names, sizeof names);
    if (strcmp(cubin->data + names.sh_offset + section.sh_name, ".nv.info") != 0) continue;
    const uint8_t *at = (const uint8_t *)cubin->data + section.sh_offset;
    for (size_t i = 0; i + 12 <= section.sh_size;) {
      uint32_t count;
      memcpy(&count, at + i + 8, sizeof count);
      if (at[i] == 4 && at[i + 1] == 0x2f) return count;
      // Format 4 has a length, the others hold their value in these four bytes.
      i += at[i] == 4 ? 4 + (size_t)(at[i + 2] | at[i + 3] << 8) : 4;
    }
  }
  return -1;
}

static void test_resources(void) {
  static const char source[] =
      "extern \"C\" __global__ void __launch_bounds__(256) f(float *x) {\n"
      "  __shared__ float part[300];\n"
      "  for (int i = threadIdx.x; i < 300; i += 256) part[i] = x[i];\n"
      "  __syncthreads();\n"
      "  x[threadIdx.x] = part[299 - threadIdx.x];\n"
      "}";
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_nvrtc_t *nvrtc = ptc_nvrtc_open(&diag);
  static const char *const targets[] = {"sm_80", "sm_90a", "sm_100"};
  for (int i = 0; nvrtc && i < 3; i++) {
    ptc_str_t code = {0};
    ptc_cuda_resources_t r;
    UNIT_CHECK(ptc_nvrtc_compile(nvrtc, &diag, "f", source,
                                 &(ptc_nvrtc_options_t){.target = targets[i]}, &code, &r) == PTC_OK,
               targets[i]);
    UNIT_CHECK(r.known && r.registers > 0 && r.registers == registers_of(&code), "registers");
    UNIT_CHECK(r.shared_bytes == 1200, "shared memory");
    UNIT_CHECK(r.stack_bytes == 0 && r.spill_store_bytes == 0 && r.spill_load_bytes == 0, "spills");
    ptc_str_deinit(&code);
  }
  if (nvrtc) {
    ptc_str_t code = {0};
    ptc_cuda_resources_t r;
    UNIT_CHECK(
        ptc_nvrtc_compile(nvrtc, &diag, "f", source, &(ptc_nvrtc_options_t){.target = "compute_80"},
                          &code, &r) == PTC_OK &&
            !r.known,
        "PTX");
    ptc_str_deinit(&code);
  }
  ptc_nvrtc_close(nvrtc);
  ptc_diag_deinit(&diag);
}

// Needs no NVRTC: a log with a function that is not inlined, and with a warning, which stays.
static void test_resource_log(void) {
  ptc_str_t log = {0};
  ptc_str_append(
      &log,
      "ptxas info    : 23 bytes gmem, 8 bytes cmem[4]\n"
      "ptxas info    : Compiling entry function 'k' for 'sm_80'\n"
      "ptxas info    : Function properties for k\n"
      "ptxas         .     232 bytes stack frame, 356 bytes spill stores, 624 bytes spill loads\n"
      "ptxas info    : Used 128 registers, used 1 barriers, 240 bytes cumulative stack size, 33792 "
      "bytes smem, 984 bytes cmem[0]\n"
      "ptxas info    : Function properties for helper\n"
      "ptxas         .     8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
      "ptxas warning : something\n"
      "ptxas info    : Compile time = 3.0 ms\n");
  ptc_cuda_resources_t r;
  ptc_nvrtc_take_resources(&log, &r);
  UNIT_CHECK(r.known && r.registers == 128 && r.shared_bytes == 33792, "registers, shared memory");
  UNIT_CHECK(r.stack_bytes == 240 && r.spill_store_bytes == 360 && r.spill_load_bytes == 628,
             "spills");
  UNIT_CHECK(log.data && strcmp(log.data, "ptxas warning : something") == 0, "what is left");
  ptc_str_deinit(&log);
  ptc_nvrtc_take_resources(&log, &r);
  UNIT_CHECK(!r.known && !log.len, "an empty log");
}

static void test_occupancy(void) {
  static const struct {
    const char *target;
    int64_t threads, registers, shared_bytes, blocks;
    const char *limit;
  } cases[] = {{"sm_80", 256, 32, 0, 8, "warps"},
               {"sm_80", 256, 40, 0, 6, "registers"},
               {"sm_80", 256, 128, 0, 2, "registers"},
               {"sm_80", 256, 255, 0, 1, "registers"},
               {"sm_80", 256, 32, 48 * 1024, 3, "shared memory"},
               {"sm_90a", 256, 32, 48 * 1024, 4, "shared memory"},
               {"sm_100", 256, 32, 48 * 1024, 4, "shared memory"},
               {"sm_80", 32, 16, 0, 32, "blocks"},
               {"sm_86", 256, 32, 0, 6, "warps"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const ptc_cuda_resources_t r = {
        .known = true, .registers = cases[i].registers, .shared_bytes = cases[i].shared_bytes};
    ptc_cuda_occupancy_t o;
    UNIT_CHECK(ptc_cuda_occupancy(cases[i].target, &r, cases[i].threads, &o), "known");
    UNIT_CHECK(o.blocks == cases[i].blocks && strcmp(o.limit, cases[i].limit) == 0 &&
                   o.warps == o.blocks * cases[i].threads / 32,
               cases[i].limit);
  }
  ptc_cuda_occupancy_t o;
  const ptc_cuda_resources_t known = {.known = true, .registers = 32}, unknown = {0};
  UNIT_CHECK(!ptc_cuda_occupancy("sm_75", &known, 256, &o) && !o.blocks, "another target");
  UNIT_CHECK(!ptc_cuda_occupancy("compute_80", &known, 256, &o), "PTX");
  UNIT_CHECK(!ptc_cuda_occupancy("sm_80", &unknown, 256, &o), "nothing known");
}

static void test_targets(void) {
  static const char *const gpu[] = {"sm_80", "sm_90a", "sm_100", "compute_80"};
  static const char *const other[] = {"cpu",     "cpu:x86-64-v3", "sm_", "sm_9x",
                                      "sm_1234", "sm_90ab",       ""};
  for (size_t i = 0; i < sizeof gpu / sizeof *gpu; i++)
    UNIT_CHECK(ptc_plan_target_is_cuda(gpu[i]), gpu[i]);
  for (size_t i = 0; i < sizeof other / sizeof *other; i++)
    UNIT_CHECK(!ptc_plan_target_is_cuda(other[i]), other[i]);
  UNIT_CHECK(!ptc_plan_target_is_cuda(NULL), "none");
}

static const unit_test_t tests[] = {{"missing", test_missing},
                                    {"failing driver", test_failing_driver},
                                    {"nvrtc log", test_nvrtc_log},
                                    {"resources", test_resources},
                                    {"resource log", test_resource_log},
                                    {"occupancy", test_occupancy},
                                    {"targets", test_targets}};
UNIT_MAIN("cuda errors", tests)
