// cuBLASLt through dlopen.
#include "runtime/cuda/cublaslt.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/str.h"

static const char *const library_names[] = {"libcublasLt.so.13", "libcublasLt.so.12",
                                            "libcublasLt.so"};

// It keeps state of its own: it is never unmapped.
static void *open_file(const char *path, ptc_str_t *tried) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) ptc_str_printf(tried, "%s%s", tried->len ? ", " : "", path);
  return library;
}

// Tries |folder||below|/NAME for every name (|folder| NULL: the loader's own search).
static void *open_in(const char *folder, const char *below, ptc_str_t *tried) {
  void *library = NULL;
  for (size_t i = 0; i < sizeof library_names / sizeof *library_names && !library; ++i) {
    ptc_str_t path = {0};
    if (folder) ptc_str_printf(&path, "%s%s/", folder, below);
    ptc_str_append(&path, library_names[i]);
    library = open_file(path.data, tried);
    ptc_str_deinit(&path);
  }
  return library;
}

static void *open_library(ptc_str_t *tried) {
  const char *file = getenv("PTC_CUBLASLT"), *folder = getenv("PTC_CUBLASLT_DIR"),
             *home = getenv("CUDA_HOME");
  if (file) return open_file(file, tried);
  // It finds the installed driver by itself: beside another one it would work on other memory.
  if (getenv("PTC_LIBCUDA")) {
    ptc_str_append(tried, "PTC_CUBLASLT, since PTC_LIBCUDA names a driver");
    return NULL;
  }
  void *library = folder ? open_in(folder, "", tried) : NULL;
  if (!library) library = open_in(NULL, "", tried);
  if (!library && home) library = open_in(home, "/lib64", tried);
  return library ? library : open_in("/usr/local/cuda", "/lib64", tried);
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
  // ISO C knows no cast from object to function pointer; POSIX promises that the bits agree.
#define PTC_LT(type, name, params)                   \
  {                                                  \
    void *symbol = dlsym(library, "cublasLt" #name); \
    if (!symbol) absent = "cublasLt" #name;          \
    memcpy(&lt->name, &symbol, sizeof symbol);       \
  }
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
