#include "passes/planner/nccl_tuner.h"

#include <math.h>

// Rows: Volta, Ampere, Hopper, Blackwell. Columns: one node, two, more.
static const double ll_max[4][3] = {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}};
static const double ring_ll128[4][3] = {
    {20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {40, 40, 40}};
static const double tree_ll128[4][3] = {
    {20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}};
static const double tree_bw[4][3] = {
    {26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}};
static const double nvls_tree_bw[4][3] = {
    {26.5, 18.5, 10}, {24, 23.6, 17.8}, {0, 57.7, 45.5}, {0, 96, 80}};
static const double nvls_eff[4] = {0, 0, .85, .74};

// Microseconds, by protocol: LL, LL128, Simple.
typedef double by_proto_t[PTC_NUM_PROTOS];
static const by_proto_t ring_base = {6.6, 14, 8.4}, tree_base = {6.8, 14, 8.4};
static const by_proto_t ring_nvlink = {.6, 1.9, 3.4}, tree_nvlink = {.6, 1.25, 4};
static const by_proto_t ring_pci = {1, 2.5, 5.7}, tree_pci = {1, 1.9, 4};
static const by_proto_t ring_net = {2.7, 4, 14}, tree_net = {5, 8.5, 14};
enum { NVLS_INTRA_US = 25, NVLS_NET_US = 18, NVLS_TREE_INTRA_US = 25 };
static const double nvls_tree_net_us = 20.9;

// Of the bandwidth of a tree, by floor(log2(bytes / 64)).
enum { NUM_CORRECTIONS = 24 };
static const double tree_correction[PTC_NUM_PROTOS][NUM_CORRECTIONS] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
     .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}};

static int32_t arch_row(int32_t arch) {
  return arch >= 100 ? 3 : arch >= 90 ? 2 : arch >= 80 ? 1 : 0;
}

static int32_t floor_log2(int64_t value) {
  return value < 1 ? 0 : 63 - __builtin_clzll((uint64_t)value);
}

static double least(double a, double b) { return a < b ? a : b; }
static double most(double a, double b) { return a > b ? a : b; }

// The channels that a message of |bytes| is worth.
static int32_t used_channels(int32_t channels, ptc_net_algo_t algo, ptc_net_proto_t proto,
                             int32_t ranks, double bytes) {
  const int32_t threads = proto == PTC_PROTO_SIMPLE ? 512 : 640;
  int32_t threshold = proto == PTC_PROTO_SIMPLE ? 64 : 8;
  if (proto == PTC_PROTO_LL && algo == PTC_ALGO_RING) threshold *= ranks;
  const double each = (double)threads * threshold;
  while (channels > 1 && bytes < channels * each) channels--;
  return channels;
}

typedef struct query_s {
  const ptc_nccl_system_t *system;
  ptc_net_kind_t kind;
  int32_t ranks, nodes, per_node, row, column, steps;
  double bytes;
} query_t;

static ptc_nccl_estimate_t finish(const query_t *q, ptc_nccl_graph_t graph, ptc_net_algo_t algo,
                                  ptc_net_proto_t proto, double latency, double gbps) {
  return (ptc_nccl_estimate_t){
      .algo = algo,
      .proto = proto,
      .channels = used_channels(graph.channels, algo, proto, q->ranks, q->bytes),
      .latency_us = latency,
      .alg_gbps = gbps,
      .time_us = latency + q->bytes / (1000 * gbps)};
}

static double bus(const query_t *q, ptc_nccl_graph_t graph) {
  return graph.channels * (q->nodes <= 2 ? graph.bw_intra : graph.bw_inter);
}

static double ll_limit(const query_t *q) {
  if (q->nodes == 1) return ll_max[q->row][0];
  return ll_max[q->system->amd ? 1 : 0][q->column];
}

