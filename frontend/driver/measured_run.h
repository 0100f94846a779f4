// A measured training run of another framework, as a row of a CSV file tells it (columns: README.md).
#ifndef PTC_FRONTEND_DRIVER_MEASURED_RUN_H_
#define PTC_FRONTEND_DRIVER_MEASURED_RUN_H_

#include "frontend/driver/csv_table.h"
#include "ir/base/str.h"
#include "ir/cluster.h"
#include "passes/planner/choice.h"
#include "passes/planner/predict.h"

// A decoder, as the row's columns give it.
typedef struct ptc_run_shape_s {
  int64_t layers, d, heads, kv_heads, head_dim, ffn, vocab, seq, batch;
  int64_t experts, topk, expert_ffn, shared_experts;
  enum { PTC_FFN_GELU, PTC_FFN_GATED, PTC_FFN_SQUARED_RELU } ffn_kind;
  int64_t window;  // of every second layer's attention; 0: none
  bool clamps;     // experts have biases, and bounds before their gate
  bool tied, dropout;
} ptc_run_shape_t;

typedef struct ptc_measured_run_s {
  const char *id, *source, *group, *quality, *model, *precision, *gpu;
  int32_t line;
  ptc_run_shape_t shape;
  ptc_choice_t choice;  // names of tp are not set; micro_batch 0: the row does not say
  bool recompute_unknown;
  int64_t devices, devices_per_node;
  double nic_rate;  // bytes/s per device, one way; 0: the catalog's
  const ptc_stack_t *stack;
  double step_s, memory_bytes;  // measured; 0: not given
  enum {
    PTC_MEMORY_USED,      // of the device: all that is taken
    PTC_MEMORY_RESERVED,  // by PyTorch's allocator
    PTC_MEMORY_ALLOCATED  // of that, for tensors
  } memory_kind;
  bool memory_of_last;  // of the last rank, not of the one that needs most
  const char *reason;   // why it cannot be expressed; NULL: it can
} ptc_measured_run_t;

// The rows of |table|, of either form: the columns of published training runs, or the short form of single models (id,
// setup, n_gpus, ..., step_time_ms). |stack|: NULL, or the stack of all rows. Everything in |arena|.
ptc_status_t ptc_measured_runs_read(ptc_diag_t *diag, ptc_arena_t *arena,
                                    const ptc_csv_table_t *table, const ptc_stack_t *stack,
                                    ptc_measured_run_t **out_runs, int32_t *out_count);

typedef struct ptc_measured_catalog_s {
  ptc_device_model_t **devices;
  ptc_cluster_t **clusters;
  int32_t num_devices, num_clusters;
} ptc_measured_catalog_t;
ptc_status_t ptc_measured_catalog_read(ptc_diag_t *diag, ptc_arena_t *arena,
                                       ptc_measured_catalog_t *out);

// Its devices on as many nodes as it takes, in |arena|. NULL: the device is not in the catalog.
const ptc_cluster_t *ptc_measured_run_cluster(const ptc_measured_catalog_t *catalog,
                                              ptc_arena_t *arena, const ptc_measured_run_t *run);

// Its model as the text of a .ptm file.
void ptc_measured_run_model(const ptc_measured_run_t *run, ptc_str_t *out);

#endif  // PTC_FRONTEND_DRIVER_MEASURED_RUN_H_
