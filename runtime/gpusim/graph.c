#include "runtime/gpusim/graph.h"

#include <stdlib.h>
#include <string.h>

static sim_capture_t *find(const sim_device_t *device, uint64_t number) {
  for (int64_t c = 0; number && c < device->captures.len; ++c)
    if (device->captures.data[c]->number == number) return device->captures.data[c];
  return NULL;
}

static int spoil(sim_capture_t *capture, int code) {
  if (capture) capture->error = SIM_CAPTURE_INVALIDATED;
  return code;
}

static int64_t add_node(sim_capture_t *capture, sim_work_t work, int64_t after, int64_t and_after) {
  sim_graph_t *graph = capture->graph;
  const sim_node_t node = {work, {after, and_after}};
  PTC_VEC_PUSH(&graph->nodes, node);
  return graph->nodes.len - 1;
}

// --- what streams are given

int sim_capture_push(sim_stream_t *stream, sim_work_t work) {
  sim_capture_t *capture = find(stream->device, stream->capture);
  int code = capture->error;
  // What devices do together is matched when it is called, once.
  if (!code && work.kind == SIM_WORK_SHARED) code = spoil(capture, SIM_CAPTURE_UNSUPPORTED);
  if (code)
    free(work.owned);
  else
    stream->tip = add_node(capture, work, stream->tip, -1);
  return code;
}

int sim_capture_record(sim_stream_t *stream, sim_event_t *event) {
  const sim_capture_t *capture = find(stream->device, stream->capture);
  if (capture->error) return capture->error;
  *event = (sim_event_t){.stream = stream, .capture = stream->capture, .node = stream->tip};
  return SIM_OK;
}

int sim_capture_wait(sim_stream_t *stream, const sim_event_t *event) {
  sim_capture_t *mine = find(stream->device, stream->capture),
                *its = find(stream->device, event->capture);
  if (mine && mine->error) return mine->error;
  if (!event->capture) return event->stream ? spoil(mine, SIM_CAPTURE_ISOLATION) : SIM_OK;
  if (!its) return spoil(mine, SIM_CAPTURED_EVENT);
  if (its->error) return its->error;
  if (mine && mine != its) return spoil(its, spoil(mine, SIM_CAPTURE_MERGE));
  if (stream == &stream->device->default_stream) return spoil(its, SIM_CAPTURE_IMPLICIT);
  if (!mine) {
    stream->capture = its->number;
    stream->tip = -1;
  }
  stream->tip = add_node(its, (sim_work_t){.kind = SIM_WORK_RECORD}, stream->tip, event->node);
  return SIM_OK;
}

// --- what is not allowed meanwhile

int sim_capture_forbids_wait(sim_stream_t *stream) {
  sim_capture_t *capture = find(stream->device, stream->capture);
  return capture ? spoil(capture, SIM_CAPTURE_UNSUPPORTED) : SIM_OK;
}

int sim_capture_forbids(sim_device_t *device, bool unsafe) {
  int code = SIM_OK;
  for (int64_t c = 0; c < device->captures.len; ++c) {
    sim_capture_t *capture = device->captures.data[c];
    const bool is_mine = pthread_equal(capture->thread, pthread_self());
    if (!unsafe || capture->mode == SIM_CAPTURE_GLOBAL ||
        (capture->mode == SIM_CAPTURE_THREAD_LOCAL && is_mine))
      code = spoil(capture, SIM_CAPTURE_UNSUPPORTED);
  }
  return code;
}

int sim_capture_forbids_legacy(const sim_stream_t *stream) {
  const sim_device_t *device = stream->device;
  if (stream != &device->default_stream) return SIM_OK;
  for (int64_t s = 0; s < device->streams.len; ++s) {
    const sim_stream_t *other = device->streams.data[s];
    if (other->capture && !other->non_blocking)
      return spoil(find(device, other->capture), SIM_CAPTURE_IMPLICIT);
  }
  return SIM_OK;
}

// --- begin and end

