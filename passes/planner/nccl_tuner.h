// NCCL's own model of its collectives (2.30, src/graph/tuning.cc): which algorithm and protocol it takes, and the time
// it believes in. The choice is right; the time is a lower bound (net_cost.h calibrates it).
#ifndef PTC_PASSES_PLANNER_NCCL_TUNER_H_
#define PTC_PASSES_PLANNER_NCCL_TUNER_H_

#include "passes/planner/net_cost.h"

// What the search over the topology found: channels, and the GB/s of one inside a node and between nodes.
typedef struct ptc_nccl_graph_s {
  int32_t channels;
  double bw_intra, bw_inter;
} ptc_nccl_graph_t;

typedef struct ptc_nccl_system_s {
  int32_t arch;  // 70, 80, 90, 100
  bool amd;      // the host's CPU
  bool nvlink;   // else PCIe inside a node
  bool ll128;    // may LL128 be used
  ptc_nccl_graph_t ring, tree;
  ptc_nccl_graph_t nvls, nvls_tree;  // channels 0: none
} ptc_nccl_system_t;

typedef struct ptc_nccl_estimate_s {
  ptc_net_algo_t algo;
  ptc_net_proto_t proto;
  int32_t channels;             // used
  double latency_us, alg_gbps;  // time = latency + bytes / (1000 * alg_gbps), in us
  double time_us;
  double best_gbps;  // the most that any algorithm and protocol has for this size
} ptc_nccl_estimate_t;

// ALL_REDUCE, REDUCE_SCATTER or ALL_GATHER of |bytes| (nccl-tests' S) over |ranks| >= 2 on |nodes|.
ptc_nccl_estimate_t ptc_nccl_estimate(const ptc_nccl_system_t *system, ptc_net_kind_t kind,
                                      int32_t ranks, int32_t nodes, double bytes);

// The closed form of the search over the topology for a group of |shape|.
ptc_nccl_system_t ptc_nccl_system(const ptc_node_model_t *node, ptc_group_shape_t shape);

// NICs of all nodes that the links join.
double ptc_domain_nics(const ptc_node_model_t *node);
// Bus bandwidth of the links for such a group, bytes/s: less where it crosses from one part of a node to another.
double ptc_group_link(const ptc_node_model_t *node, ptc_group_shape_t shape);

#endif  // PTC_PASSES_PLANNER_NCCL_TUNER_H_
