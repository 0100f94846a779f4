// NCCL's entry points over simulated devices: ranks are threads of this process. Operations are matched when they are
// called, and run on their streams when all members' streams have come to them.
//
// NCCL's API has no handle of the process in its calls: its lock and the list of cliques are static here.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/gpusim/clique.h"
#include "runtime/gpusim/gpusim.h"
#include "runtime/nccl/library.h"

enum { SIM_NCCL_VERSION = 22809, ILLEGAL_ADDRESS = 700, LOOK_UP_MS = 20 };

typedef struct shared_s {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  PTC_VEC(sim_clique_t *) cliques;
  uint64_t num_ids;
} shared_t;

static shared_t shared = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

// One operation of a group, as one communicator has called it.
typedef struct entry_s {
  sim_comm_t *comm;
  sim_nccl_op_t *op;
  int32_t party;
  const void *in;
  void *out;
  void *stream;
  bool entered;  // its stream has come to it
} entry_t;

// What a group puts on a stream.
typedef struct item_s {
  int32_t device, num_entries;
  entry_t entries[];
} item_t;

// The group that this thread is in.
typedef struct group_s {
  int32_t depth;
  int code;
  PTC_VEC(entry_t) entries;
} group_t;

static _Thread_local group_t group;
static _Thread_local char last_error[SIM_CLIQUE_TEXT];

#define PTC_NCCL(required, type, name, params) PTC_GPUSIM_EXPORT type nccl##name params;
#include "runtime/nccl/nccl_symbols.def"
#undef PTC_NCCL

static int refuse(int code, const char *text) {
  snprintf(last_error, sizeof last_error, "%s", text);
  return code;
}

static int unlock(int code) {
  pthread_cond_broadcast(&shared.changed);
  pthread_mutex_unlock(&shared.lock);
  return code;
}

static void wait_a_moment(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  time.tv_nsec += LOOK_UP_MS * 1000000L;
  if (time.tv_nsec >= 1000000000L) {
    time.tv_nsec -= 1000000000L;
    ++time.tv_sec;
  }
  pthread_cond_timedwait(&shared.changed, &shared.lock, &time);
}

// --- on streams

// The members that |comm| waits for may be gone.
static void look_for_lost(const entry_t *entry) {
  sim_clique_t *clique = entry->comm->clique;
  if (entry->op->num_called == entry->op->num_parties) return;
  for (int32_t r = 0; r < clique->size; ++r)
    if (clique->members[r] && clique->members[r]->ended && r != entry->comm->rank &&
        (entry->op->call.kind != SIM_NCCL_OP_MESSAGE || r == entry->op->from || r == entry->op->to))
      sim_clique_fail(clique, PTC_NCCL_REMOTE_ERROR, "rank %d has left, and rank %d waits for it",
                      r, entry->comm->rank);
}

static bool is_waiting(const item_t *item) {
  bool waits = false;
  for (int32_t i = 0; i < item->num_entries; ++i) {
    const entry_t *entry = &item->entries[i];
    if (entry->comm->ended) return false;
    if (!entry->op->done) look_for_lost(entry);
    waits |= !entry->op->done;
  }
  return waits && !ptc_gpusim_is_closing(item->device);
}

// Whether the entry's memory is the device's. Sets |report| if not.
static bool enter(const item_t *item, entry_t *entry, char *report) {
  const int64_t in = sim_nccl_op_in_bytes(entry->op, entry->party),
                out = sim_nccl_op_out_bytes(entry->op, entry->party);
  const bool in_ok =
      !in || ptc_gpusim_touch(item->device, (uint64_t)(uintptr_t)entry->in, (uint64_t)in, false);
  const bool out_ok =
      !out || ptc_gpusim_touch(item->device, (uint64_t)(uintptr_t)entry->out, (uint64_t)out, true);
  if (!in_ok || !out_ok) {
    snprintf(report, PTC_GPUSIM_REPORT,
             "an NCCL operation %s %lld bytes at address %p, outside of every allocation",
             in_ok ? "writes" : "reads", (long long)(in_ok ? out : in),
             in_ok ? entry->out : entry->in);
    return false;
  }
  if (ptc_gpusim_nccl_fails(item->device)) {
    sim_clique_fail(entry->comm->clique, PTC_NCCL_SYSTEM_ERROR,
                    "rank %d on GPU %d: the connection has failed (injected)", entry->comm->rank,
                    item->device);
    return true;
  }
  entry->entered = true;
  sim_nccl_op_arrive(entry->op, entry->party, entry->in, entry->out);
  return true;
}

