// Kernels with reductions: a row program per point of the grid and column dims.
//
// One phase where only rows are reduced. Column and full reductions: partial sums of every 32 columns, in f32, then a
// second phase that adds them in double and computes the rest; in the same tile if that is cheap ("inside"). Few
// long rows without columns: a phase per level, whose tiles take 65536 elements each ("split").
#include "codegen/c_nest_rows.h"

#include <inttypes.h>

static void survey(ptc_rows_t *p) {
  ptc_c_nest_t *nest = p->nest;
  for (ptc_kx_t i = 0; i < nest->kernel->num_exprs; ++i) {
    if (!ptc_rows_is_used(nest, i)) continue;
    const ptc_nest_over_t over = ptc_nest_over(nest, i);
    if (over == PTC_NEST_ROW) p->has_row[ptc_rows_stage_of_addend(nest, i)] = true;
    if (over == PTC_NEST_FULL) p->has_full = true;
    if (over == PTC_NEST_COLUMN) {
      p->has_column = true;
      p->has_scalars[0] |= !ptc_rows_addend_varies(nest, i);
    }
  }
  for (int32_t i = 0; i < nest->kernel->num_stores; ++i) {
    const ptc_kstore_t *store = &nest->kernel->stores[i];
    if (ptc_rows_store_is_scalar(nest, store))
      p->has_scalars[ptc_nest_store_stage(nest, store)] = true;
  }
  p->num_chunks = (nest->num_col + PTC_NEST_CHUNK - 1) / PTC_NEST_CHUNK;
}

// Units per tile: about 50 us of work; at least 16 tiles where these take 5 us each, at most 1024.
static int64_t units_per_tile(int64_t units, double ns) {
  int64_t per_tile = ns > 50e3 ? 1 : ns > 0.05 ? (int64_t)(50e3 / ns) : 1000000;
  if (ns * (double)units > 80e3 && per_tile > (units + 15) / 16) per_tile = (units + 15) / 16;
  if (per_tile < (units + 1023) / 1024) per_tile = (units + 1023) / 1024;
  if (per_tile > units) per_tile = units;
  return per_tile < 1 ? 1 : per_tile;
}

// --- phases

static void add_phase(ptc_c_nest_t *nest, ptc_kernel_shape_t *shape, int64_t tiles) {
  if (!shape->num_runs) {
    ptc_phase_run_t *run = PTC_ARENA_NEW(nest->arena, ptc_phase_run_t);
    run->count = 1;
    run->tiles = PTC_ARENA_ARRAY(nest->arena, int64_t, 16);
    shape->runs = run;
    shape->num_runs = 1;
  }
  ptc_phase_run_t *run = (ptc_phase_run_t *)shape->runs;
  ((int64_t *)run->tiles)[run->num_phases++] = tiles;
}

static void hoist_invariants(ptc_rows_t *p, int32_t indent) {
  ptc_c_nest_t *nest = p->nest;
  for (int32_t i = 0; i < nest->kernel->num_stores; ++i)
    ptc_c_hoist(&nest->scope, nest->kernel->stores[i].value, nest->grid | nest->col | nest->row,
                indent, nest->out);
  for (ptc_kx_t i = 0; i < nest->kernel->num_exprs; ++i)
    if (ptc_rows_is_used(nest, i))
      ptc_c_hoist(&nest->scope, nest->kernel->exprs[i].args[0], nest->grid | nest->col | nest->row,
                  indent, nest->out);
}

