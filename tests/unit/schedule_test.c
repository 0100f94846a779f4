// Proves: pipeline schedules are complete, in order and free of deadlocks; their idle times and the micro-batches
// that they keep are the closed forms; 1f1b for 4 stages and 8 micro-batches is the known table.
#include "passes/schedule.h"

#include <math.h>
#include <stdlib.h>

#include "tests/support/unit.h"

static bool near(double a, double b) { return fabs(a - b) < 1e-9; }

static void check_runs(const ptc_schedule_t *schedule, const char *row) {
  for (int rendezvous = 0; rendezvous < 2; rendezvous++) {
    ptc_str_t why = {0};
    const bool ok = ptc_schedule_check(schedule, rendezvous != 0, &why);
    if (!ok) printf("%s: %s\n", row, why.data);
    UNIT_CHECK(ok, row);
    ptc_str_deinit(&why);
  }
}

static void test_all_run(void) {
  static const ptc_schedule_costs_t costs[] = {
      {1, 1, 1, 0}, {1, 2, 1, 0.25}, {3, 1, 2, 5}, {0.1, 7, 0.3, 1}};
  for (int kind = 0; kind < PTC_NUM_SCHEDULES; kind++)
    for (int stages = 1; stages <= 8; stages++)
      for (int micro = 1; micro <= 17; micro++)
        for (int chunks = 1; chunks <= (kind == PTC_SCHEDULE_INTERLEAVED ? 4 : 1); chunks++)
          for (int c = 0; c < 4; c++) {
            ptc_arena_t arena;
            ptc_arena_init(&arena);
            const ptc_schedule_t *schedule = ptc_schedule_new(&arena, (ptc_schedule_kind_t)kind,
                                                              stages, chunks, micro, &costs[c]);
            char row[100];
            snprintf(row, sizeof(row), "%s S=%d m=%d v=%d",
                     ptc_schedule_name((ptc_schedule_kind_t)kind), stages, micro, chunks);
            check_runs(schedule, row);
            for (int stage = 0; stage < stages; stage++)
              for (int chunk = 0; chunk < chunks; chunk++) {
                const int32_t slots = ptc_schedule_num_slots(schedule, stage, chunk);
                UNIT_CHECK(slots >= 1 && slots <= micro, row);
              }
            ptc_arena_deinit(&arena);
          }
}

// The order of each stage without the idle cells.
static void test_table(void) {
  static const char *const rows[4] = {"F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7",
                                      "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7",
                                      "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7",
                                      "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7"};
  ptc_arena_t arena;
  ptc_arena_init(&arena);
  const ptc_schedule_costs_t costs = {2, 1, 1, 0};  // a unit of the table is F, or B with W
  const ptc_schedule_t *schedule = ptc_schedule_new(&arena, PTC_SCHEDULE_1F1B, 4, 1, 8, &costs);
  CU_ASSERT(near(schedule->makespan, 2 * 2 * (8 + 4 - 1)));
  for (int stage = 0; stage < 4; stage++) {
    ptc_str_t text = {0};
    for (int32_t i = 0; i < schedule->stages[stage].count; i++) {
      const ptc_schedule_work_t *work = &schedule->stages[stage].work[i];
      if (work->kind > PTC_WORK_W) continue;
      ptc_str_printf(&text, "%s%s%d", text.len ? " " : "", ptc_work_name(work->kind), work->micro);
      // The table's column; an F may come earlier, as far as its stage has nothing else to do.
      const double column =
          work->kind == PTC_WORK_B ? 2 * 4 - 1 - stage + 2 * work->micro : stage + 2 * work->micro;
      const bool at = near(work->start / 2, column);
      UNIT_CHECK(work->kind == PTC_WORK_B ? at : work->start / 2 < column + 1e-9, rows[stage]);
    }
    UNIT_CHECK(strcmp(text.data, rows[stage]) == 0, text.data);
    ptc_str_deinit(&text);
  }
  ptc_arena_deinit(&arena);
}

