#include <jansson.h>
#include <math.h>
#include <string.h>

#include "ir/base/vec.h"
#include "runtime/mapping.h"
#include "runtime/metrics_impl.h"

// --- one line

typedef struct line_s {
  ptc_arena_t *arena;
  const json_t *nonfinite;
} line_t;

// A number, or null with what it was. False: neither.
static bool read_number(const line_t *line, const char *group, const char *name,
                        const json_t *value, double *out) {
  *out = NAN;
  if (json_is_number(value)) {
    *out = json_number_value(value);
    return true;
  }
  if (!json_is_null(value)) return false;
  const char *key = group ? ptc_arena_printf(line->arena, "%s.%s", group, name) : name;
  const char *what = json_string_value(json_object_get(line->nonfinite, key));
  if (what && strcmp(what, "inf") == 0) *out = INFINITY;
  if (what && strcmp(what, "-inf") == 0) *out = -INFINITY;
  return true;
}

static bool read_group(const line_t *line, json_t *root, const char *group,
                       const ptc_metrics_number_t **out_numbers, int32_t *out_count) {
  json_t *object = json_object_get(root, group), *value;
  const char *name;
  if (!object) return true;
  if (!json_is_object(object)) return false;
  ptc_metrics_number_t *numbers =
      PTC_ARENA_ARRAY(line->arena, ptc_metrics_number_t, json_object_size(object));
  *out_numbers = numbers;
  json_object_foreach(object, name, value) {
    ptc_metrics_number_t *number = &numbers[(*out_count)++];
    number->name = ptc_arena_strdup(line->arena, name);
    if (!read_number(line, group, name, value, &number->value)) return false;
  }
  return true;
}

static bool read_optional(const line_t *line, const json_t *root, const char *name, double *out) {
  const json_t *value = json_object_get(root, name);
  return !value || read_number(line, NULL, name, value, out);
}

static const char *read_record(const line_t *line, json_t *root, ptc_metrics_record_t *out) {
  const char *kind = json_string_value(json_object_get(root, "kind"));
  const json_t *step = json_object_get(root, "step"), *peak = json_object_get(root, "peak_bytes");
  const json_t *loss = json_object_get(root, "loss");
  *out = (ptc_metrics_record_t){.lr = -1, .step = json_integer_value(step)};
  if (!kind) return "it has no kind";
  if (!json_is_integer(step) || out->step < 0) return "it has no step";
  if (!loss || !read_number(line, NULL, "loss", loss, &out->loss)) return "it has no loss";
  out->kind = ptc_arena_strdup(line->arena, kind);
  if (!read_group(line, root, "losses", &out->losses, &out->num_losses) ||
      !read_group(line, root, "metrics", &out->metrics, &out->num_metrics))
    return "a loss or metric is no number";
  if (!read_optional(line, root, "lr", &out->lr) ||
      !read_optional(line, root, "tokens_per_s", &out->tokens_per_s) ||
      !read_optional(line, root, "seconds", &out->seconds) || (peak && !json_is_integer(peak)))
    return "a figure is no number";
  out->peak_bytes = json_integer_value(peak);
  return NULL;
}

const char *ptc_metrics_parse_line(const char *line, size_t len, ptc_arena_t *arena,
                                   ptc_metrics_record_t *out_record) {
  json_error_t error;
  json_t *root = json_loadb(line, len, JSON_REJECT_DUPLICATES, &error);
  line_t context = {arena, json_object_get(root, "nonfinite")};
  const char *what =
      !json_is_object(root) ? "it is no JSON object" : read_record(&context, root, out_record);
  json_decref(root);
  return what;
}

// --- all lines

ptc_status_t ptc_metrics_parse(ptc_diag_t *diag, const char *path, const char *text, int64_t len,
                               ptc_metrics_t *out_metrics) {
  *out_metrics = (ptc_metrics_t){0};
  PTC_VEC(ptc_metrics_record_t) records = {0};
  ptc_status_t status = PTC_OK;
  const char *end = text + len;
  for (int32_t number = 1; text < end && status == PTC_OK; number++) {
    const char *newline = memchr(text, '\n', (size_t)(end - text));
    if (!newline) break;  // cut off
    ptc_metrics_record_t record;
    const char *what =
        ptc_metrics_parse_line(text, (size_t)(newline - text), &out_metrics->arena, &record);
    if (what)
      status = ptc_error(diag, (ptc_loc_t){path, number, 1}, PTC_INVALID_INPUT, "metrics-line",
                         "this is no line of metrics: %s", what);
    else
      PTC_VEC_PUSH(&records, record);
    text = newline + 1;
  }
  out_metrics->records = PTC_ARENA_ARRAY(&out_metrics->arena, ptc_metrics_record_t, records.len);
  if (records.len)
    memcpy(out_metrics->records, records.data, (size_t)records.len * sizeof(*records.data));
  out_metrics->count = records.len;
  PTC_VEC_FREE(&records);
  if (status != PTC_OK) ptc_metrics_deinit(out_metrics);
  return status;
}

ptc_status_t ptc_metrics_read(ptc_diag_t *diag, const char *path, ptc_metrics_t *out_metrics) {
  *out_metrics = (ptc_metrics_t){0};
  ptc_mapping_t mapping;
  PTC_TRY(ptc_mapping_open(diag, path, &mapping));
  ptc_status_t status =
      ptc_metrics_parse(diag, path, (const char *)mapping.data, mapping.bytes, out_metrics);
  ptc_mapping_close(&mapping);
  return status;
}

void ptc_metrics_deinit(ptc_metrics_t *metrics) {
  ptc_arena_deinit(&metrics->arena);
  *metrics = (ptc_metrics_t){0};
}
