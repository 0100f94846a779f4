// Threads that run the tiles of a kernel launch: a launch is runs of phases, a phase is tiles that are
// independent of each other, and a phase begins when every tile of the one before is done.
#ifndef PTC_RUNTIME_CPU_THREAD_POOL_H_
#define PTC_RUNTIME_CPU_THREAD_POOL_H_

#include "ir/base/diag.h"
#include "ir/plan.h"

enum { PTC_MAX_THREADS = 1024 };

typedef struct ptc_thread_pool_s ptc_thread_pool_t;

// Runs tile |tile| of phase |phase| on thread |thread|. Phases are numbered through all runs of the launch
// and all their repetitions: phase p of repetition c of the first run is c * num_phases + p.
typedef void (*ptc_tile_fn_t)(void *arg, int32_t thread, int64_t phase, int64_t tile);

// A pool of |num_threads| threads (0: ptc_num_cores), the caller's among them, so 1 starts no thread. The
// others leave all signals to the caller's. PTC_DEVICE with a diagnostic ("thread-start") if the system
// gives no more threads.
ptc_status_t ptc_thread_pool_create(ptc_diag_t *diag, int32_t num_threads,
                                    ptc_thread_pool_t **out_pool);
void ptc_thread_pool_destroy(ptc_thread_pool_t *pool);  // NULL is allowed
int32_t ptc_thread_pool_size(const ptc_thread_pool_t *pool);

// Runs all phases of |runs|; returns when the last tile is done. The caller works, too, as thread 0. Tiles
// go to whichever thread is free, so their results must not depend on that. One launch at a time. Does not
// allocate.
void ptc_thread_pool_run(ptc_thread_pool_t *pool, const ptc_phase_run_t *runs, int32_t num_runs,
                         ptc_tile_fn_t fn, void *arg);

#endif  // PTC_RUNTIME_CPU_THREAD_POOL_H_
