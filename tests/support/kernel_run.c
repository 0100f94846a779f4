#include "tests/support/kernel_run.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_KERNELS = 4096 };

typedef struct entry_s {
  const ptc_kernel_t *kernel;
  ptc_str_t source;
  ptc_kernel_shape_t shape;
  ptc_kernel_fn_t fn;
} entry_t;

struct kernel_set_s {
  ptc_diag_t *diag;
  ptc_arena_t arena;
  int32_t count;
  entry_t *entries;
  void *object;
};

kernel_set_t *kernel_set_create(ptc_diag_t *diag) {
  kernel_set_t *set = calloc(1, sizeof *set);
  set->diag = diag;
  set->entries = calloc(MAX_KERNELS, sizeof *set->entries);
  return set;
}

void kernel_set_free(kernel_set_t *set) {
  for (int32_t i = 0; i < set->count; ++i) ptc_str_deinit(&set->entries[i].source);
  if (set->object) dlclose(set->object);
  ptc_arena_deinit(&set->arena);
  free(set->entries);
  free(set);
}

int32_t kernel_set_add(kernel_set_t *set, const ptc_kernel_t *kernel) {
  if (set->count == MAX_KERNELS) return -1;
  entry_t *entry = &set->entries[set->count];
  entry->kernel = kernel;
  const ptc_c_target_t target = {.march = "native"};
  if (ptc_codegen_c(set->diag, &set->arena, kernel, &target, &entry->source, &entry->shape) !=
      PTC_OK)
    return -1;
  return set->count++;
}

int32_t kernel_set_count(const kernel_set_t *set) { return set->count; }
const char *kernel_set_source(const kernel_set_t *set, int32_t number) {
  return set->entries[number].source.data;
}
const ptc_kernel_shape_t *kernel_set_shape(const kernel_set_t *set, int32_t number) {
  return &set->entries[number].shape;
}

ptc_kernel_fn_t kernel_set_fn(const kernel_set_t *set, int32_t number) {
  return set->entries[number].fn;
}

// --- compiling

static bool write_file(const char *path, const ptc_str_t *text) {
  FILE *file = fopen(path, "w");
  if (!file) return false;
  const bool ok = fwrite(text->data, 1, text->len, file) == text->len;
  return fclose(file) == 0 && ok;
}

// The sources in one file under one prelude, entry points renamed to ptc_kernel_0, 1, ...
static void append_kernels(const kernel_set_t *set, ptc_str_t *out) {
  ptc_c_prelude(out, NULL);
  for (int32_t i = 0; i < set->count; ++i) {
    const entry_t *entry = &set->entries[i];
    const char *name = entry->kernel->name;
    ptc_str_t head = {0};
    ptc_str_printf(&head, "void %s(const ptc_kernel_call_t", name);
    const char *at = strstr(entry->source.data, head.data);
    const char *end_of_prelude = strstr(entry->source.data, "// --- end of the prelude\n");
    ptc_str_printf(out, "#define %s ptc_kernel_%d\n", name, i);
    ptc_str_append(out, end_of_prelude ? end_of_prelude : at ? at : "");
    ptc_str_printf(out, "#undef %s\n", name);
    ptc_str_deinit(&head);
  }
}

