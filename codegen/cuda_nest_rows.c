// Rows in CUDA: each level of row reductions is a pass over the row, then what is added to columns and stored in one
// more. Where the row fits the registers it is read once.
#include <inttypes.h>
#include <string.h>

#include "codegen/cuda_nest_impl.h"

enum { MAX_KEPT = 64, MAX_FIXED = 64, MANY_HELD = 64, AT_ONCE = 8 };

// Whether pass |level| over the row serves |expr|: a row or full reduction of that level.
static bool is_of_pass(const ptc_cuda_nest_t *nest, ptc_kx_t expr, int32_t level) {
  const ptc_kexpr_t *e = ptc_cuda_nest_at(nest, expr);
  return e->kind == PTC_KX_REDUCE && (e->over & nest->row) && nest->level[expr] == level &&
         expr != nest->online_sum;
}

// Whether |expr| is a column sum with one value for the whole row.
static bool is_single_column(const ptc_cuda_nest_t *nest, ptc_kx_t expr) {
  const ptc_kexpr_t *e = ptc_cuda_nest_at(nest, expr);
  return ptc_cuda_nest_is_col_reduce(nest, e) && !(e->over & nest->row) &&
         !(ptc_cuda_nest_at(nest, e->args[0])->varies & nest->row);
}

static const char *acc_name(const ptc_cuda_nest_t *nest, ptc_kx_t expr) {
  return ptc_arena_printf(nest->arena, "acc%d", expr);
}

// --- the loop over a thread's elements

int64_t ptc_cuda_nest_items(const ptc_cuda_nest_t *nest) {
  return (nest->tile + nest->team - 1) / nest->team;
}

bool ptc_cuda_nest_in_registers(const ptc_cuda_nest_t *nest) {
  return ptc_cuda_nest_items(nest) <= PTC_CUDA_MAX_ITEMS;
}

void ptc_cuda_nest_open_row(ptc_cuda_nest_t *nest, int32_t indent) {
  ptc_str_t *out = nest->out;
  const int64_t items = ptc_cuda_nest_items(nest);
  nest->loop_begin = out->len;
  if (!ptc_cuda_nest_in_registers(nest)) {
    ptc_str_printf(out, "%*sfor (int e = lane; e < %" PRId64 "; e += %d) {\n", indent, "",
                   nest->num_row, nest->team);
  } else {
    ptc_str_printf(out,
                   "#pragma unroll\n"
                   "%*sfor (int item = 0; item < %" PRId64
                   "; ++item) {\n"
                   "%*s  const int e = %slane + item * %d;\n",
                   indent, "", items, indent, "", nest->tile < nest->num_row ? "tile + " : "",
                   nest->team);
    if (nest->num_row % (nest->tile < nest->num_row ? nest->tile : nest->team) ||
        nest->tile % nest->team)
      ptc_str_printf(out, "%*s  if (e >= %" PRId64 ") break;\n", indent, "", nest->num_row);
    for (int32_t i = 0; i < nest->kernel->num_exprs; ++i) {
      if (nest->kept[i])
        nest->scope.value_text[i] = ptc_arena_printf(nest->arena, "keep%d[item]", i);
      if (nest->fixed[i])
        nest->scope.value_text[i] = ptc_arena_printf(nest->arena, "fixed%d[item]", i);
    }
  }
  ptc_cuda_decode(&nest->scope, nest->row, "e", indent + 2, out);
}

static bool is_row_load(const ptc_cuda_nest_t *nest, ptc_kx_t expr) {
  return ptc_cuda_nest_at(nest, expr)->kind == PTC_KX_LOAD &&
         (ptc_cuda_nest_at(nest, expr)->varies & nest->row);
}

static bool is_fixed_load(const ptc_cuda_nest_t *nest, ptc_kx_t expr) {
  return is_row_load(nest, expr) &&
         !(ptc_cuda_nest_at(nest, expr)->varies & (nest->grid | nest->col));
}

// Puts |arrays|, declarations, before the loop that was opened last.
static void declare_before_loop(ptc_cuda_nest_t *nest, ptc_str_t *arrays) {
  if (!arrays->len) return;
  ptc_str_append(arrays, nest->out->data + nest->loop_begin);
  nest->out->len = nest->loop_begin;
  ptc_str_append(nest->out, arrays->data);
}

