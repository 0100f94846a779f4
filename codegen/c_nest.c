// Loop nests as C: what both printers (c_nest_map.c, c_nest_rows.c) need to know, and the choice between them.
#include "codegen/c_nest.h"

#include <inttypes.h>
#include <string.h>

#include "codegen/c_expr.h"
#include "ir/op.h"

static int64_t aligned(int64_t bytes) { return (bytes + 63) & ~INT64_C(63); }

int64_t ptc_nest_workspace(ptc_c_nest_t *nest, int64_t bytes) {
  const int64_t at = nest->workspace_bytes;
  nest->workspace_bytes += aligned(bytes);
  return at;
}

int64_t ptc_nest_scratch(ptc_c_nest_t *nest, int64_t bytes) {
  const int64_t at = nest->scratch_bytes;
  nest->scratch_bytes += aligned(bytes);
  return at;
}

// --- stages and levels

ptc_nest_over_t ptc_nest_over(const ptc_c_nest_t *nest, ptc_kx_t reduce) {
  const uint32_t over = nest->kernel->exprs[reduce].over;
  if (!(over & nest->col)) return PTC_NEST_ROW;
  return over & nest->row ? PTC_NEST_FULL : PTC_NEST_COLUMN;
}

static void take_max(int8_t *to, int8_t from) {
  if (*to < from) *to = from;
}

static void find_levels(ptc_c_nest_t *nest) {
  const ptc_kernel_t *kernel = nest->kernel;
  for (ptc_kx_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    int8_t stage = 0, level = 0;
    for (int32_t a = 0; a <= e->num_args; ++a) {
      const ptc_kx_t arg = a < e->num_args ? e->args[a] : e->kind == PTC_KX_LOAD ? e->guard : -1;
      if (arg != PTC_KX_NONE) take_max(&stage, nest->stage[arg]);
    }
    // Levels count within the expression's stage.
    for (int32_t a = 0; a <= e->num_args; ++a) {
      const ptc_kx_t arg = a < e->num_args ? e->args[a] : e->kind == PTC_KX_LOAD ? e->guard : -1;
      if (arg != PTC_KX_NONE && nest->stage[arg] == stage) take_max(&level, nest->level[arg]);
    }
    if (e->kind == PTC_KX_REDUCE) {
      nest->has_reductions |= nest->used[i];
      if (ptc_nest_over(nest, i) == PTC_NEST_ROW) {
        ++level;
      } else {
        ++stage;
        level = 0;
      }
    }
    nest->stage[i] = stage;
    nest->level[i] = level;
  }
}

// Calls |take| for all that a store is made of.
static int32_t max_over_store(const ptc_c_nest_t *nest, const ptc_kstore_t *store, const int8_t *of,
                              int32_t stage) {
  int32_t most = 0;
  for (int32_t i = -1; i < nest->kernel->params[store->param].num_dims; ++i) {
    const ptc_kx_t expr = i < 0 ? store->value : store->index[i];
    if ((stage < 0 || nest->stage[expr] == stage) && of[expr] > most) most = of[expr];
  }
  return most;
}

int32_t ptc_nest_store_stage(const ptc_c_nest_t *nest, const ptc_kstore_t *store) {
  return max_over_store(nest, store, nest->stage, -1);
}

int32_t ptc_nest_store_level(const ptc_c_nest_t *nest, const ptc_kstore_t *store) {
  return max_over_store(nest, store, nest->level, ptc_nest_store_stage(nest, store));
}

uint32_t ptc_nest_store_varies(const ptc_kernel_t *kernel, const ptc_kstore_t *store) {
  uint32_t varies = kernel->exprs[store->value].varies;
  for (int32_t i = 0; i < kernel->params[store->param].num_dims; ++i)
    varies |= kernel->exprs[store->index[i]].varies;
  return varies;
}

// --- what is used, and how

static void add_form(ptc_c_nest_t *nest, const ptc_c_affine_t *form) {
  nest->forms[nest->num_forms++] = *form;
}

static void use(ptc_c_nest_t *nest, ptc_kx_t expr);

static void use_terms(ptc_c_nest_t *nest, const ptc_c_affine_t *form) {
  for (int32_t i = 0; i < form->num_terms; ++i) use(nest, form->terms[i]);
}

