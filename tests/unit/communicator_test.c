// Proves: collectives and messages of ranks that are threads or processes give what their definitions say, to the
// bit, and count the bytes that they read; barriers hold. Random groups, kinds, dtypes, sizes with rows cut off.
#include "runtime/communicator.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "runtime/launch.h"
#include "tests/support/comm_case.h"
#include "tests/support/comm_world.h"
#include "tests/support/unit.h"

enum { NUM_PARTITIONS = 5, NUM_MESSAGES = 80 };

typedef struct script_s {
  uint64_t seed;
  int64_t num_cases;
} script_t;

static int64_t env_number(const char *name, int64_t otherwise) {
  const char *text = getenv(name);
  return text ? strtoll(text, NULL, 10) : otherwise;
}

static int64_t run_cases(ptc_comm_t *comm, ptc_diag_t *diag, void *arg) {
  const script_t *script = arg;
  int32_t groups[NUM_PARTITIONS], sizes[NUM_PARTITIONS], members[NUM_PARTITIONS] = {0};
  int32_t numbers[NUM_PARTITIONS];
  for (int32_t i = 0; i < NUM_PARTITIONS; i++) {
    int32_t ranks[COMM_MAX_WORLD];
    sizes[i] =
        comm_partition(script->seed + (uint64_t)i, comm->world, comm->rank, ranks, &numbers[i]);
    if (ptc_comm_group(comm, diag, ranks, sizes[i], &groups[i]) != PTC_OK) return 1;
    while (ranks[members[i]] != comm->rank) members[i]++;
  }
  int64_t num_wrong = 0;
  for (int64_t c = 0; c < script->num_cases; c++) {
    const int32_t i = (int32_t)(c % NUM_PARTITIONS);
    comm_case_t test;
    comm_case_random(&test, script->seed + 1000003 * (uint64_t)c + (uint64_t)numbers[i], sizes[i]);
    const int64_t wrong = comm_case_run(&test, comm, diag, groups[i], members[i], NULL);
    if (wrong != 0)
      printf("rank %d of %d: case %lld, %s of %s, group of %d: %lld wrong\n", comm->rank,
             comm->world, (long long)c, ptc_collective_name(test.collective.kind),
             ptc_dtype_name(test.collective.dtype), sizes[i], (long long)wrong);
    num_wrong += wrong;
  }
  return num_wrong;
}

static void test_collectives(void) {
  script_t script = {unit_seed(), env_number("PTC_CASES", 25)};
  for (int kind = 0; kind < COMM_KINDS; kind++)
    for (int32_t world = 1; world <= COMM_MAX_WORLD; world++, script.seed += 77)
      UNIT_CHECK(comm_world_run(kind, world, run_cases, &script) == 0, comm_kind_names[kind]);
}

// The list is in one order for all, so that it cannot come to a standstill. Those of one batch are received in
// another order than they were sent in.
typedef struct message_s {
  int32_t from, to, tag;
  int64_t bytes;
} message_t;

static message_t message_at(uint64_t seed, int32_t world, int64_t number) {
  uint64_t state = seed + (uint64_t)number * 7919;
  message_t message = {.tag = (int32_t)(unit_random(&state) % 3)};
  message.from = (int32_t)(unit_random(&state) % (uint64_t)world);
  message.to =
      (int32_t)((message.from + 1 + (int32_t)(unit_random(&state) % (uint64_t)(world - 1))) %
                world);
  static const int64_t sizes[] = {0, 1, 15, 16, 1000, 70000, 300000, 3000001};
  message.bytes = sizes[unit_random(&state) % (number % 20 == 0 ? 8 : 6)];
  return message;
}

static void fill(unsigned char *data, int64_t bytes, int64_t number) {
  for (int64_t i = 0; i < bytes; i++) data[i] = (unsigned char)(number * 31 + i * 7 + (i >> 8));
}

static int64_t run_messages(ptc_comm_t *comm, ptc_diag_t *diag, void *arg) {
  const script_t *script = arg;
  unsigned char *data = malloc(3000001), *expected = malloc(3000001);
  int64_t num_wrong = 0, received = 0;
  for (int64_t n = 0; n < NUM_MESSAGES; n++) {
    const message_t message = message_at(script->seed, comm->world, n);
    if (message.from == comm->rank) {
      fill(data, message.bytes, n);
      num_wrong +=
          ptc_comm_send(comm, diag, message.to, message.tag, data, message.bytes) != PTC_OK;
    }
    if (message.to == comm->rank) {
      memset(data, 0, (size_t)message.bytes);
      num_wrong +=
          ptc_comm_recv(comm, diag, message.from, message.tag, data, message.bytes) != PTC_OK;
      fill(expected, message.bytes, n);
      num_wrong += memcmp(data, expected, (size_t)message.bytes) != 0;
      received += message.bytes;
    }
  }
  int64_t counted = 0;
  for (int32_t r = 0; r < comm->world; r++) counted += ptc_comm_received(comm, r);
  num_wrong += counted != received;
  // By tag, not by arrival: rank 0 sends 0, 1, 2, 0 and 1, and rank 1 takes 2, 1, 0, 1, 0.
  static const int32_t sent[] = {0, 1, 2, 0, 1}, taken[] = {2, 1, 0, 1, 0},
                       which[] = {2, 1, 0, 4, 3};
  for (int i = 0; i < 5; i++) {
    if (comm->rank == 0) {
      fill(data, 5000, i);
      num_wrong += ptc_comm_send(comm, diag, 1, sent[i], data, 5000) != PTC_OK;
    } else if (comm->rank == 1) {
      num_wrong += ptc_comm_recv(comm, diag, 0, taken[i], data, 5000) != PTC_OK;
      fill(expected, 5000, which[i]);
      num_wrong += memcmp(data, expected, 5000) != 0;
    }
  }
  free(data);
  free(expected);
  return num_wrong;
}

