#include "ir/base/str.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/arena.h"

enum { MAX_FILE_BYTES = 256 * 1024 * 1024 };

static void reserve(ptc_str_t *str, size_t extra) {
  if (str->len + extra + 1 <= str->cap) return;
  size_t cap = str->cap ? 2 * str->cap : 64;
  while (cap < str->len + extra + 1) cap *= 2;
  str->data = ptc_xrealloc(str->data, cap);
  str->cap = cap;
}

void ptc_str_append_n(ptc_str_t *str, const char *text, size_t len) {
  reserve(str, len);
  if (len) memcpy(str->data + str->len, text, len);
  str->len += len;
  str->data[str->len] = '\0';
}

void ptc_str_append(ptc_str_t *str, const char *text) { ptc_str_append_n(str, text, strlen(text)); }

void ptc_str_printf(ptc_str_t *str, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int len = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (len > 0) {
    reserve(str, (size_t)len);
    vsnprintf(str->data + str->len, (size_t)len + 1, format, again);
    str->len += (size_t)len;
  }
  va_end(again);
}

void ptc_str_deinit(ptc_str_t *str) {
  free(str->data);
  *str = (ptc_str_t){0};
}

void ptc_str_append_double(ptc_str_t *str, double value) {
  if (isnan(value)) {
    ptc_str_append(str, "nan");
  } else if (isinf(value)) {
    ptc_str_append(str, value < 0 ? "-inf" : "inf");
  } else {
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
      snprintf(text, sizeof(text), "%.*g", digits, value);
      if (strtod(text, NULL) == value) break;
    }
    ptc_str_append(str, text);
  }
}

static void append_escaped(ptc_str_t *str, const char *text, char quote) {
  ptc_str_append_n(str, &quote, 1);
  for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
    if (*p == (unsigned char)quote || *p == '\\')
      ptc_str_printf(str, "\\%c", *p);
    else if (*p == '\n')
      ptc_str_append(str, "\\n");
    else if (*p == '\t')
      ptc_str_append(str, "\\t");
    else if (*p < 0x20 || *p > 0x7e)
      ptc_str_printf(str, "\\x%02x", *p);
    else
      ptc_str_append_n(str, (const char *)p, 1);
  }
  ptc_str_append_n(str, &quote, 1);
}

void ptc_str_append_quoted(ptc_str_t *str, const char *text) { append_escaped(str, text, '"'); }

void ptc_str_append_name(ptc_str_t *str, const char *text) {
  static const char *const literals[] = {"true", "false", "inf", "nan"};
  bool bare = *text && !(*text >= '0' && *text <= '9');
  for (const char *p = text; *p && bare; p++)
    bare = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
           *p == '_';
  for (size_t i = 0; i < sizeof(literals) / sizeof(*literals); i++)
    bare = bare && strcmp(text, literals[i]) != 0;
  if (bare)
    ptc_str_append(str, text);
  else
    append_escaped(str, text, '\'');
}

int ptc_edit_distance(const char *a, const char *b, int limit) {
  enum { MAX_LEN = 63 };
  size_t n = strlen(a), m = strlen(b);
  if (n > MAX_LEN || m > MAX_LEN) return limit + 1;
  int rows[3][MAX_LEN + 1];
  for (size_t j = 0; j <= m; j++) rows[0][j] = (int)j;
  for (size_t i = 1; i <= n; i++) {
    int *row = rows[i % 3], *prev = rows[(i + 2) % 3], *prev2 = rows[(i + 1) % 3];
    row[0] = (int)i;
    for (size_t j = 1; j <= m; j++) {
      int best = prev[j - 1] + (a[i - 1] != b[j - 1]);
      if (prev[j] + 1 < best) best = prev[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && prev2[j - 2] + 1 < best)
        best = prev2[j - 2] + 1;
      row[j] = best;
    }
  }
  int distance = rows[n % 3][m];
  return distance > limit ? limit + 1 : distance;
}

const char *ptc_nearest_name(const char *name, const char *const *candidates, int64_t count) {
  size_t len = strlen(name);
  int limit = len <= 2 ? 0 : len <= 4 ? 1 : 2;
  const char *best = NULL;
  for (int64_t i = 0; i < count; i++) {
    int distance = ptc_edit_distance(name, candidates[i], limit);
    if (distance <= limit && distance > 0) {
      best = candidates[i];
      limit = distance - 1;
    }
  }
  return best;
}

ptc_status_t ptc_read_file(const char *path, char **out_text, size_t *out_len) {
  *out_text = NULL;
  *out_len = 0;
  bool is_stdin = strcmp(path, "-") == 0;
  FILE *file = is_stdin ? stdin : fopen(path, "rb");
  if (!file) return PTC_IO;
  ptc_str_t text = {0};
  char block[16384];
  size_t n;
  int error = 0;
  errno = 0;
  while ((n = fread(block, 1, sizeof(block), file)) > 0) {
    if (text.len + n > MAX_FILE_BYTES) {
      error = EFBIG;
      break;
    }
    ptc_str_append_n(&text, block, n);
  }
  if (!error && ferror(file)) error = errno ? errno : EIO;
  if (!is_stdin) fclose(file);
  if (error) {
    ptc_str_deinit(&text);
    errno = error;
    return PTC_IO;
  }
  ptc_str_append_n(&text, "", 0);
  *out_text = text.data;
  *out_len = text.len;
  return PTC_OK;
}
