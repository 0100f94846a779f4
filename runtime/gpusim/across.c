// Instructions across the lanes of a warp, predicates, packing.
#include <inttypes.h>

#include "runtime/gpusim/handlers_impl.h"

// The members that |op| names in the register |operand|, equal in all of them. 0 with a fault.
static uint32_t members_of(sim_warp_t *warp, const sim_op_t *op, int32_t operand, uint32_t mask) {
  const uint32_t first =
      (uint32_t)sim_get(warp, operand, PTX_WIDTH_32, (uint32_t)__builtin_ctz(mask));
  uint32_t all = 0;
  SIM_FOR_LANES(lane, mask) {
    const uint32_t members = (uint32_t)sim_get(warp, operand, PTX_WIDTH_32, lane);
    if (!(members >> lane & 1)) {
      sim_fault(warp, op, (int32_t)lane, SIM_FAULT_BARRIER,
                "\"%s\" for the lanes %08" PRIx32 " is executed by lane %" PRIu32
                ", which is none of them",
                op->opcode, members, lane);
      return 0;
    }
    all |= members;
  }
  if (!sim_together(warp, op, all, mask)) return 0;
  return first;
}

void sim_shuffle(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  const sim_shuffling_t *shuffling = op->extra;
  if (!members_of(warp, op, shuffling->members, mask)) return;
  uint32_t value[SIM_LANES], result[SIM_LANES], inside = 0;
  memcpy(value, sim_operand(warp, op->a), sizeof value);
  SIM_FOR_LANES(lane, mask) {
    const uint32_t b = (uint32_t)sim_get(warp, op->b, PTX_WIDTH_32, lane) & 31;
    const uint32_t c = (uint32_t)sim_get(warp, op->c, PTX_WIDTH_32, lane);
    const uint32_t clamp = c & 31, segment = c >> 8 & 31;
    const int32_t most = (int32_t)((lane & segment) | (clamp & ~segment)),
                  least = (int32_t)(lane & segment);
    int32_t from = 0;
    bool in = false;
    switch (shuffling->how) {
      case SIM_SHFL_UP: from = (int32_t)lane - (int32_t)b, in = from >= most; break;
      case SIM_SHFL_DOWN: from = (int32_t)(lane + b), in = from <= most; break;
      case SIM_SHFL_BFLY: from = (int32_t)(lane ^ b), in = from <= most; break;
      case SIM_SHFL_IDX: from = least | (int32_t)(b & ~segment), in = from <= most; break;
    }
    if (!in) from = (int32_t)lane;
    if (warp->block->shadow && !(mask >> from & 1)) {
      sim_fault(warp, op, (int32_t)lane, SIM_FAULT_UNINIT,
                "\"%s\" reads lane %" PRId32 ", which does not take part", op->opcode, from);
      return;
    }
    result[lane] = value[from];
    inside |= (uint32_t)in << lane;
  }
  SIM_FOR_LANES(lane, mask) sim_put(warp, op->dst, PTX_WIDTH_32, lane, result[lane]);
  if (shuffling->pred >= 0) sim_set_pred(warp, shuffling->pred, mask, inside);
}

void sim_vote(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  const sim_voting_t *voting = op->extra;
  if (voting->how == SIM_ACTIVE_MASK) {
    SIM_FOR_LANES(lane, mask) sim_put(warp, op->dst, PTX_WIDTH_32, lane, mask);
    return;
  }
  const uint32_t members = members_of(warp, op, op->b, mask) & mask;
  if (!members) return;
  const uint32_t yes = (sim_pred(warp, op->a) ^ (voting->negated ? UINT32_MAX : 0)) & members;
  if (voting->how == SIM_VOTE_BALLOT) {
    SIM_FOR_LANES(lane, mask) sim_put(warp, op->dst, PTX_WIDTH_32, lane, yes);
    return;
  }
  const bool holds = voting->how == SIM_VOTE_ALL   ? yes == members
                     : voting->how == SIM_VOTE_ANY ? yes != 0
                                                   : yes == members || !yes;
  sim_set_pred(warp, op->dst, mask, holds ? UINT32_MAX : 0);
}