// Marks what computing the value of |expr| needs, and records the addresses in it.
static void use(ptc_c_nest_t *nest, ptc_kx_t expr) {
  if (nest->as_value[expr]) return;
  nest->as_value[expr] = nest->used[expr] = true;
  const ptc_kexpr_t *e = &nest->kernel->exprs[expr];
  if (e->kind == PTC_KX_LOAD) {
    if (e->guard != PTC_KX_NONE) use(nest, e->guard);
    ptc_c_affine_t form = ptc_c_address(nest->kernel, e->param, e->args);
    use_terms(nest, &form);
    add_form(nest, &form);
    for (int32_t i = 0; e->checked && i < e->num_args; ++i) {
      ptc_c_affine_t place = ptc_c_affine_of(nest->kernel, e->args[i]);
      if (!place.num_terms) continue;
      use_terms(nest, &place);
      add_form(nest, &place);
    }
    return;
  }
  int32_t first = 0;
  if (e->kind == PTC_KX_RANDOM) {
    ptc_c_affine_t form = ptc_c_affine_of(nest->kernel, e->args[0]);
    use_terms(nest, &form);
    add_form(nest, &form);
    nest->used[e->args[0]] = true;
    first = 1;
  }
  for (int32_t i = first; i < e->num_args; ++i) use(nest, e->args[i]);
}

static void find_uses(ptc_c_nest_t *nest) {
  const ptc_kernel_t *kernel = nest->kernel;
  nest->forms = PTC_ARENA_ARRAY(nest->arena, ptc_c_affine_t,
                                kernel->num_exprs * (PTC_MAX_DIMS + 1) + kernel->num_stores + 1);
  for (int32_t i = 0; i < kernel->num_stores; ++i) {
    use(nest, kernel->stores[i].value);
    ptc_c_affine_t form = ptc_c_address(kernel, kernel->stores[i].param, kernel->stores[i].index);
    use_terms(nest, &form);
    add_form(nest, &form);
  }
}

// --- loops

// Whether loop |outer| runs on where |inner| (of |extent|) ends, for every address.
static bool can_join(const ptc_c_nest_t *nest, int32_t outer, int32_t inner, int64_t extent) {
  for (ptc_kx_t i = 0; i < nest->kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = &nest->kernel->exprs[i];
    if (e->kind == PTC_KX_INDEX && nest->as_value[i] && (e->dim == outer || e->dim == inner))
      return false;
  }
  for (int32_t i = 0; i < nest->num_forms; ++i)
    if (nest->forms[i].coef[outer] != nest->forms[i].coef[inner] * extent) return false;
  return true;
}

ptc_nest_loops_t ptc_nest_merge(ptc_c_nest_t *nest, const int32_t *dims, int32_t count) {
  ptc_nest_loops_t loops = {0};
  for (int32_t i = count - 1; i >= 0; --i) {
    const int64_t extent = nest->kernel->dims[dims[i]].extent;
    const int32_t at = loops.count - 1;
    if (extent == 1) {
      nest->scope.index_text[dims[i]] = "0";
    } else if (at >= 0 && can_join(nest, dims[i], loops.dim[at], loops.extent[at])) {
      nest->scope.index_text[dims[i]] = NULL;
      loops.extent[at] *= extent;
      loops.mask[at] |= UINT32_C(1) << dims[i];
    } else {
      loops.dim[loops.count] = dims[i];
      loops.mask[loops.count] = UINT32_C(1) << dims[i];
      loops.extent[loops.count++] = extent;
    }
  }
  // Outermost first.
  for (int32_t i = 0, j = loops.count - 1; i < j; ++i, --j) {
    const int32_t dim = loops.dim[i];
    const int64_t extent = loops.extent[i];
    const uint32_t mask = loops.mask[i];
    loops.dim[i] = loops.dim[j];
    loops.extent[i] = loops.extent[j];
    loops.mask[i] = loops.mask[j];
    loops.dim[j] = dim;
    loops.extent[j] = extent;
    loops.mask[j] = mask;
  }
  return loops;
}

int64_t ptc_nest_points(const ptc_nest_loops_t *loops) {
  int64_t points = 1;
  for (int32_t i = 0; i < loops->count; ++i) points *= loops->extent[i];
  return points;
}

