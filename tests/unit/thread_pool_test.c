// Proves: the thread pool runs every tile of every phase once, phases in order, with any number of threads,
// also more than there are cores, and after pauses in which its threads fell asleep.
#include "runtime/cpu/thread_pool.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/cpu/cores.h"
#include "tests/support/unit.h"

enum { MAX_PHASES = 4096, MAX_RUNS = 5, MAX_IN_RUN = 4 };

typedef struct probe_s {
  int64_t num_tiles[MAX_PHASES];  // of each phase, expected
  _Atomic int64_t count[MAX_PHASES];
  _Atomic int64_t sum[MAX_PHASES];  // of tile + 1
  int64_t num_phases;
  int32_t num_threads;
  _Atomic int64_t num_early, num_strange;  // tiles before their phase; tiles that do not exist
} probe_t;

static void probe_tile(void *arg, int32_t thread, int64_t phase, int64_t tile) {
  probe_t *probe = arg;
  if (thread < 0 || thread >= probe->num_threads || phase < 0 || phase >= probe->num_phases ||
      tile < 0 || tile >= probe->num_tiles[phase]) {
    atomic_fetch_add(&probe->num_strange, 1);
    return;
  }
  for (int64_t p = phase - 1; p >= 0 && p >= phase - 3; p--)
    if (atomic_load_explicit(&probe->count[p], memory_order_relaxed) != probe->num_tiles[p])
      atomic_fetch_add(&probe->num_early, 1);
  atomic_fetch_add_explicit(&probe->sum[phase], tile + 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&probe->count[phase], 1, memory_order_relaxed);
}

// Random runs of phases, also empty ones; what they must do in |probe|.
static int32_t make_runs(uint64_t *state, ptc_phase_run_t *runs,
                         int64_t tiles[MAX_RUNS][MAX_IN_RUN], probe_t *probe) {
  const int32_t num_runs = 1 + (int32_t)(unit_random(state) % MAX_RUNS);
  for (int32_t r = 0; r < num_runs; r++) {
    const int32_t num_phases = 1 + (int32_t)(unit_random(state) % MAX_IN_RUN);
    for (int32_t p = 0; p < num_phases; p++) {
      static const int64_t sizes[] = {0, 1, 1, 2, 3, 17};
      tiles[r][p] = sizes[unit_random(state) % 6];
    }
    runs[r] = (ptc_phase_run_t){(int64_t)(unit_random(state) % 40), num_phases, tiles[r]};
    for (int64_t c = 0; c < runs[r].count; c++)
      for (int32_t p = 0; p < num_phases; p++) probe->num_tiles[probe->num_phases++] = tiles[r][p];
  }
  return num_runs;
}

static void run_random(ptc_thread_pool_t *pool, uint64_t *state) {
  probe_t *probe = calloc(1, sizeof *probe);
  ptc_phase_run_t runs[MAX_RUNS];
  int64_t tiles[MAX_RUNS][MAX_IN_RUN];
  probe->num_threads = ptc_thread_pool_size(pool);
  const int32_t num_runs = make_runs(state, runs, tiles, probe);
  ptc_thread_pool_run(pool, runs, num_runs, probe_tile, probe);
  CU_ASSERT_EQUAL(atomic_load(&probe->num_strange), 0);
  CU_ASSERT_EQUAL(atomic_load(&probe->num_early), 0);
  int64_t num_wrong = 0;
  for (int64_t p = 0; p < probe->num_phases; p++) {
    const int64_t n = probe->num_tiles[p];
    num_wrong += atomic_load(&probe->count[p]) != n;
    num_wrong += atomic_load(&probe->sum[p]) != n * (n + 1) / 2;
  }
  CU_ASSERT_EQUAL(num_wrong, 0);
  free(probe);
}

static void test_random(void) {
  static const int32_t sizes[] = {1, 2, 3, 5, 16};
  uint64_t state = unit_seed();
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    ptc_thread_pool_t *pool;
    CU_ASSERT_EQUAL_FATAL(ptc_thread_pool_create(&diag, sizes[i], &pool), PTC_OK);
    CU_ASSERT_EQUAL(ptc_thread_pool_size(pool), sizes[i]);
    for (int launch = 0; launch < 40; launch++) {
      run_random(pool, &state);
      // Long enough for the others to fall asleep.
      if (launch % 8 == 0) nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    ptc_thread_pool_destroy(pool);
  }
  ptc_diag_deinit(&diag);
}

// One launch after the other: the second reads what the first wrote, without atomics.
static void add_tile(void *arg, int32_t thread, int64_t phase, int64_t tile) {
  (void)thread;
  int64_t *cells = arg;
  const int64_t other = phase % 2 == 0 ? 64 - 1 - tile : tile;
  cells[64 * ((phase + 1) % 2) + tile] = cells[64 * (phase % 2) + other] + 1;
}

static void test_memory(void) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_thread_pool_t *pool;
  CU_ASSERT_EQUAL_FATAL(ptc_thread_pool_create(&diag, 4, &pool), PTC_OK);
  int64_t cells[128] = {0};
  const int64_t tiles[2] = {64, 64};
  const ptc_phase_run_t run = {50, 2, tiles};
  for (int launch = 0; launch < 20; launch++) ptc_thread_pool_run(pool, &run, 1, add_tile, cells);
  int64_t num_wrong = 0;
  for (int i = 0; i < 64; i++) num_wrong += cells[i] != 20 * 100;
  CU_ASSERT_EQUAL(num_wrong, 0);
  ptc_thread_pool_destroy(pool);
  ptc_diag_deinit(&diag);
}

static void test_cores(void) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_thread_pool_t *pool;
  CU_ASSERT(ptc_num_cores() >= 1);
  CU_ASSERT_EQUAL(ptc_parse_cpu_max("max 100000\n"), 0);
  CU_ASSERT_EQUAL(ptc_parse_cpu_max("200000 100000\n"), 2);
  CU_ASSERT_EQUAL(ptc_parse_cpu_max("150000 100000\n"), 2);
  CU_ASSERT_EQUAL(ptc_parse_cpu_max("5000 100000\n"), 1);
  CU_ASSERT_EQUAL(ptc_parse_cpu_max("-1 0"), 0);
  CU_ASSERT_EQUAL(ptc_parse_cpu_max(""), 0);
  CU_ASSERT_EQUAL_FATAL(ptc_thread_pool_create(&diag, 0, &pool), PTC_OK);
  CU_ASSERT_EQUAL(ptc_thread_pool_size(pool), ptc_num_cores());
  ptc_thread_pool_run(pool, NULL, 0, add_tile, NULL);
  ptc_thread_pool_destroy(pool);
  ptc_thread_pool_destroy(NULL);
  ptc_diag_deinit(&diag);
}

static const unit_test_t tests[] = {
    {"random phases", test_random}, {"memory order", test_memory}, {"cores", test_cores}};
UNIT_MAIN("thread_pool", tests)
