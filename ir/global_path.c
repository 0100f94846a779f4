// Which globals a path of a `shard` or `cut` statement names.
#include <stdlib.h>
#include <string.h>

#include "ir/module.h"

// Whether pattern segment |p| (name, number, *, a..b) fits segment |g| of a global's path.
static bool segment_fits(const char *p, size_t len_p, const char *g, size_t len_g, int64_t first,
                         int64_t step, int64_t count) {
  if (len_p == 1 && *p == '*') return true;
  bool star = len_g == 1 && *g == '*';
  if (*p < '0' || *p > '9') return !star && len_p == len_g && strncmp(p, g, len_p) == 0;
  char *end;
  int64_t lo = strtoll(p, &end, 10), hi = lo;
  if (end < p + len_p && end[0] == '.' && end[1] == '.') hi = strtoll(end + 2, NULL, 10);
  if (!star) {
    if (*g < '0' || *g > '9') return false;
    first = strtoll(g, NULL, 10);
    step = count = 1;
  }
  for (int64_t i = 0; i < count; i++)
    if (first + i * step >= lo && first + i * step <= hi) return true;
  return false;
}

// A range a..b holds the separator: it is one segment.
static size_t pattern_segment(const char *p) {
  size_t len = strcspn(p, ".");
  if (p[len] == '.' && p[len + 1] == '.') len += 2 + strcspn(p + len + 2, ".");
  return len;
}

bool ptc_global_path_fits(const ptc_global_t *global, const char *pattern, bool prefix) {
  const char *p = pattern, *g = global->path;
  int32_t star = 0;
  while (*p && *g) {
    size_t len_p = pattern_segment(p), len_g = strcspn(g, ".");
    bool is_star = len_g == 1 && *g == '*';
    if (!segment_fits(p, len_p, g, len_g, is_star ? global->turn_first[star] : 0,
                      is_star ? global->turn_step[star] : 1,
                      is_star ? global->type->counts[star] : 1))
      return false;
    star += is_star;
    p += len_p + (p[len_p] == '.');
    g += len_g + (g[len_g] == '.');
  }
  return !*p && (prefix || !*g);
}

bool ptc_path_segment_has_turn(const char *segment, size_t len, int64_t turn) {
  return segment_fits(segment, len, "*", 1, turn, 1, 1);
}

bool ptc_path_turn_segment(const char *pattern, int32_t depth, const char **out_segment,
                           size_t *out_len, const char **out_name, size_t *out_name_len) {
  *out_name = pattern;
  *out_name_len = 0;
  for (const char *p = pattern; *p;) {
    const size_t len = pattern_segment(p);
    const bool turn = *p == '*' || (*p >= '0' && *p <= '9');
    if (turn && depth-- == 0) {
      *out_segment = p;
      *out_len = len;
      return true;
    }
    if (!turn) {
      *out_name = p;
      *out_name_len = len;
    }
    p += len + (p[len] == '.');
  }
  return false;
}
