// Proves: a plan survives its text byte for byte; every broken plan gets a diagnostic with file and line, of
// the kind that is due; changed bytes never crash the reader, and what it still accepts is in bounds.
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/plan.h"
#include "tests/support/unit.h"

static const char good_json[] =
    "{\n"
    "\"version\": 3,\n"
    "\"model\": \"tiny\",\n"
    "\"target\": \"cpu\",\n"
    "\"compiler_flags\": \"-O3 \\\"x\\\"\",\n"
    "\"arena_bytes\": 4096,\n"
    "\"bound_bytes\": 4032,\n"
    "\"batch\": 4,\n"
    "\"seq\": 8,\n"
    "\"flops_per_step\": 1.28e+04,\n"
    "\"hashes\": {\n"
    "\"k0_gelu\": \"0123abcd\",\n"
    "\"k1_sum\": \"ff\"\n"
    "},\n"
    "\"globals\": [\n"
    "{\"path\": \"tokens\", \"kind\": \"input\", \"buffer\": 0, \"source\": \"text\", \"offset\": "
    "1, "
    "\"range\": 256, \"batch_dim\": 0, \"ignorable\": true},\n"
    "{\"path\": \"noise\", \"kind\": \"input\", \"buffer\": 5, \"dist\": \"normal\", \"a\": -0.5, "
    "\"b\": "
    "1},\n"
    "{\"path\": \"block.*.w\", \"kind\": \"param\", \"buffer\": 1, \"turns\": [[4, 0, 2]]},\n"
    "{\"path\": \"lr\", \"kind\": \"setting\", \"buffer\": 2, \"value\": 0.0006},\n"
    "{\"path\": \"clip\", \"kind\": \"setting\", \"buffer\": 2, \"first_instance\": 1, \"value\": "
    "\"inf\"}\n"
    "],\n"
    "\"settings\": [\n"
    "{\"name\": \"train.lr\", \"value\": \"0.0006\", \"origin\": \"tiny.ptm:9\", \"open\": true, "
    "\"global\": \"lr\"},\n"
    "{\"name\": \"layers\", \"value\": \"4\", \"origin\": \"default\"}\n"
    "]\n"
    "}\n";

static const char good_steps[] =
    "steps 3\n"
    "kernel k0_gelu \"gelu\\tof x\" at \"tiny.ptm\":12\n"
    "  params in:64 out:64/0 inout:4\n"
    "  run 1: 4 2\n"
    "  run 3: 1\n"
    "  needs workspace 0 scratch 128 flops 1.28e+04 bytes 132\n"
    "kernel k1_sum \"reduce_sum\"\n"
    "  params in:64 out:4\n"
    "  run 1: 1\n"
    "  needs workspace 256 scratch 0 flops 1.5e+09 bytes 68\n"
    "buffer 0 \"tokens\" input i32 [b=4 s=8]\n"
    "  at 0\n"
    "buffer 1 \"block.*.w\" param f32 [d=4 'odd name'=4]\n"
    "  at 128+64*4\n"
    "buffer 2 \"s\" scalar f32 [] at \"tiny.ptm\":3\n"
    "  at 384 448\n"
    "buffer 3 \"x\" temp f32 [b=4 d=4]\n"
    "  at 512 576 1024-128*3\n"
    "buffer 4 \"ws\" workspace i64 [n=32]\n"
    "  at 2048\n"
    "buffer 5 \"noise\" input bf16 [b=4]\n"
    "  at 3072\n"
    "task \"init\"\n"
    "  copy 1:64 3:64  # 'block.*.w' x\n"
    "end\n"
    "task \"train\"\n"
    "  result \"loss\" loss 2 1 1\n"
    "  result \"block.*.w\" grad 3 0 4\n"
    "  owes exchanges 2 transfers 3\n"
    "    launches k0_gelu*4 k1_sum*8\n"
    "    global 2 00000000000000ff  # 'block.*.w'\n"
    "    result 0 fedcba9876543210  # loss\n"
    "    sent 0123456789abcdef\n"
    "  end\n"
    "  repeat 4 reverse\n"
    "    launch k0_gelu 1[3-t0]:64 3[t0]:64 2:4  # 'block.*.w' x s\n"
    "    repeat 2\n"
    "      launch k1_sum 3[t0]:64 2[t1]:4 4:256  # x s ws\n"
    "    end\n"
    "    copy 3[1+t0]@16:16 3[t0]@16*t0:16  # x x\n"
    "  end\n"
    "end\n";

