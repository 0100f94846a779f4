// Loop nests in CUDA. Without reductions: a thread per element, four elements each. With row reductions: a
// warp (short rows) or a block per row; each level of reductions is a pass over the row. Column and full
// reductions: a block per chunk of 32 column points, partial sums in the workspace in double, and a second
// phase that adds the chunks in order.
#include <inttypes.h>
#include <string.h>

#include "codegen/c_nest.h"
#include "codegen/cuda_codegen.h"

enum { COL_CHUNK = 32, MAP_ITEMS = 4, MAX_ITEMS = 16, WARP = 32, SHORT_ROW = 256, MAX_KEPT = 64 };

typedef struct nest_s {
  const ptc_kernel_t *kernel;
  ptc_arena_t *arena;
  ptc_str_t *out;
  ptc_c_scope_t scope;
  uint32_t grid, col, row;  // loop dims
  int64_t num_grid, num_col, num_row, num_chunks;
  int32_t team;       // threads of a row: WARP or PTC_CUDA_THREADS
  int32_t *level;     // per expression: number of reductions below and at it
  bool *late;         // per expression: depends on a column or full reduction
  int64_t *partials;  // per REDUCE over columns: its place in the workspace, in doubles
  int64_t workspace;  // doubles
  bool *kept;         // per LOAD: its elements of the row are in `keepN[item]`
  int32_t num_kept;
  size_t loop_begin;  // where the text of the loop over the row begins
} nest_t;

static const ptc_kexpr_t *at(const nest_t *nest, ptc_kx_t expr) {
  return &nest->kernel->exprs[expr];
}

static bool is_col_reduce(const nest_t *nest, const ptc_kexpr_t *e) {
  return e->kind == PTC_KX_REDUCE && (e->over & nest->col);
}

// Whether a column reduction gives one value per element of the row.
static bool is_wide(const nest_t *nest, const ptc_kexpr_t *e) {
  return !(e->over & nest->row) && (at(nest, e->args[0])->varies & nest->row);
}

// Whether pass |level| over the row serves |e|: a row or full reduction of that level.
static bool is_of_pass(const nest_t *nest, int32_t expr, int32_t level) {
  const ptc_kexpr_t *e = at(nest, expr);
  return e->kind == PTC_KX_REDUCE && (e->over & nest->row) && nest->level[expr] == level;
}

// Levels, and what depends on column reductions.
static void analyze(nest_t *nest) {
  const ptc_kernel_t *kernel = nest->kernel;
  nest->level = PTC_ARENA_ARRAY(nest->arena, int32_t, kernel->num_exprs + 1);
  nest->late = PTC_ARENA_ARRAY(nest->arena, bool, kernel->num_exprs + 1);
  nest->partials = PTC_ARENA_ARRAY(nest->arena, int64_t, kernel->num_exprs + 1);
  nest->kept = PTC_ARENA_ARRAY(nest->arena, bool, kernel->num_exprs + 1);
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
    if (!is_col_reduce(nest, e)) continue;
    nest->late[i] = true;
    nest->partials[i] = nest->workspace;
    nest->workspace +=
        nest->num_grid * nest->num_chunks * (e->varies & nest->row ? nest->num_row : 1);
  }
}

static bool store_is_late(const nest_t *nest, const ptc_kstore_t *store) {
  bool late = nest->late[store->value];
  for (int32_t i = 0; i < nest->kernel->params[store->param].num_dims; ++i)
    late |= nest->late[store->index[i]];
  return late;
}

