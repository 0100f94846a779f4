#include "ir/base/library.h"

#include <dlfcn.h>
#include <stdlib.h>

static void *open_file(const char *path, ptc_str_t *tried) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) ptc_str_printf(tried, "%s%s", tried->len ? ", " : "", path);
  return library;
}

// Tries |folder||below|NAME for every name.
static void *open_in(const char *folder, const char *below, const char *const *names,
                     ptc_str_t *tried) {
  void *library = NULL;
  for (; *names && !library; names++) {
    ptc_str_t path = {0};
    ptc_str_printf(&path, "%s%s%s", folder, below, *names);
    library = open_file(path.data, tried);
    ptc_str_deinit(&path);
  }
  return library;
}

void *ptc_library_find(const char *const *names, const char *file, const char *folder,
                       ptc_str_t *tried) {
  const char *named = getenv(file), *where = getenv(folder), *home = getenv("CUDA_HOME");
  if (named) return open_file(named, tried);
  void *library = where ? open_in(where, "/", names, tried) : NULL;
  if (!library) library = open_in("", "", names, tried);
  if (!library && home) library = open_in(home, "/lib64/", names, tried);
  return library ? library : open_in("/usr/local/cuda", "/lib64/", names, tried);
}