static void test_messages(void) {
  script_t script = {unit_seed(), 0};
  for (int kind = 0; kind < COMM_KINDS; kind++)
    for (int32_t world = 2; world <= COMM_MAX_WORLD; world += 3, script.seed += 77)
      UNIT_CHECK(comm_world_run(kind, world, run_messages, &script) == 0, comm_kind_names[kind]);
}

// Nobody leaves a barrier before all have come.
static int64_t run_barriers(ptc_comm_t *comm, ptc_diag_t *diag, void *arg) {
  _Atomic int64_t *num_come = arg;
  int64_t num_wrong = 0;
  for (int64_t i = 1; i <= 200; i++) {
    atomic_fetch_add(num_come, 1);
    num_wrong += ptc_comm_barrier(comm, diag, PTC_COMM_WORLD) != PTC_OK;
    const int64_t come = atomic_load(num_come);
    num_wrong += come < i * comm->world || come > (i + 1) * comm->world;
  }
  return num_wrong;
}

static void test_barriers(void) {
  for (int kind = 0; kind < COMM_KINDS; kind++) {
    _Atomic int64_t *num_come =
        mmap(NULL, sizeof *num_come, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    UNIT_CHECK(comm_world_run(kind, 5, run_barriers, num_come) == 0, comm_kind_names[kind]);
    munmap(num_come, sizeof *num_come);
  }
}

static int64_t run_same(ptc_comm_t *comm, ptc_diag_t *diag, void *arg) {
  (void)arg;
  int64_t num_wrong = ptc_comm_check_same(comm, diag, "the plan", "abc", 3) != PTC_OK;
  num_wrong += ptc_comm_check_same(comm, diag, "nothing", NULL, 0) != PTC_OK;
  const char *mine = comm->rank == 2 ? "abd" : "abc";
  num_wrong += ptc_comm_check_same(comm, diag, "the plan", mine, 3) != PTC_INVALID_INPUT;
  num_wrong += !strstr(diag->items[0].message, "ranks 0 and 2") ||
               !strstr(diag->items[0].message, "the plan") ||
               strcmp(diag->items[0].id, "comm-differs") != 0;
  num_wrong += ptc_comm_check_same(comm, diag, "the length", "abc", comm->rank == 1 ? 2 : 3) !=
               PTC_INVALID_INPUT;
  return num_wrong;
}

static void test_same(void) {
  for (int kind = 0; kind < COMM_KINDS; kind++)
    UNIT_CHECK(comm_world_run(kind, 3, run_same, NULL) == 0, comm_kind_names[kind]);
}

static const unit_test_t tests[] = {
    {"collectives", test_collectives},
    {"messages", test_messages},
    {"barriers", test_barriers},
    {"the same on all ranks", test_same},
};

// `communicator_test rank`: one rank of a job that a launcher has started (house/mpi_test.sh).
static int main_of_rank(void) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_launch_t launch;
  ptc_comm_t *comm = NULL;
  int64_t num_wrong = ptc_launch_read(&diag, &launch) != PTC_OK ||
                      ptc_launch_open(&diag, &launch, 60, &comm) != PTC_OK;
  script_t script = {(uint64_t)env_number("PTC_SEED", 1), env_number("PTC_CASES", 25)};
  if (num_wrong == 0) {
    num_wrong += run_cases(comm, &diag, &script) + run_messages(comm, &diag, &script);
    for (int i = 0; i < 20; i++)
      num_wrong += ptc_comm_barrier(comm, &diag, PTC_COMM_WORLD) != PTC_OK;
    printf("rank %d of %d by %s: %lld wrong\n", comm->rank, comm->world, launch.launcher,
           (long long)num_wrong);
  }
  ptc_diag_print(&diag, stdout, PTC_DIAG_TEXT, false);
  ptc_comm_close(comm);
  ptc_diag_deinit(&diag);
  return num_wrong != 0;
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "rank") == 0) return main_of_rank();
  return unit_main("communicator", tests, (int)(sizeof tests / sizeof *tests));
}
