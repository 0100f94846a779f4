// The plans of all stages of a module, compiled in memory, proved, with their kernels.
#ifndef PTC_TESTS_SUPPORT_RANK_PLANS_H_
#define PTC_TESTS_SUPPORT_RANK_PLANS_H_

#include "frontend/driver/emit.h"
#include "runtime/cpu/kernel_objects.h"

typedef struct rank_plans_s {
  int32_t num_stages;      // 1 without a pipeline
  int32_t world;           // ranks of all stages
  ptc_emitted_t *emitted;  // one per stage
  ptc_kernel_objects_t **objects;
} rank_plans_t;

// Compiles |module| (lowered, before all passes) with its config. Every plan is checked and replayed, and the stages
// are proved to meet. Kernels are compiled under names without numbers, so that plans share them in the cache (of the
// build folder, or PTC_CACHE). |keep_grads|: gradients are results of train. False, with diagnostics in module->diag,
// if something is refused.
bool rank_plans_make(ptc_module_t *module, bool keep_grads, rank_plans_t *out_plans);
void rank_plans_deinit(rank_plans_t *plans);

const ptc_plan_t *rank_plans_of_stage(const rank_plans_t *plans, int32_t stage);
// The stage of |rank|: stages are the outermost axis.
int32_t rank_plans_stage(const rank_plans_t *plans, int32_t rank);

#endif  // PTC_TESTS_SUPPORT_RANK_PLANS_H_