// Row reductions alone: a tile takes some rows.
static void print_plain(ptc_rows_t *p, ptc_kernel_shape_t *shape) {
  ptc_c_nest_t *nest = p->nest;
  ptc_str_t *out = nest->out;
  const int64_t points = nest->num_grid * nest->num_col;
  const int64_t per_tile = units_per_tile(points, nest->element_ns * (double)nest->num_row + 20);
  ptc_nest_loops_t loops = nest->grid_loops;
  for (int32_t i = 0; i < nest->col_loops.count; ++i) {
    loops.dim[loops.count] = nest->col_loops.dim[i];
    loops.extent[loops.count++] = nest->col_loops.extent[i];
  }
  ptc_rows_plan_keeps(p, 0);
  hoist_invariants(p, 2);
  ptc_str_printf(out,
                 "  const int64_t end = tile * %" PRId64 " + %" PRId64 " < %" PRId64
                 " ? tile * %" PRId64 " + %" PRId64 " : %" PRId64 ";\n",
                 per_tile, per_tile, points, per_tile, per_tile, points);
  ptc_str_printf(out, "  for (int64_t at = tile * %" PRId64 "; at < end; ++at) {\n", per_tile);
  ptc_nest_decompose(nest, &loops, "at", 4);
  ptc_rows_print_program(p, 0, "0", ptc_arena_printf(nest->arena, "%" PRId64, nest->num_row), 4);
  ptc_str_append(out, "  }\n");
  add_phase(nest, shape, (points + per_tile - 1) / per_tile);
}

// Where partial results lie.
static void declare_partials(ptc_rows_t *p) {
  ptc_c_nest_t *nest = p->nest;
  for (ptc_kx_t i = 0; i < nest->kernel->num_exprs; ++i) {
    if (!ptc_rows_is_used(nest, i) || ptc_nest_over(nest, i) == PTC_NEST_ROW) continue;
    const bool full = ptc_nest_over(nest, i) == PTC_NEST_FULL;
    const int64_t points = full || ptc_rows_addend_varies(nest, i) ? p->num_chunks : nest->num_col;
    const int64_t width = !full && ptc_rows_addend_varies(nest, i) ? nest->num_row : 1;
    const int64_t count = (p->inside ? 1 : nest->num_grid) * points * width;
    const char *type = full ? ptc_nest_partial_type(nest, i) : ptc_nest_block_type(nest, i);
    p->partial[i] = ptc_arena_printf(nest->arena, "part%d", i);
    const bool positions = nest->kernel->exprs[i].reduce == PTC_KX_ARGMAX;
    for (int32_t k = 0; k <= positions; ++k) {
      const char *of = k ? "int64_t" : type;
      const int64_t bytes = count * 8;
      const int64_t at =
          p->inside ? ptc_nest_scratch(nest, bytes) : ptc_nest_workspace(nest, bytes);
      const char *base =
          p->inside ? "call->scratch"
                    : ptc_arena_printf(nest->arena, "call->params[%d]", nest->workspace_param);
      ptc_str_printf(nest->out, "  %s *const part%d%s = (%s *)((char *)%s + %" PRId64 ");\n", of, i,
                     k ? "_at" : "", of, base, at);
    }
  }
}

// Sets the partial results of a chunk to their start.
static void start_chunk(ptc_rows_t *p, const char *begin, const char *end, int32_t indent) {
  ptc_c_nest_t *nest = p->nest;
  ptc_str_t *out = nest->out;
  const char *chunk =
      p->inside ? "chunk"
                : ptc_arena_printf(nest->arena, "(grid_at * %" PRId64 " + chunk)", p->num_chunks);
  for (ptc_kx_t i = 0; i < nest->kernel->num_exprs; ++i) {
    if (!ptc_rows_is_used(nest, i)) continue;
    const ptc_nest_over_t over = ptc_nest_over(nest, i);
    const bool positions = nest->kernel->exprs[i].reduce == PTC_KX_ARGMAX;
    if (over == PTC_NEST_FULL) {
      ptc_c_indent(out, indent);
      ptc_str_printf(out, "%s sum%d = %s;\n", ptc_nest_partial_type(nest, i), i,
                     ptc_nest_partial_start(nest, i));
      if (!positions) continue;
      ptc_c_indent(out, indent);
      ptc_str_printf(out, "int64_t sum%d_at = -1;\n", i);
    }
    if (over != PTC_NEST_COLUMN || !ptc_rows_addend_varies(nest, i)) continue;
    for (int32_t k = 0; k <= positions; ++k) {
      const char *type = k ? "int64_t" : ptc_nest_block_type(nest, i);
      ptc_c_indent(out, indent);
      ptc_str_printf(out, "%s *const restrict acc%d%s = part%d%s + %s * %" PRId64 ";\n", type, i,
                     k ? "_at" : "", i, k ? "_at" : "", chunk, nest->num_row);
      ptc_c_indent(out, indent);
      ptc_str_printf(out, "for (int64_t p = %s; p < %s; ++p) acc%d%s[p] = %s;\n", begin, end, i,
                     k ? "_at" : "", k ? "-1" : ptc_nest_partial_start(nest, i));
    }
  }
}

