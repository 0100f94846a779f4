// Data files for the reference interpreter: the batches that the runtime gives a plan, as its numbers.
#ifndef PTC_FRONTEND_DRIVER_TOKEN_DATA_H_
#define PTC_FRONTEND_DRIVER_TOKEN_DATA_H_

#include "ir/interp.h"
#include "runtime/data.h"

typedef struct ptc_token_data_s {
  ptc_data_t *data;
  const ptc_global_t **inputs;  // what each input of |data| fills
  int32_t num_inputs;
} ptc_token_data_t;

// Opens the files of |specs| for the inputs of |module| that come from a source. |flag|: the option that gave
// them. Diagnostics: those of runtime/data.h.
ptc_status_t ptc_token_data_open(ptc_module_t *module, const char *flag, const char *const *specs,
                                 int32_t num_specs, ptc_data_order_t order,
                                 ptc_token_data_t *out_data);
void ptc_token_data_close(ptc_token_data_t *data);
// Fills all inputs for |step|; |out_samples| are real. Diagnostics: "data-range".
ptc_status_t ptc_token_data_fill(const ptc_token_data_t *data, ptc_interp_t *interp,
                                 ptc_module_t *module, uint64_t seed, int64_t step,
                                 int64_t *out_samples);

#endif  // PTC_FRONTEND_DRIVER_TOKEN_DATA_H_
