#include "frontend/driver/run_module.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/vec.h"
#include "runtime/safetensors.h"

// --- names

// Position in each count of instance |number|, row-major.
static void unravel(const ptc_type_t *type, int64_t number, int64_t *out_instance) {
  for (int32_t i = type->num_counts - 1; i >= 0; i--) {
    out_instance[i] = number % type->counts[i];
    number /= type->counts[i];
  }
}

static char *instance_path(ptc_arena_t *arena, const ptc_global_t *global, int64_t number) {
  int64_t instance[PTC_MAX_COUNTS] = {0};
  unravel(global->type, number, instance);
  ptc_str_t path = {0};
  ptc_global_instance_path(global, instance, &path);
  char *copy = ptc_arena_strdup(arena, path.data ? path.data : "");
  ptc_str_deinit(&path);
  return copy;
}

// "loss", "loss.balance", "metric.accuracy", "output.logits"
static char *value_name(ptc_arena_t *arena, const ptc_result_t *result) {
  const char *role = result->role ? result->role : "value";
  bool bare = strcmp(role, "value") == 0 || strcmp(role, result->name) == 0;
  return bare ? ptc_arena_strdup(arena, result->name)
              : ptc_arena_printf(arena, "%s.%s", role, result->name);
}

// --- loading

static bool same_shape(const ptc_type_t *type, const ptc_named_tensor_t *tensor) {
  if (type->num_dims != tensor->num_dims) return false;
  for (int32_t d = 0; d < type->num_dims; d++)
    if (type->dims[d].extent != tensor->shape[d]) return false;
  return true;
}

// Copies what the file has of |global|. |out_found|: every instance.
static ptc_status_t load_global(ptc_interp_t *interp, const ptc_module_t *module,
                                const ptc_global_t *global, const ptc_tensor_file_t *file,
                                ptc_map_t *used, bool *out_found) {
  ptc_tensor_t *tensor;
  PTC_TRY(ptc_interp_whole(interp, global, &tensor));
  ptc_arena_t scratch = {0};
  ptc_status_t status = PTC_OK;
  *out_found = true;
  for (int64_t r = 0; r < tensor->num_instances && status == PTC_OK; r++) {
    const char *path = instance_path(&scratch, global, r);
    const ptc_named_tensor_t *found = ptc_tensor_file_find(file, path);
    if (!found) {
      *out_found = false;
      continue;
    }
    ptc_map_set(used, found, (void *)found);
    if (!same_shape(tensor->type, found)) {
      ptc_str_t type = {0};
      ptc_type_print(&type, tensor->type);
      status = ptc_error(module->diag, global->loc, PTC_INVALID_INPUT, "load-shape",
                         "the file's \"%s\" has not the shape of %s", path, type.data);
      ptc_str_deinit(&type);
      continue;
    }
    memcpy(tensor->data + r * tensor->num_elements, found->data,
           (size_t)tensor->num_elements * sizeof(double));
  }
  ptc_interp_spread(interp, global);
  ptc_arena_deinit(&scratch);
  return status;
}

static bool reads_global(const ptc_func_t *func, const ptc_global_t *global) {
  for (int32_t i = 0; i < func->body->num_args; i++)
    if (func->arg_globals[i] == global) return true;
  return false;
}

// Results of an earlier run may lie in the file beside its globals.
static bool is_result_name(const char *name) {
  static const char *const prefixes[] = {"grad.", "loss.", "metric.", "output."};
  for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
    if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return true;
  return strcmp(name, "loss") == 0;
}

static ptc_status_t load_file(ptc_interp_t *interp, const ptc_module_t *module,
                              const ptc_func_t *func, const ptc_run_options_t *options,
                              const ptc_tensor_file_t *file) {
  ptc_map_t used = {0};
  ptc_status_t status = PTC_OK;
  for (int64_t g = 0; g < module->num_globals && status == PTC_OK; g++) {
    const ptc_global_t *global = module->globals[g];
    bool found = false, input = global->kind == PTC_GLOBAL_INPUT;
    status = load_global(interp, module, global, file, &used, &found);
    bool elsewhere = input ? options->draw_inputs : options->init;
    bool needed = input || global->kind == PTC_GLOBAL_PARAM;
    if (status != PTC_OK || found || !needed || elsewhere || !reads_global(func, global)) continue;
    status = ptc_error(module->diag, global->loc, PTC_INVALID_INPUT, "load-missing",
                       "\"%s\" has no %s \"%s\", which @%s reads", options->load_path,
                       ptc_global_kind_name(global->kind), global->path, func->name);
  }
  for (int64_t i = 0; i < file->count && status == PTC_OK; i++)
    if (!ptc_map_get(&used, &file->tensors[i]) && !is_result_name(file->tensors[i].name))
      ptc_warning(module->diag, (ptc_loc_t){0}, "load-unknown",
                  "\"%s\" in \"%s\" is no input or state of the module", file->tensors[i].name,
                  options->load_path);
  ptc_map_deinit(&used);
  return status;
}

