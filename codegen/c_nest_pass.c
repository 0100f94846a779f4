// One loop over a row of a nest: values, reductions in blocks of 512 elements, stores.
#include <inttypes.h>

#include "codegen/c_nest.h"

static const ptc_kexpr_t *addend_of(const ptc_c_nest_t *nest, ptc_kx_t reduce) {
  return &nest->kernel->exprs[nest->kernel->exprs[reduce].args[0]];
}

// --- partial results

const char *ptc_nest_partial_type(const ptc_c_nest_t *nest, ptc_kx_t reduce) {
  const ptc_dtype_t dtype = addend_of(nest, reduce)->dtype;
  switch (nest->kernel->exprs[reduce].reduce) {
    case PTC_KX_ALL: return "uint8_t";
    case PTC_KX_SUM: return ptc_dtype_is_float(dtype) ? "double" : "int64_t";
    default: return ptc_dtype_is_float(dtype) ? ptc_c_type(dtype) : "int64_t";
  }
}

const char *ptc_nest_partial_start(const ptc_c_nest_t *nest, ptc_kx_t reduce) {
  switch (nest->kernel->exprs[reduce].reduce) {
    case PTC_KX_ALL: return "1";
    case PTC_KX_SUM: return "0";
    default: return ptc_dtype_is_float(addend_of(nest, reduce)->dtype) ? "-INFINITY" : "INT64_MIN";
  }
}

void ptc_nest_print_combine(ptc_c_nest_t *nest, ptc_kx_t reduce, const char *into, const char *from,
                            int32_t indent) {
  const ptc_dtype_t dtype = addend_of(nest, reduce)->dtype;
  const bool is_float = ptc_dtype_is_float(dtype);
  ptc_str_t *out = nest->out;
  ptc_c_indent(out, indent);
  switch (nest->kernel->exprs[reduce].reduce) {
    case PTC_KX_ALL: ptc_str_printf(out, "%s &= %s;\n", into, from); break;
    case PTC_KX_SUM: ptc_str_printf(out, "%s += %s;\n", into, from); break;
    case PTC_KX_MAX:
      if (is_float)
        ptc_str_printf(out, "%s = ptc_max%s(%s, %s);\n", into, dtype == PTC_F64 ? "64" : "", from,
                       into);
      else
        ptc_str_printf(out, "%s = %s > %s ? %s : %s;\n", into, from, into, from, into);
      break;
    case PTC_KX_ARGMAX:
      ptc_str_printf(out, "if (%s_at < 0 || %s > %s%s%s%s%s%s) {\n", into, from, into,
                     is_float ? " || (" : "", is_float ? from : "",
                     is_float ? ptc_arena_printf(nest->arena, " != %s && %s == ", from, into) : "",
                     is_float ? into : "", is_float ? ")" : "");
      ptc_c_indent(out, indent + 2);
      ptc_str_printf(out, "%s = %s;\n", into, from);
      ptc_c_indent(out, indent + 2);
      ptc_str_printf(out, "%s_at = %s_at;\n", into, from);
      ptc_c_indent(out, indent);
      ptc_str_append(out, "}\n");
      break;
  }
}

const char *ptc_nest_final(ptc_c_nest_t *nest, ptc_kx_t reduce, const char *text) {
  const ptc_kexpr_t *e = &nest->kernel->exprs[reduce];
  ptc_arena_t *arena = nest->arena;
  if (e->reduce == PTC_KX_ALL) return ptc_arena_printf(arena, "(%s != 0)", text);
  if (e->reduce == PTC_KX_ARGMAX)
    return ptc_arena_printf(arena, "(%s)%s_at", ptc_c_type(e->dtype), text);
  if (e->dtype == PTC_F64) return ptc_arena_printf(arena, "(double)%s", text);
  if (e->dtype == PTC_I32) return ptc_arena_printf(arena, "ptc_i32_of_i64(%s)", text);
  if (e->dtype == PTC_I64) return text;
  return ptc_c_round(arena, e->dtype, ptc_arena_printf(arena, "(float)%s", text));
}

// --- blocks

const char *ptc_nest_block_type(const ptc_c_nest_t *nest, ptc_kx_t reduce) {
  const ptc_dtype_t dtype = addend_of(nest, reduce)->dtype;
  if (nest->kernel->exprs[reduce].reduce == PTC_KX_ALL) return "uint8_t";
  return ptc_dtype_is_float(dtype) ? ptc_c_type(dtype) : "int64_t";
}

