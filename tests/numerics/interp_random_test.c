// Proves: Philox gives the published numbers; streams, distributions and dropout are those of
// DESIGN.md section 10; the normal quantile is accurate; layout does not change random numbers.
#include <math.h>

#include "ir/interp_impl.h"
#include "tests/support/interp_case.h"
#include "tests/support/unit.h"

// Known answers of Random123 (kat_vectors, philox4x32 10): counter words, key words, result.
static void test_philox(void) {
  static const struct {
    uint32_t counter[4], key[2], expected[4];
  } rows[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    uint32_t words[4];
    memcpy(words, rows[i].counter, sizeof(words));
    ptc_philox_block(words, rows[i].key[0], rows[i].key[1]);
    for (int lane = 0; lane < 4; lane++) CU_ASSERT_EQUAL(words[lane], rows[i].expected[lane]);
  }
}

// Words of the counter: element / 4 low, high, step, path; the lane is element % 4.
static void test_counter(void) {
  const uint64_t element = 0x123456789abcdef2u, seed = 0xfedcba9876543210u;
  uint32_t words[4] = {(uint32_t)(element >> 2), (uint32_t)(element >> 34), 17, 99};
  ptc_philox_block(words, 0x76543210u, 0xfedcba98u);
  CU_ASSERT_EQUAL(ptc_philox(seed, element, 17, 99), words[2]);
}

// The published CRC-32 of "123456789"; stars take turns from left to right.
static void test_path_hash(void) {
  CU_ASSERT_EQUAL(ptc_path_hash("123456789", NULL, 0), 0xcbf43926u);
  CU_ASSERT_EQUAL(ptc_path_hash("1*345*789", (const int64_t[]){2, 6}, 2), 0xcbf43926u);
  CU_ASSERT_EQUAL(ptc_path_hash("block.*.w", (const int64_t[]){12}, 1),
                  ptc_path_hash("block.12.w", NULL, 0));
}

// Values with 17 digits from tables of arbitrary precision (mpmath).
static void test_quantile(void) {
  static const struct {
    double p, z;
  } rows[] = {
#include "tests/numerics/normal_quantile.def"
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    double z = ptc_normal_quantile(rows[i].p);
    CU_ASSERT(fabs(z - rows[i].z) <= 1e-15 * fabs(rows[i].z));
  }
  CU_ASSERT_EQUAL(ptc_normal_quantile(0.5), 0);
}

// A function @f that draws f64[a, b] or i32[a, b] by "dist"; the path has one star.
static interp_case_t *draw_case(const char *dist, double a, double b, const char *type) {
  ptc_str_t text = {0};
  ptc_str_printf(&text,
                 "module \"t\"\nsetting @seed : i64[] {value = 77}\ncounter @step : i64[] {value = "
                 "5}\ninput @turn : i32[]\nfunc @f(%%s = @seed, %%t = @step, %%i = @turn) {\n"
                 "  %%0 = random %%s, %%t, %%i {dist = \"%s\", a = %.17g, b = %.17g, "
                 "path = \"block.*.w\"} : %s\n  return output \"y\" = %%0\n}\n",
                 dist, a, b, type);
  interp_case_t *c = interp_case_open(text.data, PTC_INTERP_EXACT);
  ptc_str_deinit(&text);
  if (!c) return NULL;
  interp_case_set(c, "turn", (double[]){3}, 1);
  CU_ASSERT_EQUAL(ptc_interp_run(c->interp, "f"), PTC_OK);
  return c;
}

static uint32_t word(uint64_t element) {
  return ptc_philox(77, element, 5, ptc_path_hash("block.3.w", NULL, 0));
}

static void test_distributions(void) {
  interp_case_t *c = draw_case("uniform", -1, 3, "f64[a=5, b=3]");
  for (uint64_t i = 0; i < 15; i++)
    CU_ASSERT_EQUAL(interp_case_result(c, 0)[i], -1 + (word(i) >> 8) * 0x1p-24 * 4);
  interp_case_close(c);

  c = draw_case("uniform", 0, 10, "i32[a=5, b=3]");
  for (uint64_t i = 0; i < 15; i++)
    CU_ASSERT_EQUAL(interp_case_result(c, 0)[i], floor((word(i) >> 8) * 0x1p-24 * 10));
  interp_case_close(c);

  c = draw_case("normal", 2, 1, "f64[a=5, b=3]");
  for (uint64_t i = 0; i < 15; i++) {
    double u1 = (word(i - i % 2) + 1.0) * 0x1p-32, u2 = word(i - i % 2 + 1) * 0x1p-32;
    double angle = 2 * 3.14159265358979323846 * u2, radius = sqrt(-2 * log(u1));
    CU_ASSERT_EQUAL(interp_case_result(c, 0)[i],
                    1 + 2 * (radius * (i % 2 ? sin(angle) : cos(angle))));
  }
  interp_case_close(c);

  c = draw_case("truncated_normal", 2, 1, "f64[a=5, b=3]");
  double low = 0.5 * erfc(sqrt(2)), high = 1 - low;
  for (uint64_t i = 0; i < 15; i++) {
    double z = (interp_case_result(c, 0)[i] - 1) / 2, u = (word(i) + 0.5) * 0x1p-32;
    CU_ASSERT(fabs(z) <= 2);
    CU_ASSERT(fabs(0.5 * erfc(-z / sqrt(2)) - (low + u * (high - low))) < 1e-15);
  }
  interp_case_close(c);
}

