// Proves: the replay finds reads of bytes that were never written or are overwritten, in every turn; what
// cannot become a plan is refused with its own diagnostic.
#include "ir/module.h"
#include "ir/text.h"
#include "passes/lower_plan.h"
#include "tests/support/pass_runner.h"
#include "tests/support/unit.h"

static const char *first_id(const ptc_diag_t *diag) {
  return diag->num_items ? diag->items[0].id : "none";
}

static const char json[] =
    "{\"version\": 3, \"model\": \"\", \"target\": \"\", \"compiler_flags\": \"\", "
    "\"arena_bytes\": 1024, "
    "\"bound_bytes\": 0, \"batch\": 0, \"seq\": 0, \"flops_per_step\": 0, \"hashes\": {\"make\": "
    "\"0\", \"other\": \"0\", "
    "\"move\": \"0\", \"grow\": \"0\"}, \"globals\": [{\"path\": \"p\", \"kind\": \"param\", "
    "\"buffer\": "
    "0}], \"settings\": []}";

static const char head[] =
    "steps 3\n"
    "kernel make \"\"\n  params out:64\n  run 1: 1\n  needs workspace 0 scratch 0 flops 0 bytes 0\n"
    "kernel other \"\"\n  params out:64\n  run 1: 1\n  needs workspace 0 scratch 0 flops 0 bytes "
    "0\n"
    "kernel move \"\"\n  params in:64 out:64/0\n  run 1: 1\n  needs workspace 0 scratch 0 flops 0 "
    "bytes 0\n"
    "kernel grow \"\"\n  params inout:64\n  run 1: 1\n  needs workspace 64 scratch 0 flops 0 bytes "
    "0\n"
    "buffer 0 \"p\" param f32 [n=16]\n  at 0\n"
    "buffer 1 \"a\" temp f32 [n=16]\n  at 64\n"
    "buffer 2 \"b\" temp f32 [n=16]\n  at 128\n"
    "buffer 3 \"on a\" temp f32 [n=16]\n  at 64\n"
    "buffer 4 \"list\" temp f32 [n=16]\n  at 256+64*4\n"
    "buffer 5 \"crowded\" temp f32 [n=16]\n  at 512 576 512\n"
    "buffer 6 \"w\" workspace bool [n=64]\n  at 128\n"
    "buffer 7 \"on p\" temp f32 [n=16]\n  at 0\n"
    "buffer 8 \"wide\" temp f32 [n=32]\n  at 640\n";

typedef struct row_s {
  const char *steps, *id;
  int32_t line;  // of the task's text
} row_t;

static const row_t rows[] = {
    {"launch make 1:64\nlaunch move 1:64 2:64\n", "none", 0},
    {"launch move 1:64 2:64\n", "plan-uninitialized", 1},
    {"launch make 1:64\nlaunch other 3:64\nlaunch move 1:64 2:64\n", "plan-overwritten", 3},
    // Equal contents are as good as the ones that were there.
    {"launch make 1:64\nlaunch make 3:64\nlaunch move 1:64 2:64\n", "none", 0},
    // In place: then the operand is gone, the result is not.
    {"launch make 1:64\nlaunch move 1:64 3:64\nlaunch move 3:64 2:64\n", "none", 0},
    {"launch make 1:64\nlaunch move 1:64 3:64\nlaunch move 1:64 2:64\n", "plan-overwritten", 3},
    // A copy onto itself: both names hold the value.
    {"launch make 1:64\ncopy 1:64 3:64\nlaunch move 3:64 2:64\nlaunch move 1:64 2:64\n", "none", 0},
    {"launch make 1:64\ncopy 1:64 2:64\nlaunch make 3:64\nlaunch move 2:64 1:64\n", "none", 0},
    {"copy 1:64 2:64\n", "plan-uninitialized", 1},
    // The workspace of grow lies on b.
    {"launch make 2:64\nlaunch make 1:64\nlaunch grow 1:64 6:64\nlaunch move 2:64 1:64\n",
     "plan-overwritten", 4},
    {"launch grow 1:64 6:64\n", "plan-uninitialized", 1},
    // Instances of turns.
    {"repeat 4\nlaunch make 4[t0]:64\nend\nrepeat 4\nlaunch move 4[3-t0]:64 2:64\nend\n", "none",
     0},
    {"repeat 3\nlaunch make 4[t0]:64\nend\nrepeat 4\nlaunch move 4[t0]:64 2:64\nend\n",
     "plan-uninitialized", 5},
    {"launch make 4:64\nrepeat 3\nlaunch move 4[t0]:64 4[1+t0]:64\nend\n", "none", 0},
    {"launch make 4:64\nrepeat 3 reverse\nlaunch move 4[t0]:64 4[1+t0]:64\nend\n",
     "plan-uninitialized", 3},
    {"repeat 3\nlaunch make 5[t0]:64\nend\nlaunch move 5[2]:64 2:64\n", "none", 0},
    {"repeat 3\nlaunch make 5[t0]:64\nend\nlaunch move 5:64 2:64\n", "plan-overwritten", 4},
    // Parts.
    {"launch make 1:64\ncopy 1@32:32 8@64:32\ncopy 8@80:16 2:16\n", "none", 0},
    {"launch make 1:64\ncopy 1@32:32 8@64:32\ncopy 8@88:16 2:16\n", "plan-uninitialized", 3},
    {"launch make 1:64\nrepeat 2\ncopy 1:64 8@64*t0:64\nend\ncopy 8@32:64 2:64\n", "none", 0},
    // At the end globals and results are there.
    {"launch make 7:64\n", "plan-overwritten", 0},
    {"launch make 0:64\n", "none", 0},
    {"repeat 1000000\nrepeat 1000000\nend\nend\n", "plan-limit", 2},
    {"repeat 1000000\nrepeat 1000000\nlaunch make 1:64\nend\nend\n", "plan-limit", 3},
};

