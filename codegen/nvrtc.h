// NVRTC, loaded when it is needed: CUDA C++ text to PTX or to machine code for one target.
#ifndef PTC_CODEGEN_NVRTC_H_
#define PTC_CODEGEN_NVRTC_H_

#include "ir/base/diag.h"
#include "ir/base/str.h"

typedef struct ptc_nvrtc_s ptc_nvrtc_t;

// What the machine code of one kernel takes of a multiprocessor, as ptxas says. Of PTX nothing is known.
typedef struct ptc_cuda_resources_s {
  bool known;
  int64_t registers;     // of a thread
  int64_t shared_bytes;  // of a block, static
  int64_t stack_bytes;   // of a thread: arrays that are no registers, and what is spilled
  int64_t spill_store_bytes, spill_load_bytes;
} ptc_cuda_resources_t;

// Finds the library: $PTC_NVRTC (a file), the loader's paths, $CUDA_HOME and /usr/local/cuda (lib64), and
// $PTC_NVRTC_DIR. NULL with the diagnostic "nvrtc-missing", which lists what was tried. The caller destroys
// it. Calls on one object may come from several threads.
ptc_nvrtc_t *ptc_nvrtc_open(ptc_diag_t *diag);
void ptc_nvrtc_close(ptc_nvrtc_t *nvrtc);  // NULL is allowed
// 13000 for 13.0.
int32_t ptc_nvrtc_version(const ptc_nvrtc_t *nvrtc);

// How a kernel is compiled.
typedef struct ptc_nvrtc_options_s {
  const char *target;     // "sm_90a" yields machine code (a cubin), "compute_80" yields PTX text
  bool quick;             // without optimizations that cost much time: --Ofast-compile=min
  int32_t max_registers;  // of a thread; 0: what the launch bounds allow
} ptc_nvrtc_options_t;

// Compiles |source|, called |name| in messages; the code is appended to |out|, with the lines of the source. With
// --fmad=false: a multiply and an add never fuse behind the source's back. Unused helpers and variables are no warning;
// what else NVRTC warns of is an error here, too: "nvrtc-failed" (PTC_INTERNAL) with its log. |out_resources| may be NULL.
// NVRTC may crash, and takes the process with it: codegen/nvrtc_pool.h compiles in others.
ptc_status_t ptc_nvrtc_compile(const ptc_nvrtc_t *nvrtc, ptc_diag_t *diag, const char *name,
                               const char *source, const ptc_nvrtc_options_t *options,
                               ptc_str_t *out, ptc_cuda_resources_t *out_resources);

// Takes what ptxas tells of resources out of |log|, which is NVRTC's; the rest, warnings and errors, stays.
void ptc_nvrtc_take_resources(ptc_str_t *log, ptc_cuda_resources_t *out_resources);

#endif  // PTC_CODEGEN_NVRTC_H_
