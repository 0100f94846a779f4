// What every CUDA source begins with, launch shapes, and the choice of the printer.
#include <inttypes.h>
#include <string.h>

#include "codegen/cuda_codegen.h"

// NVRTC has no headers. Functions without an execution space are device functions (-default-device).
static const char head_text[] =
    "typedef signed char int8_t;\n"
    "typedef unsigned char uint8_t;\n"
    "typedef unsigned short uint16_t;\n"
    "typedef int int32_t;\n"
    "typedef unsigned int uint32_t;\n"
    "typedef long long int64_t;\n"
    "typedef unsigned long long uint64_t;\n"
    "#define INT32_MIN (-2147483647 - 1)\n"
    "#define INT32_MAX 2147483647\n"
    "#define INT64_MIN (-9223372036854775807LL - 1)\n"
    "#define INT64_MAX 9223372036854775807LL\n"
    "#define INT64_C(x) x##LL\n"
    "#define UINT64_C(x) x##ULL\n"
    "#define UINT32_C(x) x##U\n"
    "#define INFINITY __int_as_float(0x7f800000)\n"
    "#define NAN __int_as_float(0x7fc00000)\n"
    "#define restrict __restrict__\n"
    "#define __builtin_fabsf fabsf\n"
    "#define __builtin_fabs fabs\n"
    "#define __builtin_copysignf copysignf\n"
    "#define __builtin_copysign copysign\n"
    "#define __builtin_floorf floorf\n"
    "#define __builtin_floor floor\n"
    "#define __builtin_ceilf ceilf\n"
    "#define __builtin_ceil ceil\n"
    "#define __builtin_sqrtf sqrtf\n"
    "#define __builtin_sqrt sqrt\n"
    "#define __builtin_truncf truncf\n"
    "#define __builtin_trunc trunc\n"
    "#define __builtin_fmaf fmaf\n"
    "#define __builtin_fma fma\n"
    "#define __builtin_isnan(x) ((x) != (x))\n"
    "\n"
    "static inline bool __builtin_add_overflow(int64_t x, int64_t y, int64_t *r) {\n"
    "  *r = (int64_t)((uint64_t)x + (uint64_t)y);\n"
    "  return ((x ^ *r) & (y ^ *r)) < 0;\n"
    "}\n"
    "static inline bool __builtin_sub_overflow(int64_t x, int64_t y, int64_t *r) {\n"
    "  *r = (int64_t)((uint64_t)x - (uint64_t)y);\n"
    "  return ((x ^ y) & (x ^ *r)) < 0;\n"
    "}\n"
    "static inline bool __builtin_mul_overflow(int64_t x, int64_t y, int64_t *r) {\n"
    "  *r = (int64_t)((uint64_t)x * (uint64_t)y);\n"
    "  return __mul64hi(x, y) != *r >> 63;\n"
    "}\n"
    "struct ptc_kernel_call_t {\n"
    "  void *params[%d];\n"
    "  int64_t turns[%d];\n"
    "  int32_t *fault;\n"
    "  int64_t phase;\n"
    "};\n"
    "static inline void ptc_fault(const ptc_kernel_call_t *call) { *(volatile int32_t "
    "*)call->fault = 1; }\n"
    "static inline uint32_t ptc_bits(float x) { return __float_as_uint(x); }\n"
    "static inline float ptc_float(uint32_t u) { return __uint_as_float(u); }\n"
    "static inline uint64_t ptc_bits64(double x) { return (uint64_t)__double_as_longlong(x); }\n";

// --- paths of random numbers

// Whether the hash of RANDOM |e| is the same for a whole launch: its turns are those of the steps around it.
static bool is_launch_hash(const ptc_kernel_t *kernel, const ptc_kexpr_t *e) {
  if (e->kind != PTC_KX_RANDOM) return false;
  for (int32_t i = 3; i < e->num_args; ++i) {
    const ptc_kx_kind_t kind = kernel->exprs[e->args[i]].kind;
    if (kind != PTC_KX_TURN && kind != PTC_KX_CONST) return false;
  }
  return true;
}

