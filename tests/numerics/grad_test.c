// Proves: the gradient of every differentiable op is that of central finite differences, on random
// shapes, through a random linear functional. A row of the op table without a case fails.
#include <math.h>

#include "ir/op.h"
#include "tests/support/grad_case.h"
#include "tests/support/op_maker.h"
#include "tests/support/unit.h"

enum { TRIALS = 12 };
static const double TOLERANCE = 1e-7;

// One kind of program around one op. |low|, |high|: the range of its parameters.
typedef struct row_s {
  ptc_opcode_t opcode;
  void (*make)(grad_case_t *c, const struct row_s *row);
  double low, high;
  const char *attrs;
} row_t;

static int pick(grad_case_t *c, int count) {
  return (int)(unit_random(c->random) % (uint64_t)count);
}

static const char *one_of(grad_case_t *c, const char *const *texts, int count) {
  return texts[pick(c, count)];
}

static char *format(grad_case_t *c, const char *text, ...) {
  va_list args;
  va_start(args, text);
  char *result = ptc_arena_vprintf(&c->module->arena, text, args);
  va_end(args);
  return result;
}

static int extent(const grad_case_t *c, char dim) { return (int)c->extent[dim - 'a']; }

// Uses every float result, or one of them.
static void use_results(grad_case_t *c, const ptc_op_t *op) {
  if (!op) return;
  const int only = op->num_results > 1 ? pick(c, op->num_results + 1) : op->num_results;
  bool used = false;
  for (int32_t i = 0; i < op->num_results; i++) {
    if (!ptc_dtype_is_float(op->results[i]->type->dtype)) continue;
    if (only < op->num_results && only != i) continue;
    case_use(c, op->results[i]);
    used = true;
  }
  if (!used) case_use(c, op->results[0]);
}

static void apply(grad_case_t *c, const row_t *row, ptc_value_t *const *operands, int32_t count,
                  const char *attrs) {
  const int32_t num_results = ptc_op_info(row->opcode)->num_results;
  use_results(c, case_op(c, row->opcode, operands, count, num_results, attrs));
}

// The constant that multiplies a parameter is no variable itself.
static void make_constant(grad_case_t *c, const row_t *row) {
  (void)row;
  ptc_value_t *k = ptc_build_constant(&c->b, PTC_F32, 3);
  case_use(c, ptc_build_binary(&c->b, PTC_OP_MUL, case_param(c, "ab", -1, 1), k));
}

static void make_unary(grad_case_t *c, const row_t *row) {
  static const char *const shapes[] = {"", "a", "ab", "abc"};
  ptc_value_t *x = case_param(c, one_of(c, shapes, 4), row->low, row->high);
  apply(c, row, &x, 1, row->attrs);
}

static void make_binary(grad_case_t *c, const row_t *row) {
  static const char *const shapes[][2] = {{"ab", "ab"}, {"ab", "ba"}, {"abc", "b"}, {"a", "cab"},
                                          {"a", "b"},   {"", "ab"},   {"ab", "bc"}, {"ab", ""}};
  const char *const *shape = shapes[pick(c, 8)];
  ptc_value_t *operands[] = {case_param(c, shape[0], row->low, row->high),
                             case_param(c, shape[1], row->low, row->high)};
  if (row->opcode == PTC_OP_MOD) operands[1] = case_param(c, shape[1], 1.01, 1.4);
  if (row->opcode == PTC_OP_POW && pick(c, 2)) {
    static const double exponents[] = {0, 1, 2, 3, -1, -2, 0.5};
    const int which = pick(c, 7);
    // A whole exponent takes a negative base, too.
    if (which < 6 && pick(c, 2)) operands[0] = case_param(c, shape[0], -2, -0.5);
    operands[1] = ptc_build_constant(&c->b, PTC_F32, exponents[which]);
  } else if (pick(c, 8) == 0 && row->opcode != PTC_OP_MAX && row->opcode != PTC_OP_MIN &&
             row->opcode != PTC_OP_MOD) {
    operands[1] = operands[0];
  }
  apply(c, row, operands, 2, row->attrs);
}

