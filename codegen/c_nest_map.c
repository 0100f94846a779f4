// Kernels without reductions: one phase; the loops in the order in which the main result lies in memory, the
// innermost one vectorized; operands that lie across it are turned in blocks that stay in cache.
#include <inttypes.h>
#include <string.h>

#include "codegen/c_nest.h"

static double store_bytes(const ptc_kernel_t *kernel, const ptc_kstore_t *store) {
  double bytes = (double)ptc_dtype_bytes(kernel->params[store->param].dtype);
  const uint32_t varies = ptc_nest_store_varies(kernel, store);
  for (int32_t d = 0; d < kernel->num_dims; ++d)
    if (varies >> d & 1) bytes *= (double)kernel->dims[d].extent;
  return bytes;
}

int32_t ptc_nest_order_dims(const ptc_kernel_t *kernel, uint32_t mask, const ptc_c_affine_t *form,
                            int32_t *dims) {
  int32_t count = 0;
  for (int32_t d = 0; d < kernel->num_dims; ++d) {
    if (!(mask >> d & 1)) continue;
    int32_t at = count++;
    const int64_t coef = form->coef[d] ? form->coef[d] : INT64_MAX;
    for (; at > 0; --at) {
      const int64_t before = form->coef[dims[at - 1]];
      if ((before ? before : INT64_MAX) >= coef) break;
      dims[at] = dims[at - 1];
    }
    dims[at] = d;
  }
  return count;
}

static ptc_kx_t *all_roots(ptc_c_nest_t *nest, const ptc_kstore_t *const *stores,
                           int32_t num_stores, int32_t *out_count) {
  ptc_kx_t *roots = PTC_ARENA_ARRAY(nest->arena, ptc_kx_t, num_stores * (PTC_C_MAX_TERMS + 1) + 1);
  int32_t n = 0;
  for (int32_t i = 0; i < num_stores; ++i) {
    roots[n++] = stores[i]->value;
    ptc_c_affine_t form = ptc_c_address(nest->kernel, stores[i]->param, stores[i]->index);
    for (int32_t t = 0; t < form.num_terms; ++t) roots[n++] = form.terms[t];
  }
  *out_count = n;
  return roots;
}

static void hoist(ptc_c_nest_t *nest, const ptc_kx_t *roots, int32_t num_roots, uint32_t inner,
                  int32_t indent) {
  for (int32_t i = 0; i < num_roots; ++i)
    ptc_c_hoist(&nest->scope, roots[i], inner, indent, nest->out);
}

// for the inner loop's index in [|begin|, |end|) (C variables): all stores.
static void print_inner(ptc_c_nest_t *nest, const ptc_nest_loops_t *loops,
                        const ptc_kstore_t *const *stores, int32_t num_stores, int32_t indent) {
  ptc_c_scope_t *scope = &nest->scope;
  ptc_str_t *out = nest->out;
  const int32_t inner = loops->count ? loops->dim[loops->count - 1] : -1;
  const uint32_t mask = loops->count ? loops->mask[loops->count - 1] : 0;
  int32_t num_roots;
  ptc_kx_t *roots = all_roots(nest, stores, num_stores, &num_roots);
  hoist(nest, roots, num_roots, mask, indent);
  const bool random = inner >= 0 && ptc_nest_has_random(nest, roots, num_roots);
  const char *begin = "begin", *end = "end";
  if (random) {
    ptc_c_indent(out, indent);
    ptc_str_printf(out, "for (int64_t block = begin; block < end; block += %d) {\n",
                   PTC_NEST_BLOCK);
    ptc_c_indent(out, indent + 2);
    ptc_str_printf(out, "const int64_t n = end - block < %d ? end - block : %d;\n", PTC_NEST_BLOCK,
                   PTC_NEST_BLOCK);
    indent += 2;
    ptc_nest_random_words(nest, roots, num_roots, inner, "block", "n", indent);
  }
  const bool checked = ptc_nest_has_checked(nest, roots, num_roots);
  if (checked) {
    ptc_c_indent(out, indent);
    ptc_str_append(out, "int32_t bad = 0;\n");
    scope->fault_text = "bad";
  }
  int32_t body = indent;
  if (inner >= 0) {
    const char *index = scope->index_text[inner];
    ptc_str_printf(out, "#pragma omp simd%s\n", checked ? " reduction(| : bad)" : "");
    ptc_c_indent(out, indent);
    if (random) {
      ptc_str_append(out, "for (int64_t j = 0; j < n; ++j) {\n");
      ptc_c_indent(out, indent + 2);
      ptc_str_printf(out, "const int64_t %s = block + j;\n", index);
    } else {
      ptc_str_printf(out, "for (int64_t %s = %s; %s < %s; ++%s) {\n", index, begin, index, end,
                     index);
    }
    body += 2;
  }
  for (int32_t i = 0; i < num_roots; ++i) ptc_c_eval(scope, roots[i], body, out);
  for (int32_t i = 0; i < num_stores; ++i) ptc_c_store(scope, stores[i], body, out);
  if (inner >= 0) {
    ptc_c_indent(out, indent);
    ptc_str_append(out, "}\n");
  }
  if (checked) {
    ptc_c_indent(out, indent);
    ptc_str_append(out, "if (bad) ptc_fault(call);\n");
    scope->fault_text = NULL;
  }
  if (random) {
    ptc_c_indent(out, indent - 2);
    ptc_str_append(out, "}\n");
  }
  ptc_nest_forget_words(nest);
}

