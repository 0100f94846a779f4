#include "runtime/plan_folder.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/hash.h"

char *ptc_plan_folder_source(const char *path, const char *target, const char *name) {
  ptc_str_t file = {0};
  ptc_str_printf(&file, "%s/" PTC_PLAN_KERNELS "/%s.%s", path, name,
                 ptc_plan_target_is_cuda(target) ? "cu" : "c");
  return file.data;
}

char *ptc_plan_folder_ir(const char *path, int32_t stage) {
  ptc_str_t file = {0};
  ptc_str_printf(&file, "%s/stage%" PRId32 ".ptir", path, stage);
  return file.data;
}

bool ptc_plan_folder_is(const char *path) {
  static const char *const files[] = {PTC_PLAN_JSON, PTC_PLAN_STEPS, PTC_PLAN_KERNELS};
  bool all = true;
  for (size_t i = 0; i < sizeof files / sizeof *files && all; i++) {
    ptc_str_t file = {0};
    struct stat info;
    ptc_str_printf(&file, "%s/%s", path, files[i]);
    all = stat(file.data, &info) == 0;
    ptc_str_deinit(&file);
  }
  return all;
}

static ptc_status_t read_source(ptc_diag_t *diag, const char *path, const ptc_plan_t *plan,
                                const ptc_plan_kernel_t *kernel, ptc_kernel_source_t *out_source) {
  char *file = ptc_plan_folder_source(path, plan->target, kernel->name), *text = NULL;
  size_t len = 0;
  ptc_status_t status = PTC_OK;
  char hash[PTC_HASH_CHARS + 1];
  if (ptc_read_file(file, &text, &len) != PTC_OK)
    status = ptc_error(diag, (ptc_loc_t){.file = file}, PTC_IO, "read-kernel",
                       "cannot read the kernel's source: %s", strerror(errno));
  if (status == PTC_OK) ptc_hash(text, len, hash);
  if (status == PTC_OK && (!kernel->hash || strcmp(hash, kernel->hash) != 0))
    status = ptc_error(diag, (ptc_loc_t){.file = file}, PTC_INVALID_INPUT, "kernel-hash",
                       "this is not the source that \"%s\" was written with: compile the model "
                       "again, or put the file's hash there: %s",
                       plan->json_file ? plan->json_file : PTC_PLAN_JSON, hash);
  free(file);
  *out_source = (ptc_kernel_source_t){kernel->name, text, len};
  return status;
}

static ptc_status_t read_sources(ptc_diag_t *diag, const char *path, const ptc_plan_t *plan,
                                 ptc_kernel_source_t **out_sources) {
  const size_t bytes = sizeof **out_sources * (size_t)(plan->num_kernels + 1);
  *out_sources = ptc_xmalloc(bytes);
  memset(*out_sources, 0, bytes);
  for (int32_t k = 0; k < plan->num_kernels; k++)
    PTC_TRY(read_source(diag, path, plan, &plan->kernels[k], &(*out_sources)[k]));
  return PTC_OK;
}

// Stages of one plan have one mesh.
static ptc_status_t check_stage(ptc_diag_t *diag, const ptc_plan_t *first,
                                const ptc_plan_t *stage) {
  bool same =
      first->mesh.num_axes == stage->mesh.num_axes && strcmp(first->target, stage->target) == 0;
  for (int32_t a = 0; same && a < first->mesh.num_axes; a++)
    same = strcmp(first->mesh.axes[a].name, stage->mesh.axes[a].name) == 0 &&
           first->mesh.axes[a].size == stage->mesh.axes[a].size;
  if (same) return PTC_OK;
  return ptc_error(diag, (ptc_loc_t){.file = stage->json_file}, PTC_INVALID_INPUT, "plan-mesh",
                   "the stages have not the same mesh and target");
}

static ptc_status_t read_stages(ptc_diag_t *diag, const char *path, ptc_plan_folder_t *folder) {
  PTC_TRY(ptc_plan_read(diag, path, &folder->plan));
  const size_t count = (size_t)folder->plan->num_stages;
  folder->plans = ptc_xmalloc(sizeof(ptc_plan_t *) * count);
  folder->stage_sources = ptc_xmalloc(sizeof(ptc_kernel_source_t *) * count);
  memset(folder->plans, 0, sizeof(ptc_plan_t *) * count);
  memset(folder->stage_sources, 0, sizeof(ptc_kernel_source_t *) * count);
  folder->num_stages = (int32_t)count;
  folder->plans[0] = folder->plan;
  for (int32_t s = 0; s < folder->num_stages; s++) {
    if (s > 0) PTC_TRY(ptc_plan_read_stage(diag, path, s, &folder->plans[s]));
    PTC_TRY(check_stage(diag, folder->plan, folder->plans[s]));
    PTC_TRY(read_sources(diag, path, folder->plans[s], &folder->stage_sources[s]));
  }
  folder->sources = folder->stage_sources[0];
  return PTC_OK;
}

ptc_status_t ptc_plan_folder_open(ptc_diag_t *diag, const char *path,
                                  ptc_plan_folder_t *out_folder) {
  *out_folder = (ptc_plan_folder_t){0};
  ptc_plan_folder_t folder = {0};
  const ptc_status_t status = read_stages(diag, path, &folder);
  if (status == PTC_OK)
    *out_folder = folder;
  else
    ptc_plan_folder_close(&folder);
  return status;
}

void ptc_plan_folder_close(ptc_plan_folder_t *folder) {
  for (int32_t s = 0; s < folder->num_stages; s++) {
    ptc_kernel_source_t *sources = folder->stage_sources[s];
    for (int32_t k = 0; sources && k < folder->plans[s]->num_kernels; k++)
      free((void *)(uintptr_t)sources[k].text);
    free(sources);
    ptc_plan_destroy(folder->plans[s]);
  }
  free(folder->plans);
  free(folder->stage_sources);
  *folder = (ptc_plan_folder_t){0};
}
