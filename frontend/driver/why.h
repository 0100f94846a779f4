// The decisions of a plan, who made each, and what its alternatives lose: kept as JSON (why.json of a plan's folder) and
// printed from that, when the plan is made as later.
#ifndef PTC_FRONTEND_DRIVER_WHY_H_
#define PTC_FRONTEND_DRIVER_WHY_H_

#include <jansson.h>
#include <stdio.h>

#include "ir/plan.h"
#include "passes/planner/planner.h"

#define PTC_WHY_FILE "why.json"

// A choice and its prediction.
json_t *ptc_why_candidate(const ptc_planner_t *planner, const ptc_candidate_t *candidate);
// How far the choice may be from the least: "gap" of its value, "bound"; null where nothing is certified, "uncertified"
// then says why.
json_t *ptc_why_gap(const ptc_planner_t *planner);
// |other|, as found with |status|, beside the choice: "outcome" (possible, memory, impossible), what it loses and of what
// it is most. |setting|: what is different.
json_t *ptc_why_alternative(const ptc_planner_t *planner, const char *setting,
                            const ptc_search_result_t *other, ptc_status_t status);
// The best choice with |fixed| instead of what the config gave.
ptc_status_t ptc_why_search(const ptc_planner_t *planner, const ptc_fixed_t *fixed,
                            ptc_arena_t *arena, ptc_search_result_t *out);

// All decisions of |planner|; searches again with each alternative fixed. |module| tells what the user gave, and where.
json_t *ptc_why_new(const ptc_planner_t *planner, const ptc_module_t *module);
// Those of a plan that was made without a planner, from its settings.
json_t *ptc_why_of_settings(const ptc_plan_t *plan);
// The file in the folder |path| of |plan|; the above where there is none. "broken-why".
ptc_status_t ptc_why_read(ptc_diag_t *diag, const char *path, const ptc_plan_t *plan,
                          json_t **out_why);

// The text of the file; malloc'ed.
char *ptc_why_text(const json_t *why);
// In words.
void ptc_why_print(const json_t *why, FILE *out);
// One line, of an object with the fields of ptc_why_gap.
void ptc_why_print_gap(const json_t *gap, FILE *out);
// Two lines, of such a file where the choice was made by rule: what it costs.
void ptc_why_print_rule(const json_t *why, FILE *out);
void ptc_why_print_alternative(const json_t *alternative, FILE *out);

#endif  // PTC_FRONTEND_DRIVER_WHY_H_
