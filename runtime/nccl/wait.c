// Errors, and what a rank looks for while its GPU works: NCCL's asynchronous errors, the end of the run on other ranks,
// and work that takes too long.
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "ir/base/clock.h"
#include "runtime/nccl/nccl_impl.h"

void ptc_nccl_abort_all(ptc_nccl_endpoint_t *e) {
  if (e->is_over) return;
  e->is_over = true;
  for (int32_t g = e->num_groups - 1; g >= 0; g--) {
    if (e->groups[g].comm) e->nccl->CommAbort(e->groups[g].comm);
    e->groups[g].comm = NULL;
  }
}

// Ends the run on this rank: its communicators are of no use any more.
static ptc_status_t give_up(ptc_nccl_endpoint_t *e, ptc_status_t status) {
  ptc_nccl_abort_all(e);
  return status;
}

ptc_status_t ptc_nccl_check(ptc_nccl_endpoint_t *e, ptc_diag_t *diag, int code, void *comm,
                            const char *what) {
  if (code == PTC_NCCL_SUCCESS || code == PTC_NCCL_IN_PROGRESS) return PTC_OK;
  const char *words = e->nccl->GetErrorString(code);
  const char *more = e->nccl->GetLastError ? e->nccl->GetLastError(comm) : NULL;
  const ptc_status_t status = ptc_error(
      diag, e->loc, PTC_DEVICE, "nccl-failed", "rank %" PRId32 "%s%s: %s: %s (code %d)%s%s",
      e->comm.rank, e->context[0] ? " at " : "", e->context, what, words ? words : "unknown error",
      code, more && *more ? ": " : "", more ? more : "");
  // The others hear it before they see that this rank's communicators are gone.
  ptc_comm_abort(e->host, diag->items[diag->num_items - 1].message);
  return give_up(e, status);
}

ptc_status_t ptc_nccl_settle(ptc_nccl_endpoint_t *e, ptc_diag_t *diag, void *comm, void **part,
                             const char *what) {
  const double begin_s = ptc_now_s();
  for (int64_t turn = 0;; turn++) {
    int code = PTC_NCCL_SUCCESS;
    PTC_NCCL_CALL(e, diag, comm, CommGetAsyncError, comm, &code);
    PTC_TRY(ptc_nccl_check(e, diag, code, comm, what));
    if (code == PTC_NCCL_SUCCESS && (!part || *part)) return PTC_OK;
    const ptc_status_t status = ptc_comm_poll(e->host, diag);
    if (status != PTC_OK) return give_up(e, status);
    if (e->limit_s > 0 && ptc_now_s() - begin_s > e->limit_s)
      return give_up(e, ptc_error(diag, e->loc, PTC_DEVICE, "comm-stuck",
                                  "rank %" PRId32 " has waited %.3g s for the others in %s",
                                  e->comm.rank, ptc_now_s() - begin_s, what));
    if (turn < 100)
      sched_yield();
    else
      nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  }
}

// --- where the device is

static ptc_nccl_record_t *record_at(const ptc_nccl_endpoint_t *e, int64_t number) {
  return &e->records[number % PTC_NCCL_NUM_RECORDS];
}

ptc_status_t ptc_nccl_begin(ptc_nccl_endpoint_t *e, ptc_diag_t *diag) {
  if (e->is_over)
    return ptc_error(diag, e->loc, PTC_DEVICE, "nccl-failed",
                     "rank %" PRId32 ": its NCCL communicators have been aborted", e->comm.rank);
  ptc_nccl_record_t *record = record_at(e, e->num_records);
  snprintf(record->context, sizeof record->context, "%s", e->context);
  return e->device->set_mark(e->device, diag, e->stream, &record->begin);
}

ptc_status_t ptc_nccl_end(ptc_nccl_endpoint_t *e, ptc_diag_t *diag) {
  PTC_TRY(e->device->set_mark(e->device, diag, e->stream, &record_at(e, e->num_records)->end));
  e->num_records++;
  return PTC_OK;
}

// Advances over what the device has done since; whether there was any.
static bool advance(ptc_nccl_endpoint_t *e) {
  const int64_t before = e->num_passed;
  // The marks of older ones have been set again.
  if (e->num_records - e->num_passed > PTC_NCCL_NUM_RECORDS)
    e->num_passed = e->num_records - PTC_NCCL_NUM_RECORDS;
  while (e->num_passed < e->num_records &&
         e->device->has_passed(e->device, record_at(e, e->num_passed)->end))
    e->num_passed++;
  return e->num_passed != before;
}

// A rank whose GPU has not come to what the others wait in speaks first: it is the one that holds them up.
static ptc_status_t check_limit(ptc_nccl_endpoint_t *e, ptc_diag_t *diag, double waited_s) {
  if (advance(e) || waited_s < e->passed_s) e->passed_s = waited_s;
  const double stuck_s = waited_s - e->passed_s;
  if (e->limit_s <= 0 || stuck_s < e->limit_s) return PTC_OK;
  const ptc_nccl_record_t *record =
      e->num_passed < e->num_records ? record_at(e, e->num_passed) : NULL;
  const bool inside = record && e->device->has_passed(e->device, record->begin);
  if (inside && stuck_s < 1.5 * e->limit_s) return PTC_OK;
  const ptc_status_t status =
      ptc_error(diag, e->loc, PTC_DEVICE, "comm-stuck",
                inside ? "rank %" PRId32 ": its GPU has waited %.3g s for other ranks in %s"
                       : "rank %" PRId32 ": its GPU has worked for %.3g s on what comes before %s",
                e->comm.rank, stuck_s, record ? record->context : "the end of the step");
  ptc_comm_abort(e->host, diag->items[diag->num_items - 1].message);
  return status;
}

ptc_status_t ptc_nccl_watch(void *arg, ptc_diag_t *diag, double waited_s) {
  ptc_nccl_endpoint_t *e = arg;
  ptc_status_t status = ptc_comm_poll(e->host, diag);
  if (status == PTC_OK) status = check_limit(e, diag, waited_s);
  if (status != PTC_OK) return give_up(e, status);
  for (int32_t g = 0; g < e->num_groups; g++) {
    int code = PTC_NCCL_SUCCESS;
    void *comm = e->groups[g].comm;
    if (!comm) continue;
    PTC_NCCL_CALL(e, diag, comm, CommGetAsyncError, comm, &code);
    PTC_TRY(ptc_nccl_check(e, diag, code, comm, "ncclCommGetAsyncError"));
  }
  return PTC_OK;
}
