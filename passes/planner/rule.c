#include "passes/planner/rule.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define RATE 1e9
const double ptc_rule_rate = RATE;

// What takes as long as a byte from a peer, in operations; a byte that a kernel moves in operations; a message and a kernel in
// bytes from a peer. Of a core, whose peers share its memory, and of a GPU in 16 bits with its links: orders of magnitude.
static const struct {
  double flops, moved_flops, message_bytes, kernel_bytes;
} rates[] = {[PTC_RULE_CPU] = {10, 4, 64e3, 16e3}, [PTC_RULE_GPU] = {1000, 120, 4e6, 1e6}};

static const ptc_stack_t rule_stack = {.name = "rule",
                                       .what = "every byte counts: nothing is hidden",
                                       .saves = PTC_SAVE_PTC,
                                       .gemm_precision = -1,
                                       .grad_bytes = 4,
                                       .wgrad_f32 = true,
                                       .sums_together = true,
                                       .late_rate = 1,
                                       .attention_rate = 1,
                                       .allocator = 1};

const ptc_cluster_t *ptc_rule_cluster(ptc_arena_t *arena, ptc_rule_kind_t kind, int64_t ranks,
                                      double memory_bytes) {
  ptc_device_model_t *device = PTC_ARENA_NEW(arena, ptc_device_model_t);
  *device = (ptc_device_model_t){.name = "any",
                                 .arch = PTC_ARCH_ANY,
                                 .memory_bytes = memory_bytes,
                                 .memory_rate = RATE * rates[kind].flops / rates[kind].moved_flops,
                                 .memory_eff = 1,
                                 .gemm_eff = 1,
                                 .launch_s = rates[kind].kernel_bytes / RATE};
  for (int i = 0; i < PTC_NUM_PRECS; i++) device->peak[i] = RATE * rates[kind].flops;
  ptc_cluster_t *cluster = PTC_ARENA_NEW(arena, ptc_cluster_t);
  *cluster = (ptc_cluster_t){.name = "any", .num_groups = 1, .num_devices = ranks};
  cluster->groups[0] =
      (ptc_cluster_group_t){.node = {.device = device,
                                     .devices = (int32_t)ranks,
                                     .link_name = "any",
                                     .link_rate = RATE,
                                     .link_busbw = RATE,
                                     .link_latency = rates[kind].message_bytes / RATE,
                                     .link_domain = (int32_t)ranks,
                                     .link_islands = 1,
                                     .link_switched = true},
                            .nodes = 1};
  return cluster;
}

// --- bytes

// What a member reads of a buffer of one byte.
static double read_share(ptc_net_kind_t kind, double ranks) {
  if (kind == PTC_NET_SEND || ranks <= 1) return kind == PTC_NET_SEND;
  return (kind == PTC_NET_ALL_REDUCE ? 2 : 1) * (ranks - 1) / ranks;
}

typedef struct sent_s {
  const ptc_choice_t *choice;
  double bytes[PTC_NUM_DEVICE_AXES];
} sent_t;

static double ranks_of(const ptc_choice_t *choice, uint32_t axes) {
  double ranks = 1;
  for (int a = 0; a < PTC_NUM_DEVICE_AXES; a++)
    if (axes >> a & 1) ranks *= (double)choice->size[a];
  return ranks;
}

static void add_bytes(sent_t *s, ptc_net_kind_t kind, uint32_t axes, int32_t part, double bytes) {
  int axis = PTC_NUM_DEVICE_AXES - 1;
  while (axis > 0 && !(axes >> axis & 1)) axis--;
  s->bytes[axis] += bytes * read_share(kind, part > 0 ? part : ranks_of(s->choice, axes));
}

static void add_phase(sent_t *s, const ptc_phase_work_t *phase, double times) {
  for (int32_t i = 0; i < phase->num_nets; i++) {
    const ptc_net_item_t *item = &phase->nets[i];
    if (!item->late)
      add_bytes(s, item->kind, item->axes, item->ranks, item->bytes * item->times * times);
  }
}

