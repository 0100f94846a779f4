#include "tests/support/golden.h"

#include <CUnit/CUnit.h>
#include <glob.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/str.h"

enum { DATA_SEED = 7, CHECK_SEED = 1, NUM_DOTS = 2, MAX_OVERRIDES = 32 };

void golden_fail(golden_t *golden, const char *what, const char *why) {
  fprintf(stderr, "%s: %s: %s\n", golden->name, what, why);
  golden->num_failed++;
}

// The element of a stream: 24 bits in [0, 1).
static double unit(uint32_t stream, uint64_t seed, int64_t element) {
  return (double)(ptc_philox(seed, (uint64_t)element, 0, stream) >> 8) * 0x1p-24;
}

static uint32_t stream_hash(const char *prefix, const char *name) {
  ptc_str_t stream = {0};
  ptc_str_printf(&stream, "%s.%s", prefix, name);
  uint32_t hash = ptc_path_hash(stream.data, NULL, 0);
  ptc_str_deinit(&stream);
  return hash;
}

static double number(const json_t *row, const char *key) {
  return json_number_value(json_object_get(row, key));
}

static json_t *tensors(const golden_t *golden) { return json_object_get(golden->json, "tensors"); }

static bool read_golden(const char *path, const golden_way_t *way, golden_t *out) {
  *out = (golden_t){.way = way, .tolerance = way->tolerance, .worst_name = "-"};
  json_error_t error;
  out->json = json_load_file(path, 0, &error);
  if (!out->json) {
    fprintf(stderr, "%s:%d: %s\n", path, error.line, error.text);
    return false;
  }
  out->name = json_string_value(json_object_get(out->json, "name"));
  // How badly conditioned the model is: rounding to f32 shows more.
  double factor = number(out->json, "f32_factor");
  if (way->mode == PTC_INTERP_TYPED && factor > 0) {
    out->tolerance.value *= factor;
    out->tolerance.tensor *= factor;
  }
  const char *name;
  json_t *row;
  json_object_foreach(tensors(out), name, row) {
    if (strncmp(name, "grad.", 5) == 0)
      out->largest_grad = fmax(out->largest_grad, number(row, "norm"));
  }
  return out->name && tensors(out);
}

// --- comparing

void golden_check_number(golden_t *golden, const char *name, double got, double want,
                         double allowed) {
  double error = fabs(got - want);
  golden->num_checked++;
  if (error / allowed > golden->worst) {
    golden->worst = error / allowed;
    snprintf(golden->worst_name, sizeof(golden->worst_name), "%s", name);
  }
  if (error <= allowed) return;  // false for a NaN
  char why[128];
  snprintf(why, sizeof(why), "is %.17g instead of %.17g, allowed %.3g", got, want, allowed);
  golden_fail(golden, name, why);
}

void golden_check_instance(golden_t *golden, const char *name, const double *data, int64_t count) {
  const golden_tolerance_t *tolerance = &golden->tolerance;
  json_t *row = json_object_get(tensors(golden), name), *extent;
  if (!row) {
    golden_fail(golden, name, "the reference has no such tensor");
    return;
  }
  int64_t expected = 1;
  size_t i;
  json_array_foreach(json_object_get(row, "shape"), i, extent) {
    expected *= json_integer_value(extent);
  }
  if (count != expected) {
    golden_fail(golden, name, "another number of elements");
    return;
  }
  double squares = 0, sum = 0;
  for (int64_t e = 0; e < count; e++) {
    squares += data[e] * data[e];
    sum += data[e];
  }
  double norm = number(row, "norm"), scale = norm;
  if (strncmp(name, "grad.", 5) == 0) scale = fmax(norm, tolerance->floor * golden->largest_grad);
  // A tensor of zeros must be zeros.
  double allowed = fmax(tolerance->tensor * scale, 0x1p-1000);
  double allowed_sum = allowed * sqrt((double)count);
  golden_check_number(golden, name, sqrt(squares), norm, allowed);
  golden_check_number(golden, name, sum, number(row, "sum"), allowed_sum);
  for (int k = 0; k < NUM_DOTS; k++) {
    uint32_t stream = stream_hash(k == 0 ? "check.0" : "check.1", name);
    double dot = 0;
    for (int64_t e = 0; e < count; e++) dot += data[e] * (2 * unit(stream, CHECK_SEED, e) - 1);
    json_t *want = json_array_get(json_object_get(row, "dots"), (size_t)k);
    golden_check_number(golden, name, dot, json_number_value(want), allowed_sum);
  }
}

