// Splits over a mesh, as a config says them, and what a partitioned module must compute.
#ifndef PTC_TESTS_SUPPORT_MESH_CASE_H_
#define PTC_TESTS_SUPPORT_MESH_CASE_H_

#include "tests/support/small_models.h"

// Sizes of 0 are 1; strings may be NULL: nothing is said.
typedef struct mesh_setup_s {
  int dp, ep, cp, tp, zero, micro_batch;
  bool sequence_parallel;
  const char *recompute, *cp_attention, *cp_order;
  const char *seq;  // of the model; NULL: its own
} mesh_setup_t;

// Into the config of a module that no pass has seen.
void mesh_setup_apply(ptc_module_t *module, const mesh_setup_t *setup);
void mesh_setup_describe(const char *model, const mesh_setup_t *setup, char out[160]);

// Whether the model, partitioned so, computes on the devices of the mesh what it computes on one: losses, gradients, new
// states, in exact arithmetic. Checked; what differs is printed.
bool mesh_case_compare(const small_model_t *model, const mesh_setup_t *setup);

#endif  // PTC_TESTS_SUPPORT_MESH_CASE_H_
