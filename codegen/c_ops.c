// Elementwise ops as C expressions: one row per op, a column per kind of number. Integers saturate, as in
// the interpreter; where the ranges of the operands allow, the plain operator is printed.
#include <inttypes.h>
#include <string.h>

#include "codegen/c_expr.h"
#include "codegen/codegen.h"

// $0, $1, $2: the operands. $i: "i32" or "i64".
typedef struct row_s {
  ptc_opcode_t opcode;
  const char *f32, *f64, *integer, *plain;  // plain: an integer form that may overflow
} row_t;

#define SAME(text) text, text, text, NULL
static const row_t rows[] = {
    {PTC_OP_NEG, "-$0", "-$0", "ptc_sub_$i(0, $0)", "-$0"},
    {PTC_OP_EXP, "ptc_exp($0)", "exp($0)", NULL, NULL},
    {PTC_OP_LOG, "ptc_log($0)", "log($0)", NULL, NULL},
    {PTC_OP_SIN, "ptc_sin($0)", "ptc_sin64($0)", NULL, NULL},
    {PTC_OP_COS, "ptc_cos($0)", "ptc_cos64($0)", NULL, NULL},
    {PTC_OP_TANH, "ptc_tanh($0)", "tanh($0)", NULL, NULL},
    {PTC_OP_SQRT, "__builtin_sqrtf($0)", "__builtin_sqrt($0)", NULL, NULL},
    {PTC_OP_RSQRT, "1.0f / __builtin_sqrtf($0)", "1.0 / __builtin_sqrt($0)", NULL, NULL},
    {PTC_OP_ERF, "ptc_erf($0)", "erf($0)", NULL, NULL},
    {PTC_OP_ABS, "__builtin_fabsf($0)", "__builtin_fabs($0)", "$0 < 0 ? ptc_sub_$i(0, $0) : $0",
     NULL},
    {PTC_OP_SIGN, "$0 != $0 ? $0 : (float)(($0 > 0) - ($0 < 0))",
     "$0 != $0 ? $0 : (double)(($0 > 0) - ($0 < 0))", "($0 > 0) - ($0 < 0)", NULL},
    {PTC_OP_FLOOR, "__builtin_floorf($0)", "__builtin_floor($0)", NULL, NULL},
    {PTC_OP_CEIL, "__builtin_ceilf($0)", "__builtin_ceil($0)", NULL, NULL},
    {PTC_OP_RELU, "$0 < 0.0f ? 0.0f : $0", "$0 < 0.0 ? 0.0 : $0", NULL, NULL},
    {PTC_OP_SIGMOID, "ptc_sigmoid($0)", "ptc_sigmoid64($0)", NULL, NULL},
    {PTC_OP_SILU, "ptc_silu($0)", "ptc_silu64($0)", NULL, NULL},
    {PTC_OP_SOFTPLUS, "ptc_softplus($0)", "ptc_softplus64($0)", NULL, NULL},
    {PTC_OP_IS_FINITE, "__builtin_fabsf($0) < INFINITY", "__builtin_fabs($0) < (double)INFINITY",
     "true", NULL},
    {PTC_OP_ADD, "$0 + $1", "$0 + $1", "ptc_add_$i($0, $1)", "$0 + $1"},
    {PTC_OP_ACCUMULATE, "$0 + $1", "$0 + $1", "ptc_add_$i($0, $1)", "$0 + $1"},
    {PTC_OP_SUB, "$0 - $1", "$0 - $1", "ptc_sub_$i($0, $1)", "$0 - $1"},
    {PTC_OP_MUL, "$0 * $1", "$0 * $1", "ptc_mul_$i($0, $1)", "$0 * $1"},
    {PTC_OP_DIV, "$0 / $1", "$0 / $1", "ptc_div_$i($0, $1)", "$0 / $1"},
    {PTC_OP_MOD, "ptc_mod($0, $1)", "ptc_mod64($0, $1)", "ptc_mod_$i($0, $1)", "$0 % $1"},
    {PTC_OP_POW, "ptc_pow($0, $1)", "pow($0, $1)", NULL, NULL},
    {PTC_OP_MIN, "(($0 < $1) | ($0 != $0)) ? $0 : $1", "(($0 < $1) | ($0 != $0)) ? $0 : $1",
     "$0 < $1 ? $0 : $1", NULL},
    {PTC_OP_MAX, "(($0 > $1) | ($0 != $0)) ? $0 : $1", "(($0 > $1) | ($0 != $0)) ? $0 : $1",
     "$0 > $1 ? $0 : $1", NULL},
    {PTC_OP_EQ, SAME("$0 == $1")},
    {PTC_OP_NE, SAME("$0 != $1")},
    {PTC_OP_LT, SAME("$0 < $1")},
    {PTC_OP_LE, SAME("$0 <= $1")},
    {PTC_OP_TANH_GRAD, "$1 * (1.0f - $0 * $0)", "$1 * (1.0 - $0 * $0)", NULL, NULL},
    {PTC_OP_SIGMOID_GRAD, "$1 * ($0 * (1.0f - $0))", "$1 * ($0 * (1.0 - $0))", NULL, NULL},
    {PTC_OP_SILU_GRAD, "ptc_silu_grad($0, $1)", "ptc_silu_grad64($0, $1)", NULL, NULL},
};
static const row_t gelu_rows[2][2] = {
    {{PTC_OP_GELU, "ptc_gelu($0)", "ptc_gelu64($0)", NULL, NULL},
     {PTC_OP_GELU, "ptc_gelu_tanh($0)", "ptc_gelu_tanh64($0)", NULL, NULL}},
    {{PTC_OP_GELU_GRAD, "ptc_gelu_grad($0, $1)", "ptc_gelu_grad64($0, $1)", NULL, NULL},
     {PTC_OP_GELU_GRAD, "ptc_gelu_tanh_grad($0, $1)", "ptc_gelu_tanh_grad64($0, $1)", NULL, NULL}}};

