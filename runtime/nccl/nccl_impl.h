// The rank of a run on GPUs: NCCL moves bytes between devices, a host communicator carries what ranks say.
#ifndef PTC_RUNTIME_NCCL_NCCL_IMPL_H_
#define PTC_RUNTIME_NCCL_NCCL_IMPL_H_

#include "runtime/comm_call.h"
#include "runtime/nccl/library.h"
#include "runtime/nccl/nccl.h"

enum {
  PTC_NCCL_NUM_RECORDS = 256,
  // Calls of a group, and messages to or from a peer, that are compared before they are queued: more than the first
  // step of a plan has.
  PTC_NCCL_COMPARED = 1024,
};

typedef struct ptc_nccl_group_s {
  int32_t size, me;
  int32_t *ranks;
  int32_t host;  // the same group there
  void *comm;    // NULL: one rank, or not ready
  void *arena;   // the device's, as NCCL knows it; NULL: it does not
  int64_t num_calls;
  int64_t bytes[PTC_NUM_COLLECTIVES];
} ptc_nccl_group_t;

// What was queued: for the watchdog to say where the device is.
typedef struct ptc_nccl_record_s {
  void *begin, *end;  // the device's marks
  char context[PTC_COMM_CONTEXT];
} ptc_nccl_record_t;

typedef struct ptc_nccl_endpoint_s {
  ptc_comm_t comm;
  ptc_comm_t *host;
  ptc_device_t *device;
  ptc_nccl_t *nccl;
  ptc_nccl_group_t *groups;  // the first one is all ranks
  int32_t num_groups;
  int64_t *num_sent, *num_received;  // messages per peer
  int64_t *received;                 // bytes per peer
  int32_t stream;                    // of the plan, for what is queued next
  // Per stream: device memory for pieces that do not lie together.
  uint64_t stages[PTC_PLAN_MAX_STREAMS];
  int64_t stage_bytes[PTC_PLAN_MAX_STREAMS];
  double limit_s;
  ptc_loc_t loc;
  char context[PTC_COMM_CONTEXT];
  ptc_nccl_record_t *records;  // a ring
  int64_t num_records;         // queued so far
  int64_t num_passed;          // of them, known to be done
  double passed_s;             // when that was found in the present wait
  bool is_over;                // the communicators are aborted
} ptc_nccl_endpoint_t;

// --- wait.c

// PTC_OK if |code| is success, or goes on; else "nccl-failed" with what was tried and NCCL's words.
ptc_status_t ptc_nccl_check(ptc_nccl_endpoint_t *endpoint, ptc_diag_t *diag, int code, void *comm,
                            const char *what);
// Waits until the call that |comm| was given last has been taken, and |*part|, unless NULL, is there.
ptc_status_t ptc_nccl_settle(ptc_nccl_endpoint_t *endpoint, ptc_diag_t *diag, void *comm,
                             void **part, const char *what);
// What the device asks while it is waited for; |arg| is the endpoint.
ptc_status_t ptc_nccl_watch(void *arg, ptc_diag_t *diag, double waited_s);
// Before and after what is queued for a collective or a message.
ptc_status_t ptc_nccl_begin(ptc_nccl_endpoint_t *endpoint, ptc_diag_t *diag);
ptc_status_t ptc_nccl_end(ptc_nccl_endpoint_t *endpoint, ptc_diag_t *diag);
// Aborts all communicators, once.
void ptc_nccl_abort_all(ptc_nccl_endpoint_t *endpoint);

// --- groups.c

// Makes a communicator for each group of any rank, in an order that all ranks find alike.
ptc_status_t ptc_nccl_make_groups(ptc_nccl_endpoint_t *endpoint, ptc_diag_t *diag);
// That of all ranks.
ptc_status_t ptc_nccl_make_world(ptc_nccl_endpoint_t *endpoint, ptc_diag_t *diag);

// Gives |*id| of rank |first| to all ranks of |host|, all of which call it.
ptc_status_t ptc_nccl_share_id(ptc_comm_t *host, ptc_diag_t *diag, int32_t first,
                               ptc_nccl_id_t *id);

// Tells NCCL of the device's arena, for each group that it does not know it for yet. Where NCCL does not want it, calls go
// as they did.
void ptc_nccl_register(ptc_nccl_endpoint_t *endpoint);

// --- calls.c

ptc_status_t ptc_nccl_collective(ptc_comm_t *comm, ptc_diag_t *diag, int32_t group,
                                 const ptc_collective_t *collective, void *const *args);
ptc_status_t ptc_nccl_send(ptc_comm_t *comm, ptc_diag_t *diag, int32_t peer, int32_t tag,
                           const void *data, int64_t bytes);
ptc_status_t ptc_nccl_recv(ptc_comm_t *comm, ptc_diag_t *diag, int32_t peer, int32_t tag,
                           void *data, int64_t bytes);

#define PTC_NCCL_CALL(endpoint, diag, comm, name, ...)                                    \
  PTC_TRY(ptc_nccl_check((endpoint), (diag), (endpoint)->nccl->name(__VA_ARGS__), (comm), \
                         "nccl" #name))

#endif  // PTC_RUNTIME_NCCL_NCCL_IMPL_H_
