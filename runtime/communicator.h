// What ranks do together: collectives over groups, messages between two, barriers. An endpoint is one rank's
// side of it; the code behind it is local (threads of one process, or processes of one machine) or MPI, or TCP. All of
// them add in the same order, so they give the same bits.
//
// Numbers are summed in the order of members: ((x0 + x1) + x2) + ...; f16 and bf16 in f32, rounded once at
// the end; integers wrap; bool: or. A maximum hands NaN on.
//
// What goes wrong between ranks ends the run on all of them, with PTC_DEVICE and a diagnostic, and never hangs:
// "comm-mismatch" (members disagree about what they do, or wait for each other in a circle), "comm-lost" (a rank
// has died, or has closed its endpoint), "comm-stuck" (the watchdog: a rank has waited longer than the limit),
// "comm-aborted" (another rank has met an error). The diagnostic names the ranks, what each of them was doing, and
// the waiting rank's place in the .ptm. Afterwards every call fails.
#ifndef PTC_RUNTIME_COMMUNICATOR_H_
#define PTC_RUNTIME_COMMUNICATOR_H_

#include <stdbool.h>
#include <stdint.h>

#include "ir/base/diag.h"
#include "ir/plan.h"

enum { PTC_COMM_LIMIT_S = 300 };  // the watchdog's default

// One rank's endpoint. Used by one thread at a time.
typedef struct ptc_comm_s ptc_comm_t;

// How the bytes move: what runtime/local and runtime/mpi fill in. Use the functions below.
typedef struct ptc_comm_vtable_s {
  ptc_status_t (*group)(ptc_comm_t *comm, ptc_diag_t *diag, const int32_t *ranks, int32_t count,
                        int32_t *out_group);
  ptc_status_t (*collective)(ptc_comm_t *comm, ptc_diag_t *diag, int32_t group,
                             const ptc_collective_t *collective, void *const *args);
  ptc_status_t (*send)(ptc_comm_t *comm, ptc_diag_t *diag, int32_t peer, int32_t tag,
                       const void *data, int64_t bytes);
  ptc_status_t (*recv)(ptc_comm_t *comm, ptc_diag_t *diag, int32_t peer, int32_t tag, void *data,
                       int64_t bytes);
  ptc_status_t (*barrier)(ptc_comm_t *comm, ptc_diag_t *diag, int32_t group);
  ptc_status_t (*ready)(ptc_comm_t *comm, ptc_diag_t *diag);  // optional: nothing to do
  ptc_status_t (*poll)(ptc_comm_t *comm, ptc_diag_t *diag);
  void (*abort)(ptc_comm_t *comm, const char *reason);
  void (*set_context)(ptc_comm_t *comm, const char *step, ptc_loc_t loc);
  void (*set_stream)(ptc_comm_t *comm, int32_t stream);  // optional: there are no streams
  void (*set_limit)(ptc_comm_t *comm, double seconds);
  int64_t (*bytes)(const ptc_comm_t *comm, int32_t group, ptc_collective_kind_t kind);
  int64_t (*received)(const ptc_comm_t *comm, int32_t peer);
  void (*close)(ptc_comm_t *comm);
  // Any thread may make the next call, and call abort at any time.
  bool any_thread;
} ptc_comm_vtable_t;

struct ptc_comm_s {
  const ptc_comm_vtable_t *vtable;
  int32_t rank, world;
};

enum { PTC_COMM_WORLD = 0 };  // the group of all ranks, in order: every endpoint has it

// Makes a group of |ranks|, this one among them, in the order of members; the same list gives the same group. All of
// its members make it, each before it uses it; groups are made at the start. Does not wait for anybody.
// "comm-group" (PTC_INVALID_INPUT): a rank that does not exist, is there twice, or this one is missing.
ptc_status_t ptc_comm_group(ptc_comm_t *comm, ptc_diag_t *diag, const int32_t *ranks, int32_t count,
                            int32_t *out_group);

// All groups have been made: every rank calls it then, before the first collective of a group other than
// PTC_COMM_WORLD. May wait for the others.
ptc_status_t ptc_comm_ready(ptc_comm_t *comm, ptc_diag_t *diag);

// What a step of a plan says (ptc_collective_t in ir/plan.h); its axes have become |group|. args[2 p] and args[2 p + 1]
// are the operand and the result of part p, aligned to its dtype; they do not overlap, but the result of an ALL_REDUCE may
// be its operand, and the operand of an ALL_GATHER its own piece of the result. Sizes are whole numbers of the dtype
// (or nothing). All members call it alike; returns when the results are complete and the operands may be written
// again. A group of one copies. Allocates nothing after the first calls.
ptc_status_t ptc_comm_collective(ptc_comm_t *comm, ptc_diag_t *diag, int32_t group,
                                 const ptc_collective_t *collective, void *const *args);

