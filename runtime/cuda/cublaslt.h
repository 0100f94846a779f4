// cuBLASLt, loaded when it is needed.
#ifndef PTC_RUNTIME_CUDA_CUBLASLT_H_
#define PTC_RUNTIME_CUDA_CUBLASLT_H_

#include <stddef.h>
#include <stdint.h>

#include "ir/base/diag.h"

// Of the library's enumerations.
typedef enum ptc_lt_value_e {
  PTC_LT_SUCCESS = 0,
  PTC_LT_NOT_INITIALIZED = 1,
  PTC_LT_INVALID_VALUE = 7,
  PTC_LT_EXECUTION_FAILED = 13,
  PTC_LT_NOT_SUPPORTED = 15,
  // Types of elements; how sums are formed.
  PTC_LT_F32 = 0,
  PTC_LT_F16 = 2,
  PTC_LT_BF16 = 14,
  PTC_LT_COMPUTE_F32 = 68,
  PTC_LT_COMPUTE_TF32 = 77,
  PTC_LT_NO_TRANSPOSE = 0,
  PTC_LT_TRANSPOSE = 1,
  // Attributes of a product, of a matrix, of a preference.
  PTC_LT_DESC_TRANSPOSE_A = 3,
  PTC_LT_DESC_TRANSPOSE_B = 4,
  PTC_LT_DESC_EPILOGUE = 7,
  PTC_LT_DESC_BIAS_POINTER = 8,
  PTC_LT_LAYOUT_BATCH_COUNT = 5,
  PTC_LT_LAYOUT_BATCH_STRIDE = 6,
  PTC_LT_PREFERENCE_WORKSPACE = 1,
  PTC_LT_PREFERENCE_ALIGN_A = 5,  // and of B, C, D after it
  // Epilogues: the first alone, or a sum of the others.
  PTC_LT_EPILOGUE_DEFAULT = 1,
  PTC_LT_EPILOGUE_RELU = 2,
  PTC_LT_EPILOGUE_BIAS = 4,
  PTC_LT_EPILOGUE_GELU = 32,
} ptc_lt_value_t;

typedef struct ptc_lt_algo_s {
  uint64_t data[8];
} ptc_lt_algo_t;

typedef struct ptc_lt_heuristic_s {
  ptc_lt_algo_t algo;
  size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
} ptc_lt_heuristic_t;

enum { PTC_LT_LEAST_VERSION = 110400 };

// A table of the entry points (cublaslt_symbols.def).
typedef struct ptc_cublaslt_s {
  void *library;
  size_t version;  // 130100: 13.1
#define PTC_LT(type, name, params) type(*name) params;
#include "runtime/cuda/cublaslt_symbols.def"
#undef PTC_LT
} ptc_cublaslt_t;

// Loads libcublasLt ($PTC_CUBLASLT names its file, $PTC_CUBLASLT_DIR its folder; else the loader's places, $CUDA_HOME,
// /usr/local/cuda). NULL with the diagnostic "cublaslt-missing" (PTC_DEVICE): no library, or one that is too old. Where
// $PTC_LIBCUDA names a driver, $PTC_CUBLASLT must name what works with it.
ptc_cublaslt_t *ptc_cublaslt_open(ptc_diag_t *diag);
void ptc_cublaslt_close(ptc_cublaslt_t *lt);  // NULL is allowed

#endif  // PTC_RUNTIME_CUDA_CUBLASLT_H_
