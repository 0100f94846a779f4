// What the config says about the split over ranks (the parallel block, --parallel, --world).
#ifndef PTC_PASSES_PARALLEL_H_
#define PTC_PASSES_PARALLEL_H_

#include "ir/module.h"

// The device axes of a mesh, outermost first; after them comes the time axis "micro".
typedef enum ptc_device_axis_e {
  PTC_AXIS_PP,
  PTC_AXIS_DP,
  PTC_AXIS_EP,
  PTC_AXIS_CP,
  PTC_AXIS_TP,
  PTC_NUM_DEVICE_AXES
} ptc_device_axis_t;

extern const char *const ptc_device_axis_names[PTC_NUM_DEVICE_AXES];  // "pp", "dp", ...

// How attention meets keys and values whose sequence lies on cp.
typedef enum ptc_cp_attention_e {
  PTC_CP_AUTO,
  PTC_CP_GATHER,     // every device gathers all of them
  PTC_CP_RING,       // blocks of them go round the devices
  PTC_CP_ALL_TO_ALL  // the sequence becomes whole, heads lie on cp instead
} ptc_cp_attention_t;

typedef struct ptc_parallel_s {
  int64_t size[PTC_NUM_DEVICE_AXES];  // >= 1
  int64_t world;                      // their product
  int64_t zero;                       // 0 to 3
  int64_t micro_batch;   // samples of a micro-batch on one device; 0: the whole batch at once
  const char *schedule;  // "1f1b" unless said otherwise
  int64_t chunks;        // of an interleaved schedule; else 1
  bool sequence_parallel;
  ptc_cp_attention_t cp_attention;
  bool balanced;  // device r of cp = c has chunks r and 2 c - 1 - r of the sequence's 2 c
} ptc_parallel_t;

// Reads module->config. An axis that is not given has size 1; but with --world, dp takes what the other axes leave,
// if it is not given. Ids: "world-product" where the axes do not give the world.
ptc_status_t ptc_parallel_read(ptc_module_t *module, ptc_parallel_t *out);

// Whether |name| (interned or not) is an axis of devices, not of time.
bool ptc_axis_is_device(const char *name);

#endif  // PTC_PASSES_PARALLEL_H_