// Tiles of about 50 us, at least 16 if they take 5 us each.
static int64_t points_per_tile(int64_t points, double ns) {
  int64_t per_tile = (int64_t)(50e3 / ns);
  if (ns * (double)points > 80e3 && per_tile > points / 16) per_tile = points / 16;
  if (per_tile < points / 1024) per_tile = points / 1024;
  return (per_tile + 1023) / 1024 * 1024;
}

// --- operands that lie across the innermost loop

enum { TURN = 32 };  // rows and columns of a block

// The loop along which most loads are contiguous although the stores are not, or -1.
static int32_t across_loop(const ptc_c_nest_t *nest, const ptc_nest_loops_t *loops) {
  if (loops->count < 2) return -1;
  const int32_t inner = loops->dim[loops->count - 1];
  if (loops->extent[loops->count - 1] < 8) return -1;
  for (ptc_kx_t i = 0; i < nest->kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = &nest->kernel->exprs[i];
    if (e->kind != PTC_KX_LOAD || !nest->as_value[i]) continue;
    ptc_c_affine_t form = ptc_c_address(nest->kernel, e->param, e->args);
    if (form.coef[inner] == 0 || form.coef[inner] == 1) continue;
    for (int32_t l = 0; l < loops->count - 1; ++l)
      if (form.coef[loops->dim[l]] == 1 && loops->extent[l] >= 8) return l;
  }
  return -1;
}

// Loads that can be turned: plain, contiguous along |across|, not along |inner|.
static bool can_turn(const ptc_c_nest_t *nest, ptc_kx_t expr, int32_t across, int32_t inner) {
  const ptc_kexpr_t *e = &nest->kernel->exprs[expr];
  if (e->kind != PTC_KX_LOAD || !nest->as_value[expr] || e->guard != PTC_KX_NONE || e->checked)
    return false;
  ptc_c_affine_t form = ptc_c_address(nest->kernel, e->param, e->args);
  return form.num_terms == 0 && form.coef[across] == 1 && form.coef[inner] != 0 &&
         form.coef[inner] != 1;
}

