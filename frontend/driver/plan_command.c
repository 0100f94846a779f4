#include "frontend/driver/plan_command.h"

ptc_status_t ptc_plan_command(const ptc_plan_command_t *command) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_session_t session;
  ptc_status_t status = ptc_session_open(&diag, command->plan, command->session, &session);
  if (status == PTC_OK) status = command->work(&session, command->args);
  ptc_session_close(&session);
  ptc_options_print_diagnostics(command->common, &diag);
  ptc_diag_deinit(&diag);
  return status;
}
