// What ranks do together: collectives over groups, messages between two, barriers. An endpoint is one rank's
// side of it; the code behind it is local (threads of one process, or processes of one machine) or MPI. All of
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

// One tensor of a collective. What a member has of it is |outer| blocks of |chunk_bytes|; the whole has |outer|
// rows of |row_bytes|: member g's chunk o lies in row o at g * chunk_bytes. Where the row ends before the chunk does
// (padding), the piece is that much shorter, and what is left of the chunk in |out| becomes zero.
//
//   ALL_GATHER      in: chunks, out: rows. out[o * row + g * chunk ..] = member g's in[o * chunk ..]
//   REDUCE_SCATTER  in: rows, out: chunks. out[o * chunk ..] = sum over members of in[o * row + me * chunk ..]
//   ALL_REDUCE      outer 1, chunk = row = all bytes. out[..] = sum over members of in[..]
//   ALL_TO_ALL      below
//
// |in| and |out| do not overlap, with two exceptions: |out| of an ALL_REDUCE may be its |in|, and |in| of an
// ALL_GATHER may be its own place in |out|.
typedef struct ptc_comm_part_s {
  const void *in;
  void *out;
  int64_t outer, chunk_bytes, row_bytes;
  // ALL_TO_ALL alone, which moves the split from dim |from| to dim |to|: a member has all of
  // dim |to| and its chunk of dim |from|, and gets all of |from| and its chunk of |to|. Extents count indices.
  //   from_outside:  in [outer][from_chunk][middle][to_row][inner_bytes], out [outer][from_row][middle][to_chunk][..]
  //   else           in [outer][to_row][middle][from_chunk][inner_bytes], out [outer][to_chunk][middle][from_row][..]
  // chunk_bytes and row_bytes are not used.
  struct {
    bool from_outside;  // dim |from| stands before dim |to|
    int64_t from_chunk, from_row, to_chunk, to_row, middle, inner_bytes;
  } swap;
} ptc_comm_part_t;

// A collective: all parts are of one dtype (and may be of any size, also empty). |reduce| and |dtype| count where
// something is added; all sizes are whole numbers of the dtype.
typedef struct ptc_comm_collective_s {
  int32_t group;
  ptc_collective_kind_t kind;
  ptc_reduce_kind_t reduce;
  ptc_dtype_t dtype;
  int32_t num_parts;
  const ptc_comm_part_t *parts;
} ptc_comm_collective_t;

// One rank's endpoint. Used by one thread at a time.
typedef struct ptc_comm_s ptc_comm_t;

// How the bytes move: what runtime/local and runtime/mpi fill in. Use the functions below.
typedef struct ptc_comm_vtable_s {
  ptc_status_t (*group)(ptc_comm_t *comm, ptc_diag_t *diag, const int32_t *ranks, int32_t count,
                        int32_t *out_group);
  ptc_status_t (*collective)(ptc_comm_t *comm, ptc_diag_t *diag,
                             const ptc_comm_collective_t *collective);
  ptc_status_t (*send)(ptc_comm_t *comm, ptc_diag_t *diag, int32_t peer, int32_t tag,
                       const void *data, int64_t bytes);
  ptc_status_t (*recv)(ptc_comm_t *comm, ptc_diag_t *diag, int32_t peer, int32_t tag, void *data,
                       int64_t bytes);
  ptc_status_t (*barrier)(ptc_comm_t *comm, ptc_diag_t *diag, int32_t group);
  void (*abort)(ptc_comm_t *comm, const char *reason);
  void (*set_context)(ptc_comm_t *comm, const char *step, ptc_loc_t loc);
  void (*set_limit)(ptc_comm_t *comm, double seconds);
  int64_t (*bytes)(const ptc_comm_t *comm, int32_t group, ptc_collective_kind_t kind);
  int64_t (*received)(const ptc_comm_t *comm, int32_t peer);
  void (*close)(ptc_comm_t *comm);
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

// All members call it, with the same kinds and sizes; returns when |out| is complete and |in| may be written again.
// A group of one copies. Allocates nothing (processes and MPI: nothing that grows with the number of calls).
ptc_status_t ptc_comm_collective(ptc_comm_t *comm, ptc_diag_t *diag,
                                 const ptc_comm_collective_t *collective);

// A message to rank |peer|: |data| may be written again when this returns. Small messages do not wait for the
// receiver, large ones may. Messages of one sender are received by tag, those of the same tag in their order.
// recv: a message of another size is a "comm-mismatch". |tag| >= 0.
ptc_status_t ptc_comm_send(ptc_comm_t *comm, ptc_diag_t *diag, int32_t peer, int32_t tag,
                           const void *data, int64_t bytes);
ptc_status_t ptc_comm_recv(ptc_comm_t *comm, ptc_diag_t *diag, int32_t peer, int32_t tag,
                           void *data, int64_t bytes);

// Returns when all members of |group| have called it.
ptc_status_t ptc_comm_barrier(ptc_comm_t *comm, ptc_diag_t *diag, int32_t group);

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
// The watchdog's limit: how long this rank waits for others before it ends the run. 0: forever.
void ptc_comm_set_limit(ptc_comm_t *comm, double seconds);

// Bytes that this rank has read from its peers so far, whatever the algorithm, without padding; by group and kind,
// messages by sender. An ALL_REDUCE of n members reads 2(n-1)/n of its bytes: the elements of all parts in a row are
// cut into n slices, the first ones longer by one element where n does not divide them; a member reads its
// slice from all others, then all others' slices. The other kinds read what members get from others, once.
int64_t ptc_comm_bytes(const ptc_comm_t *comm, int32_t group, ptc_collective_kind_t kind);
int64_t ptc_comm_received(const ptc_comm_t *comm, int32_t peer);

// Closes the endpoint; ranks that still wait for this one end with "comm-lost". NULL is allowed.
void ptc_comm_close(ptc_comm_t *comm);

// Endpoints of |world| ranks that are threads of this process, one for each, to be closed each.
// "comm-start" (PTC_DEVICE) if the system has no memory for it.
ptc_status_t ptc_comm_open_threads(ptc_diag_t *diag, int32_t world, ptc_comm_t **out_comms);

#endif  // PTC_RUNTIME_COMMUNICATOR_H_
