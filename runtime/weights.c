#include "runtime/weights.h"

#include <jansson.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/mapping.h"

enum { MAX_FILES = 4096 };

static ptc_status_t open_one(ptc_diag_t *diag, const char *path, ptc_weights_t *weights) {
  PTC_TRY(ptc_safetensors_open(diag, path, &weights->files[weights->num_files]));
  weights->num_files++;
  return PTC_OK;
}

static ptc_status_t bad_index(ptc_diag_t *diag, const char *path, const char *what) {
  return ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "bad-index", "\"%s\": %s", path, what);
}

// The files that |map| names, once each; beside the index.
static ptc_status_t open_named(ptc_diag_t *diag, const char *path, json_t *map,
                               ptc_weights_t *weights) {
  const char *slash = strrchr(path, '/'), *tensor;
  const char *folder =
      slash ? ptc_arena_strndup(&weights->arena, path, (size_t)(slash + 1 - path)) : "";
  json_t *value;
  json_object_foreach(map, tensor, value) {
    const char *name = json_string_value(value);
    if (!name || !name[0] || strchr(name, '/'))
      return bad_index(diag, path, "\"weight_map\" names a file that does not lie beside it");
    const char *file = ptc_arena_printf(&weights->arena, "%s%s", folder, name);
    bool again = false;
    for (int32_t i = 0; i < weights->num_files; i++)
      again |= strcmp(weights->files[i].path, file) == 0;
    if (again) continue;
    if (weights->num_files == MAX_FILES) return bad_index(diag, path, "it names too many files");
    PTC_TRY(open_one(diag, file, weights));
  }
  return PTC_OK;
}

static ptc_status_t open_index(ptc_diag_t *diag, const char *path, ptc_weights_t *weights) {
  ptc_mapping_t mapping;
  PTC_TRY(ptc_mapping_open(diag, path, &mapping));
  json_error_t error;
  json_t *root = json_loadb((const char *)mapping.data, (size_t)mapping.bytes, 0, &error);
  ptc_mapping_close(&mapping);
  json_t *map = json_object_get(root, "weight_map");
  ptc_status_t status = json_object_size(map) ? open_named(diag, path, map, weights)
                                              : bad_index(diag, path, "it has no \"weight_map\"");
  json_decref(root);
  return status;
}

static bool ends_with(const char *text, const char *end) {
  size_t len = strlen(text), end_len = strlen(end);
  return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

ptc_status_t ptc_weights_open(ptc_diag_t *diag, const char *path, ptc_weights_t *out_weights) {
  *out_weights = (ptc_weights_t){0};
  ptc_arena_t *arena = &out_weights->arena;
  out_weights->files = PTC_ARENA_ARRAY(arena, ptc_safetensors_t, MAX_FILES);
  struct stat info;
  if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
    const char *index = ptc_arena_printf(arena, "%s/model.safetensors.index.json", path);
    path = access(index, F_OK) == 0 ? index : ptc_arena_printf(arena, "%s/model.safetensors", path);
  }
  ptc_status_t status = ends_with(path, ".json") ? open_index(diag, path, out_weights)
                                                 : open_one(diag, path, out_weights);
  if (status != PTC_OK) ptc_weights_close(out_weights);
  return status;
}

void ptc_weights_close(ptc_weights_t *weights) {
  for (int32_t i = 0; i < weights->num_files; i++) ptc_safetensors_close(&weights->files[i]);
  ptc_arena_deinit(&weights->arena);
  *weights = (ptc_weights_t){0};
}
