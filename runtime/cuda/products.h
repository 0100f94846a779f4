// The kernels of a plan that cuBLASLt does on one device.
#ifndef PTC_RUNTIME_CUDA_PRODUCTS_H_
#define PTC_RUNTIME_CUDA_PRODUCTS_H_

#include "ir/plan.h"

typedef struct ptc_products_s ptc_products_t;

// Chooses an algorithm for each kernel of |plan| that states a product, on the current context. NULL: there is none, or
// the library is missing; then, and for kernels that the library refuses, a warning says that the generated kernel
// runs instead: "cublaslt-missing", "cublaslt-refused".
ptc_products_t *ptc_products_open(ptc_diag_t *diag, const ptc_plan_t *plan);
void ptc_products_close(ptc_products_t *products);  // NULL is allowed
// Whether a launch of |kernel| with these arguments is the library's; |products| may be NULL.
bool ptc_products_take(const ptc_products_t *products, int32_t kernel, const uint64_t *args);
// Queues it on |stream| (a CUstream). "cublaslt-failed" (PTC_DEVICE).
ptc_status_t ptc_products_launch(ptc_products_t *products, ptc_diag_t *diag, int32_t kernel,
                                 const uint64_t *args, void *stream);

#endif  // PTC_RUNTIME_CUDA_PRODUCTS_H_
