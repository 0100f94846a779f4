// plan.json: what the runtime must know of a plan beside its steps. Members and entries stand one per line;
// what has its default value is left out.
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/plan_text_impl.h"

// --- writing

static void append_text(ptc_str_t *out, const char *text) {
  json_t *string = json_string(text);
  if (!string) {  // not UTF-8
    char *copy = strdup(text);
    if (!copy) ptc_oom(strlen(text));
    for (char *c = copy; *c; ++c)
      if ((unsigned char)*c > 0x7e) *c = '?';
    string = json_string(copy);
    free(copy);
  }
  char *dumped = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
  if (!dumped) ptc_oom(strlen(text));
  ptc_str_append(out, dumped);
  free(dumped);
  json_decref(string);
}

static void append_number(ptc_str_t *out, double value) {
  if (isfinite(value)) {
    ptc_str_append_double(out, value == 0 ? 0 : value);
  } else {
    ptc_str_append(out, "\"");
    ptc_str_append_double(out, value);
    ptc_str_append(out, "\"");
  }
}

// `"name": `, after a comma unless it is the first member.
static void begin_member(ptc_str_t *out, const char *name) {
  if (out->data[out->len - 1] != '{') ptc_str_append(out, ", ");
  ptc_str_printf(out, "\"%s\": ", name);
}

static void put_text(ptc_str_t *out, const char *name, const char *value) {
  if (!value) return;
  begin_member(out, name);
  append_text(out, value);
}

static void put_int(ptc_str_t *out, const char *name, int64_t value, int64_t otherwise) {
  if (value == otherwise) return;
  begin_member(out, name);
  ptc_str_printf(out, "%" PRId64, value);
}

static void put_flag(ptc_str_t *out, const char *name, bool value) {
  if (!value) return;
  begin_member(out, name);
  ptc_str_append(out, "true");
}

static void put_number(ptc_str_t *out, const char *name, double value) {
  if (value == 0) return;
  begin_member(out, name);
  append_number(out, value);
}

static void print_global(ptc_str_t *out, const ptc_plan_global_t *global) {
  put_text(out, "path", global->path);
  put_text(out, "kind", global->kind);
  put_int(out, "buffer", global->buffer, -1);
  put_int(out, "first_instance", global->first_instance, 0);
  if (global->num_counts) {
    begin_member(out, "turns");  // count, first, step of each
    for (int32_t i = 0; i < global->num_counts; ++i)
      ptc_str_printf(out, "%s[%" PRId64 ", %" PRId64 ", %" PRId64 "]", i ? ", " : "[",
                     global->counts[i], global->first[i], global->step[i]);
    ptc_str_append(out, "]");
  }
  put_text(out, "source", global->source);
  put_int(out, "offset", global->offset, 0);
  put_int(out, "range", global->range, 0);
  put_int(out, "batch_dim", global->batch_dim, -1);
  put_flag(out, "ignorable", global->ignorable);
  put_text(out, "dist", global->dist);
  put_number(out, "a", global->a);
  put_number(out, "b", global->b);
  put_number(out, "value", global->value);
}

static void print_setting(ptc_str_t *out, const ptc_plan_setting_t *setting) {
  put_text(out, "name", setting->name);
  put_text(out, "value", setting->value);
  put_text(out, "origin", setting->origin);
  put_flag(out, "open", setting->open);
  put_text(out, "global", setting->global);
}

static void print_head(const ptc_plan_t *plan, ptc_str_t *out) {
  ptc_str_printf(out, "{\n\"version\": %d,\n\"model\": ", PTC_PLAN_VERSION);
  append_text(out, plan->model);
  ptc_str_append(out, ",\n\"target\": ");
  append_text(out, plan->target);
  ptc_str_append(out, ",\n\"compiler_flags\": ");
  append_text(out, plan->compiler_flags);
  if (plan->mesh.num_axes) ptc_str_append(out, ",\n\"mesh\": [");
  for (int32_t a = 0; a < plan->mesh.num_axes; ++a)
    ptc_str_printf(out, "%s[\"%s\", %" PRId64 "]", a ? ", " : "", plan->mesh.axes[a].name,
                   plan->mesh.axes[a].size);
  if (plan->mesh.num_axes) ptc_str_append(out, "]");
  if (plan->num_stages > 1) ptc_str_printf(out, ",\n\"stage\": %" PRId32, plan->stage);
  ptc_str_printf(out,
                 ",\n\"arena_bytes\": %" PRId64 ",\n\"bound_bytes\": %" PRId64
                 ",\n\"batch\": %" PRId64 ",\n\"seq\": %" PRId64 ",\n\"flops_per_step\": ",
                 plan->arena_bytes, plan->bound_bytes, plan->batch, plan->seq);
  append_number(out, plan->flops_per_step);
}

