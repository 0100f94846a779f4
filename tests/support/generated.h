// Functions of modules as generated C: emitted, compiled, executed in this process, and compared with the
// typed interpreter.
#ifndef PTC_TESTS_SUPPORT_GENERATED_H_
#define PTC_TESTS_SUPPORT_GENERATED_H_

#include "frontend/driver/cuda_images.h"
#include "frontend/driver/emit.h"
#include "ir/interp.h"
#include "runtime/executor.h"
#include "runtime/gpusim/launch.h"

typedef struct generated_s {
  ptc_module_t *module;  // not owned
  ptc_emitted_t emitted;
  ptc_kernel_objects_t *objects;
  ptc_cuda_images_t images;
  ptc_executor_t *executor;
} generated_t;

// Lowers |module| (typed, verified, after whatever passes; `fuse` runs here) to a plan in memory, compiles
// its kernels (cached in the build folder) and starts |num_threads|. False if that fails; the module's
// diagnostics say why.
bool generated_open(generated_t *generated, ptc_module_t *module, int32_t num_threads);
// Whether CUDA can be compiled here; says so if not.
bool generated_has_nvrtc(void);
// The same as CUDA, by NVRTC for compute_80, on the simulator of GPUs (runtime/gpusim). PTC_GPUSIM_CHECKS=1
// turns its checks on.
bool generated_open_gpusim(generated_t *generated, ptc_module_t *module);
// The same of one stage of a pipeline (after ptc_stages_add_axis).
bool generated_open_stage(generated_t *generated, const ptc_stages_t *stages, int32_t stage,
                          int32_t num_threads);
void generated_close(generated_t *generated);

// The simulator's counters, of all kernels so far together, after PTC_GPUSIM_COUNTERS=1. Between two calls its library
// stays loaded, and with it the counters.
sim_counters_t generated_counters(void);

// Copies all globals of |interp| to the executor, rounded to their dtypes.
void generated_load(generated_t *generated, ptc_interp_t *interp);
// Runs function |name|; false on a fault.
bool generated_run(generated_t *generated, const char *name);
// Result |index| of |func|'s return after generated_run, as doubles, all instances; the caller frees it. NULL,
// with a line on stderr, if the plan has no such result.
double *generated_result(const generated_t *generated, const ptc_func_t *func, int32_t index);

// How far results may be from the interpreter's: |absolute| + |relative| * the largest finite element of
// the result, per element; inf and NaN must be the same. New states of parameters: |state| more, since an
// optimizer turns the last bit of a gradient near zero into a whole step.
typedef struct generated_bound_s {
  double relative, absolute, state;
} generated_bound_t;

// Loads the globals of |interp| (typed), runs |name| both ways, and compares all results. False, with what is
// wrong in |out_report|, if one differs, or one of the two fails.
bool generated_compare(generated_t *generated, ptc_interp_t *interp, const char *name,
                       generated_bound_t bound, ptc_str_t *out_report);

#endif  // PTC_TESTS_SUPPORT_GENERATED_H_