static void make_where(grad_case_t *c, const row_t *row) {
  static const char *const shapes[][3] = {
      {"ab", "ab", "ab"}, {"b", "ab", "ba"}, {"abc", "b", "a"}, {"ca", "", "ab"}};
  const char *const *shape = shapes[pick(c, 4)];
  ptc_value_t *operands[] = {case_input(c, PTC_BOOL, shape[0], 0, 2),
                             case_param(c, shape[1], row->low, row->high),
                             case_param(c, shape[2], row->low, row->high)};
  apply(c, row, operands, 3, NULL);
}

static void make_dropout(grad_case_t *c, const row_t *row) {
  ptc_value_t *operands[] = {case_param(c, pick(c, 2) ? "abc" : "ba", row->low, row->high),
                             case_input(c, PTC_I64, "", 1, 1000), case_input(c, PTC_I64, "", 0, 9),
                             case_input(c, PTC_I32, "", 0, 12)};
  const bool turn = pick(c, 2);
  apply(c, row, operands, turn ? 4 : 3, turn ? "p=f:0.4 path=s:block.*.drop" : "p=f:0.3 path=s:d");
}

// --- structure

static void make_broadcast(grad_case_t *c, const row_t *row) {
  ptc_value_t *x = case_param(c, pick(c, 2) ? "ab" : "ba", row->low, row->high);
  apply(c, row, &x, 1,
        format(c, "dims=D:b,c,a,d extents=I:%d,%d,%d,%d", extent(c, 'b'), extent(c, 'c'),
               extent(c, 'a'), extent(c, 'd')));
}

static void make_transpose(grad_case_t *c, const row_t *row) {
  ptc_value_t *x = case_param(c, "abc", row->low, row->high);
  apply(c, row, &x, 1, pick(c, 2) ? "dims=D:c,a,b" : "dims=D:b,a,c");
}

static void make_rename(grad_case_t *c, const row_t *row) {
  static const char *const attrs[] = {"from=D:a to=D:z", "from=D:a,b to=D:b,a",
                                      "from=D:c,a to=D:x,c", "from=D: to=D:"};
  ptc_value_t *x = case_param(c, "abc", row->low, row->high);
  apply(c, row, &x, 1, one_of(c, attrs, 4));
}

static void make_split(grad_case_t *c, const row_t *row) {
  c->extent['m' - 'a'] = c->extent['x' - 'a'] * c->extent['y' - 'a'];
  ptc_value_t *x = case_param(c, "amb", row->low, row->high);
  apply(c, row, &x, 1,
        format(c, "dim=d:m into=D:%s extents=I:%d,%d", pick(c, 2) ? "x,y" : "x,m", extent(c, 'x'),
               extent(c, 'y')));
}

static void make_merge(grad_case_t *c, const row_t *row) {
  static const char *const attrs[] = {"dims=D:a,b into=d:m", "dims=D:b,a into=d:a",
                                      "dims=D:c,a into=d:m", "dims=D:b into=d:m",
                                      "dims=D:a,b,c into=d:c"};
  ptc_value_t *x = case_param(c, "abc", row->low, row->high);
  apply(c, row, &x, 1, one_of(c, attrs, 5));
}

static void make_concat(grad_case_t *c, const row_t *row) {
  ptc_value_t *operands[3];
  const int count = 1 + pick(c, 3);
  for (int i = 0; i < count; i++) {
    c->extent[1] = 1 + pick(c, 4);
    operands[i] = case_param(c, i % 2 ? "ba" : "ab", row->low, row->high);
  }
  if (count == 3 && pick(c, 2)) operands[2] = operands[0];
  apply(c, row, operands, count, "dim=d:b");
}

static void make_window(grad_case_t *c, const row_t *row) {
  c->extent['s' - 'a'] = 1 + pick(c, 6);
  ptc_value_t *x = case_param(c, pick(c, 2) ? "sa" : "as", row->low, row->high);
  const int offset = pick(c, 5) - 2;
  const char *attrs;
  switch (pick(c, 5)) {
    case 0:  // shifted
      attrs = format(c, "dim=d:s terms=D:s coeffs=I:1 extents=I:%d offset=i:%d", extent(c, 's'),
                     offset);
      break;
    case 1:  // a convolution's, with stride
      attrs = format(c, "dim=d:s terms=D:s,w coeffs=I:2,-1 extents=I:%d,%d offset=i:%d fill=f:5",
                     extent(c, 't'), extent(c, 'w'), offset);
      break;
    case 2:  // a diagonal
      attrs = format(c, "dim=d:s terms=D:a coeffs=I:1 extents=I:%d offset=i:%d", extent(c, 'a'),
                     offset);
      break;
    case 3:  // both
      attrs = format(c, "dim=d:s terms=D:w,a coeffs=I:1,1 extents=I:%d,%d offset=i:%d",
                     extent(c, 'w'), extent(c, 'a'), offset);
      break;
    default:  // one element
      attrs = format(c, "dim=d:s terms=D: coeffs=I: extents=I: offset=i:%d", pick(c, 7));
  }
  apply(c, row, &x, 1, attrs);
}

