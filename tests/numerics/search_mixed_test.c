// Proves: on clusters of two kinds of devices the stages of a pipeline take the time and have the memory of the devices
// on which they lie, and are cut so that the slowest is as fast as it can be; the planner finds what the enumeration of
// every split finds; two groups of equal nodes are one of as many. PTC_CASES asks for more problems.
#include <math.h>
#include <stdlib.h>

#include "frontend/cluster.h"
#include "passes/planner/predict_impl.h"
#include "passes/planner/search.h"
#include "tests/support/plan_space.h"
#include "tests/support/unit.h"

// --- cuts

static double cost_of(const ptc_work_pieces_t *pieces, const double *costs, int64_t from,
                      int64_t to, bool first, bool last) {
  double sum = 0;
  for (int32_t i = 0; i < pieces->count; i++)
    sum += costs[i] * (double)ptc_part_count(pieces, i, (ptc_part_range_t){from, to}, first, last);
  return sum;
}

// The least slowest part over all ways to cut the turns from |from| on into the parts from |part| on.
static double exhaustive(const ptc_work_pieces_t *pieces, const double *const *costs, int64_t turns,
                         int64_t from, int64_t part, int64_t parts) {
  const bool last = part == parts - 1;
  double best = INFINITY;
  for (int64_t to = last ? turns : from + 1; to <= turns; to++) {
    if (to == from) return INFINITY;
    const double own = cost_of(pieces, costs[part], from, to, part == 0, last);
    const double rest = last ? 0 : exhaustive(pieces, costs, turns, to, part + 1, parts);
    best = fmin(best, fmax(own, rest));
  }
  return best;
}

static void test_cuts(void) {
  uint64_t seed = unit_seed();
  for (int turn = 0; turn < 300; turn++) {
    ptc_piece_t items[5] = {{.count = 1}, {.count = 0}, {.count = 1}, {.count = 0}, {.count = 1}};
    items[1].count = 2 + (int64_t)(unit_random(&seed) % 5);
    items[3].count = 2 + (int64_t)(unit_random(&seed) % 5);
    const ptc_work_pieces_t pieces = {.items = items, .count = 5};
    const int64_t turns = items[1].count + items[3].count;
    const int64_t parts = 1 + (int64_t)(unit_random(&seed) % 5);
    double all[5][5];
    const double *costs[5];
    for (int p = 0; p < 5; p++) {
      for (int i = 0; i < 5; i++) all[p][i] = (double)(1 + unit_random(&seed) % 40);
      costs[p] = all[p];
    }
    ptc_part_range_t ranges[8];
    const ptc_choice_t choice = {0};
    const bool ok = ptc_predict_mixed_cuts(&pieces, &choice, costs, parts, ranges);
    UNIT_CHECK(ok == (parts <= turns), "enough turns");
    if (!ok) continue;
    double slowest = 0;
    int64_t at = 0;
    for (int64_t p = 0; p < parts; p++) {
      UNIT_CHECK(ranges[p].from == at && ranges[p].to > at, "parts in a row");
      at = ranges[p].to;
      slowest = fmax(slowest, cost_of(&pieces, costs[p], ranges[p].from, ranges[p].to, p == 0,
                                      p == parts - 1));
    }
    CU_ASSERT(at == turns);
    const double least = exhaustive(&pieces, costs, turns, 0, 0, parts);
    char row[96];
    snprintf(row, sizeof(row), "%d parts of %d turns: %g, least %g", (int)parts, (int)turns,
             slowest, least);
    UNIT_CHECK(fabs(slowest - least) < 1e-6, row);
  }
}

// --- clusters and models

typedef struct mix_s {
  ptc_cluster_t cluster;
  ptc_device_model_t devices[2];
} mix_t;

// |nodes| of |each| devices of both kinds.
static void new_mix(ptc_arena_t *arena, const char *const specs[2], int32_t each, int32_t nodes,
                    mix_t *out) {
  for (int g = 0; g < 2; g++) {
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_cluster_t *found = NULL;
    CU_ASSERT_EQUAL_FATAL(ptc_cluster_find(&diag, arena, NULL, specs[g], &found), PTC_OK);
    ptc_diag_deinit(&diag);
    out->devices[g] = *found->groups[0].node.device;
    if (g == 0) out->cluster = *found;
    ptc_cluster_group_t *group = &out->cluster.groups[g];
    *group = found->groups[0];
    group->nodes = nodes;
    group->node.device = &out->devices[g];
    group->node.devices = each;
    group->node.link_islands = 1;
    group->node.link_domain = each;
    if (group->node.nics > each) group->node.nics = each;
  }
  out->cluster.num_groups = 2;
  out->cluster.num_devices = 2 * (int64_t)each * nodes;
}

