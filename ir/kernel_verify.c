// What ir/kernel.h promises of a kernel, checked.
#include <inttypes.h>

#include "ir/kernel.h"
#include "ir/op.h"

typedef struct check_s {
  ptc_diag_t *diag;
  const ptc_kernel_t *kernel;
} check_t;

static ptc_status_t fail(const check_t *c, const char *id, const char *what, int32_t number) {
  return ptc_error(c->diag, c->kernel->loc, PTC_INTERNAL, id, "kernel %s: %s %" PRId32,
                   c->kernel->name, what, number);
}

static uint32_t bits(int32_t from, int32_t to) {
  uint32_t mask = 0;
  for (int32_t i = from; i < to; i++) mask |= UINT32_C(1) << i;
  return mask;
}

static bool is_int_expr(const check_t *c, ptc_kx_t x, ptc_kx_t limit) {
  return x >= 0 && x < limit && ptc_dtype_is_int(c->kernel->exprs[x].dtype);
}

static ptc_status_t check_params(const check_t *c) {
  const ptc_kernel_t *kernel = c->kernel;
  if (kernel->num_params > PTC_KERNEL_MAX_PARAMS)
    return fail(c, "kernel-params", "parameters:", kernel->num_params);
  for (int32_t i = 0; i < kernel->num_params; i++) {
    const ptc_kparam_t *p = &kernel->params[i];
    if (p->num_dims < 0 || p->num_dims > PTC_MAX_DIMS)
      return fail(c, "kernel-params", "a bad number of dims in parameter", i);
    for (int32_t d = 0; d < p->num_dims; d++)
      if (p->extents[d] < 0) return fail(c, "kernel-params", "a negative extent in parameter", i);
    if (p->in_place < 0) continue;
    const bool fits = p->mode == PTC_KPARAM_OUT && p->in_place < kernel->num_params &&
                      kernel->params[p->in_place].mode == PTC_KPARAM_IN &&
                      kernel->params[p->in_place].dtype == p->dtype;
    if (!fits) return fail(c, "kernel-in-place", "cannot be in place: parameter", i);
  }
  return PTC_OK;
}

static ptc_status_t check_dims(const check_t *c) {
  const ptc_kernel_t *kernel = c->kernel;
  if (kernel->num_dims < 0 || kernel->num_dims > PTC_KERNEL_MAX_DIMS)
    return fail(c, "kernel-dims", "loop dims:", kernel->num_dims);
  for (int32_t i = 0; i < kernel->num_dims; i++)
    if (kernel->dims[i].extent < 0) return fail(c, "kernel-dims", "a negative extent in loop", i);
  if (kernel->num_grid < 0 || kernel->num_col < 0 ||
      kernel->num_grid + kernel->num_col > kernel->num_dims)
    return fail(c, "kernel-dims", "grid and column dims are more than", kernel->num_dims);
  if (kernel->kind != PTC_KERNEL_GEMM) return PTC_OK;
  const ptc_gemm_t *g = &kernel->gemm;
  const uint32_t masks[] = {g->batch, g->m, g->n, g->k};
  uint32_t seen = 0;
  for (int i = 0; i < 4; i++) {
    if (seen & masks[i]) return fail(c, "kernel-gemm", "a loop has two roles, one of them", i);
    seen |= masks[i];
  }
  if (seen != bits(0, kernel->num_dims))
    return fail(c, "kernel-gemm", "loops without a role of", kernel->num_dims);
  return PTC_OK;
}

// What |e| varies over by its arguments and itself.
static uint32_t varies_of(const check_t *c, const ptc_kexpr_t *e) {
  if (e->kind == PTC_KX_HOLE) return e->varies;
  uint32_t mask = e->kind == PTC_KX_INDEX ? UINT32_C(1) << e->dim : 0;
  for (int32_t i = 0; i < e->num_args; i++) mask |= c->kernel->exprs[e->args[i]].varies;
  if (e->kind == PTC_KX_LOAD && e->guard >= 0) mask |= c->kernel->exprs[e->guard].varies;
  return e->kind == PTC_KX_REDUCE ? mask & ~e->over : mask;
}