static void make_window_add(grad_case_t *c, const row_t *row) {
  static const char *const forms[] = {
      "dim=d:s terms=D:t,w coeffs=I:1,1 extent=i:%d offset=i:%d keep=D:",
      "dim=d:s terms=D:t,w coeffs=I:2,-1 extent=i:%d offset=i:%d keep=D:w",
      "dim=d:t terms=D:t coeffs=I:1 extent=i:%d offset=i:%d keep=D:",
      "dim=d:s terms=D:a coeffs=I:1 extent=i:%d offset=i:%d keep=D:a"};
  ptc_value_t *y = case_param(c, "atw", row->low, row->high);
  apply(c, row, &y, 1, format(c, one_of(c, forms, 4), 1 + pick(c, 5), pick(c, 5) - 2));
}

// An index of dim |letter| with the dims |dims|; with |wild|, also out of range.
static ptc_value_t *index_of(grad_case_t *c, const char *dims, char letter, bool wild) {
  const double size = (double)c->extent[letter - 'a'];
  return case_input(c, PTC_I32, dims, wild ? -1 : 0, wild ? size + 1 : size);
}

static void make_gather(grad_case_t *c, const row_t *row) {
  const bool wild = pick(c, 2);
  ptc_value_t *operands[3] = {case_param(c, "avb", row->low, row->high)};
  switch (pick(c, 4)) {
    case 0:
      operands[1] = index_of(c, "st", 'v', wild);
      apply(c, row, operands, 2, wild ? "dims=D:v fill=f:2" : "dims=D:v");
      break;
    case 1:  // one index per a
      operands[1] = index_of(c, "sa", 'v', wild);
      apply(c, row, operands, 2, wild ? "dims=D:v fill=f:2" : "dims=D:v");
      break;
    case 2:  // two indexed dims
      operands[1] = index_of(c, "s", 'v', wild);
      operands[2] = index_of(c, "ts", 'a', wild);
      apply(c, row, operands, 3, wild ? "dims=D:v,a fill=f:0" : "dims=D:v,a");
      break;
    default:  // a scalar index
      operands[1] = index_of(c, "", 'b', wild);
      apply(c, row, operands, 2, wild ? "dims=D:b fill=f:1" : "dims=D:b");
  }
}

static void make_scatter_add(grad_case_t *c, const row_t *row) {
  ptc_value_t *operands[3] = {case_param(c, "sta", row->low, row->high)};
  switch (pick(c, 3)) {
    case 0:
      operands[1] = index_of(c, "st", 'v', true);
      apply(c, row, operands, 2,
            format(c, "dims=D:v result=D:v,a extents=I:%d,%d", extent(c, 'v'), extent(c, 'a')));
      break;
    case 1:  // keeps t, sums s and a
      operands[1] = index_of(c, "t", 'v', true);
      apply(c, row, operands, 2,
            format(c, "dims=D:v result=D:t,v extents=I:%d,%d", extent(c, 't'), extent(c, 'v')));
      break;
    default:
      operands[1] = index_of(c, "s", 'v', true);
      operands[2] = index_of(c, "ts", 'u', true);
      apply(c, row, operands, 3,
            format(c, "dims=D:v,u result=D:a,u,v extents=I:%d,%d,%d", extent(c, 'a'),
                   extent(c, 'u'), extent(c, 'v')));
  }
}

// --- reductions, contraction, scans, rows

static void make_over(grad_case_t *c, const row_t *row) {
  static const char *const overs[] = {"b", "c,a", "a", "a,b,c"};
  ptc_value_t *x = case_param(c, "abc", row->low, row->high);
  apply(c, row, &x, 1,
        format(c, "over=D:%s %s", one_of(c, overs, 4), row->attrs ? row->attrs : ""));
}

