// Proves: processes that meet at MASTER_ADDR and MASTER_PORT, as a launcher of several machines sets them, get one id of NCCL,
// that of the rank that asked the library for it.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/launch.h"
#include "runtime/nccl/nccl_impl.h"
#include "tests/support/unit.h"

enum { WORLD = 4, FIRST = 2, NUM_TRIES = 20 };

static void set_number(const char *name, int number) {
  char text[16];
  snprintf(text, sizeof text, "%d", number);
  setenv(name, text, 1);
}

static ptc_status_t meet(ptc_diag_t *diag, int32_t rank, int port, ptc_comm_t **out_comm) {
  ptc_launch_t launch;
  clearenv();
  setenv("MASTER_ADDR", "localhost", 1);
  set_number("MASTER_PORT", port);
  set_number("RANK", rank);
  set_number("WORLD_SIZE", WORLD);
  set_number("LOCAL_WORLD_SIZE", 1);
  PTC_TRY(ptc_launch_read(diag, &launch));
  return ptc_launch_open(diag, &launch, 20, out_comm);
}

// The exit status: whether this rank has the id whose process number is that of rank FIRST.
static int run_rank(int32_t rank, int port, int to_parent) {
  ptc_diag_t diag;
  ptc_comm_t *comm;
  ptc_diag_init(&diag);
  if (meet(&diag, rank, port, &comm) != PTC_OK) {
    ptc_diag_print(&diag, stdout, PTC_DIAG_TEXT, false);
    fflush(stdout);
    ptc_diag_deinit(&diag);
    return 2;
  }
  setenv("PTC_NCCL", PTC_BINARY_DIR "/libptc_gpusim_nccl.so", 1);
  ptc_nccl_t *nccl = ptc_nccl_open(&diag);
  ptc_nccl_id_t id = {0};
  bool right = nccl != NULL;
  if (nccl && rank == FIRST) right = nccl->GetUniqueId(&id) == PTC_NCCL_SUCCESS;
  right = right && ptc_nccl_share_id(comm, &diag, FIRST, &id) == PTC_OK;
  right = right && write(to_parent, &id, sizeof id) == (ssize_t)sizeof id;
  ptc_nccl_close(nccl);
  ptc_comm_close(comm);
  ptc_diag_deinit(&diag);
  return right ? 0 : 1;
}

// 0, or the worst status.
static int run_all(int port, ptc_nccl_id_t ids[WORLD]) {
  pid_t pids[WORLD];
  int pipes[WORLD][2], worst = 0;
  fflush(stdout);
  for (int32_t r = 0; r < WORLD; r++) {
    CU_ASSERT_EQUAL_FATAL(pipe(pipes[r]), 0);
    pids[r] = fork();
    CU_ASSERT_FATAL(pids[r] >= 0);
    if (pids[r] == 0) _exit(run_rank(r, port, pipes[r][1]));
    close(pipes[r][1]);
  }
  for (int32_t r = 0; r < WORLD; r++) {
    int status;
    waitpid(pids[r], &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    if (code == 0) CU_ASSERT_EQUAL(read(pipes[r][0], &ids[r], sizeof ids[r]), sizeof ids[r]);
    close(pipes[r][0]);
    if (code > worst) worst = code;
  }
  return worst;
}

static void test_id(void) {
  ptc_nccl_id_t ids[WORLD] = {0};
  // Ports may be in use by others.
  int code = 2;
  for (int i = 0; i < NUM_TRIES && code == 2; i++)
    code = run_all(20000 + (int)(getpid() * 7 + i * 101) % 12000, ids);
  CU_ASSERT_EQUAL(code, 0);
  CU_ASSERT_EQUAL(strncmp(ids[0].bytes, "gpusim ", 7), 0);
  for (int32_t r = 1; r < WORLD; r++) CU_ASSERT_EQUAL(memcmp(&ids[0], &ids[r], sizeof ids[0]), 0);
}

static const unit_test_t tests[] = {{"id", test_id}};
UNIT_MAIN("nccl id", tests)
