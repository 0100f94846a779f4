#include "frontend/driver/plan_command.h"

#include <inttypes.h>

#include "frontend/driver/ranks.h"

static void print(const void *arg, const ptc_diag_t *diag) {
  ptc_options_print_diagnostics(arg, diag);
}

// This process is the rank of |comm|: rank 0 compiles the kernels, then the others find them in the cache.
static ptc_status_t run_launched(ptc_diag_t *diag, const ptc_plan_command_t *command,
                                 const ptc_ranks_t *ranks, const ptc_launch_t *launch,
                                 ptc_comm_t *comm) {
  ptc_session_options_t options = *command->session;
  if (comm->rank > 0) options.quiet = true;
  options.has_gpu = true;
  options.gpu = launch->local_rank;
  const ptc_ranks_t mine = {&options, ranks->work, ranks->args, ranks->print, ranks->print_arg};
  ptc_program_t program = {0};
  ptc_status_t status = PTC_OK;
  if (comm->rank > 0) status = ptc_comm_barrier(comm, diag, PTC_COMM_WORLD);
  if (status == PTC_OK) status = ptc_program_open(diag, command->plan, &options, &program);
  if (status != PTC_OK) ptc_comm_abort(comm, "the plan cannot be opened");
  if (status == PTC_OK && comm->rank == 0) status = ptc_comm_barrier(comm, diag, PTC_COMM_WORLD);
  if (status == PTC_OK) status = ptc_ranks_run_one(diag, &program, &mine, comm);
  ptc_program_close(&program);
  return status;
}

// A launcher has started this process.
static ptc_status_t launched(const ptc_plan_command_t *command, const ptc_ranks_t *ranks,
                             const ptc_launch_t *launch, ptc_diag_t *diag) {
  ptc_comm_t *comm = NULL;
  double limit_s = PTC_COMM_LIMIT_S;
  ptc_status_t status = ptc_session_read_limit(diag, &limit_s);
  if (status == PTC_OK) status = ptc_launch_open(diag, launch, limit_s, &comm);
  if (status == PTC_OK) status = run_launched(diag, command, ranks, launch, comm);
  // Of what one rank has met the others have but the echo.
  if (launch->rank == 0 || (status != PTC_OK && !ptc_ranks_is_echo(diag))) {
    if (status != PTC_OK && launch->rank > 0)
      ptc_note(diag, (ptc_loc_t){0}, "on rank %" PRId32, launch->rank);
    ptc_options_print_diagnostics(command->common, diag);
  }
  ptc_comm_close(comm);
  return status;
}

static ptc_status_t alone(const ptc_plan_command_t *command, const ptc_ranks_t *ranks,
                          ptc_diag_t *diag) {
  ptc_program_t program;
  const char *plan = command->lone ? command->lone : command->plan;
  ptc_status_t status = ptc_program_open(diag, plan, command->session, &program);
  if (status == PTC_OK) status = ptc_ranks_run(diag, &program, ranks);
  ptc_program_close(&program);
  ptc_options_print_diagnostics(command->common, diag);
  return status;
}

ptc_status_t ptc_plan_command(const ptc_plan_command_t *command) {
  const ptc_ranks_t ranks = {.options = command->session,
                             .work = command->work,
                             .args = command->args,
                             .print = print,
                             .print_arg = command->common};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_launch_t launch;
  ptc_status_t status = ptc_launch_read(&diag, &launch);
  if (status != PTC_OK)
    ptc_options_print_diagnostics(command->common, &diag);
  else if (launch.world == 1)
    status = alone(command, &ranks, &diag);
  else
    status = launched(command, &ranks, &launch, &diag);
  ptc_diag_deinit(&diag);
  return status;
}
