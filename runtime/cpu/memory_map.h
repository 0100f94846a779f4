// The memory of a run, straight from the system.
#ifndef PTC_RUNTIME_CPU_MEMORY_MAP_H_
#define PTC_RUNTIME_CPU_MEMORY_MAP_H_

#include "ir/base/diag.h"

// |num_bytes| zeroed bytes, aligned to at least 2 MiB, in huge pages where the system has them.
// Diagnostics: "out-of-memory" (PTC_INFEASIBLE), a warning "little-memory" if less is free.
ptc_status_t ptc_memory_map(ptc_diag_t *diag, int64_t num_bytes, void **out_memory);
// Makes the system hand out now the memory behind |num_bytes| bytes of a mapping, which it else does page by page
// as they are first used. Keeps their content; nobody writes to them meanwhile.
void ptc_memory_populate(void *memory, int64_t num_bytes);
void ptc_memory_unmap(void *memory, int64_t num_bytes);  // NULL is allowed

// Bytes of this process in memory now, and at most so far; 0 where the system does not tell.
int64_t ptc_memory_resident(void);
int64_t ptc_memory_peak(void);

#endif  // PTC_RUNTIME_CPU_MEMORY_MAP_H_