// `i_b == 0 && ...` for the loop dims of |among| that the store does not vary over; NULL if there are none.
static const char *once_test(const nest_t *nest, const ptc_kstore_t *store, uint32_t among) {
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

static void print_store(nest_t *nest, const ptc_kstore_t *store, uint32_t among, int32_t indent) {
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
static bool is_used_varying(const nest_t *nest, ptc_kx_t expr) {
  const ptc_kernel_t *kernel = nest->kernel;
  for (int32_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = at(nest, i);
    for (int32_t a = 0; e->varies && a < e->num_args; ++a)
      if (e->args[a] == expr) return true;
  }
  for (int32_t s = 0; s < kernel->num_stores; ++s)
    if (kernel->stores[s].value == expr) return true;
  return false;
}

// Numbers that are the same for all points, as the learning rate and the corrections of AdamW, are computed by one
// thread of a block if they are many: each thread would read and compute as much for them as for its elements.
static void print_once(nest_t *nest) {
  const ptc_kernel_t *kernel = nest->kernel;
  int32_t count = 0;
  for (int32_t i = 0; i < kernel->num_exprs; ++i)
    count += !at(nest, i)->varies && at(nest, i)->kind != PTC_KX_CONST;
  if (count <= FEW_VALUES) return;
  const char **saved = ptc_c_scope_save(&nest->scope);
  bool *shared = PTC_ARENA_ARRAY(nest->arena, bool, kernel->num_exprs + 1);
  ptc_str_t body = {0};
  for (int32_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kx_kind_t kind = at(nest, i)->kind;
    const bool is_value = kind == PTC_KX_LOAD || kind == PTC_KX_OP;
    if (at(nest, i)->varies || !is_value || !is_used_varying(nest, i)) continue;
    shared[i] = true;
    ptc_c_eval(&nest->scope, i, 4, &body);
    ptc_str_printf(&body, "    once%d = %s;\n", i, nest->scope.value_text[i]);
    ptc_str_printf(nest->out, "  __shared__ %s once%d;\n", ptc_c_type(at(nest, i)->dtype), i);
  }
  ptc_c_scope_restore(&nest->scope, saved);
  if (body.len) {
    ptc_str_printf(nest->out, "  if (threadIdx.x == 0) {\n%s  }\n  __syncthreads();\n", body.data);
    for (int32_t i = 0; i < kernel->num_exprs; ++i) {
      if (!shared[i]) continue;
      ptc_str_printf(nest->out, "  const %s v%d = once%d;\n", ptc_c_type(at(nest, i)->dtype), i, i);
      nest->scope.value_text[i] = ptc_arena_printf(nest->arena, "v%d", i);
    }
  }
  ptc_str_deinit(&body);
}

// --- without reductions

static ptc_status_t print_map(nest_t *nest, ptc_kernel_shape_t *out_shape) {
  const uint32_t all = nest->grid | nest->col | nest->row;
  const int64_t total = nest->num_grid * nest->num_col * nest->num_row;
  const char *type = total < INT32_MAX / 2 ? "int" : "int64_t";
  if (total > WARP) print_once(nest);
  ptc_str_printf(nest->out,
                 "#pragma unroll\n"
                 "  for (int i = 0; i < %d; ++i) {\n"
                 "    const %s e = (%s)blockIdx.x * %d + i * %d + threadIdx.x;\n"
                 "    if (e >= %" PRId64 ") break;\n",
                 MAP_ITEMS, type, type, MAP_ITEMS * PTC_CUDA_THREADS, PTC_CUDA_THREADS, total);
  ptc_cuda_decode(&nest->scope, all, "e", 4, nest->out);
  // What several stores share is computed before a condition hides it.
  for (int32_t s = 0; s < nest->kernel->num_stores; ++s)
    if (!once_test(nest, &nest->kernel->stores[s], all))
      ptc_c_eval(&nest->scope, nest->kernel->stores[s].value, 4, nest->out);
  for (int32_t s = 0; s < nest->kernel->num_stores; ++s)
    print_store(nest, &nest->kernel->stores[s], all, 4);
  ptc_str_append(nest->out, "  }\n");
  const int64_t per_tile = MAP_ITEMS * PTC_CUDA_THREADS, tiles = (total + per_tile - 1) / per_tile;
  *out_shape = ptc_cuda_shape(nest->arena, &tiles, 1, 0);
  return PTC_OK;
}

// --- reductions

// The accumulator's type, its start, and how a value joins it.
static const char *acc_type(const nest_t *nest, const ptc_kexpr_t *e) {
  const ptc_dtype_t from = at(nest, e->args[0])->dtype;
  if (e->reduce == PTC_KX_ALL) return "bool";
  if (e->reduce == PTC_KX_ARGMAX) return ptc_c_type(from);
  if (ptc_dtype_is_int(e->dtype)) return "int64_t";
  return e->dtype == PTC_F64 || from == PTC_F64 ? "double" : "float";
}

static const char *acc_start(const nest_t *nest, const ptc_kexpr_t *e) {
  const bool whole = ptc_dtype_is_int(at(nest, e->args[0])->dtype);
  switch (e->reduce) {
    case PTC_KX_ALL: return "true";
    case PTC_KX_SUM: return "0";
    default:
      return whole ? (at(nest, e->args[0])->dtype == PTC_I32 && e->reduce == PTC_KX_ARGMAX
                          ? "INT32_MIN"
                          : "INT64_MIN")
                   : "-INFINITY";
  }
}

static void print_join(const nest_t *nest, const ptc_kexpr_t *e, const char *acc, const char *value,
                       int32_t indent) {
  (void)nest;
  ptc_str_t *out = nest->out;
  ptc_c_indent(out, indent);
  switch (e->reduce) {
    case PTC_KX_SUM: ptc_str_printf(out, "%s += %s;\n", acc, value); break;
    case PTC_KX_ALL: ptc_str_printf(out, "%s = %s && %s;\n", acc, acc, value); break;
    // A NaN that was met stays; one that comes is taken.
    default:
      ptc_str_printf(out, "%s = (%s > %s || %s != %s) ? %s : %s;\n", acc, value, acc, value, value,
                     value, acc);
      break;
  }
}

static void print_join_argmax(const nest_t *nest, const char *acc, const char *place,
                              const char *value, const char *position, int32_t indent) {
  ptc_str_printf(nest->out, "%*sptc_first_max(%s, %s, %s, %s);\n", indent, "", acc, place, value,
                 position);
}

// Appends |value| of the addend to the accumulator; a product that is not rounded goes in by fma.
static void print_add(nest_t *nest, ptc_kx_t expr, const char *acc, int32_t indent) {
  const ptc_kexpr_t *e = at(nest, expr), *addend = at(nest, e->args[0]);
  if (e->fma && addend->kind == PTC_KX_OP && addend->opcode == PTC_OP_MUL &&
      addend->dtype == PTC_F32) {
    ptc_c_eval(&nest->scope, addend->args[0], indent, nest->out);
    ptc_c_eval(&nest->scope, addend->args[1], indent, nest->out);
    ptc_str_printf(nest->out, "%*s%s = fmaf(%s, %s, %s);\n", indent, "", acc,
                   nest->scope.value_text[addend->args[0]], nest->scope.value_text[addend->args[1]],
                   acc);
    return;
  }
  ptc_c_eval(&nest->scope, e->args[0], indent, nest->out);
  print_join(nest, e, acc, nest->scope.value_text[e->args[0]], indent);
}

static const char *acc_name(const nest_t *nest, ptc_kx_t expr) {
  return ptc_arena_printf(nest->arena, "acc%d", expr);
}

static int64_t row_items(const nest_t *nest) {
  return (nest->num_row + nest->team - 1) / nest->team;
}

// Opens the loop over a thread's elements of the row. Where the row fits the registers, what an earlier loop has read of
// it is still there.
static void open_row_loop(nest_t *nest, int32_t indent) {
  ptc_str_t *out = nest->out;
  const int64_t items = row_items(nest);
  nest->loop_begin = out->len;
  if (items > MAX_ITEMS) {
    ptc_str_printf(out, "%*sfor (int e = lane; e < %" PRId64 "; e += %d) {\n", indent, "",
                   nest->num_row, nest->team);
  } else {
    ptc_str_printf(out,
                   "#pragma unroll\n"
                   "%*sfor (int item = 0; item < %" PRId64
                   "; ++item) {\n"
                   "%*s  const int e = lane + item * %d;\n",
                   indent, "", items, indent, "", nest->team);
    if (nest->num_row % nest->team)
      ptc_str_printf(out, "%*s  if (e >= %" PRId64 ") break;\n", indent, "", nest->num_row);
    for (int32_t i = 0; i < nest->kernel->num_exprs; ++i)
      if (nest->kept[i])
        nest->scope.value_text[i] = ptc_arena_printf(nest->arena, "keep%d[item]", i);
  }
  ptc_cuda_decode(&nest->scope, nest->row, "e", indent + 2, out);
}

// Closes it, and keeps what was read unless the loop is the |last|. |saved|: the scope before it.
static void close_row_loop(nest_t *nest, const char **saved, bool last, int32_t indent) {
  ptc_str_t *out = nest->out;
  const int64_t items = row_items(nest);
  ptc_str_t arrays = {0};
  for (int32_t i = 0; !last && items <= MAX_ITEMS && i < nest->kernel->num_exprs; ++i) {
    const bool read = at(nest, i)->kind == PTC_KX_LOAD && (at(nest, i)->varies & nest->row) &&
                      nest->scope.value_text[i] && !saved[i] && !nest->kept[i];
    if (!read || (nest->num_kept + 1) * items > MAX_KEPT) continue;
    nest->kept[i] = true;
    ++nest->num_kept;
    ptc_str_printf(&arrays, "%*s%s keep%d[%" PRId64 "];\n", indent, "",
                   ptc_c_type(at(nest, i)->dtype), i, items);
    ptc_str_printf(out, "%*s  keep%d[item] = %s;\n", indent, "", i, nest->scope.value_text[i]);
  }
  ptc_str_printf(out, "%*s}\n", indent, "");
  if (arrays.len) {  // declared before the loop
    ptc_str_append(&arrays, out->data + nest->loop_begin);
    out->len = nest->loop_begin;
    ptc_str_append(out, arrays.data);
  }
  ptc_str_deinit(&arrays);
  ptc_c_scope_restore(&nest->scope, saved);
}

// One pass over the row for the reductions of |level| along it (row and full ones).
static void print_pass(nest_t *nest, int32_t level, int32_t indent) {
  const ptc_kernel_t *kernel = nest->kernel;
  ptc_str_t *out = nest->out;
  bool any = false;
  for (int32_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    if (!is_of_pass(nest, i, level)) continue;
    any = true;
    ptc_c_hoist(&nest->scope, e->args[0], nest->row, indent, out);
    ptc_str_printf(out, "%*s%s %s = %s;\n", indent, "", acc_type(nest, e), acc_name(nest, i),
                   acc_start(nest, e));
    if (e->reduce == PTC_KX_ARGMAX)
      ptc_str_printf(out, "%*sint place%d = INT32_MAX;\n", indent, "", i);
  }
  if (!any) return;
  const char **saved = ptc_c_scope_save(&nest->scope);
  open_row_loop(nest, indent);
  for (int32_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    if (!is_of_pass(nest, i, level)) continue;
    if (e->reduce == PTC_KX_ARGMAX) {
      ptc_c_eval(&nest->scope, e->args[0], indent + 2, out);
      print_join_argmax(nest, acc_name(nest, i), ptc_arena_printf(nest->arena, "place%d", i),
                        nest->scope.value_text[e->args[0]], "e", indent + 2);
    } else {
      print_add(nest, i, acc_name(nest, i), indent + 2);
    }
  }
  close_row_loop(nest, saved, false, indent);
  for (int32_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    if (!is_of_pass(nest, i, level)) continue;
    static const char *const kinds[] = {"sum", "max", "argmax", "all"};
    const char *suffix = nest->team == WARP ? "warp" : "block";
    if (e->reduce == PTC_KX_ARGMAX)
      ptc_str_printf(out, "%*sptc_%s_argmax(acc%d, place%d);\n", indent, "", suffix, i, i);
    else
      ptc_str_printf(out, "%*sacc%d = ptc_%s_%s(acc%d);\n", indent, "", i, suffix, kinds[e->reduce],
                     i);
    if (is_col_reduce(nest, e)) {  // full: the row's part joins the chunk's
      const char *part = ptc_arena_printf(nest->arena, "part%d", i);
      print_join(nest, e, part, acc_name(nest, i), indent);
    } else {
      const char *value = e->reduce == PTC_KX_ARGMAX
                              ? ptc_arena_printf(nest->arena, "place%d", i)
                              : ptc_arena_printf(nest->arena, "(%s)acc%d", ptc_c_type(e->dtype), i);
      ptc_str_printf(out, "%*sconst %s v%d = %s;\n", indent, "", ptc_c_type(e->dtype), i,
                     ptc_c_round(nest->arena, e->dtype, value));
      nest->scope.value_text[i] = ptc_arena_printf(nest->arena, "v%d", i);
    }
  }
}

// Stores that wait for no column reduction: one loop over the row, and what stands once per row.
static void print_row_stores(nest_t *nest, int32_t indent) {
  const ptc_kernel_t *kernel = nest->kernel;
  ptc_str_t *out = nest->out;
  bool any = false;
  for (int32_t s = 0; s < kernel->num_stores; ++s) {
    const ptc_kstore_t *store = &kernel->stores[s];
    if (store_is_late(nest, store)) continue;
    if (ptc_nest_store_varies(nest->kernel, store) & nest->row) {
      any = true;
      ptc_c_hoist(&nest->scope, store->value, nest->row, indent, out);
    } else {
      const char **saved = ptc_c_scope_save(&nest->scope);
      ptc_str_printf(out, "%*sif (lane == 0) {\n", indent, "");
      print_store(nest, store, nest->grid | nest->col, indent + 2);
      ptc_str_printf(out, "%*s}\n", indent, "");
      ptc_c_scope_restore(&nest->scope, saved);
    }
  }
  if (!any) return;
  const char **saved = ptc_c_scope_save(&nest->scope);
  open_row_loop(nest, indent);
  for (int32_t s = 0; s < kernel->num_stores; ++s)
    if (!store_is_late(nest, &kernel->stores[s]) &&
        (ptc_nest_store_varies(nest->kernel, &kernel->stores[s]) & nest->row))
      print_store(nest, &kernel->stores[s], nest->grid | nest->col | nest->row, indent + 2);
  close_row_loop(nest, saved, true, indent);
}

static int32_t num_levels(const nest_t *nest) {
  int32_t most = 0;
  for (int32_t i = 0; i < nest->kernel->num_exprs; ++i)
    if (nest->level[i] > most) most = nest->level[i];
  return most;
}

static void print_rows(nest_t *nest, ptc_kernel_shape_t *out_shape) {
  ptc_str_t *out = nest->out;
  const int64_t points = nest->num_grid * nest->num_col;
  const int64_t per_tile = PTC_CUDA_THREADS / nest->team;
  if (nest->team == WARP)
    ptc_str_printf(
        out,
        "  const int lane = threadIdx.x %% 32, point = blockIdx.x * 8 + threadIdx.x / 32;\n"
        "  if (point >= %" PRId64 ") return;\n",
        points);
  else
    ptc_str_append(out, "  const int lane = threadIdx.x, point = blockIdx.x;\n");
  ptc_cuda_decode(&nest->scope, nest->grid | nest->col, "point", 2, out);
  for (int32_t level = 1; level <= num_levels(nest); ++level) print_pass(nest, level, 2);
  print_row_stores(nest, 2);
  const int64_t tiles = (points + per_tile - 1) / per_tile;
  *out_shape = ptc_cuda_shape(nest->arena, &tiles, 1, 0);
}

// --- column and full reductions

// Column sums that vary over the row: a thread's elements of the row are lane, lane + 256, ...
static bool in_registers(const nest_t *nest) {
  return nest->num_row <= MAX_ITEMS * PTC_CUDA_THREADS;
}

static void print_column_adds(nest_t *nest, int32_t indent) {
  const ptc_kernel_t *kernel = nest->kernel;
  ptc_str_t *out = nest->out;
  bool any = false;
  for (int32_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    if (!is_col_reduce(nest, e) || (e->over & nest->row)) continue;
    if (at(nest, e->args[0])->varies & nest->row) {
      any = true;
      ptc_c_hoist(&nest->scope, e->args[0], nest->row, indent, out);
    } else {
      print_add(nest, i, ptc_arena_printf(nest->arena, "part%d", i), indent);
    }
  }
  if (!any) return;
  const char **saved = ptc_c_scope_save(&nest->scope);
  open_row_loop(nest, indent);
  for (int32_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    if (!is_col_reduce(nest, e) || !is_wide(nest, e)) continue;
    const char *acc =
        in_registers(nest)
            ? ptc_arena_printf(nest->arena, "col%d[item]", i)
            : ptc_arena_printf(nest->arena,
                               "workspace[%" PRId64 " + (int64_t)blockIdx.x * %" PRId64 " + e]",
                               nest->partials[i], nest->num_row);
    print_add(nest, i, acc, indent + 2);
  }
  close_row_loop(nest, saved, false, indent);
}

static void print_chunk_begin(nest_t *nest) {
  const ptc_kernel_t *kernel = nest->kernel;
  ptc_str_t *out = nest->out;
  for (int32_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    if (!is_col_reduce(nest, e)) continue;
    const bool wide = is_wide(nest, e);
    if (!wide) {
      ptc_str_printf(out, "    %s part%d = %s;\n", acc_type(nest, e), i, acc_start(nest, e));
    } else if (in_registers(nest)) {
      const int64_t items = (nest->num_row + PTC_CUDA_THREADS - 1) / PTC_CUDA_THREADS;
      ptc_str_printf(out,
                     "    %s col%d[%" PRId64
                     "];\n"
                     "#pragma unroll\n"
                     "    for (int item = 0; item < %" PRId64 "; ++item) col%d[item] = %s;\n",
                     acc_type(nest, e), i, items, items, i, acc_start(nest, e));
    } else {
      ptc_str_printf(out,
                     "    for (int e = lane; e < %" PRId64
                     "; e += %d)\n"
                     "      workspace[%" PRId64 " + (int64_t)blockIdx.x * %" PRId64 " + e] = %s;\n",
                     nest->num_row, PTC_CUDA_THREADS, nest->partials[i], nest->num_row,
                     acc_start(nest, e));
    }
  }
}

static void print_chunk_end(nest_t *nest) {
  const ptc_kernel_t *kernel = nest->kernel;
  ptc_str_t *out = nest->out;
  for (int32_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    if (!is_col_reduce(nest, e)) continue;
    const bool wide = is_wide(nest, e);
    if (!wide)
      ptc_str_printf(out,
                     "    if (lane == 0) workspace[%" PRId64 " + blockIdx.x] = (double)part%d;\n",
                     nest->partials[i], i);
    else if (in_registers(nest))
      ptc_str_printf(out,
                     "#pragma unroll\n"
                     "    for (int item = 0; item < %" PRId64
                     "; ++item) {\n"
                     "      const int e = lane + item * %d;\n"
                     "      if (e < %" PRId64 ") workspace[%" PRId64
                     " + (int64_t)blockIdx.x * %" PRId64
                     " + e] = (double)col%d[item];\n"
                     "    }\n",
                     (nest->num_row + PTC_CUDA_THREADS - 1) / PTC_CUDA_THREADS, PTC_CUDA_THREADS,
                     nest->num_row, nest->partials[i], nest->num_row, i);
  }
}

// The second phase: a thread per grid point and element of the row.
static void print_combine(nest_t *nest, int64_t width) {
  const ptc_kernel_t *kernel = nest->kernel;
  ptc_str_t *out = nest->out;
  ptc_str_printf(out,
                 "    const int at = blockIdx.x * %d + threadIdx.x, point = at / %" PRId64
                 ", e = at %% %" PRId64
                 ";\n"
                 "    if (point >= %" PRId64 ") return;\n",
                 PTC_CUDA_THREADS, width, width, nest->num_grid);
  ptc_cuda_decode(&nest->scope, nest->grid, "point", 4, out);
  ptc_cuda_decode(&nest->scope, nest->row, "e", 4, out);
  for (int32_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    if (!is_col_reduce(nest, e)) continue;
    const bool wide = is_wide(nest, e);
    const char *sum = ptc_arena_printf(nest->arena, "sum%d", i);
    ptc_str_printf(out,
                   "    double %s = %s;\n"
                   "    for (int chunk = 0; chunk < %" PRId64
                   "; ++chunk) {\n"
                   "      const double x = workspace[%" PRId64 " + ((int64_t)point * %" PRId64
                   " + chunk) * %" PRId64 "%s];\n",
                   sum, e->reduce == PTC_KX_ALL ? "1" : acc_start(nest, e), nest->num_chunks,
                   nest->partials[i], nest->num_chunks, wide ? nest->num_row : 1,
                   wide ? " + e" : "");
    if (e->reduce == PTC_KX_ALL)
      ptc_str_printf(out, "      %s = %s * x;\n", sum, sum);
    else
      print_join(nest, e, sum, "x", 6);
    ptc_str_append(out, "    }\n");
    const char *value = e->dtype == PTC_BOOL
                            ? ptc_arena_printf(nest->arena, "%s != 0", sum)
                            : ptc_arena_printf(nest->arena, "(%s)%s", ptc_c_type(e->dtype), sum);
    ptc_str_printf(out, "    const %s v%d = %s;\n", ptc_c_type(e->dtype), i,
                   ptc_c_round(nest->arena, e->dtype, value));
    nest->scope.value_text[i] = ptc_arena_printf(nest->arena, "v%d", i);
  }
  for (int32_t s = 0; s < kernel->num_stores; ++s)
    if (store_is_late(nest, &kernel->stores[s]))
      print_store(nest, &kernel->stores[s], nest->row, 4);
}

// Sums over the columns of a long row, and nothing else: an element of the row is a thread's of its own.
static bool only_long_columns(const nest_t *nest) {
  const ptc_kernel_t *kernel = nest->kernel;
  if (in_registers(nest)) return false;
  for (int32_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = at(nest, i);
    if (e->kind == PTC_KX_REDUCE && !(is_col_reduce(nest, e) && is_wide(nest, e))) return false;
  }
  for (int32_t s = 0; s < kernel->num_stores; ++s)
    if (!store_is_late(nest, &kernel->stores[s])) return false;
  return true;
}

static int64_t num_row_blocks(const nest_t *nest) {
  return (nest->num_row + PTC_CUDA_THREADS - 1) / PTC_CUDA_THREADS;
}

static void print_long_columns(nest_t *nest) {
  const ptc_kernel_t *kernel = nest->kernel;
  ptc_str_t *out = nest->out;
  const int64_t blocks = num_row_blocks(nest);
  ptc_str_printf(out,
                 "    const int chunk = blockIdx.x / %" PRId64 ", e = blockIdx.x %% %" PRId64
                 " * %d + threadIdx.x;\n"
                 "    const int chunk_grid = chunk / %" PRId64 ", first = chunk %% %" PRId64
                 " * %d;\n"
                 "    if (e >= %" PRId64 ") return;\n",
                 blocks, blocks, PTC_CUDA_THREADS, nest->num_chunks, nest->num_chunks, COL_CHUNK,
                 nest->num_row);
  ptc_cuda_decode(&nest->scope, nest->grid, "chunk_grid", 4, out);
  ptc_cuda_decode(&nest->scope, nest->row, "e", 4, out);
  for (int32_t i = 0; i < kernel->num_exprs; ++i)
    if (is_col_reduce(nest, at(nest, i)))
      ptc_str_printf(out, "    %s col%d = %s;\n", acc_type(nest, at(nest, i)), i,
                     acc_start(nest, at(nest, i)));
  ptc_str_printf(
      out, "    for (int point = first; point < first + %d && point < %" PRId64 "; ++point) {\n",
      COL_CHUNK, nest->num_col);
  const char **saved = ptc_c_scope_save(&nest->scope);
  ptc_cuda_decode(&nest->scope, nest->col, "point", 6, out);
  for (int32_t i = 0; i < kernel->num_exprs; ++i)
    if (is_col_reduce(nest, at(nest, i)))
      print_add(nest, i, ptc_arena_printf(nest->arena, "col%d", i), 6);
  ptc_str_append(out, "    }\n");
  ptc_c_scope_restore(&nest->scope, saved);
  for (int32_t i = 0; i < kernel->num_exprs; ++i)
    if (is_col_reduce(nest, at(nest, i)))
      ptc_str_printf(
          out, "    workspace[%" PRId64 " + (int64_t)chunk * %" PRId64 " + e] = (double)col%d;\n",
          nest->partials[i], nest->num_row, i);
}

// A point's passes over its row, then what it adds to the columns of its chunk.
static void print_chunk(nest_t *nest) {
  ptc_str_t *out = nest->out;
  ptc_str_printf(out,
                 "    const int chunk_grid = blockIdx.x / %" PRId64
                 ", first = blockIdx.x %% %" PRId64 " * %d;\n",
                 nest->num_chunks, nest->num_chunks, COL_CHUNK);
  ptc_cuda_decode(&nest->scope, nest->grid, "chunk_grid", 4, out);
  print_chunk_begin(nest);
  ptc_str_printf(
      out, "    for (int point = first; point < first + %d && point < %" PRId64 "; ++point) {\n",
      COL_CHUNK, nest->num_col);
  const char **saved = ptc_c_scope_save(&nest->scope);
  ptc_cuda_decode(&nest->scope, nest->col, "point", 6, out);
  for (int32_t level = 1; level <= num_levels(nest); ++level) print_pass(nest, level, 6);
  print_column_adds(nest, 6);
  print_row_stores(nest, 6);
  ptc_str_append(out, "    }\n");
  ptc_c_scope_restore(&nest->scope, saved);
  print_chunk_end(nest);
}

static ptc_status_t print_columns(nest_t *nest, ptc_diag_t *diag, ptc_kernel_shape_t *out_shape) {
  const ptc_kernel_t *kernel = nest->kernel;
  ptc_str_t *out = nest->out;
  int64_t width = 1;
  for (int32_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    bool after = false;
    for (int32_t a = 0; a < e->num_args; ++a) after |= nest->late[e->args[a]];
    if ((e->kind == PTC_KX_REDUCE && after) ||
        (is_col_reduce(nest, e) && e->reduce == PTC_KX_ARGMAX))
      return ptc_error(
          diag, kernel->loc, PTC_UNSUPPORTED, "codegen-unsupported",
          "kernel \"%s\" (%s) reduces what a reduction over columns gives; this has no CUDA form "
          "yet, compile with --target cpu",
          kernel->name, kernel->about);
  }
  for (int32_t s = 0; s < kernel->num_stores; ++s)
    if (store_is_late(nest, &kernel->stores[s]) &&
        (ptc_nest_store_varies(nest->kernel, &kernel->stores[s]) & nest->row))
      width = nest->num_row;
  const char **clean = ptc_c_scope_save(&nest->scope);
  const bool by_element = only_long_columns(nest);
  ptc_str_printf(out, "%s  if (call->phase == 0) {\n",
                 by_element ? "" : "  const int lane = threadIdx.x;\n");
  if (by_element)
    print_long_columns(nest);
  else
    print_chunk(nest);
  ptc_str_append(out, "  } else {\n");
  ptc_c_scope_restore(&nest->scope, clean);
  print_combine(nest, width);
  ptc_str_append(out, "  }\n");
  const int64_t tiles[2] = {
      nest->num_grid * nest->num_chunks * (by_element ? num_row_blocks(nest) : 1),
      (nest->num_grid * width + PTC_CUDA_THREADS - 1) / PTC_CUDA_THREADS};
  *out_shape = ptc_cuda_shape(nest->arena, tiles, 2, nest->workspace * (int64_t)sizeof(double));
  return PTC_OK;
}

ptc_status_t ptc_cuda_nest(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                           ptc_str_t *out, ptc_kernel_shape_t *out_shape) {
  nest_t nest = {.kernel = kernel, .arena = arena, .out = out};
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
  nest.num_chunks = (nest.num_col + COL_CHUNK - 1) / COL_CHUNK;
  bool reduces = false, columns = false;
  for (int32_t i = 0; i < kernel->num_exprs; ++i) {
    reduces |= kernel->exprs[i].kind == PTC_KX_REDUCE;
    columns |= is_col_reduce(&nest, &kernel->exprs[i]);
  }
  analyze(&nest);
  nest.team = columns || nest.num_row > SHORT_ROW ? PTC_CUDA_THREADS : WARP;
  ptc_cuda_prelude(out, kernel);
  if (reduces) ptc_cuda_reductions(out);
  ptc_str_printf(out,
                 "extern \"C\" __global__ void __launch_bounds__(%d) %s(const ptc_kernel_call_t "
                 "arguments) {\n",
                 PTC_CUDA_THREADS, kernel->name);
  ptc_cuda_start(out, kernel);
  ptc_cuda_declare(out, kernel);
  if (columns)
    ptc_str_printf(out, "  double *const workspace = (double *)call->params[%d];\n",
                   kernel->num_params);
  ptc_status_t status = PTC_OK;
  if (!reduces)
    status = print_map(&nest, out_shape);
  else if (columns)
    status = print_columns(&nest, diag, out_shape);
  else
    print_rows(&nest, out_shape);
  ptc_str_append(out, "}\n");
  return status;
}
