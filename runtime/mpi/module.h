// What ptc wants of an MPI library: bytes moved between ranks. The module behind it is compiled for one MPI
// library; ptc itself knows none, and adds what arrives by itself.
#ifndef PTC_RUNTIME_MPI_MODULE_H_
#define PTC_RUNTIME_MPI_MODULE_H_

#include <stdint.h>

enum { PTC_MPI_MODULE_VERSION = 1, PTC_MPI_ERROR_BYTES = 512 };

// Messages of different channels do not see each other.
enum { PTC_MPI_COLLECTIVES, PTC_MPI_MESSAGES, PTC_MPI_CONTROL, PTC_MPI_NUM_CHANNELS };

// Functions give 0, or MPI's error code. Requests are numbers that the caller chooses, small ones.
typedef struct ptc_mpi_module_s {
  int version;
  int (*start)(int *out_rank, int *out_world);
  // Begin to move |bytes|; the memory stays until |test| has said that it is done.
  int (*send)(int channel, int peer, int tag, const void *data, int64_t bytes, int request);
  int (*recv)(int channel, int peer, int tag, void *data, int64_t bytes, int request);
  int (*test)(int request, int *out_done);
  // Whether a message has come; |peer| -1: of any rank.
  int (*probe)(int channel, int peer, int tag, int *out_peer, int64_t *out_bytes, int *out_found);
  void (*describe)(int code, char out[PTC_MPI_ERROR_BYTES]);
  int (*finish)(void);
} ptc_mpi_module_t;

// The one symbol of a module.
#define PTC_MPI_MODULE_SYMBOL "ptc_mpi_module"

#endif  // PTC_RUNTIME_MPI_MODULE_H_