static ptc_status_t check_reduce(const check_t *c, const ptc_kexpr_t *e, ptc_kx_t number) {
  const ptc_kernel_t *kernel = c->kernel;
  const int32_t first_row = kernel->num_grid + kernel->num_col;
  const uint32_t col = bits(kernel->num_grid, first_row), row = bits(first_row, kernel->num_dims);
  if (kernel->kind != PTC_KERNEL_NEST || e->num_args != 1)
    return fail(c, "kernel-reduce", "no reduction can be here: expression", number);
  if (e->over == 0 || (e->over != row && e->over != col && e->over != (row | col)))
    return fail(c, "kernel-reduce", "neither over all rows nor all columns: expression", number);
  if (e->fma) {
    const ptc_kexpr_t *addend = &kernel->exprs[e->args[0]];
    if (e->reduce != PTC_KX_SUM || addend->kind != PTC_KX_OP || addend->opcode != PTC_OP_MUL)
      return fail(c, "kernel-reduce", "no sum of products: expression", number);
  }
  if (e->reduce == PTC_KX_ARGMAX && e->dtype != PTC_I32)
    return fail(c, "kernel-reduce", "a position is i32: expression", number);
  if (e->reduce == PTC_KX_ALL && e->dtype != PTC_BOOL)
    return fail(c, "kernel-reduce", "all is bool: expression", number);
  return PTC_OK;
}

// Operands of one dtype where the op wants that; a bool condition.
static ptc_status_t check_op(const check_t *c, const ptc_kexpr_t *e, ptc_kx_t number) {
  const ptc_op_info_t *info = ptc_op_info(e->opcode);
  const bool ewise = (info->traits & PTC_TRAIT_EWISE) != 0;
  if (!ewise || e->num_args < info->min_operands || e->num_args > info->max_operands ||
      e->opcode == PTC_OP_ACCUMULATE)
    return fail(c, "kernel-op", "no elementwise op of so many operands: expression", number);
  const int32_t first = e->opcode == PTC_OP_WHERE;
  if (first && c->kernel->exprs[e->args[0]].dtype != PTC_BOOL)
    return fail(c, "kernel-op", "the condition is not bool: expression", number);
  for (int32_t i = first + 1; i < e->num_args; i++)
    if (c->kernel->exprs[e->args[i]].dtype != c->kernel->exprs[e->args[first]].dtype)
      return fail(c, "kernel-op", "operands of two dtypes: expression", number);
  return PTC_OK;
}

static ptc_status_t check_random(const check_t *c, const ptc_kexpr_t *e, ptc_kx_t number) {
  if (e->num_args < 3 || !e->dist || !e->path)
    return fail(c, "kernel-random", "element, seed and step are missing: expression", number);
  for (int32_t i = 0; i < e->num_args; i++)
    if (c->kernel->exprs[e->args[i]].dtype != (i < 3 ? PTC_I64 : PTC_I32))
      return fail(c, "kernel-random", "element, seed, step are i64, turns i32: expression", number);
  return PTC_OK;
}

static ptc_status_t check_expr(const check_t *c, ptc_kx_t number) {
  const ptc_kernel_t *kernel = c->kernel;
  const ptc_kexpr_t *e = &kernel->exprs[number];
  for (int32_t i = 0; i < e->num_args; i++)
    if (e->args[i] < 0 || e->args[i] >= number)
      return fail(c, "kernel-order", "an operand does not come before expression", number);
  if (e->kind == PTC_KX_LOAD && e->guard >= number)
    return fail(c, "kernel-order", "the guard does not come before expression", number);
  switch (e->kind) {
    case PTC_KX_INDEX:
      if (e->dim < 0 || e->dim >= kernel->num_dims)
        return fail(c, "kernel-index", "no such loop: expression", number);
      break;
    case PTC_KX_TURN:
      if (e->level < 0 || e->level >= kernel->num_levels)
        return fail(c, "kernel-index", "no such repeat: expression", number);
      break;
    case PTC_KX_LOAD: {
      if (e->param < 0 || e->param >= kernel->num_params ||
          kernel->params[e->param].mode == PTC_KPARAM_OUT)
        return fail(c, "kernel-load", "the parameter is not read: expression", number);
      const ptc_kparam_t *p = &kernel->params[e->param];
      if (e->num_args != p->num_dims || e->dtype != p->dtype)
        return fail(c, "kernel-load", "does not fit its parameter: expression", number);
      for (int32_t i = 0; i < e->num_args; i++)
        if (!is_int_expr(c, e->args[i], number))
          return fail(c, "kernel-load", "an index is no integer: expression", number);
      if (e->guard >= 0 && kernel->exprs[e->guard].dtype != PTC_BOOL)
        return fail(c, "kernel-load", "the guard is not bool: expression", number);
      break;
    }
    case PTC_KX_OP: PTC_TRY(check_op(c, e, number)); break;
    case PTC_KX_RANDOM: PTC_TRY(check_random(c, e, number)); break;
    case PTC_KX_REDUCE: PTC_TRY(check_reduce(c, e, number)); break;
    case PTC_KX_HOLE:
      if (kernel->kind == PTC_KERNEL_NEST)
        return fail(c, "kernel-hole", "a nest has no holes: expression", number);
      break;
    case PTC_KX_CONST: break;
  }
  if (e->varies != varies_of(c, e))
    return fail(c, "kernel-varies", "varies over other loops than it says: expression", number);
  return PTC_OK;
}