// Gradients and parameters, as ZeRO moves them.
static void add_group(sent_t *s, const ptc_param_group_t *group, const ptc_piece_t *piece,
                      double turns, double micro) {
  const double grads = group->grad_bytes * turns, params = group->param_bytes * turns;
  const int64_t zero = s->choice->zero;
  if (zero == 0) {
    add_bytes(s, PTC_NET_ALL_REDUCE, group->axes, 0, grads);
    return;
  }
  add_bytes(s, PTC_NET_REDUCE_SCATTER, group->axes, 0, grads * (zero > 1 ? micro : 1));
  // Outside of repeats one gather serves both ways.
  const double gathers = zero > 2 ? (piece->count > 1 ? 2 * micro : micro) : 1;
  add_bytes(s, PTC_NET_ALL_GATHER, group->axes, 0, params * gathers);
}

void ptc_rule_sent(const ptc_planner_t *planner, const ptc_candidate_t *candidate,
                   double out_bytes[PTC_NUM_DEVICE_AXES]) {
  const ptc_choice_t *choice = &candidate->choice;
  ptc_arena_t arena = {0};
  ptc_work_pieces_t pieces;
  ptc_piece_time_t times[PTC_MAX_PIECES];
  memset(out_bytes, 0, sizeof(*out_bytes) * PTC_NUM_DEVICE_AXES);
  const int64_t stages = choice->size[PTC_AXIS_PP];
  ptc_stage_pieces_t *counts = PTC_ARENA_ARRAY(&arena, ptc_stage_pieces_t, stages);
  ptc_part_range_t *parts =
      PTC_ARENA_ARRAY(&arena, ptc_part_range_t, stages * (choice->chunks > 1 ? choice->chunks : 1));
  bool ok = ptc_layout_pieces(planner->work, &arena, choice, PTC_SAVE_PTC, &pieces) == PTC_OK;
  if (ok) ptc_predict_pieces(&pieces, planner->cluster, planner->stack, choice, times);
  ok = ok &&
       ptc_predict_stages(&pieces, times, planner->cluster, planner->stack, choice, parts, counts);
  const double micro = (double)pieces.micro_batches;
  double most = -1;
  for (int64_t stage = 0; ok && stage < stages; stage++) {
    sent_t s = {.choice = choice};
    double boundary = 0, sum = 0;
    for (int32_t i = 0; i < pieces.count; i++) {
      const ptc_piece_t *piece = &pieces.items[i];
      const double turns = counts[stage].times[i];
      add_phase(&s, &piece->forward, turns * micro);
      add_phase(&s, &piece->again, turns * micro);
      add_phase(&s, &piece->backward, turns * micro);
      add_phase(&s, &piece->weight_grad, turns * micro);
      add_phase(&s, &piece->step, turns);
      for (int32_t g = 0; g < piece->num_groups; g++)
        if (piece->groups[g].shared_with < 0 || !counts[stage].times[piece->groups[g].shared_with])
          add_group(&s, &piece->groups[g], piece, turns, micro);
      boundary = fmax(boundary, piece->boundary_bytes);
    }
    const double hops = stages > 1 ? (stage > 0 && stage < stages - 1 ? 2 : 1) : 0;
    s.bytes[PTC_AXIS_PP] = hops * micro * (double)choice->chunks * boundary;
    for (int a = 0; a < PTC_NUM_DEVICE_AXES; a++) sum += s.bytes[a];
    if (sum <= most) continue;
    most = sum;
    memcpy(out_bytes, s.bytes, sizeof(s.bytes));
  }
  ptc_arena_deinit(&arena);
}

bool ptc_rule_next(const ptc_planner_t *planner, ptc_candidate_t *out_next) {
  ptc_arena_t arena = {0};
  ptc_search_result_t *found = PTC_ARENA_NEW(&arena, ptc_search_result_t);
  ptc_fixed_t fixed = planner->fixed;
  fixed.banned = planner->found.best.choice.size;
  fixed.needs_fit = true;
  const bool any = ptc_search(planner->work, planner->cluster, planner->stack, &fixed,
                              planner->devices, planner->objective, &arena, found) == PTC_OK;
  if (any) {
    *out_next = found->best;
    out_next->choice.cuts = NULL;  // they lie in the arena
    out_next->choice.num_cuts = 0;
  }
  ptc_arena_deinit(&arena);
  return any;
}