static const char *block_suffix(const ptc_c_nest_t *nest, ptc_kx_t reduce) {
  const ptc_dtype_t dtype = addend_of(nest, reduce)->dtype;
  return dtype == PTC_F64 ? "64" : ptc_dtype_is_float(dtype) ? "" : "_int";
}

// A product that an einsum adds up is not rounded to 16 bits.
static const char *addend_text(ptc_c_nest_t *nest, ptc_kx_t reduce, int32_t indent) {
  const ptc_kexpr_t *r = &nest->kernel->exprs[reduce];
  const ptc_kx_t arg = r->args[0];
  const ptc_kexpr_t *product = &nest->kernel->exprs[arg];
  ptc_c_scope_t *scope = &nest->scope;
  const bool narrow = product->dtype == PTC_F16 || product->dtype == PTC_BF16;
  if (r->fma && narrow && product->kind == PTC_KX_OP && product->opcode == PTC_OP_MUL) {
    for (int32_t i = 0; i < 2; ++i) ptc_c_eval(scope, product->args[i], indent, nest->out);
    return ptc_arena_printf(nest->arena, "%s * %s", scope->value_text[product->args[0]],
                            scope->value_text[product->args[1]]);
  }
  ptc_c_eval(scope, arg, indent, nest->out);
  return scope->value_text[arg];
}

static void print_block_end(ptc_c_nest_t *nest, const ptc_nest_accum_t *accum, bool long_row,
                            int32_t indent) {
  ptc_str_t *out = nest->out;
  const char *suffix = block_suffix(nest, accum->reduce);
  ptc_c_indent(out, indent);
  switch (nest->kernel->exprs[accum->reduce].reduce) {
    case PTC_KX_SUM:
      ptc_str_printf(out, "%s%s += ptc_block_sum%s(t%d, n);\n", long_row ? "group_" : "",
                     accum->name, suffix, accum->reduce);
      if (!long_row) break;
      ptc_c_indent(out, indent);
      ptc_str_printf(out, "if (p0 %% %d == %d || last) %s += group_%s, group_%s = 0;\n",
                     PTC_NEST_GROUP, PTC_NEST_GROUP - PTC_NEST_BLOCK, accum->name, accum->name,
                     accum->name);
      break;
    case PTC_KX_MAX:
      ptc_str_printf(out, "const %s m%d = ptc_block_max%s(t%d, n);\n",
                     ptc_nest_block_type(nest, accum->reduce), accum->reduce, suffix,
                     accum->reduce);
      ptc_nest_print_combine(nest, accum->reduce, accum->name,
                             ptc_arena_printf(nest->arena, "m%d", accum->reduce), indent);
      break;
    case PTC_KX_ALL:
      ptc_str_printf(out, "%s &= ptc_block_all(t%d, n);\n", accum->name, accum->reduce);
      break;
    case PTC_KX_ARGMAX:
      ptc_str_printf(out, "ptc_block_argmax%s(t%d, n, %sp0, &%s, &%s_at);\n", suffix, accum->reduce,
                     accum->over == PTC_NEST_FULL ? "row_at + " : "", accum->name, accum->name);
      break;
  }
}

// The ARGMAX in |pass| that yields the maximum |accum| on its way, or NULL.
static const ptc_nest_accum_t *argmax_of(const ptc_c_nest_t *nest, const ptc_nest_pass_t *pass,
                                         const ptc_nest_accum_t *accum) {
  const ptc_kexpr_t *exprs = nest->kernel->exprs;
  if (exprs[accum->reduce].reduce != PTC_KX_MAX || accum->over == PTC_NEST_COLUMN) return NULL;
  for (int32_t i = 0; i < pass->num_accums; ++i)
    if (pass->accums[i].over == accum->over &&
        exprs[pass->accums[i].reduce].reduce == PTC_KX_ARGMAX &&
        exprs[pass->accums[i].reduce].args[0] == exprs[accum->reduce].args[0])
      return &pass->accums[i];
  return NULL;
}

