// The status that every fallible function of ptc returns.
#ifndef PTC_IR_BASE_STATUS_H_
#define PTC_IR_BASE_STATUS_H_

typedef enum ptc_status_e {
  PTC_OK = 0,
  PTC_INVALID_INPUT,  // the .ptm or .ptir text is wrong; a diagnostic was emitted
  PTC_UNSUPPORTED,    // valid, but this build or backend cannot do it; a diagnostic was emitted
  PTC_INFEASIBLE,     // no plan meets the memory or divisibility constraints
  PTC_IO,             // a file could not be read or written; a diagnostic was emitted
  PTC_DEVICE,         // CUDA, NVRTC or NCCL returned an error
  PTC_INTERNAL,       // broken invariant: a ptc bug, never the user's fault
} ptc_status_t;

// Returns the status from the enclosing function if |expr| is not PTC_OK.
#define PTC_TRY(expr)                                      \
  do {                                                     \
    ptc_status_t ptc_try_status_ = (expr);                 \
    if (ptc_try_status_ != PTC_OK) return ptc_try_status_; \
  } while (0)

// The process exit status that belongs to |status|: 0 success, 1 the input is wrong or no plan
// fits, 3 an internal fault, 4 device or communication. (2, usage, is the driver's own.)
int ptc_status_exit_code(ptc_status_t status);

#endif  // PTC_IR_BASE_STATUS_H_
