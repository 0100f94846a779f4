// What launchers put into the environment of the ranks that they start.
#include "runtime/launch.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A launcher's variables. The run has the texts of |names| in its name, as far as they are set.
typedef struct launcher_s {
  const char *name;
  ptc_launch_kind_t kind;
  const char *rank, *world;
  const char *local_rank;   // on this machine; NULL, or unset: the rank
  const char *local_world;  // ranks on this machine; may be unset
  const char *nodes;        // machines; NULL, or unset: not told
  const char *names[3];
  bool master;  // ranks of it have MASTER_ADDR and MASTER_PORT
} launcher_t;

static const launcher_t launchers[] = {
    {"ptc", PTC_LAUNCH_PROCESSES, "PTC_RANK", "PTC_WORLD", NULL, NULL, NULL, {"PTC_RUN"}, false},
    {"mpirun",
     PTC_LAUNCH_MPI,
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     NULL,
     {"PMIX_NAMESPACE"},
     false},
    {"mpirun",
     PTC_LAUNCH_MPI,
     "PMI_RANK",
     "PMI_SIZE",
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS",
     NULL,
     {"SLURM_JOB_ID", "SLURM_STEP_ID"},
     false},
    {"torchrun",
     PTC_LAUNCH_PROCESSES,
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     NULL,
     {"TORCHELASTIC_RUN_ID", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"},
     true},
    {"srun",
     PTC_LAUNCH_PROCESSES,
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID",
     NULL,
     "SLURM_STEP_NUM_NODES",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"},
     false},
};

// The number in variable |name|, at least |least|. "bad-launch" if it is none.
static ptc_status_t read_number(ptc_diag_t *diag, const char *name, int32_t least,
                                int32_t *out_number) {
  const char *text = getenv(name);
  char *end = NULL;
  errno = 0;
  const long number = text ? strtol(text, &end, 10) : 0;
  if (!text || end == text || *end || errno != 0 || number < least || number > INT32_MAX)
    return ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "bad-launch",
                     "the environment has %s=\"%s\", and a number from %d on is wanted there; "
                     "unset it to start without a launcher",
                     name, text ? text : "", least);
  *out_number = (int32_t)number;
  return PTC_OK;
}

// A word for the run: the launcher's name and numbers.
static void name_run(const launcher_t *launcher, char *out, size_t room) {
  snprintf(out, room, "%s", launcher->name);
  bool found = false;
  for (int i = 0; i < 3 && launcher->names[i]; i++) {
    const char *text = getenv(launcher->names[i]);
    const size_t used = strlen(out);
    if (text) snprintf(out + used, room - used, "-%s", text);
    found = found || text;
  }
  // MPICH tells nothing; all ranks of a machine have one parent.
  if (!found) {
    const size_t used = strlen(out);
    snprintf(out + used, room - used, "-%d", (int)getppid());
  }
  for (char *c = out; *c; c++)
    if (!isalnum((unsigned char)*c) && *c != '-') *c = '_';
}

// Where rank 0 listens.
static ptc_status_t read_master(ptc_diag_t *diag, ptc_launch_t *launch) {
  const char *store = getenv("TORCHELASTIC_USE_AGENT_STORE");
  const bool is_own = getenv("PTC_MASTER_PORT") != NULL;
  launch->kind = PTC_LAUNCH_TCP;
  launch->host = getenv("MASTER_ADDR");
  if (!launch->host || !*launch->host)
    return ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "bad-launch",
                     "ranks meet over TCP, and MASTER_ADDR is not set: it names the machine of "
                     "rank 0, MASTER_PORT a free port there");
  const char *name = is_own ? "PTC_MASTER_PORT" : "MASTER_PORT";
  PTC_TRY(read_number(diag, name, 1, &launch->port));
  if (!is_own && store && strcmp(store, "True") == 0) launch->port++;
  if (launch->port <= 65535) return PTC_OK;
  return ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "bad-launch",
                   "%s gives the port %d, and ports end at 65535; PTC_MASTER_PORT names another",
                   name, launch->port);
}