static void check_replay(const char *task, const row_t *row) {
  ptc_str_t text = {0};
  ptc_str_printf(&text, "%s%s%send\n", head, task, row->steps);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_plan_t *plan = NULL;
  ptc_status_t status =
      ptc_plan_parse(&diag, "plan.json", json, strlen(json), "steps", text.data, text.len, &plan);
  UNIT_CHECK(status == PTC_OK, row->steps);
  int32_t first_line = 1;
  for (const char *c = text.data; c < text.data + strlen(head) + strlen(task); ++c)
    first_line += *c == '\n';
  if (plan) {
    status = ptc_plan_verify(&diag, plan);
    UNIT_CHECK((status == PTC_OK) == (strcmp(row->id, "none") == 0), row->steps);
    UNIT_CHECK(strcmp(first_id(&diag), row->id) == 0, row->steps);
    if (row->line > 0 && diag.num_items)
      UNIT_CHECK(diag.items[0].loc.line == first_line + row->line - 1, row->steps);
  }
  if (strcmp(first_id(&diag), row->id) != 0) {
    printf("\n%swanted %s\n", row->steps, row->id);
    ptc_diag_print(&diag, stdout, PTC_DIAG_TEXT, false);
  }
  ptc_plan_destroy(plan);
  ptc_str_deinit(&text);
  ptc_diag_deinit(&diag);
}

static void test_replay(void) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) check_replay("task \"t\"\n", &rows[i]);
  // A result must last until the end.
  check_replay("task \"t\"\nresult \"r\" output 1 0 1\n",
               &(row_t){"launch make 1:64\nlaunch other 3:64\n", "plan-overwritten", -1});
  check_replay("task \"t\"\nresult \"r\" output 1 0 1\n", &(row_t){"", "plan-uninitialized", -1});
}

// --- ledgers

static const char owed[] =
    "repeat 3\nlaunch make 4[t0]:64\nend\ncopy 4[2]:64 1:64\nlaunch grow 1:64 6:64\n"
    "launch grow 1:64 6:64\nlaunch move 1:64 0:64\n";

