// Seconds of one kernel on one device, from its shape.
#ifndef PTC_PASSES_PLANNER_KERNEL_COST_H_
#define PTC_PASSES_PLANNER_KERNEL_COST_H_

#include "ir/base/diag.h"
#include "ir/cluster.h"

typedef enum ptc_kw_kind_e {
  PTC_KW_GEMM,
  PTC_KW_GROUPED_GEMM,    // |batch| products of |m| rows each, weights of their own (experts)
  PTC_KW_ATTENTION,       // forward
  PTC_KW_ATTENTION_GRAD,  // the three gradients, scores computed again
  PTC_KW_MEMORY           // elementwise, norms, softmax, gather, optimizer: its bytes
} ptc_kw_kind_t;

// Sizes are those of one device. Zero means 1 for batch, heads, kv_heads; for other fields that the kind needs, no work.
typedef struct ptc_kernel_work_s {
  ptc_kw_kind_t kind;
  ptc_precision_t prec;     // of the operands; of MEMORY without meaning
  int64_t batch, m, n, k;   // GEMM: |batch| products of m x n, summed over k
  bool accumulates_f32;     // GEMM: adds to a result in f32 (a weight gradient over micro-batches)
  int64_t heads, kv_heads;  // attention, of |batch| samples
  int64_t rows, cols;       // its queries and keys
  int64_t qk_dim, v_dim;    // of one head
  bool causal;
  int64_t window;  // keys that a query sees at most; 0: all
  double flops,
      bytes;  // of the whole kernel: operations (what a causal mask hides left out), least bytes
  double
      costly;  // elements of exp, tanh, gelu, ... in it: what the vector loops of a CPU take most time for
  int32_t ops;           // kernels that a framework without fusion launches for it; 0 means 1
  double unfused_bytes;  // what those move; 0: |bytes|
  bool folds;            // casts and broadcasts of activations: parts of other kernels elsewhere
  const char *label;
  ptc_loc_t loc;
  int32_t times;  // for the caller: the functions here return the seconds of one
} ptc_kernel_work_t;

// What a software stack does differently.
typedef struct ptc_kernel_options_s {
  bool unfused;     // |ops| launches and |unfused_bytes| instead of one and |bytes|
  double launch_s;  // cost of a launch that is not hidden; < 0: the device's
  double
      attention_eff;  // of what the device's own attention kernel reaches (FlashAttention 2 on Hopper: .57); 0: 1
  bool unfused_attention;  // scores and probabilities go through memory
} ptc_kernel_options_t;

// |options| may be NULL: fused, the device's launch cost. Includes the launch(es); does not depend on |times|. Takes
// about 0.2 us.
double ptc_kernel_seconds(const ptc_device_model_t *device, const ptc_kernel_work_t *work,
                          const ptc_kernel_options_t *options);
// What it takes at least, all parts together, when more devices share it: its seconds without what tiles, waves and
// misaligned rows lose. At most ptc_kernel_seconds.
double ptc_kernel_floor(const ptc_device_model_t *device, const ptc_kernel_work_t *work,
                        const ptc_kernel_options_t *options);

// FLOPs of it: |flops| if given, else from the shape.
double ptc_kernel_flops(const ptc_kernel_work_t *work);

#endif  // PTC_PASSES_PLANNER_KERNEL_COST_H_
