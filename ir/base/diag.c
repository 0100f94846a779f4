#include "ir/base/diag.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/str.h"

enum { DEFAULT_MAX_ERRORS = 100, MAX_EXCERPT = 160 };

struct ptc_source_s {
  ptc_source_t *next;
  const char *file, *text;
  size_t len;
};

int ptc_status_exit_code(ptc_status_t status) {
  switch (status) {
    case PTC_OK: return 0;
    case PTC_INVALID_INPUT:
    case PTC_UNSUPPORTED:
    case PTC_INFEASIBLE:
    case PTC_IO: return 1;
    case PTC_DEVICE: return 4;
    case PTC_INTERNAL: break;
  }
  return 3;
}

void ptc_diag_init(ptc_diag_t *diag) { *diag = (ptc_diag_t){.max_errors = DEFAULT_MAX_ERRORS}; }

void ptc_diag_deinit(ptc_diag_t *diag) {
  free(diag->items);
  ptc_arena_deinit(&diag->arena);
  *diag = (ptc_diag_t){0};
}

void ptc_diag_add_source(ptc_diag_t *diag, const char *file, const char *text, size_t len) {
  ptc_source_t *source = PTC_ARENA_NEW(&diag->arena, ptc_source_t);
  *source = (ptc_source_t){.next = diag->sources,
                           .file = ptc_arena_strdup(&diag->arena, file),
                           .text = ptc_arena_strndup(&diag->arena, text, len),
                           .len = len};
  diag->sources = source;
}

// A repeated error (same place, same id) tells the reader nothing new.
static bool is_repeated(const ptc_diag_t *diag, ptc_loc_t loc, const char *id) {
  if (!loc.file) return false;
  for (int64_t i = diag->num_items; i-- > 0;) {
    const ptc_diagnostic_t *item = &diag->items[i];
    if (item->severity == PTC_ERROR && item->loc.line == loc.line &&
        item->loc.column == loc.column && item->loc.file && strcmp(item->loc.file, loc.file) == 0 &&
        strcmp(item->id, id) == 0)
      return true;
  }
  return false;
}

static void record(ptc_diag_t *diag, ptc_severity_t severity, ptc_loc_t loc, const char *id,
                   const char *message) {
  if (diag->num_items == diag->capacity) {
    diag->capacity = diag->capacity ? 2 * diag->capacity : 16;
    diag->items = ptc_xrealloc(diag->items, (size_t)diag->capacity * sizeof(*diag->items));
  }
  if (loc.file) loc.file = ptc_arena_strdup(&diag->arena, loc.file);
  diag->items[diag->num_items++] = (ptc_diagnostic_t){
      .severity = severity, .id = ptc_arena_strdup(&diag->arena, id), .loc = loc,
      .message = message};
}

// A marker item that swallows the notes of a dropped error.
static const char dropped_id[] = "";

ptc_status_t ptc_error(ptc_diag_t *diag, ptc_loc_t loc, ptc_status_t status, const char *id,
                       const char *format, ...) {
  int64_t max_errors = diag->max_errors ? diag->max_errors : DEFAULT_MAX_ERRORS;
  // Beyond the limit errors are only counted, so that a text of nothing but errors takes no time.
  bool keep = diag->num_errors >= max_errors || !is_repeated(diag, loc, id);
  if (keep) diag->num_errors++;
  if (!keep || diag->num_errors > max_errors) {
    bool marked = diag->num_items && !diag->items[diag->num_items - 1].message;
    if (!marked) record(diag, PTC_NOTE, (ptc_loc_t){0}, dropped_id, NULL);
    return status;
  }
  va_list args;
  va_start(args, format);
  record(diag, PTC_ERROR, loc, id, ptc_arena_vprintf(&diag->arena, format, args));
  va_end(args);
  return status;
}

void ptc_warning(ptc_diag_t *diag, ptc_loc_t loc, const char *id, const char *format, ...) {
  va_list args;
  va_start(args, format);
  record(diag, PTC_WARNING, loc, id, ptc_arena_vprintf(&diag->arena, format, args));
  va_end(args);
}

void ptc_note(ptc_diag_t *diag, ptc_loc_t loc, const char *format, ...) {
  if (!diag->num_items || !diag->items[diag->num_items - 1].message) return;
  va_list args;
  va_start(args, format);
  record(diag, PTC_NOTE, loc, diag->items[diag->num_items - 1].id,
         ptc_arena_vprintf(&diag->arena, format, args));
  va_end(args);
}

