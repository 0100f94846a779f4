// The module: compiled once for each MPI library that is found (CMakeLists.txt), loaded by runtime/mpi.
#include <limits.h>
#include <mpi.h>
#include <stdlib.h>

#include "runtime/mpi/module.h"

typedef struct state_s {
  MPI_Comm channels[PTC_MPI_NUM_CHANNELS];
  MPI_Request *requests;
  int num_requests;
  int is_ours;  // MPI was not running before
} state_t;

// One per process, like MPI itself.
static state_t state;

static int start(void *unused, int *out_rank, int *out_world) {
  (void)unused;
  int running, level;
  MPI_Initialized(&running);
  state.is_ours = !running;
  // One thread at a time calls, not always the same one.
  if (!running) {
    const int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    if (code != MPI_SUCCESS) return code;
  }
  for (int i = 0; i < PTC_MPI_NUM_CHANNELS; i++) {
    const int code = MPI_Comm_dup(MPI_COMM_WORLD, &state.channels[i]);
    if (code != MPI_SUCCESS) return code;
    MPI_Comm_set_errhandler(state.channels[i], MPI_ERRORS_RETURN);
  }
  MPI_Comm_rank(MPI_COMM_WORLD, out_rank);
  MPI_Comm_size(MPI_COMM_WORLD, out_world);
  return MPI_SUCCESS;
}

// Makes room for |request|.
static int reach(int request) {
  if (request < state.num_requests) return MPI_SUCCESS;
  const int count = 2 * request + 16;
  MPI_Request *more = realloc(state.requests, (size_t)count * sizeof *more);
  if (!more) return MPI_ERR_NO_MEM;
  for (int i = state.num_requests; i < count; i++) more[i] = MPI_REQUEST_NULL;
  state.requests = more;
  state.num_requests = count;
  return MPI_SUCCESS;
}

static int send_bytes(void *unused, int channel, int peer, int tag, const void *data, int64_t bytes,
                      int request) {
  (void)unused;
  if (bytes > INT_MAX) return MPI_ERR_COUNT;
  const int code = reach(request);
  if (code != MPI_SUCCESS) return code;
  return MPI_Isend((void *)data, (int)bytes, MPI_BYTE, peer, tag, state.channels[channel],
                   &state.requests[request]);
}

static int recv_bytes(void *unused, int channel, int peer, int tag, void *data, int64_t bytes,
                      int request) {
  (void)unused;
  if (bytes > INT_MAX) return MPI_ERR_COUNT;
  const int code = reach(request);
  if (code != MPI_SUCCESS) return code;
  return MPI_Irecv(data, (int)bytes, MPI_BYTE, peer, tag, state.channels[channel],
                   &state.requests[request]);
}

static int test(void *unused, int request, int *out_done) {
  (void)unused;
  *out_done = 1;
  if (request >= state.num_requests) return MPI_SUCCESS;  // never begun
  return MPI_Test(&state.requests[request], out_done, MPI_STATUS_IGNORE);
}

static int probe(void *unused, int channel, int peer, int tag, int *out_peer, int64_t *out_bytes,
                 int *out_found) {
  (void)unused;
  MPI_Status status;
  int code = MPI_Iprobe(peer < 0 ? MPI_ANY_SOURCE : peer, tag, state.channels[channel], out_found,
                        &status);
  if (code != MPI_SUCCESS || !*out_found) return code;
  int bytes;
  code = MPI_Get_count(&status, MPI_BYTE, &bytes);
  *out_peer = status.MPI_SOURCE;
  *out_bytes = bytes;
  return code;
}

static void describe(void *unused, int code, char out[PTC_MPI_ERROR_BYTES]) {
  (void)unused;
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int len;
  MPI_Error_string(code, text, &len);
  size_t i = 0;
  for (; text[i] && i < PTC_MPI_ERROR_BYTES - 1; i++) out[i] = text[i];
  out[i] = '\0';
}

static int finish(void *unused) {
  (void)unused;
  free(state.requests);
  state.requests = NULL;
  state.num_requests = 0;
  for (int i = 0; i < PTC_MPI_NUM_CHANNELS; i++) MPI_Comm_free(&state.channels[i]);
  return state.is_ours ? MPI_Finalize() : MPI_SUCCESS;
}

extern const ptc_mpi_module_t ptc_mpi_module;
const ptc_mpi_module_t ptc_mpi_module = {.version = PTC_MPI_MODULE_VERSION,
                                         .start = start,
                                         .send = send_bytes,
                                         .recv = recv_bytes,
                                         .test = test,
                                         .probe = probe,
                                         .describe = describe,
                                         .finish = finish};
