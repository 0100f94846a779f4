// The CUDA driver's entry points for captures and graphs.
#include "runtime/cuda/driver.h"
#include "runtime/gpusim/graph.h"

#define PTC_CU(field, symbol, params) PTC_GPUSIM_EXPORT int symbol params;
#include "runtime/cuda/driver_symbols.def"
#undef PTC_CU

// Evaluates with the lock of |device|.
#define LOCKED(device, expr)              \
  do {                                    \
    sim_device_t *device_ = (device);     \
    pthread_mutex_lock(&device_->lock);   \
    const int code_ = (expr);             \
    pthread_mutex_unlock(&device_->lock); \
    return code_;                         \
  } while (0)

int cuStreamBeginCapture_v2(void *stream, int mode) {
  if (!stream) return SIM_CAPTURE_UNSUPPORTED;  // the legacy stream
  LOCKED(((sim_stream_t *)stream)->device, sim_capture_begin(stream, mode));
}

int cuStreamEndCapture(void *stream, void **graph) {
  *graph = NULL;
  if (!stream) return SIM_ILLEGAL_STATE;
  LOCKED(((sim_stream_t *)stream)->device, sim_capture_end(stream, (sim_graph_t **)graph));
}

// A graph that can be launched is the graph itself, which does not change.
static int instantiate(sim_graph_t *graph, void **out) {
  if (sim_device_is_injured(graph->device, SIM_INJURY_GRAPH)) return SIM_OUT_OF_MEMORY;
  ++graph->num_users;
  *out = graph;
  return SIM_OK;
}

int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags) {
  *executable = NULL;
  if (!graph || flags) return SIM_INVALID_VALUE;
  LOCKED(((sim_graph_t *)graph)->device, instantiate(graph, executable));
}

static int launch(sim_graph_t *graph, sim_stream_t *stream) {
  if (stream->device != graph->device) return SIM_INVALID_HANDLE;
  // In a capture it would be a graph in a graph.
  if (stream->capture) return SIM_NOT_SUPPORTED;
  return sim_stream_push(stream, (sim_work_t){.kind = SIM_WORK_GRAPH, .graph = graph});
}

int cuGraphLaunch(void *executable, void *stream) {
  sim_graph_t *graph = executable;
  if (!graph) return SIM_INVALID_VALUE;
  LOCKED(graph->device, launch(graph, stream ? stream : &graph->device->default_stream));
}

// Launches that are still queued are done first.
static int release(sim_graph_t *graph) {
  sim_device_t *device = graph->device;
  if (graph->num_users == 1 && !device->error) sim_device_run_all(device);
  sim_graph_release(graph);
  return SIM_OK;
}

int cuGraphExecDestroy(void *executable) {
  if (!executable) return SIM_INVALID_VALUE;
  LOCKED(((sim_graph_t *)executable)->device, release(executable));
}

int cuGraphDestroy(void *graph) {
  if (!graph) return SIM_INVALID_VALUE;
  LOCKED(((sim_graph_t *)graph)->device, release(graph));
}
