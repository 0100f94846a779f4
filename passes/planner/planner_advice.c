#include "passes/planner/planner_advice.h"

#include <inttypes.h>
#include <string.h>

#include "ir/base/str.h"

enum { MOST_CHANGES = 16, MOST_GROWTH = 64 };

typedef struct change_s {
  const char *name;
  ptc_fixed_t fixed;
} change_t;

static void add(change_t *changes, int32_t *count, bool is_fixed, const char *name,
                const ptc_fixed_t *without) {
  if (is_fixed) changes[(*count)++] = (change_t){name, *without};
}

// What is fixed, each without one setting. Returns how many are.
static int32_t list_changes(const ptc_fixed_t *fixed, change_t *changes) {
  const ptc_fixed_t nothing = ptc_fixed_nothing;
  int32_t count = 0;
  for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++) {
    ptc_fixed_t other = *fixed;
    other.size[a] = 0;
    add(changes, &count, fixed->size[a] > 0, ptc_device_axis_names[a], &other);
  }
  ptc_fixed_t other = *fixed;
  other.zero = nothing.zero;
  add(changes, &count, fixed->zero >= 0, "zero", &other);
  other = *fixed;
  other.micro_batch = 0;
  add(changes, &count, fixed->micro_batch > 0, "micro_batch", &other);
  other = *fixed;
  other.schedule = nothing.schedule;
  other.chunks = 0;
  add(changes, &count, fixed->schedule >= 0, "schedule", &other);
  other = *fixed;
  other.recompute = nothing.recompute;
  other.recompute_every = 0;
  add(changes, &count, fixed->recompute >= 0, "recompute", &other);
  other = *fixed;
  other.sequence_parallel = nothing.sequence_parallel;
  add(changes, &count, fixed->sequence_parallel >= 0, "sequence_parallel", &other);
  other = *fixed;
  other.has_names = false;
  add(changes, &count, fixed->has_names, "tp_dims", &other);
  other = *fixed;
  other.cuts = NULL;
  other.num_cuts = 0;
  add(changes, &count, fixed->num_cuts > 0, "cut", &other);
  return count;
}

static bool fits(const ptc_planner_t *p, const ptc_cluster_t *cluster, const ptc_fixed_t *fixed,
                 int64_t devices, ptc_arena_t *arena, ptc_search_result_t *out) {
  return ptc_search(p->work, cluster, p->stack, fixed, devices, PTC_OBJECTIVE_TIME, arena, out) ==
             PTC_OK &&
         out->feasible;
}

static void note(const ptc_planner_t *p, ptc_module_t *module, const char *change,
                 const ptc_search_result_t *found) {
  const ptc_prediction_t *t = &found->best.predicted;
  ptc_str_t words = {0};
  ptc_choice_print(p->work, &found->best.choice, &words);
  if (!p->rule) ptc_str_printf(&words, ": %.4g s a step", t->step_s);
  ptc_note(module->diag, (ptc_loc_t){0}, "the cheapest change that fits: %s (%s, %.2f of %.2f GB)",
           change, words.data, t->memory_bytes / 1e9, t->capacity_bytes / 1e9);
  ptc_str_deinit(&words);
}

static bool leave_open(const ptc_planner_t *p, ptc_module_t *module, ptc_arena_t *arena) {
  change_t changes[MOST_CHANGES];
  const int32_t count = list_changes(&p->fixed, changes);
  ptc_search_result_t *found = PTC_ARENA_NEW(arena, ptc_search_result_t),
                      *best = PTC_ARENA_NEW(arena, ptc_search_result_t);
  const char *name = NULL;
  for (int32_t i = 0; i < count; i++) {
    if (!fits(p, p->cluster, &changes[i].fixed, p->devices, arena, found)) continue;
    if (name && found->best.predicted.step_s >= best->best.predicted.step_s) continue;
    *best = *found;
    name = ptc_arena_printf(arena, "leave %s open", changes[i].name);
  }
  ptc_fixed_t open = ptc_fixed_nothing;
  open.most_parts = p->fixed.most_parts;
  if (!name && count > 1 && fits(p, p->cluster, &open, p->devices, arena, best))
    name = "leave open all that is fixed";
  if (name) note(p, module, name, best);
  return name != NULL;
}

static bool take_more(const ptc_planner_t *p, ptc_module_t *module, ptc_arena_t *arena) {
  ptc_search_result_t *found = PTC_ARENA_NEW(arena, ptc_search_result_t);
  const int64_t all = p->cluster->num_devices;
  for (int64_t n = p->devices; n > 0 && n < all;) {
    n = ptc_devices_after(p->cluster, n);
    if (n > 0 && fits(p, p->cluster, &p->fixed, n, arena, found)) {
      note(p, module, ptc_arena_printf(arena, "%" PRId64 " ranks of the cluster", n), found);
      return true;
    }
  }
  if (p->cluster->num_groups > 1) return false;
  ptc_cluster_t *larger = PTC_ARENA_NEW(arena, ptc_cluster_t);
  *larger = *p->cluster;
  const ptc_node_model_t *node = &larger->groups[0].node;
  if (node->nic_rate <= 0) return false;  // nothing joins more of them
  const int64_t nodes = larger->groups[0].nodes;
  for (int64_t n = nodes + 1; n <= nodes * MOST_GROWTH; n = n > 4 ? n + n / 4 : n + 1) {
    larger->groups[0].nodes = (int32_t)n;
    larger->num_devices = n * node->devices;
    if (!fits(p, larger, &p->fixed, larger->num_devices, arena, found)) continue;
    note(p, module,
         ptc_arena_printf(arena, "%" PRId64 " nodes (%" PRId64 " devices) instead of %" PRId64, n,
                          larger->num_devices, nodes),
         found);
    return true;
  }
  return false;
}

void ptc_planner_advise_memory(const ptc_planner_t *planner, ptc_module_t *module) {
  ptc_arena_t arena;
  ptc_arena_init(&arena);
  if (!leave_open(planner, module, &arena) && !take_more(planner, module, &arena))
    ptc_note(module->diag, (ptc_loc_t){0},
             "no setting left open and no more nodes help: make the model, its sequence or its "
             "batch smaller");
  ptc_arena_deinit(&arena);
}