void ptc_nest_decompose(ptc_c_nest_t *nest, const ptc_nest_loops_t *loops, const char *at,
                        int32_t indent) {
  int64_t below = 1;
  for (int32_t i = loops->count - 1; i >= 0; --i) {
    ptc_c_indent(nest->out, indent);
    ptc_str_printf(nest->out, "const int64_t %s = %s", nest->scope.index_text[loops->dim[i]], at);
    if (below > 1) ptc_str_printf(nest->out, " / %" PRId64, below);
    if (i > 0) ptc_str_printf(nest->out, " %% %" PRId64, loops->extent[i]);
    ptc_str_append(nest->out, ";\n");
    below *= loops->extent[i];
  }
}

const char *ptc_nest_part(ptc_arena_t *arena, const char *number, int64_t div, int64_t mod,
                          int64_t times) {
  if (mod == 1 || times == 0) return "0";
  if (div > 1) number = ptc_arena_printf(arena, "%s / %" PRId64, number, div);
  if (mod > 1) number = ptc_arena_printf(arena, "%s %% %" PRId64, number, mod);
  if (times > 1) number = ptc_arena_printf(arena, "%s * %" PRId64, number, times);
  return number;
}

const char *ptc_nest_limit(ptc_arena_t *arena, const char *from, int64_t step, int64_t end) {
  return ptc_arena_printf(arena, "%s + %" PRId64 " < %" PRId64 " ? %s + %" PRId64 " : %" PRId64,
                          from, step, end, from, step, end);
}

// --- costs

static bool is_costly(const ptc_kexpr_t *e) {
  return e->kind == PTC_KX_RANDOM ||
         (e->kind == PTC_KX_OP && (ptc_op_info(e->opcode)->traits & PTC_TRAIT_COSTLY));
}

static void find_expensive(ptc_c_nest_t *nest) {
  const ptc_kernel_t *kernel = nest->kernel;
  for (ptc_kx_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    nest->expensive[i] = is_costly(e);
    for (int32_t a = 0; e->kind == PTC_KX_OP && a < e->num_args; ++a)
      nest->expensive[i] |=
          (kernel->exprs[e->args[a]].varies & nest->row) && nest->expensive[e->args[a]];
  }
}

double ptc_nest_expr_ns(const ptc_kernel_t *kernel, const ptc_kexpr_t *e) {
  const bool wide = e->num_args > 0 && kernel->exprs[e->args[0]].dtype == PTC_F64;
  if (e->kind == PTC_KX_LOAD)
    return e->varies ? 0.1 * (double)ptc_dtype_bytes(kernel->params[e->param].dtype) : 0;
  if (e->kind == PTC_KX_RANDOM) return strcmp(e->dist, "bits01") == 0 ? 1 : 40;
  const bool circular =
      e->kind == PTC_KX_OP && (e->opcode == PTC_OP_SIN || e->opcode == PTC_OP_COS);
  if (circular && !wide) return 5;
  if (is_costly(e)) return wide || e->opcode == PTC_OP_POW ? 20 : 1;
  return e->kind == PTC_KX_OP || e->kind == PTC_KX_REDUCE ? 0.05 : 0;
}

static double estimate(const ptc_c_nest_t *nest) {
  const ptc_kernel_t *kernel = nest->kernel;
  double ns = 0.05;
  for (ptc_kx_t i = 0; i < kernel->num_exprs; ++i)
    if (nest->as_value[i]) ns += ptc_nest_expr_ns(kernel, &kernel->exprs[i]);
  for (int32_t i = 0; i < kernel->num_stores; ++i)
    if (ptc_nest_store_varies(kernel, &kernel->stores[i]) & nest->row)
      ns += 0.1 * (double)ptc_dtype_bytes(kernel->params[kernel->stores[i].param].dtype);
  return ns;
}

// --- loads that need care

static bool any_below(const ptc_c_nest_t *nest, ptc_kx_t expr, bool (*test)(const ptc_kexpr_t *)) {
  if (nest->scope.value_text[expr] || nest->visited[expr]) return false;
  nest->visited[expr] = true;
  const ptc_kexpr_t *e = &nest->kernel->exprs[expr];
  if (test(e)) return true;
  if (e->kind == PTC_KX_REDUCE) return false;
  if (e->kind == PTC_KX_LOAD && e->guard != PTC_KX_NONE && any_below(nest, e->guard, test))
    return true;
  for (int32_t i = 0; i < e->num_args; ++i)
    if (any_below(nest, e->args[i], test)) return true;
  return false;
}

