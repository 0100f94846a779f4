// Proves: weights open from a file, from an index of several files, and from a folder with either; broken indexes
// are refused.
#include "runtime/weights.h"

#include <stdlib.h>
#include <unistd.h>

#include "runtime/name_map.h"
#include "tests/support/unit.h"

static char folder[32];
static char one[64], two[64], whole[64], list[96];

static void write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "wb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(file);
  fputs(text, file);
  fclose(file);
}

static void test_set_up(void) {
  unit_make_folder(folder);
  snprintf(one, sizeof(one), "%s/one.safetensors", folder);
  snprintf(two, sizeof(two), "%s/two.safetensors", folder);
  snprintf(whole, sizeof(whole), "%s/model.safetensors", folder);
  snprintf(list, sizeof(list), "%s/model.safetensors.index.json", folder);
  float values[] = {1, 2, 3, 4};
  const ptc_host_tensor_t tensors[] = {
      {.name = "a", .dtype = PTC_F32, .num_dims = 1, .shape = {4}, .data = values},
      {.name = "b", .dtype = PTC_F32, .num_dims = 1, .shape = {2}, .data = values + 2}};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  CU_ASSERT_EQUAL(ptc_safetensors_save(&diag, whole, tensors, 2), PTC_OK);
  CU_ASSERT_EQUAL(ptc_safetensors_save(&diag, one, tensors, 1), PTC_OK);
  CU_ASSERT_EQUAL(ptc_safetensors_save(&diag, two, tensors + 1, 1), PTC_OK);
  ptc_diag_deinit(&diag);
}

static void test_clean_up(void) {
  unlink(one);
  unlink(two);
  unlink(whole);
  unlink(list);
  CU_ASSERT_EQUAL(rmdir(folder), 0);
}

// Opens |path| and takes both tensors from what it gives.
static void check(const char *path, int32_t num_files) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_weights_t weights;
  UNIT_CHECK(ptc_weights_open(&diag, path, &weights) == PTC_OK, path);
  UNIT_CHECK(weights.num_files == num_files, path);
  float a[4] = {0}, b[2] = {0};
  const ptc_host_tensor_t ours[] = {
      {.name = "b", .dtype = PTC_F32, .num_dims = 1, .shape = {2}, .data = b},
      {.name = "a", .dtype = PTC_F32, .num_dims = 1, .shape = {4}, .data = a}};
  UNIT_CHECK(ptc_name_map_import(&diag, NULL, weights.files, weights.num_files, ours, 2) == PTC_OK,
             path);
  UNIT_CHECK(a[0] == 1 && a[3] == 4 && b[0] == 3 && b[1] == 4, path);
  UNIT_CHECK(diag.num_items == 0, path);
  ptc_weights_close(&weights);
  ptc_diag_deinit(&diag);
}

static void test_open(void) {
  check(whole, 1);
  check(folder, 1);
  write_text(list,
             "{\"metadata\": {\"total_size\": 24}, \"weight_map\": {\"a\": \"one.safetensors\", "
             "\"b\": \"two.safetensors\", \"c\": \"one.safetensors\"}}");
  check(list, 2);
  check(folder, 2);  // an index comes before a file of all
}

static void test_unfit(void) {
  static const struct {
    const char *index, *id;
  } rows[] = {
      {"", "bad-index"},
      {"[]", "bad-index"},
      {"{\"weight_map\": 3}", "bad-index"},
      {"{\"weight_map\": {}}", "bad-index"},
      {"{\"weight_map\": {\"a\": 3}}", "bad-index"},
      {"{\"weight_map\": {\"a\": \"\"}}", "bad-index"},
      {"{\"weight_map\": {\"a\": \"../one.safetensors\"}}", "bad-index"},
      {"{\"weight_map\": {\"a\": \"three.safetensors\"}}", "read-file"},
      {"{\"weight_map\": {\"a\": \"one.safetensors\", \"b\": \"model.safetensors.index.json\"}}",
       "bad-tensor-file"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    write_text(list, rows[i].index);
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_weights_t weights;
    UNIT_CHECK(ptc_weights_open(&diag, folder, &weights) != PTC_OK, rows[i].index);
    UNIT_CHECK(diag.num_errors == 1 && !strcmp(diag.items[0].id, rows[i].id), rows[i].index);
    UNIT_CHECK(weights.num_files == 0, rows[i].index);
    ptc_diag_deinit(&diag);
  }
}

static const unit_test_t tests[] = {{"set up", test_set_up},
                                    {"open", test_open},
                                    {"unfit", test_unfit},
                                    {"clean up", test_clean_up}};
UNIT_MAIN("weights", tests)
