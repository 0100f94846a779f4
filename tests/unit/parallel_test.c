// Proves: what a parallel block and --parallel say stands in the config, survives printing and parsing, and is read
// back; axes that do not give the world, and batches that do not divide over them, are refused.
#include "passes/parallel.h"

#include "frontend/driver/compile.h"
#include "ir/text.h"
#include "tests/support/unit.h"

static const char model_text[] =
    "model m(d = 8) {\n"
    "  dim d, e = d, b = batch\n"
    "  param w[d, e] ~ normal(0.1)\n"
    "  input x[b, d]\n"
    "  repeat 4 as i { layer l(x[b, d]) { param w[d, e] ~ normal(0.1)\n y[b, e] = x[b, d] * w[d, "
    "e]\n"
    "    z[b, d] = y[b, e] * w[d, e]\n return z }\n x = l(x) }\n"
    "  y[b, e] = x[b, d] * w[d, e]\n"
    "  loss = mean[b, e](y ^ 2)\n"
    "}\n"
    "train { batch = 12 }\n"
    "parallel { dp = 2 tp = 4 zero = 3 schedule = gpipe\n"
    "  shard l.*.w[d, e] on tp over e  shard w on tp over d  cut l.2 }\n";

static ptc_module_t *lower(ptc_diag_t *diag, const char *parallel, int64_t world) {
  const ptc_lower_options_t options = {.parallel = parallel, .world = world};
  ptc_module_t *module = NULL;
  if (ptc_compile_text(diag, "m.ptm", model_text, sizeof(model_text) - 1, &options, &module) !=
      PTC_OK)
    ptc_diag_print(diag, stderr, PTC_DIAG_TEXT, false);
  return module;
}

static void test_config(void) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module =
      lower(&diag, "tp=auto,cp=2,schedule=interleaved(chunks=3),sequence_parallel=on", 8);
  CU_ASSERT_PTR_NOT_NULL_FATAL(module);
  ptc_str_t text = {0};
  ptc_module_print(module, true, &text);
  ptc_module_t *again = NULL;
  CU_ASSERT_EQUAL_FATAL(ptc_module_parse(&diag, "m.ptir", text.data, text.len, &again), PTC_OK);
  ptc_attrs_set_int(again, &again->config, "world", 4);
  ptc_parallel_t p;
  CU_ASSERT_EQUAL(ptc_parallel_read(again, &p), PTC_OK);
  CU_ASSERT_EQUAL(p.size[PTC_AXIS_DP], 2);
  CU_ASSERT_EQUAL(p.size[PTC_AXIS_CP], 2);
  CU_ASSERT_EQUAL(p.size[PTC_AXIS_TP], 1);
  CU_ASSERT_EQUAL(p.world, 4);
  CU_ASSERT_EQUAL(p.zero, 3);
  CU_ASSERT_EQUAL(p.chunks, 3);
  CU_ASSERT_STRING_EQUAL(p.schedule, "interleaved");
  CU_ASSERT(p.sequence_parallel);
  CU_ASSERT_STRING_EQUAL(ptc_attrs_string(&again->config, "shard", ""),
                         "l.*.w on tp over e; w on tp over d");
  CU_ASSERT_STRING_EQUAL(ptc_attrs_string(&again->config, "cut", ""), "l.2");
  ptc_str_deinit(&text);
  ptc_module_destroy(again);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

static const struct {
  const char *name, *parallel;
  int64_t world, dp;  // dp 0: refused
} worlds[] = {{"as given", "", 8, 2},
              {"too many", "", 6, 0},
              {"dp takes the rest", "dp=auto", 12, 3},
              {"nothing is left", "dp=auto", 6, 0}};

static void test_world(void) {
  for (size_t i = 0; i < sizeof(worlds) / sizeof(*worlds); i++) {
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_module_t *module = lower(&diag, worlds[i].parallel, worlds[i].world);
    CU_ASSERT_PTR_NOT_NULL_FATAL(module);
    ptc_parallel_t p;
    const ptc_status_t status = ptc_parallel_read(module, &p);
    UNIT_CHECK((status == PTC_OK) == (worlds[i].dp > 0), worlds[i].name);
    UNIT_CHECK(status != PTC_OK || p.size[PTC_AXIS_DP] == worlds[i].dp, worlds[i].name);
    UNIT_CHECK(status == PTC_OK || strcmp(diag.items[0].id, "world-product") == 0, worlds[i].name);
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
}

static const unit_test_t tests[] = {{"config", test_config}, {"world", test_world}};
UNIT_MAIN("parallel", tests)
