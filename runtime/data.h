// The inputs of each step, from data files: which sample stands where follows from seed and step alone, so
// that a run resumes anywhere without a record of what it has read.
//
// A sample of a stream of numbers is a window as long as the longest input; inputs of one source share the
// window, each shifted by its offset. Shuffled, each epoch is a permutation of windows that do not overlap,
// and begins them at a place of its own, so that later epochs cut the text elsewhere; no window spans two
// files. A sample of a .npy with two dims or more is one of its rows. Several sources go together: sample i
// of one belongs to sample i of the other.
#ifndef PTC_RUNTIME_DATA_H_
#define PTC_RUNTIME_DATA_H_

#include "ir/base/diag.h"
#include "ir/type.h"

// An input that the plan wants.
typedef struct ptc_data_input_s {
  const char *name;
  const char *source;  // of the --data option
  ptc_loc_t loc;       // may be zero
  ptc_dtype_t dtype;
  int32_t num_dims;
  int64_t shape[PTC_MAX_DIMS];
  int32_t batch_dim;  // the dim that counts samples; -1: the same values in every step
  int64_t offset;     // numbers by which it is shifted
  int64_t range;      // integers must lie in [0, range); 0: whatever the dtype holds
  bool ignorable;     // negative integers are allowed, too, and fill up a short batch; else 0 does
} ptc_data_input_t;

typedef enum ptc_data_order_e {
  PTC_DATA_SHUFFLED,  // without end
  PTC_DATA_IN_ORDER,  // once, for validation; the last batch may be short
} ptc_data_order_t;

typedef struct ptc_data_options_s {
  const char *flag;          // the option that gives files, for diagnostics: "--data"
  const char *const *specs;  // its values: see ptc_data_sources_open
  int32_t num_specs;
  const ptc_data_input_t *inputs;  // copied, but for the texts, which must outlive the data
  int32_t num_inputs;
  ptc_data_order_t order;
} ptc_data_options_t;

typedef struct ptc_data_s ptc_data_t;

// Opens the files and checks that they can fill all inputs. Diagnostics: those of ptc_data_sources_open;
// "data-missing", "data-unknown" (a source that no input has), "data-shape", "data-short", "data-count" (sources of
// different lengths); then |out_data| is NULL.
ptc_status_t ptc_data_open(ptc_diag_t *diag, const ptc_data_options_t *options,
                           ptc_data_t **out_data);
void ptc_data_close(ptc_data_t *data);  // NULL is allowed

// Samples of one epoch, and the batches that they make, a short one included; 0 if no input has samples.
int64_t ptc_data_num_samples(const ptc_data_t *data);
int64_t ptc_data_num_batches(const ptc_data_t *data);

// Fills input |input| for step |step| (in order: batch |step|, whatever the seed) with row-major values of
// its dtype.
// |out_samples|: how many samples of the batch are real, the rest being filled up. Numbers outside the
// input's range are an error, "data-range". May be called from any thread, with a |diag| of its own.
ptc_status_t ptc_data_fill(const ptc_data_t *data, ptc_diag_t *diag, uint64_t seed, int64_t step,
                           int32_t input, void *out, int64_t *out_samples);

#endif  // PTC_RUNTIME_DATA_H_