static void print_turned(ptc_c_nest_t *nest, const ptc_nest_loops_t *loops, int32_t across,
                         const ptc_kstore_t *const *stores, int32_t num_stores) {
  ptc_c_scope_t *scope = &nest->scope;
  ptc_str_t *out = nest->out;
  const int32_t inner = loops->dim[loops->count - 1], turned = loops->dim[across];
  const char *i_name = scope->index_text[inner], *a_name = scope->index_text[turned];
  ptc_str_append(out, "    // Blocks are read along one dim and written along the other.\n");
  ptc_str_printf(
      out, "    const int64_t a_end = %s_block + %d < %" PRId64 " ? %s_block + %d : %" PRId64 ";\n",
      a_name, TURN, loops->extent[across], a_name, TURN, loops->extent[across]);
  ptc_str_printf(out, "    for (int64_t begin = first; begin < last; begin += %d) {\n", TURN);
  ptc_str_printf(out, "      const int64_t end = begin + %d < last ? begin + %d : last;\n", TURN,
                 TURN);
  for (ptc_kx_t i = 0; i < nest->kernel->num_exprs; ++i) {
    if (!can_turn(nest, i, turned, inner)) continue;
    const ptc_kexpr_t *e = &nest->kernel->exprs[i];
    const char *type = ptc_c_storage_type(nest->kernel->params[e->param].dtype);
    ptc_c_affine_t form = ptc_c_address(nest->kernel, e->param, e->args);
    ptc_str_printf(out, "      %s turned%d[%d][%d];\n", type, i, TURN, TURN);
    ptc_str_printf(out, "      for (int64_t %s = begin; %s < end; ++%s)\n", i_name, i_name, i_name);
    ptc_str_printf(out, "        for (int64_t %s = %s_block; %s < a_end; ++%s)\n", a_name, a_name,
                   a_name, a_name);
    ptc_str_printf(out, "          turned%d[%s - %s_block][%s - begin] = %s[%s];\n", i, a_name,
                   a_name, i_name, ptc_c_param_name(nest->arena, nest->kernel, e->param),
                   ptc_c_affine_text(scope, &form));
  }
  ptc_str_printf(out, "      for (int64_t %s = %s_block; %s < a_end; ++%s) {\n", a_name, a_name,
                 a_name, a_name);
  for (ptc_kx_t i = 0; i < nest->kernel->num_exprs; ++i)
    if (can_turn(nest, i, turned, inner)) {
      const char *text = ptc_arena_printf(nest->arena, "turned%d[%s - %s_block][%s - begin]", i,
                                          a_name, a_name, i_name);
      const ptc_dtype_t dtype = nest->kernel->exprs[i].dtype;
      scope->value_text[i] =
          ptc_arena_printf(nest->arena, "(%s)", ptc_c_from_storage(nest->arena, dtype, text));
    }
  print_inner(nest, loops, stores, num_stores, 8);
  ptc_str_append(out, "      }\n    }\n");
}

// --- the tiles

static void print_tiles(ptc_c_nest_t *nest, const ptc_nest_loops_t *loops,
                        const ptc_kstore_t *const *stores, int32_t num_stores, int64_t *tiles) {
  ptc_str_t *out = nest->out;
  const int64_t inner = loops->count ? loops->extent[loops->count - 1] : 1;
  const int32_t across = across_loop(nest, loops);
  ptc_nest_loops_t outer = *loops;
  if (outer.count) --outer.count;
  const char **saved = ptc_c_scope_save(&nest->scope);
  int32_t num_roots;
  ptc_kx_t *roots = all_roots(nest, stores, num_stores, &num_roots);
  hoist(nest, roots, num_roots, ~UINT32_C(0), 2);
  int64_t width = 1;
  if (across >= 0) {
    width = TURN;
    outer.extent[across] = (outer.extent[across] + TURN - 1) / TURN;
  }
  const int64_t rows = ptc_nest_points(&outer), points = rows * inner * width;
  const int64_t per_tile = points_per_tile(points, nest->element_ns) / width;
  // A tile is a part of one row, or several rows.
  int64_t pieces = inner > per_tile ? (inner + per_tile - 1) / per_tile : 1;
  const int64_t piece = (((inner + pieces - 1) / pieces) + 15) / 16 * 16;
  pieces = inner ? (inner + piece - 1) / piece : 0;
  int64_t group = pieces == 1 && inner ? per_tile / inner : 1;
  if (group > (rows + 15) / 16 && nest->element_ns * (double)points > 80e3)
    group = (rows + 15) / 16;
  if (group < 1) group = 1;
  *tiles = pieces * ((rows + group - 1) / group);
  if (pieces > 1) {
    ptc_str_printf(out, "  const int64_t first = %s;\n",
                   ptc_nest_part(nest->arena, "tile", 1, pieces, piece));
    ptc_str_printf(out, "  const int64_t last = %s;\n",
                   ptc_nest_limit(nest->arena, "first", piece, inner));
  } else {
    ptc_str_printf(out, "  const int64_t first = 0, last = %" PRId64 ";\n", inner);
  }
  ptc_str_printf(out, "  const int64_t at_begin = %s;\n",
                 ptc_nest_part(nest->arena, "tile", pieces, rows == 1, group));
  ptc_str_printf(out, "  const int64_t at_end = %s;\n",
                 ptc_nest_limit(nest->arena, "at_begin", group, rows));
  ptc_str_append(out, "  for (int64_t at = at_begin; at < at_end; ++at) {\n");
  if (across >= 0) {
    const char *name = nest->scope.index_text[outer.dim[across]];
    nest->scope.index_text[outer.dim[across]] = ptc_arena_printf(nest->arena, "%s_at", name);
    ptc_nest_decompose(nest, &outer, "at", 4);
    nest->scope.index_text[outer.dim[across]] = name;
    ptc_str_printf(out, "    const int64_t %s_block = %s_at * %d;\n", name, name, TURN);
    print_turned(nest, loops, across, stores, num_stores);
  } else {
    ptc_nest_decompose(nest, &outer, "at", 4);
    ptc_str_append(out, "    const int64_t begin = first, end = last;\n");
    print_inner(nest, loops, stores, num_stores, 4);
  }
  ptc_str_append(out, "  }\n");
  ptc_c_scope_restore(&nest->scope, saved);
}

