#include "runtime/gpusim/launch.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/gpusim/block_impl.h"

enum { MAX_HOST_THREADS = 64 };

void sim_counters_add(sim_counters_t *to, const sim_counters_t *from) {
  int64_t *sum = (int64_t *)to;
  const int64_t *part = (const int64_t *)from;
  for (size_t i = 0; i < sizeof *to / sizeof *sum; ++i) sum[i] += part[i];
}

// --- a pool of threads that run one function together

struct sim_pool_s {
  pthread_t threads[MAX_HOST_THREADS];
  int32_t num_threads;  // besides the caller
  pthread_mutex_t lock;
  pthread_cond_t begin, done;
  int64_t round;
  int32_t running;
  bool quit;
  void (*work)(void *arg);
  void *arg;
};

static void *serve(void *arg) {
  sim_pool_t *pool = arg;
  int64_t round = 0;
  pthread_mutex_lock(&pool->lock);
  for (;;) {
    while (pool->round == round && !pool->quit) pthread_cond_wait(&pool->begin, &pool->lock);
    if (pool->quit) break;
    round = pool->round;
    pthread_mutex_unlock(&pool->lock);
    pool->work(pool->arg);
    pthread_mutex_lock(&pool->lock);
    if (--pool->running == 0) pthread_cond_signal(&pool->done);
  }
  pthread_mutex_unlock(&pool->lock);
  return NULL;
}

sim_pool_t *sim_pool_create(int32_t num_threads) {
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  int32_t count = num_threads > 0 ? num_threads : (int32_t)(cores > 0 ? cores : 1);
  if (count > MAX_HOST_THREADS) count = MAX_HOST_THREADS;
  sim_pool_t *pool = ptc_xmalloc(sizeof *pool);
  *pool = (sim_pool_t){.lock = PTHREAD_MUTEX_INITIALIZER,
                       .begin = PTHREAD_COND_INITIALIZER,
                       .done = PTHREAD_COND_INITIALIZER};
  while (pool->num_threads < count - 1 &&
         pthread_create(&pool->threads[pool->num_threads], NULL, serve, pool) == 0)
    ++pool->num_threads;
  return pool;
}

void sim_pool_destroy(sim_pool_t *pool) {
  if (!pool) return;
  pthread_mutex_lock(&pool->lock);
  pool->quit = true;
  pthread_cond_broadcast(&pool->begin);
  pthread_mutex_unlock(&pool->lock);
  for (int32_t t = 0; t < pool->num_threads; ++t) pthread_join(pool->threads[t], NULL);
  free(pool);
}

// Runs |work| on all threads of the pool, the caller's too, and waits for them.
static void run_on_all(sim_pool_t *pool, void (*work)(void *arg), void *arg) {
  pthread_mutex_lock(&pool->lock);
  pool->work = work;
  pool->arg = arg;
  pool->running = pool->num_threads;
  ++pool->round;
  pthread_cond_broadcast(&pool->begin);
  pthread_mutex_unlock(&pool->lock);
  work(arg);
  pthread_mutex_lock(&pool->lock);
  while (pool->running) pthread_cond_wait(&pool->done, &pool->lock);
  pthread_mutex_unlock(&pool->lock);
}

// --- a launch

typedef struct grid_s {
  const sim_launch_t *launch;
  sim_result_t *result;
  int64_t num_blocks;
  atomic_llong next;
  atomic_int stop;
  pthread_mutex_t lock;  // of |result|
} grid_t;

static void run_blocks(void *arg) {
  grid_t *grid = arg;
  sim_block_t *block = NULL;
  for (;;) {
    const int64_t b = atomic_fetch_add(&grid->next, 1);
    if (b >= grid->num_blocks || atomic_load(&grid->stop)) break;
    if (!block) block = sim_block_create(grid->launch);
    const uint32_t *size = grid->launch->grid;
    const uint32_t id[3] = {(uint32_t)(b % size[0]), (uint32_t)(b / size[0] % size[1]),
                            (uint32_t)(b / size[0] / size[1])};
    sim_block_run(block, id);
    if (block->fault) atomic_store(&grid->stop, 1);
    if (block->fault) break;
  }
  if (!block) return;
  pthread_mutex_lock(&grid->lock);
  if (block->fault && !grid->result->fault) {
    grid->result->fault = block->fault;
    ptc_str_append(&grid->result->report, block->report.data);
  }
  sim_block_collect(block, &grid->result->counters);
  pthread_mutex_unlock(&grid->lock);
  sim_block_destroy(block);
}

// Whether the launch's shape is possible.
static bool check_shape(const sim_launch_t *launch, sim_result_t *result) {
  const sim_program_t *program = launch->program;
  const int64_t threads = (int64_t)launch->block[0] * launch->block[1] * launch->block[2];
  const int64_t blocks = (int64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
  const int64_t most = program->max_threads ? program->max_threads : SIM_MAX_THREADS;
  enum { MAX_SHARED = 163 * 1024 };  // of compute capability 8.0
  const int64_t shared = program->shared_bytes + launch->dynamic_bytes;
  if (threads >= 1 && threads <= most && blocks >= 1 && shared <= MAX_SHARED) return true;
  result->fault = SIM_FAULT_LAUNCH;
  ptc_str_printf(&result->report,
                 "kernel \"%s\" cannot be launched with %" PRId64 " blocks of %" PRId64
                 " threads (at most %" PRId64 ") and %" PRId64 " bytes of shared memory",
                 program->name, blocks, threads, most, shared);
  return false;
}

void sim_launch(sim_pool_t *pool, const sim_launch_t *launch, sim_result_t *out_result) {
  *out_result = (sim_result_t){0};
  if (!check_shape(launch, out_result)) return;
  grid_t grid = {.launch = launch,
                 .result = out_result,
                 .num_blocks = (int64_t)launch->grid[0] * launch->grid[1] * launch->grid[2],
                 .lock = PTHREAD_MUTEX_INITIALIZER};
  out_result->counters.launches = 1;
  if (grid.num_blocks == 1)
    run_blocks(&grid);
  else
    run_on_all(pool, run_blocks, &grid);
}