static void end_chunk(ptc_rows_t *p, int32_t indent) {
  ptc_c_nest_t *nest = p->nest;
  const char *chunk =
      p->inside ? "chunk"
                : ptc_arena_printf(nest->arena, "grid_at * %" PRId64 " + chunk", p->num_chunks);
  for (ptc_kx_t i = 0; i < nest->kernel->num_exprs; ++i) {
    if (!ptc_rows_is_used(nest, i) || ptc_nest_over(nest, i) != PTC_NEST_FULL) continue;
    const bool positions = nest->kernel->exprs[i].reduce == PTC_KX_ARGMAX;
    for (int32_t k = 0; k <= positions; ++k) {
      const char *at = k ? "_at" : "";
      ptc_c_indent(nest->out, indent);
      ptc_str_printf(nest->out, "part%d%s[%s] = sum%d%s;\n", i, at, chunk, i, at);
    }
  }
}

// The columns of chunks [|first|, |last|).
static void print_chunks(ptc_rows_t *p, const char *first, const char *last, const char *begin,
                         const char *end, int32_t indent) {
  ptc_c_nest_t *nest = p->nest;
  ptc_str_t *out = nest->out;
  ptc_c_indent(out, indent);
  ptc_str_printf(out, "for (int64_t chunk = %s; chunk < %s; ++chunk) {\n", first, last);
  start_chunk(p, begin, end, indent + 2);
  ptc_c_indent(out, indent + 2);
  ptc_str_printf(
      out,
      "const int64_t col_end = chunk * %d + %d < %" PRId64 " ? chunk * %d + %d : %" PRId64 ";\n",
      PTC_NEST_CHUNK, PTC_NEST_CHUNK, nest->num_col, PTC_NEST_CHUNK, PTC_NEST_CHUNK, nest->num_col);
  ptc_c_indent(out, indent + 2);
  ptc_str_printf(out, "for (int64_t col_at = chunk * %d; col_at < col_end; ++col_at) {\n",
                 PTC_NEST_CHUNK);
  if (p->has_full) {
    ptc_c_indent(out, indent + 4);
    ptc_str_printf(out, "const int64_t row_at = col_at * %" PRId64 ";\n", nest->num_row);
  }
  ptc_nest_decompose(nest, &nest->col_loops, "col_at", indent + 4);
  ptc_rows_print_program(p, 0, begin, end, indent + 4);
  ptc_c_indent(out, indent + 2);
  ptc_str_append(out, "}\n");
  end_chunk(p, indent + 2);
  ptc_c_indent(out, indent);
  ptc_str_append(out, "}\n");
}

// Full reductions, and columns that do not vary over the row, become values.
static void finish_scalars(ptc_rows_t *p, int32_t indent) {
  ptc_c_nest_t *nest = p->nest;
  ptc_str_t *out = nest->out;
  for (ptc_kx_t i = 0; i < nest->kernel->num_exprs; ++i) {
    if (!ptc_rows_is_used(nest, i)) continue;
    const ptc_nest_over_t over = ptc_nest_over(nest, i);
    if (over == PTC_NEST_ROW || (over == PTC_NEST_COLUMN && ptc_rows_addend_varies(nest, i)))
      continue;
    const char *name = ptc_arena_printf(nest->arena, "total%d", i);
    const bool positions = nest->kernel->exprs[i].reduce == PTC_KX_ARGMAX;
    ptc_c_indent(out, indent);
    ptc_str_printf(out, "%s %s = %s;\n", ptc_nest_partial_type(nest, i), name,
                   ptc_nest_partial_start(nest, i));
    if (positions) {
      ptc_c_indent(out, indent);
      ptc_str_printf(out, "int64_t %s_at = -1;\n", name);
    }
    const int64_t count = over == PTC_NEST_FULL ? p->num_chunks : nest->num_col;
    const char *at =
        p->inside ? p->partial[i]
                  : ptc_arena_printf(nest->arena, "%s + grid_at * %" PRId64, p->partial[i], count);
    if (over == PTC_NEST_COLUMN) {
      ptc_nest_print_values(nest, &(ptc_nest_accum_t){i, PTC_NEST_ROW, name}, at, count, indent);
    } else {
      const char *base =
          p->inside ? "" : ptc_arena_printf(nest->arena, "grid_at * %" PRId64 " + ", count);
      ptc_c_indent(out, indent);
      ptc_str_printf(out, "for (int64_t c = 0; c < %" PRId64 "; ++c) {\n", count);
      ptc_c_indent(out, indent + 2);
      ptc_str_printf(out, "const %s from = %s[%sc];\n", ptc_nest_partial_type(nest, i),
                     p->partial[i], base);
      if (positions) {
        ptc_c_indent(out, indent + 2);
        ptc_str_printf(out, "const int64_t from_at = %s_at[%sc];\n", p->partial[i], base);
      }
      ptc_nest_print_combine(nest, i, name, "from", indent + 2);
      ptc_c_indent(out, indent);
      ptc_str_append(out, "}\n");
    }
    ptc_rows_define(nest, i, name, indent);
  }
}

