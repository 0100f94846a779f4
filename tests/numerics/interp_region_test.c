// Proves: repeat (order, carried values, bundles, captures, nesting), the micro axis with padding,
// new versions of state, and liveness (values used late, twice, never) on the interpreter.
#include <math.h>

#include "tests/support/interp_case.h"
#include "tests/support/unit.h"

static interp_case_t *run(const char *text, const char *path, const double *data, int64_t count) {
  interp_case_t *c = interp_case_open(text, PTC_INTERP_EXACT);
  CU_ASSERT_PTR_NOT_NULL_FATAL(c);
  if (path) interp_case_set(c, path, data, count);
  CU_ASSERT_EQUAL(ptc_interp_run(c->interp, "f"), PTC_OK);
  return c;
}

static void check(interp_case_t *c, int32_t result, const double *expected, int64_t count) {
  CU_ASSERT_EQUAL_FATAL(interp_case_result_count(c, result), count);
  for (int64_t i = 0; i < count; i++) {
    double value = interp_case_result(c, result)[i];
    bool near = interp_near(value, expected[i], 1e-14);
    CU_ASSERT(near);
    if (!near)
      printf("\n    result %d, number %d: %.17g, not %.17g", (int)result, (int)i, value,
             expected[i]);
  }
}
#define CHECK(c, result, ...)                         \
  check((c), (result), (const double[]){__VA_ARGS__}, \
        (int64_t)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))

// c' = c * w[r] + r, collecting c before the turn; instance r belongs to turn r in both directions.
static const char *const recurrence =
    "module \"t\"\nparam @\"w.*\" turns (0:1) : 3 x f64[]\ninput @c : f64[]\n"
    "func @f(%%w = @\"w.*\" (0:1), %%c = @c) {\n"
    "  %%1, %%2 = repeat {count = 3%s} index %%i carry(%%x = %%c) each(%%u = %%w) {\n"
    "    %%3 = mul %%x, %%u : f64[]\n    %%4 = cast %%i {to = \"f64\"} : f64[]\n"
    "    %%5 = add %%3, %%4 : f64[]\n    yield carry(%%5) collect(%%x)\n"
    "  } : f64[], 3 x f64[]\n  return output \"a\" = %%1, output \"b\" = %%2\n}\n";

static void test_directions(void) {
  for (int reverse = 0; reverse < 2; reverse++) {
    char text[1024];
    snprintf(text, sizeof(text), recurrence, reverse ? ", reverse = true" : "");
    interp_case_t *c = run(text, "w.*", (double[]){2, 3, 5}, 3);
    interp_case_set(c, "c", (double[]){1}, 1);
    CU_ASSERT_EQUAL(ptc_interp_run(c->interp, "f"), PTC_OK);
    if (reverse) {  // 1 -> 5 + 2 = 7 -> 21 + 1 = 22 -> 44
      CHECK(c, 0, 44);
      CHECK(c, 1, 22, 7, 1);
    } else {  // 1 -> 2 -> 6 + 1 = 7 -> 35 + 2 = 37
      CHECK(c, 0, 37);
      CHECK(c, 1, 1, 2, 7);
    }
    interp_case_close(c);
  }
}

// Two carried values change places each turn.
static void test_swap(void) {
  interp_case_t *c =
      run("module \"t\"\ninput @x : f64[a=2]\nfunc @f(%x = @x) {\n  %0 = neg %x : f64[a=2]\n"
          "  %1, %2 = repeat {count = 3} index %i carry(%p = %x, %q = %0) {\n"
          "    yield carry(%q, %p)\n  } : f64[a=2], f64[a=2]\n"
          "  return output \"a\" = %1, output \"b\" = %2, output \"x\" = %x\n}\n",
          "x", (double[]){1, 2}, 2);
  CHECK(c, 0, -1, -2);
  CHECK(c, 1, 1, 2);
  CHECK(c, 2, 1, 2);
  interp_case_close(c);
}

