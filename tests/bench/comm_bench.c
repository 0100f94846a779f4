// Time of an all_reduce into private buffers, ranks being threads or processes. Prints one number of milliseconds per
// repetition: that of the slowest rank. COMM_BENCH_CPU: the ranks' own time. usage: comm_bench threads|processes RANKS BYTES REPETITIONS
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/communicator.h"

enum { MAX_RANKS = 64 };

typedef struct bench_s {
  int64_t bytes;
  int num_repetitions;
  double *times;  // [rank][repetition], shared
} bench_t;

typedef struct rank_s {
  const bench_t *bench;
  ptc_comm_t *comm;
} rank_t;

static double now_ms(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return 1e3 * (double)time.tv_sec + 1e-6 * (double)time.tv_nsec;
}

static void *private_memory(int64_t bytes) {
  void *memory =
      mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) exit(1);
  return memory;
}

static void *run_rank(void *arg) {
  const rank_t *rank = arg;
  const bench_t *bench = rank->bench;
  ptc_comm_t *comm = rank->comm;
  const clockid_t clock = getenv("COMM_BENCH_CPU") ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  float *in = private_memory(bench->bytes), *out = private_memory(bench->bytes);
  const int64_t count = bench->bytes / 4;
  for (int64_t i = 0; i < count; i++) in[i] = (float)(i % 1000 + comm->rank), out[i] = 0;
  ptc_collective_part_t part = {{1, bench->bytes, bench->bytes}, {1, bench->bytes, bench->bytes}};
  const ptc_collective_t all_reduce = {
      .kind = PTC_COLLECTIVE_ALL_REDUCE, .dtype = PTC_F32, .num_parts = 1, .parts = &part};
  void *const args[2] = {in, out};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  for (int i = 0; i < bench->num_repetitions; i++) {
    if (ptc_comm_barrier(comm, &diag, PTC_COMM_WORLD) != PTC_OK) exit(1);
    const double start = now_ms(clock);
    if (ptc_comm_collective(comm, &diag, PTC_COMM_WORLD, &all_reduce, args) != PTC_OK) exit(1);
    bench->times[comm->rank * bench->num_repetitions + i] = now_ms(clock) - start;
  }
  const float each = (float)(comm->world * (comm->world - 1) / 2);
  for (int64_t i = 0; i < count; i++)
    if (out[i] != (float)(i % 1000 * comm->world) + each) exit(2);
  ptc_comm_close(comm);
  ptc_diag_deinit(&diag);
  return NULL;
}

static void run_threads(const bench_t *bench, int32_t world) {
  ptc_comm_t *comms[MAX_RANKS];
  rank_t ranks[MAX_RANKS];
  pthread_t threads[MAX_RANKS];
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  if (ptc_comm_open_threads(&diag, world, comms) != PTC_OK) exit(1);
  for (int32_t r = 0; r < world; r++) {
    ranks[r] = (rank_t){bench, comms[r]};
    if (pthread_create(&threads[r], NULL, run_rank, &ranks[r]) != 0) exit(1);
  }
  for (int32_t r = 0; r < world; r++) pthread_join(threads[r], NULL);
  ptc_diag_deinit(&diag);
}

static void run_processes(const bench_t *bench, int32_t world) {
  char name[32];
  snprintf(name, sizeof name, "bench-%d", (int)getpid());
  for (int32_t r = 0; r < world; r++) {
    if (fork() != 0) continue;
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    rank_t rank = {.bench = bench};
    if (ptc_comm_open_process(&diag, name, r, world, 60, &rank.comm) != PTC_OK) _exit(1);
    run_rank(&rank);
    _exit(0);
  }
  for (int32_t r = 0; r < world; r++) {
    int status;
    wait(&status);
    if (status != 0) exit(1);
  }
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  const int32_t world = atoi(argv[2]);
  bench_t bench = {.bytes = atoll(argv[3]) / 4 * 4, .num_repetitions = atoi(argv[4])};
  if (world < 1 || world > MAX_RANKS || bench.num_repetitions < 1) return 2;
  const size_t room = (size_t)(world * bench.num_repetitions) * sizeof(double);
  bench.times = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (strcmp(argv[1], "threads") == 0)
    run_threads(&bench, world);
  else
    run_processes(&bench, world);
  for (int i = 0; i < bench.num_repetitions; i++) {
    double slowest = 0;
    for (int32_t r = 0; r < world; r++) {
      const double time = bench.times[r * bench.num_repetitions + i];
      slowest = time > slowest ? time : slowest;
    }
    printf("%.4f\n", slowest);
  }
  return 0;
}
