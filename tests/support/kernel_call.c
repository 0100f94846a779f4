#include "tests/support/kernel_call.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/unit.h"

enum { GUARD_BYTES = 256, GUARD = 0xA5 };

void *kernel_compile(const char *source, const char *tag) {
  char base[512], command[4096];
  snprintf(base, sizeof base, "%s/kernel_%ld_%s", PTC_BINARY_DIR, (long)getpid(), tag);
  char c_path[560], so_path[560];
  snprintf(c_path, sizeof c_path, "%s.c", base);
  snprintf(so_path, sizeof so_path, "%s.so", base);
  FILE *file = fopen(c_path, "w");
  if (!file) return NULL;
  fputs(source, file);
  fclose(file);
  const char *flags = getenv("PTC_KERNEL_CFLAGS");
  snprintf(command, sizeof command,
           "cc %s -march=native -std=c17 -ffp-contract=off -fno-math-errno -fno-trapping-math "
           "-fopenmp-simd -Wno-psabi -fPIC -shared -o %s %s -lm",
           flags ? flags : "-O3", so_path, c_path);
  if (system(command) != 0) {
    fprintf(stderr, "%s does not compile\n", c_path);
    return NULL;
  }
  void *library = dlopen(so_path, RTLD_NOW | RTLD_LOCAL);
  if (!library) fprintf(stderr, "%s\n", dlerror());
  if (!getenv("PTC_KEEP_KERNELS")) {
    remove(c_path);
    remove(so_path);
  }
  return library;
}

int64_t kernel_param_elements(const ptc_kernel_t *kernel, int32_t param) {
  int64_t count = 1;
  for (int32_t i = 0; i < kernel->params[param].num_dims; i++)
    count *= kernel->params[param].extents[i];
  return count;
}

static int64_t bytes_of(const kernel_call_t *self, int32_t buffer) {
  if (buffer == self->kernel->num_params) return self->shape.workspace_bytes;
  return kernel_param_elements(self->kernel, buffer) *
         ptc_dtype_bytes(self->kernel->params[buffer].dtype);
}

static void *guarded(int64_t bytes) {
  const size_t size = ((size_t)bytes + GUARD_BYTES + 63) / 64 * 64;
  unsigned char *memory = aligned_alloc(64, size);
  if (!memory) ptc_oom(size);
  memset(memory, GUARD, size);
  return memory;
}

static bool is_intact(const void *memory, int64_t bytes) {
  const unsigned char *end = (const unsigned char *)memory + bytes;
  for (int i = 0; i < GUARD_BYTES; i++)
    if (end[i] != GUARD) return false;
  return true;
}

bool kernel_call_open(kernel_call_t *self, const ptc_kernel_t *kernel, const char *tag) {
  *self = (kernel_call_t){.kernel = kernel};
  ptc_diag_init(&self->diag);
  ptc_str_t source = {0};
  const ptc_c_target_t target = {.march = "native"};
  if (ptc_codegen_c(&self->diag, &self->arena, kernel, &target, &source, &self->shape) != PTC_OK) {
    ptc_diag_print(&self->diag, stderr, PTC_DIAG_TEXT, false);
    ptc_str_deinit(&source);
    return false;
  }
  self->source = source.data;
  self->library = kernel_compile(self->source, tag);
  if (!self->library) return false;
  void *symbol = dlsym(self->library, kernel->name);
  if (!symbol) return false;
  memcpy(&self->run, &symbol, sizeof symbol);
  self->buffers = ptc_xmalloc(sizeof(void *) * (size_t)(kernel->num_params + 1));
  for (int32_t i = 0; i <= kernel->num_params; i++) self->buffers[i] = guarded(bytes_of(self, i));
  self->scratch = guarded(self->shape.scratch_bytes);
  return true;
}

void kernel_call_close(kernel_call_t *self) {
  for (int32_t i = 0; self->buffers && i <= self->kernel->num_params; i++) free(self->buffers[i]);
  free(self->buffers);
  free(self->scratch);
  free(self->source);
  if (self->library) dlclose(self->library);
  ptc_arena_deinit(&self->arena);
  ptc_diag_deinit(&self->diag);
}

// --- numbers as they are stored; halves by ptc_dtype_round, which is exact, and their bits

static uint16_t half_bits(double x) {
  if (isnan(x)) return 0x7e00;
  const uint16_t sign = signbit(x) ? 0x8000 : 0;
  x = fabs(x);
  if (isinf(x)) return sign | 0x7c00;
  if (x < 0x1p-14) return sign | (uint16_t)(x * 0x1p24);
  int exponent;
  const double fraction = frexp(x, &exponent);
  return (uint16_t)(sign | ((unsigned)(exponent + 14) << 10) |
                    ((unsigned)(fraction * 2048) & 0x3ffu));
}

