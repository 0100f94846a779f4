// Proves: depth costs the compiler nothing. After the whole pipeline 12 and 96 equal layers are the
// same number of ops, globals and lines; only counts in types and attributes differ.
#include <stdlib.h>

#include "frontend/driver/compile.h"
#include "ir/text.h"
#include "tests/support/unit.h"

typedef struct measured_s {
  int64_t ops, globals, lines, bytes;
} measured_t;

// The sample |model| with |blocks| after it.
static measured_t measure(const char *model, const char *blocks, const char *layers) {
  ptc_override_t override = {"layers", layers};
  ptc_lower_options_t options = {.overrides = &override, .num_overrides = 1};
  ptc_str_t path = {0}, source = {0};
  ptc_str_printf(&path, "%s/samples/%s.ptm", PTC_SOURCE_DIR, model);
  char *sample;
  size_t len;
  CU_ASSERT_EQUAL_FATAL(ptc_read_file(path.data, &sample, &len), PTC_OK);
  ptc_str_append_n(&source, sample, len);
  ptc_str_append(&source, blocks);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = NULL;
  measured_t size = {0};
  ptc_status_t status =
      ptc_compile_text(&diag, path.data, source.data, source.len, &options, &module);
  if (status == PTC_OK && module) {
    ptc_pass_ctx_t ctx;
    ptc_pass_ctx_init(&ctx, NULL);
    status = ptc_pipeline_train(&ctx, module);
    ptc_pass_ctx_deinit(&ctx);
    ptc_str_t text = {0};
    ptc_module_print(module, true, &text);
    for (const char *p = text.data; *p; p++) size.lines += *p == '\n';
    size.bytes = (int64_t)text.len;
    size.ops = ptc_module_num_ops(module);
    size.globals = module->num_globals;
    ptc_str_deinit(&text);
  }
  if (status != PTC_OK) ptc_diag_print(&diag, stdout, PTC_DIAG_TEXT, false);
  UNIT_CHECK(status == PTC_OK, model);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
  ptc_str_deinit(&source);
  ptc_str_deinit(&path);
  free(sample);
  return size;
}

static const struct {
  const char *model, *blocks;
} rows[] = {
    {"gpt2", ""},
    {"llama3", ""},
    {"bert", ""},
    {"gemma2", ""},
    {"gptj", ""},
    {"mixtral", ""},
    {"mamba2", ""},
    {"gpt2", "parallel { micro_batch = 64  recompute = full }"},
    {"gpt2", "parallel { recompute = every(4) }"},
    {"llama3", "train { precision = f16 }  parallel { recompute = selective }"},
};

static void test_depth(void) {
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
    measured_t few = measure(rows[i].model, rows[i].blocks, "12");
    measured_t many = measure(rows[i].model, rows[i].blocks, "96");
    UNIT_CHECK(few.ops > 100, rows[i].model);
    UNIT_CHECK(few.ops == many.ops, rows[i].model);
    UNIT_CHECK(few.globals == many.globals, rows[i].model);
    UNIT_CHECK(few.lines == many.lines, rows[i].model);
    UNIT_CHECK((double)many.bytes < 1.01 * (double)few.bytes, rows[i].model);
    printf("\n    %s %s: %d ops, %d globals, %d lines, %d and %d bytes", rows[i].model,
           rows[i].blocks, (int)few.ops, (int)few.globals, (int)few.lines, (int)few.bytes,
           (int)many.bytes);
  }
}

static const unit_test_t tests[] = {{"12 and 96 layers", test_depth}};
UNIT_MAIN("depth", tests)
