// Proves: what a layout's floor says holds: neither it nor the same split over more ranks of tp or cp, in micro-batches of
// the same size or smaller ones, takes less time of all devices together; for all samples on random clusters, stacks,
// splits, sets of names and recompute modes. The search leaves out what a floor excludes. And no step takes less than
// its passes and ptc_predict_least_late, on pipelines of all schedules with every ZeRO.
#include <math.h>

#include "frontend/cluster.h"
#include "passes/planner/predict_impl.h"
#include "tests/support/plan_space.h"
#include "tests/support/unit.h"

static const char *const specs[] = {"dgx_a100:64",      "dgx_h100:64", "rtx_3090_pair:256",
                                    "a100_pcie_box:64", "dgx_1v:64",   "aws_g5:64",
                                    "h100_rdma_400g:64"};
enum { DEVICES = 512 };

typedef struct sums_s {
  double work, floor;  // of a sample, all devices together
  bool moves_heads;
} sums_t;

// False: the model does not allow it.
static bool measure(const ptc_work_t *work, const ptc_cluster_t *cluster, const ptc_stack_t *stack,
                    ptc_choice_t choice, sums_t *out) {
  ptc_arena_t arena = {0};
  ptc_work_pieces_t pieces;
  ptc_piece_time_t times[PTC_MAX_PIECES];
  const bool ok = ptc_layout_pieces(work, &arena, &choice, stack->saves, &pieces) == PTC_OK;
  const int64_t ranks = choice.size[PTC_AXIS_TP] * choice.size[PTC_AXIS_CP];
  choice.size[PTC_AXIS_DP] = DEVICES / (ranks * choice.size[PTC_AXIS_EP]);
  *out = (sums_t){.moves_heads = ok && ptc_pieces_move_heads(&pieces)};
  if (ok) ptc_predict_pieces(&pieces, cluster, stack, &choice, times);
  for (int32_t i = 0; ok && i < pieces.count; i++) {
    out->work += ptc_piece_seconds(&times[i]) * (double)pieces.items[i].count;
    out->floor += times[i].floor * (double)pieces.items[i].count;
  }
  out->work *= (double)ranks / (double)choice.micro_batch;
  out->floor *= (double)ranks / (double)choice.micro_batch;
  ptc_arena_deinit(&arena);
  return ok;
}

typedef struct tally_s {
  uint64_t seed;
  int pairs, pipelines;
  double least,
      closest;  // least time of the finer split beside the floor; greatest floor beside its own time
  double late;  // greatest bound of a pipeline beside what it takes
} tally_t;

// What is known of a step before the cuts are made, with what is sent once.
static void compare_late(const plan_model_t *m, const ptc_cluster_t *cluster,
                         const ptc_stack_t *stack, ptc_choice_t choice, const char *name,
                         tally_t *tally) {
  uint64_t *seed = &tally->seed;
  const uint64_t own = *seed;
  choice.size[PTC_AXIS_PP] = (int64_t)1 << unit_random(seed) % 6;
  choice.size[PTC_AXIS_DP] = (int64_t)1 << unit_random(seed) % 6;
  choice.zero = (int64_t)(unit_random(seed) % 4);
  choice.schedule = (ptc_schedule_kind_t)(unit_random(seed) % PTC_NUM_SCHEDULES);
  choice.chunks = choice.schedule == PTC_SCHEDULE_INTERLEAVED ? 2 : 1;
  ptc_arena_t arena = {0};
  ptc_work_pieces_t pieces;
  ptc_piece_time_t times[PTC_MAX_PIECES];
  ptc_prediction_t predicted;
  if (ptc_layout_pieces(m->work, &arena, &choice, stack->saves, &pieces) == PTC_OK &&
      (choice.chunks == 1 || pieces.micro_batches % choice.size[PTC_AXIS_PP] == 0) &&
      ptc_predict(&pieces, cluster, stack, &choice, &predicted)) {
    ptc_predict_pieces(&pieces, cluster, stack, &choice, times);
    double busy = 0;
    for (int32_t i = 0; i < pieces.count; i++)
      busy += ptc_piece_seconds(&times[i]) * (double)pieces.items[i].count;
    busy *= (double)pieces.micro_batches / (double)choice.size[PTC_AXIS_PP];
    const double late =
        ptc_predict_least_late(&pieces, times, cluster, stack, &choice, pieces.micro_batches, NULL);
    char row[256];
    snprintf(row, sizeof(row),
             "%s seed %llu on %s, stack %s, pp=%d dp=%d tp=%d zero=%d: %.9g s, but %.9g s and "
             "%.9g s at least",
             name, (unsigned long long)own, cluster->name, stack->name,
             (int)choice.size[PTC_AXIS_PP], (int)choice.size[PTC_AXIS_DP],
             (int)choice.size[PTC_AXIS_TP], (int)choice.zero, predicted.step_s, busy, late);
    UNIT_CHECK(late >= 0 && predicted.step_s >= (busy + late) * (1 - 1e-9), row);
    tally->pipelines++;
    tally->late = fmax(tally->late, (busy + late) / predicted.step_s);
  }
  ptc_arena_deinit(&arena);
}

