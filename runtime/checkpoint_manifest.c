// manifest.json: format, version, where the run stands, and per file its length, its CRC-32 and that of each
// tensor. "crc32" of the whole is that of the other members, printed compactly with sorted keys.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "runtime/checkpoint_impl.h"

static const char format_name[] = "ptc-checkpoint";
enum { MAX_FILES = 64 };

static json_t *print_crc(uint32_t crc) {
  char text[16];
  snprintf(text, sizeof(text), "%08x", crc);
  return json_string(text);
}

// NULL without memory.
static json_t *crc_of(const json_t *root) {
  char *text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
  if (!text) return NULL;
  uint32_t crc = (uint32_t)crc32_z(0, (const Bytef *)text, strlen(text));
  free(text);
  return print_crc(crc);
}

// --- printing

static json_t *print_file(const ptc_manifest_file_t *file) {
  json_t *tensors = json_object();
  for (int64_t i = 0; i < file->num_tensors; i++)
    json_object_set_new(tensors, file->tensors[i], print_crc(file->tensor_crcs[i]));
  return json_pack("{s:s, s:I, s:o, s:o}", "name", file->name, "bytes", (json_int_t)file->bytes,
                   "crc32", print_crc(file->crc), "tensors", tensors);
}

char *ptc_manifest_print(const ptc_checkpoint_state_t *state, const ptc_manifest_file_t *files,
                         int32_t num_files) {
  char seed[24];  // JSON's integers have no room for it
  snprintf(seed, sizeof(seed), "%llu", (unsigned long long)state->seed);
  json_t *settings = json_object(), *list = json_array();
  bool ok = true;  // false: a text is no UTF-8
  for (int32_t i = 0; i < state->num_settings; i++)
    ok = json_object_set_new(settings, state->settings[i].name,
                             json_string(state->settings[i].value)) == 0 &&
         ok;
  for (int32_t i = 0; i < num_files; i++) json_array_append_new(list, print_file(&files[i]));
  json_t *root =
      json_pack("{s:s, s:i, s:s, s:I, s:I, s:s, s:o, s:o}", "format", format_name, "version",
                PTC_CHECKPOINT_VERSION, "model", state->model ? state->model : "", "step",
                (json_int_t)state->step, "position", (json_int_t)state->position, "seed", seed,
                "settings", settings, "files", list);
  json_object_set_new(root, "crc32", crc_of(root));
  char *text = ok ? json_dumps(root, JSON_INDENT(1) | JSON_SORT_KEYS) : NULL;
  json_decref(root);
  return text;
}

// --- parsing: each function gives NULL, or what is wrong

static const char *parse_crc(const json_t *value, uint32_t *out) {
  const char *text = json_string_value(value);
  *out = 0;
  if (!text || strlen(text) != 8 || strspn(text, "0123456789abcdef") != 8)
    return "a checksum is not of eight hexadecimal digits";
  *out = (uint32_t)strtoul(text, NULL, 16);
  return NULL;
}

// A whole number from 0.
static bool parse_count(const json_t *value, int64_t *out) {
  *out = json_integer_value(value);
  return json_is_integer(value) && *out >= 0;
}

static const char *parse_file(json_t *object, ptc_arena_t *arena, ptc_manifest_file_t *out) {
  const char *name = json_string_value(json_object_get(object, "name"));
  json_t *tensors = json_object_get(object, "tensors");
  if (!name || !name[0] || name[0] == '.' || strchr(name, '/')) return "a file has no plain name";
  if (!parse_count(json_object_get(object, "bytes"), &out->bytes)) return "a file has no length";
  if (!json_is_object(tensors)) return "a file has no tensors";
  const char *what = parse_crc(json_object_get(object, "crc32"), &out->crc);
  if (what) return what;
  out->name = ptc_arena_strdup(arena, name);
  const int64_t count = (int64_t)json_object_size(tensors);
  const char **names = PTC_ARENA_ARRAY(arena, const char *, count);
  uint32_t *crcs = PTC_ARENA_ARRAY(arena, uint32_t, count);
  out->tensors = names;
  out->tensor_crcs = crcs;
  json_t *value;
  json_object_foreach(tensors, name, value) {
    names[out->num_tensors] = ptc_arena_strdup(arena, name);
    what = parse_crc(value, &crcs[out->num_tensors++]);
    if (what) return what;
  }
  return NULL;
}

