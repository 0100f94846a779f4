// Proves: models of published sizes have exactly the published numbers of parameters.
#include <inttypes.h>
#include <stdio.h>

#include "frontend/driver/compile.h"
#include "tests/support/unit.h"

typedef struct count_row_s {
  const char *name, *file;
  ptc_override_t sets[8];
  int32_t num_sets;
  int64_t params;
} count_row_t;

// Sizes of the published checkpoints (tied embeddings counted once).
static const count_row_t rows[] = {
    {"GPT-2 small", "samples/gpt2.ptm", {{0}}, 0, 124439808},
    {"GPT-2 large",
     "samples/gpt2.ptm",
     {{"layers", "36"}, {"d", "1280"}, {"heads", "20"}},
     3,
     774030080},
    {"GPT-2 XL",
     "samples/gpt2.ptm",
     {{"layers", "48"}, {"d", "1600"}, {"heads", "25"}},
     3,
     1557611200},
    {"Llama 3 8B", "samples/llama3.ptm", {{0}}, 0, 8030261248},
    {"Llama 3 70B",
     "samples/llama3.ptm",
     {{"layers", "80"}, {"d", "8192"}, {"heads", "64"}, {"ffn", "28672"}},
     4,
     70553706496},
};

static ptc_module_t *compile(ptc_diag_t *diag, const char *file, const ptc_override_t *sets,
                             int32_t num_sets) {
  char path[1024];
  snprintf(path, sizeof(path), "%s/%s", PTC_SOURCE_DIR, file);
  const char *files[] = {path};
  const ptc_lower_options_t options = {.overrides = sets, .num_overrides = num_sets};
  ptc_module_t *module = NULL;
  (void)ptc_compile_files(diag, files, 1, &options, &module);
  ptc_diag_print(diag, stderr, PTC_DIAG_TEXT, false);
  return module;
}

static void test_published_sizes(void) {
  for (size_t r = 0; r < sizeof(rows) / sizeof(*rows); r++) {
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_module_t *module = compile(&diag, rows[r].file, rows[r].sets, rows[r].num_sets);
    int64_t params = 0;
    for (int64_t i = 0; module && i < module->num_globals; i++)
      if (module->globals[i]->kind == PTC_GLOBAL_PARAM)
        params += ptc_type_num_elements(module->globals[i]->type) *
                  ptc_type_num_instances(module->globals[i]->type);
    if (params != rows[r].params) fprintf(stderr, "%s: %" PRId64 "\n", rows[r].name, params);
    UNIT_CHECK(params == rows[r].params, rows[r].name);
    ptc_module_destroy(module);
    ptc_diag_deinit(&diag);
  }
}

static const unit_test_t tests[] = {{"published sizes", test_published_sizes}};

UNIT_MAIN("param_count", tests)
