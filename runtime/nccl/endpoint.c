#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/nccl/nccl_impl.h"

static void *zeros(size_t count, size_t bytes) {
  void *memory = calloc(count, bytes);
  if (!memory) ptc_oom(count * bytes);
  return memory;
}

static ptc_status_t make_group(ptc_comm_t *comm, ptc_diag_t *diag, const int32_t *ranks,
                               int32_t count, int32_t *out_group) {
  ptc_nccl_endpoint_t *e = (ptc_nccl_endpoint_t *)comm;
  ptc_nccl_group_t group = {.size = count};
  PTC_TRY(ptc_comm_group(e->host, diag, ranks, count, &group.host));
  for (int32_t g = 0; g < e->num_groups; g++)
    if (e->groups[g].host == group.host) {
      *out_group = g;
      return PTC_OK;
    }
  group.ranks = zeros((size_t)count, sizeof *ranks);
  memcpy(group.ranks, ranks, sizeof *ranks * (size_t)count);
  while (ranks[group.me] != comm->rank) group.me++;
  e->groups = ptc_xrealloc(e->groups, sizeof group * (size_t)(e->num_groups + 1));
  e->groups[e->num_groups] = group;
  *out_group = e->num_groups++;
  return PTC_OK;
}

static ptc_status_t barrier(ptc_comm_t *comm, ptc_diag_t *diag, int32_t group) {
  const ptc_nccl_endpoint_t *e = (const ptc_nccl_endpoint_t *)comm;
  return ptc_comm_barrier(e->host, diag, e->groups[group].host);
}

static ptc_status_t ready(ptc_comm_t *comm, ptc_diag_t *diag) {
  return ptc_nccl_make_groups((ptc_nccl_endpoint_t *)comm, diag);
}

static ptc_status_t poll_host(ptc_comm_t *comm, ptc_diag_t *diag) {
  return ptc_comm_poll(((ptc_nccl_endpoint_t *)comm)->host, diag);
}

static void abort_run(ptc_comm_t *comm, const char *reason) {
  ptc_nccl_endpoint_t *e = (ptc_nccl_endpoint_t *)comm;
  ptc_comm_abort(e->host, reason);
  ptc_nccl_abort_all(e);
}

static void set_context(ptc_comm_t *comm, const char *step, ptc_loc_t loc) {
  ptc_nccl_endpoint_t *e = (ptc_nccl_endpoint_t *)comm;
  e->loc = loc;
  snprintf(e->context, sizeof e->context, "%s", step);
  ptc_comm_set_context(e->host, step, loc);
}

static void set_stream(ptc_comm_t *comm, int32_t stream) {
  ((ptc_nccl_endpoint_t *)comm)->stream = stream;
}

static void set_limit(ptc_comm_t *comm, double seconds) {
  ptc_nccl_endpoint_t *e = (ptc_nccl_endpoint_t *)comm;
  e->limit_s = seconds;
  // Who watches its GPU speaks first: on the host ranks only wait for one whose GPU is stuck.
  ptc_comm_set_limit(e->host, 2 * seconds);
}

static int64_t count_bytes(const ptc_comm_t *comm, int32_t group, ptc_collective_kind_t kind) {
  return ((const ptc_nccl_endpoint_t *)comm)->groups[group].bytes[kind];
}

static int64_t count_received(const ptc_comm_t *comm, int32_t peer) {
  return ((const ptc_nccl_endpoint_t *)comm)->received[peer];
}

static void free_endpoint(ptc_nccl_endpoint_t *e) {
  for (int32_t g = 0; g < e->num_groups; g++) free(e->groups[g].ranks);
  free(e->groups);
  free(e->num_sent);
  free(e->num_received);
  free(e->received);
  free(e->records);
  ptc_nccl_close(e->nccl);
  free(e);
}

// Where all has gone well, all ranks come here, with nothing under way. Else this rank alone does.
static bool is_quiet(ptc_nccl_endpoint_t *e) {
  ptc_diag_t unheard;
  ptc_diag_init(&unheard);
  int32_t fault;
  const bool quiet = !e->is_over && ptc_comm_poll(e->host, &unheard) == PTC_OK &&
                     e->device->finish(e->device, &unheard, &fault) == PTC_OK &&
                     ptc_comm_barrier(e->host, &unheard, PTC_COMM_WORLD) == PTC_OK;
  ptc_diag_deinit(&unheard);
  return quiet;
}