static ptc_status_t check_stores(const check_t *c) {
  const ptc_kernel_t *kernel = c->kernel;
  bool stored[PTC_KERNEL_MAX_PARAMS] = {false};
  for (int32_t i = 0; i < kernel->num_stores; i++) {
    const ptc_kstore_t *store = &kernel->stores[i];
    if (store->param < 0 || store->param >= kernel->num_params ||
        kernel->params[store->param].mode == PTC_KPARAM_IN)
      return fail(c, "kernel-store", "the parameter is not written: store", i);
    const ptc_kparam_t *p = &kernel->params[store->param];
    if (store->value < 0 || store->value >= kernel->num_exprs ||
        kernel->exprs[store->value].dtype != p->dtype)
      return fail(c, "kernel-store", "the value does not fit its parameter: store", i);
    uint32_t varies = 0;
    for (int32_t d = 0; d < p->num_dims; d++) {
      if (!is_int_expr(c, store->index[d], kernel->num_exprs))
        return fail(c, "kernel-store", "an index is no integer: store", i);
      varies |= kernel->exprs[store->index[d]].varies;
    }
    if (kernel->exprs[store->value].varies & ~varies)
      return fail(c, "kernel-store", "many values for one element: store", i);
    stored[store->param] = true;
  }
  if (kernel->kind != PTC_KERNEL_NEST && kernel->kind != PTC_KERNEL_GEMM) return PTC_OK;
  for (int32_t i = 0; i < kernel->num_params; i++)
    if (kernel->params[i].mode != PTC_KPARAM_IN && !stored[i])
      return fail(c, "kernel-store", "nothing is stored in parameter", i);
  return PTC_OK;
}

// What depends on a reduction over columns does not vary over columns.
static ptc_status_t check_columns(const check_t *c) {
  const ptc_kernel_t *kernel = c->kernel;
  const uint32_t col = bits(kernel->num_grid, kernel->num_grid + kernel->num_col);
  if (kernel->kind != PTC_KERNEL_NEST || !col) return PTC_OK;
  ptc_arena_t scratch;
  ptc_arena_init(&scratch);
  bool *depends = PTC_ARENA_ARRAY(&scratch, bool, kernel->num_exprs + 1);
  ptc_status_t status = PTC_OK;
  for (ptc_kx_t i = 0; i < kernel->num_exprs && status == PTC_OK; i++) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    depends[i] = e->kind == PTC_KX_REDUCE && (e->over & col);
    for (int32_t a = 0; a < e->num_args; a++) depends[i] |= depends[e->args[a]];
    if (depends[i] && (e->varies & col))
      status = fail(c, "kernel-columns", "varies over columns after their sum: expression", i);
  }
  ptc_arena_deinit(&scratch);
  return status;
}

static ptc_status_t check_attention(const check_t *c) {
  const ptc_kattention_t *at = &c->kernel->attention;
  const ptc_kx_t loads[] = {at->q, at->key, at->val};
  for (int32_t i = 0; i < 3; i++)
    if (loads[i] < 0 || loads[i] >= c->kernel->num_exprs ||
        c->kernel->exprs[loads[i]].kind != PTC_KX_LOAD)
      return fail(c, "kernel-attention", "no load: operand", i);
  if (at->attend < 0 || at->attend >= c->kernel->num_dims || at->dot < 0 ||
      at->dot >= c->kernel->num_dims)
    return fail(c, "kernel-attention", "no such loop:", at->attend);
  if (at->out < 0 || at->lse < 0)
    return fail(c, "kernel-attention", "out or lse is missing:", at->out);
  return PTC_OK;
}

ptc_status_t ptc_kernel_verify(ptc_diag_t *diag, const ptc_kernel_t *kernel) {
  const check_t c = {diag, kernel};
  PTC_TRY(check_params(&c));
  PTC_TRY(check_dims(&c));
  for (ptc_kx_t i = 0; i < kernel->num_exprs; i++) PTC_TRY(check_expr(&c, i));
  PTC_TRY(check_stores(&c));
  PTC_TRY(check_columns(&c));
  if (kernel->kind == PTC_KERNEL_ATTENTION || kernel->kind == PTC_KERNEL_ATTENTION_GRAD)
    return check_attention(&c);
  if (kernel->kind != PTC_KERNEL_NEST && kernel->kind != PTC_KERNEL_GEMM && !kernel->op)
    return fail(&c, "kernel-single", "the op is missing; parameters:", kernel->num_params);
  return PTC_OK;
}
