// Column and full reductions in CUDA. A block takes a chunk of column points; its workers take them in turn and add up
// in f32, then the block adds its workers' sums in f64, in order. Where there are several chunks, their sums go to
// the workspace, and a second phase adds them in order. Few column points: a worker has all of them, and several points of
// the grid. Kernels that do nothing but add up columns cut the row, too: a block has a tile of it.
#include <inttypes.h>
#include <string.h>

#include "codegen/cuda_nest_impl.h"

enum {
  DEPTH = 32,             // values that are added in f32 one after the other
  TILE = 128,             // elements of the row, where it is cut
  FEW_COLUMNS = 32,       // points that a worker adds alone
  MAX_SHARED = 40 * 1024  // bytes
};

typedef struct columns_s {
  ptc_cuda_nest_t *nest;
  int64_t num_tiles, num_chunks, chunk;  // |chunk|: column points
  int64_t per_block;                     // > 0: points of the grid; a worker has one of them
  int64_t width;                         // elements of the row of what is stored at last, or 1
  int64_t *partials;                     // per column sum: its place in the workspace, in bytes
  int64_t workspace_bytes;
  bool flushes;  // what is added in f32 goes to `totN` from time to time
} columns_t;

static bool is_column(const columns_t *c, ptc_kx_t expr) {
  return ptc_cuda_nest_is_col_reduce(c->nest, ptc_cuda_nest_at(c->nest, expr));
}

static const char *acc_type(const columns_t *c, ptc_kx_t expr) {
  return ptc_cuda_nest_acc_type(c->nest, ptc_cuda_nest_at(c->nest, expr));
}

static const char *sum_type(const columns_t *c, ptc_kx_t expr) {
  return ptc_cuda_nest_sum_type(c->nest, ptc_cuda_nest_at(c->nest, expr));
}

static const char *start(const columns_t *c, ptc_kx_t expr) {
  return ptc_cuda_nest_acc_start(c->nest, ptc_cuda_nest_at(c->nest, expr));
}

static int64_t type_bytes(const char *type) {
  return strcmp(type, "bool") == 0 ? 1 : strcmp(type, "float") == 0 ? 4 : 8;
}

// Bytes of the wide sums of one element of the row.
static int64_t wide_bytes(const columns_t *c) {
  int64_t bytes = 0;
  for (int32_t i = 0; i < c->nest->kernel->num_exprs; ++i)
    if (ptc_cuda_nest_is_wide(c->nest, i)) bytes += type_bytes(acc_type(c, i));
  return bytes;
}

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// --- the plan

// Whether the elements of the row are independent: nothing is reduced along it, or stored once for it.
static bool can_cut_row(const columns_t *c) {
  const ptc_kernel_t *kernel = c->nest->kernel;
  for (int32_t i = 0; i < kernel->num_exprs; ++i)
    if (kernel->exprs[i].kind == PTC_KX_REDUCE && !ptc_cuda_nest_is_wide(c->nest, i)) return false;
  for (int32_t s = 0; s < kernel->num_stores; ++s)
    if (!ptc_cuda_nest_is_late(c->nest, &kernel->stores[s]) &&
        !(ptc_nest_store_varies(kernel, &kernel->stores[s]) & c->nest->row))
      return false;
  return true;
}

static bool has_exchange(const columns_t *c) {
  return c->nest->team == PTC_CUDA_WARP && !c->per_block;
}

static bool is_final(const columns_t *c) {
  return c->num_chunks == 1 && ptc_cuda_nest_in_registers(c->nest);
}

// Elements of the row whose sums the block adds at a time.
static int64_t exchange_width(const columns_t *c) {
  const int64_t width = ptc_cuda_nest_items(c->nest) * PTC_CUDA_WARP;
  return width < PTC_CUDA_THREADS ? width : PTC_CUDA_THREADS;
}