static ptc_status_t apply_set(ptc_interp_t *interp, const ptc_module_t *module, const char *set) {
  const char *equals = strchr(set, '=');
  size_t len = equals ? (size_t)(equals - set) : strlen(set);
  bool found = false;
  for (int64_t g = 0; equals && g < module->num_globals; g++) {
    const char *path = module->globals[g]->path;
    if (strlen(path) != len || strncmp(path, set, len) != 0) continue;
    ptc_tensor_t *tensor;
    PTC_TRY(ptc_interp_whole(interp, module->globals[g], &tensor));
    for (int64_t i = 0; i < tensor->num_elements * tensor->num_instances; i++)
      tensor->data[i] = strtod(equals + 1, NULL);
    ptc_interp_spread(interp, module->globals[g]);
    found = true;
  }
  if (found) return PTC_OK;
  return ptc_error(module->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "unknown-global",
                   "\"%s\" does not set an input or state of the module (PATH=NUMBER)", set);
}

ptc_status_t ptc_run_draw(ptc_interp_t *interp, const ptc_global_t *input) {
  ptc_tensor_t *tensor;
  PTC_TRY(ptc_interp_whole(interp, input, &tensor));
  ptc_str_t stream = {0};
  ptc_str_printf(&stream, "data.%s", input->path);
  const uint32_t hash = ptc_path_hash(stream.data, NULL, 0);
  ptc_str_deinit(&stream);
  const ptc_dtype_t dtype = tensor->type->dtype;
  const double range = (double)ptc_attrs_int(&input->attrs, "range", 2);
  for (int64_t i = 0; i < tensor->num_elements * tensor->num_instances; i++) {
    double u = (ptc_philox(PTC_RUN_DATA_SEED, (uint64_t)i, 0, hash) >> 8) * 0x1p-24;
    tensor->data[i] = dtype == PTC_BOOL         ? u >= 0.5
                      : ptc_dtype_is_int(dtype) ? floor(u * range)
                                                : 2 * u - 1;
  }
  ptc_interp_spread(interp, input);
  return PTC_OK;
}

ptc_status_t ptc_run_load(ptc_interp_t *interp, const ptc_module_t *module, const ptc_func_t *func,
                          const ptc_run_options_t *options) {
  for (int64_t g = 0; options->draw_inputs && g < module->num_globals; g++)
    if (module->globals[g]->kind == PTC_GLOBAL_INPUT)
      PTC_TRY(ptc_run_draw(interp, module->globals[g]));
  if (options->load_path) {
    ptc_tensor_file_t file;
    PTC_TRY(ptc_safetensors_read(module->diag, options->load_path, &file));
    ptc_status_t status = load_file(interp, module, func, options, &file);
    ptc_tensor_file_deinit(&file);
    PTC_TRY(status);
  }
  for (int32_t i = 0; i < options->num_sets; i++)
    PTC_TRY(apply_set(interp, module, options->sets[i]));
  return PTC_OK;
}

// --- dumping

typedef struct dump_s {
  ptc_arena_t arena;
  ptc_interp_mode_t mode;
  PTC_VEC(ptc_named_tensor_t) tensors;
} dump_t;

static void dump_instance(dump_t *dump, const char *name, const ptc_tensor_t *tensor, int64_t r) {
  const ptc_type_t *type = tensor->type;
  bool exact = dump->mode == PTC_INTERP_EXACT && ptc_dtype_is_float(type->dtype);
  ptc_named_tensor_t entry = {.name = name,
                              .dtype = exact ? PTC_F64 : type->dtype,
                              .num_dims = type->num_dims,
                              .num_elements = tensor->num_elements,
                              .data = tensor->data + r * tensor->num_elements};
  for (int32_t d = 0; d < type->num_dims; d++) entry.shape[d] = type->dims[d].extent;
  PTC_VEC_PUSH(&dump->tensors, entry);
}

