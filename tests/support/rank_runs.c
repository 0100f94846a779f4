#include "tests/support/rank_runs.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/volume.h"
#include "runtime/executor.h"
#include "runtime/shards.h"
#include "tests/support/unit.h"

// One rank, a thread. It works in phases: starts when the test does, and waits for it at the end of each.
typedef struct rank_s {
  pthread_t thread;
  ptc_diag_t diag;
  ptc_comm_t *comm;
  const ptc_plan_t *plan;
  const ptc_kernel_objects_t *objects;
  uint64_t seed;
  ptc_executor_t *executor;
  pthread_barrier_t *barrier;  // with the test
  double losses[RANK_RUN_STEPS];
  int64_t read;      // bytes in one step
  bool bytes_agree;  // with what the plan states
  ptc_status_t status;
} rank_t;

// --- a rank

static void fill_input(const rank_t *rank, const ptc_plan_global_t *global, int64_t step) {
  const ptc_buffer_t *buffer = &rank->plan->buffers[global->buffer];
  char *data = ptc_executor_global(rank->executor, global, 0);
  const int64_t each = ptc_dtype_bytes(buffer->dtype);
  uint64_t random = rank->seed + (uint64_t)step * 1000003;
  for (const char *c = global->path; *c; c++) random = random * 31 + (uint64_t)*c;
  for (int64_t i = 0; i < buffer->bytes / each; i++) {
    const uint64_t bits = unit_random(&random) >> 16;
    const double value = ptc_dtype_is_float(buffer->dtype)
                             ? (double)(bits % 2001) / 1000 - 1
                             : (double)(bits % (uint64_t)(global->range > 0 ? global->range : 2));
    ptc_cell_put(buffer->dtype, value, data + i * each);
  }
}

static int64_t counted(const rank_t *rank, const ptc_volume_row_t *row) {
  const int64_t stage_size = ptc_plan_world(rank->plan) / rank->plan->num_stages;
  if (row->first) return ptc_exchange_bytes(ptc_executor_exchange(rank->executor), row->first);
  return ptc_comm_received(rank->comm,
                           (int32_t)(row->peer * stage_size + rank->comm->rank % stage_size));
}

// Compares what was read in all steps with what the plan states, row by row.
static void count_bytes(rank_t *rank, const ptc_task_t *train) {
  ptc_arena_t arena = {0};
  ptc_volume_row_t *rows;
  const int32_t count = ptc_volume_of(rank->plan, train, rank->comm->rank, &arena, &rows);
  rank->bytes_agree = true;
  for (int32_t i = 0; i < count; i++) {
    rank->bytes_agree &= counted(rank, &rows[i]) == RANK_RUN_STEPS * rows[i].bytes;
    rank->read += rows[i].bytes;
  }
  ptc_arena_deinit(&arena);
}

static ptc_status_t step_once(rank_t *rank, const ptc_task_t *task, int step) {
  for (int32_t g = 0; g < rank->plan->num_globals; g++)
    if (strcmp(rank->plan->globals[g].kind, "input") == 0)
      fill_input(rank, &rank->plan->globals[g], step);
  PTC_TRY(ptc_executor_run(&rank->diag, rank->executor, task));
  for (int32_t r = 0; r < task->num_results; r++)
    if (strcmp(task->results[r].role, "loss") == 0)
      rank->losses[step] += ptc_executor_result_number(rank->executor, &task->results[r]);
  return PTC_OK;
}

static ptc_status_t start(rank_t *rank) {
  const ptc_task_t *init = ptc_plan_find_task(rank->plan, "init");
  PTC_TRY(ptc_executor_create(&rank->diag, rank->plan, rank->objects, 1, &rank->executor));
  PTC_TRY(ptc_executor_join(&rank->diag, rank->executor, rank->comm));
  if (init) PTC_TRY(ptc_executor_run(&rank->diag, rank->executor, init));
  ptc_executor_set_profile(rank->executor, true);
  return PTC_OK;
}

// Phase 0: init; 1: the first step; 2: the others.
enum { NUM_PHASES = 3 };
static ptc_status_t work(rank_t *rank, int phase) {
  const ptc_task_t *task = ptc_plan_find_task(rank->plan, "train");
  if (phase == 0) return start(rank);
  if (phase == 1) return step_once(rank, task, 0);
  for (int step = 1; step < RANK_RUN_STEPS; step++) PTC_TRY(step_once(rank, task, step));
  count_bytes(rank, task);
  return PTC_OK;
}

