// Private to codegen/cuda_attention*.c.
#ifndef PTC_CODEGEN_CUDA_ATTENTION_IMPL_H_
#define PTC_CODEGEN_CUDA_ATTENTION_IMPL_H_

#include "codegen/c_attention_impl.h"

// Heads of any width, and the gradient of the bias (cuda_attention_wide.c): text before the kernel, and its body
// after the declarations of `r`, `sub`, and for the gradient phase 0.
void ptc_cuda_attention_wide_prelude(const ptc_attention_c_t *self);
void ptc_cuda_attention_wide_forward(const ptc_attention_c_t *self);
void ptc_cuda_attention_wide_backward(const ptc_attention_c_t *self);
// What phase 3 needs before the kernel; its tiles.
int64_t ptc_cuda_attention_bias_prelude(const ptc_attention_c_t *self);

#endif  // PTC_CODEGEN_CUDA_ATTENTION_IMPL_H_