// `begin`, `end` of the segment of the row that is number NUMBER % |count|.
static void print_segment(ptc_rows_t *p, const char *number, int64_t count, int32_t indent) {
  ptc_arena_t *arena = p->nest->arena;
  ptc_str_t *out = p->nest->out;
  ptc_c_indent(out, indent);
  if (count == 1) {
    ptc_str_printf(out, "const int64_t begin = 0, end = %" PRId64 ";\n", p->nest->num_row);
    return;
  }
  ptc_str_printf(out, "const int64_t begin = %s;\n",
                 ptc_nest_part(arena, number, 1, count, p->segment));
  ptc_c_indent(out, indent);
  ptc_str_printf(out, "const int64_t end = %s;\n",
                 ptc_nest_limit(arena, "begin", p->segment, p->nest->num_row));
}

static void print_grid_at(ptc_rows_t *p, const char *number, int64_t div, int32_t indent) {
  ptc_c_indent(p->nest->out, indent);
  ptc_str_printf(p->nest->out, "const int64_t grid_at = %s;\n",
                 ptc_nest_part(p->nest->arena, number, div, p->nest->num_grid == 1, 1));
}

static int64_t num_segments(const ptc_rows_t *p) {
  return (p->nest->num_row + p->segment - 1) / p->segment;
}

static void print_inside(ptc_rows_t *p, ptc_kernel_shape_t *shape) {
  ptc_c_nest_t *nest = p->nest;
  ptc_str_t *out = nest->out;
  const int64_t segments = num_segments(p), units = nest->num_grid * segments;
  const double ns = nest->element_ns * (double)nest->num_col *
                        (double)(nest->num_row < p->segment ? nest->num_row : p->segment) +
                    50;
  const int64_t per_tile = units_per_tile(units, ns);
  ptc_str_printf(out,
                 "  const int64_t unit_end = tile * %" PRId64 " + %" PRId64 " < %" PRId64
                 " ? tile * %" PRId64 " + %" PRId64 " : %" PRId64 ";\n",
                 per_tile, per_tile, units, per_tile, per_tile, units);
  ptc_str_printf(out, "  for (int64_t unit = tile * %" PRId64 "; unit < unit_end; ++unit) {\n",
                 per_tile);
  print_grid_at(p, "unit", segments, 4);
  print_segment(p, "unit", segments, 4);
  ptc_nest_decompose(nest, &nest->grid_loops, "grid_at", 4);
  print_chunks(p, "0", ptc_arena_printf(nest->arena, "%" PRId64, p->num_chunks), "begin", "end", 4);
  finish_scalars(p, 4);
  ptc_rows_print_program(p, 1, "begin", "end", 4);
  ptc_str_append(out, "  }\n");
  add_phase(nest, shape, (units + per_tile - 1) / per_tile);
}

