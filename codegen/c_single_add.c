// scatter_add and window_add: a tile owns rows of the result (elements of the dims that are addressed) and adds
// to each what the operand sends there, in the operand's order, in double. First it lists, row by row, the
// positions that send to it.
#include <inttypes.h>

#include "codegen/single_adder.h"

// Lists the positions that send to rows [row0, row0 + rows): head and tail per row, next per position.
static void print_lists(ptc_c_single_t *s, const ptc_adder_t *a, const bool *sum, int64_t count,
                        int32_t indent) {
  ptc_single_line(s, indent, "for (int64_t r = 0; r < rows; ++r) head[r] = -1;");
  ptc_single_line(s, indent, "for (int64_t n = 0; n < %" PRId64 "; ++n) {", count);
  ptc_adder_decompose(a, sum, "n", indent + 2, &s->body);
  for (int32_t k = 0; k < a->num_rows; ++k)
    ptc_single_line(s, indent + 2, "const int64_t at%d = %s;", k, a->index_text[k]);
  ptc_str_t inside = {0}, row = {0};
  ptc_str_append(&inside, "");
  ptc_str_append(&row, "");
  for (int32_t k = 0; k < a->num_rows; ++k) {
    ptc_str_printf(&inside, "%s(uint64_t)at%d >= %" PRId64, k ? " || " : "", k, a->row_extent[k]);
    if (k) ptc_str_printf(&row, " * %" PRId64 " + ", a->row_extent[k]);
    ptc_str_t before = row;
    row = (ptc_str_t){0};
    ptc_str_printf(&row, "%s%sat%d%s", k ? "(" : "", before.data, k, k ? ")" : "");
    ptc_str_deinit(&before);
  }
  ptc_single_line(s, indent + 2, "if (%s) continue;", inside.data);
  ptc_single_line(s, indent + 2, "const int64_t r = %s - row0;", row.data);
  ptc_single_line(s, indent + 2, "if (r < 0 || r >= rows) continue;");
  ptc_single_line(s, indent + 2, "if (head[r] < 0) head[r] = (int32_t)n;");
  ptc_single_line(s, indent + 2, "else next[tail[r]] = (int32_t)n;");
  ptc_single_line(s, indent + 2, "tail[r] = (int32_t)n;");
  ptc_single_line(s, indent + 2, "next[n] = -1;");
  ptc_single_line(s, indent, "}");
  ptc_str_deinit(&inside);
  ptc_str_deinit(&row);
}

// One row: for every point of the |outer| lanes, the sum along the |lane| loop (or of one element, -1).
static void print_row(ptc_c_single_t *s, const ptc_adder_t *a, const bool *sum, const bool *batch,
                      const bool *outer, int32_t lane, int32_t indent) {
  const ptc_dtype_t dtype = ptc_single_out(s, 0)->dtype;
  const char *type = ptc_single_sum_type(dtype), *to = ptc_single_name(s, true, 0);
  const int64_t width = lane >= 0 ? a->loops[lane].extent : 1;
  const int64_t from_step = lane >= 0 ? a->loops[lane].from : 0;
  const int64_t to_step = lane >= 0 ? a->loops[lane].to : 0;
  ptc_single_line(s, indent, "for (int64_t o = 0; o < %" PRId64 "; ++o) {",
                  ptc_adder_points(a, outer));
  ptc_adder_decompose(a, outer, "o", indent + 2, &s->body);
  ptc_single_line(s, indent + 2, "const int64_t to = row%s%s;", ptc_adder_offset(a, batch, true),
                  ptc_adder_offset(a, outer, true));
  ptc_single_line(s, indent + 2, "if (head[r] < 0) {");
  ptc_single_line(s, indent + 4,
                  "for (int64_t j = 0; j < %" PRId64 "; ++j) %s[to + j * %" PRId64 "] = 0;", width,
                  to, to_step);
  ptc_single_line(s, indent + 4, "continue;");
  ptc_single_line(s, indent + 2, "}");
  ptc_single_line(s, indent + 2, "for (int64_t j = 0; j < %" PRId64 "; ++j) sum[j] = 0;", width);
  ptc_single_line(s, indent + 2, "for (int64_t n = head[r]; n >= 0; n = next[n]) {");
  ptc_adder_decompose(a, sum, "n", indent + 4, &s->body);
  ptc_single_line(s, indent + 4, "const int64_t from = 0%s%s%s;", ptc_adder_offset(a, sum, false),
                  ptc_adder_offset(a, batch, false), ptc_adder_offset(a, outer, false));
  ptc_str_append(&s->body, "#pragma omp simd\n");
  const char *element = ptc_arena_printf(s->arena, "%s[from + j * %" PRId64 "]",
                                         ptc_single_name(s, false, 0), from_step);
  ptc_single_line(s, indent + 4, "for (int64_t j = 0; j < %" PRId64 "; ++j) sum[j] += (%s)%s;",
                  width, type, ptc_c_from_storage(s->arena, dtype, element));
  ptc_single_line(s, indent + 2, "}");
  ptc_single_line(s, indent + 2,
                  "for (int64_t j = 0; j < %" PRId64 "; ++j) %s[to + j * %" PRId64 "] = %s;", width,
                  to, to_step, ptc_single_from_sum(s, dtype, "sum[j]"));
  ptc_single_line(s, indent, "}");
}

