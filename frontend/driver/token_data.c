#include "frontend/driver/token_data.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/cell.h"

static ptc_data_input_t input_of(const ptc_module_t *module, const ptc_global_t *global) {
  const char *batch = ptc_attrs_string(&module->config, "batch_dim", "b");
  ptc_data_input_t input = {.name = global->path,
                            .source = ptc_attrs_string(&global->attrs, "source", NULL),
                            .loc = global->loc,
                            .dtype = global->type->dtype,
                            .num_dims = global->type->num_dims,
                            .batch_dim = -1,
                            .offset = ptc_attrs_int(&global->attrs, "offset", 0),
                            .range = ptc_attrs_int(&global->attrs, "range", 0),
                            .ignorable = ptc_attrs_bool(&global->attrs, "ignorable", false)};
  for (int32_t d = 0; d < input.num_dims; d++) {
    input.shape[d] = global->type->dims[d].extent;
    if (strcmp(global->type->dims[d].name, batch) == 0) input.batch_dim = d;
  }
  return input;
}

ptc_status_t ptc_token_data_open(ptc_module_t *module, const char *flag, const char *const *specs,
                                 int32_t num_specs, ptc_data_order_t order,
                                 ptc_token_data_t *out_data) {
  *out_data = (ptc_token_data_t){0};
  const size_t most = (size_t)module->num_globals + 1;
  ptc_data_input_t *inputs = ptc_xmalloc(most * sizeof(*inputs));
  out_data->inputs = ptc_xmalloc(most * sizeof(*out_data->inputs));
  for (int64_t g = 0; g < module->num_globals; g++) {
    const ptc_global_t *global = module->globals[g];
    if (global->kind != PTC_GLOBAL_INPUT || !ptc_attrs_find(&global->attrs, "source")) continue;
    inputs[out_data->num_inputs] = input_of(module, global);
    out_data->inputs[out_data->num_inputs++] = global;
  }
  ptc_data_options_t options = {.flag = flag,
                                .specs = specs,
                                .num_specs = num_specs,
                                .inputs = inputs,
                                .num_inputs = out_data->num_inputs,
                                .order = order};
  ptc_status_t status = ptc_data_open(module->diag, &options, &out_data->data);
  free(inputs);
  if (status != PTC_OK) ptc_token_data_close(out_data);
  return status;
}

void ptc_token_data_close(ptc_token_data_t *data) {
  ptc_data_close(data->data);
  free(data->inputs);
  *data = (ptc_token_data_t){0};
}

ptc_status_t ptc_token_data_fill(const ptc_token_data_t *data, ptc_interp_t *interp,
                                 ptc_module_t *module, uint64_t seed, int64_t step,
                                 int64_t *out_samples) {
  ptc_status_t status = PTC_OK;
  *out_samples = 0;
  for (int32_t i = 0; i < data->num_inputs && status == PTC_OK; i++) {
    ptc_tensor_t *tensor;
    PTC_TRY(ptc_interp_whole(interp, data->inputs[i], &tensor));
    const ptc_dtype_t dtype = tensor->type->dtype;
    void *values = ptc_xmalloc((size_t)(tensor->num_elements * ptc_dtype_bytes(dtype)) + 1);
    int64_t samples;
    status = ptc_data_fill(data->data, module->diag, seed, step, i, values, &samples);
    if (samples > *out_samples) *out_samples = samples;
    if (status == PTC_OK)
      ptc_cell_convert(ptc_cell_of_dtype(dtype), values, PTC_F64, tensor->data,
                       tensor->num_elements);
    ptc_interp_spread(interp, data->inputs[i]);
    free(values);
  }
  return status;
}
