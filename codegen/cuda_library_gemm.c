// Which GEMM kernels a library can do in one call, and in its terms.
#include <string.h>

#include "codegen/cuda_codegen.h"

typedef struct view_s {
  int32_t param;
  ptc_dtype_t dtype;
  int64_t coef[PTC_KERNEL_MAX_DIMS];  // elements per step of a loop dim
} view_t;

typedef struct match_s {
  const ptc_kernel_t *kernel;
  view_t a, b, out, addend;
  view_t bias;
  bool has_addend, has_bias;
  ptc_gemm_activation_t activation;
} match_t;

static bool view_of(const ptc_kernel_t *kernel, int32_t param, const ptc_kx_t *index, view_t *out) {
  const ptc_c_affine_t address = ptc_c_address(kernel, param, index);
  if (address.num_terms || address.base) return false;
  *out = (view_t){.param = param, .dtype = kernel->params[param].dtype};
  memcpy(out->coef, address.coef, sizeof out->coef);
  return true;
}

static bool load_view(const ptc_kernel_t *kernel, ptc_kx_t expr, view_t *out) {
  const ptc_kexpr_t *e = &kernel->exprs[expr];
  return e->kind == PTC_KX_LOAD && e->guard == PTC_KX_NONE && !e->checked &&
         view_of(kernel, e->param, e->args, out);
}

// The dims of |mask| in the order of memory, as |by| has them, walked as one: the stride of |view| along them. False:
// there is none, or no dim is longer than 1 (then |*out| is 0).
static bool stride_along(const match_t *m, uint32_t mask, const view_t *by, const view_t *view,
                         int64_t *out) {
  int32_t order[PTC_KERNEL_MAX_DIMS], count = 0;
  for (int32_t d = 0; d < m->kernel->num_dims; ++d) {
    if (!(mask >> d & 1) || m->kernel->dims[d].extent == 1) continue;
    int32_t at = count++;
    for (; at > 0 && by->coef[order[at - 1]] > by->coef[d]; --at) order[at] = order[at - 1];
    order[at] = d;
  }
  *out = count ? view->coef[order[0]] : 0;
  int64_t extent = 1;
  for (int32_t i = 0; i < count; ++i) {
    if (view->coef[order[i]] != *out * extent) return false;
    extent *= m->kernel->dims[order[i]].extent;
  }
  return true;
}

// The expression without conversions between floats: the library rounds once, at the end.
static ptc_kx_t without_casts(const ptc_kernel_t *kernel, ptc_kx_t expr) {
  for (;;) {
    const ptc_kexpr_t *e = &kernel->exprs[expr];
    if (e->kind != PTC_KX_OP || e->opcode != PTC_OP_CAST || !ptc_dtype_is_float(e->dtype))
      return expr;
    expr = e->args[0];
  }
}

static bool match_addend(match_t *m, ptc_kx_t expr) {
  view_t view;
  if (!load_view(m->kernel, without_casts(m->kernel, expr), &view) || view.dtype != m->out.dtype)
    return false;
  const ptc_gemm_t *g = &m->kernel->gemm;
  const bool same = memcmp(view.coef, m->out.coef, sizeof view.coef) == 0;
  view_t *into = same ? &m->addend : &m->bias;
  bool *has = same ? &m->has_addend : &m->has_bias;
  if (*has) return false;
  *has = true;
  *into = view;
  for (int32_t d = 0; d < m->kernel->num_dims && !same; ++d)
    if ((g->batch >> d & 1) && view.coef[d]) return false;
  return true;
}

// activation((sum + addend) + bias), in any order of the additions.
static bool match_value(match_t *m, ptc_kx_t expr) {
  const ptc_kernel_t *kernel = m->kernel;
  const ptc_kexpr_t *e = &kernel->exprs[expr = without_casts(kernel, expr)];
  if (e->kind == PTC_KX_OP &&
      (e->opcode == PTC_OP_RELU || (e->opcode == PTC_OP_GELU && e->gelu_tanh))) {
    m->activation = e->opcode == PTC_OP_RELU ? PTC_GEMM_RELU : PTC_GEMM_GELU_TANH;
    expr = without_casts(kernel, e->args[0]);
  }
  for (;;) {
    e = &kernel->exprs[expr];
    if (e->kind == PTC_KX_HOLE) return true;
    if (e->kind != PTC_KX_OP || e->opcode != PTC_OP_ADD) return false;
    const ptc_kx_t left = without_casts(kernel, e->args[0]),
                   right = without_casts(kernel, e->args[1]);
    const bool loads_right = kernel->exprs[right].kind == PTC_KX_LOAD;
    if (!match_addend(m, loads_right ? right : left)) return false;
    expr = loads_right ? left : right;
  }
}