void sim_redux(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  const sim_reducing_t *reducing = op->extra;
  if (!members_of(warp, op, op->b, mask)) return;
  uint32_t result = (uint32_t)sim_get(warp, op->a, PTX_WIDTH_32, (uint32_t)__builtin_ctz(mask));
  SIM_FOR_LANES(lane, mask & (mask - 1)) {
    const uint32_t x = (uint32_t)sim_get(warp, op->a, PTX_WIDTH_32, lane);
    const bool less = reducing->is_signed ? (int32_t)x < (int32_t)result : x < result;
    switch (reducing->how) {
      case SIM_ADD: result += x; break;
      case SIM_MIN: result = less ? x : result; break;
      case SIM_MAX: result = less ? result : x; break;
      case SIM_AND: result &= x; break;
      case SIM_OR: result |= x; break;
      case SIM_XOR: result ^= x; break;
    }
  }
  SIM_FOR_LANES(lane, mask) sim_put(warp, op->dst, PTX_WIDTH_32, lane, result);
}

void sim_match_any(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  const ptx_width_t width = (ptx_width_t)(*(const int32_t *)op->extra);
  if (!members_of(warp, op, op->b, mask)) return;
  uint32_t result[SIM_LANES] = {0};
  SIM_FOR_LANES(lane, mask)
  SIM_FOR_LANES(other, mask)
  result[lane] |=
      (uint32_t)(sim_get(warp, op->a, width, lane) == sim_get(warp, op->a, width, other)) << other;
  SIM_FOR_LANES(lane, mask) sim_put(warp, op->dst, PTX_WIDTH_32, lane, result[lane]);
}

void sim_warp_sync(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  if (members_of(warp, op, op->a, mask)) ++warp->epoch;
}

// --- predicates

static uint32_t apply(sim_logic_t how, uint32_t a, uint32_t b) {
  return how == SIM_LOGIC_AND ? a & b : how == SIM_LOGIC_OR ? a | b : a ^ b;
}

void sim_logic(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  const sim_pred_logic_t *logic = op->extra;
  const uint32_t a = sim_pred(warp, op->a) ^ (logic->a_negated ? UINT32_MAX : 0),
                 b = sim_pred(warp, op->b) ^ (logic->b_negated ? UINT32_MAX : 0);
  sim_set_pred(warp, op->dst, mask, apply(logic->how, a, b));
}

static uint32_t compared(const sim_warp_t *warp, const sim_op_t *op, uint32_t *out_q) {
  const sim_comparing_t *comparing = op->extra;
  uint32_t p = comparing->compare(sim_operand(warp, op->a), sim_operand(warp, op->b)), q = ~p;
  if (comparing->combines) {
    const uint32_t c = sim_pred(warp, op->c) ^ (comparing->c_negated ? UINT32_MAX : 0);
    p = apply(comparing->how, p, c);
    q = apply(comparing->how, q, c);
  }
  *out_q = q;
  return p;
}

void sim_compare(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  const sim_comparing_t *comparing = op->extra;
  uint32_t q;
  const uint32_t p = compared(warp, op, &q);
  if (op->dst >= 0) sim_set_pred(warp, op->dst, mask, p);
  if (comparing->has_q) sim_set_pred(warp, comparing->q, mask, q);
}

void sim_set(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  const sim_comparing_t *comparing = op->extra;
  uint32_t q;
  const uint32_t p = compared(warp, op, &q), yes = comparing->has_q ? 0x3f800000u : UINT32_MAX;
  SIM_FOR_LANES(lane, mask) sim_put(warp, op->dst, PTX_WIDTH_32, lane, p >> lane & 1 ? yes : 0);
}

// --- parts of registers

static uint32_t part_bits(const sim_pack_t *pack) {
  return pack->part_width == PTX_WIDTH_32 ? 32 : 16;
}

void sim_pack(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  const sim_pack_t *pack = op->extra;
  uint64_t value[SIM_LANES] = {0};
  for (int32_t p = 0; p < pack->count; ++p) SIM_FOR_LANES(lane, mask)
  value[lane] |= sim_get(warp, pack->parts[p], pack->part_width, lane)
                 << (part_bits(pack) * (uint32_t)p);
  SIM_FOR_LANES(lane, mask) sim_put(warp, op->dst, pack->width, lane, value[lane]);
}

void sim_unpack(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  const sim_pack_t *pack = op->extra;
  uint64_t value[SIM_LANES] = {0};
  SIM_FOR_LANES(lane, mask) value[lane] = sim_get(warp, op->a, pack->width, lane);
  for (int32_t p = 0; p < pack->count; ++p)
    if (!pack->skip[p]) SIM_FOR_LANES(lane, mask)
  sim_put(warp, pack->parts[p], pack->part_width, lane,
          value[lane] >> (part_bits(pack) * (uint32_t)p));
}