static void destroy_all(ptc_nccl_endpoint_t *e) {
  ptc_diag_t unheard;
  ptc_diag_init(&unheard);
  for (int32_t g = e->num_groups - 1; g >= 0; g--) {
    void *comm = e->groups[g].comm;
    if (!comm || e->is_over) continue;
    if (e->groups[g].arena) e->nccl->CommDeregister(comm, e->groups[g].arena);
    e->groups[g].arena = NULL;
    const int code = e->nccl->CommFinalize(comm);
    if (code != PTC_NCCL_SUCCESS && code != PTC_NCCL_IN_PROGRESS) continue;
    if (ptc_nccl_settle(e, &unheard, comm, NULL, "ncclCommFinalize") != PTC_OK) continue;
    e->nccl->CommDestroy(comm);
    e->groups[g].comm = NULL;
  }
  ptc_diag_deinit(&unheard);
}

static void close_endpoint(ptc_comm_t *comm) {
  ptc_nccl_endpoint_t *e = (ptc_nccl_endpoint_t *)comm;
  if (is_quiet(e)) destroy_all(e);
  ptc_nccl_abort_all(e);
  e->device->set_watch(e->device, NULL, NULL);
  free_endpoint(e);
}

static const ptc_comm_vtable_t nccl_vtable = {.group = make_group,
                                              .collective = ptc_nccl_collective,
                                              .send = ptc_nccl_send,
                                              .recv = ptc_nccl_recv,
                                              .barrier = barrier,
                                              .ready = ready,
                                              .poll = poll_host,
                                              .abort = abort_run,
                                              .set_context = set_context,
                                              .set_stream = set_stream,
                                              .set_limit = set_limit,
                                              .bytes = count_bytes,
                                              .received = count_received,
                                              .close = close_endpoint};

// --- memory

static bool allocate(void *arg, int64_t bytes, uint64_t *out_address) {
  const ptc_nccl_t *nccl = arg;
  void *memory = NULL;
  if (nccl->MemAlloc(&memory, (size_t)bytes) != PTC_NCCL_SUCCESS) return false;
  *out_address = (uint64_t)(uintptr_t)memory;
  return memory != NULL;
}

static void release(void *arg, uint64_t address) {
  ((const ptc_nccl_t *)arg)->MemFree((void *)(uintptr_t)address);
}

static void close_memory(void *arg) { ptc_nccl_close(arg); }

void ptc_nccl_memory(ptc_cuda_memory_t *out_memory) {
  ptc_diag_t unheard;  // whoever needs NCCL will hear
  ptc_diag_init(&unheard);
  ptc_nccl_t *nccl = ptc_nccl_open(&unheard);
  ptc_diag_deinit(&unheard);
  *out_memory = (ptc_cuda_memory_t){nccl, allocate, release, close_memory};
  if (nccl && nccl->MemAlloc) return;
  ptc_nccl_close(nccl);
  *out_memory = (ptc_cuda_memory_t){0};
}

ptc_status_t ptc_comm_open_nccl(ptc_diag_t *diag, ptc_device_t *device, ptc_comm_t *host,
                                ptc_comm_t **out_comm) {
  *out_comm = NULL;
  ptc_nccl_t *nccl = ptc_nccl_open(diag);
  if (!nccl) return PTC_DEVICE;
  ptc_nccl_endpoint_t *e = zeros(1, sizeof *e);
  const size_t n = (size_t)host->world;
  *e = (ptc_nccl_endpoint_t){.comm = {&nccl_vtable, host->rank, host->world},
                             .host = host,
                             .device = device,
                             .nccl = nccl,
                             .num_groups = 1,
                             .limit_s = PTC_COMM_LIMIT_S};
  e->groups = zeros(1, sizeof *e->groups);
  e->groups[0] = (ptc_nccl_group_t){.size = host->world, .me = host->rank, .host = PTC_COMM_WORLD};
  e->groups[0].ranks = zeros(n, sizeof(int32_t));
  for (int32_t r = 0; r < host->world; r++) e->groups[0].ranks[r] = r;
  e->num_sent = zeros(n, sizeof *e->num_sent);
  e->num_received = zeros(n, sizeof *e->num_received);
  e->received = zeros(n, sizeof *e->received);
  e->records = zeros(PTC_NCCL_NUM_RECORDS, sizeof *e->records);
  const ptc_status_t status = ptc_nccl_make_world(e, diag);
  if (status == PTC_OK) {
    device->set_watch(device, ptc_nccl_watch, e);
    *out_comm = &e->comm;
  } else {
    ptc_nccl_abort_all(e);
    free_endpoint(e);
  }
  return status;
}
