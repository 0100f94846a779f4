// Proves: what launchers put into the environment is read as they mean it; what makes no sense is refused by name.
#include "runtime/launch.h"

#include <stdlib.h>
#include <unistd.h>

#include "tests/support/unit.h"

enum { MAX_VARIABLES = 6 };

typedef struct row_s {
  const char *name;
  const char *variables[MAX_VARIABLES];  // "NAME=TEXT"
  const char *error;                     // words of the message, or NULL
  ptc_launch_kind_t kind;
  int32_t rank, world;
  const char *launcher, *run;  // with TCP, "RUN HOST:PORT"
} row_t;

static const row_t rows[] = {
    {"nobody", {"PATH=/bin"}, NULL, PTC_LAUNCH_ALONE, 0, 1, "", ""},
    {"a batch job", {"SLURM_PROCID=0", "SLURM_NTASKS=4"}, NULL, PTC_LAUNCH_ALONE, 0, 1, "", ""},
    {"ptc",
     {"PTC_RANK=1", "PTC_WORLD=2", "PTC_RUN=a.b/c"},
     NULL,
     PTC_LAUNCH_PROCESSES,
     1,
     2,
     "ptc",
     "ptc-a_b_c"},
    {"openmpi",
     {"OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4", "PMIX_NAMESPACE=77"},
     NULL,
     PTC_LAUNCH_MPI,
     3,
     4,
     "mpirun",
     "mpirun-77"},
    {"openmpi, here",
     {"OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=4",
      "PMIX_NAMESPACE=77", "PTC_COMM=local"},
     NULL,
     PTC_LAUNCH_PROCESSES,
     3,
     4,
     "mpirun",
     "mpirun-77"},
    {"openmpi, there",
     {"OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
      "PTC_COMM=local"},
     "4 ranks on several machines",
     0,
     0,
     0,
     NULL,
     NULL},
    {"mpich",
     {"PMI_RANK=0", "PMI_SIZE=2", "SLURM_JOB_ID=5"},
     NULL,
     PTC_LAUNCH_MPI,
     0,
     2,
     "mpirun",
     "mpirun-5"},
    {"torchrun",
     {"RANK=1", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "MASTER_PORT=29500",
      "TORCHELASTIC_RUN_ID=none", "TORCHELASTIC_RESTART_COUNT=1"},
     NULL,
     PTC_LAUNCH_PROCESSES,
     1,
     2,
     "torchrun",
     "torchrun-none-29500-1"},
    {"torchrun on two",
     {"RANK=1", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=2"},
     "torchrun has started 4 ranks on several machines",
     0,
     0,
     0,
     NULL,
     NULL},
    {"torchrun on two, with a master",
     {"RANK=1", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=node7", "MASTER_PORT=29500",
      "TORCHELASTIC_USE_AGENT_STORE=True"},
     NULL,
     PTC_LAUNCH_TCP,
     1,
     4,
     "torchrun",
     "torchrun-29500 node7:29501"},
    {"torchrun's own port",
     {"RANK=1", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=node7", "PTC_MASTER_PORT=7",
      "MASTER_PORT=29500"},
     NULL,
     PTC_LAUNCH_TCP,
     1,
     4,
     "torchrun",
     "torchrun-29500 node7:7"},
    {"by hand",
     {"RANK=0", "WORLD_SIZE=4", "MASTER_ADDR=::1", "MASTER_PORT=1234"},
     NULL,
     PTC_LAUNCH_TCP,
     0,
     4,
     "torchrun",
     "torchrun-1234 ::1:1234"},
    {"srun on two, with a master",
     {"SLURM_PROCID=2", "SLURM_STEP_NUM_TASKS=3", "SLURM_STEP_NUM_NODES=2", "MASTER_ADDR=a",
      "MASTER_PORT=80", "SLURM_JOB_ID=8"},
     NULL,
     PTC_LAUNCH_TCP,
     2,
     3,
     "srun",
     "srun-8 a:80"},
    {"no master",
     {"RANK=0", "WORLD_SIZE=2", "PTC_COMM=tcp"},
     "MASTER_ADDR is not set",
     0,
     0,
     0,
     NULL,
     NULL},
    {"no port",
     {"RANK=0", "WORLD_SIZE=2", "PTC_COMM=tcp", "MASTER_ADDR=a", "MASTER_PORT=x"},
     "MASTER_PORT=\"x\"",
     0,
     0,
     0,
     NULL,
     NULL},
    {"no such port",
     {"RANK=0", "WORLD_SIZE=2", "PTC_COMM=tcp", "MASTER_ADDR=a", "MASTER_PORT=65536"},
     "ports end at 65535",
     0,
     0,
     0,
     NULL,
     NULL},
    {"srun",
     {"SLURM_PROCID=2", "SLURM_STEP_NUM_TASKS=3", "SLURM_STEP_NUM_NODES=1", "SLURM_JOB_ID=8",
      "SLURM_STEP_ID=1"},
     NULL,
     PTC_LAUNCH_PROCESSES,
     2,
     3,
     "srun",
     "srun-8-1"},
    {"srun on two",
     {"SLURM_PROCID=2", "SLURM_STEP_NUM_TASKS=3", "SLURM_STEP_NUM_NODES=2"},
     "on several machines",
     0,
     0,
     0,
     NULL,
     NULL},
    {"srun with MPI",
     {"SLURM_PROCID=2", "SLURM_STEP_NUM_TASKS=3", "SLURM_STEP_NUM_NODES=2", "SLURM_JOB_ID=8",
      "PTC_COMM=mpi"},
     NULL,
     PTC_LAUNCH_MPI,
     2,
     3,
     "srun",
     "srun-8"},
    {"no number", {"RANK=one", "WORLD_SIZE=2"}, "RANK=\"one\"", 0, 0, 0, NULL, NULL},
    {"no rank", {"RANK=2", "WORLD_SIZE=2"}, "RANK=2", 0, 0, 0, NULL, NULL},
    {"no ranks", {"RANK=0", "WORLD_SIZE=0"}, "WORLD_SIZE=\"0\"", 0, 0, 0, NULL, NULL},
    {"negative", {"RANK=-1", "WORLD_SIZE=2"}, "RANK=\"-1\"", 0, 0, 0, NULL, NULL},
    {"huge", {"RANK=0", "WORLD_SIZE=99999999999"}, "WORLD_SIZE", 0, 0, 0, NULL, NULL},
    {"no such way", {"RANK=0", "WORLD_SIZE=2", "PTC_COMM=smoke"}, "\"smoke\"", 0, 0, 0, NULL, NULL},
};

static void test_environments(void) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const row_t *row = &rows[i];
    clearenv();
    for (int v = 0; v < MAX_VARIABLES && row->variables[v]; v++) putenv((char *)row->variables[v]);
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_launch_t launch;
    const ptc_status_t status = ptc_launch_read(&diag, &launch);
    if (row->error) {
      UNIT_CHECK(status == PTC_INVALID_INPUT && diag.num_items == 1, row->name);
      UNIT_CHECK(diag.num_items == 1 && strcmp(diag.items[0].id, "bad-launch") == 0, row->name);
      UNIT_CHECK(diag.num_items == 1 && strstr(diag.items[0].message, row->error), row->name);
    } else {
      UNIT_CHECK(status == PTC_OK && launch.kind == row->kind, row->name);
      UNIT_CHECK(launch.rank == row->rank && launch.world == row->world, row->name);
      UNIT_CHECK(strcmp(launch.launcher, row->launcher) == 0, row->name);
      char run[256];
      snprintf(run, sizeof run, launch.host ? "%s %s:%d" : "%s", launch.name, launch.host,
               launch.port);
      UNIT_CHECK(strcmp(run, row->run) == 0, row->name);
    }
    ptc_diag_deinit(&diag);
  }
}