static ptc_nccl_estimate_t ring(const query_t *q, ptc_net_proto_t proto) {
  const ptc_nccl_graph_t graph = q->system->ring;
  double bw = bus(q, graph);
  if (proto == PTC_PROTO_LL) bw = least(ll_limit(q), .5 * bw);
  if (proto == PTC_PROTO_LL128)
    bw = least(.92 * bw, graph.channels * ring_ll128[q->row][q->column]);
  const double intra = (q->system->nvlink ? ring_nvlink : ring_pci)[proto];
  const double inter = (q->per_node == 1 ? tree_net : ring_net)[proto];
  double overhead = q->nodes == 1 ? 0 : q->system->amd ? 2 : 1;
  if (proto == PTC_PROTO_SIMPLE) overhead *= 3;
  const int32_t hops = (q->nodes - 1) * (q->kind == PTC_NET_ALL_REDUCE ? 2 : 1);
  double latency = ring_base[proto] + (q->steps - hops) * most(intra, overhead) + hops * inter;
  if (proto == PTC_PROTO_SIMPLE && q->kind == PTC_NET_ALL_REDUCE && q->nodes > 1 &&
      q->bytes / ((double)graph.channels * q->ranks) >= 64)
    latency *= q->row == 0 ? 1.9 : 1.4;
  return finish(q, graph, PTC_ALGO_RING, proto, latency, bw * q->ranks / q->steps);
}

static ptc_nccl_estimate_t tree(const query_t *q, ptc_net_proto_t proto) {
  const ptc_nccl_graph_t graph = q->system->tree;
  double bw = least(.92 * bus(q, graph), graph.channels * tree_bw[q->row][q->column]);
  if (proto == PTC_PROTO_LL) bw = least(bw / 3.8, ll_limit(q));
  if (proto == PTC_PROTO_LL128)
    bw = least(bw * (q->nodes == 1 ? 7. / 9 : 120. / 128),
               graph.channels * tree_ll128[q->row][q->column]);
  const double intra = (q->system->nvlink ? tree_nvlink : tree_pci)[proto];
  const double latency =
      tree_base[proto] + 2 * ((q->per_node - 1) * intra + floor_log2(q->nodes) * tree_net[proto]);
  const int32_t size = floor_log2((int64_t)(q->bytes / 64));
  if (size < NUM_CORRECTIONS) bw *= tree_correction[proto][size];
  return finish(q, graph, PTC_ALGO_TREE, proto, latency, .5 * bw);
}

static ptc_nccl_estimate_t nvls(const query_t *q, bool as_tree) {
  const ptc_nccl_graph_t graph = as_tree ? q->system->nvls_tree : q->system->nvls;
  double bw = graph.bw_intra * nvls_eff[q->row] * (graph.channels - 1) / graph.channels;
  bw *= q->kind == PTC_NET_ALL_REDUCE ? 2 : (q->per_node - 1.) / q->per_node;
  if (q->nodes > 1) bw = least(bw, graph.bw_inter * (as_tree && q->nodes <= 2 ? 2 : 1));
  if (as_tree) bw = least(bw, nvls_tree_bw[q->row][q->column]);
  bw *= graph.channels;
  double latency = as_tree ? NVLS_TREE_INTRA_US + 2 * floor_log2(q->nodes) * nvls_tree_net_us
                           : NVLS_INTRA_US + (q->nodes > 1 ? NVLS_NET_US : 0);
  if (q->kind == PTC_NET_ALL_REDUCE) bw = bw * q->ranks / q->steps;
  return finish(q, graph, as_tree ? PTC_ALGO_NVLS_TREE : PTC_ALGO_NVLS, PTC_PROTO_SIMPLE, latency,
                bw);
}

static void take_better(ptc_nccl_estimate_t *best, ptc_nccl_estimate_t other) {
  const double gbps = most(best->best_gbps, other.alg_gbps);
  if (other.time_us < best->time_us) *best = other;
  best->best_gbps = gbps;
}

ptc_nccl_estimate_t ptc_nccl_estimate(const ptc_nccl_system_t *system, ptc_net_kind_t kind,
                                      int32_t ranks, int32_t nodes, double bytes) {
  const query_t q = {.system = system,
                     .kind = kind,
                     .ranks = ranks,
                     .nodes = nodes,
                     .per_node = (ranks + nodes - 1) / nodes,
                     .row = arch_row(system->arch),
                     .column = nodes == 1   ? 0
                               : nodes == 2 ? 1
                                            : 2,
                     .steps = (ranks - 1) * (kind == PTC_NET_ALL_REDUCE ? 2 : 1),
                     .bytes = bytes};
  ptc_nccl_estimate_t best = {.time_us = INFINITY};
  for (ptc_net_proto_t proto = 0; proto < PTC_NUM_PROTOS; proto++) {
    if (proto == PTC_PROTO_LL128 && !system->ll128) continue;
    take_better(&best, ring(&q, proto));
    if (kind == PTC_NET_ALL_REDUCE) take_better(&best, tree(&q, proto));
  }
  if (nodes == 1 && system->nvls.channels >= 2) take_better(&best, nvls(&q, false));
  if (nodes > 1 && kind == PTC_NET_ALL_REDUCE && system->nvls_tree.channels >= 2)
    take_better(&best, nvls(&q, true));
  return best;
}

