// The best choice for a model on a cluster, by the cost model.
#ifndef PTC_PASSES_PLANNER_SEARCH_H_
#define PTC_PASSES_PLANNER_SEARCH_H_

#include "passes/planner/predict.h"

typedef enum ptc_objective_e {
  PTC_OBJECTIVE_TIME,     // seconds of a step
  PTC_OBJECTIVE_COST,     // price of a token; of the devices that are used
  PTC_OBJECTIVE_MEMORY,   // bytes of the fullest device, then time
  PTC_OBJECTIVE_DEVICES,  // how many: ptc_search_fewest. Of given ones, time
  PTC_NUM_OBJECTIVES
} ptc_objective_t;
extern const char *const ptc_objective_names[PTC_NUM_OBJECTIVES];

// What is decided already. 0 (sizes, micro_batch, chunks) or -1 (the others): open.
typedef struct ptc_fixed_s {
  int64_t size[PTC_NUM_DEVICE_AXES];
  int64_t zero, micro_batch, chunks;
  int32_t sequence_parallel, schedule, recompute;
  int64_t recompute_every;  // as in a choice; recompute is full then
  bool has_names;
  uint32_t names[PTC_MAX_PIECES];  // on tp, per piece
  int32_t num_cuts;
  const int64_t *cuts;  // NULL: open; else pp times chunks is one more than they are
  int64_t most_parts;   // pp times chunks at most; 0: any number
  int32_t most_sets;    // of names that are tried on each tp; 0: as many as README.md says
  int32_t most_cuts;    // that a pipeline may have if all are tried; 0: as README.md says
  bool
      no_copies;  // tp and cp are left out where nothing lies on them: their ranks would do the same
  const int64_t *banned;  // sizes of a mesh that is left out; NULL: of none
  bool needs_fit;         // where nothing fits, what needs least is not looked for: PTC_INFEASIBLE
} ptc_fixed_t;
extern const ptc_fixed_t ptc_fixed_nothing;

typedef struct ptc_candidate_s {
  ptc_choice_t choice;
  ptc_prediction_t predicted;
  double value;  // of the objective
} ptc_candidate_t;

typedef struct ptc_search_result_s {
  bool feasible;  // something fits; else |best| is what needs least memory
  ptc_candidate_t best;
  // What is proved: no choice of the space (README.md) has a lower value than |bound|, and the best one is above it by
  // |gap| of itself; 0: it is the least. NAN where nothing is: |uncertified| says why, else it is NULL.
  double bound, gap;
  const char *uncertified;
  bool complete;  // every set of names was tried
  int64_t layouts, predictions, pruned;
} ptc_search_result_t;

// Searches all splits of |devices| devices (1 to the cluster's). Cuts of the result lie in |arena|. PTC_INFEASIBLE
// where no split is possible at all (what is fixed contradicts itself or the model); |out|->feasible tells whether
// one fits into memory.
ptc_status_t ptc_search(const ptc_work_t *work, const ptc_cluster_t *cluster,
                        const ptc_stack_t *stack, const ptc_fixed_t *fixed, int64_t devices,
                        ptc_objective_t objective, ptc_arena_t *arena, ptc_search_result_t *out);

// Searches the least number of |cluster|'s devices, a part of one node or whole nodes, on which something fits and a step
// takes at most |within_s| (0: however long): |out_devices|, and the fastest split of so many. 0 where none does:
// |out| then is the fastest that fits, or what needs least memory. PTC_INFEASIBLE as ptc_search.
ptc_status_t ptc_search_fewest(const ptc_work_t *work, const ptc_cluster_t *cluster,
                               const ptc_stack_t *stack, const ptc_fixed_t *fixed, double within_s,
                               ptc_arena_t *arena, ptc_search_result_t *out, int64_t *out_devices);
// The next count that it tries after |devices|; 0: there is none.
int64_t ptc_devices_after(const ptc_cluster_t *cluster, int64_t devices);

#endif  // PTC_PASSES_PLANNER_SEARCH_H_
