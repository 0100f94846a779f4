// Ranks on one machine. All that they share lies in one mapping: of this process where ranks are threads, of a file
// where they are processes, which is why it holds offsets instead of addresses. What ranks wait for is always one thing:
// that a counter, which one other rank alone raises, reaches a value.
#ifndef PTC_RUNTIME_LOCAL_LOCAL_IMPL_H_
#define PTC_RUNTIME_LOCAL_LOCAL_IMPL_H_

#include <stdatomic.h>

#include "runtime/comm_call.h"
#include "runtime/communicator.h"
#include "runtime/transfer.h"

enum {
  PTC_LOCAL_LINE = 64,  // bytes that one rank alone writes
  PTC_LOCAL_TEXT_WORDS = PTC_COMM_CONTEXT / 8,
  PTC_LOCAL_MAX_WORLD = 1024,
};

// A counter that one rank raises and others wait for.
typedef struct ptc_local_signal_s {
  _Alignas(PTC_LOCAL_LINE) _Atomic uint64_t count;
  _Atomic uint32_t num_sleeping;
} ptc_local_signal_t;

typedef enum ptc_local_state_e {
  PTC_LOCAL_ABSENT,
  PTC_LOCAL_PRESENT,
  PTC_LOCAL_CLOSED
} ptc_local_state_t;

// What a rank shows of itself.
typedef struct ptc_local_record_s {
  _Alignas(PTC_LOCAL_LINE) _Atomic uint32_t state;
  // While it waits: the count of its waits is odd, and this is the one.
  _Atomic uint64_t num_waits, signal, value;  // |signal|: offset in the mapping
  _Atomic int32_t peer;
  _Atomic uint64_t text[PTC_LOCAL_TEXT_WORDS];  // what it is doing, its place in the .ptm
} ptc_local_record_t;

typedef struct ptc_local_member_s {
  ptc_local_signal_t signal;  // one more each time that it has come to a meeting of the group
  // Calls alternate: while one is compared, a quick member may already be at the next, but not at the one after.
  ptc_comm_call_t calls[2];
  void *const *args;  // threads; until the call's last meeting
} ptc_local_member_t;

typedef struct ptc_local_group_s {
  uint64_t next;  // offset of another group, 0: none
  int32_t size;
  _Alignas(PTC_LOCAL_LINE) ptc_local_member_t members[];  // then the ranks
} ptc_local_group_t;

// Messages from one rank to another: a ring of bytes, each message a head and its content.
typedef struct ptc_local_ring_s {
  ptc_local_signal_t written, read;  // bytes since the start
  char bytes[];
} ptc_local_ring_t;

typedef struct ptc_local_head_s {
  int64_t bytes;
  int32_t tag, unused;
} ptc_local_head_t;

// The head of the mapping. Offsets count from it.
typedef struct ptc_local_world_s {
  uint64_t magic;
  int32_t size;
  int64_t ring_bytes, ring_stride;
  int64_t stage_bytes;                  // of one of a rank's two stages
  uint64_t rings, stages, total_bytes;  // rings[from][to], stages[rank]
  _Atomic int32_t num_present;
  _Atomic uint64_t groups;     // offset of the latest, 0: none
  _Atomic uint64_t heap_used;  // offset
  uint64_t heap_end;
  _Atomic uint32_t abort_state;  // 0; 1: someone writes the text; 2: it is there
  int32_t end;
  char abort_text[PTC_COMM_REASON];
  ptc_local_record_t records[];
} ptc_local_world_t;

// A message that came before it was asked for.
typedef struct ptc_local_stash_s ptc_local_stash_t;
struct ptc_local_stash_s {
  ptc_local_stash_t *next;
  ptc_local_head_t head;
  char bytes[];
};

// A group as its member sees it.
typedef struct ptc_local_handle_s {
  ptc_local_group_t *group;
  int32_t me;
  uint64_t num_meetings, num_calls;
  int64_t bytes[PTC_NUM_COLLECTIVES];
} ptc_local_handle_t;

// How many threads of this process use a mapping.
typedef struct ptc_local_mapping_s {
  ptc_local_world_t *world;
  size_t bytes;
  _Atomic int32_t num_users;
} ptc_local_mapping_t;

