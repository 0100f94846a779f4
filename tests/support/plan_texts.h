// The plans of all stages of a model as text, so that each look at them begins anew.
#ifndef PTC_TESTS_SUPPORT_PLAN_TEXTS_H_
#define PTC_TESTS_SUPPORT_PLAN_TEXTS_H_

#include "ir/module.h"
#include "ir/plan.h"

enum { PLAN_TEXTS_STAGES = 8 };

typedef struct plan_texts_s {
  int32_t count;  // of stages
  ptc_str_t json[PLAN_TEXTS_STAGES], steps[PLAN_TEXTS_STAGES];
} plan_texts_t;

// Compiles |module|, lowered and before all passes, with its config. False, with diagnostics in module->diag, if it
// cannot be; then |out| is empty.
bool plan_texts_make(ptc_module_t *module, plan_texts_t *out);
// A random model on a random mesh that both follow from |seed|; false if they are refused: sizes that the mesh does not
// divide, or forms that cannot be split over stages. Anything else is printed, and |*out_broken| is true.
bool plan_texts_random(uint64_t seed, plan_texts_t *out, bool *out_broken);
void plan_texts_deinit(plan_texts_t *texts);

// NULL, with diagnostics printed, if the text is refused.
ptc_plan_t *plan_texts_read(const plan_texts_t *texts, int32_t stage);

#endif  // PTC_TESTS_SUPPORT_PLAN_TEXTS_H_