static void free_clique(sim_clique_t *clique) {
  for (int32_t r = 0; r < clique->size; ++r)
    if (clique->members[r] && (!clique->members[r]->ended || clique->members[r]->num_items)) return;
  if (clique->num_here < clique->size && !clique->error) return;
  for (int64_t i = 0; i < shared.cliques.len; ++i) {
    if (shared.cliques.data[i] != clique) continue;
    shared.cliques.data[i] = shared.cliques.data[--shared.cliques.len];
    if (!shared.cliques.len) PTC_VEC_FREE(&shared.cliques);
    sim_clique_destroy(clique);
    return;
  }
}

// The stream has come to a group: waits until all members' have, or until one of them gives up.
static int run_item(void *arg, char *report) {
  item_t *item = arg;
  int code = 0;
  pthread_mutex_lock(&shared.lock);
  for (int32_t i = 0; i < item->num_entries && !code; ++i)
    if (!item->entries[i].comm->ended && !enter(item, &item->entries[i], report))
      code = ILLEGAL_ADDRESS;
  pthread_cond_broadcast(&shared.changed);
  while (!code && is_waiting(item)) wait_a_moment();
  for (int32_t i = 0; i < item->num_entries; ++i) {
    sim_comm_t *comm = item->entries[i].comm;
    // One that is not done stays, for those who look at it.
    if (item->entries[i].op->done) sim_nccl_op_leave(comm->clique, item->entries[i].op);
    --comm->num_items;
  }
  // Each clique after the last entry that speaks of it: it may go, and its members with it.
  for (int32_t i = 0; i < item->num_entries; ++i) {
    bool again = false;
    for (int32_t j = i + 1; j < item->num_entries; ++j)
      again |= item->entries[j].comm->clique == item->entries[i].comm->clique;
    if (!again) free_clique(item->entries[i].comm->clique);
  }
  return unlock(code);
}

// Puts the group on its streams: one item for each of them.
static int launch_group(void) {
  int code = group.code;
  entry_t *entries = group.entries.data;
  const int64_t count = group.entries.len;
  for (int64_t first = 0; first < count && !code; ++first) {
    if (!entries[first].comm) continue;
    void *stream = entries[first].stream;
    item_t *item = malloc(sizeof *item + sizeof *entries * (size_t)(count - first));
    if (!item) ptc_oom(sizeof *item + sizeof *entries * (size_t)(count - first));
    *item = (item_t){.device = entries[first].comm->device};
    pthread_mutex_lock(&shared.lock);
    for (int64_t i = first; i < count; ++i) {
      if (!entries[i].comm || entries[i].stream != stream) continue;
      ++entries[i].comm->num_items;
      item->entries[item->num_entries++] = entries[i];
      entries[i].comm = NULL;
    }
    pthread_mutex_unlock(&shared.lock);
    if (ptc_gpusim_enqueue(stream, run_item, item))
      code = refuse(PTC_NCCL_CUDA_ERROR, "the stream takes no more work");
  }
  PTC_VEC_FREE(&group.entries);
  group.code = PTC_NCCL_SUCCESS;
  return code;
}

// --- calls

static int call_op(sim_comm_t *comm, const sim_nccl_call_t *call, int32_t peer, bool sends,
                   const void *in, void *out, void *stream) {
  if (!comm) return refuse(PTC_NCCL_INVALID_ARGUMENT, "no communicator");
  pthread_mutex_lock(&shared.lock);
  sim_clique_t *clique = comm->clique;
  int code = PTC_NCCL_SUCCESS;
  if (clique->num_here < clique->size)
    code = refuse(PTC_NCCL_INVALID_USAGE, "the communicator is not ready");
  else if (comm->ended || clique->error)
    code = refuse(PTC_NCCL_INVALID_USAGE, comm->ended ? "it has been aborted" : clique->text);
  else if (peer < 0 || peer >= clique->size || call->root < 0 || call->root >= clique->size)
    code = refuse(PTC_NCCL_INVALID_ARGUMENT, "there is no such peer");
  else if (ptc_gpusim_device_of(stream) != comm->device)
    code = refuse(PTC_NCCL_INVALID_USAGE, "the stream is another GPU's");
  sim_nccl_op_t *op = code ? NULL : sim_clique_call(comm, call, peer, sends);
  if (!code && !op) code = refuse(clique->error, clique->text);
  unlock(code);
  if (code) return group.depth ? group.code = code : code;
  const int32_t party = call->kind != SIM_NCCL_OP_MESSAGE ? comm->rank : sends ? 0 : 1;
  PTC_VEC_PUSH(
      &group.entries,
      ((entry_t){.comm = comm, .op = op, .party = party, .in = in, .out = out, .stream = stream}));
  return group.depth ? PTC_NCCL_SUCCESS : launch_group();
}

