// Values that take long and vary over few of the dims (the angles of rope) are computed once, into tables in the
// workspace, before the rest of the kernel reads them; likewise sums over everything, so that each can have loops
// that suit it.
#include "codegen/c_nest.h"

enum { MAX_TABLE_ELEMENTS = 1 << 22, MIN_REPEATS = 2 };
static const double MIN_NS = 4;

static double points_of(const ptc_kernel_t *kernel, uint32_t mask) {
  double points = 1;
  for (int32_t d = 0; d < kernel->num_dims; ++d)
    if (mask >> d & 1) points *= (double)kernel->dims[d].extent;
  return points;
}

typedef struct search_s {
  const ptc_kernel_t *kernel;
  bool *bound;  // holds a reduction, a random number or a hole
  bool *needed, *seen;
  double *user_points;  // at how many points the values made of it are computed
} search_t;

static double cost_of(search_t *s, ptc_kx_t expr) {
  const ptc_kexpr_t *e = &s->kernel->exprs[expr];
  if (s->seen[expr] || !e->varies) return 0;
  s->seen[expr] = true;
  double ns = ptc_nest_expr_ns(s->kernel, e);
  for (int32_t i = 0; i < e->num_args; ++i) ns += cost_of(s, e->args[i]);
  return ns;
}

static bool is_worth_it(search_t *s, ptc_kx_t expr) {
  const ptc_kexpr_t *e = &s->kernel->exprs[expr];
  if (s->bound[expr] || e->kind != PTC_KX_OP || !e->varies) return false;
  const double points = points_of(s->kernel, e->varies);
  if (points > MAX_TABLE_ELEMENTS || s->user_points[expr] < MIN_REPEATS * points) return false;
  for (ptc_kx_t i = 0; i <= expr; ++i) s->seen[i] = false;
  return cost_of(s, expr) >= MIN_NS;
}

static void need(search_t *s, ptc_kx_t expr, double points) {
  if (expr == PTC_KX_NONE) return;
  s->needed[expr] = true;
  if (s->user_points[expr] < points) s->user_points[expr] = points;
}

// The largest expressions that are worth a table; their number.
static int32_t find_tables(ptc_arena_t *arena, const ptc_kernel_t *kernel, ptc_kx_t *out) {
  const size_t count = (size_t)kernel->num_exprs + 1;
  search_t s = {.kernel = kernel,
                .bound = PTC_ARENA_ARRAY(arena, bool, count),
                .needed = PTC_ARENA_ARRAY(arena, bool, count),
                .seen = PTC_ARENA_ARRAY(arena, bool, count),
                .user_points = PTC_ARENA_ARRAY(arena, double, count)};
  for (ptc_kx_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    s.bound[i] = e->kind == PTC_KX_REDUCE || e->kind == PTC_KX_RANDOM || e->kind == PTC_KX_HOLE;
    for (int32_t a = 0; a < e->num_args; ++a) s.bound[i] |= s.bound[e->args[a]];
    if (e->kind == PTC_KX_LOAD && e->guard != PTC_KX_NONE) s.bound[i] |= s.bound[e->guard];
  }
  for (int32_t i = 0; i < kernel->num_stores; ++i) {
    const ptc_kstore_t *store = &kernel->stores[i];
    const double points = points_of(kernel, ptc_nest_store_varies(kernel, store));
    need(&s, store->value, points);
    for (int32_t d = 0; d < kernel->params[store->param].num_dims; ++d)
      need(&s, store->index[d], points);
  }
  int32_t found = 0;
  for (ptc_kx_t i = kernel->num_exprs - 1; i >= 0; --i) {
    if (!s.needed[i]) continue;
    const ptc_kexpr_t *e = &kernel->exprs[i];
    if (found < PTC_NEST_MAX_TABLES && is_worth_it(&s, i)) {
      out[found++] = i;
      continue;
    }
    const uint32_t at = e->kind == PTC_KX_REDUCE ? e->varies | e->over : e->varies;
    for (int32_t a = 0; a < e->num_args; ++a) need(&s, e->args[a], points_of(kernel, at));
    if (e->kind == PTC_KX_LOAD) need(&s, e->guard, points_of(kernel, at));
  }
  return found;
}

