// Proves: events that order what must be ordered are accepted, whatever else runs at the same time; without one of them,
// or with a step on another stream, the two steps that meet are named; so are events that nothing records. What a step
// touches is taken over all ranks; a step that runs turns ahead meets the turn that it runs in.
#include <stdlib.h>

#include "ir/plan.h"
#include "tests/support/unit.h"

static const char json[] =
    "{\"version\": 3, \"model\": \"tiny\", \"target\": \"cpu\", \"compiler_flags\": \"\", "
    "\"mesh\": [[\"dp\", 2], [\"tp\", 2]], \"arena_bytes\": 4096, \"bound_bytes\": 0, \"batch\": "
    "0, "
    "\"seq\": 0, \"flops_per_step\": 0, \"hashes\": {\"make\": \"00\", \"use\": \"00\"}, "
    "\"globals\": [], \"settings\": []}";

static const char head[] =
    "steps 3\n"
    "kernel make \"\"\n"
    "  params out:64\n"
    "  run 1: 1\n"
    "  needs workspace 0 scratch 0 flops 0 bytes 0\n"
    "kernel use \"\"\n"
    "  params in:64 out:64\n"
    "  run 1: 1\n"
    "  needs workspace 0 scratch 0 flops 0 bytes 0\n"
    "buffer 0 \"a\" temp f32 [n=16] partial sum dp\n"
    "  at 0\n"
    "buffer 1 \"b\" temp f32 [n=16]\n"
    "  at 64\n"
    "buffer 2 \"c\" temp f32 [n=16]\n"
    "  at 128\n"
    "buffer 3 \"wide\" temp f32 [n=64]\n"
    "  at 256\n"
    "buffer 4 \"turns\" temp f32 [n=16] partial sum dp\n"
    "  at 1024+64*4\n"
    "buffer 5 \"sums\" temp f32 [n=16]\n"
    "  at 2048+64*2 2048+64*2\n"
    "task \"train\"\n";

static const char line[] =
    "  with record 1\n"
    "  launch make 0:64\n"
    "  with stream 1 wait 1 record 2\n"
    "  all_reduce sum f32 over dp\n"
    "    part 0:64 1:64\n"
    "  end\n"
    "  launch make 2:64\n"
    "  with wait 2\n"
    "  launch use 1:64 2:64\n"
    "  launch make 0:64\n"
    "end\n";

// Ranks write their part of a buffer while another part of it is on its way.
static const char coords[] =
    "  with record 1\n"
    "  launch make 0:64\n"
    "  with stream 1 wait 1 record 2\n"
    "  all_reduce sum f32 over dp\n"
    "    part 0:64 3@64*dp:64\n"
    "  end\n"
    "  launch make 3@128:64\n"
    "  with wait 2\n"
    "  launch use 3:64 2:64\n"
    "end\n";

// Turn t works on turns[t] while the sum for t + 1 is under way, into one of two places.
static const char ahead[] =
    "  repeat 4\n"
    "    with record 1\n"
    "    launch make 4[t0]:64\n"
    "  end\n"
    "  repeat 4\n"
    "    with wait 2\n"
    "    launch use 5[t0]:64 2:64\n"
    "    with stream 1 ahead 1 wait 1 record 2\n"
    "    all_reduce sum f32 over dp\n"
    "      part 4[t0]:64 5[t0]:64\n"
    "    end\n"
    "    with record 1\n"
    "    launch use 5[t0]:64 0:64\n"
    "  end\n"
    "end\n";

static const struct {
  const char *steps, *from, *to, *id, *words;
} rows[] = {
    {line, "", "", NULL, NULL},
    {line, "with stream 1 wait 1", "with stream 2 wait 1", NULL, NULL},
    {line, "  with stream 1 wait 1 record 2\n", "", "plan-event", "event 2"},
    {line, "with stream 1 wait 1", "with stream 1", "plan-race",
     "step 2 (line 25), all_reduce on stream 1, reads \"a\" while step 1 (line 23), make on stream "
     "0 may still write \"a\" there"},
    {line, "  with record 1\n", "", "plan-event", "event 1"},
    {line, "  with wait 2\n", "", "plan-race",
     "step 4 (line 30), use on stream 0, reads \"b\" while step 2 (line 25), all_reduce on stream "
     "1 may still write \"b\" there"},
    {line, "make 2:64\n  with wait 2\n  launch use 1:64 2:64\n", "use 2:64 0:64\n", "plan-race",
     "writes \"a\" while step 2 (line 25), all_reduce on stream 1 may still read \"a\""},
    {line, "launch make 2:64", "launch make 0:64", "plan-race", "may still read \"a\""},
    {line, "launch make 2:64", "launch make 1:64", "plan-race", "may still write \"b\""},
    {line, "launch make 2:64", "launch use 0:64 2:64", NULL, NULL},
    {coords, "", "", NULL, NULL},
    {coords, "3@128:64", "3@64:64", "plan-race", "may still write \"wide\""},
    {coords, "3@128:64", "3@128*tp:64", "plan-race", "may still write \"wide\""},
    {ahead, "", "", NULL, NULL},
    {ahead, "use 5[t0]:64 0:64", "use 5[3-t0]:64 0:64", "plan-race", "may still write \"sums\""},
    {ahead, "ahead 1 wait 1 record", "ahead 1 record", "plan-race", "reads \"turns\""},
    {ahead, "    with record 1\n    launch use", "    launch use", "plan-race", "read \"sums\""},
    {ahead, "ahead 1", "ahead 2", "plan-race", "may still read \"sums\""},
    {ahead, "    with wait 2\n", "", "plan-race", "reads \"sums\""},
};

static char *replaced(const char *text, const char *from, const char *to) {
  const char *at = strstr(text, from);
  if (!at) return NULL;
  ptc_str_t out = {0};
  ptc_str_append(&out, head);
  ptc_str_append_n(&out, text, (size_t)(at - text));
  ptc_str_append(&out, to);
  ptc_str_append(&out, at + strlen(from));
  return out.data;
}

static void test_rows(void) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char *steps = replaced(rows[i].steps, rows[i].from, rows[i].to);
    UNIT_CHECK(steps != NULL, rows[i].from);
    if (!steps) continue;
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_plan_t *plan = NULL;
    ptc_status_t status = ptc_plan_parse(&diag, "plan.json", json, strlen(json), "stage0.steps",
                                         steps, strlen(steps), &plan);
    UNIT_CHECK(status == PTC_OK, rows[i].to);
    if (status == PTC_OK) status = ptc_plan_verify_order(&diag, plan);
    const char *id = diag.num_items ? diag.items[0].id : NULL;
    const bool same = rows[i].id ? id && strcmp(id, rows[i].id) == 0 : !id;
    const bool told = !rows[i].words || (id && strstr(diag.items[0].message, rows[i].words));
    UNIT_CHECK(same && told, rows[i].to);
    if (!same || !told) ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
    ptc_plan_destroy(plan);
    ptc_diag_deinit(&diag);
    free(steps);
  }
}

static const unit_test_t tests[] = {{"rows", test_rows}};
UNIT_MAIN("plan order", tests)
