// Loop nests in CUDA. Without reductions: a thread per element, four elements each. With reductions: cuda_nest_rows.c,
// cuda_nest_columns.c.
#include <inttypes.h>
#include <string.h>

#include "codegen/cuda_nest_impl.h"

enum { MAP_ITEMS = 4, SHORT_ROW = 256, FEW_POINTS = 1024, FEW_BLOCKS = 64, MAX_COLUMN_ITEMS = 64 };

const ptc_kexpr_t *ptc_cuda_nest_at(const ptc_cuda_nest_t *nest, ptc_kx_t expr) {
  return &nest->kernel->exprs[expr];
}

bool ptc_cuda_nest_is_col_reduce(const ptc_cuda_nest_t *nest, const ptc_kexpr_t *e) {
  return e->kind == PTC_KX_REDUCE && (e->over & nest->col);
}

bool ptc_cuda_nest_is_wide(const ptc_cuda_nest_t *nest, ptc_kx_t expr) {
  const ptc_kexpr_t *e = ptc_cuda_nest_at(nest, expr);
  return ptc_cuda_nest_is_col_reduce(nest, e) && !(e->over & nest->row) &&
         (ptc_cuda_nest_at(nest, e->args[0])->varies & nest->row);
}

bool ptc_cuda_nest_is_late(const ptc_cuda_nest_t *nest, const ptc_kstore_t *store) {
  bool late = nest->late[store->value];
  for (int32_t i = 0; i < nest->kernel->params[store->param].num_dims; ++i)
    late |= nest->late[store->index[i]];
  return late;
}

static void mark_early(ptc_cuda_nest_t *nest, ptc_kx_t expr) {
  if (nest->early[expr]) return;
  nest->early[expr] = true;
  const ptc_kexpr_t *e = ptc_cuda_nest_at(nest, expr);
  for (int32_t a = 0; a < e->num_args; ++a) mark_early(nest, e->args[a]);
  if (e->kind == PTC_KX_LOAD && e->guard != PTC_KX_NONE) mark_early(nest, e->guard);
}

// Levels, what depends on column reductions, and what does not wait for them.
static void analyze(ptc_cuda_nest_t *nest) {
  const ptc_kernel_t *kernel = nest->kernel;
  const size_t count = (size_t)kernel->num_exprs + 1;
  nest->level = PTC_ARENA_ARRAY(nest->arena, int32_t, count);
  nest->late = PTC_ARENA_ARRAY(nest->arena, bool, count);
  nest->early = PTC_ARENA_ARRAY(nest->arena, bool, count);
  nest->fixed = PTC_ARENA_ARRAY(nest->arena, bool, count);
  nest->kept = PTC_ARENA_ARRAY(nest->arena, bool, count);
  for (int32_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    for (int32_t a = 0; a < e->num_args; ++a) {
      if (nest->level[e->args[a]] > nest->level[i]) nest->level[i] = nest->level[e->args[a]];
      nest->late[i] |= nest->late[e->args[a]];
    }
    if (e->kind == PTC_KX_LOAD && e->guard != PTC_KX_NONE) {
      if (nest->level[e->guard] > nest->level[i]) nest->level[i] = nest->level[e->guard];
      nest->late[i] |= nest->late[e->guard];
    }
    if (e->kind == PTC_KX_REDUCE) ++nest->level[i];
    if (ptc_cuda_nest_is_col_reduce(nest, e)) nest->late[i] = true;
    if (e->kind == PTC_KX_REDUCE) mark_early(nest, i);
  }
  for (int32_t s = 0; s < kernel->num_stores; ++s) {
    const ptc_kstore_t *store = &kernel->stores[s];
    if (ptc_cuda_nest_is_late(nest, store)) continue;
    mark_early(nest, store->value);
    for (int32_t d = 0; d < kernel->params[store->param].num_dims; ++d)
      mark_early(nest, store->index[d]);
  }
}

double ptc_cuda_nest_fixed_bytes(const ptc_cuda_nest_t *nest) {
  const ptc_kernel_t *kernel = nest->kernel;
  double bytes = 0;
  for (int32_t p = 0; p < kernel->num_params; ++p) {
    bool fixed = false;
    for (int32_t i = 0; i < kernel->num_exprs; ++i) {
      const ptc_kexpr_t *e = &kernel->exprs[i];
      fixed |= e->kind == PTC_KX_LOAD && e->param == p && nest->early[i] &&
               !(e->varies & (nest->grid | nest->col));
    }
    if (fixed) bytes += (double)ptc_kparam_bytes(&kernel->params[p]);
  }
  return bytes;
}

int64_t ptc_cuda_nest_max_blocks(const ptc_cuda_nest_t *nest, double bytes) {
  const double most = 0.04 * (double)nest->kernel->min_bytes / (bytes > 0 ? bytes : 1);
  return most < 1 ? 1 : most > INT32_MAX ? INT32_MAX : (int64_t)most;
}

