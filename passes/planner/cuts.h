// Where the planner cuts a pipeline: from turns of the whole model to what split_stages reads, and back.
#ifndef PTC_PASSES_PLANNER_CUTS_H_
#define PTC_PASSES_PLANNER_CUTS_H_

#include "passes/planner/predict.h"

// Turns of the whole model, of those repeats that have several.
int64_t ptc_cuts_turns(const ptc_work_t *work);
// Sets |choice|'s cuts to those that its prediction was made with, where they are balanced by time. Made in |arena|.
void ptc_cuts_settle(const ptc_work_t *work, const ptc_cluster_t *cluster, const ptc_stack_t *stack,
                     ptc_arena_t *arena, ptc_choice_t *choice);
// Config cut for them: "0:8; 0:16". What stands between two repeats goes with the turns after it, as in the prediction.
void ptc_cuts_write(const ptc_work_t *work, const ptc_choice_t *choice, ptc_str_t *out);
// Config recompute_turns where the choice computes some turns of a stage again: the first ones of each repeat on it. Empty
// where all do, or none.
void ptc_cuts_write_turns(const ptc_work_t *work, const ptc_choice_t *choice, ptc_str_t *out);
// The other way: the cuts of |module|'s config as global turns, in |arena|; -1: there are none, or what they part cannot be
// predicted (a part without a turn of a repeat).
int32_t ptc_cuts_read(const ptc_work_t *work, const ptc_module_t *module, ptc_arena_t *arena,
                      const int64_t **out_cuts);
// What lies on each part, in words: "begin block.0..3 | block.4..7 end"; on a cluster of several kinds of nodes with the
// device: "begin block.0..3 on a100 | block.4..11 end on h100".
void ptc_cuts_print(const ptc_work_t *work, const ptc_cluster_t *cluster,
                    const ptc_choice_t *choice, ptc_str_t *out);

#endif  // PTC_PASSES_PLANNER_CUTS_H_
