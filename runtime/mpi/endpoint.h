// The endpoint of a rank whose bytes a module moves (module.h): MPI's, or connections over TCP.
#ifndef PTC_RUNTIME_MPI_ENDPOINT_H_
#define PTC_RUNTIME_MPI_ENDPOINT_H_

#include "runtime/communicator.h"
#include "runtime/mpi/module.h"

// That of rank |rank| of |world|; |name| is the module's, for messages. Takes |state| over, whose end is the module's finish.
ptc_comm_t *ptc_mpi_new(const ptc_mpi_module_t *module, void *state, const char *name, int32_t rank,
                        int32_t world, double limit_s);

#endif  // PTC_RUNTIME_MPI_ENDPOINT_H_
