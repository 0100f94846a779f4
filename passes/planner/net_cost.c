#include "passes/planner/net_cost.h"

#include <math.h>

#include "passes/planner/nccl_tuner.h"

const char *const ptc_net_kind_names[PTC_NUM_NET_KINDS] = {"all_reduce", "reduce_scatter",
                                                           "all_gather", "all_to_all", "send"};

static double least(double a, double b) { return a < b ? a : b; }
static double most(double a, double b) { return a > b ? a : b; }

// --- where a group lies

// Devices that share links: a node, or a rack whose links join several.
static int64_t domain_devices(const ptc_cluster_t *cluster) {
  int64_t devices = INT64_MAX;
  for (int32_t i = 0; i < cluster->num_groups; i++) {
    const ptc_node_model_t *node = &cluster->groups[i].node;
    const int64_t here = node->link_domain > node->devices ? node->link_domain : node->devices;
    if (here < devices) devices = here;
  }
  return devices < 1 ? 1 : devices;
}

ptc_group_shape_t ptc_group_shape(const ptc_cluster_t *cluster,
                                  const int64_t size[PTC_NUM_DEVICE_AXES], uint32_t axes_mask) {
  const int64_t domain = domain_devices(cluster);
  int64_t stride = 1, ranks = 1, inside = 1;
  for (int axis = PTC_NUM_DEVICE_AXES - 1; axis >= 0; axis--) {
    if (axes_mask & 1u << axis) {
      ranks *= size[axis];
      // A group that begins anywhere in a node has at least this many neighbours in it.
      const int64_t here = domain / stride;
      inside *= here >= size[axis] ? size[axis] : here > 1 ? here : 1;
    }
    stride *= size[axis];
  }
  if (inside > ranks) inside = ranks;
  const int64_t nodes = (ranks + inside - 1) / inside;
  const int64_t present = stride < domain ? stride : domain;
  const int64_t sharers = present / inside;
  return (ptc_group_shape_t){.ranks = (int32_t)ranks,
                             .per_node = (int32_t)inside,
                             .nodes = (int32_t)nodes,
                             .sharers = (int32_t)(sharers < 1 ? 1 : sharers)};
}

ptc_group_shape_t ptc_send_shape(const ptc_cluster_t *cluster,
                                 const int64_t size[PTC_NUM_DEVICE_AXES], uint32_t axes_mask) {
  ptc_group_shape_t shape = ptc_group_shape(cluster, size, axes_mask);
  if (shape.ranks <= 1) return shape;
  const int64_t domain = domain_devices(cluster);
  shape.ranks = 2;
  if (shape.nodes > 1) {
    // Of a node's devices, those send out that are the last of their chain in it; the others send inside.
    int64_t total = 1;
    for (int axis = 0; axis < PTC_NUM_DEVICE_AXES; axis++) total *= size[axis];
    const int64_t present = total < domain ? total : domain;
    const int64_t sharers = present / shape.per_node;
    shape = (ptc_group_shape_t){2, 1, 2, (int32_t)(sharers < 1 ? 1 : sharers)};
  } else {
    shape.per_node = 2;
  }
  return shape;
}

// --- calibrated times
//
// t = floor + scale * (NCCL's latency) + root * sqrt(S) + S / (eff * NCCL's bandwidth). The root stands for pipelines
// that are not full; it was fitted with the others on nccl-tests (passes/planner/README.md), by kind of link.

typedef struct ramp_s {
  double floor_us, latency_scale, root_us /* per sqrt(MiB) */, eff;
} ramp_t;

static const double mib = 1048576;

// Inside a node: PCIe, NVLink 2 and 3, NVLink 4, NVLink 5.
static ramp_t node_ramp(const ptc_node_model_t *node) {
  if (node->link_busbw < 40e9) return (ramp_t){20, 1, 10, 1};
  if (node->device->arch >= 100) return (ramp_t){20, 1, 11.8, 1};
  if (node->device->arch >= 90) return (ramp_t){10, 1, 8, 1};
  return (ramp_t){25, 1, 18, 1};
}

