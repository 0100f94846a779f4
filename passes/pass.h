// The pass manager: runs passes over a module, checks their contracts, verifies after each one.
#ifndef PTC_PASSES_PASS_H_
#define PTC_PASSES_PASS_H_

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ir/module.h"

// What holds of a module; kept in module->properties.
//       id          text
#define PTC_PROPERTIES(X)                                                                    \
  X(SHAPED, "shaped")       /* every value has its type */                                   \
  X(CANONICAL, "canonical") /* no rule of canonicalize, cse or dce applies */                \
  X(PRECISION, "precision") /* computes in the dtype that config precision asks for */       \
  X(BACKWARD, "backward")   /* train returns the gradient of every parameter that it uses */ \
  X(OPTIMIZER, "optimizer") /* train returns the new state of every trained parameter */     \
  X(MICRO, "micro")         /* the batch is split as config micro_batch asks */              \
  X(RECOMPUTE, "recompute") /* saved values are those that config recompute asks for */      \
  X(PARTITION, "partition") /* values lie on the devices of the mesh, as config asks for */  \
  X(FUSED, "fused")         /* every op says how it is executed (passes/build_kernels.h) */

typedef enum ptc_property_bit_e {
#define PTC_PROPERTY_BIT(id, text) PTC_PROPERTY_BIT_##id,
  PTC_PROPERTIES(PTC_PROPERTY_BIT)
#undef PTC_PROPERTY_BIT
      PTC_NUM_PROPERTIES
} ptc_property_bit_t;

typedef enum ptc_property_e {
  PTC_PROPERTY_NONE = 0,
#define PTC_PROPERTY(id, text) PTC_PROPERTY_##id = 1 << PTC_PROPERTY_BIT_##id,
  PTC_PROPERTIES(PTC_PROPERTY)
#undef PTC_PROPERTY
} ptc_property_t;

// All zero is the default: silent, verifying.
typedef struct ptc_pass_options_s {
  const char *print_after;  // a pass's name or "all": print the module after it
  FILE *print_to;           // where; NULL: stderr
  bool print_locations;
  const char *stop_after;  // a pass's name: later passes of the pipeline do nothing
  bool print_pipeline;     // one line per pass that runs, to print_to
  bool no_verify;          // skip the verifier after each pass
  bool no_fusion;          // fuse: every op is a kernel of its own
  bool keep_grads;         // optimizer: gradients stay results of the function
  bool check_semantics;    // interpret before and after each pass and compare (check_semantics.h)
  uint64_t check_seed;     // of the random inputs of that comparison
  // choose-mesh asks it, with |planner|, to fill the config (passes/planner/planner.h); NULL: a rule without a model of the
  // hardware.
  ptc_status_t (*choose)(void *planner, ptc_module_t *module);
  void *planner;
} ptc_pass_options_t;

typedef struct ptc_pass_ctx_s {
  ptc_pass_options_t options;
  ptc_arena_t scratch;  // reset after every pass
  bool stopped;         // stop_after was reached
} ptc_pass_ctx_t;

// Returns PTC_OK, or a status with a diagnostic in module->diag.
typedef ptc_status_t (*ptc_pass_fn_t)(ptc_pass_ctx_t *ctx, ptc_module_t *module);

typedef struct ptc_pass_info_s {
  const char *name;  // "infer-shapes"
  ptc_pass_fn_t run;
  uint32_t needs, establishes, destroys;  // ptc_property_t
  const char *summary;
} ptc_pass_info_t;

void ptc_pass_ctx_init(ptc_pass_ctx_t *ctx, const ptc_pass_options_t *options);  // NULL: defaults
void ptc_pass_ctx_deinit(ptc_pass_ctx_t *ctx);

// The rows of passes.def in order; NULL beyond the last.
const ptc_pass_info_t *ptc_pass_at(int32_t index);
const ptc_pass_info_t *ptc_pass_find(const char *name);  // NULL if there is none

// Adds to module->properties what can be read off the module itself (types, gradients, new state,
// the micro axis): for modules that were parsed from text.
void ptc_module_derive_properties(ptc_module_t *module);

// Runs one pass: checks what it needs (id "pass-order"), runs it, updates the properties, verifies,
// prints as the options say. Does nothing once ctx->stopped.
// An unknown name is PTC_INVALID_INPUT (id "unknown-pass").
ptc_status_t ptc_pass_run(ptc_pass_ctx_t *ctx, ptc_module_t *module, const char *name);

// The pipelines (pipelines.c). All parameters come from module->config.
// From a lowered model to the training step of one device on the whole batch.
ptc_status_t ptc_pipeline_step(ptc_pass_ctx_t *ctx, ptc_module_t *module);
// From a lowered model to the training step of one device: the whole standard pipeline.
ptc_status_t ptc_pipeline_train(ptc_pass_ctx_t *ctx, ptc_module_t *module);

// One function per row: ptc_pass_infer_shapes, ...
#define PTC_PASS(fn, ...) ptc_status_t ptc_pass_##fn(ptc_pass_ctx_t *ctx, ptc_module_t *module);
#include "passes/passes.def"
#undef PTC_PASS

#endif  // PTC_PASSES_PASS_H_
