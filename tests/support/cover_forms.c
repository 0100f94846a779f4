#include "tests/support/cover_forms.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "frontend/driver/volume.h"
#include "ir/limbs.h"
#include "passes/schedule.h"
#include "tests/support/cover_models.h"

enum { F32 = 4, MIN_SHARD = 4 };

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static int64_t num_instances(const ptc_plan_global_t *global) {
  int64_t count = 1;
  for (int32_t i = 0; i < global->num_counts; i++) count *= global->counts[i];
  return count;
}

static bool is_kind(const ptc_plan_global_t *global, const char *kind) {
  return strcmp(global->kind, kind) == 0;
}

static bool same(const char *what, int64_t wanted, int64_t found) {
  if (wanted == found) return true;
  printf("  %s: %" PRId64 " bytes, not %" PRId64 "\n", what, found, wanted);
  return false;
}

// --- memory

bool cover_check_arena(const rank_plans_t *plans) {
  bool ok = true;
  for (int32_t s = 0; s < plans->num_stages; s++) {
    const ptc_plan_t *plan = rank_plans_of_stage(plans, s);
    int64_t end = 0;
    for (int32_t b = 0; b < plan->num_buffers; b++) {
      const ptc_buffer_t *buffer = &plan->buffers[b];
      for (int64_t i = 0; i < buffer->num_instances; i++)
        if (buffer->offsets[i] + buffer->bytes > end) end = buffer->offsets[i] + buffer->bytes;
    }
    ok &= same("arena", ceil_div(end, PTC_PLAN_ALIGN) * PTC_PLAN_ALIGN, plan->arena_bytes);
  }
  return ok;
}

// Ranks that hold other parts of the dim, those of ZeRO (over dp and cp) apart.
static int64_t tp_shards(const ptc_plan_t *plan, const ptc_buffer_t *buffer, int32_t dim) {
  int64_t shards = 1;
  const ptc_dim_t *layout = buffer->layout ? &buffer->layout[dim] : NULL;
  for (int32_t i = 0; layout && i < layout->num_axes; i++)
    if (strcmp(layout->axes[i].axis, "tp") == 0)
      shards *= ptc_axis_ref_size(&plan->mesh, layout->axes[i]);
  return shards;
}

static int64_t whole_extent(const ptc_buffer_t *buffer, int32_t dim) {
  return buffer->layout ? buffer->layout[dim].extent : buffer->extents[dim];
}

static int64_t state_bytes(const ptc_plan_t *plan, const ptc_buffer_t *buffer, int64_t parts) {
  int64_t bytes = F32, shards[PTC_MAX_DIMS];
  int32_t at = -1;
  for (int32_t d = 0; d < buffer->num_dims; d++) shards[d] = tp_shards(plan, buffer, d);
  for (int32_t d = buffer->num_dims; d-- > 0 && parts > 1;)
    if (shards[d] == 1 && whole_extent(buffer, d) >= MIN_SHARD * parts) at = d;
  for (int32_t d = buffer->num_dims; d-- > 0 && parts > 1;)
    if (whole_extent(buffer, d) % (shards[d] * parts) == 0) at = d;
  for (int32_t d = 0; d < buffer->num_dims; d++)
    bytes *= ceil_div(whole_extent(buffer, d), shards[d] * (d == at ? parts : 1));
  return bytes;
}

static int64_t whole_bytes(const ptc_buffer_t *buffer) {
  int64_t bytes = F32;
  for (int32_t d = 0; d < buffer->num_dims; d++) bytes *= whole_extent(buffer, d);
  return bytes;
}

bool cover_check_states(const cover_case_t *c, const ptc_plan_t *one, const rank_plans_t *plans) {
  const int64_t parts = c->zero > 0 ? c->dp * c->cp : 1;
  int64_t whole = 0, covered = 0;
  bool ok = true;
  for (int32_t g = 0; g < one->num_globals; g++)
    if (is_kind(&one->globals[g], "param") || is_kind(&one->globals[g], "moment"))
      whole += num_instances(&one->globals[g]) * whole_bytes(&one->buffers[one->globals[g].buffer]);
  for (int32_t s = 0; s < plans->num_stages; s++) {
    const ptc_plan_t *plan = rank_plans_of_stage(plans, s);
    for (int32_t g = 0; g < plan->num_globals; g++) {
      const ptc_plan_global_t *global = &plan->globals[g];
      if (!is_kind(global, "param") && !is_kind(global, "moment")) continue;
      const ptc_buffer_t *buffer = &plan->buffers[global->buffer];
      ok &= same(global->path, state_bytes(plan, buffer, parts), buffer->bytes);
      covered += num_instances(global) * whole_bytes(buffer);
    }
  }
  // A tied weight is on several stages.
  if (plans->num_stages == 1) ok &= same("all states", whole, covered);
  return ok && covered >= whole;
}

