// scatter_add and window_add: a tile owns rows of the result (elements of the dims that are addressed) and adds
// to each what the operand sends there, in the operand's order, in double. First it lists, row by row, the
// positions that send to it.
#include <inttypes.h>

#include "codegen/c_single.h"

enum { MAX_LOOPS = 2 * PTC_MAX_DIMS };

typedef struct loop_s {
  const char *name;
  int64_t extent, from;         // stride in the operand
  int64_t to;                   // stride in the result; 0 for a dim that is summed
  int64_t index[PTC_MAX_DIMS];  // stride in each index operand
  bool moves_index;
} loop_t;

typedef struct adder_s {
  ptc_c_single_t *s;
  int32_t num_loops;
  loop_t loops[MAX_LOOPS];  // summed: to = 0; else free
  bool summed[MAX_LOOPS];
  // Addressed dims of the result.
  int32_t num_rows;
  int64_t row_extent[PTC_MAX_DIMS], row_stride[PTC_MAX_DIMS];
  const char *index_text[PTC_MAX_DIMS];  // of the loops' indices
} adder_t;

static loop_t *loop_named(adder_t *a, const char *name) {
  for (int32_t i = 0; i < a->num_loops; ++i)
    if (a->loops[i].name == name) return &a->loops[i];
  loop_t *loop = &a->loops[a->num_loops++];
  *loop = (loop_t){.name = name, .extent = 1};
  return loop;
}

// Loops of the operand's dims; |is_free|: whether the result has the dim as such.
static void add_operand(adder_t *a, bool (*is_free)(const ptc_op_t *op, const char *name)) {
  ptc_c_single_t *s = a->s;
  const ptc_type_t *y = ptc_single_in(s, 0), *x = ptc_single_out(s, 0);
  const ptc_kparam_t *from = ptc_single_param(s, false, 0), *to = ptc_single_param(s, true, 0);
  for (int32_t d = 0; d < y->num_dims; ++d) {
    loop_t *loop = loop_named(a, y->dims[d].name);
    loop->extent = from->extents[d];
    loop->from = ptc_single_stride(from, d);
    const int32_t at = is_free(s->op, loop->name) ? ptc_type_find_dim(x, loop->name) : -1;
    if (at >= 0) loop->to = ptc_single_stride(to, at);
    a->summed[loop - a->loops] = at < 0;
  }
}

static void add_row(adder_t *a, const char *name, const char *index_text) {
  const ptc_kparam_t *to = ptc_single_param(a->s, true, 0);
  const int32_t at = ptc_type_find_dim(ptc_single_out(a->s, 0), name);
  a->row_extent[a->num_rows] = to->extents[at];
  a->row_stride[a->num_rows] = ptc_single_stride(to, at);
  a->index_text[a->num_rows++] = index_text;
}

// `const int64_t NAME = ...;` of the loops that |take| selects, from their common number |at|.
static void decompose(adder_t *a, const bool *take, const char *at, int32_t indent) {
  int64_t below = 1;
  for (int32_t i = a->num_loops - 1; i >= 0; --i) {
    if (!take[i]) continue;
    ptc_single_line(a->s, indent, "const int64_t i%d = %s / %" PRId64 " %% %" PRId64 ";", i, at,
                    below ? below : 1, a->loops[i].extent ? a->loops[i].extent : 1);
    below *= a->loops[i].extent;
  }
}

static int64_t points(const adder_t *a, const bool *take) {
  int64_t n = 1;
  for (int32_t i = 0; i < a->num_loops; ++i)
    if (take[i]) n *= a->loops[i].extent;
  return n;
}

// " + i0 * 4 + ..." of the loops that |take| selects; by strides in the result or the operand.
static const char *offset_text(adder_t *a, const bool *take, bool in_result) {
  ptc_str_t text = {0};
  ptc_str_append(&text, "");
  for (int32_t i = 0; i < a->num_loops; ++i) {
    const int64_t stride = in_result ? a->loops[i].to : a->loops[i].from;
    if (take[i] && stride) ptc_str_printf(&text, " + i%d * %" PRId64, i, stride);
  }
  const char *kept = ptc_arena_strdup(a->s->arena, text.data);
  ptc_str_deinit(&text);
  return kept;
}

