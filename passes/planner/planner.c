#include "passes/planner/planner.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "ir/base/clock.h"
#include "ir/base/str.h"
#include "passes/planner/cuts.h"
#include "passes/planner/planner_advice.h"
#include "passes/split_stages.h"

// --- the config

static void read_fixed(const ptc_module_t *module, const ptc_work_t *work, ptc_fixed_t *out) {
  const ptc_attrs_t *config = &module->config;
  *out = ptc_fixed_nothing;
  for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++)
    out->size[a] = ptc_attrs_int(config, ptc_device_axis_names[a], 0);
  out->zero = ptc_attrs_int(config, "zero", -1);
  out->micro_batch = ptc_attrs_int(config, "micro_batch", 0);
  if (ptc_attrs_find(config, "sequence_parallel"))
    out->sequence_parallel = ptc_attrs_bool(config, "sequence_parallel", false);
  const char *schedule = ptc_attrs_string(config, "schedule", NULL);
  ptc_schedule_kind_t kind;
  if (schedule && ptc_schedule_parse(schedule, &kind)) {
    out->schedule = kind;
    out->chunks = kind == PTC_SCHEDULE_INTERLEAVED ? ptc_attrs_int(config, "chunks", 0) : 1;
  }
  const char *recompute = ptc_attrs_string(config, "recompute", NULL);
  for (int32_t i = 0; recompute && i < PTC_NUM_RECOMPUTE_MODES; i++)
    if (strcmp(recompute, ptc_recompute_names[i]) == 0) out->recompute = i;
  if (recompute && strcmp(recompute, "every") == 0) {
    out->recompute = PTC_RECOMPUTE_FULL;
    out->recompute_every = ptc_attrs_int(config, "recompute_every", 1);
  }
  out->most_parts = PTC_SPLIT_MAX_PARTS;
  const char *names = ptc_attrs_string(config, "tp_dims", NULL);
  if (!names) return;
  out->has_names = true;
  uint32_t set = 0;
  for (size_t len; names += strspn(names, " "), (len = strcspn(names, " ")) > 0; names += len)
    set |= ptc_work_find_names(work, names, len);
  for (int32_t p = 0; p < PTC_MAX_PIECES; p++) out->names[p] = set;
}

// --- words

void ptc_choice_print_recompute(const ptc_choice_t *choice, ptc_str_t *out) {
  if (choice->recompute_every > 0)
    ptc_str_printf(out, "every(%" PRId64 ")", choice->recompute_every);
  else
    ptc_str_append(out, ptc_recompute_names[choice->recompute]);
}

static bool has_twin(const ptc_work_t *work, const ptc_work_piece_t *piece) {
  for (int32_t p = 0; p < work->num_pieces; p++)
    if (&work->pieces[p] != piece && strcmp(work->pieces[p].name, piece->name) == 0) return true;
  return false;
}

void ptc_choice_print_names(const ptc_work_t *work, const uint32_t *names, ptc_str_t *out) {
  for (int32_t i = 0, any = 0; i < work->num_names; i++) {
    const uint32_t all = work->names[i].pieces;
    uint32_t here = 0;
    for (int32_t p = 0; p < work->num_pieces; p++) here |= (names[p] >> i & 1) << p;
    here &= all;
    // In some of its pieces: each by its own name.
    for (uint32_t left = here; left; left = here == all ? 0 : left & (left - 1)) {
      if (any++) ptc_str_append(out, " ");
      if (here != all) {
        const ptc_work_piece_t *piece = &work->pieces[__builtin_ctz(left)];
        if (has_twin(work, piece))
          ptc_work_print_turns(piece, 0, piece->count - 1, out);
        else
          ptc_str_append(out, piece->name);
        ptc_str_append(out, ".");
      }
      ptc_work_print_name(work, i, out);
    }
  }
}

