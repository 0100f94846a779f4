// The mapping that ranks share, and their endpoints.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/cpu/cores.h"
#include "runtime/local/local_impl.h"

enum {
  PAGE = 4096,
  GROUPS_PER_RANK = 64,  // each with as many members as there are ranks, at the worst
  MAX_RING = 16 << 20,   // what a stage of a pipeline sends need not wait for the next one
  MAX_FILE_RING = 1 << 20,
  MIN_RING = 64 << 10,
  MAX_STAGE = 2 << 20,
  MIN_STAGE = 128 << 10,
  SPINS_ALONE = 4000,  // pauses before sleeping, about 50 us
  SPINS_CROWDED = 50,  // where there are more ranks than cores
};
// Together no more than small /dev/shm have; large windows, since each costs a meeting.
static const uint64_t all_stages = 32 << 20;
static const uint64_t all_rings = (uint64_t)16 << 30;  // about; most are never touched

static uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

uint64_t ptc_local_layout(int32_t size, bool in_file, ptc_local_world_t *world) {
  const uint64_t n = (uint64_t)size;
  uint64_t ring = all_rings / (n * n) / PAGE * PAGE;
  const uint64_t max_ring = in_file ? MAX_FILE_RING : MAX_RING;
  if (ring > max_ring) ring = max_ring;
  if (ring < MIN_RING) ring = MIN_RING;
  const uint64_t stride = round_up(sizeof(ptc_local_ring_t) + ring, PAGE);
  const uint64_t heap = round_up(sizeof *world + n * sizeof(ptc_local_record_t), PTC_LOCAL_LINE);
  const uint64_t heap_end = round_up(
      heap + GROUPS_PER_RANK * n * (sizeof(ptc_local_group_t) + sizeof(ptc_local_member_t)), PAGE);
  const uint64_t stages = heap_end;
  uint64_t stage = all_stages / (2 * n) / PAGE * PAGE;
  if (stage > MAX_STAGE) stage = MAX_STAGE;
  if (stage < MIN_STAGE) stage = MIN_STAGE;
  const uint64_t rings = stages + 2 * n * stage;
  const uint64_t total = rings + n * n * stride;
  if (!world) return total;
  world->size = size;
  world->ring_bytes = (int64_t)ring;
  world->ring_stride = (int64_t)stride;
  world->stage_bytes = (int64_t)stage;
  world->stages = stages;
  world->rings = rings;
  world->total_bytes = total;
  world->heap_end = heap_end;
  atomic_store(&world->heap_used, heap);
  return total;
}

void *ptc_local_alloc(ptc_local_world_t *world, uint64_t bytes) {
  const uint64_t room = round_up(bytes, PTC_LOCAL_LINE);
  const uint64_t offset = atomic_fetch_add(&world->heap_used, room);
  return offset + room <= world->heap_end ? (char *)world + offset : NULL;
}

ptc_local_ring_t *ptc_local_ring(const ptc_local_t *local, int32_t from, int32_t to) {
  const ptc_local_world_t *world = local->world;
  const uint64_t number = (uint64_t)from * (uint64_t)world->size + (uint64_t)to;
  return (ptc_local_ring_t *)(void *)((char *)local->world + world->rings +
                                      number * (uint64_t)world->ring_stride);
}

bool ptc_local_back(const ptc_local_t *local, uint64_t offset, uint64_t bytes) {
  return local->fd < 0 || posix_fallocate(local->fd, (off_t)offset, (off_t)bytes) == 0;
}

// --- the endpoint

static void set_limit(ptc_comm_t *comm, double seconds) {
  ((ptc_local_t *)comm)->limit_s = seconds;
}

static int64_t count_bytes(const ptc_comm_t *comm, int32_t group, ptc_collective_kind_t kind) {
  return ((const ptc_local_t *)comm)->handles[group].bytes[kind];
}

static int64_t count_received(const ptc_comm_t *comm, int32_t peer) {
  return ((const ptc_local_t *)comm)->received[peer];
}

