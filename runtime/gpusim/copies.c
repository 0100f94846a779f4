// cp.async: the bytes are copied at the wait, as late as the hardware may, so that a missing wait shows.
#include <inttypes.h>

#include "runtime/gpusim/handlers_impl.h"

void sim_copy_async(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  const sim_copying_t *copying = op->extra;
  uint64_t to[SIM_LANES], from[SIM_LANES];
  uint32_t reading = 0;
  sim_addresses(warp, op, copying->to_width, copying->to_offset, to);
  SIM_FOR_LANES(lane, mask) {
    from[lane] = sim_get(warp, op->b, copying->from_width, lane) + (uint64_t)copying->from_offset;
    int64_t size = copying->bytes;
    if (copying->has_size) size = (int64_t)sim_get(warp, op->c, PTX_WIDTH_32, lane);
    if (size > copying->bytes) {
      sim_fault(warp, op, (int32_t)lane, SIM_FAULT_BOUNDS,
                "cp.async of %" PRId64 " bytes into a place for %" PRId32, size, copying->bytes);
      return;
    }
    if (!sim_resolve(warp, op, (int32_t)lane, PTX_SPACE_SHARED, to[lane], copying->bytes,
                     SIM_COPY_BEGIN))
      return;
    if (from[lane] & (uint64_t)(copying->bytes - 1)) {
      sim_resolve(warp, op, (int32_t)lane, PTX_SPACE_GLOBAL, from[lane], copying->bytes, SIM_READ);
      return;
    }
    // The size read need be no power of two: bounds byte by byte at the ends.
    for (int64_t i = 0; i<size; i += size> 1 ? size - 1 : 1)
      if (!sim_resolve(warp, op, (int32_t)lane, PTX_SPACE_GLOBAL, from[lane] + (uint64_t)i, 1,
                       SIM_READ))
        return;
    reading |= (uint32_t)(size > 0) << lane;
    const sim_copy_t copy = {.to = (uint32_t)to[lane],
                             .from = from[lane],
                             .bytes = (uint8_t)copying->bytes,
                             .read_bytes = (uint8_t)size,
                             .lane = (uint8_t)lane,
                             .group = warp->group[lane]};
    PTC_VEC_PUSH(&warp->copies, copy);
  }
  if (!warp->block->counts) return;
  if (reading) sim_count_global(warp->block, from, reading, copying->bytes, false);
  sim_count_shared(&warp->block->counters, to, mask, copying->bytes);
}

void sim_copy_commit(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  (void)op;
  SIM_FOR_LANES(lane, mask)++ warp->group[lane];
}

void sim_copy_wait(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  const int32_t *may_stay = op->extra;
  int64_t kept = 0;
  for (int64_t i = 0; i < warp->copies.len; ++i) {
    const sim_copy_t copy = warp->copies.data[i];
    const bool waits = mask >> copy.lane & 1;
    if (!waits || (may_stay && copy.group >= warp->group[copy.lane] - *may_stay)) {
      warp->copies.data[kept++] = copy;
      continue;
    }
    if (warp->block->shadow &&
        !sim_shadow_access(warp, op, copy.lane, SIM_COPY_END, copy.to, copy.bytes))
      return;
    unsigned char *to = warp->block->shared + copy.to;
    memcpy(to, (const void *)(uintptr_t)copy.from, copy.read_bytes);
    memset(to + copy.read_bytes, 0, (size_t)(copy.bytes - copy.read_bytes));
  }
  warp->copies.len = kept;
}