void ptc_choice_print(const ptc_work_t *work, const ptc_choice_t *choice, ptc_str_t *out) {
  for (int32_t a = PTC_NUM_DEVICE_AXES - 1, any = 0; a >= 0; a--)
    if (choice->size[a] > 1 || a == PTC_AXIS_DP)
      ptc_str_printf(out, "%s%s=%" PRId64, any++ ? " " : "", ptc_device_axis_names[a],
                     choice->size[a]);
  if (choice->size[PTC_AXIS_TP] > 1) {
    ptc_str_append(out, " (");
    ptc_choice_print_names(work, choice->names, out);
    ptc_str_append(out, ")");
  }
  if (choice->sequence_parallel) ptc_str_append(out, " sequence_parallel=on");
  ptc_str_printf(out, " zero=%" PRId64 " micro_batch=%" PRId64, choice->zero, choice->micro_batch);
  if (choice->size[PTC_AXIS_PP] > 1)
    ptc_str_printf(out, " schedule=%s", ptc_schedule_name(choice->schedule));
  if (choice->schedule == PTC_SCHEDULE_INTERLEAVED && choice->size[PTC_AXIS_PP] > 1)
    ptc_str_printf(out, "(chunks=%" PRId64 ")", choice->chunks);
  ptc_str_append(out, " recompute=");
  ptc_choice_print_recompute(choice, out);
  if (choice->recompute != PTC_RECOMPUTE_NONE && choice->recompute_turns >= 0)
    ptc_str_printf(out, " of %" PRId64 " turns a stage", choice->recompute_turns);
}

// --- choosing

static ptc_status_t no_room(const ptc_planner_t *p, ptc_module_t *module) {
  const ptc_candidate_t *best = &p->found.best;
  ptc_str_t words = {0};
  ptc_choice_print(p->work, &best->choice, &words);
  const double short_of = best->predicted.memory_bytes - best->predicted.capacity_bytes;
  const ptc_status_t status = ptc_error(
      module->diag, (ptc_loc_t){0}, PTC_INFEASIBLE, "out-of-memory",
      "no split of %" PRId64
      " devices fits: the one that needs least (%s) takes %.2f GB of %.2f GB on stage %d, %.2f GB "
      "too much",
      p->devices, words.data, best->predicted.memory_bytes / 1e9,
      best->predicted.capacity_bytes / 1e9, (int)best->predicted.worst_stage, short_of / 1e9);
  ptc_planner_advise_memory(p, module);
  ptc_str_deinit(&words);
  return status;
}

static ptc_status_t too_slow(const ptc_planner_t *p, ptc_module_t *module) {
  const ptc_candidate_t *best = &p->found.best;
  ptc_str_t words = {0};
  ptc_choice_print(p->work, &best->choice, &words);
  const ptc_status_t status =
      ptc_error(module->diag, (ptc_loc_t){0}, PTC_INFEASIBLE, "too-slow",
                "no number of devices up to %" PRId64
                " makes a step within %.4g s: the fastest split (%s) takes %.4g s",
                p->cluster->num_devices, p->within_s, words.data, best->predicted.step_s);
  ptc_note(module->diag, (ptc_loc_t){0},
           "give more devices or time, a smaller batch or sequence, or leave open what is fixed");
  ptc_str_deinit(&words);
  return status;
}

// Whether states and gradients fit into all devices together.
static bool may_fit(const ptc_planner_t *p, int64_t world) {
  const double memory = p->cluster->groups[0].node.device->memory_bytes;
  const ptc_choice_t alone = {
      .size = {1, 1, 1, 1, 1}, .micro_batch = 1, .chunks = 1, .recompute_turns = -1};
  ptc_work_pieces_t pieces;
  if (memory <= 0 || ptc_layout_pieces(p->work, p->arena, &alone, PTC_SAVE_PTC, &pieces) != PTC_OK)
    return true;
  double bytes = 0;
  for (int32_t i = 0; i < pieces.count; i++)
    for (int32_t g = 0; g < pieces.items[i].num_groups; g++) {
      const ptc_param_group_t *group = &pieces.items[i].groups[g];
      if (group->shared_with < 0)
        bytes += (double)pieces.items[i].count * (group->grad_bytes + group->state_bytes);
    }
  return bytes / (double)world <= memory;
}