void ptc_plan_print_json(const ptc_plan_t *plan, ptc_str_t *out) {
  print_head(plan, out);
  ptc_str_append(out, ",\n\"hashes\": {");
  for (int32_t i = 0; i < plan->num_kernels; ++i) {
    ptc_str_printf(out, "%s\n\"%s\": ", i ? "," : "", plan->kernels[i].name);
    append_text(out, plan->kernels[i].hash ? plan->kernels[i].hash : "");
  }
  ptc_str_append(out, "\n},\n\"globals\": [");
  for (int32_t i = 0; i < plan->num_globals; ++i) {
    ptc_str_append(out, i ? ",\n{" : "\n{");
    print_global(out, &plan->globals[i]);
    ptc_str_append(out, "}");
  }
  ptc_str_append(out, "\n],\n\"settings\": [");
  for (int32_t i = 0; i < plan->num_settings; ++i) {
    ptc_str_append(out, i ? ",\n{" : "\n{");
    print_setting(out, &plan->settings[i]);
    ptc_str_append(out, "}");
  }
  ptc_str_append(out, "\n]\n}\n");
}

// --- reading

typedef struct reader_s {
  ptc_diag_t *diag;
  ptc_plan_t *plan;
  const char *text;
  size_t len;
  int32_t line;  // of the entry that is read
} reader_t;

#define FAULT(id, ...)                                                                     \
  ptc_error(r->diag, (ptc_loc_t){r->plan->json_file, r->line, 1}, PTC_INVALID_INPUT, (id), \
            __VA_ARGS__)

typedef enum field_kind_e {
  FIELD_TEXT,
  FIELD_INT,
  FIELD_INT32,
  FIELD_NUMBER,
  FIELD_BOOL,
  FIELD_ANY
} field_kind_t;

// A member: where its value goes. FIELD_ANY: the json_t itself.
typedef struct field_s {
  const char *name;
  field_kind_t kind;
  bool required;
  void *out;
} field_t;

static ptc_status_t read_number(const reader_t *r, const field_t *field, const json_t *value) {
  double *out = field->out;
  const char *word = json_string_value(value);
  if (word && (strcmp(word, "inf") == 0 || strcmp(word, "-inf") == 0 || strcmp(word, "nan") == 0))
    *out = strtod(word, NULL);
  else if (json_is_number(value))
    *out = json_number_value(value);
  else
    return FAULT("plan-json", "\"%s\" is no number", field->name);
  return PTC_OK;
}

static ptc_status_t read_int(const reader_t *r, const field_t *field, const json_t *value) {
  const int64_t max = field->kind == FIELD_INT32 ? INT32_MAX : INT64_C(1) << 62;
  const int64_t number = json_integer_value(value);
  if (!json_is_integer(value) || number < -max || number > max)
    return FAULT("plan-json", "\"%s\" is no whole number of at most %" PRId64, field->name, max);
  if (field->kind == FIELD_INT32)
    *(int32_t *)field->out = (int32_t)number;
  else
    *(int64_t *)field->out = number;
  return PTC_OK;
}

static ptc_status_t read_field(const reader_t *r, const field_t *field, json_t *value) {
  switch (field->kind) {
    case FIELD_TEXT:
      if (!json_is_string(value)) return FAULT("plan-json", "\"%s\" is no string", field->name);
      *(const char **)field->out = ptc_arena_strdup(&r->plan->arena, json_string_value(value));
      return PTC_OK;
    case FIELD_INT:
    case FIELD_INT32: return read_int(r, field, value);
    case FIELD_NUMBER: return read_number(r, field, value);
    case FIELD_BOOL:
      if (!json_is_boolean(value))
        return FAULT("plan-json", "\"%s\" is neither true nor false", field->name);
      *(bool *)field->out = json_is_true(value);
      return PTC_OK;
    case FIELD_ANY: *(json_t **)field->out = value; return PTC_OK;
  }
  return PTC_INTERNAL;
}

