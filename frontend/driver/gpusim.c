#include "frontend/driver/gpusim.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/base/str.h"
#include "runtime/gpusim/gpusim.h"

static const char library_name[] = "libptc_gpusim_cuda.so", nccl_name[] = "libptc_gpusim_nccl.so",
                  cublaslt_name[] = "libptc_gpusim_cublaslt.so";

// The other simulated libraries lie beside the simulated driver.
static void name_library(const char *variable, const char *driver, const char *name) {
  ptc_str_t path = {0};
  const char *slash = strrchr(driver, '/');
  if (slash) ptc_str_append_n(&path, driver, (size_t)(slash - driver) + 1);
  ptc_str_append(&path, name);
  setenv(variable, path.data, 1);
  ptc_str_deinit(&path);
}

static void name_libraries(const char *path) {
  setenv("PTC_LIBCUDA", path, 1);
  name_library("PTC_NCCL", path, nccl_name);
  name_library("PTC_CUBLASLT", path, cublaslt_name);
}

// It stays mapped: its counters are read when the runtime has closed it.
static void *open_at(const char *path, ptc_str_t *tried) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library)
    name_libraries(path);
  else
    ptc_str_printf(tried, "%s%s", tried->len ? ", " : "", path);
  return library;
}

static void *open_library(ptc_str_t *tried) {
  const char *named = getenv("PTC_GPUSIM");
  if (named) return open_at(named, tried);
  char program[4096];
  const ssize_t len = readlink("/proc/self/exe", program, sizeof program - 1);
  if (len <= 0) return open_at(library_name, tried);
  program[len] = '\0';
  *strrchr(program, '/') = '\0';
  static const char *const places[] = {".", "..", "../lib", "../lib64", "../lib/x86_64-linux-gnu"};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    ptc_str_t path = {0};
    ptc_str_printf(&path, "%s/%s/%s", program, places[i], library_name);
    void *library = open_at(path.data, tried);
    ptc_str_deinit(&path);
    if (library) return library;
  }
  return open_at(library_name, tried);
}

// ISO C knows no cast from object to function pointer; POSIX promises that the bits agree.
static bool find_symbol(void *library, const char *name, void *out_function) {
  void *symbol = dlsym(library, name);
  memcpy(out_function, &symbol, sizeof symbol);
  return symbol != NULL;
}

ptc_status_t ptc_gpusim_prepare(ptc_diag_t *diag, const ptc_plan_t *plan, bool checks,
                                bool counters) {
  if (!ptc_plan_target_is_cuda(plan->target))
    return ptc_error(
        diag, (ptc_loc_t){.file = plan->json_file}, PTC_INVALID_INPUT, "gpusim-target",
        "the plan is for \"%s\": the simulator of GPUs runs plans that were compiled with "
        "--target " PTC_GPUSIM_TARGET " or another GPU",
        plan->target);
  ptc_str_t tried = {0};
  void *library = open_library(&tried);
  ptc_gpusim_configure_fn_t configure = NULL;
  ptc_status_t status = PTC_OK;
  if (!library || !find_symbol(library, PTC_GPUSIM_CONFIGURE, &configure))
    status = ptc_error(
        diag, (ptc_loc_t){0}, PTC_DEVICE, "gpusim-missing",
        "the simulator of GPUs cannot be loaded (tried %s); PTC_GPUSIM names its file, %s",
        tried.data ? tried.data : "PTC_GPUSIM", library_name);
  else
    configure(checks, counters, (int32_t)ptc_plan_world(plan));
  ptc_str_deinit(&tried);
  return status;
}

static double share(int64_t part, int64_t whole) {
  return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

static void print_kernel(FILE *out, const char *name, const sim_counters_t *c) {
  int64_t insts = 0;
  for (int i = 0; i < SIM_NUM_CLASSES; i++) insts += c->thread_insts[i];
  fprintf(out,
          "%8" PRId64 " %10.3f %9.3f %9.3f %10" PRId64 " %10" PRId64 " %10" PRId64 " %8" PRId64
          " %8" PRId64 "  %s (",
          c->launches, (double)insts * 1e-6, (double)c->flops * 1e-6, (double)c->mma_flops * 1e-6,
          c->global_sectors, c->least_sectors, c->moved_sectors, c->shared_conflicts, c->barriers,
          name);
  static const char *const names[] = {
#define SIM_CLASS(id, text) text,
#include "runtime/gpusim/classes.def"
#undef SIM_CLASS
  };
  const char *comma = "";
  for (int i = 0; i < SIM_NUM_CLASSES; i++)
    if (c->thread_insts[i]) {
      fprintf(out, "%s%s %.1f%%", comma, names[i], share(c->thread_insts[i], insts));
      comma = ", ";
    }
  fputs(")\n", out);
}

void ptc_gpusim_print(FILE *out) {
  const char *path = getenv("PTC_LIBCUDA");
  void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD) : NULL;
  ptc_gpusim_counters_fn_t counters = NULL;
  if (!library) return;
  if (find_symbol(library, PTC_GPUSIM_COUNTERS, &counters)) {
    const char *name;
    sim_counters_t c, all = {0};
    fprintf(out, "%8s %10s %9s %9s %10s %10s %10s %8s %8s  kernel\n", "launches", "M insts",
            "M FLOP", "M mma", "sectors", "least", "moved", "bank", "barriers");
    for (int32_t i = 0; counters(i, &name, &c); i++) {
      print_kernel(out, name, &c);
      const int64_t *from = (const int64_t *)&c;
      for (size_t k = 0; k < sizeof c / sizeof *from; k++) ((int64_t *)&all)[k] += from[k];
    }
    print_kernel(out, "all kernels", &all);
  }
  dlclose(library);
}