static bool new_model(uint64_t *seed, plan_model_t *m) {
  static const int64_t batches[] = {4, 6, 8, 8};
  const int layers = 4 + (int)(unit_random(seed) % 7);
  return plan_model_random(m, seed, layers, unit_random(seed) % 2 ? 1000 : 16000, batches);
}

// --- the enumeration

typedef struct walk_s {
  const plan_model_t *m;
  const ptc_cluster_t *cluster;
  double best;  // seconds
  ptc_choice_t choice;
  int64_t points;
} walk_t;

static void try_turns(walk_t *w, const ptc_work_pieces_t *pieces, ptc_choice_t own) {
  const ptc_stack_t *stack = ptc_stack_find("ptc");
  ptc_prediction_t t;
  const int64_t most = own.recompute == PTC_RECOMPUTE_NONE ? 0 : 16;
  for (own.recompute_turns = most ? 1 : -1; own.recompute_turns <= most; own.recompute_turns++) {
    w->points++;
    if (own.recompute_turns == 0 || !ptc_predict(pieces, w->cluster, stack, &own, &t)) continue;
    if (t.fits && t.step_s < w->best) {
      w->best = t.step_s;
      w->choice = own;
      w->choice.cuts = NULL;
    }
  }
}

// Cuts balanced by time, and even ones.
static void try_point(walk_t *w, const ptc_choice_t *choice) {
  ptc_arena_t arena = {0};
  ptc_work_pieces_t pieces;
  const ptc_stack_t *stack = ptc_stack_find("ptc");
  if (ptc_layout_pieces(w->m->work, &arena, choice, stack->saves, &pieces) == PTC_OK) {
    try_turns(w, &pieces, *choice);
    const int64_t turns = ptc_pieces_turns(&pieces);
    const int64_t parts = choice->size[PTC_AXIS_PP] * choice->chunks;
    if (parts > 1 && turns % parts == 0) {
      int64_t cuts[64];
      ptc_choice_t even = *choice;
      for (int64_t p = 1; p < parts; p++) cuts[p - 1] = p * (turns / parts);
      even.cuts = cuts;
      even.num_cuts = (int32_t)parts - 1;
      try_turns(w, &pieces, even);
    }
  }
  ptc_arena_deinit(&arena);
}

static void try_orders(walk_t *w, ptc_choice_t choice) {
  const int64_t *size = choice.size, batch = w->m->work->batch;
  const int64_t replicas = size[PTC_AXIS_DP];
  for (choice.micro_batch = 1; choice.micro_batch <= batch; choice.micro_batch++) {
    if (batch % (choice.micro_batch * replicas)) continue;
    for (choice.zero = 0; choice.zero < 4; choice.zero++)
      for (choice.recompute = 0; choice.recompute < PTC_NUM_RECOMPUTE_MODES; choice.recompute++)
        for (int kind = 0; kind < PTC_NUM_SCHEDULES; kind++) {
          choice.schedule = (ptc_schedule_kind_t)kind;
          const bool in_chunks = kind == PTC_SCHEDULE_INTERLEAVED;
          if (size[PTC_AXIS_PP] == 1 && kind != PTC_SCHEDULE_1F1B) continue;
          if (in_chunks && batch / (choice.micro_batch * replicas) % size[PTC_AXIS_PP]) continue;
          for (choice.chunks = in_chunks ? 2 : 1; choice.chunks <= (in_chunks ? 5 : 1);
               choice.chunks++)
            try_point(w, &choice);
        }
  }
}

// Without tp: what lies on it is another test's matter.
static void walk(walk_t *w, int64_t devices) {
  for (int64_t pp = 1; pp <= devices; pp++)
    if (devices % pp == 0) {
      const ptc_choice_t choice = {.size = {[PTC_AXIS_PP] = pp,
                                            [PTC_AXIS_DP] = devices / pp,
                                            [PTC_AXIS_EP] = 1,
                                            [PTC_AXIS_CP] = 1,
                                            [PTC_AXIS_TP] = 1}};
      try_orders(w, choice);
    }
}

