// Printing what happens to scores between the two products: mask, bias, dropout, each over 16 rows at a
// time; and by interval arithmetic over whole blocks, what the mask lets through there.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "codegen/c_attention_impl.h"
#include "ir/op.h"

static const char *name_of(const ptc_attention_c_t *self, int32_t dim) {
  return ptc_c_index_name(self->arena, self->kernel, dim);
}

static uint32_t attend_bit(const ptc_attention_c_t *self) {
  return UINT32_C(1) << self->at->attend;
}

// --- elementwise: for each key, 16 rows

// Parts of |expr| that vary over rows, not over keys: one array of 16 each, before the loop over keys.
static void hoist_rows(ptc_attention_c_t *self, ptc_c_scope_t *scope, ptc_kx_t expr) {
  const ptc_kexpr_t *e = &self->kernel->exprs[expr];
  if (scope->value_text[expr] || e->kind == PTC_KX_CONST || e->kind == PTC_KX_INDEX) return;
  if (e->kind == PTC_KX_TURN || e->kind == PTC_KX_RANDOM) return;
  if (!(e->varies & self->rows_mask)) return;
  if (!(e->varies & attend_bit(self))) {
    const char **saved = ptc_c_scope_save(scope);
    ptc_attention_printf(self, "  %s of_rows%d[PANEL];\n  for (int i = 0; i < PANEL; i++) {\n",
                         ptc_c_type(e->dtype), expr);
    ptc_c_eval(scope, expr, 4, self->out);
    ptc_attention_printf(self, "    of_rows%d[i] = %s;\n  }\n", expr, scope->value_text[expr]);
    ptc_c_scope_restore(scope, saved);
    scope->value_text[expr] = ptc_arena_printf(self->arena, "of_rows%d[i]", expr);
    return;
  }
  if (e->kind == PTC_KX_LOAD) {
    if (e->guard != PTC_KX_NONE) hoist_rows(self, scope, e->guard);
    const ptc_c_affine_t address = ptc_c_address(self->kernel, e->param, e->args);
    for (int32_t i = 0; i < address.num_terms; ++i) hoist_rows(self, scope, address.terms[i]);
    return;
  }
  for (int32_t i = 0; i < e->num_args; ++i) hoist_rows(self, scope, e->args[i]);
}

// The indices as texts; the row dims' are read from |rows| at lane i.
static void begin_scope(ptc_attention_c_t *self, ptc_c_scope_t *scope) {
  ptc_c_scope_init(scope, self->arena, self->kernel);
  for (int32_t i = 0; i < self->rows.count; ++i) {
    const int32_t dim = self->rows.dims[i];
    scope->index_text[dim] = ptc_arena_printf(self->arena, "rows->%s[i]", name_of(self, dim));
  }
}

// A function over keys first..last-1 of one panel: per element, the value of |root| is given to |assign|
// ("row[i] = ..."; %s is the value).
static void print_elementwise(ptc_attention_c_t *self, const char *name, ptc_kx_t root,
                              const char *assign) {
  const ptc_kexpr_t *e = &self->kernel->exprs[root];
  const char *t = name_of(self, self->at->attend);
  ptc_attention_printf(
      self,
      "static void %s(const ptc_kernel_call_t *call, const outer_t *at, const rows_t "
      "*rows,\n    int64_t first, int64_t last, float *s) {\n",
      name);
  ptc_c_params(self->out, self->kernel, 2);
  ptc_attention_print_outer(self, e->varies, 2);
  ptc_c_scope_t scope;
  begin_scope(self, &scope);
  ptc_c_hoist(&scope, root, self->rows_mask | attend_bit(self), 2, self->out);
  hoist_rows(self, &scope, root);
  ptc_attention_printf(self, "  for (int64_t %s = first; %s < last; %s++, s += PANEL) {\n", t, t,
                       t);
  ptc_c_hoist(&scope, root, self->rows_mask, 4, self->out);
  ptc_attention_printf(self, "#pragma omp simd\n    for (int i = 0; i < PANEL; i++) {\n");
  ptc_c_eval(&scope, root, 6, self->out);
  ptc_attention_printf(self, "      ");
  ptc_attention_printf(self, assign, scope.value_text[root]);
  ptc_attention_printf(self, "\n    }\n  }\n}\n\n");
}

// --- dropout

// Whether the numbers of neighbouring keys follow one another, so that a row's words come in one piece.
static bool is_consecutive(const ptc_attention_c_t *self, const ptc_c_affine_t *form) {
  return form->num_terms == 0 && form->coef[self->at->attend] == 1;
}