static ptc_status_t parse(ptc_diag_t *diag, const char *json, const char *steps,
                          ptc_plan_t **plan) {
  return ptc_plan_parse(diag, "plan.json", json, strlen(json), "stage0.steps", steps, strlen(steps),
                        plan);
}

static void test_round_trip(void) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_plan_t *plan = NULL;
  ptc_status_t status = parse(&diag, good_json, good_steps, &plan);
  ptc_diag_print(&diag, stderr, PTC_DIAG_TEXT, false);
  CU_ASSERT_EQUAL_FATAL(status, PTC_OK);
  ptc_str_t json = {0}, steps = {0};
  ptc_plan_print(plan, &json, &steps);
  CU_ASSERT_STRING_EQUAL(json.data, good_json);
  CU_ASSERT_STRING_EQUAL(steps.data, good_steps);

  CU_ASSERT_EQUAL(plan->buffers[3].num_instances, 5);
  CU_ASSERT_EQUAL(plan->buffers[3].offsets[4], 768);
  CU_ASSERT_EQUAL(plan->kernels[0].runs[0].num_phases, 2);
  CU_ASSERT_STRING_EQUAL(plan->kernels[1].hash, "ff");
  const ptc_task_t *train = ptc_plan_find_task(plan, "train");
  CU_ASSERT_PTR_NOT_NULL_FATAL(train);
  CU_ASSERT_PTR_NULL(ptc_plan_find_task(plan, "eval"));
  const ptc_step_t *repeat = &train->steps[0];
  CU_ASSERT(repeat->kind == PTC_STEP_REPEAT && repeat->reverse && repeat->count == 4);
  const int64_t turns[PTC_PLAN_MAX_LEVELS] = {2, 1};
  CU_ASSERT_EQUAL(ptc_affine_at(&repeat->body[0].args[0].instance, turns), 1);
  CU_ASSERT_EQUAL(ptc_affine_at(&repeat->body[2].args[1].byte_offset, turns), 32);
  ptc_str_t path = {0};
  ptc_plan_instance_path(ptc_plan_find_global(plan, "block.*.w"), 3, &path);
  CU_ASSERT_STRING_EQUAL(path.data, "block.6.w");
  ptc_str_deinit(&path);
  ptc_str_deinit(&json);
  ptc_str_deinit(&steps);
  ptc_plan_destroy(plan);
  ptc_diag_deinit(&diag);
}

static void test_folder(void) {
  char folder[] = "/tmp/ptc_plan_XXXXXX";
  CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_plan_t *plan = NULL, *again = NULL;
  CU_ASSERT_EQUAL(ptc_plan_read(&diag, folder, &again), PTC_IO);
  CU_ASSERT_STRING_EQUAL(diag.items[0].id, "read-plan");
  CU_ASSERT_PTR_NULL(again);
  CU_ASSERT_EQUAL_FATAL(parse(&diag, good_json, good_steps, &plan), PTC_OK);
  CU_ASSERT_EQUAL(ptc_plan_write(&diag, plan, folder), PTC_OK);
  CU_ASSERT_EQUAL_FATAL(ptc_plan_read(&diag, folder, &again), PTC_OK);
  ptc_str_t json = {0}, steps = {0};
  ptc_plan_print(again, &json, &steps);
  CU_ASSERT_STRING_EQUAL(json.data, good_json);
  CU_ASSERT_STRING_EQUAL(steps.data, good_steps);
  CU_ASSERT_EQUAL(ptc_plan_write(&diag, plan, "/tmp/ptc_no_such_folder"), PTC_IO);
  CU_ASSERT_STRING_EQUAL(diag.items[1].id, "write-plan");
  ptc_str_printf(&json, "rm -r %s", folder);
  CU_ASSERT_EQUAL(system(strstr(json.data, "rm -r")), 0);
  ptc_str_deinit(&json);
  ptc_str_deinit(&steps);
  ptc_plan_destroy(plan);
  ptc_plan_destroy(again);
  ptc_diag_deinit(&diag);
}

// --- broken plans: |from| is replaced by |to| where it first occurs

typedef struct broken_s {
  const char *from, *to, *id;
  int32_t line;
} broken_t;

