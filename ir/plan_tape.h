// What the steps of a part, or of a turn of an outermost repeat, do to the contents of a replay, so that they are looked at
// once and not for every micro-batch.
//
// A *block* is such steps; |level| is the micro-batch or the turn that it runs for. While it runs, a *tape* is recorded:
// - conditions: what it reads of what it has not written itself, each with a register for the content found there;
// - ops: how the digest of each content that it makes follows from registers, in order;
// - effects: which register lies where when it is done.
// To play a tape for another level is to check its conditions, to run its ops and to apply its effects. All else that a
// replay would check follows: the block reads and writes at the same places, and what agreed then agrees again. Where a
// condition does not hold, the block is replayed step by step. The outcome, digests included, is that of a replay.
#ifndef PTC_IR_PLAN_TAPE_H_
#define PTC_IR_PLAN_TAPE_H_

#include "ir/base/map.h"
#include "ir/base/vec.h"
#include "ir/plan_order.h"
#include "ir/plan_verify_impl.h"

typedef enum ptc_tape_op_kind_e {
  PTC_TAPE_BEGIN,     // digest = value
  PTC_TAPE_LOAD,      // digest = register
  PTC_TAPE_MIX,       // mixed with value
  PTC_TAPE_LEVEL,     // mixed with the level, which was value
  PTC_TAPE_RECEIVED,  // mixed with the number of receives so far
  PTC_TAPE_READ,  // mixed with register, value, and place, moved as condition |other| is (-1: not)
  PTC_TAPE_SAVE,  // register = digest
  PTC_TAPE_DEFINE,  // register = digest mixed with value
  PTC_TAPE_SENT,    // mixed into all that was sent
  PTC_TAPE_SAME,    // register and |other| hold one content, or the tape does not fit
  PTC_TAPE_APART    // they do not
} ptc_tape_op_kind_t;

typedef struct ptc_tape_op_s {
  ptc_tape_op_kind_t kind;
  int32_t reg, other;
  uint64_t value, place;
} ptc_tape_op_t;

// Bytes [begin, end) of instance |node|, which lies at |address|. They move by |node_step| and |byte_step| with the level.
typedef struct ptc_tape_read_s {
  int64_t node, node_step, buffer, begin, end, byte_step, shift;
  int64_t piece, place;  // where it was found last, in the instance and in the arena
  int32_t reg;
  bool fresh;  // a slot: this micro-batch must have written it
} ptc_tape_read_t;

// |node| < 0: of the arena.
typedef struct ptc_tape_effect_s {
  int64_t node, begin, end, shift;
  int64_t piece;  // where it was put last
  int32_t reg;
} ptc_tape_effect_t;

typedef struct ptc_plan_block_s {
  const void *key;  // the task or the repeat
  int64_t slot;
  bool unfit, recorded;
  int32_t tries, num_regs;
  int64_t level, num_steps;
  PTC_VEC(ptc_tape_op_t) ops;
  PTC_VEC(ptc_tape_read_t) reads;
  PTC_VEC(ptc_tape_effect_t) effects;  // by node, then those of the arena by address
  PTC_VEC(int64_t) nodes;              // written, sorted
  PTC_VEC(ptc_access_t) spans;         // of the arena, written, sorted
} ptc_plan_block_t;

// The block of |key| (a task of parts, or a repeat) for |slot|, which is made if it is new. NULL: its steps cannot be
// taped (what they write moves with the level), or one is being recorded, which this belongs to.
ptc_plan_block_t *ptc_plan_block_find(ptc_plan_replay_t *replay, const void *key, int64_t slot,
                                      const ptc_step_t *steps, int32_t count);
void ptc_plan_blocks_clear(ptc_plan_replay_t *replay);

// Between them the steps are replayed.
void ptc_plan_block_begin(ptc_plan_replay_t *replay, ptc_plan_block_t *block, int64_t level);
void ptc_plan_block_end(ptc_plan_replay_t *replay, bool ok);
// False: replay the steps; nothing has changed.
bool ptc_plan_block_play(ptc_plan_replay_t *replay, ptc_plan_block_t *block, int64_t level);

// --- while a block is recorded (replay->recorder is not NULL)

// Bytes [begin, end) of instance |node| of |buffer| have been read and agreed; |ref| says how they move.
void ptc_plan_tape_read(ptc_plan_replay_t *replay, const ptc_ref_t *ref, int64_t node,
                        int64_t begin, int64_t end);
// They are about to be written, or to be copied to; |address|: of the instance.
void ptc_plan_tape_write(ptc_plan_replay_t *replay, int64_t node, int64_t address, int64_t begin,
                         int64_t end);
// The condition that the next read makes first.
int64_t ptc_plan_tape_next_read(const ptc_plan_replay_t *replay);
void ptc_plan_tape_op(ptc_plan_replay_t *replay, ptc_tape_op_kind_t kind, uint64_t value);
// LOAD: of |content|, which has been read or made.
void ptc_plan_tape_load(ptc_plan_replay_t *replay, uint64_t content);
// READ of the |number|-th piece of what |ref| reads, whose conditions begin with |first|. |before|: the piece in front
// of it, which it continues; or NULL.
void ptc_plan_tape_take(ptc_plan_replay_t *replay, const ptc_ref_t *ref, int64_t first,
                        int64_t number, const ptc_plan_piece_t *piece,
                        const ptc_plan_piece_t *before, uint64_t shape);
// SAVE or DEFINE: |content| is made.
void ptc_plan_tape_make(ptc_plan_replay_t *replay, ptc_tape_op_kind_t kind, uint64_t value,
                        uint64_t content);

#endif  // PTC_IR_PLAN_TAPE_H_
