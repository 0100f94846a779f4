// Proves: what goes wrong between ranks is reported by name on every rank and in bounded time, never a hang: calls
// that do not match, circles of waits, ranks that die, leave, give up or take too long, starts that do not fit.
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/launch.h"
#include "tests/support/comm_world.h"
#include "tests/support/unit.h"

enum { MAX_WORDS = 6, BYTES = 4096 };
static const double quickly_s = 20;  // on a machine that others use, too

static double now_s(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void nap(double seconds) {
  nanosleep(&(struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)},
            NULL);
}

// What a rank does, and what its diagnostic must say.
typedef struct deed_s deed_t;
struct deed_s {
  const char *name;
  int32_t world;
  ptc_status_t (*run)(ptc_comm_t *comm, ptc_diag_t *diag);
  const char *id;                // of all ranks; NULL: any
  const char *words[MAX_WORDS];  // in the message of every rank
  int32_t culprit;               // need not report anything; -1: none
  bool processes;                // only these
};

static int64_t run_deed(ptc_comm_t *comm, ptc_diag_t *diag, void *arg) {
  const deed_t *deed = arg;
  char step[64];
  snprintf(step, sizeof step, "step %d of %s", 10 + comm->rank, deed->name);
  ptc_comm_set_context(comm, step, (ptc_loc_t){"models/x.ptm", 30 + comm->rank, 1});
  const double start_s = now_s();
  const ptc_status_t status = deed->run(comm, diag);
  int64_t num_wrong = now_s() - start_s > quickly_s;
  if (comm->rank == deed->culprit) return num_wrong;
  num_wrong += status != PTC_DEVICE || diag->num_items != 1;
  if (diag->num_items == 0) return num_wrong;
  num_wrong += deed->id && strcmp(diag->items[0].id, deed->id) != 0;
  num_wrong += diag->items[0].loc.line != 30 + comm->rank;
  for (int i = 0; i < MAX_WORDS && deed->words[i]; i++)
    num_wrong += !strstr(diag->items[0].message, deed->words[i]);
  // And so it stays.
  num_wrong += ptc_comm_barrier(comm, diag, PTC_COMM_WORLD) != PTC_DEVICE;
  return num_wrong;
}

// A collective of one part: |bytes|, cut by three.
static ptc_status_t call(ptc_comm_t *comm, ptc_diag_t *diag, int32_t group,
                         ptc_collective_kind_t kind, ptc_reduce_kind_t reduce, ptc_dtype_t dtype,
                         int64_t bytes, int64_t outer) {
  static _Thread_local char in[BYTES], out[3 * BYTES];
  ptc_collective_part_t part = {{1, bytes, bytes}, {1, bytes, bytes}};
  if (kind == PTC_COLLECTIVE_ALL_GATHER)
    part.out = (ptc_pieces_t){outer, bytes / outer, 3 * bytes / outer};
  if (kind == PTC_COLLECTIVE_REDUCE_SCATTER)
    part.out = (ptc_pieces_t){1, bytes / 3, bytes / 3},
    part.in = (ptc_pieces_t){outer, bytes / 3 / outer, bytes / outer};
  const ptc_collective_t collective = {
      .kind = kind, .reduce = reduce, .dtype = dtype, .num_parts = 1, .parts = &part};
  void *const args[2] = {in, out};
  return ptc_comm_collective(comm, diag, group, &collective, args);
}

