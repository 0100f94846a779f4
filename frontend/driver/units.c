#include "frontend/driver/units.h"

#include <inttypes.h>
#include <stdio.h>

const char *ptc_unit_bytes(int64_t bytes, char out[PTC_UNIT_CHARS]) {
  static const char *const names[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) {
    snprintf(out, PTC_UNIT_CHARS, "%" PRId64 " B", bytes);
    return out;
  }
  int unit = 0;
  double value = (double)bytes / 1024;
  while (value >= 1000 && unit < 4) value /= 1024, unit++;
  snprintf(out, PTC_UNIT_CHARS, value < 10 ? "%.2f %s" : "%.1f %s", value, names[unit]);
  return out;
}

const char *ptc_unit_count(double count, char out[PTC_UNIT_CHARS]) {
  static const char *const names[] = {"", " k", " M", " G", " T", " P"};
  int unit = 0;
  while (count >= 999.5 && unit < 5) count /= 1000, unit++;
  snprintf(out, PTC_UNIT_CHARS, unit == 0 || count >= 100 ? "%.0f%s" : "%.3g%s", count,
           names[unit]);
  return out;
}

const char *ptc_unit_time(double seconds, char out[PTC_UNIT_CHARS]) {
  const int64_t whole = (int64_t)(seconds + 0.5);
  if (seconds < 10)
    snprintf(out, PTC_UNIT_CHARS, "%.2f s", seconds);
  else if (whole < 100)
    snprintf(out, PTC_UNIT_CHARS, "%" PRId64 " s", whole);
  else if (whole < 3600)
    snprintf(out, PTC_UNIT_CHARS, "%" PRId64 ":%02" PRId64, whole / 60, whole % 60);
  else if (seconds < 1e9)
    snprintf(out, PTC_UNIT_CHARS, "%" PRId64 ":%02" PRId64 ":%02" PRId64, whole / 3600,
             whole / 60 % 60, whole % 60);
  else
    snprintf(out, PTC_UNIT_CHARS, "?");
  return out;
}
