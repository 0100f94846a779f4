// All ranks of a program: one where the plan is for one, else as many threads of this process as it has ranks, or
// processes, or this process is one of them, because a launcher has started it.
#ifndef PTC_FRONTEND_DRIVER_RANKS_H_
#define PTC_FRONTEND_DRIVER_RANKS_H_

#include "frontend/driver/session.h"
#include "runtime/launch.h"

// What a rank does; the same on all of them. |args| is shared.
typedef ptc_status_t (*ptc_rank_fn_t)(ptc_session_t *session, const void *args);

typedef struct ptc_ranks_s {
  const ptc_session_options_t *options;
  ptc_rank_fn_t work;
  const void *args;
  // Prints what a process that is a rank has to say; the others' is handed over.
  void (*print)(const void *print_arg, const ptc_diag_t *diag);
  const void *print_arg;
} ptc_ranks_t;

// Opens a session per rank and works on it. An error of one rank ends the others. |diag| gets what rank 0 says, or,
// after an error, the rank that met it first: with a note of its number. Diagnostics beside those of the work:
// "ranks-start", "rank-died" (PTC_DEVICE), and those of session.h and communicator.h.
ptc_status_t ptc_ranks_run(ptc_diag_t *diag, const ptc_program_t *program,
                           const ptc_ranks_t *ranks);

// The same where each rank is a child of this process (ranks_processes.c); |diag| gets what has become of them.
ptc_status_t ptc_ranks_fork(ptc_diag_t *diag, const ptc_program_t *program,
                            const ptc_ranks_t *ranks, int32_t world);

// The same for the one rank that this process is: its endpoint is |comm|. "comm-world" if the plan has another
// number of ranks.
ptc_status_t ptc_ranks_run_one(ptc_diag_t *diag, const ptc_program_t *program,
                               const ptc_ranks_t *ranks, ptc_comm_t *comm);
// Whether the error in |diag| is but the echo of another rank's.
bool ptc_ranks_is_echo(const ptc_diag_t *diag);

#endif  // PTC_FRONTEND_DRIVER_RANKS_H_
