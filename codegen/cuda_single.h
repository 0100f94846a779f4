// Private to codegen/cuda_s*.c: kernels of one op in CUDA. They append the body of the function, and set the tiles of
// the phases and the bytes of the workspace.
#ifndef PTC_CODEGEN_CUDA_SINGLE_H_
#define PTC_CODEGEN_CUDA_SINGLE_H_

#include "codegen/c_single.h"
#include "codegen/cuda_codegen.h"

// Needs the functions of ptc_cuda_reductions.
void ptc_cuda_scatter_add(ptc_c_single_t *s, ptc_str_t *out);

#endif  // PTC_CODEGEN_CUDA_SINGLE_H_
