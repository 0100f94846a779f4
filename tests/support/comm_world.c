#include "tests/support/comm_world.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/unit.h"

const char *const comm_kind_names[COMM_KINDS] = {"threads", "processes"};

enum { MOST_WRONG = 100 };  // what an exit status can tell

typedef struct rank_s {
  ptc_comm_t *comm;
  comm_rank_fn_t fn;
  void *arg;
  int64_t num_wrong;
} rank_t;

static void *run_rank(void *arg) {
  rank_t *rank = arg;
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  rank->num_wrong = rank->fn(rank->comm, &diag, rank->arg);
  if (rank->num_wrong != 0) ptc_diag_print(&diag, stdout, PTC_DIAG_TEXT, false);
  ptc_comm_close(rank->comm);
  ptc_diag_deinit(&diag);
  return NULL;
}

static void run_threads(int32_t world, comm_rank_fn_t fn, void *arg, int64_t *out_results) {
  ptc_comm_t *comms[COMM_MAX_WORLD];
  rank_t ranks[COMM_MAX_WORLD];
  pthread_t threads[COMM_MAX_WORLD];
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  CU_ASSERT_EQUAL_FATAL(ptc_comm_open_threads(&diag, world, comms), PTC_OK);
  ptc_diag_deinit(&diag);
  for (int32_t r = 0; r < world; r++) {
    ranks[r] = (rank_t){comms[r], fn, arg, 0};
    CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
  }
  for (int32_t r = 0; r < world; r++) {
    pthread_join(threads[r], NULL);
    out_results[r] = ranks[r].num_wrong;
  }
}

static int run_process(const char *name, int32_t r, int32_t world, comm_rank_fn_t fn, void *arg) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  rank_t rank = {.fn = fn, .arg = arg};
  if (ptc_comm_open_process(&diag, name, r, world, 60, &rank.comm) != PTC_OK) {
    ptc_diag_print(&diag, stdout, PTC_DIAG_TEXT, false);
    fflush(stdout);
    return MOST_WRONG;
  }
  ptc_diag_deinit(&diag);
  run_rank(&rank);
  fflush(stdout);
  return rank.num_wrong < MOST_WRONG ? (int)rank.num_wrong : MOST_WRONG;
}

static void run_processes(int32_t world, comm_rank_fn_t fn, void *arg, int64_t *out_results) {
  static int number;
  char name[64];
  snprintf(name, sizeof name, "test-%d-%d", (int)getpid(), number++);
  pid_t pids[COMM_MAX_WORLD];
  fflush(stdout);
  for (int32_t r = 0; r < world; r++) {
    pids[r] = fork();
    CU_ASSERT_FATAL(pids[r] >= 0);
    if (pids[r] == 0) _exit(run_process(name, r, world, fn, arg));
  }
  for (int32_t r = 0; r < world; r++) {
    int status;
    waitpid(pids[r], &status, 0);
    out_results[r] = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
}

void comm_world_run_each(int kind, int32_t world, comm_rank_fn_t fn, void *arg,
                         int64_t *out_results) {
  if (kind == COMM_THREADS)
    run_threads(world, fn, arg, out_results);
  else
    run_processes(world, fn, arg, out_results);
}

int64_t comm_world_run(int kind, int32_t world, comm_rank_fn_t fn, void *arg) {
  int64_t results[COMM_MAX_WORLD], sum = 0;
  comm_world_run_each(kind, world, fn, arg, results);
  for (int32_t r = 0; r < world; r++) sum += results[r] < 0 ? MOST_WRONG : results[r];
  return sum;
}
