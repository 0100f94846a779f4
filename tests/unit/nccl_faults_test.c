// Proves: what goes wrong between ranks with GPUs ends the run on all of them, by name and in bounded time. Calls that
// do not match are caught before they are queued, twelve kinds of them, at random sizes and ranks; what passes ptc by is
// caught by the simulated NCCL when it is called; errors of NCCL, GPUs that stop, memory that is missing, ranks that
// leave are told from each other.
#include <stdlib.h>
#include <time.h>

#include "runtime/cuda/driver.h"
#include "runtime/nccl/library.h"
#include "tests/support/gpu_world.h"
#include "tests/support/unit.h"

enum { MAX_WORDS = 5, WORLD = 3, MOST_BYTES = 1 << 14 };
static const double quickly_s = 30;  // on a machine that others use, too

static double now_s(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// --- what ranks do

// One rank, |odd|, does something else; sizes in elements.
typedef struct seeded_s {
  int32_t odd;
  int64_t count;
} seeded_t;

typedef struct deed_s {
  const char *name;
  ptc_status_t (*run)(gpu_rank_t *rank, ptc_diag_t *diag, const seeded_t *seeded);
  const char *words[MAX_WORDS];  // each in the message of some rank
  const char *fault;             // PTC_GPUSIM_FAULT, with the odd rank as %d; NULL: none
} deed_t;

typedef struct call_of_s {
  const deed_t *deed;
  seeded_t seeded;
  bool said[WORLD][MAX_WORDS];
} call_of_t;

static ptc_status_t call(gpu_rank_t *rank, ptc_diag_t *diag, int32_t group,
                         ptc_collective_kind_t kind, ptc_reduce_kind_t reduce, ptc_dtype_t dtype,
                         int64_t count, int64_t outer, int32_t num_parts) {
  const int64_t bytes = count * ptc_dtype_bytes(dtype);
  ptc_collective_part_t parts[2];
  void *args[4];
  for (int32_t p = 0; p < num_parts; p++) {
    parts[p] = (ptc_collective_part_t){{1, bytes, bytes}, {1, bytes, bytes}};
    if (kind == PTC_COLLECTIVE_ALL_GATHER)
      parts[p].out = (ptc_pieces_t){outer, bytes / outer, WORLD * bytes / outer};
    if (kind == PTC_COLLECTIVE_REDUCE_SCATTER)
      parts[p].in = (ptc_pieces_t){outer, bytes / outer, WORLD * bytes / outer};
    for (int i = 0; i < 2; i++)
      args[2 * p + i] = rank->memory.alloc(rank->memory.arg, MOST_BYTES * WORLD);
  }
  const ptc_collective_t collective = {
      .kind = kind, .reduce = reduce, .dtype = dtype, .num_parts = num_parts, .parts = parts};
  return ptc_comm_collective(rank->comm, diag, group, &collective, args);
}

#define SUM(dtype, count) \
  call(rank, diag, 0, PTC_COLLECTIVE_ALL_REDUCE, PTC_REDUCE_SUM, dtype, count, 1, 1)
#define GATHER(count, outer) \
  call(rank, diag, 0, PTC_COLLECTIVE_ALL_GATHER, PTC_REDUCE_SUM, PTC_F32, count, outer, 1)
#define DEED(name) static ptc_status_t name(gpu_rank_t *rank, ptc_diag_t *diag, const seeded_t *s)
#define IS_ODD (rank->comm->rank == s->odd)

static ptc_status_t finish(gpu_rank_t *rank, ptc_diag_t *diag) {
  return rank->memory.finish(rank->memory.arg, diag);
}

DEED(other_kind) {
  PTC_TRY(SUM(PTC_F32, s->count));
  return IS_ODD ? GATHER(s->count, 1) : SUM(PTC_F32, s->count);
}
DEED(other_size) { return SUM(PTC_F32, IS_ODD ? 2 * s->count : s->count); }
DEED(other_dtype) { return SUM(IS_ODD ? PTC_BF16 : PTC_F32, s->count); }
DEED(other_width) { return SUM(IS_ODD ? PTC_I64 : PTC_F64, s->count); }
DEED(other_reduce) {
  return call(rank, diag, 0, PTC_COLLECTIVE_ALL_REDUCE, IS_ODD ? PTC_REDUCE_MAX : PTC_REDUCE_SUM,
              PTC_I64, s->count, 1, 1);
}
DEED(other_cut) { return GATHER(s->count, IS_ODD ? 2 : 1); }
DEED(other_parts) {
  return call(rank, diag, 0, PTC_COLLECTIVE_REDUCE_SCATTER, PTC_REDUCE_SUM, PTC_F32, s->count, 1,
              IS_ODD ? 2 : 1);
}
DEED(one_left_out) {
  PTC_TRY(SUM(PTC_F32, s->count));
  if (!IS_ODD) PTC_TRY(SUM(PTC_I32, s->count));
  return GATHER(s->count, 1);
}
DEED(with_barrier) {
  return IS_ODD ? ptc_comm_barrier(rank->comm, diag, PTC_COMM_WORLD) : SUM(PTC_F32, s->count);
}
// Two groups in another order: each waits for a rank in the other one.
DEED(other_order) {
  int32_t groups[2];
  const int32_t all[3] = {0, 1, 2}, turned[3] = {2, 1, 0};
  PTC_TRY(ptc_comm_group(rank->comm, diag, all, 3, &groups[0]));
  PTC_TRY(ptc_comm_group(rank->comm, diag, turned, 3, &groups[1]));
  PTC_TRY(ptc_comm_ready(rank->comm, diag));
  for (int i = 0; i < 2; i++)
    PTC_TRY(call(rank, diag, groups[IS_ODD ? 1 - i : i], PTC_COLLECTIVE_ALL_REDUCE, PTC_REDUCE_SUM,
                 PTC_F32, s->count, 1, 1));
  return finish(rank, diag);
}
static ptc_status_t exchange(gpu_rank_t *rank, ptc_diag_t *diag, const seeded_t *s, int64_t bytes,
                             int32_t tag) {
  const int32_t to = (s->odd + 1) % WORLD;
  void *data = rank->memory.alloc(rank->memory.arg, 4 * MOST_BYTES);
  if (IS_ODD) PTC_TRY(ptc_comm_send(rank->comm, diag, to, tag, data, bytes));
  if (rank->comm->rank == to)
    PTC_TRY(ptc_comm_recv(rank->comm, diag, s->odd, 7, data, 4 * s->count));
  PTC_TRY(finish(rank, diag));
  return ptc_comm_barrier(rank->comm, diag, PTC_COMM_WORLD);
}
DEED(other_message) { return exchange(rank, diag, s, 8 * s->count, 7); }
DEED(other_tag) { return exchange(rank, diag, s, 4 * s->count, 6); }
DEED(leave) { return IS_ODD ? PTC_OK : SUM(PTC_F32, s->count); }

// Eight sums, queued at once.
static ptc_status_t sum_parts(gpu_rank_t *rank, ptc_diag_t *diag, const seeded_t *s,
                              int32_t num_parts) {
  const int64_t bytes = 4 * s->count;
  const ptc_collective_part_t part = {{1, bytes, bytes}, {1, bytes, bytes}};
  ptc_collective_part_t parts[2] = {part, part};
  const ptc_collective_t sum = {
      .kind = PTC_COLLECTIVE_ALL_REDUCE, .dtype = PTC_F32, .num_parts = num_parts, .parts = parts};
  void *args[4];
  for (int32_t i = 0; i < num_parts; i++)
    args[2 * i] = args[2 * i + 1] = rank->memory.alloc(rank->memory.arg, (size_t)bytes);
  for (int i = 0; i < 8; i++)
    PTC_TRY(ptc_comm_collective(rank->comm, diag, PTC_COMM_WORLD, &sum, args));
  return finish(rank, diag);
}
static ptc_status_t sums(gpu_rank_t *rank, ptc_diag_t *diag, const seeded_t *s) {
  return sum_parts(rank, diag, s, 1);
}
// Two operations of a communicator in one group.
DEED(pairs) { return sum_parts(rank, diag, s, 2); }
DEED(no_memory) {
  uint64_t address;
  for (int i = 0; i < 8; i++) PTC_TRY(rank->device->allocate(rank->device, diag, 0, 64, &address));
  return sums(rank, diag, s);
}
DEED(late) {
  ptc_comm_set_limit(rank->comm, 0.2);
  if (IS_ODD) nanosleep(&(struct timespec){.tv_nsec = 800000000}, NULL);
  return sums(rank, diag, s);
}
DEED(give_up) {
  if (IS_ODD) {
    ptc_comm_abort(rank->comm, "the data end here");
    return ptc_comm_poll(rank->host, diag);
  }
  return sums(rank, diag, s);
}

static const deed_t deeds[] = {
    {"kind", other_kind, {"all_reduce sum of f32", "all_gather of f32"}, NULL},
    {"size", other_size, {"do not call the same", "bytes"}, NULL},
    {"dtype", other_dtype, {"f32", "bf16"}, NULL},
    {"width", other_width, {"i64", "f64"}, NULL},
    {"reduce", other_reduce, {"max of i64", "sum of i64"}, NULL},
    {"cut", other_cut, {"cut in another way"}, NULL},
    {"parts", other_parts, {"parts: 1", "parts: 2"}, NULL},
    {"left out", one_left_out, {"all_reduce sum of i32", "all_gather"}, NULL},
    {"barrier", with_barrier, {"do not call the same", "a barrier"}, NULL},
    {"order", other_order, {"wait for each other"}, NULL},
    {"message", other_message, {"sends a message 7 of", "receives message 7 of"}, NULL},
    {"tag", other_tag, {"sends a message 6 of", "receives message 7 of"}, NULL},
    {"leave", leave, {"do not call the same", "a barrier"}, NULL},
    {"abort", give_up, {"the data end here"}, NULL},
    {"late", late, {"has waited", "for rank"}, NULL},
    {"nccl", sums, {"the connection has failed (injected)"}, "nccl:%d:4"},
    {"nccl in a group", pairs, {"the connection has failed (injected)"}, "nccl:%d:4"},
    {"memory", no_memory, {"cuMemAlloc: out of memory"}, "memory:%d:7"},
};

static int64_t run_deed(gpu_rank_t *rank, ptc_diag_t *diag, void *arg) {
  call_of_t *of = arg;
  char step[64];
  snprintf(step, sizeof step, "step %d of %s", 10 + rank->comm->rank, of->deed->name);
  ptc_comm_set_context(rank->comm, step, (ptc_loc_t){"models/x.ptm", 30 + rank->comm->rank, 1});
  const double begin_s = now_s();
  const ptc_status_t status = of->deed->run(rank, diag, &of->seeded);
  const char *message = diag->num_items ? diag->items[0].message : "";
  if (status != PTC_OK) ptc_comm_abort(rank->host, message);
  for (int w = 0; w < MAX_WORDS && of->deed->words[w]; w++)
    of->said[rank->comm->rank][w] = strstr(message, of->deed->words[w]) != NULL;
  const bool may_pass = of->deed->run == leave && rank->comm->rank == of->seeded.odd;
  return now_s() - begin_s > quickly_s || (status == PTC_OK && !may_pass);
}

static void test_deeds(void) {
  uint64_t state = unit_seed();
  for (size_t i = 0; i < sizeof deeds / sizeof *deeds; i++) {
    call_of_t of = {.deed = &deeds[i]};
    of.seeded.odd = (int32_t)(unit_random(&state) % WORLD);
    of.seeded.count = 2 + 2 * (int64_t)(unit_random(&state) % 500);
    char fault[64];
    if (deeds[i].fault) {
      snprintf(fault, sizeof fault, deeds[i].fault, of.seeded.odd);
      setenv("PTC_GPUSIM_FAULT", fault, 1);
    }
    UNIT_CHECK(gpu_world_prepare(WORLD), "the simulator's library");
    UNIT_CHECK(gpu_world_run(WORLD, run_deed, &of) == 0, deeds[i].name);
    for (int w = 0; w < MAX_WORDS && deeds[i].words[w]; w++)
      UNIT_CHECK(of.said[0][w] || of.said[1][w] || of.said[2][w], deeds[i].words[w]);
    unsetenv("PTC_GPUSIM_FAULT");
  }
}

// --- the simulated NCCL itself

typedef enum nccl_kind_e {
  ALL_REDUCE,
  REDUCE,
  BROADCAST,
  SCATTER,
  GATHER_ALL,
  SEND,
  RECV
} nccl_kind_t;

typedef struct nccl_call_s {
  nccl_kind_t kind;
  size_t count;
  int type, reduce, root;  // |root|: or the peer
} nccl_call_t;

// Two ranks' calls, and what NCCL says to the second one.
typedef struct misuse_s {
  nccl_call_t calls[2];
  int code;
  const char *words;
} misuse_t;

enum { F32 = PTC_NCCL_FLOAT32, I64 = PTC_NCCL_INT64, MAX = PTC_NCCL_MAX };
static const misuse_t misuses[] = {
    {{{ALL_REDUCE, 8, F32, 0, 0}, {GATHER_ALL, 8, F32, 0, 0}},
     PTC_NCCL_INVALID_USAGE,
     "rank 0 calls ncclAllReduce (sum of 8 f32), rank 1 calls ncclAllGather (8 f32)"},
    {{{ALL_REDUCE, 8, F32, 0, 0}, {ALL_REDUCE, 9, F32, 0, 0}}, PTC_NCCL_INVALID_USAGE, "9 f32"},
    {{{ALL_REDUCE, 8, F32, 0, 0}, {ALL_REDUCE, 8, I64, 0, 0}}, PTC_NCCL_INVALID_USAGE, "8 i64"},
    {{{SCATTER, 8, F32, 0, 0}, {SCATTER, 8, F32, MAX, 0}}, PTC_NCCL_INVALID_USAGE, "max of 8"},
    {{{REDUCE, 8, F32, 0, 0}, {REDUCE, 8, F32, 0, 1}}, PTC_NCCL_INVALID_USAGE, "root 1"},
    {{{BROADCAST, 8, F32, 0, 1}, {BROADCAST, 8, F32, 0, 0}}, PTC_NCCL_INVALID_USAGE, "root 0"},
    {{{SEND, 8, F32, 0, 1}, {RECV, 4, F32, 0, 0}},
     PTC_NCCL_INVALID_USAGE,
     "rank 0 calls ncclSend (8 f32), rank 1 calls ncclRecv (4 f32)"},
    {{{ALL_REDUCE, 8, F32, 0, 0}, {SEND, 8, F32, 0, 5}}, PTC_NCCL_INVALID_ARGUMENT, "no such peer"},
};

typedef struct pair_s {
  ptc_nccl_t *nccl;
  ptc_cuda_driver_t *driver;
  void *contexts[2], *streams[2], *comms[2];
  uint64_t memory[2];
} pair_t;

static int call_nccl(const pair_t *pair, int rank, const nccl_call_t *call) {
  const ptc_nccl_t *nccl = pair->nccl;
  void *in = (void *)(uintptr_t)pair->memory[rank], *out = (char *)in + 1024;
  void *comm = pair->comms[rank], *stream = pair->streams[rank];
  switch (call->kind) {
    case ALL_REDUCE:
      return nccl->AllReduce(in, out, call->count, call->type, call->reduce, comm, stream);
    case REDUCE:
      return nccl->Reduce(in, out, call->count, call->type, call->reduce, call->root, comm, stream);
    case BROADCAST:
      return nccl->Broadcast(in, out, call->count, call->type, call->root, comm, stream);
    case SCATTER:
      return nccl->ReduceScatter(in, out, call->count, call->type, call->reduce, comm, stream);
    case GATHER_ALL: return nccl->AllGather(in, out, call->count, call->type, comm, stream);
    case SEND: return nccl->Send(in, call->count, call->type, call->root, comm, stream);
    case RECV: return nccl->Recv(out, call->count, call->type, call->root, comm, stream);
  }
  return -1;
}

// Both ranks in this thread; |gpus|: where they are. The code of the second one's start.
static int open_pair(pair_t *pair, const int gpus[2], const int sizes[2]) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  *pair = (pair_t){.nccl = ptc_nccl_open(&diag), .driver = ptc_cuda_driver_open(&diag)};
  ptc_diag_deinit(&diag);
  CU_ASSERT_FATAL(pair->nccl && pair->driver);
  ptc_nccl_id_t id;
  int code = pair->nccl->GetUniqueId(&id);
  for (int r = 0; r < 2; r++) {
    ptc_nccl_config_t config = ptc_nccl_config();
    CU_ASSERT_EQUAL(pair->driver->DevicePrimaryCtxRetain(&pair->contexts[r], gpus[r]), 0);
    CU_ASSERT_EQUAL(pair->driver->CtxSetCurrent(pair->contexts[r]), 0);
    CU_ASSERT_EQUAL(pair->driver->MemAlloc(&pair->memory[r], 4096), 0);
    CU_ASSERT_EQUAL(pair->driver->StreamCreate(&pair->streams[r], 1), 0);
    code = pair->nccl->CommInitRankConfig(&pair->comms[r], sizes[r], id, r, &config);
  }
  return code;
}

