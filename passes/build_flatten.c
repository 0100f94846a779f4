// Loop dims that every access walks as one become one: [d, h, k] with h and k always side by side is [d, hk].
// Fewer loops, and equal kernels for tensors of equal size.
#include <string.h>

#include "ir/plan.h"
#include "passes/build_impl.h"

typedef struct flatten_s {
  ptc_arena_t *arena;
  const ptc_kernel_t *kernel;
  bool reduces;
  bool *positions;  // per expression: integer arithmetic on loop indices
} flatten_t;

// --- affine forms: of positions, turns and a constant
typedef struct form_s {
  bool affine;
  int64_t constant, dim[PTC_KERNEL_MAX_DIMS], turn[PTC_PLAN_MAX_LEVELS];
} form_t;

static form_t form_of(const ptc_kernel_t *kernel, ptc_kx_t x) {
  const ptc_kexpr_t *e = &kernel->exprs[x];
  form_t form = {.affine = true};
  if (e->kind == PTC_KX_CONST) {
    form.constant = (int64_t)e->value;
  } else if (e->kind == PTC_KX_INDEX) {
    form.dim[e->dim] = 1;
  } else if (e->kind == PTC_KX_TURN && e->level < PTC_PLAN_MAX_LEVELS) {
    form.turn[e->level] = 1;
  } else if (e->kind == PTC_KX_OP && e->opcode == PTC_OP_CAST) {
    return form_of(kernel, e->args[0]);
  } else if (e->kind == PTC_KX_OP && (e->opcode == PTC_OP_ADD || e->opcode == PTC_OP_MUL)) {
    form_t a = form_of(kernel, e->args[0]), b = form_of(kernel, e->args[1]);
    const bool add = e->opcode == PTC_OP_ADD;
    const bool b_is_number = kernel->exprs[e->args[1]].kind == PTC_KX_CONST;
    form.affine = a.affine && b.affine && (add || b_is_number);
    const int64_t factor = b.constant;
    form.constant = add ? a.constant + b.constant : a.constant * factor;
    for (int32_t i = 0; i < PTC_KERNEL_MAX_DIMS; i++)
      form.dim[i] = add ? a.dim[i] + b.dim[i] : a.dim[i] * factor;
    for (int32_t i = 0; i < PTC_PLAN_MAX_LEVELS; i++)
      form.turn[i] = add ? a.turn[i] + b.turn[i] : a.turn[i] * factor;
  } else {
    form.affine = false;
  }
  return form;
}

// --- which neighbours can be one

static bool is_index_of(const ptc_kernel_t *kernel, ptc_kx_t x, int32_t dim) {
  return kernel->exprs[x].kind == PTC_KX_INDEX && kernel->exprs[x].dim == dim;
}

static bool names(const flatten_t *f, ptc_kx_t x, int32_t dim) {
  const ptc_kexpr_t *e = &f->kernel->exprs[x];
  if (e->kind == PTC_KX_INDEX) return e->dim == dim;
  if (!f->positions[x]) return false;
  for (int32_t i = 0; i < e->num_args; i++)
    if (names(f, e->args[i], dim)) return true;
  return false;
}

// Where |index| has loops |dim| and the next one side by side; -1: neither occurs; -2: otherwise.
static int32_t pair_at(const flatten_t *f, int32_t param, const ptc_kx_t *index, int32_t dim) {
  const ptc_kernel_t *kernel = f->kernel;
  const ptc_kparam_t *p = &kernel->params[param];
  int32_t at = -1;
  for (int32_t i = 0; i < p->num_dims; i++) {
    const bool first = is_index_of(kernel, index[i], dim);
    if (first && at == -1 && i + 1 < p->num_dims && is_index_of(kernel, index[i + 1], dim + 1) &&
        p->extents[i] == kernel->dims[dim].extent &&
        p->extents[i + 1] == kernel->dims[dim + 1].extent) {
      at = i++;
      continue;
    }
    if (names(f, index[i], dim) || names(f, index[i], dim + 1)) return -2;
  }
  return at;
}

// The place of the pair in parameter |param|, the same in all accesses; -1, -2 as above.
static int32_t place_in(const flatten_t *f, int32_t param, int32_t dim) {
  const ptc_kernel_t *kernel = f->kernel;
  int32_t place = -3;
  for (ptc_kx_t i = 0; i < kernel->num_exprs; i++) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    if (e->kind != PTC_KX_LOAD || e->param != param) continue;
    const int32_t at = pair_at(f, param, e->args, dim);
    if (place != -3 && place != at) return -2;
    place = at;
  }
  for (int32_t i = 0; i < kernel->num_stores; i++) {
    if (kernel->stores[i].param != param) continue;
    const int32_t at = pair_at(f, param, kernel->stores[i].index, dim);
    if (place != -3 && place != at) return -2;
    place = at;
  }
  return place == -3 ? -1 : place;
}

