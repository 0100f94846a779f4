// One simulated GPU: its memory, its streams and what lies in them. Work on a stream runs in order and as late as it may:
// when somebody waits for it, on the thread that waits. From the first work that needs other GPUs on, the device has
// a thread of its own, since they may wait for it while its host does something else.
#ifndef PTC_RUNTIME_GPUSIM_DEVICE_H_
#define PTC_RUNTIME_GPUSIM_DEVICE_H_

#include <pthread.h>

#include "runtime/gpusim/gpusim.h"
#include "runtime/gpusim/module.h"

enum { SIM_MAX_DEVICES = 64 };

// The driver's codes.
enum {
  SIM_OK = 0,
  SIM_INVALID_VALUE = 1,
  SIM_OUT_OF_MEMORY = 2,
  SIM_NOT_INITIALIZED = 3,
  SIM_INVALID_DEVICE = 101,
  SIM_INVALID_CONTEXT = 201,
  SIM_INVALID_PTX = 218,
  SIM_INVALID_HANDLE = 400,
  SIM_ILLEGAL_STATE = 401,
  SIM_NOT_FOUND = 500,
  SIM_NOT_READY = 600,
  SIM_ILLEGAL_ADDRESS = 700,
  SIM_ALREADY_REGISTERED = 712,
  SIM_NOT_REGISTERED = 713,
  SIM_MISALIGNED_ADDRESS = 716,
  SIM_LAUNCH_FAILED = 719,
  SIM_NOT_SUPPORTED = 801,
  SIM_CAPTURE_UNSUPPORTED = 900,
  SIM_CAPTURE_INVALIDATED = 901,
  SIM_CAPTURE_MERGE = 902,
  SIM_CAPTURE_UNMATCHED = 903,
  SIM_CAPTURE_UNJOINED = 904,
  SIM_CAPTURE_ISOLATION = 905,
  SIM_CAPTURE_IMPLICIT = 906,
  SIM_CAPTURED_EVENT = 907,
  SIM_CAPTURE_WRONG_THREAD = 908,
  SIM_UNKNOWN = 999,
};

typedef struct sim_device_s sim_device_t;
typedef struct sim_stream_s sim_stream_t;

typedef enum sim_work_kind_e {
  SIM_WORK_LAUNCH,
  SIM_WORK_COPY,
  SIM_WORK_FILL,
  SIM_WORK_RECORD,
  SIM_WORK_WAIT,
  SIM_WORK_SHARED,  // with other devices
  SIM_WORK_CALL,    // of another library, on this device alone
  SIM_WORK_GRAPH,   // all of a graph
} sim_work_kind_t;

typedef struct sim_event_s {
  sim_stream_t *stream;
  int64_t position;  // of |stream|: the work up to there must be done; 0: never recorded
  uint64_t capture;  // the number of the capture in which it was recorded; 0: none
  int64_t node;      // there
} sim_event_t;

typedef struct sim_work_s {
  sim_work_kind_t kind;
  // launch
  const sim_program_t *program;
  uint32_t grid[3], block[3];
  int64_t dynamic_bytes;
  // copy (of |rows| rows, |to_pitch| and |from_pitch| apart), fill
  uint64_t to, from;
  uint64_t bytes, rows, to_pitch, from_pitch;
  bool to_device, from_device;
  unsigned char value;
  sim_event_t event;           // wait
  ptc_gpusim_shared_fn_t run;  // shared, call
  const struct sim_graph_s *graph;
  void *owned;  // parameters, what is copied from the host, |run|'s argument
} sim_work_t;

struct sim_stream_s {
  sim_device_t *device;
  PTC_VEC(sim_work_t) queue;
  int64_t head;   // the first of |queue| that has not begun
  int64_t done;   // works that have been done since the stream was made
  int64_t until;  // the device's thread does them up to there
  bool running;
  pthread_t runner;  // while |running|
  bool non_blocking;
  uint64_t capture;  // the number of the one that takes its work; 0: none
  int64_t tip;       // the latest node there; -1: none
};

// Pages of the host that are held in place.
typedef struct sim_pinned_s {
  uint64_t begin, end;
} sim_pinned_t;

// Injected faults: "launch", "memory", "lost", "hang", "nccl", "graph".
typedef enum sim_injury_e {
  SIM_INJURY_LAUNCH,  // a launch fails
  SIM_INJURY_MEMORY,  // an allocation finds no memory
  SIM_INJURY_LOST,    // at a launch, the device is gone
  SIM_INJURY_HANG,    // a launch never ends
  SIM_INJURY_NCCL,    // an NCCL operation fails while it runs
  SIM_INJURY_GRAPH,   // a graph cannot be made
  SIM_NUM_INJURIES
} sim_injury_t;

// What each kernel has done, on all devices.
typedef struct sim_counts_s {
  pthread_mutex_t lock;
  struct {
    char *name;
    sim_counters_t counters;
  } * data;
  int64_t len, cap;
} sim_counts_t;

struct sim_device_s {
  pthread_mutex_t lock;
  pthread_cond_t changed;  // work is done, or there is more, or the context ends
  int32_t ordinal;
  int32_t retained;  // of the primary context
  sim_options_t options;
  sim_memory_t memory;
  sim_pool_t *pool;
  sim_stream_t default_stream;
  PTC_VEC(sim_stream_t *) streams;
  PTC_VEC(struct sim_capture_s *) captures;  // under way
  uint64_t num_captures;                     // so far
  sim_counts_t *counts;
  int error;  // of a kernel: all calls fail from then on
  ptc_str_t report;
  pthread_t worker;
  bool has_worker, closing;
  // When the n-th event of the kind comes, it fails; 0: never.
  int64_t injuries[SIM_NUM_INJURIES], num_events[SIM_NUM_INJURIES];
};

// All of these but sim_device_init and sim_device_close are called with the device's lock.

void sim_device_init(sim_device_t *device, int32_t ordinal, sim_counts_t *counts);
// "launch:1:40,memory:0:3": the 40th launch of device 1, the 3rd allocation of device 0.
void sim_device_injure(sim_device_t *device, const char *faults);
// Whether this event of that kind is the one that fails.
bool sim_device_is_injured(sim_device_t *device, sim_injury_t kind);
// The context ends, and with it its errors, memory and work.
void sim_device_close(sim_device_t *device);
// Notes an error; gives |code|.
int sim_device_fail(sim_device_t *device, int code, const char *report);
// Queues work; takes |work.owned| over in any case.
int sim_stream_push(sim_stream_t *stream, sim_work_t work);
// Does |work| at once.
int sim_device_work(sim_device_t *device, const sim_work_t *work);
// The position after all that is queued.
int64_t sim_stream_end(const sim_stream_t *stream);
// Does the stream's work up to |position|, or waits until another thread has. A stream that waits for itself through
// another finds its own work before the wait done.
int sim_stream_run(sim_stream_t *stream, int64_t position);
// Lets the device's thread do what is queued.
void sim_stream_start(sim_stream_t *stream);
int sim_device_run_all(sim_device_t *device);
// Frees what is left of its queue.
void sim_stream_deinit(sim_stream_t *stream);

#endif  // PTC_RUNTIME_GPUSIM_DEVICE_H_
