#include "runtime/data.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data_source.h"
#include "runtime/shuffle.h"

// How one file is cut into samples.
typedef struct cut_s {
  int64_t first;   // number of its first sample within the source
  int64_t count;   // samples
  int64_t phases;  // places where the first may begin; 1: only the start
} cut_t;

// A source that inputs have.
typedef struct feed_s {
  const ptc_data_source_t *source;
  int64_t length;       // numbers of a sample
  int64_t low, high;    // least offset (at most 0) and largest
  int64_t num_samples;  // of all files; 0: only inputs without samples
  cut_t *cuts;          // one per shard
} feed_t;

typedef struct input_s {
  ptc_data_input_t want;
  int32_t feed;
  int64_t batch;         // samples of a step; 1 without a batch dim
  int64_t outer, inner;  // elements around the batch dim: outer x batch x inner
} input_t;

struct ptc_data_s {
  ptc_arena_t arena;
  ptc_data_sources_t sources;
  ptc_data_options_t options;
  feed_t *feeds;
  int32_t num_feeds;
  input_t *inputs;
  int32_t num_inputs;
  int64_t num_samples, batch;
};

// --- opening: inputs

static int64_t length_of(const input_t *input) { return input->outer * input->inner; }

// False if the extents or the offset are beyond any file.
static bool measure_input(input_t *input) {
  const ptc_data_input_t *want = &input->want;
  int64_t total = 1;
  input->outer = input->inner = input->batch = 1;
  for (int32_t d = 0; d < want->num_dims; d++) {
    int64_t *part = d == want->batch_dim  ? &input->batch
                    : d < want->batch_dim ? &input->outer
                                          : &input->inner;
    if (want->shape[d] < 1 || __builtin_mul_overflow(total, want->shape[d], &total)) return false;
    *part *= want->shape[d];
  }
  const int64_t limit = INT64_MAX / 16;
  return total < limit && want->offset < limit && want->offset > -limit;
}

static feed_t *feed_of(ptc_data_t *data, const ptc_data_source_t *source, int32_t *out_index) {
  int32_t i = 0;
  while (i < data->num_feeds && data->feeds[i].source != source) i++;
  *out_index = i;
  if (i == data->num_feeds) {
    data->feeds[i] = (feed_t){.source = source};
    data->num_feeds++;
  }
  return &data->feeds[i];
}

static ptc_status_t unfit(ptc_diag_t *diag, const input_t *input, const char *what) {
  ptc_str_t shape = {0};
  for (int32_t d = 0; d < input->want.num_dims; d++)
    ptc_str_printf(&shape, "%s%" PRId64, d ? ", " : "", input->want.shape[d]);
  ptc_status_t status =
      ptc_error(diag, input->want.loc, PTC_INVALID_INPUT, "data-shape",
                "input \"%s\" [%s] cannot be read from source \"%s\": %s", input->want.name,
                shape.data ? shape.data : "", input->want.source, what);
  ptc_str_deinit(&shape);
  return status;
}

// The samples of a .npy are the input's, or rows that the input is a part of.
static bool fits_sample(const input_t *input, const ptc_data_source_t *source) {
  const ptc_data_input_t *want = &input->want;
  if (source->num_dims == 1)
    return want->offset >= 0 && length_of(input) <= source->row &&
           want->offset <= source->row - length_of(input);
  int32_t dim = 0;
  for (int32_t d = 0; d < want->num_dims; d++) {
    if (d == want->batch_dim) continue;
    if (dim == source->num_dims || source->shape[dim++] != want->shape[d]) return false;
  }
  return dim == source->num_dims && want->offset == 0;
}