static ptc_dtype_t table_dtype(ptc_dtype_t dtype) {
  return dtype == PTC_F16 || dtype == PTC_BF16 ? PTC_F32 : dtype;
}

// Splits |kernel| at |roots|: |out_tables| stores their values in tables, |out_rest| loads them.
static void cut(ptc_arena_t *arena, const ptc_kernel_t *kernel, const ptc_kx_t *roots,
                int32_t count, ptc_kernel_t *out_tables, ptc_kernel_t *out_rest) {
  *out_rest = *out_tables = *kernel;
  const int32_t num_exprs = kernel->num_exprs + kernel->num_dims;
  ptc_kexpr_t *exprs = PTC_ARENA_ARRAY(arena, ptc_kexpr_t, num_exprs);
  ptc_kexpr_t *rest = PTC_ARENA_ARRAY(arena, ptc_kexpr_t, num_exprs);
  for (ptc_kx_t i = 0; i < kernel->num_exprs; ++i) exprs[i] = kernel->exprs[i];
  for (int32_t d = 0; d < kernel->num_dims; ++d)
    exprs[kernel->num_exprs + d] = (ptc_kexpr_t){.kind = PTC_KX_INDEX,
                                                 .dtype = PTC_I32,
                                                 .dim = d,
                                                 .varies = UINT32_C(1) << d,
                                                 .guard = PTC_KX_NONE};
  for (ptc_kx_t i = 0; i < num_exprs; ++i) rest[i] = exprs[i];
  const int32_t num_params = kernel->num_params + count;
  ptc_kparam_t *params = PTC_ARENA_ARRAY(arena, ptc_kparam_t, num_params);
  ptc_kparam_t *written = PTC_ARENA_ARRAY(arena, ptc_kparam_t, num_params);
  ptc_kstore_t *stores = PTC_ARENA_ARRAY(arena, ptc_kstore_t, count);
  for (int32_t i = 0; i < kernel->num_params; ++i) written[i] = params[i] = kernel->params[i];
  for (int32_t t = 0; t < count; ++t) {
    const ptc_kexpr_t *e = &kernel->exprs[roots[t]];
    ptc_kparam_t *param = &params[kernel->num_params + t];
    *param = (ptc_kparam_t){.name = ptc_arena_printf(arena, "table%d", roots[t]),
                            .dtype = table_dtype(e->dtype),
                            .mode = PTC_KPARAM_IN,
                            .in_place = -1};
    ptc_kx_t *index = PTC_ARENA_ARRAY(arena, ptc_kx_t, PTC_MAX_DIMS);
    for (int32_t d = 0; d < kernel->num_dims && param->num_dims < PTC_MAX_DIMS; ++d) {
      if (!(e->varies >> d & 1)) continue;
      index[param->num_dims] = kernel->num_exprs + d;
      param->extents[param->num_dims++] = kernel->dims[d].extent;
    }
    written[kernel->num_params + t] = *param;
    written[kernel->num_params + t].mode = PTC_KPARAM_OUT;
    stores[t] = (ptc_kstore_t){.param = kernel->num_params + t, .index = index, .value = roots[t]};
    rest[roots[t]] = (ptc_kexpr_t){.kind = PTC_KX_LOAD,
                                   .dtype = e->dtype,
                                   .param = kernel->num_params + t,
                                   .varies = e->varies,
                                   .guard = PTC_KX_NONE,
                                   .num_args = param->num_dims,
                                   .args = index};
  }
  out_tables->params = written;
  out_tables->num_params = out_rest->num_params = num_params;
  out_tables->exprs = exprs;
  out_tables->num_exprs = out_rest->num_exprs = num_exprs;
  out_tables->stores = stores;
  out_tables->num_stores = count;
  out_rest->params = params;
  out_rest->exprs = rest;
}