static void forget_visits(const ptc_c_nest_t *nest) {
  for (ptc_kx_t i = 0; i < nest->kernel->num_exprs; ++i) nest->visited[i] = false;
}

static bool any_of(const ptc_c_nest_t *nest, ptc_kx_t expr, bool (*test)(const ptc_kexpr_t *)) {
  forget_visits(nest);
  return any_below(nest, expr, test);
}

static bool is_random(const ptc_kexpr_t *e) { return e->kind == PTC_KX_RANDOM; }
static bool is_checked(const ptc_kexpr_t *e) { return e->kind == PTC_KX_LOAD && e->checked; }

bool ptc_nest_has_random(const ptc_c_nest_t *nest, const ptc_kx_t *roots, int32_t num_roots) {
  for (int32_t i = 0; i < num_roots; ++i)
    if (any_of(nest, roots[i], is_random)) return true;
  return false;
}

bool ptc_nest_has_checked(const ptc_c_nest_t *nest, const ptc_kx_t *roots, int32_t num_roots) {
  for (int32_t i = 0; i < num_roots; ++i)
    if (any_of(nest, roots[i], is_checked)) return true;
  return false;
}

static void words_of(ptc_c_nest_t *nest, ptc_kx_t expr, int32_t inner, const char *start,
                     const char *count, int32_t indent) {
  ptc_c_scope_t *scope = &nest->scope;
  if (scope->value_text[expr] || scope->word_array[expr] || nest->visited[expr]) return;
  nest->visited[expr] = true;
  const ptc_kexpr_t *e = &nest->kernel->exprs[expr];
  if (e->kind == PTC_KX_REDUCE) return;
  if (e->kind == PTC_KX_LOAD && e->guard != PTC_KX_NONE)
    words_of(nest, e->guard, inner, start, count, indent);
  for (int32_t i = 0; i < e->num_args; ++i) words_of(nest, e->args[i], inner, start, count, indent);
  if (e->kind != PTC_KX_RANDOM || !scope->hash_text[expr]) return;
  ptc_c_affine_t form = ptc_c_affine_of(nest->kernel, e->args[0]);
  if (inner < 0 || form.coef[inner] != 1) return;
  for (int32_t i = 0; i < form.num_terms; ++i)
    if (!scope->value_text[form.terms[i]]) return;
  for (int32_t i = 1; i < 3; ++i)  // constants need no statement
    if (nest->kernel->exprs[e->args[i]].kind == PTC_KX_CONST)
      ptc_c_eval(scope, e->args[i], indent, nest->out);
  if (!scope->value_text[e->args[1]] || !scope->value_text[e->args[2]]) return;
  const char *index = scope->index_text[inner];
  scope->index_text[inner] = start;
  ptc_str_t *out = nest->out;
  ptc_c_indent(out, indent);
  ptc_str_printf(out, "const int64_t first%d = %s, lane%d = first%d & 3;\n", expr,
                 ptc_c_affine_text(scope, &form), expr, expr);
  scope->index_text[inner] = index;
  ptc_c_indent(out, indent);
  ptc_str_printf(out, "uint32_t words%d[%d];\n", expr, PTC_NEST_BLOCK + 8);
  ptc_c_indent(out, indent);
  ptc_str_printf(out,
                 "ptc_philox_words(words%d, %s + lane%d, (uint64_t)%s, (uint64_t)first%d / 4, "
                 "(uint32_t)%s, %s);\n",
                 expr, count, expr, scope->value_text[e->args[1]], expr,
                 scope->value_text[e->args[2]], scope->hash_text[expr]);
  scope->word_array[expr] = ptc_arena_printf(nest->arena, "words%d", expr);
  scope->word_place[expr] = ptc_arena_printf(nest->arena, "lane%d + j", expr);
  if (strcmp(e->dist, "normal") != 0) return;
  ptc_c_indent(out, indent);
  ptc_str_printf(out, "double normals%d[%d];\n", expr, PTC_NEST_BLOCK + 8);
  ptc_c_indent(out, indent);
  ptc_str_printf(out, "ptc_normals(normals%d, words%d, %s + lane%d);\n", expr, expr, count, expr);
  scope->normal_array[expr] = ptc_arena_printf(nest->arena, "normals%d", expr);
}

