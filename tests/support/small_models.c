#include "tests/support/small_models.h"

#include <string.h>

// clang-format off
const small_model_t small_models[] = {
    {"gpt2", "samples/gpt2.ptm",
     {{"layers", "2"}, {"d", "24"}, {"heads", "3"}, {"seq", "10"}, {"vocab", "43"}, {"drop", "0"}, {"train.batch", "4"}, {"train.seed", "1234"}}},
    {"gpt2_dropout", "samples/gpt2.ptm",
     {{"layers", "2"}, {"d", "24"}, {"heads", "3"}, {"seq", "10"}, {"vocab", "43"}, {"drop", "0.1"}, {"train.batch", "4"}, {"train.seed", "1234"}}},
    {"llama3", "samples/llama3.ptm",
     {{"layers", "2"}, {"d", "24"}, {"heads", "6"}, {"kv_heads", "2"}, {"ffn", "20"}, {"seq", "9"}, {"vocab", "41"}, {"train.batch", "4"}, {"train.seed", "3"}}},
    {"llama3_packed", "samples/llama3_packed.ptm",
     {{"layers", "2"}, {"d", "24"}, {"heads", "6"}, {"kv_heads", "2"}, {"ffn", "20"}, {"seq", "14"}, {"vocab", "7"}, {"eos", "3"}, {"train.batch", "4"}, {"train.seed", "3"}}},
    {"gemma2", "samples/gemma2.ptm",
     {{"layers", "3"}, {"d", "18"}, {"heads", "6"}, {"kv_heads", "2"}, {"head_dim", "4"}, {"ffn", "22"}, {"seq", "11"}, {"vocab", "37"}, {"window", "4"}, {"train.batch", "4"}, {"train.seed", "5"}}},
    {"gptj", "samples/gptj.ptm",
     {{"layers", "2"}, {"d", "24"}, {"heads", "2"}, {"rotary", "8"}, {"seq", "9"}, {"vocab", "31"}, {"train.batch", "4"}, {"train.seed", "6"}}},
    {"deepseek_v2", "samples/deepseek_v2.ptm",
     {{"layers", "3"}, {"d", "20"}, {"heads", "2"}, {"q_rank", "10"}, {"kv_rank", "6"}, {"nope", "6"}, {"rope_dim", "4"}, {"v_dim", "5"}, {"ffn", "24"}, {"moe_ffn", "7"}, {"experts", "5"}, {"top", "2"}, {"shared", "2"}, {"dense", "1"}, {"seq", "8"}, {"vocab", "29"}, {"train.batch", "4"}, {"train.seed", "8"}}},
    {"mixtral", "samples/mixtral.ptm",
     {{"layers", "2"}, {"d", "16"}, {"heads", "4"}, {"kv_heads", "2"}, {"ffn", "11"}, {"experts", "4"}, {"top", "2"}, {"seq", "10"}, {"vocab", "23"}, {"train.batch", "4"}, {"train.seed", "9"}}},
    {"mamba2", "samples/mamba2.ptm",
     {{"layers", "2"}, {"d", "12"}, {"expand", "2"}, {"head_dim", "8"}, {"state", "5"}, {"conv", "4"}, {"seq", "10"}, {"vocab", "29"}, {"train.batch", "4"}, {"train.seed", "10"}}},
    {"bert", "samples/bert.ptm",
     {{"layers", "2"}, {"d", "18"}, {"heads", "3"}, {"seq", "12"}, {"vocab", "13"}, {"pad", "1"}, {"mask_id", "5"}, {"drop", "0"}, {"train.batch", "4"}, {"train.seed", "36"}}},
    {"bert_dropout", "samples/bert.ptm",
     {{"layers", "2"}, {"d", "18"}, {"heads", "3"}, {"seq", "12"}, {"vocab", "13"}, {"pad", "1"}, {"mask_id", "5"}, {"drop", "0.2"}, {"train.batch", "4"}, {"train.seed", "36"}}},
    {"two_branch", "samples/two_branch.ptm",
     {{"layers", "6"}, {"wide", "24"}, {"narrow", "12"}, {"sizes", "8,8,16,16,24,24"}, {"seq", "7"}, {"vocab", "31"}, {"train.batch", "4"}, {"train.seed", "12"}}},
    {"t5", "tests/torch/extra/t5.ptm",
     {{"layers", "2"}, {"d", "12"}, {"heads", "2"}, {"head_dim", "5"}, {"ffn", "14"}, {"src", "8"}, {"tgt", "7"}, {"vocab", "9"}, {"span", "3"}, {"train.batch", "4"}, {"train.seed", "13"}}},
    {"vit", "tests/torch/extra/vit.ptm",
     {{"layers", "2"}, {"d", "12"}, {"heads", "2"}, {"side", "3"}, {"patch", "2"}, {"channels", "2"}, {"classes", "5"}, {"skip", "0.4"}, {"train.batch", "4"}, {"train.seed", "14"}}},
};
// clang-format on
const int num_small_models = sizeof(small_models) / sizeof(small_models[0]);

const small_model_t *small_model_find(const char *name) {
  for (int m = 0; m < num_small_models; m++)
    if (strcmp(small_models[m].name, name) == 0) return &small_models[m];
  return NULL;
}

ptc_module_t *small_model_lower(const small_model_t *model, const ptc_override_t *more,
                                int num_more, ptc_diag_t *diag) {
  ptc_override_t overrides[2 * SMALL_MODEL_SETTINGS];
  int num = 0;
  for (int i = 0; i < SMALL_MODEL_SETTINGS && model->settings[i].name; i++)
    overrides[num++] = model->settings[i];
  for (int i = 0; i < num_more && num < 2 * SMALL_MODEL_SETTINGS; i++) overrides[num++] = more[i];
  const ptc_lower_options_t options = {
      .overrides = overrides, .num_overrides = num, .parallel = "dp=1,tp=1,pp=1"};
  char path[1024];
  snprintf(path, sizeof(path), "%s/%s", PTC_SOURCE_DIR, model->file);
  const char *files[] = {path};
  ptc_module_t *module = NULL;
  if (ptc_compile_files(diag, files, 1, &options, &module) != PTC_OK)
    ptc_diag_print(diag, stderr, PTC_DIAG_TEXT, false);
  return module;
}