int ncclAllReduce(const void *in, void *out, size_t count, int type, int reduce, void *comm,
                  void *stream) {
  const sim_nccl_call_t call = {SIM_NCCL_OP_ALL_REDUCE, type, reduce, 0, (int64_t)count};
  return call_op(comm, &call, 0, false, in, out, stream);
}

int ncclReduce(const void *in, void *out, size_t count, int type, int reduce, int root, void *comm,
               void *stream) {
  const sim_nccl_call_t call = {SIM_NCCL_OP_REDUCE, type, reduce, root, (int64_t)count};
  return call_op(comm, &call, 0, false, in, out, stream);
}

int ncclBroadcast(const void *in, void *out, size_t count, int type, int root, void *comm,
                  void *stream) {
  const sim_nccl_call_t call = {SIM_NCCL_OP_BROADCAST, type, 0, root, (int64_t)count};
  return call_op(comm, &call, 0, false, in, out, stream);
}

int ncclReduceScatter(const void *in, void *out, size_t out_count, int type, int reduce, void *comm,
                      void *stream) {
  const sim_nccl_call_t call = {SIM_NCCL_OP_REDUCE_SCATTER, type, reduce, 0, (int64_t)out_count};
  return call_op(comm, &call, 0, false, in, out, stream);
}

int ncclAllGather(const void *in, void *out, size_t in_count, int type, void *comm, void *stream) {
  const sim_nccl_call_t call = {SIM_NCCL_OP_ALL_GATHER, type, 0, 0, (int64_t)in_count};
  return call_op(comm, &call, 0, false, in, out, stream);
}

int ncclSend(const void *data, size_t count, int type, int peer, void *comm, void *stream) {
  const sim_nccl_call_t call = {SIM_NCCL_OP_MESSAGE, type, 0, 0, (int64_t)count};
  return call_op(comm, &call, peer, true, data, NULL, stream);
}

int ncclRecv(void *data, size_t count, int type, int peer, void *comm, void *stream) {
  const sim_nccl_call_t call = {SIM_NCCL_OP_MESSAGE, type, 0, 0, (int64_t)count};
  return call_op(comm, &call, peer, false, NULL, data, stream);
}

int ncclGroupStart(void) {
  ++group.depth;
  return PTC_NCCL_SUCCESS;
}

int ncclGroupEnd(void) {
  if (!group.depth) return refuse(PTC_NCCL_INVALID_USAGE, "no group has been started");
  return --group.depth ? PTC_NCCL_SUCCESS : launch_group();
}

// --- communicators

int ncclGetVersion(int *version) {
  *version = SIM_NCCL_VERSION;
  return PTC_NCCL_SUCCESS;
}

int ncclGetUniqueId(ptc_nccl_id_t *id) {
  pthread_mutex_lock(&shared.lock);
  *id = (ptc_nccl_id_t){0};
  snprintf(id->bytes, sizeof id->bytes, "gpusim %ld %llu", (long)getpid(),
           (unsigned long long)++shared.num_ids);
  return unlock(PTC_NCCL_SUCCESS);
}

const char *ncclGetErrorString(int code) {
  static const char *const texts[] = {"no error",
                                      "unhandled cuda error",
                                      "unhandled system error",
                                      "internal error",
                                      "invalid argument",
                                      "invalid usage",
                                      "remote process exited or there was a network error",
                                      "NCCL operation in progress"};
  return code >= 0 && code < (int)(sizeof texts / sizeof *texts) ? texts[code]
                                                                 : "unknown result code";
}

const char *ncclGetLastError(void *handle) {
  const sim_comm_t *comm = handle;
  if (comm) {
    pthread_mutex_lock(&shared.lock);
    if (comm->clique->error) snprintf(last_error, sizeof last_error, "%s", comm->clique->text);
    unlock(0);
  }
  return last_error;
}

static sim_clique_t *find_clique(const ptc_nccl_id_t *id) {
  for (int64_t i = 0; i < shared.cliques.len; ++i)
    if (memcmp(&shared.cliques.data[i]->id, id, sizeof *id) == 0) return shared.cliques.data[i];
  return NULL;
}