// The sum over all chunks of the columns of this block, read from partial sums.
static void print_sums(ptc_c_nest_t *nest, const ptc_nest_pass_t *pass, int32_t indent) {
  ptc_str_t *out = nest->out;
  for (int32_t i = 0; i < pass->num_sums; ++i) {
    const ptc_kx_t reduce = pass->sums[i].reduce;
    const bool positions = nest->kernel->exprs[reduce].reduce == PTC_KX_ARGMAX;
    const char *type = ptc_nest_partial_type(nest, reduce);
    ptc_c_indent(out, indent);
    ptc_str_printf(out, "%s s%d[%d];\n", type, reduce, PTC_NEST_BLOCK);
    if (positions) {
      ptc_c_indent(out, indent);
      ptc_str_printf(out, "int64_t s%d_at[%d];\n", reduce, PTC_NEST_BLOCK);
    }
    ptc_c_indent(out, indent);
    ptc_str_printf(out, "for (int64_t j = 0; j < n; ++j) s%d[j] = %s%s;\n", reduce,
                   ptc_nest_partial_start(nest, reduce),
                   positions ? ptc_arena_printf(nest->arena, ", s%d_at[j] = -1", reduce) : "");
    ptc_c_indent(out, indent);
    ptc_str_printf(out, "for (int64_t c = 0; c < %" PRId64 "; ++c)\n", pass->num_chunks);
    ptc_c_indent(out, indent + 2);
    ptc_str_append(out, "for (int64_t j = 0; j < n; ++j) {\n");
    ptc_c_indent(out, indent + 4);
    ptc_str_printf(out, "const int64_t k = (%s + c) * %s + p0 + j;\n", pass->sum_base,
                   pass->sum_stride);
    ptc_c_indent(out, indent + 4);
    ptc_str_printf(out, "const %s from = %s[k];\n", type, pass->sums[i].name);
    if (positions) {
      ptc_c_indent(out, indent + 4);
      ptc_str_printf(out, "const int64_t from_at = %s_at[k];\n", pass->sums[i].name);
    }
    const char *into = ptc_arena_printf(nest->arena, "s%d%s", reduce, positions ? "" : "[j]");
    if (positions) {
      ptc_c_indent(out, indent + 4);
      ptc_str_printf(out, "%s s = s%d[j];\n", type, reduce);
      ptc_c_indent(out, indent + 4);
      ptc_str_printf(out, "int64_t s_at = s%d_at[j];\n", reduce);
      ptc_nest_print_combine(nest, reduce, "s", "from", indent + 4);
      ptc_c_indent(out, indent + 4);
      ptc_str_printf(out, "s%d[j] = s;\n", reduce);
      ptc_c_indent(out, indent + 4);
      ptc_str_printf(out, "s%d_at[j] = s_at;\n", reduce);
    } else {
      ptc_nest_print_combine(nest, reduce, into, "from", indent + 4);
    }
    ptc_c_indent(out, indent + 2);
    ptc_str_append(out, "}\n");
  }
}

// --- the innermost loop

// Everything that the loop computes.
static ptc_kx_t *roots_of(ptc_c_nest_t *nest, const ptc_nest_pass_t *pass, int32_t *out_count) {
  const ptc_kernel_t *kernel = nest->kernel;
  ptc_kx_t *roots = PTC_ARENA_ARRAY(
      nest->arena, ptc_kx_t,
      pass->num_accums + pass->num_keeps + pass->num_stores * (PTC_C_MAX_TERMS + 1) + 1);
  int32_t n = 0;
  for (int32_t i = 0; i < pass->num_keeps; ++i) roots[n++] = pass->keeps[i];
  for (int32_t i = 0; i < pass->num_accums; ++i)
    roots[n++] = kernel->exprs[pass->accums[i].reduce].args[0];
  for (int32_t i = 0; i < pass->num_stores; ++i) {
    roots[n++] = pass->stores[i]->value;
    ptc_c_affine_t form = ptc_c_address(kernel, pass->stores[i]->param, pass->stores[i]->index);
    for (int32_t t = 0; t < form.num_terms; ++t) roots[n++] = form.terms[t];
  }
  *out_count = n;
  return roots;
}

