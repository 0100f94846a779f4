#include "tests/support/generated.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/nvrtc.h"
#include "runtime/cell.h"
#include "runtime/gpusim/gpusim.h"

// Compiles for the GPU simulator and starts it as the runtime would a GPU.
static ptc_status_t open_gpusim(generated_t *generated, ptc_diag_t *diag,
                                const ptc_kernel_objects_options_t *options) {
  const ptc_plan_t *plan = generated->emitted.plan;
  PTC_TRY(ptc_cuda_images_create(diag, generated->emitted.sources, plan->num_kernels, options,
                                 &generated->images));
  ptc_device_t *device;
  PTC_TRY(ptc_cuda_device_create(diag, plan, generated->images.images, 0, &device));
  return ptc_executor_create_on(diag, plan, device, &generated->executor);
}

bool generated_has_nvrtc(void) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_nvrtc_t *nvrtc = ptc_nvrtc_open(&diag);
  ptc_nvrtc_close(nvrtc);
  ptc_diag_deinit(&diag);
  if (!nvrtc) printf("skipped: no NVRTC here\n");
  return nvrtc != NULL;
}

bool generated_open_gpusim(generated_t *generated, ptc_module_t *module) {
  *generated = (generated_t){.module = module};
  setenv("PTC_LIBCUDA", PTC_BINARY_DIR "/libptc_gpusim_cuda.so", 1);
  setenv("PTC_CUBLASLT", PTC_BINARY_DIR "/libptc_gpusim_cublaslt.so", 0);
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, NULL);
  ptc_status_t status = ptc_emit(&ctx, module, "compute_80", &generated->emitted);
  ptc_pass_ctx_deinit(&ctx);
  const ptc_kernel_objects_options_t options = {
      .target = "compute_80",
      .cache_folder = getenv("PTC_CACHE") ? NULL : PTC_BINARY_DIR "/kernel-cache"};
  if (status == PTC_OK) status = open_gpusim(generated, module->diag, &options);
  return status == PTC_OK;
}

sim_counters_t generated_counters(void) {
  sim_counters_t all = {0}, one;
  const char *name;
  void *library = dlopen(PTC_BINARY_DIR "/libptc_gpusim_cuda.so", RTLD_NOW | RTLD_LOCAL);
  void *symbol = library ? dlsym(library, PTC_GPUSIM_COUNTERS) : NULL;
  ptc_gpusim_counters_fn_t counters;
  memcpy(&counters, &symbol, sizeof symbol);
  for (int32_t i = 0; symbol && counters(i, &name, &one); i++) sim_counters_add(&all, &one);
  return all;
}

static bool open_it(generated_t *generated, ptc_module_t *module, const ptc_stages_t *stages,
                    int32_t stage, int32_t num_threads) {
  *generated = (generated_t){.module = module};
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, NULL);
  ptc_status_t status = stages ? ptc_emit_stage(&ctx, stages, stage, "cpu", &generated->emitted)
                               : ptc_emit(&ctx, module, "cpu", &generated->emitted);
  ptc_pass_ctx_deinit(&ctx);
  const ptc_kernel_objects_options_t options = {
      .cache_folder = getenv("PTC_CACHE") ? NULL : PTC_BINARY_DIR "/kernel-cache"};
  if (status == PTC_OK)
    status = ptc_kernel_objects_create(module->diag, generated->emitted.sources,
                                       generated->emitted.plan->num_kernels, &options,
                                       &generated->objects);
  if (status == PTC_OK)
    status = ptc_executor_create(module->diag, generated->emitted.plan, generated->objects,
                                 num_threads, &generated->executor);
  return status == PTC_OK;
}

bool generated_open(generated_t *generated, ptc_module_t *module, int32_t num_threads) {
  return open_it(generated, module, NULL, 0, num_threads);
}

bool generated_open_stage(generated_t *generated, const ptc_stages_t *stages, int32_t stage,
                          int32_t num_threads) {
  return open_it(generated, stages->modules[stage], stages, stage, num_threads);
}

void generated_close(generated_t *generated) {
  ptc_executor_destroy(generated->executor);
  ptc_kernel_objects_destroy(generated->objects);
  ptc_cuda_images_deinit(&generated->images);
  ptc_emitted_deinit(&generated->emitted);
  *generated = (generated_t){0};
}

// --- data

// The plan's global of |global|: several may share a path, with turns of their own.
static const ptc_plan_global_t *find_global(const ptc_plan_t *plan, const ptc_global_t *global) {
  for (int32_t g = 0; g < plan->num_globals; g++) {
    const ptc_plan_global_t *entry = &plan->globals[g];
    bool same = strcmp(entry->path, global->path) == 0;
    for (int32_t c = 0; same && c < entry->num_counts; c++)
      same = entry->first[c] == global->turn_first[c] && entry->step[c] == global->turn_step[c];
    if (same) return entry;
  }
  return NULL;
}

static int64_t num_elements(const ptc_buffer_t *buffer) {
  int64_t count = 1;
  for (int32_t d = 0; d < buffer->num_dims; d++) count *= buffer->extents[d];
  return count;
}

void generated_load(generated_t *generated, ptc_interp_t *interp) {
  const ptc_plan_t *plan = generated->emitted.plan;
  for (int64_t g = 0; g < generated->module->num_globals; g++) {
    const ptc_global_t *global = generated->module->globals[g];
    const ptc_plan_global_t *entry = find_global(plan, global);
    if (!entry) continue;
    const ptc_tensor_t *tensor = ptc_interp_global(interp, global);
    const ptc_dtype_t dtype = plan->buffers[entry->buffer].dtype;
    for (int64_t r = 0; r < tensor->num_instances; r++) {
      char *to = ptc_executor_global(generated->executor, entry, r);
      for (int64_t i = 0; i < tensor->num_elements; i++)
        ptc_cell_put(dtype, tensor->data[r * tensor->num_elements + i],
                     to + i * ptc_dtype_bytes(dtype));
    }
  }
}

