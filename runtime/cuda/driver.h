// The CUDA driver API, loaded when it is needed.
#ifndef PTC_RUNTIME_CUDA_DRIVER_H_
#define PTC_RUNTIME_CUDA_DRIVER_H_

#include <stddef.h>
#include <stdint.h>

#include "ir/base/diag.h"

// A table of the driver's entry points (driver_symbols.def).
typedef struct ptc_cuda_driver_s {
  void *library;
#define PTC_CU(field, symbol, params) int(*field) params;
#include "runtime/cuda/driver_symbols.def"
#undef PTC_CU
} ptc_cuda_driver_t;

// Loads libcuda.so.1 ($PTC_LIBCUDA names another file) and initializes it. NULL with a diagnostic:
// "cuda-missing" (no library, or a symbol is absent) or "cuda-failed" (PTC_DEVICE).
ptc_cuda_driver_t *ptc_cuda_driver_open(ptc_diag_t *diag);
void ptc_cuda_driver_close(ptc_cuda_driver_t *driver);  // NULL is allowed

// PTC_OK if |code| is 0, else the diagnostic "cuda-failed" with what was tried and the driver's words.
ptc_status_t ptc_cuda_check(const ptc_cuda_driver_t *driver, ptc_diag_t *diag, int code,
                            const char *what);

#endif  // PTC_RUNTIME_CUDA_DRIVER_H_