static int state_of(const sim_comm_t *comm) {
  const sim_clique_t *clique = comm->clique;
  if (clique->error) return clique->error;
  return clique->num_here < clique->size ? PTC_NCCL_IN_PROGRESS : PTC_NCCL_SUCCESS;
}

// In blocking mode, waits for the others.
static int settle(const sim_comm_t *comm, const ptc_nccl_config_t *config) {
  while (!(config && config->blocking == 0) && state_of(comm) == PTC_NCCL_IN_PROGRESS)
    wait_a_moment();
  const int state = state_of(comm);
  if (state != PTC_NCCL_IN_PROGRESS && state) refuse(state, comm->clique->text);
  return state;
}

int ncclCommInitRankConfig(void **out_comm, int size, ptc_nccl_id_t id, int rank,
                           ptc_nccl_config_t *config) {
  *out_comm = NULL;
  if (size < 1 || rank < 0 || rank >= size)
    return refuse(PTC_NCCL_INVALID_ARGUMENT, "no such rank");
  if (group.depth)
    return refuse(PTC_NCCL_INVALID_USAGE, "the simulator starts no communicators in groups");
  const int device = ptc_gpusim_current();
  if (device < 0) return refuse(PTC_NCCL_CUDA_ERROR, "no GPU is current");
  pthread_mutex_lock(&shared.lock);
  sim_clique_t *clique = find_clique(&id);
  if (!clique) {
    clique = sim_clique_create(&id, size);
    PTC_VEC_PUSH(&shared.cliques, clique);
  }
  if (clique->size != size)
    return unlock(refuse(sim_clique_fail(clique, PTC_NCCL_INVALID_ARGUMENT,
                                         "rank %d comes with %d ranks, and others with %d", rank,
                                         size, clique->size),
                         clique->text));
  sim_comm_t *comm = sim_clique_join(clique, rank, device);
  if (!comm) return unlock(refuse(clique->error, clique->text));
  *out_comm = comm;
  pthread_cond_broadcast(&shared.changed);
  return unlock(settle(comm, config));
}

static sim_split_t *split_at(sim_clique_t *clique, int64_t number) {
  for (int64_t i = 0; i < clique->splits.len; ++i)
    if (clique->splits.data[i]->number == number) return clique->splits.data[i];
  sim_split_t *split = ptc_xmalloc(sizeof *split);
  const size_t n = (size_t)clique->size;
  *split = (sim_split_t){.number = number,
                         .colors = ptc_xmalloc(n * sizeof(int32_t)),
                         .keys = ptc_xmalloc(n * sizeof(int32_t)),
                         .parts = ptc_xmalloc(n * sizeof(void **)),
                         .called = ptc_xmalloc(n)};
  memset(split->called, 0, n);
  PTC_VEC_PUSH(&clique->splits, split);
  return split;
}

// Where member |rank| stands among those of its color: by key, then by rank.
static int32_t place_of(const sim_clique_t *clique, const sim_split_t *split, int32_t rank,
                        int32_t *out_size) {
  int32_t place = 0;
  *out_size = 0;
  for (int32_t r = 0; r < clique->size; ++r) {
    if (split->colors[r] != split->colors[rank]) continue;
    ++*out_size;
    place +=
        split->keys[r] < split->keys[rank] || (split->keys[r] == split->keys[rank] && r < rank);
  }
  return place;
}

// All members have called it.
static void carry_out_split(sim_clique_t *clique, const sim_split_t *split) {
  for (int32_t r = 0; r < clique->size; ++r) {
    if (split->colors[r] < 0) continue;
    ptc_nccl_id_t id = {0};
    int32_t size;
    const int32_t place = place_of(clique, split, r, &size);
    snprintf(id.bytes, sizeof id.bytes, "%.80s/%lld.%d", clique->id.bytes, (long long)split->number,
             split->colors[r]);
    sim_clique_t *part = find_clique(&id);
    if (!part) {
      part = sim_clique_create(&id, size);
      PTC_VEC_PUSH(&shared.cliques, part);
    }
    *split->parts[r] = sim_clique_join(part, place, clique->members[r]->device);
  }
}

