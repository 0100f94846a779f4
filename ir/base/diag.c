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
  diag->items[diag->num_items++] = (ptc_diagnostic_t){.severity = severity,
                                                      .id = ptc_arena_strdup(&diag->arena, id),
                                                      .loc = loc,
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

void ptc_diag_pass_on(ptc_diag_t *diag, const ptc_diag_t *from, ptc_status_t status) {
  for (int64_t i = 0; i < from->num_items; i++) {
    const ptc_diagnostic_t *item = &from->items[i];
    if (!item->message) continue;  // marks a dropped error
    switch (item->severity) {
      case PTC_ERROR:
        (void)ptc_error(diag, item->loc, status, item->id, "%s", item->message);
        break;
      case PTC_WARNING: ptc_warning(diag, item->loc, item->id, "%s", item->message); break;
      case PTC_NOTE: ptc_note(diag, item->loc, "%s", item->message); break;
    }
  }
}

// Bytes of the printable UTF-8 character at |text|; 0 for anything that should not reach a terminal:
// control characters, the C1 controls among them, and bytes that are no UTF-8.
static size_t printable_length(const char *text, size_t len) {
  const unsigned char *p = (const unsigned char *)text;
  if (p[0] < 0x80) return p[0] >= 0x20 && p[0] != 0x7f;
  size_t size = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
  if (p[0] < 0xc2 || p[0] > 0xf4 || size > len) return 0;
  for (size_t i = 1; i < size; i++)
    if ((p[i] & 0xc0) != 0x80) return 0;
  // Overlong forms, surrogates, beyond U+10FFFF, C1 controls.
  if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
      (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f) ||
      (p[0] == 0xc2 && p[1] < 0xa0))
    return 0;
  return size;
}

// |text| as it may stand on a terminal: a tab is a space, what is not printable is a '?'.
static void print_safe(FILE *out, const char *text, size_t len) {
  for (size_t i = 0; i < len;) {
    size_t size = printable_length(text + i, len - i);
    if (size)
      fwrite(text + i, 1, size, out);
    else
      fputc(text[i] == '\t' ? ' ' : '?', out);
    i += size ? size : 1;
  }
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
  // The excerpt may begin or end within a character: those bytes are left out.
  while (start > 0 && start < len && ((unsigned char)line[start] & 0xc0) == 0x80) start++;
  print_safe(out, line + start, len - start);
  fprintf(out, "\n      | ");
  for (size_t i = start; i < column;) {  // one space per character
    size_t size = i < len ? printable_length(line + i, len - i) : 1;
    i += size ? size : 1;
    fputc(' ', out);
  }
  fprintf(out, color ? "\033[1;32m^\033[0m\n" : "^\n");
}

static const char *const severity_names[] = {"error", "warning", "note"};

static void print_text(const ptc_diag_t *diag, const ptc_diagnostic_t *item, FILE *out,
                       bool color) {
  static const char *const colors[] = {"\033[1;31m", "\033[1;35m", "\033[1;36m"};
  const char *place = item->loc.file ? item->loc.file : "ptc";
  print_safe(out, place, strlen(place));
  if (item->loc.file && item->loc.line > 0)
    fprintf(out, ":%" PRId32 ":%" PRId32, item->loc.line, item->loc.column);
  fprintf(out, ": %s%s:%s ", color ? colors[item->severity] : "", severity_names[item->severity],
          color ? "\033[0m" : "");
  print_safe(out, item->message, strlen(item->message));
  if (item->severity != PTC_NOTE) fprintf(out, " [%s]", item->id);
  fputc('\n', out);
  if (item->loc.file) print_excerpt(diag, out, item->loc, color);
}

static void print_json_string(FILE *out, const char *text) {
  fputc('"', out);
  size_t len = strlen(text);
  for (size_t i = 0; i < len;) {
    unsigned char c = (unsigned char)text[i];
    size_t size = printable_length(text + i, len - i);
    if (c == '"' || c == '\\')
      fprintf(out, "\\%c", c);
    else if (size)
      fwrite(text + i, 1, size, out);
    else
      fprintf(out, "\\u%04x", c < 0x80 ? c : 0xfffd);  // JSON is UTF-8
    i += size ? size : 1;
  }
  fputc('"', out);
}

static void print_json(const ptc_diagnostic_t *item, FILE *out) {
  fprintf(out, "{\"severity\":\"%s\",\"id\":\"%s\",\"file\":", severity_names[item->severity],
          item->id);
  if (item->loc.file)
    print_json_string(out, item->loc.file);
  else
    fputs("null", out);
  fprintf(out, ",\"line\":%" PRId32 ",\"column\":%" PRId32 ",\"message\":", item->loc.line,
          item->loc.column);
  print_json_string(out, item->message);
  fputs("}\n", out);
}

static void print_items(const ptc_diag_t *diag, FILE *out, ptc_diag_format_t format, bool color) {
  for (int64_t i = 0; i < diag->num_items; i++) {
    const ptc_diagnostic_t *item = &diag->items[i];
    if (!item->message) continue;
    if (format == PTC_DIAG_JSON)
      print_json(item, out);
    else
      print_text(diag, item, out, color);
  }
  int64_t max_errors = diag->max_errors ? diag->max_errors : DEFAULT_MAX_ERRORS;
  if (diag->num_errors > max_errors && format == PTC_DIAG_TEXT)
    fprintf(out, "ptc: %" PRId64 " more errors not shown\n", diag->num_errors - max_errors);
}

void ptc_diag_print(const ptc_diag_t *diag, FILE *out, ptc_diag_format_t format, bool color) {
  // One write for all: ranks that share a terminal or a log must not tear each other's words.
  char *text = NULL;
  size_t len = 0;
  FILE *whole = open_memstream(&text, &len);
  if (whole) print_items(diag, whole, format, color);
  if (whole && fclose(whole) == 0)
    fwrite(text, 1, len, out);
  else
    print_items(diag, out, format, color);
  free(text);
}
