// Loads and stores, and the checks of every access to memory.
#include <inttypes.h>

#include "runtime/gpusim/handlers_impl.h"

static const char *const space_names[] = {"memory",        "parameters",    "local memory",
                                          "shared memory", "global memory", "constant memory"};

static void *out_of_bounds(sim_warp_t *warp, const sim_op_t *op, int32_t lane, ptx_space_t space,
                           uint64_t address, int64_t bytes, int64_t size) {
  if (space >= PTX_SPACE_GLOBAL || space == PTX_SPACE_NONE) {
    const sim_alloc_t *near = sim_memory_near(warp->block->launch->memory, address);
    if (near)
      sim_fault(warp, op, lane, SIM_FAULT_BOUNDS,
                "%" PRId64 " bytes at address 0x%" PRIx64
                " of global memory lie outside of every allocation; the nearest one, 0x%" PRIx64
                " of %" PRIu64 " bytes, ends %" PRIu64 " bytes before",
                bytes, address, near->address, near->bytes,
                address >= near->address + near->bytes ? address - near->address - near->bytes : 0);
    else
      sim_fault(warp, op, lane, SIM_FAULT_BOUNDS,
                "%" PRId64 " bytes at address 0x%" PRIx64
                " of global memory lie outside of every allocation",
                bytes, address);
  } else {
    sim_fault(warp, op, lane, SIM_FAULT_BOUNDS,
              "%" PRId64 " bytes at address 0x%" PRIx64 " of %s lie outside its %" PRId64 " bytes",
              bytes, address, space_names[space], size);
  }
  return NULL;
}

static void *resolve_global(sim_warp_t *warp, const sim_op_t *op, int32_t lane, uint64_t address,
                            int64_t bytes, sim_access_kind_t kind) {
  const sim_alloc_t *alloc = warp->alloc;
  if (!alloc || address < alloc->address || (uint64_t)bytes > alloc->bytes ||
      address - alloc->address > alloc->bytes - (uint64_t)bytes) {
    alloc = sim_memory_find(warp->block->launch->memory, address, (uint64_t)bytes);
    if (!alloc) return out_of_bounds(warp, op, lane, PTX_SPACE_GLOBAL, address, bytes, 0);
    warp->alloc = alloc;
  }
  if (alloc->valid) {
    unsigned char *valid = alloc->valid + (address - alloc->address);
    if (kind == SIM_WRITE) {
      memset(valid, 1, (size_t)bytes);
    } else if (warp->block->shadow && memchr(valid, 0, (size_t)bytes)) {
      sim_fault(warp, op, lane, SIM_FAULT_UNINIT,
                "global memory at address 0x%" PRIx64 " is read and was never written", address);
      return NULL;
    }
  }
  return (void *)(uintptr_t)address;
}

static void *resolve_local(sim_warp_t *warp, const sim_op_t *op, int32_t lane, uint64_t offset,
                           int64_t bytes, sim_access_kind_t kind) {
  sim_block_t *block = warp->block;
  const int64_t size = block->program->local_bytes;
  if (offset > (uint64_t)size || bytes > size - (int64_t)offset)
    return out_of_bounds(warp, op, lane, PTX_SPACE_LOCAL, offset, bytes, size);
  const int64_t at = (SIM_LANES * warp->index + lane) * block->local_stride + (int64_t)offset;
  if (block->local_valid && kind == SIM_WRITE) {
    memset(block->local_valid + at, 1, (size_t)bytes);
  } else if (block->local_valid && memchr(block->local_valid + at, 0, (size_t)bytes)) {
    sim_fault(warp, op, lane, SIM_FAULT_UNINIT,
              "local memory at byte %" PRIu64 " is read and was never written", offset);
    return NULL;
  }
  return block->local + at;
}

void *sim_resolve(sim_warp_t *warp, const sim_op_t *op, int32_t lane, ptx_space_t space,
                  uint64_t address, int64_t bytes, sim_access_kind_t kind) {
  sim_block_t *block = warp->block;
  if (address & (uint64_t)(bytes - 1)) {
    sim_fault(warp, op, lane, SIM_FAULT_ALIGN,
              "address 0x%" PRIx64 " of %s is no multiple of the access's %" PRId64 " bytes",
              address, space_names[space], bytes);
    return NULL;
  }
  const uint64_t window = address & UINT64_C(0xff00000000000000);
  if (space == PTX_SPACE_NONE) {
    space = window == SIM_SHARED_WINDOW  ? PTX_SPACE_SHARED
            : window == SIM_LOCAL_WINDOW ? PTX_SPACE_LOCAL
            : window == SIM_PARAM_WINDOW ? PTX_SPACE_PARAM
                                         : PTX_SPACE_GLOBAL;
    if (space != PTX_SPACE_GLOBAL) address -= window;
  }
  switch (space) {
    case PTX_SPACE_SHARED:
      if (address > (uint64_t)block->shared_bytes || bytes > block->shared_bytes - (int64_t)address)
        return out_of_bounds(warp, op, lane, space, address, bytes, block->shared_bytes);
      if (block->shadow && !sim_shadow_access(warp, op, lane, kind, (int64_t)address, bytes))
        return NULL;
      return block->shared + address;
    case PTX_SPACE_LOCAL: return resolve_local(warp, op, lane, address, bytes, kind);
    case PTX_SPACE_PARAM:
      if (kind != SIM_READ || address > (uint64_t)block->program->param_bytes ||
          bytes > block->program->param_bytes - (int64_t)address)
        return out_of_bounds(warp, op, lane, space, address, bytes, block->program->param_bytes);
      return (void *)((uintptr_t)block->launch->params + address);
    default: return resolve_global(warp, op, lane, address, bytes, kind);
  }
}

