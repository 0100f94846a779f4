// The choice where no cluster is known (--world alone): the planner's search on devices that are none in particular.
//
// What a split costs is counted in bytes: those that a device gets from its peers, and what it takes it else, as the bytes
// that could be sent meanwhile. All splits do the same work once, so that they differ in what they send, in time in which
// a stage waits (the bubble, uneven stages), and in work that several devices do alike. Nothing is hidden behind
// anything.
#ifndef PTC_PASSES_PLANNER_RULE_H_
#define PTC_PASSES_PLANNER_RULE_H_

#include "passes/planner/planner.h"

// Its devices send so many bytes in what predictions call a second.
extern const double ptc_rule_rate;

typedef enum ptc_rule_kind_e { PTC_RULE_CPU, PTC_RULE_GPU } ptc_rule_kind_t;
// |ranks| devices, each with |memory_bytes|; 0: any number of bytes. In |arena|.
const ptc_cluster_t *ptc_rule_cluster(ptc_arena_t *arena, ptc_rule_kind_t kind, int64_t ranks,
                                      double memory_bytes);

// The bytes that a rank of |candidate| reads from its peers in a step, by axis (of a set of axes, the innermost; pp:
// messages), on the stage that reads most. Tied weights on two stages and the sums of a step's scalars are not in it.
void ptc_rule_sent(const ptc_planner_t *planner, const ptc_candidate_t *candidate,
                   double out_bytes[PTC_NUM_DEVICE_AXES]);

// The best choice on another mesh; false: there is none that fits.
bool ptc_rule_next(const ptc_planner_t *planner, ptc_candidate_t *out_next);

// Fills what |module|'s config leaves open of the split of its `world`; nothing where that is one rank. |planner|: its
// cluster is the above, its objective time; results as ptc_planner_choose. Where no split has as many samples on each rank, dp
// takes the ranks that are left, as it does for a model that the planner cannot read; then found.feasible is false.
// Ids: those of ptc_planner_choose; warnings "rule-memory": nothing fits in the memory that was supposed
// (planner->supposes_memory), so any is allowed; "rule-pieces": the model is one that the planner cannot read.
ptc_status_t ptc_rule_choose(ptc_planner_t *planner, ptc_module_t *module);
// The same as ptc_pass_options_t wants it.
ptc_status_t ptc_rule_choose_hook(void *planner, ptc_module_t *module);

#endif  // PTC_PASSES_PLANNER_RULE_H_
