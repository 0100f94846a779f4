// From kernels to CUDA C++ for NVRTC: the CUDA counterparts of codegen.h.
//
// Every kernel is one __global__ function of PTC_CUDA_THREADS threads a block; a block is a tile of the
// phase that it is launched for, so a plan's phases and tiles mean the same on both targets:
//   extern "C" __global__ void NAME(const ptc_kernel_call_t arguments)   grid = tiles of arguments.phase
// where ptc_kernel_call_t is that of ptc_cuda_prelude.
#ifndef PTC_CODEGEN_CUDA_CODEGEN_H_
#define PTC_CODEGEN_CUDA_CODEGEN_H_

#include "codegen/codegen.h"

enum { PTC_CUDA_THREADS = 256, PTC_CUDA_MAX_PARAMS = PTC_KERNEL_MAX_PARAMS + 1 };

// What is chosen for a whole plan.
typedef struct ptc_cuda_options_s {
  bool tf32;  // GEMMs of f32 round their operands to tf32 and use tensor cores; else they are exact
} ptc_cuda_options_t;

// Appends the source of |kernel|. Diagnostic "codegen-unsupported" names what is not there yet.
ptc_status_t ptc_codegen_cuda(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                              const ptc_cuda_options_t *options, ptc_str_t *out,
                              ptc_kernel_shape_t *out_shape);

ptc_status_t ptc_cuda_nest(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                           ptc_str_t *out, ptc_kernel_shape_t *out_shape);
ptc_status_t ptc_cuda_gemm(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                           const ptc_cuda_options_t *options, ptc_str_t *out,
                           ptc_kernel_shape_t *out_shape);

ptc_status_t ptc_cuda_attention(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                                ptc_str_t *out, ptc_kernel_shape_t *out_shape);
ptc_status_t ptc_cuda_single(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                             ptc_str_t *out, ptc_kernel_shape_t *out_shape);

// Whether cuBLASLt can do what the GEMM |kernel| does in one call: operands that are matrices as they lie, one result,
// an epilogue of a bias, an addend and an activation at most. |*out_gemm| then says how; its workspace is the caller's.
bool ptc_cuda_library_gemm(const ptc_kernel_t *kernel, const ptc_cuda_options_t *options,
                           ptc_plan_gemm_t *out_gemm);

// What every source begins with: types, the call struct, conversions, math functions, Philox.
void ptc_cuda_prelude(ptc_str_t *out, const ptc_kernel_t *kernel);
// The first lines of an entry function: `call`; the hashes of the paths of random numbers, computed once per block.
void ptc_cuda_start(ptc_str_t *out, const ptc_kernel_t *kernel);
// ptc_c_scope_init, with these hashes.
void ptc_cuda_scope_init(ptc_c_scope_t *scope, ptc_arena_t *arena, const ptc_kernel_t *kernel);
// For GEMMs, which place them themselves: code that puts them into |array|, for one thread of a block, and their number;
// then a scope that finds them there.
int32_t ptc_cuda_fill_hashes(const ptc_kernel_t *kernel, const char *array, int32_t indent,
                             ptc_str_t *out);
void ptc_cuda_use_hashes(ptc_c_scope_t *scope, const char *array);
// Declares the parameters as pointers inside the function: `p_x`.
void ptc_cuda_declare(ptc_str_t *out, const ptc_kernel_t *kernel);
// Appends the coordinates of the loop dims of |mask|, in the order of the dims, of row-major position
// |linear| (C text, an integer) as `const int i_x = ...;`: the names of ptc_c_scope_init.
void ptc_cuda_decode(const ptc_c_scope_t *scope, uint32_t mask, const char *linear, int32_t indent,
                     ptc_str_t *out);
// Device functions: ptc_warp_sum, _max, _argmax, _all, and the same of a block.
void ptc_cuda_reductions(ptc_str_t *out);
// Device functions: smem_address, copy16 with commit, wait0 and wait1 (cp.async), ldsm and ldsm_trans (ldmatrix
// x4), and mma with f32 sums: m16n8k16 of |dtype| bf16 or f16; f32: m16n8k8 of tf32, and round_tf32.
void ptc_cuda_tensor_core(ptc_str_t *out, ptc_dtype_t dtype);
// The number of points of the loop dims of |mask|.
int64_t ptc_kernel_extent(const ptc_kernel_t *kernel, uint32_t mask);
// The launch shape of |num_phases| phases, run once.
ptc_kernel_shape_t ptc_cuda_shape(ptc_arena_t *arena, const int64_t *tiles, int32_t num_phases,
                                  int64_t workspace_bytes);

#endif  // PTC_CODEGEN_CUDA_CODEGEN_H_
