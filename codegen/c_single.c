// Kernels of one op that no loop nest stands for: scans, selections. Sums run in double, in order.
#include "codegen/c_single.h"

#include <inttypes.h>
#include <stdarg.h>

void ptc_single_line(ptc_c_single_t *s, int32_t indent, const char *format, ...) {
  va_list args;
  va_start(args, format);
  ptc_c_indent(&s->body, indent);
  ptc_str_append(&s->body, ptc_arena_vprintf(s->arena, format, args));
  ptc_str_append(&s->body, "\n");
  va_end(args);
}

const ptc_type_t *ptc_single_in(const ptc_c_single_t *s, int32_t operand) {
  return s->op->operands[operand]->type;
}

const ptc_type_t *ptc_single_out(const ptc_c_single_t *s, int32_t result) {
  return s->op->results[result]->type;
}

const ptc_kparam_t *ptc_single_param(const ptc_c_single_t *s, bool result, int32_t index) {
  return &s->kernel->params[result ? s->op->num_operands + index : index];
}

const char *ptc_single_name(const ptc_c_single_t *s, bool result, int32_t index) {
  return ptc_c_param_name(s->arena, s->kernel, result ? s->op->num_operands + index : index);
}

int64_t ptc_single_extent(const ptc_kparam_t *param, int32_t dim) { return param->extents[dim]; }

int64_t ptc_single_stride(const ptc_kparam_t *param, int32_t dim) {
  int64_t stride = 1;
  for (int32_t i = dim + 1; i < param->num_dims; ++i) stride *= param->extents[i];
  return stride;
}

const char *ptc_single_sum_type(ptc_dtype_t dtype) {
  return ptc_dtype_is_float(dtype) ? "double" : "int64_t";
}

const char *ptc_single_from_sum(const ptc_c_single_t *s, ptc_dtype_t dtype, const char *text) {
  if (dtype == PTC_I32) return ptc_arena_printf(s->arena, "ptc_i32_of_i64(%s)", text);
  if (dtype == PTC_I64 || dtype == PTC_F64) return text;
  return ptc_c_to_storage(s->arena, dtype, ptc_arena_printf(s->arena, "(float)%s", text));
}

void ptc_single_units(ptc_c_single_t *s, int64_t total, int64_t per_tile) {
  if (per_tile < (total + 1023) / 1024) per_tile = (total + 1023) / 1024;
  if (per_tile < 1) per_tile = 1;
  s->tiles = (total + per_tile - 1) / per_tile;
  ptc_single_line(s, 2, "const int64_t first = tile * %" PRId64 ";", per_tile);
  ptc_single_line(s, 2,
                  "const int64_t last = first + %" PRId64 " < %" PRId64 " ? first + %" PRId64
                  " : %" PRId64 ";",
                  per_tile, total, per_tile, total);
  ptc_single_line(s, 2, "for (int64_t unit = first; unit < last; ++unit) {");
}

// --- scans: lines along a dim; neighbours across it are walked together

enum { SCAN_LANES = 64 };

static void print_scan_step(ptc_c_single_t *s, const char *x, const char *y) {
  const ptc_dtype_t dtype = ptc_single_in(s, 0)->dtype;
  const bool is_float = ptc_dtype_is_float(dtype);
  if (s->op->opcode == PTC_OP_CUMSUM) {
    ptc_single_line(s, 8, "sum[j] += (%s)%s;", ptc_single_sum_type(dtype), x);
    ptc_single_line(s, 8, "%s = %s;", y, ptc_single_from_sum(s, dtype, "sum[j]"));
    return;
  }
  const char *type = ptc_c_type(dtype);
  ptc_single_line(s, 8, "const %s x = %s;", type, x);
  ptc_single_line(s, 8, "const bool more = i == 0 || x > best[j]%s;",
                  is_float ? " || (x != x && best[j] == best[j])" : "");
  ptc_single_line(s, 8, "best[j] = more ? x : best[j];");
  if (s->op->opcode == PTC_OP_CUMMAX) {
    ptc_single_line(s, 8, "%s = %s;", y, ptc_c_to_storage(s->arena, dtype, "best[j]"));
    return;
  }
  ptc_single_line(s, 8, "where[j] = more ? (int32_t)i : where[j];");
  ptc_single_line(s, 8, "%s = where[j];", y);
}