#define REDUCE(reduce, dtype, bytes) \
  call(comm, diag, 0, PTC_COLLECTIVE_ALL_REDUCE, PTC_REDUCE_##reduce, dtype, bytes, 1)
#define GATHER(bytes, outer) \
  call(comm, diag, 0, PTC_COLLECTIVE_ALL_GATHER, PTC_REDUCE_SUM, PTC_F32, bytes, outer)

static ptc_status_t other_kind(ptc_comm_t *comm, ptc_diag_t *diag) {
  PTC_TRY(REDUCE(SUM, PTC_F32, 96));
  if (comm->rank != 1) return REDUCE(SUM, PTC_F32, 96);
  return GATHER(96, 1);
}
static ptc_status_t other_size(ptc_comm_t *comm, ptc_diag_t *diag) {
  return REDUCE(SUM, PTC_F32, comm->rank == 2 ? 192 : 96);
}
static ptc_status_t other_dtype(ptc_comm_t *comm, ptc_diag_t *diag) {
  return REDUCE(SUM, comm->rank == 2 ? PTC_BF16 : PTC_F32, 96);
}
static ptc_status_t other_reduce(ptc_comm_t *comm, ptc_diag_t *diag) {
  if (comm->rank == 0) return REDUCE(MAX, PTC_F32, 96);
  return REDUCE(SUM, PTC_F32, 96);
}
static ptc_status_t other_cut(ptc_comm_t *comm, ptc_diag_t *diag) {
  return GATHER(96, comm->rank == 1 ? 2 : 1);
}
static ptc_status_t with_barrier(ptc_comm_t *comm, ptc_diag_t *diag) {
  if (comm->rank == 1) return ptc_comm_barrier(comm, diag, PTC_COMM_WORLD);
  return REDUCE(SUM, PTC_F32, 96);
}

static int32_t make_group(ptc_comm_t *comm, ptc_diag_t *diag, int32_t first, int32_t second) {
  const int32_t ranks[2] = {first, second};
  int32_t group = -1;
  ptc_comm_group(comm, diag, ranks, 2, &group);
  return group;
}
// 0 and 1 meet, 2 waits for both; then each waits for the next.
static ptc_status_t other_group(ptc_comm_t *comm, ptc_diag_t *diag) {
  if (comm->rank == 2) return ptc_comm_barrier(comm, diag, PTC_COMM_WORLD);
  const int32_t pair = make_group(comm, diag, 0, 1);
  const int32_t swapped = make_group(comm, diag, 1, 0);
  return ptc_comm_barrier(comm, diag, comm->rank == 0 ? pair : swapped);
}
static ptc_status_t circle(ptc_comm_t *comm, ptc_diag_t *diag) {
  const int32_t next = (comm->rank + 1) % comm->world;
  const int32_t mine = make_group(comm, diag, comm->rank, next);
  const int32_t last = (comm->rank + comm->world - 1) % comm->world;
  make_group(comm, diag, last, comm->rank);
  return ptc_comm_barrier(comm, diag, mine);
}
static ptc_status_t both_receive(ptc_comm_t *comm, ptc_diag_t *diag) {
  char byte;
  return ptc_comm_recv(comm, diag, 1 - comm->rank, 0, &byte, 1);
}
static ptc_status_t both_send(ptc_comm_t *comm, ptc_diag_t *diag) {
  char *data = calloc(1, 24 << 20);
  const ptc_status_t status = ptc_comm_send(comm, diag, 1 - comm->rank, 0, data, 24 << 20);
  free(data);
  return status;
}
static ptc_status_t other_message(ptc_comm_t *comm, ptc_diag_t *diag) {
  char data[64] = {0};
  if (comm->rank == 0) PTC_TRY(ptc_comm_send(comm, diag, 1, 3, data, 64));
  if (comm->rank == 1) return ptc_comm_recv(comm, diag, 0, 3, data, 32);
  return ptc_comm_barrier(comm, diag, PTC_COMM_WORLD);
}
static ptc_status_t leave(ptc_comm_t *comm, ptc_diag_t *diag) {
  if (comm->rank == 1) return PTC_OK;
  return REDUCE(SUM, PTC_F32, 96);
}
static ptc_status_t give_up(ptc_comm_t *comm, ptc_diag_t *diag) {
  if (comm->rank == 1) {
    nap(0.1);
    ptc_comm_abort(comm, "the data end here");
    return REDUCE(SUM, PTC_F32, 96);
  }
  PTC_TRY(REDUCE(SUM, PTC_F32, 96));
  return REDUCE(SUM, PTC_F32, 96);
}
static ptc_status_t take_long(ptc_comm_t *comm, ptc_diag_t *diag) {
  ptc_comm_set_limit(comm, 0.15);
  if (comm->rank == 1) nap(0.7);
  return REDUCE(SUM, PTC_F32, 96);
}
static ptc_status_t die(ptc_comm_t *comm, ptc_diag_t *diag) {
  for (int i = 0; i < 20; i++) PTC_TRY(REDUCE(SUM, PTC_F32, 960));
  if (comm->rank == 2) kill(getpid(), SIGKILL);
  for (;;) PTC_TRY(REDUCE(SUM, PTC_F32, 960));
}
static ptc_status_t die_sending(ptc_comm_t *comm, ptc_diag_t *diag) {
  char data[64] = {0};
  if (comm->rank == 0) return ptc_comm_recv(comm, diag, 1, 0, data, 64);
  kill(getpid(), SIGKILL);
  return PTC_OK;
}

static const deed_t deeds[] = {
    {"other kind",
     3,
     other_kind,
     "comm-mismatch",
     {"rank 0 all_reduce sum of f32", "rank 1 all_gather of f32", "ranks 0 and 1"},
     -1,
     false},
    {"other size",
     3,
     other_size,
     "comm-mismatch",
     {"ranks 0 and 2", "bytes: 96", "bytes: 192"},
     -1,
     false},
    {"other dtype", 3, other_dtype, "comm-mismatch", {"ranks 0 and 2", "f32", "bf16"}, -1, false},
    {"other reduce", 3, other_reduce, "comm-mismatch", {"ranks 0 and 1", "max", "sum"}, -1, false},
    {"other cut",
     3,
     other_cut,
     "comm-mismatch",
     {"ranks 0 and 1", "cut in another way"},
     -1,
     false},
    {"barrier", 3, with_barrier, "comm-mismatch", {"ranks 0 and 1", "rank 1 a barrier"}, -1, false},
    {"other group",
     3,
     other_group,
     "comm-mismatch",
     {"wait for each other", "rank 0 at step 10", "rank 1 at step 11", "x.ptm:31"},
     -1,
     false},
    {"circle",
     5,
     circle,
     "comm-mismatch",
     {"wait for each other", "rank 4 at step 14 of circle (x.ptm:34) waits for rank 0"},
     -1,
     false},
    {"receive",
     2,
     both_receive,
     "comm-mismatch",
     {"rank 0", "waits for rank 1", "rank 1", "waits for rank 0"},
     -1,
     false},
    {"send", 2, both_send, "comm-mismatch", {"waits for rank 1", "waits for rank 0"}, -1, false},
    {"message",
     3,
     other_message,
     "comm-mismatch",
     {"rank 0 sends a message 3 of 64 bytes", "rank 1 receives one of 32"},
     -1,
     false},
    {"leave", 3, leave, "comm-lost", {"rank 1 has left"}, 1, false},
    {"give up",
     3,
     give_up,
     "comm-aborted",
     {"rank 1 has ended the run: the data end here"},
     -1,
     false},
    {"take long",
     3,
     take_long,
     "comm-stuck",
     {"has waited", "s for rank 1 at step 11 of take long (x.ptm:31)"},
     -1,
     false},
    {"die", 4, die, "comm-lost", {"rank 2 has died"}, 2, true},
    {"die sending", 2, die_sending, "comm-lost", {"rank 1 has died", "rank 0 at step 10"}, 1, true},
};

static void test_deeds(void) {
  for (size_t i = 0; i < sizeof deeds / sizeof *deeds; i++) {
    for (int kind = deeds[i].processes ? COMM_PROCESSES : COMM_THREADS; kind < COMM_KINDS; kind++) {
      int64_t results[COMM_MAX_WORLD];
      comm_world_run_each(kind, deeds[i].world, run_deed, (void *)&deeds[i], results);
      for (int32_t r = 0; r < deeds[i].world; r++) {
        if (deeds[i].processes && r == deeds[i].culprit)
          UNIT_CHECK(results[r] == -1, deeds[i].name);
        else
          UNIT_CHECK(results[r] == 0, deeds[i].name);
      }
    }
  }
}

// --- a rank that is killed at any instant

enum { NUM_KILLS = 12, KILL_WORLD = 4 };

// Works until a rank is gone; 0 if the diagnostic names |victim|.
static int work_until_killed(const char *name, int32_t rank, int32_t victim,
                             _Atomic int32_t *num_started) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_comm_t *comm;
  ptc_status_t status = ptc_comm_open_process(&diag, name, rank, KILL_WORLD, 60, &comm);
  atomic_fetch_add(num_started, 1);
  const int32_t next = (rank + 1) % KILL_WORLD, last = (rank + KILL_WORLD - 1) % KILL_WORLD;
  char *data = calloc(2, 100000);
  while (status == PTC_OK) {
    status = call(comm, &diag, 0, PTC_COLLECTIVE_ALL_REDUCE, PTC_REDUCE_SUM, PTC_F32, BYTES, 1);
    if (status == PTC_OK) status = ptc_comm_send(comm, &diag, next, 1, data, 100000);
    if (status == PTC_OK) status = ptc_comm_recv(comm, &diag, last, 1, data + 100000, 100000);
    if (status == PTC_OK) status = ptc_comm_barrier(comm, &diag, PTC_COMM_WORLD);
  }
  char words[32];
  snprintf(words, sizeof words, "rank %d has died", victim);
  return status == PTC_DEVICE && diag.num_items == 1 && strstr(diag.items[0].message, words) ? 0
                                                                                             : 1;
}

