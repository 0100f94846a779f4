// Proves: the parts of a balanced pipeline are those of an exhaustive search; stacks are within bounds.
#include "passes/planner/predict.h"

#include <math.h>
#include <stdlib.h>

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

static const unit_test_t tests[] = {
    {"balanced cuts", test_cuts},
    {"stacks", test_stacks},
};
UNIT_MAIN("predict", tests)