void ptc_single_scan(ptc_c_single_t *s) {
  const ptc_kparam_t *x = ptc_single_param(s, false, 0);
  const int32_t dim = ptc_type_find_dim(ptc_single_in(s, 0), ptc_op_string(s->op, "dim"));
  const int64_t length = x->extents[dim], inner = ptc_single_stride(x, dim);
  int64_t outer = 1;
  for (int32_t i = 0; i < dim; ++i) outer *= x->extents[i];
  const int64_t pieces = (inner + SCAN_LANES - 1) / SCAN_LANES;
  const int64_t lanes = inner < SCAN_LANES ? inner : SCAN_LANES;
  const int64_t work = length * (lanes ? lanes : 1);
  const ptc_dtype_t dtype = ptc_single_in(s, 0)->dtype;
  ptc_single_units(s, outer * pieces, work > 0 ? 32768 / work : 1);
  ptc_single_line(s, 4, "const int64_t begin = unit %% %" PRId64 " * %d;", pieces ? pieces : 1,
                  SCAN_LANES);
  ptc_single_line(s, 4, "const int64_t n = %" PRId64 " - begin < %d ? %" PRId64 " - begin : %d;",
                  inner, SCAN_LANES, inner, SCAN_LANES);
  ptc_single_line(s, 4, "const int64_t at = unit / %" PRId64 " * %" PRId64 " + begin;",
                  pieces ? pieces : 1, length * inner);
  if (s->op->opcode == PTC_OP_CUMSUM) {
    ptc_single_line(s, 4, "%s sum[%d] = {0};", ptc_single_sum_type(dtype), SCAN_LANES);
  } else {
    ptc_single_line(s, 4, "%s best[%d] = {0};", ptc_c_type(dtype), SCAN_LANES);
    if (s->op->opcode == PTC_OP_CUMARGMAX)
      ptc_single_line(s, 4, "int32_t where[%d] = {0};", SCAN_LANES);
  }
  ptc_single_line(s, 4, "for (int64_t i = 0; i < %" PRId64 "; ++i) {", length);
  const bool reverse = s->op->opcode == PTC_OP_CUMSUM && ptc_op_bool(s->op, "reverse");
  if (reverse)
    ptc_single_line(s, 6, "const int64_t k = at + (%" PRId64 " - i) * %" PRId64 ";", length - 1,
                    inner);
  else
    ptc_single_line(s, 6, "const int64_t k = at + i * %" PRId64 ";", inner);
  ptc_str_append(&s->body, "#pragma omp simd\n");
  ptc_single_line(s, 6, "for (int64_t j = 0; j < n; ++j) {");
  const char *from = ptc_arena_printf(s->arena, "%s[k + j]", ptc_single_name(s, false, 0));
  print_scan_step(s, ptc_c_from_storage(s->arena, dtype, from),
                  ptc_arena_printf(s->arena, "%s[k + j]", ptc_single_name(s, true, 0)));
  ptc_single_line(s, 6, "}");
  ptc_single_line(s, 4, "}");
  ptc_single_line(s, 2, "}");
}

// --- topk: each element is inserted among the best so far; equal ones stay behind