// By rule few sets of names are enough, and nothing is computed again that memory does not want.
static ptc_status_t search_by_rule(ptc_planner_t *p, int64_t world) {
  const bool open = p->fixed.recompute < 0;
  p->fixed.most_sets = 4;
  p->fixed.no_copies = true;
  p->fixed.needs_fit = open || p->supposes_memory;
  if (open) p->fixed.recompute = PTC_RECOMPUTE_NONE;
  if (p->supposes_memory && !may_fit(p, world)) return PTC_INFEASIBLE;
  ptc_status_t status = ptc_search(p->work, p->cluster, p->stack, &p->fixed, world, p->objective,
                                   p->arena, &p->found);
  if (status == PTC_INFEASIBLE && open && p->cluster->groups[0].node.device->memory_bytes > 0) {
    p->fixed.recompute = -1;
    p->fixed.needs_fit = p->supposes_memory;
    status = ptc_search(p->work, p->cluster, p->stack, &p->fixed, world, p->objective, p->arena,
                        &p->found);
  }
  p->fixed.needs_fit = false;
  return status;
}

static ptc_status_t search(ptc_planner_t *p, int64_t world) {
  p->devices = world;
  if (p->rule) return search_by_rule(p, world);
  if (p->objective != PTC_OBJECTIVE_DEVICES)
    return ptc_search(p->work, p->cluster, p->stack, &p->fixed, world, p->objective, p->arena,
                      &p->found);
  return ptc_search_fewest(p->work, p->cluster, p->stack, &p->fixed, p->within_s, p->arena,
                           &p->found, &p->devices);
}

// Cuts that were given are for so many parts; the search takes them if it can predict what they part.
static void read_cuts(ptc_planner_t *p, ptc_module_t *module) {
  const char *list = ptc_attrs_string(&module->config, "cut", "");
  p->given_cuts = *list != '\0';
  if (!p->given_cuts) return;
  p->fixed.num_cuts = ptc_cuts_read(p->work, module, p->arena, &p->fixed.cuts);
  if (p->fixed.num_cuts > 0) return;
  p->fixed.num_cuts = 0;
  p->fixed.cuts = NULL;
  ptc_warning(
      module->diag, (ptc_loc_t){0}, "planner-cuts",
      "what the cuts (%s) part is not predicted, but parts of equal time: every part has to "
      "begin at another turn of a repeat",
      list);
}

// The plan is to have the cuts of the prediction.
static void write_cuts(ptc_planner_t *p, ptc_module_t *module) {
  ptc_choice_t *choice = &p->found.best.choice;
  if (p->given_cuts) return;
  ptc_cuts_settle(p->work, p->cluster, p->stack, p->arena, choice);
  if (!choice->cuts) return;
  ptc_str_t text = {0};
  ptc_cuts_write(p->work, choice, &text);
  ptc_attrs_set_string(module, &module->config, "cut", text.data);
  ptc_module_set_origin(module, "train.cut", NULL, p->origin);
  ptc_str_deinit(&text);
}

static void write_turns(const ptc_planner_t *p, ptc_module_t *module) {
  ptc_str_t text = {0};
  ptc_cuts_write_turns(p->work, &p->found.best.choice, &text);
  if (text.len > 0) {
    ptc_attrs_set_string(module, &module->config, "recompute_turns", text.data);
    ptc_module_set_origin(module, "train.recompute_turns", NULL, p->origin);
  }
  ptc_str_deinit(&text);
}