static const broken_t broken_steps[] = {
    {"steps 3", "", "plan-text", 2},
    {"steps 3", "steps 1", "plan-version", 1},
    {"steps 3", "steps 4", "plan-version", 1},
    {"steps 3", "steps 3 9", "plan-text", 1},
    {"owes exchanges 2", "owes exchange 2", "plan-text", 29},
    {"k0_gelu*4", "k0_gelu 4", "plan-text", 30},
    {"k0_gelu*4", "k2_gelu*4", "plan-name", 30},
    {"00000000000000ff", "00000000000000fg", "plan-text", 31},
    {"00000000000000ff", "000000000000000ff", "plan-text", 31},
    {"global 2 0", "global 5 0", "plan-ledger", 29},
    {"result 0 f", "result 2 f", "plan-ledger", 29},
    {"    sent 0123456789abcdef\n  end\n", "    sent 0123456789abcdef\n", "plan-text", 34},
    {"kernel k0", "colonel k0", "plan-text", 2},
    {"\\tof x", "\\qof", "plan-text", 2},
    {"of x\"", "of x", "plan-text", 2},
    {"\":12\n", "\" 12\n", "plan-text", 2},
    {"params in", "params on", "plan-text", 3},
    {"in:64", "in:99999999999999999999", "plan-number", 3},
    {"in:64", "in:9223372036854775807", "plan-number", 3},
    {"in:64", "in 64", "plan-text", 3},
    {"64/0", "64/1", "plan-kernel", 2},
    {"64/0", "64/2", "plan-kernel", 2},
    {"64/0", "64/7", "plan-kernel", 2},
    {"64/0", "68/0", "plan-kernel", 2},
    {"run 1: 4 2", "run 0: 4 2", "plan-kernel", 2},
    {"run 1: 4 2", "run 1: 0 2", "plan-kernel", 2},
    {"run 1: 4 2", "run 1:", "plan-kernel", 2},
    {"run 3", "run 4000000000000000000", "plan-kernel", 2},
    {"  run 1: 4 2\n  run 3: 1\n", "", "plan-kernel", 2},
    {"needs workspace 0", "needs workspace -1", "plan-text", 6},
    {"scratch 128", "scratch 4000000000000000000", "plan-kernel", 2},
    {"flops 1.28e+04", "flops nan", "plan-number", 6},
    {"flops 1.28e+04", "flops 1e999", "plan-number", 6},
    {"flops 1.28e+04", "flops -1", "plan-number", 6},
    {"kernel k1_sum", "kernel k0_gelu", "plan-name", 7},
    {"kernel k1_sum", "kernel ../k1_sum", "plan-text", 7},
    {"kernel k1_sum", "kernel 1sum", "plan-name", 30},
    {"buffer 0", "buffer 1", "plan-text", 11},
    {"input i32", "imput i32", "plan-text", 11},
    {"input i32", "input u8", "plan-text", 11},
    {"b=4 s=8", "b=4 s:8", "plan-text", 11},
    {"b=4 s=8", "b=4000000000 s=8000000000", "plan-number", 11},
    {"b=4 s=8", "a=1 a=1 a=1 a=1 a=1 a=1 a=1 a=1 a=1 a=1 a=1 a=1 a=1 a=1 a=1 a=1 a=1", "plan-limit",
     11},
    {"  at 0\n", "  at\n", "plan-buffer", 11},
    {"  at 0\n", "  at 32\n", "plan-buffer", 11},
    {"  at 0\n", "  at 4032\n", "plan-buffer", 11},
    {"  at 0\n", "  at -64\n", "plan-text", 12},
    {"  at 0\n", "  on 0\n", "plan-text", 12},
    {"128+64*4", "128+64*1048576", "plan-limit", 14},
    {"128+64*4", "128+64*3", "plan-ref", 36},
    {"128+64*4", "128+4611686018427387904*4", "plan-number", 14},
    {"128+64*4", "128+2048*4", "plan-buffer", 13},
    {"128+64*4", "128+64", "plan-text", 14},
    {"1024-128*3", "1024-512*4", "plan-buffer", 17},
    {"[n=32]", "[n=31]", "plan-ref", 38},
    {"copy 1:64 3:64", "copy 1:64", "plan-ref", 24},
    {"copy 1:64 3:64", "copy 1:64 3:60", "plan-ref", 24},
    {"copy 1:64 3:64", "copy 1:48 1@16:48", "plan-overlap", 24},
    {"copy 1:64 3:64", "copy 1:62 3:62", "plan-ref", 24},
    {"copy 1:64 3:64", "copy 1@2:32 3:32", "plan-ref", 24},
    {"copy 1:64 3:64", "copy 1@64:4 3:4", "plan-ref", 24},
    {"copy 1:64 3:64", "copy 1[4]:64 3:64", "plan-ref", 24},
    {"copy 1:64 3:64", "copy 1[-1]:64 3:64", "plan-ref", 24},
    {"copy 1:64 3:64", "copy 1[t0]:64 3:64", "plan-ref", 24},
    {"copy 1:64 3:64", "copy 9:64 3:64", "plan-ref", 24},
    {"copy 1:64 3:64", "move 1:64 3:64", "plan-text", 24},
    {"task \"train\"", "task \"init\"", "plan-task", 0},
    {"task \"train\"", "task train", "plan-text", 26},
    {"loss 2 1 1", "loss 2 1 2", "plan-task", 27},
    {"loss 2 1 1", "loss 2 1 0", "plan-task", 27},
    {"loss 2 1 1", "loss 6 1 1", "plan-task", 27},
    {"loss 2 1 1", "cost 2 1 1", "plan-task", 27},
    {"repeat 4 reverse", "repeat 0 reverse", "plan-limit", 35},
    {"repeat 4 reverse", "repeat 5 reverse", "plan-ref", 36},
    {"repeat 4 reverse", "repeat 4 backwards", "plan-text", 35},
    {"repeat 4 reverse", "repeat 4000000000000 reverse", "plan-limit", 35},
    {"repeat 2\n", "repeat 3\n", "plan-ref", 38},
    {"launch k0_gelu", "launch k2_gelu", "plan-name", 36},
    {"1[3-t0]", "1[3-t1]", "plan-ref", 36},
    {"1[3-t0]", "1[3-2*t0]", "plan-ref", 36},
    {"1[3-t0]", "1[3-t12]", "plan-number", 36},
    {"1[3-t0]", "1[3-t0-t0]", "plan-text", 36},
    {"1[3-t0]", "1[t0-3]", "plan-text", 36},
    {"1[3-t0]", "1[4611686018427387904-4611686018427387904*t0]", "plan-ref", 36},
    {"1[3-t0]:64", "1[3-t0]:60", "plan-ref", 36},
    {"2:4  # 'b", "3[1]:4  # 'b", "plan-overlap", 36},
    {"2:4  # 'b", "2:4 2:4  # 'b", "plan-ref", 36},
    {" 2:4  # 'b", "  # 'b", "plan-ref", 36},
    {"3[t0]:64 2[t1]:4 4:256", "3[t0]:64 2[t1]:4 4@256:256", "plan-ref", 38},
    {"    end\n    copy", "    copy", "plan-text", 42},
    {"    copy 3[1", "    with stream 1\n    copy 3[1", "plan-order", 40},
    {"    copy 3[1", "    with stream 16\n    copy 3[1", "plan-order", 40},
    {"    copy 3[1", "    with wait 0\n    copy 3[1", "plan-order", 40},
    {"    copy 3[1", "    with wait 65537\n    copy 3[1", "plan-order", 40},
    {"    copy 3[1", "    with record 65537\n    copy 3[1", "plan-order", 40},
    {"    copy 3[1", "    with wait\n    copy 3[1", "plan-text", 40},
    {"    copy 3[1", "    with record\n    copy 3[1", "plan-text", 40},
    {"    copy 3[1", "    with ahead 1025\n    copy 3[1", "plan-limit", 40},
    {"    copy 3[1", "    with ahead\n    copy 3[1", "plan-text", 40},
    {"    copy 3[1", "    with record 1 wait 1\n    copy 3[1", "plan-text", 40},
    {"    repeat 2\n", "    with wait 1\n    repeat 2\n", "plan-order", 37},
    {"  copy 1:64 3:64", "  with ahead 1\n  copy 1:64 3:64", "plan-order", 24},
};

