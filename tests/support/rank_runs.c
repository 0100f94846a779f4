#include "tests/support/rank_runs.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/emit.h"
#include "frontend/driver/volume.h"
#include "passes/pass.h"
#include "runtime/executor.h"
#include "runtime/shards.h"
#include "tests/support/unit.h"

// One rank, a thread.
typedef struct rank_s {
  pthread_t thread;
  ptc_diag_t diag;
  ptc_comm_t *comm;
  const ptc_plan_t *plan;
  const ptc_kernel_objects_t *objects;
  uint64_t seed;
  ptc_executor_t *executor;
  pthread_barrier_t *barrier;  // with the test: after init, after all steps
  double losses[RANK_RUN_STEPS];
  int64_t counted, planned;  // bytes, of all steps
  ptc_status_t status;
} rank_t;

// --- a rank

static void fill_input(const rank_t *rank, const ptc_plan_global_t *global, int64_t step) {
  const ptc_buffer_t *buffer = &rank->plan->buffers[global->buffer];
  char *data = ptc_executor_global(rank->executor, global, 0);
  const int64_t each = ptc_dtype_bytes(buffer->dtype);
  uint64_t random = rank->seed + (uint64_t)step * 1000003 + (uint64_t)global->buffer;
  for (int64_t i = 0; i < buffer->bytes / each; i++) {
    const uint64_t bits = unit_random(&random) >> 16;
    const double value = ptc_dtype_is_float(buffer->dtype)
                             ? (double)(bits % 2001) / 1000 - 1
                             : (double)(bits % (uint64_t)(global->range > 0 ? global->range : 2));
    ptc_cell_put(buffer->dtype, value, data + i * each);
  }
}

static int64_t count_bytes(const rank_t *rank, const ptc_task_t *train, bool counted) {
  const ptc_exchange_t *exchange = ptc_executor_exchange(rank->executor);
  ptc_arena_t arena = {0};
  ptc_volume_row_t *rows;
  int64_t bytes = 0;
  const int32_t count = ptc_volume_of(rank->plan, train, rank->comm->rank, &arena, &rows);
  for (int32_t i = 0; i < count; i++)
    if (rows[i].first)
      bytes += counted ? ptc_exchange_bytes(exchange, rows[i].first) : rows[i].bytes;
  ptc_arena_deinit(&arena);
  return bytes;
}

static ptc_status_t train(rank_t *rank) {
  const ptc_plan_t *plan = rank->plan;
  const ptc_task_t *init = ptc_plan_find_task(plan, "init");
  const ptc_task_t *task = ptc_plan_find_task(plan, "train");
  PTC_TRY(ptc_executor_create(&rank->diag, plan, rank->objects, 1, &rank->executor));
  PTC_TRY(ptc_executor_join(&rank->diag, rank->executor, rank->comm));
  if (init) PTC_TRY(ptc_executor_run(&rank->diag, rank->executor, init));
  pthread_barrier_wait(rank->barrier);
  pthread_barrier_wait(rank->barrier);
  ptc_executor_set_profile(rank->executor, true);
  for (int64_t step = 0; step < RANK_RUN_STEPS; step++) {
    for (int32_t g = 0; g < plan->num_globals; g++)
      if (strcmp(plan->globals[g].kind, "input") == 0) fill_input(rank, &plan->globals[g], step);
    PTC_TRY(ptc_executor_run(&rank->diag, rank->executor, task));
    for (int32_t r = 0; r < task->num_results; r++)
      if (strcmp(task->results[r].role, "loss") == 0)
        rank->losses[step] += ptc_executor_result_number(rank->executor, &task->results[r]);
  }
  rank->counted = count_bytes(rank, task, true);
  rank->planned = RANK_RUN_STEPS * count_bytes(rank, task, false);
  return PTC_OK;
}

static void *rank_main(void *arg) {
  rank_t *rank = arg;
  rank->status = train(rank);
  if (rank->status != PTC_OK) ptc_comm_abort(rank->comm, "the test has failed");
  // A rank that has failed before init keeps nobody waiting.
  pthread_barrier_wait(rank->barrier);
  return NULL;
}

// --- whole tensors

typedef struct put_s {
  ptc_dtype_t dtype;
  double *whole;
  bool first, agree;  // first: nothing is there yet
} put_t;

