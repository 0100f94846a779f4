#include "runtime/measure.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <time.h>

#include "runtime/communicator.h"
#include "runtime/cpu/cores.h"
#include "runtime/cpu/memory_map.h"
#include "runtime/cpu/thread_pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static double seconds_of(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double least(double a, double b) { return a < b ? a : b; }
static double most(double a, double b) { return a > b ? a : b; }

// --- multiply-adds

enum { CHAINS = 12, ROUNDS = 20000 };

// Sums that do not depend on one another, in registers. Each returns what keeps the compiler honest.
#define DEFINE_FMA(name, isa, vec, set, madd, store, lanes)               \
  __attribute__((target(isa))) static float name(float start) {           \
    vec sums[CHAINS];                                                     \
    for (int i = 0; i < CHAINS; i++) sums[i] = set(start + (float)i);     \
    const vec factor = set(.999f), term = set(.001f * start);             \
    for (int r = 0; r < ROUNDS; r++)                                      \
      _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) sums[i] = \
          madd(sums[i], factor, term);                                    \
    float out[lanes], total = 0;                                          \
    for (int i = 0; i < CHAINS; i++) {                                    \
      store(out, sums[i]);                                                \
      for (int l = 0; l < (lanes); l++) total += out[l];                  \
    }                                                                     \
    return total;                                                         \
  }

#if defined(__x86_64__)
DEFINE_FMA(fma_wide, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_storeu_ps, 16)
DEFINE_FMA(fma_middle, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_storeu_ps, 8)
#endif

static float fma_plain(float start) {
  typedef float vec_t __attribute__((vector_size(16)));
  vec_t sums[CHAINS];
  for (int i = 0; i < CHAINS; i++) sums[i] = (vec_t){start, start, start, start} + (float)i;
  for (int r = 0; r < ROUNDS; r++)
    for (int i = 0; i < CHAINS; i++) sums[i] = sums[i] * .999f + .001f;
  float total = 0;
  for (int i = 0; i < CHAINS; i++)
    for (int l = 0; l < 4; l++) total += sums[i][l];
  return total;
}

// In the thread's own time, so that other work hardly counts.
static double fma_flops(void) {
  float (*run)(float) = fma_plain;
  int lanes = 4;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) run = fma_middle, lanes = 8;
  if (__builtin_cpu_supports("avx512f")) run = fma_wide, lanes = 16;
#endif
  double best = 1;
  float sink = 1;
  for (int turn = 0; turn < 100; turn++) {
    const double start = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    sink = run(1 + sink * 1e-12f);
    best = least(best, seconds_of(CLOCK_THREAD_CPUTIME_ID) - start);
  }
  // |sink| is finite, so this adds nothing.
  return 2. * lanes * CHAINS * ROUNDS / (best + (sink != sink ? 1 : 0));
}

// --- memory

enum { STREAM_FLOATS = 1 << 24, PARTS = 8 };

typedef struct stream_s {
  float *a;
  const float *b, *c;
  int64_t part;
} stream_t;

static void triad(void *arg, int32_t thread, int64_t phase, int64_t tile) {
  const stream_t *stream = arg;
  const int64_t at = tile * stream->part;
  float *restrict a = stream->a + at;
  const float *restrict b = stream->b + at, *restrict c = stream->c + at;
  (void)thread, (void)phase;
  for (int64_t i = 0; i < stream->part; i++) a[i] = b[i] + .5f * c[i];
}

// Wall time, since memory is shared: the best of short turns, of which some are not disturbed.
static double stream_rate(ptc_thread_pool_t *pool, float *arrays) {
  const int32_t threads = ptc_thread_pool_size(pool);
  const int64_t part = STREAM_FLOATS / ((int64_t)threads * PARTS);
  double best = 0;
  for (int turn = 0; turn < 40; turn++) {
    const int64_t offset = turn % PARTS * part * threads;
    stream_t stream = {arrays + offset, arrays + STREAM_FLOATS + offset,
                       arrays + 2 * (int64_t)STREAM_FLOATS + offset, part};
    const int64_t tiles = threads;
    const ptc_phase_run_t run = {.count = 1, .num_phases = 1, .tiles = &tiles};
    const double start = seconds_of(CLOCK_MONOTONIC);
    ptc_thread_pool_run(pool, &run, 1, triad, &stream);
    const double time = seconds_of(CLOCK_MONOTONIC) - start;
    // The first turns meet pages that are not there yet.
    if (turn >= PARTS) best = most(best, 12. * (double)(part * threads) / time);
  }
  return best;
}

static void nothing(void *arg, int32_t thread, int64_t phase, int64_t tile) {
  (void)arg, (void)thread, (void)phase, (void)tile;
}

// A launch of one tile per thread, in a row of them as a plan makes it.
static double launch_seconds(ptc_thread_pool_t *pool) {
  enum { LAUNCHES = 50 };
  const int64_t tiles = ptc_thread_pool_size(pool);
  const ptc_phase_run_t run = {.count = 1, .num_phases = 1, .tiles = &tiles};
  double best = 1;
  for (int turn = 0; turn < 200; turn++) {
    const double start = seconds_of(CLOCK_MONOTONIC);
    for (int i = 0; i < LAUNCHES; i++) ptc_thread_pool_run(pool, &run, 1, nothing, NULL);
    best = least(best, (seconds_of(CLOCK_MONOTONIC) - start) / LAUNCHES);
  }
  return best;
}

