// What is done for one row of a nest with reductions: passes, values kept between them, scalars.
#include <inttypes.h>

#include "codegen/c_nest_rows.h"

bool ptc_rows_is_used(const ptc_c_nest_t *nest, ptc_kx_t i) {
  return nest->as_value[i] && nest->kernel->exprs[i].kind == PTC_KX_REDUCE;
}

bool ptc_rows_addend_varies(const ptc_c_nest_t *nest, ptc_kx_t reduce) {
  return (nest->kernel->exprs[nest->kernel->exprs[reduce].args[0]].varies & nest->row) != 0;
}

// Stage in which a reduction's addend is computed.
int32_t ptc_rows_stage_of_addend(const ptc_c_nest_t *nest, ptc_kx_t reduce) {
  return nest->stage[nest->kernel->exprs[reduce].args[0]];
}
static int32_t level_of_addend(const ptc_c_nest_t *nest, ptc_kx_t reduce) {
  return nest->level[nest->kernel->exprs[reduce].args[0]];
}

bool ptc_rows_store_is_scalar(const ptc_c_nest_t *nest, const ptc_kstore_t *store) {
  return !(ptc_nest_store_varies(nest->kernel, store) & nest->row);
}

// Such a store must not come before any load of the row.
static bool store_is_late(const ptc_c_nest_t *nest, const ptc_kstore_t *store) {
  const ptc_kparam_t *param = &nest->kernel->params[store->param];
  return param->mode == PTC_KPARAM_INOUT || param->in_place >= 0;
}

// --- what there is

int32_t ptc_rows_last_level(const ptc_c_nest_t *nest, int32_t stage) {
  int32_t last = -1;
  for (ptc_kx_t i = 0; i < nest->kernel->num_exprs; ++i) {
    if (!ptc_rows_is_used(nest, i) || ptc_rows_stage_of_addend(nest, i) != stage) continue;
    const bool in_row =
        ptc_nest_over(nest, i) != PTC_NEST_COLUMN || ptc_rows_addend_varies(nest, i);
    if (in_row && level_of_addend(nest, i) > last) last = level_of_addend(nest, i);
  }
  for (int32_t i = 0; i < nest->kernel->num_stores; ++i) {
    const ptc_kstore_t *store = &nest->kernel->stores[i];
    if (ptc_nest_store_stage(nest, store) == stage && !ptc_rows_store_is_scalar(nest, store) &&
        ptc_nest_store_level(nest, store) > last)
      last = ptc_nest_store_level(nest, store);
  }
  return last;
}

// --- one row

static void keep_values(ptc_rows_t *p, int32_t stage, const uint32_t *needs) {
  ptc_c_nest_t *nest = p->nest;
  const ptc_kernel_t *kernel = nest->kernel;
  uint32_t *need = PTC_ARENA_ARRAY(nest->arena, uint32_t, kernel->num_exprs + 1);
  for (ptc_kx_t i = 0; i < kernel->num_exprs; ++i) need[i] = needs[i];
  const ptc_nest_loops_t *loops = &nest->row_loops;
  const uint32_t inner = loops->count ? loops->mask[loops->count - 1] : 0;
  for (ptc_kx_t i = kernel->num_exprs - 1; i >= 0; --i) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    if (!need[i] || e->kind == PTC_KX_REDUCE) continue;
    const uint32_t lowest = need[i] & (~need[i] + 1);
    if (need[i] != lowest && (e->varies & inner) && nest->stage[i] == stage && nest->expensive[i] &&
        !p->split) {
      const int64_t bytes = nest->num_row * (ptc_dtype_bytes(e->dtype) > 4 ? 8 : 4);
      if (bytes <= INT64_C(4) << 20) {
        p->kept_name[i] = ptc_arena_printf(nest->arena, "kept%d", i);
        ptc_c_indent(nest->out, 2);
        ptc_str_printf(
            nest->out, "%s *const kept%d = (%s *)((char *)call->scratch + %" PRId64 ");\n",
            ptc_c_type(e->dtype), i, ptc_c_type(e->dtype), ptc_nest_scratch(nest, bytes));
        need[i] = lowest;
      }
    }
    for (int32_t a = 0; a < e->num_args; ++a) need[e->args[a]] |= need[i];
    if (e->kind == PTC_KX_LOAD && e->guard != PTC_KX_NONE) need[e->guard] |= need[i];
  }
}

