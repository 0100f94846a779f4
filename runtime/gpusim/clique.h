// What the communicators of one NCCL id share: who is there, and the operations that their members have called. The
// matching is NCCL's: the n-th collective of one member meets the n-th of the others, the n-th message from one to
// another the n-th that is received there. Where they are not the same, NCCL hangs or mixes up memory; here it is
// an error of all members, which names both calls.
#ifndef PTC_RUNTIME_GPUSIM_CLIQUE_H_
#define PTC_RUNTIME_GPUSIM_CLIQUE_H_

#include <stdbool.h>
#include <stdint.h>

#include "ir/base/vec.h"
#include "runtime/nccl/library.h"

enum { SIM_CLIQUE_TEXT = 512 };

typedef enum sim_nccl_op_kind_e {
  SIM_NCCL_OP_ALL_REDUCE,
  SIM_NCCL_OP_REDUCE,
  SIM_NCCL_OP_BROADCAST,
  SIM_NCCL_OP_REDUCE_SCATTER,
  SIM_NCCL_OP_ALL_GATHER,
  SIM_NCCL_OP_MESSAGE,
} sim_nccl_op_kind_t;

// What a member calls. Of the same operation, all of it is the same.
typedef struct sim_nccl_call_s {
  sim_nccl_op_kind_t kind;
  int32_t type, reduce;  // NCCL's numbers; |reduce| 0 where nothing is reduced
  int32_t root;          // 0 where there is none
  int64_t count;
} sim_nccl_call_t;

// An operation of a clique. Two parties have a message, the sender 0 and the receiver 1; else they are the members.
typedef struct sim_nccl_op_s {
  sim_nccl_call_t call;
  int64_t number;    // among the collectives, or the messages from |from| to |to|
  int32_t first;     // the member that called it first
  int32_t from, to;  // MESSAGE
  int32_t num_parties, num_called, num_arrived, num_left;
  bool done;
  const void **ins;
  void **outs;
} sim_nccl_op_t;

typedef struct sim_clique_s sim_clique_t;

// A buffer that a communicator has been told of; its address is the handle.
typedef struct sim_registered_s {
  uint64_t address, bytes;
} sim_registered_t;

// A member's communicator: what ncclComm_t points to.
typedef struct sim_comm_s {
  sim_clique_t *clique;
  int32_t rank, device;
  int64_t num_collectives, num_splits;
  int64_t *num_sent, *num_received;  // per peer
  int32_t num_items;                 // works on streams that still need it
  bool ended;                        // aborted, or destroyed
  PTC_VEC(sim_registered_t *) registered;
} sim_comm_t;

// A split that some members have not called yet.
typedef struct sim_split_s {
  int64_t number;
  int32_t num_called;
  int32_t *colors, *keys;  // per member
  void ***parts;           // where the new communicators go
  bool *called;
} sim_split_t;

struct sim_clique_s {
  ptc_nccl_id_t id;
  int32_t size, num_here, num_ended;
  sim_comm_t **members;  // NULL: not there yet
  PTC_VEC(sim_nccl_op_t *) ops;
  PTC_VEC(sim_split_t *) splits;
  int error;  // of all members
  char text[SIM_CLIQUE_TEXT];
};

// All of these are called with the one lock of NCCL.

sim_clique_t *sim_clique_create(const ptc_nccl_id_t *id, int32_t size);
void sim_clique_destroy(sim_clique_t *clique);
// Notes an error of all members, the first one alone; gives its code.
int sim_clique_fail(sim_clique_t *clique, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// The communicator of |rank|, on |device|, joins. NULL: an error of the clique.
sim_comm_t *sim_clique_join(sim_clique_t *clique, int32_t rank, int32_t device);
// |comm| calls |call|: of a message, |peer| is the other side, and |sends| this one's. NULL: an error of the clique.
sim_nccl_op_t *sim_clique_call(sim_comm_t *comm, const sim_nccl_call_t *call, int32_t peer,
                               bool sends);
// A party comes to an operation with its memory; the last one carries it out.
void sim_nccl_op_arrive(sim_nccl_op_t *op, int32_t party, const void *in, void *out);
// A party leaves an operation, which ends with the last one.
void sim_nccl_op_leave(sim_clique_t *clique, sim_nccl_op_t *op);
// Bytes that a party reads and writes; 0: it has no part in that.
int64_t sim_nccl_op_in_bytes(const sim_nccl_op_t *op, int32_t party);
int64_t sim_nccl_op_out_bytes(const sim_nccl_op_t *op, int32_t party);

#endif  // PTC_RUNTIME_GPUSIM_CLIQUE_H_