static void print_column(ptc_c_nest_t *nest, const ptc_nest_accum_t *accum, const char *value,
                         const char *position, int32_t indent) {
  const ptc_kx_reduce_t reduce = nest->kernel->exprs[accum->reduce].reduce;
  ptc_arena_t *arena = nest->arena;
  ptc_str_t *out = nest->out;
  if (reduce == PTC_KX_ARGMAX) {
    ptc_c_indent(out, indent);
    ptc_str_printf(out, "if (%s_at[%s] < 0 || %s > %s[%s]", accum->name, position, value,
                   accum->name, position);
    if (ptc_dtype_is_float(addend_of(nest, accum->reduce)->dtype))
      ptc_str_printf(out, " || (%s != %s && %s[%s] == %s[%s])", value, value, accum->name, position,
                     accum->name, position);
    ptc_str_printf(out, ") {\n");
    ptc_c_indent(out, indent + 2);
    ptc_str_printf(out, "%s[%s] = %s;\n", accum->name, position, value);
    ptc_c_indent(out, indent + 2);
    ptc_str_printf(out, "%s_at[%s] = col_at;\n", accum->name, position);
    ptc_c_indent(out, indent);
    ptc_str_append(out, "}\n");
    return;
  }
  ptc_nest_print_combine(nest, accum->reduce,
                         ptc_arena_printf(arena, "%s[%s]", accum->name, position), value, indent);
}

// |place|: the position within the block; |position|: within the row.
static void print_body(ptc_c_nest_t *nest, const ptc_nest_pass_t *pass, const char *place,
                       const char *position, int32_t indent) {
  ptc_c_scope_t *scope = &nest->scope;
  ptc_str_t *out = nest->out;
  for (ptc_kx_t i = 0; i < nest->kernel->num_exprs; ++i)
    if (pass->kept_name && pass->kept_name[i] && pass->kept_ready[i])
      scope->value_text[i] = ptc_arena_printf(nest->arena, "%s[%s]", pass->kept_name[i], position);
  for (int32_t i = 0; i < pass->num_sums; ++i) {
    const ptc_kx_t reduce = pass->sums[i].reduce;
    const ptc_kexpr_t *e = &nest->kernel->exprs[reduce];
    const char *sum = ptc_arena_printf(nest->arena, "s%d[%s]", reduce, place);
    scope->value_text[reduce] =
        e->reduce == PTC_KX_ARGMAX
            ? ptc_arena_printf(nest->arena, "(%s)s%d_at[%s]", ptc_c_type(e->dtype), reduce, place)
            : ptc_nest_final(nest, reduce, sum);
  }
  for (int32_t i = 0; i < pass->num_keeps; ++i) {
    ptc_c_eval(scope, pass->keeps[i], indent, out);
    ptc_c_indent(out, indent);
    ptc_str_printf(out, "%s[%s] = %s;\n", pass->kept_name[pass->keeps[i]], position,
                   scope->value_text[pass->keeps[i]]);
  }
  for (int32_t i = 0; i < pass->num_stores; ++i) {
    ptc_c_affine_t form =
        ptc_c_address(nest->kernel, pass->stores[i]->param, pass->stores[i]->index);
    for (int32_t t = 0; t < form.num_terms; ++t) ptc_c_eval(scope, form.terms[t], indent, out);
    ptc_c_eval(scope, pass->stores[i]->value, indent, out);
  }
  for (int32_t i = 0; i < pass->num_accums; ++i) {
    const ptc_nest_accum_t *accum = &pass->accums[i];
    if (argmax_of(nest, pass, accum)) continue;
    const char *value = addend_text(nest, accum->reduce, indent);
    if (accum->over == PTC_NEST_COLUMN) {
      print_column(nest, accum, value, position, indent);
      continue;
    }
    ptc_c_indent(out, indent);
    ptc_str_printf(out, "t%d[%s] = %s;\n", accum->reduce, place, value);
  }
  for (int32_t i = 0; i < pass->num_stores; ++i) ptc_c_store(scope, pass->stores[i], indent, out);
}

static bool has_column_argmax(const ptc_c_nest_t *nest, const ptc_nest_pass_t *pass) {
  for (int32_t i = 0; i < pass->num_accums; ++i)
    if (pass->accums[i].over == PTC_NEST_COLUMN &&
        nest->kernel->exprs[pass->accums[i].reduce].reduce == PTC_KX_ARGMAX)
      return true;
  return false;
}

