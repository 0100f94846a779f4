// Proves: of the cuBLASLt that is installed here all entry points resolve, and it has a version, words for errors, and
// descriptors without a GPU; the stand-in over simulated GPUs refuses what is no product, or lies where it may not.
#include <dlfcn.h>
#include <stdlib.h>

#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/driver.h"
#include "tests/support/unit.h"

static void test_installed(void) {
  unsetenv("PTC_CUBLASLT");
  unsetenv("PTC_LIBCUDA");
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_cublaslt_t *lt = ptc_cublaslt_open(&diag);
  if (!lt) {
    printf("skipped: no cuBLASLt here\n");
    UNIT_CHECK(strcmp(diag.items[0].id, "cublaslt-missing") == 0, "cublaslt-missing");
    UNIT_CHECK(strstr(diag.items[0].message, "libcublasLt.so.13") != NULL, "names its file");
    ptc_diag_deinit(&diag);
    return;
  }
  printf("cuBLASLt %zu ", lt->version);
  UNIT_CHECK(strstr(lt->GetStatusString(PTC_LT_NOT_SUPPORTED), "support") != NULL, "words");
  void *desc = NULL, *layout = NULL, *preference = NULL;
  const int32_t transpose = PTC_LT_TRANSPOSE,
                epilogue = PTC_LT_EPILOGUE_GELU | PTC_LT_EPILOGUE_BIAS, batch = 3;
  const int64_t stride = 1024;
  const size_t workspace = 4096;
  const uint32_t align = 16;
  UNIT_CHECK(!lt->MatmulDescCreate(&desc, PTC_LT_COMPUTE_TF32, PTC_LT_F32), "a product");
  UNIT_CHECK(!lt->MatmulDescSetAttribute(desc, PTC_LT_DESC_TRANSPOSE_A, &transpose, 4),
             "transpose");
  UNIT_CHECK(!lt->MatmulDescSetAttribute(desc, PTC_LT_DESC_EPILOGUE, &epilogue, 4), "epilogue");
  UNIT_CHECK(!lt->MatmulDescSetAttribute(desc, PTC_LT_DESC_BIAS_POINTER, &desc, 8), "bias");
  UNIT_CHECK(!lt->MatrixLayoutCreate(&layout, PTC_LT_BF16, 32, 32, 32), "a matrix");
  UNIT_CHECK(!lt->MatrixLayoutSetAttribute(layout, PTC_LT_LAYOUT_BATCH_COUNT, &batch, 4), "batch");
  UNIT_CHECK(!lt->MatrixLayoutSetAttribute(layout, PTC_LT_LAYOUT_BATCH_STRIDE, &stride, 8),
             "stride");
  UNIT_CHECK(!lt->MatmulPreferenceCreate(&preference), "a preference");
  UNIT_CHECK(
      !lt->MatmulPreferenceSetAttribute(preference, PTC_LT_PREFERENCE_WORKSPACE, &workspace, 8),
      "workspace");
  for (int i = 0; i < 4; i++)
    UNIT_CHECK(
        !lt->MatmulPreferenceSetAttribute(preference, PTC_LT_PREFERENCE_ALIGN_A + i, &align, 4),
        "alignment");
  lt->MatmulPreferenceDestroy(preference);
  lt->MatrixLayoutDestroy(layout);
  lt->MatmulDescDestroy(desc);
  ptc_cublaslt_close(lt);
  ptc_diag_deinit(&diag);
}

// --- the stand-in

typedef struct product_s {
  void *desc, *layouts[3], *preference;
  ptc_lt_heuristic_t best;
} product_t;

static int make(const ptc_cublaslt_t *lt, void *handle, int64_t ld, int type_d, uint64_t depth_b,
                product_t *p) {
  const size_t workspace = 1 << 20;
  const uint32_t align = 16;
  int found = 0;
  *p = (product_t){0};
  lt->MatmulDescCreate(&p->desc, PTC_LT_COMPUTE_F32, PTC_LT_F32);
  lt->MatrixLayoutCreate(&p->layouts[0], PTC_LT_F32, 16, 8, ld);
  lt->MatrixLayoutCreate(&p->layouts[1], PTC_LT_F32, depth_b, 32, 8);
  lt->MatrixLayoutCreate(&p->layouts[2], type_d, 16, 32, 16);
  lt->MatmulPreferenceCreate(&p->preference);
  lt->MatmulPreferenceSetAttribute(p->preference, PTC_LT_PREFERENCE_WORKSPACE, &workspace, 8);
  for (int i = 0; i < 4; i++)
    lt->MatmulPreferenceSetAttribute(p->preference, PTC_LT_PREFERENCE_ALIGN_A + i, &align, 4);
  return lt->MatmulAlgoGetHeuristic(handle, p->desc, p->layouts[0], p->layouts[1], p->layouts[2],
                                    p->layouts[2], p->preference, 1, &p->best, &found);
}