static void print_adder(ptc_c_single_t *s) {
  ptc_adder_t adder;
  ptc_adder_init(s, &adder);
  const ptc_adder_t *a = &adder;
  const bool *sum = a->summed, *batch = a->batch;
  // The free loop with the smallest stride in the result runs innermost.
  bool outer[PTC_ADDER_MAX_LOOPS];
  int32_t lane = -1;
  for (int32_t i = 0; i < a->num_loops; ++i) {
    outer[i] = a->free[i];
    if (outer[i] && (lane < 0 || a->loops[i].to <= a->loops[lane].to)) lane = i;
  }
  if (lane >= 0) outer[lane] = false;
  const int64_t width = lane >= 0 ? a->loops[lane].extent : 1, count = ptc_adder_points(a, sum);
  int64_t rows = 1;
  for (int32_t k = 0; k < a->num_rows; ++k) rows *= a->row_extent[k];
  // About 256 Ki elements of the result in a tile, but no more than 64 readers of the indices.
  const int64_t lanes = width * ptc_adder_points(a, outer);
  int64_t per_tile = lanes > 0 ? (INT64_C(1) << 18) / lanes : rows;
  if (per_tile > (rows + 15) / 16 && rows * lanes + count * lanes > 65536)
    per_tile = (rows + 15) / 16;
  if (per_tile < (rows + 63) / 64) per_tile = (rows + 63) / 64;
  if (per_tile < 1) per_tile = 1;
  const int64_t groups = (rows + per_tile - 1) / per_tile;
  const int64_t head_at = (width * 8 + 63) / 64 * 64, next_at = head_at + per_tile * 8;
  s->scratch_bytes = next_at + count * 4 + 64;
  s->tiles = ptc_adder_points(a, batch) * groups;

  ptc_single_line(s, 2, "%s *const sum = call->scratch;",
                  ptc_single_sum_type(ptc_single_out(s, 0)->dtype));
  ptc_single_line(s, 2, "// The positions that send to a row: a list from head[r] to tail[r].");
  ptc_single_line(s, 2, "int32_t *const head = (int32_t *)((char *)call->scratch + %" PRId64 ");",
                  head_at);
  ptc_single_line(s, 2, "int32_t *const tail = head + %" PRId64 ";", per_tile);
  ptc_single_line(s, 2, "int32_t *const next = (int32_t *)((char *)call->scratch + %" PRId64 ");",
                  next_at);
  ptc_single_line(s, 2, "const int64_t row0 = tile %% %" PRId64 " * %" PRId64 ";",
                  groups ? groups : 1, per_tile);
  ptc_single_line(s, 2,
                  "const int64_t rows = row0 + %" PRId64 " < %" PRId64 " ? %" PRId64 " : %" PRId64
                  " - row0;",
                  per_tile, rows, per_tile, rows);
  ptc_single_line(s, 2, "const int64_t batch = tile / %" PRId64 ";", groups ? groups : 1);
  ptc_adder_decompose(a, batch, "batch", 2, &s->body);
  print_lists(s, a, sum, count, 2);
  ptc_single_line(s, 2, "for (int64_t r = 0; r < rows; ++r) {");
  ptc_single_line(s, 4, "int64_t row = 0, rest = row0 + r;");
  for (int32_t k = a->num_rows - 1; k >= 0; --k) {
    ptc_single_line(s, 4, "row += rest %% %" PRId64 " * %" PRId64 ";",
                    a->row_extent[k] ? a->row_extent[k] : 1, a->row_stride[k]);
    ptc_single_line(s, 4, "rest /= %" PRId64 ";", a->row_extent[k] ? a->row_extent[k] : 1);
  }
  print_row(s, a, sum, batch, outer, lane, 4);
  ptc_single_line(s, 2, "}");
}

void ptc_single_scatter_add(ptc_c_single_t *s) { print_adder(s); }
void ptc_single_window_add(ptc_c_single_t *s) { print_adder(s); }