static ptc_status_t check_input(ptc_data_t *data, ptc_diag_t *diag, input_t *input) {
  const ptc_data_input_t *want = &input->want;
  const ptc_data_source_t *source = ptc_data_sources_find(&data->sources, want->source);
  if (!source)
    return ptc_error(diag, want->loc, PTC_INVALID_INPUT, "data-missing",
                     "input \"%s\" comes from \"%s\"; give %s %s=FILE", want->name, want->source,
                     data->options.flag, want->source);
  if (ptc_dtype_is_int(want->dtype) && ptc_cell_is_float(source->cell))
    return unfit(diag, input, "the input takes integers, the file has fractions");
  if (!measure_input(input)) return unfit(diag, input, "its extents or its offset are impossible");
  feed_t *feed = feed_of(data, source, &input->feed);
  if (want->batch_dim < 0) {
    if (source->num_shards > 1) return unfit(diag, input, "it has no samples, but several files");
    if (want->offset < 0 || length_of(input) > source->shards[0].count ||
        want->offset > source->shards[0].count - length_of(input))
      return unfit(diag, input, "the file is too short");
    return PTC_OK;
  }
  if (data->batch && data->batch != input->batch)
    return unfit(diag, input, "another input has another number of samples in a step");
  data->batch = input->batch;
  if (source->row && !fits_sample(input, source))
    return unfit(diag, input, "the file's samples have another shape");
  if (length_of(input) > feed->length) feed->length = length_of(input);
  if (want->offset < feed->low) feed->low = want->offset;
  if (want->offset > feed->high) feed->high = want->offset;
  return PTC_OK;
}

// --- opening: samples

// Where windows of |length| numbers begin in |starts| places: |phases| places for the first, such that over
// the epochs every place is one.
static cut_t cut_stream(int64_t starts, int64_t length, bool shifted) {
  cut_t cut = {.phases = 1};
  if (starts < 1) return cut;
  if (!shifted) {
    cut.count = (starts + length - 1) / length;
  } else {
    cut.count = starts < length ? 1 : starts / length;
    cut.phases = starts - (cut.count - 1) * length;
  }
  return cut;
}

static ptc_status_t cut_feed(ptc_data_t *data, ptc_diag_t *diag, feed_t *feed, bool shifted) {
  const ptc_data_source_t *source = feed->source;
  const int64_t needed = feed->length + feed->high - feed->low;
  int64_t longest = 0;
  feed->cuts = PTC_ARENA_ARRAY(&data->arena, cut_t, source->num_shards);
  for (int32_t i = 0; i < source->num_shards; i++) {
    int64_t count = source->shards[i].count;
    cut_t cut = source->row ? (cut_t){.count = count / source->row, .phases = 1}
                            : cut_stream(count - needed + 1, feed->length, shifted);
    cut.first = feed->num_samples;
    feed->cuts[i] = cut;
    feed->num_samples += cut.count;
    if (count > longest) longest = count;
  }
  if (feed->num_samples) return PTC_OK;
  return ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "data-short",
                   "source \"%s\" has %" PRId64
                   " numbers (\"%s\", as %s), but a sample takes %" PRId64
                   "; give a longer file or a shorter sequence",
                   source->name, longest, source->shards[0].path, source->shards[0].format,
                   source->row ? source->row : needed);
}

static ptc_status_t cut_feeds(ptc_data_t *data, ptc_diag_t *diag) {
  int32_t num_sampled = 0;
  for (int32_t i = 0; i < data->num_feeds; i++) num_sampled += data->feeds[i].length > 0;
  // What begins elsewhere in each epoch would belong to no sample of another source.
  const bool shifted = data->options.order == PTC_DATA_SHUFFLED && num_sampled == 1;
  for (int32_t i = 0; i < data->num_feeds; i++) {
    feed_t *feed = &data->feeds[i];
    if (feed->length == 0) continue;
    PTC_TRY(cut_feed(data, diag, feed, shifted));
    if (data->num_samples && data->num_samples != feed->num_samples)
      return ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "data-count",
                       "source \"%s\" has %" PRId64 " samples, the others have %" PRId64
                       "; sample i of each must belong together",
                       feed->source->name, feed->num_samples, data->num_samples);
    data->num_samples = feed->num_samples;
  }
  return PTC_OK;
}

// --- opening

