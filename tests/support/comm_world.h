// Runs the same function on every rank of a world, ranks being threads or processes.
#ifndef PTC_TESTS_SUPPORT_COMM_WORLD_H_
#define PTC_TESTS_SUPPORT_COMM_WORLD_H_

#include "runtime/communicator.h"

// How many things were wrong on this rank.
typedef int64_t (*comm_rank_fn_t)(ptc_comm_t *comm, ptc_diag_t *diag, void *arg);

enum { COMM_THREADS, COMM_PROCESSES, COMM_KINDS, COMM_MAX_WORLD = 8 };
extern const char *const comm_kind_names[COMM_KINDS];

// The sum over ranks; -1 of a rank that died. |fn| closes nothing. Processes share |arg| as it was at the start.
int64_t comm_world_run(int kind, int32_t world, comm_rank_fn_t fn, void *arg);
// The same; what each rank gave.
void comm_world_run_each(int kind, int32_t world, comm_rank_fn_t fn, void *arg,
                         int64_t *out_results);

#endif  // PTC_TESTS_SUPPORT_COMM_WORLD_H_
