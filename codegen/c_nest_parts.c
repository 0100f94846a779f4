// Parts of a kernel that share no data are printed apart, in phases of their own, so that each has the loops that
// suit it.
#include "codegen/c_nest.h"

enum { MAX_PARAMS = PTC_KERNEL_MAX_PARAMS + PTC_NEST_MAX_TABLES + PTC_NEST_MAX_SUMS };

typedef struct grouping_s {
  const ptc_kernel_t *kernel;
  int32_t num_own;  // parameters that are not tables
  int32_t *group;   // per store
  bool *seen;
} grouping_t;

static bool is_written(const ptc_kernel_t *kernel, int32_t param) {
  if (kernel->params[param].mode != PTC_KPARAM_IN) return true;
  for (int32_t i = 0; i < kernel->num_params; ++i)
    if (kernel->params[i].mode == PTC_KPARAM_OUT && kernel->params[i].in_place == param)
      return true;
  return false;
}

// The parameters that tie |expr| to others that read them, in |ties|.
static void find_ties(grouping_t *g, ptc_kx_t expr, bool *ties) {
  if (expr == PTC_KX_NONE || g->seen[expr]) return;
  g->seen[expr] = true;
  const ptc_kexpr_t *e = &g->kernel->exprs[expr];
  if (e->kind == PTC_KX_LOAD) {
    find_ties(g, e->guard, ties);
    if (e->param < g->num_own && (e->varies || is_written(g->kernel, e->param)))
      ties[e->param] = true;
  }
  for (int32_t i = 0; i < e->num_args; ++i) find_ties(g, e->args[i], ties);
}

// Numbers the groups of stores from 0; how many there are.
static int32_t group_stores(ptc_arena_t *arena, grouping_t *g) {
  const ptc_kernel_t *kernel = g->kernel;
  int32_t owner[MAX_PARAMS];  // the first store tied to a parameter
  for (int32_t i = 0; i < MAX_PARAMS; ++i) owner[i] = -1;
  for (int32_t i = 0; i < kernel->num_stores; ++i) {
    const ptc_kstore_t *store = &kernel->stores[i];
    bool ties[MAX_PARAMS] = {false};
    g->seen = PTC_ARENA_ARRAY(arena, bool, kernel->num_exprs + 1);
    find_ties(g, store->value, ties);
    for (int32_t d = 0; d < kernel->params[store->param].num_dims; ++d)
      find_ties(g, store->index[d], ties);
    ties[store->param] = true;
    if (kernel->params[store->param].in_place >= 0)
      ties[kernel->params[store->param].in_place] = true;
    g->group[i] = i;
    for (int32_t p = 0; p < g->num_own; ++p) {
      if (!ties[p]) continue;
      if (owner[p] < 0) {
        owner[p] = i;
        continue;
      }
      const int32_t from = g->group[owner[p]], to = g->group[i];
      for (int32_t k = 0; k <= i; ++k)
        if (g->group[k] == from) g->group[k] = to;
    }
  }
  int32_t count = 0;
  for (int32_t i = 0; i < kernel->num_stores; ++i) {
    if (g->group[i] < 0) continue;
    const int32_t old = g->group[i];
    for (int32_t k = i; k < kernel->num_stores; ++k)
      if (g->group[k] == old) g->group[k] = -1 - count;
    ++count;
  }
  for (int32_t i = 0; i < kernel->num_stores; ++i) g->group[i] = -1 - g->group[i];
  return count;
}

int32_t ptc_nest_split(ptc_arena_t *arena, const ptc_kernel_t *kernel, int32_t num_own,
                       ptc_kernel_t *out_parts) {
  grouping_t g = {.kernel = kernel, .num_own = num_own};
  g.group = PTC_ARENA_ARRAY(arena, int32_t, kernel->num_stores + 1);
  const int32_t count = group_stores(arena, &g);
  for (int32_t part = 0; part < count; ++part) {
    out_parts[part] = *kernel;
    out_parts[part].stores = PTC_ARENA_ARRAY(arena, ptc_kstore_t, kernel->num_stores + 1);
    out_parts[part].num_stores = 0;
    for (int32_t i = 0; i < kernel->num_stores; ++i)
      if (g.group[i] == part)
        out_parts[part].stores[out_parts[part].num_stores++] = kernel->stores[i];
  }
  return count;
}