static void one_case(uint64_t seed, int *mixed_stages, int *none) {
  const uint64_t own_seed = seed;
  static const char *const specs[][2] = {
      {"dgx_a100:1", "dgx_h100:1"}, {"dgx_h100:1", "dgx_a100:1"}, {"dgx_1v:1", "dgx_h100:1"}};
  ptc_arena_t arena = {0};
  mix_t mix;
  const int32_t nodes = 1 + (int32_t)(unit_random(&seed) % 2);
  new_mix(&arena, specs[unit_random(&seed) % 3], 3 - nodes, nodes, &mix);
  plan_model_t m;
  CU_ASSERT_FATAL(new_model(&seed, &m));
  // Memory that binds in some.
  if (unit_random(&seed) % 2)
    for (int g = 0; g < 2; g++)
      mix.devices[g].memory_bytes = 1e9 * (double)(1 + unit_random(&seed) % 12);
  ptc_fixed_t fixed = ptc_fixed_nothing;
  fixed.size[PTC_AXIS_TP] = fixed.size[PTC_AXIS_CP] = fixed.size[PTC_AXIS_EP] = 1;
  const int64_t devices = mix.cluster.num_devices;
  walk_t w = {.m = &m, .cluster = &mix.cluster, .best = INFINITY};
  walk(&w, devices);
  ptc_search_result_t found;
  const ptc_status_t status = ptc_search(m.work, &mix.cluster, ptc_stack_find("ptc"), &fixed,
                                         devices, PTC_OBJECTIVE_TIME, &arena, &found);
  const double own = status == PTC_OK && found.feasible ? found.best.value : INFINITY;
  char row[256];
  snprintf(row, sizeof(row),
           "seed %llu: search %.9g (pp=%d %s v=%d zero=%d), enumeration %.9g (pp=%d %s v=%d "
           "zero=%d)",
           (unsigned long long)own_seed, own, (int)found.best.choice.size[PTC_AXIS_PP],
           ptc_schedule_name(found.best.choice.schedule), (int)found.best.choice.chunks,
           (int)found.best.choice.zero, w.best, (int)w.choice.size[PTC_AXIS_PP],
           ptc_schedule_name(w.choice.schedule), (int)w.choice.chunks, (int)w.choice.zero);
  UNIT_CHECK(own == w.best || fabs(own - w.best) <= 1e-9 * w.best, row);
  // Of pipelines some cuts alone are tried.
  UNIT_CHECK(isinf(own) || (found.complete && found.gap >= 0 && found.bound <= own &&
                            (found.gap > 0 || found.bound == own)),
             row);
  // Several kinds of nodes have no floors.
  fixed = ptc_fixed_nothing;
  fixed.size[PTC_AXIS_TP] = 2;
  fixed.most_sets = 1;
  if (ptc_search(m.work, &mix.cluster, ptc_stack_find("ptc"), &fixed, devices, PTC_OBJECTIVE_TIME,
                 &arena, &found) == PTC_OK)
    UNIT_CHECK(!found.complete && isnan(found.gap) && isnan(found.bound) && found.uncertified, row);
  *mixed_stages += isfinite(own) && found.best.choice.size[PTC_AXIS_PP] > 1;
  *none += isinf(w.best);
  plan_model_end(&m);
  ptc_arena_deinit(&arena);
}

static void test_exact(void) {
  uint64_t seed = unit_seed();
  const char *text = getenv("PTC_CASES");
  const int cases = text ? atoi(text) : 20;
  int stages = 0, none = 0;
  for (int i = 0; i < cases; i++) {
    one_case(seed, &stages, &none);
    (void)unit_random(&seed);
  }
  printf("\n  %d problems: pipelines in %d, nothing fits in %d ", cases, stages, none);
  CU_ASSERT(cases < 20 || stages > 0);
}

// --- stages

static void predict_on(const plan_model_t *m, const ptc_cluster_t *cluster, int64_t pp, int64_t dp,
                       ptc_prediction_t *out, ptc_stage_pieces_t *stages) {
  ptc_arena_t arena = {0};
  const ptc_stack_t *stack = ptc_stack_find("ptc");
  const ptc_choice_t choice = {.size = {pp, dp, 1, 1, 1},
                               .micro_batch = 1,
                               .chunks = 1,
                               .recompute_turns = -1,
                               .schedule = PTC_SCHEDULE_1F1B};
  ptc_work_pieces_t pieces;
  ptc_piece_time_t times[PTC_MAX_PIECES];
  ptc_part_range_t parts[PTC_MAX_PARTS];
  CU_ASSERT_FATAL(ptc_layout_pieces(m->work, &arena, &choice, stack->saves, &pieces) == PTC_OK);
  ptc_predict_pieces(&pieces, cluster, stack, &choice, times);
  CU_ASSERT(ptc_predict_stages(&pieces, times, cluster, stack, &choice, parts, stages));
  CU_ASSERT(ptc_predict(&pieces, cluster, stack, &choice, out));
  ptc_arena_deinit(&arena);
}