// Every source is wanted; else the diagnostic names those that are.
static ptc_status_t check_sources(const ptc_data_t *data, ptc_diag_t *diag) {
  ptc_str_t wanted = {0};
  for (int32_t i = 0; i < data->num_inputs; i++) {
    const char *source = data->inputs[i].want.source;
    bool again = false;
    for (int32_t k = 0; k < i; k++) again |= strcmp(data->inputs[k].want.source, source) == 0;
    if (!again) ptc_str_printf(&wanted, "%s\"%s\"", wanted.len ? ", " : "", source);
  }
  ptc_status_t status = PTC_OK;
  for (int32_t i = 0; i < data->sources.num_sources; i++) {
    const char *name = data->sources.sources[i].name;
    bool found = false;
    for (int32_t k = 0; k < data->num_inputs; k++)
      found |= strcmp(data->inputs[k].want.source, name) == 0;
    if (!found)
      status = ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "data-unknown",
                         "no input comes from source \"%s\" of %s; the sources are: %s", name,
                         data->options.flag, wanted.len ? wanted.data : "none");
  }
  ptc_str_deinit(&wanted);
  return status;
}

static ptc_status_t open_data(ptc_data_t *data, ptc_diag_t *diag) {
  const ptc_data_options_t *options = &data->options;
  data->inputs = PTC_ARENA_ARRAY(&data->arena, input_t, options->num_inputs);
  data->feeds = PTC_ARENA_ARRAY(&data->arena, feed_t, options->num_inputs);
  data->num_inputs = options->num_inputs;
  for (int32_t i = 0; i < data->num_inputs; i++) data->inputs[i].want = options->inputs[i];
  PTC_TRY(ptc_data_sources_open(diag, options->specs, options->num_specs, &data->sources));
  ptc_status_t status = check_sources(data, diag);
  for (int32_t i = 0; i < data->num_inputs; i++) {
    ptc_status_t checked = check_input(data, diag, &data->inputs[i]);
    if (checked != PTC_OK) status = checked;
  }
  return status == PTC_OK ? cut_feeds(data, diag) : status;
}

ptc_status_t ptc_data_open(ptc_diag_t *diag, const ptc_data_options_t *options,
                           ptc_data_t **out_data) {
  ptc_data_t *data = ptc_xmalloc(sizeof(*data));
  *data = (ptc_data_t){.options = *options};
  ptc_status_t status = open_data(data, diag);
  if (status != PTC_OK) {
    ptc_data_close(data);
    data = NULL;
  }
  *out_data = data;
  return status;
}

void ptc_data_close(ptc_data_t *data) {
  if (!data) return;
  ptc_data_sources_close(&data->sources);
  ptc_arena_deinit(&data->arena);
  free(data);
}

int64_t ptc_data_num_samples(const ptc_data_t *data) { return data->num_samples; }

int64_t ptc_data_num_batches(const ptc_data_t *data) {
  return data->batch ? (data->num_samples + data->batch - 1) / data->batch : 0;
}

// --- filling

// Where the numbers of an input's sample lie.
typedef struct place_s {
  const ptc_data_shard_t *shard;
  int64_t first;  // number within the shard
} place_t;

static const cut_t *find_cut(const feed_t *feed, int64_t sample) {
  int32_t low = 0, high = feed->source->num_shards - 1;
  while (low < high) {
    int32_t middle = low + (high - low + 1) / 2;
    if (feed->cuts[middle].first <= sample)
      low = middle;
    else
      high = middle - 1;
  }
  while (feed->cuts[low].count == 0)
    low--;  // files too short for a sample come after the one meant
  return &feed->cuts[low];
}

static place_t find_place(const ptc_data_t *data, const input_t *input, int64_t sample,
                          uint64_t seed, int64_t epoch) {
  const feed_t *feed = &data->feeds[input->feed];
  const ptc_data_source_t *source = feed->source;
  const cut_t *cut = find_cut(feed, sample);
  const int64_t shard = cut - feed->cuts;
  int64_t first = (sample - cut->first) * (source->row ? source->row : feed->length);
  if (cut->phases > 1) first += ptc_shuffle_draw(seed, epoch, shard, cut->phases);
  return (place_t){&source->shards[shard], first + input->want.offset - feed->low};
}