// Of one token and layer, in numbers: what attention and the two halves of the layer keep.
static int64_t saved_numbers(const cover_model_t *model) {
  const cover_sizes_t *z = &model->sizes;
  const int64_t attention = (2 * z->heads + 2 * z->kv_heads) * z->head_dim + z->heads;
  // The outputs of two norms, the input of the second; u and gelu(u); the means and deviations of both.
  if (strcmp(model->name, "gpt2") == 0) return attention + 3 * z->d + 2 * z->ffn + 4;
  // g, u, silu(g) and their product; the deviations.
  if (strcmp(model->name, "llama3") == 0) return attention + 3 * z->d + 4 * z->ffn + 2;
  // Besides, the inputs of two more norms.
  return attention + 5 * z->d + 4 * z->ffn + 4;
}

// Parameters that ZeRO 1 and 2 gather for the whole step are no activations.
static bool has_samples(const ptc_buffer_t *buffer) {
  for (int32_t d = 0; d < buffer->num_dims; d++)
    if (strcmp(buffer->dim_names[d], "b") == 0) return true;
  return false;
}

bool cover_check_saved(const cover_case_t *c, const rank_plans_t *plans, bool *out_checked) {
  const cover_model_t *model = &cover_models[c->model];
  *out_checked = c->tp == 1 && c->cp == 1 && c->pp == 1 &&
                 strcmp(cover_recompute_names[c->recompute], "selective") != 0;
  if (!*out_checked) return true;
  const ptc_plan_t *plan = rank_plans_of_stage(plans, 0);
  int64_t found = 0;
  for (int32_t b = 0; b < plan->num_buffers; b++)
    if (plan->buffers[b].cls == PTC_BUFFER_SAVED && has_samples(&plan->buffers[b]))
      found += plan->buffers[b].num_instances * plan->buffers[b].bytes;
  // Gemma's layers are two by two; the last one is in no repeat. The first of two keeps the second's input, too: the
  // carried value of the repeat is not counted here.
  const bool pairs = strcmp(model->name, "gemma2") == 0;
  const int64_t layers = pairs ? cover_layers(c) / 2 * 2 : cover_layers(c);
  const int64_t numbers = layers * saved_numbers(model) + (pairs ? layers / 2 * model->sizes.d : 0);
  const bool keeps = strcmp(cover_recompute_names[c->recompute], "none") == 0;
  return same("saved activations", keeps ? F32 * COVER_SAMPLES * model->sizes.seq * numbers : 0,
              found);
}

// --- volume

// Bytes that the first of |parts| ranks reads: it sums its slice, and reads the others' sums.
static int64_t all_reduce(int64_t elements, int64_t each, int64_t parts) {
  const int64_t slice = ceil_div(elements, parts);
  return ((parts - 1) * slice + elements - slice) * each;
}

// The last part of a path: a bias is added, and its value no gradient's.
static bool is_bias(const char *path) {
  const char *dot = strrchr(path, '.');
  return dot && dot[1] == 'b';
}

typedef struct volume_s {
  int64_t all_reduce, reduce_scatter, all_gather;
} volume_t;