// Every member of |object| is one of |fields|, and none that is required is missing.
static ptc_status_t read_object(const reader_t *r, json_t *object, const field_t *fields,
                                int32_t num_fields) {
  if (!json_is_object(object)) return FAULT("plan-json", "expected an object");
  const char *name;
  json_t *value;
  json_object_foreach(object, name, value) {
    int32_t f = 0;
    while (f < num_fields && strcmp(fields[f].name, name) != 0) ++f;
    if (f == num_fields) return FAULT("plan-json", "unknown member \"%s\"", name);
    PTC_TRY(read_field(r, &fields[f], value));
  }
  for (int32_t f = 0; f < num_fields; ++f)
    if (fields[f].required && !json_object_get(object, fields[f].name))
      return FAULT("plan-json", "\"%s\" is missing", fields[f].name);
  return PTC_OK;
}

// The lines on which the entries of the array that is member |name| of the outermost object begin. The text
// is JSON.
static void find_lines(const reader_t *r, const char *name, int32_t count, int32_t *out_lines) {
  const size_t name_len = strlen(name);
  int32_t line = 1, depth = 0, entry = 0;
  bool inside = false;
  for (size_t i = 0; i < r->len; ++i) {
    const char c = r->text[i];
    if (c == '\n') line++;
    if (c == '"') {
      const size_t start = i + 1;
      for (++i; i < r->len && r->text[i] != '"'; ++i) i += r->text[i] == '\\';
      if (depth == 1)
        inside = i - start == name_len && memcmp(r->text + start, name, name_len) == 0;
    }
    if (c == '{' || c == '[') {
      if (inside && depth == 2 && entry < count) out_lines[entry] = line;
      depth++;
    }
    if (c == '}' || c == ']') depth--;
    if (c == ',' && inside && depth == 2) entry++;
  }
}

static ptc_status_t read_turns(const reader_t *r, const json_t *turns, ptc_plan_global_t *global) {
  if (!turns) return PTC_OK;
  const size_t count = json_array_size(turns);
  if (!json_is_array(turns) || count > PTC_MAX_COUNTS)
    return FAULT("plan-json", "\"turns\" is no array of at most %d entries", PTC_MAX_COUNTS);
  for (size_t i = 0; i < count; ++i) {
    const json_t *entry = json_array_get(turns, i);
    int64_t *const out[] = {&global->counts[i], &global->first[i], &global->step[i]};
    if (json_array_size(entry) != 3)
      return FAULT("plan-json", "an entry of \"turns\" has a count, a first turn and a step");
    for (size_t n = 0; n < 3; ++n)
      PTC_TRY(read_int(r, &(field_t){"turns", FIELD_INT, true, out[n]}, json_array_get(entry, n)));
  }
  global->num_counts = (int32_t)count;
  return PTC_OK;
}

static ptc_status_t read_global(const reader_t *r, json_t *entry, ptc_plan_global_t *global) {
  json_t *turns = NULL;
  *global = (ptc_plan_global_t){.batch_dim = -1, .line = r->line};
  const field_t fields[] = {{"path", FIELD_TEXT, true, &global->path},
                            {"kind", FIELD_TEXT, true, &global->kind},
                            {"buffer", FIELD_INT32, true, &global->buffer},
                            {"first_instance", FIELD_INT, false, &global->first_instance},
                            {"turns", FIELD_ANY, false, &turns},
                            {"source", FIELD_TEXT, false, &global->source},
                            {"offset", FIELD_INT, false, &global->offset},
                            {"range", FIELD_INT, false, &global->range},
                            {"batch_dim", FIELD_INT32, false, &global->batch_dim},
                            {"ignorable", FIELD_BOOL, false, &global->ignorable},
                            {"dist", FIELD_TEXT, false, &global->dist},
                            {"a", FIELD_NUMBER, false, &global->a},
                            {"b", FIELD_NUMBER, false, &global->b},
                            {"value", FIELD_NUMBER, false, &global->value}};
  PTC_TRY(read_object(r, entry, fields, sizeof fields / sizeof *fields));
  return read_turns(r, turns, global);
}