// Lines of the table refer to this text; a replacement keeps the number of lines but where it says so.
static char *replaced(const char *text, const broken_t *row) {
  const char *at = strstr(text, row->from);
  if (!at) return NULL;
  ptc_str_t out = {0};
  ptc_str_append_n(&out, text, (size_t)(at - text));
  ptc_str_append(&out, row->to);
  ptc_str_append(&out, at + strlen(row->from));
  return out.data;
}

static void check_broken(const char *json, const char *steps, const char *file,
                         const broken_t *row) {
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_plan_t *plan = NULL;
  const ptc_status_t status = parse(&diag, json, steps, &plan);
  const ptc_diagnostic_t *item = diag.num_items ? &diag.items[0] : NULL;
  const bool ok = status == PTC_INVALID_INPUT && !plan && diag.num_items == 1 &&
                  strcmp(item->id, row->id) == 0 && item->loc.line == row->line &&
                  strcmp(item->loc.file, file) == 0;
  if (!ok) {
    printf("\n\"%s\" -> \"%s\": wanted [%s] on line %d\n", row->from, row->to, row->id,
           (int)row->line);
    ptc_diag_print(&diag, stdout, PTC_DIAG_TEXT, false);
  }
  UNIT_CHECK(ok, row->to);
  ptc_plan_destroy(plan);
  ptc_diag_deinit(&diag);
}

