// Private to passes/split_*.c and recompute_turns.c.
//
// A *part* is what lies between two cuts: part p runs on stage p mod S. Cuts lie before a turn of one of the forward
// repeats of the loop over micro-batches (or after its last turn), in the order of the text. Every op of that loop
// belongs to a part and a phase, which stand in its attributes "part" and "phase" while the split goes on.
#ifndef PTC_PASSES_SPLIT_IMPL_H_
#define PTC_PASSES_SPLIT_IMPL_H_

#include "ir/base/vec.h"
#include "passes/split_stages.h"

typedef enum ptc_phase_e { PTC_PHASE_F, PTC_PHASE_B, PTC_PHASE_W } ptc_phase_t;

typedef struct ptc_split_s {
  ptc_pass_ctx_t *ctx;
  ptc_module_t *module;  // of one stage, at first a copy of the whole
  int32_t num_stages, num_chunks, num_parts, stage;
  bool split_w;
  ptc_split_cut_t cuts[PTC_SPLIT_MAX_PARTS];
  int32_t num_cuts;
  const ptc_schedule_t *train, *eval;
} ptc_split_t;

// The loop over micro-batches of |func|, or NULL.
ptc_op_t *ptc_split_find_loop(const ptc_func_t *func);
// The part at a cut's side: of forward repeat |repeat|, turn |turn|; of what stands before that repeat, turn -1.
int32_t ptc_split_part_at(const ptc_split_t *split, int32_t repeat, int64_t turn);

// --- split_place.c

// Says of every op of the loop of |func| its phase, and its part or (attribute "turn_part") the part of each turn.
ptc_status_t ptc_split_place(const ptc_split_t *split, ptc_func_t *func);
// The forward repeats of the loop, or of |func| where it has none, in order; at most |max|. Returns their number.
int32_t ptc_split_forward_repeats(const ptc_func_t *func, ptc_op_t **out_repeats, int32_t max);
// The number of the forward repeat whose saved values, or else whose parameters, |reversed| takes; -1: none.
int32_t ptc_split_forward_of(const ptc_op_t *reversed, ptc_op_t *const *forward,
                             int32_t num_forward);

// --- split_turns.c

// Divides repeats, bundles and globals at the turns where "turn_part" changes, in all functions. Their meaning stays.
// Of |split| it takes ctx and module. "split-region" where that cannot be; |module| is then spoiled.
ptc_status_t ptc_split_turns(const ptc_split_t *split);

// --- split_recompute.c

// With recompute = every: the pieces of repeats and of their gradients compute groups of turns again.
ptc_status_t ptc_split_recompute(const ptc_split_t *split, ptc_func_t *func);

// --- split_grads.c

// Divides B: ops that only gradients of parameters need get phase W; a reversed repeat becomes two.
void ptc_split_grads(const ptc_split_t *split, ptc_func_t *func);

// --- split_cuts.c

// The cuts that config cut asks for, or those that make the slowest part fastest.
ptc_status_t ptc_split_choose_cuts(ptc_split_t *split, const ptc_func_t *train);

// --- split_build.c, split_ends.c

// Where each global lives, and what the functions of a stage have in common.
typedef struct ptc_home_s {
  ptc_split_t *split;
  ptc_map_t stages;  // parameters and moments -> the stages on which they live, a set of bits
} ptc_home_t;

// Adds the stages whose parts use the parameters, in |func|.
void ptc_split_note_stages(ptc_home_t *home, const ptc_func_t *func);
uint64_t ptc_split_stages_of(const ptc_home_t *home, const ptc_global_t *global);

// What the functions made of one function share.
typedef struct ptc_pieces_s {
  ptc_home_t *home;
  ptc_split_t *split;
  ptc_func_t *func;    // train or eval
  const char *prefix;  // "train"
  ptc_op_t *loop;
  const ptc_schedule_t *schedule;
  ptc_map_t values;  // of the loop -> where they are made and used
  ptc_map_t no_args,
      data;  // values that depend on no argument; on no parameter and no other op of the loop
  ptc_map_t step_slots;          // values before the loop -> their slot global
  PTC_VEC(ptc_value_t *) begin;  // those values, in order of demand
  ptc_global_t **accs;           // per carried value of the loop, if it is here
  ptc_global_t **outputs;        // per collected value of the loop, if it is here
  int64_t num_globals;           // made so far, for names
  ptc_status_t status;
} ptc_pieces_t;

// The functions for a micro-batch of this stage's parts, and what runs before them.
ptc_status_t ptc_split_build_loop(ptc_pieces_t *pieces);
// What runs after them.
ptc_status_t ptc_split_build_end(ptc_pieces_t *pieces);
// init: the state that lives here.
void ptc_split_build_init(const ptc_home_t *home, ptc_func_t *init);

// The part in which carried value |index| of the loop is made; -1: it is not made by an op.
int32_t ptc_split_part_of_carry(const ptc_pieces_t *pieces, int32_t index);
// A slot global for |value|. |slots| 0: one for all micro-batches.
ptc_global_t *ptc_split_add_slot(ptc_pieces_t *pieces, const ptc_value_t *value, const char *what,
                                 int64_t slots);
ptc_status_t ptc_split_unsupported(const ptc_split_t *split, const ptc_op_t *op, const char *why);

#endif  // PTC_PASSES_SPLIT_IMPL_H_