static void make_einsum(grad_case_t *c, const row_t *row) {
  static const char *const forms[][3] = {{"ab", "bc", "over=D:b"},
                                         {"abc", "cbd", "over=D:b,c"},
                                         {"abc", "acd", "over=D:c"},
                                         {"ab", "c", "over=D:a,c"},
                                         {"abc", "bd", "over=D:c,b"},
                                         {"ab", "ab", "over=D:"},
                                         {"ab", "bc", "over=D:b dims=D:c,a"},
                                         {"", "ab", "over=D:a"}};
  const char *const *form = forms[pick(c, 8)];
  ptc_value_t *operands[] = {case_param(c, form[0], row->low, row->high),
                             case_param(c, form[1], row->low, row->high)};
  if (pick(c, 6) == 0) operands[1] = operands[0];
  apply(c, row, operands, 2, operands[1] == operands[0] ? "over=D:" : form[2]);
}

static void make_scan(grad_case_t *c, const row_t *row) {
  ptc_value_t *x = case_param(c, "abc", row->low, row->high);
  const bool reverse = row->opcode == PTC_OP_CUMSUM && pick(c, 2);
  apply(c, row, &x, 1, format(c, "dim=d:%c%s", 'a' + pick(c, 3), reverse ? " reverse=b:1" : ""));
}

static void make_cross_entropy(grad_case_t *c, const row_t *row) {
  ptc_value_t *operands[] = {case_param(c, pick(c, 2) ? "avb" : "abv", row->low, row->high), NULL};
  // -1: no target
  operands[1] = case_input(c, PTC_I32, pick(c, 2) ? "ab" : "ba", -1, (double)extent(c, 'v'));
  apply(c, row, operands, 2, "dim=d:v");
}

static void make_rope(grad_case_t *c, const row_t *row) {
  c->extent['k' - 'a'] = 2 * (1 + pick(c, 3));
  const int turning = 2 * pick(c, extent(c, 'k') / 2 + 1);
  ptc_value_t *operands[] = {case_param(c, pick(c, 2) ? "skh" : "hsk", row->low, row->high),
                             case_input(c, pick(c, 2) ? PTC_I32 : PTC_F32, "s", 0, 9)};
  apply(c, row, operands, 2,
        format(c, "dim=d:k base=f:100 dims=i:%d style=s:%s%s%s", turning,
               pick(c, 2) ? "half" : "interleaved", pick(c, 2) ? " scale=f:2" : "",
               pick(c, 2) ? " inverse=b:1" : ""));
}

static void make_topk(grad_case_t *c, const row_t *row) {
  ptc_value_t *x = case_param(c, "aeb", row->low, row->high);
  apply(c, row, &x, 1,
        format(c, "dim=d:e into=d:%c extent=i:%d", pick(c, 2) ? 'k' : 'e',
               pick(c, extent(c, 'e') + 1)));
}

// Grouped heads: q has h = (n, g), key and val have n.
static void make_attention(grad_case_t *c, const row_t *row) {
  ptc_value_t *operands[8];
  int32_t count = 0;
  const bool shared = pick(c, 2), mask = pick(c, 2), bias = pick(c, 2), drop = pick(c, 2);
  operands[count++] = case_param(c, pick(c, 2) ? "bsngk" : "nbgsk", row->low, row->high);
  operands[count++] = case_param(c, shared ? "tnk" : "btnk", row->low, row->high);
  operands[count++] = case_param(c, pick(c, 2) ? "btnw" : "ntw", row->low, row->high);
  if (mask) operands[count++] = case_input(c, PTC_BOOL, pick(c, 2) ? "st" : "bt", 0, 2);
  if (bias) operands[count++] = case_param(c, pick(c, 2) ? "st" : "nst", row->low, row->high);
  if (drop) {
    operands[count++] = case_input(c, PTC_I64, "", 1, 1000);
    operands[count++] = case_input(c, PTC_I64, "", 0, 9);
  }
  const ptc_op_t *op = case_op(
      c, row->opcode, operands, count, 2,
      format(c, "attend=d:t dot=d:k scale=f:0.7%s%s%s%s", pick(c, 2) ? " softcap=f:1.5" : "",
             mask ? " mask=b:1" : "", bias ? " bias=b:1" : "", drop ? " p=f:0.3 path=s:att" : ""));
  if (op) case_use(c, op->results[0]);
}

// --- bundles

