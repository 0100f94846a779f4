// The CUDA driver API, loaded when it is needed.
#ifndef PTC_RUNTIME_CUDA_DRIVER_H_
#define PTC_RUNTIME_CUDA_DRIVER_H_

#include <stddef.h>
#include <stdint.h>

#include "ir/base/diag.h"

// Of the driver's enumerations.
enum { PTC_CUDA_NOT_READY = 600, PTC_CUDA_MEMORY_DEVICE = 2 };

// What cuMemcpy2DAsync is told (CUDA_MEMCPY2D).
typedef struct ptc_cuda_copy_2d_s {
  size_t from_x, from_y;
  int from_type;
  const void *from_host;
  uint64_t from;
  void *from_array;
  size_t from_pitch;
  size_t to_x, to_y;
  int to_type;
  void *to_host;
  uint64_t to;
  void *to_array;
  size_t to_pitch;
  size_t width, height;
} ptc_cuda_copy_2d_t;

// A table of the driver's entry points (driver_symbols.def). What is optional may be NULL.
typedef struct ptc_cuda_driver_s {
  void *library;
#define PTC_CU(field, symbol, params) int(*field) params;
#include "runtime/cuda/driver_symbols.def"
#undef PTC_CU
} ptc_cuda_driver_t;

// Loads libcuda.so.1 ($PTC_LIBCUDA names another file) and initializes it. NULL with a diagnostic:
// "cuda-missing" (no library, or a symbol is absent) or "cuda-failed" (PTC_DEVICE).
ptc_cuda_driver_t *ptc_cuda_driver_open(ptc_diag_t *diag);
// Whether it has those for graphs.
bool ptc_cuda_driver_has_graphs(const ptc_cuda_driver_t *driver);
void ptc_cuda_driver_close(ptc_cuda_driver_t *driver);  // NULL is allowed

// PTC_OK if |code| is 0, else the diagnostic "cuda-failed" with what was tried and the driver's words.
ptc_status_t ptc_cuda_check(const ptc_cuda_driver_t *driver, ptc_diag_t *diag, int code,
                            const char *what);

#endif  // PTC_RUNTIME_CUDA_DRIVER_H_