static void choose_workers(columns_t *c) {
  ptc_cuda_nest_t *nest = c->nest;
  if (can_cut_row(c)) {
    nest->tile = nest->num_row < TILE ? nest->num_row : TILE;
    nest->team = PTC_CUDA_WARP;
  }
  if (nest->team == PTC_CUDA_WARP &&
      wide_bytes(c) * exchange_width(c) * (PTC_CUDA_THREADS / PTC_CUDA_WARP) > MAX_SHARED) {
    nest->team = PTC_CUDA_THREADS;
  }
  nest->workers = PTC_CUDA_THREADS / nest->team;
  c->num_tiles = nest->num_row ? ceil_div(nest->num_row, nest->tile) : 1;
}

// So many chunks that the partial sums, written and read, and what every block reads, stay a small part of the bytes.
static void choose_chunks(columns_t *c) {
  ptc_cuda_nest_t *nest = c->nest;
  const double part = (double)nest->tile / (double)(nest->num_row ? nest->num_row : 1);
  const double fixed = ptc_cuda_nest_fixed_bytes(nest) * part;
  const double sums = 2.0 * (double)(wide_bytes(c) * nest->tile);
  const int64_t units = nest->num_grid * c->num_tiles;
  const int64_t most = ptc_cuda_nest_max_blocks(nest, fixed + sums) / (units ? units : 1);
  c->chunk = ceil_div(nest->num_col, most > 1 ? most : 1);
  if (c->chunk < DEPTH || !ptc_cuda_nest_in_registers(nest)) c->chunk = DEPTH;
  if (nest->team == PTC_CUDA_WARP && c->chunk > DEPTH * nest->workers)
    c->chunk = DEPTH * nest->workers;
  c->num_chunks = nest->num_col > c->chunk ? ceil_div(nest->num_col, c->chunk) : 1;
  if (is_final(c) && nest->num_col <= FEW_COLUMNS && nest->num_grid > 1) {
    const int64_t blocks = ceil_div(ptc_cuda_nest_max_blocks(nest, fixed), c->num_tiles);
    c->per_block = ceil_div(ceil_div(nest->num_grid, blocks), nest->workers) * nest->workers;
  }
  c->flushes = c->chunk > DEPTH * nest->workers && nest->num_col > DEPTH * nest->workers;
}

static void place_partials(columns_t *c) {
  const ptc_cuda_nest_t *nest = c->nest;
  c->partials = PTC_ARENA_ARRAY(nest->arena, int64_t, nest->kernel->num_exprs + 1);
  for (int32_t i = 0; !is_final(c) && i < nest->kernel->num_exprs; ++i) {
    if (!is_column(c, i)) continue;
    const char *type = ptc_cuda_nest_is_wide(c->nest, i) ? acc_type(c, i) : sum_type(c, i);
    c->partials[i] = c->workspace_bytes;
    const int64_t count =
        nest->num_grid * c->num_chunks * (ptc_cuda_nest_is_wide(c->nest, i) ? nest->num_row : 1);
    c->workspace_bytes += (count * type_bytes(type) + 31) / 32 * 32;
  }
}

// --- sums of a chunk

static void print_begin(columns_t *c, int32_t indent) {
  ptc_cuda_nest_t *nest = c->nest;
  ptc_str_t *out = nest->out;
  const int64_t items = ptc_cuda_nest_items(nest);
  for (int32_t i = 0; i < nest->kernel->num_exprs; ++i) {
    if (!is_column(c, i)) continue;
    const bool registers = ptc_cuda_nest_in_registers(nest);
    if (!ptc_cuda_nest_is_wide(c->nest, i)) {
      ptc_str_printf(out, "%*s%s part%d = %s;\n", indent, "", sum_type(c, i), i, start(c, i));
      continue;
    }
    for (int32_t total = 0; registers && total <= c->flushes; ++total)
      ptc_str_printf(out, "%*s%s %s%d[%" PRId64 "];\n", indent, "", acc_type(c, i),
                     total ? "tot" : "col", i, items);
    if (registers)
      ptc_str_printf(out,
                     "#pragma unroll\n"
                     "%*sfor (int item = 0; item < %" PRId64 "; ++item) %scol%d[item] = %s;\n",
                     indent, "", items,
                     c->flushes ? ptc_arena_printf(nest->arena, "tot%d[item] = ", i) : "", i,
                     start(c, i));
    else
      ptc_str_printf(out,
                     "%*s%s *const sums%d = (%s *)(workspace + %" PRId64
                     ") + (int64_t)unit * %" PRId64
                     ";\n"
                     "%*sfor (int e = lane; e < %" PRId64 "; e += %d) sums%d[e] = %s;\n",
                     indent, "", acc_type(c, i), i, acc_type(c, i), c->partials[i], nest->num_row,
                     indent, "", nest->num_row, nest->team, i, start(c, i));
  }
}

