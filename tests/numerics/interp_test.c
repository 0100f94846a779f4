// Proves: every op of the table means what ir/ops.def says, on values worked out by hand; results
// are rounded once to their dtypes; indices out of range are reported.
#include <math.h>

#include "ir/op.h"
#include "tests/support/interp_case.h"
#include "tests/support/unit.h"

#define NANV ((double)NAN)
#define INF ((double)INFINITY)
#define DATA(...) \
  (const double[]){__VA_ARGS__}, (int32_t)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double))
#define NONE NULL, 0

// |in| and |out|: the elements of all operands, of all results, one after the other.
typedef struct op_row_s {
  const char *op, *attrs, *operands;
  const double *in;
  int32_t num_in;
  const char *results;
  const double *out;
  int32_t num_out;
} op_row_t;

static const op_row_t op_rows[] = {
#include "tests/numerics/interp_rows.def"
};
enum { NUM_OP_ROWS = sizeof(op_rows) / sizeof(op_rows[0]) };

static void fill_inputs(interp_case_t *c, const double *data, int32_t count) {
  int32_t used = 0;
  for (int64_t g = 0; g < c->module->num_globals; g++) {
    ptc_tensor_t *tensor = ptc_interp_global(c->interp, c->module->globals[g]);
    for (int64_t i = 0; i < tensor->num_elements * tensor->num_instances && used < count; i++)
      tensor->data[i] = data[used++];
  }
  CU_ASSERT_EQUAL(used, count);
}

static void check_row(const op_row_t *row, ptc_interp_mode_t mode) {
  ptc_str_t text = {0};
  interp_case_one_op(&text, "", row->op, row->attrs, row->operands, row->results);
  interp_case_t *c = interp_case_open(text.data, mode);
  UNIT_CHECK(c != NULL, row->op);
  if (c) {
    fill_inputs(c, row->in, row->num_in);
    UNIT_CHECK(ptc_interp_run(c->interp, "f") == PTC_OK, row->op);
    int32_t used = 0;
    const ptc_func_t *f = ptc_module_find_func(c->module, "f");
    for (int32_t r = 0; c->diag.num_errors == 0 && r < f->num_results; r++) {
      const double *data = interp_case_result(c, r);
      for (int64_t i = 0; i < interp_case_result_count(c, r); i++, used++) {
        bool near = used < row->num_out && interp_near(data[i], row->out[used], 1e-14);
        UNIT_CHECK(near, row->op);
        if (!near)
          printf("\n    %s {%s} %s: number %d is %.17g, not %.17g", row->op, row->attrs,
                 row->operands, (int)used, data[i], used < row->num_out ? row->out[used] : 0);
      }
    }
    UNIT_CHECK(used == row->num_out, row->op);
  }
  interp_case_close(c);
  ptc_str_deinit(&text);
}

// The dtypes of all rows are such that both modes agree.
static void test_ops(void) {
  for (int i = 0; i < NUM_OP_ROWS; i++) {
    check_row(&op_rows[i], PTC_INTERP_EXACT);
    check_row(&op_rows[i], PTC_INTERP_TYPED);
  }
}

// A new op must get a row; control, attention, random ops and those of devices have tests of their own.
static void test_every_op_has_a_row(void) {
  static const ptc_opcode_t elsewhere[] = {
      PTC_OP_REPEAT,     PTC_OP_YIELD,          PTC_OP_RETURN,     PTC_OP_RANDOM,
      PTC_OP_SHARD,      PTC_OP_UNSHARD,        PTC_OP_DROPOUT,    PTC_OP_ACCUMULATE,
      PTC_OP_ATTENTION,  PTC_OP_ATTENTION_GRAD, PTC_OP_ALL_REDUCE, PTC_OP_REDUCE_SCATTER,
      PTC_OP_ALL_GATHER, PTC_OP_ALL_TO_ALL,     PTC_OP_AXIS_INDEX, PTC_OP_SEND,
      PTC_OP_RECV,       PTC_OP_RING_SHIFT,     PTC_OP_REORDER,
  };
  for (int op = 0; op < PTC_NUM_OPS; op++) {
    const char *name = ptc_op_info((ptc_opcode_t)op)->mnemonic;
    bool found = false;
    for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
      found |= elsewhere[i] == (ptc_opcode_t)op;
    for (int i = 0; i < NUM_OP_ROWS; i++) found |= strcmp(op_rows[i].op, name) == 0;
    UNIT_CHECK(found, name);
  }
}

// --- rounding

static void test_typed_rounding(void) {
  static const struct {
    const char *dtype;
    double x, y, typed;  // typed: round(round(x) + round(y))
  } rows[] = {
      {"f32", 1, 0x1p-25, 1},
      {"f32", 0.1, 0.2, (double)(float)((double)0.1f + (double)0.2f)},
      {"bf16", 1, 0x1p-9, 1},
      {"bf16", 1, 0x1p-8, 1},  // a tie goes to even
      {"bf16", 1, 0x1.8p-8, 1 + 0x1p-7},
      {"f16", 2048, 1, 2048},
      {"f16", 60000, 60000, INF},
      {"f16", 0x1p-24, 0x1p-26, 0x1p-24},
      {"f64", 0.1, 0.2, 0.1 + 0.2},
      {"i32", 2147483647, 1, 2147483647},
      {"i32", -2147483648.0, -5, -2147483648.0},
      {"i32", 2.75, -0.5, 2},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    char type[32];
    snprintf(type, sizeof(type), "%s[]; %s[]", rows[i].dtype, rows[i].dtype);
    ptc_str_t text = {0};
    interp_case_one_op(&text, "", "add", "", type, strchr(type, ';') + 2);
    interp_case_t *c = interp_case_open(text.data, PTC_INTERP_TYPED);
    fill_inputs(c, (double[]){rows[i].x, rows[i].y}, 2);
    UNIT_CHECK(ptc_interp_run(c->interp, "f") == PTC_OK, rows[i].dtype);
    UNIT_CHECK(interp_case_result(c, 0)[0] == rows[i].typed, rows[i].dtype);
    interp_case_close(c);
    ptc_str_deinit(&text);
  }
}