static void *rank_main(void *arg) {
  rank_t *rank = arg;
  for (int phase = 0; phase < NUM_PHASES; phase++) {
    pthread_barrier_wait(rank->barrier);
    if (rank->status == PTC_OK) {
      rank->status = work(rank, phase);
      if (rank->status != PTC_OK) ptc_comm_abort(rank->comm, "the test has failed");
    }
    pthread_barrier_wait(rank->barrier);
  }
  return NULL;
}

// --- whole tensors

typedef struct put_s {
  ptc_dtype_t dtype;
  double *whole;  // NaN where nothing is there yet
  bool agree;
} put_t;

static ptc_status_t put(void *arg, int64_t whole_at, char *part, int64_t bytes) {
  put_t *p = arg;
  const int64_t each = ptc_dtype_bytes(p->dtype);
  const ptc_cell_t cell = ptc_cell_of_dtype(p->dtype);
  for (int64_t i = 0; i < bytes / each; i++) {
    const double value = ptc_cell_get(cell, part + i * each);
    double *to = &p->whole[whole_at / each + i];
    if (isnan(*to))
      *to = value;
    else if (memcmp(to, &value, sizeof value) != 0)
      p->agree = false;
  }
  return PTC_OK;
}

// Where the parts of a tensor lie: in a buffer of each stage that has it.
typedef struct source_s {
  int32_t stage, buffer;
  int64_t instance;
} source_t;

// Puts the parts of all ranks of the stage into |whole|: those of owners first; then the others must have the same.
static void gather(rank_run_t *run, const rank_t *ranks, source_t source, double **whole,
                   int64_t *out_count) {
  const ptc_plan_t *plan = rank_plans_of_stage(&run->plans, source.stage);
  for (int pass = 0; pass < 2; pass++) {
    for (int32_t r = 0; r < run->world; r++) {
      if (rank_plans_stage(&run->plans, r) != source.stage) continue;
      const ptc_shard_t shard =
          ptc_shard_of(plan, &plan->buffers[source.buffer], r, "",
                       ptc_executor_buffer(ranks[r].executor, source.buffer, source.instance));
      *out_count = ptc_host_tensor_num_elements(&shard.whole);
      const bool first = !*whole;
      if (first) {
        *whole = ptc_xmalloc(sizeof **whole * (size_t)(*out_count + 1));
        for (int64_t i = 0; i < *out_count; i++) (*whole)[i] = NAN;
      }
      if (shard.is_owner != (pass == 0)) continue;
      put_t p = {plan->buffers[source.buffer].dtype, *whole, true};
      (void)ptc_shard_walk(&shard, put, &p);
      if (!p.agree) run->replicas_agree = false;
    }
  }
}

static rank_tensor_t *tensor_of(rank_run_t *run, const ptc_plan_global_t *global,
                                int64_t instance) {
  ptc_str_t path = {0};
  ptc_plan_instance_path(global, instance, &path);
  int32_t at = 0;
  while (at < run->num_params && strcmp(run->params[at].name, path.data) != 0) at++;
  if (at == run->num_params) {
    run->params[at].name = ptc_arena_strdup(&run->arena, path.data);
    run->num_params++;
  }
  ptc_str_deinit(&path);
  return &run->params[at];
}

static int64_t num_instances(const ptc_plan_global_t *global) {
  int64_t count = 1;
  for (int32_t c = 0; c < global->num_counts; c++) count *= global->counts[c];
  return count;
}

static void collect_params(rank_run_t *run, const rank_t *ranks, bool initial) {
  for (int32_t s = 0; s < run->plans.num_stages; s++) {
    const ptc_plan_t *plan = rank_plans_of_stage(&run->plans, s);
    for (int32_t g = 0; g < plan->num_globals; g++) {
      const ptc_plan_global_t *global = &plan->globals[g];
      if (strcmp(global->kind, "param") != 0) continue;
      for (int64_t i = 0; i < num_instances(global); i++) {
        rank_tensor_t *tensor = tensor_of(run, global, i);
        gather(run, ranks, (source_t){s, global->buffer, global->first_instance + i},
               initial ? &tensor->initial : &tensor->final, &tensor->count);
      }
    }
  }
}

