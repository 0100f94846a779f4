// NCCL through dlopen.
#include "runtime/nccl/library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/library.h"

ptc_nccl_config_t ptc_nccl_config(void) {
  return (ptc_nccl_config_t){.bytes = sizeof(ptc_nccl_config_t),
                             .magic = 0xcafebeef,
                             .version = 21800,
                             .cluster = INT_MIN,
                             .least_blocks = INT_MIN,
                             .most_blocks = INT_MIN,
                             .share = INT_MIN};
}

static ptc_nccl_t *missing(ptc_diag_t *diag, ptc_nccl_t *nccl, const char *what) {
  ptc_error(diag, (ptc_loc_t){0}, PTC_DEVICE, "nccl-missing",
            "the NCCL library that was found %s; ptc needs NCCL 2.14 or later (PTC_NCCL names its "
            "file)",
            what);
  ptc_nccl_close(nccl);
  return NULL;
}

ptc_nccl_t *ptc_nccl_open(ptc_diag_t *diag) {
  ptc_str_t tried = {0};
  static const char *const names[] = {"libnccl.so.2", "libnccl.so", NULL};
  void *library = ptc_library_find(names, "PTC_NCCL", "PTC_NCCL_DIR", &tried);
  if (!library)
    ptc_error(diag, (ptc_loc_t){0}, PTC_DEVICE, "nccl-missing",
              "NCCL, by which GPUs exchange data, was not found (tried %s); install it, or the "
              "Python package nvidia-nccl-cu12 or -cu13, and name its folder in PTC_NCCL_DIR",
              tried.data ? tried.data : "");
  ptc_str_deinit(&tried);
  if (!library) return NULL;
  ptc_nccl_t *nccl = calloc(1, sizeof *nccl);
  if (!nccl) ptc_oom(sizeof *nccl);
  nccl->library = library;
  const char *absent = NULL;
#define PTC_NCCL(required, type, name, params)                               \
  if (!ptc_library_symbol(library, "nccl" #name, &nccl->name) && (required)) \
    absent = "lacks nccl" #name;
#include "runtime/nccl/nccl_symbols.def"
#undef PTC_NCCL
  if (absent) return missing(diag, nccl, absent);
  int version = 0;
  if (nccl->GetVersion(&version) != PTC_NCCL_SUCCESS || version < PTC_NCCL_LEAST_VERSION)
    return missing(diag, nccl, "is too old");
  nccl->version = version;
  const char *split = getenv("PTC_NCCL_SPLIT");
  if (split && strcmp(split, "0") == 0) nccl->CommSplit = NULL;
  const char *registers = getenv("PTC_NCCL_REGISTER");
  if ((registers && strcmp(registers, "0") == 0) || !nccl->CommRegister || !nccl->CommDeregister) {
    nccl->CommRegister = NULL;
    nccl->MemAlloc = NULL;
  }
  if (!nccl->MemFree) nccl->MemAlloc = NULL;
  return nccl;
}

void ptc_nccl_close(ptc_nccl_t *nccl) {
  if (!nccl) return;
  dlclose(nccl->library);
  free(nccl);
}