static void make_list(grad_case_t *c, const row_t *row) {
  const int64_t two[] = {1 + pick(c, 4), 1 + pick(c, 3), 0};
  const int64_t six[] = {6, 0}, nested_six[] = {6, 2, 0};
  ptc_value_t *operands[3];
  int32_t count = 1;
  const char *attrs = "";
  switch (row->opcode) {
    case PTC_OP_LIST_SLICE: {
      const int from = pick(c, 6);
      operands[0] = case_bundle(c, "ab", pick(c, 2) ? six : nested_six);
      attrs = format(c, "first=i:%d count=i:%d", from, 1 + pick(c, 6 - from));
      break;
    }
    case PTC_OP_LIST_CONCAT:
      count = 1 + pick(c, 3);
      for (int i = 0; i < count; i++) {
        const int64_t own[] = {1 + pick(c, 3), two[1], 0};
        operands[i] = case_bundle(c, "ab", own);
      }
      if (pick(c, 3) == 0) operands[count - 1] = operands[0];
      break;
    case PTC_OP_LIST_GROUP:
      operands[0] = case_bundle(c, "ab", pick(c, 2) ? six : nested_six);
      attrs = format(c, "outer=i:%d", 1 + pick(c, 3));
      break;
    default: operands[0] = case_bundle(c, "ab", two);
  }
  const ptc_op_t *op = case_op(c, row->opcode, operands, count, 1, attrs);
  if (op) case_use(c, op->results[0]);
  if (pick(c, 2)) case_use(c, operands[0]);  // two gradients of one bundle
}

// Carries x through: c' = c * w + k.
static void make_repeat(grad_case_t *c, const row_t *row) {
  (void)row;
  const int64_t counts[] = {1 + pick(c, 4), 0};
  ptc_value_t *k = case_param(c, "b", -1, 1), *init = case_param(c, "ab", -1, 1);
  ptc_value_t *w = case_bundle(c, "a", counts);
  ptc_op_t *repeat = ptc_build_repeat_begin(&c->b, counts[0], pick(c, 2), &init, 1, &w, 1);
  ptc_value_t *const *args = repeat->body->args;
  ptc_builder_t b = ptc_builder_at_end(c->module, repeat->body);
  ptc_value_t *scaled = ptc_build_binary(&b, PTC_OP_MUL, args[1], args[2]);
  ptc_value_t *yields[] = {ptc_build_binary(&b, PTC_OP_ADD, scaled, k), scaled};
  ptc_build_repeat_end(c->module, repeat, yields, 2);
  case_use(c, repeat->results[0]);
  if (pick(c, 2)) case_use(c, repeat->results[1]);
}