static void close_pair(pair_t *pair, const int gpus[2]) {
  for (int r = 0; r < 2; r++)
    if (pair->comms[r]) pair->nccl->CommAbort(pair->comms[r]);
  for (int r = 0; r < 2; r++) {
    pair->driver->CtxSetCurrent(pair->contexts[r]);
    pair->driver->StreamDestroy(pair->streams[r]);
    pair->driver->MemFree(pair->memory[r]);
    pair->driver->DevicePrimaryCtxRelease(gpus[r]);
  }
  ptc_nccl_close(pair->nccl);
  ptc_cuda_driver_close(pair->driver);
}

static void check_last_error(const pair_t *pair, void *comm, const char *words) {
  const char *text = pair->nccl->GetLastError(comm);
  UNIT_CHECK(strstr(text, words) != NULL, words);
  if (!strstr(text, words)) printf("%s\n", text);
}

static void test_misuse(void) {
  UNIT_CHECK(gpu_world_prepare(2), "the simulator's library");
  static const int gpus[2] = {0, 1}, same[2] = {0, 0}, sizes[2] = {2, 2}, others[2] = {2, 3};
  pair_t pair;
  for (size_t i = 0; i < sizeof misuses / sizeof *misuses; i++) {
    CU_ASSERT_EQUAL(open_pair(&pair, gpus, sizes), PTC_NCCL_SUCCESS);
    CU_ASSERT_EQUAL(call_nccl(&pair, 0, &misuses[i].calls[0]), PTC_NCCL_SUCCESS);
    CU_ASSERT_EQUAL(call_nccl(&pair, 1, &misuses[i].calls[1]), misuses[i].code);
    check_last_error(&pair, pair.comms[1], misuses[i].words);
    // The other one hears of it, too.
    int code = 0;
    CU_ASSERT_EQUAL(pair.nccl->CommGetAsyncError(pair.comms[0], &code), PTC_NCCL_SUCCESS);
    CU_ASSERT(misuses[i].code == PTC_NCCL_INVALID_ARGUMENT || code == misuses[i].code);
    close_pair(&pair, gpus);
  }
  CU_ASSERT_EQUAL(open_pair(&pair, same, sizes), PTC_NCCL_INVALID_USAGE);
  check_last_error(&pair, NULL, "duplicate GPU: ranks 0 and 1 are both on GPU 0");
  close_pair(&pair, same);
  CU_ASSERT_EQUAL(open_pair(&pair, gpus, others), PTC_NCCL_INVALID_ARGUMENT);
  check_last_error(&pair, NULL, "rank 1 comes with 3 ranks, and others with 2");
  close_pair(&pair, gpus);
}

