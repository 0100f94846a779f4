// recompute = selective(bytes = N): finds which saved values are computed again, so that the plan fits.
#ifndef PTC_FRONTEND_DRIVER_FIT_MEMORY_H_
#define PTC_FRONTEND_DRIVER_FIT_MEMORY_H_

#include "passes/pass.h"

// |module| is lowered, no pass has run. With recompute_bytes in its config, plans for |target| are made of copies, and
// the config's recompute_level becomes the least, in the order of passes/recompute_budget.c, whose arena (of every
// stage) has at most so many bytes; else nothing happens. |keep_grads| as in ptc_pass_options_t.
// PTC_INFEASIBLE, "memory-budget": none has; the message says how many bytes are missing.
ptc_status_t ptc_fit_memory(ptc_module_t *module, const char *target, bool keep_grads);

#endif  // PTC_FRONTEND_DRIVER_FIT_MEMORY_H_
