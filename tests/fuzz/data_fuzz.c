// Proves: no data file crashes its reader or makes it look outside of the file; what is filled in lies in the
// input's range. An input is two bytes that choose format and shape, then the file.
#include <stdlib.h>
#include <string.h>

#include "runtime/data.h"
#include "runtime/data_source.h"
#include "tests/support/memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NUM_STEPS = 6, MAX_VALUES = 64 };

static void check_source(const ptc_data_source_t *source) {
  for (int32_t i = 0; i < source->num_shards; i++) {
    const ptc_data_shard_t *shard = &source->shards[i];
    const unsigned char *end = shard->mapping.data + shard->mapping.bytes;
    if (shard->data < shard->mapping.data || shard->data > end || shard->count < 0 ||
        shard->count > (end - shard->data) / ptc_cell_bytes(source->cell))
      abort();
  }
}

static void check_batches(ptc_diag_t *diag, const ptc_data_t *data, const ptc_data_input_t *inputs,
                          ptc_data_order_t order) {
  int64_t batches = ptc_data_num_batches(data);
  for (int64_t step = 0; step < NUM_STEPS; step++)
    for (int32_t i = 0; i < 2; i++) {
      int64_t values[MAX_VALUES], samples;  // room for each dtype
      ptc_status_t status = ptc_data_fill(data, diag, 7, step, i, values, &samples);
      if (status != PTC_OK) continue;
      if (order == PTC_DATA_IN_ORDER && (samples > 0) != (step < batches)) abort();
      for (int64_t k = 0; inputs[i].dtype == PTC_I64 && k < inputs[i].shape[0] * inputs[i].shape[1];
           k++)
        if (values[k] >= inputs[i].range || (!inputs[i].ignorable && values[k] < 0)) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static const char *const formats[] = {"", ":bytes", ":u16", ":u32", ":i32", ":npy", ":llm.c", ""};
  if (size < 2) return 0;
  memory_file_t file = memory_file_open(bytes + 2, size - 2);
  char spec[64];
  snprintf(spec, sizeof(spec), "text=%s%s", file.path, formats[bytes[0] % 8]);
  const char *specs[] = {spec, spec};
  const int32_t num_specs = bytes[0] & 8 ? 2 : 1;  // as two shards
  const ptc_data_order_t order = bytes[0] & 16 ? PTC_DATA_IN_ORDER : PTC_DATA_SHUFFLED;
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_data_sources_t sources;
  if (ptc_data_sources_open(&diag, specs, num_specs, &sources) == PTC_OK) {
    check_source(&sources.sources[0]);
    ptc_data_sources_close(&sources);
  } else if (!diag.num_errors) {
    abort();
  }
  ptc_data_input_t inputs[2] = {{.name = "x",
                                 .source = "text",
                                 .dtype = bytes[0] & 32 ? PTC_F32 : PTC_I64,
                                 .num_dims = 2,
                                 .shape = {1 + bytes[1] % 4, 1 + bytes[1] / 4 % 8},
                                 .range = 200}};
  inputs[1] = inputs[0];
  inputs[1].offset = bytes[1] / 32 % 4;
  inputs[1].ignorable = bytes[1] & 128;
  ptc_data_options_t options = {"--data", specs, num_specs, inputs, 2, order};
  ptc_data_t *data;
  const int64_t before = diag.num_errors;
  if (ptc_data_open(&diag, &options, &data) == PTC_OK)
    check_batches(&diag, data, inputs, order);
  else if (diag.num_errors == before)
    abort();
  ptc_data_close(data);
  ptc_diag_deinit(&diag);
  memory_file_close(&file);
  return 0;
}
