// Compares what a module computes before and after a pass, on random inputs.
#ifndef PTC_PASSES_CHECK_SEMANTICS_H_
#define PTC_PASSES_CHECK_SEMANTICS_H_

#include "ir/interp.h"
#include "ir/module.h"

typedef struct ptc_semantics_s ptc_semantics_t;

// Sets every global of |module| in |interp| to a start that depends only on |seed| and the global's
// path: settings and counters to their "value" (loss_scale to 1: gradients of the scaled loss are
// then those of the loss), moments to 0, inputs to random values in their range, parameters to
// normal numbers of deviation 0.3.
void ptc_semantics_fill(ptc_interp_t *interp, const ptc_module_t *module, uint64_t seed);

// Interprets every function of |module| (exact mode) on random globals and keeps the results.
// |out_semantics| is NULL on failure. |module| is not changed.
ptc_status_t ptc_semantics_take(ptc_module_t *module, uint64_t seed,
                                ptc_semantics_t **out_semantics);
void ptc_semantics_destroy(ptc_semantics_t *semantics);  // NULL is allowed

// Interprets |module| again and compares every result that both versions return (values by name,
// state and gradients by global). PTC_INTERNAL with id "pass-semantics" if an element differs by
// more than 1e-9 of the largest one.
ptc_status_t ptc_semantics_compare(const ptc_semantics_t *before, ptc_module_t *module,
                                   const char *pass);

#endif  // PTC_PASSES_CHECK_SEMANTICS_H_