// The loop over the points of a worker, from |first| on (C texts).
static void print_points(columns_t *c, const char *first, const char *end, int32_t step,
                         int32_t indent) {
  ptc_cuda_nest_t *nest = c->nest;
  ptc_str_t *out = nest->out;
  const int64_t items = ptc_cuda_nest_items(nest);
  ptc_str_printf(out, "%*sfor (int point = %s; point < %s; point += %d) {\n", indent, "", first,
                 end, step);
  const char **saved = ptc_c_scope_save(&nest->scope);
  ptc_cuda_decode(&nest->scope, nest->col, "point", indent + 2, out);
  ptc_cuda_nest_point(nest, indent + 2);
  for (int32_t i = 0; c->flushes && i < nest->kernel->num_exprs; ++i) {
    if (!ptc_cuda_nest_is_wide(c->nest, i)) continue;
    const ptc_kexpr_t *e = ptc_cuda_nest_at(nest, i);
    ptc_str_printf(out,
                   "%*sif ((point - first) / %d %% %d == %d) {\n"
                   "#pragma unroll\n"
                   "%*s  for (int item = 0; item < %" PRId64 "; ++item) {\n",
                   indent + 2, "", step, DEPTH, DEPTH - 1, indent + 2, "", items);
    ptc_cuda_nest_join(nest, e, ptc_arena_printf(nest->arena, "tot%d[item]", i),
                       ptc_arena_printf(nest->arena, "col%d[item]", i), indent + 6);
    ptc_str_printf(out, "%*s    col%d[item] = %s;\n%*s  }\n%*s}\n", indent + 2, "", i, start(c, i),
                   indent + 2, "", indent + 2, "");
  }
  ptc_c_scope_restore(&nest->scope, saved);
  ptc_str_printf(out, "%*s}\n", indent, "");
  for (int32_t i = 0; c->flushes && i < nest->kernel->num_exprs; ++i) {
    if (!ptc_cuda_nest_is_wide(c->nest, i)) continue;
    ptc_str_printf(out, "#pragma unroll\n%*sfor (int item = 0; item < %" PRId64 "; ++item)\n",
                   indent, "", items);
    ptc_cuda_nest_join(nest, ptc_cuda_nest_at(nest, i),
                       ptc_arena_printf(nest->arena, "col%d[item]", i),
                       ptc_arena_printf(nest->arena, "tot%d[item]", i), indent + 2);
  }
}

// --- what becomes of the sums

// `vN`, the value of column reduction |expr|, from `sumN`.
static void print_value(columns_t *c, ptc_kx_t expr, int32_t indent) {
  ptc_cuda_nest_t *nest = c->nest;
  const ptc_kexpr_t *e = ptc_cuda_nest_at(nest, expr);
  const char *value = ptc_arena_printf(nest->arena, "(%s)sum%d", ptc_c_type(e->dtype), expr);
  ptc_str_printf(nest->out, "%*sconst %s v%d = %s;\n", indent, "", ptc_c_type(e->dtype), expr,
                 ptc_c_round(nest->arena, e->dtype, value));
  nest->scope.value_text[expr] = ptc_arena_printf(nest->arena, "v%d", expr);
}