// Bundles of two counts through nested repeats; a value of the function used within both.
static void test_nesting(void) {
  interp_case_t *c = run(
      "module \"t\"\nparam @\"w.*.*\" turns (0:1, 0:1) : 2 x 3 x f64[a=2]\ninput @k : f64[]\n"
      "func @f(%w = @\"w.*.*\" (0:1, 0:1), %k = @k) {\n"
      "  %s = constant {value = 0.5} : f64[]\n  %z = constant {value = 0.0} : f64[]\n"
      "  %z2 = broadcast %z {dims = [a], extents = [2]} : f64[a=2]\n"
      "  %1, %2 = repeat {count = 2} index %i carry(%x = %z2) each(%row = %w) {\n"
      "    %3, %4 = repeat {count = 3, reverse = true} index %j carry(%y = %x) each(%u = %row) {\n"
      "      %5 = mul %u, %s : f64[a=2]\n      %6 = add %y, %5 : f64[a=2]\n"
      "      yield carry(%6) collect(%5)\n    } : f64[a=2], 3 x f64[a=2]\n"
      "    yield carry(%3) collect(%4)\n  } : f64[a=2], 2 x 3 x f64[a=2]\n"
      "  return output \"a\" = %1, output \"b\" = %2, output \"s\" = %s\n}\n",
      "w.*.*", (double[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 12);
  CHECK(c, 0, 18, 21);
  CHECK(c, 1, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6);
  CHECK(c, 2, 0.5);
  interp_case_close(c);
}

// The new version of a state replaces the old one, also where two states change places; results
// stay what they were while globals are written.
static void test_state(void) {
  interp_case_t *c =
      run("module \"t\"\nparam @p : f64[]\nparam @q : f64[]\ncounter @n : i64[] {value = 7}\n"
          "func @f(%p = @p, %q = @q, %n = @n) {\n  %1 = constant {value = 1.0} : i64[]\n"
          "  %2 = add %n, %1 : i64[]\n"
          "  return output \"old\" = %p, state @p = %q, state @q = %p, state @n = %2\n}\n",
          "p", (double[]){3}, 1);
  CU_ASSERT_EQUAL(interp_case_global(c, "q")[0], 3);
  CU_ASSERT_EQUAL(interp_case_global(c, "p")[0], 0);
  CU_ASSERT_EQUAL(interp_case_global(c, "n")[0], 8);
  interp_case_global(c, "p")[0] = 100;
  CHECK(c, 0, 3);
  CHECK(c, 1, 0);
  CU_ASSERT_EQUAL(ptc_interp_run(c->interp, "f"), PTC_OK);
  CHECK(c, 0, 100);
  CU_ASSERT_EQUAL(interp_case_global(c, "n")[0], 9);
  interp_case_close(c);
}

// b = 5 over two turns of micro: shards of 3 and 2, one place of padding. Sums, products, maxima,
// squares, scattered sums and the mean over b come out as without the axis.
static void test_micro(void) {
  const double x[10] = {-1, -2, -3, -4, -5, -6, -7, -8, -9, -10};
  interp_case_t *c = run(
      "module \"t\"\nmesh [\"micro\"=2]\ninput @x : f64[b=5, d=2]\n"
      "func @f(%x = @x) {\n  %z = constant {value = 0.0} : f64[]\n"
      "  %zd = broadcast %z {dims = [d], extents = [2]} : f64[d=2]\n"
      "  %0 = constant {value = 0} : i64[]\n"
      "  %zl = broadcast %0 {dims = [square_limb], extents = [20]} : i64[square_limb=20]\n"
      "  %ze = broadcast %z {dims = [d, e], extents = [2, 2]} : f64[d=2, e=2]\n"
      "  %1, %2, %q, %v, %3 = repeat {axis = \"micro\", count = 2} index %i "
      "carry(%s = %zd, %p = %ze, %n = %zl, %w = %zd) {\n"
      "    %xs = shard %x {axis = \"micro\", dim = b} : f64[b=5 \"micro\", d=2]\n"
      "    %y = exp %xs : f64[b=5 \"micro\", d=2]\n"
      "    %4 = reduce_sum %y {over = [b]} : f64[d=2] partial \"micro\"\n"
      "    %xe = rename %xs {from = [d], to = [e]} : f64[b=5 \"micro\", e=2]\n"
      "    %5 = einsum %y, %xe {over = [b]} : f64[d=2, e=2] partial \"micro\"\n"
      "    %k = iota {dim = b} : i32[b=5 \"micro\"]\n"
      "    %two = constant {value = 2.0} : i32[]\n"
      "    %m = mod %k, %two : i32[b=5 \"micro\"]\n"
      "    %6 = square_sum %y : i64[square_limb=20] partial \"micro\"\n"
      "    %7 = scatter_add %y, %m {dims = [g], extents = [2], result = [g]} : "
      "f64[g=2] partial \"micro\"\n"
      "    %8 = rename %7 {from = [g], to = [d]} : f64[d=2] partial \"micro\"\n"
      "    %s2 = accumulate %s, %4 {axis = \"micro\"} : f64[d=2]\n"
      "    %p2 = accumulate %p, %5 {axis = \"micro\"} : f64[d=2, e=2]\n"
      "    %n2 = accumulate %n, %6 {axis = \"micro\"} : i64[square_limb=20]\n"
      "    %w2 = accumulate %w, %8 {axis = \"micro\"} : f64[d=2]\n"
      "    yield carry(%s2, %p2, %n2, %w2) collect(%y)\n"
      "  } : f64[d=2], f64[d=2, e=2], i64[square_limb=20], f64[d=2], 2 x f64[b=5 \"micro\", d=2]\n"
      "  %9 = unshard %3 {axis = \"micro\", dim = b} : f64[b=5, d=2]\n"
      "  %nv = limbs_value %q : f64[]\n"
      "  return output \"s\" = %1, output \"p\" = %2, output \"n\" = %nv, output \"w\" = %v, "
      "output \"y\" = %9\n}\n",
      "x", x, 10);
  double sum[2] = {0}, product[4] = {0}, squares = 0, parity[2] = {0}, y[10];
  for (int b = 0; b < 5; b++)
    for (int d = 0; d < 2; d++) {
      double e = y[2 * b + d] = exp(x[2 * b + d]);
      sum[d] += e;
      squares += e * e;
      parity[b % 2] += e;
      for (int k = 0; k < 2; k++) product[2 * d + k] += e * x[2 * b + k];
    }
  check(c, 0, sum, 2);
  check(c, 1, product, 4);
  check(c, 2, &squares, 1);
  check(c, 3, parity, 2);
  check(c, 4, y, 10);
  interp_case_close(c);
}

// A maximum over a padded dim does not see the padding (which is zero, above all values).
static void test_padded_max(void) {
  interp_case_t *c =
      run("module \"t\"\nmesh [\"micro\"=2]\ninput @x : f64[b=3]\nfunc @f(%x = @x) {\n"
          "  %1 = repeat {axis = \"micro\", count = 2} index %i {\n"
          "    %2 = shard %x {axis = \"micro\", dim = b} : f64[b=3 \"micro\"]\n"
          "    %3 = broadcast %2 {dims = [b, c], extents = [3, 2]} : f64[b=3 \"micro\", c=2]\n"
          "    %4 = merge %3 {dims = [c], into = d} : f64[b=3 \"micro\", d=2]\n"
          "    %5 = reduce_max %4 {over = [d]} : f64[b=3 \"micro\"]\n"
          "    yield collect(%5)\n  } : 2 x f64[b=3 \"micro\"]\n"
          "  %6 = unshard %1 {axis = \"micro\", dim = b} : f64[b=3]\n"
          "  return output \"y\" = %6\n}\n",
          "x", (double[]){-1, -2, -3}, 3);
  CHECK(c, 0, -1, -2, -3);
  interp_case_close(c);
}

// An error inside a body ends the run with its location; the interpreter can run again.
static void test_error_in_body(void) {
  interp_case_t *c = interp_case_open(
      "module \"t\"\ninput @x : f64[v=2]\ninput @n : i32[]\nfunc @f(%x = @x, %n = @n) {\n"
      "  %1 = repeat {count = 3} index %i carry(%s = %n) {\n"
      "    %2 = gather %x, %i {dims = [v]} : f64[] loc(\"a.ptm\":7:2)\n"
      "    %3 = add %s, %i : i32[]\n    yield carry(%3)\n  } : i32[]\n"
      "  return output \"y\" = %1\n}\n",
      PTC_INTERP_EXACT);
  CU_ASSERT_PTR_NOT_NULL_FATAL(c);
  CU_ASSERT_EQUAL(ptc_interp_run(c->interp, "f"), PTC_INVALID_INPUT);
  CU_ASSERT_STRING_EQUAL(interp_case_id(c), "gather-range");
  CU_ASSERT_EQUAL(c->diag.items[0].loc.line, 7);
  CU_ASSERT_EQUAL(ptc_interp_run(c->interp, "f"), PTC_INVALID_INPUT);
  interp_case_close(c);
}

static const unit_test_t tests[] = {
    {"directions", test_directions},
    {"swap", test_swap},
    {"nesting", test_nesting},
    {"state", test_state},
    {"micro", test_micro},
    {"padded max", test_padded_max},
    {"error in a body", test_error_in_body},
};
UNIT_MAIN("interp_region", tests)