void ptc_nest_random_words(ptc_c_nest_t *nest, const ptc_kx_t *roots, int32_t num_roots,
                           int32_t inner, const char *start, const char *count, int32_t indent) {
  forget_visits(nest);
  for (int32_t i = 0; i < num_roots; ++i) words_of(nest, roots[i], inner, start, count, indent);
}

void ptc_nest_forget_words(ptc_c_nest_t *nest) {
  for (ptc_kx_t i = 0; i < nest->kernel->num_exprs; ++i)
    nest->scope.word_array[i] = nest->scope.normal_array[i] = NULL;
}

// --- the printer

// Dims that nothing depends on are left out.
static void split_dims(ptc_c_nest_t *nest) {
  const ptc_kernel_t *kernel = nest->kernel;
  for (ptc_kx_t i = 0; i < kernel->num_exprs; ++i)
    if (nest->used[i])
      nest->used_dims |= kernel->exprs[i].varies |
                         (kernel->exprs[i].kind == PTC_KX_REDUCE ? kernel->exprs[i].over : 0);
  for (int32_t i = 0; i < kernel->num_stores; ++i)
    nest->used_dims |= ptc_nest_store_varies(kernel, &kernel->stores[i]);
  nest->num_grid = nest->num_col = nest->num_row = 1;
  int32_t count = 0;
  for (int32_t d = 0; d < kernel->num_dims; ++d) {
    if (!(nest->used_dims >> d & 1)) continue;
    const bool grid = d < kernel->num_grid;
    const bool col = !grid && d < kernel->num_grid + kernel->num_col;
    nest->dims[count++] = d;
    ++*(grid ? &nest->num_grid_dims : col ? &nest->num_col_dims : &nest->num_row_dims);
    *(grid ? &nest->grid : col ? &nest->col : &nest->row) |= UINT32_C(1) << d;
    *(grid ? &nest->num_grid : col ? &nest->num_col : &nest->num_row) *= kernel->dims[d].extent;
  }
}

// Whether everything is reduced over all dims, in whatever order.
static bool reduces_all(const ptc_c_nest_t *nest) {
  const ptc_kernel_t *kernel = nest->kernel;
  uint32_t all = 0;
  bool some = false;
  for (int32_t d = 0; d < kernel->num_dims; ++d)
    if (kernel->dims[d].extent != 1) all |= nest->used_dims & UINT32_C(1) << d;
  for (ptc_kx_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    if (!nest->as_value[i] || e->kind != PTC_KX_REDUCE) continue;
    if ((e->over & all) != all || e->reduce == PTC_KX_ARGMAX) return false;
    some = true;
  }
  return some;
}

// The address of the largest operand of |expr|, if it is larger than |*most| bytes.
static void find_largest(const ptc_c_nest_t *nest, ptc_kx_t expr, double *most,
                         ptc_c_affine_t *out_form) {
  const ptc_kernel_t *kernel = nest->kernel;
  const ptc_kexpr_t *e = &kernel->exprs[expr];
  if (nest->visited[expr]) return;
  nest->visited[expr] = true;
  for (int32_t i = 0; i < e->num_args; ++i) find_largest(nest, e->args[i], most, out_form);
  if (e->kind != PTC_KX_LOAD) return;
  const double bytes = (double)ptc_kparam_bytes(&kernel->params[e->param]);
  if (bytes <= *most) return;
  *most = bytes;
  *out_form = ptc_c_address(kernel, e->param, e->args);
}

// Where rows lie across the memory of what is summed, all dims become one row, in the order of that memory.
static void flatten(ptc_c_nest_t *nest) {
  const ptc_kernel_t *kernel = nest->kernel;
  ptc_c_affine_t order = {0};
  double most = -1;
  forget_visits(nest);
  for (ptc_kx_t i = 0; i < kernel->num_exprs; ++i)
    if (nest->as_value[i] && kernel->exprs[i].kind == PTC_KX_REDUCE)
      find_largest(nest, kernel->exprs[i].args[0], &most, &order);
  const int32_t before = nest->num_grid_dims + nest->num_col_dims;
  for (int32_t i = before + nest->num_row_dims - 1; i >= 0; --i) {
    if (kernel->dims[nest->dims[i]].extent == 1) continue;
    if (order.coef[nest->dims[i]] == 1) return;
    break;
  }
  nest->row |= nest->grid | nest->col;
  nest->grid = nest->col = 0;
  nest->num_row *= nest->num_grid * nest->num_col;
  nest->num_grid = nest->num_col = 1;
  nest->num_grid_dims = nest->num_col_dims = 0;
  nest->num_row_dims = ptc_nest_order_dims(kernel, nest->row, &order, nest->dims);
}