static void release(const ptc_cublaslt_t *lt, product_t *p) {
  lt->MatmulDescDestroy(p->desc);
  for (int i = 0; i < 3; i++) lt->MatrixLayoutDestroy(p->layouts[i]);
  lt->MatmulPreferenceDestroy(p->preference);
}

static int multiply(const ptc_cublaslt_t *lt, void *handle, const product_t *p, uint64_t at,
                    uint64_t workspace, size_t workspace_bytes) {
  const float one = 1, zero = 0;
  void *a = (void *)(uintptr_t)at, *b = (void *)(uintptr_t)(at + 4096),
       *d = (void *)(uintptr_t)(at + 8192);
  return lt->Matmul(handle, p->desc, &one, a, p->layouts[0], b, p->layouts[1], &zero, d,
                    p->layouts[2], d, p->layouts[2], &p->best.algo, (void *)(uintptr_t)workspace,
                    workspace_bytes, NULL);
}

static void test_stand_in(void) {
  setenv("PTC_LIBCUDA", PTC_BINARY_DIR "/libptc_gpusim_cuda.so", 1);
  unsetenv("PTC_CUBLASLT");
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  // Another driver's memory is not for the installed library.
  CU_ASSERT_PTR_NULL(ptc_cublaslt_open(&diag));
  setenv("PTC_CUBLASLT", PTC_BINARY_DIR "/libptc_gpusim_cublaslt.so", 1);
  ptc_cuda_driver_t *driver = ptc_cuda_driver_open(&diag);
  ptc_cublaslt_t *lt = ptc_cublaslt_open(&diag);
  CU_ASSERT_FATAL(driver && lt);
  void *handle = NULL, *context = NULL;
  CU_ASSERT_EQUAL(lt->Create(&handle), PTC_LT_NOT_INITIALIZED);
  int device = 0;
  uint64_t memory = 0;
  driver->DeviceGet(&device, 0);
  driver->DevicePrimaryCtxRetain(&context, device);
  driver->CtxSetCurrent(context);
  CU_ASSERT_EQUAL_FATAL(lt->Create(&handle), PTC_LT_SUCCESS);
  driver->MemAlloc(&memory, 1 << 16);
  const uint64_t workspace = (memory + (1 << 15)) / 256 * 256;
  product_t p;
  CU_ASSERT_EQUAL(make(lt, handle, 15, PTC_LT_F32, 8, &p), PTC_LT_INVALID_VALUE);  // ld below rows
  release(lt, &p);
  CU_ASSERT_EQUAL(make(lt, handle, 16, PTC_LT_F32, 7, &p), PTC_LT_INVALID_VALUE);  // other depths
  release(lt, &p);
  CU_ASSERT_EQUAL(make(lt, handle, 16, PTC_LT_BF16, 8, &p), PTC_LT_NOT_SUPPORTED);  // types
  release(lt, &p);
  CU_ASSERT_EQUAL(make(lt, handle, 16, PTC_LT_F32, 8, &p), PTC_LT_SUCCESS);
  const size_t bytes = p.best.workspace_bytes;
  CU_ASSERT(bytes > 0);
  driver->MemsetD8Async(memory, 0, 1 << 16, NULL);
  CU_ASSERT_EQUAL(multiply(lt, handle, &p, memory, workspace, bytes), PTC_LT_SUCCESS);
  CU_ASSERT_EQUAL(multiply(lt, handle, &p, memory, workspace + 64, bytes), PTC_LT_INVALID_VALUE);
  CU_ASSERT_EQUAL(multiply(lt, handle, &p, memory, workspace, bytes - 1), PTC_LT_INVALID_VALUE);
  CU_ASSERT_EQUAL(multiply(lt, handle, &p, memory + 4, workspace, bytes), PTC_LT_INVALID_VALUE);
  CU_ASSERT_EQUAL(driver->StreamSynchronize(NULL), 0);
  // Matrices that end outside of their memory: an error of the stream.
  CU_ASSERT_EQUAL(multiply(lt, handle, &p, memory + (1 << 16) - 8192, workspace, bytes),
                  PTC_LT_SUCCESS);
  CU_ASSERT(driver->StreamSynchronize(NULL) != 0);
  release(lt, &p);
  lt->Destroy(handle);
  ptc_cublaslt_close(lt);
  driver->DevicePrimaryCtxRelease(device);
  ptc_cuda_driver_close(driver);
  ptc_diag_deinit(&diag);
}

static const unit_test_t tests[] = {{"installed", test_installed}, {"stand-in", test_stand_in}};
UNIT_MAIN("cublaslt library", tests)
