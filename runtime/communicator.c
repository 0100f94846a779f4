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

ptc_status_t ptc_comm_collective(ptc_comm_t *comm, ptc_diag_t *diag,
                                 const ptc_comm_collective_t *collective) {
  return comm->vtable->collective(comm, diag, collective);
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

ptc_status_t ptc_comm_check_same(ptc_comm_t *comm, ptc_diag_t *diag, const char *what,
                                 const void *data, int64_t bytes) {
  // The length first, since a gather wants equal ones.
  int64_t *lengths = malloc((size_t)comm->world * sizeof *lengths);
  if (!lengths) ptc_oom((size_t)comm->world * sizeof *lengths);
  ptc_comm_part_t part = {.in = &bytes, .out = lengths, .outer = 1};
  part.chunk_bytes = sizeof bytes;
  part.row_bytes = comm->world * part.chunk_bytes;
  const ptc_comm_collective_t gather = {.group = PTC_COMM_WORLD,
                                        .kind = PTC_COLLECTIVE_ALL_GATHER,
                                        .dtype = PTC_BOOL,
                                        .num_parts = 1,
                                        .parts = &part};
  ptc_status_t status = ptc_comm_collective(comm, diag, &gather);
  int32_t other = 0;
  if (status == PTC_OK)
    for (int32_t r = comm->world - 1; r > 0; r--)
      if (lengths[r] != lengths[0]) other = r;
  if (status == PTC_OK && other == 0 && bytes > 0) {
    unsigned char *all = malloc((size_t)(comm->world * bytes));
    if (!all) ptc_oom((size_t)(comm->world * bytes));
    part = (ptc_comm_part_t){.in = data, .out = all, .outer = 1};
    part.chunk_bytes = bytes;
    part.row_bytes = comm->world * bytes;
    status = ptc_comm_collective(comm, diag, &gather);
    if (status == PTC_OK)
      for (int32_t r = comm->world - 1; r > 0; r--)
        if (memcmp(all + r * bytes, all, (size_t)bytes) != 0) other = r;
    free(all);
  }
  free(lengths);
  if (status == PTC_OK && other != 0)
    return ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "comm-differs",
                     "ranks 0 and %d do not have the same of %s", other, what);
  return status;
}

void ptc_comm_abort(ptc_comm_t *comm, const char *reason) { comm->vtable->abort(comm, reason); }

void ptc_comm_set_context(ptc_comm_t *comm, const char *step, ptc_loc_t loc) {
  comm->vtable->set_context(comm, step, loc);
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
