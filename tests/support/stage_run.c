#include "tests/support/stage_run.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void stage_run_open(stage_run_t *run, const ptc_stages_t *stages, ptc_interp_mode_t mode) {
  *run = (stage_run_t){.stages = stages, .mail = ptc_mail_create()};
  run->interps = ptc_xmalloc((size_t)stages->num_stages * sizeof(*run->interps));
  for (int32_t i = 0; i < stages->num_stages; i++) {
    run->interps[i] = ptc_interp_create(stages->modules[i], mode);
    ptc_interp_set_stage(run->interps[i], run->mail, i);
  }
}

void stage_run_close(stage_run_t *run) {
  for (int32_t i = 0; i < run->stages->num_stages; i++) ptc_interp_destroy(run->interps[i]);
  free(run->interps);
  ptc_mail_destroy(run->mail);
}

// The whole of a global or result, whatever devices hold it. Devices that disagree end the test.
static ptc_tensor_t *whole_of(ptc_interp_t *interp, const ptc_global_t *global) {
  ptc_tensor_t *tensor;
  if (ptc_interp_whole(interp, global, &tensor) == PTC_OK) return tensor;
  fprintf(stderr, "devices disagree about %s\n", global->path);
  abort();
}

static const ptc_tensor_t *whole_result(ptc_interp_t *interp, int32_t index) {
  const ptc_tensor_t *tensor;
  if (ptc_interp_whole_result(interp, index, &tensor) == PTC_OK) return tensor;
  fprintf(stderr, "devices disagree about result %d\n", (int)index);
  abort();
}

// Instance |i| of |global|'s leading count as an instance of |whole|, or -1.
static int64_t find_instance(const ptc_global_t *global, int64_t i, const ptc_global_t *whole) {
  if (strcmp(global->path, whole->path) != 0 || global->type->num_counts != whole->type->num_counts)
    return -1;
  if (global->type->num_counts == 0) return 0;
  const int64_t turn = global->turn_first[0] + i * global->turn_step[0];
  const int64_t at = (turn - whole->turn_first[0]) / whole->turn_step[0];
  const bool is_there = turn >= whole->turn_first[0] && at < whole->type->counts[0] &&
                        whole->turn_first[0] + at * whole->turn_step[0] == turn;
  return is_there ? at : -1;
}

static int64_t leading_count(const ptc_global_t *global) {
  return global->type->num_counts > 0 ? global->type->counts[0] : 1;
}

// The elements of |whole| that are instance |i| of |global|; NULL if they are none.
static double *find_elements(ptc_tensor_t *tensor, const ptc_global_t *whole,
                             const ptc_global_t *global, int64_t i, int64_t *out_count) {
  const int64_t at = find_instance(global, i, whole);
  if (at < 0) return NULL;
  *out_count = tensor->num_elements * tensor->num_instances / leading_count(whole);
  return tensor->data + at * *out_count;
}

void stage_run_load(stage_run_t *run, ptc_interp_t *whole, const ptc_module_t *module) {
  for (int32_t s = 0; s < run->stages->num_stages; s++) {
    const ptc_module_t *stage = run->stages->modules[s];
    for (int64_t g = 0; g < stage->num_globals; g++) {
      const ptc_global_t *global = stage->globals[g];
      if (global->kind == PTC_GLOBAL_SLOT) continue;
      double *to = whole_of(run->interps[s], global)->data;
      for (int64_t i = 0; i < leading_count(global); i++) {
        for (int64_t w = 0; w < module->num_globals; w++) {
          int64_t count = 0;
          if (find_instance(global, i, module->globals[w]) < 0) continue;
          const double *from = find_elements(whole_of(whole, module->globals[w]),
                                             module->globals[w], global, i, &count);
          memcpy(to + i * count, from, (size_t)count * sizeof(double));
        }
      }
      ptc_interp_spread(run->interps[s], global);
    }
  }
}

typedef struct stage_thread_s {
  stage_run_t *run;
  int32_t stage;
  bool train, ok;
} stage_thread_t;

static void *run_stage(void *arg) {
  stage_thread_t *t = arg;
  ptc_interp_t *interp = t->run->interps[t->stage];
  const ptc_schedule_t *schedule = t->train ? t->run->stages->train : t->run->stages->eval;
  const ptc_stage_order_t *order = &schedule->stages[t->stage];
  t->ok = ptc_interp_run(interp, t->train ? "train.begin" : "eval.begin") == PTC_OK;
  for (int32_t i = 0; i < order->count && t->ok; i++) {
    char name[40];
    ptc_stage_func_name(t->train, order->work[i].kind, order->work[i].chunk, name);
    t->ok = ptc_interp_run_micro(interp, name, order->work[i].micro) == PTC_OK;
  }
  if (t->ok) t->ok = ptc_interp_run(interp, t->train ? "train.end" : "eval.end") == PTC_OK;
  return NULL;
}

