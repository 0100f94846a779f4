// Waiting for MPI: it moves bytes only while somebody calls it, so ranks poll, and let others run in between. A rank
// that ends the run sends a notice to all; who waits looks for one.
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ir/base/clock.h"
#include "runtime/mpi/mpi_impl.h"

enum { TURNS_AWAKE = 2000, TURNS_PER_LOOK = 64 };

static void end_run(ptc_mpi_t *mpi, ptc_comm_end_t end, const char *text) {
  if (mpi->has_ended) return;
  mpi->has_ended = true;
  mpi->notice.end = end;
  snprintf(mpi->notice.text, sizeof mpi->notice.text, "%s", text);
  for (int32_t r = 0; r < mpi->comm.world; r++)
    if (r != mpi->comm.rank)
      mpi->module->send(mpi->state, PTC_MPI_CONTROL, r, PTC_MPI_NOTICE_TAG, &mpi->notice,
                        sizeof mpi->notice, ptc_mpi_notice(mpi, r));
}

static ptc_status_t report(const ptc_mpi_t *mpi, ptc_diag_t *diag) {
  return ptc_error(diag, mpi->loc, PTC_DEVICE, ptc_comm_end_id((ptc_comm_end_t)mpi->notice.end),
                   "%s", mpi->notice.text);
}

ptc_status_t ptc_mpi_fail(ptc_mpi_t *mpi, ptc_diag_t *diag, ptc_comm_end_t end, const char *format,
                          ...) {
  char text[PTC_COMM_REASON];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  end_run(mpi, end, text);
  return ptc_error(diag, mpi->loc, PTC_DEVICE, ptc_comm_end_id(end), "%s", text);
}

void ptc_mpi_abort(ptc_comm_t *comm, const char *reason) {
  char text[PTC_COMM_REASON];
  snprintf(text, sizeof text, "rank %d has ended the run: %s", comm->rank, reason);
  end_run((ptc_mpi_t *)comm, PTC_COMM_ABORTED, text);
}

// Takes a notice of another rank if one has come.
static void look_for_notice(ptc_mpi_t *mpi) {
  int found = 0, peer = -1, done = 0;
  int64_t bytes = 0;
  if (mpi->has_ended) return;
  if (mpi->module->probe(mpi->state, PTC_MPI_CONTROL, -1, PTC_MPI_NOTICE_TAG, &peer, &bytes,
                         &found) != 0 ||
      !found)
    return;
  ptc_mpi_notice_t notice;
  const int request = ptc_mpi_notice(mpi, mpi->comm.rank);
  if (mpi->module->recv(mpi->state, PTC_MPI_CONTROL, peer, PTC_MPI_NOTICE_TAG, &notice,
                        sizeof notice, request) != 0)
    return;
  // It is there: this does not wait for anybody.
  while (mpi->module->test(mpi->state, request, &done) == 0 && !done) continue;
  mpi->has_ended = true;
  mpi->notice = notice;
}

ptc_status_t ptc_mpi_try(ptc_mpi_t *mpi, ptc_diag_t *diag, int code, const char *what) {
  if (code == 0) return PTC_OK;
  // Whoever ends the run says so, and only then goes away.
  if (mpi->state) look_for_notice(mpi);
  if (mpi->has_ended) return report(mpi, diag);
  char words[PTC_MPI_ERROR_BYTES], text[PTC_COMM_REASON + PTC_MPI_ERROR_BYTES];
  mpi->module->describe(mpi->state, code, words);
  snprintf(text, sizeof text, "rank %d%s%s: %s cannot %s: %s", mpi->comm.rank,
           mpi->context[0] ? " at " : "", mpi->context, mpi->name, what, words);
  end_run(mpi, mpi->state ? PTC_COMM_LOST : PTC_COMM_ABORTED, text);
  return ptc_error(diag, mpi->loc, PTC_DEVICE, mpi->state ? "comm-lost" : "mpi-failed", "%s", text);
}

ptc_status_t ptc_mpi_check(ptc_mpi_t *mpi, ptc_diag_t *diag) {
  return mpi->has_ended ? report(mpi, diag) : PTC_OK;
}

ptc_status_t ptc_mpi_poll(ptc_comm_t *comm, ptc_diag_t *diag) {
  ptc_mpi_t *mpi = (ptc_mpi_t *)comm;
  look_for_notice(mpi);
  return ptc_mpi_check(mpi, diag);
}

ptc_status_t ptc_mpi_turn(ptc_mpi_t *mpi, ptc_diag_t *diag, int32_t peer, double start_s,
                          int64_t turn) {
  if (turn % TURNS_PER_LOOK == TURNS_PER_LOOK - 1) {
    look_for_notice(mpi);
    if (mpi->has_ended) return report(mpi, diag);
    const double waited_s = ptc_now_s() - start_s;
    if (mpi->limit_s > 0 && waited_s > mpi->limit_s)
      return ptc_mpi_fail(mpi, diag, PTC_COMM_STUCK, "rank %d%s%s has waited %.3g s for rank %d",
                          mpi->comm.rank, mpi->context[0] ? " at " : "", mpi->context, waited_s,
                          peer);
  }
  if (turn < TURNS_AWAKE)
    sched_yield();
  else
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
  return PTC_OK;
}

ptc_status_t ptc_mpi_wait(ptc_mpi_t *mpi, ptc_diag_t *diag, int request, int32_t peer) {
  const double start_s = ptc_now_s();
  for (int64_t turn = 0;; turn++) {
    int done = 0;
    PTC_TRY(ptc_mpi_try(mpi, diag, mpi->module->test(mpi->state, request, &done), "move bytes"));
    if (done) return PTC_OK;
    PTC_TRY(ptc_mpi_turn(mpi, diag, peer, start_s, turn));
  }
}
