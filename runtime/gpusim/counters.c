// What one access of a warp costs: sectors of global memory, passes over the banks of shared memory.
#include "runtime/gpusim/exec_impl.h"

enum { SECTOR = 32, BANKS = 32, BANK_BYTES = 4 };

// The addresses of |mask| in rising order; their number.
static int sort_addresses(const uint64_t address[SIM_LANES], uint32_t mask,
                          uint64_t out[SIM_LANES]) {
  int count = 0;
  SIM_FOR_LANES(lane, mask) {
    int at = count++;
    for (; at > 0 && out[at - 1] > address[lane]; --at) out[at] = out[at - 1];
    out[at] = address[lane];
  }
  return count;
}

// Notes that |sector| is touched; whether it was not among the recent ones.
static bool is_new(uint64_t recent[SIM_RECENT_SETS][SIM_RECENT_WAYS], uint64_t sector) {
  uint64_t *set = recent[sector % SIM_RECENT_SETS];
  int way = 0;
  while (way < SIM_RECENT_WAYS && set[way] != sector) ++way;
  const bool found = way < SIM_RECENT_WAYS;
  for (int w = found ? way : SIM_RECENT_WAYS - 1; w > 0; --w) set[w] = set[w - 1];
  set[0] = sector;
  return !found;
}

void sim_count_global(sim_block_t *block, const uint64_t address[SIM_LANES], uint32_t mask,
                      int64_t bytes, bool is_write) {
  sim_counters_t *counters = &block->counters;
  uint64_t sorted[SIM_LANES], covered = 0, last_sector = UINT64_MAX;
  const int count = sort_addresses(address, mask, sorted);
  int64_t unique = 0, sectors = 0;
  for (int i = 0; i < count; ++i) {
    const uint64_t begin = sorted[i], end = begin + (uint64_t)bytes;
    unique += (int64_t)(end > covered ? end - (begin > covered ? begin : covered) : 0);
    covered = end;
    for (uint64_t s = begin / SECTOR; s <= (end - 1) / SECTOR; ++s)
      if (last_sector == UINT64_MAX || s > last_sector) {
        ++sectors, last_sector = s;
        counters->moved_sectors += is_new(block->recent->sectors[is_write], s);
      }
  }
  counters->global_sectors += sectors;
  counters->least_sectors += (unique + SECTOR - 1) / SECTOR;
  *(is_write ? &counters->global_write_bytes : &counters->global_read_bytes) += count * bytes;
}

// Accesses of 8 and 16 bytes go in two and four turns of lanes.
void sim_count_shared(sim_counters_t *counters, const uint64_t address[SIM_LANES], uint32_t mask,
                      int64_t bytes) {
  const uint32_t turns = bytes <= 4 ? 1 : bytes <= 8 ? 2 : 4, lanes = SIM_LANES / turns;
  for (uint32_t t = 0; t < turns; ++t) {
    const uint32_t part = turns == 1 ? mask : mask >> (t * lanes) & ((UINT32_C(1) << lanes) - 1);
    if (!part) continue;
    uint64_t words[SIM_LANES * 4];
    int count = 0, per_bank[BANKS] = {0}, passes = 1;
    SIM_FOR_LANES(i, part) {
      const uint64_t begin = address[t * lanes + i] / BANK_BYTES,
                     end = (address[t * lanes + i] + (uint64_t)bytes - 1) / BANK_BYTES;
      for (uint64_t word = begin; word <= end; ++word) {
        int w = 0;
        while (w < count && words[w] != word) ++w;
        if (w < count) continue;
        words[count++] = word;
        if (++per_bank[word % BANKS] > passes) passes = per_bank[word % BANKS];
      }
    }
    counters->shared_passes += passes;
    counters->shared_conflicts += passes - 1;
  }
}
