#include "tests/support/expect.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_EXPECTATIONS = 256, NO_LINE = 0 };

typedef struct expectation_s {
  ptc_severity_t severity;
  int32_t line;    // NO_LINE: without a place
  int32_t column;  // 0: any
  int32_t own_line;
  const char *text;  // in the section, not terminated
  int text_len;
  bool is_met;
} expectation_t;

// ---- loading ----

static void add_section(expect_sections_t *sections, const char *path, int32_t line,
                        const char *text, size_t len) {
  sections->items =
      ptc_xrealloc(sections->items, (size_t)(sections->count + 1) * sizeof(*sections->items));
  expect_section_t *section = &sections->items[sections->count++];
  const char *slash = strrchr(path, '/');
  ptc_str_t name = {0}, padded = {0}, copy = {0};
  ptc_str_printf(&name, "%s:%" PRId32, slash ? slash + 1 : path, line);
  ptc_str_append(&copy, path);
  for (int32_t i = 1; i < line; i++) ptc_str_append(&padded, "\n");
  ptc_str_append_n(&padded, text, len);
  *section = (expect_section_t){name.data, copy.data, padded.data, padded.len};
}

static void split_sections(expect_sections_t *sections, const char *path, const char *text,
                           size_t len) {
  static const char separator[] = "# ----";
  const char *start = text, *end = text + len;
  int32_t line = 1, start_line = 1;
  for (const char *p = text; p < end;) {
    const char *newline = memchr(p, '\n', (size_t)(end - p));
    const char *next = newline ? newline + 1 : end;
    if ((size_t)(end - p) >= sizeof(separator) - 1 &&
        memcmp(p, separator, sizeof(separator) - 1) == 0) {
      add_section(sections, path, start_line, start, (size_t)(p - start));
      start = next;
      start_line = line + 1;
    }
    p = next;
    line++;
  }
  if (start < end) add_section(sections, path, start_line, start, (size_t)(end - start));
}

static bool has_suffix(const char *name, const char *suffix) {
  size_t len = strlen(name), suffix_len = strlen(suffix);
  return len > suffix_len && strcmp(name + len - suffix_len, suffix) == 0;
}

bool expect_load(const char *folder, const char *suffix, expect_sections_t *sections) {
  struct dirent **entries;
  int count = scandir(folder, &entries, NULL, alphasort);
  if (count < 0) return false;
  bool ok = true;
  for (int i = 0; i < count; i++) {
    if (has_suffix(entries[i]->d_name, suffix)) {
      ptc_str_t path = {0};
      ptc_str_printf(&path, "%s/%s", folder, entries[i]->d_name);
      char *text;
      size_t len;
      bool read = ptc_read_file(path.data, &text, &len) == PTC_OK && len > 0;
      if (read) split_sections(sections, path.data, text, len);
      ok &= read;
      free(text);
      ptc_str_deinit(&path);
    }
    free(entries[i]);
  }
  free(entries);
  return ok;
}

void expect_free(expect_sections_t *sections) {
  for (int64_t i = 0; i < sections->count; i++) {
    free(sections->items[i].name);
    free(sections->items[i].path);
    free(sections->items[i].text);
  }
  free(sections->items);
  *sections = (expect_sections_t){0};
}

// ---- comparing ----

static int32_t parse_place(const char *text, const char *end, int32_t own_line,
                           int32_t *out_column) {
  *out_column = 0;
  const char *at = memchr(text, '@', (size_t)(end - text));
  const char *braces = memmem(text, (size_t)(end - text), "{{", 2);
  if (!at || (braces && at > braces)) return own_line;
  if (strncmp(at, "@none", 5) == 0) return NO_LINE;
  char *rest;
  int32_t number = (int32_t)strtol(at + 1, &rest, 10);
  if (*rest == ':') *out_column = (int32_t)strtol(rest + 1, NULL, 10);
  return at[1] == '+' || at[1] == '-' ? own_line + number : number;
}

