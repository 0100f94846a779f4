// What tasks owe: how often each kernel is launched, how much is exchanged, which values remain. Counts are stated by
// who lowers the ops, digests of values before the plan is placed; both are checked against the steps as they are.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ir/plan_verify_impl.h"

// --- counts

typedef struct counts_s {
  int64_t *launches;  // per kernel
  int64_t exchanged, transfers;
} counts_t;

// ptc_plan_check bounds the turns of a step; sums of them are far from an overflow.
static void count_steps(const ptc_step_t *steps, int32_t num_steps, int64_t turns, counts_t *out) {
  for (int32_t i = 0; i < num_steps; ++i) {
    const ptc_step_t *step = &steps[i];
    switch (step->kind) {
      case PTC_STEP_LAUNCH: out->launches[step->kernel] += turns; break;
      case PTC_STEP_COLLECTIVE: out->exchanged += turns * step->collective->num_parts; break;
      case PTC_STEP_SEND:
      case PTC_STEP_RECV: out->transfers += turns; break;
      case PTC_STEP_REPEAT:
        count_steps(step->body, step->num_steps, turns * step->count, out);
        break;
      default: break;
    }
  }
}

static ptc_status_t wrong_count(ptc_diag_t *diag, const ptc_plan_t *plan, const ptc_task_t *task,
                                const char *what, const char *name, int64_t done, int64_t owed) {
  return ptc_error(diag, (ptc_loc_t){plan->steps_file, task->ledger->line, 1}, PTC_INVALID_INPUT,
                   "plan-ledger",
                   "task \"%s\" %s%s %" PRId64 " times; its ops need %" PRId64
                   ": a step is missing or done twice",
                   task->name, what, name, done, owed);
}

static ptc_status_t check_task(ptc_diag_t *diag, const ptc_plan_t *plan, const ptc_task_t *task,
                               counts_t *counts) {
  const ptc_ledger_t *ledger = task->ledger;
  memset(counts->launches, 0, (size_t)plan->num_kernels * sizeof *counts->launches);
  counts->exchanged = counts->transfers = 0;
  count_steps(task->steps, task->num_steps, 1, counts);
  for (int32_t i = 0; i < ledger->num_launches; ++i) {
    const ptc_launches_t *owed = &ledger->launches[i];
    const int64_t done = counts->launches[owed->kernel];
    if (done != owed->count)
      return wrong_count(diag, plan, task, "launches ", plan->kernels[owed->kernel].name, done,
                         owed->count);
    counts->launches[owed->kernel] = 0;
  }
  for (int32_t k = 0; k < plan->num_kernels; ++k)
    if (counts->launches[k])
      return wrong_count(diag, plan, task, "launches ", plan->kernels[k].name, counts->launches[k],
                         0);
  if (counts->exchanged != ledger->num_exchanged)
    return wrong_count(diag, plan, task, "exchanges operands of collectives", "", counts->exchanged,
                       ledger->num_exchanged);
  if (counts->transfers != ledger->num_transfers)
    return wrong_count(diag, plan, task, "sends or receives", "", counts->transfers,
                       ledger->num_transfers);
  return PTC_OK;
}

ptc_status_t ptc_plan_check_counts(ptc_diag_t *diag, const ptc_plan_t *plan,
                                   const ptc_task_t *task) {
  counts_t counts = {.launches =
                         ptc_xmalloc((size_t)(plan->num_kernels + 1) * sizeof *counts.launches)};
  ptc_status_t status = PTC_OK;
  if (task->ledger) status = check_task(diag, plan, task, &counts);
  for (int32_t i = 0; i < task->num_steps && status == PTC_OK; ++i) {
    if (task->steps[i].kind != PTC_STEP_CALL || task->steps[i].micro != 0) continue;
    const ptc_task_t *part = &plan->tasks[task->steps[i].task];
    if (part->ledger) status = check_task(diag, plan, part, &counts);
  }
  free(counts.launches);
  return status;
}

// --- values

static uint64_t hash_instances(const ptc_plan_replay_t *r, int32_t buffer, int64_t first,
                               int64_t count) {
  uint64_t hash = 0;
  for (int64_t i = first; i < first + count; ++i)
    hash = ptc_plan_map_hash(ptc_plan_mix(hash, (uint64_t)(i - first)),
                             &r->expected[r->first_node[buffer] + i], 0,
                             r->plan->buffers[buffer].bytes);
  return hash;
}

