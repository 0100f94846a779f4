// Computing and communicating at the same time: which steps of a plan go to streams of their own, earlier than where their
// results are needed, and the events that keep the order (DESIGN.md section 4, overlap; ir/plan.h).
//
// Order of calls: ptc_plan_overlap on a plan that has no addresses yet, ptc_plan_memory, ptc_plan_simplify,
// ptc_plan_place_events.
#ifndef PTC_PASSES_OVERLAP_H_
#define PTC_PASSES_OVERLAP_H_

#include "ir/plan.h"

// Moves collectives and transfers of |plan| to the streams of their communicators, launches them as early as what they
// need allows, and lets those in repeats run a turn ahead. The order of communicating steps among each other changes
// only by that, for all ranks alike. The bits of results do not change.
ptc_status_t ptc_plan_overlap(ptc_diag_t *diag, ptc_plan_t *plan);

// Gives the placed plan the events that order all steps of different streams that touch the same bytes, one of them
// writing; none that follows from the others. PTC_UNSUPPORTED ("plan-too-long").
ptc_status_t ptc_plan_place_events(ptc_diag_t *diag, ptc_plan_t *plan);

#endif  // PTC_PASSES_OVERLAP_H_