static void test_kills(void) {
  uint64_t state = unit_seed();
  _Atomic int32_t *num_started =
      mmap(NULL, sizeof *num_started, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  const char *cases = getenv("PTC_CASES");
  const int num_kills = cases ? atoi(cases) : NUM_KILLS;
  for (int i = 0; i < num_kills; i++) {
    const int32_t victim = (int32_t)(unit_random(&state) % KILL_WORLD);
    char name[64];
    snprintf(name, sizeof name, "kill-%d-%d", (int)getpid(), i);
    pid_t pids[KILL_WORLD];
    atomic_store(num_started, 0);
    fflush(stdout);
    for (int32_t r = 0; r < KILL_WORLD; r++)
      if ((pids[r] = fork()) == 0) _exit(work_until_killed(name, r, victim, num_started));
    // Whether one that has not come yet is dead, only its launcher knows.
    const double start_s = now_s();
    while (atomic_load(num_started) < KILL_WORLD && now_s() - start_s < quickly_s) nap(1e-4);
    nap(1e-3 * (double)(unit_random(&state) % 30));
    kill(pids[victim], SIGKILL);
    for (int32_t r = 0; r < KILL_WORLD; r++) {
      int status = 0;
      while (waitpid(pids[r], &status, WNOHANG) == 0) {
        if (now_s() - start_s > quickly_s) kill(pids[r], SIGKILL);
        nap(1e-3);
      }
      if (r != victim) UNIT_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "killed");
    }
  }
  munmap(num_started, sizeof *num_started);
}

