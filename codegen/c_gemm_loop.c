// Printed loops that evaluate expressions over a role of a GEMM: indices of its loop dims from a flat index, and
// an inner loop along the last of them that a compiler vectorises.
#include <inttypes.h>

#include "codegen/c_gemm_impl.h"

void gemm_print_indices(const gemm_t *gemm, const gemm_role_t *role, const char *index,
                        bool outer_only, int32_t indent, ptc_str_t *out) {
  int64_t below = 1;
  for (int32_t i = role->num_dims - 1; i >= 0; --i) {
    const int32_t d = role->dims[i];
    const int64_t extent = gemm->kernel->dims[d].extent;
    if (!outer_only || i < role->num_dims - 1) {
      ptc_c_indent(out, indent);
      ptc_str_printf(out, "const int64_t %s = %s", ptc_c_index_name(gemm->arena, gemm->kernel, d),
                     index);
      if (below > 1) ptc_str_printf(out, " / %" PRId64, below);
      if (i > 0) ptc_str_printf(out, " %% %" PRId64, extent);
      ptc_str_append(out, ";\n");
    }
    below *= extent;
  }
}

static bool has_checked_load(const ptc_kernel_t *kernel) {
  for (int32_t i = 0; i < kernel->num_exprs; ++i)
    if (kernel->exprs[i].kind == PTC_KX_LOAD && kernel->exprs[i].checked) return true;
  return false;
}

void gemm_print_entry(const gemm_t *gemm, ptc_str_t *out) {
  const ptc_kernel_t *kernel = gemm->kernel;
  ptc_c_params(out, kernel, 2);
  if (has_checked_load(kernel)) ptc_str_append(out, "  int32_t fault = 0;\n");
  for (int32_t d = 0; d < kernel->num_dims; ++d)
    if (kernel->dims[d].extent == 1)
      ptc_str_printf(out, "  const int64_t %s = 0;\n", ptc_c_index_name(gemm->arena, kernel, d));
}

void gemm_print_exit(const gemm_t *gemm, ptc_str_t *out) {
  if (has_checked_load(gemm->kernel)) ptc_str_append(out, "  if (fault) *call->fault = 1;\n");
  ptc_str_append(out, "}\n\n");
}

static void hoist(ptc_c_scope_t *scope, const ptc_kx_t *roots, int32_t num_roots, uint32_t inner,
                  int32_t indent, ptc_str_t *out) {
  for (int32_t i = 0; i < num_roots; ++i) ptc_c_hoist(scope, roots[i], inner, indent, out);
}

void gemm_open_loop(const gemm_t *gemm, ptc_c_scope_t *scope, const gemm_role_t *role,
                    const ptc_kx_t *roots, int32_t num_roots, ptc_str_t *out) {
  if (has_checked_load(gemm->kernel)) scope->fault_text = "fault";
  uint32_t all = 0;
  for (int32_t i = 0; i < role->num_dims; ++i) all |= UINT32_C(1) << role->dims[i];
  hoist(scope, roots, num_roots, all, 2, out);
  const int32_t last = role->num_dims - 1;
  const char *inner =
      last >= 0 ? ptc_c_index_name(gemm->arena, gemm->kernel, role->dims[last]) : NULL;
  const int64_t extent = last >= 0 ? gemm->kernel->dims[role->dims[last]].extent : 1;
  ptc_str_append(out, "  for (int64_t at = first, len; at < last; at += len) {\n");
  if (last > 0) {
    gemm_print_indices(gemm, role, "at", true, 4, out);
    ptc_str_printf(out,
                   "    const int64_t from = at %% %" PRId64
                   ";\n"
                   "    len = least(%" PRId64 " - from, last - at);\n",
                   extent, extent);
    hoist(scope, roots, num_roots, UINT32_C(1) << role->dims[last], 4, out);
  } else {
    ptc_str_append(out, "    const int64_t from = at;\n    len = last - at;\n");
  }
  ptc_str_append(out, "    float *restrict const to = d + (at - first);\n");
  ptc_str_append(
      out, scope->fault_text ? "#pragma omp simd reduction(| : fault)\n" : "#pragma omp simd\n");
  ptc_str_append(out, "    for (int64_t x = 0; x < len; ++x) {\n");
  if (inner) ptc_str_printf(out, "      const int64_t %s = from + x;\n", inner);
}

void gemm_close_loop(ptc_str_t *out) { ptc_str_append(out, "    }\n  }\n"); }
