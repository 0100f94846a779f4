// The printed epilogue of a GEMM: the stores, as expressions of the sums of some rows while these are in cache.
#include "codegen/c_gemm_impl.h"

void gemm_print_epilogue(const gemm_t *gemm, ptc_str_t *out) {
  const ptc_kernel_t *kernel = gemm->kernel;
  const int32_t num_stores = kernel->num_stores;
  if (gemm->c_mode == GEMM_C_DIRECT) return;
  ptc_str_append(
      out,
      "// The stores of rows i0 .. i1 - 1, columns first .. last - 1, of batch b, from their sums "
      "d.\n"
      "APART void epilogue(const ptc_kernel_call_t *call, int64_t b, int64_t i0, int64_t i1,\n"
      "                     int64_t first, int64_t last, float *restrict d) {\n");
  gemm_print_entry(gemm, out);
  gemm_print_indices(gemm, &gemm->batch, "b", false, 2, out);
  ptc_c_scope_t scope;
  ptc_c_scope_init(&scope, gemm->arena, kernel);
  ptc_kx_t *roots = PTC_ARENA_ARRAY(gemm->arena, ptc_kx_t, num_stores);
  for (int32_t s = 0; s < num_stores; ++s) roots[s] = kernel->stores[s].value;
  const uint32_t inner = gemm_role_mask(&gemm->m) | gemm_role_mask(&gemm->n);
  gemm_hoist(&scope, roots, num_stores, inner, 2, out);
  ptc_str_append(out, "  for (int64_t i = i0; i < i1; ++i, d += C_ROW) {\n");
  gemm_print_indices(gemm, &gemm->m, "i", false, 4, out);
  gemm_open_loop(gemm, &scope, &gemm->n, roots, num_stores, gemm->nt, 4, out);
  scope.hole_text[0] = "to[x]";
  // Every old value is read before the first store.
  for (int32_t s = 0; s < num_stores; ++s) ptc_c_eval(&scope, roots[s], 8, out);
  for (int32_t s = 0; s < num_stores; ++s) ptc_c_store(&scope, &kernel->stores[s], 8, out);
  gemm_close_loop(4, out);
  ptc_str_append(out, "  }\n");
  gemm_print_exit(gemm, out);
}
