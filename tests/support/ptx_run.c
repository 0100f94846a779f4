#include "tests/support/ptx_run.h"

#include <string.h>

static void load_and_launch(const ptx_run_t *run, sim_memory_t *memory, sim_module_t *module,
                            ptc_diag_t *diag, ptx_result_t *result) {
  result->loaded = sim_module_load(diag, memory, "test.ptx", run->text, module) == PTC_OK;
  if (!result->loaded) {
    if (diag->num_items) ptc_str_append(&result->report, diag->items[0].message);
    return;
  }
  const uint64_t address = sim_memory_alloc(memory, (uint64_t)run->out_bytes);
  memcpy((void *)(uintptr_t)address, run->out, (size_t)run->out_bytes);
  if (!run->out_invalid)
    sim_memory_wrote(sim_memory_find(memory, address, 0), address, (uint64_t)run->out_bytes);
  const sim_launch_t launch = {.program = sim_module_find(module, "test"),
                               .memory = memory,
                               .grid = {run->blocks ? run->blocks : 1, 1, 1},
                               .block = {run->threads ? run->threads : SIM_LANES, 1, 1},
                               .dynamic_bytes = run->dynamic_bytes,
                               .params = &address,
                               .options = {run->checks, run->counters, 2}};
  sim_pool_t *pool = sim_pool_create(2);
  sim_result_t outcome;
  sim_launch(pool, &launch, &outcome);
  sim_pool_destroy(pool);
  result->fault = outcome.fault;
  result->counters = outcome.counters;
  if (outcome.report.data) ptc_str_append(&result->report, outcome.report.data);
  ptc_str_deinit(&outcome.report);
  memcpy(run->out, (void *)(uintptr_t)address, (size_t)run->out_bytes);
}

ptx_result_t ptx_run(const ptx_run_t *run) {
  ptx_result_t result = {0};
  sim_memory_t memory = {.follow = run->checks};
  sim_module_t module;
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  load_and_launch(run, &memory, &module, &diag, &result);
  sim_module_unload(&memory, &module);
  sim_memory_deinit(&memory);
  ptc_diag_deinit(&diag);
  return result;
}

void ptx_result_deinit(ptx_result_t *result) { ptc_str_deinit(&result->report); }

void ptx_wrap(ptc_str_t *text, const char *declarations, const char *body) {
  ptc_str_printf(text,
                 ".version 9.0\n.target sm_80\n.address_size 64\n"
                 ".visible .entry test(.param .u64 out)\n{\n"
                 ".reg .pred %%p<16>;\n.reg .b16 %%h<32>;\n.reg .b32 %%w<64>;\n.reg .b64 %%d<64>;\n"
                 "%s"
                 "ld.param.u64 %%d63, [out];\nmov.u32 %%w63, %%tid.x;\n%s\nret;\n}\n",
                 declarations, body);
}