// The task of |steps| with the ledger that |owed| states.
static void test_ledger(void) {
  static const struct {
    const char *from, *to, *id, *says;
  } changes[] = {
      {"", "", "none", ""},
      {"launch grow 1:64 6:64\nlaunch grow 1:64 6:64\n", "launch grow 1:64 6:64\n", "plan-ledger",
       "launches grow 1 times; its ops need 2"},
      {"launch move 1:64 0:64\n", "launch move 1:64 0:64\nlaunch grow 0:64 6:64\n", "plan-ledger",
       "launches grow 3 times"},
      {"launch move 1:64 0:64\n", "launch move 1:64 0:64\nlaunch other 2:64\n", "plan-ledger",
       "launches other 1 times; its ops need 0"},
      {"copy 4[2]:64", "copy 4[1]:64", "plan-ledger", "leaves a value in p"},
      {"launch move 1:64 0:64\n", "launch move 1:64 2:64\n", "plan-ledger", "leaves a value in p"},
      {"launch grow 1:64 6:64\nlaunch move 1:64 0:64\n",
       "launch move 1:64 0:64\nlaunch grow 1:64 6:64\n", "plan-ledger", "leaves a value in p"},
      // Which of two independent steps comes first makes no difference.
      {"launch grow 1:64 6:64\nlaunch grow 1:64 6:64\nlaunch move 1:64 0:64\n",
       "launch grow 1:64 6:64\ncopy 0:64 2:64\nlaunch grow 1:64 6:64\nlaunch move 1:64 0:64\n",
       "none", ""},
  };
  ptc_str_t text = {0}, json_text = {0}, printed = {0};
  ptc_str_printf(&text,
                 "%stask \"t\"\nowes exchanges 0 transfers 0\n"
                 "launches make*3 grow*2 move*1\nend\n%send\n",
                 head, owed);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_plan_t *plan = NULL;
  CU_ASSERT_EQUAL_FATAL(
      ptc_plan_parse(&diag, "plan.json", json, strlen(json), "steps", text.data, text.len, &plan),
      PTC_OK);
  CU_ASSERT_EQUAL(ptc_plan_state_values(&diag, plan), PTC_OK);
  CU_ASSERT_EQUAL(plan->tasks[0].ledger->num_made, 1);
  ptc_plan_print(plan, &json_text, &printed);
  const uint64_t digest = plan->tasks[0].ledger->made[0].digest;
  ptc_plan_destroy(plan);
  for (size_t i = 0; i < sizeof changes / sizeof *changes; ++i) {
    const char *at = strstr(owed, changes[i].from);
    ptc_str_t changed = {0};
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    ptc_str_printf(&changed,
                   "%stask \"t\"\nowes exchanges 0 transfers 0\n"
                   "launches make*3 grow*2 move*1\nglobal 0 %016llx\nend\n%.*s%s%send\n",
                   head, (unsigned long long)digest, (int)(at - owed), owed, changes[i].to,
                   at + strlen(changes[i].from));
    ptc_diag_t found;
    ptc_diag_init(&found);
    ptc_plan_t *other = NULL;
    const ptc_plan_t *const *plans = (const ptc_plan_t *const *)&other;
    const bool parsed = ptc_plan_parse(&found, "plan.json", json, strlen(json), "steps",
                                       changed.data, changed.len, &other) == PTC_OK;
    UNIT_CHECK(parsed, changes[i].to);
    const bool ok = parsed && ptc_plan_prove(&found, plans, 1) == PTC_OK;
    UNIT_CHECK(ok == (strcmp(changes[i].id, "none") == 0), changes[i].to);
    UNIT_CHECK(strcmp(first_id(&found), changes[i].id) == 0, changes[i].to);
    UNIT_CHECK(ok || !found.num_items || strstr(found.items[0].message, changes[i].says),
               found.num_items ? found.items[0].message : "");
    if (ok && i == 0) {  // and it reads back
      ptc_str_t again_json = {0}, again = {0};
      ptc_plan_print(other, &again_json, &again);
      CU_ASSERT_STRING_EQUAL(again.data, printed.data);
      ptc_str_deinit(&again_json);
      ptc_str_deinit(&again);
    }
    ptc_plan_destroy(other);
    ptc_diag_deinit(&found);
    ptc_str_deinit(&changed);
  }
  ptc_str_deinit(&text);
  ptc_str_deinit(&json_text);
  ptc_str_deinit(&printed);
  ptc_diag_deinit(&diag);
}

// --- what cannot be lowered

typedef enum mark_e { MARK_NOTHING, MARK_FUSED, MARK_INLINE, MARK_ONE_KERNEL } mark_t;

static const struct {
  const char *text, *id;
  mark_t mark;
} refused[] = {
    {"module \"t\"\ninput @x : f32[a=2]\nfunc @f(%x = @x) {\n  %1 = neg %x : f32[a=2]\n"
     "  return output \"a\" = %1\n}\n",
     "plan-unfused", MARK_NOTHING},
    {"module \"t\"\ninput @x : f32[a=2]\nfunc @f(%x = @x) {\n"
     "  %1 = neg %x : f32[a=2]\n  return output \"a\" = %1\n}\n",
     "plan-no-place", MARK_INLINE},
    {"module \"t\"\nmesh [\"micro\"=2]\ninput @x : f32[b=2]\nfunc @f(%x = @x) {\n"
     "  %1 = shard %x {dim = b, axis = \"micro\"} : f32[b=2 \"micro\"]\n"
     "  return output \"a\" = %1\n}\n",
     "plan-axis", MARK_FUSED},
    {"module \"t\"\nparam @\"w.*\" turns (0:1) : 3000000000 x f32[]\nfunc @f(%w = @\"w.*\" (0:1)) "
     "{\n"
     "  return\n}\n",
     "plan-size", MARK_FUSED},
    {"module \"t\"\nparam @\"w.*\" turns (0:1) : 2 x f32[]\n"
     "param @\"u.*\" turns (0:1) : 3 x f32[]\n"
     "func @f(%w = @\"w.*\" (0:1), %u = @\"u.*\" (0:1)) {\n"
     "  %1 = cast %w {to = \"f64\"} : 2 x f64[]\n  %2 = cast %u {to = \"f64\"} : 3 x f64[]\n"
     "  return output \"a\" = %1, output \"b\" = %2\n}\n",
     "plan-bundles", MARK_ONE_KERNEL},
};