// `i_b == 0 && ...` for the loop dims of |among| that the store does not vary over; NULL if there are none.
static const char *once_test(const ptc_cuda_nest_t *nest, const ptc_kstore_t *store,
                             uint32_t among) {
  const uint32_t varies = ptc_nest_store_varies(nest->kernel, store);
  ptc_str_t test = {0};
  for (int32_t d = 0; d < nest->kernel->num_dims; ++d) {
    if (!(among >> d & 1) || (varies >> d & 1) || nest->kernel->dims[d].extent <= 1) continue;
    ptc_str_printf(&test, "%s%s == 0", test.len ? " && " : "", nest->scope.index_text[d]);
  }
  const char *text = test.len ? ptc_arena_strdup(nest->arena, test.data) : NULL;
  ptc_str_deinit(&test);
  return text;
}

void ptc_cuda_nest_store(ptc_cuda_nest_t *nest, const ptc_kstore_t *store, uint32_t among,
                         int32_t indent) {
  const char *test = once_test(nest, store, among);
  if (!test) {
    ptc_c_store(&nest->scope, store, indent, nest->out);
    return;
  }
  const char **saved = ptc_c_scope_save(&nest->scope);
  ptc_str_printf(nest->out, "%*sif (%s) {\n", indent, "", test);
  ptc_c_store(&nest->scope, store, indent + 2, nest->out);
  ptc_str_printf(nest->out, "%*s}\n", indent, "");
  ptc_c_scope_restore(&nest->scope, saved);
}

// --- once per block

enum { FEW_VALUES = 4 };

// Whether a value that varies, or a store, uses |expr|, which does not.
static bool is_used_varying(const ptc_cuda_nest_t *nest, ptc_kx_t expr) {
  const ptc_kernel_t *kernel = nest->kernel;
  for (int32_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = ptc_cuda_nest_at(nest, i);
    for (int32_t a = 0; e->varies && a < e->num_args; ++a)
      if (e->args[a] == expr) return true;
  }
  for (int32_t s = 0; s < kernel->num_stores; ++s)
    if (kernel->stores[s].value == expr) return true;
  return false;
}

// Numbers that are the same for all points, as the learning rate and the corrections of AdamW, are computed by one
// thread of a block if they are many: each thread would read and compute as much for them as for its elements.
static void print_once(ptc_cuda_nest_t *nest) {
  const ptc_kernel_t *kernel = nest->kernel;
  int32_t count = 0;
  for (int32_t i = 0; i < kernel->num_exprs; ++i)
    count += !ptc_cuda_nest_at(nest, i)->varies && ptc_cuda_nest_at(nest, i)->kind != PTC_KX_CONST;
  if (count <= FEW_VALUES) return;
  const char **saved = ptc_c_scope_save(&nest->scope);
  bool *shared = PTC_ARENA_ARRAY(nest->arena, bool, kernel->num_exprs + 1);
  ptc_str_t body = {0};
  for (int32_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kx_kind_t kind = ptc_cuda_nest_at(nest, i)->kind;
    const bool is_value = kind == PTC_KX_LOAD || kind == PTC_KX_OP;
    if (ptc_cuda_nest_at(nest, i)->varies || !is_value || !is_used_varying(nest, i)) continue;
    shared[i] = true;
    ptc_c_eval(&nest->scope, i, 4, &body);
    ptc_str_printf(&body, "    once%d = %s;\n", i, nest->scope.value_text[i]);
    ptc_str_printf(nest->out, "  __shared__ %s once%d;\n",
                   ptc_c_type(ptc_cuda_nest_at(nest, i)->dtype), i);
  }
  ptc_c_scope_restore(&nest->scope, saved);
  if (body.len) {
    ptc_str_printf(nest->out, "  if (threadIdx.x == 0) {\n%s  }\n  __syncthreads();\n", body.data);
    for (int32_t i = 0; i < kernel->num_exprs; ++i) {
      if (!shared[i]) continue;
      ptc_str_printf(nest->out, "  const %s v%d = once%d;\n",
                     ptc_c_type(ptc_cuda_nest_at(nest, i)->dtype), i, i);
      nest->scope.value_text[i] = ptc_arena_printf(nest->arena, "v%d", i);
    }
  }
  ptc_str_deinit(&body);
}

// --- without reductions

// Whether numbers are drawn that take far longer than memory does: unrolled loops would be code without use.
static bool draws_numbers(const ptc_kernel_t *kernel) {
  for (int32_t i = 0; i < kernel->num_exprs; ++i)
    if (kernel->exprs[i].kind == PTC_KX_RANDOM && strcmp(kernel->exprs[i].dist, "bits01") != 0)
      return true;
  return false;
}