bool generated_run(generated_t *generated, const char *name) {
  const ptc_task_t *task = ptc_plan_find_task(generated->emitted.plan, name);
  return task && ptc_executor_run(generated->module->diag, generated->executor, task) == PTC_OK;
}

// Where result |index| of |func| lies: a buffer and its first instance.
static bool find_result(const generated_t *generated, const ptc_func_t *func, int32_t index,
                        int32_t *out_buffer, int64_t *out_first) {
  const ptc_plan_t *plan = generated->emitted.plan;
  const ptc_result_t *result = &func->results[index];
  if (result->kind == PTC_RESULT_STATE) {
    const ptc_plan_global_t *global = find_global(plan, result->global);
    if (!global) return false;
    *out_buffer = global->buffer;
    *out_first = global->first_instance;
    return true;
  }
  const ptc_task_t *task = ptc_plan_find_task(plan, func->name);
  const bool grad = result->kind == PTC_RESULT_GRAD;
  // Gradients of globals that share a path follow each other as in the return.
  int32_t skip = 0;
  for (int32_t i = 0; grad && i < index; i++)
    skip += func->results[i].kind == PTC_RESULT_GRAD &&
            strcmp(func->results[i].global->path, result->global->path) == 0;
  for (int32_t r = 0; task && r < task->num_results; r++) {
    const ptc_plan_result_t *entry = &task->results[r];
    if (strcmp(entry->role, grad ? "grad" : result->role) != 0 ||
        strcmp(entry->name, grad ? result->global->path : result->name) != 0 || skip-- > 0)
      continue;
    *out_buffer = entry->buffer;
    *out_first = entry->first_instance;
    return true;
  }
  return false;
}

double *generated_result(const generated_t *generated, const ptc_func_t *func, int32_t index) {
  int32_t at;
  int64_t first;
  if (!find_result(generated, func, index, &at, &first)) {
    fprintf(stderr, "the plan lacks result %d of @%s\n", (int)index, func->name);
    return NULL;
  }
  const ptc_buffer_t *buffer = &generated->emitted.plan->buffers[at];
  const ptc_op_t *end = ptc_func_return(func);
  const int64_t instances = ptc_type_num_instances(end->operands[index]->type),
                elements = num_elements(buffer);
  double *data = ptc_xmalloc(sizeof(double) * (size_t)(instances * elements + 1));
  const ptc_cell_t cell = ptc_cell_of_dtype(buffer->dtype);
  for (int64_t r = 0; r < instances; r++) {
    const char *from = ptc_executor_buffer(generated->executor, at, first + r);
    for (int64_t i = 0; i < elements; i++)
      data[r * elements + i] = ptc_cell_get(cell, from + i * ptc_cell_bytes(cell));
  }
  return data;
}

// --- comparing

static bool is_near(double got, double want, double bound) {
  if (isnan(want)) return isnan(got);
  if (isinf(want) || isinf(got)) return got == want;
  return fabs(got - want) <= bound;
}

static bool compare_result(const double *got, const ptc_tensor_t *want, generated_bound_t bound,
                           const char *name, ptc_str_t *out_report) {
  const int64_t count = want->num_elements * want->num_instances;
  double largest = 0, worst = 0;
  int64_t worst_at = -1, num_wrong = 0;
  for (int64_t i = 0; i < count; i++)
    if (isfinite(want->data[i])) largest = fmax(largest, fabs(want->data[i]));
  const double allowed = bound.absolute + bound.relative * largest;
  for (int64_t i = 0; i < count; i++) {
    if (is_near(got[i], want->data[i], allowed)) continue;
    const double error = fabs(got[i] - want->data[i]);
    if (worst_at < 0 || error > worst) {
      worst = error;
      worst_at = i;
    }
    num_wrong++;
  }
  if (worst_at < 0) return true;
  ptc_str_printf(out_report,
                 "  %s: %" PRId64 " of %" PRId64 " elements are wrong; element %" PRId64
                 " is %.9g, not %.9g (largest %.3g, allowed %.3g)\n",
                 name, num_wrong, count, worst_at, got[worst_at], want->data[worst_at], largest,
                 allowed);
  return false;
}

bool generated_compare(generated_t *generated, ptc_interp_t *interp, const char *name,
                       generated_bound_t bound, ptc_str_t *out_report) {
  generated_load(generated, interp);
  const ptc_func_t *func = ptc_module_find_func(generated->module, name);
  if (!func || ptc_interp_run(interp, name) != PTC_OK) {
    ptc_str_printf(out_report, "  the interpreter does not run @%s\n", name);
    return false;
  }
  if (!generated_run(generated, name)) {
    ptc_str_printf(out_report, "  the executor does not run @%s\n", name);
    return false;
  }
  bool ok = true;
  for (int32_t i = 0; i < func->num_results; i++) {
    double *got = generated_result(generated, func, i);
    const ptc_result_t *result = &func->results[i];
    const char *what = result->kind == PTC_RESULT_VALUE ? result->name : result->global->path;
    generated_bound_t own = bound;
    if (result->kind == PTC_RESULT_STATE) own.absolute += bound.state;
    ok &= got && compare_result(got, ptc_interp_result(interp, i), own, what, out_report);
    free(got);
  }
  return ok;
}