static void print_late_stores(columns_t *c, uint32_t among, int32_t indent) {
  const ptc_kernel_t *kernel = c->nest->kernel;
  for (int32_t s = 0; s < kernel->num_stores; ++s)
    if (ptc_cuda_nest_is_late(c->nest, &kernel->stores[s]))
      ptc_cuda_nest_store(c->nest, &kernel->stores[s], among, indent);
}

// At element `e` of the row, of whose wide sums `sumN` are known: the stores, or the partial sums.
static void print_element(columns_t *c, int32_t indent) {
  ptc_cuda_nest_t *nest = c->nest;
  const char **saved = ptc_c_scope_save(&nest->scope);
  if (is_final(c)) ptc_cuda_decode(&nest->scope, nest->row, "e", indent, nest->out);
  for (int32_t i = 0; i < nest->kernel->num_exprs; ++i) {
    if (!ptc_cuda_nest_is_wide(c->nest, i)) continue;
    if (is_final(c))
      print_value(c, i, indent);
    else
      ptc_str_printf(nest->out,
                     "%*s((%s *)(workspace + %" PRId64 "))[(int64_t)unit * %" PRId64
                     " + e] = (%s)sum%d;\n",
                     indent, "", acc_type(c, i), c->partials[i], nest->num_row, acc_type(c, i), i);
  }
  if (is_final(c)) print_late_stores(c, nest->row, indent);
  ptc_c_scope_restore(&nest->scope, saved);
}

// The sums that are one value for the whole row: `sumN`, known to all threads.
static void print_single_sums(columns_t *c, int32_t indent) {
  ptc_cuda_nest_t *nest = c->nest;
  ptc_str_t *out = nest->out;
  bool any = false;
  for (int32_t i = 0; has_exchange(c) && i < nest->kernel->num_exprs; ++i) {
    if (!is_column(c, i) || ptc_cuda_nest_is_wide(c->nest, i)) continue;
    any = true;
    ptc_str_printf(out,
                   "%*s__shared__ %s parts%d[%d];\n"
                   "%*sif (lane == 0) parts%d[threadIdx.x / 32] = part%d;\n",
                   indent, "", sum_type(c, i), i, nest->workers, indent, "", i, i);
  }
  if (any) ptc_str_printf(out, "%*s__syncthreads();\n", indent, "");
  for (int32_t i = 0; i < nest->kernel->num_exprs; ++i) {
    if (!is_column(c, i) || ptc_cuda_nest_is_wide(c->nest, i)) continue;
    const char *sum = ptc_arena_printf(nest->arena, "sum%d", i);
    ptc_str_printf(out, "%*s%s %s = %s%d%s;\n", indent, "", sum_type(c, i), sum,
                   has_exchange(c) ? "parts" : "part", i, has_exchange(c) ? "[0]" : "");
    if (has_exchange(c)) {
      ptc_str_printf(out, "%*sfor (int w = 1; w < %d; ++w)\n", indent, "", nest->workers);
      ptc_cuda_nest_join(nest, ptc_cuda_nest_at(nest, i), sum,
                         ptc_arena_printf(nest->arena, "parts%d[w]", i), indent + 2);
    }
    if (is_final(c))
      print_value(c, i, indent);
    else
      ptc_str_printf(out,
                     "%*sif (threadIdx.x == 0) ((%s *)(workspace + %" PRId64 "))[unit] = sum%d;\n",
                     indent, "", sum_type(c, i), c->partials[i], i);
  }
}

