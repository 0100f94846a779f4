// Proves: the plans of the stages of a pipeline, each run by a rank on a thread of its own, make the loss, outputs and
// states of the unsplit plan, bit by bit; they are proved, and their text reads back.
#include <pthread.h>
#include <stdlib.h>

#include "tests/support/generated.h"
#include "tests/support/pass_runner.h"
#include "tests/support/small_models.h"
#include "tests/support/unit.h"

typedef struct plan_case_s {
  const char *model, *layers, *recompute, *precision, *schedule;
  int pp, chunks, micro;  // micro: number of micro-batches
  bool overlap;
} plan_case_t;

static ptc_module_t *lower_case(const plan_case_t *c, ptc_diag_t *diag) {
  const ptc_override_t more[] = {{"train.batch", "8"},
                                 {"train.precision", c->precision},
                                 {"train.clip", "0.05"},
                                 {"layers", c->layers}};
  ptc_module_t *module =
      small_model_lower(small_model_find(c->model), more, c->layers ? 4 : 3, diag);
  if (!module) return NULL;
  ptc_attrs_remove(&module->config, ptc_module_intern(module, "cut"));
  ptc_attrs_set_int(module, &module->config, "pp", c->pp);
  ptc_attrs_set_string(module, &module->config, "schedule", c->schedule);
  ptc_attrs_set_int(module, &module->config, "chunks", c->chunks);
  ptc_attrs_set_int(module, &module->config, "micro_batch", 8 / c->micro);
  ptc_attrs_set_string(module, &module->config, "recompute", c->recompute);
  ptc_attrs_set_int(module, &module->config, "recompute_every", 2);
  ptc_attrs_set_bool(module, &module->config, "overlap", c->overlap);
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, NULL);
  ptc_status_t status = ptc_pipeline_train(&ctx, module);
  ptc_pass_ctx_deinit(&ctx);
  if (status == PTC_OK) return module;
  ptc_diag_print(diag, stderr, PTC_DIAG_TEXT, false);
  ptc_module_destroy(module);
  return NULL;
}

// --- data

static int64_t num_instances(const ptc_plan_global_t *global) {
  int64_t count = 1;
  for (int32_t c = 0; c < global->num_counts; c++) count *= global->counts[c];
  return count;
}

// Numbers of the input by its path and element, so that every stage gets the same.
static void fill_inputs(const generated_t *g) {
  const ptc_plan_t *plan = g->emitted.plan;
  for (int32_t i = 0; i < plan->num_globals; i++) {
    const ptc_plan_global_t *global = &plan->globals[i];
    if (strcmp(global->kind, "input") != 0) continue;
    const ptc_buffer_t *buffer = &plan->buffers[global->buffer];
    uint64_t state = 77;
    for (const char *c = global->path; *c; c++) state = state * 31 + (uint64_t)*c;
    char *data = ptc_executor_global(g->executor, global, 0);
    const int64_t size = ptc_dtype_bytes(buffer->dtype);
    for (int64_t e = 0; e < buffer->bytes / size; e++) {
      const uint64_t random = unit_random(&state);
      if (ptc_dtype_is_int(buffer->dtype)) {
        const int32_t value = global->range > 0 ? (int32_t)(random % (uint64_t)global->range) : 0;
        memcpy(data + e * size, &value, sizeof(value));
      } else {
        const float value = (float)(random >> 40) * 0x1p-24f - 0.5f;
        memcpy(data + e * size, &value, sizeof(value));
      }
    }
  }
}

// --- running

typedef struct rank_s {
  generated_t *generated;
  ptc_comm_t *comm;
  const char *task;
  bool ok;
} rank_t;

static void *run_rank(void *arg) {
  rank_t *rank = arg;
  rank->ok = generated_run(rank->generated, rank->task);
  if (!rank->ok) ptc_comm_abort(rank->comm, "a step failed");
  return NULL;
}

static bool run_all(rank_t *ranks, int count, const char *task) {
  pthread_t threads[8];
  bool ok = true;
  for (int i = 0; i < count; i++) {
    ranks[i].task = task;
    if (pthread_create(&threads[i], NULL, run_rank, &ranks[i]) != 0) abort();
  }
  for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < count; i++) {
    ok &= ranks[i].ok;
    if (!ranks[i].ok)
      ptc_diag_print(ranks[i].generated->module->diag, stderr, PTC_DIAG_TEXT, false);
  }
  return ok;
}

// --- comparison

// The bytes of instance |path| on the stage, or NULL.
static const void *find_state(const generated_t *g, const char *path) {
  const ptc_plan_t *plan = g->emitted.plan;
  const void *found = NULL;
  for (int32_t i = 0; i < plan->num_globals && !found; i++)
    for (int64_t r = 0; r < num_instances(&plan->globals[i]) && !found; r++) {
      ptc_str_t name = {0};
      ptc_plan_instance_path(&plan->globals[i], r, &name);
      if (strcmp(name.data, path) == 0)
        found = ptc_executor_global(g->executor, &plan->globals[i], r);
      ptc_str_deinit(&name);
    }
  return found;
}

static void compare_states(const generated_t *whole, const rank_t *ranks, int count,
                           const char *row) {
  const ptc_plan_t *plan = whole->emitted.plan;
  for (int32_t i = 0; i < plan->num_globals; i++)
    for (int64_t r = 0; r < num_instances(&plan->globals[i]); r++) {
      ptc_str_t name = {0};
      ptc_plan_instance_path(&plan->globals[i], r, &name);
      int copies = 0;
      bool same = true;
      for (int s = 0; s < count; s++) {
        const void *there = find_state(ranks[s].generated, name.data);
        const int64_t bytes = plan->buffers[plan->globals[i].buffer].bytes;
        copies += there != NULL;
        if (there)
          same &= memcmp(there, ptc_executor_global(whole->executor, &plan->globals[i], r),
                         (size_t)bytes) == 0;
      }
      if (copies == 0 || !same)
        printf("%s: %s %s\n", row, name.data, same ? "is nowhere" : "differs");
      UNIT_CHECK(same && (copies > 0 || strcmp(plan->globals[i].kind, "input") == 0), row);
      ptc_str_deinit(&name);
    }
}