// --- two ranks

enum { COMM_RANKS = 2, COMM_BYTES = 4 << 20, COMM_SMALL = 64, COMM_TURNS = 30 };

typedef struct rank_s {
  ptc_comm_t *comm;
  char *in, *out;
  double large_s, small_s;
  ptc_status_t status;
} rank_t;

static void *run_rank(void *arg) {
  rank_t *rank = arg;
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  rank->large_s = rank->small_s = 1;
  memset(rank->in, 0, COMM_BYTES);
  memset(rank->out, 0, COMM_BYTES);
  for (int turn = 0; turn < 8 * COMM_TURNS && rank->status == PTC_OK; turn++) {
    const bool large = turn % 8 == 0;
    const int64_t bytes = large ? COMM_BYTES : COMM_SMALL;
    ptc_collective_part_t part = {{1, bytes, bytes}, {1, bytes, bytes}};
    const ptc_collective_t all_reduce = {
        .kind = PTC_COLLECTIVE_ALL_REDUCE, .dtype = PTC_F32, .num_parts = 1, .parts = &part};
    void *const args[2] = {rank->in, rank->out};
    rank->status = ptc_comm_barrier(rank->comm, &diag, PTC_COMM_WORLD);
    if (rank->status != PTC_OK) break;
    // Copying and adding take the thread's own time; meeting the other one does not.
    const clockid_t clock = large ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    const double start = seconds_of(clock);
    rank->status = ptc_comm_collective(rank->comm, &diag, PTC_COMM_WORLD, &all_reduce, args);
    const double time = seconds_of(clock) - start;
    double *best = large ? &rank->large_s : &rank->small_s;
    *best = least(*best, time);
  }
  ptc_comm_close(rank->comm);
  ptc_diag_deinit(&diag);
  return NULL;
}

static ptc_status_t measure_ranks(ptc_diag_t *diag, char *memory, ptc_machine_t *machine) {
  ptc_comm_t *comms[COMM_RANKS];
  pthread_t threads[COMM_RANKS];
  rank_t ranks[COMM_RANKS];
  ptc_status_t status = ptc_comm_open_threads(diag, COMM_RANKS, comms);
  if (status != PTC_OK) return status;
  bool started[COMM_RANKS] = {false};
  for (int r = 0; r < COMM_RANKS; r++) {
    ranks[r] = (rank_t){.comm = comms[r],
                        .in = memory + 2 * r * (int64_t)COMM_BYTES,
                        .out = memory + (2 * r + 1) * (int64_t)COMM_BYTES};
    started[r] = pthread_create(&threads[r], NULL, run_rank, &ranks[r]) == 0;
    if (!started[r]) {
      ptc_comm_abort(comms[r], "no thread");
      ptc_comm_close(comms[r]);
      status = ptc_error(diag, (ptc_loc_t){0}, PTC_DEVICE, "thread-start",
                         "the system gives no thread for a rank");
    }
  }
  for (int r = 0; r < COMM_RANKS; r++) {
    if (started[r]) pthread_join(threads[r], NULL);
    if (started[r] && status == PTC_OK) status = ranks[r].status;
  }
  machine->comm_latency_s = most(ranks[0].small_s, ranks[1].small_s);
  machine->comm_rate = COMM_BYTES / most(most(ranks[0].large_s, ranks[1].large_s), 1e-9);
  return status;
}

// --- all

double ptc_machine_memory(void) {
  static const char *const limits[] = {"/sys/fs/cgroup/memory.max",
                                       "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
  struct sysinfo info;
  if (sysinfo(&info) != 0) return 0;
  double bytes = (double)info.totalram * info.mem_unit;
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    double limit;
    FILE *file = fopen(limits[i], "r");
    if (file && fscanf(file, "%lf", &limit) == 1 && limit > 0 && limit < bytes) bytes = limit;
    if (file) fclose(file);
  }
  return bytes;
}

ptc_status_t ptc_machine_measure(ptc_diag_t *diag, ptc_machine_t *out_machine) {
  ptc_machine_t machine = {.cores = ptc_num_cores(), .memory_bytes = ptc_machine_memory()};
  const int64_t bytes = 3 * (int64_t)STREAM_FLOATS * (int64_t)sizeof(float);
  void *memory = NULL;
  ptc_status_t status = ptc_memory_map(diag, bytes, &memory);
  if (status != PTC_OK) return status;
  ptc_memory_populate(memory, bytes);
  machine.fma_flops = fma_flops();
  for (int all = 0; all < 2 && status == PTC_OK; all++) {
    ptc_thread_pool_t *pool;
    status = ptc_thread_pool_create(diag, all ? machine.cores : 1, &pool);
    if (status != PTC_OK) break;
    *(all ? &machine.stream_all : &machine.stream_one) = stream_rate(pool, memory);
    if (all) machine.launch_s = launch_seconds(pool);
    ptc_thread_pool_destroy(pool);
  }
  if (status == PTC_OK) status = measure_ranks(diag, memory, &machine);
  ptc_memory_unmap(memory, bytes);
  if (status == PTC_OK) *out_machine = machine;
  return status;
}