static void collect_grads(rank_run_t *run, const rank_t *ranks) {
  for (int32_t s = 0; s < run->plans.num_stages; s++) {
    const ptc_plan_t *plan = rank_plans_of_stage(&run->plans, s);
    const ptc_task_t *train = ptc_plan_find_task(plan, "train");
    for (int32_t r = 0; r < train->num_results; r++) {
      const ptc_plan_result_t *result = &train->results[r];
      const ptc_plan_global_t *global = ptc_plan_grad_of(plan, train, r);
      for (int64_t i = 0; global && i < result->num_instances; i++) {
        rank_tensor_t *tensor = tensor_of(run, global, i);
        gather(run, ranks, (source_t){s, result->buffer, result->first_instance + i}, &tensor->grad,
               &tensor->count);
      }
    }
  }
}

// --- all ranks

// At most so many.
static int64_t count_params(const rank_plans_t *plans) {
  int64_t count = 0;
  for (int32_t s = 0; s < plans->num_stages; s++) {
    const ptc_plan_t *plan = rank_plans_of_stage(plans, s);
    for (int32_t g = 0; g < plan->num_globals; g++)
      if (strcmp(plan->globals[g].kind, "param") == 0) count += num_instances(&plan->globals[g]);
  }
  return count;
}

static void finish_rank(rank_run_t *run, rank_t *rank, const rank_t *first) {
  pthread_join(rank->thread, NULL);
  run->bytes_agree = run->bytes_agree && rank->bytes_agree;
  run->bytes_read += rank->read;
  for (int s = 0; s < RANK_RUN_STEPS; s++)
    run->replicas_agree = run->replicas_agree && rank->losses[s] == first->losses[s];
  ptc_diag_print(&rank->diag, stderr, PTC_DIAG_TEXT, false);
}

