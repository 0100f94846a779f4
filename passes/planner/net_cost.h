// Seconds of one collective over one group of devices.
#ifndef PTC_PASSES_PLANNER_NET_COST_H_
#define PTC_PASSES_PLANNER_NET_COST_H_

#include "ir/cluster.h"
#include "passes/parallel.h"

typedef enum ptc_net_kind_e {
  PTC_NET_ALL_REDUCE,
  PTC_NET_REDUCE_SCATTER,
  PTC_NET_ALL_GATHER,
  PTC_NET_ALL_TO_ALL,
  PTC_NET_SEND,  // one device to another; ranks 2
  PTC_NUM_NET_KINDS
} ptc_net_kind_t;
extern const char *const ptc_net_kind_names[PTC_NUM_NET_KINDS];

// How a group lies on the nodes. A "node" here is a domain of links (a rack of NVL72).
typedef struct ptc_group_shape_s {
  int32_t ranks;     // 1: nothing to do, 0 seconds
  int32_t per_node;  // ranks in one node
  int32_t nodes;
  int32_t
      sharers;  // groups of the same kind, this one included, that use a node's NICs at the same time
  int32_t
      crossing;  // how many such groups cross at the same time from one part of a node (socket) to another; mostly 0
} ptc_group_shape_t;

// The group of the devices that differ in the axes of |axes_mask| (bit PTC_AXIS_TP: 1 << PTC_AXIS_TP) only; size[] as
// in ptc_parallel_t (pp dp ep cp tp, tp innermost). All groups of the mask run at once. For a send along pp: the mask
// of pp, and the shape of the worst pair of neighbours.
ptc_group_shape_t ptc_group_shape(const ptc_cluster_t *cluster,
                                  const int64_t size[PTC_NUM_DEVICE_AXES], uint32_t axes_mask);
ptc_group_shape_t ptc_send_shape(const ptc_cluster_t *cluster,
                                 const int64_t size[PTC_NUM_DEVICE_AXES], uint32_t axes_mask);

typedef enum ptc_net_algo_e {
  PTC_ALGO_RING,
  PTC_ALGO_TREE,
  PTC_ALGO_NVLS,
  PTC_ALGO_NVLS_TREE,
  PTC_ALGO_PAIRS,  // sends and receives: all_to_all, send
  PTC_NUM_ALGOS
} ptc_net_algo_t;
typedef enum ptc_net_proto_e {
  PTC_PROTO_LL,
  PTC_PROTO_LL128,
  PTC_PROTO_SIMPLE,
  PTC_NUM_PROTOS
} ptc_net_proto_t;

typedef struct ptc_net_info_s {
  ptc_net_algo_t algo;
  ptc_net_proto_t proto;
  int32_t channels;    // SMs that it takes
  double busbw;        // bytes/s, as nccl-tests counts
  double latency_s;    // the part that does not depend on bytes
  double memory_rate;  // bytes/s of the device's memory that it takes meanwhile
} ptc_net_info_t;

// |bytes|: the whole buffer, nccl-tests' S (all_reduce: the operand; all_gather: the result; reduce_scatter: the
// operand; all_to_all: the operand of one device; send: the message). |out_info| may be NULL. Takes about 0.2 us.
double ptc_net_seconds(const ptc_cluster_t *cluster, ptc_net_kind_t kind, ptc_group_shape_t shape,
                       double bytes, ptc_net_info_t *out_info);

#endif  // PTC_PASSES_PLANNER_NET_COST_H_
