// Proves: collectives and messages of ranks with a simulated GPU each give what their definitions say, through ptc's
// NCCL endpoint and the simulated NCCL: random groups, kinds, dtypes, rows cut off, with and without ncclCommSplit. That
// they are done in the stream's order, and not before somebody waits.
#include <stdlib.h>

#include "tests/support/gpu_world.h"
#include "tests/support/unit.h"

enum { NUM_PARTITIONS = 4, NUM_MESSAGES = 40, MOST_BYTES = 300000 };

typedef struct script_s {
  uint64_t seed;
  int64_t num_cases;
} script_t;

static int64_t run_cases(gpu_rank_t *rank, ptc_diag_t *diag, void *arg) {
  const script_t *script = arg;
  ptc_comm_t *comm = rank->comm;
  int32_t groups[NUM_PARTITIONS], sizes[NUM_PARTITIONS], members[NUM_PARTITIONS] = {0};
  int32_t numbers[NUM_PARTITIONS];
  for (int32_t k = 0; k < NUM_PARTITIONS; k++) {
    // Ranks find their groups in different orders.
    const int32_t i = (k + comm->rank) % NUM_PARTITIONS;
    int32_t ranks[GPU_WORLD_MAX];
    sizes[i] =
        comm_partition(script->seed + (uint64_t)i, comm->world, comm->rank, ranks, &numbers[i]);
    if (ptc_comm_group(comm, diag, ranks, sizes[i], &groups[i]) != PTC_OK) return 1;
    while (ranks[members[i]] != comm->rank) members[i]++;
  }
  if (ptc_comm_ready(comm, diag) != PTC_OK) return 1;
  int64_t num_wrong = 0;
  for (int64_t c = 0; c < script->num_cases && !num_wrong; c++) {
    const int32_t i = (int32_t)(c % NUM_PARTITIONS);
    comm_case_t test;
    comm_case_random(&test, script->seed + 1000003 * (uint64_t)c + (uint64_t)numbers[i], sizes[i]);
    num_wrong = comm_case_run(&test, comm, diag, groups[i], members[i], &rank->memory);
    if (num_wrong != 0)
      printf("rank %d of %d: case %lld, %s of %s, group of %d: %lld wrong\n", comm->rank,
             comm->world, (long long)c, ptc_collective_name(test.collective.kind),
             ptc_dtype_name(test.collective.dtype), sizes[i], (long long)num_wrong);
  }
  return num_wrong;
}

static void test_collectives(void) {
  const char *cases = getenv("PTC_CASES");
  script_t script = {unit_seed(), cases ? strtoll(cases, NULL, 10) : 40};
  for (int32_t world = 1; world <= 6; world++, script.seed += 77) {
    UNIT_CHECK(gpu_world_prepare(world), "the simulator's library");
    // Every other world has a library that cannot split.
    if (world % 2) setenv("PTC_NCCL_SPLIT", "0", 1);
    UNIT_CHECK(gpu_world_run(world, run_cases, &script) == 0, "collectives");
    unsetenv("PTC_NCCL_SPLIT");
  }
}

// A list in one order for all.
static int64_t run_messages(gpu_rank_t *rank, ptc_diag_t *diag, void *arg) {
  const script_t *script = arg;
  ptc_comm_t *comm = rank->comm;
  unsigned char *data = rank->memory.alloc(rank->memory.arg, MOST_BYTES);
  int64_t num_wrong = 0, received = 0;
  for (int64_t n = 0; n < NUM_MESSAGES; n++) {
    uint64_t state = script->seed + (uint64_t)n * 7919;
    const int32_t from = (int32_t)(unit_random(&state) % (uint64_t)comm->world);
    const int32_t to =
        (int32_t)((uint64_t)from + 1 + unit_random(&state) % (uint64_t)(comm->world - 1)) %
        comm->world;
    const int64_t bytes = (int64_t)(unit_random(&state) % (n % 5 ? 500 : MOST_BYTES));
    if (from == comm->rank) {
      for (int64_t i = 0; i < bytes; i++) data[i] = (unsigned char)(n * 31 + i * 7);
      num_wrong += ptc_comm_send(comm, diag, to, (int32_t)(n % 3), data, bytes) != PTC_OK;
    }
    if (to == comm->rank) {
      num_wrong += ptc_comm_recv(comm, diag, from, (int32_t)(n % 3), data, bytes) != PTC_OK;
      received += bytes;
    }
    num_wrong += rank->memory.finish(rank->memory.arg, diag) != PTC_OK;
    if (num_wrong) return num_wrong;
    for (int64_t i = 0; i < bytes && to == comm->rank; i++)
      num_wrong += data[i] != (unsigned char)(n * 31 + i * 7);
  }
  for (int32_t r = 0; r < comm->world; r++) received -= ptc_comm_received(comm, r);
  return num_wrong + (received != 0);
}

static void test_messages(void) {
  script_t script = {.seed = unit_seed()};
  for (int32_t world = 2; world <= 4; world++) {
    UNIT_CHECK(gpu_world_prepare(world), "the simulator's library");
    UNIT_CHECK(gpu_world_run(world, run_messages, &script) == 0, "messages");
  }
}

// A copy, a sum over the ranks, a copy: queued at once, they see each other's results.
static int64_t run_in_order(gpu_rank_t *rank, ptc_diag_t *diag, void *arg) {
  (void)arg;
  enum { COUNT = 1000, BYTES = 4 * COUNT };
  float *a = rank->memory.alloc(rank->memory.arg, BYTES),
        *b = rank->memory.alloc(rank->memory.arg, BYTES);
  for (int i = 0; i < COUNT; i++) a[i] = (float)(rank->comm->rank + 1);
  ptc_collective_part_t part = {{1, BYTES, BYTES}, {1, BYTES, BYTES}};
  const ptc_collective_t sum = {
      .kind = PTC_COLLECTIVE_ALL_REDUCE, .dtype = PTC_F32, .num_parts = 1, .parts = &part};
  void *const args[2] = {b, b};
  int64_t num_wrong = 0;
  for (int turn = 0; turn < 3; turn++) {
    num_wrong += rank->device->copy(rank->device, diag, 0, (uint64_t)(uintptr_t)b,
                                    (uint64_t)(uintptr_t)a, BYTES) != PTC_OK;
    num_wrong += ptc_comm_collective(rank->comm, diag, PTC_COMM_WORLD, &sum, args) != PTC_OK;
    num_wrong += rank->device->copy(rank->device, diag, 0, (uint64_t)(uintptr_t)a,
                                    (uint64_t)(uintptr_t)b, BYTES) != PTC_OK;
  }
  num_wrong += rank->memory.finish(rank->memory.arg, diag) != PTC_OK;
  // 1 + 2 + 3, then three times as much, and again.
  for (int i = 0; i < COUNT; i++) num_wrong += a[i] != 54;
  return num_wrong;
}

static void test_order(void) {
  UNIT_CHECK(gpu_world_prepare(3), "the simulator's library");
  UNIT_CHECK(gpu_world_run(3, run_in_order, NULL) == 0, "order");
}

static const unit_test_t tests[] = {
    {"collectives", test_collectives}, {"messages", test_messages}, {"order", test_order}};
UNIT_MAIN("nccl", tests)
