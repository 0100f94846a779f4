// Proves: the parts of a balanced pipeline are those of an exhaustive search; stacks are within bounds, and each of their
// facts about experts, gathers and sums of gradients has the effect that it names, on pieces made by hand.
#include "passes/planner/predict.h"

#include <math.h>
#include <stdlib.h>

#include "frontend/cluster.h"
#include "passes/planner/predict_impl.h"
#include "tests/support/unit.h"

static double random_cost(uint64_t *state) { return (double)(1 + unit_random(state) % 40); }

// The least slowest part over all ways to cut |turns| from |from| on into |parts|.
static double exhaustive(const ptc_work_pieces_t *pieces, const double *costs, int64_t turns,
                         int64_t from, int64_t parts, bool first) {
  double best = INFINITY;
  for (int64_t to = from + 1; to <= turns; to++) {
    const bool last = parts == 1;
    if (last && to < turns) continue;
    double own = 0;
    for (int32_t i = 0; i < pieces->count; i++)
      own +=
          costs[i] * (double)ptc_part_count(pieces, i, (ptc_part_range_t){from, to}, first, last);
    const double rest = last ? 0 : exhaustive(pieces, costs, turns, to, parts - 1, false);
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
    double costs[5];
    for (int i = 0; i < 5; i++) costs[i] = random_cost(&seed);
    const int64_t parts = 1 + (int64_t)(unit_random(&seed) % 5);
    ptc_part_range_t ranges[8];
    const ptc_choice_t choice = {0};
    const bool ok = ptc_predict_cuts(&pieces, &choice, costs, parts, ranges);
    UNIT_CHECK(ok == (parts <= turns), "enough turns");
    if (!ok) continue;
    double slowest = 0;
    int64_t at = 0;
    for (int64_t p = 0; p < parts; p++) {
      double own = 0;
      for (int32_t i = 0; i < 5; i++)
        own += costs[i] * (double)ptc_part_count(&pieces, i, ranges[p], p == 0, p == parts - 1);
      slowest = fmax(slowest, own);
      UNIT_CHECK(ranges[p].from == at && ranges[p].to > at, "parts in a row");
      at = ranges[p].to;
    }
    CU_ASSERT(at == turns);
    const double least = exhaustive(&pieces, costs, turns, 0, parts, true);
    char row[160];
    snprintf(row, sizeof(row), "%d parts of %d + %d turns, costs %g %g %g %g %g: %g, least %g",
             (int)parts, (int)items[1].count, (int)items[3].count, costs[0], costs[1], costs[2],
             costs[3], costs[4], slowest, least);
    UNIT_CHECK(fabs(slowest - least) < 1e-6, row);
  }
}

static void test_stacks(void) {
  for (int32_t i = 0; i < ptc_num_stacks; i++) {
    const ptc_stack_t *s = &ptc_stacks[i];
    UNIT_CHECK(ptc_stack_find(s->name) == s, s->name);
    UNIT_CHECK(s->unfused >= 0 && s->attention_rate > 0 && s->late_rate > 0 &&
                   s->hidden_late >= 0 && s->hidden_late <= 1 && s->hidden_inner >= 0 &&
                   s->hidden_inner <= 1 && s->allocator >= 1,
               s->name);
  }
  CU_ASSERT_PTR_NULL(ptc_stack_find("megatron"));
}

// --- facts of stacks

// Eight turns with experts on ep, whose tokens go out eightfold in 16 bits and whose gradients have 32, and a gather on tp for
// weight gradients.
enum { TURNS = 8, COPIES = 8, EXPERTS = 4 };
static const double tokens_bytes = 64e6;

typedef struct turns_s {
  ptc_work_t work;
  ptc_kernel_work_t kernels[3];
  ptc_net_item_t nets[3];
  ptc_piece_t piece;
  ptc_work_pieces_t pieces;
  ptc_choice_t choice;
} turns_t;