static void print_excerpt(const ptc_diag_t *diag, FILE *out, ptc_loc_t loc, bool color) {
  const ptc_source_t *source = diag->sources;
  while (source && strcmp(source->file, loc.file) != 0) source = source->next;
  if (!source || loc.line < 1) return;
  const char *line = source->text, *end = source->text + source->len;
  for (int32_t i = 1; i < loc.line && line < end; i++) {
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    line = newline ? newline + 1 : end;
  }
  const char *newline = memchr(line, '\n', (size_t)(end - line));
  size_t len = (size_t)((newline ? newline : end) - line);
  size_t column = loc.column > 0 ? (size_t)loc.column - 1 : 0;
  // A very long line is shown around the column.
  size_t start = column > MAX_EXCERPT - 40 ? column - (MAX_EXCERPT - 40) : 0;
  if (start > len) start = len;
  if (len - start > MAX_EXCERPT) len = start + MAX_EXCERPT;
  fprintf(out, "%5" PRId32 " | ", loc.line);
  for (size_t i = start; i < len; i++) {
    unsigned char c = (unsigned char)line[i];
    fputc(c == '\t' ? ' ' : c < 0x20 || c == 0x7f ? '?' : c, out);
  }
  fprintf(out, "\n      | ");
  for (size_t i = start; i < column; i++) {
    // UTF-8 continuation bytes take no column on the screen.
    if (i < len && ((unsigned char)line[i] & 0xc0) == 0x80) continue;
    fputc(' ', out);
  }
  fprintf(out, color ? "\033[1;32m^\033[0m\n" : "^\n");
}

static const char *const severity_names[] = {"error", "warning", "note"};

static void print_text(const ptc_diag_t *diag, const ptc_diagnostic_t *item, FILE *out,
                       bool color) {
  static const char *const colors[] = {"\033[1;31m", "\033[1;35m", "\033[1;36m"};
  if (item->loc.file && item->loc.line > 0)
    fprintf(out, "%s:%" PRId32 ":%" PRId32 ": ", item->loc.file, item->loc.line, item->loc.column);
  else if (item->loc.file)
    fprintf(out, "%s: ", item->loc.file);
  else
    fprintf(out, "ptc: ");
  fprintf(out, "%s%s:%s %s", color ? colors[item->severity] : "", severity_names[item->severity],
          color ? "\033[0m" : "", item->message);
  if (item->severity != PTC_NOTE) fprintf(out, " [%s]", item->id);
  fputc('\n', out);
  if (item->loc.file) print_excerpt(diag, out, item->loc, color);
}

static void print_json_string(FILE *out, const char *text) {
  fputc('"', out);
  for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
    if (*p == '"' || *p == '\\') fprintf(out, "\\%c", *p);
    else if (*p < 0x20) fprintf(out, "\\u%04x", *p);
    else fputc(*p, out);
  }
  fputc('"', out);
}

static void print_json(const ptc_diagnostic_t *item, FILE *out) {
  fprintf(out, "{\"severity\":\"%s\",\"id\":\"%s\",\"file\":", severity_names[item->severity],
          item->id);
  if (item->loc.file) print_json_string(out, item->loc.file);
  else fputs("null", out);
  fprintf(out, ",\"line\":%" PRId32 ",\"column\":%" PRId32 ",\"message\":", item->loc.line,
          item->loc.column);
  print_json_string(out, item->message);
  fputs("}\n", out);
}

void ptc_diag_print(const ptc_diag_t *diag, FILE *out, ptc_diag_format_t format, bool color) {
  for (int64_t i = 0; i < diag->num_items; i++) {
    const ptc_diagnostic_t *item = &diag->items[i];
    if (!item->message) continue;
    if (format == PTC_DIAG_JSON) print_json(item, out);
    else print_text(diag, item, out, color);
  }
  int64_t max_errors = diag->max_errors ? diag->max_errors : DEFAULT_MAX_ERRORS;
  if (diag->num_errors > max_errors && format == PTC_DIAG_TEXT)
    fprintf(out, "ptc: %" PRId64 " more errors not shown\n", diag->num_errors - max_errors);
}