int sim_capture_begin(sim_stream_t *stream, int mode) {
  sim_device_t *device = stream->device;
  if (mode < SIM_CAPTURE_GLOBAL || mode > SIM_CAPTURE_RELAXED) return SIM_INVALID_VALUE;
  if (stream->capture) return SIM_ILLEGAL_STATE;
  sim_capture_t *capture = ptc_xmalloc(sizeof *capture);
  sim_graph_t *graph = ptc_xmalloc(sizeof *graph);
  *graph = (sim_graph_t){.device = device, .num_users = 1};
  *capture = (sim_capture_t){.number = ++device->num_captures,
                             .origin = stream,
                             .mode = mode,
                             .thread = pthread_self(),
                             .graph = graph};
  PTC_VEC_PUSH(&device->captures, capture);
  stream->capture = capture->number;
  stream->tip = -1;
  return SIM_OK;
}

// Orders all that leads to node |last|: what a stream waits for comes as late as it may.
static void order_nodes(sim_graph_t *graph, int64_t last) {
  const size_t count = (size_t)graph->nodes.len;
  unsigned char *next = calloc(count + 1, 1);  // per node: which of |after| is looked at next
  if (!next) ptc_oom(count + 1);
  PTC_VEC(int64_t) path = {0};
  if (last >= 0) PTC_VEC_PUSH(&path, last);
  while (path.len) {
    const int64_t node = path.data[path.len - 1];
    if (next[node] >= 2) {
      --path.len;
      if (next[node]++ == 2) PTC_VEC_PUSH(&graph->order, node);
      continue;
    }
    const int64_t before = graph->nodes.data[node].after[next[node]++];
    if (before >= 0 && !next[before]) PTC_VEC_PUSH(&path, before);
  }
  free(next);
  PTC_VEC_FREE(&path);
}

static int64_t count_work(const sim_graph_t *graph, bool in_order) {
  int64_t count = 0;
  const int64_t len = in_order ? graph->order.len : graph->nodes.len;
  for (int64_t i = 0; i < len; ++i)
    count += graph->nodes.data[in_order ? graph->order.data[i] : i].work.kind != SIM_WORK_RECORD;
  return count;
}

static void forget(sim_device_t *device, const sim_capture_t *capture) {
  for (int64_t s = 0; s < device->streams.len; ++s)
    if (device->streams.data[s]->capture == capture->number) device->streams.data[s]->capture = 0;
  for (int64_t c = 0; c < device->captures.len; ++c)
    if (device->captures.data[c] == capture)
      device->captures.data[c] = device->captures.data[--device->captures.len];
  if (!device->captures.len) PTC_VEC_FREE(&device->captures);
}

int sim_capture_end(sim_stream_t *stream, sim_graph_t **out_graph) {
  *out_graph = NULL;
  sim_capture_t *capture = find(stream->device, stream->capture);
  if (!capture) return SIM_ILLEGAL_STATE;
  if (capture->origin != stream) return spoil(capture, SIM_CAPTURE_UNMATCHED);
  if (capture->mode != SIM_CAPTURE_RELAXED && !pthread_equal(capture->thread, pthread_self()))
    return spoil(capture, SIM_CAPTURE_WRONG_THREAD);
  sim_graph_t *graph = capture->graph;
  int code = capture->error;
  forget(stream->device, capture);
  free(capture);
  order_nodes(graph, stream->tip);
  if (!code && count_work(graph, true) < count_work(graph, false)) code = SIM_CAPTURE_UNJOINED;
  if (code)
    sim_graph_release(graph);
  else
    *out_graph = graph;
  return code;
}

// --- graphs

int sim_graph_run(const sim_graph_t *graph) {
  sim_device_t *device = graph->device;
  for (int64_t i = 0; i < graph->order.len && !device->error; ++i)
    sim_device_work(device, &graph->nodes.data[graph->order.data[i]].work);
  return device->error;
}

void sim_graph_release(sim_graph_t *graph) {
  if (--graph->num_users) return;
  for (int64_t i = 0; i < graph->nodes.len; ++i) free(graph->nodes.data[i].work.owned);
  PTC_VEC_FREE(&graph->nodes);
  PTC_VEC_FREE(&graph->order);
  free(graph);
}
