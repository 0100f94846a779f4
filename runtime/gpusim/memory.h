// The device's global memory: allocations in the host's memory, with what has been written of each.
#ifndef PTC_RUNTIME_GPUSIM_MEMORY_H_
#define PTC_RUNTIME_GPUSIM_MEMORY_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ir/base/vec.h"

typedef struct sim_alloc_s {
  uint64_t address, bytes;
  unsigned char *valid;  // per byte, whether it has been written; NULL: not followed
} sim_alloc_t;

// Not to be changed while a kernel runs.
typedef struct sim_memory_s {
  PTC_VEC(sim_alloc_t) allocs;       // by address
  bool follow;                       // which bytes have been written
  uint64_t used_bytes, limit_bytes;  // limit 0: what the host gives
} sim_memory_t;

void sim_memory_deinit(sim_memory_t *memory);
// 256-aligned memory filled with 0xff; 0 if there is none.
uint64_t sim_memory_alloc(sim_memory_t *memory, uint64_t bytes);
// False if |address| is no allocation.
bool sim_memory_free(sim_memory_t *memory, uint64_t address);
// The allocation that holds all of the range, or NULL.
const sim_alloc_t *sim_memory_find(const sim_memory_t *memory, uint64_t address, uint64_t bytes);
// The allocation whose end is nearest below |address| or that holds it, for messages; NULL if there is none.
const sim_alloc_t *sim_memory_near(const sim_memory_t *memory, uint64_t address);
// Notes that the range has been written; it is inside |alloc|.
void sim_memory_wrote(const sim_alloc_t *alloc, uint64_t address, uint64_t bytes);

#endif  // PTC_RUNTIME_GPUSIM_MEMORY_H_
