// The pool. One 64-bit word, the ticket, holds what is to be done: the number of the phase (any phase of any
// launch) and how many of its tiles nobody has taken. A thread takes a tile by counting the ticket down,
// which succeeds only while that phase is the current one. The phase is done when every tile is, not when
// every thread has arrived: a thread that the system has put aside holds up nobody unless it holds a tile.
// Whoever finishes a phase's last tile publishes the next phase.
#include "runtime/cpu/thread_pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

#include "runtime/cpu/cores.h"

enum {
  CACHE_LINE = 64,
  SPINS_ALONE =
      4000,  // pauses before sleeping, about 50 us: longer than most gaps between launches
  SPINS_CROWDED = 50,  // where there are more threads than cores
};

// The launch and the phase that the ticket speaks of. Written by the one thread that publishes a phase
// before it writes the ticket; read only by threads that hold a tile of it.
typedef struct launch_s {
  const ptc_phase_run_t *runs;
  int32_t num_runs;
  ptc_tile_fn_t fn;
  void *arg;
  int32_t run, phase_in_run;  // where we are
  int64_t repetition, phase, num_tiles;
} launch_t;

// Where threads sleep until there is news.
typedef struct bed_s {
  pthread_cond_t wake;
  _Atomic int32_t num_sleeping;
} bed_t;

struct ptc_thread_pool_s {
  _Alignas(CACHE_LINE) _Atomic uint64_t ticket;  // phase number << 32 | tiles that nobody has taken
  _Alignas(CACHE_LINE) _Atomic int64_t pending;  // tiles that are not done
  _Alignas(CACHE_LINE) _Atomic uint64_t num_done;  // launches
  _Atomic bool stop;
  launch_t launch;
  int32_t num_threads, num_started, num_spins;
  pthread_mutex_t mutex;
  bed_t workers, caller;
  pthread_t threads[PTC_MAX_THREADS];
};

typedef struct worker_arg_s {
  ptc_thread_pool_t *pool;
  int32_t thread;
} worker_arg_t;

