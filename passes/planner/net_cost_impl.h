// The linear form of a collective's time, for fitting.
#ifndef PTC_PASSES_PLANNER_NET_COST_IMPL_H_
#define PTC_PASSES_PLANNER_NET_COST_IMPL_H_

#include "passes/planner/nccl_tuner.h"

// microseconds = sum over i of coefficient[i] * term[i].
typedef enum ptc_net_term_e {
  PTC_TERM_ONE,
  PTC_TERM_LATENCY,   // of the tuner, or of the ring's steps; of all_to_all and send the ranks
  PTC_TERM_LOG,       // log2 of the nodes
  PTC_TERM_ROOT,      // square root of the MiB: pipelines that are not full
  PTC_TERM_ROOT_LOG,  // times log2 of the nodes
  PTC_TERM_BYTES,     // what the bytes take at the planned bandwidth
  PTC_NUM_TERMS
} ptc_net_term_t;

// The terms of one collective of more than one rank, and the row of coefficients that it uses (constants of
// net_cost.c, fitted by tests/bench/cost_bench.c).
const double *ptc_net_terms(const ptc_cluster_t *cluster, ptc_net_kind_t kind,
                            ptc_group_shape_t shape, double bytes, double out_terms[PTC_NUM_TERMS],
                            ptc_net_info_t *out_info);

#endif  // PTC_PASSES_PLANNER_NET_COST_IMPL_H_