static ptc_status_t put(void *arg, int64_t whole_at, char *part, int64_t bytes) {
  put_t *p = arg;
  const int64_t each = ptc_dtype_bytes(p->dtype);
  const ptc_cell_t cell = ptc_cell_of_dtype(p->dtype);
  for (int64_t i = 0; i < bytes / each; i++) {
    const double value = ptc_cell_get(cell, part + i * each);
    double *to = &p->whole[whole_at / each + i];
    if (!p->first && memcmp(to, &value, sizeof value) != 0) p->agree = false;
    if (p->first) *to = value;
  }
  return PTC_OK;
}

// Owners first; then the others must have the same.
static double *gather(const rank_t *ranks, int32_t world, const ptc_plan_global_t *global,
                      int64_t instance, int64_t *out_count, bool *agree) {
  const ptc_plan_t *plan = ranks[0].plan;
  const ptc_buffer_t *buffer = &plan->buffers[global->buffer];
  double *whole = NULL;
  for (int pass = 0; pass < 2; pass++) {
    for (int32_t r = 0; r < world; r++) {
      const ptc_shard_t shard = ptc_shard_of(
          plan, buffer, r, "", ptc_executor_global(ranks[r].executor, global, instance));
      *out_count = ptc_host_tensor_num_elements(&shard.whole);
      if (!whole) {
        whole = ptc_xmalloc(sizeof *whole * (size_t)(*out_count + 1));
        for (int64_t i = 0; i < *out_count; i++) whole[i] = NAN;
      }
      if (shard.is_owner != (pass == 0)) continue;
      put_t p = {buffer->dtype, whole, pass == 0, true};
      (void)ptc_shard_walk(&shard, put, &p);
      if (!p.agree) *agree = false;
    }
  }
  return whole;
}

static void collect(rank_run_t *run, const rank_t *ranks, bool initial) {
  const ptc_plan_t *plan = ranks[0].plan;
  int32_t at = 0;
  for (int32_t g = 0; g < plan->num_globals; g++) {
    const ptc_plan_global_t *global = &plan->globals[g];
    if (strcmp(global->kind, "param") != 0) continue;
    int64_t instances = 1;
    for (int32_t c = 0; c < global->num_counts; c++) instances *= global->counts[c];
    for (int64_t i = 0; i < instances; i++, at++) {
      ptc_str_t path = {0};
      ptc_plan_instance_path(global, i, &path);
      rank_tensor_t *tensor = &run->params[at];
      tensor->name = ptc_arena_strdup(&run->arena, path.data);
      double **to = initial ? &tensor->initial : &tensor->final;
      *to = gather(ranks, run->world, global, i, &tensor->count, &run->replicas_agree);
      ptc_str_deinit(&path);
    }
  }
  run->num_params = at;
}

// --- all ranks

static int32_t count_params(const ptc_plan_t *plan) {
  int64_t count = 0;
  for (int32_t g = 0; g < plan->num_globals; g++) {
    int64_t instances = 1;
    for (int32_t c = 0; c < plan->globals[g].num_counts; c++)
      instances *= plan->globals[g].counts[c];
    if (strcmp(plan->globals[g].kind, "param") == 0) count += instances;
  }
  return (int32_t)count;
}

static bool run_ranks(rank_run_t *run, const ptc_plan_t *plan, const ptc_kernel_objects_t *objects,
                      uint64_t seed, ptc_diag_t *diag) {
  ptc_comm_t **comms = ptc_xmalloc(sizeof *comms * (size_t)run->world);
  rank_t *ranks = ptc_xmalloc(sizeof *ranks * (size_t)run->world);
  pthread_barrier_t barrier;
  bool ok = ptc_comm_open_threads(diag, run->world, comms) == PTC_OK &&
            pthread_barrier_init(&barrier, NULL, (unsigned)run->world + 1) == 0;
  if (!ok) return false;
  for (int32_t r = 0; r < run->world; r++) {
    ranks[r] = (rank_t){
        .comm = comms[r], .plan = plan, .objects = objects, .seed = seed, .barrier = &barrier};
    ptc_diag_init(&ranks[r].diag);
    if (pthread_create(&ranks[r].thread, NULL, rank_main, &ranks[r]) != 0) abort();
  }
  pthread_barrier_wait(&barrier);
  // A rank that has failed so early is at its last barrier now, and the test ends here.
  for (int32_t r = 0; r < run->world; r++) ok = ok && ranks[r].executor != NULL;
  if (!ok) abort();
  collect(run, ranks, true);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  for (int32_t r = 0; r < run->world; r++) {
    pthread_join(ranks[r].thread, NULL);
    ok = ok && ranks[r].status == PTC_OK;
    run->bytes_agree = run->bytes_agree && ranks[r].counted == ranks[r].planned;
    for (int s = 0; s < RANK_RUN_STEPS; s++)
      run->replicas_agree = run->replicas_agree && ranks[r].losses[s] == ranks[0].losses[s];
    ptc_diag_print(&ranks[r].diag, stderr, PTC_DIAG_TEXT, false);
  }
  if (ok) collect(run, ranks, false);
  memcpy(run->losses, ranks[0].losses, sizeof run->losses);
  run->bytes_read = ranks[0].planned / RANK_RUN_STEPS;
  for (int32_t r = 0; r < run->world; r++) {
    ptc_executor_destroy(ranks[r].executor);
    ptc_comm_close(comms[r]);
    ptc_diag_deinit(&ranks[r].diag);
  }
  pthread_barrier_destroy(&barrier);
  free(ranks);
  free(comms);
  return ok;
}

