#include "runtime/gpusim/module.h"

#include <string.h>

static ptc_status_t place_globals(ptc_diag_t *diag, sim_memory_t *memory, sim_module_t *module) {
  int64_t shared = 0;
  for (int64_t i = 0; i < module->ptx.globals.len; ++i) {
    const ptx_variable_t *variable = module->ptx.globals.data[i];
    uint64_t address;
    if (variable->space == PTX_SPACE_SHARED) {
      if (variable->is_extern) continue;
      const int64_t align = variable->align > 0 ? variable->align : 1;
      shared = (shared + align - 1) / align * align;
      address = (uint64_t)shared;
      shared += variable->bytes;
    } else {
      address = sim_memory_alloc(memory, (uint64_t)variable->bytes);
      if (!address)
        return ptc_error(diag, (ptc_loc_t){.file = module->ptx.name}, PTC_INFEASIBLE, "ptx-memory",
                         "no memory for the variable \"%s\"", variable->name);
      if (variable->init)
        memcpy((void *)(uintptr_t)address, variable->init, (size_t)variable->bytes);
      else
        memset((void *)(uintptr_t)address, 0, (size_t)variable->bytes);
      sim_memory_wrote(sim_memory_find(memory, address, 0), address, (uint64_t)variable->bytes);
    }
    PTC_VEC_PUSH(&module->placed, ((sim_placed_t){variable, address}));
  }
  // Dynamic shared memory begins behind what is static.
  for (int64_t i = 0; i < module->ptx.globals.len; ++i) {
    const ptx_variable_t *variable = module->ptx.globals.data[i];
    if (variable->space == PTX_SPACE_SHARED && variable->is_extern)
      PTC_VEC_PUSH(&module->placed,
                   ((sim_placed_t){variable, (uint64_t)((shared + 15) / 16 * 16)}));
  }
  return PTC_OK;
}

ptc_status_t sim_module_load(ptc_diag_t *diag, sim_memory_t *memory, const char *name,
                             const char *text, sim_module_t *out_module) {
  *out_module = (sim_module_t){0};
  PTC_TRY(ptx_parse(diag, name, text, &out_module->ptx));
  PTC_TRY(place_globals(diag, memory, out_module));
  for (int64_t i = 0; i < out_module->ptx.funcs.len; ++i) {
    const ptx_func_t *func = out_module->ptx.funcs.data[i];
    if (!func->is_entry || !func->has_body) continue;
    sim_program_t *program = ptc_xmalloc(sizeof *program);
    PTC_VEC_PUSH(&out_module->programs, program);
    PTC_TRY(sim_program_create(diag, &out_module->ptx, func, out_module->placed.data,
                               (int32_t)out_module->placed.len, program));
  }
  return PTC_OK;
}

void sim_module_unload(sim_memory_t *memory, sim_module_t *module) {
  for (int64_t i = 0; i < module->programs.len; ++i) {
    sim_program_deinit(module->programs.data[i]);
    free(module->programs.data[i]);
  }
  for (int64_t i = 0; i < module->placed.len; ++i)
    if (module->placed.data[i].variable->space != PTX_SPACE_SHARED)
      sim_memory_free(memory, module->placed.data[i].address);
  PTC_VEC_FREE(&module->programs);
  PTC_VEC_FREE(&module->placed);
  ptx_module_deinit(&module->ptx);
}

const sim_program_t *sim_module_find(const sim_module_t *module, const char *name) {
  for (int64_t i = 0; i < module->programs.len; ++i)
    if (strcmp(module->programs.data[i]->name, name) == 0) return module->programs.data[i];
  return NULL;
}
