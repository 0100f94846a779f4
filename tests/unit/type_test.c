// Proves: dtypes round as their formats do, types print and compare, and the map from global to
// local indices covers every element once.
#include "ir/type.h"

#include <math.h>

#include "tests/support/op_maker.h"
#include "tests/support/unit.h"

static void test_rounding(void) {
  static const struct {
    ptc_dtype_t dtype;
    double value, rounded;
  } rows[] = {
      {PTC_BOOL, 0.25, 1},
      {PTC_BOOL, 0, 0},
      {PTC_I32, -2.75, -2},
      {PTC_I32, 3e9, 2147483647},
      {PTC_I32, -INFINITY, -2147483648.0},
      {PTC_I32, NAN, 0},
      {PTC_I64, 4294967295.5, 4294967295.0},
      // f16: 11 significand bits, ties to even, least subnormal 2^-24, largest 65504.
      {PTC_F16, 1 + 0x1p-11, 1},
      {PTC_F16, 1 + 3 * 0x1p-11, 1 + 2 * 0x1p-10},
      {PTC_F16, 65504, 65504},
      {PTC_F16, 65519.99, 65504},
      {PTC_F16, 65520, INFINITY},
      {PTC_F16, -65520, -INFINITY},
      {PTC_F16, 0x1p-24, 0x1p-24},
      {PTC_F16, 0x1p-25, 0},
      {PTC_F16, 1.5 * 0x1p-24, 0x1p-23},
      // bf16: 8 significand bits, the exponents of f32.
      {PTC_BF16, 1 + 0x1p-8, 1},
      {PTC_BF16, 1 + 3 * 0x1p-8, 1 + 0x1p-6},
      {PTC_BF16, 0x1.fep127, 0x1.fep127},
      {PTC_BF16, 0x1.ffp127, INFINITY},
      {PTC_BF16, 0x1p-133, 0x1p-133},
      {PTC_BF16, 0x1p-134, 0},
      {PTC_F32, 0.1, (double)0.1f},
      {PTC_F32, 1e300, INFINITY},
      {PTC_F64, 0.1, 0.1},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    char row[64];
    snprintf(row, sizeof(row), "%s of %a", ptc_dtype_name(rows[i].dtype), rows[i].value);
    UNIT_CHECK(ptc_dtype_round(rows[i].dtype, rows[i].value) == rows[i].rounded, row);
  }
  CU_ASSERT(isnan(ptc_dtype_round(PTC_F16, NAN)));
  for (int i = 0; i < PTC_NUM_DTYPES; i++) {
    ptc_dtype_t dtype;
    CU_ASSERT(ptc_dtype_parse(ptc_dtype_name((ptc_dtype_t)i), &dtype) && (int)dtype == i);
  }
  ptc_dtype_t dtype;
  CU_ASSERT(!ptc_dtype_parse("f31", &dtype));
}

// Rounding is idempotent, monotone and never farther than the neighbouring value.
static void test_random_rounding(void) {
  static const ptc_dtype_t formats[] = {PTC_F16, PTC_BF16, PTC_F32};
  uint64_t state = unit_seed();
  int wrong = 0;
  for (int i = 0; i < 30000; i++) {
    ptc_dtype_t dtype = formats[i % 3];
    double a = ldexp((double)(int64_t)unit_random(&state), (int)(unit_random(&state) % 60) - 95);
    double b = a * (1 + ldexp(1, -(int)(unit_random(&state) % 30)));
    double ra = ptc_dtype_round(dtype, a), rb = ptc_dtype_round(dtype, b);
    wrong += ptc_dtype_round(dtype, ra) != ra;
    wrong += a < b ? ra > rb : ra < rb;
    wrong += ptc_dtype_round(dtype, -a) != -ra;
  }
  CU_ASSERT_EQUAL(wrong, 0);
}

static void test_print(void) {
  static const char *const rows[][2] = {
      {"f32[]", "f32[]"},
      {"12 x 3 x bf16[d=64, h=4]", "12 x 3 x bf16[d=64, h=4]"},
      {"f32[d=8, f=32 'tp', s=64 'cp' zigzag] partial 'micro'",
       "f32[d=8, f=32 \"tp\", s=64 \"cp\" zigzag] partial \"micro\""},
      {"i64[n=4 'tp':1:2 'cp'] partial max 'micro' 'tp':2:4",
       "i64[n=4 \"tp\":1:2 \"cp\"] partial max \"micro\" \"tp\":2:4"},
  };
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = maker_module(&diag);
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    ptc_str_t text = {0};
    const ptc_type_t *type = maker_type(module, rows[i][0]);
    ptc_type_print(&text, type);
    UNIT_CHECK(strcmp(text.data, rows[i][1]) == 0, rows[i][1]);
    for (size_t j = 0; j < sizeof(rows) / sizeof(rows[0]); j++)
      UNIT_CHECK(ptc_type_equal(type, maker_type(module, rows[j][0])) == (i == j), rows[i][1]);
    ptc_str_deinit(&text);
  }
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

