// Numbers as people read them.
#ifndef PTC_FRONTEND_DRIVER_UNITS_H_
#define PTC_FRONTEND_DRIVER_UNITS_H_

#include <stdint.h>

enum { PTC_UNIT_CHARS = 24 };

// "2.91 GiB", "512 B". Returns |out|.
const char *ptc_unit_bytes(int64_t bytes, char out[PTC_UNIT_CHARS]);
// "788 G", "1.5 M", "12". Returns |out|.
const char *ptc_unit_count(double count, char out[PTC_UNIT_CHARS]);
// "1:02:03", "4:05", "12 s", "0.35 s". Returns |out|.
const char *ptc_unit_time(double seconds, char out[PTC_UNIT_CHARS]);

#endif  // PTC_FRONTEND_DRIVER_UNITS_H_