static void print_array(const ptc_cuda_nest_t *nest, ptc_kx_t expr, const char *name,
                        int32_t indent, ptc_str_t *out) {
  ptc_str_printf(out, "%*s%s %s%d[%" PRId64 "];\n", indent, "",
                 ptc_c_type(ptc_cuda_nest_at(nest, expr)->dtype), name, expr,
                 ptc_cuda_nest_items(nest));
}

// Closes it, and keeps what was read unless the loop is the |last|: first of all what other points have not, too.
// |saved|: the scope before it.
static void close_row(ptc_cuda_nest_t *nest, const char **saved, bool last, int32_t indent) {
  ptc_str_t *out = nest->out;
  const int64_t items = ptc_cuda_nest_items(nest);
  ptc_str_t arrays = {0};
  for (int32_t shared = 0; !last && ptc_cuda_nest_in_registers(nest) && shared < 2; ++shared) {
    for (int32_t i = 0; i < nest->kernel->num_exprs; ++i) {
      const bool read =
          is_row_load(nest, i) && nest->scope.value_text[i] && !saved[i] && !nest->fixed[i];
      if (!read || nest->kept[i] || is_fixed_load(nest, i) != shared) continue;
      if (nest->num_kept + items > MAX_KEPT) continue;
      nest->kept[i] = true;
      nest->num_kept += (int32_t)items;
      print_array(nest, i, "keep", indent, &arrays);
      ptc_str_printf(out, "%*s  keep%d[item] = %s;\n", indent, "", i, nest->scope.value_text[i]);
    }
  }
  ptc_str_printf(out, "%*s}\n", indent, "");
  declare_before_loop(nest, &arrays);
  ptc_str_deinit(&arrays);
  ptc_c_scope_restore(&nest->scope, saved);
}

void ptc_cuda_nest_load_fixed(ptc_cuda_nest_t *nest, int32_t indent) {
  const int64_t items = ptc_cuda_nest_items(nest);
  if (nest->team == PTC_CUDA_WARP || !ptc_cuda_nest_in_registers(nest)) return;
  bool *fixed = PTC_ARENA_ARRAY(nest->arena, bool, nest->kernel->num_exprs + 1);
  int64_t values = 0;
  for (int32_t i = 0; i < nest->kernel->num_exprs; ++i) {
    if (!is_fixed_load(nest, i) || !nest->early[i] || values + items > MAX_FIXED) continue;
    fixed[i] = true;
    values += items;
  }
  if (!values) return;
  const char **saved = ptc_c_scope_save(&nest->scope);
  for (int32_t i = 0; i < nest->kernel->num_exprs; ++i)
    if (fixed[i]) print_array(nest, i, "fixed", indent, nest->out);
  ptc_cuda_nest_open_row(nest, indent);
  for (int32_t i = 0; i < nest->kernel->num_exprs; ++i) {
    if (!fixed[i]) continue;
    ptc_c_eval(&nest->scope, i, indent + 2, nest->out);
    ptc_str_printf(nest->out, "%*s  fixed%d[item] = %s;\n", indent, "", i,
                   nest->scope.value_text[i]);
  }
  ptc_str_printf(nest->out, "%*s}\n", indent, "");
  ptc_c_scope_restore(&nest->scope, saved);
  nest->fixed = fixed;
}

// --- a point