// The workers' sums meet in shared memory, up to 256 elements of the row at a time, one thread each.
static void print_exchange(columns_t *c, int32_t indent) {
  ptc_cuda_nest_t *nest = c->nest;
  ptc_str_t *out = nest->out;
  const int64_t items = ptc_cuda_nest_items(nest), width = exchange_width(c);
  const int64_t at_once = width / PTC_CUDA_WARP;
  for (int32_t i = 0; i < nest->kernel->num_exprs; ++i)
    if (ptc_cuda_nest_is_wide(c->nest, i))
      ptc_str_printf(out, "%*s__shared__ %s cols%d[%d][%" PRId64 "];\n", indent, "", acc_type(c, i),
                     i, nest->workers, width);
  ptc_str_printf(out,
                 "#pragma unroll\n"
                 "%*sfor (int group = 0; group < %" PRId64
                 "; ++group) {\n"
                 "#pragma unroll\n"
                 "%*s  for (int k = 0; k < %" PRId64
                 "; ++k) {\n"
                 "%*s    const int item = group * %" PRId64
                 " + k;\n"
                 "%*s    if (item >= %" PRId64 ") break;\n",
                 indent, "", ceil_div(items, at_once), indent, "", at_once, indent, "", at_once,
                 indent, "", items);
  for (int32_t i = 0; i < nest->kernel->num_exprs; ++i)
    if (ptc_cuda_nest_is_wide(c->nest, i))
      ptc_str_printf(out, "%*scols%d[threadIdx.x / 32][k * 32 + lane] = col%d[item];\n", indent + 4,
                     "", i, i);
  ptc_str_printf(out,
                 "%*s  }\n"
                 "%*s  __syncthreads();\n"
                 "%*s  const int e = %sgroup * %" PRId64
                 " + threadIdx.x;\n"
                 "%*s  if (threadIdx.x < %" PRId64 " && e < %" PRId64 ") {\n",
                 indent, "", indent, "", indent, "", nest->tile < nest->num_row ? "tile + " : "",
                 width, indent, "", width, nest->num_row);
  for (int32_t i = 0; i < nest->kernel->num_exprs; ++i) {
    if (!ptc_cuda_nest_is_wide(c->nest, i)) continue;
    const char *sum = ptc_arena_printf(nest->arena, "sum%d", i);
    ptc_str_printf(out,
                   "%*s%s %s = cols%d[0][threadIdx.x];\n"
                   "%*sfor (int w = 1; w < %d; ++w)\n",
                   indent + 4, "", sum_type(c, i), sum, i, indent + 4, "", nest->workers);
    ptc_cuda_nest_join(nest, ptc_cuda_nest_at(nest, i), sum,
                       ptc_arena_printf(nest->arena, "cols%d[w][threadIdx.x]", i), indent + 6);
  }
  print_element(c, indent + 4);
  ptc_str_printf(out, "%*s  }\n%*s  __syncthreads();\n%*s}\n", indent, "", indent, "", indent, "");
}

static void print_sums(columns_t *c, int32_t indent) {
  ptc_cuda_nest_t *nest = c->nest;
  ptc_str_t *out = nest->out;
  print_single_sums(c, indent);
  const bool wide = wide_bytes(c) > 0;
  if (!ptc_cuda_nest_in_registers(nest) || (!wide && !is_final(c))) return;
  if (!wide && c->width == 1) {
    const char **saved = ptc_c_scope_save(&nest->scope);
    ptc_str_printf(out, "%*sif (%s == 0) {\n", indent, "", c->per_block ? "lane" : "threadIdx.x");
    ptc_cuda_decode(&nest->scope, nest->row, "0", indent + 2, out);
    print_late_stores(c, nest->row, indent + 2);
    ptc_str_printf(out, "%*s}\n", indent, "");
    ptc_c_scope_restore(&nest->scope, saved);
    return;
  }
  if (wide && has_exchange(c)) {
    print_exchange(c, indent);
    return;
  }
  if (wide) {
    ptc_str_printf(out,
                   "#pragma unroll\n"
                   "%*sfor (int item = 0; item < %" PRId64
                   "; ++item) {\n"
                   "%*s  const int e = %slane + item * %d;\n"
                   "%*s  if (e >= %" PRId64 ") break;\n",
                   indent, "", ptc_cuda_nest_items(nest), indent, "",
                   nest->tile < nest->num_row ? "tile + " : "", nest->team, indent, "",
                   nest->num_row);
    for (int32_t i = 0; i < nest->kernel->num_exprs; ++i)
      if (ptc_cuda_nest_is_wide(c->nest, i))
        ptc_str_printf(out, "%*sconst %s sum%d = col%d[item];\n", indent + 2, "", sum_type(c, i), i,
                       i);
  } else {
    ptc_str_printf(out, "%*sfor (int e = %s; e < %" PRId64 "; e += %d) {\n", indent, "",
                   c->per_block ? "lane" : "threadIdx.x", nest->num_row,
                   c->per_block ? nest->team : PTC_CUDA_THREADS);
  }
  print_element(c, indent + 2);
  ptc_str_printf(out, "%*s}\n", indent, "");
}