int32_t ptc_nest_make_tables(ptc_arena_t *arena, const ptc_kernel_t *kernel,
                             ptc_kernel_t *out_tables, ptc_kernel_t *out_rest) {
  ptc_kx_t roots[PTC_NEST_MAX_TABLES];
  const int32_t count = find_tables(arena, kernel, roots);
  *out_rest = *kernel;
  if (count) cut(arena, kernel, roots, count, out_tables, out_rest);
  return count;
}

// --- sums over everything

// Which expressions hold a marked one, or a load of a parameter of which |written| says so.
static bool *find_holders(ptc_arena_t *arena, const ptc_kernel_t *kernel, const bool *marked,
                          const bool *written) {
  bool *holds = PTC_ARENA_ARRAY(arena, bool, kernel->num_exprs + 1);
  // Loads of tables have operands with larger numbers, but these are plain indices.
  for (ptc_kx_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    holds[i] = (marked && marked[i]) || (e->kind == PTC_KX_LOAD && written && written[e->param]);
    for (int32_t a = 0; a < e->num_args; ++a) holds[i] |= holds[e->args[a]];
    if (e->kind == PTC_KX_LOAD && e->guard != PTC_KX_NONE) holds[i] |= holds[e->guard];
  }
  return holds;
}

static bool store_holds(const ptc_kernel_t *kernel, const ptc_kstore_t *store, const bool *holds) {
  bool found = holds[store->value];
  for (int32_t i = 0; i < kernel->params[store->param].num_dims; ++i)
    found |= holds[store->index[i]];
  return found;
}

int32_t ptc_nest_cut_sums(ptc_arena_t *arena, const ptc_kernel_t *kernel, ptc_kernel_t *out_sums,
                          ptc_kernel_t *out_rest) {
  bool *marked = PTC_ARENA_ARRAY(arena, bool, kernel->num_exprs + 1);
  ptc_kx_t *roots = PTC_ARENA_ARRAY(arena, ptc_kx_t, PTC_NEST_MAX_SUMS);
  int32_t count = 0;
  *out_rest = *kernel;
  for (ptc_kx_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    if (e->kind != PTC_KX_REDUCE || e->varies) continue;
    if (count == PTC_NEST_MAX_SUMS) return 0;
    roots[count++] = i;
    marked[i] = true;
  }
  if (count < 2) return 0;
  // One that waits for another would need a phase of its own.
  const bool *waits = find_holders(arena, kernel, marked, NULL);
  for (int32_t t = 0; t < count; ++t)
    if (waits[kernel->exprs[roots[t]].args[0]]) return 0;
  // Stores that wait for a sum come after all others; they must not read what these write.
  bool *written = PTC_ARENA_ARRAY(arena, bool, kernel->num_params + PTC_NEST_MAX_SUMS);
  bool *late = PTC_ARENA_ARRAY(arena, bool, kernel->num_stores + 1);
  for (int32_t i = 0; i < kernel->num_stores; ++i) {
    const ptc_kstore_t *store = &kernel->stores[i];
    late[i] = store_holds(kernel, store, waits);
    if (late[i]) continue;
    written[store->param] = true;
    if (kernel->params[store->param].in_place >= 0)
      written[kernel->params[store->param].in_place] = true;
  }
  cut(arena, kernel, roots, count, out_sums, out_rest);
  ptc_kstore_t *early = PTC_ARENA_ARRAY(arena, ptc_kstore_t, kernel->num_stores + count);
  ptc_kstore_t *rest = PTC_ARENA_ARRAY(arena, ptc_kstore_t, kernel->num_stores + 1);
  for (int32_t t = 0; t < count; ++t) early[t] = out_sums->stores[t];
  out_sums->stores = early;
  out_rest->stores = rest;
  out_rest->num_stores = 0;
  for (int32_t i = 0; i < kernel->num_stores; ++i) {
    const ptc_kstore_t *store = &kernel->stores[i];
    if (!late[i])
      early[out_sums->num_stores++] = *store;
    else
      rest[out_rest->num_stores++] = *store;
  }
  const bool *reads = find_holders(arena, out_rest, NULL, written);
  for (int32_t i = 0; i < out_rest->num_stores; ++i)
    if (store_holds(out_rest, &rest[i], reads)) {
      *out_rest = *kernel;
      return 0;
    }
  return count;
}