static int32_t num_launch_hashes(const ptc_kernel_t *kernel) {
  int32_t count = 0;
  for (int32_t i = 0; kernel && i < kernel->num_exprs; ++i)
    count += is_launch_hash(kernel, &kernel->exprs[i]);
  return count;
}

// GEMMs need all the shared memory that there is without asking: they place the hashes themselves.
static bool has_own_hashes(const ptc_kernel_t *kernel) {
  return num_launch_hashes(kernel) && kernel->kind != PTC_KERNEL_GEMM;
}

int32_t ptc_cuda_fill_hashes(const ptc_kernel_t *kernel, const char *array, int32_t indent,
                             ptc_str_t *out) {
  ptc_arena_t arena = {0};
  ptc_c_scope_t scope;
  ptc_c_scope_init(&scope, &arena, kernel);
  int32_t number = 0;
  for (int32_t i = 0; i < kernel->num_exprs; ++i)
    if (is_launch_hash(kernel, &kernel->exprs[i])) {
      const char *hash = ptc_c_hash(&scope, i, indent, out);
      ptc_str_printf(out, "%*s%s[%d] = %s;\n", indent, "", array, number++, hash);
    }
  ptc_arena_deinit(&arena);
  return number;
}

void ptc_cuda_use_hashes(ptc_c_scope_t *scope, const char *array) {
  const ptc_kernel_t *kernel = scope->kernel;
  int32_t number = 0;
  for (int32_t i = 0; i < kernel->num_exprs; ++i)
    if (is_launch_hash(kernel, &kernel->exprs[i]))
      scope->hash_text[i] = ptc_arena_printf(scope->arena, "%s[%d]", array, number++);
}

static void print_launch_hashes(ptc_str_t *out, const ptc_kernel_t *kernel) {
  if (!has_own_hashes(kernel)) return;
  ptc_str_printf(out,
                 "// Of paths of random numbers.\n"
                 "__shared__ uint32_t path_hashes[%d];\n"
                 "static inline void hash_paths(const ptc_kernel_call_t *call) {\n"
                 "  if (threadIdx.x == 0) {\n",
                 num_launch_hashes(kernel));
  ptc_cuda_fill_hashes(kernel, "path_hashes", 4, out);
  ptc_str_append(out, "  }\n  __syncthreads();\n}\n");
}

void ptc_cuda_scope_init(ptc_c_scope_t *scope, ptc_arena_t *arena, const ptc_kernel_t *kernel) {
  ptc_c_scope_init(scope, arena, kernel);
  if (has_own_hashes(kernel)) ptc_cuda_use_hashes(scope, "path_hashes");
}

void ptc_cuda_start(ptc_str_t *out, const ptc_kernel_t *kernel) {
  ptc_str_append(out, "  const ptc_kernel_call_t *const call = &arguments;\n");
  if (has_own_hashes(kernel)) ptc_str_append(out, "  hash_paths(call);\n");
}

// --- heads

void ptc_cuda_prelude(ptc_str_t *out, const ptc_kernel_t *kernel) {
  if (kernel) ptc_c_comment(out, kernel);
  ptc_str_printf(out, head_text, PTC_CUDA_MAX_PARAMS, PTC_PLAN_MAX_LEVELS);
  ptc_c_helpers(out, kernel, true);
  print_launch_hashes(out, kernel);
}

