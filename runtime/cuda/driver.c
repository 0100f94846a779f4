// The CUDA driver through dlopen.
#include "runtime/cuda/driver.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "ir/base/library.h"

ptc_cuda_driver_t *ptc_cuda_driver_open(ptc_diag_t *diag) {
  const char *named = getenv("PTC_LIBCUDA");
  const char *file = named ? named : "libcuda.so.1";
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    ptc_error(diag, (ptc_loc_t){0}, PTC_DEVICE, "cuda-missing",
              "the CUDA driver \"%s\" cannot be loaded: %s; install the NVIDIA driver, or run the "
              "plan of "
              "--target cpu",
              file, dlerror());
    return NULL;
  }
  ptc_cuda_driver_t *driver = calloc(1, sizeof *driver);
  if (!driver) ptc_oom(sizeof *driver);
  driver->library = library;
  const char *missing = NULL;
#define PTC_CU(field, name, params) \
  if (!ptc_library_symbol(library, #name, &driver->field)) missing = #name;
#define PTC_CU_OPTIONAL(field, name, params) ptc_library_symbol(library, #name, &driver->field);
#include "runtime/cuda/driver_symbols.def"
#undef PTC_CU
  if (missing) {
    ptc_error(diag, (ptc_loc_t){0}, PTC_DEVICE, "cuda-missing",
              "the CUDA driver \"%s\" lacks \"%s\"; install a driver for CUDA 12 or later", file,
              missing);
    ptc_cuda_driver_close(driver);
    return NULL;
  }
  if (ptc_cuda_check(driver, diag, driver->Init(0), "cuInit") != PTC_OK) {
    ptc_cuda_driver_close(driver);
    return NULL;
  }
  return driver;
}

bool ptc_cuda_driver_has_graphs(const ptc_cuda_driver_t *driver) {
  return driver->StreamBeginCapture && driver->StreamEndCapture && driver->GraphInstantiate &&
         driver->GraphLaunch && driver->GraphExecDestroy && driver->GraphDestroy;
}

void ptc_cuda_driver_close(ptc_cuda_driver_t *driver) {
  if (!driver) return;
  dlclose(driver->library);
  free(driver);
}

ptc_status_t ptc_cuda_check(const ptc_cuda_driver_t *driver, ptc_diag_t *diag, int code,
                            const char *what) {
  if (code == 0) return PTC_OK;
  const char *text = NULL;
  driver->GetErrorString(code, &text);
  return ptc_error(diag, (ptc_loc_t){0}, PTC_DEVICE, "cuda-failed", "%s: %s (code %d)", what,
                   text ? text : "unknown error", code);
}
