// Proves: the plan of a stage of a pipeline reads back; calls and transfers that do not fit are refused.
#include <stdlib.h>

#include "ir/plan.h"
#include "tests/support/unit.h"

static const char good_json[] =
    "{\n\"version\": 3,\n\"model\": \"tiny\",\n\"target\": \"cpu\",\n\"compiler_flags\": \"\",\n"
    "\"mesh\": [[\"pp\", 2], [\"dp\", 2]],\n\"stage\": 1,\n\"arena_bytes\": 4096,\n"
    "\"bound_bytes\": 0,\n\"batch\": 0,\n\"seq\": 0,\n\"flops_per_step\": 0,\n\"hashes\": {\n},\n"
    "\"globals\": [\n],\n\"settings\": [\n]\n}\n";

static const char good_steps[] =
    "steps 3\n"
    "buffer 0 \"x\" saved f32 [b=16]\n  at 0+64*3\n"
    "buffer 1 \"y\" temp f32 [b=16]\n  at 256\n"
    "task \"train.f\" micro 4 slots 3\n"
    "  recv 0 4 0[t1]:64  # x\n"
    "  copy 0[t1]:64 1:64  # x y\n"
    "end\n"
    "task \"train.b\" micro 4 slots 3\n"
    "  send 0 6 1:64  # y\n"
    "end\n"
    "task \"train\"\n"
    "  call \"train.f\" 0 0\n  call \"train.b\" 0 0\n"
    "  call \"train.f\" 1 1\n  call \"train.b\" 1 1\n"
    "  call \"train.f\" 2 2\n  call \"train.b\" 2 2\n"
    "  call \"train.f\" 3 0\n  call \"train.b\" 3 0\n"
    "end\n";

static const struct {
  bool in_json;
  const char *from, *to, *id;
} broken[] = {
    {true, "\"stage\": 1", "\"stage\": 2", "plan-json"},
    {false, "recv 0 4", "recv 1 4", "plan-transfer"},
    {false, "recv 0 4", "recv 2 4", "plan-transfer"},
    {false, "recv 0 4 0[t1]:64", "recv 0 4 0[t1]:64 1:64", "plan-transfer"},
    {false, "send 0 6 1:64", "send 0 6 1:68", "plan-ref"},
    {false, "0[t1]:64  # x\n  copy", "0[t0]:64  # x\n  copy", "plan-ref"},
    {false, "call \"train.f\" 3 0", "call \"train.f\" 4 2", "plan-task"},
    {false, "call \"train.f\" 3 0", "call \"train.f\" 3 3", "plan-task"},
    {false, "call \"train.f\" 3 0", "call \"train.w\" 3 2", "plan-name"},
    {false, "call \"train.f\" 3 0", "repeat 2\n  call \"train.f\" 3 0\n  end", "plan-task"},
    {false, "  send 0 6 1:64", "  call \"train.f\" 0 0", "plan-task"},
    {false, "micro 4 slots 3\n  recv", "micro 2 slots 3\n  recv", "plan-task"},
    {false, "micro 4 slots 3\n  recv", "micro 0 slots 3\n  recv", "plan-text"},
};

static ptc_status_t parse(ptc_diag_t *diag, const char *json, const char *steps,
                          ptc_plan_t **out_plan) {
  return ptc_plan_parse(diag, "stage1.json", json, strlen(json), "stage1.steps", steps,
                        strlen(steps), out_plan);
}

static void test_good(void) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_plan_t *plan = NULL;
  CU_ASSERT_EQUAL(parse(&diag, good_json, good_steps, &plan), PTC_OK);
  if (!plan) ptc_diag_print(&diag, stdout, PTC_DIAG_TEXT, false);
  CU_ASSERT_PTR_NOT_NULL_FATAL(plan);
  CU_ASSERT_EQUAL(plan->stage, 1);
  CU_ASSERT_EQUAL(plan->num_stages, 2);
  CU_ASSERT_EQUAL(ptc_plan_world(plan), 4);
  CU_ASSERT_EQUAL(ptc_plan_verify(&diag, plan), PTC_OK);
  ptc_str_t json = {0}, steps = {0};
  ptc_plan_print(plan, &json, &steps);
  CU_ASSERT_STRING_EQUAL(json.data, good_json);
  CU_ASSERT_STRING_EQUAL(steps.data, good_steps);
  ptc_str_deinit(&json);
  ptc_str_deinit(&steps);
  ptc_plan_destroy(plan);
  ptc_diag_deinit(&diag);
}

// |text| with the first |from| replaced; NULL if it is not there. malloc'ed.
static char *replaced(const char *text, const char *from, const char *to) {
  const char *at = strstr(text, from);
  if (!at) return NULL;
  char *out = malloc(strlen(text) + strlen(to) + 1);
  if (!out) abort();
  memcpy(out, text, (size_t)(at - text));
  strcpy(out + (at - text), to);
  strcat(out, at + strlen(from));
  return out;
}

static void test_broken(void) {
  for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
    char *changed =
        replaced(broken[i].in_json ? good_json : good_steps, broken[i].from, broken[i].to);
    UNIT_CHECK(changed != NULL, broken[i].from);
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_plan_t *plan = NULL;
    if (changed)
      (void)parse(&diag, broken[i].in_json ? changed : good_json,
                  broken[i].in_json ? good_steps : changed, &plan);
    const char *id = diag.num_items ? diag.items[0].id : "none";
    if (strcmp(id, broken[i].id) != 0) printf("\"%s\": [%s]\n", broken[i].to, id);
    UNIT_CHECK(strcmp(id, broken[i].id) == 0, broken[i].to);
    ptc_plan_destroy(plan);
    ptc_diag_deinit(&diag);
    free(changed);
  }
}

static const unit_test_t tests[] = {
    {"text and back", test_good},
    {"broken", test_broken},
};
UNIT_MAIN("plan of a stage", tests)