static uint32_t class_of(const flatten_t *f, int32_t dim) {
  const ptc_kernel_t *kernel = f->kernel;
  if (kernel->kind == PTC_KERNEL_GEMM) {
    const uint32_t bit = UINT32_C(1) << dim;
    return (kernel->gemm.batch & bit ? 1u : 0) | (kernel->gemm.m & bit ? 2u : 0) |
           (kernel->gemm.n & bit ? 4u : 0) | (kernel->gemm.k & bit ? 8u : 0);
  }
  if (!f->reduces) return 0;  // rows are as good as any other dim
  return dim < kernel->num_grid ? 1 : dim < kernel->num_grid + kernel->num_col ? 2 : 3;
}

static bool can_join(const flatten_t *f, int32_t dim) {
  const ptc_kernel_t *kernel = f->kernel;
  if (class_of(f, dim) != class_of(f, dim + 1)) return false;
  for (int32_t p = 0; p < kernel->num_params; p++)
    if (place_in(f, p, dim) == -2) return false;
  for (ptc_kx_t i = 0; i < kernel->num_exprs; i++) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    if (e->kind == PTC_KX_LOAD || f->positions[i]) continue;
    for (int32_t a = 0; a < e->num_args; a++) {
      if (!names(f, e->args[a], dim) && !names(f, e->args[a], dim + 1)) continue;
      if (e->kind != PTC_KX_RANDOM || a != 0) return false;
      const form_t form = form_of(kernel, e->args[0]);
      if (!form.affine || form.dim[dim] != form.dim[dim + 1] * kernel->dims[dim + 1].extent)
        return false;
    }
  }
  for (int32_t i = 0; i < kernel->num_stores; i++)
    if (f->positions[kernel->stores[i].value] ||
        kernel->exprs[kernel->stores[i].value].kind == PTC_KX_INDEX)
      return false;
  return true;
}

// --- the kernel with the pair as one

static uint32_t joined_mask(uint32_t mask, int32_t dim) {
  const uint32_t low = mask & ((UINT32_C(2) << dim) - 1), high = mask >> (dim + 2);
  return low | high << (dim + 1);
}

static ptc_kx_t build_form(ptc_kernel_builder_t *kb, const form_t *form, int32_t num_dims) {
  ptc_kx_t sum = PTC_KX_NONE;
  for (int32_t i = 0; i < num_dims + PTC_PLAN_MAX_LEVELS; i++) {
    const int64_t factor = i < num_dims ? form->dim[i] : form->turn[i - num_dims];
    if (!factor) continue;
    ptc_kx_t term = i < num_dims ? ptc_kb_index(kb, i) : ptc_kb_turn(kb, i - num_dims);
    term = ptc_kb_cast(kb, PTC_I64, term);
    if (factor != 1)
      term = ptc_kb_op2(kb, PTC_OP_MUL, PTC_I64, term, ptc_kb_const(kb, PTC_I64, (double)factor));
    sum = sum < 0 ? term : ptc_kb_op2(kb, PTC_OP_ADD, PTC_I64, sum, term);
  }
  if (sum < 0) return ptc_kb_const(kb, PTC_I64, (double)form->constant);
  if (!form->constant) return sum;
  return ptc_kb_op2(kb, PTC_OP_ADD, PTC_I64, sum,
                    ptc_kb_const(kb, PTC_I64, (double)form->constant));
}

static int32_t joined_dim(int32_t dim, int32_t join) { return dim > join ? dim - 1 : dim; }

// The number of |element| in the joined loops.
static ptc_kx_t joined_number(const flatten_t *f, ptc_kernel_builder_t *kb, ptc_kx_t element,
                              int32_t join) {
  const form_t old = form_of(f->kernel, element);
  form_t form = {.affine = true, .constant = old.constant};
  memcpy(form.turn, old.turn, sizeof(form.turn));
  for (int32_t d = 0; d < f->kernel->num_dims; d++)
    if (d != join) form.dim[joined_dim(d, join)] = old.dim[d];
  return build_form(kb, &form, f->kernel->num_dims - 1);
}

static int32_t join_index(const ptc_kx_t *map, const ptc_kx_t *index, int32_t count, int32_t place,
                          ptc_kx_t joined, ptc_kx_t *out) {
  int32_t n = 0;
  for (int32_t i = 0; i < count; i++) {
    if (i == place) {
      out[n++] = joined;
      i++;
      continue;
    }
    out[n++] = map[index[i]];
  }
  return n;
}

static void copy_params(const flatten_t *f, ptc_kernel_builder_t *kb, int32_t join,
                        int32_t *places) {
  for (int32_t p = 0; p < f->kernel->num_params; p++) {
    const ptc_kparam_t *old = &f->kernel->params[p];
    int64_t extents[PTC_MAX_DIMS];
    int32_t n = 0;
    places[p] = place_in(f, p, join);
    for (int32_t i = 0; i < old->num_dims; i++) {
      extents[n++] = old->extents[i];
      if (i == places[p]) extents[n - 1] *= old->extents[++i];
    }
    ptc_kb_param(kb, old->name, old->mode, old->dtype, extents, n);
  }
}

// Whether |x| stands for a position of the pair, which nothing but addresses and numbers use.
static bool is_dropped(const flatten_t *f, ptc_kx_t x, int32_t join) {
  return names(f, x, join) || names(f, x, join + 1);
}

