// What a program runs on: device types, nodes and networks, as plain numbers. Rates are in units per second, sizes in
// bytes, times in seconds; bandwidths are one way. 0 means "not known" unless said otherwise. The frontend fills it in
// (frontend/cluster.h); the planner's cost model reads it.
#ifndef PTC_IR_CLUSTER_H_
#define PTC_IR_CLUSTER_H_

#include <stdbool.h>
#include <stdint.h>

typedef enum ptc_precision_e {
  PTC_PREC_F32,
  PTC_PREC_TF32,
  PTC_PREC_F16,
  PTC_PREC_BF16,
  PTC_PREC_FP8,
  PTC_PREC_FP4,
  PTC_NUM_PRECS
} ptc_precision_t;
extern const char *const ptc_precision_names[PTC_NUM_PRECS];  // "f32", "tf32", ...

// No device in particular: operations and bytes take their time, and nothing else does.
enum { PTC_ARCH_ANY = -1 };

// One device type. All efficiencies are fractions of the peak or rate beside them, properties of the device that were
// fitted on measured kernels (passes/planner/README.md).
typedef struct ptc_device_model_s {
  const char *name;
  int32_t arch;  // 70, 80, 90, 100: compute capability; 0: a CPU; 1: another accelerator; PTC_ARCH_ANY
  int32_t sms;   // of a CPU: hardware threads of one rank
  double peak[PTC_NUM_PRECS];  // dense FLOP/s; 0: the device does not have it
  double memory_bytes, memory_rate, l2_bytes, shared_bytes, clock, power;
  double launch_s;  // of one kernel, when the queue is never empty
  double price_per_hour;
  // Matrix products: the best tile reaches |gemm_eff| of the peak after |gemm_settle_s| of work (heat, power), and
  // |gemm_burst_eff| at first; each tile costs |gemm_tile_s| besides.
  double gemm_eff, gemm_burst_eff, gemm_settle_s, gemm_tile_s;
  // Attention: fraction of the 16-bit peak that a long row reaches, by head dim 64, 128, 256; rows at which it is half
  // of that.
  double attention_eff[3], attention_grad_eff[3], attention_half;
  // Memory-bound kernels: fraction of memory_rate; bytes in flight after which half of it is reached.
  double memory_eff, memory_half_bytes;
} ptc_device_model_t;

typedef enum ptc_fabric_e {
  PTC_FABRIC_NONE,  // one node
  PTC_FABRIC_IB,    // InfiniBand, RoCE: kernel bypass, GPUDirect
  PTC_FABRIC_EFA,   // AWS
  PTC_FABRIC_TCPX,  // GPUDirect over TCP offload
  PTC_FABRIC_TCP,   // sockets
  PTC_NUM_FABRICS
} ptc_fabric_t;

typedef struct ptc_node_model_s {
  const ptc_device_model_t *device;
  int32_t devices;
  // Links inside a node (or a scale-up domain): per device.
  const char *link_name;
  double link_rate, link_latency;  // specification
  double link_busbw;               // bus bandwidth that a ring over the whole node reaches
  int32_t link_domain;    // devices that reach one another over links; may span nodes (NVL72)
  int32_t link_channels;  // of the ring over the node; each takes one SM
  int32_t link_islands;   // parts of a node (sockets) between which links are slower; 1: none
  double link_across;     // bus bandwidth of a ring that joins them
  bool link_switched;     // every pair has the full rate; else a mesh or bridges
  bool link_reduces;      // the switch adds (NVLink SHARP)
  // The network between nodes.
  const char *net_name;
  ptc_fabric_t fabric;
  double nic_rate;  // per NIC
  int32_t nics;     // per node
  double nic_eff;   // fraction of nic_rate that large messages reach
  double net_latency;
  bool net_reduces;  // SHARP in the network's switches
  // Host.
  double host_bytes, host_rate, pcie_rate, nvme_read_rate, nvme_write_rate;
  bool host_amd;  // CPU vendor: NCCL's overheads differ
} ptc_node_model_t;

enum { PTC_MAX_NODE_GROUPS = 16 };

typedef struct ptc_cluster_group_s {
  ptc_node_model_t node;
  int32_t nodes;
} ptc_cluster_group_t;

// Devices are numbered through: group by group, node by node. Nodes of one group are alike; several groups are mixed
// device types or uneven nodes.
typedef struct ptc_cluster_s {
  const char *name;
  int32_t num_groups;
  ptc_cluster_group_t groups[PTC_MAX_NODE_GROUPS];
  int64_t num_devices;
} ptc_cluster_t;

#endif  // PTC_IR_CLUSTER_H_