static void dump_of_global(dump_t *dump, const char *prefix, const ptc_global_t *global,
                           const ptc_tensor_t *tensor) {
  for (int64_t r = 0; r < tensor->num_instances; r++) {
    const char *path = instance_path(&dump->arena, global, r);
    dump_instance(dump, ptc_arena_printf(&dump->arena, "%s%s", prefix, path), tensor, r);
  }
}

static void dump_value(dump_t *dump, const ptc_result_t *result, const ptc_tensor_t *tensor) {
  const char *name = value_name(&dump->arena, result);
  for (int64_t r = 0; r < tensor->num_instances; r++)
    dump_instance(
        dump,
        tensor->type->num_counts ? ptc_arena_printf(&dump->arena, "%s.%" PRId64, name, r) : name,
        tensor, r);
}

static bool writes_global(const ptc_func_t *func, const ptc_global_t *global) {
  for (int32_t i = 0; i < func->num_results; i++)
    if (func->results[i].kind == PTC_RESULT_STATE && func->results[i].global == global) return true;
  return false;
}

static ptc_status_t dump_all(dump_t *dump, ptc_interp_t *interp, const ptc_func_t *func) {
  const ptc_module_t *module = func->module;
  for (int32_t i = 0; i < func->num_results; i++) {
    const ptc_result_t *result = &func->results[i];
    const ptc_tensor_t *tensor;
    if (result->kind == PTC_RESULT_STATE) continue;
    PTC_TRY(ptc_interp_whole_result(interp, i, &tensor));
    if (result->kind == PTC_RESULT_VALUE) dump_value(dump, result, tensor);
    if (result->kind == PTC_RESULT_GRAD) dump_of_global(dump, "grad.", result->global, tensor);
  }
  for (int64_t g = 0; g < module->num_globals; g++) {
    const ptc_global_t *global = module->globals[g];
    ptc_tensor_t *tensor;
    if (!reads_global(func, global) && !writes_global(func, global)) continue;
    PTC_TRY(ptc_interp_whole(interp, global, &tensor));
    dump_of_global(dump, "", global, tensor);
  }
  return PTC_OK;
}

ptc_status_t ptc_run_dump(ptc_interp_t *interp, const ptc_func_t *func, ptc_interp_mode_t mode,
                          const char *path) {
  dump_t dump = {.mode = mode};
  ptc_status_t status = dump_all(&dump, interp, func);
  if (status == PTC_OK)
    status = ptc_safetensors_write(func->module->diag, path, dump.tensors.data, dump.tensors.len);
  PTC_VEC_FREE(&dump.tensors);
  ptc_arena_deinit(&dump.arena);
  return status;
}

// --- all together

// Scalars are the same on all devices.
void ptc_run_print_scalars(const ptc_interp_t *interp, const ptc_func_t *func, FILE *out) {
  for (int32_t i = 0; i < func->num_results; i++) {
    const ptc_tensor_t *tensor = ptc_interp_result(interp, i);
    if (func->results[i].kind != PTC_RESULT_VALUE || tensor->type->num_dims) continue;
    fprintf(out, "%s %s %.9g\n", func->results[i].role, func->results[i].name, tensor->data[0]);
  }
}

ptc_status_t ptc_run_module(ptc_module_t *module, const char *name,
                            const ptc_run_options_t *options) {
  const ptc_func_t *func = ptc_module_find_func(module, name);
  if (!func)
    return ptc_error(module->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "unknown-function",
                     "the module has no function \"%s\"", name);
  ptc_interp_t *interp = ptc_interp_create(module, options->mode);
  ptc_status_t status = PTC_OK;
  if (options->init && ptc_module_find_func(module, "init"))
    status = ptc_interp_run(interp, "init");
  if (status == PTC_OK) status = ptc_run_load(interp, module, func, options);
  if (status == PTC_OK) status = ptc_interp_run(interp, name);
  if (status == PTC_OK && options->print_to) ptc_run_print_scalars(interp, func, options->print_to);
  if (status == PTC_OK && options->dump_path)
    status = ptc_run_dump(interp, func, options->mode, options->dump_path);
  ptc_interp_destroy(interp);
  return status;
}