// --- phases

static void print_chunks(columns_t *c, int32_t indent) {
  ptc_cuda_nest_t *nest = c->nest;
  ptc_str_t *out = nest->out;
  const bool warps = nest->team == PTC_CUDA_WARP;
  ptc_str_printf(out, "%*sconst int lane = threadIdx.x%s;\n", indent, "", warps ? " % 32" : "");
  if (c->num_tiles > 1)
    ptc_str_printf(out,
                   "%*sconst int tile = blockIdx.x %% %" PRId64 " * %" PRId64
                   ", unit = blockIdx.x / %" PRId64 ";\n",
                   indent, "", c->num_tiles, nest->tile, c->num_tiles);
  else
    ptc_str_printf(out, "%*sconst int unit = blockIdx.x;\n", indent, "");
  const bool rereads = c->per_block > nest->workers || nest->num_col > nest->workers;
  if (rereads && c->num_tiles == 1) ptc_cuda_nest_load_fixed(nest, indent);
  const char *worker = warps ? " + threadIdx.x / 32" : "";
  if (c->per_block) {
    ptc_str_printf(
        out,
        "%*sconst int begin = unit * %" PRId64
        ";\n"
        "%*sfor (int at = begin%s; at < begin + %" PRId64 " && at < %" PRId64 "; at += %d) {\n",
        indent, "", c->per_block, indent, "", worker, c->per_block, nest->num_grid, nest->workers);
    ptc_cuda_decode(&nest->scope, nest->grid, "at", indent + 2, out);
    print_begin(c, indent + 2);
    print_points(c, "0", ptc_arena_printf(nest->arena, "%" PRId64, nest->num_col), 1, indent + 2);
    print_sums(c, indent + 2);
    ptc_str_printf(out, "%*s}\n", indent, "");
    return;
  }
  ptc_str_printf(out,
                 "%*sconst int at = unit / %" PRId64 ", first = unit %% %" PRId64 " * %" PRId64
                 "%s;\n"
                 "%*sconst int end = unit %% %" PRId64 " == %" PRId64 " ? %" PRId64
                 " : (unit %% %" PRId64 " + 1) * %" PRId64 ";\n",
                 indent, "", c->num_chunks, c->num_chunks, c->chunk, worker, indent, "",
                 c->num_chunks, c->num_chunks - 1, nest->num_col, c->num_chunks, c->chunk);
  ptc_cuda_decode(&nest->scope, nest->grid, "at", indent, out);
  print_begin(c, indent);
  print_points(c, "first", "end", nest->workers, indent);
  print_sums(c, indent);
}

