// What the commands that work on a plan (run, eval, sample) do around their work.
#ifndef PTC_FRONTEND_DRIVER_PLAN_COMMAND_H_
#define PTC_FRONTEND_DRIVER_PLAN_COMMAND_H_

#include "frontend/driver/options.h"
#include "frontend/driver/session.h"

typedef struct ptc_plan_command_s {
  const char *plan;  // the folder
  const char *lone;  // the plan instead where no launcher has started this process; NULL: the same
  const ptc_common_options_t *common;
  const ptc_session_options_t *session;
  ptc_status_t (*work)(ptc_session_t *session, const void *args);
  const void *args;
} ptc_plan_command_t;

// Opens the plan, works on it on all ranks (ranks.h), and prints all diagnostics.
ptc_status_t ptc_plan_command(const ptc_plan_command_t *command);

#endif  // PTC_FRONTEND_DRIVER_PLAN_COMMAND_H_