// An op without a C form, or an order of reductions that a nest cannot have.
static ptc_status_t check(ptc_c_nest_t *nest) {
  const ptc_kernel_t *kernel = nest->kernel;
  for (ptc_kx_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    if (!nest->as_value[i]) continue;
    const char *args[] = {"x", "x", "x", "x"};
    if (e->kind == PTC_KX_HOLE ||
        (e->kind == PTC_KX_OP && !ptc_c_op_text(nest->arena, kernel, i, args)))
      return ptc_error(nest->diag, kernel->loc, PTC_INVALID_INPUT, "codegen-unsupported",
                       "op %s of %s has no C form in a loop nest (kernel \"%s\")",
                       e->kind == PTC_KX_OP ? ptc_op_info(e->opcode)->mnemonic : "hole",
                       ptc_dtype_name(e->dtype), kernel->name);
    if (nest->stage[i] > 1 || (nest->stage[i] == 1 && (e->varies & nest->col)))
      return ptc_error(nest->diag, kernel->loc, PTC_INVALID_INPUT, "codegen-unsupported",
                       "kernel \"%s\" needs a column reduction within another", kernel->name);
  }
  return PTC_OK;
}

// What the parts of a kernel share.
typedef struct whole_s {
  ptc_diag_t *diag;
  ptc_arena_t *arena;
  ptc_str_t body;
  int32_t workspace_param, num_phases;
  int64_t workspace_bytes, scratch_bytes;
  int64_t *tiles;  // per phase
  bool alone;      // there is one part
} whole_t;

enum { MAX_PHASES = 1024 };

static ptc_status_t print_part(whole_t *whole, const ptc_kernel_t *kernel) {
  ptc_str_t body = {0};
  ptc_c_nest_t nest = {.diag = whole->diag,
                       .arena = whole->arena,
                       .kernel = kernel,
                       .out = &body,
                       .workspace_param = whole->workspace_param,
                       .workspace_bytes = whole->workspace_bytes};
  const size_t count = (size_t)kernel->num_exprs + 1;
  nest.used = PTC_ARENA_ARRAY(whole->arena, bool, count);
  nest.as_value = PTC_ARENA_ARRAY(whole->arena, bool, count);
  nest.stage = PTC_ARENA_ARRAY(whole->arena, int8_t, count);
  nest.level = PTC_ARENA_ARRAY(whole->arena, int8_t, count);
  nest.expensive = PTC_ARENA_ARRAY(whole->arena, bool, count);
  nest.visited = PTC_ARENA_ARRAY(whole->arena, bool, count);
  ptc_c_scope_init(&nest.scope, whole->arena, kernel);
  find_uses(&nest);
  split_dims(&nest);
  if (reduces_all(&nest)) flatten(&nest);
  find_levels(&nest);
  find_expensive(&nest);
  PTC_TRY(check(&nest));
  nest.element_ns = estimate(&nest);
  ptc_kernel_shape_t shape = {0};
  if (nest.has_reductions)
    ptc_nest_print_rows(&nest, &shape);
  else
    ptc_nest_print_map(&nest, &shape);
  const ptc_phase_run_t *run = shape.runs;
  const int32_t first = whole->num_phases;
  for (int32_t i = 0; run && i < run->num_phases && whole->num_phases < MAX_PHASES; ++i)
    whole->tiles[whole->num_phases++] = run->tiles[i];
  if (whole->alone) {
    ptc_str_append(&whole->body, body.data ? body.data : "");
  } else if (first > 0) {
    ptc_str_printf(&whole->body, "  if (phase >= %d && phase < %d) {\n", first, whole->num_phases);
    ptc_str_printf(&whole->body, "  const int64_t phase_of_all = phase;\n  {\n");
    ptc_str_printf(&whole->body, "  const int64_t phase = phase_of_all - %d;\n", first);
  } else {
    ptc_str_printf(&whole->body, "  if (phase < %d) {\n", whole->num_phases);
  }
  if (!whole->alone) ptc_str_append(&whole->body, body.data ? body.data : "");
  if (!whole->alone)
    ptc_str_append(&whole->body, first > 0 ? "  return;\n  }}\n" : "  return;\n  }\n");
  ptc_str_deinit(&body);
  whole->workspace_bytes = nest.workspace_bytes;
  if (whole->scratch_bytes < nest.scratch_bytes) whole->scratch_bytes = nest.scratch_bytes;
  return PTC_OK;
}

