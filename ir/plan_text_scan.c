// Words, numbers and texts of stage0.steps. Any content is allowed.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ir/plan_text_impl.h"

#define FAULT(id, ...) ptc_error(r->diag, ptc_scan_here(r), PTC_INVALID_INPUT, (id), __VA_ARGS__)

void ptc_plan_grow(ptc_arena_t *arena, void *array, size_t elem_bytes, int32_t count,
                   int32_t *capacity) {
  if (count < *capacity) return;
  void **slot = array;
  const int32_t room = *capacity ? 2 * *capacity : 4;
  void *larger = ptc_arena_calloc(arena, (size_t)room, elem_bytes);
  if (count) memcpy(larger, *slot, (size_t)count * elem_bytes);
  *slot = larger;
  *capacity = room;
}

// --- characters and words

ptc_loc_t ptc_scan_here(const ptc_plan_reader_t *r) {
  return (ptc_loc_t){r->plan->steps_file, r->line, (int32_t)(r->at - r->line_start) + 1};
}

char ptc_scan_peek(const ptc_plan_reader_t *r) { return r->at < r->end ? *r->at : '\0'; }

void ptc_scan_skip_blanks(ptc_plan_reader_t *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r')) r->at++;
  if (ptc_scan_peek(r) == '#')
    while (r->at < r->end && *r->at != '\n') r->at++;
}

// To the first word of the next line that has one.
void ptc_scan_skip_lines(ptc_plan_reader_t *r) {
  for (ptc_scan_skip_blanks(r); ptc_scan_peek(r) == '\n' && r->at < r->end;
       ptc_scan_skip_blanks(r)) {
    r->line_start = ++r->at;
    r->line++;
  }
}

bool ptc_scan_at_line_end(ptc_plan_reader_t *r) {
  ptc_scan_skip_blanks(r);
  return r->at == r->end || *r->at == '\n';
}

ptc_status_t ptc_scan_expect_line_end(ptc_plan_reader_t *r) {
  if (ptc_scan_at_line_end(r)) return PTC_OK;
  return FAULT("plan-text", "unexpected text before the end of the line");
}

static bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

size_t ptc_scan_word_length(ptc_plan_reader_t *r) {
  ptc_scan_skip_blanks(r);
  size_t len = 0;
  while (r->at + len < r->end && is_word_char(r->at[len])) len++;
  return len;
}

// Takes |word| if it comes next.
bool ptc_scan_take_word(ptc_plan_reader_t *r, const char *word) {
  const size_t len = ptc_scan_word_length(r);
  if (len != strlen(word) || memcmp(r->at, word, len) != 0) return false;
  r->at += len;
  return true;
}

ptc_status_t ptc_scan_expect_word(ptc_plan_reader_t *r, const char *word) {
  if (ptc_scan_take_word(r, word)) return PTC_OK;
  return FAULT("plan-text", "expected '%s'", word);
}

bool ptc_scan_take_char(ptc_plan_reader_t *r, char c) {
  if (r->at == r->end || *r->at != c) return false;
  r->at++;
  return true;
}

ptc_status_t ptc_scan_expect_char(ptc_plan_reader_t *r, char c) {
  if (ptc_scan_take_char(r, c)) return PTC_OK;
  return FAULT("plan-text", "expected '%c'", c);
}

// --- numbers

// Digits alone, at the cursor.
ptc_status_t ptc_scan_digits(ptc_plan_reader_t *r, int64_t max, int64_t *out) {
  const ptc_loc_t loc = ptc_scan_here(r);
  if (!(ptc_scan_peek(r) >= '0' && ptc_scan_peek(r) <= '9'))
    return FAULT("plan-text", "expected a number");
  int64_t value = 0;
  bool ok = true;
  for (; ptc_scan_peek(r) >= '0' && ptc_scan_peek(r) <= '9'; r->at++)
    ok = ok && !__builtin_mul_overflow(value, 10, &value) &&
         !__builtin_add_overflow(value, *r->at - '0', &value);
  *out = value;
  if (ok && value <= max) return PTC_OK;
  return ptc_error(r->diag, loc, PTC_INVALID_INPUT, "plan-number",
                   "this number is larger than %" PRId64, max);
}

ptc_status_t ptc_scan_signed(ptc_plan_reader_t *r, int64_t *out) {
  const bool negative = ptc_scan_take_char(r, '-');
  if (!negative) (void)ptc_scan_take_char(r, '+');
  PTC_TRY(ptc_scan_digits(r, PTC_PLAN_MAX_NUMBER, out));
  if (negative) *out = -*out;
  return PTC_OK;
}

