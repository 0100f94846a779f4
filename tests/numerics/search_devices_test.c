// Proves: the least number of devices that the planner finds is the first one, of the parts of a node and of whole nodes,
// for which the enumeration of every split has one that fits and is fast enough; that none does is said where none does.
// PTC_CASES asks for more problems.
#include <math.h>
#include <stdlib.h>

#include "frontend/cluster.h"
#include "passes/planner/search.h"
#include "tests/support/plan_space.h"
#include "tests/support/unit.h"

static bool new_model(uint64_t *seed, plan_model_t *m) {
  static const int64_t batches[] = {2, 4, 6, 8};
  return plan_model_random(m, seed, 2 + (int)(unit_random(seed) % 3), 1000, batches);
}

// |devices| in each of |nodes|, of a kind that the catalog has, with |bytes| of memory each.
static void new_cluster(ptc_arena_t *arena, const char *spec, int32_t devices, int32_t nodes,
                        ptc_cluster_t *out, ptc_device_model_t *device) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_cluster_t *found = NULL;
  CU_ASSERT_EQUAL_FATAL(ptc_cluster_find(&diag, arena, NULL, spec, &found), PTC_OK);
  ptc_diag_deinit(&diag);
  *out = *found;
  *device = *found->groups[0].node.device;
  out->groups[0].node.device = device;
  out->groups[0].node.devices = devices;
  out->groups[0].node.nics = devices < out->groups[0].node.nics ? devices : 1;
  out->groups[0].nodes = nodes;
  out->num_devices = (int64_t)devices * nodes;
}

enum { MAX_COUNTS = 8 };

typedef struct walked_s {
  int32_t num;
  int64_t counts[MAX_COUNTS];
  plan_front_t fronts[MAX_COUNTS];
} walked_t;

static double between(uint64_t *seed, double low, double high) {
  return low + (high - low) * (double)(unit_random(seed) % 1000) / 1000;
}

static void one_case(uint64_t seed, int *found_some, int *found_none, int *not_first) {
  const uint64_t own_seed = seed;
  ptc_arena_t arena = {0};
  ptc_cluster_t cluster;
  ptc_device_model_t device;
  const bool pairs = unit_random(&seed) % 2;
  new_cluster(&arena, pairs ? "dgx_h100:2" : "dgx_a100:1", pairs ? 2 : 4, pairs ? 2 : 1, &cluster,
              &device);
  const ptc_stack_t *stack = ptc_stack_find("ptc");
  plan_model_t m;
  const bool loaded = new_model(&seed, &m);
  CU_ASSERT_FATAL(loaded);
  static const int64_t whole[] = {1, 2, 3, 4}, paired[] = {1, 2, 4};
  walked_t walked = {.num = pairs ? 3 : 4};
  double most = 0, least = INFINITY, fast = INFINITY, slow = 0;
  for (int32_t i = 0; i < walked.num; i++) {
    walked.counts[i] = pairs ? paired[i] : whole[i];
    const plan_space_t space = {.devices = walked.counts[i], .zeros = 0xf};
    plan_space_walk(m.work, &cluster, stack, &space, &walked.fronts[i]);
    const plan_front_t *front = &walked.fronts[i];
    for (int32_t k = 0; k < front->count; k++) {
      most = fmax(most, front->points[k].memory);
      least = fmin(least, front->points[k].memory);
      fast = fmin(fast, front->points[k].seconds);
      slow = fmax(slow, front->points[k].seconds);
    }
  }
  device.memory_bytes = between(&seed, 0.9 * least, 0.5 * (least + most));
  const double within = unit_random(&seed) % 2 ? between(&seed, 0.8 * fast, slow) : 0;
  int64_t goal = 0;
  double seconds = 0;
  for (int32_t i = 0; i < walked.num && goal == 0; i++) {
    const plan_point_t *best = plan_front_best(&walked.fronts[i], device.memory_bytes);
    if (!best || (within > 0 && best->seconds > within)) continue;
    goal = walked.counts[i];
    seconds = best->seconds;
  }
  ptc_search_result_t found;
  int64_t devices = -1;
  const ptc_status_t status = ptc_search_fewest(m.work, &cluster, stack, &ptc_fixed_nothing, within,
                                                &arena, &found, &devices);
  char row[256];
  snprintf(row, sizeof(row),
           "seed %llu: %.4g GB, within %.4g s: %d devices in %.9g s, enumeration %d in %.9g s",
           (unsigned long long)own_seed, device.memory_bytes * 1e-9, within, (int)devices,
           found.best.predicted.step_s, (int)goal, seconds);
  UNIT_CHECK(status == PTC_OK && devices == goal, row);
  if (goal > 0)
    UNIT_CHECK(found.feasible && fabs(found.best.predicted.step_s - seconds) <= 1e-9 * seconds,
               row);
  else
    UNIT_CHECK(!found.feasible || (within > 0 && found.best.predicted.step_s > within), row);
  // What was left out may do with fewer.
  UNIT_CHECK(goal == 0 || (found.complete && found.gap == 0), row);
  ptc_fixed_t few = ptc_fixed_nothing;
  few.most_sets = 1;
  int64_t with_few = 0;
  if (ptc_search_fewest(m.work, &cluster, stack, &few, within, &arena, &found, &with_few) == PTC_OK)
    UNIT_CHECK(with_few == 0 || with_few >= goal, row);
  if (with_few > 1 && with_few > goal)
    UNIT_CHECK(isnan(found.gap) && isnan(found.bound) && found.uncertified, row);
  *found_some += goal > 0;
  *found_none += goal == 0;
  *not_first += goal > 1;
  for (int32_t i = 0; i < walked.num; i++) plan_front_end(&walked.fronts[i]);
  plan_model_end(&m);
  ptc_arena_deinit(&arena);
}

static void test_fewest(void) {
  uint64_t seed = unit_seed();
  const char *text = getenv("PTC_CASES");
  const int cases = text ? atoi(text) : 20;
  int some = 0, none = 0, more = 0;
  for (int i = 0; i < cases; i++) {
    one_case(seed, &some, &none, &more);
    (void)unit_random(&seed);
  }
  printf("\n  %d problems: %d need more than one device, nothing does in %d ", some + none, more,
         none);
  CU_ASSERT(cases < 20 || (more > 0 && none > 0));
}

static void test_counts(void) {
  ptc_arena_t arena = {0};
  ptc_cluster_t cluster;
  ptc_device_model_t device;
  new_cluster(&arena, "dgx_h100:2", 4, 3, &cluster, &device);
  // A second kind of node: two of two devices.
  cluster.groups[1] = cluster.groups[0];
  cluster.groups[1].node.devices = 2;
  cluster.groups[1].nodes = 2;
  cluster.num_groups = 2;
  cluster.num_devices = 16;
  static const int64_t counts[] = {1, 2, 3, 4, 8, 12, 14, 16, 0};
  int64_t n = 0;
  for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
    n = ptc_devices_after(&cluster, n);
    CU_ASSERT_EQUAL(n, counts[i]);
  }
  CU_ASSERT_EQUAL(ptc_devices_after(&cluster, 5), 8);
  ptc_arena_deinit(&arena);
}

static const unit_test_t tests[] = {{"counts", test_counts}, {"fewest devices", test_fewest}};
UNIT_MAIN("search_devices", tests)