static void compare_results(const generated_t *whole, const generated_t *last, const char *task,
                            const char *row) {
  const ptc_task_t *a = ptc_plan_find_task(whole->emitted.plan, task);
  const ptc_task_t *b = ptc_plan_find_task(last->emitted.plan, task);
  for (int32_t r = 0; r < a->num_results; r++) {
    const ptc_plan_result_t *found = NULL;
    for (int32_t k = 0; k < b->num_results; k++)
      if (strcmp(a->results[r].name, b->results[k].name) == 0) found = &b->results[k];
    UNIT_CHECK(found != NULL, a->results[r].name);
    const int64_t bytes = whole->emitted.plan->buffers[a->results[r].buffer].bytes;
    const bool same =
        found && memcmp(ptc_executor_result(whole->executor, &a->results[r], 0),
                        ptc_executor_result(last->executor, found, 0), (size_t)bytes) == 0;
    if (!same) printf("%s: %s of %s differs\n", row, a->results[r].name, task);
    UNIT_CHECK(same, row);
  }
}

// --- plans

static void check_plan(const ptc_plan_t *plan, ptc_diag_t *diag, const char *row) {
  UNIT_CHECK(ptc_plan_check(diag, plan) == PTC_OK, row);
  UNIT_CHECK(ptc_plan_verify(diag, plan) == PTC_OK, row);
  UNIT_CHECK(ptc_plan_verify_order(diag, plan) == PTC_OK, row);
  ptc_str_t json = {0}, steps = {0}, json2 = {0}, steps2 = {0};
  ptc_plan_print(plan, &json, &steps);
  ptc_plan_t *again = NULL;
  UNIT_CHECK(ptc_plan_parse(diag, "plan.json", json.data, json.len, "steps", steps.data, steps.len,
                            &again) == PTC_OK,
             row);
  if (again) ptc_plan_print(again, &json2, &steps2);
  UNIT_CHECK(again && strcmp(json.data, json2.data) == 0 && strcmp(steps.data, steps2.data) == 0,
             row);
  ptc_plan_destroy(again);
  ptc_str_deinit(&json);
  ptc_str_deinit(&steps);
  ptc_str_deinit(&json2);
  ptc_str_deinit(&steps2);
}

static void run_plans(ptc_module_t *module, ptc_stages_t *stages, const char *row) {
  generated_t whole, parts[8] = {{0}};
  rank_t ranks[8] = {{0}};
  ptc_comm_t *comms[8] = {0};
  const int count = stages->num_stages;
  bool ok = generated_open(&whole, module, 1) &&
            ptc_comm_open_threads(module->diag, count, comms) == PTC_OK;
  ptc_stages_add_axis(stages);
  for (int s = 0; s < count && ok; s++) {
    ok = generated_open_stage(&parts[s], stages, s, 1) &&
         ptc_executor_join(module->diag, parts[s].executor, comms[s]) == PTC_OK;
    ranks[s] = (rank_t){.generated = &parts[s], .comm = comms[s]};
    if (ok) check_plan(parts[s].emitted.plan, module->diag, row);
    if (ok) fill_inputs(&parts[s]);
  }
  if (ok) fill_inputs(&whole);
  static const char *const tasks[] = {"init", "train", "train", "eval"};
  for (int t = 0; t < 4 && ok; t++) {
    ok = generated_run(&whole, tasks[t]) && run_all(ranks, count, tasks[t]);
    if (ok) compare_results(&whole, &parts[count - 1], tasks[t], row);
    if (ok) compare_states(&whole, ranks, count, row);
  }
  UNIT_CHECK(ok, row);
  if (!ok) ptc_diag_print(module->diag, stderr, PTC_DIAG_TEXT, false);
  for (int s = 0; s < count; s++) {
    generated_close(&parts[s]);
    ptc_comm_close(comms[s]);
  }
  generated_close(&whole);
}

static void check_case(const plan_case_t *c) {
  char row[200];
  snprintf(row, sizeof(row), "%s layers=%s recompute=%s %s %s pp=%d v=%d m=%d", c->model,
           c->layers ? c->layers : "-", c->recompute, c->precision, c->schedule, c->pp, c->chunks,
           c->micro);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = lower_case(c, &diag);
  UNIT_CHECK(module != NULL, row);
  if (!module) return;
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, NULL);
  ptc_stages_t *stages = NULL;
  UNIT_CHECK(ptc_split_stages(&ctx, module, &stages) == PTC_OK, row);
  if (stages) run_plans(module, stages, row);
  ptc_stages_destroy(stages);
  ptc_pass_ctx_deinit(&ctx);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

static const plan_case_t cases[] = {
    {"gpt2_dropout", "5", "selective", "bf16", "1f1b", 3, 1, 4, true},
    {"llama3", "4", "full", "f32", "zero_bubble", 2, 1, 4, false},
    {"gpt2_dropout", "5", "every", "f32", "1f1b", 2, 1, 4, false},
};

static void test_cases(void) {
  const char *only = getenv("PTC_CASE");
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
    if (!only || (size_t)atoi(only) == i) check_case(&cases[i]);
}

static const unit_test_t tests[] = {
    {"plans of stages against the whole", test_cases},
};
UNIT_MAIN("stages_generated", tests)
