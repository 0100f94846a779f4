// NVRTC through dlopen.
#include "codegen/nvrtc.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/library.h"

struct ptc_nvrtc_s {
  void *library;
  int32_t version;
#define PTC_NVRTC(name, params) int(*name) params;
#include "codegen/nvrtc_symbols.def"
#undef PTC_NVRTC
};

ptc_nvrtc_t *ptc_nvrtc_open(ptc_diag_t *diag) {
  ptc_str_t tried = {0};
  static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL};
  void *library = ptc_library_find(names, "PTC_NVRTC", "PTC_NVRTC_DIR", &tried);
  if (!library) {
    ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "nvrtc-missing",
              "NVRTC, which compiles the CUDA kernels, was not found (tried %s); install the CUDA "
              "toolkit or "
              "the Python package nvidia-cuda-nvrtc and name its folder in PTC_NVRTC_DIR",
              tried.data ? tried.data : "");
    ptc_str_deinit(&tried);
    return NULL;
  }
  ptc_str_deinit(&tried);
  ptc_nvrtc_t *nvrtc = calloc(1, sizeof *nvrtc);
  if (!nvrtc) ptc_oom(sizeof *nvrtc);
  nvrtc->library = library;
  const char *missing = NULL;
#define PTC_NVRTC(name, params) \
  if (!ptc_library_symbol(library, "nvrtc" #name, &nvrtc->name)) missing = "nvrtc" #name;
#include "codegen/nvrtc_symbols.def"
#undef PTC_NVRTC
  int major = 0, minor = 0;
  if (!missing && nvrtc->Version(&major, &minor) != 0) missing = "nvrtcVersion";
  if (missing) {
    ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "nvrtc-missing",
              "the NVRTC library that was found lacks \"%s\"; install CUDA 12 or later", missing);
    ptc_nvrtc_close(nvrtc);
    return NULL;
  }
  nvrtc->version = major * 1000 + minor * 10;
  return nvrtc;
}

void ptc_nvrtc_close(ptc_nvrtc_t *nvrtc) {
  if (!nvrtc) return;
  dlclose(nvrtc->library);
  free(nvrtc);
}

int32_t ptc_nvrtc_version(const ptc_nvrtc_t *nvrtc) { return nvrtc->version; }

// The log with its trailing white space cut; empty if there is none.
static void read_log(const ptc_nvrtc_t *nvrtc, void *program, ptc_str_t *out) {
  size_t bytes = 0;
  if (nvrtc->GetProgramLogSize(program, &bytes) != 0 || bytes <= 1) return;
  char *log = ptc_xmalloc(bytes + 1);
  if (nvrtc->GetProgramLog(program, log) == 0) {
    log[bytes] = '\0';
    size_t len = strlen(log);
    while (len && (log[len - 1] == '\n' || log[len - 1] == ' ')) log[--len] = '\0';
    ptc_str_append(out, log);
  }
  free(log);
}

// The number that stands before |unit| in |line|, or 0.
static int64_t number_before(const char *line, const char *unit) {
  const char *end = strstr(line, unit);
  if (!end) return 0;
  while (end > line && end[-1] >= '0' && end[-1] <= '9') --end;
  return strtoll(end, NULL, 10);
}

// A line is of functions that are not inlined, too: spills add up, registers are told of the kernel as a whole.
static void read_line(const char *line, ptc_cuda_resources_t *resources) {
  const int64_t stack = number_before(line, " bytes stack frame"),
                cumulative = number_before(line, " bytes cumulative stack size");
  if (stack > resources->stack_bytes) resources->stack_bytes = stack;
  if (cumulative > resources->stack_bytes) resources->stack_bytes = cumulative;
  resources->spill_store_bytes += number_before(line, " bytes spill stores");
  resources->spill_load_bytes += number_before(line, " bytes spill loads");
  if (!strstr(line, " registers")) return;
  resources->known = true;
  resources->registers = number_before(line, " registers");
  resources->shared_bytes = number_before(line, " bytes smem");
}