// --- the library

static bool reports(ptc_diag_t *diag, const char *id, const char *text) {
  const bool found = diag->num_items > 0 && strcmp(diag->items[0].id, id) == 0 &&
                     strstr(diag->items[0].message, text);
  if (!found) ptc_diag_print(diag, stdout, PTC_DIAG_TEXT, false);
  ptc_diag_deinit(diag);
  ptc_diag_init(diag);
  return found;
}

static void test_missing(void) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  setenv("PTC_NCCL", "/nowhere/libnccl.so.2", 1);
  UNIT_CHECK(ptc_nccl_open(&diag) == NULL, "none");
  UNIT_CHECK(reports(&diag, "nccl-missing", "tried /nowhere/libnccl.so.2"), "none");
  setenv("PTC_NCCL", "libm.so.6", 1);
  UNIT_CHECK(ptc_nccl_open(&diag) == NULL, "another");
  UNIT_CHECK(reports(&diag, "nccl-missing", "lacks nccl"), "another");
  unsetenv("PTC_NCCL");
  setenv("PTC_NCCL_DIR", "/nowhere", 1);
  setenv("CUDA_HOME", "/nowhere/cuda", 1);
  ptc_nccl_t *nccl = ptc_nccl_open(&diag);
  if (!nccl)
    UNIT_CHECK(reports(&diag, "nccl-missing", "/nowhere/libnccl.so.2, /nowhere/libnccl.so"),
               "folder");
  ptc_nccl_close(nccl);
  unsetenv("PTC_NCCL_DIR");
  unsetenv("CUDA_HOME");
  ptc_diag_deinit(&diag);
}

static const unit_test_t tests[] = {
    {"deeds", test_deeds}, {"misuse", test_misuse}, {"missing", test_missing}};
UNIT_MAIN("nccl faults", tests)
