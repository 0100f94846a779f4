#include "frontend/driver/token_data.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/str.h"

// --- files

ptc_status_t ptc_token_data_open(ptc_diag_t *diag, const char *const *specs, int32_t num_specs,
                                 ptc_token_data_t *out_data) {
  *out_data = (ptc_token_data_t){0};
  out_data->sources = ptc_xmalloc((size_t)(num_specs + 1) * sizeof(*out_data->sources));
  for (int32_t i = 0; i < num_specs; i++) {
    const char *equals = strchr(specs[i], '=');
    if (!equals || equals == specs[i])
      return ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "data-option",
                       "\"%s\" does not name a source and its file (SOURCE=FILE)", specs[i]);
    ptc_token_source_t *source = &out_data->sources[out_data->num_sources];
    *source = (ptc_token_source_t){.name = specs[i]};
    if (ptc_read_file(equals + 1, &source->bytes, &source->len) != PTC_OK)
      return ptc_error(diag, (ptc_loc_t){.file = equals + 1}, PTC_IO, "cannot-read",
                       "cannot read the file: %s", strerror(errno));
    out_data->num_sources++;
  }
  return PTC_OK;
}

void ptc_token_data_close(ptc_token_data_t *data) {
  for (int32_t i = 0; i < data->num_sources; i++) free(data->sources[i].bytes);
  free(data->sources);
  *data = (ptc_token_data_t){0};
}

// A source's name ends at the `=` of its option.
static bool is_named(const ptc_token_source_t *source, const char *name) {
  size_t len = strlen(name);
  return strncmp(source->name, name, len) == 0 && source->name[len] == '=';
}

static const ptc_token_source_t *find(const ptc_token_data_t *data, const char *name) {
  for (int32_t i = 0; i < data->num_sources; i++)
    if (is_named(&data->sources[i], name)) return &data->sources[i];
  return NULL;
}

// --- windows

// What the inputs of one source need of it.
typedef struct extent_s {
  int64_t samples, length;  // the most of any input
  int64_t first, last;      // smallest and largest offset
} extent_t;

static const char *source_of(const ptc_global_t *input) {
  return ptc_attrs_string(&input->attrs, "source", NULL);
}

static int64_t offset_of(const ptc_global_t *input) {
  return ptc_attrs_int(&input->attrs, "offset", 0);
}

// Elements of one sample.
static int64_t length_of(const ptc_global_t *input) {
  return input->type->dims[0].extent
             ? ptc_type_num_elements(input->type) / input->type->dims[0].extent
             : 0;
}

static bool is_from(const ptc_global_t *global, const ptc_token_source_t *source) {
  const char *name = global->kind == PTC_GLOBAL_INPUT ? source_of(global) : NULL;
  return name && is_named(source, name);
}

static extent_t measure(const ptc_module_t *module, const ptc_token_source_t *source) {
  extent_t extent = {.first = INT32_MAX, .last = INT32_MIN};
  for (int64_t g = 0; g < module->num_globals; g++) {
    const ptc_global_t *input = module->globals[g];
    if (!is_from(input, source)) continue;
    int64_t offset = offset_of(input), length = length_of(input);
    if (input->type->dims[0].extent > extent.samples) extent.samples = input->type->dims[0].extent;
    if (length > extent.length) extent.length = length;
    if (offset < extent.first) extent.first = offset;
    if (offset > extent.last) extent.last = offset;
  }
  return extent;
}

// Positions at which a window can begin: its elements at every offset lie in the file.
static int64_t num_starts(const ptc_token_source_t *source, const extent_t *extent) {
  return (int64_t)source->len - (extent->length + extent->last - extent->first) + 1;
}

// --- checks

