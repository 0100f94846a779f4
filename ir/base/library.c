#include "ir/base/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

// Where NVIDIA's Python packages lie: below an environment variable's folder (NULL: from the root).
static const struct {
  const char *variable, *pattern;
} packages[] = {
    {"VIRTUAL_ENV", "/lib/python3*/site-packages/nvidia/*/lib/"},
    {"HOME", "/.local/lib/python3*/site-packages/nvidia/*/lib/"},
    {NULL, "/usr/local/lib/python3*/dist-packages/nvidia/*/lib/"},
    {NULL, "/usr/local/lib/python3*/site-packages/nvidia/*/lib/"},
    {NULL, "/usr/lib/python3*/dist-packages/nvidia/*/lib/"},
};

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

// The same for every path that matches; what does not exist is not listed.
static void *open_matching(const char *folder, const char *pattern, const char *const *names,
                           ptc_str_t *tried) {
  void *library = NULL;
  for (; *names && !library; names++) {
    ptc_str_t path = {0};
    ptc_str_printf(&path, "%s%s%s", folder, pattern, *names);
    glob_t found;
    if (glob(path.data, 0, NULL, &found) == 0) {
      for (size_t i = 0; i < found.gl_pathc && !library; i++)
        library = open_file(found.gl_pathv[i], tried);
      globfree(&found);
    }
    ptc_str_deinit(&path);
  }
  return library;
}

static void *open_package(const char *const *names, ptc_str_t *tried) {
  void *library = NULL;
  for (size_t i = 0; i < sizeof packages / sizeof *packages && !library; i++) {
    const char *folder = packages[i].variable ? getenv(packages[i].variable) : "";
    if (folder) library = open_matching(folder, packages[i].pattern, names, tried);
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
  if (!library) library = open_in("/usr/local/cuda", "/lib64/", names, tried);
  if (library) return library;
  library = open_package(names, tried);
  if (!library) ptc_str_append(tried, ", Python's packages nvidia-*");
  return library;
}

bool ptc_library_symbol(void *library, const char *name, void *out_function) {
  // ISO C knows no cast from object to function pointer; POSIX promises that the bits agree.
  void *symbol = dlsym(library, name);
  memcpy(out_function, &symbol, sizeof symbol);
  return symbol != NULL;
}