static void pause_core(void) {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static uint32_t tiles_left(uint64_t ticket) { return (uint32_t)ticket; }

static void wake(ptc_thread_pool_t *pool, bed_t *bed) {
  // Pairs with the increment in wait_for_news: either we see the sleeper, or it sees what we published.
  if (atomic_load(&bed->num_sleeping) == 0) return;
  pthread_mutex_lock(&pool->mutex);
  pthread_cond_broadcast(&bed->wake);
  pthread_mutex_unlock(&pool->mutex);
}

// Moves |launch| to its next phase that has tiles; false if there is none. The phase itself is counted even
// where it is empty.
static bool next_phase(launch_t *launch) {
  for (;;) {
    const ptc_phase_run_t *run = &launch->runs[launch->run];
    launch->phase++;
    if (++launch->phase_in_run == run->num_phases) {
      launch->phase_in_run = 0;
      if (++launch->repetition == run->count) {
        launch->repetition = 0;
        do {
          if (++launch->run == launch->num_runs) return false;
          run = &launch->runs[launch->run];
        } while (run->count == 0 || run->num_phases == 0);
      }
    }
    launch->num_tiles = run->tiles[launch->phase_in_run];
    if (launch->num_tiles > 0) return true;
  }
}

// Puts |launch| on its first phase that has tiles; false if there is none.
static bool first_phase(launch_t *launch) {
  while (launch->run < launch->num_runs &&
         (launch->runs[launch->run].count == 0 || launch->runs[launch->run].num_phases == 0))
    launch->run++;
  if (launch->run == launch->num_runs) return false;
  launch->num_tiles = launch->runs[launch->run].tiles[0];
  return launch->num_tiles > 0 || next_phase(launch);
}

static void publish(ptc_thread_pool_t *pool) {
  const int64_t num_tiles = pool->launch.num_tiles;
  atomic_store_explicit(&pool->pending, num_tiles, memory_order_relaxed);
  const uint64_t number = (atomic_load_explicit(&pool->ticket, memory_order_relaxed) >> 32) + 1;
  atomic_store(&pool->ticket, number << 32 | (uint32_t)num_tiles);
  if (num_tiles == 1) return;  // whoever is awake does it
  wake(pool, &pool->workers);
  wake(pool, &pool->caller);
}

// Does tiles of the current phase, and of those that follow at once, until none is left to take. Returns
// the ticket in which it found none.
static uint64_t work(ptc_thread_pool_t *pool, int32_t thread) {
  uint64_t ticket = atomic_load(&pool->ticket);
  int64_t num_mine = 0;
  for (;;) {
    if (tiles_left(ticket) > 0) {
      if (!atomic_compare_exchange_weak(&pool->ticket, &ticket, ticket - 1)) continue;
      // We hold a tile, so the phase cannot end and the launch stands still.
      const launch_t *launch = &pool->launch;
      launch->fn(launch->arg, thread, launch->phase, launch->num_tiles - tiles_left(ticket));
      num_mine++;
      ticket = atomic_load(&pool->ticket);
      continue;
    }
    if (num_mine == 0) return ticket;
    if (atomic_fetch_sub(&pool->pending, num_mine) != num_mine) {
      num_mine = 0;
      continue;
    }
    // The last tiles of the phase were ours.
    num_mine = 0;
    if (next_phase(&pool->launch)) {
      publish(pool);
    } else {
      atomic_fetch_add(&pool->num_done, 1);
      wake(pool, &pool->caller);
    }
    ticket = atomic_load(&pool->ticket);
  }
}

// Waits until the ticket is no longer |ticket|, launch number |launch| is done, or the pool stops.
static void wait_for_news(ptc_thread_pool_t *pool, bed_t *bed, uint64_t ticket, uint64_t launch) {
  for (int32_t i = 0; i < pool->num_spins; i++) {
    if (atomic_load(&pool->ticket) != ticket || atomic_load(&pool->num_done) >= launch ||
        atomic_load(&pool->stop))
      return;
    pause_core();
  }
  pthread_mutex_lock(&pool->mutex);
  atomic_fetch_add(&bed->num_sleeping, 1);
  while (atomic_load(&pool->ticket) == ticket && atomic_load(&pool->num_done) < launch &&
         !atomic_load(&pool->stop))
    pthread_cond_wait(&bed->wake, &pool->mutex);
  atomic_fetch_sub(&bed->num_sleeping, 1);
  pthread_mutex_unlock(&pool->mutex);
}

static void *worker_main(void *raw) {
  const worker_arg_t arg = *(worker_arg_t *)raw;
  free(raw);
  while (!atomic_load(&arg.pool->stop)) {
    const uint64_t ticket = work(arg.pool, arg.thread);
    wait_for_news(arg.pool, &arg.pool->workers, ticket, UINT64_MAX);
  }
  return NULL;
}

// Runs everything on the calling thread.
static void run_alone(launch_t *launch) {
  if (!first_phase(launch)) return;
  do {
    for (int64_t tile = 0; tile < launch->num_tiles; tile++)
      launch->fn(launch->arg, 0, launch->phase, tile);
  } while (next_phase(launch));
}

// Whether no phase has two tiles: then the others need not be disturbed.
static bool is_sequential(const ptc_phase_run_t *runs, int32_t num_runs) {
  for (int32_t r = 0; r < num_runs; r++)
    for (int32_t p = 0; p < runs[r].num_phases; p++)
      if (runs[r].tiles[p] > 1) return false;
  return true;
}

void ptc_thread_pool_run(ptc_thread_pool_t *pool, const ptc_phase_run_t *runs, int32_t num_runs,
                         ptc_tile_fn_t fn, void *arg) {
  launch_t launch = {.runs = runs, .num_runs = num_runs, .fn = fn, .arg = arg};
  if (pool->num_threads == 1 || is_sequential(runs, num_runs)) {
    run_alone(&launch);
    return;
  }
  if (!first_phase(&launch)) return;
  const uint64_t number = atomic_load(&pool->num_done) + 1;
  pool->launch = launch;
  publish(pool);
  for (;;) {
    const uint64_t ticket = work(pool, 0);
    if (atomic_load(&pool->num_done) >= number) return;
    wait_for_news(pool, &pool->caller, ticket, number);
  }
}

static ptc_status_t start_thread(ptc_diag_t *diag, ptc_thread_pool_t *pool, int32_t thread) {
  worker_arg_t *arg = ptc_xmalloc(sizeof *arg);
  *arg = (worker_arg_t){pool, thread};
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int failed = pthread_create(&pool->threads[thread - 1], NULL, worker_main, arg);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!failed) {
    pool->num_started++;
    return PTC_OK;
  }
  free(arg);
  return ptc_error(diag, (ptc_loc_t){0}, PTC_DEVICE, "thread-start",
                   "cannot start thread %d of %d: %s; --threads takes fewer", thread + 1,
                   pool->num_threads, strerror(failed));
}

ptc_status_t ptc_thread_pool_create(ptc_diag_t *diag, int32_t num_threads,
                                    ptc_thread_pool_t **out_pool) {
  *out_pool = NULL;
  const int32_t num_cores = ptc_num_cores();
  if (num_threads <= 0) num_threads = num_cores;
  if (num_threads > PTC_MAX_THREADS) num_threads = PTC_MAX_THREADS;
  ptc_thread_pool_t *pool = aligned_alloc(CACHE_LINE, sizeof *pool);
  if (!pool) ptc_oom(sizeof *pool);
  memset(pool, 0, sizeof *pool);
  pool->num_threads = num_threads;
  pool->num_spins = num_threads > num_cores ? SPINS_CROWDED : SPINS_ALONE;
  pthread_mutex_init(&pool->mutex, NULL);
  pthread_cond_init(&pool->workers.wake, NULL);
  pthread_cond_init(&pool->caller.wake, NULL);
  ptc_status_t status = PTC_OK;
  for (int32_t i = 1; i < num_threads && status == PTC_OK; i++)
    status = start_thread(diag, pool, i);
  if (status == PTC_OK)
    *out_pool = pool;
  else
    ptc_thread_pool_destroy(pool);
  return status;
}

void ptc_thread_pool_destroy(ptc_thread_pool_t *pool) {
  if (!pool) return;
  atomic_store(&pool->stop, true);
  wake(pool, &pool->workers);
  for (int32_t i = 0; i < pool->num_started; i++) pthread_join(pool->threads[i], NULL);
  pthread_cond_destroy(&pool->workers.wake);
  pthread_cond_destroy(&pool->caller.wake);
  pthread_mutex_destroy(&pool->mutex);
  free(pool);
}

int32_t ptc_thread_pool_size(const ptc_thread_pool_t *pool) { return pool->num_threads; }
