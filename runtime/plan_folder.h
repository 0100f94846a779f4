// A plan folder, read for a run: the plan, and the sources of its kernels as the plan's hashes vouch for them.
#ifndef PTC_RUNTIME_PLAN_FOLDER_H_
#define PTC_RUNTIME_PLAN_FOLDER_H_

#include "ir/plan.h"
#include "runtime/cpu/kernel_objects.h"

#define PTC_PLAN_KERNELS "kernels"

typedef struct ptc_plan_folder_s {
  ptc_plan_t *plan;
  ptc_kernel_source_t *sources;  // one per kernel
  // Of a pipeline: all stages, the first of which is the above; else that alone.
  int32_t num_stages;
  ptc_plan_t **plans;
  ptc_kernel_source_t **stage_sources;
} ptc_plan_folder_t;

// Reads the plan and all kernels. Diagnostics: those of ptc_plan_read; "read-kernel", "kernel-hash" (a source
// is not the one that the plan was written with). On an error |out_folder| is empty.
ptc_status_t ptc_plan_folder_open(ptc_diag_t *diag, const char *path,
                                  ptc_plan_folder_t *out_folder);
void ptc_plan_folder_close(ptc_plan_folder_t *folder);

// Whether |path| is a folder that ptc wrote a plan into.
bool ptc_plan_folder_is(const char *path);
// Where the source of kernel |name| of a plan for |target| lies in the folder |path|. malloc'ed.
char *ptc_plan_folder_source(const char *path, const char *target, const char *name);

// Where the IR of stage |stage| (0 without a pipeline) lies. malloc'ed.
char *ptc_plan_folder_ir(const char *path, int32_t stage);

#endif  // PTC_RUNTIME_PLAN_FOLDER_H_
