#include "frontend/driver/plan_command.h"

#include "frontend/driver/ranks.h"

ptc_status_t ptc_plan_command(const ptc_plan_command_t *command) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_program_t program;
  ptc_status_t status = ptc_program_open(&diag, command->plan, command->session, &program);
  if (status == PTC_OK)
    status = ptc_ranks_run(&diag, &program, command->session, command->work, command->args);
  ptc_program_close(&program);
  ptc_options_print_diagnostics(command->common, &diag);
  ptc_diag_deinit(&diag);
  return status;
}