static void print_draw(ptc_attention_c_t *self) {
  const double words = ceil(self->p * 0x1p24);
  const char *keep = ptc_attention_float(self->arena, 1 / (1 - self->p));
  const ptc_c_affine_t form = ptc_c_affine_of(self->kernel, self->at->element);
  if (!is_consecutive(self, &form)) {
    const char *assign = ptc_arena_printf(self->arena, "s[i] = %%s >= %s ? %s : 0.0f;",
                                          ptc_attention_float(self->arena, words * 0x1p-24), keep);
    print_elementwise(self, "draw_keep", self->random, assign);
    return;
  }
  ptc_c_scope_t scope;
  begin_scope(self, &scope);
  scope.index_text[self->at->attend] = "first";
  const ptc_kexpr_t *e = &self->kernel->exprs[self->random];
  ptc_attention_printf(
      self,
      "static void draw_keep(const ptc_kernel_call_t *call, const outer_t *at, const "
      "rows_t *rows,\n    int64_t first, int64_t last, float *s) {\n");
  ptc_c_params(self->out, self->kernel, 2);
  ptc_attention_print_outer(self, e->varies, 2);
  ptc_c_hoist(&scope, self->random, self->rows_mask | attend_bit(self), 2, self->out);
  for (int32_t i = 1; i < 3; ++i) ptc_c_eval(&scope, e->args[i], 2, self->out);
  ptc_attention_printf(self,
                       "  uint32_t words[BLOCK + 6];\n"
                       "  for (int i = 0; i < PANEL; i++) {\n"
                       "    const uint64_t element = (uint64_t)(%s);\n"
                       "    const uint32_t *word = words + element %% 4;\n"
                       "    ptc_philox_words(words, last - first + (int64_t)(element %% 4), "
                       "(uint64_t)%s, element / 4, (uint32_t)%s, %s);\n"
                       "    for (int64_t t = 0; t < last - first; t++)\n"
                       "      s[t * PANEL + i] = (word[t] >> 8) >= UINT32_C(%.0f) ? %s : 0.0f;\n"
                       "  }\n}\n\n",
                       ptc_c_affine_text(&scope, &form), scope.value_text[e->args[1]],
                       scope.value_text[e->args[2]], scope.hash_text[self->random], words, keep);
}

// --- what a block lets through

typedef struct interval_s {
  const char *low, *high;  // C expressions of type double
} interval_t;

static interval_t unknown(const ptc_attention_c_t *self, ptc_kx_t expr) {
  if (self->kernel->exprs[expr].dtype == PTC_BOOL) return (interval_t){"0.0", "1.0"};
  return (interval_t){"-HUGE_VAL", "HUGE_VAL"};
}

// Prints lN and hN, the bounds of |expr| over a block of rows and keys.
static interval_t print_bounds(ptc_attention_c_t *self, ptc_c_scope_t *scope, interval_t *known,
                               ptc_kx_t expr);

static interval_t declare(ptc_attention_c_t *self, ptc_kx_t expr, const char *low,
                          const char *high) {
  ptc_attention_printf(self, "  const double l%d = %s, h%d = %s;\n", expr, low, expr, high);
  return (interval_t){ptc_arena_printf(self->arena, "l%d", expr),
                      ptc_arena_printf(self->arena, "h%d", expr)};
}

// Integers saturate.
static const char *saturated(const ptc_attention_c_t *self, const ptc_kexpr_t *e, char op,
                             const char *a, const char *b) {
  const char *limit = e->dtype == PTC_I32 ? "0x1p31" : "0x1p63";
  return ptc_arena_printf(self->arena, "fmin(fmax(%s %c %s, -%s), %s - 1.0)", a, op, b, limit,
                          limit);
}