// The expectations of |section|; -1 if one is malformed.
static int parse_expectations(const expect_section_t *section, expectation_t *out) {
  static const struct {
    const char *word;
    ptc_severity_t severity;
  } words[] = {{"expected-error", PTC_ERROR},
               {"expected-warning", PTC_WARNING},
               {"expected-note", PTC_NOTE}};
  int count = 0;
  int32_t line = 1;
  const char *end = section->text + section->len;
  for (const char *p = section->text; p < end; line++) {
    const char *newline = memchr(p, '\n', (size_t)(end - p));
    const char *line_end = newline ? newline : end;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
      size_t word_len = strlen(words[i].word);
      const char *word = memmem(p, (size_t)(line_end - p), words[i].word, word_len);
      if (!word) continue;
      const char *open = memmem(word, (size_t)(line_end - word), "{{", 2);
      const char *close = open ? memmem(open, (size_t)(line_end - open), "}}", 2) : NULL;
      if (!close || count == MAX_EXPECTATIONS) return -1;
      int32_t column, place = parse_place(word, line_end, line, &column);
      out[count++] = (expectation_t){.severity = words[i].severity,
                                     .line = place,
                                     .column = column,
                                     .own_line = line,
                                     .text = open + 2,
                                     .text_len = (int)(close - open - 2)};
    }
    p = newline ? newline + 1 : end;
  }
  return count;
}

static bool meets(const ptc_diagnostic_t *item, const expectation_t *expectation) {
  int32_t line = item->loc.file ? item->loc.line : NO_LINE;
  if (expectation->is_met || item->severity != expectation->severity || line != expectation->line)
    return false;
  if (expectation->column && item->loc.column != expectation->column) return false;
  ptc_str_t shown = {0};
  ptc_str_printf(&shown, "%s [%s]", item->message, item->id);
  bool found =
      memmem(shown.data, shown.len, expectation->text, (size_t)expectation->text_len) != NULL;
  ptc_str_deinit(&shown);
  return found;
}

bool expect_check(const expect_section_t *section, const ptc_diag_t *diag, ptc_str_t *out_report) {
  static const char *const severities[] = {"error", "warning", "note"};
  expectation_t expectations[MAX_EXPECTATIONS];
  int count = parse_expectations(section, expectations);
  if (count < 0) {
    ptc_str_printf(out_report, "%s: a malformed expectation\n", section->name);
    return false;
  }
  bool ok = true;
  for (int64_t i = 0; i < diag->num_items; i++) {
    const ptc_diagnostic_t *item = &diag->items[i];
    if (!item->message) continue;
    bool met = false;
    for (int j = 0; j < count && !met; j++)
      if (meets(item, &expectations[j])) met = expectations[j].is_met = true;
    if (met || item->severity == PTC_NOTE) continue;
    ok = false;
    ptc_str_printf(out_report, "%s: %" PRId32 ":%" PRId32 ": unexpected %s: %s [%s]\n",
                   section->name, item->loc.file ? item->loc.line : 0, item->loc.column,
                   severities[item->severity], item->message, item->id);
  }
  for (int j = 0; j < count; j++) {
    if (expectations[j].is_met) continue;
    ok = false;
    ptc_str_printf(out_report, "%s: line %" PRId32 ": missing %s at line %" PRId32 ": %.*s\n",
                   section->name, expectations[j].own_line, severities[expectations[j].severity],
                   expectations[j].line, expectations[j].text_len, expectations[j].text);
  }
  return ok;
}

int expect_run(const char *suite, const expect_sections_t *sections, void (*check)(void),
               const unit_test_t *more, int num_more) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  CU_pSuite added = CU_add_suite(suite, NULL, NULL);
  bool ok = added != NULL;
  for (int64_t i = 0; i < sections->count && ok; i++)
    ok = CU_add_test(added, sections->items[i].name, check) != NULL;
  for (int i = 0; i < num_more && ok; i++)
    ok = CU_add_test(added, more[i].name, more[i].run) != NULL;
  if (!ok) return 1;
  CU_basic_set_mode(CU_BRM_NORMAL);
  CU_basic_run_tests();
  unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures != 0;
}