typedef struct ptc_local_s {
  ptc_comm_t comm;
  ptc_local_mapping_t *mapping;
  ptc_local_world_t *world;
  int fd;  // of the mapping's file, which holds this rank's lock; -1: ranks are threads
  int32_t num_spins;
  double limit_s;
  ptc_loc_t loc;
  ptc_local_handle_t *handles;
  int32_t num_handles;
  // Scratch: one per rank.
  const void **ins;
  void **outs;
  const char **stage_ins;
  int64_t *sizes;               // two per rank
  ptc_walk_t *walks;            // two per rank
  int64_t *received;            // bytes by rank
  ptc_local_stash_t **stashes;  // by sender, in order of arrival
  bool *ring_backed;            // by receiver: the ring's memory is there
} ptc_local_t;

// --- world.c

// Bytes of a mapping for |size| ranks, and its head filled in (|world| may be NULL). The memory is zero. |in_file|: it is
// in a file, where room is scarce.
uint64_t ptc_local_layout(int32_t size, bool in_file, ptc_local_world_t *world);
// An endpoint in |mapping|, whose head is filled in; makes the group of all ranks. Counts as a user of it.
ptc_local_t *ptc_local_new(ptc_local_mapping_t *mapping, int32_t rank, int fd);
ptc_local_ring_t *ptc_local_ring(const ptc_local_t *local, int32_t from, int32_t to);
// Memory of |bytes| more of the mapping, zero; NULL if it is used up.
void *ptc_local_alloc(ptc_local_world_t *world, uint64_t bytes);
// Sees to it that the file has room for [offset, offset + bytes): else touching it would kill the process.
bool ptc_local_back(const ptc_local_t *local, uint64_t offset, uint64_t bytes);

// --- wait.c

void ptc_local_raise(ptc_local_signal_t *signal, uint64_t count);
// Waits until |signal|, which |peer| raises, has reached |value|. Fails when the run has ended, or is to end for
// what this wait finds out.
ptc_status_t ptc_local_wait(ptc_local_t *local, ptc_diag_t *diag, ptc_local_signal_t *signal,
                            uint64_t value, int32_t peer);
// PTC_OK, or the diagnostic that the run has ended.
ptc_status_t ptc_local_check(const ptc_local_t *local, ptc_diag_t *diag);
// Ends the run on all ranks for a reason that this one has found; its diagnostic.
ptc_status_t ptc_local_fail(ptc_local_t *local, ptc_diag_t *diag, ptc_comm_end_t end,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));
void ptc_local_abort(ptc_comm_t *comm, const char *reason);
ptc_status_t ptc_local_poll(ptc_comm_t *comm, ptc_diag_t *diag);
void ptc_local_set_context(ptc_comm_t *comm, const char *step, ptc_loc_t loc);

// --- group.c

ptc_status_t ptc_local_make_group(ptc_comm_t *comm, ptc_diag_t *diag, const int32_t *ranks,
                                  int32_t count, int32_t *out_group);
const int32_t *ptc_local_group_ranks(const ptc_local_group_t *group);
// Waits until all members have come as often as this one.
ptc_status_t ptc_local_meet(ptc_local_t *local, ptc_diag_t *diag, ptc_local_handle_t *handle);
// The first meeting of a call: also compares what the members call.
ptc_status_t ptc_local_meet_for(ptc_local_t *local, ptc_diag_t *diag, ptc_local_handle_t *handle,
                                const ptc_comm_call_t *call, void *const *args);

// --- collective.c, message.c

ptc_status_t ptc_local_collective(ptc_comm_t *comm, ptc_diag_t *diag, int32_t group,
                                  const ptc_collective_t *collective, void *const *args);
ptc_status_t ptc_local_barrier(ptc_comm_t *comm, ptc_diag_t *diag, int32_t group);
ptc_status_t ptc_local_send(ptc_comm_t *comm, ptc_diag_t *diag, int32_t peer, int32_t tag,
                            const void *data, int64_t bytes);
ptc_status_t ptc_local_recv(ptc_comm_t *comm, ptc_diag_t *diag, int32_t peer, int32_t tag,
                            void *data, int64_t bytes);

#endif  // PTC_RUNTIME_LOCAL_LOCAL_IMPL_H_