static void close_endpoint(ptc_comm_t *comm) {
  ptc_local_t *local = (ptc_local_t *)comm;
  ptc_local_mapping_t *mapping = local->mapping;
  atomic_store(&local->world->records[comm->rank].state, PTC_LOCAL_CLOSED);
  for (int32_t r = 0; r < comm->world; r++) {
    while (local->stashes[r]) {
      ptc_local_stash_t *next = local->stashes[r]->next;
      free(local->stashes[r]);
      local->stashes[r] = next;
    }
  }
  if (local->fd >= 0) close(local->fd);
  if (atomic_fetch_sub(&mapping->num_users, 1) == 1) {
    munmap(mapping->world, mapping->bytes);
    free(mapping);
  }
  free(local->handles);
  free(local->ins);
  free(local->outs);
  free(local->stage_ins);
  free(local->sizes);
  free(local->walks);
  free(local->received);
  free(local->stashes);
  free(local->ring_backed);
  free(local);
}

static const ptc_comm_vtable_t local_vtable = {.group = ptc_local_make_group,
                                               .collective = ptc_local_collective,
                                               .send = ptc_local_send,
                                               .recv = ptc_local_recv,
                                               .barrier = ptc_local_barrier,
                                               .poll = ptc_local_poll,
                                               .abort = ptc_local_abort,
                                               .set_context = ptc_local_set_context,
                                               .set_limit = set_limit,
                                               .bytes = count_bytes,
                                               .received = count_received,
                                               .close = close_endpoint,
                                               .any_thread = true};

static void *zeros(size_t count, size_t bytes) {
  void *memory = calloc(count, bytes);
  if (!memory) ptc_oom(count * bytes);
  return memory;
}

ptc_local_t *ptc_local_new(ptc_local_mapping_t *mapping, int32_t rank, int fd) {
  ptc_local_t *local = zeros(1, sizeof *local);
  const int32_t size = mapping->world->size;
  const size_t n = (size_t)size;
  local->comm = (ptc_comm_t){&local_vtable, rank, size};
  local->mapping = mapping;
  local->world = mapping->world;
  local->fd = fd;
  local->num_spins = size > ptc_num_cores() ? SPINS_CROWDED : SPINS_ALONE;
  local->limit_s = PTC_COMM_LIMIT_S;
  local->ins = zeros(n, sizeof *local->ins);
  local->outs = zeros(n, sizeof *local->outs);
  local->stage_ins = zeros(n, sizeof *local->stage_ins);
  local->sizes = zeros(2 * n, sizeof *local->sizes);
  local->walks = zeros(2 * n, sizeof *local->walks);
  local->received = zeros(n, sizeof *local->received);
  local->stashes = zeros(n, sizeof *local->stashes);
  local->ring_backed = zeros(n, sizeof *local->ring_backed);
  atomic_fetch_add(&mapping->num_users, 1);
  int32_t *ranks = zeros(n, sizeof *ranks), group;
  for (int32_t r = 0; r < size; r++) ranks[r] = r;
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_local_make_group(&local->comm, &diag, ranks, size, &group);  // there is room for the first
  ptc_diag_deinit(&diag);
  free(ranks);
  return local;
}

ptc_status_t ptc_comm_open_threads(ptc_diag_t *diag, int32_t world, ptc_comm_t **out_comms) {
  if (world < 1 || world > PTC_LOCAL_MAX_WORLD)
    return ptc_error(diag, (ptc_loc_t){0}, PTC_DEVICE, "comm-start",
                     "%d ranks on one machine; 1 to %d are possible", world, PTC_LOCAL_MAX_WORLD);
  const size_t bytes = ptc_local_layout(world, false, NULL);
  void *memory =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return ptc_error(diag, (ptc_loc_t){0}, PTC_DEVICE, "comm-start",
                     "no memory that %d ranks share (%zu bytes): %s", world, bytes,
                     strerror(errno));
  ptc_local_mapping_t *mapping = zeros(1, sizeof *mapping);
  mapping->world = memory;
  mapping->bytes = bytes;
  ptc_local_layout(world, false, mapping->world);
  for (int32_t r = 0; r < world; r++) {
    atomic_store(&mapping->world->records[r].state, PTC_LOCAL_PRESENT);
    out_comms[r] = &ptc_local_new(mapping, r, -1)->comm;
  }
  return PTC_OK;
}