// Exact where every parameter divides, as it does here.
static volume_t data_volume(const cover_case_t *c, const ptc_plan_t *one) {
  const int64_t n = c->dp, turns = c->zero >= 2 ? c->num_micro : 1;
  const ptc_task_t *train = ptc_plan_find_task(one, "train");
  volume_t v = {0};
  for (int32_t g = 0; g < one->num_globals; g++) {
    const ptc_plan_global_t *global = &one->globals[g];
    if (!is_kind(global, "param")) continue;
    const int64_t bytes = num_instances(global) * whole_bytes(&one->buffers[global->buffer]);
    const int64_t share = bytes / n * (n - 1);
    // Micro-batches add up the gradients of the two uses of the tied weight apart.
    const bool twice = turns > 1 && strchr(global->path, '.') == NULL &&
                       (strcmp(global->path, "wte") == 0 || strcmp(global->path, "embed") == 0);
    if (c->zero == 0) {
      v.all_reduce += 2 * share;
      continue;
    }
    v.reduce_scatter += turns * share * (twice ? 2 : 1);
    // ZeRO 3 gathers for the backward pass again, but for what stands in no repeat.
    const bool again = c->zero == 3 && global->num_counts > 0 && !is_bias(global->path);
    v.all_gather += (c->zero == 3 ? c->num_micro : 1) * share * (again ? 2 : 1);
  }
  // Losses and the model's metrics; every rank knows the rest.
  for (int32_t r = 0; r < train->num_results; r++) {
    const ptc_plan_result_t *result = &train->results[r];
    const bool summed = strcmp(result->role, "loss") == 0 || strcmp(result->name, "accuracy") == 0;
    if (summed) v.all_reduce += all_reduce(1, F32, n);
  }
  // How many targets count: known before the loop over micro-batches, if there is one.
  if (c->num_micro == 1) v.all_reduce += all_reduce(1, F32, n);
  // The norm, an exact integer.
  if (c->zero > 0) v.all_reduce += all_reduce(PTC_LIMBS, sizeof(int64_t), n);
  return v;
}

static bool check_data(const cover_case_t *c, const ptc_plan_t *one, const ptc_plan_t *plan) {
  const volume_t wanted = data_volume(c, one);
  ptc_arena_t arena = {0};
  ptc_volume_row_t *rows;
  volume_t found = {0};
  const int32_t count = ptc_volume_of(plan, ptc_plan_find_task(plan, "train"), 0, &arena, &rows);
  for (int32_t i = 0; i < count; i++) {
    if (strcmp(rows[i].op, "all_reduce") == 0) found.all_reduce += rows[i].bytes;
    if (strcmp(rows[i].op, "reduce_scatter") == 0) found.reduce_scatter += rows[i].bytes;
    if (strcmp(rows[i].op, "all_gather") == 0) found.all_gather += rows[i].bytes;
  }
  ptc_arena_deinit(&arena);
  bool ok = same("all_reduce", wanted.all_reduce, found.all_reduce);
  ok &= same("reduce_scatter", wanted.reduce_scatter, found.reduce_scatter);
  return same("all_gather", wanted.all_gather, found.all_gather) && ok;
}

// Bytes that the transfers of micro-batches bring, over all stages.
static bool check_transfers(const cover_case_t *c, const rank_plans_t *plans) {
  const cover_sizes_t *z = &cover_models[c->model].sizes;
  const int64_t parts = c->pp * (c->schedule == PTC_SCHEDULE_INTERLEAVED ? 2 : 1);
  const int64_t activation = F32 * COVER_SAMPLES * ceil_div(z->seq, c->cp) * z->d;
  // The first stage gathers the tied weight of ZeRO 3; the last one gets it with the activations.
  const int64_t tied = c->zero == 3 && c->dp * c->cp > 1 ? F32 * z->vocab * z->d : 0;
  int64_t found = 0;
  for (int32_t s = 0; s < plans->num_stages; s++) {
    const ptc_plan_t *plan = rank_plans_of_stage(plans, s);
    const ptc_task_t *train = ptc_plan_find_task(plan, "train");
    for (int32_t i = 0; i < train->num_steps; i++) {
      if (train->steps[i].kind != PTC_STEP_CALL) continue;
      const ptc_task_t *task = &plan->tasks[train->steps[i].task];
      for (int32_t k = 0; k < task->num_steps; k++)
        if (task->steps[k].kind == PTC_STEP_RECV) found += task->steps[k].args[0].bytes;
    }
  }
  return same("transfers between stages", (parts - 1) * c->num_micro * (2 * activation + tied),
              found);
}

bool cover_check_volume(const cover_case_t *c, const ptc_plan_t *one, const rank_plans_t *plans,
                        bool *out_checked) {
  const bool plain = strcmp(cover_recompute_names[c->recompute], "none") == 0 || c->zero < 3;
  const bool data = c->tp == 1 && c->cp == 1 && c->pp == 1 && c->dp > 1 && plain;
  const bool stages = c->tp == 1 && c->pp > 1;
  *out_checked = data || stages;
  if (data) return check_data(c, one, rank_plans_of_stage(plans, 0));
  return !stages || check_transfers(c, plans);
}