static void copy_exprs(const flatten_t *f, ptc_kernel_builder_t *kb, int32_t join,
                       const int32_t *places, ptc_kx_t *map) {
  const ptc_kernel_t *kernel = f->kernel;
  const ptc_kx_t joined = ptc_kb_index(kb, join);
  for (ptc_kx_t i = 0; i < kernel->num_exprs; i++) {
    ptc_kexpr_t e = kernel->exprs[i];
    map[i] = PTC_KX_NONE;
    if (is_dropped(f, i, join)) continue;
    ptc_kx_t *args = PTC_ARENA_ARRAY(f->arena, ptc_kx_t, e.num_args + 1);
    if (e.kind == PTC_KX_LOAD) {
      e.num_args = join_index(map, e.args, e.num_args, places[e.param], joined, args);
      if (e.guard >= 0) e.guard = map[e.guard];
    } else {
      for (int32_t a = 0; a < e.num_args; a++) args[a] = map[e.args[a]];
    }
    if (e.kind == PTC_KX_RANDOM && args[0] < 0) args[0] = joined_number(f, kb, e.args[0], join);
    if (e.kind == PTC_KX_INDEX) e.dim = joined_dim(e.dim, join);
    if (e.kind == PTC_KX_REDUCE) e.over = joined_mask(e.over, join);
    if (e.kind == PTC_KX_TURN) {
      map[i] = ptc_kb_turn(kb, e.level);
      continue;
    }
    e.varies = e.kind == PTC_KX_HOLE ? joined_mask(e.varies, join) : 0;
    e.args = args;
    map[i] = ptc_kb_expr(kb, e);
  }
}

static const ptc_kernel_t *join(flatten_t *f, int32_t dim) {
  const ptc_kernel_t *old = f->kernel;
  ptc_kernel_builder_t kb;
  ptc_kb_begin(&kb, f->arena, old->name, old->kind, old->loc);
  ptc_kernel_t *kernel = kb.kernel;
  kernel->about = old->about;
  for (int32_t d = 0; d < old->num_dims; d++) {
    const ptc_kdim_t *own = &old->dims[d];
    if (d == dim) {
      const ptc_kdim_t *next = &old->dims[++d];
      ptc_kb_dim(&kb, ptc_arena_printf(f->arena, "%s_%s", own->name, next->name),
                 own->extent * next->extent);
    } else {
      ptc_kb_dim(&kb, own->name, own->extent);
    }
  }
  kernel->num_grid = old->num_grid - (dim < old->num_grid);
  kernel->num_col = old->num_col - (dim >= old->num_grid && dim < old->num_grid + old->num_col);
  int32_t *places = PTC_ARENA_ARRAY(f->arena, int32_t, old->num_params + 1);
  ptc_kx_t *map = PTC_ARENA_ARRAY(f->arena, ptc_kx_t, old->num_exprs + 1);
  copy_params(f, &kb, dim, places);
  copy_exprs(f, &kb, dim, places, map);
  for (int32_t i = 0; i < old->num_stores; i++) {
    const ptc_kstore_t *store = &old->stores[i];
    ptc_kx_t index[PTC_MAX_DIMS];
    join_index(map, store->index, old->params[store->param].num_dims, places[store->param],
               ptc_kb_index(&kb, dim), index);
    ptc_kb_store(&kb, store->param, index, map[store->value]);
  }
  kernel->num_levels = old->num_levels;
  if (old->kind == PTC_KERNEL_GEMM)
    kernel->gemm = (ptc_gemm_t){.batch = joined_mask(old->gemm.batch, dim),
                                .m = joined_mask(old->gemm.m, dim),
                                .n = joined_mask(old->gemm.n, dim),
                                .k = joined_mask(old->gemm.k, dim),
                                .a = map[old->gemm.a],
                                .b = map[old->gemm.b]};
  return kernel;
}

static void look(flatten_t *f, const ptc_kernel_t *kernel) {
  f->kernel = kernel;
  f->reduces = false;
  f->positions = PTC_ARENA_ARRAY(f->arena, bool, kernel->num_exprs + 1);
  for (ptc_kx_t i = 0; i < kernel->num_exprs; i++) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    f->reduces |= e->kind == PTC_KX_REDUCE;
    f->positions[i] =
        e->kind == PTC_KX_OP && ptc_dtype_is_int(e->dtype) && form_of(kernel, i).affine;
  }
}

ptc_kernel_t *ptc_kernel_flatten(ptc_arena_t *arena, ptc_kernel_t *kernel) {
  if (kernel->kind != PTC_KERNEL_NEST && kernel->kind != PTC_KERNEL_GEMM) return kernel;
  flatten_t f = {.arena = arena};
  look(&f, kernel);
  for (int32_t dim = kernel->num_dims - 2; dim >= 0; dim--)
    if (dim + 1 < f.kernel->num_dims && can_join(&f, dim)) look(&f, join(&f, dim));
  return (ptc_kernel_t *)f.kernel;
}