// Ranks that no axis of the config takes; 0: they do not divide the world, or dp is given.
static int64_t ranks_left(const ptc_module_t *module) {
  const ptc_attrs_t *config = &module->config;
  int64_t others = 1;
  for (int a = 0; a < PTC_NUM_DEVICE_AXES; a++)
    others *= ptc_attrs_int(config, ptc_device_axis_names[a], 1);
  const int64_t world = ptc_attrs_int(config, "world", 1);
  if (ptc_attrs_find(config, "dp") || others < 1 || world % others) return 0;
  return world / others;
}

// A batch that is padded.
static bool may_pad(const ptc_module_t *module) {
  const int64_t left = ranks_left(module);
  return left > 0 && left <= ptc_attrs_int(&module->config, "batch", 1) &&
         ptc_attrs_int(&module->config, "ep", 1) == 1;
}

static void leave_to_dp(ptc_planner_t *p, ptc_module_t *module) {
  ptc_attrs_set_int(module, &module->config, "dp", ranks_left(module));
  ptc_module_set_origin(module, "train.dp", NULL, p->origin);
  p->found.feasible = false;
}

static bool has_id(const ptc_diag_t *diag, const char *id) {
  for (int64_t i = 0; i < diag->num_items; i++)
    if (diag->items[i].id && strcmp(diag->items[i].id, id) == 0) return true;
  return false;
}

static ptc_status_t try_choose(ptc_planner_t *p, ptc_module_t *module, ptc_diag_t *found) {
  ptc_diag_t *diag = module->diag;
  module->diag = found;
  const ptc_status_t status = ptc_planner_choose(p, module);
  module->diag = diag;
  return status;
}

static ptc_status_t choose(ptc_planner_t *p, ptc_module_t *module, ptc_diag_t *found) {
  ptc_status_t status = try_choose(p, module, found);
  const double supposed = p->supposes_memory ? p->cluster->groups[0].node.device->memory_bytes : 0;
  if (status == PTC_INFEASIBLE && supposed > 0) {
    p->cluster = ptc_rule_cluster(p->arena, PTC_RULE_CPU, p->cluster->num_devices, 0);
    p->supposes_memory = false;
    ptc_diag_deinit(found);
    ptc_diag_init(found);
    status = try_choose(p, module, found);
    if (status == PTC_OK)
      ptc_warning(module->diag, (ptc_loc_t){0}, "rule-memory",
                  "no split of %" PRId64
                  " ranks fits into this machine, %.2f GB each: one is chosen as if "
                  "any fitted (--memory says what a rank may take where the plan runs)",
                  p->devices, supposed / 1e9);
  }
  if (status == PTC_INFEASIBLE && has_id(found, "no-mesh") && may_pad(module)) {
    leave_to_dp(p, module);
    return PTC_OK;
  }
  if (status != PTC_OK && has_id(found, "planner-pieces") && ranks_left(module) > 0) {
    ptc_warning(module->diag, (ptc_loc_t){0}, "rule-pieces",
                "%s: its splits are not compared, dp takes the %" PRId64 " ranks that are left",
                found->items[0].message, ranks_left(module));
    leave_to_dp(p, module);
    return PTC_OK;
  }
  ptc_diag_pass_on(module->diag, found, status);
  return status;
}

ptc_status_t ptc_rule_choose(ptc_planner_t *p, ptc_module_t *module) {
  p->origin = "rule";
  p->rule = true;
  p->stack = &rule_stack;
  if (ptc_attrs_int(&module->config, "world", 1) <= 1 || !ptc_module_find_func(module, "train"))
    return PTC_OK;
  ptc_diag_t found;
  ptc_diag_init(&found);
  ptc_status_t status = choose(p, module, &found);
  ptc_diag_deinit(&found);
  return status;
}

ptc_status_t ptc_rule_choose_hook(void *planner, ptc_module_t *module) {
  return ptc_rule_choose(planner, module);
}