static bool reports(ptc_diag_t *diag, const char *id, const char *text) {
  const bool found = diag->num_items == 1 && strcmp(diag->items[0].id, id) == 0 &&
                     strstr(diag->items[0].message, text);
  if (!found) ptc_diag_print(diag, stdout, PTC_DIAG_TEXT, false);
  ptc_diag_deinit(diag);
  ptc_diag_init(diag);
  return found;
}

static void test_groups(void) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_comm_t *comms[2], *none[1];
  CU_ASSERT_EQUAL_FATAL(ptc_comm_open_threads(&diag, 2, comms), PTC_OK);
  int32_t group, again;
  UNIT_CHECK(ptc_comm_group(comms[0], &diag, (int32_t[]){0, 2}, 2, &group) != PTC_OK, "no rank");
  UNIT_CHECK(reports(&diag, "comm-group", "rank 2"), "no rank");
  UNIT_CHECK(ptc_comm_group(comms[0], &diag, (int32_t[]){0, 0}, 2, &group) != PTC_OK, "twice");
  UNIT_CHECK(reports(&diag, "comm-group", "rank 0 twice"), "twice");
  UNIT_CHECK(ptc_comm_group(comms[0], &diag, (int32_t[]){1}, 1, &group) != PTC_OK, "missing");
  UNIT_CHECK(reports(&diag, "comm-group", "not in"), "missing");
  UNIT_CHECK(ptc_comm_group(comms[0], &diag, (int32_t[]){0, 1}, 2, &group) == PTC_OK, "all");
  UNIT_CHECK(group == PTC_COMM_WORLD, "all");
  UNIT_CHECK(ptc_comm_group(comms[0], &diag, (int32_t[]){1, 0}, 2, &group) == PTC_OK, "turned");
  UNIT_CHECK(ptc_comm_group(comms[0], &diag, (int32_t[]){1, 0}, 2, &again) == PTC_OK, "turned");
  UNIT_CHECK(group == again && group != PTC_COMM_WORLD, "turned");
  ptc_comm_close(comms[0]);
  ptc_comm_close(comms[1]);
  UNIT_CHECK(ptc_comm_open_threads(&diag, 0, none) == PTC_DEVICE, "no ranks");
  UNIT_CHECK(reports(&diag, "comm-start", "0 ranks"), "no ranks");
  ptc_diag_deinit(&diag);
}