// One operand, |rows| (what it shares with the result) by k, as matrix |out|; |rows_lead|: it is op(A), whose rows are
// those of the stored matrix; of op(B) they are the columns.
static bool make_operand(const match_t *m, const view_t *view, uint32_t rows, bool rows_lead,
                         ptc_plan_matrix_t *out) {
  const ptc_gemm_t *g = &m->kernel->gemm;
  int64_t by_row, by_k;
  *out = (ptc_plan_matrix_t){.param = view->param, .dtype = view->dtype};
  if (!stride_along(m, rows, &m->out, view, &by_row) ||
      !stride_along(m, g->k, &m->a, view, &by_k) ||
      !stride_along(m, g->batch, &m->out, view, &out->stride))
    return false;
  const int64_t num_rows = ptc_kernel_extent(m->kernel, rows),
                depth = ptc_kernel_extent(m->kernel, g->k);
  const bool along_rows = by_row == 1 && by_k >= num_rows, along_k = by_k == 1 && by_row >= depth;
  if (!along_rows && !along_k) return false;
  out->transposed = along_rows != rows_lead;
  out->ld = along_rows ? by_k : by_row;
  return true;
}

bool ptc_cuda_library_gemm(const ptc_kernel_t *kernel, const ptc_cuda_options_t *options,
                           ptc_plan_gemm_t *out_gemm) {
  if (kernel->kind != PTC_KERNEL_GEMM || kernel->num_stores != 1) return false;
  const ptc_gemm_t *g = &kernel->gemm;
  const ptc_kstore_t *store = &kernel->stores[0];
  match_t m = {.kernel = kernel};
  if (!load_view(kernel, g->a, &m.a) || !load_view(kernel, g->b, &m.b) ||
      !view_of(kernel, store->param, store->index, &m.out) || !match_value(&m, store->value))
    return false;
  if (m.a.dtype != m.b.dtype || (m.out.dtype != m.a.dtype && m.out.dtype != PTC_F32)) return false;
  if (m.a.dtype != PTC_F32 && m.a.dtype != PTC_BF16 && m.a.dtype != PTC_F16) return false;
  int64_t along_m, along_n, along_batch;
  if (!stride_along(&m, g->m, &m.out, &m.out, &along_m) ||
      !stride_along(&m, g->n, &m.out, &m.out, &along_n) ||
      !stride_along(&m, g->batch, &m.out, &m.out, &along_batch))
    return false;
  // By columns, the dim along which the result is contiguous comes first.
  const bool swapped = along_n == 1;
  if (!swapped && along_m != 1) return false;
  const uint32_t first = swapped ? g->n : g->m, second = swapped ? g->m : g->n;
  ptc_plan_gemm_t gemm = {.m = ptc_kernel_extent(kernel, first),
                          .n = ptc_kernel_extent(kernel, second),
                          .k = ptc_kernel_extent(kernel, g->k),
                          .batch = ptc_kernel_extent(kernel, g->batch),
                          .c.param = -1,
                          .bias = -1,
                          .activation = m.activation,
                          .tf32 = options->tf32 && m.a.dtype == PTC_F32};
  if (!make_operand(&m, swapped ? &m.b : &m.a, first, true, &gemm.a) ||
      !make_operand(&m, swapped ? &m.a : &m.b, second, false, &gemm.b))
    return false;
  gemm.d = (ptc_plan_matrix_t){.param = m.out.param,
                               .dtype = m.out.dtype,
                               .ld = swapped ? along_m : along_n,
                               .stride = along_batch};
  if (gemm.d.ld < gemm.m) return false;
  if (m.has_addend) {
    gemm.c = gemm.d;
    gemm.c.param = m.addend.param;
  }
  if (m.has_bias) {
    int64_t step, other;
    if (!stride_along(&m, first, &m.out, &m.bias, &step) || step != 1 ||
        !stride_along(&m, second, &m.out, &m.bias, &other) || other != 0)
      return false;
    gemm.bias = m.bias.param;
  }
  *out_gemm = gemm;
  return true;
}