// What was open is the planner's.
static void note_origins(const ptc_planner_t *p, ptc_module_t *module) {
  const struct {
    const char *name;
    bool open;
  } settings[] = {{"train.zero", p->fixed.zero < 0},
                  {"train.micro_batch", p->fixed.micro_batch == 0},
                  {"train.sequence_parallel", p->fixed.sequence_parallel < 0},
                  {"train.schedule", p->fixed.schedule < 0},
                  {"train.recompute", p->fixed.recompute < 0},
                  {"train.shard", true}};
  for (int32_t a = 0; a < PTC_NUM_DEVICE_AXES; a++)
    if (p->fixed.size[a] == 0)
      ptc_module_set_origin(module,
                            ptc_arena_printf(&module->arena, "train.%s", ptc_device_axis_names[a]),
                            NULL, p->origin);
  for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
    if (settings[i].open) ptc_module_set_origin(module, settings[i].name, NULL, p->origin);
}

// What joins more devices than links do.
static ptc_status_t check_network(const ptc_planner_t *p, ptc_module_t *module, int64_t world) {
  for (int32_t g = 0; g < p->cluster->num_groups; g++) {
    const ptc_node_model_t *node = &p->cluster->groups[g].node;
    const int64_t linked = node->link_domain > node->devices ? node->link_domain : node->devices;
    if (world > linked && node->nic_rate <= 0)
      return ptc_error(module->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "no-network",
                       "cluster \"%s\" joins %" PRId64
                       " devices, but its links no more than %" PRId64
                       ": its block needs a `network NAME bandwidth = ... latency = ...`",
                       p->cluster->name, world, linked);
  }
  return PTC_OK;
}

ptc_status_t ptc_planner_choose(ptc_planner_t *planner, ptc_module_t *module) {
  if (!planner->stack) planner->stack = ptc_stack_find("ptc");
  if (!planner->origin) planner->origin = "planner";
  const double begin = ptc_now_s();
  PTC_TRY(ptc_work_new(module, planner->arena, &planner->work));
  read_fixed(module, planner->work, &planner->fixed);
  read_cuts(planner, module);
  const int64_t world = ptc_attrs_int(&module->config, "world", planner->cluster->num_devices);
  planner->seconds[0] = ptc_now_s() - begin;
  if (world > planner->cluster->num_devices)
    return ptc_error(module->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "no-mesh",
                     "%" PRId64 " ranks are asked for, but cluster \"%s\" has %" PRId64 " devices",
                     world, planner->cluster->name, planner->cluster->num_devices);
  PTC_TRY(check_network(planner, module, world));
  if (planner->objective == PTC_OBJECTIVE_DEVICES && ptc_attrs_find(&module->config, "world"))
    return ptc_error(
        module->diag, (ptc_loc_t){0}, PTC_INVALID_INPUT, "fixed-devices",
        "the number of ranks is given (%" PRId64
        "), and to be as small as possible: leave out --world or the objective devices",
        world);
  const ptc_status_t status = search(planner, world);
  planner->seconds[1] = ptc_now_s() - begin - planner->seconds[0];
  if (status == PTC_INFEASIBLE)
    return ptc_error(module->diag, (ptc_loc_t){0}, PTC_INFEASIBLE, "no-mesh",
                     "no split of %" PRId64 " devices is possible for a batch of %" PRId64
                     " with what is fixed: leave a size open, or give sizes whose product is the "
                     "number of devices and "
                     "divides the batch",
                     world, planner->work->batch);
  PTC_TRY(status);
  if (!planner->found.feasible) return no_room(planner, module);
  if (planner->devices == 0) return too_slow(planner, module);
  PTC_TRY(ptc_work_write_choice(planner->work, &planner->found.best.choice, module));
  write_cuts(planner, module);
  write_turns(planner, module);
  note_origins(planner, module);
  return PTC_OK;
}

ptc_status_t ptc_planner_choose_hook(void *planner, ptc_module_t *module) {
  return ptc_planner_choose(planner, module);
}
