// Proves: what is handed over runs in order, in another thread, more of it than there is room for; what it did is seen by
// whoever waited for it; after a step that fails nothing runs, the diagnostics are the owner's, and then all goes on.
#include "runtime/comm_queue.h"

#include <stdlib.h>

#include "tests/support/unit.h"

enum { NUM_STEPS = 500 };

typedef struct log_s {
  int64_t tags[NUM_STEPS];
  int32_t count, failing;  // failing: the tag of a step that fails
} log_t;

static ptc_status_t run_step(void *arg, ptc_diag_t *diag, const ptc_step_t *step,
                             void *const *args) {
  log_t *log = arg;
  if (step->tag == log->failing)
    return ptc_error(diag, (ptc_loc_t){0}, PTC_DEVICE, "comm-lost", "step %d is lost",
                     (int)step->tag);
  log->tags[log->count++] = step->tag;
  *(int64_t *)args[0] += *(const int64_t *)args[1];
  return PTC_OK;
}

static int64_t push(ptc_comm_queue_t *queue, const ptc_step_t *step, int64_t *to, int64_t *from) {
  void **args = ptc_comm_queue_args(queue);
  args[0] = to;
  args[1] = from;
  return ptc_comm_queue_push(queue, step);
}

static void test_order(void) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  static log_t log;
  log = (log_t){.failing = -1};
  static ptc_step_t steps[NUM_STEPS];
  static int64_t numbers[NUM_STEPS];
  int64_t sum = 0;
  ptc_comm_queue_t *queue;
  CU_ASSERT_EQUAL_FATAL(ptc_comm_queue_create(&diag, run_step, &log, 2, &queue), PTC_OK);
  CU_ASSERT(ptc_comm_queue_is_idle(queue));
  CU_ASSERT_EQUAL(ptc_comm_queue_wait(queue, &diag, 0), PTC_OK);
  for (int32_t i = 0; i < NUM_STEPS; i++) {
    steps[i].tag = i;
    numbers[i] = i;
    const int64_t number = push(queue, &steps[i], &sum, &numbers[i]);
    CU_ASSERT_EQUAL(number, i + 1);
    if (i % 100 != 50) continue;
    CU_ASSERT_EQUAL(ptc_comm_queue_wait(queue, &diag, number), PTC_OK);
    CU_ASSERT_EQUAL(sum, (int64_t)i * (i + 1) / 2);
    CU_ASSERT(ptc_comm_queue_is_idle(queue));
  }
  CU_ASSERT_EQUAL(ptc_comm_queue_drain(queue, &diag), PTC_OK);
  CU_ASSERT_EQUAL(sum, (int64_t)NUM_STEPS * (NUM_STEPS - 1) / 2);
  for (int32_t i = 0; i < NUM_STEPS; i++) CU_ASSERT_EQUAL(log.tags[i], i);
  ptc_comm_queue_destroy(queue);
  ptc_diag_deinit(&diag);
}

static void test_failure(void) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  static log_t log;
  log = (log_t){.failing = 3};
  ptc_step_t steps[6] = {{.tag = 0}, {.tag = 1}, {.tag = 2}, {.tag = 3}, {.tag = 4}, {.tag = 5}};
  int64_t sum = 0, one = 1;
  ptc_comm_queue_t *queue;
  CU_ASSERT_EQUAL_FATAL(ptc_comm_queue_create(&diag, run_step, &log, 2, &queue), PTC_OK);
  for (int i = 0; i < 6; i++) (void)push(queue, &steps[i], &sum, &one);
  CU_ASSERT_EQUAL(ptc_comm_queue_drain(queue, &diag), PTC_DEVICE);
  CU_ASSERT_EQUAL(sum, 3);
  CU_ASSERT(diag.num_items == 1 && strcmp(diag.items[0].id, "comm-lost") == 0);
  CU_ASSERT_STRING_EQUAL(diag.items[0].message, "step 3 is lost");
  // As new.
  (void)push(queue, &steps[5], &sum, &one);
  CU_ASSERT_EQUAL(ptc_comm_queue_drain(queue, &diag), PTC_OK);
  CU_ASSERT_EQUAL(sum, 4);
  // What is under way is waited for.
  log.failing = -1;
  for (int i = 0; i < 6; i++) (void)push(queue, &steps[i], &sum, &one);
  ptc_comm_queue_destroy(queue);
  CU_ASSERT_EQUAL(sum, 10);
  ptc_diag_deinit(&diag);
}

static const unit_test_t tests[] = {{"order", test_order}, {"failure", test_failure}};
UNIT_MAIN("comm queue", tests)