static ptc_status_t out_of_range(const input_t *input, const feed_t *feed, ptc_diag_t *diag,
                                 const place_t *place, int64_t at, int64_t value) {
  const ptc_data_shard_t *shard = place->shard;
  int64_t byte = shard->data - shard->mapping.data + at * ptc_cell_bytes(feed->source->cell);
  ptc_str_t bound = {0};
  if (input->want.range)
    ptc_str_printf(&bound, "[0, %" PRId64 ")", input->want.range);
  else
    ptc_str_append(&bound, ptc_dtype_name(input->want.dtype));
  ptc_status_t status =
      ptc_error(diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "data-range",
                "\"%s\": number %" PRId64 " (at byte %" PRId64 ") is %" PRId64
                ", but input \"%s\" takes numbers in %s; either the file is not of the model's "
                "vocabulary, or "
                "its format is not %s (say FILE:FORMAT)",
                shard->path, at, byte, value, input->want.name, bound.data, shard->format);
  ptc_str_deinit(&bound);
  return status;
}

// |count| numbers from number |at| of the shard, to |out|.
static ptc_status_t copy(const input_t *input, const feed_t *feed, ptc_diag_t *diag,
                         const place_t *place, int64_t at, int64_t count, unsigned char *out) {
  const ptc_cell_t cell = feed->source->cell;
  const ptc_dtype_t dtype = input->want.dtype;
  const unsigned char *from = place->shard->data + at * ptc_cell_bytes(cell);
  ptc_cell_convert(cell, from, dtype, out, count);
  if (!ptc_dtype_is_int(dtype)) return PTC_OK;
  const bool narrow = dtype == PTC_I32;
  int64_t low = input->want.range ? 0 : narrow ? INT32_MIN : INT64_MIN;
  int64_t high = input->want.range ? input->want.range - 1 : narrow ? INT32_MAX : INT64_MAX;
  if (input->want.ignorable) low = narrow ? INT32_MIN : INT64_MIN;
  for (int64_t i = 0; i < count; i++) {
    int64_t value = ptc_cell_get_int(cell, from + i * ptc_cell_bytes(cell));
    if (value < low || value > high) return out_of_range(input, feed, diag, place, at + i, value);
  }
  return PTC_OK;
}

// Sample |j| of the batch: from |place|, or (NULL) filled up.
static ptc_status_t fill_sample(const ptc_data_t *data, const input_t *input, ptc_diag_t *diag,
                                const place_t *place, int64_t j, unsigned char *out) {
  const int64_t each = ptc_dtype_bytes(input->want.dtype);
  for (int64_t o = 0; o < input->outer; o++) {
    unsigned char *to = out + (o * input->batch + j) * input->inner * each;
    if (place) {
      PTC_TRY(copy(input, &data->feeds[input->feed], diag, place, place->first + o * input->inner,
                   input->inner, to));
    } else {
      // All bits set is -1 in integers.
      bool ignored = input->want.ignorable && ptc_dtype_is_int(input->want.dtype);
      memset(to, ignored ? 0xff : 0, (size_t)(input->inner * each));
    }
  }
  return PTC_OK;
}

ptc_status_t ptc_data_fill(const ptc_data_t *data, ptc_diag_t *diag, uint64_t seed, int64_t step,
                           int32_t index, void *out, int64_t *out_samples) {
  const input_t *input = &data->inputs[index];
  const bool shuffled = data->options.order == PTC_DATA_SHUFFLED;
  *out_samples = 0;
  if (input->want.batch_dim < 0) {
    place_t place = {data->feeds[input->feed].source->shards, input->want.offset};
    *out_samples = 1;
    return fill_sample(data, input, diag, &place, 0, out);
  }
  for (int64_t j = 0; j < input->batch; j++) {
    int64_t number = step * input->batch + j;
    int64_t epoch = number / data->num_samples, sample = number % data->num_samples;
    bool real = shuffled || epoch == 0;
    place_t place = {0};
    if (shuffled) sample = ptc_shuffle(seed, epoch, data->num_samples, sample);
    if (real) place = find_place(data, input, sample, seed, epoch);
    PTC_TRY(fill_sample(data, input, diag, real ? &place : NULL, j, out));
    *out_samples += real;
  }
  return PTC_OK;
}
