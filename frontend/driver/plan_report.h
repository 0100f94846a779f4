// What the planner chose, why, and what the alternatives would lose.
#ifndef PTC_FRONTEND_DRIVER_PLAN_REPORT_H_
#define PTC_FRONTEND_DRIVER_PLAN_REPORT_H_

#include <stdio.h>

#include "frontend/driver/why.h"

// The choice and its prediction, in a few lines.
void ptc_plan_report(const ptc_planner_t *planner, FILE *out);
// The best plan with |settings| ("tp=4,pp=2") fixed besides, beside the chosen one. "setting" where they are none.
ptc_status_t ptc_plan_report_why_not(ptc_diag_t *diag, const ptc_planner_t *planner,
                                     const char *settings, FILE *out);
// All of it as one JSON object, with |why| (why.h; may be NULL) as a member.
ptc_status_t ptc_plan_report_json(const ptc_planner_t *planner, json_t *why, FILE *out);

#endif  // PTC_FRONTEND_DRIVER_PLAN_REPORT_H_
