// Private to codegen/cuda_attention*.c.
#ifndef PTC_CODEGEN_CUDA_ATTENTION_IMPL_H_
#define PTC_CODEGEN_CUDA_ATTENTION_IMPL_H_

#include "codegen/c_attention_impl.h"
#include "codegen/cuda_codegen.h"

// The prelude; sizes; q_load, k_load, v_load with their *_offset; visible, bias, kept of a score; capped, slope;
// out_store, lse_store, or for a gradient out_load, lse_load, dout_load, dq_store, dk_store, dv_store, dbias_store.
void ptc_cuda_attention_common(const ptc_attention_c_t *self);
// Prints |head|, which opens a function (call, o, row, key, ...) of one score, and what its loop dims' indices are.
void ptc_cuda_attention_open_score(const ptc_attention_c_t *self, const char *head,
                                   ptc_c_scope_t *scope);

// Whether the tensor cores can do it (cuda_flash.c): 16-bit operands of one dtype whose columns lie in 16-byte
// chunks, at most 256 columns, no gradient of a bias.
bool ptc_cuda_flash_fits(const ptc_attention_c_t *self);
// The kernel on tensor cores.
void ptc_cuda_flash(ptc_attention_c_t *self, ptc_kernel_shape_t *out_shape);
// Its parts. Which blocks of scores there are, powers, dropout (cuda_flash_scores.c); the bodies of the kernels, and
// what the gradient needs before it (cuda_flash_forward.c, cuda_flash_grad.c).
void ptc_cuda_flash_scores(ptc_attention_c_t *self);
void ptc_cuda_flash_forward(const ptc_attention_c_t *self);
void ptc_cuda_flash_grad_prelude(const ptc_attention_c_t *self);
void ptc_cuda_flash_grad(const ptc_attention_c_t *self);

// Heads of any width, and the gradient of the bias (cuda_attention_wide.c): text before the kernel, and its body
// after the declarations of `r`, `sub`, and for the gradient phase 0.
void ptc_cuda_attention_wide_prelude(const ptc_attention_c_t *self);
void ptc_cuda_attention_wide_forward(const ptc_attention_c_t *self);
void ptc_cuda_attention_wide_backward(const ptc_attention_c_t *self);
// What phase 3 needs before the kernel; its tiles.
int64_t ptc_cuda_attention_bias_prelude(const ptc_attention_c_t *self);

#endif  // PTC_CODEGEN_CUDA_ATTENTION_IMPL_H_