// One pass over the row for the reductions of |level| along it (row and full ones).
static void print_pass(ptc_cuda_nest_t *nest, int32_t level, int32_t indent) {
  const ptc_kernel_t *kernel = nest->kernel;
  ptc_str_t *out = nest->out;
  bool any = false;
  for (int32_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    if (!is_of_pass(nest, i, level)) continue;
    any = true;
    ptc_c_hoist(&nest->scope, e->args[0], nest->row, indent, out);
    ptc_str_printf(out, "%*s%s %s = %s;\n", indent, "", ptc_cuda_nest_acc_type(nest, e),
                   acc_name(nest, i), ptc_cuda_nest_acc_start(nest, e));
    if (e->reduce == PTC_KX_ARGMAX)
      ptc_str_printf(out, "%*sint place%d = INT32_MAX;\n", indent, "", i);
  }
  if (!any) return;
  const bool online = nest->online_max != PTC_KX_NONE && is_of_pass(nest, nest->online_max, level);
  const int32_t inside = indent + (online ? 4 : 2);
  const char **saved = ptc_c_scope_save(&nest->scope);
  if (online)
    ptc_cuda_nest_open_online(nest, indent);
  else
    ptc_cuda_nest_open_row(nest, indent);
  for (int32_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    if (!is_of_pass(nest, i, level)) continue;
    if (online && i == nest->online_max) {
      ptc_cuda_nest_add_online(nest, inside);
    } else if (e->reduce == PTC_KX_ARGMAX) {
      ptc_c_eval(&nest->scope, e->args[0], inside, out);
      ptc_str_printf(out, "%*sptc_first_max(acc%d, place%d, %s, e);\n", inside, "", i, i,
                     nest->scope.value_text[e->args[0]]);
    } else {
      ptc_cuda_nest_add(nest, i, acc_name(nest, i), false, inside);
    }
  }
  if (online)
    ptc_cuda_nest_close_online(nest, saved, indent);
  else
    close_row(nest, saved, false, indent);
  for (int32_t i = 0; i < kernel->num_exprs; ++i) {
    const ptc_kexpr_t *e = &kernel->exprs[i];
    if (!is_of_pass(nest, i, level)) continue;
    static const char *const kinds[] = {"sum", "max", "argmax", "all"};
    const char *suffix = nest->team == PTC_CUDA_WARP ? "warp" : "block";
    if (online && i == nest->online_max) {
      ptc_cuda_nest_join_online(nest, indent);
      continue;
    }
    if (e->reduce == PTC_KX_ARGMAX)
      ptc_str_printf(out, "%*sptc_%s_argmax(acc%d, place%d);\n", indent, "", suffix, i, i);
    else
      ptc_str_printf(out, "%*sacc%d = ptc_%s_%s(acc%d);\n", indent, "", i, suffix, kinds[e->reduce],
                     i);
    if (ptc_cuda_nest_is_col_reduce(nest, e)) {  // full: the row's part joins the chunk's
      const char *part = ptc_arena_printf(nest->arena, "part%d", i);
      ptc_cuda_nest_join(nest, e, part, acc_name(nest, i), indent);
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

const char *ptc_cuda_nest_column(const ptc_cuda_nest_t *nest, ptc_kx_t expr) {
  if (ptc_cuda_nest_in_registers(nest)) return ptc_arena_printf(nest->arena, "col%d[item]", expr);
  return ptc_arena_printf(nest->arena, "sums%d[e]", expr);
}

// Where a thread's kept values and sums fill most of half its registers, elements are read a few at a time: left to
// itself the compiler reads all first, and spills or halves the number of blocks of a multiprocessor.
static void print_pacing(const ptc_cuda_nest_t *nest, int32_t indent) {
  if (!ptc_cuda_nest_in_registers(nest)) return;
  int64_t held = nest->num_kept;
  for (int32_t i = 0; i < nest->kernel->num_exprs; ++i)
    if (ptc_cuda_nest_is_wide(nest, i)) held += ptc_cuda_nest_items(nest);
  if (held > MANY_HELD)
    ptc_str_printf(nest->out, "%*sif (item %% %d == 0) asm volatile(\"\" ::: \"memory\");\n",
                   indent, "", AT_ONCE);
}

// The last loop over the row: additions to columns, and stores that wait for no column; what stands once per row.
static void print_last(ptc_cuda_nest_t *nest, int32_t indent) {
  const ptc_kernel_t *kernel = nest->kernel;
  ptc_str_t *out = nest->out;
  bool any = false;
  for (int32_t i = 0; i < kernel->num_exprs; ++i) {
    if (ptc_cuda_nest_is_wide(nest, i)) {
      any = true;
      ptc_c_hoist(&nest->scope, ptc_cuda_nest_at(nest, i)->args[0], nest->row, indent, out);
    } else if (is_single_column(nest, i)) {
      ptc_cuda_nest_add(nest, i, ptc_arena_printf(nest->arena, "part%d", i), true, indent);
    }
  }
  for (int32_t s = 0; s < kernel->num_stores; ++s) {
    const ptc_kstore_t *store = &kernel->stores[s];
    if (ptc_cuda_nest_is_late(nest, store)) continue;
    if (ptc_nest_store_varies(kernel, store) & nest->row) {
      any = true;
      ptc_c_hoist(&nest->scope, store->value, nest->row, indent, out);
    } else {
      const char **saved = ptc_c_scope_save(&nest->scope);
      ptc_str_printf(out, "%*sif (lane == 0) {\n", indent, "");
      ptc_cuda_nest_store(nest, store, nest->grid | nest->col, indent + 2);
      ptc_str_printf(out, "%*s}\n", indent, "");
      ptc_c_scope_restore(&nest->scope, saved);
    }
  }
  if (!any) return;
  const char **saved = ptc_c_scope_save(&nest->scope);
  ptc_cuda_nest_open_row(nest, indent);
  print_pacing(nest, indent + 2);
  for (int32_t i = 0; i < kernel->num_exprs; ++i)
    if (ptc_cuda_nest_is_wide(nest, i))
      ptc_cuda_nest_add(nest, i, ptc_cuda_nest_column(nest, i), false, indent + 2);
  for (int32_t s = 0; s < kernel->num_stores; ++s)
    if (!ptc_cuda_nest_is_late(nest, &kernel->stores[s]) &&
        (ptc_nest_store_varies(kernel, &kernel->stores[s]) & nest->row))
      ptc_cuda_nest_store(nest, &kernel->stores[s], nest->grid | nest->col | nest->row, indent + 2);
  close_row(nest, saved, true, indent);
}

static int32_t num_levels(const ptc_cuda_nest_t *nest) {
  int32_t most = 0;
  for (int32_t i = 0; i < nest->kernel->num_exprs; ++i)
    if (nest->level[i] > most) most = nest->level[i];
  return most;
}

void ptc_cuda_nest_point(ptc_cuda_nest_t *nest, int32_t indent) {
  ptc_cuda_nest_find_online(nest);
  for (int32_t level = 1; level <= num_levels(nest); ++level) print_pass(nest, level, indent);
  print_last(nest, indent);
}

// --- kernels without column sums

// A block has so many points that what all of them read, as the scale of a norm, is a small part of its bytes.
void ptc_cuda_nest_rows(ptc_cuda_nest_t *nest, ptc_kernel_shape_t *out_shape) {
  ptc_str_t *out = nest->out;
  const int64_t points = nest->num_grid * nest->num_col;
  const int64_t blocks = ptc_cuda_nest_max_blocks(nest, ptc_cuda_nest_fixed_bytes(nest));
  int64_t per_block = (points + blocks - 1) / blocks;
  per_block = (per_block + nest->workers - 1) / nest->workers * nest->workers;
  if (per_block < nest->workers) per_block = nest->workers;
  const bool warps = nest->team == PTC_CUDA_WARP;
  ptc_str_printf(out, "  const int lane = threadIdx.x%s;\n", warps ? " % 32" : "");
  if (per_block > nest->workers) ptc_cuda_nest_load_fixed(nest, 2);
  ptc_str_printf(out,
                 "  const int first = blockIdx.x * %" PRId64 "%s, end = (blockIdx.x + 1) * %" PRId64
                 ";\n"
                 "  for (int point = first; point < end && point < %" PRId64 "; point += %d) {\n",
                 per_block, warps ? " + threadIdx.x / 32" : "", per_block, points, nest->workers);
  const char **saved = ptc_c_scope_save(&nest->scope);
  ptc_cuda_decode(&nest->scope, nest->grid | nest->col, "point", 4, out);
  ptc_cuda_nest_point(nest, 4);
  ptc_c_scope_restore(&nest->scope, saved);
  ptc_str_append(out, "  }\n");
  const int64_t tiles = (points + per_block - 1) / per_block;
  *out_shape = ptc_cuda_shape(nest->arena, &tiles, 1, 0);
}
