// Training on the reference interpreter: slow on purpose, and what every faster way must agree with.
#ifndef PTC_FRONTEND_DRIVER_TRAIN_H_
#define PTC_FRONTEND_DRIVER_TRAIN_H_

#include "frontend/driver/run_module.h"

typedef struct ptc_train_options_s {
  // `SOURCE=FILE`, the bytes are the tokens (token_data.h): what is trained on, what is held out.
  const char *const *data, *const *val;
  int32_t num_data, num_val;
  int64_t steps;
  int64_t sample;      // bytes to draw at the end, after the prompt; unprintable ones show as ?
  const char *prompt;  // NULL: a newline
  double temperature;  // of sampling; 0: the most likely byte
  bool quiet;          // no progress on stderr
} ptc_train_options_t;

// Initializes (or loads) the state, runs @train |steps| times on batches that follow from the
// module's seed and the step alone, then evaluates on the held-out data with @eval and samples.
// Progress goes to stderr: one line rewritten on a terminal, else a line every two seconds. The last
// step's losses and metrics, the held-out loss and the sample go to |run|->print_to.
// Diagnostics: those of token_data.h and run_module.h, "non-finite-loss", "cannot-sample".
ptc_status_t ptc_train_module(ptc_module_t *module, const ptc_run_options_t *run,
                              const ptc_train_options_t *options);

#endif  // PTC_FRONTEND_DRIVER_TRAIN_H_
