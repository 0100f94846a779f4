// Structural and type rules of the IR.
#ifndef PTC_IR_VERIFY_H_
#define PTC_IR_VERIFY_H_

#include "ir/module.h"

// Checks every rule (dominance, types against shape functions, attributes against the op table,
// regions, function results, state versions, partial values only where linear); one labelled
// diagnostic per violation. Values without a type are an error here (run infer_shapes first).
ptc_status_t ptc_module_verify(ptc_module_t *module);
// Fills missing types; PTC_INVALID_INPUT with diagnostics if one cannot be inferred.
ptc_status_t ptc_module_infer_shapes(ptc_module_t *module);

#endif  // PTC_IR_VERIFY_H_