// Lists the positions that send to rows [row0, row0 + rows): head and tail per row, next per position.
static void print_lists(adder_t *a, const bool *sum, int64_t count, int32_t indent) {
  ptc_c_single_t *s = a->s;
  ptc_single_line(s, indent, "for (int64_t r = 0; r < rows; ++r) head[r] = -1;");
  ptc_single_line(s, indent, "for (int64_t n = 0; n < %" PRId64 "; ++n) {", count);
  decompose(a, sum, "n", indent + 2);
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
static void print_row(adder_t *a, const bool *sum, const bool *batch, const bool *outer,
                      int32_t lane, int32_t indent) {
  ptc_c_single_t *s = a->s;
  const ptc_dtype_t dtype = ptc_single_out(s, 0)->dtype;
  const char *type = ptc_single_sum_type(dtype), *to = ptc_single_name(s, true, 0);
  const int64_t width = lane >= 0 ? a->loops[lane].extent : 1;
  const int64_t from_step = lane >= 0 ? a->loops[lane].from : 0;
  const int64_t to_step = lane >= 0 ? a->loops[lane].to : 0;
  ptc_single_line(s, indent, "for (int64_t o = 0; o < %" PRId64 "; ++o) {", points(a, outer));
  decompose(a, outer, "o", indent + 2);
  ptc_single_line(s, indent + 2, "const int64_t to = row%s%s;", offset_text(a, batch, true),
                  offset_text(a, outer, true));
  ptc_single_line(s, indent + 2, "if (head[r] < 0) {");
  ptc_single_line(s, indent + 4,
                  "for (int64_t j = 0; j < %" PRId64 "; ++j) %s[to + j * %" PRId64 "] = 0;", width,
                  to, to_step);
  ptc_single_line(s, indent + 4, "continue;");
  ptc_single_line(s, indent + 2, "}");
  ptc_single_line(s, indent + 2, "for (int64_t j = 0; j < %" PRId64 "; ++j) sum[j] = 0;", width);
  ptc_single_line(s, indent + 2, "for (int64_t n = head[r]; n >= 0; n = next[n]) {");
  decompose(a, sum, "n", indent + 4);
  ptc_single_line(s, indent + 4, "const int64_t from = 0%s%s%s;", offset_text(a, sum, false),
                  offset_text(a, batch, false), offset_text(a, outer, false));
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

static void print_adder(adder_t *a) {
  ptc_c_single_t *s = a->s;
  bool batch[MAX_LOOPS] = {false}, outer[MAX_LOOPS] = {false}, sum[MAX_LOOPS] = {false};
  int32_t lane = -1;
  for (int32_t i = 0; i < a->num_loops; ++i) {
    sum[i] = a->summed[i];
    batch[i] = !sum[i] && a->loops[i].moves_index;
    outer[i] = !sum[i] && !batch[i];
    if (outer[i] && (lane < 0 || a->loops[i].to <= a->loops[lane].to)) lane = i;
  }
  if (lane >= 0) outer[lane] = false;
  const int64_t width = lane >= 0 ? a->loops[lane].extent : 1, count = points(a, sum);
  int64_t rows = 1;
  for (int32_t k = 0; k < a->num_rows; ++k) rows *= a->row_extent[k];
  // About 256 Ki elements of the result in a tile, but no more than 64 readers of the indices.
  const int64_t lanes = width * points(a, outer);
  int64_t per_tile = lanes > 0 ? (INT64_C(1) << 18) / lanes : rows;
  if (per_tile > (rows + 15) / 16 && rows * lanes + count * lanes > 65536)
    per_tile = (rows + 15) / 16;
  if (per_tile < (rows + 63) / 64) per_tile = (rows + 63) / 64;
  if (per_tile < 1) per_tile = 1;
  const int64_t groups = (rows + per_tile - 1) / per_tile;
  const int64_t head_at = (width * 8 + 63) / 64 * 64, next_at = head_at + per_tile * 8;
  s->scratch_bytes = next_at + count * 4 + 64;
  s->tiles = points(a, batch) * groups;

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
  decompose(a, batch, "batch", 2);
  print_lists(a, sum, count, 2);
  ptc_single_line(s, 2, "for (int64_t r = 0; r < rows; ++r) {");
  ptc_single_line(s, 4, "int64_t row = 0, rest = row0 + r;");
  for (int32_t k = a->num_rows - 1; k >= 0; --k) {
    ptc_single_line(s, 4, "row += rest %% %" PRId64 " * %" PRId64 ";",
                    a->row_extent[k] ? a->row_extent[k] : 1, a->row_stride[k]);
    ptc_single_line(s, 4, "rest /= %" PRId64 ";", a->row_extent[k] ? a->row_extent[k] : 1);
  }
  print_row(a, sum, batch, outer, lane, 4);
  ptc_single_line(s, 2, "}");
}

// --- the two ops

static bool is_free_of_scatter(const ptc_op_t *op, const char *name) {
  return ptc_op_dims_contain(op, "result", name) && !ptc_op_dims_contain(op, "dims", name);
}

void ptc_single_scatter_add(ptc_c_single_t *s) {
  adder_t a = {.s = s};
  add_operand(&a, is_free_of_scatter);
  const ptc_attr_t *dims = ptc_op_attr(s->op, "dims");
  for (int32_t k = 0; k < dims->count; ++k) {
    const ptc_type_t *index = ptc_single_in(s, k + 1);
    ptc_str_t text = {0};
    ptc_str_printf(&text, "(int64_t)%s[0", ptc_single_name(s, false, k + 1));
    for (int32_t d = 0; d < index->num_dims; ++d) {
      loop_t *loop = loop_named(&a, index->dims[d].name);
      loop->moves_index = true;
      ptc_str_printf(&text, " + i%d * %" PRId64, (int32_t)(loop - a.loops),
                     ptc_single_stride(ptc_single_param(s, false, k + 1), d));
    }
    ptc_str_append(&text, "]");
    add_row(&a, dims->u.dims[k], ptc_arena_strdup(s->arena, text.data));
    ptc_str_deinit(&text);
  }
  print_adder(&a);
}

static bool is_free_of_window(const ptc_op_t *op, const char *name) {
  return !ptc_op_dims_contain(op, "terms", name) || ptc_op_dims_contain(op, "keep", name);
}

void ptc_single_window_add(ptc_c_single_t *s) {
  adder_t a = {.s = s};
  add_operand(&a, is_free_of_window);
  const ptc_attr_t *terms = ptc_op_attr(s->op, "terms"), *coeffs = ptc_op_attr(s->op, "coeffs");
  ptc_str_t text = {0};
  ptc_str_printf(&text, "%" PRId64, ptc_op_int(s->op, "offset"));
  for (int32_t i = 0; i < terms->count; ++i) {
    loop_t *loop = loop_named(&a, terms->u.dims[i]);
    loop->moves_index = true;
    ptc_str_printf(&text, " + i%d * INT64_C(%" PRId64 ")", (int32_t)(loop - a.loops),
                   coeffs->u.ints[i]);
  }
  add_row(&a, ptc_op_string(s->op, "dim"), ptc_arena_strdup(s->arena, text.data));
  ptc_str_deinit(&text);
  print_adder(&a);
}