// Which passes need a root: bit k for pass k.
static uint32_t *root_needs(ptc_rows_t *p, int32_t stage, int32_t last) {
  ptc_c_nest_t *nest = p->nest;
  const ptc_kernel_t *kernel = nest->kernel;
  uint32_t *needs = PTC_ARENA_ARRAY(nest->arena, uint32_t, kernel->num_exprs + 1);
  for (ptc_kx_t i = 0; i < kernel->num_exprs; ++i) {
    if (!ptc_rows_is_used(nest, i) || ptc_rows_stage_of_addend(nest, i) != stage) continue;
    if (ptc_nest_over(nest, i) == PTC_NEST_COLUMN && !ptc_rows_addend_varies(nest, i)) continue;
    needs[kernel->exprs[i].args[0]] |= UINT32_C(1) << level_of_addend(nest, i);
  }
  for (int32_t i = 0; i < kernel->num_stores; ++i) {
    const ptc_kstore_t *store = &kernel->stores[i];
    if (ptc_nest_store_stage(nest, store) != stage || ptc_rows_store_is_scalar(nest, store))
      continue;
    const int32_t pass = store_is_late(nest, store) ? last : ptc_nest_store_level(nest, store);
    needs[store->value] |= UINT32_C(1) << pass;
  }
  return needs;
}

// The accumulators, stores and kept values of pass |k|.
ptc_nest_pass_t ptc_rows_pass_of(ptc_rows_t *p, int32_t stage, int32_t k, int32_t last) {
  ptc_c_nest_t *nest = p->nest;
  const ptc_kernel_t *kernel = nest->kernel;
  const size_t count = (size_t)kernel->num_exprs + 1;
  ptc_nest_pass_t pass = {.kept_name = p->kept_name, .kept_ready = p->kept_ready};
  pass.accums = PTC_ARENA_ARRAY(nest->arena, ptc_nest_accum_t, count);
  pass.sums = PTC_ARENA_ARRAY(nest->arena, ptc_nest_accum_t, count);
  pass.keeps = PTC_ARENA_ARRAY(nest->arena, ptc_kx_t, count);
  pass.stores = PTC_ARENA_ARRAY(nest->arena, const ptc_kstore_t *, kernel->num_stores + 1);
  for (ptc_kx_t i = 0; i < kernel->num_exprs; ++i) {
    if (!ptc_rows_is_used(nest, i)) continue;
    const ptc_nest_over_t over = ptc_nest_over(nest, i);
    if (over == PTC_NEST_COLUMN && !ptc_rows_addend_varies(nest, i)) continue;
    if (stage == 1 && over == PTC_NEST_COLUMN)
      pass.sums[pass.num_sums++] = (ptc_nest_accum_t){i, over, p->partial[i]};
    if (ptc_rows_stage_of_addend(nest, i) != stage || level_of_addend(nest, i) != k) continue;
    const char *name =
        ptc_arena_printf(nest->arena, over == PTC_NEST_COLUMN ? "acc%d" : "sum%d", i);
    pass.accums[pass.num_accums++] = (ptc_nest_accum_t){i, over, name};
  }
  for (int32_t i = 0; i < kernel->num_stores; ++i) {
    const ptc_kstore_t *store = &kernel->stores[i];
    if (ptc_nest_store_stage(nest, store) != stage || ptc_rows_store_is_scalar(nest, store))
      continue;
    if ((store_is_late(nest, store) ? last : ptc_nest_store_level(nest, store)) == k)
      pass.stores[pass.num_stores++] = store;
  }
  return pass;
}

