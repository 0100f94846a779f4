// cuBLASLt's entry points over simulated devices: what the runtime calls, checked, and done on the host in the order of
// the stream. Sums are in f32, in order, of operands rounded to tf32 where that was asked for; the result is rounded
// once.
#include "runtime/cuda/cublaslt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/gpusim/gpusim.h"
#include "runtime/gpusim/numbers_impl.h"

enum {
  SIM_LT_VERSION = 130000,
  ILLEGAL_ADDRESS = 700,
  WORKSPACE_ALIGN = 256,
  WORKSPACE_BYTES = 4096,  // that products ask for
};

typedef enum kind_e { HANDLE = 0x4c54, DESC, LAYOUT, PREFERENCE } kind_t;

typedef struct desc_s {
  kind_t kind;
  int compute, scale, transpose_a, transpose_b, epilogue;
  const void *bias;
} desc_t;

typedef struct layout_s {
  kind_t kind;
  int type;
  uint64_t rows, columns;
  int64_t ld, batch_stride;
  int32_t batch;
} layout_t;

typedef struct preference_s {
  kind_t kind;
  size_t workspace_bytes;
  uint32_t align[4];
} preference_t;

// One product with all that it needs when its turn comes.
typedef struct product_s {
  desc_t desc;
  layout_t a, b, c, d;
  const char *from_a, *from_b, *from_c;
  char *to;
  float alpha, beta;
  char *workspace;
  size_t workspace_bytes;
  int device;
} product_t;

#define PTC_LT(type, name, params) PTC_GPUSIM_EXPORT type cublasLt##name params;
#include "runtime/cuda/cublaslt_symbols.def"
#undef PTC_LT

size_t cublasLtGetVersion(void) { return SIM_LT_VERSION; }

const char *cublasLtGetStatusString(int status) {
  switch (status) {
    case PTC_LT_SUCCESS: return "success";
    case PTC_LT_NOT_INITIALIZED: return "the library was not initialized";
    case PTC_LT_INVALID_VALUE: return "an unsupported value or parameter was passed";
    case PTC_LT_NOT_SUPPORTED: return "the requested functionality is not supported";
    default: return "unknown status";
  }
}

// --- handles and descriptors

static int new_object(void **out, const void *object, size_t bytes) {
  if (!out) return PTC_LT_INVALID_VALUE;
  *out = ptc_xmalloc(bytes);
  memcpy(*out, object, bytes);
  return PTC_LT_SUCCESS;
}

static bool is_kind(const void *object, kind_t kind) {
  return object && *(const kind_t *)object == kind;
}

static int destroy(void *object, kind_t kind) {
  if (!is_kind(object, kind)) return PTC_LT_INVALID_VALUE;
  *(kind_t *)object = 0;
  free(object);
  return PTC_LT_SUCCESS;
}

int cublasLtCreate(void **handle) {
  const kind_t kind = HANDLE;
  if (ptc_gpusim_current() < 0) return PTC_LT_NOT_INITIALIZED;
  return new_object(handle, &kind, sizeof kind);
}

int cublasLtDestroy(void *handle) { return destroy(handle, HANDLE); }

int cublasLtMatmulDescCreate(void **out, int compute, int scale) {
  const desc_t desc = {
      .kind = DESC, .compute = compute, .scale = scale, .epilogue = PTC_LT_EPILOGUE_DEFAULT};
  return new_object(out, &desc, sizeof desc);
}

int cublasLtMatmulDescDestroy(void *desc) { return destroy(desc, DESC); }

// Copies |value| to |into|, if it has its size.
static int put(void *into, size_t size, const void *value, size_t bytes) {
  if (!value || bytes != size) return PTC_LT_INVALID_VALUE;
  memcpy(into, value, size);
  return PTC_LT_SUCCESS;
}

int cublasLtMatmulDescSetAttribute(void *object, int attribute, const void *value, size_t bytes) {
  desc_t *desc = object;
  if (!is_kind(object, DESC)) return PTC_LT_INVALID_VALUE;
  switch (attribute) {
    case PTC_LT_DESC_TRANSPOSE_A:
      return put(&desc->transpose_a, sizeof desc->transpose_a, value, bytes);
    case PTC_LT_DESC_TRANSPOSE_B:
      return put(&desc->transpose_b, sizeof desc->transpose_b, value, bytes);
    case PTC_LT_DESC_EPILOGUE: return put(&desc->epilogue, sizeof desc->epilogue, value, bytes);
    case PTC_LT_DESC_BIAS_POINTER: return put(&desc->bias, sizeof desc->bias, value, bytes);
    default: return PTC_LT_INVALID_VALUE;
  }
}

int cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t columns, int64_t ld) {
  const layout_t layout = {
      .kind = LAYOUT, .type = type, .rows = rows, .columns = columns, .ld = ld, .batch = 1};
  return new_object(out, &layout, sizeof layout);
}

int cublasLtMatrixLayoutDestroy(void *layout) { return destroy(layout, LAYOUT); }

int cublasLtMatrixLayoutSetAttribute(void *object, int attribute, const void *value, size_t bytes) {
  layout_t *layout = object;
  if (!is_kind(object, LAYOUT)) return PTC_LT_INVALID_VALUE;
  switch (attribute) {
    case PTC_LT_LAYOUT_BATCH_COUNT: return put(&layout->batch, sizeof layout->batch, value, bytes);
    case PTC_LT_LAYOUT_BATCH_STRIDE:
      return put(&layout->batch_stride, sizeof layout->batch_stride, value, bytes);
    default: return PTC_LT_INVALID_VALUE;
  }
}

int cublasLtMatmulPreferenceCreate(void **out) {
  const preference_t preference = {.kind = PREFERENCE, .align = {256, 256, 256, 256}};
  return new_object(out, &preference, sizeof preference);
}

int cublasLtMatmulPreferenceDestroy(void *preference) { return destroy(preference, PREFERENCE); }

int cublasLtMatmulPreferenceSetAttribute(void *object, int attribute, const void *value,
                                         size_t bytes) {
  preference_t *preference = object;
  if (!is_kind(object, PREFERENCE)) return PTC_LT_INVALID_VALUE;
  if (attribute == PTC_LT_PREFERENCE_WORKSPACE)
    return put(&preference->workspace_bytes, sizeof preference->workspace_bytes, value, bytes);
  if (attribute < PTC_LT_PREFERENCE_ALIGN_A || attribute > PTC_LT_PREFERENCE_ALIGN_A + 3)
    return PTC_LT_INVALID_VALUE;
  return put(&preference->align[attribute - PTC_LT_PREFERENCE_ALIGN_A], sizeof(uint32_t), value,
             bytes);
}

// --- checks

static size_t size_of(int type) { return type == PTC_LT_F32 ? 4 : 2; }

static bool is_layout(const void *object) {
  const layout_t *l = object;
  return is_kind(object, LAYOUT) && l->rows && l->columns && l->ld >= (int64_t)l->rows &&
         l->batch >= 1 && l->batch_stride >= 0 &&
         (l->type == PTC_LT_F32 || l->type == PTC_LT_F16 || l->type == PTC_LT_BF16);
}

static bool has_epilogue(int epilogue) {
  if (epilogue == PTC_LT_EPILOGUE_DEFAULT) return true;
  const int activation = epilogue & ~PTC_LT_EPILOGUE_BIAS;
  return epilogue > 0 && (activation == 0 || activation == PTC_LT_EPILOGUE_RELU ||
                          activation == PTC_LT_EPILOGUE_GELU);
}

static bool has_bias(const desc_t *desc) {
  return desc->epilogue != PTC_LT_EPILOGUE_DEFAULT && (desc->epilogue & PTC_LT_EPILOGUE_BIAS);
}