// Appends the path of instance |number| (row-major over the counts).
static void instance_path(const ptc_global_t *global, int64_t instance_number, ptc_str_t *out) {
  int64_t instance[PTC_MAX_COUNTS] = {0};
  for (int32_t i = global->type->num_counts; i-- > 0;) {
    instance[i] = instance_number % global->type->counts[i];
    instance_number /= global->type->counts[i];
  }
  ptc_global_instance_path(global, instance, out);
}

size_t golden_check_tensor(golden_t *golden, const char *prefix, const ptc_global_t *global,
                           const ptc_tensor_t *tensor) {
  for (int64_t r = 0; r < tensor->num_instances; r++) {
    ptc_str_t name = {0};
    ptc_str_printf(&name, "%s%s", prefix, *prefix ? "." : "");
    instance_path(global, r, &name);
    golden_check_instance(golden, name.data, tensor->data + r * tensor->num_elements,
                          tensor->num_elements);
    ptc_str_deinit(&name);
  }
  return (size_t)tensor->num_instances;
}

size_t golden_count(const golden_t *golden, const char *prefix) {
  size_t count = 0;
  const char *name;
  json_t *row;
  json_object_foreach(tensors(golden), name, row) {
    count += strncmp(name, prefix, strlen(prefix)) == 0 && number(row, "norm") > 0;
  }
  return count;
}

// --- filling

void golden_perturb_instance(const golden_t *golden, const char *path, ptc_dtype_t dtype,
                             double *data, int64_t count) {
  double amplitude = number(golden->json, "perturb");
  uint32_t stream = stream_hash("perturb", path);
  for (int64_t e = 0; e < count; e++)
    data[e] = ptc_dtype_round(dtype, data[e] + amplitude * (2 * unit(stream, DATA_SEED, e) - 1));
}

static void perturb(const golden_t *golden, const ptc_global_t *param, ptc_tensor_t *tensor) {
  ptc_dtype_t dtype = golden->way->mode == PTC_INTERP_TYPED ? param->type->dtype : PTC_F64;
  for (int64_t r = 0; r < tensor->num_instances; r++) {
    ptc_str_t path = {0};
    instance_path(param, r, &path);
    golden_perturb_instance(golden, path.data, dtype, tensor->data + r * tensor->num_elements,
                            tensor->num_elements);
    ptc_str_deinit(&path);
  }
}

void golden_draw(golden_t *golden, const char *path, ptc_dtype_t dtype, int64_t range, double *data,
                 int64_t count) {
  bool is_float = ptc_dtype_is_float(dtype);
  if (!is_float && range <= 0) golden_fail(golden, path, "the input has no range");
  uint32_t stream = stream_hash("data", path);
  for (int64_t e = 0; e < count; e++) {
    double u = unit(stream, DATA_SEED, e);
    data[e] = is_float ? 2 * u - 1 : floor(u * (double)range);
  }
}

static void draw(golden_t *golden, const ptc_global_t *input, ptc_tensor_t *tensor) {
  golden_draw(golden, input->path, input->type->dtype, ptc_attrs_int(&input->attrs, "range", 0),
              tensor->data, tensor->num_elements);
}

void golden_fill(golden_t *golden, const ptc_module_t *module, ptc_interp_t *interp) {
  for (int64_t i = 0; i < module->num_globals; i++) {
    const ptc_global_t *global = module->globals[i];
    ptc_tensor_t *tensor = ptc_interp_global(interp, global);
    if (global->kind == PTC_GLOBAL_PARAM) perturb(golden, global, tensor);
    if (global->kind == PTC_GLOBAL_INPUT) draw(golden, global, tensor);
  }
}

// --- running

// The text of an override: a number, a name, or numbers with commas.
static char *override_text(json_t *value) {
  if (json_is_string(value)) return strdup(json_string_value(value));
  char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(17));
  if (!json_is_array(value)) return text;
  size_t len = strlen(text);
  memmove(text, text + 1, len - 2);
  text[len - 2] = '\0';
  return text;
}