// Rank 0 of two waits in vain, or not, for what a process of this name does.
static ptc_status_t start(ptc_diag_t *diag, const char *name, int32_t rank, int32_t world,
                          double limit_s) {
  ptc_comm_t *comm;
  const ptc_status_t status = ptc_comm_open_process(diag, name, rank, world, limit_s, &comm);
  ptc_comm_close(comm);
  return status;
}

// A process that opens rank 1 of |world| and waits there until it is killed.
static pid_t start_other(const char *name, int32_t rank, int32_t world) {
  fflush(stdout);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  start(&diag, name, rank, world, 60);
  _exit(0);
}

static void test_starts(void) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  char name[64];
  snprintf(name, sizeof name, "start-%d", (int)getpid());
  UNIT_CHECK(start(&diag, name, 2, 2, 1) == PTC_DEVICE, "no such rank");
  UNIT_CHECK(reports(&diag, "comm-start", "rank 2 of 2"), "no such rank");
  UNIT_CHECK(start(&diag, name, 0, 2, 1) == PTC_DEVICE, "nobody");
  UNIT_CHECK(reports(&diag, "comm-stuck", "for rank 1 to start"), "nobody");
  // What that one has left behind does not count. Another one comes, with another idea of the world.
  pid_t pid = start_other(name, 1, 3);
  nap(0.3);
  UNIT_CHECK(start(&diag, name, 0, 2, 1) == PTC_DEVICE, "world");
  UNIT_CHECK(reports(&diag, "comm-start", "as one of 2, another rank as one of 3"), "world");
  UNIT_CHECK(start(&diag, name, 1, 3, 1) == PTC_DEVICE, "twice");
  UNIT_CHECK(reports(&diag, "comm-start", "started twice"), "twice");
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  // It has died while it was waiting: a new run begins anew.
  pid = start_other(name, 1, 2);
  UNIT_CHECK(start(&diag, name, 0, 2, 30) == PTC_OK, "anew");
  waitpid(pid, NULL, 0);
  setenv("PTC_SHM_DIR", "/nowhere", 1);
  UNIT_CHECK(start(&diag, name, 0, 2, 1) == PTC_DEVICE, "folder");
  UNIT_CHECK(reports(&diag, "comm-start", "/nowhere/ptc-"), "folder");
  unsetenv("PTC_SHM_DIR");
  ptc_diag_deinit(&diag);
}

static const unit_test_t tests[] = {
    {"calls", test_deeds},
    {"kills", test_kills},
    {"groups", test_groups},
    {"starts", test_starts},
};

// MPI's own errors are told, too.
static int64_t send_to_nobody(ptc_comm_t *comm, ptc_diag_t *diag) {
  if (comm->rank != 0) return ptc_comm_barrier(comm, diag, PTC_COMM_WORLD) != PTC_DEVICE;
  return ptc_comm_send(comm, diag, comm->world, 0, "", 1) != PTC_DEVICE ||
         strcmp(diag->items[0].id, "mpi-failed") != 0;
}

// `communicator_faults_test rank NAME`: the same by one rank of a job that a launcher has started (house/mpi_test.sh).
static int main_of_rank(const char *name) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_launch_t launch;
  ptc_comm_t *comm = NULL;
  int64_t num_wrong = 1;
  if (ptc_launch_read(&diag, &launch) == PTC_OK &&
      ptc_launch_open(&diag, &launch, 60, &comm) == PTC_OK) {
    if (strcmp(name, "nobody") == 0) num_wrong = send_to_nobody(comm, &diag);
    for (size_t i = 0; i < sizeof deeds / sizeof *deeds; i++) {
      if (strcmp(deeds[i].name, name) != 0) continue;
      deed_t deed = deeds[i];
      // A rank of MPI cannot see what one does that it waits for, nor can one of TCP.
      const bool is_far = launch.kind == PTC_LAUNCH_MPI || launch.kind == PTC_LAUNCH_TCP;
      if (is_far && deed.run == take_long) deed.words[1] = "s for rank 1";
      num_wrong = run_deed(comm, &diag, &deed);
    }
  }
  if (num_wrong != 0) ptc_diag_print(&diag, stdout, PTC_DIAG_TEXT, false);
  printf("rank %d, %s: %lld wrong\n", launch.rank, name, (long long)num_wrong);
  fflush(stdout);
  ptc_comm_close(comm);
  ptc_diag_deinit(&diag);
  return num_wrong != 0;
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "rank") == 0) return main_of_rank(argv[2]);
  return unit_main("communicator faults", tests, (int)(sizeof tests / sizeof *tests));
}