void ptc_cuda_declare(ptc_str_t *out, const ptc_kernel_t *kernel) {
  ptc_arena_t arena = {0};
  // What may lie at the same place: a result and the operand that it takes the bytes of.
  bool *in_place = PTC_ARENA_ARRAY(&arena, bool, kernel->num_params + 1);
  for (int32_t i = 0; i < kernel->num_params; ++i)
    if (kernel->params[i].mode == PTC_KPARAM_OUT && kernel->params[i].in_place >= 0)
      in_place[i] = in_place[kernel->params[i].in_place] = true;
  for (int32_t i = 0; i < kernel->num_params; ++i) {
    const ptc_kparam_t *p = &kernel->params[i];
    const char *constant = p->mode == PTC_KPARAM_IN ? "const " : "";
    const char *type = ptc_c_storage_type(p->dtype);
    ptc_str_printf(out, "  %s%s *%sconst %s = (%s%s *)call->params[%d];\n", constant, type,
                   in_place[i] ? "" : "__restrict__ ", ptc_c_param_name(&arena, kernel, i),
                   constant, type, i);
  }
  ptc_arena_deinit(&arena);
}

// Whether a place in a parameter may be no int.
static bool is_large(const ptc_kernel_t *kernel) {
  for (int32_t p = 0; p < kernel->num_params; ++p)
    if (ptc_kparam_elements(&kernel->params[p]) > INT32_MAX) return true;
  return false;
}

void ptc_cuda_decode(const ptc_c_scope_t *scope, uint32_t mask, const char *linear, int32_t indent,
                     ptc_str_t *out) {
  const ptc_kernel_t *kernel = scope->kernel;
  int64_t after = 1;
  const int64_t total = ptc_kernel_extent(kernel, mask);
  // Products of coordinates and strides are of their type.
  const char *type = is_large(kernel) ? "int64_t" : "int";
  for (int32_t d = kernel->num_dims - 1; d >= 0; --d) {
    if (!(mask >> d & 1)) continue;
    const int64_t extent = kernel->dims[d].extent;
    ptc_c_indent(out, indent);
    ptc_str_printf(out, "const %s %s = ", type, scope->index_text[d]);
    if (extent <= 1)
      ptc_str_append(out, "0");
    else if (after * extent == total)
      ptc_str_printf(out, "(%s)((%s) / %" PRId64 ")", type, linear, after);
    else
      ptc_str_printf(out, "(%s)((%s) / %" PRId64 " %% %" PRId64 ")", type, linear, after, extent);
    ptc_str_append(out, ";\n");
    after *= extent > 0 ? extent : 1;
  }
}

int64_t ptc_kernel_extent(const ptc_kernel_t *kernel, uint32_t mask) {
  int64_t product = 1;
  for (int32_t i = 0; i < kernel->num_dims; ++i)
    if (mask >> i & 1) product *= kernel->dims[i].extent;
  return product;
}

ptc_kernel_shape_t ptc_cuda_shape(ptc_arena_t *arena, const int64_t *tiles, int32_t num_phases,
                                  int64_t workspace_bytes) {
  int64_t *copy = PTC_ARENA_ARRAY(arena, int64_t, num_phases);
  memcpy(copy, tiles, sizeof *copy * (size_t)num_phases);
  ptc_phase_run_t *run = PTC_ARENA_NEW(arena, ptc_phase_run_t);
  *run = (ptc_phase_run_t){.count = 1, .num_phases = num_phases, .tiles = copy};
  return (ptc_kernel_shape_t){.num_runs = 1, .runs = run, .workspace_bytes = workspace_bytes};
}

ptc_status_t ptc_codegen_cuda(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                              const ptc_cuda_options_t *options, ptc_str_t *out,
                              ptc_kernel_shape_t *out_shape) {
  switch (kernel->kind) {
    case PTC_KERNEL_NEST: return ptc_cuda_nest(diag, arena, kernel, out, out_shape);
    case PTC_KERNEL_GEMM: return ptc_cuda_gemm(diag, arena, kernel, options, out, out_shape);
    case PTC_KERNEL_ATTENTION:
    case PTC_KERNEL_ATTENTION_GRAD: return ptc_cuda_attention(diag, arena, kernel, out, out_shape);
    default: return ptc_cuda_single(diag, arena, kernel, out, out_shape);
  }
}