static interval_t bounds_of_op(ptc_attention_c_t *self, ptc_c_scope_t *scope, interval_t *known,
                               ptc_kx_t expr) {
  const ptc_kexpr_t *e = &self->kernel->exprs[expr];
  ptc_arena_t *arena = self->arena;
  const bool whole = ptc_dtype_is_int(e->dtype) || e->dtype == PTC_BOOL;
  const ptc_dtype_t from = self->kernel->exprs[e->args[0]].dtype;
  if (!whole || (from != PTC_BOOL && !ptc_dtype_is_int(from))) return unknown(self, expr);
  interval_t a[3] = {{0}};
  for (int32_t i = 0; i < e->num_args && i < 3; ++i)
    a[i] = print_bounds(self, scope, known, e->args[i]);
#define FORM(...) ptc_arena_printf(arena, __VA_ARGS__)
  switch (e->opcode) {
    case PTC_OP_NEG: return declare(self, expr, FORM("-%s", a[0].high), FORM("-%s", a[0].low));
    case PTC_OP_ADD:
      return declare(self, expr, saturated(self, e, '+', a[0].low, a[1].low),
                     saturated(self, e, '+', a[0].high, a[1].high));
    case PTC_OP_SUB:
      return declare(self, expr, saturated(self, e, '-', a[0].low, a[1].high),
                     saturated(self, e, '-', a[0].high, a[1].low));
    case PTC_OP_MIN:
    case PTC_OP_MAX: {
      const char *pick = e->opcode == PTC_OP_MIN ? "fmin" : "fmax";
      return declare(self, expr, FORM("%s(%s, %s)", pick, a[0].low, a[1].low),
                     FORM("%s(%s, %s)", pick, a[0].high, a[1].high));
    }
    case PTC_OP_CAST: return from == PTC_I64 ? unknown(self, expr) : a[0];
    case PTC_OP_LE:
    case PTC_OP_LT: {
      const char *op = e->opcode == PTC_OP_LE ? "<=" : "<";
      return declare(self, expr, FORM("%s %s %s", a[0].high, op, a[1].low),
                     FORM("%s %s %s", a[0].low, op, a[1].high));
    }
    case PTC_OP_EQ:
    case PTC_OP_NE: {
      const char *same = FORM("(%s == %s) & (%s == %s) & (%s == %s)", a[0].low, a[0].high, a[1].low,
                              a[1].high, a[0].low, a[1].low);
      const char *meet = FORM("(%s <= %s) & (%s <= %s)", a[0].low, a[1].high, a[1].low, a[0].high);
      if (e->opcode == PTC_OP_EQ) return declare(self, expr, same, meet);
      return declare(self, expr, FORM("!(%s)", meet), FORM("!(%s)", same));
    }
    case PTC_OP_NOT:
      return declare(self, expr, FORM("1.0 - %s", a[0].high), FORM("1.0 - %s", a[0].low));
    case PTC_OP_AND:
      return declare(self, expr, FORM("%s * %s", a[0].low, a[1].low),
                     FORM("%s * %s", a[0].high, a[1].high));
    case PTC_OP_OR:
      return declare(self, expr, FORM("fmax(%s, %s)", a[0].low, a[1].low),
                     FORM("fmax(%s, %s)", a[0].high, a[1].high));
    case PTC_OP_WHERE:
      return declare(self, expr,
                     FORM("%s ? %s : %s ? fmin(%s, %s) : %s", a[0].low, a[1].low, a[0].high,
                          a[1].low, a[2].low, a[2].low),
                     FORM("%s ? %s : %s ? fmax(%s, %s) : %s", a[0].low, a[1].high, a[0].high,
                          a[1].high, a[2].high, a[2].high));
    default: return unknown(self, expr);
  }
#undef FORM
}

static interval_t print_bounds(ptc_attention_c_t *self, ptc_c_scope_t *scope, interval_t *known,
                               ptc_kx_t expr) {
  if (known[expr].low) return known[expr];
  const ptc_kexpr_t *e = &self->kernel->exprs[expr];
  const uint32_t inner = self->rows_mask | attend_bit(self);
  interval_t result = unknown(self, expr);
  if (!(e->varies & inner)) {
    // One value for the whole block.
    if (e->dtype == PTC_BOOL || ptc_dtype_is_int(e->dtype)) {
      ptc_c_eval(scope, expr, 2, self->out);
      const char *text = ptc_arena_printf(self->arena, "(double)%s", scope->value_text[expr]);
      result = declare(self, expr, text, text);
    }
  } else if (e->kind == PTC_KX_INDEX) {
    const bool key = e->dim == self->at->attend;
    const char *name = name_of(self, e->dim);
    result = key ? (interval_t){"(double)first", "(double)(last - 1)"}
                 : (interval_t){ptc_arena_printf(self->arena, "(double)range->low_%s", name),
                                ptc_arena_printf(self->arena, "(double)range->high_%s", name)};
  } else if (e->kind == PTC_KX_OP) {
    result = bounds_of_op(self, scope, known, expr);
  }
  known[expr] = result;
  return result;
}