static ramp_t net_ramp(const ptc_node_model_t *node, double log_nodes) {
  switch (node->fabric) {
    case PTC_FABRIC_EFA: return (ramp_t){100, 1.9, 10 + 25 * log_nodes, 1};
    case PTC_FABRIC_TCPX: return (ramp_t){200, 2, 20 + 10 * log_nodes, .8};
    case PTC_FABRIC_TCP: return (ramp_t){200, 4, 40 + 10 * log_nodes, .8};
    default: return (ramp_t){20, 1, 11 + 4 * log_nodes, 1};
  }
}

static double set_info(ptc_net_info_t *info, ptc_nccl_estimate_t choice, double latency_us,
                       double busbw, double time_us) {
  if (info)
    *info = (ptc_net_info_t){.algo = choice.algo,
                             .proto = choice.proto,
                             .channels = choice.channels,
                             .busbw = busbw,
                             .latency_s = latency_us * 1e-6,
                             .memory_rate = 2 * busbw};
  return time_us * 1e-6;
}

static double pairs_seconds(const ptc_node_model_t *node, ptc_net_kind_t kind,
                            ptc_group_shape_t shape, double bytes, ptc_net_info_t *info) {
  const bool send = kind == PTC_NET_SEND;
  const double ranks = shape.ranks;
  double latency, rate, moved;
  // Links give less to pairs than to rings.
  const double link = node->link_busbw * .87;
  if (shape.nodes <= 1) {
    latency = send ? 10 : 25 + 2 * ranks;
    moved = send ? bytes : bytes * (ranks - 1) / ranks;
    rate = send ? node->link_busbw * .75 : link;
  } else {
    const double nic =
        node->nics * node->nic_rate * node->nic_eff / (most(shape.sharers, 1) * shape.per_node);
    const bool efa = node->fabric == PTC_FABRIC_EFA;
    latency = send ? 20 : (efa ? 190 : 60) + (efa ? 3.9 : 2) * ranks;
    moved = send ? bytes : bytes * (ranks - shape.per_node) / ranks;
    rate = nic;
    if (!send) {
      const double inside = bytes * (shape.per_node - 1) / ranks / link;
      if (inside > moved / rate) moved = inside * rate;
    } else if (node->pcie_rate > 0) {
      rate = least(rate, node->pcie_rate);
    }
  }
  const double time = latency + moved / rate * 1e6;
  const ptc_nccl_estimate_t choice = {
      .algo = PTC_ALGO_PAIRS, .proto = PTC_PROTO_SIMPLE, .channels = send ? 2 : 16};
  return set_info(info, choice, latency, rate, time);
}

double ptc_net_seconds(const ptc_cluster_t *cluster, ptc_net_kind_t kind, ptc_group_shape_t shape,
                       double bytes, ptc_net_info_t *out_info) {
  if (shape.ranks <= 1 || bytes <= 0) {
    if (out_info) *out_info = (ptc_net_info_t){0};
    return 0;
  }
  const ptc_node_model_t *node = &cluster->groups[0].node;
  if (kind == PTC_NET_ALL_TO_ALL || kind == PTC_NET_SEND)
    return pairs_seconds(node, kind, shape, bytes, out_info);
  const ptc_nccl_system_t system = ptc_nccl_system(node, shape);
  const ptc_nccl_estimate_t choice =
      ptc_nccl_estimate(&system, kind, shape.ranks, shape.nodes, bytes);
  const ramp_t ramp = shape.nodes > 1 ? net_ramp(node, log2(shape.nodes)) : node_ramp(node);
  const double latency = ramp.floor_us + ramp.latency_scale * choice.latency_us;
  const double time =
      latency + ramp.root_us * sqrt(bytes / mib) + bytes / (1000 * choice.alg_gbps * ramp.eff);
  const double steps = (shape.ranks - 1) * (kind == PTC_NET_ALL_REDUCE ? 2. : 1.);
  return set_info(out_info, choice, latency, choice.alg_gbps * 1e9 * steps / shape.ranks, time);
}