// Pointers to the tables, in the workspace.
static void declare_tables(whole_t *whole, const ptc_kernel_t *kernel, int32_t first) {
  for (int32_t i = first; i < kernel->num_params; ++i) {
    const ptc_kparam_t *param = &kernel->params[i];
    int64_t bytes = ptc_dtype_bytes(param->dtype);
    for (int32_t d = 0; d < param->num_dims; ++d) bytes *= param->extents[d];
    const char *type = ptc_c_storage_type(param->dtype);
    ptc_str_printf(&whole->body,
                   "  %s *const %s = (%s *)((char *)call->params[%d] + %" PRId64 ");\n", type,
                   ptc_c_param_name(whole->arena, kernel, i), type, whole->workspace_param,
                   whole->workspace_bytes);
    whole->workspace_bytes += aligned(bytes);
  }
}

// All of it takes less than a few phases do.
static bool is_tiny(const ptc_kernel_t *kernel) {
  double points = 1;
  for (int32_t d = 0; d < kernel->num_dims; ++d) points *= (double)kernel->dims[d].extent;
  return points * kernel->num_stores < 32768;
}

ptc_status_t ptc_c_nest(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                        const ptc_c_target_t *target, ptc_str_t *out,
                        ptc_kernel_shape_t *out_shape) {
  (void)target;
  *out_shape = (ptc_kernel_shape_t){0};
  whole_t whole = {.diag = diag, .arena = arena, .workspace_param = kernel->num_params};
  whole.tiles = PTC_ARENA_ARRAY(arena, int64_t, MAX_PHASES);
  ptc_kernel_t tables, sums, rest, last;
  const bool has_tables = ptc_nest_make_tables(arena, kernel, &tables, &rest) > 0;
  bool has_sums = !is_tiny(&rest) && ptc_nest_cut_sums(arena, &rest, &sums, &last) > 0;
  const int32_t most = (has_sums ? sums.num_stores : 0) + rest.num_stores + 1;
  ptc_kernel_t *parts = PTC_ARENA_ARRAY(arena, ptc_kernel_t, most);
  int32_t num_parts = 0;
  if (has_sums) num_parts = ptc_nest_split(arena, &sums, kernel->num_params, parts);
  if (num_parts <= 1) {  // to cut gains nothing
    has_sums = false;
    num_parts = 1;
    parts[0] = rest;
    if (!is_tiny(&rest)) num_parts = ptc_nest_split(arena, &rest, kernel->num_params, parts);
  }
  if (has_sums)
    declare_tables(&whole, &sums, kernel->num_params);
  else if (has_tables)
    declare_tables(&whole, &tables, kernel->num_params);
  whole.alone = !has_tables && !has_sums && num_parts == 1;
  ptc_status_t status = has_tables ? print_part(&whole, &tables) : PTC_OK;
  for (int32_t i = 0; i < num_parts && status == PTC_OK; ++i)
    status = print_part(&whole, &parts[i]);
  if (has_sums && status == PTC_OK) status = print_part(&whole, &last);
  if (status == PTC_OK) {
    ptc_c_open(out, kernel, "");
    ptc_str_append(out, whole.body.data ? whole.body.data : "");
    ptc_str_append(out, "}\n");
    ptc_phase_run_t *run = PTC_ARENA_NEW(arena, ptc_phase_run_t);
    *run = (ptc_phase_run_t){.count = 1, .num_phases = whole.num_phases, .tiles = whole.tiles};
    *out_shape = (ptc_kernel_shape_t){.num_runs = 1,
                                      .runs = run,
                                      .workspace_bytes = whole.workspace_bytes,
                                      .scratch_bytes = whole.scratch_bytes};
  }
  ptc_str_deinit(&whole.body);
  return status;
}
