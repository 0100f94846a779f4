// Three samples at sizes that divide by nothing: an odd vocabulary and sequence, few key/value heads. All have tied
// embeddings and dropout; where the sample's text has not, it is changed.
#ifndef PTC_TESTS_SUPPORT_COVER_MODELS_H_
#define PTC_TESTS_SUPPORT_COVER_MODELS_H_

#include "frontend/driver/compile.h"

enum { COVER_MODEL_SETTINGS = 8, COVER_MODEL_EDITS = 8, COVER_NUM_MODELS = 3 };
#define COVER_CLIP 0.1  // of the norm of gradients

typedef struct cover_edit_s {
  const char *from, *to;
} cover_edit_t;

// Sizes of a model, for closed forms.
typedef struct cover_sizes_s {
  int d, heads, kv_heads, head_dim, ffn, seq, vocab;
} cover_sizes_t;

typedef struct cover_model_s {
  const char *name, *file;  // file: a sample
  int period;               // layers that a turn of the program has: no cut falls between them
  cover_sizes_t sizes;
  ptc_override_t settings[COVER_MODEL_SETTINGS];  // up to the first without a name
  cover_edit_t edits[COVER_MODEL_EDITS];          // up to the first without a text
} cover_model_t;

extern const cover_model_t cover_models[COVER_NUM_MODELS];

// Lowers |model| with so many layers and samples of a step; |parallel| is an argument of --parallel. NULL, with
// diagnostics printed, on error.
ptc_module_t *cover_model_lower(const cover_model_t *model, int layers, int batch,
                                const char *parallel, ptc_diag_t *diag);

#endif  // PTC_TESTS_SUPPORT_COVER_MODELS_H_