// A message to rank |peer|: |data| may be written again when this returns. Small messages do not wait for the
// receiver, large ones may. Messages of one sender are received by tag, those of the same tag in their order.
// recv: a message of another size is a "comm-mismatch". |tag| >= 0.
ptc_status_t ptc_comm_send(ptc_comm_t *comm, ptc_diag_t *diag, int32_t peer, int32_t tag,
                           const void *data, int64_t bytes);
ptc_status_t ptc_comm_recv(ptc_comm_t *comm, ptc_diag_t *diag, int32_t peer, int32_t tag,
                           void *data, int64_t bytes);

// Returns when all members of |group| have called it.
ptc_status_t ptc_comm_barrier(ptc_comm_t *comm, ptc_diag_t *diag, int32_t group);

// Whether the run has ended, asked by a rank that waits for something else: does not wait. The diagnostics of a wait.
ptc_status_t ptc_comm_poll(ptc_comm_t *comm, ptc_diag_t *diag);

// Compares |bytes| bytes across all ranks; "comm-differs" (PTC_INVALID_INPUT) on every rank if one has others than
// rank 0. |what| names them: "the plan".
ptc_status_t ptc_comm_check_same(ptc_comm_t *comm, ptc_diag_t *diag, const char *what,
                                 const void *data, int64_t bytes);

// Ends the run on all ranks: what they wait for fails with "comm-aborted" and |reason|. Call it when a rank meets
// an error of its own. The first one counts.
void ptc_comm_abort(ptc_comm_t *comm, const char *reason);

// What this rank is doing, for diagnostics of all ranks: "step 17 all_reduce over tp of grad.wq", and where that
// stands in the .ptm (|loc| may be zero). The text is copied (and cut at 120 bytes or so). Cheap.
void ptc_comm_set_context(ptc_comm_t *comm, const char *step, ptc_loc_t loc);
// Of a communicator between devices: what it is given from now on goes to that stream of the plan's; first, to 0.
void ptc_comm_set_stream(ptc_comm_t *comm, int32_t stream);
// The watchdog's limit: how long this rank waits for others before it ends the run. 0: forever.
void ptc_comm_set_limit(ptc_comm_t *comm, double seconds);

// Bytes that this rank has read from its peers so far, whatever the algorithm: collectives by group and kind (what
// ptc_collective_bytes says of the plan), messages by sender.
int64_t ptc_comm_bytes(const ptc_comm_t *comm, int32_t group, ptc_collective_kind_t kind);
int64_t ptc_comm_received(const ptc_comm_t *comm, int32_t peer);

// Closes the endpoint; ranks that still wait for this one end with "comm-lost". After a failure, print the diagnostics
// before: launchers may kill this process when another one ends. NULL is allowed.
void ptc_comm_close(ptc_comm_t *comm);

// Endpoints of |world| ranks that are threads of this process, one for each, to be closed each.
// "comm-start" (PTC_DEVICE) if the system has no memory for it.
ptc_status_t ptc_comm_open_threads(ptc_diag_t *diag, int32_t world, ptc_comm_t **out_comms);

// The endpoint of a rank that is a process, one of |world| on this machine. The ranks of a run call it with the same
// |name|, a word that no other run has; waits until all have, at most |limit_s| seconds (0: forever), which is also
// the watchdog's limit then. "comm-start", "comm-lost", "comm-stuck" (PTC_DEVICE).
ptc_status_t ptc_comm_open_process(ptc_diag_t *diag, const char *name, int32_t rank, int32_t world,
                                   double limit_s, ptc_comm_t **out_comm);

// The endpoint of a rank of an MPI job that expects to be |rank| of |world|. MPI is in a module, which is loaded
// here: ptc_mpi_openmpi.so or ptc_mpi_mpich.so beside the program or in ptc's library folder; PTC_MPI_MODULE names
// another file. One endpoint per process; closing it ends MPI. Circles of waits are left to the watchdog, and
// ranks that die to the launcher, which then ends the others. "mpi-missing", "mpi-failed", "comm-start" (PTC_DEVICE).
ptc_status_t ptc_comm_open_mpi(ptc_diag_t *diag, int32_t rank, int32_t world, double limit_s,
                               ptc_comm_t **out_comm);

// The endpoint of rank |rank| of |world| on any machines, each connected with each over TCP. Rank 0 listens at |port| of
// |host|, which all ranks are given alike; waits until all have come, at most |limit_s| seconds (0: forever), which is also
// the watchdog's limit then. A rank that dies is found by its connection. "comm-start" (the address is in use, the host
// unknown, another number of ranks, a rank twice), or who listens is no
// rank 0), "comm-stuck" (who has not come; PTC_DEVICE).
ptc_status_t ptc_comm_open_tcp(ptc_diag_t *diag, const char *host, int32_t port, int32_t rank,
                               int32_t world, double limit_s, ptc_comm_t **out_comm);

#endif  // PTC_RUNTIME_COMMUNICATOR_H_