// Stores over other dims have loops of their own, a phase each; the largest is last, as it may take the bytes of an
// operand.
void ptc_nest_print_map(ptc_c_nest_t *nest, ptc_kernel_shape_t *out_shape) {
  const ptc_kernel_t *kernel = nest->kernel;
  ptc_phase_run_t *run = PTC_ARENA_NEW(nest->arena, ptc_phase_run_t);
  int64_t *tiles = PTC_ARENA_ARRAY(nest->arena, int64_t, kernel->num_stores + 1);
  bool *done = PTC_ARENA_ARRAY(nest->arena, bool, kernel->num_stores + 1);
  *run = (ptc_phase_run_t){.count = 1, .tiles = tiles};
  *out_shape = (ptc_kernel_shape_t){.num_runs = 1, .runs = run};
  for (int32_t rest = kernel->num_stores; rest > 0;) {
    const ptc_kstore_t *store = NULL;
    for (int32_t i = 0; i < kernel->num_stores; ++i)
      if (!done[i] &&
          (!store || store_bytes(kernel, &kernel->stores[i]) < store_bytes(kernel, store)))
        store = &kernel->stores[i];
    const uint32_t varies = ptc_nest_store_varies(kernel, store);
    const ptc_kstore_t **stores =
        PTC_ARENA_ARRAY(nest->arena, const ptc_kstore_t *, kernel->num_stores);
    int32_t num_stores = 0;
    for (int32_t i = 0; i < kernel->num_stores; ++i) {
      if (done[i] || ptc_nest_store_varies(kernel, &kernel->stores[i]) != varies) continue;
      stores[num_stores++] = &kernel->stores[i];
      done[i] = true;
      --rest;
    }
    int32_t dims[PTC_KERNEL_MAX_DIMS];
    ptc_c_affine_t form = ptc_c_address(kernel, store->param, store->index);
    const int32_t count = ptc_nest_order_dims(kernel, varies, &form, dims);
    for (int32_t d = 0; d < kernel->num_dims; ++d)
      nest->scope.index_text[d] = ptc_c_index_name(nest->arena, kernel, d);
    ptc_nest_loops_t loops = ptc_nest_merge(nest, dims, count);
    const bool alone = run->num_phases == 0 && rest == 0;
    if (!alone) ptc_str_printf(nest->out, "  if (phase == %d) {\n", run->num_phases);
    print_tiles(nest, &loops, stores, num_stores, &tiles[run->num_phases++]);
    if (!alone) ptc_str_append(nest->out, "  }\n");
  }
}