static void print_across(ptc_rows_t *p, ptc_kernel_shape_t *shape) {
  ptc_c_nest_t *nest = p->nest;
  ptc_str_t *out = nest->out;
  const int64_t segments = num_segments(p);
  const double ns = nest->element_ns * PTC_NEST_CHUNK *
                    (double)(nest->num_row < p->segment ? nest->num_row : p->segment);
  const int64_t per_tile = units_per_tile(nest->num_grid * segments * p->num_chunks, ns);
  const int64_t groups = p->num_chunks ? (p->num_chunks + per_tile - 1) / per_tile : 0;
  const char **saved = ptc_c_scope_save(&nest->scope);
  ptc_str_append(out, "  if (phase == 0) {\n");
  print_grid_at(p, "tile", (groups ? groups : 1) * segments, 4);
  print_segment(p, "tile", segments, 4);
  ptc_str_printf(out, "    const int64_t first = %s;\n",
                 ptc_nest_part(nest->arena, "tile", segments, groups ? groups : 1, per_tile));
  ptc_str_printf(out, "    const int64_t last = %s;\n",
                 ptc_nest_limit(nest->arena, "first", per_tile, p->num_chunks));
  ptc_nest_decompose(nest, &nest->grid_loops, "grid_at", 4);
  print_chunks(p, "first", "last", "begin", "end", 4);
  ptc_str_append(out, "    return;\n  }\n");
  ptc_c_scope_restore(&nest->scope, saved);
  add_phase(nest, shape, nest->num_grid * segments * groups);

  p->segment = p->has_row[1] || p->has_scalars[1] || nest->num_row <= 1024 ? nest->num_row : 1024;
  if (p->segment < 1) p->segment = 1;
  const int64_t pieces = num_segments(p) > 0 ? num_segments(p) : 1;
  print_grid_at(p, "tile", pieces, 2);
  print_segment(p, "tile", pieces, 2);
  ptc_nest_decompose(nest, &nest->grid_loops, "grid_at", 2);
  finish_scalars(p, 2);
  ptc_rows_print_program(p, 1, "begin", "end", 2);
  add_phase(nest, shape, nest->num_grid * pieces);
}

// A phase per level; in it, a tile takes 65536 elements of a row.
static void print_split(ptc_rows_t *p, ptc_kernel_shape_t *shape) {
  ptc_c_nest_t *nest = p->nest;
  ptc_str_t *out = nest->out;
  const int64_t segments = num_segments(p);
  const int32_t last = ptc_rows_last_level(nest, 0);
  for (ptc_kx_t i = 0; i < nest->kernel->num_exprs; ++i) {
    if (!ptc_rows_is_used(nest, i)) continue;
    const bool positions = nest->kernel->exprs[i].reduce == PTC_KX_ARGMAX;
    for (int32_t k = 0; k <= positions; ++k) {
      const char *type = k ? "int64_t" : ptc_nest_partial_type(nest, i);
      ptc_str_printf(out,
                     "  %s *const part%d%s = (%s *)((char *)call->params[%d] + %" PRId64 ");\n",
                     type, i, k ? "_at" : "", type, nest->workspace_param,
                     ptc_nest_workspace(nest, nest->num_grid * segments * 8));
    }
  }
  // After the last pass: what waits for its reductions.
  for (int32_t k = 0; k <= last + 1; ++k) {
    const char **saved = ptc_c_scope_save(&nest->scope);
    const bool whole = k == last + 1;
    if (whole && !p->has_scalars[0]) break;
    ptc_str_printf(out, "  if (phase == %d) {\n", k);
    print_grid_at(p, "tile", whole ? 1 : segments, 4);
    ptc_nest_decompose(nest, &nest->grid_loops, "grid_at", 4);
    for (ptc_kx_t i = 0; i < nest->kernel->num_exprs; ++i) {
      if (!ptc_rows_is_used(nest, i) || nest->level[i] > k) continue;
      const bool positions = nest->kernel->exprs[i].reduce == PTC_KX_ARGMAX;
      const char *name = ptc_arena_printf(nest->arena, "total%d", i);
      ptc_str_printf(out, "    %s %s = %s;\n", ptc_nest_partial_type(nest, i), name,
                     ptc_nest_partial_start(nest, i));
      if (positions) ptc_str_printf(out, "    int64_t %s_at = -1;\n", name);
      ptc_str_printf(out, "    for (int64_t s = 0; s < %" PRId64 "; ++s) {\n", segments);
      ptc_str_printf(out, "      const %s from = part%d[grid_at * %" PRId64 " + s];\n",
                     ptc_nest_partial_type(nest, i), i, segments);
      if (positions)
        ptc_str_printf(out, "      const int64_t from_at = part%d_at[grid_at * %" PRId64 " + s];\n",
                       i, segments);
      ptc_nest_print_combine(nest, i, name, "from", 6);
      ptc_str_append(out, "    }\n");
      ptc_rows_define(nest, i, name, 4);
    }
    if (whole) {
      ptc_rows_print_scalars(p, 0, 4);
    } else {
      print_segment(p, "tile", segments, 4);
      ptc_nest_pass_t pass = ptc_rows_pass_of(p, 0, k, last);
      ptc_rows_hoist(nest, &pass, nest->row, 4);
      ptc_rows_declare(nest, &pass, PTC_NEST_ROW, 4);
      ptc_nest_print_pass(nest, &pass, "begin", "end", 4);
      for (int32_t i = 0; i < pass.num_accums; ++i) {
        ptc_str_printf(out, "    part%d[tile] = %s;\n", pass.accums[i].reduce, pass.accums[i].name);
        if (nest->kernel->exprs[pass.accums[i].reduce].reduce == PTC_KX_ARGMAX)
          ptc_str_printf(out, "    part%d_at[tile] = %s_at;\n", pass.accums[i].reduce,
                         pass.accums[i].name);
      }
    }
    ptc_str_append(out, "    return;\n  }\n");
    ptc_c_scope_restore(&nest->scope, saved);
    add_phase(nest, shape, nest->num_grid * (whole ? 1 : segments));
  }
}