static double half_value(uint16_t bits) {
  const double sign = bits & 0x8000 ? -1 : 1;
  const int exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
  if (exponent == 31) return fraction ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * fraction * 0x1p-24;
  return sign * ldexp(1024 + fraction, exponent - 25);
}

void kernel_call_set(kernel_call_t *self, int32_t param, const double *data) {
  const ptc_dtype_t dtype = self->kernel->params[param].dtype;
  void *to = self->buffers[param];
  const int64_t count = kernel_param_elements(self->kernel, param);
  for (int64_t i = 0; i < count; i++) {
    const double x = ptc_dtype_round(dtype, data[i]);
    const float single = (float)x;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    switch (dtype) {
      case PTC_BOOL: ((uint8_t *)to)[i] = x != 0; break;
      case PTC_I32: ((int32_t *)to)[i] = (int32_t)x; break;
      case PTC_I64: ((int64_t *)to)[i] = (int64_t)x; break;
      case PTC_F16: ((uint16_t *)to)[i] = half_bits(x); break;
      case PTC_BF16: ((uint16_t *)to)[i] = (uint16_t)(bits >> 16); break;
      case PTC_F64: ((double *)to)[i] = x; break;
      default: ((float *)to)[i] = single; break;
    }
  }
}

void kernel_call_get(const kernel_call_t *self, int32_t param, double *out_data) {
  const ptc_dtype_t dtype = self->kernel->params[param].dtype;
  const void *from = self->buffers[param];
  const int64_t count = kernel_param_elements(self->kernel, param);
  for (int64_t i = 0; i < count; i++) {
    float single;
    switch (dtype) {
      case PTC_BOOL: out_data[i] = ((const uint8_t *)from)[i]; break;
      case PTC_I32: out_data[i] = ((const int32_t *)from)[i]; break;
      case PTC_I64: out_data[i] = (double)((const int64_t *)from)[i]; break;
      case PTC_F16: out_data[i] = half_value(((const uint16_t *)from)[i]); break;
      case PTC_BF16: {
        const uint32_t bits = (uint32_t)((const uint16_t *)from)[i] << 16;
        memcpy(&single, &bits, sizeof single);
        out_data[i] = (double)single;
        break;
      }
      case PTC_F64: out_data[i] = ((const double *)from)[i]; break;
      default: out_data[i] = (double)((const float *)from)[i]; break;
    }
  }
}

static void run_phase(kernel_call_t *self, const ptc_kernel_call_t *call, int64_t phase,
                      int64_t tiles, uint64_t *random) {
  int64_t *order = ptc_xmalloc(sizeof(int64_t) * (size_t)(tiles + 1));
  for (int64_t i = 0; i < tiles; i++) order[i] = i;
  for (int64_t i = tiles - 1; random && i > 0; i--) {
    const int64_t j = (int64_t)(unit_random(random) % (uint64_t)(i + 1)), other = order[j];
    order[j] = order[i];
    order[i] = other;
  }
  for (int64_t i = 0; i < tiles; i++) {
    // What a tile leaves in its thread's scratch is nothing to rely on.
    if (random) memset(self->scratch, 0xff, (size_t)self->shape.scratch_bytes);
    self->run(call, phase, order[i]);
  }
  free(order);
}

bool kernel_call_run(kernel_call_t *self, uint64_t *random) {
  int32_t fault = 0;
  const int64_t turns[PTC_MAX_COUNTS] = {0};
  const ptc_kernel_call_t call = {self->buffers, turns, self->scratch, &fault};
  if (random)
    memset(self->buffers[self->kernel->num_params], 0xff, (size_t)self->shape.workspace_bytes);
  int64_t phase = 0;
  for (int32_t r = 0; r < self->shape.num_runs; r++)
    for (int64_t turn = 0; turn < self->shape.runs[r].count; turn++)
      for (int32_t p = 0; p < self->shape.runs[r].num_phases; p++)
        run_phase(self, &call, phase++, self->shape.runs[r].tiles[p], random);
  bool intact = fault == 0 && is_intact(self->scratch, self->shape.scratch_bytes);
  for (int32_t i = 0; i <= self->kernel->num_params; i++)
    intact = intact && is_intact(self->buffers[i], bytes_of(self, i));
  return intact;
}
