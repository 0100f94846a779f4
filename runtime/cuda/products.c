#include "runtime/cuda/products.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/cublaslt.h"

enum {
  POINTER_ALIGN = 16
};  // what algorithms are chosen for; a launch with less takes the generated kernel

typedef struct product_s {
  bool ready;
  void *desc, *a, *b, *d;  // C has the layout of D
  ptc_lt_algo_t algo;
  size_t workspace_bytes;
} product_t;

struct ptc_products_s {
  const ptc_plan_t *plan;
  ptc_cublaslt_t *lt;
  void *handle;
  product_t *items;  // one per kernel
};

static int lt_type(ptc_dtype_t dtype) {
  return dtype == PTC_BF16 ? PTC_LT_BF16 : dtype == PTC_F16 ? PTC_LT_F16 : PTC_LT_F32;
}

static int make_layout(const ptc_cublaslt_t *lt, const ptc_plan_matrix_t *matrix, int64_t rows,
                       int64_t columns, int64_t batch, void **out) {
  const bool t = matrix->transposed;
  int code = lt->MatrixLayoutCreate(out, lt_type(matrix->dtype), (uint64_t)(t ? columns : rows),
                                    (uint64_t)(t ? rows : columns), matrix->ld);
  const int32_t count = (int32_t)batch;
  if (!code && batch > 1)
    code = lt->MatrixLayoutSetAttribute(*out, PTC_LT_LAYOUT_BATCH_COUNT, &count, sizeof count);
  if (!code && batch > 1)
    code = lt->MatrixLayoutSetAttribute(*out, PTC_LT_LAYOUT_BATCH_STRIDE, &matrix->stride,
                                        sizeof matrix->stride);
  return code;
}

static int epilogue_of(const ptc_plan_gemm_t *gemm) {
  int epilogue = gemm->bias >= 0 ? PTC_LT_EPILOGUE_BIAS : 0;
  if (gemm->activation == PTC_GEMM_RELU) epilogue |= PTC_LT_EPILOGUE_RELU;
  if (gemm->activation == PTC_GEMM_GELU_TANH) epilogue |= PTC_LT_EPILOGUE_GELU;
  return epilogue ? epilogue : PTC_LT_EPILOGUE_DEFAULT;
}

static int describe(const ptc_cublaslt_t *lt, const ptc_plan_gemm_t *gemm, product_t *product) {
  const int32_t a = gemm->a.transposed ? PTC_LT_TRANSPOSE : PTC_LT_NO_TRANSPOSE,
                b = gemm->b.transposed ? PTC_LT_TRANSPOSE : PTC_LT_NO_TRANSPOSE,
                epilogue = epilogue_of(gemm);
  // The heuristic asks how the bias is aligned.
  const void *bias = (const void *)(uintptr_t)POINTER_ALIGN;
  int code = lt->MatmulDescCreate(
      &product->desc, gemm->tf32 ? PTC_LT_COMPUTE_TF32 : PTC_LT_COMPUTE_F32, PTC_LT_F32);
  if (!code)
    code = lt->MatmulDescSetAttribute(product->desc, PTC_LT_DESC_TRANSPOSE_A, &a, sizeof a);
  if (!code)
    code = lt->MatmulDescSetAttribute(product->desc, PTC_LT_DESC_TRANSPOSE_B, &b, sizeof b);
  if (!code)
    code =
        lt->MatmulDescSetAttribute(product->desc, PTC_LT_DESC_EPILOGUE, &epilogue, sizeof epilogue);
  if (!code && gemm->bias >= 0)
    code = lt->MatmulDescSetAttribute(product->desc, PTC_LT_DESC_BIAS_POINTER, &bias, sizeof bias);
  if (!code) code = make_layout(lt, &gemm->a, gemm->m, gemm->k, gemm->batch, &product->a);
  if (!code) code = make_layout(lt, &gemm->b, gemm->k, gemm->n, gemm->batch, &product->b);
  if (!code) code = make_layout(lt, &gemm->d, gemm->m, gemm->n, gemm->batch, &product->d);
  return code;
}

static int choose(const ptc_products_t *products, const ptc_plan_gemm_t *gemm, product_t *product) {
  const ptc_cublaslt_t *lt = products->lt;
  void *preference = NULL;
  const size_t workspace = (size_t)gemm->workspace_bytes;
  const uint32_t align = POINTER_ALIGN;
  int code = lt->MatmulPreferenceCreate(&preference);
  if (!code)
    code = lt->MatmulPreferenceSetAttribute(preference, PTC_LT_PREFERENCE_WORKSPACE, &workspace,
                                            sizeof workspace);
  for (int i = 0; i < 4 && !code; ++i)
    code = lt->MatmulPreferenceSetAttribute(preference, PTC_LT_PREFERENCE_ALIGN_A + i, &align,
                                            sizeof align);
  ptc_lt_heuristic_t best = {0};
  int found = 0;
  if (!code)
    code = lt->MatmulAlgoGetHeuristic(products->handle, product->desc, product->a, product->b,
                                      product->d, product->d, preference, 1, &best, &found);
  if (!code && (found < 1 || best.status)) code = best.status ? best.status : PTC_LT_NOT_SUPPORTED;
  if (!code && best.workspace_bytes > workspace) code = PTC_LT_NOT_SUPPORTED;
  product->algo = best.algo;
  product->workspace_bytes = best.workspace_bytes;
  if (preference) lt->MatmulPreferenceDestroy(preference);
  return code;
}