// --- carries

void sim_carry(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  const sim_carry_t *carry = op->extra;
  const bool wide = carry->width == PTX_WIDTH_64;
  SIM_FOR_LANES(lane, mask) {
    const uint64_t a = sim_get(warp, op->a, carry->width, lane),
                   b = sim_get(warp, op->b, carry->width, lane);
    const uint64_t in = carry->reads ? sim_get(warp, carry->flag, PTX_WIDTH_32, lane) & 1 : 0;
    uint64_t x = a, y = b;
    if (carry->what == SIM_CARRY_MAD_LO || carry->what == SIM_CARRY_MAD_HI) {
      __extension__ typedef unsigned __int128 wide_t;
      __extension__ typedef __int128 signed_wide_t;
      const wide_t product = carry->is_signed
                                 ? (wide_t)((signed_wide_t)(wide ? (int64_t)a : (int32_t)a) *
                                            (wide ? (int64_t)b : (int32_t)b))
                                 : (wide_t)a * b;
      x = (uint64_t)(carry->what == SIM_CARRY_MAD_LO ? product : product >> (wide ? 64 : 32));
      if (!wide) x &= UINT32_MAX;
      y = sim_get(warp, op->c, carry->width, lane);
    }
    uint64_t sum, out;
    if (carry->what == SIM_CARRY_SUB) {
      sum = x - y - in;
      out = x < y || (x == y && in);  // a borrow
    } else {
      sum = x + y + in;
      out = wide ? sum < x || (in && sum == x) : sum >> 32 & 1;
    }
    sim_put(warp, op->dst, carry->width, lane, sum);
    if (carry->writes) sim_put(warp, carry->flag, PTX_WIDTH_32, lane, out);
  }
}

// --- bits

void sim_insert(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  const sim_insert_t *insert = op->extra;
  const uint32_t bits = insert->width == PTX_WIDTH_64 ? 64 : 32;
  SIM_FOR_LANES(lane, mask) {
    const uint64_t field = sim_get(warp, op->a, insert->width, lane);
    uint64_t into = sim_get(warp, op->b, insert->width, lane);
    const uint32_t at = sim_get(warp, op->c, PTX_WIDTH_32, lane) & 255,
                   length = sim_get(warp, insert->length, PTX_WIDTH_32, lane) & 255;
    for (uint32_t i = 0; i < length && at + i < bits; ++i)
      into = (into & ~(UINT64_C(1) << (at + i))) | (field >> i & 1) << (at + i);
    sim_put(warp, op->dst, insert->width, lane, into);
  }
}

void sim_lop3(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  const int32_t table = *(const int32_t *)op->extra;
  SIM_FOR_LANES(lane, mask) {
    const uint32_t a = (uint32_t)sim_get(warp, op->a, PTX_WIDTH_32, lane),
                   b = (uint32_t)sim_get(warp, op->b, PTX_WIDTH_32, lane),
                   c = (uint32_t)sim_get(warp, op->c, PTX_WIDTH_32, lane);
    uint32_t out = 0;
    for (int i = 0; i < 8; ++i)
      if (table >> i & 1) out |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    sim_put(warp, op->dst, PTX_WIDTH_32, lane, out);
  }
}

void sim_is_space(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  const int32_t space = *(const int32_t *)op->extra;
  uint32_t yes = 0;
  SIM_FOR_LANES(lane, mask) {
    const uint64_t window = sim_get(warp, op->a, PTX_WIDTH_64, lane) & UINT64_C(0xff00000000000000);
    const ptx_space_t at = window == SIM_SHARED_WINDOW  ? PTX_SPACE_SHARED
                           : window == SIM_LOCAL_WINDOW ? PTX_SPACE_LOCAL
                           : window == SIM_PARAM_WINDOW ? PTX_SPACE_PARAM
                                                        : PTX_SPACE_GLOBAL;
    yes |= (uint32_t)((int32_t)at == space) << lane;
  }
  sim_set_pred(warp, op->dst, mask, yes);
}

void sim_trap(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  sim_fault(warp, op, __builtin_ctz(mask), SIM_FAULT_TRAP, "trap");
}

void sim_nothing(sim_warp_t *warp, const sim_op_t *op, uint32_t mask) {
  (void)warp;
  (void)op;
  (void)mask;
}
