// Who started this process: mpirun, srun or torchrun as one rank of several, or nobody.
#ifndef PTC_RUNTIME_LAUNCH_H_
#define PTC_RUNTIME_LAUNCH_H_

#include "runtime/communicator.h"

typedef enum ptc_launch_kind_e {
  PTC_LAUNCH_ALONE,      // by nobody: this process starts the ranks itself
  PTC_LAUNCH_PROCESSES,  // processes of one machine: ptc_comm_open_process
  PTC_LAUNCH_MPI,        // an MPI job: ptc_comm_open_mpi
  PTC_LAUNCH_TCP,        // processes of any machines: ptc_comm_open_tcp
} ptc_launch_kind_t;

typedef struct ptc_launch_s {
  ptc_launch_kind_t kind;
  int32_t rank, world;   // 0 of 1 if alone
  int32_t local_rank;    // among those of this machine: its GPU
  const char *launcher;  // "mpirun", "srun", "torchrun", "ptc"; "" if alone
  char name[128];        // of the run, on this machine
  const char *host;      // of rank 0 for TCP, and its
  int32_t port;
} ptc_launch_t;

// Reads the environment, in this order: PTC_RANK, PTC_WORLD and PTC_RUN (ptc's own children), OMPI_COMM_WORLD_RANK
// (OpenMPI), PMI_RANK (MPICH, srun), RANK (torchrun), SLURM_PROCID (srun). MPI jobs use MPI, the others shared memory, or,
// where they are of several machines or nobody says that they are not, TCP with rank 0 at MASTER_ADDR and MASTER_PORT.
// PTC_COMM=mpi, local or tcp overrules that. The port: PTC_MASTER_PORT, else MASTER_PORT, or the one after it where torchrun
// itself listens there (TORCHELASTIC_USE_AGENT_STORE=True). The rank on this machine is the launcher's number of it
// (OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID, LOCAL_RANK, SLURM_LOCALID), else the rank; 0 where CUDA_VISIBLE_DEVICES
// names one GPU. "bad-launch" (PTC_INVALID_INPUT): numbers that make no sense, or
// ranks on several machines with neither MPI nor
// MASTER_ADDR and MASTER_PORT.
ptc_status_t ptc_launch_read(ptc_diag_t *diag, ptc_launch_t *out_launch);

// Opens this process's endpoint and waits for all ranks, at most |limit_s| seconds (0: forever), the watchdog's
// limit from then on. If alone: the endpoint of the only rank. Diagnostics: those of ptc_comm_open_process,
// ptc_comm_open_mpi and ptc_comm_open_tcp.
ptc_status_t ptc_launch_open(ptc_diag_t *diag, const ptc_launch_t *launch, double limit_s,
                             ptc_comm_t **out_comm);

#endif  // PTC_RUNTIME_LAUNCH_H_
