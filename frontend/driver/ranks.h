// All ranks of a program: one where the plan is for one, else as many threads as it has ranks.
#ifndef PTC_FRONTEND_DRIVER_RANKS_H_
#define PTC_FRONTEND_DRIVER_RANKS_H_

#include "frontend/driver/session.h"

// What a rank does; the same on all of them. |args| is shared.
typedef ptc_status_t (*ptc_rank_fn_t)(ptc_session_t *session, const void *args);

// Opens a session per rank and calls |work| on it. An error of one rank ends the others. |diag| gets what rank 0
// says, or, after an error, the rank that met it first: with a note of its number. Diagnostics beside those of |work|:
// "ranks-start" (PTC_DEVICE), and those of session.h and communicator.h.
ptc_status_t ptc_ranks_run(ptc_diag_t *diag, const ptc_program_t *program,
                           const ptc_session_options_t *options, ptc_rank_fn_t work,
                           const void *args);

#endif  // PTC_FRONTEND_DRIVER_RANKS_H_