static void test_broken_steps(void) {
  for (size_t i = 0; i < sizeof broken_steps / sizeof *broken_steps; ++i) {
    char *steps = replaced(good_steps, &broken_steps[i]);
    UNIT_CHECK(steps != NULL, broken_steps[i].from);
    if (steps) check_broken(good_json, steps, "stage0.steps", &broken_steps[i]);
    free(steps);
  }
}

static const broken_t broken_json[] = {
    {"\"version\": 3,", "\"version\": 1", "plan-json", 3},
    {"\"version\": 3,", "\"version\": 1,", "plan-version", 1},
    {"\"version\": 3,", "\"version\": \"1\",", "plan-json", 1},
    {"\"seq\": 8,", "\"seq\": -8,", "plan-json", 1},
    {"\"seq\": 8,", "\"seq\": 9223372036854775807,", "plan-json", 1},
    {"\"seq\": 8,", "\"sec\": 8,", "plan-json", 1},
    {"\"seq\": 8,", "", "plan-json", 1},
    {"\"seq\": 8,", "\"seq\": 8, \"seq\": 8,", "plan-json", 9},
    {"1.28e+04", "true", "plan-json", 1},
    {"0123abcd", "0123ABCD", "plan-json", 1},
    {"0123abcd", "../x", "plan-json", 1},
    {"\"k1_sum\"", "\"k2_sum\"", "plan-json", 1},
    {"\"path\": \"tokens\"", "\"path\": 3", "plan-json", 16},
    {"\"kind\": \"param\"", "\"kind\": \"weight\"", "plan-global", 18},
    {"\"kind\": \"param\"", "\"kind\": \"moment\"", "plan-global", 18},
    {"\"buffer\": 1", "\"buffer\": 6", "plan-global", 18},
    {"\"buffer\": 1", "\"buffer\": 99999999999", "plan-json", 18},
    {"\"batch_dim\": 0", "\"batch_dim\": 2", "plan-global", 16},
    {"\"range\": 256", "\"range\": -1", "plan-global", 16},
    {"\"source\": \"text\", ", "", "plan-global", 16},
    {"[[4, 0, 2]]", "[[5, 0, 2]]", "plan-global", 18},
    {"[[4, 0, 2]]", "[[4, -1, 2]]", "plan-global", 18},
    {"[[4, 0, 2]]", "[[4, 0, 0]]", "plan-global", 18},
    {"[[4, 0, 2]]", "[[4, 0, 4000000000000000000]]", "plan-global", 18},
    {"[[4, 0, 2]]", "[[4, 0]]", "plan-json", 18},
    {"[[4, 0, 2]]", "[]", "plan-global", 18},
    {"[[4, 0, 2]]", "4", "plan-json", 18},
    {"\"first_instance\": 1", "\"first_instance\": 2", "plan-global", 20},
    {"\"value\": \"inf\"", "\"value\": \"in\"", "plan-json", 20},
    {"\"open\": true", "\"open\": 1", "plan-json", 23},
    {"\"global\": \"lr\"", "\"global\": \"tokens\"", "plan-setting", 23},
    {"\"origin\": \"default\"", "\"from\": \"default\"", "plan-json", 24},
    {"\"arena_bytes\": 4096", "\"arena_bytes\": -1", "plan-json", 1},
};

static void test_broken_json(void) {
  for (size_t i = 0; i < sizeof broken_json / sizeof *broken_json; ++i) {
    char *json = replaced(good_json, &broken_json[i]);
    UNIT_CHECK(json != NULL, broken_json[i].from);
    if (json) check_broken(json, good_steps, "plan.json", &broken_json[i]);
    free(json);
  }
}

