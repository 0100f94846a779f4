#include "tests/support/diag_ids.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/str.h"

bool diag_ids_has(const diag_ids_t *set, const char *id) {
  for (int32_t i = 0; i < set->count; i++)
    if (strcmp(set->ids[i], id) == 0) return true;
  return false;
}

void diag_ids_add(diag_ids_t *set, const char *id) {
  if (!diag_ids_has(set, id) && set->count < DIAG_IDS_MAX) set->ids[set->count++] = strdup(id);
}

void diag_ids_free(diag_ids_t *set) {
  for (int32_t i = 0; i < set->count; i++) free(set->ids[i]);
  set->count = 0;
}

// The id in the arguments after |text|: the first string literal, if it is made of [a-z0-9-].
static void add_argument(const char *text, diag_ids_t *set) {
  // A declaration has no literal before its end.
  size_t len = strcspn(text, "\";");
  if (text[len] != '"') return;
  const char *id = text + len + 1;
  size_t id_len = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-");
  if (!id_len || id[id_len] != '"') return;
  char *copy = strndup(id, id_len);
  diag_ids_add(set, copy);
  free(copy);
}

static bool scan_file(const char *path, diag_ids_t *set) {
  static const char *const calls[] = {"LOWER_ERROR(", "ptc_error(", "ptc_warning(", "COMPLAIN(",
                                      "ptm_lexical_error("};
  char *text;
  size_t len;
  if (ptc_read_file(path, &text, &len) != PTC_OK) return false;
  for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
    for (const char *at = text; (at = strstr(at, calls[i])) != NULL; at += strlen(calls[i]))
      add_argument(at + strlen(calls[i]), set);
  free(text);
  return true;
}

bool diag_ids_scan(const char *folder, const char *suffix, diag_ids_t *set) {
  DIR *dir = opendir(folder);
  if (!dir) return false;
  bool ok = true;
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
    size_t len = strlen(entry->d_name), suffix_len = strlen(suffix);
    if (len <= suffix_len || strcmp(entry->d_name + len - suffix_len, suffix) != 0) continue;
    ptc_str_t path = {0};
    ptc_str_printf(&path, "%s/%s", folder, entry->d_name);
    ok &= scan_file(path.data, set);
    ptc_str_deinit(&path);
  }
  closedir(dir);
  return ok;
}
