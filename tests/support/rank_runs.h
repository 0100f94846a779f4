// Training by a plan of many ranks, which are threads of the test: what comes out, as whole tensors.
#ifndef PTC_TESTS_SUPPORT_RANK_RUNS_H_
#define PTC_TESTS_SUPPORT_RANK_RUNS_H_

#include "ir/module.h"
#include "ir/plan.h"

enum { RANK_RUN_STEPS = 10 };

typedef struct rank_tensor_s {
  const char *name;  // of the parameter's instance
  int64_t count;
  double *initial, *final;  // after init, after all steps
} rank_tensor_t;

// Owned by |arena|, but for the doubles.
typedef struct rank_run_s {
  ptc_arena_t arena;
  int32_t world;
  int64_t arena_bytes;
  double losses[RANK_RUN_STEPS];
  rank_tensor_t *params;
  int32_t num_params;
  bool replicas_agree;  // ranks with the same part of a parameter had the same bits
  bool bytes_agree;     // every rank read what the plan states
  int64_t bytes_read;   // of rank 0, in one step
} rank_run_t;

// Compiles |module| (lowered, before all passes) with its config, checks and replays the plan, and trains on inputs
// that follow from |seed| and the step, on one thread per rank. False if something failed; then |out_run| may
// be deinitialized all the same, and stderr says why.
bool rank_run(ptc_module_t *module, uint64_t seed, rank_run_t *out_run);
void rank_run_deinit(rank_run_t *run);

// The largest relative difference of losses; of initial parameters in any bit (0: none); and of final parameters, in
// parts of the norm of how far the one run has gone.
typedef struct rank_difference_s {
  double loss, final;
  int64_t initial;  // elements that differ
} rank_difference_t;
rank_difference_t rank_run_compare(const rank_run_t *one, const rank_run_t *many);

#endif  // PTC_TESTS_SUPPORT_RANK_RUNS_H_