// for j in [0, |count|): the body at place |q| + j. |start| names the index of the inner loop at j = 0.
static void print_inner(ptc_c_nest_t *nest, const ptc_nest_pass_t *pass, const char *count,
                        const char *start, const char *q, int32_t indent) {
  const ptc_nest_loops_t *loops = &nest->row_loops;
  ptc_c_scope_t *scope = &nest->scope;
  ptc_str_t *out = nest->out;
  const int32_t inner = loops->count ? loops->dim[loops->count - 1] : -1;
  const uint32_t mask = loops->count ? loops->mask[loops->count - 1] : 0;
  int32_t num_roots;
  ptc_kx_t *roots = roots_of(nest, pass, &num_roots);
  const char **saved = ptc_c_scope_save(scope);
  for (ptc_kx_t i = 0; i < nest->kernel->num_exprs; ++i)  // not to be hoisted, nor looked into
    if (pass->kept_name && pass->kept_name[i] && pass->kept_ready[i]) scope->value_text[i] = "kept";
  for (int32_t i = 0; i < num_roots; ++i) ptc_c_hoist(scope, roots[i], mask, indent, out);
  ptc_nest_random_words(nest, roots, num_roots, inner, start, count, indent);
  const bool checked = ptc_nest_has_checked(nest, roots, num_roots);
  if (checked) {
    ptc_c_indent(out, indent);
    ptc_str_append(out, "int32_t bad = 0;\n");
    scope->fault_text = "bad";
  }
  if (!has_column_argmax(nest, pass))
    ptc_str_printf(out, "#pragma omp simd%s\n", checked ? " reduction(| : bad)" : "");
  ptc_c_indent(out, indent);
  ptc_str_printf(out, "for (int64_t j = 0; j < %s; ++j) {\n", count);
  if (inner >= 0) {
    ptc_c_indent(out, indent + 2);
    ptc_str_printf(out, "const int64_t %s = %s + j;\n", scope->index_text[inner], start);
  }
  const char *place = q[0] ? ptc_arena_printf(nest->arena, "%s + j", q) : "j";
  print_body(nest, pass, place, ptc_arena_printf(nest->arena, "p0 + %s", place), indent + 2);
  ptc_c_indent(out, indent);
  ptc_str_append(out, "}\n");
  if (checked) {
    ptc_c_indent(out, indent);
    ptc_str_append(out, "if (bad) ptc_fault(call);\n");
    scope->fault_text = NULL;
  }
  ptc_c_scope_restore(scope, saved);
  ptc_nest_forget_words(nest);
}

// Rows of several loops: runs of the innermost one within the block.
static void print_runs(ptc_c_nest_t *nest, const ptc_nest_pass_t *pass, int32_t indent) {
  ptc_nest_loops_t outer = nest->row_loops;
  ptc_str_t *out = nest->out;
  const int64_t inner = outer.extent[--outer.count];
  ptc_c_indent(out, indent);
  ptc_str_append(out, "for (int64_t q = 0; q < n;) {\n");
  ptc_c_indent(out, indent + 2);
  ptc_str_printf(out,
                 "const int64_t run = (p0 + q) / %" PRId64 ", first = (p0 + q) %% %" PRId64 ";\n",
                 inner, inner);
  ptc_c_indent(out, indent + 2);
  ptc_str_printf(out,
                 "const int64_t m = n - q < %" PRId64 " - first ? n - q : %" PRId64 " - first;\n",
                 inner, inner);
  ptc_nest_decompose(nest, &outer, "run", indent + 2);
  print_inner(nest, pass, "m", "first", "q", indent + 2);
  ptc_c_indent(out, indent + 2);
  ptc_str_append(out, "q += m;\n");
  ptc_c_indent(out, indent);
  ptc_str_append(out, "}\n");
}

// Whether the loop goes in blocks.
static bool needs_blocks(ptc_c_nest_t *nest, const ptc_nest_pass_t *pass) {
  int32_t num_roots;
  ptc_kx_t *roots = roots_of(nest, pass, &num_roots);
  if (pass->num_sums || ptc_nest_has_random(nest, roots, num_roots)) return true;
  for (int32_t i = 0; i < pass->num_accums; ++i)
    if (pass->accums[i].over != PTC_NEST_COLUMN) return true;
  return false;
}

