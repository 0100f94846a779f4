// What a device needs room for: as the planner predicts it, and as the plans of all stages have it.
#ifndef PTC_TESTS_SUPPORT_ROOM_CASE_H_
#define PTC_TESTS_SUPPORT_ROOM_CASE_H_

#include "frontend/driver/emit.h"
#include "passes/planner/planner.h"
#include "tests/support/small_models.h"

typedef struct room_case_s {
  const small_model_t *model;
  const char *layers;     // NULL: the model's
  const char *parallel;   // "dp=2,zero=1,micro_batch=2"
  const char *precision;  // "f32"
  const char *batch;
} room_case_t;

typedef struct room_result_s {
  ptc_diag_t diag;
  ptc_arena_t arena;
  ptc_module_t *module;
  ptc_planner_t planner;
  ptc_stages_t *stages;
  ptc_emitted_t emitted[64];  // per stage
  int32_t num_stages;
} room_result_t;

// Plans, and compiles to plans in memory. |more|: settings of the model, after its own. False, with a diagnostic in
// out->diag, where the layout does not fit the model. The result is to be ended in any case.
bool room_case_make(const room_case_t *c, const ptc_override_t *more, int num_more,
                    room_result_t *out);
void room_result_end(room_result_t *result);

// What the planner says of the stage that needs most.
const ptc_prediction_t *room_predicted(const room_result_t *result);
// The stage whose arena is the largest.
int32_t room_largest(const room_result_t *result);

// The most bytes that values take at once in a step of |plan|: its arena less what placing them loses and less the
// workspaces of kernels. |out_moment| may be NULL.
int64_t room_values(const ptc_plan_t *plan, int64_t *out_moment);

#endif  // PTC_TESTS_SUPPORT_ROOM_CASE_H_
