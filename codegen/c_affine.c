// Index expressions as affine forms of the loop dims, so that addresses are plain sums of products.
#include <inttypes.h>
#include <string.h>

#include "codegen/codegen.h"

static void add_scaled(ptc_c_affine_t *form, const ptc_c_affine_t *other, int64_t factor) {
  form->base += factor * other->base;
  for (int32_t d = 0; d < PTC_KERNEL_MAX_DIMS; ++d) form->coef[d] += factor * other->coef[d];
  for (int32_t i = 0; i < other->num_terms; ++i) {
    int32_t at = 0;
    while (at < form->num_terms && form->terms[at] != other->terms[i]) ++at;
    if (at == form->num_terms) {
      form->terms[form->num_terms] = other->terms[i];
      form->term_coef[form->num_terms++] = 0;
    }
    form->term_coef[at] += factor * other->term_coef[i];
  }
}

static ptc_c_affine_t opaque(ptc_kx_t expr) {
  return (ptc_c_affine_t){.num_terms = 1, .terms = {expr}, .term_coef = {1}};
}

static bool is_constant(const ptc_c_affine_t *form) {
  if (form->num_terms) return false;
  for (int32_t d = 0; d < PTC_KERNEL_MAX_DIMS; ++d)
    if (form->coef[d]) return false;
  return true;
}

static ptc_c_affine_t of_op(const ptc_kernel_t *kernel, ptc_kx_t expr) {
  const ptc_kexpr_t *e = &kernel->exprs[expr];
  ptc_c_affine_t a = ptc_c_affine_of(kernel, e->args[0]), b = {0};
  if (e->num_args > 1) b = ptc_c_affine_of(kernel, e->args[1]);
  if (a.num_terms + b.num_terms > PTC_C_MAX_TERMS) return opaque(expr);
  switch (e->opcode) {
    case PTC_OP_NEG: {
      ptc_c_affine_t form = {0};
      add_scaled(&form, &a, -1);
      return form;
    }
    case PTC_OP_CAST: return ptc_dtype_is_int(kernel->exprs[e->args[0]].dtype) ? a : opaque(expr);
    case PTC_OP_ADD:
    case PTC_OP_ACCUMULATE: add_scaled(&a, &b, 1); return a;
    case PTC_OP_SUB: add_scaled(&a, &b, -1); return a;
    case PTC_OP_MUL: {
      const bool left = is_constant(&a);
      if (!left && !is_constant(&b)) return opaque(expr);
      ptc_c_affine_t form = {0};
      add_scaled(&form, left ? &b : &a, left ? a.base : b.base);
      return form;
    }
    default: return opaque(expr);
  }
}

ptc_c_affine_t ptc_c_affine_of(const ptc_kernel_t *kernel, ptc_kx_t expr) {
  const ptc_kexpr_t *e = &kernel->exprs[expr];
  ptc_c_affine_t form = {0};
  if (!ptc_dtype_is_int(e->dtype)) return opaque(expr);
  switch (e->kind) {
    case PTC_KX_CONST: form.base = (int64_t)e->value; return form;
    case PTC_KX_INDEX: form.coef[e->dim] = 1; return form;
    case PTC_KX_OP: return of_op(kernel, expr);
    default: return opaque(expr);
  }
}

ptc_c_affine_t ptc_c_address(const ptc_kernel_t *kernel, int32_t param, const ptc_kx_t *index) {
  const ptc_kparam_t *p = &kernel->params[param];
  ptc_c_affine_t form = {0};
  int64_t stride = 1;
  for (int32_t i = p->num_dims - 1; i >= 0; --i) {
    ptc_c_affine_t place = ptc_c_affine_of(kernel, index[i]);
    if (form.num_terms + place.num_terms + i > PTC_C_MAX_TERMS) place = opaque(index[i]);
    add_scaled(&form, &place, stride);
    stride *= p->extents[i];
  }
  return form;
}

static void append_product(ptc_str_t *text, const char *factor, int64_t coef) {
  if (!coef) return;
  const bool first = text->len == 0;
  if (!first) ptc_str_append(text, coef < 0 ? " - " : " + ");
  if (first && coef < 0) ptc_str_append(text, "-");
  const int64_t size = coef < 0 ? -coef : coef;
  ptc_str_append(text, factor);
  if (size != 1) ptc_str_printf(text, " * %" PRId64, size);
}

const char *ptc_c_affine_text(ptc_c_scope_t *scope, const ptc_c_affine_t *form) {
  ptc_str_t text = {0};
  for (int32_t i = 0; i < form->num_terms; ++i) {
    const char *term = scope->value_text[form->terms[i]];
    append_product(&text, ptc_arena_printf(scope->arena, "(int64_t)%s", term), form->term_coef[i]);
  }
  for (int32_t d = 0; d < scope->kernel->num_dims; ++d)
    if (scope->kernel->dims[d].extent > 1 && scope->index_text[d])  // else the index is 0
      append_product(&text, scope->index_text[d], form->coef[d]);
  if (!text.len)
    ptc_str_printf(&text, "%" PRId64, form->base);
  else if (form->base)
    ptc_str_printf(&text, form->base < 0 ? " - %" PRId64 : " + %" PRId64,
                   form->base < 0 ? -form->base : form->base);
  const char *kept = ptc_arena_strndup(scope->arena, text.data, text.len);
  ptc_str_deinit(&text);
  return kept;
}