// --- the topology

// Speeds that the search tries for a channel, in GB/s.
static const double speeds_intra_80[] = {40, 30, 20, 18, 15, 12,  10,  9, 7,
                                         6,  5,  4,  3,  2,  1.2, .24, 0};
static const double speeds_inter_80[] = {48, 30, 28, 24, 20, 18,  15,  12,  10,  9,
                                         7,  6,  5,  4,  3,  2.4, 1.2, .24, .12, 0};
static const double speeds_inter_90[] = {48, 45, 42, 40, 30,  24,  22,  20,  17.5,
                                         15, 12, 6,  3,  2.4, 1.2, .24, .12, 0};
static const double speeds_inter_100[] = {96,   86, 80, 48, 45.1, 42,  40,  30,  24,  22, 20,
                                          17.5, 15, 12, 6,  3,    2.4, 1.2, .24, .12, 0};

static double candidate(const double *speeds, double limit) {
  while (*speeds > limit) speeds++;
  return *speeds > 0 ? *speeds : limit;
}

static ptc_nccl_graph_t node_ring(const ptc_node_model_t *node, double gbps) {
  ptc_nccl_graph_t graph = {.channels = node->link_channels > 0 ? node->link_channels : 2};
  graph.bw_intra = gbps / graph.channels;
  if (node->link_channels <= 0) graph.bw_intra = candidate(speeds_intra_80, graph.bw_intra);
  graph.bw_inter = graph.bw_intra;
  return graph;
}

double ptc_domain_nics(const ptc_node_model_t *node) {
  const double nodes = (double)node->link_domain / most(node->devices, 1);
  return node->nics * most(nodes, 1);
}

double ptc_group_link(const ptc_node_model_t *node, ptc_group_shape_t shape) {
  if (shape.crossing < 1) return node->link_busbw;
  const double across = node->link_across * least(1, 2. / shape.crossing);
  return least(node->link_busbw, across);
}

ptc_nccl_system_t ptc_nccl_system(const ptc_node_model_t *node, ptc_group_shape_t shape) {
  const ptc_device_model_t *device = node->device;
  const double link = ptc_group_link(node, shape) * 1e-9;
  ptc_nccl_system_t system = {.arch = device->arch, .amd = node->host_amd};
  system.nvlink = node->link_busbw >= 40e9;
  system.ll128 = system.nvlink && device->arch >= 70;
  if (shape.nodes <= 1) {
    system.ring = system.tree = node_ring(node, link);
    if (node->link_reduces && device->arch >= 90 && shape.per_node >= 2)
      system.nvls = (ptc_nccl_graph_t){.channels = shape.per_node,
                                       .bw_intra = link * 1.03 / (shape.per_node + 1)};
    return system;
  }
  // One channel per NIC of the group's share; a device with several slow NICs counts as one with a fast one.
  const double share = ptc_domain_nics(node) / most(shape.sharers, 1);
  const double total = share * node->nic_rate * 1e-9;
  const double most_channels = least(share, shape.per_node);
  const int32_t channels = most_channels < 1 ? 1 : (int32_t)(most_channels + .5);
  double limit = total / channels;
  if (node->pcie_rate > 0 && channels >= shape.per_node)
    limit = least(limit, node->pcie_rate * 1e-9);
  if (shape.per_node > 1) limit = least(limit, link * 1.03 / channels);
  const double *speeds = device->arch >= 100  ? speeds_inter_100
                         : device->arch >= 90 ? speeds_inter_90
                                              : speeds_inter_80;
  ptc_nccl_graph_t graph = {.channels = channels, .bw_intra = candidate(speeds, limit)};
  if (graph.bw_intra >= 25 && !(device->arch > 80 && graph.bw_intra < 50 && channels > 4)) {
    graph.channels *= 2;
    graph.bw_intra /= 2;
  }
  graph.bw_inter = graph.bw_intra;
  system.ring = system.tree = graph;
  if (node->link_reduces && device->arch >= 90 && shape.per_node >= 2)
    system.nvls_tree =
        (ptc_nccl_graph_t){.channels = shape.per_node,
                           .bw_intra = link * 1.03 / (shape.per_node + 1),
                           .bw_inter = channels * candidate(speeds, limit) / shape.per_node};
  return system;
}