int ncclCommSplit(void *handle, int color, int key, void **part, ptc_nccl_config_t *config) {
  sim_comm_t *comm = handle;
  *part = NULL;
  pthread_mutex_lock(&shared.lock);
  sim_clique_t *clique = comm->clique;
  if (clique->error || comm->ended) return unlock(refuse(PTC_NCCL_INVALID_USAGE, clique->text));
  sim_split_t *split = split_at(clique, comm->num_splits++);
  split->colors[comm->rank] = color;
  split->keys[comm->rank] = key;
  split->parts[comm->rank] = part;
  split->called[comm->rank] = true;
  if (++split->num_called == clique->size) carry_out_split(clique, split);
  pthread_cond_broadcast(&shared.changed);
  if (config && config->blocking == 0)
    return unlock(split->num_called < clique->size ? PTC_NCCL_IN_PROGRESS : PTC_NCCL_SUCCESS);
  while (split->num_called < clique->size && !clique->error && !comm->ended) wait_a_moment();
  return unlock(clique->error ? refuse(clique->error, clique->text) : PTC_NCCL_SUCCESS);
}

int ncclCommGetAsyncError(void *handle, int *code) {
  const sim_comm_t *comm = handle;
  pthread_mutex_lock(&shared.lock);
  *code = state_of(comm);
  // A split that others have yet to call goes on.
  for (int64_t i = 0; i < comm->clique->splits.len && *code == PTC_NCCL_SUCCESS; ++i) {
    const sim_split_t *split = comm->clique->splits.data[i];
    if (split->called[comm->rank] && split->num_called < comm->clique->size)
      *code = PTC_NCCL_IN_PROGRESS;
  }
  return unlock(PTC_NCCL_SUCCESS);
}

// --- buffers

// Of the simulated driver.
PTC_GPUSIM_EXPORT int cuMemAlloc_v2(uint64_t *address, size_t bytes);
PTC_GPUSIM_EXPORT int cuMemFree_v2(uint64_t address);

int ncclMemAlloc(void **memory, size_t bytes) {
  uint64_t address = 0;
  *memory = NULL;
  if (!bytes) return refuse(PTC_NCCL_INVALID_ARGUMENT, "no bytes are asked for");
  if (cuMemAlloc_v2(&address, bytes)) return refuse(PTC_NCCL_CUDA_ERROR, "out of memory");
  *memory = (void *)(uintptr_t)address;
  return PTC_NCCL_SUCCESS;
}

int ncclMemFree(void *memory) {
  return cuMemFree_v2((uint64_t)(uintptr_t)memory)
             ? refuse(PTC_NCCL_CUDA_ERROR, "no memory begins there")
             : PTC_NCCL_SUCCESS;
}

int ncclCommRegister(void *handle, void *memory, size_t bytes, void **out) {
  sim_comm_t *comm = handle;
  *out = NULL;
  if (!comm || !memory || !bytes) return refuse(PTC_NCCL_INVALID_ARGUMENT, "nothing to register");
  if (!ptc_gpusim_touch(comm->device, (uint64_t)(uintptr_t)memory, bytes, false))
    return refuse(PTC_NCCL_INVALID_ARGUMENT, "the buffer is none of the communicator's GPU");
  pthread_mutex_lock(&shared.lock);
  if (comm->ended) return unlock(refuse(PTC_NCCL_INVALID_USAGE, "the communicator has ended"));
  sim_registered_t *registered = ptc_xmalloc(sizeof *registered);
  *registered = (sim_registered_t){(uint64_t)(uintptr_t)memory, bytes};
  PTC_VEC_PUSH(&comm->registered, registered);
  *out = registered;
  return unlock(PTC_NCCL_SUCCESS);
}

int ncclCommDeregister(void *handle, void *registered) {
  sim_comm_t *comm = handle;
  pthread_mutex_lock(&shared.lock);
  for (int64_t i = 0; comm && i < comm->registered.len; ++i) {
    if (comm->registered.data[i] != registered) continue;
    free(registered);
    comm->registered.data[i] = comm->registered.data[--comm->registered.len];
    return unlock(PTC_NCCL_SUCCESS);
  }
  return unlock(refuse(PTC_NCCL_INVALID_ARGUMENT, "the communicator knows no such buffer"));
}

int ncclCommFinalize(void *comm) {
  (void)comm;
  return PTC_NCCL_SUCCESS;
}

static int end(sim_comm_t *comm) {
  pthread_mutex_lock(&shared.lock);
  comm->ended = true;
  free_clique(comm->clique);
  return unlock(PTC_NCCL_SUCCESS);
}

int ncclCommDestroy(void *handle) {
  sim_comm_t *comm = handle;
  pthread_mutex_lock(&shared.lock);
  while (comm->num_items > 0 && !comm->clique->error) wait_a_moment();
  unlock(0);
  return end(comm);
}

int ncclCommAbort(void *comm) { return end(comm); }
