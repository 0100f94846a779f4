// atom and red. On global memory blocks of other host threads take part: the host's own atomics.
#include "runtime/gpusim/handlers_impl.h"

static uint64_t sign_extend(uint64_t value, int32_t bytes) {
  return bytes == 4 ? (uint64_t)(int64_t)(int32_t)(uint32_t)value : value;
}

static uint64_t add_floats(uint64_t x, uint64_t y, int32_t bytes) {
  uint64_t out = 0;
  if (bytes == 4) {
    float a, b;
    memcpy(&a, &x, 4);
    memcpy(&b, &y, 4);
    a += b;
    memcpy(&out, &a, 4);
    if (a != a) out = 0x7fffffff;
  } else {
    double a, b;
    memcpy(&a, &x, 8);
    memcpy(&b, &y, 8);
    a += b;
    memcpy(&out, &a, 8);
  }
  return out;
}

// The new value.
static uint64_t combine(const sim_atomics_t *atomics, uint64_t old, uint64_t b, uint64_t c) {
  const bool is_signed = atomics->type == 's';
  const int64_t so = (int64_t)sign_extend(old, atomics->bytes),
                sb = (int64_t)sign_extend(b, atomics->bytes);
  switch (atomics->what) {
    case SIM_ATOMIC_ADD: return atomics->type == 'f' ? add_floats(old, b, atomics->bytes) : old + b;
    case SIM_ATOMIC_MIN: return is_signed ? (so < sb ? old : b) : (old < b ? old : b);
    case SIM_ATOMIC_MAX: return is_signed ? (so > sb ? old : b) : (old > b ? old : b);
    case SIM_ATOMIC_AND: return old & b;
    case SIM_ATOMIC_OR: return old | b;
    case SIM_ATOMIC_XOR: return old ^ b;
    case SIM_ATOMIC_EXCH: return b;
    case SIM_ATOMIC_CAS: return old == b ? c : old;
    case SIM_ATOMIC_INC: return old >= b ? 0 : old + 1;
    case SIM_ATOMIC_DEC: return old == 0 || old > b ? b : old - 1;
  }
  return old;
}

static uint64_t update(const sim_atomics_t *atomics, void *at, uint64_t b, uint64_t c) {
  if (atomics->bytes == 4) {
    uint32_t old = __atomic_load_n((uint32_t *)at, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n((uint32_t *)at, &old,
                                        (uint32_t)combine(atomics, old, (uint32_t)b, (uint32_t)c),
                                        false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
    return old;
  }
  uint64_t old = __atomic_load_n((uint64_t *)at, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n((uint64_t *)at, &old, combine(atomics, old, b, c), false,
                                      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
  }
  return old;
}

void sim_atomic(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  const sim_atomics_t *atomics = op->extra;
  const ptx_width_t width = atomics->bytes == 8 ? PTX_WIDTH_64 : PTX_WIDTH_32;
  uint64_t address[SIM_LANES];
  sim_addresses(warp, op, atomics->address_width, atomics->offset, address);
  SIM_FOR_LANES(lane, mask) {
    void *at = sim_resolve(warp, op, (int32_t)lane, atomics->space, address[lane], atomics->bytes,
                           SIM_ATOMIC);
    if (!at) return;
    const uint64_t old =
        update(atomics, at, sim_get(warp, op->b, width, lane),
               atomics->what == SIM_ATOMIC_CAS ? sim_get(warp, op->c, width, lane) : 0);
    if (atomics->has_result) sim_put(warp, op->dst, width, lane, old);
  }
}