static uint64_t hash_made(const ptc_plan_replay_t *r, bool is_result, int32_t number) {
  if (is_result) {
    const ptc_plan_result_t *result = &r->task->results[number];
    return hash_instances(r, result->buffer, result->first_instance, result->num_instances);
  }
  const ptc_plan_global_t *global = &r->plan->globals[number];
  return hash_instances(r, global->buffer, global->first_instance, ptc_plan_num_instances(global));
}

// Of a global that the task does not touch.
static uint64_t hash_untouched(const ptc_plan_t *plan, int32_t number) {
  const ptc_plan_global_t *global = &plan->globals[number];
  const int64_t bytes = plan->buffers[global->buffer].bytes;
  uint64_t hash = 0;
  for (int64_t i = 0; i < ptc_plan_num_instances(global); ++i) {
    ptc_plan_piece_t piece = {0, bytes, ptc_plan_untouched(number, i), 0};
    const ptc_plan_map_t map = {.pieces = &piece, .len = bytes > 0, .gap = 1};
    hash = ptc_plan_map_hash(ptc_plan_mix(hash, (uint64_t)i), &map, 0, bytes);
  }
  return hash;
}

static ptc_status_t wrong_value(const ptc_plan_replay_t *r, const char *what, const char *name) {
  return ptc_error(r->diag, (ptc_loc_t){r->plan->steps_file, r->task->ledger->line, 1},
                   PTC_INVALID_INPUT, "plan-ledger",
                   "task \"%s\" %s%s that is not made as its ops make it: a step is missing, done "
                   "twice, or reads another value",
                   r->task->name, what, name);
}

ptc_status_t ptc_plan_check_values(const ptc_plan_replay_t *r) {
  const ptc_ledger_t *ledger = r->task->ledger;
  if (!ledger) return PTC_OK;
  bool *stated = ptc_xmalloc((size_t)r->plan->num_globals + 1);
  memset(stated, 0, (size_t)r->plan->num_globals + 1);
  ptc_status_t status = PTC_OK;
  for (int32_t i = 0; i < ledger->num_made && status == PTC_OK; ++i) {
    const ptc_made_t *made = &ledger->made[i];
    if (!made->is_result) stated[made->number] = true;
    if (hash_made(r, made->is_result, made->number) == made->digest) continue;
    status = made->is_result
                 ? wrong_value(r, "ends with the result ", r->task->results[made->number].name)
                 : wrong_value(r, "leaves a value in ", r->plan->globals[made->number].path);
  }
  for (int32_t g = 0; g < r->plan->num_globals && status == PTC_OK; ++g)
    if (!stated[g] && hash_made(r, false, g) != hash_untouched(r->plan, g))
      status = wrong_value(r, "leaves a value in ", r->plan->globals[g].path);
  if (status == PTC_OK && ledger->sent != r->sent) status = wrong_value(r, "sends a value", "");
  free(stated);
  return status;
}

static void state_task(const ptc_plan_replay_t *r, ptc_arena_t *arena) {
  ptc_ledger_t *ledger = r->task->ledger;
  const int32_t most = r->plan->num_globals + r->task->num_results;
  ledger->made = PTC_ARENA_ARRAY(arena, ptc_made_t, most);
  ledger->num_made = 0;
  for (int32_t g = 0; g < r->plan->num_globals; ++g) {
    const uint64_t digest = hash_made(r, false, g);
    if (digest != hash_untouched(r->plan, g))
      ledger->made[ledger->num_made++] = (ptc_made_t){false, g, digest};
  }
  for (int32_t n = 0; n < r->task->num_results; ++n)
    ledger->made[ledger->num_made++] = (ptc_made_t){true, n, hash_made(r, true, n)};
  ledger->sent = r->sent;
}

ptc_status_t ptc_plan_state_values(ptc_diag_t *diag, ptc_plan_t *plan) {
  ptc_plan_replay_t replay;
  ptc_plan_replay_init(&replay, diag, plan);
  ptc_status_t status = PTC_OK;
  for (int32_t t = 0; t < plan->num_tasks && status == PTC_OK; ++t) {
    replay.task = &plan->tasks[t];
    if (!replay.task->ledger || replay.task->num_micro > 0) continue;
    status = ptc_plan_replay_task(&replay);
    if (status == PTC_OK) state_task(&replay, &plan->arena);
  }
  ptc_plan_replay_deinit(&replay);
  return status;
}