static const row_t rows[] = {
    {PTC_OP_CONSTANT, make_constant, 0, 0, NULL},
    {PTC_OP_NEG, make_unary, -1, 1, NULL},
    {PTC_OP_EXP, make_unary, -1, 1, NULL},
    {PTC_OP_LOG, make_unary, 0.5, 2, NULL},
    {PTC_OP_SIN, make_unary, -2, 2, NULL},
    {PTC_OP_COS, make_unary, -2, 2, NULL},
    {PTC_OP_TANH, make_unary, -2, 2, NULL},
    {PTC_OP_SQRT, make_unary, 0.5, 2, NULL},
    {PTC_OP_RSQRT, make_unary, 0.5, 2, NULL},
    {PTC_OP_ERF, make_unary, -2, 2, NULL},
    {PTC_OP_ABS, make_unary, -1, 1, NULL},
    {PTC_OP_SIGN, make_unary, -1, 1, NULL},
    {PTC_OP_FLOOR, make_unary, -3, 3, NULL},
    {PTC_OP_CEIL, make_unary, -3, 3, NULL},
    {PTC_OP_RELU, make_unary, -1, 1, NULL},
    {PTC_OP_SIGMOID, make_unary, -3, 3, NULL},
    {PTC_OP_SILU, make_unary, -3, 3, NULL},
    {PTC_OP_GELU, make_unary, -3, 3, NULL},
    {PTC_OP_GELU, make_unary, -3, 3, "approx=s:tanh"},
    {PTC_OP_SOFTPLUS, make_unary, -3, 3, NULL},
    {PTC_OP_CAST, make_unary, -1, 1, "to=s:bf16"},
    {PTC_OP_CAST, make_unary, -1, 1, "to=s:f64"},
    {PTC_OP_ADD, make_binary, -1, 1, NULL},
    {PTC_OP_SUB, make_binary, -1, 1, NULL},
    {PTC_OP_MUL, make_binary, -1, 1, NULL},
    {PTC_OP_DIV, make_binary, 0.5, 2, NULL},
    {PTC_OP_MOD, make_binary, 1.5, 1.98, NULL},
    {PTC_OP_POW, make_binary, 0.5, 2, NULL},
    {PTC_OP_MIN, make_binary, -1, 1, NULL},
    {PTC_OP_MAX, make_binary, -1, 1, NULL},
    {PTC_OP_WHERE, make_where, -1, 1, NULL},
    {PTC_OP_DROPOUT, make_dropout, -1, 1, NULL},
    {PTC_OP_BROADCAST, make_broadcast, -1, 1, NULL},
    {PTC_OP_TRANSPOSE, make_transpose, -1, 1, NULL},
    {PTC_OP_RENAME, make_rename, -1, 1, NULL},
    {PTC_OP_SPLIT, make_split, -1, 1, NULL},
    {PTC_OP_MERGE, make_merge, -1, 1, NULL},
    {PTC_OP_CONCAT, make_concat, -1, 1, NULL},
    {PTC_OP_WINDOW, make_window, -1, 1, NULL},
    {PTC_OP_WINDOW_ADD, make_window_add, -1, 1, NULL},
    {PTC_OP_GATHER, make_gather, -1, 1, NULL},
    {PTC_OP_SCATTER_ADD, make_scatter_add, -1, 1, NULL},
    {PTC_OP_REDUCE_SUM, make_over, -1, 1, NULL},
    {PTC_OP_REDUCE_MAX, make_over, -1, 1, NULL},
    {PTC_OP_EINSUM, make_einsum, -1, 1, NULL},
    {PTC_OP_CUMSUM, make_scan, -1, 1, NULL},
    {PTC_OP_CUMMAX, make_scan, -1, 1, NULL},
    {PTC_OP_SOFTMAX, make_over, -2, 2, NULL},
    {PTC_OP_LAYERNORM, make_over, -2, 2, "eps=f:0.01"},
    {PTC_OP_RMSNORM, make_over, -2, 2, "eps=f:0.01"},
    {PTC_OP_CROSS_ENTROPY, make_cross_entropy, -2, 2, NULL},
    {PTC_OP_ATTENTION, make_attention, -1, 1, NULL},
    {PTC_OP_ROPE, make_rope, -1, 1, NULL},
    {PTC_OP_TOPK, make_topk, -1, 1, NULL},
    {PTC_OP_LIST_SLICE, make_list, -1, 1, NULL},
    {PTC_OP_LIST_CONCAT, make_list, -1, 1, NULL},
    {PTC_OP_LIST_GROUP, make_list, -1, 1, NULL},
    {PTC_OP_LIST_UNGROUP, make_list, -1, 1, NULL},
    {PTC_OP_REPEAT, make_repeat, -1, 1, NULL},
};
enum { NUM_ROWS = sizeof(rows) / sizeof(rows[0]) };

static void run_row(const row_t *row, uint64_t *random) {
  const char *name = ptc_op_info(row->opcode)->mnemonic;
  for (int trial = 0; trial < TRIALS; trial++) {
    const uint64_t start = *random;
    grad_case_t c;
    case_init(&c, random);
    row->make(&c, row);
    const double error = case_differentiate(&c) ? case_error(&c) : INFINITY;
    if (!(error <= TOLERANCE))
      printf("\n    %s: error %g (trial %d, state %#llx)\n", name, error, trial,
             (unsigned long long)start);
    UNIT_CHECK(error <= TOLERANCE, name);
    case_deinit(&c);
  }
}

static void every_op(void) {
  uint64_t random = unit_seed();
  for (int op = 0; op < PTC_NUM_OPS; op++) {
    const ptc_op_info_t *info = ptc_op_info((ptc_opcode_t)op);
    int cases = 0;
    for (int i = 0; i < NUM_ROWS; i++) {
      if (rows[i].opcode != (ptc_opcode_t)op) continue;
      run_row(&rows[i], &random);
      cases++;
    }
    UNIT_CHECK((cases > 0) == !(info->traits & PTC_TRAIT_NODIFF), info->mnemonic);
  }
}

static const unit_test_t tests[] = {{"every op against finite differences", every_op}};
UNIT_MAIN("grad", tests)