ptc_status_t ptc_scan_number(ptc_plan_reader_t *r, int64_t max, int64_t *out) {
  ptc_scan_skip_blanks(r);
  return ptc_scan_digits(r, max, out);
}

ptc_status_t ptc_scan_int32(ptc_plan_reader_t *r, int32_t *out) {
  int64_t value;
  PTC_TRY(ptc_scan_number(r, INT32_MAX, &value));
  *out = (int32_t)value;
  return PTC_OK;
}

ptc_status_t ptc_scan_float(ptc_plan_reader_t *r, double *out) {
  enum { MAX_LEN = 40 };
  ptc_scan_skip_blanks(r);
  char text[MAX_LEN + 1];
  size_t len = 0;
  while (r->at + len < r->end && len < MAX_LEN && strchr("0123456789.e+-", r->at[len]) &&
         r->at[len])
    len++;
  memcpy(text, r->at, len);
  text[len] = '\0';
  char *end;
  *out = strtod(text, &end);
  if (!len || *end || !(*out >= 0 && *out <= 1e300))
    return FAULT("plan-number", "expected a number from 0 to 1e300");
  r->at += len;
  return PTC_OK;
}

// --- text

static int hex_value(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// One character, escapes resolved; '\0' for what is not allowed.
static char read_char(ptc_plan_reader_t *r) {
  char c = *r->at++;
  if (c != '\\') return c == '\n' ? '\0' : c;
  if (r->at == r->end) return '\0';
  c = *r->at++;
  if (c == 'n') return '\n';
  if (c == 't') return '\t';
  if (c == '"' || c == '\'' || c == '\\') return c;
  if (c != 'x' || r->end - r->at < 2) return '\0';
  const int high = hex_value(r->at[0]), low = hex_value(r->at[1]);
  r->at += 2;
  return high < 0 || low < 0 ? '\0' : (char)(high * 16 + low);
}

// Text between two |quote|, at the cursor.
static ptc_status_t read_quoted(ptc_plan_reader_t *r, char quote, const char **out) {
  const ptc_loc_t loc = ptc_scan_here(r);
  PTC_TRY(ptc_scan_expect_char(r, quote));
  const char *start = r->at;
  size_t len = 0;
  bool ok = true;
  while (ok && r->at < r->end && *r->at != quote) {
    ok = read_char(r) != '\0';
    len++;
  }
  if (!ok || r->at >= r->end) {
    r->at = start;
    return ptc_error(r->diag, loc, PTC_INVALID_INPUT, "plan-text",
                     "this text has no closing quote on its line, or a bad escape");
  }
  char *text = ptc_arena_alloc(r->arena, len + 1);
  r->at = start;
  for (size_t i = 0; i < len; ++i) text[i] = read_char(r);
  r->at++;
  *out = text;
  return PTC_OK;
}

ptc_status_t ptc_scan_string(ptc_plan_reader_t *r, const char **out) {
  ptc_scan_skip_blanks(r);
  return read_quoted(r, '"', out);
}

// A word, or text in single quotes.
ptc_status_t ptc_scan_name(ptc_plan_reader_t *r, const char **out) {
  const size_t len = ptc_scan_word_length(r);
  if (!len) return read_quoted(r, '\'', out);
  *out = ptc_arena_strndup(r->arena, r->at, len);
  r->at += len;
  return PTC_OK;
}

ptc_status_t ptc_scan_word(ptc_plan_reader_t *r, const char **out) {
  const size_t len = ptc_scan_word_length(r);
  if (!len) return FAULT("plan-text", "expected a word");
  *out = ptc_arena_strndup(r->arena, r->at, len);
  r->at += len;
  return PTC_OK;
}

// `at "file":line`, or nothing.
ptc_status_t ptc_scan_loc(ptc_plan_reader_t *r, const char **out_file, int32_t *out_line) {
  if (!ptc_scan_take_word(r, "at")) return PTC_OK;
  PTC_TRY(ptc_scan_string(r, out_file));
  PTC_TRY(ptc_scan_expect_char(r, ':'));
  int64_t line;
  PTC_TRY(ptc_scan_digits(r, INT32_MAX, &line));
  *out_line = (int32_t)line;
  return PTC_OK;
}