static int32_t count_products(const ptc_plan_t *plan) {
  int32_t count = 0;
  for (int32_t k = 0; k < plan->num_kernels; ++k) count += plan->kernels[k].gemm != NULL;
  return count;
}

ptc_products_t *ptc_products_open(ptc_diag_t *diag, const ptc_plan_t *plan) {
  const int32_t count = count_products(plan);
  if (!count) return NULL;
  ptc_diag_t found;
  ptc_diag_init(&found);
  ptc_cublaslt_t *lt = ptc_cublaslt_open(&found);
  void *handle = NULL;
  int code = lt ? lt->Create(&handle) : 0;
  if (!lt || code)
    ptc_warning(diag, (ptc_loc_t){.file = plan->json_file}, "cublaslt-missing",
                "%d products that the plan leaves to cuBLASLt run as generated kernels: %s",
                (int)count, lt ? lt->GetStatusString(code) : found.items[0].message);
  ptc_diag_deinit(&found);
  if (!handle) {
    ptc_cublaslt_close(lt);
    return NULL;
  }
  ptc_products_t *products = ptc_xmalloc(sizeof *products);
  const size_t bytes = sizeof(product_t) * (size_t)plan->num_kernels;
  *products =
      (ptc_products_t){.plan = plan, .lt = lt, .handle = handle, .items = ptc_xmalloc(bytes)};
  memset(products->items, 0, bytes);
  for (int32_t k = 0; k < plan->num_kernels; ++k) {
    const ptc_plan_kernel_t *kernel = &plan->kernels[k];
    if (!kernel->gemm) continue;
    code = describe(lt, kernel->gemm, &products->items[k]);
    if (!code) code = choose(products, kernel->gemm, &products->items[k]);
    products->items[k].ready = !code;
    if (code)
      ptc_warning(diag, (ptc_loc_t){kernel->loc_file, kernel->loc_line, 0}, "cublaslt-refused",
                  "\"%s\" runs as a generated kernel: cuBLASLt says \"%s\"", kernel->name,
                  lt->GetStatusString(code));
  }
  return products;
}

void ptc_products_close(ptc_products_t *products) {
  if (!products) return;
  const ptc_cublaslt_t *lt = products->lt;
  for (int32_t k = 0; k < products->plan->num_kernels; ++k) {
    const product_t *product = &products->items[k];
    if (product->a) lt->MatrixLayoutDestroy(product->a);
    if (product->b) lt->MatrixLayoutDestroy(product->b);
    if (product->d) lt->MatrixLayoutDestroy(product->d);
    if (product->desc) lt->MatmulDescDestroy(product->desc);
  }
  lt->Destroy(products->handle);
  ptc_cublaslt_close(products->lt);
  free(products->items);
  free(products);
}

static bool is_aligned(const uint64_t *args, int32_t param) {
  return param < 0 || args[param] % POINTER_ALIGN == 0;
}

bool ptc_products_take(const ptc_products_t *products, int32_t kernel, const uint64_t *args) {
  if (!products || !products->items[kernel].ready) return false;
  const ptc_plan_gemm_t *gemm = products->plan->kernels[kernel].gemm;
  return is_aligned(args, gemm->a.param) && is_aligned(args, gemm->b.param) &&
         is_aligned(args, gemm->c.param) && is_aligned(args, gemm->d.param) &&
         is_aligned(args, gemm->bias);
}

static void *pointer(const uint64_t *args, int32_t param) { return (void *)(uintptr_t)args[param]; }

ptc_status_t ptc_products_launch(ptc_products_t *products, ptc_diag_t *diag, int32_t kernel,
                                 const uint64_t *args, void *stream) {
  const ptc_cublaslt_t *lt = products->lt;
  const ptc_plan_kernel_t *entry = &products->plan->kernels[kernel];
  const ptc_plan_gemm_t *gemm = entry->gemm;
  const product_t *product = &products->items[kernel];
  const float one = 1, beta = gemm->c.param >= 0 ? 1 : 0;
  int code = 0;
  if (gemm->bias >= 0) {
    const void *bias = pointer(args, gemm->bias);
    code = lt->MatmulDescSetAttribute(product->desc, PTC_LT_DESC_BIAS_POINTER, &bias, sizeof bias);
  }
  // The arena's addresses are multiples of less: the workspace has room for this.
  const uint64_t align = PTC_PLAN_GEMM_ALIGN;
  void *workspace = (void *)(uintptr_t)((args[entry->num_params] + align - 1) / align * align);
  void *d = pointer(args, gemm->d.param);
  if (!code)
    code = lt->Matmul(products->handle, product->desc, &one, pointer(args, gemm->a.param),
                      product->a, pointer(args, gemm->b.param), product->b, &beta,
                      gemm->c.param >= 0 ? pointer(args, gemm->c.param) : d, product->d, d,
                      product->d, &product->algo, workspace, product->workspace_bytes, stream);
  if (!code) return PTC_OK;
  return ptc_error(diag, (ptc_loc_t){entry->loc_file, entry->loc_line, 0}, PTC_DEVICE,
                   "cublaslt-failed", "cuBLASLt in the place of \"%s\": %s (code %d)", entry->name,
                   lt->GetStatusString(code), code);
}
