// NCCL, loaded when it is needed.
#ifndef PTC_RUNTIME_NCCL_LIBRARY_H_
#define PTC_RUNTIME_NCCL_LIBRARY_H_

#include <stddef.h>
#include <stdint.h>

#include "ir/base/diag.h"

// NCCL's numbers (nccl.h).
enum ptc_nccl_code_e {
  PTC_NCCL_SUCCESS = 0,
  PTC_NCCL_CUDA_ERROR = 1,
  PTC_NCCL_SYSTEM_ERROR = 2,
  PTC_NCCL_INVALID_ARGUMENT = 4,
  PTC_NCCL_INVALID_USAGE = 5,
  PTC_NCCL_REMOTE_ERROR = 6,
  PTC_NCCL_IN_PROGRESS = 7,
};
enum ptc_nccl_type_e {
  PTC_NCCL_UINT8 = 1,
  PTC_NCCL_INT32 = 2,
  PTC_NCCL_INT64 = 4,
  PTC_NCCL_FLOAT16 = 6,
  PTC_NCCL_FLOAT32 = 7,
  PTC_NCCL_FLOAT64 = 8,
  PTC_NCCL_BFLOAT16 = 9,
};
enum ptc_nccl_reduce_e { PTC_NCCL_SUM = 0, PTC_NCCL_MAX = 2 };
enum {
  PTC_NCCL_LEAST_VERSION = 21400,  // the first whose calls need not block
  PTC_NCCL_NO_COLOR = -1,
  PTC_NCCL_ID_BYTES = 128
};

typedef struct ptc_nccl_id_s {
  char bytes[PTC_NCCL_ID_BYTES];
} ptc_nccl_id_t;

// As it was in NCCL 2.18; later versions take shorter ones, and what is undefined is theirs to choose.
typedef struct ptc_nccl_config_s {
  size_t bytes;
  unsigned magic, version;
  int blocking, cluster, least_blocks, most_blocks;
  const char *net;
  int share;
} ptc_nccl_config_t;

// Calls come back at once, and say with IN_PROGRESS that they go on.
ptc_nccl_config_t ptc_nccl_config(void);

// A table of its entry points (nccl_symbols.def). What is not required may be NULL.
typedef struct ptc_nccl_s {
  void *library;
  int32_t version;  // 22809 is 2.28.9
#define PTC_NCCL(required, type, name, params) type(*name) params;
#include "runtime/nccl/nccl_symbols.def"
#undef PTC_NCCL
} ptc_nccl_t;

// Loads libnccl: $PTC_NCCL names its file, $PTC_NCCL_DIR a folder; else the loader's search, $CUDA_HOME and the usual
// places. PTC_NCCL_SPLIT=0: as if it had no ncclCommSplit; PTC_NCCL_REGISTER=0: nor ncclCommRegister and ncclMemAlloc. NULL with the diagnostic "nccl-missing" (PTC_DEVICE): none was found (names the files), it lacks an entry
// point, or it is too old. It stays mapped when it is closed.
ptc_nccl_t *ptc_nccl_open(ptc_diag_t *diag);
void ptc_nccl_close(ptc_nccl_t *nccl);  // NULL is allowed

#endif  // PTC_RUNTIME_NCCL_LIBRARY_H_