static const char *fill(ptc_arena_t *arena, const char *pattern, const char *const *args,
                        ptc_dtype_t dtype) {
  ptc_str_t text = {0};
  for (const char *c = pattern; *c; ++c) {
    if (*c != '$') {
      ptc_str_append_n(&text, c, 1);
    } else {
      ++c;
      ptc_str_append(&text, *c == 'i' ? ptc_dtype_name(dtype) : args[*c - '0']);
    }
  }
  const char *kept = ptc_arena_strndup(arena, text.data, text.len);
  ptc_str_deinit(&text);
  return kept;
}

// --- ranges of integers

typedef struct range_s {
  double lo, hi;
} range_t;

static range_t range_of(const ptc_kernel_t *kernel, ptc_kx_t expr, int depth);

static range_t product(range_t a, range_t b) {
  const double p[4] = {a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi};
  range_t r = {p[0], p[0]};
  for (int i = 1; i < 4; ++i) {
    if (p[i] < r.lo) r.lo = p[i];
    if (p[i] > r.hi) r.hi = p[i];
  }
  return r;
}

// Of the exact result, which may lie outside the dtype.
static range_t range_of_op(const ptc_kernel_t *kernel, const ptc_kexpr_t *e, range_t whole,
                           int depth) {
  range_t a = range_of(kernel, e->args[0], depth + 1), b = whole;
  if (e->num_args > 1) b = range_of(kernel, e->args[1], depth + 1);
  switch (e->opcode) {
    case PTC_OP_NEG: return (range_t){-a.hi, -a.lo};
    case PTC_OP_ACCUMULATE:
    case PTC_OP_ADD: return (range_t){a.lo + b.lo, a.hi + b.hi};
    case PTC_OP_SUB: return (range_t){a.lo - b.hi, a.hi - b.lo};
    case PTC_OP_MUL: return product(a, b);
    case PTC_OP_DIV: return a.lo >= 0 && b.lo > 0 ? (range_t){0, a.hi / b.lo} : whole;
    case PTC_OP_MOD: return b.lo > 0 ? (range_t){0, b.hi - 1} : whole;
    case PTC_OP_MIN: return (range_t){a.lo < b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
    case PTC_OP_MAX: return (range_t){a.lo > b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
    case PTC_OP_CAST: return a.lo >= whole.lo && a.hi <= whole.hi ? a : whole;
    default: return whole;
  }
}

static range_t range_of_dtype(ptc_dtype_t dtype) {
  if (dtype == PTC_BOOL) return (range_t){0, 1};
  if (dtype == PTC_I32) return (range_t){-0x1p31, 0x1p31 - 1};
  if (dtype == PTC_I64) return (range_t){-0x1p63, 0x1p63};
  return (range_t){-1e300, 1e300};
}

static range_t range_of(const ptc_kernel_t *kernel, ptc_kx_t expr, int depth) {
  const ptc_kexpr_t *e = &kernel->exprs[expr];
  range_t whole = range_of_dtype(e->dtype), r = whole;
  if (depth > 8) return whole;
  if (e->kind == PTC_KX_CONST) r = (range_t){e->value, e->value};
  if (e->kind == PTC_KX_INDEX) r = (range_t){0, (double)(kernel->dims[e->dim].extent - 1)};
  if (e->kind == PTC_KX_TURN) r.lo = 0;
  if (e->kind == PTC_KX_OP) r = range_of_op(kernel, e, whole, depth);
  return r.lo >= whole.lo && r.hi <= whole.hi ? r : whole;
}

// Whether C's operator gives what the op means: no overflow; operands of / and % not negative.
static bool plain_is_exact(const ptc_kernel_t *kernel, const ptc_kexpr_t *e) {
  range_t whole = range_of_dtype(e->dtype), r = range_of_op(kernel, e, whole, 0);
  if (e->opcode == PTC_OP_DIV || e->opcode == PTC_OP_MOD)
    return range_of(kernel, e->args[0], 0).lo >= 0 && range_of(kernel, e->args[1], 0).lo > 0;
  return r.lo >= whole.lo && r.hi <= whole.hi && r.hi < 0x1p62;
}

// --- casts

static const char *cast_text(ptc_arena_t *arena, ptc_dtype_t from, ptc_dtype_t to,
                             const char *const *args) {
  if (to == PTC_BOOL) return fill(arena, "$0 != 0", args, to);
  if (ptc_dtype_is_int(to)) {
    if (ptc_dtype_is_float(from))
      return fill(arena, from == PTC_F64 ? "ptc_$i_of_double($0)" : "ptc_$i_of_float($0)", args,
                  to);
    if (from == PTC_I64 && to == PTC_I32) return fill(arena, "ptc_i32_of_i64($0)", args, to);
    return fill(arena, to == PTC_I64 ? "(int64_t)$0" : "(int32_t)$0", args, to);
  }
  const bool wide = to == PTC_F64;
  const bool same = strcmp(ptc_c_type(from), ptc_c_type(to)) == 0;
  if (same && (from == to || to == PTC_F32)) return args[0];
  return ptc_c_round(arena, to,
                     same ? args[0] : fill(arena, wide ? "(double)$0" : "(float)$0", args, to));
}

const char *ptc_c_op_text(ptc_arena_t *arena, const ptc_kernel_t *kernel, ptc_kx_t expr,
                          const char *const *args) {
  const ptc_kexpr_t *e = &kernel->exprs[expr];
  const ptc_dtype_t from = kernel->exprs[e->args[0]].dtype;
  switch (e->opcode) {
    case PTC_OP_CAST: return cast_text(arena, from, e->dtype, args);
    case PTC_OP_NOT: return fill(arena, "!$0", args, from);
    case PTC_OP_AND: return fill(arena, "$0 & $1", args, from);
    case PTC_OP_OR: return fill(arena, "$0 | $1", args, from);
    case PTC_OP_WHERE: return fill(arena, "$0 ? $1 : $2", args, e->dtype);
    default: break;
  }
  const row_t *row = NULL;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
    if (rows[i].opcode == e->opcode) row = &rows[i];
  if (e->opcode == PTC_OP_GELU) row = &gelu_rows[0][e->gelu_tanh];
  if (e->opcode == PTC_OP_GELU_GRAD) row = &gelu_rows[1][e->gelu_tanh];
  if (!row) return NULL;
  if (from == PTC_BOOL) return row->integer ? fill(arena, row->integer, args, PTC_I32) : NULL;
  if (ptc_dtype_is_int(from)) {
    if (row->plain && plain_is_exact(kernel, e)) return fill(arena, row->plain, args, from);
    return row->integer ? fill(arena, row->integer, args, from) : NULL;
  }
  const char *pattern = from == PTC_F64 ? row->f64 : row->f32;
  if (!pattern) return NULL;
  const char *text = fill(arena, pattern, args, from);
  return e->dtype == PTC_BOOL ? text : ptc_c_round(arena, e->dtype, text);
}