// Without a launcher there is one rank, which meets itself.
static void test_alone(void) {
  clearenv();
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_launch_t launch;
  ptc_comm_t *comm = NULL;
  CU_ASSERT_EQUAL_FATAL(ptc_launch_read(&diag, &launch), PTC_OK);
  CU_ASSERT_EQUAL_FATAL(ptc_launch_open(&diag, &launch, 5, &comm), PTC_OK);
  UNIT_CHECK(comm->rank == 0 && comm->world == 1, "alone");
  UNIT_CHECK(ptc_comm_barrier(comm, &diag, PTC_COMM_WORLD) == PTC_OK, "alone");
  ptc_comm_close(comm);
  ptc_diag_deinit(&diag);
}

static void test_missing_module(void) {
  static const char *const files[] = {"/nowhere/ptc_mpi.so", "libm.so.6"};
  for (int i = 0; i < 2; i++) {
    setenv("PTC_MPI_MODULE", files[i], 1);
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_comm_t *comm;
    UNIT_CHECK(ptc_comm_open_mpi(&diag, 0, 2, 5, &comm) == PTC_DEVICE && !comm, files[i]);
    UNIT_CHECK(diag.num_items == 1 && strcmp(diag.items[0].id, "mpi-missing") == 0, files[i]);
    UNIT_CHECK(diag.num_items == 1 && strstr(diag.items[0].message, "PTC_COMM=local"), files[i]);
    ptc_diag_deinit(&diag);
  }
  unsetenv("PTC_MPI_MODULE");
}

static const unit_test_t tests[] = {
    {"environments", test_environments},
    {"alone", test_alone},
    {"no module", test_missing_module},
};
UNIT_MAIN("launch", tests)
