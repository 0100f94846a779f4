// What goes between codegen/nvrtc_pool.c and the program codegen/worker/ptc_nvrtc.c, which are built together.
#ifndef PTC_CODEGEN_NVRTC_MESSAGE_H_
#define PTC_CODEGEN_NVRTC_MESSAGE_H_

#include <stdint.h>

#include "codegen/nvrtc.h"

// Changes with these structs.
enum { PTC_NVRTC_REQUEST = 0x70746e31, PTC_NVRTC_REPLY = 0x70746e32 };

// Compile this. The texts of name, target and source follow, each with a NUL that its length counts.
typedef struct ptc_nvrtc_request_s {
  uint32_t magic;
  int32_t quick, max_registers;
  uint32_t name_bytes, target_bytes, source_bytes;
} ptc_nvrtc_request_t;

// What came of it. The code (PTC_OK) or the message (else, without a NUL) follows. The program begins with one that has no
// code, when NVRTC is loaded, or with one that says why it is not.
typedef struct ptc_nvrtc_reply_s {
  uint32_t magic;
  int32_t status;  // ptc_status_t
  uint64_t bytes;
  ptc_cuda_resources_t resources;
} ptc_nvrtc_reply_t;

#endif  // PTC_CODEGEN_NVRTC_MESSAGE_H_
