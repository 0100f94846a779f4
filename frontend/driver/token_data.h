// Token files for the reference interpreter: the bytes of a file are the tokens, a vocabulary of 256.
#ifndef PTC_FRONTEND_DRIVER_TOKEN_DATA_H_
#define PTC_FRONTEND_DRIVER_TOKEN_DATA_H_

#include "ir/interp.h"

// One source of inputs: `input tokens[b, s] : int from text + 1` has the source "text", offset 1.
typedef struct ptc_token_source_s {
  const char *name;  // not owned
  char *bytes;
  size_t len;
} ptc_token_source_t;

typedef struct ptc_token_data_s {
  ptc_token_source_t *sources;
  int32_t num_sources;
} ptc_token_data_t;

// Reads the files of |specs|, each `SOURCE=FILE`; the texts must outlive the data.
// Diagnostics: "data-option", "cannot-read".
ptc_status_t ptc_token_data_open(ptc_diag_t *diag, const char *const *specs, int32_t num_specs,
                                 ptc_token_data_t *out_data);
void ptc_token_data_close(ptc_token_data_t *data);

// How the windows of a batch are chosen.
typedef enum ptc_token_order_e {
  PTC_TOKENS_RANDOM,      // each sample anywhere: by seed, step and sample alone
  PTC_TOKENS_SEQUENTIAL,  // one after the other without overlap; |step| counts batches
} ptc_token_order_t;

// Checks that |data| can fill the inputs of |module|: every one of them has two dims or more, the
// samples first; its source is given; the file is long enough; its bytes lie in the range.
// Diagnostics: "data-missing", "data-shape", "data-short", "data-range", "data-unknown".
ptc_status_t ptc_token_data_check(const ptc_token_data_t *data, ptc_module_t *module);
// Fills all inputs: sample j of an input is a window of its source, shifted by its offset; inputs of
// one source share the windows.
void ptc_token_data_fill(const ptc_token_data_t *data, ptc_interp_t *interp, ptc_module_t *module,
                         ptc_token_order_t order, uint64_t seed, int64_t step);
// Whole batches in the shortest source, for the sequential order.
int64_t ptc_token_data_num_batches(const ptc_token_data_t *data, const ptc_module_t *module);

#endif  // PTC_FRONTEND_DRIVER_TOKEN_DATA_H_