bool rank_run(ptc_module_t *module, uint64_t seed, rank_run_t *out_run) {
  *out_run = (rank_run_t){.replicas_agree = true, .bytes_agree = true};
  ptc_diag_t *diag = module->diag;
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, NULL);
  ptc_emitted_t emitted = {0};
  ptc_kernel_objects_t *objects = NULL;
  ptc_status_t status = ptc_pipeline_train(&ctx, module);
  if (status == PTC_OK) status = ptc_emit(&ctx, module, "cpu", &emitted);
  if (status == PTC_OK) status = ptc_plan_check(diag, emitted.plan);
  if (status == PTC_OK) status = ptc_plan_verify(diag, emitted.plan);
  if (status == PTC_OK) status = ptc_plan_verify_order(diag, emitted.plan);
  const ptc_kernel_objects_options_t options = {
      .cache_folder = getenv("PTC_CACHE") ? NULL : PTC_BINARY_DIR "/kernel-cache"};
  if (status == PTC_OK)
    status = ptc_kernel_objects_create(diag, emitted.sources, emitted.plan->num_kernels, &options,
                                       &objects);
  bool ok = status == PTC_OK;
  if (ok) {
    out_run->world = (int32_t)ptc_plan_world(emitted.plan);
    out_run->arena_bytes = emitted.plan->arena_bytes;
    out_run->params = PTC_ARENA_ARRAY(&out_run->arena, rank_tensor_t, count_params(emitted.plan));
    ok = run_ranks(out_run, emitted.plan, objects, seed, diag);
  }
  ptc_diag_print(diag, stderr, PTC_DIAG_TEXT, false);
  ptc_kernel_objects_destroy(objects);
  ptc_emitted_deinit(&emitted);
  ptc_pass_ctx_deinit(&ctx);
  return ok;
}

void rank_run_deinit(rank_run_t *run) {
  for (int32_t p = 0; p < run->num_params; p++) {
    free(run->params[p].initial);
    free(run->params[p].final);
  }
  ptc_arena_deinit(&run->arena);
  *run = (rank_run_t){0};
}

// --- comparing

static const rank_tensor_t *find(const rank_run_t *run, const char *name) {
  for (int32_t p = 0; p < run->num_params; p++)
    if (strcmp(run->params[p].name, name) == 0) return &run->params[p];
  return NULL;
}

rank_difference_t rank_run_compare(const rank_run_t *one, const rank_run_t *many) {
  rank_difference_t d = {0};
  for (int s = 0; s < RANK_RUN_STEPS; s++)
    d.loss = fmax(d.loss, fabs(many->losses[s] - one->losses[s]) / fabs(one->losses[s]));
  double gone = 0, off = 0;
  for (int32_t p = 0; p < one->num_params; p++) {
    const rank_tensor_t *a = &one->params[p], *b = find(many, a->name);
    if (!b || b->count != a->count || !b->final || !a->final) {
      d.final = INFINITY;
      return d;
    }
    for (int64_t i = 0; i < a->count; i++) {
      d.initial += memcmp(&a->initial[i], &b->initial[i], sizeof(double)) != 0;
      gone += pow(a->final[i] - a->initial[i], 2);
      off += pow(b->final[i] - a->final[i], 2);
    }
  }
  d.final = sqrt(off / gone);
  return d;
}