// Types that differ in one respect are different.
static void test_equal(void) {
  static const char *const base = "2 x f32[a=4 'tp', b=3] partial 'cp'";
  static const char *const others[] = {"3 x f32[a=4 'tp', b=3] partial 'cp'",
                                       "f32[a=4 'tp', b=3] partial 'cp'",
                                       "2 x f64[a=4 'tp', b=3] partial 'cp'",
                                       "2 x f32[c=4 'tp', b=3] partial 'cp'",
                                       "2 x f32[a=5 'tp', b=3] partial 'cp'",
                                       "2 x f32[b=3, a=4 'tp'] partial 'cp'",
                                       "2 x f32[a=4 'tp':1:1, b=3] partial 'cp'",
                                       "2 x f32[a=4 'tp' zigzag, b=3] partial 'cp'",
                                       "2 x f32[a=4 'tp', b=3 'tp'] partial 'cp'",
                                       "2 x f32[a=4, b=3] partial 'cp'",
                                       "2 x f32[a=4 'tp', b=3] partial 'dp'",
                                       "2 x f32[a=4 'tp', b=3] partial max 'cp'",
                                       "2 x f32[a=4 'tp', b=3]",
                                       "2 x f32[a=4 'tp'] partial 'cp'"};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = maker_module(&diag);
  const ptc_type_t *type = maker_type(module, base);
  CU_ASSERT(ptc_type_equal(type, maker_type(module, base)));
  for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
    UNIT_CHECK(!ptc_type_equal(type, maker_type(module, others[i])), others[i]);
    UNIT_CHECK(!ptc_type_equal(maker_type(module, others[i]), type), others[i]);
  }
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

static void test_sizes(void) {
  static const struct {
    const char *type;
    int64_t elements, instances, bytes;
  } rows[] = {
      {"f32[]", 1, 1, 4},
      {"bf16[a=3, b=5]", 15, 1, 30},
      {"2 x 3 x f64[a=4]", 4, 6, 192},
      {"f32[a=0, b=9223372036854775807]", 0, 1, 0},
      {"f32[a=4294967296, b=4294967296]", -1, 1, -1},
      {"f32[a=4611686018427387904]", 4611686018427387904, 1, -1},
      {"4294967296 x 4294967296 x f32[]", 1, -1, -1},
      {"f32[a=-1]", -1, 1, -1},
  };
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = maker_module(&diag);
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    const ptc_type_t *type = maker_type(module, rows[i].type);
    UNIT_CHECK(ptc_type_num_elements(type) == rows[i].elements, rows[i].type);
    UNIT_CHECK(ptc_type_num_instances(type) == rows[i].instances, rows[i].type);
    UNIT_CHECK(ptc_type_num_bytes(type) == rows[i].bytes, rows[i].type);
  }
  const ptc_type_t *type = maker_type(module, "f32[a=2]");
  const ptc_type_t *bundle = ptc_type_bundle(&module->arena, type, 7);
  CU_ASSERT(ptc_type_equal(bundle, maker_type(module, "7 x f32[a=2]")));
  CU_ASSERT(ptc_type_equal(ptc_type_instance(&module->arena, bundle), type));
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

// Every element of a dim lies on exactly one shard, for even and uneven extents and both
// distributions, over whole axes and parts of one.
static void test_shards(void) {
  static const struct {
    const char *type;  // of one dim
    int64_t shards, local;
  } rows[] = {
      {"f32[a=7]", 1, 7},
      {"f32[a=8 'micro']", 4, 2},
      {"f32[a=7 'micro']", 4, 2},
      {"f32[a=9 'micro' 'tp']", 8, 2},
      {"f32[a=9 'tp' 'micro']", 8, 2},
      {"f32[a=6 'micro':1:2]", 2, 3},
      {"f32[a=6 'micro':2:2]", 2, 3},
      {"f32[a=6 'micro':2:2 'micro':1:2]", 4, 2},
      {"f32[a=16 'micro' zigzag]", 4, 4},
      {"f32[a=13 'micro' zigzag]", 4, 4},
      {"f32[a=8 'none']", 1, 8},
  };
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = maker_module(&diag);
  const ptc_mesh_t *mesh = &module->mesh;
  for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
    const ptc_dim_t *dim = &maker_type(module, rows[r].type)->dims[0];
    CU_ASSERT_EQUAL(ptc_dim_num_shards(mesh, dim), rows[r].shards);
    CU_ASSERT_EQUAL(ptc_dim_local_extent(mesh, dim), rows[r].local);
    int seen[16] = {0}, shard_seen[16] = {0};
    for (int64_t shard = 0; shard < rows[r].shards; shard++)
      for (int64_t i = 0; i < rows[r].local; i++) {
        int64_t at = ptc_dim_global_index(mesh, dim, shard, i);
        if (at < dim->extent) seen[at]++;
      }
    for (int64_t i = 0; i < dim->extent; i++) UNIT_CHECK(seen[i] == 1, rows[r].type);
    // The 4 x 2 x 2 devices hold every shard equally often.
    for (int64_t device = 0; device < 16 && rows[r].shards > 1; device++) {
      int64_t coords[] = {device / 4, device / 2 % 2, device % 2};
      shard_seen[ptc_dim_shard_index(mesh, dim, coords)]++;
    }
    for (int64_t s = 0; s < rows[r].shards && rows[r].shards > 1; s++)
      UNIT_CHECK(shard_seen[s] == 16 / rows[r].shards, rows[r].type);
  }
  // Major and minor part of coordinate 2 = (1, 0) of an axis of size 4 = 2 x 2.
  const int64_t coords[] = {2, 0, 0};
  CU_ASSERT_EQUAL(
      ptc_dim_shard_index(mesh, &maker_type(module, "f32[a=6 'micro':1:2]")->dims[0], coords), 1);
  CU_ASSERT_EQUAL(
      ptc_dim_shard_index(mesh, &maker_type(module, "f32[a=6 'micro':2:2]")->dims[0], coords), 0);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

static const unit_test_t tests[] = {
    {"rounding", test_rounding}, {"random rounding", test_random_rounding},
    {"print", test_print},       {"equal", test_equal},
    {"sizes", test_sizes},       {"shards", test_shards}};
UNIT_MAIN("type", tests)