static void test_moments(void) {
  static const struct {
    const char *dist;
    double variance;
  } rows[] = {{"normal", 1}, {"truncated_normal", 0.7737412}};
  for (int i = 0; i < 2; i++) {
    interp_case_t *c = draw_case(rows[i].dist, 1, 0, "f64[a=100, b=400]");
    double sum = 0, squares = 0;
    for (int k = 0; k < 40000; k++) {
      double z = interp_case_result(c, 0)[k];
      sum += z;
      squares += z * z;
    }
    CU_ASSERT(fabs(sum / 40000) < 0.02);
    CU_ASSERT(fabs(squares / 40000 - rows[i].variance) < 0.03);
    interp_case_close(c);
  }
}

static void test_dropout(void) {
  interp_case_t *c = interp_case_open(
      "module \"t\"\ninput @x : f64[a=40, b=3]\nsetting @seed : i64[] {value = -1}\n"
      "counter @step : i64[] {value = 4294967296}\n"
      "func @f(%x = @x, %s = @seed, %t = @step) {\n"
      "  %0 = dropout %x, %s, %t {p = 0.25, path = \"d\"} : f64[a=40, b=3]\n"
      "  return output \"y\" = %0\n}\n",
      PTC_INTERP_EXACT);
  double x[120];
  int kept = 0;
  for (int i = 0; i < 120; i++) x[i] = i + 1;
  interp_case_set(c, "x", x, 120);
  CU_ASSERT_EQUAL(ptc_interp_run(c->interp, "f"), PTC_OK);
  for (uint64_t i = 0; i < 120; i++) {
    bool keep = (ptc_philox(UINT64_MAX, i, 0, ptc_path_hash("d", NULL, 0)) >> 8) * 0x1p-24 >= 0.25;
    kept += keep;
    CU_ASSERT_EQUAL(interp_case_result(c, 0)[i], keep ? x[i] / 0.75 : 0);
  }
  CU_ASSERT(kept > 70 && kept < 110);
  interp_case_close(c);
}

// Each turn of a repeat over `micro` draws its part of what a whole draw gives; positions count on.
static void test_shards_draw_parts(void) {
  interp_case_t *c = interp_case_open(
      "module \"t\"\nmesh [\"micro\"=2]\nsetting @seed : i64[] {value = 9}\n"
      "counter @step : i64[] {value = 1}\nfunc @f(%s = @seed, %t = @step) {\n"
      "  %0 = random %s, %t {dist = \"normal\", a = 1.0, b = 0.0, path = \"x\"} : f64[a=2, b=5]\n"
      "  %1, %2 = repeat {axis = \"micro\", count = 2} index %i {\n"
      "    %3 = random %s, %t {dist = \"normal\", a = 1.0, b = 0.0, path = \"x\"} : "
      "f64[a=2, b=5 \"micro\"]\n"
      "    %4 = iota {dim = b} : i32[b=5 \"micro\"]\n"
      "    yield collect(%3, %4)\n  } : 2 x f64[a=2, b=5 \"micro\"], 2 x i32[b=5 \"micro\"]\n"
      "  %5 = unshard %1 {dim = b, axis = \"micro\"} : f64[a=2, b=5]\n"
      "  %6 = unshard %2 {dim = b, axis = \"micro\"} : i32[b=5]\n"
      "  return output \"a\" = %0, output \"b\" = %5, output \"c\" = %6\n}\n",
      PTC_INTERP_EXACT);
  CU_ASSERT_PTR_NOT_NULL_FATAL(c);
  CU_ASSERT_EQUAL(ptc_interp_run(c->interp, "f"), PTC_OK);
  for (int i = 0; i < 10; i++)
    CU_ASSERT_EQUAL(interp_case_result(c, 0)[i], interp_case_result(c, 1)[i]);
  for (int i = 0; i < 5; i++) CU_ASSERT_EQUAL(interp_case_result(c, 2)[i], i);
  interp_case_close(c);
}

static const unit_test_t tests[] = {
    {"philox", test_philox},
    {"counter", test_counter},
    {"path hash", test_path_hash},
    {"quantile", test_quantile},
    {"distributions", test_distributions},
    {"moments", test_moments},
    {"dropout", test_dropout},
    {"shards", test_shards_draw_parts},
};
UNIT_MAIN("interp_random", tests)
