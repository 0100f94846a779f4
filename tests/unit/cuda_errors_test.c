// Proves: a GPU, driver or NVRTC that is missing or fails is named in a diagnostic; targets are told apart.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
  UNIT_CHECK(ptc_nvrtc_compile(nvrtc, &diag, "good",
                               "extern \"C\" __global__ void f(float *x) { x[threadIdx.x] = 1; }",
                               "compute_80", &code) == PTC_OK,
             "good");
  UNIT_CHECK(code.len > 0 && strstr(code.data, ".visible .entry f"), "PTX");
  UNIT_CHECK(ptc_nvrtc_compile(nvrtc, &diag, "bad", "__global__ void f() { y = 1; }", "sm_80",
                               &code) == PTC_INTERNAL,
             "bad");
  UNIT_CHECK(reports(&diag, "nvrtc-failed", "identifier \"y\" is undefined"), "nvrtc-failed");
  ptc_str_deinit(&code);
  ptc_nvrtc_close(nvrtc);
  ptc_diag_deinit(&diag);
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
                                    {"targets", test_targets}};
UNIT_MAIN("cuda errors", tests)
