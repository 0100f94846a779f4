// Proves: no manifest of a checkpoint crashes its reader; what it accepts prints as a manifest with the same
// content. An input is the manifest; its checksum is put right first, as no mutation would.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "runtime/checkpoint_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// The caller frees it; NULL if |data| is no JSON object.
static char *put_right(const uint8_t *data, size_t size) {
  json_error_t error;
  json_t *root = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, &error);
  char *text = NULL;
  if (json_is_object(root)) {
    json_object_del(root, "crc32");
    char *compact = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS), crc[16];
    if (!compact) abort();
    snprintf(crc, sizeof(crc), "%08lx", crc32(0, (const Bytef *)compact, (uInt)strlen(compact)));
    json_object_set_new(root, "crc32", json_string(crc));
    text = json_dumps(root, JSON_COMPACT);
    free(compact);
  }
  json_decref(root);
  return text;
}

static void check(ptc_diag_t *diag, const char *text, size_t len) {
  ptc_arena_t arena = {0};
  ptc_checkpoint_state_t state, again;
  ptc_manifest_file_t *files, *files_again;
  int32_t num_files, num_again;
  const int64_t before = diag->num_errors;
  ptc_status_t status = ptc_manifest_parse(diag, "manifest.json", text, (int64_t)len, &arena,
                                           &state, &files, &num_files);
  if ((status == PTC_OK) != (diag->num_errors == before)) abort();
  if (status == PTC_OK) {
    char *first = ptc_manifest_print(&state, files, num_files);
    if (!first || ptc_manifest_parse(diag, "again", first, (int64_t)strlen(first), &arena, &again,
                                     &files_again, &num_again) != PTC_OK)
      abort();
    char *second = ptc_manifest_print(&again, files_again, num_again);
    if (!second || strcmp(first, second) != 0) abort();
    free(first);
    free(second);
  }
  ptc_arena_deinit(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  check(&diag, (const char *)data, size);
  char *right = put_right(data, size);
  if (right) check(&diag, right, strlen(right));
  free(right);
  ptc_diag_deinit(&diag);
  return 0;
}