void ptc_nvrtc_take_resources(ptc_str_t *log, ptc_cuda_resources_t *out_resources) {
  *out_resources = (ptc_cuda_resources_t){0};
  ptc_str_t rest = {0};
  for (const char *line = log->data; line && *line;) {
    const size_t len = strcspn(line, "\n");
    const char *next = line + len + (line[len] == '\n');
    ptc_str_t text = {0};
    ptc_str_append_n(&text, line, len);
    // "ptxas info    : Used ...", "ptxas         .     8 bytes stack frame, ..."
    const char *what = text.data ? text.data : "";
    const bool told = strncmp(what, "ptxas info ", 11) == 0 ||
                      (strncmp(what, "ptxas ", 6) == 0 && what[6 + strspn(what + 6, " ")] == '.');
    if (told)
      read_line(what, out_resources);
    else if (len || rest.len)
      ptc_str_append_n(&rest, line, (size_t)(next - line));
    ptc_str_deinit(&text);
    line = next;
  }
  ptc_str_deinit(log);
  *log = rest;
  while (log->len && log->data[log->len - 1] == '\n') log->data[--log->len] = '\0';
}

ptc_status_t ptc_nvrtc_compile(const ptc_nvrtc_t *nvrtc, ptc_diag_t *diag, const char *name,
                               const char *source, const ptc_nvrtc_options_t *options,
                               ptc_str_t *out, ptc_cuda_resources_t *out_resources) {
  ptc_status_t status = PTC_OK;
  const char *const target = options->target;
  const bool ptx = strncmp(target, "compute_", 8) == 0;
  ptc_str_t arch = {0}, registers = {0}, log = {0};
  ptc_str_printf(&arch, "--gpu-architecture=%s", target);
  ptc_str_printf(&registers, "--maxrregcount=%d", (int)options->max_registers);
  const char *words[12] = {arch.data,         "--std=c++17",     "--fmad=false",
                           "--device-int128", "-default-device", "-diag-suppress=177,550,1046",
                           "-lineinfo"};
  int num_words = 7;
  if (!ptx) words[num_words++] = "--ptxas-options=-v";
  if (options->quick) words[num_words++] = "--Ofast-compile=min";
  if (options->max_registers) words[num_words++] = registers.data;
  ptc_cuda_resources_t resources = {0};
  void *program = NULL;
  int failed = nvrtc->CreateProgram(&program, source, name, 0, NULL, NULL);
  if (!failed) {
    failed = nvrtc->CompileProgram(program, num_words, words);
    read_log(nvrtc, program, &log);
    if (!failed) ptc_nvrtc_take_resources(&log, &resources);
  }
  size_t bytes = 0;
  if (!failed && !log.len)
    failed = ptx ? nvrtc->GetPTXSize(program, &bytes) : nvrtc->GetCUBINSize(program, &bytes);
  if (failed || log.len) {
    status = ptc_error(diag, (ptc_loc_t){0}, PTC_INTERNAL, "nvrtc-failed",
                       "NVRTC does not compile \"%s\" for %s (code %d): %s", name, target, failed,
                       log.len ? log.data : "no message");
  } else {
    char *code = ptc_xmalloc(bytes + 1);
    failed = ptx ? nvrtc->GetPTX(program, code) : nvrtc->GetCUBIN(program, code);
    if (!failed) ptc_str_append_n(out, code, ptx && bytes && !code[bytes - 1] ? bytes - 1 : bytes);
    free(code);
    if (failed)
      status = ptc_error(diag, (ptc_loc_t){0}, PTC_INTERNAL, "nvrtc-failed",
                         "NVRTC hands out no code for \"%s\" (code %d)", name, failed);
  }
  if (out_resources) *out_resources = resources;
  if (program) nvrtc->DestroyProgram(&program);
  ptc_str_deinit(&arch);
  ptc_str_deinit(&registers);
  ptc_str_deinit(&log);
  return status;
}
