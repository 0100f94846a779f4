// A growable string, and small string helpers.
#ifndef PTC_IR_BASE_STR_H_
#define PTC_IR_BASE_STR_H_

#include <stddef.h>
#include <stdint.h>

#include "ir/base/status.h"

// Zero-initialize. |data| is NUL-terminated after the first append.
typedef struct ptc_str_s {
  char *data;
  size_t len, cap;
} ptc_str_t;

void ptc_str_append(ptc_str_t *str, const char *text);
void ptc_str_append_n(ptc_str_t *str, const char *text, size_t len);
void ptc_str_printf(ptc_str_t *str, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ptc_str_deinit(ptc_str_t *str);

// Appends |value| so that strtod gives the same double back, as short as possible ("0.02", "inf",
// "-inf", "nan"); a whole number prints without a point ("3").
void ptc_str_append_double(ptc_str_t *str, double value);
// Appends |text| in double quotes; quote, backslash and bytes outside 0x20..0x7e are escaped
// (\" \\ \n \t \xHH).
void ptc_str_append_quoted(ptc_str_t *str, const char *text);

// Appends |text| bare if it is an identifier that is no literal (true, false, inf, nan), else in
// single quotes with escapes: the form of dim and attribute names in .ptir.
void ptc_str_append_name(ptc_str_t *str, const char *text);

// Edit distance with adjacent transpositions, capped at |limit| + 1; for "did you mean".
int ptc_edit_distance(const char *a, const char *b, int limit);
// The entry of |candidates| nearest to |name| if it is near enough to be a misspelling, or NULL.
const char *ptc_nearest_name(const char *name, const char *const *candidates, int64_t count);

// Reads a whole file. On success |out_text| is malloc'ed, NUL-terminated (the caller frees it) and
// |out_len| excludes the NUL. "-" reads standard input. PTC_IO if it cannot be read (errno tells)
// or is larger than 256 MiB (errno EFBIG).
ptc_status_t ptc_read_file(const char *path, char **out_text, size_t *out_len);

#endif  // PTC_IR_BASE_STR_H_
