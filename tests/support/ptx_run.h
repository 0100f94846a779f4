// Runs PTX text on the GPU simulator, for tests.
#ifndef PTC_TESTS_SUPPORT_PTX_RUN_H_
#define PTC_TESTS_SUPPORT_PTX_RUN_H_

#include "runtime/gpusim/launch.h"
#include "runtime/gpusim/module.h"

typedef struct ptx_run_s {
  const char *text;  // with an entry "test" of one parameter: the address of |out|
  uint32_t blocks, threads;
  int64_t dynamic_bytes;
  bool checks, counters;
  void *out;  // before and after
  int64_t out_bytes;
  bool out_invalid;  // as if |out| had never been written
} ptx_run_t;

// Release with ptx_result_deinit. |loaded| is false if the text cannot be run; |report| then is the message.
typedef struct ptx_result_s {
  bool loaded;
  sim_fault_kind_t fault;
  ptc_str_t report;
  sim_counters_t counters;
} ptx_result_t;

ptx_result_t ptx_run(const ptx_run_t *run);
void ptx_result_deinit(ptx_result_t *result);

// A module with the entry "test(.param .u64 out)" whose registers are %p<16>, %h<32>, %w<64>, %d<64>, with
// %d63 the address of |out|, %w63 the thread's number, then |body|.
void ptx_wrap(ptc_str_t *text, const char *declarations, const char *body);

#endif  // PTC_TESTS_SUPPORT_PTX_RUN_H_