static void compare(const plan_model_t *m, const char *name, void *arg) {
  tally_t *tally = arg;
  uint64_t *seed = &tally->seed;
  const uint64_t own = *seed;
  ptc_arena_t arena = {0};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_cluster_t *cluster = NULL;
  const char *spec = specs[unit_random(seed) % (sizeof(specs) / sizeof(*specs))];
  CU_ASSERT_EQUAL_FATAL(ptc_cluster_find(&diag, &arena, NULL, spec, &cluster), PTC_OK);
  ptc_diag_deinit(&diag);
  const ptc_stack_t *stack = ptc_stack_find("ptc");
  if (unit_random(seed) % 3 == 0) stack = &ptc_stacks[unit_random(seed) % (uint64_t)ptc_num_stacks];
  ptc_choice_t choice = {.size = {1, 1, 1, 1, 1}, .chunks = 1, .recompute_turns = -1};
  choice.size[PTC_AXIS_EP] = unit_random(seed) % 4 ? 1 : 2;
  choice.size[PTC_AXIS_CP] = (int64_t)1 << unit_random(seed) % 4;
  choice.size[PTC_AXIS_TP] = (int64_t)1 << unit_random(seed) % 5;
  choice.micro_batch = (int64_t)1 << unit_random(seed) % 4;
  plan_random_names(m->work, seed, &choice);
  sums_t coarse, fine;
  if (measure(m->work, cluster, stack, choice, &coarse)) {
    for (int way = 0; way < 4; way++) {  // itself, tp, cp, the micro-batch
      ptc_choice_t finer = choice;
      if ((way == 1 || way == 2) && coarse.moves_heads) continue;
      if (way == 1) finer.size[PTC_AXIS_TP] *= 2;
      if (way == 2) finer.size[PTC_AXIS_CP] *= 2;
      if (way == 3) finer.micro_batch /= 2;
      if (finer.micro_batch == 0 || !measure(m->work, cluster, stack, finer, &fine)) continue;
      char row[256];
      snprintf(row, sizeof(row),
               "%s seed %llu on %s, stack %s, way %d of tp=%d cp=%d ep=%d micro=%d names=%#x sp=%d "
               "recompute=%d: %.6g s instead of %.6g s at least",
               name, (unsigned long long)own, spec, stack->name, way, (int)choice.size[PTC_AXIS_TP],
               (int)choice.size[PTC_AXIS_CP], (int)choice.size[PTC_AXIS_EP],
               (int)choice.micro_batch, choice.names[0], choice.sequence_parallel, choice.recompute,
               fine.work, coarse.floor);
      UNIT_CHECK(fine.work >= coarse.floor * (1 - 1e-9), row);
      tally->pairs++;
      tally->least = fmin(tally->least, fine.work / coarse.floor);
    }
    tally->closest = fmax(tally->closest, coarse.floor / coarse.work);
  }
  for (int i = 0; i < 8; i++) compare_late(m, cluster, stack, choice, name, tally);
  ptc_arena_deinit(&arena);
}

static void test_samples(void) {
  tally_t tally = {.seed = unit_seed(), .least = INFINITY};
  plan_each_sample("1024", 40, compare, &tally);
  printf("\n  %d pairs, at least %.4f of a floor; floors up to %.3f of their own time ",
         tally.pairs, tally.least, tally.closest);
  printf("\n  %d pipelines, bounds up to %.3f of what they take ", tally.pipelines, tally.late);
  CU_ASSERT(tally.pairs > 0 && tally.pipelines > 0);
}

// Of sums and gathers, what part of its share of the seconds a part of the bytes takes at least:
// ptc_predict_least_late reckons with 0.9.
static void test_parts(void) {
  static const ptc_net_kind_t kinds[] = {PTC_NET_ALL_REDUCE, PTC_NET_REDUCE_SCATTER,
                                         PTC_NET_ALL_GATHER};
  double least = 1;
  for (size_t k = 0; k < sizeof(specs) / sizeof(*specs); k++) {
    ptc_arena_t arena = {0};
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_cluster_t *cluster = NULL;
    CU_ASSERT_EQUAL_FATAL(ptc_cluster_find(&diag, &arena, NULL, specs[k], &cluster), PTC_OK);
    ptc_diag_deinit(&diag);
    for (int64_t dp = 2; dp <= DEVICES; dp *= 2)
      for (int64_t inner = 1; inner * dp <= DEVICES; inner *= 2)
        for (size_t kind = 0; kind < sizeof(kinds) / sizeof(*kinds); kind++) {
          const int64_t size[PTC_NUM_DEVICE_AXES] = {1, dp, 1, 1, inner};
          const ptc_group_shape_t shape = ptc_group_shape(cluster, size, 1u << PTC_AXIS_DP);
          double rate = INFINITY;  // the least seconds of a byte so far
          for (double bytes = 64; bytes < 1e12; bytes *= 1.07) {
            const double own = ptc_net_seconds(cluster, kinds[kind], shape, bytes, NULL) / bytes;
            char row[160];
            snprintf(row, sizeof(row), "%s, %s of %d ranks, %d inside, %.4g bytes: %.4f", specs[k],
                     ptc_net_kind_names[kinds[kind]], (int)dp, (int)inner, bytes, rate / own);
            UNIT_CHECK(rate >= 0.9 * own, row);
            least = fmin(least, rate / own);
            rate = fmin(rate, own);
          }
        }
    ptc_arena_deinit(&arena);
  }
  printf("\n  a part takes at least %.4f of its share ", least);
}

static const unit_test_t tests[] = {{"samples", test_samples}, {"parts", test_parts}};
UNIT_MAIN("floor", tests)