// The second phase: a thread per grid point and element of the row.
static void print_combine(columns_t *c, int32_t indent) {
  ptc_cuda_nest_t *nest = c->nest;
  ptc_str_t *out = nest->out;
  ptc_str_printf(out,
                 "%*sconst int at = (blockIdx.x * %d + threadIdx.x) / %" PRId64
                 ", e = (blockIdx.x * %d + threadIdx.x) %% %" PRId64
                 ";\n"
                 "%*sif (at >= %" PRId64 ") return;\n",
                 indent, "", PTC_CUDA_THREADS, c->width, PTC_CUDA_THREADS, c->width, indent, "",
                 nest->num_grid);
  ptc_cuda_decode(&nest->scope, nest->grid, "at", indent, out);
  ptc_cuda_decode(&nest->scope, nest->row, "e", indent, out);
  for (int32_t i = 0; i < nest->kernel->num_exprs; ++i) {
    if (!is_column(c, i)) continue;
    const bool wide = ptc_cuda_nest_is_wide(c->nest, i);
    const char *type = wide ? acc_type(c, i) : sum_type(c, i);
    ptc_str_printf(out,
                   "%*s%s sum%d = %s;\n"
                   "#pragma unroll 8\n"
                   "%*sfor (int chunk = 0; chunk < %" PRId64
                   "; ++chunk) {\n"
                   "%*s  const %s x = ((const %s *)(workspace + %" PRId64
                   "))[((int64_t)at * %" PRId64 " + chunk) * %" PRId64 "%s];\n",
                   indent, "", sum_type(c, i), i, start(c, i), indent, "", c->num_chunks, indent,
                   "", type, type, c->partials[i], c->num_chunks, wide ? nest->num_row : 1,
                   wide ? " + e" : "");
    ptc_cuda_nest_join(nest, ptc_cuda_nest_at(nest, i), ptc_arena_printf(nest->arena, "sum%d", i),
                       "x", indent + 2);
    ptc_str_printf(out, "%*s}\n", indent, "");
    print_value(c, i, indent);
  }
  print_late_stores(c, nest->row, indent);
}

static ptc_status_t check(const columns_t *c, ptc_diag_t *diag) {
  const ptc_kernel_t *kernel = c->nest->kernel;
  for (int32_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    bool after = false;
    for (int32_t a = 0; a < e->num_args; ++a) after |= c->nest->late[e->args[a]];
    if ((e->kind == PTC_KX_REDUCE && after) || (is_column(c, i) && e->reduce == PTC_KX_ARGMAX))
      return ptc_error(
          diag, kernel->loc, PTC_UNSUPPORTED, "codegen-unsupported",
          "kernel \"%s\" (%s) reduces what a reduction over columns gives; this has no CUDA form "
          "yet, compile with --target cpu",
          kernel->name, kernel->about);
  }
  return PTC_OK;
}

ptc_status_t ptc_cuda_nest_columns(ptc_cuda_nest_t *nest, ptc_diag_t *diag,
                                   ptc_kernel_shape_t *out_shape) {
  const ptc_kernel_t *kernel = nest->kernel;
  ptc_str_t *out = nest->out;
  columns_t c = {.nest = nest, .width = 1};
  ptc_status_t status = check(&c, diag);
  if (status != PTC_OK) return status;
  for (int32_t s = 0; s < kernel->num_stores; ++s)
    if (ptc_cuda_nest_is_late(nest, &kernel->stores[s]) &&
        (ptc_nest_store_varies(kernel, &kernel->stores[s]) & nest->row))
      c.width = nest->num_row;
  choose_workers(&c);
  choose_chunks(&c);
  place_partials(&c);
  const int64_t units =
      c.per_block ? ceil_div(nest->num_grid, c.per_block) : nest->num_grid * c.num_chunks;
  const int64_t tiles[2] = {units * c.num_tiles,
                            ceil_div(nest->num_grid * c.width, PTC_CUDA_THREADS)};
  *out_shape = ptc_cuda_shape(nest->arena, tiles, is_final(&c) ? 1 : 2, c.workspace_bytes);
  if (is_final(&c)) {
    print_chunks(&c, 2);
    return PTC_OK;
  }
  ptc_str_printf(out,
                 "  unsigned char *const workspace = (unsigned char *)call->params[%d];\n"
                 "  if (call->phase == 0) {\n",
                 kernel->num_params);
  const char **clean = ptc_c_scope_save(&nest->scope);
  print_chunks(&c, 4);
  ptc_str_append(out, "  } else {\n");
  ptc_c_scope_restore(&nest->scope, clean);
  print_combine(&c, 4);
  ptc_str_append(out, "  }\n");
  return PTC_OK;
}