static ptc_status_t choose_kind(ptc_diag_t *diag, const launcher_t *launcher,
                                ptc_launch_t *launch) {
  static const char *const words[] = {"local", "mpi", "tcp"};
  static const ptc_launch_kind_t kinds[] = {PTC_LAUNCH_PROCESSES, PTC_LAUNCH_MPI, PTC_LAUNCH_TCP};
  const char *wanted = getenv("PTC_COMM");
  int chosen = -1;
  for (int i = 0; i < 3 && wanted; i++)
    if (strcmp(wanted, words[i]) == 0) chosen = i;
  if (wanted && chosen < 0)
    return ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "bad-launch",
                     "PTC_COMM is \"%s\"; it may be \"local\", \"mpi\" or \"tcp\"", wanted);
  launch->kind = chosen < 0 ? launcher->kind : kinds[chosen];
  if (launch->kind == PTC_LAUNCH_MPI) return PTC_OK;
  if (launch->kind == PTC_LAUNCH_TCP) return read_master(diag, launch);
  int32_t local_world = launch->world, num_nodes = 1;
  const bool is_told = launcher->local_world && getenv(launcher->local_world);
  if (is_told) PTC_TRY(read_number(diag, launcher->local_world, 1, &local_world));
  if (launcher->nodes && getenv(launcher->nodes))
    PTC_TRY(read_number(diag, launcher->nodes, 1, &num_nodes));
  const bool has_master = getenv("MASTER_ADDR") && getenv("MASTER_PORT");
  const bool is_here = local_world == launch->world && num_nodes == 1;
  // RANK and WORLD_SIZE alone do not say on how many machines.
  const bool is_unsure = launcher->local_world && !is_told && launcher->master;
  if (chosen < 0 && has_master && (!is_here || is_unsure)) return read_master(diag, launch);
  if (is_here) return PTC_OK;
  return ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "bad-launch",
                   "%s has started %d ranks on several machines: set MASTER_ADDR and MASTER_PORT "
                   "(rank 0's machine, a free port there), or use MPI: start them with mpirun, or "
                   "with PTC_COMM=mpi",
                   launcher->name, launch->world);
}

static ptc_status_t read_local_rank(ptc_diag_t *diag, const launcher_t *launcher,
                                    ptc_launch_t *launch) {
  const char *gpus = getenv("CUDA_VISIBLE_DEVICES");
  launch->local_rank = launch->rank;
  if (launcher->local_rank && getenv(launcher->local_rank))
    PTC_TRY(read_number(diag, launcher->local_rank, 0, &launch->local_rank));
  if (gpus && *gpus && !strchr(gpus, ',')) launch->local_rank = 0;
  return PTC_OK;
}

ptc_status_t ptc_launch_read(ptc_diag_t *diag, ptc_launch_t *out_launch) {
  *out_launch = (ptc_launch_t){.kind = PTC_LAUNCH_ALONE, .world = 1, .launcher = ""};
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
    const launcher_t *launcher = &launchers[i];
    // A batch job without srun has a number, but is no rank.
    if (!getenv(launcher->rank) || !getenv(launcher->world)) continue;
    ptc_launch_t launch = {.launcher = launcher->name};
    PTC_TRY(read_number(diag, launcher->rank, 0, &launch.rank));
    PTC_TRY(read_number(diag, launcher->world, 1, &launch.world));
    if (launch.rank >= launch.world)
      return ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "bad-launch",
                       "the environment has %s=%d, and there are %s=%d ranks", launcher->rank,
                       launch.rank, launcher->world, launch.world);
    PTC_TRY(choose_kind(diag, launcher, &launch));
    PTC_TRY(read_local_rank(diag, launcher, &launch));
    name_run(launcher, launch.name, sizeof launch.name);
    *out_launch = launch;
    return PTC_OK;
  }
  return PTC_OK;
}

ptc_status_t ptc_launch_open(ptc_diag_t *diag, const ptc_launch_t *launch, double limit_s,
                             ptc_comm_t **out_comm) {
  switch (launch->kind) {
    case PTC_LAUNCH_PROCESSES:
      return ptc_comm_open_process(diag, launch->name, launch->rank, launch->world, limit_s,
                                   out_comm);
    case PTC_LAUNCH_MPI:
      return ptc_comm_open_mpi(diag, launch->rank, launch->world, limit_s, out_comm);
    case PTC_LAUNCH_TCP:
      return ptc_comm_open_tcp(diag, launch->host, launch->port, launch->rank, launch->world,
                               limit_s, out_comm);
    default: break;
  }
  PTC_TRY(ptc_comm_open_threads(diag, 1, out_comm));
  ptc_comm_set_limit(*out_comm, limit_s);
  return PTC_OK;
}