bool stage_run_step(stage_run_t *run, bool train) {
  const int32_t count = run->stages->num_stages;
  pthread_t *threads = ptc_xmalloc((size_t)count * sizeof(*threads));
  stage_thread_t *args = ptc_xmalloc((size_t)count * sizeof(*args));
  for (int32_t i = 0; i < count; i++) {
    args[i] = (stage_thread_t){.run = run, .stage = i, .train = train};
    if (pthread_create(&threads[i], NULL, run_stage, &args[i]) != 0) abort();
  }
  bool ok = true;
  for (int32_t i = 0; i < count; i++) {
    pthread_join(threads[i], NULL);
    ok &= args[i].ok;
    if (!args[i].ok) ptc_diag_print(run->stages->modules[i]->diag, stderr, PTC_DIAG_TEXT, false);
  }
  free(threads);
  free(args);
  return ok && ptc_mail_num_waiting(run->mail) == 0;
}

// --- comparison

static bool equal(const double *a, const double *b, int64_t count, double tolerance) {
  double most = 1e-3;
  for (int64_t i = 0; i < count; i++)
    if (isfinite(a[i])) most = fmax(most, fabs(a[i]));
  for (int64_t i = 0; i < count; i++) {
    if (isnan(a[i]) && isnan(b[i])) continue;
    // A zero may have another sign: bits of zeros count as equal.
    if (a[i] != b[i] && !(fabs(a[i] - b[i]) <= tolerance * most)) return false;
  }
  return true;
}

bool stage_run_compare_states(stage_run_t *run, ptc_interp_t *whole, const ptc_module_t *module,
                              double tolerance, ptc_str_t *report) {
  for (int64_t w = 0; w < module->num_globals; w++) {
    const ptc_global_t *global = module->globals[w];
    // Who does not read an input or setting does not round it.
    if (global->kind == PTC_GLOBAL_INPUT || global->kind == PTC_GLOBAL_SETTING) continue;
    for (int64_t i = 0; i < leading_count(global); i++) {
      int copies = 0;
      ptc_tensor_t *tensor = whole_of(whole, global);
      const int64_t size = tensor->num_elements * tensor->num_instances / leading_count(global);
      for (int32_t s = 0; s < run->stages->num_stages; s++)
        for (int64_t g = 0; g < run->stages->modules[s]->num_globals; g++) {
          const ptc_global_t *part = run->stages->modules[s]->globals[g];
          int64_t count = 0;
          const double *there = NULL;
          if (find_instance(global, i, part) >= 0)
            there = find_elements(whole_of(run->interps[s], part), part, global, i, &count);
          if (!there) continue;
          copies++;
          if (equal(tensor->data + i * size, there, size, tolerance)) continue;
          ptc_str_printf(report, "%s of turn %lld differs on stage %d", global->path, (long long)i,
                         s);
          return false;
        }
      if (copies == 0) {
        ptc_str_printf(report, "%s of turn %lld is on no stage", global->path, (long long)i);
        return false;
      }
    }
  }
  return true;
}

// The elements of instance |i| of |wanted| among the results of the stages.
static const double *find_result(const stage_run_t *run, const char *name,
                                 const ptc_result_t *wanted, int64_t i, int *copies) {
  const double *found = NULL;
  for (int32_t s = 0; s < run->stages->num_stages; s++) {
    const ptc_func_t *func = ptc_module_find_func(run->stages->modules[s], name);
    for (int32_t r = 0; r < func->num_results; r++) {
      const ptc_result_t *result = &func->results[r];
      if (result->kind != wanted->kind) continue;
      const ptc_tensor_t *tensor = whole_result(run->interps[s], r);
      const int64_t count = tensor->num_elements * tensor->num_instances;
      if (wanted->kind == PTC_RESULT_VALUE) {
        if (strcmp(result->name, wanted->name) != 0) continue;
        if (found && memcmp(found, tensor->data, (size_t)count * sizeof(double)) != 0) return NULL;
        found = tensor->data;
        ++*copies;
        continue;
      }
      const int64_t at = find_instance(wanted->global, i, result->global);
      if (at < 0) continue;
      found = tensor->data + at * (count / leading_count(result->global));
      ++*copies;
    }
  }
  return found;
}

static bool compare_results(const stage_run_t *run, ptc_interp_t *whole, const ptc_module_t *module,
                            bool train, double tolerance, ptc_str_t *report) {
  const ptc_func_t *func = ptc_module_find_func(module, train ? "train" : "eval");
  for (int32_t r = 0; r < func->num_results; r++) {
    const ptc_result_t *result = &func->results[r];
    if (result->kind == PTC_RESULT_STATE) continue;
    const ptc_tensor_t *tensor = whole_result(whole, r);
    const int64_t all = tensor->num_elements * tensor->num_instances;
    const int64_t parts = result->kind == PTC_RESULT_GRAD ? leading_count(result->global) : 1;
    for (int64_t i = 0; i < parts; i++) {
      int copies = 0;
      const double *there = find_result(run, train ? "train.end" : "eval.end", result, i, &copies);
      const int64_t count = all / parts;
      if (copies >= 1 && there && equal(tensor->data + i * count, there, count, tolerance))
        continue;
      ptc_str_printf(report, "result %s of turn %lld %s",
                     result->kind == PTC_RESULT_VALUE ? result->name : result->global->path,
                     (long long)i, copies >= 1 ? "differs" : "is nowhere");
      return false;
    }
  }
  return true;
}

bool stage_run_compare(stage_run_t *run, ptc_interp_t *whole, const ptc_module_t *module,
                       bool train, double tolerance, ptc_str_t *out_report) {
  return compare_results(run, whole, module, train, tolerance, out_report) &&
         stage_run_compare_states(run, whole, module, tolerance, out_report);
}