static void test_closed_forms(void) {
  for (int s = 1; s <= 8; s++)
    for (int m = 1; m <= 32; m++) {
      ptc_arena_t arena;
      ptc_arena_init(&arena);
      char row[64];
      snprintf(row, sizeof(row), "S=%d m=%d", s, m);
      const ptc_schedule_costs_t costs = {1, 1.5, 0.5, 0};
      const double bubble = (s - 1.0) / (m + s - 1);
      const ptc_schedule_t *gpipe = ptc_schedule_new(&arena, PTC_SCHEDULE_GPIPE, s, 1, m, &costs);
      UNIT_CHECK(near(ptc_schedule_bubble(gpipe), bubble), row);
      const ptc_schedule_t *plain = ptc_schedule_new(&arena, PTC_SCHEDULE_1F1B, s, 1, m, &costs);
      UNIT_CHECK(near(ptc_schedule_bubble(plain), bubble), row);
      for (int r = 0; r < s; r++) {
        UNIT_CHECK(ptc_schedule_in_flight(gpipe, r) == m, row);
        UNIT_CHECK(ptc_schedule_in_flight(plain, r) == (s - r < m ? s - r : m), row);
      }
      const ptc_schedule_t *zero = ptc_schedule_new(&arena, PTC_SCHEDULE_ZB_H1, s, 1, m, NULL);
      if (m >= s) {
        // F = B = W = 1: (S-1)(F+B-W) of idle time where 1f1b has (S-1)(F+B+W).
        UNIT_CHECK(near(zero->makespan, 3.0 * m + (s - 1)), row);
        UNIT_CHECK(near(ptc_schedule_bubble(zero), (s - 1.0) / (3.0 * m + (s - 1))), row);
      }
      for (int r = 0; r < s; r++)
        UNIT_CHECK(ptc_schedule_in_flight(zero, r) <= (s < m ? s : m), row);
      for (int v = 2; v <= 4 && m % s == 0; v++) {
        const ptc_schedule_t *inter =
            ptc_schedule_new(&arena, PTC_SCHEDULE_INTERLEAVED, s, v, m, &costs);
        UNIT_CHECK(near(ptc_schedule_bubble(inter), (s - 1.0) / (v * m + s - 1)), row);
        for (int r = 0; r < s; r++) {
          const int warm = 2 * (s - r - 1) + (v - 1) * s + 1;
          UNIT_CHECK(ptc_schedule_in_flight(inter, r) == (warm < v * m ? warm : v * m), row);
        }
      }
      ptc_arena_deinit(&arena);
    }
}

static void test_csv(void) {
  ptc_arena_t arena;
  ptc_arena_init(&arena);
  ptc_str_t text = {0};
  ptc_schedule_print_csv(ptc_schedule_new(&arena, PTC_SCHEDULE_ZB_H1, 2, 1, 2, NULL), 1, &text);
  CU_ASSERT_STRING_EQUAL(text.data, "0F0,0F1,,0I0,0W0,0I1,0W1\n,1F0,1I0,1F1,1I1,1W0,1W1\n");
  text.len = 0;
  ptc_schedule_print_csv(ptc_schedule_new(&arena, PTC_SCHEDULE_INTERLEAVED, 2, 2, 2, NULL), 1,
                         &text);
  CU_ASSERT_STRING_EQUAL(
      text.data, "0F0,0F1,2F0,2F1,,,2B0,,,2B1,,0B0,,0B1,\n,1F0,1F1,3F0,3B0,,3F1,3B1,,1B0,,1B1,\n");
  ptc_str_deinit(&text);
  ptc_arena_deinit(&arena);
}

// A change at a random place: the check refuses it, and names the place.
static void test_check(void) {
  uint64_t state = unit_seed();
  for (int i = 0; i < 2000; i++) {
    ptc_arena_t arena;
    ptc_arena_init(&arena);
    const ptc_schedule_kind_t kind = (ptc_schedule_kind_t)(unit_random(&state) % PTC_NUM_SCHEDULES);
    const int32_t stages = 2 + (int32_t)(unit_random(&state) % 3);
    const int32_t chunks = kind == PTC_SCHEDULE_INTERLEAVED ? 2 : 1;
    ptc_schedule_t *s = ptc_schedule_new(&arena, kind, stages, chunks,
                                         1 + (int32_t)(unit_random(&state) % 6), NULL);
    ptc_stage_order_t *order = &s->stages[unit_random(&state) % (uint64_t)stages];
    ptc_schedule_work_t *work = &order->work[unit_random(&state) % (uint64_t)order->count];
    const char *what = "";
    switch (unit_random(&state) % 4) {
      case 0:
        what = "dropped";
        memmove(work, work + 1, (size_t)(&order->work[--order->count] - work) * sizeof(*work));
        break;
      case 1:
        what = "doubled";
        memmove(work + 1, work, (size_t)(&order->work[order->count++] - work) * sizeof(*work));
        break;
      case 2:
        what = "another micro-batch";
        work->micro++;
        break;
      default:
        what = "another peer or chunk";
        if (work->kind > PTC_WORK_W)
          work->peer = (work->peer + 1) % (stages + 1);
        else
          work->chunk++;
        break;
    }
    ptc_str_t why = {0};
    UNIT_CHECK(!ptc_schedule_check(s, i % 2 != 0, &why) && why.len > 0, what);
    ptc_str_deinit(&why);
    ptc_arena_deinit(&arena);
  }
}

static void test_names(void) {
  for (int k = 0; k < PTC_NUM_SCHEDULES; k++) {
    ptc_schedule_kind_t kind = PTC_NUM_SCHEDULES;
    CU_ASSERT(ptc_schedule_parse(ptc_schedule_name((ptc_schedule_kind_t)k), &kind));
    CU_ASSERT_EQUAL(kind, k);
  }
  ptc_schedule_kind_t kind;
  CU_ASSERT(!ptc_schedule_parse("dualpipe", &kind));
}

static const unit_test_t tests[] = {
    {"every schedule runs, sends buffered or not", test_all_run},
    {"1f1b for 4 stages and 8 micro-batches", test_table},
    {"idle time and micro-batches in flight", test_closed_forms},
    {"csv", test_csv},
    {"broken schedules", test_check},
    {"names", test_names},
};
UNIT_MAIN("schedule", tests)