void ptc_nest_print_values(ptc_c_nest_t *nest, const ptc_nest_accum_t *accum, const char *values,
                           int64_t count, int32_t indent) {
  ptc_str_t *out = nest->out;
  const bool long_row = count > PTC_NEST_GROUP;
  if (long_row && nest->kernel->exprs[accum->reduce].reduce == PTC_KX_SUM) {
    ptc_c_indent(out, indent);
    ptc_str_printf(out, "%s group_%s = 0;\n", ptc_nest_partial_type(nest, accum->reduce),
                   accum->name);
  }
  ptc_c_indent(out, indent);
  ptc_str_printf(out, "for (int64_t p0 = 0; p0 < %" PRId64 "; p0 += %d) {\n", count,
                 PTC_NEST_BLOCK);
  ptc_c_indent(out, indent + 2);
  ptc_str_printf(out, "const int64_t n = %" PRId64 " - p0 < %d ? %" PRId64 " - p0 : %d;\n", count,
                 PTC_NEST_BLOCK, count, PTC_NEST_BLOCK);
  if (long_row) {
    ptc_c_indent(out, indent + 2);
    ptc_str_printf(out, "const bool last = p0 + %d >= %" PRId64 ";\n", PTC_NEST_BLOCK, count);
  }
  ptc_c_indent(out, indent + 2);
  ptc_str_printf(out, "const %s *t%d = %s + p0;\n", ptc_nest_block_type(nest, accum->reduce),
                 accum->reduce, values);
  print_block_end(nest, accum, long_row, indent + 2);
  ptc_c_indent(out, indent);
  ptc_str_append(out, "}\n");
}

void ptc_nest_print_pass(ptc_c_nest_t *nest, const ptc_nest_pass_t *pass, const char *begin,
                         const char *end, int32_t indent) {
  ptc_str_t *out = nest->out;
  const bool blocks = needs_blocks(nest, pass);
  const bool long_row = nest->num_row > PTC_NEST_GROUP;
  for (int32_t i = 0; long_row && i < pass->num_accums; ++i)
    if (pass->accums[i].over != PTC_NEST_COLUMN &&
        nest->kernel->exprs[pass->accums[i].reduce].reduce == PTC_KX_SUM) {
      ptc_c_indent(out, indent);
      ptc_str_printf(out, "%s group_%s = 0;\n", ptc_nest_partial_type(nest, pass->accums[i].reduce),
                     pass->accums[i].name);
    }
  ptc_c_indent(out, indent);
  if (blocks) {
    ptc_str_printf(out, "for (int64_t p0 = %s; p0 < %s; p0 += %d) {\n", begin, end, PTC_NEST_BLOCK);
    ptc_c_indent(out, indent + 2);
    ptc_str_printf(out, "const int64_t n = %s - p0 < %d ? %s - p0 : %d;\n", end, PTC_NEST_BLOCK,
                   end, PTC_NEST_BLOCK);
  } else {
    ptc_str_printf(out, "{\n");
    ptc_c_indent(out, indent + 2);
    ptc_str_printf(out, "const int64_t p0 = %s, n = %s - p0;\n", begin, end);
  }
  if (long_row && blocks) {
    ptc_c_indent(out, indent + 2);
    ptc_str_printf(out, "const bool last = p0 + %d >= %s;\n", PTC_NEST_BLOCK, end);
  }
  for (int32_t i = 0; i < pass->num_accums; ++i)
    if (pass->accums[i].over != PTC_NEST_COLUMN && !argmax_of(nest, pass, &pass->accums[i])) {
      ptc_c_indent(out, indent + 2);
      ptc_str_printf(out, "%s t%d[%d];\n", ptc_nest_block_type(nest, pass->accums[i].reduce),
                     pass->accums[i].reduce, PTC_NEST_BLOCK);
    }
  print_sums(nest, pass, indent + 2);
  if (nest->row_loops.count > 1)
    print_runs(nest, pass, indent + 2);
  else
    print_inner(nest, pass, "n", "p0", "", indent + 2);
  for (int32_t i = 0; i < pass->num_accums; ++i)
    if (pass->accums[i].over != PTC_NEST_COLUMN && !argmax_of(nest, pass, &pass->accums[i]))
      print_block_end(nest, &pass->accums[i], long_row, indent + 2);
  ptc_c_indent(out, indent);
  ptc_str_append(out, "}\n");
  for (int32_t i = 0; i < pass->num_accums; ++i) {
    const ptc_nest_accum_t *argmax = argmax_of(nest, pass, &pass->accums[i]);
    if (!argmax) continue;
    ptc_c_indent(out, indent);
    ptc_str_printf(out, "%s = %s;\n", pass->accums[i].name, argmax->name);
  }
}
