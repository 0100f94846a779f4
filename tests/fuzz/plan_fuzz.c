// Proves: no plan folder, however broken, crashes the reader or makes it hang; what it accepts prints as text
// that it accepts again and that prints the same, and replays or is refused. An input is plan.json, a line of `%`,
// stage0.steps.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_plan(ptc_diag_t *diag, const ptc_plan_t *plan) {
  ptc_str_t first[2] = {{0}}, second[2] = {{0}};
  ptc_plan_t *again = NULL;
  ptc_plan_print(plan, &first[0], &first[1]);
  if (ptc_plan_parse(diag, "json", first[0].data, first[0].len, "steps", first[1].data,
                     first[1].len, &again) != PTC_OK) {
    ptc_diag_print(diag, stderr, PTC_DIAG_TEXT, false);
    abort();
  }
  ptc_plan_print(again, &second[0], &second[1]);
  for (int f = 0; f < 2; ++f) {
    if (strcmp(first[f].data, second[f].data) != 0) abort();
    ptc_str_deinit(&first[f]);
    ptc_str_deinit(&second[f]);
  }
  ptc_plan_destroy(again);
}

static int64_t saturated(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) || product > INT32_MAX ? INT32_MAX : product;
}

static int64_t count_turns(const ptc_step_t *steps, int32_t count) {
  int64_t turns = count;
  for (int32_t i = 0; i < count; ++i)
    if (steps[i].kind == PTC_STEP_REPEAT)
      turns += saturated(steps[i].count, 1 + count_turns(steps[i].body, steps[i].num_steps));
  return turns;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *text = (const char *)data;
  const char *mark = size ? memmem(data, size, "\n%\n", 3) : NULL;
  const size_t json_len = mark ? (size_t)(mark - text) + 1 : size;
  const size_t start = mark ? json_len + 2 : size;
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_plan_t *plan = NULL;
  const ptc_status_t status = ptc_plan_parse(&diag, "plan.json", text, json_len, "stage0.steps",
                                             text + start, size - start, &plan);
  if (status != PTC_OK && !diag.num_errors) abort();
  if (plan) {
    check_plan(&diag, plan);
    // Every turn is replayed: only where there are few.
    int64_t turns = 0;
    for (int32_t i = 0; i < plan->num_tasks; ++i)
      turns += count_turns(plan->tasks[i].steps, plan->tasks[i].num_steps);
    if (turns < 1000) (void)ptc_plan_verify(&diag, plan);
  }
  ptc_plan_destroy(plan);
  ptc_diag_deinit(&diag);
  return 0;
}