static bool run_ranks(rank_run_t *run, uint64_t seed, ptc_diag_t *diag) {
  ptc_comm_t **comms = ptc_xmalloc(sizeof *comms * (size_t)run->world);
  rank_t *ranks = ptc_xmalloc(sizeof *ranks * (size_t)run->world);
  pthread_barrier_t barrier;
  bool ok = ptc_comm_open_threads(diag, run->world, comms) == PTC_OK &&
            pthread_barrier_init(&barrier, NULL, (unsigned)run->world + 1) == 0;
  if (!ok) abort();
  for (int32_t r = 0; r < run->world; r++) {
    const int32_t stage = rank_plans_stage(&run->plans, r);
    ranks[r] = (rank_t){.comm = comms[r],
                        .plan = rank_plans_of_stage(&run->plans, stage),
                        .objects = run->plans.objects[stage],
                        .seed = seed,
                        .barrier = &barrier};
    ptc_diag_init(&ranks[r].diag);
    if (pthread_create(&ranks[r].thread, NULL, rank_main, &ranks[r]) != 0) abort();
  }
  for (int phase = 0; phase < NUM_PHASES; phase++) {
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    for (int32_t r = 0; r < run->world; r++) ok = ok && ranks[r].status == PTC_OK;
    if (ok && phase == 1) collect_grads(run, ranks);
    if (ok && phase != 1) collect_params(run, ranks, phase == 0);
  }
  for (int32_t r = 0; r < run->world; r++) finish_rank(run, &ranks[r], &ranks[0]);
  memcpy(run->losses, ranks[0].losses, sizeof run->losses);
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

static bool compile_and_run(ptc_module_t *module, uint64_t seed, bool keep_grads,
                            rank_run_t *out_run) {
  *out_run = (rank_run_t){.replicas_agree = true, .bytes_agree = true};
  bool ok = rank_plans_make(module, keep_grads, &out_run->plans);
  if (ok) {
    out_run->world = out_run->plans.world;
    out_run->params =
        PTC_ARENA_ARRAY(&out_run->arena, rank_tensor_t, count_params(&out_run->plans) + 1);
    ok = run_ranks(out_run, seed, module->diag);
  }
  ptc_diag_print(module->diag, stderr, PTC_DIAG_TEXT, false);
  return ok;
}

bool rank_run(ptc_module_t *module, uint64_t seed, rank_run_t *out_run) {
  return compile_and_run(module, seed, false, out_run);
}

bool rank_run_with_grads(ptc_module_t *module, uint64_t seed, rank_run_t *out_run) {
  return compile_and_run(module, seed, true, out_run);
}

void rank_run_deinit(rank_run_t *run) {
  for (int32_t p = 0; p < run->num_params; p++) {
    free(run->params[p].initial);
    free(run->params[p].final);
    free(run->params[p].grad);
  }
  rank_plans_deinit(&run->plans);
  ptc_arena_deinit(&run->arena);
  *run = (rank_run_t){0};
}

// --- comparing

static const rank_tensor_t *find(const rank_run_t *run, const char *name) {
  for (int32_t p = 0; p < run->num_params; p++)
    if (strcmp(run->params[p].name, name) == 0) return &run->params[p];
  return NULL;
}

static uint64_t digest(uint64_t state, const double *values, int64_t count) {
  for (int64_t i = 0; values && i < count; i++) {
    uint64_t bits;
    memcpy(&bits, &values[i], sizeof bits);
    state = (state ^ bits) * 0x9e3779b97f4a7c15u;
    state ^= state >> 29;
  }
  return state;
}

// Whatever the order of the parameters is.
uint64_t rank_run_digest(const rank_run_t *run) {
  uint64_t sum = digest(1, run->losses, RANK_RUN_STEPS);
  for (int32_t p = 0; p < run->num_params; p++) {
    const rank_tensor_t *tensor = &run->params[p];
    uint64_t state = 7;
    for (const char *c = tensor->name; *c; c++) state = state * 31 + (uint64_t)*c;
    state = digest(state, tensor->initial, tensor->count);
    state = digest(state, tensor->final, tensor->count);
    sum += digest(state, tensor->grad, tensor->count);
  }
  return sum;
}

static double grad_norm(const rank_tensor_t *tensor) {
  double sum = 0;
  for (int64_t i = 0; tensor->grad && i < tensor->count; i++) sum += pow(tensor->grad[i], 2);
  return sqrt(sum);
}

double rank_run_grad_norm(const rank_run_t *run) {
  double sum = 0;
  for (int32_t p = 0; p < run->num_params; p++) sum += pow(grad_norm(&run->params[p]), 2);
  return sqrt(sum);
}

// In parts of the norm, but at least of |least|.
static double grad_difference(const rank_tensor_t *a, const rank_tensor_t *b, double least) {
  if (!a->grad || !b->grad) return !a->grad && !b->grad ? 0 : INFINITY;
  double off = 0;
  for (int64_t i = 0; i < a->count; i++) off += pow(a->grad[i] - b->grad[i], 2);
  return off == 0 ? 0 : sqrt(off) / fmax(grad_norm(a), least);
}

rank_difference_t rank_run_compare(const rank_run_t *one, const rank_run_t *many) {
  rank_difference_t d = {0};
  for (int s = 0; s < RANK_RUN_STEPS; s++)
    d.loss = fmax(d.loss, fabs(many->losses[s] - one->losses[s]) / fabs(one->losses[s]));
  double gone = 0, off = 0;
  const double least = RANK_RUN_LEAST_GRAD * rank_run_grad_norm(one);
  for (int32_t p = 0; p < one->num_params; p++) {
    const rank_tensor_t *a = &one->params[p], *b = find(many, a->name);
    if (!b || b->count != a->count || !b->final || !a->final) {
      d.final = INFINITY;
      return d;
    }
    d.grad = fmax(d.grad, grad_difference(a, b, least));
    for (int64_t i = 0; i < a->count; i++) {
      d.initial += memcmp(&a->initial[i], &b->initial[i], sizeof(double)) != 0;
      gone += pow(a->final[i] - a->initial[i], 2);
      off += pow(b->final[i] - a->final[i], 2);
    }
  }
  d.final = sqrt(off / gone);
  return d;
}

static void explain_tensors(const rank_run_t *one, const rank_run_t *many, const char *what,
                            bool grads) {
  for (int32_t p = 0; p < one->num_params; p++) {
    const rank_tensor_t *a = &one->params[p], *b = find(many, a->name);
    const double *x = grads ? a->grad : a->final, *y = b ? grads ? b->grad : b->final : NULL;
    int64_t differ = 0;
    for (int64_t i = 0; x && y && i < a->count; i++) differ += x[i] != y[i];
    if ((x && !y) || differ)
      printf("  %s of %s: %" PRId64 " of %" PRId64 " differ%s\n", what, a->name, differ, a->count,
             y ? "" : ", it is not there");
  }
}

void rank_run_explain(const rank_run_t *one, const rank_run_t *many) {
  explain_tensors(one, many, "gradient", true);
  for (int s = 0; s < RANK_RUN_STEPS; s++)
    if (one->losses[s] != many->losses[s])
      printf("  loss of step %d: %.9g and %.9g\n", s, one->losses[s], many->losses[s]);
  explain_tensors(one, many, "final value", false);
}
