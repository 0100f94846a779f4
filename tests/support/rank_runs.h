// Training by plans of many ranks, which are threads of the test: what comes out, as whole tensors.
#ifndef PTC_TESTS_SUPPORT_RANK_RUNS_H_
#define PTC_TESTS_SUPPORT_RANK_RUNS_H_

#include "ir/module.h"
#include "tests/support/rank_plans.h"

enum { RANK_RUN_STEPS = 10 };

typedef struct rank_tensor_s {
  const char *name;  // of the parameter's instance
  int64_t count;
  double *initial, *final;  // after init, after all steps
  double *grad;             // of the first step; NULL: not kept
} rank_tensor_t;

// Owned by |arena|, but for the doubles.
typedef struct rank_run_s {
  ptc_arena_t arena;
  rank_plans_t plans;
  int32_t world;
  double losses[RANK_RUN_STEPS];
  rank_tensor_t *params;
  int32_t num_params;
  bool replicas_agree;  // ranks with the same part of a tensor had the same bits
  bool bytes_agree;     // every rank read what its plan states, by group, kind and peer
  int64_t bytes_read;   // of all ranks, in one step
} rank_run_t;

// Compiles |module| (lowered, before all passes) with its config, proves the plans, and trains on inputs that follow from
// |seed| and the step, on one thread per rank. False if something failed; then |out_run| may be deinitialized all the
// same, and stderr says why.
bool rank_run(ptc_module_t *module, uint64_t seed, rank_run_t *out_run);
// The same; the gradients of the first step are kept.
bool rank_run_with_grads(ptc_module_t *module, uint64_t seed, rank_run_t *out_run);
void rank_run_deinit(rank_run_t *run);

// Numbers of everything that came out: equal bits make equal digests.
uint64_t rank_run_digest(const rank_run_t *run);

// Of the first step, over all parameters; 0: gradients were not kept.
double rank_run_grad_norm(const rank_run_t *run);

// A gradient whose norm is a smaller part of that of all is zero but for rounding: that of the keys' bias, say, which
// shifts all scores of a row alike.
#define RANK_RUN_LEAST_GRAD 1e-4

// The largest relative difference of losses; the largest difference of a gradient in parts of its norm (0: not kept);
// of initial parameters in any bit (0: none); and of final parameters, in parts of the norm of how far the one run has
// gone.
typedef struct rank_difference_s {
  double loss, grad, final;
  int64_t initial;  // elements that differ
} rank_difference_t;
rank_difference_t rank_run_compare(const rank_run_t *one, const rank_run_t *many);
// Prints what has other bits: gradients, then losses, then final parameters.
void rank_run_explain(const rank_run_t *one, const rank_run_t *many);

#endif  // PTC_TESTS_SUPPORT_RANK_RUNS_H_
