#include "passes/planner/net_cost.h"

#include <math.h>

#include "passes/planner/net_cost_impl.h"

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

// A group that may lie anywhere waits for the slowest kind of node.
static const ptc_node_model_t *slowest_node(const ptc_cluster_t *cluster) {
  const ptc_node_model_t *slowest = &cluster->groups[0].node;
  for (int32_t i = 1; i < cluster->num_groups; i++) {
    const ptc_node_model_t *node = &cluster->groups[i].node;
    if (node->nics * node->nic_rate < slowest->nics * slowest->nic_rate) slowest = node;
  }
  return slowest;
}

ptc_group_shape_t ptc_group_shape(const ptc_cluster_t *cluster,
                                  const int64_t size[PTC_NUM_DEVICE_AXES], uint32_t axes_mask) {
  const int64_t domain = domain_devices(cluster);
  const ptc_node_model_t *node = &cluster->groups[0].node;
  const int64_t island = node->link_islands > 1 ? node->devices / node->link_islands : INT64_MAX;
  int64_t stride = 1, ranks = 1, inside = 1;
  bool crosses = false;
  for (int axis = PTC_NUM_DEVICE_AXES - 1; axis >= 0; axis--) {
    if (axes_mask & 1u << axis) {
      ranks *= size[axis];
      // A group that begins anywhere in a node has at least this many neighbours in it.
      const int64_t here = domain / stride;
      const int64_t near = here >= size[axis] ? size[axis] : here > 1 ? here : 1;
      inside *= near;
      crosses |= near > 1 && stride * near > island;
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
                             .crossing = crosses ? (int32_t)(present / inside) : 0,
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
    shape = (ptc_group_shape_t){
        .ranks = 2, .per_node = 1, .nodes = 2, .sharers = (int32_t)(sharers < 1 ? 1 : sharers)};
  } else {
    shape.per_node = 2;
  }
  return shape;
}

// --- calibrated times
//
// NCCL's own model gives algorithm, latency and bandwidth; what a caller sees is a linear form of these and of two
// square roots, with coefficients by kind of link (inside a node) or network. How well it does: README.md.

// In the order of ptc_net_term_t.
typedef double row_t[PTC_NUM_TERMS];

typedef enum link_class_e {
  LINK_PCIE,
  LINK_NVLINK3,
  LINK_NVLINK4,
  LINK_NVLINK5,
  NUM_LINKS
} link_class_t;

// PCIe and pairs of NVLink 4 and 5 are not fitted, but scaled from NVLink 3.
static const row_t link_rows[NUM_LINKS] = {[LINK_PCIE] = {23, 1.2, 0, 20, 0, 1},
                                           [LINK_NVLINK3] = {23.4, 1.21, 0, 13.1, 0, 1.009},
                                           [LINK_NVLINK4] = {28.9, 0, 0, 7.88, 0, .99},
                                           [LINK_NVLINK5] = {0, 2.97, 0, 5.01, 0, 1.056}};
static const row_t link_pair_rows[NUM_LINKS] = {[LINK_PCIE] = {64, 0, 0, 20, 0, 1},
                                                [LINK_NVLINK3] = {64, 0, 0, 7.8, 0, 1},
                                                [LINK_NVLINK4] = {64, 0, 0, 5.2, 0, 1},
                                                [LINK_NVLINK5] = {64, 0, 0, 2.6, 0, 1}};

// all_reduce over nodes; the trees of switches that add are a little better than planned.
static const row_t net_rows[PTC_NUM_FABRICS] = {[PTC_FABRIC_IB] = {0, 0, 52.9, 10.1, 3.52, 1},
                                                [PTC_FABRIC_EFA] = {105, 0, 108, 0, 16.4, 1},
                                                [PTC_FABRIC_TCPX] = {105, 0, 108, 0, 16.4, 1.1},
                                                [PTC_FABRIC_TCP] = {200, 0, 200, 40, 16, 1.2}};
static const double switch_tree_bytes = .91;
// all_gather and reduce_scatter over nodes are rings: their steps count. IB, TCPX, TCP: not fitted.
static const row_t net_ring_rows[PTC_NUM_FABRICS] = {[PTC_FABRIC_IB] = {20, 1, 0, 0, 0, 1},
                                                     [PTC_FABRIC_EFA] = {0, 1.8, 0, 0, 0, 1.046},
                                                     [PTC_FABRIC_TCPX] = {50, 2, 0, 0, 0, 1.1},
                                                     [PTC_FABRIC_TCP] = {100, 4, 0, 0, 0, 1.2}};
static const row_t net_pair_rows[PTC_NUM_FABRICS] = {[PTC_FABRIC_IB] = {60, 2, 0, 0, 0, 1},
                                                     [PTC_FABRIC_EFA] = {59, 1, 0, 0, 24.9, .93},
                                                     [PTC_FABRIC_TCPX] = {200, 5, 0, 0, 0, 1},
                                                     [PTC_FABRIC_TCP] = {300, 10, 0, 0, 0, 1}};
static const row_t link_send_row = {10, 0, 0, 0, 0, 1}, net_send_row = {20, 0, 0, 0, 0, 1};

// What pairs reach of a ring's bandwidth: all_to_all of 8 A100, H100 and B200; send and receive of two.
static const double pair_link_eff = .88, send_link_eff = .75;
// A step of a ring with full-size messages (NCCL's table, Simple), in us: over NVLink, PCIe and the network.
static const double step_nvlink = 3.4, step_pcie = 5.7, step_net = 14;

static const double mib = 1048576;

static link_class_t link_class(const ptc_node_model_t *node) {
  if (node->link_busbw < 40e9) return LINK_PCIE;
  return node->device->arch >= 100  ? LINK_NVLINK5
         : node->device->arch >= 90 ? LINK_NVLINK4
                                    : LINK_NVLINK3;
}

static ptc_fabric_t fabric_of(const ptc_node_model_t *node) {
  return node->fabric == PTC_FABRIC_NONE ? PTC_FABRIC_TCP : node->fabric;
}

// NCCL takes at most this many SMs.
enum { MAX_CHANNELS = 32 };

static void set_info(ptc_net_info_t *info, ptc_net_algo_t algo, ptc_net_proto_t proto,
                     int32_t channels, double busbw) {
  if (!info) return;
  *info = (ptc_net_info_t){.algo = algo,
                           .proto = proto,
                           .channels = channels < MAX_CHANNELS ? channels : MAX_CHANNELS,
                           .busbw = busbw,
                           // Each byte on the bus is read and written.
                           .memory_rate = 2 * busbw};
}

// all_to_all, send: everybody to everybody, NICs shared by all devices of a node.
static const double *pair_terms(const ptc_node_model_t *node, ptc_net_kind_t kind,
                                ptc_group_shape_t shape, double bytes, row_t terms,
                                ptc_net_info_t *info) {
  const bool send = kind == PTC_NET_SEND;
  const double link = ptc_group_link(node, shape) * (send ? send_link_eff : pair_link_eff);
  double seconds, rate;
  if (shape.nodes <= 1) {
    const double moved = send ? bytes : bytes * (shape.ranks - 1) / shape.ranks;
    rate = link;
    seconds = moved / rate;
  } else {
    rate = ptc_domain_nics(node) * node->nic_rate * node->nic_eff /
           (most(shape.sharers, 1) * shape.per_node);
    if (node->pcie_rate > 0) rate = least(rate, node->pcie_rate);
    const double moved = send ? bytes : bytes * (shape.ranks - shape.per_node) / shape.ranks;
    const double inside = send ? 0 : bytes * (shape.per_node - 1) / shape.ranks;
    seconds = most(moved / rate, inside / link);
  }
  terms[PTC_TERM_ONE] = 1;
  terms[PTC_TERM_LATENCY] = shape.ranks;
  terms[PTC_TERM_ROOT] = sqrt(bytes / mib);
  if (shape.nodes > 1) terms[PTC_TERM_ROOT_LOG] = log2(shape.nodes) * terms[PTC_TERM_ROOT];
  terms[PTC_TERM_BYTES] = seconds * 1e6;
  set_info(info, PTC_ALGO_PAIRS, PTC_PROTO_SIMPLE, send ? 2 : 16, rate);
  if (shape.nodes > 1) return send ? net_send_row : net_pair_rows[fabric_of(node)];
  return send ? link_send_row : link_pair_rows[link_class(node)];
}

// Ranks of one machine without accelerators: they meet, and copy and add in its memory. What counts are the bytes that a
// rank reads from its peers.
static const double *shared_memory_terms(const ptc_node_model_t *node, ptc_net_kind_t kind,
                                         ptc_group_shape_t shape, double bytes, row_t terms,
                                         ptc_net_info_t *info) {
  static const row_t row = {[PTC_TERM_LATENCY] = 1, [PTC_TERM_BYTES] = 1};
  const double ranks = shape.ranks, part = (ranks - 1) / ranks;
  const double moved = kind == PTC_NET_SEND ? 1 : kind == PTC_NET_ALL_REDUCE ? 2 * part : part;
  terms[PTC_TERM_LATENCY] = node->link_latency * 1e6 * ceil(log2(ranks));
  terms[PTC_TERM_BYTES] = bytes * moved / node->link_busbw * 1e6;
  set_info(info, PTC_ALGO_PAIRS, PTC_PROTO_SIMPLE, 1, node->link_busbw);
  return row;
}

const double *ptc_net_terms(const ptc_cluster_t *cluster, ptc_net_kind_t kind,
                            ptc_group_shape_t shape, double bytes, double out_terms[PTC_NUM_TERMS],
                            ptc_net_info_t *out_info) {
  const ptc_node_model_t *node = slowest_node(cluster);
  for (int i = 0; i < PTC_NUM_TERMS; i++) out_terms[i] = 0;
  if (node->device->arch <= 0 && shape.nodes <= 1)
    return shared_memory_terms(node, kind, shape, bytes, out_terms, out_info);
  if (kind == PTC_NET_ALL_TO_ALL || kind == PTC_NET_SEND)
    return pair_terms(node, kind, shape, bytes, out_terms, out_info);
  const ptc_nccl_system_t system = ptc_nccl_system(node, shape);
  const ptc_nccl_estimate_t choice =
      ptc_nccl_estimate(&system, kind, shape.ranks, shape.nodes, bytes);
  const double steps = (shape.ranks - 1) * (kind == PTC_NET_ALL_REDUCE ? 2. : 1.);
  set_info(out_info, choice.algo, choice.proto, choice.channels,
           choice.alg_gbps * 1e9 * steps / shape.ranks);
  out_terms[PTC_TERM_ONE] = 1;
  out_terms[PTC_TERM_LATENCY] = choice.latency_us;
  out_terms[PTC_TERM_ROOT] = sqrt(bytes / mib);
  out_terms[PTC_TERM_BYTES] = bytes / (1000 * choice.alg_gbps);
  if (shape.nodes <= 1) return link_rows[link_class(node)];
  const double logs = log2(shape.nodes);
  out_terms[PTC_TERM_LOG] = logs;
  out_terms[PTC_TERM_ROOT_LOG] = logs * out_terms[PTC_TERM_ROOT];
  if (kind == PTC_NET_ALL_REDUCE) {
    // The logarithms stand for all latency, so that the protocols of small messages have no say here.
    out_terms[PTC_TERM_BYTES] = bytes / (1000 * choice.best_gbps);
    if (system.nvls_tree.channels >= 2) out_terms[PTC_TERM_BYTES] *= switch_tree_bytes;
    return net_rows[fabric_of(node)];
  }
  const double step = link_class(node) == LINK_PCIE ? step_pcie : step_nvlink;
  out_terms[PTC_TERM_LATENCY] = (shape.ranks - shape.nodes) * step + (shape.nodes - 1) * step_net;
  // The ring's planned bandwidth, whatever protocol small messages take.
  const double ring = system.ring.channels * system.ring.bw_inter;
  out_terms[PTC_TERM_BYTES] = bytes / (1000 * ring * shape.ranks / steps);
  return net_ring_rows[fabric_of(node)];
}

double ptc_net_seconds(const ptc_cluster_t *cluster, ptc_net_kind_t kind, ptc_group_shape_t shape,
                       double bytes, ptc_net_info_t *out_info) {
  if (shape.ranks <= 1 || bytes <= 0) {
    if (out_info) *out_info = (ptc_net_info_t){0};
    return 0;
  }
  row_t terms;
  const double *row = ptc_net_terms(cluster, kind, shape, bytes, terms, out_info);
  double us = 0;
  for (int i = 0; i < PTC_NUM_TERMS; i++) us += row[i] * terms[i];
  if (out_info) out_info->latency_s = (us - row[PTC_TERM_BYTES] * terms[PTC_TERM_BYTES]) * 1e-6;
  return us * 1e-6;
}