static ptc_status_t parse_and_lower(const golden_t *golden, ptc_diag_t *diag,
                                    ptc_module_t **out_module) {
  ptc_override_t overrides[MAX_OVERRIDES];
  char *texts[MAX_OVERRIDES];
  int32_t count = 0;
  const char *key;
  json_t *value;
  json_object_foreach(json_object_get(golden->json, "set"), key, value) {
    if (count == MAX_OVERRIDES) break;
    texts[count] = override_text(value);
    overrides[count] = (ptc_override_t){.name = key, .text = texts[count]};
    count++;
  }
  ptc_lower_options_t options = {
      .overrides = overrides, .num_overrides = count, .parallel = "dp=1,tp=1,pp=1"};
  ptc_str_t path = {0};
  ptc_str_printf(&path, "%s/%s", PTC_SOURCE_DIR,
                 json_string_value(json_object_get(golden->json, "model")));
  const char *file = path.data;
  ptc_status_t status = ptc_compile_files(diag, &file, 1, &options, out_module);
  ptc_str_deinit(&path);
  for (int32_t i = 0; i < count; i++) free(texts[i]);
  return status;
}

static ptc_status_t compile(const golden_t *golden, ptc_diag_t *diag, ptc_pass_ctx_t *ctx,
                            ptc_module_t **out_module) {
  const golden_way_t *way = golden->way;
  ptc_pass_options_t pass_options = {.stop_after = way->stop_after, .keep_grads = true};
  ptc_pass_ctx_init(ctx, &pass_options);
  PTC_TRY(parse_and_lower(golden, diag, out_module));
  ptc_module_t *module = *out_module;
  if (!module) return PTC_INVALID_INPUT;
  if (way->precision) ptc_attrs_set_string(module, &module->config, "precision", way->precision);
  if (way->micro_batch) ptc_attrs_set_int(module, &module->config, "micro_batch", way->micro_batch);
  if (way->recompute) ptc_attrs_set_string(module, &module->config, "recompute", way->recompute);
  return ptc_pipeline_train(ctx, module);
}

// One of the two tests is NULL.
typedef struct runner_s {
  golden_test_fn_t test;
  golden_module_fn_t module_test;
} runner_t;

static void run_module(golden_t *golden, ptc_pass_ctx_t *ctx, ptc_module_t *module,
                       const runner_t *runner) {
  if (runner->module_test) {
    runner->module_test(golden, ctx, module);
    return;
  }
  ptc_interp_t *interp = ptc_interp_create(module, golden->way->mode);
  if (ptc_interp_run(interp, "init") == PTC_OK)
    runner->test(golden, module, interp);
  else
    golden_fail(golden, "init", "does not run");
  ptc_interp_destroy(interp);
}

static void run_case(const char *path, const golden_way_t *way, const runner_t *runner) {
  golden_t golden;
  if (!read_golden(path, way, &golden)) {
    CU_FAIL("a golden file cannot be read");
    json_decref(golden.json);
    return;
  }
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_pass_ctx_t ctx;
  ptc_module_t *module = NULL;
  if (compile(&golden, &diag, &ctx, &module) == PTC_OK)
    run_module(&golden, &ctx, module, runner);
  else
    golden_fail(&golden, "compile", "failed");
  ptc_pass_ctx_deinit(&ctx);
  ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
  printf("    %-14s %4" PRId64 " numbers, worst %.1e of what is allowed (%s)\n", golden.name,
         golden.num_checked, golden.worst, golden.worst_name);
  CU_assertImplementation(golden.num_failed == 0 && golden.num_checked > 0, __LINE__, golden.name,
                          __FILE__, "", CU_FALSE);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
  json_decref(golden.json);
}

static void each(const char *pattern, size_t min_files, const golden_way_t *way,
                 const runner_t *runner) {
  ptc_str_t full = {0};
  ptc_str_printf(&full, "%s/tests/torch/%s", PTC_SOURCE_DIR, pattern);
  glob_t files = {0};
  glob(full.data, 0, NULL, &files);
  printf("\n");
  CU_ASSERT(files.gl_pathc >= min_files);
  for (size_t i = 0; i < files.gl_pathc; i++) run_case(files.gl_pathv[i], way, runner);
  globfree(&files);
  ptc_str_deinit(&full);
}

void golden_each(const char *pattern, size_t min_files, const golden_way_t *way,
                 golden_test_fn_t test) {
  each(pattern, min_files, way, &(runner_t){.test = test});
}

void golden_each_module(const char *pattern, size_t min_files, const golden_way_t *way,
                        golden_module_fn_t test) {
  each(pattern, min_files, way, &(runner_t){.module_test = test});
}
