// Handlers of instructions that are no plain arithmetic, and what decoding gives them as op->extra.
#ifndef PTC_RUNTIME_GPUSIM_HANDLERS_IMPL_H_
#define PTC_RUNTIME_GPUSIM_HANDLERS_IMPL_H_

#include "runtime/gpusim/exec_impl.h"

// ld, st: the address register is op->a.
typedef struct sim_access_s {
  ptx_space_t space;
  ptx_width_t address_width;
  int64_t offset;
  int32_t bytes;  // of one element: 1, 2, 4, 8
  bool is_signed;
  int32_t count;  // 1, 2, 4
  int32_t regs[4];
  ptx_width_t widths[4];
  bool skip[4];  // the destination `_`
} sim_access_t;
void sim_load(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);
void sim_store(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);

typedef enum sim_atomic_e {
  SIM_ATOMIC_ADD,
  SIM_ATOMIC_MIN,
  SIM_ATOMIC_MAX,
  SIM_ATOMIC_AND,
  SIM_ATOMIC_OR,
  SIM_ATOMIC_XOR,
  SIM_ATOMIC_EXCH,
  SIM_ATOMIC_CAS,
  SIM_ATOMIC_INC,
  SIM_ATOMIC_DEC,
} sim_atomic_t;

// atom, red: address op->a, operands op->b and op->c, the old value to op->dst unless it is |red|.
typedef struct sim_atomics_s {
  ptx_space_t space;
  ptx_width_t address_width;
  int64_t offset;
  sim_atomic_t what;
  char type;  // 'u', 's', 'b', 'f'
  int32_t bytes;
  bool has_result;
} sim_atomics_t;
void sim_atomic(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);

// cp.async: to shared memory at op->a, from global memory at op->b; op->c, if |has_size|, is the number of
// bytes to read, the rest are zeros.
typedef struct sim_copying_s {
  ptx_width_t to_width, from_width;
  int64_t to_offset, from_offset;
  int32_t bytes;
  bool has_size;
} sim_copying_t;
void sim_copy_async(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);
void sim_copy_commit(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);
// extra: an int32_t, the groups that may stay open; NULL: none, not even what was never committed.
void sim_copy_wait(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);

// ldmatrix: addresses in op->a.
typedef struct sim_matrix_s {
  ptx_width_t address_width;
  int64_t offset;
  int32_t count;
  bool transposed;
  int32_t regs[4];
} sim_matrix_t;
void sim_load_matrix(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);

typedef enum sim_element_e { SIM_F16, SIM_BF16, SIM_TF32, SIM_F64, SIM_S8, SIM_U8 } sim_element_t;

// mma.sync: registers of the fragments.
typedef struct sim_mma_s {
  int32_t m, n, k;
  sim_element_t a_type, b_type;
  bool half_sums;  // C and D are f16
  int32_t num_a, num_b, num_c;
  int32_t d[8], a[8], b[4], c[8];
} sim_mma_t;
void sim_mma(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);

typedef enum sim_shuffle_e {
  SIM_SHFL_UP,
  SIM_SHFL_DOWN,
  SIM_SHFL_BFLY,
  SIM_SHFL_IDX
} sim_shuffle_t;
typedef struct sim_shuffling_s {
  sim_shuffle_t how;
  int32_t members;  // operand
  int32_t pred;     // destination, or -1
} sim_shuffling_t;
void sim_shuffle(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);

typedef enum sim_vote_e {
  SIM_VOTE_ALL,
  SIM_VOTE_ANY,
  SIM_VOTE_UNI,
  SIM_VOTE_BALLOT,
  SIM_ACTIVE_MASK
} sim_vote_t;
typedef struct sim_voting_s {
  sim_vote_t how;
  bool negated;
} sim_voting_t;
// The predicate is op->a, the members op->b.
void sim_vote(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);

typedef enum sim_across_e { SIM_ADD, SIM_MIN, SIM_MAX, SIM_AND, SIM_OR, SIM_XOR } sim_across_t;
typedef struct sim_reducing_s {
  sim_across_t how;
  bool is_signed;
} sim_reducing_t;
// redux.sync: values op->a, members op->b.
void sim_redux(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);
// match.any.sync: values op->a of op->width of the extra (int32_t), members op->b.
void sim_match_any(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);
// bar.warp.sync: members op->a.
void sim_warp_sync(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);

// Predicates: dst = a OP b, each perhaps negated.
typedef enum sim_logic_e { SIM_LOGIC_AND, SIM_LOGIC_OR, SIM_LOGIC_XOR } sim_logic_t;
typedef struct sim_pred_logic_s {
  sim_logic_t how;
  bool a_negated, b_negated;
} sim_pred_logic_t;
void sim_logic(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);

// setp p|q, a, b, c: p = (a ? b) OP c, q = !(a ? b) OP c.
typedef struct sim_comparing_s {
  sim_compare_fn_t compare;
  bool combines;
  sim_logic_t how;
  bool c_negated;
  int32_t q;  // or -1
  bool has_q;
} sim_comparing_t;
void sim_compare(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);
// set.CMP.dtype: all ones or 1.0f. extra as above.
void sim_set(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);

// mov of a 32- or 64-bit register from or to parts.
typedef struct sim_pack_s {
  int32_t count;
  ptx_width_t width, part_width;
  int32_t parts[4];
  bool skip[4];
} sim_pack_t;
void sim_pack(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);
void sim_unpack(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);

// Integer arithmetic with the carry flag: add, sub, mad.lo, mad.hi of 32 or 64 bits.
typedef enum sim_carrying_e {
  SIM_CARRY_ADD,
  SIM_CARRY_SUB,
  SIM_CARRY_MAD_LO,
  SIM_CARRY_MAD_HI
} sim_carrying_t;
typedef struct sim_carry_s {
  sim_carrying_t what;
  bool reads, writes, is_signed;
  ptx_width_t width;
  int32_t flag;  // offset of the carry register
} sim_carry_t;
void sim_carry(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);

// cvt of any two types.
typedef struct sim_number_s {
  char kind;  // 'u', 's', 'f', 'b' (bf16), 't' (tf32)
  int32_t bytes;
} sim_number_t;
typedef struct sim_convert_s {
  sim_number_t to, from;
  ptx_width_t from_width;
  char rounding;    // 'n', 'z', 'm', 'p', 'a' (away from zero at ties)
  bool to_integer;  // rni, rzi, ...
  bool ftz, saturates, relu;
} sim_convert_t;
void sim_convert(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);
// cvt of two f32, op->a the upper, to f16x2 or bf16x2.
void sim_convert_pair(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);

// bfi: op->a into op->b at op->c, |length| bits.
typedef struct sim_insert_s {
  int32_t length;  // an operand
  ptx_width_t width;
} sim_insert_t;
void sim_insert(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);
// lop3: the extra is the table, an int32_t.
void sim_lop3(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);
// isspacep: the extra is a ptx_space_t as int32_t.
void sim_is_space(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);

void sim_trap(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);
void sim_nothing(sim_warp_t *warp, const sim_op_t *op, uint32_t mask);

#endif  // PTC_RUNTIME_GPUSIM_HANDLERS_IMPL_H_
