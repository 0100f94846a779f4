// A loaded module: PTX made ready to run, with its global variables in device memory.
#ifndef PTC_RUNTIME_GPUSIM_MODULE_H_
#define PTC_RUNTIME_GPUSIM_MODULE_H_

#include "runtime/gpusim/memory.h"
#include "runtime/gpusim/program.h"

typedef struct sim_module_s {
  ptx_module_t ptx;
  PTC_VEC(sim_placed_t) placed;
  PTC_VEC(sim_program_t *) programs;  // the entries
} sim_module_t;

// Reads |text|, called |name| in messages, and prepares all its entries. Diagnostics: those of ptx.h and
// program.h; "ptx-memory" (PTC_INFEASIBLE). Unload |out_module| in any case.
ptc_status_t sim_module_load(ptc_diag_t *diag, sim_memory_t *memory, const char *name,
                             const char *text, sim_module_t *out_module);
void sim_module_unload(sim_memory_t *memory, sim_module_t *module);
// NULL if there is no such entry.
const sim_program_t *sim_module_find(const sim_module_t *module, const char *name);

#endif  // PTC_RUNTIME_GPUSIM_MODULE_H_