void ptc_nest_print_rows(ptc_c_nest_t *nest, ptc_kernel_shape_t *out_shape) {
  const ptc_kernel_t *kernel = nest->kernel;
  const int32_t *cols = nest->dims + nest->num_grid_dims, *rows = cols + nest->num_col_dims;
  nest->grid_loops = ptc_nest_merge(nest, nest->dims, nest->num_grid_dims);
  nest->col_loops = ptc_nest_merge(nest, cols, nest->num_col_dims);
  nest->row_loops = ptc_nest_merge(nest, rows, nest->num_row_dims);
  ptc_rows_t p = {.nest = nest, .segment = nest->num_row ? nest->num_row : 1};
  p.partial = PTC_ARENA_ARRAY(nest->arena, const char *, kernel->num_exprs + 1);
  p.kept_name = PTC_ARENA_ARRAY(nest->arena, const char *, kernel->num_exprs + 1);
  p.kept_ready = PTC_ARENA_ARRAY(nest->arena, bool, kernel->num_exprs + 1);
  survey(&p);
  if (!p.has_column && !p.has_full) {
    p.split = nest->num_col == 1 && nest->num_row > PTC_NEST_GROUP && nest->num_grid < 32;
    if (p.split) {
      p.segment = PTC_NEST_GROUP;
      print_split(&p, out_shape);
    } else {
      print_plain(&p, out_shape);
    }
    return;
  }
  const bool whole_rows = p.has_row[0] || p.has_full || p.has_scalars[0];
  int64_t segment = whole_rows || nest->num_row <= 4096 ? nest->num_row : 4096;
  if (segment < 1) segment = 1;
  const int64_t units = nest->num_grid * ((nest->num_row + segment - 1) / segment);
  const double all_ns =
      nest->element_ns * (double)nest->num_grid * (double)nest->num_col * (double)nest->num_row;
  const bool small = p.num_chunks * nest->num_row <= 65536;
  p.inside =
      (small && (units >= 32 || all_ns < 50e3)) || (p.num_chunks <= 1 && nest->num_row <= 262144);
  // In one tile, stage 1 sees only its own segment of the row.
  const bool whole_after = p.has_row[1] || p.has_scalars[1];
  p.segment = p.inside && whole_after ? (nest->num_row ? nest->num_row : 1) : segment;
  declare_partials(&p);
  ptc_rows_plan_keeps(&p, 0);
  ptc_rows_plan_keeps(&p, 1);
  hoist_invariants(&p, 2);
  if (p.inside)
    print_inside(&p, out_shape);
  else
    print_across(&p, out_shape);
}
