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

void gemm_hoist(ptc_c_scope_t *scope, const ptc_kx_t *roots, int32_t num_roots, uint32_t inner,
                int32_t indent, ptc_str_t *out) {
  for (int32_t i = 0; i < num_roots; ++i) ptc_c_hoist(scope, roots[i], inner, indent, out);
}

uint32_t gemm_role_mask(const gemm_role_t *role) {
  uint32_t mask = 0;
  for (int32_t i = 0; i < role->num_dims; ++i) mask |= UINT32_C(1) << role->dims[i];
  return mask;
}

// --- random numbers, four at a time
static bool is_constant(const ptc_c_scope_t *scope, ptc_kx_t expr) {
  return scope->kernel->exprs[expr].kind == PTC_KX_CONST;
}

// Appends the words of RANDOM |expr| for |len| elements that follow each other along loop dim |inner|, from
// `from` on, if they do and what they need is in scope.
static void print_words(ptc_c_scope_t *scope, ptc_kx_t expr, int32_t inner, int64_t max_run,
                        int32_t indent, ptc_str_t *out) {
  const ptc_kexpr_t *e = &scope->kernel->exprs[expr];
  scope->word_array[expr] = NULL;
  if (!scope->hash_text[expr] || inner < 0) return;
  const ptc_c_affine_t form = ptc_c_affine_of(scope->kernel, e->args[0]);
  if (form.coef[inner] != 1) return;
  for (int32_t i = 0; i < form.num_terms; ++i)
    if (!scope->value_text[form.terms[i]]) return;
  for (int32_t i = 1; i < 3; ++i) {
    if (is_constant(scope, e->args[i])) ptc_c_eval(scope, e->args[i], indent, out);
    if (!scope->value_text[e->args[i]]) return;
  }
  const char *index = scope->index_text[inner];
  scope->index_text[inner] = "from";
  ptc_c_indent(out, indent);
  ptc_str_printf(out, "const int64_t element%d = %s, lane%d = element%d & 3;\n", expr,
                 ptc_c_affine_text(scope, &form), expr, expr);
  scope->index_text[inner] = index;
  ptc_c_indent(out, indent);
  ptc_str_printf(out, "uint32_t words%d[%" PRId64 "];\n", expr, max_run + 8);
  ptc_c_indent(out, indent);
  ptc_str_printf(out,
                 "ptc_philox_words(words%d, len + lane%d, (uint64_t)%s, (uint64_t)element%d / 4, "
                 "(uint32_t)%s, %s);\n",
                 expr, expr, scope->value_text[e->args[1]], expr, scope->value_text[e->args[2]],
                 scope->hash_text[expr]);
  scope->word_array[expr] = ptc_arena_printf(scope->arena, "words%d", expr);
  scope->word_place[expr] = ptc_arena_printf(scope->arena, "lane%d + x", expr);
}

// Of every RANDOM that |roots| need: its path is hashed by then.
static void print_all_words(ptc_c_scope_t *scope, int32_t inner, int64_t max_run, int32_t indent,
                            ptc_str_t *out) {
  for (ptc_kx_t i = 0; i < scope->kernel->num_exprs; ++i)
    if (scope->kernel->exprs[i].kind == PTC_KX_RANDOM)
      print_words(scope, i, inner, max_run, indent, out);
}

static void print_line(ptc_str_t *out, int32_t indent, const char *line) {
  ptc_c_indent(out, indent);
  ptc_str_append(out, line);
}

void gemm_open_loop(const gemm_t *gemm, ptc_c_scope_t *scope, const gemm_role_t *role,
                    const ptc_kx_t *roots, int32_t num_roots, int64_t max_run, int32_t indent,
                    ptc_str_t *out) {
  const ptc_kernel_t *kernel = gemm->kernel;
  if (has_checked_load(kernel)) scope->fault_text = "fault";
  gemm_hoist(scope, roots, num_roots, gemm_role_mask(role), indent, out);
  const int32_t last = role->num_dims - 1, inner = last >= 0 ? role->dims[last] : -1;
  print_line(out, indent, "for (int64_t at = first, len; at < last; at += len) {\n");
  if (last > 0) {
    const int64_t extent = kernel->dims[inner].extent;
    gemm_print_indices(gemm, role, "at", true, indent + 2, out);
    ptc_c_indent(out, indent + 2);
    ptc_str_printf(out, "const int64_t from = at %% %" PRId64 ";\n", extent);
    ptc_c_indent(out, indent + 2);
    ptc_str_printf(out, "len = least(%" PRId64 " - from, last - at);\n", extent);
    gemm_hoist(scope, roots, num_roots, UINT32_C(1) << inner, indent + 2, out);
  } else {
    print_line(out, indent + 2, "const int64_t from = at;\n");
    print_line(out, indent + 2, "len = last - at;\n");
  }
  print_all_words(scope, inner, max_run, indent + 2, out);
  print_line(out, indent + 2, "float *restrict const to = d + (at - first);\n");
  ptc_str_append(
      out, scope->fault_text ? "#pragma omp simd reduction(| : fault)\n" : "#pragma omp simd\n");
  print_line(out, indent + 2, "for (int64_t x = 0; x < len; ++x) {\n");
  if (inner < 0) return;
  ptc_c_indent(out, indent + 4);
  ptc_str_printf(out, "const int64_t %s = from + x;\n",
                 ptc_c_index_name(gemm->arena, kernel, inner));
}

void gemm_close_loop(int32_t indent, ptc_str_t *out) {
  print_line(out, indent + 2, "}\n");
  print_line(out, indent, "}\n");
}
