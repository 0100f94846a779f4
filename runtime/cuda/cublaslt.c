// cuBLASLt through dlopen.
#include "runtime/cuda/cublaslt.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "ir/base/library.h"

static void *open_library(ptc_str_t *tried) {
  static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so",
                                      NULL};
  // It finds the installed driver by itself: beside another one it would work on other memory.
  if (getenv("PTC_LIBCUDA") && !getenv("PTC_CUBLASLT")) {
    ptc_str_append(tried, "PTC_CUBLASLT, since PTC_LIBCUDA names a driver");
    return NULL;
  }
  return ptc_library_find(names, "PTC_CUBLASLT", "PTC_CUBLASLT_DIR", tried);
}

ptc_cublaslt_t *ptc_cublaslt_open(ptc_diag_t *diag) {
  ptc_str_t tried = {0};
  void *library = open_library(&tried);
  if (!library)
    ptc_error(diag, (ptc_loc_t){0}, PTC_DEVICE, "cublaslt-missing",
              "cuBLASLt was not found (tried %s); install the CUDA toolkit or the Python package "
              "nvidia-cublas and name its folder in PTC_CUBLASLT_DIR",
              tried.data ? tried.data : "");
  ptc_str_deinit(&tried);
  if (!library) return NULL;
  ptc_cublaslt_t *lt = calloc(1, sizeof *lt);
  if (!lt) ptc_oom(sizeof *lt);
  lt->library = library;
  const char *absent = NULL;
#define PTC_LT(type, name, params) \
  if (!ptc_library_symbol(library, "cublasLt" #name, &lt->name)) absent = "cublasLt" #name;
#include "runtime/cuda/cublaslt_symbols.def"
#undef PTC_LT
  if (!absent) lt->version = lt->GetVersion();
  if (!absent && lt->version >= PTC_LT_LEAST_VERSION) return lt;
  ptc_error(diag, (ptc_loc_t){0}, PTC_DEVICE, "cublaslt-missing",
            "the cuBLASLt that was found %s%s; ptc needs that of CUDA 11.4 or later (PTC_CUBLASLT "
            "names its file)",
            absent ? "lacks " : "is too old", absent ? absent : "");
  ptc_cublaslt_close(lt);
  return NULL;
}

void ptc_cublaslt_close(ptc_cublaslt_t *lt) {
  if (!lt) return;
  dlclose(lt->library);
  free(lt);
}
