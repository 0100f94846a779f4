#include "passes/check_semantics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/vec.h"

// One result of one function. Names are copied: a pass may drop the function or the global's
// object.
typedef struct kept_s {
  char *key;  // "train value loss", "train state block.*.w (0:1)"
  int64_t count;
  double *data;
} kept_t;

struct ptc_semantics_s {
  uint64_t seed;
  PTC_VEC(kept_t) results;
};

static char *result_key(const ptc_func_t *func, const ptc_result_t *result) {
  ptc_str_t key = {0};
  ptc_str_printf(&key, "%s ", func->name);
  if (result->kind == PTC_RESULT_VALUE) {
    ptc_str_printf(&key, "value %s", result->name);
  } else {
    const ptc_global_t *global = result->global;
    ptc_str_printf(&key, "%s %s", result->kind == PTC_RESULT_STATE ? "state" : "grad",
                   global->path);
    for (int32_t i = 0; i < global->type->num_counts; i++)
      ptc_str_printf(&key, " (%lld:%lld)", (long long)global->turn_first[i],
                     (long long)global->turn_step[i]);
  }
  return key.data;
}

static double uniform(uint64_t seed, uint64_t element, uint32_t stream) {
  return (ptc_philox(seed, element, 0, stream) + 0.5) * 0x1p-32;
}

static double random_value(const ptc_global_t *global, uint64_t seed, uint64_t element,
                           uint32_t stream) {
  const double u = uniform(seed, 2 * element, stream);
  const ptc_dtype_t dtype = global->type->dtype;
  if (dtype == PTC_BOOL) return u < 0.5;
  if (ptc_dtype_is_int(dtype)) return floor(u * (double)ptc_attrs_int(&global->attrs, "range", 2));
  const double v = uniform(seed, 2 * element + 1, stream);
  const double normal = sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);
  return (global->kind == PTC_GLOBAL_PARAM ? 0.3 : 1.0) * normal;
}

// Elements of all instances.
static int64_t whole_size(const ptc_type_t *type) {
  return ptc_type_num_elements(type) * ptc_type_num_instances(type);
}

void ptc_semantics_fill(ptc_interp_t *interp, const ptc_module_t *module, uint64_t seed) {
  for (int64_t g = 0; g < module->num_globals; g++) {
    const ptc_global_t *global = module->globals[g];
    const int64_t count = whole_size(global->type);
    double *whole = ptc_xmalloc((size_t)(count ? count : 1) * sizeof(double));
    const int64_t turns[2] = {global->turn_first[0], global->turn_first[1]};
    ptc_str_t key = {0};
    ptc_str_printf(&key, "%s %lld %lld", global->path, (long long)turns[0], (long long)turns[1]);
    const uint32_t stream = ptc_path_hash(key.data, NULL, 0);
    ptc_str_deinit(&key);
    const bool scale = strcmp(global->path, "loss_scale") == 0;
    const double value = scale ? 1 : ptc_attrs_float(&global->attrs, "value", 0);
    for (int64_t i = 0; i < count; i++) {
      switch (global->kind) {
        case PTC_GLOBAL_SLOT:
        case PTC_GLOBAL_MOMENT: whole[i] = 0; break;
        case PTC_GLOBAL_COUNTER:
        case PTC_GLOBAL_SETTING: whole[i] = value; break;
        case PTC_GLOBAL_INPUT:
        case PTC_GLOBAL_PARAM: whole[i] = random_value(global, seed, (uint64_t)i, stream); break;
      }
    }
    ptc_interp_set(interp, global, whole);
    free(whole);
  }
}

ptc_status_t ptc_semantics_take(ptc_module_t *module, uint64_t seed,
                                ptc_semantics_t **out_semantics) {
  *out_semantics = NULL;
  ptc_semantics_t *semantics = ptc_xmalloc(sizeof(*semantics));
  memset(semantics, 0, sizeof(*semantics));
  semantics->seed = seed;
  for (const ptc_func_t *func = module->funcs; func; func = func->next) {
    ptc_interp_t *interp = ptc_interp_create(module, PTC_INTERP_EXACT);
    ptc_semantics_fill(interp, module, seed);
    ptc_status_t status = ptc_interp_run(interp, func->name);
    for (int32_t i = 0; status == PTC_OK && i < func->num_results; i++) {
      kept_t kept = {.key = result_key(func, &func->results[i])};
      kept.count = whole_size(ptc_func_return(func)->operands[i]->type);
      kept.data = ptc_xmalloc((size_t)(kept.count ? kept.count : 1) * sizeof(double));
      PTC_VEC_PUSH(&semantics->results, kept);
      status = ptc_interp_get_result(interp, i, kept.data);
    }
    ptc_interp_destroy(interp);
    if (status != PTC_OK) {
      ptc_semantics_destroy(semantics);
      return status;
    }
  }
  *out_semantics = semantics;
  return PTC_OK;
}

void ptc_semantics_destroy(ptc_semantics_t *semantics) {
  if (!semantics) return;
  for (int64_t i = 0; i < semantics->results.len; i++) {
    free(semantics->results.data[i].key);
    free(semantics->results.data[i].data);
  }
  PTC_VEC_FREE(&semantics->results);
  free(semantics);
}

static bool equal_values(double a, double b, double scale) {
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
  if (isinf(a) || isinf(b)) return a == b;
  return fabs(a - b) <= 1e-9 * scale;
}

static ptc_status_t compare_result(const kept_t *before, const kept_t *after, ptc_module_t *module,
                                   const char *pass) {
  const ptc_loc_t nowhere = {0};
  if (before->count != after->count)
    return ptc_error(module->diag, nowhere, PTC_INTERNAL, "pass-semantics",
                     "pass \"%s\" changes the size of \"%s\"", pass, before->key);
  double scale = 1e-3;
  for (int64_t i = 0; i < before->count; i++)
    if (isfinite(before->data[i])) scale = fmax(scale, fabs(before->data[i]));
  for (int64_t i = 0; i < before->count; i++)
    if (!equal_values(before->data[i], after->data[i], scale))
      return ptc_error(module->diag, nowhere, PTC_INTERNAL, "pass-semantics",
                       "pass \"%s\" changes \"%s\" at element %lld: %.17g before, %.17g after",
                       pass, before->key, (long long)i, before->data[i], after->data[i]);
  return PTC_OK;
}

ptc_status_t ptc_semantics_compare(const ptc_semantics_t *before, ptc_module_t *module,
                                   const char *pass) {
  ptc_semantics_t *after = NULL;
  ptc_status_t status = ptc_semantics_take(module, before->seed, &after);
  for (int64_t i = 0; status == PTC_OK && i < before->results.len; i++)
    for (int64_t j = 0; status == PTC_OK && j < after->results.len; j++)
      if (strcmp(before->results.data[i].key, after->results.data[j].key) == 0)
        status = compare_result(&before->results.data[i], &after->results.data[j], module, pass);
  ptc_semantics_destroy(after);
  return status;
}
