// Proves: a library that is loaded at run time is found where its variables say, and among Python's packages; what was tried is
// told.
#include "ir/base/library.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/unit.h"

// Any library that loads does, under a name that no machine has.
static const char *const names[] = {"libptc_nobody.so.2", "libptc_nobody.so", NULL};

typedef struct place_s {
  char root[32], folder[128], file[192];
} place_t;

static const char *any_library(void) {
  Dl_info info;
  return dladdr((void *)(uintptr_t)CU_initialize_registry, &info) ? info.dli_fname : "";
}

static void make(place_t *p, const char *below) {
  unit_make_folder(p->root);
  char command[512];
  snprintf(p->folder, sizeof p->folder, "%s%s", p->root, below);
  snprintf(p->file, sizeof p->file, "%s/%s", p->folder, names[1]);
  snprintf(command, sizeof command, "mkdir -p '%s' && cp '%s' '%s'", p->folder, any_library(),
           p->file);
  CU_ASSERT_EQUAL_FATAL(system(command), 0);
}

static void removed(const place_t *p) {
  char command[64];
  snprintf(command, sizeof command, "rm -r '%s'", p->root);
  CU_ASSERT_EQUAL(system(command), 0);
}

static bool is_found(ptc_str_t *tried) {
  void *library = ptc_library_find(names, "PTC_NOBODY", "PTC_NOBODY_DIR", tried);
  if (library) dlclose(library);
  return library != NULL;
}

static void test_variables(void) {
  place_t p;
  make(&p, "/lib");
  ptc_str_t tried = {0};
  CU_ASSERT_FALSE(is_found(&tried));
  CU_ASSERT_PTR_NOT_NULL(strstr(tried.data, "libptc_nobody.so.2, libptc_nobody.so, "));
  CU_ASSERT_PTR_NOT_NULL(strstr(tried.data, "/usr/local/cuda/lib64/libptc_nobody.so"));
  CU_ASSERT_PTR_NOT_NULL(strstr(tried.data, "nvidia-*"));
  ptc_str_deinit(&tried);
  setenv("PTC_NOBODY_DIR", p.folder, 1);
  CU_ASSERT_TRUE(is_found(&tried));
  ptc_str_deinit(&tried);
  setenv("PTC_NOBODY", "/nowhere/lib.so", 1);  // this file or none
  CU_ASSERT_FALSE(is_found(&tried));
  CU_ASSERT_STRING_EQUAL(tried.data, "/nowhere/lib.so");
  ptc_str_deinit(&tried);
  setenv("PTC_NOBODY", p.file, 1);
  unsetenv("PTC_NOBODY_DIR");
  CU_ASSERT_TRUE(is_found(&tried));
  ptc_str_deinit(&tried);
  unsetenv("PTC_NOBODY");
  removed(&p);
}

static void test_packages(void) {
  static const char *const folders[] = {"/lib/python3.11/site-packages/nvidia/cu13/lib",
                                        "/.local/lib/python3.12/site-packages/nvidia/nccl/lib"};
  static const char *const variables[] = {"VIRTUAL_ENV", "HOME"};
  for (int i = 0; i < 2; i++) {
    const char *before = getenv(variables[i]);
    char *kept = before ? strdup(before) : NULL;
    place_t p;
    make(&p, folders[i]);
    setenv(variables[i], p.root, 1);
    ptc_str_t tried = {0};
    CU_ASSERT_TRUE(is_found(&tried));
    ptc_str_deinit(&tried);
    if (kept)
      setenv(variables[i], kept, 1);
    else
      unsetenv(variables[i]);
    free(kept);
    removed(&p);
  }
}

static const unit_test_t tests[] = {{"variables", test_variables},
                                    {"Python's packages", test_packages}};

int main(void) { return unit_main("library", tests, sizeof tests / sizeof *tests); }