static int64_t turns_on(const plan_model_t *m, const ptc_stage_pieces_t *stage) {
  int64_t turns = 0;
  for (int32_t i = 0; i < m->work->num_pieces; i++)
    if (m->work->pieces[i].count > 1) turns += stage->times[i];
  return turns;
}

static void test_stages(void) {
  static const char *const both[] = {"dgx_a100:1", "dgx_h100:1"},
                           *const back[] = {"dgx_h100:1", "dgx_a100:1"},
                           *const slow[] = {"dgx_a100:1", "dgx_a100:1"},
                           *const fast[] = {"dgx_h100:1", "dgx_h100:1"};
  ptc_arena_t arena = {0};
  plan_model_t m;
  CU_ASSERT_FATAL(plan_model_file(&m, "samples/gpt2.ptm",
                                  (const ptc_override_t[]){{"layers", "24"}, {"train.batch", "32"}},
                                  2));
  mix_t mixed, reversed, slowly, quickly;
  new_mix(&arena, both, 4, 1, &mixed);
  new_mix(&arena, back, 4, 1, &reversed);
  new_mix(&arena, slow, 4, 1, &slowly);
  new_mix(&arena, fast, 4, 1, &quickly);
  ptc_prediction_t of_mixed, of_reversed, of_slow, of_fast, of_one;
  ptc_stage_pieces_t stages[8];
  predict_on(&m, &mixed.cluster, 2, 4, &of_mixed, stages);
  const int64_t ahead = turns_on(&m, &stages[0]), behind = turns_on(&m, &stages[1]);
  predict_on(&m, &reversed.cluster, 2, 4, &of_reversed, stages);
  CU_ASSERT(turns_on(&m, &stages[0]) > turns_on(&m, &stages[1]));
  predict_on(&m, &slowly.cluster, 2, 4, &of_slow, stages);
  predict_on(&m, &quickly.cluster, 2, 4, &of_fast, stages);
  char row[200];
  snprintf(row, sizeof(row), "turns %d | %d; %g s, slow %g s, fast %g s", (int)ahead, (int)behind,
           of_mixed.step_s, of_slow.step_s, of_fast.step_s);
  UNIT_CHECK(ahead < behind, row);
  UNIT_CHECK(of_mixed.step_s < 0.9 * of_slow.step_s && of_mixed.step_s > of_fast.step_s, row);
  UNIT_CHECK(of_mixed.model_flops == of_slow.model_flops, row);
  // Two groups of equal nodes are one group of as many; what has no stages waits for the slowest.
  ptc_cluster_t one = slowly.cluster;
  one.num_groups = 1;
  one.groups[0].nodes = 2;
  predict_on(&m, &one, 2, 4, &of_one, stages);
  UNIT_CHECK(of_one.step_s == of_slow.step_s && of_one.memory_bytes == of_slow.memory_bytes, row);
  predict_on(&m, &mixed.cluster, 1, 8, &of_mixed, stages);
  predict_on(&m, &slowly.cluster, 1, 8, &of_slow, stages);
  CU_ASSERT(fabs(of_mixed.compute_s / of_slow.compute_s - 1) < 1e-9);
  // A stage of two of the one and two of the other kind is as slow as the slow ones.
  new_mix(&arena, both, 2, 1, &mixed);
  mixed.cluster.groups[1].nodes = 3;
  mixed.cluster.num_devices = 8;
  predict_on(&m, &mixed.cluster, 2, 4, &of_mixed, stages);
  CU_ASSERT(turns_on(&m, &stages[0]) < turns_on(&m, &stages[1]));
  // Memory: what the stage on the small devices lacks.
  new_mix(&arena, both, 4, 1, &mixed);
  mixed.devices[0].memory_bytes = 1e9;
  predict_on(&m, &mixed.cluster, 2, 4, &of_mixed, stages);
  CU_ASSERT(!of_mixed.fits && of_mixed.worst_stage == 0 && of_mixed.capacity_bytes == 1e9);
  mixed.devices[0].memory_bytes = 80e9;
  mixed.devices[1].memory_bytes = 1e9;
  predict_on(&m, &mixed.cluster, 2, 4, &of_mixed, stages);
  CU_ASSERT(!of_mixed.fits && of_mixed.worst_stage == 1 && of_mixed.capacity_bytes == 1e9);
  plan_model_end(&m);
  ptc_arena_deinit(&arena);
}

static const unit_test_t tests[] = {
    {"cuts of parts of unequal speed", test_cuts}, {"stages", test_stages}, {"exact", test_exact}};
UNIT_MAIN("search_mixed", tests)
