// Proves: dims of one name and several extents are several candidates, found and printed by name and extent; what only
// one piece has lies on tp in that piece alone. On a model of a wide and a narrow branch, one of layers' widths each, the
// search beats every set that knows names alone, and the passes make a plan of what it chose.
#include <math.h>
#include <string.h>

#include "frontend/cluster.h"
#include "passes/pass.h"
#include "passes/planner/planner.h"
#include "tests/support/plan_space.h"
#include "tests/support/unit.h"

static bool load(plan_model_t *m) {
  static const ptc_override_t overrides[] = {{"train.batch", "1"},
                                             {"wide", "6144"},
                                             {"narrow", "768"},
                                             {"sizes", "24576,24576,49152,49152,8192,8192"}};
  const bool loaded = plan_model_file(m, "samples/two_branch.ptm", overrides, 4);
  UNIT_CHECK(loaded, "two_branch");
  return loaded;
}

// Widths 24576 and a quarter of it in the first region, and so on.
static void test_extents(void) {
  plan_model_t m;
  if (!load(&m)) return;
  const ptc_work_t *w = m.work;
  CU_ASSERT_EQUAL(__builtin_popcount(plan_names(w, "f")), 6);
  CU_ASSERT_EQUAL(__builtin_popcount(plan_names(w, "h d")), 4);
  CU_ASSERT_EQUAL(plan_names(w, "f=1 fe"), 0);
  const uint32_t narrow = plan_names(w, "f=6144");
  CU_ASSERT_EQUAL_FATAL(__builtin_popcount(narrow), 1);
  const int32_t at = __builtin_ctz(narrow);
  CU_ASSERT_EQUAL(w->names[at].extent, 6144);
  CU_ASSERT_EQUAL(__builtin_popcount(w->names[at].pieces), 1);
  CU_ASSERT_FALSE(w->names[at].shared);
  // Carried from turn to turn: p and q.
  for (int32_t i = 0; i < w->num_names; i++)
    CU_ASSERT_EQUAL(w->names[i].shared, strchr("pq", *w->names[i].name) != NULL);
  uint32_t names[PTC_MAX_PIECES] = {0};
  const uint32_t heads = plan_names(w, "h=12");
  names[__builtin_ctz(w->names[at].pieces)] = narrow | heads;
  ptc_str_t text = {0};
  ptc_choice_print_names(w, names, &text);
  CU_ASSERT_STRING_EQUAL(text.data, "cross.0..1.h=12 f=6144");
  ptc_str_deinit(&text);
  // Three regions part one repeat: their turns are numbered as its paths are.
  for (int32_t p = 0, found = 0; p < w->num_pieces; p++)
    if (w->pieces[p].count > 1) CU_ASSERT_EQUAL(w->pieces[p].first, 2 * found++);
  ptc_work_print_turns(&w->pieces[2], 1, 1, &text);
  CU_ASSERT_STRING_EQUAL(text.data, "cross.3");
  ptc_str_deinit(&text);
  plan_model_end(&m);
}

// Each set of names, whatever their extents.
static double best_by_name(const ptc_work_t *work, const ptc_cluster_t *cluster,
                           const ptc_fixed_t *fixed, ptc_arena_t *arena) {
  const char *names[PTC_WORK_MAX_NAMES];
  int32_t count = 0;
  for (int32_t i = 0; i < work->num_names; i++) {
    bool known = false;
    for (int32_t k = 0; k < count; k++) known |= strcmp(names[k], work->names[i].name) == 0;
    if (!known) names[count++] = work->names[i].name;
  }
  double best = INFINITY;
  for (uint32_t set = 1; set < 1u << count; set++) {
    ptc_fixed_t own = *fixed;
    own.has_names = true;
    uint32_t all = 0;
    for (int32_t i = 0; i < count; i++)
      if (set >> i & 1) all |= plan_names(work, names[i]);
    for (int32_t p = 0; p < PTC_MAX_PIECES; p++) own.names[p] = all;
    ptc_search_result_t found;
    if (ptc_search(work, cluster, ptc_stack_find("ptc"), &own, 8, PTC_OBJECTIVE_TIME, arena,
                   &found) == PTC_OK &&
        found.feasible)
      best = fmin(best, found.best.value);
  }
  return best;
}

static void test_branches(void) {
  plan_model_t m;
  if (!load(&m)) return;
  ptc_arena_t arena = {0};
  ptc_cluster_t *cluster = NULL;
  CU_ASSERT_EQUAL_FATAL(ptc_cluster_find(&m.diag, &arena, NULL, "dgx_h100:1", &cluster), PTC_OK);
  ptc_fixed_t fixed = ptc_fixed_nothing;
  for (int a = 0; a < PTC_NUM_DEVICE_AXES; a++) fixed.size[a] = a == PTC_AXIS_TP ? 8 : 1;
  ptc_search_result_t found;
  CU_ASSERT_EQUAL_FATAL(ptc_search(m.work, cluster, ptc_stack_find("ptc"), &fixed, 8,
                                   PTC_OBJECTIVE_TIME, &arena, &found),
                        PTC_OK);
  const double by_name = best_by_name(m.work, cluster, &fixed, &arena);
  ptc_str_t text = {0};
  ptc_choice_print_names(m.work, found.best.choice.names, &text);
  printf("%.4g ms (%s), by names alone %.4g ms: ", found.best.value * 1e3, text.data,
         by_name * 1e3);
  ptc_str_deinit(&text);
  CU_ASSERT(found.feasible && found.best.value < 0.98 * by_name);
  CU_ASSERT_EQUAL(ptc_work_write_choice(m.work, &found.best.choice, m.module), PTC_OK);
  ptc_arena_deinit(&arena);
  plan_model_end(&m);
}

static const unit_test_t tests[] = {{"extents", test_extents}, {"branches", test_branches}};
UNIT_MAIN("search names", tests)
