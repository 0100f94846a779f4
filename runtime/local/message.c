// Messages between two ranks, through the ring from one to the other. A message that fits lies in the ring until it
// is asked for; of a larger one, the sender waits with the rest. One that comes before its turn is put aside.
#include <stdlib.h>
#include <string.h>

#include "runtime/local/local_impl.h"

enum { HEAD = sizeof(ptc_local_head_t) };

static int64_t padded(int64_t bytes) { return (bytes + HEAD - 1) / HEAD * HEAD; }

// Copies between the ring from place |at| on and |data|, around the ring's end.
static void copy_in(ptc_local_ring_t *ring, int64_t size, uint64_t at, const char *data,
                    int64_t bytes) {
  const int64_t start = (int64_t)(at % (uint64_t)size);
  const int64_t first = bytes < size - start ? bytes : size - start;
  memcpy(ring->bytes + start, data, (size_t)first);
  if (bytes > first) memcpy(ring->bytes, data + first, (size_t)(bytes - first));
}

static void copy_out(const ptc_local_ring_t *ring, int64_t size, uint64_t at, char *data,
                     int64_t bytes) {
  const int64_t start = (int64_t)(at % (uint64_t)size);
  const int64_t first = bytes < size - start ? bytes : size - start;
  memcpy(data, ring->bytes + start, (size_t)first);
  if (bytes > first) memcpy(data + first, ring->bytes, (size_t)(bytes - first));
}

// Waits until the ring has room for what ends at |end|.
static ptc_status_t wait_for_room(ptc_local_t *local, ptc_diag_t *diag, ptc_local_ring_t *ring,
                                  uint64_t end, int32_t peer) {
  const uint64_t size = (uint64_t)local->world->ring_bytes;
  return end <= size ? PTC_OK : ptc_local_wait(local, diag, &ring->read, end - size, peer);
}

ptc_status_t ptc_local_send(ptc_comm_t *comm, ptc_diag_t *diag, int32_t peer, int32_t tag,
                            const void *data, int64_t bytes) {
  ptc_local_t *local = (ptc_local_t *)comm;
  PTC_TRY(ptc_local_check(local, diag));
  ptc_local_ring_t *ring = ptc_local_ring(local, comm->rank, peer);
  const int64_t size = local->world->ring_bytes;
  if (!local->ring_backed[peer]) {
    if (!ptc_local_back(local, (uint64_t)((char *)ring - (char *)local->world),
                        (uint64_t)local->world->ring_stride))
      return ptc_local_fail(local, diag, PTC_COMM_ABORTED,
                            "rank %d has ended the run: no room in the ranks' shared memory for "
                            "messages to rank %d",
                            comm->rank, peer);
    local->ring_backed[peer] = true;
  }
  // Small messages go out at once with their head, large ones in chunks.
  const ptc_local_head_t head = {.bytes = bytes, .tag = tag};
  const int64_t chunk = size / 4;
  uint64_t at = atomic_load(&ring->written.count);  // ours alone
  PTC_TRY(wait_for_room(local, diag, ring, at + HEAD, peer));
  copy_in(ring, size, at, (const char *)&head, HEAD);
  at += HEAD;
  for (int64_t done = 0; done < bytes; done += chunk) {
    const int64_t part = bytes - done < chunk ? bytes - done : chunk;
    const uint64_t end = at + (uint64_t)padded(part);
    PTC_TRY(wait_for_room(local, diag, ring, end, peer));
    copy_in(ring, size, at, (const char *)data + done, part);
    at = end;
    if (done + part < bytes) ptc_local_raise(&ring->written, at);
  }
  ptc_local_raise(&ring->written, at);
  return PTC_OK;
}

// Takes |bytes| of content out of the ring.
static ptc_status_t take(ptc_local_t *local, ptc_diag_t *diag, int32_t peer, char *data,
                         int64_t bytes) {
  ptc_local_ring_t *ring = ptc_local_ring(local, peer, local->comm.rank);
  const int64_t size = local->world->ring_bytes, chunk = size / 4;
  uint64_t at = atomic_load(&ring->read.count);  // ours alone
  for (int64_t done = 0; done < bytes;) {
    const int64_t part = bytes - done < chunk ? bytes - done : chunk;
    const uint64_t end = at + (uint64_t)padded(part);
    PTC_TRY(ptc_local_wait(local, diag, &ring->written, end, peer));
    copy_out(ring, size, at, data + done, part);
    at = end;
    done += part;
    ptc_local_raise(&ring->read, at);
  }
  return PTC_OK;
}

static ptc_status_t check_size(ptc_local_t *local, ptc_diag_t *diag, int32_t peer, int32_t tag,
                               int64_t sent, int64_t expected) {
  if (sent == expected) return PTC_OK;
  return ptc_local_fail(local, diag, PTC_COMM_MISMATCH,
                        "rank %d sends a message %d of %lld bytes, and rank %d receives one of "
                        "%lld",
                        peer, tag, (long long)sent, local->comm.rank, (long long)expected);
}

ptc_status_t ptc_local_recv(ptc_comm_t *comm, ptc_diag_t *diag, int32_t peer, int32_t tag,
                            void *data, int64_t bytes) {
  ptc_local_t *local = (ptc_local_t *)comm;
  PTC_TRY(ptc_local_check(local, diag));
  ptc_local_stash_t **link = &local->stashes[peer];
  for (; *link; link = &(*link)->next) {
    ptc_local_stash_t *stash = *link;
    if (stash->head.tag != tag) continue;
    PTC_TRY(check_size(local, diag, peer, tag, stash->head.bytes, bytes));
    if (bytes > 0) memcpy(data, stash->bytes, (size_t)bytes);
    local->received[peer] += bytes;
    *link = stash->next;
    free(stash);
    return PTC_OK;
  }
  ptc_local_ring_t *ring = ptc_local_ring(local, peer, comm->rank);
  for (;;) {
    const uint64_t at = atomic_load(&ring->read.count);
    PTC_TRY(ptc_local_wait(local, diag, &ring->written, at + HEAD, peer));
    ptc_local_head_t head;
    copy_out(ring, local->world->ring_bytes, at, (char *)&head, HEAD);
    if (head.tag == tag) PTC_TRY(check_size(local, diag, peer, tag, head.bytes, bytes));
    ptc_local_raise(&ring->read, at + HEAD);
    if (head.tag == tag) {
      local->received[peer] += bytes;
      return take(local, diag, peer, data, bytes);
    }
    ptc_local_stash_t *stash = malloc(sizeof *stash + (size_t)head.bytes);
    if (!stash) ptc_oom(sizeof *stash + (size_t)head.bytes);
    *stash = (ptc_local_stash_t){.head = head};
    const ptc_status_t status = take(local, diag, peer, stash->bytes, head.bytes);
    if (status != PTC_OK) {
      free(stash);
      return status;
    }
    *link = stash;  // the list's end
    link = &stash->next;
  }
}