void ptc_single_topk(ptc_c_single_t *s) {
  const ptc_kparam_t *x = ptc_single_param(s, false, 0);
  const int32_t dim = ptc_type_find_dim(ptc_single_in(s, 0), ptc_op_string(s->op, "dim"));
  const int64_t length = x->extents[dim], inner = ptc_single_stride(x, dim);
  const int64_t picks = ptc_op_int(s->op, "extent");
  const ptc_dtype_t dtype = ptc_single_in(s, 0)->dtype;
  const char *type = ptc_c_type(dtype), *nan = "";
  if (ptc_dtype_is_float(dtype)) nan = " || (v != v && best[p - 1] == best[p - 1])";
  int64_t lines = inner;
  for (int32_t i = 0; i < dim; ++i) lines *= x->extents[i];
  s->scratch_bytes = picks * 12 + 64;
  ptc_single_line(s, 2, "%s *const best = call->scratch;  // in descending order", type);
  ptc_single_line(s, 2, "int32_t *const where = (int32_t *)((char *)call->scratch + %" PRId64 ");",
                  picks * 8);
  ptc_single_units(s, lines, length > 0 ? 8192 / length : 1);
  ptc_single_line(s, 4,
                  "const int64_t at = unit / %" PRId64 " * %" PRId64 " + unit %% %" PRId64 ";",
                  inner, length * inner, inner);
  ptc_single_line(s, 4, "int64_t count = 0;");
  ptc_single_line(s, 4, "for (int64_t i = 0; i < %" PRId64 "; ++i) {", length);
  const char *from =
      ptc_arena_printf(s->arena, "%s[at + i * %" PRId64 "]", ptc_single_name(s, false, 0), inner);
  ptc_single_line(s, 6, "const %s v = %s;", type, ptc_c_from_storage(s->arena, dtype, from));
  ptc_single_line(s, 6, "int64_t p = count;");
  ptc_single_line(s, 6, "while (p > 0 && (v > best[p - 1]%s)) {", nan);
  ptc_single_line(s, 8, "if (p < %" PRId64 ") {", picks);
  ptc_single_line(s, 10, "best[p] = best[p - 1];");
  ptc_single_line(s, 10, "where[p] = where[p - 1];");
  ptc_single_line(s, 8, "}");
  ptc_single_line(s, 8, "--p;");
  ptc_single_line(s, 6, "}");
  ptc_single_line(s, 6, "if (p >= %" PRId64 ") continue;", picks);
  ptc_single_line(s, 6, "best[p] = v;");
  ptc_single_line(s, 6, "where[p] = (int32_t)i;");
  ptc_single_line(s, 6, "if (count < %" PRId64 ") ++count;", picks);
  ptc_single_line(s, 4, "}");
  ptc_single_line(s, 4,
                  "const int64_t to = unit / %" PRId64 " * %" PRId64 " + unit %% %" PRId64 ";",
                  inner, picks * inner, inner);
  ptc_single_line(s, 4, "for (int64_t p = 0; p < %" PRId64 "; ++p) {", picks);
  ptc_single_line(s, 6, "%s[to + p * %" PRId64 "] = %s;", ptc_single_name(s, true, 0), inner,
                  ptc_c_to_storage(s->arena, dtype, "best[p]"));
  ptc_single_line(s, 6, "%s[to + p * %" PRId64 "] = where[p];", ptc_single_name(s, true, 1), inner);
  ptc_single_line(s, 4, "}");
  ptc_single_line(s, 2, "}");
}

// --- dispatch_slot: a hash table counts the values seen