// Marks in nest->visited what |expr| is made of, down to kept values.
static void visit(const ptc_rows_t *p, ptc_kx_t expr) {
  if (expr == PTC_KX_NONE || p->nest->visited[expr]) return;
  p->nest->visited[expr] = true;
  const ptc_kexpr_t *e = &p->nest->kernel->exprs[expr];
  if (e->kind == PTC_KX_REDUCE || (p->kept_name[expr] && p->kept_ready[expr])) return;
  for (int32_t a = 0; a < e->num_args; ++a) visit(p, e->args[a]);
  if (e->kind == PTC_KX_LOAD) visit(p, e->guard);
}

static void find_keeps(ptc_rows_t *p, ptc_nest_pass_t *pass) {
  const ptc_kernel_t *kernel = p->nest->kernel;
  for (ptc_kx_t i = 0; i < kernel->num_exprs; ++i) p->nest->visited[i] = false;
  for (int32_t a = 0; a < pass->num_accums; ++a)
    visit(p, kernel->exprs[pass->accums[a].reduce].args[0]);
  for (int32_t s = 0; s < pass->num_stores; ++s) visit(p, pass->stores[s]->value);
  for (ptc_kx_t i = 0; i < kernel->num_exprs; ++i)
    if (p->kept_name[i] && !p->kept_ready[i] && p->nest->visited[i])
      pass->keeps[pass->num_keeps++] = i;
}

void ptc_rows_hoist(ptc_c_nest_t *nest, const ptc_nest_pass_t *pass, uint32_t inner,
                    int32_t indent) {
  for (int32_t i = 0; i < pass->num_accums; ++i)
    ptc_c_hoist(&nest->scope, nest->kernel->exprs[pass->accums[i].reduce].args[0], inner, indent,
                nest->out);
  for (int32_t i = 0; i < pass->num_stores; ++i) {
    const ptc_kstore_t *store = pass->stores[i];
    ptc_c_hoist(&nest->scope, store->value, inner, indent, nest->out);
    ptc_c_affine_t form = ptc_c_address(nest->kernel, store->param, store->index);
    for (int32_t t = 0; t < form.num_terms; ++t)
      ptc_c_hoist(&nest->scope, form.terms[t], inner, indent, nest->out);
  }
}

// What of |stage| does not vary over the row, as far as it is ready.
static void hoist_scalars(ptc_rows_t *p, int32_t stage, int32_t indent) {
  ptc_c_nest_t *nest = p->nest;
  for (ptc_kx_t i = 0; i < nest->kernel->num_exprs; ++i)
    if (ptc_rows_is_used(nest, i) && ptc_rows_stage_of_addend(nest, i) == stage &&
        ptc_nest_over(nest, i) == PTC_NEST_COLUMN && !ptc_rows_addend_varies(nest, i))
      ptc_c_hoist(&nest->scope, nest->kernel->exprs[i].args[0], nest->row, indent, nest->out);
  for (int32_t i = 0; i < nest->kernel->num_stores; ++i) {
    const ptc_kstore_t *store = &nest->kernel->stores[i];
    if (ptc_nest_store_stage(nest, store) == stage && ptc_rows_store_is_scalar(nest, store))
      ptc_c_hoist(&nest->scope, store->value, nest->row, indent, nest->out);
  }
}

void ptc_rows_declare(ptc_c_nest_t *nest, const ptc_nest_pass_t *pass, ptc_nest_over_t over,
                      int32_t indent) {
  for (int32_t i = 0; i < pass->num_accums; ++i) {
    const ptc_nest_accum_t *accum = &pass->accums[i];
    if (accum->over != over) continue;
    ptc_c_indent(nest->out, indent);
    ptc_str_printf(nest->out, "%s %s = %s;\n", ptc_nest_partial_type(nest, accum->reduce),
                   accum->name, ptc_nest_partial_start(nest, accum->reduce));
    if (nest->kernel->exprs[accum->reduce].reduce != PTC_KX_ARGMAX) continue;
    ptc_c_indent(nest->out, indent);
    ptc_str_printf(nest->out, "int64_t %s_at = -1;\n", accum->name);
  }
}

