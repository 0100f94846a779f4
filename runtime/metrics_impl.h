// What the writer and the reader of metrics share.
#ifndef PTC_RUNTIME_METRICS_IMPL_H_
#define PTC_RUNTIME_METRICS_IMPL_H_

#include "runtime/metrics.h"

// Reads one line into |out_record|, whose texts live in |arena|. NULL, or what is wrong (a static text).
const char *ptc_metrics_parse_line(const char *line, size_t len, ptc_arena_t *arena,
                                   ptc_metrics_record_t *out_record);

#endif  // PTC_RUNTIME_METRICS_IMPL_H_