// 0, or what the library answers to a product that is none or that it lacks.
static int check(const void *handle, const void *desc_object, const void *a_object,
                 const void *b_object, const void *c_object, const void *d_object) {
  const desc_t *desc = desc_object;
  const layout_t *a = a_object, *b = b_object, *c = c_object, *d = d_object;
  if (!is_kind(handle, HANDLE) || !is_kind(desc, DESC)) return PTC_LT_INVALID_VALUE;
  if (!is_layout(a) || !is_layout(b) || !is_layout(c) || !is_layout(d)) return PTC_LT_INVALID_VALUE;
  const bool ta = desc->transpose_a == PTC_LT_TRANSPOSE, tb = desc->transpose_b == PTC_LT_TRANSPOSE;
  const uint64_t m = ta ? a->columns : a->rows, depth = ta ? a->rows : a->columns,
                 depth_b = tb ? b->columns : b->rows, n = tb ? b->rows : b->columns;
  if (depth != depth_b || d->rows != m || d->columns != n || c->rows != m || c->columns != n)
    return PTC_LT_INVALID_VALUE;
  if (a->batch != d->batch || b->batch != d->batch || c->batch != d->batch)
    return PTC_LT_INVALID_VALUE;
  const bool tf32 = desc->compute == PTC_LT_COMPUTE_TF32;
  if ((!tf32 && desc->compute != PTC_LT_COMPUTE_F32) || desc->scale != PTC_LT_F32 ||
      a->type != b->type || c->type != d->type || (d->type != a->type && d->type != PTC_LT_F32) ||
      (tf32 && a->type != PTC_LT_F32) || !has_epilogue(desc->epilogue))
    return PTC_LT_NOT_SUPPORTED;
  return has_bias(desc) && !desc->bias ? PTC_LT_INVALID_VALUE : PTC_LT_SUCCESS;
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d,
                                   void *preference_object, int wanted, ptc_lt_heuristic_t *results,
                                   int *found) {
  const preference_t *preference = preference_object;
  const int code = check(handle, desc, a, b, c, d);
  if (code || !is_kind(preference, PREFERENCE) || wanted < 1 || !results || !found)
    return code ? code : PTC_LT_INVALID_VALUE;
  const size_t workspace =
      preference->workspace_bytes < WORKSPACE_BYTES ? 0 : (size_t)WORKSPACE_BYTES;
  *results = (ptc_lt_heuristic_t){.workspace_bytes = workspace, .waves = 1};
  // An algorithm is what it was chosen for.
  const layout_t *product = d;
  results->algo.data[0] = HANDLE;
  results->algo.data[1] = product->rows;
  results->algo.data[2] = product->columns;
  results->algo.data[3] = workspace;
  for (int i = 0; i < 4; ++i) results->algo.data[4 + i] = preference->align[i];
  *found = 1;
  return PTC_LT_SUCCESS;
}

// --- products

static float load(const char *from, int type, int64_t at) {
  if (type == PTC_LT_F32) {
    float x;
    memcpy(&x, from + 4 * at, sizeof x);
    return x;
  }
  uint16_t bits;
  memcpy(&bits, from + 2 * at, sizeof bits);
  return type == PTC_LT_BF16 ? sim_from_bfloat(bits) : sim_from_half(bits);
}

static void store(char *to, int type, int64_t at, float x) {
  if (type == PTC_LT_F32) {
    memcpy(to + 4 * at, &x, sizeof x);
    return;
  }
  const uint16_t bits =
      type == PTC_LT_BF16 ? sim_to_bfloat((double)x, 'n') : sim_to_half((double)x, 'n');
  memcpy(to + 2 * at, &bits, sizeof bits);
}

// A matrix of one of the batch as |lines| of |depth| numbers, in the order of the sums; |columns|: a line is one of its
// columns.
static float *pack(const char *from, const layout_t *layout, int32_t z, bool columns, bool tf32) {
  const int64_t lines = (int64_t)(columns ? layout->columns : layout->rows),
                depth = (int64_t)(columns ? layout->rows : layout->columns);
  float *packed = ptc_xmalloc(sizeof *packed * (size_t)(lines * depth));
  for (int64_t i = 0; i < lines; ++i)
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t at =
          z * layout->batch_stride + (columns ? k + i * layout->ld : i + k * layout->ld);
      const float x = load(from, layout->type, at);
      packed[i * depth + k] = tf32 ? sim_float(sim_to_tf32(x)) : x;
    }
  return packed;
}

static float activate(int epilogue, float x) {
  if (epilogue == PTC_LT_EPILOGUE_DEFAULT) return x;
  if (epilogue & PTC_LT_EPILOGUE_RELU) return x < 0 ? 0 : x;
  if (epilogue & PTC_LT_EPILOGUE_GELU)
    return .5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
  return x;
}

static void multiply(const product_t *p, int32_t z) {
  const bool tf32 = p->desc.compute == PTC_LT_COMPUTE_TF32, biased = has_bias(&p->desc);
  const bool ta = p->desc.transpose_a == PTC_LT_TRANSPOSE;
  const int64_t depth = (int64_t)(ta ? p->a.rows : p->a.columns);
  float *a = pack(p->from_a, &p->a, z, ta, tf32),
        *b = pack(p->from_b, &p->b, z, p->desc.transpose_b != PTC_LT_TRANSPOSE, tf32);
  for (int64_t j = 0; j < (int64_t)p->d.columns; ++j)
    for (int64_t i = 0; i < (int64_t)p->d.rows; ++i) {
      float sum = 0;
      for (int64_t k = 0; k < depth; ++k) sum += a[i * depth + k] * b[j * depth + k];
      float x = p->alpha * sum;
      if (p->beta != 0)
        x += p->beta * load(p->from_c, p->c.type, z * p->c.batch_stride + i + j * p->c.ld);
      if (biased) x += load(p->desc.bias, p->d.type, i);
      store(p->to, p->d.type, z * p->d.batch_stride + i + j * p->d.ld,
            activate(p->desc.epilogue, x));
    }
  free(a);
  free(b);
}

