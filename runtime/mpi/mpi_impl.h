// The rank of an MPI job: MPI moves bytes, the rest is ptc's. Ranks that are connected over TCP are the same, with another
// module.
#ifndef PTC_RUNTIME_MPI_MPI_IMPL_H_
#define PTC_RUNTIME_MPI_MPI_IMPL_H_

#include "runtime/comm_call.h"
#include "runtime/mpi/endpoint.h"
#include "runtime/transfer.h"

enum { PTC_MPI_STAGE_BYTES = 1 << 20, PTC_MPI_NOTICE_TAG = 0, PTC_MPI_FAREWELL_TAG = 1 };

typedef struct ptc_mpi_group_s {
  int32_t size, me;
  int32_t *ranks;
  int tag;  // of its messages; its members have the same
  int64_t bytes[PTC_NUM_COLLECTIVES];
} ptc_mpi_group_t;

// A message that has been sent, and may still be under way.
typedef struct ptc_mpi_sent_s {
  void *data;  // NULL: free
} ptc_mpi_sent_t;

// What one rank tells the others when it ends the run.
typedef struct ptc_mpi_notice_s {
  int32_t end;
  char text[PTC_COMM_REASON];
} ptc_mpi_notice_t;

typedef struct ptc_mpi_s {
  ptc_comm_t comm;
  void *library;
  const ptc_mpi_module_t *module;
  void *state;       // the module's; NULL: it is the process's
  const char *name;  // of what moves the bytes: "MPI"
  double limit_s;
  ptc_loc_t loc;
  char context[PTC_COMM_CONTEXT];
  ptc_mpi_group_t *groups;
  int32_t num_groups;
  int64_t *received;
  ptc_mpi_sent_t *sent;
  int32_t num_sent;
  bool has_ended;
  ptc_mpi_notice_t notice;
  // Scratch: one window of everybody's; one or two per rank.
  char *stage, *arrived;
  const char **ins;
  const void **sum_ins;
  int64_t *sizes;
  ptc_walk_t *walks;
  ptc_comm_call_t *calls;
} ptc_mpi_t;

// Numbers of requests: what comes from a rank, what goes to it, notices and farewells to it, one message that comes,
// then the messages that have been sent.
static inline int ptc_mpi_in(const ptc_mpi_t *mpi, int32_t rank) { return (void)mpi, rank; }
static inline int ptc_mpi_out(const ptc_mpi_t *mpi, int32_t rank) { return mpi->comm.world + rank; }
static inline int ptc_mpi_notice(const ptc_mpi_t *mpi, int32_t rank) {
  return 2 * mpi->comm.world + rank;
}
static inline int ptc_mpi_farewell(const ptc_mpi_t *mpi, int32_t rank) {
  return 3 * mpi->comm.world + rank;
}
static inline int ptc_mpi_message(const ptc_mpi_t *mpi) { return 4 * mpi->comm.world; }
static inline int ptc_mpi_sent(const ptc_mpi_t *mpi, int32_t i) {
  return 4 * mpi->comm.world + 1 + i;
}

// --- wait.c

// PTC_OK if |code| is 0, else ends the run: "mpi-failed", or "comm-lost" of a module with a state, with what was tried.
ptc_status_t ptc_mpi_try(ptc_mpi_t *mpi, ptc_diag_t *diag, int code, const char *what);
// PTC_OK, or the diagnostic that the run has ended.
ptc_status_t ptc_mpi_check(ptc_mpi_t *mpi, ptc_diag_t *diag);
// Ends the run on all ranks; the diagnostic.
ptc_status_t ptc_mpi_fail(ptc_mpi_t *mpi, ptc_diag_t *diag, ptc_comm_end_t end, const char *format,
                          ...) __attribute__((format(printf, 4, 5)));
void ptc_mpi_abort(ptc_comm_t *comm, const char *reason);
ptc_status_t ptc_mpi_poll(ptc_comm_t *comm, ptc_diag_t *diag);
// One turn of waiting for |peer| since |start_s|, the |turn|-th: fails when the run has ended or when it takes too long.
ptc_status_t ptc_mpi_turn(ptc_mpi_t *mpi, ptc_diag_t *diag, int32_t peer, double start_s,
                          int64_t turn);
// Waits for a request, which depends on |peer|.
ptc_status_t ptc_mpi_wait(ptc_mpi_t *mpi, ptc_diag_t *diag, int request, int32_t peer);

// --- calls.c

ptc_status_t ptc_mpi_collective(ptc_comm_t *comm, ptc_diag_t *diag, int32_t group,
                                const ptc_collective_t *collective, void *const *args);
ptc_status_t ptc_mpi_barrier(ptc_comm_t *comm, ptc_diag_t *diag, int32_t group);
ptc_status_t ptc_mpi_send_message(ptc_comm_t *comm, ptc_diag_t *diag, int32_t peer, int32_t tag,
                                  const void *data, int64_t bytes);
ptc_status_t ptc_mpi_recv_message(ptc_comm_t *comm, ptc_diag_t *diag, int32_t peer, int32_t tag,
                                  void *data, int64_t bytes);
// Before the end: waits, for a while, until what was sent has arrived. After a failure also until all ranks are as far,
// since launchers kill the others when the first one ends.
void ptc_mpi_flush(ptc_mpi_t *mpi);

#endif  // PTC_RUNTIME_MPI_MPI_IMPL_H_