static ptc_status_t read_setting(const reader_t *r, json_t *entry, ptc_plan_setting_t *setting) {
  *setting = (ptc_plan_setting_t){.line = r->line};
  const field_t fields[] = {{"name", FIELD_TEXT, true, &setting->name},
                            {"value", FIELD_TEXT, true, &setting->value},
                            {"origin", FIELD_TEXT, true, &setting->origin},
                            {"open", FIELD_BOOL, false, &setting->open},
                            {"global", FIELD_TEXT, false, &setting->global}};
  return read_object(r, entry, fields, sizeof fields / sizeof *fields);
}

static ptc_status_t read_array(const reader_t *r, const char *name, const json_t *array, size_t max,
                               int32_t *out_count, int32_t **out_lines) {
  if (!json_is_array(array)) return FAULT("plan-json", "\"%s\" is no array", name);
  if (json_array_size(array) > max)
    return FAULT("plan-limit", "\"%s\" has more than %zu entries", name, max);
  *out_count = (int32_t)json_array_size(array);
  *out_lines = PTC_ARENA_ARRAY(&r->plan->arena, int32_t, *out_count);
  find_lines(r, name, *out_count, *out_lines);
  return PTC_OK;
}

static ptc_status_t read_globals(reader_t *r, const json_t *array) {
  ptc_plan_t *plan = r->plan;
  int32_t *lines;
  PTC_TRY(read_array(r, "globals", array, PTC_PLAN_MAX_GLOBALS, &plan->num_globals, &lines));
  plan->globals = PTC_ARENA_ARRAY(&plan->arena, ptc_plan_global_t, plan->num_globals);
  for (int32_t i = 0; i < plan->num_globals; ++i) {
    r->line = lines[i];
    PTC_TRY(read_global(r, json_array_get(array, (size_t)i), &plan->globals[i]));
  }
  r->line = 1;
  return PTC_OK;
}

static ptc_status_t read_settings(reader_t *r, const json_t *array) {
  ptc_plan_t *plan = r->plan;
  int32_t *lines;
  PTC_TRY(read_array(r, "settings", array, PTC_PLAN_MAX_SETTINGS, &plan->num_settings, &lines));
  plan->settings = PTC_ARENA_ARRAY(&plan->arena, ptc_plan_setting_t, plan->num_settings);
  for (int32_t i = 0; i < plan->num_settings; ++i) {
    r->line = lines[i];
    PTC_TRY(read_setting(r, json_array_get(array, (size_t)i), &plan->settings[i]));
  }
  r->line = 1;
  return PTC_OK;
}

static ptc_status_t read_hashes(reader_t *r, const json_t *hashes) {
  if (!json_is_object(hashes) || json_object_size(hashes) != (size_t)r->plan->num_kernels)
    return FAULT("plan-json", "\"hashes\" does not have one member per kernel");
  for (int32_t k = 0; k < r->plan->num_kernels; ++k) {
    ptc_plan_kernel_t *kernel = &r->plan->kernels[k];
    const char *hash = json_string_value(json_object_get(hashes, kernel->name));
    const size_t len = hash ? strlen(hash) : 0;
    if (!len || len > 128 || strspn(hash, "0123456789abcdef") != len)
      return FAULT("plan-json", "kernel \"%s\" has no hexadecimal hash", kernel->name);
    kernel->hash = ptc_arena_strdup(&r->plan->arena, hash);
  }
  return PTC_OK;
}