// More turns than can be looked at, in a text of a few lines.
static void test_limits(void) {
  ptc_str_t steps = {0};
  ptc_str_append(
      &steps,
      "steps 3\nkernel k0_gelu \"\"\n  params in:4 out:4\n  run 1: 1\n  needs workspace 0 "
      "scratch 0 flops 0 bytes 0\nkernel k1_sum \"\"\n  params\n  run 1: 1\n  needs "
      "workspace 0 scratch 0 flops 0 bytes 0\nbuffer 0 \"a\" temp f32 []\n  at "
      "0+0*1000000\nbuffer 1 \"b\" temp f32 []\n  at 64\ntask \"t\"\n  repeat 1000\n    repeat "
      "1000\n      repeat 1000000\n        launch k0_gelu 0[t2]:4 1:4\n        launch "
      "k0_gelu 0[t0+t1]:4 1:4\n        launch k0_gelu 0[999-t0]:4 1@0*t2:4\n");
  for (int i = 0; i < 90; ++i) ptc_str_append(&steps, "        launch k0_gelu 0[t2]:4 1:4\n");
  ptc_str_append(&steps, "      end\n    end\n  end\nend\n");
  static const char json[] =
      "{\"version\": 3, \"model\": \"\", \"target\": \"\", \"compiler_flags\": \"\", "
      "\"arena_bytes\": "
      "128, \"bound_bytes\": 0, \"batch\": 0, \"seq\": 0, \"flops_per_step\": 0, \"hashes\": "
      "{\"k0_gelu\": \"0\", \"k1_sum\": \"0\"}, \"globals\": [], \"settings\": []}";
  const broken_t row = {"", "turns", "plan-limit", 41};
  check_broken(json, steps.data, "stage0.steps", &row);
  ptc_str_deinit(&steps);
}

static void test_changed_bytes(void) {
  uint64_t random = unit_seed();
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    char *steps = strdup(good_steps), *json = strdup(good_json);
    char *text = i % 4 ? steps : json;
    const size_t len = strlen(text);
    for (uint64_t n = unit_random(&random) % 3 + 1; n > 0; --n) {
      const size_t at = (size_t)(unit_random(&random) % len);
      // Mostly a character of the text itself, for it to stay close to one that is accepted.
      text[at] =
          unit_random(&random) % 4 ? text[unit_random(&random) % len] : (char)unit_random(&random);
    }
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_plan_t *plan = NULL, *again = NULL;
    const ptc_status_t status = ptc_plan_parse(&diag, "plan.json", json, strlen(good_json),
                                               "stage0.steps", steps, strlen(good_steps), &plan);
    CU_ASSERT((status == PTC_OK) == (diag.num_errors == 0));
    if (plan) {
      accepted++;
      ptc_str_t first[2] = {{0}}, second[2] = {{0}};
      ptc_plan_print(plan, &first[0], &first[1]);
      CU_ASSERT_EQUAL_FATAL(parse(&diag, first[0].data, first[1].data, &again), PTC_OK);
      ptc_plan_print(again, &second[0], &second[1]);
      for (int f = 0; f < 2; ++f) {
        CU_ASSERT_STRING_EQUAL(first[f].data, second[f].data);
        ptc_str_deinit(&first[f]);
        ptc_str_deinit(&second[f]);
      }
    }
    ptc_plan_destroy(plan);
    ptc_plan_destroy(again);
    ptc_diag_deinit(&diag);
    free(steps);
    free(json);
  }
  printf("%d of 20000 accepted ", accepted);
  CU_ASSERT(accepted > 200);
}

// A seed of the fuzzer that is no plan any more leads it nowhere.
static void test_fuzz_seeds(void) {
  glob_t found;
  CU_ASSERT_EQUAL_FATAL(glob(PTC_SOURCE_DIR "/tests/fuzz/corpus_plan/*", 0, NULL, &found), 0);
  CU_ASSERT(found.gl_pathc >= 7);
  for (size_t i = 0; i < found.gl_pathc; ++i) {
    char *text;
    size_t len;
    CU_ASSERT_EQUAL_FATAL(ptc_read_file(found.gl_pathv[i], &text, &len), PTC_OK);
    char *mark = strstr(text, "\n%\n");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mark);
    mark[1] = '\0';
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_plan_t *plan;
    UNIT_CHECK(parse(&diag, text, mark + 3, &plan) == PTC_OK, found.gl_pathv[i]);
    ptc_plan_destroy(plan);
    ptc_diag_deinit(&diag);
    free(text);
  }
  globfree(&found);
}

static const unit_test_t tests[] = {
    {"text and back", test_round_trip},
    {"folder", test_folder},
    {"broken stage0.steps", test_broken_steps},
    {"broken plan.json", test_broken_json},
    {"limits", test_limits},
    {"changed bytes", test_changed_bytes},
    {"seeds of the fuzzer", test_fuzz_seeds},
};
UNIT_MAIN("plan text", tests)
