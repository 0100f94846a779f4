// Captured work: what streams are given between cuStreamBeginCapture and cuStreamEndCapture is recorded and not done. All of
// these are called with the device's lock.
#ifndef PTC_RUNTIME_GPUSIM_GRAPH_H_
#define PTC_RUNTIME_GPUSIM_GRAPH_H_

#include "runtime/gpusim/device.h"

enum { SIM_CAPTURE_GLOBAL, SIM_CAPTURE_THREAD_LOCAL, SIM_CAPTURE_RELAXED };

typedef struct sim_node_s {
  sim_work_t work;   // SIM_WORK_RECORD: nothing to do, but later than others
  int64_t after[2];  // nodes that are done before; -1: none
} sim_node_t;

// Nodes in the order of capture, and in an order in which they can be run.
typedef struct sim_graph_s {
  sim_device_t *device;
  PTC_VEC(sim_node_t) nodes;
  PTC_VEC(int64_t) order;
  int32_t num_users;  // handles that the driver has given out
} sim_graph_t;

typedef struct sim_capture_s {
  uint64_t number;  // from 1
  sim_stream_t *origin;
  int mode;
  pthread_t thread;
  int error;  // a call was not allowed: there will be no graph
  sim_graph_t *graph;
} sim_capture_t;

int sim_capture_begin(sim_stream_t *stream, int mode);
// |*out_graph| is NULL where an error is given; the capture has ended, too, unless the call was another stream's or thread's.
int sim_capture_end(sim_stream_t *stream, sim_graph_t **out_graph);
// Takes |work.owned| over in any case.
int sim_capture_push(sim_stream_t *stream, sim_work_t work);
int sim_capture_record(sim_stream_t *stream, sim_event_t *event);
// |stream| or |event| is part of a capture: the stream is so from now on.
int sim_capture_wait(sim_stream_t *stream, const sim_event_t *event);
// For calls that would wait for |stream|: while it is captured an error, and the end of the capture.
int sim_capture_forbids_wait(sim_stream_t *stream);
// The same for calls that may wait for all of the device; |unsafe|: only by the threads that a capture's mode excludes.
int sim_capture_forbids(sim_device_t *device, bool unsafe);
// What legacy streams are given while a stream that they wait for is captured.
int sim_capture_forbids_legacy(const sim_stream_t *stream);

// Does all of it.
int sim_graph_run(const sim_graph_t *graph);
// Gives one handle back.
void sim_graph_release(sim_graph_t *graph);

#endif  // PTC_RUNTIME_GPUSIM_GRAPH_H_
