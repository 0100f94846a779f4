// The part that is the same for all communicators: checks, and calls of the table.
#include "runtime/communicator.h"

#include <stdlib.h>
#include <string.h>

#include "ir/base/arena.h"

ptc_status_t ptc_comm_group(ptc_comm_t *comm, ptc_diag_t *diag, const int32_t *ranks, int32_t count,
                            int32_t *out_group) {
  int32_t mine = 0;
  for (int32_t i = 0; i < count; i++) {
    if (ranks[i] < 0 || ranks[i] >= comm->world)
      return ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "comm-group",
                       "a group of ranks has rank %d, and there are %d", ranks[i], comm->world);
    for (int32_t j = 0; j < i; j++)
      if (ranks[j] == ranks[i])
        return ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "comm-group",
                         "a group of ranks has rank %d twice", ranks[i]);
    mine += ranks[i] == comm->rank;
  }
  if (mine == 0)
    return ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "comm-group",
                     "rank %d makes a group that it is not in", comm->rank);
  return comm->vtable->group(comm, diag, ranks, count, out_group);
}

ptc_status_t ptc_comm_collective(ptc_comm_t *comm, ptc_diag_t *diag, int32_t group,
                                 const ptc_collective_t *collective, void *const *args) {
  return comm->vtable->collective(comm, diag, group, collective, args);
}

ptc_status_t ptc_comm_send(ptc_comm_t *comm, ptc_diag_t *diag, int32_t peer, int32_t tag,
                           const void *data, int64_t bytes) {
  return comm->vtable->send(comm, diag, peer, tag, data, bytes);
}

ptc_status_t ptc_comm_recv(ptc_comm_t *comm, ptc_diag_t *diag, int32_t peer, int32_t tag,
                           void *data, int64_t bytes) {
  return comm->vtable->recv(comm, diag, peer, tag, data, bytes);
}

ptc_status_t ptc_comm_barrier(ptc_comm_t *comm, ptc_diag_t *diag, int32_t group) {
  return comm->vtable->barrier(comm, diag, group);
}

ptc_status_t ptc_comm_ready(ptc_comm_t *comm, ptc_diag_t *diag) {
  return comm->vtable->ready ? comm->vtable->ready(comm, diag) : PTC_OK;
}

ptc_status_t ptc_comm_poll(ptc_comm_t *comm, ptc_diag_t *diag) {
  return comm->vtable->poll(comm, diag);
}

// Every rank's |bytes| bytes, in the order of ranks. malloc'ed; NULL on an error.
static unsigned char *gather_all(ptc_comm_t *comm, ptc_diag_t *diag, const void *data,
                                 int64_t bytes, ptc_status_t *out_status) {
  const size_t total = (size_t)(comm->world * bytes);
  unsigned char *all = malloc(total);
  if (!all) ptc_oom(total);
  ptc_collective_part_t part = {.in = {1, bytes, bytes}, .out = {1, bytes, comm->world * bytes}};
  const ptc_collective_t gather = {
      .kind = PTC_COLLECTIVE_ALL_GATHER, .dtype = PTC_BOOL, .num_parts = 1, .parts = &part};
  void *const args[2] = {(void *)data, all};
  *out_status = ptc_comm_collective(comm, diag, PTC_COMM_WORLD, &gather, args);
  if (*out_status == PTC_OK) return all;
  free(all);
  return NULL;
}

// The first rank whose bytes are not rank 0's; 0 if there is none.
static int32_t find_other(const unsigned char *all, int64_t bytes, int32_t world) {
  for (int32_t r = 1; r < world; r++)
    if (memcmp(all + r * bytes, all, (size_t)bytes) != 0) return r;
  return 0;
}

ptc_status_t ptc_comm_check_same(ptc_comm_t *comm, ptc_diag_t *diag, const char *what,
                                 const void *data, int64_t bytes) {
  // The lengths first, since members of a gather must have equal ones.
  ptc_status_t status;
  unsigned char *all = gather_all(comm, diag, &bytes, sizeof bytes, &status);
  if (!all) return status;
  int32_t other = find_other(all, sizeof bytes, comm->world);
  free(all);
  if (other == 0 && bytes > 0) {
    all = gather_all(comm, diag, data, bytes, &status);
    if (!all) return status;
    other = find_other(all, bytes, comm->world);
    free(all);
  }
  if (other == 0) return PTC_OK;
  return ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "comm-differs",
                   "ranks 0 and %d do not have the same of %s", other, what);
}

void ptc_comm_abort(ptc_comm_t *comm, const char *reason) { comm->vtable->abort(comm, reason); }

void ptc_comm_set_context(ptc_comm_t *comm, const char *step, ptc_loc_t loc) {
  comm->vtable->set_context(comm, step, loc);
}

void ptc_comm_set_stream(ptc_comm_t *comm, int32_t stream) {
  if (comm->vtable->set_stream) comm->vtable->set_stream(comm, stream);
}

void ptc_comm_set_limit(ptc_comm_t *comm, double seconds) {
  comm->vtable->set_limit(comm, seconds);
}

int64_t ptc_comm_bytes(const ptc_comm_t *comm, int32_t group, ptc_collective_kind_t kind) {
  return comm->vtable->bytes(comm, group, kind);
}

int64_t ptc_comm_received(const ptc_comm_t *comm, int32_t peer) {
  return comm->vtable->received(comm, peer);
}

void ptc_comm_close(ptc_comm_t *comm) {
  if (comm) comm->vtable->close(comm);
}
