// Ranks as children of this process, which waits for them and tells them on what it is told.
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "frontend/driver/interrupt.h"
#include "frontend/driver/ranks.h"
#include "ir/base/clock.h"

// So long the others have to see that a rank has failed; one that is stuck does not.
#define GRACE_S 10.0

typedef struct children_s {
  pid_t *pids;
  int32_t count, left;
  int32_t first_failed;  // -1: none
  int first_state;       // of it, as waitpid gives it
  double failed_s;       // when
  bool ended;            // the others have been killed
} children_t;

// In the child: never returns.
static _Noreturn void be_rank(const ptc_program_t *program, const ptc_ranks_t *ranks, int32_t rank,
                              int32_t world, const char *name) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_comm_t *comm = NULL;
  ptc_status_t status = ptc_comm_open_process(&diag, name, rank, world, PTC_COMM_LIMIT_S, &comm);
  if (status == PTC_OK) status = ptc_ranks_run_one(&diag, program, ranks, comm);
  // Of what one rank has met the others have but the echo.
  if (rank == 0 || (status != PTC_OK && !ptc_ranks_is_echo(&diag))) {
    if (status != PTC_OK && rank > 0) ptc_note(&diag, (ptc_loc_t){0}, "on rank %" PRId32, rank);
    ranks->print(ranks->print_arg, &diag);
  }
  ptc_comm_close(comm);
  ptc_diag_deinit(&diag);
  fflush(NULL);
  _exit(ptc_status_exit_code(status));
}

static void tell_all(const children_t *c, int number) {
  for (int32_t r = 0; r < c->count; r++)
    if (c->pids[r] > 0) kill(c->pids[r], number);
}

// Takes note of a child that has ended; false if none has.
static bool reap(children_t *c) {
  int state;
  const pid_t pid = waitpid(-1, &state, WNOHANG);
  if (pid <= 0) return false;
  for (int32_t r = 0; r < c->count; r++) {
    if (c->pids[r] != pid) continue;
    c->pids[r] = 0;
    c->left--;
    // A signal is a cause; an exit status may be another's echo.
    const bool failed = !WIFEXITED(state) || WEXITSTATUS(state) != 0;
    if (failed && c->first_failed < 0) c->failed_s = ptc_now_s();
    if (failed &&
        (c->first_failed < 0 || (!c->ended && WIFSIGNALED(state) && WIFEXITED(c->first_state)))) {
      c->first_failed = r;
      c->first_state = state;
    }
  }
  return true;
}

// Ends the ranks that are left when one has failed and the grace is over.
static void end_stuck(ptc_diag_t *diag, children_t *c) {
  if (c->ended || c->first_failed < 0 || ptc_now_s() < c->failed_s + GRACE_S) return;
  for (int32_t r = 0; r < c->count; r++)
    if (c->pids[r] > 0)
      ptc_warning(diag, (ptc_loc_t){0}, "rank-stuck",
                  "rank %" PRId32 " did not end within %.3g s after rank %" PRId32
                  " had failed: it was killed",
                  r, GRACE_S, c->first_failed);
  c->ended = true;
  tell_all(c, SIGKILL);
}

static void wait_for_all(ptc_diag_t *diag, children_t *c) {
  const struct timespec moment = {.tv_nsec = 5 * 1000 * 1000};
  int told = 0;
  while (c->left > 0) {
    const int number = *ptc_interrupt_flag();
    if (number && !told) tell_all(c, told = number);
    if (reap(c)) continue;
    end_stuck(diag, c);
    nanosleep(&moment, NULL);
  }
}

// What the children's ends mean.
static ptc_status_t conclude(ptc_diag_t *diag, const children_t *c) {
  if (c->first_failed < 0) return PTC_OK;
  if (WIFSIGNALED(c->first_state))
    return ptc_error(diag, (ptc_loc_t){0}, PTC_DEVICE, "rank-died",
                     "rank %" PRId32 " was ended by signal %d (%s)", c->first_failed,
                     WTERMSIG(c->first_state), strsignal(WTERMSIG(c->first_state)));
  // It has said why.
  const int code = WEXITSTATUS(c->first_state);
  return code == ptc_status_exit_code(PTC_INVALID_INPUT) ? PTC_INVALID_INPUT
         : code == ptc_status_exit_code(PTC_INTERNAL)    ? PTC_INTERNAL
                                                         : PTC_DEVICE;
}

ptc_status_t ptc_ranks_fork(ptc_diag_t *diag, const ptc_program_t *program,
                            const ptc_ranks_t *ranks, int32_t world) {
  children_t c = {.first_failed = -1};
  ptc_status_t status = PTC_OK;
  ptc_str_t name = {0};
  ptc_str_printf(&name, "ptc-%ld", (long)getpid());
  c.pids = ptc_xmalloc(sizeof *c.pids * (size_t)world);
  fflush(NULL);
  for (; c.count < world; c.count++, c.left++) {
    const pid_t pid = fork();
    if (pid == 0) be_rank(program, ranks, c.count, world, name.data);
    if (pid > 0) {
      c.pids[c.count] = pid;
      continue;
    }
    status = ptc_error(diag, (ptc_loc_t){0}, PTC_DEVICE, "ranks-start",
                       "cannot start rank %" PRId32 ": %s", c.count, strerror(errno));
    tell_all(&c, SIGKILL);
    break;
  }
  wait_for_all(diag, &c);
  if (status == PTC_OK) status = conclude(diag, &c);
  ptc_str_deinit(&name);
  free(c.pids);
  return status;
}