static ptc_status_t check_input(const ptc_token_data_t *data, ptc_module_t *module,
                                const ptc_global_t *input) {
  const char *name = source_of(input);
  if (!name) return PTC_OK;  // drawn, not read
  const ptc_token_source_t *source = find(data, name);
  if (!source)
    return ptc_error(module->diag, input->loc, PTC_INVALID_INPUT, "data-missing",
                     "input \"%s\" comes from \"%s\"; give --data %s=FILE", input->path, name,
                     name);
  if (input->type->num_dims < 2 || !ptc_dtype_is_int(input->type->dtype) || input->type->num_counts)
    return ptc_error(module->diag, input->loc, PTC_INVALID_INPUT, "data-shape",
                     "input \"%s\" cannot be read from bytes: it must hold integers, with the "
                     "samples as its first of two dims or more",
                     input->path);
  extent_t extent = measure(module, source);
  if (num_starts(source, &extent) < 1)
    return ptc_error(module->diag, input->loc, PTC_INVALID_INPUT, "data-short",
                     "source \"%s\" has %zu bytes; a sample takes %" PRId64, name, source->len,
                     extent.length + extent.last - extent.first);
  const int64_t range = ptc_attrs_int(&input->attrs, "range", 256);
  for (size_t i = 0; i < source->len && range < 256; i++)
    if ((unsigned char)source->bytes[i] >= range)
      return ptc_error(module->diag, input->loc, PTC_INVALID_INPUT, "data-range",
                       "byte %zu of source \"%s\" is %d; input \"%s\" takes values in [0, %" PRId64
                       ")",
                       i, name, (unsigned char)source->bytes[i], input->path, range);
  return PTC_OK;
}

ptc_status_t ptc_token_data_check(const ptc_token_data_t *data, ptc_module_t *module) {
  ptc_status_t status = PTC_OK;
  for (int64_t g = 0; g < module->num_globals; g++) {
    if (module->globals[g]->kind != PTC_GLOBAL_INPUT) continue;
    ptc_status_t checked = check_input(data, module, module->globals[g]);
    if (checked != PTC_OK) status = checked;
  }
  for (int32_t i = 0; i < data->num_sources; i++) {
    const ptc_token_source_t *source = &data->sources[i];
    if (measure(module, source).length == 0)
      status = ptc_error(module->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "data-unknown",
                         "no input of model \"%s\" comes from the source of --data %s",
                         module->name, source->name);
  }
  return status;
}

// --- batches

static void fill_input(const ptc_token_source_t *source, ptc_tensor_t *tensor, int64_t length,
                       int64_t shift, const int64_t *starts) {
  for (int64_t i = 0; i < tensor->num_elements; i++) {
    int64_t at = starts[i / length] + shift + i % length;
    tensor->data[i] = (unsigned char)source->bytes[at];
  }
}

static void fill_source(const ptc_token_source_t *source, ptc_interp_t *interp,
                        ptc_module_t *module, ptc_token_order_t order, uint64_t seed,
                        int64_t step) {
  extent_t extent = measure(module, source);
  const int64_t choices = num_starts(source, &extent);
  if (extent.length == 0 || choices < 1) return;
  int64_t *starts = ptc_xmalloc((size_t)(extent.samples + 1) * sizeof(*starts));
  const uint32_t hash = ptc_path_hash("data.window", NULL, 0);
  for (int64_t j = 0; j < extent.samples; j++) {
    if (order == PTC_TOKENS_SEQUENTIAL) {
      starts[j] = (step * extent.samples + j) * extent.length % choices;
    } else {
      uint64_t high = ptc_philox(seed, 2 * (uint64_t)j, (uint32_t)step, hash);
      uint64_t low = ptc_philox(seed, 2 * (uint64_t)j + 1, (uint32_t)step, hash);
      starts[j] = (int64_t)((high << 32 | low) % (uint64_t)choices);
    }
  }
  for (int64_t g = 0; g < module->num_globals; g++) {
    const ptc_global_t *input = module->globals[g];
    if (is_from(input, source))
      fill_input(source, ptc_interp_global(interp, input), length_of(input),
                 offset_of(input) - extent.first, starts);
  }
  free(starts);
}

void ptc_token_data_fill(const ptc_token_data_t *data, ptc_interp_t *interp, ptc_module_t *module,
                         ptc_token_order_t order, uint64_t seed, int64_t step) {
  for (int32_t i = 0; i < data->num_sources; i++)
    fill_source(&data->sources[i], interp, module, order, seed, step);
}

int64_t ptc_token_data_num_batches(const ptc_token_data_t *data, const ptc_module_t *module) {
  int64_t least = INT64_MAX;
  for (int32_t i = 0; i < data->num_sources; i++) {
    extent_t extent = measure(module, &data->sources[i]);
    if (extent.length == 0) continue;
    int64_t samples = (num_starts(&data->sources[i], &extent) + extent.length - 1) / extent.length;
    if (samples / extent.samples < least) least = samples / extent.samples;
  }
  return least == INT64_MAX ? 0 : least;
}