static const char kinds_text[] =
    "// Of blocks: what the mask of the first to the last sub-block with anything lets through.\n"
    "typedef struct kinds_s {\n"
    "  int64_t first, last;  // keys of the block\n"
    "  uint8_t kind[BLOCK / SUB];\n"
    "} kinds_t;\n\n"
    "static void sub_kinds(const ptc_kernel_call_t *call, const outer_t *at, const range_t "
    "*range,\n"
    "                      int64_t start, int64_t keys, kinds_t *kinds) {\n"
    "  kinds->first = kinds->last = 0;\n"
    "  for (int64_t t = 0; t < keys; t += SUB) {\n"
    "    const int64_t end = t + SUB < keys ? t + SUB : keys;\n"
    "    const int kind = block_kind(call, at, range, start + t, start + end);\n"
    "    kinds->kind[t / SUB] = (uint8_t)kind;\n"
    "    if (kind == NOTHING) continue;\n"
    "    if (!kinds->last) kinds->first = t;\n"
    "    kinds->last = end;\n"
    "  }\n"
    "}\n\n"
    "// Masks the scores |s| of the block where its kind is not ALL.\n"
    "static void mask_mixed(const ptc_kernel_call_t *call, const outer_t *at, const rows_t *rows,\n"
    "                       int64_t start, const kinds_t *kinds, float *s) {\n"
    "  for (int64_t t = kinds->first; t < kinds->last; t += SUB) {\n"
    "    const int64_t end = t + SUB < kinds->last ? t + SUB : kinds->last;\n"
    "    if (kinds->kind[t / SUB] != EVERYTHING)\n"
    "      mask_scores(call, at, rows, start + t, start + end, s + t * PANEL);\n"
    "  }\n"
    "}\n\n";

static void print_range(ptc_attention_c_t *self) {
  ptc_attention_printf(self,
                       "// The least and largest index of some rows.\ntypedef struct range_s {\n"
                       "  int64_t rows;\n");
  for (int32_t i = 0; i < self->rows.count; ++i) {
    const char *name = name_of(self, self->rows.dims[i]);
    ptc_attention_printf(self, "  int64_t low_%s, high_%s;\n", name, name);
  }
  ptc_attention_printf(self,
                       "} range_t;\n\n"
                       "static range_t range_of(const rows_t *rows, int panels) {\n"
                       "  range_t r = {.rows = panels * PANEL};\n");
  for (int32_t i = 0; i < self->rows.count; ++i) {
    const char *name = name_of(self, self->rows.dims[i]);
    ptc_attention_printf(self,
                         "  r.low_%s = r.high_%s = rows->%s[0];\n"
                         "  for (int n = 0; n < panels; n++)\n"
                         "    for (int i = 0; i < PANEL; i++) {\n"
                         "      const int64_t at = rows[n].%s[i];\n"
                         "      r.low_%s = at < r.low_%s ? at : r.low_%s;\n"
                         "      r.high_%s = at > r.high_%s ? at : r.high_%s;\n"
                         "    }\n",
                         name, name, name, name, name, name, name, name, name, name);
  }
  ptc_attention_printf(self, "  return r;\n}\n\n");
}

void ptc_attention_mask_bounds(ptc_attention_c_t *self, const char **out_low,
                               const char **out_high) {
  ptc_c_scope_t scope;
  begin_scope(self, &scope);
  interval_t *known = PTC_ARENA_ARRAY(self->arena, interval_t, self->kernel->num_exprs + 1);
  const interval_t bounds = print_bounds(self, &scope, known, self->at->mask);
  *out_low = bounds.low;
  *out_high = bounds.high;
}

static void print_block_kind(ptc_attention_c_t *self) {
  const ptc_kx_t mask = self->at->mask;
  print_range(self);
  ptc_attention_printf(
      self,
      "// What the mask lets through of keys first..last-1, by interval arithmetic.\n"
      "enum { NOTHING, MIXED, EVERYTHING };\n\n"
      "static int block_kind(const ptc_kernel_call_t *call, const outer_t *at, const range_t "
      "*range,\n"
      "                      int64_t first, int64_t last) {\n");
  ptc_c_params(self->out, self->kernel, 2);
  ptc_attention_print_outer(self, self->kernel->exprs[mask].varies, 2);
  const char *low, *high;
  ptc_attention_mask_bounds(self, &low, &high);
  ptc_attention_printf(self,
                       "  return %s != 0.0 ? EVERYTHING : %s != 0.0 ? MIXED : NOTHING;\n}\n\n", low,
                       high);
}

void ptc_attention_print_scores(ptc_attention_c_t *self) {
  if (self->at->bias != PTC_KX_NONE)
    print_elementwise(self, "add_bias", self->at->bias, "s[i] += (float)%s;");
  if (self->at->mask != PTC_KX_NONE) {
    print_block_kind(self);
    print_elementwise(self, "mask_scores", self->at->mask, "s[i] = %s ? s[i] : -INFINITY;");
    ptc_attention_printf(self, "%s", kinds_text);
  }
  if (self->random != PTC_KX_NONE) print_draw(self);
}
