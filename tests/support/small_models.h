// The samples at small sizes, for tests that run whole models on the interpreter.
#ifndef PTC_TESTS_SUPPORT_SMALL_MODELS_H_
#define PTC_TESTS_SUPPORT_SMALL_MODELS_H_

#include "frontend/driver/compile.h"

enum { SMALL_MODEL_SETTINGS = 20 };

typedef struct small_model_s {
  const char *name, *file;                        // file: relative to the source folder
  ptc_override_t settings[SMALL_MODEL_SETTINGS];  // up to the first without a name
} small_model_t;

extern const small_model_t small_models[];
extern const int num_small_models;

// NULL if there is none of that name.
const small_model_t *small_model_find(const char *name);
// Lowers |model| with |more| overrides after its own. NULL, with diagnostics printed, on error.
ptc_module_t *small_model_lower(const small_model_t *model, const ptc_override_t *more,
                                int num_more, ptc_diag_t *diag);

#endif  // PTC_TESTS_SUPPORT_SMALL_MODELS_H_