void ptc_rows_define(ptc_c_nest_t *nest, ptc_kx_t reduce, const char *partial, int32_t indent) {
  ptc_c_indent(nest->out, indent);
  ptc_str_printf(nest->out, "const %s v%d = %s;\n", ptc_c_type(nest->kernel->exprs[reduce].dtype),
                 reduce, ptc_nest_final(nest, reduce, partial));
  nest->scope.value_text[reduce] = ptc_arena_printf(nest->arena, "v%d", reduce);
}

void ptc_rows_print_scalars(ptc_rows_t *p, int32_t stage, int32_t indent) {
  ptc_c_nest_t *nest = p->nest;
  ptc_str_t *out = nest->out;
  for (ptc_kx_t i = 0; i < nest->kernel->num_exprs; ++i) {
    if (!ptc_rows_is_used(nest, i) || ptc_rows_stage_of_addend(nest, i) != stage ||
        ptc_nest_over(nest, i) != PTC_NEST_COLUMN || ptc_rows_addend_varies(nest, i))
      continue;
    const ptc_kx_t value = nest->kernel->exprs[i].args[0];
    ptc_c_eval(&nest->scope, value, indent, out);
    ptc_c_indent(out, indent);
    ptc_str_printf(
        out, "%s[%scol_at] = %s;\n", p->partial[i],
        p->inside ? "" : ptc_arena_printf(nest->arena, "grid_at * %" PRId64 " + ", nest->num_col),
        nest->scope.value_text[value]);
  }
  for (int32_t i = 0; i < nest->kernel->num_stores; ++i) {
    const ptc_kstore_t *store = &nest->kernel->stores[i];
    if (ptc_nest_store_stage(nest, store) == stage && ptc_rows_store_is_scalar(nest, store))
      ptc_c_store(&nest->scope, store, indent, out);
  }
}

// The row program of |stage| over positions [|begin|, |end|).
void ptc_rows_print_program(ptc_rows_t *p, int32_t stage, const char *begin, const char *end,
                            int32_t indent) {
  ptc_c_nest_t *nest = p->nest;
  const int32_t last = ptc_rows_last_level(nest, stage);
  const char **saved = ptc_c_scope_save(&nest->scope);
  for (ptc_kx_t i = 0; i < nest->kernel->num_exprs; ++i) p->kept_ready[i] = false;
  for (int32_t k = 0; k <= last; ++k) {
    ptc_nest_pass_t pass = ptc_rows_pass_of(p, stage, k, last);
    find_keeps(p, &pass);
    if (stage == 1) {
      pass.num_chunks = p->num_chunks;
      pass.sum_stride = ptc_arena_printf(nest->arena, "%" PRId64, nest->num_row);
      pass.sum_base =
          p->inside ? "0" : ptc_arena_printf(nest->arena, "grid_at * %" PRId64, p->num_chunks);
    }
    ptc_rows_hoist(nest, &pass, nest->row, indent);
    hoist_scalars(p, stage, indent);
    ptc_rows_declare(nest, &pass, PTC_NEST_ROW, indent);
    if (pass.num_accums || pass.num_stores) ptc_nest_print_pass(nest, &pass, begin, end, indent);
    for (int32_t i = 0; i < pass.num_keeps; ++i) p->kept_ready[pass.keeps[i]] = true;
    for (int32_t i = 0; i < pass.num_accums; ++i)
      if (pass.accums[i].over == PTC_NEST_ROW)
        ptc_rows_define(nest, pass.accums[i].reduce, pass.accums[i].name, indent);
  }
  ptc_rows_print_scalars(p, stage, indent);
  ptc_c_scope_restore(&nest->scope, saved);
}

void ptc_rows_plan_keeps(ptc_rows_t *p, int32_t stage) {
  const int32_t last = ptc_rows_last_level(p->nest, stage);
  if (last >= 1) keep_values(p, stage, root_needs(p, stage, last));
}