static ptc_status_t print_map(ptc_cuda_nest_t *nest, ptc_kernel_shape_t *out_shape) {
  const uint32_t all = nest->grid | nest->col | nest->row;
  const int64_t total = nest->num_grid * nest->num_col * nest->num_row;
  const char *type = total < INT32_MAX / 2 ? "int" : "int64_t";
  if (total > PTC_CUDA_WARP) print_once(nest);
  ptc_str_printf(nest->out,
                 "#pragma unroll%s\n"
                 "  for (int i = 0; i < %d; ++i) {\n"
                 "    const %s e = (%s)blockIdx.x * %d + i * %d + threadIdx.x;\n"
                 "    if (e >= %" PRId64 ") break;\n",
                 draws_numbers(nest->kernel) ? " 1" : "", MAP_ITEMS, type, type,
                 MAP_ITEMS * PTC_CUDA_THREADS, PTC_CUDA_THREADS, total);
  ptc_cuda_decode(&nest->scope, all, "e", 4, nest->out);
  // What several stores share is computed before a condition hides it.
  for (int32_t s = 0; s < nest->kernel->num_stores; ++s)
    if (!once_test(nest, &nest->kernel->stores[s], all))
      ptc_c_eval(&nest->scope, nest->kernel->stores[s].value, 4, nest->out);
  for (int32_t s = 0; s < nest->kernel->num_stores; ++s)
    ptc_cuda_nest_store(nest, &nest->kernel->stores[s], all, 4);
  ptc_str_append(nest->out, "  }\n");
  const int64_t per_tile = MAP_ITEMS * PTC_CUDA_THREADS, tiles = (total + per_tile - 1) / per_tile;
  *out_shape = ptc_cuda_shape(nest->arena, &tiles, 1, 0);
  return PTC_OK;
}

static int32_t num_wide_columns(const ptc_cuda_nest_t *nest) {
  int32_t count = 0;
  for (int32_t i = 0; i < nest->kernel->num_exprs; ++i) count += ptc_cuda_nest_is_wide(nest, i);
  return count;
}

// Warps, if a thread's part of the row fits its registers and there are enough points to occupy a GPU with.
static void choose_team(ptc_cuda_nest_t *nest, bool columns) {
  const int64_t items = (nest->num_row + PTC_CUDA_WARP - 1) / PTC_CUDA_WARP;
  bool warps = nest->num_row <= SHORT_ROW ||
               (items <= PTC_CUDA_MAX_ITEMS && nest->num_grid * nest->num_col >= FEW_POINTS);
  if (columns) warps = warps && items * num_wide_columns(nest) <= MAX_COLUMN_ITEMS;
  nest->team = warps ? PTC_CUDA_WARP : PTC_CUDA_THREADS;
  nest->workers = PTC_CUDA_THREADS / nest->team;
  nest->tile = nest->num_row;
}

ptc_status_t ptc_cuda_nest(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                           ptc_str_t *out, ptc_kernel_shape_t *out_shape) {
  ptc_cuda_nest_t nest = {.kernel = kernel, .arena = arena, .out = out};
  ptc_cuda_scope_init(&nest.scope, arena, kernel);
  for (int32_t d = 0; d < kernel->num_dims; ++d) {
    const uint32_t bit = UINT32_C(1) << d;
    if (d < kernel->num_grid)
      nest.grid |= bit;
    else if (d < kernel->num_grid + kernel->num_col)
      nest.col |= bit;
    else
      nest.row |= bit;
  }
  nest.num_grid = ptc_kernel_extent(kernel, nest.grid);
  nest.num_col = ptc_kernel_extent(kernel, nest.col);
  nest.num_row = ptc_kernel_extent(kernel, nest.row);
  bool reduces = false, columns = false;
  for (int32_t i = 0; i < kernel->num_exprs; ++i) {
    reduces |= kernel->exprs[i].kind == PTC_KX_REDUCE;
    columns |= ptc_cuda_nest_is_col_reduce(&nest, &kernel->exprs[i]);
  }
  analyze(&nest);
  choose_team(&nest, columns);
  // Few blocks do not share multiprocessors, and may have all registers.
  const bool few =
      !reduces && nest.num_grid * nest.num_col * nest.num_row <= FEW_BLOCKS * PTC_CUDA_THREADS;
  ptc_cuda_prelude(out, kernel);
  if (reduces) ptc_cuda_reductions(out);
  ptc_str_printf(out,
                 "extern \"C\" __global__ void __launch_bounds__(%d%s) %s(const ptc_kernel_call_t "
                 "arguments) {\n",
                 PTC_CUDA_THREADS, few ? ", 1" : "", kernel->name);
  ptc_cuda_start(out, kernel);
  ptc_cuda_declare(out, kernel);
  ptc_status_t status = PTC_OK;
  if (!reduces)
    status = print_map(&nest, out_shape);
  else if (columns)
    status = ptc_cuda_nest_columns(&nest, diag, out_shape);
  else
    ptc_cuda_nest_rows(&nest, out_shape);
  ptc_str_append(out, "}\n");
  return status;
}