static const char *parse_settings(json_t *settings, ptc_arena_t *arena,
                                  ptc_checkpoint_state_t *out) {
  if (!json_is_object(settings)) return "it has no settings";
  ptc_checkpoint_setting_t *list =
      PTC_ARENA_ARRAY(arena, ptc_checkpoint_setting_t, json_object_size(settings));
  out->settings = list;
  const char *name;
  json_t *value;
  json_object_foreach(settings, name, value) {
    if (!json_is_string(value)) return "a setting is no text";
    list[out->num_settings++] = (ptc_checkpoint_setting_t){
        ptc_arena_strdup(arena, name), ptc_arena_strdup(arena, json_string_value(value))};
  }
  return NULL;
}

static const char *parse_state(json_t *root, ptc_arena_t *arena, ptc_checkpoint_state_t *out) {
  const char *model = json_string_value(json_object_get(root, "model"));
  const char *seed = json_string_value(json_object_get(root, "seed"));
  if (!model) return "it has no model";
  if (!parse_count(json_object_get(root, "step"), &out->step)) return "it has no step";
  if (!parse_count(json_object_get(root, "position"), &out->position)) return "it has no position";
  if (!seed || !seed[0] || strlen(seed) > 20 || strspn(seed, "0123456789") != strlen(seed))
    return "it has no seed";
  errno = 0;
  out->seed = strtoull(seed, NULL, 10);
  if (errno) return "it has no seed";
  out->model = ptc_arena_strdup(arena, model);
  return parse_settings(json_object_get(root, "settings"), arena, out);
}

static const char *parse(json_t *root, ptc_arena_t *arena, ptc_checkpoint_state_t *out_state,
                         ptc_manifest_file_t **out_files, int32_t *out_num_files) {
  const char *format = json_string_value(json_object_get(root, "format"));
  if (!format || strcmp(format, format_name) != 0) return "it is no manifest of a checkpoint";
  if (json_integer_value(json_object_get(root, "version")) != PTC_CHECKPOINT_VERSION)
    return "it is of a version that this ptc cannot read";
  json_t *stated = json_incref(json_object_get(root, "crc32"));
  json_object_del(root, "crc32");
  json_t *crc = crc_of(root);
  const bool intact = stated && crc && json_equal(stated, crc);
  json_decref(stated);
  json_decref(crc);
  if (!intact) return "it is damaged: its checksum is not what it says";
  const char *what = parse_state(root, arena, out_state);
  if (what) return what;
  json_t *files = json_object_get(root, "files");
  if (!json_is_array(files) || json_array_size(files) > MAX_FILES) return "it lists no files";
  *out_files = PTC_ARENA_ARRAY(arena, ptc_manifest_file_t, json_array_size(files));
  size_t i;
  json_t *object;
  json_array_foreach(files, i, object) {
    what = parse_file(object, arena, &(*out_files)[i]);
    if (what) return what;
    ++*out_num_files;
  }
  return NULL;
}

ptc_status_t ptc_manifest_parse(ptc_diag_t *diag, const char *path, const char *text, int64_t len,
                                ptc_arena_t *arena, ptc_checkpoint_state_t *out_state,
                                ptc_manifest_file_t **out_files, int32_t *out_num_files) {
  *out_state = (ptc_checkpoint_state_t){0};
  *out_files = NULL;
  *out_num_files = 0;
  json_error_t error;
  json_t *root = json_loadb(text, (size_t)len, JSON_REJECT_DUPLICATES, &error);
  const char *what = !root ? error.text
                     : !json_is_object(root)
                         ? "it is no object"
                         : parse(root, arena, out_state, out_files, out_num_files);
  ptc_status_t status = what ? ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "bad-checkpoint",
                                         "\"%s\": %s", path, what)
                             : PTC_OK;
  json_decref(root);
  return status;
}
