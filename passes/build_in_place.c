// Which results may take the bytes of an operand: each element is read before it is written, by the point that
// writes it, and by nothing later.
#include "passes/build_impl.h"

typedef struct places_s {
  const ptc_kernel_t *kernel;
  int32_t *stage;  // per expression: how many reductions, one behind the other, are below it
  bool *reads;     // per expression: reads the operand other than through a reduction
} places_t;

static void find_stages(places_t *p) {
  for (ptc_kx_t i = 0; i < p->kernel->num_exprs; i++) {
    const ptc_kexpr_t *e = &p->kernel->exprs[i];
    int32_t most = e->kind == PTC_KX_LOAD && e->guard >= 0 ? p->stage[e->guard] : 0;
    for (int32_t a = 0; a < e->num_args; a++)
      if (p->stage[e->args[a]] > most) most = p->stage[e->args[a]];
    p->stage[i] = most + (e->kind == PTC_KX_REDUCE);
  }
}

static bool same_index(const ptc_kernel_t *kernel, const ptc_kstore_t *store,
                       const ptc_kexpr_t *load) {
  for (int32_t d = 0; d < kernel->params[store->param].num_dims; d++)
    if (load->args[d] != store->index[d]) return false;
  return true;
}

// Marks what reads parameter |param|; false if something reads it elsewhere than where |store| writes.
static bool find_reads(places_t *p, int32_t param, const ptc_kstore_t *store) {
  for (ptc_kx_t i = 0; i < p->kernel->num_exprs; i++) {
    const ptc_kexpr_t *e = &p->kernel->exprs[i];
    p->reads[i] = e->kind == PTC_KX_LOAD && e->param == param;
    if (p->reads[i] && (e->guard >= 0 || !same_index(p->kernel, store, e))) return false;
    for (int32_t a = 0; a < e->num_args && e->kind != PTC_KX_REDUCE; a++)
      p->reads[i] |= p->reads[e->args[a]];
  }
  return true;
}

static bool may_take(places_t *p, const ptc_kstore_t *store, int32_t param) {
  const ptc_kernel_t *kernel = p->kernel;
  const ptc_kparam_t *out = &kernel->params[store->param], *in = &kernel->params[param];
  bool fits = in->mode == PTC_KPARAM_IN && in->dtype == out->dtype && in->num_dims == out->num_dims;
  for (int32_t d = 0; fits && d < in->num_dims; d++) fits = in->extents[d] == out->extents[d];
  // Sums over columns may be a phase of their own, which reads its operands again.
  if (!fits || (kernel->num_col > 0 && in->num_dims > 0)) return false;
  if (!find_reads(p, param, store)) return false;
  if (kernel->kind == PTC_KERNEL_GEMM && (p->reads[kernel->gemm.a] || p->reads[kernel->gemm.b]))
    return false;
  if (!p->reads[store->value]) return false;
  // Passes over rows come in the order of stages.
  const int32_t stage = p->stage[store->value];
  for (ptc_kx_t i = 0; i < kernel->num_exprs; i++) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    if (e->kind == PTC_KX_REDUCE && p->reads[e->args[0]] && p->stage[e->args[0]] >= stage)
      return false;
  }
  for (int32_t i = 0; i < kernel->num_stores; i++) {
    const ptc_kstore_t *other = &kernel->stores[i];
    if (other != store && p->reads[other->value]) return false;
  }
  return true;
}

void ptc_kbuild_in_place(ptc_kbuild_t *b) {
  ptc_kernel_t *kernel = b->kb.kernel;
  if (kernel->kind != PTC_KERNEL_NEST && kernel->kind != PTC_KERNEL_GEMM) return;
  places_t p = {.kernel = kernel};
  p.stage = PTC_ARENA_ARRAY(b->arena, int32_t, kernel->num_exprs + 1);
  p.reads = PTC_ARENA_ARRAY(b->arena, bool, kernel->num_exprs + 1);
  find_stages(&p);
  bool taken[PTC_KERNEL_MAX_PARAMS] = {false};
  for (int32_t i = 0; i < kernel->num_stores; i++) {
    const ptc_kstore_t *store = &kernel->stores[i];
    if (kernel->params[store->param].mode != PTC_KPARAM_OUT) continue;
    for (int32_t j = 0; j < kernel->num_params; j++) {
      if (taken[j] || !may_take(&p, store, j)) continue;
      kernel->params[store->param].in_place = j;
      taken[j] = true;
      break;
    }
  }
}
