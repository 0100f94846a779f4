#include "tests/support/cover_models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
const cover_model_t cover_models[COVER_NUM_MODELS] = {
    {"gpt2", "samples/gpt2.ptm", 1,
     {.d = 64, .heads = 4, .kv_heads = 4, .head_dim = 16, .ffn = 256, .seq = 13, .vocab = 67},
     {{"d", "64"}, {"heads", "4"}, {"seq", "13"}, {"vocab", "67"}},
     {{0}}},
    {"llama3", "samples/llama3.ptm", 1,
     {.d = 64, .heads = 8, .kv_heads = 2, .head_dim = 8, .ffn = 84, .seq = 11, .vocab = 69},
     {{"d", "64"}, {"heads", "8"}, {"kv_heads", "2"}, {"ffn", "84"}, {"seq", "11"}, {"vocab", "69"}},
     {{"  param head[d, v]  ~ normal(0.02)\n", ""},
      {"causal)", "causal, dropout = 0.1)"},
      {"return y", "return dropout(y, 0.1)"},
      {"return y", "return dropout(y, 0.1)"},
      {" * head[d, v]", " * embed[v, d]"}}},
    {"gemma2", "samples/gemma2.ptm", 2,
     {.d = 64, .heads = 4, .kv_heads = 2, .head_dim = 12, .ffn = 90, .seq = 15, .vocab = 71},
     {{"d", "64"}, {"heads", "4"}, {"kv_heads", "2"}, {"head_dim", "12"}, {"ffn", "90"}, {"seq", "15"}, {"vocab", "71"}, {"window", "5"}},
     {{"softcap = 50)", "softcap = 50, dropout = 0.1)"},
      {"return y", "return dropout(y, 0.1)"},
      {"return y", "return dropout(y, 0.1)"}}},
};
// clang-format on

static const ptc_override_t train_settings[] = {{"train.clip", "0.1"},
                                                {"train.precision", "f32"},
                                                {"train.seed", "1234"},
                                                {"train.lr", "2e-3"}};
enum { NUM_TRAIN_SETTINGS = sizeof train_settings / sizeof *train_settings };

// Each edit changes the first place after the one before; all must be there.
static char *read_text(const cover_model_t *model) {
  char path[1024], *text = NULL;
  size_t len = 0;
  snprintf(path, sizeof path, "%s/%s", PTC_SOURCE_DIR, model->file);
  if (ptc_read_file(path, &text, &len) != PTC_OK) return NULL;
  ptc_str_t out = {0};
  ptc_str_append(&out, "");
  const char *at = text;
  for (int e = 0; e < COVER_MODEL_EDITS && model->edits[e].from; e++) {
    const char *found = strstr(at, model->edits[e].from);
    if (!found) {
      fprintf(stderr, "%s has no \"%s\"\n", path, model->edits[e].from);
      abort();
    }
    ptc_str_printf(&out, "%.*s%s", (int)(found - at), at, model->edits[e].to);
    at = found + strlen(model->edits[e].from);
  }
  ptc_str_append(&out, at);
  free(text);
  return out.data;
}

ptc_module_t *cover_model_lower(const cover_model_t *model, int layers, int batch,
                                const char *parallel, ptc_diag_t *diag) {
  char num_layers[16], num_samples[16];
  snprintf(num_layers, sizeof num_layers, "%d", layers);
  snprintf(num_samples, sizeof num_samples, "%d", batch);
  ptc_override_t overrides[COVER_MODEL_SETTINGS + NUM_TRAIN_SETTINGS + 2] = {
      {"layers", num_layers}, {"train.batch", num_samples}};
  int num = 2;
  for (int i = 0; i < NUM_TRAIN_SETTINGS; i++) overrides[num++] = train_settings[i];
  for (int i = 0; i < COVER_MODEL_SETTINGS && model->settings[i].name; i++)
    overrides[num++] = model->settings[i];
  const ptc_lower_options_t options = {
      .overrides = overrides, .num_overrides = num, .parallel = parallel};
  char *text = read_text(model);
  ptc_module_t *module = NULL;
  if (text) (void)ptc_compile_text(diag, model->file, text, strlen(text), &options, &module);
  if (!module) ptc_diag_print(diag, stderr, PTC_DIAG_TEXT, false);
  free(text);
  return module;
}
