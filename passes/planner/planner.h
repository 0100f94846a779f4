// The planner as choose-mesh asks it: what the config leaves open is searched, and written back into it.
#ifndef PTC_PASSES_PLANNER_PLANNER_H_
#define PTC_PASSES_PLANNER_PLANNER_H_

#include "ir/module.h"
#include "passes/planner/search.h"

typedef struct ptc_planner_s {
  const ptc_cluster_t *cluster;
  const ptc_stack_t *stack;  // NULL: "ptc"
  ptc_objective_t objective;
  double within_s;     // of the objective devices: how long a step may take; 0: as long as it likes
  const char *origin;  // of what is chosen, in the config's origins; NULL: "planner"
  bool rule;           // the choice is rule.h's
  bool supposes_memory;  // of it: the devices' memory is not known, but this machine's
  // Results; they live in |arena|.
  ptc_arena_t *arena;
  ptc_work_t *work;
  ptc_fixed_t fixed;  // what the config said
  bool given_cuts;    // the config has cuts
  ptc_search_result_t found;
  int64_t devices;    // that the choice uses
  double seconds[2];  // of reading the program, of searching
} ptc_planner_t;

// Searches, and writes the choice into |module|'s config. |module| is at the point where choose-mesh runs. Ids:
// "no-mesh" where no split is possible, "out-of-memory" where none fits: by how much, and what would be nearest;
// "too-slow" where none takes at most within_s, "fixed-devices" where their number is given and to be chosen, "no-network" where nothing joins nodes.
ptc_status_t ptc_planner_choose(ptc_planner_t *planner, ptc_module_t *module);
// The same as ptc_pass_options_t wants it.
ptc_status_t ptc_planner_choose_hook(void *planner, ptc_module_t *module);

// The choice in words: "dp=4 tp=8 pp=4, zero=1, ..."; |work| names what lies on tp.
void ptc_choice_print(const ptc_work_t *work, const ptc_choice_t *choice, ptc_str_t *out);
// The value of recompute alone: "selective", "every(4)".
// What lies on tp: names, and "piece.name" where not all of its pieces lay it so.
void ptc_choice_print_names(const ptc_work_t *work, const uint32_t *names, ptc_str_t *out);
void ptc_choice_print_recompute(const ptc_choice_t *choice, ptc_str_t *out);

#endif  // PTC_PASSES_PLANNER_PLANNER_H_
