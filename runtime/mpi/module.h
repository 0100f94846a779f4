// What ptc wants of an MPI library: bytes moved between ranks. The module behind it is compiled for one MPI
// library; ptc itself knows none, and adds what arrives by itself. Connections over TCP do the same (runtime/tcp).
#ifndef PTC_RUNTIME_MPI_MODULE_H_
#define PTC_RUNTIME_MPI_MODULE_H_

#include <stdint.h>

enum { PTC_MPI_MODULE_VERSION = 2, PTC_MPI_ERROR_BYTES = 512 };

// Messages of different channels do not see each other.
enum { PTC_MPI_COLLECTIVES, PTC_MPI_MESSAGES, PTC_MPI_CONTROL, PTC_MPI_NUM_CHANNELS };

// Functions give 0, or MPI's error code. |state|: of a module that has no state of the process; else NULL. Requests are numbers that the caller chooses, small ones.
typedef struct ptc_mpi_module_s {
  int version;
  int (*start)(void *state, int *out_rank, int *out_world);
  // Begin to move |bytes|; the memory stays until |test| has said that it is done.
  int (*send)(void *state, int channel, int peer, int tag, const void *data, int64_t bytes,
              int request);
  int (*recv)(void *state, int channel, int peer, int tag, void *data, int64_t bytes, int request);
  int (*test)(void *state, int request, int *out_done);
  // Whether a message has come; |peer| -1: of any rank.
  int (*probe)(void *state, int channel, int peer, int tag, int *out_peer, int64_t *out_bytes,
               int *out_found);
  void (*describe)(void *state, int code, char out[PTC_MPI_ERROR_BYTES]);
  int (*finish)(void *state);
} ptc_mpi_module_t;

// The one symbol of a module.
#define PTC_MPI_MODULE_SYMBOL "ptc_mpi_module"

#endif  // PTC_RUNTIME_MPI_MODULE_H_