static void check_refused(const char *text, const char *id, mark_t mark) {
  program_t program;
  program_parse(&program, text);
  UNIT_CHECK(program.module != NULL, id);
  if (!program.module) return;
  for (ptc_op_t *op = program.module->funcs->body->first; op; op = op->next) {
    if (op->opcode == PTC_OP_RETURN) continue;
    if (mark == MARK_INLINE) ptc_attrs_set_bool(program.module, &op->attrs, "inline", true);
    if (mark == MARK_ONE_KERNEL) ptc_attrs_set_int(program.module, &op->attrs, "kernel", 1);
  }
  if (mark == MARK_FUSED)
    UNIT_CHECK(run_passes_unchecked(program.module, "fuse", false) == PTC_OK, id);
  ptc_pass_ctx_t ctx;
  ptc_pass_ctx_init(&ctx, NULL);
  ptc_plan_t *plan = NULL;
  const ptc_kernel_t *const *kernels;
  UNIT_CHECK(ptc_lower_plan(&ctx, program.module, &plan, &kernels) != PTC_OK, id);
  UNIT_CHECK(!plan && strcmp(first_id(&program.diag), id) == 0, id);
  if (strcmp(first_id(&program.diag), id) != 0)
    ptc_diag_print(&program.diag, stdout, PTC_DIAG_TEXT, false);
  ptc_plan_destroy(plan);
  ptc_pass_ctx_deinit(&ctx);
  program_deinit(&program);
}

// A body in |depth| repeats.
static void write_nest(int depth, ptc_str_t *out) {
  ptc_str_append(out, "module \"t\"\ninput @x : f32[a=2]\nfunc @f(%x = @x) {\n");
  for (int d = 0; d < depth; ++d) {
    char carried[16];
    snprintf(carried, sizeof carried, d ? "%%c%d" : "%%x", d - 1);
    ptc_str_printf(out, "  %%r%d = repeat {count = 2} index %%i%d carry(%%c%d = %s) {\n", d, d, d,
                   carried);
  }
  ptc_str_printf(out, "  %%y = neg %%c%d : f32[a=2]\n  yield carry(%%y)\n", depth - 1);
  for (int d = depth - 1; d > 0; --d)
    ptc_str_printf(out, "  } : f32[a=2]\n  yield carry(%%r%d)\n", d);
  ptc_str_append(out, "  } : f32[a=2]\n  return output \"a\" = %r0\n}\n");
}

static void test_refused(void) {
  for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i)
    check_refused(refused[i].text, refused[i].id, refused[i].mark);
  ptc_str_t text = {0};
  write_nest(PTC_PLAN_MAX_LEVELS + 1, &text);
  check_refused(text.data, "plan-levels", MARK_FUSED);
  ptc_str_deinit(&text);
}

// More steps than can be placed.
static void test_too_long(void) {
  ptc_str_t text = {0};
  ptc_str_printf(&text,
                 "%stask \"t\"\nrepeat 100000\nrepeat 1000\nlaunch make 1@0*t0:64\n"
                 "launch move 1:64 2:64\nend\nrepeat 2\nrepeat 2\nrepeat 2\n"
                 "launch move 1:64 2:64\nend\nend\nend\nend\nend\n",
                 head);
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_plan_t *plan = NULL;
  CU_ASSERT_EQUAL_FATAL(
      ptc_plan_parse(&diag, "plan.json", json, strlen(json), "steps", text.data, text.len, &plan),
      PTC_OK);
  // Turns that use the same instances again are walked twice, however many they are.
  CU_ASSERT_EQUAL(ptc_plan_memory(&diag, plan), PTC_OK);
  CU_ASSERT_EQUAL(plan->arena_bytes, plan->bound_bytes);
  // Here each turn has a place of its own.
  ptc_step_t *outer = &plan->tasks[0].steps[0];
  for (int32_t i = 0; i < outer->body[0].num_steps; ++i)
    for (int32_t a = 0; a < outer->body[0].body[i].num_args; ++a) {
      outer->body[0].body[i].args[a].byte_offset.coef[0] = 4;
      outer->body[0].body[i].args[a].byte_offset.coef[1] = 4;
    }
  outer->num_steps = 1;
  CU_ASSERT_EQUAL(ptc_plan_memory(&diag, plan), PTC_UNSUPPORTED);
  CU_ASSERT_STRING_EQUAL(first_id(&diag), "plan-too-long");
  ptc_plan_destroy(plan);
  ptc_str_deinit(&text);
  ptc_diag_deinit(&diag);
}

static const unit_test_t tests[] = {{"replay", test_replay},
                                    {"ledgers", test_ledger},
                                    {"what cannot be lowered", test_refused},
                                    {"more steps than can be placed", test_too_long}};
UNIT_MAIN("plan verify", tests)