static void make_turns(turns_t *t) {
  memset(t, 0, sizeof(*t));
  t->work = (ptc_work_t){.precision = PTC_PREC_BF16, .batch = 1, .tokens_per_sample = 1};
  t->kernels[0] = (ptc_kernel_work_t){.kind = PTC_KW_GEMM, .prec = PTC_PREC_BF16, .times = 1};
  t->kernels[0].m = t->kernels[0].n = t->kernels[0].k = 4096;
  t->kernels[1] = t->kernels[0];
  t->kernels[1].kind = PTC_KW_GROUPED_GEMM;
  t->kernels[1].batch = EXPERTS;
  t->kernels[2] =
      (ptc_kernel_work_t){.kind = PTC_KW_MEMORY, .bytes = 1e9, .folds = true, .times = 1};
  const ptc_net_item_t out = {.kind = PTC_NET_ALL_TO_ALL,
                              .axes = 1u << PTC_AXIS_EP,
                              .bytes = COPIES * tokens_bytes,
                              .times = 1};
  t->nets[0] = t->nets[1] = out;
  t->nets[1].bytes *= 2;
  t->nets[2] = (ptc_net_item_t){
      .kind = PTC_NET_ALL_GATHER, .axes = 1u << PTC_AXIS_TP, .bytes = tokens_bytes, .times = 1};
  t->piece = (ptc_piece_t){.name = "turn",
                           .count = TURNS,
                           .forward = {t->kernels, t->nets, 3, 1},
                           .backward = {t->kernels, t->nets + 1, 2, 1},
                           .weight_grad = {t->kernels, t->nets + 2, 1, 1},
                           .num_groups = 1,
                           .boundary_bytes = tokens_bytes};
  t->piece.groups[0] =
      (ptc_param_group_t){.axes = 1u << PTC_AXIS_DP, .params = 1e9, .param_bytes = 2e9};
  t->pieces = (ptc_work_pieces_t){&t->work, &t->piece, 1, 8, NULL};
  t->choice =
      (ptc_choice_t){.size = {1, 1, 1, 1, 1}, .micro_batch = 1, .chunks = 1, .recompute_turns = -1};
}

static ptc_piece_time_t timed(const turns_t *t, const ptc_cluster_t *cluster,
                              const ptc_stack_t *stack) {
  ptc_piece_time_t time;
  ptc_predict_pieces(&t->pieces, cluster, stack, &t->choice, &time);
  return time;
}

static bool near(double a, double b, double part) { return fabs(a / b - 1) < part; }

static void check_experts(turns_t *t, const ptc_cluster_t *cluster, const ptc_stack_t *plain) {
  ptc_stack_t own = *plain;
  t->choice.size[PTC_AXIS_EP] = 16;
  const double all = timed(t, cluster, plain).exposed[PTC_AXIS_EP];
  const double out = timed(t, cluster, plain).exposed_forward;
  UNIT_CHECK(near(all, 3 * out, 0.1), "gradients of what experts take have 32 bits");
  own.narrow = true;
  UNIT_CHECK(near(timed(t, cluster, &own).exposed[PTC_AXIS_EP], 2 * out, 0.01), "narrow");
  own.hidden_inner = 0.5;
  UNIT_CHECK(near(timed(t, cluster, &own).exposed[PTC_AXIS_EP], 2 * out, 0.01), "nothing hides");
  own.dedups_inside = true;
  UNIT_CHECK(near(timed(t, cluster, &own).exposed_forward, out, 0.01), "two nodes");
  own.dedups_between = true;
  // Two nodes, eight copies: a node is missed by one token in 256.
  UNIT_CHECK(near(timed(t, cluster, &own).exposed_forward, out * 2 * (1 - 1 / 256.) / 8, 0.1),
             "between nodes");
  t->choice.size[PTC_AXIS_EP] = 8;
  const double eighth = 7 / 8. * (7 / 8.) * (7 / 8.) * (7 / 8.), missed = eighth * eighth;
  const double one_node = timed(t, cluster, plain).exposed_forward;
  UNIT_CHECK(near(timed(t, cluster, &own).exposed_forward, one_node * (1 - missed), 0.1),
             "inside a node");
  t->choice.size[PTC_AXIS_EP] = 1;
}