bool kernel_set_build(kernel_set_t *set, const char *flags) {
  char folder[] = "/tmp/ptc_kernels_XXXXXX";
  if (!mkdtemp(folder)) return false;
  char source[64], object[64];
  snprintf(source, sizeof source, "%s/kernels.c", folder);
  snprintf(object, sizeof object, "%s/kernels.so", folder);
  ptc_str_t text = {0}, command = {0};
  append_kernels(set, &text);
  bool ok = write_file(source, &text);
  const char *compiler = getenv("CC");
  if (!flags)
    flags =
        "-O3 -march=native -std=c17 -ffp-contract=off -fno-math-errno -fno-trapping-math "
        "-fopenmp-simd";
  ptc_str_printf(&command, "%s %s %s%s -fPIC -shared -o %s %s -lm", compiler ? compiler : "cc",
                 flags, PTC_SANITIZE[0] ? "-fno-sanitize-recover=all -fsanitize=" : "",
                 PTC_SANITIZE, object, source);
  ok = ok && system(command.data) == 0;
  set->object = ok ? dlopen(object, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (ok && !set->object) fprintf(stderr, "%s\n", dlerror());
  for (int32_t i = 0; set->object && i < set->count; ++i) {
    char name[32];
    snprintf(name, sizeof name, "ptc_kernel_%d", i);
    *(void **)&set->entries[i].fn = dlsym(set->object, name);
    if (!set->entries[i].fn) ok = false;
  }
  if (!getenv("PTC_KEEP_KERNELS")) {
    unlink(source);
    unlink(object);
    rmdir(folder);
  }
  ptc_str_deinit(&text);
  ptc_str_deinit(&command);
  return ok && set->object;
}

// --- running

static uint64_t next_random(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *state >> 33;
}

static void *garbage(int64_t bytes) {
  const size_t size = ((size_t)bytes + 64) / 64 * 64;
  void *memory = aligned_alloc(64, size);
  memset(memory, 0xA5, size);
  return memory;
}

static void run_phase(const entry_t *entry, const ptc_kernel_call_t *call, int64_t phase,
                      int64_t tiles, uint64_t *shuffle) {
  int64_t *order = malloc(((size_t)tiles + 1) * sizeof *order);
  for (int64_t i = 0; i < tiles; ++i) order[i] = i;
  for (int64_t i = tiles - 1; *shuffle && i > 0; --i) {
    const int64_t j = (int64_t)(next_random(shuffle) % (uint64_t)(i + 1)), kept = order[i];
    order[i] = order[j];
    order[j] = kept;
  }
  for (int64_t i = 0; i < tiles; ++i) entry->fn(call, phase, order[i]);
  free(order);
}

int32_t kernel_set_run(const kernel_set_t *set, int32_t number, void *const *params,
                       const int64_t *turns, uint64_t shuffle) {
  const entry_t *entry = &set->entries[number];
  const int32_t num_params = entry->kernel->num_params;
  void *all[PTC_KERNEL_MAX_PARAMS + 1];
  for (int32_t i = 0; i < num_params; ++i) all[i] = params[i];
  // Exactly as large as they say, so that sanitizers see what lies outside.
  all[num_params] = garbage(entry->shape.workspace_bytes);
  void *scratch = garbage(entry->shape.scratch_bytes);
  int32_t fault = 0;
  const ptc_kernel_call_t call = {all, turns, scratch, &fault};
  int64_t phase = 0;
  for (int32_t r = 0; r < entry->shape.num_runs; ++r) {
    const ptc_phase_run_t *run = &entry->shape.runs[r];
    for (int64_t i = 0; i < run->count; ++i)
      for (int32_t k = 0; k < run->num_phases; ++k, ++phase)
        run_phase(entry, &call, phase, run->tiles[k], &shuffle);
  }
  free(all[num_params]);
  free(scratch);
  return fault;
}

// --- storage

static uint16_t half_bits(ptc_dtype_t dtype, double value) {
  const bool brain = dtype == PTC_BF16;
  const int digits = brain ? 7 : 10, bias = brain ? 127 : 15, top = brain ? 0x7f80 : 0x7c00;
  const int sign = signbit(value) ? 0x8000 : 0;
  value = fabs(value);
  if (isnan(value)) return (uint16_t)(top | 1 << (digits - 1));
  if (isinf(value)) return (uint16_t)(sign | top);
  int exponent;
  frexp(value, &exponent);
  if (value == 0 || exponent < 2 - bias)  // in units of the smallest
    return (uint16_t)(sign | (int)ldexp(value, bias - 1 + digits));
  const int fraction = (int)ldexp(value, digits + 1 - exponent) - (1 << digits);
  return (uint16_t)(sign | (exponent - 1 + bias) << digits | fraction);
}

static double half_value(ptc_dtype_t dtype, uint16_t bits) {
  const bool brain = dtype == PTC_BF16;
  const int digits = brain ? 7 : 10, bias = brain ? 127 : 15, most = brain ? 255 : 31;
  const int exponent = bits >> digits & most, fraction = bits & ((1 << digits) - 1);
  double value = exponent == most ? (fraction ? NAN : INFINITY)
                 : exponent == 0  ? ldexp(fraction, 1 - bias - digits)
                                  : ldexp((1 << digits) + fraction, exponent - bias - digits);
  return bits & 0x8000 ? -value : value;
}

void kernel_pack(ptc_dtype_t dtype, const double *values, int64_t count, void *out_storage) {
  for (int64_t i = 0; i < count; ++i) switch (dtype) {
      case PTC_BOOL: ((uint8_t *)out_storage)[i] = values[i] != 0; break;
      case PTC_I32: ((int32_t *)out_storage)[i] = (int32_t)values[i]; break;
      case PTC_I64: ((int64_t *)out_storage)[i] = (int64_t)values[i]; break;
      case PTC_F32: ((float *)out_storage)[i] = (float)values[i]; break;
      case PTC_F64: ((double *)out_storage)[i] = values[i]; break;
      default: ((uint16_t *)out_storage)[i] = half_bits(dtype, ptc_dtype_round(dtype, values[i]));
    }
}

void kernel_unpack(ptc_dtype_t dtype, const void *storage, int64_t count, double *out_values) {
  for (int64_t i = 0; i < count; ++i) switch (dtype) {
      case PTC_BOOL: out_values[i] = ((const uint8_t *)storage)[i]; break;
      case PTC_I32: out_values[i] = ((const int32_t *)storage)[i]; break;
      case PTC_I64: out_values[i] = (double)((const int64_t *)storage)[i]; break;
      case PTC_F32: out_values[i] = (double)((const float *)storage)[i]; break;
      case PTC_F64: out_values[i] = ((const double *)storage)[i]; break;
      default: out_values[i] = half_value(dtype, ((const uint16_t *)storage)[i]);
    }
}