static ptc_status_t read_plan(reader_t *r, json_t *root) {
  ptc_plan_t *plan = r->plan;
  json_t *mesh = NULL, *hashes = NULL, *globals = NULL, *settings = NULL;
  int64_t version = 0, stage = 0;
  const field_t fields[] = {{"version", FIELD_INT, true, &version},
                            {"model", FIELD_TEXT, true, &plan->model},
                            {"target", FIELD_TEXT, true, &plan->target},
                            {"compiler_flags", FIELD_TEXT, true, &plan->compiler_flags},
                            {"mesh", FIELD_ANY, false, &mesh},
                            {"stage", FIELD_INT, false, &stage},
                            {"arena_bytes", FIELD_INT, true, &plan->arena_bytes},
                            {"bound_bytes", FIELD_INT, true, &plan->bound_bytes},
                            {"batch", FIELD_INT, true, &plan->batch},
                            {"seq", FIELD_INT, true, &plan->seq},
                            {"flops_per_step", FIELD_NUMBER, true, &plan->flops_per_step},
                            {"hashes", FIELD_ANY, true, &hashes},
                            {"globals", FIELD_ANY, true, &globals},
                            {"settings", FIELD_ANY, true, &settings}};
  PTC_TRY(read_object(r, root, fields, sizeof fields / sizeof *fields));
  if (version != PTC_PLAN_VERSION)
    return FAULT("plan-version",
                 "the plan is of version %" PRId64
                 ", and this program reads version %d: compile the model again",
                 version, PTC_PLAN_VERSION);
  if (plan->arena_bytes < 0 || plan->bound_bytes < 0 || plan->batch < 0 || plan->seq < 0)
    return FAULT("plan-json", "a size is negative");
  if (stage < 0 || stage >= plan->num_stages)
    return FAULT("plan-json", "there is no stage %" PRId64, stage);
  plan->stage = (int32_t)stage;
  PTC_TRY(read_hashes(r, hashes));
  PTC_TRY(read_globals(r, globals));
  return read_settings(r, settings);
}

// The mesh alone, for the steps that name its axes: names are checked here, sizes by ptc_plan_check.
static ptc_status_t read_mesh(const reader_t *r, const json_t *mesh) {
  if (!mesh) return PTC_OK;
  const size_t count = json_array_size(mesh);
  if (!json_is_array(mesh) || count >= PTC_PLAN_MAX_LEVELS)
    return FAULT("plan-json", "\"mesh\" is no array of fewer than %d axes", PTC_PLAN_MAX_LEVELS);
  ptc_mesh_axis_t *axes = PTC_ARENA_ARRAY(&r->plan->arena, ptc_mesh_axis_t, count);
  for (size_t a = 0; a < count; ++a) {
    const json_t *entry = json_array_get(mesh, a);
    const field_t name = {"mesh", FIELD_TEXT, true, &axes[a].name};
    if (json_array_size(entry) != 2)
      return FAULT("plan-json", "an entry of \"mesh\" has a name and a size");
    PTC_TRY(read_field(r, &name, json_array_get(entry, 0)));
    PTC_TRY(
        read_int(r, &(field_t){"mesh", FIELD_INT, true, &axes[a].size}, json_array_get(entry, 1)));
  }
  r->plan->mesh = (ptc_mesh_t){axes, (int32_t)count};
  if (count > 0 && strcmp(axes[0].name, "pp") == 0 && axes[0].size <= INT32_MAX)
    r->plan->num_stages = (int32_t)axes[0].size;
  return ptc_plan_check_mesh(r->diag, r->plan);
}

static ptc_status_t load(reader_t *r, json_t **out_root) {
  json_error_t error;
  *out_root = json_loadb(r->text, r->len, JSON_REJECT_DUPLICATES, &error);
  if (*out_root) return PTC_OK;
  return ptc_error(r->diag,
                   (ptc_loc_t){r->plan->json_file, error.line, error.column < 1 ? 1 : error.column},
                   PTC_INVALID_INPUT, "plan-json", "%s", error.text);
}

ptc_status_t ptc_plan_parse_mesh(ptc_diag_t *diag, ptc_plan_t *plan, const char *text, size_t len) {
  reader_t reader = {.diag = diag, .plan = plan, .text = text, .len = len, .line = 1};
  json_t *root;
  PTC_TRY(load(&reader, &root));
  const ptc_status_t status = read_mesh(&reader, json_object_get(root, "mesh"));
  json_decref(root);
  return status;
}

ptc_status_t ptc_plan_parse_json(ptc_diag_t *diag, ptc_plan_t *plan, const char *text, size_t len) {
  reader_t reader = {.diag = diag, .plan = plan, .text = text, .len = len, .line = 1};
  json_t *root;
  PTC_TRY(load(&reader, &root));
  const ptc_status_t status = read_plan(&reader, root);
  json_decref(root);
  return status;
}
