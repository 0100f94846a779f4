// Proves: what recomputation at intervals holds, in the published units (32 layers, a turn starts from 2 sbh and saves
// 34 sbh: 98, 100, 152, 280, 1088); each warning comes where its rule of thumb fails, and only there.
#include "passes/advice.h"

#include <math.h>
#include <string.h>

#include "tests/support/unit.h"

static void test_peaks(void) {
  static const struct {
    int64_t period;
    double peak;
  } rows[] = {{1, 98}, {2, 100}, {4, 152}, {8, 280}, {32, 1090}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
    CU_ASSERT_EQUAL(ptc_recompute_peak(32, rows[i].period, 2, 34), rows[i].peak);
  CU_ASSERT_EQUAL(ptc_recompute_peak(10, 4, 3, 5), 3 * 3 + 4 * 5);  // the last group is smaller
}

// The ids of all warnings, in order.
static void expect(ptc_diag_t *diag, const char *id, const char *words) {
  const bool any = diag->num_items > 0;
  UNIT_CHECK(any == (id != NULL), words ? words : "none");
  if (any && id) {
    CU_ASSERT_STRING_EQUAL(diag->items[0].id, id);
    bool found = false;
    for (int64_t i = 0; i < diag->num_items; i++)
      found |= strstr(diag->items[i].message, words) != NULL;
    UNIT_CHECK(found, words);
  }
  ptc_diag_deinit(diag);
  ptc_diag_init(diag);
}

static void test_intervals(void) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = ptc_module_create(&diag, "m");
  for (int64_t period = 1; period <= 2; period++) {
    ptc_advise_interval(module, (ptc_loc_t){0}, 32, period, 2, 34);
    expect(&diag, NULL, NULL);
  }
  ptc_advise_interval(module, (ptc_loc_t){0}, 32, 8, 2, 34);
  expect(&diag, "recompute-interval", "2.9 times what every(1)");
  ptc_advise_interval(module, (ptc_loc_t){0}, 32, 1, 30, 1);  // starts are what it holds
  expect(&diag, "recompute-interval", "times what every(16)");
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

// Idle share (S - 1) / (m + S - 1); the least m below 15 % is 18 for 4 stages, 40 for 8, 86 for 16.
static void test_bubbles(void) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_module_t *module = ptc_module_create(&diag, "m");
  ptc_advise_pipeline(module, PTC_SCHEDULE_1F1B, 2, 1, 8);  // 11.1 %
  expect(&diag, NULL, NULL);
  ptc_advise_pipeline(module, PTC_SCHEDULE_1F1B, 4, 1, 15);  // not four a stage
  expect(&diag, NULL, NULL);
  ptc_advise_pipeline(module, PTC_SCHEDULE_1F1B, 4, 1, 16);
  expect(&diag, "pipeline-bubble", "15.8 %");
  static const int64_t least[][2] = {{4, 18}, {8, 40}, {16, 86}};
  for (int i = 0; i < 3; i++)
    for (int kind = 0; kind < 2; kind++) {  // gpipe and 1f1b are idle as long
      char words[64];
      snprintf(words, sizeof(words), "at least %d micro-batches", (int)least[i][1]);
      ptc_advise_pipeline(module, kind ? PTC_SCHEDULE_1F1B : PTC_SCHEDULE_GPIPE, least[i][0], 1,
                          4 * least[i][0]);
      expect(&diag, "pipeline-bubble", words);
      ptc_advise_pipeline(module, kind ? PTC_SCHEDULE_1F1B : PTC_SCHEDULE_GPIPE, least[i][0], 1,
                          least[i][1]);
      expect(&diag, NULL, NULL);
    }
  ptc_advise_pipeline(module, PTC_SCHEDULE_1F1B, 8, 1, 32);
  expect(&diag, "pipeline-bubble",
         "schedule=zero_bubble (6.8 %), schedule=interleaved(chunks=2) (9.9 %)");
  ptc_advise_pipeline(module, PTC_SCHEDULE_ZB_H1, 8, 1, 32);
  expect(&diag, NULL, NULL);
  ptc_advise_pipeline(module, PTC_SCHEDULE_INTERLEAVED, 8, 2, 32);
  expect(&diag, NULL, NULL);
  // Who weighed it needs no warning.
  ptc_module_set_origin(module, "train.schedule", NULL, "rule");
  ptc_module_set_origin(module, "train.micro_batch", NULL, "planner");
  ptc_advise_pipeline(module, PTC_SCHEDULE_1F1B, 8, 1, 32);
  expect(&diag, NULL, NULL);
  ptc_module_destroy(module);
  ptc_diag_deinit(&diag);
}

static const unit_test_t tests[] = {
    {"peaks", test_peaks}, {"intervals", test_intervals}, {"bubbles", test_bubbles}};
UNIT_MAIN("advice", tests)
