// What would fit, where nothing does.
#ifndef PTC_PASSES_PLANNER_PLANNER_ADVICE_H_
#define PTC_PASSES_PLANNER_PLANNER_ADVICE_H_

#include "passes/planner/planner.h"

// Notes the cheapest change after which something fits on memory: one fixed setting left open (the fastest of these), all
// of them, more devices of the cluster, or more nodes. Belongs to the latest error of |module|.
void ptc_planner_advise_memory(const ptc_planner_t *planner, ptc_module_t *module);

#endif  // PTC_PASSES_PLANNER_PLANNER_ADVICE_H_
