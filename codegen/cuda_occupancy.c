#include "codegen/cuda_occupancy.h"

#include <stdlib.h>
#include <string.h>

// CUDA Programming Guide 13.0, "Compute Capabilities", tables of technical specifications and of shared memory per
// capability: resident warps and blocks, registers and shared memory of a multiprocessor. A block takes 1 KiB of shared
// memory more than it asks for (Ampere and Hopper Tuning Guides, "Unified Shared Memory").
typedef struct limits_s {
  int32_t capability, warps, blocks, registers, shared_kib;
} limits_t;

static const limits_t all_limits[] = {
    {80, 64, 32, 65536, 164}, {86, 48, 16, 65536, 100},  {89, 48, 24, 65536, 100},
    {90, 64, 32, 65536, 228}, {100, 64, 32, 65536, 228},
};

// Granularity of allocation, the same for all of them (cuda_occupancy.h of the toolkit): registers by warp, warps by the
// four parts of a multiprocessor, shared memory by block.
enum {
  WARP_THREADS = 32,
  REGISTER_UNIT = 256,
  WARP_UNIT = 4,
  SHARED_UNIT = 128,
  SHARED_OF_SYSTEM = 1024
};

static int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

static const limits_t *find_limits(const char *target) {
  if (strncmp(target, "sm_", 3) != 0) return NULL;
  const long capability = strtol(target + 3, NULL, 10);
  for (size_t i = 0; i < sizeof all_limits / sizeof *all_limits; i++)
    if (all_limits[i].capability == capability) return &all_limits[i];
  return NULL;
}

bool ptc_cuda_occupancy(const char *target, const ptc_cuda_resources_t *resources,
                        int64_t num_threads, ptc_cuda_occupancy_t *out_occupancy) {
  *out_occupancy = (ptc_cuda_occupancy_t){0};
  const limits_t *limits = find_limits(target);
  if (!limits || !resources->known || num_threads <= 0) return false;
  const int64_t warps = round_up(num_threads, WARP_THREADS) / WARP_THREADS;
  const int64_t warp_registers = round_up(resources->registers * WARP_THREADS, REGISTER_UNIT);
  // A warp's registers lie in one part of the multiprocessor.
  const int64_t by_registers =
      warp_registers ? limits->registers / WARP_UNIT / warp_registers * WARP_UNIT / warps
                     : limits->blocks;
  const int64_t shared = round_up(resources->shared_bytes + SHARED_OF_SYSTEM, SHARED_UNIT);
  const struct {
    int64_t blocks;
    const char *name;
  } bounds[] = {{limits->warps / warps, "warps"},
                {limits->blocks, "blocks"},
                {by_registers, "registers"},
                {(int64_t)limits->shared_kib * 1024 / shared, "shared memory"}};
  size_t least = 0;
  for (size_t i = 1; i < sizeof bounds / sizeof *bounds; i++)
    if (bounds[i].blocks < bounds[least].blocks) least = i;
  *out_occupancy = (ptc_cuda_occupancy_t){.blocks = bounds[least].blocks,
                                          .warps = bounds[least].blocks * warps,
                                          .max_warps = limits->warps,
                                          .limit = bounds[least].name};
  return true;
}
