#include "runtime/plan_folder.h"

#include <errno.h>
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

ptc_status_t ptc_plan_folder_open(ptc_diag_t *diag, const char *path,
                                  ptc_plan_folder_t *out_folder) {
  *out_folder = (ptc_plan_folder_t){0};
  ptc_plan_folder_t folder = {0};
  PTC_TRY(ptc_plan_read(diag, path, &folder.plan));
  const size_t num_kernels = (size_t)folder.plan->num_kernels;
  folder.sources = ptc_xmalloc(sizeof *folder.sources * (num_kernels + 1));
  memset(folder.sources, 0, sizeof *folder.sources * (num_kernels + 1));
  ptc_status_t status = PTC_OK;
  for (size_t k = 0; k < num_kernels && status == PTC_OK; k++)
    status = read_source(diag, path, folder.plan, &folder.plan->kernels[k], &folder.sources[k]);
  if (status == PTC_OK)
    *out_folder = folder;
  else
    ptc_plan_folder_close(&folder);
  return status;
}

void ptc_plan_folder_close(ptc_plan_folder_t *folder) {
  for (int32_t k = 0; folder->sources && k < folder->plan->num_kernels; k++)
    free((void *)(uintptr_t)folder->sources[k].text);
  free(folder->sources);
  ptc_plan_destroy(folder->plan);
  *folder = (ptc_plan_folder_t){0};
}