void sim_addresses(const sim_warp_t *warp, const sim_op_t *op, ptx_width_t width, int64_t offset,
                   uint64_t out[SIM_LANES]) {
  const void *regs = sim_operand(warp, op->a);
  if (width == PTX_WIDTH_64)
    for (uint32_t i = 0; i < SIM_LANES; ++i)
      out[i] = ((const uint64_t *)regs)[i] + (uint64_t)offset;
  else
    for (uint32_t i = 0; i < SIM_LANES; ++i)
      out[i] = ((const uint32_t *)regs)[i] + (uint64_t)offset;
}

static void count(sim_warp_t *warp, ptx_space_t space, const uint64_t *address, uint32_t mask,
                  int64_t bytes, bool is_write) {
  sim_block_t *block = warp->block;
  if (!block->counts) return;
  if (space == PTX_SPACE_NONE) {
    const uint64_t first = address[__builtin_ctz(mask)];
    space = first >= SIM_LOCAL_WINDOW    ? PTX_SPACE_LOCAL
            : first >= SIM_SHARED_WINDOW ? PTX_SPACE_SHARED
                                         : PTX_SPACE_GLOBAL;
  }
  if (space == PTX_SPACE_GLOBAL) sim_count_global(block, address, mask, bytes, is_write);
  if (space == PTX_SPACE_SHARED) sim_count_shared(&block->counters, address, mask, bytes);
}

// Host addresses of the whole access of each lane. False with a fault.
static bool resolve_all(sim_warp_t *warp, const sim_op_t *op, const sim_access_t *access,
                        const uint64_t *address, uint32_t mask, sim_access_kind_t kind,
                        unsigned char **out) {
  const int64_t bytes = (int64_t)access->bytes * access->count;
  SIM_FOR_LANES(lane, mask) {
    out[lane] = sim_resolve(warp, op, (int32_t)lane, access->space, address[lane], bytes, kind);
    if (!out[lane]) return false;
  }
  return true;
}

static uint64_t read_element(const unsigned char *from, int32_t bytes, bool is_signed) {
  uint64_t value = 0;
  switch (bytes) {
    case 1: value = is_signed ? (uint64_t)(int64_t)(int8_t)*from : *from; break;
    case 2: {
      uint16_t half;
      memcpy(&half, from, sizeof half);
      value = is_signed ? (uint64_t)(int64_t)(int16_t)half : half;
      break;
    }
    case 4: {
      uint32_t word;
      memcpy(&word, from, sizeof word);
      value = is_signed ? (uint64_t)(int64_t)(int32_t)word : word;
      break;
    }
    default: memcpy(&value, from, sizeof value);
  }
  return value;
}

void sim_load(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  const sim_access_t *access = op->extra;
  uint64_t address[SIM_LANES];
  unsigned char *from[SIM_LANES];
  sim_addresses(warp, op, access->address_width, access->offset, address);
  if (!resolve_all(warp, op, access, address, mask, SIM_READ, from)) return;
  for (int32_t e = 0; e < access->count; ++e) {
    if (access->skip[e]) continue;
    const int32_t bytes = access->bytes, reg = access->regs[e];
    const ptx_width_t width = access->widths[e];
    if (bytes == 4 && width == PTX_WIDTH_32) {
      uint32_t *to = (uint32_t *)(void *)(warp->regs + reg);
      SIM_FOR_LANES(lane, mask) memcpy(&to[lane], from[lane] + 4 * e, 4);
    } else {
      SIM_FOR_LANES(lane, mask)
      sim_put(warp, reg, width, lane,
              read_element(from[lane] + e * bytes, bytes, access->is_signed));
    }
  }
  count(warp, access->space, address, mask, (int64_t)access->bytes * access->count, false);
}

void sim_store(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  const sim_access_t *access = op->extra;
  uint64_t address[SIM_LANES];
  unsigned char *to[SIM_LANES];
  sim_addresses(warp, op, access->address_width, access->offset, address);
  if (!resolve_all(warp, op, access, address, mask, SIM_WRITE, to)) return;
  const size_t bytes = (size_t)access->bytes;
  SIM_FOR_LANES(lane, mask)
  for (int32_t e = 0; e < access->count; ++e) {
    const uint64_t value = sim_get(warp, access->regs[e], access->widths[e], lane);
    memcpy(to[lane] + bytes * (size_t)e, &value, bytes);
  }
  count(warp, access->space, address, mask, (int64_t)access->bytes * access->count, true);
}