static double whole(const turns_t *t, const ptc_cluster_t *cluster, const ptc_stack_t *stack) {
  const ptc_piece_time_t time = timed(t, cluster, stack);
  return ptc_piece_seconds(&time);
}

static void check_host(turns_t *t, const ptc_cluster_t *node, const ptc_cluster_t *rack,
                       const ptc_stack_t *plain) {
  ptc_stack_t own = *plain;
  own.launch_s = 1;  // longer than anything
  t->choice.size[PTC_AXIS_TP] = t->choice.size[PTC_AXIS_EP] = 2;
  UNIT_CHECK(near(whole(t, node, &own), 6 + 3, 1e-6), "kernels and collectives");
  own.narrow = true;
  UNIT_CHECK(near(whole(t, node, &own), 5 + 3, 1e-6), "a cast is no kernel");
  own.launches_experts = true;
  UNIT_CHECK(near(whole(t, node, &own), 3 + 2 * EXPERTS + 3, 1e-6), "each expert");
  own.graphs_on_racks = true;
  UNIT_CHECK(near(whole(t, node, &own), 3 + 2 * EXPERTS + 3, 1e-6), "no rack");
  UNIT_CHECK(near(whole(t, rack, &own), 2 * EXPERTS, 1e-6), "graphs launch the others");
  t->choice.size[PTC_AXIS_TP] = t->choice.size[PTC_AXIS_EP] = 1;
}

static void check_gathers_and_sums(turns_t *t, const ptc_cluster_t *cluster,
                                   const ptc_stack_t *plain) {
  ptc_stack_t own = *plain;
  own.hides_regathers = true;
  t->choice.size[PTC_AXIS_TP] = 2;
  UNIT_CHECK(timed(t, cluster, plain).exposed[PTC_AXIS_TP] > 0, "gathers take time");
  UNIT_CHECK(timed(t, cluster, &own).exposed[PTC_AXIS_TP] == 0, "beside the other product");
  own.sums_by_chunk = true;
  t->choice.size[PTC_AXIS_TP] = 1;
  t->choice.size[PTC_AXIS_PP] = 4;
  t->choice.size[PTC_AXIS_DP] = 4;
  for (int64_t chunks = 1; chunks <= 2; chunks++) {
    ptc_prediction_t late, soon;
    t->choice.chunks = chunks;
    t->choice.schedule = chunks > 1 ? PTC_SCHEDULE_INTERLEAVED : PTC_SCHEDULE_1F1B;
    CU_ASSERT_FATAL(ptc_predict(&t->pieces, cluster, plain, &t->choice, &late) &&
                    ptc_predict(&t->pieces, cluster, &own, &t->choice, &soon));
    UNIT_CHECK(chunks == 1 ? near(soon.exposed_s[PTC_AXIS_DP], late.exposed_s[PTC_AXIS_DP], 1e-9)
                           : soon.exposed_s[PTC_AXIS_DP] < late.exposed_s[PTC_AXIS_DP],
               "chunks sum beside others");
  }
}

static void test_facts(void) {
  ptc_diag_t diag;
  ptc_arena_t arena;
  ptc_ast_t program;
  ptc_diag_init(&diag);
  ptc_arena_init(&arena);
  ptc_ast_init(&program);
  ptc_cluster_t *nodes, *rack;
  CU_ASSERT_FATAL(ptc_cluster_find(&diag, &arena, &program, "dgx_h100:2", &nodes) == PTC_OK);
  CU_ASSERT_FATAL(ptc_cluster_find(&diag, &arena, &program, "gb200_nvl72:1", &rack) == PTC_OK);
  turns_t t;
  make_turns(&t);
  const ptc_stack_t *plain = ptc_stack_find("ptc");
  check_experts(&t, nodes, plain);
  check_host(&t, nodes, rack, plain);
  check_gathers_and_sums(&t, nodes, plain);
  ptc_ast_deinit(&program);
  ptc_arena_deinit(&arena);
  ptc_diag_deinit(&diag);
}

static const unit_test_t tests[] = {
    {"balanced cuts", test_cuts},
    {"stacks", test_stacks},
    {"facts of stacks", test_facts},
};
UNIT_MAIN("predict", tests)