static bool touch(const product_t *p, const char *what, const void *at, size_t bytes, bool writes,
                  char *report) {
  if (ptc_gpusim_touch(p->device, (uint64_t)(uintptr_t)at, bytes, writes)) return true;
  snprintf(report, PTC_GPUSIM_REPORT, "cublasLtMatmul: %s, %zu bytes at %p, is no memory of GPU %d",
           what, bytes, at, p->device);
  return false;
}

static size_t bytes_of(const layout_t *l) {
  return ((size_t)(l->batch - 1) * (size_t)l->batch_stride +
          (size_t)(l->columns - 1) * (size_t)l->ld + (size_t)l->rows) *
         size_of(l->type);
}

static int run(void *arg, char *report) {
  const product_t *p = arg;
  if (!touch(p, "A", p->from_a, bytes_of(&p->a), false, report) ||
      !touch(p, "B", p->from_b, bytes_of(&p->b), false, report) ||
      !touch(p, "D", p->to, bytes_of(&p->d), true, report))
    return ILLEGAL_ADDRESS;
  if (p->beta != 0 && !touch(p, "C", p->from_c, bytes_of(&p->c), false, report))
    return ILLEGAL_ADDRESS;
  if (has_bias(&p->desc) &&
      !touch(p, "the bias", p->desc.bias, (size_t)p->d.rows * size_of(p->d.type), false, report))
    return ILLEGAL_ADDRESS;
  if (p->workspace_bytes) {
    if (!touch(p, "the workspace", p->workspace, p->workspace_bytes, true, report))
      return ILLEGAL_ADDRESS;
    // Whoever shares it finds no numbers there.
    memset(p->workspace, 0xff, p->workspace_bytes);
  }
  for (int32_t z = 0; z < p->d.batch; ++z) multiply(p, z);
  return 0;
}

static bool is_aligned(const void *at, uint64_t align) {
  return !align || (uintptr_t)at % align == 0;
}

int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *a_layout,
                   const void *b, void *b_layout, const void *beta, const void *c, void *c_layout,
                   void *d, void *d_layout, const ptc_lt_algo_t *algo, void *workspace,
                   size_t workspace_bytes, void *stream) {
  const int code = check(handle, desc, a_layout, b_layout, c_layout, d_layout);
  if (code) return code;
  const layout_t *result = d_layout;
  if (!alpha || !beta || !a || !b || !c || !d || !algo || algo->data[0] != HANDLE ||
      algo->data[1] != result->rows || algo->data[2] != result->columns)
    return PTC_LT_INVALID_VALUE;
  if (workspace_bytes < algo->data[3] ||
      (workspace_bytes && (!workspace || !is_aligned(workspace, WORKSPACE_ALIGN))))
    return PTC_LT_INVALID_VALUE;
  if (!is_aligned(a, algo->data[4]) || !is_aligned(b, algo->data[5]) ||
      !is_aligned(c, algo->data[6]) || !is_aligned(d, algo->data[7]))
    return PTC_LT_INVALID_VALUE;
  const int device = ptc_gpusim_device_of(stream);
  if (device < 0) return PTC_LT_INVALID_VALUE;
  product_t *p = ptc_xmalloc(sizeof *p);
  *p = (product_t){.desc = *(const desc_t *)desc,
                   .a = *(const layout_t *)a_layout,
                   .b = *(const layout_t *)b_layout,
                   .c = *(const layout_t *)c_layout,
                   .d = *result,
                   .from_a = a,
                   .from_b = b,
                   .from_c = c,
                   .to = d,
                   .workspace = workspace,
                   .workspace_bytes = algo->data[3],
                   .device = device};
  memcpy(&p->alpha, alpha, sizeof p->alpha);
  memcpy(&p->beta, beta, sizeof p->beta);
  return ptc_gpusim_enqueue_call(stream, run, p) ? PTC_LT_EXECUTION_FAILED : PTC_LT_SUCCESS;
}