void ptc_single_dispatch_slot(ptc_c_single_t *s) {
  const ptc_type_t *type = ptc_single_in(s, 0);
  const ptc_kparam_t *x = ptc_single_param(s, false, 0);
  const ptc_attr_t *over = ptc_op_attr(s->op, "over");
  int64_t count = 1, lines = 1, slots = 16;
  bool is_over[PTC_MAX_DIMS] = {false};
  for (int32_t i = 0; i < over->count; ++i) {
    const int32_t dim = ptc_type_find_dim(type, over->u.dims[i]);
    if (dim < 0 || is_over[dim]) continue;
    is_over[dim] = true;
    count *= x->extents[dim];
  }
  for (int32_t d = 0; d < type->num_dims; ++d)
    if (!is_over[d]) lines *= x->extents[d];
  while (slots < 2 * count) slots *= 2;
  s->scratch_bytes = slots * 16;
  ptc_single_line(s, 2, "int64_t *const keys = call->scratch;  // open addressing");
  ptc_single_line(s, 2, "int32_t *const seen = (int32_t *)((char *)call->scratch + %" PRId64 ");",
                  slots * 8);
  ptc_single_units(s, lines, count > 0 ? 8192 / count : 1);
  ptc_single_line(s, 4, "memset(seen, 0, %" PRId64 ");", slots * 4);
  ptc_single_line(s, 4, "int64_t at = 0, rest = unit;");
  for (int32_t d = type->num_dims - 1; d >= 0; --d)
    if (!is_over[d] && x->extents[d] > 1) {
      ptc_single_line(s, 4, "at += rest %% %" PRId64 " * %" PRId64 ";", x->extents[d],
                      ptc_single_stride(x, d));
      ptc_single_line(s, 4, "rest /= %" PRId64 ";", x->extents[d]);
    }
  int32_t indent = 4;
  ptc_str_t place = {0};
  ptc_str_append(&place, "at");
  bool done[PTC_MAX_DIMS] = {false};
  for (int32_t i = 0; i < over->count; ++i) {
    const int32_t dim = ptc_type_find_dim(type, over->u.dims[i]);
    if (dim < 0 || done[dim]) continue;
    done[dim] = true;
    ptc_single_line(s, indent, "for (int64_t i%d = 0; i%d < %" PRId64 "; ++i%d) {", dim, dim,
                    x->extents[dim], dim);
    ptc_str_printf(&place, " + i%d * %" PRId64, dim, ptc_single_stride(x, dim));
    indent += 2;
  }
  ptc_single_line(s, indent, "const int64_t k = %s;", place.data);
  ptc_str_deinit(&place);
  ptc_single_line(s, indent, "const int64_t key = %s[k];", ptc_single_name(s, false, 0));
  ptc_single_line(s, indent,
                  "uint64_t h = (uint64_t)key * UINT64_C(0x9E3779B97F4A7C15) >> 32 & %" PRId64 ";",
                  slots - 1);
  ptc_single_line(s, indent, "while (seen[h] && keys[h] != key) h = (h + 1) & %" PRId64 ";",
                  slots - 1);
  ptc_single_line(s, indent, "keys[h] = key;");
  ptc_single_line(s, indent, "%s[k] = seen[h]++;", ptc_single_name(s, true, 0));
  for (; indent > 4; indent -= 2) ptc_single_line(s, indent - 2, "}");
  ptc_single_line(s, 2, "}");
}

ptc_status_t ptc_c_single(ptc_diag_t *diag, ptc_arena_t *arena, const ptc_kernel_t *kernel,
                          const ptc_c_target_t *target, ptc_str_t *out,
                          ptc_kernel_shape_t *out_shape) {
  (void)target;
  *out_shape = (ptc_kernel_shape_t){0};
  ptc_c_single_t s = {.arena = arena, .kernel = kernel, .op = kernel->op};
  switch (kernel->kind) {
    case PTC_KERNEL_SCAN: ptc_single_scan(&s); break;
    case PTC_KERNEL_TOPK: ptc_single_topk(&s); break;
    case PTC_KERNEL_DISPATCH_SLOT: ptc_single_dispatch_slot(&s); break;
    case PTC_KERNEL_SCATTER_ADD: ptc_single_scatter_add(&s); break;
    case PTC_KERNEL_WINDOW_ADD: ptc_single_window_add(&s); break;
    case PTC_KERNEL_SQUARE_SUM: ptc_single_square_sum(&s); break;
    case PTC_KERNEL_LIMBS_VALUE: ptc_single_limbs_value(&s); break;
    default:
      return ptc_error(diag, kernel->loc, PTC_INVALID_INPUT, "codegen-unsupported",
                       "kernel \"%s\" (%s) is of a kind that has no C form", kernel->name,
                       kernel->about);
  }
  ptc_c_open(out, kernel, "");
  ptc_str_append(out, s.body.data ? s.body.data : "");
  ptc_str_append(out, "}\n");
  ptc_str_deinit(&s.body);
  ptc_phase_run_t *run = PTC_ARENA_NEW(arena, ptc_phase_run_t);
  int64_t *tiles = PTC_ARENA_ARRAY(arena, int64_t, 2);
  tiles[0] = s.tiles;
  tiles[1] = s.last_tiles;
  *run = (ptc_phase_run_t){.count = 1, .num_phases = s.last_tiles ? 2 : 1, .tiles = tiles};
  out_shape->num_runs = 1;
  out_shape->runs = run;
  out_shape->scratch_bytes = s.scratch_bytes;
  out_shape->workspace_bytes = s.workspace_bytes;
  return PTC_OK;
}