// Exact mode: floats of any dtype stay doubles, integers are still integers.
static void test_exact_mode(void) {
  const char *text =
      "module \"t\"\ninput @x : bf16[]\ninput @n : i32[]\n"
      "func @f(%x = @x, %n = @n) {\n  %0 = mul %x, %x : bf16[]\n  %1 = mul %n, %n : i32[]\n"
      "  %2 = cast %x {to = \"i32\"} : i32[]\n"
      "  return output \"a\" = %0, output \"b\" = %1, output \"c\" = %2\n}\n";
  interp_case_t *c = interp_case_open(text, PTC_INTERP_EXACT);
  interp_case_set(c, "x", (double[]){1.1}, 1);
  interp_case_set(c, "n", (double[]){70000.9}, 1);
  CU_ASSERT_EQUAL(ptc_interp_run(c->interp, "f"), PTC_OK);
  CU_ASSERT_EQUAL(interp_case_result(c, 0)[0], 1.1 * 1.1);
  CU_ASSERT_EQUAL(interp_case_result(c, 1)[0], 2147483647);
  CU_ASSERT_EQUAL(interp_case_result(c, 2)[0], 1);
  interp_case_close(c);
}

// A sum is rounded once: in f32 2^24 + 1 + 1 gives 2^24 + 2, not 2^24.
static void test_sums_round_once(void) {
  ptc_str_t text = {0};
  interp_case_one_op(&text, "", "reduce_sum", "over = [a]", "f32[a=3]", "f32[]");
  interp_case_t *c = interp_case_open(text.data, PTC_INTERP_TYPED);
  fill_inputs(c, (double[]){16777216, 1, 1}, 3);
  CU_ASSERT_EQUAL(ptc_interp_run(c->interp, "f"), PTC_OK);
  CU_ASSERT_EQUAL(interp_case_result(c, 0)[0], 16777218);
  interp_case_close(c);
  ptc_str_deinit(&text);
}

// --- errors

static void check_error(const char *text, double index, const char *id) {
  interp_case_t *c = interp_case_open(text, PTC_INTERP_TYPED);
  UNIT_CHECK(c != NULL, id);
  if (c) {
    interp_case_set(c, "i", &index, 1);
    UNIT_CHECK(ptc_interp_run(c->interp, "f") == PTC_INVALID_INPUT, id);
    UNIT_CHECK(strcmp(interp_case_id(c), id) == 0, id);
    UNIT_CHECK(c->diag.items[0].loc.line > 0 || strcmp(id, "unknown-function") == 0, id);
  }
  interp_case_close(c);
}

static void test_errors(void) {
  const char *gather =
      "module \"t\"\ninput @x : f64[v=3]\ninput @i : i32[]\nfunc @f(%x = @x, %i = @i) {\n"
      "  %0 = gather %x, %i {dims = [v]} : f64[] loc(\"a.ptm\":1:1)\n"
      "  return output \"y\" = %0\n}\n";
  check_error(gather, 3, "gather-range");
  check_error(gather, -1, "gather-range");
  const char *entropy =
      "module \"t\"\ninput @x : f64[v=3]\ninput @i : i32[]\nfunc @f(%x = @x, %i = @i) {\n"
      "  %0, %1 = cross_entropy %x, %i {dim = v} : f64[], f64[] loc(\"a.ptm\":1:1)\n"
      "  return output \"y\" = %0\n}\n";
  check_error(entropy, 3, "target-range");
  const char *range =
      "module \"t\"\ninput @i : i32[] {range = 5} loc(\"a.ptm\":1:1)\nfunc @f(%i = @i) {\n"
      "  return output \"y\" = %i\n}\n";
  check_error(range, 5, "input-range");
  check_error(range, -1, "input-range");
  check_error("module \"t\"\ninput @i : i32[]\nfunc @g(%i = @i) {\n  return\n}\n", 0,
              "unknown-function");
}

// Values too large to be worth an attempt, as results and as arguments.
static void test_size(void) {
  static const char *const texts[] = {
      "module \"t\"\nfunc @f() {\n  %0 = constant {value = 1.0} : f32[]\n"
      "  %1 = broadcast %0 {dims = [a, b], extents = [1000000, 1000000]} : "
      "f32[a=1000000, b=1000000]\n  return output \"y\" = %1\n}\n",
      "module \"t\"\nparam @\"w.*\" turns (0:1) : 1000000 x f32[a=1000000]\n"
      "func @f(%w = @\"w.*\" (0:1)) {\n  return\n}\n",
  };
  for (int i = 0; i < 2; i++) {
    interp_case_t *c = interp_case_open(texts[i], PTC_INTERP_TYPED);
    CU_ASSERT_PTR_NOT_NULL_FATAL(c);
    CU_ASSERT_EQUAL(ptc_interp_run(c->interp, "f"), PTC_UNSUPPORTED);
    CU_ASSERT_STRING_EQUAL(interp_case_id(c), "interp-size");
    interp_case_close(c);
  }
}

static const unit_test_t tests[] = {
    {"ops", test_ops},
    {"every op has a row", test_every_op_has_a_row},
    {"typed rounding", test_typed_rounding},
    {"exact mode", test_exact_mode},
    {"sums round once", test_sums_round_once},
    {"errors", test_errors},
    {"size", test_size},
};
UNIT_MAIN("interp", tests)
